//! Check of a macOS program's imports against the symbols of the system's libraries, since such a program is linked here but
//! cannot run.

use object::read::macho::{LoadCommandVariant, MachOFile64};
use object::{Endianness, Object};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only library of the system that programs may import from.
const LIBRARY: &str = "/usr/lib/libSystem.B.dylib";
/// The list of its symbols, in the folder of `ziglang`.
const LIST: &str = "lib/libc/darwin/libSystem.tbd";

/// Architectures in the list that `rust-lld` does not know.
const UNKNOWN: [&str; 2] = ["arm64e.x1-macos", "arm64e.x1-maccatalyst"];

/// Names of the system's library in link commands. Rust's library links `iconv` without calling it.
const LIBRARIES: [&str; 4] = ["libSystem.tbd", "libc.tbd", "libm.tbd", "libiconv.tbd"];

/// Writes the list for the linker, under the names of the system's library in link commands; returns the folder with the
/// structure of Apple's SDK.
///
/// # Errors
/// A missing list, a folder that cannot be written.
pub fn library(folder: &Path) -> Result<PathBuf, String> {
    let root = folder.join("apple");
    let names = root.join("usr/lib");
    if LIBRARIES.iter().all(|name| names.join(name).exists()) {
        return Ok(root);
    }
    let list = list()?;
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let text = known(&text);
    std::fs::create_dir_all(&names).map_err(|e| format!("{}: {e}", names.display()))?;
    for name in LIBRARIES {
        let path = names.join(name);
        std::fs::write(&path, &text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(root)
}

/// The list without unknown architectures, which are never first.
fn known(list: &str) -> String {
    let mut parts = list.split(',');
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        match UNKNOWN.iter().find_map(|name| part.trim_start().strip_prefix(name)) {
            Some(rest) => text.push_str(rest),
            None => text.extend([",", part]),
        }
    }
    text
}

/// Checks a program's imports and returns their number.
///
/// # Errors
/// A file that is not a program, a program for newer systems than the wheel's tag (`macosx_11_0_arm64`), an import from another library, or
/// an unknown symbol.
pub fn check(file: &Path, triple: &str, wheel: &str) -> Result<usize, String> {
    let list = list()?;
    let text = std::fs::read_to_string(&list).map_err(|e| format!("{}: {e}", list.display()))?;
    let system = if triple.starts_with("aarch64") { "arm64e-macos" } else { "x86_64-macos" };
    let offered = offered(&text, system);
    if offered.is_empty() {
        return Err(format!("{}: no names for {system}", list.display()));
    }
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let oldest = oldest(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let oldest = oldest.ok_or_else(|| format!("{}: names no oldest macOS", file.display()))?;
    if !wheel.starts_with(&format!("macosx_{oldest}_")) {
        return Err(format!("{}: for macOS from {oldest} on, and the wheel's tag is {wheel}", file.display()));
    }
    let imports = imports(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    let missing = missing(&imports, &offered);
    if missing.is_empty() {
        Ok(imports.len())
    } else {
        Err(format!("{}: not offered by the system: {}", file.display(), missing.join(", ")))
    }
}

/// Library and name of each import.
fn imports(bytes: &[u8]) -> object::Result<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let program = object::File::parse(bytes)?;
    program
        .imports()?
        .map(|import| import.map(|i| (text(i.library()), text(i.name().name().unwrap_or_default()))))
        .collect()
}

/// The minimum system version of a program, as `11_0`.
fn oldest(bytes: &[u8]) -> object::Result<Option<String>> {
    let program = MachOFile64::<Endianness>::parse(bytes)?;
    let mut commands = program.macho_load_commands()?;
    while let Some(command) = commands.next()? {
        let version = match command.variant()? {
            LoadCommandVariant::BuildVersion(build, _) => build.minos.get(program.endian()).0,
            LoadCommandVariant::VersionMin(least) => least.version.get(program.endian()).0,
            _ => continue,
        };
        return Ok(Some(format!("{}_{}", version >> 16, version >> 8 & 0xff)));
    }
    Ok(None)
}

/// Imports from other libraries, and unknown symbols.
fn missing(imports: &[(String, String)], offered: &BTreeSet<&str>) -> Vec<String> {
    let wrong = imports.iter().filter(|(library, name)| library != LIBRARY || !offered.contains(name.as_str()));
    wrong.map(|(library, name)| format!("{name} of {library}")).collect()
}

/// Symbols in a text-based stub of a library, and in its reexports, for one system.
fn offered<'a>(stub: &'a str, system: &str) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    let mut lists = stub.split('[');
    // A key precedes its list, which ends with the bracket.
    let mut key = lists.next().and_then(last_word).unwrap_or_default();
    let mut applies = false;
    for part in lists {
        let Some((list, rest)) = part.split_once(']') else { break };
        let mut entries = list.split(',').map(|name| name.trim().trim_matches('\''));
        match key {
            "targets:" => applies = entries.any(|name| name == system),
            "symbols:" | "weak-symbols:" | "thread-local-symbols:" if applies => names.extend(entries),
            _ => {}
        }
        key = last_word(rest).unwrap_or_default();
    }
    names
}

fn last_word(text: &str) -> Option<&str> {
    text.split_whitespace().next_back()
}

/// The symbol list in `ziglang`, the linker of macOS programs.
fn list() -> Result<PathBuf, String> {
    let asked = Command::new("python3").args(["-c", "import ziglang; print(ziglang.__path__[0])"]).output();
    let folder =
        asked.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    folder.map(|f| Path::new(&f).join(LIST)).ok_or_else(|| "no list of the system's names: pip install ziglang".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUB: &str = "--- !tapi-tbd\ntargets: [ x86_64-macos, arm64e-macos ]\nexports:\n  - targets: [ x86_64-macos ]\n    \
                        symbols: [ _old, '$ld$hidden' ]\n  - targets: [ x86_64-macos,\n    arm64e-macos ]\n    symbols: [ _read,\n \
                        _write ]\n    weak-symbols: [ __Znwm ]\n    objc-classes: [ NSObject ]\n...\n";

    #[test]
    fn names_are_those_of_a_system() {
        assert_eq!(offered(STUB, "arm64e-macos").into_iter().collect::<Vec<_>>(), ["__Znwm", "_read", "_write"]);
        assert!(offered(STUB, "x86_64-macos").contains("_old"));
        assert!(offered(STUB, "arm64-ios").is_empty());
    }

    #[test]
    fn the_linkers_list_has_no_unknown_architecture() {
        let list =
            "targets: [ x86_64-macos, arm64e-macos,\n  arm64e.x1-macos, arm64e.x1-maccatalyst ]\nsymbols: [ _a, _b ]\n";
        assert_eq!(known(list), "targets: [ x86_64-macos, arm64e-macos ]\nsymbols: [ _a, _b ]\n");
    }

    #[test]
    fn what_is_not_offered_is_named() {
        let import = |library: &str, name: &str| (library.to_string(), name.to_string());
        let imports = [import(LIBRARY, "_read"), import(LIBRARY, "_landlock"), import("/opt/libx.dylib", "_write")];
        let wanted = ["_landlock of /usr/lib/libSystem.B.dylib", "_write of /opt/libx.dylib"];
        assert_eq!(missing(&imports, &offered(STUB, "arm64e-macos")), wanted);
    }
}
