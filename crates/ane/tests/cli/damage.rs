//! Flipped bits: whatever they hit, `ane` ends soon, with exit code 0, 1 or 2.
//!
//! `ANE_CLI_FLIPS` sets how many flips a file gets, for longer hunts than a test run.

use crate::ane;
use crate::common::{Random, entries, golden_dir};
use crate::harness::*;
use rayon::prelude::*;
use std::path::Path;

fn flips(usual: usize) -> usize {
    std::env::var("ANE_CLI_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Runs with flipped bits, one to four of them a time; `run` gets the changed bytes and a place for its file.
fn hunt(name: &str, bytes: &[u8], count: usize, run: impl Fn(&Scratch, &[u8]) -> Ran + Sync) {
    let seed = name.bytes().fold(17u64, |s, b| s.wrapping_mul(31).wrapping_add(b as u64));
    let outcomes: Vec<(String, Result<[usize; 3], String>)> = (0..count)
        .into_par_iter()
        .map(|i| {
            let mut random = Random::new(seed.wrapping_add(i as u64));
            random.next();
            let mut changed = bytes.to_vec();
            let mut places = Vec::new();
            for _ in 0..1 + i % 4 {
                let (at, bit) = (random.next() as usize % bytes.len(), random.next() as usize % 8);
                changed[at] ^= 1 << bit;
                places.push(format!("{at:#x}.{bit}"));
            }
            let scratch = Scratch::new();
            let ran = run(&scratch, &changed);
            let outcome = match ran.code {
                Some(0) => Ok([1, 0, 0]),
                Some(code @ (1 | 2)) if ran.err.contains(&format!("error[ANE{code}")) => {
                    scratch.nothing_written();
                    Ok([0, (code == 1) as usize, (code == 2) as usize])
                }
                _ => Err(format!("{ran:?}")),
            };
            (places.join(" "), outcome)
        })
        .collect();
    let bad: Vec<String> =
        outcomes.iter().filter_map(|(places, o)| Some(format!("{places}: {}", o.as_ref().err()?))).collect();
    assert!(bad.is_empty(), "{name}: {} of {count} runs ended badly:\n{}", bad.len(), bad.join("\n"));
    let sums = outcomes.iter().filter_map(|(_, o)| o.as_ref().ok()).fold([0; 3], |s, o| [0, 1, 2].map(|k| s[k] + o[k]));
    println!("{name}: {count} runs: {} fine, {} refused (1), {} unreadable (2)", sums[0], sums[1], sums[2]);
}

fn package(file: &'static str, count: usize) {
    let bytes = std::fs::read(example("digits.mlpackage").join(file)).expect("a file of the package");
    hunt(file, &bytes, count, |scratch, changed| {
        let package = scratch.digits();
        package.change(file, |bytes| *bytes = changed.to_vec());
        ane!("run", package, "-q", "-o", scratch.out("y.npy"))
    });
}

#[test]
fn package_files() {
    package(Package::MODEL, flips(160));
    package(Package::WEIGHTS, flips(40));
    package(Package::MANIFEST, flips(40));
}

#[test]
fn netplists() {
    let scratch = Scratch::new();
    let (conv, weights) = scratch.conv();
    let weights = std::fs::read(weights).expect("weights");
    hunt("conv.plist", &std::fs::read(conv).expect("a netplist"), flips(80), |scratch, changed| {
        scratch.file("conv.weights", &weights);
        let path = scratch.file("conv.plist", changed);
        ane!("compile", path, "-q", "-o", scratch.out("x.hwx"))
    });
}

#[test]
fn arrays() {
    let scratch = Scratch::new();
    let relu = scratch.relu();
    hunt("x.npy", &zeros(&[1, 3, 1, 16]), flips(60), |scratch, changed| {
        let path = scratch.file("x.npy", changed);
        ane!("run", relu, "-q", "-i", path, "-o", scratch.out("y.npy"))
    });
}

/// Executes and explains a compiled file with flipped bits.
fn compiled(file: &Path, count: usize) {
    let bytes = std::fs::read(file).expect("a compiled file");
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    hunt(&file.display().to_string(), &bytes, count, |scratch, changed| {
        let path = scratch.file(&name, changed);
        let dump = ane!("dump", path);
        if dump.code != Some(0) {
            return dump;
        }
        ane!("run", path, "-q", "-o", scratch.out("y.npy"))
    });
}

#[test]
fn own_compiled_files() {
    let scratch = Scratch::new();
    let [digits, ..] = digits();
    ane!("compile", digits, "-o", scratch.path("forms/"), "--emit", "hwx,bin,anec").fine();
    for form in ["hwx", "bin", "anec"] {
        compiled(Path::new(&scratch.path(&format!("forms/digits.{form}"))), flips(60));
    }
}

#[test]
fn listings() {
    let scratch = Scratch::new();
    let (conv, program) = (scratch.conv().0, scratch.path("conv.hwx"));
    ane!("compile", conv, "-o", program).fine();
    let listing = ane!("dump", program, "--asm").fine().out;
    hunt("conv.ane-asm", listing.as_bytes(), flips(60), |scratch, changed| {
        let path = scratch.file("conv.ane-asm", changed);
        ane!("asm", path, "-q", "-o", scratch.out("x.hwx"))
    });
}

#[test]
fn golden_files() {
    let Some(dir) = golden_dir() else { return };
    for folder in entries(&dir.join("h13/pairs")) {
        let file = folder.join("model.hwx");
        if file.is_file() {
            compiled(&file, flips(15));
        }
    }
    for file in entries(&dir.join("h13/programs")).into_iter().filter(|f| f.extension().is_some_and(|e| e == "bin")) {
        compiled(&file, flips(5));
    }
}
