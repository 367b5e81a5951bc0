use super::{Attribute, Graph, Model, OpsetId, Shape, TensorType, Type, ValueInfo, extent, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::Tensor as Stored;
use anemone_net::{OpKind, Tensor};
use prost::Message;

/// The elements that a nearest mode reads for these sizes.
fn nearest(coordinates: &str, nearest: &str, from: usize, to: usize) -> Vec<usize> {
    let mut resize = node("Resize", &["x", "", "", "sizes"], "y");
    let text =
        |name: &str, s: &str| Attribute { name: name.into(), s: s.as_bytes().to_vec().into(), ..Attribute::default() };
    resize.attribute = vec![
        text("mode", "nearest"),
        text("coordinate_transformation_mode", coordinates),
        text("nearest_mode", nearest),
    ];
    // Each element is its position. Integers, because floats of exact scales become one operation of the network.
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
    let y = eval(&net, &[Tensor::i32([from], (0..from as i32).collect())]).unwrap().remove(0);
    y.data.to_i32().into_iter().map(|place| place as usize).collect()
}

#[test]
fn rounded_scales_reach_the_whole_positions() {
    assert_eq!(nearest("pytorch_half_pixel", "ceil", 5, 1), [0]);
    assert_eq!(nearest("align_corners", "floor", 7, 4), [0, 2, 4, 6]);
    assert_eq!(nearest("asymmetric", "floor", 6, 4), [0, 1, 3, 4]);
}
