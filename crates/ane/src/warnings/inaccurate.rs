//! Results with large errors against fp32 evaluation, and the first value that loses accuracy.

use super::{Warning, warning};
use crate::tensor::Array;
use anemone_net::{Binary, Net, Op, OpKind, Tensor, Unary, ValueId, eval};
use half::f16;
use std::collections::{HashMap, HashSet};

/// Fraction of a tensor's largest magnitude above which an error is large: rounding and activation tables cost a
/// hundredth at most.
const FAR: f32 = 1.0 / 16.0;

/// As [`FAR`], behind a reciprocal of a result from a table, whose absolute error it multiplies.
const FAR_INVERTED: f32 = 1.0 / 64.0;

/// Magnitude above the absolute errors of activation tables.
const WORTH_TELLING: f32 = 1.0 / 32.0;

/// Divisors below this magnitude have a reciprocal beyond fp16.
const LEAST_DIVISOR: f32 = 1.0 / 65504.0;

/// Elements of an output with large errors against fp32 evaluation.
struct Far<'a> {
    output: &'a str,
    count: usize,
    elements: usize,
    /// The first of them, and its value in fp32.
    first: [f32; 2],
}

/// The warning about the first output with large errors against fp32: for floats by [`FAR`], for integers and truth values by
/// any difference. `beyond` is the first value beyond fp16: behind it, errors are relative to each element's own magnitude.
pub(super) fn inaccurate(
    net: &Net,
    inputs: &[Tensor],
    outputs: &[(String, Array)],
    wanted: &[Tensor],
    beyond: Option<(String, f32)>,
) -> Option<Warning> {
    let far =
        net.outputs.iter().zip(wanted).find_map(|(&id, wanted)| far(net, id, outputs, wanted, beyond.is_some()))?;
    let shown = format!(
        "{} of {} elements of output {} are off, such as {} for {}",
        far.count, far.elements, far.output, far.first[0], far.first[1]
    );
    if let Some((at, largest)) = beyond {
        return Some(warning("saturated", &at, format!("reaches {largest} in fp32, beyond fp16 (65504): {shown}")));
    }
    match first_loss(net, inputs) {
        Some(at) => Some(warning("inaccurate", &at, format!("loses its value in fp16: {shown}"))),
        None => Some(warning("inaccurate", far.output, format!("by the arithmetic of the device: {shown}"))),
    }
}

fn far<'a>(net: &'a Net, id: ValueId, outputs: &[(String, Array)], wanted: &Tensor, each: bool) -> Option<Far<'a>> {
    let value = net.value(id);
    let (_, got) = outputs.iter().find(|(name, _)| *name == value.name)?;
    let wanted = wanted.data.as_f32();
    let share = if inverts_a_table(net) { FAR_INVERTED } else { FAR };
    let most = if value.ty.dtype.is_float() { share * largest(&wanted) } else { 0.0 };
    let admitted = |wanted: f32| if each { most.min(WORTH_TELLING.max(FAR * wanted.abs())) } else { most };
    let off = |&(got, wanted): &(&f32, &f32)| is_far(*got, *wanted, admitted(*wanted));
    let mut all = got.data.iter().zip(wanted.iter()).filter(off);
    let (&first, &expected) = all.next()?;
    Some(Far { output: &value.name, count: 1 + all.count(), elements: wanted.len(), first: [first, expected] })
}

/// Returns true for a network with a reciprocal, a quotient or a power of a result from an activation table, at once or behind
/// operations on single elements.
fn inverts_a_table(net: &Net) -> bool {
    use Unary::{Atan, Cos, Elu, Erf, Gelu, Inverse, Log, Log2, Rsqrt, ScaledTanh, Sigmoid, Silu, Sin, Softplus, Tanh};
    // Functions of which results near zero have an absolute error.
    let tabled = |f: &Unary| {
        let bent = matches!(f, Elu { .. } | Erf | Gelu(_) | ScaledTanh { .. } | Sigmoid | Silu | Softplus | Tanh);
        bent || matches!(f, Atan | Cos | Log { .. } | Log2 | Sin)
    };
    let made: HashMap<ValueId, &Op> =
        net.ops.iter().flat_map(|op| op.outputs.iter().map(move |&id| (id, op))).collect();
    let inverted = |op: &Op| match &op.kind {
        OpKind::Unary(Inverse { .. } | Rsqrt { .. }) | OpKind::Binary(Binary::Pow) => op.inputs.first().copied(),
        OpKind::Binary(Binary::Div) => op.inputs.get(1).copied(),
        _ => None,
    };
    net.ops.iter().filter_map(inverted).any(|mut id| {
        while let Some(op) = made.get(&id) {
            match &op.kind {
                OpKind::Unary(f) if tabled(f) => return true,
                OpKind::Unary(_) | OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Cast => {
                }
                _ => return false,
            }
            id = op.inputs[0];
        }
        false
    })
}

/// Returns true for a large error; infinities and NaN have other warnings.
fn is_far(got: f32, wanted: f32, admitted: f32) -> bool {
    got.is_finite() && wanted.is_finite() && (got - wanted).abs() > admitted
}

/// Largest finite magnitude. Magnitudes are compared as integers, which vectorizes.
pub(super) fn largest(data: &[f32]) -> f32 {
    let finite = |x: &f32| if x.is_finite() { x.abs().to_bits() } else { 0 };
    f32::from_bits(data.iter().map(finite).fold(0, u32::max))
}

/// The first value with a large error if every value is rounded to fp16.
fn first_loss(net: &Net, inputs: &[Tensor]) -> Option<String> {
    let mut values: HashMap<String, Vec<f32>> = HashMap::new();
    eval::eval_traced(net, inputs, &mut |name, tensor| drop(values.insert(name.into(), tensor.data.to_f32()))).ok()?;
    let mut found = None;
    let mut compare = |name: &str, rounded: &Tensor| {
        let Some(wanted) = values.get(name).filter(|_| found.is_none()) else { return };
        let admitted = if rounded.data.dtype().is_float() { FAR * largest(wanted) } else { 0.0 };
        if rounded.data.as_f32().iter().zip(wanted).any(|(x, y)| is_far(*x, *y, admitted)) {
            found = Some(name.to_string());
        }
    };
    eval::eval_rounded_traced(net, inputs, &mut compare).ok()?;
    found
}

/// Detection of reciprocals beyond fp16: a quotient of floats is computed as a product with the reciprocal of the divisor.
pub(super) struct Reciprocals<'a> {
    /// Quotients by the name of their divisor.
    quotients: HashMap<&'a str, &'a str>,
    found: Option<(String, f32)>,
    /// Quotients that a dropped NaN would come from.
    leading: HashSet<&'a str>,
    /// Those with a divisor whose reciprocal is infinite.
    watched: HashSet<&'a str>,
    dropped: Option<String>,
}

impl<'a> Reciprocals<'a> {
    /// Watches the quotients of a network; `drops` are the values that an operation which drops NaN computes or reads.
    pub(super) fn new(net: &'a Net, drops: &HashSet<&str>) -> Self {
        let divides = |op: &&Op| {
            op.kind == OpKind::Binary(Binary::Div) && op.inputs.iter().all(|&id| net.value(id).ty.dtype.is_float())
        };
        let name = |id: ValueId| net.value(id).name.as_str();
        let quotients: HashMap<&str, &str> =
            net.ops.iter().filter(divides).map(|op| (name(op.inputs[1]), name(op.outputs[0]))).collect();
        let leading = quotients.values().copied().filter(|quotient| leads(net, quotient, drops)).collect();
        let mut all = Reciprocals { quotients, found: None, leading, watched: HashSet::new(), dropped: None };
        let constants = net.values.iter().filter_map(|v| Some((v.name.as_str(), v.data.as_deref()?)));
        constants.for_each(|(name, tensor)| all.see(name, &tensor.data));
        all
    }

    /// Records a value.
    pub(super) fn see(&mut self, name: &str, data: &anemone_net::Data) {
        if self.dropped.is_none() && self.watched.contains(name) && data.as_f32().contains(&0.0) {
            self.dropped = Some(name.to_string());
        }
        let Some(&quotient) = self.quotients.get(name) else { return };
        let small = |x: &f32| *x != 0.0 && f16::from_f32(*x).to_f32().abs() <= LEAST_DIVISOR;
        let Some(x) = data.as_f32().iter().copied().find(small) else { return };
        self.found.get_or_insert_with(|| (quotient.to_string(), 1.0 / x));
        if self.leading.contains(quotient) {
            self.watched.insert(quotient);
        }
    }

    /// The first quotient with such a divisor, and the reciprocal.
    pub(super) fn found(self) -> Option<(String, f32)> {
        self.found
    }

    /// The first quotient whose NaN, zero times such a reciprocal, a later operation may drop.
    pub(super) fn dropped(&self) -> Option<Warning> {
        let message =
            "a divisor's reciprocal is infinite in fp16, and zero times it is NaN, which a later operation drops";
        self.dropped.as_ref().map(|name| warning("undefined", name, message.into()))
    }
}

/// Returns true if one of the values named `ends` depends on the value named `start`.
fn leads(net: &Net, start: &str, ends: &HashSet<&str>) -> bool {
    let mut reached: HashSet<ValueId> = HashSet::new();
    let name = |id: ValueId| net.value(id).name.as_str();
    net.ops.iter().any(|op| {
        let made = op.outputs.iter().any(|&id| name(id) == start);
        if made || op.inputs.iter().any(|id| reached.contains(id)) {
            reached.extend(&op.outputs);
        }
        op.outputs.iter().any(|&id| reached.contains(&id) && ends.contains(name(id)))
    })
}
