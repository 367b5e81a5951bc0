//! Placement of a whole program: the verdicts, and the segments and totals that follow from them.

use super::describe;
use super::legal::Route;
use super::place;
use super::segment::{self, Backend, Choice, Segment};
use super::verdict::{Place, Verdict};
use anemone_facts::chips::Chip;
use anemone_net::outline::{Outline, OutlineOp};
use std::collections::BTreeMap;

/// Default text of [`Verdict::own`], for operations that only this compiler supports and that have no row in [`super::own::REWRITES`].
pub const REWRITTEN: &str = "what its own passes make of it (`ane compile --dump-ir` shows them)";

/// Placement of a program on one chip by one route: verdicts, and the totals that follow from them.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The chip.
    pub chip: &'static Chip,
    /// The route.
    pub route: Route,
    /// One verdict per operation.
    pub verdicts: Vec<Verdict>,
    /// Predicted choice of the segmenter; [`Route::Framework`] only.
    pub choice: Option<Choice>,
    /// Operations that run together.
    pub segments: Vec<Segment>,
    /// Transfers between engine and host; each costs a dispatch or a copy.
    pub hand_overs: usize,
    /// Multiply-accumulates of the program.
    pub macs: u64,
    /// Multiply-accumulates on the engine.
    pub macs_engine: u64,
}

impl Placement {
    /// Returns true if an operation runs on the engine or is no work.
    pub fn on_engine(&self, at: usize) -> bool {
        let able = self.verdicts[at].place.on_engine();
        match self.choice.as_ref().map(|c| c.backends[at]) {
            Some(Some(backend)) => able && backend == Backend::Ane,
            _ => able,
        }
    }

    /// Number of operations that the engine does not support.
    pub fn off(&self) -> usize {
        self.verdicts.iter().filter(|v| !v.place.on_engine()).count()
    }

    /// Number of operations that do not run on the engine.
    pub fn fallbacks(&self) -> usize {
        (0..self.verdicts.len()).filter(|&at| !self.on_engine(at)).count()
    }

    /// Replaces the verdicts of Apple's compiler by those of this one: every operation is on the engine but those in `host`, keyed by
    /// result name with the reason. An operation that Apple's compiler refuses becomes [`Place::Decomposed`] and keeps its refusal.
    pub fn use_own_verdicts(&mut self, outline: &Outline, host: &BTreeMap<String, String>) {
        for (op, verdict) in outline.ops.iter().zip(&mut self.verdicts) {
            if place::idle(op) {
                continue;
            }
            match own_reason(op, host) {
                Some(reason) if verdict.place.on_engine() => *verdict = Verdict::for_host(reason),
                Some(_) => verdict.place = Place::Host,
                None if verdict.place.on_engine() => {}
                None => {
                    let into = *verdict.own.get_or_insert(REWRITTEN);
                    (verdict.place, verdict.into) = (Place::Decomposed, into.into());
                }
            }
        }
        self.count(outline);
    }

    /// Adds the refusals of this compiler, those of the operations in `host`, to those of Apple's. If it refuses the network as a whole, for
    /// the reason `whole`, the last operation stands for it.
    pub fn use_own_refusals(&mut self, outline: &Outline, host: &BTreeMap<String, String>, whole: &str) {
        for (op, verdict) in outline.ops.iter().zip(&mut self.verdicts) {
            if let Some(reason) = own_reason(op, host).filter(|_| verdict.place.on_engine() && !place::idle(op)) {
                *verdict = Verdict::for_host(reason);
            }
        }
        let last = outline.ops.iter().rposition(|op| !place::idle(op)).filter(|_| self.off() == 0);
        last.into_iter().for_each(|at| self.verdicts[at] = Verdict::for_host(whole));
        self.count(outline);
    }

    /// Rejects the operation whose result has this name, because the compiler cannot read it.
    pub fn reject(&mut self, outline: &Outline, result: &str, reason: &str) {
        let gives = |op: &OutlineOp| op.outputs.iter().any(|output| output.name == result);
        // A known refusal is more specific.
        let position = outline.ops.iter().position(gives);
        if let Some(at) = position.filter(|&at| self.verdicts[at].refusal.is_none()) {
            self.verdicts[at] = Verdict::unread(reason);
            self.count(outline);
        }
    }

    /// Recomputes segments, transfers and multiply-accumulate counts from the verdicts.
    fn count(&mut self, outline: &Outline) {
        let macs: Vec<u64> = outline.ops.iter().map(describe::macs).collect();
        self.segments = segment::segments(outline, &self.verdicts, &|at| self.on_engine(at));
        self.hand_overs = segment::hand_overs(&self.segments);
        self.macs = macs.iter().sum();
        self.macs_engine = macs.iter().enumerate().filter(|&(at, _)| self.on_engine(at)).map(|(_, n)| n).sum();
    }

    /// Segments on the engine.
    pub fn engine_segments(&self) -> usize {
        self.segments.iter().filter(|s| s.engine).count()
    }

    /// Operations by place, in the order of [`Place::ALL`].
    pub fn counts(&self) -> [usize; 6] {
        Place::ALL.map(|place| self.verdicts.iter().filter(|v| v.place == place).count())
    }
}

/// The reason for which this compiler leaves an operation to the host, by the name of a result.
fn own_reason<'a>(op: &OutlineOp, host: &'a BTreeMap<String, String>) -> Option<&'a String> {
    // The parts of a split operation are named after its result.
    let part =
        |name: &str| host.range(format!("{name}.")..).next().filter(|(of, _)| of.starts_with(&format!("{name}.")));
    let reason = |name: &String| host.get(name).or_else(|| part(name).map(|(_, reason)| reason));
    op.outputs.iter().find_map(|output| reason(&output.name))
}

/// Places every operation of a program on a chip.
pub fn check(outline: &Outline, chip: &'static Chip, route: Route) -> Placement {
    let verdicts = place::place(outline, chip, route);
    let choice = (route == Route::Framework).then(|| segment::choose(outline, &verdicts, chip));
    let mut placement =
        Placement { chip, route, verdicts, choice, segments: Vec::new(), hand_overs: 0, macs: 0, macs_engine: 0 };
    placement.count(outline);
    placement
}
