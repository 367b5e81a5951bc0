//! `ane check`: what runs on the engine of which chip, why not, and what to change.

use super::{ModelFlags, Voice, print};
use anemone::check::{self, Report, Subject};
use anemone::{Code, Diagnostic, Result, files};
use anemone_compile::check::lint::Assumptions;
use anemone_compile::check::{Route, load};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ane model.mlpackage
  ane check model.mlpackage -t m1,m4,a17
  ane check model.mlpackage -t m1 --max-fallback 2 --sarif out.sarif
  ane check model.mlpackage -t m1,m2,m3 --html report.html
  ane check model.mlpackage --json > before.json
  ane check model.mlpackage --baseline before.json
  ane check model.onnx --dim N=1
  ane check model.hwx

Two answers stand side by side. direct: the engine's compiler can take the operation. framework: its segmenter would
choose the engine, which it does only where that saves more than starting the engine costs (modelled).
Exit code 1: more operations than allowed are off the engine, by the route that --route names.")]
pub struct Flags {
    /// Model: a package, an .mlmodel, MIL text, ONNX, a netplist; or a compiled container, whose records are checked as a load would
    model: PathBuf,
    #[command(flatten)]
    choices: ModelFlags,
    /// Chips, by marketing name or compiler target, separated by commas
    #[arg(short, long, value_name = "CHIPS", value_delimiter = ',', default_value = "h13")]
    target: Vec<String>,
    /// Which answer decides: direct or framework
    #[arg(long, value_name = "ROUTE", default_value = "direct")]
    route: String,
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
    /// What no file states: max-abs=N (of inputs), compiles=N, queued=N, loaded=N, private, pixel-buffers
    #[arg(long, value_name = "WHAT", value_delimiter = ',')]
    assume: Vec<String>,
}

pub fn run(flags: Flags, voice: Voice) -> Result<u8> {
    let route = check::route(&flags.route)?;
    let chips = check::chips(&flags.target)?;
    let assumptions = assumptions(&flags.assume)?;
    let baseline = match &flags.baseline {
        Some(path) => {
            let text = String::from_utf8_lossy(&files::read(path)?).into_owned();
            check::json::baseline(&text, &path.display().to_string())?
        }
        None => Vec::new(),
    };
    let outline = match check::load(&flags.model, &flags.choices.choices()?)? {
        Subject::Container(container) => return loads(&flags, &container, voice),
        Subject::Program(outline, notes) => {
            voice.reader_notes(&notes);
            *outline
        }
    };
    let mut report = check::report(&flags.model, outline, &chips, route, &assumptions);
    report.max_fallback = flags.max_fallback;
    report.compile(&flags.model, &flags.choices.choices()?);
    write_files(&flags, &report)?;
    let failing = report.failing(&baseline);
    if voice.json {
        print(&format!("{}\n", check::json::document(&report)))?;
    } else if flags.github {
        print(&check::annotations::lines(&report))?;
    } else {
        print(&check::table::render(&report, voice.verbose))?;
    }
    if !baseline.is_empty() && !voice.json {
        let new: usize = failing.iter().map(|(_, n)| n).sum();
        voice.note(match new {
            0 => "baseline: nothing new is off the engine".to_string(),
            n => format!("baseline: {n} operations are newly off the engine"),
        });
    }
    Ok(u8::from(!failing.is_empty()))
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
fn loads(flags: &Flags, container: &anemone_program::hwx::Container, voice: Voice) -> Result<u8> {
    let needs_program = flags.sarif.is_some() || flags.junit.is_some() || flags.html.is_some() || flags.github;
    if needs_program || flags.route == check::route_name(Route::Framework) {
        return Err(Diagnostic::new(Code::Usage, "a compiled container has no operations to place")
            .at(flags.model.display())
            .help("without --sarif, --junit, --html, --github and --route, its records are checked as a load would"));
    }
    let findings = load::validate(container);
    if voice.json {
        let list: Vec<_> = findings
            .iter()
            .map(|f| json!({ "function": f.function, "offset": f.offset, "message": f.message, "apple": f.apple }))
            .collect();
        let document = json!({
            "schema": "anemone.load/1", "path": flags.model.display().to_string(), "ok": findings.is_empty(), "findings": list,
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
        0 => format!("yes: the records of {} load\n", flags.model.display()),
        n => format!("no: {n} records of {} would be refused at load\n", flags.model.display()),
    };
    print(&text)?;
    Ok(u8::from(!findings.is_empty()))
}
