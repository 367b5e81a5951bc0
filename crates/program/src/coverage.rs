//! Coverage of descriptors by rows: known and used fields, bits with and without a field.

use crate::order;
use std::collections::{BTreeMap, BTreeSet};

use anemone_facts::formats::hwx as rows;
use anemone_facts::{Field, Layout, Space};
use serde::Serialize;

use crate::hwx::Container;
use crate::task::{Task, decode_what_stands};
use crate::{Program, StreamError};

/// Coverage of one or more streams of a generation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coverage {
    /// Generation name.
    pub generation: &'static str,
    /// Version of the task descriptor format.
    pub td_version: u32,
    /// Tasks read.
    pub tasks: usize,
    /// Number of fields with a row.
    pub fields_known: usize,
    /// Number of fields that some task sets.
    pub fields_seen: usize,
    /// Bits set in header words and registers.
    pub set_bits: u64,
    /// Set bits of fields with a known place and no known meaning, which are called by their address.
    pub unnamed_bits: u64,
    /// Set bits without a field.
    pub unexplained_bits: u64,
    /// Words with such bits, most bits first.
    pub unexplained: Vec<Unexplained>,
    /// Bytes of streams that do not decode to tasks.
    pub undecoded_bytes: u64,
    #[serde(skip)]
    seen: BTreeSet<Field>,
    #[serde(skip)]
    places: BTreeMap<(bool, u32), Unexplained>,
}

/// Bits without a field in one word of the header or one register, over all tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unexplained {
    /// `header` or `register`.
    pub space: &'static str,
    /// Byte offset in the header, or byte address of the register.
    pub address: u32,
    /// The bits, combined over all tasks.
    pub bits: u32,
    /// Number of set bits, summed over tasks.
    pub set: u64,
}

impl Coverage {
    /// Empty coverage of a generation.
    pub fn new(layout: &'static Layout) -> Coverage {
        Coverage {
            generation: layout.generation,
            td_version: layout.td_version,
            tasks: 0,
            fields_known: layout.rows.len(),
            fields_seen: 0,
            set_bits: 0,
            unnamed_bits: 0,
            unexplained_bits: 0,
            unexplained: Vec::new(),
            undecoded_bytes: 0,
            seen: BTreeSet::new(),
            places: BTreeMap::new(),
        }
    }

    /// Coverage of a container's stream; `None` if its descriptor version is unknown, or it has no stream.
    pub fn of_container(container: &Container) -> Option<Coverage> {
        let (layout, tasks, error) = container.tasks()?;
        let mut coverage = Coverage::new(layout);
        let text = container.section(rows::TEXT.segment, rows::TEXT.section)?;
        coverage.decoded(layout, text.data.len(), &tasks, error.is_some());
        Some(coverage)
    }

    /// Coverage of a program's stream.
    pub fn of_program(program: &Program) -> Coverage {
        let mut coverage = Coverage::new(program.layout);
        coverage.stream(program.layout, &program.stream, program.first_task_words);
        coverage
    }

    /// Adds a stream. Bytes that do not decode are counted.
    pub fn stream(&mut self, layout: &Layout, stream: &[u8], first_task_words: u32) -> Option<StreamError> {
        let (tasks, error) = decode_what_stands(layout, stream, first_task_words);
        self.decoded(layout, stream.len(), &tasks, error.is_some());
        error
    }

    fn decoded(&mut self, layout: &Layout, stream_bytes: usize, tasks: &[Task], broken: bool) {
        if broken {
            let end = tasks.last().map_or(0, |t| t.offset as u64 + 4 * t.word_count() as u64);
            self.undecoded_bytes += (stream_bytes as u64).saturating_sub(end);
        }
        self.tasks(layout, tasks);
    }

    /// Adds tasks.
    pub fn tasks(&mut self, layout: &Layout, tasks: &[Task]) {
        self.tasks += tasks.len();
        for (space, address, word) in tasks.iter().flat_map(Task::places).filter(|&(_, _, word)| word != 0) {
            self.set_bits += word.count_ones() as u64;
            let mut open = word;
            for (row, _) in layout.rows_at(space, address).filter(|(row, _)| word & row.mask() != 0) {
                open &= !row.mask();
                self.seen.insert(row.field);
                if row.field.name().starts_with("Unk") {
                    self.unnamed_bits += (word & row.mask()).count_ones() as u64;
                }
            }
            if open != 0 {
                let header = space == Space::Header;
                let space = if header { "header" } else { "register" };
                let none = Unexplained { space, address, bits: 0, set: 0 };
                let place = self.places.entry((header, address)).or_insert(none);
                place.bits |= open;
                place.set += open.count_ones() as u64;
                self.unexplained_bits += open.count_ones() as u64;
            }
        }
        self.fields_seen = self.seen.len();
        self.unexplained = self.places.values().cloned().collect();
        order::by_key(&mut self.unexplained, |place| std::cmp::Reverse(place.set));
    }

    /// Fraction of set bits without a field, 0 to 1.
    pub fn unexplained_share(&self) -> f64 {
        share(self.unexplained_bits, self.set_bits)
    }

    /// Fraction of set bits whose field has no name except its address, 0 to 1.
    pub fn unnamed_share(&self) -> f64 {
        share(self.unnamed_bits, self.set_bits)
    }

    /// The figures as lines.
    pub fn render(&self) -> String {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let mut out = format!(
            "generation {} (descriptor version {})\ntasks {}\nfields known {}, seen {}\nset bits {}\n\
             without a name {} ({})\nunexplained {} ({})\n",
            self.generation,
            self.td_version,
            self.tasks,
            self.fields_known,
            self.fields_seen,
            self.set_bits,
            self.unnamed_bits,
            percent(self.unnamed_share()),
            self.unexplained_bits,
            percent(self.unexplained_share()),
        );
        if self.undecoded_bytes != 0 {
            out += &format!("bytes that do not decode {}\n", self.undecoded_bytes);
        }
        for place in &self.unexplained {
            out +=
                &format!("  {} {:#x}: bits {:#x}, set {} times\n", place.space, place.address, place.bits, place.set);
        }
        out
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
