//! Merging of convolutions of one value whose results are added, such as the branches of a block that was trained to be one convolution, or the
//! position encoding `x + conv(x)` of transformers. Ours.

use super::{Builder, Names, remove, stays_finite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, OpKind, Tensor, ValueId, compress};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};

/// Replaces the sum of two convolutions of one value, or of a convolution and its operand, by one convolution with the sum of their
/// coefficients, if the window and the groups of one enclose those of the other. The result costs as much as the enclosing convolution alone. A
/// sum of coefficients is rounded once, as each coefficient was.
pub fn sum_convolutions(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let uses = net.read_counts();
    let mut names = Names::default();
    let made: HashMap<ValueId, usize> = net.ops.iter().enumerate().map(|(at, op)| (op.outputs[0], at)).collect();
    let mut gone = HashSet::new();
    for sums in levels(net, &made) {
        // Additions of one level read none of the others, so that threads sum their coefficients.
        let merged: Vec<_> = sums.par_iter().map(|&at| merged(net, at, &uses, &made)).collect();
        for (at, merged) in sums.into_iter().zip(merged) {
            let Some((sum, branches)) = merged else { continue };
            let (from, name) = (net.ops[branches[0]].inputs[0], net.ops[at].name.clone());
            reasons.say(|| format!("{name} becomes part of {}", net.ops[branches[0]].name));
            let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
            let weight = builder.constant("weight", sum.extents, sum.weights);
            let bias = builder.constant("bias", vec![sum.biases.len()], sum.biases);
            (net.ops[at].kind, net.ops[at].inputs) = (sum.kind, vec![from, weight, bias]);
            gone.extend(branches);
        }
    }
    remove(net, &gone);
    Ok(())
}

/// Positions of additions, those that read others behind these.
fn levels(net: &Net, made: &HashMap<ValueId, usize>) -> Vec<Vec<usize>> {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    let mut level_of: HashMap<usize, usize> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate().filter(|(_, op)| op.kind == OpKind::Binary(Binary::Add)) {
        let before = op.inputs.iter().filter_map(|id| level_of.get(made.get(id)?)).max();
        let level = before.map_or(0, |level| level + 1);
        level_of.insert(at, level);
        levels.resize_with(levels.len().max(level + 1), Vec::new);
        levels[level].push(at);
    }
    levels
}

/// A convolution with constants.
struct Convolution {
    kind: OpKind,
    extents: Vec<usize>,
    weights: Vec<f32>,
    biases: Vec<f32>,
}

/// The convolution that an addition becomes, and the convolutions that it replaces; `None` for other operations.
fn merged(net: &Net, at: usize, uses: &[usize], made: &HashMap<ValueId, usize>) -> Option<(Convolution, Vec<usize>)> {
    let op = &net.ops[at];
    let (OpKind::Binary(Binary::Add), &[a, b]) = (&op.kind, op.inputs.as_slice()) else { return None };
    if net.value(a).ty.shape != net.value(b).ty.shape {
        return None;
    }
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    let branch = |id: ValueId| made.get(&id).copied().filter(|_| alone(id));
    let source = |at: usize| net.ops[at].inputs.first().copied();
    let (one, other, replaced) = match (branch(a), branch(b)) {
        (Some(first), Some(second)) if source(first) == source(second) => {
            (convolution(net, first)?, convolution(net, second)?, vec![first, second])
        }
        (Some(first), _) if source(first) == Some(b) => (convolution(net, first)?, identity(net, b)?, vec![first]),
        (_, Some(second)) if source(second) == Some(a) => (convolution(net, second)?, identity(net, a)?, vec![second]),
        _ => return None,
    };
    let (outer, inner, places) = match (places(&one, &other), places(&other, &one)) {
        (Some(places), _) => (one, other, places),
        (None, Some(places)) => (other, one, places),
        (None, None) => return None,
    };
    let finite = |all: &[f32]| stays_finite(all, &[]);
    let weights_were = finite(&outer.weights) && finite(&inner.weights);
    let biases_were = finite(&outer.biases) && finite(&inner.biases);
    let sum = enclosed(outer, &inner, &places)?;
    let stays = (finite(&sum.weights) || !weights_were) && (finite(&sum.biases) || !biases_were);
    stays.then_some((sum, replaced))
}

/// The identity as a depthwise convolution with a factor of one; `None` for a value without a channel axis.
fn identity(net: &Net, id: ValueId) -> Option<Convolution> {
    let &[_, channels, ref spatial @ ..] = net.value(id).ty.shape.as_slice() else { return None };
    let ones = vec![1; spatial.len()];
    let extents = [[channels, 1].as_slice(), &ones].concat();
    let kind =
        OpKind::Conv { strides: ones.clone(), pads: vec![(0, 0); spatial.len()], dilations: ones, groups: channels };
    Some(Convolution { kind, extents, weights: vec![1.0; channels], biases: vec![0.0; channels] })
}

/// A convolution of floats whose coefficients are constant and not compressed, without dilation.
fn convolution(net: &Net, at: usize) -> Option<Convolution> {
    let op = &net.ops[at];
    let OpKind::Conv { dilations, .. } = &op.kind else { return None };
    let weights: &Tensor = net.value(*op.inputs.get(1)?).data.as_ref()?;
    let float = net.value(op.inputs[0]).ty.dtype.is_float() && net.value(op.outputs[0]).ty.dtype.is_float();
    if !float || dilations.iter().any(|&d| d != 1) || compress::is_compressed(&weights.data) {
        return None;
    }
    let biases = match op.inputs.get(2) {
        Some(&id) => net.value(id).data.as_ref()?.data.to_f32(),
        None => vec![0.0; weights.shape[0]],
    };
    let (kind, extents) = (op.kind.clone(), weights.shape.clone());
    (biases.len() == extents[0]).then(|| Convolution { kind, extents, weights: weights.data.to_f32(), biases })
}

/// Place of the window of `inner` in that of `outer`, by axis; `None` unless window and groups of `outer` enclose those of `inner`.
fn places(outer: &Convolution, inner: &Convolution) -> Option<Vec<usize>> {
    let OpKind::Conv { strides, pads, groups, .. } = &outer.kind else { return None };
    let OpKind::Conv { strides: other_strides, pads: other_pads, groups: other_groups, .. } = &inner.kind else {
        return None;
    };
    let (window, inner_window) = (outer.extents.get(2..)?, inner.extents.get(2..)?);
    let place = |axis: usize| {
        let place = pads[axis].0.checked_sub(other_pads[axis].0)?;
        (place + inner_window[axis] <= window[axis]).then_some(place)
    };
    let places = (0..window.len()).map(place).collect::<Option<Vec<usize>>>()?;
    (strides == other_strides && other_groups.is_multiple_of(*groups)).then_some(places)
}

/// The sum of two convolutions, of the kind of `outer`, with the window of `inner` at `places`.
fn enclosed(outer: Convolution, inner: &Convolution, places: &[usize]) -> Option<Convolution> {
    let (OpKind::Conv { groups, .. }, OpKind::Conv { groups: other_groups, .. }) = (&outer.kind, &inner.kind) else {
        return None;
    };
    let &[outputs, depth, ref window @ ..] = outer.extents.as_slice() else { return None };
    let &[_, inner_depth, ref inner_window @ ..] = inner.extents.as_slice() else { return None };
    let Convolution { mut weights, .. } = outer;
    let taps: usize = inner_window.iter().product();
    let (rows, inner_rows) = (outputs / groups, outputs / other_groups);
    // Index of a tap in the outer window, last axis first.
    let index = |mut tap: usize| {
        let (mut index, mut stride) = (0, 1);
        for axis in (0..window.len()).rev() {
            index += (places[axis] + tap % inner_window[axis]) * stride;
            tap /= inner_window[axis];
            stride *= window[axis];
        }
        index
    };
    let indices: Vec<usize> = (0..taps).map(index).collect();
    let outer_taps: usize = window.iter().product();
    for (at, taps) in inner.weights.chunks_exact(taps.max(1)).enumerate() {
        let (output, channel) = (at / inner_depth, at % inner_depth);
        let channel = output / inner_rows * inner_depth + channel - output / rows * depth;
        let sum = &mut weights[(output * depth + channel) * outer_taps..][..outer_taps];
        indices.iter().zip(taps).for_each(|(&index, w)| sum[index] += w);
    }
    let biases = outer.biases.iter().zip(&inner.biases).map(|(a, b)| a + b).collect();
    Some(Convolution { weights, biases, ..outer })
}
