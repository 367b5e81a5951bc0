//! Operations on integers that fp16 does not hold exactly: the host computes them, as it keeps every int32.
//!
//! Bounds of all values are followed forwards, and what readers need backwards: an index or a truth value needs the number itself,
//! a conversion to floats does not. The bounds of `rewrite/ranges.rs` are those of floats in an engine segment, in `f32`, which does not hold
//! every int32.

use super::is_exact;
use crate::error::Error;
use crate::rewrite::{levels, whole::LARGEST_WHOLE};
use anemone_net::{Binary, DType, Net, Op, OpKind, ReduceKind, ScatterMode, Unary, ValueId};
use half::f16;
use std::collections::HashMap;

/// Integers that fp16 holds, with their neighbours: comparisons with them are right for every rounded number.
const HELD: f64 = LARGEST_WHOLE as f64;

/// Least and greatest number that an element may be.
type Range = (f64, f64);

const ANY: Range = (f64::NEG_INFINITY, f64::INFINITY);

/// Accuracy of a value that its readers need.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Need {
    /// A number within some roundings of it.
    Near,
    /// The nearest fp16 number.
    Nearest,
    /// The number itself.
    Exact,
}

/// Positions of the operations on integers alone whose results fp16 arithmetic would change.
pub(super) fn beyond_half(net: &Net) -> Vec<usize> {
    if !net.ops.iter().any(|op| is_exact(net, op)) {
        return Vec::new();
    }
    let ranges = ranges(net);
    let replaced = levels::replaced(net);
    let of = |id: ValueId| range(net, &ranges, id);
    let outside = net.outputs.iter().copied().chain(net.states.iter().map(|state| state.output));
    let mut needs: HashMap<ValueId, Need> = outside.map(|id| (id, Need::Exact)).collect();
    let mut found = Vec::new();
    for (at, op) in net.ops.iter().enumerate().rev() {
        let needed = op.outputs.iter().filter_map(|id| needs.get(id)).copied().fold(Need::Near, most);
        let own = match is_exact(net, op) {
            true if replaced.contains(&at) => Some(Need::Near),
            true => on_engine(net, op, needed, &of),
            false => Some(of_reader(net, op)),
        };
        if own.is_none() {
            found.push(at);
        }
        for &id in &op.inputs {
            let need = needs.entry(id).or_insert(Need::Near);
            *need = most(*need, own.unwrap_or(Need::Exact));
        }
    }
    found.reverse();
    found
}

/// The reason for such an operation.
pub(super) fn error(op: &Op) -> Error {
    Error::Unsupported {
        op: op.name.clone(),
        kind: op.kind.name().to_string(),
        reason: format!("integers that may exceed {LARGEST_WHOLE}, beyond which fp16 does not hold all"),
        suggestion: "limit them before it, or compute in floats",
    }
}

fn most(a: Need, b: Need) -> Need {
    if b > a { b } else { a }
}

/// Accuracy of integers that an operation which also has floats needs.
fn of_reader(net: &Net, op: &Op) -> Need {
    let extent = |axis: usize| net.value(op.inputs[0]).ty.shape[axis];
    let places = match op.kind {
        OpKind::Loop(_) | OpKind::Native(_) => return Need::Exact,
        OpKind::Gather { axis } | OpKind::GatherAlong { axis } | OpKind::ScatterAlong { axis, .. } => extent(axis),
        OpKind::GatherNd { .. } | OpKind::ScatterNd { .. } => {
            net.value(op.inputs[0]).ty.shape.iter().copied().max().unwrap_or(0)
        }
        _ => 0,
    };
    // Positions are within the extents, so that all are held.
    if places as f64 > HELD { Need::Exact } else { Need::Near }
}

/// Accuracy of the operands with which an operation on integers gives the needed result in fp16; `None` if fp16 loses it.
fn on_engine(net: &Net, op: &Op, needed: Need, of: &impl Fn(ValueId) -> Range) -> Option<Need> {
    let held = |(low, high): Range| -HELD <= low && high <= HELD;
    let result = of(op.outputs[0]);
    let wide = op.inputs.iter().filter(|&&id| !held(of(id))).count();
    if wide == 0 && op.outputs.iter().all(|&id| held(of(id))) {
        return Some(Need::Nearest);
    }
    let dtype = net.value(op.outputs[0]).ty.dtype;
    let operand = op.inputs.first().map_or(ANY, |&x| of(x));
    match &op.kind {
        kind if moves(kind) => (needed < Need::Exact).then_some(needed),
        OpKind::Cast if dtype == DType::Bool => Some(Need::Nearest),
        // A conversion that never wraps. Converters narrow positions to 16 bits where they know that all fit.
        OpKind::Cast
            if of_type(dtype).0 <= operand.0 && operand.1 <= of_type(dtype).1
                || matches!(dtype, DType::I16 | DType::U16) =>
        {
            (needed < Need::Exact).then_some(needed)
        }
        // Rounding keeps the order of numbers, and numbers below the limit.
        OpKind::Binary(f) if f.is_comparison() => (wide < 2 && below(op, of)).then_some(Need::Nearest),
        OpKind::Unary(Unary::Sign) => Some(Need::Nearest),
        OpKind::Unary(Unary::Clip { .. } | Unary::Relu | Unary::Abs | Unary::Neg)
        | OpKind::Binary(Binary::Max | Binary::Min)
        | OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. }
        | OpKind::Pool { .. } => {
            let wanted = held(result) || needed < Need::Exact;
            (wanted && dtype == DType::I32).then_some(most(Need::Nearest, needed))
        }
        OpKind::Binary(Binary::Add | Binary::Sub | Binary::Mul) => {
            (needed == Need::Near && wide < 2).then_some(Need::Near)
        }
        OpKind::Reduce { kind: ReduceKind::Sum, .. }
        | OpKind::Combine
        | OpKind::Linear
        | OpKind::MatMul { .. }
        | OpKind::Conv { .. } => {
            let largest = f64::from(f16::MAX);
            let finite = result.0 >= -largest && result.1 <= largest;
            (needed == Need::Near && wide == 0 && finite).then_some(Need::Nearest)
        }
        _ => None,
    }
}

/// Returns true if the held operand of a comparison is no limit of the held numbers, which greater ones are rounded to.
fn below(op: &Op, of: &impl Fn(ValueId) -> Range) -> bool {
    op.inputs.iter().map(|&id| of(id)).any(|(low, high)| -HELD < low && high < HELD)
}

/// Returns true for operations whose results are elements of operands, or constants of the model.
fn moves(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Unary(Unary::Identity)
            | OpKind::Select
            | OpKind::Concat { .. }
            | OpKind::Reshape
            | OpKind::Broadcast
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Pad { .. }
            | OpKind::PadEdge { .. }
    )
}

/// Ranges of all results.
fn ranges(net: &Net) -> HashMap<ValueId, Range> {
    // Weights are read once, not by each reader.
    let mut ranges: HashMap<ValueId, Range> =
        net.ops.iter().flat_map(|op| &op.inputs).filter_map(|&id| Some((id, of_constant(net, id)?))).collect();
    for op in &net.ops {
        let found = {
            let of = |id: ValueId| range(net, &ranges, id);
            op.outputs.iter().map(|&id| (id, of_result(net, op, id, &of))).collect::<Vec<_>>()
        };
        ranges.extend(found);
    }
    ranges
}

fn range(net: &Net, ranges: &HashMap<ValueId, Range>, id: ValueId) -> Range {
    ranges.get(&id).copied().or_else(|| of_constant(net, id)).unwrap_or_else(|| of_type(net.value(id).ty.dtype))
}

fn of_constant(net: &Net, id: ValueId) -> Option<Range> {
    let data = net.value(id).data.as_ref()?.data.floats();
    let own = data.iter().map(|&x| if x.is_nan() { ANY } else { (x.into(), x.into()) });
    Some(own.reduce(|a, b| (f64::min(a.0, b.0), f64::max(a.1, b.1))).unwrap_or((0.0, 0.0)))
}

fn of_type(dtype: DType) -> Range {
    match dtype {
        DType::Bool => (0.0, 1.0),
        DType::F16 | DType::F32 => ANY,
        _ => dtype.narrow_range().map_or((i32::MIN.into(), i32::MAX.into()), |(low, high)| (low.into(), high.into())),
    }
}

/// Range of a result: what the operation gives, or all of its type where that may wrap.
fn of_result(net: &Net, op: &Op, out: ValueId, of: &impl Fn(ValueId) -> Range) -> Range {
    let dtype = net.value(out).ty.dtype;
    let all = of_type(dtype);
    let cut = |range: Range| (range.0.max(all.0), range.1.min(all.1));
    let Some(found) = computed(net, op, of) else { return all };
    // Conversions of floats saturate, clips beyond the type's limits have no effect.
    let from_float = op.inputs.first().is_some_and(|&x| net.value(x).ty.dtype.is_float());
    let within = all.0 <= found.0 && found.1 <= all.1;
    if found.0.is_nan() || found.1.is_nan() || !within && !from_float { all } else { cut(found) }
}

fn computed(net: &Net, op: &Op, of: &impl Fn(ValueId) -> Range) -> Option<Range> {
    let extents = |at: usize| &net.value(op.inputs[at]).ty.shape;
    let x = of(*op.inputs.first()?);
    let y = op.inputs.get(1).map(|&id| of(id));
    let joined = |from: usize| {
        op.inputs[from..].iter().map(|&id| of(id)).reduce(|a, b| (f64::min(a.0, b.0), f64::max(a.1, b.1)))
    };
    let largest = f64::max(x.0.abs(), x.1.abs());
    Some(match &op.kind {
        OpKind::Unary(f) => match *f {
            Unary::Identity | Unary::Round | Unary::Floor | Unary::Ceil => (x.0.floor(), x.1.ceil()),
            Unary::Relu => (x.0.max(0.0), x.1.max(0.0)),
            Unary::Relu6 => (x.0.clamp(0.0, 6.0), x.1.clamp(0.0, 6.0)),
            Unary::Clip { min, max } => {
                let hold = |v: f64| v.max(min.into()).min(max.into());
                (hold(x.0), hold(x.1))
            }
            Unary::RoundClip { min, max } => (min.into(), max.into()),
            Unary::Neg => (-x.1, -x.0),
            Unary::Abs => (0.0, largest),
            Unary::Square => (0.0, largest * largest),
            Unary::Sign | Unary::Tanh => (-1.0, 1.0),
            Unary::Sigmoid => (0.0, 1.0),
            _ => return None,
        },
        OpKind::Binary(f) if f.is_comparison() => (0.0, 1.0),
        OpKind::Binary(f) => binary(*f, x, y?)?,
        OpKind::Select => joined(1)?,
        OpKind::Concat { .. } => joined(0)?,
        OpKind::Cast if net.value(op.outputs[0]).ty.dtype == DType::Bool => (0.0, 1.0),
        OpKind::Cast
        | OpKind::Reshape
        | OpKind::Broadcast
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::PadEdge { .. }
        | OpKind::Gather { .. }
        | OpKind::GatherAlong { .. }
        | OpKind::GatherNd { .. } => x,
        OpKind::Pad { value, .. } => (x.0.min(f64::from(*value)), x.1.max(f64::from(*value))),
        OpKind::ScatterAlong { mode: ScatterMode::Update, .. } | OpKind::ScatterNd { mode: ScatterMode::Update } => {
            let updates = of(*op.inputs.get(2)?);
            (x.0.min(updates.0), x.1.max(updates.1))
        }
        OpKind::Softmax { .. } => (0.0, 1.0),
        OpKind::Reduce { kind, axes, .. } => {
            let count: f64 = axes.iter().map(|&axis| extents(0)[axis] as f64).product();
            match kind {
                ReduceKind::Max | ReduceKind::Min | ReduceKind::Mean => x,
                ReduceKind::Sum => (x.0.min(0.0) * count, x.1.max(0.0) * count),
                ReduceKind::L1 => (0.0, largest * count),
                ReduceKind::SumSquare => (0.0, largest * largest * count),
                _ => return None,
            }
        }
        OpKind::ArgReduce { axis, .. } | OpKind::ArgSort { axis, .. } => {
            (0.0, extents(0)[*axis].saturating_sub(1) as f64)
        }
        OpKind::Suppress { .. } => (-1.0, extents(0)[1] as f64),
        OpKind::Linear | OpKind::Combine | OpKind::MatMul { .. } => {
            let count = *extents(0).iter().rev().take(2).max()? as f64;
            let (low, high) = binary(Binary::Mul, x, y?)?;
            let bias = op.inputs.get(2).map_or((0.0, 0.0), |&id| of(id));
            (low.min(0.0) * count + bias.0, high.max(0.0) * count + bias.1)
        }
        _ => return None,
    })
}

fn binary(f: Binary, x: Range, y: Range) -> Option<Range> {
    let largest = f64::max(x.0.abs(), x.1.abs());
    Some(match f {
        Binary::Add => (x.0 + y.0, x.1 + y.1),
        Binary::Sub => (x.0 - y.1, x.1 - y.0),
        Binary::Mul => {
            let all = [x.0 * y.0, x.0 * y.1, x.1 * y.0, x.1 * y.1];
            // Zero times infinity is unknown.
            let all = all.map(|v| if v.is_nan() { f64::INFINITY } else { v });
            let unknown = all.contains(&f64::INFINITY) && (x.0 < 0.0 || y.0 < 0.0);
            let least = all.into_iter().fold(f64::INFINITY, f64::min);
            let low = if unknown { f64::NEG_INFINITY } else { least.min(0.0) };
            (low, all.into_iter().fold(f64::NEG_INFINITY, f64::max))
        }
        Binary::Max => (x.0.max(y.0), x.1.max(y.1)),
        Binary::Min => (x.0.min(y.0), x.1.min(y.1)),
        // Integers: the divisor is at least one in magnitude, or the result undefined.
        Binary::FloorDiv if y.0 >= 1.0 || y.1 <= -1.0 => {
            (if x.0 >= 0.0 && y.0 > 0.0 { 0.0 } else { -largest }, largest)
        }
        Binary::Div if y.0 >= 1.0 || y.1 <= -1.0 => (if x.0 >= 0.0 && y.0 > 0.0 { 0.0 } else { -largest }, largest),
        Binary::Mod if y.0.is_finite() && y.1.is_finite() => (y.0.min(0.0), y.1.max(0.0)),
        Binary::BitAnd if x.0 >= 0.0 && y.0 >= 0.0 => (0.0, x.1.min(y.1)),
        _ => return None,
    })
}
