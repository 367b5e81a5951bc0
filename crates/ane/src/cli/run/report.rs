//! Outputs of a run as people and programs read them: compared with what is expected, classified, summarized.

use super::super::{Voice, print};
use anemone::tensor::{self, Array, Difference};
use anemone::{Code, Diagnostic, Result};
use serde_json::{Value, json};
use std::path::Path;

/// Outputs of at most so many elements are listed in the JSON report.
const LISTED_ELEMENTS: usize = 64;

/// How far an output may be from what is expected.
pub struct Tolerance {
    pub atol: f32,
    pub rtol: f32,
    /// What rounding every result to fp16 costs in this network, where that was measured.
    pub rounding: Option<f32>,
}

/// What outputs are held against.
pub struct Expectations<'a> {
    /// Expected outputs by name.
    pub outputs: &'a [(String, Array)],
    /// Names of classes, one per line, and the file they are from.
    pub labels: Option<(&'a [u8], &'a Path)>,
    /// How far the output of that name may be from what is expected.
    pub tolerance: &'a dyn Fn(&str, &Array) -> Tolerance,
}

/// A JSON report of each output, and whether one is not as expected. Lines are printed unless JSON is.
pub fn report(outputs: &[(String, Array)], expected: &Expectations, voice: Voice) -> Result<(Vec<Value>, bool)> {
    let (mut reports, mut failed) = (Vec::new(), false);
    for (name, array) in outputs {
        let mut report = json!({ "name": name, "shape": array.shape });
        let mut line = format!("{name} {:?}", array.shape);
        if let Some((_, wanted)) = expected.outputs.iter().find(|(n, _)| n == name) {
            let tolerance = (expected.tolerance)(name, wanted);
            let difference = tensor::compare(&array.data, &wanted.data, tolerance.atol, tolerance.rtol);
            failed |= difference.bad > 0;
            line += &verdict(&difference, &tolerance, array, wanted);
            report["max_abs_error"] = json!(difference.max_abs);
            report["max_abs_error_index"] = json!(unflatten(difference.at, &array.shape));
            report["atol"] = json!(tolerance.atol);
            report["rtol"] = json!(tolerance.rtol);
            report["within"] = json!(difference.bad == 0);
            report["bad_elements"] = json!(difference.bad);
            report["first_bad_index"] = json!(difference.first_bad.map(|i| unflatten(i, &array.shape)));
        } else {
            line += &summary(array);
        }
        if let Some((labels, path)) = expected.labels {
            let (class, probability) = best(labels, array).map_err(|d| d.at(path.display()))?;
            line += &format!("\nclass {class}, probability {probability:.4}");
            report["class"] = json!(class);
            report["probability"] = json!(probability);
        }
        if array.data.len() <= LISTED_ELEMENTS {
            report["values"] = json!(array.data);
        }
        if !voice.json {
            print(&format!("{line}\n"))?;
        }
        reports.push(report);
    }
    Ok((reports, failed))
}

fn verdict(d: &Difference, t: &Tolerance, array: &Array, wanted: &Array) -> String {
    let mut text = format!(": largest error {:.3e} at {:?}", d.max_abs, unflatten(d.at, &array.shape));
    text += &format!(", tolerance {:.3e}", t.atol);
    if t.rtol > 0.0 {
        text += &format!(" + {:.3e} of the value", t.rtol);
    }
    if let Some(rounding) = t.rounding {
        text += &format!(" (fp16 rounding alone costs {rounding:.3e})");
    }
    match d.first_bad {
        None => text + ": ok",
        Some(i) => {
            let at = unflatten(i, &array.shape);
            text + &format!(": {} elements differ, first at {at:?}: {} for {}", d.bad, array.data[i], wanted.data[i])
        }
    }
}

/// The elements, or where there are many, how many and their range.
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
