//! Arguments of logarithms that underflow or overflow fp16 where the result is an ordinary number: sums of exponentials, and powers of spectra
//! with a least value.

use super::{Builder, Names};
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, Value, ValueId};
use half::f16;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Difference of two exponents whose smaller exponential does not change the sum. It keeps equal infinities from a difference.
const APART: f32 = 32.0;

/// `log(exp a + exp b)` becomes `m + softplus(min(a, b) - m)` with the greater `m`, unless an operand is a difference from a maximum already.
pub(super) fn of_sums(net: &mut Net, reasons: &mut Remarks) {
    let uses = net.read_counts();
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let maker = |id: ValueId| makers.get(&id).map(|&at| &net.ops[at]);
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    let shifted = |id: ValueId| {
        maker(id).filter(|op| op.kind == OpKind::Binary(Binary::Sub)).and_then(|op| maker(op.inputs[1])).is_some_and(
            |op| matches!(op.kind, OpKind::Binary(Binary::Max)) || matches!(&op.kind, OpKind::Reduce { .. }),
        )
    };
    let exponent = |id: ValueId| {
        let op = maker(id).filter(|op| op.kind == OpKind::Unary(Unary::Exp) && alone(id))?;
        (!shifted(op.inputs[0])).then_some(op.inputs[0])
    };
    let of_sum = |(at, op): (usize, &Op)| {
        let (OpKind::Unary(Unary::Log { epsilon }), &[sum]) = (&op.kind, op.inputs.as_slice()) else { return None };
        let added = maker(sum).filter(|op| op.kind == OpKind::Binary(Binary::Add) && alone(sum))?;
        let operands = [exponent(added.inputs[0])?, exponent(added.inputs[1])?];
        let alike = operands.iter().all(|&id| net.value(id).ty.shape == net.value(op.outputs[0]).ty.shape);
        (alike && *epsilon < f32::MIN_POSITIVE).then_some((at, operands))
    };
    let found: Vec<_> = net.ops.iter().enumerate().filter_map(of_sum).collect();
    let mut names = Names::default();
    for (at, operands) in found.into_iter().rev() {
        let name = net.ops[at].name.clone();
        reasons.say(|| format!("{name}: the exponentials of its sum are relative to the greater one"));
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let shape = builder.shape(operands[0]);
        let most = builder.op("most", OpKind::Binary(Binary::Max), &operands, shape.clone());
        let least = builder.op("least", OpKind::Binary(Binary::Min), &operands, shape.clone());
        let apart = builder.op("apart", OpKind::Binary(Binary::Sub), &[least, most], shape.clone());
        let held = builder.op("held", OpKind::Unary(Unary::Clip { min: -APART, max: 0.0 }), &[apart], shape.clone());
        let rest = builder.op("rest", OpKind::Unary(Unary::Softplus), &[held], shape);
        let ops = builder.ops;
        (net.ops[at].kind, net.ops[at].inputs) = (OpKind::Binary(Binary::Add), vec![most, rest]);
        net.ops.splice(at..at, ops);
    }
}

/// Number of operations that are searched for the sign of a value.
const LONGEST_PROOF: usize = 64;

/// `log(x + c)` and `log(max(x, c))` with a positive `c` that is no normal fp16 number, of an `x` that is not negative, are at least `log(c)`
/// also where the sum or the maximum becomes zero in fp16: power spectra under the logarithm of a front end for speech.
pub(super) fn with_lower_bounds(net: &mut Net, reasons: &mut Remarks) {
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let signs = Signs { net, makers: &makers };
    let bound = |(at, op): (usize, &Op)| {
        let (base, epsilon) = match op.kind {
            OpKind::Unary(Unary::Log { epsilon }) => (1f32, epsilon),
            OpKind::Unary(Unary::Log2) => (2f32.ln(), 0.0),
            _ => return None,
        };
        let &sum = op.inputs.first()?;
        let least = match signs.maker(sum).map(|op| (&op.kind, op.inputs.as_slice())) {
            _ if epsilon > 0.0 => signs.is_positive(sum).then_some(epsilon),
            Some((OpKind::Unary(Unary::Clip { min, .. }), _)) => Some(*min),
            Some((OpKind::Unary(Unary::Threshold { alpha }), _)) => Some(*alpha),
            Some((OpKind::Binary(Binary::Max), &[x, y])) => signs.number(x).or_else(|| signs.number(y)),
            Some((OpKind::Binary(Binary::Add), &[x, y])) => {
                let of = |x, c| signs.number(c).filter(|_| signs.is_positive(x));
                of(x, y).or_else(|| of(y, x))
            }
            _ => None,
        };
        let least = least.filter(|c| *c > 0.0 && *c < f16::MIN_POSITIVE.to_f32())?;
        Some((at, least.ln() / base))
    };
    let found: Vec<_> = net.ops.iter().enumerate().filter_map(bound).collect();
    let mut names = Names::default();
    for (at, least) in found.into_iter().rev() {
        let (name, out) = (net.ops[at].name.clone(), net.ops[at].outputs[0]);
        reasons.say(|| format!("{name}: at least {least}, which its operand is too small for in fp16"));
        let ty = net.value(out).ty.clone();
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let own = builder.fresh("log");
        let log = builder.net.add_value(Value { name: own, ty, data: None, surface: None });
        builder.push(OpKind::Unary(Unary::Clip { min: least, max: f32::INFINITY }), &[log], out);
        let ops = builder.ops;
        net.ops[at].outputs[0] = log;
        net.ops.splice(at + 1..at + 1, ops);
    }
}

/// Signs of the values of a network.
struct Signs<'a> {
    net: &'a Net,
    makers: &'a HashMap<ValueId, usize>,
}

impl Signs<'_> {
    fn maker(&self, id: ValueId) -> Option<&Op> {
        self.makers.get(&id).map(|&at| &self.net.ops[at])
    }

    /// The number that all elements of a constant are.
    fn number(&self, id: ValueId) -> Option<f32> {
        let data = self.net.value(id).data.as_ref()?.data.to_f32();
        data.first().copied().filter(|first| data.iter().all(|x| x == first))
    }

    /// Returns true if no element can be negative.
    fn is_positive(&self, id: ValueId) -> bool {
        let mut open = vec![id];
        for _ in 0..LONGEST_PROOF {
            let Some(id) = open.pop() else { return true };
            if let Some(tensor) = &self.net.value(id).data {
                let negative = tensor.data.visit_rows(1, &mut |part| match part.iter().all(|x| *x >= 0.0) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                });
                if negative.is_break() {
                    return false;
                }
                continue;
            }
            let Some(op) = self.maker(id) else { return false };
            match &op.kind {
                OpKind::Unary(f) => match f {
                    Unary::Relu | Unary::Relu6 | Unary::Sigmoid | Unary::SigmoidHard { .. } | Unary::Softplus => {}
                    Unary::Exp | Unary::Exp2 | Unary::Sqrt | Unary::Abs | Unary::Square => {}
                    Unary::Clip { min, .. } | Unary::Threshold { alpha: min } if *min >= 0.0 => {}
                    Unary::Identity => open.extend(&op.inputs),
                    _ => return false,
                },
                OpKind::Binary(Binary::Mul) if op.inputs[0] == op.inputs[1] => {}
                OpKind::Binary(Binary::Pow) if self.number(op.inputs[1]).is_some_and(|n| n % 2.0 == 0.0) => {}
                OpKind::Reduce { kind: ReduceKind::SumSquare | ReduceKind::L1 | ReduceKind::L2, .. } => {}
                OpKind::Reduce {
                    kind: ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min, ..
                }
                | OpKind::Binary(Binary::Add | Binary::Mul | Binary::Div | Binary::Max | Binary::Min)
                | OpKind::Linear
                | OpKind::MatMul { .. }
                | OpKind::Conv { .. }
                | OpKind::Reshape
                | OpKind::Broadcast
                | OpKind::Transpose { .. }
                | OpKind::Slice { .. }
                | OpKind::Concat { .. } => open.extend(&op.inputs),
                _ => return false,
            }
        }
        false
    }
}
