//! Checks that paths and anchors in the documents exist, and that every crate has its paragraph in `ARCHITECTURE.md`.
//!
//! A path is a link's target, a word in backticks with a slash in it or ending in `.md`, or a word of a fenced block
//! that starts with a top-level folder. Below a heading that names a crate, `x.rs` and `x/` are relative to the crate's source.
//! `NAME` stands for any name; the default of a test folder is outside, and build outputs below `target/`
//! do not exist in a fresh clone. Every page below `docs` is a chapter of the site: it is listed in
//! `docs/SUMMARY.md` under its first heading.

use crate::{Outcome, conclude, evidence, layers, repo};

const DOCUMENTS: &[&str] = &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
const SUMMARY: &str = "docs/SUMMARY.md";
const TOP: &[&str] = &["crates", "docs", "examples", "xtask", "tests", "fuzz", "python", ".ci", ".cargo"];

/// Checks every document.
pub fn run(_: &[String]) -> Outcome {
    let mut findings = evidence::check();
    let mut references = 0;
    let documents = DOCUMENTS.iter().map(|d| d.to_string()).chain(repo::files("docs", ".md"));
    for document in documents {
        let text = match repo::read(&document) {
            Ok(text) => text,
            Err(e) => {
                findings.push(e);
                continue;
            }
        };
        for reference in references_of(&text) {
            references += 1;
            findings.extend(check(&document, &reference));
        }
        if document == "ARCHITECTURE.md" {
            findings.extend(crates_without_paragraph(&text).iter().map(|r| format!("{document}: no paragraph on {r}")));
        }
    }
    let (summary, pages) = (repo::read(SUMMARY).unwrap_or_default(), repo::files("docs", ".md"));
    findings.extend(pages_without_chapter(&summary, &pages));
    findings.extend(pages.iter().filter_map(|page| misnamed(&summary, page, &repo::read(page).ok()?)));
    conclude(findings, format!("{references} references lead somewhere"))
}

/// A path in a document, possibly with an anchor.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    line: usize,
    /// Empty for the document itself.
    path: String,
    anchor: Option<String>,
    /// Source folder of the crate of its section.
    krate: Option<String>,
}

fn references_of(text: &str) -> Vec<Reference> {
    let mut all = Vec::new();
    let mut fenced = false;
    let mut krate: Option<String> = None;
    for (i, content) in text.lines().enumerate() {
        let new = |path: &str, anchor: Option<&str>| Reference {
            line: i + 1,
            path: path.to_string(),
            anchor: anchor.map(String::from),
            krate: krate.clone(),
        };
        if content.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced || content.starts_with("    ") {
            let paths = content.split_whitespace().filter(|w| TOP.iter().any(|t| w.starts_with(&format!("{t}/"))));
            all.extend(paths.map(|w| new(w, None)));
            continue;
        }
        let spans = content.split('`').skip(1).step_by(2).filter(|s| is_path(s, krate.is_some()));
        all.extend(spans.map(|s| new(s, None)));
        let targets = content.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        all.extend(targets.filter(|t| !t.contains("://")).map(|target| match target.split_once('#') {
            Some((path, anchor)) => new(path, Some(anchor)),
            None => new(target, None),
        }));
        if content.starts_with('#') {
            let named = content.split('`').nth(1).filter(|name| name.starts_with("crates/"));
            krate = named.map(|name| format!("{name}/src"));
        }
    }
    all
}

fn is_path(span: &str, in_crate: bool) -> bool {
    let plain = span.chars().all(|c| c.is_alphanumeric() || "./_-".contains(c));
    let stands_for_any = |part: &str| part.len() > 2 && part.chars().all(|c| c.is_ascii_uppercase());
    let placeholder = span.split(['/', '.']).any(stands_for_any) && !span.ends_with(".md");
    let outside = ["../shared", "/", "./", "target/"].iter().any(|p| span.starts_with(p));
    let looks = span.contains('/') || span.ends_with(".md") || (in_crate && span.ends_with(".rs"));
    plain && looks && !placeholder && !outside
}

fn check(document: &str, reference: &Reference) -> Option<String> {
    let Reference { line, path, anchor, krate } = reference;
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = if folder.is_empty() { path.clone() } else { format!("{folder}/{path}") };
    let target = if path.is_empty() { document.to_string() } else { beside };
    let in_crate = krate.as_ref().map(|krate| format!("{krate}/{path}")).unwrap_or_default();
    let found = [&target, path, &in_crate].into_iter().find(|p| !p.is_empty() && repo::at(p).exists());
    let Some(found) = found else { return Some(format!("{document}:{line}: {path} does not exist")) };
    let anchor = anchor.as_ref()?;
    let text = repo::read(found).unwrap_or_default();
    (!anchors_of(&text).contains(anchor)).then(|| format!("{document}:{line}: {found} has no heading #{anchor}"))
}

/// Anchors of all headings.
fn anchors_of(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|l| l.starts_with('#')).map(|l| l.trim_start_matches('#').trim());
    headings
        .map(|h| {
            let kept = h.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
        })
        .collect()
}

/// Crates without a heading `` ### `crates/NAME` `` followed by text.
fn crates_without_paragraph(architecture: &str) -> Vec<String> {
    let has_paragraph = |name: &str| {
        let heading = format!("### `crates/{name}`");
        let mut rest =
            architecture.lines().skip_while(|l| !l.starts_with(&heading)).skip(1).filter(|l| !l.trim().is_empty());
        rest.next().is_some_and(|l| !l.starts_with('#'))
    };
    layers::CRATES.iter().map(|r| r.name).filter(|n| !has_paragraph(n)).map(|n| format!("crates/{n}")).collect()
}

/// Pages missing from the contents of the site.
fn pages_without_chapter(summary: &str, pages: &[String]) -> Vec<String> {
    let named = |page: &str| page == SUMMARY || summary.contains(&format!("]({})", page.trim_start_matches("docs/")));
    pages.iter().filter(|page| !named(page)).map(|page| format!("{page} is no chapter: add it to {SUMMARY}")).collect()
}

/// A page whose name in the contents differs from its first heading.
fn misnamed(summary: &str, page: &str, text: &str) -> Option<String> {
    let heading = text.lines().find_map(|line| line.strip_prefix("# "))?;
    let link = format!("]({})", page.strip_prefix("docs/")?);
    let named = summary.split(link.as_str()).next().filter(|before| before.len() < summary.len())?;
    let name = named.rsplit('[').next().unwrap_or_default();
    (name != heading).then(|| format!("{page}: its heading is {heading:?}, its name in {SUMMARY} {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        references_of(text).into_iter().map(|r| r.path).collect()
    }

    #[test]
    fn paths_are_told_from_other_words() {
        let text = "See `crates/net/src`, `a/b.rs`, [text](docs/x.md#y), `README.md`, `x16`, `../shared/golden`, `target/quick/ane`,\n\
                    `crates/NAME/src`, `a = b/c`, [web](https://x.y/z), `Src1Base`.\n\
                    ```\ncargo run examples/digits/x.npy out/y\n```\n";
        assert_eq!(paths(text), ["crates/net/src", "a/b.rs", "README.md", "docs/x.md", "examples/digits/x.npy"]);
    }

    #[test]
    fn a_crate_has_its_own_files() {
        let text = "`pe.rs` `x/`\n### `crates/engine`\n`pe.rs` `gone.rs` `a.b`\n## Rest\n`pe.rs`\n";
        let all = references_of(text);
        assert_eq!(paths(text), ["x/", "crates/engine", "pe.rs", "gone.rs"]);
        assert_eq!(check("ARCHITECTURE.md", &all[2]), None);
        assert_eq!(check("ARCHITECTURE.md", &all[3]), Some("ARCHITECTURE.md:3: gone.rs does not exist".into()));
    }

    #[test]
    fn a_missing_path_or_heading_is_found() {
        let at = |path: &str, anchor: Option<&str>| Reference {
            line: 3,
            path: path.into(),
            anchor: anchor.map(String::from),
            krate: None,
        };
        assert_eq!(check("README.md", &at("Cargo.toml", None)), None);
        assert_eq!(check("docs/x.md", &at("../Cargo.toml", None)), None);
        assert_eq!(check("README.md", &at("no/such", None)), Some("README.md:3: no/such does not exist".into()));
        let gone = Some("README.md:3: docs/evidence.md has no heading #no-such-key".into());
        assert_eq!(check("README.md", &at("docs/evidence.md", Some("no-such-key"))), gone);
    }

    #[test]
    fn a_page_outside_of_the_contents_is_found() {
        let pages = ["docs/a.md".to_string(), "docs/machine/b.md".to_string(), SUMMARY.to_string()];
        assert!(pages_without_chapter("- [A](a.md)\n- [B](machine/b.md)\n", &pages).is_empty());
        assert_eq!(pages_without_chapter("- [A](a.md)\n", &pages).len(), 1);
        assert_eq!(misnamed("- [A](a.md)\n", "docs/a.md", "# A\n"), None);
        assert!(
            misnamed("- [C](c.md)\n- [A](a.md)\n", "docs/a.md", "# B\n")
                .is_some_and(|finding| finding.contains("\"A\""))
        );
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(anchors_of("# A b, c\n## h13-samples\ntext\n"), ["a-b-c", "h13-samples"]);
    }

    #[test]
    fn a_crate_without_a_paragraph_is_found() {
        let all: String = layers::CRATES.iter().map(|r| format!("### `crates/{}`\n\nText.\n\n", r.name)).collect();
        assert!(crates_without_paragraph(&all).is_empty());
        let bare = all.replace("### `crates/net`\n\nText.", "### `crates/net`\n");
        assert_eq!(crates_without_paragraph(&bare), ["crates/net"]);
        assert_eq!(crates_without_paragraph("").len(), layers::CRATES.len());
    }
}
