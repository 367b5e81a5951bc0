//! Operators that rearrange elements: shapes, slices, repetition, padding.

use super::moving;
use super::node::Node;
use crate::build::window::Blocks;
use crate::error::Error;
use crate::graph::{Data, Tensor, ValueId, elements};
use crate::ops::{EdgeMode, OpKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Reshape" => reshape(n),
        "Flatten" => {
            let x = n.need(0)?;
            let shape = n.shape(x);
            let axis = n.int("axis", 1);
            let axis = if axis == shape.len() as i64 { shape.len() } else { n.axis(axis, shape.len())? };
            reshaped(n, x, vec![elements(&shape[..axis]), elements(&shape[axis..])])
        }
        "Squeeze" => {
            let x = n.need(0)?;
            let shape = n.shape(x);
            let axes = match n.either("axes", 1)? {
                Some(axes) => n.axes(&axes, shape.len())?,
                None => (0..shape.len()).filter(|&a| shape[a] == 1).collect(),
            };
            let kept = (0..shape.len()).filter(|a| !axes.contains(a)).map(|a| shape[a]).collect();
            reshaped(n, x, kept)
        }
        "Unsqueeze" => {
            let x = n.need(0)?;
            let mut shape = n.shape(x);
            let axes = n.either("axes", 1)?.ok_or_else(|| n.missing("axes"))?;
            for axis in n.axes(&axes, shape.len() + axes.len())? {
                shape.insert(axis.min(shape.len()), 1);
            }
            reshaped(n, x, shape)
        }
        "Transpose" => {
            let x = n.need(0)?;
            let rank = n.shape(x).len();
            let perm = match n.ints("perm") {
                Some(perm) => perm.iter().map(|&a| n.axis(a, rank)).collect::<Result<Vec<_>, _>>()?,
                None => (0..rank).rev().collect(),
            };
            let id = n.build().op("transposed", OpKind::Transpose { perm }, &[x])?;
            n.done(id)
        }
        "Concat" => {
            let parts: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
            // Parts without elements, which come from computed shapes, are skipped.
            let parts: Vec<ValueId> = parts.into_iter().filter(|&p| elements(&n.shape(p)) > 0).collect();
            let first = *parts.first().ok_or_else(|| n.unsupported("no operand with elements"))?;
            let axis = n.axis(n.int("axis", 0), n.shape(first).len())?;
            let id = n.build().op("joined", OpKind::Concat { axis }, &parts)?;
            n.done(id)
        }
        "Split" => split(n),
        "Slice" => slice(n),
        "Expand" => {
            let x = n.need(0)?;
            let wanted = n.integers(1, "shape")?.ok_or_else(|| n.missing("shape"))?;
            let wanted = n.sizes("shape", &wanted)?;
            let place = n.place();
            let shape = crate::infer::broadcast("expand", &n.shape(x), &wanted).map_err(|e| e.in_op(&place))?;
            expanded(n, x, shape)
        }
        "Tile" => tile(n),
        "Pad" => pad(n),
        "Trilu" => {
            let x = n.need(0)?;
            let k = n.integers(1, "k")?.and_then(|v| v.first().copied()).unwrap_or(0);
            trilu(n, x, k)
        }
        "DepthToSpace" | "SpaceToDepth" => {
            let x = n.need(0)?;
            let block = n.size("blocksize", n.int("blocksize", 1))?;
            let way = match (n.op(), n.text("mode").as_deref()) {
                ("SpaceToDepth", Some("CRD")) => Blocks::PixelUnshuffle,
                ("SpaceToDepth", _) => Blocks::SpaceToDepth,
                (_, Some("CRD")) => Blocks::PixelShuffle,
                _ => Blocks::DepthToSpace,
            };
            let id = n.build().pixel_blocks(x, block, way)?;
            n.done(id)
        }
        "CenterCropPad" => center_crop_pad(n),
        _ => Ok(false),
    }
}

fn reshaped(n: &mut Node, x: ValueId, shape: Vec<usize>) -> Result<bool, Error> {
    let id = n.build().reshape(x, shape)?;
    n.done(id)
}

/// Zero keeps an extent, unless zeros are allowed; -1 stands for the remaining elements.
fn reshape(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let wanted = n.either("shape", 1)?.ok_or_else(|| n.missing("shape"))?;
    let from = n.shape(x);
    let keep = !n.flag("allowzero", false);
    let sizes: Vec<i64> = (wanted.iter().enumerate())
        .map(|(i, &s)| if s == 0 && keep { from.get(i).map_or(0, |&d| d as i64) } else { s })
        .collect();
    let known = sizes.iter().filter(|&&s| s != -1).fold(1usize, |all, &s| all.saturating_mul(s.max(0) as usize));
    let rest = elements(&from).checked_div(known).unwrap_or(0);
    let shape = sizes.iter().map(|&s| if s == -1 { Ok(rest) } else { n.size("shape", s) });
    let shape = shape.collect::<Result<Vec<usize>, Error>>()?;
    reshaped(n, x, shape)
}

fn split(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = n.axis(n.int("axis", 0), shape.len())?;
    let count = n.node.output.len();
    let sizes = match n.either("split", 1)? {
        Some(sizes) => n.sizes("split", &sizes)?,
        None => {
            let part = shape[axis].div_ceil(n.size("num_outputs", n.int("num_outputs", count as i64))?.max(1));
            (0..count).map(|i| part.min(shape[axis].saturating_sub(i * part))).collect()
        }
    };
    let mut at = 0usize;
    for (index, size) in sizes.into_iter().enumerate() {
        let id = if size == 0 {
            let mut shape = shape.clone();
            shape[axis] = 0;
            nothing(n, x, shape)
        } else {
            n.build().slice(x, axis, at, at.saturating_add(size))?
        };
        // A split into one part is a copy.
        let id = if id == x { n.build().unary(Unary::Identity, x)? } else { id };
        n.output(index, id);
        at = at.saturating_add(size);
    }
    n.finish(count)
}

fn slice(n: &mut Node) -> Result<bool, Error> {
    if moving::slice(n)? {
        return Ok(true);
    }
    let x = n.need(0)?;
    let shape = n.shape(x);
    let starts = n.either("starts", 1)?.ok_or_else(|| n.missing("starts"))?;
    let ends = n.either("ends", 2)?.ok_or_else(|| n.missing("ends"))?;
    let axes = n.either("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = n.integers(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(n.unsupported("lists of different length"));
    }
    let (mut from, mut to, mut by) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
    let mut value = x;
    for i in 0..starts.len() {
        let axis = n.axis(axes[i], shape.len())?;
        let (extent, step) = (shape[axis] as i64, steps[i]);
        let wrap = |v: i64| if v < 0 { v + extent } else { v };
        if step == 0 {
            return Err(n.unsupported("a step of 0"));
        }
        if step > 0 {
            let (first, last) = (wrap(starts[i]).clamp(0, extent), wrap(ends[i]).clamp(0, extent));
            (from[axis], to[axis], by[axis]) = (first as usize, last.max(first) as usize, step as usize);
        } else {
            let (first, last) = (wrap(starts[i]).clamp(-1, extent - 1), wrap(ends[i]).clamp(-1, extent - 1));
            let count = ((first - last).max(0) as u64).div_ceil(step.unsigned_abs());
            let indices: Vec<i32> = (0..count as i64).map(|k| (first + k * step) as i32).collect();
            let indices = n.build().integers([indices.len()], indices);
            if count > 0 {
                value = n.build().gather(value, indices, axis)?;
            }
            to[axis] = count as usize;
        }
    }
    // A slice without elements comes from a computed shape, and is concatenated to others.
    if from.iter().zip(&to).any(|(from, to)| from == to) {
        let shape = from.iter().zip(&to).zip(&by).map(|((from, to), by)| (to - from).div_ceil(*by)).collect();
        let id = nothing(n, x, shape);
        return n.done(id);
    }
    let kind = OpKind::Slice { begin: from, end: to, stride: by };
    let id = n.build().op("sliced", kind, &[value])?;
    n.done(id)
}

/// A constant without elements, of the type of `x`.
fn nothing(n: &mut Node, x: ValueId, shape: Vec<usize>) -> ValueId {
    let data = Data::from_f32(n.dtype(x), &[]);
    n.build().constant("none", Tensor { shape, data })
}

/// `x` broadcast to a shape; leading axes are added.
fn expanded(n: &mut Node, x: ValueId, shape: Vec<usize>) -> Result<bool, Error> {
    if shape == n.shape(x) {
        let id = n.build().unary(Unary::Identity, x)?;
        return n.done(id);
    }
    let id = n.build().broadcast(x, shape)?;
    n.done(id)
}

fn tile(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let reps = n.integers(1, "repeats")?.ok_or_else(|| n.missing("repeats"))?;
    let (reps, shape) = (n.sizes("repeats", &reps)?, n.shape(x));
    if reps.len() != shape.len() || reps.contains(&0) {
        return Err(n.unsupported(format!("repeats {reps:?} of extents {shape:?}")));
    }
    let mut value = x;
    for (axis, &copies) in reps.iter().enumerate().filter(|&(a, &r)| r > 1 && shape[a] > 1) {
        if copies > 4096 {
            return Err(n.unsupported(format!("{copies} copies")));
        }
        value = n.build().concat(&vec![value; copies], axis)?;
    }
    let whole = shape.iter().zip(&reps).map(|(d, r)| d.saturating_mul(*r)).collect();
    expanded(n, value, whole)
}

fn pad(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let list = n.either("pads", 1)?.ok_or_else(|| n.missing("pads"))?;
    let axes = n.integers(3, "axes")?.unwrap_or_else(|| (0..rank as i64).collect());
    if list.len() != 2 * axes.len() {
        return Err(n.unsupported(format!("{} pads for {} axes", list.len(), axes.len())));
    }
    let mut pads = vec![(0i64, 0i64); rank];
    for (i, &axis) in axes.iter().enumerate() {
        let axis = n.axis(axis, rank)?;
        pads[axis] = (list[i], list[i + axes.len()]);
    }
    // Negative padding crops.
    let mut value = x;
    for (axis, pad) in pads.iter_mut().enumerate() {
        let extent = n.shape(value)[axis] as i64;
        let (begin, end) = ((-pad.0).max(0), extent - (-pad.1).max(0));
        if (begin, end) != (0, extent) {
            let (begin, end) = (n.size("pads", begin)?, n.size("pads", end)?);
            value = n.build().slice(value, axis, begin, end)?;
        }
        *pad = (pad.0.max(0), pad.1.max(0));
    }
    let pads: Vec<(usize, usize)> = pads.iter().map(|&(a, b)| (a as usize, b as usize)).collect();
    let id = match n.text("mode").as_deref() {
        None | Some("constant") => {
            let fill = n.constant(2, "constant_value")?.and_then(|t| t.data.to_f32().first().copied());
            let fill = fill.unwrap_or_else(|| n.float("value", 0.0));
            n.build().op("padded", OpKind::Pad { pads, value: fill }, &[value])?
        }
        Some("reflect") => n.build().op("padded", OpKind::PadEdge { pads, mode: EdgeMode::Reflect }, &[value])?,
        Some("edge") => n.build().op("padded", OpKind::PadEdge { pads, mode: EdgeMode::Replicate }, &[value])?,
        Some("wrap") => {
            for (axis, &(before, after)) in pads.iter().enumerate().filter(|(_, p)| **p != (0, 0)) {
                let extent = n.shape(value)[axis] as i64;
                let at = |i: i64| (i - before as i64).rem_euclid(extent) as i32;
                let indices: Vec<i32> = (0..extent + (before + after) as i64).map(at).collect();
                let indices = n.build().integers([indices.len()], indices);
                value = n.build().gather(value, indices, axis)?;
            }
            value
        }
        Some(other) => return Err(n.unsupported(format!("mode `{other}`"))),
    };
    n.done(id)
}

/// The upper triangle from diagonal `k` on, or the lower triangle up to it.
fn trilu(n: &mut Node, x: ValueId, k: i64) -> Result<bool, Error> {
    let shape = n.shape(x);
    let [.., rows, columns] = shape[..] else { return Err(n.unsupported("operand of rank less than 2")) };
    let upper = n.flag("upper", true);
    let keep = |i: usize| {
        let diagonal = (i % columns) as i64 - (i / columns) as i64;
        if upper { diagonal >= k } else { diagonal <= k }
    };
    let mask = (0..rows * columns).map(keep).collect();
    let mask = n.build().mask([rows, columns], mask);
    let zero = n.build().scalar(0.0, x);
    let id = n.build().select(mask, x, zero)?;
    n.done(id)
}

fn center_crop_pad(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let wanted = n.integers(1, "shape")?.ok_or_else(|| n.missing("shape"))?;
    let axes = n.ints("axes").unwrap_or_else(|| (0..rank as i64).collect());
    let (mut value, mut pads) = (x, vec![(0, 0); rank]);
    for (&axis, &size) in axes.iter().zip(&wanted) {
        let (axis, size) = (n.axis(axis, rank)?, n.size("shape", size)?);
        let extent = n.shape(value)[axis];
        if size < extent {
            let begin = (extent - size) / 2;
            value = n.build().slice(value, axis, begin, begin + size)?;
        } else {
            let before = (size - extent) / 2;
            pads[axis] = (before, size - extent - before);
        }
    }
    let id = n.build().op("padded", OpKind::Pad { pads, value: 0.0 }, &[value])?;
    n.done(id)
}
