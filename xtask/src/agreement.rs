//! Agreement of the placement verdicts with what is recorded: the operation matrix, the segmenter's answers, compiles for
//! named targets, and the accepted and rejected programs of the oracles. Every disagreement is listed.

mod cases;
mod chains;

use crate::Outcome;
use anemone_compile::check::{Backend, Place, Placement, Route, check};
use anemone_facts::chips::Chip;
use anemone_facts::silicon;
use anemone_net::outline::Outline;
use anemone_net::read;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Least share of agreement in every class.
const LEAST: f64 = 0.95;

/// Score of one class of records.
#[derive(Default)]
struct Class {
    agree: usize,
    differ: Vec<String>,
    /// Records that hold nothing a verdict can be compared with.
    apart: usize,
}

#[derive(Default)]
struct Score(BTreeMap<&'static str, Class>);

impl Score {
    fn note(&mut self, class: &'static str, agrees: bool, what: impl FnOnce() -> String) {
        let class = self.0.entry(class).or_default();
        if agrees { class.agree += 1 } else { class.differ.push(what()) }
    }

    fn apart(&mut self, class: &'static str) {
        self.0.entry(class).or_default().apart += 1;
    }
}

/// Compares with the folder named by `ANE_GOLDEN_DIR`, else `../shared/golden`, and the matrix beside it.
pub fn run(arguments: &[String]) -> Outcome {
    let quiet = arguments.iter().any(|a| a == "--quiet");
    let golden = std::env::var_os("ANE_GOLDEN_DIR").map_or(PathBuf::from("../shared/golden"), PathBuf::from);
    if !golden.is_dir() {
        return Ok("skipped: no golden data (set ANE_GOLDEN_DIR)".to_string());
    }
    let mut score = Score::default();
    let read = |path: &Path| -> Option<Value> { serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok() };
    if let Some(matrix) = read(&golden.join("../spec/opmatrix.json")) {
        operations(&matrix, &mut score);
    }
    if let Some(placement) = read(&golden.join("mil/placement.json")) {
        recorded(&placement, &golden.join("mil"), &mut score);
    }
    for folder in sorted(&golden.join("oracles")) {
        for file in sorted(&folder) {
            if let Some(case) = read(&file) {
                oracle(&case, &mut score);
            }
        }
    }
    let mut low = Vec::new();
    for (name, class) in &score.0 {
        let total = class.agree + class.differ.len();
        let share = class.agree as f64 / total.max(1) as f64;
        println!(
            "{name:28} {:5} of {total:5} agree, {:5.1} %, {} not comparable",
            class.agree,
            100.0 * share,
            class.apart
        );
        if !quiet {
            class.differ.iter().for_each(|line| println!("    {line}"));
        }
        if total > 0 && share < LEAST {
            low.push(format!("{name}: {:.1} % agree, {:.0} % wanted", 100.0 * share, 100.0 * LEAST));
        }
    }
    crate::conclude(low, format!("{} classes", score.0.len()))
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}

/// The matrix: a neutral form of every operation on a chip of each column.
fn operations(matrix: &Value, score: &mut Score) {
    for (name, row) in matrix["ops"].as_object().into_iter().flatten() {
        let Some(outline) = cases::neutral(name) else {
            score.apart("operation matrix");
            continue;
        };
        for (column, chip) in [("h13", "m1"), ("h14", "m2"), ("h15", "m3"), ("h16_h17s", "m4"), ("h16_h17s", "m5")] {
            let Some(chip) = silicon::by_name(chip) else { continue };
            let word = row[column].as_str().unwrap_or_default();
            let placement = check(&outline, chip, Route::Direct);
            let Some(verdict) = placement.verdicts.last() else { continue };
            let agrees = match word {
                "native" => matches!(verdict.place, Place::Native | Place::Decomposed | Place::Cut | Place::Folded),
                "bridge" => verdict.place != Place::Native,
                _ => !verdict.place.on_engine(),
            };
            score.note("operation matrix", agrees, || {
                let why = verdict.refusal.as_ref().map_or(String::new(), |r| format!(": {} {}", r.code, r.message));
                format!("{name} on {}: the matrix says {word}, the verdict {}{why}", chip.name(), verdict.place.name())
            });
        }
    }
}

fn chip_of(target: &str) -> Option<&'static Chip> {
    silicon::by_name(target)
}

/// The records of a study of the M4 and the M6.
fn recorded(placement: &Value, folder: &Path, score: &mut Score) {
    let definitions = &placement["case_definitions"];
    let records: Vec<&Value> = placement["records"].as_array().into_iter().flatten().collect();
    // The segmenter's records of one program stand together, in order.
    let mut at = 0;
    while at < records.len() {
        let record = records[at];
        let kind = record["kind"].as_str().unwrap_or_default();
        if kind == "e5_segmenter_op" {
            let same = |r: &&&Value| {
                r["kind"] == record["kind"] && r["case"] == record["case"] && r["context"] == record["context"]
            };
            let program: Vec<&Value> = records[at..].iter().take_while(same).copied().collect();
            segmenter(&program, folder, score);
            at += program.len();
            continue;
        }
        match kind {
            "mlcomputeplan_op" => plan(record, at.checked_sub(1).map(|before| records[before]), score),
            "ane_compile" => compile(record, definitions, score),
            "aot_target_cost" => tap(record, score),
            "mlcomputeplan_context" => context(record, score),
            _ => score.apart("whole networks"),
        }
        at += 1;
    }
}

/// One program as the segmenter saw it: what is offered to the engine, why not, and what is chosen.
fn segmenter(program: &[&Value], folder: &Path, score: &mut Score) {
    let part = |key: &str| program[0][key].as_str().unwrap_or_default();
    let file = folder.join(format!("{}__{}.mil", part("context"), part("case")));
    let Some(outline) = std::fs::read(&file).ok().and_then(|text| outline(&text)) else {
        score.apart("segmenter: offered");
        return;
    };
    for target in ["h16", "h18g"] {
        let Some(chip) = chip_of(target) else { continue };
        let placement = check(&outline, chip, Route::Framework);
        let named = |name: &str| outline.ops.iter().position(|o| o.name == name);
        for record in program.iter().filter(|r| r["structural"] == false) {
            let name = record["outputs"][0]["name"].as_str().unwrap_or_default();
            let Some(op) = named(name) else {
                score.apart("segmenter: offered");
                continue;
            };
            let verdict = &placement.verdicts[op];
            let offered = record["ane_supported"] == true;
            let place = || format!("{} {} on {target}", record["case"], record["op"]);
            score.note("segmenter: offered", verdict.place.on_engine() == offered, || {
                format!("{}: recorded {offered}, verdict {}", place(), verdict.place.name())
            });
            if let Some(text) = record["messages"]["ane"].as_str() {
                let ours = verdict.refusal.as_ref().and_then(|r| r.apple.clone()).unwrap_or_default();
                score.note("segmenter: texts", ours == text, || {
                    format!("{}: recorded `{text}`, ours `{ours}`", place())
                });
            }
            let chosen = record["selected"] == "ane";
            let ours = placement.choice.as_ref().is_some_and(|c| c.backends[op] == Some(Backend::Ane));
            score.note("segmenter: chosen", ours == chosen, || {
                format!(
                    "{}: recorded {}, ours {}",
                    place(),
                    record["selected"],
                    if ours { "ane" } else { "a CPU path" }
                )
            });
            estimates(record, &outline, op, chip, score, &place());
        }
    }
}

/// Estimates within a quarter of the recorded ones.
fn estimates(record: &Value, outline: &Outline, op: usize, chip: &Chip, score: &mut Score, place: &str) {
    let ours = anemone_compile::check::estimate::estimate(&outline.ops[op], chip);
    for (backend, ours) in Backend::ALL.iter().zip(ours) {
        let Some(theirs) = record["est_ms"][backend.name()].as_f64() else { continue };
        let near = (ours - theirs).abs() <= 0.25 * theirs.max(1e-6);
        score.note("segmenter: estimates", near || theirs == 0.0, || {
            format!("{place}, {}: recorded {theirs:.6} ms, ours {ours:.6} ms", backend.name())
        });
    }
}

/// Type that a cast before this one made: the converter takes a cast of a result in two steps.
fn step<'a>(record: &Value, before: Option<&'a Value>) -> Option<&'a str> {
    let before = before.filter(|b| b["case"] == record["case"] && b["compute_units"] == record["compute_units"])?;
    let made = before["op_name"].as_str()?.strip_prefix(record["op_name"].as_str()?)?;
    made.strip_prefix("__pre__output__")?.split("__").next()
}

/// Definition of a cast that the converter put before an operand: its name says which, and to what type.
fn inserted(record: &Value) -> Option<Value> {
    let (operand, to) = record["op_name"].as_str()?.strip_prefix('x')?.split_once("_to_")?;
    let input = record["case_def"]["inputs"].get(operand.parse::<usize>().ok()?)?;
    Some(serde_json::json!({ "op": "cast", "inputs": [input], "params": { "to": to } }))
}

/// The framework's answer for the operation of a case; `before` is the record before it.
fn plan(record: &Value, before: Option<&Value>, score: &mut Score) {
    let mut definition = record["case_def"].clone();
    if let Some(to) = step(record, before) {
        // The case is written as its first step; this record is of the second, from that type.
        definition["inputs"][0]["dtype"] = definition["params"]["to"].take();
        definition["params"]["to"] = to.into();
    }
    if let Some(inserted) = inserted(record) {
        definition = inserted;
    }
    let definition = &definition;
    let (op, asked) = (record["op"].as_str().unwrap_or_default(), definition["op"].as_str().unwrap_or_default());
    let plain = op.rsplit('.').next().unwrap_or(op);
    let outline = cases::of_definition(definition).filter(|_| plain == asked && record["supported"].is_array());
    let (Some(outline), Some(chip)) = (outline, chip_of("h16")) else {
        score.apart("plan: offered");
        return;
    };
    let placement = check(&outline, chip, Route::Framework);
    let last = placement.verdicts.len() - 1;
    let offered = record["ane_supported"] == true;
    let verdict = &placement.verdicts[last];
    score.note("plan: offered", verdict.place.on_engine() == offered, || {
        let why = verdict.refusal.as_ref().map_or(String::new(), |r| format!(": {}", r.message));
        format!(
            "{} ({}): recorded {offered}, verdict {}{why}",
            record["case"],
            record["compute_units"],
            verdict.place.name()
        )
    });
    if record["compute_units"] == "CPU_AND_NE" && offered && verdict.place.on_engine() {
        let chosen = record["preferred"] == "ANE";
        let ours = placement.on_engine(last);
        score.note("plan: chosen", ours == chosen, || {
            format!("{}: recorded {}, ours {ours}", record["case"], record["preferred"])
        });
    }
}

/// The framework's choice for a case between layers of the engine.
fn context(record: &Value, score: &mut Score) {
    let outcome = record["outcome"].as_str().unwrap_or_default();
    // A network that is cut says nothing of the operation's own side.
    let wanted = match outcome {
        "all_ane" | "ane_last_relu_cpu" => Some(true),
        "all_cpu" => Some(false),
        _ => None,
    };
    let outline = cases::in_context(&record["case_def"]);
    let (Some(wanted), Some((outline, at)), Some(chip)) = (wanted, outline, chip_of("h16")) else {
        score.apart("whole networks");
        return;
    };
    let placement = check(&outline, chip, Route::Framework);
    let ours = placement.choice.as_ref().is_some_and(|c| c.backends[at] == Some(Backend::Ane));
    score.note("whole networks", ours == wanted, || {
        format!(
            "{}: recorded {outcome}, ours {}{}",
            record["case"],
            if ours { "ane" } else { "a CPU path" },
            first_reason(&placement)
        )
    });
}

/// Scores the engine compiler's result for a case on a target.
fn compile(record: &Value, definitions: &Value, score: &mut Score) {
    let case = record["case"].as_str().unwrap_or_default();
    let definition = if record["case_def"].is_object() { &record["case_def"] } else { &definitions[case] };
    let named = || {
        let single = case.split_once('_').filter(|(kind, _)| matches!(*kind, "act" | "elt"));
        single.and_then(|(_, op)| cases::neutral(op)).or_else(|| outline(chains::of_name(case)?.as_bytes()))
    };
    let outline = if definition.is_object() { cases::of_definition(definition) } else { named() };
    let chip = record["target"].as_str().and_then(chip_of);
    let (Some(outline), Some(chip), Some(ok)) = (outline, chip, record["ok"].as_bool()) else {
        score.apart("compiles");
        return;
    };
    let placement = check(&outline, chip, Route::Direct);
    let ours = whole(&placement);
    score.note("compiles", ours == ok, || {
        let why = first_reason(&placement);
        format!("{case} for {}: recorded {ok}, ours {ours}{why}", chip.target)
    });
}

/// A cost line for a target: whether the engine has one.
fn tap(record: &Value, score: &mut Score) {
    let outline = cases::of_definition(&record["case_def"]);
    let target = record["target"].as_str().unwrap_or_default();
    let (Some(outline), Some(chip)) = (outline, chip_of(target)) else {
        score.apart("taps: offered");
        return;
    };
    let placement = check(&outline, chip, Route::Framework);
    let offered = record["ane_supported"] == true;
    let ours = placement.verdicts.last().is_some_and(|v| v.place.on_engine());
    score.note("taps: offered", ours == offered, || {
        format!("{} for {target}: recorded {offered}, ours {ours}{}", record["case"], first_reason(&placement))
    });
}

/// Outline of a MIL text.
fn outline(text: &[u8]) -> Option<Outline> {
    read::outline_mil(text, &read::Options::default()).ok()
}

fn whole(placement: &Placement) -> bool {
    placement.off() == 0
}

fn first_reason(placement: &Placement) -> String {
    let refusal = placement.verdicts.iter().find_map(|v| v.refusal.as_ref());
    refusal.map_or(String::new(), |r| format!(": {} {}", r.code, r.message))
}

/// A program that Apple's compiler took, or did not.
fn oracle(case: &Value, score: &mut Score) {
    let name = case["case"].as_str().unwrap_or_default();
    let outline = case["mil"].as_str().and_then(|text| outline(text.as_bytes()));
    let chip = case["target"].as_str().and_then(chip_of);
    let (Some(outline), Some(chip)) = (outline, chip) else {
        score.apart("oracles: accepted");
        return;
    };
    let accepted = case["status"] == "accepted";
    let placement = check(&outline, chip, Route::Direct);
    let class = if accepted { "oracles: accepted" } else { "oracles: rejected" };
    score.note(class, whole(&placement) == accepted, || {
        format!("{name} for {}{}", chip.target, first_reason(&placement))
    });
}
