//! Properties of a value's numbers, proved from the operations that make it.

use anemone_net::{Binary, Net, OpKind, ReduceKind, Unary, ValueId};

/// Depth limit of a proof, in operations.
const LONGEST_PROOF: usize = 8;

/// Returns true if a value is provably non-negative: a constant without negative elements, or a result of operations that give no
/// negative numbers.
pub(crate) fn never_negative(net: &Net, x: ValueId) -> bool {
    to_depth(net, x, LONGEST_PROOF)
}

fn to_depth(net: &Net, x: ValueId, depth: usize) -> bool {
    if let Some(tensor) = &net.value(x).data {
        return tensor.data.to_f32().iter().all(|&v| v >= 0.0);
    }
    let Some(op) = net.ops.iter().find(|op| op.outputs.contains(&x)).filter(|_| depth > 0) else {
        return false;
    };
    let one = |&id: &ValueId| to_depth(net, id, depth - 1);
    let all = || op.inputs.iter().all(one);
    match &op.kind {
        OpKind::Unary(f) => match f {
            Unary::Abs
            | Unary::Square
            | Unary::Relu
            | Unary::Relu6
            | Unary::Exp
            | Unary::Exp2
            | Unary::Sigmoid
            | Unary::SigmoidHard { .. }
            | Unary::Sqrt
            | Unary::Rsqrt { .. }
            | Unary::Softplus => true,
            Unary::Clip { min, .. } => *min >= 0.0,
            Unary::Threshold { alpha } => *alpha >= 0.0,
            Unary::Identity | Unary::Ceil | Unary::Floor | Unary::Round | Unary::Sign => all(),
            _ => false,
        },
        OpKind::Binary(Binary::Mul) if op.inputs[0] == op.inputs[1] => true,
        OpKind::Binary(f) if f.is_comparison() => true,
        OpKind::Binary(Binary::Max) => op.inputs.iter().any(one),
        OpKind::Binary(Binary::Add | Binary::Mul | Binary::Min) => all(),
        OpKind::Reduce { kind, .. } => match kind {
            ReduceKind::SumSquare | ReduceKind::L1 | ReduceKind::L2 => true,
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min => all(),
            _ => false,
        },
        OpKind::Softmax { .. } => true,
        OpKind::Reshape | OpKind::Broadcast | OpKind::Transpose { .. } | OpKind::Slice { .. } => all(),
        OpKind::Concat { .. } => all(),
        _ => false,
    }
}
