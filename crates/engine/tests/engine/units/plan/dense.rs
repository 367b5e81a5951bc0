use anemone_engine::testing::{Home, Kind, Map, MapOperand, Move, Op, make_dense as run};
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::epilogue::Activation;
use anemone_kernels::map::{MapInput, MapKind, MapStage};
use anemone_kernels::tensor::Extents;

const PORT: Home = Home::Bar(4);

/// A copy of 24 rows of `columns` elements.
fn copy((to, to_row): ((Home, usize), usize), (from, from_row): ((Home, usize), usize), columns: usize) -> Op {
    let axis = |count, to, from| CopyAxis { count, to, from };
    let axes = [axis(24, to_row, from_row), axis(columns, 1, 1)];
    Op::moves(0..1, Move::new(NanRule::Quiet, to, from, &axes).expect("a copy"))
}

/// A chain over rows of three elements, eight elements apart.
fn chain(to: usize, from: usize, rows: usize) -> Op {
    let axes = OperandAxes { strides: [0, 8, 0], one_column: false };
    let operand = |base| MapOperand { home: Home::Tile, base, axes };
    let kind = MapKind::Activate { bias: 0.0, scale: 1.0, activation: Activation::Relu };
    let stages = vec![MapStage { inputs: vec![MapInput::Operand(0)], relus: [false; 2], kind }];
    let ext = Extents { g: 1, c: rows, h: 1, w: 3 };
    Map { ext, to: operand(to), sources: vec![operand(from)], stages, tasks: 1, rewired: false }.op(1..2)
}

fn dense(mut ops: Vec<Op>) -> Vec<Op> {
    run(&mut ops, &[], |home| home == Home::Tile);
    ops
}

/// Elements of tile memory at the first row of each access, sources first, and the distance of the rows in bytes (0: dense).
fn tile(op: &Op) -> Vec<(u64, u64)> {
    let all = op.reads.iter().chain(&op.writes).filter(|of| of.home == Home::Tile);
    all.map(|of| (of.base_bytes / 2, of.axes.first().map_or(0, |axis| axis.stride_bytes))).collect()
}

fn read(at: usize) -> Op {
    copy(((Home::Tile, at), 8), ((PORT, 0), 32), 3)
}

fn written(at: usize) -> Op {
    copy(((Home::Bar(5), 0), 32), ((Home::Tile, at), 8), 3)
}

/// Rows are moved together with all that reads them, also in part and in place.
#[test]
fn rows_and_all_that_reads_them_become_dense() {
    let ops = dense(vec![read(64), chain(64, 64, 24), chain(600, 64 + 8 * 4, 20), written(64)]);
    let found: Vec<_> = ops.iter().map(tile).collect();
    assert_eq!(found[0], [(64, 0)]);
    assert_eq!(found[1], [(64, 0); 2]);
    assert_eq!(found[2], [(64 + 3 * 4, 0), (600, 0)]);
    assert_eq!(found[3], [(64, 0)]);
}

/// Another operation uses the gaps: the rows move elsewhere in their memory, or stay.
#[test]
fn memory_in_the_gaps_is_kept() {
    let other = |at, from| copy(((Home::Tile, at), 8), ((PORT, from), 32), 1);
    // Written before, and read behind.
    let narrow = |at| copy(((Home::Bar(5), 0), 8), ((Home::Tile, at), 8), 1);
    let ops = dense(vec![other(68, 0), read(64), written(64), narrow(68)]);
    assert_eq!(tile(&ops[1]), [(64, 16)]);
    let first = |ops: Vec<Op>| tile(&dense(ops)[1]);
    let some = |at: usize| {
        let axes = [CopyAxis { count: 40, to: 1, from: 1 }];
        Op::moves(0..1, Move::new(NanRule::Quiet, (Home::Tile, at), (PORT, 0), &axes).expect("a copy"))
    };
    let used = |at: usize| {
        let axes = [CopyAxis { count: 40, to: 1, from: 1 }];
        Op::moves(0..1, Move::new(NanRule::Quiet, (Home::Bar(5), 900), (Home::Tile, at), &axes).expect("a copy"))
    };
    // Its memory is free again before the rows are written.
    assert_eq!(first(vec![some(64), read(64), written(64)]), [(64, 0)]);
    // Meanwhile only a part of it is in use.
    let moved = first(vec![some(60), read(64 + 40), used(60), written(64 + 40)]);
    assert_eq!(moved, [(104, 0)]);
    let gaps = |to, from| {
        let axes = [CopyAxis { count: 6, to: 8, from: 8 }];
        Op::moves(0..1, Move::new(NanRule::Quiet, to, from, &axes).expect("a copy"))
    };
    let (in_gaps, away) = ((Home::Tile, 68), (Home::Bar(5), 900));
    let moved = first(vec![some(0), read(64), gaps(in_gaps, (PORT, 0)), gaps(away, in_gaps), written(64)]);
    assert!(moved[0].0 > 64 + 40 && moved[0].1 == 0, "{moved:?}");
}

/// A reader at a fixed place, or one that reads more than the rows, keeps them where they are.
#[test]
fn readers_at_fixed_places_keep_the_rows() {
    let out = Op { kind: Kind::Task("out"), writes: vec![], ..written(64) };
    assert_eq!(tile(&dense(vec![read(64), out])[0]), [(64, 16)]);
    let more = copy(((Home::Bar(5), 0), 32), ((Home::Tile, 64), 8), 4);
    assert_eq!(tile(&dense(vec![read(64), more])[0]), [(64, 16)]);
    let aside = copy(((Home::Bar(5), 0), 32), ((Home::Tile, 64), 12), 3);
    assert_eq!(tile(&dense(vec![read(64), aside])[0]), [(64, 16)]);
}
