//! Operators that search, select and scatter elements by position.

use super::made::{MADE_ELEMENTS, clamp};
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, elements};
use crate::ops::{Binary, OpKind, ScatterMode};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Gather" => {
            let (x, indices) = (n.need(0)?, n.need(1)?);
            let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
            let extent = n.shape(x)[axis];
            let within = |at: &i32| (-(extent as i64)..extent as i64).contains(&i64::from(*at));
            let outside = n.t.build.data(indices).and_then(|t| t.data.to_i32().into_iter().find(|at| !within(at)));
            if let Some(found) = outside {
                return Err(Error::Index { op: n.place(), found: i64::from(found), extent });
            }
            let id = n.build().gather(x, indices, axis)?;
            n.done(id)
        }
        "GatherElements" => {
            let (x, indices) = (n.need(0)?, n.need(1)?);
            let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
            let id = n.build().op("gathered", OpKind::GatherAlong { axis }, &[x, indices])?;
            n.done(id)
        }
        "GatherND" => {
            let (x, indices) = (n.need(0)?, n.need(1)?);
            let batch_dims = n.size("batch_dims", n.int("batch_dims", 0))?;
            let id = n.build().op("gathered", OpKind::GatherNd { batch_dims }, &[x, indices])?;
            n.done(id)
        }
        "Scatter" | "ScatterElements" => {
            let inputs = [n.need(0)?, n.need(1)?, n.need(2)?];
            let axis = n.axis(n.int("axis", 0), n.shape(inputs[0]).len())?;
            let mode = reduction(n)?;
            let id = n.build().op("scattered", OpKind::ScatterAlong { axis, mode }, &inputs)?;
            n.done(id)
        }
        "ScatterND" => {
            let inputs = [n.need(0)?, n.need(1)?, n.need(2)?];
            let mode = reduction(n)?;
            let id = n.build().op("scattered", OpKind::ScatterNd { mode }, &inputs)?;
            n.done(id)
        }
        "TensorScatter" => tensor_scatter(n),
        "TopK" => top_k(n),
        "ArgMax" | "ArgMin" => {
            let x = n.need(0)?;
            let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
            let kind = OpKind::ArgReduce {
                greatest: n.op() == "ArgMax",
                last: n.flag("select_last_index", false),
                axis,
                keep_dims: n.flag("keepdims", true),
            };
            let id = n.build().op("found", kind, &[x])?;
            n.done(id)
        }
        "OneHot" => one_hot(n),
        "NonZero" if n.input(0).is_some_and(|x| n.t.build.data(x).is_some() && n.t.build.rank(x) > 0) => non_zero(n),
        "CumSum" | "CumProd" => {
            let x = n.need(0)?;
            let axis = n.integers(1, "axis")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("axis"))?;
            let axis = n.axis(axis, n.shape(x).len())?;
            let (exclusive, reverse) = (n.flag("exclusive", false), n.flag("reverse", false));
            let id = match n.op() {
                "CumSum" => n.build().cumulative_sum(x, axis, exclusive, reverse)?,
                _ => n.build().cumulative_product(x, axis, exclusive, reverse)?,
            };
            n.done(id)
        }
        "ReverseSequence" => {
            let x = n.need(0)?;
            let lengths = n.need(1)?;
            let rank = n.shape(x).len();
            let (axis, batch) = (n.axis(n.int("time_axis", 0), rank)?, n.axis(n.int("batch_axis", 1), rank)?);
            let id = if n.t.build.data(lengths).is_some() {
                let lengths = n.integers(1, "sequence_lens")?.unwrap_or_default();
                let lengths = n.sizes("sequence_lens", &lengths)?;
                n.build().reverse_sequence(x, &lengths, axis, batch)?
            } else {
                n.build().reverse_sequence_at(x, lengths, axis, batch)?
            };
            n.done(id)
        }
        _ => Ok(false),
    }
}

pub(super) fn reduction(n: &Node) -> Result<ScatterMode, Error> {
    let name = n.text("reduction").unwrap_or_else(|| "none".to_string());
    let name = if name == "none" { "update" } else { name.as_str() };
    let mode = ScatterMode::ALL.iter().find(|(text, _)| *text == name).map(|row| row.1);
    mode.ok_or_else(|| n.unsupported(format!("reduction `{name}`")))
}

/// Writes new entries of a cache, at one position per item of the batch.
fn tensor_scatter(n: &mut Node) -> Result<bool, Error> {
    let (cache, update) = (n.need(0)?, n.need(1)?);
    let (shape, part) = (n.shape(cache), n.shape(update));
    let axis = n.axis(n.int("axis", -2), shape.len())?;
    if axis == 0 || part.len() != shape.len() || elements(&part) > MADE_ELEMENTS {
        return Err(n.unsupported("a batch axis that is written, or an update of other extents"));
    }
    let mut along = vec![1; part.len()];
    along[axis] = part[axis];
    let mut places = n.build().integers(along.clone(), (0..part[axis] as i32).collect());
    if let Some(starts) = n.input(2) {
        along[axis] = 1;
        along[0] = shape[0];
        let starts = n.build().cast(starts, DType::I32)?;
        let starts = n.build().reshape(starts, along)?;
        places = n.build().binary(Binary::Add, places, starts)?;
    }
    if n.text("mode").as_deref() == Some("circular") {
        let extent = n.build().integers([], vec![clamp(shape[axis] as i64)]);
        places = n.build().binary(Binary::Mod, places, extent)?;
    }
    let places = n.build().broadcast(places, part)?;
    let kind = OpKind::ScatterAlong { axis, mode: ScatterMode::Update };
    let id = n.build().op("written", kind, &[cache, places, update])?;
    n.done(id)
}

fn top_k(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = n.axis(n.int("axis", -1), shape.len())?;
    let k = match n.attribute("k") {
        Some(a) => a.i,
        None => n.integers(1, "k")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("k"))?,
    };
    let k = n.size("k", k)?;
    if k > shape[axis] || k == 0 {
        return Err(n.unsupported(format!("`k` is {k}, and axis {axis} has {} elements", shape[axis])));
    }
    let (values, positions) = n.t.build.top_k(x, axis, k, !n.flag("largest", true))?;
    n.output(0, values);
    n.output(1, positions);
    n.finish(2)
}

/// Positions of a constant's elements that are not zero, a row for each axis.
fn non_zero(n: &mut Node) -> Result<bool, Error> {
    let tensor = n.constant(0, "the tensor")?.ok_or_else(|| n.missing("the tensor"))?;
    let values = tensor.data.to_f32();
    let places: Vec<usize> = (0..values.len()).filter(|&at| values[at] != 0.0).collect();
    let mut rows = Vec::new();
    for axis in 0..tensor.shape.len() {
        let inner = elements(&tensor.shape[axis + 1..]);
        rows.extend(places.iter().map(|at| (at / inner % tensor.shape[axis]) as i32));
    }
    let shape = [tensor.shape.len(), places.len()];
    n.build().budget.spend(&shape)?;
    let id = n.build().integers(shape, rows);
    n.done(id)
}

fn one_hot(n: &mut Node) -> Result<bool, Error> {
    let indices = n.need(0)?;
    let depth = n.integers(1, "depth")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("depth"))?;
    let depth = n.size("depth", depth)?;
    let values = n.need(2)?;
    let axis = n.axis(n.int("axis", -1), n.shape(indices).len() + 1)?;
    let side = |n: &mut Node, i: usize| {
        let side = n.build().slice(values, 0, i, i + 1)?;
        n.build().reshape(side, [])
    };
    let (off, on) = (side(n, 0)?, side(n, 1)?);
    let id = n.build().one_hot(indices, depth, axis, on, off)?;
    n.done(id)
}
