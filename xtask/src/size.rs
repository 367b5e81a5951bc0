//! How much there is: files and lines by room, rows, operations, passes.

use crate::tokens::{Token, lex, variants};
use crate::{Outcome, evidence, repo, walls};
use anemone_facts::{Field, chips};

/// Files longer than this are listed: is there a reason?
const LONG: usize = 500;

/// Prints the numbers.
pub fn run(_: &[String]) -> Outcome {
    let mut long = Vec::new();
    println!("{:8} {:>5} {:>6}  {:>5} {:>6}", "room", "files", "lines", "tests", "lines");
    for room in walls::ROOMS {
        let sources = repo::files(&format!("crates/{}/src", room.name), ".rs");
        let tests = repo::files(&format!("crates/{}/tests", room.name), ".rs");
        let count = |paths: &[String]| paths.iter().map(|p| lines(p)).sum::<usize>();
        println!(
            "{:8} {:>5} {:>6}  {:>5} {:>6}",
            room.name,
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
        ("unary functions", "crates/net/src/ops.rs", "Unary"),
        ("binary functions", "crates/net/src/ops.rs", "Binary"),
        ("reductions", "crates/net/src/ops.rs", "ReduceKind"),
        ("layer kinds", "crates/compile/src/anec.rs", "Kind"),
    ] {
        let text = repo::read(path).map_err(|e| vec![e])?;
        let count = variants(&lex(&text), name).ok_or_else(|| vec![format!("{path}: no enum {name}")])?;
        println!("{what}: {count}");
    }
    let mut passes = 0;
    for file in ["prepare", "fuse", "legalize"] {
        let text = repo::read(&format!("crates/compile/src/{file}.rs")).map_err(|e| vec![e])?;
        passes += rewrites(&lex(&text));
    }
    println!("passes: {passes}");
    for (n, path) in &long {
        println!("{path}: {n} lines");
    }
    Ok(format!("{} files over {LONG} lines", long.len()))
}

fn lines(path: &str) -> usize {
    repo::read(path).map_or(0, |t| t.lines().count())
}

/// Calls that hand over the whole network or graph to be rewritten: `&mut net` or `&mut graph` as first argument.
fn rewrites(tokens: &[Token]) -> usize {
    let calls = |w: &&[Token]| {
        let whole = [")", ","].contains(&w[4].text);
        w[0].text == "(" && w[1].text == "&" && w[2].text == "mut" && ["net", "graph"].contains(&w[3].text) && whole
    };
    tokens.windows(5).filter(calls).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_counted_by_their_calls() {
        assert_eq!(
            rewrites(&lex("fn f(net: &mut Net) { a(&mut net)?; b(&mut graph, chip); c(net); take(&mut net.ops); }")),
            2
        );
    }
}
