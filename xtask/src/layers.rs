//! Layering rules: allowed dependencies between crates and their features, allowed imports between modules, forbidden constructs in source,
//! limits on the length of files and functions, and no test where none would run.
//!
//! Dependencies come from `cargo tree`; source is read as tokens, so that comments and strings are ignored.

mod features;
mod imports;
mod length;
mod rules;
mod table;
mod units;

use crate::tokens::Token;
use crate::{Outcome, conclude, repo};
use std::collections::BTreeSet;
use std::process::Command;

/// A crate and the crates that it may depend on, directly or not.
pub struct Crate {
    /// Folder below `crates`.
    pub name: &'static str,
    /// Cargo package.
    pub package: &'static str,
    may_use: &'static [&'static str],
    /// True if packages from outside the workspace may be used.
    outside: bool,
}

/// Every crate.
pub const CRATES: &[Crate] = &[
    Crate { name: "facts", package: "anemone-facts", may_use: &[], outside: false },
    Crate { name: "net", package: "anemone-net", may_use: &[], outside: true },
    Crate { name: "kernels", package: "anemone-kernels", may_use: &[], outside: true },
    Crate { name: "conv", package: "anemone-conv", may_use: &["kernels"], outside: true },
    Crate { name: "program", package: "anemone-program", may_use: &["facts"], outside: true },
    Crate { name: "check", package: "anemone-check", may_use: &["facts", "net"], outside: true },
    Crate {
        name: "compile",
        package: "anemone-compile",
        may_use: &["facts", "net", "check", "program"],
        outside: true,
    },
    Crate {
        name: "engine",
        package: "anemone-engine",
        may_use: &["facts", "program", "kernels", "conv"],
        outside: true,
    },
    Crate {
        name: "runtime",
        package: "anemone-runtime",
        may_use: &["facts", "program", "kernels", "conv", "engine"],
        outside: true,
    },
    Crate {
        name: "ane",
        package: "anemone",
        may_use: &["facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime"],
        outside: true,
    },
    Crate {
        name: "e5rt",
        package: "anemone-e5rt",
        may_use: &["facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime", "ane"],
        outside: true,
    },
    Crate {
        name: "iokit",
        package: "anemone-iokit",
        may_use: &["facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime", "ane"],
        outside: true,
    },
    Crate {
        name: "python",
        package: "anemone-python",
        may_use: &["facts", "net", "check", "program", "compile", "kernels", "conv", "engine", "runtime", "ane"],
        outside: true,
    },
    Crate { name: "schema", package: "anemone-schema", may_use: &[], outside: true },
    Crate {
        name: "bench",
        package: "anemone-bench",
        may_use: &["facts", "net", "program", "compile", "kernels", "conv", "engine"],
        outside: true,
    },
];

/// Packages with which build scripts compile, or search for, C and assembly.
const C_BUILDERS: &[&str] = &[
    "autotools",
    "bindgen",
    "cc",
    "cmake",
    "jobserver",
    "meson-next",
    "nasm-rs",
    "pkg-config",
    "system-deps",
    "vcpkg",
];

/// Names in conditional compilation for the operating system, the processor, its width or byte order, with their lines.
pub fn conditions(tokens: &[Token]) -> Vec<(String, usize)> {
    let asks = |name: &str| {
        let memory = ["target_pointer_width", "target_endian"];
        [rules::SYSTEMS, rules::PROCESSORS, &memory].iter().any(|names| names.contains(&name))
    };
    let all = rules::conditions(tokens).into_iter().map(|i| tokens[i]);
    all.filter(|t| asks(t.text)).map(|t| (t.text.to_string(), t.line)).collect()
}

/// Checks every rule.
pub fn run(_: &[String]) -> Outcome {
    let mut findings = check_folders(&repo::folders("crates"));
    let mut sources = 0;
    for krate in CRATES {
        match tree_of(krate) {
            Ok(tree) => findings.extend(check_tree(krate, &tree)),
            Err(e) => findings.push(e),
        }
        for path in repo::files(&format!("crates/{}/src", krate.name), ".rs") {
            sources += 1;
            match repo::read(&path) {
                Ok(text) => findings.extend(rules::check(krate.name, &path, &text)),
                Err(e) => findings.push(e),
            }
        }
    }
    findings.extend(features::check());
    findings.extend(imports::check());
    findings.extend(length::check());
    findings.extend(units::check());
    let pairs: usize = CRATES.iter().map(|r| forbidden(r).count()).sum();
    let (upward, long) = (table::UPWARD.len(), table::LONG.len());
    let closing = format!(
        "{pairs} forbidden dependencies absent, {} rules hold in {sources} files; exceptions: {upward} imports, {long} lengths",
        rules::RULES.len()
    );
    conclude(findings, closing)
}

/// Dependencies of the crate as resolved by cargo: one package per line.
fn tree_of(krate: &Crate) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(repo::root())
        .args(["tree", "--package", krate.package, "--edges", "normal,build", "--prefix", "none", "--target", "all"])
        .output()
        .map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo tree --package {}: {}", krate.package, why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn forbidden(krate: &Crate) -> impl Iterator<Item = &'static Crate> {
    CRATES.iter().filter(move |other| other.name != krate.name && !krate.may_use.contains(&other.name))
}

/// Checks that every folder is a crate of the table, and vice versa.
fn check_folders(folders: &[String]) -> Vec<String> {
    let unlisted = folders.iter().filter(|f| !CRATES.iter().any(|r| r.name == *f));
    let missing = CRATES.iter().filter(|r| !folders.iter().any(|f| f == r.name));
    unlisted
        .map(|f| format!("crates/{f} is not in the table of crates: say what it may use"))
        .chain(missing.map(|r| format!("crates/{} is in the table of crates and does not exist", r.name)))
        .collect()
}

/// Forbidden dependencies of a crate, in the form of `cargo tree --prefix none`.
fn check_tree(krate: &Crate, tree: &str) -> Vec<String> {
    let reached: BTreeSet<&str> = tree.lines().filter_map(|l| l.split_whitespace().next()).collect();
    if !reached.contains(krate.package) {
        return vec![format!("cargo tree does not show {}", krate.package)];
    }
    let mut findings: Vec<String> = forbidden(krate)
        .filter(|other| reached.contains(other.package))
        .map(|other| {
            let (from, to) = (krate.package, other.package);
            format!("{} must not use {}: see `cargo tree -p {from} -i {to}`", krate.name, other.name)
        })
        .collect();
    let builders = C_BUILDERS.iter().filter(|p| reached.contains(**p));
    findings.extend(builders.map(|p| {
        let from = krate.package;
        format!("{} must build without a C compiler: see `cargo tree -p {from} --target all -i {p}`", krate.name)
    }));
    if !krate.outside {
        let strangers = reached.iter().filter(|p| !CRATES.iter().any(|r| r.package == **p));
        findings.extend(strangers.map(|p| format!("{} depends on nothing, but reaches {p}", krate.name)));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_compile_c_are_named() {
        let findings = check_tree(krate("net"), "anemone-net v0.1.0\nzstd-sys v2\ncc v1.11.1\n");
        assert_eq!(
            findings,
            ["net must build without a C compiler: see `cargo tree -p anemone-net --target all -i cc`"]
        );
    }

    fn krate(name: &str) -> &'static Crate {
        CRATES.iter().find(|r| r.name == name).unwrap_or_else(|| panic!("no crate {name}"))
    }

    #[test]
    fn a_forbidden_edge_is_named() {
        let tree = "anemone-engine v0.1.0 (/x)\nanemone-facts v0.1.0 (/x)\nanemone-compile v0.1.0 (/x)\nhalf v2.7.1\n";
        let findings = check_tree(krate("engine"), tree);
        assert_eq!(findings, ["engine must not use compile: see `cargo tree -p anemone-engine -i anemone-compile`"]);
        assert!(check_tree(krate("engine"), "anemone-engine v0.1.0\nanemone-program v0.1.0 (*)\n").is_empty());
    }

    #[test]
    fn nothing_below_depends_on_ane() {
        for r in CRATES.iter().filter(|r| r.name != "ane" && !r.may_use.contains(&"ane")) {
            let tree = format!("{} v0.1.0\nanemone v0.1.0\n", r.package);
            assert!(check_tree(r, &tree).iter().any(|f| f.contains("must not use ane")), "{}", r.name);
        }
    }

    #[test]
    fn facts_depends_on_nothing() {
        assert_eq!(
            check_tree(krate("facts"), "anemone-facts v0.1.0\nhalf v2\n"),
            ["facts depends on nothing, but reaches half"]
        );
        assert_eq!(check_tree(krate("facts"), ""), ["cargo tree does not show anemone-facts"]);
    }

    #[test]
    fn table_and_folders_agree() {
        let mut folders: Vec<String> = CRATES.iter().map(|r| r.name.to_string()).collect();
        assert!(check_folders(&folders).is_empty());
        folders[0] = "attic".into();
        assert_eq!(check_folders(&folders).len(), 2);
    }
}
