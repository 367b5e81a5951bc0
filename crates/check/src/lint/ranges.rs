//! Range analysis: bounds on values, propagated from the inputs, as far as operations and assumptions guarantee them.

use super::Assumptions;
use anemone_net::outline::{Argument, Outline, OutlineOp};
use std::collections::HashMap;

/// Least and greatest value.
pub type Bound = (f64, f64);

/// Bounds of every value that has one, by name.
pub fn bounds(outline: &Outline, assumptions: &Assumptions) -> HashMap<String, Bound> {
    let mut known: HashMap<String, Bound> = HashMap::new();
    if let Some(most) = assumptions.max_abs {
        known.extend(outline.inputs.iter().map(|i| (i.name.clone(), (-most, most))));
    }
    for op in &outline.ops {
        if let Some(bound) = result(op, &known) {
            known.extend(op.outputs.iter().map(|o| (o.name.clone(), bound)));
        }
    }
    known
}

/// Bound of an operand; constants are bounded by their elements where these are known.
pub fn operand(op: &OutlineOp, name: &str, known: &HashMap<String, Bound>) -> Option<Bound> {
    match op.argument(name)? {
        Argument::Value(value) => known.get(&value.name).copied(),
        Argument::Constant(constant) => {
            let numbers = constant.numbers.as_ref()?;
            let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (least <= most).then_some((least, most))
        }
    }
}

/// Largest magnitude within a bound.
pub fn magnitude(bound: Bound) -> f64 {
    bound.0.abs().max(bound.1.abs())
}

fn result(op: &OutlineOp, known: &HashMap<String, Bound>) -> Option<Bound> {
    let x = || operand(op, "x", known);
    let y = || operand(op, "y", known);
    Some(match op.op.as_str() {
        "sigmoid" | "sigmoid_hard" | "softmax" => (0.0, 1.0),
        "tanh" | "erf" | "sin" | "cos" | "sign" | "softsign" => (-1.0, 1.0),
        "relu6" => (0.0, 6.0),
        "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" | "logical_not" => (0.0, 1.0),
        "clip" => (op.number("alpha")?, op.number("beta")?),
        "relu" => (0.0, x()?.1.max(0.0)),
        "abs" => (0.0, magnitude(x()?)),
        "square" => (0.0, magnitude(x()?).powi(2)),
        "gelu" | "silu" | "leaky_relu" | "elu" => (x()?.0.clamp(-1e9, 0.0), x()?.1.max(0.0)),
        "exp" => (x()?.0.exp(), x()?.1.exp()),
        "reshape" | "transpose" | "slice_by_index" | "slice_by_size" | "squeeze" | "expand_dims" | "identity"
        | "max_pool" | "avg_pool" | "reduce_max" | "reduce_min" | "reduce_mean" | "cast" | "gather" | "tile"
        | "pad" | "round" | "floor" | "ceil" | "split" => x()?,
        // A difference to the own maximum is at most 0.
        "sub" if op.live().any(|v| v.name.contains("max")) && x().is_none() => (f64::NEG_INFINITY, 0.0),
        "add" => (x()?.0 + y()?.0, x()?.1 + y()?.1),
        "sub" => (x()?.0 - y()?.1, x()?.1 - y()?.0),
        "mul" => {
            let (a, b) = (x()?, y()?);
            let products = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
            (
                products.iter().copied().fold(f64::INFINITY, f64::min),
                products.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            )
        }
        "maximum" => (x()?.0.max(y()?.0), x()?.1.max(y()?.1)),
        "minimum" => (x()?.0.min(y()?.0), x()?.1.min(y()?.1)),
        _ => return None,
    })
}
