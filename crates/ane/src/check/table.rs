//! The report as text: the verdict first, then shares, operations by type, and one block per cause.

use super::causes::{self, Cause};
use super::verdict::{self, Same, by_answer, percent};
use super::{Fallback, Report, route_name, times};
use crate::overview::counted;
use anemone_check::lint::Finding;
use anemone_check::{Place, Placement, Route};
use anemone_compile::here::Here;
use anemone_facts::lint::Severity;
use anemone_program::order;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Options of the text report.
#[derive(Clone, Copy, Default)]
pub struct Style<'a> {
    /// True to add a line for each operation, and the slow ones.
    pub verbose: bool,
    /// True for the colours of a terminal.
    pub colour: bool,
    /// Fallbacks in an earlier report, if there is one: they do not fail again.
    pub baseline: Option<&'a [Fallback]>,
}

/// The whole report.
pub fn render(report: &Report, style: Style) -> String {
    let groups = by_answer(report);
    let failing = report.failing(style.baseline.unwrap_or_default());
    let mut out = String::new();
    let first = verdict::first_cause(report, |_| true);
    for (names, sentence) in verdict::shared(&groups, |answer| verdict::sentence(answer, first.as_ref())) {
        let bad = names.iter().any(|name| failing.iter().any(|(chip, _)| chip == name));
        let line = format!("{}: {sentence}", names.join(", "));
        let _ = writeln!(out, "{}", style.paint(if bad { RED } else { GREEN }, &line));
    }
    if let Some(cause) = &first {
        let _ = writeln!(out, "{}", style.paint(BOLD, &verdict::first_fix(report, cause)));
    }
    for condition in &report.outline.conditions {
        let _ = writeln!(out, "Condition: {condition}");
    }
    let macs = report.answers.first().map_or(0, |a| a.direct.macs);
    let opset = report.outline.opset.as_deref().map_or(String::new(), |o| format!(", opset {o}"));
    let count = counted(report.outline.ops.len(), "operation");
    let _ = writeln!(out, "\n{}: {count}{opset}, {}\n", report.path, quantity(macs));
    shares(&groups, &mut out);
    matrix(report, &groups, style, &mut out);
    if style.verbose {
        listing(report, &mut out);
    }
    blocks(report, style, &mut out);
    differing(report, &groups, &mut out);
    warnings(report, style.verbose, &mut out);
    here(report, style.verbose, &mut out);
    let last = verdict::last_line(report, &failing, style.baseline.is_some());
    let _ = writeln!(out, "{}", style.paint(if failing.is_empty() { GREEN } else { RED }, &last));
    out
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BOLD: &str = "1";

impl Style<'_> {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Result of this compiler for each chip, in addition to the verdicts on Apple's.
fn here(report: &Report, verbose: bool, out: &mut String) {
    let told: Vec<_> = report.answers.iter().filter_map(|a| Some((a, a.here.as_ref()?))).collect();
    for (answer, here) in &told {
        let chip = answer.name();
        match here {
            Here::Compiled { tasks, time_ns, .. } => {
                let us = |ns: u64| ns as f64 / 1000.0;
                let time = time_ns.map_or(String::new(), |[total, least, most]| {
                    format!(", modelled: {:.0} us a run ({:.0} to {:.0})", us(total), us(least), us(most))
                });
                let force = if report.forced { " --force" } else { "" };
                let tasks = counted(*tasks, "task");
                let _ = writeln!(out, "`ane compile -t {chip}{force}`: compiles, {tasks}{time}");
                longest(report, answer, if verbose { MOST_LONGEST } else { 0 }, out);
            }
            Here::Refused(refusals) => {
                let _ = writeln!(out, "`ane compile -t {chip}`: refuses");
                for refusal in refusals {
                    let _ = writeln!(out, "      {}", refusal.message);
                }
            }
        }
    }
    if !told.is_empty() {
        out.push('\n');
    }
}

/// Operations that `-v` lists by time.
const MOST_LONGEST: usize = 10;

/// The operations that take the most time on the engine, at most this many.
fn longest(report: &Report, answer: &super::Answer, most: usize, out: &mut String) {
    let Some(times) = times::of(&report.outline, answer).filter(|_| most > 0) else { return };
    let share = |ns: f64| 100.0 * ns / times.total();
    for at in times.longest().into_iter().take(most) {
        let (op, ns) = (&report.outline.ops[at], times.by_op[at]);
        let _ = writeln!(out, "  {:>8.1} us {:>5.1} %  {} `{}`", ns / 1000.0, share(ns), op.op, op.name);
    }
}

fn quantity(macs: u64) -> String {
    match macs {
        0..1_000_000 => format!("{macs} multiply-accumulates"),
        1_000_000..1_000_000_000 => format!("{:.1} M multiply-accumulates", macs as f64 / 1e6),
        _ => format!("{:.2} G multiply-accumulates", macs as f64 / 1e9),
    }
}

/// One row: operations and work on the engine, segments and transfers.
fn row(placement: &Placement) -> String {
    let total = placement.verdicts.len();
    let on = total - placement.fallbacks();
    format!(
        "{:>9} {:>8} {:>8}  {:>8}  {:>9}",
        format!("{on}/{total}"),
        percent(on as u64, total as u64),
        percent(placement.macs_engine, placement.macs),
        placement.engine_segments(),
        placement.hand_overs,
    )
}

/// Shares of operations and of work on the engine, both routes.
fn shares(groups: &[Same], out: &mut String) {
    let rows = verdict::shared(groups, |answer| [row(&answer.direct), row(&answer.framework)]);
    let rows: Vec<(String, [String; 2])> = rows.into_iter().map(|(names, row)| (verdict::few(&names), row)).collect();
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).max(5);
    let _ = writeln!(
        out,
        "{:width$}  {:20}  {:>9} {:>8} {:>8}  {:>8}  {:>9}",
        "chips", "route", "on engine", "", "work", "segments", "transfers"
    );
    for (label, [direct, framework]) in rows {
        let _ = writeln!(out, "{label:width$}  {:20}  {direct}", "direct (can run)");
        let _ = writeln!(out, "{:width$}  {:20}  {framework}", "", "framework (Core ML)");
    }
    out.push('\n');
}

/// Operations by type, with one column for chips with equal answers.
fn matrix(report: &Report, groups: &[Same], style: Style, out: &mut String) {
    let mut types: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, op) in report.outline.ops.iter().enumerate() {
        types.entry(op.op.as_str()).or_default().push(at);
    }
    let mut rows: Vec<(&str, Vec<usize>)> = types.into_iter().collect();
    order::by_key(&mut rows, |(_, ops)| std::cmp::Reverse(ops.len()));
    let cell = |same: &Same, ops: &[usize]| {
        let placement = same.answer.by(report.route);
        let mut counts: Vec<(usize, &str)> = Vec::new();
        for place in Place::ALL {
            let n = ops.iter().filter(|&&at| placement.verdicts[at].place == place).count();
            match counts.iter_mut().find(|(_, word)| *word == place.word()) {
                Some((known, _)) => *known += n,
                None => counts.push((n, place.word())),
            }
        }
        counts.retain(|(n, _)| *n > 0);
        order::by_key(&mut counts, |(n, _)| std::cmp::Reverse(*n));
        match counts.as_slice() {
            [(_, only)] => only.to_string(),
            several => several.iter().map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(", "),
        }
    };
    let mut table = vec![vec!["operation".to_string(), "count".to_string()]];
    table[0].extend(groups.iter().map(Same::label));
    for (name, ops) in rows {
        let mut line = vec![name.to_string(), ops.len().to_string()];
        line.extend(groups.iter().map(|same| cell(same, &ops)));
        table.push(line);
    }
    let widths: Vec<usize> =
        (0..table[0].len()).map(|c| table.iter().map(|line| line[c].chars().count()).max().unwrap_or(0)).collect();
    for line in table {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padded = if column == 1 { format!("{cell:>width$}") } else { format!("{cell:width$}") };
            let off = column > 1 && cell.contains(Place::Host.word());
            text +=
                &if off { style.paint(YELLOW, padded.trim_end()) + &padded[padded.trim_end().len()..] } else { padded };
            text += "  ";
        }
        let _ = writeln!(out, "{}", text.trim_end());
    }
    out.push('\n');
}

fn listing(report: &Report, out: &mut String) {
    for answer in &report.answers {
        let placement = answer.by(report.route);
        let _ = writeln!(out, "{}, {}:", answer.chip, route_name(placement.route));
        for (at, op) in report.outline.ops.iter().enumerate() {
            let verdict = &placement.verdicts[at];
            let into = if verdict.into.is_empty() { String::new() } else { format!(": {}", verdict.into) };
            let _ = writeln!(
                out,
                "  {:28} {:24} {}{into} ({})",
                op.name,
                op.op,
                verdict.place.word(),
                verdict.basis.name()
            );
            verdict.notes.iter().for_each(|note| {
                let _ = writeln!(out, "      note: {note}");
            });
        }
        out.push('\n');
    }
}

/// One block for each cause with every chip that it applies to: first causes of operations off the engine, then those of operations
/// that this compiler accepts and Apple's is known to refuse.
fn blocks(report: &Report, style: Style, out: &mut String) {
    let (off, rewritten): (Vec<Cause>, Vec<Cause>) = causes::of(report, report.route).into_iter().partition(Cause::off);
    let titles = [
        format!("falls back to CPU ({}):", route_name(report.route)),
        "decomposed here, refused by Apple's compiler (direct):".into(),
    ];
    for (title, causes) in titles.iter().zip([off, rewritten]).filter(|(_, causes)| !causes.is_empty()) {
        let _ = writeln!(out, "{title}");
        for cause in &causes {
            let _ = writeln!(out, "  {}", style.paint(BOLD, &format!("{} {}", cause.code, cause.cause)));
            block(report, cause, style.verbose, out);
        }
        out.push('\n');
    }
}

/// Operations named in a block without `-v`.
const NAMED: usize = 4;

/// Names of operations; without `verbose` only the first ones and a count.
fn named(report: &Report, ops: &[usize], kinds: bool, verbose: bool) -> String {
    let kept = if verbose { ops.len() } else { NAMED };
    let name = |&at: &usize| match (&report.outline.ops[at], kinds) {
        (op, true) => format!("{} `{}`", op.op, op.name),
        (op, false) => format!("`{}`", op.name),
    };
    let names: Vec<String> = ops.iter().take(kept).map(name).collect();
    match ops.len().saturating_sub(kept) {
        0 => names.join(", "),
        more => format!("{}, and {more} more (-v names them)", names.join(", ")),
    }
}

fn block(report: &Report, cause: &Cause, verbose: bool, out: &mut String) {
    let mut line = |key: &str, text: &str| {
        let _ = writeln!(out, "      {:10}{text}", format!("{key}:"));
    };
    line("on", &cause.on());
    line("in", &named(report, &cause.ops, true, verbose));
    let Some(refusal) = &cause.verdict().refusal else { return };
    cause.apple().iter().for_each(|text| line("apple", text));
    cause.fixes().iter().for_each(|text| line("fix", text));
    cause.written().iter().for_each(|text| line("here", &format!("`ane compile` writes {text}")));
    cause.differ().iter().for_each(|text| line("sources", &format!("differ: {text}")));
    line("evidence", &format!("{} ({}), by {}", refusal.basis.phrase(), refusal.source, refusal.stage));
}

/// Operations on the engine for which sources differ in what a chip accepts; those with a cause are listed with it.
fn differing(report: &Report, groups: &[Same], out: &mut String) {
    // A statement, its operations, and its chips.
    let mut told: Vec<(&str, Vec<usize>, Vec<String>)> = Vec::new();
    for same in groups {
        let verdicts = &same.answer.by(report.route).verdicts;
        for (at, verdict) in verdicts.iter().enumerate().filter(|(_, verdict)| verdict.refusal.is_none()) {
            for text in &verdict.differ {
                match told.iter_mut().find(|(known, ..)| known == text) {
                    Some((_, ops, chips)) => {
                        ops.push(at);
                        chips.push(same.label());
                    }
                    None => told.push((text, vec![at], vec![same.label()])),
                }
            }
        }
    }
    if told.is_empty() {
        return;
    }
    out.push_str("sources differ in what a chip accepts:\n");
    for (text, mut ops, mut chips) in told {
        order::by(&mut ops, Ord::cmp);
        ops.dedup();
        chips.dedup();
        let _ = writeln!(out, "  {text}");
        let _ =
            writeln!(out, "      on:       {}\n      in:       {}", chips.join(", "), named(report, &ops, true, false));
    }
    out.push('\n');
}

/// Findings of one rule with one fix: distinct messages, with their operations, and the chips of all.
struct Warning<'a> {
    first: &'a Finding,
    messages: Vec<(&'a str, Vec<usize>)>,
    chips: Vec<&'a str>,
}

/// Silently wrong results, and with `verbose` slow operations; refusals are listed before.
fn warnings(report: &Report, verbose: bool, out: &mut String) {
    let mut told: Vec<Warning> = Vec::new();
    let mut slow = 0;
    for answer in &report.answers {
        let verdicts = &answer.by(report.route).verdicts;
        for finding in answer.findings(report.route) {
            if finding.op.is_some_and(|op| verdicts[op].refusal.as_ref().is_some_and(|r| r.code == finding.code)) {
                continue;
            }
            match finding.lint().map(|l| l.severity()) {
                Some(Severity::Slow | Severity::Build) if !verbose => slow += 1,
                _ => add_warning(&mut told, finding, &answer.chip),
            }
        }
    }
    report.across.iter().for_each(|finding| add_warning(&mut told, finding, "between chips"));
    order::by_key(&mut told, |warning| warning.first.code);
    if !told.is_empty() {
        out.push_str("warnings:\n");
    }
    for Warning { first, messages, chips } in &told {
        let name = first.lint().map_or("", |l| l.name);
        let (message, more) = match messages.as_slice() {
            [(only, _)] => (*only, 0),
            several => (several[0].0, several.len() - 1),
        };
        let _ = writeln!(out, "  {} {name}: {message}", first.code);
        let _ = writeln!(out, "      on:       {}", chips.join(", "));
        let mut ops: Vec<usize> = messages.iter().flat_map(|(_, ops)| ops).copied().collect();
        order::by(&mut ops, Ord::cmp);
        ops.dedup();
        if !ops.is_empty() {
            let _ = writeln!(out, "      in:       {}", named(report, &ops, false, verbose));
        }
        if verbose {
            messages[1..].iter().for_each(|(message, ops)| {
                let _ = writeln!(out, "      also:     {message}: {}", named(report, ops, false, true));
            });
        } else if more > 0 {
            let _ = writeln!(out, "      also:     {} of the rule (-v)", counted(more, "other message"));
        }
        let _ = writeln!(out, "      fix:      {}\n      evidence: {}", first.fix, first.basis.phrase());
    }
    if !told.is_empty() {
        out.push('\n');
    }
    if slow > 0 {
        let _ = writeln!(out, "{} on speed (-v shows them)\n", counted(slow, "note"));
    }
}

fn add_warning<'a>(told: &mut Vec<Warning<'a>>, finding: &'a Finding, chip: &'a str) {
    let same =
        |w: &Warning| w.first.code == finding.code && w.first.fix == finding.fix && w.first.basis == finding.basis;
    let at = told.iter().position(same).unwrap_or_else(|| {
        told.push(Warning { first: finding, messages: Vec::new(), chips: Vec::new() });
        told.len() - 1
    });
    let Warning { messages, chips, .. } = &mut told[at];
    match messages.iter_mut().find(|(known, _)| *known == finding.message) {
        Some((_, ops)) => ops.extend(finding.op.filter(|op| !ops.contains(op))),
        None => messages.push((&finding.message, finding.op.into_iter().collect())),
    }
    if !chips.contains(&chip) {
        chips.push(chip);
    }
}

/// The route for a word.
pub fn route(word: &str) -> Option<Route> {
    [Route::Direct, Route::Framework].into_iter().find(|r| route_name(*r) == word)
}
