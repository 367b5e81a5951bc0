//! Short-time transforms.

use super::{extent, float_info, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Graph, Model, OpsetId, Tensor as Stored};
use anemone_net::{OpKind, Tensor};
use prost::Message;

/// Spectra of two signals of 9 elements, in frames of 4 elements, 2 apart, times `w`.
fn spectra(shape: &[i64]) -> Tensor {
    let whole = |name: &str, value: i64| Stored {
        dims: vec![],
        name: name.into(),
        data_type: 7,
        int64_data: vec![value],
        ..Stored::default()
    };
    let window = Stored {
        dims: vec![4],
        name: "w".into(),
        data_type: 1,
        float_data: vec![0.5, 1.0, 2.0, 0.25],
        ..Stored::default()
    };
    let graph = Graph {
        node: vec![node("STFT", &["x", "step", "w", "length"], "y")],
        initializer: vec![whole("step", 2), whole("length", 4), window],
        input: vec![float_info("x", shape.iter().map(|&n| extent(n)).collect())],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a network");
    assert!(net.ops.iter().any(|op| matches!(op.kind, OpKind::Conv { .. })));
    let signal = (0..18).map(|i| (i * i % 7) as f32 - 2.0).collect();
    eval(&net, &[Tensor::f32(shape.iter().map(|&n| n as usize).collect::<Vec<_>>(), signal)])
        .expect("it runs")
        .remove(0)
}

#[test]
fn short_time_transforms_take_signals_of_either_rank() {
    let found = spectra(&[2, 9]);
    assert_eq!(found.shape, [2, 3, 3, 2]);
    assert_eq!(spectra(&[2, 9, 1]).data.to_f32(), found.data.to_f32());
    let signal: Vec<f32> = (0..18).map(|i| (i * i % 7) as f32 - 2.0).collect();
    let window = [0.5f32, 1.0, 2.0, 0.25];
    for (i, got) in found.data.to_f32().into_iter().enumerate() {
        let [batch, frame, bin, part] = [i / 18, i / 6 % 3, i / 2 % 3, i % 2];
        let term = |t: usize| {
            let (sin, cos) = (std::f32::consts::TAU * (bin * t) as f32 / 4.0).sin_cos();
            signal[batch * 9 + frame * 2 + t] * window[t] * if part == 0 { cos } else { -sin }
        };
        let expected: f32 = (0..4).map(term).sum();
        assert!((got - expected).abs() < 1e-5, "{i}: {got} for {expected}");
    }
}
