//! Seconds of each step, measured by `.ci/run --record`: a data file, and its table in `CONTRIBUTING.md`.

use crate::repo;
use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

/// File with a line for each step: its name and whole seconds.
const RECORD: &str = "docs/data/ci.tsv";
/// Name of the row for the build before the steps.
const BUILD: &str = "build of the chores";

/// Time since the start of `.ci/run`, before this program was built; `None` if another command started it.
pub fn before() -> Option<Duration> {
    let begun: u64 = std::env::var("ANE_CI_BEGUN").ok()?.parse().ok()?;
    (UNIX_EPOCH + Duration::from_secs(begun)).elapsed().ok()
}

/// Writes the times of a run in which every step passed.
///
/// # Errors
/// A file that cannot be written.
pub fn write(before: Option<Duration>, steps: &[(String, Duration)]) -> Result<(), String> {
    let mut out = format!("# {}\tcommit {}\n", processor(), commit());
    for (name, time) in before.map(|time| (BUILD, time)).into_iter().chain(steps.iter().map(|(n, t)| (n.as_str(), *t)))
    {
        let _ = writeln!(out, "{name}\t{:.0}", time.as_secs_f64());
    }
    std::fs::write(repo::at(RECORD), out).map_err(|e| format!("{RECORD}: {e}"))
}

/// The table: a row for each of `steps`, with a dash if it has no record.
///
/// # Errors
/// A record that cannot be read.
pub fn table(steps: &[String]) -> Result<String, String> {
    of(&repo::read(RECORD)?, steps)
}

fn of(record: &str, steps: &[String]) -> Result<String, String> {
    let head =
        record.lines().next().and_then(|line| line.strip_prefix("# ")).ok_or(format!("{RECORD}: no first line"))?;
    let mut seconds = Vec::new();
    for line in record.lines().skip(1) {
        let cells = line.split_once('\t').and_then(|(name, n)| Some((name, n.parse::<u64>().ok()?)));
        seconds.push(cells.ok_or(format!("{RECORD}: a name and seconds expected in `{line}`"))?);
    }
    let find = |name: &str| seconds.iter().find(|(known, _)| *known == name).map(|&(_, n)| n);
    let rows = std::iter::once((BUILD, find(BUILD))).chain(steps.iter().map(|s| (s.as_str(), find(s))));
    let (mut body, mut total, mut missing) = (String::new(), 0, false);
    for (name, time) in rows {
        total += time.unwrap_or(0);
        missing |= time.is_none();
        let name = if name == BUILD { name.to_string() } else { format!("`{name}`") };
        let _ = writeln!(body, "| {} | {name} |", time.map_or("-".to_string(), |n| n.to_string()));
    }
    let (head, whole) = (head.replace('\t', ", "), if missing { "; steps with a dash were not timed" } else { "" });
    let mut out =
        format!("\nThe last recorded run took {total} s ({head}{whole}):\n\n| seconds | step |\n|---|---|\n{body}");
    out.push('\n');
    Ok(out)
}

/// Processor and the number of its threads.
fn processor() -> String {
    let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")).and_then(|rest| rest.split_once(':'));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{}, {threads} threads", model.map_or(std::env::consts::ARCH, |(_, name)| name.trim()))
}

/// The tested commit, and its date.
fn commit() -> String {
    let told = Command::new("git").args(["log", "-1", "--format=%h of %cs"]).current_dir(repo::root()).output();
    told.map_or("unknown".into(), |told| String::from_utf8_lossy(&told.stdout).trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_table() {
        let steps = ["one".to_string(), "two".to_string()];
        let page = of("# today\thost\nbuild of the chores\t5\none\t7\nold\t3\n", &steps).expect("a table");
        assert!(page.contains("took 12 s (today, host; steps with a dash were not timed)"), "{page}");
        assert!(page.contains("| 7 | `one` |\n| - | `two` |\n") && !page.contains("old"), "{page}");
        assert!(of("# today\none\tx\n", &steps).is_err() && of("one\t1\n", &steps).is_err());
    }
}
