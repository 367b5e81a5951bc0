//! Constant masks of attention.

use super::{Attribute, extent, float_info, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Graph, Model, OpsetId, Tensor as Stored};
use anemone_net::{OpKind, ReduceKind, Tensor};
use prost::Message;

/// Shares of three equal keys with the values 1, 2 and 6, and true if queries without keys are looked for.
fn attended(mask: [i32; 9], causal: bool) -> (Vec<f32>, bool) {
    let mut attention = node("Attention", &["q", "k", "v", "m"], "y");
    attention.attribute.push(Attribute { name: "is_causal".into(), i: causal.into(), ..Attribute::default() });
    let info = |name: &str| float_info(name, [1, 1, 3, 1].map(extent).to_vec());
    let stored =
        Stored { dims: vec![3, 3], name: "m".into(), data_type: 9, int32_data: mask.to_vec(), ..Stored::default() };
    let graph = Graph {
        node: vec![attention],
        initializer: vec![stored],
        input: vec![info("q"), info("k"), info("v")],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 23 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a network");
    let looks = |op: &anemone_net::Op| matches!(op.kind, OpKind::Reduce { kind: ReduceKind::Max, .. });
    let tensor = |data: [f32; 3]| Tensor::f32(vec![1, 1, 3, 1], data.to_vec());
    let found = eval(&net, &[tensor([1.0; 3]), tensor([0.0; 3]), tensor([1.0, 2.0, 6.0])]).expect("it runs").remove(0);
    (found.data.to_f32(), net.ops.iter().any(looks))
}

/// Queries without keys are looked for only where a mask, or it and the causal order, hides all keys of one.
#[test]
fn masks_that_leave_every_query_a_key_cost_nothing() {
    let near = |(found, looks): (Vec<f32>, bool), wanted: [f32; 3], guarded: bool| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?} for {wanted:?}");
        assert_eq!(looks, guarded);
    };
    near(attended([1, 0, 1, 0, 1, 1, 1, 1, 1], false), [3.5, 4.0, 3.0], false);
    near(attended([1, 0, 1, 0, 1, 1, 1, 1, 0], true), [1.0, 2.0, 1.5], false);
    // The first query's keys are all later ones, or hidden.
    near(attended([0, 1, 1, 1, 1, 1, 1, 1, 1], true), [0.0, 1.5, 3.0], true);
    near(attended([1, 1, 1, 0, 0, 0, 1, 1, 1], false), [3.0, 0.0, 3.0], true);
}
