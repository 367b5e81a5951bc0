//! Rules for results that are silently wrong.

use super::Finding;
use super::ranges::{Bound, magnitude, operand};
use crate::describe;
use crate::legal::Route;
use crate::placement::Placement;
use anemone_net::outline::{Argument, Outline, OutlineOp};
use anemone_net::proof::{LONGEST_PROOF, Sign, sign};
use std::collections::HashMap;

/// Greatest value that the fixed-point path of a slice or of int8 weights carries.
const FIXED_POINT: f64 = 4094.0;
/// Magnitude at which the output port of the multiply-accumulate array saturates.
const PORT: f64 = 32768.0;
/// Largest argument for which exp stays finite in fp16: ln 65504, rounded.
const EXP: f64 = 11.09;

pub fn check(outline: &Outline, placement: &Placement, bounds: &HashMap<String, Bound>, findings: &mut Vec<Finding>) {
    for (at, op) in outline.ops.iter().enumerate() {
        if op.constant || !placement.on_engine(at) && placement.route == Route::Framework {
            continue;
        }
        if let Some((code, message)) = operation(op, placement, bounds, outline) {
            findings.push(Finding::new(code, Some(at), message));
        }
    }
}

fn operation(
    op: &OutlineOp,
    placement: &Placement,
    bounds: &HashMap<String, Bound>,
    outline: &Outline,
) -> Option<(&'static str, String)> {
    let x = operand(op, "x", bounds);
    if describe::named(op).is_some_and(|row| row.stem == "SDPA") {
        let key =
            op.arguments.iter().find(|(name, _)| name.eq_ignore_ascii_case("SubtractMax") || name == "subtract_max");
        let set = key.is_some_and(|(name, _)| op.number(name) == Some(1.0));
        let message = "SubtractMax is not set: scores above 11 overflow fp16, and the softmax is wrong".to_string();
        return (!set).then_some(("W17", message));
    }
    match op.op.as_str() {
        "slice_by_index" | "slice_by_size" => width_slice(op, placement, x),
        "matmul" | "conv" | "linear" => product(op, bounds),
        "reduce_sum" => sum(op, x, outline),
        "exp" => {
            let most = x?.1;
            (most > EXP).then(|| ("W06", format!("exp of values up to {most:.4}: above {EXP} fp16 overflows")))
        }
        "pow" => {
            let certain = x.is_some_and(|(least, _)| least >= 0.0)
                || matches!(op.argument("x"), Some(Argument::Value(v)) if never_negative(&v.name, outline, LONGEST_PROOF))
                || x.is_none() && matches!(op.argument("x"), Some(Argument::Constant(_)));
            let root = matches!(op.number("y"), Some(0.5 | -0.5 | 1.0 | -1.0 | 2.0));
            (!certain && !root).then(|| {
                let message = "a power of numbers that may be negative: by exp2(y log2 x) it is 1 for each of them";
                ("W18", message.to_string())
            })
        }
        "equal" | "not_equal" => {
            let same = match (op.argument("x"), op.argument("y")) {
                (Some(Argument::Value(a)), Some(Argument::Value(b))) => a.name == b.name,
                _ => false,
            };
            same.then(|| {
                ("W07", "a value compared with itself to find NaN: the engine turns NaN into infinity".to_string())
            })
        }
        "scaled_dot_product_attention" => {
            let rows = |name: &str| op.argument(name).and_then(|a| a.ty().extents().iter().rev().nth(1).copied());
            let (queries, keys) = (rows("query")?, rows("key")?);
            let (long, short) = (queries.max(keys), queries.min(keys));
            (long > 2048 || short >= 512)
                .then(|| ("W08", format!("native attention over {queries} x {keys} positions is wrong")))
        }
        "ScaledElementWise" => {
            let scale = op.number("Scale").unwrap_or(1.0);
            (op.text("Type") == Some("Mult") && scale != 1.0)
                .then(|| ("W10", format!("a scaled product ignores its scale of {scale}")))
        }
        _ => None,
    }
}

/// Returns true if a value is provably non-negative: the result of operations that give no negative numbers, to a depth of
/// `depth` operations. Constants whose numbers the outline does not keep count as non-negative.
fn never_negative(name: &str, outline: &Outline, depth: usize) -> bool {
    let made = outline.ops.iter().find(|op| op.outputs.iter().any(|o| o.name == name));
    let Some(op) = made.filter(|_| depth > 0) else { return false };
    let one = |argument: &Argument| match argument {
        Argument::Value(value) => never_negative(&value.name, outline, depth - 1),
        Argument::Constant(constant) => constant.numbers.as_ref().is_none_or(|n| n.iter().all(|&n| n >= 0.0)),
    };
    // Other operations move elements: their first argument is data, the others are positions.
    let operands: Vec<&Argument> = match op.op.as_str() {
        "add" | "mul" | "concat" | "max" | "maximum" | "min" | "minimum" => {
            let data = |key: &String| !matches!(key.as_str(), "axis" | "interleave");
            op.arguments.iter().filter(|(key, _)| data(key)).map(|(_, argument)| argument).collect()
        }
        _ => op.argument("x").or(op.arguments.first().map(|(_, argument)| argument)).into_iter().collect(),
    };
    let same = || match (op.argument("x"), op.argument("y")) {
        (Some(Argument::Value(a)), Some(Argument::Value(b))) => a.name == b.name,
        _ => false,
    };
    match sign(&op.op) {
        Sign::NonNegative => true,
        Sign::OfAll => operands.into_iter().all(one),
        Sign::OfAny => operands.into_iter().any(one),
        Sign::OfProduct => same() || operands.into_iter().all(one),
        Sign::Unknown => false,
    }
}

fn width_slice(op: &OutlineOp, placement: &Placement, x: Option<Bound>) -> Option<(&'static str, String)> {
    if placement.chip.hal.exact_width_slice != Some(0) {
        return None;
    }
    let begin = op.numbers("begin")?.last().copied()?;
    let masked = op.numbers("begin_mask").and_then(|m| m.last()).is_some_and(|&m| m != 0.0);
    let most = x.map(magnitude);
    (begin != 0.0 && !masked && most.is_none_or(|m| m > FIXED_POINT)).then(|| {
        let known = most.map_or("nothing bounds".to_string(), |m| format!("{m:.0} bounds"));
        (
            "W01",
            format!(
                "a slice along the width from {begin}: values above {FIXED_POINT} become infinite, and {known} them"
            ),
        )
    })
}

fn product(op: &OutlineOp, bounds: &HashMap<String, Bound>) -> Option<(&'static str, String)> {
    let weight = if op.op == "matmul" { "y" } else { "weight" };
    let x = operand(op, "x", bounds).map(magnitude);
    let compressed = match op.argument(weight) {
        Some(Argument::Constant(constant)) => constant.compressed.as_deref(),
        _ => None,
    };
    if compressed == Some("constexpr_affine_dequantize")
        && let Some(x) = x.filter(|&x| x > FIXED_POINT)
    {
        return Some(("W09", format!("activations up to {x:.0} meet int8 weights: {FIXED_POINT} is carried")));
    }
    let outputs = op.outputs.first().map_or(1, |o| o.ty.elements().max(1));
    let terms = describe::macs(op) as f64 / outputs as f64;
    let named = op.name.to_ascii_lowercase();
    if ["dft", "fft", "fourier"].iter().any(|word| named.contains(word)) && terms > 2048.0 {
        return Some(("W16", format!("a Fourier transform as one product over {terms}")));
    }
    let w = magnitude(operand(op, weight, bounds)?);
    let most = x? * w * terms;
    (most >= PORT).then(|| ("W02", format!("sums may reach {most:.0}: the array saturates at {PORT}")))
}

/// Operations whose results are whole numbers.
const WHOLE: &[&str] =
    &["round", "floor", "ceil", "sign", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"];

fn sum(op: &OutlineOp, x: Option<Bound>, outline: &Outline) -> Option<(&'static str, String)> {
    let extents = op.argument("x")?.ty().extents();
    let terms: usize = describe::axes(op).into_iter().filter_map(|a| extents.get(a)).product();
    let source = op.live().next().and_then(|v| outline.ops.iter().find(|o| o.outputs.iter().any(|n| n.name == v.name)));
    let whole = source.is_some_and(|o| WHOLE.contains(&o.op.as_str()));
    if whole {
        let most = x.map_or(1.0, magnitude) * terms as f64;
        return (most > 2048.0)
            .then(|| ("W04", format!("a count that may reach {most:.0}: whole numbers are exact to 2048")));
    }
    if let Some((least, most)) = x.filter(|&(least, most)| least <= -4096.0 && most >= 4096.0) {
        return Some(("W03", format!("terms from {least:.0} to {most:.0} cancel: small ones beside them are lost")));
    }
    let signed = x.is_none_or(|(least, _)| least < 0.0);
    (signed && terms > 256).then(|| {
        ("W05", format!("a sum of {terms} signed terms loses about {:.0} steps of fp16", (terms as f64).sqrt()))
    })
}
