//! Sampling at computed positions.

use super::{Attribute, extent, float_info, node};
use anemone_net::Tensor;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Graph, Model, OpsetId};
use prost::Message;

/// A row of elements sampled at positions of its elements, by cubic interpolation.
fn sampled(row: &[f32], places: &[f32], padding: &str, align: bool) -> Vec<f32> {
    let mut sample = node("GridSample", &["x", "g"], "y");
    let text =
        |name: &str, s: &str| Attribute { name: name.into(), s: s.as_bytes().to_vec().into(), ..Attribute::default() };
    let corners = Attribute { name: "align_corners".into(), i: align.into(), ..Attribute::default() };
    sample.attribute = vec![text("mode", "cubic"), text("padding_mode", padding), corners];
    let (size, count) = (row.len(), places.len());
    let info = |name: &str, shape: &[usize]| float_info(name, shape.iter().map(|&n| extent(n as i64)).collect());
    let graph = Graph {
        node: vec![sample],
        input: vec![info("x", &[1, 1, 1, size]), info("g", &[1, 1, count, 2])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 20 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a network");
    let whole = size as f32;
    let normal = |x: f32| if align { 2.0 * x / (whole - 1.0) - 1.0 } else { (2.0 * x + 1.0) / whole - 1.0 };
    let grid = places.iter().flat_map(|&x| [normal(x), 0.0]).collect();
    let inputs = [Tensor::f32(vec![1, 1, 1, size], row.to_vec()), Tensor::f32(vec![1, 1, count, 2], grid)];
    eval(&net, &inputs).expect("it runs").remove(0).data.to_f32()
}

/// Padding mode, alignment, and the position of the element that stands for one outside of the row.
type Way<'a> = (&'a str, bool, &'a dyn Fn(i32) -> i32);

/// Every neighbour outside of the row is the element that the padding puts there.
#[test]
fn cubic_sampling_reads_every_padding() {
    let row = [1.0f32, -2.0, 4.0, 3.0, 0.5];
    let last = row.len() as i32 - 1;
    let places = [-1.75f32, -0.5, -0.25, 0.0, 1.25, 3.5, 4.25, 5.5];
    let kernel = |d: f32| match d.abs() {
        d if d < 1.0 => (1.25 * d - 2.25) * d * d + 1.0,
        d if d < 2.0 => -0.75 * (((d - 5.0) * d + 8.0) * d - 4.0),
        _ => 0.0,
    };
    let reflected = |k: i32| if k < 0 { -k } else { 2 * last - k };
    let mirrored = |k: i32| if k < 0 { -1 - k } else { 2 * last + 1 - k };
    let nearest = |k: i32| k.clamp(0, last);
    let ways: [Way; 4] = [
        ("reflection", true, &reflected),
        ("reflection", false, &mirrored),
        ("border", true, &nearest),
        ("border", false, &nearest),
    ];
    for (padding, align, outside) in ways {
        let at = |k: i32| row[if (0..=last).contains(&k) { k } else { outside(k) } as usize];
        for (&place, found) in places.iter().zip(sampled(&row, &places, padding, align)) {
            let first = place.floor() as i32 - 1;
            let wanted: f32 = (first..first + 4).map(|k| at(k) * kernel(place - k as f32)).sum();
            assert!((found - wanted).abs() < 1e-4, "{padding} {align} at {place}: {found} for {wanted}");
        }
    }
}
