//! Several tasks at once that multiply one source, each for the next channels of one result that is stored turned: that is what a
//! layer with more coefficients than one task may have is cut into. The source is then packed once for all of them. Results have
//! the same bits.

use super::pair::kernels_of;
use super::{Step, Work};
use crate::direct::Direct;
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory;
use crate::ne::Neural;
use anemone_facts::Field::*;
use anemone_facts::code::residency;
use anemone_kernels::conv::{BatchMember, convolve_pointwise};
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut, nested, reach};

/// A task that may be part of a fan, with its coefficients and epilogue.
struct Candidate<'a> {
    neural: &'a Neural,
    /// Number of taps of an output.
    taps: usize,
    member: BatchMember<'a>,
}

impl Candidate<'_> {
    /// Returns true if input extents and taps are equal, and results differ in their channels at most.
    fn is_like(&self, other: &Candidate) -> bool {
        let of = |one: &Candidate| (one.neural.input, one.taps, Extents { c: 0, ..one.neural.output });
        of(self) == of(other)
    }
}

impl Machine<'_> {
    /// Number of tasks that may be executed as one, from each task on.
    pub(crate) fn fans(&mut self, steps: &[Step]) -> Vec<usize> {
        let mut counts = vec![1; steps.len()];
        for (i, [one, next]) in steps.array_windows().enumerate().rev() {
            let both = self.at(one).candidate(one).zip(self.at(next).candidate(next));
            if both.is_some_and(|(one, next)| one.is_like(&next)) {
                counts[i] = counts[i + 1] + 1;
            }
        }
        counts
    }

    /// The task at hand as a member of a fan; `None` if it does anything else.
    fn candidate<'a>(&self, step: &'a Step) -> Option<Candidate<'a>> {
        let Work::Neural(neural) = &step.work else { return None };
        let (convolution, kernels) = kernels_of(&step.work)?;
        let known = !matches!(neural.activation, Activation::Unread);
        let plain = [InputRelu, PostScaleMode].iter().all(|&field| self.get(field) == 0)
            && self.depth_window().is_none()
            && self.depths() == (0..1)
            && [residency::DMA, residency::L2].contains(&self.get(SrcType));
        let suits = convolution.staging.is_pointwise() && !kernels.are_blocks() && neural.output.w > 1;
        let in_place = self.in_place(neural).is_ok();
        if self.mac.is_some() || self.get(NeTranspose) != 1 || !known || !plain || !suits || !in_place {
            return None;
        }
        let finish = Epilogue { bias: self.added(), scale: self.factor(), activation: &neural.activation };
        Some(Candidate { neural, taps: convolution.taps(), member: BatchMember { kernels, finish } })
    }

    /// Does tasks at once that [`Machine::fans`] counts. False, and nothing is done, where what they read and leave is not
    /// found to be of one source and one result.
    pub(crate) fn fan(&mut self, steps: &[Step]) -> Result<bool, FaultKind> {
        let mut members = Vec::with_capacity(steps.len());
        let mut whole: Option<(Direct, Extents)> = None;
        for step in steps {
            let mut machine = self.at(step);
            let Some(Candidate { neural, member, .. }) = machine.candidate(step) else { return Ok(false) };
            let ext = neural.output;
            let Some(direct) = machine.direct(neural.input, ext.transposed())?.filter(Direct::goes_once) else {
                return Ok(false);
            };
            members.push(member);
            let Some((first, all)) = &mut whole else {
                whole = Some((direct, ext));
                continue;
            };
            // Channels are columns of what is stored.
            let goes_on = (direct.to.home, direct.to.strides, direct.to.range.start)
                == (first.to.home, first.to.strides, first.to.range.start + all.c);
            if !goes_on || !direct.from.is_that_of(&first.from, neural.input) {
                return Ok(false);
            }
            all.c += ext.c;
        }
        let Some((Direct { from, mut to, .. }, ext)) = whole else { return Ok(false) };
        let stored = ext.transposed();
        to.range.end = to.range.start + reach(stored, to.strides);
        // A later task would read what an earlier one wrote.
        if !nested(stored, to.strides) || from.overlaps(&to) {
            return Ok(false);
        }
        let mut aside = self.workers.aside();
        let Some(([data], target)) = memory::views(self.memory, self.l2, [from.part()], to.part(), &mut aside) else {
            return Ok(false);
        };
        let source = TensorView { data, strides: from.strides };
        let target = TensorViewMut { data: target, strides: to.strides, transposed: true };
        convolve_pointwise(self.workers, &members, source, target, ext);
        Ok(true)
    }
}
