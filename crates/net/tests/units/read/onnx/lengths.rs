//! Extents that are computed at run time, below a known or given number.

use super::{close, extent, float_info, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, Tensor as Stored};
use anemone_net::{Net, Tensor};
use prost::Message;

fn with(mut node: Node, name: &str, ints: &[i64]) -> Node {
    node.attribute.push(Attribute { name: name.into(), ints: ints.to_vec(), i: ints[0], ..Attribute::default() });
    node
}

/// A network over two durations, whose sum is `length`; each is at most 3 if `bounded`.
fn read(bounded: bool, nodes: Vec<Node>, most: Option<usize>) -> Result<Net, String> {
    let whole = |name: &str, dims: &[i64], values: &[i64]| Stored {
        dims: dims.to_vec(),
        name: name.into(),
        data_type: 7,
        int64_data: values.to_vec(),
        ..Stored::default()
    };
    let real = |name: &str, dims: &[i64], values: &[f32]| Stored {
        dims: dims.to_vec(),
        name: name.into(),
        data_type: 1,
        float_data: values.to_vec(),
        ..Stored::default()
    };
    let durations = match bounded {
        true => node("Clip", &["x", "", "greatest"], "held"),
        false => node("Abs", &["x"], "held"),
    };
    let first = [
        durations,
        node("Ceil", &["held"], "frames"),
        node("ReduceSum", &["frames"], "sum"),
        with(node("Cast", &["sum"], "whole"), "to", &[7]),
        node("Reshape", &["whole", "scalar"], "length"),
    ];
    let graph = Graph {
        node: [first.to_vec(), nodes].concat(),
        initializer: vec![
            whole("zero", &[], &[0]),
            whole("one", &[], &[1]),
            whole("scalar", &[0], &[]),
            whole("list", &[1], &[1]),
            whole("last", &[], &[1]),
            whole("less", &[1], &[-1]),
            whole("lesser", &[3], &[-1; 3]),
            whole("units", &[3], &[1; 3]),
            real("table", &[4], &[10.0, 20.0, 40.0, 80.0]),
            real("greatest", &[], &[3.0]),
            real("ones", &[1, 1, 1], &[1.0]),
            real("halves", &[1, 1, 1], &[0.5]),
            real("unit", &[], &[1.0]),
            real("places", &[7], &[7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]),
            real("low", &[], &[-1e4]),
            real("scales", &[3], &[1.0, 1.0, 2.0]),
            whole("nought", &[1], &[0]),
            whole("far", &[1], &[i64::MIN]),
            whole("last_axis", &[1], &[2]),
            whole("copies", &[3], &[1, 2, 1]),
            whole("pair", &[2], &[0, 1]),
            whole("ends", &[2], &[1, 2]),
            whole("before", &[6], &[0, 0, 2, 0, 0, 0]),
            real("kernel", &[1, 1, 3], &[1.0, 10.0, 100.0]),
        ],
        input: vec![float_info("x", vec![extent(1), extent(2)])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let extents = most.map(|most| ("whole".to_string(), most)).into_iter().collect();
    let options = Options { extents, ..Options::default() };
    read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &options).map(|(net, _)| net).map_err(|e| e.to_string())
}

/// The first output and the number of its real rows.
fn run(net: &Net, x: [f32; 2]) -> Result<(Vec<f32>, Vec<f32>), String> {
    let made = eval(net, &[Tensor::f32([1, 2], x.to_vec())]).map_err(|error| error.to_string())?;
    Ok((made[0].data.to_f32(), made.get(1).map(|t| t.data.to_f32()).unwrap_or_default()))
}

/// The numbers up to the length, as floats.
fn numbers() -> Vec<Node> {
    vec![node("Range", &["zero", "length", "one"], "order"), with(node("Cast", &["order"], "t"), "to", &[1])]
}

#[test]
fn ranges_have_a_row_for_every_place_below_their_bound() {
    let net = read(true, [numbers(), vec![node("Exp", &["t"], "y")]].concat(), None).expect("a network");
    assert_eq!(net.counted.len(), 1);
    let found = run(&net, [1.5, 0.5]).expect("it runs");
    assert_eq!((found.0.len(), found.1), (6, vec![3.0]));
    close(&Tensor::f32([6], found.0), &[1.0, 1f32.exp(), 2f32.exp(), 0.0, 0.0, 0.0]);
    // Functions across rows leave out the places behind the length.
    let net = read(true, [numbers(), vec![node("ReduceSum", &["t"], "y")]].concat(), None).expect("a network");
    assert_eq!(run(&net, [2.0, 7.0]).map(|found| found.0), Ok(vec![10.0]));
    assert_eq!(run(&net, [0.0, 0.0]).map(|found| found.0), Ok(vec![0.0]));
    // A table has places for the real rows alone.
    let taken = vec![node("Gather", &["table", "order"], "taken"), node("ReduceSum", &["taken"], "y")];
    let net = read(true, [numbers(), taken].concat(), None).expect("a network");
    assert_eq!(run(&net, [1.0, 2.0]).map(|found| found.0), Ok(vec![70.0]));
}

#[test]
fn a_cumulative_sum_has_a_bound() {
    let nodes = vec![
        node("CumSum", &["frames", "one"], "sums"),
        with(node("Gather", &["sums", "last"], "end"), "axis", &[1]),
        with(node("Cast", &["end"], "whole_end"), "to", &[7]),
        node("Reshape", &["whole_end", "scalar"], "limit"),
        node("Range", &["zero", "limit", "one"], "order"),
        with(node("Cast", &["order"], "y"), "to", &[1]),
    ];
    let net = read(true, nodes.clone(), None).expect("a network");
    assert_eq!(run(&net, [2.0, 1.0]), Ok((vec![0.0, 1.0, 2.0, 0.0, 0.0, 0.0], vec![3.0])));
    assert!(read(false, nodes, None).is_err_and(|error| error.contains("no operation bounds it")));
}

#[test]
fn an_unbounded_length_is_given() {
    let nodes = || [numbers(), vec![node("ReduceSum", &["t"], "y")]].concat();
    let error = read(false, nodes(), None).unwrap_err();
    assert!(error.contains("`whole`") && error.contains("--dim whole="), "{error}");
    let net = read(false, nodes(), Some(5)).expect("a network");
    assert_eq!(run(&net, [2.0, 3.0]).map(|found| found.0), Ok(vec![10.0]));
    assert!(run(&net, [2.0, 4.0]).is_err_and(|error| error.contains('6')), "more rows than are computed");
    assert!(read(false, nodes(), Some(1 << 40)).is_err_and(|error| error.contains("at most")));
}

/// Behind the real rows, a convolution reads its padding, and a transposed one makes several rows of each.
#[test]
fn convolutions_pad_behind_the_length() {
    let rows = || {
        vec![
            node("Reshape", &["length", "list"], "long"),
            with(node("Concat", &["list", "list", "long"], "shape"), "axis", &[0]),
            node("Expand", &["ones", "shape"], "rows"),
            node("Abs", &["rows"], "x1"),
        ]
    };
    let of = |last: Node| {
        let net = read(true, [rows(), vec![last]].concat(), None).expect("a network");
        run(&net, [1.0, 2.0]).expect("it runs")
    };
    let same = with(node("Conv", &["x1", "kernel"], "y"), "pads", &[1, 1]);
    assert_eq!(of(same), (vec![110.0, 111.0, 11.0, 0.0, 0.0, 0.0], vec![3.0]));
    let wide = with(with(node("ConvTranspose", &["x1", "kernel"], "y"), "strides", &[2]), "output_padding", &[1]);
    let wide = with(wide, "pads", &[1, 1]);
    let (found, count) = of(wide);
    assert_eq!(count, [6.0]);
    assert_eq!(found, [10.0, 101.0, 10.0, 101.0, 10.0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    // An extent below zero stands for the operand's own.
    let spread = vec![
        node("Reshape", &["length", "list"], "long"),
        with(node("Concat", &["less", "list", "long"], "given"), "axis", &[0]),
        node("Equal", &["given", "lesser"], "open"),
        node("Where", &["open", "units", "given"], "shape"),
        node("Expand", &["ones", "shape"], "y"),
    ];
    let net = read(true, spread, None).expect("a network");
    assert_eq!(run(&net, [1.0, 2.0]), Ok((vec![1.0, 1.0, 1.0, 0.0, 0.0, 0.0], vec![3.0])));
}

fn text(mut node: Node, name: &str, text: &'static str) -> Node {
    node.attribute.push(Attribute { name: name.into(), s: text.into(), ..Attribute::default() });
    node
}

/// Windows, paddings, repetitions and recurrent layers follow the length.
#[test]
fn operators_along_rows_follow_the_length() {
    // Rows 1, 2, 3, ... along the last axis.
    let rows = || {
        let mut nodes = numbers();
        nodes.push(node("Add", &["t", "unit"], "counted"));
        nodes.push(node("Unsqueeze", &["counted", "pair"], "x1"));
        nodes
    };
    let of = |last: Vec<Node>, x: [f32; 2]| {
        let net = read(true, [rows(), last].concat(), None).expect("a network");
        run(&net, x).expect("it runs")
    };
    let stride = |node: Node| with(with(node, "pads", &[1, 1]), "strides", &[2]);
    let conv = || stride(node("Conv", &["x1", "kernel"], "y"));
    assert_eq!(of(vec![conv()], [1.0, 2.0]), (vec![210.0, 32.0, 0.0], vec![2.0]));
    assert_eq!(of(vec![conv()], [2.0, 2.0]), (vec![210.0, 432.0, 0.0], vec![2.0]));
    assert_eq!(of(vec![conv()], [0.0, 0.0]), (vec![0.0; 3], vec![0.0]));
    let pool = |op: &str| with(stride(node(op, &["x1"], "y")), "kernel_shape", &[3]);
    assert_eq!(of(vec![pool("MaxPool")], [1.0, 2.0]), (vec![2.0, 3.0, 0.0], vec![2.0]));
    let mean = with(pool("AveragePool"), "count_include_pad", &[1]);
    assert_eq!(of(vec![mean], [1.0, 2.0]), (vec![1.0, 5.0 / 3.0, 0.0], vec![2.0]));
    // Paths of one length have the same rows: the sum of a padded convolution and its operand, and of two with strides.
    let padded = vec![node("Pad", &["x1", "before"], "long"), node("Conv", &["long", "kernel"], "z")];
    let whole = [padded, vec![node("Add", &["z", "x1"], "y")]].concat();
    assert_eq!(of(whole, [1.0, 1.0]), (vec![101.0, 212.0, 0.0, 0.0, 0.0, 0.0], vec![2.0]));
    let both = vec![
        stride(node("Conv", &["x1", "kernel"], "a")),
        with(with(node("MaxPool", &["x1"], "b"), "kernel_shape", &[1]), "strides", &[2]),
        node("Add", &["a", "b"], "y"),
    ];
    assert_eq!(of(both, [1.0, 2.0]), (vec![211.0, 35.0, 0.0], vec![2.0]));
    let twice = text(text(node("Resize", &["x1", "", "scales"], "y"), "mode", "nearest"), "nearest_mode", "floor");
    let twice = text(twice, "coordinate_transformation_mode", "asymmetric");
    assert_eq!(
        of(vec![twice], [1.0, 1.0]),
        (vec![1.0, 1.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], vec![4.0])
    );
    // The last state of a layer is that after the last real row.
    let mut steps = node("RNN", &["steps", "ones", "halves"], "all");
    steps.output.push("last_state".into());
    steps.attribute.push(Attribute { name: "hidden_size".into(), i: 1, ..Attribute::default() });
    steps.attribute.push(Attribute {
        name: "activations".into(),
        strings: vec!["Relu".into()],
        ..Attribute::default()
    });
    let steps = vec![node("Unsqueeze", &["counted", "ends"], "steps"), steps];
    let last = [steps.clone(), vec![node("Identity", &["last_state"], "y")]].concat();
    assert_eq!(of(last, [1.0, 2.0]).0, [1.0 / 4.0 + 2.0 / 2.0 + 3.0]);
    let all = [steps, vec![node("Identity", &["all"], "y")]].concat();
    assert_eq!(of(all, [1.0, 1.0]), (vec![1.0, 2.5, 0.0, 0.0, 0.0, 0.0], vec![2.0]));
    let backwards = node("Slice", &["x1", "less", "far", "last_axis", "less"], "y");
    assert_eq!(of(vec![backwards], [1.0, 2.0]), (vec![3.0, 2.0, 1.0, 0.0, 0.0, 0.0], vec![3.0]));
    let first = |table: &str| {
        vec![
            node("Shape", &["x1"], "extents"),
            node("Gather", &["extents", "last_axis"], "end"),
            node("Slice", &[table, "nought", "end", "nought"], "y"),
        ]
    };
    assert_eq!(of(first("places"), [1.0, 2.0]), (vec![7.0, 6.0, 5.0, 0.0, 0.0, 0.0], vec![3.0]));
    let short = read(true, [rows(), first("table")].concat(), None);
    assert!(short.is_err_and(|error| error.contains("Slice")), "a table of fewer places than there may be rows");
    let copies = vec![
        node("Tile", &["x1", "copies"], "two"),
        with(node("ReduceSum", &["two", "last_axis"], "y"), "keepdims", &[0]),
    ];
    assert_eq!(of(copies, [1.0, 2.0]).0, [6.0, 6.0]);
    // A reflected end is not followed.
    let mirrored = text(node("Pad", &["x1", "before"], "y"), "mode", "reflect");
    assert!(read(true, [rows(), vec![mirrored]].concat(), None).is_err());
}

/// Scores have rows along two axes; a mask of earlier rows is one of pairs too.
#[test]
fn rows_attend_to_rows() {
    let scores = || {
        let mut nodes = numbers();
        nodes.push(node("Unsqueeze", &["t", "list"], "column"));
        nodes.push(node("Unsqueeze", &["t", "nought"], "line"));
        nodes.push(node("MatMul", &["column", "line"], "scores"));
        nodes
    };
    let attended = vec![
        with(node("Softmax", &["scores"], "shares"), "axis", &[-1]),
        node("MatMul", &["shares", "column"], "sums"),
        node("ReduceSum", &["sums"], "y"),
    ];
    let found = |nodes: Vec<Node>, x: [f32; 2]| {
        let net = read(true, nodes, None).expect("a network");
        run(&net, x).expect("it runs").0[0]
    };
    let wanted = |count: usize, causal: bool| {
        let row = |q: usize| {
            let keys = 0..if causal { q + 1 } else { count };
            let e = |k: usize| ((q * k) as f32).exp();
            keys.clone().map(|k| e(k) * k as f32).sum::<f32>() / keys.map(e).sum::<f32>()
        };
        (0..count).map(row).sum::<f32>()
    };
    for (x, count) in [([1.0, 2.0], 3), ([3.0, 2.0], 5)] {
        let given = found([scores(), attended.clone()].concat(), x);
        assert!((given - wanted(count, false)).abs() < 1e-4, "{given}");
        let mask = vec![
            node("LessOrEqual", &["line", "column"], "earlier"),
            node("Where", &["earlier", "scores", "low"], "kept"),
            with(node("Softmax", &["kept"], "shares"), "axis", &[-1]),
        ];
        let given = found([scores(), mask, attended[1..].to_vec()].concat(), x);
        assert!((given - wanted(count, true)).abs() < 1e-4, "{given}");
    }
    // Sums of one axis leave the other, and such values are no outputs.
    let sums =
        vec![with(node("ReduceMax", &["scores", "list"], "most"), "keepdims", &[0]), node("ReduceSum", &["most"], "y")];
    assert_eq!(found([scores(), sums].concat(), [1.0, 2.0]), 6.0);
    let error = read(true, [scores(), vec![node("Exp", &["scores"], "y")]].concat(), None).unwrap_err();
    assert!(error.contains("depend"), "{error}");
}
