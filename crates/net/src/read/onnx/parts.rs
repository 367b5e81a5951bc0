//! Parts of rows whose number depends on values: slices and splits at computed places, the first of the rows at the places of a mask, and
//! such rows as outputs of the model.

use super::lengths;
use super::moving;
use super::node::Node;
use super::numbered::{mark, places, rows_of, total};
use super::proto;
use super::rows::{Computed, Mark, Rows};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::Binary;

/// A part of the rows of a mask.
pub struct Cut {
    /// The mask, its repetition, and the bounds.
    of: (ValueId, usize, i64, i64),
    /// Places of its rows.
    places: ValueId,
    /// The real ones.
    mask: ValueId,
}

/// `Slice` of one axis, and `Split`, of all rows at computed places: every row stays, and those within the bounds are real. Returns false
/// for all others.
pub fn bounded(n: &mut Node) -> Result<bool, Error> {
    if moving::slice(n)? {
        return Ok(true);
    }
    let computed = |n: &Node, at: usize| n.input(at).is_some_and(|id| n.t.build.data(id).is_none());
    let split = n.op() == "Split";
    let found = split && computed(n, 1) || n.op() == "Slice" && (computed(n, 1) || computed(n, 2));
    if !found {
        return Ok(false);
    }
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = match split {
        true => n.int("axis", 0),
        // Without axes, the one pair of bounds is that of the first.
        false => match (n.integers(3, "axes")?.as_deref(), n.integers(4, "steps")?.as_deref()) {
            (Some(&[axis]), None | Some([1])) => axis,
            (None, None | Some([1])) => 0,
            _ => return Ok(false),
        },
    };
    let axis = n.axis(axis, shape.len())?;
    let count = shape[axis];
    let limit = n.build().integers([], vec![count as i32]);
    let zero = n.build().integers([], vec![0]);
    let mut bounds = Vec::new();
    if split {
        let sizes = n.need(1)?;
        if n.shape(sizes) != [n.node.output.len()] {
            return Ok(false);
        }
        let mut begin = zero;
        for at in 0..n.node.output.len() {
            let size = n.build().slice(sizes, 0, at, at + 1)?;
            let size = n.build().reshape(size, [])?;
            let end = n.build().binary(Binary::Add, begin, size)?;
            bounds.push((begin, end));
            begin = end;
        }
    } else {
        let mut held = Vec::new();
        for at in [1, 2] {
            let bound = n.need(at)?;
            if n.shape(bound) != [1] {
                return Ok(false);
            }
            let bound = n.build().reshape(bound, [])?;
            // Bounds below zero count from the end.
            let from_end = n.build().binary(Binary::Add, bound, limit)?;
            let below = n.build().binary(Binary::Less, bound, zero)?;
            held.push(n.build().select(below, from_end, bound)?);
        }
        bounds.push((held[0], held[1]));
    }
    let order = n.build().integers([count], (0..count as i32).collect());
    for (at, (begin, end)) in bounds.into_iter().enumerate() {
        let from = n.build().binary(Binary::GreaterEqual, order, begin)?;
        let to = n.build().binary(Binary::Less, order, end)?;
        let mask = n.build().binary(Binary::Min, from, to)?;
        let part = n.build().copied(x)?;
        mark(n, part, Rows { axis, count, mask, each: 1 });
        n.output(at, part);
    }
    n.finish(n.node.output.len())
}

/// `TopK` of a computed number of all elements: each stays, and the first are real. Returns false for all others.
pub fn asked(n: &mut Node) -> Result<bool, Error> {
    let Some(asked) = n.input(1).filter(|&k| n.op() == "TopK" && n.t.build.data(k).is_none()) else { return Ok(false) };
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = n.axis(n.int("axis", -1), shape.len())?;
    let (count, ascending) = (shape[axis], !n.flag("largest", true));
    let asked = n.build().reshape(asked, [])?;
    let order = n.build().integers([count], (0..count as i32).collect());
    let mask = n.build().binary(Binary::Less, order, asked)?;
    let (values, positions) = n.t.build.top_k(x, axis, count, ascending)?;
    for (at, id) in [values, positions].into_iter().enumerate() {
        mark(n, id, Rows { axis, count, mask, each: 1 });
        n.output(at, id);
    }
    n.finish(2)
}

/// `Slice` of the rows at the places of a mask by constant bounds, which count the real ones. Returns false for slices of other axes and of
/// all rows.
pub fn cut(n: &mut Node) -> Result<bool, Error> {
    let Some(rows) = rows_of(n, 0) else { return Ok(false) };
    if (1..n.inputs.len()).any(|at| n.input(at).is_some_and(|id| n.t.build.data(id).is_none())) {
        return Ok(false);
    }
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let (starts, ends) = (n.either("starts", 1)?.unwrap_or_default(), n.either("ends", 2)?.unwrap_or_default());
    let axes = n.either("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = n.either("steps", 4)?.unwrap_or_else(|| vec![1]);
    let (&[start], &[end], &[axis], [1]) = (&starts[..], &ends[..], &axes[..], &steps[..]) else { return Ok(false) };
    let count = rows.count as i64;
    let all = end >= count;
    if n.axis(axis, rank)? != rows.axis || start == 0 && all {
        return Ok(false);
    }
    let most = match (start < 0, end < 0) {
        (false, true) => count - start,
        (false, false) => end.min(count) - start,
        (true, true) => end - start,
        (true, false) if all => (-start).min(count),
        (true, false) => return Ok(false),
    };
    if most <= 0 || start < -count || end < -count {
        return Ok(false);
    }
    let (id, rows) = run(n, x, rows, (start, end), most as usize)?;
    mark(n, id, rows);
    n.done(id)
}

/// Real rows from one number to another, each from the end if it is below zero: at most `most`.
fn run(n: &mut Node, x: ValueId, rows: Rows, (start, end): (i64, i64), most: usize) -> Result<(ValueId, Rows), Error> {
    let of = (rows.mask, rows.each, start, end);
    let known = n.t.computed.cut.iter().find(|cut| cut.of == of).map(|cut| (cut.places, cut.mask));
    let (taken, mask) = match known {
        Some(known) => known,
        None => {
            let number = |n: &mut Node, number: i64| n.build().integers([], vec![number as i32]);
            let total = total(n.build(), rows)?;
            let mut bounds = Vec::new();
            for bound in [start, end.min(rows.count as i64)] {
                let constant = number(n, bound);
                bounds.push(match bound < 0 {
                    true => {
                        let zero = number(n, 0);
                        let from_end = n.build().binary(Binary::Add, total, constant)?;
                        n.build().binary(Binary::Max, from_end, zero)?
                    }
                    false => n.build().binary(Binary::Min, total, constant)?,
                });
            }
            let order = n.build().integers([most], (0..most as i32).collect());
            let order = n.build().binary(Binary::Add, order, bounds[0])?;
            let mask = n.build().binary(Binary::Less, order, bounds[1])?;
            let last = number(n, rows.count as i64 - 1);
            let order = n.build().binary(Binary::Min, order, last)?;
            let places = places(n.build(), rows)?;
            let taken = n.build().gather(places, order, 0)?;
            n.t.computed.cut.push(Cut { of, places: taken, mask });
            (taken, mask)
        }
    };
    let id = n.build().gather(x, taken, rows.axis)?;
    Ok((id, Rows { axis: rows.axis, count: most, mask, each: 1 }))
}

/// `Split` of the rows at the places of a mask by constant sizes: as many are real as the model states. Returns false for other splits.
pub fn divided(n: &mut Node) -> Result<bool, Error> {
    let Some(rows) = rows_of(n, 0) else { return Ok(false) };
    let x = n.need(0)?;
    if n.axis(n.int("axis", 0), n.shape(x).len())? != rows.axis {
        return Ok(false);
    }
    let known = n.input(1).is_none_or(|id| n.t.build.data(id).is_some() && n.t.mark(id).is_none());
    let Some(sizes) = n.either("split", 1)?.filter(|_| known) else { return Ok(false) };
    let sizes = n.sizes("split", &sizes)?;
    let sum = sizes.iter().try_fold(0usize, |sum, size| sum.checked_add(*size));
    if sum.is_none_or(|sum| sum > rows.count) || sizes.len() != n.node.output.len() || sizes.contains(&0) {
        return Err(n.unsupported(format!("parts of {sizes:?} of at most {} rows", rows.count)));
    }
    let place = n.place();
    let sum: usize = sizes.iter().sum();
    n.t.notes.push(format!("{place}: read as if the mask of its rows had {sum} true places"));
    let places = places(n.build(), rows)?;
    let mut begin = 0;
    for (at, size) in sizes.iter().enumerate() {
        let part = n.build().slice(places, 0, begin, begin + size)?;
        let id = n.build().gather(x, part, rows.axis)?;
        n.output(at, id);
        begin += size;
    }
    n.finish(sizes.len())
}

/// Returns true for a padding of other axes than that of the rows.
pub fn unpadded(n: &Node, axis: usize) -> bool {
    let pads = n.either("pads", 1).ok().flatten().unwrap_or_default();
    n.input(3).is_none() && [pads.get(axis), pads.get(axis + pads.len() / 2)] == [Some(&0); 2]
}

/// Notes that the first result is zero, or true, if there are no rows.
pub fn note_none(n: &mut Node) {
    let made = n.t.values.get(&n.node.output[0]).copied();
    n.t.computed.none.extend(made);
}

/// Conditions that are true if there are no rows. The branch for that case, whose results have no elements, is not needed: the other
/// computes results without real rows. Returns false for all other operators.
pub fn emptiness(n: &mut Node) -> Result<bool, Error> {
    let known = (0..n.inputs.len()).find(|&at| n.input(at).is_some_and(|id| n.t.computed.none.contains(&id)));
    let Some(at) = known else { return Ok(false) };
    match n.op() {
        "Equal" => {
            let other = n.input(1 - at).and_then(|id| n.t.build.data(id));
            if other.is_none_or(|tensor| tensor.data.to_i32().iter().any(|&v| v != 0)) {
                return Ok(false);
            }
        }
        "Cast" | "Identity" => {}
        "If" if n.dtype(n.need(0)?) == DType::Bool => {
            let graph = n.attribute("then_branch").and_then(|a| a.g.as_ref());
            let empty = |node: &proto::Node| {
                let value = node.attribute.iter().find(|a| a.name == "value").and_then(|a| a.t.as_ref());
                node.op_type == "Constant" && value.is_some_and(|tensor| tensor.dims.contains(&0))
            };
            if !graph.is_some_and(|graph| graph.node.iter().all(empty)) {
                return Ok(false);
            }
            n.inputs[0] = Some(n.build().mask([], vec![false]));
            n.translate_known()?;
            return Ok(true);
        }
        _ => return Ok(false),
    }
    n.translate_known()?;
    note_none(n);
    Ok(true)
}

/// Makes a value that depends on the number of rows an output of the model: the real rows first, then zeros. Their number is an output of
/// its own.
pub fn packed(
    build: &mut Builder,
    computed: &Computed,
    notes: &mut Vec<String>,
    id: ValueId,
    name: &str,
) -> Result<(), Error> {
    let rows = match computed.marks.as_ref().and_then(|marks| marks.get(&id)) {
        Some(Mark::Rows(rows)) => *rows,
        Some(Mark::Extents(flags, rows)) => {
            let total = total(build, *rows)?;
            let shape = build.shape(id);
            let total = build.broadcast(total, shape.clone())?;
            let flags = build.mask(shape, flags.clone());
            let counted = build.select(flags, total, id)?;
            build.output(counted, name)?;
            return Ok(());
        }
        Some(Mark::Pairs(..)) => {
            let reason = "the extents of two of its axes depend on values: the graph is static".to_string();
            return Err(Error::Unsupported { op: "output".to_string(), output: name.to_string(), reason });
        }
        None => {
            build.output(id, name)?;
            return Ok(());
        }
    };
    let total = total(build, rows)?;
    let moved = match lengths::first_are_real(&computed.lengths, rows) {
        true => id,
        false => {
            let places = places(build, rows)?;
            build.gather(id, places, rows.axis)?
        }
    };
    let order = build.integers([rows.count], (0..rows.count as i32).collect());
    let real = build.binary(Binary::Less, order, total)?;
    let mut wide = vec![1; build.shape(id).len()];
    wide[rows.axis] = rows.count;
    let real = build.reshape(real, wide)?;
    let nothing = build.scalar(0.0, moved);
    let packed = build.select(real, moved, nothing)?;
    build.rename(id, &format!("{name}.rows"));
    let packed = build.output(packed, name)?;
    let counted = build.fresh(&format!("{name}_count"));
    let count = build.output(total, &counted)?;
    build.counted_rows(packed, count, rows.axis);
    notes.push(format!(
        "output `{name}`: of {} rows along axis {}, the first `{counted}` are real, and the others zero",
        rows.count, rows.axis
    ));
    Ok(())
}
