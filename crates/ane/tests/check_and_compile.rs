//! Prediction and compiler do not drift apart: where `ane check` says that all of a program runs on an M1's engine, it
//! compiles for one, and where it says no, it does not, but for the rewrites that check tells of itself.

mod common;

use anemone::check::{self, Subject};
use anemone::{Choices, Model};
use anemone_compile::Options;
use anemone_compile::check::Route;
use anemone_compile::check::own::REWRITES;
use anemone_facts::chips;
use common::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What the two say: that it runs, and that it compiles. Rewrites that the first leans on are put into `used`.
fn both(model: &Path, used: &mut BTreeSet<&'static str>) -> (Result<(), String>, Result<(), String>) {
    let m1 = &chips::CHIPS[0];
    let choices = Choices::default();
    let predicted = match check::load(model, &choices) {
        Ok(Subject::Program(outline, _)) => {
            let placement = anemone_compile::check::check(&outline, m1, Route::Direct);
            used.extend(placement.verdicts.iter().filter_map(|v| v.own));
            match placement.verdicts.iter().filter(|v| v.own.is_none()).find_map(|v| v.refusal.as_ref()) {
                None => Ok(()),
                Some(refusal) => Err(format!("{} {}", refusal.code, refusal.message)),
            }
        }
        Ok(Subject::Container(_)) => Err("a container".to_string()),
        Err(e) => Err(e.to_string()),
    };
    let compiled = Model::load_with(model, &choices)
        .and_then(|m| m.compile(m1, &Options::default(), &mut ()))
        .map(|_| ())
        .map_err(|e| e.to_string());
    (predicted, compiled)
}

/// The accepted programs for an M1, each with its weight file beside it.
fn oracles(golden: &Path, folder: &Path) -> Vec<(String, std::path::PathBuf)> {
    let accepted = oracle::records(golden).into_iter().filter(|(_, record)| record["status"] == "accepted");
    accepted
        .map(|(name, record)| {
            let own = folder.join(&name);
            std::fs::create_dir_all(&own).expect("a folder");
            let model = oracle::write_model(&record, &own).expect("a text and its weights");
            (name, model)
        })
        .collect()
}

#[test]
fn what_is_predicted_compiles() {
    let scratch = tempfile::tempdir().expect("a folder");
    let mut all = Vec::new();
    if let Some(golden) = golden_dir() {
        all.extend(oracles(&golden, scratch.path()));
    }
    for folder in models_dir().map(|dir| entries(&dir)).unwrap_or_default() {
        let model = folder.join("model.mlpackage");
        if model.is_dir() {
            all.push((stem(&folder), model));
        }
    }
    all.push(("digits".into(), Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/digits/digits.mlpackage")));
    let (mut differ, mut used) = (BTreeMap::new(), BTreeSet::new());
    for (name, model) in &all {
        let (predicted, compiled) = both(model, &mut used);
        if predicted.is_ok() != compiled.is_ok() {
            let say = |r: Result<(), String>| r.err().unwrap_or_else(|| "yes".to_string());
            differ.insert(name.as_str(), format!("check: {}; compile: {}", say(predicted), say(compiled)));
        }
    }
    println!("{} programs, {} differ, with {used:?}", all.len(), differ.len());
    assert!(differ.is_empty(), "{differ:#?}");
    if models_dir().is_some() {
        let idle: Vec<_> = REWRITES.iter().filter(|r| !used.contains(r.into)).collect();
        assert!(idle.is_empty(), "rewrites that no program needs: {idle:?}");
    }
}
