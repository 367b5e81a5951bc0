//! Shared by the golden tests: where the data lies, random inputs, the closing score.
#![allow(dead_code)]

pub mod draw;
pub mod nets;
pub mod oracle;
pub mod suite;

use half::f16;
use std::path::{Path, PathBuf};

/// The folder named by an environment variable, else its default beside the workspace; `None` when neither exists.
pub fn data_dir(variable: &str, default: &str) -> Option<PathBuf> {
    let dir = match std::env::var_os(variable) {
        Some(dir) => PathBuf::from(dir),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(default),
    };
    dir.is_dir().then_some(dir)
}

/// Golden data, or a message that the test is skipped.
pub fn golden_dir() -> Option<PathBuf> {
    let dir = data_dir("ANE_GOLDEN_DIR", "../shared/golden");
    if dir.is_none() {
        println!("skipped: no golden data (set ANE_GOLDEN_DIR)");
    }
    dir
}

/// Sample models, or a message that the test is skipped.
pub fn models_dir() -> Option<PathBuf> {
    let dir = data_dir("ANE_MODELS_DIR", "../shared/models");
    if dir.is_none() {
        println!("skipped: no sample models (set ANE_MODELS_DIR)");
    }
    dir
}

/// Entries of a folder in name order; empty when there is no such folder.
pub fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(dir).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    all.sort();
    all
}

/// File name without extension.
pub fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// A small generator: the same inputs on every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e3779b97f4a7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Uniform in `low..high`, as an fp16 value.
    pub fn uniform(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u32 << 24) as f32;
        f16::from_f32(low + (high - low) * unit).to_f32()
    }
}

/// Collects outcomes, prints one line per case and a closing score, and fails at the end.
#[derive(Default)]
pub struct Score {
    passed: usize,
    skipped: usize,
    failed: Vec<String>,
}

impl Score {
    pub fn case(&mut self, name: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(note) => {
                println!("ok   {name}: {note}");
                self.passed += 1;
            }
            Err(why) => {
                println!("FAIL {name}: {why}");
                self.failed.push(name.to_string());
            }
        }
    }

    /// A case that is known not to be possible, and was refused as it should be.
    pub fn skip(&mut self, name: &str, why: &str) {
        println!("skip {name}: {why}");
        self.skipped += 1;
    }

    pub fn close(self) {
        println!("{} passed, {} failed, {} skipped", self.passed, self.failed.len(), self.skipped);
        assert!(self.failed.is_empty(), "failed: {}", self.failed.join(", "));
        assert!(self.passed > 0, "no case was found");
    }
}

/// Distance in units in the last place of fp16.
pub fn ulps(a: f16, b: f16) -> u32 {
    let order = |x: f16| {
        let bits = x.to_bits() as i32;
        if bits & 0x8000 != 0 { 0x8000 - bits } else { bits }
    };
    order(a).abs_diff(order(b))
}

/// The table states three significant digits; compare at that precision.
pub fn three_digits(x: f64) -> f64 {
    format!("{x:.2e}").parse().unwrap_or(x)
}
