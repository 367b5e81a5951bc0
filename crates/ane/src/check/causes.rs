//! Causes of operations off the engine: one entry for each, with its operations and the chips that it applies to.

use super::{Answer, Report, reason};
use anemone_check::{Placement, Route, Verdict, describe};
use anemone_program::order;

/// A cause.
pub struct Cause<'a> {
    /// Code of the rule, or `segmenter`.
    pub code: &'static str,
    /// Text of the finding.
    pub cause: String,
    /// Operations of all chips, by position.
    pub ops: Vec<usize>,
    /// Chips in the requested order.
    pub chips: Vec<OnChip<'a>>,
    route: Route,
}

/// A cause on one chip.
pub struct OnChip<'a> {
    /// The answer for the chip.
    pub answer: &'a Answer,
    /// The chip's limit; empty if the cause states it.
    pub limit: String,
    /// Operations with this cause, by position.
    pub ops: Vec<usize>,
    /// False if this compiler rewrites the operations, so that they are on the engine nevertheless.
    pub off: bool,
}

impl<'a> Cause<'a> {
    /// The verdict on its first operation, on its first chip.
    pub fn verdict(&self) -> &'a Verdict {
        self.on_chip(&self.chips[0])
    }

    fn on_chip(&self, on: &OnChip<'a>) -> &'a Verdict {
        &on.answer.by(self.route).verdicts[on.ops[0]]
    }

    /// Returns true if the cause makes operations fall back to the CPU on some chip.
    pub fn off(&self) -> bool {
        self.chips.iter().any(|on| on.off)
    }

    /// Returns true if it applies to a chip.
    pub fn holds_on(&self, answer: &Answer) -> bool {
        self.chips.iter().any(|on| on.answer.chip == answer.chip)
    }

    /// Advice of the refusals, with chips if it differs between them.
    pub fn fixes(&self) -> Vec<String> {
        self.texts(|verdict| verdict.refusal.as_ref().map(|r| r.fix.clone()))
    }

    /// Messages of Apple's compiler, as [`Cause::fixes`].
    pub fn apple(&self) -> Vec<String> {
        self.texts(|verdict| verdict.refusal.as_ref().and_then(|r| r.apple.clone()))
    }

    /// Conflicting statements of sources, as [`Cause::fixes`].
    pub fn differ(&self) -> Vec<String> {
        self.texts(|verdict| (!verdict.differ.is_empty()).then(|| verdict.differ.join("; ")))
    }

    /// Rewritten forms of this compiler, with their chips if the cause applies to others too.
    pub fn written(&self) -> Vec<String> {
        let own = self.chips.iter().filter(|on| !on.off);
        self.with_chips(own.filter_map(|on| Some((self.on_chip(on).own?.to_string(), on.answer.chip.as_str()))))
    }

    fn texts(&self, text: impl Fn(&Verdict) -> Option<String>) -> Vec<String> {
        let all = self.chips.iter().filter_map(|on| Some((text(self.on_chip(on))?, on.answer.chip.as_str())));
        self.with_chips(all.filter(|(text, _)| !text.is_empty()))
    }

    /// Distinct texts, with their chips unless they apply to all.
    fn with_chips(&self, told: impl Iterator<Item = (String, &'a str)>) -> Vec<String> {
        let mut all: Vec<(String, Vec<&str>)> = Vec::new();
        for (text, chip) in told {
            match all.iter_mut().find(|(known, _)| *known == text) {
                Some((_, chips)) if chips.contains(&chip) => {}
                Some((_, chips)) => chips.push(chip),
                None => all.push((text, vec![chip])),
            }
        }
        let every = |chips: &[&str]| self.chips.iter().all(|on| chips.contains(&on.answer.chip.as_str()));
        let line = |(text, chips): (String, Vec<&str>)| {
            if every(&chips) { text } else { format!("{text} ({})", chips.join(", ")) }
        };
        all.into_iter().map(line).collect()
    }

    /// Number of multiply-accumulates that it keeps off the engine.
    pub fn macs(&self, report: &Report) -> u64 {
        self.ops.iter().map(|&at| describe::macs(&report.outline.ops[at])).sum()
    }

    /// The chips with their limits, and the number of affected operations if it differs from the cause's:
    /// `m1, a14 (supported: 1 to 13); m4 (supported: 1 to 15; 2 of 5)`.
    pub fn on(&self) -> String {
        let mut groups: Vec<(&OnChip, Vec<&str>)> = Vec::new();
        for on in &self.chips {
            match groups.iter_mut().find(|(known, _)| known.limit == on.limit && known.ops.len() == on.ops.len()) {
                Some((_, chips)) => chips.push(&on.answer.chip),
                None => groups.push((on, vec![&on.answer.chip])),
            }
        }
        let told = groups.iter().map(|(on, chips)| {
            let mut remarks = Vec::new();
            if !on.limit.is_empty() {
                remarks.push(format!("supported: {}", on.limit));
            }
            if on.ops.len() < self.ops.len() {
                remarks.push(format!("{} of {}", on.ops.len(), self.ops.len()));
            }
            let chips = chips.join(", ");
            if remarks.is_empty() { chips } else { format!("{chips} ({})", remarks.join("; ")) }
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

/// Every cause by a route, in the order of the operations: of operations off the engine, and by the direct route also of operations
/// that Apple's compiler refuses and this one compiles.
pub fn of(report: &Report, route: Route) -> Vec<Cause<'_>> {
    let mut causes: Vec<Cause<'_>> = Vec::new();
    for answer in &report.answers {
        for (code, text, on) in on(answer, route) {
            match causes.iter_mut().find(|known| known.code == code && known.cause == text) {
                Some(known) => {
                    known.ops.extend(&on.ops);
                    known.chips.push(on);
                }
                None => causes.push(Cause { code, cause: text, ops: on.ops.clone(), chips: vec![on], route }),
            }
        }
    }
    for cause in &mut causes {
        order::by(&mut cause.ops, Ord::cmp);
        cause.ops.dedup();
    }
    order::by_key(&mut causes, |cause| cause.ops[0]);
    causes
}

/// Causes on one chip, each with its code and finding.
fn on(answer: &Answer, route: Route) -> Vec<(&'static str, String, OnChip<'_>)> {
    let placement = answer.by(route);
    let mut own: Vec<(&'static str, String, OnChip<'_>)> = Vec::new();
    for at in 0..placement.verdicts.len() {
        let Some((code, cause, limit, off)) = why(placement, at) else { continue };
        let same = |(c, text, on): &&mut (&'static str, String, OnChip)| {
            *c == code && *text == cause && on.limit == limit && on.off == off
        };
        match own.iter_mut().find(same) {
            Some((.., on)) => on.ops.push(at),
            None => own.push((code, cause, OnChip { answer, limit, ops: vec![at], off })),
        }
    }
    own
}

/// Code, finding and limit of an operation that is refused or not chosen, and true if it is off the engine; `None` for others.
fn why(placement: &Placement, at: usize) -> Option<(&'static str, String, String, bool)> {
    let off = !placement.on_engine(at);
    Some(match &placement.verdicts[at].refusal {
        Some(r) if r.cause != r.message => (r.code, r.cause.clone(), r.limit.clone(), off),
        Some(r) => (r.code, r.message.clone(), String::new(), off),
        None if off => ("segmenter", reason(placement, at), String::new(), off),
        None => return None,
    })
}
