//! List scheduling: the greedy scheduler of the book, chapter 22.
//!
//! The next layer is the first of the ready layers, those whose sources are written, by this sequence of keys: ring-buffer membership,
//! branch-sibling score, merge-sibling score, working set, topological order, number. The sequence and the names are the book's; the
//! definition of each score is our reading, stated with it. A layer is a member of a ring buffer if it is a native one that reads or
//! writes one. The lowered order is a topological one, so that position serves as order and number.
//!
//! Candidates are all ready layers; for the words of Apple's compilers, those that read what the last one read or wrote, and the
//! first of all.

use crate::ir::*;
use crate::remarks::Remarks;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Largest number of candidates that are compared at a time, the first in order.
const MOST_CANDIDATES: usize = 64;
/// Number of candidates that a remark names.
const TOLD: usize = 8;
/// Names of the keys, in order of precedence; topological order and number follow.
const KEYS: [&str; 4] = ["ring-buffer membership", "branch sibling", "merge sibling", "working set"];

/// Largest number of readers of one source that are compared with each other at a time.
const SIBLINGS: usize = 8;

/// Dependence graph. Nodes are layers, then joins: a join represents several layers that must all have run.
#[derive(Default)]
struct Waiting {
    /// By node: successors.
    after: Vec<Vec<usize>>,
    /// By node: number of predecessors.
    count: Vec<usize>,
}

/// A buffer's writers since it was last read, and its readers since then.
#[derive(Clone, Default)]
struct Epoch {
    /// Predecessors of every writer of this epoch.
    before: Option<usize>,
    writers: Vec<usize>,
    readers: Vec<usize>,
    /// The node that represents all writers.
    written: Option<usize>,
    /// Range of bytes that the writers access.
    hull: (u64, u64),
}

impl Waiting {
    fn edge(&mut self, from: usize, to: usize) {
        self.after[from].push(to);
        self.count[to] += 1;
    }

    /// A single node that represents all of these.
    fn join(&mut self, nodes: &[usize]) -> Option<usize> {
        if let [] | [_] = nodes {
            return nodes.first().copied();
        }
        let join = self.after.len();
        self.after.push(Vec::new());
        self.count.push(0);
        nodes.iter().for_each(|&node| self.edge(node, join));
        Some(join)
    }

    /// Dependences through a buffer: it is read after it is written, and written again after it is read. Writers of disjoint bytes do not wait
    /// for each other.
    fn of(graph: &Graph) -> Waiting {
        let count = graph.layers.len();
        let mut waiting = Waiting { after: vec![Vec::new(); count], count: vec![0; count] };
        let mut epochs: Vec<Epoch> = vec![Epoch::default(); graph.buffers.len()];
        for (i, layer) in graph.layers.iter().enumerate() {
            for source in &layer.sources {
                let epoch = &mut epochs[source.buffer.0 as usize];
                if epoch.written.is_none() {
                    epoch.written = waiting.join(&epoch.writers);
                }
                if let Some(written) = epoch.written {
                    waiting.edge(written, i);
                }
                epoch.readers.push(i);
            }
            let bytes = touched(graph, layer);
            let epoch = &mut epochs[layer.result.buffer.0 as usize];
            let apart = epoch.writers.is_empty() || bytes.0 >= epoch.hull.1 || bytes.1 <= epoch.hull.0;
            // A layer that updates in place waits only for the other readers.
            epoch.readers.retain(|&reader| reader != i);
            if !epoch.readers.is_empty() || !apart {
                let previous = match epoch.readers.as_slice() {
                    [] => waiting.join(&epoch.writers),
                    readers => waiting.join(readers),
                };
                *epoch = Epoch { before: previous, ..Epoch::default() };
            }
            if let Some(before) = epoch.before {
                waiting.edge(before, i);
            }
            epoch.hull = match epoch.writers.is_empty() {
                true => bytes,
                false => (epoch.hull.0.min(bytes.0), epoch.hull.1.max(bytes.1)),
            };
            epoch.written = None;
            epoch.writers.push(i);
        }
        waiting
    }
}

/// Byte range that a layer writes in its result's buffer: first byte, and one past the last.
fn touched(graph: &Graph, layer: &Layer) -> (u64, u64) {
    let view = &layer.result;
    if layer.interleave > 1 {
        return (0, graph.buffer(view.buffer).bytes);
    }
    let far: u64 = view.axes.iter().map(|a| (a.extent as u64).saturating_sub(1) * a.stride_bytes).sum();
    (view.offset_bytes, view.offset_bytes + far + view.width as u64 * ELEMENT_BYTES)
}

struct Scheduler<'a> {
    graph: &'a Graph,
    waiting: &'a Waiting,
    /// By node: predecessors that have not run.
    left: Vec<usize>,
    ready: BTreeSet<usize>,
    /// By buffer: ready layers that read it.
    readers: Vec<BTreeSet<usize>>,
    /// By buffer: number of reads left.
    reads: Vec<usize>,
    written: Vec<bool>,
    live_bytes: u64,
    capacity: u64,
    /// True if all ready layers are candidates; false for those near the last one.
    all: bool,
    /// By layer: largest working set of the branch that starts with it, computed on demand.
    footprint: Vec<Option<u64>>,
    last: Option<usize>,
}

/// Positions of the layers in execution order. `capacity` is that of tile memory in bytes.
pub(super) fn order(graph: &Graph, capacity: u64, all: bool, reasons: &mut Remarks) -> Vec<usize> {
    let waiting = Waiting::of(graph);
    let mut reads = vec![0; graph.buffers.len()];
    graph.layers.iter().flat_map(|l| &l.sources).for_each(|s| reads[s.buffer.0 as usize] += 1);
    let count = graph.layers.len();
    let mut scheduler = Scheduler {
        graph,
        left: waiting.count.clone(),
        waiting: &waiting,
        ready: BTreeSet::new(),
        readers: vec![BTreeSet::new(); graph.buffers.len()],
        reads,
        written: vec![false; graph.buffers.len()],
        live_bytes: 0,
        capacity,
        all,
        footprint: vec![None; count],
        last: None,
    };
    (0..count).filter(|&i| waiting.count[i] == 0).for_each(|i| scheduler.make_ready(i));
    let mut order = Vec::with_capacity(count);
    while let Some(next) = scheduler.next(reasons) {
        scheduler.take(next);
        order.push(next);
    }
    order
}

impl Scheduler<'_> {
    fn make_ready(&mut self, layer: usize) {
        self.ready.insert(layer);
        for source in &self.graph.layers[layer].sources {
            self.readers[source.buffer.0 as usize].insert(layer);
        }
    }

    /// The next layer: the best of the candidates.
    fn next(&mut self, reasons: &mut Remarks) -> Option<usize> {
        let first = *self.ready.first()?;
        let Some(last) = self.last else { return Some(first) };
        let candidates =
            if self.all { self.ready.iter().take(MOST_CANDIDATES).copied().collect() } else { self.near(first, last) };
        if let [only] = candidates[..] {
            return Some(only);
        }
        let scored: Vec<([u64; 4], usize)> = candidates.into_iter().map(|at| (self.score(at, last), at)).collect();
        let &(best_score, best) = scored.iter().max_by_key(|(score, at)| (*score, Reverse(*at)))?;
        reasons.say(|| {
            // The first key in which the best candidate differs from the next best.
            let others = scored.iter().filter(|(_, at)| *at != best);
            let next = others.max_by_key(|(score, at)| (*score, Reverse(*at))).map_or(best_score, |(score, _)| *score);
            let decided = (0..KEYS.len()).find(|&i| best_score[i] != next[i]).map_or("topological order", |i| KEYS[i]);
            let name = |at: usize| &self.graph.layers[at].name;
            let told: Vec<String> =
                scored.iter().take(TOLD).map(|(score, at)| format!("{at} ({}) {score:?}", name(*at))).collect();
            let more = if scored.len() > TOLD { format!(" and {} more", scored.len() - TOLD) } else { String::new() };
            format!("layer {best} ({}) by {decided}, of {}{more}", name(best), told.join(", "))
        });
        Some(best)
    }

    /// The first ready layer, and those that read what the last one read or wrote.
    fn near(&self, first: usize, last: usize) -> Vec<usize> {
        let mut near = vec![first];
        let layer = &self.graph.layers[last];
        for buffer in layer.sources.iter().chain([&layer.result]).map(|v| v.buffer.0 as usize) {
            near.extend(self.readers[buffer].iter().take(SIBLINGS));
        }
        near.sort_unstable();
        near.dedup();
        near
    }

    /// Scores for [`KEYS`], which precede topological order and number.
    fn score(&mut self, layer: usize, last: usize) -> [u64; 4] {
        [
            self.ring_buffer(layer),
            self.branch_sibling(layer, last),
            self.merge_sibling(layer),
            self.working_set(layer, last),
        ]
    }

    /// Ring-buffer membership: 1 for a native ring-buffer layer, else 0.
    fn ring_buffer(&self, layer: usize) -> u64 {
        u64::from(self.graph.layers[layer].holds_ring_buffer())
    }

    /// Branch-sibling score: 1 if the first source is that of the last layer, and it is a network input (loaded once for both; in our own
    /// order, for 9.509 continues the branch, `floor_r_1x64x1x1`) or both layers are 1x1 convolutions (the source's live range ends sooner; 9.509 puts the projections of one matrix next to each other,
    /// `docs/evidence.md`, key `h13-fusion`).
    fn branch_sibling(&self, layer: usize, last: usize) -> u64 {
        let (a, b) = (&self.graph.layers[layer], &self.graph.layers[last]);
        let from_memory = self.graph.buffer(a.sources[0].buffer).role == Role::Input;
        let product = |layer: &Layer| matches!(layer.kind, Kind::Conv { window: Window::UNIT, .. });
        let products = product(a) && product(b);
        // Coefficients that a product writes are computed when their reader's other operand is (`chain_block_d256_s64_proj1`).
        let products = products && a.interleave == 1;
        u64::from((from_memory && self.all || products) && a.sources[0] == b.sources[0])
    }

    /// Merge-sibling score: number of its readers' predecessors that have run, which completes joins that are nearly ready.
    fn merge_sibling(&self, layer: usize) -> u64 {
        let done = |&node: &usize| (self.waiting.count[node] - self.left[node]) as u64;
        self.waiting.after[layer].iter().take(SIBLINGS).map(done).max().unwrap_or(0)
    }

    /// Working-set score: continues the branch that was started. Of branches that start together, the one with the larger working set comes
    /// first, if it fits.
    fn working_set(&mut self, layer: usize, last: usize) -> u64 {
        let result = self.graph.layers[last].result.buffer;
        if self.graph.layers[layer].sources.iter().all(|s| s.buffer != result) {
            return 0;
        }
        let footprint = self.branch(layer);
        if self.live_bytes + footprint <= self.capacity { 1 + footprint } else { 1 }
    }

    /// Largest working set of the layers from here to where the branch forks or merges. Each layer is visited once.
    fn branch(&mut self, head: usize) -> u64 {
        let (mut path, mut at) = (Vec::new(), head);
        let mut peak = loop {
            if let Some(known) = self.footprint[at] {
                break known;
            }
            path.push(at);
            match self.waiting.after[at].as_slice() {
                &[next] if next < self.graph.layers.len() && self.waiting.count[next] == 1 => at = next,
                _ => break 0,
            }
        };
        let bytes = |view: &View4| match self.graph.buffer(view.buffer) {
            Buffer { role: Role::Scratch, bytes, .. } => *bytes,
            _ => 0,
        };
        for &at in path.iter().rev() {
            let layer = &self.graph.layers[at];
            peak = peak.max(layer.sources.iter().chain([&layer.result]).map(bytes).sum());
            self.footprint[at] = Some(peak);
        }
        peak
    }

    fn take(&mut self, layer: usize) {
        self.ready.remove(&layer);
        let graph = self.graph;
        let scratch = |buffer: usize| graph.buffers[buffer].role == Role::Scratch;
        let result = graph.layers[layer].result.buffer.0 as usize;
        if !std::mem::replace(&mut self.written[result], true) && scratch(result) {
            self.live_bytes += graph.buffers[result].bytes;
        }
        for source in &graph.layers[layer].sources {
            let buffer = source.buffer.0 as usize;
            self.readers[buffer].remove(&layer);
            self.reads[buffer] -= 1;
            if self.reads[buffer] == 0 && scratch(buffer) && self.written[buffer] {
                self.live_bytes -= graph.buffers[buffer].bytes;
            }
        }
        let mut done = vec![layer];
        while let Some(node) = done.pop() {
            for &next in &self.waiting.after[node] {
                self.left[next] -= 1;
                if self.left[next] > 0 {
                    continue;
                }
                if next < graph.layers.len() { self.make_ready(next) } else { done.push(next) }
            }
        }
        self.last = Some(layer);
    }
}
