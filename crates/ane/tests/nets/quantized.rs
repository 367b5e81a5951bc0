//! Quantized networks: quantization goes into the layers, so that a network has few tasks more than its float twin, and results are
//! those of the evaluator but for roundings at half a step.

use anemone::Array;
use anemone::execute::{execute, level_cost, rounding_cost};
use anemone_compile::{Options, compile, pipeline};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{Data, Net, Tensor, eval, text};
use half::f16;

/// Scale of the network's activations.
const STEP: f32 = 0.0625;

/// Two convolutions and a residual addition; `quantized` puts quantization and its inverse behind each.
fn network(quantized: bool) -> Net {
    let weights = |outputs: usize, inputs: usize| -> String {
        let one = |i: usize| format!("{:.4}", ((i * 37 % 41) as f32 - 20.0) / 64.0);
        (0..outputs * inputs).map(one).collect::<Vec<_>>().join(", ")
    };
    let (first, second) = (weights(8, 4), weights(8, 8));
    let mut lines = format!(
        "net \"n\" {{\n  input %x: f32[1, 4, 6, 6]\n  const %s: f32[1] = [{STEP}]\n  const %z: f32[1] = [128.0]\n\
         \x20 const %v: f32[8, 4, 1, 1] = [{first}]\n  const %w: f32[8, 8, 1, 1] = [{second}]\n"
    );
    let mut count = 0;
    let mut fake = |lines: &mut String, from: &str, channels: usize| -> String {
        if !quantized {
            return from.to_string();
        }
        count += 1;
        let (n, shape) = (count, format!("[1, {channels}, 6, 6]"));
        *lines += &format!(
            "  %a{n}: f32{shape} = div({from}, %s)\n  %b{n}: f32{shape} = round(%a{n})\n  %c{n}: f32{shape} = add(%b{n}, %z)\n  \
             %d{n}: f32{shape} = clip(%c{n}) min=0.0 max=255.0\n  %q{n}: u8{shape} = cast(%d{n})\n  \
             %e{n}: f32{shape} = cast(%q{n})\n  %f{n}: f32{shape} = sub(%e{n}, %z)\n  %g{n}: f32{shape} = mul(%f{n}, %s)\n"
        );
        format!("%g{n}")
    };
    let x = fake(&mut lines, "%x", 4);
    let conv = |name: &str, x: &str, w: &str| {
        format!(
            "  {name}: f32[1, 8, 6, 6] = conv({x}, {w}) strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1\n"
        )
    };
    lines += &conv("%p", &x, "%v");
    lines += "  %r: f32[1, 8, 6, 6] = relu(%p)\n";
    let r = fake(&mut lines, "%r", 8);
    lines += &conv("%k", &r, "%w");
    let k = fake(&mut lines, "%k", 8);
    lines += &format!("  %t: f32[1, 8, 6, 6] = add({r}, {k})\n");
    let t = fake(&mut lines, "%t", 8);
    lines += &format!("  %y: f32[1, 8, 6, 6] = relu({t})\n  output %y\n}}\n");
    text::parse(&lines, &[]).expect("the network parses")
}

fn input() -> Tensor {
    let data = (0..144).map(|i| ((i * 29 % 97) as f32 - 48.0) / 8.0).collect();
    Tensor { shape: vec![1, 4, 6, 6], data: Data::F32(data) }
}

#[test]
fn quantization_goes_into_layers() {
    let chip = &chips::CHIPS[0];
    let mut options = Options::default();
    // Without roundings, the sum would become part of the convolution.
    pipeline::by_name("sum-convolutions").expect("the pass").disable(&mut options).expect("it is optional");
    let tasks = |quantized: bool| {
        let program = compile(&network(quantized), chip, &options, &mut ()).expect("compiles");
        program.tasks().expect("a stream of tasks").len()
    };
    let (float, quantized) = (tasks(false), tasks(true));
    // The network's input and the sum are roundings of their own, each with a scale.
    assert!(quantized <= float + 4, "{quantized} tasks, {float} without quantization");
}

#[test]
fn results_are_whole_steps_as_the_evaluator_has_them() {
    let net = network(true);
    let chip = &chips::CHIPS[0];
    let program = compile(&net, chip, &Options::default(), &mut ()).expect("compiles");
    let expected = eval::eval(&net, &[input()]).expect("evaluates");
    let array = Array { shape: input().shape, data: input().data.to_f32() };
    let run = execute(&program, &[("x".into(), array)], Default::default()).expect("runs");
    let (found, expected) = (&run.outputs[0].1.data, expected[0].data.to_f32());
    let off = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > STEP / 64.0).count();
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 2.5 * STEP), "more than two steps off");
    assert!(off * 50 < found.len(), "{off} of {} are off by a step", found.len());
}

/// Every fp16 number of a quantization's range becomes the step that the evaluator has, but for exact ties in the exact model.
#[test]
fn a_quotient_is_rounded_once() {
    for scale in [0.1f32, 0.05, 0.3, 0.007_813, 1.7] {
        let all: Vec<f32> =
            (0..0x7c00u16).map(|bits| f16::from_bits(bits).to_f32()).filter(|x| *x < 140.0 * scale).collect();
        let mut x: Vec<f32> = all.iter().flat_map(|x| [*x, -x]).collect();
        let rows = x.len() / 32;
        x.truncate(rows * 32);
        let net = format!(
            "net \"n\" {{\n  input %x: f16[{rows}, 32]\n  const %s: f32[] = [{scale}]\n  %w: f32[{rows}, 32] = cast(%x)\n  \
             %q: f32[{rows}, 32] = div(%w, %s)\n  %r: f32[{rows}, 32] = round(%q)\n  %c: f32[{rows}, 32] = clip(%r) min=-128.0 max=127.0\n  \
             const %h: f32[] = [0.5]\n  %y: f32[{rows}, 32] = mul(%c, %h)\n  output %y\n}}\n"
        );
        let net = text::parse(&net, &[]).expect("the net parses");
        let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
        for model in [Model::Fast, Model::Fixed] {
            let options = anemone_engine::Options { model, ..Default::default() };
            let given = [("x".to_string(), Array { shape: vec![rows, 32], data: x.clone() })];
            let run = execute(&program, &given, options).expect("runs");
            for (x, got) in x.iter().zip(&run.outputs[0].1.data) {
                let quotient = f64::from(*x) / f64::from(scale);
                let wanted = quotient.round_ties_even().clamp(-128.0, 127.0) * 0.5;
                // The factor is the scale's reciprocal in fp32: what is nearer to a tie than that resolves is left out.
                let tie = (quotient.abs().fract() - 0.5).abs() < 1e-4;
                assert!(tie || f64::from(*got) == wanted, "{x} / {scale} is {quotient}, {got} by {}", model.name());
            }
        }
    }
}

/// A value beside the middle of two levels moves to either one by rounding: the cost of rounding is that of several roundings.
#[test]
fn levels_that_rounding_moves_are_a_cost_of_rounding() {
    let cost = |body: &str| {
        let net =
            text::parse(&format!("net \"n\" {{\n  input %x: f32[1]\n{body}  output %y\n}}\n"), &[]).expect("parses");
        let inputs = [("x".to_string(), Array { shape: vec![1], data: vec![0.50026] })];
        (rounding_cost(&net, &inputs, "y").expect("evaluated").max, level_cost(&net, &inputs, "y").map(|cost| cost.max))
    };
    // Between the fp16 numbers 0.5, which rounds to zero, and 0.50049.
    assert_eq!(cost("  %y: f32[1] = round(%x)\n"), (0.0, Some(1.0)));
    assert_eq!(cost("  %y: f32[1] = relu(%x)\n").1, None);
}

/// A divisor's least value is zero in fp16, which makes NaN of a quotient that programs compute: digits alone are rounded then.
#[test]
fn the_cost_of_rounding_is_known_beyond_the_range_of_fp16() {
    let net = "net \"n\" {\n  input %x: f32[2]\n  const %e: f32[] = [0.000000000001]\n  %m: f32[2] = max(%x, %e)\n  %q: f32[2] = div(%x, %m)\n  \
               %s: f32[1] = reduce_sum(%q) axes=[0] keep_dims=true\n  %y: f32[2] = add(%s, %x)\n  output %y\n}\n";
    let net = text::parse(net, &[]).expect("parses");
    let inputs = [("x".to_string(), Array { shape: vec![2], data: vec![0.0, 0.1] })];
    let cost = rounding_cost(&net, &inputs, "y").expect("evaluated").max;
    assert!(cost > 1e-4 && cost < 1e-3, "{cost}");
}
