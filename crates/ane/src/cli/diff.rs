//! `ane diff`: what differs between two compiled files, field by field.

use super::{Voice, print};
use anemone::explain::explain;
use anemone::{Code, Diagnostic, Model, Result};
use anemone_program::text::{Change, Dump, Part, Selection, differences};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};

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
    /// Parts to compare; all by default
    #[arg(long, value_name = "PARTS")]
    part: Option<String>,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let mut selection = Selection::default();
    if let Some(parts) = &flags.part {
        selection.parts = Part::list(parts).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    }
    let dump = |path: &Path| -> Result<Dump> { explain(&Model::load(path)?, path, &selection) };
    let changes = differences(&dump(&flags.a)?, &dump(&flags.b)?);
    if voice.json {
        let document = json!({ "schema": "anemone.diff/1", "changes": changes });
        print(&format!("{document}\n"))?;
    } else {
        print(&changes.iter().map(line).collect::<String>())?;
    }
    Ok(if changes.is_empty() { 0 } else { Code::Mismatch.exit() })
}

fn line(c: &Change) -> String {
    let place = format!("{}: {}", c.part.name(), c.place.join(" / "));
    match (&c.a, &c.b) {
        (Some(a), Some(b)) => format!("{place}: {a} -> {b}\n"),
        (Some(a), None) => format!("{place}: - {a}\n"),
        (None, b) => format!("{place}: + {}\n", b.as_deref().unwrap_or_default()),
    }
}
