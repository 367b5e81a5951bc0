//! Native layers: every row of the catalog compiled for the first family that takes it, executed from its words and compared
//! with the plain evaluator; refused below that family; authored as netplist and as MIL text.

use crate::common;

use anemone::native::{first_chip, network, template};
use anemone_compile::{Error, Options, compile, pipeline};
use anemone_facts::chips::CHIPS;
use anemone_facts::native::{Carrier, NATIVES, ParamType};
use anemone_facts::numerics::Model;
use anemone_facts::silicon;
use anemone_net::native::{KeyType, Native, SCHEMAS};
use anemone_net::*;
use anemone_program::{Direction, Program, e5};
use common::suite::{execute, written_and_read};
use common::{Random, Score};
use half::f16;

/// No weight files but one.
struct Beside(Vec<u8>);

impl read::Files for Beside {
    fn read(&self, path: &str) -> Result<read::Bytes, String> {
        if path == netplist::WEIGHTS { Ok(self.0.clone().into()) } else { Err("no such file".into()) }
    }
}

/// A value that half precision has.
fn half(x: f32) -> f32 {
    f16::from_f32(x).to_f32()
}

/// Random operands in half precision.
fn operands(net: &Net, seed: u64, (low, high): (f32, f32)) -> Vec<Tensor> {
    let mut random = Random::new(seed);
    let draw = |id: &ValueId| {
        let shape = net.value(*id).ty.shape.clone();
        let data = (0..shape.iter().product::<usize>()).map(|_| half(random.uniform(low, high))).collect();
        Tensor::f32(shape, data)
    };
    net.inputs.iter().map(draw).collect()
}

/// Output of the program for operands in the net's order.
fn executed(program: &Program, net: &Net, inputs: &[Tensor]) -> Result<Vec<f32>, String> {
    let of_port = |port: &anemone_program::Port| {
        let at = net.inputs.iter().position(|&id| net.value(id).name == port.name);
        at.map(|at| inputs[at].data.to_f32()).ok_or(format!("no input {}", port.name))
    };
    let data = program.ports_of(Direction::Input).map(of_port).collect::<Result<Vec<_>, _>>()?;
    execute(program, &data, Model::Fast)
}

/// Largest difference, and the largest wanted.
fn apart(got: &[f32], wanted: &[f32]) -> (f32, f32) {
    let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
    // Not a number differs from all.
    let worst = got.iter().zip(wanted).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
    (worst.fold(0.0, |m, x| if x.is_nan() { f32::INFINITY } else { m.max(x) }), largest)
}

fn wanted(net: &Net, inputs: &[Tensor]) -> Result<Vec<f32>, String> {
    Ok(eval::eval(net, inputs).map_err(|e| e.to_string())?[0].data.to_f32())
}

/// Layers that only move or choose elements, or count: equal to the last bit.
const EXACT: &[&str] = &[
    "Sort",
    "TopK",
    "ArgMinMax",
    "GlobalArgMinMax",
    "PixelShuffle",
    "PixelUnshuffle",
    "ChannelToSpace",
    "SpaceToChannel",
    "SpaceToBatch",
    "BatchToSpace",
    "FurthestPointSampling",
    "RadiusSearch",
    "DynamicSlice",
    "Tile",
    "Flatten",
    "Dropout",
    "Pad",
    "Gather",
    "RingBufferWriter",
    "RingBufferReader",
    "Shape",
    "Concat",
    "Reshape",
    "Transpose",
    "InputView",
    "Broadcast",
    "Neuron",
    "ElementWise",
    "Reduction",
    "Pool",
];

/// The first family that takes a row's template, where it is not the M1's: the book's table 26.1 and its gates.
const LATER: &[(&str, Option<&str>)] = &[
    ("Sort", Some("A14")),
    ("DynamicSlice", Some("A14")),
    ("Gather", Some("A14")),
    ("CropResize", Some("A14")),
    ("Resample", Some("A14")),
    ("AffineTransform", Some("A14")),
    ("RingBufferWriter", Some("A14")),
    ("RingBufferReader", Some("A14")),
    ("Dropout", Some("A15")),
    ("Unflatten", None),
];

fn row_runs(row: &'static anemone_facts::native::Native) -> Result<String, String> {
    let net = network(row).ok_or("no template")?;
    let expected = LATER.iter().find(|(stem, _)| *stem == row.stem).map_or(Some("A13"), |(_, family)| *family);
    let first = first_chip(row);
    if first.map(|c| c.family) != expected {
        return Err(format!("first family {:?}, expected {expected:?}", first.map(|c| c.family)));
    }
    // Below its family it is refused, wherever it is refused at all.
    for chip in CHIPS.iter().filter(|c| c.family == "A13" && expected != Some("A13")) {
        match compile(&net, chip, &Options::default(), &mut ()) {
            Err(Error::Refused(_)) => {}
            other => return Err(format!("{}: {other:?}", chip.target)),
        }
    }
    let Some(chip) = first else { return Ok("refused everywhere".into()) };
    // As the file has it: written, and read again.
    let (plist, weights) = template(row).ok_or("no netplist")?;
    let (read, _) = read::read(&plist, &Beside(weights), &read::Options::default()).map_err(|e| e.to_string())?;
    let program = compile(&read, chip, &Options::default(), &mut ()).map_err(|e| e.to_string())?;
    let inputs = operands(&net, 5, (-2.0, 2.0));
    let wanted = wanted(&net, &inputs)?;
    let got = executed(&program, &read, &inputs)?;
    let again = executed(&written_and_read(&program)?, &read, &inputs)?;
    if got.iter().map(|x| x.to_bits()).ne(again.iter().map(|x| x.to_bits())) {
        return Err("another result from the container".into());
    }
    if got.len() != wanted.len() {
        return Err(format!("{} elements for {}", got.len(), wanted.len()));
    }
    let (worst, largest) = apart(&got, &wanted);
    let admitted = if EXACT.contains(&row.stem) { 0.0 } else { 4e-3 * largest };
    let note = format!("{}, {}, error {worst:.1e} of {largest:.2}", chip.target, row.carrier.name());
    if worst <= admitted { Ok(note) } else { Err(note) }
}

#[test]
fn every_row_runs_on_its_first_family_and_is_refused_below() {
    let mut score = Score::default();
    for row in NATIVES {
        match row.carrier {
            Carrier::Nothing => score.skip(row.stem, row.note),
            _ => score.case(row.stem, row_runs(row)),
        }
    }
    score.close();
}

#[test]
fn the_catalog_has_the_45_descriptors_and_the_reader_takes_its_keys() {
    assert_eq!(NATIVES.iter().filter(|n| n.has_descriptor()).count(), 45);
    let described = anemone_facts::validators::VALIDATORS.iter().filter(|v| v.descriptor);
    for validator in described {
        assert!(NATIVES.iter().any(|n| n.stem == validator.stem), "{}", validator.stem);
    }
    let same = |a: &ParamType, b: &KeyType| match (a, b) {
        (ParamType::Flag, KeyType::Flag) | (ParamType::Half, KeyType::Half) => true,
        (ParamType::Real, KeyType::Real) | (ParamType::Axes, KeyType::Axes) => true,
        (ParamType::Integer(a, b), KeyType::Integer(c, d)) => (a, b) == (c, d),
        (ParamType::Integers(a, b), KeyType::Integers(c, d)) => (a, b) == (c, d),
        (ParamType::Word(a), KeyType::Word(b)) => a == b,
        (ParamType::PerAxis(a, b), KeyType::PerAxis(c, d)) => a == c && b == d,
        _ => false,
    };
    for schema in SCHEMAS {
        let row = NATIVES.iter().find(|n| n.tag == schema.tag).unwrap_or_else(|| panic!("no row for {}", schema.tag));
        assert_eq!(row.params.len(), schema.keys.len(), "{}", row.stem);
        for (param, key) in row.params.iter().zip(schema.keys) {
            assert_eq!((param.name, param.default), (key.name, key.default), "{}", row.stem);
            assert!(same(&param.ty, &key.ty), "{}: {}", row.stem, param.name);
        }
        assert_eq!(row.entry(), schema.entry(), "{}", row.stem);
        if let Some(validator) = row.validator() {
            let takes = (usize::from(validator.least), usize::from(validator.most));
            assert_eq!(takes, (schema.least, schema.most), "{}", row.stem);
        }
        assert!(row.class().is_some(), "{} has no class", row.stem);
        assert!(matches!(row.carrier, Carrier::Registers | Carrier::Own), "{}", row.stem);
    }
}

/// A MIL program of one unit over `[1, 4, 3, 8]`.
fn mil_unit(name: &str, operands: &str, arguments: &str, shape: &str) -> Result<Net, anemone_net::Error> {
    let ty = "tensor<fp16, [1, 4, 3, 8]>";
    let constants = "tensor<fp16, [2, 4, 1, 1]> w = const()[name = string(\"w\"), val = tensor<fp16, [2, 4, 1, 1]>([[[[1.0]], [[2.0]], [[0.5]], [[-1.0]]], [[[3.0]], [[0.25]], [[1.0]], [[0.0]]]])];\n  \
        tensor<fp16, [1, 4, 1, 1]> s = const()[name = string(\"s\"), val = tensor<fp16, [1, 4, 1, 1]>([[[[1.0]], [[2.0]], [[0.5]], [[-1.0]]]])];";
    let text = format!(
        "program(1.0)\n{{\n func main<ios16>({ty} x, {ty} z) {{\n  {constants}\n  tensor<fp16, {shape}> y = \
         anec.{name}(bottom = {operands}{arguments})[name = string(\"y\")];\n }} -> (y);\n}}\n"
    );
    let program = mil::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    Ok(read::read_program(&program, &Beside(Vec::new()), &read::Options::default())?.0)
}

#[test]
fn units_of_the_graph_have_their_names_in_mil_too() {
    let word = |key: &str, value: &str| format!(", {key} = string(\"{value}\")");
    let list = |key: &str, values: &str, n: usize| format!(", {key} = tensor<int32, [{n}]>({values})");
    let same = "[1, 4, 3, 8]";
    let add = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| half(a + b)).collect::<Vec<f32>>();
    let (conv, view) = ("[1, 2, 3, 8]", "[1, 4, 3, 3]");
    for (name, operands, arguments, shape) in [
        ("conv", "(x, w)", String::new(), conv),
        ("convolution", "(x, w)", String::new(), conv),
        ("linear", "(x, w)", String::new(), conv),
        ("pooling", "(x)", word("type", "Max") + ", kernel_width = int32(2)", "[1, 4, 3, 7]"),
        ("max_pool", "(x)", ", kernel_width = int32(2)".into(), "[1, 4, 3, 7]"),
        ("goc", "(x, s, s)", String::new(), same),
        ("gain_offset_control", "(x, s, s)", String::new(), same),
        ("neuron", "(x)", word("type", "ReLU"), same),
        ("relu", "(x)", String::new(), same),
        ("element_wise", "(x, z)", word("type", "Add"), same),
        ("add", "(x, z)", String::new(), same),
        ("scaled_element_wise", "(x, z)", word("type", "Add") + ", scale = fp16(0.5)", same),
        ("reduction", "(x)", word("type", "Avg") + &list("dimension", "[3]", 1), "[1, 4, 3, 1]"),
        ("softmax", "(x)", word("dimension", "Width"), same),
        ("concat", "(x, z)", word("dimension", "Channel"), "[1, 8, 3, 8]"),
        ("reshape", "(x)", ", reshaped_channel = int32(96)".into(), "[1, 96, 1, 1]"),
        ("transpose", "(x)", list("transpose_dimensions", "[0, 2, 1, 3]", 4), "[1, 3, 4, 8]"),
        ("input_view", "(x)", word("dimension", "Width") + ", size = int32(3), offset = int32(1)", view),
        ("matmul", "(x, z)", ", transpose_rhs = bool(true)".into(), "[1, 4, 3, 4]"),
        ("matmul", "(x, z)", ", transpose_lhs = bool(true)".into(), "[1, 8, 3, 8]"),
        ("matrix_mult", "(x, z)", ", TransposeRhs = bool(true)".into(), "[1, 4, 3, 4]"),
        ("layer_norm", "(x)", list("dimension", "[1, 3]", 2) + ", epsilon = fp16(0.001), num_groups = int32(2)", same),
        ("min_max_norm", "(x)", word("dimension", "Width") + ", epsilon = fp16(0.001)", same),
        ("l2_norm", "(x)", list("dimension", "[3]", 1) + ", epsilon = fp16(0.001)", same),
        ("instance_norm", "(x)", ", epsilon = fp16(0.001)".into(), same),
        ("lrn", "(x)", ", kernel_channel = int32(3), alpha = fp16(1.0), beta = fp32(0.75), k = fp32(1.0)".into(), same),
        ("pad", "(x)", ", pad_left = int32(1)".into(), "[1, 4, 3, 9]"),
    ] {
        let net = mil_unit(name, operands, &arguments, shape).unwrap_or_else(|e| panic!("anec.{name}: {e}"));
        let inputs = self::operands(&net, 3, (-2.0, 2.0));
        let program = compile(&net, silicon::by_name("m1").unwrap(), &Options::default(), &mut ()).unwrap();
        let (got, wanted) = (executed(&program, &net, &inputs).unwrap(), wanted(&net, &inputs).unwrap());
        let (worst, largest) = apart(&got, &wanted);
        assert!(worst <= 4e-3 * largest, "anec.{name}: {worst} of {largest}");
        if name == "add" {
            assert_eq!(got, add(&inputs[0].data.to_f32(), &inputs[1].data.to_f32()));
        }
        if name == "layer_norm" {
            // Each group of two channels of a row has mean 0 and variance 1.
            for group in 0..2 {
                let values: Vec<f32> = (0..2).flat_map(|c| wanted[(group * 2 + c) * 24..][..8].to_vec()).collect();
                let mean = values.iter().sum::<f32>() / 16.0;
                let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / 16.0;
                assert!(mean.abs() < 1e-3 && (variance - 1.0).abs() < 5e-3, "{mean} {variance}");
            }
        }
    }
}

#[test]
fn graph_units_refuse_parameters_in_the_parsers_words() {
    for (name, arguments, key, told) in [
        ("softmax", "", "Dimension", "missing; it is Batch or Channel or Height or Width"),
        ("pooling", ", type = string(\"Maxx\")", "Type", "the nearest is `Max`"),
        (
            "pooling",
            ", kernal_width = int32(2), type = string(\"Max\")",
            "kernal_width",
            "the nearest is `KernelWidth`",
        ),
        ("neuron", ", type = string(\"ReLu\")", "Type", "the nearest is `ReLU`"),
        ("reduction", ", type = string(\"Sum\")", "Dimension", "missing; it is list of Batch"),
        ("input_view", ", dimension = string(\"Width\")", "Size", "missing; it is integer from 1"),
        ("reshape", ", reshaped_channel = int32(0)", "ReshapedChannel", "0 where 1"),
        ("layer_norm", ", epsilon = fp16(0.001)", "Dimension", "missing"),
    ] {
        let error = mil_unit(name, "(x)", arguments, "[1, 4, 3, 8]").expect_err(name).to_string();
        let begins = error.contains("InvalidParamSyntax: unit `y`");
        assert!(begins && error.contains(&format!("`{key}`")) && error.contains(told), "{name}: {error}");
    }
    let groups = ", dimension = tensor<int32, [1]>([3]), epsilon = fp16(0.001), num_groups = int32(3)";
    assert!(mil_unit("layer_norm", "(x)", groups, "[1, 4, 3, 8]").is_err());
}

/// The text of a refusal by a chip.
fn refusal(stem: &str, chip: &str) -> String {
    let row = anemone_facts::native::by_name(stem).expect("a row");
    let chip = silicon::by_name(chip).expect("a chip");
    compile(&network(row).expect("a template"), chip, &Options::default(), &mut ()).unwrap_err().to_string()
}

#[test]
fn refusals_have_the_fixed_strings() {
    assert!(refusal("AffineTransform", "m1").contains("affine transform is not supported on this architecture"));
    assert!(refusal("CropResize", "m1").contains("Codegen Error: Invalid Texture CropCfg"));
    assert!(refusal("Dropout", "m2").contains("Dropout layer is not supported on this architecture."));
    assert!(refusal("RingBufferWriter", "m1").contains("Circular buffer is not supported on this architecture"));
    assert!(refusal("Gather", "m1").contains("Cannot decompose layer on this architecture"));
    // Valid, and refused by code generation all the same.
    for stem in ["Sort", "DynamicSlice"] {
        assert!(refusal(stem, "m1").contains("code generation"), "{stem}");
    }
    let top = |k: usize, chip: &str| {
        let k = k.to_string();
        let native = Native::named("TopK", &[("Type", "Max"), ("K", &k), ("SortDimension", "Width")]).unwrap();
        compile(&one(native, &[[1, 2, 1, 20]]), silicon::by_name(chip).unwrap(), &Options::default(), &mut ())
    };
    for k in [3, 4] {
        assert!(matches!(top(k, "m1"), Err(Error::Refused(_))), "k = {k}");
    }
    for k in [1, 2, 5, 20] {
        assert!(top(k, "m1").is_ok(), "k = {k}");
    }
    let channels = Native::named("MinMaxNormalization", &[("Dimension", "Channel"), ("Epsilon", "0.5")]).unwrap();
    let refused = compile(&one(channels, &[[1, 4, 3, 5]]), &CHIPS[0], &Options::default(), &mut ());
    assert!(matches!(refused, Err(Error::Refused(_))));
}

/// A network of one layer.
fn one(native: Native, shapes: &[[usize; 4]]) -> Net {
    let mut net = Net { name: "one".into(), ..Net::default() };
    let kind = OpKind::Native(Box::new(native));
    for (i, shape) in shapes.iter().enumerate() {
        let ty = TensorType::new(DType::F16, *shape);
        let id = net.add_value(Value { name: format!("x{i}"), ty, data: None, surface: None });
        net.inputs.push(id);
    }
    let types: Vec<&TensorType> = net.inputs.iter().map(|&id| &net.value(id).ty).collect();
    let ty = infer::infer(&kind, &types, None).expect("types fit").swap_remove(0);
    let out = net.add_value(Value { name: "y".into(), ty, data: None, surface: None });
    net.ops.push(Op { name: "y".into(), kind, inputs: net.inputs.clone(), outputs: vec![out] });
    net.outputs.push(out);
    net
}

#[test]
fn index_outputs_are_exact_to_2048() {
    for (tag, params) in [
        ("TopK", &[("Type", "Min"), ("K", "2048"), ("SortDimension", "Width"), ("Indices", "true")][..]),
        ("GlobalArgMinMax", &[("Type", "Max"), ("Dimension", "Width")]),
        ("ArgMinMax", &[("Mode", "SpatialArgMin"), ("KernelWidth", "2048"), ("KernelHeight", "1")]),
    ] {
        let net = one(Native::named(tag, params).unwrap(), &[[1, 2, 1, 2048]]);
        let inputs = operands(&net, 11, (-100.0, 100.0));
        let program = compile(&net, silicon::by_name("m2").unwrap(), &Options::default(), &mut ()).unwrap();
        let (got, wanted) = (executed(&program, &net, &inputs).unwrap(), wanted(&net, &inputs).unwrap());
        assert_eq!(got, wanted, "{tag}");
        assert!(got.iter().all(|i| i.fract() == 0.0 && (0.0..2048.0).contains(i)), "{tag}");
    }
}

/// Listing 26.1 as a netplist: channels are positions, rows are heads.
fn listing(subtract_max: bool) -> Vec<u8> {
    let input = |name: &str| {
        format!(
            "<key>{name}</key><dict><key>InputChannels</key><integer>8</integer><key>InputHeight</key><integer>197</integer>\
             <key>InputWidth</key><integer>64</integer><key>InputType</key><string>Float16</string></dict>"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist version=\"1.0\"><dict><key>Version</key><string>1.0.10</string>\
         <key>Networks</key><array><string>net</string></array><key>net</key><dict>\
         <key>Inputs</key><array><string>q</string><string>k</string><string>v</string></array>{}{}{}\
         <key>Constants</key><array><string>scale</string></array><key>scale</key><dict><key>ConstantType</key>\
         <string>Float16</string><key>ConstantIndex</key><integer>0</integer></dict><key>Weights</key><array>\
         <string>net.weights</string></array><key>Units</key><array><string>attn</string></array><key>attn</key><dict>\
         <key>Type</key><string>SDPA</string><key>Bottom</key><array><string>q</string><string>k</string><string>v</string>\
         <string>scale</string></array><key>Params</key><dict><key>SubtractMax</key><{subtract_max}/></dict>\
         <key>OutputType</key><string>Float16</string></dict><key>Outputs</key><array><string>y</string></array>\
         <key>y</key><dict><key>Bottom</key><string>attn</string></dict></dict></dict></plist>",
        input("q"),
        input("k"),
        input("v")
    )
    .into_bytes()
}

fn read_listing(subtract_max: bool) -> Net {
    let scale = Beside(f16::from_f32(0.125).to_le_bytes().to_vec());
    read::read(&listing(subtract_max), &scale, &read::Options::default()).expect("the listing is read").0
}

#[test]
fn listing_26_1_runs_and_shows_the_hazard() {
    let net = read_listing(true);
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).unwrap();
    let inputs = operands(&net, 3, (-2.0, 2.0));
    let (worst, largest) = apart(&executed(&program, &net, &inputs).unwrap(), &wanted(&net, &inputs).unwrap());
    assert!(worst <= 4e-3 * largest, "{worst} of {largest}");
    // Large logits: right with the maximum taken off, wrong without.
    let large = operands(&net, 4, (-12.0, 12.0));
    let right = wanted(&net, &large).unwrap();
    let (worst, largest) = apart(&executed(&program, &net, &large).unwrap(), &right);
    assert!(worst <= 2e-2 * largest, "{worst} of {largest}");
    let hazard = read_listing(false);
    let program = compile(&hazard, &CHIPS[0], &Options::default(), &mut ()).unwrap();
    let got = executed(&program, &hazard, &large).unwrap();
    let (worst, largest) = apart(&got, &right);
    assert!(worst > 0.1 * largest, "the hazard does not show: {worst} of {largest}");
    // Small logits are right either way.
    let small = operands(&hazard, 5, (-0.5, 0.5));
    let (worst, largest) = apart(&executed(&program, &hazard, &small).unwrap(), &wanted(&hazard, &small).unwrap());
    assert!(worst <= 1e-2 * largest, "{worst} of {largest}");
}

/// A MIL program over query, key and value of 8 heads, 197 positions and 64 features.
fn mil(body: &str) -> Net {
    let ty = "tensor<fp16, [1, 8, 197, 64]>";
    let text = format!("program(1.0)\n{{\n func main<ios16>({ty} q, {ty} k, {ty} v) {{\n{body}\n }} -> (y);\n}}\n");
    let program = mil::parse(&text).unwrap_or_else(|e| panic!("{e:?}"));
    read::read_program(&program, &Beside(Vec::new()), &read::Options::default()).unwrap_or_else(|e| panic!("{e}")).0
}

#[test]
fn listing_26_3_as_mil_equals_the_decomposed_form() {
    let ty = "tensor<fp16, [1, 8, 197, 64]>";
    let scale = "tensor<fp16, [1, 1, 1, 1]> s = const()[name = string(\"s\"), val = tensor<fp16, [1, 1, 1, 1]>([[[[0x1p-3]]]])];";
    let fused = mil(&format!(
        "  {scale}\n  {ty} y = anec.sdpa(bottom = (q, k, v, s), subtract_max = bool(true))[name = string(\"attn\")];"
    ));
    let scores = "tensor<fp16, [1, 8, 197, 197]>";
    let apart_form = mil(&format!(
        "  {scale}\n  bool no = const()[name = string(\"no\"), val = bool(false)];\n\
         bool yes = const()[name = string(\"yes\"), val = bool(true)];\n\
         {scores} p = matmul(transpose_x = no, transpose_y = yes, x = q, y = k)[name = string(\"p\")];\n\
         {scores} r = mul(x = p, y = s)[name = string(\"r\")];\n\
         int32 a = const()[name = string(\"a\"), val = int32(-1)];\n\
         {scores} w = softmax(axis = a, x = r)[name = string(\"w\")];\n\
         {ty} y = matmul(transpose_x = no, transpose_y = no, x = w, y = v)[name = string(\"y\")];"
    ));
    let inputs = operands(&fused, 7, (-2.0, 2.0));
    let run = |net: &Net| {
        let program = compile(net, &CHIPS[0], &Options::default(), &mut ()).unwrap();
        executed(&program, net, &inputs).unwrap()
    };
    let (worst, largest) = apart(&run(&fused), &run(&apart_form));
    assert!(worst <= 4e-3 * largest, "{worst} of {largest}");
    let (worst, largest) = apart(&run(&fused), &wanted(&apart_form, &inputs).unwrap());
    assert!(worst <= 4e-3 * largest, "{worst} of {largest}");
}

#[test]
fn a_mask_reaches_every_head() {
    let native = || Native::named("SDPA", &[("SubtractMax", "true")]).unwrap();
    let net = one(native(), &[[1, 6, 3, 8], [1, 6, 3, 8], [1, 6, 3, 8], [1, 1, 1, 1], [1, 6, 1, 6]]);
    let mut inputs = operands(&net, 9, (-1.0, 1.0));
    // Nothing of later positions.
    let causal = (0..36).map(|i| if i % 6 > i / 6 { -10000.0 } else { 0.0 }).collect();
    inputs[4] = Tensor::f32([1, 6, 1, 6], causal);
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).unwrap();
    let got = executed(&program, &net, &inputs).unwrap();
    let (worst, largest) = apart(&got, &wanted(&net, &inputs).unwrap());
    assert!(worst <= 6e-3 * largest, "{worst} of {largest}");
    // The first position sees itself alone, in every head.
    let first = inputs[2].data.to_f32();
    assert!(apart(&got[..24], &first[..24]).0 <= 4e-3);
}

#[test]
fn a_piecewise_linear_curve_is_exact_at_its_knots() {
    // A Gaussian bump, which no activation has, as linear, relu, linear over sixteen knots.
    let knots: Vec<f32> = (0..16).map(|i| i as f32 * 0.5 - 4.0).collect();
    let bump: Vec<f32> = knots
        .iter()
        .map(|x| (f16::from_f32((-x * x / 2.0).exp() * 64.0).to_f32() / 64.0 * 256.0).round() / 256.0)
        .collect();
    let slopes: Vec<f32> = bump.windows(2).map(|w| (w[1] - w[0]) * 2.0).collect();
    let steps: Vec<f32> = (0..slopes.len()).map(|i| slopes[i] - if i == 0 { 0.0 } else { slopes[i - 1] }).collect();
    let hidden = steps.len();
    let mut net = Net { name: "bump".into(), ..Net::default() };
    let mut add = |name: &str, shape: Vec<usize>, data: Option<Vec<f32>>| {
        let data = data.map(|d| std::sync::Arc::new(Tensor::f16(shape.clone(), &d)));
        net.add_value(Value { name: name.into(), ty: TensorType::new(DType::F16, shape), data, surface: None })
    };
    let x = add("x", vec![16, 1], None);
    let w1 = add("w1", vec![hidden, 1], Some(vec![1.0; hidden]));
    let b1 = add("b1", vec![hidden], Some(knots[..hidden].iter().map(|k| -k).collect()));
    let a = add("a", vec![16, hidden], None);
    let r = add("r", vec![16, hidden], None);
    let w2 = add("w2", vec![1, hidden], Some(steps));
    let b2 = add("b2", vec![1], Some(vec![bump[0]]));
    let y = add("y", vec![16, 1], None);
    let mut op = |name: &str, kind, inputs: &[ValueId], out| {
        net.ops.push(Op { name: name.into(), kind, inputs: inputs.to_vec(), outputs: vec![out] });
    };
    op("a", OpKind::Linear, &[x, w1, b1], a);
    op("r", OpKind::Unary(Unary::Relu), &[a], r);
    op("y", OpKind::Linear, &[r, w2, b2], y);
    net.inputs.push(x);
    net.outputs.push(y);
    let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).unwrap();
    let got = executed(&program, &net, &[Tensor::f32([16, 1], knots)]).unwrap();
    assert_eq!(got, bump);
}

#[test]
fn damaged_own_tasks_end_in_an_outcome_or_a_fault() {
    use anemone_engine::{Memory, Options as EngineOptions, run};
    let mut random = Random::new(41);
    let mut faults = 0;
    for row in NATIVES.iter().filter(|n| n.carrier == Carrier::Own) {
        let program = compile(&network(row).unwrap(), first_chip(row).unwrap(), &Options::default(), &mut ()).unwrap();
        for _ in 0..200 {
            let mut damaged = program.clone();
            for _ in 0..=random.next() % 3 {
                let at = random.next() as usize % damaged.stream.len();
                damaged.stream[at] ^= 1 << (random.next() % 8);
            }
            let mut memory = Memory::for_program(&damaged);
            for port in damaged.ports_of(Direction::Input) {
                memory.region_mut(port.bar).unwrap().bytes_mut().fill(0x3c);
            }
            faults += usize::from(run(&damaged, &mut memory, EngineOptions::default()).is_err());
        }
    }
    assert!(faults > 500, "{faults} faults: damage is not seen");
}

/// A ReLU, a top-k over its result, and a ReLU of that.
fn three_segments() -> Net {
    let native = Native::named("TopK", &[("Type", "Max"), ("K", "5"), ("SortDimension", "Width")]).unwrap();
    let mut net = one(native, &[[1, 2, 3, 20]]);
    let (x, y) = (net.inputs[0], net.outputs[0]);
    let copy = |net: &Net, id: ValueId, name: &str| Value { name: name.into(), ..net.value(id).clone() };
    let (before, after) = (copy(&net, x, "before"), copy(&net, y, "after"));
    let (before, after) = (net.add_value(before), net.add_value(after));
    net.ops[0].inputs = vec![before];
    let op = |name: &str, from, to| Op {
        name: name.into(),
        kind: OpKind::Unary(Unary::Relu),
        inputs: vec![from],
        outputs: vec![to],
    };
    net.ops.insert(0, op("before", x, before));
    net.ops.push(op("after", y, after));
    net.outputs = vec![after];
    net
}

#[test]
fn a_native_layer_is_a_dispatch_of_its_own() {
    let net = three_segments();
    let segments = anemone_compile::native::segments(&net);
    assert_eq!(segments.iter().map(|s| s.ops.len()).collect::<Vec<_>>(), [1, 1, 1]);
    let chip = silicon::by_name("m1").unwrap();
    let programs: Vec<Program> =
        segments.iter().map(|s| compile(s, chip, &Options::default(), &mut ()).unwrap()).collect();
    // Dispatched one after the other, each by the names of what the last one left.
    let inputs = operands(&net, 5, (-2.0, 2.0));
    let mut carried = inputs.clone();
    for (segment, program) in segments.iter().zip(&programs) {
        let shape = segment.value(segment.outputs[0]).ty.shape.clone();
        carried = vec![Tensor::f32(shape, executed(program, segment, &carried).unwrap())];
    }
    assert_eq!(carried[0].data.to_f32(), wanted(&net, &inputs).unwrap());
    let whole = compile(&net, chip, &Options::default(), &mut ()).unwrap();
    assert_eq!(executed(&whole, &net, &inputs).unwrap(), carried[0].data.to_f32());
    // In the dispatch descriptor each is an inference.
    let calls: Vec<e5::Call> = programs.iter().map(|program| e5::Call { program, container: &[] }).collect();
    let info = e5::Info { function: "main".into(), ..e5::Info::default() };
    use anemone_facts::formats::e5::{ANE_INFERENCE, OP_TYPES};
    let word = OP_TYPES.iter().find(|c| c.code == ANE_INFERENCE).expect("a kind of operation").name;
    let text = format!("{:?}", e5::from_calls(&calls, &[], &info));
    // A cast in, three inferences, a cast out.
    let inferences = (0..8).filter(|i| text.contains(&format!("Op{i}_{word}"))).collect::<Vec<_>>();
    assert_eq!(inferences, [1, 2, 3]);
}

#[test]
fn programs_for_later_families_say_whose_they_are() {
    let net = network(anemone_facts::native::by_name("SDPA").unwrap()).unwrap();
    let program = compile(&net, silicon::by_name("m3").unwrap(), &Options::default(), &mut ()).unwrap();
    let tasks = program.tasks().unwrap();
    let mark = tasks.last().unwrap();
    let get = |field| mark.get(program.layout, field);
    assert_eq!(get(anemone_facts::Field::OwnKind), Some(anemone_facts::native::OWN_CARRIER));
    let family = get(anemone_facts::Field::OwnFamily).unwrap() as usize;
    assert_eq!(anemone_facts::native::FAMILIES[family], "A15");
    // A network without native layers is refused there as before.
    let plain = network(anemone_facts::native::by_name("Neuron").unwrap()).unwrap();
    let refused = compile(&plain, silicon::by_name("m3").unwrap(), &Options::default(), &mut ());
    assert!(matches!(refused, Err(Error::NoLayout { .. })));
}

#[test]
fn networks_with_native_layers_go_through_every_form() {
    for row in NATIVES.iter().filter(|n| matches!(n.carrier, Carrier::Registers | Carrier::Own)) {
        let net = network(row).unwrap_or_else(|| panic!("{}", row.stem));
        let inputs = operands(&net, 5, (-2.0, 2.0));
        let before = wanted(&net, &inputs).unwrap();
        let (text, blobs) = text::print(&net);
        let parsed = text::parse(&text, &blobs).unwrap_or_else(|e| panic!("{}: {e}\n{text}", row.stem));
        assert_eq!(wanted(&parsed, &inputs).unwrap(), before, "{}: text", row.stem);
    }
}

#[test]
fn random_parameters_are_read_or_refused_by_key() {
    use anemone_net::native::Raw;
    let mut random = Random::new(23);
    let mut refused = 0;
    for round in 0..20_000 {
        let schema = &SCHEMAS[random.next() as usize % SCHEMAS.len()];
        let mut given = Vec::new();
        for key in schema.keys {
            let value = match random.next() % 9 {
                0 => continue,
                1 => Raw::Flag(random.next().is_multiple_of(2)),
                2 => Raw::Integer(random.next() as i64),
                3 => Raw::Integer((random.next() % 20) as i64),
                4 => Raw::Real(f64::from_bits(random.next())),
                5 => {
                    Raw::Text(["Width", "Max", "Linear", "Ascending", "Channel", ""][random.next() as usize % 6].into())
                }
                6 => Raw::List(vec![Raw::Text("Width".into()); random.next() as usize % 3]),
                7 => Raw::Positions((0..random.next() % 5).map(|_| (random.next() % 6) as i64 - 1).collect()),
                _ => Raw::Table(vec![
                    ("Coordinate".into(), Raw::Text("Width".into())),
                    ("SliceSize".into(), Raw::Integer(2)),
                ]),
            };
            given.push((key.name.to_string(), value));
        }
        let extra = round % 7 == 0;
        if extra {
            given.push(("SubtractMx".into(), Raw::Flag(true)));
        }
        match Native::read(schema, "unit", &given) {
            Ok(native) => {
                assert!(!extra, "an unknown key was taken");
                // Whatever was read has an extent, or says why not; and never panics.
                let ty = TensorType::new(DType::F16, [1, 4, 6, 8]);
                let kind = OpKind::Native(Box::new(native));
                for count in schema.least..=schema.most.min(5) {
                    let _ = infer::infer(&kind, &vec![&ty; count], None);
                }
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.starts_with("InvalidParamSyntax: unit `unit`"), "{text}");
            }
        }
    }
    assert!(refused > 1000);
}

#[test]
fn a_ring_writer_has_its_keys_in_the_entry_of_a_list() {
    let row = anemone_facts::native::by_name("RingBufferWriter").unwrap();
    let (plist, weights) = template(row).unwrap();
    let text = String::from_utf8(plist).unwrap();
    let read = |text: &str| read::read(text.as_bytes(), &Beside(weights.clone()), &read::Options::default());
    assert!(read(&text).is_ok(), "{text}");
    let key = text.find("<key>Offset").expect("a key of the entry");
    let entry = &text[text[..key].rfind("<dict>").expect("the entry")..];
    let entry = &entry[..entry.find("</dict>").unwrap() + "</dict>".len()];
    for (changed, part) in [
        (text.replace(entry, &format!("{entry}{entry}")), "a list of 2, one dictionary is carried"),
        (text.replace(entry, ""), "a list of 0"),
        (text.replace("RingBufferWriterInfo", "RingBufferInfo"), "found `RingBufferInfo`"),
        (text.replace("Circular", "Circle"), "the nearest is `Circular`"),
    ] {
        let error = read(&changed).unwrap_err().to_string();
        assert!(error.starts_with("InvalidParamSyntax") && error.contains(part), "{error}");
    }
}

#[test]
fn flattening_is_undone() {
    let x = Tensor::f32([2, 3, 4, 5], (0..120).map(|i| i as f32).collect());
    for order in ["NCHW", "NHWC"] {
        let flat = one(Native::named("Flatten", &[("FlattenType", order)]).unwrap(), &[[2, 3, 4, 5]]);
        let keys =
            [("Mode", order), ("DestinationChannels", "3"), ("DestinationHeight", "4"), ("DestinationWidth", "5")];
        let back = one(Native::named("Unflatten", &keys).unwrap(), &[[2, 1, 1, 60]]);
        let line = wanted(&flat, std::slice::from_ref(&x)).unwrap();
        if order == "NHWC" {
            // All channels of a place, then those of the next.
            assert_eq!(&line[..4], [0.0, 20.0, 40.0, 1.0]);
        }
        assert_eq!(wanted(&back, &[Tensor::f32([2, 1, 1, 60], line)]).unwrap(), x.data.to_f32(), "{order}");
    }
}

#[test]
fn misspelt_keys_are_told_with_the_nearest() {
    let plist = String::from_utf8(listing(true)).unwrap().replace("SubtractMax", "SubstractMax").into_bytes();
    let scale = Beside(vec![0; 2]);
    let error = read::read(&plist, &scale, &read::Options::default()).unwrap_err().to_string();
    for part in ["InvalidParamSyntax", "`attn`", "`SubstractMax`", "the nearest is `SubtractMax`"] {
        assert!(error.contains(part), "{error}");
    }
    let error = Native::named("Sort", &[("SortDimension", "Width")]).unwrap_err().to_string();
    assert!(error.contains("`Direction`: missing"), "{error}");
}

#[test]
fn layers_around_an_own_task_keep_results_in_tile_memory() {
    let source = "net \"n\" {\n  input %state: f16[1, 4, 8, 32]\n  input %x: f16[1, 4, 8, 16]\n  input %z: f16[1, 4, 8, 16]\n  \
                  %a: f16[1, 4, 8, 16] = max(%x, %z)\n  %b: f16[1, 4, 8, 16] = min(%a, %x)\n  \
                  %ring: f16[1, 4, 8, 32] = RingBufferWriter(%state, %b) Dimension=Width Offset=25 Circular=true\n  \
                  %back: f16[1, 4, 8, 16] = RingBufferReader(%ring) Dimension=Width Offset=20 Size=16 Circular=true\n  \
                  %c: f16[1, 4, 8, 16] = max(%back, %a)\n  %y: f16[1, 4, 8, 16] = min(%c, %z)\n  output %y\n}\n";
    let net = text::parse(source, &[]).unwrap();
    let chip = silicon::by_name("m2").unwrap();
    let kept = compile(&net, chip, &Options::default(), &mut ()).unwrap();
    let mut without = Options::default();
    pipeline::by_name("reside").unwrap().disable(&mut without).unwrap();
    let moved = compile(&net, chip, &without, &mut ()).unwrap();
    assert!(kept.scratch_bytes < moved.scratch_bytes, "{} of {}", kept.scratch_bytes, moved.scratch_bytes);
    let inputs = operands(&net, 1, (-2.0, 2.0));
    let wanted = wanted(&net, &inputs).unwrap();
    for program in [kept, moved] {
        assert_eq!(executed(&program, &net, &inputs).unwrap(), wanted);
    }
}
