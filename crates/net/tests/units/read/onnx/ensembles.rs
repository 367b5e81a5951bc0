//! Classical models: trees, support vectors, tables of labels, and optional values.

use super::{close, extent, float_info, node};
use anemone_net::Tensor;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{
    Attribute, Graph, Model, Node, OpsetId, Shape, Tensor as Stored, TensorType, Type, ValueInfo,
};
use prost::Message;

fn ints(name: &str, ints: &[i64]) -> Attribute {
    Attribute { name: name.into(), ints: ints.to_vec(), ..Attribute::default() }
}

fn floats(name: &str, floats: &[f32]) -> Attribute {
    Attribute { name: name.into(), floats: floats.to_vec(), ..Attribute::default() }
}

fn text(name: &str, text: &'static str) -> Attribute {
    Attribute { name: name.into(), s: text.as_bytes().into(), ..Attribute::default() }
}

/// The first output of a network of these nodes over `x`, with inputs that have the defaults 0.0 and 2.
fn run(nodes: Vec<Node>, options: &Options, x: &[f32], shape: [usize; 2]) -> Result<Vec<f32>, String> {
    let default = Stored { data_type: 1, name: "default".into(), float_data: vec![0.0], ..Stored::default() };
    let count = Stored { data_type: 7, name: "count".into(), int64_data: vec![2], ..Stored::default() };
    let whole = TensorType { element: 7, shape: Some(Shape::default()) };
    let graph = Graph {
        node: nodes,
        initializer: vec![default, count],
        input: vec![
            float_info("x", shape.iter().map(|&d| extent(d as i64)).collect()),
            float_info("default", vec![]),
            ValueInfo { name: "count".into(), ty: Some(Type { tensor: Some(whole) }) },
        ],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { ir_version: 8, graph: Some(graph), opset_import, ..Model::default() };
    let read = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), options);
    let (net, _) = read.map_err(|error| error.to_string())?;
    Ok(eval(&net, &[Tensor::f32(shape, x.to_vec())]).map_err(|error| error.to_string())?.remove(0).data.to_f32())
}

/// Two trees: `x0 <= 1 ? (x1 > 2 ? 10 : 20) : 30`, and `x1 <= 0 ? 1 : 2`, where a missing `x1` is as one below.
fn trees(aggregate: &'static str, children: [i64; 2]) -> Node {
    let mut trees = node("TreeEnsembleRegressor", &["x"], "y");
    trees.domain = "ai.onnx.ml".into();
    let modes = ["BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"];
    let modes = modes.iter().map(|mode| mode.as_bytes().into()).collect();
    trees.attribute = vec![
        ints("nodes_treeids", &[0, 0, 0, 0, 0, 1, 1, 1]),
        ints("nodes_nodeids", &[0, 1, 2, 3, 4, 0, 1, 2]),
        ints("nodes_featureids", &[0, 1, 0, 0, 0, 1, 0, 0]),
        floats("nodes_values", &[1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        Attribute { name: "nodes_modes".into(), strings: modes, ..Attribute::default() },
        ints("nodes_truenodeids", &[1, children[0], 0, 0, 0, 1, 0, 0]),
        ints("nodes_falsenodeids", &[4, children[1], 0, 0, 0, 2, 0, 0]),
        ints("nodes_missing_value_tracks_true", &[0, 0, 0, 0, 0, 1, 0, 0]),
        ints("target_treeids", &[0, 0, 0, 1, 1]),
        ints("target_nodeids", &[2, 3, 4, 1, 2]),
        ints("target_ids", &[0; 5]),
        floats("target_weights", &[10.0, 20.0, 30.0, 1.0, 2.0]),
        floats("base_values", &[0.5]),
        text("aggregate_function", aggregate),
    ];
    trees
}

#[test]
fn trees_are_products() {
    let of = |aggregate| {
        let x = [1.0, 3.0, 0.0, 2.0, 2.0, -1.0, 0.0, f32::NAN];
        run(vec![trees(aggregate, [2, 3])], &Options::default(), &x, [4, 2]).unwrap()
    };
    assert_eq!(of("SUM"), [12.5, 22.5, 31.5, 21.5]);
    assert_eq!(of("AVERAGE"), [6.5, 11.5, 16.0, 11.0]);
    assert_eq!(of("MIN"), [2.5, 2.5, 1.5, 1.5]);
    assert_eq!(of("MAX"), [10.5, 20.5, 30.5, 20.5]);
}

#[test]
fn damaged_trees_are_refused_by_node() {
    for (children, reason) in [([9, 3], "a branch of node 1 to no node"), ([0, 3], "reached twice")] {
        let error = run(vec![trees("SUM", children)], &Options::default(), &[0.0; 2], [1, 2]);
        assert!(error.as_ref().is_err_and(|error| error.contains(reason)), "{error:?}");
    }
}

/// A tree of three comparisons of different kinds over two features, whose leaves have a list of their own.
fn ensemble(modes: &[i32], ends: [i64; 2]) -> Node {
    let mut trees = node("TreeEnsemble", &["x"], "y");
    trees.domain = "ai.onnx.ml".into();
    let tensor = |name: &str, values: &[f32]| {
        let t =
            Stored { dims: vec![values.len() as i64], data_type: 1, float_data: values.to_vec(), ..Stored::default() };
        Attribute { name: name.into(), t: Some(t), ..Attribute::default() }
    };
    let modes = Stored { dims: vec![3], data_type: 2, int32_data: modes.to_vec(), ..Stored::default() };
    trees.attribute = vec![
        Attribute { name: "n_targets".into(), i: 1, ..Attribute::default() },
        ints("tree_roots", &[0]),
        ints("nodes_featureids", &[0, 1, 1]),
        Attribute { name: "nodes_modes".into(), t: Some(modes), ..Attribute::default() },
        tensor("nodes_splits", &[1.0, 2.0, 5.0]),
        ints("nodes_truenodeids", &[1, 0, ends[0]]),
        ints("nodes_trueleafs", &[0, 1, ends[1]]),
        ints("nodes_falsenodeids", &[2, 1, 3]),
        ints("nodes_falseleafs", &[0, 1, 1]),
        ints("leaf_targetids", &[0; 4]),
        tensor("leaf_weights", &[10.0, 20.0, 30.0, 40.0]),
        tensor("membership_values", &[7.0, 9.0, f32::NAN]),
    ];
    trees
}

#[test]
fn trees_with_lists_of_leaves() {
    let of = |modes: &[i32], ends| {
        let x = [1.0, 2.0, 0.0, 1.0, 2.0, 5.0, 3.0, 9.0];
        run(vec![ensemble(modes, ends)], &Options::default(), &x, [4, 2])
    };
    // `x0 <= 1 ? (x1 < 2 ? 10 : 20) : (x1 > 5 ? 30 : 40)`, and with `x1 == 5` and the set of 7 and 9 in the last place.
    assert_eq!(of(&[0, 1, 3], [2, 1]), Ok(vec![20.0, 10.0, 40.0, 30.0]));
    assert_eq!(of(&[0, 1, 4], [2, 1]), Ok(vec![20.0, 10.0, 30.0, 40.0]));
    assert_eq!(of(&[0, 1, 6], [2, 1]), Ok(vec![20.0, 10.0, 40.0, 30.0]));
    // `x0 > 1 ? (x1 >= 2 ? 10 : 20) : (x1 != 5 ? 30 : 40)`.
    assert_eq!(of(&[3, 2, 5], [2, 1]), Ok(vec![30.0, 30.0, 10.0, 10.0]));
    for (modes, ends, reason) in [
        ([0, 1, 8], [2, 1], "comparison that is not known"),
        ([0, 1, 3], [9, 1], "leaf 9 of 4"),
        ([0, 1, 3], [0, 0], "no end"),
    ] {
        let error = of(&modes, ends);
        assert!(error.as_ref().is_err_and(|error| error.contains(reason)), "{error:?}");
    }
}

/// Three classes with a vector each: the pairs choose the second class twice.
#[test]
fn pairs_of_classes_of_support_vectors() {
    let of = |output: usize, vectors: &[i64], chances: &[f32]| {
        let mut machine = node("SVMClassifier", &["x"], if output == 0 { "label" } else { "other" });
        machine.output.push(if output == 0 { "scores" } else { "y" }.into());
        machine.domain = "ai.onnx.ml".into();
        let pairs = vectors.len() * (vectors.len() - 1) / 2;
        machine.attribute = vec![
            text("kernel_type", "LINEAR"),
            floats("support_vectors", &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0][..2 * vectors.len()]),
            ints("vectors_per_class", vectors),
            floats("coefficients", &[1.0, -3.0, 2.0, 0.5, 4.0, -1.0][..vectors.len() * (vectors.len() - 1)]),
            floats("rho", &[0.25, 0.5, -1.0][..pairs]),
            floats("prob_a", &[-1.0; 3][..chances.len()]),
            floats("prob_b", chances),
            ints("classlabels_ints", &[5, 7, 9][..vectors.len()]),
        ];
        let mut cast = node("Cast", &["label"], "y");
        cast.attribute.push(Attribute { name: "to".into(), i: 1, ..Attribute::default() });
        let nodes = if output == 0 { vec![machine, cast] } else { vec![machine] };
        run(nodes, &Options::default(), &[2.0, 1.0], [1, 2])
    };
    // Kernels 2, 1 and 3: sums of the pairs are 2 - 3, 1 + 6 and 4 - 3 with their offsets.
    assert_eq!(of(1, &[1, 1, 1], &[]), Ok(vec![-0.75, 7.5, 0.0]));
    assert_eq!(of(0, &[1, 1, 1], &[]), Ok(vec![5.0]));
    assert_eq!(of(1, &[1, 1], &[]), Ok(vec![0.75, -0.75]));
    assert_eq!(of(0, &[1, 1], &[]), Ok(vec![7.0]));
    let second = 1.0 / (1.0 + (0.75f32 + 1.0).exp().recip());
    close(&Tensor::f32([2], of(1, &[1, 1], &[1.0]).unwrap()), &[1.0 - second, second]);
    assert!(of(1, &[1, 1, 1], &[0.0; 3]).is_err_and(|error| error.contains("more than two classes")));
    assert!(of(1, &[2, 1], &[]).is_err_and(|error| error.contains("3 vectors of 2 columns")));
}

#[test]
fn kernels_of_support_vectors() {
    let of = |kernel: &'static str| {
        let mut machine = node("SVMRegressor", &["x"], "y");
        machine.domain = "ai.onnx.ml".into();
        machine.attribute = vec![
            text("kernel_type", kernel),
            floats("kernel_params", &[0.5, 1.0, 2.0]),
            floats("support_vectors", &[1.0, 0.0, 0.0, 2.0]),
            floats("coefficients", &[3.0, -1.0]),
            floats("rho", &[0.25]),
            Attribute { name: "n_supports".into(), i: 2, ..Attribute::default() },
        ];
        Tensor::f32([1], run(vec![machine], &Options::default(), &[1.0, 2.0], [1, 2]).unwrap())
    };
    let near = |kernel: &'static str, wanted: &[f32]| close(&of(kernel), wanted);
    near("LINEAR", &[3.0 - 4.0 + 0.25]);
    near("POLY", &[3.0 * 1.5f32.powi(2) - 3f32.powi(2) + 0.25]);
    near("RBF", &[3.0 * (-2f32).exp() - (-0.5f32).exp() + 0.25]);
    near("SIGMOID", &[3.0 * 1.5f32.tanh() - 3f32.tanh() + 0.25]);
}

#[test]
fn labels_of_numbers_are_looked_up() {
    let mut labels = node("LabelEncoder", &["x"], "y");
    labels.domain = "ai.onnx.ml".into();
    let default = Attribute { name: "default_float".into(), f: -7.0, ..Attribute::default() };
    labels.attribute =
        vec![floats("keys_floats", &[2.0, 3.0, 2.0]), floats("values_floats", &[20.0, 30.0, 40.0]), default];
    let found = run(vec![labels], &Options::default(), &[2.0, 3.0, 4.0], [1, 3]).unwrap();
    assert_eq!(found, [20.0, 30.0, -7.0]);
}

#[test]
fn optional_values_are_their_elements_or_absent() {
    let has = |name: &str| node("OptionalHasElement", &[name], "has");
    let number = || {
        let mut cast = node("Cast", &["has"], "number");
        cast.attribute.push(Attribute { name: "to".into(), i: 1, ..Attribute::default() });
        vec![cast, node("Add", &["number", "x"], "y")]
    };
    let of = |nodes: Vec<Node>| run([nodes, number()].concat(), &Options::default(), &[1.0, 2.0], [1, 2]);
    let plain = vec![node("Optional", &["x"], "o"), has("o")];
    assert_eq!(of(plain), Ok(vec![2.0, 3.0]));
    let list = vec![node("SequenceConstruct", &["x", "x"], "s"), node("Optional", &["s"], "o"), has("o")];
    assert_eq!(of(list), Ok(vec![2.0, 3.0]));
    assert_eq!(of(vec![node("Optional", &[], "o"), has("o")]), Ok(vec![1.0, 2.0]));
    let element = vec![node("Optional", &[], "o"), node("OptionalGetElement", &["o"], "e"), has("e")];
    assert!(of(element).is_err_and(|error| error.contains("without element")));
}

/// An input whose default is an initializer takes a given value, or refuses it by name.
#[test]
fn a_given_value_replaces_a_default() {
    let repeated = || {
        let mut number = node("Cast", &["count"], "number");
        number.attribute.push(Attribute { name: "to".into(), i: 1, ..Attribute::default() });
        vec![number, node("Mul", &["x", "number"], "large"), node("Add", &["large", "default"], "y")]
    };
    let of = |name: &str, value: i64| {
        let given = Options { values: [(name.to_string(), vec![value])].into(), ..Options::default() };
        run(repeated(), &given, &[1.0, 2.0], [1, 2])
    };
    assert_eq!(run(repeated(), &Options::default(), &[1.0, 2.0], [1, 2]), Ok(vec![2.0, 4.0]));
    assert_eq!(of("count", 5), Ok(vec![5.0, 10.0]));
    assert!(of("default", 3).is_err_and(|error| error.contains("`default`") && error.contains("integers")));
}
