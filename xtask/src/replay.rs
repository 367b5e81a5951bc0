//! Replay: all outputs of an `ane` binary for a fixed set of inputs, recorded at one commit and compared at another.
//!
//! The inputs are the sample packages (`ANE_MODELS_DIR`), the golden programs and netplists (`ANE_GOLDEN_DIR`) and random
//! networks that the first recording writes to its folder, so that every other binary reads the same files. Recorded
//! are exit codes, every emitted file, listings, JSON reports and all results, in each arithmetic. Messages and names of
//! stages are recorded too; a comparison lists their changes for review, and does not fail on them.
//!
//! The results of `ane run` come from traced runs, task by task; `--via inprocess` runs the plan as users do. If the
//! binary is the one beside this one, the engine linked into it also runs every program in all number models.

mod cases;
mod engine;
mod networks;
mod process;
mod record;

use crate::Outcome;
use cases::Case;
use process::Binary;
use record::{Difference, Record};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const USAGE: &str =
    "usage: cargo xtask replay (--record DIR | --compare DIR) [--ane BINARY] [--only SUBSTRING] [--every N]";

/// Arguments of the command line.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    folder: PathBuf,
    compare: bool,
    /// Binary to run, if it is not the one of this build.
    ane: Option<PathBuf>,
    /// Substring of the names of cases to run.
    only: String,
    /// Runs one in so many of these cases.
    every: usize,
}

/// Records or compares.
pub fn run(arguments: &[String]) -> Outcome {
    let asked = parse(arguments).map_err(|e| vec![e, USAGE.into()])?;
    let work = || -> Result<Outcome, String> {
        let ane = Binary::new(asked.ane.as_deref())?;
        let networks = asked.folder.join("networks");
        if !networks.exists() {
            if asked.compare {
                return Err(format!("{} holds no recording", asked.folder.display()));
            }
            networks::write(&networks)?;
        }
        let mut cases = cases::all(&networks)?;
        cases.retain(|c| c.name.contains(&asked.only));
        let cases: Vec<Case> = cases.into_iter().step_by(asked.every).collect();
        if cases.is_empty() {
            return Err(format!("no case has `{}` in its name", asked.only));
        }
        let records = records(&cases, &ane)?;
        if asked.compare { compare(&asked.folder, &records) } else { store(&asked.folder, &records) }
    };
    work().map_err(|e| vec![e])?
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let (mut asked, mut given) = (Asked { every: 1, ..Asked::default() }, 0);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word}: a value is missing"))?;
        match word.as_str() {
            "--record" | "--compare" => {
                given += 1;
                (asked.folder, asked.compare) = (value.into(), word == "--compare");
            }
            "--ane" => asked.ane = Some(value.into()),
            "--only" => asked.only.clone_from(value),
            "--every" => match value.parse() {
                Ok(every) if every > 0 => asked.every = every,
                _ => return Err(format!("--every {value}: a number from 1 on is wanted")),
            },
            _ => return Err(format!("{word}: unknown option")),
        }
    }
    if given == 1 { Ok(asked) } else { Err("give --record or --compare".into()) }
}

/// Runs all cases, with one thread per processor.
fn records(cases: &[Case], ane: &Binary) -> Result<Vec<Record>, String> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let work = || -> Result<(), String> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let record = case.run(ane).map_err(|e| format!("{}: {e}", case.name))?;
            done.lock().map_err(|e| e.to_string())?.push(record);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked".to_string())?)
    })?;
    let mut records = done.into_inner().map_err(|e| e.to_string())?;
    records.sort_by(|a, b| a.case.cmp(&b.case));
    Ok(records)
}

fn store(folder: &Path, records: &[Record]) -> Result<Outcome, String> {
    records.iter().try_for_each(|r| r.write(&folder.join("records")))?;
    let items: usize = records.iter().map(|r| r.items.len()).sum();
    Ok(Ok(format!("{} cases recorded, {items} items", records.len())))
}

/// Compares with a recording. Differences of facts are findings; those of wording are printed.
fn compare(folder: &Path, records: &[Record]) -> Result<Outcome, String> {
    let (mut findings, mut wording, mut items) = (Vec::new(), record::Wording::default(), 0);
    for now in records {
        let Some(before) = Record::read(&folder.join("records"), &now.case)? else {
            findings.push(format!("{}: not recorded", now.case));
            continue;
        };
        items += before.items.len();
        for difference in record::differences(&before, now) {
            match difference {
                Difference::Fact(text) => findings.push(format!("{}: {text}", now.case)),
                Difference::Wording(changed) => wording.add(&now.case, changed),
            }
        }
    }
    print!("{wording}");
    let closing =
        format!("{} cases, {items} items equal, {} changes of wording to review", records.len(), wording.len());
    Ok(crate::conclude(findings, closing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let asked = parse(&words("--compare d --ane old/ane --only relu --every 5")).expect("fine");
        let wanted =
            Asked { folder: "d".into(), compare: true, ane: Some("old/ane".into()), only: "relu".into(), every: 5 };
        assert_eq!(asked, wanted);
        for wrong in ["--record", "--record a --compare b", "--ane x", "--what x", "--record a --every 0"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
