//! Report of a run's outputs: compared with expected ones, classified, summarized.

use super::super::{Verbosity, print};
use anemone::execute::RoundingCost;
use anemone::tensor::{self, Agreement, Array, Difference};
use anemone::{Code, Diagnostic, Result};
use anemone_facts::tolerance::{NETWORK, NETWORK_FACTOR};
use serde_json::{Value, json};
use std::path::Path;

/// Largest number of elements of an output that the JSON report lists.
const LISTED_ELEMENTS: usize = 64;

/// A bound on a metric of the difference between an output and the expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Upper bound of the largest difference.
    Max(f32),
    /// Upper bound of the root mean square difference.
    Rms(f32),
    /// Upper bound of the same relative to that of the expected values.
    Relative(f32),
    /// Lower bound of the cosine similarity.
    Cosine(f32),
    /// Lower bound of the signal-to-noise ratio in decibels.
    Snr(f32),
    /// Equal positions of the largest elements.
    Top1,
}

impl std::str::FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Bound, String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let number = || value.parse::<f32>().ok().filter(|x| x.is_finite()).ok_or(format!("{name}=NUMBER is expected"));
        match name {
            "max" => number().map(Bound::Max),
            "rms" => number().map(Bound::Rms),
            "relative" => number().map(Bound::Relative),
            "cosine" => number().map(Bound::Cosine),
            "snr" => number().map(Bound::Snr),
            "top1" if value.is_empty() => Ok(Bound::Top1),
            _ => Err("known: max=, rms=, relative=, cosine=, snr=, top1".into()),
        }
    }
}

impl Bound {
    /// Description of the violated bound.
    fn violated(self, d: &Difference, a: &Agreement) -> Option<String> {
        let most = |name: &str, found: f32, most: f32| {
            (found.is_nan() || found > most).then(|| format!("{name} {found:.3e}, at most {most:.3e} wanted"))
        };
        let least = |name: &str, found: f64, least: f32| {
            (found.is_nan() || found < f64::from(least)).then(|| format!("{name} {found:.6}, at least {least} wanted"))
        };
        match self {
            Bound::Max(bound) => most("largest error", d.max_abs, bound),
            Bound::Rms(bound) => most("rms error", a.rms, bound),
            Bound::Relative(bound) => most("relative error", a.relative(), bound),
            Bound::Cosine(bound) => least("cosine", a.cosine, bound),
            Bound::Snr(bound) => least("signal-to-noise ratio", a.snr_db().into(), bound),
            Bound::Top1 => (!a.top1).then(|| "the largest element differs".into()),
        }
    }
}

/// Cost of fp16 rounding in an output, and how it was measured.
#[derive(Clone, Copy, Debug)]
pub enum RoundingSource {
    /// Every result of the network rounded, compared with fp32 evaluation.
    Network(RoundingCost),
    /// The same with several roundings, for a network that rounds to whole numbers.
    Levels(RoundingCost),
    /// Inputs of a program changed by one unit in the last place.
    Inputs(RoundingCost),
}

impl RoundingSource {
    fn cost(self) -> RoundingCost {
        match self {
            RoundingSource::Network(cost) | RoundingSource::Levels(cost) | RoundingSource::Inputs(cost) => cost,
        }
    }
}

/// Tolerance of the difference between an output and the expected one.
#[derive(Default)]
pub struct Tolerance {
    /// Absolute tolerance.
    pub atol: f32,
    /// Tolerance relative to the expected value.
    pub rtol: f32,
    /// Bound on the RMS error, unless tolerances are given by flags.
    pub rms: Option<f32>,
    /// Error caused by fp16 rounding, if it was measured.
    pub rounding: Option<RoundingSource>,
    /// Bounds on metrics; if there are any, only they decide.
    pub bounds: Vec<Bound>,
}

/// Expected outputs, and their tolerances.
pub struct Expectations<'a> {
    /// Expected outputs by name.
    pub outputs: &'a [(String, Array)],
    /// Names of classes, one per line, and their file.
    pub labels: Option<(&'a [u8], &'a Path)>,
    /// Tolerance of the output of that name, given the expected array.
    pub tolerance: &'a dyn Fn(&str, &Array) -> Tolerance,
    /// Outputs that are written to a file.
    pub written: &'a [&'a str],
}

/// An output compared with the expected one.
struct Compared {
    difference: Difference,
    agreement: Agreement,
    violated: Vec<String>,
    within: bool,
}

fn compared(array: &Array, wanted: &Array, tolerance: &Tolerance) -> Compared {
    let difference = tensor::compare(&array.data, &wanted.data, tolerance.atol, tolerance.rtol);
    let agreement = tensor::agreement(&array.data, &wanted.data);
    let mut violated: Vec<String> =
        tolerance.bounds.iter().filter_map(|bound| bound.violated(&difference, &agreement)).collect();
    if !tolerance.bounds.is_empty() && difference.max_abs.is_infinite() {
        violated.push("NaN elements differ".into());
    }
    let within = match tolerance.bounds.is_empty() {
        true => difference.bad == 0 && tolerance.rms.is_none_or(|most| agreement.rms <= most),
        false => violated.is_empty(),
    };
    Compared { difference, agreement, violated, within }
}

/// Returns true if an array differs from the expected one by no more than a tolerance.
pub fn is_within(array: &Array, wanted: &Array, tolerance: &Tolerance) -> bool {
    compared(array, wanted, tolerance).within
}

/// Returns true if no output differs from the expected one by more than its tolerance.
pub fn all_within(outputs: &[(String, Array)], expected: &Expectations) -> bool {
    let within = |(name, array): &(String, Array)| {
        let wanted = expected.outputs.iter().find(|(n, _)| n == name);
        wanted.is_none_or(|(_, wanted)| compared(array, wanted, &(expected.tolerance)(name, wanted)).within)
    };
    outputs.iter().all(within)
}

/// Reports each output as JSON, and returns true if one differs from the expected one. Prints lines unless the output is JSON.
pub fn report(
    outputs: &[(String, Array)],
    expected: &Expectations,
    verbosity: Verbosity,
) -> Result<(Vec<Value>, bool)> {
    let (mut reports, mut failed) = (Vec::new(), false);
    for (name, array) in outputs {
        let mut report = json!({ "name": name, "shape": array.shape });
        let mut silent = verbosity.quiet && expected.written.contains(&name.as_str());
        let mut line = format!("{name} {:?}", array.shape);
        if let Some((_, wanted)) = expected.outputs.iter().find(|(n, _)| n == name) {
            let tolerance = (expected.tolerance)(name, wanted);
            let Compared { difference, agreement, violated, within } = compared(array, wanted, &tolerance);
            failed |= !within;
            silent = verbosity.quiet && within;
            line += &match tolerance.bounds.is_empty() {
                true => verdict(&difference, &agreement, &tolerance, array, wanted),
                false => bounded(&difference, &agreement, &violated, array),
            };
            report["violated"] = json!(violated);
            report["relative_error"] = json!(agreement.relative());
            report["snr_db"] = json!(agreement.snr_db());
            report["rms_error"] = json!(agreement.rms);
            report["rms_tolerance"] = json!(tolerance.rms);
            report["cosine"] = json!(agreement.cosine);
            report["top1"] = json!(agreement.top1);
            report["max_abs_error"] = json!(difference.max_abs);
            report["max_abs_error_index"] = json!(unflatten(difference.at, &array.shape));
            report["atol"] = json!(tolerance.atol);
            report["rtol"] = json!(tolerance.rtol);
            report["within"] = json!(within);
            report["bad_elements"] = json!(difference.bad);
            report["first_bad_index"] = json!(difference.first_bad.map(|i| unflatten(i, &array.shape)));
        } else {
            line += &summary(array);
        }
        if let Some((labels, path)) = expected.labels {
            let (class, probability) = best(labels, array).map_err(|d| d.at(path.display()))?;
            line += &format!("\nclass {class}, probability {probability:.4}");
            silent = false;
            report["class"] = json!(class);
            report["probability"] = json!(probability);
        }
        if array.data.len() <= LISTED_ELEMENTS {
            report["values"] = json!(array.data);
        }
        if !verbosity.json && !silent {
            print(&format!("{line}\n"))?;
        }
        reports.push(report);
    }
    Ok((reports, failed))
}

impl Tolerance {
    /// Default tolerance, derived from the cost of fp16 rounding in the network.
    pub fn by_default(wanted: &[f32], rounding: Option<RoundingSource>) -> Tolerance {
        let largest = wanted.iter().filter(|x| x.is_finite()).fold(0f32, |m, x| m.max(x.abs()));
        let (max, rms) = rounding.map(RoundingSource::cost).map_or((0.0, 0.0), |cost| (cost.max, cost.rms));
        let wanted_rms = tensor::agreement(wanted, wanted).wanted_rms;
        // Four times the largest error of a map of probabilities is half of their range: there the largest error itself, with
        // some reserve, and the mean over the map are the tolerance.
        let most = match probabilities(wanted) {
            true => (NETWORK_FACTOR * max).min(PROBABILITY_ATOL.max(1.5 * max)),
            false => NETWORK_FACTOR * max,
        };
        let atol = (NETWORK.share * largest).max(most);
        let rms = (NETWORK.share * wanted_rms).max(NETWORK_FACTOR * rms);
        Tolerance { atol, rms: Some(rms), rounding, ..Tolerance::default() }
    }
}

/// Largest error of a probability, unless rounding costs more.
const PROBABILITY_ATOL: f32 = 1e-2;

/// Returns true if values look like probabilities: all from 0 to 1, and not all equal.
fn probabilities(values: &[f32]) -> bool {
    let (least, most) = values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
    least >= 0.0 && most <= 1.0 && least < most
}

fn verdict(d: &Difference, a: &Agreement, t: &Tolerance, array: &Array, wanted: &Array) -> String {
    let mut text = format!(": largest error {:.3e} at {:?}", d.max_abs, unflatten(d.at, &array.shape));
    text += &format!(", tolerance {:.3e}", t.atol);
    if t.rtol > 0.0 {
        text += &format!(" + {:.3e} of the value", t.rtol);
    }
    text += &match t.rounding {
        Some(RoundingSource::Network(cost)) => format!(" (fp16 rounding alone costs {:.3e})", cost.max),
        Some(RoundingSource::Levels(cost)) => format!(" (levels that fp16 rounding moves cost up to {:.3e})", cost.max),
        Some(RoundingSource::Inputs(cost)) => format!(" (inputs moved by their last place cost {:.3e})", cost.max),
        None => String::new(),
    };
    text += &format!("; rms error {:.3e}", a.rms);
    if let Some(most) = t.rms {
        text += &format!(", tolerance {most:.3e}");
    }
    text += &format!("; cosine {:.6}, SNR {:.1} dB", a.cosine, a.snr_db());
    match d.first_bad {
        None if t.rms.is_some_and(|most| a.rms > most) => text + ": the rms error is beyond its tolerance",
        None => text + ": ok",
        Some(i) => {
            let at = unflatten(i, &array.shape);
            text + &format!(": {} elements differ, first at {at:?}: {} for {}", d.bad, array.data[i], wanted.data[i])
        }
    }
}

/// All metrics, and the violated bounds.
fn bounded(d: &Difference, a: &Agreement, violated: &[String], array: &Array) -> String {
    let text = format!(
        ": largest error {:.3e} at {:?}; rms error {:.3e}, {:.3e} relative; cosine {:.6}, SNR {:.1} dB; top-1 {}",
        d.max_abs,
        unflatten(d.at, &array.shape),
        a.rms,
        a.relative(),
        a.cosine,
        a.snr_db(),
        if a.top1 { "the same" } else { "another" }
    );
    if violated.is_empty() { text + ": ok" } else { text + ": " + &violated.join("; ") }
}

/// The elements; if there are many, their number and range.
pub fn summary(array: &Array) -> String {
    if array.data.len() <= 16 {
        return format!(": {:?}", array.data);
    }
    let (min, max) = array.data.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(a, b), &x| (a.min(x), b.max(x)));
    format!(": {} elements from {min} to {max}", array.data.len())
}

fn unflatten(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&n| {
            let k = i % n.max(1);
            i /= n.max(1);
            k
        })
        .collect();
    index.reverse();
    index
}

/// The most probable class of an output with one element per line of `labels`.
fn best(labels: &[u8], array: &Array) -> Result<(String, f32)> {
    let text = String::from_utf8_lossy(labels);
    let names: Vec<&str> = text.lines().collect();
    let best = array.data.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    match best {
        Some((i, &p)) if names.len() == array.data.len() => Ok((names[i].to_string(), p)),
        _ => Err(Diagnostic::new(Code::Usage, format!("{} labels for {} classes", names.len(), array.data.len()))),
    }
}
