//! `NonMaxSuppression`, `Compress` and `Unique`, whose results have as many rows as values determine: a row is computed for each place there
//! can be.

use super::across::filled;
use super::made::MADE_ELEMENTS;
use super::masks::source;
use super::node::Node;
use super::numbered::{mark, numbers, rows_of};
use super::rows::{Rows, lost};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind};

/// Operators with a rule here.
pub const NAMES: &[&str] = &["NonMaxSuppression", "Compress", "Unique"];

pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Compress" => compress(n),
        "Unique" => unique(n),
        _ => suppress(n),
    }
}

/// Different slices of an axis, or elements, in order or as they come: one is a row if none before it is equal.
fn unique(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    if n.t.build.data(x).is_some() {
        return Ok(false);
    }
    let shape = n.shape(x);
    let axis = n.attribute("axis").map(|a| n.axis(a.i, shape.len())).transpose()?;
    let count = axis.map_or(elements(&shape), |axis| shape[axis]);
    let width = elements(&shape) / count.max(1);
    if n.t.mark(x).is_some() || width == 0 || count.saturating_mul(count).saturating_mul(width) > MADE_ELEMENTS {
        return Err(lost(n));
    }
    // Slices as rows.
    let mut perm: Vec<usize> = (0..shape.len()).collect();
    perm[..axis.map_or(0, |axis| axis + 1)].rotate_right(usize::from(axis.is_some()));
    let x = n.build().transpose(x, &perm)?;
    let x = n.build().reshape(x, [count, width])?;
    let values = match n.flag("sorted", true) {
        true if width == 1 => n.build().top_k(x, 0, count, true)?.0,
        true => in_order(n, x)?,
        false => x,
    };
    let column = n.build().reshape(values, [count, 1, width])?;
    let equal = |n: &mut Node, all: ValueId| {
        let row = n.build().reshape(all, [1, count, width])?;
        let equal = n.build().binary(Binary::Equal, column, row)?;
        let equal = n.build().cast(equal, DType::F32)?;
        n.build().reduce(ReduceKind::Min, equal, &[2], false)
    };
    let first = |n: &mut Node, equal: ValueId, axis: usize| {
        let kind = OpKind::ArgReduce { greatest: true, last: false, axis, keep_dims: false };
        n.build().op("first", kind, &[equal])
    };
    let order = n.build().integers([count], (0..count as i32).collect());
    let own = equal(n, values)?;
    let own = first(n, own, 1)?;
    let mask = n.build().binary(Binary::Equal, own, order)?;
    let rows = Rows { axis: 0, count, mask, each: 1 };
    let given = equal(n, x)?;
    let wanted = |n: &Node, at: usize| n.node.output.get(at).is_some_and(|name| !name.is_empty());
    let mut back = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(at, &from)| back[from] = at);
    let moved: Vec<usize> = match axis {
        Some(_) => perm.iter().map(|&from| shape[from]).collect(),
        None => vec![count],
    };
    let values = n.build().copied(values)?;
    let values = n.build().reshape(values, moved)?;
    let values = if axis.is_some() { n.build().transpose(values, &back)? } else { values };
    mark(n, values, Rows { axis: axis.unwrap_or(0), ..rows });
    n.output(0, values);
    let mut results = Vec::new();
    if wanted(n, 1) {
        results.push((1, first(n, given, 1)?));
    }
    if wanted(n, 3) {
        let counts = n.build().reduce(ReduceKind::Sum, given, &[1], false)?;
        results.push((3, n.build().cast(counts, DType::I32)?));
    }
    for (at, id) in results {
        mark(n, id, rows);
        n.output(at, id);
    }
    if wanted(n, 2) {
        let (numbers, places) = (numbers(n, rows)?, first(n, given, 0)?);
        let inverse = n.build().gather(numbers, places, 0)?;
        n.output(2, inverse);
    }
    n.finish(4)
}

/// Rows in order by their first different elements.
fn in_order(n: &mut Node, x: ValueId) -> Result<ValueId, Error> {
    let &[count, width] = n.shape(x).as_slice() else { return Ok(x) };
    let column = n.build().reshape(x, [count, 1, width])?;
    let row = n.build().reshape(x, [1, count, width])?;
    let differ = n.build().binary(Binary::NotEqual, column, row)?;
    let differ = n.build().cast(differ, DType::F32)?;
    let kind = OpKind::ArgReduce { greatest: true, last: false, axis: 2, keep_dims: true };
    let first = n.build().op("different", kind, &[differ])?;
    let greater = n.build().binary(Binary::Greater, column, row)?;
    let greater = n.build().cast(greater, DType::F32)?;
    let behind = n.build().op("behind", OpKind::GatherAlong { axis: 2 }, &[greater, first])?;
    let behind = n.build().reshape(behind, [count, count])?;
    // Equal rows have equal numbers, which a stable sort keeps in place.
    let numbers = n.build().reduce(ReduceKind::Sum, behind, &[1], false)?;
    let order = n.build().op("order", OpKind::ArgSort { axis: 0, descending: false }, &[numbers])?;
    n.build().gather(x, order, 0)
}

/// Slices of an axis, or elements, where a computed condition is true.
fn compress(n: &mut Node) -> Result<bool, Error> {
    let (mut x, condition) = (n.need(0)?, n.need(1)?);
    if n.t.build.data(condition).is_some() {
        return Ok(false);
    }
    if n.t.mark(x).is_some() || n.t.mark(condition).is_some() {
        return Err(lost(n));
    }
    let shape = n.shape(x);
    let axis = match n.attribute("axis") {
        Some(_) => n.axis(n.int("axis", 0), shape.len())?,
        None => {
            x = n.build().reshape(x, [elements(&shape)])?;
            0
        }
    };
    let held = n.shape(condition);
    let count = elements(&held);
    if held.len() != 1 || count == 0 || count > n.shape(x)[axis] {
        return Err(lost(n));
    }
    let part = n.build().slice(x, axis, 0, count)?;
    let id = n.build().copied(part)?;
    let (mask, each) = source(n, condition);
    mark(n, id, Rows { axis, count, mask, each });
    n.done(id)
}

/// A limit of a suppression.
#[derive(Clone, Copy)]
enum Limit {
    Known(f32),
    Computed(ValueId),
}

/// A limit that an operand has, or the default.
fn limit(n: &mut Node, at: usize, default: f32) -> Result<Limit, Error> {
    let Some(id) = n.input(at) else { return Ok(Limit::Known(default)) };
    match n.t.build.data(id) {
        Some(tensor) => Ok(Limit::Known(tensor.data.to_f32().first().copied().unwrap_or(default))),
        None => Ok(Limit::Computed(n.build().reshape(id, [])?)),
    }
}

/// Boxes that no better one of their class shares too much with.
fn suppress(n: &mut Node) -> Result<bool, Error> {
    let (boxes, scores) = (n.need(0)?, n.need(1)?);
    let (of_boxes, of_scores) = (n.shape(boxes), n.shape(scores));
    let (&[images, count, 4], &[_, classes, _]) = (&of_boxes[..], &of_scores[..]) else { return Err(lost(n)) };
    if of_scores != [images, classes, count] {
        return Err(n.unsupported(format!("boxes {of_boxes:?} with scores {of_scores:?}")));
    }
    if (2..5).any(|at| n.input(at).is_some_and(|id| n.t.mark(id).is_some() || elements(&n.shape(id)) != 1)) {
        return Err(lost(n));
    }
    let (asked, overlap, threshold) = (limit(n, 2, 0.0)?, limit(n, 3, 0.0)?, limit(n, 4, f32::MIN)?);
    let most = match asked {
        Limit::Known(most) if most > 0.0 => (most as usize).min(count),
        Limit::Known(_) => 0,
        Limit::Computed(_) => count,
    };
    let lists = images * classes;
    if most == 0 || lists == 0 || lists.saturating_mul(count).saturating_mul(4) > MADE_ELEMENTS {
        return Err(lost(n));
    }
    // Boxes that the model does not have are below every threshold.
    let (mut all, mut own) = (scores, None);
    match (rows_of(n, 0), rows_of(n, 1)) {
        (Some(a), Some(b)) if a.of_same(&b) && (a.axis, b.axis) == (1, 2) => {
            all = filled(n, scores, b, f32::NEG_INFINITY)?;
            own = Some(b);
        }
        (None, None) if n.t.mark(boxes).is_none() && n.t.mark(scores).is_none() => {}
        _ => return Err(lost(n)),
    }
    let boxes = if n.int("center_point_box", 0) == 1 { boxes } else { centred(n, boxes)? };
    let boxes = n.build().reshape(boxes, [images, 1, count, 4])?;
    let boxes = n.build().broadcast(boxes, [images, classes, count, 4])?;
    let boxes = n.build().reshape(boxes, [lists, count, 4])?;
    let columns = n.build().reshape(all, [lists, count, 1])?;
    // Boxes below a computed threshold come last, and are left out afterwards.
    let (score_threshold, threshold) = match threshold {
        Limit::Known(known) => (known, n.build().scalar(known, all)),
        Limit::Computed(id) => (f32::MIN, id),
    };
    let (mut operands, mut known) = (vec![boxes, columns], 0.0);
    match overlap {
        Limit::Known(overlap) => known = overlap,
        Limit::Computed(id) => operands.push(n.build().reshape(id, [1])?),
    }
    let kind = OpKind::Suppress { overlap: known, score_threshold, most, per_class: false };
    let kept = n.build().op("kept", kind, &operands)?;
    let zero = n.build().integers([], vec![0]);
    let there = n.build().binary(Binary::GreaterEqual, kept, zero)?;
    let at = n.build().binary(Binary::Max, kept, zero)?;
    let flat = n.build().reshape(all, [lists, count])?;
    let best = n.build().op("best", OpKind::GatherAlong { axis: 1 }, &[flat, at])?;
    let above = n.build().binary(Binary::Greater, best, threshold)?;
    let mut mask = n.build().binary(Binary::Min, there, above)?;
    if let Limit::Computed(asked) = asked {
        let order = n.build().integers([most], (0..most as i32).collect());
        let first = n.build().binary(Binary::Less, order, asked)?;
        mask = n.build().binary(Binary::Min, mask, first)?;
    }
    let total = lists * most;
    let mask = n.build().reshape(mask, [total])?;
    let at = match own {
        Some(rows) => {
            let numbers = numbers(n, rows)?;
            n.build().gather(numbers, at, 0)?
        }
        None => at,
    };
    let at = n.build().reshape(at, [total, 1])?;
    let list = |row: usize| [row / most / classes, row / most % classes].map(|v| v as i32);
    let lists = n.build().integers([total, 2], (0..total).flat_map(list).collect());
    let id = n.build().concat(&[lists, at], 1)?;
    mark(n, id, Rows { axis: 0, count: total, mask, each: 1 });
    n.done(id)
}

/// Boxes by two opposite corners, each row before column, as centre, width and height.
fn centred(n: &mut Node, boxes: ValueId) -> Result<ValueId, Error> {
    let mut sides = Vec::new();
    for at in 0..4 {
        sides.push(n.build().slice(boxes, 2, at, at + 1)?);
    }
    let half = n.build().scalar(0.5, boxes);
    let (mut centres, mut extents) = (Vec::new(), Vec::new());
    for at in [1, 0] {
        let (a, b) = (sides[at], sides[at + 2]);
        let sum = n.build().binary(Binary::Add, a, b)?;
        centres.push(n.build().binary(Binary::Mul, sum, half)?);
        let (most, least) = (n.build().binary(Binary::Max, a, b)?, n.build().binary(Binary::Min, a, b)?);
        extents.push(n.build().binary(Binary::Sub, most, least)?);
    }
    n.build().concat(&[centres, extents].concat(), 2)
}
