//! Fusion of a transposing copy into the transpose slot of the layer before it.

use super::{Rules, retain, steps_into_producer};
use crate::ir::*;
use crate::options::Options;
use crate::remarks::Remarks;
use std::collections::{BTreeSet, HashMap};

/// Lets layers of the neural engine exchange channels and columns of their output, if the only reader of the result is a copy that does
/// nothing else (the book, table 22.3: `ZinMirNETransposeFusion`).
///
/// Barriers: other readers, results in parts, interleaved channels, other axes, sums over windows or with computed
/// coefficients.
pub(crate) fn into_producer(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if options.conventions().inverse_transposes_cancel {
        cancel(graph, options, reasons);
    }
    if options.conventions().tables_turned {
        turn_columns(graph, reasons);
    }
    if !options.conventions().whole_epilogues {
        return;
    }
    let mut reads = vec![0usize; graph.buffers.len()];
    let mut writers: Vec<Vec<usize>> = vec![Vec::new(); graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        layer.sources.iter().for_each(|s| reads[s.buffer.0 as usize] += 1);
        writers[layer.result.buffer.0 as usize].push(i);
    }
    // Layers that touch a buffer outside of scratch memory.
    let mut touched: HashMap<BufferId, BTreeSet<usize>> = HashMap::new();
    for (at, layer) in graph.layers.iter().enumerate() {
        let views = layer.sources.iter().chain([&layer.result]);
        for view in views.filter(|v| graph.buffer(v.buffer).role != Role::Scratch) {
            touched.entry(view.buffer).or_default().insert(at);
        }
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
        // The target must not be written before others that write it in between.
        let target = copy.result.buffer;
        let apart = touched.get(&target).is_none_or(|all| all.range(writer + 1..at).next().is_none());
        if !turns || !alone || !free || !apart || before.result.elements() != source.elements() || removed[writer] {
            continue;
        }
        let result = copy.result;
        reasons.say(|| format!("{} becomes the transpose of {}", graph.layers[at].name, graph.layers[writer].name));
        let layer = &mut graph.layers[writer];
        layer.result = result;
        layer.transpose = true;
        removed[at] = true;
        if let Some(all) = touched.get_mut(&target) {
            all.insert(writer);
        }
    }
    retain(graph, &removed);
}

/// Cancels two transposing copies: the second becomes a copy of the first one's source, which the layer before it writes directly
/// (the book's sample of three tasks: a mean is the operand of a product without a task in between).
///
/// Barriers: other readers of the intermediate results, other shapes, interleaved channels.
fn cancel(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    let mut removed = vec![false; graph.layers.len()];
    for at in 0..graph.layers.len() {
        let back = &graph.layers[at];
        let turns = |l: &Layer| {
            let plain = l.interleave == 1 && l.source_interleave == 1;
            l.transpose && plain && l.sources.len() == 1 && Epilogue::step(&l.kind) == Some(Epilogue::UNIT)
        };
        let [between] = back.sources.as_slice() else { continue };
        if !turns(back) {
            continue;
        }
        let buffer = between.buffer;
        let mut writers = (0..graph.layers.len()).filter(|&i| !removed[i] && graph.layers[i].result.buffer == buffer);
        let (Some(first), None) = (writers.next(), writers.next()) else { continue };
        let there = &graph.layers[first];
        let reads = graph.layers.iter().flat_map(|l| &l.sources).filter(|s| s.buffer == buffer).count();
        let alone = reads == 1 && graph.buffer(buffer).role == Role::Scratch;
        let extents = |v: &View4| (v.axes.map(|a| a.extent), v.width);
        let same = |a: &View4, b: &View4| extents(a) == extents(b);
        if !turns(there) || !alone || there.result != *between || !same(&there.sources[0], &back.result) {
            continue;
        }
        reasons.say(|| format!("{} undoes {}", back.name, there.name));
        let (source, result) = (there.sources[0], back.result);
        removed[first] = true;
        if readers_move(graph, at, &source) {
            let all = graph.layers.iter_mut().flat_map(|l| &mut l.sources);
            all.filter(|s| s.buffer == result.buffer).for_each(|s| *s = source);
            removed[at] = true;
            continue;
        }
        let layer = &mut graph.layers[at];
        layer.sources = vec![source];
        layer.transpose = false;
    }
    if removed.contains(&true) {
        retain(graph, &removed);
        steps_into_producer(graph, Rules::COPIES, options.conventions(), reasons);
    }
}

/// Returns true if all readers of a copy's result may read its source: both are whole scratch buffers without another writer.
fn readers_move(graph: &Graph, copy: usize, source: &View4) -> bool {
    let result = &graph.layers[copy].result;
    let alone = |view: &View4| {
        let writers = graph.layers.iter().filter(|l| l.result.buffer == view.buffer).count();
        view.offset_bytes == 0 && writers == 1 && graph.buffer(view.buffer).role == Role::Scratch
    };
    let mut readers = graph.layers.iter().flat_map(|l| &l.sources).filter(|s| s.buffer == result.buffer);
    alone(source) && alone(result) && readers.all(|s| s == result)
}

/// Computes tables of single columns of channels as rows, which the planar task that reads them as its second source transposes back
/// (`chain_res_gelu_d256`; a reciprocal is lowered in this form, see `lower/elementwise.rs`).
fn turn_columns(graph: &mut Graph, reasons: &mut Remarks) {
    for at in 0..graph.layers.len() {
        let layer = &graph.layers[at];
        let [first, second] = layer.sources.as_slice() else { continue };
        let extents = |v: &View4| (v.axes.map(|a| a.extent), v.width);
        let channels = second.channels();
        let column = extents(second) == ([1, channels, 1], 1) && channels > 1 && extents(first) == extents(second);
        let plain = layer.turned == [false; 2] && layer.broadcast == [[false; 3]; 2] && !layer.second_relu;
        let (buffer, scratch) = (second.buffer, graph.buffer(second.buffer).role == Role::Scratch);
        if !matches!(layer.kind, Kind::Planar { .. }) || !column || !plain || !scratch {
            continue;
        }
        let reads = graph.layers.iter().flat_map(|l| &l.sources).filter(|s| s.buffer == buffer).count();
        let mut writers = (0..at).filter(|&i| graph.layers[i].result.buffer == buffer);
        let (Some(writer), None) = (writers.next(), writers.next()) else { continue };
        let before = &graph.layers[writer];
        let tabled = matches!(before.kind, Kind::Neuron { nonlinear: Nonlinear::Table(_), .. });
        let free = !before.transpose && before.interleave == 1 && before.result.elements() == second.elements();
        if reads != 1 || !tabled || !free {
            continue;
        }
        let (lead, bytes) = dense_axes(&[1, channels]);
        let Some(row) = (View { buffer, offset_bytes: 0, lead, width: channels }).nchw() else { continue };
        reasons.say(|| format!("{} is computed as a row, which {} transposes back", before.name, layer.name));
        graph.buffers[buffer.0 as usize].bytes = bytes;
        graph.layers[writer].result = row;
        graph.layers[writer].transpose = true;
        graph.layers[at].sources[1] = row;
        graph.layers[at].turned[1] = true;
    }
}

/// Returns true for a layer without a window: each result element depends on the source elements at its position, by a function or a
/// product with constant coefficients.
fn by_element(layer: &Layer) -> bool {
    match &layer.kind {
        Kind::Neuron { .. } => true,
        Kind::Conv { window, connect: Connect::Dense, .. } => *window == Window::UNIT && layer.result.groups() == 1,
        _ => false,
    }
}
