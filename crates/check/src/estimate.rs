//! Cost model of the framework's segmenter: the work of an operation over a rate, by the rows of `facts::placement`.

use super::describe;
use anemone_facts::chips::Chip;
use anemone_facts::placement::{FLOPS, Form, LEAVES, Leaf, PARAMETERS_FREE, RATES, Rate, Rates, Work};
use anemone_net::outline::{Argument, OutlineOp, OutlineType};

/// Milliseconds that the segmenter estimates for an operation, by back end as in
/// [`Backend::ALL`](super::Backend::ALL).
pub fn estimate(op: &OutlineOp, chip: &Chip) -> [f64; 3] {
    let flops = flops(op);
    let bytes = bytes(op);
    let rates = RATES.iter().find(|r| r.of.is_empty() || r.of.contains(&chip.family) || r.of.contains(&chip.target));
    let default = |pick: fn(&Rates) -> Rate| {
        rates.map_or(0.0, |r| {
            let rate = pick(r);
            1e3 * (bytes / (rate.gibps * (1u64 << 30) as f64)).max(flops / (rate.gflops * 1e9))
        })
    };
    let work = |work: Work| match work {
        Work::Flops => flops,
        Work::Data => elements(op, false),
        Work::Operands => elements(op, true),
    };
    let reached =
        |l: &&Leaf| l.ops.contains(&op.op.as_str()) && is(op, l.form) && work(l.work) >= l.from_millions * 1e6;
    let leaf = LEAVES.iter().rev().find(reached);
    let cost = |rate: Option<f64>, default: f64| match (rate, leaf) {
        (Some(rate), Some(leaf)) if rate > 0.0 => 1e3 * work(leaf.work) / (rate * 1e9),
        _ => default,
    };
    [
        cost(leaf.map(|l| l.classic), default(|r| r.classic)),
        cost(leaf.map(|l| l.bnns), default(|r| r.bnns)),
        cost(leaf.map(|l| l.ane), default(|r| r.ane)),
    ]
}

fn is(op: &OutlineOp, form: Form) -> bool {
    match form {
        Form::Any => true,
        Form::Dilated => op.numbers("dilations").is_some_and(|d| d.iter().any(|&d| d > 1.0)),
        Form::Depthwise => {
            let channels = op.argument("x").and_then(|x| x.ty().extents().get(1).copied());
            op.number("groups").is_some_and(|g| g > 1.0 && channels.is_some_and(|c| c as f64 == g))
        }
    }
}

/// Floating-point operations as the segmenter counts them, which are not always those of the engine.
fn flops(op: &OutlineOp) -> f64 {
    let out = op.outputs.first().map_or(0.0, |o| o.ty.elements() as f64);
    let product = |values: Option<&[f64]>| values.map_or(1.0, |v| v.iter().product::<f64>().max(1.0));
    match op.op.as_str() {
        // Only the memory traffic of attention is counted.
        "scaled_dot_product_attention" => 0.0,
        "conv" => 2.0 * describe::macs(op) as f64 / product(op.numbers("dilations")),
        // Counted by result position, as if every tap had an input element there.
        "conv_transpose" => {
            let weight = op.argument("weight").map(|w| w.ty().extents()).unwrap_or_default();
            let (inputs, taps) = (weight.first().copied().unwrap_or(0), weight.iter().skip(2).product::<usize>());
            2.0 * out * inputs as f64 * taps as f64 / op.number("groups").unwrap_or(1.0).max(1.0)
        }
        "max_pool" | "avg_pool" | "l2_pool" => out * product(op.numbers("kernel_sizes")),
        name => match FLOPS.iter().find(|(op, _)| *op == name) {
            Some((_, each)) => each * out,
            None => 2.0 * describe::macs(op) as f64,
        },
    }
}

/// Operands, those that repeat once. Words are none.
fn operands(op: &OutlineOp) -> Vec<(&str, &Argument)> {
    let mut seen: Vec<&str> = Vec::new();
    let mut kept = Vec::new();
    for (name, argument) in &op.arguments {
        match argument {
            Argument::Value(value) if seen.contains(&value.name.as_str()) => continue,
            Argument::Value(value) => seen.push(&value.name),
            Argument::Constant(constant) if constant.ty.element == "string" => continue,
            Argument::Constant(_) => {}
        }
        kept.push((name.as_str(), argument));
    }
    kept
}

/// Bytes that the default model moves: operands with their constants, and the first result.
fn bytes(op: &OutlineOp) -> f64 {
    let free = PARAMETERS_FREE.contains(&op.op.as_str());
    // A window's padding is a parameter of the loop, not memory.
    let loops = |name: &str| name == "pad" && op.argument("kernel_sizes").is_some();
    let counts = |name: &str, argument: &Argument| matches!(argument, Argument::Value(_)) || !(free || loops(name));
    let sum = |ty: &OutlineType| ty.bytes() as f64;
    let read: f64 = operands(op).into_iter().filter(|(n, a)| counts(n, a)).map(|(_, a)| sum(a.ty())).sum();
    read + op.outputs.first().map_or(0.0, |o| sum(&o.ty))
}

/// Elements of operands, with their parameters or without.
fn elements(op: &OutlineOp, parameters: bool) -> f64 {
    let counts = |argument: &Argument| parameters || matches!(argument, Argument::Value(_));
    operands(op).into_iter().filter(|(_, a)| counts(a)).map(|(_, a)| a.ty().elements() as f64).sum()
}
