//! The report as a table for people.

use super::{Answer, Report, reason, route_name};
use anemone_compile::check::lint::Finding;
use anemone_compile::check::{Here, Place, Placement, Route};
use anemone_facts::lint::Severity;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The whole report. `verbose`: also one line an operation, and what is slow.
pub fn render(report: &Report, verbose: bool) -> String {
    let mut out = String::new();
    let macs = report.answers.first().map_or(0, |a| a.direct.macs);
    let opset = report.outline.opset.as_deref().map_or(String::new(), |o| format!(", opset {o}"));
    let _ = writeln!(out, "{}: {} operations{opset}, {}", report.path, report.outline.ops.len(), quantity(macs));
    out.push('\n');
    summary(report, &mut out);
    matrix(report, &mut out);
    if verbose {
        listing(report, &mut out);
    }
    refusals(report, &mut out);
    warnings(report, verbose, &mut out);
    here(report, &mut out);
    verdict(report, &mut out);
    out
}

/// What this compiler does, beside the verdicts on Apple's.
fn here(report: &Report, out: &mut String) {
    let told: Vec<_> = report.answers.iter().filter_map(|a| Some((a.chip.as_str(), a.here.as_ref()?))).collect();
    for (chip, here) in &told {
        match here {
            Here::Compiled { tasks } => {
                let _ = writeln!(out, "`ane compile -t {chip}`: compiles, {tasks} tasks");
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

fn quantity(macs: u64) -> String {
    match macs {
        0..1_000_000 => format!("{macs} multiply-accumulates"),
        1_000_000..1_000_000_000 => format!("{:.1} M multiply-accumulates", macs as f64 / 1e6),
        _ => format!("{:.2} G multiply-accumulates", macs as f64 / 1e9),
    }
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{} %", (100.0 * part as f64 / whole as f64).floor()) }
}

fn summary(report: &Report, out: &mut String) {
    let _ = writeln!(
        out,
        "{:8} {:10} {:>9} {:>9} {:>6}  {:>6} {:>10} {:>6} {:>3} {:>4} {:>8}  {:>8} {:>10}",
        "chip",
        "route",
        "on engine",
        "",
        "MACs",
        "native",
        "decomposed",
        "folded",
        "cut",
        "host",
        "rejected",
        "segments",
        "hand-overs"
    );
    for answer in &report.answers {
        for placement in [&answer.direct, &answer.framework] {
            let total = placement.verdicts.len();
            let on = total - placement.fallbacks();
            let [native, decomposed, folded, cut, host, rejected] = placement.counts();
            let _ = writeln!(
                out,
                "{:8} {:10} {:>9} {:>9} {:>6}  {native:>6} {decomposed:>10} {folded:>6} {cut:>3} {host:>4} {rejected:>8}  {:>8} {:>10}",
                answer.chip,
                route_name(placement.route),
                percent(on as u64, total as u64),
                format!("{on}/{total}"),
                percent(placement.macs_engine, placement.macs),
                placement.engine_segments(),
                placement.hand_overs,
            );
        }
    }
    let chosen = report.answers.iter().filter_map(|a| {
        let choice = a.framework.choice.as_ref()?;
        let name = &a.chip;
        Some(format!(
            "{name}: {:.3} ms as the segmenter counts, {:.3} ms without the engine",
            choice.cost_ms, choice.host_ms
        ))
    });
    let chosen: Vec<String> = chosen.collect();
    if !chosen.is_empty() {
        let _ = writeln!(
            out,
            "\ndirect: the engine's compiler takes it. framework: its segmenter would choose the engine (modelled)."
        );
        chosen.iter().for_each(|line| {
            let _ = writeln!(out, "  {line}");
        });
    }
    out.push('\n');
}

/// Operations by type, one column a chip.
fn matrix(report: &Report, out: &mut String) {
    let mut types: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, op) in report.outline.ops.iter().enumerate() {
        types.entry(op.op.as_str()).or_default().push(at);
    }
    let mut rows: Vec<(&str, Vec<usize>)> = types.into_iter().collect();
    rows.sort_by_key(|(_, ops)| std::cmp::Reverse(ops.len()));
    let cell = |answer: &Answer, ops: &[usize]| {
        let placement = answer.by(report.route);
        let count = |p: &Place| ops.iter().filter(|&&at| placement.verdicts[at].place == *p).count();
        let mut counts: Vec<(usize, &str)> =
            Place::ALL.iter().map(|p| (count(p), p.name())).filter(|(n, _)| *n > 0).collect();
        counts.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        match counts.as_slice() {
            [(_, only)] => only.to_string(),
            several => several.iter().map(|(n, p)| format!("{n} {p}")).collect::<Vec<_>>().join(", "),
        }
    };
    let mut table = vec![vec!["operation".to_string(), "count".to_string()]];
    table[0].extend(report.answers.iter().map(|a| a.chip.clone()));
    for (name, ops) in rows {
        let mut line = vec![name.to_string(), ops.len().to_string()];
        line.extend(report.answers.iter().map(|a| cell(a, &ops)));
        table.push(line);
    }
    let widths: Vec<usize> =
        (0..table[0].len()).map(|c| table.iter().map(|line| line[c].chars().count()).max().unwrap_or(0)).collect();
    for line in table {
        let mut text = String::new();
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let _ = if column == 1 { write!(text, "{cell:>width$}  ") } else { write!(text, "{cell:width$}  ") };
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
                verdict.place.name(),
                verdict.basis.name()
            );
            verdict.notes.iter().for_each(|note| {
                let _ = writeln!(out, "      note: {note}");
            });
        }
        out.push('\n');
    }
}

/// Operations off the engine, one block for each reason and the chips that share it.
fn refusals(report: &Report, out: &mut String) {
    let mut reasons: Vec<(String, Vec<usize>, Vec<&Answer>)> = Vec::new();
    for answer in &report.answers {
        let placement = answer.by(report.route);
        let mut own: Vec<(String, Vec<usize>)> = Vec::new();
        for at in (0..placement.verdicts.len()).filter(|&at| !placement.on_engine(at)) {
            let code = placement.verdicts[at].refusal.as_ref().map_or("segmenter", |r| r.code);
            let key = format!("{code} {}", reason(placement, at));
            match own.iter_mut().find(|(k, _)| *k == key) {
                Some((_, ops)) => ops.push(at),
                None => own.push((key, vec![at])),
            }
        }
        for (key, ops) in own {
            match reasons.iter_mut().find(|(k, known, _)| *k == key && *known == ops) {
                Some((_, _, chips)) => chips.push(answer),
                None => reasons.push((key, ops, vec![answer])),
            }
        }
    }
    if reasons.is_empty() {
        return;
    }
    let _ = writeln!(out, "not on the engine ({}):", route_name(report.route));
    for (key, ops, chips) in reasons {
        let names: Vec<&str> = chips.iter().map(|a| a.chip.as_str()).collect();
        let _ = writeln!(out, "  {key}");
        let _ = writeln!(out, "      on:       {}", names.join(", "));
        block(report, chips[0].by(report.route), &ops, out);
    }
    out.push('\n');
}

fn block(report: &Report, placement: &Placement, ops: &[usize], out: &mut String) {
    let named: Vec<String> = ops
        .iter()
        .take(4)
        .map(|&at| format!("{} `{}`", report.outline.ops[at].op, report.outline.ops[at].name))
        .collect();
    let more = if ops.len() > 4 { format!(", and {} more", ops.len() - 4) } else { String::new() };
    let _ = writeln!(out, "      in:       {}{more}", named.join(", "));
    let verdict = &placement.verdicts[ops[0]];
    let Some(refusal) = &verdict.refusal else { return };
    if let Some(apple) = &refusal.apple {
        let _ = writeln!(out, "      apple:    {apple}");
    }
    if !refusal.fix.is_empty() {
        let _ = writeln!(out, "      fix:      {}", refusal.fix);
    }
    if let Some(own) = verdict.own {
        let _ = writeln!(out, "      here:     `ane compile` writes {own}");
    }
    let _ = writeln!(out, "      evidence: {} ({}), by {}", refusal.basis.phrase(), refusal.source, refusal.stage);
}

/// What is silently wrong, and with `verbose` what is slow; refusals stand above.
fn warnings(report: &Report, verbose: bool, out: &mut String) {
    // A rule and what it says, the operations, the chips.
    let mut told: Vec<(&Finding, Vec<usize>, Vec<&str>)> = Vec::new();
    let mut slow = 0;
    for answer in &report.answers {
        let verdicts = &answer.by(report.route).verdicts;
        for finding in answer.findings(report.route) {
            if finding.op.is_some_and(|op| verdicts[op].refusal.as_ref().is_some_and(|r| r.code == finding.code)) {
                continue;
            }
            match finding.lint().map(|l| l.severity()) {
                Some(Severity::Slow | Severity::Build) if !verbose => slow += 1,
                _ => tell(&mut told, finding, &answer.chip),
            }
        }
    }
    report.across.iter().for_each(|finding| tell(&mut told, finding, "between chips"));
    told.sort_by_key(|(finding, ..)| finding.code);
    if !told.is_empty() {
        out.push_str("warnings:\n");
    }
    for (finding, ops, chips) in &told {
        let name = finding.lint().map_or("", |l| l.name);
        let _ = writeln!(out, "  {} {name}: {}", finding.code, finding.message);
        let _ = writeln!(out, "      on:       {}", chips.join(", "));
        if !ops.is_empty() {
            let named: Vec<String> =
                ops.iter().take(4).map(|&at| format!("`{}`", report.outline.ops[at].name)).collect();
            let more = if ops.len() > 4 { format!(", and {} more", ops.len() - 4) } else { String::new() };
            let _ = writeln!(out, "      in:       {}{more}", named.join(", "));
        }
        let _ = writeln!(out, "      fix:      {}\n      evidence: {}", finding.fix, finding.basis.phrase());
    }
    if !told.is_empty() {
        out.push('\n');
    }
    if slow > 0 {
        let _ = writeln!(out, "{slow} notes on speed (-v shows them)\n");
    }
}

fn tell<'a>(told: &mut Vec<(&'a Finding, Vec<usize>, Vec<&'a str>)>, finding: &'a Finding, chip: &'a str) {
    let known = told.iter_mut().find(|(f, ..)| f.code == finding.code && f.message == finding.message);
    let (_, ops, chips) = match known {
        Some(known) => known,
        None => {
            told.push((finding, Vec::new(), Vec::new()));
            let last = told.len() - 1;
            &mut told[last]
        }
    };
    ops.extend(finding.op.filter(|op| !ops.contains(op)));
    if !chips.contains(&chip) {
        chips.push(chip);
    }
}

/// The last line.
fn verdict(report: &Report, out: &mut String) {
    let bad = report.failing(&[]);
    let route = route_name(report.route);
    if bad.is_empty() {
        let chips: Vec<&str> = report.answers.iter().map(|a| a.chip.as_str()).collect();
        let off: usize = report.answers.iter().map(|a| a.by(report.route).fallbacks()).sum();
        let _ = match off {
            0 => writeln!(out, "yes: every operation runs on the engine of {} ({route})", chips.join(", ")),
            _ => writeln!(
                out,
                "yes: at most {} operations are off the engine of {} ({route})",
                report.max_fallback,
                chips.join(", ")
            ),
        };
    } else {
        let total = report.outline.ops.len();
        let told: Vec<String> =
            bad.iter().map(|(chip, n)| format!("{n} of {total} off the engine of {chip}")).collect();
        let limit = if report.max_fallback > 0 { format!(", {} allowed", report.max_fallback) } else { String::new() };
        let _ = writeln!(out, "no: {} ({route}{limit})", told.join(", "));
    }
}

/// The route that a word names.
pub fn route(word: &str) -> Option<Route> {
    [Route::Direct, Route::Framework].into_iter().find(|r| route_name(*r) == word)
}
