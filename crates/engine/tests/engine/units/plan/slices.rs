use anemone_engine::testing::{Home, Kind, Map, MapOperand, Op, into_slices as run};
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::epilogue::Activation;
use anemone_kernels::map::{MapInput, MapKind, MapStage};
use anemone_kernels::tensor::Extents;

fn chain(to: usize, from: usize, channels: usize) -> Op {
    let operand =
        |base| MapOperand { home: Home::Tile, base, axes: OperandAxes { strides: [0, 8, 0], one_column: false } };
    let kind = MapKind::Activate { bias: 0.0, scale: 1.0, activation: Activation::Relu };
    let stage = MapStage { inputs: vec![MapInput::Operand(0)], relus: [false; 2], kind };
    let ext = Extents { g: 1, c: channels, h: 1, w: 1 };
    let (to, sources) = (operand(to), vec![operand(from)]);
    Map { ext, to, sources, stages: vec![stage], tasks: 1, rewired: false }.op(1..2)
}

/// Gates of a recurrence: one chain over all of them, then one for each gate.
#[test]
fn a_chain_is_fused_into_those_that_read_its_slices() {
    let last =
        |of: &Op| Op { tasks: 3..4, kind: Kind::Task("out"), reads: of.writes.clone(), writes: vec![], known: true };
    let (one, other) = (chain(6000, 4000, 64), chain(7000, 4000 + 8 * 64, 64));
    let ends = [last(&one), last(&other)];
    let mut ops = [vec![chain(4000, 0, 128), one.clone(), other.clone()], ends.to_vec()].concat();
    run(&mut ops, |_| true);
    let maps: Vec<&Map> = ops
        .iter()
        .filter_map(|op| match &op.kind {
            Kind::Map(map) => Some(map.as_ref()),
            _ => None,
        })
        .collect();
    let found: Vec<_> = maps.iter().map(|map| (map.sources[0].base, map.stages.len(), map.tasks)).collect();
    assert_eq!(found, [(0, 2, 1), (8 * 64, 2, 2)]);
    // A slice that is read twice, of a chain that replaces its source, is computed once.
    let square = |to, from| {
        let Kind::Map(map) = chain(to, from, 64).kind else { panic!("no chain") };
        Map { sources: vec![map.sources[0].clone(), map.sources[0].clone()], ..*map }.op(2..3)
    };
    let (one, other) = (square(6000, 4000), square(7000, 4000 + 8 * 64));
    let ends = [last(&one), last(&other)];
    let mut ops = [vec![chain(4000, 4000, 128), one.clone(), other.clone()], ends.to_vec()].concat();
    run(&mut ops, |_| true);
    let stages = ops.iter().filter_map(|op| match &op.kind {
        Kind::Map(map) => Some((map.sources.len(), map.stages.len())),
        _ => None,
    });
    assert_eq!(stages.collect::<Vec<_>>(), [(1, 2); 2]);
    let (one, other) = (chain(6000, 4000, 64), chain(7000, 4000 + 8 * 64, 64));
    let ends = [last(&one), last(&other)];
    // Overlapping slices are not computed twice, nor is a result that another operation reads.
    let twice = [vec![chain(4000, 0, 128), one.clone(), chain(7000, 4000, 128)], ends.to_vec()].concat();
    let read = [vec![chain(4000, 0, 128), one, other, last(&chain(4000, 0, 128))], ends.to_vec()].concat();
    for ops in [twice, read] {
        let (mut after, count) = (ops.clone(), ops.len());
        run(&mut after, |_| true);
        assert_eq!(after.len(), count);
    }
}
