//! Elementwise tasks as chains of stages, and pass `maps`, which fuses a chain into the only chain that reads its result. Each stage
//! rounds as its task does, by the rules of the number model; intermediate values stay in cache.

use super::moves::{self, readers};
use super::ops::{Kind, Move, Op};
use super::{Step, Work};
use crate::lines::{FIRST, SECOND};
use crate::machine::Machine;
use crate::memory::Home;
use crate::ne::Neural;
use crate::numerics::Parameters;
use crate::operand::MemRef;
use anemone_facts::Field::*;
use anemone_facts::code::{class, condition, planar, second};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::axes::{Elementwise, OperandAxes};
use anemone_kernels::copy::NanRule;
use anemone_kernels::map::{
    self, Combination, ExactCombination, MOST_OPERANDS, MOST_STAGES, MapInput, MapKind, MapStage,
};
use anemone_kernels::num::wide::{Exact, Wide};
use anemone_kernels::params::BinaryOp;
use anemone_kernels::table::Table;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, gather_elements, nested};
use anemone_kernels::workers::Workers;
use half::f16;
use std::collections::HashMap;
use std::sync::Arc;

/// Single-stage chains with more elements are left to the kernels of their tasks.
const SINGLE_STAGE_ELEMENTS: usize = 1 << 11;

/// Fewest elements of a chain for which a table of its own pays; a table takes 128 KB.
const LEAST_LOOKED_UP: usize = 1 << 12;

/// Largest chain, in elements, whose sources are traced through copies.
const MOST_TRACED: usize = 1 << 14;

/// Source or result of a chain. Offset and strides are in fp16 elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapOperand {
    /// The memory.
    pub home: Home,
    /// First element.
    pub base: usize,
    /// Strides.
    pub axes: OperandAxes,
}

/// An elementwise chain, memory to memory.
#[derive(Clone)]
pub struct Map {
    /// Extents of the result.
    pub ext: Extents,
    /// The result.
    pub to: MapOperand,
    /// Operands, by position.
    pub sources: Vec<MapOperand>,
    /// Stages, in order.
    pub stages: Vec<MapStage>,
    /// Number of tasks that it replaces.
    pub tasks: usize,
    /// True if the chain has other sources or stages than its tasks, so that executing the tasks cannot replace it.
    pub rewired: bool,
}

impl MapOperand {
    /// Box of the accessed bytes.
    pub(super) fn of(&self, ext: Extents) -> MemRef {
        let counts = [ext.g, ext.c, ext.h].into_iter().zip(self.axes.strides);
        let axes: Vec<(u64, u64)> =
            counts.filter(|(_, stride)| *stride != 0).map(|(n, stride)| (n as u64, 2 * stride as u64)).collect();
        let row = if self.axes.one_column { 1 } else { ext.w };
        MemRef::new(self.home, 2 * self.base as u64, &axes, 2 * row as u64)
    }

    /// Returns true if both operands have every element of the extents at the same place.
    #[inline]
    pub(super) fn is_that_of(&self, other: &MapOperand, ext: Extents) -> bool {
        let alike = |axis: usize, n: usize| n == 1 || self.axes.strides[axis] == other.axes.strides[axis];
        (self.home, self.base) == (other.home, other.base)
            && (ext.w == 1 || self.axes.one_column == other.axes.one_column)
            && alike(0, ext.g)
            && alike(1, ext.c)
            && alike(2, ext.h)
    }

    /// Offset one past the last element.
    #[inline]
    pub(crate) fn end(&self, ext: Extents) -> usize {
        let row = if self.axes.one_column { 1 } else { ext.w };
        let last = |axis: usize, n: usize| n.saturating_sub(1) * self.axes.strides[axis];
        self.base + row + last(0, ext.g) + last(1, ext.c) + last(2, ext.h)
    }

    /// Copies the elements to contiguous rows in `to` and returns their strides there; `None` if `data`, the region, is too small.
    pub(crate) fn gather(&self, data: &[f16], ext: Extents, to: &mut Vec<f16>) -> Option<Strides> {
        let data = data.get(self.base..self.end(ext))?;
        let row = if self.axes.one_column { 1 } else { ext.w };
        let once = |axis: usize, n: usize| if self.axes.strides[axis] == 0 { 1 } else { n };
        let [groups, channels, rows] = [once(0, ext.g), once(1, ext.c), once(2, ext.h)];
        let [group, channel, next] = self.axes.strides;
        to.clear();
        to.reserve(groups * channels * rows * row);
        for g in 0..groups {
            for c in 0..channels {
                let plane = &data[g * group + c * channel..];
                if row == 1 {
                    let first = to.len();
                    to.resize(first + rows, f16::ZERO);
                    gather_elements(plane, next, &mut to[first..]);
                    continue;
                }
                for h in 0..rows {
                    to.extend_from_slice(&plane[h * next..][..row]);
                }
            }
        }
        let stride = |axis: usize, elements: usize| if self.axes.strides[axis] == 0 { 0 } else { elements };
        Some([stride(0, channels * rows * row), stride(1, rows * row), stride(2, row)])
    }
}

impl Map {
    /// The chain as an operation.
    pub fn op(self, tasks: std::ops::Range<usize>) -> Op {
        let reads = self.sources.iter().map(|source| source.of(self.ext)).collect();
        let writes = vec![self.to.of(self.ext)];
        Op { tasks, reads, writes, kind: Kind::Map(Box::new(self)), known: true }
    }

    /// Fuses `before`, the producer of a source, into this chain; `None` if the extents differ, a source overlaps its result only
    /// partly, or there are too many stages or operands.
    pub(super) fn after(&self, before: &Map) -> Option<Map> {
        if before.ext != self.ext || before.stages.len() + self.stages.len() > MOST_STAGES {
            return None;
        }
        let left = before.to.of(before.ext);
        let mut sources = before.sources.clone();
        let mut inputs = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            if source.is_that_of(&before.to, self.ext) {
                inputs.push(MapInput::Value(before.stages.len() - 1));
            } else if source.of(self.ext).overlaps(&left) {
                return None;
            } else {
                let at = sources.iter().position(|known| known == source).unwrap_or(sources.len());
                if at == sources.len() {
                    sources.push(source.clone());
                }
                inputs.push(MapInput::Operand(at));
            }
        }
        let of = |input: &MapInput| match *input {
            MapInput::Operand(at) => inputs.get(at).copied(),
            MapInput::Value(at) => Some(MapInput::Value(at + before.stages.len())),
        };
        let mut stages = before.stages.clone();
        for stage in &self.stages {
            let inputs = stage.inputs.iter().map(of).collect::<Option<Vec<_>>>()?;
            stages.push(MapStage { inputs, ..stage.clone() });
        }
        let tasks = before.tasks + self.tasks;
        let rewired = before.rewired || self.rewired;
        let fits = sources.len() <= MOST_OPERANDS;
        fits.then(|| Map { ext: self.ext, to: self.to.clone(), sources, stages, tasks, rewired })
    }

    /// Returns true if stages compute by the rules of an exact model.
    pub(super) fn is_exact(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage.kind, MapKind::Convert(_) | MapKind::CombineExactly(_)))
    }

    /// Returns true if the chain only applies factors and a bias to rows of one source with gaps, which is done in registers.
    fn scales(&self) -> bool {
        let [MapStage { inputs, relus: [false, _], kind: MapKind::Combine(of) }] = self.stages.as_slice() else {
            return false;
        };
        let [source] = self.sources.as_slice() else { return false };
        let Extents { h, w, .. } = self.ext;
        let gaps = source.axes.strides[if h == 1 { 1 } else { 2 }] != w && !source.axes.one_column;
        gaps && inputs.len() == 1 && of.ending.function.is_none() && !of.pre.is_some_and(|(_, abs)| abs)
    }

    /// Returns true if the chain is faster than the kernels of its only task, which execute factors, and sums and products with a broadcast
    /// element, in several passes, and in fp64 in the exact models.
    fn is_faster_alone(&self) -> bool {
        if self.scales() {
            return true;
        }
        let plain = |stage: &MapStage| match &stage.kind {
            MapKind::Combine(of) => of.is_plain(),
            MapKind::CombineExactly(of) => of.narrow.is_some(),
            MapKind::Activate { .. } | MapKind::Convert(_) | MapKind::LookUp(_) => false,
        };
        self.stages.iter().all(plain) && self.sources.iter().any(|source| source.axes.one_column)
    }

    /// Reason why the kernel of a single task does not execute the chain.
    pub(crate) fn reason(&self) -> &'static str {
        match self.stages.len() {
            1 if self.tasks > 1 => "several tasks are fused",
            1 if self.rewired => "a source is read where a copy took it from",
            1 if self.scales() => "factors and a bias of one source",
            1 if self.is_faster_alone() => "an element is broadcast to a row",
            1 => "it has few elements",
            _ => "several tasks are fused",
        }
    }

    /// `source` mapped through the copy `of` to that copy's source; `None` unless the result is strided with the same column stride, and the
    /// copy treats NaN as a read does.
    fn source_through(&self, source: &MapOperand, of: &Move) -> Option<MapOperand> {
        let Extents { g, c, h, w } = self.ext;
        let rule = if self.is_exact() { NanRule::Infinity } else { NanRule::Quiet };
        if g * c * h * w > MOST_TRACED || of.rule != rule || of.to.0 != source.home {
            return None;
        }
        let [group, channel, row] = source.axes.strides;
        let column = usize::from(!source.axes.one_column);
        let place = |at: [usize; 4]| {
            let [g, c, h, w] = at;
            of.source_of(source.base + g * group + c * channel + h * row + w * column)
        };
        let first = place([0; 4])?;
        let step = |axis: usize, count: usize| {
            let mut at = [0; 4];
            at[axis] = 1;
            if count > 1 { place(at)?.checked_sub(first) } else { Some(0) }
        };
        let [group, channel, row, column] = [step(0, g)?, step(1, c)?, step(2, h)?, step(3, w)?];
        if w > 1 && column != usize::from(!source.axes.one_column) {
            return None;
        }
        // Checks that every element is where the strides say.
        let all = (0..g * c * h * w).map(|i| [i / (c * h * w), i / (h * w) % c, i / w % h, i % w]);
        let mut all = all.map(|at| (place(at), first + at[0] * group + at[1] * channel + at[2] * row + at[3] * column));
        let axes = OperandAxes { strides: [group, channel, row], one_column: source.axes.one_column };
        all.all(|(place, at)| place == Some(at)).then_some(MapOperand { home: of.from.0, base: first, axes })
    }

    /// The chain with coalesced axes.
    fn joined(mut self) -> Map {
        let mut operands = [self.to.axes; MOST_OPERANDS];
        for (axes, source) in operands.iter_mut().zip(&self.sources) {
            *axes = source.axes;
        }
        let joined = Elementwise { ext: self.ext, to: self.to.axes.strides, operands }.joined();
        self.ext = joined.ext;
        self.to.axes = OperandAxes { strides: joined.to, one_column: false };
        for (source, axes) in self.sources.iter_mut().zip(joined.operands) {
            source.axes = axes;
        }
        self
    }

    /// For each source, true if it is in the result buffer.
    #[inline]
    pub(crate) fn in_place(&self) -> impl Iterator<Item = bool> + '_ {
        self.sources.iter().map(|source| source.is_that_of(&self.to, self.ext))
    }
}

/// Pass `maps`. `own` returns true for regions that only the program's tasks access.
pub(super) fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    for j in 0..ops.len() {
        while let Some(map) = through_copy(ops, j) {
            ops[j] = map.op(ops[j].tasks.clone());
        }
    }
    moves::drop_unread(ops, &own);
    let mut j = 0;
    while j < ops.len() {
        while let Some((i, map)) = producer(ops, j, &own) {
            ops[j] = map.op(ops[j].tasks.clone());
            ops.remove(i);
            j -= 1;
        }
        j += 1;
    }
}

/// Pass `tables`: replaces stages that depend on a single operand by one table, if that is faster. Equal parts share a table.
pub(super) fn tables(ops: &mut [Op], workers: &Workers) {
    let mut known: HashMap<Vec<u64>, (Vec<MapStage>, Arc<Table>)> = HashMap::new();
    let converts = workers.converts();
    for op in ops {
        let Kind::Map(map) = &mut op.kind else { continue };
        if map.ext.g * map.ext.c * map.ext.plane() < LEAST_LOOKED_UP {
            continue;
        }
        let stages = map::with_tables(&map.stages, converts, |part| {
            // `known` keeps the stages alive, so that the addresses in their keys stay unique.
            let (_, table) = known.entry(map::key(&part)).or_insert_with(|| {
                let table = Arc::new(map::table_of(workers, &part));
                (part, table)
            });
            table.clone()
        });
        if let Some(stages) = stages {
            (map.stages, map.rewired) = (stages, true);
        }
    }
}

/// Pass `join`: coalesces the axes of chains, and returns single-stage chains to the kernels of their tasks where those are as
/// fast.
pub(super) fn join(ops: &mut [Op]) {
    for op in ops {
        let Kind::Map(map) = &op.kind else { continue };
        let elements = map.ext.g * map.ext.c * map.ext.plane();
        op.kind = match map.stages.len() {
            1 if elements > SINGLE_STAGE_ELEMENTS && !map.rewired && !map.is_faster_alone() => Kind::Task(map.name()),
            _ => Kind::Map(Box::new(map.as_ref().clone().joined())),
        };
    }
}

/// The chain at `j` with one source read from the source of the copy that wrote it; `None` if there is no such source.
fn through_copy(ops: &[Op], j: usize) -> Option<Map> {
    let Kind::Map(map) = &ops[j].kind else { return None };
    (0..map.sources.len()).find_map(|k| {
        let read = map.sources[k].of(map.ext);
        let i = ops[..j].iter().rposition(|op| op.may_write(&read))?;
        let of = ops[i].as_move()?;
        let source = map.source_through(&map.sources[k], of)?;
        let found = source.of(map.ext);
        let kept = ops[i + 1..j].iter().all(|op| !op.may_write(&found)) && !of.written().overlaps(&of.read());
        let mut map = map.as_ref().clone();
        (map.sources[k], map.rewired) = (source, true);
        kept.then_some(map)
    })
}

/// Index of a chain whose result is read only by the chain at `j`, and the fused chain.
fn producer(ops: &[Op], j: usize, own: &impl Fn(Home) -> bool) -> Option<(usize, Map)> {
    let Kind::Map(map) = &ops[j].kind else { return None };
    ops[j].reads.iter().find_map(|read| {
        let i = ops[..j].iter().rposition(|op| op.may_write(read))?;
        let Kind::Map(before) = &ops[i].kind else { return None };
        let both = map.after(before).filter(|_| own(before.to.home))?;
        let alone = readers(ops, i).all(|reader| reader == j);
        // The sources of the earlier chain must still hold their values.
        let kept = !ops[i + 1..j].iter().any(|op| op.may_write_any(&ops[i].reads));
        (alone && kept).then_some((i, both))
    })
}

impl Map {
    /// Kind of computation in a few words, for listings.
    pub(crate) fn name(&self) -> &'static str {
        match self.stages.as_slice() {
            [stage] => match (&stage.kind, stage.inputs.len()) {
                _ if self.tasks > 1 => "fused elementwise",
                (MapKind::Activate { .. } | MapKind::Convert(_) | MapKind::LookUp(_), _) => "table",
                (_, 1) => "elementwise of one",
                (_, 2) => "elementwise of two",
                _ => "scale and shift",
            },
            _ => "fused elementwise",
        }
    }
}

/// An operand with its groups, channels and rows in the order of their strides.
pub fn by_stride(ext: Extents, mut of: MapOperand) -> (Extents, MapOperand) {
    let [group, channel, row] = of.axes.strides;
    let sorted = |a: [usize; 2], b: [usize; 2]| if a[0] < b[0] { [b, a] } else { [a, b] };
    let [one, two] = sorted([group, ext.g], [channel, ext.c]);
    let [two, [row, h]] = sorted(two, [row, ext.h]);
    let [[group, g], [channel, c]] = sorted(one, two);
    of.axes.strides = [group, channel, row];
    (Extents { g, c, h, ..ext }, of)
}

impl Machine<'_> {
    /// The current task as a single-stage chain; `None` for other kinds of tasks, and for several depth planes.
    pub(super) fn as_map(&self, step: &Step) -> Option<Map> {
        if self.depths() != (0..1) || self.source_depths() != (0..1) {
            return None;
        }
        let (ext, stage, sources) = match &step.work {
            Work::Neural(_) if self.get(NeTranspose) == 1 => return None,
            Work::Neural(neural) => {
                (neural.output, self.activation_stage(neural)?, vec![self.first_source([false; 3])?])
            }
            Work::Planar(_) => self.planar_stage()?,
            Work::Own(_) | Work::Skipped => return None,
        };
        let to = self.map_result(ext)?;
        Some(Map { ext, to, sources, stages: vec![stage], tasks: 1, rewired: false })
    }

    /// Activation of a copying task, as an in-place chain on its result.
    pub(super) fn activates_in_place(&self, neural: &Neural) -> Option<Map> {
        if self.model.rounding().is_some() || self.depths() != (0..1) || self.source_depths() != (0..1) {
            return None;
        }
        let ext = if self.get(NeTranspose) == 1 { neural.output.transposed() } else { neural.output };
        let (stage, to) = (self.activation_stage(neural)?, self.result_operand(ext)?);
        // The stage treats all axes alike: any order of them is as good, but results are partitioned from the longest stride to the shortest.
        let (ext, to) = if nested(ext, to.axes.strides) { (ext, to) } else { by_stride(ext, to) };
        let map = Map { ext, sources: vec![to.clone()], to, stages: vec![stage], tasks: 1, rewired: true };
        nested(ext, map.to.axes.strides).then_some(map)
    }

    fn activation_stage(&self, neural: &Neural) -> Option<MapStage> {
        let (bias, scale, activation) = (self.added(), self.factor(), self.activates(neural)?);
        let kind = match self.model.rounding() {
            None => MapKind::Activate { bias, scale, activation },
            Some(_) if self.crop_gain_log2().is_some() => return None,
            Some(_) => MapKind::Convert(neural.exactly.clone()?),
        };
        Some(MapStage { inputs: vec![MapInput::Operand(0)], relus: [false; 2], kind })
    }

    /// Extents, stage and sources of a planar task.
    pub(super) fn planar_stage(&self) -> Option<(Extents, MapStage, Vec<MapOperand>)> {
        let class = self.get(TaskClass);
        let ext = self.input_extents();
        let inputs = match (class, self.get(PeSecond)) {
            (class::PLANAR_ONE, second::NONE) if self.pooling_window().is_trivial() => 1,
            (class::PLANAR_TWO, second::SOURCE | second::NEGATED) => 2,
            (class::PLANAR_AFFINE, second::SOURCE | second::NEGATED) if self.get(PeOp) == planar::ADD => 3,
            _ => return None,
        };
        let pairs_turned = inputs == 3 && self.get(Src2Transpose) == 1;
        let alike = [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| self.get(out) == self.get(of));
        let in_order = self.transposes_columns_alone(false);
        let abs = match self.get(PeCond) {
            condition::NONE => false,
            condition::ABS => true,
            _ => return None,
        };
        if !alike || !in_order {
            return None;
        }
        let kind = match self.model.rounding() {
            None => MapKind::Combine(Box::new(self.combination(inputs, abs)?)),
            Some(rules) => {
                let of = self.combination::<Exact>(inputs, abs)?;
                let narrow = self.combination::<f32>(inputs, abs)?;
                let plain = of.pre.is_none()
                    && inputs < 3
                    && (inputs == 1 || of.operation.op != BinaryOp::SquareOfSum)
                    && narrow.ending.plain
                    && self.get(PeBias) == 0
                    && narrow.ending.function.is_none();
                let narrow = plain.then_some(narrow);
                MapKind::CombineExactly(Box::new(ExactCombination { rules, of, narrow }))
            }
        };
        let flags = |of: [anemone_facts::Field; 4]| [of[0], of[1], of[2]].map_each(|f| self.get(f) == 1);
        let mut sources = vec![self.exchanged(self.first_source(flags(FIRST))?, FIRST)];
        match inputs {
            2 => sources.push(self.exchanged(self.second_source(flags(SECOND))?, SECOND)),
            3 => sources.extend(self.pairs(flags(SECOND), pairs_turned)?),
            _ => {}
        }
        let relus = [InputRelu, Src2InputRelu].map_each(|f| self.get(f) == 1);
        Some((ext, MapStage { inputs: (0..inputs).map(MapInput::Operand).collect(), relus, kind }, sources))
    }

    /// Combination that the planar task computes of `inputs` sources.
    pub(super) fn combination<N: Wide>(&self, inputs: usize, abs: bool) -> Option<Combination<N>> {
        let (operation, ending) = (self.operation(inputs == 1).ok()?, self.ending().ok()?);
        let pre = self.half(PePreScale);
        let pre = (pre != 1.0 || abs).then(|| (N::canonicalize(pre), abs));
        Some(Combination { pre, operation, ending })
    }

    /// Operands of per-channel addends and factors, stored as two rows of channels or as two rows for each channel. `flags`: broadcast of
    /// columns, of one row to both, and of one pair to all channels.
    fn pairs(&self, flags: [bool; 3], turned: bool) -> Option<[MapOperand; 2]> {
        // With one row, addend and factor are the same.
        let [_, one_row, one_pair] = flags;
        let addends = self.second_source([true, false, false])?;
        let [group, channel, row] = addends.axes.strides;
        let channel = if turned { 1 } else { channel };
        let strides = [group, if one_pair { 0 } else { channel }, 0];
        let axes = OperandAxes { strides, one_column: true };
        let factor = if one_row { 0 } else { row };
        Some([0, factor].map_each(|offset| MapOperand { base: addends.base + offset, axes, ..addends.clone() }))
    }

    /// Exchanges channels and columns of a source with one column, if the task transposes it.
    fn exchanged(&self, mut of: MapOperand, [_, _, channels, transpose]: [anemone_facts::Field; 4]) -> MapOperand {
        if self.get(transpose) == 1 {
            of.axes.strides[1] = usize::from(self.get(channels) == 0);
        }
        of
    }
}
