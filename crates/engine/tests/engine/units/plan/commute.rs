use anemone_engine::testing::{Home, Kind, Map, MapOperand, Move, Op, commute as run};
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::epilogue::Activation;
use anemone_kernels::map::{MapInput, MapKind, MapStage};
use anemone_kernels::tensor::Extents;

fn copy(to: usize, from: usize, axes: [[usize; 3]; 2]) -> Op {
    let axes = axes.map(|[count, to, from]| CopyAxis { count, to, from });
    Op::moves(0..1, Move::new(NanRule::Quiet, (Home::Tile, to), (Home::Tile, from), &axes).expect("a copy"))
}

fn chain(to: usize, from: usize, w: usize) -> Op {
    let operand =
        |base| MapOperand { home: Home::Tile, base, axes: OperandAxes { strides: [0, 0, 20], one_column: false } };
    let kind = MapKind::Activate { bias: 0.0, scale: 1.0, activation: Activation::Relu };
    let stage = MapStage { inputs: vec![MapInput::Operand(0)], relus: [false; 2], kind };
    let ext = Extents { g: 1, c: 1, h: 32, w };
    let (to, sources) = (operand(to), vec![operand(from)]);
    Map { ext, to, sources, stages: vec![stage], tasks: 1, rewired: false }.op(1..2)
}

/// 20 rows of channels are transposed, go through a chain, and are transposed back.
#[test]
fn a_chain_between_two_turns_needs_neither() {
    let turned = |from| copy(5000, from, [[32, 20, 1], [20, 1, 40]]);
    let back = copy(9000, 7000, [[20, 32, 1], [32, 1, 20]]);
    let out = Op { tasks: 3..4, kind: Kind::Task("out"), reads: back.writes.clone(), writes: vec![], known: true };
    let mut ops = vec![turned(0), chain(7000, 5000, 20), back.clone(), out.clone()];
    run(&mut ops, |_| true);
    let [Op { kind: Kind::Map(map), .. }, _] = ops.as_slice() else { panic!("{} operations", ops.len()) };
    assert_eq!((map.ext, map.to.base, map.sources[0].base), (Extents { g: 1, c: 1, h: 20, w: 32 }, 9000, 0));
    assert_eq!((map.to.axes.strides[2], map.sources[0].axes.strides[2]), (32, 40));
    // The chain reads only part of the transposed data, or another operation reads its result.
    for between in [chain(7000, 5000, 19), chain(7000, 5000, 20)] {
        let reader = Op { reads: between.writes.clone(), ..out.clone() };
        let mut ops = vec![turned(0), between, reader, back.clone(), out.clone()];
        run(&mut ops, |_| true);
        assert_eq!(ops.len(), 5);
    }
}
