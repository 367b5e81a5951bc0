//! Pass `blocks`: row blocking of a product, the chains and reductions of its rows, and a product that reads them as coefficients, as in
//! attention over a long sequence. A block of rows goes through all operations at a time, so that intermediate results stay in cache.

use super::maps::{Map, MapOperand};
use super::moves::readers;
use super::ops::{Kind, Move, Op};
use super::product::Product;
use super::reduction::Reduction;
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;

/// Approximate bytes of a block.
const BLOCK_BYTES: usize = 3 << 18;
/// Intermediate results below this size are not blocked, because they stay in cache anyway.
const LEAST_BYTES: usize = 1 << 21;
/// Rows of a block are a multiple of this.
const ROWS: usize = 24;

/// Pass `blocks`. `own` returns true for regions that only the program's tasks access.
pub(super) fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    let mut i = 0;
    while i < ops.len() {
        match Rows::of(ops, i, &own).and_then(|rows| Some((rows.end, rows.blocks()?))) {
            Some((end, blocks)) => {
                i += blocks.len();
                ops.splice(i - blocks.len()..=end, blocks);
            }
            None => i += 1,
        }
    }
}

/// Candidate for blocking: the operations from one product to the next, each of which reads rows of the one before.
struct Rows<'a> {
    ops: &'a [Op],
    /// Index of the last operation.
    end: usize,
    first: &'a Product,
    last: &'a Product,
    /// Chains and reductions between the products, with the index of the operation that wrote each of their sources; `None` for a source that
    /// was in memory before.
    between: Vec<(&'a Op, Vec<Option<usize>>)>,
}

/// Rows in memory at a constant pitch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    home: Home,
    base: usize,
    /// Elements between rows.
    pitch: usize,
}

/// Number of groups, and rows per group.
type Counts = [usize; 2];

/// Group and row stride of an operand in elements; `None` if its axes do not correspond to groups and rows.
fn strides_of(of: &MapOperand, ext: Extents, [groups, rows]: Counts) -> Option<[usize; 2]> {
    let [group, channel, row] = of.axes.strides;
    match [ext.g, ext.c, ext.h] {
        [g, c, 1] if [g, c] == [groups, rows] => Some([group, channel]),
        [1, c, h] if [h, c] == [groups, rows] => Some([row, channel]),
        [1, c, h] if [c, h] == [groups, rows] => Some([channel, row]),
        [1, c, 1] if c == groups * rows => Some([rows * channel, channel]),
        _ => None,
    }
}

impl Place {
    /// Location of all rows of an operand; `None` unless they have a constant pitch.
    fn of(of: &MapOperand, ext: Extents, counts: Counts) -> Option<Place> {
        let [group, pitch] = strides_of(of, ext, counts)?;
        let even = counts[0] == 1 || group == counts[1] * pitch;
        even.then_some(Place { home: of.home, base: of.base, pitch })
    }

    /// These rows as an operand of one group whose channels are the rows.
    fn operand(self, one_column: bool) -> MapOperand {
        let axes = OperandAxes { strides: [0, self.pitch, 0], one_column };
        MapOperand { home: self.home, base: self.base, axes }
    }
}

/// The rows of an operand from row `first` (over all groups) on, as an operand of one group whose channels are the rows.
fn from_row(of: &MapOperand, ext: Extents, counts: Counts, first: usize) -> Option<MapOperand> {
    let [group, pitch] = strides_of(of, ext, counts)?;
    let base = of.base + first / counts[1] * group + first % counts[1] * pitch;
    Some(Place { home: of.home, base, pitch }.operand(of.axes.one_column))
}

/// Sources of a chain or reduction with their extents, and its result with its extents; `None` for other operations.
fn operands(op: &Op) -> Option<(Vec<&MapOperand>, Extents, &MapOperand, Extents)> {
    match &op.kind {
        Kind::Map(of) => Some((of.sources.iter().collect(), of.ext, &of.to, of.ext)),
        Kind::Reduction(of) => Some((vec![&of.source], of.ext, &of.to, of.result())),
        _ => None,
    }
}

impl<'a> Rows<'a> {
    /// Matches the operations from `i` on; `None` unless they have that form, and no other operation reads their intermediate results.
    fn of(ops: &'a [Op], i: usize, own: &impl Fn(Home) -> bool) -> Option<Rows<'a>> {
        let Kind::Product(first) = &ops[i].kind else { return None };
        let rows = first.output.g * first.output.c;
        let columns = first.output.plane();
        let one_by_one = first.output.h == 1 && !first.transposed;
        if !one_by_one || 2 * rows * columns < LEAST_BYTES || !own(first.to.home) {
            return None;
        }
        let end = (i + 1..ops.len()).find(|&j| operands(&ops[j]).is_none())?;
        let Kind::Product(last) = &ops[end].kind else { return None };
        let alike = (last.output.g, last.output.c, last.output.h) == (first.output.g, first.output.c, 1);
        let whole = [first, last].iter().all(|of| of.coefficients.rows.len() == rows);
        if !alike || !whole || end == i + 1 {
            return None;
        }
        let counts = [first.output.g, first.output.c];
        let mut places = vec![(i, Place::of(&first.to, first.output, counts)?)];
        let mut between = Vec::new();
        for (j, op) in ops.iter().enumerate().take(end).skip(i + 1) {
            let (sources, ext, to, result) = operands(op)?;
            if ext.w != columns {
                return None;
            }
            let mut writers = Vec::new();
            for source in sources {
                let (read, _) = (source.of(ext), strides_of(source, ext, counts)?);
                let writer = (i..j).rev().find(|&k| ops[k].may_write(&read));
                let place = |k: usize| places.iter().find(|(at, _)| *at == k).map(|(_, place)| *place);
                let alike = |k: usize| {
                    let one = source.axes.one_column || !matches!(ops[k].kind, Kind::Reduction(_));
                    one && place(k) == Place::of(source, ext, counts)
                };
                if writer.is_some_and(|k| !alike(k)) {
                    return None;
                }
                writers.push(writer);
            }
            places.push((j, Place::of(to, result, counts)?));
            between.push((op, writers));
        }
        let found = Rows { ops, end, first, last, between };
        (found.reads_rows(places.last()?.1, columns) && found.is_free(i, own)).then_some(found)
    }

    /// Returns true if the coefficients of the last product are the rows of the last chain.
    fn reads_rows(&self, place: Place, columns: usize) -> bool {
        let of = &self.last.coefficients;
        let each = of.rows.iter().enumerate().all(|(row, at)| *at == place.base + row * place.pitch);
        let Some((Op { kind: Kind::Map(map), .. }, _)) = self.between.last() else { return false };
        each && of.home == place.home && of.stride == 1 && of.taps == columns && map.ext.w == columns
    }

    /// Returns true if blocking preserves all dependences: only these operations read the intermediate results, a result that a later one
    /// overwrites in a block is not read again, and no memory that they read changes in between.
    fn is_free(&self, i: usize, own: &impl Fn(Home) -> bool) -> bool {
        let end = self.end;
        let private = |k: usize| {
            self.ops[k].writes.iter().all(|of| own(of.home)) && readers(self.ops, k).all(|reader| reader <= end)
        };
        // In a block, every chain writes its rows over those of the product.
        let mut held = i;
        let mut in_turn = true;
        for (at, (op, _)) in self.between.iter().enumerate() {
            if let Kind::Map(_) = op.kind {
                in_turn &= self.between[at + 1..].iter().all(|(_, writers)| !writers.contains(&Some(held)));
                held = i + 1 + at;
            }
        }
        let target = self.ops[i].writes.first();
        let written = |of: &MemRef| target.is_none_or(|target| target.overlaps(of)) || self.ops[end].may_write(of);
        let outside = self.between.iter().flat_map(|(op, writers)| op.reads.iter().zip(writers));
        let outside = outside.filter(|(_, writer)| writer.is_none()).map(|(read, _)| read);
        let source = self.last.source.of(self.last.input);
        let mut outside = outside.chain(&self.ops[i].reads).chain([&source]);
        let apart = target.is_some_and(|target| !self.ops[end].may_write(target))
            && !self.ops[i..end].iter().any(|op| op.may_write(&source));
        let reductions = self.between.iter().filter(|(op, _)| matches!(op.kind, Kind::Reduction(_))).count();
        let Extents { g, c, w, .. } = self.first.output;
        let rows = self.rows_at_once();
        let space = rows + reductions <= g * c && rows <= w;
        in_turn && apart && space && (i..end).all(private) && !outside.any(written)
    }

    /// Rows of a block.
    fn rows_at_once(&self) -> usize {
        let channels = self.first.output.c;
        let most = (BLOCK_BYTES / (2 * self.first.output.plane())).max(ROWS);
        let blocks = channels.div_ceil(most);
        channels.div_ceil(blocks).next_multiple_of(ROWS).min(channels)
    }

    /// The blocked operations; `None` if an operand has axes that cannot be split by rows.
    fn blocks(&self) -> Option<Vec<Op>> {
        let (groups, channels) = (self.first.output.g, self.first.output.c);
        let mut made = Vec::new();
        for group in 0..groups {
            for first in (0..channels).step_by(self.rows_at_once()) {
                let count = self.rows_at_once().min(channels - first);
                self.block(group * channels + first, count, &mut made)?;
            }
        }
        Some(made)
    }

    /// Appends the operations of one block: `count` rows of one group, from row `row` on. Replaced tasks are counted in the first block.
    fn block(&self, row: usize, count: usize, made: &mut Vec<Op>) -> Option<()> {
        let counts = [self.first.output.g, self.first.output.c];
        let rows = Place::of(&self.first.to, self.first.output, counts)?;
        let start = self.end - self.between.len() - 1;
        let counted = |tasks: usize| if row == 0 { tasks } else { 0 };
        let tasks = |at: usize| self.ops[at].tasks.clone();
        let mut first = part(self.first, row, count, counted(self.first.tasks));
        (first.to, first.coefficients.rows) =
            (rows.operand(false), self.first.coefficients.rows[row..row + count].to_vec());
        made.push(first.op(tasks(start)));
        // Location of each operation's result: rows in place, and the results of reductions behind them.
        let mut places = vec![rows];
        let mut behind = self.rows_at_once();
        for (at, (op, writers)) in self.between.iter().enumerate() {
            let moved = |source: &MapOperand, ext: Extents, writer: &Option<usize>| match writer {
                Some(writer) => Some(places[writer - start].operand(source.axes.one_column)),
                None => from_row(source, ext, counts, row),
            };
            let some = |ext: Extents| Extents { g: 1, c: count, h: 1, ..ext };
            match &op.kind {
                Kind::Map(map) => {
                    let sources = map.sources.iter().zip(writers).map(|(of, writer)| moved(of, map.ext, writer));
                    let (ext, stages) = (some(map.ext), map.stages.clone());
                    let (sources, tasks_of) = (sources.collect::<Option<_>>()?, counted(map.tasks));
                    let map = Map { ext, to: rows.operand(false), sources, stages, tasks: tasks_of, rewired: true };
                    made.push(map.op(tasks(start + 1 + at)));
                    places.push(rows);
                }
                Kind::Reduction(of) => {
                    let place = Place { base: rows.base + behind * rows.pitch, pitch: 1, ..rows };
                    let source = moved(&of.source, of.ext, &writers[0])?;
                    let (ext, tasks_of) = (some(of.ext), counted(of.tasks));
                    let of =
                        Reduction { ext, source, to: place.operand(false), tasks: tasks_of, ..of.as_ref().clone() };
                    made.push(of.op(tasks(start + 1 + at)));
                    places.push(place);
                    behind += 1;
                }
                _ => {}
            }
        }
        let mut last = part(self.last, row, count, counted(self.last.tasks));
        let step = if self.last.transposed { 1 } else { self.last.to.axes.strides[1] };
        let (group, channel) = (row / self.last.output.c, row % self.last.output.c);
        last.to.base += group * self.last.to.axes.strides[0] + channel * step;
        last.read_rows((rows.home, rows.base), rows.pitch, count);
        made.push(last.op(tasks(self.end)));
        Some(())
    }
}

/// A product restricted to `count` rows of one group, from row `row` over all groups on; result and coefficients are still complete.
fn part(of: &Product, row: usize, count: usize, tasks: usize) -> Product {
    let mut part = of.clone();
    part.source.base += row / of.output.c * of.source.axes.strides[0];
    (part.input.g, part.output.g, part.output.c, part.tasks) = (1, 1, count, tasks);
    part
}

impl Product {
    /// Reads the coefficients from `count` rows, the first at `from`, `pitch` elements apart.
    fn read_rows(&mut self, from: (Home, usize), pitch: usize, count: usize) {
        let taps = self.coefficients.taps;
        self.coefficients.home = from.0;
        self.coefficients.rows = (0..count).map(|row| from.1 + row * pitch).collect();
        let axes = [CopyAxis { count, to: taps, from: pitch }, CopyAxis { count: taps, to: 1, from: 1 }];
        self.parts = Move::new(NanRule::Quiet, from, from, &axes).into_iter().collect();
    }
}
