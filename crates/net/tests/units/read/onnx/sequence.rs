//! One model for each operator of sequences, as exporters write it.

use super::{extent, float_info, node};
use anemone_net::Tensor as Data;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, Tensor};
use anemone_net::{Error, Net};
use prost::Message;

fn number(name: &str, value: i64) -> Tensor {
    Tensor { data_type: 7, name: name.into(), int64_data: vec![value], ..Tensor::default() }
}

fn with(name: &str, i: i64, mut node: Node) -> Node {
    node.attribute.push(Attribute { name: name.into(), i, ..Attribute::default() });
    node
}

/// A model of `x` with four rows of two columns, `y`, and whole numbers by name.
fn read(nodes: Vec<Node>, numbers: &[(&str, i64)]) -> Result<Net, Error> {
    let graph = Graph {
        node: nodes,
        initializer: numbers.iter().map(|&(name, value)| number(name, value)).collect(),
        input: vec![float_info("x", vec![extent(4), extent(2)])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).map(|(net, _)| net)
}

/// Shape and elements of `y` for `x` with the numbers 1 to 8.
fn result(nodes: Vec<Node>, numbers: &[(&str, i64)]) -> (Vec<usize>, Vec<f32>) {
    let net = read(nodes, numbers).expect("a network");
    let x = Data::f32([4, 2], (1..=8).map(|i| i as f32).collect());
    let y = eval(&net, &[x]).expect("it runs").remove(0);
    (y.shape.clone(), y.data.to_f32())
}

fn split() -> Node {
    with("axis", 0, node("SplitToSequence", &["x", "two"], "parts"))
}

#[test]
fn split_by_a_size_and_at() {
    for (at, wanted) in [(0, [1.0, 2.0, 3.0, 4.0]), (1, [5.0, 6.0, 7.0, 8.0]), (-2, [1.0, 2.0, 3.0, 4.0])] {
        let found = result(vec![split(), node("SequenceAt", &["parts", "at"], "y")], &[("two", 2), ("at", at)]);
        assert_eq!(found, (vec![2, 2], wanted.to_vec()));
    }
    let beyond = vec![split(), node("SequenceAt", &["parts", "at"], "y")];
    let error = read(beyond, &[("two", 2), ("at", 2)]).expect_err("no such element").to_string();
    assert!(error.contains("position 2 in a sequence of 2 tensors"), "{error}");
}

#[test]
fn split_into_rows_keeps_or_drops_the_axis() {
    let rows = |inputs: &[&str], keeps| {
        let split = with("keepdims", keeps, with("axis", 0, node("SplitToSequence", inputs, "parts")));
        result(vec![split, node("SequenceAt", &["parts", "at"], "y")], &[("one", 1), ("at", 2)])
    };
    assert_eq!(rows(&["x"], 1), (vec![1, 2], vec![5.0, 6.0]));
    assert_eq!(rows(&["x"], 0), (vec![2], vec![5.0, 6.0]));
    // PyTorch exports `unbind` so.
    assert_eq!(rows(&["x", "one"], 0), (vec![2], vec![5.0, 6.0]));
}

#[test]
fn construct_and_concat() {
    let made = || vec![node("Neg", &["x"], "n"), node("SequenceConstruct", &["x", "n"], "parts")];
    let concat = with("axis", 1, node("ConcatFromSequence", &["parts"], "y"));
    let (shape, data) = result([made(), vec![concat.clone()]].concat(), &[]);
    assert_eq!((shape, &data[..4]), (vec![4, 4], &[1.0, 2.0, -1.0, -2.0][..]));
    let (shape, data) = result([made(), vec![with("new_axis", 1, concat)]].concat(), &[]);
    assert_eq!((shape, &data[..4]), (vec![4, 2, 2], &[1.0, 2.0, -1.0, -2.0][..]));
}

#[test]
fn empty_and_insert() {
    let nodes = vec![
        node("SequenceEmpty", &[], "none"),
        split(),
        node("SequenceAt", &["parts", "zero"], "first"),
        node("SequenceAt", &["parts", "last"], "second"),
        node("SequenceInsert", &["none", "first"], "one"),
        node("SequenceInsert", &["one", "second", "zero"], "both"),
        with("axis", 0, node("ConcatFromSequence", &["both"], "y")),
    ];
    let found = result(nodes, &[("two", 2), ("zero", 0), ("last", -1)]);
    assert_eq!(found, (vec![4, 2], vec![5.0, 6.0, 7.0, 8.0, 1.0, 2.0, 3.0, 4.0]));
    let nodes = vec![node("SequenceEmpty", &[], "none"), with("axis", 0, node("ConcatFromSequence", &["none"], "y"))];
    let error = read(nodes, &[]).expect_err("no extents").to_string();
    assert!(error.contains("an empty sequence has no extents"), "{error}");
}

#[test]
fn erase() {
    let erased = |inputs: &[&str]| {
        let nodes = vec![
            split(),
            node("Neg", &["x"], "n"),
            node("SequenceInsert", &["parts", "n"], "all"),
            node("SequenceErase", inputs, "less"),
            with("axis", 0, node("ConcatFromSequence", &["less"], "y")),
        ];
        result(nodes, &[("two", 2), ("zero", 0)]).1
    };
    assert_eq!(erased(&["all"]), (1..=8).map(|i| i as f32).collect::<Vec<_>>());
    assert_eq!(erased(&["all", "zero"])[..6], [5.0, 6.0, 7.0, 8.0, -1.0, -2.0]);
}

#[test]
fn length() {
    let cast = with("to", 1, node("Cast", &["count"], "factor"));
    let nodes = vec![split(), node("SequenceLength", &["parts"], "count"), cast, node("Mul", &["x", "factor"], "y")];
    assert_eq!(result(nodes, &[("two", 1)]).1[..3], [4.0, 8.0, 12.0]);
}

/// PyTorch scripts a list in a loop so: the sequence is carried, and its length is the number of iterations.
#[test]
fn a_loop_carries_a_sequence() {
    let body = Graph {
        node: vec![
            node("SequenceAt", &["parts", "i"], "part"),
            node("Neg", &["part"], "n"),
            node("SequenceInsert", &["list", "n"], "grown"),
            node("Identity", &["grown"], "longer"),
            node("Identity", &["yes"], "on"),
        ],
        input: ["i", "c", "list"].map(|name| float_info(name, vec![])).to_vec(),
        output: ["on", "longer"].map(|name| float_info(name, vec![])).to_vec(),
        ..Graph::default()
    };
    let mut turns = node("Loop", &["count", "yes", "none"], "made");
    turns.attribute.push(Attribute { name: "body".into(), g: Some(body), ..Attribute::default() });
    let nodes = vec![
        with("to", 9, node("Cast", &["two"], "yes")),
        node("SequenceEmpty", &[], "none"),
        split(),
        node("SequenceLength", &["parts"], "count"),
        turns,
        with("axis", 1, node("ConcatFromSequence", &["made"], "y")),
    ];
    let found = result(nodes, &[("two", 2)]);
    assert_eq!(found, (vec![2, 4], vec![-1.0, -2.0, -5.0, -6.0, -3.0, -4.0, -7.0, -8.0]));
}

#[test]
fn a_map_computes_its_body_for_each_element() {
    let body = Graph {
        node: vec![node("Add", &["a", "b"], "sum"), node("Mul", &["sum", "c"], "made")],
        input: ["a", "b", "c"].map(|name| float_info(name, vec![])).to_vec(),
        output: vec![float_info("made", vec![])],
        ..Graph::default()
    };
    let mapped = |other: &str| {
        let mut map = node("SequenceMap", &["parts", other, "column"], "mapped");
        map.attribute.push(Attribute { name: "body".into(), g: Some(body.clone()), ..Attribute::default() });
        let whole = with("axis", 0, node("SplitToSequence", &["x", "four"], "whole"));
        let column = with("axis", 0, node("ReduceMax", &["x"], "column"));
        let joined = with("axis", 0, node("ConcatFromSequence", &["mapped"], "y"));
        vec![split(), whole, column, map, joined]
    };
    let numbers = [("two", 2), ("four", 4)];
    let twice = (1..=8).map(|i| (2 * i * 8) as f32).collect();
    assert_eq!(result(mapped("parts"), &numbers), (vec![4, 2], twice));
    let error = read(mapped("whole"), &numbers).expect_err("other lengths").to_string();
    assert!(error.contains("sequences of 2 and 1 tensors"), "{error}");
}
