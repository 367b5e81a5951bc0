//! Fusion of prologues into planar layers: a ReLU of the second source, a factor of either.

use super::{copies, in_place_of, is_plain, retain};
use crate::ir::*;
use crate::options::Options;
use crate::remarks::Remarks;
use half::f16;

/// Fuses a ReLU of an operand into the addition or product that is its only reader, which reads its second source through a
/// ReLU. The two sources may be exchanged. Apple's compiler takes operands in memory alone.
pub(crate) fn relu_into_reader(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    let anywhere = options.conventions().whole_epilogues;
    let Uses { reads, writers } = Uses::of(graph);
    let relu = |layer: &Layer| layer.kind == Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu };
    let mut removed = vec![false; graph.layers.len()];
    for i in 0..graph.layers.len() {
        let layer = &graph.layers[i];
        let Kind::Planar { op, affine, .. } = layer.kind else { continue };
        // The factor is that of the first source.
        let either = op != PlanarOp::Sub
            && affine.pre_scale == 1.0
            && layer.broadcast == [[false; 3]; 2]
            && layer.turned == [false; 2];
        let found = [1, 0].into_iter().filter(|&s| s == 1 || either).find_map(|s| {
            let view = &layer.sources[s];
            let &[writer] = writers[view.buffer.0 as usize].as_slice() else { return None };
            let before = &graph.layers[writer];
            let alone = reads[view.buffer.0 as usize] == 1 && graph.buffer(view.buffer).role == Role::Scratch;
            let plain = relu(before) && is_plain(before) && before.interleave == 1 && !removed[writer];
            let origin = before.sources[0].buffer;
            let stays = || graph.layers[writer + 1..i].iter().all(|l| l.result.buffer != origin);
            let held = graph.buffer(origin).role == Role::Input || anywhere && stays();
            let same = before.result.elements() == view.elements();
            (alone && plain && same && !layer.second_relu && held).then_some((s, writer))
        });
        let Some((source, writer)) = found else { continue };
        reasons.say(|| format!("{} becomes part of {}", graph.layers[writer].name, graph.layers[i].name));
        let view = in_place_of(&graph.layers[i].sources[source], &graph.layers[writer].sources[0]);
        let layer = &mut graph.layers[i];
        layer.sources[source] = view;
        layer.second_relu = true;
        if source == 0 {
            layer.sources.swap(0, 1);
        }
        removed[writer] = true;
    }
    retain(graph, &removed);
}

/// Reads of each buffer, and the positions of its writers.
struct Uses {
    reads: Vec<usize>,
    writers: Vec<Vec<usize>>,
}

impl Uses {
    fn of(graph: &Graph) -> Uses {
        let mut uses = Uses { reads: vec![0; graph.buffers.len()], writers: vec![Vec::new(); graph.buffers.len()] };
        for (i, layer) in graph.layers.iter().enumerate() {
            layer.sources.iter().for_each(|s| uses.reads[s.buffer.0 as usize] += 1);
            uses.writers[layer.result.buffer.0 as usize].push(i);
        }
        uses
    }
}

/// Fuses a constant factor of one operand into the planar layer that is its only reader: as gain of a product, or as factor of the first
/// source of a sum or difference, which fp16 must represent. A positive factor of a value and of its maximum, as before a softmax, becomes
/// that of their difference.
pub(crate) fn scale_into_reader(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if !options.conventions().whole_epilogues {
        return;
    }
    let Uses { reads, writers } = Uses::of(graph);
    let mut removed = vec![false; graph.layers.len()];
    for i in 0..graph.layers.len() {
        for source in 0..graph.layers[i].sources.len() {
            let Some((writer, layer)) = scaled_source(graph, i, source, &reads, &writers) else { continue };
            if removed[writer] {
                continue;
            }
            reasons.say(|| format!("{} becomes part of {}", graph.layers[writer].name, graph.layers[i].name));
            graph.layers[i] = layer;
            removed[writer] = true;
            break;
        }
        if let Some((writer, maximum, layers)) = scaled_difference(graph, i, &reads, &writers) {
            let [of_maximum, of_difference] = layers;
            reasons.say(|| format!("{} becomes part of {}", graph.layers[writer].name, graph.layers[i].name));
            (graph.layers[maximum], graph.layers[i]) = (of_maximum, of_difference);
            removed[writer] = true;
        }
    }
    retain(graph, &removed);
}

/// The factor of a value whose maximum is subtracted from it, where nothing else reads either; the layer of the maximum; and both readers
/// without the factor, which the difference has.
fn scaled_difference(
    graph: &Graph,
    at: usize,
    reads: &[usize],
    writers: &[Vec<usize>],
) -> Option<(usize, usize, [Layer; 2])> {
    let difference = &graph.layers[at];
    let Kind::Planar { op: PlanarOp::Sub, affine, relu } = difference.kind else { return None };
    let made = |view: &View4, reads_of: usize| {
        let buffer = view.buffer.0 as usize;
        let alone = reads[buffer] == reads_of && graph.buffers[buffer].role == Role::Scratch;
        writers[buffer].as_slice().first().copied().filter(|_| alone && writers[buffer].len() == 1)
    };
    let (writer, maximum) = (made(&difference.sources[0], 2)?, made(&difference.sources[1], 1)?);
    let (before, largest) = (&graph.layers[writer], &graph.layers[maximum]);
    let of_all = match largest.kind {
        Kind::Reduce { op: PoolOp::Max, abs: false, affine: Affine::UNIT, reciprocal: false } => true,
        ref kind => *kind == Kind::MaxChannels,
    };
    let step = Epilogue::step(&before.kind)?;
    let (from, to) = (before.sources[0], before.result);
    let stays = graph.layers[writer + 1..at].iter().all(|l| l.result.buffer != from.buffer);
    let factor = step.offset.is_zero() && step.is_affine() && step.gain > 0.0;
    let same = largest.sources[0].buffer == to.buffer && (from.axes, from.width) == (to.axes, to.width);
    let final_scale = affine.final_scale * step.gain;
    let held = final_scale.is_finite() && final_scale != 0.0 && affine.pre_scale == 1.0;
    if !of_all || !factor || !same || !stays || !held || !is_plain(before) || before.interleave != 1 {
        return None;
    }
    let unscaled = |layer: &Layer| {
        let mut layer = layer.clone();
        let view = &mut layer.sources[0];
        let offset_bytes = (view.offset_bytes + from.offset_bytes).checked_sub(to.offset_bytes)?;
        *view = View4 { buffer: from.buffer, offset_bytes, ..*view };
        Some(layer)
    };
    let mut scaled = unscaled(difference)?;
    scaled.kind = Kind::Planar { op: PlanarOp::Sub, affine: Affine { final_scale, ..affine }, relu };
    Some((writer, maximum, [unscaled(largest)?, scaled]))
}

/// A rounding adds a number to its argument, so that fp16 has its whole part alone. Where a factor or a planar operation is before it,
/// that one adds the number: the argument is not rounded to fp16 first, which would make a tie of what lies beside it.
pub(crate) fn round_once(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if !options.conventions().whole_epilogues {
        return;
    }
    let Uses { reads, writers } = Uses::of(graph);
    for at in 0..graph.layers.len() {
        let layer = &graph.layers[at];
        let Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear } = &layer.kind else { continue };
        let addend = nonlinear.addend();
        let [view] = layer.sources.as_slice() else { continue };
        let buffer = view.buffer.0 as usize;
        let &[writer] = writers[buffer].as_slice() else { continue };
        let before = &graph.layers[writer];
        let alone = reads[buffer] == 1 && graph.buffers[buffer].role == Role::Scratch;
        let affine = match &before.kind {
            Kind::Pool { op: PoolOp::Sum, window, affine, relu: false, .. } if *window == Window::UNIT => *affine,
            Kind::Planar { affine, relu: false, .. } => *affine,
            _ => continue,
        };
        let rounds = affine.bias == 0.0 && !copies(&before.kind);
        if addend == 0.0 || !alone || !rounds || before.result.elements() != view.elements() {
            continue;
        }
        reasons.say(|| format!("{} is rounded in {}", graph.layers[at].name, graph.layers[writer].name));
        if let Kind::Pool { affine, .. } | Kind::Planar { affine, .. } = &mut graph.layers[writer].kind {
            affine.bias = addend;
        }
        if let Kind::Neuron { add, .. } = &mut graph.layers[at].kind {
            *add = -addend;
        }
    }
}

/// The layer that makes a source, where it is a factor alone, and the reader with that factor.
fn scaled_source(
    graph: &Graph,
    at: usize,
    source: usize,
    reads: &[usize],
    writers: &[Vec<usize>],
) -> Option<(usize, Layer)> {
    let layer = &graph.layers[at];
    let Kind::Planar { op, affine, relu } = layer.kind else { return None };
    let view = &layer.sources[source];
    let buffer = view.buffer.0 as usize;
    let &[writer] = writers[buffer].as_slice() else { return None };
    let before = &graph.layers[writer];
    let alone = reads[buffer] == 1 && graph.buffers[buffer].role == Role::Scratch;
    let plain = is_plain(before) && before.interleave == 1 && before.result.elements() == view.elements();
    let step = Epilogue::step(&before.kind)?;
    // The origin must not be overwritten before the reader runs.
    let origin = before.sources[0].buffer;
    let stays = graph.layers[writer + 1..at].iter().all(|l| l.result.buffer != origin);
    // A copy brings a broadcast operand to tile memory.
    let repeated = layer.broadcast.iter().flatten().any(|&on| on) || layer.turned != [false; 2];
    if !alone || !plain || !stays || repeated || copies(&before.kind) || !step.offset.is_zero() || !step.is_affine() {
        return None;
    }
    let exact = f16::from_f32(step.gain).to_f32() == step.gain;
    let mut reader = layer.clone();
    reader.sources[source] = in_place_of(view, &before.sources[0]);
    let affine = match op {
        PlanarOp::Mul if !(layer.second_relu && source == 1 && step.gain < 0.0) => {
            Affine { final_scale: affine.final_scale * step.gain, ..affine }
        }
        PlanarOp::Add if exact && affine.pre_scale == 1.0 && !layer.second_relu => {
            if source == 1 {
                reader.sources.swap(0, 1);
            }
            Affine { pre_scale: step.gain, ..affine }
        }
        PlanarOp::Sub | PlanarOp::Max | PlanarOp::Min if exact && source == 0 => {
            Affine { pre_scale: affine.pre_scale * step.gain, ..affine }
        }
        _ => return None,
    };
    let held = affine.final_scale.is_finite() && affine.final_scale != 0.0;
    reader.kind = Kind::Planar { op, affine, relu };
    held.then_some((writer, reader))
}
