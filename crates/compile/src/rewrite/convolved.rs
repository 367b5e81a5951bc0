//! Replacement of a factor and an addend for each channel that no other layer absorbs, such as those of a batch normalization behind a sum, by
//! a depthwise convolution. Ours; [`super::affines`] absorbs them into a convolution before them.

use super::affines::{affine, per_channel};
use super::windows::Limits;
use super::{Builder, LEAST_NORMAL, Names, remove, stays_finite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_net::{Binary, Net, Op, OpKind, PoolKind, ValueId};
use std::collections::{HashMap, HashSet};

/// Least magnitude of the largest addend: results of this size have a last digit of 2^-15, the resolution of halved sums.
const LEAST_ADDEND: f32 = 1.0 / 32.0;

/// Factor of the sums, which the gain undoes: the arrays overflow at 2^15, half of the range of fp16.
const HALF: f32 = 0.5;

/// Fewest elements of a plane: constants for single elements are as large as the value itself, and need no form of convolution.
pub(super) const LEAST_PLANE: usize = 2;

/// Replaces `x * s + t`, with one number for each channel in `s` and `t`, by a depthwise convolution: one task instead of two, rounded once,
/// whose epilogue takes the activation behind it. A mean of windows before it becomes the window of the convolution. The other order,
/// `(x + t) * s`, stays: its sum of close numbers with opposite signs is exact.
pub fn convolve_affines(net: &mut Net, chip: &'static Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let uses = net.read_counts();
    let mut names = Names::default();
    let limits = Limits::of(chip);
    let mut factors: HashMap<ValueId, usize> = HashMap::new();
    let mut means: HashMap<ValueId, usize> = HashMap::new();
    let mut gone = HashSet::new();
    for at in 0..net.ops.len() {
        if let Some((mean, _)) = mean(net, at, &limits).filter(|(_, counted)| *counted) {
            means.insert(mean, at);
        }
        let Some((f, x, values)) = channels(net, at) else { continue };
        let out = net.ops[at].outputs[0];
        if f == Binary::Mul {
            factors.insert(out, at);
            continue;
        }
        let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
        let Some(first) = factors.get(&x).copied().filter(|_| alone(x)) else { continue };
        let Some((_, source, mut scales)) = channels(net, first) else { continue };
        let addends: Vec<f32> = values.iter().map(|&v| if f == Binary::Sub { -v } else { v }).collect();
        let pool = means.get(&source).copied().filter(|_| alone(source));
        let window = Window::of(net, pool, net.value(x).ty.shape.len() - 2);
        let taps: usize = window.kernel.iter().product();
        scales.iter_mut().for_each(|s| *s /= taps as f32);
        if !is_represented(&scales, &addends) {
            continue;
        }
        let (source, count) = (pool.map_or(source, |at| net.ops[at].inputs[0]), scales.len());
        let name = net.ops[first].name.clone();
        // A sum may take the convolution into another one.
        let added = |op: &Op| op.kind == OpKind::Binary(Binary::Add) && op.inputs.contains(&out);
        let part = if net.ops[at + 1..].iter().any(added) { 1.0 } else { HALF };
        let of = |all: Vec<f32>, each: usize| all.into_iter().flat_map(|v| vec![v * part; each]).collect();
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        let extents = [[count, 1].as_slice(), &window.kernel].concat();
        let weight = builder.constant("weight", extents, of(scales, taps));
        let bias = builder.constant("bias", vec![count], of(addends, 1));
        let whole = (part < 1.0).then(|| builder.constant("whole", vec![], vec![1.0 / part]));
        reasons.say(|| format!("{} and {}: one convolution of each channel", net.ops[first].name, net.ops[at].name));
        gone.extend(pool);
        let Window { kernel, strides, pads } = window;
        let kind = OpKind::Conv { strides, pads, dilations: vec![1; kernel.len()], groups: count };
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

/// A window of a pooling, or of one element.
struct Window {
    kernel: Vec<usize>,
    strides: Vec<usize>,
    pads: Vec<(usize, usize)>,
}

impl Window {
    fn of(net: &Net, pool: Option<usize>, spatial: usize) -> Window {
        match pool.map(|at| &net.ops[at].kind) {
            Some(OpKind::Pool { kernel, strides, pads, .. }) => {
                Window { kernel: kernel.clone(), strides: strides.clone(), pads: pads.clone() }
            }
            _ => Window { kernel: vec![1; spatial], strides: vec![1; spatial], pads: vec![(0, 0); spatial] },
        }
    }
}

/// The result of means of whole windows that one convolution task computes, and true if all of them are divided by the same number of elements,
/// zeros of the padding included.
pub(super) fn mean(net: &Net, at: usize, limits: &Limits) -> Option<(ValueId, bool)> {
    let Op { kind: OpKind::Pool { kind, kernel, strides, pads, .. }, inputs, outputs, .. } = &net.ops[at] else {
        return None;
    };
    let PoolKind::Average { exclude_padding } = *kind else { return None };
    let [from, to] = [inputs[0], outputs[0]].map(|id| &net.value(id).ty.shape);
    let whole = |i: usize| (to[i + 2] - 1) * strides[i] + kernel[i] <= from[i + 2] + pads[i].0 + pads[i].1;
    let counted = !exclude_padding || pads.iter().all(|&pad| pad == (0, 0));
    ((0..kernel.len()).all(whole) && limits.convolves(kernel, strides)).then_some((outputs[0], counted))
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
