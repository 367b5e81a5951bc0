//! Table of the files that depend on the operating system or processor by conditional compilation.

use crate::layers::{CRATES, conditions};
use crate::repo;
use crate::tokens::{lex, without_tests};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One row per file: its conditions, and their lines.
///
/// # Errors
/// A file that cannot be read.
pub fn table() -> Result<String, String> {
    let mut out = String::from("\n| file | conditions | lines with one |\n|---|---|---|\n");
    for krate in CRATES {
        for path in repo::files(&format!("crates/{}/src", krate.name), ".rs") {
            let asked = asked(&repo::read(&path)?);
            if asked.is_empty() {
                continue;
            }
            let names: Vec<String> = asked.keys().map(|name| format!("`{name}`")).collect();
            let lines: usize = asked.values().map(Vec::len).sum();
            let _ = writeln!(out, "| `{path}` | {} | {lines} |", names.join(", "));
        }
    }
    out.push('\n');
    Ok(out)
}

/// Names in conditional compilation outside of tests, with their lines.
fn asked(text: &str) -> BTreeMap<String, Vec<usize>> {
    let tokens = without_tests(&lex(text));
    let mut all: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, line) in conditions(&tokens) {
        let lines = all.entry(name).or_default();
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_once() {
        let asked =
            asked("#[cfg(any(unix, not(unix)))]\nfn f() {}\n#[cfg(test)]\nmod tests { #[cfg(windows)] fn g() {} }\n");
        assert_eq!(asked.into_iter().collect::<Vec<_>>(), [("unix".to_string(), vec![1])]);
    }
}
