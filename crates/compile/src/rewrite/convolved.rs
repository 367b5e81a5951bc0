//! Replacement of a factor and an addend for each channel that no other layer absorbs, such as those of a batch normalization behind a sum, by
//! a depthwise convolution. Ours; [`super::affines`] absorbs them into a convolution before them.

use super::affines::{affine, per_channel};
use super::{Builder, LEAST_NORMAL, Names, remove, stays_finite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, ValueId};
use std::collections::{HashMap, HashSet};

/// Least magnitude of the largest addend: results of this size have a last digit of 2^-15, the resolution of halved sums.
const LEAST_ADDEND: f32 = 1.0 / 32.0;

/// Factor of the sums, which the gain undoes: the arrays overflow at 2^15, half of the range of fp16.
const HALF: f32 = 0.5;

/// Fewest elements of a plane: constants for single elements are as large as the value itself, and need no form of convolution.
const LEAST_PLANE: usize = 2;

/// Replaces `x * s + t`, with one number for each channel in `s` and `t`, by a depthwise convolution: one task instead of two, rounded once,
/// whose epilogue takes the activation behind it. The other order, `(x + t) * s`, stays: its sum of close numbers with opposite signs is exact.
pub fn convolve_affines(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let uses = net.read_counts();
    let mut names = Names::of(net);
    let mut factors: HashMap<ValueId, usize> = HashMap::new();
    let mut gone = HashSet::new();
    for at in 0..net.ops.len() {
        let Some((f, x, values)) = channels(net, at) else { continue };
        let out = net.ops[at].outputs[0];
        if f == Binary::Mul {
            factors.insert(out, at);
            continue;
        }
        let alone = uses[x.0 as usize] == 1 && !net.outputs.contains(&x);
        let Some(first) = factors.get(&x).copied().filter(|_| alone) else { continue };
        let Some((_, source, scales)) = channels(net, first) else { continue };
        let addends: Vec<f32> = values.iter().map(|&v| if f == Binary::Sub { -v } else { v }).collect();
        if !is_represented(&scales, &addends) {
            continue;
        }
        let spatial = net.value(x).ty.shape.len() - 2;
        let count = scales.len();
        let name = net.ops[first].name.clone();
        // A sum may take the convolution into another one.
        let added = |op: &Op| op.kind == OpKind::Binary(Binary::Add) && op.inputs.contains(&out);
        let part = if net.ops[at + 1..].iter().any(added) { 1.0 } else { HALF };
        let of = |all: Vec<f32>| all.into_iter().map(|v| v * part).collect();
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        let extents = [[count, 1].as_slice(), &vec![1; spatial]].concat();
        let weight = builder.constant("weight", extents, of(scales));
        let bias = builder.constant("bias", vec![count], of(addends));
        let whole = (part < 1.0).then(|| builder.constant("whole", vec![], vec![1.0 / part]));
        reasons.say(|| format!("{} and {}: one convolution of each channel", net.ops[first].name, net.ops[at].name));
        let kind = OpKind::Conv {
            strides: vec![1; spatial],
            pads: vec![(0, 0); spatial],
            dilations: vec![1; spatial],
            groups: count,
        };
        let inputs = vec![source, weight, bias];
        if let Some(whole) = whole {
            (net.ops[first].kind, net.ops[first].inputs) = (kind, inputs);
            (net.ops[at].kind, net.ops[at].inputs) = (OpKind::Binary(Binary::Mul), vec![x, whole]);
            continue;
        }
        (net.ops[at].kind, net.ops[at].inputs) = (kind, inputs);
        gone.insert(first);
    }
    remove(net, &gone);
    Ok(())
}

/// A constant with one number for each of several channels that is added to, subtracted from or multiplied with planes or rows of floats of
/// one batch; a convolution takes a task for each batch.
fn channels(net: &Net, at: usize) -> Option<(Binary, ValueId, Vec<f32>)> {
    let op = &net.ops[at];
    let (f, x, constant) = affine(net, op)?;
    let (from, to) = (&net.value(x).ty, &net.value(op.outputs[0]).ty);
    let rank = from.shape.len();
    let counts = (3..=4).contains(&rank)
        && from.shape[0] == 1
        && from.shape[1] > 1
        && from.shape[2..].iter().product::<usize>() >= LEAST_PLANE
        && constant.data.len() == from.shape[1];
    if !counts || !from.dtype.is_float() || !to.dtype.is_float() || from.shape != to.shape {
        return None;
    }
    Some((f, x, per_channel(&constant, rank, 1, from.shape[1])?))
}

/// Returns true if fp16 represents the factors with all digits, and the arrays resolve the largest results.
fn is_represented(scales: &[f32], addends: &[f32]) -> bool {
    let normal = scales.iter().all(|s| *s == 0.0 || (s * HALF).abs() >= LEAST_NORMAL);
    let resolved = addends.iter().any(|t| t.abs() >= LEAST_ADDEND);
    normal && resolved && stays_finite(scales, &[&[]]) && stays_finite(addends, &[&[]])
}
