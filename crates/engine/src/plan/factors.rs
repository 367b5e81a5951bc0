//! Pass `factors`: a pointwise convolution multiplies the channels of its source by factors while it packs them, in place of the chain whose result
//! it alone reads, as behind squeeze and excitation. Products are rounded as before.

use super::dense::Place;
use super::epilogues::moved_readers;
use super::maps::{Map, MapOperand};
use super::moves::readers;
use super::ops::{Kind, Op, Placed};
use super::{Step, Work};
use crate::direct::Span;
use crate::memory::Home;
use crate::ne::Operation;
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::map::{MapInput, MapKind, MapStage};
use anemone_kernels::params::BinaryOp;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{nested, reach};

/// Pass `factors`. `own` returns true for regions that only the program's tasks access.
pub(super) fn run(ops: &mut Vec<Op>, steps: &[Step], own: impl Fn(Home) -> bool) {
    let mut j = 0;
    while j < ops.len() {
        let Some((i, changed)) = with_factors(ops, steps, j, &own) else {
            j += 1;
            continue;
        };
        for (at, op) in changed {
            ops[at] = op;
        }
        ops.remove(i);
    }
}

impl Map {
    /// Operands of a chain that multiplies each channel by a factor: the elements, and the factors.
    fn channels_by_factors(&self) -> Option<(&MapOperand, &MapOperand)> {
        let [MapStage { inputs, relus: [false, false], kind: MapKind::Combine(of) }] = self.stages.as_slice() else {
            return None;
        };
        let plain = of.is_plain() && of.operation.op == BinaryOp::Mul && !of.ending.relu;
        let (MapInput::Operand(0), MapInput::Operand(1)) = (*inputs.first()?, *inputs.get(1)?) else { return None };
        let [one, other] = self.sources.as_slice() else { return None };
        let by_channel = |of: &MapOperand| of.axes.one_column && (self.ext.h == 1 || of.axes.strides[2] == 0);
        let (elements, factors) = if by_channel(one) { (other, one) } else { (one, other) };
        let fits = plain && self.ext.g == 1 && by_channel(factors) && !elements.axes.one_column;
        (fits && factors.axes.strides[1] > 0).then_some((elements, factors))
    }
}

/// Index of the chain before the convolution at `j`, and operations to replace: the convolution, and its readers if its result moves to the place of the
/// chain's result, because it would overwrite what the chain reads. `None` if there is no such chain, or it cannot be replaced.
fn with_factors(
    ops: &[Op],
    steps: &[Step],
    j: usize,
    own: &impl Fn(Home) -> bool,
) -> Option<(usize, Vec<(usize, Op)>)> {
    let scales = matches!(&steps.get(ops[j].tasks.start)?.work, Work::Neural(neural)
        if matches!(&neural.operation, Operation::Convolution(convolution) if convolution.scales()));
    let read = ops[j].reads.first()?;
    let i = ops[..j].iter().rposition(|op| op.may_write(read)).filter(|_| scales && ops[j].known)?;
    let Kind::Map(map) = &ops[i].kind else { return None };
    let (elements, factors) = map.channels_by_factors()?;
    let mut operands = ops[j].operands(steps)?.clone();
    let (source, ext) = operands.movable()?.into_iter().next()?;
    let axes = OperandAxes { strides: source.strides, one_column: false };
    let read_by = MapOperand { home: source.home, base: source.range.start, axes };
    let same = map.ext == ext && map.to.is_that_of(&read_by, ext);
    let alone = own(map.to.home) && readers(ops, i).all(|reader| reader == j);
    // The convolution reads what the chain read, while it writes.
    let kept = !ops[i + 1..j].iter().any(|op| op.may_write_any(&ops[i].reads));
    *source = span(elements, ext);
    let factors = Some(span(factors, Extents { g: 1, h: 1, w: 1, ..ext }));
    let mut both = Op { reads: ops[i].reads.iter().chain(&ops[j].reads[1..]).cloned().collect(), ..ops[j].clone() };
    let mut changed = Vec::new();
    if ops[j].may_write_any(&ops[i].reads) {
        let (result, ext) = operands.movable()?.pop()?;
        let fits = ext.g == 1 && ext.c <= map.ext.c && [ext.h, ext.w] == [map.ext.h, map.ext.w];
        let axes = OperandAxes { strides: result.strides, one_column: false };
        let old = MapOperand { home: result.home, base: result.range.start, axes };
        let written = map.to.of(ext);
        changed = moved_readers(ops, steps, j, [&Place::of(&old, ext), &Place::of(&map.to, ext)])?;
        let last = changed.last()?.0;
        let apart = !ops[i].reads.iter().any(|read| read.overlaps(&written));
        let mut others = ops[i + 1..=last].iter().zip(i + 1..).filter(|(_, at)| *at != j);
        let free = others.all(|(op, _)| !op.may_write(&written)) && own(result.home);
        if !fits || !apart || !free || !nested(ext, map.to.axes.strides) {
            return None;
        }
        *result = span(&map.to, ext);
        both.writes = vec![written];
    }
    let tasks = ops[j].task_count() + map.tasks;
    both.kind = Kind::Placed(Placed { factors, tasks, ..ops[j].placed(operands)? });
    changed.push((j, both));
    (same && alone && kept).then_some((i, changed))
}

/// An operand as a span.
fn span(of: &MapOperand, ext: Extents) -> Span {
    let strides = of.axes.strides;
    Span { home: of.home, range: of.base..of.base + reach(ext, strides), strides }
}
