//! Everything that continuous integration checks besides the tests.

use crate::{Outcome, conclude, docs, links, repo, walls};
use std::process::Command;

/// Cargo commands, in order; the release profile, so that one build serves all.
const COMMANDS: &[&[&str]] =
    &[&["fmt", "--all", "--check"], &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"]];

/// Runs every check, also after one has failed.
pub fn run(_: &[String]) -> Outcome {
    let mut findings: Vec<String> = COMMANDS.iter().filter_map(|arguments| cargo(arguments)).collect();
    let checks: [(&str, Outcome); 3] =
        [("walls", walls::run(&[])), ("docs", docs::run(&["--check".into()])), ("links", links::run(&[]))];
    for (name, outcome) in checks {
        match outcome {
            Ok(closing) => println!("{name}: {closing}"),
            Err(all) => findings.extend(all.into_iter().map(|f| format!("{name}: {f}"))),
        }
    }
    conclude(findings, "all checks pass".into())
}

/// What went wrong with a cargo command.
fn cargo(arguments: &[&str]) -> Option<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let what = format!("cargo {}", arguments.join(" "));
    println!("{what}");
    match Command::new(cargo).current_dir(repo::root()).args(arguments).status() {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("{what}: {status}")),
        Err(e) => Some(format!("{what}: {e}")),
    }
}
