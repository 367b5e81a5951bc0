//! Apple's 2026 compiler and this one on the same MIL text: task words and constants compared, and refusals.
//!
//! `cargo test --release --test oracle_words -- --nocapture` prints the score by family and what differs.

mod common;

use anemone::Choices;
use anemone::model::Model;
use anemone_compile::Options;
use anemone_facts::Field;
use anemone_facts::chips;
use anemone_facts::layout::H13;
use anemone_program::{Run, Task};
use common::*;
use half::f16;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Share of all words that must be Apple's. What remains is listed by the test and in `docs/evidence.md`.
const WORD_SHARE: f64 = 0.97;
/// Share of the cases that must be Apple's in every word.
const CASE_SHARE: f64 = 0.8;

fn hex(value: &Value) -> Option<u32> {
    u32::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn words(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(hex).collect()
}

fn task(value: &Value) -> Option<Task> {
    let runs = value["records"]
        .as_array()?
        .iter()
        .map(|r| Some(Run { addr: hex(&r[0])?, words: words(&r[1])?, ..Run::default() }))
        .collect::<Option<Vec<_>>>()?;
    Some(Task { offset: 0, header: words(&value["header"])?, runs })
}

/// The campaign's weight file: see `docs/evidence.md`, key `h13-oracles`.
fn weight_file(record: &Value) -> Vec<u8> {
    let weights = &record["weights"];
    let payload = weights["payload_bytes"].as_u64().unwrap_or(0);
    let mut file = vec![0; 64];
    let shapes: Vec<usize> = weights["shapes"].as_array().map_or(vec![], |list| {
        list.iter()
            .map(|s| s.as_array().into_iter().flatten().filter_map(Value::as_u64).product::<u64>() as usize)
            .collect()
    });
    match weights["record_offsets"].as_array() {
        // Records of 24 bytes side by side, and a value of its own for each constant.
        Some(records) => {
            file[0] = records.len() as u8;
            file[4] = 2;
            let mut at = (64 + 24 * records.len()).next_multiple_of(64) as u64;
            let mut data = Vec::new();
            for (i, elements) in shapes.iter().enumerate() {
                let size = 2 * *elements as u64;
                file.extend(0xdead_beef_u32.to_le_bytes());
                file.extend(1u32.to_le_bytes());
                file.extend(size.to_le_bytes());
                file.extend(at.to_le_bytes());
                data.extend((0..*elements).flat_map(|_| f16::from_bits(0x3400 + i as u16).to_le_bytes()));
                at += size;
            }
            file.resize(file.len().next_multiple_of(64), 0);
            file.extend(data);
        }
        // One record, its fields packed after the sentinel, and 0.5 throughout.
        None => {
            file[0] = 1;
            file[4] = 2;
            file.extend(0xdead_beef_u32.to_le_bytes());
            file.extend(payload.to_le_bytes());
            file.extend(0x80u64.to_le_bytes());
            file.resize(128, 0);
            file.extend((0..payload / 2).flat_map(|_| f16::from_bits(0x3800).to_le_bytes()));
        }
    }
    file
}

/// Every word of a task, by place: header words, then registers.
fn places(task: &Task) -> BTreeMap<(bool, u32), u32> {
    let header = task.header.iter().enumerate().map(|(i, &w)| ((false, 4 * i as u32), w));
    let registers =
        task.runs.iter().flat_map(|r| r.words.iter().enumerate().map(|(i, &w)| ((true, r.addr + 4 * i as u32), w)));
    header.chain(registers).collect()
}

/// Names of the fields whose values differ between two tasks.
fn fields(ours: &Task, apples: &Task) -> BTreeSet<&'static str> {
    let value = |t: &Task, f: Field| t.get(&H13, f);
    let differs = |f: &Field| value(ours, *f) != value(apples, *f);
    H13.rows.iter().map(|r| r.field).filter(differs).map(|f| f.info().name).collect()
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
    note: String,
}

fn compare(record: &Value, folder: &Path) -> Result<Compared, String> {
    let file = folder.join("model.mil");
    std::fs::write(&file, record["mil"].as_str().ok_or("no MIL")?).map_err(|e| e.to_string())?;
    std::fs::write(folder.join("weights.bin"), weight_file(record)).map_err(|e| e.to_string())?;
    let model = Model::load_with(&file, &Choices::default()).map_err(|e| e.to_string())?;
    let chip = chips::by_name("h13").ok_or("no h13")?;
    let compiled = model.compile(chip, &Options::default(), &mut ()).map_err(|e| e.to_string())?;
    let program = &compiled.program;
    let size = record["constant_section"]["size"].as_u64().ok_or("no size")? as usize;
    let mut kernel = program.kernel.clone();
    kernel.resize(size.max(kernel.len()), 0);
    let digest: String = Sha256::digest(&kernel).iter().map(|b| format!("{b:02x}")).collect();
    if record["constant_section"]["sha256"] != digest.as_str() {
        return Err(format!("other constants, {} bytes for {size}", program.kernel.len()));
    }
    let apples = record["tasks"].as_array().ok_or("no tasks")?;
    let apples: Vec<Task> = apples.iter().map(|t| task(t).ok_or("a task is not words")).collect::<Result<_, _>>()?;
    let ours = program.tasks().map_err(|e| e.to_string())?;
    let (mut words, mut equal) = (0, 0);
    let mut notes = Vec::new();
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
        let names: Vec<&str> = fields(own, theirs).into_iter().collect();
        if own_by_place != theirs_by_place {
            notes.push(format!("task {i}: {}", if names.is_empty() { "runs".into() } else { names.join(" ") }));
        }
    }
    for extra in ours.iter().skip(apples.len()) {
        words += places(extra).len();
    }
    Ok(Compared { words, equal, note: notes.join("; ") })
}

#[test]
fn oracles_compile_to_the_same_words() {
    let Some(dir) = golden_dir() else { return };
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut failed = Vec::new();
    for path in entries(&dir.join("oracles/h13")).into_iter().filter(|p| p.extension().is_some_and(|e| e == "json")) {
        let text = std::fs::read_to_string(&path).expect("the record can be read");
        let record: Value = serde_json::from_str(&text).expect("the record is JSON");
        if record["status"] != "accepted" {
            continue;
        }
        let name = stem(&path);
        let folder = tempfile::tempdir().expect("a folder");
        let family = families.entry(record["family"].as_str().unwrap_or("?").to_string()).or_default();
        family.cases += 1;
        match compare(&record, folder.path()) {
            Ok(compared) => {
                family.words += compared.words;
                family.equal_words += compared.equal;
                family.equal_cases += usize::from(compared.words == compared.equal);
                if compared.words != compared.equal {
                    println!("{name}: {} of {}: {}", compared.equal, compared.words, compared.note);
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
