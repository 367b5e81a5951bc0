//! Result types against hand-computed ones, and the error for each rule.

use anemone_net::Error;
use anemone_net::graph::{DType, TensorType};
use anemone_net::infer::*;
use anemone_net::ops::{Binary, OpKind, Unary};
use anemone_net::ops::{Coordinates, EdgeMode, PoolKind, ReduceKind, ResizeMode};

fn f16(shape: &[usize]) -> TensorType {
    TensorType::new(DType::F16, shape)
}

fn shape_of(kind: OpKind, inputs: &[&TensorType]) -> Result<Vec<usize>, Error> {
    infer(&kind, inputs, None).map(|types| types[0].shape.clone())
}

fn conv(strides: &[usize], pads: &[(usize, usize)], dilations: &[usize], groups: usize) -> OpKind {
    OpKind::Conv { strides: strides.into(), pads: pads.into(), dilations: dilations.into(), groups }
}

#[test]
fn convolutions() {
    let x = f16(&[1, 3, 96, 96]);
    let plain = conv(&[2, 2], &[(1, 1), (1, 1)], &[1, 1], 1);
    assert_eq!(shape_of(plain.clone(), &[&x, &f16(&[16, 3, 3, 3])]).unwrap(), [1, 16, 48, 48]);
    let dilated = conv(&[1], &[(4, 4)], &[4], 1);
    assert_eq!(shape_of(dilated, &[&f16(&[1, 2, 198]), &f16(&[5, 2, 3])]).unwrap(), [1, 5, 198]);
    let grouped = conv(&[1, 1], &[(0, 0), (0, 0)], &[1, 1], 4);
    assert_eq!(shape_of(grouped.clone(), &[&f16(&[2, 8, 5, 5]), &f16(&[4, 2, 3, 3])]).unwrap(), [2, 4, 3, 3]);
    let error = shape_of(grouped, &[&f16(&[2, 8, 5, 5]), &f16(&[6, 2, 3, 3])]).unwrap_err();
    assert!(matches!(error, Error::Extent { operand: 1, axis: 0, found: 6, expected: 8, .. }), "{error}");
    let error = shape_of(plain.clone(), &[&x, &f16(&[16, 4, 3, 3])]).unwrap_err();
    assert!(matches!(error, Error::Extent { operand: 0, axis: 1, found: 3, expected: 4, .. }), "{error}");
    let error = shape_of(plain.clone(), &[&f16(&[1, 3, 1, 96]), &f16(&[16, 3, 4, 3])]).unwrap_err();
    assert_eq!(error, Error::Window { kind: "conv", axis: 2, window: 4, extent: 3 });
    let error = shape_of(plain, &[&x, &f16(&[16, 3, 3, 3]), &f16(&[15])]).unwrap_err();
    assert!(matches!(error, Error::Extent { operand: 2, found: 15, expected: 16, .. }), "{error}");
    let transposed = OpKind::ConvTranspose {
        strides: vec![2, 2],
        pads: vec![(1, 1), (0, 1)],
        output_pads: vec![1, 0],
        dilations: vec![1, 1],
        groups: 1,
    };
    // Rows: (5 - 1) * 2 + 3 + 1 - 2 = 10; columns: (5 - 1) * 2 + 3 - 1 = 10.
    assert_eq!(shape_of(transposed, &[&f16(&[1, 4, 5, 5]), &f16(&[4, 7, 3, 3])]).unwrap(), [1, 7, 10, 10]);
}

#[test]
fn pooling_rounds_up_only_for_windows_that_start_inside() {
    let pool = |ceil_mode, kernel: usize, stride, pad| OpKind::Pool {
        kind: PoolKind::Max,
        kernel: vec![kernel],
        strides: vec![stride],
        pads: vec![(pad, pad)],
        ceil_mode,
    };
    let x = f16(&[1, 1, 6]);
    assert_eq!(shape_of(pool(false, 3, 2, 0), &[&x]).unwrap(), [1, 1, 2]);
    assert_eq!(shape_of(pool(true, 3, 2, 0), &[&x]).unwrap(), [1, 1, 3]);
    // A fourth window would start at 6 + 1, in the padding after the input.
    assert_eq!(shape_of(pool(true, 2, 2, 1), &[&f16(&[1, 1, 5])]).unwrap(), [1, 1, 3]);
    assert!(shape_of(pool(false, 2, 1, 2), &[&x]).is_err());
}

#[test]
fn products_broadcast_their_batches() {
    let product = |transpose_x, transpose_y| OpKind::MatMul { transpose_x, transpose_y };
    let (x, y) = (f16(&[4, 1, 2, 3]), f16(&[5, 3, 7]));
    assert_eq!(shape_of(product(false, false), &[&x, &y]).unwrap(), [4, 5, 2, 7]);
    assert_eq!(shape_of(product(true, true), &[&f16(&[3, 2]), &f16(&[7, 3])]).unwrap(), [2, 7]);
    assert!(shape_of(product(false, true), &[&x, &y]).is_err());
    assert_eq!(shape_of(OpKind::Linear, &[&f16(&[2, 9, 3]), &f16(&[8, 3])]).unwrap(), [2, 9, 8]);
}

#[test]
fn elementwise() {
    let add = OpKind::Binary(Binary::Add);
    assert_eq!(shape_of(add.clone(), &[&f16(&[3, 1]), &f16(&[2, 1, 4])]).unwrap(), [2, 3, 4]);
    assert_eq!(shape_of(add.clone(), &[&f16(&[]), &f16(&[4])]).unwrap(), [4]);
    let error = shape_of(add.clone(), &[&f16(&[3]), &f16(&[4])]).unwrap_err();
    assert!(matches!(error, Error::Broadcast { .. }), "{error}");
    let error = shape_of(add.clone(), &[&f16(&[3]), &TensorType::new(DType::F32, [3])]).unwrap_err();
    assert!(matches!(error, Error::ElementType { operand: 1, .. }), "{error}");
    let error = shape_of(add, &[&f16(&[3])]).unwrap_err();
    assert_eq!(error, Error::Arity { kind: "add".to_string(), found: 1, least: 2, most: 2 });
    let less = infer(&OpKind::Binary(Binary::Less), &[&f16(&[3]), &f16(&[1])], None).unwrap();
    assert_eq!(less, [TensorType::new(DType::Bool, [3])]);
    assert!(shape_of(OpKind::Select, &[&less[0], &f16(&[2, 1]), &f16(&[1])]).is_ok());
    assert!(shape_of(OpKind::Select, &[&f16(&[3]), &f16(&[3]), &f16(&[3])]).is_err());
    let integers = TensorType::new(DType::I32, [3]);
    assert!(shape_of(OpKind::Unary(Unary::Abs), &[&integers]).is_ok());
    assert!(shape_of(OpKind::Unary(Unary::Tanh), &[&integers]).is_err());
}

#[test]
fn rearrangement() {
    let x = f16(&[2, 3, 4]);
    let declared = f16(&[6, 4]);
    assert_eq!(infer(&OpKind::Reshape, &[&x], Some(&declared)).unwrap(), std::slice::from_ref(&declared));
    assert_eq!(infer(&OpKind::Reshape, &[&x], None).unwrap_err(), Error::NotDeclared { kind: "reshape" });
    let error = infer(&OpKind::Reshape, &[&x], Some(&f16(&[5]))).unwrap_err();
    assert_eq!(error, Error::ElementCount { kind: "reshape", found: 24, expected: 5 });
    assert_eq!(infer(&OpKind::Broadcast, &[&f16(&[3, 1])], Some(&x)).unwrap(), [f16(&[2, 3, 4])]);
    assert!(infer(&OpKind::Broadcast, &[&x], Some(&f16(&[1, 3, 4]))).is_err());
    assert_eq!(shape_of(OpKind::Transpose { perm: vec![2, 0, 1] }, &[&x]).unwrap(), [4, 2, 3]);
    assert!(shape_of(OpKind::Transpose { perm: vec![2, 0, 0] }, &[&x]).is_err());
    let slice = |begin: &[usize], end: &[usize], stride: &[usize]| OpKind::Slice {
        begin: begin.into(),
        end: end.into(),
        stride: stride.into(),
    };
    assert_eq!(shape_of(slice(&[0, 1, 0], &[2, 2, 4], &[1, 1, 3]), &[&x]).unwrap(), [2, 1, 2]);
    assert!(shape_of(slice(&[0, 1, 0], &[2, 4, 4], &[1, 1, 1]), &[&x]).is_err());
    assert!(shape_of(slice(&[0, 2, 0], &[2, 2, 4], &[1, 1, 1]), &[&x]).is_err());
    assert_eq!(shape_of(OpKind::Concat { axis: 1 }, &[&x, &f16(&[2, 5, 4])]).unwrap(), [2, 8, 4]);
    assert!(shape_of(OpKind::Concat { axis: 3 }, &[&x]).is_err());
    let indices = TensorType::new(DType::I32, [5, 6]);
    assert_eq!(shape_of(OpKind::Gather { axis: 1 }, &[&x, &indices]).unwrap(), [2, 5, 6, 4]);
    let pads = vec![(0, 0), (2, 2), (0, 1)];
    let edge = |mode| OpKind::PadEdge { pads: pads.clone(), mode };
    assert_eq!(shape_of(edge(EdgeMode::Reflect), &[&x]).unwrap(), [2, 7, 5]);
    assert!(shape_of(edge(EdgeMode::Reflect), &[&f16(&[2, 2, 4])]).is_err());
    assert!(shape_of(edge(EdgeMode::Replicate), &[&f16(&[2, 2, 4])]).is_ok());
    let resize = OpKind::Resize { mode: ResizeMode::Linear, coordinates: Coordinates::HalfPixel };
    assert_eq!(infer(&resize, &[&x], Some(&f16(&[2, 6, 8]))).unwrap(), [f16(&[2, 6, 8])]);
}

#[test]
fn statistics() {
    let x = f16(&[2, 3, 4]);
    let mean = |axes: &[usize], keep_dims| OpKind::Reduce { kind: ReduceKind::Mean, axes: axes.into(), keep_dims };
    assert_eq!(shape_of(mean(&[0, 2], false), &[&x]).unwrap(), [3]);
    assert_eq!(shape_of(mean(&[0, 2], true), &[&x]).unwrap(), [1, 3, 1]);
    assert_eq!(shape_of(mean(&[0, 1, 2], false), &[&x]).unwrap(), [] as [usize; 0]);
    assert!(shape_of(mean(&[2, 0], false), &[&x]).is_err());
    assert!(shape_of(mean(&[3], false), &[&x]).is_err());
    let norm = OpKind::LayerNorm { axes: vec![1, 2], epsilon: 1e-5 };
    assert!(shape_of(norm.clone(), &[&x, &f16(&[3, 4]), &f16(&[3, 4])]).is_ok());
    assert!(shape_of(norm, &[&x, &f16(&[4])]).is_err());
    let batch = OpKind::BatchNorm { epsilon: 1e-5 };
    assert!(shape_of(batch.clone(), &[&x, &f16(&[3]), &f16(&[3])]).is_ok());
    assert!(shape_of(batch, &[&x, &f16(&[3]), &f16(&[2])]).is_err());
}

#[test]
fn extents_are_bounded() {
    let huge = f16(&[1 << 20, 1 << 20, 1 << 20]);
    assert!(matches!(shape_of(OpKind::Unary(Unary::Relu), &[&huge]), Err(Error::TooLarge { .. })));
    assert!(matches!(shape_of(OpKind::Unary(Unary::Relu), &[&f16(&[0])]), Err(Error::Empty { axis: 0, .. })));
    let long = f16(&[1, 1, usize::MAX / 2]);
    assert!(shape_of(conv(&[1], &[(0, 0)], &[usize::MAX], 1), &[&f16(&[1, 1, 9]), &f16(&[1, 1, 3])]).is_err());
    assert!(shape_of(OpKind::Unary(Unary::Relu), &[&long]).is_err());
    let pad = OpKind::Pad { pads: vec![(usize::MAX, 1)], value: 0.0 };
    assert!(shape_of(pad, &[&f16(&[9])]).is_err());
}
