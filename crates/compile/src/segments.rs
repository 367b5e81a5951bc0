//! Partitioning of a network between engine and host: operations without an engine path run on the host, all others become programs.
//!
//! The compiler itself decides: an operation that it refuses moves to the host, and the rest is compiled again, so that there is
//! no second list of supported operations. Operations on integers alone move to the host too, where they are exact.
//! The number of transfers between the sides is as low as the network's dependencies allow.

mod integers;

use crate::compiler::compile;
use crate::error::{Error, Result};
use crate::legalize::TASKS;
use crate::lower::PORTS;
use crate::native::extract;
use crate::options::Options;
use crate::remarks::Log;
use anemone_facts::chips::Chip;
use anemone_net::{Net, Op, OpKind, Unary, Value, ValueId, loops};
use anemone_program::Program;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A part of a network, in the order of execution. A value that one part computes for another is an output there and an input here, under
/// the same name.
#[derive(Debug)]
pub enum Segment {
    /// Program for the engine.
    Engine(Box<Program>),
    /// Operations that the host evaluates in the network's own element types.
    Host(Box<Net>),
    /// Counted loop on the host around segments that are compiled once.
    Loop(Box<Turns>),
}

/// A counted loop in segments.
#[derive(Debug)]
pub struct Turns {
    /// The loop as the only operation of a network. Names in its body are unique.
    pub whole: Net,
    /// Segments of one iteration.
    pub segments: Vec<Segment>,
}

impl Segment {
    /// Appends the engine programs of this segment, each with the number of dispatches in a run.
    pub fn programs<'a>(&'a self, times: usize, out: &mut Vec<(&'a Program, usize)>) {
        match self {
            Segment::Engine(program) => out.push((program, times)),
            Segment::Host(_) => {}
            Segment::Loop(turns) => {
                let count = turns.whole.ops.iter().map(|op| if let OpKind::Loop(l) = &op.kind { l.turns } else { 1 });
                let times = count.fold(times, usize::saturating_mul);
                turns.segments.iter().for_each(|segment| segment.programs(times, out));
            }
        }
    }

    /// Returns true if any part of it runs on the host.
    fn has_host(&self) -> bool {
        match self {
            Segment::Engine(_) => false,
            Segment::Host(_) => true,
            Segment::Loop(turns) => turns.segments.iter().any(Segment::has_host),
        }
    }
}

/// A partitioned network, with the reasons.
#[derive(Debug)]
pub struct Cut {
    /// Parts in execution order.
    pub segments: Vec<Segment>,
    /// Operations that the compiler refused, each with its error.
    pub reasons: Vec<(String, Error)>,
}

/// Most operations of a program of one or several loop iterations: a dispatch costs as much as some hundred operations.
pub const TURN_OPS: usize = 512;

/// Largest number of attempts to compile: each moves the refused operations to the host.
const MOST_ATTEMPTS: usize = 256;

/// Compiles a network, with host segments for operations without an engine path. A network that compiles is one engine segment; an error
/// that concerns no operation is returned. `log` receives every compilation.
pub fn cut(net: &Net, chip: &'static Chip, options: &Options, log: &mut dyn Log) -> Result<Cut> {
    cut_named(net, &mut HashSet::new(), chip, options, log)
}

/// As [`cut`], with tensor names that are in use already.
fn cut_named(
    net: &Net,
    names: &mut HashSet<String>,
    chip: &'static Chip,
    options: &Options,
    log: &mut dyn Log,
) -> Result<Cut> {
    let mut reasons = Vec::new();
    let grouped = loops::any(net).then(|| loops::grouped(net, TURN_OPS)).transpose();
    let grouped = grouped.map_err(|e| Error::Net(e.to_string()))?;
    let net = grouped.as_ref().unwrap_or(net);
    names.extend(net.values.iter().map(|value| value.name.clone()));
    let is_loop = |at: &usize| matches!(net.ops[*at].kind, OpKind::Loop(_));
    let exact: Vec<usize> = (0..net.ops.len()).filter(|&at| is_exact(net, &net.ops[at])).collect();
    let mut host: HashSet<usize> = HashSet::new();
    let mut turns: HashMap<usize, Turns> = HashMap::new();
    for at in (0..net.ops.len()).filter(is_loop) {
        let (made, why) = turns_of(net, at, names, (chip, options), log)?;
        reasons.extend(why);
        turns.insert(at, made);
    }
    let beyond = integers::beyond_half(net);
    let computes = !net.ops.is_empty() || net.outputs.is_empty();
    if turns.is_empty() && beyond.is_empty() && computes {
        let refused = match compile(net, chip, options, log) {
            Ok(program) => return Ok(Cut { segments: vec![Segment::Engine(Box::new(program))], reasons }),
            Err(error) => error,
        };
        host.extend(&exact);
        if !divides(&refused, net.ops.len()) {
            refuse(net, refused, &mut host, &mut reasons)?;
        }
    }
    if !beyond.is_empty() {
        host.extend(&exact);
        let reason = |&at: &usize| (net.ops[at].name.clone(), integers::error(&net.ops[at]));
        reasons.extend(beyond.iter().map(reason));
    }
    host.extend(turns.keys());
    let computed = with_computed_outputs(net, names, &mut host);
    let net = computed.as_ref().unwrap_or(net);
    let is_loop = |at: &usize| matches!(net.ops[*at].kind, OpKind::Loop(_));
    // Programs by the operations of their segment: later attempts reuse them.
    let mut kept: HashMap<Vec<usize>, Vec<Program>> = HashMap::new();
    'attempts: for _ in 0..MOST_ATTEMPTS {
        let levels = levels(net, &host);
        let mut segments = Vec::new();
        for (is_host, ops) in &levels {
            if *is_host {
                for run in ops.chunk_by(|a, b| !is_loop(a) && !is_loop(b)) {
                    let name = format!("{}_{}", net.name, segments.len());
                    segments.push(Planned::Host(Box::new(part(net, name, run)), run[0]));
                }
                continue;
            }
            if !kept.contains_key(ops) {
                match programs(net, ops, segments.len(), (chip, options), log) {
                    Ok(programs) => {
                        kept.insert(ops.clone(), programs);
                    }
                    Err(error) => {
                        host.extend(&exact);
                        refuse(net, error, &mut host, &mut reasons)?;
                        continue 'attempts;
                    }
                }
            }
            segments.extend(kept[ops].iter().map(|program| Planned::Engine(Box::new(program.clone()))));
        }
        let segment = |planned| match planned {
            Planned::Engine(program) => Segment::Engine(program),
            Planned::Host(part, first) => match turns.remove(&first) {
                Some(turns) => Segment::Loop(Box::new(turns)),
                None => Segment::Host(part),
            },
        };
        return Ok(Cut { segments: segments.into_iter().map(segment).collect(), reasons });
    }
    Err(reasons.pop().map_or_else(|| Error::Net("nothing compiles".into()), |(_, error)| error))
}

/// The network with an identity before each output that is a constant, because a segment gives only what its operations compute; `None` if
/// there is none. Integers go to the host, which keeps them exact.
fn with_computed_outputs(net: &Net, names: &mut HashSet<String>, host: &mut HashSet<usize>) -> Option<Net> {
    let constants: BTreeSet<ValueId> = net.outputs.iter().copied().filter(|&id| net.value(id).data.is_some()).collect();
    if constants.is_empty() {
        return None;
    }
    let mut net = net.clone();
    for id in constants {
        let constant = net.value(id).clone();
        let mut name = format!("{}.constant", constant.name);
        while !names.insert(name.clone()) {
            name.push('_');
        }
        if !constant.ty.dtype.is_float() {
            host.insert(net.ops.len());
        }
        let from = net.add_value(Value { name: name.clone(), ..constant });
        net.values[id.0 as usize].data = None;
        net.ops.iter_mut().flat_map(|op| &mut op.inputs).filter(|read| **read == id).for_each(|read| *read = from);
        net.ops.push(Op { name, kind: OpKind::Unary(Unary::Identity), inputs: vec![from], outputs: vec![id] });
    }
    Some(net)
}

/// A planned segment; a host segment carries the position of its first operation.
enum Planned {
    Engine(Box<Program>),
    Host(Box<Net>, usize),
}

/// The segments of one iteration of the loop at a position, and the operations of the body that the compiler refuses.
fn turns_of(
    net: &Net,
    at: usize,
    names: &mut HashSet<String>,
    (chip, options): (&'static Chip, &Options),
    log: &mut dyn Log,
) -> Result<(Turns, Vec<(String, Error)>)> {
    let mut whole = part(
        net,
        net.ops[at].outputs.iter().map(|&id| net.value(id).name.clone()).collect::<Vec<_>>().join("_"),
        &[at],
    );
    let op = &mut whole.ops[0];
    let OpKind::Loop(l) = &mut op.kind else { return Err(Error::Net("no loop".into())) };
    for value in &mut l.body.values {
        let stem = value.name.clone();
        for serial in 1.. {
            if names.insert(value.name.clone()) {
                break;
            }
            value.name = format!("{stem}.{serial}");
        }
    }
    l.body.name = format!("{}_turn", net.name);
    let op = &whole.ops[0];
    let OpKind::Loop(l) = &op.kind else { return Err(Error::Net("no loop".into())) };
    let mut body = l.bound(&whole, op);
    // Each tensor is an output once; an iteration's inputs are known.
    let mut seen: HashSet<ValueId> = body.inputs.iter().copied().collect();
    body.outputs.retain(|id| seen.insert(*id));
    let Cut { segments, reasons } = cut_named(&body, names, chip, options, log)?;
    Ok((Turns { whole, segments }, reasons))
}

/// Returns true for an error that dividing a network of so many operations can remove.
fn divides(error: &Error, ops: usize) -> bool {
    ops > 1 && matches!(error, Error::Limit { what, .. } if *what == PORTS || *what == TASKS)
}

/// Programs for operations of the engine, the first with this number. Operations become several programs if they read and write more
/// tensors than a program has ports, or exceed its number of tasks.
fn programs(
    net: &Net,
    ops: &[usize],
    first: usize,
    target: (&'static Chip, &Options),
    log: &mut dyn Log,
) -> Result<Vec<Program>> {
    match compile(&part(net, format!("{}_{first}", net.name), ops), target.0, target.1, log) {
        Err(error) if divides(&error, ops.len()) => {
            let (early, late) = ops.split_at(ops.len() / 2);
            let mut all = programs(net, early, first, target, log)?;
            all.extend(programs(net, late, first + all.len(), target, log)?);
            Ok(all)
        }
        program => Ok(vec![program?]),
    }
}

/// Returns true for a network that may have parts outside of its programs even if all of it compiles: loops, and integers that fp16 does
/// not hold.
pub fn may_divide(net: &Net) -> bool {
    loops::any(net) || !integers::beyond_half(net).is_empty()
}

/// Results that this compiler leaves to the host: reason by name of the result. `None` if the network is refused with host segments too,
/// and for chips without a compiler.
pub fn on_host(net: &Net, chip: &'static Chip) -> Option<BTreeMap<String, String>> {
    let cut = cut(net, chip, &Options::default(), &mut ()).ok()?;
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for (op, error) in &cut.reasons {
        reasons.entry(op.clone()).or_insert_with(|| error.to_string());
    }
    let beside = |kind: &str| format!("{kind} is computed with operations that have no path on the engine");
    let mut made = BTreeMap::new();
    for segment in &cut.segments {
        if let (Segment::Loop(turns), true) = (segment, segment.has_host()) {
            let reason = "an iteration has operations that have no path on the engine";
            // Remaining iterations are peeled off the loop, whose results have other names there.
            let of = turns.whole.ops.iter().find(|op| matches!(op.kind, OpKind::Loop(_)));
            let of = of.and_then(|of| net.ops.iter().find(|op| op.name == of.name));
            let results = match of {
                Some(of) => of.outputs.iter().map(|&id| net.value(id).name.clone()).collect(),
                None => turns.whole.outputs.iter().map(|&id| turns.whole.value(id).name.clone()).collect::<Vec<_>>(),
            };
            made.extend(results.into_iter().map(|name| (name, reason.to_string())));
        }
        let Segment::Host(part) = segment else { continue };
        for op in &part.ops {
            let reason = reasons.get(&op.name).cloned().unwrap_or_else(|| beside(op.kind.name()));
            made.extend(op.outputs.iter().map(|&id| (part.value(id).name.clone(), reason.clone())));
        }
    }
    Some(made)
}

/// Moves the operations that an error names to the host, with others of their kind that no engine supports.
fn refuse(net: &Net, error: Error, host: &mut HashSet<usize>, reasons: &mut Vec<(String, Error)>) -> Result<()> {
    let Some(name) = error.op().map(str::to_string) else { return Err(error) };
    // Operations on integers alone are there already, even if the whole network is refused for one.
    let named: Vec<usize> = (0..net.ops.len()).filter(|&at| net.ops[at].name == name).collect();
    if named.is_empty() {
        return Err(error);
    }
    let never: Vec<&'static str> =
        named.iter().map(|&at| &net.ops[at].kind).filter(|kind| is_indexed(kind)).map(OpKind::name).collect();
    let alike =
        |op: &Op| never.contains(&op.kind.name()) && op.inputs[1..].iter().any(|&id| net.value(id).data.is_none());
    let before = host.len();
    host.extend((0..net.ops.len()).filter(|&at| alike(&net.ops[at])));
    host.extend(named);
    if host.len() == before && !reasons.is_empty() {
        return Err(error);
    }
    reasons.push((name, error));
    Ok(())
}

/// Returns true for operations whose positions are operands.
fn is_indexed(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Gather { .. }
            | OpKind::GatherAlong { .. }
            | OpKind::GatherNd { .. }
            | OpKind::ScatterAlong { .. }
            | OpKind::ScatterNd { .. }
    )
}

/// Returns true for an operation on integers or truth values alone with an operand that is not constant: indices, counts, token
/// identifiers.
fn is_exact(net: &Net, op: &Op) -> bool {
    let whole = |&id: &ValueId| !net.value(id).ty.dtype.is_float();
    let live = op.inputs.iter().any(|&id| net.value(id).data.is_none());
    live && op.inputs.iter().all(whole) && op.outputs.iter().all(whole)
}

/// Groups operations into alternating runs on host and engine, each as early as its operands allow.
fn levels(net: &Net, host: &HashSet<usize>) -> Vec<(bool, Vec<usize>)> {
    let mut made: HashMap<ValueId, usize> = HashMap::new();
    let mut runs: Vec<Vec<usize>> = Vec::new();
    for (at, op) in net.ops.iter().enumerate() {
        // Even levels are the host's.
        let side = usize::from(!host.contains(&at));
        let after = op.inputs.iter().filter_map(|id| made.get(id)).map(|&l| if l % 2 == side { l } else { l + 1 });
        let level = after.max().unwrap_or(side).max(side);
        made.extend(op.outputs.iter().map(|&id| (id, level)));
        if runs.len() <= level {
            runs.resize(level + 1, Vec::new());
        }
        runs[level].push(at);
    }
    runs.into_iter().enumerate().filter(|(_, ops)| !ops.is_empty()).map(|(l, ops)| (l % 2 == 0, ops)).collect()
}

/// Some operations of a network as a network: values they read from others are inputs, values read by others are outputs.
fn part(net: &Net, name: String, ops: &[usize]) -> Net {
    let inside: HashSet<usize> = ops.iter().copied().collect();
    let others = net.ops.iter().enumerate().filter(|(at, _)| !inside.contains(at)).flat_map(|(_, op)| &op.inputs);
    let states = net.states.iter().map(|s| &s.output);
    let wanted: HashSet<ValueId> = others.chain(&net.outputs).chain(states).copied().collect();
    extract(net, name, ops.iter().map(|&at| &net.ops[at]), &wanted)
}
