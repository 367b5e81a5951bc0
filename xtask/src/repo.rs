//! The checkout: its root, and files below it by relative path.

use std::path::{Path, PathBuf};

/// The workspace's root.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// A path below the root.
pub fn at(relative: &str) -> PathBuf {
    root().join(relative)
}

/// Text of a file below the root; the error names it.
pub fn read(relative: &str) -> Result<String, String> {
    std::fs::read_to_string(at(relative)).map_err(|e| format!("{relative}: {e}"))
}

/// Names of the folders directly below `relative`, in order.
pub fn folders(relative: &str) -> Vec<String> {
    entries(relative).into_iter().filter(|(_, is_dir)| *is_dir).map(|(name, _)| name).collect()
}

/// Relative paths of all files below `relative` whose name ends in `suffix`, in order.
pub fn files(relative: &str, suffix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (name, is_dir) in entries(relative) {
        let path = format!("{relative}/{name}");
        if is_dir {
            found.extend(files(&path, suffix));
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
    found
}

fn entries(relative: &str) -> Vec<(String, bool)> {
    let mut found: Vec<(String, bool)> = std::fs::read_dir(at(relative))
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| (e.file_name().to_string_lossy().into_owned(), e.path().is_dir()))
        .collect();
    found.sort();
    found
}
