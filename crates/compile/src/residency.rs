//! Phase 4: which intermediate results stay in tile memory, and where.
//!
//! A result stays when one layer writes it, every reader addresses it as it was written, and it fits beside whatever the
//! layers of its life stage there. The allocation types of the book's table 22.2 that this stage gives are 0 (resident)
//! and 1 (streamed from memory). A resident result that outlives its group of tasks keeps a place in memory as well, to
//! which the device may save it where it switches tasks.

use crate::anec::*;
use anemone_facts::chips::Chip;
use std::fmt;

/// Banks of tile memory; each unit of an address is one bank wide.
pub(crate) const BANKS: u64 = 64;
/// Bytes of a unit.
pub(crate) const UNIT_BYTES: u64 = 16;
/// Rows that the neural engine reads together, and units that each needs free.
pub(crate) const NEURAL_ROWS: (u64, u64) = (8, 3);
/// The same for the planar engine.
pub(crate) const PLANAR_ROWS: (u64, u64) = (32, 2);
/// A result that lives for more layers than this goes to memory: it would keep too much from the others.
const LONGEST_LIFE: usize = 64;

/// A result in tile memory.
#[derive(Clone, Debug)]
pub struct Resident {
    /// Address in bytes.
    pub base_bytes: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it outlives its group of tasks.
    pub crosses: bool,
    /// Index of the layer that writes it.
    writer: usize,
    /// Index of the layer that reads it last.
    last: usize,
    /// The view that writes it.
    view: View4,
    /// Strides of its groups, channels and rows in tile memory.
    strides: [u64; 3],
}

impl Resident {
    /// Strides of groups, channels and rows, in bytes, for a view of what was written. Axes of one element have none.
    pub fn strides(&self, view: &View4) -> Option<[u64; 3]> {
        if (view.offset_bytes, view.width) != (self.view.offset_bytes, self.view.width) {
            return None;
        }
        let mut free = [true; 3];
        let mut strides = [0; 3];
        for (stride, axis) in strides.iter_mut().zip(&view.axes) {
            if axis.extent == 1 {
                continue;
            }
            let at = (0..3).find(|&i| free[i] && self.view.axes[i] == *axis)?;
            free[at] = false;
            *stride = self.strides[at];
        }
        // All of it is read: nothing else could be addressed by the same axes.
        (0..3).all(|i| !free[i] || self.view.axes[i].extent == 1).then_some(strides)
    }

    /// Index of the layer that writes it.
    pub fn writer(&self) -> usize {
        self.writer
    }

    /// Distance between two channels' columns.
    pub fn channel_bytes(&self) -> u64 {
        self.strides[1]
    }
}

/// Where results stand between layers.
#[derive(Clone, Debug, Default)]
pub struct Residency {
    /// By buffer.
    residents: Vec<Option<Resident>>,
    /// By layer: the group of tasks, between whose members the device does not switch.
    groups: Vec<usize>,
    /// By layer: first byte above everything that is resident while it runs.
    top: Vec<u64>,
}

impl Residency {
    /// Everything in memory; tasks in groups as given.
    pub fn none(graph: &Graph, groups: Vec<usize>) -> Residency {
        Residency { residents: vec![None; graph.buffers.len()], top: vec![0; groups.len()], groups }
    }

    /// Keeps what fits. `staged` is what each layer's operands need in tile memory when they come from memory.
    pub fn of(graph: &Graph, chip: &Chip, staged: &[u64]) -> Residency {
        let mut residency = Residency::none(graph, groups(graph));
        let Some(capacity) = chip.hal.l2_bytes else { return residency };
        let mut candidates = candidates(graph, &residency.groups);
        loop {
            residency.assign(&mut candidates, graph.layers.len());
            // The largest of those that leave too little room gives way.
            let tight: Vec<usize> =
                (0..graph.layers.len()).filter(|&i| residency.top[i] > 0 && residency.top[i] + staged[i] > capacity).collect();
            if tight.is_empty() {
                break;
            }
            for layer in tight {
                let live = candidates.iter().enumerate().filter(|(_, (_, r))| r.writer <= layer && layer <= r.last);
                if let Some((at, _)) = live.max_by_key(|(_, (_, r))| r.bytes) {
                    candidates.remove(at);
                }
            }
        }
        for (buffer, resident) in candidates {
            residency.residents[buffer] = Some(resident);
        }
        residency
    }

    /// Addresses: the last result first, each at the lowest free place.
    fn assign(&mut self, candidates: &mut [(usize, Resident)], layers: usize) {
        self.top = vec![0; layers];
        let mut placed: Vec<(usize, usize, u64, u64)> = Vec::new();
        for (_, r) in candidates.iter_mut().rev() {
            // Writers come in order, so what starts after this one's end cannot matter to any that follow.
            placed.retain(|p| p.0 <= r.last + LONGEST_LIFE);
            let mut others: Vec<(u64, u64)> =
                placed.iter().filter(|p| p.0 <= r.last && r.writer <= p.1).map(|p| (p.2, p.3)).collect();
            others.sort_unstable();
            let mut base = 0;
            for (start, end) in others {
                if base + r.bytes <= start {
                    break;
                }
                base = base.max(end);
            }
            r.base_bytes = base;
            placed.push((r.writer, r.last, base, base + r.bytes));
            for top in &mut self.top[r.writer..=r.last] {
                *top = (*top).max(base + r.bytes);
            }
        }
    }

    /// The resident behind a view.
    pub fn resident(&self, view: &View4) -> Option<&Resident> {
        self.residents[view.buffer.0 as usize].as_ref()
    }

    /// Whether a buffer needs no place in memory.
    pub fn stays(&self, buffer: usize) -> bool {
        self.residents[buffer].as_ref().is_some_and(|r| !r.crosses)
    }

    /// First byte of tile memory that a layer may stage into.
    pub fn top(&self, layer: usize) -> u64 {
        self.top[layer]
    }

    /// Whether a layer opens and whether it closes its group of tasks.
    pub fn opens_and_closes(&self, layer: usize) -> (bool, bool) {
        let group = |i: usize| self.groups.get(i);
        (layer == 0 || group(layer - 1) != group(layer), group(layer + 1) != group(layer))
    }
}

/// Groups as 9.509 cuts them: before coefficients, and before the neural engine takes over from the planar one.
fn groups(graph: &Graph) -> Vec<usize> {
    let mut group = 0;
    graph
        .layers
        .iter()
        .enumerate()
        .map(|(i, layer)| {
            let handed_back = i > 0 && layer.is_neural() && !graph.layers[i - 1].is_neural();
            group += usize::from(i > 0 && (layer.convolves() || handed_back));
            group
        })
        .collect()
}

/// Groups as 4.2.1 cuts them: the first task alone, then two by two.
pub fn groups_in_pairs(layers: usize) -> Vec<usize> {
    (0..layers).map(|i| i.div_ceil(2)).collect()
}

/// Buffers that could stay, in the order of their writers, not yet placed.
fn candidates(graph: &Graph, groups: &[usize]) -> Vec<(usize, Resident)> {
    #[derive(Default)]
    struct Uses {
        writers: Vec<usize>,
        readers: Vec<(usize, usize)>,
    }
    let mut uses: Vec<Uses> = Vec::new();
    uses.resize_with(graph.buffers.len(), Uses::default);
    for (i, layer) in graph.layers.iter().enumerate() {
        uses[layer.result.buffer.0 as usize].writers.push(i);
        for (s, source) in layer.sources.iter().enumerate() {
            uses[source.buffer.0 as usize].readers.push((i, s));
        }
    }
    let mut found: Vec<(usize, Resident)> = uses
        .iter()
        .enumerate()
        .filter_map(|(buffer, uses)| {
            let &[writer] = uses.writers.as_slice() else { return None };
            let &(last, _) = uses.readers.last()?;
            let scratch = graph.buffers[buffer].role == Role::Scratch;
            if !scratch || last <= writer || last - writer > LONGEST_LIFE || graph.layers[writer].interleave > 1 {
                return None;
            }
            let resident = resident(graph, groups, writer, last, &uses.readers);
            let reads = uses.readers.iter().all(|&(i, s)| {
                let layer = &graph.layers[i];
                let tensor = s == 0 || !layer.is_neural();
                tensor && layer.source_interleave == 1 && resident.strides(&layer.sources[s]).is_some()
            });
            reads.then_some((buffer, resident))
        })
        .collect();
    found.sort_by_key(|(_, r)| r.writer);
    found
}

fn resident(graph: &Graph, groups: &[usize], writer: usize, last: usize, readers: &[(usize, usize)]) -> Resident {
    let view = graph.layers[writer].result;
    let convolved = readers.iter().any(|&(i, _)| graph.layers[i].convolves());
    let neural = readers.iter().any(|&(i, _)| graph.layers[i].is_neural());
    let mut channel = (view.width as u64 * ELEMENT_BYTES).div_ceil(UNIT_BYTES);
    if convolved && view.height() == 1 && view.channels() > 1 {
        // An odd distance starts neighbouring channels in banks of their own.
        channel |= 1;
    }
    let mut row = channel * view.channels() as u64;
    if view.height() > 1 {
        let (rows, gap) = if neural { NEURAL_ROWS } else { PLANAR_ROWS };
        row = spread(row, 1, (rows.min(view.height() as u64), gap));
    }
    let group = row * view.height() as u64;
    Resident {
        base_bytes: 0,
        bytes: group * view.groups() as u64 * UNIT_BYTES,
        crosses: readers.iter().any(|&(i, _)| groups[i] != groups[writer]),
        writer,
        last,
        view,
        strides: [group, channel, row].map(|units| units * UNIT_BYTES),
    }
}

/// Smallest stride of at least `units` such that rows read together start in banks of their own: the search over
/// `(address / 16) mod 64` of the book, chapter 22. `step` is the rows' distance in the window.
pub(crate) fn spread(units: u64, step: u64, (rows, gap): (u64, u64)) -> u64 {
    (units..units + BANKS).find(|&s| bank_gap(s * step, rows) >= gap).unwrap_or(units)
}

/// Smallest distance between the banks of `rows` rows that are `stride` units apart.
fn bank_gap(stride: u64, rows: u64) -> u64 {
    let mut banks: Vec<u64> = (0..rows).map(|i| i * stride % BANKS).collect();
    banks.sort_unstable();
    let around = banks[0] + BANKS - banks[banks.len() - 1];
    banks.windows(2).map(|w| w[1] - w[0]).chain([around]).min().unwrap_or(BANKS)
}

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, resident) in self.residents.iter().enumerate() {
            let Some(r) = resident else { continue };
            let end = r.base_bytes + r.bytes;
            write!(f, "  %{i} L2 {:#x} .. {end:#x}, layers {} to {}", r.base_bytes, r.writer, r.last)?;
            writeln!(f, "{}", if r.crosses { ", saved at a switch" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_as_in_known_programs() {
        // Row units, step, engine and the stride that 9.509 chose.
        let seen = [
            (0x40, 1, NEURAL_ROWS, 0x43),
            (0x80, 1, NEURAL_ROWS, 0x83),
            (0x100, 1, NEURAL_ROWS, 0x103),
            (0x20, 1, NEURAL_ROWS, 0x22),
            (0x100, 2, NEURAL_ROWS, 0x102),
            (0x80, 2, NEURAL_ROWS, 0x82),
            (0x40, 1, PLANAR_ROWS, 0x42),
            (0x200, 1, PLANAR_ROWS, 0x202),
            (0x1, 1, PLANAR_ROWS, 0x2),
        ];
        for (units, step, engine, expected) in seen {
            assert_eq!(spread(units, step, engine), expected, "{units:#x} step {step}");
        }
    }
}
