//! Report of a compilation: files, tasks, sizes, modelled time.

use super::Flags;
use super::emit::Written;
use crate::cli::{Verbosity, print, trace};
use anemone::forms::Form;
use anemone::places;
use anemone::{Code, Diagnostic, ProgramChain, Result, overview};
use anemone_facts::Field;
use anemone_facts::chips::Chip;
use anemone_program::{Program, StreamError};
use serde_json::json;

/// Numbers of tasks by form of their coefficients, from their register words.
#[derive(Default)]
struct Tasks {
    all: usize,
    /// Tasks with palette indices.
    palettes: usize,
    /// Tasks with zero-skipped coefficients.
    zero_skipping: usize,
}

impl Tasks {
    fn of(programs: &[Program]) -> std::result::Result<Tasks, StreamError> {
        let mut tasks = Tasks::default();
        for program in programs {
            let found = program.tasks()?;
            let with = |field| found.iter().filter(|task| task.get(program.layout, field) == Some(1)).count();
            tasks.all += found.len();
            tasks.palettes += with(Field::PalettizedEn);
            tasks.zero_skipping += with(Field::SparseFmt);
        }
        Ok(tasks)
    }
}

/// Prints the report, as text or JSON.
pub(super) fn print_report(
    flags: &Flags,
    chain: &ProgramChain,
    chip: &'static Chip,
    forms: &[Form],
    written: &[Written],
    verbosity: Verbosity,
) -> Result<()> {
    let programs = chain.programs();
    let tasks = Tasks::of(programs).map_err(|e| Diagnostic::new(Code::Defect, e.to_string()))?;
    let total = |of: fn(&Program) -> u64| programs.iter().map(of).sum::<u64>();
    let stream_bytes = total(|p| p.stream.len() as u64);
    let kernel_bytes = total(|p| p.kernel.len() as u64);
    let scratch_bytes = total(|p| p.scratch_bytes);
    let time = chain.modelled(chip);
    if verbosity.json {
        let file = |w: &Written| json!({ "path": w.path.display().to_string(), "bytes": w.bytes });
        let document = json!({
            "schema": "anemone.compile/1",
            "chip": chip.target,
            "tasks": tasks.all,
            "palette_tasks": tasks.palettes,
            "zero_skipping_tasks": tasks.zero_skipping,
            "segments": programs.len(),
            "host_segments": chain.hosts().len(),
            "loops": chain.loops().iter().map(|repeat| repeat.turns).collect::<Vec<_>>(),
            "stream_bytes": stream_bytes,
            "kernel_bytes": kernel_bytes,
            "scratch_bytes": scratch_bytes,
            "modelled": time.as_ref().map(trace::time),
            "files": written.iter().map(file).collect::<Vec<_>>(),
        });
        return print(&format!("{document}\n"));
    }
    let count = programs.len();
    let counted = overview::counted(tasks.all, "task");
    let whole = if count > 1 { format!("{counted} in {count} segments") } else { counted };
    let whole = match chain.hosts().len() {
        0 => whole,
        n => format!("{whole} and {n} host segments"),
    };
    let turns: Vec<String> = chain.loops().iter().map(|repeat| repeat.turns.to_string()).collect();
    let whole = match turns.len() {
        0 => whole,
        _ => format!("{whole}, in loops of {} iterations", turns.join(", ")),
    };
    for (at, Written { path, .. }) in written.iter().enumerate() {
        // A container has the tasks of one program; a descriptor calls all of them.
        let of_form = |other: &&Written| other.path.extension() == path.extension();
        let place = written[..at].iter().filter(of_form).count();
        let own = programs.get(place..=place).filter(|_| written.iter().filter(of_form).count() == programs.len());
        let own = own.filter(|_| path.extension().is_none_or(|form| form != "e5"));
        let counted = own.and_then(|own| Tasks::of(own).ok()).map(|own| overview::counted(own.all, "task"));
        verbosity.note(format!("{}: {} for {}", path.display(), counted.as_ref().unwrap_or(&whole), chip.target));
    }
    if let Some(time) = &time {
        verbosity.note(format!("modelled: {time}"));
    }
    if forms.contains(&Form::E5) && !forms.contains(&Form::Hwx) {
        verbosity.note("the containers of the descriptor are not written: --emit hwx,e5");
    }
    verbosity.detail(format!(
        "{count} segments, stream {stream_bytes} bytes, kernel {kernel_bytes} bytes, scratch {scratch_bytes} bytes"
    ));
    if let Ok(folder) = places::cache_folder(flags.cache.clone()) {
        verbosity.detail(format!("programs are cached in {} (`ane cache`, --no-cache)", folder.display()));
    }
    let Tasks { palettes, zero_skipping, .. } = tasks;
    verbosity.detail(format!("palettized weights in {palettes} tasks, zero-skipped ones in {zero_skipping}"));
    Ok(())
}
