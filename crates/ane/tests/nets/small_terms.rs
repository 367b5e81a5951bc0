//! Products with terms below the resolution of the exact arrays: results of bounded operands keep their digits, and never overflow.

use crate::common;

use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{Tensor, check, eval, text};
use common::Random;
use common::suite::execute;

/// Operations that bound their operand, with `%x`.
const OPENINGS: [&str; 5] = [
    "tanh(%x)",
    "softmax(%x) axis=2",
    "layer_norm(%x) axes=[2] epsilon=0.00001",
    "clip(%x) min=-4.0 max=4.0",
    "sigmoid(%x)",
];

/// Operations of one operand `%a`, with a result of the same shape.
const BETWEEN: [&str; 4] = ["relu(%a)", "silu(%a)", "neg(%a)", "identity(%a)"];

fn constant(name: &str, shape: [usize; 2], scale: f32, random: &mut Random) -> String {
    let data: Vec<String> =
        (0..shape[0] * shape[1]).map(|_| format!("{:?}", random.uniform(-1.0, 1.0) * scale)).collect();
    format!("  const %{name}: f16[{}, {}] = [{}]\n", shape[0], shape[1], data.join(", "))
}

/// A network whose products have terms of 2^-`digits` or less.
fn network(case: usize, digits: i32, random: &mut Random) -> String {
    let scale = (-digits as f32).exp2();
    let opening = OPENINGS[case % OPENINGS.len()];
    // A table between products of values ends a scale.
    let between = match case % 3 {
        2 => "neg(%a)",
        _ => BETWEEN[case / OPENINGS.len() % BETWEEN.len()],
    };
    let mut net = format!("net \"n\" {{\n  input %x: f16[1, 12, 16]\n  %o: f16[1, 12, 16] = {opening}\n");
    net += &constant("w", [16, 16], scale, random);
    net += "  %a: f16[1, 12, 16] = linear(%o, %w)\n";
    net += &format!("  %b: f16[1, 12, 16] = {between}\n");
    net += &constant("v", [16, 16], scale.sqrt(), random);
    match case % 3 {
        0 => net += "  %y: f16[1, 12, 16] = linear(%b, %v)\n",
        1 => {
            net += "  %t: f16[1, 12, 16] = linear(%o, %v)\n  %p: f16[1, 12, 12] = matmul(%b, %t) transpose_x=false transpose_y=true\n";
            net += "  %s: f16[1, 12, 12] = softmax(%p) axis=2\n  %y: f16[1, 12, 16] = matmul(%s, %t) transpose_x=false transpose_y=false\n";
        }
        _ => {
            net += "  %s: f16[1, 12, 12] = matmul(%b, %o) transpose_x=false transpose_y=true\n";
            net += "  %y: f16[1, 12, 16] = matmul(%s, %b) transpose_x=false transpose_y=false\n";
        }
    }
    net + "  output %y\n}\n"
}

#[test]
fn products_with_small_terms_keep_their_digits() {
    let (mut random, mut compared) = (Random::new(56), 0);
    for case in 0..60 {
        let digits = 5 + (case / 20) as i32 * 3;
        let source = network(case, digits, &mut random);
        let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("case {case}: {e}\n{source}"));
        check::check(&net).unwrap_or_else(|e| panic!("case {case}: {e:?}"));
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        // Layer norms of larger operands overflow in their squares.
        for size in if case % OPENINGS.len() == 2 { [1.0, 100.0] } else { [1.0, 60000.0] } {
            let data: Vec<f32> = (0..12 * 16).map(|_| random.uniform(-size, size)).collect();
            let tensor = Tensor::f32(vec![1, 12, 16], data.clone());
            let expected = eval::eval(&net, &[tensor]).expect("evaluates")[0].data.to_f32();
            let result = execute(&program, &[data], Model::Fixed).expect("runs");
            let most = expected.iter().fold(0f32, |most, y| most.max(y.abs()));
            let worst = expected.iter().zip(&result).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            assert!(worst.is_finite(), "case {case}, inputs to {size}: a result is not finite\n{source}");
            // Subnormal results have few digits in any model.
            if most < (-13f32).exp2() {
                continue;
            }
            compared += 1;
            assert!(worst <= most / 100.0, "case {case}, inputs to {size}: error {worst} of {most}\n{source}");
        }
    }
    assert!(compared >= 90, "{compared} results have normal magnitudes");
}

/// Functions of small values: a table with knots an eighth apart or more is off by as much as such values are large.
#[test]
fn functions_of_small_values_keep_their_digits() {
    let hard_swish =
        ["  %h: f16[1, 12, 16] = sigmoid_hard(%a) alpha=0.16666667 beta=0.5\n", "  %b: f16[1, 12, 16] = mul(%a, %h)\n"]
            .concat();
    let soft_cap = [
        "  const %c: f16[] = [30.0]\n  %s: f16[1, 12, 16] = div(%a, %c)\n",
        "  %t: f16[1, 12, 16] = tanh(%s)\n  %b: f16[1, 12, 16] = mul(%t, %c)\n",
    ]
    .concat();
    let mut random = Random::new(56);
    // The largest error relative to the largest value, and the scale of the weights.
    for (body, scale, most_error) in [(hard_swish, 0.003, 0.004), (soft_cap, 0.1, 0.001)] {
        let mut source =
            String::from("net \"n\" {\n  input %x: f16[1, 12, 16]\n  %o: f16[1, 12, 16] = clip(%x) min=-1.0 max=1.0\n");
        source += &constant("w", [16, 16], scale, &mut random);
        source += &format!("  %a: f16[1, 12, 16] = linear(%o, %w)\n{body}");
        source += &constant("v", [16, 16], 1.0, &mut random);
        source += "  %y: f16[1, 12, 16] = linear(%b, %v)\n  output %y\n}\n";
        let data: Vec<f32> = (0..12 * 16).map(|_| random.uniform(-1.0, 1.0)).collect();
        let (worst, most) = error(&source, &data, Model::Fast);
        assert!(worst <= most * most_error, "error {worst} of {most}\n{body}");
    }
}

/// Largest error and largest value of a compiled network, on an input of 12 rows of 16 columns.
fn error(source: &str, data: &[f32], model: Model) -> (f32, f32) {
    let net = text::parse(source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let tensor = Tensor::f32(vec![1, 12, 16], data.to_vec());
    let expected = eval::eval(&net, &[tensor]).expect("evaluates")[0].data.to_f32();
    let result = execute(&program, &[data.to_vec()], model).expect("runs");
    let most = expected.iter().fold(0f32, |most, y| most.max(y.abs()));
    (expected.iter().zip(&result).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max), most)
}

/// Norms of small elements: variances and squares have few digits in fp16, and so have the addends to variances.
#[test]
fn norms_of_small_elements_keep_their_digits() {
    let layer_norm = "  %y: f16[1, 12, 16] = layer_norm(%a) axes=[2] epsilon=0.000001\n";
    let euclidean = "  %l: f16[1, 12, 1] = reduce_l2(%a) axes=[2] keep_dims=true\n  %y: f16[1, 12, 16] = div(%a, %l)\n";
    let mut random = Random::new(56);
    for body in [layer_norm, euclidean] {
        let mut source =
            String::from("net \"n\" {\n  input %x: f16[1, 12, 16]\n  %o: f16[1, 12, 16] = clip(%x) min=-1.0 max=1.0\n");
        source += &constant("w", [16, 16], 0.0005, &mut random);
        source += &format!("  %a: f16[1, 12, 16] = linear(%o, %w)\n{body}  output %y\n}}\n");
        let data: Vec<f32> = (0..12 * 16).map(|_| random.uniform(-1.0, 1.0)).collect();
        let (worst, most) = error(&source, &data, Model::Fast);
        assert!(worst <= most * 0.003, "error {worst} of {most}\n{body}");
    }
}

/// Small weights of an input of any size: no input makes the scaled sums overflow.
#[test]
fn small_weights_of_inputs_keep_their_digits() {
    let mut random = Random::new(57);
    let mut source = String::from("net \"n\" {\n  input %x: f16[1, 12, 16]\n");
    source += &constant("w", [16, 16], 0.00003, &mut random);
    source += "  %y: f16[1, 12, 16] = linear(%x, %w)\n  output %y\n}\n";
    for size in [10.0, 60000.0] {
        let data: Vec<f32> = (0..12 * 16).map(|_| random.uniform(-size, size)).collect();
        let (worst, most) = error(&source, &data, Model::Fixed);
        assert!(worst <= most * 0.002, "inputs to {size}: error {worst} of {most}");
    }
}

/// Twenty residual layers without norms or bounds: values grow from layer to layer, and a scale by their guessed size would overflow.
#[test]
fn deep_networks_without_norms_stay_finite() {
    const C: usize = 8;
    let mut random = Random::new(20);
    let weights = |name: &str, size: f32, random: &mut Random| {
        let data: Vec<String> = (0..C * C * 9).map(|_| format!("{:?}", random.uniform(-size, size))).collect();
        format!("  const %{name}: f16[{C}, {C}, 3, 3] = [{}]\n", data.join(", "))
    };
    let conv = "strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1";
    let ty = format!("f16[1, {C}, 8, 8]");
    let mut source = format!("net \"n\" {{\n  input %x0: {ty}\n");
    for i in 0..20 {
        source += &weights(&format!("v{i}"), 0.3, &mut random);
        source += &weights(&format!("w{i}"), 0.3, &mut random);
        source += &format!("  %a{i}: {ty} = conv(%x{i}, %v{i}) {conv}\n  %b{i}: {ty} = relu(%a{i})\n");
        source += &format!("  %c{i}: {ty} = conv(%b{i}, %w{i}) {conv}\n  %s{i}: {ty} = add(%x{i}, %c{i})\n");
        source += &format!("  %x{}: {ty} = relu(%s{i})\n", i + 1);
    }
    source += "  output %x20\n}\n";
    let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}"));
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let data: Vec<f32> = (0..C * 64).map(|_| random.uniform(-2.0, 2.0)).collect();
    let expected = eval::eval(&net, &[Tensor::f32([1, C, 8, 8], data.clone())]).expect("evaluates")[0].data.to_f32();
    let result = execute(&program, &[data], Model::Fixed).expect("runs");
    let most = expected.iter().fold(0f32, |most, y| most.max(y.abs()));
    let worst = expected.iter().zip(&result).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
    assert!((1000.0..16000.0).contains(&most), "values grow to {most}");
    assert!(worst <= most / 100.0, "error {worst} of {most}");
}
