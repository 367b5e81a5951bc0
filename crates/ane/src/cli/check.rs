//! `ane check`: what runs on the engine of which chip, why not, and what to change.

use super::{ModelFlags, Voice, print};
use anemone::check::summary::{self, Outcome};
use anemone::check::table::Style;
use anemone::check::{self, Fallback, Report, Subject, verdict};
use anemone::{Code, Diagnostic, Result, files, reference};
use anemone_compile::check::Route;
use anemone_compile::check::lint::Assumptions;
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
  ane check models/ other.mlpackage -t iphone
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
    /// Refuse what the book refuses on a chip, also where this compiler's own lowering takes it
    #[arg(long)]
    strict: bool,
    /// Operations that may be off the engine, on each chip
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_fallback: usize,
    /// Report of `ane check --json`: what it lists does not fail again
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write a SARIF 2.1.0 log
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write a self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print annotations of a GitHub workflow in place of the table
    #[arg(long)]
    github: bool,
    /// Assumptions that no file states: max-abs=N (of inputs), compiles=N, queued=N, loaded=N, private, pixel-buffers
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    assume: Vec<String>,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let route = check::route(&flags.route)?;
    let chips = reference::chip_list(&flags.target)?;
    let assumptions = assumptions(&flags.assume)?;
    let baseline = match &flags.baseline {
        Some(path) => {
            let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
            check::json::baseline(&text, &path.display().to_string())?
        }
        None => Vec::new(),
    };
    let models = summary::models(&flags.models)
        .map_err(|e| Diagnostic::new(Code::Unreadable, format!("cannot list a folder: {e}")))?;
    let choose = |report: &mut Report| report.max_fallback = flags.max_fallback;
    let (chips, assumed) = (&chips, &assumptions);
    match models.as_slice() {
        [] => {
            let message = "no model in the folder";
            Err(Diagnostic::new(Code::Usage, message)
                .at(flags.models[0].display())
                .help("models: .mlpackage, .mlmodelc, .mlmodel, .onnx"))
        }
        [model] => {
            let outline = match check::load(model, &flags.choices.choices()?)? {
                Subject::Container(container) => return loads(&flags, model, &container, voice),
                Subject::Program(outline, notes) => {
                    voice.reader_notes(&notes);
                    *outline
                }
            };
            let strict = chips.iter().find_map(|(_, chip)| check::strictly_refused(&outline, chip));
            if let Some(refused) = strict.filter(|_| flags.strict) {
                return Err(refused.at(model.display()));
            }
            let mut report = check::report(model, outline, chips, route, assumed);
            choose(&mut report);
            report.compile(model, &flags.choices.choices()?);
            one(&flags, &report, &baseline, voice)
        }
        several => {
            if flags.strict
                || flags.sarif.is_some()
                || flags.junit.is_some()
                || flags.html.is_some()
                || flags.baseline.is_some()
            {
                let message = format!(
                    "--strict, --sarif, --junit, --html and --baseline take one model, and there are {}",
                    several.len()
                );
                return Err(Diagnostic::new(Code::Usage, message));
            }
            let choices = flags.choices.choices()?;
            let outcomes: Vec<Outcome> = several
                .iter()
                .map(|model| match check::load(model, &choices) {
                    Ok(Subject::Program(outline, _)) => {
                        let mut report = check::report(model, *outline, chips, route, assumed);
                        choose(&mut report);
                        report.compile(model, &choices);
                        Outcome::Report(Box::new(report))
                    }
                    Ok(Subject::Container(_)) => {
                        let message = "a compiled container has no operations to place";
                        Outcome::Unreadable(model.clone(), Box::new(Diagnostic::new(Code::Usage, message)))
                    }
                    Err(diagnostic) => Outcome::Unreadable(model.clone(), Box::new(diagnostic)),
                })
                .collect();
            all(&flags, &outcomes, route, voice)
        }
    }
}

/// The answer on one model.
fn one(flags: &Flags, report: &Report, baseline: &[Fallback], voice: Voice) -> Result<u8> {
    write_files(flags, report)?;
    if voice.json {
        print(&format!("{}\n", check::json::document(report)))?;
    } else if flags.github {
        print(&check::annotations::lines(report))?;
    } else if voice.quiet {
        print(&format!("{}\n", verdict::last_line(report, &report.failing(baseline), !baseline.is_empty())))?;
    } else {
        let style = Style { verbose: voice.verbose, colour: std::io::stdout().is_terminal(), baseline };
        print(&check::table::render(report, style))?;
    }
    Ok(u8::from(!report.failing(baseline).is_empty()))
}

/// The answers on several.
fn all(flags: &Flags, outcomes: &[Outcome], route: Route, voice: Voice) -> Result<u8> {
    if voice.json {
        print(&format!("{}\n", summary::document(outcomes)))?;
    } else {
        for outcome in outcomes {
            match outcome {
                Outcome::Report(report) if flags.github => print(&check::annotations::lines(report))?,
                Outcome::Report(report) if voice.verbose => {
                    print(&format!("{}\n", check::table::render(report, Style::default())))?;
                }
                _ => {}
            }
        }
        if !flags.github {
            print(&summary::render(outcomes, route))?;
        }
    }
    Ok(outcomes.iter().map(Outcome::exit).max().unwrap_or(0))
}

fn write_files(flags: &Flags, report: &Report) -> Result<()> {
    let mut made: Vec<(&PathBuf, String)> = Vec::new();
    if let Some(path) = &flags.sarif {
        made.push((path, format!("{:#}\n", check::sarif::document(report))));
    }
    if let Some(path) = &flags.junit {
        made.push((path, check::junit::document(report)));
    }
    if let Some(path) = &flags.html {
        made.push((path, check::html::page(report)));
    }
    let all: Vec<_> = made.iter().map(|(path, text)| (path.as_path(), text.as_bytes())).collect();
    files::write_all(&all)
}

fn assumptions(words: &[String]) -> Result<Assumptions> {
    let mut assumed = Assumptions::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let wrong = || {
            Diagnostic::new(Code::Usage, format!("--assume {word} is not understood"))
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

/// A container: what the driver would check again at load.
fn loads(flags: &Flags, model: &Path, container: &anemone_program::hwx::Container, voice: Voice) -> Result<u8> {
    let needs_program = flags.sarif.is_some() || flags.junit.is_some() || flags.html.is_some() || flags.github;
    if needs_program || flags.route == check::route_name(Route::Framework) {
        return Err(Diagnostic::new(Code::Usage, "a compiled container has no operations to place")
            .at(model.display())
            .help("without --sarif, --junit, --html, --github and --route, its records are checked as a load would"));
    }
    let findings = container.load_findings();
    if voice.json {
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
