//! Builds for other targets from x86-64 Linux: `cargo xtask cross [--check | --test] [TARGET...]`.
//!
//! Required in addition to rustup: for Windows Debian's `gcc-mingw-w64-x86-64`, for Linux with shared libraries and for macOS `cargo-zigbuild` and
//! `ziglang` of PyPI on the path. `--check` needs neither; without targets it checks two foreign
//! systems and the core, and that unsupported processors are refused. `--test` runs tests under an emulator, or reports that
//! there is none.

mod symbols;

use crate::targets::{self, Linker, TARGETS, Target};
use crate::{Outcome, conclude, replay, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The system that builds.
const HERE: &str = "x86_64-unknown-linux-gnu";

/// Checks or builds.
pub fn run(arguments: &[String]) -> Outcome {
    let given = |flag: &str| arguments.iter().any(|a| a == flag);
    let (check, test) = (given("--check"), given("--test"));
    let named: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    if check && test || arguments.len() > named.len() + 1 || arguments.len() > named.len() && !check && !test {
        return Err(vec!["known are --check and --test, one of them".into()]);
    }
    let chosen: Vec<&Target> = if named.is_empty() {
        TARGETS
            .iter()
            .filter(|t| if check { t.in_ci } else { !t.is_core() && (!test || !t.runner.is_empty()) })
            .collect()
    } else {
        named.iter().map(|n| targets::find(n)).collect::<Result<_, _>>().map_err(|e| vec![e])?
    };
    if check {
        return check_all(&chosen);
    }
    let mut findings = Vec::new();
    for target in &chosen {
        let done = match test {
            true => test_one(target),
            false => {
                build(target).and_then(|built| Ok(format!("{}{}", sizes(target, &built), offers(target, &built)?)))
            }
        };
        match done {
            Ok(closing) => println!("{}: {closing}", target.triple),
            Err(e) => findings.push(e),
        }
    }
    conclude(findings, format!("{} targets {}", chosen.len(), if test { "tried" } else { "built" }))
}

/// Checks targets, several in one command where possible, so that all processors are busy, and with the features of the whole workspace, so that
/// build scripts and macros are shared with every other step of this profile.
fn check_all(chosen: &[&Target]) -> Outcome {
    let (mut checked, mut findings) = (0, Vec::new());
    for core in [false, true] {
        let mut command = Command::new(cargo());
        command.args(["check", "--quiet", "--lib", "--profile", &profile().map_err(|e| vec![e])?]);
        match core {
            true => command.args(["--package", "anemone", "--no-default-features"]),
            false => command.args(["--workspace", "--bin", "ane"]),
        };
        let mut present = Vec::new();
        for target in chosen.iter().filter(|t| t.is_core() == core) {
            match add(target.triple) {
                Ok(()) => present.push(target.triple),
                Err(why) => println!("{}: skipped: {why}", target.triple),
            }
        }
        if present.is_empty() {
            continue;
        }
        command.args(present.iter().flat_map(|triple| ["--target", triple]));
        match status(&mut command, &present.join(" ")) {
            Ok(()) => checked += present.len(),
            Err(e) => findings.push(e),
        }
    }
    let mut refused = 0;
    for (triple, message) in targets::REFUSED {
        match add(triple) {
            Ok(()) => {
                findings.extend(refusal(triple, message).err());
                refused += 1;
            }
            Err(why) => println!("{triple}: skipped: {why}"),
        }
    }
    conclude(findings, format!("{checked} targets checked, {refused} refused by name"))
}

/// Checks that a processor is refused at compile time, by this message.
fn refusal(triple: &str, message: &str) -> Result<(), String> {
    let mut command = Command::new(cargo());
    command.args([
        "check",
        "--quiet",
        "--lib",
        "--profile",
        &profile()?,
        "--package",
        "anemone-program",
        "--target",
        triple,
    ]);
    let output = command.current_dir(repo::root()).output().map_err(|e| format!("{triple}: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match (output.status.success(), errors.contains(message)) {
        (false, true) => Ok(()),
        (true, _) => Err(format!("{triple}: compiles, and a refusal is expected: {message}")),
        (false, false) => Err(format!("{triple}: other errors than `{message}`:\n{errors}")),
    }
}

/// Tests of a target's own build that run under its emulator: containers, results against recorded digests, and a cache whose entries are
/// open, damaged, shared or below a long path.
const TESTS: [(&str, &str); 3] = [("program", ""), ("nets", "fingerprint"), ("acceptance", "cache")];
/// Test of the C library; it runs on this system and starts the emulator for each program.
const LISTINGS: &str = "listings";
/// Number of damaged copies of each file in the tests of the command line: an emulated command takes a second.
const FLIPS: &str = "6";

/// Tests a target's binary under its emulator: the tests of containers, digests and the command line, and a replay of packages,
/// golden programs and random networks compared with the binary of this system, bit for bit.
fn test_one(target: &Target) -> Result<String, String> {
    let Some(runner) = target.runner.first() else {
        return Ok("skipped: nothing runs its programs here".into());
    };
    let linker = match target.linker {
        Linker::Gcc(gcc) => gcc,
        Linker::Zig(_) => "cargo-zigbuild",
        Linker::Lld | Linker::Apple | Linker::None => "rustc",
    };
    for tool in [runner, linker] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Ok(format!("skipped: no {tool} (CONTRIBUTING.md lists what to install)"));
        }
    }
    let mut tests = emulated(target, &["--no-run"])?;
    let names = TESTS.iter().map(|(test, _)| *test).chain([LISTINGS]);
    status(tests.args(names.flat_map(|test| ["--test", test])), target.triple)?;
    let built = built_by_chores(target)?;
    random_numbers(target, &built)?;
    // After a failure, the other parts run as well.
    let own_tests = TESTS
        .map(|(test, filter)| status(emulated(target, &["--test", test, filter])?.args(["--", "--nocapture"]), test));
    let foreign = wrapper(target, &built)?;
    let library = listings(target, &built);
    let mut cli = Command::new(cargo());
    cli.args(["test", "--profile", &profile()?, "--workspace", "--test", "cli"]);
    let cli = status(cli.env("ANE_BINARY", &foreign).env("ANE_CLI_FLIPS", FLIPS), "cli");
    let replayed = replay_both(&foreign);
    let failed = own_tests.into_iter().chain([cli]).filter_map(Result::err);
    let failed: Vec<String> =
        failed.chain(library.as_ref().err().cloned()).chain(replayed.as_ref().err().cloned()).collect();
    match (library, replayed, failed.is_empty()) {
        (Ok(library), Ok(closing), true) => Ok(format!(
            "tests of containers, of the cache and of the command line pass; {library}; digests equal; {closing}"
        )),
        _ => Err(format!("{}: {}", target.triple, failed.join("\n"))),
    }
}

/// Replays cases with this system's command, then with a foreign one; results must be equal bit for bit.
fn replay_both(foreign: &Path) -> Result<String, String> {
    let own = own()?;
    let recording = folder().join("replay-cross").display().to_string();
    let replay = |mode: &str, binary: &Path| {
        let done = replay::run(&[mode.into(), recording.clone(), "--ane".into(), binary.display().to_string()]);
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

/// Cargo's environment variable for a setting of a target.
fn variable(target: &Target, setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", target.triple.replace('-', "_").to_uppercase())
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

/// Lines of a script that calls the linker directly with arguments for a C compiler, as maturin passes them.
const DIRECT: &str = "for a; do
  shift
  case $a in
    -Wl,*) IFS=,; set -- \"$@\" ${a#-Wl,}; unset IFS;;
    *) set -- \"$@\" \"$a\";;
  esac
done
exec \"$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld\" \"$@\"";

/// Lines of a script that links with `zig cc`, then again with identical functions folded: zig rejects that option, but prints the arguments
/// of its linker.
const FOLDED: &str = "told=$(cargo-zigbuild zig cc -- -v -g -fno-sanitize=all -target SYSTEM \"$@\" 2>&1) || { echo \"$told\" >&2; exit 1; }
exec python3 -m ziglang ld.lld --icf=all $(printf '%s\n' \"$told\" | sed -n 's/^ld.lld //p')";

/// Writes a script with these lines.
fn script(folder: &Path, name: &str, lines: &str) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    let text = format!("#!/bin/sh\n{lines}\n");
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    if std::fs::read_to_string(&path).ok().as_deref() != Some(&text) {
        std::fs::create_dir_all(folder).map_err(fail)?;
        std::fs::write(&path, text).map_err(fail)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(fail)?;
    }
    Ok(path)
}

/// Builds a target; returns the folder of its artifacts.
pub fn build(target: &Target) -> Result<PathBuf, String> {
    add(target.triple)?;
    let mut command = Command::new(cargo());
    command.args(["build", "--profile", "dist", "--target", target.triple]);
    // With the Python module, so that its wheel reuses all dependencies: the same features, the same linker.
    command.args(target.packages().iter().chain(target.module()).flat_map(|p| ["--package", p]));
    environment(&mut command, target)?;
    status(&mut command, target.triple)?;
    Ok(folder().join(target.triple).join("dist"))
}

/// Linkers and flags of the target, and of build scripts here. Cargo rebuilds everything when a linker's path changes, so all steps of a target
/// share one script, and build scripts and macros of all targets another.
pub fn environment(command: &mut Command, target: &Target) -> Result<(), String> {
    link(command, targets::find(HERE)?)?;
    link(command, target)
}

/// Linker and flags of one target.
fn link(command: &mut Command, target: &Target) -> Result<(), String> {
    let linker = match target.linker {
        Linker::Gcc(gcc) => gcc.into(),
        Linker::Zig(system) => script(&folder(), &format!("zig-{}", target.triple), &FOLDED.replace("SYSTEM", system))?,
        Linker::Lld => "rust-lld".into(),
        Linker::Apple => {
            command.env("SDKROOT", symbols::library(&folder())?);
            // maturin sets it as well, and another value, or none, makes cargo rebuild everything.
            command.env("MACOSX_DEPLOYMENT_TARGET", target.oldest_macos());
            script(&folder(), &format!("lld-{}", target.triple), DIRECT)?
        }
        Linker::None => return Err(format!("{}: checked, never linked", target.triple)),
    };
    command.env(variable(target, "LINKER"), linker);
    if !target.flags.is_empty() {
        command.env(variable(target, "RUSTFLAGS"), target.flags);
    }
    Ok(())
}

/// For macOS, the number of symbols that the programs import from the system, and their minimum system version.
pub fn offers(target: &Target, folder: &Path) -> Result<String, String> {
    if !target.is_macos() {
        return Ok(String::new());
    }
    let checked = |name: &str| symbols::check(&folder.join(name), target.triple, target.wheel);
    let names: usize = target.artifacts().into_iter().map(checked).sum::<Result<_, _>>()?;
    Ok(format!("; {names} names asked of the system, all offered"))
}

fn sizes(target: &Target, folder: &Path) -> String {
    let size = |name: &&str| {
        let bytes = folder.join(name).metadata().map_or(0, |m| m.len());
        format!("{name} {:.1} MB", bytes as f64 / 1e6)
    };
    target.artifacts().iter().map(size).collect::<Vec<_>>().join(", ")
}

/// Adds the standard library of a target with rustup if it is missing.
fn add(triple: &str) -> Result<(), String> {
    let present = || {
        let have = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output();
        have.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
    };
    let added = || Command::new("rustup").args(["target", "add", triple]).status().is_ok_and(|s| s.success());
    if present() || added() { Ok(()) } else { Err(format!("no standard library: rustup target add {}", triple)) }
}

/// Runs a command; errors state its purpose.
fn status(command: &mut Command, purpose: &str) -> Result<(), String> {
    match command.current_dir(repo::root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{purpose}: {status}")),
        Err(e) => Err(format!("{purpose}: {e}")),
    }
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// This system's command, built with the profile of the chores.
pub fn own() -> Result<PathBuf, String> {
    let mut command = Command::new(cargo());
    command.args(["build", "--profile", &profile()?, "--workspace", "--bin", "ane"]);
    let done = command.current_dir(repo::root()).status().map_err(|e| e.to_string())?;
    if !done.success() {
        return Err(format!("this system's command: {done}"));
    }
    Ok(std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("ane"))
}

/// Profile of the chores, from the name of their folder.
fn profile() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = own.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    Ok(if folder == "debug" { "dev".into() } else { folder })
}

/// Cargo's target folder.
pub fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repo::at("target"), PathBuf::from)
}
