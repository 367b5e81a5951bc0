//! `ane diff`: differences between two compiled files, field by field.

use super::{Verbosity, print};
use anemone::explain::explain;
use anemone::{Code, Diagnostic, Model, Result, overview};
use anemone_program::order;
use anemone_program::text::{Change, Part, Selection, differences};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane diff before.hwx after.hwx
  ane diff a.hwx b.hwx --part td,regs

Fields are compared by name, not by place: files of different compilers, sizes and forms can be compared. Exit code 1 where \
something differs.")]
pub struct Flags {
    /// Compiled file
    a: PathBuf,
    /// Compiled file
    b: PathBuf,
    /// Parts to compare [default: all]
    #[arg(long, value_name = "PARTS")]
    part: Option<String>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let mut selection = Selection::default();
    if let Some(parts) = &flags.part {
        selection.parts = Part::list(parts).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    }
    let (a, b) = (Model::load(&flags.a)?, Model::load(&flags.b)?);
    let mut changes = differences(&explain(&a, &flags.a, &selection)?, &explain(&b, &flags.b, &selection)?);
    order::by_key(&mut changes, |change| rank(change.part));
    if verbosity.json {
        let document = json!({ "schema": "anemone.diff/1", "changes": changes });
        print(&format!("{document}\n"))?;
    } else {
        let tasks = if flags.part.is_none() { changed_tasks(&a, &b) } else { String::new() };
        print(&(tasks + &folded(&changes).concat()))?;
    }
    Ok(if changes.is_empty() { 0 } else { Code::Mismatch.exit() })
}

/// Sort rank of a part: behaviour comes before layout, and names come last, because they follow from contents.
fn rank(part: Part) -> usize {
    let order = [Part::Regs, Part::Td, Part::Lut, Part::Weights, Part::Ports];
    order.iter().position(|p| *p == part).unwrap_or(match part {
        Part::Symbols => order.len() + 1,
        _ => order.len(),
    })
}

/// Tasks whose line in the overview differs.
fn changed_tasks(a: &Model, b: &Model) -> String {
    let (Some(a), Some(b)) = (overview::tasks(a), overview::tasks(b)) else { return String::new() };
    let mut out = String::new();
    if a.len() != b.len() {
        out += &format!("tasks: {} -> {}\n", a.len(), b.len());
    }
    for (at, (a, b)) in a.iter().zip(&b).enumerate().filter(|(_, (a, b))| a != b) {
        out += &format!("td{at}: {a}\n  -> {b}\n");
    }
    out
}

/// A line for each change; consecutive elements of an array share one.
fn folded(changes: &[Change]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < changes.len() {
        let array = element(&changes[at]);
        let run = changes[at..].iter().take_while(|c| array.is_some() && element(c) == array).count();
        if run < 3 {
            lines.push(line(&changes[at]));
            at += 1;
            continue;
        }
        let all = &changes[at..at + run];
        let values = |side: fn(&Change) -> &Option<String>| {
            let mut values: Vec<&str> = all.iter().map(|c| side(c).as_deref().unwrap_or("-")).collect();
            values.dedup();
            match values.as_slice() {
                [one] => one.to_string(),
                [first, .., last] => format!("{first} to {last}"),
                [] => String::new(),
            }
        };
        let place = format!("{}: {}", all[0].part.name(), all[0].place.join(" / "));
        let last = all[run - 1].place.last().map_or("", String::as_str);
        lines.push(format!("{place} to {last}: {} -> {}\n", values(|c| &c.a), values(|c| &c.b)));
        at += run;
    }
    lines
}

/// Array element of a change: part, enclosing structures and the array's name. `None` for other fields.
fn element(change: &Change) -> Option<(Part, &[String], &str)> {
    let (field, structures) = change.place.split_last()?;
    let (array, index) = field.split_once('[')?;
    index.strip_suffix(']')?.parse::<u32>().ok()?;
    Some((change.part, structures, array))
}

fn line(c: &Change) -> String {
    let place = format!("{}: {}", c.part.name(), c.place.join(" / "));
    match (&c.a, &c.b) {
        (Some(a), Some(b)) => format!("{place}: {a} -> {b}\n"),
        (Some(a), None) => format!("{place}: - {a}\n"),
        (None, b) => format!("{place}: + {}\n", b.as_deref().unwrap_or_default()),
    }
}
