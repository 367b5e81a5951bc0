//! Co-issue: concurrent execution of a neural and a planar layer without dependences (the book, chapter 22).
//!
//! The search runs over the scheduled layers. A pair is disqualified if both run on one engine, if one reads what the other writes, if one
//! of them is chained to a neighbour, or if both results are streamed, unless the neural layer is a product, whose matrix is
//! resident. A qualified layer is moved next to its partner if the layers in between do not depend on its position.

use crate::ir::*;
use crate::remarks::Remarks;

/// Number of following layers that are tried as a layer's partner.
const REACH: usize = 48;

/// Order with partners next to each other, and the positions of the pairs in it; `None` if no layer moves.
pub(super) fn order(graph: &Graph, partitions: &[usize], reasons: &mut Remarks) -> Option<Vec<usize>> {
    let mut order: Vec<usize> = (0..graph.layers.len()).collect();
    let mut readers = vec![0usize; graph.buffers.len()];
    graph.layers.iter().flat_map(|l| &l.sources).for_each(|s| readers[s.buffer.0 as usize] += 1);
    let uses = Uses { graph, readers };
    let (mut at, mut moved) = (0, false);
    while at + 1 < order.len() {
        if uses.qualifies(&order, at, at + 1) {
            at += 2;
            continue;
        }
        let end = (at + 1 + REACH).min(order.len());
        let partner = (at + 2..end).find(|&other| {
            let near = partitions[order[other]] == partitions[order[at]];
            // A layer with a partner next to it keeps it.
            let paired = uses.qualifies(&order, other - 1, other) || uses.qualifies(&order, other, other + 1);
            near && !paired && uses.qualifies(&order, at, other) && uses.movable(&order, at + 1, other)
        });
        if let Some(other) = partner {
            let name = |at: usize| &graph.layers[order[at]].name;
            reasons.say(|| format!("{} is put beside {}: the two engines work at once", name(other), name(at)));
            order[at + 1..=other].rotate_right(1);
            (at, moved) = (at + 2, true);
        } else {
            at += 1;
        }
    }
    moved.then_some(order)
}

struct Uses<'a> {
    graph: &'a Graph,
    /// By buffer: number of reads.
    readers: Vec<usize>,
}

impl Uses<'_> {
    fn layer(&self, order: &[usize], at: usize) -> Option<&Layer> {
        order.get(at).map(|&i| &self.graph.layers[i])
    }

    /// Returns true if the layer at a position is the only reader of the result of the one before it, on the same engine.
    fn chainable(&self, order: &[usize], at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.layer(order, before));
        let (Some(from), Some(to)) = (before, self.layer(order, at)) else { return false };
        let result = from.result.buffer;
        let alone = self.readers[result.0 as usize] == 1 && to.sources.iter().any(|s| s.buffer == result);
        alone && from.is_neural() == to.is_neural()
    }

    /// Returns true if nothing disqualifies two layers as a pair.
    fn qualifies(&self, order: &[usize], one: usize, other: usize) -> bool {
        let (Some(a), Some(b)) = (self.layer(order, one), self.layer(order, other)) else { return false };
        let reads = |a: &Layer, b: &Layer| a.sources.iter().any(|s| s.buffer == b.result.buffer);
        let streamed = |l: &Layer| self.graph.buffer(l.result.buffer).role == Role::Output;
        let neural = if a.is_neural() { a } else { b };
        let product = matches!(neural.kind, Kind::Product { .. });
        let chained = [one, one + 1, other, other + 1].into_iter().any(|at| self.chainable(order, at));
        a.is_neural() != b.is_neural()
            && neural.convolves()
            && !reads(a, b)
            && !reads(b, a)
            && a.result.buffer != b.result.buffer
            && !chained
            && (product || !(streamed(a) && streamed(b)))
    }

    /// Returns true if the layer at `from` does not depend on those from `to` on.
    fn movable(&self, order: &[usize], to: usize, from: usize) -> bool {
        let Some(layer) = self.layer(order, from) else { return false };
        let (sources, result) = (&layer.sources, layer.result.buffer);
        (to..from).filter_map(|at| self.layer(order, at)).all(|between| {
            let writes = between.result.buffer;
            writes != result
                && sources.iter().all(|s| s.buffer != writes)
                && between.sources.iter().all(|s| s.buffer != result)
        })
    }
}
