//! Segments: what the framework's segmenter would choose, and what runs together on the engine.

use super::describe;
use super::place::{Place, Verdict, idle};
use anemone_facts::chips::Chip;
use anemone_facts::placement::{LAUNCH_MS, LEAVES, OUTPUT_MS, RATES, Rate, SWITCH_MS, Work};
use anemone_net::outline::{Argument, Outline, OutlineOp};

/// Who runs an operation.
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
    /// In the order in which ties are given.
    pub const ALL: [Backend; 3] = [Backend::Classic, Backend::Bnns, Backend::Ane];

    /// As the segmenter names it.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Classic => "classic_cpu",
            Backend::Bnns => "bnns",
            Backend::Ane => "ane",
        }
    }
}

/// Milliseconds that the segmenter takes an operation to cost, by back end as in [`Backend::ALL`].
pub fn estimate(op: &OutlineOp, chip: &Chip) -> [f64; 3] {
    let bytes_of = |values: Vec<usize>| values.into_iter().fold(0.0, |sum, b| sum + b as f64);
    // Operands that repeat are read once; constants count where they are data, not parameters.
    let mut seen: Vec<&str> = Vec::new();
    let mut inputs = Vec::new();
    for (name, argument) in &op.arguments {
        match argument {
            Argument::Value(value) if seen.contains(&value.name.as_str()) => {}
            Argument::Value(value) => {
                seen.push(&value.name);
                inputs.push(value.ty.bytes());
            }
            Argument::Constant(constant) if name == "indices" => inputs.push(constant.ty.elements() * 2),
            Argument::Constant(_) => {}
        }
    }
    let input_bytes = bytes_of(inputs);
    let output_bytes = bytes_of(op.outputs.iter().map(|o| o.ty.bytes()).collect());
    let flops = 2.0 * describe::macs(op) as f64;
    // Attention is judged by its memory alone.
    let modelled = if op.op == "scaled_dot_product_attention" { 0.0 } else { flops };
    let rates = RATES.iter().find(|r| r.of.is_empty() || r.of.contains(&chip.family) || r.of.contains(&chip.target));
    let default = |pick: fn(&anemone_facts::placement::Rates) -> Rate| {
        rates.map_or(0.0, |r| {
            let rate = pick(r);
            let memory = (input_bytes + output_bytes) / (rate.gibps * (1u64 << 30) as f64);
            1e3 * memory.max(modelled / (rate.gflops * 1e9))
        })
    };
    let work = |work: Work| if work == Work::Flops { flops } else { input_bytes };
    let leaf = LEAVES.iter().rev().find(|l| l.ops.contains(&op.op.as_str()) && work(l.work) >= l.from_millions * 1e6);
    let cost = |rate: Option<f64>, default: f64| match (rate, leaf) {
        (Some(rate), Some(leaf)) if rate > 0.0 => 1e3 * work(leaf.work) / (rate * 1e9),
        _ => default,
    };
    [
        cost(leaf.map(|l| l.classic), default(|r| r.classic)),
        cost(leaf.map(|l| l.bnns), default(|r| r.bnns)),
        cost(leaf.map(|l| l.ane), default(|r| r.ane)),
    ]
}

/// What the segmenter chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The back end of each operation; none for constants.
    pub backends: Vec<Option<Backend>>,
    /// Milliseconds of the whole path as the segmenter counts them.
    pub cost_ms: f64,
    /// Milliseconds of the cheapest path without the engine.
    pub host_ms: f64,
}

/// The segmenter's shortest path: estimates, a start for each engine segment, a change of back end, an engine output.
/// Ties go to the older CPU path, then to the vector library.
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
    // What the last operation gives leaves the program, perhaps through a wrapper.
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

/// Operations that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Whether on the engine.
    pub engine: bool,
    /// Their positions.
    pub ops: Vec<usize>,
}

/// Runs of neighbours in the program's order, on the engine or off it; an operation that cuts is a segment of its own.
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

/// Changes of side, counting those at the program's ends where the engine is first or last: each is a hand-over.
pub fn hand_overs(segments: &[Segment]) -> usize {
    let inner = segments.windows(2).filter(|w| w[0].engine != w[1].engine || w[0].engine).count();
    let ends = [segments.first(), segments.last()];
    inner + ends.into_iter().flatten().filter(|s| s.engine).count()
}
