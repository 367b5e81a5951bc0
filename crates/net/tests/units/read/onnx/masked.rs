//! Scatters by a mask, and values without elements.

use super::{extent, float_info, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::Builder;
use anemone_net::testing::onnx::{Attribute, Graph, Model, OpsetId, Tensor as Stored, ValueInfo};
use anemone_net::{Binary, DType, Net, OpKind, ReduceKind, Tensor, TensorType};
use prost::Message;

/// `x` with elements of the source where `g` is positive, as exporters write it; the source is cut from `start` on.
fn scattered(g: [i64; 2], start: i64) -> Result<Net, String> {
    let dims = |dims: &[i64]| dims.iter().map(|&n| extent(n)).collect();
    let whole = |name: &str, values: &[i64]| Stored {
        dims: vec![values.len() as i64],
        name: name.into(),
        data_type: 7,
        int64_data: values.to_vec(),
        ..Stored::default()
    };
    let limit = Stored { name: "limit".into(), data_type: 1, float_data: vec![0.0], ..Stored::default() };
    let mut rows = node("Transpose", &["places"], "rows");
    rows.attribute.push(Attribute { name: "perm".into(), ints: vec![1, 0], ..Attribute::default() });
    let graph = Graph {
        node: vec![
            node("Greater", &["g", "limit"], "positive"),
            node("Expand", &["positive", "extents"], "mask"),
            node("NonZero", &["mask"], "places"),
            rows,
            node("Shape", &["rows"], "counts"),
            node("Gather", &["counts", "zero"], "count"),
            node("Slice", &["source", "start", "count", "zero"], "part"),
            node("ScatterND", &["x", "rows", "part"], "y"),
        ],
        initializer: vec![whole("zero", &[0]), whole("start", &[start]), whole("extents", &[2, 3]), limit],
        input: vec![float_info("g", dims(&g)), float_info("x", dims(&[2, 3])), float_info("source", dims(&[6]))],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let read = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default());
    read.map(|(net, _)| net).map_err(|e| e.to_string())
}

#[test]
fn a_scatter_by_a_mask_is_a_selection() {
    let x = Tensor::f32([2, 3], vec![-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    let source = Tensor::f32([6], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let run = |g: Tensor| {
        let net = scattered([g.shape[0] as i64, g.shape[1] as i64], 0).expect("a network");
        eval(&net, &[g, x.clone(), source.clone()]).expect("it runs")[0].data.to_f32()
    };
    let places = Tensor::f32([2, 3], vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(run(places), [-1.0, 1.0, -3.0, 2.0, 3.0, -6.0]);
    assert_eq!(run(Tensor::f32([2, 3], vec![1.0; 6])), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // A mask of rows takes rows.
    assert_eq!(run(Tensor::f32([2, 1], vec![0.0, 1.0])), [-1.0, -2.0, -3.0, 1.0, 2.0, 3.0]);
    assert_eq!(run(Tensor::f32([2, 1], vec![0.0, 0.0])), x.data.to_f32());
    let error = scattered([2, 3], 1).unwrap_err();
    assert!(error.contains("the first of a source"), "{error}");
}

#[test]
fn positions_in_a_constant_are_constants() {
    let stored = Stored {
        dims: vec![2, 3],
        name: "c".into(),
        data_type: 1,
        float_data: vec![0.0, 5.0, 0.0, -1.0, 0.0, 0.5],
        ..Stored::default()
    };
    let graph = Graph {
        node: vec![node("NonZero", &["c"], "places"), node("Mul", &["places", "i"], "y")],
        initializer: vec![stored, Stored { name: "i".into(), data_type: 7, int64_data: vec![10], ..Stored::default() }],
        output: vec![ValueInfo { name: "y".into(), ty: None }],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a network");
    let y = net.outputs[0];
    assert_eq!(net.value(y).ty.shape, [2, 3]);
    let found = eval(&net, &[]).expect("it runs")[0].data.to_i32();
    assert_eq!(found, [0, 10, 10, 10, 0, 20]);
}

#[test]
fn operations_on_nothing_give_nothing_or_zeros() {
    let ty = |dtype, shape: &[usize]| TensorType { dtype, shape: shape.to_vec() };
    let mut b = Builder::new("n");
    let x = b.input("x", ty(DType::F32, &[2, 3])).unwrap();
    let table = b.input("t", ty(DType::F32, &[5, 3])).unwrap();
    let none = b.input_or_nothing("k", ty(DType::F32, &[2, 0])).unwrap();
    let other = b.input_or_nothing("v", ty(DType::F32, &[0, 3])).unwrap();
    let places = b.input_or_nothing("i", ty(DType::I32, &[0])).unwrap();
    // Rows at no positions, and their softmax, are nothing beside others; products and sums of nothing are zero.
    let rows = b.gather(table, places, 0).unwrap();
    let rows = b.op("s", OpKind::Softmax { axis: 1 }, &[rows]).unwrap();
    let whole = b.concat(&[rows, x], 0).unwrap();
    let product = b.op("p", OpKind::MatMul { transpose_x: false, transpose_y: false }, &[none, other]).unwrap();
    let sum = b.reduce(ReduceKind::Sum, none, &[1], true).unwrap();
    let y = b.binary(Binary::Add, whole, product).unwrap();
    let y = b.binary(Binary::Add, y, sum).unwrap();
    b.output(y, "y").unwrap();
    assert!(b.reduce(ReduceKind::Mean, none, &[1], true).is_err(), "a mean of nothing");
    let net = b.finish();
    let x = Tensor::f32([2, 3], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let table = Tensor::f32([5, 3], vec![0.0; 15]);
    assert_eq!(eval(&net, &[x.clone(), table]).expect("it runs")[0].data, x.data);
}
