//! Netplists of several procedures: one container with an entry point for each.

use super::super::{Verbosity, print};
use super::emit::{destinations, name_of};
use super::{CompatName, Flags, Stages};
use anemone::forms::{self, Form};
use anemone::{Code, Diagnostic, Result, files, procedures};
use anemone_compile::Options;
use anemone_facts::chips::Chip;
use anemone_net::Net;
use anemone_program::{Program, hwx};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Procedures of one netplist, to be compiled into one container.
pub(super) struct Procedures<'a> {
    pub names: &'a [String],
    pub chip: &'static Chip,
    pub forms: &'a [Form],
    pub output: &'a Path,
}

/// Compiles every procedure, and writes one container with an entry point for each.
pub(super) fn compile(flags: &Flags, all: &Procedures, options: &Options, verbosity: Verbosity) -> Result<u8> {
    let Procedures { names, chip, forms, output } = *all;
    let at = |d: Diagnostic| d.or_at(flags.model.display());
    if forms != [Form::Hwx] {
        let message = format!("the netplist has {} procedures: {}", names.len(), names.join(", "));
        let help = "a container (hwx) holds all of them; for other forms, --function NAME selects one";
        return Err(Diagnostic::new(Code::Usage, message).at(flags.model.display()).help(help));
    }
    let read = procedures::networks(&flags.model, &flags.choices.choices()?, names)?;
    for (net, notes) in &read {
        verbosity.reader_notes(notes);
        super::super::by_the_book(flags.convention, &flags.model, net, chip, verbosity)?;
    }
    let nets: Vec<Net> = read.into_iter().map(|(net, _)| net).collect();
    let text = format!("compiling for {}", chip.target);
    let bar = verbosity.progress(text.clone());
    let kept = flags.dump_ir.is_some().then(Vec::new);
    let mut stages = Stages { kept, below: PathBuf::new(), unkept: None, bar: (bar.clone(), text) };
    let programs = procedures::programs(&nets, chip, options, &mut stages);
    bar.finish_and_clear();
    if let Some(folder) = &flags.dump_ir {
        stages.write(folder)?;
    }
    let programs = programs.map_err(at)?;
    let dialect = flags.compat.and_then(CompatName::dialect).unwrap_or(hwx::Options::default().dialect);
    let file = forms::procedures(&programs, chip, &name_of(&flags.model), dialect).map_err(at)?;
    let (paths, _) = destinations(output, std::slice::from_ref(&file))?;
    let bytes = file.bytes();
    let files: Vec<(&Path, &[u8])> = paths.iter().map(|path| (path.as_path(), bytes.as_slice())).collect();
    files::write_all(&files)?;
    let tasks = |p: &Program| p.tasks().map_or(0, |tasks| tasks.len());
    let listed: Vec<_> = programs.iter().map(|p| json!({ "name": p.name, "tasks": tasks(p) })).collect();
    if verbosity.json {
        let written: Vec<_> =
            files.iter().map(|(p, b)| json!({ "path": p.display().to_string(), "bytes": b.len() })).collect();
        let document = json!({
            "schema": "anemone.compile/1", "chip": chip.target, "tasks": programs.iter().map(tasks).sum::<usize>(),
            "procedures": listed, "files": written,
        });
        print(&format!("{document}\n"))?;
        return Ok(0);
    }
    for path in &paths {
        let each: Vec<String> = programs.iter().map(|p| format!("{} ({} tasks)", p.name, tasks(p))).collect();
        verbosity.note(format!("{}: procedures {} for {}", path.display(), each.join(", "), chip.target));
    }
    Ok(0)
}
