//! Comparison of a run with fp32 evaluation of the network.

use super::inaccurate::{Reciprocals, inaccurate, largest};
use super::overflow::{Limit, Overflow};
use super::{LARGEST_WHOLE, Warning, warning, whole};
use crate::tensor::{Array, View};
use anemone_facts::numerics::Model;
use anemone_net::{Binary, DType, Data, Net, OpKind, PoolKind, ReduceKind, ScatterMode, Tensor, Unary, ValueId, eval};
use half::f16;
use std::collections::HashSet;

/// Compares a run with fp32 evaluation of the network: infinities or NaN on one side only, inexact integers in
/// intermediate values, and, without other warnings in `told`, large errors.
pub(super) fn against_reference(
    net: &Net,
    model: Model,
    inputs: &[(&str, View)],
    outputs: &[(String, Array)],
    exact: &HashSet<String>,
    told: bool,
) -> Vec<Warning> {
    let Some(tensors) = tensors(net, inputs) else { return Vec::new() };
    let (mut beyond, mut inexact, mut dropped, mut tie) = (None, None, None, None);
    let quotients = if model == Model::Fast { Vec::new() } else { rounded_quotients(net) };
    let mut integers = Integers::of_inputs(net, &tensors);
    let (drops, spreads) = (dropped_nan(net), multiplied_by_zeros(net));
    let ends: Vec<&str> = net.inputs.iter().chain(&net.outputs).map(|&id| net.value(id).name.as_str()).collect();
    let mut overflow = Overflow::new(net, Limit::Half, exact);
    let mut reciprocals = Reciprocals::new(net, &drops);
    let mut see = |name: &str, tensor: &Tensor| {
        overflow.see(name, tensor);
        reciprocals.see(name, &tensor.data);
        let data = tensor.data.as_f32();
        if tensor.data.dtype().is_integer() && inexact.is_none() && !ends.contains(&name) && !exact.contains(name) {
            inexact = whole(name, data.iter().filter(|x| x.abs() > LARGEST_WHOLE));
        }
        integers.see(net, name, tensor);
        if dropped.is_none() && drops.contains(name) && data.iter().any(|x| x.is_nan()) {
            let message = "NaN in fp32, where the engine's greater and smaller of NaN and a number is the number, and which is no integer";
            dropped = Some(warning("undefined", name, message.into()));
        }
        if dropped.is_none() && spreads.contains(name) && data.iter().any(|&x| !f16::from_f32(x).is_finite()) {
            let message = "infinite or NaN in fp16, where zeros stand for elements that a window does not have: \
                           zero times infinity is NaN";
            dropped = Some(warning("undefined", name, message.into()));
        }
        if tie.is_none() && quotients.contains(&name) {
            let count = data.iter().filter(|x| x.abs() < LARGEST_WHOLE && x.abs().fract() == 0.5).count();
            let message = || {
                format!(
                    "{count} numbers lie exactly between two whole ones, which the device rounds up and fp32 to even"
                )
            };
            tie = (count > 0).then(|| warning("tie", name, message()));
        }
        let largest = largest(&data);
        if beyond.is_none() && f16::from_f32(largest).is_infinite() {
            beyond = Some((name.to_string(), largest));
        }
    };
    let wanted = match eval::eval_traced(net, &tensors, &mut see) {
        Ok(wanted) => wanted,
        Err(e) => return vec![warning("undefined", &net.name, format!("has no value in fp32: {e}"))],
    };
    let differs = differences(net, model, outputs, &wanted, beyond.clone());
    let divided = integers.undefined(net);
    // A difference in an output is more informative.
    let dropped = divided.or(dropped).or_else(|| reciprocals.dropped()).filter(|_| differs.is_none());
    // Unsigned numbers that wrap below zero are large in the model and negative here.
    let unlike = |(&id, tensor): (&ValueId, &Tensor)| {
        let value = net.value(id);
        let (_, array) = outputs.iter().find(|(name, _)| *name == value.name)?;
        let told = array.data.iter().any(|x| x.abs() > LARGEST_WHOLE);
        let data = tensor.data.to_f32();
        let large = data.iter().filter(|x| x.abs() > LARGEST_WHOLE);
        if value.ty.dtype.is_integer() && !told && !exact.contains(&value.name) {
            whole(&value.name, large)
        } else {
            None
        }
    };
    let inexact = inexact.or_else(|| integers.wrapped()).or_else(|| overflow.found());
    let inexact = inexact.or_else(|| net.outputs.iter().zip(&wanted).find_map(unlike));
    let mut all: Vec<Warning> = inexact.into_iter().chain(differs).chain(dropped).chain(tie).collect();
    if all.is_empty() && !told {
        let beyond = beyond.or_else(|| reciprocals.found());
        all.extend(inaccurate(net, &tensors, outputs, &wanted, beyond));
    }
    all
}

/// Names of integer values for which some operations are undefined.
#[derive(Default)]
pub(super) struct Integers {
    /// Values with a zero, which are invalid divisors.
    zeros: HashSet<String>,
    /// Values with a negative number, which are invalid exponents.
    negatives: HashSet<String>,
    /// The first value that the file has as unsigned, and a negative number of it.
    wrapped: Option<(String, f32)>,
}

impl Integers {
    pub(super) fn of_inputs(net: &Net, inputs: &[Tensor]) -> Integers {
        let mut all = Integers::default();
        net.inputs.iter().zip(inputs).for_each(|(&id, tensor)| all.see(net, &net.value(id).name, tensor));
        all
    }

    /// Records an input or a result.
    pub(super) fn see(&mut self, net: &Net, name: &str, tensor: &Tensor) {
        if !tensor.data.dtype().is_integer() {
            return;
        }
        let data = tensor.data.to_f32();
        if data.contains(&0.0) {
            self.zeros.insert(name.to_string());
        }
        if let Some(&least) = data.iter().find(|x| **x < 0.0) {
            self.negatives.insert(name.to_string());
            if self.wrapped.is_none() && net.unsigned.iter().any(|unsigned| unsigned == name) {
                self.wrapped = Some((name.to_string(), least));
            }
        }
    }

    /// The first undefined operation on integers.
    pub(super) fn undefined(&self, net: &Net) -> Option<Warning> {
        divided_by_zero(net, &self.zeros).or_else(|| raised_below_zero(net, &self.negatives))
    }

    /// An unsigned integer of 32 or 64 bits below zero: the model's wraps to a large number, and int32 has none of it.
    pub(super) fn wrapped(&self) -> Option<Warning> {
        let (name, x) = self.wrapped.as_ref()?;
        let message =
            format!("is unsigned in the model, where {x} is a large number, and is held as int32: {x} stands for it");
        Some(warning("inexact-integer", name, message))
    }
}

/// Returns true for a network with operations on integers that may be undefined.
pub(super) fn may_be_undefined(net: &Net) -> bool {
    net.ops.iter().any(|op| {
        matches!(op.kind, OpKind::Binary(Binary::Div | Binary::FloorDiv | Binary::Mod | Binary::Pow))
            && net.value(op.inputs[1]).ty.dtype.is_integer()
    })
}

/// Names of numbers that the array or an activation table rounds in their own way: quotients, sums, and results that are clipped to a
/// range or narrow integers.
fn rounded_quotients(net: &Net) -> Vec<&str> {
    let made = |id: ValueId| net.ops.iter().find(|op| op.outputs.contains(&id)).map(|op| &op.kind);
    let scales = |id: ValueId| {
        use Binary::{Add, Div, Mul, Sub};
        matches!(made(id), Some(OpKind::Binary(Div | Mul | Add | Sub) | OpKind::Unary(Unary::Clip { .. })))
    };
    let narrows = |op: &anemone_net::Op| match op.kind {
        OpKind::Cast => net.value(op.outputs[0]).ty.dtype.narrow_range().is_some(),
        OpKind::Binary(Binary::Add | Binary::Sub) | OpKind::Unary(Unary::Clip { .. }) => true,
        _ => false,
    };
    let rounds = |op: &&anemone_net::Op| match op.kind {
        OpKind::Unary(Unary::RoundClip { .. }) => true,
        OpKind::Unary(Unary::Round) => {
            scales(op.inputs[0])
                || net.ops.iter().any(|reader| reader.inputs.contains(&op.outputs[0]) && narrows(reader))
        }
        _ => false,
    };
    net.ops.iter().filter(rounds).map(|op| net.value(op.inputs[0]).name.as_str()).collect()
}

/// The first quotient or remainder of integers with a zero divisor: it is undefined, and the engine's is infinite or NaN.
fn divided_by_zero(net: &Net, zeros: &HashSet<String>) -> Option<Warning> {
    let by_zero = |op: &&anemone_net::Op| {
        let divisor = op.inputs.get(1).map(|&id| net.value(id));
        let divides = matches!(op.kind, OpKind::Binary(Binary::Div | Binary::FloorDiv | Binary::Mod));
        divides
            && divisor.is_some_and(|value| {
                let constant = |tensor: &Tensor| tensor.data.to_f32().contains(&0.0);
                value.ty.dtype.is_integer()
                    && value.data.as_deref().map_or_else(|| zeros.contains(&value.name), constant)
            })
    };
    let op = net.ops.iter().find(by_zero)?;
    let name = &net.value(*op.outputs.first()?).name;
    Some(warning("undefined", name, format!("{} of integers by zero has no value", op.kind.name())))
}

/// The first power of integers with a negative exponent, which is not an integer.
fn raised_below_zero(net: &Net, negatives: &HashSet<String>) -> Option<Warning> {
    let below_zero = |op: &&anemone_net::Op| {
        let exponent = op.inputs.get(1).map(|&id| net.value(id));
        op.kind == OpKind::Binary(Binary::Pow)
            && exponent.is_some_and(|value| {
                let constant = |tensor: &Tensor| tensor.data.to_f32().iter().any(|&x| x < 0.0);
                value.ty.dtype.is_integer()
                    && value.data.as_deref().map_or_else(|| negatives.contains(&value.name), constant)
            })
    };
    let op = net.ops.iter().find(below_zero)?;
    let name = &net.value(*op.outputs.first()?).name;
    Some(warning("undefined", name, "a power of integers with a negative exponent has no integer value".into()))
}

/// Names of values computed from or read by windows or pads, whose elements are multiplied by zeros.
fn multiplied_by_zeros(net: &Net) -> HashSet<&str> {
    let spreads = |op: &&anemone_net::Op| match op.kind {
        OpKind::Conv { .. }
        | OpKind::ConvTranspose { .. }
        | OpKind::Pad { .. }
        | OpKind::PadEdge { .. }
        | OpKind::Resize { .. }
        | OpKind::Combine => true,
        // Constant positions that differ by row, and sums of rows at constant positions, become a product with a matrix of zeros and ones.
        OpKind::GatherAlong { .. }
        | OpKind::ScatterAlong { mode: ScatterMode::Add | ScatterMode::Sub, .. }
        | OpKind::ScatterNd { mode: ScatterMode::Add | ScatterMode::Sub } => {
            op.inputs.get(1).is_some_and(|&id| net.value(id).data.is_some())
        }
        _ => false,
    };
    let touched = net.ops.iter().filter(spreads).flat_map(|op| op.inputs.iter().chain(&op.outputs));
    touched.map(|&id| net.value(id).name.as_str()).collect()
}

/// Names of values computed by an operation that drops NaN, or read by one with positions or integers as results.
fn dropped_nan(net: &Net) -> HashSet<&str> {
    use OpKind::*;
    let placed = |op: &anemone_net::Op| {
        let converts = matches!(op.kind, Cast) && {
            let dtype = net.value(op.outputs[0]).ty.dtype;
            dtype.is_integer() && dtype != DType::Bool
        };
        converts || matches!(op.kind, ArgReduce { .. } | ArgSort { .. })
    };
    let drops = |op: &anemone_net::Op| match op.kind {
        Unary(f) => matches!(
            f,
            anemone_net::Unary::Relu
                | anemone_net::Unary::Relu6
                | anemone_net::Unary::Clip { .. }
                | anemone_net::Unary::Threshold { .. }
        ),
        // The compiler refuses a constant NaN, and the host keeps it.
        Binary(f) => {
            let constant = op.inputs.iter().filter_map(|&id| net.value(id).data.as_ref());
            matches!(f, anemone_net::Binary::Max | anemone_net::Binary::Min)
                && !constant.clone().any(|t| t.data.dtype().is_float() && t.data.to_f32().iter().any(|x| x.is_nan()))
        }
        Pool { kind, .. } => kind == PoolKind::Max,
        Reduce { kind, .. } => matches!(kind, ReduceKind::Max | ReduceKind::Min),
        Gather { .. } | GatherAlong { .. } | ScatterAlong { .. } | ScatterNd { .. } => true,
        _ => false,
    };
    let read = net.ops.iter().filter(|op| placed(op)).flat_map(|op| &op.inputs);
    let made = net.ops.iter().filter(|op| drops(op)).flat_map(|op| &op.outputs);
    read.chain(made).map(|&id| net.value(id).name.as_str()).collect()
}

/// The first output with infinities or NaN of its own; `beyond` is the first value beyond fp16.
fn differences(
    net: &Net,
    model: Model,
    outputs: &[(String, Array)],
    wanted: &[Tensor],
    beyond: Option<(String, f32)>,
) -> Option<Warning> {
    let apart = |got: f32, wanted: f32| match wanted {
        _ if got.is_nan() || wanted.is_nan() => got.is_nan() != wanted.is_nan(),
        _ if got.is_infinite() || wanted.is_infinite() => got != wanted,
        _ => false,
    };
    for (&id, wanted) in net.outputs.iter().zip(wanted) {
        let value = net.value(id);
        let Some((_, array)) = outputs.iter().find(|(name, _)| *name == value.name) else { continue };
        let wanted = wanted.data.to_f32();
        let pairs = || array.data.iter().zip(&wanted).filter(|(got, wanted)| apart(**got, **wanted));
        let differs = pairs().count();
        if differs == 0 {
            continue;
        }
        // The device's arithmetic has a smaller range than fp16.
        let ends = model != Model::Fast && pairs().all(|(got, wanted)| got.is_infinite() && wanted.is_finite());
        let of = format!("{differs} of {} elements of output {} are", array.data.len(), value.name);
        return Some(match beyond {
            Some((at, largest)) => {
                let message = format!("reaches {largest} in fp32, beyond fp16 (65504): {of} infinite or NaN for it");
                warning("saturated", &at, message)
            }
            None if ends => {
                let limits =
                    "sums of products are infinite from 32768 on in this model, parts of rows from 4096 on (M1, M2)";
                warning("saturated", &value.name, format!("{of} infinite here and finite in fp32: {limits}"))
            }
            None => warning(
                "undefined",
                &value.name,
                format!("{of} infinite or NaN here and not in fp32, or the other way round"),
            ),
        });
    }
    None
}

/// The inputs in the form of the evaluator.
pub(crate) fn tensors(net: &Net, inputs: &[(&str, View)]) -> Option<Vec<Tensor>> {
    let tensor = |&id: &ValueId| {
        let value = net.value(id);
        let read = || net.outputs.contains(&id) || net.ops.iter().any(|op| op.inputs.contains(&id));
        let elements = match inputs.iter().find(|(name, _)| *name == value.name) {
            Some((_, view)) => view.to_array().data,
            // Programs have no port for what nothing reads.
            None if !read() => vec![0.0; value.ty.elements()],
            None => return None,
        };
        let dtype = if value.ty.dtype.is_float() { DType::F32 } else { value.ty.dtype };
        let data = match dtype {
            DType::F32 => Data::F32(elements),
            _ => Data::from_i32(dtype, &elements.iter().map(|&x| x as i32).collect::<Vec<_>>()),
        };
        Some(Tensor { shape: value.ty.shape.clone(), data })
    };
    net.inputs.iter().map(tensor).collect()
}
