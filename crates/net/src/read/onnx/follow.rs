//! The rows of results: which axis of a result has the rows of the operands, or which of its elements are their number.

use super::node::Node;
use super::rows::{ELEMENTWISE, Mark, OF_IMAGES, Rows, lost};
use super::{across, parts};
use crate::error::Error;
use crate::graph::{ValueId, elements};

/// Marks the results of a translated node as its operands are marked.
pub fn follow(n: &mut Node) -> Result<bool, Error> {
    for (i, name) in n.node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let Some(&id) = n.t.values.get(name) else { return Err(lost(n)) };
        let Some(mark) = (match i {
            0 => mark_of(n, id)?,
            _ if n.op() == "Split" => mark_of(n, id)?,
            _ => None,
        }) else {
            return Err(lost(n));
        };
        let Some(mark) = mark else { continue };
        // A value that is the operand itself has its own mark.
        let own = if n.inputs.contains(&Some(id)) && n.t.mark(id).is_none() {
            let copy = n.build().copied(id)?;
            n.output(i, copy);
            copy
        } else {
            id
        };
        n.t.computed.marks.get_or_insert_default().insert(own, mark);
    }
    Ok(true)
}

/// The rows after a reshape that keeps, joins or divides them.
fn reshaped(own: &[usize], to: &[usize], rows: Rows) -> Option<Rows> {
    let before = elements(&own[..rows.axis]);
    let at = |axis: &usize| elements(&to[..*axis]) == before;
    let keeps = |axis: &usize| at(axis) && to[*axis] == rows.count;
    if let Some(axis) = (0..to.len()).find(keeps) {
        return Some(Rows { axis, ..rows });
    }
    // The number of elements that the following axes begin with.
    let begins = |shape: &[usize], axis: usize, count: usize| {
        (axis + 1..=shape.len()).any(|end| elements(&shape[axis + 1..end]) == count)
    };
    (0..to.len()).filter(at).find_map(|axis| {
        let count = to[axis];
        let (joins, divides) = (count / rows.count, rows.count / count.max(1));
        let each = match () {
            () if count == rows.count * joins && begins(own, rows.axis, joins) => rows.each * joins,
            () if count * divides == rows.count && rows.each.is_multiple_of(divides) && begins(to, axis, divides) => {
                rows.each / divides
            }
            () => return None,
        };
        Some(Rows { axis, count, each, ..rows })
    })
}

/// Returns true for a quantizer with one scale, or one for each place along another axis than that of the rows.
fn scales_rows_alike(n: &Node, rows: usize) -> bool {
    let one = n.input(1).is_some_and(|scale| elements(&n.shape(scale)) == 1);
    let rank = n.input(0).map_or(0, |x| n.shape(x).len());
    one || n.int("block_size", 0) == 0 && n.axis(n.int("axis", 1), rank).is_ok_and(|axis| axis != rows)
}

/// The rows of an `Expand`, counted from the last axis.
fn expanded(n: &Node, x: Option<usize>) -> Result<Option<usize>, Error> {
    let end = n.input(0).zip(x).map_or(0, |(id, x)| n.shape(id).len() - x);
    let flags = match n.input(1).and_then(|id| n.t.mark(id)) {
        Some(Mark::Extents(flags, _)) => Some(flags),
        _ => None,
    };
    let fits = match (flags, n.integers(1, "shape")?) {
        (Some(flags), _) => (0..flags.len()).all(|at| flags[at] == (at + end == flags.len())),
        (None, Some(to)) => to.len() < end || to[to.len() - end] == 1,
        (None, None) => false,
    };
    Ok((x.is_some() && fits).then_some(end))
}

/// The mark of a result, `Some(None)` for one that no values influence; `None` if the operator mixes rows.
fn mark_of(n: &Node, out: ValueId) -> Result<Option<Option<Mark>>, Error> {
    let marks: Vec<Option<&Mark>> = n.inputs.iter().map(|id| id.and_then(|id| n.t.mark(id))).collect();
    let mut rows =
        marks.iter().flatten().filter_map(|mark| if let Mark::Rows(rows) = mark { Some(*rows) } else { None });
    let Some(first) = rows.next() else { return of_extents(n, &marks, out) };
    if marks.iter().flatten().any(|mark| matches!(mark, Mark::Pairs(..))) {
        return Ok(None);
    }
    let mut all = marks.iter().flatten().map(|mark| match mark {
        Mark::Rows(rows) | Mark::Extents(_, rows) | Mark::Pairs(rows, _) => rows,
    });
    if !all.all(|other| other.of_same(&first)) {
        return Ok(None);
    }
    let shape = n.shape(out);
    let along = |at: usize| match marks.get(at) {
        Some(Some(Mark::Rows(rows))) => Some(rows.axis),
        _ => None,
    };
    let rank = |at: usize| n.input(at).map_or(0, |id| n.shape(id).len());
    let x = along(0);
    // Only extents may be marked beside the first operand.
    let alone = x.is_some() && (1..marks.len()).all(|at| along(at).is_none());
    let axis_of = |default: i64| n.axis(n.int("axis", default), rank(0));
    let axis = match n.op() {
        "Shape" => {
            let rank = rank(0) as i64;
            let held = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
            let part = held(n.int("start", 0))..held(n.int("end", rank));
            let flags: Vec<bool> = part.map(|axis| Some(axis) == x).collect();
            return Ok(Some(flags.contains(&true).then_some(Mark::Extents(flags, first))));
        }
        op if ELEMENTWISE.contains(&op) => {
            let from_end = |at: usize| along(at).map(|axis| rank(at) - axis);
            let end = (0..marks.len()).find_map(from_end).unwrap_or(0);
            let fits = |at: usize| match (from_end(at), marks[at], n.input(at)) {
                (Some(own), ..) => own == end,
                (None, Some(_), _) => false,
                (None, None, Some(id)) => rank(at) < end || n.shape(id)[rank(at) - end] == 1,
                (None, None, None) => true,
            };
            ((0..marks.len()).all(fits) && shape.len() >= end).then(|| shape.len() - end)
        }
        "Expand" => expanded(n, x)?.filter(|&end| shape.len() >= end).map(|end| shape.len() - end),
        "Transpose" => {
            let perm = n.ints("perm").map(|perm| n.sizes("perm", &perm)).transpose()?;
            x.map(|x| perm.map_or(rank(0) - 1 - x, |perm| perm.iter().position(|&from| from == x).unwrap_or(x)))
        }
        "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" if alone => {
            let own = n.shape(n.need(0)?);
            return Ok(reshaped(&own, &shape, first).map(|rows| Some(Mark::Rows(rows))));
        }
        "Split" | "Slice" if alone => {
            let steps = if n.op() == "Slice" { n.either("steps", 4)?.unwrap_or_default() } else { Vec::new() };
            (rank(0) == shape.len() && steps.iter().all(|&step| step > 0)).then_some(first.axis)
        }
        "Tile" if alone => {
            let copies = n.integers(1, "repeats")?.unwrap_or_default();
            x.filter(|&x| copies.get(x) == Some(&1))
        }
        "Pad" if alone => x.filter(|&x| parts::unpadded(n, x)),
        "Concat" => {
            let axis = n.axis(n.int("axis", 0), shape.len())?;
            (0..marks.len()).all(|at| along(at) == x && x.is_some_and(|x| x != axis)).then_some(first.axis)
        }
        "Gather" => match (x, along(1)) {
            (None, Some(places)) => Some(axis_of(0)? + places),
            (Some(x), None) if marks.get(1) == Some(&None) => {
                let axis = axis_of(0)?;
                (axis != x).then(|| if axis < x { x + rank(1) - 1 } else { x })
            }
            _ => None,
        },
        "GatherND" => along(1).filter(|&at| x.is_none() && at + 1 < rank(1) && n.int("batch_dims", 0) == 0),
        "GatherElements" => along(1).filter(|&at| x.is_none_or(|x| x == at && axis_of(0).is_ok_and(|axis| axis != x))),
        "MatMul" if x.is_none() => along(1).filter(|&y| y > 0 && y + 1 == rank(1)).map(|_| shape.len() - 1),
        "CumSum" => x.filter(|_| alone),
        "QuantizeLinear" | "DequantizeLinear" if alone => x.filter(|&x| scales_rows_alike(n, x)),
        "RoiAlign" if x.is_none() => along(1).filter(|&at| at == 0 && along(2).is_none_or(|other| other == 0)),
        op if OF_IMAGES.contains(&op) => x.filter(|&x| alone && x == 0),
        "MatMul" | "QLinearMatMul" => {
            let other = rank(if n.op() == "MatMul" { 1 } else { 3 });
            x.filter(|&x| alone && x + 1 < rank(0) && other <= rank(0) && rank(0) == shape.len())
        }
        "Gemm" => x.filter(|&x| alone && x == 0 && !n.flag("transA", false)),
        "Softmax" | "LogSoftmax" => x.filter(|&x| axis_of(if n.opset() < 13 { 1 } else { -1 }).is_ok_and(|a| a > x)),
        "LayerNormalization" | "RMSNormalization" => x.filter(|&x| alone && axis_of(-1).is_ok_and(|a| a > x)),
        op if op.starts_with("Reduce") && alone => {
            let axes = n.either("axes", 1)?.unwrap_or_default();
            let axes = n.axes(&axes, rank(0))?;
            let kept = n.flag("keepdims", true);
            let before = axes.iter().filter(|&&axis| axis < first.axis).count();
            let whole = axes.is_empty() || axes.contains(&first.axis);
            (!whole).then(|| if kept { first.axis } else { first.axis - before })
        }
        _ => None,
    };
    let found = axis.filter(|&axis| shape.get(axis) == Some(&first.count));
    Ok(found.map(|axis| Some(Mark::Rows(Rows { axis, ..first }))))
}

/// As [`mark_of`], for an operator of which only extents are marked.
fn of_extents(n: &Node, marks: &[Option<&Mark>], out: ValueId) -> Result<Option<Option<Mark>>, Error> {
    let flags = |at: usize| match (marks.get(at), n.input(at)) {
        (Some(Some(Mark::Extents(flags, _))), _) => flags.clone(),
        (_, Some(id)) => vec![false; elements(&n.shape(id))],
        _ => Vec::new(),
    };
    let Some(rows) =
        marks.iter().flatten().find_map(|m| if let Mark::Extents(_, rows) = m { Some(*rows) } else { None })
    else {
        return Ok(None);
    };
    let same = |m: &&&Mark| matches!(m, Mark::Extents(_, other) if other.of_same(&rows));
    if !marks.iter().flatten().all(|m| same(&m)) {
        return Ok(None);
    }
    let own = flags(0);
    let picked = match n.op() {
        "Cast" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Flatten"
            if marks.get(1).is_none_or(Option::is_none) =>
        {
            Some(own)
        }
        "Shape" => return Ok(Some(None)),
        "Concat" => Some((0..marks.len()).flat_map(flags).collect()),
        "Gather" => {
            let places = n.integers(1, "indices")?.unwrap_or_default();
            let count = own.len() as i64;
            places.iter().map(|&at| own.get(usize::try_from(at.rem_euclid(count.max(1))).ok()?).copied()).collect()
        }
        "Slice" => {
            let (start, end) = (n.either("starts", 1)?.unwrap_or_default(), n.either("ends", 2)?.unwrap_or_default());
            let step = n.either("steps", 4)?.unwrap_or_else(|| vec![1]);
            let count = own.len() as i64;
            let held = |at: i64| (if at < 0 { at + count } else { at }).clamp(0, count) as usize;
            match (start.as_slice(), end.as_slice(), step.as_slice()) {
                (&[start], &[end], &[1]) => own.get(held(start)..held(end)).map(<[bool]>::to_vec),
                _ => None,
            }
        }
        "Add" if across::adds_nothing(n) => Some(flags(usize::from(marks[0].is_none()))),
        "Add" => return Ok(across::joined(n).map(|rows| Some(Mark::Extents(vec![true], rows)))),
        // A number of rows is not negative.
        "Equal" => {
            let constant = n.integers(usize::from(marks[0].is_some()), "a number")?.unwrap_or_default();
            return Ok(constant.iter().all(|&v| v < 0).then_some(None));
        }
        "Where" if marks[0].is_none() => {
            let (a, b) = (flags(1), flags(2));
            let count = elements(&n.shape(out));
            let flag =
                |list: &[bool], at: usize| list.get(if list.len() == 1 { 0 } else { at }).copied().unwrap_or(false);
            Some((0..count).map(|at| flag(&a, at) || flag(&b, at)).collect())
        }
        // Values of these extents have rows along that axis.
        "Expand" | "ConstantOfShape" => {
            let extents = flags(usize::from(n.op() == "Expand"));
            let mut along = (0..extents.len()).filter(|&axis| extents[axis]);
            let axis = along.next().filter(|_| along.next().is_none() && marks[0].is_none() == (n.op() == "Expand"));
            let axis = axis.filter(|&axis| n.shape(out).get(axis) == Some(&rows.count));
            return Ok(axis.map(|axis| Some(Mark::Rows(Rows { axis, ..rows }))));
        }
        _ => None,
    };
    let picked = picked.filter(|flags| flags.len() == elements(&n.shape(out)));
    Ok(picked.map(|flags| flags.contains(&true).then_some(Mark::Extents(flags, rows))))
}
