//! Builds for other targets from x86-64 Linux: `cargo xtask cross [--check | --test] [TARGET...]`.
//!
//! Needed beside rustup: for Windows Debian's `gcc-mingw-w64-x86-64`, for the others `cargo-zigbuild` and `ziglang` of PyPI
//! on the path. `--check` needs neither, and without targets takes two foreign
//! systems and the core. `--test` runs tests under an emulator, and says so where there is none.

use crate::targets::{self, Linker, TARGETS, Target};
use crate::{Outcome, conclude, replay, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let mut findings = Vec::new();
    for target in &chosen {
        let done = match (check, test) {
            (true, _) => check_one(target),
            (_, true) => test_one(target),
            _ => build(target).map(|folder| sizes(target, &folder)),
        };
        match done {
            Ok(closing) => println!("{}: {closing}", target.triple),
            Err(e) => findings.push(e),
        }
    }
    conclude(
        findings,
        format!(
            "{} targets {}",
            chosen.len(),
            if check {
                "checked"
            } else if test {
                "tried"
            } else {
                "built"
            }
        ),
    )
}

fn check_one(target: &Target) -> Result<String, String> {
    if let Err(why) = add(target) {
        return Ok(format!("skipped: {why}"));
    }
    let mut command = Command::new(cargo());
    // Build scripts and macros are built once for all steps of this profile.
    command.args(["check", "--profile", &profile()?, "--quiet", "--target", target.triple]);
    if target.is_core() {
        command.args(["--package", "anemone", "--lib", "--no-default-features"]);
    } else {
        command.args(target.packages().iter().chain(&["anemone-python"]).flat_map(|p| ["--package", p]));
    }
    status(command, target)?;
    Ok("checks".into())
}

/// Tests a target's binary under its emulator: the tests of the command line, and a replay of packages, golden programs and
/// random networks against the binary of this system, bit for bit.
fn test_one(target: &Target) -> Result<String, String> {
    let Some(runner) = target.runner.first() else {
        return Ok("skipped: nothing runs its programs here".into());
    };
    let linker = if let Linker::Gcc(gcc) = target.linker { gcc } else { "cargo-zigbuild" };
    for tool in [runner, linker] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Ok(format!("skipped: no {tool} (CONTRIBUTING.md lists what to install)"));
        }
    }
    let built = build(target)?;
    random_numbers(target, &built)?;
    let foreign = wrapper(target, &built)?;
    let own = own()?;
    let mut cli = Command::new(cargo());
    cli.args(["test", "--profile", &profile()?, "--workspace", "--test", "cli"]).env("ANE_BINARY", &foreign);
    status(cli, target)?;
    let recording = folder().join("replay-cross");
    let replay = |mode: &str, binary: &Path| {
        let (folder, binary) = (recording.display().to_string(), binary.display().to_string());
        let done = replay::run(&[mode.into(), folder, "--ane".into(), binary]);
        done.map_err(|findings| format!("{}: {}", target.triple, findings.join("\n")))
    };
    replay("--record", &own)?;
    replay("--compare", &foreign)
}

/// Source of the library in which Rust's standard library looks for random numbers on Windows, over the call that Wine has.
const RANDOM: &str = "#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T bytes) { return SystemFunction036(data, (ULONG)bytes); }
";

/// Puts `bcryptprimitives.dll` beside the programs for Wine: version 8 does not bring it.
fn random_numbers(target: &Target, folder: &Path) -> Result<(), String> {
    let (Linker::Gcc(gcc), true) = (target.linker, target.is_windows()) else { return Ok(()) };
    let source = folder.join("random.c");
    std::fs::write(&source, RANDOM).map_err(|e| format!("{}: {e}", source.display()))?;
    let mut command = Command::new(gcc);
    command.args(["-shared", "-o"]).arg(folder.join("bcryptprimitives.dll")).arg(&source).arg("-ladvapi32");
    status(command, target)
}

/// A script that runs the target's binary.
fn wrapper(target: &Target, folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("ane-here");
    let binary = folder.join(target.artifacts()[0]);
    let text = format!("#!/bin/sh\nexec {} {} \"$@\"\n", target.runner.join(" "), binary.display());
    let fail = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::write(&path, text).map_err(fail)?;
    let done = Command::new("chmod").arg("+x").arg(&path).status().map_err(fail)?;
    if done.success() { Ok(path) } else { Err(format!("{}: chmod: {done}", path.display())) }
}

/// Builds a target; the folder of its artifacts.
pub fn build(target: &Target) -> Result<PathBuf, String> {
    add(target)?;
    let mut command = Command::new(cargo());
    let glibc = match target.linker {
        Linker::Zig(glibc) => glibc,
        Linker::Gcc(_) => "",
        Linker::None => return Err(format!("{}: checked, never linked", target.triple)),
    };
    command.arg(if matches!(target.linker, Linker::Zig(_)) { "zigbuild" } else { "build" });
    command.args(["--profile", "dist", "--target", &format!("{}{glibc}", target.triple)]);
    // The module for Python is linked where its wheel is made.
    command.args(target.packages().iter().flat_map(|p| ["--package", p]));
    environment(&mut command, target);
    status(command, target)?;
    Ok(folder().join(target.triple).join("dist"))
}

/// The linker.
pub fn environment(command: &mut Command, target: &Target) {
    let name = target.triple.replace('-', "_").to_uppercase();
    if let Linker::Gcc(gcc) = target.linker {
        command.env(format!("CARGO_TARGET_{name}_LINKER"), gcc);
    }
}

fn sizes(target: &Target, folder: &Path) -> String {
    let size = |name: &&str| {
        let bytes = folder.join(name).metadata().map_or(0, |m| m.len());
        format!("{name} {:.1} MB", bytes as f64 / 1e6)
    };
    target.artifacts().iter().map(size).collect::<Vec<_>>().join(", ")
}

/// The standard library of a target; fetched where it is absent.
fn add(target: &Target) -> Result<(), String> {
    let present = || {
        let have = Command::new("rustc").args(["--print", "target-libdir", "--target", target.triple]).output();
        have.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
    };
    let added = || Command::new("rustup").args(["target", "add", target.triple]).status().is_ok_and(|s| s.success());
    if present() || added() { Ok(()) } else { Err(format!("no standard library: rustup target add {}", target.triple)) }
}

fn status(mut command: Command, target: &Target) -> Result<(), String> {
    match command.current_dir(repo::root()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", target.triple)),
        Err(e) => Err(format!("{}: {e}", target.triple)),
    }
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// This system's command, built by the profile of the chores.
pub fn own() -> Result<PathBuf, String> {
    let mut command = Command::new(cargo());
    command.args(["build", "--profile", &profile()?, "--workspace", "--bin", "ane"]);
    let done = command.current_dir(repo::root()).status().map_err(|e| e.to_string())?;
    if !done.success() {
        return Err(format!("this system's command: {done}"));
    }
    Ok(std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("ane"))
}

/// Profile that the chores are built by: the name of their folder, except for one.
fn profile() -> Result<String, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = own.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    Ok(if folder == "debug" { "dev".into() } else { folder })
}

/// Cargo's target folder.
pub fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repo::at("target"), PathBuf::from)
}
