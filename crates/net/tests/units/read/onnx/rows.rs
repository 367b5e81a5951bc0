//! Rows at the places where a mask is true, and nodes without readers.

use super::{close, extent, float_info, node};
use anemone_net::eval::eval;
use anemone_net::read::{MemoryFiles, Options, read_onnx};
use anemone_net::testing::onnx::{Attribute, Graph, Model, Node, OpsetId, Tensor as Stored, ValueInfo};
use anemone_net::{Counted, Net, Tensor};
use prost::Message;

fn with(mut node: Node, name: &str, text: &str) -> Node {
    node.attribute.push(Attribute { name: name.into(), s: text.as_bytes().to_vec().into(), ..Attribute::default() });
    node
}

fn read(node: Vec<Node>, output: &[&str]) -> Result<Net, String> {
    let whole = |name: &str, values: &[i64]| Stored {
        dims: vec![values.len() as i64],
        name: name.into(),
        data_type: 7,
        int64_data: values.to_vec(),
        ..Stored::default()
    };
    let limit = Stored { name: "limit".into(), data_type: 1, float_data: vec![0.5], ..Stored::default() };
    let graph = Graph {
        node,
        initializer: vec![
            whole("one", &[1]),
            whole("ones", &[1, 1]),
            whole("two", &[2]),
            whole("three", &[3]),
            whole("most", &[i64::from(i32::MAX)]),
            whole("zero", &[0]),
            whole("less", &[-1]),
            whole("least", &[-9]),
            whole("columns", &[0, 1, 0, 0]),
            whole("extents", &[3, 2]),
            limit,
            Stored {
                dims: vec![2],
                name: "halves".into(),
                data_type: 1,
                float_data: vec![0.5; 2],
                ..Stored::default()
            },
        ],
        input: vec![float_info("x", vec![extent(3), extent(2)]), float_info("m", vec![extent(3)])],
        output: output.iter().map(|name| ValueInfo { name: name.to_string(), ty: None }).collect(),
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
    let model = Model { graph: Some(graph), opset_import, ..Model::default() };
    let read = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default());
    read.map(|(net, _)| net).map_err(|e| e.to_string())
}

fn transposed(mut node: Node, perm: &[i64]) -> Node {
    node.attribute.push(Attribute { name: "perm".into(), ints: perm.to_vec(), ..Attribute::default() });
    node
}

/// Rows of `x` where `m` is above the limit.
fn chosen() -> Vec<Node> {
    vec![
        node("Greater", &["m", "limit"], "mask"),
        node("NonZero", &["mask"], "places"),
        node("Squeeze", &["places", "zero"], "rows"),
        node("Gather", &["x", "rows"], "some"),
    ]
}

fn run(net: &Net, mask: [f32; 3]) -> Vec<f32> {
    let x = Tensor::f32([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    eval(net, &[x, Tensor::f32([3], mask.to_vec())]).expect("it runs")[0].data.to_f32()
}

#[test]
fn rows_at_places_end_in_a_scatter() {
    let mut nodes = chosen();
    nodes.push(node("Exp", &["some"], "e"));
    nodes.push(node("Log", &["e"], "same"));
    nodes.push(node("Unsqueeze", &["rows", "one"], "at"));
    let mut added = nodes.clone();
    added.push(with(node("ScatterND", &["x", "at", "same"], "y"), "reduction", "add"));
    let net = read(added, &["y"]).expect("a network");
    let near = |found: Vec<f32>, wanted: [f32; 6]| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} {wanted:?}");
    };
    near(run(&net, [1.0, 0.0, 1.0]), [2.0, 4.0, 3.0, 4.0, 10.0, 12.0]);
    near(run(&net, [0.0; 3]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let mut written = nodes;
    written.push(node("Neg", &["same"], "less"));
    written.push(node("ScatterND", &["x", "at", "less"], "y"));
    let net = read(written, &["y"]).expect("a network");
    near(run(&net, [0.0, 1.0, 0.0]), [1.0, 2.0, -3.0, -4.0, 5.0, 6.0]);
    near(run(&net, [1.0; 3]), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
}

/// Sums, means, maxima, and products of rows with rows, are those of the rows at true places.
#[test]
fn functions_across_rows_leave_out_the_other_places() {
    let across = |kind: &str, mask: [f32; 3]| {
        let mut nodes = chosen();
        match kind {
            "MatMul" => {
                nodes.push(node("Transpose", &["some"], "columns"));
                nodes.push(node("MatMul", &["columns", "some"], "y"));
            }
            _ => nodes.push(node(kind, &["some", "zero"], "y")),
        }
        run(&read(nodes, &["y"]).expect("a network"), mask)
    };
    assert_eq!(across("ReduceSum", [1.0, 0.0, 1.0]), [6.0, 8.0]);
    assert_eq!(across("ReduceSum", [0.0; 3]), [0.0, 0.0]);
    assert_eq!(across("ReduceMean", [1.0, 0.0, 1.0]), [3.0, 4.0]);
    assert_eq!(across("ReduceMax", [1.0, 1.0, 0.0]), [3.0, 4.0]);
    assert_eq!(across("ReduceMin", [0.0, 1.0, 1.0]), [3.0, 4.0]);
    assert_eq!(across("MatMul", [0.0, 1.0, 0.0]), [9.0, 12.0, 12.0, 16.0]);
}

/// A mask repeated for each element of a row has the rows of the mask, as elements.
#[test]
fn elements_of_rows_are_written_by_a_repeated_mask() {
    let mut nodes = chosen();
    nodes.push(node("Neg", &["some"], "less_rows"));
    nodes.push(node("Reshape", &["less_rows", "less"], "flat"));
    nodes.push(node("Unsqueeze", &["mask", "one"], "column"));
    nodes.push(node("Shape", &["x"], "extents"));
    nodes.push(node("Expand", &["column", "extents"], "wide"));
    nodes.push(node("NonZero", &["wide"], "elements"));
    nodes.push(node("Transpose", &["elements"], "at"));
    nodes.push(node("ScatterND", &["x", "at", "flat"], "y"));
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(run(&net, [0.0, 1.0, 1.0]), [1.0, 2.0, -3.0, -4.0, -5.0, -6.0]);
    assert_eq!(run(&net, [0.0; 3]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// Rows behind which others follow, as edges of a graph without loops and then a loop for each node: also where the model adds their numbers.
#[test]
fn joined_rows_are_scattered_together() {
    let mut nodes = chosen();
    nodes.push(node("Shape", &["rows"], "extent"));
    nodes.push(node("Concat", &["rows", "zero"], "at"));
    nodes.push(node("Add", &["extent", "one"], "count"));
    nodes.push(node("Gather", &["x", "at"], "taken"));
    nodes.push(node("Concat", &["count", "one"], "wide"));
    nodes.push(node("Unsqueeze", &["at", "one"], "column"));
    nodes.push(node("Expand", &["column", "wide"], "spots"));
    nodes.push(with(node("ScatterND", &["x", "spots", "taken"], "y"), "reduction", "add"));
    let added = read(nodes.clone(), &["y"]).expect("a network");
    assert_eq!(run(&added, [0.0, 1.0, 1.0]), [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
    assert_eq!(run(&added, [1.0, 0.0, 0.0]), [3.0, 6.0, 3.0, 4.0, 5.0, 6.0]);
    nodes.pop();
    nodes.push(node("Neg", &["taken"], "less_rows"));
    nodes.push(with(node("ScatterND", &["x", "spots", "less_rows"], "y"), "reduction", "min"));
    let least = read(nodes, &["y"]).expect("a network");
    assert_eq!(run(&least, [0.0, 0.0, 1.0]), [-1.0, -2.0, 3.0, 4.0, -5.0, -6.0]);
}

/// A number of rows that the model counts by itself is an extent, and an operand of arithmetic.
#[test]
fn the_sum_of_a_mask_is_the_number_of_its_rows() {
    let mut nodes = chosen();
    let whole = Attribute { name: "to".into(), i: 6, ..Attribute::default() };
    let mut cast = node("Cast", &["mask"], "numbers");
    cast.attribute.push(whole);
    nodes.push(cast);
    nodes.push(node("ReduceSum", &["numbers"], "count"));
    nodes.push(node("Expand", &["limit", "count"], "halves"));
    nodes.push(node("ReduceSum", &["halves", "zero"], "half"));
    nodes.push(node("Mul", &["count", "count"], "square"));
    let mut cast = node("Cast", &["square"], "float");
    cast.attribute.push(Attribute { name: "to".into(), i: 1, ..Attribute::default() });
    nodes.push(cast);
    nodes.push(node("ReduceSum", &["some", "zero"], "sum"));
    nodes.push(node("Add", &["sum", "half"], "more"));
    nodes.push(node("Add", &["more", "float"], "y"));
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [11.0, 13.0]);
}

/// Positions among rows count those that the model has.
#[test]
fn positions_are_numbers_of_real_rows() {
    let along = |mut node: Node, axis: i64| {
        node.attribute.push(Attribute { name: "axis".into(), i: axis, ..Attribute::default() });
        node
    };
    let of = |more: Vec<Node>, mask: [f32; 3]| run(&read([chosen(), more].concat(), &["y"]).expect("a network"), mask);
    let found = |op: &str| vec![along(node(op, &["some"], "y"), 0)];
    assert_eq!(of(found("ArgMax"), [1.0, 0.0, 1.0]), [1.0, 1.0]);
    assert_eq!(of(found("ArgMin"), [0.0, 1.0, 1.0]), [0.0, 0.0]);
    let last = || vec![node("Gather", &["some", "less"], "y")];
    assert_eq!(of(last(), [1.0, 1.0, 0.0]), [3.0, 4.0]);
    assert_eq!(of(last(), [0.0, 1.0, 1.0]), [5.0, 6.0]);
    let best = |result: &str| {
        let mut top = along(node("TopK", &["some", "one"], if result == "values" { "y" } else { "values" }), 0);
        top.output.push(if result == "values" { "at" } else { "y" }.into());
        vec![top]
    };
    assert_eq!(of(best("values"), [1.0, 1.0, 0.0]), [3.0, 4.0]);
    assert_eq!(of(best("at"), [0.0, 1.0, 1.0]), [1.0, 1.0]);
    let column = || {
        let one = along(node("Gather", &["some", "zero"], "one_column"), 1);
        vec![one, node("Squeeze", &["one_column", "one"], "column")]
    };
    // All rows in order, as many as there are; the first two of these, their sum, and the first.
    let sorted = |last: Node| {
        let mut top = node("TopK", &["column", "count"], "values");
        top.output.push("order".into());
        let extent = [node("Shape", &["some"], "extents"), node("Gather", &["extents", "zero"], "count")];
        let rest = vec![top, node("Gather", &["some", "order"], "sorted"), last];
        [column(), extent.to_vec(), rest].concat()
    };
    let first = || node("Gather", &["sorted", "zero"], "y");
    let sum = || node("ReduceSum", &["sorted", "zero"], "y");
    assert_eq!(of(sorted(first()), [1.0, 1.0, 0.0]), [3.0, 4.0]);
    assert_eq!(of(sorted(first()), [1.0, 0.0, 0.0]), [1.0, 2.0]);
    assert_eq!(of(sorted(sum()), [1.0, 1.0, 0.0]), [4.0, 6.0]);
    assert_eq!(of(sorted(sum()), [1.0; 3]), [9.0, 12.0]);
    // Rows whose first column is above two.
    let within = || {
        let nodes = [
            node("Mul", &["column", "limit"], "halves"),
            node("Sub", &["halves", "limit"], "less_halves"),
            node("Greater", &["less_halves", "limit"], "large"),
            node("NonZero", &["large"], "inner_places"),
            node("Squeeze", &["inner_places", "zero"], "inner_rows"),
            node("Gather", &["some", "inner_rows"], "inner"),
            node("ReduceSum", &["inner", "zero"], "y"),
        ];
        [column(), nodes.to_vec()].concat()
    };
    assert_eq!(of(within(), [1.0, 0.0, 1.0]), [5.0, 6.0]);
    assert_eq!(of(within(), [1.0; 3]), [8.0, 10.0]);
    assert_eq!(of(within(), [1.0, 0.0, 0.0]), [0.0, 0.0]);
}

#[test]
fn what_depends_on_their_number_is_refused() {
    let mut nodes = chosen();
    nodes.push(node("Trilu", &["some"], "y"));
    let error = read(nodes, &["y"]).unwrap_err();
    assert!(error.contains("NonZero") && error.contains("static") && error.contains("to Trilu `y`"), "{error}");
    // Rows in reverse order are at other places.
    let mut nodes = chosen();
    nodes.push(node("Slice", &["some", "less", "least", "zero", "less"], "turned"));
    nodes.push(node("Unsqueeze", &["rows", "one"], "at"));
    nodes.push(with(node("ScatterND", &["x", "at", "turned"], "y"), "reduction", "add"));
    assert!(read(nodes, &["y"]).unwrap_err().contains("NonZero"));
}

/// The mask of the scatter is computed a second time, in other extents.
#[test]
fn masks_of_the_same_elements_are_one() {
    let of_runtime = |node: Node| Node { domain: "com.microsoft".into(), ..node };
    let scattered = |limit: &str| {
        let nodes = vec![
            node("Greater", &["m", "limit"], "above"),
            node("Not", &["above"], "mask"),
            node("NonZero", &["mask"], "places"),
            transposed(node("Transpose", &["places"], "rows"), &[1, 0]),
            node("GatherND", &["x", "rows"], "some"),
            node("Exp", &["some"], "grown"),
            of_runtime(node("QuickGelu", &["grown"], "changed")),
            node("Unsqueeze", &["m", "one"], "column"),
            node("Greater", &["column", limit], "second"),
            node("Not", &["second"], "other"),
            node("Expand", &["other", "extents"], "wide"),
            node("NonZero", &["wide"], "all"),
            transposed(node("Transpose", &["all"], "list"), &[1, 0]),
            node("Reshape", &["changed", "less"], "flat"),
            node("Shape", &["list"], "shape"),
            node("Gather", &["shape", "zero"], "count"),
            node("Slice", &["flat", "zero", "count", "zero"], "updates"),
            node("ScatterND", &["x", "list", "updates"], "y"),
        ];
        read(nodes, &["y"])
    };
    let grown = |x: f32| x.exp() / (1.0 + (-1.702 * x.exp()).exp());
    let found = run(&scattered("limit").expect("a network"), [1.0, 0.0, 1.0]);
    close(&Tensor::f32([6], found), &[1.0, 2.0, grown(3.0), grown(4.0), 5.0, 6.0]);
    assert!(scattered("halves").is_err());
}

/// An output has the real rows first, and their number beside it.
#[test]
fn outputs_have_real_rows_first() {
    let net = read(chosen(), &["some"]).expect("a network");
    let names: Vec<&str> = net.outputs.iter().map(|&id| net.value(id).name.as_str()).collect();
    assert_eq!(names, ["some", "some_count"]);
    assert_eq!(net.counted, [Counted { rows: net.outputs[0], count: net.outputs[1], axis: 0 }]);
    let of = |net: &Net, mask: [f32; 3]| {
        let x = Tensor::f32([3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let made = eval(net, &[x, Tensor::f32([3], mask.to_vec())]).expect("it runs");
        made.iter().map(|t| t.data.to_f32()).collect::<Vec<_>>()
    };
    assert_eq!(of(&net, [0.0, 1.0, 1.0]), [vec![3.0, 4.0, 5.0, 6.0, 0.0, 0.0], vec![2.0]]);
    assert_eq!(of(&net, [0.0; 3]), [vec![0.0; 6], vec![0.0]]);
    // An output of the model may have that name, and is no number of rows.
    let mut nodes = chosen();
    nodes.push(node("Add", &["m", "m"], "some_count"));
    let net = read(nodes, &["some", "some_count"]).expect("a network");
    let [counted] = &net.counted[..] else { panic!("{:?}", net.counted) };
    assert_eq!(net.value(counted.rows).name, "some");
    assert_ne!(net.value(counted.count).name, "some_count");
    assert!(net.find("some_count").is_some_and(|own| net.outputs.contains(&own)));
    let mut nodes = chosen();
    nodes.push(node("Shape", &["some"], "y"));
    assert_eq!(of(&read(nodes, &["y"]).expect("a network"), [1.0, 0.0, 1.0]), [[2.0, 2.0]]);
}

/// Slices and splits count the real rows.
#[test]
fn parts_are_of_real_rows() {
    let sum = || node("ReduceSum", &["part", "zero"], "y");
    let of = |part: Vec<Node>, mask: [f32; 3]| {
        run(&read([chosen(), part, vec![sum()]].concat(), &["y"]).expect("a network"), mask)
    };
    let first = || vec![node("Slice", &["some", "zero", "one", "zero"], "part")];
    assert_eq!(of(first(), [0.0, 1.0, 1.0]), [3.0, 4.0]);
    assert_eq!(of(first(), [0.0; 3]), [0.0, 0.0]);
    let behind = || vec![node("Slice", &["some", "one", "most", "zero"], "part")];
    assert_eq!(of(behind(), [1.0, 0.0, 1.0]), [5.0, 6.0]);
    assert_eq!(of(behind(), [1.0, 0.0, 0.0]), [0.0, 0.0]);
    let last = || vec![node("Slice", &["some", "less", "most", "zero"], "part")];
    assert_eq!(of(last(), [1.0, 1.0, 0.0]), [3.0, 4.0]);
    let but_last = || vec![node("Slice", &["some", "zero", "less", "zero"], "part")];
    assert_eq!(of(but_last(), [1.0, 1.0, 1.0]), [4.0, 6.0]);
    assert_eq!(of(but_last(), [1.0, 0.0, 0.0]), [0.0, 0.0]);
    let split = || {
        let mut split = node("Split", &["some", "ones"], "first");
        split.output.push("part".into());
        vec![split]
    };
    assert_eq!(of(split(), [0.0, 1.0, 1.0]), [5.0, 6.0]);
    // Bounds and sizes that are computed: all rows, of which those within are real.
    let to = |name: &str| {
        let mut cast = node("Cast", &["m"], "whole");
        cast.attribute.push(Attribute { name: "to".into(), i: 7, ..Attribute::default() });
        vec![cast, node("Slice", &["whole", "zero", "one", "zero"], name)]
    };
    let computed = |slice: Node| [to("bound"), vec![slice]].concat();
    let of =
        |part: Vec<Node>, mask: [f32; 3]| run(&read([part, vec![sum()]].concat(), &["y"]).expect("a network"), mask);
    let until = || computed(node("Slice", &["x", "zero", "bound", "zero"], "part"));
    assert_eq!(of(until(), [2.0, 0.0, 0.0]), [4.0, 6.0]);
    assert_eq!(of(until(), [-2.0, 0.0, 0.0]), [1.0, 2.0]);
    assert_eq!(of(until(), [9.0, 0.0, 0.0]), [9.0, 12.0]);
    // Without axes, of the first.
    let until = || computed(node("Slice", &["x", "zero", "bound"], "part"));
    assert_eq!(of(until(), [2.0, 0.0, 0.0]), [4.0, 6.0]);
    // As many of the best as are asked for.
    let best = |asked: f32| {
        let mut best = node("TopK", &["x", "bound"], "part");
        best.attribute.push(Attribute { name: "axis".into(), i: 0, ..Attribute::default() });
        of(computed(best), [asked, 0.0, 0.0])
    };
    assert_eq!((best(2.0), best(0.0)), (vec![8.0, 10.0], vec![0.0, 0.0]));
    // Padding of other axes keeps the rows.
    let mut pad = node("Pad", &["some", "columns"], "part");
    pad.attribute.push(Attribute { name: "mode".into(), s: b"edge".to_vec().into(), ..Attribute::default() });
    let padded = run(&read([chosen(), vec![pad, sum()]].concat(), &["y"]).expect("a network"), [1.0, 0.0, 1.0]);
    assert_eq!(padded, [6.0, 6.0, 8.0]);
    let from = || computed(node("Slice", &["x", "bound", "most", "zero"], "part"));
    assert_eq!(of(from(), [1.0, 0.0, 0.0]), [8.0, 10.0]);
    let sizes = || {
        let mut split = node("Split", &["x", "whole"], "first");
        split.output.extend(["part".into(), "third".into()]);
        [to("bound"), vec![split]].concat()
    };
    assert_eq!(of(sizes(), [1.0, 2.0, 0.0]), [8.0, 10.0]);
    assert_eq!(of(sizes(), [2.0, 0.0, 1.0]), [0.0, 0.0]);
}

/// A slice of as many elements as its end lies behind its start is there in whole, wherever it begins.
#[test]
fn slices_move() {
    let mut cast = node("Cast", &["m"], "whole");
    cast.attribute.push(Attribute { name: "to".into(), i: 7, ..Attribute::default() });
    let part = |end: Node| vec![cast.clone(), node("Slice", &["whole", "zero", "one", "zero"], "from"), end];
    let moved = |end: Node| {
        let nodes = [part(end), vec![node("Slice", &["x", "from", "to", "zero"], "y")]].concat();
        read(nodes, &["y"]).expect("a network")
    };
    let one = moved(node("Add", &["from", "one"], "to"));
    assert_eq!(one.value(one.outputs[0]).ty.shape, [1, 2]);
    assert_eq!(run(&one, [1.0, 0.0, 0.0]), [3.0, 4.0]);
    assert_eq!(run(&one, [-2.0, 0.0, 0.0]), [3.0, 4.0]);
    let x = Tensor::f32([3, 2], vec![0.0; 6]);
    // From the last element to the first there is none.
    for start in [3.0, -1.0, -4.0] {
        assert!(eval(&one, &[x.clone(), Tensor::f32([3], vec![start, 0.0, 0.0])]).is_err(), "{start}");
    }
    let second = {
        let end = node("Add", &["from", "three"], "to");
        read([part(end), vec![node("Slice", &["x", "from", "to", "zero", "two"], "y")]].concat(), &["y"])
            .expect("a network")
    };
    assert_eq!(run(&second, [0.0; 3]), [1.0, 2.0, 5.0, 6.0]);
    assert!(eval(&second, &[x.clone(), Tensor::f32([3], vec![1.0, 0.0, 0.0])]).is_err());
    // Two axes, of which one is at a constant place.
    let mut starts = node("Concat", &["from", "zero"], "starts");
    starts.attribute.push(Attribute { name: "axis".into(), i: 0, ..Attribute::default() });
    let mut sizes = node("Concat", &["one", "one"], "sizes");
    sizes.attribute.push(Attribute { name: "axis".into(), i: 0, ..Attribute::default() });
    let nodes = [part(starts), vec![sizes, node("Add", &["starts", "sizes"], "ends")]].concat();
    let nodes = [nodes, vec![node("Slice", &["x", "starts", "ends"], "y")]].concat();
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(net.value(net.outputs[0]).ty.shape, [1, 1]);
    assert_eq!(run(&net, [2.0, 0.0, 0.0]), [5.0]);
}

/// The last of several real rows for one place is written; a row for a place is one of the rows of a mask, by number.
#[test]
fn the_last_row_for_a_place_is_written() {
    let mut nodes = chosen();
    nodes.push(node("Mul", &["rows", "zero"], "first"));
    nodes.push(node("Unsqueeze", &["first", "one"], "at"));
    nodes.push(node("ScatterND", &["x", "at", "some"], "y"));
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(run(&net, [1.0, 1.0, 0.0]), [3.0, 4.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(run(&net, [0.0; 3]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    // Doubled where the first column is above one, among the chosen rows.
    let mut nodes = chosen();
    nodes.push(node("Slice", &["some", "zero", "one", "one"], "column"));
    nodes.push(node("Squeeze", &["column", "one"], "values"));
    nodes.push(node("Mul", &["values", "limit"], "halves"));
    nodes.push(node("Greater", &["halves", "limit"], "above"));
    nodes.push(node("NonZero", &["above"], "found"));
    nodes.push(transposed(node("Transpose", &["found"], "inner"), &[1, 0]));
    nodes.push(node("GatherND", &["some", "inner"], "picked"));
    nodes.push(node("Add", &["picked", "picked"], "doubled"));
    nodes.push(node("ScatterND", &["some", "inner", "doubled"], "mixed"));
    nodes.push(node("ReduceSum", &["mixed", "zero"], "y"));
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(run(&net, [1.0, 1.0, 0.0]), [7.0, 10.0]);
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [11.0, 14.0]);
}

/// Rows chosen by a condition.
#[test]
fn rows_are_chosen_by_conditions() {
    let compress = |axis: i64| {
        let mut node = node("Compress", &["x", "mask"], "part");
        node.attribute.push(Attribute { name: "axis".into(), i: axis, ..Attribute::default() });
        vec![chosen()[0].clone(), node, self::node("ReduceSum", &["part", "zero"], "y")]
    };
    assert_eq!(run(&read(compress(0), &["y"]).expect("a network"), [1.0, 0.0, 1.0]), [6.0, 8.0]);
}

#[test]
fn nodes_that_nothing_reads_are_left_out() {
    let mut nodes = chosen();
    nodes.push(node("Relu", &["x"], "y"));
    let net = read(nodes, &["y"]).expect("a network");
    assert_eq!(net.ops.len(), 1);
    assert_eq!(run(&net, [0.0; 3]), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

/// Rows that are quantized by one scale, or by one for each column, stay rows.
#[test]
fn quantized_rows_are_rows() {
    let axis = |mut node: Node, axis: i64| {
        node.attribute.push(Attribute { name: "axis".into(), i: axis, ..Attribute::default() });
        node
    };
    let of = |scale: &str, along: i64| {
        let mut nodes = chosen();
        nodes.push(axis(node("QuantizeLinear", &["some", scale], "q"), along));
        nodes.push(axis(node("DequantizeLinear", &["q", scale], "rounded"), along));
        nodes.push(node("ReduceSum", &["rounded", "zero"], "y"));
        read(nodes, &["y"])
    };
    let net = of("limit", 1).expect("one scale");
    assert_eq!(run(&net, [1.0, 0.0, 1.0]), [6.0, 8.0]);
    let net = of("halves", 1).expect("a scale for each column");
    assert_eq!(run(&net, [0.0, 1.0, 1.0]), [8.0, 10.0]);
}
