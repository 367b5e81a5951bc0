//! A digest of what decides which words a network compiles to: keys of the cache have it, so that another compiler never finds
//! the programs of this one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Crates that a program comes from.
const CRATES: &[&str] = &["facts", "net", "check", "program", "compile"];

fn main() -> io::Result<()> {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    let mut hash = DefaultHasher::new();
    env::var("CARGO_PKG_VERSION").unwrap_or_default().hash(&mut hash);
    for name in CRATES {
        let sources = crates.join(name).join("src");
        println!("cargo:rerun-if-changed={}", sources.display());
        let mut files = Vec::new();
        collect(&sources, &mut files)?;
        files.sort();
        for file in files {
            file.strip_prefix(&crates).unwrap_or(&file).hash(&mut hash);
            fs::read(&file)?.hash(&mut hash);
        }
    }
    println!("cargo:rustc-env=ANE_SOURCES={:016x}", hash.finish());
    Ok(())
}

/// Files in a folder, which a crate that is packed alone does not have beside it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() { collect(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
