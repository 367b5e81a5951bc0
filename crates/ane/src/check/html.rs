//! The report as one self-contained page: verdict, causes with their fixes, graph, matrix of chips, filters, and a reason
//! for each operation.

use super::causes::{self, Cause};
use super::json::Baseline;
use super::summary::{self, Outcome};
use super::{Report, json, verdict};
use anemone_check::Route;
use anemone_facts::lint::LINTS;
use anemone_net::outline::{Argument, OutlineOp};
use serde_json::{Value, json};
use std::path::Path;

const PAGE: &str = include_str!("page.html");
const SEVERAL: &str = include_str!("several.html");
/// Largest number of elements of a parameter that are printed.
const MOST_NUMBERS: usize = 8;

/// The page in a frame, for notebooks: verdict and causes; a button shows the rest.
pub fn frame(report: &Report) -> String {
    let page = rendered(report, "compact").replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe srcdoc=\"{page}\" style=\"width: 100%; height: 420px; border: 0\"></iframe>")
}

/// The page.
pub fn page(report: &Report) -> String {
    rendered(report, "whole")
}

/// One page for several models: a table, and the page of the selected model.
pub fn several(outcomes: &[Outcome], route: Route, baseline: Option<&Baseline>) -> String {
    let rows = summary::rows(outcomes);
    let pages: Vec<Value> = outcomes.iter().map(|o| o.report().map_or(Value::Null, |r| page(r).into())).collect();
    let document = json!({
        "rows": rows, "pages": pages, "verdict": summary::last_line(outcomes, route, baseline),
        "version": env!("CARGO_PKG_VERSION"),
    });
    SEVERAL.replace("__DATA__", &document.to_string().replace('<', "\\u003c"))
}

fn rendered(report: &Report, size: &str) -> String {
    let mut document = json::document(report);
    let rules = LINTS.iter().map(|l| {
        let row = json!({ "name": l.name, "condition": l.condition, "why": l.why, "fix": l.fix, "source": l.source });
        (l.code.to_string(), row)
    });
    document["rules"] = rules.collect::<serde_json::Map<_, _>>().into();
    document["version"] = env!("CARGO_PKG_VERSION").into();
    let groups = verdict::by_answer(report);
    let position = |name: &str| report.answers.iter().position(|a| a.chip == name);
    let first = verdict::first_cause(report, |_| true);
    document["first"] = first.as_ref().map(|cause| verdict::first_fix(report, cause)).into();
    document["summary"] = groups
        .iter()
        .map(|g| json!({ "label": g.label(), "chips": g.names, "at": position(&g.answer.chip), "text": verdict::sentence(g.answer, first.as_ref()) }))
        .collect();
    document["headline"] = verdict::last_line(report, &report.failing(&[]), false).into();
    document["causes"] = causes(report);
    document["parameters"] = report.outline.ops.iter().map(parameters).collect();
    // Within a script element only this character could end it.
    let data = document.to_string().replace('<', "\\u003c");
    let title = title(Path::new(&report.path)).replace('&', "&amp;").replace('<', "&lt;");
    PAGE.replace("__TITLE__", &title).replace("__SIZE__", size).replace("__DATA__", &data)
}

/// Title for a file: its name, with its folder's if the file is called `model`, as in one folder per model.
fn title(path: &Path) -> String {
    let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let name = path.file_name().map_or_else(|| path.display().to_string(), text);
    match path.parent().and_then(Path::file_name) {
        Some(folder) if path.file_stem().is_some_and(|stem| stem == "model") => format!("{}/{name}", text(folder)),
        _ => name,
    }
}

/// Causes, each once, with every chip that it applies to.
fn causes(report: &Report) -> Value {
    let row = |cause: &Cause| {
        let chips: Vec<&str> = cause.chips.iter().map(|on| on.answer.chip.as_str()).collect();
        json!({
            "code": cause.code, "cause": cause.cause, "fixes": cause.fixes(), "on": cause.on(), "here": cause.written(),
            "differ": cause.differ(), "chips": chips, "operations": cause.ops,
        })
    };
    let (off, rewritten): (Vec<Cause>, Vec<Cause>) = causes::of(report, report.route).into_iter().partition(Cause::off);
    off.iter().chain(&rewritten).map(row).collect::<Vec<_>>().into()
}

/// Parameters of an operation by name: few numbers and strings literally, others as type and size.
fn parameters(op: &OutlineOp) -> Value {
    let told = op.arguments.iter().filter_map(|(name, argument)| {
        let Argument::Constant(constant) = argument else { return None };
        let text = match (&constant.numbers, &constant.text) {
            (_, Some(text)) => text.clone(),
            (Some(numbers), _) if numbers.len() <= MOST_NUMBERS => {
                numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
            }
            _ => {
                let packed = constant.compressed.as_ref().map_or(String::new(), |by| format!(", by {by}"));
                format!("{}, {} bytes{packed}", constant.ty, constant.ty.bytes())
            }
        };
        Some((name.clone(), Value::from(text)))
    });
    told.collect::<serde_json::Map<_, _>>().into()
}
