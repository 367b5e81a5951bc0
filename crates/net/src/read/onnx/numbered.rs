//! Positions among the rows at the places where a mask is true. The model numbers the rows that it has; here a row stands for every
//! place, so that a number is the count of true places before the row's own, and a row is found by the place of its number.

use super::across::filled;
use super::lengths;
use super::node::Node;
use super::parts;
use super::rows::{Mark, Rows, all_places, lost, real};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind};

/// Translates a search, or a choice by position, among marked rows; returns false for all other operators.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "TopK" => best(n),
        "ArgMax" | "ArgMin" => first(n),
        "Gather" | "GatherND" => chosen(n),
        "Range" => counted(n),
        "Slice" => parts::cut(n),
        "Split" => parts::divided(n),
        _ => Ok(false),
    }
}

pub fn rows_of(n: &Node, at: usize) -> Option<Rows> {
    match n.input(at).and_then(|id| n.t.mark(id)) {
        Some(Mark::Rows(rows)) => Some(*rows),
        _ => None,
    }
}

pub fn mark(n: &mut Node, id: ValueId, rows: Rows) {
    n.t.computed.marks.get_or_insert_default().insert(id, Mark::Rows(rows));
}

/// The number of each row that the model has.
pub fn numbers(n: &mut Node, rows: Rows) -> Result<ValueId, Error> {
    let real = real(n.build(), rows)?;
    let real = n.build().cast(real, DType::I32)?;
    n.build().cumulative_sum(real, 0, true, false)
}

/// The rows by number: of equal elements, the first come first.
pub fn places(build: &mut Builder, rows: Rows) -> Result<ValueId, Error> {
    let real = real(build, rows)?;
    let real = build.cast(real, DType::F32)?;
    Ok(build.top_k(real, 0, rows.count, false)?.1)
}

/// The number of rows that the model has.
pub fn total(build: &mut Builder, rows: Rows) -> Result<ValueId, Error> {
    let real = real(build, rows)?;
    let real = build.cast(real, DType::I32)?;
    build.reduce(ReduceKind::Sum, real, &[0], false)
}

/// The rows with an element at those that the model does not have which is behind all others.
fn with_last(n: &mut Node, rows: Rows, greatest: bool) -> Result<ValueId, Error> {
    let x = n.need(0)?;
    if !n.dtype(x).is_float() {
        return Err(lost(n));
    }
    filled(n, x, rows, if greatest { f32::NEG_INFINITY } else { f32::INFINITY })
}

/// `Range` of the numbers of all rows.
fn counted(n: &mut Node) -> Result<bool, Error> {
    let is = |n: &Node, at: usize, number: i32| {
        n.input(at).and_then(|id| n.t.build.data(id)).is_some_and(|data| data.data.to_i32() == [number])
    };
    let rows = match n.input(1).and_then(|id| n.t.mark(id)) {
        Some(Mark::Extents(flags, rows)) if *flags == [true] && is(n, 0, 0) && is(n, 2, 1) => *rows,
        _ => return Ok(false),
    };
    if lengths::first_are_real(&n.t.computed.lengths, rows) {
        return lengths::numbers(n, rows);
    }
    let numbers = numbers(n, rows)?;
    let id = n.build().copied(numbers)?;
    mark(n, id, Rows { axis: 0, ..rows });
    n.done(id)
}

/// `TopK`: as many rows as the model asks for. A number that is computed asks for the first of all rows in order.
fn best(n: &mut Node) -> Result<bool, Error> {
    let (Some(rows), Some(k)) = (rows_of(n, 0), n.input(1)) else { return Ok(false) };
    let shape = n.shape(n.need(0)?);
    let axis = n.axis(n.int("axis", -1), shape.len())?;
    let known = n.t.build.data(k).is_some() && n.t.mark(k).is_none();
    if axis != rows.axis {
        if !known {
            return Ok(false);
        }
        n.translate_known()?;
        for name in n.node.output.iter().filter_map(|name| n.t.values.get(name).copied()).collect::<Vec<_>>() {
            mark(n, name, rows);
        }
        return Ok(true);
    }
    let ascending = !n.flag("largest", true);
    let x = with_last(n, rows, !ascending)?;
    let limit = match n.t.mark(k) {
        Some(Mark::Extents(flags, of)) if *flags == [true] && of.of_same(&rows) => total(n.build(), rows)?,
        Some(_) => return Ok(false),
        None => n.build().reshape(k, [])?,
    };
    let asked = n.t.build.data(limit).and_then(|k| k.data.to_i32().first().copied());
    let count = match asked {
        Some(k) => {
            let place = n.place();
            n.t.notes.push(format!("{place}: read as if the mask of its rows had at least {k} true places"));
            n.size("k", i64::from(k))?
        }
        None => rows.count,
    };
    if count > rows.count || count == 0 {
        return Err(n.unsupported(format!("{count} of {} rows", rows.count)));
    }
    let (values, positions) = n.t.build.top_k(x, axis, count, ascending)?;
    let numbers = numbers(n, rows)?;
    let positions = n.build().gather(numbers, positions, 0)?;
    if asked.is_none() {
        let order = n.build().integers([count], (0..count as i32).collect());
        let mask = n.build().binary(Binary::Less, order, limit)?;
        let rows = Rows { mask, each: 1, ..rows };
        [values, positions].into_iter().for_each(|id| mark(n, id, rows));
    }
    n.output(0, values);
    n.output(1, positions);
    n.finish(2)
}

/// `ArgMax` and `ArgMin` along the rows.
fn first(n: &mut Node) -> Result<bool, Error> {
    let Some(rows) = rows_of(n, 0) else { return Ok(false) };
    if n.axis(n.int("axis", 0), n.shape(n.need(0)?).len())? != rows.axis {
        return Ok(false);
    }
    let greatest = n.op() == "ArgMax";
    let x = with_last(n, rows, greatest)?;
    let (last, keep_dims) = (n.flag("select_last_index", false), n.flag("keepdims", true));
    let found = n.build().op("found", OpKind::ArgReduce { greatest, last, axis: rows.axis, keep_dims }, &[x])?;
    let numbers = numbers(n, rows)?;
    let id = n.build().gather(numbers, found, 0)?;
    n.done(id)
}

/// The places of rows by number, from the last real one if it is below zero.
pub fn place_of(n: &mut Node, rows: Rows, index: ValueId, total: ValueId) -> Result<ValueId, Error> {
    let from_end = n.build().binary(Binary::Add, index, total)?;
    let zero = n.build().scalar(0.0, index);
    let below = n.build().binary(Binary::Less, index, zero)?;
    let index = n.build().select(below, from_end, index)?;
    let places = places(n.build(), rows)?;
    n.build().gather(places, index, 0)
}

/// `Gather` of rows by their numbers, and `GatherND` of the first axis.
fn chosen(n: &mut Node) -> Result<bool, Error> {
    let (Some(rows), Some(index)) = (rows_of(n, 0), n.input(1)) else { return Ok(false) };
    let (shape, own) = (n.shape(n.need(0)?), n.shape(index));
    let by_axis = n.op() == "Gather";
    let along = match by_axis {
        true => n.axis(n.int("axis", 0), shape.len())? == rows.axis,
        false => rows.axis == 0 && own.last() == Some(&1) && n.int("batch_dims", 0) == 0,
    };
    if !along {
        return Ok(false);
    }
    let chosen = match n.t.mark(index) {
        Some(Mark::Rows(rows)) if by_axis || rows.axis + 1 < own.len() => Some(*rows),
        None => None,
        Some(_) => return Ok(false),
    };
    let total = total(n.build(), rows)?;
    n.inputs[1] = Some(place_of(n, rows, index, total)?);
    n.translate_known()?;
    let made = n.t.values.get(&n.node.output[0]).copied();
    if let (Some(id), Some(chosen)) = (made, chosen) {
        let axis = chosen.axis + if by_axis { rows.axis } else { 0 };
        mark(n, id, Rows { axis, ..chosen });
    }
    Ok(true)
}

/// The places where a mask of marked rows is true: the numbers of the rows, and positions along the other axes.
pub fn search(n: &mut Node, mask: ValueId, rows: Rows) -> Result<bool, Error> {
    let shape = n.shape(mask);
    let (rank, count) = (shape.len(), elements(&shape));
    let within = n.t.computed.within.iter().find(|(of, _)| *of == mask).map(|(_, within)| *within);
    let within = match within {
        Some(within) => within,
        None => {
            let own = n.build().cast(mask, DType::Bool)?;
            let own = filled(n, own, rows, 0.0)?;
            n.t.computed.within.push((mask, own));
            own
        }
    };
    let numbers = numbers(n, rows)?;
    let all = all_places(&shape);
    let mut axes = Vec::new();
    for axis in 0..rank {
        let along = all.iter().skip(axis).step_by(rank).copied().collect();
        let along = n.build().integers([1, count], along);
        axes.push(if axis == rows.axis { n.build().gather(numbers, along, 0)? } else { along });
    }
    let id = n.build().concat(&axes, 0)?;
    mark(n, id, Rows { axis: 1, count, mask: within, each: 1 });
    n.done(id)
}
