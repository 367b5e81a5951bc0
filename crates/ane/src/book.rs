//! The book's readings of words and compiled files where other sources differ (`docs/conflicts.md`).

use crate::machine::Fact;
use crate::{Model, Result, explain};
use anemone_facts::book::{HEADER, LAST_FLAGS, OPERATION_REGISTER, OPERATIONS, Reading, readings};
use anemone_facts::{Layout, Space, lut};
use anemone_program::hwx::Container;
use anemone_program::text::{Chapter, Dump, Entry, Node, Part, Selection};
use anemone_program::{Program, Task};
use std::path::Path;

/// Kind of these facts.
pub const KIND: &str = "the book's reading";

/// Readings of a word or number; empty if no source contradicts the book.
pub fn find(word: &str) -> Vec<Fact> {
    let fact = |r: &'static Reading| {
        let mut lines: Vec<String> = r.lines.iter().map(|line| line.to_string()).collect();
        lines.push(format!("{} of the book; the choice and its reason: docs/conflicts.md, {}", r.place, r.subject));
        Fact {
            kind: KIND,
            name: r.words[0].into(),
            also: r.words[1..].iter().map(|word| word.to_string()).collect(),
            numbers: r.numbers.to_vec(),
            lines,
            evidence: "C",
            source: r.source,
        }
    };
    readings(word).map(fact).collect()
}

/// A compiled file in the book's reading: header words and operation words of tasks, activation tables as knots and differences, the
/// thread commands of a container, and the list of element types. Unselected parts, and parts without a difference, are omitted.
///
/// Errors: the file is not a compiled program.
pub fn dump(model: &Model, file: &Path, selection: &Selection) -> Result<Dump> {
    let plain = explain::explain(model, file, selection)?;
    let wanted = |part: Part| selection.parts.is_empty() || selection.parts.contains(&part);
    let mut chapters = Vec::new();
    let mut add = |part: Part, nodes: Vec<Node>| {
        if wanted(part) && !nodes.is_empty() {
            chapters.push(Chapter { part, nodes });
        }
    };
    if let Model::Container(container) = model {
        add(Part::Header, threads(container));
        add(Part::Symbols, elements(container));
    }
    let tasks: Vec<Node> = tasks(model)
        .iter()
        .enumerate()
        .filter(|(at, _)| selection.task.is_none_or(|t| t == *at))
        .map(|(at, (layout, task))| header(at, layout, task))
        .collect();
    add(Part::Td, tasks);
    let tables = plain.chapters.iter().filter(|chapter| chapter.part == Part::Lut).flat_map(|chapter| &chapter.nodes);
    add(Part::Lut, tables.map(table).collect());
    Ok(Dump { chapters, anomalies: Vec::new(), ..plain })
}

fn entry(offset: Option<u64>, name: impl Into<String>, raw: u64, note: impl Into<String>) -> Entry {
    Entry {
        offset,
        name: name.into(),
        value: format!("{raw:#x}"),
        raw: Some(raw),
        note: note.into(),
        evidence: Some("C"),
        ..Entry::default()
    }
}

fn tasks(model: &Model) -> Vec<(&'static Layout, Task)> {
    let of = |program: &Program| {
        let tasks = program.tasks().unwrap_or_default();
        tasks.into_iter().map(|task| (program.layout, task)).collect::<Vec<_>>()
    };
    match model {
        Model::Container(container) => container.programs().unwrap_or_default().iter().flat_map(of).collect(),
        Model::Program(program) => of(program),
        Model::Package(package) => {
            package.programs.iter().filter_map(|e| e.program().ok()).flat_map(|p| of(&p)).collect()
        }
        Model::Net { .. } | Model::Descriptor(_) => Vec::new(),
    }
}

/// A task's header words, and the word that has its operation in the book's reading.
fn header(at: usize, layout: &Layout, task: &Task) -> Node {
    let mut entries: Vec<Entry> = HEADER
        .iter()
        .filter_map(|word| {
            let value = task.word(Space::Header, word.offset)?;
            let note = match word.offset {
                0x00 if value >> 24 == LAST_FLAGS => format!("index {}, the last record or a barrier", value & 0xffff),
                0x00 => format!("index {}, flags {:#04x}", value & 0xffff, value >> 24),
                0x08 => format!("pass of the engine {:#04x}", value & 0xff),
                0x10 => format!("prefix {:#08x}", value >> 8),
                0x1c if value == 0 => "the tail".into(),
                _ => String::new(),
            };
            Some(entry(Some(u64::from(task.offset + word.offset)), word.name, value.into(), note))
        })
        .collect();
    if let Some(word) = task.register(OPERATION_REGISTER) {
        let known = OPERATIONS.iter().find(|(own, _)| *own == word);
        let note = known.map_or("no operation of table 23.8", |(_, operation)| operation);
        let address = Some(OPERATION_REGISTER);
        entries.push(Entry { address, ..entry(None, "operation-word", word.into(), note) });
    }
    let title = format!("task {at} ({}, the book's tables 23.8 and 23.11)", layout.generation);
    Node { title, offset: Some(task.offset.into()), entries, nodes: Vec::new() }
}

/// An activation table as knots and differences between them.
fn table(node: &Node) -> Node {
    let knots: Vec<&Entry> = node.entries.iter().filter(|e| e.name.starts_with("knot[")).collect();
    let number = |e: &Entry| half::f16::from_bits(e.raw.unwrap_or(0) as u16);
    let header = ["mode", "shift"].iter().filter_map(|name| node.entries.iter().find(|e| e.name == *name));
    let mut entries: Vec<Entry> = header.cloned().collect();
    entries.extend(knots.iter().map(|&knot| knot.clone()));
    entries.extend(knots.windows(2).enumerate().map(|(at, pair)| {
        let delta = half::f16::from_f32(number(pair[1]).to_f32() - number(pair[0]).to_f32());
        let raw = Some(u64::from(delta.to_bits()));
        let name = format!("delta[{at}]");
        Entry { name, value: delta.to_string(), raw, evidence: Some("C"), ..Entry::default() }
    }));
    let title = format!("{}: {} knots, {} differences", node.title, lut::KNOTS, lut::KNOTS - 1);
    Node { title, offset: node.offset, entries, nodes: Vec::new() }
}

/// Thread commands as contexts of registers.
fn threads(container: &Container) -> Vec<Node> {
    let one = |(at, (offset, thread)): (usize, (u64, &anemone_program::hwx::Thread))| {
        let held = thread.words.iter().filter(|word| **word != 0).count();
        let entries = vec![
            entry(None, "flavor", thread.flavor.into(), ""),
            entry(None, "words", thread.words.len() as u64, format!("{held} of them not 0")),
        ];
        let title =
            format!("context {at} of the engine's registers, restored before the chain starts (the book's chapter 23)");
        Node { title, offset: Some(offset), entries, nodes: Vec::new() }
    };
    container.threads().enumerate().map(one).collect()
}

/// The list of element types, which in the book's count includes the type of a tensor's array.
fn elements(container: &Container) -> Vec<Node> {
    let Some(table) = container.symtab() else { return Vec::new() };
    let numbered = |kind: &str| kind.strip_prefix('t').is_some_and(|n| n.starts_with(|c: char| c.is_ascii_digit()));
    let entries: Vec<Entry> = table
        .symbols
        .iter()
        .filter_map(|symbol| {
            let text = table.name(symbol);
            let (name, kind) = text.split_once(':').filter(|(_, kind)| numbered(kind))?;
            Some(Entry { name: name.into(), value: kind.into(), evidence: Some("C"), ..Entry::default() })
        })
        .collect();
    let arrays = entries.iter().filter(|e| e.value.contains("=a")).count();
    if entries.is_empty() {
        return Vec::new();
    }
    let title = format!(
        "{} element types, and {arrays} arrays of tensors (the book's listing 23.5 counts 24)",
        entries.len() - arrays
    );
    vec![Node { title, offset: None, entries, nodes: Vec::new() }]
}
