use anemone_engine::testing::{Home, Kind, MemRef, Move, Op, compose as run, through};
use anemone_kernels::copy::{CopyAxis, NanRule, strided};
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
    for (at, gather) in [(1, axis(48, 1, 32)), (0, axis(49, 1, 32)), (0, axis(4, 1, 16)), (32 * 47, axis(2, 1, 32))] {
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
