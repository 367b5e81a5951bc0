//! The report as one page that needs no network: graph, matrix of chips, filters, and a reason for each operation.

use super::{Report, json};
use anemone_facts::lint::LINTS;
use serde_json::json;

const PAGE: &str = include_str!("page.html");

/// The page in a frame, for notebooks.
pub fn frame(report: &Report) -> String {
    let page = page(report).replace('&', "&amp;").replace('"', "&quot;");
    format!("<iframe srcdoc=\"{page}\" style=\"width: 100%; height: 600px; border: 0\"></iframe>")
}

/// The page.
pub fn page(report: &Report) -> String {
    let mut document = json::document(report);
    let rules = LINTS.iter().map(|l| {
        let row = json!({ "name": l.name, "condition": l.condition, "why": l.why, "fix": l.fix, "source": l.source });
        (l.code.to_string(), row)
    });
    document["rules"] = rules.collect::<serde_json::Map<_, _>>().into();
    document["version"] = env!("CARGO_PKG_VERSION").into();
    // Within a script element only this character could end it.
    let data = document.to_string().replace('<', "\\u003c");
    let title = report.path.replace('&', "&amp;").replace('<', "&lt;");
    PAGE.replace("__TITLE__", &title).replace("__DATA__", &data)
}
