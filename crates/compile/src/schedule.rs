//! Phase 3: the order of layers, and its partitions (the book, chapter 22).
//!
//! [`order`] determines the order. A partition is a run of layers whose results fit tile memory together: it ends before the
//! next layer's live range would push the peak over [`PARTITION_MARGIN`], and results needed beyond it are spilled to memory.

mod co_issue;
mod order;

use crate::ir::*;
use crate::legalize::Legal;
use crate::options::{Convention, Options};
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_facts::staging::PARTITION_MARGIN;
use std::fmt;

/// Layers in execution order, with the live range of each buffer.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) graph: Graph,
    /// First and last position at which each buffer is accessed; `None` for buffers that no layer accesses.
    pub(crate) live: Vec<Option<(usize, usize)>>,
    /// By layer: its partition.
    pub(crate) partitions: Vec<usize>,
    /// By layer: bytes of live results that could stay in tile memory.
    pressure_bytes: Vec<u64>,
    /// True if results may reuse on-chip places of others and be chained.
    pub(crate) shares: bool,
    budget: Budget,
}

/// Space of a partition.
#[derive(Clone, Copy, Debug)]
struct Budget {
    bytes: u64,
    /// Capacity of tile memory, if results that do not fit it beside what their layer reads do not count.
    beside: Option<u64>,
}

/// Fraction of tile memory at which a partition ends under the book's convention: "a margin fraction below one".
const PARTITION_MARGIN_OF_BOOK: (u64, u64) = (3, 4);

/// Orders the layers, as a single partition.
pub fn schedule(legal: Legal, chip: &Chip, options: &Options, reasons: &mut Remarks) -> Schedule {
    let graph = legal.into_graph();
    let capacity = chip.hal.l2_bytes.unwrap_or(u64::MAX);
    let order = order::order(&graph, capacity, options.conventions().all_ready_compared, reasons);
    of_order(in_order(graph, order), Budget { bytes: u64::MAX, beside: None }, reasons)
}

/// The graph with its layers in the given order.
fn in_order(mut graph: Graph, order: Vec<usize>) -> Graph {
    let mut layers: Vec<Option<Layer>> = std::mem::take(&mut graph.layers).into_iter().map(Some).collect();
    graph.layers = order.into_iter().filter_map(|i| layers[i].take()).collect();
    graph
}

/// Live ranges and partitions of a graph with ordered layers.
fn of_order(graph: Graph, budget: Budget, reasons: &mut Remarks) -> Schedule {
    let mut live: Vec<Option<(usize, usize)>> = vec![None; graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        for view in layer.sources.iter().chain([&layer.result]) {
            let range = live[view.buffer.0 as usize].get_or_insert((i, i));
            range.1 = i;
        }
    }
    let (partitions, pressure_bytes) = partition(&graph, &live, budget, reasons);
    Schedule { graph, live, partitions, pressure_bytes, shares: true, budget }
}

impl Schedule {
    /// Cuts the order into partitions.
    pub(crate) fn cut(self, chip: &Chip, options: &Options, reasons: &mut Remarks) -> Schedule {
        let capacity = chip.hal.l2_bytes.unwrap_or(u64::MAX);
        let margin = if options.convention == Convention::Book { PARTITION_MARGIN_OF_BOOK } else { PARTITION_MARGIN };
        let beside = options.conventions().places_by_use.then_some(capacity);
        let budget = Budget { bytes: (capacity / margin.1).saturating_mul(margin.0), beside };
        Schedule { shares: self.shares, ..of_order(self.graph, budget, reasons) }
    }

    /// The schedule with layers next to each other that the two engines may execute concurrently; `None` if no layer moves.
    pub(crate) fn paired(&self, reasons: &mut Remarks) -> Option<Schedule> {
        let order = co_issue::order(&self.graph, &self.partitions, reasons)?;
        let graph = in_order(self.graph.clone(), order);
        Some(Schedule { shares: self.shares, ..of_order(graph, self.budget, &mut Remarks::default()) })
    }
}

/// Bytes of the sources of a layer that were written before the layer in front of it: as a rule others have read them too, so that its
/// result does not replace them (`env_chain_softmax_h12_s256`: the operand, not its maximum).
fn kept_beside(graph: &Graph, live: &[Option<(usize, usize)>], layer: usize) -> u64 {
    let mut sources: Vec<usize> = graph.layers[layer].sources.iter().map(|s| s.buffer.0 as usize).collect();
    sources.sort_unstable();
    sources.dedup();
    let scratch =
        |&i: &usize| graph.buffers[i].role == Role::Scratch && live[i].is_some_and(|(first, _)| first + 1 < layer);
    sources.into_iter().filter(scratch).map(|i| graph.buffers[i].bytes).sum()
}

/// Starts a new partition where the live results exceed the budget. A result larger than the whole budget goes to memory
/// in any case and does not count.
fn partition(
    graph: &Graph,
    live: &[Option<(usize, usize)>],
    Budget { bytes: budget, beside }: Budget,
    reasons: &mut Remarks,
) -> (Vec<usize>, Vec<u64>) {
    let count = graph.layers.len();
    let (mut begin, mut end) = (vec![Vec::new(); count], vec![Vec::new(); count]);
    for (i, range) in live.iter().enumerate() {
        let buffer = &graph.buffers[i];
        if let Some((first, last)) = *range
            && buffer.role == Role::Scratch
            && buffer.bytes <= budget
            && beside.is_none_or(|capacity| buffer.bytes + kept_beside(graph, live, first) <= capacity)
        {
            begin[first].push(i);
            end[last].push(i);
        }
    }
    let (mut partitions, mut pressure_bytes) = (Vec::with_capacity(count), Vec::with_capacity(count));
    // Only buffers whose live range starts in this partition count.
    let (mut held, mut opened, mut at) = (0u64, 0, 0);
    for i in 0..count {
        let wanted: u64 = begin[i].iter().map(|&b| graph.buffers[b].bytes).sum();
        if held + wanted > budget && held > 0 {
            at += 1;
            reasons.say(|| {
                let name = &graph.layers[i].name;
                format!("partition {at} opens at layer {i} ({name}): {held} bytes live, {wanted} more, budget {budget}")
            });
            (held, opened) = (0, i);
        }
        held += wanted;
        partitions.push(at);
        pressure_bytes.push(held);
        let over = end[i].iter().filter(|&&b| live[b].is_some_and(|(first, _)| first >= opened));
        held -= over.map(|&b| graph.buffers[b].bytes).sum::<u64>();
    }
    (partitions, pressure_bytes)
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, layer) in self.graph.layers.iter().enumerate() {
            let (partition, bytes) = (self.partitions[i], self.pressure_bytes[i]);
            writeln!(f, "{i:5} partition {partition} pressure {bytes:#x} {} ; {}", layer.kind, layer.name)?;
        }
        for (i, live) in self.live.iter().enumerate() {
            if let Some((first, last)) = live {
                writeln!(f, "  %{i} lives {first}..={last} ; {}", self.graph.buffers[i].name)?;
            }
        }
        Ok(())
    }
}
