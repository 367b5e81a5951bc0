//! Apple's 2026 compiler and this one on the same MIL text: task words and constants compared, and refusals.
//!
//! `cargo test --release --test oracle_words -- --nocapture` prints the score by family and what differs.

mod common;

use anemone::Choices;
use anemone::model::Model;
use anemone_compile::{Compat, Options};
use anemone_facts::Field;
use anemone_facts::layout::H13;
use anemone_facts::silicon;
use anemone_program::Task;
use common::*;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Share of all words that must be Apple's. What remains is listed by the test and in `docs/evidence.md`.
const WORD_SHARE: f64 = 0.99;
/// Share of the cases that must be Apple's in every word.
const CASE_SHARE: f64 = 0.95;

/// Every word of a task, by place: header words, then registers.
fn places(task: &Task) -> BTreeMap<(bool, u32), u32> {
    let header = task.header.iter().enumerate().map(|(i, &w)| ((false, 4 * i as u32), w));
    let registers =
        task.runs.iter().flat_map(|r| r.words.iter().enumerate().map(|(i, &w)| ((true, r.addr + 4 * i as u32), w)));
    header.chain(registers).collect()
}

/// The fields whose values differ between two tasks, as `Name ours/theirs`.
fn fields(ours: &Task, apples: &Task) -> BTreeSet<String> {
    let value = |t: &Task, f: Field| t.get(&H13, f);
    let text = |v: Option<u32>| v.map_or("none".into(), |v| format!("{v:#x}"));
    let differing = H13.rows.iter().map(|r| r.field).filter(|f| value(ours, *f) != value(apples, *f));
    differing.map(|f| format!("{} {}/{}", f.info().name, text(value(ours, f)), text(value(apples, f)))).collect()
}

#[derive(Default)]
struct Family {
    words: usize,
    equal_words: usize,
    cases: usize,
    equal_cases: usize,
}

struct Compared {
    words: usize,
    equal: usize,
    /// True if the constants are Apple's.
    constants: bool,
    note: String,
}

fn compare(record: &Value, folder: &Path) -> Result<Compared, String> {
    let file = oracle::write_model(record, folder)?;
    let model = Model::load_with(&file, &Choices::default()).map_err(|e| e.to_string())?;
    let chip = silicon::by_name("h13").ok_or("no h13")?;
    let options = Options { compat: Compat::Zin9509, ..Options::default() };
    let compiled = model.compile(chip, &options, &mut ()).map_err(|e| e.to_string())?;
    let program = &compiled.program;
    let size = record["constant_section"]["size"].as_u64().ok_or("no size")? as usize;
    let mut kernel = program.kernel.to_vec();
    kernel.resize(size.max(kernel.len()), 0);
    let digest: String = Sha256::digest(&kernel).iter().map(|b| format!("{b:02x}")).collect();
    let constants = record["constant_section"]["sha256"] == digest.as_str();
    let apples = oracle::tasks(record).ok_or("no tasks")??;
    let ours = program.tasks().map_err(|e| e.to_string())?;
    let (mut words, mut equal) = (0, 0);
    let mut notes = Vec::new();
    if !constants {
        notes.push(format!("other constants, {} bytes for {size}", program.kernel.len()));
    }
    if ours.len() != apples.len() {
        notes.push(format!("{} tasks for {}", ours.len(), apples.len()));
    }
    for (i, theirs) in apples.iter().enumerate() {
        let theirs_by_place = places(theirs);
        words += theirs_by_place.len();
        let Some(own) = ours.get(i) else { continue };
        let own_by_place = places(own);
        equal += theirs_by_place.iter().filter(|(place, word)| own_by_place.get(place) == Some(word)).count();
        // Words that Apple's task does not have count as wrong ones.
        words += own_by_place.keys().filter(|place| !theirs_by_place.contains_key(place)).count();
        let names: Vec<String> = fields(own, theirs).into_iter().collect();
        if own_by_place != theirs_by_place {
            notes.push(format!("task {i}: {}", if names.is_empty() { "runs".into() } else { names.join(", ") }));
        }
    }
    for extra in ours.iter().skip(apples.len()) {
        words += places(extra).len();
    }
    Ok(Compared { words, equal, constants, note: notes.join("; ") })
}

#[test]
fn oracles_compile_to_the_same_words() {
    let Some(dir) = golden_dir() else { return };
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut failed = Vec::new();
    for (name, record) in oracle::records(&dir) {
        if record["status"] != "accepted" {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let family = families.entry(record["family"].as_str().unwrap_or("?").to_string()).or_default();
        family.cases += 1;
        match compare(&record, folder.path()) {
            Ok(compared) => {
                family.words += compared.words;
                family.equal_words += compared.equal;
                let equal = compared.words == compared.equal && compared.constants;
                family.equal_cases += usize::from(equal);
                if !equal {
                    println!("{name}: {} of {}: {}", compared.equal, compared.words, compared.note);
                }
                if !compared.constants {
                    failed.push(name);
                }
            }
            Err(why) => {
                println!("FAIL {name}: {why}");
                failed.push(name);
            }
        }
    }
    if families.is_empty() {
        return println!("skipped: no oracle lies there");
    }
    println!("{:20} {:>15} {:>9}", "family", "words", "cases");
    let mut all = Family::default();
    for (name, f) in &families {
        println!("{name:20} {:>7}/{:>7} {:>4}/{:>4}", f.equal_words, f.words, f.equal_cases, f.cases);
        all.words += f.words;
        all.equal_words += f.equal_words;
        all.cases += f.cases;
        all.equal_cases += f.equal_cases;
    }
    println!("{:20} {:>7}/{:>7} {:>4}/{:>4}", "all", all.equal_words, all.words, all.equal_cases, all.cases);
    assert!(failed.is_empty(), "failed: {}", failed.join(", "));
    assert!(all.equal_words as f64 >= WORD_SHARE * all.words as f64, "fewer words than known are Apple's");
    assert!(all.equal_cases as f64 >= CASE_SHARE * all.cases as f64, "fewer cases than known are Apple's");
}
