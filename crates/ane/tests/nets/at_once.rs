//! Rewrites that compute or move several values at once: rotations, constants and factors of channels.

use super::few_tasks::exact_in_few_tasks;
use anemone::Array;
use anemone::execute::execute;
use anemone_compile::{Options, compile};
use anemone_engine as engine;
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::{Tensor, eval, text};

/// A rotation of the axis at 1 or 2 of `f16[1, 6, 7, 40]` by `first`.
fn rotation(out: &str, from: &str, axis: usize, first: usize) -> String {
    let extents = [1, 6, 7, 40];
    let part = |name: &str, begin: usize, end: usize| {
        let (mut low, mut high, mut shape) = ([0; 4], extents, extents);
        (low[axis], high[axis], shape[axis]) = (begin, end, end - begin);
        format!("  %{name}: f16{shape:?} = slice(%{from}) begin={low:?} end={high:?} stride=[1, 1, 1, 1]\n")
    };
    let (end, begin) = (format!("{out}_end"), format!("{out}_begin"));
    part(&end, first, extents[axis])
        + &part(&begin, 0, first)
        + &format!("  %{out}: f16[1, 6, 7, 40] = concat(%{end}, %{begin}) axis={axis}\n")
}

/// Rotations of rows and of columns of tokens copy the part of the begin or of the end that is smaller, not the whole value twice.
#[test]
fn a_rotation_copies_what_is_smaller() {
    for (rows, columns) in [(2, 3), (4, 2), (5, 6), (1, 5)] {
        let ops = "%a: f16[1, 6, 7, 40] = relu(%x0)\n".to_string()
            + &rotation("b", "a", 1, rows)
            + &rotation("c", "b", 2, columns)
            + "  %y: f16[1, 6, 7, 40] = max(%c, %x0)";
        exact_in_few_tasks("a rotation", &["f16[1, 6, 7, 40]"], &ops, 5);
    }
}

/// A rotation of what another operation reads too, and one by half of an axis.
#[test]
fn rotations_with_other_readers_are_right() {
    let ops = "%a: f16[1, 6, 7, 40] = relu(%x0)\n".to_string()
        + &rotation("b", "a", 1, 3)
        + &rotation("c", "a", 2, 2)
        + &rotation("d", "c", 2, 3)
        + "  %m: f16[1, 6, 7, 40] = max(%b, %c)\n  %n: f16[1, 6, 7, 40] = max(%m, %d)\n  %y: f16[1, 6, 7, 40] = add(%n, %a)";
    exact_in_few_tasks("rotations with other readers", &["f16[1, 6, 7, 40]"], &ops, 14);
}

#[test]
fn two_constants_are_added_at_once() {
    let ops = "const %a: f16[3, 4] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]\n  \
               const %b: f16[2, 1, 4] = [16.0, 32.0, 64.0, 128.0, 256.0, 16.0, 32.0, 64.0]\n  \
               %s: f16[2, 3, 4] = sub(%x0, %a)\n  %y: f16[2, 3, 4] = add(%s, %b)";
    exact_in_few_tasks("two constants", &["f16[2, 3, 4]"], ops, 1);
}

/// The output of a network, in the given model of numbers.
fn run(source: &str, inputs: &[Tensor], model: Model) -> Vec<f32> {
    let net = text::parse(source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).expect("compiles");
    let named = net.inputs.iter().zip(inputs);
    let arrays: Vec<(String, Array)> = named
        .map(|(&id, t)| (net.value(id).name.clone(), Array { shape: t.shape.clone(), data: t.data.to_f32() }))
        .collect();
    let run = execute(&program, &arrays, engine::Options { model, ..Default::default() }).expect("runs");
    run.outputs[0].1.data.clone()
}

/// A factor of the queries that the weights take, of weights that fp16 rounds and of those that it represents, before a softmax and without one.
#[test]
fn factors_of_channels_are_right() {
    for denominator in [64.0, 70.0] {
        let weights: Vec<String> =
            (0..96 * 8).map(|i| format!("{:?}", (i * 37 % 61) as f32 / denominator - 0.4375)).collect();
        let bias: Vec<String> = (0..96).map(|i| format!("{:?}", (i * 11 % 17) as f32 / denominator)).collect();
        for last in ["  %y: f32[2, 10, 10] = softmax(%m) axis=2\n", "  %y: f32[2, 10, 10] = relu(%m)\n"] {
            let mut source = format!(
                "net \"n\" {{\n  input %x: f32[10, 8]\n  const %w: f32[96, 8] = [{}]\n  const %b: f32[96] = [{}]\n  \
                 %p: f32[10, 96] = linear(%x, %w, %b)\n  %r: f32[10, 3, 2, 16] = reshape(%p)\n  \
                 %t: f32[3, 2, 10, 16] = transpose(%r) perm=[1, 2, 0, 3]\n  const %c: f32[] = [0.17677669]\n",
                weights.join(", "),
                bias.join(", ")
            );
            for (k, name) in ["q", "k", "v"].iter().enumerate() {
                source += &format!(
                    "  %{name}1: f32[1, 2, 10, 16] = slice(%t) begin=[{k}, 0, 0, 0] end=[{}, 2, 10, 16] stride=[1, 1, 1, 1]\n  \
                     %{name}: f32[2, 10, 16] = reshape(%{name}1)\n",
                    k + 1
                );
            }
            source += "  %s: f32[2, 10, 16] = mul(%q, %c)\n  %m: f32[2, 10, 10] = matmul(%s, %k) transpose_x=false transpose_y=true\n";
            source += last;
            source += "  %z: f32[2, 10, 16] = matmul(%y, %v) transpose_x=false transpose_y=false\n  output %z\n}\n";
            let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
            let x = Tensor::f32(vec![10, 8], (0..80).map(|i| (i * 29 % 41) as f32 / 32.0 - 0.625).collect());
            let expected = eval::eval_typed(&net, std::slice::from_ref(&x)).expect("evaluates")[0].data.to_f32();
            let most = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
            for model in [Model::Fast, Model::Fixed] {
                let found = run(&source, std::slice::from_ref(&x), model);
                for (at, (y, expected)) in found.iter().zip(&expected).enumerate() {
                    assert!((y - expected).abs() < 3e-3 * most, "{model:?}, {denominator}, {at}: {y} for {expected}");
                }
            }
        }
    }
}

/// Attention of 256 queries to 7 keys in several heads of few channels: the values of the heads are streams of coefficients, whose rows follow
/// each other, and not the rows of the copy that they are transposed from.
#[test]
fn values_of_narrow_heads_are_streams_of_coefficients() {
    for (heads, depth) in [(4, 2), (8, 3), (2, 4)] {
        let width = heads * depth;
        let weights = |name: &str, seed: usize| {
            let all: Vec<String> =
                (0..width * width).map(|i| format!("{:?}", ((i * 37 + seed) % 61) as f32 / 64.0 - 0.46875)).collect();
            format!("  const %{name}: f32[{width}, {width}] = [{}]\n", all.join(", "))
        };
        let head = |name: &str, from: &str, rows: usize, perm: [usize; 3], shape: [usize; 3]| {
            format!(
                "  %{name}1: f32[{rows}, {width}] = linear(%{from}, %w{name})\n  \
                 %{name}2: f32[{rows}, {heads}, {depth}] = reshape(%{name}1)\n  %{name}: f32{shape:?} = transpose(%{name}2) perm={perm:?}\n"
            )
        };
        let source = format!("net \"n\" {{\n  input %x: f32[256, {width}]\n  input %c: f32[7, {width}]\n")
            + &[("wq", 0), ("wk", 5), ("wv", 11), ("wo", 17)].map(|(name, seed)| weights(name, seed)).concat()
            + &head("q", "x", 256, [1, 0, 2], [heads, 256, depth])
            + &head("k", "c", 7, [1, 2, 0], [heads, depth, 7])
            + &head("v", "c", 7, [1, 0, 2], [heads, 7, depth])
            + &format!(
                "  %s: f32[{heads}, 256, 7] = matmul(%q, %k) transpose_x=false transpose_y=false\n  \
                 %p: f32[{heads}, 256, 7] = softmax(%s) axis=2\n  \
                 %o: f32[{heads}, 256, {depth}] = matmul(%p, %v) transpose_x=false transpose_y=false\n  \
                 %t: f32[256, {heads}, {depth}] = transpose(%o) perm=[1, 0, 2]\n  %r: f32[256, {width}] = reshape(%t)\n  \
                 %y: f32[256, {width}] = linear(%r, %wo)\n  output %y\n}}\n"
            );
        let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let values = |rows: usize| (0..rows * width).map(|i| (i * 29 % 41) as f32 / 32.0 - 0.625).collect();
        let inputs = [256, 7].map(|rows| Tensor::f32(vec![rows, width], values(rows)));
        let expected = eval::eval_typed(&net, &inputs).expect("evaluates")[0].data.to_f32();
        let most = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
        for model in [Model::Fast, Model::Fixed] {
            for (at, (y, expected)) in run(&source, &inputs, model).iter().zip(&expected).enumerate() {
                assert!((y - expected).abs() < 4e-3 * most, "{model:?}, {heads} heads, {at}: {y} for {expected}");
            }
        }
    }
}
