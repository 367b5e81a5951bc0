//! Small ONNX models written here. The operators themselves are held to the `onnx` package's tests by
//! `scripts/onnx_backend.py`.

mod attended;
mod counts;
mod ensembles;
mod lengths;
mod loops;
mod masked;
mod optimized;
mod refused;
mod resize;
mod rows;
mod sampled;
mod sequence;
mod spectrum;
mod states;
mod suppressed;
mod values;

use anemone_net::Error;
use anemone_net::check::check;
use anemone_net::eval::eval;
use anemone_net::graph::DType;
use anemone_net::read::{MemoryFiles, Options, outline_onnx, read_onnx, sniff};
use anemone_net::testing::element;
use anemone_net::testing::onnx::{
    Attribute, Dim, Entry, Graph, Model, Node, OpsetId, Shape, Tensor, TensorType, Type, ValueInfo,
};
use prost::Message;

pub(super) fn float_info(name: &str, dims: Vec<Dim>) -> ValueInfo {
    let tensor = TensorType { element: 1, shape: Some(Shape { dim: dims }) };
    ValueInfo { name: name.into(), ty: Some(Type { tensor: Some(tensor) }) }
}

pub(super) fn extent(value: i64) -> Dim {
    Dim { value: Some(value), param: None }
}

pub(super) fn node(op: &str, input: &[&str], output: &str) -> Node {
    let input = input.iter().map(|s| s.to_string()).collect();
    Node { op_type: op.into(), input, output: vec![output.into()], ..Node::default() }
}

/// `y = x w`, with `w` in a file of its own and a batch of unknown extent.
fn model() -> Model {
    let entry = |key: &str, value: &str| Entry { key: key.into(), value: value.into() };
    let weight = Tensor {
        dims: vec![2, 2],
        data_type: 1,
        name: "w".into(),
        data_location: 1,
        external_data: vec![entry("location", "w.bin"), entry("offset", "4"), entry("length", "16")],
        ..Tensor::default()
    };
    let batch = Dim { value: None, param: Some("N".into()) };
    let graph = Graph {
        node: vec![node("MatMul", &["x", "w"], "/mm/out"), node("Relu", &["/mm/out"], "y")],
        name: "g".into(),
        initializer: vec![weight],
        input: vec![float_info("x", vec![batch, extent(2)])],
        output: vec![float_info("y", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }
}

fn files() -> MemoryFiles {
    let bytes: Vec<u8> = [9.0f32, 1.0, -1.0, 2.0, 0.5].iter().flat_map(|v| v.to_le_bytes()).collect();
    MemoryFiles([("w.bin".to_string(), bytes.into())].into())
}

#[test]
fn a_model_with_external_weights_and_a_symbolic_batch() {
    let bytes = model().encode_to_vec();
    assert_eq!(sniff(&bytes), Some(anemone_net::read::Format::Onnx));
    let error = read_onnx(&bytes, &files(), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "input `x`: axis 0 has no extent; give one for `N`");
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    let (net, _) = read_onnx(&bytes, &files(), &options).unwrap();
    check(&net).unwrap();
    assert_eq!(net.value(net.outputs[0]).name, "y");
    let x = anemone_net::graph::Tensor::f32([1, 2], vec![3.0, 4.0]);
    assert_eq!(eval(&net, &[x]).unwrap()[0].data.to_f32(), [11.0, 0.0]);
    let missing = read_onnx(&bytes, &MemoryFiles::default(), &options).unwrap_err();
    assert!(matches!(missing, Error::File { .. }), "{missing}");
}

#[test]
fn arrays_give_open_extents() {
    let mut two = model();
    let graph = two.graph.as_mut().unwrap();
    let mut other = graph.input.iter().find(|i| i.name == "x").unwrap().clone();
    other.name = "z".to_string();
    graph.input.push(other);
    let (one, two) = (model().encode_to_vec(), two.encode_to_vec());
    let read = |bytes: &[u8], shapes: &[(&str, &[usize])], extents: &[(&str, usize)]| {
        let shapes = shapes.iter().map(|(name, shape)| (name.to_string(), shape.to_vec())).collect();
        let extents = extents.iter().map(|(name, n)| (name.to_string(), *n)).collect();
        let options = Options { shapes, extents, ..Options::default() };
        let inputs = |(net, _): (anemone_net::Net, Vec<String>)| {
            net.inputs.iter().map(|&id| net.value(id).ty.shape[0]).collect::<Vec<_>>()
        };
        read_onnx(bytes, &files(), &options).map(inputs).map_err(|e| e.to_string())
    };
    assert_eq!(read(&one, &[("x", &[3, 2])], &[]), Ok(vec![3]));
    assert_eq!(read(&one, &[("", &[3, 2])], &[]), Ok(vec![3]));
    // An extent that is asked for comes first; the array does not fit then, which is told when it is bound.
    assert_eq!(read(&one, &[("x", &[3, 2])], &[("N", 4)]), Ok(vec![4]));
    let open = Err("input `x`: axis 0 has no extent; give one for `N`".to_string());
    assert_eq!(read(&one, &[("x", &[3])], &[]), open);
    assert_eq!(read(&one, &[("x", &[0, 2])], &[]), open);
    assert_eq!(read(&two, &[("", &[3, 2])], &[]), open);
    assert_eq!(read(&two, &[("z", &[3, 2])], &[]), Ok(vec![3, 3]));
    let differ = "the dimension `N` is 3 in the array of one input and 5 in that of input `z`";
    assert_eq!(read(&two, &[("x", &[3, 2]), ("z", &[5, 2])], &[]), Err(differ.to_string()));
}

#[test]
fn refusals_name_the_operator() {
    let mut odd = model();
    odd.graph.as_mut().unwrap().node[1] = node("RandomUniformLike", &["/mm/out"], "y");
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    let error = read_onnx(&odd.encode_to_vec(), &files(), &options).unwrap_err().to_string();
    assert!(error.contains("`y`: RandomUniformLike") && error.contains("would not repeat"), "{error}");
    // Operators that are not for inference: the error says what to use instead.
    for (domain, op, advice) in [
        ("ai.onnx.preview.training", "Adam", "for inference"),
        ("ai.onnx.ml", "ZipMap", "Export without them"),
        ("ai.onnx.ml", "CategoryMapper", "Run it on the host"),
        ("com.example", "Fused", "the domain com.example. Export with operators of ai.onnx"),
    ] {
        odd.graph.as_mut().unwrap().node[1] = Node { domain: domain.into(), ..node(op, &["/mm/out"], "y") };
        let error = read_onnx(&odd.encode_to_vec(), &files(), &options).unwrap_err().to_string();
        assert!(error.contains(&format!("`y`: {op}")) && error.contains(advice), "{error}");
    }
}

#[test]
fn damaged_models_end_in_errors() {
    let whole = model().encode_to_vec();
    let options = Options { extents: [("N".to_string(), 1)].into(), ..Options::default() };
    for end in 0..whole.len() {
        let _ = read_onnx(&whole[..end], &files(), &options);
    }
    for at in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        if let Ok((net, _)) = read_onnx(&flipped, &files(), &options) {
            let _ = check(&net);
        }
    }
    assert_eq!(element(9).and_then(|e| e.dtype()), Some(DType::Bool));
}

/// A detector's end: what depends on values is outlined for the host, and the rest as it is.
#[test]
fn nodes_of_open_extents_are_outlined_for_the_host() {
    let integers = |name: &str, values: &[i64]| Tensor {
        dims: vec![values.len() as i64],
        data_type: 7,
        int64_data: values.to_vec(),
        name: name.into(),
        ..Tensor::default()
    };
    let graph = Graph {
        node: vec![
            node("Relu", &["boxes"], "b"),
            node("Sigmoid", &["scores"], "s"),
            node("NonMaxSuppression", &["b", "s", "most", "overlap"], "selected"),
            node("Cast", &["selected"], "after"),
        ],
        name: "g".into(),
        initializer: vec![integers("most", &[0])],
        input: vec![
            float_info("boxes", [1, 6, 4].map(extent).to_vec()),
            float_info("scores", [1, 2, 6].map(extent).to_vec()),
            float_info("overlap", vec![extent(1)]),
        ],
        output: vec![float_info("after", vec![]), float_info("s", vec![])],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let bytes = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] }.encode_to_vec();
    assert!(matches!(read_onnx(&bytes, &files(), &Options::default()), Err(Error::Unsupported { .. })));
    let (outline, notes) = outline_onnx(&bytes, &files(), &Options::default()).unwrap();
    let ops: Vec<&str> = outline.ops.iter().map(|op| op.op.as_str()).collect();
    assert_eq!(ops.iter().filter(|op| matches!(**op, "relu" | "sigmoid")).count(), 2, "{ops:?}");
    assert!(ops.ends_with(&["non_maximum_suppression", "Cast"]), "{ops:?}");
    let last = outline.ops.last().unwrap();
    assert_eq!(last.outputs[0].ty.shape, [None]);
    assert!(notes.iter().any(|n| n.contains("NonMaxSuppression `selected`")), "{notes:?}");
    // Malformed nodes are refused as before.
    let plain = model().encode_to_vec();
    assert!(matches!(outline_onnx(&plain, &files(), &Options::default()), Err(Error::NoExtent { .. })));
}

/// Results of one operator: float inputs `x`, `y`, ..., then integer initializers, by extents and elements.
fn one(
    op: &str,
    floats: &[(&[i64], &[f32])],
    integers: &[(&[i64], &[i64])],
    attributes: &[(&str, i64)],
    outputs: usize,
) -> Result<Vec<anemone_net::graph::Tensor>, Error> {
    one_of("", op, floats, integers, attributes, outputs)
}

/// As [`one`], for an operator of this domain.
fn one_of(
    domain: &str,
    op: &str,
    floats: &[(&[i64], &[f32])],
    integers: &[(&[i64], &[i64])],
    attributes: &[(&str, i64)],
    outputs: usize,
) -> Result<Vec<anemone_net::graph::Tensor>, Error> {
    let names: Vec<String> = (0..floats.len() + integers.len()).map(|i| format!("in{i}")).collect();
    let (inputs, constants) = names.split_at(floats.len());
    let attribute = |&(name, i): &(&str, i64)| Attribute { name: name.into(), i, ..Attribute::default() };
    let initializer = |(name, (dims, values)): (&String, &(&[i64], &[i64]))| Tensor {
        dims: dims.to_vec(),
        data_type: 7,
        int64_data: values.to_vec(),
        name: name.clone(),
        ..Tensor::default()
    };
    let graph = Graph {
        node: vec![Node {
            op_type: op.into(),
            domain: domain.into(),
            input: names.clone(),
            output: (0..outputs).map(|i| format!("out{i}")).collect(),
            attribute: attributes.iter().map(attribute).collect(),
            ..Node::default()
        }],
        name: "g".into(),
        initializer: constants.iter().zip(integers).map(initializer).collect(),
        input: inputs
            .iter()
            .zip(floats)
            .map(|(n, f)| float_info(n, f.0.iter().map(|&d| extent(d)).collect()))
            .collect(),
        output: (0..outputs).map(|i| float_info(&format!("out{i}"), vec![])).collect(),
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 28 }];
    let model = Model { ir_version: 10, graph: Some(graph), opset_import, functions: vec![] };
    let (net, _) = read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default())?;
    check(&net).map_err(|mut e| e.swap_remove(0))?;
    let tensor = |(dims, values): &(&[i64], &[f32])| {
        anemone_net::graph::Tensor::f32(dims.iter().map(|&d| d as usize).collect::<Vec<_>>(), values.to_vec())
    };
    eval(&net, &floats.iter().map(tensor).collect::<Vec<_>>())
}

/// Extents and elements of an operand.
type Floats<'a> = (&'a [i64], &'a [f32]);

#[test]
fn operators_of_the_optimizer() {
    let of = |op: &str, floats: &[Floats], attributes: &[(&str, i64)]| {
        one_of("com.microsoft", op, floats, &[], attributes, 1).unwrap().remove(0)
    };
    let (a, b): (Floats, Floats) = ((&[1, 2], &[1.0, 2.0]), (&[2, 2], &[1.0, 2.0, 3.0, 4.0]));
    close(&of("FusedMatMul", &[a, b], &[("transB", 1)]), &[5.0, 11.0]);
    // The sum is 4 and 0; its mean square is 8.
    let skip: Floats = (&[1, 2], &[3.0, -2.0]);
    let gain: Floats = (&[2], &[1.0, 1.0]);
    close(&of("SkipLayerNormalization", &[a, skip, gain], &[]), &[1.0, -1.0]);
    close(&of("SkipSimplifiedLayerNormalization", &[a, skip, gain], &[]), &[2f32.sqrt(), 0.0]);
    // Equal keys: the mean of the values; the only query sees all keys.
    let (q, keys): (Floats, Floats) = ((&[1, 1, 1], &[1.0]), (&[1, 2, 1], &[1.0, 1.0]));
    let values: Floats = (&[1, 2, 1], &[2.0, 6.0]);
    close(&of("MultiHeadAttention", &[q, keys, values], &[("num_heads", 1)]), &[4.0]);
    let hides = of("MultiHeadAttention", &[q, keys, values], &[("num_heads", 1), ("unidirectional", 1)]);
    close(&hides, &[4.0]);
}

fn close(found: &anemone_net::graph::Tensor, expected: &[f32]) {
    let values = found.data.to_f32();
    let near = values.len() == expected.len() && values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5);
    assert!(near, "{values:?}, expected {expected:?}");
}

#[test]
fn losses_weigh_and_ignore() {
    // Two items of three classes; the second one's target is ignored.
    let logs: (&[i64], &[f32]) = (&[2, 3], &[-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    let loss = |targets: &[i64], attributes: &[(&str, i64)]| {
        one("NegativeLogLikelihoodLoss", &[logs], &[(&[2], targets)], attributes, 1).unwrap()
    };
    close(&loss(&[2, 0], &[])[0], &[3.5]);
    close(&loss(&[2, -7], &[("ignore_index", -7)])[0], &[3.0]);
    let both = one("SoftmaxCrossEntropyLoss", &[(&[1, 2], &[0.0, 0.0])], &[(&[1], &[1])], &[], 2).unwrap();
    let ln2 = std::f32::consts::LN_2;
    close(&both[0], &[ln2]);
    close(&both[1], &[-ln2, -ln2]);
}

#[test]
fn attention_hides_and_never_divides_by_nothing() {
    // One head of width one; all keys alike, so that weights are shares of what is seen.
    let (q, k): (&[f32], &[f32]) = (&[1.0, 1.0, 1.0], &[0.0, 0.0, 0.0]);
    let shape: &[i64] = &[1, 1, 3, 1];
    let inputs = [(shape, q), (shape, k), (shape, &[1.0, 2.0, 6.0][..])];
    let run = |attributes: &[(&str, i64)]| one("Attention", &inputs, &[], attributes, 1).unwrap();
    close(&run(&[])[0], &[3.0, 3.0, 3.0]);
    close(&run(&[("is_causal", 1)])[0], &[1.0, 1.5, 3.0]);
    close(&run(&[("left_window_size", 0), ("right_window_size", 1)])[0], &[1.5, 4.0, 6.0]);
    close(&run(&[("is_causal", 1), ("left_window_size", 1)])[0], &[1.0, 1.5, 4.0]);
    // A mask that hides every key of the first query leaves it zero.
    let none = f32::NEG_INFINITY;
    let mask: (&[i64], &[f32]) = (&[3, 3], &[none, none, none, 0.0, none, none, 0.0, 0.0, none]);
    let masked = one("Attention", &[inputs[0], inputs[1], inputs[2], mask], &[], &[], 1).unwrap();
    close(&masked[0], &[0.0, 1.0, 1.5]);
}

#[test]
fn running_products_windows_and_norms() {
    let x: (&[i64], &[f32]) = (&[4], &[1.0, 2.0, 3.0, 4.0]);
    let product = |attributes: &[(&str, i64)]| one("CumProd", &[x], &[(&[], &[0])], attributes, 1).unwrap();
    close(&product(&[])[0], &[1.0, 2.0, 6.0, 24.0]);
    close(&product(&[("exclusive", 1)])[0], &[1.0, 1.0, 2.0, 6.0]);
    close(&product(&[("reverse", 1)])[0], &[24.0, 24.0, 12.0, 4.0]);
    close(&product(&[("reverse", 1), ("exclusive", 1)])[0], &[24.0, 12.0, 4.0, 1.0]);
    close(&one("HannWindow", &[], &[(&[], &[4])], &[], 1).unwrap()[0], &[0.0, 0.5, 1.0, 0.5]);
    close(&one("HannWindow", &[], &[(&[], &[3])], &[("periodic", 0)], 1).unwrap()[0], &[0.0, 1.0, 0.0]);
    let gated = one("SwiGLU", &[(&[2], &[0.0, 2.0]), (&[2], &[5.0, 3.0])], &[], &[], 1).unwrap();
    close(&gated[0], &[0.0, 6.0 / (1.0 + (-2.0f32).exp())]);
    // A cast that would have to round to bfloat16 is refused.
    let error = one("Cast", &[x], &[], &[("to", 16)], 1).unwrap_err().to_string();
    assert!(error.contains("bfloat16"), "{error}");
}

#[test]
fn causal_convolution_carries_its_state() {
    let (x, w, b): ((&[i64], &[f32]), _, _) =
        ((&[1, 1, 3], &[1.0, 2.0, 3.0]), (&[1i64, 1, 2][..], &[10.0, 1.0][..]), (&[1i64][..], &[0.0][..]));
    let fresh = one("CausalConvWithState", &[x, w, b], &[], &[], 2).unwrap();
    close(&fresh[0], &[1.0, 12.0, 23.0]);
    close(&fresh[1], &[3.0]);
    let past = (&[1i64, 1, 1][..], &[5.0][..]);
    let on = one("CausalConvWithState", &[x, w, b, past], &[], &[], 2).unwrap();
    close(&on[0], &[51.0, 12.0, 23.0]);
}

/// A node's result, of integers of 64 bits, on an input `x` of that type and a constant `c`.
fn with_wide(op: &str, c: i64, bytes: Option<Vec<u8>>, output: i32) -> Result<Vec<f32>, Error> {
    let mut constant = Tensor { data_type: 7, ..Tensor::default() };
    match bytes {
        Some(bytes) => constant.raw_data = bytes.into(),
        None => constant.int64_data = vec![c],
    }
    with_constant(op, constant, output)
}

/// A node's result on an input `x` of 1 and -2 and a constant, both of the constant's type.
fn with_constant(op: &str, constant: Tensor, output: i32) -> Result<Vec<f32>, Error> {
    let x = match constant.data_type {
        DOUBLE => anemone_net::graph::Tensor::f32([2], vec![1.0, -2.0]),
        _ => anemone_net::graph::Tensor::i32([2], vec![1, -2]),
    };
    let net = net_with_constant(op, constant, output)?;
    Ok(eval(&net, &[x]).expect("evaluates")[0].data.to_f32())
}

/// A network of a node on an input `x` of two elements and a constant, both of the constant's type.
fn net_with_constant(op: &str, constant: Tensor, output: i32) -> Result<anemone_net::graph::Net, Error> {
    let info = |name: &str, element: i32| {
        let mut info = float_info(name, vec![extent(2)]);
        info.ty = info.ty.map(|ty| Type { tensor: ty.tensor.map(|t| TensorType { element, ..t }) });
        info
    };
    let element = constant.data_type;
    let graph = Graph {
        node: vec![node("Unsqueeze", &["c", "axis"], "u"), node("Squeeze", &["u"], "s"), node(op, &["x", "s"], "y")],
        name: "g".into(),
        initializer: vec![
            Tensor { dims: vec![1], name: "c".into(), ..constant },
            Tensor { dims: vec![1], data_type: 7, name: "axis".into(), int64_data: vec![0], ..Tensor::default() },
        ],
        input: vec![info("x", element)],
        output: vec![info("y", output)],
        ..Graph::default()
    };
    let opset_import = vec![OpsetId { domain: String::new(), version: 17 }];
    let model = Model { ir_version: 8, graph: Some(graph), opset_import, functions: vec![] };
    read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).map(|(net, _)| net)
}

/// Floats of 64 bits, by their number in the format.
const DOUBLE: i32 = 11;

#[test]
fn unsigned_integers_held_as_int32_are_noted() {
    let noted = |op: &str, element: i32, output: i32| {
        let constant = Tensor { data_type: element, uint64_data: vec![3], int64_data: vec![3], ..Tensor::default() };
        net_with_constant(op, constant, output).expect("reads").unsigned
    };
    for element in [12, 13] {
        assert_eq!(noted("Sub", element, element), ["x", "y"]);
        assert_eq!(noted("Less", element, 9), ["x"]);
    }
    assert_eq!(noted("Sub", 7, 7), [""; 0]);
}

#[test]
fn floats_beyond_32_bits_are_bounds_and_no_operands() {
    let with = |op: &str, c: f64, output: i32| {
        let written =
            with_constant(op, Tensor { data_type: DOUBLE, double_data: vec![c], ..Tensor::default() }, output);
        let raw = c.to_le_bytes().to_vec().into();
        let stored = with_constant(op, Tensor { data_type: DOUBLE, raw_data: raw, ..Tensor::default() }, output);
        assert_eq!(written.as_ref().ok(), stored.as_ref().ok(), "{op} {c}");
        written
    };
    for c in [1e300, -1e300, f64::MAX, f64::MIN] {
        for op in ["Add", "Sub", "Mul", "Div"] {
            let error = with(op, c, DOUBLE).unwrap_err().to_string();
            assert!(error.contains(&format!("{c:e}")) && error.contains("float32"), "{error}");
        }
        assert_eq!(with("Less", c, 9).expect("an order"), [f32::from(c > 0.0); 2]);
        let bound = if c > 0.0 { "Min" } else { "Max" };
        assert_eq!(with(bound, c, DOUBLE).expect("a bound"), [1.0, -2.0]);
    }
    assert_eq!(with("Add", f64::INFINITY, DOUBLE).expect("a sum"), [f32::INFINITY; 2]);
    assert_eq!(with("Add", 3e38, DOUBLE).expect("a sum"), [3e38; 2]);
}

#[test]
fn integers_beyond_32_bits_are_bounds_and_no_operands() {
    let far = 5_000_000_000;
    for c in [far, -far, i64::MAX, i64::MIN] {
        for op in ["Add", "Sub", "Mul", "Div", "Mod"] {
            let error = with_wide(op, c, None, 7).unwrap_err().to_string();
            assert!(error.contains(&c.to_string()) && error.contains("int32"), "{error}");
            assert!(with_wide(op, c, Some(c.to_le_bytes().to_vec()), 7).is_err(), "{op} {c}");
        }
        let less = f32::from(c > 0);
        assert_eq!(with_wide("Less", c, None, 9).expect("an order"), [less; 2]);
        let bound = if c > 0 { "Min" } else { "Max" };
        assert_eq!(with_wide(bound, c, None, 7).expect("a bound"), [1.0, -2.0]);
    }
    assert_eq!(with_wide("Add", 2, None, 7).expect("a sum"), [3.0, 0.0]);
}

#[test]
fn data_that_does_not_fit_its_declaration_is_refused() {
    let error = with_wide("Add", 0, Some(vec![0; 16]), 7).unwrap_err().to_string();
    assert!(error.contains("16 bytes for 1 of Int(64)"), "{error}");
    assert!(with_wide("Add", 0, Some(vec![0; 4]), 7).is_err());
    let error = with_wide("Add", 2, None, 1).unwrap_err().to_string();
    assert!(error.contains("output `y`") && error.contains("declared"), "{error}");
    let error = one_mixed().unwrap_err().to_string();
    assert!(error.contains("one type in the standard"), "{error}");
}

/// A sum of floats and integers.
fn one_mixed() -> Result<(), Error> {
    let mut other = model();
    let graph = other.graph.as_mut().expect("a graph");
    graph.initializer =
        vec![Tensor { dims: vec![1], data_type: 6, name: "w".into(), int32_data: vec![1], ..Tensor::default() }];
    graph.input = vec![float_info("x", vec![extent(2)])];
    graph.node = vec![node("Add", &["x", "w"], "y")];
    read_onnx(&other.encode_to_vec(), &MemoryFiles::default(), &Options::default()).map(drop)
}

#[test]
fn a_prelu_with_one_slope_is_a_leaky_relu() {
    let read = |slopes: [f32; 2]| {
        let slope = Tensor {
            dims: vec![2, 1, 1],
            data_type: 1,
            name: "s".into(),
            raw_data: slopes.iter().flat_map(|s| s.to_le_bytes()).collect::<Vec<u8>>().into(),
            ..Tensor::default()
        };
        let graph = Graph {
            node: vec![node("PRelu", &["x", "s"], "y")],
            initializer: vec![slope],
            input: vec![float_info("x", [1, 2, 1, 2].map(extent).to_vec())],
            output: vec![float_info("y", [1, 2, 1, 2].map(extent).to_vec())],
            ..Graph::default()
        };
        let opset_import = vec![OpsetId { domain: String::new(), version: 18 }];
        let model = Model { graph: Some(graph), opset_import, ..Model::default() };
        read_onnx(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default()).expect("a PReLU").0
    };
    for (slopes, names, wanted) in [
        ([0.25, 0.25], vec!["leaky_relu"], [-0.5, 3.0, -1.0, 0.0]),
        ([0.25, 0.5], vec!["mul", "max"], [-0.5, 3.0, -2.0, 0.0]),
        ([0.25, 2.0], vec!["max", "min", "mul", "add"], [-0.5, 3.0, -8.0, 0.0]),
        ([0.0, -0.5], vec!["max", "min", "mul", "add"], [0.0, 3.0, 2.0, 0.0]),
    ] {
        let net = read(slopes);
        assert_eq!(net.ops.iter().map(|op| op.kind.name()).collect::<Vec<_>>(), names);
        let x = anemone_net::Tensor::f32([1, 2, 1, 2], vec![-2.0, 3.0, -4.0, 0.0]);
        assert_eq!(eval(&net, &[x]).expect("it runs")[0].data.to_f32(), wanted);
    }
}
