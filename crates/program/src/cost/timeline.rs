//! Modelled timeline of a program's tasks: sequential, except that the array and the planar engine run at once if two
//! neighbours are independent (the book, chapter 22, parallel-execution discovery).
//!
//! No field of a task is known to request co-issue. Independence follows from the addresses of two tasks: neither reads or overwrites
//! results of the other, neither is chained to the other, and not both results go to memory, which is one channel.

use anemone_facts::chips::Chip;
use anemone_facts::code::{class, neural};
use anemone_facts::cost::{Rates, rates};
use anemone_facts::kernel::ENGINES;
use anemone_facts::{Field, Layout};

use super::work_ns;
use crate::{Program, Task};

/// A unit of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The array of multiply-accumulators.
    Neural,
    /// The planar engine.
    Planar,
}

/// Time of one task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Position in the stream.
    pub task: usize,
    /// Unit that executes it.
    pub unit: Unit,
    /// Start in nanoseconds after the first task's.
    pub begin_ns: f64,
    /// End in nanoseconds after the first task's start.
    pub end_ns: f64,
}

/// Start and end of each task; `None` as for [`super::of_program`].
pub fn timeline(program: &Program, chip: &Chip) -> Option<Vec<Span>> {
    let (rates, clock_hz) = (rates(chip.target)?, chip.hal.f_max_hz?);
    Some(spans(program.layout, &program.tasks().ok()?, rates, clock_hz as f64))
}

/// Positions of neighbouring tasks that run at once in the timeline.
pub fn co_issued(program: &Program) -> Vec<(usize, usize)> {
    let tasks = program.tasks().unwrap_or_default();
    let mut pairs = Vec::new();
    let mut at = 0;
    while let [first, second, ..] = tasks.get(at..).unwrap_or_default() {
        if at_once(program.layout, first, second) {
            pairs.push((at, at + 1));
            at += 1;
        }
        at += 1;
    }
    pairs
}

pub(super) fn spans(layout: &Layout, tasks: &[Task], rates: &Rates, clock_hz: f64) -> Vec<Span> {
    let unit = |task: &Task| if is_neural(layout, task) { Unit::Neural } else { Unit::Planar };
    let mut spans: Vec<Span> = Vec::with_capacity(tasks.len());
    let (mut now, mut at) = (0.0, 0);
    while let Some(task) = tasks.get(at) {
        let span = |at: usize, task: &Task| {
            let end_ns = now + rates.task_ns + work_ns(layout, task, rates, clock_hz);
            Span { task: at, unit: unit(task), begin_ns: now, end_ns }
        };
        spans.push(span(at, task));
        let partner = tasks.get(at + 1).filter(|next| at_once(layout, task, next));
        if let Some(next) = partner {
            spans.push(span(at + 1, next));
            at += 1;
        }
        let count = 1 + usize::from(partner.is_some());
        now = spans.iter().rev().take(count).fold(now, |end, span| span.end_ns.max(end));
        at += 1;
    }
    spans
}

fn is_neural(layout: &Layout, task: &Task) -> bool {
    task.get(layout, Field::TaskClass).unwrap_or(class::NEURAL) == class::NEURAL
}

/// Bytes relative to a base register: first and one past the last.
type Range = (u32, u64, u64);

/// Ranges that a task reads and writes in memory and in tile memory.
struct Touched {
    reads: Vec<Range>,
    write: Option<Range>,
    tile_reads: Vec<(u64, u64)>,
    tile_write: Option<(u64, u64)>,
    multiplies: bool,
    /// True if the kernel is a computed matrix.
    product: bool,
}

impl Touched {
    fn of(layout: &Layout, task: &Task) -> Touched {
        use Field::*;
        let get = |field| task.get(layout, field).unwrap_or(0);
        let on = |field| get(field) == 1;
        let extents = |channels: Field, rows: Field| {
            [get(NumGroups), get(channels), get(rows)].map(|extent| u64::from(extent).max(1))
        };
        let span = |bar: Field, base: Field, steps: [Field; 3], extents: [u64; 3]| -> Range {
            let start = task.bytes_at(layout, base, 0);
            let reach =
                steps.into_iter().zip(extents).map(|(step, n)| task.bytes_at(layout, step, 0).saturating_mul(n));
            (get(bar), start, start.saturating_add(reach.max().unwrap_or(0).max(1)))
        };
        let source = extents(Cin, Hin);
        let mut reads = Vec::new();
        if on(Rbe0) {
            reads.push(span(RBase0, Src1Base, [Src1GroupStride, Src1PlaneStride, Src1RowStride], source));
        }
        if on(Rbe1) {
            reads.push(span(RBase1, Src2Base, [Src2GroupStride, Src2PlaneStride, Src2RowStride], source));
        }
        // Coefficients of all engines, constant or from a computed matrix.
        if on(Kbe0) {
            let streams = (0..ENGINES as u32).filter(|&i| task.get_at(layout, CoeffEn, i) == Some(1));
            let starts = streams.map(|i| (task.bytes_at(layout, CoeffBase, i), task.bytes_at(layout, CoeffSize, i)));
            let hull = starts.fold((u64::MAX, 0), |(low, high): (u64, u64), (start, bytes)| {
                (low.min(start), high.max(start.saturating_add(bytes)))
            });
            reads.push((get(KBase0), hull.0.min(hull.1), hull.1));
        }
        let write = [DstGroupStride, DstPlaneStride, DstRowStride];
        let write = on(Wbe).then(|| span(WBase, DstBase, write, extents(Cout, Hout)));
        let tile = |base: Field, channel: Field, row: Field, depth: Field, extents: [Field; 2]| {
            let [channels, rows] = extents.map(|field| u64::from(get(field)).max(1));
            let start = task.bytes_at(layout, base, 0);
            let steps = [
                task.bytes_at(layout, channel, 0).saturating_mul(channels),
                task.bytes_at(layout, row, 0).saturating_mul(rows),
                task.bytes_at(layout, depth, 0),
            ];
            (start, start.saturating_add(steps.into_iter().max().unwrap_or(0).max(1)))
        };
        let first = tile(SrcL2Base, SrcL2ChannelStride, SrcL2RowStride, SrcL2DepthStride, [Cin, Hin]);
        let second = tile(Src2L2Base, Src2L2ChannelStride, Src2L2RowStride, Src2L2DepthStride, [Cin, Hin]);
        let tile_reads = [(Rbe0, first), (Rbe1, second)].into_iter().filter(|(enable, _)| !on(*enable));
        let result = tile(ResL2Base, ResL2ChannelStride, ResL2RowStride, ResL2DepthStride, [Cout, Hout]);
        Touched {
            reads,
            write,
            tile_reads: tile_reads.map(|(_, range)| range).collect(),
            tile_write: (!on(Wbe)).then_some(result),
            multiplies: is_neural(layout, task) && task.get(layout, NeOpMode) == Some(neural::MAC),
            product: on(Kbe0) && get(KBase0) != u32::from(Program::KERNEL_BAR),
        }
    }

    /// Returns true if another task reads or writes the results of this one.
    fn before(&self, other: &Touched) -> bool {
        let meets = |(a, b): (u64, u64), (c, d): (u64, u64)| a < d && c < b;
        let memory = self.write.is_some_and(|(bar, start, end)| {
            let touches = |&(other, a, b): &Range| other == bar && meets((start, end), (a, b));
            other.reads.iter().chain(&other.write).any(touches)
        });
        let tile = self
            .tile_write
            .is_some_and(|own| other.tile_reads.iter().chain(&other.tile_write).any(|&range| meets(own, range)));
        memory || tile
    }
}

/// Returns true if two neighbours run at once on the two units.
fn at_once(layout: &Layout, first: &Task, second: &Task) -> bool {
    if is_neural(layout, first) == is_neural(layout, second) || second.get(layout, Field::Dependent) > Some(0) {
        return false;
    }
    let (a, b) = (Touched::of(layout, first), Touched::of(layout, second));
    let streamed = a.write.is_some() && b.write.is_some() && !a.product && !b.product;
    (a.multiplies || b.multiplies) && !streamed && !a.before(&b) && !b.before(&a)
}
