//! Archives and wheels: `cargo xtask release --dry-run [TARGET...]`.
//!
//! For each target an archive with the command line, the C libraries, their headers, manual pages, completions, README,
//! changelog and licences; a wheel where the table has a tag; `SHA256SUMS` over all. Everything is in `target/release-files`.
//! `--dry-run` is the only mode: nothing is published from here. Needs what `cross` needs, and `maturin` for wheels.

use crate::targets::{self, Linker, TARGETS, Target};
use crate::{Outcome, conclude, cross, repo};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that every archive has.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Shells with the files that `ane completions` writes for them.
const SHELLS: [(&str, &str); 4] =
    [("bash", "ane.bash"), ("zsh", "_ane"), ("fish", "ane.fish"), ("powershell", "_ane.ps1")];
/// Most bytes of the command line, stripped. The aim is 15 MB; what is above it would cost time of `ane compile`.
const MAX_BINARY_BYTES: u64 = 16_000_000;

/// Builds all, or the named ones.
pub fn run(arguments: &[String]) -> Outcome {
    let Some(named) = arguments.strip_prefix(&["--dry-run".to_string()]) else {
        return Err(vec!["give --dry-run: publishing is not done from here".into()]);
    };
    let chosen: Vec<&Target> = if named.is_empty() {
        TARGETS.iter().filter(|t| !t.is_core()).collect()
    } else {
        named.iter().map(|n| targets::find(n)).collect::<Result<_, _>>().map_err(|e| vec![e])?
    };
    let out = cross::folder().join("release-files");
    fs::create_dir_all(&out).map_err(|e| vec![format!("{}: {e}", out.display())])?;
    let mut findings = Vec::new();
    let own = cross::own().map_err(|e| vec![e])?;
    for target in &chosen {
        findings.extend(archive(target, &own, &out).err());
        if !target.wheel.is_empty() {
            findings.extend(wheel(target, &out).err());
        }
    }
    findings.extend(sums(&out).err());
    conclude(findings, format!("{} targets in {}", chosen.len(), out.display()))
}

/// An archive of a target; `own` is this system's command.
fn archive(target: &Target, own: &Path, out: &Path) -> Result<(), String> {
    let built = cross::build(target)?;
    let name = format!("anemone-{}-{}", env!("CARGO_PKG_VERSION"), target.triple);
    let folder = out.join(&name);
    let fail = |e: std::io::Error| format!("{name}: {e}");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(fail)?;
    let artifacts = target.artifacts().into_iter().map(|a| built.join(a));
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
        // Owner and time say nothing, so that the same build gives the same archive.
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "-czf"]);
        tar.args([&format!("{name}.tar.gz"), &name]);
        tar
    };
    let packed = pack.current_dir(out).status().map_err(fail)?;
    fs::remove_dir_all(&folder).map_err(fail)?;
    if packed.success() { Ok(()) } else { Err(format!("{name}: packing: {packed}")) }
}

/// Manual pages and completions: the same on every system, so this system's command `ane` writes them.
fn pages(ane: &Path, folder: &Path) -> Result<(), String> {
    let printed = |arguments: &[&str]| -> Result<String, String> {
        let told = |e: &dyn std::fmt::Display| format!("{} {}: {e}", ane.display(), arguments.join(" "));
        let output = Command::new(ane).args(arguments).output().map_err(|e| told(&e))?;
        if !output.status.success() {
            return Err(told(&output.status));
        }
        String::from_utf8(output.stdout).map_err(|e| told(&e))
    };
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(|e| format!("{}: {e}", path.display()))?;
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
    };
    for (shell, file) in SHELLS {
        write(folder.join("completions").join(file), &printed(&["completions", shell])?)?;
    }
    let main = printed(&["man"])?;
    for verb in verbs(&main) {
        write(folder.join("man").join(format!("ane-{verb}.1")), &printed(&["man", verb])?)?;
    }
    write(folder.join("man/ane.1"), &main)
}

/// Verbs that the program's own page refers to.
fn verbs(page: &str) -> Vec<&str> {
    let referred = |line| str::strip_prefix(line, "ane\\-").and_then(|rest: &str| rest.strip_suffix("(1)"));
    page.lines().filter_map(referred).filter(|verb| *verb != "help").collect()
}

/// A wheel of a target, and its tag against the table.
fn wheel(target: &Target, out: &Path) -> Result<(), String> {
    let mut maturin = Command::new("maturin");
    maturin.args(["build", "--profile", "dist", "--strip", "--target", target.triple, "--out"]).arg(out);
    maturin.args(["--manifest-path", "crates/python/Cargo.toml"]);
    if let (Linker::Zig(_), false) = (target.linker, target.triple.contains("musl")) {
        maturin.arg("--zig");
    }
    if let Some(version) = target.wheel.strip_prefix("manylinux_").and_then(|w| w.get(..4)) {
        maturin.args(["--compatibility", &format!("manylinux_{version}")]);
    }
    cross::environment(&mut maturin, target);
    let done = maturin.current_dir(repo::root()).status().map_err(|e| format!("maturin: {e}; pip install maturin"))?;
    if !done.success() {
        return Err(format!("{}: maturin: {done}", target.triple));
    }
    let tag = format!("-abi3-{}.whl", target.wheel);
    let made = files(out)?.iter().any(|f| f.to_string_lossy().ends_with(&tag));
    if made { Ok(()) } else { Err(format!("{}: no wheel ends in {tag}", target.triple)) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_those_of_the_page() {
        let page = ".SH SUBCOMMANDS\n.TP\nane\\-check(1)\nPlaces\n.TP\nane\\-help(1)\nPrints\n";
        assert_eq!(verbs(page), ["check"]);
    }
}
