use super::{Attribute, Graph, Model, OpsetId, Shape, TensorType, Type, ValueInfo, extent, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::Tensor as Stored;
use anemone_net::{OpKind, Tensor};
use prost::Message;

/// The elements that a nearest mode reads for these sizes.
fn nearest(coordinates: &str, nearest: &str, from: usize, to: usize) -> Vec<usize> {
    // Each element is its position.
    let found = resized("nearest", coordinates, nearest, &(0..from as i32).collect::<Vec<_>>(), to);
    found.into_iter().map(|place| place as usize).collect()
}

/// Integers resized; floats of exact scales become one operation of the network.
fn resized(mode: &str, coordinates: &str, nearest: &str, x: &[i32], to: usize) -> Vec<i32> {
    let from = x.len();
    let mut resize = node("Resize", &["x", "", "", "sizes"], "y");
    let text =
        |name: &str, s: &str| Attribute { name: name.into(), s: s.as_bytes().to_vec().into(), ..Attribute::default() };
    resize.attribute =
        vec![text("mode", mode), text("coordinate_transformation_mode", coordinates), text("nearest_mode", nearest)];
    let integers = |name: &str, dim| ValueInfo {
        name: name.into(),
        ty: Some(Type {
            tensor: Some(TensorType { element: 6, shape: Some(Shape { dim: vec![extent(dim as i64)] }) }),
        }),
    };
    let sizes =
        Stored { dims: vec![1], data_type: 7, name: "sizes".into(), int64_data: vec![to as i64], ..Stored::default() };
    let graph = Graph {
        node: vec![resize],
        initializer: vec![sizes],
        input: vec![integers("x", from)],
        output: vec![integers("y", to)],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).unwrap();
    assert!(!net.ops.iter().any(|op| matches!(op.kind, OpKind::Resize { .. })));
    eval(&net, &[Tensor::i32([from], x.to_vec())]).unwrap().remove(0).data.to_i32()
}

#[test]
fn rounded_scales_reach_the_whole_positions() {
    assert_eq!(nearest("pytorch_half_pixel", "ceil", 5, 1), [0]);
    assert_eq!(nearest("align_corners", "floor", 7, 4), [0, 2, 4, 6]);
    assert_eq!(nearest("asymmetric", "floor", 6, 4), [0, 1, 3, 4]);
}

#[test]
fn means_of_integers_lose_their_fraction() {
    // 0, 2.5, 7.5 and 10, as in ONNX Runtime.
    assert_eq!(resized("linear", "half_pixel", "floor", &[0, 10], 4), [0, 2, 7, 10]);
}
