//! Allocation types of buffers (book, table 22.2), decided before any address, and neighbouring layers that the two engines could
//! execute concurrently.
//!
//! Types 6 and 7 are those of buffers that native ring-buffer layers hold, which only later families have. These layers read and write
//! memory alone, so that a ring buffer is in memory, and depends on tile memory through the layer that computes what is written to it.

use crate::ir::*;
use crate::tile::{result_tile, source_tile};
use anemone_facts::chips::Chip;
use anemone_facts::enums;
use anemone_facts::formats::Code;
use anemone_program::order;
use std::collections::HashSet;
use std::fmt;

/// A type of allocation: [`enums::ALLOCATIONS`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Allocation {
    /// On chip, for any reader.
    Resident = 0,
    /// In memory.
    Streamed = 1,
    /// On chip, for the next layer only.
    Chained = 2,
    /// On chip, written by a layer that reads a chained result.
    DependsOnProducer = 3,
    /// On chip, rewritten in place.
    InPlace = 4,
    /// On chip, rewritten in place by a layer that reads a chained result.
    InPlaceDependent = 5,
    /// In memory, held by ring-buffer layers.
    RingBuffer = 6,
    /// In memory, held by ring-buffer layers, written with what a layer computes from a result in tile memory.
    RingBufferDependent = 7,
    /// In memory, rewritten in place.
    InPlaceMemory = 8,
}

impl Allocation {
    fn row(self) -> &'static Code {
        &enums::ALLOCATIONS[self as usize]
    }
}

/// Allocation types by buffer, with reasons; reuse of places; and pairs of layers that could run concurrently.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// Type by buffer; `None` if no layer accesses it.
    types: Vec<Option<(Allocation, &'static str)>>,
    /// By buffer: the on-chip buffer whose place it reuses.
    takes: Vec<Option<usize>>,
    /// By layer: true if its on-chip result is chained into the next layer of the same engine.
    chains: Vec<bool>,
    /// False if no place is reused and nothing is chained, so that only types 0 and 1 occur.
    shares: bool,
    /// Positions of layers.
    pairs: Vec<(usize, usize)>,
    /// Reasons for which neighbours are no such pair, with their counts.
    unpaired: Vec<(&'static str, usize)>,
}

/// Buffers chosen for tile memory, before they have addresses there.
pub(super) struct OnChip<'a> {
    /// Buffers whose results are on chip.
    pub buffers: &'a HashSet<usize>,
    /// On-chip buffers, each with the one whose place it can reuse.
    pub takes: &'a [(usize, usize)],
    /// By layer: its group of tasks.
    pub groups: &'a [usize],
}

/// Writers and readers of a buffer by position.
#[derive(Clone, Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

impl Allocations {
    /// No type yet; `shares` is false where only types 0 and 1 are to be given.
    pub fn undecided(shares: bool) -> Allocations {
        Allocations { shares, ..Allocations::default() }
    }

    /// Decides all types, from which addresses, chain bits and buffers in memory follow.
    pub(super) fn decide(&self, graph: &Graph, chip: &Chip, on_chip: &OnChip) -> Allocations {
        let mut uses = vec![Uses::default(); graph.buffers.len()];
        for (i, layer) in graph.layers.iter().enumerate() {
            uses[layer.result.buffer.0 as usize].writers.push(i);
            layer.sources.iter().for_each(|s| uses[s.buffer.0 as usize].readers.push(i));
        }
        let shares = self.shares;
        let mut takes = vec![None; graph.buffers.len()];
        on_chip.takes.iter().filter(|_| shares).for_each(|&(buffer, of)| takes[buffer] = Some(of));
        // A later buffer depends on earlier ones, so producers are settled before.
        let mut order: Vec<usize> = (0..uses.len()).filter(|&b| !uses[b].writers.is_empty()).collect();
        order::by_key(&mut order, |&b| uses[b].writers[0]);
        let mut types: Vec<Option<(Allocation, &'static str)>> = uses
            .iter()
            .map(|u| (!u.readers.is_empty()).then_some((Allocation::Streamed, "the caller's, or a constant")))
            .collect();
        let rings = rings(graph);
        for &(buffer, _) in &rings {
            types[buffer] = Some((Allocation::RingBuffer, "a ring-buffer layer holds it"));
        }
        for buffer in order {
            let own = &uses[buffer];
            let writer = &graph.layers[own.writers[0]];
            let reads = |layer: &Layer| layer.sources.iter().any(|s| s.buffer.0 as usize == buffer);
            let rewritten = own.writers.iter().any(|&w| reads(&graph.layers[w]));
            let in_place = rewritten || takes[buffer].is_some();
            let why_in_place = if rewritten { "written where it is read" } else { "takes the place of its source" };
            let resident = on_chip.buffers.contains(&buffer);
            let chained = |view: &View4| matches!(types[view.buffer.0 as usize], Some((Allocation::Chained, _)));
            let dependent = writer.sources.iter().any(chained);
            if let Some((_, writer)) = rings.iter().find(|(ring, writer)| *ring == buffer && writer.is_some()) {
                let from_tile_memory = |value: usize| {
                    let writers = uses[value].writers.iter().map(|&w| &graph.layers[w]);
                    writers.flat_map(|layer| &layer.sources).any(|s| on_chip.buffers.contains(&(s.buffer.0 as usize)))
                };
                if writer.is_some_and(from_tile_memory) {
                    let why = "written with what a layer computes from tile memory";
                    types[buffer] = Some((Allocation::RingBufferDependent, why));
                }
                continue;
            }
            types[buffer] = Some(match (resident, in_place, dependent) {
                (false, true, _) => (Allocation::InPlaceMemory, "written where it is read"),
                (false, false, _) if graph.buffers[buffer].role == Role::Output => (Allocation::Streamed, "an output"),
                (false, false, _) => (Allocation::Streamed, "no place in tile memory"),
                (true, true, true) => (Allocation::InPlaceDependent, why_in_place),
                (true, true, false) => (Allocation::InPlace, why_in_place),
                (true, false, _) if !shares => (Allocation::Resident, "nothing is chained"),
                (true, false, _) => match (unchained(graph, chip, own), dependent) {
                    (None, _) => (Allocation::Chained, "the next layer alone reads it"),
                    (Some(why), true) => (Allocation::DependsOnProducer, why),
                    (Some(why), false) => (Allocation::Resident, why),
                },
            });
        }
        let chains = chains(graph, chip, on_chip, shares);
        let mut all = Allocations { types, takes, chains, shares, ..Allocations::default() };
        all.find_pairs(graph);
        all
    }

    /// The buffer whose on-chip place a buffer reuses; `None` if it has a place of its own.
    pub(super) fn takes(&self, buffer: usize) -> Option<usize> {
        self.takes.get(buffer).copied().flatten()
    }

    /// Returns true if a buffer is allocated in memory: types 1 and 6 to 8.
    pub fn in_memory(&self, buffer: usize) -> bool {
        use Allocation::{InPlaceMemory, RingBuffer, RingBufferDependent, Streamed};
        let found = self.types.get(buffer).copied().flatten();
        found.is_none_or(|(kind, _)| matches!(kind, Streamed | RingBuffer | RingBufferDependent | InPlaceMemory))
    }

    /// Returns true if a layer's result is chained into the next layer of its engine, so that the two overlap.
    pub fn chains(&self, layer: usize) -> bool {
        self.chains.get(layer).copied().unwrap_or(false)
    }

    /// Chains a layer's result into the next layer.
    pub(super) fn chain(&mut self, layer: usize) {
        self.chains[layer] = true;
    }

    /// Finds neighbours that the two engines could execute concurrently, and reasons against the others.
    fn find_pairs(&mut self, graph: &Graph) {
        let mut at = 0;
        while let [first, second, ..] = graph.layers.get(at..).unwrap_or_default() {
            match self.disqualified(first, second) {
                None => {
                    self.pairs.push((at, at + 1));
                    at += 1;
                }
                Some(why) => match self.unpaired.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, count)) => *count += 1,
                    None => self.unpaired.push((why, 1)),
                },
            }
            at += 1;
        }
    }

    /// First reason against co-issue of two adjacent layers; `None` if one multiplies and one is planar, neither
    /// reads what the other writes, neither has a chained source or result, and not both results are streamed, except for a
    /// neural layer that is a product.
    fn disqualified(&self, a: &Layer, b: &Layer) -> Option<&'static str> {
        let kind = |view: &View4| self.types[view.buffer.0 as usize].map(|(t, _)| t);
        let reads = |a: &Layer, b: &Layer| a.sources.iter().any(|s| s.buffer == b.result.buffer);
        let chained = |l: &Layer| l.sources.iter().chain([&l.result]).any(|v| kind(v) == Some(Allocation::Chained));
        let streamed = |l: &Layer| kind(&l.result) == Some(Allocation::Streamed);
        if a.is_neural() == b.is_neural() {
            return Some("both run on one engine");
        }
        let neural = if a.is_neural() { a } else { b };
        let exempt = matches!(neural.kind, Kind::Product { .. });
        if !neural.convolves() {
            Some("the neural one does not multiply")
        } else if reads(a, b) || reads(b, a) {
            Some("one reads what the other writes")
        } else if a.result.buffer == b.result.buffer {
            Some("both write one buffer")
        } else if chained(a) || chained(b) {
            Some("one of them is chained")
        } else if !exempt && streamed(a) && streamed(b) {
            Some("both results are streamed")
        } else {
            None
        }
    }
}

/// Buffers that ring-buffer layers hold, each with the buffer whose elements a layer writes to it, if one does.
fn rings(graph: &Graph) -> Vec<(usize, Option<usize>)> {
    let mut all = Vec::new();
    for layer in graph.layers.iter().filter(|layer| layer.holds_ring_buffer()) {
        let at = |source: usize| layer.sources.get(source).map(|s| s.buffer.0 as usize);
        all.extend(at(0).map(|ring| (ring, None)));
        // A writer gives the ring with the written elements; a reader gives elements of it.
        if let Some(value) = at(1) {
            all.push((layer.result.buffer.0 as usize, Some(value)));
        }
    }
    all
}

/// By layer: true if its result stays in the group and is chained into the next layer, both planar, as Apple's programs mark it, even if
/// others read it later or a part of it is read. A copy that turns one planar result for the next planar layer is in the chain
/// (`norm_layer_norm_ax1_1x64x8x8`).
fn chains(graph: &Graph, chip: &Chip, on_chip: &OnChip, shares: bool) -> Vec<bool> {
    let capable = shares && chip.hal.chaining != Some(0);
    let pair = |i: usize| {
        let (one, Some(next)) = (&graph.layers[i], graph.layers.get(i + 1)) else { return false };
        // Parts of one statistic overlap too (`layer_norm_1x375x1024`, `chain_lnproj_d512_s512`).
        let part = !one.is_neural() && !next.is_neural() && next.result.buffer == one.result.buffer;
        let read = part || next.sources.iter().any(|s| s.buffer == one.result.buffer);
        let turns = |at: usize| {
            let [before, copy, after] = graph.layers.get(at.wrapping_sub(1)..at + 2).unwrap_or_default() else {
                return false;
            };
            let turned = copy.is_neural() && copy.kind.is_copy() && copy.transpose;
            let made = copy.sources[0].buffer == before.result.buffer && stays(on_chip, &before.result);
            turned && made && !before.is_neural() && !after.is_neural()
        };
        let planar = |layer: &Layer, at: usize| !layer.is_neural() || turns(at);
        planar(one, i)
            && planar(next, i + 1)
            && read
            && on_chip.groups[i] == on_chip.groups[i + 1]
            && stays(on_chip, &one.result)
    };
    (0..graph.layers.len()).map(|i| capable && pair(i)).collect()
}

fn stays(on_chip: &OnChip, view: &View4) -> bool {
    on_chip.buffers.contains(&(view.buffer.0 as usize))
}

/// First condition of the book's conjunction against chaining a resident result into the next layer; `None`
/// if all hold.
fn unchained(graph: &Graph, chip: &Chip, uses: &Uses) -> Option<&'static str> {
    // The bit is unknown for every chip so far, but Apple's own H13 programs chain.
    if chip.hal.chaining == Some(0) {
        return Some("the chip does not chain");
    }
    let (&[writer], &[reader]) = (uses.writers.as_slice(), uses.readers.as_slice()) else {
        return Some("not one writer and one reader");
    };
    let (from, to) = (&graph.layers[writer], &graph.layers[reader]);
    if from.is_neural() != to.is_neural() {
        Some("the other engine reads it")
    } else if reader != writer + 1 {
        Some("another layer comes between")
    } else if to.sources.iter().all(|s| s.elements() != from.result.elements()) {
        Some("it is read in another form")
    } else if !covers(from, to) {
        Some("its rows do not cover the reader's first tile")
    } else {
        None
    }
}

/// Returns true if a layer emits at least as many rows at a time as the first tile of the next layer reads, window overlap
/// included.
fn covers(from: &Layer, to: &Layer) -> bool {
    let window = match &to.kind {
        Kind::Conv { window, .. } => window.kernel[0],
        _ => 1,
    };
    let rows = source_tile(to).rows;
    let height = from.result.height();
    result_tile(from).rows >= (rows + window - 1).min(height)
}

impl Allocations {
    /// A line with the number of buffers of each type.
    pub fn counts(&self) -> String {
        let known = (0..enums::ALLOCATIONS.len()).map(|code| {
            let of_type = |t: &&Option<(Allocation, _)>| t.is_some_and(|(kind, _)| kind as usize == code);
            (code, self.types.iter().filter(of_type).count())
        });
        let counts = known.filter(|(_, count)| *count > 0).map(|(code, count)| format!("{count} of type {code}"));
        format!("buffers: {}\n", counts.collect::<Vec<_>>().join(", "))
    }

    /// Lines for the dump.
    pub fn write(&self, graph: &Graph, f: &mut fmt::Formatter) -> fmt::Result {
        for (i, found) in self.types.iter().enumerate() {
            if let Some((allocation, why)) = found {
                let (code, name) = (*allocation as u32, allocation.row().meaning);
                writeln!(f, "  %{i} type {code}, {name}: {why} ; {}", graph.buffers[i].name)?;
            }
        }
        for &(a, b) in &self.pairs {
            writeln!(f, "  layers {a} and {b} could run at once")?;
        }
        for (why, count) in &self.unpaired {
            writeln!(f, "  no pair of neighbours: {why} ({count})")?;
        }
        Ok(())
    }
}
