//! Absorption of additions and multiplications of per-channel constants into the convolution before them, as the offset and the
//! gain of the gain-offset control (the book, table 22.3: `ScaledEWOrEWWithConstInToGOC`, `FoldScale`,
//! `FoldWeightsWithScale`). One live operand and one constant: with two live ones the operation stays a layer.

use super::{Builder, Names, stays_finite, stays_normal, stays_precise};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, ValueId, compress};
use half::f16;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Absorbs additions and multiplications of per-channel constants into the convolution before them, as the offset and
/// the gain of the gain-offset control (the book, chapter 22).
///
/// A single factor that fp16 represents is left for the layer's gain, as in 9.509, unless another such constant follows.
pub fn absorb_affines(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let uses = net.read_counts();
    let leads_on: HashSet<ValueId> = net.ops.iter().filter_map(|op| affine(net, op)).map(|(_, x, _)| x).collect();
    let ops = std::mem::take(&mut net.ops);
    let mut names = Names::default();
    // Defining operation of each value, among the remaining operations.
    let mut producers: HashMap<ValueId, usize> = HashMap::new();
    for op in ops {
        let gain = options.conventions().gains_stay_tasks
            && is_gain(net, &op)
            && op.outputs.iter().all(|o| !leads_on.contains(o));
        let taken = if gain { None } else { absorb(net, &mut names, &op, &uses, &producers) };
        if let Some(at) = taken {
            reasons.say(|| format!("{} becomes part of {}", op.name, net.ops[at].name));
            producers.extend(op.outputs.iter().map(|&o| (o, at)));
            continue;
        }
        producers.extend(op.outputs.iter().map(|&o| (o, net.ops.len())));
        net.ops.push(op);
    }
    Ok(())
}

/// An operation with one live operand and one constant: its kind, the operand, the constant.
pub(super) fn affine(net: &Net, op: &Op) -> Option<(Binary, ValueId, Arc<Tensor>)> {
    let OpKind::Binary(f @ (Binary::Add | Binary::Sub | Binary::Mul)) = op.kind else { return None };
    let (&a, &b) = (op.inputs.first()?, op.inputs.get(1)?);
    match (&net.value(a).data, &net.value(b).data) {
        (None, Some(t)) => Some((f, a, t.clone())),
        (Some(t), None) if f != Binary::Sub => Some((f, b, t.clone())),
        _ => None,
    }
}

/// Returns true for a multiplication by one constant factor that fp16 represents exactly.
fn is_gain(net: &Net, op: &Op) -> bool {
    let Some((Binary::Mul, _, factor)) = affine(net, op) else { return false };
    factor.data.len() == 1 && factor.data.to_f32().iter().all(|&s| f16::from_f32(s).to_f32() == s)
}

/// Absorbs an operation into the convolution before it, if possible; returns the position of the convolution.
fn absorb(
    net: &mut Net,
    names: &mut Names,
    op: &Op,
    uses: &[usize],
    producers: &HashMap<ValueId, usize>,
) -> Option<usize> {
    let (f, x, constant) = affine(net, op)?;
    let &out = op.outputs.first()?;
    let &last = producers.get(&x)?;
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    if !alone(x) || net.value(x).ty.shape != net.value(out).ty.shape {
        return None;
    }
    // Reshapes keep the element order.
    let mut at = last;
    while net.ops[at].kind == OpKind::Reshape && alone(net.ops[at].inputs[0]) {
        at = *producers.get(&net.ops[at].inputs[0])?;
    }
    let shape = &net.value(x).ty.shape;
    let rank = shape.len();
    let made = &net.value(net.ops[at].outputs[0]).ty.shape;
    let channel_axis = match net.ops[at].kind {
        OpKind::Conv { .. } | OpKind::ConvTranspose { .. } if at == last => 1,
        OpKind::Linear if at == last => rank.wrapping_sub(1),
        // The columns of the product must still be the innermost axis with more than one element.
        OpKind::Linear => shape.iter().rposition(|&n| n > 1).filter(|&a| Some(&shape[a]) == made.last())?,
        _ => return None,
    };
    let channels = shape[channel_axis];
    let values = per_channel(&constant, rank, channel_axis, channels)?;
    let weights = net.value(net.ops[at].inputs[1]).data.clone()?;
    let bias = match net.ops[at].inputs.get(2) {
        None => vec![0.0; channels],
        Some(&id) => match &net.value(id).data {
            Some(t) => t.data.to_f32(),
            None => return None,
        },
    };
    let outputs = match net.ops[at].kind {
        OpKind::ConvTranspose { groups, .. } => weights.shape[1] * groups,
        _ => weights.shape[0],
    };
    if outputs != channels || bias.len() != channels {
        return None;
    }
    let combine = |f: fn(f32, f32) -> f32| bias.iter().zip(&values).map(|(&b, &v)| f(b, v)).collect::<Vec<f32>>();
    let made = match f {
        Binary::Add => combine(|b, v| b + v),
        Binary::Sub => combine(|b, v| b - v),
        _ => combine(|b, v| b * v),
    };
    if !stays_finite(&made, &[&bias, &values]) {
        return None;
    }
    let mut scaled = None;
    if f == Binary::Mul {
        let mut data = weights.data.to_f32();
        let per_output = data.len() / channels;
        // Weights of transposed convolutions have their input channels first.
        let exchanged = match net.ops[at].kind {
            OpKind::ConvTranspose { groups, .. } => Some([groups, weights.shape[0] / groups, channels / groups]),
            _ => None,
        };
        if let Some(axes) = exchanged {
            data = exchange(&data, axes);
        }
        let product: Vec<f32> = data.iter().enumerate().map(|(i, w)| w * values[i / per_output]).collect();
        let precise = stays_precise(&product, per_output, &data, |i| values[i / per_output], &made);
        if !stays_finite(&product, &[&data, &values]) || !stays_normal(&product) || !precise {
            return None;
        }
        let product = match exchanged {
            Some([groups, inputs, outputs]) => exchange(&product, [groups, outputs, inputs]),
            None => product,
        };
        scaled = Some(Tensor { shape: weights.shape.clone(), data: Data::F32(product) });
    }
    let name = net.ops[at].name.clone();
    let mut builder = Builder { net, names, ops: Vec::new(), name };
    if let Some(scaled) = scaled {
        let id = builder.constant_of("weight", compress::recompressed(scaled, [weights.as_ref()]));
        builder.net.ops[at].inputs[1] = id;
    }
    let bias = made;
    let id = builder.constant("bias", vec![channels], bias);
    let conv = &mut net.ops[at];
    conv.inputs.truncate(2);
    conv.inputs.push(id);
    net.ops[last].outputs = vec![out];
    Some(at)
}

/// Weights of some groups with the two axes behind that of the groups exchanged.
fn exchange(data: &[f32], [groups, first, second]: [usize; 3]) -> Vec<f32> {
    let taps = data.len() / (groups * first * second).max(1);
    let mut out = Vec::with_capacity(data.len());
    for group in data.chunks((first * second * taps).max(1)) {
        for j in 0..second {
            for i in 0..first {
                let at = (i * second + j) * taps;
                out.extend_from_slice(&group[at..at + taps]);
            }
        }
    }
    out
}

/// The constant as one number per channel, or one for all channels; `None` otherwise.
pub(super) fn per_channel(constant: &Tensor, rank: usize, axis: usize, channels: usize) -> Option<Vec<f32>> {
    let data = constant.data.to_f32();
    if data.len() == 1 {
        return Some(vec![data[0]; channels]);
    }
    let missing = rank.checked_sub(constant.shape.len())?;
    let right = constant.shape.iter().enumerate().all(|(i, &n)| n == 1 || i + missing == axis);
    (right && data.len() == channels).then_some(data)
}
