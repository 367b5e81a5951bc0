//! Copies that another value makes unnecessary.

use super::retain;
use crate::ir::*;
use crate::options::Options;
use crate::remarks::Remarks;
use std::collections::HashMap;

/// Lets readers of a copy read its source, if both lie alike in memory, or an earlier copy of the same elements. A transposed copy of
/// fewer columns is a part of one of more columns of the same rows.
///
/// Barriers: a source or result that other layers write later, and buffers of the caller.
pub(crate) fn share(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if options.conventions().whole_epilogues {
        read_sources(graph, reasons);
        read_earlier(graph, reasons);
    }
}

/// Layers by the buffers that they use.
struct Uses {
    readers: Vec<Vec<usize>>,
    writers: Vec<Vec<usize>>,
}

impl Uses {
    fn of(graph: &Graph) -> Uses {
        let mut uses =
            Uses { readers: vec![Vec::new(); graph.buffers.len()], writers: vec![Vec::new(); graph.buffers.len()] };
        for (at, layer) in graph.layers.iter().enumerate() {
            layer.sources.iter().for_each(|source| uses.readers[source.buffer.0 as usize].push(at));
            uses.writers[layer.result.buffer.0 as usize].push(at);
        }
        uses
    }

    /// The source of a layer that only copies it to a scratch buffer, where no other layer writes.
    fn copied(&self, graph: &Graph, at: usize) -> Option<View4> {
        let layer = &graph.layers[at];
        let &[source] = layer.sources.as_slice() else { return None };
        let scratch = graph.buffer(layer.result.buffer).role == Role::Scratch;
        let plain = layer.broadcast.iter().flatten().all(|repeated| !repeated) && layer.turned == [false; 2];
        let copies = plain && Epilogue::step(&layer.kind) == Some(Epilogue::UNIT);
        (scratch && copies && (self.is_alone(graph, at) || self.is_apart(graph, at))).then_some(source)
    }

    /// Returns true for the only writer of its buffer.
    fn is_alone(&self, graph: &Graph, at: usize) -> bool {
        self.writers[graph.layers[at].result.buffer.0 as usize] == [at]
    }

    /// Returns true for a layer that writes part of a buffer, before or behind all that others write.
    fn is_apart(&self, graph: &Graph, at: usize) -> bool {
        let range = |at: usize| {
            let view = &graph.layers[at].result;
            let reach: u64 = view.axes.iter().map(|axis| (axis.extent as u64 - 1) * axis.stride_bytes).sum();
            (view.offset_bytes, view.offset_bytes + reach + view.width as u64 * ELEMENT_BYTES)
        };
        let (start, end) = range(at);
        let writers = &self.writers[graph.layers[at].result.buffer.0 as usize];
        graph.layers[at].interleave == 1
            && writers.iter().filter(|&&other| other != at).all(|&other| {
                let (first, last) = range(other);
                graph.layers[other].interleave == 1 && (last <= start || end <= first)
            })
    }

    /// Returns true if a buffer has its contents before a layer.
    fn is_written(&self, buffer: BufferId, before: usize) -> bool {
        self.writers[buffer.0 as usize].last().is_none_or(|&writer| writer < before)
    }

    /// Readers of one view's buffer read the same places of another view.
    fn redirect(&mut self, graph: &mut Graph, from: &View4, to: &View4) {
        let moved = std::mem::take(&mut self.readers[from.buffer.0 as usize]);
        for &reader in &moved {
            for source in graph.layers[reader].sources.iter_mut().filter(|source| source.buffer == from.buffer) {
                source.buffer = to.buffer;
                source.offset_bytes = source.offset_bytes - from.offset_bytes + to.offset_bytes;
            }
        }
        self.readers[to.buffer.0 as usize].extend(moved);
    }
}

/// Axes of more than one element, and columns.
fn layout(view: &View4) -> (Vec<Axis>, usize) {
    (view.axes.into_iter().filter(|axis| axis.extent > 1).collect(), view.width)
}

fn read_sources(graph: &mut Graph, reasons: &mut Remarks) {
    let mut uses = Uses::of(graph);
    let mut removed = vec![false; graph.layers.len()];
    for (at, removed) in removed.iter_mut().enumerate() {
        let Some(source) = uses.copied(graph, at).filter(|_| uses.is_alone(graph, at)) else { continue };
        let layer = &graph.layers[at];
        let plain = !layer.transpose && layer.interleave == 1 && layer.source_interleave == 1;
        let computed = graph.buffer(source.buffer).role == Role::Scratch && uses.is_written(source.buffer, at);
        let result = layer.result;
        if plain && computed && result.offset_bytes == 0 && layout(&source) == layout(&result) {
            reasons.say(|| format!("readers of {} read its source", layer.name));
            uses.redirect(graph, &result, &source);
            *removed = true;
        }
    }
    retain(graph, &removed);
}

fn read_earlier(graph: &mut Graph, reasons: &mut Remarks) {
    let mut uses = Uses::of(graph);
    let mut removed = vec![false; graph.layers.len()];
    let mut earlier: HashMap<(BufferId, u64, bool), Vec<usize>> = HashMap::new();
    for (at, removed) in removed.iter_mut().enumerate() {
        let Some(source) = uses.copied(graph, at) else { continue };
        let all = earlier.entry((source.buffer, source.offset_bytes, graph.layers[at].transpose)).or_default();
        let own = uses.is_alone(graph, at);
        let same = |first: usize| {
            let narrow = graph.layers[first].sources[0].width < source.width;
            own && uses.is_written(source.buffer, first)
                && alike(graph, first, at)
                && (!narrow || uses.is_alone(graph, first))
        };
        let Some(&first) = all.iter().find(|&&first| same(first)) else {
            all.push(at);
            continue;
        };
        reasons.say(|| format!("readers of {} read {}", graph.layers[at].name, graph.layers[first].name));
        let [kept, own] = [first, at].map(|at| graph.layers[at].result);
        if graph.layers[first].sources[0].width < source.width {
            graph.layers[first].sources = vec![source];
            graph.layers[first].result = own;
            uses.writers[own.buffer.0 as usize] = vec![first];
            uses.redirect(graph, &kept, &own);
        } else {
            uses.redirect(graph, &own, &kept);
        }
        *removed = true;
    }
    retain(graph, &removed);
}

/// Returns true if two copies are of the same elements, or transposed copies of the same rows of which one has more columns.
fn alike(graph: &Graph, first: usize, second: usize) -> bool {
    let [a, b] = [first, second].map(|at| &graph.layers[at]);
    let form = |layer: &Layer| (layer.transpose, layer.interleave, layer.source_interleave);
    let rows = |view: &View4| (view.buffer, view.offset_bytes, layout(view).0);
    if form(a) != form(b) || rows(&a.sources[0]) != rows(&b.sources[0]) {
        return false;
    }
    let extents = |view: &View4| (view.axes.map(|axis| axis.extent), view.width);
    let [x, y] = [&a.result, &b.result];
    if a.sources[0].width == b.sources[0].width {
        return extents(&a.sources[0]) == extents(&b.sources[0])
            && x.elements().2 == y.elements().2
            && x.width == y.width;
    }
    let channels = |view: &View4| Some(view.axes[1]).filter(|axis| axis.extent > 1).map(|axis| axis.stride_bytes);
    let strides = [channels(x), channels(y)];
    let free = |view: &View4| {
        [view.axes[0], view.axes[2]].map(|axis| (axis.extent, if axis.extent > 1 { axis.stride_bytes } else { 0 }))
    };
    let plain = a.transpose && a.interleave == 1 && a.source_interleave == 1;
    plain && free(x) == free(y) && x.width == y.width && (strides.contains(&None) || strides[0] == strides[1])
}
