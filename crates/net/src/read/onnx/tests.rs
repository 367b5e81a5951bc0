//! Small ONNX models written here. The operators themselves are held to the `onnx` package's tests by
//! `scripts/onnx_backend.py`.

use super::proto::{Dim, Entry, Graph, Model, Node, OpsetId, Shape, Tensor, TensorType, Type, ValueInfo};
use super::{element, read_onnx};
use crate::check::check;
use crate::error::Error;
use crate::eval::eval;
use crate::graph::DType;
use crate::read::{MemoryFiles, Options, sniff};
use prost::Message;

fn float_info(name: &str, dims: Vec<Dim>) -> ValueInfo {
    let tensor = TensorType { element: 1, shape: Some(Shape { dim: dims }) };
    ValueInfo { name: name.into(), ty: Some(Type { tensor: Some(tensor) }) }
}

fn extent(value: i64) -> Dim {
    Dim { value: Some(value), param: None }
}

fn node(op: &str, input: &[&str], output: &str) -> Node {
    let input = input.iter().map(|s| s.to_string()).collect();
    Node { op_type: op.into(), input, output: vec![output.into()], ..Node::default() }
}

/// `y = x w`, with `w` in a file of its own and a batch of unknown extent.
fn model() -> Model {
    let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
    let weight = Tensor {
        dims: vec![2, 2],
        data_type: 1,
        name: "w".into(),
        data_location: 1,
        external_data: vec![entry("location", "w.bin"), entry("offset", "4"), entry("length", "16")],
        ..Tensor::default()
    };
    let batch = Dim { value: None, param: Some("N".into()) };
    let graph = Graph {
        node: vec![node("MatMul", &["x", "w"], "/mm/out"), node("Relu", &["/mm/out"], "y")],
        name: "g".into(),
        initializer: vec![weight],
        input: vec![float_info("x", vec![batch, extent(2)])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }
}

fn files() -> MemoryFiles {
    let bytes = [9.0f32, 1.0, -1.0, 2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    MemoryFiles([("w.bin".to_string(), bytes)].into())
}

#[test]
fn a_model_with_external_weights_and_a_symbolic_batch() {
    let bytes = model().encode_to_vec();
    assert_eq!(sniff(&bytes), Some(crate::read::Format::Onnx));
    let error = read_onnx(&bytes, &files(), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "input `x`: axis 0 has no extent; give one for `N`");
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    let (net, _) = read_onnx(&bytes, &files(), &options).unwrap();
    check(&net).unwrap();
    assert_eq!(net.value(net.outputs[0]).name, "y");
    let x = crate::graph::Tensor::f32([1, 2], vec![3.0, 4.0]);
    assert_eq!(eval(&net, &[x]).unwrap()[0].data.to_f32(), [11.0, 0.0]);
    let missing = read_onnx(&bytes, &MemoryFiles::default(), &options).unwrap_err();
    assert!(matches!(missing, Error::File { .. }), "{missing}");
}

#[test]
fn refusals_name_the_operator() {
    let mut odd = model();
    odd.graph.as_mut().unwrap().node[1] = node("NonZero", &["/mm/out"], "y");
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    let error = read_onnx(&odd.encode_to_vec(), &files(), &options).unwrap_err().to_string();
    assert!(error.contains("`y`: NonZero") && error.contains("static"), "{error}");
}

#[test]
fn damaged_models_end_in_errors() {
    let whole = model().encode_to_vec();
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    for end in 0..whole.len() {
        let _ = read_onnx(&whole[..end], &files(), &options);
    }
    for at in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        if let Ok((net, _)) = read_onnx(&flipped, &files(), &options) {
            let _ = check(&net);
        }
    }
    assert_eq!(element(9).and_then(|e| e.dtype()), Some(DType::Bool));
}
