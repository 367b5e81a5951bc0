//! Operators along rows of which the first are real: windows, paddings, repetitions and recurrent layers. Behind the last real row the model
//! has what it has behind its operand. The number of rows that results have follows from that of the operand.

use super::across::filled;
use super::lengths::{first_are_real, made};
use super::node::Node;
use super::numbered::{mark, numbers, rows_of, total};
use super::rows::{Mark, Rows, lost};
use crate::error::Error;
use crate::ops::Binary;

/// Rows by the rows that windows along them were computed from: the number of real ones plus `added`, divided by the stride, plus one.
pub struct Windows {
    from: Rows,
    added: i64,
    stride: i64,
    made: Rows,
}

/// Element of the places behind the last row for a maximum: the least finite one of fp16, so that products with it are finite or infinite.
const LEAST: f32 = -65504.0;

/// Largest stride and number of added rows.
const MOST: i64 = i32::MAX as i64;

/// Operators with a rule here.
pub const NAMES: &[&str] = &["AveragePool", "Conv", "ConvTranspose", "GRU", "LSTM", "MaxPool", "Pad", "RNN", "Resize"];

/// Translates an operator along such rows; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if first_of(n)? {
        return Ok(true);
    }
    let Some(rows) = rows_of(n, 0).filter(|&rows| first_are_real(&n.t.computed.lengths, rows)) else {
        return Ok(false);
    };
    if (1..n.inputs.len()).any(|at| n.input(at).is_some_and(|id| n.t.mark(id).is_some())) {
        return Ok(false);
    }
    match n.op() {
        "Conv" | "MaxPool" | "AveragePool" if rows.axis >= 2 => windows(n, rows),
        "ConvTranspose" if rows.axis >= 2 => spread(n, rows),
        "GRU" | "LSTM" | "RNN" => recurrent(n, rows),
        "Resize" => repeated(n, rows),
        "Pad" => padded(n, rows),
        "Slice" => reversed(n, rows),
        _ => Ok(false),
    }
}

/// The entry of a list of an attribute for the axis of the rows.
fn along(n: &Node, name: &str, rows: Rows, default: i64) -> i64 {
    n.ints(name).and_then(|list| list.get(rows.axis - 2).copied()).unwrap_or(default)
}

fn windows(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let spatial = n.shape(x).len() - 2;
    let weights = n
        .input(1)
        .filter(|_| n.op() == "Conv")
        .map(|weights| n.shape(weights).get(rows.axis).map_or(1, |&extent| extent as i64));
    let extent = weights.unwrap_or_else(|| along(n, "kernel_shape", rows, 1));
    let stride = along(n, "strides", rows, 1);
    let pads = n.ints("pads").unwrap_or_default();
    let pad = |at: usize| pads.get(at).copied().unwrap_or(0);
    let pads = [pad(rows.axis - 2), pad(rows.axis - 2 + spatial)];
    let automatic = n.text("auto_pad").is_some_and(|how| !matches!(how.as_str(), "NOTSET" | "VALID"));
    let counts_padding = n.op() != "AveragePool" || pads == [0; 2] || n.flag("count_include_pad", false);
    let one = n.node.output.iter().skip(1).all(String::is_empty);
    if automatic || n.flag("ceil_mode", false) || !counts_padding || !one || !(1..=MOST).contains(&stride) {
        return Err(lost(n));
    }
    let span = along(n, "dilations", rows, 1).saturating_mul(extent - 1).saturating_add(1);
    let element = if n.op() == "MaxPool" { LEAST } else { 0.0 };
    n.inputs[0] = Some(filled(n, x, rows, element)?);
    n.translate_known()?;
    settle(n, rows, pads[0].saturating_add(pads[1]).saturating_sub(span), stride)
}

/// Marks the first result, which has one row for each stride within the number of rows plus `added`, and one more.
fn settle(n: &mut Node, rows: Rows, added: i64, stride: i64) -> Result<bool, Error> {
    let Some(&id) = n.t.values.get(&n.node.output[0]).filter(|_| added.abs() <= MOST) else { return Err(lost(n)) };
    let count = n.shape(id)[rows.axis];
    let alike = |a: &Rows, b: &Rows| a.of_same(b) && a.count == b.count;
    // Windows one behind the other add up.
    let before = n.t.computed.windows.iter().find(|w| w.stride == 1 && alike(&w.made, &rows));
    let (from, added) = match before {
        Some(before) => (before.from, before.added + 1 + added),
        None => (rows, added),
    };
    if (stride, added, count) == (1, -1, from.count) {
        mark(n, id, Rows { axis: rows.axis, ..from });
        return Ok(true);
    }
    let same = |w: &&Windows| alike(&w.from, &from) && (w.added, w.stride, w.made.count) == (added, stride, count);
    let made = match n.t.computed.windows.iter().find(same) {
        Some(known) => known.made,
        None => {
            let number = |n: &mut Node, number: i64| n.build().integers([], vec![number as i32]);
            let length = total(n.build(), from)?;
            let added_to = number(n, added);
            let mut length = n.build().binary(Binary::Add, length, added_to)?;
            if stride > 1 {
                let stride = number(n, stride);
                length = n.build().binary(Binary::FloorDiv, length, stride)?;
            }
            let one = number(n, 1);
            let length = n.build().binary(Binary::Add, length, one)?;
            let made = made(n, length, count)?;
            n.t.computed.windows.push(Windows { from, added, stride, made });
            made
        }
    };
    mark(n, id, Rows { axis: rows.axis, ..made });
    Ok(true)
}

/// A transposed convolution whose result has as many rows for each as its stride.
fn spread(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let stride = along(n, "strides", rows, 1);
    let stride = n.size("strides", stride)?;
    n.inputs[0] = Some(filled(n, x, rows, 0.0)?);
    n.translate_known()?;
    repeats(n, rows, stride)
}

/// Marks the first result, which has `times` rows for each.
fn repeats(n: &mut Node, rows: Rows, times: usize) -> Result<bool, Error> {
    let Some(&id) = n.t.values.get(&n.node.output[0]) else { return Err(lost(n)) };
    let count = rows.count.saturating_mul(times);
    if n.shape(id).get(rows.axis) != Some(&count) {
        return Err(lost(n));
    }
    mark(n, id, Rows { count, each: rows.each * times, ..rows });
    Ok(true)
}

/// A resize that repeats every row a whole number of times.
fn repeated(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let nearest = n.text("mode").is_none_or(|mode| mode == "nearest");
    let floor = n.text("nearest_mode").is_some_and(|mode| mode == "floor");
    let repeats_all = match n.text("coordinate_transformation_mode").as_deref() {
        None | Some("half_pixel") => true,
        Some("asymmetric") => floor,
        Some(_) => false,
    };
    if !nearest || !repeats_all {
        return Err(lost(n));
    }
    n.translate_known()?;
    let made = n.t.values.get(&n.node.output[0]).map_or(0, |&id| n.shape(id)[rows.axis]);
    repeats(n, rows, made / rows.count.max(1))
}

/// `Slice` of the first elements of another value, as many as there are rows: a row for each. Returns false for all others.
fn first_of(n: &mut Node) -> Result<bool, Error> {
    let Some(Mark::Extents(flags, rows)) = n.input(2).and_then(|id| n.t.mark(id)).cloned() else { return Ok(false) };
    let x = n.need(0)?;
    if n.op() != "Slice" || n.t.mark(x).is_some() || flags != [true] {
        return Ok(false);
    }
    let (starts, axes) =
        (n.integers(1, "starts")?.unwrap_or_default(), n.integers(3, "axes")?.unwrap_or_else(|| vec![0]));
    let (&[0], &[axis], None | Some([1])) = (&starts[..], &axes[..], n.integers(4, "steps")?.as_deref()) else {
        return Ok(false);
    };
    let shape = n.shape(x);
    let axis = n.axis(axis, shape.len())?;
    if shape[axis] < rows.count {
        return Err(n.unsupported(format!("up to {} of {} elements along axis {axis}", rows.count, shape[axis])));
    }
    let id = match first_are_real(&n.t.computed.lengths, rows) {
        true => n.build().slice(x, axis, 0, rows.count)?,
        false => {
            let numbers = numbers(n, rows)?;
            n.build().gather(x, numbers, axis)?
        }
    };
    let id = if id == x { n.build().copied(id)? } else { id };
    mark(n, id, Rows { axis, ..rows });
    n.done(id)
}

/// `Slice` of all rows from the last to the first. Returns false for all others.
fn reversed(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (starts, ends) = (n.either("starts", 1)?.unwrap_or_default(), n.either("ends", 2)?.unwrap_or_default());
    let (axes, steps) = (n.either("axes", 3)?.unwrap_or_default(), n.either("steps", 4)?.unwrap_or_default());
    let count = rows.count as i64;
    let (&[start], &[end], &[axis], [-1]) = (&starts[..], &ends[..], &axes[..], &steps[..]) else { return Ok(false) };
    let whole = (start == -1 || start >= count - 1) && end < -count;
    if !whole || n.axis(axis, n.shape(x).len())? != rows.axis {
        return Ok(false);
    }
    let last = total(n.build(), rows)?;
    let before = n.build().integers([rows.count], (1..=rows.count as i32).collect());
    let places = n.build().binary(Binary::Sub, last, before)?;
    let zero = n.build().integers([], vec![0]);
    let places = n.build().binary(Binary::Max, places, zero)?;
    let id = n.build().gather(x, places, rows.axis)?;
    mark(n, id, rows);
    n.done(id)
}

/// Constant rows before or behind.
fn padded(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let pads = n.either("pads", 1)?.unwrap_or_default();
    if n.input(3).is_some() || pads.len() != 2 * rank {
        return Ok(false);
    }
    let (before, behind) = (pads[rows.axis], pads[rows.axis + rank]);
    if (before, behind) == (0, 0) {
        return Ok(false);
    }
    if n.text("mode").is_some_and(|mode| mode != "constant") {
        return Err(lost(n));
    }
    let element = n.constant(2, "constant_value")?;
    let element = element.and_then(|v| v.data.to_f32().first().copied()).unwrap_or_else(|| n.float("value", 0.0));
    n.inputs[0] = Some(filled(n, x, rows, element)?);
    n.translate_known()?;
    settle(n, rows, before.saturating_add(behind).saturating_sub(1), 1)
}

/// A recurrent layer over as many steps as there are rows.
fn recurrent(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let batch_first = n.flag("layout", false);
    let time = usize::from(batch_first);
    let &[a, b, _] = n.shape(x).as_slice() else { return Err(lost(n)) };
    if rows.axis != time || n.input(4).is_some() {
        return Err(lost(n));
    }
    let length = total(n.build(), rows)?;
    let lengths = n.build().broadcast(length, [if batch_first { a } else { b }])?;
    n.inputs.resize(n.inputs.len().max(5), None);
    n.inputs[4] = Some(lengths);
    n.translate_known()?;
    let made = n.t.values.get(&n.node.output[0]).copied();
    made.into_iter().for_each(|id| mark(n, id, rows));
    Ok(true)
}
