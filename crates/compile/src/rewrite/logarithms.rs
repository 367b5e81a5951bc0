//! Sums of exponentials under a logarithm, which underflow and overflow fp16 where their result is an ordinary number.

use super::{Builder, Names};
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

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
    let mut names = Names::of(net);
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
