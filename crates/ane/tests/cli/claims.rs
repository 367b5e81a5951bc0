//! The sentences of the chapters by a command each: the table `docs/data/claims.tsv`, run row by row.

use crate::bad_usage::stored_zip;
use crate::book::{identity, three};
use crate::harness::*;
use crate::procedures::TWO;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TABLE: &str = include_str!("../../../../docs/data/claims.tsv");
const CONFLICTS: &str = include_str!("../../../../docs/conflicts.md");

/// Runs a line in the shell, with the tested binary as `ane`; standard output and error with white space joined.
fn shell(line: &str, folder: &Path) -> (Option<i32>, String) {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_ane"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().expect("its folder").display());
    let child = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let ran = finish(child, &[line.to_string()]);
    let text = ran.out + &ran.err;
    (ran.code, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The files that the rows use, beside those that the table's own first commands make.
fn files(folder: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("written");
    write("id.mil", identity(64).as_bytes());
    write("di.mil", identity(256).as_bytes());
    write("three.mil", three().as_bytes());
    write("x4.npy", &filled(&[1, 4], 1.0));
    write("x64.npy", &filled(&[1, 64], 1.0));
    write("two.plist", TWO.as_bytes());
    write("short.bin", &[0; 100]);
    // Other weights for `id.mil`: twice the identity.
    let twice = (0..64 * 64).flat_map(|i| f32::to_le_bytes(if i % 65 == 0 { 2.0 } else { 0.0 }));
    let twice = npy("<f4", false, "(64, 64, 1, 1)", &twice.collect::<Vec<u8>>());
    write("adapter.npz", &stored_zip("td1.npy", &twice));
    let knots = (0..33).flat_map(|i| half::f16::from_f32(((i * 7) % 13) as f32 * 0.375 - 2.0).to_le_bytes());
    write("knots.npy", &npy("<f2", false, "(33,)", &knots.collect::<Vec<u8>>()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    copy(&source.join("tests/data/claims"), folder);
    copy(&source.join("../e5rt/include"), folder);
    copy(&source.join("../iokit/include"), folder);
    copy(&example("digits.mlpackage"), &folder.join("digits.mlpackage"));
}

/// Subjects of the tables of conflicts.
fn subjects() -> Vec<&'static str> {
    CONFLICTS.lines().filter_map(|line| Some(line.strip_prefix("| ")?.split(" | ").next()?.trim())).collect()
}

/// Everything wrong with a row: fields, the departure that it names, its command.
fn faults(fields: &[&str], folder: &Path) -> Option<String> {
    let &[_, _, command, shows, verdict] = fields else { return Some("five fields are expected".into()) };
    let unknown = |subject: &&str| !subjects().contains(subject);
    match verdict.split_once(": ") {
        None if verdict == "nothing to run" => return (!command.is_empty()).then(|| "a command".into()),
        None if verdict == "holds" => {}
        Some(("departs" | "by choice", of)) => {
            if let Some(subject) = of.split("; ").find(unknown) {
                return Some(format!("docs/conflicts.md has no row `{subject}`"));
            }
        }
        _ => return Some(format!("verdict `{verdict}`")),
    }
    let mut parts: Vec<&str> = shows.split(" ; ").filter(|part| !part.is_empty()).collect();
    let code = parts.first().and_then(|part| part.strip_prefix("exit ")?.parse::<i32>().ok());
    parts.drain(..usize::from(code.is_some()));
    if parts.iter().all(|part| part.starts_with('!')) {
        return Some("no part that has to be there".into());
    }
    let (found, text) = shell(command, folder);
    let missing: Vec<&&str> = parts
        .iter()
        .filter(|part| match part.strip_prefix('!') {
            Some(absent) => text.contains(absent),
            None => !text.contains(**part),
        })
        .collect();
    let start: String = text.chars().take(400).collect();
    (found != Some(code.unwrap_or(0)) || !missing.is_empty())
        .then(|| format!("{command} ended with {found:?}, without {missing:?}\n  {start}"))
}

/// Runs the rows of some chapters in a folder of their own; `rows` is their number by chapter.
fn check(rows: &[(&str, usize)]) {
    let scratch = Scratch::new();
    let folder = PathBuf::from(scratch.path(""));
    files(&folder);
    for line in TABLE.lines().filter_map(|line| line.strip_prefix("# $ ")) {
        let (code, text) = shell(line, &folder);
        assert_eq!(code, Some(0), "{line}: {text}");
    }
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in TABLE.lines().filter(|line| !line.starts_with('#')).skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let chapter = fields[0].split('.').next().unwrap_or_default();
        if rows.iter().all(|(own, _)| *own != chapter) {
            continue;
        }
        let verdict = fields.last().map_or("", |verdict| verdict.split(':').next().unwrap_or_default());
        *counts.entry((chapter, verdict)).or_default() += 1;
        wrong.extend(faults(&fields, &folder).map(|fault| format!("{}: {fault}", fields[0])));
    }
    for ((chapter, verdict), count) in &counts {
        println!("{chapter} {verdict}: {count}");
    }
    let all = |chapter: &str| counts.iter().filter(|((c, _), _)| *c == chapter).map(|(_, n)| n).sum::<usize>();
    for (chapter, number) in rows {
        assert_eq!(all(chapter), *number, "rows of {chapter}");
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n\n"));
}

/// The readings of the book that `--convention book` tells belong to rows of conflicts, and their words are found.
#[test]
fn every_reading_of_the_book_has_its_row_of_conflicts() {
    for reading in anemone_facts::book::READINGS {
        assert!(subjects().contains(&reading.subject), "docs/conflicts.md has no row `{}`", reading.subject);
        for word in reading.words {
            let asked = ["explain", word].map(String::from);
            let told = run(&[&asked[..], &["--convention", "book"].map(String::from)].concat()).fine().out;
            assert!(told.contains(reading.lines[0]) && told.contains(reading.subject), "{word}: {told}");
            // The word means something without it too.
            run(&asked).fine();
        }
    }
}

// Three tests, so that all cores run them: a row may use files of rows before it, of the same test.
#[test]
fn every_claim_on_container_and_hidden_layers_is_as_its_row_says() {
    check(&[("000", 120), ("002", 66)]);
}

#[test]
fn every_claim_on_driver_and_execution_is_as_its_row_says() {
    check(&[("003", 79), ("004", 45)]);
}

#[test]
fn every_claim_on_the_compiler_is_as_its_row_says() {
    check(&[("001", 73)]);
}
