//! Allocation types of buffers (book, table 22.2), and neighbouring layers that could run at once on the two engines.
//!
//! Types 6 and 7 (ring buffers) are not given: H13 has no circular layers.

use super::Residency;
use crate::ir::*;
use anemone_facts::chips::Chip;
use anemone_facts::enums;
use anemone_facts::formats::Code;
use std::fmt;

/// A type of allocation: [`enums::ALLOCATIONS`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Allocation {
    /// On chip, whoever reads it.
    Resident = 0,
    /// In memory.
    Streamed = 1,
    /// On chip, for the next layer only.
    Chained = 2,
    /// On chip, written by a layer that reads a chained one.
    DependsOnProducer = 3,
    /// On chip, rewritten in place.
    InPlace = 4,
    /// The same by a layer that reads a chained one.
    InPlaceDependent = 5,
    /// In memory, rewritten in place.
    InPlaceMemory = 8,
}

impl Allocation {
    fn row(self) -> &'static Code {
        &enums::ALLOCATIONS[self as usize]
    }
}

/// Types by buffer, the reason where a result is not chained, and pairs that could run at once.
#[derive(Clone, Debug, Default)]
pub struct Allocations {
    /// By buffer; `None` where no layer touches it.
    types: Vec<Option<(Allocation, &'static str)>>,
    /// Positions of layers.
    pairs: Vec<(usize, usize)>,
}

/// Writers and readers of a buffer by position.
#[derive(Clone, Default)]
struct Uses {
    writers: Vec<usize>,
    readers: Vec<usize>,
}

impl Allocations {
    /// Allocation types that follow from residency and order.
    pub fn of(graph: &Graph, chip: &Chip, residency: &Residency) -> Allocations {
        let mut uses = vec![Uses::default(); graph.buffers.len()];
        for (i, layer) in graph.layers.iter().enumerate() {
            uses[layer.result.buffer.0 as usize].writers.push(i);
            layer.sources.iter().for_each(|s| uses[s.buffer.0 as usize].readers.push(i));
        }
        // A later buffer depends on earlier ones, so producers are settled before.
        let mut order: Vec<usize> = (0..uses.len()).filter(|&b| !uses[b].writers.is_empty()).collect();
        order.sort_by_key(|&b| uses[b].writers[0]);
        let mut types: Vec<Option<(Allocation, &'static str)>> = uses
            .iter()
            .map(|u| (!u.readers.is_empty()).then_some((Allocation::Streamed, "the caller's, or a constant")))
            .collect();
        for buffer in order {
            let own = &uses[buffer];
            let writer = &graph.layers[own.writers[0]];
            let reads = |layer: &Layer| layer.sources.iter().any(|s| s.buffer.0 as usize == buffer);
            let in_place = own.writers.iter().any(|&w| reads(&graph.layers[w]));
            let resident = residency.resident(&writer.result).is_some();
            let chained = |view: &View4| matches!(types[view.buffer.0 as usize], Some((Allocation::Chained, _)));
            let dependent = writer.sources.iter().any(chained);
            types[buffer] = Some(match (resident, in_place, dependent) {
                (false, true, _) => (Allocation::InPlaceMemory, "written where it is read"),
                (false, false, _) if graph.buffers[buffer].role == Role::Output => (Allocation::Streamed, "an output"),
                (false, false, _) => (Allocation::Streamed, "no place in tile memory"),
                (true, true, true) => (Allocation::InPlaceDependent, "written where it is read"),
                (true, true, false) => (Allocation::InPlace, "written where it is read"),
                (true, false, _) => match (unchained(graph, chip, own), dependent) {
                    (None, _) => (Allocation::Chained, "the next layer alone reads it"),
                    (Some(why), true) => (Allocation::DependsOnProducer, why),
                    (Some(why), false) => (Allocation::Resident, why),
                },
            });
        }
        let mut all = Allocations { types, pairs: Vec::new() };
        let mut at = 0;
        while at + 1 < graph.layers.len() {
            if all.co_issues(&graph.layers[at], &graph.layers[at + 1]) {
                all.pairs.push((at, at + 1));
                at += 1;
            }
            at += 1;
        }
        all
    }

    /// Returns true if two adjacent layers can be co-issued: one multiplies and one is planar, neither reads what the other writes,
    /// neither has a chained source or result, and not both results are streamed, except where the neural one is a product.
    fn co_issues(&self, a: &Layer, b: &Layer) -> bool {
        let kind = |view: &View4| self.types[view.buffer.0 as usize].map(|(t, _)| t);
        let apart = |a: &Layer, b: &Layer| a.sources.iter().all(|s| s.buffer != b.result.buffer);
        let loose = |l: &Layer| l.sources.iter().chain([&l.result]).all(|v| kind(v) != Some(Allocation::Chained));
        let streamed = |l: &Layer| kind(&l.result) == Some(Allocation::Streamed);
        let (neural, planar) = if a.is_neural() { (a, b) } else { (b, a) };
        let exempt = matches!(neural.kind, Kind::Product { .. });
        neural.convolves()
            && !planar.is_neural()
            && apart(a, b)
            && apart(b, a)
            && a.result.buffer != b.result.buffer
            && loose(a)
            && loose(b)
            && (exempt || !(streamed(a) && streamed(b)))
    }
}

/// First condition of the book's conjunction that keeps a resident result from being chained into the layer after it; `None`
/// where all hold. That the rows cover the reader's first tile holds for all that stay whole.
fn unchained(graph: &Graph, chip: &Chip, uses: &Uses) -> Option<&'static str> {
    // The bit is unknown for every chip so far; Apple's own H13 programs chain.
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
    } else {
        None
    }
}

impl Allocations {
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
        Ok(())
    }
}
