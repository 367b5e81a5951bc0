//! The report as one page that needs no network: verdict, causes with their fixes, graph, matrix of chips, filters, and a reason
//! for each operation.

use super::{Report, causes, json, verdict};
use anemone_facts::lint::LINTS;
use anemone_net::outline::{Argument, OutlineOp};
use serde_json::{Value, json};
use std::path::Path;

const PAGE: &str = include_str!("page.html");
/// Most numbers of a parameter that are shown.
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
    document["summary"] = groups
        .iter()
        .map(|g| json!({ "label": g.label(), "chips": g.names, "at": position(&g.answer.chip), "text": verdict::sentence(g.answer) }))
        .collect();
    document["headline"] = verdict::last_line(report, &report.failing(&[]), false).into();
    document["causes"] = causes::of(report, report.route)
        .iter()
        .chain(&causes::rewritten(report))
        .map(|c| {
            let chips: Vec<&str> = c.chips.iter().map(|(answer, _)| answer.chip.as_str()).collect();
            json!({ "code": c.code, "cause": c.cause, "fix": c.fix(), "on": c.on(), "chips": chips, "operations": c.ops })
        })
        .collect();
    document["parameters"] = report.outline.ops.iter().map(parameters).collect();
    // Within a script element only this character could end it.
    let data = document.to_string().replace('<', "\\u003c");
    let name = Path::new(&report.path).file_name().map_or(report.path.as_str().into(), |n| n.to_string_lossy());
    let title = name.replace('&', "&amp;").replace('<', "&lt;");
    PAGE.replace("__TITLE__", &title).replace("__SIZE__", size).replace("__DATA__", &data)
}

/// Parameters of an operation by name: few numbers and texts as they are, else type and bytes.
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
