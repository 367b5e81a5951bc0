//! Lines of LLVM IR by function, before optimization, as a measure of build time. A generic function counts once for each of
//! its instances.

use crate::repo;
use rustc_demangle::demangle;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of listed functions, the longest first.
const LISTED: usize = 15;

/// Lines and instances of one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub lines: usize,
    pub copies: usize,
}

/// Prints the lines of the named crates and returns their sum.
///
/// # Errors
/// A crate that does not build, or IR that cannot be read.
pub fn print(crates: &[&str]) -> Result<usize, String> {
    let mut sum = 0;
    for name in crates {
        let costs = costs(&emit(name)?);
        let lines: usize = costs.iter().map(|(_, c)| c.lines).sum();
        let copies: usize = costs.iter().map(|(_, c)| c.copies).sum();
        println!("\n{name}: {lines} lines of LLVM IR in {copies} functions");
        for (function, cost) in costs.iter().take(LISTED) {
            println!("{:>8} {:>5} {function}", cost.lines, cost.copies);
        }
        sum += lines;
    }
    Ok(sum)
}

/// Builds a crate in a separate folder, and reads its IR.
fn emit(name: &str) -> Result<String, String> {
    let folder = repo::at("target/llvm");
    let fail = |e: std::io::Error| format!("{name}: {e}");
    let stem = format!("anemone_{name}");
    let deps = folder.join("release/deps");
    for old in ir_files(&deps, &stem) {
        std::fs::remove_file(old).map_err(fail)?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.current_dir(repo::root()).args(["rustc", "--release", "--lib", "--package", &format!("anemone-{name}")]);
    command.arg("--target-dir").arg(&folder);
    command.args([
        "--",
        "--emit=llvm-ir",
        "-Cno-prepopulate-passes",
        "-Cpasses=name-anon-globals",
        "-Ccodegen-units=1",
    ]);
    command.args(["-Cdebuginfo=0"]);
    let done = command.status().map_err(fail)?;
    if !done.success() {
        return Err(format!("{name}: cargo rustc: {done}"));
    }
    match ir_files(&deps, &stem).as_slice() {
        [one] => std::fs::read_to_string(one).map_err(fail),
        files => Err(format!("{name}: {} files of LLVM IR in {}, one expected", files.len(), deps.display())),
    }
}

/// IR files of a crate in a folder.
fn ir_files(folder: &Path, stem: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mine = |p: &PathBuf| {
        p.extension().is_some_and(|e| e == "ll")
            && p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{stem}-")))
    };
    entries.flatten().map(|e| e.path()).filter(mine).collect()
}

/// Cost by function, the longest first.
fn costs(ir: &str) -> Vec<(String, Cost)> {
    let mut by_name: HashMap<String, Cost> = HashMap::new();
    let mut current: Option<(String, usize)> = None;
    for line in ir.lines() {
        if let Some((name, lines)) = current.take() {
            if line == "}" {
                let cost = by_name.entry(name).or_default();
                cost.lines += lines;
                cost.copies += 1;
            } else {
                current = Some((name, lines + 1));
            }
        } else if line.starts_with("define ") {
            current = symbol(line).map(|s| (function(s), 1));
        }
    }
    let mut all: Vec<(String, Cost)> = by_name.into_iter().collect();
    all.sort_by(|a, b| b.1.lines.cmp(&a.1.lines).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Symbol of a `define` line.
fn symbol(line: &str) -> Option<&str> {
    let rest = &line[line.find('@')? + 1..];
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split('(').next(),
    }
}

/// Demangled name without the hash and without the types of an instance.
fn function(symbol: &str) -> String {
    let name = format!("{:#}", demangle(symbol));
    let (mut text, mut depth, mut pending) = (String::new(), 0usize, name.as_str());
    while let Some(at) = pending.find("::<") {
        text.push_str(&pending[..at]);
        let tail = &pending[at + 2..];
        let end = tail.char_indices().find_map(|(i, c)| {
            depth = match c {
                '<' => depth + 1,
                '>' if !tail[..i].ends_with('-') => depth.saturating_sub(1),
                _ => depth,
            };
            (depth == 0).then_some(i + 1)
        });
        pending = end.and_then(|e| tail.get(e..)).unwrap_or_default();
        depth = 0;
    }
    text + pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_a_function_are_counted_together() {
        let ir = "define void @_ZN1a1b17h0123456789abcdefE(ptr %x) {\nstart:\n  ret void\n}\n\
                  define void @_ZN1a1b17hfedcba9876543210E() {\n  ret void\n}\ndeclare void @c()\n";
        assert_eq!(costs(ir), [("a::b".to_string(), Cost { lines: 5, copies: 2 })]);
    }

    #[test]
    fn types_of_an_instance_are_left_out_of_its_name() {
        assert_eq!(function("plain"), "plain");
        assert_eq!(symbol("define internal i32 @\"a b\"(i32 %0) {"), Some("a b"));
    }
}
