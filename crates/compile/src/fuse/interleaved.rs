//! Steps behind copies that interleave channels, as those of transposed convolutions do: they move before the copy.

use super::{Rules, composed, copies, is_plain, retain, same_strides};
use crate::ir::*;
use crate::remarks::Remarks;
use std::collections::HashMap;

/// Layers that write and read each buffer.
#[derive(Default)]
struct Users {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

/// Fuses a step that reads an interleaving copy into the layer whose result alone is copied. Steps compute each element by itself, so that
/// their order with a copy does not matter. Returns true if a layer was fused.
pub(super) fn take(graph: &mut Graph, rules: Rules, reasons: &mut Remarks) -> bool {
    let mut users: HashMap<BufferId, Users> = HashMap::new();
    for (i, layer) in graph.layers.iter().enumerate() {
        layer.sources.iter().for_each(|source| users.entry(source.buffer).or_default().readers.push(i));
        users.entry(layer.result.buffer).or_default().writers.push(i);
    }
    let mut removed = vec![false; graph.layers.len()];
    for reader in 0..graph.layers.len() {
        let here = |(copies, maker): &(Vec<usize>, usize)| !removed[*maker] && copies.iter().all(|&c| !removed[c]);
        let Some((copies, maker)) = before(graph, &users, reader).filter(here) else { continue };
        let Some(kind) = composed(&graph.layers[maker], &graph.layers[reader].kind, rules) else { continue };
        reasons.say(|| format!("{} becomes part of {}", graph.layers[reader].name, graph.layers[maker].name));
        graph.layers[maker].kind = kind;
        let (from, to) = (graph.layers[reader].sources[0].offset_bytes, graph.layers[reader].result);
        for copy in copies {
            let result = &mut graph.layers[copy].result;
            let offset_bytes = to.offset_bytes + (result.offset_bytes - from);
            *result = View4 { buffer: to.buffer, offset_bytes, ..*result };
        }
        removed[reader] = true;
    }
    let taken = removed.contains(&true);
    retain(graph, &removed);
    taken
}

/// The interleaving copies whose results a layer alone reads, and the layer whose result those copies alone read.
fn before(graph: &Graph, users: &HashMap<BufferId, Users>, reader: usize) -> Option<(Vec<usize>, usize)> {
    let layer = &graph.layers[reader];
    let of = |view: &View4| users.get(&view.buffer).filter(|_| graph.buffer(view.buffer).role == Role::Scratch);
    let source = layer.sources.first().filter(|_| is_plain(layer) && layer.interleave == 1)?;
    let copied = of(source).filter(|users| users.readers == [reader])?;
    let moves = |&at: &usize| {
        let copy = &graph.layers[at];
        let interleaves = copy.interleave > 1 && is_plain(copy) && copies(&copy.kind);
        interleaves && copy.result.offset_bytes >= source.offset_bytes
    };
    // The copies write all that the layer reads, and the layer's result lies as its source does.
    let count = |v: &View4| v.groups() * v.channels() * v.height() * v.width;
    let written: usize = copied.writers.iter().map(|&at| count(&graph.layers[at].result)).sum();
    let whole = written == count(source) && same_strides(source, &layer.result);
    if !whole || !copied.writers.iter().all(moves) {
        return None;
    }
    let made = of(&graph.layers[*copied.writers.first()?].sources[0])?;
    let alone = made.readers == copied.writers && made.writers.len() == 1;
    alone.then(|| (copied.writers.clone(), made.writers[0]))
}
