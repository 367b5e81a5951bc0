//! Functions across rows at the places where a mask is true: sums, extrema, softmax, and the scatter that ends their computation.
//! Every place of the mask has a row, and those that the model does not have are replaced by an element that changes nothing.

use super::masks::source;
use super::node::Node;
use super::rows::{ELEMENTWISE, Mark, Rows, all_places, lost, real};
use super::{element, index, masked, numbered};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, ScatterMode};

/// A mask with the number of rows for each of its elements, if not every row is real, and the number of rows.
pub type Part = (Option<(ValueId, usize)>, usize);

/// Operators with a rule here.
pub const NAMES: &[&str] = &[
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "CumSum",
    "Softmax",
    "LogSoftmax",
    "MatMul",
];

/// Translates an operator that computes across marked rows; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let rows = |n: &Node, at: usize| match n.input(at).and_then(|id| n.t.mark(id)) {
        Some(Mark::Rows(rows)) => Some(*rows),
        _ => None,
    };
    let (Some(first), true) = (rows(n, 0), NAMES.contains(&n.op())) else { return Ok(false) };
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let mut reduced = Vec::new();
    let (sums, stays) = match n.op() {
        "MatMul" => {
            let y = n.need(1)?;
            let along = n.shape(y).len().saturating_sub(2);
            let both = rows(n, 1).is_some_and(|other| other.of_same(&first) && other.axis == along);
            if first.axis + 1 != rank || !both {
                return Ok(false);
            }
            n.inputs[1] = Some(filled(n, y, Rows { axis: along, ..first }, 0.0)?);
            (true, false)
        }
        "Softmax" | "LogSoftmax" => {
            let old = n.opset() < 13;
            let axis = n.axis(n.int("axis", if old { 1 } else { -1 }), rank)?;
            (axis == first.axis && (!old || axis + 1 == rank), true)
        }
        "CumSum" => {
            let axis = n.integers(1, "axis")?.and_then(|v| v.first().copied());
            (axis.is_some_and(|axis| n.axis(axis, rank) == Ok(first.axis)), true)
        }
        _ => {
            reduced = n.axes(&n.either("axes", 1)?.unwrap_or_default(), rank)?;
            if reduced.is_empty() && !n.flag("noop_with_empty_axes", false) {
                reduced = (0..rank).collect();
            }
            (reduced.contains(&first.axis), false)
        }
    };
    let Some(neutral) = neutral(n.op(), n.dtype(x)).filter(|_| sums) else { return Ok(false) };
    let x = filled(n, x, first, neutral)?;
    if n.op() == "ReduceMean" {
        let kept = n.flag("keepdims", true);
        let mean = n.build().reduce(ReduceKind::Mean, x, &reduced, kept)?;
        // It has zeros for the places without a row.
        let real = real(n.build(), first)?;
        let real = n.build().cast(real, DType::F32)?;
        let share = n.build().reduce(ReduceKind::Mean, real, &[0], false)?;
        let dtype = n.dtype(mean);
        let share = n.build().cast(share, dtype)?;
        let id = n.build().binary(Binary::Div, mean, share)?;
        return n.done(id);
    }
    n.inputs[0] = Some(x);
    n.translate_known()?;
    let made = n.t.values.get(&n.node.output[0]).copied();
    if let Some(id) = made.filter(|_| stays) {
        n.t.computed.marks.get_or_insert_default().insert(id, Mark::Rows(first));
    }
    Ok(true)
}

/// The element that changes no result of a function; `None` where it is not known.
pub fn neutral(op: &str, dtype: DType) -> Option<f32> {
    Some(match op {
        "ReduceMean" | "ReduceL2" | "ReduceLogSum" if !dtype.is_float() => return None,
        "ReduceProd" => 1.0,
        "ReduceMax" if dtype == DType::Bool => 0.0,
        "ReduceMin" if dtype == DType::Bool => 1.0,
        "ReduceMin" if dtype.is_float() => f32::INFINITY,
        "ReduceMax" | "ReduceLogSumExp" | "Softmax" | "LogSoftmax" if dtype.is_float() => f32::NEG_INFINITY,
        "ReduceMin" | "ReduceMax" | "ReduceLogSumExp" => return None,
        _ => 0.0,
    })
}

/// The rows that the model has, and an element for all others.
pub fn filled(n: &mut Node, x: ValueId, rows: Rows, element: f32) -> Result<ValueId, Error> {
    let real = real(n.build(), rows)?;
    let mut wide = vec![1; n.shape(x).len()];
    wide[rows.axis] = rows.count;
    let real = n.build().reshape(real, wide)?;
    let element = n.build().scalar(element, x);
    n.build().select(real, x, element)
}

/// Rows behind others, or behind values of which every row is real: rows of a mask joined in the same way, of which there is one for equal
/// parts. Returns false for all other operators.
pub fn join(n: &mut Node) -> Result<bool, Error> {
    let marks: Vec<Option<Mark>> = n.inputs.iter().map(|id| id.and_then(|id| n.t.mark(id).cloned())).collect();
    let Some(Mark::Rows(first)) = marks.iter().flatten().find(|mark| matches!(mark, Mark::Rows(_))) else {
        return Ok(false);
    };
    let along = |rows: &Rows| rows.axis == first.axis;
    let all = marks.iter().flatten().all(|mark| matches!(mark, Mark::Rows(rows) if along(rows)));
    let rank = n.input(0).map_or(0, |id| n.shape(id).len());
    if n.op() != "Concat" || !all || n.axis(n.int("axis", 0), rank)? != first.axis {
        return Ok(false);
    }
    let mut parts = Vec::new();
    for (at, mark) in marks.iter().enumerate() {
        parts.push(match mark {
            Some(Mark::Rows(rows)) => (Some((rows.mask, rows.each)), rows.count),
            _ => (None, n.shape(n.need(at)?)[first.axis]),
        });
    }
    let count = parts.iter().map(|part| part.1).sum();
    let known = n.t.computed.joined.iter().find(|(of, _)| *of == parts).map(|(_, mask)| *mask);
    let mask = match known {
        Some(mask) => mask,
        None => {
            let mut masks = Vec::new();
            for &(mask, count) in &parts {
                masks.push(match mask {
                    Some((mask, each)) => real(n.build(), Rows { axis: 0, count, mask, each })?,
                    None => n.build().mask([count], vec![true; count]),
                });
            }
            let mask = n.build().concat(&masks, 0)?;
            n.t.computed.joined.push((parts, mask));
            mask
        }
    };
    n.translate_known()?;
    let Some(&id) = n.t.values.get(&n.node.output[0]) else { return Ok(false) };
    let rows = if marks.len() == 1 { *first } else { Rows { axis: first.axis, count, mask, each: 1 } };
    n.t.computed.marks.get_or_insert_default().insert(id, Mark::Rows(rows));
    Ok(true)
}

/// The joined rows whose number is that of other rows and a constant.
pub fn joined(n: &Node) -> Option<Rows> {
    let at = usize::from(!matches!(n.input(0).and_then(|id| n.t.mark(id)), Some(Mark::Extents(..))));
    let Some(Mark::Extents(flags, rows)) = n.t.mark(n.input(at)?) else { return None };
    let added = n.t.build.data(n.input(1 - at)?)?.data.to_i32();
    let added = if let ([true], [added]) = (flags.as_slice(), added.as_slice()) { *added } else { return None };
    n.t.computed.joined.iter().find_map(|(parts, mask)| {
        let real: usize = parts.iter().filter(|part| part.0.is_none()).map(|part| part.1).sum();
        let mut others = parts.iter().filter_map(|part| part.0);
        let same = others.next() == Some((rows.mask, rows.each)) && others.next().is_none();
        let count = parts.iter().map(|part| part.1).sum();
        (same && usize::try_from(added) == Ok(real)).then_some(Rows { axis: 0, count, mask: *mask, each: 1 })
    })
}

/// Returns true for a sum with zero.
pub fn adds_nothing(n: &Node) -> bool {
    let zero = |id: &ValueId| n.t.build.data(*id).is_some_and(|t| t.data.to_i32().iter().all(|&v| v == 0));
    n.op() == "Add" && n.inputs.iter().flatten().any(|id| n.t.mark(*id).is_none() && zero(id))
}

/// Replaces extents by numbers for operators that compute with them; returns true if it did.
pub fn count(n: &mut Node) -> Result<bool, Error> {
    let computes = match n.op() {
        // Floats are no extents.
        "Cast" => {
            let to = i32::try_from(n.int("to", 0)).ok().and_then(element).and_then(|e| e.dtype());
            to.is_some_and(DType::is_float)
        }
        "Identity" | "Equal" | "Where" => false,
        "Add" if joined(n).is_some() || adds_nothing(n) => false,
        op => ELEMENTWISE.contains(&op) || op.starts_with("Reduce"),
    };
    let mut counted = false;
    for at in (0..n.inputs.len()).filter(|_| computes) {
        let Some(x) = n.input(at) else { continue };
        let Some(Mark::Extents(flags, rows)) = n.t.mark(x).cloned() else { continue };
        let real = real(n.build(), rows)?;
        let real = n.build().cast(real, DType::I32)?;
        let count = n.build().reduce(ReduceKind::Sum, real, &[0], false)?;
        let shape = n.shape(x);
        let count = n.build().broadcast(count, shape.clone())?;
        let flags = n.build().mask(shape, flags);
        n.inputs[at] = Some(n.build().select(flags, count, x)?);
        counted = true;
    }
    Ok(counted)
}

/// A scatter of rows: those of places that the mask leaves out change nothing.
pub fn scatter(n: &mut Node) -> Result<bool, Error> {
    let (x, places, updates) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let along = |n: &Node, id: ValueId| match n.t.mark(id) {
        Some(Mark::Rows(rows)) => Some(*rows),
        _ => None,
    };
    let Some(rows) = along(n, places) else { return Err(lost(n)) };
    let by_axis = n.op() == "ScatterElements";
    if n.t.mark(x).is_some() {
        return into_rows(n, along(n, x), by_axis);
    }
    let whole = along(n, updates).is_some_and(|own| own == rows) && (by_axis || rows.axis + 1 < n.shape(places).len());
    if !whole {
        return Err(lost(n));
    }
    let mode = index::reduction(n)?;
    let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
    let kind = |mode: ScatterMode| match by_axis {
        true => OpKind::ScatterAlong { axis, mode },
        false => OpKind::ScatterNd { mode },
    };
    let real = real(n.build(), rows)?;
    let (shape, to) = (n.shape(updates), n.shape(x));
    // A row for every element, or every row, of the tensor, in order.
    let depth = n.shape(places).last().copied().unwrap_or(0);
    if !by_axis && in_order(n, places, to.get(..depth)) {
        let updates = n.build().reshape(updates, to.clone())?;
        let wide: Vec<usize> = (0..to.len()).map(|axis| if axis < depth { to[axis] } else { 1 }).collect();
        let real = n.build().reshape(real, wide)?;
        let id = match mode {
            ScatterMode::Update => n.build().select(real, updates, x)?,
            ScatterMode::Add => {
                let zero = n.build().scalar(0.0, updates);
                let updates = n.build().select(real, updates, zero)?;
                n.build().binary(Binary::Add, x, updates)?
            }
            _ => return Err(lost(n)),
        };
        return n.done(id);
    }
    let mut wide = vec![1; shape.len()];
    wide[rows.axis] = rows.count;
    let real = n.build().reshape(real, wide)?;
    if mode != ScatterMode::Update {
        let name = match mode {
            ScatterMode::Add | ScatterMode::Sub => "ReduceSum",
            ScatterMode::Max => "ReduceMax",
            ScatterMode::Min => "ReduceMin",
            _ => "ReduceProd",
        };
        let Some(element) = neutral(name, n.dtype(x)) else { return Err(lost(n)) };
        let element = n.build().scalar(element, updates);
        let updates = n.build().select(real, updates, element)?;
        let id = n.build().op("scattered", kind(mode), &[x, places, updates])?;
        return n.done(id);
    }
    if !distinct(n, places, &to, by_axis.then_some(axis)) {
        return last_written(n, [x, places, updates], rows, kind(mode));
    }
    // Elements at real places are written once: their sum is the element.
    let zero = n.build().scalar(0.0, x);
    let empty = n.build().broadcast(zero, to.clone())?;
    let kept = n.build().select(real, updates, zero)?;
    let sum = n.build().op("written", kind(ScatterMode::Add), &[empty, places, kept])?;
    if n.t.build.data(x).is_some_and(|tensor| tensor.data.to_f32().iter().all(|&v| v == 0.0)) {
        return n.done(sum);
    }
    let (one, none) = (n.build().floats(Vec::new(), &[1.0], x), zero);
    let ones = n.build().select(real, one, none)?;
    let ones = n.build().broadcast(ones, shape)?;
    let times = n.build().op("times", kind(ScatterMode::Add), &[empty, places, ones])?;
    let written = n.build().binary(Binary::Greater, times, zero)?;
    let id = n.build().select(written, sum, x)?;
    n.done(id)
}

/// A scatter into rows of a mask, by their numbers.
fn into_rows(n: &mut Node, own: Option<Rows>, by_axis: bool) -> Result<bool, Error> {
    let (x, places) = (n.need(0)?, n.need(1)?);
    let first = if by_axis { n.axis(n.int("axis", 0), n.shape(x).len())? } else { 0 };
    let Some(own) = own.filter(|own| own.axis == first) else { return Err(lost(n)) };
    if !by_axis && n.shape(places).last() != Some(&1) {
        return Err(lost(n));
    }
    let total = numbered::total(n.build(), own)?;
    let at = numbered::place_of(n, own, places, total)?;
    let mark = n.t.mark(places).cloned();
    let marks = n.t.computed.marks.get_or_insert_default();
    marks.extend(mark.map(|mark| (at, mark)));
    // The tensor has a row for every place from here on.
    let whole = n.build().copied(x)?;
    (n.inputs[0], n.inputs[1]) = (Some(whole), Some(at));
    scatter(n)?;
    let made = n.t.values.get(&n.node.output[0]).copied();
    n.t.computed.marks.get_or_insert_default().extend(made.map(|id| (id, Mark::Rows(own))));
    Ok(true)
}

/// Returns true if no two updates reach one element, as far as the places are known.
fn distinct(n: &Node, places: ValueId, to: &[usize], axis: Option<usize>) -> bool {
    let Some(data) = n.t.build.data(places) else { return false };
    let shape = n.shape(places);
    let found = data.data.to_i32();
    let mut seen = vec![false; elements(to)];
    let mut first = |place: &[i32]| {
        let flat = place.iter().zip(to).try_fold(0, |flat, (&at, &extent)| {
            let at = if at < 0 { at + extent as i32 } else { at };
            usize::try_from(at).ok().filter(|&at| at < extent).map(|at| flat * extent + at)
        });
        flat.and_then(|flat| seen.get_mut(flat)).is_some_and(|seen| !std::mem::replace(seen, true))
    };
    match axis {
        Some(axis) => all_places(&shape).chunks_mut(shape.len().max(1)).zip(&found).all(|(place, &at)| {
            place[axis] = at;
            first(place)
        }),
        None => found.chunks(shape.last().copied().unwrap_or(1).max(1)).all(first),
    }
}

/// A scatter in which later updates replace earlier ones at the same place: updates of rows that the model does not have go to a slice
/// behind all others, which is cut off.
fn last_written(n: &mut Node, [x, places, updates]: [ValueId; 3], rows: Rows, kind: OpKind) -> Result<bool, Error> {
    let to = n.shape(x);
    let of_places = n.shape(places);
    let (axis, depth) = match kind {
        OpKind::ScatterAlong { axis, .. } => (axis, 1),
        _ => (0, of_places.last().copied().unwrap_or(0)),
    };
    let mut slice = to.clone();
    slice[axis] = 1;
    let zero = n.build().scalar(0.0, x);
    let behind = n.build().broadcast(zero, slice)?;
    let long = n.build().concat(&[x, behind], axis)?;
    // Places below zero count from the end of the tensor as it was.
    let extents: Vec<i32> = to[axis..axis + depth].iter().map(|&extent| extent as i32).collect();
    let beyond = (0..depth).map(|at| if at == 0 { extents[0] } else { 0 }).collect();
    let whole = n.build().integers([depth], extents);
    let outside = n.build().integers([depth], beyond);
    let mut wide = vec![1; of_places.len()];
    wide[rows.axis] = rows.count;
    let real = real(n.build(), rows)?;
    let real = n.build().reshape(real, wide)?;
    let none = n.build().integers([], vec![0]);
    let from_end = n.build().binary(Binary::Add, places, whole)?;
    let below = n.build().binary(Binary::Less, places, none)?;
    let places = n.build().select(below, from_end, places)?;
    let places = n.build().select(real, places, outside)?;
    let written = n.build().op("written", kind, &[long, places, updates])?;
    let id = n.build().slice(written, axis, 0, to[axis])?;
    n.done(id)
}

/// A scatter of rows, in order, to the places of their own mask.
pub fn masked_scatter(n: &mut Node) -> Result<bool, Error> {
    let (x, mask, updates) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let own = match n.t.mark(updates) {
        Some(Mark::Rows(rows)) => (rows.mask, rows.each),
        _ => return Err(lost(n)),
    };
    let shape = n.shape(x);
    let whole = [x, mask].iter().all(|&id| n.t.mark(id).is_none()) && n.shape(mask) == shape;
    if !whole || source(n, mask) != own || !masked::from_first(n)? {
        return Err(lost(n));
    }
    let mask = n.build().cast(mask, DType::Bool)?;
    let updates = n.build().reshape(updates, shape)?;
    let id = n.build().select(mask, updates, x)?;
    n.done(id)
}

/// Returns true if places are those of all elements of a tensor, in order.
fn in_order(n: &Node, places: ValueId, extents: Option<&[usize]>) -> bool {
    let found = n.t.build.data(places).zip(extents);
    found.is_some_and(|(places, extents)| places.data.to_i32() == all_places(extents))
}
