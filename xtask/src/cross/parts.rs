//! Tests of a foreign build under its emulator, in parts.
//!
//! Every part builds what it needs with the profile of the chores, and runs even if an earlier one has failed. Replays compare with this
//! system's command; they take a second or more for each command under an emulator, so of the random networks they run one in five. The
//! digests cover 200 networks in one process.

use super::{cargo, folder, link, own, profile, script, status, variable};
use crate::replay;
use crate::targets::{Linker, Target};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// A part by name; returns what it has shown.
#[derive(Debug)]
pub struct Part {
    name: &'static str,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// Tests of the target's own build: name of the test binary, filter, what it shows.
    Tests(&'static str, &'static str, &'static str),
    /// Programs in C with the C library.
    Library,
    /// Tests of the command line, with the foreign command.
    Commands,
    /// Cases of a replay: substring of their names, one in how many.
    Replay(&'static str, usize),
}

const PARTS: &[Part] = &[
    Part { name: "containers", work: Work::Tests("program", "", "containers") },
    Part { name: "digests", work: Work::Tests("nets", "fingerprint", "digests of results equal") },
    Part { name: "cache", work: Work::Tests("acceptance", "cache", "cache on disk") },
    Part { name: "library", work: Work::Library },
    Part { name: "commands", work: Work::Commands },
    Part { name: "packages", work: Work::Replay("models/", 1) },
    Part { name: "golden", work: Work::Replay("golden/", 1) },
    Part { name: "networks", work: Work::Replay("random/", 5) },
];

/// Test of the C library; it runs on this system and starts the emulator for each program.
const LISTINGS: &str = "listings";
/// Number of damaged copies of each file in the tests of the command line: an emulated command takes a second.
const FLIPS: &str = "6";

/// The part of this name, or all without one.
pub fn named(name: &str) -> Result<Vec<&'static Part>, String> {
    let found: Vec<_> = PARTS.iter().filter(|part| name.is_empty() || part.name == name).collect();
    let known = || PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    if found.is_empty() { Err(format!("{name}: not a part of the tests; known are {}", known())) } else { Ok(found) }
}

/// Runs parts of the tests on a target under its emulator; returns what they have shown.
pub fn test(target: &Target, parts: &[&Part]) -> Result<String, String> {
    if target.runner.is_empty() {
        return Ok("skipped: nothing runs its programs here".into());
    }
    let linker = match target.linker {
        Linker::Gcc(gcc) => gcc,
        Linker::Zig(_) => "cargo-zigbuild",
        Linker::Lld | Linker::Apple | Linker::None => "rustc",
    };
    let emulators = target.runner.iter().filter(|word| word.starts_with(char::is_alphabetic));
    for tool in emulators.copied().chain([linker]) {
        if Command::new(tool).arg("--version").output().is_err() {
            return Ok(format!("skipped: no {tool} (CONTRIBUTING.md lists what to install)"));
        }
    }
    let built = build(target)?;
    let _wine = Awake::new(target)?;
    let (mut shown, mut failed) = (Vec::new(), Vec::new());
    for part in parts {
        let begun = Instant::now();
        let done = part.run(target, &built);
        let told = done.as_ref().unwrap_or_else(|e| e);
        println!("{} {}: {} s: {told}", target.triple, part.name, begun.elapsed().as_secs());
        match done {
            Ok(closing) => shown.push(closing),
            Err(e) => failed.push(format!("{} {}: {e}", target.triple, part.name)),
        }
    }
    if failed.is_empty() { Ok(shown.join("; ")) } else { Err(failed.join("\n")) }
}

impl Part {
    fn run(&self, target: &Target, built: &Path) -> Result<String, String> {
        match self.work {
            Work::Tests(test, filter, shown) => {
                let mut command = emulated(target, &["--test", test, filter])?;
                status(command.args(["--", "--nocapture"]), test).map(|()| shown.into())
            }
            Work::Library => listings(target, built),
            Work::Commands => {
                let mut cli = Command::new(cargo());
                cli.args(["test", "--profile", &profile()?, "--workspace", "--test", "cli"]);
                cli.env("ANE_BINARY", wrapper(target, built)?).env("ANE_CLI_FLIPS", FLIPS);
                status(&mut cli, "cli").map(|()| "command line".into())
            }
            Work::Replay(cases, every) => replay_both(cases, every, &wrapper(target, built)?),
        }
    }
}

/// Builds the tests, the command and the C library; returns their folder.
fn build(target: &Target) -> Result<PathBuf, String> {
    let tests = PARTS.iter().filter_map(|part| match part.work {
        Work::Tests(test, ..) => Some(test),
        Work::Library => Some(LISTINGS),
        Work::Commands | Work::Replay(..) => None,
    });
    let mut command = emulated(target, &["--no-run"])?;
    status(command.args(tests.flat_map(|test| ["--test", test])), target.triple)?;
    let built = built_by_chores(target)?;
    random_numbers(target, &built)?;
    Ok(built)
}

/// Replays cases with this system's command, then with a foreign one; results must be equal bit for bit.
fn replay_both(cases: &str, every: usize, foreign: &Path) -> Result<String, String> {
    let own = own()?;
    let recording = folder().join("replay-cross").display().to_string();
    let replay = |mode: &str, binary: &Path| {
        let every = every.to_string();
        let binary = binary.display().to_string();
        let words = [mode, &recording, "--ane", &binary, "--only", cases, "--every", &every];
        let done = replay::run(&words.map(String::from));
        done.map_err(|findings| format!("replay: {}", findings.join("\n")))
    };
    replay("--record", &own)?;
    replay("--compare", foreign)
}

/// Builds programs in C with the target's library and runs them under its emulator; returns the result as text.
fn listings(target: &Target, built: &Path) -> Result<String, String> {
    let (compiler, name) = match target.linker {
        Linker::Gcc(gcc) => (PathBuf::from(gcc), "anemone_e5rt.dll"),
        Linker::Zig(system) => {
            let line = format!("exec cargo-zigbuild zig cc -- -target {system} \"$@\"");
            (script(built, "cc-here", &line)?, "libanemone_e5rt.so")
        }
        Linker::Lld | Linker::Apple | Linker::None => return Ok("no shared C library".into()),
    };
    let run = script(built, "run-here", &format!("exec env {}{} \"$@\"", settings(target), target.runner.join(" ")))?;
    let mut test = Command::new(cargo());
    test.args(["test", "--profile", &profile()?, "--workspace", "--test", LISTINGS, "--", "--nocapture"]);
    test.env("ANE_C_COMPILER", compiler).env("ANE_C_LIBRARY", built.join("deps").join(name)).env("ANE_C_RUNNER", run);
    status(&mut test, LISTINGS)?;
    Ok("programs in C run against the C library".into())
}

/// `cargo test` for the target, run by its emulator, with the profile of the chores.
fn emulated(target: &Target, arguments: &[&str]) -> Result<Command, String> {
    let mut command = Command::new(cargo());
    command.args(["test", "--profile", &profile()?, "--workspace", "--target", target.triple]);
    command.args(arguments.iter().filter(|a| !a.is_empty()));
    link(&mut command, target)?;
    command.env(variable(target, "RUNNER"), target.runner.join(" "));
    command.envs(wine(target)).env("CARGO_INCREMENTAL", "0");
    Ok(command)
}

/// Folder of a target's programs of the profile of the chores.
fn built_by_chores(target: &Target) -> Result<PathBuf, String> {
    let profile = profile()?;
    Ok(folder().join(target.triple).join(if profile == "dev" { "debug" } else { &profile }))
}

/// Environment of Wine: warnings off, with its files below the build's folder.
fn wine(target: &Target) -> Vec<(&'static str, String)> {
    if !target.is_windows() {
        return Vec::new();
    }
    // Programs in C find the C library, and the library that Wine lacks, through this path.
    let libraries = built_by_chores(target).map(|built| built.join("deps").display().to_string().replace('/', "\\"));
    let path = libraries.map(|folder| ("WINEPATH", format!("Z:{folder}")));
    let prefix = folder().join("wine").display().to_string();
    [("WINEDEBUG", "-all".into()), ("WINEPREFIX", prefix)].into_iter().chain(path.ok()).collect()
}

/// A program of Wine that waits for input: Wine's server ends a few seconds after the last program, and a program that starts in
/// that moment fails.
struct Awake(Option<Child>);

impl Awake {
    fn new(target: &Target) -> Result<Awake, String> {
        if !target.is_windows() {
            return Ok(Awake(None));
        }
        let (program, arguments) = target.runner.split_first().ok_or("nothing runs programs of Windows")?;
        let mut command = Command::new(program);
        command.args(arguments).args(["cmd", "/c", "pause"]).envs(wine(target));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Awake(Some(command.spawn().map_err(|e| format!("{program}: {e}"))?)))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

/// Source of the library that provides random numbers to Rust's standard library on Windows, implemented with a call that Wine has.
const RANDOM: &str = "#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) { return SystemFunction036(data, (ULONG)bytes); }
";

/// Puts `bcryptprimitives.dll` beside the programs for Wine, since version 8 lacks it.
fn random_numbers(target: &Target, folder: &Path) -> Result<(), String> {
    let (Linker::Gcc(gcc), true) = (target.linker, target.is_windows()) else { return Ok(()) };
    let source = folder.join("random.c");
    std::fs::write(&source, RANDOM).map_err(|e| format!("{}: {e}", source.display()))?;
    let library = folder.join("bcryptprimitives.dll");
    let mut command = Command::new(gcc);
    command.args(["-shared", "-o"]).arg(&library).arg(&source).arg("-ladvapi32");
    status(&mut command, target.triple)?;
    // Programs of tests are in a separate folder.
    let beside = folder.join("deps").join("bcryptprimitives.dll");
    std::fs::copy(&library, &beside).map(|_| ()).map_err(|e| format!("{}: {e}", beside.display()))
}

/// A script that runs the target's binary.
fn wrapper(target: &Target, folder: &Path) -> Result<PathBuf, String> {
    let binary = folder.join(target.artifacts()[0]);
    let (settings, runner) = (settings(target), target.runner.join(" "));
    script(folder, "ane-here", &format!("exec env {settings}{runner} {} \"$@\"", binary.display()))
}

/// Environment of Wine, as arguments of `env`.
fn settings(target: &Target) -> String {
    wine(target).iter().map(|(name, value)| format!("'{name}={value}' ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_name() {
        assert_eq!(named("").map(|all| all.len()), Ok(PARTS.len()));
        assert_eq!(named("golden").map(|one| one[0].name), Ok("golden"));
        assert!(named("gold").is_err_and(|e| e.contains("known are containers, digests")));
    }
}
