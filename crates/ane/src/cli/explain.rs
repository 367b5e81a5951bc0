//! `ane explain`: meaning and evidence of a register, field, code, operation, layer or number of a chip.

use super::conventions::ConventionName;
use super::{Verbosity, print};
use anemone::reference::{self, Topic};
use anemone::{Code, Diagnostic, Model, Result};
use anemone::{aliases, book, machine};
use anemone_facts::enums::{ENUMERATIONS, SOURCE};
use anemone_facts::epilogue::{SLOTS, Slot};
use anemone_facts::layout::KNOWN;
use anemone_facts::lint::LINTS;
use anemone_facts::{Coding, Field, Layout, Row, Space};
use anemone_program::{Task, order};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane explain Cout
  ane explain 0x13808
  ane explain aneRegs.NE.MACCfg.OpMode
  ane explain OcgSize --seen model.hwx
  ane explain op-class
  ane explain E08
  ane explain ANE1108
  ane explain conv
  ane explain texture_engine
  ane explain ANE_ProgramSendRequest
  ane explain 2376
  ane explain 0xe00002c2
  ane explain

WHAT is a field's name, a register's address, `+0x1c` for a header word, the name of an enumeration, a code, an operation, a \
layer, a validator, a number of chips, or a word or number of formats and driver: a selector, a structure or its size, a return \
code, an entitlement, a command, a magic, a load command, a segment, a table of the dispatch descriptor.")]
pub struct Flags {
    /// Name or number to explain; the catalogue of rules if omitted
    what: Option<String>,
    /// Count the field's values in these compiled files
    #[arg(long, value_name = "FILE")]
    seen: Vec<PathBuf>,
    /// Source to follow where the book and other sources differ
    #[arg(long, value_enum, default_value = "samples")]
    convention: ConventionName,
}

fn number(text: &str) -> Option<u32> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u32::from_str_radix(hex, 16).ok())
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let Some(what) = flags.what.as_deref() else { return catalogue(verbosity) };
    if flags.convention == ConventionName::Book
        && let readings = book::find(what)
        && !readings.is_empty()
    {
        return the_book(&readings, verbosity);
    }
    let same = |name: &str| name.eq_ignore_ascii_case(what);
    if let Some(e) = ENUMERATIONS.iter().find(|e| same(e.name) || same(e.vendor)) {
        let rows: Vec<Value> =
            e.rows.iter().map(|r| json!({ "code": r.code, "name": r.name, "meaning": r.meaning })).collect();
        let document = json!({
            "schema": "anemone.explain/1", "enumeration": e.name, "vendor": e.vendor, "meaning": e.meaning,
            "evidence": e.evidence.letter(), "source": SOURCE, "codes": rows,
        });
        let vendor = if e.vendor.is_empty() { String::new() } else { format!(" ({})", e.vendor) };
        let mut text = format!("{}{vendor}: {} [{}, {SOURCE}]\n", e.name, e.meaning, e.evidence.letter());
        let line = |r: &anemone_facts::formats::Code| {
            format!("  {:>3} {:18} {}", r.code, r.name, r.meaning).trim_end().to_string() + "\n"
        };
        text.extend(e.rows.iter().map(line));
        return print(&if verbosity.json { format!("{document}\n") } else { text }).map(|()| 0);
    }
    if same("epilogue") || same("ZinNEBypassLayer") || SLOTS.iter().any(|slot| same(slot.class)) {
        return epilogue(verbosity);
    }
    let address = match what.strip_prefix('+') {
        Some(offset) => number(offset).map(|a| (Space::Header, a)),
        None => number(what).map(|a| (Space::Register, a)),
    };
    let what = aliases::field(what).unwrap_or(what);
    let mut found: Vec<(&'static Layout, &'static Row, u32)> = Vec::new();
    for layout in KNOWN.iter().copied() {
        match address {
            Some((space, at)) => found.extend(layout.rows_at(space, at).map(|(row, i)| (layout, row, i))),
            None => {
                let stem = what.split('[').next().unwrap_or(what);
                let rows = layout.rows.iter().filter(|r| r.field.info().name.eq_ignore_ascii_case(stem));
                found.extend(rows.map(|row| (layout, row, 0)));
            }
        }
    }
    if found.is_empty() {
        return topics(what, verbosity);
    }
    let tasks = tasks(&flags.seen)?;
    let mut documents = Vec::new();
    let mut text = String::new();
    let mut last = None;
    for (layout, row, index) in found {
        let seen = seen(&tasks, layout, row);
        documents.push(document(layout, row, index, &seen));
        // The meaning is printed once before all generations that have the field.
        if last.replace(row.field) != Some(row.field) {
            text += &meaning(row.field);
        }
        text += &paragraph(layout, row, index, &seen, flags.seen.is_empty());
    }
    // An address may also be that of another form, or a number of the driver.
    let facts = machine::find(what);
    facts.iter().for_each(|fact| text += &fact.text());
    if verbosity.json {
        let topics: Vec<Value> = facts.iter().map(|fact| fact.json()).collect();
        text = match topics.is_empty() {
            true => format!("{}\n", json!({ "schema": "anemone.explain/1", "fields": documents })),
            false => format!("{}\n", json!({ "schema": "anemone.explain/1", "fields": documents, "topics": topics })),
        };
    }
    print(&text)?;
    Ok(0)
}

/// The book's readings of a word.
fn the_book(readings: &[machine::Fact], verbosity: Verbosity) -> Result<u8> {
    let topics = || readings.iter().map(|fact| fact.json()).collect::<Vec<_>>();
    let text = match verbosity.json {
        true => format!("{}\n", json!({ "schema": "anemone.explain/1", "convention": "book", "topics": topics() })),
        false => readings.iter().map(|fact| fact.text()).collect(),
    };
    print(&text).map(|()| 0)
}

/// The slots of a layer's epilogue, and their support by each unit of the M1.
fn epilogue(verbosity: Verbosity) -> Result<u8> {
    let held = |slot: &Slot| [slot.convolution, slot.neural, slot.planar].map(|h| format!("{h:?}").to_lowercase());
    if verbosity.json {
        let row = |slot: &Slot| {
            let [convolution, neural, planar] = held(slot);
            json!({
                "slot": slot.name, "class": slot.class, "meaning": slot.meaning, "convolution": convolution,
                "neural": neural, "planar": planar,
            })
        };
        let rows: Vec<Value> = SLOTS.iter().map(row).collect();
        let document = json!({ "schema": "anemone.explain/1", "source": "book listing 22.3", "epilogue": rows });
        return print(&format!("{document}\n")).map(|()| 0);
    }
    let head = "slots of a layer's epilogue, in their order [book listing 22.3], and what a task of the M1 has: with coefficients, \
                without, planar\n";
    let line = |slot: &Slot| {
        let [convolution, neural, planar] = held(slot);
        let has = format!("{convolution:8} {neural:8} {planar:8}");
        format!("  {:15} {:18} {has} {}\n", slot.name, slot.class, slot.meaning)
    };
    print(&SLOTS.iter().fold(head.to_string(), |text, slot| text + &line(slot))).map(|()| 0)
}

/// The rules of `ane check`, one line each.
fn catalogue(verbosity: Verbosity) -> Result<u8> {
    if verbosity.json {
        return documents(LINTS.iter().map(Topic::Lint).collect());
    }
    let line = |l: &anemone_facts::lint::Lint| {
        format!("{} {:20} {:14} {}\n", l.code, l.name, reference::severity(l), l.condition)
    };
    print(&LINTS.iter().map(line).collect::<String>()).map(|()| 0)
}

/// Topics of that name other than fields and enumerations.
fn topics(what: &str, verbosity: Verbosity) -> Result<u8> {
    let topics = reference::look_up(what);
    if topics.is_empty() {
        // Some words are only in the book.
        return match book::find(what) {
            readings if readings.is_empty() => Err(unknown(what)),
            readings => the_book(&readings, verbosity),
        };
    }
    if verbosity.json {
        return documents(topics);
    }
    print(&topics.into_iter().map(Topic::text).collect::<Vec<_>>().join("\n")).map(|()| 0)
}

fn documents(topics: Vec<Topic>) -> Result<u8> {
    let list: Vec<_> = topics.into_iter().map(Topic::json).collect();
    print(&format!("{}\n", json!({ "schema": "anemone.explain/1", "topics": list }))).map(|()| 0)
}

fn unknown(what: &str) -> Diagnostic {
    let lower = what.to_ascii_lowercase();
    let mut near: Vec<&str> = KNOWN
        .iter()
        .flat_map(|l| l.rows)
        .map(|r| r.field.info().name)
        .filter(|n| n.to_ascii_lowercase().contains(&lower))
        .chain(ENUMERATIONS.iter().map(|e| e.name).filter(|n| n.contains(&lower)))
        .collect();
    order::by(&mut near, Ord::cmp);
    near.dedup();
    near.truncate(8);
    let help = match near.is_empty() {
        true => format!(
            "{}`ane explain` lists the rules, `ane ops` the operations; docs/machine has fields and enumerations",
            reference::nearest(what, reference::names())
        ),
        false => format!("near: {}", near.join(", ")),
    };
    Diagnostic::new(Code::Usage, format!("unknown name {what}")).help(help)
}

type Tasks = Vec<(&'static Layout, Task)>;

fn tasks(files: &[PathBuf]) -> Result<Tasks> {
    let mut all = Vec::new();
    for file in files {
        let malformed = |e: &str| Diagnostic::new(Code::Malformed, e).at(file.display());
        let (layout, tasks) = match Model::load(file)? {
            Model::Container(c) => {
                let (layout, tasks, error) =
                    c.tasks().ok_or_else(|| malformed("no task stream of a known descriptor version"))?;
                error.map_or(Ok(()), |e| Err(malformed(&e.to_string())))?;
                (layout, tasks)
            }
            Model::Program(p) => (p.layout, p.tasks().map_err(|e| malformed(&e.to_string()))?),
            _ => return Err(malformed("--seen takes containers and raw streams")),
        };
        all.extend(tasks.into_iter().map(|t| (layout, t)));
    }
    Ok(all)
}

/// Raw values with their number of occurrences.
fn seen(tasks: &Tasks, layout: &Layout, row: &Row) -> BTreeMap<u32, usize> {
    let mut counts = BTreeMap::new();
    for (_, task) in tasks.iter().filter(|(l, _)| l.generation == layout.generation) {
        for i in 0..row.count as u32 {
            if let Some(value) = task.get_at(layout, row.field, i) {
                *counts.entry(value).or_insert(0) += 1;
            }
        }
    }
    counts
}

fn place(row: &Row, index: u32) -> String {
    match row.space {
        Space::Header => format!("header word at +{:#04x}", row.addr + 4 * index),
        Space::Register => format!("register {:#07x}", row.addr + 4 * index),
    }
}

fn coding(field: Field) -> String {
    match field.info().coding {
        Coding::Names(names) => {
            let named = names.iter().enumerate().filter(|(_, n)| !n.is_empty());
            named.map(|(i, n)| format!("{i} {n}")).collect::<Vec<_>>().join(", ")
        }
        Coding::Shifted(n) => format!("low {n} bits dropped"),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn meaning(field: Field) -> String {
    let info = field.info();
    let unit = if info.unit.is_empty() { String::new() } else { format!(", in {}", info.unit) };
    let others: Vec<&str> = aliases::of(info.name).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        names => format!("  elsewhere: aneRegs.{} ({})\n", names.join(", aneRegs."), aliases::SOURCE),
    };
    format!("{}: {}{unit}\n  coding: {}\n{others}", info.name, info.meaning, coding(field))
}

fn paragraph(layout: &Layout, row: &Row, index: u32, seen: &BTreeMap<u32, usize>, unasked: bool) -> String {
    let block = layout
        .block_of(row.addr)
        .filter(|_| row.space == Space::Register)
        .map_or(String::new(), |b| format!(", {}", b.name));
    let several = if row.count > 1 { format!(", {} in a row", row.count) } else { String::new() };
    let mut text =
        format!("  {}: {}, bits {}..{}{several}{block}\n", layout.generation, place(row, index), row.hi, row.lo);
    text += &format!(
        "    evidence: {} ({:?}), source {} in docs/evidence.md\n",
        row.evidence.letter(),
        row.evidence,
        row.source
    );
    if !unasked {
        let values: Vec<String> = seen.iter().map(|(v, n)| format!("{v:#x} ({n})")).collect();
        text += &format!("    seen: {}\n", if values.is_empty() { "nowhere".into() } else { values.join(", ") });
    }
    text
}

fn document(layout: &Layout, row: &Row, index: u32, seen: &BTreeMap<u32, usize>) -> Value {
    let info = row.field.info();
    json!({
        "field": info.name,
        "meaning": info.meaning,
        "unit": info.unit,
        "generation": layout.generation,
        "space": if row.space == Space::Header { "header" } else { "register" },
        "address": row.addr + 4 * index,
        "low_bit": row.lo,
        "high_bit": row.hi,
        "count": row.count,
        "coding": coding(row.field),
        "evidence": row.evidence.letter(),
        "source": row.source,
        "seen": seen.iter().map(|(v, n)| json!({ "value": v, "times": n })).collect::<Vec<_>>(),
    })
}
