//! Words that neither Rust code nor pages use, in comments, names, messages and prose: each has a standard term instead.

use crate::{Outcome, conclude, repo};
use std::collections::BTreeMap;

/// Refused words in all their forms, or pairs of consecutive words, with their replacement.
const REFUSED: &[(&[&str], &str)] = &[
    (&["room", "rooms"], "crate, space, capacity"),
    (&["house", "houses"], "crate"),
    (&["wall", "walls", "walled"], "layering rule"),
    (&["judge", "judges", "judged", "judgement"], "check, reference, independent implementation"),
    (&["accused"], "compiler under test"),
    (&["passed over"], "skipped"),
    (&["a twentieth"], "5 %"),
];

/// Exempt spellings from elsewhere: class names of the operation matrix, flags of compilers.
const EXEMPT: &[(&str, &str)] = &[
    ("crates/ane/src/reference.rs", "Walled"),
    ("crates/facts/src/ops.rs", "Walled"),
    ("crates/check/src/lint.rs", "Walled"),
    ("crates/e5rt/tests/listings.rs", "-Wall"),
    ("crates/iokit/tests/programs.rs", "-Wall"),
    ("xtask/src/words.rs", ""),
];

/// Remaining occurrences, by file or folder. The list may only shrink: further ones are findings, and so are rows without any.
const REMAINING: &[(&str, usize)] = &[];

/// Pages outside of `docs`. The changelog is history.
const PAGES: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "crates/python/README.md"];

/// Reads every Rust source and every page of the repository.
pub fn run(_: &[String]) -> Outcome {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut sources = 0;
    let code = ["crates", "xtask", "fuzz", "examples"].iter().flat_map(|folder| repo::files(folder, ".rs"));
    let pages = PAGES.iter().map(|page| page.to_string()).chain(repo::files("docs", ".md"));
    for path in code.chain(pages) {
        sources += 1;
        let text = repo::read(&path).map_err(|e| vec![e])?;
        found.insert(path.clone(), refused_in(&path, &text));
    }
    conclude(compare(&found, REMAINING), format!("{sources} files use none of {} words", REFUSED.len()))
}

/// Findings in one file.
fn refused_in(path: &str, text: &str) -> Vec<String> {
    let exempt: Vec<&str> = EXEMPT.iter().filter(|row| row.0 == path).map(|row| row.1).collect();
    if exempt.contains(&"") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut previous = String::new();
    for (index, line) in text.lines().enumerate() {
        let line = exempt.iter().fold(line.to_string(), |line, spelling| line.replace(spelling, ""));
        for word in words(&line) {
            let pair = format!("{previous} {word}");
            let row = REFUSED.iter().find(|(all, _)| all.contains(&word.as_str()) || all.contains(&pair.as_str()));
            if let Some((all, instead)) = row {
                found.push(format!("{path}:{}: `{}`: say {instead}", index + 1, all[0]));
            }
            previous = word;
        }
    }
    found
}

/// The words of a line in lower case, including parts of names in snake case and camel case.
fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    let mut word = String::new();
    let mut lower_before = false;
    for c in line.chars() {
        let begins = c.is_uppercase() && lower_before;
        if (begins || !c.is_alphabetic()) && !word.is_empty() {
            all.push(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    if !word.is_empty() {
        all.push(word);
    }
    all
}

/// Findings beyond the rows, and rows without findings.
fn compare(found: &BTreeMap<String, Vec<String>>, remaining: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    let within = |path: &str, row: &str| path == row || row.ends_with('/') && path.starts_with(row);
    for (path, all) in found {
        if !remaining.iter().any(|(row, _)| within(path, row)) {
            findings.extend(all.iter().cloned());
        }
    }
    for (row, allowed) in remaining {
        let all: Vec<&String> = found.iter().filter(|(path, _)| within(path, row)).flat_map(|(_, all)| all).collect();
        if all.is_empty() {
            findings.push(format!("{row} uses no refused word any more: remove its row"));
        } else if all.len() > *allowed {
            findings.push(format!("{row}: {} refused words, {allowed} listed: {}", all.len(), all[all.len() - 1]));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_words_are_found_in_comments_names_and_messages() {
        for line in [
            "// no room left",
            "fn room_of()",
            "struct RoomOf;",
            "\"passed over: x\"",
            "passed_over: 1",
            "// a\n// twentieth",
        ] {
            assert_eq!(refused_in("a.rs", line).len(), 1, "{line}");
        }
        for line in ["// a broom", "one pass over all", "mushrooms", "let judgment_free = 1;"] {
            assert!(refused_in("a.rs", line).is_empty(), "{line}");
        }
    }

    #[test]
    fn spellings_of_others_are_exempt_where_listed() {
        assert!(refused_in("crates/facts/src/ops.rs", "Sweep::Walled").is_empty());
        assert_eq!(refused_in("crates/facts/src/lib.rs", "Sweep::Walled").len(), 1);
    }

    #[test]
    fn the_list_only_shrinks() {
        let found = |n: usize| BTreeMap::from([("d/a.rs".to_string(), vec!["x".to_string(); n])]);
        assert!(compare(&found(2), &[("d/", 2)]).is_empty());
        assert!(compare(&found(1), &[("d/a.rs", 2)]).is_empty());
        assert_eq!(compare(&found(3), &[("d/", 2)]).len(), 1);
        assert_eq!(compare(&found(0), &[("d/", 2)]).len(), 1);
        assert_eq!(compare(&found(1), &[]), ["x"]);
    }
}
