//! Common planar tasks from memory to memory, without intermediate tensors. `pe.rs` executes every
//! form.

pub(crate) mod registry;

use crate::direct::{Operands, views};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::numerics::Parameters;
use anemone_conv::Im2col;
use anemone_conv::elementwise::{self, Binary};
use anemone_facts::Field::*;
use anemone_facts::code::{class, condition, first, planar, planar_nonlinear, pool, residency, second};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::axes::{Elementwise, OperandAxes};
use anemone_kernels::cost;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::TensorView;

impl Machine<'_> {
    /// Returns true if source 1 and the result are read and stored without broadcast, transposition, scale or condition. In the exact models the
    /// epilogue must not scale either, so that fp32 represents every value.
    pub(crate) fn is_plain(&self) -> bool {
        let clear = [Src1BroadcastW, Src1BroadcastH, Src1BroadcastC, Src1Transpose, ResultTranspose];
        let unscaled = f32::from_bits(self.get(PeFinalScale)) == 1.0
            && self.half(PeScale) == 1.0
            && self.get(PeBias) == 0
            && self.get(PeNonlinear) == planar_nonlinear::NONE;
        (self.model.rounding().is_none() || unscaled)
            && clear.iter().all(|&f| self.get(f) == 0)
            && self.half(PePreScale) == 1.0
            && self.get(PeCond) == condition::NONE
    }

    /// Returns true if two sources are combined without scale or transposition; source 2 may be broadcast along rows and channels.
    pub(crate) fn is_plain_pair(&self) -> bool {
        // A source that is kept in tile memory may overwrite source 2.
        self.is_plain()
            && self.get(SrcType) != residency::DMA_KEEP
            && self.get(PeFirst) == first::SOURCE
            && self.get(PeSecond) == second::SOURCE
            && self.get(Src2Transpose) == 0
            && self.get(Src2BroadcastW) == 0
    }

    /// Returns true if the task adds two tensors in fp32 and does nothing else.
    pub(crate) fn is_sum(&self) -> bool {
        let ext = self.input_extents();
        let clear = [Src2BroadcastH, Src2BroadcastC, InputRelu, Src2InputRelu];
        self.get(TaskClass) == class::PLANAR_TWO
            && [Cout, Hout, Wout].map_each(|f| self.size(f)) == [ext.c, ext.h, ext.w]
            && self.get(PeOp) == planar::ADD
            && self.model.rounding().is_none()
            && self.is_plain_pair()
            && clear.iter().all(|&f| self.get(f) == 0)
            && self.ending::<f32>().is_ok_and(|ending| ending.is_idle())
    }

    /// Combines two sources element by element.
    pub(crate) fn combine_in_place(&mut self, operands: &Operands) -> Result<(), FaultKind> {
        let (ext, op) = (self.input_extents(), self.operation::<f32>(false)?.op);
        ext.elements()?;
        let bound = self.bind(operands)?;
        let (a, b, to) = (&bound.from, bound.second.as_ref().unwrap_or(&bound.from), &bound.to);
        let (ending, rules) = (self.ending::<f32>()?, self.model.rounding());
        let relus = [InputRelu, Src2InputRelu].map_each(|f| self.get(f) == 1);
        let strides = b.repeated(self.get(Src2BroadcastH) == 1, self.get(Src2BroadcastC) == 1);
        let workers = self.workers;
        let mut aside = workers.aside();
        // Source 1 may be in the result buffer.
        let is_second = a.is_that_of(to, ext);
        let (target, one, other) = if is_second || b.is_that_of(to, ext) && strides == b.strides {
            let (span, strides) = if is_second { (b, strides) } else { (a, a.strides) };
            let ([data], target) = views(self.memory, self.l2, [span], to, &mut aside)?;
            (target, TensorView { data, strides }, None)
        } else {
            let ([x, y], target) = views(self.memory, self.l2, [a, b], to, &mut aside)?;
            (target, TensorView { data: x, strides: a.strides }, Some(TensorView { data: y, strides }))
        };
        let axes = |of: TensorView| OperandAxes { strides: of.strides, one_column: false };
        let (mut one, mut other, mut rows, mut strides) = (one, other, ext, to.strides);
        match &mut other {
            _ if !Elementwise::<1>::is_worth_joining(ext) => {}
            Some(other) => {
                let joined = Elementwise { ext, to: strides, operands: [axes(one), axes(*other)] }.joined();
                if joined.operands.iter().all(|of| !of.one_column) {
                    [one.strides, other.strides] = joined.operands.map_each(|of| of.strides);
                    (rows, strides) = (joined.ext, joined.to);
                }
            }
            None => {
                let joined = Elementwise { ext, to: strides, operands: [axes(one)] }.joined();
                if let [OperandAxes { strides: from, one_column: false }] = joined.operands {
                    one.strides = from;
                    (rows, strides) = (joined.ext, joined.to);
                }
            }
        }
        let of = Binary { op, ending: &ending, rules, one, other, is_second, relus };
        elementwise::combine(workers, of, target, rows, strides);
        self.done(&bound)
    }

    /// Pools one source.
    pub(crate) fn pool_in_place(&mut self, operands: &Operands) -> Result<(), FaultKind> {
        let (input, max) = (self.input_extents(), self.get(PePool) == pool::MAX);
        let output = Extents { h: self.size(Hout), w: self.size(Wout), ..input };
        let window = self.pooling_window().over(input, output);
        let bound = self.bind(operands)?;
        let (from, to) = (&bound.from, &bound.to);
        let (ending, rules, workers) = (self.ending::<f32>()?, self.model.rounding(), self.workers);
        let staging = {
            let reads = output.elements()? * window.elements();
            Im2col::new(window, 1, true, output, workers.threads_for(cost::elementwise(reads)))?
        };
        let mut aside = workers.aside();
        let ([data], target) = views(self.memory, self.l2, [from], to, &mut aside)?;
        let source = TensorView { data, strides: from.strides };
        elementwise::pool(workers, &staging, max, &ending, rules, source, target, output, to.strides);
        self.done(&bound)
    }
}
