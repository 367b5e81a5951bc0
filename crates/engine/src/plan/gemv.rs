//! Matrix-vector products (GEMV) with constant coefficients, from memory to memory; operands are resolved at planning.

use super::Step;
use super::maps::MapOperand;
use super::ops::{Kind, Op};
use crate::machine::Machine;
use crate::ne::{Neural, Operation};
use crate::numerics::Parameters;
use crate::packed::Packed;
use anemone_conv::Kernels;
use anemone_facts::Field::NeTranspose;
use anemone_kernels::epilogue::Activation;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::Strides;
use std::ops::Range;

/// A pointwise convolution with a single output position.
#[derive(Clone)]
pub struct Gemv {
    pub(crate) input: Extents,
    /// Extents of the result before it is transposed, and as stored.
    pub(crate) output: Extents,
    pub(crate) stored: Extents,
    pub(crate) source: MapOperand,
    pub(crate) to: MapOperand,
    pub(crate) kernels: Kernels,
    pub(crate) bias: f32,
    pub(crate) scale: f32,
    pub(crate) activation: Activation,
}

impl Gemv {
    /// The product as an operation.
    pub(super) fn op(self, tasks: Range<usize>) -> Op {
        let (reads, writes) = (vec![self.source.of(self.input)], vec![self.to.of(self.stored)]);
        Op { tasks, reads, writes, kind: Kind::Gemv(Box::new(self)), known: true }
    }

    /// Strides of the result: the channels of a single column, stored as a row, have stride 1.
    pub(crate) fn strides(&self) -> Strides {
        let [group, channel, row] = self.to.axes.strides;
        [group, if self.stored == self.output { channel } else { 1 }, row]
    }
}

impl Machine<'_> {
    /// The current task as an fp32 matrix-vector product; `None` for other tasks, and for several depth planes.
    pub(super) fn as_gemv(&self, step: &Step, neural: &Neural) -> Option<Gemv> {
        let Operation::Convolution(of) = &neural.operation else { return None };
        let Some(Packed::Fast(kernels)) = &of.coefficients else { return None };
        let several = self.depths() != (0..1) || self.source_depths() != (0..1);
        let reads = step.reads_streams() || self.model.rounding().is_some();
        if several || reads || !of.staging.is_gemv() || self.computes_in_place(neural).is_err() {
            return None;
        }
        let (input, output) = (neural.input, neural.output);
        let stored = if self.get(NeTranspose) == 1 { output.transposed() } else { output };
        Some(Gemv {
            input,
            output,
            stored,
            source: self.first_source([false; 3])?,
            to: self.map_result(stored)?,
            kernels: kernels.clone(),
            bias: self.added(),
            scale: self.factor(),
            activation: neural.activation.clone(),
        })
    }
}
