//! Seconds of each step, as `.ci/run --record` has measured them: a data file, and its table in `CONTRIBUTING.md`.

use crate::repo;
use std::fmt::Write;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File with a line for each step: its name and whole seconds.
const RECORD: &str = "docs/data/ci.tsv";
/// Name of the row for what precedes the steps.
const BUILD: &str = "build of the chores";

/// Time since `.ci/run` began, which precedes the build of this program; `None` if another command started it.
pub fn before() -> Option<Duration> {
    let begun: u64 = std::env::var("ANE_CI_BEGUN").ok()?.parse().ok()?;
    (UNIX_EPOCH + Duration::from_secs(begun)).elapsed().ok()
}

/// Writes the times of a run in which every step passed.
///
/// # Errors
/// A file that cannot be written.
pub fn write(before: Option<Duration>, steps: &[(String, Duration)]) -> Result<(), String> {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() / 86_400);
    let [year, month, day] = date(days as i64);
    let mut out = format!("# {year}-{month:02}-{day:02}\t{}\tcommit {}\n", processor(), commit());
    for (name, time) in before.map(|time| (BUILD, time)).into_iter().chain(steps.iter().map(|(n, t)| (n.as_str(), *t)))
    {
        let _ = writeln!(out, "{name}\t{:.0}", time.as_secs_f64());
    }
    std::fs::write(repo::at(RECORD), out).map_err(|e| format!("{RECORD}: {e}"))
}

/// The table: a row for each step that is named, a dash where none was recorded.
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

fn commit() -> String {
    let told = Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(repo::root()).output();
    told.map_or("unknown".into(), |told| String::from_utf8_lossy(&told.stdout).trim().to_string())
}

/// Year, month and day of a number of days since 1970.
fn date(days: i64) -> [i64; 3] {
    // Eras of 400 years that begin on a first of March, so that the leap day is a year's last.
    let (shifted, era) = (days + 719_468, (days + 719_468).div_euclid(146_097));
    let day_of_era = shifted - era * 146_097;
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (late, day) = (i64::from(month >= 10), day - (153 * month + 2) / 5 + 1);
    [year + era * 400 + late, if month < 10 { month + 3 } else { month - 9 }, day]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(date(0), [1970, 1, 1]);
        assert_eq!(date(11_016), [2000, 2, 29]);
        assert_eq!(date(20_782), [2026, 11, 25]);
    }

    #[test]
    fn a_record_is_a_table() {
        let steps = ["one".to_string(), "two".to_string()];
        let page = of("# today\thost\nbuild of the chores\t5\none\t7\nold\t3\n", &steps).expect("a table");
        assert!(page.contains("took 12 s (today, host; steps with a dash were not timed)"), "{page}");
        assert!(page.contains("| 7 | `one` |\n| - | `two` |\n") && !page.contains("old"), "{page}");
        assert!(of("# today\none\tx\n", &steps).is_err() && of("one\t1\n", &steps).is_err());
    }
}
