//! Pass `moves`: composes copies of copies, and drops copies that no operation reads.
//!
//! Copying is idempotent: an element copied twice equals an element copied once. Copies are dropped only if their destination is private
//! to the program: tile memory, or scratch memory that the program writes before it reads it.

use super::live::LiveBytes;
use super::ops::{Move, Op};
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_kernels::copy::CopyAxis;

/// Largest number of axes during composition.
const MOST_AXES: usize = 12;

/// Pass `moves`. `own` returns true for regions that only the program's tasks access.
pub fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    for i in 0..ops.len() {
        while let Some(composed) = composition(ops, i, &own) {
            ops[i] = Op::moves(ops[i].tasks.clone(), composed);
        }
    }
    drop_unread(ops, &own);
}

/// The copy at `i` composed with the copy that wrote its source; `None` if they do not compose, or it does not pay.
fn composition(ops: &[Op], i: usize, own: &impl Fn(Home) -> bool) -> Option<Move> {
    let reader = ops[i].as_move()?;
    let read = reader.read();
    let at = ops[..i].iter().rposition(|op| op.may_write(&read))?;
    let until = overwritten(ops, at);
    let (writer, composed) = composed(ops, at, i, until)?;
    let gone = own(writer.to.0) && readers(ops, at).all(|j| self::composed(ops, at, j, until).is_some());
    (gone || composed.cost() <= reader.cost()).then_some(composed)
}

/// Index of the first operation after the copy at `at` that may overwrite the copy's source.
fn overwritten(ops: &[Op], at: usize) -> usize {
    let source = ops[at].as_move().map(Move::read);
    let writes = |op: &Op| source.as_ref().is_none_or(|source| op.may_write(source));
    ops[at + 1..].iter().position(writes).map_or(ops.len(), |n| at + 1 + n)
}

/// Indices of the operations after `at` that may read its result, up to the one before which all of it is overwritten. Memory is reused: a read
/// of bytes that operations in between have written is not a read of this result.
pub(super) fn readers(ops: &[Op], at: usize) -> impl Iterator<Item = usize> + '_ {
    readers_of(ops, at, ops[at].writes.first())
}

/// [`readers`] of one of several results.
pub(super) fn readers_of<'a>(
    ops: &'a [Op],
    at: usize,
    left: Option<&'a MemRef>,
) -> impl Iterator<Item = usize> + use<'a> {
    let mut live = left.and_then(LiveBytes::of);
    let mut overwritten = false;
    (at + 1..ops.len()).filter(move |&j| {
        let Some(left) = left.filter(|_| !overwritten) else { return false };
        let op = &ops[j];
        let since = |read: &MemRef| match &live {
            Some(live) => !live.meets(read),
            None => ops[at + 1..j].iter().any(|op| op.overwrites(read)),
        };
        let reads = !op.known || op.reads.iter().any(|read| read.overlaps(left) && !since(read));
        overwritten = op.overwrites(left);
        if let Some(live) = live.as_mut().filter(|_| op.known) {
            live.remove_all(left.home, &op.writes);
            overwritten |= live.is_empty();
        }
        reads
    })
}

/// The copy at `at`, and the copy at `i` composed with it; `None` if they do not compose, or its source may be overwritten before `i`.
/// `until` is [`overwritten`] of `at`.
fn composed(ops: &[Op], at: usize, i: usize, until: usize) -> Option<(&Move, Move)> {
    let (writer, reader) = (ops[at].as_move()?, ops[i].as_move()?);
    // A copy that overlaps its own source destroys it.
    let overlaps = writer.read().overlaps(&writer.written());
    if overlaps || writer.rule != reader.rule {
        return None;
    }
    let through = through(writer, reader)?;
    let source = through.read();
    let kept = i <= until || ops[until..i].iter().all(|op| !op.may_write(&source));
    kept.then_some((writer, through))
}

/// Composes `reader` after `writer` to one copy; `None` if it reads anything else, or the composition is not a strided box of the source.
pub fn through(writer: &Move, reader: &Move) -> Option<Move> {
    if writer.to.0 != reader.from.0 {
        return None;
    }
    // Start of the reader within the writer's box.
    let mut offset = reader.from.1.checked_sub(writer.to.1)?;
    let mut first = Vec::with_capacity(writer.axes.len());
    for axis in &writer.axes {
        let at = offset / axis.to;
        offset -= at * axis.to;
        first.push(at);
    }
    if offset != 0 {
        return None;
    }
    let start = writer.axes.iter().zip(&first).map(|(axis, at)| axis.from * at).sum::<usize>();
    let mut waiting: Vec<CopyAxis> = reader.axes.clone();
    let mut done: Vec<(CopyAxis, Vec<usize>)> = Vec::new();
    while let Some(axis) = waiting.pop() {
        if done.len() + waiting.len() >= MOST_AXES {
            return None;
        }
        let steps = steps(writer, axis.from)?;
        // A reader axis that carries into the next outer axis of the writer is split in two.
        let wraps = steps.iter().position(|&n| n != 0).filter(|&k| steps[k + 1..].iter().all(|&n| n == 0));
        if let Some(k) = wraps
            && let Some(outer) = k.checked_sub(1).and_then(|k| writer.axes.get(k))
            && first[k] + (axis.count - 1) * steps[k] >= writer.axes[k].count
        {
            let inner = writer.axes[k];
            let period = inner.count / steps[k];
            let fits = outer.to == inner.to * inner.count
                && inner.count.is_multiple_of(steps[k])
                && first[k] < steps[k]
                && period > 1
                && axis.count.is_multiple_of(period);
            if !fits {
                return None;
            }
            waiting.push(CopyAxis { count: axis.count / period, to: axis.to * period, from: axis.from * period });
            waiting.push(CopyAxis { count: period, ..axis });
            continue;
        }
        done.push((axis, steps));
    }
    // No element is past the end of a writer axis, and none carries into another axis.
    for (k, axis) in writer.axes.iter().enumerate() {
        let last = done.iter().fold(first[k], |sum, (of, steps)| sum + (of.count - 1) * steps[k]);
        if last >= axis.count {
            return None;
        }
    }
    let axes: Vec<CopyAxis> = done
        .into_iter()
        .map(|(axis, steps)| {
            let from = writer.axes.iter().zip(&steps).map(|(of, n)| of.from * n).sum();
            CopyAxis { from, ..axis }
        })
        .collect();
    Move::new(reader.rule, reader.to, (writer.from.0, writer.from.1 + start), &axes)
}

/// Decomposes a distance in the writer's result into steps along its axes; `None` if there is a remainder.
fn steps(writer: &Move, mut distance: usize) -> Option<Vec<usize>> {
    let steps = writer.axes.iter().map(|axis| {
        let n = distance / axis.to;
        distance -= n * axis.to;
        n
    });
    let steps: Vec<usize> = steps.collect();
    (distance == 0).then_some(steps)
}

/// Drops copies to private memory that no later operation reads, starting from the last.
pub(super) fn drop_unread(ops: &mut Vec<Op>, own: &dyn Fn(Home) -> bool) {
    for i in (0..ops.len()).rev() {
        let unread = ops[i].as_move().is_some_and(|of| own(of.to.0)) && readers(ops, i).next().is_none();
        if unread {
            ops.remove(i);
        }
    }
}
