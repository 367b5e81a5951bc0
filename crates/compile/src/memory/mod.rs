//! Phase 4: assigns every buffer an address: a base register and an offset.
//!
//! Buffers with disjoint live ranges share scratch memory: larger ones are placed first, then longer-lived ones,
//! each at the lowest offset that is free during its live range.

mod allocation;
mod residency;

pub use allocation::Allocations;
pub use residency::{Place, Residency, Ways};

use crate::ir::*;
use crate::options::{Later, Options};
use crate::schedule::Schedule;
use crate::tile::{Staging, copies, staging};
use anemone_facts::chips::Chip;
use anemone_facts::staging::STAGED_INTERLEAVE;
use anemone_program::Program;
use anemone_program::order;
use residency::{groups, groups_in_pairs};
use std::fmt;

/// Address of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Base address register.
    pub bar: u8,
    /// Offset from it in bytes.
    pub offset_bytes: u64,
}

/// A schedule with addresses.
#[derive(Clone, Debug)]
pub struct Placed {
    pub graph: Graph,
    /// Address by buffer; `None` for buffers that no layer accesses.
    pub(crate) addresses: Vec<Option<Address>>,
    /// Size of the intermediate region.
    pub(crate) scratch_bytes: u64,
    /// Constant operands, first in the kernel section.
    pub(crate) constants: Vec<u8>,
    /// Results in tile memory.
    pub(crate) residency: Residency,
}

/// Selects the results that stay in tile memory; none unless `stay`.
pub fn reside(schedule: &Schedule, chip: &Chip, options: &Options, stay: bool) -> Residency {
    let graph = &schedule.graph;
    let spreads = !options.disabled.leaves(Later::Banks);
    let (conventions, allocations) = (options.conventions(), &Allocations::undecided(schedule.shares));
    if !conventions.results_stay_in_tile_memory {
        return Residency::none(graph, chip, allocations, groups_in_pairs(graph.layers.len())).spreading(spreads);
    }
    if !stay {
        return Residency::none(
            graph,
            chip,
            allocations,
            groups(graph, options.convention, options.conventions().maxima_of_channels),
        )
        .spreading(spreads);
    }
    let staged: Vec<Staging> = graph.layers.iter().map(|layer| staging(layer, spreads, chip)).collect();
    let grouped = groups(graph, options.convention, options.conventions().maxima_of_channels);
    let ways = Ways { conventions, chip, spreads };
    Residency::of(graph, chip, (allocations, grouped), &staged, &schedule.partitions, &ways).spreading(spreads)
}

/// Assigns addresses.
pub fn place(schedule: Schedule, mut residency: Residency, options: &Options) -> Placed {
    let Schedule { mut graph, live, .. } = schedule;
    if options.conventions().scratch_interleaved {
        interleave_scratch(&mut graph, &residency);
        residency.pair_readers(&graph);
    }
    let mut addresses = vec![None; graph.buffers.len()];
    let mut constants = Vec::new();
    // Ports: 4.2.1 numbers outputs first, then inputs; 9.509 sorts by name.
    let mut ports: Vec<&BufferId> = graph.outputs.iter().chain(&graph.inputs).collect();
    if options.conventions().ports_by_name {
        order::by_key(&mut ports, |id| &graph.buffer(**id).name);
    }
    for (i, id) in ports.into_iter().enumerate() {
        addresses[id.0 as usize] = Some(Address { bar: Program::FIRST_PORT_BAR + i as u8, offset_bytes: 0 });
    }
    let mut scratch: Vec<usize> = Vec::new();
    for (i, buffer) in graph.buffers.iter().enumerate() {
        match &buffer.role {
            Role::Constant(data) if live[i].is_some() => {
                constants.resize(constants.len().next_multiple_of(ROW_ALIGN as usize), 0);
                addresses[i] = Some(Address { bar: Program::KERNEL_BAR, offset_bytes: constants.len() as u64 });
                constants.extend_from_slice(data);
            }
            Role::Scratch if live[i].is_some() && residency.in_memory(i) => scratch.push(i),
            _ => {}
        }
    }
    let length = |i: usize| live[i].map_or(0, |(first, last)| last - first);
    order::by_key(&mut scratch, |&i| (std::cmp::Reverse(graph.buffers[i].bytes), std::cmp::Reverse(length(i)), i));
    // 9.509 places what is written first (`env_mm_r2rr_m128_k2048_n2048_tx1_ty1`: 512 KiB at 0, then 8 MiB).
    if options.conventions().places_by_use {
        // Buffers that also stay in tile memory come last (`chain_block_d256_s64_proj1`).
        order::by_key(&mut scratch, |&i| (residency.stays(i), live[i].map(|(first, _)| first)));
    }
    let mut taken: Vec<(usize, u64, u64)> = Vec::new();
    let mut scratch_bytes = 0;
    for &i in &scratch {
        let bytes = graph.buffers[i].bytes.next_multiple_of(ROW_ALIGN);
        let mut offset = 0;
        // Buffers with overlapping live ranges, by address: first fit.
        let mut others: Vec<(u64, u64)> = taken
            .iter()
            .filter(|(other, ..)| overlap(live[i], live[*other]))
            .map(|&(_, start, end)| (start, end))
            .collect();
        others.sort_unstable();
        for (start, end) in others {
            if offset + bytes <= start {
                break;
            }
            offset = offset.max(end);
        }
        taken.push((i, offset, offset + bytes));
        scratch_bytes = scratch_bytes.max(offset + bytes);
        addresses[i] = Some(Address { bar: Program::SCRATCH_BAR, offset_bytes: offset });
    }
    Placed { graph, addresses, scratch_bytes, constants, residency }
}

/// Interleaves by eight the channels of a matrix that a copy turns into scratch memory, if only convolutions read it
/// (`env_mm_r2rb_m512_k2048_n2048_tx0_ty1`, `env_mm_r3rb_m256_k4096_n2048_tx0_ty1_b1`).
fn interleave_scratch(graph: &mut Graph, residency: &Residency) {
    for (i, buffer) in graph.buffers.iter_mut().enumerate() {
        let of = |view: &View4| view.buffer.0 as usize == i;
        let (writers, rest): (Vec<&Layer>, Vec<&Layer>) = graph.layers.iter().partition(|l| of(&l.result));
        let readers: Vec<&Layer> = rest.into_iter().filter(|l| l.sources.iter().any(of)).collect();
        let &[writer] = writers.as_slice() else { continue };
        let view = writer.result;
        let [groups, channels, rows] = view.axes.map(|axis| axis.extent);
        let turned = copies(writer) && writer.transpose && view.offset_bytes == 0 && (groups, rows) == (1, 1);
        let convolved = |l: &&Layer| l.convolves() && l.source_interleave == 1 && l.sources == [view];
        let whole = channels.is_multiple_of(STAGED_INTERLEAVE) && !readers.is_empty() && readers.iter().all(convolved);
        if buffer.role != Role::Scratch || residency.resident(&view).is_some() || !turned || !whole {
            continue;
        }
        let set = ((view.width * STAGED_INTERLEAVE) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        buffer.bytes = set * (channels / STAGED_INTERLEAVE) as u64;
        for layer in &mut graph.layers {
            if of(&layer.result) {
                layer.interleave = STAGED_INTERLEAVE;
                layer.result.axes[1].stride_bytes = set;
            } else if layer.sources.first().is_some_and(of) {
                layer.source_interleave = STAGED_INTERLEAVE;
                layer.sources[0].axes[1].stride_bytes = set;
            }
        }
    }
}

fn overlap(a: Option<(usize, usize)>, b: Option<(usize, usize)>) -> bool {
    match (a, b) {
        (Some((a0, a1)), Some((b0, b1))) => a0 <= b1 && b0 <= a1,
        _ => false,
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "scratch {:#x} bytes, constants {:#x} bytes", self.scratch_bytes, self.constants.len())?;
        for (i, address) in self.addresses.iter().enumerate() {
            if let Some(Address { bar, offset_bytes }) = address {
                let buffer = &self.graph.buffers[i];
                writeln!(
                    f,
                    "  %{i} BAR {bar} + {offset_bytes:#x} .. {:#x} ; {}",
                    offset_bytes + buffer.bytes,
                    buffer.name
                )?;
            }
        }
        write!(f, "{}", self.residency)?;
        self.residency.allocations().write(&self.graph, f)
    }
}
