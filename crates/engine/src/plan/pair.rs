//! Fusion of a pointwise convolution, or one of few taps, with the depthwise convolution that alone reads its result, in tile memory or in
//! the program's own: a few channels at a time are computed, rounded as they would be stored, and used. A pointwise convolution behind
//! them takes the depthwise result in blocks of channels ([`anemone_kernels::conv::nchwc`]), and adds a residual on its way to memory.
//! Intermediate results are not stored. Results have the same bits.

use super::access::Accesses;
use super::{Step, Work};
use crate::direct::{Direct, Span};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{self, Home};
use crate::ne::{Convolution, Neural, Operation};
use crate::operand::MemRef;
use crate::packed::Packed;
use anemone_facts::Field::*;
use anemone_facts::code::{format, residency};
use anemone_kernels::conv::exact::Sets;
use anemone_kernels::conv::nchwc::{self, Accumulator, ExactAccumulator, Operand, ResidualAdd};
use anemone_kernels::conv::{FusedDepthwise, Kernels, RepackCache, can_fuse_depthwise};
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::exact::{self, bounds};
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, TensorView, TensorViewMut, dense};
use anemone_kernels::workers::Aside;
use anemone_kernels::workers::scratch_slice;
use anemone_program::Program;

/// Results of tasks that are compared with what others read, at most.
const MOST_WRITTEN: usize = 64;

/// A convolution that may be done together with others, and how many channels a group of its result has: its coefficients are
/// known, and no table is behind it.
fn candidate<'a>(work: &'a Work, mac: Option<&AccumulatorSpec>) -> Option<(&'a Convolution, usize)> {
    let Work::Neural(neural) = work else { return None };
    let Operation::Convolution(convolution) = &neural.operation else { return None };
    if convolution.sequence {
        return None;
    }
    match convolution.coefficients.as_ref()? {
        Packed::Fast(_) if matches!(neural.activation, Activation::Unread | Activation::Table(_)) => None,
        Packed::Fast(kernels) => Some((convolution, kernels.channels())),
        Packed::Exact(groups) => {
            neural.exactly.as_ref()?.bounds().filter(|_| mac.is_some_and(bounds::suits))?;
            let (sets, _) = groups.first()?;
            Some((convolution, sets.iter().map(|set| set.rows()).sum()))
        }
        Packed::ExactBlocks(_) | Packed::Scaled(_) => None,
    }
}

/// A convolution whose coefficients are known in panels.
pub(super) fn kernels_of(work: &Work) -> Option<(&Convolution, &Kernels)> {
    let Work::Neural(neural) = work else { return None };
    let Operation::Convolution(convolution) = &neural.operation else { return None };
    match convolution.coefficients.as_ref()? {
        Packed::Fast(kernels) | Packed::ExactBlocks(kernels) => Some((convolution, kernels)),
        Packed::Exact(_) | Packed::Scaled(_) => None,
    }
}

/// Puts channels side by side in the coefficients of tasks that are done together, so many from each one on; and in those of the exact
/// array's that have a single output.
pub(crate) fn put_in_blocks(steps: &mut [Step], together: &[usize], mac: Option<&AccumulatorSpec>) {
    let mut done = 0;
    let (mut kernels_again, mut sets_again) = (RepackCache::default(), RepackCache::default());
    for (i, step) in steps.iter_mut().enumerate() {
        let count = together.get(i).copied().filter(|&count| count > 1).unwrap_or(0);
        done = done.max(i + count);
        let is_gemv = candidate(&step.work, mac).is_some_and(|(one, _)| one.staging.is_gemv());
        let Work::Neural(neural) = &mut step.work else { continue };
        let Operation::Convolution(convolution) = &mut neural.operation else { continue };
        match &mut convolution.coefficients {
            Some(Packed::Fast(kernels)) if i < done => kernels.repack_nchwc16(&mut kernels_again),
            Some(Packed::Exact(groups)) if i < done || is_gemv => {
                let staging = &convolution.staging;
                let kernels = sets_again.get(std::mem::take(groups), usize::from(is_gemv), |groups: Vec<Sets>| {
                    let groups = groups.into_iter().map(|(sets, biases)| (exact::all_rows(sets), biases));
                    Kernels::abreast(staging, groups.collect())
                });
                convolution.coefficients = Some(Packed::ExactBlocks(kernels));
            }
            _ => {}
        }
    }
}

impl Machine<'_> {
    /// Number of tasks that can be fused, from each one on; empty if none can. `accesses` are those of all tasks.
    pub(crate) fn together(&mut self, steps: &[Step], accesses: &[Option<Accesses>]) -> Vec<usize> {
        let mac = self.mac;
        let convolution = |i: usize| steps.get(i).and_then(|step| candidate(&step.work, mac));
        let may = |i: usize| match (convolution(i), convolution(i + 1)) {
            (Some((one, first)), Some((other, second))) => {
                can_fuse_depthwise([&one.staging, &other.staging], [first, second])
            }
            _ => false,
        };
        let takes_blocks = |i: usize| {
            convolution(i).is_some_and(|(one, channels)| nchwc::suits(channels) && one.staging.is_of_blocks())
        };
        if !(0..steps.len()).any(may) {
            return Vec::new();
        }
        let converts = self.workers.converts();
        let each: Vec<[bool; 2]> = steps
            .iter()
            .map(|step| {
                let machine = self.at(step);
                [machine.may_be_fused(&step.work), converts && machine.is_sum()]
            })
            .collect();
        let is_sum = |i: usize| each.get(i).is_some_and(|[_, is_sum]| *is_sum);
        let is_alone = |i: usize, operands| {
            let plain = each.get(i..i + 2).is_some_and(|both| both.iter().all(|[plain, _]| *plain));
            plain && self.is_alone(accesses, i, operands)
        };
        let count = |i: usize| match may(i) && is_alone(i, 1) {
            true if takes_blocks(i + 2) && is_alone(i + 1, 1) => {
                if is_sum(i + 3) && is_alone(i + 2, 2) {
                    4
                } else {
                    3
                }
            }
            true => 2,
            false => 1,
        };
        (0..steps.len()).map(count).collect()
    }

    /// Returns true if the result of a task is read by the next one alone, as one of `operands` operands, in this run and in later ones.
    fn is_alone(&self, accesses: &[Option<Accesses>], i: usize, operands: usize) -> bool {
        let (before, rest) = accesses.split_at(i.min(accesses.len()));
        let [Some(first), Some(second), later @ ..] = rest else { return false };
        let [left] = &first.writes[..] else { return false };
        let read = &second.reads;
        let others = read.iter().filter(|read| !read.overlaps(left)).count();
        let reads_once = read.len() == operands && others + 1 == operands && read.contains(left);
        // Ports are looked at from outside.
        let own = match left.home {
            Home::Tile => true,
            Home::Bar(bar) => bar == Program::SCRATCH_BAR && self.ports.iter().all(|port| port.bar != bar),
        };
        // What the second one writes may lie there.
        let mut written: Vec<&MemRef> = second.writes.iter().filter(|written| written.overlaps(left)).collect();
        own && reads_once
            && later.iter().chain(before).all(|access| {
                let Some(Accesses { reads, writes }) = access else { return false };
                let apart = reads.iter().all(|read| !read.overlaps(left) || written.contains(&read));
                written.extend(writes.iter().filter(|written| written.overlaps(left)));
                apart && written.len() < MOST_WRITTEN
            })
    }

    /// Returns true if the task at hand may be fused: one plane of fp16 numbers, without interleave, and nothing between its operands and
    /// its unit.
    fn may_be_fused(&self, work: &Work) -> bool {
        let set = [InputRelu, PostScaleMode, NeTranspose].iter().any(|&field| self.get(field) != 0)
            || matches!(work, Work::Planar(_)) && self.get(ResultTranspose) == 1;
        let halves = match self.get(ResType) {
            residency::L2 => self.get(OutFmt) == format::FP16,
            _ => self.get(DstMemFmt) == format::FP16 && self.size(DstInterleave) <= 1,
        };
        let in_place = match work {
            Work::Neural(neural) => self.in_place(neural).is_ok(),
            _ => true,
        };
        !set && halves && in_place && self.depth_window().is_none() && self.depths() == (0..1)
    }

    /// The task at hand and the next ones, as many as [`Machine::together`] says, at once. Returns how many were done: none where
    /// they do not go from memory to memory.
    pub(crate) fn at_once(&mut self, steps: &[Step], count: usize) -> Result<usize, FaultKind> {
        match self.mac {
            None => self.at_once_as(steps, count, |machine, neural| {
                Some(Epilogue { bias: machine.added(), scale: machine.factor(), activation: &neural.activation })
            }),
            Some(mac) => self.at_once_as(steps, count, |_, neural| {
                Some(ExactAccumulator { mac, bounds: neural.exactly.as_ref()?.bounds()? })
            }),
        }
    }

    /// Executes a fused group from the task at hand on; `followed_by` gives the accumulator and epilogue of each task.
    fn at_once_as<'a, A: Accumulator>(
        &mut self,
        steps: &'a [Step],
        count: usize,
        followed_by: impl Fn(&Machine, &'a Neural) -> Option<A>,
    ) -> Result<usize, FaultKind> {
        let [step, next, rest @ ..] = steps else { return Ok(0) };
        let (Work::Neural(one), Work::Neural(other)) = (&step.work, &next.work) else { return Ok(0) };
        let (Some((before, first)), Some((convolution, second))) = (kernels_of(&step.work), kernels_of(&next.work))
        else {
            return Ok(0);
        };
        let Some(direct) = self.direct(one.input, one.output)? else { return Ok(0) };
        let Some(finish) = followed_by(self, one) else { return Ok(0) };
        let Some(then) = self.at(next).direct(other.input, other.output)? else { return Ok(0) };
        // Where the third task's result goes.
        let third = rest.first().filter(|_| count > 2);
        let last = match third.map(|third| (third, &third.work)) {
            Some((third, Work::Neural(neural))) => {
                let to = self.at(third).direct(neural.input, neural.output)?;
                let finish = followed_by(&self.at(third), neural);
                to.zip(finish).zip(kernels_of(&third.work))
            }
            _ => None,
        };
        // The third one may divide the same elements into other channels and groups.
        let whole = |third: &Step| matches!(&third.work, Work::Neural(neural) if neural.input == other.output);
        let last = last.filter(|((to, _), _)| third.is_some_and(whole) && self.has(&to.to));
        // What the fourth one adds to it.
        let sum = match (rest.get(1).filter(|_| count > 3), &last) {
            (Some(fourth), Some(((to, _), _))) => self.at(fourth).sum_with(&to.to)?,
            _ => None,
        };
        let sum = sum.filter(|sum| self.has(&sum.other) && self.has(&sum.direct.to));
        let workers = self.workers;
        let mut after = self.at(next);
        let Some(finish_after) = followed_by(&after, other) else { return Ok(0) };
        let pair = FusedDepthwise {
            kernels: [first, second],
            finish: [finish, finish_after],
            stagings: [&before.staging, &convolution.staging],
        };
        let mut aside = workers.aside();
        let mut blocks = workers.blocks();
        let views = memory::views(after.memory, after.l2, [direct.from.part()], then.to.part(), &mut aside);
        let Some(([data], target)) = views else { return Ok(0) };
        let source = TensorView { data, strides: direct.from.strides };
        let (Some(third), Some(((to, finish), (last, kernels)))) = (third, last) else {
            let target = TensorViewMut { data: target, strides: then.to.strides, transposed: false };
            A::convolve_pair(&pair, workers, source, target, other.output, false);
            after.done(&then, other.output);
            return Ok(2);
        };
        let ext = other.output;
        let blocks = scratch_slice(&mut blocks, ext.elements()?);
        let target = TensorViewMut { data: &mut *blocks, strides: dense(ext), transposed: false };
        A::convolve_pair(&pair, workers, source, target, ext, true);
        let Work::Neural(neural) = &third.work else { return Ok(0) };
        let strides = dense(Extents { c: ext.c / BLOCK, w: ext.w * BLOCK, ..ext });
        let from = Operand { source: TensorView { data: blocks, strides }, in_blocks: true, staging: &last.staging };
        let (mut machine, to, done) = match (&sum, rest.get(1)) {
            (Some(sum), Some(fourth)) => (self.at(fourth), &sum.direct, 4),
            _ => (self.at(third), &to, 3),
        };
        let elsewhere = sum.as_ref().filter(|sum| !sum.is_in_place).map(|sum| &sum.other);
        let (added, target) = match elsewhere {
            Some(other) => {
                let views = memory::views(machine.memory, machine.l2, [other.part()], to.to.part(), &mut aside);
                let Some(([data], target)) = views else { return Ok(0) };
                (Some(TensorView { data, strides: other.strides }), target)
            }
            None => {
                let views = memory::views(machine.memory, machine.l2, [], to.to.part(), &mut aside);
                let Some(([], target)) = views else { return Ok(0) };
                (None, target)
            }
        };
        let plus = sum.as_ref().map(|sum| ResidualAdd { source: added, is_first: sum.is_first });
        let target = TensorViewMut { data: target, strides: to.to.strides, transposed: false };
        finish.convolve_nchwc(workers, kernels, from, plus, target, neural.output);
        machine.done(to, neural.output);
        Ok(done)
    }

    /// Returns true if memory has the span.
    fn has(&mut self, span: &Span) -> bool {
        memory::views(self.memory, self.l2, [], span.part(), &mut Aside::default()).is_some()
    }

    /// The task at hand as a sum with the result of the one before; `None` if it is not found to be one.
    fn sum_with(&mut self, left: &Span) -> Result<Option<Sum>, FaultKind> {
        let ext = self.input_extents();
        let Some(second) = self.direct_second(ext)? else { return Ok(None) };
        let Some(direct) = self.direct(ext, ext)? else { return Ok(None) };
        let (other, is_first) = match [&direct.from, &second].map(|operand| operand.is_that_of(left, ext)) {
            [true, _] => (second, false),
            [_, true] => (direct.from.clone(), true),
            _ => return Ok(None),
        };
        let is_in_place = other.is_that_of(&direct.to, ext);
        Ok(Some(Sum { other, is_first, is_in_place, direct }))
    }
}

/// The sum of a task's result and of another tensor.
struct Sum {
    other: Span,
    /// True if the other tensor is the first operand.
    is_first: bool,
    /// True if it is in place of the sum.
    is_in_place: bool,
    direct: Direct,
}
