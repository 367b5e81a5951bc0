//! Recognition of functions that converters spell out: a selection that has no effect where another factor is zero is
//! removed.

use super::{Builder, Names};
use crate::accuracy::ROUNDING;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, ValueId};
use std::collections::HashMap;

/// `select(x >= c, x, 0) * sigmoid_hard(x)` becomes `max(x, c) * sigmoid_hard(x)` if the second factor is zero up to `c`, except for its
/// rounded slope: hard swish as Core ML's converter writes it. The operand of the second factor may be the selection too. The maximum keeps
/// minus infinity from being multiplied by zero.
///
/// `log(softmax(x))` becomes `x - logsumexp(x)`: see `logarithms_of_softmax`. The logarithm of a sum of two exponentials becomes one relative to the
/// greater, and that of a value with a lower bound below the normal fp16 numbers keeps the bound: see `logarithms`. A GELU of several operations becomes one: see `spelled`. A sum of constants with factors becomes a product: see
/// `weighted`.
pub fn recognize(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if options.conventions().functions_fitted {
        logarithms_of_softmax(net, reasons);
        super::logarithms::of_sums(net, reasons);
        super::logarithms::with_lower_bounds(net, reasons);
        super::spelled::gelus(net, reasons);
        super::weighted::sums(net, reasons);
        super::bins::pool_bins(net, reasons)?;
    }
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let uses = net.read_counts();
    let used =
        |op: &Op, times: usize| op.outputs.iter().all(|o| uses[o.0 as usize] == times && !net.outputs.contains(o));
    let mut found = Vec::new();
    for (at, op) in net.ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Binary(Binary::Mul)) {
        let maker = |id: ValueId| makers.get(&id).map(|&at| &net.ops[at]);
        let limited = |&side: &usize| {
            let (gate, other) = maker(op.inputs[side]).zip(maker(op.inputs[1 - side]))?;
            // The selection itself becomes the maximum if both factors read it.
            let of_gate = other.inputs == gate.outputs;
            let gate_at = if of_gate { makers.get(&op.inputs[side]).copied() } else { None };
            if of_gate && !(used(other, 1) && used(gate, 2)) {
                return None;
            }
            Some((at, side, gate_at, limit(net, gate, other, &makers)?))
        };
        found.extend([0, 1].iter().find_map(limited));
    }
    let mut names = Names::default();
    for (at, side, gate_at, operands) in found.into_iter().rev() {
        let name = net.ops[at].name.clone();
        reasons.say(|| format!("{name}: the other factor is zero at the threshold"));
        if let Some(gate) = gate_at {
            (net.ops[gate].kind, net.ops[gate].inputs) = (OpKind::Binary(Binary::Max), operands.to_vec());
            continue;
        }
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let shape = builder.shape(operands[0]);
        let limited = builder.op("limited", OpKind::Binary(Binary::Max), &operands, shape);
        let ops = builder.ops;
        net.ops[at].inputs[side] = limited;
        net.ops.splice(at..at, ops);
    }
    Ok(())
}

/// `log(softmax(x) + epsilon)`, as Core ML's converter writes a log-softmax, becomes `max(x - logsumexp(x), log(epsilon))`: the softmax of
/// most classes is zero in fp16, and its logarithm infinite. The `epsilon` is too small to matter beside any other number of fp32.
fn logarithms_of_softmax(net: &mut Net, reasons: &mut Remarks) {
    let uses = net.read_counts();
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let of_softmax = |(at, op): (usize, &Op)| {
        let (OpKind::Unary(Unary::Log { epsilon }), &[p]) = (&op.kind, op.inputs.as_slice()) else { return None };
        let made = &net.ops[*makers.get(&p)?];
        let OpKind::Softmax { axis } = made.kind else { return None };
        let alone = uses[p.0 as usize] == 1 && !net.outputs.contains(&p);
        let tiny = *epsilon > 0.0 && *epsilon < f32::MIN_POSITIVE;
        (alone && tiny).then_some((at, made.inputs[0], axis, epsilon.ln()))
    };
    let found: Vec<_> = net.ops.iter().enumerate().filter_map(of_softmax).collect();
    let mut names = Names::default();
    for (at, x, axis, least) in found.into_iter().rev() {
        let name = net.ops[at].name.clone();
        reasons.say(|| format!("{name}: the logarithm of a softmax is a difference"));
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let shape = builder.shape(x);
        let mut one = shape.clone();
        one[axis] = 1;
        let reduce = OpKind::Reduce { kind: ReduceKind::LogSumExp, axes: vec![axis], keep_dims: true };
        let sum = builder.op("sum", reduce, &[x], one);
        let difference = builder.op("difference", OpKind::Binary(Binary::Sub), &[x, sum], shape);
        let ops = builder.ops;
        net.ops[at].kind = OpKind::Unary(Unary::Clip { min: least, max: f32::INFINITY });
        net.ops[at].inputs = vec![difference];
        net.ops.splice(at..at, ops);
    }
}

/// Operands `x` and `least` of a gate `select(x >= least, x, 0)` that is zero only where the other factor, a hard sigmoid of `x`, is
/// zero, so that `max(x, least)` gives the same product.
fn limit(net: &Net, gate: &Op, other: &Op, makers: &HashMap<ValueId, usize>) -> Option<[ValueId; 2]> {
    let OpKind::Unary(Unary::SigmoidHard { alpha, beta }) = other.kind else { return None };
    let (OpKind::Select, &[condition, x, zero]) = (&gate.kind, gate.inputs.as_slice()) else { return None };
    let compared = &net.ops[*makers.get(&condition)?];
    let bound = *compared.inputs.get(1)?;
    let least = number(net, bound)?;
    let greater = matches!(compared.kind, OpKind::Binary(Binary::GreaterEqual | Binary::Greater));
    let of_either = other.inputs == [x] || other.inputs == gate.outputs;
    let same = of_either && compared.inputs[0] == x && number(net, zero)? == 0.0;
    // If a converter has rounded the slope, the product is not zero between the gate's threshold and the zero of the hard sigmoid; the
    // difference must not exceed one rounding of a result.
    let left = (alpha * least + beta).max(0.0) * least.abs();
    (greater && same && alpha > 0.0 && left <= ROUNDING && least.is_finite()).then_some([x, bound])
}

/// The value of a constant with one element.
fn number(net: &Net, id: ValueId) -> Option<f32> {
    let data = net.value(id).data.as_ref()?.data.to_f32();
    data.first().copied().filter(|first| data.iter().all(|x| x == first))
}
