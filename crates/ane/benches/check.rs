//! Time from a package on disk to the table of `ane check` for ten chips, for each sample package: below a second.

use anemone::check::{self, Subject, table};
use anemone_check::Route;
use anemone_check::lint::Assumptions;
use anemone_facts::silicon::by_name;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const CHIPS: &[&str] = &["m1", "m2", "m3", "m4", "m5", "a14", "a15", "a16", "a17-pro", "a18"];

fn once(package: &Path) -> Duration {
    let start = Instant::now();
    let chips: Vec<_> = CHIPS.iter().filter_map(|c| Some((c.to_string(), by_name(c)?))).collect();
    let Ok(Subject::Program(outline, _)) = check::load(package, &Default::default()) else {
        panic!("{} is read", package.display())
    };
    let report = check::report(package, *outline, &chips, Route::Direct, &Assumptions::default());
    std::hint::black_box(table::render(&report, table::Style::default()));
    start.elapsed()
}

/// Packages of the folder that `ANE_MODELS_DIR` names, else the example.
fn packages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("ANE_MODELS_DIR").map_or(root.join("../shared/models"), PathBuf::from);
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path().join("model.mlpackage")).collect();
    all.retain(|p| p.is_dir());
    all.sort();
    all.push(root.join("examples/digits/digits.mlpackage"));
    all
}

fn main() {
    for package in packages() {
        let mut times: Vec<Duration> = (0..5).map(|_| once(&package)).collect();
        times.sort();
        println!("{:8.2} ms  {}", times[2].as_secs_f64() * 1e3, package.display());
    }
}
