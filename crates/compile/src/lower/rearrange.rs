//! Copies between arbitrary strides: the cheapest sequence of tasks that the DMA engines can do, by tasks and bytes moved.
//!
//! One task copies rows, exchanges columns with one other axis, or interleaves up to fifteen rows as columns (and the
//! reverse). Everything else goes through a scratch tensor: whole source rows become rows of single elements, for every position along an
//! axis that takes the columns; from there every destination row is one exchange away.

use super::Lowerer;
use super::layout::copy_kind;
use super::strided::Strided;
use crate::error::Result;
use crate::ir::*;
use anemone_facts::Field;
use anemone_program::order;

/// One loop of a copy: count, and strides of source and result in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    pub extent: usize,
    pub from: u64,
    pub to: u64,
}

/// A copy as nested loops over bytes.
#[derive(Clone, Debug)]
pub(super) struct Move {
    pub from: (BufferId, u64),
    pub to: (BufferId, u64),
    pub loops: Vec<Loop>,
}

/// Cost of one task, as an equivalent of bytes moved.
const TASK_BYTES: u64 = 64 << 10;
/// Largest scratch tensor of a copy.
const MOST_SCRATCH_BYTES: u64 = 1 << 31;
/// Most tasks that one copy may take.
const MOST_TASKS: usize = 4096;

/// Returns true if a number of bytes is a multiple of [`ROW_ALIGN`].
fn aligned(bytes: u64) -> bool {
    bytes.is_multiple_of(ROW_ALIGN)
}

impl Move {
    /// The copy of a tensor with any strides into a view of the same extents.
    pub fn of(from: &Strided, to: &View) -> Move {
        let strides = to.lead.iter().map(|a| a.stride_bytes).chain([ELEMENT_BYTES]);
        let mut loops = Vec::new();
        for (atoms, stride) in from.axes.iter().zip(strides) {
            let mut to = stride;
            let mut own: Vec<Loop> = Vec::new();
            for atom in atoms.iter().rev() {
                own.push(Loop { extent: atom.extent, from: atom.stride_bytes, to });
                to *= atom.extent as u64;
            }
            loops.extend(own.into_iter().rev());
        }
        Move { from: (from.buffer, from.offset_bytes), to: (to.buffer, to.offset_bytes), loops }.joined()
    }

    /// Merges loops that are contiguous on both sides.
    pub fn joined(mut self) -> Move {
        self.loops.retain(|l| l.extent > 1);
        'again: loop {
            for i in 0..self.loops.len() {
                for j in 0..self.loops.len() {
                    let (outer, inner) = (self.loops[i], self.loops[j]);
                    let n = inner.extent as u64;
                    if i != j && outer.from == inner.from * n && outer.to == inner.to * n {
                        self.loops[j].extent *= outer.extent;
                        self.loops.remove(i);
                        continue 'again;
                    }
                }
            }
            return self;
        }
    }

    fn without(&self, taken: &[Loop]) -> Vec<Loop> {
        self.loops.iter().filter(|l| !taken.contains(l)).copied().collect()
    }

    /// Loops inside rows of the source, and of the destination, outermost first.
    fn within_rows(&self) -> [Vec<Loop>; 2] {
        let pick = |stride: fn(&Loop) -> u64| {
            let mut loops: Vec<Loop> = self.loops.iter().filter(|l| !aligned(stride(l))).copied().collect();
            order::by_key(&mut loops, |l| std::cmp::Reverse(stride(l)));
            loops
        };
        [pick(|l| l.from), pick(|l| l.to)]
    }
}

/// Form of a copy, or of its last step, as one task.
enum Way {
    /// Row by row.
    Rows { columns: Option<Loop> },
    /// The source's columns become an axis, and an axis becomes the result's columns.
    Exchange { source: Option<Loop>, result: Option<Loop> },
    /// Source rows are interleaved in rows of the result.
    Interleave { columns: Option<Loop>, sets: Loop },
    /// Interleaved rows of the source are separated.
    Separate { columns: Option<Loop>, sets: Loop },
}

/// Form of a copy as several tasks, if one is not enough.
enum Detour {
    /// Through a scratch tensor whose columns are this loop.
    Scratch(Option<Loop>),
    /// Rows in the order of the result first.
    InOrder,
}

impl Lowerer<'_> {
    /// Copies a tensor with any strides into a view.
    pub(super) fn rearrange(&mut self, from: &Strided, to: &View) -> Result<()> {
        self.move_elements(&Move::of(from, to))
    }

    pub(super) fn move_elements(&mut self, copy: &Move) -> Result<()> {
        if let Some(way) = self.single_task(copy) {
            return self.one_way(copy, way);
        }
        // Tries every axis that may take the columns of the scratch tensor; the cheapest is executed again at the end.
        let [source, result] = copy.within_rows();
        let free = |l: &Loop| !source.contains(l) && (!result.contains(l) || result.len() == 1) && aligned(l.from);
        let mut ways: Vec<Detour> = copy.loops.iter().filter(|l| free(l)).map(|l| Detour::Scratch(Some(*l))).collect();
        ways.extend([Detour::Scratch(None), Detour::InOrder]);
        let mut best: Option<(u64, usize)> = None;
        for (i, way) in ways.iter().enumerate() {
            let cost = self.tried(|lowerer| lowerer.detour(copy, way));
            if let Some(cost) = cost.filter(|cost| best.is_none_or(|(least, _)| *cost < least)) {
                best = Some((cost, i));
            }
        }
        match best {
            Some((_, i)) => self.detour(copy, &ways[i]),
            None => Err(self.unsupported("a copy of more tasks than a program has", "keep the last axis in its place")),
        }
    }

    fn detour(&mut self, copy: &Move, way: &Detour) -> Result<()> {
        match way {
            Detour::Scratch(columns) => self.by_scratch(copy, *columns),
            Detour::InOrder => self.in_order(copy),
        }
    }

    /// Cost of the layers that `make` adds, see [`Self::cost_since`]; `None` if `make` fails. Its layers, buffers and recorded views
    /// are removed again.
    pub(super) fn tried(&mut self, make: impl FnOnce(&mut Self) -> Result<()>) -> Option<u64> {
        let (layers, buffers) = (self.graph.layers.len(), self.graph.buffers.len());
        let made = make(self);
        let cost = self.cost_since(layers);
        self.graph.layers.truncate(layers);
        self.graph.buffers.truncate(buffers);
        // No recorded view may refer to a removed buffer.
        let stays = |view: &View| (view.buffer.0 as usize) < buffers;
        self.views.retain(|_, view| stays(view));
        self.reserved.retain(|_, view| stays(view));
        self.masks.retain(|_, view| stays(view));
        self.half_turns.retain(|(_, view)| stays(view));
        self.turned.retain(|_, turned| stays(turned.view()));
        made.ok().map(|()| cost)
    }

    /// Cost of the layers from index on: the bytes they move, and [`TASK_BYTES`] for each.
    fn cost_since(&self, first: usize) -> u64 {
        let bytes = |v: &View4| {
            let rows: usize = v.axes.iter().map(|a| a.extent).product();
            rows as u64 * (v.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN)
        };
        let layers = &self.graph.layers[first..];
        layers.iter().map(|l| TASK_BYTES + bytes(&l.result) + l.sources.iter().map(bytes).sum::<u64>()).sum()
    }

    /// Form of the copy as a single task, if there is one.
    fn single_task(&self, copy: &Move) -> Option<Way> {
        if !aligned(copy.from.1) || !aligned(copy.to.1) {
            return None;
        }
        let most = self.field_max(Field::DstInterleave).unwrap_or(1) as usize;
        let widest = self.chip.hal.max_tensor_width.map_or(usize::MAX, |n| n as usize);
        let fits = |outer: &Loop, inner: &Loop| inner.extent <= most && outer.extent * inner.extent <= widest;
        let [source, result] = copy.within_rows();
        match (source.as_slice(), result.as_slice()) {
            ([], []) => Some(Way::Rows { columns: None }),
            (&[s], &[r]) if s == r && s.from == ELEMENT_BYTES && s.to == ELEMENT_BYTES => {
                Some(Way::Rows { columns: Some(s) })
            }
            (s @ ([] | [_]), r @ ([] | [_])) if s != r => {
                let (s, r) = (s.first().copied(), r.first().copied());
                let whole = s.is_none_or(|l| l.from == ELEMENT_BYTES) && r.is_none_or(|l| l.to == ELEMENT_BYTES);
                whole.then_some(Way::Exchange { source: s, result: r })
            }
            (s, &[outer, inner]) if inner.to == ELEMENT_BYTES && outer.to == inner.extent as u64 * ELEMENT_BYTES => {
                let columns = s == [outer] && outer.from == ELEMENT_BYTES && fits(&outer, &inner);
                columns.then_some(Way::Interleave { columns: Some(outer), sets: inner })
            }
            (&[outer, inner], r)
                if inner.from == ELEMENT_BYTES && outer.from == inner.extent as u64 * ELEMENT_BYTES =>
            {
                let columns = r == [outer] && outer.to == ELEMENT_BYTES && fits(&outer, &inner);
                columns.then_some(Way::Separate { columns: Some(outer), sets: inner })
            }
            _ => None,
        }
    }

    fn one_way(&mut self, copy: &Move, way: Way) -> Result<()> {
        let width = |l: &Option<Loop>| l.map_or(1, |l| l.extent);
        match way {
            Way::Rows { columns } => {
                let mut lead = copy.without(columns.as_slice());
                order::by_key(&mut lead, |l| l.extent);
                let view = |(buffer, offset_bytes): (BufferId, u64), stride: fn(&Loop) -> u64| View {
                    buffer,
                    offset_bytes,
                    lead: lead.iter().map(|l| Axis { extent: l.extent, stride_bytes: stride(l) }).collect(),
                    width: width(&columns),
                };
                let (from, to) = (view(copy.from, |l| l.from), view(copy.to, |l| l.to));
                self.few(lead.len().saturating_sub(3), &lead)?;
                self.copy(&from, &to)
            }
            Way::Exchange { source, result } => self.exchange_columns(copy, source, result),
            Way::Interleave { columns, sets } => self.side_by_side(copy, columns, sets, true),
            Way::Separate { columns, sets } => self.side_by_side(copy, columns, sets, false),
        }
    }

    /// Refuses copies whose outer loops make too many tasks.
    fn few(&self, outside: usize, loops: &[Loop]) -> Result<()> {
        let tasks = loops[..outside].iter().fold(1usize, |n, l| n.saturating_mul(l.extent));
        if tasks <= MOST_TASKS {
            return Ok(());
        }
        Err(self.unsupported(format!("a copy of {tasks} tasks"), "keep the last axis in its place"))
    }

    /// Offsets of source and result for all iterations of the loops outside of a task.
    fn offsets(&self, loops: &[Loop]) -> Result<Vec<[u64; 2]>> {
        self.few(loops.len(), loops)?;
        let first = vec![[0, 0]];
        Ok(loops.iter().fold(first, |all, l| {
            all.iter().flat_map(|o| (0..l.extent as u64).map(|i| [o[0] + i * l.from, o[1] + i * l.to])).collect()
        }))
    }

    fn exchange_columns(&mut self, copy: &Move, source: Option<Loop>, result: Option<Loop>) -> Result<()> {
        let taken: Vec<Loop> = source.into_iter().chain(result).collect();
        let mut rest = copy.without(&taken);
        order::by_key(&mut rest, |l| std::cmp::Reverse(l.extent));
        let outside = rest.split_off(rest.len().min(2));
        rest.reverse();
        // Column pieces of either side that the exchange holds, on row boundaries.
        let hal = &self.chip.hal;
        let align = (ROW_ALIGN / ELEMENT_BYTES) as usize;
        let most = |limit: Option<u64>| limit.map_or(usize::MAX, |n| n as usize / align * align).max(align);
        let [wide, high] = [most(hal.max_transpose_width), most(hal.max_transpose_height)];
        let count = |l: Option<Loop>| l.map_or(1, |l| l.extent);
        let (columns, channels) = (count(source), count(result));
        for [from, to] in self.offsets(&outside)? {
            for first in (0..columns).step_by(wide) {
                for start in (0..channels).step_by(high) {
                    let (width, height) = (wide.min(columns - first), high.min(channels - start));
                    let at =
                        |l: Option<Loop>, stride: fn(&Loop) -> u64, n: usize| l.map_or(0, |l| stride(&l) * n as u64);
                    let lead = |stride: fn(&Loop) -> u64, own: Axis| {
                        let rest = rest.iter().map(|l| Axis { extent: l.extent, stride_bytes: stride(l) });
                        rest.chain([own]).collect::<Vec<Axis>>()
                    };
                    let axis = |extent: usize, l: Option<Loop>, stride: fn(&Loop) -> u64| Axis {
                        extent,
                        stride_bytes: l.map_or(0, |l| stride(&l)),
                    };
                    let source_view = View {
                        buffer: copy.from.0,
                        offset_bytes: copy.from.1
                            + from
                            + at(source, |l| l.from, first)
                            + at(result, |l| l.from, start),
                        lead: lead(|l| l.from, axis(height, result, |l| l.from)),
                        width,
                    };
                    let result_view = View {
                        buffer: copy.to.0,
                        offset_bytes: copy.to.1 + to + at(source, |l| l.to, first) + at(result, |l| l.to, start),
                        lead: lead(|l| l.to, axis(width, source, |l| l.to)),
                        width: height,
                    };
                    self.copy_transposed(&source_view, &result_view, rest.len())?;
                }
            }
        }
        Ok(())
    }

    /// Copies between interleaved channels and rows: interleaves the result if `together`, otherwise separates the source.
    fn side_by_side(&mut self, copy: &Move, columns: Option<Loop>, sets: Loop, together: bool) -> Result<()> {
        let taken: Vec<Loop> = columns.into_iter().chain([sets]).collect();
        let mut rest = copy.without(&taken);
        order::by_key(&mut rest, |l| std::cmp::Reverse(l.extent));
        let outside = rest.split_off(rest.len().min(2));
        let [groups_most, _, rows_most] = self.axis_limits();
        let width = columns.map_or(1, |l| l.extent);
        self.limit("width", width * sets.extent, self.chip.hal.max_tensor_width)?;
        let one = Loop { extent: 1, from: 0, to: 0 };
        let (rows, groups) = (rest.first().copied().unwrap_or(one), rest.get(1).copied().unwrap_or(one));
        let set_bytes = ((width * sets.extent) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        for [from, to] in self.offsets(&outside)? {
            for g in (0..groups.extent).step_by(groups_most) {
                for r in (0..rows.extent).step_by(rows_most) {
                    let (ng, nr) = (groups_most.min(groups.extent - g), rows_most.min(rows.extent - r));
                    let view =
                        |(buffer, base): (BufferId, u64), offset: u64, stride: fn(&Loop) -> u64, packed: bool| View4 {
                            buffer,
                            offset_bytes: base + offset + g as u64 * stride(&groups) + r as u64 * stride(&rows),
                            axes: [
                                Axis { extent: ng, stride_bytes: stride(&groups) },
                                Axis {
                                    extent: sets.extent,
                                    stride_bytes: if packed { set_bytes * nr as u64 } else { stride(&sets) },
                                },
                                Axis { extent: nr, stride_bytes: stride(&rows) },
                            ],
                            width,
                        };
                    let source = view(copy.from, from, |l| l.from, !together);
                    let result = view(copy.to, to, |l| l.to, together);
                    self.push(copy_kind(), vec![source], vec![[false; 3]], result, false);
                    if let Some(layer) = self.graph.layers.last_mut() {
                        let by = if together { &mut layer.interleave } else { &mut layer.source_interleave };
                        *by = sets.extent;
                    }
                }
            }
        }
        Ok(())
    }

    /// A copy in two or three steps: source rows become single elements for each position along `columns`, which becomes the columns
    /// of the scratch tensor.
    fn by_scratch(&mut self, copy: &Move, columns: Option<Loop>) -> Result<()> {
        let [source, result] = copy.within_rows();
        let width = columns.map_or(1, |l| l.extent);
        let row_bytes = (width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        // Elements of the source row that are read, from the last boundary before the first one.
        let skipped = copy.from.1 % ROW_ALIGN;
        let reach: u64 = source.iter().map(|l| (l.extent as u64 - 1) * l.from).sum();
        let elements = ((skipped + reach) / ELEMENT_BYTES + 1) as usize;
        let others: Vec<Loop> =
            copy.loops.iter().filter(|l| !source.contains(l) && Some(**l) != columns).copied().collect();
        // Axes of the result's rows are innermost, next to the source row, so that they merge if possible.
        let (mut inner, outer): (Vec<Loop>, Vec<Loop>) = others.iter().partition(|l| result.contains(l));
        order::by_key(&mut inner, |l| std::cmp::Reverse(l.to));
        let shared = source.iter().any(|l| result.contains(l));
        let innermost = source.iter().filter(|l| result.contains(l)).map(|l| l.to).min();
        let within: Vec<Loop> =
            inner.iter().filter(|l| shared && innermost.is_some_and(|s| l.to < s)).copied().collect();
        let around: Vec<Loop> = inner.iter().filter(|l| !within.contains(l)).copied().collect();
        let mut stride = row_bytes;
        let mut placed: Vec<(Loop, u64)> = Vec::new();
        for l in within.iter().rev() {
            placed.push((*l, stride));
            stride *= l.extent as u64;
        }
        let element_bytes = stride;
        stride *= elements as u64;
        for l in around.iter().rev().chain(outer.iter().rev()) {
            placed.push((*l, stride));
            stride *= l.extent as u64;
        }
        if stride > MOST_SCRATCH_BYTES {
            return Err(self.unsupported(format!("a copy by way of {stride} bytes"), "keep the last axis in its place"));
        }
        let between = self.scratch_of("between", stride);
        let at = |l: &Loop| placed.iter().find(|(other, _)| other == l).map_or(0, |(_, s)| *s);

        let mut first: Vec<Loop> = others.iter().map(|l| Loop { to: at(l), ..*l }).collect();
        first.push(Loop { extent: elements, from: ELEMENT_BYTES, to: element_bytes });
        first.extend(columns.map(|l| Loop { to: ELEMENT_BYTES, ..l }));
        let first = Move { from: (copy.from.0, copy.from.1 - skipped), to: (between, 0), loops: first }.joined();
        let start = skipped / ELEMENT_BYTES * element_bytes;
        let mut second: Vec<Loop> = others.iter().map(|l| Loop { from: at(l), ..*l }).collect();
        second.extend(source.iter().map(|l| Loop { from: l.from / ELEMENT_BYTES * element_bytes, ..*l }));
        second.extend(columns.map(|l| Loop { from: ELEMENT_BYTES, ..l }));
        let second = Move { from: (between, start), to: copy.to, loops: second }.joined();

        let way = self.single_task(&first);
        let way =
            way.ok_or_else(|| self.unsupported("a copy that no scratch tensor helps", "report this as a defect"))?;
        self.one_way(&first, way)?;
        if let Some(way) = self.single_task(&second) {
            return self.one_way(&second, way);
        }
        self.in_order(&second)
    }

    /// Puts rows of single elements into the result's order first, then exchanges them into its rows.
    fn in_order(&mut self, copy: &Move) -> Result<()> {
        let [source, result] = copy.within_rows();
        let columns = match source.as_slice() {
            [] => None,
            [one] if one.from == ELEMENT_BYTES => Some(*one),
            _ => return Err(self.unsupported("a copy that no order helps", "report this as a defect")),
        };
        if !aligned(copy.from.1) {
            return Err(self.unsupported("a copy that no order helps", "report this as a defect"));
        }
        let row_bytes = (columns.map_or(1, |l| l.extent) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        let mut rest: Vec<Loop> = copy.loops.iter().filter(|l| Some(**l) != columns).copied().collect();
        // The result's rows innermost, in their order; the other loops unchanged.
        order::by_key(&mut rest, |l| (result.contains(l), std::cmp::Reverse(l.to)));
        let mut stride = row_bytes;
        let mut placed: Vec<(Loop, u64)> = Vec::new();
        for l in rest.iter().rev() {
            placed.push((*l, stride));
            stride *= l.extent as u64;
        }
        let ordered = self.scratch_of("ordered", stride);
        let mut first: Vec<Loop> = placed.iter().map(|(l, at)| Loop { to: *at, ..*l }).collect();
        let mut second: Vec<Loop> = placed.iter().map(|(l, at)| Loop { from: *at, ..*l }).collect();
        first.extend(columns.map(|l| Loop { to: ELEMENT_BYTES, ..l }));
        second.extend(columns.map(|l| Loop { from: ELEMENT_BYTES, ..l }));
        for step in [
            Move { from: copy.from, to: (ordered, 0), loops: first },
            Move { from: (ordered, 0), to: copy.to, loops: second },
        ] {
            let step = step.joined();
            let way = self.single_task(&step);
            let way = way.ok_or_else(|| self.unsupported("a copy that no order helps", "report this as a defect"))?;
            self.one_way(&step, way)?;
        }
        Ok(())
    }
}
