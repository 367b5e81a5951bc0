//! Absorption of per-column factors and addends into the weights of the products that read them, so that the gain and offset behind a
//! normalization cost nothing, and of factors of channels into those of convolutions. Numbers move behind products of two computed matrices. Ours; [`super::affines`] absorbs them into the convolution before them.

use super::affines::{affine, per_channel};
use super::scalars::behind_products;
use super::{Builder, Names, remove, stays_finite, stays_normal, stays_precise};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, Op, OpKind, PoolKind, ReduceKind, Tensor, Unary, ValueId, compress};
use std::collections::{HashMap, HashSet};

/// `linear(x * g + b, w, c)` becomes `linear(x, w * g, w · b + c)` if only products read the affine. Compressed weights absorb no factors,
/// since they would not stay compressed. An addend stays if `x` is exact: a separate sum of close numbers with opposite signs is exact,
/// whereas behind a product both would have been rounded. An affine also stays if its constants overflow fp16. Convolutions absorb factors
/// alike.
pub fn forward_affines(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    // 9.509 computes the factor by itself (`chain_pair_mul_mm_d256_s64`).
    if !options.conventions().affines_forwarded {
        return Ok(());
    }
    if options.conventions().whole_epilogues {
        behind_products(net, reasons)?;
    }
    let mut names = Names::default();
    let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate() {
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(at));
    }
    let made: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut gone = HashSet::new();
    // In reverse order, so that an offset is absorbed before its gain is inspected.
    for at in (0..net.ops.len()).rev() {
        let out = net.ops[at].outputs[0];
        let products = readers.get(&out).cloned().unwrap_or_default();
        let convolves = products.iter().any(|&i| matches!(net.ops[i].kind, OpKind::Conv { .. }));
        let Some((f, x, values)) = each(net, at, convolves) else { continue };
        if convolves && (!options.conventions().whole_epilogues || values_alike(&values) && has_gain(net, &made, x)) {
            continue;
        }
        let all = !products.is_empty() && products.iter().all(|&i| takes(net, i, out, f, convolves));
        if !all || net.outputs.contains(&out) || f != Binary::Mul && !is_rounded(net, x) {
            continue;
        }
        let parts = products.iter().map(|&i| match convolves {
            true => scaled_inputs(net, i, &values).map(Part::Weights),
            false => absorbed(net, i, f, &values),
        });
        let Some(parts) = parts.collect::<Option<Vec<_>>>() else { continue };
        for (&product, part) in products.iter().zip(parts) {
            absorb(net, &mut names, product, part);
            net.ops[product].inputs[0] = x;
        }
        reasons.say(|| format!("{} becomes part of the {} products that read it", net.ops[at].name, products.len()));
        let others = readers.entry(x).or_default();
        others.retain(|&reader| reader != at);
        others.extend(products);
        gone.insert(at);
    }
    remove(net, &gone);
    Ok(())
}

/// Returns true for a value that has been rounded to fp16: not an input of the network, an operation that only moves or selects
/// elements of inputs, or an integer from comparisons, such as the position of a maximum.
fn is_rounded(net: &Net, x: ValueId) -> bool {
    let made: HashMap<ValueId, &Op> = net.ops.iter().map(|op| (op.outputs[0], op)).collect();
    let mut pending = vec![x];
    while let Some(id) = pending.pop() {
        let Some(op) = made.get(&id) else { continue };
        match op.kind {
            OpKind::Binary(f) if f.is_comparison() => {}
            OpKind::ArgReduce { .. } | OpKind::Unary(Unary::Sign | Unary::Ceil | Unary::Floor | Unary::Round) => {}
            // A number or zero, selected by a truth value.
            OpKind::Binary(Binary::Mul) if op.inputs.iter().any(|id| is_truth(&made, *id)) => {
                pending.extend(&op.inputs)
            }
            OpKind::Reshape
            | OpKind::Broadcast
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::Concat { .. }
            | OpKind::Select
            | OpKind::Gather { .. }
            | OpKind::GatherAlong { .. }
            | OpKind::Pad { .. }
            | OpKind::PadEdge { .. }
            | OpKind::Cast
            | OpKind::Pool { kind: PoolKind::Max, .. }
            | OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min, .. }
            | OpKind::Binary(Binary::Max | Binary::Min)
            | OpKind::Unary(
                Unary::Identity | Unary::Relu | Unary::Relu6 | Unary::Abs | Unary::Neg | Unary::Clip { .. },
            ) => {
                pending.extend(&op.inputs);
            }
            _ => return true,
        }
    }
    false
}

/// Returns true for the result of a comparison.
fn is_truth(made: &HashMap<ValueId, &Op>, id: ValueId) -> bool {
    made.get(&id).is_some_and(|op| matches!(op.kind, OpKind::Binary(f) if f.is_comparison()))
}

/// Returns true for one number, repeated for each channel.
fn values_alike(values: &[f32]) -> bool {
    values.windows(2).all(|pair| pair[0] == pair[1])
}

/// Returns true for the result of a layer whose gain may hold a factor.
fn has_gain(net: &Net, made: &HashMap<ValueId, usize>, x: ValueId) -> bool {
    let kind = made.get(&x).map(|&at| &net.ops[at].kind);
    matches!(
        kind,
        Some(
            OpKind::Conv { .. }
                | OpKind::ConvTranspose { .. }
                | OpKind::Linear
                | OpKind::MatMul { .. }
                | OpKind::Binary(_)
                | OpKind::Unary(_)
                | OpKind::Pool { kind: PoolKind::Average { .. }, .. }
                | OpKind::Reduce { .. }
        )
    )
}

/// A constant per column, or per channel, that is added to or multiplied with a live operand of the same extents.
fn each(net: &Net, at: usize, channels: bool) -> Option<(Binary, ValueId, Vec<f32>)> {
    let op = &net.ops[at];
    let (f, x, constant) = affine(net, op)?;
    let shape = &net.value(x).ty.shape;
    let rank = shape.len();
    if rank < 1 + usize::from(channels) || *shape != net.value(op.outputs[0]).ty.shape {
        return None;
    }
    let axis = if channels { 1 } else { rank - 1 };
    Some((f, x, per_channel(&constant, rank, axis, shape[axis])?))
}

/// Returns true if an operation is a linear layer with constant weights that reads `value` as its matrix and can absorb `f`, or a
/// convolution, which has zeros around its operand and therefore absorbs only factors; those require uncompressed weights.
fn takes(net: &Net, at: usize, value: ValueId, f: Binary, convolves: bool) -> bool {
    let op = &net.ops[at];
    let constant = |id: &ValueId| net.value(*id).data.is_some();
    let matrix = op.inputs.first() == Some(&value) && op.inputs[1..].iter().all(constant);
    let plain = |id: &ValueId| net.value(*id).data.as_ref().is_some_and(|t| !compress::is_compressed(&t.data));
    let kind = match op.kind {
        OpKind::Linear => !convolves,
        OpKind::Conv { .. } => convolves && f == Binary::Mul,
        _ => false,
    };
    kind && matrix && (f != Binary::Mul || plain(&op.inputs[1]))
}

/// Weights of a convolution times a number for each channel of its operand; `None` if fp16 does not represent them.
fn scaled_inputs(net: &Net, at: usize, values: &[f32]) -> Option<Tensor> {
    let op = &net.ops[at];
    let OpKind::Conv { groups, .. } = op.kind else { return None };
    let weights = net.value(op.inputs[1]).data.as_ref()?;
    let [outputs, inputs] = [*weights.shape.first()?, *weights.shape.get(1)?];
    let taps: usize = weights.shape[2..].iter().product();
    let (width, per_group) = ((inputs * taps).max(1), (outputs / groups.max(1)).max(1));
    let factor = |i: usize| values[i / width / per_group * inputs + i / taps.max(1) % inputs];
    if values.len() != inputs * groups {
        return None;
    }
    let before = weights.data.to_f32();
    let data: Vec<f32> = before.iter().enumerate().map(|(i, w)| w * factor(i)).collect();
    let precise = stays_precise(&data, width, &before, factor, &[]);
    let fits = stays_finite(&data, &[&before, values]) && stays_normal(&data);
    (fits && precise).then(|| Tensor { shape: weights.shape.clone(), data: Data::F32(data) })
}

/// Weights or bias of a product that absorbs an affine.
enum Part {
    Weights(Tensor),
    Bias(Vec<f32>),
}

/// Constant of a product after it absorbed an affine; `None` if fp16 does not represent it.
fn absorbed(net: &Net, reader: usize, f: Binary, values: &[f32]) -> Option<Part> {
    let op = &net.ops[reader];
    let weights = net.value(op.inputs[1]).data.as_ref()?;
    let mut data = weights.data.to_f32();
    let width = values.len().max(1);
    if f == Binary::Mul {
        let before = data.clone();
        data.chunks_exact_mut(width).for_each(|row| row.iter_mut().zip(values).for_each(|(w, v)| *w *= v));
        let precise = stays_precise(&data, width, &before, |i| values[i % width], &[]);
        let fits = stays_finite(&data, &[&before, values]) && stays_normal(&data) && precise;
        return fits.then(|| Part::Weights(Tensor { shape: weights.shape.clone(), data: Data::F32(data) }));
    }
    let sign = if f == Binary::Sub { -1.0 } else { 1.0 };
    let sums = data
        .chunks_exact(width)
        .map(|row| row.iter().zip(values).map(|(w, v)| f64::from(*w) * f64::from(*v)).sum::<f64>());
    let given = op.inputs.get(2).and_then(|&id| net.value(id).data.clone());
    let given = given.map_or_else(|| vec![0.0; weights.shape[0]], |bias| bias.data.to_f32());
    let bias: Vec<f32> = sums.zip(&given).map(|(sum, &b)| (sign * sum + f64::from(b)) as f32).collect();
    stays_finite(&bias, &[&data, values, &given]).then_some(Part::Bias(bias))
}

fn absorb(net: &mut Net, names: &mut Names, reader: usize, part: Part) {
    let name = net.ops[reader].name.clone();
    let mut builder = Builder { net, names, ops: Vec::new(), name };
    match part {
        Part::Weights(weights) => {
            let id = builder.constant_of("weight", weights);
            builder.net.ops[reader].inputs[1] = id;
        }
        Part::Bias(bias) => {
            let id = builder.constant("bias", vec![bias.len()], bias);
            let op = &mut builder.net.ops[reader];
            op.inputs.truncate(2);
            op.inputs.push(id);
        }
    }
}
