//! Effect of each compiler phase on real packages: operations and tasks, and bytes moved, counted by the engine.
//! Prints the table of `docs/performance.md`:
//!
//!     cargo run --release -p anemone --example phases -- ../shared/models

use anemone::execute::Execution;
use anemone::{Array, Diagnostic, Model};
use anemone_compile::{Log, Options, Stage, pipeline};
use anemone_engine::Options as EngineOptions;
use anemone_facts::chips::CHIPS;
use anemone_program::{Direction, Program};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Counts after each pass.
#[derive(Default)]
struct Counts(Vec<(&'static str, usize)>);

impl Log for Counts {
    fn wants(&self) -> bool {
        true
    }

    fn stage(&mut self, stage: Stage) {
        self.0.push((stage.name, stage.count));
    }
}

impl Counts {
    fn after(&self, pass: &pipeline::Pass) -> usize {
        self.0.iter().find(|(name, _)| *name == pass.dump).map_or(0, |(_, count)| *count)
    }
}

/// Bytes that one run moves between memory and the engines, coefficients apart.
fn moved(program: &Program) -> Result<u64, Diagnostic> {
    let inputs: Vec<(String, Array)> = program
        .ports_of(Direction::Input)
        .map(|port| {
            let s = port.shape;
            let data = vec![0.25; s.elements() as usize];
            (port.name.clone(), Array { shape: [s.n, s.c, s.h, s.w].map(|n| n as usize).to_vec(), data })
        })
        .collect();
    let options = EngineOptions { trace: true, ..EngineOptions::default() };
    let run = Execution::new(program, options)?.run(&inputs)?;
    Ok(run.trace.iter().map(|t| t.moved.source1 + t.moved.source2 + t.moved.destination).sum())
}

/// Number of optional passes before the one that keeps results in tile memory.
fn without_residency() -> usize {
    pipeline::ALL.iter().take_while(|p| p.name != pipeline::RESIDE.name).filter(|p| p.optional).count()
}

fn row(package: &Path) -> Result<String, Diagnostic> {
    let compile = |options: Options, log: &mut dyn Log| -> Result<Program, Diagnostic> {
        Ok(Model::load(package)?.compile(&CHIPS[0], &options, log)?.program)
    };
    let mut counts = Counts::default();
    let program = compile(Options::default(), &mut counts)?;
    // Without any fusion, and with all of it but nothing kept on chip.
    let mut plain = Counts::default();
    compile(Options { pass_limit: Some(0), ..Options::default() }, &mut plain)?;
    let streamed = compile(Options { pass_limit: Some(without_residency()), ..Options::default() }, &mut ())?;
    let (all, kept) = (moved(&streamed)?, moved(&program)?);
    let before = counts.after(&pipeline::FOLD);
    Ok(format!(
        "{before} | {} | {} | {} | {} | {all} | {kept} | {:.2}",
        plain.after(&pipeline::LEGALIZE),
        counts.after(&pipeline::LOWER),
        counts.after(&pipeline::SOURCE),
        counts.after(&pipeline::LEGALIZE),
        kept as f64 / all as f64
    ))
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: phases FOLDER, of folders that each hold model.mlpackage");
        return ExitCode::from(2);
    };
    let listing = match std::fs::read_dir(&folder) {
        Ok(listing) => listing,
        Err(e) => {
            eprintln!("{folder}: {e}");
            return ExitCode::from(2);
        }
    };
    let mut packages: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path()).filter(|path| path.join("model.mlpackage").is_dir()).collect();
    packages.sort();
    println!(
        "| package | operations | tasks, nothing fused | lowered | fused | legal | bytes moved, all through memory | bytes moved | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut failed = false;
    for path in &packages {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match row(&path.join("model.mlpackage")) {
            Ok(row) => println!("| {name} | {row} |"),
            Err(e) => {
                eprintln!("{name}: {e}");
                failed = true;
            }
        }
    }
    ExitCode::from(u8::from(failed))
}
