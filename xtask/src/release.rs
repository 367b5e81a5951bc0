//! Archives and wheels: `cargo xtask release --dry-run [TARGET...]`.
//!
//! For each target an archive with the command line, the shared C libraries, their headers, manual pages, completions, README,
//! changelog and licences; a wheel if the table has a tag; `SHA256SUMS` over all. Everything is in `target/release-files`.
//! `--record` stores sizes and seconds in `docs/data/release.tsv`. `--dry-run` is the only mode: nothing is published from here. It requires the
//! tools of `cross`, and `maturin` for wheels.

use crate::targets::{self, TARGETS, Target};
use crate::{Outcome, conclude, cross, repo};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Files of the repository in every archive.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Shells, with the files of `ane completions` for them.
const SHELLS: [(&str, &str); 4] =
    [("bash", "ane.bash"), ("zsh", "_ane"), ("fish", "ane.fish"), ("powershell", "_ane.ps1")];
/// Largest size of the stripped command line in bytes; docs/install.md lists what takes it.
const MAX_BINARY_BYTES: u64 = 15_000_000;

/// Builds all, or the named ones.
pub fn run(arguments: &[String]) -> Outcome {
    let Some(arguments) = arguments.strip_prefix(&["--dry-run".to_string()]) else {
        return Err(vec!["give --dry-run [--record] [TARGET...]: publishing is not done from here".into()]);
    };
    let record = arguments.first().is_some_and(|a| a == "--record");
    let named = &arguments[usize::from(record)..];
    let chosen: Vec<&Target> = if named.is_empty() {
        TARGETS.iter().filter(|t| !t.is_core()).collect()
    } else {
        named.iter().map(|n| targets::find(n)).collect::<Result<_, _>>().map_err(|e| vec![e])?
    };
    let out = cross::folder().join("release-files");
    fs::create_dir_all(&out).map_err(|e| vec![format!("{}: {e}", out.display())])?;
    let mut findings = Vec::new();
    let mut own = None;
    for target in &chosen {
        let begun = Instant::now();
        let made = make(target, &mut own, &out);
        let seconds = begun.elapsed().as_secs();
        match made {
            Ok((bytes, build)) => {
                println!("{}: {seconds} s", target.triple);
                let row = Row { triple: target.triple.into(), bytes, seconds, build };
                findings.extend(if record { row.keep().err() } else { None });
            }
            Err(e) => findings.push(e),
        }
    }
    findings.extend(sums(&out).err());
    conclude(findings, format!("{} targets in {}", chosen.len(), out.display()))
}

/// Makes archive and wheel of a target; returns sizes and build as in [`Row`]. `own` is a command that runs here, once one is built.
fn make(target: &Target, own: &mut Option<PathBuf>, out: &Path) -> Result<([u64; 4], String), String> {
    let built = cross::build(target)?;
    let runs = target.triple.starts_with("x86_64-unknown-linux").then(|| built.join(target.artifacts()[0]));
    let own = match own.take().or(runs) {
        Some(command) => own.insert(command),
        None => own.insert(cross::own()?),
    };
    let size = |path: &Path| path.metadata().map(|m| m.len()).map_err(|e| format!("{}: {e}", path.display()));
    let archive = archive(target, own, &built, out)?;
    let wheel = if target.wheel.is_empty() { 0 } else { size(&wheel(target, out)?)? };
    // Static libraries are not in archives.
    let packed = |i: usize| target.packed().get(i).map_or(Ok(0), |name| size(&built.join(name)));
    Ok(([packed(0)?, packed(1)?, size(&archive)?, wheel], sources(own)?))
}

/// Digest of the sources of a command, from its doctor.
fn sources(ane: &Path) -> Result<String, String> {
    let told = printed(ane, &["doctor"])?;
    let build = told.split_once(", build ").and_then(|(_, rest)| rest.split_once(','));
    build.map(|(build, _)| build.into()).ok_or_else(|| format!("{}: its doctor names no build", ane.display()))
}

/// An archive of the build for a target; `own` is this system's command.
fn archive(target: &Target, own: &Path, built: &Path, out: &Path) -> Result<PathBuf, String> {
    println!("{}{}", target.triple, cross::offers(target, built)?);
    let name = format!("anemone-{}-{}", env!("CARGO_PKG_VERSION"), target.triple);
    let folder = out.join(&name);
    let fail = |e: std::io::Error| format!("{name}: {e}");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(fail)?;
    let artifacts = target.packed().into_iter().map(|a| built.join(a));
    let documents = DOCUMENTS.iter().copied().chain(target.headers().iter().copied()).map(repo::at);
    for file in artifacts.chain(documents) {
        let to = folder.join(file.file_name().unwrap_or_default());
        fs::copy(&file, to).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    pages(own, &folder)?;
    let bytes = built.join(target.artifacts()[0]).metadata().map_err(fail)?.len();
    if bytes > MAX_BINARY_BYTES {
        return Err(format!("{name}: the command line has {bytes} bytes, at most {MAX_BINARY_BYTES} are wanted"));
    }
    let mut pack = if target.is_windows() {
        let mut python = Command::new("python3");
        python.args(["-m", "zipfile", "-c", &format!("{name}.zip"), &name]);
        python
    } else {
        // Owner and time are fixed, so that the same build gives the same archive.
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf"]);
        tar.args([&format!("{name}.tar.gz"), &name]);
        tar
    };
    let packed = pack.current_dir(out).status().map_err(fail)?;
    fs::remove_dir_all(&folder).map_err(fail)?;
    let ending = if target.is_windows() { "zip" } else { "tar.gz" };
    if packed.success() { Ok(out.join(format!("{name}.{ending}"))) } else { Err(format!("{name}: packing: {packed}")) }
}

/// Runs a command and returns its standard output.
fn printed(ane: &Path, arguments: &[&str]) -> Result<String, String> {
    let told = |e: &dyn std::fmt::Display| format!("{} {}: {e}", ane.display(), arguments.join(" "));
    let output = Command::new(ane).args(arguments).output().map_err(|e| told(&e))?;
    if !output.status.success() {
        return Err(told(&output.status));
    }
    String::from_utf8(output.stdout).map_err(|e| told(&e))
}

/// Manual pages and completions, which are the same on every system, written by this system's command.
fn pages(ane: &Path, folder: &Path) -> Result<(), String> {
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(|e| format!("{}: {e}", path.display()))?;
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    for (shell, file) in SHELLS {
        write(folder.join("completions").join(file), &printed(ane, &["completions", shell])?)?;
    }
    let main = printed(ane, &["man"])?;
    for verb in verbs(&main) {
        write(folder.join("man").join(format!("ane-{verb}.1")), &printed(ane, &["man", verb])?)?;
    }
    write(folder.join("man/ane.1"), &main)
}

/// Verbs that the program's own manual page refers to.
fn verbs(page: &str) -> Vec<&str> {
    let referred = |line| str::strip_prefix(line, "ane\\-").and_then(|rest: &str| rest.strip_suffix("(1)"));
    page.lines().filter_map(referred).filter(|verb| *verb != "help").collect()
}

/// A wheel of a target, with its tag checked against the table.
fn wheel(target: &Target, out: &Path) -> Result<PathBuf, String> {
    let mut maturin = Command::new("maturin");
    maturin.args(["build", "--profile", "dist", "--strip", "--target", target.triple, "--out"]).arg(out);
    maturin.args(["--manifest-path", "crates/python/Cargo.toml"]);
    if let Some(version) = target.wheel.strip_prefix("manylinux_").and_then(|w| w.get(..4)) {
        maturin.args(["--compatibility", &format!("manylinux_{version}")]);
    }
    cross::environment(&mut maturin, target)?;
    let done = maturin.current_dir(repo::root()).status().map_err(|e| format!("maturin: {e}; pip install maturin"))?;
    if !done.success() {
        return Err(format!("{}: maturin: {done}", target.triple));
    }
    let tag = format!("-abi3-{}.whl", target.wheel);
    let made = files(out)?.into_iter().find(|f| f.to_string_lossy().ends_with(&tag));
    made.ok_or_else(|| format!("{}: no wheel ends in {tag}", target.triple))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(|p| p.is_file()).collect();
    all.sort();
    Ok(all)
}

/// Checksums in the form of `sha256sum`.
fn sums(out: &Path) -> Result<(), String> {
    let mut text = String::new();
    for file in files(out)?.iter().filter(|f| f.file_name().is_some_and(|n| n != "SHA256SUMS")) {
        let bytes = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("{name}: {:.1} MB", bytes.len() as f64 / 1e6);
        text.push_str(&format!("{digest}  {name}\n"));
    }
    fs::write(out.join("SHA256SUMS"), text).map_err(|e| e.to_string())
}

/// Sizes stored by `--record`, one row per target, for `docs/install.md`.
pub const RECORD: &str = "docs/data/release.tsv";

/// Sizes of one target's release.
pub struct Row {
    /// Target.
    pub triple: String,
    /// Sizes in bytes of the command line, the shared C library, the archive and the wheel; 0 if there is none.
    pub bytes: [u64; 4],
    /// Seconds of the build; 0 if it was not measured separately.
    pub seconds: u64,
    /// Digest of the sources, as in `ane doctor`.
    pub build: String,
}

impl Row {
    /// Rows of the record.
    ///
    /// # Errors
    /// A line with another number of cells.
    pub fn read(text: &str) -> Result<Vec<Row>, String> {
        let rows = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let row = |line: &str| {
            let (triple, numbers) = line.split_once('\t')?;
            let (numbers, build) = numbers.rsplit_once('\t')?;
            let numbers: Vec<u64> = numbers.split('\t').map(|n| n.parse().ok()).collect::<Option<_>>()?;
            let [command, library, archive, wheel, seconds] = numbers[..] else { return None };
            Some(Row { triple: triple.into(), bytes: [command, library, archive, wheel], seconds, build: build.into() })
        };
        let told = |line: &str| format!("{RECORD}: a target, five numbers and a build expected in `{line}`");
        rows.map(|line| row(line).ok_or_else(|| told(line))).collect()
    }

    fn line(&self) -> String {
        let [command, library, archive, wheel] = self.bytes;
        format!("{}\t{command}\t{library}\t{archive}\t{wheel}\t{}\t{}\n", self.triple, self.seconds, self.build)
    }

    /// Stores the row in the record, replacing an older one.
    fn keep(self) -> Result<(), String> {
        let mut rows = Row::read(&repo::read(RECORD)?)?;
        rows.retain(|row| row.triple != self.triple);
        rows.push(self);
        let place = |row: &Row| TARGETS.iter().position(|t| t.triple == row.triple);
        rows.sort_by_key(place);
        let lines: String = rows.iter().map(Row::line).collect();
        let head = "# Bytes of the command line, the shared C library, the archive and the wheel; seconds of the build; sources.\n";
        fs::write(repo::at(RECORD), format!("{head}{lines}")).map_err(|e| format!("{RECORD}: {e}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_are_written() {
        let line = "x86_64-unknown-linux-gnu\t1\t2\t3\t0\t50\t0f\n";
        let rows = Row::read(&format!("# head\n{line}")).expect("a row");
        assert_eq!(rows.iter().map(Row::line).collect::<String>(), line);
        assert!(Row::read("x\t1\t2").is_err_and(|e| e.contains("five numbers")));
    }

    #[test]
    fn verbs_are_those_of_the_page() {
        let page = ".SH SUBCOMMANDS\n.TP\nane\\-check(1)\nPlaces\n.TP\nane\\-help(1)\nPrints\n";
        assert_eq!(verbs(page), ["check"]);
    }
}
