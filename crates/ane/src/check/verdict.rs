//! The verdict in words: chips with equal answers share a line, followed by the cause to remove first.

use super::causes::{self, Cause};
use super::{Answer, Report};
use crate::overview::counted;
use anemone_check::{Placement, Route, fix};
use std::fmt::Write;

/// Chips with equal answers, in the requested order.
pub struct Same<'a> {
    /// The first of them.
    pub answer: &'a Answer,
    /// Names of all.
    pub names: Vec<&'a str>,
}

impl Same<'_> {
    /// The names; if there are many, the first and a count.
    pub fn label(&self) -> String {
        few(&self.names)
    }
}

/// The chips by answer.
pub fn by_answer(report: &Report) -> Vec<Same<'_>> {
    let mut all: Vec<Same<'_>> = Vec::new();
    for answer in &report.answers {
        match all.iter_mut().find(|same| equal(same.answer, answer)) {
            Some(same) => same.names.push(&answer.chip),
            None => all.push(Same { answer, names: vec![&answer.chip] }),
        }
    }
    all
}

fn equal(a: &Answer, b: &Answer) -> bool {
    let same = |a: &Placement, b: &Placement| {
        a.segments == b.segments
            && a.verdicts
                .iter()
                .zip(&b.verdicts)
                .enumerate()
                .all(|(at, (v, w))| v.place == w.place && a.on_engine(at) == b.on_engine(at) && v.fused == w.fused)
    };
    same(&a.direct, &b.direct) && same(&a.framework, &b.framework)
}

/// A share in percent with one decimal. Only the whole is 100 %, and only zero is 0 %.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".into(),
        (0, _) => "0 %".into(),
        _ if part == whole => "100 %".into(),
        _ => {
            let tenths = (1000.0 * part as f64 / whole as f64).round().clamp(1.0, 999.0);
            format!("{:.1} %", tenths / 10.0)
        }
    }
}

/// One answer as a sentence: operations that can run on the engine, and those that Core ML would place there. `told` is a cause that
/// is printed next to the sentence and not repeated.
pub fn sentence(answer: &Answer, told: Option<&Cause>) -> String {
    let (direct, framework) = (&answer.direct, &answer.framework);
    let total = direct.verdicts.len();
    let able = total - direct.fallbacks();
    let chosen = total - framework.fallbacks();
    let mut text = match able {
        0 if total == 1 => "the only operation cannot run on the Neural Engine".to_string(),
        1 if total == 1 => "the only operation can run on the Neural Engine".to_string(),
        0 => format!("none of {total} operations can run on the Neural Engine"),
        n if n == total => format!("all {total} operations can run on the Neural Engine"),
        n => format!("{n} of {total} operations can run on the Neural Engine ({})", percent(n as u64, total as u64)),
    };
    let own = (0..total).filter(|&at| direct.on_engine(at) && direct.verdicts[at].refusal.is_some()).count();
    if own > 0 && total == 1 {
        text += ", only as `ane compile` writes it";
    } else if own > 0 {
        let _ = write!(text, ", {own} of them only as `ane compile` writes {}", if own == 1 { "it" } else { "them" });
    }
    let refused = framework.off();
    let known = |cause: &str| told.is_some_and(|told| told.cause == cause && told.holds_on(answer));
    text += &match chosen {
        n if n == total && total == 1 => "; Core ML would run it there".to_string(),
        n if n == total => "; Core ML would run all of them there".to_string(),
        0 => {
            let all = if total == 1 { "" } else { " for all" };
            let why = why_not(framework, known).map_or(String::new(), |why| format!(": {why}"));
            format!("; Core ML would use the CPU{all}{why}")
        }
        n if n + refused == total => {
            let why = majority(framework, known).map_or(String::new(), |why| format!(": {why}"));
            format!("; Core ML would run {n} there and refuse {refused}{why}")
        }
        n => {
            let cheaper = total - n - refused;
            let refuses = if refused > 0 { format!("refuse {refused}, and ") } else { String::new() };
            format!("; Core ML would run {n} there, {refuses}use the CPU for {cheaper}, cheaper in all (modelled)")
        }
    };
    text
}

/// A text for each answer, with the names of its chips. Chips with equal texts are merged, even if other layers differ.
pub fn shared<'a, T: PartialEq>(groups: &[Same<'a>], text: impl Fn(&Answer) -> T) -> Vec<(Vec<&'a str>, T)> {
    let mut all: Vec<(Vec<&str>, T)> = Vec::new();
    for same in groups {
        let text = text(same.answer);
        match all.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.extend(&same.names),
            None => all.push((same.names.clone(), text)),
        }
    }
    all
}

/// Text for too little work in the segmenter's model.
const TOO_LITTLE: &str = "too little work to pay for starting the engine (modelled)";

/// Reason why the framework places nothing on the engine: the refusal of most operations, or too little work; `None` if the
/// refusal is already known.
pub fn why_not(framework: &Placement, known: impl Fn(&str) -> bool) -> Option<String> {
    match (framework.off(), majority(framework, |_| false)) {
        (_, Some(_)) => majority(framework, known),
        (0, None) => Some(TOO_LITTLE.into()),
        (refused, None) => Some(format!("it refuses {refused}, and the rest is {TOO_LITTLE}")),
    }
}

/// The cause for which the framework refuses more than half of the operations; `None` if there is none, or it is
/// already known.
fn majority(framework: &Placement, known: impl Fn(&str) -> bool) -> Option<String> {
    let mut causes: Vec<(&str, usize)> = Vec::new();
    for refusal in framework.verdicts.iter().filter(|v| !v.place.on_engine()).filter_map(|v| v.refusal.as_ref()) {
        match causes.iter_mut().find(|(cause, _)| *cause == refusal.cause) {
            Some((_, count)) => *count += 1,
            None => causes.push((&refusal.cause, 1)),
        }
    }
    let total = framework.verdicts.len();
    let (cause, count) = causes.into_iter().max_by_key(|(_, count)| *count)?;
    let share = if count == total { String::new() } else { format!(" ({count} of {total})") };
    (2 * count > total && !known(cause)).then(|| format!("{cause}{share}"))
}

/// The change that brings most work to the engine: operations, chips, cause and fix.
pub fn first_fix(report: &Report, cause: &Cause) -> String {
    let op = &report.outline.ops[cause.ops[0]];
    let total = report.outline.ops.len();
    let what = if fix::patch_embedding(op) { "patch embedding" } else { op.op.as_str() };
    let what = match cause.ops.len() {
        1 => format!("{what} `{}`", op.name),
        n if 2 * n > total => format!("{n} of {total} operations"),
        n => format!("{what} `{}` and {} more", op.name, n - 1),
    };
    let mut chips: Vec<&str> = Vec::new();
    for on in &cause.chips {
        if !chips.contains(&on.answer.chip.as_str()) {
            chips.push(&on.answer.chip);
        }
    }
    // The cause of an operation that is not read begins with its name.
    let named = format!(" `{}`: ", op.name);
    let reason = cause.cause.split_once(&named).filter(|(kind, _)| cause.ops.len() == 1 && !kind.contains(' '));
    let reason = reason.map_or(&cause.cause[..], |(_, reason)| reason);
    let mut text = format!("Fix first: {what} ({}): {reason}", few(&chips));
    let fixes = cause.fixes();
    if !fixes.is_empty() {
        let _ = write!(text, ". {}", capital(&fixes.join("; ")));
    }
    text
}

/// Names; if there are many, the first ones and a count.
pub fn few(names: &[&str]) -> String {
    match names {
        [first, second, rest @ ..] if rest.len() > 1 => format!("{first}, {second} and {} more", rest.len()),
        names => names.join(", "),
    }
}

/// The cause to remove first among those on the selected chips: the one that keeps most work off the engine; if nothing is off
/// it, the refusal that keeps most work from Core ML's engine, of operations that Apple's compiler refuses and this one accepts.
pub fn first_cause<'a>(report: &'a Report, on: impl Fn(&Answer) -> bool) -> Option<Cause<'a>> {
    let worst = |causes: Vec<Cause<'a>>| {
        let here = causes.into_iter().filter(|cause| cause.chips.iter().any(|chip| on(chip.answer)));
        // Among equals, the one on most chips comes first, then the earliest.
        let ranked = here.rev();
        ranked.max_by_key(|cause| (cause.macs(report), cause.ops.len(), cause.chips.len()))
    };
    let direct = causes::of(report, Route::Direct);
    let off = |cause: &Cause| cause.chips.iter().any(|chip| chip.off && on(chip.answer));
    worst(direct.into_iter().filter(off).collect()).or_else(|| {
        let framework = causes::of(report, Route::Framework);
        worst(framework.into_iter().filter(|cause| cause.verdict().refusal.is_some()).collect())
    })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Last line of the report: the reason for the exit code, without fallbacks in a baseline.
pub fn last_line(report: &Report, failing: &[(&str, usize)], baseline: bool) -> String {
    let route = match report.route {
        Route::Direct if report.strict => "Apple's verdict and this compiler's",
        route => super::route_name(route),
    };
    let (new, known) = if baseline { ("new ", ", by the baseline") } else { ("", "") };
    if failing.is_empty() {
        let off: usize = report.answers.iter().map(|a| a.by(report.route).fallbacks()).sum();
        return match (off, baseline) {
            (0, _) => format!("yes ({route}): every operation is on the Neural Engine"),
            (_, true) => format!("yes ({route}): nothing new is off the Neural Engine{known}"),
            _ => format!("yes ({route}): at most {} operations are off the Neural Engine", report.max_fallback),
        };
    }
    let total = counted(report.outline.ops.len(), "operation");
    let mut counts: Vec<(usize, Vec<&str>)> = Vec::new();
    for &(chip, n) in failing {
        match counts.iter_mut().find(|(count, _)| *count == n) {
            Some((_, chips)) => chips.push(chip),
            None => counts.push((n, vec![chip])),
        }
    }
    let told: Vec<String> = counts
        .iter()
        .map(|(n, chips)| format!("{n} {new}of {total} off the Neural Engine of {}", chips.join(", ")))
        .collect();
    let limit = if report.max_fallback > 0 { format!(" ({} allowed)", report.max_fallback) } else { String::new() };
    format!("no ({route}): {}{limit}{known}", told.join("; "))
}
