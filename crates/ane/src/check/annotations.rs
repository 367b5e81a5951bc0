//! The report as annotations of a GitHub workflow: one line per finding on standard output.

use super::{Report, reason};
use anemone_facts::lint::{Lint, Severity};
use std::fmt::Write;

/// The lines.
pub fn lines(report: &Report) -> String {
    let mut out = String::new();
    for answer in &report.answers {
        let placement = answer.by(report.route);
        let chip = &answer.chip;
        for at in (0..placement.verdicts.len()).filter(|&at| !placement.on_engine(at)) {
            let op = &report.outline.ops[at];
            let refusal = placement.verdicts[at].refusal.as_ref();
            let title = format!("{} {} on {chip}", refusal.map_or("segmenter", |r| r.code), op.op);
            let fix = refusal.map_or(String::new(), |r| format!(" Fix: {}", r.fix));
            annotation(
                &mut out,
                "error",
                &report.path,
                &title,
                &format!("`{}`: {}.{fix}", op.name, reason(placement, at)),
            );
        }
        for finding in answer.findings(report.route) {
            if finding.lint().map(Lint::severity) == Some(Severity::Wrong) {
                let title = format!("{} {} on {chip}", finding.code, finding.lint().map_or("", |l| l.name));
                annotation(
                    &mut out,
                    "warning",
                    &report.path,
                    &title,
                    &format!("{}. Fix: {}", finding.message, finding.fix),
                );
            }
        }
    }
    out
}

fn annotation(out: &mut String, level: &str, file: &str, title: &str, message: &str) {
    let _ = writeln!(out, "::{level} file={},title={}::{}", property(file), property(title), data(message));
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
