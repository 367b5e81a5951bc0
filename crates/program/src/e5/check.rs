//! Consistency checks of descriptors.

use anemone_facts::enums::ELEMENTS;
use anemone_facts::formats::{by_code, e5 as rows};

use super::{Descriptor, Record, Value};

/// A contradiction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table} at {offset:#x}: {what}")]
pub struct Problem {
    /// Table.
    pub table: &'static str,
    /// Byte offset in the file; 0 in a descriptor that was built.
    pub offset: u64,
    /// Description of the contradiction, with values.
    pub what: String,
}

pub(super) fn check(d: &Descriptor) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut note = |r: &Record, what: String| problems.push(Problem { table: r.table.name, offset: r.offset, what });
    let root = &d.root;
    let version = root.number("format_version") as i64;
    if version != rows::FORMAT_VERSION as i64 {
        note(root, format!("format version {version}; the known one is {}", rows::FORMAT_VERSION));
    }
    let names: Vec<&str> = root
        .list("symbol_names")
        .iter()
        .filter_map(|v| if let Value::Text(t) = v { Some(t.as_str()) } else { None })
        .collect();
    let known: std::collections::HashSet<&str> = names.iter().copied().collect();
    let sections: Vec<&Record> = root.records("sections").collect();
    let named: std::collections::HashMap<&str, &Record> = sections.iter().map(|s| (s.text("name"), *s)).collect();
    for section in &sections {
        let (name, kind) = (section.text("name"), section.number("kind"));
        if !known.contains(name) {
            note(section, format!("section {name:?} is not among the symbol names"));
        }
        if by_code(rows::SECTION_KINDS, kind as u32).is_none() {
            note(section, format!("section {name:?}: unknown kind {kind}"));
        } else if let Value::Bytes(data) = section.get("data") {
            note(section, format!("section {name:?}: {:#x} bytes that are not a table of its kind", data.len()));
        }
    }
    for frame in d.frames() {
        let Some(op) = frame.record("operation") else {
            note(frame, "an argument frame without operation".into());
            continue;
        };
        operation(op, frame, &names, &named, &mut note);
        for alias in frame.records("aliases") {
            if alias.number("symbol_index") >= names.len() as u64 {
                let (found, have) = (alias.number("symbol_index"), names.len());
                note(alias, format!("symbol {found} of {have}"));
            }
        }
    }
    problems
}

fn operation(
    op: &Record,
    frame: &Record,
    names: &[&str],
    sections: &std::collections::HashMap<&str, &Record>,
    note: &mut dyn FnMut(&Record, String),
) {
    let name = op.text("name");
    let kind = op.number("op_type") as u32;
    match by_code(rows::OP_TYPES, kind) {
        None => note(op, format!("operation {name:?}: unknown kind {kind}")),
        Some(row) if !name.ends_with(row.name) => note(op, format!("operation {name:?} is of kind {}", row.name)),
        _ => {}
    }
    if !names.contains(&name) {
        note(op, format!("operation {name:?} is not among the symbol names"));
    }
    let mut tensors = 0;
    for side in ["inputs", "outputs"] {
        for value in op.list(side) {
            tensors += 1;
            if let Value::Number(n) = value
                && *n >= names.len() as u64
            {
                note(op, format!("operation {name:?}: {side} name symbol {n} of {}", names.len()));
            }
        }
    }
    let operands = frame.records("operands").count();
    if operands != tensors {
        note(frame, format!("operation {name:?}: {operands} operands for {tensors} tensors"));
    }
    for (field, table) in [("arg_frame", "ArgFrame"), ("attrs_section", "OpAttrs")] {
        match sections.get(op.text(field)).map(|s| s.record("data")) {
            Some(Some(data)) if data.table.name == table => {}
            _ => note(op, format!("operation {name:?}: {field} {:?} is not a section with {table}", op.text(field))),
        }
    }
    let attributes = sections.get(op.text("attrs_section")).and_then(|s| s.record("data")?.record("attrs"));
    let expected = rows::ATTRIBUTES.get(kind as usize);
    if let (Some(attributes), Some(expected)) = (attributes, expected)
        && attributes.table.name != *expected
    {
        note(op, format!("operation {name:?} has attributes of {}", attributes.table.name));
    }
    for descriptor in frame.records("operands").filter_map(|o| o.record("descriptor")) {
        tensor(descriptor, note);
    }
}

/// Checks that the two descriptions of a tensor agree.
fn tensor(d: &Record, note: &mut dyn FnMut(&Record, String)) {
    let storage = d.number("storage_type") as u32;
    if by_code(ELEMENTS, storage).is_none() {
        note(d, format!("unknown storage type {storage}"));
    }
    let forms = [
        ("dim", ["batch_number", "channels", "height", "width"]),
        ("stride", ["stride_batch_number", "stride_channels", "stride_height", "stride_width"]),
    ];
    for (list, singles) in forms {
        let found = d.list(list);
        if found.len() != singles.len() {
            note(d, format!("{list} has {} numbers, expected {}", found.len(), singles.len()));
        }
        for (value, single) in found.iter().zip(singles) {
            if *value != Value::Number(d.number(single)) {
                note(d, format!("{list} and {single} differ: {value:?}, {}", d.number(single)));
            }
        }
    }
}
