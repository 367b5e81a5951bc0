//! Fusion of quantization into one rounding, and of dequantization into the scale behind it: `clip(round(x / s) + z)` becomes an activation
//! of the layer that computes `x`, with `1 / s` in that layer's coefficients, and `(q - z) * s` goes into the same table.
//!
//! The engine computes in fp16, which represents every 8-bit integer: integers stay floats between quantization and its readers.
//! It does not represent every 16-bit integer: a 16-bit quantization that is undone at once keeps only its limits, since fp16 rounds
//! about as finely.

use super::{Builder, Names};
use crate::error::Result;
use crate::lut::Table;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, PoolKind, Tensor, Unary, Value, ValueId};
use std::collections::{HashMap, HashSet};

/// Depth limit of the search for the quantization that a value has been through, in operations.
const LONGEST_PATH: usize = 16;

/// Largest quotient that stays finite after being rounded up twice.
const LARGEST_QUOTIENT: f32 = 65440.0;

/// Replaces quantization spelled out as several operations by one rounding, and dequantization by the scale behind it.
pub fn recognize_quantization(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let graph = Graph::of(net);
    graph.bound_roundings(net, reasons);
    let mut found: Vec<Found> = (0..net.ops.len()).filter_map(|at| graph.find(net, at)).collect();
    for one in &mut found {
        one.undone = if net.outputs.contains(&one.result) { None } else { graph.undone(net, one) };
    }
    let mut names = Names::default();
    let mut replace: HashMap<ValueId, ValueId> = HashMap::new();
    let mut added: Vec<(usize, Op)> = Vec::new();
    let known: HashMap<ValueId, usize> = found.iter().enumerate().map(|(i, f)| (f.result, i)).collect();
    for one in &found {
        let name = net.ops[one.at].name.clone();
        let idle = one.undone.is_some() && graph.is_quantized(net, &found, &known, one, one.operand, LONGEST_PATH);
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name: name.clone() };
        match &one.undone {
            Some(undone) if idle => {
                reasons.say(|| format!("{name}: quantized already"));
                replace.extend(undone.results.iter().map(|&id| (id, one.operand)));
            }
            Some(undone) if !one.is_narrow() => {
                reasons.say(|| format!("{name}: fp16 rounds as finely as 16 bits; the limits stay"));
                let clip = Unary::Clip { min: one.min * undone.scale, max: one.max * undone.scale };
                let held = builder.like(one.operand, OpKind::Unary(clip), &[one.operand]);
                replace.extend(undone.results.iter().map(|&id| (id, held)));
            }
            undone if one.is_narrow() => {
                reasons.say(|| format!("{name}: quantization as one rounding"));
                let made = builder.quantize(one, undone.as_ref(), &mut replace);
                added.extend(builder.ops.drain(..).map(|op| (one.at, op)));
                // An output of the network stays the result of an operation.
                if graph.outputs.contains(&one.result) {
                    let op = &mut net.ops[one.at];
                    if op.kind != OpKind::Cast {
                        op.kind = OpKind::Unary(Unary::Identity);
                    }
                    op.inputs = vec![made];
                }
                continue;
            }
            _ => {
                if let Some((at, quotient)) = one.quotient
                    && let Some(limits) = one.limits_of_operand()
                {
                    reasons.say(|| format!("{name}: clamped to its range before the division"));
                    let clip = Unary::Clip { min: limits[0], max: limits[1] };
                    let held = builder.like(one.operand, OpKind::Unary(clip), &[one.operand]);
                    added.extend(builder.ops.drain(..).map(|op| (at, op)));
                    let inputs = net.ops[at].inputs.iter_mut();
                    inputs.filter(|id| **id == quotient).for_each(|id| *id = held);
                    continue;
                }
            }
        }
        added.extend(builder.ops.drain(..).map(|op| (one.at, op)));
    }
    super::insert_before(net, added);
    // Paths are shortened behind the search, so that long chains take linear time.
    let mut last = |first: ValueId| {
        let (mut end, mut id) = (first, first);
        while let Some(&next) = replace.get(&end) {
            end = next;
        }
        while let Some(next) = replace.get_mut(&id) {
            id = std::mem::replace(next, end);
        }
        end
    };
    for input in net.ops.iter_mut().flat_map(|op| &mut op.inputs) {
        *input = last(*input);
    }
    Ok(())
}

/// A quantization: `clip(round(operand / scale), min, max) + zero`.
struct Found {
    /// Position of its last operation.
    at: usize,
    result: ValueId,
    operand: ValueId,
    /// Factor of the operand, the reciprocal scale, per element or one for all; `None` for 1.
    factor: Option<Tensor>,
    zero: f32,
    min: f32,
    max: f32,
    undone: Option<Undone>,
    /// Position and operand of the division by the scale, if only the rounding reads it.
    quotient: Option<(usize, ValueId)>,
}

/// Dequantization by every reader: each subtracts the zero point and multiplies by one scale.
struct Undone {
    scale: f32,
    /// Results of those multiplications.
    results: Vec<ValueId>,
}

impl Found {
    /// Returns true if the limits are within the range of one rounding table.
    fn is_narrow(&self) -> bool {
        let [least, greatest] = Table::ROUNDED_RANGE;
        least <= self.min && self.max <= greatest
    }

    /// Least and greatest operand within the limits, if one scale applies to all elements. A quotient beyond fp16 would overflow to
    /// infinity before it is clamped; the last two steps below the overflow are given up.
    fn limits_of_operand(&self) -> Option<[f32; 2]> {
        let factor = uniform(&self.factor.as_ref()?.data.to_f32())?;
        let held = |limit: f32| limit.clamp(-LARGEST_QUOTIENT, LARGEST_QUOTIENT) / factor;
        Some([held(self.min), held(self.max)])
    }
}

/// Definitions and readers of values, by operation position.
struct Graph {
    makers: HashMap<ValueId, usize>,
    readers: HashMap<ValueId, Vec<usize>>,
    outputs: HashSet<ValueId>,
}

impl Graph {
    fn of(net: &Net) -> Graph {
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        let mut makers = HashMap::new();
        for (at, op) in net.ops.iter().enumerate() {
            makers.extend(op.outputs.iter().map(|&id| (id, at)));
            for &id in &op.inputs {
                readers.entry(id).or_default().push(at);
            }
        }
        Graph { makers, readers, outputs: net.outputs.iter().copied().collect() }
    }

    fn maker<'n>(&self, net: &'n Net, id: ValueId) -> Option<&'n Op> {
        net.ops.get(*self.makers.get(&id)?)
    }

    fn readers(&self, id: ValueId) -> &[usize] {
        self.readers.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Restricts roundings whose operands are clamped to a table's range before, or whose sums with a bounded addend are clamped after, to
    /// that range. Quantization with computed scale and zero point has this form.
    fn bound_roundings(&self, net: &mut Net, reasons: &mut Remarks) {
        let [least, greatest] = Table::ROUNDED_RANGE;
        for at in 0..net.ops.len() {
            let op = &net.ops[at];
            let (Some(&x), Some(&out)) = (op.inputs.first(), op.outputs.first()) else { continue };
            let exact = net.value(out).ty.dtype.is_float() && !self.outputs.contains(&out);
            if op.kind != OpKind::Unary(Unary::Round) || !exact {
                continue;
            }
            let before = match self.maker(net, x).map(|op| &op.kind) {
                Some(&OpKind::Unary(Unary::Clip { min, max })) if least <= min && min <= max && max <= greatest => {
                    Some((min.round_ties_even(), max.round_ties_even()))
                }
                _ => None,
            };
            let behind =
                !self.readers(out).is_empty() && self.readers(out).iter().all(|&r| self.clips_bytes(net, out, r));
            let Some((min, max)) = before.or(behind.then_some((least, greatest))) else { continue };
            reasons.say(|| format!("{}: rounding within {min} to {max}", net.ops[at].name));
            net.ops[at].kind = OpKind::Unary(Unary::RoundClip { min, max });
        }
    }

    /// Returns true if an operation adds an 8-bit integer computed at run time, and every reader of the sum clips it to 8
    /// bits: numbers beyond a table's range are then beyond these limits too.
    fn clips_bytes(&self, net: &Net, rounded: ValueId, at: usize) -> bool {
        let op = &net.ops[at];
        let (Some(&sum), true) = (op.outputs.first(), op.kind == OpKind::Binary(Binary::Add)) else { return false };
        let other = op.inputs.iter().find(|&&id| id != rounded);
        let byte = other.is_some_and(|&id| matches!(net.value(id).ty.dtype, DType::U8 | DType::I8));
        let clips = |&r: &usize| match net.ops[r].kind {
            OpKind::Unary(Unary::Clip { min, max }) => -256.0 < min && max < 256.0,
            _ => false,
        };
        let readers = self.readers(sum);
        byte && !self.outputs.contains(&sum) && !readers.is_empty() && readers.iter().all(clips)
    }

    /// The quantization that ends with the operation at this position.
    fn find(&self, net: &Net, at: usize) -> Option<Found> {
        let op = &net.ops[at];
        let &result = op.outputs.first()?;
        let ends = match op.kind {
            OpKind::Cast => net.value(result).ty.dtype.narrow_range().is_some(),
            // The quantization ends with a following conversion or second clip, if there is one.
            OpKind::Unary(Unary::Clip { .. }) => !self.readers(result).iter().any(|&r| self.narrows(net, r)),
            _ => false,
        };
        let narrow = matches!(op.kind, OpKind::Cast).then(|| net.value(result).ty.dtype.narrow_range()).flatten();
        if !ends {
            return None;
        }
        let (mut min, mut max) =
            narrow.map_or((f32::NEG_INFINITY, f32::INFINITY), |(min, max)| (min as f32, max as f32));
        let mut id = if narrow.is_some() { *op.inputs.first()? } else { result };
        while let Some(Op { kind: OpKind::Unary(Unary::Clip { min: low, max: high }), inputs, .. }) =
            self.maker(net, id)
        {
            (min, max) = (min.max(*low), max.min(*high));
            id = *inputs.first()?;
        }
        let mut zero = 0.0;
        if let Some((added, number)) = self.with_number(net, id, Binary::Add) {
            (id, zero) = (added, number);
        }
        let round = self.maker(net, id).filter(|op| op.kind == OpKind::Unary(Unary::Round))?;
        let whole = [zero, min, max].iter().all(|x| x.is_finite() && x.fract() == 0.0);
        if !whole || min > max {
            return None;
        }
        let scaled = *round.inputs.first()?;
        let (operand, factor) = self.factor(net, scaled).map_or((scaled, None), |(x, t)| (x, Some(t)));
        let alone = self.readers(scaled).len() == 1 && !self.outputs.contains(&scaled);
        let quotient = self.makers.get(&scaled).filter(|_| alone && factor.is_some()).map(|&at| (at, operand));
        let (min, max) = (min - zero, max - zero);
        let mut found = Found { at, result, operand, factor, zero, min, max, undone: None, quotient };
        self.take_limits(net, &mut found);
        (found.min <= found.max).then_some(found)
    }

    /// Returns true for a clip, or a conversion to an integer of up to 16 bits.
    fn narrows(&self, net: &Net, at: usize) -> bool {
        let op = &net.ops[at];
        if matches!(op.kind, OpKind::Unary(Unary::Clip { .. })) {
            return true;
        }
        op.kind == OpKind::Cast && op.outputs.iter().any(|&o| net.value(o).ty.dtype.narrow_range().is_some())
    }

    /// The live operand and the single constant of a binary operation.
    fn with_number(&self, net: &Net, id: ValueId, wanted: Binary) -> Option<(ValueId, f32)> {
        let op = self.maker(net, id).filter(|op| op.kind == OpKind::Binary(wanted))?;
        let (&x, &y) = (op.inputs.first()?, op.inputs.get(1)?);
        match (number(net, x), number(net, y)) {
            (None, Some(c)) => Some((x, c)),
            (Some(c), None) if wanted != Binary::Sub => Some((y, c)),
            _ => None,
        }
    }

    /// The operand and the factors of a multiplication or division by constants.
    fn factor(&self, net: &Net, id: ValueId) -> Option<(ValueId, Tensor)> {
        let op = self.maker(net, id)?;
        let (&x, &y) = (op.inputs.first()?, op.inputs.get(1)?);
        let constant = |id: ValueId| net.value(id).data.clone();
        let (x, tensor, divides) = match op.kind {
            OpKind::Binary(Binary::Div) => (x, constant(y)?, true),
            OpKind::Binary(Binary::Mul) => match (constant(x), constant(y)) {
                (None, Some(t)) => (x, t, false),
                (Some(t), None) => (y, t, false),
                _ => return None,
            },
            _ => return None,
        };
        let (own, shape) = (&net.value(x).ty.shape, &net.value(*op.outputs.first()?).ty.shape);
        let data: Vec<f32> = tensor.data.to_f32().iter().map(|c| if divides { 1.0 / c } else { *c }).collect();
        let sound = own == shape && constant(x).is_none() && data.iter().all(|c| c.is_finite() && *c > 0.0);
        sound.then(|| (x, Tensor { shape: tensor.shape.clone(), data: Data::F32(data) }))
    }

    /// Moves a ReLU or clip of the operand into the limits: rounding is monotonic.
    fn take_limits(&self, net: &Net, found: &mut Found) {
        let factor = match &found.factor {
            None => 1.0,
            Some(t) => match uniform(&t.data.to_f32()) {
                Some(c) => c,
                None => return,
            },
        };
        while let Some(Op { kind: OpKind::Unary(f), inputs, .. }) = self.maker(net, found.operand) {
            let (low, high) = match *f {
                Unary::Relu => (0.0, f32::INFINITY),
                Unary::Relu6 => (0.0, 6.0),
                Unary::Clip { min, max } if min <= max => (min, max),
                _ => return,
            };
            let Some(&operand) = inputs.first() else { return };
            found.min = found.min.max((low * factor).round_ties_even());
            found.max = found.max.min((high * factor).round_ties_even());
            found.operand = operand;
        }
    }

    /// Scale and products, if every reader subtracts the zero point and multiplies by one and the same scale.
    fn undone(&self, net: &Net, found: &Found) -> Option<Undone> {
        let mut centred = Vec::new();
        if found.zero == 0.0 {
            centred.push(found.result);
        }
        for &reader in self.readers(found.result) {
            let &out = net.ops[reader].outputs.first()?;
            match self.with_number(net, out, Binary::Sub) {
                Some((x, zero)) if x == found.result && zero == found.zero => centred.push(out),
                _ if found.zero == 0.0 => {}
                _ => return None,
            }
        }
        let mut scale = None;
        let mut results = Vec::new();
        for &id in &centred {
            let multiplied = self.readers(id).iter().filter(|&&r| id != found.result || !self.subtracts_zero(net, r));
            for &reader in multiplied {
                let &out = net.ops[reader].outputs.first()?;
                let (_, own) = self.with_number(net, out, Binary::Mul).filter(|(x, _)| *x == id)?;
                if *scale.get_or_insert(own) != own || own <= 0.0 || self.outputs.contains(&out) {
                    return None;
                }
                results.push(out);
            }
            if self.outputs.contains(&id) {
                return None;
            }
        }
        Some(Undone { scale: scale?, results })
    }

    fn subtracts_zero(&self, net: &Net, at: usize) -> bool {
        let out = net.ops[at].outputs.first();
        out.is_some_and(|&out| matches!(self.with_number(net, out, Binary::Sub), Some((_, 0.0))))
    }

    /// Returns true if a value has already been quantized with this scale and within these limits, and only moved since.
    fn is_quantized(
        &self,
        net: &Net,
        all: &[Found],
        known: &HashMap<ValueId, usize>,
        found: &Found,
        id: ValueId,
        depth: usize,
    ) -> bool {
        let Some(op) = self.maker(net, id).filter(|_| depth > 0) else { return false };
        let moved = matches!(
            &op.kind,
            OpKind::Reshape
                | OpKind::Transpose { .. }
                | OpKind::Slice { .. }
                | OpKind::Broadcast
                | OpKind::Concat { .. }
                | OpKind::Pool { kind: PoolKind::Max, .. }
        );
        if moved {
            return op.inputs.iter().all(|&x| self.is_quantized(net, all, known, found, x, depth - 1));
        }
        let Some((centred, scale)) = self.with_number(net, id, Binary::Mul) else { return false };
        let result = match self.with_number(net, centred, Binary::Sub) {
            Some((x, _)) if !known.contains_key(&centred) => x,
            _ => centred,
        };
        let Some(before) = known.get(&result).and_then(|&i| all.get(i)) else { return false };
        let same = |undone: &Undone| undone.scale == scale;
        before.undone.as_ref().is_some_and(same)
            && found.undone.as_ref().is_some_and(same)
            && found.min <= before.min
            && before.max <= found.max
            && found.factor.as_ref().and_then(|t| uniform(&t.data.to_f32())).is_some_and(|c| near(c * scale, 1.0))
    }
}

impl Builder<'_> {
    /// Puts the quantization in place; readers of its result read that of the rounding, which is returned.
    fn quantize(&mut self, found: &Found, undone: Option<&Undone>, replace: &mut HashMap<ValueId, ValueId>) -> ValueId {
        let mut id = found.operand;
        if let Some(factor) = &found.factor {
            let factor = self.constant_of("reciprocal", factor.clone());
            id = self.like(found.operand, OpKind::Binary(Binary::Mul), &[id, factor]);
        }
        let rounding = Unary::RoundClip { min: found.min, max: found.max };
        id = self.like(found.operand, OpKind::Unary(rounding), &[id]);
        if let Some(undone) = undone {
            let scale = self.constant("scale", vec![1], vec![undone.scale]);
            id = self.like(found.operand, OpKind::Binary(Binary::Mul), &[id, scale]);
            replace.extend(undone.results.iter().map(|&result| (result, id)));
            return id;
        }
        if found.zero != 0.0 {
            let zero = self.constant("zero", vec![1], vec![found.zero]);
            id = self.like(found.operand, OpKind::Binary(Binary::Add), &[id, zero]);
        }
        replace.insert(found.result, id);
        id
    }

    /// Appends an operation with a float result that has the extents of `like`.
    fn like(&mut self, like: ValueId, kind: OpKind, inputs: &[ValueId]) -> ValueId {
        let ty = anemone_net::TensorType { dtype: DType::F16, shape: self.shape(like) };
        let name = self.fresh(kind.name());
        let output = self.net.add_value(Value { name, ty, data: None, surface: None });
        self.push(kind, inputs, output);
        output
    }
}

/// The value of a constant whose elements are all equal.
fn number(net: &Net, id: ValueId) -> Option<f32> {
    uniform(&net.value(id).data.as_ref()?.data.to_f32())
}

fn uniform(data: &[f32]) -> Option<f32> {
    let &first = data.first()?;
    data.iter().all(|&x| x == first).then_some(first)
}

/// Returns true if two numbers are equal except for the rounding of a reciprocal.
fn near(x: f32, y: f32) -> bool {
    (x - y).abs() <= 1e-5 * y
}
