//! Warnings about a run's numbers: values beyond fp16, inputs that fp16 cannot distinguish, inexact integers. Each
//! warning has a name, and names the first value or operation concerned.

mod against;
mod constants;
mod inaccurate;
mod overflow;

use crate::tensor::{Array, Elements, View};
pub(crate) use against::tensors;
use against::{Integers, against_reference, may_be_undefined};
use anemone_facts::numerics::Model;
use anemone_net::{Binary, DType, Net, OpKind, Tensor, Unary, ValueId, eval};
use half::f16;
use overflow::{Limit, Overflow};
use std::collections::HashSet;

/// A warning about a run's results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Stable name.
    pub name: &'static str,
    /// The first value or operation concerned.
    pub at: String,
    /// Description, with numbers.
    pub message: String,
}

impl Warning {
    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({ "name": self.name, "at": self.at, "message": self.message })
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.name, self.at, self.message)
    }
}

/// Every name, with the condition of the warning.
pub static NAMES: &[(&str, &str)] = &[
    (
        "saturated",
        "a result is infinite or NaN where fp32 has a number, or far off, for a value beyond fp16; or an input is beyond it",
    ),
    (
        "undefined",
        "a result is a number where fp32 has an infinity or NaN, or the other way round, at the end or on the way",
    ),
    ("indistinguishable", "numbers of one row of an input become a single fp16 number"),
    (
        "inexact-integer",
        "a whole number beyond 2048 is not exact in fp16, or with --reference one from 2^24 on in fp32; or one is beyond int32 on the way, or unsigned and below zero",
    ),
    ("rounded-twice", "an integer output is a quotient that rounds to fp16 before it rounds to a whole number"),
    (
        "tie",
        "a quotient or sum that is rounded lies exactly between two whole numbers: the device rounds up, fp32 to even",
    ),
    (
        "inaccurate",
        "a result is off by more than a sixteenth of the largest (a 64th behind a reciprocal of a table), or an integer or truth value is another, for no other reason",
    ),
    ("nan-as-infinity", "an input has NaN, and the arithmetic of the device reads plus infinity"),
    ("nan-weights", "a constant that an operation computes with has NaN"),
];

/// Largest `n` such that fp16 represents all integers up to `n`.
const LARGEST_WHOLE: f32 = 2048.0;

/// Smallest difference of numbers in a row whose loss is reported: an exponential hardly separates closer ones.
const WORTH_TELLING: f32 = 0.5;

/// Warnings about a run of a network, from its inputs and outputs. The outputs are compared with an fp32 evaluation if the
/// network [is compared](is_compared) within `most`, and if an input or output is not finite. Integers whose names are in `exact` are
/// never rounded to fp16.
pub fn of_run(
    net: &Net,
    model: Model,
    inputs: &[(&str, View)],
    outputs: &[(String, Array)],
    exact: &HashSet<String>,
    most: u64,
) -> Vec<Warning> {
    let mut all = Vec::new();
    for (name, view) in inputs {
        let dtype = net.inputs.iter().map(|&id| net.value(id)).find(|v| v.name == *name).map(|v| v.ty.dtype);
        all.extend(of_input(name, dtype.unwrap_or(DType::F16), view, model));
    }
    for &id in &net.outputs {
        let value = net.value(id);
        let Some((_, array)) = outputs.iter().find(|(name, _)| *name == value.name) else { continue };
        if value.ty.dtype.is_integer() {
            let rounded = !exact.contains(&value.name);
            all.extend(whole(&value.name, array.data.iter().filter(|x| rounded && x.abs() > LARGEST_WHOLE)));
            all.extend(rounded_twice(net, id));
        }
    }
    let suspect = |view: &View| match view.elements {
        Elements::F32(data) => data.iter().any(|&x| !f16::from_f32(x).is_finite()),
        Elements::F16(data) => data.iter().any(|x| !x.is_finite()),
    };
    let suspicious = || inputs.iter().any(|(_, view)| suspect(view)) || outputs.iter().any(|(_, a)| suspect(&a.view()));
    if is_compared(net, most) || suspicious() {
        let told = !all.is_empty();
        all.extend(against_reference(net, model, inputs, outputs, exact, told));
        all.extend(constants::nan_weights(net));
    } else if most >= OF_ONE_RUN {
        all.extend(constants::nan_weights(net));
    }
    all
}

/// fp32 represents all integers below this.
const LARGEST_READ: f32 = 16_777_216.0;

/// Warnings about an fp32 evaluation: integers that files and arrays, which are fp32, may not represent exactly.
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
    let mut all: Vec<Warning> = ends.filter_map(beyond).collect();
    let mut overflow = Overflow::new(net, Limit::Word, &HashSet::new());
    let mut integers = Integers::of_inputs(net, inputs);
    // A second evaluation, for networks with integers only or small ones.
    let checked = all.is_empty() && !overflow.is_idle() || may_be_undefined(net) || !net.unsigned.is_empty();
    if checked && work(net) <= OF_EACH_RUN {
        let seen = eval::eval_traced(net, inputs, &mut |name, tensor| {
            overflow.see(name, tensor);
            integers.see(net, name, tensor);
        });
        if seen.is_ok() {
            all.extend(overflow.found().filter(|_| all.is_empty()));
            all.extend(integers.wrapped());
            all.extend(integers.undefined(net));
        }
    }
    all.extend(constants::nan_weights(net));
    all
}

/// Largest [`work`] of a network that is evaluated after each of many runs: a number instead of an infinity or NaN, or an integer that
/// was rounded in between, cannot be detected otherwise.
pub const OF_EACH_RUN: u64 = 10_000_000;

/// Largest [`work`] of a network that is evaluated after a single run, which takes seconds at most.
pub const OF_ONE_RUN: u64 = 20_000_000_000;

/// Returns true for a network whose [`work`] is at most this.
pub fn is_compared(net: &Net, most: u64) -> bool {
    work(net) <= most
}

/// Cost of an evaluation: approximate number of multiplications and elements.
pub fn work(net: &Net) -> u64 {
    net.ops.iter().map(|op| cost(net, op)).fold(0, u64::saturating_add)
}

/// Cost of evaluating an operation: approximate number of multiplications and elements.
pub(crate) fn cost(net: &Net, op: &anemone_net::Op) -> u64 {
    if let OpKind::Loop(repeat) = &op.kind {
        return work(&repeat.body).saturating_mul(repeat.turns as u64);
    }
    let shape = |id: &ValueId| &net.value(*id).ty.shape;
    let elements: usize = op.outputs.iter().map(|id| net.value(*id).ty.elements()).sum();
    let each = match (&op.kind, op.inputs.get(1).map(shape)) {
        (OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear, Some(w)) => w.iter().skip(1).product(),
        (OpKind::MatMul { .. }, Some(y)) => y.iter().rev().take(2).copied().max().unwrap_or(1),
        (OpKind::Pool { kernel, .. }, _) => kernel.iter().product(),
        // Each element of the operand is read once.
        (OpKind::Reduce { .. } | OpKind::ArgReduce { .. }, _) => {
            net.value(op.inputs[0]).ty.elements() / elements.max(1)
        }
        _ => 1,
    };
    (elements as u64).saturating_mul(each as u64)
}

fn warning(name: &'static str, at: &str, message: String) -> Warning {
    Warning { name, at: at.to_string(), message }
}

fn of_input(name: &str, dtype: DType, view: &View, model: Model) -> Vec<Warning> {
    let mut all = Vec::new();
    // Inputs in fp16 are exact.
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

/// Integers that are not exact.
fn whole<'a>(name: &str, mut inexact: impl Iterator<Item = &'a f32>) -> Option<Warning> {
    let first = inexact.next()?;
    let count = 1 + inexact.count();
    Some(warning(
        "inexact-integer",
        name,
        format!("{count} whole numbers beyond 2048 are not exact in fp16, such as {first}"),
    ))
}

/// An integer output computed by rounding a quotient.
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
