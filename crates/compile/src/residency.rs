//! Phase 4: which intermediate results stay in tile memory, and where.
//!
//! A result stays when every layer that writes or reads it addresses it by whole axes, and it fits beside whatever the
//! layers of its life stage there. A source that two neighbours read alike is brought once and kept for the second. What
//! the book's table 22.2 calls each buffer then is told in `place/allocation.rs`. A resident result that outlives its group of tasks keeps a place in memory as well, to which the device may save it
//! where it switches tasks.

use crate::anec::*;
use anemone_facts::chips::Chip;
use anemone_facts::staging::{BANKS, FEW_NEURAL_BANKS, NEURAL_BANKS, PLANAR_BANKS, UNIT_BYTES};
use std::collections::HashSet;
use std::fmt;

/// A result that lives for more layers than this goes to memory: it would keep too much from the others.
const LONGEST_LIFE: usize = 64;

/// An operand's place in tile memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Address in bytes.
    pub base_bytes: u64,
    /// Distances in bytes between channels, rows, depths and groups, in the order in which registers have them.
    pub strides: [u64; 4],
    /// Whether the operand outlives its group of tasks, so that its place in memory is stated too.
    pub crosses: bool,
    /// Index of the layer that brought it or wrote it.
    pub from: usize,
    /// Whether that layer wrote it.
    pub written: bool,
}

/// How a layer's source from memory is staged: only one that is staged whole can be kept.
#[derive(Clone, Copy, Debug)]
pub struct Staging {
    /// All operands, were they all from memory.
    pub bytes: u64,
    /// What each source takes of it, and the result.
    pub each: ([u64; 2], u64),
    /// The first source and its strides, where it is staged whole.
    pub source: Option<(u64, [u64; 4])>,
}

impl Staging {
    /// What operands take that do not stay: the others stand where they are.
    fn beside(&self, layer: &Layer, stays: &HashSet<usize>) -> u64 {
        let moves = |view: &View4| !stays.contains(&(view.buffer.0 as usize));
        let (sources, result) = self.each;
        let sources = layer.sources.iter().zip(sources).filter(|(view, _)| moves(view)).map(|(_, bytes)| bytes);
        sources.sum::<u64>() + if moves(&layer.result) { result } else { 0 }
    }
}

/// A result in tile memory.
#[derive(Clone, Debug)]
struct Resident {
    base_bytes: u64,
    bytes: u64,
    crosses: bool,
    /// Whether only copies read it.
    copied: bool,
    /// Index of the layer that writes it first, and of the one that reads it last.
    writer: usize,
    last: usize,
    /// All of it.
    view: View4,
    /// Strides of its groups, channels and rows in tile memory.
    strides: [u64; 3],
}

impl Resident {
    /// Strides of a view whose channels and rows are one axis here: its channels follow each other, its rows are sets of
    /// them.
    fn folded(&self, view: &View4) -> Option<[u64; 4]> {
        let ([_, channels, rows], whole) = (view.axes, self.view.axes[1]);
        let sets = rows.extent > 1 && rows.stride_bytes == channels.extent as u64 * channels.stride_bytes;
        let same = channels.stride_bytes == whole.stride_bytes && channels.extent * rows.extent == whole.extent;
        let alone = view.groups() == 1 && self.view.groups() == 1 && self.view.height() == 1;
        let channel = self.strides[1];
        (sets && same && alone).then(|| [channel, channel * channels.extent as u64, channel * whole.extent as u64, 0])
    }

    /// Offset and strides, in bytes, of a view that picks whole axes; the offset runs along rows.
    fn strides(&self, view: &View4) -> Option<(u64, [u64; 4])> {
        if view.width != self.view.width {
            return None;
        }
        let [_, channel, row] = self.strides;
        let rows = self.view.axes[2];
        let offset = view.offset_bytes.checked_sub(self.view.offset_bytes)?;
        let first = if offset == 0 { 0 } else { offset.checked_div(rows.stride_bytes)? };
        if first * rows.stride_bytes != offset || first >= rows.extent as u64 {
            return None;
        }
        if let Some(strides) = self.folded(view).filter(|_| offset == 0) {
            return Some((0, strides));
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
        // Rows may be picked one at a time, everything else is read whole.
        let left = |i: usize| free[i] && self.view.axes[i].extent > 1;
        if left(0) || left(1) || offset > 0 && !left(2) {
            return None;
        }
        let one_row = left(2);
        let channels = if strides[1] == 0 { channel } else { strides[1] };
        let depth = channels * view.channels() as u64;
        let rows = match strides[2] {
            0 if one_row => row,
            0 => depth,
            stride => stride,
        };
        Some((first * row, [channels, rows, depth, strides[0]]))
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
    /// By layer: where its first source from memory is kept for the next layer, and which source of that one it is.
    kept: Vec<Option<(Place, usize)>>,
}

impl Residency {
    /// Everything in memory; tasks in groups as given.
    pub fn none(graph: &Graph, groups: Vec<usize>) -> Residency {
        let layers = groups.len();
        Residency { residents: vec![None; graph.buffers.len()], top: vec![0; layers], kept: vec![None; layers], groups }
    }

    /// Keeps what fits and does not outlive its partition; `staged` and `partitions` are by layer.
    pub fn of(graph: &Graph, chip: &Chip, staged: &[Staging], partitions: &[usize]) -> Residency {
        let mut residency = Residency::none(graph, groups(graph));
        let Some(capacity) = chip.hal.l2_bytes else { return residency };
        let mut candidates = candidates(graph, &residency.groups);
        candidates.retain(|(_, r)| partitions[r.writer] == partitions[r.last]);
        loop {
            residency.assign(&mut candidates, graph.layers.len());
            // Of those that leave too little room the one gives way that is needed for longest, for all layers of its life.
            let stays: HashSet<usize> = candidates.iter().map(|(buffer, _)| *buffer).collect();
            let tight: Vec<usize> = (0..graph.layers.len())
                .filter(|&i| residency.top[i] > 0)
                .filter(|&i| residency.top[i] + staged[i].beside(&graph.layers[i], &stays) > capacity)
                .collect();
            if tight.is_empty() {
                break;
            }
            let mut eased = 0;
            for layer in tight {
                let live = candidates.iter().enumerate().filter(|(_, (_, r))| r.writer <= layer && layer <= r.last);
                if layer >= eased
                    && let Some((at, _)) = live.max_by_key(|(_, (_, r))| (r.last, r.bytes))
                {
                    eased = candidates.remove(at).1.last + 1;
                }
            }
        }
        for (buffer, resident) in candidates {
            residency.residents[buffer] = Some(resident);
        }
        residency.keep(graph, capacity, staged);
        residency
    }

    /// Sources that the next layer of the group reads alike stay for it.
    fn keep(&mut self, graph: &Graph, capacity: u64, staged: &[Staging]) {
        for i in 0..graph.layers.len().saturating_sub(1) {
            let (layer, next) = (&graph.layers[i], &graph.layers[i + 1]);
            let view = layer.sources[0];
            let streamed = self.residents[view.buffer.0 as usize].is_none() && self.kept_for(i, 0).is_none();
            let alike = next
                .sources
                .iter()
                .position(|s| s.elements() == view.elements())
                .filter(|&s| s == 0 || !next.is_neural());
            let (Some((bytes, strides)), Some(source)) = (staged[i].source, alike) else { continue };
            let base_bytes = self.top[i].max(self.top[i + 1]);
            let fits = base_bytes + bytes + staged[i].bytes.max(staged[i + 1].bytes) <= capacity;
            let plain = [layer, next].iter().all(|l| l.source_interleave == 1) && layer.result.buffer != view.buffer;
            let repeated = layer.broadcast[0] != [false; 3] || next.broadcast[source] != [false; 3];
            if !streamed || !fits || !plain || repeated || self.groups[i] != self.groups[i + 1] {
                continue;
            }
            let place = Place { base_bytes, strides, crosses: false, from: i, written: false };
            self.kept[i] = Some((place, source));
            // What either layer stages lies above it.
            self.top[i] = base_bytes;
            self.top[i + 1] = base_bytes + bytes;
        }
    }

    fn kept_for(&self, layer: usize, source: usize) -> Option<Place> {
        let (place, at) = self.kept.get(layer.checked_sub(1)?)?.as_ref()?;
        (*at == source).then_some(*place)
    }

    /// Whether a layer's first source, which comes from memory, stays for the next layer.
    pub fn keeps(&self, layer: usize) -> bool {
        self.kept[layer].is_some()
    }

    /// Where a source of a layer stands in tile memory already; `None` where it comes from memory.
    pub fn source(&self, layer: usize, source: usize, view: &View4) -> Option<Place> {
        self.kept_for(layer, source).or_else(|| self.resident(view))
    }

    /// Where a result stays; `None` where it goes to memory.
    pub fn resident(&self, view: &View4) -> Option<Place> {
        let r = self.residents[view.buffer.0 as usize].as_ref()?;
        let (offset, strides) = r.strides(view)?;
        let base_bytes = r.base_bytes + offset;
        Some(Place { base_bytes, strides, crosses: r.crosses, from: r.writer, written: true })
    }

    /// Addresses: the last result first, each at the lowest place that is free while it lives. What is only copied on
    /// gives way to a result before it that is as large.
    fn assign(&mut self, candidates: &mut [(usize, Resident)], layers: usize) {
        self.top = vec![0; layers];
        let mut order: Vec<usize> = (0..candidates.len()).rev().collect();
        for at in 1..order.len() {
            let (later, before) = (&candidates[order[at - 1]].1, &candidates[order[at]].1);
            if later.copied && before.last == later.writer && before.bytes >= later.bytes {
                order.swap(at - 1, at);
            }
        }
        // What is placed already, by layer during which it lives.
        let mut placed: Vec<Vec<(u64, u64)>> = vec![Vec::new(); layers];
        for i in order {
            let r = &mut candidates[i].1;
            let mut others: Vec<(u64, u64)> = placed[r.writer..=r.last].iter().flatten().copied().collect();
            others.sort_unstable();
            let mut base = 0;
            for (start, end) in others {
                if base + r.bytes <= start {
                    break;
                }
                base = base.max(end);
            }
            r.base_bytes = base;
            let end = base + r.bytes;
            placed[r.writer..=r.last].iter_mut().for_each(|list| list.push((base, end)));
            self.top[r.writer..=r.last].iter_mut().for_each(|top| *top = (*top).max(end));
        }
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

/// Groups as 9.509 cuts them: before coefficients unless the layer before has some too, and before the neural engine takes
/// over from the planar one.
pub fn groups(graph: &Graph) -> Vec<usize> {
    let mut group = 0;
    graph
        .layers
        .iter()
        .enumerate()
        .map(|(i, layer)| {
            let cut = i.checked_sub(1).is_some_and(|before| {
                let before = &graph.layers[before];
                layer.convolves() && !before.convolves() || layer.is_neural() && !before.is_neural()
            });
            group += usize::from(cut);
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
            let (&writer, &(last, _)) = (uses.writers.first()?, uses.readers.last()?);
            let scratch = graph.buffers[buffer].role == Role::Scratch;
            if !scratch || last <= writer || last - writer > LONGEST_LIFE {
                return None;
            }
            let resident = resident(graph, groups, writer, last, &uses.writers, &uses.readers)?;
            let written = uses.writers.iter().all(|&i| {
                let layer = &graph.layers[i];
                layer.interleave == 1 && resident.strides(&layer.result).is_some()
            });
            if !written {
                return None;
            }
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

/// Whether a layer moves elements and nothing else.
fn is_copy(layer: &Layer) -> bool {
    layer.kind == Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None }
}

fn resident(
    graph: &Graph,
    groups: &[usize],
    writer: usize,
    last: usize,
    writers: &[usize],
    readers: &[(usize, usize)],
) -> Option<Resident> {
    let mut view = graph.layers[writer].result;
    if let &[_, second] = writers {
        // Two layers that write a row each.
        let below = graph.layers[second].result.offset_bytes.checked_sub(view.offset_bytes)?;
        view.axes[2] = Axis { extent: 2, stride_bytes: below };
        if below == 0 || graph.layers[writer].result.height() != 1 {
            return None;
        }
    } else if writers.len() > 1 {
        return None;
    }
    // A matrix whose rows were folded is read as it lies in memory.
    let copied = readers.iter().all(|&(i, _)| is_copy(&graph.layers[i]));
    let reader = &graph.layers[readers.first()?.0].sources[readers.first()?.1];
    let elements = |v: &View4| v.axes.iter().map(|a| a.extent).product::<usize>() * v.width;
    let fills =
        reader.offset_bytes == view.offset_bytes && reader.width == view.width && elements(reader) == elements(&view);
    if copied && fills && view.height() > 1 && reader.height() == 1 {
        view = *reader;
    }
    let convolved = readers.iter().any(|&(i, _)| graph.layers[i].convolves());
    let neural = readers.iter().any(|&(i, _)| graph.layers[i].is_neural());
    let mut channel = (view.width as u64 * ELEMENT_BYTES).div_ceil(UNIT_BYTES);
    if convolved && view.height() == 1 && view.channels() > 1 {
        // An odd distance starts neighbouring channels in banks of their own.
        channel |= 1;
    }
    let mut row = channel * view.channels() as u64;
    if view.height() > 1 {
        let rows = |(most, gap): (u64, u64)| (most.min(view.height() as u64), gap);
        // Fewer rows than the neural engine reads together keep the same room between them; two need none.
        row = match rows(NEURAL_BANKS) {
            _ if !neural => spread(row, 1, rows(PLANAR_BANKS)),
            (..=2, _) => row,
            (3..=4, _) => spread(row, 1, FEW_NEURAL_BANKS),
            all => spread(row, 1, all),
        };
    }
    let group = row * view.height() as u64;
    Some(Resident {
        base_bytes: 0,
        bytes: group * view.groups() as u64 * UNIT_BYTES,
        crosses: readers.iter().any(|&(i, _)| groups[i] != groups[writer]),
        copied,
        writer,
        last,
        view,
        strides: [group, channel, row].map(|units| units * UNIT_BYTES),
    })
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
        // The map over time: what stands where while each layer runs.
        for (i, top) in self.top.iter().enumerate().filter(|(_, top)| **top > 0) {
            write!(f, "  layer {i} L2 to {top:#x}:")?;
            for (buffer, resident) in self.residents.iter().enumerate() {
                let Some(r) = resident.as_ref().filter(|r| r.writer <= i && i <= r.last) else { continue };
                write!(f, " %{buffer} {:#x}..{:#x}", r.base_bytes, r.base_bytes + r.bytes)?;
            }
            writeln!(f)?;
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
            (0x40, 1, NEURAL_BANKS, 0x43),
            (0x80, 1, NEURAL_BANKS, 0x83),
            (0x100, 1, NEURAL_BANKS, 0x103),
            (0x20, 1, NEURAL_BANKS, 0x22),
            (0x100, 2, NEURAL_BANKS, 0x102),
            (0x80, 2, NEURAL_BANKS, 0x82),
            (0x40, 1, PLANAR_BANKS, 0x42),
            (0x200, 1, PLANAR_BANKS, 0x202),
            (0x1, 1, PLANAR_BANKS, 0x2),
            (0x54, 1, PLANAR_BANKS, 0x54),
            (0x100, 1, PLANAR_BANKS, 0x102),
        ];
        for (units, step, engine, expected) in seen {
            assert_eq!(spread(units, step, engine), expected, "{units:#x} step {step}");
        }
    }
}
