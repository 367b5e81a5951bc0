//! Warnings about a run's numbers: values beyond fp16, inputs that fp16 does not tell apart, inexact whole numbers. Each
//! warning has a name, and names the first value or operation concerned.

use crate::tensor::{Array, Elements, View};
use anemone_facts::numerics::Model;
use anemone_net::{Binary, DType, Data, Net, OpKind, PoolKind, ReduceKind, Tensor, Unary, ValueId, eval};
use half::f16;

/// One doubt about a run's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable name, to look for.
    pub name: &'static str,
    /// The value or operation that it begins with.
    pub at: String,
    /// Description, with numbers.
    pub message: String,
}

impl Warning {
    /// For reports.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "name": self.name, "at": self.at, "message": self.message })
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.name, self.at, self.message)
    }
}

/// Every name, and when the warning is given.
pub static NAMES: &[(&str, &str)] = &[
    ("saturated", "a result is infinite or NaN where fp32 has a number, or an input is beyond fp16"),
    (
        "undefined",
        "a result is a number where fp32 has an infinity or NaN, or the other way round, at the end or on the way",
    ),
    ("indistinguishable", "numbers of one row of an input become a single fp16 number"),
    (
        "inexact-integer",
        "a whole number beyond 2048 is not exact in fp16, or with --reference one from 2^24 on in fp32",
    ),
    ("rounded-twice", "an integer output is a quotient that rounds to fp16 before it rounds to a whole number"),
    (
        "tie",
        "a quotient or sum that is rounded lies exactly between two whole numbers: the device rounds up, fp32 to even",
    ),
    ("nan-as-infinity", "an input has NaN, and the arithmetic of the device reads plus infinity"),
];

/// Whole numbers up to here are fp16 numbers.
const LARGEST_WHOLE: f32 = 2048.0;

/// Numbers nearer to each other than this are not missed in a row: an exponential hardly tells them apart.
const WORTH_TELLING: f32 = 0.5;

/// Warnings about a network's run: what went in, and what came out.
pub fn of_run(net: &Net, model: Model, inputs: &[(&str, View)], outputs: &[(String, Array)]) -> Vec<Warning> {
    let mut all = Vec::new();
    for (name, view) in inputs {
        let dtype = net.inputs.iter().map(|&id| net.value(id)).find(|v| v.name == *name).map(|v| v.ty.dtype);
        all.extend(of_input(name, dtype.unwrap_or(DType::F16), view, model));
    }
    for &id in &net.outputs {
        let value = net.value(id);
        let Some((_, array)) = outputs.iter().find(|(name, _)| *name == value.name) else { continue };
        if value.ty.dtype.is_integer() {
            all.extend(whole(&value.name, array.data.iter().filter(|x| x.abs() > LARGEST_WHOLE)));
            all.extend(rounded_twice(net, id));
        }
    }
    let suspect = |view: &View| match view.elements {
        Elements::F32(data) => data.iter().any(|&x| !f16::from_f32(x).is_finite()),
        Elements::F16(data) => data.iter().any(|x| !x.is_finite()),
    };
    let suspicious = || inputs.iter().any(|(_, view)| suspect(view)) || outputs.iter().any(|(_, a)| suspect(&a.view()));
    if work(net) <= WORTH_EVALUATING || suspicious() {
        all.extend(against_reference(net, model, inputs, outputs));
    }
    all
}

/// Whole numbers below this are fp32 numbers.
const LARGEST_READ: f32 = 16_777_216.0;

/// Warnings about an evaluation in fp32: whole numbers that files and arrays, which hold fp32, may not have exactly.
pub fn of_reference(net: &Net, inputs: &[Tensor], outputs: &[Tensor]) -> Vec<Warning> {
    let ends = net.inputs.iter().zip(inputs).chain(net.outputs.iter().zip(outputs));
    let beyond = |(&id, tensor): (&ValueId, &Tensor)| {
        let value = net.value(id);
        let count = match value.ty.dtype.is_integer() {
            true => tensor.data.to_f32().iter().filter(|x| x.abs() >= LARGEST_READ).count(),
            false => 0,
        };
        let message = || format!("{count} whole numbers from 2^24 on are read and written as fp32");
        (count > 0).then(|| warning("inexact-integer", &value.name, message()))
    };
    ends.filter_map(beyond).collect()
}

/// Largest [`work`] of a network that is evaluated after each run: a number in place of an infinity or NaN, or a whole number
/// that was rounded on the way, shows nowhere else.
const WORTH_EVALUATING: u64 = 10_000_000;

/// Cost of an evaluation: about the number of multiplications and elements.
fn work(net: &Net) -> u64 {
    let of = |op: &anemone_net::Op| {
        let shape = |id: &ValueId| &net.value(*id).ty.shape;
        let each = match (&op.kind, op.inputs.get(1).map(shape)) {
            (OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear, Some(w)) => {
                w.iter().skip(1).product()
            }
            (OpKind::MatMul { .. }, Some(y)) => y.iter().rev().take(2).copied().max().unwrap_or(1),
            (OpKind::Pool { kernel, .. }, _) => kernel.iter().product(),
            (OpKind::Reduce { .. } | OpKind::ArgReduce { .. }, _) => shape(&op.inputs[0]).iter().product(),
            _ => 1,
        };
        let elements: usize = op.outputs.iter().map(|id| net.value(*id).ty.elements()).sum();
        (elements as u64).saturating_mul(each as u64)
    };
    net.ops.iter().map(of).fold(0, u64::saturating_add)
}

fn warning(name: &'static str, at: &str, message: String) -> Warning {
    Warning { name, at: at.to_string(), message }
}

fn of_input(name: &str, dtype: DType, view: &View, model: Model) -> Vec<Warning> {
    let mut all = Vec::new();
    // fp16 holds what came in fp16.
    let data = if let Elements::F32(data) = view.elements { data } else { &[] };
    if dtype.is_integer() {
        all.extend(whole(name, data.iter().filter(|&&x| f16::from_f32(x).to_f32() != x)));
        return all;
    }
    let beyond = data.iter().filter(|x| x.is_finite() && f16::from_f32(**x).is_infinite()).count();
    if beyond > 0 {
        let message = format!("{beyond} of {} elements are beyond fp16 (65504) and become infinite", data.len());
        all.push(warning("saturated", name, message));
    }
    let nan = match view.elements {
        Elements::F32(data) => data.iter().filter(|x| x.is_nan()).count(),
        Elements::F16(data) => data.iter().filter(|x| x.is_nan()).count(),
    };
    if nan > 0 && model != Model::Fast {
        let message = format!("{nan} elements are NaN, which the device reads as plus infinity");
        all.push(warning("nan-as-infinity", name, message));
    }
    let width = view.shape.last().copied().unwrap_or(1).max(1);
    let single = |row: &&[f32]| {
        let (least, most) = row.iter().fold((row[0], row[0]), |(least, most), &x| (least.min(x), most.max(x)));
        most - least >= WORTH_TELLING && f16::from_f32(least) == f16::from_f32(most) && f16::from_f32(most).is_finite()
    };
    if let Some(row) = data.chunks_exact(width).find(single) {
        let message =
            format!("{} and others of one row are the same number in fp16, {}", row[0], f16::from_f32(row[0]));
        all.push(warning("indistinguishable", name, message));
    }
    all
}

/// Whole numbers that are not exact.
fn whole<'a>(name: &str, mut inexact: impl Iterator<Item = &'a f32>) -> Option<Warning> {
    let first = inexact.next()?;
    let count = 1 + inexact.count();
    Some(warning(
        "inexact-integer",
        name,
        format!("{count} whole numbers beyond 2048 are not exact in fp16, such as {first}"),
    ))
}

/// An integer output that is made by rounding a quotient.
fn rounded_twice(net: &Net, output: ValueId) -> Option<Warning> {
    let made = |id: ValueId| net.ops.iter().find(|op| op.outputs.contains(&id));
    let (mut id, mut rounds) = (output, false);
    while let Some(op) = made(id) {
        match op.kind {
            OpKind::Unary(Unary::Round) => rounds = true,
            OpKind::Binary(Binary::Div) if rounds => {
                let message =
                    "the quotient rounds to fp16 before it rounds to a whole number: results can be off by one";
                return Some(warning("rounded-twice", &net.value(output).name, message.into()));
            }
            OpKind::Cast | OpKind::Reshape | OpKind::Unary(_) | OpKind::Binary(_) => {}
            _ => return None,
        }
        id = *op.inputs.first()?;
    }
    None
}

/// Compares a run with fp32 evaluation of the network: infinities or NaN on one side alone, and inexact whole numbers of
/// intermediate values.
fn against_reference(net: &Net, model: Model, inputs: &[(&str, View)], outputs: &[(String, Array)]) -> Vec<Warning> {
    let Some(tensors) = tensors(net, inputs) else { return Vec::new() };
    let (mut beyond, mut inexact, mut dropped, mut tie) = (None, None, None, None);
    let quotients = if model == Model::Fast { Vec::new() } else { rounded_quotients(net) };
    // Integers with a zero among them, which nothing may be divided by.
    let holds_zero = |data: &[f32]| data.contains(&0.0);
    let mut zeros: Vec<String> = net
        .inputs
        .iter()
        .zip(&tensors)
        .filter_map(|(&id, tensor)| {
            let integer = tensor.data.dtype().is_integer() && holds_zero(&tensor.data.to_f32());
            integer.then(|| net.value(id).name.clone())
        })
        .collect();
    let ends: Vec<&str> = net.inputs.iter().chain(&net.outputs).map(|&id| net.value(id).name.as_str()).collect();
    let mut see = |name: &str, tensor: &Tensor| {
        let data = tensor.data.to_f32();
        if tensor.data.dtype().is_integer() && inexact.is_none() && !ends.contains(&name) {
            inexact = whole(name, data.iter().filter(|x| x.abs() > LARGEST_WHOLE));
        }
        if tensor.data.dtype().is_integer() && holds_zero(&data) {
            zeros.push(name.to_string());
        }
        if dropped.is_none() && drops(net, name) && data.iter().any(|x| x.is_nan()) {
            let message = "NaN in fp32, where the engine's greater and smaller of NaN and a number is the number";
            dropped = Some(warning("undefined", name, message.into()));
        }
        if dropped.is_none() && spreads(net, name) && data.iter().any(|x| !x.is_finite()) {
            let message = "infinite or NaN in fp32, where zeros stand for elements that a window does not have: \
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
        let largest = data.iter().filter(|x| x.is_finite()).fold(0f32, |most, x| most.max(x.abs()));
        if beyond.is_none() && f16::from_f32(largest).is_infinite() {
            beyond = Some((name.to_string(), largest));
        }
    };
    let Ok(wanted) = eval::eval_traced(net, &tensors, &mut see) else { return Vec::new() };
    let differs = differences(net, outputs, &wanted, beyond);
    let divided = divided_by_zero(net, &zeros);
    // A difference that an output shows itself says more.
    let dropped = divided.or(dropped).filter(|_| differs.is_none());
    inexact.into_iter().chain(differs).chain(dropped).chain(tie).collect()
}

/// Names of quotients and sums that are rounded: what becomes one sum of an array is rounded by it, in its own way.
fn rounded_quotients(net: &Net) -> Vec<&str> {
    let rounds = |op: &&anemone_net::Op| matches!(op.kind, OpKind::Unary(Unary::Round | Unary::RoundClip { .. }));
    let scales = |id: ValueId| {
        net.ops.iter().any(|op| {
            op.outputs.contains(&id)
                && matches!(op.kind, OpKind::Binary(Binary::Div | Binary::Mul | Binary::Add | Binary::Sub))
        })
    };
    let rounded = net.ops.iter().filter(rounds).filter_map(|op| op.inputs.first().copied());
    rounded.filter(|&id| scales(id)).map(|id| net.value(id).name.as_str()).collect()
}

/// The first quotient or remainder of integers whose divisor has a zero: it has no value, and the engine's is infinite or NaN.
fn divided_by_zero(net: &Net, zeros: &[String]) -> Option<Warning> {
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

/// Returns true if a value comes from windows or pads, where zeros are multiplied with elements.
fn spreads(net: &Net, name: &str) -> bool {
    let made = net.ops.iter().find(|op| op.outputs.iter().any(|&id| net.value(id).name == name));
    made.is_some_and(|op| {
        matches!(
            op.kind,
            OpKind::Conv { .. }
                | OpKind::ConvTranspose { .. }
                | OpKind::Pad { .. }
                | OpKind::PadEdge { .. }
                | OpKind::Resize { .. }
        )
    })
}

/// Returns true if a value comes from an operation that drops NaN, or is read by one whose results are places.
fn drops(net: &Net, name: &str) -> bool {
    use OpKind::*;
    let placed = |op: &anemone_net::Op| {
        matches!(op.kind, ArgReduce { .. } | ArgSort { .. }) && op.inputs.iter().any(|&id| net.value(id).name == name)
    };
    if net.ops.iter().any(placed) {
        return true;
    }
    let made = net.ops.iter().find(|op| op.outputs.iter().any(|&id| net.value(id).name == name));
    made.is_some_and(|op| match op.kind {
        Unary(f) => matches!(
            f,
            anemone_net::Unary::Relu
                | anemone_net::Unary::Relu6
                | anemone_net::Unary::Clip { .. }
                | anemone_net::Unary::Threshold { .. }
        ),
        Binary(f) => matches!(f, anemone_net::Binary::Max | anemone_net::Binary::Min),
        Pool { kind, .. } => kind == PoolKind::Max,
        Reduce { kind, .. } => matches!(kind, ReduceKind::Max | ReduceKind::Min),
        Gather { .. } | GatherAlong { .. } | ScatterAlong { .. } | ScatterNd { .. } => true,
        _ => false,
    })
}

/// The first output with infinities or NaN of its own; `beyond` is the first value that fp16 does not hold.
fn differences(
    net: &Net,
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
        let differs = array.data.iter().zip(&wanted).filter(|(got, wanted)| apart(**got, **wanted)).count();
        if differs == 0 {
            continue;
        }
        let of = format!("{differs} of {} elements of output {} are", array.data.len(), value.name);
        return Some(match beyond {
            Some((at, largest)) => {
                let message = format!("reaches {largest} in fp32, beyond fp16 (65504): {of} infinite or NaN for it");
                warning("saturated", &at, message)
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

/// The inputs as the evaluator takes them.
fn tensors(net: &Net, inputs: &[(&str, View)]) -> Option<Vec<Tensor>> {
    let tensor = |&id: &ValueId| {
        let value = net.value(id);
        let (_, view) = inputs.iter().find(|(name, _)| *name == value.name)?;
        let dtype = if value.ty.dtype.is_float() { DType::F32 } else { value.ty.dtype };
        let elements = view.to_array().data;
        let data = match dtype {
            DType::F32 => Data::F32(elements),
            _ => Data::from_i32(dtype, &elements.iter().map(|&x| x as i32).collect::<Vec<_>>()),
        };
        Some(Tensor { shape: value.ty.shape.clone(), data })
    };
    net.inputs.iter().map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anemone_net::text;

    fn array(data: &[f32]) -> Array {
        Array { shape: vec![data.len()], data: data.to_vec() }
    }

    fn names(net: &str, model: Model, input: &[f32], output: &[f32]) -> Vec<&'static str> {
        let net = text::parse(net, &[]).expect("the net parses");
        let (inputs, outputs) = ([("x".to_string(), array(input))], [("y".to_string(), array(output))]);
        let all = of_run(&net, model, &crate::tensor::views(&inputs), &outputs);
        assert!(all.iter().all(|w| NAMES.iter().any(|(name, _)| *name == w.name)), "{all:?}");
        all.iter().map(|w| w.name).collect()
    }

    #[test]
    fn each_doubt_has_its_name() {
        let exp = "net \"n\" {\n  input %x: f16[2]\n  %y: f16[2] = exp(%x)\n  output %y\n}\n";
        assert_eq!(names(exp, Model::Fast, &[1.0, 2.0], &[2.7, 7.4]), [""; 0]);
        assert_eq!(names(exp, Model::Fast, &[1.0, 20.0], &[2.7, f32::INFINITY]), ["saturated"]);
        assert_eq!(names(exp, Model::Fast, &[1.0, f32::INFINITY], &[2.7, f32::INFINITY]), [""; 0]);
        assert_eq!(names(exp, Model::Fast, &[1.0, f32::INFINITY], &[2.7, 0.0]), ["undefined"]);
        assert_eq!(names(exp, Model::Fast, &[1e5, 1.0], &[f32::INFINITY, 2.7]), ["saturated", "saturated"][..1]);
        assert_eq!(names(exp, Model::Fast, &[10000.0, 10001.0], &[f32::INFINITY; 2]), ["indistinguishable"]);
        assert_eq!(names(exp, Model::Fast, &[f32::NAN, 1.0], &[f32::NAN, 2.7]), [""; 0]);
        let read = names(exp, Model::Fixed, &[f32::NAN, 1.0], &[f32::INFINITY, 2.7]);
        assert_eq!(read, ["nan-as-infinity", "undefined"]);
        let whole = "net \"n\" {\n  input %x: i32[2]\n  %y: i32[2] = abs(%x)\n  output %y\n}\n";
        assert_eq!(names(whole, Model::Fast, &[1.0, -2047.0], &[1.0, 2047.0]), [""; 0]);
        assert_eq!(names(whole, Model::Fast, &[1.0, -2049.0], &[1.0, 2050.0]), ["inexact-integer"; 2]);
    }
}
