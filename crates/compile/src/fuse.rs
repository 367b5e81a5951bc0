//! Phase 1: fusion of neighbouring layers (the book, chapter 22, table 22.3).

use crate::ir::*;
use crate::remarks::Remarks;
use half::f16;
use std::collections::HashMap;

/// Uses of a scratch buffer: positions of the layers that write and read it.
#[derive(Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// Fuses a unary function into the convolutions or planar layers that produce its operand: ReLU and tables go to the
/// post-activation slot, a factor to the gain. zin 9.509 does the same, one step from the layer on
/// (`docs/evidence.md`, key `h13-fusion`).
pub(crate) fn functions_into_producer(graph: &mut Graph, reasons: &mut Remarks) {
    let mut uses: HashMap<BufferId, Uses> = HashMap::new();
    for (i, layer) in graph.layers.iter().enumerate() {
        for source in &layer.sources {
            uses.entry(source.buffer).or_default().readers.push(i);
        }
        uses.entry(layer.result.buffer).or_default().writers.push(i);
    }
    let mut removed = vec![false; graph.layers.len()];
    // A layer that was taken into another: its readers follow that one.
    let mut now: Vec<usize> = (0..graph.layers.len()).collect();
    for (i, buffer) in graph.buffers.iter().enumerate() {
        let Some(uses) = uses.get(&BufferId(i as u32)) else { continue };
        if buffer.role != Role::Scratch {
            continue;
        }
        if let ([reader], [_, _, ..]) = (uses.readers.as_slice(), uses.writers.as_slice()) {
            let writers: Vec<usize> = uses.writers.iter().map(|&w| now[w]).collect();
            if let Some(layers) = into_parts(graph, &writers, &graph.layers[*reader]) {
                reasons.say(|| format!("{} becomes part of {} layers", graph.layers[*reader].name, writers.len()));
                for (&writer, layer) in writers.iter().zip(layers) {
                    graph.layers[writer] = layer;
                }
                removed[*reader] = true;
                now[*reader] = writers[0];
            }
            continue;
        }
        if uses.readers.len() != uses.writers.len() {
            continue;
        }
        // Every reader is such a function of exactly what one writer wrote.
        let pairs: Option<Vec<(usize, usize, Kind)>> = uses
            .readers
            .iter()
            .map(|&r| {
                let reader = &graph.layers[r];
                let writers = uses.writers.iter().map(|&w| now[w]);
                let mut same = writers.filter(|&w| same_elements(&graph.layers[w].result, &reader.sources[0]));
                let writer = same.next()?;
                let before = &graph.layers[writer];
                let alone = same.next().is_none() && is_plain(reader) && before.interleave == 1;
                let kind = match reader.interleave {
                    1 => together(&before.kind, &reader.kind)?,
                    // What the planar engine computes of two sources it can leave in sets.
                    _ if matches!(before.kind, Kind::Planar { .. }) && !before.transpose && copies(&reader.kind) => {
                        before.kind.clone()
                    }
                    _ => return None,
                };
                alone.then_some((writer, r, kind))
            })
            .collect();
        for (writer, reader, kind) in pairs.into_iter().flatten() {
            let (result, interleave) = (graph.layers[reader].result, graph.layers[reader].interleave);
            let layer = &mut graph.layers[writer];
            let same = (0..3).all(|i| layer.result.axes[i].extent == result.axes[i].extent);
            layer.result = if same && interleave > 1 { result } else { in_place_of(&layer.result, &result) };
            layer.interleave = interleave;
            layer.kind = kind;
            reasons.say(|| format!("{} becomes part of {}", graph.layers[reader].name, graph.layers[writer].name));
            removed[reader] = true;
            now[reader] = writer;
        }
    }
    retain(graph, &removed);
}

/// Fuses a ReLU of memory into the addition or product that alone reads it: that one reads its second source through a
/// ReLU. The two sources may be exchanged.
pub(crate) fn relu_into_reader(graph: &mut Graph, reasons: &mut Remarks) {
    let mut reads = vec![0usize; graph.buffers.len()];
    let mut writers: Vec<Vec<usize>> = vec![Vec::new(); graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        layer.sources.iter().for_each(|s| reads[s.buffer.0 as usize] += 1);
        writers[layer.result.buffer.0 as usize].push(i);
    }
    let relu = |layer: &Layer| layer.kind == Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu };
    let mut removed = vec![false; graph.layers.len()];
    for i in 0..graph.layers.len() {
        let layer = &graph.layers[i];
        let Kind::Planar { op, .. } = layer.kind else { continue };
        let either = op != PlanarOp::Sub && layer.broadcast == [[false; 3]; 2] && layer.turned == [false; 2];
        let found = [1, 0].into_iter().filter(|&s| s == 1 || either).find_map(|s| {
            let view = &layer.sources[s];
            let &[writer] = writers[view.buffer.0 as usize].as_slice() else { return None };
            let before = &graph.layers[writer];
            let alone = reads[view.buffer.0 as usize] == 1 && graph.buffer(view.buffer).role == Role::Scratch;
            let plain = relu(before) && is_plain(before) && before.interleave == 1 && !removed[writer];
            let memory = graph.buffer(before.sources[0].buffer).role == Role::Input;
            let same = before.result.elements() == view.elements();
            (alone && plain && memory && same && !layer.second_relu).then_some((s, writer))
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

/// Drops the layers that were fused into others.
fn retain(graph: &mut Graph, removed: &[bool]) {
    let mut keep = removed.iter().map(|r| !r);
    graph.layers.retain(|_| keep.next().unwrap_or(true));
}

/// The layers that together write the operand of a function, each fused with it; `None` where one of them cannot be.
fn into_parts(graph: &Graph, writers: &[usize], reader: &Layer) -> Option<Vec<Layer>> {
    let source = reader.sources.first().filter(|_| is_plain(reader) && reader.interleave == 1)?;
    let shape = |v: &View4| (v.axes.map(|a| (a.extent, if a.extent > 1 { a.stride_bytes } else { 0 })), v.width);
    let count = |v: &View4| v.groups() * v.channels() * v.height() * v.width;
    // Elements keep their distances, so that a part of the source is a part of the result.
    let parts: usize = writers.iter().map(|&w| count(&graph.layers[w].result)).sum();
    if shape(source) != shape(&reader.result) || parts != count(source) {
        return None;
    }
    let part = |&writer: &usize| {
        let layer = &graph.layers[writer];
        let at = layer.result.offset_bytes.checked_sub(source.offset_bytes)?;
        let plain = layer.interleave == 1 && layer.result.buffer == source.buffer;
        let kind = together(&layer.kind, &reader.kind).filter(|_| plain)?;
        let (buffer, offset_bytes) = (reader.result.buffer, reader.result.offset_bytes + at);
        Some(Layer { kind, result: View4 { buffer, offset_bytes, ..layer.result }, ..layer.clone() })
    };
    writers.iter().map(part).collect()
}

/// Whether a layer keeps the order of elements, interleaving apart.
fn is_plain(layer: &Layer) -> bool {
    !layer.transpose && layer.source_interleave == 1 && layer.sources.len() == 1
}

/// Whether a layer only moves elements.
fn copies(kind: &Kind) -> bool {
    matches!(scaled_function(kind), Some((1.0, Nonlinear::None)))
}

/// A layer fused with the function after it; `None` where no register holds both.
fn together(first: &Kind, second: &Kind) -> Option<Kind> {
    if let Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu } = second {
        match first.clone() {
            Kind::Planar { op, affine, relu: false } => return Some(Kind::Planar { op, affine, relu: true }),
            Kind::Pool { op, window, abs, affine, relu: false } => {
                return Some(Kind::Pool { op, window, abs, affine, relu: true });
            }
            _ => {}
        }
    }
    let (scale, function) = scaled_function(second)?;
    Some(match first.clone() {
        // f((sum + bias) * post_scale)
        Kind::Conv { window, connect, weights, bias, post_scale: 1.0, nonlinear: Nonlinear::None } => {
            Kind::Conv { window, connect, weights, bias, post_scale: scale, nonlinear: function }
        }
        Kind::Product { lanes, post_scale: 1.0 } if function == Nonlinear::None => {
            Kind::Product { lanes, post_scale: scale }
        }
        // A copy.
        Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None } => {
            Kind::Neuron { add: 0.0, post_scale: scale, nonlinear: function }
        }
        _ => return None,
    })
}

/// A layer as a factor and a function after it.
fn scaled_function(kind: &Kind) -> Option<(f32, Nonlinear)> {
    match kind {
        Kind::Neuron { add: 0.0, post_scale, nonlinear } => Some((*post_scale, nonlinear.clone())),
        Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine, relu } => {
            let Affine { final_scale, scale, .. } = *affine;
            let scales_only = *affine == Affine { final_scale, scale, ..Affine::UNIT };
            let factor = final_scale * scale;
            let exact = f16::from_f32(factor).to_f32() == factor;
            let function = if *relu { Nonlinear::Relu } else { Nonlinear::None };
            (scales_only && exact).then_some((factor, function))
        }
        _ => None,
    }
}

/// Same elements in the same order; axes of a single element do not count.
fn same_elements(a: &View4, b: &View4) -> bool {
    let axes = |v: &View4| v.axes.into_iter().filter(|a| a.extent > 1).collect::<Vec<_>>();
    a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.width == b.width && axes(a) == axes(b)
}

/// `to` with its axes in the places where `shape` has them; both have the same elements in the same order.
fn in_place_of(shape: &View4, to: &View4) -> View4 {
    let mut own = to.axes.into_iter().filter(|a| a.extent > 1);
    let axes = shape.axes.map(|a| if a.extent > 1 { own.next().unwrap_or(a) } else { a });
    View4 { axes, ..*to }
}
