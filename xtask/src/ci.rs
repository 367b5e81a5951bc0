//! The list of all checks of a change: `.ci/run` and `cargo xtask ci` run it.

pub mod record;

use crate::{Outcome, conclude, cross, docs, layers, links, repo, words};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Command of a step.
enum Step {
    /// A cargo command.
    Cargo(&'static [&'static str]),
    /// A cargo command with a variable of flags that makes warnings errors.
    Warned(&'static str, &'static [&'static str]),
    /// A cargo command whose standard output contains a text.
    Prints(&'static [&'static str], &'static str),
    /// A program.
    Program(&'static str, &'static [&'static str]),
    /// A chore.
    Chore(&'static str, fn(&[String]) -> Outcome, &'static [&'static str]),
}
use Step::*;

/// The steps in order; all use the release profile, so that one build serves all.
const STEPS: &[Step] = &[
    Cargo(&["test", "--release", "--workspace"]),
    Prints(
        &[
            "run",
            "--release",
            "--",
            "run",
            "examples/digits/digits.mlpackage",
            "--input",
            "examples/digits/image.npy",
            "--labels",
            "examples/digits/labels.txt",
        ],
        "class 8",
    ),
    Cargo(&["fmt", "--all", "--check"]),
    Cargo(&["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Warned("RUSTDOCFLAGS", &["doc", "--release", "--workspace", "--no-deps"]),
    Chore("layers", layers::run, &[]),
    Chore("words", words::run, &[]),
    Chore("docs", docs::run, &["--check"]),
    Chore("links", links::run, &[]),
    // Systems that this machine cannot run; each is fetched by rustup, and skipped with a message if it is unavailable.
    Chore("cross", cross::run, &["--check"]),
    // Skipped with a message if the package registry is not reachable. The whole suite takes four times as long.
    Program("python3", &["scripts/onnx_backend.py", "--every", "4", "--ane", "target/release/ane"]),
    // `cargo test` does not link shared libraries that no test uses.
    Cargo(&["build", "--release", "--workspace"]),
    Cargo(&["run", "--release", "--bin", "xtask", "--", "inlined"]),
    // Predictions of `ane check` for this compiler, on the models that the suite wrote.
    Cargo(&["test", "--release", "--workspace", "--test", "nets", "check_of_the_suite"]),
];

/// Names of the steps in order.
pub fn names() -> Vec<String> {
    STEPS.iter().map(Step::name).collect()
}

/// Runs every step, even after a failure; `--no-tests` omits steps that execute products, `--record` stores the seconds of each step.
pub fn run(arguments: &[String]) -> Outcome {
    let given = |flag: &str| arguments.iter().any(|a| a == flag);
    if let Some(unknown) = arguments.iter().find(|a| !["--no-tests", "--record"].contains(&a.as_str())) {
        return Err(vec![format!("{unknown}: only --no-tests and --record are known")]);
    }
    if given("--no-tests") && given("--record") {
        return Err(vec!["--record keeps the times of all steps".into()]);
    }
    let (tests, before, mut times) = (!given("--no-tests"), record::before(), Vec::new());
    let steps = STEPS.iter().filter(|s| tests || s.is_check());
    let mut findings = Vec::new();
    for step in steps {
        let begun = Instant::now();
        println!("\n== {}", step.name());
        findings.extend(step.run().into_iter().map(|f| format!("{}: {f}", step.name())));
        println!("== {:.0} s", begun.elapsed().as_secs_f64());
        times.push((step.name(), begun.elapsed()));
    }
    if given("--record") && findings.is_empty() {
        findings.extend(record::write(before, &times).err());
        // The table in `CONTRIBUTING.md`.
        findings.extend(docs::run(&[]).err().into_iter().flatten());
    }
    conclude(findings, "all steps pass".into())
}

impl Step {
    /// Returns true if the step reads sources only.
    fn is_check(&self) -> bool {
        matches!(self, Chore(..) | Warned(..) | Cargo(["fmt" | "clippy", ..]))
    }

    fn name(&self) -> String {
        match self {
            Cargo(arguments) | Prints(arguments, _) => format!("cargo {}", arguments.join(" ")),
            Warned(flags, arguments) => format!("{flags}=\"-D warnings\" cargo {}", arguments.join(" ")),
            Program(name, arguments) => format!("{name} {}", arguments.join(" ")),
            Chore(name, _, arguments) => [&[*name], *arguments].concat().join(" "),
        }
    }

    /// Runs the step and returns its findings.
    fn run(&self) -> Vec<String> {
        let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        let outcome = match self {
            Cargo(arguments) => status(cargo().args(*arguments)),
            Warned(flags, arguments) => status(cargo().args(*arguments).env(flags, "-D warnings")),
            Program(name, arguments) => status(Command::new(name).args(*arguments)),
            Prints(arguments, wanted) => prints(cargo().args(*arguments), wanted),
            Chore(_, run, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|a| a.to_string()).collect();
                return run(&arguments).map_or_else(
                    |findings| findings,
                    |closing| {
                        println!("{closing}");
                        Vec::new()
                    },
                );
            }
        };
        outcome.err().into_iter().collect()
    }
}

fn status(command: &mut Command) -> Result<(), String> {
    let status = command.current_dir(repo::root()).status().map_err(|e| e.to_string())?;
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

fn prints(command: &mut Command, wanted: &str) -> Result<(), String> {
    let output = command.current_dir(repo::root()).stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    match output.status.success() && text.contains(wanted) {
        true => Ok(()),
        false => Err(format!("{}, and `{wanted}` expected", output.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_a_part_of_all_steps() {
        let checks = STEPS.iter().filter(|s| s.is_check()).count();
        assert!(checks >= 6 && checks < STEPS.len(), "{checks} of {}", STEPS.len());
    }

    /// The workflow builds with the oldest toolchain that the packages and documents promise; clippy (`incompatible_msrv`) refuses newer
    /// parts of the standard library.
    #[test]
    fn the_oldest_toolchain_is_the_same_everywhere() {
        let manifest = repo::read("Cargo.toml").expect("the manifest");
        let version = manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).expect("a version");
        let version = version.trim_matches('"');
        for (file, text) in [
            (".github/workflows/native.yml", format!("rustup toolchain install {version} --profile")),
            ("README.md", format!("Rust toolchain ({version} or later)")),
            ("docs/install.md", format!("Rust toolchain ({version} or later)")),
        ] {
            assert!(repo::read(file).expect("the file").contains(&text), "{file} lacks {text:?}");
        }
        for path in repo::files("crates", "Cargo.toml") {
            let manifest = repo::read(&path).expect("a manifest");
            assert!(manifest.contains("rust-version.workspace = true"), "{path} has a version of its own");
        }
    }

    /// Systems other than the one that runs the steps are compiled by every run, so that none breaks unnoticed.
    #[test]
    fn other_systems_are_a_step() {
        let step = STEPS.iter().find(|s| s.name() == "cross --check").expect("the step");
        assert!(step.is_check());
        for system in ["apple-darwin", "windows"] {
            let found = crate::targets::TARGETS.iter().any(|t| t.in_ci && t.triple.contains(system));
            assert!(found, "no target of {system} is checked");
        }
    }

    #[test]
    fn a_failing_step_is_a_finding() {
        assert!(status(&mut Command::new("false")).is_err());
        assert!(prints(Command::new("echo").arg("class 3"), "class 8").is_err());
        assert!(prints(Command::new("echo").arg("class 8"), "class 8").is_ok());
    }
}
