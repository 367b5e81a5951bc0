//! Phase 1: neighbours become one layer (the book, chapter 22, table 22.3).

use crate::anec::*;
use crate::passes::Reasons;
use half::f16;
use std::collections::HashMap;

/// Who touches a scratch buffer: positions of layers that write and read it.
#[derive(Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// A function of one number that only follows convolutions or planar layers becomes part of them: ReLU and tables in the
/// post-activation slot, a factor in the gain. zin 9.509 does the same, one step from the layer on
/// (`docs/evidence.md`, key `h13-fusion`).
pub(crate) fn functions_into_producer(graph: &mut Graph, reasons: &mut Reasons) {
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
        if buffer.role != Role::Scratch || uses.readers.len() != uses.writers.len() {
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
                let alone = same.next().is_none() && is_plain(reader) && graph.layers[writer].interleave == 1;
                alone.then(|| Some((writer, r, together(&graph.layers[writer].kind, &reader.kind)?)))?
            })
            .collect();
        for (writer, reader, kind) in pairs.into_iter().flatten() {
            let result = graph.layers[reader].result;
            let layer = &mut graph.layers[writer];
            layer.result = in_place_of(&layer.result, &result);
            layer.kind = kind;
            reasons.say(|| format!("{} becomes part of {}", graph.layers[reader].name, graph.layers[writer].name));
            removed[reader] = true;
            now[reader] = writer;
        }
    }
    let mut keep = removed.iter().map(|r| !r);
    graph.layers.retain(|_| keep.next().unwrap_or(true));
}

/// Whether elements stay where they are.
fn is_plain(layer: &Layer) -> bool {
    !layer.transpose && layer.interleave == 1 && layer.source_interleave == 1 && layer.sources.len() == 1
}

/// A layer and the function after it as one; `None` where no register holds both.
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
