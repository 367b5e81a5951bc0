//! Arguments, and one file per verb.

mod asm;
mod compile;
mod dump;
mod run;
mod targets;

use anemone::{Code, Diagnostic, Result};
use anemone_facts::chips::{self, Chip};
use clap::{Parser, Subcommand};
use std::io::{IsTerminal, Write};

const EXAMPLES: &str = "\
Examples:
  ane run model.mlpackage --input image.npy
  ane compile model.mlpackage -o out/
  ane dump out/model.hwx --part td --td 0
  ane targets m1

Exit codes: 0 fine, 1 the answer is no, 2 wrong usage or unreadable input, 3 a defect of this program.";

/// Open toolchain for the Apple Neural Engine.
#[derive(Parser)]
#[command(name = "ane", version, after_help = EXAMPLES)]
pub struct Args {
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Say less
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more
    #[arg(short, long, global = true)]
    pub verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compile a model to the engine's register program
    Compile(compile::Flags),
    /// Compile if needed, and execute on the software engine
    Run(run::Flags),
    /// Explain a compiled file, every field named
    Dump(dump::Flags),
    /// Assemble a listing into a container
    Asm(asm::Flags),
    /// Chips and their limits
    Targets(targets::Flags),
}

/// How much to say, and in which form.
#[derive(Clone, Copy)]
pub struct Voice {
    json: bool,
    quiet: bool,
    verbose: bool,
}

impl Voice {
    /// A line about the work, not a result: standard error, unless quiet.
    fn note(self, text: impl AsRef<str>) {
        if !self.quiet {
            eprintln!("{}", text.as_ref());
        }
    }

    /// As [`Voice::note`], when asked for more.
    fn detail(self, text: impl AsRef<str>) {
        if self.verbose {
            eprintln!("{}", text.as_ref());
        }
    }

    /// A spinner on a terminal.
    fn progress(self, text: String) -> indicatif::ProgressBar {
        if self.quiet || !std::io::stderr().is_terminal() {
            return indicatif::ProgressBar::hidden();
        }
        let bar = indicatif::ProgressBar::new_spinner().with_message(text);
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        bar
    }
}

/// Runs the verb; the exit code where nothing went wrong.
pub fn dispatch(args: Args) -> Result<u8> {
    let voice = Voice { json: args.json, quiet: args.quiet, verbose: args.verbose };
    match args.verb {
        Verb::Compile(flags) => compile::run(flags, voice),
        Verb::Run(flags) => run::run(flags, voice),
        Verb::Dump(flags) => dump::run(flags, voice),
        Verb::Asm(flags) => asm::run(flags, voice),
        Verb::Targets(flags) => targets::run(flags, voice),
    }
}

/// Prints a refusal.
pub fn report(diagnostic: &Diagnostic, json: bool) {
    if json {
        let _ = print(&format!("{}\n", diagnostic.json()));
    } else {
        eprintln!("{}", diagnostic.render(std::io::stderr().is_terminal()));
    }
}

/// Prints a result; a reader that has gone away is no error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::new(Code::Unwritable, format!("cannot write to standard output: {e}")))
        }
        _ => Ok(()),
    }
}

/// The chip of that name.
fn chip(name: &str) -> Result<&'static Chip> {
    chips::by_name(name).ok_or_else(|| {
        let known: Vec<&str> = chips::CHIPS.iter().flat_map(|c| [&[c.target], c.marketing].concat()).collect();
        Diagnostic::new(Code::Usage, format!("no chip is known as {name}")).help(format!("known: {}", known.join(", ")))
    })
}
