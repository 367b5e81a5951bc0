//! Table of the release files of each target, from the data of `cargo xtask release --dry-run --record`.

use crate::release::{RECORD, Row};
use crate::repo;
use crate::targets;
use std::fmt::Write;

/// One row per target.
///
/// # Errors
/// A record that cannot be read, or with an unknown target.
pub fn table() -> Result<String, String> {
    let mut out = String::from(
        "\n| target | `ane`, MB | C library, MB | archive, MB | wheel, MB | build, s | digest of the sources |\n|---|---|---|---|---|---|---|\n",
    );
    for row in Row::read(&repo::read(RECORD)?)? {
        let target = targets::find(&row.triple)?;
        let cells: Vec<String> = row.bytes.iter().map(|&bytes| megabytes(bytes)).collect();
        let (cells, build) = (cells.join(" | "), row.build);
        let seconds = if row.seconds == 0 { "-".into() } else { row.seconds.to_string() };
        let _ = writeln!(out, "| {} (`{}`) | {cells} | {seconds} | `{build}` |", target.name, target.triple);
    }
    out.push('\n');
    Ok(out)
}

fn megabytes(bytes: u64) -> String {
    if bytes == 0 { "-".into() } else { format!("{:.1}", bytes as f64 / 1e6) }
}
