//! Fusion of a 1x1 or small-K convolution with the depthwise convolution that is the only reader of its result, in tile memory or in
//! scratch memory. A few channels at a time are computed, rounded as they would be stored, and consumed. A pointwise convolution that follows
//! reads the depthwise result in NCHWc16 ([`anemone_conv::nchwc`]), and may add a residual in its epilogue.
//! Intermediate results are not stored. Results have the same bits.

use super::access::Accesses;
use super::live::LiveBytes;
use super::ops::{Kind, Op};
use super::{Step, Work};
use crate::direct::{Operands, Span, Stored, views};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::Home;
use crate::ne::{Convolution, Neural, Operation};
use crate::packed::Packed;
use anemone_conv::exact::Sets;
use anemone_conv::nchwc::{self, Accumulator, ExactAccumulator, Operand, ResidualAdd};
use anemone_conv::{FusedDepthwise, Kernels, RepackCache, can_fuse_depthwise};
use anemone_facts::Field::*;
use anemone_facts::code::{format, residency};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::epilogue::{Activation, Epilogue};
use anemone_kernels::exact::{self, bounds};
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::table::Table;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, TensorView, TensorViewMut, dense};
use anemone_kernels::workers::scratch_slice;
use anemone_program::Program;
use std::sync::Arc;

/// A convolution that may be fused, and its channels per group: coefficients are constant, and its activation is not a
/// table.
pub(super) fn candidate<'a>(work: &'a Work, mac: Option<&AccumulatorSpec>) -> Option<(&'a Convolution, usize)> {
    let Work::Neural(neural) = work else { return None };
    let Operation::Convolution(convolution) = &neural.operation else { return None };
    if convolution.sequence {
        return None;
    }
    match convolution.coefficients.as_ref()? {
        Packed::Fast(_) if matches!(neural.activation, Activation::Unread | Activation::Table(_)) => None,
        Packed::Fast(kernels) => Some((convolution, kernels.channels())),
        Packed::Exact(groups) => {
            neural.exactly.as_ref()?.clamp().filter(|_| mac.is_some_and(bounds::suits))?;
            let (sets, _) = groups.first()?;
            Some((convolution, sets.iter().map(|set| set.rows()).sum()))
        }
        Packed::ExactBlocks(_) | Packed::Scaled(_) => None,
    }
}

/// Returns true for a fixed-point convolution from memory to memory with a single output position; any epilogue may follow.
fn is_exact_gemv(work: &Work) -> bool {
    let Work::Neural(neural) = work else { return false };
    let Operation::Convolution(convolution) = &neural.operation else { return false };
    let exact = matches!(convolution.coefficients, Some(Packed::Exact(_))) && neural.exactly.is_some();
    exact && neural.operands.is_ok() && !convolution.sequence && convolution.staging.is_gemv()
}

/// A convolution whose fp32 coefficients are packed.
pub(super) fn kernels_of(work: &Work) -> Option<(&Convolution, &Kernels)> {
    let Work::Neural(neural) = work else { return None };
    let Operation::Convolution(convolution) = &neural.operation else { return None };
    match convolution.coefficients.as_ref()? {
        Packed::Fast(kernels) | Packed::ExactBlocks(kernels) => Some((convolution, kernels)),
        Packed::Exact(_) | Packed::Scaled(_) => None,
    }
}

/// Repacks coefficients into blocks of channels: those of fused tasks, and those of fixed-point convolutions with a single output
/// position. `together` has the group that starts at each task.
pub(crate) fn repack_fused(steps: &mut [Step], together: &[Option<Fused>], mac: Option<&AccumulatorSpec>) {
    let mut done = 0;
    let (mut repacked_kernels, mut repacked_sets) = (RepackCache::default(), RepackCache::default());
    for (i, step) in steps.iter_mut().enumerate() {
        let count = together.get(i).and_then(Option::as_ref).map_or(0, |group| group.tasks);
        done = done.max(i + count);
        let is_gemv = mac.is_some_and(bounds::suits) && is_exact_gemv(&step.work);
        let Work::Neural(neural) = &mut step.work else { continue };
        let Operation::Convolution(convolution) = &mut neural.operation else { continue };
        match &mut convolution.coefficients {
            Some(Packed::Fast(kernels)) if i < done => kernels.repack_nchwc16(&mut repacked_kernels),
            Some(Packed::Exact(groups)) if i < done || is_gemv => {
                let staging = &convolution.staging;
                let kernels = repacked_sets.get(std::mem::take(groups), usize::from(is_gemv), |groups: Vec<Sets>| {
                    let groups = groups.into_iter().map(|(sets, biases)| (exact::all_rows(sets), biases));
                    Kernels::pack_exact(staging, groups.collect())
                });
                convolution.coefficients = Some(Packed::ExactBlocks(kernels));
            }
            _ => {}
        }
    }
}

/// Repacks the coefficients of groups with a table between their convolutions, and selects kernels for them.
pub(super) fn repack_ops(steps: &mut [Step], ops: &[Op]) {
    let mut repacked = RepackCache::default();
    for op in ops {
        let Kind::Fused(of) = &op.kind else { continue };
        for i in [0, of.second].map_each(|i| op.tasks.start + i).into_iter().filter(|_| of.between.is_some()) {
            let Some(Step { work: Work::Neural(neural), .. }) = steps.get_mut(i) else { continue };
            let Operation::Convolution(convolution) = &mut neural.operation else { continue };
            if let Some(Packed::Fast(kernels)) = &mut convolution.coefficients {
                kernels.repack_nchwc16(&mut repacked);
            }
            neural.select(None, false);
        }
    }
}

impl Machine<'_> {
    /// Fused group that starts at each task; empty if there is none. `accesses` are those of all tasks.
    pub(crate) fn fusion_groups(&mut self, steps: &[Step], accesses: &[Option<Accesses>]) -> Vec<Option<Fused>> {
        let mac = self.mac;
        let convolution = |i: usize| steps.get(i).and_then(|step| candidate(&step.work, mac));
        let may = |i: usize| match (convolution(i), convolution(i + 1)) {
            (Some((one, first)), Some((other, second))) => {
                can_fuse_depthwise([&one.staging, &other.staging], [first, second])
            }
            _ => false,
        };
        if !(0..steps.len()).any(may) {
            return Vec::new();
        }
        let converts = self.workers.converts();
        let each: Vec<Part> = steps
            .iter()
            .map(|step| {
                let machine = self.at(step);
                let plain = machine.may_be_fused(&step.work);
                let sum = (converts && plain && machine.is_sum()).then(|| machine.sum_operands()).flatten();
                Part { plain, sum }
            })
            .collect();
        let is_alone = |i: usize, operands| {
            let plain = each.get(i..i + 2).is_some_and(|both| both.iter().all(|part| part.plain));
            plain && self.is_alone(accesses, i, operands)
        };
        let neural = |i: usize| match steps.get(i).map(|step| &step.work) {
            Some(Work::Neural(neural)) => neural.operands.as_ref().ok().map(|operands| (&**neural, operands)),
            _ => None,
        };
        let group = |i: usize| {
            let ((_, first), (second, second_operands)) = (neural(i)?, neural(i + 1)?);
            if !may(i) || !is_alone(i, 1) || second_operands.keeps() {
                return None;
            }
            let pair = Fused {
                first: first.clone(),
                last: second_operands.clone(),
                tasks: 2,
                second: 1,
                sum: None,
                between: None,
                after: None,
            };
            // The third task may split the same elements into other channels and groups.
            let third = neural(i + 2).filter(|(third, operands)| {
                let blocks = convolution(i + 2)
                    .is_some_and(|(one, channels)| nchwc::suits(channels) && one.staging.is_of_blocks());
                blocks && third.input == second.output && is_alone(i + 1, 1) && !operands.keeps()
            });
            let Some((_, third)) = third else { return Some(pair) };
            let sum = each.get(i + 3).and_then(|part| part.sum.as_ref()).filter(|_| is_alone(i + 2, 2));
            let sum = sum.and_then(|operands| Some((operands, Sum::of(operands, &third.to)?)));
            Some(match sum {
                Some((operands, sum)) => Fused { last: operands.clone(), tasks: 4, sum: Some(sum), ..pair },
                None => Fused { last: third.clone(), tasks: 3, ..pair },
            })
        };
        (0..steps.len()).map(group).collect()
    }

    /// Returns true if the next task is the only reader of a task's result, in this run and in later ones. It reads `operands` operands.
    fn is_alone(&self, accesses: &[Option<Accesses>], i: usize, operands: usize) -> bool {
        let (before, rest) = accesses.split_at(i.min(accesses.len()));
        let [Some(first), Some(second), later @ ..] = rest else { return false };
        let [left] = &first.writes[..] else { return false };
        let read = &second.reads;
        let others = read.iter().filter(|read| !read.overlaps(left)).count();
        let reads_once = read.len() == operands && others + 1 == operands && read.contains(left);
        // Ports are read outside of the program.
        let own = match left.home {
            Home::Tile => true,
            Home::Bar(bar) => bar == Program::SCRATCH_BAR && self.ports.iter().all(|port| port.bar != bar),
        };
        if !own || !reads_once {
            return false;
        }
        // The second task, and later ones, may reuse the memory of the result.
        let Some(mut live) = LiveBytes::of(left) else { return false };
        live.remove_all(left.home, &second.writes);
        later.iter().chain(before).all(|access| {
            let Some(Accesses { reads, writes }) = access else { return false };
            let apart = live.is_empty() || reads.iter().all(|read| read.home != left.home || !live.meets(read));
            live.remove_all(left.home, writes);
            apart
        })
    }

    /// Returns true if the current task may be fused: a single depth plane of fp16 elements, without interleave, transposition or other stages
    /// at its operands.
    fn may_be_fused(&self, work: &Work) -> bool {
        let set = [InputRelu, PostScaleMode, NeTranspose].iter().any(|&field| self.get(field) != 0)
            || matches!(work, Work::Planar(_)) && self.get(ResultTranspose) == 1;
        let halves = match self.get(ResType) {
            residency::L2 => self.get(OutFmt) == format::FP16,
            _ => self.get(DstMemFmt) == format::FP16 && self.size(DstInterleave) <= 1,
        };
        let in_place = match work {
            Work::Neural(neural) => neural.operands.is_ok(),
            _ => true,
        };
        !set && halves && in_place && self.depth_window().is_none() && self.depths() == (0..1)
    }

    /// Executes a fused group, which starts at the current task and at the first of `steps`.
    pub(crate) fn run_fused<'a>(&mut self, steps: &'a [Step], of: &'a Fused) -> Result<(), FaultKind> {
        match self.mac {
            None => self.run_fused_as(steps, of, |machine, neural, i| {
                let table = match i {
                    0 => of.between.as_ref(),
                    _ => of.after.as_ref().filter(|_| i + 1 == of.tasks),
                };
                let activation = table.unwrap_or(&neural.activation);
                Some(Epilogue { bias: machine.added(), scale: machine.factor(), activation })
            }),
            Some(mac) => self.run_fused_as(steps, of, |_, neural, _| {
                Some(ExactAccumulator { mac, clamp: neural.exactly.as_ref()?.clamp()? })
            }),
        }
    }

    /// [`Machine::run_fused`] for one accumulator type; `followed_by` gives the accumulator and epilogue of each task, by its index.
    fn run_fused_as<'a, A: Accumulator>(
        &mut self,
        steps: &'a [Step],
        of: &Fused,
        followed_by: impl Fn(&Machine, &'a Neural, usize) -> Option<A>,
    ) -> Result<(), FaultKind> {
        let member = |machine: &mut Machine, i: usize| {
            let member = steps.get(i).and_then(|step| {
                let Work::Neural(neural) = &step.work else { return None };
                let (convolution, kernels) = kernels_of(&step.work)?;
                let finish = followed_by(&machine.at(step), neural, i)?;
                Some(Member { neural, convolution, kernels, finish })
            });
            member.ok_or_else(|| machine.inconsistent(KernelMode, "coefficients are not in panels"))
        };
        let first = self.bind(&of.first)?;
        let (one, other) = (member(self, 0)?, member(self, of.second)?);
        let pair = FusedDepthwise {
            kernels: [one.kernels, other.kernels],
            finish: [one.finish, other.finish],
            stagings: [&one.convolution.staging, &other.convolution.staging],
        };
        let third = if of.tasks > of.second + 1 { Some(member(self, of.second + 1)?) } else { None };
        let workers = self.workers;
        let Some(last) = steps.get(of.tasks - 1) else { return Ok(()) };
        let mut machine = self.at(last);
        let bound = machine.bind(&of.last)?;
        let (mut aside, mut blocks) = (workers.aside(), workers.blocks());
        let to = &bound.to;
        let Some(third) = third else {
            let ([data], target) = views(machine.memory, machine.l2, [&first.from], to, &mut aside)?;
            let source = TensorView { data, strides: first.from.strides };
            let target = TensorViewMut { data: target, strides: to.strides, transposed: false };
            A::convolve_pair(&pair, workers, source, target, other.neural.output, false);
            return machine.done(&bound);
        };
        let ext = other.neural.output;
        let blocks = scratch_slice(&mut blocks, ext.elements()?);
        let ([data], _) = views(machine.memory, machine.l2, [&first.from], to, &mut aside)?;
        let source = TensorView { data, strides: first.from.strides };
        let target = TensorViewMut { data: &mut *blocks, strides: dense(ext), transposed: false };
        A::convolve_pair(&pair, workers, source, target, ext, true);
        let strides = dense(Extents { c: ext.c / BLOCK, w: ext.w * BLOCK, ..ext });
        let staging = &third.convolution.staging;
        let from = Operand { source: TensorView { data: blocks, strides }, factors: None, in_blocks: true, staging };
        let elsewhere = of.sum.as_ref().filter(|sum| !sum.is_in_place).map(|sum| &sum.other);
        let (added, target) = match elsewhere {
            Some(other) => {
                let ([data], target) = views(machine.memory, machine.l2, [other], to, &mut aside)?;
                (Some(TensorView { data, strides: other.strides }), target)
            }
            None => (None, views(machine.memory, machine.l2, [], to, &mut aside)?.1),
        };
        let plus = of.sum.as_ref().map(|sum| ResidualAdd { source: added, is_first: sum.is_first });
        let target = TensorViewMut { data: target, strides: to.strides, transposed: false };
        third.finish.convolve_nchwc(workers, third.kernels, from, plus, target, third.neural.output);
        machine.done(&bound)
    }

    /// Operands of the current task as a sum of two tensors; `None` if they are not rows in memory.
    fn sum_operands(&self) -> Option<Operands> {
        let ext = self.input_extents();
        let operands = self.operands(Stored { input: ext, second: Some(ext), output: ext }).ok()?;
        (!operands.keeps()).then_some(operands)
    }
}

/// Properties of a task that decide its fusion.
struct Part {
    /// True if it may be fused.
    plain: bool,
    /// Its operands, if it is a sum of two tensors.
    sum: Option<Operands>,
}

/// A convolution of a group with its accumulator and epilogue.
struct Member<'a, A> {
    neural: &'a Neural,
    convolution: &'a Convolution,
    kernels: &'a Kernels,
    finish: A,
}

/// A fused group: a convolution, the depthwise convolution that reads its result, and up to two tasks behind them.
#[derive(Clone)]
pub struct Fused {
    /// Operands of the first task.
    first: Operands,
    /// Operands of the last one.
    last: Operands,
    /// Number of tasks: 2 to 4, or those between the two convolutions of a table and both of them.
    pub(super) tasks: usize,
    /// Index of the depthwise convolution among them.
    second: usize,
    /// Residual addition, if there is a fourth task.
    sum: Option<Sum>,
    /// Table of the results of the first task, in place of its activation.
    between: Option<Activation>,
    /// Table of the results, in place of the activation of the last task.
    after: Option<Activation>,
}

impl Fused {
    /// A convolution with a table behind it, and the depthwise convolution `second` tasks behind the first, with a table or without.
    pub(super) fn with_tables(operands: [Operands; 2], second: usize, tables: [Option<Activation>; 2]) -> Fused {
        let ([first, last], [between, after]) = (operands, tables);
        Fused { first, last, tasks: second + 1, second, sum: None, between, after }
    }

    /// Operands of the last task, whose result may be elsewhere.
    pub(super) fn last(&self) -> &Operands {
        &self.last
    }

    /// The group with a table of its results; `None` if it has one, or ends with a residual addition. The last task has no activation.
    pub(super) fn with_table(&self, table: Arc<Table>) -> Option<Fused> {
        let fits = self.after.is_none() && self.sum.is_none();
        fits.then(|| Fused { after: Some(Activation::Table(table)), ..self.clone() })
    }

    /// The group with its result elsewhere.
    pub(super) fn to(&self, last: Operands) -> Fused {
        Fused { last, ..self.clone() }
    }

    /// Returns true if its results go through a table.
    pub(super) fn has_table(&self) -> bool {
        self.after.is_some() || self.between.is_some()
    }

    /// Name of the kernel.
    pub(super) fn kernel(&self) -> &'static str {
        match self.tasks - self.second + 1 {
            2 => "convolution and depthwise, band by band",
            3 => "convolution and depthwise, band by band, then nchwc16",
            _ => "convolution and depthwise, band by band, then nchwc16 with a residual",
        }
    }
}

/// Residual addition: sum of the previous task's result and another tensor.
#[derive(Clone)]
struct Sum {
    other: Span,
    /// True if the other tensor is the first operand.
    is_first: bool,
    /// True if the other tensor is in the result buffer.
    is_in_place: bool,
}

impl Sum {
    /// The sum of these operands, one of which is `left`, the previous result; `None` if neither is.
    fn of(operands: &Operands, left: &Span) -> Option<Sum> {
        let (ext, second) = (operands.input(), operands.second.as_ref()?);
        let (other, is_first) = match [&operands.from, second].map_each(|operand| operand.is_that_of(left, ext)) {
            [true, _] => (second, false),
            [_, true] => (&operands.from, true),
            _ => return None,
        };
        Some(Sum { other: other.clone(), is_first, is_in_place: other.is_that_of(&operands.to, ext) })
    }
}
