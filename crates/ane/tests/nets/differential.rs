//! Random single operations and chains of two or three, of every element type, axis, broadcast and parameter, with numbers at
//! limits: compiled, executed by `fast` and `exact`, compared with the evaluator. A failure is made simpler and names its seed.
//!
//! `ANE_DIFFERENTIAL_CASES` (10000 where it is not set) and `ANE_DIFFERENTIAL_SEED` say how many and from where on,
//! `ANE_DIFFERENTIAL_SHRINK` how many kinds of findings are made simpler.

use crate::common;

mod bound;
pub mod draw;
mod found;
mod known;
mod levels;
mod pairs;
mod parts;
pub mod source;

use anemone::Array;
use anemone::warnings::OF_EACH_RUN;
use anemone_compile::{Activations, Options, compile};
use anemone_facts::chips;
use anemone_facts::numerics::Model;
use anemone_net::ValueId;
use anemone_program::Program;
use common::suite::execute;
use draw::Case;
use known::KNOWN;
use source::Source;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const CASES: u64 = 5_000;
/// Trials to make a failure simpler.
const TRIALS: usize = 1500;

/// Outcome of a case.
enum Outcome {
    /// The choices give no network.
    None,
    Refused(String),
    Right,
    /// Wrong, and right but for these rows of what is known.
    Known(Vec<bool>),
    /// Model and first difference.
    Wrong(String),
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn outcome(case: &Case) -> Outcome {
    std::panic::catch_unwind(|| told(case)).unwrap_or_else(|_| Outcome::Wrong("a panic".into()))
}

/// Checks that a run warns of a doubtful result.
fn warned(case: &Case, inputs: &[Vec<f32>], got: &[f32], model: Model) -> Result<(), String> {
    let array = |id: ValueId, data: &[f32]| {
        let value = case.net.value(id);
        (value.name.clone(), Array { shape: value.ty.shape.clone(), data: data.to_vec() })
    };
    let given: Vec<_> = case.net.inputs.iter().zip(inputs).map(|(&id, data)| array(id, data)).collect();
    let output = array(case.net.outputs[0], got);
    let warnings = anemone::warnings::of_run(
        &case.net,
        model,
        &anemone::tensor::views(&given),
        &[output],
        &Default::default(),
        OF_EACH_RUN,
    );
    if warnings.is_empty() { Err("no warning".into()) } else { Ok(()) }
}

/// Fails where a network of integers and truth values alone gives another number than the evaluator, and a run does not say so.
fn silent(case: &Case, inputs: &[Vec<f32>], got: &[f32], model: Model) -> Result<(), String> {
    let net = &case.net;
    let used = net.ops.iter().flat_map(|op| op.inputs.iter().chain(&op.outputs));
    if used.chain(&net.outputs).any(|&id| net.value(id).ty.dtype.is_float()) {
        return Ok(());
    }
    let wanted = anemone_net::eval::eval(net, &case.inputs).map_err(|e| e.to_string())?.remove(0).data.to_f32();
    match got.iter().zip(&wanted).position(|(got, wanted)| got != wanted) {
        Some(at) => warned(case, inputs, got, model).map_err(|_| {
            format!("{}: element {at} is {:?} for {:?}, and no warning", model.name(), got[at], wanted[at])
        }),
        None => Ok(()),
    }
}

fn told(case: &Case) -> Outcome {
    // A table fitted to several operations has one error for all (docs/compiler.md); the rows are those of single operations.
    let options = Options { activations: Activations::Accurate, ..Options::default() };
    match compile(&case.net, &chips::CHIPS[0], &options, &mut ()) {
        Ok(program) => compared(case, &program).unwrap_or_else(Outcome::Wrong),
        Err(e) => Outcome::Refused(e.to_string()),
    }
}

fn compared(case: &Case, program: &Program) -> Result<Outcome, String> {
    let inputs: Vec<Vec<f32>> = case.inputs.iter().map(|t| t.data.to_f32()).collect();
    let mut rows = vec![false; KNOWN.len()];
    let mut known = false;
    for model in [Model::Fast, Model::Fixed] {
        let got = execute(program, &inputs, model)?;
        silent(case, &inputs, &got, model)?;
        let against = |left_out: Option<&mut Vec<bool>>| {
            let expected = bound::expected(&case.net, &case.inputs, model, left_out)?;
            difference(&expected, &got, model)
        };
        if let Err(why) = against(None) {
            let mut own = vec![false; KNOWN.len()];
            if let Err(other) = against(Some(&mut own)) {
                return Err(format!("{}: {other}", model.name()));
            }
            if let Err(silent) = warned(case, &inputs, &got, model) {
                return Err(format!("{}: {silent}: {why}", model.name()));
            }
            known = true;
            rows.iter_mut().zip(own).for_each(|(r, o)| *r |= o);
        }
    }
    Ok(if known { Outcome::Known(rows) } else { Outcome::Right })
}

fn difference(expected: &bound::Expected, got: &[f32], model: Model) -> Result<(), String> {
    if got.len() != expected.values.len() {
        return Err(format!("{} elements for {}", got.len(), expected.values.len()));
    }
    for (at, ((&wanted, &bound), &got)) in expected.values.iter().zip(&expected.bounds).zip(got).enumerate() {
        let same = wanted == got || wanted.is_nan() && (got.is_nan() || model != Model::Fast);
        let near = (wanted - got).abs() <= bound;
        let beyond = got.is_infinite() && wanted * got.signum() + bound >= 65520.0;
        let end = got.abs() == 65504.0
            && wanted.signum() == got.signum()
            && wanted.abs() - bound < 65520.0
            && wanted.abs() > 65504.0;
        if !(bound.is_infinite() || same || near || beyond || end) {
            return Err(format!("element {at} is {got:?} for {wanted:?}, {bound:.2e} admitted"));
        }
    }
    Ok(())
}

/// Operations and element types of a case: findings of one kind are reported once.
fn kind(case: &Case) -> String {
    let ops: Vec<String> = case
        .net
        .ops
        .iter()
        .map(|op| format!("{} {:?}", op.kind.name(), case.net.value(op.inputs[0]).ty.dtype))
        .collect();
    ops.join(", ")
}

fn again(choices: &[u32]) -> (Option<Case>, Outcome) {
    let case = draw::draw(&mut Source::given(choices.to_vec()));
    let outcome = case.as_ref().map_or(Outcome::None, outcome);
    (case, outcome)
}

#[test]
fn every_operation_drawn_has_a_stated_bound() {
    use anemone_compile::accuracy::{BOUNDS, class};
    use anemone_net::{OpKind, ResizeMode};
    let mut met = std::collections::BTreeSet::new();
    for seed in 0..20_000 {
        let Some(case) = draw::draw(&mut Source::seeded(seed)) else { continue };
        for op in &case.net.ops {
            let name = match op.kind {
                OpKind::Resize { mode: ResizeMode::Nearest, .. } => "resize nearest",
                OpKind::Resize { mode: ResizeMode::Linear, .. } => "resize linear",
                ref kind => kind.name(),
            };
            let function = BOUNDS.iter().any(|row| row.operation == name);
            assert!(class(name).is_some() || function, "{name} has no bound in docs/numerics.md");
            met.insert(name);
        }
    }
    for class in anemone_compile::accuracy::CLASSES {
        for operation in class.operations {
            assert!(met.contains(operation), "{operation} of class {} is never drawn", class.name);
        }
    }
}

#[test]
fn compiled_networks_match_the_evaluator() {
    let (cases, first) = (number("ANE_DIFFERENTIAL_CASES", CASES), number("ANE_DIFFERENTIAL_SEED", 0));
    let next = AtomicU64::new(first);
    let [right, refused, none] = [0, 0, 0].map(AtomicUsize::new);
    let (wrong, reasons) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let hits = Mutex::new(vec![0; KNOWN.len()]);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + cases {
                return;
            }
            let mut source = Source::seeded(seed);
            let Some(case) = draw::draw(&mut source) else {
                none.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            match outcome(&case) {
                Outcome::Right => {
                    right.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Refused(why) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    *reasons.lock().expect("no panic").entry(why.replace("y0", "y").replace("y1", "y")).or_insert(0) +=
                        1;
                }
                Outcome::None => {}
                Outcome::Known(rows) => {
                    let mut hits = hits.lock().expect("no panic");
                    hits.iter_mut().zip(rows).for_each(|(hit, row)| *hit += usize::from(row));
                }
                Outcome::Wrong(why) => {
                    let kind = kind(&case);
                    let mut wrong = wrong.lock().expect("no panic");
                    let entry = wrong.entry(kind).or_insert((0, seed, source.taken().to_vec(), why));
                    entry.0 += 1;
                }
            }
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(work);
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    for (why, n) in reasons.into_inner().expect("no panic").iter().filter(|(_, n)| **n >= 5) {
        println!("refused {n}: {why}");
    }
    let [right, refused, none] = [right, refused, none].map(AtomicUsize::into_inner);
    let total: usize = wrong.values().map(|w| w.0).sum();
    let mut simple: BTreeMap<String, String> = BTreeMap::new();
    let shrunk = number("ANE_DIFFERENTIAL_SHRINK", 12) as usize;
    for (kind, (count, seed, _, why)) in wrong.iter().skip(shrunk) {
        println!("WRONG {kind}: seed {seed}, {count} of its kind: {why}");
    }
    for (count, seed, choices, why) in wrong.values().take(shrunk) {
        let fails = |choices: &[u32]| matches!(again(choices).1, Outcome::Wrong(_));
        let best = source::shrink(choices, TRIALS, fails);
        let (Some(case), Outcome::Wrong(least)) = again(&best) else {
            simple.insert(format!("seed {seed}"), why.clone());
            continue;
        };
        simple.entry(kind(&case)).or_insert(format!("seed {seed}, {count} of its kind: {least}\n{}", case.text()));
    }
    for (kind, finding) in &simple {
        println!("WRONG {kind}: {finding}");
    }
    drop(std::panic::take_hook());
    let hits = hits.into_inner().expect("no panic");
    for (row, hits) in KNOWN.iter().zip(&hits) {
        println!("known {hits}: {:?} {:?}: {}", row.operations, row.when, row.reason);
    }
    println!("{right} right, {total} wrong of {} kinds, {refused} refused, {none} no networks", wrong.len());
    assert!(total == 0, "{total} results are wrong");
    let idle = |(row, hits): &(&known::Known, &usize)| **hits == 0 && !row.when.is_seldom();
    let idle: Vec<_> = KNOWN.iter().zip(&hits).filter(idle).map(|(row, _)| row.reason).collect();
    assert!(cases < CASES || idle.is_empty(), "known to be wrong, and no longer met: take off {idle:?}");
    assert!(right > cases as usize / 3, "too few networks compile to tell anything");
}
