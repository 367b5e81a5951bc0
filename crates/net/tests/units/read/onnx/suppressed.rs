//! Boxes that a suppression keeps.

use super::{extent, float_info, node};
use anemone_net::Tensor as Array;
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, OpsetId, Tensor, ValueInfo};
use prost::Message;

/// Kept boxes come first, best score first, then zeros; their number is an output of its own.
#[test]
fn suppression_keeps_the_best_boxes() {
    // Two boxes that share half, one apart; corners may be in any order.
    let boxes: &[f32] = &[0.0, 0.0, 1.0, 1.0, 1.0, 1.25, 0.0, 0.25, 4.0, 4.0, 5.0, 5.0];
    let scores: &[f32] = &[0.5, 0.75, 0.25, 0.75, 0.5, 0.0];
    let limited = |given: bool, overlap: f32, least: f32, most: i64| {
        let floats: [(&[i64], &[f32]); 2] = [(&[1, 3, 4], boxes), (&[1, 2, 3], scores)];
        let node = node("NonMaxSuppression", &["b", "s", "most", "overlap", "least"], "y");
        let constant = |name: &str, value: f32| Tensor {
            dims: vec![1],
            data_type: 1,
            float_data: vec![value],
            name: name.into(),
            ..Tensor::default()
        };
        let asked = most;
        let most =
            Tensor { dims: vec![1], data_type: 7, int64_data: vec![most], name: "most".into(), ..Tensor::default() };
        let shaped = |name: &str, at: usize| float_info(name, floats[at].0.iter().map(|&n| extent(n)).collect());
        let cast = |name: &str, to: i64| {
            let mut cast = self::node("Cast", &["wanted"], name);
            cast.attribute.push(Attribute { name: "to".into(), i: to, ..Attribute::default() });
            cast
        };
        let limits = [
            float_info("wanted", vec![extent(1)]),
            float_info("overlap", vec![extent(1)]),
            float_info("least", vec![]),
        ];
        let (mut input, mut initializer) = (vec![shaped("b", 0), shaped("s", 1)], Vec::new());
        match given {
            true => input.extend(limits),
            false => initializer.extend([most, constant("overlap", overlap), constant("least", least)]),
        }
        let graph = Graph {
            node: if given { vec![cast("most", 7), node] } else { vec![node] },
            initializer,
            input,
            output: vec![ValueInfo { name: "y".into(), ty: None }],
            ..Graph::default()
        };
        let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
        let bytes = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }.encode_to_vec();
        let (net, _) = read_onnx(&bytes, &MemoryFiles::default(), &Options::default()).unwrap();
        let mut inputs = floats
            .map(|(shape, data)| Array::f32(shape.iter().map(|&n| n as usize).collect::<Vec<_>>(), data.to_vec()))
            .to_vec();
        if given {
            inputs.extend([
                Array::f32([1], vec![asked as f32]),
                Array::f32([1], vec![overlap]),
                Array::f32([], vec![least]),
            ]);
        }
        let made = eval(&net, &inputs).unwrap();
        let count = made[1].data.to_i32()[0] as usize;
        let rows = made[0].data.to_i32();
        assert!(rows[count * 3..].iter().all(|&v| v == 0), "{rows:?}");
        rows[..count * 3].chunks(3).map(|row| (row[1], row[2])).collect::<Vec<_>>()
    };
    // Limits may be inputs of the model.
    let of = |overlap: f32, least: f32, most: i64| {
        let made = limited(false, overlap, least, most);
        assert_eq!(limited(true, overlap, least, most), made);
        made
    };
    assert_eq!(of(0.5, 0.0, 9), [(0, 1), (0, 2), (1, 0)]);
    assert_eq!(of(0.75, 0.0, 9), [(0, 1), (0, 0), (0, 2), (1, 0), (1, 1)]);
    assert_eq!(of(0.5, 0.25, 9), [(0, 1), (1, 0)]);
    assert_eq!(of(0.5, 0.0, 1), [(0, 1), (1, 0)]);
    assert_eq!(of(0.5, 0.75, 9), []);
}

/// Different elements come first, in order or as they come; where each element is among them has a row for each element.
#[test]
fn different_elements_are_rows() {
    let of = |sorted: i64| {
        let mut unique = node("Unique", &["x"], "y");
        unique.output.extend(["first", "inverse", "counts"].map(String::from));
        unique.attribute.push(Attribute { name: "sorted".into(), i: sorted, ..Attribute::default() });
        let graph = Graph {
            output: unique.output.iter().map(|name| ValueInfo { name: name.clone(), ty: None }).collect(),
            node: vec![unique],
            input: vec![float_info("x", vec![extent(2), extent(3)])],
            ..Graph::default()
        };
        let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
        let bytes = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }.encode_to_vec();
        let (net, _) = read_onnx(&bytes, &MemoryFiles::default(), &Options::default()).unwrap();
        let made = eval(&net, &[Array::f32([2, 3], vec![3.0, 1.0, 3.0, 2.0, 1.0, 3.0])]).unwrap();
        let name = |at: usize| net.value(net.outputs[at]).name.clone();
        made.iter().enumerate().map(|(at, t)| (name(at), t.data.to_f32())).collect::<Vec<_>>()
    };
    let find = |all: &[(String, Vec<f32>)], name: &str| all.iter().find(|(own, _)| own == name).unwrap().1.clone();
    let wanted = |sorted: i64, rows: [[f32; 3]; 3], inverse: [f32; 6]| {
        let all = of(sorted);
        for (name, real) in ["y", "first", "counts"].into_iter().zip(rows) {
            assert_eq!(find(&all, name), [real, [0.0; 3]].concat(), "{name}");
            assert_eq!(find(&all, &format!("{name}_count")), [3.0]);
        }
        assert_eq!(find(&all, "inverse"), inverse);
    };
    wanted(1, [[1.0, 2.0, 3.0], [1.0, 3.0, 0.0], [2.0, 1.0, 3.0]], [2.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
    wanted(0, [[3.0, 1.0, 2.0], [0.0, 1.0, 3.0], [3.0, 2.0, 1.0]], [0.0, 1.0, 0.0, 2.0, 1.0, 0.0]);
}

/// Slices of an axis are different where one of their elements is; in order, the first different element decides.
#[test]
fn different_slices_are_rows() {
    let of = |sorted: i64, axis: i64, shape: [usize; 2], x: &[f32]| {
        let mut unique = node("Unique", &["x"], "y");
        let number = |name: &str, i: i64| Attribute { name: name.into(), i, ..Attribute::default() };
        unique.attribute = vec![number("sorted", sorted), number("axis", axis)];
        let graph = Graph {
            node: vec![unique],
            input: vec![float_info("x", shape.map(|d| extent(d as i64)).to_vec())],
            output: vec![float_info("y", vec![])],
            ..Graph::default()
        };
        let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
        let bytes = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }.encode_to_vec();
        let (net, _) = read_onnx(&bytes, &MemoryFiles::default(), &Options::default()).unwrap();
        let made = eval(&net, &[Array::f32(shape, x.to_vec())]).unwrap();
        made.iter().map(|t| t.data.to_f32()).collect::<Vec<_>>()
    };
    let rows = [2.0, 1.0, 1.0, 9.0, 2.0, 1.0, 1.0, 3.0];
    let wanted = |ordered: [f32; 8]| vec![ordered.to_vec(), vec![3.0]];
    assert_eq!(of(1, 0, [4, 2], &rows), wanted([1.0, 3.0, 1.0, 9.0, 2.0, 1.0, 0.0, 0.0]));
    assert_eq!(of(0, 0, [4, 2], &rows), wanted([2.0, 1.0, 1.0, 9.0, 1.0, 3.0, 0.0, 0.0]));
    let columns = [2.0, 1.0, 2.0, 1.0, 1.0, 9.0, 1.0, 3.0];
    assert_eq!(of(1, 1, [2, 4], &columns), wanted([1.0, 1.0, 2.0, 0.0, 3.0, 9.0, 1.0, 0.0]));
}
