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
    /// Reasons why neighbours make no pair, with their counts.
    unpaired: Vec<(&'static str, usize)>,
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
        let mut all = Allocations { types, pairs: Vec::new(), unpaired: Vec::new() };
        let mut at = 0;
        while let [first, second, ..] = graph.layers.get(at..).unwrap_or_default() {
            match all.disqualified(first, second) {
                None => {
                    all.pairs.push((at, at + 1));
                    at += 1;
                }
                Some(why) => match all.unpaired.iter_mut().find(|(known, _)| *known == why) {
                    Some((_, count)) => *count += 1,
                    None => all.unpaired.push((why, 1)),
                },
            }
            at += 1;
        }
        all
    }

    /// First condition that keeps two adjacent layers from being co-issued; `None` where one multiplies and one is planar, neither
    /// reads what the other writes, neither has a chained source or result, and not both results are streamed, except where the
    /// neural one is a product.
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
        for (why, count) in &self.unpaired {
            writeln!(f, "  no pair of neighbours: {why} ({count})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::remarks::{Log, Stage};
    use crate::{Options, compile};
    use anemone_facts::chips::CHIPS;
    use anemone_net::text;

    /// Text of the placement.
    #[derive(Default)]
    struct Placement(String);

    impl Log for Placement {
        fn wants(&self) -> bool {
            true
        }

        fn stage(&mut self, stage: Stage) {
            self.0 = stage.text;
        }
    }

    fn placed(body: &str) -> String {
        let head = "net \"n\" {\n  input %x: f16[1, 2, 8, 8]\n  input %z: f16[1, 2, 8, 8]\n  const %w: f16[2, 2, 1, 1] = [0.5, 1.0, 0.25, 0.5]\n";
        let source = format!("{head}{body}}}\n");
        let net = text::parse(&source, &[]).unwrap_or_else(|e| panic!("{e}\n{source}"));
        let mut log = Placement::default();
        compile(&net, &CHIPS[0], &Options::default(), &mut log).unwrap_or_else(|e| panic!("{e}\n{source}"));
        log.0
    }

    fn conv(from: &str, to: &str) -> String {
        let window = "strides=[1, 1] pads=[[0, 0], [0, 0]] dilations=[1, 1] groups=1";
        format!("  %{to}: f16[1, 2, 8, 8] = conv(%{from}, %w) {window}\n")
    }

    fn add(a: &str, b: &str, to: &str) -> String {
        format!("  %{to}: f16[1, 2, 8, 8] = add(%{a}, %{b})\n")
    }

    fn outputs(names: &[&str]) -> String {
        names.iter().map(|name| format!("  output %{name}\n")).collect()
    }

    /// Each condition alone keeps two neighbours apart; without any, they are a pair.
    #[test]
    fn every_disqualification_is_told() {
        let cases = [
            ("both run on one engine", conv("x", "a") + &conv("z", "b") + &outputs(&["a", "b"])),
            ("one reads what the other writes", conv("x", "a") + &add("a", "z", "b") + &outputs(&["b"])),
            ("both results are streamed", conv("x", "a") + &add("x", "z", "b") + &outputs(&["a", "b"])),
            (
                "the neural one does not multiply",
                "  %a: f16[1, 2, 8, 8] = tanh(%x)\n".to_string() + &add("x", "z", "b") + &outputs(&["a", "b"]),
            ),
            ("one of them is chained", conv("x", "a") + &conv("a", "b") + &add("x", "z", "c") + &outputs(&["b", "c"])),
        ];
        for (why, body) in cases {
            let text = placed(&body);
            assert!(text.contains(&format!("no pair of neighbours: {why} (")), "{why}\n{text}");
            assert!(!text.contains("could run at once"), "{why}\n{text}");
        }
        let pair = conv("x", "a") + &add("x", "z", "b") + &conv("b", "c") + &add("a", "c", "y") + &outputs(&["y"]);
        let text = placed(&pair);
        assert!(text.contains("could run at once"), "{text}");
    }
}
