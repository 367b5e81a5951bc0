//! Value range analysis: operations without effect within the bounds of their operands are removed, and results with a single possible
//! value become constants. Quantization with a scale computed at run time depends on it: its values are integers within range
//! before they are converted, and a range that begins at zero has no zero point.
//!
//! The bounds are `f32`, as the values are. Those of integers before the model is cut (`segments/integers.rs`) are an analysis of its own:
//! int32 needs `f64`, and only there does it matter what readers need.

use super::norms::LEAST_POSITIVE;
use super::whole::LARGEST_WHOLE;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, ReduceKind, Tensor, Unary, ValueId};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The least fp16 number whose inverse is at most half of the largest one, so that a table's error leaves it finite.
const LEAST_DIVISOR: f32 = 1.0 / 32768.0;

/// Bounds of every element of a value that is not NaN, and a flag that is set if all are integers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bounds {
    low: f32,
    high: f32,
    whole: bool,
}

impl Bounds {
    const ANY: Bounds = Bounds { low: f32::NEG_INFINITY, high: f32::INFINITY, whole: false };

    fn new(low: f32, high: f32) -> Bounds {
        Bounds { low, high, whole: false }
    }

    fn of_data(tensor: &Tensor) -> Bounds {
        let mut known = Bounds { low: f32::INFINITY, high: f32::NEG_INFINITY, whole: true };
        let finite = tensor.data.visit_rows(1, &mut |part| {
            if part.iter().any(|x| !x.is_finite()) {
                return ControlFlow::Break(());
            }
            known.low = part.iter().copied().fold(known.low, f32::min);
            known.high = part.iter().copied().fold(known.high, f32::max);
            known.whole &= part.iter().all(|x| x.fract() == 0.0);
            ControlFlow::Continue(())
        });
        if finite.is_break() || tensor.data.is_empty() { Bounds::ANY } else { known }
    }

    /// The bounds after a monotonically increasing function.
    fn mapped(self, whole: bool, f: impl Fn(f32) -> f32) -> Bounds {
        Bounds { low: f(self.low), high: f(self.high), whole }
    }

    fn joined(self, other: Bounds) -> Bounds {
        Bounds { low: self.low.min(other.low), high: self.high.max(other.high), whole: self.whole && other.whole }
    }

    fn within(self, low: f32, high: f32) -> bool {
        low <= self.low && self.high <= high
    }

    fn is_zero(self) -> bool {
        self.low == 0.0 && self.high == 0.0
    }
}

/// Removes conversions of integers in range and clips without effect, and replaces values that are always zero by constants.
pub fn bound_values(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if options.conventions().whole_epilogues {
        raise_divisors(net, reasons);
    }
    let mut bounds: HashMap<ValueId, Bounds> = HashMap::new();
    let mut instead: HashMap<ValueId, ValueId> = HashMap::new();
    let mut clips: HashMap<ValueId, (ValueId, [f32; 2])> = HashMap::new();
    for mut op in std::mem::take(&mut net.ops) {
        op.inputs.iter_mut().for_each(|id| *id = instead.get(id).copied().unwrap_or(*id));
        let (Some(&x), &[out]) = (op.inputs.first(), op.outputs.as_slice()) else {
            net.ops.push(op);
            continue;
        };
        // A rounding clip whose limits are within those of the clip before it.
        if let (OpKind::Unary(Unary::RoundClip { min, max }), Some(&(operand, limits))) = (&op.kind, clips.get(&x))
            && limits == [*min, *max]
        {
            op.inputs[0] = operand;
        }
        if let OpKind::Unary(Unary::Clip { min, max }) = op.kind
            && min.fract() == 0.0
            && max.fract() == 0.0
        {
            clips.insert(out, (x, [min, max]));
        }
        let known = {
            let net = &*net;
            let of = |id: ValueId| match &net.value(id).data {
                Some(tensor) => Bounds::of_data(tensor),
                None => bounds.get(&id).copied().unwrap_or_else(|| of_type(net.value(id).ty.dtype)),
            };
            let known = result(&op, net.value(out).ty.dtype, &of);
            let same = changes_nothing(&op, net.value(out).ty.dtype, &of).filter(|&i| {
                net.value(op.inputs[i]).ty.shape == net.value(out).ty.shape && net.value(op.inputs[i]).data.is_none()
            });
            (known, same.map(|i| op.inputs[i]))
        };
        bounds.insert(out, known.0);
        if net.outputs.contains(&out) || net.states.iter().any(|s| s.output == out) {
            net.ops.push(op);
        } else if known.0.is_zero() {
            reasons.say(|| format!("{}: {} is always zero", op.name, op.kind.name()));
            let ty = net.value(out).ty.clone();
            let zeros = vec![0.0; ty.shape.iter().product()];
            let data = anemone_net::Data::from_f32(ty.dtype, &zeros);
            net.values[out.0 as usize].data = Some(Arc::new(Tensor { shape: ty.shape, data }));
        } else if let Some(same) = known.1 {
            reasons.say(|| format!("{}: {} has no effect here", op.name, op.kind.name()));
            instead.insert(out, same);
        } else {
            net.ops.push(op);
        }
    }
    Ok(())
}

/// Raises positive limits of divisors whose inverses fp16 does not represent, so that zero divided by such a divisor, as in the norm of a
/// row of zeros, stays zero: zero times an infinite inverse is NaN. Limits under a root, and numbers added there, stay positive in fp16.
fn raise_divisors(net: &mut Net, reasons: &mut Remarks) {
    // Values of which only inverses, and inverses of roots, are read: from the last operation to the first.
    let mut least: HashMap<ValueId, f32> = HashMap::new();
    let outside = net.outputs.iter().copied().chain(net.states.iter().map(|s| s.output));
    least.extend(outside.map(|id| (id, 0.0)));
    let mut raised = Vec::new();
    for (at, op) in net.ops.iter().enumerate().rev() {
        let number = |i: usize| {
            let data = net.value(*op.inputs.get(i)?).data.as_ref()?.data.to_f32();
            data.first().copied().filter(|first| data.iter().all(|x| x == first))
        };
        let wanted = least.get(&op.outputs[0]).copied().unwrap_or(0.0);
        let root = if wanted > 0.0 { LEAST_POSITIVE } else { 0.0 };
        let (given, constant) = match op.kind {
            OpKind::Unary(Unary::Clip { min, max: f32::INFINITY }) => (min, None),
            OpKind::Binary(Binary::Max) => (number(1).unwrap_or(0.0), Some(1)),
            OpKind::Binary(Binary::Add) if wanted == LEAST_POSITIVE => (number(1).unwrap_or(0.0), Some(1)),
            _ => (0.0, None),
        };
        if given > 0.0 && given < wanted {
            raised.push((at, constant, wanted));
        }
        for (i, &id) in op.inputs.iter().enumerate() {
            let own = match op.kind {
                OpKind::Binary(Binary::Div) if i == 1 => LEAST_DIVISOR,
                OpKind::Unary(Unary::Inverse { epsilon: 0.0 }) => LEAST_DIVISOR,
                OpKind::Unary(Unary::Rsqrt { epsilon: 0.0 }) => LEAST_POSITIVE,
                OpKind::Unary(Unary::Sqrt) => root,
                OpKind::Binary(Binary::Pow) if i == 0 && number(1) == Some(0.5) => root,
                OpKind::Binary(Binary::Pow) if i == 0 && number(1) == Some(-0.5) => LEAST_POSITIVE,
                OpKind::Reshape | OpKind::Broadcast | OpKind::Transpose { .. } => wanted,
                _ => 0.0,
            };
            let known = least.entry(id).or_insert(own);
            *known = known.min(own);
        }
    }
    for (at, constant, wanted) in raised {
        let name = net.ops[at].name.clone();
        reasons
            .say(|| format!("{name}: the limit of a divisor is raised to {wanted:e}, so that its inverse is finite"));
        match constant {
            None => net.ops[at].kind = OpKind::Unary(Unary::Clip { min: wanted, max: f32::INFINITY }),
            Some(i) => {
                let mut value = net.value(net.ops[at].inputs[i]).clone();
                let data = Data::from_f32(value.ty.dtype, &vec![wanted; value.ty.elements()]);
                value.data = Some(Arc::new(Tensor { shape: value.ty.shape.clone(), data }));
                value.name = format!("{}.least", net.value(net.ops[at].outputs[0]).name);
                net.ops[at].inputs[i] = ValueId(net.values.len() as u32);
                net.values.push(value);
            }
        }
    }
}

/// Bounds of all values of an element type.
fn of_type(dtype: DType) -> Bounds {
    match dtype {
        DType::Bool => Bounds { low: 0.0, high: 1.0, whole: true },
        _ => match dtype.narrow_range() {
            Some((low, high)) => Bounds { low: low as f32, high: high as f32, whole: true },
            None => Bounds { whole: dtype.is_integer(), ..Bounds::ANY },
        },
    }
}

/// Position of the operand that the operation returns unchanged.
fn changes_nothing(op: &Op, to: DType, of: &impl Fn(ValueId) -> Bounds) -> Option<usize> {
    let x = || op.inputs.first().map_or(Bounds::ANY, |&id| of(id));
    let other = || op.inputs.get(1).map(|&id| of(id));
    match op.kind {
        OpKind::Cast => {
            let (x, limits) = (x(), of_type(to));
            // Beyond these bounds fp16 does not represent every integer: results computed from such values are left alone.
            let exact = x.whole && x.within(-LARGEST_WHOLE, LARGEST_WHOLE);
            (to != DType::Bool && to.is_integer() && exact && x.within(limits.low, limits.high)).then_some(0)
        }
        OpKind::Unary(Unary::Clip { min, max }) => x().within(min, max).then_some(0),
        OpKind::Unary(Unary::Relu | Unary::Abs) => (x().low >= 0.0).then_some(0),
        OpKind::Binary(Binary::Add | Binary::Sub) if other()?.is_zero() => Some(0),
        OpKind::Binary(Binary::Add) if x().is_zero() => Some(1),
        _ => None,
    }
}

/// Bounds of an operation's result.
fn result(op: &Op, to: DType, of: &impl Fn(ValueId) -> Bounds) -> Bounds {
    // Only of operands that the result's bounds depend on: those of weights take a pass over all of them.
    let operand = |i: usize| op.inputs.get(i).map_or(Bounds::ANY, |&id| of(id));
    match &op.kind {
        OpKind::Unary(f) => unary(*f, operand(0)),
        OpKind::Binary(f) if f.is_comparison() => Bounds { whole: true, ..Bounds::new(0.0, 1.0) },
        // 8-bit integers wrap and saturate by rules of their own.
        OpKind::Binary(_) if to.is_integer() => of_type(to),
        OpKind::Binary(f) => binary(*f, operand(0), operand(1)),
        OpKind::Cast => {
            let (x, limits) = (operand(0), of_type(to));
            Bounds { low: x.low.max(limits.low), high: x.high.min(limits.high), whole: x.whole || limits.whole }
        }
        OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. } => operand(0),
        OpKind::Reduce { kind: ReduceKind::Mean, .. } => Bounds { whole: false, ..operand(0) },
        OpKind::Softmax { .. } => Bounds::new(0.0, 1.0),
        OpKind::Reshape | OpKind::Broadcast | OpKind::Transpose { .. } | OpKind::Slice { .. } => operand(0),
        OpKind::Concat { .. } => op.inputs.iter().map(|&id| of(id)).reduce(Bounds::joined).unwrap_or(Bounds::ANY),
        _ => of_type(to),
    }
}

fn unary(f: Unary, x: Bounds) -> Bounds {
    match f {
        Unary::Identity => x,
        Unary::Relu => x.mapped(x.whole, |v| v.max(0.0)),
        Unary::Clip { min, max } => {
            let limits = min.fract() == 0.0 && max.fract() == 0.0;
            x.mapped(x.whole && limits, |v| v.max(min).min(max))
        }
        Unary::RoundClip { min, max } => Bounds { low: min, high: max, whole: true },
        Unary::Round => x.mapped(true, f32::round_ties_even),
        Unary::Floor => x.mapped(true, f32::floor),
        Unary::Ceil => x.mapped(true, f32::ceil),
        Unary::Neg => Bounds { low: -x.high, high: -x.low, whole: x.whole },
        Unary::Relu6 => x.mapped(x.whole, |v| v.clamp(0.0, 6.0)),
        Unary::Sigmoid | Unary::SigmoidHard { .. } => Bounds::new(0.0, 1.0),
        Unary::Exp | Unary::Exp2 | Unary::Abs | Unary::Square | Unary::Sqrt | Unary::Softplus => {
            Bounds::new(0.0, f32::INFINITY)
        }
        _ => Bounds::ANY,
    }
}

fn binary(f: Binary, x: Bounds, y: Bounds) -> Bounds {
    let whole = x.whole && y.whole;
    match f {
        Binary::Add => Bounds { low: x.low + y.low, high: x.high + y.high, whole },
        Binary::Sub => Bounds { low: x.low - y.high, high: x.high - y.low, whole },
        Binary::Max => Bounds { low: x.low.max(y.low), high: x.high.max(y.high), whole },
        Binary::Min => Bounds { low: x.low.min(y.low), high: x.high.min(y.high), whole },
        Binary::Mul if x.low >= 0.0 && y.low >= 0.0 => Bounds { whole, ..Bounds::new(0.0, f32::INFINITY) },
        // Zero divided by a scale is zero, also for a scale of zero, as in other runtimes.
        Binary::Div if x.is_zero() && y.low >= 0.0 => Bounds { whole: true, ..Bounds::new(0.0, 0.0) },
        Binary::Div if x.low >= 0.0 && y.low >= 0.0 => Bounds::new(0.0, f32::INFINITY),
        _ => Bounds { whole: whole && matches!(f, Binary::Mul), ..Bounds::ANY },
    }
}
