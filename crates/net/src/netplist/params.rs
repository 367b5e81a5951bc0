//! Units of the schema that compute an operation: type tag and parameters.

use super::own::axis_names;
use super::{dictionary, half, number};
use crate::graph::{Net, Op, TensorType};
use crate::native::{AXES, KeyType, Native, Param};
use crate::ops::{Binary, GeluMode, OpKind, PoolKind, ReduceKind, Unary};
use half::f16;
use plist::{Dictionary, Value};

/// A unit of the schema that computes an operation.
pub(super) struct Unit {
    pub tag: &'static str,
    pub params: Dictionary,
    /// True if reading the unit gives the same operation.
    pub exact: bool,
}

impl Unit {
    fn of<const N: usize>(tag: &'static str, params: [(&str, Value); N]) -> Unit {
        Unit { tag, params: dictionary(params), exact: true }
    }
}

/// Position of the channel axis of a value.
pub(super) fn channel_axis(rank: usize) -> usize {
    usize::from(rank > 1)
}

/// The unit that computes an operation from the same operands in the same order; `None` if the schema has none.
pub(super) fn unit(net: &Net, op: &Op) -> Option<Unit> {
    let (x, out) = (&net.value(*op.inputs.first()?).ty, &net.value(*op.outputs.first()?).ty);
    let axes = axis_names(x.shape.len())?;
    let axis = |at: usize| axes.get(at).map(|&name| Value::from(name));
    Some(match &op.kind {
        OpKind::Unary(unary) => self::unary(*unary)?,
        OpKind::Binary(binary) => {
            let name = match binary {
                Binary::Add => "Add",
                Binary::Sub => "Sub",
                Binary::Mul => "Mult",
                Binary::Max => "Max",
                Binary::Min => "Min",
                Binary::Greater => "GreaterThan",
                Binary::Less => "LessThan",
                Binary::Equal => "Equal",
                Binary::NotEqual => "NotEqual",
                _ => return None,
            };
            Unit::of("ScaledElementWise", [("Type", name.into())])
        }
        OpKind::Concat { axis: at } => Unit::of("Concat", [("Dimension", axis(*at)?)]),
        OpKind::Softmax { axis: at } => Unit::of("Softmax", [("Dimension", axis(*at)?)]),
        OpKind::Broadcast if x.shape.len() == out.shape.len() => {
            let grown = (0..x.shape.len()).filter(|&a| x.shape.get(a) != out.shape.get(a));
            let info = grown.map(|a| Some(dictionary([("Dimension", axis(a)?), ("Size", number(*out.shape.get(a)?))])));
            let info = info.map(|entry| entry.map(Value::from)).collect::<Option<Vec<_>>>()?;
            Unit::of("Broadcast", [("BroadcastInfo", Value::Array(info))])
        }
        OpKind::Reshape => {
            let [n, c, d, h, w] = super::own::five(&out.shape).map(number);
            let mut unit = Unit::of("Reshape", [("ReshapedBatch", n), ("ReshapedChannel", c), ("ReshapedHeight", h)]);
            unit.params.insert("ReshapedWidth".into(), w);
            if out.shape.len() == 5 {
                unit.params.insert("ReshapedDepth".into(), d);
            }
            unit
        }
        OpKind::Transpose { perm } => {
            let moved = perm.iter().enumerate().filter(|(to, from)| to != *from).map(|(to, &from)| {
                let (to, from) = (axis(to)?, axis(from)?);
                let keys = [("TransposeDestinationDimension", to), ("TransposeSourceDimension", from)];
                Some(Value::from(dictionary(keys)))
            });
            Unit::of("Transpose", [("TransposeDimensions", Value::Array(moved.collect::<Option<_>>()?))])
        }
        OpKind::Reduce { kind, axes: reduced, .. } => {
            let name = match kind {
                ReduceKind::Sum => "Sum",
                ReduceKind::Mean => "Avg",
                ReduceKind::Max => "Max",
                ReduceKind::Min => "Min",
                _ => return None,
            };
            let names = reduced.iter().map(|&a| axis(a)).collect::<Option<Vec<_>>>()?;
            Unit::of("Reduction", [("Type", name.into()), ("Dimension", Value::Array(names))])
        }
        OpKind::Pool { .. } => pool(&op.kind, x, out)?,
        OpKind::Native(native) => Unit { tag: native.schema().tag, params: parameters(native), exact: true },
        // The result's type is sufficient.
        OpKind::Cast => Unit::of("GOC", []),
        _ => return None,
    })
}

fn pool(kind: &OpKind, x: &TensorType, out: &TensorType) -> Option<Unit> {
    let OpKind::Pool { kind, kernel, strides, pads, ceil_mode } = kind else { return None };
    let mut reached = pads.clone();
    if *ceil_mode {
        // Only the padding that the last window reaches.
        for (axis, pad) in reached.iter_mut().enumerate() {
            let (extent, made) = (*x.shape.get(axis + 2)?, *out.shape.get(axis + 2)?);
            let end = made.checked_sub(1)? * strides.get(axis)? + kernel.get(axis)?;
            pad.1 = pad.1.max(end.saturating_sub(extent + pad.0));
        }
    }
    let mut params = window(kernel, strides, &reached)?;
    let padded = reached.iter().any(|&p| p != (0, 0));
    match kind {
        PoolKind::Max => {
            params.insert("Type".into(), "Max".into());
            if padded {
                params.insert("PaddingMode".into(), "Negative".into());
            }
        }
        // The part of a window beyond the padding counts only in a mean that includes padding.
        PoolKind::Average { exclude_padding } if *exclude_padding || reached == *pads => {
            params.insert("Type".into(), "Avg".into());
            params.insert("AverageCountExcludePadding".into(), (*exclude_padding).into());
        }
        PoolKind::Average { .. } | PoolKind::L2 => return None,
    }
    Some(Unit { tag: "Pooling", params, exact: !ceil_mode })
}

fn unary(unary: Unary) -> Option<Unit> {
    let mut params = Dictionary::new();
    let mut exact = true;
    let mut number = |key: &str, value: f32| {
        exact &= f16::from_f32(value).to_f32().to_bits() == value.to_bits();
        params.insert(key.into(), half(value));
    };
    let name = match unary {
        Unary::Identity => return Some(Unit::of("GOC", [])),
        Unary::Abs => return Some(Unit::of("ScaledElementWise", [("Type", "Abs".into())])),
        Unary::Relu => "ReLU",
        Unary::Sigmoid => "Sigmoid",
        Unary::Tanh => "Tanh",
        Unary::Sign => "Sign",
        Unary::Gelu(GeluMode::Exact) => "GELU",
        Unary::Sqrt => "Sqrt",
        Unary::Rsqrt { epsilon: 0.0 } => "Rsqrt",
        Unary::Inverse { epsilon: 0.0 } => "Inv",
        Unary::Exp2 => "Exp2",
        Unary::Log2 => "Log2",
        Unary::Sin => "Sin",
        Unary::Cos => "Cos",
        Unary::Ceil => "Ceil",
        Unary::Floor => "Floor",
        Unary::Round => "RoundNearest",
        Unary::Elu { alpha } => {
            number("EluAlpha", alpha);
            "ELU"
        }
        Unary::LeakyRelu { alpha } => {
            number("ReluSlope", alpha);
            "LeakyReLU"
        }
        Unary::Clip { min, max } => {
            number("ReluMin", min);
            number("ReluMax", max);
            "ClampedReLU"
        }
        Unary::Relu6 => {
            number("ReluMin", 0.0);
            number("ReluMax", 6.0);
            exact = false;
            "ClampedReLU"
        }
        _ => return None,
    };
    params.insert("Type".into(), name.into());
    Some(Unit { tag: "Neuron", params, exact })
}

/// Size, steps and padding of a window over columns, or over rows and columns; steps are listed width first.
pub(super) fn window(kernel: &[usize], strides: &[usize], pads: &[(usize, usize)]) -> Option<Dictionary> {
    let (kh, kw, sh, sw, (top, bottom), (left, right)) = match (kernel, strides, pads) {
        (&[kh, kw], &[sh, sw], &[rows, columns]) => (kh, kw, sh, sw, rows, columns),
        (&[kw], &[sw], &[columns]) => (1, kw, 1, sw, (0, 0), columns),
        _ => return None,
    };
    let mut params = dictionary([
        ("KernelHeight", number(kh)),
        ("KernelWidth", number(kw)),
        ("Step", Value::Array(vec![number(sw), number(sh)])),
    ]);
    for (key, pad) in [("PadTop", top), ("PadBot", bottom), ("PadLeft", left), ("PadRight", right)] {
        if pad > 0 {
            params.insert(key.into(), number(pad));
        }
    }
    Some(params)
}

/// The parameters of a native layer, defaults included.
fn parameters(native: &Native) -> Dictionary {
    let axis = |at: i64| Value::from(AXES[usize::try_from(at).unwrap_or(0).min(3)]);
    let entry =
        |key: &'static str, value: Value, at: i64| Value::from(dictionary([("Coordinate", axis(at)), (key, value)]));
    let value = |ty: &KeyType, param: &Param| match (param, ty) {
        (Param::Flag(flag), _) => Value::from(*flag),
        (Param::Integer(value), _) => Value::from(*value),
        (Param::Real(value), KeyType::Half) => half(*value),
        (Param::Real(value), _) => Value::from(f64::from(*value)),
        (Param::Word(word), _) => Value::from(*word),
        (Param::List(list), KeyType::Axes) => Value::Array(list.iter().map(|&a| axis(a)).collect()),
        (Param::List(list), KeyType::PerAxis(key, words)) => {
            let word = |i: i64| usize::try_from(i).ok().and_then(|i| words.get(i)).map_or(i.into(), |&w| w.into());
            Value::Array(list.chunks(2).map(|p| entry(key, word(p[1]), p[0])).collect())
        }
        (Param::List(list), _) => Value::Array(list.iter().map(|&v| Value::from(v)).collect()),
    };
    // A list without entries is the default.
    let stated = native.params().filter(|(_, param)| **param != Param::List(Vec::new()));
    let keys: Dictionary = stated.map(|(key, param)| (key.name.to_string(), value(&key.ty, param))).collect();
    match native.schema().entry() {
        Some(list) => dictionary([(list, Value::Array(vec![keys.into()]))]),
        None => keys,
    }
}
