//! Loops that end by a condition computed at run time, and sparse constants.

use super::{extent, float_info, node};
use anemone_net::Tensor as Data;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, SparseTensor, Tensor};
use anemone_net::{Error, Net};
use prost::Message;

fn read(node: Vec<Node>, initializer: Vec<Tensor>, sparse: Vec<SparseTensor>) -> Result<Net, Error> {
    let graph = Graph {
        node,
        initializer,
        input: vec![float_info("x", vec![extent(4)])],
        output: vec![float_info("y", vec![])],
        sparse_initializer: sparse,
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).map(|(net, _)| net)
}

fn float(name: &str, value: f32) -> Tensor {
    Tensor { data_type: 1, name: name.into(), float_data: vec![value], ..Tensor::default() }
}

fn integers(name: &str, dims: Vec<i64>, values: Vec<i64>) -> Tensor {
    Tensor { dims, data_type: 7, name: name.into(), int64_data: values, ..Tensor::default() }
}

/// `v = v + v` while the largest element is below 20, at most `most` times if the loop has a limit.
fn doubled(most: Option<i64>) -> Result<Net, Error> {
    let largest = |x: &str, out: &str| {
        let mut node = node("ReduceMax", &[x], out);
        node.attribute.push(Attribute { name: "keepdims".into(), i: 0, ..Attribute::default() });
        node
    };
    let mut body = vec![node("Add", &["v", "v"], "v2"), largest("v2", "most"), node("Less", &["most", "limit"], "on")];
    body[0].name = "double".into();
    let body = Graph {
        node: body,
        input: vec![float_info("turn", vec![]), float_info("before", vec![]), float_info("v", vec![extent(4)])],
        output: vec![float_info("on", vec![]), float_info("v2", vec![])],
        ..Graph::default()
    };
    let mut whole = node("Loop", &[if most.is_some() { "count" } else { "" }, "first", "x"], "y");
    whole.attribute.push(Attribute { name: "body".into(), g: Some(body), ..Attribute::default() });
    let nodes = vec![largest("x", "start"), node("Less", &["start", "limit"], "first"), whole];
    read(nodes, vec![float("limit", 20.0), integers("count", vec![], vec![most.unwrap_or(0)])], vec![])
}

#[test]
fn a_loop_ends_by_a_computed_condition_within_its_limit() {
    let net = doubled(Some(4)).expect("a network");
    let cases: [([f32; 4], f32); 5] = [
        ([1.0, 2.0, 3.0, 4.0], 8.0),
        ([30.0, 1.0, 0.0, -1.0], 1.0),
        ([10.0; 4], 2.0),
        ([0.5; 4], 16.0),
        ([0.0; 4], 16.0),
    ];
    for (x, factor) in cases {
        let y = eval(&net, &[Data::f32([4], x.to_vec())]).expect("it runs").remove(0);
        assert_eq!(y.data.to_f32(), x.map(|x| x * factor), "{x:?}");
    }
}

#[test]
fn a_loop_without_a_limit_is_refused() {
    let error = doubled(None).expect_err("it never ends").to_string();
    assert!(error.contains("Loop") && error.contains("without a constant limit"), "{error}");
}

/// `y = x + s`, with elements of `s` at these indices.
fn sparse(indices: Tensor) -> Result<Net, Error> {
    let values =
        Tensor { dims: vec![2], data_type: 1, name: "s".into(), float_data: vec![5.0, 7.0], ..Tensor::default() };
    let all = SparseTensor { values: Some(values), indices: Some(indices), dims: vec![2, 2] };
    let nodes = vec![node("Reshape", &["s", "four"], "flat"), node("Add", &["x", "flat"], "y")];
    read(nodes, vec![integers("four", vec![1], vec![4])], vec![all])
}

#[test]
fn sparse_constants_become_dense() {
    for (dims, places) in [(vec![2], vec![1, 2]), (vec![2, 2], vec![0, 1, 1, 0])] {
        let net = sparse(integers("i", dims, places)).expect("a network");
        let y = eval(&net, &[Data::f32([4], vec![1.0; 4])]).expect("it runs").remove(0);
        assert_eq!(y.data.to_f32(), [1.0, 6.0, 8.0, 1.0]);
    }
    let error = sparse(integers("i", vec![2], vec![1, 4])).expect_err("an index beyond").to_string();
    assert!(error.contains("sparse tensor `s`") && error.contains('4') && error.contains('3'), "{error}");
    let error = sparse(integers("i", vec![1], vec![1])).expect_err("an index too few").to_string();
    assert!(error.contains("[1] for 2 values"), "{error}");
}

/// Rows that a loop collects until its computed end are as many as it had iterations.
#[test]
fn a_loop_with_a_computed_end_collects_its_iterations() {
    let mut total = node("ReduceSum", &["v2"], "total");
    total.attribute.push(Attribute { name: "keepdims".into(), i: 0, ..Attribute::default() });
    let body = Graph {
        node: vec![
            node("Add", &["v", "v"], "v2"),
            total,
            node("Less", &["total", "limit"], "on"),
            node("Neg", &["v2"], "row"),
        ],
        input: vec![float_info("turn", vec![]), float_info("before", vec![]), float_info("v", vec![extent(4)])],
        output: vec![float_info("on", vec![]), float_info("v2", vec![]), float_info("row", vec![])],
        ..Graph::default()
    };
    let mut whole = node("Loop", &["count", "", "x"], "last");
    whole.output.push("y".into());
    whole.attribute.push(Attribute { name: "body".into(), g: Some(body), ..Attribute::default() });
    let net =
        read(vec![whole], vec![float("limit", 20.0), integers("count", vec![], vec![5])], vec![]).expect("a network");
    for (start, rows) in [(1.0, 3), (9.0, 1), (0.0, 5)] {
        let made = eval(&net, &[Data::f32([4], vec![start; 4])]).expect("runs");
        let value =
            |name: &str| net.outputs.iter().position(|&id| net.value(id).name == name).map(|at| made[at].data.to_f32());
        assert_eq!(value("y_count"), Some(vec![rows as f32]), "{start}");
        let wanted: Vec<f32> = (1..=rows).flat_map(|turn| [-start * 2f32.powi(turn); 4]).collect();
        assert_eq!(value("y").map(|all| all[..rows as usize * 4].to_vec()), Some(wanted), "{start}");
    }
}

#[test]
fn a_branch_that_does_not_fit_names_the_input_that_chooses() {
    let branch = |rows: i64| {
        let graph = Graph {
            node: vec![node("MatMul", &["x", if rows == 4 { "four" } else { "three" }], "product")],
            output: vec![float_info("product", vec![])],
            ..Graph::default()
        };
        let name = if rows == 4 { "then_branch" } else { "else_branch" };
        Attribute { name: name.into(), g: Some(graph), ..Attribute::default() }
    };
    let weight = |name: &str, count: i64| Tensor {
        dims: vec![count, 1],
        data_type: 1,
        name: name.into(),
        float_data: vec![1.0; count as usize],
        ..Tensor::default()
    };
    let mut choice = node("If", &["is_high"], "y");
    choice.attribute = vec![branch(4), branch(3)];
    let mut rate = float_info("rate", vec![]);
    rate.ty.as_mut().and_then(|ty| ty.tensor.as_mut()).expect("a tensor").element = 7;
    let graph = Graph {
        node: vec![node("Equal", &["rate", "high"], "is_high"), choice],
        initializer: vec![integers("high", vec![], vec![16000]), weight("four", 4), weight("three", 3)],
        input: vec![float_info("x", vec![extent(4)]), rate],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() }.encode_to_vec();
    let read = |options: &Options| read_onnx(&model, &MemoryFiles::default(), options).map(|(net, _)| net);
    let error = read(&Options::default()).unwrap_err().to_string();
    assert!(error.contains("else_branch") && error.contains("--value rate="), "{error}");
    let mut options = Options::default();
    options.values.insert("rate".into(), vec![16000]);
    let net = read(&options).expect("one branch");
    assert_eq!(eval(&net, &[Data::f32([4], vec![1.0, 2.0, 3.0, 4.0])]).expect("it runs")[0].data.to_f32(), [10.0]);
}
