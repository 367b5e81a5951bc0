//! Features of packages are the same with and without tests, so that `cargo run` after `cargo test` builds nothing again.

use crate::repo;
use std::collections::BTreeSet;
use std::process::Command;

/// Packages whose features a build without tests would select differently.
pub fn check() -> Vec<String> {
    match (listed("normal,build"), listed("normal,build,dev")) {
        (Ok(plain), Ok(tested)) => differing(&plain, &tested),
        (plain, tested) => plain.err().into_iter().chain(tested.err()).collect(),
    }
}

/// Every package of a tree with its features, one on a line.
fn listed(edges: &str) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(repo::root())
        .args(["tree", "--workspace", "--edges", edges, "--prefix", "none", "--format", "{p} {f}"])
        .output()
        .map_err(|e| format!("cargo tree: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree --workspace: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn differing(plain: &str, tested: &str) -> Vec<String> {
    let lines = |tree: &str| tree.lines().map(|l| l.trim_end_matches(" (*)").trim_end().to_string()).collect();
    let (plain, tested): (BTreeSet<String>, BTreeSet<String>) = (lines(plain), lines(tested));
    let name_and_version = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    plain
        .difference(&tested)
        .map(|line| {
            let package = name_and_version(line);
            let with_tests = tested.iter().find(|t| name_and_version(t) == package);
            format!(
                "{package} has other features with tests: `{}`; name them in xtask/Cargo.toml",
                with_tests.map_or("none", |t| t.as_str())
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::differing;

    #[test]
    fn a_feature_that_only_tests_select_is_named() {
        let plain = "half v2.7.1 std\nrand v0.10.4 \nhalf v2.7.1 std (*)\n";
        assert!(differing(plain, "half v2.7.1 std\nrand v0.10.4 \nproptest v1.12.0 std\n").is_empty());
        let found = differing(plain, "half v2.7.1 std\nrand v0.10.4 alloc,std (*)\n");
        assert_eq!(
            found,
            ["rand v0.10.4 has other features with tests: `rand v0.10.4 alloc,std`; name them in xtask/Cargo.toml"]
        );
    }
}
