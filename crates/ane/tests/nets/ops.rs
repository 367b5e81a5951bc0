//! Every lowered operation: compiled, executed from its words in every model, executed again from a container written
//! and read, and compared with the plain evaluator.
//!
//! A case is one line: operation, extents, constants. What is admitted is a row of `facts::tolerance`.

use crate::common;

use anemone_facts::tolerance;
use anemone_net::*;
use common::Score;
use common::suite::{Case, case};

fn conv(strides: [usize; 2], pads: [(usize, usize); 2], dilations: [usize; 2], groups: usize) -> OpKind {
    OpKind::Conv { strides: strides.to_vec(), pads: pads.to_vec(), dilations: dilations.to_vec(), groups }
}

fn pool(kind: PoolKind, k: usize, s: usize, pads: [(usize, usize); 2]) -> OpKind {
    OpKind::Pool { kind, kernel: vec![k; 2], strides: vec![s; 2], pads: pads.to_vec(), ceil_mode: false }
}

fn reduce(kind: ReduceKind, axes: &[usize], keep_dims: bool) -> OpKind {
    OpKind::Reduce { kind, axes: axes.to_vec(), keep_dims }
}

fn cases() -> Vec<Case> {
    use OpKind::{Concat, Linear, MatMul, Reshape, Softmax, Transpose};
    let (same, none) = ([(1, 1); 2], [(0, 0); 2]);
    let mut all = vec![
        case("conv 1x1", conv([1, 1], none, [1, 1], 1), &[&[1, 3, 5, 7]]).with(&[&[8, 3, 1, 1]]),
        case("conv 1x1 to one", conv([1, 1], none, [1, 1], 1), &[&[1, 3, 5, 7]]).with(&[&[1, 3, 1, 1], &[1]]),
        case("conv 3x3 bias", conv([1, 1], same, [1, 1], 1), &[&[1, 16, 9, 11]]).with(&[&[64, 16, 3, 3], &[64]]),
        case("conv 3x3 stride 2", conv([2, 2], same, [1, 1], 1), &[&[1, 16, 12, 12]]).with(&[&[24, 16, 3, 3], &[24]]),
        case("conv 3x3 stride 2 even", conv([2, 2], [(0, 1); 2], [1, 1], 1), &[&[1, 4, 12, 12]])
            .with(&[&[40, 4, 3, 3]]),
        case("conv stride 4", conv([4, 4], [(3, 3); 2], [1, 1], 1), &[&[1, 3, 33, 33]]).with(&[&[16, 3, 7, 7], &[16]]),
        case("conv stride 5", conv([5, 5], [(2, 2); 2], [1, 1], 1), &[&[1, 3, 21, 23]]).with(&[&[6, 3, 5, 5], &[6]]),
        case("conv stride 3x1", conv([3, 1], same, [1, 1], 1), &[&[1, 3, 10, 9]]).with(&[&[5, 3, 3, 3]]),
        case("conv dilated", conv([1, 1], [(2, 2); 2], [2, 2], 1), &[&[1, 8, 12, 12]]).with(&[&[8, 8, 3, 3]]),
        case("conv behind its operand", conv([1, 1], [(0, 4), (1, 3)], [1, 1], 1), &[&[1, 2, 5, 6]])
            .with(&[&[3, 2, 3, 2], &[3]]),
        case("conv 13x13", conv([1, 1], [(6, 6); 2], [1, 1], 1), &[&[1, 2, 14, 15]]).with(&[&[3, 2, 13, 13]]),
        case("conv 3x17", conv([1, 2], [(1, 1), (8, 8)], [1, 1], 2), &[&[2, 6, 5, 30]]).with(&[&[6, 3, 3, 17], &[6]]),
        case("conv 1x7", conv([1, 1], [(0, 0), (3, 3)], [1, 1], 1), &[&[1, 6, 5, 17]]).with(&[&[6, 6, 1, 7]]),
        case("conv groups 4", conv([1, 1], same, [1, 1], 4), &[&[1, 16, 8, 8]]).with(&[&[64, 4, 3, 3], &[64]]),
        case("conv groups 2 batch 2", conv([1, 1], same, [1, 1], 2), &[&[2, 8, 6, 6]]).with(&[&[6, 4, 3, 3], &[6]]),
        case("conv depthwise", conv([1, 1], same, [1, 1], 24), &[&[1, 24, 8, 8]]).with(&[&[24, 1, 3, 3], &[24]]),
        case("conv depthwise stride 2", conv([2, 2], same, [1, 1], 33), &[&[1, 33, 9, 9]]).with(&[&[33, 1, 3, 3]]),
        case("conv depthwise stride 2 wide", conv([2, 2], same, [1, 1], 48), &[&[1, 48, 21, 37]])
            .with(&[&[48, 1, 3, 3], &[48]]),
        case("conv multiplier 2", conv([1, 1], same, [1, 1], 8), &[&[1, 8, 8, 8]]).with(&[&[16, 1, 3, 3]]),
        case("conv grouped to one each", conv([1, 1], same, [1, 1], 4), &[&[1, 8, 8, 8]]).with(&[&[4, 2, 3, 3]]),
        case("conv batch 3", conv([1, 1], same, [1, 1], 1), &[&[3, 4, 8, 8]]).with(&[&[5, 4, 3, 3], &[5]]),
        case("conv 512 lanes", conv([1, 1], none, [1, 1], 1), &[&[1, 32, 1, 1]]).with(&[&[512, 32, 1, 1]]),
        case(
            "conv one axis",
            OpKind::Conv { strides: vec![2], pads: vec![(2, 2)], dilations: vec![1], groups: 1 },
            &[&[1, 8, 50]],
        )
        .with(&[&[12, 8, 5], &[12]]),
        case("conv beyond kernel memory", conv([1, 1], none, [1, 1], 1), &[&[1, 4096, 1, 2]])
            .with(&[&[2080, 4096, 1, 1], &[2080]]),
        case("wide row", OpKind::Unary(Unary::Relu), &[&[2, 40000]]),
        case("wide rows with a column", OpKind::Binary(Binary::Add), &[&[3, 20000], &[3, 1]]),
        case("many rows", OpKind::Unary(Unary::Abs), &[&[40000, 3]]),
        case("many channels", OpKind::Unary(Unary::Abs), &[&[1, 70000, 1, 3]]),
        case("transposed conv 2x2", transposed([2, 2], [(0, 0); 2], [0, 0], 1), &[&[1, 6, 5, 7]])
            .with(&[&[6, 4, 2, 2], &[4]]),
        case("transposed conv 3x3", transposed([2, 2], [(1, 1); 2], [1, 1], 1), &[&[2, 6, 5, 7]])
            .with(&[&[6, 4, 3, 3], &[4]]),
        case("transposed conv 4x4", transposed([2, 2], [(1, 1); 2], [0, 0], 2), &[&[1, 6, 5, 7]])
            .with(&[&[6, 4, 4, 4]]),
        case("transposed conv stride 3", transposed([3, 1], [(0, 1), (2, 0)], [0, 0], 1), &[&[1, 6, 5, 7]])
            .with(&[&[6, 4, 5, 3]]),
        case("transposed conv apart", transposed([1, 3], [(0, 0); 2], [0, 2], 1), &[&[1, 3, 4, 5]])
            .with(&[&[3, 4, 1, 1]]),
        case("resize twice", resize(ResizeMode::Nearest, Coordinates::Asymmetric), &[&[1, 3, 5, 6]])
            .result(&[1, 3, 10, 12]),
        case("resize linear", resize(ResizeMode::Linear, Coordinates::HalfPixel), &[&[2, 3, 5, 6]])
            .result(&[2, 3, 9, 15]),
        case("resize corners", resize(ResizeMode::Linear, Coordinates::AlignCorners), &[&[1, 3, 5, 6]])
            .result(&[1, 3, 5, 11]),
        case("pad by reflection", pad_edge(EdgeMode::Reflect), &[&[1, 3, 5, 6]]),
        case("pad by the edge", pad_edge(EdgeMode::Replicate), &[&[2, 3, 5, 6]]),
        case("long pad by reflection", long_pad_edge(EdgeMode::Reflect), &[&[2, 2100]]),
        case("long pad by the edge", long_pad_edge(EdgeMode::Replicate), &[&[3, 2100]]),
        case("linear", Linear, &[&[1, 64]]).with(&[&[10, 64], &[10]]),
        case("linear rows", Linear, &[&[5, 7, 48]]).with(&[&[33, 48], &[33]]),
        case("matmul", MatMul { transpose_x: false, transpose_y: false }, &[&[6, 40]]).with(&[&[40, 24]]),
        case("matmul turned", MatMul { transpose_x: false, transpose_y: true }, &[&[2, 3, 40]]).with(&[&[24, 40]]),
        case("matmul of two", MatMul { transpose_x: false, transpose_y: false }, &[&[6, 40], &[40, 24]]),
        case(
            "matmul of two, turned right",
            MatMul { transpose_x: false, transpose_y: true },
            &[&[2, 3, 37, 40], &[2, 3, 24, 40]],
        ),
        case(
            "matmul of two, turned left",
            MatMul { transpose_x: true, transpose_y: false },
            &[&[2, 40, 37], &[2, 40, 24]],
        ),
        case("matmul of two, both turned", MatMul { transpose_x: true, transpose_y: true }, &[&[40, 150], &[24, 40]]),
        case(
            "matmul of two, repeated",
            MatMul { transpose_x: false, transpose_y: false },
            &[&[3, 1, 5, 33], &[2, 33, 7]],
        ),
        case("matmul of many rows", MatMul { transpose_x: false, transpose_y: false }, &[&[375, 50], &[50, 30]]),
        case("matmul with constants", MatMul { transpose_x: false, transpose_y: false }, &[&[2, 9, 50]])
            .with(&[&[2, 50, 30]]),
        case("max pool", pool(PoolKind::Max, 3, 2, same), &[&[1, 6, 12, 13]]),
        case("max pool 2", pool(PoolKind::Max, 2, 2, none), &[&[2, 6, 12, 12]]),
        case("average pool", pool(PoolKind::Average { exclude_padding: false }, 2, 2, none), &[&[1, 6, 12, 12]]),
        case("average pool padded", pool(PoolKind::Average { exclude_padding: true }, 3, 1, same), &[&[1, 6, 7, 8]]),
        case("average pool zeros", pool(PoolKind::Average { exclude_padding: false }, 3, 1, same), &[&[1, 6, 7, 8]]),
        case("l2 pool", pool(PoolKind::L2, 2, 2, none), &[&[1, 3, 8, 8]]).table(),
        case(
            "matmul of two, staged for all",
            MatMul { transpose_x: false, transpose_y: true },
            &[&[3, 256, 64], &[3, 80, 64]],
        ),
        case(
            "matmul that kernel memory does not keep",
            MatMul { transpose_x: false, transpose_y: true },
            &[&[130, 640]],
        )
        .with(&[&[900, 640]]),
        case("softmax of few rows", Softmax { axis: 2 }, &[&[1, 64, 192]]).table(),
        case("softmax of heads", Softmax { axis: 3 }, &[&[1, 5, 70, 128]]).table(),
        case("softmax of a column of channels", Softmax { axis: 3 }, &[&[1, 96, 1, 48]]).table(),
        case("layer norm of many rows", OpKind::LayerNorm { axes: vec![2], epsilon: 1e-5 }, &[&[1, 450, 96]]),
        case("softmax last", Softmax { axis: 1 }, &[&[3, 50]]).table(),
        case("softmax channels", Softmax { axis: 1 }, &[&[1, 12, 5, 6]]).table(),
        case("softmax rows", Softmax { axis: 2 }, &[&[1, 4, 5, 6]]).table(),
        case("concat channels", Concat { axis: 1 }, &[&[1, 3, 4, 5], &[1, 6, 4, 5]]),
        case("concat columns", Concat { axis: 3 }, &[&[1, 3, 4, 5], &[1, 3, 4, 9]]),
        case("concat aligned columns", Concat { axis: 1 }, &[&[2, 32], &[2, 7]]),
        case("concat rows", Concat { axis: 2 }, &[&[2, 3, 4, 5], &[2, 3, 1, 5]]),
        case("reshape flatten", Reshape, &[&[1, 3, 4, 5]]).result(&[1, 60]),
        case("reshape split", Reshape, &[&[2, 24, 6]]).result(&[2, 4, 36]),
        case("reshape rows", Reshape, &[&[1, 12, 4, 5]]).result(&[1, 3, 16, 5]),
        case("reshape heads", Reshape, &[&[1, 7, 64]]).result(&[1, 7, 2, 32]),
        case("reshape pixels", Reshape, &[&[1, 5, 6, 7]]).result(&[1, 5, 42]),
        case("transpose last", Transpose { perm: vec![0, 2, 1] }, &[&[2, 5, 9]]),
        case("transpose nhwc", Transpose { perm: vec![0, 2, 3, 1] }, &[&[2, 5, 6, 7]]),
        case("transpose nchw", Transpose { perm: vec![0, 3, 1, 2] }, &[&[2, 5, 6, 7]]),
        case("transpose lead", Transpose { perm: vec![0, 2, 1, 3] }, &[&[2, 5, 6, 7]]),
        case("transpose all", Transpose { perm: vec![3, 2, 1, 0] }, &[&[2, 5, 6, 7]]),
        case("transpose five", Transpose { perm: vec![0, 2, 1, 3, 4] }, &[&[1, 2, 3, 4, 5]]),
        case("transpose five last", Transpose { perm: vec![4, 2, 1, 3, 0] }, &[&[2, 2, 3, 4, 5]]),
        case("slice rows", slice(&[0, 1, 2, 0], &[1, 3, 6, 5], &[1, 1, 2, 1]), &[&[1, 4, 6, 5]]),
        case("slice columns", slice(&[0, 0, 3], &[2, 3, 9], &[1, 1, 2]), &[&[2, 3, 10]]),
        case("slice aligned", slice(&[0, 32], &[2, 60], &[1, 1]), &[&[2, 64]]),
        case("pad", OpKind::Pad { pads: vec![(0, 0), (0, 0), (1, 2), (3, 0)], value: 0.0 }, &[&[1, 3, 5, 6]]),
        case("pad value", OpKind::Pad { pads: vec![(0, 0), (0, 0), (1, 1), (1, 1)], value: 1.5 }, &[&[1, 3, 5, 6]]),
        case("batch norm", OpKind::BatchNorm { epsilon: 1e-5 }, &[&[1, 6, 5, 5]])
            .with(&[&[6]])
            .constant(&[6], 0.7)
            .with(&[&[6], &[6]]),
        case("layer norm", OpKind::LayerNorm { axes: vec![2], epsilon: 1e-5 }, &[&[1, 6, 40]])
            .with(&[&[40], &[40]])
            .table(),
        case("layer norm channels", OpKind::LayerNorm { axes: vec![1], epsilon: 1e-5 }, &[&[1, 40, 2, 3]]).table(),
        case("instance norm", OpKind::InstanceNorm { epsilon: 1e-5 }, &[&[1, 6, 7, 8]]).with(&[&[6], &[6]]).table(),
        case("instance norm of long rows", OpKind::InstanceNorm { epsilon: 1e-5 }, &[&[1, 2, 20000]])
            .with(&[&[2], &[2]])
            .table(),
        case("softmax of a long row", OpKind::Softmax { axis: 1 }, &[&[1, 20000]]).table(),
        case(
            "log sum exp of a long row",
            OpKind::Reduce { kind: ReduceKind::LogSumExp, axes: vec![1], keep_dims: false },
            &[&[1, 20000]],
        )
        .table(),
        case("broadcast", OpKind::Broadcast, &[&[1, 3, 1, 1]]).result(&[2, 3, 4, 5]),
    ];
    for axes in [&[3usize][..], &[2, 3], &[1], &[2], &[1, 2], &[1, 2, 3], &[1, 3], &[0]] {
        for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min] {
            all.push(case(
                &format!("reduce {kind:?} {axes:?}"),
                reduce(kind, axes, axes.len() % 2 == 1),
                &[&[2, 5, 6, 7]],
            ));
        }
    }
    for kind in [ReduceKind::SumSquare, ReduceKind::L1, ReduceKind::L2, ReduceKind::LogSumExp] {
        all.push(case(&format!("reduce {kind:?}"), reduce(kind, &[2], true), &[&[2, 5, 6]]).table());
    }
    for f in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min, Binary::Div, Binary::Pow] {
        let table = matches!(f, Binary::Div | Binary::Pow);
        let shapes: [(&[usize], &[usize]); 7] = [
            (&[1, 4, 5, 6], &[1, 4, 5, 6]),
            (&[1, 4, 5, 6], &[1, 4, 1, 1]),
            (&[1, 4, 1, 6], &[1, 4, 5, 1]),
            (&[2, 3, 7], &[7]),
            (&[3, 1], &[1, 5]),
            (&[2, 4, 5, 6], &[1, 1, 5, 1]),
            (&[1, 1, 5, 6], &[2, 4, 1, 6]),
        ];
        for (a, b) in shapes {
            let mut c = case(&format!("{f:?} {a:?} {b:?}"), OpKind::Binary(f), &[a, b]).range(0.25, 2.0);
            if table {
                c = c.table();
            }
            all.push(c);
        }
        for value in [0.75, 2.0] {
            let mut c =
                case(&format!("{f:?} scalar {value}"), OpKind::Binary(f), &[&[1, 4, 5, 6]]).constant(&[1], value);
            c = c.range(0.25, 2.0);
            if table {
                c = c.table();
            }
            all.push(c);
        }
        if !table {
            all.push(case(&format!("{f:?} per channel"), OpKind::Binary(f), &[&[1, 4, 5, 6]]).with(&[&[1, 4, 1, 1]]));
        }
    }
    let exact = [
        Unary::Identity,
        Unary::Relu,
        Unary::Relu6,
        Unary::LeakyRelu { alpha: 0.1 },
        Unary::Abs,
        Unary::Neg,
        Unary::Square,
        Unary::Sign,
        Unary::Ceil,
        Unary::Floor,
        Unary::Clip { min: -0.5, max: 1.25 },
        Unary::Threshold { alpha: 0.5 },
        Unary::SigmoidHard { alpha: 0.2, beta: 0.5 },
    ];
    let tables = [
        Unary::Elu { alpha: 1.0 },
        Unary::Sigmoid,
        Unary::Tanh,
        Unary::ScaledTanh { alpha: 1.7, beta: 0.6 },
        Unary::Gelu(GeluMode::Exact),
        Unary::Gelu(GeluMode::Tanh),
        Unary::Gelu(GeluMode::Sigmoid),
        Unary::Silu,
        Unary::Softplus,
        Unary::Softsign,
        Unary::Erf,
        Unary::Exp,
        Unary::Exp2,
    ];
    let positive = [
        Unary::Log { epsilon: 0.01 },
        Unary::Log2,
        Unary::Sqrt,
        Unary::Rsqrt { epsilon: 0.01 },
        Unary::Inverse { epsilon: 0.01 },
    ];
    for (functions, range, table) in
        [(&exact[..], (-4.0, 4.0), false), (&tables, (-4.0, 4.0), true), (&positive, (0.1, 8.0), true)]
    {
        for &f in functions {
            let mut c = case(&format!("{f:?}"), OpKind::Unary(f), &[&[1, 5, 6, 70]]).range(range.0, range.1);
            if table {
                c = c.table();
            }
            all.push(c);
        }
    }
    for f in [Binary::Equal, Binary::NotEqual, Binary::Less, Binary::LessEqual, Binary::Greater, Binary::GreaterEqual] {
        all.push(case(&format!("{f:?}"), OpKind::Binary(f), &[&[1, 3, 5, 40], &[1, 3, 5, 40]]).whole());
        all.push(case(&format!("{f:?} broadcast"), OpKind::Binary(f), &[&[1, 6, 1]]).with(&[&[9]]).range(-0.5, 0.5));
    }
    all.push(case("Round", OpKind::Unary(Unary::Round), &[&[1, 5, 6, 70]]).range(-6.0, 6.0));
    all.push(case("Round large", OpKind::Unary(Unary::Round), &[&[1, 5, 6, 70]]).range(-2000.0, 2000.0));
    all.push(case("select", OpKind::Select, &[&[1, 3, 5, 40], &[1, 3, 5, 40], &[1, 3, 5, 40]]));
    all.push(case("select by rows", OpKind::Select, &[&[5, 1], &[3, 5, 40], &[40]]));
    all.push(case("gather", OpKind::Gather { axis: 1 }, &[&[2, 7, 5]]).indices(&[4], &[5, 1, 2, -1]));
    all.push(case("gather planes", OpKind::Gather { axis: 0 }, &[&[6, 3, 5]]).indices(&[2, 2], &[0, 1, 4, 0]));
    let mut atan = case("Atan", OpKind::Unary(Unary::Atan), &[&[1, 5, 6, 70]]).range(-4.0, 4.0);
    atan.tolerance = &tolerance::TABLE;
    all.push(atan);
    all.push(case("relu five axes", OpKind::Unary(Unary::Relu), &[&[2, 3, 2, 3, 4]]));
    all
}

fn transposed(strides: [usize; 2], pads: [(usize, usize); 2], output_pads: [usize; 2], groups: usize) -> OpKind {
    OpKind::ConvTranspose {
        strides: strides.to_vec(),
        pads: pads.to_vec(),
        output_pads: output_pads.to_vec(),
        dilations: vec![1, 1],
        groups,
    }
}

fn resize(mode: ResizeMode, coordinates: Coordinates) -> OpKind {
    OpKind::Resize { mode, coordinates }
}

fn pad_edge(mode: EdgeMode) -> OpKind {
    OpKind::PadEdge { pads: vec![(0, 0), (0, 0), (2, 1), (3, 2)], mode }
}

/// Padding of a row that is too long for a product with a matrix.
fn long_pad_edge(mode: EdgeMode) -> OpKind {
    OpKind::PadEdge { pads: vec![(1, 0), (37, 20)], mode }
}

fn slice(begin: &[usize], end: &[usize], stride: &[usize]) -> OpKind {
    OpKind::Slice { begin: begin.to_vec(), end: end.to_vec(), stride: stride.to_vec() }
}

#[test]
fn operations_match_the_evaluator() {
    let mut score = Score::default();
    for case in cases() {
        score.case(&case.name, case.check());
    }
    score.close();
}
