//! `ane check`: placement of a model's operations on the engine of each chip, with reasons and fixes.

pub mod annotations;
pub mod causes;
pub mod html;
pub mod json;
pub mod junit;
pub mod sarif;
pub mod summary;
pub mod table;
pub mod times;
pub mod verdict;

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::files::{self, Folder};
use crate::model::{Choices, Model};
use crate::native;
use anemone_check::lint::{self, Assumptions, Finding};
use anemone_check::{Place, Placement, Route, check};
use anemone_compile::here::{Here, Refused, here};
use anemone_compile::segments::{may_divide, on_host};
use anemone_facts::chips::Chip;
use anemone_net::outline::{Origin, Outline};
use anemone_net::{Net, read};
use anemone_program::hwx::Container;
use std::collections::BTreeMap;
use std::path::Path;

/// A program to check, or a container whose records can be checked for loading.
pub enum Subject {
    /// A program's outline, and the notes of its reader.
    Program(Box<Outline>, Vec<String>),
    /// A compiled container.
    Container(Box<Container>),
}

/// Reads the declarations of a model, without weights where the format allows.
pub fn load(path: &Path, choices: &Choices) -> Result<Subject> {
    let malformed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string()).at(path.display());
    let options = &choices.options;
    if path.is_dir() && path.join("Manifest.json").exists() {
        let outline = read::outline_package(&Folder::new(path), options).map_err(malformed)?;
        return Ok(program(path, outline, choices));
    }
    if !path.is_dir()
        && let Some(Ok(outline)) = read::outline(&files::mapped(path)?, options)
    {
        return Ok(program(path, outline, choices));
    }
    let loaded = match Model::load_with(path, choices) {
        Err(refused) => return for_host(path, choices).ok_or(refused),
        Ok(loaded) => loaded,
    };
    match loaded {
        Model::Net { net, notes } => Ok(Subject::Program(Box::new(outline(path, &net)), notes)),
        Model::Container(container) => Ok(Subject::Container(container)),
        Model::Descriptor(_) | Model::Package(_) => {
            Err(Diagnostic::new(Code::Usage, "a dispatch descriptor or firmware container has no operations to place")
                .at(path.display())
                .help("`ane dump` explains it; give the model, or the container (.hwx)"))
        }
        Model::Program(_) => Err(Diagnostic::new(Code::Usage, "a raw task stream has no operations to place")
            .at(path.display())
            .help("`ane dump` explains it; give the model that it was compiled from")),
    }
}

/// An ONNX model of which only a part is a static graph: the other nodes are placed on the CPU.
fn for_host(path: &Path, choices: &Choices) -> Option<Subject> {
    let bytes = if path.is_dir() { return None } else { files::mapped(path).ok()? };
    if read::sniff(&bytes) != Some(read::Format::Onnx) {
        return None;
    }
    let beside = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (outline, notes) = read::outline_onnx(&bytes, &Folder::new(beside), &choices.options).ok()?;
    Some(Subject::Program(Box::new(outline), notes))
}

/// Outline of a network read from a file; the origin distinguishes netplists, whose layers are units.
pub fn outline(path: &Path, net: &Net) -> Outline {
    let mut outline = Outline::of(net);
    let netplist = !path.is_dir() && files::mapped(path).is_ok_and(|b| read::sniff(&b) == Some(read::Format::Netplist));
    if netplist {
        outline.origin = Origin::Netplist;
    }
    outline
}

/// First operation that the book refuses on a chip although this compiler lowers it; `None` if there is none.
pub fn refused_by_the_book(outline: &Outline, chip: &'static Chip) -> Option<Diagnostic> {
    let all = anemone_check::strict::refusals(outline, chip);
    let (at, refusal) = all.first()?;
    let op = &outline.ops[*at];
    let output = op.outputs.first().map_or("", |o| o.name.as_str());
    let others = if all.len() > 1 { format!("; {} more", all.len() - 1) } else { String::new() };
    let message = format!("{} `{output}`: refused for {}: {}{others}", op.op, chip.target, refusal.message);
    Some(Diagnostic::new(Code::ChipLimit, message).help(refusal.fix.clone()).about(&op.op, output))
}

/// Refusals of Apple's compiler for MIL text, which no converter changes before.
#[derive(Debug, Default)]
pub struct AppleRefusals {
    /// The first refused operation, with the reason.
    pub first: Option<Diagnostic>,
    /// Operations refused only for their form, such as constants written out; another compiler may accept them.
    pub forms: Vec<String>,
}

/// Operations that Apple's compiler refuses. Without `strict`, of MIL text only: files of other kinds pass through a converter that
/// changes them first, and forms of MIL text, such as constants written out, are listed separately. With `strict`, of every file, and
/// a form is a refusal too.
///
/// Errors: a file that cannot be read.
pub fn refused(path: &Path, choices: &Choices, chip: &'static Chip, strict: bool) -> Result<AppleRefusals> {
    let mut refused = AppleRefusals::default();
    let format = if path.is_dir() { None } else { read::sniff(&files::mapped(path)?) };
    if format != Some(read::Format::Mil) && !strict {
        return Ok(refused);
    }
    let Subject::Program(outline, _) = load(path, choices)? else { return Ok(refused) };
    let placement = check(&outline, chip, Route::Direct);
    for (op, verdict) in outline.ops.iter().zip(&placement.verdicts) {
        let stays = verdict.place == Place::Rejected || strict && !verdict.place.on_engine();
        let Some(refusal) = verdict.refusal.as_ref().filter(|_| stays) else { continue };
        let output = op.outputs.first().map_or("", |o| o.name.as_str());
        let apple = refusal.apple.as_ref().map_or(String::new(), |text| format!("; apple: {text}"));
        let message = format!(
            "{} `{output}`: {}{apple} ({}, {}, by {})",
            op.op,
            refusal.message,
            refusal.code,
            refusal.basis.phrase(),
            refusal.stage
        );
        if refusal.quantity == "form" && !strict {
            refused.forms.push(message);
            continue;
        }
        let fix = if refusal.fix.is_empty() { String::new() } else { format!("{}; ", refusal.fix) };
        let otherwise = if strict {
            "without --strict this compiler decides"
        } else {
            "--force compiles it nevertheless, if this compiler can"
        };
        let mut diagnostic = Diagnostic::new(Code::ChipLimit, message)
            .at(path.display())
            .help(format!("{fix}{otherwise}"))
            .about(&op.op, output);
        if let Some(details) = &mut diagnostic.details {
            details.found = Some(refusal.found.clone());
            details.limit = Some(refusal.limit.clone());
            details.chip = Some(chip.target.to_string());
        }
        refused.first = Some(diagnostic);
        break;
    }
    Ok(refused)
}

/// The outline, with extents that a file leaves open filled in by the reader if possible.
fn program(path: &Path, outline: Outline, choices: &Choices) -> Subject {
    let open = |o: &Outline| o.ops.iter().flat_map(|op| &op.outputs).any(|v| v.ty.shape.contains(&None));
    if open(&outline)
        && let Ok(Model::Net { net, mut notes }) = Model::load_with(path, choices)
    {
        notes.push("open dimensions of the file have their defaults here".to_string());
        let (opset, conditions) = (outline.opset, outline.conditions);
        return Subject::Program(Box::new(Outline { opset, conditions, ..Outline::of(&net) }), notes);
    }
    Subject::Program(Box::new(outline), Vec::new())
}

/// Answers of both routes for one chip.
pub struct Answer {
    /// Name of the chip as the user gave it.
    pub chip: String,
    /// Placement by the direct route: operations that the engine's compiler accepts.
    pub direct: Placement,
    /// Placement by the framework's route: operations for which Core ML would select the engine.
    pub framework: Placement,
    /// Matching rules, by the direct route.
    pub findings: Vec<Finding>,
    /// Matching rules by the framework's route, if they differ.
    pub framework_findings: Vec<Finding>,
    /// Result of this compiler: `None` for chips without a compiler, and until [`Report::compile`].
    pub here: Option<Here>,
}

impl Answer {
    /// The name as `-t` accepts it: of a product, without its chip.
    pub fn name(&self) -> &str {
        self.chip.split(" (").next().unwrap_or(&self.chip)
    }

    /// The placement by a route.
    pub fn by(&self, route: Route) -> &Placement {
        match route {
            Route::Direct => &self.direct,
            Route::Framework => &self.framework,
        }
    }

    /// The findings by a route.
    pub fn findings(&self, route: Route) -> &[Finding] {
        match route {
            Route::Direct => &self.findings,
            Route::Framework => &self.framework_findings,
        }
    }
}

/// Result of a check.
pub struct Report {
    /// Path given by the user.
    pub path: String,
    /// The program.
    pub outline: Outline,
    /// One answer per chip.
    pub answers: Vec<Answer>,
    /// Rules that compare results between the chips.
    pub across: Vec<Finding>,
    /// Route that decides; the report shows both.
    pub route: Route,
    /// Largest allowed number of operations off the engine.
    pub max_fallback: usize,
    /// True for MIL text that Apple's compiler refuses in part: `ane compile` then needs `--force`.
    pub forced: bool,
    /// True if the verdicts of the direct route are those of Apple's compiler: operations that this one rewrites are off the engine.
    pub strict: bool,
}

/// The route of that name.
pub fn route(name: &str) -> Result<Route> {
    table::route(name).ok_or_else(|| {
        Diagnostic::new(Code::Usage, format!("no route is called {name}")).help("known: direct, framework")
    })
}

/// Places a program on every chip by both routes.
pub fn report(
    path: &Path,
    outline: Outline,
    chips: &[(String, &'static Chip)],
    route: Route,
    assumed: &Assumptions,
) -> Report {
    let answers = chips.iter().map(|(name, chip)| {
        let direct = check(&outline, chip, Route::Direct);
        let framework = check(&outline, chip, Route::Framework);
        let findings = lint::check(&outline, &direct, assumed);
        let framework_findings = lint::check(&outline, &framework, assumed);
        Answer { chip: name.clone(), direct, framework, findings, framework_findings, here: None }
    });
    let answers = answers.collect();
    let rows: Vec<&Chip> = chips.iter().map(|(_, chip)| *chip).collect();
    let across = lint::across(&outline, &rows);
    let path = path.display().to_string();
    Report { path, outline, answers, across, route, max_fallback: 0, forced: false, strict: false }
}

/// An operation off the engine, as recorded in a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fallback {
    /// Compiler target.
    pub target: String,
    /// Name of the operation.
    pub op: String,
    /// Code of the rule.
    pub code: String,
}

impl Report {
    /// Compiles the program for every chip. Unless the report is strict, the result determines the verdicts of the direct route, with
    /// the refusals of Apple's compiler in addition; a strict report has the refusals of both. If a program cannot be read as a network,
    /// the operation at fault is rejected.
    ///
    /// Errors: those of a file that is not a network, such as an undefined operand.
    pub fn compile(&mut self, path: &Path, choices: &Choices) -> Result<()> {
        let net = match Model::load_with(path, choices) {
            Ok(Model::Net { net, .. }) => net,
            Err(refused) => return self.unread(refused),
            Ok(_) => return Ok(()),
        };
        if let Err(refused) = native::exact_indices(&net) {
            return self.unread(refused);
        }
        let first = self.answers.iter().map(|answer| answer.direct.chip).find(|chip| chip.layout.is_some());
        let gated = first.map(|chip| refused(path, choices, chip, false));
        self.forced = matches!(gated, Some(Ok(AppleRefusals { first: Some(_), .. })));
        for at in 0..self.answers.len() {
            let chip = self.answers[at].direct.chip;
            let known = self.answers[..at].iter().find(|a| a.direct.chip.target == chip.target);
            self.answers[at].here =
                known.map_or_else(|| here(&net, chip, &mut crate::files::Releasing::new(&mut ())), |a| a.here.clone());
            let host = match &self.answers[at].here {
                None => None,
                Some(Here::Compiled { .. }) if !may_divide(&net) => Some(BTreeMap::new()),
                Some(Here::Compiled { .. }) => on_host(&net, chip),
                Some(Here::Refused(_)) => on_host(&net, chip),
            };
            let answer = &mut self.answers[at];
            match (&answer.here, host) {
                (_, Some(host)) if !self.strict => answer.direct.use_own_verdicts(&self.outline, &host),
                // Apple's verdict is no more than `ane compile --strict` can follow.
                (Some(Here::Refused(refused)), host) => {
                    let first = refused.first().map_or("", |refused| &refused.message);
                    answer.direct.use_own_refusals(&self.outline, &host.unwrap_or_default(), first);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Rejects the operation that a reader refused, on chips with a compiler. Errors: a file that is not a network.
    fn unread(&mut self, refused: Diagnostic) -> Result<()> {
        let Some(result) = refused.details.as_ref().and_then(|details| details.output.as_deref()) else {
            return if refused.code == Code::Malformed { Err(refused) } else { Ok(()) };
        };
        for answer in self.answers.iter_mut().filter(|a| a.direct.chip.layout.is_some()) {
            let (op, message) = (Some(result.to_string()), refused.message.clone());
            answer.here = Some(Here::Refused(vec![Refused { op, message }]));
            answer.direct.reject(&self.outline, result, &refused.message);
        }
        Ok(())
    }

    /// Every operation off the engine by the deciding route.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        let mut all = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        for answer in &self.answers {
            let placement = answer.by(self.route);
            // Two names may denote one target.
            if seen.contains(&placement.chip.target) {
                continue;
            }
            seen.push(placement.chip.target);
            for (at, verdict) in placement.verdicts.iter().enumerate().filter(|&(at, _)| !placement.on_engine(at)) {
                let code = verdict.refusal.as_ref().map_or("segmenter", |r| r.code);
                let (target, op) = (placement.chip.target.to_string(), self.outline.ops[at].name.clone());
                all.push(Fallback { target, op, code: code.to_string() });
            }
        }
        all
    }

    /// Chips with more operations off the engine than allowed; those in the baseline do not count.
    pub fn failing(&self, baseline: &[Fallback]) -> Vec<(&str, usize)> {
        let all = self.fallbacks();
        let new = |target: &str| all.iter().filter(|f| f.target == target && !baseline.contains(f)).count();
        let counted = self.answers.iter().map(|a| (a.chip.as_str(), new(a.direct.chip.target)));
        counted.filter(|&(_, n)| n > self.max_fallback).collect()
    }
}

/// The name of a route.
pub fn route_name(route: Route) -> &'static str {
    match route {
        Route::Direct => "direct",
        Route::Framework => "framework",
    }
}

/// Reason why an operation is off the engine, in one line; empty without a refusal or a decision of the segmenter.
pub fn reason(placement: &Placement, at: usize) -> String {
    match (&placement.verdicts[at].refusal, &placement.choice) {
        (Some(refusal), _) => refusal.message.clone(),
        (None, Some(choice)) => {
            let backend = choice.backends[at].map_or("no backend", |b| b.name());
            format!(
                "supported by the engine; Core ML's cheapest path runs it on the CPU ({backend}, modelled by its segmenter)"
            )
        }
        (None, None) => String::new(),
    }
}
