//! Evidence keys: every key in a row or a comment has its section in `docs/evidence.md`.

use crate::repo;
use anemone_facts::{Layout, enums, layout, legal, native, ops};
use std::collections::BTreeSet;

/// The document with a section for every key.
pub const DOCUMENT: &str = "docs/evidence.md";

/// Every generation's layout.
pub fn layouts() -> Vec<&'static Layout> {
    layout::KNOWN.to_vec()
}

/// Keys of the register rows, of the enumerations, of the limits, and of rows that are only attested.
pub fn keys_of_rows() -> BTreeSet<String> {
    let rows = layouts().into_iter().flat_map(|l| l.rows).map(|r| r.source);
    let subtypes =
        anemone_facts::chips::SUBTYPES.iter().map(|s| s.source).chain(layout::SAMPLED.iter().map(|s| s.source));
    let limits = legal::RULES.iter().map(|r| r.source);
    let attested = ops::ATTESTED.iter().map(|a| a.source);
    let natives = native::NATIVES.iter().map(|n| n.source);
    rows.chain(subtypes)
        .chain(limits)
        .chain(attested)
        .chain(natives)
        .chain([enums::SOURCE])
        .map(str::to_string)
        .collect()
}

/// Keys in comments: `` `docs/evidence.md`, key `KEY` ``.
fn keys_of_comments(source: &str) -> BTreeSet<String> {
    // A reference may be broken over two comment lines.
    let text: Vec<&str> = source.lines().map(|l| l.trim().trim_start_matches(['/', '!']).trim()).collect();
    let text = text.join(" ");
    let after = |part: &str| Some(part.strip_prefix("`, key `")?.split('`').next()?.to_string());
    text.split(DOCUMENT).skip(1).filter_map(after).collect()
}

/// Keys without a section in the document.
fn missing(document: &str, keys: &BTreeSet<String>) -> Vec<String> {
    let sections: BTreeSet<&str> = document.lines().filter_map(|l| l.strip_prefix("## ")).map(str::trim).collect();
    keys.iter().filter(|k| !sections.contains(k.as_str())).cloned().collect()
}

/// Findings over rows and all sources of the crates.
pub fn check() -> Vec<String> {
    let mut keys = keys_of_rows();
    for path in repo::files("crates", ".rs") {
        match repo::read(&path) {
            Ok(text) => keys.extend(keys_of_comments(&text)),
            Err(e) => return vec![e],
        }
    }
    match repo::read(DOCUMENT) {
        Ok(document) => missing(&document, &keys)
            .into_iter()
            .map(|k| format!("evidence key `{k}` is used and has no section `## {k}` in {DOCUMENT}"))
            .collect(),
        Err(e) => vec![e],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_row_is_explained() {
        let document = repo::read(DOCUMENT).unwrap_or_default();
        assert_eq!(missing(&document, &keys_of_rows()), Vec::<String>::new());
    }

    #[test]
    fn a_missing_key_is_found() {
        let keys = ["a", "b"].map(String::from).into();
        assert_eq!(missing("# Evidence\n\n## a\n\nText about b.\n", &keys), ["b"]);
    }

    #[test]
    fn keys_in_comments_are_found_across_lines() {
        let source = "//! see `docs/evidence.md`, key `x-1`.\n/// and `docs/evidence.md`,\n/// key `y`.\n// `docs/evidence.md`.\n";
        assert_eq!(keys_of_comments(source), ["x-1", "y"].map(String::from).into());
    }
}
