//! Explanation of a container's own structures: header, segments, symbols, relocations, banner, ports, run state.

use anemone_facts::Codec;
use anemone_facts::chips::SUBTYPES;
use anemone_facts::formats::hwx as rows;
use anemone_facts::formats::{Code, Word, by_code};

use super::dump::{Builder, Entry, Node, Part, number, text};
use super::dump_tasks;
use super::listing::{ELEMENTS, name_of};
use crate::hwx::{Command, Container, KernelData, RunState, Section, Segment, TensorSymbol, Thread, name16_text};
use crate::{Direction, Port};

/// Longest name in an explanation; names come from the file.
const NAME_CHARS: usize = 4096;

pub(super) fn explain(b: &mut Builder, c: &Container) {
    header(b, c);
    for (at, command) in c.commands_at() {
        match command {
            Command::Segment(s) => segment(b, at, s),
            Command::Ident(_) => {}
            Command::Unknown { id, body } if by_code(rows::COMMANDS, *id).is_none() => {
                let what = format!("command {id:#x} of {:#x} bytes has no known structure", body.len() + 8);
                b.anomaly(Part::Header, Some(at), "load command", what);
            }
            _ => {}
        }
    }
    relocations(b, c);
    symbols(b, c);
    if let Some(banner) = c.banner() {
        let at = c.commands_at().find(|(_, c)| matches!(c, Command::Ident(_))).map(|(at, _)| at);
        let mut entries: Vec<Entry> = banner.lines().map(|l| text(None, "line", l)).collect();
        if let Some(dialect) = c.dialect() {
            let mut entry = text(None, "dialect", dialect.name);
            (entry.meaning, entry.evidence) = (dialect.meaning, Some(dialect.evidence.letter()));
            entries.insert(0, entry);
        }
        b.add(Part::Ident, Node { title: "banner".into(), offset: at, entries, nodes: Vec::new() });
    }
    ports(b, c);
    run_states(b, c);
    runtime(b, c);
    for r in &c.residue {
        let what = format!("{:#x} bytes that no structure explains", r.bytes.len());
        b.anomaly(Part::Header, Some(r.offset), "file", what);
    }
    let chained = c.layout().is_none_or(|l| l.codec == Codec::Runs);
    if let (true, Err(error)) = (chained, c.program()) {
        b.anomaly(Part::Header, None, "program", error.to_string());
    }
    for source in sources(c) {
        dump_tasks::explain(b, &source);
    }
}

/// The stream of every procedure with its kernel data; none without a stream of a known descriptor version.
pub(super) fn sources(c: &Container) -> Vec<dump_tasks::Source<'_>> {
    let several = c.run_states().count() > 1;
    match several {
        true => c.run_states().filter_map(|(_, run)| source(c, Some(run))).collect(),
        false => source(c, c.run_state().map(|(_, run)| run)).into_iter().collect(),
    }
}

fn source<'a>(c: &'a Container, run: Option<RunState<'a>>) -> Option<dump_tasks::Source<'a>> {
    let content = c.section(rows::TEXT.segment, rows::TEXT.section)?;
    let layout = c.layout()?;
    let part = run.and_then(|run| c.stream_of(&run)).map_or(0..content.data.len(), |(_, part)| part);
    let first_task_words = match run {
        Some(run) => run.first_task_words(),
        None if layout.codec == Codec::Runs => return None,
        None => 0,
    };
    let sections = match layout.codec {
        Codec::Runs => Vec::new(),
        // Relocations of the stream refer to these sections, not to the second base register.
        Codec::Packets => c.all_kernel_sections(),
    };
    let kernel = match layout.codec {
        Codec::Runs => c.kernel_data(run),
        Codec::Packets => KernelData::of(&sections),
    };
    let mut kernel_links: Vec<(u64, u64)> = sections
        .iter()
        .zip(&kernel.places)
        .flat_map(|(section, (start, _))| links(c, content, section).into_iter().map(|at| (at, *start)))
        .collect();
    kernel_links.sort_unstable();
    Some(dump_tasks::Source {
        layout,
        stream: &content.data[part.clone()],
        stream_offset: content.file_offset as u64 + part.start as u64,
        first_task_words,
        kernel,
        kernel_links,
        procedure: run.filter(|_| c.run_states().count() > 1).map(|run| run.name()),
    })
}

/// Offsets of a section's relocations against another, ascending.
fn links(c: &Container, from: &Section, to: &Section) -> Vec<u64> {
    let number = c.sections().position(|s| std::ptr::eq(s, to)).map(|i| i as u32 + 1);
    let links = from.relocations.iter().filter(|r| Some(r.target()) == number);
    let mut links: Vec<u64> = links.filter_map(|r| u64::try_from(r.offset).ok()).collect();
    links.sort_unstable();
    links
}

fn coded(entry: Entry, rows: &'static [Code], code: u32) -> Entry {
    match by_code(rows, code) {
        Some(row) => {
            Entry { note: row.name.to_string(), meaning: row.meaning, evidence: Some(row.evidence.letter()), ..entry }
        }
        None => entry.note("unknown"),
    }
}

fn header(b: &mut Builder, c: &Container) {
    let h = &c.header;
    let row = SUBTYPES.iter().find(|row| row.subtype == h.cpu_subtype);
    let target = row.map_or("no known generation".to_string(), |row| {
        let names = row.describe();
        let version = format!("descriptor version {}", row.td_version);
        if names.is_empty() { version } else { format!("{names}, {version}") }
    });
    let size: u64 = c.commands.iter().map(Command::bytes).sum();
    let entries = vec![
        number(0, "magic", rows::MAGIC as u64),
        number(4, "cpu-type", h.cpu_type as u64),
        number(rows::SUBTYPE_OFFSET, "cpu-subtype", h.cpu_subtype as u64).note(target),
        number(12, "file-type", h.file_type as u64),
        number(16, "commands", c.commands.len() as u64),
        number(20, "command-bytes", size),
        number(24, "flags", h.flags as u64),
        number(28, "reserved", h.reserved as u64),
    ];
    let expected = [
        (4, "cpu type", h.cpu_type, rows::CPU_TYPE),
        (12, "file type", h.file_type, rows::FILE_TYPE),
        (24, "flags", h.flags, rows::HEADER_FLAGS),
        (28, "last word", h.reserved, 0),
    ];
    for (at, what, found, usual) in expected.into_iter().filter(|(_, _, found, usual)| found != usual) {
        b.anomaly(Part::Header, Some(at), what, format!("{found:#x} where every known container has {usual:#x}"));
    }
    b.add(Part::Header, Node { title: "header".into(), offset: Some(0), entries, nodes: Vec::new() });
    let commands = c.commands_at().map(|(at, command)| {
        let entry = number(at, "command", command.id() as u64);
        let mut entry = coded(entry, rows::COMMANDS, command.id());
        if let Command::Thread(t) = command {
            let flavor = by_code(rows::FLAVORS, t.flavor);
            entry.note += &format!(", {}", flavor.map_or("unknown flavor", |f| f.name));
        }
        if let Command::Unknown { id: rows::NOTE, body } = command {
            let owner = body.split(|&x| x == 0).next().unwrap_or(&[]);
            entry.note += &format!(", {:?}", String::from_utf8_lossy(owner));
        }
        entry.note += &format!(", {:#x} bytes", command.bytes());
        entry
    });
    let offset = Some(rows::HEADER_BYTES as u64);
    let node = Node { title: "load commands".into(), offset, entries: commands.collect(), nodes: Vec::new() };
    b.add(Part::Header, node);
}

fn segment(b: &mut Builder, at: u64, s: &Segment) {
    let name = name16_text(&s.name);
    let entries = vec![
        number(at + 24, "address", s.address),
        number(at + 32, "bytes", s.bytes),
        number(at + 40, "file-offset", s.file_offset),
        number(at + 48, "file-bytes", s.file_bytes),
        number(at + 56, "max-protection", s.max_protection as u64),
        number(at + 60, "protection", s.protection as u64),
        number(at + 64, "sections", s.sections.len() as u64),
        number(at + 68, "flags", s.flags as u64),
    ];
    let nodes = s
        .sections
        .iter()
        .enumerate()
        .map(|(i, x)| section(at + (rows::SEGMENT_BYTES + rows::SECTION_BYTES * i) as u64, x));
    let nodes = nodes.collect();
    b.add(Part::Segments, Node { title: format!("segment {name}"), offset: Some(at), entries, nodes });
    if s.tail.iter().any(|&x| x != 0) {
        b.anomaly(Part::Segments, Some(at), name.clone(), "bytes after the last section entry");
    }
    let known = |x: &&Section| {
        let (segment, section) = (name16_text(&x.segment), name16_text(&x.name));
        rows::section_meaning(&segment, &section).is_some() || x.is_kernel()
    };
    for x in s.sections.iter().filter(|x| !known(x)) {
        let what = format!("unknown section {},{}", name16_text(&x.segment), name16_text(&x.name));
        b.anomaly(Part::Segments, Some(at), name.clone(), what);
    }
}

fn section(at: u64, x: &Section) -> Node {
    let (segment, name) = (name16_text(&x.segment), name16_text(&x.name));
    let mut entries = vec![
        number(at + 32, "address", x.address),
        number(at + 40, "bytes", x.bytes),
        number(at + 48, "file-offset", x.file_offset as u64),
        number(at + 52, "align-log2", x.align_log2 as u64),
        number(at + 56, "relocations-offset", x.relocations_offset as u64),
        number(at + 60, "relocations", x.relocations.len() as u64),
        number(at + 64, "flags", x.flags as u64),
    ];
    if x.reserved != [0; 3] {
        entries.push(text(Some(at + 68), "reserved", format!("{:x?}", x.reserved)));
    }
    let meaning = rows::section_meaning(&segment, &name).or(x.is_kernel().then_some(rows::KERNEL.meaning));
    entries[0].meaning = meaning.unwrap_or("");
    Node { title: format!("section {segment},{name}"), offset: Some(at), entries, nodes: Vec::new() }
}

fn known_relocation(info: u32) -> bool {
    let flags = info & !rows::RELOCATION_SECTION;
    info & rows::RELOCATION_SECTION != 0 && [rows::RELOCATION_FLAGS, rows::RELOCATION_FLAGS_64].contains(&flags)
}

fn relocations(b: &mut Builder, c: &Container) {
    for x in c.sections().filter(|x| !x.relocations.is_empty()) {
        let entries = x.relocations.iter().enumerate().map(|(i, r)| {
            let at = x.relocations_offset as u64 + (rows::RELOCATION_BYTES * i) as u64;
            let word = x.data.get(r.offset as usize..).and_then(|d| d.get(..4));
            let value = word.map_or("outside the section".to_string(), |w| {
                format!("word there is {:#x}", u32::from_le_bytes([w[0], w[1], w[2], w[3]]))
            });
            let relative = if r.relative() { "relative" } else { "absolute" };
            let bits = 8 << r.width_log2();
            number(at, "offset", r.offset as u32 as u64)
                .note(format!("section {}, {relative}, {bits} bits; {value}", r.target()))
        });
        let title = format!("relocations of {},{}", name16_text(&x.segment), name16_text(&x.name));
        let entries = entries.collect();
        b.add(Part::Relocs, Node { title, offset: Some(x.relocations_offset as u64), entries, nodes: Vec::new() });
        for (i, r) in x.relocations.iter().enumerate().filter(|(_, r)| !known_relocation(r.info)) {
            let at = x.relocations_offset as u64 + (rows::RELOCATION_BYTES * i) as u64;
            b.anomaly(Part::Relocs, Some(at), format!("relocation {i}"), format!("information word {:#x}", r.info));
        }
    }
}

fn symbols(b: &mut Builder, c: &Container) {
    let Some(table) = c.symtab() else { return };
    let mut entries = Vec::new();
    for (i, s) in table.symbols.iter().enumerate() {
        let at = table.symbols_offset as u64 + (rows::SYMBOL_BYTES * i) as u64;
        let mut name = table.name(s);
        if name.len() > NAME_CHARS {
            name = name.chars().take(NAME_CHARS).collect();
        }
        let kind = by_code(rows::SYMBOL_TYPES, s.kind as u32);
        let mut note = format!("section {}, desc {}, address {:#x}", s.section, s.desc, s.value);
        if s.kind == rows::SYMBOL_TENSOR {
            match name.parse::<TensorSymbol>() {
                Ok(t) => {
                    let (e, d) = (t.shape, t.strides);
                    let strides = [d.batch_bytes, d.plane_bytes, d.row_bytes, t.element_bytes];
                    let element = rows::type_name(t.element_type).unwrap_or("unknown type");
                    note =
                        format!("[{},{},{},{}] {element}, strides {strides:x?}; desc {}", e.n, e.c, e.h, e.w, s.desc);
                }
                Err(error) => b.anomaly(Part::Symbols, Some(at), format!("symbol {i}"), error.to_string()),
            }
        }
        if kind.is_none() {
            b.anomaly(Part::Symbols, Some(at), format!("symbol {i}"), format!("unknown type {:#x}", s.kind));
        }
        entries.push(Entry {
            meaning: kind.map_or("", |k| k.meaning),
            evidence: kind.map(|k| k.evidence.letter()),
            raw: Some(s.value),
            ..text(Some(at), kind.map_or("?", |k| k.name), name).note(note)
        });
    }
    let offset = Some(table.symbols_offset as u64);
    b.add(Part::Symbols, Node { title: "symbols".into(), offset, entries, nodes: Vec::new() });
}

/// Entries for a thread's named words, and anomalies for nonzero words without a name.
fn words(b: &mut Builder, part: Part, at: u64, t: &Thread) -> Vec<Entry> {
    let mut entries = Vec::new();
    let place = |i: usize| at + 16 + 4 * i as u64;
    let mut explained = vec![false; t.words.len()];
    let mut mark = |at: usize, words: usize| explained.iter_mut().skip(at).take(words).for_each(|e| *e = true);
    for (bar, i) in t.base_words().enumerate() {
        mark(i, 2);
        if t.quantity(i) != 0 {
            let mut entry = number(place(i), &format!("base[{bar}]"), t.quantity(i));
            entry.meaning = "value of a base address register";
            entries.push(entry);
        }
    }
    for row in t.word_rows().iter().filter(|r| r.at < t.words.len()) {
        mark(row.at, row.words);
        entries.push(word(at, t, row));
    }
    for i in t.property_words() {
        let row = by_code(rows::PROPERTIES, t.word(i)).filter(|_| t.word(i + 1) == rows::PROPERTY_BYTES);
        if let Some(row) = row {
            mark(i, rows::PROPERTY_WORDS);
            let mut entry = number(place(i + 2), &format!("property.{}", row.name), t.quantity(i + 2));
            (entry.meaning, entry.evidence) = (row.meaning, Some(row.evidence.letter()));
            entries.push(entry);
        }
    }
    for (i, &value) in t.words.iter().enumerate().filter(|&(i, &w)| w != 0 && !explained[i]) {
        entries.push(number(place(i), &format!("?[{i}]"), value as u64));
        b.bits(part, place(i), format!("thread of flavor {}, word {i}", t.flavor), value);
    }
    entries
}

fn word(at: u64, t: &Thread, row: &Word) -> Entry {
    let raw = if row.words == 2 { t.quantity(row.at) } else { t.word(row.at) as u64 };
    let mut entry = number(at + 16 + 4 * row.at as u64, row.name, raw);
    (entry.meaning, entry.evidence) = (row.meaning, Some(row.evidence.letter()));
    if row.meaning.starts_with("offset of the") {
        entry.note = format!("{:?}", t.text(row.at));
    }
    entry
}

fn ports(b: &mut Builder, c: &Container) {
    for (at, window) in c.windows() {
        let fixed = if window.wide { 8 } else { 4 };
        let mut entries = vec![
            number(at + 8, "name-offset", window.name_offset as u64),
            number(at + 12, "version", window.version as u64),
            number(at + 16, "address", window.address),
        ];
        entries[2].note = format!("{fixed} bytes wide");
        let base = c
            .threads()
            .find_map(|(_, t)| t.base_words().position(|i| window.address != 0 && t.quantity(i) == window.address));
        match base {
            Some(bar) => entries.push(Entry { raw: Some(bar as u64), ..text(None, "bar", bar.to_string()) }),
            None => b.anomaly(Part::Ports, Some(at), window.name(), "no base register holds the address"),
        }
        let title = format!("window {:?}", window.name());
        b.add(Part::Ports, Node { title, offset: Some(at), entries, nodes: Vec::new() });
    }
    for (at, t) in c.threads().filter(|(_, t)| t.flavor == rows::FLAVOR_TENSOR) {
        let entries = words(b, Part::Ports, at, t);
        let name = t.tensor().map_or(String::new(), |r| r.names()[0].clone());
        let node = Node { title: format!("tensor record {name:?}"), offset: Some(at), entries, nodes: Vec::new() };
        b.add(Part::Ports, node);
    }
}

fn run_states(b: &mut Builder, c: &Container) {
    for (at, t) in c.threads().filter(|(_, t)| t.flavor != rows::FLAVOR_TENSOR) {
        let flavor = by_code(rows::FLAVORS, t.flavor);
        if flavor.is_none() {
            b.anomaly(Part::Td, Some(at), "thread", format!("unknown flavor {}", t.flavor));
        }
        let entries = words(b, Part::Td, at, t);
        let mut title = format!("thread, flavor {} ({})", t.flavor, flavor.map_or("unknown", |f| f.name));
        if let Some(number) = c.run_states().position(|(run, _)| run == at).filter(|_| c.run_states().count() > 1) {
            title += &format!(": procedure {number}, {:?}", t.run_state().map_or(String::new(), |run| run.name()));
        }
        b.add(Part::Td, Node { title, offset: Some(at), entries, nodes: Vec::new() });
    }
}

fn runtime(b: &mut Builder, c: &Container) {
    let Some(graph) = c.runtime() else { return };
    let entries = |all: &[(&str, u64)], kind: &str, meaning: &'static str| -> Vec<Entry> {
        let entry = |&(name, address): &(&str, u64)| Entry {
            raw: Some(address),
            meaning,
            ..text(None, kind, name).note(format!("address {address:#x}"))
        };
        all.iter().map(entry).collect()
    };
    let mut all = entries(&graph.procedures, "procedure", "what a call runs");
    all.extend(entries(&graph.operations, "operation", "a step of a procedure: a mapping, or the start of an engine"));
    all.extend(entries(&graph.streams, "stream", "first byte of a task stream"));
    let title = format!("runtime graph, {} starts of an engine", graph.kicks().count());
    b.add(Part::Td, Node { title, offset: None, entries: all, nodes: Vec::new() });
}

/// A port of a program without a container.
pub(super) fn port(p: &Port) -> Node {
    let direction = if p.direction == Direction::Input { "input" } else { "output" };
    let d = p.strides;
    let plain = |name: &str, raw: u64| Entry { raw: Some(raw), ..text(None, name, format!("{raw:#x}")) };
    let entries = vec![
        plain("bar", p.bar as u64),
        text(None, "shape", format!("{:?}", p.extents()).replace(' ', "")),
        text(None, "element", name_of(&ELEMENTS, p.element)),
        plain("batch-stride", d.batch_bytes),
        plain("plane-stride", d.plane_bytes),
        plain("row-stride", d.row_bytes),
        plain("bytes", p.bytes),
    ];
    Node { title: format!("{direction} {:?}", p.name), offset: None, entries, nodes: Vec::new() }
}
