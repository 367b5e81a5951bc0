//! Functions that are products of their argument and a gate, such as `x * sigmoid(x)`, where one table of the whole is off by too much.
//!
//! A table of the gate alone vanishes with the argument as a rounding does: its error is a part of the value near zero. It is fitted by
//! the error that the whole function has with it.

use super::steps::{Step, steps, text, value, value_with};
use super::{MOST_ERROR, ROUNDING, Region, SMALL_ERROR, Uses, saving};
use crate::ir::*;
use crate::lut::Table;
use anemone_program::order;
use std::collections::HashMap;

/// Limit of the root of the sum of squares of these errors over a network. They have no mean over the knots and vanish at zero, so that
/// they add like roundings, unlike errors of one sign.
const TOTAL_GATE_ERROR: f64 = 4.0 * SMALL_ERROR;
/// Greatest error of a value near zero, relative to it.
const RELATIVE: f64 = 4.0 * ROUNDING;
/// Largest argument that counts as near zero.
const NEAR: f64 = 1.0 / 16.0;
/// Change of a gate by which the function's slope over it is found.
const CHANGE: f64 = 1.0 / 1024.0;

/// Part of a function that becomes a table.
pub(super) struct Gate {
    /// The layer that writes its value.
    pub end: usize,
    /// Number of its layers.
    pub layers: usize,
    pub table: Table,
    /// Error of the whole function.
    pub error: f64,
}

/// Tables found before, by the function and the position of its part.
pub(super) type Known = HashMap<(String, usize), Option<(Table, f64)>>;

/// The longest part of a function that has a table with which the whole is within its bound.
pub(super) fn of(graph: &Graph, uses: &Uses, region: &Region, known: &mut Known) -> Option<Gate> {
    let steps = steps(graph, uses, &(region.layers.clone(), region.argument));
    let mut ordered = region.layers.clone();
    order::by(&mut ordered, Ord::cmp);
    let same = |argument: &View4| argument.elements() == region.argument.elements();
    let parts = ordered.iter().enumerate().filter(|&(_, &at)| at != region.end);
    let mut parts: Vec<(usize, Vec<usize>)> = parts
        .filter_map(|(position, &at)| {
            saving(graph, uses, at).find(|(_, argument)| same(argument)).map(|(layers, _)| (position, layers))
        })
        .collect();
    order::by_key(&mut parts, |(_, layers)| std::cmp::Reverse(layers.len()));
    let key = text(&steps);
    parts.into_iter().find_map(|(position, layers)| {
        let fitted = known.entry((key.clone(), position)).or_insert_with(|| fit(&steps, position));
        let (table, error) = fitted.clone()?;
        Some(Gate { end: layers[0], layers: layers.len(), table, error })
    })
}

/// The table of a step, and the error of the function with it.
fn fit(steps: &[Step], position: usize) -> Option<(Table, f64)> {
    let whole = |x: f64| value(steps, x);
    let part = |x: f64| value(&steps[..=position], x);
    let size = |x: f64| whole(x).abs().max(1.0);
    let slope = |x: f64| {
        let [less, more] = [-CHANGE, CHANGE].map(|change| value_with(steps, x, Some((position, part(x) + change))));
        (more - less).abs() / (2.0 * CHANGE) / size(x)
    };
    // Only a factor of the argument is a gate: it has no effect at zero.
    if slope(0.0) != 0.0 || whole(0.0) != 0.0 {
        return None;
    }
    let (table, _) = Table::fitted_by("gate", &part, &slope, MOST_ERROR)?;
    let table = table.without_subnormals();
    let lookup = table.lookup();
    let off = |x: f64| (value_with(steps, x, Some((position, lookup.value(x)))) - whole(x)).abs();
    let mut most = 0.0;
    for x in Table::arguments() {
        let error = off(x);
        // Not a number where the function is none.
        if error > SMALL_ERROR * size(x) || x.abs() <= NEAR && error > RELATIVE * whole(x).abs() {
            return None;
        }
        most = f64::max(most, error / size(x));
    }
    Some((table, most))
}

/// Marks the gates that a network admits: the largest errors are left out until the rest is within the limit.
pub(super) fn admitted(gates: &[Option<Gate>]) -> Vec<bool> {
    let mut errors: Vec<f64> = gates.iter().flatten().map(|gate| gate.error).collect();
    order::by(&mut errors, f64::total_cmp);
    let total = |errors: &[f64]| errors.iter().map(|e| e * e).sum::<f64>().sqrt();
    while let Some(&last) = errors.last()
        && total(&errors) > TOTAL_GATE_ERROR
    {
        // All gates of one function are admitted, or none.
        errors.retain(|&error| error < last);
    }
    let most = errors.last().copied().unwrap_or(0.0);
    gates.iter().map(|gate| gate.as_ref().is_some_and(|gate| gate.error <= most)).collect()
}
