//! Pass `dense`: closes the gaps between the rows of intermediate results. The device aligns rows; the host reads and writes dense rows faster,
//! and joins them.
//!
//! A component is a set of results of the program's own memory, with all operations that read them, closed in both directions: every reader reads
//! nothing else there. If all its accesses have rows at one distance, the rows move together, within the memory that they occupied.

use super::Step;
use super::live::LiveBytes;
use super::maps::MapOperand;
use super::moves::readers;
use super::ops::{Kind, Move, Op};
use crate::direct::{Operands, Span};
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_facts::Field;
use anemone_kernels::copy::CopyAxis;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, nested};
use anemone_program::order;

/// Largest number of accesses of a component.
const MOST_ACCESSES: usize = 1 << 12;

/// Positions that are tried for dense rows, and the elements that they are multiples of, behind the first one.
const PLACES: usize = 8;
const ALIGNED: usize = 32;

/// Bytes of an element.
const ELEMENT_BYTES: u64 = 2;

/// Place of an operand in memory: first element, and axes as number of steps and stride, in fp16 elements. Axes include the columns.
#[derive(Clone, Debug)]
pub(super) struct Place {
    home: Home,
    base: usize,
    axes: Vec<(usize, usize)>,
}

/// Rows of equal length at equal distances, from an element on.
#[derive(Clone, Copy)]
struct Rows {
    base: usize,
    distance: usize,
    columns: usize,
}

/// Pass `dense`. `own` returns true for regions that only the program's tasks access.
pub fn run(ops: &mut [Op], steps: &[Step], own: impl Fn(Home) -> bool) {
    let mut seen = vec![false; ops.len()];
    for at in 0..ops.len() {
        let [written] = ops[at].writes.as_slice() else { continue };
        let padded = written.axes.last().is_some_and(|axis| axis.stride_bytes >= 2 * written.row_bytes);
        if !padded || !own(written.home) || seen[at] {
            continue;
        }
        let mut of = Component::default();
        let closed = of.close(ops, steps, at);
        seen[at] = true;
        for &writer in &of.writers {
            seen[writer] = true;
        }
        if let Some(dense) = closed.and_then(|()| of.dense(ops, steps)) {
            for (at, op) in dense {
                ops[at] = op;
            }
        }
    }
}

/// Results, and the operations that read them.
#[derive(Default)]
struct Component {
    writers: Vec<usize>,
    /// Accesses by operation and operand, the sources first, in ascending order.
    accesses: Vec<((usize, usize), Place)>,
}

impl Component {
    /// Collects everything that shares results with the operation at `first`; `None` if an operation may access anything, has operands at fixed
    /// places, or reads memory that no operation has written.
    fn close(&mut self, ops: &[Op], steps: &[Step], first: usize) -> Option<()> {
        let mut waiting = vec![first];
        while let Some(at) = waiting.pop() {
            if self.writers.contains(&at) {
                continue;
            }
            self.writers.push(at);
            let op = &ops[at];
            let [written] = op.writes.as_slice() else { return None };
            let place = op.places(steps)?.pop()??;
            self.insert((at, op.reads.len()), place);
            for reader in readers(ops, at) {
                let op = &ops[reader];
                let places = op.known.then(|| op.places(steps)).flatten()?;
                for (k, read) in op.reads.iter().enumerate().filter(|(_, read)| read.overlaps(written)) {
                    if self.insert((reader, k), places.get(k)?.clone()?) {
                        waiting.extend(writers(ops, reader, read)?);
                        // An operation in place stays in place.
                        waiting.extend(op.writes.iter().any(|written| written == read).then_some(reader));
                    }
                }
            }
            if self.accesses.len() > MOST_ACCESSES {
                return None;
            }
        }
        Some(())
    }

    /// Position of an access, or the one at which it would stand.
    fn position(&self, key: (usize, usize)) -> Result<usize, usize> {
        self.accesses.binary_search_by_key(&key, |(key, _)| *key)
    }

    /// Adds an access. Returns false if it is known.
    fn insert(&mut self, key: (usize, usize), place: Place) -> bool {
        match self.position(key) {
            Ok(_) => false,
            Err(at) => {
                self.accesses.insert(at, (key, place));
                true
            }
        }
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.accesses.iter().map(|(_, place)| place)
    }

    /// The operations with dense rows, by index; `None` if the accesses do not have rows at one distance, or others use the memory meanwhile.
    fn dense(&self, ops: &[Op], steps: &[Step]) -> Option<Vec<(usize, Op)>> {
        let rows = self.rows()?;
        let end = self.places().map(Place::end).max()?;
        let count = (end - rows.base).div_ceil(rows.distance);
        // Other operations may use one part of the memory, but not another.
        let behind = (end - rows.base).checked_sub(count * rows.columns)?;
        let mut offsets =
            (0..PLACES).map(|i| (behind * i / (PLACES - 1)).next_multiple_of(ALIGNED)).take_while(|at| *at <= behind);
        offsets.find_map(|offset| self.dense_at(ops, steps, rows, offset))
    }

    /// [`Component::dense`], some elements behind the start of the memory that the results occupied.
    fn dense_at(&self, ops: &[Op], steps: &[Step], rows: Rows, offset: usize) -> Option<Vec<(usize, Op)>> {
        let moved = |place: &Place| rows.moved(place).map(|place| Place { base: place.base + offset, ..place });
        let mut all: Vec<(usize, Vec<Option<Place>>)> = Vec::new();
        let (start, mut end) = (rows.base + offset, rows.base + offset);
        for &((at, operand), ref place) in &self.accesses {
            let place = moved(place)?;
            end = end.max(place.end());
            if all.last().is_none_or(|(last, _)| *last != at) {
                all.push((at, vec![None; ops[at].reads.len() + ops[at].writes.len()]));
            }
            *all.last_mut()?.1.get_mut(operand)? = Some(place);
        }
        let home = self.places().next()?.home;
        let taken = MemRef::new(home, ELEMENT_BYTES * start as u64, &[], ELEMENT_BYTES * (end - start) as u64);
        let (first, last) = (all.first()?.0, all.last()?.0);
        for (at, op) in ops.iter().enumerate().take(last + 1).skip(first) {
            let others = op.accesses().enumerate();
            let mut others = others.filter(|(k, _)| self.position((at, *k)).is_err());
            if !op.known || others.any(|(_, of)| of.overlaps(&taken)) {
                return None;
            }
        }
        // Earlier results in the gaps must not be read later.
        let mut lost = LiveBytes::of(&taken)?;
        for op in &ops[last + 1..] {
            if !op.known || op.reads.iter().any(|read| read.overlaps(&taken) && lost.meets(read)) {
                return None;
            }
            lost.remove_all(taken.home, &op.writes);
            if lost.is_empty() {
                break;
            }
        }
        all.into_iter().map(|(at, places)| Some((at, ops[at].at_places(steps, &places)?))).collect()
    }

    /// Rows that all accesses consist of, from the smallest distance between the rows of a result.
    fn rows(&self) -> Option<Rows> {
        let home = self.places().next()?.home;
        if self.places().any(|place| place.home != home) {
            return None;
        }
        let distance = self.places().filter_map(Place::distance).min()?;
        let base = self.places().map(|place| place.base).min()?;
        let columns = |place: &Place| {
            let inner = place.axes.iter().filter(|(count, stride)| *count > 1 && stride % distance != 0);
            inner.fold((place.base - base) % distance + 1, |sum, (count, stride)| sum + (count - 1) * stride)
        };
        let columns = self.places().map(columns).max()?;
        (2 * columns <= distance).then_some(Rows { base, distance, columns })
    }
}

/// Operations before `at` that wrote what it reads; `None` if one of them is unknown, or not all bytes were written.
fn writers(ops: &[Op], at: usize, read: &MemRef) -> Option<Vec<usize>> {
    let mut left = LiveBytes::of(read)?;
    let mut found = Vec::new();
    for (i, op) in ops[..at].iter().enumerate().rev() {
        if !op.known {
            return None;
        }
        let written: Vec<&MemRef> =
            op.writes.iter().filter(|written| written.overlaps(read) && left.meets(written)).collect();
        if !written.is_empty() {
            found.push(i);
            for written in written {
                left.remove(written);
            }
            if left.is_empty() {
                return Some(found);
            }
        }
    }
    None
}

impl Rows {
    /// The place with dense rows; `None` if it has elements between rows, or is not made of them.
    fn moved(&self, of: &Place) -> Option<Place> {
        let &Rows { base, distance, columns } = self;
        let offset = of.base.checked_sub(base)?;
        let mut reach = offset % distance;
        let mut axes = of.axes.clone();
        for (count, stride) in &mut axes {
            if *stride % distance == 0 {
                *stride = *stride / distance * columns;
            } else if *count > 1 {
                reach += (*count - 1) * *stride;
            }
        }
        let base = base + offset / distance * columns + offset % distance;
        (reach < columns).then_some(Place { home: of.home, base, axes })
    }
}

impl Place {
    pub(super) fn of(operand: &MapOperand, ext: Extents) -> Place {
        let [group, channel, row] = operand.axes.strides;
        let column = usize::from(!operand.axes.one_column);
        let axes = vec![(ext.g, group), (ext.c, channel), (ext.h, row), (ext.w, column)];
        Place { home: operand.home, base: operand.base, axes }
    }

    fn of_span(span: &Span, ext: Extents) -> Place {
        let [group, channel, row] = span.strides;
        let axes = vec![(ext.g, group), (ext.c, channel), (ext.h, row), (ext.w, 1)];
        Place { home: span.home, base: span.range.start, axes }
    }

    fn of_copy((home, base): (Home, usize), axes: &[CopyAxis], stride: fn(&CopyAxis) -> usize) -> Place {
        Place { home, base, axes: axes.iter().map(|axis| (axis.count, stride(axis))).collect() }
    }

    /// This part of `of`, or all of it, in a copy of it at `copy`, whose axes have the same lengths; `None` if it is no part of it with axes along
    /// those of `of`.
    pub(super) fn part_in(&self, of: &Place, copy: &Place) -> Option<Place> {
        let mut order: Vec<usize> = (0..of.axes.len()).filter(|&i| of.axes[i].0 > 1).collect();
        order::by_key(&mut order, |&i| usize::MAX - of.axes[i].1);
        let (mut base, mut offset) = (copy.base, self.base.checked_sub(of.base)?);
        let mut last = vec![0; of.axes.len()];
        for &i in &order {
            last[i] = offset / of.axes[i].1;
            offset -= last[i] * of.axes[i].1;
            base += last[i] * copy.axes[i].1;
        }
        let mut axes = self.axes.clone();
        for (count, stride) in axes.iter_mut().filter(|(count, _)| *count > 1) {
            let i = order.iter().copied().find(|&i| stride.is_multiple_of(of.axes[i].1))?;
            let steps = *stride / of.axes[i].1;
            last[i] += (*count - 1) * steps;
            *stride = steps * copy.axes[i].1;
        }
        let inside = last.iter().zip(&of.axes).all(|(last, (count, _))| last < count);
        (offset == 0 && inside && self.home == of.home).then_some(Place { home: copy.home, base, axes })
    }

    /// Offset one past the last element.
    fn end(&self) -> usize {
        self.base + self.axes.iter().map(|(count, stride)| count.saturating_sub(1) * stride).sum::<usize>() + 1
    }

    /// Smallest stride that is larger than the reach of the axes inside it.
    fn distance(&self) -> Option<usize> {
        let mut axes: Vec<(usize, usize)> =
            self.axes.iter().copied().filter(|(count, stride)| *count > 1 && *stride > 0).collect();
        order::by_key(&mut axes, |(_, stride)| *stride);
        let mut reach = 1;
        for (count, stride) in axes {
            if stride > reach {
                return Some(stride);
            }
            reach += (count - 1) * stride;
        }
        None
    }

    /// Box of the accessed bytes.
    fn access(&self) -> MemRef {
        let axes = self.axes.iter().filter(|(_, stride)| *stride > 0);
        let axes: Vec<(u64, u64)> =
            axes.map(|&(count, stride)| (count as u64, ELEMENT_BYTES * stride as u64)).collect();
        MemRef::new(self.home, ELEMENT_BYTES * self.base as u64, &axes, ELEMENT_BYTES)
    }

    fn strides(&self) -> Option<Strides> {
        let [group, channel, row, (columns, column)] = self.axes.as_slice() else { return None };
        (*columns <= 1 || *column <= 1).then_some([group.1, channel.1, row.1])
    }

    /// Moves an operand of a chain here.
    fn put(&self, operand: &mut MapOperand) -> Option<()> {
        (operand.home, operand.base, operand.axes.strides) = (self.home, self.base, self.strides()?);
        Some(())
    }

    /// Moves a span here.
    fn put_span(&self, span: &mut Span) -> Option<()> {
        *span = Span { home: self.home, range: self.base..self.end(), strides: self.strides()? };
        Some(())
    }
}

impl Move {
    /// The copy with its source, its destination, or both moved.
    fn at(&self, from: Option<&Place>, to: Option<&Place>) -> Option<Move> {
        let base = |place: Option<&Place>, of| place.map_or(of, |place| (place.home, place.base));
        let mut axes = self.axes.clone();
        for (i, axis) in axes.iter_mut().enumerate() {
            axis.from = from.map_or(Some(axis.from), |place| Some(place.axes.get(i)?.1))?;
            axis.to = to.map_or(Some(axis.to), |place| Some(place.axes.get(i)?.1))?;
        }
        Move::new(self.rule, base(to, self.to), base(from, self.from), &axes)
    }
}

/// Extents of a result as stored.
fn stored(of: Extents, transposed: bool) -> Extents {
    if transposed { of.transposed() } else { of }
}

impl Op {
    /// Places of sources and results in the order of `reads` and `writes`, `None` for one that is at a fixed place; `None` if that holds for all.
    pub(super) fn places(&self, steps: &[Step]) -> Option<Vec<Option<Place>>> {
        let places = match &self.kind {
            Kind::Map(of) => of.sources.iter().chain([&of.to]).map(|operand| Place::of(operand, of.ext)).collect(),
            Kind::Move(of) => {
                vec![
                    Place::of_copy(of.from, &of.axes, |axis| axis.from),
                    Place::of_copy(of.to, &of.axes, |axis| axis.to),
                ]
            }
            Kind::Gemv(of) => vec![Place::of(&of.source, of.input), Place::of(&of.to, of.stored)],
            Kind::Reduction(of) => vec![Place::of(&of.source, of.ext), Place::of(&of.to, of.result())],
            Kind::Product(of) => {
                let parts = of.parts.iter().map(|part| Place::of_copy(part.from, &part.axes, |axis| axis.from));
                let to = Place::of(&of.to, stored(of.output, of.transposed));
                parts.chain([Place::of(&of.source, of.input), to]).collect()
            }
            Kind::Task(_) | Kind::Placed(..) => {
                let mut operands = self.operands(steps)?.clone();
                let mut sources = operands.movable()?;
                let (to, output) = sources.pop()?;
                let mut places: Vec<Option<Place>> =
                    sources.into_iter().map(|(span, ext)| Some(Place::of_span(span, ext))).collect();
                // Coefficients.
                places.resize(self.reads.len().max(places.len()), None);
                places.push(Some(Place::of_span(to, output)));
                return (places.len() == self.reads.len() + 1).then_some(places);
            }
            Kind::Fused(_) | Kind::TaskBatch(_) => return None,
        };
        Some(places.into_iter().map(Some).collect())
    }

    /// Operands of a task that is executed from memory to memory, in one depth plane; `None` for other operations.
    pub(super) fn operands<'a>(&'a self, steps: &'a [Step]) -> Option<&'a Operands> {
        if let Kind::Placed(of) = &self.kind {
            return Some(&of.operands);
        }
        let step = steps.get(self.tasks.start)?;
        let flat = [Field::Din, Field::Dout].iter().all(|&field| step.fields.get(field) <= 1);
        step.work.operands().filter(|_| flat && self.writes.len() == 1)
    }

    /// The operation with operands at other places; `None` if it cannot be executed there.
    pub(super) fn at_places(&self, steps: &[Step], places: &[Option<Place>]) -> Option<Op> {
        let (sources, [to]) = places.split_at_checked(self.reads.len())? else { return None };
        let put =
            |operand: &mut MapOperand, place: &Option<Place>| place.as_ref().map_or(Some(()), |at| at.put(operand));
        let tasks = self.tasks.clone();
        Some(match &self.kind {
            Kind::Map(of) => {
                let mut of = of.as_ref().clone();
                of.sources.iter_mut().zip(sources).try_for_each(|(operand, place)| put(operand, place))?;
                put(&mut of.to, to)?;
                of.rewired = true;
                nested(of.ext, of.to.axes.strides).then(|| of.op(tasks))?
            }
            Kind::Move(of) => Op::moves(tasks, of.at(sources.first()?.as_ref(), to.as_ref())?),
            Kind::Gemv(of) => {
                let mut of = of.as_ref().clone();
                put(&mut of.source, sources.first()?)?;
                put(&mut of.to, to)?;
                of.op(tasks)
            }
            Kind::Reduction(of) => {
                let mut of = of.as_ref().clone();
                put(&mut of.source, sources.first()?)?;
                put(&mut of.to, to)?;
                of.op(tasks)
            }
            Kind::Product(of) => {
                let mut of = of.as_ref().clone();
                let (source, parts) = sources.split_last()?;
                let parts = of.parts.iter().zip(parts).map(|(part, place)| part.at(place.as_ref(), None));
                of = of.of_parts(parts.collect::<Option<_>>()?)?;
                put(&mut of.source, source)?;
                put(&mut of.to, to)?;
                of.op(tasks)
            }
            Kind::Task(_) | Kind::Placed(_) => {
                let mut operands = self.operands(steps)?.clone();
                let mut spans = operands.movable()?;
                let (result, output) = spans.pop()?;
                let mut moved = self.clone();
                let all = spans.into_iter().zip(sources).zip(&mut moved.reads);
                let all = all.map(|(((span, _), place), access)| (span, place, access));
                for (span, place, access) in all.chain([(&mut *result, to, moved.writes.first_mut()?)]) {
                    let Some(place) = place else { continue };
                    place.put_span(span)?;
                    *access = place.access();
                }
                if !nested(output, result.strides) {
                    return None;
                }
                moved.kind = Kind::Placed(self.placed(operands)?);
                moved
            }
            Kind::Fused(_) | Kind::TaskBatch(_) => return None,
        })
    }
}
