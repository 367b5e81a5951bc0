//! Scaling of products whose terms are small beside the resolution of the arrays, by powers of two. Ours.
//!
//! The arrays add in units of 2^-16 and overflow at 2^15 ([docs/numerics.md](../../../../docs/numerics.md#mac)). Weights of 0.02 and
//! operands of 0.02 make terms that keep four digits. The weights times a power of two, and the layer's gain divided by it, keep the
//! others. No scaled sum overflows where a bound is proven for all inputs. Where the bounds of a chain of layers grow while its values
//! shrink, none overflows unless the operand is [`SPARE`] powers of two beyond its usual size; products of few rows before an output, such
//! as classifiers, are computed with and without a scale. Operands without any bound are scaled by their usual size behind products alone, and
//! where a constant later multiplies the result.

use super::magnitudes::{Magnitude, magnitudes, terms_of, times};
use super::{Builder, Names};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, Tensor, Unary, Value, ValueId, compress};
use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Binary exponent that the usual term of a product should have: ten digits above the resolution.
const USUAL_TERM: i32 = -6;

/// Binary exponent of the largest scaled sum: half of that at which an array overflows.
const MOST_SUM: i32 = 14;

/// Powers of two that an operand whose bound is of no use may grow beyond its usual size, all terms of a sum having one sign.
const SPARE: i32 = 10;

/// Binary exponent of the largest scale, whose inverse fp16 represents with all digits.
const MOST_SCALE: i32 = 14;

/// Binary exponent of the largest scale of an operand of which only the usual size is known: sums below 2^7 never overflow.
const MOST_UNPROVEN: i32 = 8;

/// Largest finite fp16 number, which bounds operands of which nothing else is known.
const LARGEST: f32 = 65504.0;

/// Binary exponent of the least scale that is worth a gain.
const LEAST_GROWTH: i32 = 2;

/// Largest number of rows of a product that is computed twice.
const FEW_ROWS: usize = 4;

/// Least growth, beyond that of a product which is computed once, for which it is computed twice.
const LEAST_TWICE: i32 = 4;

/// Binary exponent of the largest scale of a product that is computed twice: scaled sums overflow from 2^9 on, where
/// [`TERM_ERROR`] of the most [`TERMS`] is half of the distance of fp16 numbers.
const MOST_TWICE: i32 = 6;

/// Largest error of a term: a product is dropped if the sum of its operands' exponents is below -16.
const TERM_ERROR: f32 = 1.0 / 32768.0;

/// Numbers of terms of a product that is computed twice: as a classifier has. Fewer terms lose less.
const TERMS: RangeInclusive<usize> = 64..=8192;

/// Multiplies weights of products with small terms by powers of two, and the results by their inverses. Results that only other
/// products read stay scaled, so that terms of those grow too.
pub fn scale_small_terms(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let known = magnitudes(net);
    let mut demands = demands(net, &known);
    let mut scales = vec![0i32; net.values.len()];
    let mut direct = before_outputs(net);
    let mut behind = behind_products(net);
    let mut grown = Grown { uses: net.read_counts(), made: HashMap::new(), later: HashMap::new() };
    let ops = std::mem::take(&mut net.ops);
    let mut names = Names::default();
    let mut made = Vec::with_capacity(ops.len());
    for mut op in ops {
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
        let of = |i: usize| op.inputs.get(i).map_or(0, |id| scales[id.0 as usize]);
        let (&out, before) = (&op.outputs[0], of(0));
        let demand = demands[out.0 as usize];
        let scale = match &op.kind {
            kind if weighs(kind) && is_constant(builder.net, &op) => {
                let free = free(builder.net, &op, &known, behind[op.inputs[0].0 as usize]);
                if before == 0 && direct[out.0 as usize] && twice(&mut builder, &op, &known, free).is_some() {
                    reasons.say(|| {
                        format!("{}: also computed with scaled terms, within the error of plain ones", op.name)
                    });
                    made.extend(builder.ops);
                    direct.resize(net.values.len(), false);
                    behind.resize(net.values.len(), false);
                    scales.resize(net.values.len(), 0);
                    demands.resize(net.values.len(), Demand::NONE);
                    continue;
                }
                product(&mut builder, &mut op, &known, (before, free), demand, &mut grown)
            }
            OpKind::MatMul { .. } => before + of(1),
            kind if moves(kind) => before,
            _ => 0,
        };
        if scale <= demand.most {
            scales[out.0 as usize] = scale;
            builder.ops.push(op);
        } else {
            reasons.say(|| format!("{}: terms times 2^{scale}, the result divided by it", op.name));
            let ty = builder.net.value(out).ty.clone();
            let name = builder.fresh("scaled");
            let scaled = builder.net.add_value(Value { name, ty, data: None, surface: None });
            op.outputs[0] = scaled;
            builder.ops.push(op);
            let data = Data::from_f32(builder.net.value(out).ty.dtype, &[power(-scale)]);
            let inverse = builder.constant_of("unscale", Tensor { shape: vec![], data });
            builder.push(OpKind::Binary(Binary::Mul), &[scaled, inverse], out);
        }
        made.extend(builder.ops);
        direct.resize(net.values.len(), false);
        behind.resize(net.values.len(), false);
        scales.resize(net.values.len(), 0);
        demands.resize(net.values.len(), Demand::NONE);
    }
    net.ops = made;
    grown.finish(net);
    Ok(())
}

fn power(exponent: i32) -> f32 {
    (exponent as f32).exp2()
}

/// Largest power of two that a magnitude can be multiplied by and stay at most two to `most`.
fn capacity(most: i32, magnitude: f32) -> i32 {
    if magnitude > 0.0 { (most as f32 - magnitude.log2()).floor().clamp(-126.0, 126.0) as i32 } else { 126 }
}

/// Powers of two that bring a term to [`USUAL_TERM`].
fn growth(term: f32) -> i32 {
    if term > 0.0 && term.is_finite() { (USUAL_TERM - term.log2().floor() as i32).clamp(0, 126) } else { 0 }
}

/// Returns true for a product of floats with constant weights and a constant addend, or none.
fn is_constant(net: &Net, op: &Op) -> bool {
    let constants = op.inputs.iter().skip(1).all(|&id| net.value(id).data.is_some());
    constants && op.inputs.iter().all(|&id| net.value(id).ty.dtype.is_float())
}

/// Returns true for products of an operand with weights.
fn weighs(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Linear | OpKind::Conv { .. } | OpKind::ConvTranspose { .. })
}

/// Returns true for operations of one operand whose result has the operand's scale.
fn moves(kind: &OpKind) -> bool {
    let linear = matches!(
        kind,
        OpKind::Unary(Unary::Identity | Unary::Relu | Unary::LeakyRelu { .. } | Unary::Abs | Unary::Neg)
    );
    linear || matches!(kind, OpKind::Reshape | OpKind::Broadcast | OpKind::Transpose { .. } | OpKind::Slice { .. })
}

/// Marks values from which only elementwise operations and softmax lead to an output.
fn before_outputs(net: &Net) -> Vec<bool> {
    let mut direct = vec![false; net.values.len()];
    net.outputs.iter().for_each(|id| direct[id.0 as usize] = true);
    for op in net.ops.iter().rev() {
        let each = moves(&op.kind)
            || matches!(op.kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Select | OpKind::Softmax { .. });
        if each && direct[op.outputs[0].0 as usize] {
            op.inputs.iter().for_each(|id| direct[id.0 as usize] = true);
        }
    }
    direct
}

/// Demand of the readers of a value.
#[derive(Clone, Copy, Debug)]
struct Demand {
    /// Largest scale that every reader passes on without an overflow; zero if one does not pass scales on.
    most: i32,
    /// Scale that brings the terms of the readers to their usual size.
    wanted: i32,
    /// Powers of two that every reader multiplies the value by, but one, before anything else: the sums may be as much larger.
    gain: i32,
    /// Largest scale by which a reader's constant factor can be divided without becoming subnormal in fp16; the quotient is one gain.
    divides: i32,
}

impl Demand {
    const NONE: Demand = Demand { most: 0, wanted: 0, gain: 0, divides: MOST_SCALE };

    fn of(most: i32, wanted: i32) -> Demand {
        Demand { most, wanted, ..Demand::NONE }
    }
}

/// Demand of a multiplication by a constant: products of sums with it are finite in fp16 unless the sums exceed half of the range of the
/// arrays.
fn factor(net: &Net, op: &Op) -> Demand {
    let constants = op.inputs.iter().filter_map(|&id| net.value(id).data.as_ref());
    let least =
        |tensor: &std::sync::Arc<Tensor>| tensor.data.to_f32().iter().fold(f32::INFINITY, |a, x| a.min(x.abs()));
    let Some(factor) = constants.map(least).reduce(f32::max).filter(|f| f.is_finite() && *f > 0.0) else {
        return Demand::NONE;
    };
    let power = factor.log2().floor() as i32;
    let divides = (MOST_SCALE + power).clamp(0, MOST_SCALE);
    Demand { gain: (power - 1).clamp(0, MOST_SCALE), divides, ..Demand::NONE }
}

/// Demand of the readers of each value.
fn demands(net: &Net, known: &[Magnitude]) -> Vec<Demand> {
    let of = |id: ValueId| known[id.0 as usize];
    let mut demands =
        vec![Demand { most: MOST_SCALE, wanted: 0, gain: MOST_SCALE, divides: MOST_SCALE }; net.values.len()];
    let kept = net.outputs.iter().chain(net.states.iter().map(|s| &s.output));
    kept.for_each(|id| demands[id.0 as usize] = Demand::NONE);
    for op in net.ops.iter().rev() {
        let asks = match &op.kind {
            kind if weighs(kind) && is_constant(net, op) => {
                vec![Demand::of(capacity(MOST_SUM, sums(net, op, known)), 0)]
            }
            OpKind::MatMul { .. } => {
                let (x, y) = (of(op.inputs[0]), of(op.inputs[1]));
                let most = capacity(MOST_SUM, of(op.outputs[0]).most).clamp(0, MOST_SCALE);
                let wanted = growth(times(x.usual, y.usual));
                // Attention weights are not results of products, and do not grow.
                match x.row <= 1.0 {
                    true => vec![Demand::NONE, Demand::of(most, wanted)],
                    false => vec![Demand::of(most / 2, (wanted + 1) / 2); 2],
                }
            }
            kind if moves(kind) => vec![demands[op.outputs[0].0 as usize]],
            OpKind::Binary(Binary::Mul) => vec![factor(net, op); 2],
            _ => Vec::new(),
        };
        for (i, id) in op.inputs.iter().enumerate() {
            let asked = asks.get(i).copied().unwrap_or(Demand::NONE);
            let all = &mut demands[id.0 as usize];
            *all = Demand {
                most: asked.most.min(all.most).max(0),
                wanted: asked.wanted.max(all.wanted),
                gain: asked.gain.min(all.gain),
                divides: asked.divides.min(all.divides),
            };
        }
    }
    demands
}

/// Bound of the sum of magnitudes of the terms of each result of a product with constant weights, and of its addend.
fn sums(net: &Net, op: &Op, known: &[Magnitude]) -> f32 {
    bounded(net, op, known, f32::INFINITY)
}

/// The same for operands of at most this magnitude.
fn bounded(net: &Net, op: &Op, known: &[Magnitude], most: f32) -> f32 {
    let sum = sum_of(net, op, known, |x| x.most.min(most));
    sum.map_or(f32::INFINITY, |(sum, bias)| sum.min(known[op.outputs[0].0 as usize].most) + bias)
}

/// The same for usual elements of the operand.
fn usual_sums(net: &Net, op: &Op, known: &[Magnitude]) -> f32 {
    sum_of(net, op, known, |x| x.usual).map_or(f32::INFINITY, |(sum, bias)| sum + bias)
}

/// The sum of the magnitudes of terms with operands of the given size, and that of the addend; `None` without constant weights.
fn sum_of(net: &Net, op: &Op, known: &[Magnitude], size: impl Fn(Magnitude) -> f32) -> Option<(f32, f32)> {
    let terms = terms_of(net, op)?;
    let of = |i: usize| op.inputs.get(i).map_or(Magnitude::ZERO, |id| known[id.0 as usize]);
    let row = match op.kind {
        OpKind::ConvTranspose { .. } => of(1).most * terms as f32,
        _ => of(1).row,
    };
    Some((times(size(of(0)), row), of(2).most))
}

/// Powers of two by which the sums of a product with constant weights may grow. `behind`: other products compute its operand.
fn free(net: &Net, op: &Op, known: &[Magnitude], behind: bool) -> i32 {
    let proven = capacity(MOST_SUM, bounded(net, op, known, LARGEST));
    let usual = capacity(MOST_SUM - SPARE, usual_sums(net, op, known));
    match known[op.inputs[0].0 as usize].most.is_finite() {
        true => proven.max(usual),
        // The size of a network's input is a guess. Trained weights have adapted the results of products to a usual size.
        false if behind => proven.max(usual.min(MOST_UNPROVEN)),
        false => proven,
    }
}

/// Marks values that products with constant weights compute, and what follows from those.
fn behind_products(net: &Net) -> Vec<bool> {
    let mut behind = vec![false; net.values.len()];
    for op in &net.ops {
        let product = weighs(&op.kind) && is_constant(net, op);
        if product || op.inputs.iter().any(|id| behind[id.0 as usize]) {
            op.outputs.iter().for_each(|id| behind[id.0 as usize] = true);
        }
    }
    behind
}

/// Weights times powers of two.
struct Grown {
    /// Reads of each value of the given network, less those of replaced weights.
    uses: Vec<usize>,
    /// By the constant and the exponent; `None` where there are none in its form.
    made: HashMap<(ValueId, i32), Option<ValueId>>,
    /// Constants that hold the given weights until [`Grown::finish`] multiplies them.
    later: HashMap<usize, i32>,
}

impl Grown {
    /// The weights of a product times a power of two in place of the given ones, which lose their elements with their last reader.
    fn replace(&mut self, b: &mut Builder, id: &mut ValueId, exponent: i32) -> bool {
        let weights = b.net.value(*id).data.clone();
        let mut constant = || {
            let weights = weights.as_ref()?;
            if compress::is_compressed(&weights.data) {
                return grown(weights, exponent).map(|tensor| b.constant_of("weight", tensor));
            }
            let made = b.shared_constant("weight", weights.clone());
            self.later.insert(made.0 as usize, exponent);
            Some(made)
        };
        let Some(made) = *self.made.entry((*id, exponent)).or_insert_with(&mut constant) else { return false };
        let given = id.0 as usize;
        self.uses[given] -= 1;
        if self.uses[given] == 0 {
            b.net.values[given].data = None;
        }
        *id = made;
        true
    }

    /// Multiplies the weights that are not compressed, each on one of several threads. No pass behind this one computes with them, so
    /// they become the fp16 numbers of the streams.
    fn finish(self, net: &mut Net) {
        net.values.par_iter_mut().enumerate().for_each(|(id, value)| {
            if let (Some(weights), Some(&exponent)) = (&value.data, self.later.get(&id)) {
                let factor = power(exponent);
                let data = Data::F16(weights.data.mapped_to_f16(|w| w * factor));
                value.ty.dtype = DType::F16;
                value.data = Some(Arc::new(Tensor { shape: weights.shape.clone(), data }));
            }
        });
    }
}

/// Scales a product with constant weights, of an operand with scale `before`, by at most the power of two `free`; returns the scale
/// of its result.
fn product(
    b: &mut Builder,
    op: &mut Op,
    known: &[Magnitude],
    (before, free): (i32, i32),
    demand: Demand,
    made: &mut Grown,
) -> i32 {
    let [operand, factor] = [0, 1].map(|i| known[op.inputs[i].0 as usize]);
    let term = operand.least * factor.usual * power(before);
    let asked = if demand.most > 0 { demand.wanted.min(demand.most) - before } else { 0 };
    let most = free.max(demand.gain).min(demand.divides) - before;
    let own = growth(term).max(asked).min(most).min(capacity(MOST_SUM, factor.most));
    let scaled = own >= LEAST_GROWTH && made.replace(b, &mut op.inputs[1], own);
    let own = if scaled { own } else { 0 };
    let scale = before + own;
    if let Some(bias) = op.inputs.get(2).and_then(|&id| b.net.value(id).data.clone()).filter(|_| scale > 0) {
        let scaled = bias.data.to_f32().iter().map(|c| c * power(scale)).collect();
        op.inputs[2] = b.constant("bias", bias.shape.clone(), scaled);
    }
    scale
}

/// Computes a product of few rows with an unbounded operand and small terms twice, with plain and with scaled weights. The scaled result
/// replaces the plain one within the largest error that its dropped terms cause: a scaled sum that overflows changes nothing else.
/// Returns `None` for other products.
fn twice(b: &mut Builder, op: &Op, known: &[Magnitude], free: i32) -> Option<()> {
    let (x, out) = (op.inputs[0], op.outputs[0]);
    let weights = b.net.value(op.inputs[1]).data.clone()?;
    let channels = *weights.shape.first().filter(|_| !matches!(op.kind, OpKind::ConvTranspose { .. }))?;
    let terms = terms_of(b.net, op)?;
    let ty = b.net.value(out).ty.clone();
    // The size of a network's input is only a guess.
    let few = ty.elements() <= FEW_ROWS * channels && TERMS.contains(&terms) && !b.net.inputs.contains(&x);
    let own = growth(known[x.0 as usize].usual * known[op.inputs[1].0 as usize].usual).min(MOST_TWICE);
    if !few || own - free.max(0) < LEAST_TWICE {
        return None;
    }
    let mut scaled = op.clone();
    let grown = grown(&weights, own)?;
    scaled.inputs[1] = b.constant_of("weight", grown);
    if let Some(bias) = op.inputs.get(2).and_then(|&id| b.net.value(id).data.clone()) {
        let grown = bias.data.to_f32().iter().map(|c| c * power(own)).collect();
        scaled.inputs[2] = b.constant("bias", bias.shape.clone(), grown);
    }
    let value = |b: &mut Builder, name: &str| {
        let name = b.fresh(name);
        b.net.add_value(Value { name, ty: ty.clone(), data: None, surface: None })
    };
    let number = |b: &mut Builder, name: &str, number: f32| {
        b.constant_of(name, Tensor { shape: vec![], data: Data::from_f32(ty.dtype, &[number]) })
    };
    let [plain, large, fine, above, less, below] =
        ["plain", "scaled", "fine", "above", "less", "below"].map(|name| value(b, name));
    let (inverse, error) = (number(b, "unscale", power(-own)), number(b, "error", (terms + 1) as f32 * TERM_ERROR));
    b.ops.push(Op { outputs: vec![plain], ..op.clone() });
    b.ops.push(Op { outputs: vec![large], ..scaled });
    b.push(OpKind::Binary(Binary::Mul), &[large, inverse], fine);
    b.push(OpKind::Binary(Binary::Add), &[plain, error], above);
    b.push(OpKind::Binary(Binary::Min), &[fine, above], less);
    b.push(OpKind::Binary(Binary::Sub), &[plain, error], below);
    b.push(OpKind::Binary(Binary::Max), &[less, below], out);
    Some(())
}

/// Weights times a power of two, in the same form; `None` for compressed weights that would not stay compressed.
fn grown(weights: &Tensor, exponent: i32) -> Option<Tensor> {
    if let Some(made) = compress::scaled(weights, power(exponent)) {
        return Some(made);
    }
    let made = compress::recompressed(times_power(weights, exponent), [weights]);
    (compress::is_compressed(&made.data) || !compress::is_compressed(&weights.data)).then_some(made)
}

/// The weights times a power of two, dense.
fn times_power(weights: &Tensor, exponent: i32) -> Tensor {
    let factor = power(exponent);
    Tensor { shape: weights.shape.clone(), data: weights.data.mapped(|w| w * factor) }
}
