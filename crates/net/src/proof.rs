//! Proofs of numeric properties of a value from the operations that compute it.

use crate::graph::{Net, Op, ValueId};
use crate::ops::{OpKind, Unary};

/// Depth limit of a proof, in operations.
pub const LONGEST_PROOF: usize = 8;

/// Rule for the sign of an operation's results, by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// Never negative.
    NonNegative,
    /// Never negative if no operand is.
    OfAll,
    /// Never negative if one operand is not.
    OfAny,
    /// As [`Sign::OfAll`], and never negative where both operands are the same value.
    OfProduct,
    /// No statement.
    Unknown,
}

/// The sign rule of an operation, by the name that networks and MIL text use.
pub fn sign(kind: &str) -> Sign {
    match kind {
        "abs" | "square" | "relu" | "relu6" | "exp" | "exp2" | "sigmoid" | "sigmoid_hard" | "sqrt" | "rsqrt"
        | "softplus" | "softmax" | "reduce_sum_square" | "reduce_l1" | "reduce_l2" | "reduce_l1_norm"
        | "reduce_l2_norm" | "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
            Sign::NonNegative
        }
        "add" | "min" | "minimum" | "reduce_sum" | "reduce_mean" | "reduce_max" | "reduce_min" | "reshape"
        | "broadcast" | "transpose" | "slice" | "slice_by_index" | "slice_by_size" | "concat" | "identity" | "ceil"
        | "floor" | "round" | "sign" | "cast" | "expand_dims" | "squeeze" => Sign::OfAll,
        "max" | "maximum" => Sign::OfAny,
        "mul" => Sign::OfProduct,
        _ => Sign::Unknown,
    }
}

/// Returns true if a value is provably non-negative: a constant without negative elements, or a result of operations that give no
/// negative numbers. `maker` returns the operation that computes a value.
pub fn never_negative<'a>(net: &Net, x: ValueId, maker: &impl Fn(ValueId) -> Option<&'a Op>) -> bool {
    to_depth(net, x, maker, LONGEST_PROOF)
}

fn to_depth<'a>(net: &Net, x: ValueId, maker: &impl Fn(ValueId) -> Option<&'a Op>, depth: usize) -> bool {
    if let Some(tensor) = &net.value(x).data {
        return tensor.data.to_f32().iter().all(|&v| v >= 0.0);
    }
    let Some(op) = maker(x).filter(|_| depth > 0) else { return false };
    let one = |&id: &ValueId| to_depth(net, id, maker, depth - 1);
    match &op.kind {
        OpKind::Unary(Unary::Clip { min, .. }) => *min >= 0.0,
        OpKind::Unary(Unary::Threshold { alpha }) => *alpha >= 0.0,
        kind => match sign(kind.name()) {
            Sign::NonNegative => true,
            Sign::OfAll => op.inputs.iter().all(one),
            Sign::OfAny => op.inputs.iter().any(one),
            Sign::OfProduct => op.inputs[0] == op.inputs[1] || op.inputs.iter().all(one),
            Sign::Unknown => false,
        },
    }
}
