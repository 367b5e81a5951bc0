//! Length limits: longer files and functions need a reason in the table.

use super::table::{FILE_LINES, FUNCTION_LINES, LONG};
use crate::repo;
use crate::tokens::{Token, lex, without_tests};
use std::collections::BTreeSet;

/// Findings over the sources of every crate and of `xtask`.
pub fn check() -> Vec<String> {
    let mut long = BTreeSet::new();
    for path in repo::files("crates", ".rs").into_iter().chain(repo::files("xtask/src", ".rs")) {
        // Tests are tables of cases.
        if path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs") {
            continue;
        }
        if let Ok(text) = repo::read(&path) {
            long.extend(long_in(&path, &text));
        }
    }
    compare(&long, &LONG.iter().map(|row| row.0).collect::<Vec<_>>())
}

/// Parts of a file above the limits: its path, and `path#name` of functions.
fn long_in(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let tokens = without_tests(&lex(text));
    if text.lines().count().saturating_sub(table_lines(&tokens)) > FILE_LINES {
        found.push(path.to_string());
    }
    let at = |i: usize| tokens.get(i).map_or("", |t| t.text);
    for i in (0..tokens.len()).filter(|&i| at(i) == "fn" && at(i + 1) != "(") {
        if lines(&tokens[i..]) > FUNCTION_LINES {
            found.push(format!("{path}#{}", at(i + 1)));
        }
    }
    found
}

/// Lines of tables: constants of a module, and macros that generate items from rows.
fn table_lines(tokens: &[Token]) -> usize {
    let at = |i: usize| tokens.get(i).map_or("", |t| t.text);
    let (mut depth, mut sum, mut i) = (0usize, 0, 0);
    while i < tokens.len() {
        let constant = at(i) == "static" || at(i) == "const" && at(i + 1) != "fn";
        let rows = at(i + 1) == "!" && at(i + 2) == "{";
        if depth == 0 && (constant || rows) {
            let end = end_of_table(tokens, i, if constant { ";" } else { "}" });
            sum += tokens[end].line + 1 - tokens[i].line;
            i = end;
        } else {
            match at(i) {
                "{" => depth += 1,
                "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        i += 1;
    }
    sum
}

/// Token that ends an item outside of its brackets; the last one if none does.
fn end_of_table(tokens: &[Token], start: usize, end: &str) -> usize {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(start) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && token.text == end {
            return i;
        }
    }
    tokens.len() - 1
}

/// Number of lines of the function at the start of the tokens; 1 without a body.
fn lines(tokens: &[Token]) -> usize {
    let mut depth = 0usize;
    for token in tokens {
        match token.text {
            "{" => depth += 1,
            "}" if depth == 1 => return token.line + 1 - tokens[0].line,
            "}" => depth = depth.saturating_sub(1),
            ";" if depth == 0 => break,
            _ => {}
        }
    }
    1
}

fn compare(long: &BTreeSet<String>, listed: &[&str]) -> Vec<String> {
    let limits = format!("{FILE_LINES} lines a file, {FUNCTION_LINES} a function");
    let new = long.iter().filter(|l| !listed.contains(&l.as_str()));
    let new = new.map(|l| format!("{l} is too long ({limits}): divide it, or give the reason in the table of layers"));
    let gone = listed.iter().filter(|l| !long.contains(**l));
    new.chain(gone.map(|l| format!("{l} is no longer too long: remove its row"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_functions_are_found_unless_listed() {
        let text = format!("fn short() {{\n}}\nfn long() {{\n{}}}\n", "x();\n".repeat(FUNCTION_LINES));
        assert_eq!(long_in("a.rs", &text), ["a.rs#long"]);
        assert_eq!(long_in("a.rs", &"\n".repeat(FILE_LINES + 1)), ["a.rs"]);
        let rows = "    \"row\",\n".repeat(FILE_LINES);
        for table in [format!("const T: &[&str] = &[\n{rows}];\n"), format!("rows! {{\n{rows}}}\n")] {
            assert!(long_in("a.rs", &table).is_empty());
            assert_eq!(long_in("a.rs", &(table + &"\n".repeat(FILE_LINES + 1))), ["a.rs"]);
        }
        let macros = format!("macro_rules! long {{\n{}}}\n", "    () => {};\n".repeat(FILE_LINES));
        assert_eq!(long_in("a.rs", &macros), ["a.rs"]);
        let tests = format!("#[cfg(test)]\nmod tests {{\nfn long() {{\n{}}}\n}}\n", "x();\n".repeat(FUNCTION_LINES));
        assert!(long_in("a.rs", &tests).is_empty());
        let long = BTreeSet::from(["a.rs".to_string()]);
        assert!(compare(&long, &["a.rs"]).is_empty());
        assert_eq!(compare(&long, &[]).len(), 1);
        assert_eq!(compare(&BTreeSet::new(), &["a.rs"]), ["a.rs is no longer too long: remove its row"]);
    }
}
