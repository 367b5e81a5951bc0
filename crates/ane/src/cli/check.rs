//! `ane check`: operations on and off the engine of each chip, with reasons and fixes.

use super::conventions::ConventionName;
use super::{ModelFlags, Verbosity, print};
use anemone::check::json::Baseline;
use anemone::check::summary::{self, Outcome};
use anemone::check::table::Style;
use anemone::check::{self, Report, Subject, verdict};
use anemone::{Code, Diagnostic, Result, files, os, reference};
use anemone_check::Route;
use anemone_check::lint::Assumptions;
use anemone_facts::chips::Chip;
use anemone_net::outline::Outline;
use clap::Args;
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane model.mlpackage
  ane check model.mlpackage -t m1,m4,iphone
  ane check model.mlpackage -t m1 --max-fallback 2 --sarif out.sarif
  ane check model.mlpackage -t m1,m2,m3 --html report.html
  ane check model.mlpackage --json > before.json
  ane check model.mlpackage --baseline before.json
  ane check model.onnx --dim N=1
  ane check models/ other.mlpackage -t iphone --html all.html
  ane check models/ --json > before.json && ane check models/ --baseline before.json
  ane check model.hwx

Two answers are given. direct: the engine's compiler can take the operation. framework: Core ML's segmenter would choose \
the engine for it, which it does only where that saves more than starting the engine costs (modelled). Words of the report \
are explained by `ane explain WORD`.

Exit code 1: more operations than --max-fallback allows are off the engine by the route that --route names, on some chip.")]
pub struct Flags {
    /// Models (.mlpackage, .mlmodel, .mlmodelc, .mil, .onnx, .plist), folders of models, or a compiled container
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
    #[command(flatten)]
    choices: ModelFlags,
    /// Chips (m1, a14, h13), products (iphone12, iPhone13,2, ipad-pro-m4) and groups (all, iphone, ipad, ios, mac), separated by commas
    #[arg(short, long, value_name = "CHIPS", default_value = "m1")]
    target: Vec<String>,
    /// Route that decides: direct or framework
    #[arg(long, value_name = "ROUTE", default_value = "direct")]
    route: String,
    /// Apple's verdict: operations that Apple's compiler refuses are off the engine, even if only for their form or if `ane compile` accepts them
    #[arg(long)]
    strict: bool,
    /// Refuse what the book refuses on a chip, even if this compiler lowers it
    #[arg(long, value_enum, default_value_t)]
    convention: ConventionName,
    /// Largest allowed number of operations off the engine, on each chip
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_fallback: usize,
    /// Report of `ane check --json`, on one model or several: fallbacks in it do not fail again
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write a SARIF 2.1.0 log
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a self-contained page; for several models one page with a table
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print annotations of a GitHub workflow instead of the table
    #[arg(long)]
    github: bool,
    /// Assumptions that no file states: max-abs=N (of inputs), compiles=N, queued=N, loaded=N, private, pixel-buffers
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    assume: Vec<String>,
}

pub fn run(flags: Flags, verbosity: Verbosity) -> Result<u8> {
    let route = check::route(&flags.route)?;
    let chips = reference::chip_list(&flags.target)?;
    let assumed = assumptions(&flags.assume)?;
    let baseline = flags.baseline.as_ref().map(|path| {
        let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
        Baseline::read(&text, &path.display().to_string())
    });
    let baseline = baseline.transpose()?;
    let models = summary::models(&flags.models)
        .map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot list a folder: {}", os::reason(&e))))?;
    let question = Question { flags: &flags, route, chips: &chips, assumed: &assumed };
    match models.as_slice() {
        [] => {
            let message = "no model in the folder";
            Err(Diagnostic::new(Code::Usage, message)
                .at(flags.models[0].display())
                .help("models: .mlpackage, .mlmodelc, .mlmodel, .onnx"))
        }
        [model] => match check::load(model, &flags.choices.choices()?)? {
            Subject::Container(container) => loads(&flags, model, &container, verbosity),
            Subject::Program(outline, notes) => {
                verbosity.reader_notes(&notes);
                let report = question.report(model, *outline)?;
                one(&flags, report, baseline.as_ref(), verbosity)
            }
        },
        several => {
            let outcome = |model: &PathBuf| match question.ask(model) {
                Ok(report) => Outcome::Report(Box::new(report)),
                Err(diagnostic) => Outcome::None(model.clone(), Box::new(diagnostic)),
            };
            let outcomes: Vec<Outcome> = several.iter().map(outcome).collect();
            all(&flags, &outcomes, route, baseline.as_ref(), verbosity)
        }
    }
}

/// Chips, route and assumptions of a check.
struct Question<'a> {
    flags: &'a Flags,
    route: Route,
    chips: &'a [(String, &'static Chip)],
    assumed: &'a Assumptions,
}

impl Question<'_> {
    /// The report on a model, from its file.
    fn ask(&self, model: &Path) -> Result<Report> {
        match check::load(model, &self.flags.choices.choices()?)? {
            Subject::Program(outline, _) => self.report(model, *outline),
            Subject::Container(_) => {
                Err(Diagnostic::new(Code::Usage, "a compiled container has no operations to place").at(model.display()))
            }
        }
    }

    /// The report on a model. Errors: with `--convention book`, the book's refusals.
    fn report(&self, model: &Path, outline: Outline) -> Result<Report> {
        let book = self.chips.iter().find_map(|(_, chip)| check::refused_by_the_book(&outline, chip));
        if let Some(refused) = book.filter(|_| self.flags.convention == ConventionName::Book) {
            return Err(refused.at(model.display()));
        }
        let mut report = check::report(model, outline, self.chips, self.route, self.assumed);
        (report.max_fallback, report.strict) = (self.flags.max_fallback, self.flags.strict);
        report.compile(model, &self.flags.choices.choices()?)?;
        Ok(report)
    }
}

/// Prints the answer on one model.
fn one(flags: &Flags, report: Report, baseline: Option<&Baseline>, verbosity: Verbosity) -> Result<u8> {
    if let Some(other) = baseline.and_then(|b| b.of_another(&report.path)) {
        verbosity.note(format!("warning: the baseline is a report on {other}"));
    }
    let outcome = [Outcome::Report(Box::new(report))];
    let [Outcome::Report(report)] = &outcome else { return Ok(0) };
    let known = baseline.map_or(&[][..], |baseline| baseline.of(&report.path, true));
    let page = || check::html::page(report);
    write_files(flags, &outcome, page)?;
    let failing = report.failing(known);
    if verbosity.json {
        print(&format!("{}\n", check::json::document(report)))?;
    } else if flags.github {
        print(&check::annotations::lines(report))?;
    } else if verbosity.quiet {
        print(&format!("{}\n", verdict::last_line(report, &failing, baseline.is_some())))?;
    } else {
        let colour = std::io::stdout().is_terminal();
        let style = Style { verbose: verbosity.verbose, colour, baseline: baseline.map(|_| known) };
        print(&check::table::render(report, style))?;
    }
    Ok(u8::from(!failing.is_empty()))
}

/// Prints the answers on several models.
fn all(
    flags: &Flags,
    outcomes: &[Outcome],
    route: Route,
    baseline: Option<&Baseline>,
    verbosity: Verbosity,
) -> Result<u8> {
    let page = || check::html::several(outcomes, route, baseline);
    write_files(flags, outcomes, page)?;
    if verbosity.json {
        print(&format!("{}\n", summary::document(outcomes)))?;
    } else {
        for report in outcomes.iter().filter_map(Outcome::report) {
            if flags.github {
                print(&check::annotations::lines(report))?;
            } else if verbosity.verbose {
                print(&format!("{}\n", check::table::render(report, Style::default())))?;
            }
        }
        if verbosity.quiet {
            print(&format!("{}\n", summary::last_line(outcomes, route, baseline)))?;
        } else if !flags.github {
            print(&summary::render(outcomes, route, baseline))?;
        }
    }
    let plain = Baseline::default();
    Ok(outcomes.iter().map(|outcome| outcome.exit(baseline.unwrap_or(&plain), false)).max().unwrap_or(0))
}

/// Writes the files given by flags, all or none.
fn write_files(flags: &Flags, outcomes: &[Outcome], page: impl Fn() -> String) -> Result<()> {
    let mut made: Vec<(&PathBuf, String)> = Vec::new();
    if let Some(path) = &flags.sarif {
        let reports: Vec<&Report> = outcomes.iter().filter_map(Outcome::report).collect();
        made.push((path, format!("{:#}\n", check::sarif::document(&reports))));
    }
    if let Some(path) = &flags.junit {
        made.push((path, check::junit::document(outcomes)));
    }
    if let Some(path) = &flags.html {
        made.push((path, page()));
    }
    let all: Vec<_> = made.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_all(&all)
}

fn assumptions(words: &[String]) -> Result<Assumptions> {
    let mut assumed = Assumptions::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let wrong = || {
            Diagnostic::new(Code::Usage, format!("--assume {word}: unknown assumption"))
                .help("known: max-abs=N, compiles=N, queued=N, loaded=N, private, pixel-buffers")
        };
        let count = || value.parse::<u32>().map_err(|_| wrong());
        match key {
            "max-abs" => {
                let most = value.parse::<f64>().ok().filter(|v| *v >= 0.0 && v.is_finite());
                assumed.max_abs = Some(most.ok_or_else(wrong)?);
            }
            "compiles" => assumed.compiles = count()?,
            "queued" => assumed.queued = count()?,
            "loaded" => assumed.loaded = count()?,
            "private" if value.is_empty() => assumed.private = true,
            "pixel-buffers" if value.is_empty() => assumed.pixel_buffers = true,
            _ => return Err(wrong()),
        }
    }
    Ok(assumed)
}

/// Checks a container's records as the driver would when loading it.
fn loads(flags: &Flags, model: &Path, container: &anemone_program::hwx::Container, verbosity: Verbosity) -> Result<u8> {
    let needs_program = flags.sarif.is_some() || flags.junit.is_some() || flags.html.is_some() || flags.github;
    if needs_program || flags.route == check::route_name(Route::Framework) {
        return Err(Diagnostic::new(Code::Usage, "a compiled container has no operations to place")
            .at(model.display())
            .help("without --sarif, --junit, --html, --github and --route, its records are checked as a load would"));
    }
    let findings = container.load_findings();
    if verbosity.json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| json!({ "function": f.function, "offset": f.offset, "message": f.message, "apple": f.apple }))
            .collect();
        let document = json!({
            "schema": "anemone.load/1", "path": model.display().to_string(), "ok": findings.is_empty(), "findings": list,
        });
        print(&format!("{document}\n"))?;
        return Ok(u8::from(!findings.is_empty()));
    }
    let mut text = String::new();
    for finding in &findings {
        text += &format!("{:#010x} {}: {}\n", finding.offset, finding.function, finding.message);
        if let Some(apple) = finding.apple {
            text += &format!("           apple: {apple}\n");
        }
    }
    text += &match findings.len() {
        0 => format!("yes: the records of {} load\n", model.display()),
        n => format!("no: {n} records of {} would be refused at load\n", model.display()),
    };
    print(&text)?;
    Ok(u8::from(!findings.is_empty()))
}
