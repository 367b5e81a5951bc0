//! `ane dump`: a compiled file explained, or as text that assembles back.

use super::{Voice, print};
use anemone::{Code, Diagnostic, Model, Result};
use anemone_program::text::{self, Dump, Part, Selection};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane dump model.hwx
  ane dump model.hwx --part td,lut --td 2
  ane dump model.hwx --asm > model.ane-asm")]
pub struct Flags {
    /// Compiled file: .hwx, .anec or .bin
    file: PathBuf,
    /// Parts to show: header, segments, symbols, relocs, ident, ports, td, regs, lut, weights
    #[arg(long, value_name = "PARTS")]
    part: Option<String>,
    /// Only this task
    #[arg(long, value_name = "N")]
    td: Option<usize>,
    /// Print the listing that `ane asm` reads
    #[arg(long)]
    asm: bool,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let model = Model::load(&flags.file)?;
    if flags.asm {
        let listing = match &model {
            Model::Container(container) => text::list_container(container),
            Model::Program(program) => text::list(program),
            Model::Net { .. } => return Err(not_compiled(&flags)),
        };
        let document = || format!("{}\n", json!({ "schema": "anemone.listing/1", "listing": listing }));
        return print(&if voice.json { document() } else { listing }).map(|()| 0);
    }
    if let (Some(n), Some(count)) = (flags.td, tasks(&model))
        && n >= count
    {
        let message = format!("--td {n}: there is no such task; tasks found: {count}, numbered from 0");
        return Err(Diagnostic::new(Code::Usage, message).at(flags.file.display()));
    }
    let mut selection = Selection { task: flags.td, ..Selection::default() };
    if let Some(parts) = &flags.part {
        selection.parts = Part::list(parts).map_err(|e| Diagnostic::new(Code::Usage, e.to_string()))?;
    } else if flags.td.is_some() {
        selection.parts = vec![Part::Td];
    }
    let dump = match &model {
        Model::Container(container) => Dump::of_container(container, &selection),
        Model::Program(program) => Dump::of_program(program, &selection),
        Model::Net { .. } => return Err(not_compiled(&flags)),
    };
    if voice.json {
        let document = serde_json::to_string(&dump).map_err(|e| Diagnostic::new(Code::Defect, e.to_string()))?;
        print(&format!("{document}\n"))?;
    } else {
        print(&dump.render())?;
    }
    Ok(0)
}

/// Number of tasks, where they can be followed.
fn tasks(model: &Model) -> Option<usize> {
    let program = match model {
        Model::Container(container) => &container.program().ok()?,
        Model::Program(program) => program,
        Model::Net { .. } => return None,
    };
    Some(program.tasks().ok()?.len())
}

fn not_compiled(flags: &Flags) -> Diagnostic {
    Diagnostic::new(Code::Usage, "the file is a model, not a compiled program")
        .at(flags.file.display())
        .help("compile it first: ane compile MODEL -o out/")
}
