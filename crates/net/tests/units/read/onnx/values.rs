//! Inputs whose values are given before the model runs, and the reasons of what is not read.

use super::{extent, float_info, node};
use anemone_net::Tensor as Data;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, outline_onnx, read_onnx};
use anemone_net::testing::onnx::{Dim, Graph, Model, OpsetId, ValueInfo};
use anemone_net::{Error, Net};
use prost::Message;

/// Integers of 64 bits of these extents.
fn integers(name: &str, dims: Vec<Dim>) -> ValueInfo {
    let mut info = float_info(name, dims);
    info.ty.as_mut().unwrap().tensor.as_mut().unwrap().element = 7;
    info
}

/// `y` is `x` in extents that another input has.
fn model() -> Vec<u8> {
    let open = Dim { value: None, param: Some("rank".into()) };
    let graph = Graph {
        node: vec![
            node("Neg", &["x"], "negative"),
            node("Expand", &["negative", "to"], "spread"),
            node("Abs", &["spread"], "y"),
        ],
        input: vec![float_info("x", vec![extent(1), extent(2)]), integers("to", vec![open])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    Model { graph: Some(graph), opset_import, ..Model::default() }.encode_to_vec()
}

fn read(values: &[(&str, &[i64])]) -> Result<Net, Error> {
    let values = values.iter().map(|(name, values)| (name.to_string(), values.to_vec())).collect();
    let options = Options { values, extents: [("rank".to_string(), 2)].into(), ..Options::default() };
    read_onnx(&model(), &MemoryFiles::default(), &options).map(|(net, _)| net)
}

#[test]
fn values_of_an_input_make_it_a_constant() {
    let net = read(&[("to", &[3, 2])]).expect("a network");
    assert_eq!(net.inputs.len(), 1);
    let y = eval(&net, &[Data::f32([1, 2], vec![1.0, -2.0])]).expect("it runs").remove(0);
    assert_eq!((y.shape.as_slice(), y.data.to_f32()), (&[3, 2][..], vec![1.0, 2.0, 1.0, 2.0, 1.0, 2.0]));
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let none = read(&[]).expect_err("extents are unknown").to_string();
    assert!(none.contains("`shape` is computed at run time from input `to`"), "{none}");
    for (values, wanted) in [
        (("to", &[3, 2, 1][..]), "`number of given values` is 3"),
        (("x", &[1][..]), "integers, which alone"),
        (("away", &[1][..]), "input `away`, which has a value"),
    ] {
        let error = read(&[values]).expect_err("a wrong value").to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn operations_behind_one_that_is_not_read_have_its_reason() {
    let options = Options { extents: [("rank".to_string(), 2)].into(), ..Options::default() };
    let (outline, notes) = outline_onnx(&model(), &MemoryFiles::default(), &options).expect("an outline");
    let unread: Vec<Option<&str>> = outline.ops.iter().map(|op| op.unread.as_deref()).collect();
    let (read, left) = unread.split_at(1);
    assert_eq!(read, [None]);
    assert!(
        left.len() == 2 && left[0] == left[1] && left[0].is_some_and(|reason| reason.starts_with("Expand `spread`: ")),
        "{left:?}"
    );
    assert!(notes.iter().filter(|note| note.starts_with("Expand")).count() == 1, "{notes:?}");
}
