//! Flipped bits and overwritten words: whatever they hit, `ane` ends soon, with exit code 0, 1 or 2.
//!
//! `ANE_CLI_FLIPS` sets how many runs a file gets, for longer hunts than a test run.

use crate::ane;
use crate::common::{Random, entries, golden_dir};
use crate::harness::*;
use rayon::prelude::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn flips(usual: usize) -> usize {
    std::env::var("ANE_CLI_FLIPS").ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Words that counts, sizes and offsets break at.
const EXTREMES: [u32; 6] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_0000, 0xffff_ffff];

/// Runs with damage: one to three flipped bits, or an overwritten word. `run` gets the damaged bytes and a place for its
/// file.
fn hunt(name: &str, bytes: &[u8], count: usize, run: impl Fn(&Scratch, &[u8]) -> Ran + Sync) {
    let seed = name.bytes().fold(17u64, |s, b| s.wrapping_mul(31).wrapping_add(b as u64));
    let slowest = AtomicU64::new(0);
    let outcomes: Vec<(String, Result<[usize; 3], String>)> = (0..count)
        .into_par_iter()
        .map(|i| {
            let mut random = Random::new(seed.wrapping_add(i as u64));
            random.next();
            let mut changed = bytes.to_vec();
            let mut places = Vec::new();
            for _ in 0..i % 4 {
                let (at, bit) = (random.next() as usize % bytes.len(), random.next() as usize % 8);
                changed[at] ^= 1 << bit;
                places.push(format!("{at:#x}.{bit}"));
            }
            if places.is_empty() {
                let at = (random.next() as usize % (bytes.len() - 3)) & !3;
                let word = EXTREMES[random.next() as usize % EXTREMES.len()];
                changed[at..at + 4].copy_from_slice(&word.to_le_bytes());
                places.push(format!("{at:#x} = {word:#x}"));
            }
            let scratch = Scratch::new();
            let start = Instant::now();
            let ran = run(&scratch, &changed);
            slowest.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
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
    let [fine, refused, unreadable] = sums;
    println!(
        "{name}: {count} runs: {fine} fine, {refused} refused (1), {unreadable} unreadable (2), {slowest:?} ms at most"
    );
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
fn compiled(kind: &str, file: &Path, count: usize) {
    let bytes = std::fs::read(file).expect("a compiled file");
    let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    hunt(&format!("{kind} {name}"), &bytes, count, |scratch, changed| {
        let path = scratch.file(&name, changed);
        let dump = ane!("dump", path, "-v");
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
        compiled("own", Path::new(&scratch.path(&format!("forms/digits.{form}"))), flips(60));
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
            let pair = folder.file_name().unwrap_or_default().to_string_lossy();
            compiled(&pair, &file, flips(15));
        }
    }
    for file in entries(&dir.join("h13/programs")).into_iter().filter(|f| f.extension().is_some_and(|e| e == "bin")) {
        compiled("golden", &file, flips(5));
    }
}
