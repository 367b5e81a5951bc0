//! Tasks that are executed from memory to memory.

use super::{Neural, Operation};
use crate::direct::{Operands, Span, views};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_conv::exact::Groups;
use anemone_facts::Field::*;
use anemone_kernels::epilogue::{self, Activation, CopyEpilogue, Epilogue};
use anemone_kernels::table::Table;
use anemone_kernels::view::{TensorView, TensorViewMut};
use std::sync::Arc;

/// Computations that a plan adds to those of a task's fields.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// Table in place of an activation, for a convolution in fp32 without one.
    pub(crate) after: Option<&'a Arc<Table>>,
    /// Factors of the channels of the source, for a convolution whose kernel scales it. Products are rounded to fp16.
    pub(crate) factors: Option<&'a Span>,
}

impl Machine<'_> {
    /// Executes the task from memory to memory, without intermediate tensors.
    pub(crate) fn compute_in_place(
        &mut self,
        neural: &Neural,
        operands: &Operands,
        Beside { after, factors }: Beside,
    ) -> Result<(), FaultKind> {
        let convolution = match &neural.operation {
            Operation::Convolution(convolution) => Some(convolution),
            _ => None,
        };
        let (exact, turned) = (self.model.rounding().is_some(), self.get(NeTranspose) == 1);
        let bound = self.bind(operands)?;
        let (from, to) = (&bound.from, &bound.to);
        let activation = match after {
            Some(table) => Activation::Table(table.clone()),
            None if exact => Activation::None,
            None => self.activation_of(neural)?,
        };
        let exactly = neural.exactly.as_ref();
        let finish = Epilogue { bias: self.added(), scale: self.factor(), activation: &activation };
        let read = convolution.map(|c| self.unless_kept(c, neural)).transpose()?.flatten();
        let workers = self.workers;
        let mut aside = workers.aside();
        let packed = convolution.and_then(|c| Some((c, c.coefficients.as_ref().or(read.as_ref())?)));
        let unsuited = self.inconsistent(KernelMode, "coefficients are packed for another accumulator");
        let (data, of_channels, target) = match factors {
            None => {
                let ([data], target) = views(self.memory, self.l2, [from], to, &mut aside)?;
                (data, None, target)
            }
            Some(factors) => {
                let ([data, of], target) = views(self.memory, self.l2, [from, factors], to, &mut aside)?;
                (data, Some(of.iter().step_by(factors.strides[1].max(1)).copied().collect::<Vec<_>>()), target)
            }
        };
        let source = TensorView { data, strides: from.strides };
        let target = TensorViewMut { data: target, strides: to.strides, transposed: turned };
        let extents = [neural.input, neural.output];
        match packed {
            None => {
                let ending = exactly.map_or(CopyEpilogue::Fast(&finish), CopyEpilogue::Exact);
                epilogue::copy(workers, &ending, source, target, neural.output);
            }
            Some((c, Packed::Fast(kernels))) => {
                c.convolve_fast(workers, kernels, &finish, source, of_channels.as_deref(), target, extents);
            }
            Some((c, Packed::Exact(groups))) => {
                let of = c.exact(self.mac, exactly, Groups::Sets(groups)).ok_or(unsuited)?;
                c.convolve_exact(workers, &of, source, target, extents);
            }
            Some((c, Packed::ExactBlocks(kernels))) => {
                let of = c.exact(self.mac, exactly, Groups::Blocks(kernels)).ok_or(unsuited)?;
                c.convolve_exact(workers, &of, source, target, extents);
            }
            Some((_, Packed::Scaled(_))) => return Err(unsuited),
        }
        self.done(&bound)
    }
}
