//! Size of the project: files and lines by crate, rows, operations, passes; with `--llvm`, lines of LLVM IR by function.

mod llvm;

use crate::tokens::{lex, variants};
use crate::{Outcome, evidence, layers, repo};
use anemone_facts::{Field, chips};

/// Files longer than this are listed, for review.
const LONG: usize = 500;
/// Crates whose LLVM IR `--llvm` counts by default: their generic code dominates build time.
const GENERIC: [&str; 3] = ["kernels", "conv", "engine"];

/// Prints the numbers.
pub fn run(arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        None => {}
        Some((flag, named)) if flag == "--llvm" => {
            let named: Vec<&str> = named.iter().map(String::as_str).collect();
            let crates = if named.is_empty() { &GENERIC[..] } else { &named[..] };
            let sum = llvm::print(crates).map_err(|e| vec![e])?;
            return Ok(format!("{sum} lines of LLVM IR in {}", crates.join(" and ")));
        }
        Some(_) => return Err(vec!["known is --llvm [CRATE...]".into()]),
    }
    let mut long = Vec::new();
    println!("{:8} {:>5} {:>6}  {:>5} {:>6}", "crate", "files", "lines", "tests", "lines");
    for krate in layers::CRATES {
        let sources = repo::files(&format!("crates/{}/src", krate.name), ".rs");
        let tests = repo::files(&format!("crates/{}/tests", krate.name), ".rs");
        let count = |paths: &[String]| paths.iter().map(|p| lines(p)).sum::<usize>();
        println!(
            "{:8} {:>5} {:>6}  {:>5} {:>6}",
            krate.name,
            sources.len(),
            count(&sources),
            tests.len(),
            count(&tests)
        );
        long.extend(sources.into_iter().map(|p| (lines(&p), p)).filter(|(n, _)| *n > LONG));
    }
    println!("\nfields {}, chips {}, HAL numbers {}", Field::COUNT, chips::CHIPS.len(), chips::HAL_ROWS.len());
    for layout in evidence::layouts() {
        println!("rows of {}: {}", layout.generation, layout.rows.len());
    }
    for (what, path, name) in [
        ("net operations", "crates/net/src/ops.rs", "OpKind"),
        ("unary functions", "crates/net/src/ops/unary.rs", "Unary"),
        ("binary functions", "crates/net/src/ops.rs", "Binary"),
        ("reductions", "crates/net/src/ops.rs", "ReduceKind"),
        ("layer kinds", "crates/compile/src/ir/mod.rs", "Kind"),
    ] {
        let text = repo::read(path).map_err(|e| vec![e])?;
        let count = variants(&lex(&text), name).ok_or_else(|| vec![format!("{path}: no enum {name}")])?;
        println!("{what}: {count}");
    }
    println!("passes: {}", anemone_compile::pipeline::ALL.len());
    for (n, path) in &long {
        println!("{path}: {n} lines");
    }
    Ok(format!("{} files over {LONG} lines", long.len()))
}

fn lines(path: &str) -> usize {
    repo::read(path).map_or(0, |t| t.lines().count())
}
