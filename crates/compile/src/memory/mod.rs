//! Phase 4: assigns every buffer an address: a base register and an offset.
//!
//! Buffers with disjoint live ranges share scratch memory: larger ones are placed first, then longer-lived ones,
//! each at the lowest offset that is free during its live range.

mod allocation;
mod interleave;
mod residency;

pub use allocation::Allocations;
pub use residency::{Place, Residency, Ways};

use crate::ir::*;
use crate::options::{Later, Options};
use crate::schedule::Schedule;
use crate::tile::{Staging, staging};
use anemone_facts::chips::Chip;
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
        interleave::matrices(&mut graph, &residency);
        interleave::exchanged(&mut graph, &residency);
        interleave::constants(&mut graph);
        residency.pair_readers(&graph);
        residency.part_exchanges(&graph);
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
    // 9.509 places what lives longest, then what is written first (`select_rrb_1x8x375x375`: a product before its factor;
    // `env_mm_r2rr_m128_k2048_n2048_tx1_ty1`: 512 KiB at 0, then 8 MiB).
    if options.conventions().places_by_use {
        // Buffers that also stay in tile memory come last (`chain_block_d256_s64_proj1`).
        order::by_key(&mut scratch, |&i| {
            (residency.stays(i), std::cmp::Reverse(length(i)), live[i].map(|(first, _)| first))
        });
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
