//! Arguments, and one file per verb.

mod asm;
mod broker;
mod cache;
mod check;
mod compile;
mod completions;
mod conventions;
mod convert;
mod diff;
mod doctor;
mod driver;
mod dump;
mod explain;
mod fix;
pub(crate) mod guard;
mod lut;
mod new;
mod ops;
mod passes;
mod patch;
mod reference;
pub(crate) mod run;
mod sweep;
mod targets;
mod trace;
mod validate;
mod via;

use anemone::reference::chip;
use anemone::{Code, Diagnostic, Form, Model, Result};
use anemone_engine::kernels::isa;
use anemone_facts::chips::{self, Chip};
use anemone_facts::formats::dialects::{self, DIALECTS, Dialect};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use conventions::ConventionName;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  ane model.mlpackage                    # as `ane check`
  ane check model.mlpackage -t m1,m4
  ane run model.mlpackage --input image.npy
  ane compile model.mlpackage -o out/
  ane convert model.onnx --dim N=1 -o model.mlpackage
  ane convert out/model.hwx -o model.anec
  ane dump out/model.hwx --part td --td 0
  ane targets m1

Exit codes: 0 fine, 1 the answer is no, 2 wrong usage or unreadable input, 3 a defect of this program.";

/// Display order of the options of every verb: behind its own, before help.
const LAST: usize = 900;

/// Open toolchain for the Apple Neural Engine.
#[derive(Parser)]
#[command(name = "ane", bin_name = "ane", version, after_help = EXAMPLES)]
pub struct Args {
    /// Print one JSON document on standard output
    #[arg(long, global = true, display_order = LAST)]
    pub json: bool,
    /// Print results, warnings about numbers and errors only
    #[arg(short, long, global = true, display_order = LAST)]
    pub quiet: bool,
    /// Print more detail
    #[arg(short, long, global = true, display_order = LAST)]
    pub verbose: bool,
    #[command(subcommand)]
    verb: Verb,
}

// Created once, so its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Subcommand)]
enum Verb {
    /// Report what runs on the Neural Engine of each chip, with reasons and fixes
    Check(check::Flags),
    /// Compile a model to a register program of the engine
    Compile(compile::Flags),
    /// Compile if needed, and execute on the software engine
    Run(run::Flags),
    /// Explain a compiled file, with every field named
    Dump(dump::Flags),
    /// Compare two compiled files field by field
    Diff(diff::Flags),
    /// Assemble a listing into a container
    Asm(asm::Flags),
    /// Convert a network or a compiled file to another form, or compress a network's weights
    Convert(convert::Flags),
    /// Rewrite refused operations to forms that the chip supports
    Fix(fix::Flags),
    /// Check, compile and run many models for many chips, on joblib, Dask or Ray
    Sweep(sweep::Flags),
    /// Replace weights, biases or tables in a compiled file
    Patch(patch::Flags),
    /// List chips, their names and limits
    Targets(targets::Flags),
    /// Serve programs to other processes
    Broker(broker::Flags),
    /// Print the broker's counters
    Stat(broker::StatFlags),
    /// List the driver's interface, and call a selector by hand
    Driver(driver::Flags),
    /// List, verify and move cached compiled programs
    Cache(cache::Flags),
    /// Compile models for the broker
    #[command(hide = true, name = broker::SERVICE)]
    CompileService,
    /// Write a template file: a native layer as a netplist
    New(new::Flags),
    /// List operations, native layers and their validators
    Ops(ops::Flags),
    /// Call the compiler's exported validators on a netplist, a module or a unit
    Validate(validate::Flags),
    /// Explain a word, code, operation, layer, chip, register or field
    Explain(explain::Flags),
    /// Compare activation tables with their functions, and compose functions from layers
    Lut(lut::Flags),
    /// List the steps of the compiler
    Passes(passes::Flags),
    /// Report features that work on this machine, and next steps
    Doctor(doctor::Flags),
    /// Print completions for a shell
    Completions(completions::Flags),
    /// Print a manual page
    Man(completions::ManFlags),
}

/// Options for properties that a model leaves open: function and extents.
#[derive(clap::Args)]
pub struct ModelFlags {
    /// Function, procedure or network to read, if the model has several
    #[arg(long, value_name = "NAME")]
    pub function: Option<String>,
    /// Extent of a symbolic dimension, by its name, or of INPUT.AXIS
    #[arg(long, value_name = "NAME=EXTENT", value_parser = dimension)]
    dim: Vec<(String, usize)>,
    /// Shape of an input, one of those that the model accepts: the extents of all its axes
    #[arg(long, value_name = "INPUT=1,3,224,224", value_parser = shape)]
    shape: Vec<(String, Vec<usize>)>,
    /// Values of an integer input of an ONNX model that the graph needs as constants, such as a length or extents
    #[arg(long, value_name = "INPUT=3,5", value_parser = value)]
    value: Vec<(String, Vec<i64>)>,
    /// Folder that MIL text calls @model_path [default: that of the text]
    #[arg(long, value_name = "DIR")]
    model_root: Option<std::path::PathBuf>,
}

fn dimension(text: &str) -> std::result::Result<(String, usize), String> {
    let pair = text.rsplit_once('=').and_then(|(name, extent)| Some((name.to_string(), extent.parse().ok()?)));
    pair.filter(|(_, extent)| *extent > 0).ok_or("NAME=EXTENT with an extent of at least 1 expected".into())
}

fn shape(text: &str) -> std::result::Result<(String, Vec<usize>), String> {
    let extents = |list: &str| {
        list.split([',', 'x']).map(|n| n.trim().parse().ok().filter(|n| *n > 0)).collect::<Option<Vec<usize>>>()
    };
    let pair = text.rsplit_once('=').and_then(|(name, list)| Some((name.to_string(), extents(list)?)));
    pair.ok_or("INPUT=1,3,224,224 or INPUT=1x3x224x224 with extents of at least 1 expected".into())
}

fn value(text: &str) -> std::result::Result<(String, Vec<i64>), String> {
    let numbers = |list: &str| list.split(',').map(|n| n.trim().parse().ok()).collect::<Option<Vec<i64>>>();
    let pair = text.rsplit_once('=').and_then(|(name, list)| Some((name.to_string(), numbers(list)?)));
    pair.ok_or("INPUT=3,5 with integers expected".into())
}

impl ModelFlags {
    /// Returns true if no function, extent or value is given.
    fn is_plain(&self) -> bool {
        self.function.is_none() && self.dim.is_empty() && self.shape.is_empty() && self.value.is_empty()
    }

    fn choices(&self) -> Result<anemone::Choices> {
        let axes = |(name, extents): &(String, Vec<usize>)| {
            extents.iter().enumerate().map(|(axis, &n)| (format!("{name}.{axis}"), n)).collect::<Vec<_>>()
        };
        let extents = self.shape.iter().flat_map(axes).chain(self.dim.iter().cloned()).collect();
        let options = anemone_net::read::Options {
            function: self.function.clone(),
            extents,
            values: self.value.iter().cloned().collect(),
            ..Default::default()
        };
        Ok(anemone::Choices { options, model_root: self.model_root.clone() })
    }
}

/// Name instead of a chip: the first that supports the model's native layers.
const FIRST: &str = "first";

/// Verbosity and format of messages.
#[derive(Clone, Copy)]
pub struct Verbosity {
    json: bool,
    quiet: bool,
    verbose: bool,
}

impl Verbosity {
    /// Prints a progress line, not a result, to standard error, unless quiet.
    fn note(self, text: impl AsRef<str>) {
        if !self.quiet {
            say(text.as_ref());
        }
    }

    /// A line that says why a result may not be right: standard error, also when quiet, since the exit code may be 0.
    fn warn(self, text: impl AsRef<str>) {
        say(text.as_ref());
    }

    /// As [`Verbosity::note`], if verbose.
    fn detail(self, text: impl AsRef<str>) {
        if self.verbose {
            say(text.as_ref());
        }
    }

    /// Prints a reader's notes on a model: its decisions always, the opset only if verbose.
    fn reader_notes(self, notes: &[String]) {
        for note in notes {
            if note.starts_with("opset ") { self.detail(note) } else { self.note(note) }
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

pub use broker::set_own_command;

/// Runs the command line and returns its exit code; the first argument is the program's name. Prints errors, and a panic as a defect.
pub fn main(arguments: Vec<OsString>) -> u8 {
    // Determined before parsing, since usage errors follow it too.
    let json = arguments.iter().any(|a| a == "--json");
    guard::guarded(|| run(arguments, json)).unwrap_or_else(|diagnostic| {
        report(&diagnostic, json);
        diagnostic.code.exit()
    })
}

/// Selects the instruction set in `ANE_HOST` for the software engine.
fn force_instruction_set() -> Result<()> {
    let Some(name) = std::env::var_os("ANE_HOST").filter(|name| !name.is_empty()) else { return Ok(()) };
    let name = name.to_string_lossy();
    isa::force(&name).map_err(|e| {
        Diagnostic::new(Code::Usage, e.to_string())
            .at(format!("ANE_HOST={name}"))
            .help(format!("unset it, or name one of this host's: {}", e.available.join(", ")))
    })
}

/// Parses the arguments and runs the verb; returns its exit code. `json`: errors are printed as JSON.
fn run(arguments: Vec<OsString>, json: bool) -> Result<u8> {
    let parsed = command().try_get_matches_from(with_verb(arguments)).and_then(|m| Args::from_arg_matches(&m));
    let args = match parsed {
        Ok(args) => args,
        Err(e) => return usage(e, json),
    };
    let verbosity = Verbosity { json: args.json, quiet: args.quiet, verbose: args.verbose };
    force_instruction_set()?;
    match args.verb {
        Verb::Check(flags) => check::run(flags, verbosity),
        Verb::Compile(flags) => compile::run(flags, verbosity),
        Verb::Run(flags) => run::run(flags, verbosity),
        Verb::Dump(flags) => dump::run(flags, verbosity),
        Verb::Diff(flags) => diff::run(flags, verbosity),
        Verb::Asm(flags) => asm::run(flags, verbosity),
        Verb::Convert(flags) => convert::run(flags, verbosity),
        Verb::Fix(flags) => fix::run(flags, verbosity),
        Verb::Sweep(flags) => sweep::run(flags),
        Verb::Patch(flags) => patch::run(flags, verbosity),
        Verb::Targets(flags) => targets::run(flags, verbosity),
        Verb::Broker(flags) => broker::run(flags, verbosity),
        Verb::Stat(flags) => broker::stat(flags, verbosity),
        Verb::Driver(flags) => driver::run(flags, verbosity),
        Verb::Cache(flags) => cache::run(flags, verbosity),
        Verb::CompileService => broker::compile_service(verbosity),
        Verb::New(flags) => new::run(flags, verbosity),
        Verb::Ops(flags) => ops::run(flags, verbosity),
        Verb::Validate(flags) => validate::run(flags, verbosity),
        Verb::Explain(flags) => explain::run(flags, verbosity),
        Verb::Lut(flags) => lut::run(flags, verbosity),
        Verb::Passes(flags) => passes::run(flags, verbosity),
        Verb::Doctor(flags) => doctor::run(flags, verbosity),
        Verb::Completions(flags) => completions::run(flags, verbosity),
        Verb::Man(flags) => completions::man(flags, verbosity),
    }
}

/// Verbs in groups, in the order of the help.
pub const GROUPS: &[(&str, &[&str])] = &[
    ("Check models", &["check", "fix", "validate"]),
    ("Build and run", &["compile", "run", "sweep", "convert", "patch", "new"]),
    ("Inspect programs", &["dump", "diff", "asm", "lut", "passes"]),
    ("Runtime", &["broker", "stat", "driver", "cache"]),
    ("Reference and setup", &["explain", "ops", "targets", "doctor", "completions", "man", "help"]),
];

/// The command line, its verbs in groups.
fn command() -> clap::Command {
    let command = Args::command();
    let mut text = String::new();
    for (title, verbs) in GROUPS {
        text += &format!("{title}:\n");
        for verb in *verbs {
            let about = command.find_subcommand(verb).and_then(|c| c.get_about()).map(|a| a.to_string());
            text += &format!("  {verb:12} {}\n", about.unwrap_or("Print help for a verb".into()));
        }
        text.push('\n');
    }
    let template = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";
    command.before_help(text.trim_end().to_string()).help_template(template)
}

/// `ane MODEL` means `ane check MODEL`: the verb is inserted if the first word that is not a flag is a path.
fn with_verb(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let first = arguments.iter().skip(1).position(|a| !a.as_encoded_bytes().starts_with(b"-"));
    if let Some(at) = first.map(|at| at + 1) {
        let word = &arguments[at];
        let verb = Args::command().get_subcommands().any(|c| *word == *c.get_name()) || word == "help";
        let path = Path::new(word);
        if !verb && (word.to_string_lossy().contains(['.', '/']) || path.exists()) {
            arguments.insert(at, "check".into());
        }
    }
    arguments
}

/// Help and version are answers; all other errors are wrong usage.
fn usage(error: clap::Error, json: bool) -> Result<u8> {
    use clap::error::ErrorKind;
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = error.render();
        let styled = std::io::stdout().is_terminal();
        return print(&if styled { text.ansi().to_string() } else { text.to_string() }).map(|()| 0);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !json {
        say(error.render().to_string().trim_end());
        return Ok(Code::Usage.exit());
    }
    let text = error.render().to_string();
    let mut paragraphs = text.trim_end().split("\n\n");
    let line = |p: &str| p.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = line(paragraphs.next().unwrap_or_default());
    let message = first.strip_prefix("error: ").unwrap_or(&first);
    let help: Vec<String> = paragraphs.map(line).collect();
    Err(Diagnostic::new(Code::Usage, message).help(help.join("\n")))
}

/// Prints a refusal.
fn report(diagnostic: &Diagnostic, json: bool) {
    if json {
        let _ = print(&format!("{}\n", diagnostic.json()));
    } else {
        say(&diagnostic.render(std::io::stderr().is_terminal()));
    }
}

/// Prints a line to standard error, which may be closed.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Prints a result; a closed standard output is not an error.
fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if !anemone::os::reader_left(&e) => Err(Diagnostic::new(
            Code::Unwritable,
            format!("cannot write to standard output: {}", anemone::os::reason(&e)),
        )),
        _ => Ok(()),
    }
}

/// Refuses what the book refuses on a chip if its convention is selected; else `-v` reports it.
fn by_the_book(
    asked: ConventionName,
    model: &Path,
    net: &anemone_net::Net,
    chip: &'static Chip,
    verbosity: Verbosity,
) -> Result<()> {
    let asked = asked == ConventionName::Book;
    if !asked && !verbosity.verbose {
        return Ok(());
    }
    match anemone::check::refused_by_the_book(&anemone::check::outline(model, net), chip) {
        Some(refused) if asked => return Err(refused.or_at(model.display())),
        Some(refused) => verbosity.detail(format!("own lowering, refused with --convention book: {}", refused.message)),
        None => {}
    }
    Ok(())
}

/// Reads a compiled form by name.
fn forms() -> impl TypedValueParser<Value = Form> {
    let names = PossibleValuesParser::new(Form::ALL.map(Form::name));
    names.try_map(|name| Form::ALL.into_iter().find(|f| f.name() == name).ok_or("not a form"))
}

/// Reads a container's dialect by name.
fn dialects() -> impl TypedValueParser<Value = &'static Dialect> {
    let names = PossibleValuesParser::new(DIALECTS.iter().filter(|d| d.written).map(|d| d.name));
    names.try_map(|name| dialects::by_name(&name).ok_or("not a dialect"))
}

/// The chip of that name, or for `first` the first that supports the model's native layers.
fn target(name: &str, model: &Model) -> Result<&'static Chip> {
    match model {
        _ if name != FIRST => chip(name),
        Model::Net { net, .. } => anemone_compile::native::first_chip(net).ok_or_else(|| {
            Diagnostic::new(Code::ChipLimit, "no chip supports every native layer of the model")
                .help("`ane check` lists the unsupported layers of each chip")
        }),
        _ => Ok(&chips::CHIPS[0]),
    }
}
