//! Phase 1: neighbours become one layer (the book, chapter 22, table 22.3).

use crate::anec::*;
use crate::passes::Reasons;
use std::collections::HashMap;

/// Who touches a scratch buffer: positions of layers that write and read it.
#[derive(Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// A ReLU that only follows convolutions or planar layers becomes part of them: the post-activation slot.
pub(crate) fn relu_into_producer(graph: &mut Graph, reasons: &mut Reasons) {
    let mut uses: HashMap<BufferId, Uses> = HashMap::new();
    for (i, layer) in graph.layers.iter().enumerate() {
        for source in &layer.sources {
            uses.entry(source.buffer).or_default().readers.push(i);
        }
        uses.entry(layer.result.buffer).or_default().writers.push(i);
    }
    let mut removed = vec![false; graph.layers.len()];
    for (i, buffer) in graph.buffers.iter().enumerate() {
        let Some(uses) = uses.get(&BufferId(i as u32)) else { continue };
        if buffer.role != Role::Scratch || uses.readers.len() != uses.writers.len() {
            continue;
        }
        // Every reader is a ReLU of exactly what one writer wrote.
        let pairs: Option<Vec<(usize, usize)>> = uses
            .readers
            .iter()
            .map(|&r| {
                let reader = &graph.layers[r];
                let mut same =
                    uses.writers.iter().filter(|&&w| same_elements(&graph.layers[w].result, &reader.sources[0]));
                let writer = *same.next()?;
                let plain = is_plain_relu(reader) && same.next().is_none() && takes_relu(&graph.layers[writer]);
                plain.then_some((writer, r))
            })
            .collect();
        for (writer, reader) in pairs.into_iter().flatten() {
            let result = graph.layers[reader].result;
            let layer = &mut graph.layers[writer];
            layer.result = in_place_of(&layer.result, &result);
            match &mut layer.kind {
                Kind::Conv { nonlinear, .. } => *nonlinear = Nonlinear::Relu,
                Kind::Planar { relu, .. } | Kind::Pool { relu, .. } => *relu = true,
                _ => continue,
            }
            reasons.say(|| format!("{} becomes part of {}", graph.layers[reader].name, graph.layers[writer].name));
            removed[reader] = true;
        }
    }
    let mut keep = removed.iter().map(|r| !r);
    graph.layers.retain(|_| keep.next().unwrap_or(true));
}

fn is_plain_relu(layer: &Layer) -> bool {
    let plain = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu };
    layer.kind == plain && !layer.transpose
}

fn takes_relu(layer: &Layer) -> bool {
    match &layer.kind {
        Kind::Conv { nonlinear, .. } => *nonlinear == Nonlinear::None,
        Kind::Planar { relu, .. } | Kind::Pool { relu, .. } => !relu,
        _ => false,
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
