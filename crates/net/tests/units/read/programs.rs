//! Small models written here: what the readers make of single units and operations.

use super::*;
use anemone_net::graph::{Net, TensorType};
use anemone_net::ops::{Binary, OpKind, Unary};
use anemone_net::testing::mil as proto;
use prost::Message;
use std::collections::BTreeMap;

/// A netplist of one 4-channel input `x`, these units and an output `y@output` of the last one.
fn netplist(units: &str, names: &[&str]) -> Result<Net, Error> {
    let list: String = names.iter().map(|n| format!("<string>{n}</string>")).collect();
    let last = names.last().unwrap();
    let text = format!(
        "<?xml version=\"1.0\"?><plist version=\"1.0\"><dict><key>Networks</key><array><string>n</string></array>
        <key>n</key><dict><key>Inputs</key><array><string>x</string></array><key>Units</key><array>{list}</array>
        <key>Outputs</key><array><string>y@output</string></array>
        <key>Weights</key><array><string>/a/b/w.bin</string><string>zero</string></array>
        <key>x</key><dict><key>InputChannels</key><integer>4</integer><key>InputHeight</key><integer>2</integer>
        <key>InputWidth</key><integer>3</integer><key>InputType</key><string>Float16</string></dict>
        <key>y@output</key><dict><key>Bottom</key><string>{last}</string><key>OutputRowStride</key><integer>64</integer>
        <key>OutputPlaneStride</key><integer>128</integer></dict>{units}</dict></dict></plist>"
    );
    let weights: Vec<u8> = (1..=8).flat_map(|v| half::f16::from_f32(v as f32).to_le_bytes()).collect();
    read_netplist(text.as_bytes(), &MemoryFiles([("w.bin".to_string(), weights.into())].into()), &Options::default())
        .map(|r| r.0)
}

fn unit(name: &str, bottom: &str, kind: &str, params: &str, rest: &str) -> String {
    format!(
        "<key>{name}</key><dict><key>Bottom</key><string>{bottom}</string><key>Type</key><string>{kind}</string>
        <key>Params</key><dict>{params}</dict>{rest}</dict>"
    )
}

fn integers(pairs: &[(&str, i64)]) -> String {
    pairs.iter().map(|(k, v)| format!("<key>{k}</key><integer>{v}</integer>")).collect()
}

fn strings(pairs: &[(&str, &str)]) -> String {
    pairs.iter().map(|(k, v)| format!("<key>{k}</key><string>{v}</string>")).collect()
}

#[test]
fn units_become_operations() {
    let relu = unit("a", "x", "Neuron", &strings(&[("Type", "ReLU")]), "");
    let net = netplist(&relu, &["a"]).unwrap();
    let output = net.value(net.outputs[0]);
    assert_eq!((output.name.as_str(), net.ops[0].name.as_str(), net.name.as_str()), ("y@output", "a", "n"));
    assert_eq!(output.ty, TensorType::new(DType::F16, [1, 4, 2, 3]));
    assert_eq!(output.surface.unwrap().plane_bytes, 128);
    assert_eq!(net.value(net.inputs[0]).surface, None);
    assert_eq!(net.ops[0].kind, OpKind::Unary(Unary::Relu));

    let leaky = strings(&[("Type", "LeakyReLU")]) + &integers(&[("ReluSlope", 0x3400), ("ReluOffset", 0)]);
    let net = netplist(&unit("a", "x", "Neuron", &leaky, ""), &["a"]).unwrap();
    assert_eq!(net.ops[0].kind, OpKind::Unary(Unary::LeakyRelu { alpha: 0.25 }));

    // Units are taken in the order that their operands demand.
    let units = unit("b", "a", "GOC", &integers(&[("BiasScalar", -17408)]), "") + &relu;
    let net = netplist(&units, &["b", "a"]);
    let kinds: Vec<OpKind> = net.unwrap().ops.into_iter().map(|op| op.kind).collect();
    // The output is that of `a`, which `b` takes too: one value is both.
    assert_eq!(kinds, [OpKind::Unary(Unary::Relu), OpKind::Binary(Binary::Add)]);
}

#[test]
fn kernels_and_biases_come_from_their_files() {
    let kernel = integers(&[("KernelHeight", 1), ("KernelWidth", 1), ("KernelIndex", 0), ("KernelOffset", 8)])
        + &strings(&[("KernelType", "Float16"), ("Type", "Conv")])
        + "<key>Step</key><array><integer>3</integer><integer>2</integer></array>";
    let conv = unit("a", "x", "Conv", &kernel, &integers(&[("OutputChannels", 1)]));
    let net = netplist(&conv, &["a"]).unwrap();
    let weight = net.value(net.ops[0].inputs[1]).data.as_ref().unwrap();
    assert_eq!((weight.shape.as_slice(), weight.data.to_f32()), (&[1, 4, 1, 1][..], vec![5.0, 6.0, 7.0, 8.0]));
    // The first step is along the width.
    assert!(matches!(&net.ops[0].kind, OpKind::Conv { strides, .. } if strides == &[2, 3]));
    check(&net).unwrap();

    let two = unit("a", "x", "Conv", &kernel, &integers(&[("OutputChannels", 2)]));
    let error = netplist(&two, &["a"]).unwrap_err();
    assert!(matches!(error, Error::OutOfBounds { offset: 8, end: 24, available: 16, .. }), "{error}");
    let zeros = two.replace("<key>KernelIndex</key><integer>0", "<key>KernelIndex</key><integer>1");
    let net = netplist(&zeros, &["a"]).unwrap();
    assert_eq!(net.value(net.ops[0].inputs[1]).data.as_ref().unwrap().data.to_f32(), [0.0; 8]);

    let group =
        integers(&[("BiasCount", 4), ("BiasIndex", 0), ("BiasOffset", 2)]) + &strings(&[("BiasType", "Float16")]);
    let params = format!("<key>BiasScaleGroupData</key><dict>{group}</dict>") + &integers(&[("ScaleScalar", 0x4000)]);
    let net = netplist(&unit("a", "x", "GOC", &params, ""), &["a"]).unwrap();
    let x = Tensor::f16([1, 4, 2, 3], &[1.0; 24]);
    let y = eval(&net, &[x]).unwrap()[0].data.to_f32();
    assert_eq!((y[0], y[6], y[12], y[18]), (4.0, 5.0, 6.0, 7.0));
}

#[test]
fn netplist_errors_say_what_and_where() {
    let fails = |kind: &str, params: &str| netplist(&unit("a", "x", kind, params, ""), &["a"]).unwrap_err();
    let error = fails("Warp", "");
    assert_eq!(error.to_string(), "`a`: Warp is not supported: no translation for this kind of unit");
    let error = fails("Neuron", &strings(&[("Type", "Mystery")]));
    assert!(matches!(error, Error::InvalidParam { .. }), "{error}");
    let error = fails("Neuron", &strings(&[("Type", "CustomLUT")]));
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("33 knots"), "{error}");
    let error = fails("Neuron", &(strings(&[("Type", "ReLU")]) + &integers(&[("Twist", 1)])));
    assert!(error.to_string().contains("`Twist`: no parameter of this layer"), "{error}");
    let error = fails("Neuron", &integers(&[("Type", 1)]));
    assert!(matches!(error, Error::InvalidParam { .. }), "{error}");
    let error = fails("InputView", &(strings(&[("Dimension", "Width")]) + &integers(&[("Offset", 2), ("Size", 2)])));
    assert!(matches!(error, Error::InOp { .. }), "{error}");
    let error = netplist(&unit("a", "z", "Neuron", &strings(&[("Type", "ReLU")]), ""), &["a"]).unwrap_err();
    assert!(matches!(error, Error::UnknownName { .. }), "{error}");
    let cycle = unit("a", "a", "Neuron", &strings(&[("Type", "ReLU")]), "");
    assert!(matches!(netplist(&cycle, &["a"]), Err(Error::NotDefined { .. })));
}

/// Numbers of element types in the format.
const F16: i32 = 10;
const F32: i32 = 11;
const I32: i32 = 23;
const U8: i32 = 31;
const U4: i32 = 35;
const U1: i32 = 37;

fn ty(data_type: i32, shape: &[u64]) -> proto::ValueType {
    let extent = |&size| proto::Dimension { extent: Some(proto::Extent::Constant(proto::ConstantDimension { size })) };
    let dimensions = shape.iter().map(extent).collect();
    let tensor = proto::TensorType { data_type, rank: shape.len() as i64, dimensions, ..Default::default() };
    proto::ValueType { kind: Some(proto::TypeKind::Tensor(tensor)) }
}

fn value(data_type: i32, shape: &[u64], elements: proto::Elements) -> proto::Value {
    let tensor = proto::TensorValue { elements: Some(elements) };
    let immediate = proto::ImmediateValue { value: Some(proto::Immediate::Tensor(tensor)) };
    proto::Value { ty: Some(ty(data_type, shape)), source: Some(proto::Source::Immediate(immediate)) }
}

fn bytes(data_type: i32, shape: &[u64], values: &[u8]) -> proto::Value {
    value(data_type, shape, proto::Elements::Bytes(proto::Bytes { values: values.to_vec().into() }))
}

fn ints(values: &[i32]) -> proto::Value {
    value(I32, &[values.len() as u64], proto::Elements::Ints(proto::Ints { values: values.to_vec() }))
}

fn text(text: &str) -> proto::Value {
    value(2, &[], proto::Elements::Strings(proto::Strings { values: vec![text.to_string()] }))
}

fn f32s(shape: &[u64], values: &[f32]) -> proto::Value {
    value(F32, shape, proto::Elements::Floats(proto::Floats { values: values.to_vec() }))
}

/// The net of one operation on the input `x: f32[shape]`, giving `y`.
fn program(op: &str, shape: &[u64], result: &[u64], inputs: &[(&str, proto::Value)]) -> Result<Net, Error> {
    let element = if op.starts_with("reduce_arg") || op == "argsort" { I32 } else { F32 };
    program_of(op, "x", shape, result, element, inputs)
}

/// As [`program`], with the name of the first operand and the element type of the result.
fn program_of(
    op: &str,
    first: &str,
    shape: &[u64],
    result: &[u64],
    element: i32,
    inputs: &[(&str, proto::Value)],
) -> Result<Net, Error> {
    let bind = |bound| proto::Argument { arguments: vec![proto::Binding { bound: Some(bound) }] };
    let mut arguments: BTreeMap<String, proto::Argument> =
        inputs.iter().map(|(name, v)| (name.to_string(), bind(proto::Bound::Value(v.clone())))).collect();
    if !op.starts_with("constexpr") && op != "fill" {
        arguments.insert(first.to_string(), bind(proto::Bound::Name("x".to_string())));
    }
    let named = |name: &str, ty| proto::NamedValueType { name: name.to_string(), ty: Some(ty) };
    let op = proto::Operation {
        ty: op.to_string(),
        inputs: arguments,
        outputs: vec![named("y", ty(element, result))],
        ..Default::default()
    };
    let block = proto::Block { outputs: vec!["y".to_string()], operations: vec![op], ..Default::default() };
    let function = proto::Function {
        inputs: vec![named("x", ty(F32, shape))],
        opset: "CoreML7".to_string(),
        block_specializations: [("CoreML7".to_string(), block)].into(),
        ..Default::default()
    };
    let program =
        proto::Program { version: 1, functions: [("main".to_string(), function)].into(), ..Default::default() };
    let model =
        proto::Model { specification_version: 8, description: None, kind: Some(proto::Kind::MlProgram(program)) };
    let (net, _) = read_mlmodel(&model.encode_to_vec(), &MemoryFiles::default(), &Options::default())?;
    check(&net).map_err(|mut e| e.swap_remove(0))?;
    Ok(net)
}

/// Result of the operation on `x` with these elements.
fn result(op: &str, x: Tensor, to: &[u64], inputs: &[(&str, proto::Value)]) -> Vec<f32> {
    let shape: Vec<u64> = x.shape.iter().map(|&d| d as u64).collect();
    let net = program(op, &shape, to, inputs).unwrap_or_else(|e| panic!("{op}: {e}"));
    eval(&net, &[x]).unwrap()[0].data.to_f32()
}

fn count(shape: &[usize]) -> Tensor {
    Tensor::f32(shape, (0..shape.iter().product()).map(|v| v as f32).collect())
}

#[test]
fn constants_decompress() {
    let constant = |op: &str, to: &[u64], inputs: &[(&str, proto::Value)]| {
        let net = program(op, &[1], to, inputs).unwrap_or_else(|e| panic!("{op}: {e}"));
        let tensor = net.value(net.outputs[0]).data.clone().unwrap();
        (tensor.data.dtype(), tensor.data.to_f32())
    };
    let half = |values: &[f32]| values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect::<Vec<u8>>();
    let affine = [
        ("quantized_data", bytes(U8, &[2, 2], &[1, 2, 3, 4])),
        ("scale", bytes(F16, &[2], &half(&[0.5, 2.0]))),
        ("zero_point", bytes(U8, &[], &[1])),
        ("axis", ints(&[0])),
    ];
    assert_eq!(constant("constexpr_affine_dequantize", &[2, 2], &affine), (DType::F16, vec![0.0, 0.5, 4.0, 6.0]));
    let block = [
        ("data", bytes(U4, &[2, 4], &[0x21, 0x43, 0x65, 0x87])),
        ("scale", f32s(&[1, 2], &[1.0, 10.0])),
        ("offset", f32s(&[1, 2], &[1.0, 0.0])),
    ];
    let expected = vec![0.0, 1.0, 30.0, 40.0, 4.0, 5.0, 70.0, 80.0];
    assert_eq!(constant("constexpr_blockwise_shift_scale", &[2, 4], &block), (DType::F32, expected));
    // 2-bit indices 3, 0, 1, 2, 3.
    let packed = [
        ("indices", bytes(U8, &[2], &[0b1001_0011, 0b11])),
        ("lut", f32s(&[4], &[1.0, 2.0, 3.0, 4.0])),
        ("shape", ints(&[5])),
    ];
    assert_eq!(constant("constexpr_lut_to_dense", &[5], &packed).1, [4.0, 1.0, 2.0, 3.0, 4.0]);
    // One table per row; the example of the operation reference with vectors along axis 1.
    let table = [
        ("indices", bytes(U1, &[2, 2, 2], &[0b0011_0100])),
        ("lut", f32s(&[1, 1, 1, 2, 3], &[0.0, 1.0, 2.0, 10.0, 11.0, 12.0])),
        ("vector_axis", ints(&[1])),
    ];
    let expected = [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 10.0, 0.0, 11.0, 1.0, 12.0, 2.0];
    assert_eq!(constant("constexpr_lut_to_dense", &[2, 6, 2], &table).1[..12], expected);
    let rows = [("indices", bytes(U1, &[2, 2], &[0b0110])), ("lut", f32s(&[2, 1, 2, 1], &[1.0, 2.0, 3.0, 4.0]))];
    assert_eq!(constant("constexpr_lut_to_dense", &[2, 2], &rows).1, [1.0, 2.0, 4.0, 3.0]);
    let sparse =
        [("nonzero_data", f32s(&[2], &[7.0, 8.0])), ("mask", bytes(U8, &[1], &[0b0_0110])), ("shape", ints(&[5]))];
    assert_eq!(constant("constexpr_sparse_to_dense", &[5], &sparse).1, [0.0, 7.0, 8.0, 0.0, 0.0]);
    let typed = [("nonzero_data", f32s(&[2], &[7.0, 8.0])), ("mask", bytes(U1, &[4], &[0b1001]))];
    assert_eq!(constant("constexpr_sparse_to_dense", &[4], &typed).1, [7.0, 0.0, 0.0, 8.0]);
    let wrong = [("nonzero_data", f32s(&[1], &[7.0])), ("mask", bytes(U1, &[4], &[0b1001]))];
    assert!(matches!(program("constexpr_sparse_to_dense", &[1], &[4], &wrong), Err(Error::OutOfRange { .. })));
    let cast = [("source_val", f32s(&[1], &[1.5])), ("output_dtype", text("fp16"))];
    assert_eq!(constant("constexpr_cast", &[1], &cast), (DType::F16, vec![1.5]));
}

#[test]
fn shapes_follow_their_attributes() {
    let x = count(&[2, 3, 4]);
    assert_eq!(result("reshape", x.clone(), &[2, 12], &[("shape", ints(&[2, -1]))]).len(), 24);
    assert!(program("reshape", &[2, 3, 4], &[5, 5], &[("shape", ints(&[5, 5]))]).is_err());
    result("squeeze", count(&[1, 3, 1]), &[3, 1], &[("axes", ints(&[0]))]);
    result("expand_dims", count(&[3]), &[1, 3, 1], &[("axes", ints(&[0, -1]))]);
    result("flatten2d", x.clone(), &[2, 12], &[]);
    let slice = [("begin", ints(&[1, 0, -3])), ("end", ints(&[2, 3, -1])), ("stride", ints(&[1, 2, 1]))];
    assert_eq!(result("slice_by_index", x.clone(), &[1, 2, 2], &slice), [13.0, 14.0, 21.0, 22.0]);
    let size = [("begin", ints(&[0, 1, 2])), ("size", ints(&[1, -1, 1]))];
    assert_eq!(result("slice_by_size", x.clone(), &[1, 2, 1], &size), [6.0, 10.0]);
    let tile = [("reps", ints(&[2, 3]))];
    assert_eq!(
        result("tile", count(&[1, 2]), &[2, 6], &tile),
        [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0]
    );
    let gather = [("indices", ints(&[2, 0])), ("axis", ints(&[-1]))];
    assert_eq!(result("gather", count(&[2, 3]), &[2, 2], &gather), [2.0, 0.0, 5.0, 3.0]);
    let two = [("upscale_factor", ints(&[2]))];
    assert_eq!(result("pixel_shuffle", count(&[1, 4, 1, 1]), &[1, 1, 2, 2], &two), [0.0, 1.0, 2.0, 3.0]);
    let two = [("block_size", ints(&[2]))];
    let moved = result("depth_to_space", count(&[1, 8, 1, 1]), &[1, 2, 2, 2], &two);
    assert_eq!(moved, [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]);
    let back = result("space_to_depth", Tensor::f32([1, 2, 2, 2], moved), &[1, 8, 1, 1], &two);
    assert_eq!(back, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn decompositions_mean_what_they_stand_for() {
    let x = || Tensor::f32([1, 2, 2], vec![-1.0, 1.0, -2.0, 2.0]);
    let prelu = [("alpha", f32s(&[2], &[0.5, 0.25]))];
    assert_eq!(result("prelu", x(), &[1, 2, 2], &prelu), [-0.5, 1.0, -0.5, 2.0]);
    let clamped = [("alpha", f32s(&[], &[0.5])), ("beta", f32s(&[], &[1.5]))];
    assert_eq!(result("clamped_relu", x(), &[1, 2, 2], &clamped), [-0.5, 1.0, -1.0, 1.5]);
    let linear = [("alpha", f32s(&[], &[2.0])), ("beta", f32s(&[], &[1.0]))];
    assert_eq!(result("linear_activation", x(), &[1, 2, 2], &linear), [-1.0, 3.0, -3.0, 5.0]);
    let threshold = [("alpha", f32s(&[], &[1.5]))];
    assert_eq!(result("thresholded_relu", x(), &[1, 2, 2], &threshold), [0.0, 0.0, 0.0, 2.0]);
    let norm = result("l2_norm", Tensor::f32([1, 1, 2], vec![3.0, 4.0]), &[1, 1, 2], &[("epsilon", f32s(&[], &[0.0]))]);
    assert!((norm[0] - 0.6).abs() < 1e-6 && (norm[1] - 0.8).abs() < 1e-6);
    let nearest = [("scale_factor_height", f32s(&[], &[1.0])), ("scale_factor_width", f32s(&[], &[2.0]))];
    assert_eq!(
        result("upsample_nearest_neighbor", count(&[1, 1, 1, 2]), &[1, 1, 1, 4], &nearest),
        [0.0, 0.0, 1.0, 1.0]
    );
    let same = [("weight", f32s(&[1, 1, 2], &[10.0, 1.0])), ("pad_type", text("same_lower")), ("strides", ints(&[1]))];
    assert_eq!(result("conv", count(&[1, 1, 3]), &[1, 1, 3], &same), [0.0, 1.0, 12.0]);
}

#[test]
fn program_errors_say_what_and_where() {
    let error = program("warp", &[1], &[1], &[]).unwrap_err();
    assert_eq!(error.to_string(), "`y`: warp is not supported: no opset up to iOS18 has it");
    let error = program("relu", &[2], &[3], &[]).unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }), "{error}");
    let error = program("softmax", &[2], &[2], &[("axis", ints(&[4]))]).unwrap_err();
    assert!(matches!(
        error,
        Error::OutOfRange { found: 4, least: -2, most: 1, .. } | Error::OutOfRange { found: 4, .. }
    ));
    let error = program("reshape", &[2], &[2], &[]).unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    let huge = [("shape", ints(&[1 << 30, 1 << 30])), ("value", f32s(&[], &[1.0]))];
    assert!(matches!(program("fill", &[1], &[1 << 30, 1 << 30], &huge), Err(Error::TooLarge { .. })));
    let error = program("conv", &[1, 2, 4, 4], &[1, 1, 1, 1], &[("weight", f32s(&[1, 1, 1], &[1.0]))]).unwrap_err();
    assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
}

#[test]
fn indexing_and_ordering() {
    let x = Tensor::f32([2, 3], vec![3.0, 1.0, 2.0, 5.0, 6.0, 4.0]);
    let axis = ("axis", ints(&[1]));
    let one = |axis: i32| value(I32, &[], proto::Elements::Ints(proto::Ints { values: vec![axis] }));
    assert_eq!(result("reduce_argmax", x.clone(), &[2], &[("axis", one(1))]), [0.0, 1.0]);
    let ascending = ("ascending", value(1, &[], proto::Elements::Bools(proto::Bools { values: vec![true] })));
    assert_eq!(
        result("argsort", x.clone(), &[2, 3], &[axis.clone(), ascending.clone()]),
        [1.0, 2.0, 0.0, 2.0, 0.0, 1.0]
    );
    assert_eq!(result("topk", x.clone(), &[2, 2], &[axis.clone(), ("k", one(2))]), [3.0, 2.0, 6.0, 5.0]);
    assert_eq!(result("cumsum", x.clone(), &[2, 3], std::slice::from_ref(&axis)), [3.0, 4.0, 6.0, 5.0, 11.0, 15.0]);
    assert_eq!(
        result("band_part", count(&[3, 3]), &[3, 3], &[("lower", one(0)), ("upper", one(1))]),
        [0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0]
    );
    assert_eq!(result("reverse", x.clone(), &[2, 3], &[("axes", ints(&[1]))]), [2.0, 1.0, 3.0, 4.0, 6.0, 5.0]);
    let windows = [("axis", one(0)), ("size", one(2)), ("stride", one(1))];
    assert_eq!(result("sliding_windows", count(&[3]), &[2, 2], &windows), [0.0, 1.0, 1.0, 2.0]);
    let update = [("update", f32s(&[1, 2], &[8.0, 9.0])), ("begin", ints(&[1, 1])), ("end", ints(&[2, 3]))];
    assert_eq!(result("slice_update", x.clone(), &[2, 3], &update), [3.0, 1.0, 2.0, 5.0, 8.0, 9.0]);
    let strided = [
        ("update", f32s(&[2, 2], &[7.0, 8.0, 9.0, 10.0])),
        ("begin", ints(&[0, 0])),
        ("end", ints(&[2, 3])),
        ("stride", ints(&[1, 2])),
    ];
    assert_eq!(result("slice_update", x.clone(), &[2, 3], &strided), [7.0, 1.0, 8.0, 9.0, 6.0, 10.0]);
    let strided = [
        ("update", f32s(&[2, 2], &[10.0, 11.0, 12.0, 13.0])),
        ("begin", ints(&[0, 0])),
        ("end", ints(&[3, 3])),
        ("stride", ints(&[2, 2])),
    ];
    let updated = [10.0, 1.0, 11.0, 3.0, 4.0, 5.0, 12.0, 7.0, 13.0];
    assert_eq!(result("slice_update", count(&[3, 3]), &[3, 3], &strided), updated);
    let gather = [("indices", value(I32, &[2, 1], proto::Elements::Ints(proto::Ints { values: vec![2, 0] }))), axis];
    assert_eq!(result("gather_along_axis", x, &[2, 1], &gather), [2.0, 5.0]);
}

#[test]
fn pictures_and_sequences() {
    let one = |v: i32| value(I32, &[], proto::Elements::Ints(proto::Ints { values: vec![v] }));
    // Mean of the squares of three channels about each: [0, 1], [0, 1, 4], [1, 4] over size 3.
    let lrn = [("size", one(3)), ("alpha", f32s(&[], &[3.0])), ("beta", f32s(&[], &[1.0])), ("k", f32s(&[], &[1.0]))];
    let normed = result("local_response_norm", count(&[1, 3, 1]), &[1, 3, 1], &lrn);
    assert!(normed.iter().zip([0.0, 1.0 / 6.0, 2.0 / 6.0]).all(|(a, b)| (a - b).abs() < 1e-6), "{normed:?}");
    let resample = |places: &[f32], mode: &str, padding: &str| {
        let inputs = [
            ("coordinates", f32s(&[1, 1, places.len() as u64 / 2, 2], places)),
            ("sampling_mode", text(mode)),
            ("padding_mode", text(padding)),
            ("padding_value", f32s(&[], &[-1.0])),
            ("coordinates_mode", text("unnormalized")),
            ("align_corners", value(1, &[], proto::Elements::Bools(proto::Bools { values: vec![true] }))),
        ];
        result("resample", count(&[1, 1, 2, 2]), &[1, 1, 1, places.len() as u64 / 2], &inputs)
    };
    assert_eq!(resample(&[0.5, 0.0, 1.0, 0.5, 1.5, 0.0], "bilinear", "constant"), [0.5, 2.0, 0.0]);
    assert_eq!(resample(&[-3.0, 9.0], "nearest", "border"), [2.0]);
    let boxes = [
        ("boxes", f32s(&[1, 4], &[0.0, 0.0, 2.0, 2.0])),
        ("target_height", one(2)),
        ("target_width", one(2)),
        ("sampling_mode", text("ALIGN_CORNERS")),
    ];
    assert_eq!(result("crop_resize", count(&[1, 1, 3, 3]), &[1, 1, 2, 2], &boxes), [0.0, 2.0, 6.0, 8.0]);
    let space = [
        ("block_shape", ints(&[2, 2])),
        ("paddings", value(I32, &[2, 2], proto::Elements::Ints(proto::Ints { values: vec![0; 4] }))),
    ];
    assert_eq!(result("space_to_batch", count(&[1, 1, 2, 2]), &[4, 1, 1, 1], &space), [0.0, 1.0, 2.0, 3.0]);
    // One unit, two steps: h = tanh(x + h).
    let layer = [
        ("initial_h", f32s(&[1, 1], &[0.0])),
        ("weight_ih", f32s(&[1, 1], &[1.0])),
        ("weight_hh", f32s(&[1, 1], &[1.0])),
    ];
    let states = result("rnn", Tensor::f32([2, 1, 1], vec![0.5, 0.25]), &[1, 1, 1], &layer);
    assert!((states[0] - (0.25 + 0.5f32.tanh()).tanh()).abs() < 1e-6);
    let quantized = [("scale", f32s(&[], &[0.5])), ("output_dtype", text("int8"))];
    let net = program_of("quantize", "input", &[3], &[3], 21, &quantized).unwrap();
    let values = eval(&net, &[Tensor::f32([3], vec![0.25, 1.3, -1000.0])]).unwrap();
    assert_eq!(values[0].data.to_f32(), [0.0, 3.0, -128.0]);
}
