//! A transposing copy becomes the transpose slot of the layer before it.

use super::retain;
use crate::ir::*;
use crate::options::Options;
use crate::remarks::Remarks;

/// Layers of the neural engine exchange channels and columns on the way out, where their result is read by a copy that does that
/// alone (the book, table 22.3: `ZinMirNETransposeFusion`).
///
/// Barriers: other readers, results in pieces, interleaved channels, axes in other places, sums over windows or of computed
/// coefficients.
pub(crate) fn into_producer(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if !options.conventions().whole_epilogues {
        return;
    }
    let mut reads = vec![0usize; graph.buffers.len()];
    let mut writers: Vec<Vec<usize>> = vec![Vec::new(); graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        layer.sources.iter().for_each(|s| reads[s.buffer.0 as usize] += 1);
        writers[layer.result.buffer.0 as usize].push(i);
    }
    let mut removed = vec![false; graph.layers.len()];
    for at in 0..graph.layers.len() {
        let copy = &graph.layers[at];
        let [source] = copy.sources.as_slice() else { continue };
        let buffer = source.buffer.0 as usize;
        let &[writer] = writers[buffer].as_slice() else { continue };
        let before = &graph.layers[writer];
        let turns = copy.transpose && Epilogue::step(&copy.kind) == Some(Epilogue::UNIT) && copy.source_interleave == 1;
        let alone = reads[buffer] == 1 && graph.buffers[buffer].role == Role::Scratch;
        let free = by_element(before) && !before.transpose && before.interleave == 1 && copy.interleave == 1;
        // A result that is written elsewhere meanwhile must not be touched earlier.
        let target = copy.result.buffer;
        let touches = |l: &Layer| l.result.buffer == target || l.sources.iter().any(|s| s.buffer == target);
        let apart = !graph.layers[writer + 1..at].iter().any(touches) || graph.buffer(target).role == Role::Scratch;
        if !turns || !alone || !free || !apart || before.result.elements() != source.elements() || removed[writer] {
            continue;
        }
        let result = copy.result;
        reasons.say(|| format!("{} becomes the transpose of {}", graph.layers[at].name, graph.layers[writer].name));
        let layer = &mut graph.layers[writer];
        layer.result = result;
        layer.transpose = true;
        removed[at] = true;
    }
    retain(graph, &removed);
}

/// Returns true for a layer that computes each element from those at its place: a function, or a product with constant coefficients.
fn by_element(layer: &Layer) -> bool {
    match &layer.kind {
        Kind::Neuron { .. } => true,
        Kind::Conv { window, connect: Connect::Dense, .. } => *window == Window::UNIT && layer.result.groups() == 1,
        _ => false,
    }
}
