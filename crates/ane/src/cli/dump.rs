//! `ane dump`: a compiled file explained, or as text that assembles back.

use super::{Voice, print};
use anemone::{Code, Diagnostic, Model, Result};
use anemone_program::text::{self, Dump, Part, Selection};
use clap::Args;
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
        return match &model {
            Model::Container(container) => print(&text::list_container(container)).map(|()| 0),
            Model::Program(program) => print(&text::list(program)).map(|()| 0),
            Model::Net { .. } => Err(not_compiled(&flags)),
        };
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

fn not_compiled(flags: &Flags) -> Diagnostic {
    Diagnostic::new(Code::Usage, "the file is a model, not a compiled program")
        .at(flags.file.display())
        .help("compile it first: ane compile MODEL -o out/")
}
