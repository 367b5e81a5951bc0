//! Phase 4: selection of the intermediate results that stay in tile memory, and their addresses there.
//!
//! A result stays if every layer that writes or reads it addresses it by whole axes, and it fits beside the operands that
//! the layers of its live range stage. A source that two neighbours read alike is loaded once and kept for the second. A
//! resident result that outlives its group of tasks also has an address in memory, to which the device may save it on a task
//! switch. `memory/allocation.rs` determines the allocation type of each buffer (book, table 22.2).

mod candidates;
mod display;
mod groups;
mod order;
mod parts;

pub use groups::{groups, groups_in_pairs};

use super::allocation::{Allocations, OnChip};
use crate::ir::*;
use crate::options::Conventions;
use crate::tile::{self, Staging};
use anemone_facts::chips::Chip;
use anemone_facts::staging::UNIT_BYTES;
use anemone_program::order::by_key;
use candidates::candidates;
use order::{
    attended, beyond, by_last_reader, held, larger_first, places, rank, reads_bytes, second_operand, single_table,
    still_read, takes,
};
use std::collections::HashSet;

/// Longest live range of a resident result, in layers; a longer one would take the space of too many others.
const LONGEST_LIFE: usize = 64;

/// Location of an operand in tile memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address in bytes.
    pub base_bytes: u64,
    /// Strides in bytes of channels, rows, depths and groups, in register order.
    pub strides: [u64; 4],
    /// True if the operand outlives its group of tasks, so that it needs an address in memory too.
    pub crosses: bool,
    /// Index of the layer that loaded or wrote it.
    pub from: usize,
    /// True if the layer `from` wrote it, false if it loaded it.
    pub written: bool,
    /// True if the layer `from` is its only writer.
    pub alone: bool,
}

/// Returns true if a result is the reduction of another one with the same layout.
fn reduces_alike(graph: &Graph, result: &Resident, source: &Resident) -> bool {
    let layer = &graph.layers[result.writer];
    let same = layer.sources[0].buffer == source.view.buffer && result.strides == source.strides;
    let reduces = matches!(layer.kind, Kind::Reduce { .. } | Kind::SumChannels { .. });
    reduces && same && result.bytes == source.bytes
}

/// A result that stays in tile memory.
#[derive(Clone, Debug)]
struct Resident {
    base_bytes: u64,
    bytes: u64,
    crosses: bool,
    /// The first reader in each other group.
    entries: Vec<usize>,
    /// True if a layer reads pieces of its columns as rows.
    pieces: bool,
    /// True if all its readers are copies.
    copied: bool,
    /// True if one layer writes all of it.
    alone: bool,
    /// True if one layer alone reads it.
    read_once: bool,
    /// Index of the layer that writes it first, and of the one that reads it last.
    writer: usize,
    last: usize,
    /// View of the whole result.
    view: View4,
    /// Strides of its groups, channels and rows in tile memory.
    strides: [u64; 3],
}

impl Resident {
    /// Strides of a view that splits one axis of this buffer into rows and channels: consecutive channels make a row.
    fn folded(&self, view: &View4) -> Option<[u64; 4]> {
        let ([_, channels, rows], whole) = (view.axes, self.view.axes[1]);
        let sets = rows.extent > 1 && rows.stride_bytes == channels.extent as u64 * channels.stride_bytes;
        let same = channels.stride_bytes == whole.stride_bytes && channels.extent * rows.extent == whole.extent;
        let alone = view.groups() == 1 && self.view.groups() == 1 && self.view.height() == 1;
        let channel = self.strides[1];
        (sets && same && alone).then(|| [channel, channel * channels.extent as u64, channel * whole.extent as u64, 0])
    }

    /// Offset and strides in bytes of a view that is completely in this buffer.
    fn strides(&self, view: &View4) -> Option<(u64, [u64; 4])> {
        let [_, channel, row] = self.strides;
        let offset_bytes = view.offset_bytes.checked_sub(self.view.offset_bytes)?;
        if let Some(strides) = self.folded(view).filter(|_| offset_bytes == 0) {
            return Some((0, strides));
        }
        // Own axes: extent, stride in memory, stride in tile memory.
        let columns = (self.view.width as u64, ELEMENT_BYTES, ELEMENT_BYTES);
        let axes = self.view.axes.iter().zip(self.strides).map(|(a, here)| (a.extent as u64, a.stride_bytes, here));
        let mut own: Vec<(u64, u64, u64)> = axes.filter(|a| a.0 > 1).chain([columns]).collect();
        by_key(&mut own, |&(_, memory, _)| std::cmp::Reverse(memory));
        let (mut offset, mut left) = (0, offset_bytes);
        for (extent, memory, here) in &mut own {
            let first = left.checked_div(*memory)?;
            *extent = extent.checked_sub(first).filter(|&extent| extent > 0)?;
            (offset, left) = (offset + first * *here, left - first * *memory);
        }
        let rows = self.view.axes[2];
        let along = view.axes.iter().any(|a| a.extent > 1 && a.stride_bytes == rows.stride_bytes);
        let one_row = rows.extent > 1 && !along;
        let mut strides = [0; 3];
        for (at, (stride, axis)) in strides.iter_mut().zip(&view.axes).enumerate() {
            // Every group reads the same (`env_bcast_mul_8x64x8x8_runtime_1x64x1x1`).
            if axis.extent == 1 || at == 0 && axis.stride_bytes == 0 {
                continue;
            }
            let reach = axis.extent as u64 - 1;
            let fits = |&&mut (extent, memory, _): &&mut (u64, u64, u64)| {
                memory > 0
                    && axis.stride_bytes > 0
                    && axis.stride_bytes.is_multiple_of(memory)
                    && reach * (axis.stride_bytes / memory) < extent
            };
            let (extent, memory, here) = own.iter_mut().find(fits)?;
            let step = axis.stride_bytes / *memory;
            *extent -= reach * step;
            *stride = step * *here;
        }
        let width = own.iter().find(|a| a.1 == ELEMENT_BYTES)?.0;
        let aligned = strides.iter().chain([&offset]).all(|bytes| bytes.is_multiple_of(UNIT_BYTES));
        if left > 0 || view.width as u64 > width || !aligned {
            return None;
        }
        let channels = if strides[1] == 0 { channel } else { strides[1] };
        // Part of the channels is in a depth of all of them; rows and groups that are read as channels keep their depth.
        let turned = [0, 2].into_iter().any(|axis| self.view.axes[axis].extent > 1 && channels == self.strides[axis]);
        let some = view.axes[1].stride_bytes == self.view.axes[1].stride_bytes;
        // Rows of a single channel too (`norm_softmax_a3_1x1x64x64`), unless the reader has pieces of them.
        let single = !self.pieces && self.view.channels() == 1 && self.view.height() > 1;
        let depth = match turned && view.channels() > 1 && (channels != channel || single) {
            true => channel * self.view.channels() as u64,
            false => channels * view.channels().max(if some { self.view.channels() } else { 1 }) as u64,
        };
        // Rows that are channels here: a single channel has all of them.
        let single = view.channels() == 1 && view.height() > 1 && strides[2] == channel && self.view.channels() > 1;
        let (channels, depth) =
            if single { (channel * view.height() as u64, channel * view.height() as u64) } else { (channels, depth) };
        // The single plane of rows in pieces is their depth (`env_chain_softmax_h1_s128`).
        let depth =
            if self.pieces && view.channels() == 1 { depth.max(strides[2] * view.height() as u64) } else { depth };
        let rows = match strides[2] {
            0 if one_row => row,
            0 => depth,
            stride => stride,
        };
        Some((offset, [channels, rows, depth, strides[0]]))
    }
}

/// Assignment of results to tile memory.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    /// Resident of each buffer.
    residents: Vec<Option<Resident>>,
    /// By layer: its group of tasks; the device does not switch inside a group.
    groups: Vec<usize>,
    /// By layer: high-water mark of the resident results while it runs.
    top: Vec<u64>,
    /// By layer: location where its first source from memory is kept for the next layer, and the index of that layer's source.
    kept: Vec<Option<(Place, usize)>>,
    /// By layer: true if it loads a source that a later one reads from tile memory.
    keeps: Vec<bool>,
    /// Allocation types, from which the addresses follow.
    allocations: Allocations,
    /// True if rows that are read together start in different banks.
    spreads: bool,
}

/// Layout of results in tile memory.
#[derive(Clone, Copy, Debug)]
pub struct Ways<'a> {
    pub(crate) conventions: &'a Conventions,
    pub(crate) chip: &'a Chip,
    /// True if rows that are read together start in different banks.
    pub(crate) spreads: bool,
}

impl Residency {
    /// A residency with all results in memory and the given groups of tasks.
    pub fn none(graph: &Graph, chip: &Chip, allocations: &Allocations, groups: Vec<usize>) -> Residency {
        let layers = groups.len();
        let allocations =
            allocations.decide(graph, chip, &OnChip { buffers: &HashSet::new(), takes: &[], groups: &groups });
        let (residents, top, kept) = (vec![None; graph.buffers.len()], vec![0; layers], vec![None; layers]);
        let keeps = vec![false; layers];
        Residency { residents, top, kept, keeps, groups, allocations, spreads: true }
    }

    /// Keeps results that fit within their partition; `staged` and `partitions` are by layer. Types are decided first; a
    /// result that does not fit beside them is spilled, and they are decided again. Tasks are grouped as given.
    pub fn of(
        graph: &Graph,
        chip: &Chip,
        (allocations, groups): (&Allocations, Vec<usize>),
        staged: &[Staging],
        partitions: &[usize],
        ways: &Ways,
    ) -> Residency {
        let mut residency = Residency::none(graph, chip, allocations, groups);
        let Some(capacity) = chip.hal.l2_bytes else { return residency };
        let mut candidates = candidates(graph, &residency.groups, ways);
        candidates.retain(|(_, r)| partitions[r.writer] == partitions[r.last] && r.bytes <= capacity);
        loop {
            let stays: HashSet<usize> = candidates.iter().map(|(buffer, _)| *buffer).collect();
            let takes = takes(graph, &candidates, ways.conventions);
            let on_chip = OnChip { buffers: &stays, takes: &takes, groups: &residency.groups };
            residency.allocations = allocations.decide(graph, chip, &on_chip);
            residency.assign(&mut candidates, graph, ways.conventions);
            let space = |i: usize| capacity.saturating_sub(staged[i].beside(&graph.layers[i], &stays));
            let tight: Vec<usize> = (0..graph.layers.len()).filter(|&i| residency.top[i] > space(i)).collect();
            if tight.is_empty() {
                break;
            }
            let tight = beyond(&candidates, tight, space);
            // If a layer has too little space, the live result with the furthest last use is spilled, for all layers of its
            // live range, before they are checked again.
            let mut relieved = 0;
            for layer in tight {
                if layer < relieved {
                    continue;
                }
                let live = candidates.iter().enumerate().filter(|(_, (_, r))| r.writer <= layer && layer <= r.last);
                if let Some((at, _)) = live.max_by_key(|(_, (_, r))| (r.last, r.bytes)) {
                    relieved = candidates.remove(at).1.last + 1;
                }
            }
        }
        for (buffer, resident) in candidates {
            residency.residents[buffer] = Some(resident);
        }
        residency.keep(graph, capacity, staged, ways.conventions);
        residency
    }

    /// Keeps sources that later layers of the group read with the same view.
    fn keep(&mut self, graph: &Graph, capacity: u64, staged: &[Staging], conventions: &Conventions) {
        for i in 0..graph.layers.len().saturating_sub(1) {
            let layer = &graph.layers[i];
            let view = layer.sources[0];
            let streamed = self.residents[view.buffer.0 as usize].is_none() && self.kept_for(i, 0).is_none();
            let bytes_alone = reads_bytes(graph, layer);
            let source = if bytes_alone { tile::kept_bytes(layer) } else { staged[i].source };
            let product = |layer: &Layer| conventions.matrices_apart && matches!(layer.kind, Kind::Product { .. });
            // A source that others read in parts is not kept, but one of several matrices.
            let port = graph.buffer(view.buffer).port.as_ref().filter(|port| port.elements() != view.count());
            let whole = port.is_none() || product(layer);
            let plain = (layer.source_interleave == 1 || product(layer)) && layer.broadcast[0] == [false; 3];
            let Some((bytes, strides)) = source.filter(|_| streamed && whole && plain) else { continue };
            // Later readers and their source, as long as each has space for its staged operands; every further one needs more.
            // Bytes have no other tile where they are kept.
            let stages = |at: usize, reads: bool| match bytes_alone && reads {
                true => staged[at].each.1,
                false => staged[at].bytes,
            };
            let (mut base_bytes, mut most) = (self.top[i], stages(i, true));
            let mut readers: Vec<(usize, usize)> = Vec::new();
            for j in (i + 1..graph.layers.len()).take_while(|_| layer.result.buffer != view.buffer) {
                let reads = self.reads_alike(graph, i, j);
                let (base, stages) = (base_bytes.max(self.top[j]), most.max(stages(j, reads.is_some())));
                if base + bytes + stages > capacity {
                    break;
                }
                let next = &graph.layers[j];
                let others = conventions.operands_kept && self.groups[i] == self.groups[j];
                match reads {
                    Some(source) => readers.push((j, source)),
                    // It stays while results in tile memory are computed (`chain_pair_add_ln_d256_s64`), and bytes also while operands
                    // are streamed (`select_rrb_1x8x375x375`).
                    None if others && (bytes_alone || self.stays_beside(next, view.buffer)) => {}
                    None => break,
                }
                (base_bytes, most) = (base, stages);
            }
            let Some(&(last, _)) = readers.last() else { continue };
            // An operand that the planar engine has just read is still in place (`norm_layer_norm_ax1_1x64x8x8`).
            let layers = &graph.layers;
            let next = layers.get(last + 1).is_some_and(|next| next.is_neural() && !layers[last].is_neural());
            let same = self.groups.get(last + 1) == self.groups.get(last);
            let end = if conventions.operands_kept && next && same { last + 1 } else { last };
            base_bytes = (i + 1..=end).fold(self.top[i], |base, j| base.max(self.top[j]));
            let place = Place { base_bytes, strides, crosses: false, from: i, written: false, alone: false };
            // Each layer stages its operands above it.
            self.top[i] = base_bytes;
            self.keeps[i] = true;
            self.top[i + 1..=last].fill(base_bytes + bytes);
            // An element is in use while the planar engine reads what was computed from it (`floor_r_1`).
            if end == last && same && conventions.operands_kept && view.count() == 1 && layers[last].is_neural() {
                self.top[last + 1] = self.top[last + 1].max(base_bytes + bytes);
            }
            for (reader, source) in readers {
                self.kept[reader - 1] = Some((place, source));
            }
        }
    }

    /// Returns true for a layer whose operands all stay in tile memory, apart from a buffer, and from computed coefficients, which go
    /// through memory (`chain_resattn_s64_d256`).
    fn stays_beside(&self, layer: &Layer, buffer: BufferId) -> bool {
        let stays = |view: &View4| view.buffer != buffer && self.residents[view.buffer.0 as usize].is_some();
        let (first, others) = layer.sources.split_at(1);
        let operands = first.iter().all(stays) && (layer.is_neural() || others.iter().all(stays));
        operands && (layer.interleave > 1 || stays(&layer.result))
    }

    /// Index of the source of layer `other` that is the same view as the first source of layer `first`, if both are in one group.
    fn reads_alike(&self, graph: &Graph, first: usize, other: usize) -> Option<usize> {
        let (view, next) = (graph.layers[first].sources[0], &graph.layers[other]);
        let same = |s: &usize| next.sources[*s].elements() == view.elements() && (*s == 0 || !next.is_neural());
        let source = (0..next.sources.len()).find(same)?;
        let products = [first, other].iter().all(|&at| matches!(graph.layers[at].kind, Kind::Product { .. }));
        let plain =
            (next.source_interleave == 1 || products) && next.broadcast[source] == [false; 3] && !next.turned[source];
        let unchanged = next.result.buffer != view.buffer;
        (plain && unchanged && self.groups[first] == self.groups[other]).then_some(source)
    }

    fn kept_for(&self, layer: usize, source: usize) -> Option<Place> {
        let (place, at) = self.kept.get(layer.checked_sub(1)?)?.as_ref()?;
        (*at == source).then_some(*place)
    }

    /// Returns true if a layer loads its first source from memory and keeps it in tile memory for the next layer.
    pub fn keeps(&self, layer: usize) -> bool {
        self.keeps[layer]
    }

    /// Location of a layer's source in tile memory; `None` if the source is streamed from memory.
    pub fn source(&self, layer: usize, source: usize, view: &View4) -> Option<Place> {
        self.kept_for(layer, source).or_else(|| {
            let place = self.resident(view)?;
            let entries = &self.residents[view.buffer.0 as usize].as_ref()?.entries;
            Some(Place { crosses: entries.contains(&layer), ..place })
        })
    }

    /// Location of a resident result in tile memory; `None` if the result goes to memory.
    pub fn resident(&self, view: &View4) -> Option<Place> {
        let r = self.residents[view.buffer.0 as usize].as_ref()?;
        let (offset, strides) = r.strides(view)?;
        let base_bytes = r.base_bytes + offset;
        Some(Place { base_bytes, strides, crosses: r.crosses, from: r.writer, written: true, alone: r.alone })
    }

    /// Assigns addresses from the last layer back, its sources in order, each first-fit over its live range. Results that are
    /// only copied come after equally large ones. An elementwise result reuses the place of its source if it is the
    /// last reader. As 9.509 has it, those of [`rank`] 0 come first.
    fn assign(&mut self, candidates: &mut [(usize, Resident)], graph: &Graph, conventions: &Conventions) {
        let layers = graph.layers.len();
        self.top = vec![0; layers];
        let first = places(candidates, &self.allocations);
        let mut order = by_last_reader(graph, candidates, &first);
        let mut last: Vec<usize> = candidates.iter().map(|(_, r)| r.last).collect();
        (0..candidates.len()).for_each(|i| last[first[i]] = last[first[i]].max(last[i]));
        for at in 1..order.len() {
            let [later, before] = [order[at - 1], order[at]].map(|i| (&candidates[i].1, last[i]));
            // An operand reduced to as many elements comes before its result (`norm_softmax_an1_1x256x1x1`).
            let in_turn = candidates.iter().zip(&first).filter(|(_, place)| **place == order[at]).map(|((_, r), _)| r);
            let reduced = conventions.places_by_use && in_turn.into_iter().any(|r| reduces_alike(graph, later.0, r));
            if reduced || later.0.copied && before.1 == later.0.writer && before.0.bytes >= later.0.bytes {
                order.swap(at - 1, at);
            }
        }
        if conventions.places_by_use {
            let single = |i: usize| single_table(graph, &candidates[i].1);
            by_key(&mut order, |&i| {
                let writer = if single(i) { candidates[i].1.writer } else { 0 };
                (rank(graph, candidates, &first, i), writer)
            });
            larger_first(graph, candidates, &first, &mut order);
            for i in 0..candidates.len() {
                last[first[i]] = last[first[i]].max(held(graph, candidates, i)).max(attended(graph, candidates, i));
            }
        }
        // Placed already, by layer of their live range.
        let mut placed: Vec<Vec<(u64, u64)>> = vec![Vec::new(); layers];
        let stays: HashSet<usize> = candidates.iter().map(|(buffer, _)| *buffer).collect();
        for i in order {
            // A reduction reads and writes elements in different banks.
            let beside = candidates.iter().position(|(_, before)| reduces_alike(graph, &candidates[i].1, before));
            let beside = beside.map(|at| candidates[first[at]].1.base_bytes).filter(|_| conventions.places_by_use);
            // The planar engine reads two elements, or two results combined with operands from memory, in different banks, the first one
            // behind the second (`floor_r_1`: 0x40 for 0).
            let other = conventions.places_by_use.then(|| second_operand(graph, candidates, i)).flatten();
            let other = other.map(|at| candidates[at].1.base_bytes);
            let single = conventions.places_by_use && single_table(graph, &candidates[i].1);
            let r = &mut candidates[i].1;
            let apart = |task: usize| conventions.places_by_use && still_read(graph, &self.groups, &stays, task);
            // A product takes the place of what the planar engine has read before it (`chain_resattn_s128_d256`).
            let product = matches!(graph.layers[r.writer].kind, Kind::Product { .. });
            // The place of what the product before has read stays taken while both are computed (`env_chain_mlp_m32_k4096_h4096`).
            let continues = conventions.places_by_use && tile::continues_product(graph, r.writer);
            let start = match r.writer > 0 && !product && apart(r.writer - 1) || continues {
                true => r.writer - 1,
                false => r.writer,
            };
            let end = if last[i] + 1 < layers && apart(last[i]) { last[i] + 1 } else { last[i] };
            let mut others: Vec<(u64, u64)> = placed[start..=end].iter().flatten().copied().collect();
            others.sort_unstable();
            let mut base = 0;
            for (start, end) in others {
                if base + r.bytes <= start {
                    break;
                }
                base = base.max(end);
            }
            if let Some(first) = other {
                base = tile::apart(first, base.max(first + r.bytes));
            } else if let Some(first) = beside.filter(|first| *first < base) {
                base = tile::apart(first, base);
            }
            r.base_bytes = base;
            let end = base + r.bytes;
            placed[r.writer..=last[i]].iter_mut().for_each(|list| list.push((base, end)));
            // An element is written while the task before it computes (`floor_div_comp_1_s2`).
            let from = if single { start } else { r.writer };
            self.top[from..=last[i]].iter_mut().for_each(|top| *top = (*top).max(end));
        }
        for i in 0..candidates.len() {
            candidates[i].1.base_bytes = candidates[first[i]].1.base_bytes;
        }
    }

    /// Allocation types.
    pub fn allocations(&self) -> &Allocations {
        &self.allocations
    }

    /// Bytes of results that go through memory, counted for every write and read.
    pub fn memory_bytes(&self, graph: &Graph) -> u64 {
        let views = graph.layers.iter().flat_map(|layer| layer.sources.iter().chain([&layer.result]));
        let moved = views.map(|view| view.buffer).filter(|id| graph.buffer(*id).role == Role::Scratch);
        moved.filter(|id| self.in_memory(id.0 as usize)).map(|id| graph.buffer(id).bytes).sum()
    }

    /// Returns true if a buffer needs an address in memory: it is allocated there, or saved there on a task switch.
    pub fn in_memory(&self, buffer: usize) -> bool {
        self.allocations.in_memory(buffer) || self.residents[buffer].as_ref().is_some_and(|r| r.crosses)
    }

    /// Returns true for a buffer with a place in tile memory.
    pub fn stays(&self, buffer: usize) -> bool {
        self.residents[buffer].is_some()
    }

    /// Returns true for the task of its group whose result is the last to be saved on a task switch; the last task if none is
    /// (`chain_block_d256_s64_proj1`: the copy before the last task).
    pub fn saves_last(&self, graph: &Graph, layer: usize) -> bool {
        let saves = |i: &usize| self.resident(&graph.layers[*i].result).is_some_and(|place| place.crosses);
        let group = self.groups.get(layer);
        let members = || (0..graph.layers.len()).filter(|&i| self.groups.get(i) == group);
        members().rfind(saves).or_else(|| members().next_back()) == Some(layer)
    }

    /// The same residency with or without rows in different banks.
    pub(crate) fn spreading(self, spreads: bool) -> Residency {
        Residency { spreads, ..self }
    }

    /// Returns true if rows that are read together start in different banks.
    pub(crate) fn spreads(&self) -> bool {
        self.spreads
    }

    /// First byte of tile memory that a layer may stage into.
    pub fn top(&self, layer: usize) -> u64 {
        self.top[layer]
    }

    /// Two flags: true if the layer is the first of its group of tasks, and true if it is the last.
    pub fn opens_and_closes(&self, layer: usize) -> (bool, bool) {
        let group = |i: usize| self.groups.get(i);
        (layer == 0 || group(layer - 1) != group(layer), group(layer + 1) != group(layer))
    }
}
