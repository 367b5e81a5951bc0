//! Segments: the predicted choice of the framework's segmenter, and the operations that run together on the engine.

use super::estimate::estimate;
use super::place::idle;
use super::verdict::{Place, Verdict};
use anemone_facts::chips::Chip;
use anemone_facts::placement::{LAUNCH_MS, OUTPUT_MS, SWITCH_MS};
use anemone_net::outline::Outline;

/// Back end that runs an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The older CPU path.
    Classic,
    /// The vector library on the CPU.
    Bnns,
    /// The engine.
    Ane,
}

impl Backend {
    /// All back ends, in the order in which the segmenter breaks ties.
    pub const ALL: [Backend; 3] = [Backend::Classic, Backend::Bnns, Backend::Ane];

    /// Name that the segmenter uses.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Classic => "classic_cpu",
            Backend::Bnns => "bnns",
            Backend::Ane => "ane",
        }
    }
}

/// Choice of the segmenter: the cheapest path over the back ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Back end of each operation; `None` for constants.
    pub backends: Vec<Option<Backend>>,
    /// Milliseconds of the whole path by the segmenter's estimates.
    pub cost_ms: f64,
    /// Milliseconds of the cheapest path without the engine.
    pub host_ms: f64,
}

/// Shortest path of the segmenter over the back ends. Its costs are the estimates, a start for each engine segment, changes of back end,
/// and engine outputs. Ties go to the older CPU path, then to the vector library.
pub fn choose(outline: &Outline, verdicts: &[Verdict], chip: &Chip) -> Choice {
    const EVERY: [Backend; 3] = Backend::ALL;
    let takes_part = |at: usize| !idle(&outline.ops[at]);
    let ops: Vec<usize> = (0..outline.ops.len()).filter(|&at| takes_part(at)).collect();
    let mut costs: [f64; 3] = [0.0; 3];
    let mut host: [f64; 2] = [0.0; 2];
    let mut from: Vec<[usize; 3]> = Vec::with_capacity(ops.len());
    for (step, &at) in ops.iter().enumerate() {
        let estimates = estimate(&outline.ops[at], chip);
        let able = [true, true, verdicts[at].place.on_engine()];
        let mut next = [f64::INFINITY; 3];
        let mut chosen = [0; 3];
        for to in 0..3 {
            if !able[to] {
                continue;
            }
            for (before, spent) in costs.iter().enumerate() {
                let switch = if step > 0 && before != to { SWITCH_MS } else { 0.0 };
                let launch = if EVERY[to] == Backend::Ane && (step == 0 || before != to) { LAUNCH_MS } else { 0.0 };
                let total = spent + switch + launch + estimates[to];
                if total < next[to] {
                    (next[to], chosen[to]) = (total, before);
                }
            }
        }
        let switch = if step > 0 { SWITCH_MS } else { 0.0 };
        let stay = [host[0].min(host[1] + switch), host[1].min(host[0] + switch)];
        host = [stay[0] + estimates[0], stay[1] + estimates[1]];
        costs = next;
        from.push(chosen);
    }
    // The result of the last operation leaves the program, perhaps through a wrapper.
    let given = !ops.is_empty();
    if given {
        costs[2] += OUTPUT_MS;
    }
    let mut state = (0..3).fold(0, |best, s| if costs[s] < costs[best] { s } else { best });
    let cost_ms = if ops.is_empty() { 0.0 } else { costs[state] };
    let mut backends = vec![None; outline.ops.len()];
    for (step, &at) in ops.iter().enumerate().rev() {
        backends[at] = Some(EVERY[state]);
        state = from[step][state];
    }
    Choice { backends, cost_ms, host_ms: host[0].min(host[1]) }
}

/// Consecutive operations that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// True for a segment on the engine.
    pub engine: bool,
    /// Their positions.
    pub ops: Vec<usize>,
}

/// Maximal runs of consecutive operations on the engine or off it; an operation that breaks the graph is a segment of its own.
pub fn segments(outline: &Outline, verdicts: &[Verdict], on_engine: &dyn Fn(usize) -> bool) -> Vec<Segment> {
    let mut all: Vec<Segment> = Vec::new();
    let mut sealed = false;
    for (at, verdict) in verdicts.iter().enumerate() {
        if idle(&outline.ops[at]) {
            continue;
        }
        let engine = on_engine(at);
        let cuts = engine && verdict.place == Place::Cut;
        match all.last_mut() {
            Some(last) if last.engine == engine && !cuts && !sealed => last.ops.push(at),
            _ => all.push(Segment { engine, ops: vec![at] }),
        }
        sealed = cuts;
    }
    all
}

/// Number of transfers: changes between engine and host, including those at the program's ends if the engine is first or last.
pub fn hand_overs(segments: &[Segment]) -> usize {
    let inner = segments.windows(2).filter(|w| w[0].engine != w[1].engine || w[0].engine).count();
    let ends = [segments.first(), segments.last()];
    inner + ends.into_iter().flatten().filter(|s| s.engine).count()
}
