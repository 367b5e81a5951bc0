//! Reports as JUnit XML: a suite for each model and chip, a case for each operation.

use super::summary::Outcome;
use super::{Report, reason};
use std::fmt::Write;

/// The document: a suite for each model and chip, and one with an error for each model that has no report.
pub fn document(outcomes: &[Outcome]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for outcome in outcomes {
        match outcome {
            Outcome::Report(report) => suites(report, &mut out),
            Outcome::None(path, why) => {
                let (name, code) = (escape(&path.display().to_string()), why.code.text());
                let _ = writeln!(
                    out,
                    "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\">\n    <testcase classname=\"{name}\" \
                     name=\"check\">\n      <error type=\"{code}\" message=\"{}\"/>\n    </testcase>\n  </testsuite>",
                    escape(&why.message)
                );
            }
        }
    }
    out.push_str("</testsuites>\n");
    out
}

/// A suite for each chip of a model.
fn suites(report: &Report, out: &mut String) {
    for answer in &report.answers {
        let placement = answer.by(report.route);
        let (tests, failures) = (placement.verdicts.len(), placement.fallbacks());
        let name = escape(&format!("{} on {}", report.path, answer.chip));
        let _ = writeln!(out, "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">");
        for (at, op) in report.outline.ops.iter().enumerate() {
            let class = escape(&format!("{}.{}", answer.chip, op.op));
            let _ = write!(out, "    <testcase classname=\"{class}\" name=\"{}\"", escape(&op.name));
            if placement.on_engine(at) {
                out.push_str("/>\n");
                continue;
            }
            let refusal = placement.verdicts[at].refusal.as_ref();
            let code = refusal.map_or("segmenter", |r| r.code);
            let mut text = reason(placement, at);
            if let Some(refusal) = refusal {
                let apple = refusal.apple.as_ref().map_or(String::new(), |a| format!("apple: {a}\n"));
                let _ = write!(text, "\n{apple}fix: {}\nevidence: {}", refusal.fix, refusal.basis.phrase());
            }
            let message = escape(&reason(placement, at));
            let _ = writeln!(
                out,
                ">\n      <failure type=\"{code}\" message=\"{message}\">{}</failure>\n    </testcase>",
                escape(&text)
            );
        }
        out.push_str("  </testsuite>\n");
    }
}

/// Escapes text for XML 1.0; characters that it cannot represent are dropped.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c < ' ' => {}
            c => out.push(c),
        }
    }
    out
}
