//! Values with rows along two axes, such as the scores of attention: one for each pair of rows of the same places. Functions along one of the axes
//! leave rows along the other.

use super::across::{filled, neutral};
use super::node::Node;
use super::rows::{ELEMENTWISE, Mark, Rows, lost};
use crate::error::Error;
use crate::graph::ValueId;

/// The axes of the rows of an operand, and the rows.
fn axes_of(n: &Node, at: usize) -> Option<(Vec<usize>, Rows)> {
    match n.input(at).and_then(|id| n.t.mark(id))? {
        Mark::Rows(rows) => Some((vec![rows.axis], *rows)),
        Mark::Pairs(rows, other) => Some((vec![rows.axis, *other], *rows)),
        Mark::Extents(..) => None,
    }
}

/// Translates an operator that has or makes such values; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let found: Vec<_> =
        (0..n.inputs.len()).filter_map(|at| axes_of(n, at).map(|(axes, rows)| (at, axes, rows))).collect();
    let Some(&(_, _, first)) = found.first() else { return Ok(false) };
    let pairs = found.iter().any(|(_, axes, _)| axes.len() == 2);
    let marked = n.inputs.iter().flatten().filter(|&&id| n.t.mark(id).is_some()).count();
    if marked != found.len() || found.iter().any(|(.., rows)| !rows.of_same(&first) || rows.count != first.count) {
        return if pairs { Err(lost(n)) } else { Ok(false) };
    }
    let rank = |n: &Node, at: usize| n.input(at).map_or(0, |id| n.shape(id).len());
    let op = n.op();
    if ELEMENTWISE.contains(&op) {
        return elementwise(n, &found, pairs);
    }
    if op == "MatMul" && !pairs && found.len() == 2 {
        // Every row with every row, along the last two axes.
        let (x, y) = (rank(n, 0), rank(n, 1));
        if x < 2 || y < 2 || found[0].1 != [x - 2] || found[1].1 != [y - 1] {
            return Ok(false);
        }
        n.translate_known()?;
        let rank = x.max(y);
        return give(n, first, &[rank - 1, rank - 2]);
    }
    if !pairs {
        return Ok(false);
    }
    let (_, axes, _) = &found[0];
    let other = |axis: usize| axes.iter().copied().find(|&own| own != axis);
    match op {
        "MatMul" if found.len() == 2 => {
            let (x, y) = (rank(n, 0), rank(n, 1));
            let inner = found[0].0 == 0 && axes.contains(&(x - 1)) && y >= 2 && found[1].1 == [y - 2];
            let Some(left) = other(x - 1).filter(|_| inner) else { return Err(lost(n)) };
            for (at, axis) in [(0, x - 1), (1, y - 2)] {
                let operand = n.need(at)?;
                n.inputs[at] = Some(filled(n, operand, Rows { axis, ..first }, 0.0)?);
            }
            n.translate_known()?;
            give(n, first, &[left + y.saturating_sub(x)])
        }
        "Softmax" | "LogSoftmax" if n.opset() >= 13 => {
            let own = rank(n, 0);
            let axis = n.axis(n.int("axis", -1), own)?;
            if axes.contains(&axis) {
                let x = n.need(0)?;
                n.inputs[0] = Some(filled(n, x, Rows { axis, ..first }, f32::NEG_INFINITY)?);
            }
            n.translate_known()?;
            let axes = axes.clone();
            give(n, first, &axes)
        }
        "Transpose" => {
            let own = rank(n, 0);
            let perm = n.ints("perm").map(|perm| n.sizes("perm", &perm)).transpose()?;
            let perm = perm.unwrap_or_else(|| (0..own).rev().collect());
            let axes: Vec<usize> = axes.iter().filter_map(|axis| perm.iter().position(|from| from == axis)).collect();
            n.translate_known()?;
            give(n, first, &axes)
        }
        "Unsqueeze" | "Squeeze" | "Reshape" => {
            let own = n.shape(n.need(0)?);
            let axes = axes.clone();
            n.translate_known()?;
            let Some(&id) = n.t.values.get(&n.node.output[0]) else { return Err(lost(n)) };
            let to = n.shape(id);
            // Axes keep the elements before and behind them.
            let ends = |shape: &[usize], axis: usize| {
                [shape[..axis].iter().product::<usize>(), shape[axis + 1..].iter().product()]
            };
            let moved =
                |axis: usize| (0..to.len()).find(|&at| to[at] == own[axis] && ends(&to, at) == ends(&own, axis));
            let axes: Vec<usize> = axes.into_iter().filter_map(moved).collect();
            give(n, first, &axes)
        }
        _ if op.starts_with("Reduce") && found.len() == 1 => reduced(n, axes.clone(), first),
        _ => Err(lost(n)),
    }
}

/// Marks the first result as one with rows along these axes, as far as it has their extents.
fn give(n: &mut Node, rows: Rows, axes: &[usize]) -> Result<bool, Error> {
    let Some(&id) = n.t.values.get(&n.node.output[0]) else { return Err(lost(n)) };
    let shape = n.shape(id);
    let fits = axes.iter().all(|&axis| shape.get(axis) == Some(&rows.count));
    let mark = match *axes {
        [axis] if fits => Mark::Rows(Rows { axis, ..rows }),
        [axis, other] if fits && axis != other => Mark::Pairs(Rows { axis, ..rows }, other),
        _ => return Err(lost(n)),
    };
    let own: ValueId = if n.inputs.contains(&Some(id)) { n.build().copied(id)? } else { id };
    n.output(0, own);
    n.t.computed.marks.get_or_insert_default().insert(own, mark);
    Ok(true)
}

/// Functions of elements, whose operands have rows along one or both of the axes, or one element there.
fn elementwise(n: &mut Node, found: &[(usize, Vec<usize>, Rows)], pairs: bool) -> Result<bool, Error> {
    let rank = |at: usize| n.input(at).map_or(0, |id| n.shape(id).len());
    let mut ends: Vec<usize> = Vec::new();
    for (at, axes, _) in found {
        for axis in axes {
            let end = rank(*at) - axis;
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    if ends.len() != 2 {
        return if pairs { Err(lost(n)) } else { Ok(false) };
    }
    for at in 0..n.inputs.len() {
        let Some(id) = n.input(at) else { continue };
        let shape = n.shape(id);
        let own = found.iter().find(|(of, ..)| *of == at).map(|(_, axes, _)| axes.as_slice()).unwrap_or_default();
        let free = |end: usize| {
            let axis = shape.len().checked_sub(end);
            axis.is_none_or(|axis| own.contains(&axis) || shape[axis] == 1)
        };
        if !ends.iter().all(|&end| free(end)) {
            return if pairs { Err(lost(n)) } else { Ok(false) };
        }
    }
    n.translate_known()?;
    let Some(&id) = n.t.values.get(&n.node.output[0]) else { return Err(lost(n)) };
    let whole = n.shape(id).len();
    let axes: Vec<usize> = ends.into_iter().filter_map(|end| whole.checked_sub(end)).collect();
    give(n, found[0].2, &axes)
}

/// Reductions along one or both axes; elements of rows that the model does not have change nothing.
fn reduced(n: &mut Node, axes: Vec<usize>, first: Rows) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let mut reduced = n.axes(&n.either("axes", 1)?.unwrap_or_default(), rank)?;
    if reduced.is_empty() && !n.flag("noop_with_empty_axes", false) {
        reduced = (0..rank).collect();
    }
    let along: Vec<usize> = axes.iter().copied().filter(|axis| reduced.contains(axis)).collect();
    let left: Vec<usize> = axes.into_iter().filter(|axis| !reduced.contains(axis)).collect();
    let means = n.op() == "ReduceMean" && !along.is_empty();
    let Some(element) = neutral(n.op(), n.dtype(x)).filter(|_| !means && !left.is_empty()) else {
        return Err(lost(n));
    };
    let mut x = x;
    for axis in along {
        x = filled(n, x, Rows { axis, ..first }, element)?;
    }
    n.inputs[0] = Some(x);
    let kept = n.flag("keepdims", true);
    n.translate_known()?;
    let before = |axis: usize| if kept { 0 } else { reduced.iter().filter(|&&gone| gone < axis).count() };
    let left: Vec<usize> = left.into_iter().map(|axis| axis - before(axis)).collect();
    give(n, first, &left)
}
