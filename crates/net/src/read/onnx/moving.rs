//! Slices of constant extents at computed places: the difference of ends and starts is constant, as in `x[i : i + 3]`.

use super::node::Node;
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{ValueId, elements};
use crate::ops::{Binary, OpKind, Unary};

/// Longest list of places that is followed: there is one for each axis.
const MOST_PLACES: usize = crate::types::MAX_RANK;

/// An integer: an element of a value, if any, plus a constant.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub of: Option<(ValueId, usize)>,
    pub plus: i64,
}

/// Elements of a list of integers, with constants added to them collected.
pub(super) fn places(build: &Builder, id: ValueId) -> Vec<Place> {
    let count = elements(&build.shape(id));
    if let Some(tensor) = build.data(id).filter(|_| count <= MOST_PLACES) {
        return tensor.data.to_i32().into_iter().map(|v| Place { of: None, plus: i64::from(v) }).collect();
    }
    let own = || (0..count.min(MOST_PLACES)).map(|at| Place { of: Some((id, at)), plus: 0 }).collect();
    let Some(op) = build.maker(id).filter(|_| count <= MOST_PLACES) else { return own() };
    let integers = |&id: &ValueId| !build.dtype(id).is_float() && elements(&build.shape(id)) <= MOST_PLACES;
    if !op.inputs.iter().all(integers) {
        return own();
    }
    match &op.kind {
        OpKind::Concat { axis: 0 } => op.inputs.iter().flat_map(|&part| places(build, part)).collect(),
        OpKind::Reshape | OpKind::Cast | OpKind::Unary(Unary::Identity) => places(build, op.inputs[0]),
        OpKind::Binary(kind @ (Binary::Add | Binary::Sub)) => {
            let (x, y) = (places(build, op.inputs[0]), places(build, op.inputs[1]));
            let sum = |at: usize| {
                let (x, y) = (x.get(at % x.len().max(1))?, y.get(at % y.len().max(1))?);
                match (x.of, y.of, kind) {
                    (of, None, Binary::Add) => Some(Place { of, plus: x.plus + y.plus }),
                    (of, None, _) => Some(Place { of, plus: x.plus - y.plus }),
                    (None, of, Binary::Add) => Some(Place { of, plus: x.plus + y.plus }),
                    _ => None,
                }
            };
            let sums: Option<Vec<Place>> = (0..count).map(sum).collect();
            sums.unwrap_or_else(own)
        }
        _ => own(),
    }
}

/// `Slice` with a computed start and an end that many elements behind it; returns false for all others. A start below zero counts from
/// the end. An element outside of the operand is an error of the run.
pub fn slice(n: &mut Node) -> Result<bool, Error> {
    let (Some(starts), Some(ends)) = (n.input(1), n.input(2)) else { return Ok(false) };
    let computed = |id: ValueId| n.t.build.data(id).is_none();
    if n.op() != "Slice"
        || !computed(starts)
        || !computed(ends)
        || [starts, ends].iter().any(|&id| n.t.mark(id).is_some())
    {
        return Ok(false);
    }
    let known = |at: usize| n.input(at).is_none_or(|id| !computed(id));
    if !known(3) || !known(4) {
        return Ok(false);
    }
    let (from, to) = (places(&n.t.build, starts), places(&n.t.build, ends));
    let axes = n.either("axes", 3)?.unwrap_or_else(|| (0..from.len() as i64).collect());
    let steps = n.integers(4, "steps")?.unwrap_or_else(|| vec![1; from.len()]);
    if to.len() != from.len() || axes.len() != from.len() || steps.len() != from.len() {
        return Ok(false);
    }
    let x = n.need(0)?;
    let shape = n.shape(x);
    let mut parts = Vec::new();
    for at in 0..from.len() {
        let axis = n.axis(axes[at], shape.len())?;
        let (extent, size) = (shape[axis] as i64, to[at].plus - from[at].plus);
        let step = i32::try_from(steps[at]).ok().filter(|&step| step == 1 || step > 1 && from[at].of.is_some());
        let Some(step) = step.filter(|_| from[at].of == to[at].of) else { return Ok(false) };
        let wrap = |v: i64| if v < 0 { v + extent } else { v }.clamp(0, extent);
        match from[at].of {
            None => {
                let (begin, end) = (wrap(from[at].plus), wrap(to[at].plus));
                if end <= begin {
                    return Ok(false);
                }
                parts.push((axis, begin, end - begin, None));
            }
            Some(_) if size < 1 || size > extent => {
                return Err(n.unsupported(format!("{size} elements of axis {axis}, which has {extent}")));
            }
            Some(_) => parts.push((axis, at as i64, size, Some(step))),
        }
    }
    let mut value = x;
    for (axis, begin, size, step) in parts {
        let Some(step) = step else {
            value = n.build().slice(value, axis, begin as usize, (begin + size) as usize)?;
            continue;
        };
        let (extent, at) = (shape[axis] as i32, begin as usize);
        let start = if from.len() == 1 { starts } else { n.build().slice(starts, 0, at, at + 1)? };
        let start = n.build().reshape(start, [1])?;
        let number = |n: &mut Node, number: i32| n.build().integers([1], vec![number]);
        let (zero, limit, whole) = (number(n, 0), number(n, -(size as i32)), number(n, extent));
        // A part before the operand, and one from its end to its beginning, has elements that the operand has not.
        let from_end = n.build().binary(Binary::Add, start, whole)?;
        let before = n.build().binary(Binary::Less, from_end, zero)?;
        let around = n.build().binary(Binary::GreaterEqual, start, limit)?;
        let outside = n.build().binary(Binary::Max, before, around)?;
        let wrapped = n.build().select(outside, whole, from_end)?;
        let below = n.build().binary(Binary::Less, start, zero)?;
        let start = n.build().select(below, wrapped, start)?;
        let order: Vec<i32> = (0..size as i32).step_by(step as usize).collect();
        let order = n.build().integers([order.len()], order);
        let order = n.build().binary(Binary::Add, order, start)?;
        value = n.build().gather(value, order, axis)?;
    }
    n.done(value)
}
