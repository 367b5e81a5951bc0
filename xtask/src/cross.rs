//! Builds for other targets from x86-64 Linux: `cargo xtask cross [--check | --test [--only PART]] [TARGET...]`.
//!
//! Required in addition to rustup: for Windows Debian's `gcc-mingw-w64-x86-64`, for Linux with shared libraries and for macOS `cargo-zigbuild` and
//! `ziglang` of PyPI on the path. `--check` needs neither; without targets it checks two foreign
//! systems, and a processor that is not supported must be refused if its target is named. `--test` runs tests under an emulator, or reports that
//! there is none; `--only` selects one part of them.

mod parts;
mod symbols;

use crate::targets::{self, Linker, TARGETS, Target};
use crate::{Outcome, conclude, repo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The system that builds.
const HERE: &str = "x86_64-unknown-linux-gnu";

const USAGE: &str = "usage: cargo xtask cross [--check | --test [--only PART]] [TARGET...]";

/// Arguments of the command line.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    /// `--check`, `--test`, or empty for a build.
    mode: String,
    /// Part of the tests; empty for all.
    only: String,
    targets: Vec<String>,
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" | "--test" if asked.mode.is_empty() => asked.mode.clone_from(word),
            "--check" | "--test" => return Err("--check and --test exclude each other".into()),
            "--only" => asked.only.clone_from(words.next().ok_or("--only: a part is missing")?),
            _ if word.starts_with('-') => return Err(format!("{word}: unknown option")),
            _ => asked.targets.push(word.clone()),
        }
    }
    if asked.only.is_empty() || asked.mode == "--test" { Ok(asked) } else { Err("--only needs --test".into()) }
}

/// Checks, builds or tests.
pub fn run(arguments: &[String]) -> Outcome {
    let asked = parse(arguments).map_err(|e| vec![e, USAGE.into()])?;
    let (check, test) = (asked.mode == "--check", asked.mode == "--test");
    let parts = if test { parts::named(&asked.only).map_err(|e| vec![e])? } else { Vec::new() };
    let is_refused = |name: &String| check && targets::REFUSED.iter().any(|(triple, _)| triple == name);
    let (refused, named): (Vec<&String>, Vec<&String>) = asked.targets.iter().partition(|name| is_refused(name));
    let chosen: Vec<&Target> = if asked.targets.is_empty() {
        TARGETS
            .iter()
            .filter(|t| if check { t.in_ci } else { !t.is_core() && (!test || !t.runner.is_empty()) })
            .collect()
    } else {
        named.iter().map(|n| targets::find(n)).collect::<Result<_, _>>().map_err(|e| vec![e])?
    };
    if check {
        return check_all(&chosen, &refused);
    }
    let mut findings = Vec::new();
    for target in &chosen {
        let done = match test {
            true => parts::test(target, &parts),
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
/// build scripts and macros are shared with every other step of this profile. Then checks that processors are refused.
fn check_all(chosen: &[&Target], refused: &[&String]) -> Outcome {
    let (mut checked, mut findings) = (0, Vec::new());
    for core in [false, true] {
        let mut command = Command::new(cargo());
        command.args(["check", "--quiet", "--lib", "--profile", &profile().map_err(|e| vec![e])?]);
        match core {
            true => command.args(["--package", "anemone", "--no-default-features"]),
            // The validator of tests runs here alone.
            false => command.args(["--workspace", "--exclude", "anemone-schema", "--bin", "ane"]),
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
    let mut refusals = 0;
    for (triple, message) in targets::REFUSED.iter().filter(|(triple, _)| refused.iter().any(|r| r == triple)) {
        match add(triple) {
            Ok(()) => {
                findings.extend(refusal(triple, message).err());
                refusals += 1;
            }
            Err(why) => println!("{triple}: skipped: {why}"),
        }
    }
    conclude(findings, format!("{checked} targets checked, {refusals} refused by name"))
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

/// Lines of a script that calls the linker directly with arguments for a C compiler, as maturin passes them.
const DIRECT: &str = "for a; do
  shift
  case $a in
    -Wl,*) IFS=,; set -- \"$@\" ${a#-Wl,}; unset IFS;;
    *) set -- \"$@\" \"$a\";;
  esac
done
exec \"$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld\" \"$@\"";

/// Lines of a script that links with `zig cc`, then again with identical functions and constants folded: zig rejects these options, but prints the
/// arguments of its linker.
const FOLDED: &str = "told=$(cargo-zigbuild zig cc -- -v -g -fno-sanitize=all -target SYSTEM \"$@\" 2>&1) || { echo \"$told\" >&2; exit 1; }
exec python3 -m ziglang ld.lld --icf=all --ignore-data-address-equality $(printf '%s\n' \"$told\" | sed -n 's/^ld.lld //p')";

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

/// Cargo's environment variable for a setting of a target.
fn variable(target: &Target, setting: &str) -> String {
    format!("CARGO_TARGET_{}_{setting}", target.triple.replace('-', "_").to_uppercase())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        let wanted = Asked { mode: "--test".into(), only: "cache".into(), targets: vec!["t".into(), "u".into()] };
        assert_eq!(parse(&words("t --test --only cache u")), Ok(wanted));
        for wrong in ["--check --test", "--test --only", "--only cache", "--check --only cache", "--chek"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }
}
