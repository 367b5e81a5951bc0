//! Pass `epilogues`: a convolution computes the table of the chain that alone reads its result, row by row while rows are in cache. Its own results
//! are rounded as before.
//!
//! The results of a chain of one table replace those of the convolution, or are stored where the chain stores them. A chain with other stages
//! reads the results of its table in their place. Where the program reuses memory too early for either, the results get memory behind the tile's,
//! which optimized runs alone have.

use super::Step;
use super::dense::Place;
use super::maps::{Map, MapOperand};
use super::moves::readers_of;
use super::ops::{Kind, Op, Placed};
use crate::direct::{Operands, Span};
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::map::{MapInput, MapKind, MapStage};
use anemone_kernels::table::Table;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{nested, reach};
use std::ops::Range;
use std::sync::Arc;

/// Pass `epilogues`. `own` returns true for regions that only the program's tasks access; `tile_bytes` are those of tile memory.
pub(super) fn run(ops: &mut Vec<Op>, steps: &[Step], tile_bytes: usize, own: impl Fn(Home) -> bool) {
    let (mut j, behind) = (0, tile_bytes.div_ceil(2));
    while j < ops.len() {
        let found = Fold::of(ops, steps, j, &own).and_then(|fold| fold.changed(ops, steps, &own, behind));
        let Some((changed, dropped)) = found else {
            j += 1;
            continue;
        };
        for (at, op) in changed {
            ops[at] = op;
        }
        if let Some(at) = dropped {
            ops.remove(at);
        }
    }
}

/// A convolution, and a chain that reads its result with a table and nothing else.
struct Fold {
    /// Indices of the convolution and of the chain.
    i: usize,
    j: usize,
    map: Map,
    /// Stage of the table, and the operand that it reads.
    stage: usize,
    operand: usize,
    /// Operands of the convolution, and its result.
    operands: Operands,
    left: MapOperand,
    /// The convolution with the table, at its own place.
    with_table: Op,
}

/// Operations to replace, by index, and one to drop.
type Change = (Vec<(usize, Op)>, Option<usize>);

impl Map {
    /// The table of a stage, computed in vectors, and the operand that only this stage reads.
    fn table_at(&self, stage: usize) -> Option<(usize, &Arc<Table>)> {
        let MapStage { inputs, relus: [false, _], kind: MapKind::LookUp(table) } = &self.stages[stage] else {
            return None;
        };
        let [MapInput::Operand(at)] = *inputs.as_slice() else { return None };
        let others = self.stages.iter().enumerate().filter(|(i, _)| *i != stage);
        let alone = others.into_iter().all(|(_, of)| !of.inputs.contains(&MapInput::Operand(at)));
        // Looked up one by one, elements take as long in either place.
        (alone && table.is_computed()).then_some((at, table))
    }

    /// The chain over other extents, whose axes of several elements are the same, in the same order; `None` if they are not. Rows of one channel are
    /// channels of one row, for example.
    fn over(&self, ext: Extents) -> Option<Map> {
        let [from, to] = [self.ext, ext].map(|ext| [ext.g, ext.c, ext.h]);
        let several = |counts: [usize; 3]| (0..3).filter(move |&axis| counts[axis] > 1);
        if self.ext.w != ext.w || !several(from).map(|axis| from[axis]).eq(several(to).map(|axis| to[axis])) {
            return None;
        }
        let mut map = Map { ext, ..self.clone() };
        for operand in map.sources.iter_mut().chain([&mut map.to]) {
            let strides = std::mem::take(&mut operand.axes.strides);
            several(from).zip(several(to)).for_each(|(old, new)| operand.axes.strides[new] = strides[old]);
        }
        Some(map)
    }

    /// The chain with an operand in place of the result of a stage.
    fn without(&self, stage: usize, operand: usize) -> Map {
        let mut map = self.clone();
        map.stages.remove(stage);
        for input in map.stages.iter_mut().flat_map(|stage| &mut stage.inputs) {
            *input = match *input {
                MapInput::Value(at) if at == stage => MapInput::Operand(operand),
                MapInput::Value(at) if at > stage => MapInput::Value(at - 1),
                input => input,
            };
        }
        map.rewired = true;
        map
    }
}

impl Fold {
    /// The first table of the chain at `j` that a convolution can compute; `None` if there is none.
    fn of(ops: &[Op], steps: &[Step], j: usize, own: &impl Fn(Home) -> bool) -> Option<Fold> {
        let Kind::Map(map) = &ops[j].kind else { return None };
        (0..map.stages.len()).find_map(|stage| {
            let (operand, table) = map.table_at(stage)?;
            let read = ops[j].reads.get(operand)?;
            let i = ops[..j].iter().rposition(|op| op.may_write(read))?;
            let before = &ops[i];
            let last = steps.get(before.tasks.end.checked_sub(1)?)?;
            if !before.known || !last.work.ends_plain() {
                return None;
            }
            let mut operands = match &before.kind {
                Kind::Fused(of) => of.last(),
                _ if before.tasks.len() == 1 => before.operands(steps)?,
                _ => return None,
            }
            .clone();
            let with_table = before.with_table(operands.clone(), table, map.tasks)?;
            let (result, ext) = operands.movable()?.pop()?;
            let axes = OperandAxes { strides: result.strides, one_column: false };
            let left = MapOperand { home: result.home, base: result.range.start, axes };
            let map = map.over(ext)?;
            let reads_it = map.sources[operand].is_that_of(&left, ext);
            let alone = own(left.home) && readers_of(ops, i, before.writes.last()).all(|reader| reader == j);
            (reads_it && alone).then_some(Fold { i, j, map, stage, operand, operands, left, with_table })
        })
    }

    fn changed(self, ops: &[Op], steps: &[Step], own: &impl Fn(Home) -> bool, behind: usize) -> Option<Change> {
        if self.map.stages.len() > 1 {
            let map = self.map.without(self.stage, self.operand);
            let chain = map.op(ops[self.j].tasks.clone());
            return Some((vec![(self.i, self.with_table), (self.j, chain)], None));
        }
        self.to_place(ops).or_else(|| self.in_place(ops, steps, own)).or_else(|| self.apart(ops, steps, own, behind))
    }

    /// The convolution with the table, storing at a place.
    fn storing_at(&self, to: &MapOperand) -> Option<Op> {
        let (ext, strides) = (self.map.ext, to.axes.strides);
        let mut operands = self.operands.clone();
        let (result, _) = operands.movable()?.pop()?;
        *result = Span { home: to.home, range: to.base..to.base + reach(ext, strides), strides };
        let kind = match &self.with_table.kind {
            Kind::Fused(of) => Kind::Fused(Box::new(of.to(operands))),
            Kind::Placed(of) => Kind::Placed(Placed { operands: Box::new(operands), ..of.clone() }),
            _ => return None,
        };
        nested(ext, strides).then(|| Op { kind, writes: vec![to.of(ext)], ..self.with_table.clone() })
    }

    /// The convolution, in place of the chain, storing where the chain does; `None` if it would overwrite its sources, or they are overwritten before.
    fn to_place(&self, ops: &[Op]) -> Option<Change> {
        let &Fold { i, j, ref map, .. } = self;
        let sources = &self.with_table.reads;
        let kept = !ops[i + 1..j].iter().any(|op| op.may_write_any(sources));
        let apart = !sources.iter().any(|read| ops[j].may_write(read));
        let moved = self.storing_at(&map.to).filter(|_| kept && apart)?;
        Some((vec![(j, moved)], Some(i)))
    }

    /// The convolution with the table, and the readers of the chain, which read the convolution's results; `None` if one of them cannot, or if those are
    /// overwritten before.
    fn in_place(&self, ops: &[Op], steps: &[Step], own: &impl Fn(Home) -> bool) -> Option<Change> {
        let &Fold { i, j, ref map, ref left, .. } = self;
        let (old, new) = (Place::of(&map.to, map.ext), Place::of(left, map.ext));
        let mut changed = vec![(i, self.with_table.clone())];
        changed.extend(moved_readers(ops, steps, j, [&old, &new])?);
        let &(last, _) = changed.last()?;
        let mut after = ops[i + 1..=last].iter().zip(i + 1..).filter(|(_, at)| *at != j);
        let kept = after.all(|(op, _)| !op.may_write_any(&self.with_table.writes));
        (own(map.to.home) && last > j && kept).then_some((changed, Some(j)))
    }

    /// The convolution and the readers of the chain with memory of their own, from the first free element behind tile memory on: where the program
    /// placed its results, a reader overwrites what it reads.
    fn apart(&self, ops: &[Op], steps: &[Step], own: &impl Fn(Home) -> bool, behind: usize) -> Option<Change> {
        let &Fold { i, j, ref map, .. } = self;
        let Extents { c, h, w, .. } = map.ext;
        let axes = OperandAxes { strides: [c * h * w, h * w, w], one_column: false };
        let mut to = MapOperand { home: Home::Tile, base: behind, axes };
        let last = readers_of(ops, j, ops[j].writes.last()).last().filter(|_| own(map.to.home))?;
        while let Some(end) = taken_until(ops, i..last + 1, &to.of(map.ext)) {
            to.base = end;
        }
        let mut changed = vec![(i, self.storing_at(&to)?)];
        changed.extend(moved_readers(ops, steps, j, [&Place::of(&map.to, map.ext), &Place::of(&to, map.ext)])?);
        Some((changed, Some(j)))
    }
}

/// End of an access to memory meanwhile, or of one that reads earlier results from there later, in elements; `None` if there is none.
fn taken_until(ops: &[Op], meanwhile: Range<usize>, place: &MemRef) -> Option<usize> {
    let later = |at: usize, of: &MemRef| {
        ops[at].reads.contains(of) && ops[..at].iter().rposition(|op| op.may_write(of)) < Some(meanwhile.start)
    };
    let all = ops.iter().enumerate().skip(meanwhile.start).flat_map(|(at, op)| op.accesses().map(move |of| (at, of)));
    let mut taken = all.filter(|(at, of)| of.overlaps(place) && (meanwhile.contains(at) || later(*at, of)));
    taken.next().map(|(_, of)| (of.end() as usize).div_ceil(2))
}

/// The readers of the result of the operation at `at`, reading it at a new place in place of the old one; `None` if one of them cannot, or reads
/// something else with it.
pub(super) fn moved_readers(
    ops: &[Op],
    steps: &[Step],
    at: usize,
    [old, new]: [&Place; 2],
) -> Option<Vec<(usize, Op)>> {
    let written = ops[at].writes.last()?;
    let mut changed = Vec::new();
    for reader in readers_of(ops, at, Some(written)) {
        let op = &ops[reader];
        let mut places = vec![None; op.reads.len() + op.writes.len()];
        let all = op.places(steps)?;
        for (k, read) in op.reads.iter().enumerate().filter(|(_, read)| read.overlaps(written)) {
            places[k] = Some(all.get(k)?.as_ref()?.part_in(old, new)?);
            if ops[..reader].iter().rposition(|op| op.may_write(read)) != Some(at) {
                return None;
            }
        }
        changed.push((reader, op.at_places(steps, &places)?));
    }
    (!changed.is_empty()).then_some(changed)
}

impl Op {
    /// The convolution, or the group that ends with one, with a table of its results; `None` if it has one. `operands` are those of the last task, and `tasks`
    /// the number of tasks that the table replaces.
    fn with_table(&self, operands: Operands, table: &Arc<Table>, tasks: usize) -> Option<Op> {
        let tasks = self.task_count() + tasks;
        let kind = match &self.kind {
            Kind::Fused(of) => Kind::Fused(Box::new(of.with_table(table.clone())?)),
            Kind::Placed(Placed { after: Some(_), .. }) => return None,
            _ => Kind::Placed(Placed { after: Some(table.clone()), tasks, ..self.placed(operands)? }),
        };
        // Results between the tasks of a group are not stored. Its source comes first.
        let (result, between) = self.writes.split_last()?;
        let read = self.reads.iter().enumerate().filter(|(k, read)| *k == 0 || !between.contains(read));
        let reads = read.map(|(_, read)| read.clone()).collect();
        Some(Op { kind, reads, writes: vec![result.clone()], ..self.clone() })
    }
}
