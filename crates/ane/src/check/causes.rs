//! Causes: why operations are off the engine, one entry for each with its operations and every chip that it holds on.

use super::{Answer, Report, reason};
use anemone_compile::check::{Placement, Route, Verdict, describe};

/// A cause.
pub struct Cause<'a> {
    /// Code of the rule, or `segmenter`.
    pub code: &'static str,
    /// Text of the finding.
    pub cause: String,
    /// Operations, by position.
    pub ops: Vec<usize>,
    /// Chips, each with its limit; the limit is empty where the cause says all.
    pub chips: Vec<(&'a Answer, String)>,
    route: Route,
}

impl<'a> Cause<'a> {
    /// The verdict on its first operation, on its first chip.
    pub fn verdict(&self) -> &'a Verdict {
        let (answer, _) = self.chips[0];
        &answer.by(self.route).verdicts[self.ops[0]]
    }

    /// Advice of the refusal, if there is one.
    pub fn fix(&self) -> Option<&'a str> {
        self.verdict().refusal.as_ref().map(|r| r.fix.as_str())
    }

    /// Multiply-accumulates that it keeps off the engine.
    pub fn macs(&self, report: &Report) -> u64 {
        self.ops.iter().map(|&at| describe::macs(&report.outline.ops[at])).sum()
    }

    /// The chips with their limits: `at most 13 on m1, a14; at most 15 on m4`, or the chips alone.
    pub fn on(&self) -> String {
        let mut limits: Vec<(&str, Vec<&str>)> = Vec::new();
        for (answer, limit) in &self.chips {
            match limits.iter_mut().find(|(known, _)| known == limit) {
                Some((_, chips)) => chips.push(&answer.chip),
                None => limits.push((limit, vec![&answer.chip])),
            }
        }
        let told = limits.iter().map(|(limit, chips)| match *limit {
            "" => chips.join(", "),
            limit => format!("{} (supported: {limit})", chips.join(", ")),
        });
        told.collect::<Vec<_>>().join("; ")
    }
}

/// Every cause by a route, in the order of the operations.
pub fn of(report: &Report, route: Route) -> Vec<Cause<'_>> {
    gathered(report, route, |placement, at| !placement.on_engine(at))
}

/// Operations that Apple's compiler refuses and this one compiles: causes by the direct route, in operation order.
pub fn rewritten(report: &Report) -> Vec<Cause<'_>> {
    let refused = |placement: &Placement, at: usize| placement.verdicts[at].refusal.is_some();
    gathered(report, Route::Direct, |placement, at| placement.on_engine(at) && refused(placement, at))
}

fn gathered(report: &Report, route: Route, chosen: impl Fn(&Placement, usize) -> bool) -> Vec<Cause<'_>> {
    let mut causes: Vec<Cause<'_>> = Vec::new();
    for answer in &report.answers {
        for (code, cause, limit, ops) in on(answer, route, &chosen) {
            match causes.iter_mut().find(|c| c.code == code && c.cause == cause && c.ops == ops) {
                Some(known) => known.chips.push((answer, limit)),
                None => causes.push(Cause { code, cause, ops, chips: vec![(answer, limit)], route }),
            }
        }
    }
    causes
}

/// Causes on one chip: code, finding, limit, operations.
fn on(
    answer: &Answer,
    route: Route,
    chosen: impl Fn(&Placement, usize) -> bool,
) -> Vec<(&'static str, String, String, Vec<usize>)> {
    let placement = answer.by(route);
    let mut own: Vec<(&'static str, String, String, Vec<usize>)> = Vec::new();
    for at in (0..placement.verdicts.len()).filter(|&at| chosen(placement, at)) {
        let (code, cause, limit) = match &placement.verdicts[at].refusal {
            Some(r) if r.cause != r.message => (r.code, r.cause.clone(), r.limit.clone()),
            Some(r) => (r.code, r.message.clone(), String::new()),
            None => ("segmenter", reason(placement, at), String::new()),
        };
        match own.iter_mut().find(|(c, text, l, _)| *c == code && *text == cause && *l == limit) {
            Some((.., ops)) => ops.push(at),
            None => own.push((code, cause, limit, vec![at])),
        }
    }
    own
}
