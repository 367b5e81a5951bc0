//! Refusals with place, value and limit.

use super::{extent, float_info, node};
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, Tensor, ValueInfo};
use prost::Message;

/// The error of a graph on `x` of 1x4x8x8, with a list of integers as `list`.
fn error(nodes: Vec<Node>, list: &[i64], change: impl FnOnce(&mut Graph)) -> String {
    let list = Tensor {
        dims: vec![list.len() as i64],
        data_type: 7,
        int64_data: list.to_vec(),
        name: "list".into(),
        ..Tensor::default()
    };
    let mut graph = Graph {
        node: nodes,
        initializer: vec![list],
        input: vec![float_info("x", [1, 4, 8, 8].map(extent).to_vec())],
        output: vec![ValueInfo { name: "y".into(), ty: None }],
        ..Graph::default()
    };
    change(&mut graph);
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let bytes = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }.encode_to_vec();
    read_onnx(&bytes, &MemoryFiles::default(), &Options::default()).expect_err("a refusal").to_string()
}

#[test]
fn places_values_and_limits_are_named() {
    let relu = || vec![node("Relu", &["x"], "y")];
    let twice = vec![node("Relu", &["x"], "y"), node("Neg", &["x"], "y")];
    assert_eq!(error(twice, &[], |_| ()), "`y` is defined again by Neg");
    assert_eq!(error(relu(), &[], |graph| graph.output.clear()), "the graph: `outputs` is missing");
    let high = |graph: &mut Graph| graph.input[0] = float_info("x", vec![extent(1); 9]);
    assert_eq!(error(relu(), &[], high), "input `x`: type: rank is 9, allowed is 0 to 8");
    let text = |graph: &mut Graph| {
        let tensor = graph.input[0].ty.as_mut().and_then(|ty| ty.tensor.as_mut());
        tensor.expect("a tensor").element = 8;
    };
    assert!(error(relu(), &[], text).starts_with("input `x`: `element type` is string"));
    let mut gather = node("Gather", &["x", "list"], "y");
    gather.attribute.push(Attribute { name: "axis".into(), i: 1, ..Attribute::default() });
    assert_eq!(error(vec![gather], &[0, -5], |_| ()), "Gather `y`: index -5 is outside an axis of extent 4");
    let expand = || vec![node("Expand", &["x", "list"], "y")];
    assert!(error(expand(), &[1, 4, 9, 8], |_| ()).starts_with("Expand `y`: expand: extents [1, 4, 8, 8]"));
    let mut pool = node("MaxPool", &["x"], "y");
    for (name, ints) in [("kernel_shape", vec![2, 2]), ("strides", vec![0, 1])] {
        pool.attribute.push(Attribute { name: name.into(), ints, ..Attribute::default() });
    }
    assert!(error(vec![pool], &[], |_| ()).contains("`strides` [0, 1]: each is at least 1"));
    assert!(
        error(vec![node("TopK", &["x", "list"], "y")], &[9], |_| ()).contains("`k` is 9, and axis 3 has 8 elements")
    );
}
