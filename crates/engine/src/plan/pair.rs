//! Two tasks at once: a convolution of one tap a channel, or of few taps, and one in which every channel reads itself alone. Where
//! nothing else reads what the first one leaves, in tile memory or in the program's own, it need not be there: a few channels
//! at a time are made, rounded as they would be stored, and used. Where the next task is a convolution of one tap again, and
//! nothing else reads what the second one leaves, that need not be there either: it is handed on in blocks of channels
//! ([`anemone_kernels::conv::nchwc`]). And where that one's result is read by a sum alone, it is added to the other tensor on its way to
//! memory. Results have the same bits.
//!
//! The first run of a plan stores everything, and finds that whatever a task reads was written before in that run.

use super::{Step, Work};
use crate::direct::{Direct, Span};
use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{self, Home};
use crate::ne::{Convolution, Neural, Operation};
use crate::packed::Packed;
use anemone_facts::Field::{self, *};
use anemone_facts::code::{class, format, residency};
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

/// A tensor in memory.
#[derive(PartialEq)]
struct Lying {
    home: Home,
    base_bytes: u64,
    /// Count and byte stride of groups, channels, rows, planes.
    axes: [(u64, u64); 4],
    columns: u64,
}

impl Lying {
    /// One past the last byte; elements have two at most.
    fn end(&self) -> u64 {
        self.base_bytes + self.axes.iter().map(|(count, bytes)| (count - 1) * bytes).sum::<u64>() + 2 * self.columns
    }

    /// Returns true if both have the same elements, whatever the order of their axes.
    fn has_all_of(&self, other: &Lying) -> bool {
        let sorted = |mut axes: [(u64, u64); 4]| {
            axes.sort_unstable();
            axes
        };
        (self.home, self.base_bytes, self.columns) == (other.home, other.base_bytes, other.columns)
            && sorted(self.axes) == sorted(other.axes)
    }

    fn overlaps(&self, other: &Lying) -> bool {
        self.home == other.home && self.base_bytes < other.end() && other.base_bytes < self.end()
    }
}

/// Memory accesses of one task.
struct Accesses {
    /// `None` if unknown.
    read: Option<Vec<Lying>>,
    /// In tile memory, and in memory.
    left: [Option<Lying>; 2],
    /// True if a convolution of these fields can be part of a pair.
    plain: bool,
}

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
    /// Number of tasks that can be fused, from each one on; empty if none can.
    pub(crate) fn together(&mut self, steps: &[Step]) -> Vec<usize> {
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
        let accesses: Vec<Accesses> = steps.iter().map(|step| self.at(step).accesses(&step.work)).collect();
        let converts = self.workers.converts();
        let sums: Vec<bool> = steps.iter().map(|step| converts && self.at(step).is_sum()).collect();
        let is_sum = |i: usize| sums.get(i) == Some(&true);
        let count = |i: usize| match may(i) && self.is_alone(&accesses, i, 1) {
            true if takes_blocks(i + 2) && self.is_alone(&accesses, i + 1, 1) => {
                if is_sum(i + 3) && self.is_alone(&accesses, i + 2, 2) { 4 } else { 3 }
            }
            true => 2,
            false => 1,
        };
        (0..steps.len()).map(count).collect()
    }

    /// Returns true if a task and the next one can be a pair, and the first one's result is read by the second alone, as one of `operands`
    /// operands, in this run and in later ones.
    fn is_alone(&self, accesses: &[Accesses], i: usize, operands: usize) -> bool {
        let (before, rest) = accesses.split_at(i.min(accesses.len()));
        let [first, second, later @ ..] = rest else { return false };
        let ([Some(left), None] | [None, Some(left)], Some(read)) = (&first.left, second.read.as_deref()) else {
            return false;
        };
        let others = read.iter().filter(|read| !read.overlaps(left)).count();
        let reads_once = read.len() == operands && others + 1 == operands && read.contains(left);
        // Ports are looked at from outside.
        let own = match left.home {
            Home::Tile => true,
            Home::Bar(bar) => bar == Program::SCRATCH_BAR && self.ports.iter().all(|port| port.bar != bar),
        };
        // What the second one leaves may lie there.
        let mut written: Vec<&Lying> = second.left.iter().flatten().filter(|written| written.overlaps(left)).collect();
        first.plain
            && second.plain
            && own
            && reads_once
            && later.iter().chain(before).all(|access| {
                let Some(sources) = &access.read else { return false };
                let apart = sources
                    .iter()
                    .all(|read| !read.overlaps(left) || written.iter().any(|written| written.has_all_of(read)));
                written.extend(access.left.iter().flatten().filter(|written| written.overlaps(left)));
                apart && written.len() < MOST_WRITTEN
            })
    }

    /// Memory accesses of a task.
    fn accesses(&self, work: &Work) -> Accesses {
        let set = [InputRelu, PostScaleMode, NeTranspose].iter().any(|&field| self.get(field) != 0);
        let plain = !set && self.depth_window().is_none() && self.depths() == (0..1);
        Accesses { read: self.read(work), left: self.left(work), plain }
    }

    /// Operands that a task reads, and where it puts those that it keeps; `None` where that is not known.
    fn read(&self, work: &Work) -> Option<Vec<Lying>> {
        let (first, second) = match work {
            Work::Neural(neural) if neural.reads_streams() => return None,
            Work::Neural(neural) => (neural.input, None),
            Work::Planar => self.planar_sources(),
            Work::Own(_) => return None,
            Work::Skipped => return Some(Vec::new()),
        };
        let planes = self.source_depths().end;
        let mut read = Vec::new();
        let source = self.get(SrcType);
        if [residency::DMA, residency::DMA_KEEP].contains(&source) {
            read.push(self.lying_in_memory(RBase0, Src1Interleave, &SRC1_DMA, first, planes)?);
        }
        if ![residency::DMA, residency::CHAIN].contains(&source) {
            read.push(self.lying(Home::Tile, &SRC1_L2, first, planes));
        }
        if let Some(second) = second {
            read.push(match self.get(Src2Type) {
                0 => self.lying(Home::Tile, &SRC2_L2, second, planes),
                _ => self.lying_in_memory(RBase1, Src2Interleave, &SRC2_DMA, second, planes)?,
            });
        }
        Some(read)
    }

    /// Results of a task in tile memory, and in memory, each if it is one tensor of fp16 numbers.
    fn left(&self, work: &Work) -> [Option<Lying>; 2] {
        let size = |field| self.size(field).max(1);
        let ext = match work {
            Work::Neural(neural) if self.get(NeTranspose) == 1 => neural.output.transposed(),
            Work::Neural(neural) => neural.output,
            Work::Planar if self.get(ResultTranspose) == 1 => return [None, None],
            Work::Planar => {
                let reduces = [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&self.get(TaskClass));
                let [h, w] = if reduces { [1; 2] } else { [size(Hout), size(Wout)] };
                Extents { g: size(NumGroups), c: size(Cout), h, w }
            }
            Work::Own(_) | Work::Skipped => return [None, None],
        };
        let halves = |format| self.get(format) == format::FP16;
        let (planes, result) = (self.depths().end, self.get(ResType));
        let kept = halves(OutFmt) && [residency::L2, residency::DMA_KEEP].contains(&result);
        let sent = halves(DstMemFmt) && self.get(DstEn) == 1 && [residency::DMA, residency::DMA_KEEP].contains(&result);
        let sent = sent.then(|| self.lying_in_memory(WBase, DstInterleave, &DST_DMA, ext, planes)).flatten();
        [kept.then(|| self.lying(Home::Tile, &RES_L2, ext, planes)), sent]
    }

    /// `None` where channels stand side by side.
    fn lying_in_memory(
        &self,
        base: Field,
        interleave: Field,
        place: &Place,
        ext: Extents,
        planes: u64,
    ) -> Option<Lying> {
        let home = Home::Bar(self.get(base) as u8);
        (self.get(interleave) <= 1).then(|| self.lying(home, place, ext, planes))
    }

    fn lying(&self, home: Home, place: &Place, ext: Extents, planes: u64) -> Lying {
        let (base_bytes, [group, channel, row]) = self.place(place);
        let counts = [ext.g, ext.c, ext.h].map(|count| count as u64);
        let axes = [(counts[0], group), (counts[1], channel), (counts[2], row), (planes, self.bytes(place.depth))];
        let axes = axes.map(|(count, bytes)| if count > 1 { (count, bytes) } else { (1, 0) });
        Lying { home, base_bytes, axes, columns: ext.w as u64 }
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
        let last = last.filter(|((to, _), _)| self.has(&to.to));
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
