//! Tables and plots of measured times: one file of measurements per host, `docs/data/performance-NAME.json`.

use crate::repo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Kinds of series, in the order of columns: name in the data, title, and colour in plots.
const KINDS: [(&str, &str, &str); 4] = [
    ("fast", "`fast`", "#1f77b4"),
    ("exact", "`exact`", "#d95f02"),
    ("onnx", "ONNX Runtime", "#888888"),
    ("openvino", "OpenVINO", "#2ca02c"),
];
/// The kinds for comparison; the faster one is used if both are measured.
const RIVALS: std::ops::Range<usize> = 2..4;

/// Times of a case, by kind.
type Row = [Option<Times>; KINDS.len()];

/// Times of one kind, in milliseconds.
struct Times {
    least: f64,
    lower_quartile: f64,
    median: f64,
    upper_quartile: f64,
    runs: usize,
}

/// Measurements of a host.
struct Host {
    /// Part of the file's name.
    name: String,
    title: String,
    /// Commits, days and loads of the series, in sentences.
    made: String,
    /// Commits and days, for the first sentence of the page.
    commits: String,
    /// Name of a case: package or network.
    case: &'static str,
    /// Times by case and kind.
    cases: BTreeMap<String, Row>,
}

/// Three significant digits.
fn digits(ms: f64) -> String {
    let places = (2 - ms.abs().log10().floor() as i32).clamp(0, 6) as usize;
    format!("{ms:.places$}")
}

/// Ratio of a kind's time to the faster rival's, of medians and of minima, if both were measured alternately.
fn ratio(times: &Row, kind: usize) -> Option<[f64; 2]> {
    let base = times[RIVALS].iter().flatten().min_by(|a, b| a.median.total_cmp(&b.median))?;
    let of = times[kind].as_ref()?;
    Some([of.median / base.median, of.least / base.least])
}

/// Plots: path and text of each.
pub(super) type Plots = Vec<(String, String)>;

/// The page's first sentence, tables of every host, and for each its plot: path and text.
pub(super) fn documents() -> Result<(String, String, Plots), String> {
    let (mut headline, mut out) = (String::new(), String::new());
    let mut plots = Vec::new();
    for path in repo::files("docs/data", ".json") {
        let Some(name) = path.strip_prefix("docs/data/performance-").and_then(|p| p.strip_suffix(".json")) else {
            continue;
        };
        let host = Host::read(name, &repo::read(&path)?).ok_or(format!("{path}: not a file of measurements"))?;
        headline += &host.headline();
        out += &host.table();
        plots.push((format!("docs/images/performance-{name}.svg"), host.plot()));
    }
    Ok((headline, out, plots))
}

/// Series of one commit, day and number of threads.
struct Made {
    /// Least and greatest load average before a series.
    load: (f64, f64),
    cases: BTreeSet<String>,
}

impl Made {
    fn new(load: f64) -> Made {
        Made { load: (load, load), cases: BTreeSet::new() }
    }

    /// Conditions of the series; with the cases, where another commit measured more of them.
    fn sentence(&self, [date, commit, threads]: &[String; 3], all: usize, commits: usize) -> String {
        let of = if commits > 1 && 2 * self.cases.len() <= all {
            format!(" ({})", self.cases.iter().cloned().collect::<Vec<_>>().join(", "))
        } else {
            String::new()
        };
        let (low, high) = self.load;
        format!("Measured at commit {commit} on {date}{of}: {threads} threads, load average before it {low} to {high}.")
    }
}

impl Times {
    fn of(series: &Value) -> Option<Times> {
        let mut runs: Vec<f64> = series["runs"].as_array()?.iter().filter_map(Value::as_f64).collect();
        runs.sort_by(f64::total_cmp);
        // Interpolated between two runs.
        let at = |share: f64| {
            let place = share * (runs.len().checked_sub(1)? as f64);
            let (low, high) = (runs.get(place.floor() as usize)?, runs.get(place.ceil() as usize)?);
            Some(low + (high - low) * place.fract())
        };
        let (lower_quartile, median, upper_quartile) = (at(0.25)?, at(0.5)?, at(0.75)?);
        Some(Times { least: at(0.0)?, lower_quartile, median, upper_quartile, runs: runs.len() })
    }
}

impl Host {
    fn read(name: &str, text: &str) -> Option<Host> {
        let data: Value = serde_json::from_str(text).ok()?;
        let of = &data["host"];
        let set = data["set"].as_str().map(|set| format!("{set}: ")).unwrap_or_default();
        let title = format!(
            "{set}{}, {}, {} cores, {}",
            of["processor"].as_str()?,
            of["instruction_set"].as_str()?,
            of["cores"].as_u64()?,
            of["system"].as_str()?
        );
        let mut cases: BTreeMap<String, Row> = BTreeMap::new();
        let mut made: BTreeMap<[String; 3], Made> = BTreeMap::new();
        for series in data["series"].as_array()? {
            let kind = KINDS.iter().position(|kind| series["kind"] == kind.0)?;
            cases.entry(series["case"].as_str()?.into()).or_default()[kind] = Some(Times::of(series)?);
            let threads = series["threads"].as_u64()?.to_string();
            let text = |key: &str| series[key].as_str().map(String::from);
            let load = series["load"].as_f64()?;
            let of = made.entry([text("date")?, text("commit")?, threads]).or_insert_with(|| Made::new(load));
            of.load = (of.load.0.min(load), of.load.1.max(load));
            of.cases.insert(text("case")?);
        }
        let commits: Vec<String> = made.keys().map(|[date, commit, _]| format!("{commit} of {date}")).collect();
        let sentences = made.iter().map(|(when, of)| of.sentence(when, cases.len(), made.len()));
        let sentences = sentences.collect::<Vec<_>>().join(" ");
        let case = if set.is_empty() { "package" } else { "network" };
        let commits = match commits.as_slice() {
            [one] => format!("commit {one}"),
            several => format!("commits {}", several.join(" and ")),
        };
        Some(Host { name: name.into(), title, made: sentences, commits, case, cases })
    }

    /// Measured kinds, by index.
    fn kinds(&self) -> Vec<usize> {
        (0..KINDS.len())
            .filter(|&kind| kind < RIVALS.end - 1 || self.cases.values().any(|of| of[kind].is_some()))
            .collect()
    }

    /// Median and worst ratio of a kind over all cases, if there are enough of them.
    fn summary(&self, kind: usize) -> Option<(f64, f64)> {
        const FEW: usize = 10;
        let mut ratios: Vec<f64> = self.cases.values().filter_map(|times| Some(ratio(times, kind)?[0])).collect();
        ratios.sort_by(f64::total_cmp);
        let worst = *ratios.last().filter(|_| ratios.len() >= FEW)?;
        Some(((ratios[(ratios.len() - 1) / 2] + ratios[ratios.len() / 2]) / 2.0, worst))
    }

    /// A sentence on a set of networks; empty for a host without one.
    fn headline(&self) -> String {
        let (Some(fast), Some(exact), "network") = (self.summary(0), self.summary(1), self.case) else {
            return String::new();
        };
        format!(
            "\nAt {}, the software engine takes {:.2} times as long as the faster of ONNX Runtime and OpenVINO in fp32 at the median of {} networks \
             of many families (`fast`; at most {:.2}), and {:.2} times with the arithmetic of the device (`exact`; at most {:.2}).\n",
            self.commits,
            fast.0,
            self.cases.len(),
            fast.1,
            exact.0,
            exact.1
        )
    }

    /// Median, quartiles and ratios.
    fn table(&self) -> String {
        let mut out = format!(
            "\n### {}\n\n{}\n\n![Times of a run on {}](images/performance-{}.svg)\n\n| {} |",
            self.title, self.made, self.title, self.name, self.case
        );
        let kinds = self.kinds();
        kinds.iter().for_each(|&kind| _ = write!(out, " {}, ms |", KINDS[kind].1));
        out += " `fast`, ratio | `exact`, ratio | runs |\n|---|";
        out += &"---|".repeat(kinds.len() + 3);
        out.push('\n');
        for (case, times) in &self.cases {
            let _ = write!(out, "| {case} |");
            for of in kinds.iter().map(|&kind| &times[kind]) {
                let cell = of.as_ref().map(|t| {
                    format!("{} ({} to {})", digits(t.median), digits(t.lower_quartile), digits(t.upper_quartile))
                });
                let _ = write!(out, " {} |", cell.unwrap_or_default());
            }
            for kind in 0..RIVALS.start {
                let cell = ratio(times, kind).map(|[median, least]| format!("{median:.2} ({least:.2})"));
                let _ = write!(out, " {} |", cell.unwrap_or_default());
            }
            let runs = times.iter().flatten().map(|t| t.runs).max().unwrap_or(0);
            let _ = writeln!(out, " {runs} |");
        }
        for (kind, (_, name, _)) in KINDS.iter().enumerate().take(RIVALS.start) {
            if let Some((median, worst)) = self.summary(kind) {
                let _ = write!(out, "\n{name}: median ratio {median:.2}, worst {worst:.2}.\n");
            }
        }
        out
    }

    /// Medians and quartiles on a logarithmic axis, one row per case.
    fn plot(&self) -> String {
        const LEFT: f64 = 220.0;
        const WIDTH: f64 = 480.0;
        const ROW: f64 = 26.0;
        let all = || self.cases.values().flatten().flatten();
        let least = all().map(|t| t.lower_quartile).fold(f64::INFINITY, f64::min);
        let most = all().map(|t| t.upper_quartile).fold(0.0, f64::max);
        let (from, to) = (least.log10().floor(), most.log10().ceil());
        let x = |ms: f64| LEFT + (ms.log10() - from) / (to - from) * WIDTH;
        let bottom = 30.0 + ROW * self.cases.len() as f64;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 {:.0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#808080\">\n\
             <title>Milliseconds a run, {}</title>\n",
            bottom + 45.0,
            self.title
        );
        for (i, kind) in self.kinds().into_iter().map(|kind| &KINDS[kind]).enumerate() {
            let at = LEFT + 130.0 * i as f64;
            let name = kind.1.trim_matches('`');
            let _ = writeln!(
                out,
                "<circle cx=\"{at}\" cy=\"14\" r=\"4\" fill=\"{}\"/><text x=\"{}\" y=\"18\">{name}</text>",
                kind.2,
                at + 9.0
            );
        }
        for power in from as i32..=to as i32 {
            let ms = 10f64.powi(power);
            let _ = writeln!(
                out,
                "<line x1=\"{0:.1}\" y1=\"28\" x2=\"{0:.1}\" y2=\"{bottom}\" stroke=\"#808080\" stroke-opacity=\"0.3\"/><text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\">{ms}</text>",
                x(ms),
                bottom + 16.0
            );
        }
        for (row, (case, times)) in self.cases.iter().enumerate() {
            let middle = 30.0 + ROW * (row as f64 + 0.5);
            let _ =
                writeln!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{case}</text>", LEFT - 10.0, middle + 4.0);
            for (i, (of, kind)) in times.iter().zip(KINDS).enumerate() {
                let Some(t) = of else { continue };
                let y = middle + 6.0 * (i as f64 - 1.0);
                let _ = writeln!(
                    out,
                    "<line x1=\"{:.1}\" y1=\"{y}\" x2=\"{:.1}\" y2=\"{y}\" stroke=\"{2}\" stroke-width=\"2\"/><circle cx=\"{3:.1}\" cy=\"{y}\" r=\"3.5\" fill=\"{2}\"/>",
                    x(t.lower_quartile),
                    x(t.upper_quartile),
                    kind.2,
                    x(t.median)
                );
            }
        }
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">milliseconds a run: median and quartiles</text>\n</svg>\n",
            LEFT + WIDTH / 2.0,
            bottom + 36.0
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles_are_those_of_the_runs() {
        let t = Times::of(&serde_json::json!({"runs": [4.0, 1.0, 3.0, 2.0, 5.0]})).expect("five runs");
        assert_eq!((t.lower_quartile, t.median, t.upper_quartile, t.runs), (2.0, 3.0, 4.0, 5));
        assert!(Times::of(&serde_json::json!({"runs": []})).is_none());
    }

    #[test]
    fn three_digits_are_printed() {
        assert_eq!([0.1234, 9.876, 98.76, 1234.0].map(digits), ["0.123", "9.88", "98.8", "1234"]);
    }

    #[test]
    fn a_ratio_needs_both_sides() {
        let series = |case: &str, kind: &str, ms: f64| serde_json::json!({"case": case, "kind": kind, "commit": "c", "date": "d", "threads": 2, "load": 0.5, "runs": [ms]});
        let host = serde_json::json!({"processor": "P", "instruction_set": "I", "cores": 2, "system": "S"});
        let all = [series("a", "fast", 2.0), series("a", "onnx", 1.0), series("b", "fast", 3.0)];
        let host = Host::read("x", &serde_json::json!({"host": host, "series": all}).to_string()).expect("read");
        let table = host.table();
        assert!(table.contains("| a | 2.00 (2.00 to 2.00) |  | 1.00 (1.00 to 1.00) | 2.00 (2.00) |  | 1 |"), "{table}");
        assert!(table.contains("| b | 3.00 (3.00 to 3.00) |  |  |  |  | 1 |"), "{table}");
        assert_eq!(host.plot().matches("r=\"3.5\"").count(), 3);
        assert_eq!(host.headline(), "", "a host without a set of networks");
        assert!(table.contains("Measured at commit c on d: 2 threads, load average before it 0.5 to 0.5."), "{table}");
    }
}
