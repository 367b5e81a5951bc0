//! Explanation of dispatch descriptors, firmware containers and loaded images.

use anemone_facts::formats::e5::{self, Kind};
use anemone_facts::formats::{Word, by_code, firmware};

use super::dump::{Builder, Entry, Node, Part, number, text};
use super::{dump_file, dump_tasks};
use crate::bytes::{u32_at, u64_at};
use crate::e5::{Descriptor, Record, Value};
use crate::firmware::Package;
use crate::hwx::Image;
use crate::hwx::KernelData;

pub(super) fn descriptor(b: &mut Builder, d: &Descriptor) {
    let root = &d.root;
    let mut head =
        Node { title: format!("root table {}", root.table.name), offset: Some(root.offset), ..Node::default() };
    let version = e5::table(e5::ROOT).and_then(|t| t.fields.last());
    let mut entry = number(root.offset, "format_version", root.number("format_version"));
    (entry.meaning, entry.evidence) = version.map_or(("", None), |f| (f.meaning, Some(f.evidence.letter())));
    head.entries = vec![
        text(None, "vtable", super::block::hex(&e5::ROOT_VTABLE)).note("as in every root table of this schema"),
        entry,
        text(None, "symbol_names", root.list("symbol_names").len().to_string()),
        text(None, "sections", root.list("sections").len().to_string()),
        text(None, "bytes", d.write().len().to_string()),
    ];
    b.add(Part::Header, head);
    let names = root.list("symbol_names").iter().enumerate().map(|(i, v)| match v {
        Value::Text(name) => text(None, &i.to_string(), name.as_str()),
        _ => text(None, &i.to_string(), "?"),
    });
    b.add(Part::Symbols, Node { title: "symbol names".into(), entries: names.collect(), ..Node::default() });
    if let Some(info) = root.record("build_info") {
        let entries = info.records("entries").map(|e| text(Some(e.offset), e.text("key"), e.text("value")));
        let entries = entries.collect();
        b.add(Part::Ident, Node { title: "build info".into(), offset: Some(info.offset), entries, nodes: Vec::new() });
    }
    for section in root.records("sections") {
        let kind = section.number("kind");
        let row = by_code(e5::SECTION_KINDS, kind as u32);
        let mut entries = vec![number(section.offset, "kind", kind).note(row.map_or("unknown", |r| r.name))];
        let nodes = match section.get("data") {
            Value::Nested(inner) => vec![record(inner, inner.table.name)],
            Value::Bytes(data) => {
                entries.push(text(None, "data", format!("{:#x} bytes, not a table of this kind", data.len())));
                Vec::new()
            }
            _ => Vec::new(),
        };
        let title = format!("section {:?}", section.text("name"));
        b.add(Part::Segments, Node { title, offset: Some(section.offset), entries, nodes });
    }
    for frame in d.frames() {
        if let Some(op) = frame.record("operation") {
            b.add(Part::Td, record(op, &format!("operation {:?}", op.text("name"))));
        }
        for port in frame.records("ports").chain(frame.records("aliases")) {
            b.add(Part::Ports, record(port, &format!("{} {:?}", port.table.name, port.text("name"))));
        }
    }
    for problem in d.check() {
        b.anomaly(Part::Header, Some(problem.offset), problem.table, problem.what);
    }
    unknown_slots(b, root);
}

/// Fields beyond the schema.
fn unknown_slots(b: &mut Builder, r: &Record) {
    if r.unknown_slots > 0 {
        let what = format!("{} more vtable slots than the schema has", r.unknown_slots);
        b.anomaly(Part::Segments, Some(r.offset), r.table.name, what);
    }
    for value in &r.fields {
        inner(b, value);
    }
    fn inner(b: &mut Builder, value: &Value) {
        match value {
            Value::Record(r) | Value::Nested(r) => unknown_slots(b, r),
            Value::List(all) => all.iter().for_each(|v| inner(b, v)),
            _ => {}
        }
    }
}

fn record(r: &Record, title: &str) -> Node {
    let mut node = Node { title: title.to_string(), offset: Some(r.offset), ..Node::default() };
    for (row, value) in r.table.fields.iter().zip(&r.fields) {
        let explained = |mut entry: Entry| {
            (entry.meaning, entry.evidence) = (row.meaning, Some(row.evidence.letter()));
            entry
        };
        match value {
            Value::Absent => {}
            Value::Number(n) => {
                let codes = match row.kind {
                    Kind::U8(codes) | Kind::I32(codes) => codes,
                    _ => &[],
                };
                let note = by_code(codes, *n as u32).map_or("", |c| c.name);
                let entry = Entry { raw: Some(*n), ..text(None, row.name, n.to_string()) };
                node.entries.push(explained(entry.note(note)));
            }
            Value::Text(t) => node.entries.push(explained(text(None, row.name, t.as_str()))),
            Value::Bytes(data) => {
                node.entries.push(explained(text(None, row.name, format!("{:#x} bytes", data.len()))))
            }
            Value::Record(inner) | Value::Nested(inner) => {
                node.nodes.push(record(inner, &format!("{}: {}", row.name, inner.table.name)));
            }
            Value::List(all) => {
                let plain: Vec<String> = all
                    .iter()
                    .filter_map(|v| match v {
                        Value::Number(n) => Some(n.to_string()),
                        Value::Text(t) => Some(format!("{t:?}")),
                        _ => None,
                    })
                    .collect();
                if plain.len() == all.len() {
                    node.entries.push(explained(text(None, row.name, format!("[{}]", plain.join(", ")))));
                }
                for (i, inner) in r.records(row.name).enumerate() {
                    node.nodes.push(record(inner, &format!("{}[{i}]: {}", row.name, inner.table.name)));
                }
            }
        }
    }
    node
}

/// Entries for the words of a record in a firmware container.
fn words(at: u64, bytes: &[u8], rows: &'static [Word]) -> Vec<Entry> {
    let entry = |row: &Word| {
        let place = 4 * row.at;
        let mut entry = match row.words {
            1 => number(at + place as u64, row.name, u32_at(bytes, place) as u64),
            2 => number(at + place as u64, row.name, u64_at(bytes, place)),
            n => text(
                Some(at + place as u64),
                row.name,
                super::block::hex(bytes.get(place..place + 4 * n).unwrap_or(&[])),
            ),
        };
        (entry.meaning, entry.evidence) = (row.meaning, Some(row.evidence.letter()));
        entry
    };
    rows.iter().filter(|r| 4 * (r.at + r.words) <= bytes.len()).map(entry).collect()
}

pub(super) fn package(b: &mut Builder, p: &Package) {
    let bytes = p.write();
    let at = |offset: u64| bytes.get(offset as usize..).unwrap_or(&[]);
    let entries = words(0, &bytes, firmware::PACKAGE);
    b.add(Part::Header, Node { title: "package".into(), offset: Some(0), entries, nodes: Vec::new() });
    for (i, e) in p.programs.iter().enumerate() {
        let entries = words(e.offset, at(e.offset), firmware::PROGRAM);
        b.add(Part::Header, Node { title: format!("program {i}"), offset: Some(e.offset), entries, nodes: Vec::new() });
        for (j, s) in e.sections.iter().enumerate() {
            let kind = by_code(firmware::SECTION_KINDS, s.kind);
            let record = e.record_offset(j);
            let mut nodes = Vec::new();
            let mut content = |title: &str, from: usize, rows| {
                let place = s.offset + from as u64;
                let entries = words(place, s.data.get(from..).unwrap_or(&[]), rows);
                nodes.push(Node { title: title.into(), offset: Some(place), entries, nodes: Vec::new() });
            };
            match s.kind {
                firmware::GENERIC => content("content", 0, firmware::GENERIC_ROWS),
                firmware::OPERATION => {
                    let size = 4 * firmware::words(firmware::OPERATION_ROWS);
                    for n in 0..s.data.len() / size {
                        content(&format!("operation {n}"), n * size, firmware::OPERATION_ROWS);
                    }
                }
                firmware::PROCEDURE => {
                    content("content", 0, firmware::PROCEDURE_ROWS);
                    let ports = s.data.get(8..12).map_or(0, |n| u32_at(n, 0)) as usize;
                    let first =
                        4 * (firmware::words(firmware::PROCEDURE_ROWS) + ports * firmware::words(firmware::PORT_ROWS));
                    let size = 4 * firmware::words(firmware::PARTITION_ROWS);
                    for n in 0..e.partitions().map_or(0, |all| all.len()) {
                        content(&format!("partition {n}"), first + n * size, firmware::PARTITION_ROWS);
                    }
                }
                _ => {}
            }
            let mut entries = words(record, at(record), firmware::SECTION);
            if let (Some(entry), Some(kind)) = (entries.get_mut(1), kind) {
                entry.note = format!("{}; {}", kind.name, kind.meaning);
            }
            let title = format!("program {i}, section {j}: {}", kind.map_or("unknown kind", |k| k.name));
            b.add(Part::Segments, Node { title, offset: Some(record), entries, nodes });
        }
        if let Ok(program) = e.program() {
            for port in &program.ports {
                b.add(Part::Ports, dump_file::port(port));
            }
            let place = |kind| e.section(kind).map_or(0, |s| s.offset);
            let source = dump_tasks::Source {
                layout: program.layout,
                stream: &program.stream,
                stream_offset: place(firmware::TEXT),
                first_task_words: program.first_task_words,
                kernel: KernelData::whole(&program.kernel, place(firmware::KERNEL)),
                kernel_links: Vec::new(),
                procedure: None,
            };
            dump_tasks::explain(b, &source);
        }
    }
    for problem in p.check() {
        b.anomaly(Part::Header, Some(problem.offset), problem.place, problem.what);
    }
    for r in &p.residue {
        b.anomaly(Part::Header, Some(r.offset), "file", format!("{:#x} bytes that no record explains", r.bytes.len()));
    }
}

pub(super) fn image(b: &mut Builder, image: &Image) {
    for a in &image.apertures {
        let letters = [(1, 'r'), (2, 'w'), (4, 'x')];
        let protection: String =
            letters.iter().map(|&(bit, c)| if a.protection & bit != 0 { c } else { '-' }).collect();
        let plain = |name: &str, raw: u64| Entry { raw: Some(raw), ..text(None, name, format!("{raw:#x}")) };
        let bars: Vec<String> = a.bars.iter().map(|b| b.to_string()).collect();
        let mut entries = vec![
            plain("address", a.address),
            plain("bytes", a.bytes),
            plain("mapped", a.mapped),
            text(None, "protection", protection),
        ];
        entries[0].meaning = a.role;
        if !bars.is_empty() {
            entries.push(text(None, "bars", bars.join(", ")));
        }
        b.add(Part::Segments, Node { title: format!("aperture {}", a.name), offset: None, entries, nodes: Vec::new() });
    }
    let entries: Vec<Entry> = image
        .relocations
        .iter()
        .map(|r| {
            let resolved = r.address.map_or("nothing".to_string(), |a| format!("{a:#x}"));
            let entry = Entry { raw: r.address, ..text(None, &format!("{:#x}", r.place), resolved) };
            entry.note(format!("section {}, {:#x} in it", r.section, r.value))
        })
        .collect();
    if !entries.is_empty() {
        b.add(Part::Relocs, Node { title: "resolved relocations".into(), offset: None, entries, nodes: Vec::new() });
    }
    for problem in image.check() {
        b.anomaly(Part::Segments, None, problem.place, format!("{:#x}: {}", problem.address, problem.what));
    }
}
