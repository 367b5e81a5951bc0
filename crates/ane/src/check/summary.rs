//! Summary of several models: a row for each with its shares and the cause to remove first.

use super::json::Baseline;
use super::verdict::{self, by_answer, percent};
use super::{Answer, Report, json, route_name};
use crate::diagnostic::{Code, Diagnostic};
use anemone_check::{Placement, Route};
use anemone_program::order;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Result for one model.
pub enum Outcome {
    /// Report of the check.
    Report(Box<Report>),
    /// Error instead of a report: the model cannot be read, or is refused.
    None(PathBuf, Box<Diagnostic>),
}

impl Outcome {
    /// Exit code: 0 if enough is on the engine, apart from fallbacks in a baseline.
    pub fn exit(&self, baseline: &Baseline, alone: bool) -> u8 {
        match self {
            Outcome::Report(report) => u8::from(!report.failing(baseline.of(&report.path, alone)).is_empty()),
            Outcome::None(_, diagnostic) => diagnostic.code.exit(),
        }
    }

    /// The report, if there is one.
    pub fn report(&self) -> Option<&Report> {
        match self {
            Outcome::Report(report) => Some(report),
            Outcome::None(..) => None,
        }
    }
}

/// The models of paths: files and packages themselves, and all models in folders.
pub fn models(paths: &[PathBuf]) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if is_folder(path) { inside(path, 0, &mut all)? } else { all.push(path.clone()) }
    }
    Ok(all)
}

/// Largest depth of the search in folders.
const DEPTH: usize = 6;

fn is_folder(path: &Path) -> bool {
    let named = path.extension().is_some_and(|e| matches!(e.to_str(), Some("mlpackage" | "mlmodelc")));
    path.is_dir() && !named && !path.join("Manifest.json").exists() && !path.join("model.mil").exists()
}

fn inside(folder: &Path, depth: usize, all: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    order::by(&mut entries, Ord::cmp);
    for entry in entries {
        let link = entry.symlink_metadata().is_ok_and(|m| m.is_symlink());
        if is_folder(&entry) {
            if depth < DEPTH && !link {
                inside(&entry, depth + 1, all)?;
            }
        } else if entry.is_dir() || entry.extension().is_some_and(|e| matches!(e.to_str(), Some("onnx" | "mlmodel"))) {
            all.push(entry);
        }
    }
    Ok(())
}

/// The table.
pub fn render(outcomes: &[Outcome], route: Route, baseline: Option<&Baseline>) -> String {
    let rows = rows(outcomes);
    let widths: Vec<usize> = (0..4).map(|c| rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths.iter().chain([&0])) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    let _ = writeln!(out, "\n{}", last_line(outcomes, route, baseline));
    out
}

/// Rows of the table, headings first.
pub fn rows(outcomes: &[Outcome]) -> Vec<[String; 5]> {
    let mut rows: Vec<[String; 5]> =
        vec![["model", "chips", "can run", "Core ML would run", "fix first"].map(String::from)];
    for outcome in outcomes {
        match outcome {
            Outcome::Report(report) => rows.extend(rows_of(report)),
            Outcome::None(path, diagnostic) => {
                let why = match diagnostic.code {
                    Code::Unreadable => diagnostic.message.clone(),
                    code if code.exit() == 1 => format!("refused: {}", diagnostic.message),
                    _ => format!("cannot be read: {}", diagnostic.message),
                };
                rows.push([path.display().to_string(), String::new(), String::new(), String::new(), why]);
            }
        }
    }
    rows
}

/// The reason for the exit code.
pub fn last_line(outcomes: &[Outcome], route: Route, baseline: Option<&Baseline>) -> String {
    let plain = Baseline::default();
    let bad = outcomes.iter().filter(|o| o.exit(baseline.unwrap_or(&plain), false) == 1).count();
    let unread = outcomes.iter().filter(|o| matches!(o, Outcome::None(_, d) if d.code.exit() > 1)).count();
    let (route, total) = (route_name(route), outcomes.len());
    let (more, known) = if baseline.is_some() { (" more", ", by the baseline") } else { ("", "") };
    match (bad, unread) {
        (0, 0) => format!("yes ({route}): {total} models{}", known.replace(", by", ", nothing new off the engine by")),
        _ => {
            let unread = if unread > 0 { format!(", {unread} cannot be read") } else { String::new() };
            format!("no ({route}): {bad} of {total} models fall back to the CPU{more}{known}{unread}")
        }
    }
}

fn rows_of(report: &Report) -> Vec<[String; 5]> {
    let share = |p: &Placement| {
        let total = p.verdicts.len();
        let on = total - p.fallbacks();
        format!("{on}/{total} {}", percent(on as u64, total as u64))
    };
    let cells = |answer: &Answer| {
        let fix = match verdict::first_cause(report, |other| other.chip == answer.chip) {
            Some(c) => {
                let op = &report.outline.ops[c.ops[0]].op;
                let several = 2 * c.ops.len() > report.outline.ops.len() || c.cause.starts_with(op.as_str());
                if several { c.cause } else { format!("{op}: {}", c.cause) }
            }
            None if share(&answer.framework).starts_with("0/") => {
                verdict::why_not(&answer.framework, |_| false).map_or(String::new(), |why| format!("Core ML: {why}"))
            }
            None => String::new(),
        };
        [share(&answer.direct), share(&answer.framework), fix]
    };
    let path = |at| if at == 0 { report.path.clone() } else { String::new() };
    let rows = verdict::shared(&by_answer(report), cells).into_iter().enumerate();
    rows.map(|(at, (names, [direct, framework, fix]))| [path(at), verdict::few(&names), direct, framework, fix])
        .collect()
}

/// All reports as one document, schema `anemone.checks/1`.
pub fn document(outcomes: &[Outcome]) -> Value {
    let models: Vec<Value> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Report(report) => json::document(report),
            Outcome::None(path, diagnostic) => {
                json!({ "path": path.display().to_string(), "ok": false, "error": diagnostic.json() })
            }
        })
        .collect();
    let plain = Baseline::default();
    json!({ "schema": "anemone.checks/1", "ok": outcomes.iter().all(|o| o.exit(&plain, false) == 0), "models": models })
}
