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
pub(super) fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    for i in 0..ops.len() {
        while let Some(composed) = composition(ops, i, &own) {
            ops[i] = Op::moves(ops[i].tasks.clone(), composed);
        }
    }
    drop_unread(ops, own);
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
    let left = ops[at].writes.first();
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
            op.writes.iter().filter(|written| written.overlaps(left)).for_each(|written| live.remove(written));
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
pub(super) fn through(writer: &Move, reader: &Move) -> Option<Move> {
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
pub(super) fn drop_unread(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    for i in (0..ops.len()).rev() {
        let unread = ops[i].as_move().is_some_and(|of| own(of.to.0)) && readers(ops, i).next().is_none();
        if unread {
            ops.remove(i);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ops::Kind;
    use super::*;
    use anemone_kernels::copy::{NanRule, strided};
    use anemone_kernels::workers::Workers;
    use half::f16;

    fn axis(count: usize, to: usize, from: usize) -> CopyAxis {
        CopyAxis { count, to, from }
    }

    fn copy(to: usize, from: usize, axes: &[CopyAxis]) -> Move {
        Move::new(NanRule::Quiet, (Home::Tile, to), (Home::Tile, from), axes).expect("a copy")
    }

    fn apply(of: &Move, memory: &mut [f16]) {
        let before = memory.to_vec();
        let [from, to] = of.ranges();
        strided(&Workers::new(), of.rule, &before[from], &mut memory[to], &of.axes);
    }

    /// Rows scattered with one element per 64 bytes, then gathered to another shape.
    #[test]
    fn a_scatter_and_a_gather_are_one_copy() {
        let (source, scattered, result) = (0, 5000, 80_000);
        let cases: [(&[CopyAxis], usize, &[CopyAxis]); 6] = [
            (&[axis(48, 32, 1)], 0, &[axis(6, 8, 8 * 32), axis(8, 1, 32)]),
            (&[axis(12, 64 * 32, 100), axis(64, 32, 1)], 0, &[axis(64, 12, 32), axis(12, 1, 64 * 32)]),
            (&[axis(12, 64 * 32, 100), axis(64, 32, 1)], 32 * 8, &[axis(12, 8, 64 * 32), axis(8, 1, 5 * 32)]),
            // One reader axis across two writer axes.
            (&[axis(12, 64 * 32, 100), axis(64, 32, 1)], 0, &[axis(2, 384, 384 * 32), axis(384, 1, 32)]),
            (&[axis(12, 64 * 32, 100), axis(64, 32, 1)], 0, &[axis(96, 8, 8 * 32), axis(8, 1, 32)]),
            (&[axis(4, 16, 1), axis(16, 1, 4)], 0, &[axis(8, 8, 1), axis(8, 1, 8)]),
        ];
        for (scatter, at, gather) in cases {
            let (one, other) = (copy(scattered, source, scatter), copy(result, scattered + at, gather));
            let both = through(&one, &other).expect("it composes");
            let mut memory: Vec<f16> = (0..100_000).map(|i| f16::from_bits(i as u16 & 0x3fff)).collect();
            let mut at_once = memory.clone();
            apply(&one, &mut memory);
            apply(&other, &mut memory);
            apply(&both, &mut at_once);
            assert_eq!(memory[result..], at_once[result..], "{gather:?}");
        }
    }

    #[test]
    fn what_the_first_did_not_write_is_not_composed() {
        let scatter = copy(5000, 0, &[axis(48, 32, 1)]);
        for (at, gather) in [(1, axis(48, 1, 32)), (0, axis(49, 1, 32)), (0, axis(4, 1, 16)), (32 * 47, axis(2, 1, 32))]
        {
            assert_eq!(through(&scatter, &copy(80_000, 5000 + at, &[gather])), None);
        }
        // A row stride that is no multiple of the writer's.
        let rows = copy(5000, 0, &[axis(12, 64, 7), axis(6, 1, 100)]);
        assert_eq!(through(&rows, &copy(80_000, 5000, &[axis(24, 4, 4), axis(3, 1, 1)])), None);
    }

    /// The source of the first copy is overwritten before the second copy, or another operation reads the first one's result.
    #[test]
    fn dependences_are_kept() {
        let own = |home: Home| home == Home::Tile;
        let scatter = || Op::moves(0..1, copy(5000, 0, &[axis(48, 32, 1)]));
        let gather = || Op::moves(2..3, copy(80_000, 5000, &[axis(6, 8, 8 * 32), axis(8, 1, 32)]));
        let task = |reads: Vec<MemRef>, writes: Vec<MemRef>, known| Op {
            tasks: 1..2,
            kind: Kind::Task("task"),
            reads,
            writes,
            known,
        };
        let out = || task(vec![MemRef::new(Home::Tile, 160_000, &[], 96)], Vec::new(), true);
        let run_on = |between: Op| {
            let mut ops = vec![scatter(), between, gather(), out()];
            run(&mut ops, own);
            ops.iter().filter_map(|op| op.as_move().map(|of| of.from.1)).collect::<Vec<_>>()
        };
        let apart = MemRef::new(Home::Tile, 4000, &[], 8);
        assert_eq!(run_on(task(vec![apart.clone()], vec![apart], true)), [0]);
        let source = MemRef::new(Home::Tile, 10, &[], 2);
        assert_eq!(run_on(task(Vec::new(), vec![source], true)), [0, 5000]);
        let scattered = MemRef::new(Home::Tile, 10_000, &[], 2);
        assert_eq!(run_on(task(vec![scattered], Vec::new(), true)).len(), 2);
        assert_eq!(run_on(task(Vec::new(), Vec::new(), false)), [0, 5000]);
        let mut unread = vec![scatter(), gather()];
        run(&mut unread, own);
        assert!(unread.is_empty());
        let mut seen = vec![scatter(), gather()];
        run(&mut seen, |_| false);
        assert_eq!(seen.len(), 2);
        // Overwritten memory holds the last value; byte 64 is not overwritten.
        let again = MemRef::new(Home::Tile, 10_000, &[(10, 100)], 50);
        let part = |bytes| MemRef::new(Home::Tile, 10_000, &[], bytes);
        for (read, left) in [(again.clone(), 2), (part(60), 2), (part(70), 3)] {
            let writes = task(Vec::new(), vec![again.clone()], true);
            let mut reused = vec![scatter(), writes, task(vec![read], Vec::new(), true)];
            run(&mut reused, own);
            assert_eq!(reused.len(), left);
        }
    }
}
