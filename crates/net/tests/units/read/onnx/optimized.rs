//! Models as optimizers and quantizers write them.

use super::{close, extent, files, float_info, model, node, one_of};
use anemone_net::eval::{eval, eval_rounded};
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, Tensor as Stored};
use anemone_net::{Net, Tensor};
use prost::Message;

#[test]
fn nodes_may_stand_in_any_order() {
    let mut unordered = model();
    unordered.graph.as_mut().unwrap().node.reverse();
    let extents = Options { extents: [("N".to_string(), 3)].into(), ..Options::default() };
    let [ordered, unordered] = [model(), unordered].map(|m| read_onnx(&m.encode_to_vec(), &files(), &extents).unwrap());
    assert_eq!(ordered, unordered);
    // Nodes that read each other have no order.
    let mut ring = model();
    ring.graph.as_mut().unwrap().node[0].input[0] = "y".into();
    let error = read_onnx(&ring.encode_to_vec(), &files(), &extents).unwrap_err();
    assert!(error.to_string().contains("used before it is defined"), "{error}");
}

#[test]
fn fused_products_transpose_axes_of_the_batch() {
    // The first axis has the rows, and the second the two matrices.
    let (a, b): (&[f32], &[f32]) = (&[1.0, 2.0, 3.0, 4.0], &[10.0, 100.0]);
    let floats: [(&[i64], &[f32]); 2] = [(&[2, 2, 1], a), (&[2, 1, 1], b)];
    let product = |attributes: &[(&str, i64)], floats: &[(&[i64], &[f32])]| {
        one_of("com.microsoft", "FusedMatMul", floats, &[], attributes, 1).unwrap().remove(0)
    };
    close(&product(&[("transBatchA", 1)], &floats), &[10.0, 30.0, 200.0, 400.0]);
    close(&product(&[("transBatchB", 1)], &[(&[2, 1, 1], b), (&[1, 2, 2], a)]), &[10.0, 20.0, 300.0, 400.0]);
}

#[test]
fn inverses_and_distances_of_the_optimizers_domain() {
    let one =
        |op: &str, floats: &[(&[i64], &[f32])]| one_of("com.microsoft", op, floats, &[], &[], 1).unwrap().remove(0);
    let x: &[f32] = &[2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 1.0];
    // The determinant is zero.
    assert!(one("Inverse", &[(&[3, 3], x)]).data.to_f32().iter().all(|v| !v.is_finite()));
    let x: &[f32] = &[2.0, 0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 1.0, 2.0];
    let inverse = [0.8, 0.2, -0.6, 0.0, 0.6, -0.6, -0.4, -0.4, 1.2].map(|v: f32| v * 5.0 / 6.0);
    close(&one("Inverse", &[(&[3, 3], x)]), &inverse);
    close(&one("Inverse", &[(&[2, 1, 1], &[4.0, -0.5])]), &[0.25, -2.0]);
    close(&one("CDist", &[(&[2, 2], &[0.0, 0.0, 1.0, 1.0]), (&[1, 2], &[3.0, 4.0])]), &[25.0, 13.0]);
}

#[test]
fn weights_in_blocks_of_a_processor_are_refused() {
    let floats: [(&[i64], &[f32]); 2] = [(&[1, 8, 1, 1], &[1.0; 8]), (&[8, 8, 1, 1], &[1.0; 64])];
    let error = one_of("com.microsoft.nchwc", "Conv", &floats, &[], &[], 1).unwrap_err().to_string();
    assert!(error.contains("ORT_ENABLE_EXTENDED"), "{error}");
}

#[test]
fn convolutions_and_norms_with_channels_behind() {
    let all = |op: &str, floats: &[(&[i64], &[f32])], attributes: &[(&str, i64)], outputs: usize| {
        one_of("com.microsoft", op, floats, &[], attributes, outputs).unwrap()
    };
    let x: (&[i64], &[f32]) = (&[1, 1, 2, 2], &[1.0, 10.0, 3.0, 10.0]);
    let kernel: (&[i64], &[f32]) = (&[1, 2, 1, 1], &[1.0, 10.0]);
    close(&all("NhwcConv", &[x, kernel], &[], 1)[0], &[101.0, 103.0]);
    let behind: [(&[i64], &[f32]); 2] = [(&[1], &[0.5]), (&[1, 1, 2, 1], &[1000.0, 2000.0])];
    close(&all("NhwcFusedConv", &[x, kernel, behind[0], behind[1]], &[], 1)[0], &[1101.5, 2103.5]);
    let factors: [(&[i64], &[f32]); 2] = [(&[2], &[2.0, 3.0]), (&[2], &[0.5, 1.0])];
    let groups = ("groups", 2);
    let near = |found: &Tensor, wanted: &[f32]| {
        let found = found.data.to_f32();
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?}");
    };
    near(&all("GroupNorm", &[x, factors[0], factors[1]], &[groups], 1)[0], &[-1.5, 1.0, 2.5, 1.0]);
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let found = all("GroupNorm", &[x, factors[0], factors[1]], &[groups, ("activation", 1)], 1);
    near(&found[0], &[silu(-1.5), silu(1.0), silu(2.5), silu(1.0)]);
    let first: (&[i64], &[f32]) = (&[1, 2, 1, 2], &[1.0, 3.0, 10.0, 10.0]);
    near(
        &all("GroupNorm", &[first, factors[0], factors[1]], &[groups, ("channels_last", 0)], 1)[0],
        &[-1.5, 2.5, 1.0, 1.0],
    );
    let added: [(&[i64], &[f32]); 2] = [(&[1, 2], &[5.0, 6.0]), (&[2], &[0.25, 0.5])];
    let found = all("SkipGroupNorm", &[x, factors[0], factors[1], added[0], added[1]], &[groups], 2);
    near(&found[0], &[-1.5, 1.0, 2.5, 1.0]);
    near(&found[1], &[6.25, 16.5, 8.25, 16.5]);
}

/// The table holds its elements head by head; far distances share buckets.
#[test]
fn biases_by_relative_position() {
    let table: Vec<f32> = (0..8).chain(10..18).map(|v| v as f32).collect();
    let lengths: [(&[i64], &[i64]); 2] = [(&[], &[2]), (&[], &[6])];
    let of = |both: i64| {
        let attributes = [("max_distance", 8), ("is_bidirectional", both)];
        one_of("com.microsoft", "RelativePositionBias", &[(&[8, 2], &table)], &lengths, &attributes, 1)
    };
    let first = [0.0, 5.0, 6.0, 6.0, 7.0, 7.0, 1.0, 0.0, 5.0, 6.0, 6.0, 7.0];
    let found = of(1).unwrap().remove(0);
    assert_eq!(found.shape, [1, 2, 2, 6]);
    close(&found, &[first, first.map(|v| v + 10.0)].concat());
    close(&of(0).unwrap()[0].clone(), &{
        let first = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 0.0, 1.0, 2.0, 3.0, 4.0];
        [first, first.map(|v| v + 10.0)].concat()
    });
}

fn read(nodes: Vec<Node>, initializer: Vec<Stored>, x: &[i64]) -> Net {
    let graph = Graph {
        node: nodes,
        initializer,
        input: vec![float_info("x", x.iter().map(|&d| extent(d)).collect())],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { ir_version: 8, graph: Some(graph), opset_import, ..Model::default() };
    read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).unwrap().0
}

fn bytes(name: &str, dims: &[i64], values: &[i32]) -> Stored {
    let (dims, int32_data) = (dims.to_vec(), values.to_vec());
    Stored { dims, data_type: 2, int32_data, name: name.into(), ..Stored::default() }
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> Stored {
    let (dims, float_data) = (dims.to_vec(), values.to_vec());
    Stored { dims, data_type: 1, float_data, name: name.into(), ..Stored::default() }
}

/// Its operands are those of the plain layer, rounded to 8 bits by their range.
#[test]
fn an_lstm_quantizes_its_operands() {
    let hidden = || Attribute { name: "hidden_size".into(), i: 1, ..Attribute::default() };
    let names = ["x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"];
    let mut quantized = node("DynamicQuantizeLSTM", &names, "y");
    quantized.domain = "com.microsoft".into();
    quantized.attribute.push(hidden());
    let zero = |name| bytes(name, &[1], &[128]);
    let weights = vec![
        bytes("w", &[1, 2, 4], &[130, 120, 140, 158, 100, 150, 110, 135]),
        bytes("r", &[1, 1, 4], &[138, 118, 148, 128]),
        floats("ws", &[1], &[0.1]),
        floats("rs", &[1], &[0.05]),
        zero("wz"),
        zero("rz"),
    ];
    let quantized = read(vec![quantized], weights, &[3, 1, 2]);
    let mut plain = node("LSTM", &["x", "w", "r"], "y");
    plain.attribute.push(hidden());
    let weights = vec![
        floats("w", &[1, 4, 2], &[0.2, -2.8, -0.8, 2.2, 1.2, -1.8, 3.0, 0.7]),
        floats("r", &[1, 4, 1], &[0.5, -0.5, 1.0, 0.0]),
    ];
    let plain = read(vec![plain], weights, &[3, 1, 2]);
    let run = |net: &Net, x: [f32; 6]| eval(net, &[Tensor::f32([3, 1, 2], x.to_vec())]).unwrap().remove(0);
    // The range is 1.5, a step 1.5 / 255; 0.31 is rounded to 53 steps.
    let given = run(&quantized, [1.0, -0.5, 0.31, 0.0, 0.5, 1.0]);
    let rounded = run(&plain, [1.0, -0.5, 53.0 * 1.5 / 255.0, 0.0, 0.5, 1.0]);
    close(&given, &rounded.data.to_f32());
    let other = run(&plain, [1.0, -0.5, 0.31, 0.0, 0.5, 1.0]);
    assert!(given.data.to_f32().iter().zip(other.data.to_f32()).any(|(a, b)| (a - b).abs() > 1e-4));
}

/// A sum of integers beyond fp16 that is scaled later costs digits, not everything.
#[test]
fn sums_of_integers_keep_their_size_when_rounded() {
    let mut whole = node("Cast", &["sum"], "number");
    whole.attribute.push(Attribute { name: "to".into(), i: 6, ..Attribute::default() });
    let mut float = node("Cast", &["number"], "float");
    float.attribute.push(Attribute { name: "to".into(), i: 1, ..Attribute::default() });
    let nodes = vec![node("MatMul", &["x", "w"], "sum"), whole, float, node("Mul", &["float", "scale"], "y")];
    let weights = vec![floats("w", &[2, 1], &[1000.0, 1000.0]), floats("scale", &[1], &[1e-5])];
    let net = read(nodes, weights, &[1, 2]);
    let found = eval_rounded(&net, &[Tensor::f32([1, 2], vec![100.0, 200.0])]).unwrap()[0].data.to_f32()[0];
    assert!((found - 3.0).abs() < 0.01, "{found}");
}

/// Bytes hold two integers, the lower bits first; blocks of 16 have a scale and a zero point.
#[test]
fn rows_of_integers_are_gathered_with_their_scales() {
    let table: Vec<i32> = (0..32).map(|at| at % 16 * 16 + at / 16).collect();
    let rows = Stored { dims: vec![2], data_type: 7, int64_data: vec![1, 0], name: "rows".into(), ..Stored::default() };
    let gathered = |zeros: &str| {
        let mut gather = node("GatherBlockQuantized", &["table", "rows", "scales", zeros], "found");
        gather.domain = "com.microsoft".into();
        gather.attribute = vec![Attribute { name: "block_size".into(), i: 16, ..Attribute::default() }];
        let initializers = vec![
            bytes("table", &[2, 16], &table),
            rows.clone(),
            floats("scales", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
            bytes("zeros", &[2, 1], &[0x21, 0x43]),
        ];
        let net = read(vec![gather, node("Add", &["found", "x"], "y")], initializers, &[1]);
        let found = eval(&net, &[Tensor::f32([1], vec![0.0])]).unwrap().remove(0);
        assert_eq!(found.shape, [2, 32]);
        found.data.to_f32()
    };
    let wanted = |zeros: [f32; 4]| {
        let of = |row: usize, at: usize| {
            let value = if at.is_multiple_of(2) { row } else { at / 2 };
            let block = row * 2 + at / 16;
            (value as f32 - zeros[block]) * (block + 1) as f32
        };
        [1, 0].into_iter().flat_map(|row| (0..32).map(move |at| of(row, at))).collect::<Vec<f32>>()
    };
    assert_eq!(gathered("zeros"), wanted([1.0, 2.0, 3.0, 4.0]));
    assert_eq!(gathered(""), wanted([8.0; 4]));
}

/// Two experts with bytes of two integers each: one doubles its row by halves and doubles, the other gives zeros. The scores choose one, or
/// weigh both.
#[test]
fn experts_of_integers_are_weighted_by_their_scores() {
    let whole = |name: &str, value: i64| Attribute { name: name.into(), i: value, ..Attribute::default() };
    let text = |name: &str, text: &'static str| Attribute { name: name.into(), s: text.into(), ..Attribute::default() };
    let found = |most: i64, zeros: &str, scores: [f32; 2]| {
        let names = ["x", "scores", "first", "scales", "", "second", "others", "", "", "", "", zeros];
        let mut experts = node("QMoE", &names, "y");
        experts.domain = "com.microsoft".into();
        experts.attribute = vec![whole("k", most), whole("expert_weight_bits", 4), text("activation_type", "relu")];
        // Rows 1 0 and 0 1, and rows of zeros, each with eight added.
        let matrices = [0x89, 0x98, 0x88, 0x88];
        let initializers = vec![
            floats("scores", &[1, 2], &scores),
            bytes("first", &[2, 2, 1], &matrices),
            floats("scales", &[2, 2], &[0.5; 4]),
            bytes("second", &[2, 2, 1], &matrices),
            floats("others", &[2, 2], &[4.0; 4]),
            bytes("sevens", &[2, 1], &[0x77, 0x88]),
        ];
        let net = read(vec![experts], initializers, &[1, 2]);
        eval(&net, &[Tensor::f32([1, 2], vec![1.0, -3.0])]).unwrap()[0].data.to_f32()
    };
    assert_eq!(found(1, "", [1.0, 0.0]), [2.0, 0.0]);
    assert_eq!(found(1, "", [0.0, 1.0]), [0.0, 0.0]);
    // Of equal scores, the first is better.
    assert_eq!(found(1, "", [1.0, 1.0]), [2.0, 0.0]);
    let share = 1.0 / (1.0 + (-1.0f32).exp());
    assert!((found(2, "", [1.0, 0.0])[0] - 2.0 * share).abs() < 1e-5);
    // Rows 2 1 and 1 2 of the first expert: its sums are negative.
    assert_eq!(found(1, "sevens", [1.0, 0.0]), [0.0, 0.0]);
}

/// Products of integers keep rows of computed number.
#[test]
fn quantized_products_are_computed_row_by_row() {
    let mut cast = node("Cast", &["x"], "mask");
    cast.attribute.push(Attribute { name: "to".into(), i: 9, ..Attribute::default() });
    let nodes = vec![
        cast,
        node("NonZero", &["mask"], "places"),
        node("Squeeze", &["places"], "rows"),
        node("Gather", &["table", "rows"], "some"),
        node("QLinearMatMul", &["some", "half", "zero", "weights", "half", "zero", "half", "zero"], "product"),
        node("DequantizeLinear", &["product", "half", "zero"], "numbers"),
        node("ReduceSum", &["numbers", "first"], "y"),
    ];
    let first = Stored { dims: vec![1], data_type: 7, int64_data: vec![0], name: "first".into(), ..Stored::default() };
    let initializers = vec![
        bytes("table", &[3, 2], &[1, 2, 3, 4, 5, 6]),
        bytes("weights", &[2, 1], &[2, 4]),
        floats("half", &[], &[0.5]),
        bytes("zero", &[], &[0]),
        first,
    ];
    let net = read(nodes, initializers, &[3]);
    let found = eval(&net, &[Tensor::f32([3], vec![1.0, 0.0, 1.0])]).unwrap()[0].data.to_f32();
    // Halves of 1 and 2 times 1 and 2 are 2.5, those of 5 and 6 are 8.5.
    assert_eq!(found, [11.0]);
}
