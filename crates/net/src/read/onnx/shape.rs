//! Operators that rearrange, choose and place elements, or compute with shapes.

use super::node::Node;
use crate::build::window::Blocks;
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, ValueId, elements};
use crate::ops::{Binary, EdgeMode, OpKind, ScatterMode, Unary};

/// Largest constant that an operator may make, in elements.
const MADE_ELEMENTS: usize = 1 << 24;

/// Translates the operator if it is one of these; otherwise false.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Constant" => constant(n),
        "ConstantOfShape" => {
            let shape = n.integers(0, "shape")?.unwrap_or_default();
            let shape = n.sizes("shape", &shape)?;
            let value = match n.attribute("value").and_then(|a| a.t.as_ref()) {
                Some(message) => n.t.tensor(message)?.data,
                None => Data::F32(vec![0.0]),
            };
            filled(n, shape, &value)
        }
        "Shape" | "Size" => {
            let x = n.need(0)?;
            let shape: Vec<i32> = n.shape(x).iter().map(|&d| d as i32).collect();
            if n.op() == "Size" {
                let id = n.build().integers([], vec![shape.iter().product()]);
                return n.done(id);
            }
            let rank = shape.len() as i64;
            let at = |v: i64| (if v < 0 { v + rank } else { v }).clamp(0, rank) as usize;
            let (start, end) = (at(n.int("start", 0)), at(n.int("end", rank)));
            let part = shape.get(start..end.max(start)).unwrap_or_default().to_vec();
            let id = n.build().integers([part.len()], part);
            n.done(id)
        }
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
            // A part without elements adds none; it comes from shapes that are computed.
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
            let shape = crate::infer::broadcast("expand", &n.shape(x), &wanted)?;
            expanded(n, x, shape)
        }
        "Tile" => tile(n),
        "Pad" => pad(n),
        "Gather" => {
            let (x, indices) = (n.need(0)?, n.need(1)?);
            let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
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
        "Trilu" => {
            let x = n.need(0)?;
            let k = n.integers(1, "k")?.and_then(|v| v.first().copied()).unwrap_or(0);
            trilu(n, x, k)
        }
        "EyeLike" => {
            let x = n.need(0)?;
            let shape = n.shape(x);
            let &[rows, columns] = shape.as_slice() else { return Err(n.unsupported("operand not of rank 2")) };
            let k = n.int("k", 0);
            let dtype = match n.attribute("dtype") {
                Some(a) => i32::try_from(a.i).ok().and_then(super::element).and_then(|e| e.dtype()),
                None => Some(n.dtype(x)),
            };
            let dtype = dtype.ok_or_else(|| n.unsupported("its element type"))?;
            let one = |i: usize| (i % columns) as i64 - (i / columns) as i64 == k;
            let values: Vec<i32> = (0..rows * columns).map(|i| one(i).into()).collect();
            let tensor = Tensor { shape, data: Data::from_i32(dtype, &values) };
            let id = n.build().constant("eye", tensor);
            n.done(id)
        }
        "Range" => range(n),
        "HannWindow" => window(n, [0.5, 0.5, 0.0]),
        "HammingWindow" => window(n, [25.0 / 46.0, 21.0 / 46.0, 0.0]),
        "BlackmanWindow" => window(n, [0.42, 0.5, 0.08]),
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

fn constant(n: &mut Node) -> Result<bool, Error> {
    let attribute = |name: &str| n.attribute(name);
    let tensor = if let Some(message) = attribute("value").and_then(|a| a.t.as_ref()) {
        n.t.tensor(message)?
    } else if let Some(a) = attribute("value_float") {
        Tensor::f32([], vec![a.f])
    } else if let Some(a) = attribute("value_floats") {
        Tensor::f32([a.floats.len()], a.floats.clone())
    } else if let Some(a) = attribute("value_int") {
        Tensor::i32([], vec![clamp(a.i)])
    } else if let Some(a) = attribute("value_ints") {
        Tensor::i32([a.ints.len()], a.ints.iter().map(|&v| clamp(v)).collect())
    } else {
        return Err(n.unsupported("a constant that is no tensor of numbers"));
    };
    let id = n.build().constant("value", tensor);
    n.done(id)
}

fn clamp(v: i64) -> i32 {
    v.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

fn filled(n: &mut Node, shape: Vec<usize>, value: &Data) -> Result<bool, Error> {
    let count = elements(&shape);
    if count > MADE_ELEMENTS {
        let what = "ConstantOfShape".to_string();
        return Err(Error::TooLarge { what, shape, elements: count, limit: MADE_ELEMENTS });
    }
    n.build().budget.spend(&shape)?;
    let dtype = value.dtype();
    let data = if dtype.is_float() {
        Data::from_f32(dtype, &vec![value.to_f32().first().copied().unwrap_or(0.0); count])
    } else {
        Data::from_i32(dtype, &vec![value.to_i32().first().copied().unwrap_or(0); count])
    };
    let id = n.build().constant("filled", Tensor { shape, data });
    n.done(id)
}

/// Zero keeps an extent, unless zeros are allowed; -1 takes what is left.
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
        // One part is the whole.
        let id = if id == x { n.build().unary(Unary::Identity, x)? } else { id };
        n.output(index, id);
        at = at.saturating_add(size);
    }
    n.finish(count)
}

fn slice(n: &mut Node) -> Result<bool, Error> {
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
    // A part without elements comes from shapes that are computed, and is joined to others.
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

/// `x` with axes of one repeated; leading axes are added.
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
    // Negative pads cut.
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

fn reduction(n: &Node) -> Result<ScatterMode, Error> {
    let name = n.text("reduction").unwrap_or_else(|| "none".to_string());
    let name = if name == "none" { "update" } else { name.as_str() };
    let mode = ScatterMode::ALL.iter().find(|(text, _)| *text == name).map(|row| row.1);
    mode.ok_or_else(|| n.unsupported(format!("reduction `{name}`")))
}

/// New positions of a cache, one place for each item of the batch.
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
        return Err(n.unsupported(format!("{k} of {} elements", shape[axis])));
    }
    let (values, positions) = n.t.build.top_k(x, axis, k, !n.flag("largest", true))?;
    n.output(0, values);
    n.output(1, positions);
    n.finish(2)
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

/// The upper triangle from diagonal `k` on, or the lower one up to it.
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

fn range(n: &mut Node) -> Result<bool, Error> {
    let mut ends = [0f64; 3];
    let mut dtype = DType::F32;
    for (i, name) in ["start", "limit", "delta"].into_iter().enumerate() {
        let tensor = n.constant(i, name)?.ok_or_else(|| n.missing(name))?;
        dtype = tensor.data.dtype();
        ends[i] = if dtype.is_float() {
            tensor.data.to_f32().first().copied().unwrap_or(0.0).into()
        } else {
            tensor.data.to_i32().first().copied().unwrap_or(0).into()
        };
    }
    let [start, limit, delta] = ends;
    let count = ((limit - start) / delta).ceil().max(0.0);
    if !(0.0..=MADE_ELEMENTS as f64).contains(&count) {
        return Err(n.unsupported(format!("a range of {count} elements")));
    }
    let values: Vec<f64> = (0..count as usize).map(|i| start + i as f64 * delta).collect();
    let data = if dtype.is_float() {
        Data::from_f32(dtype, &values.iter().map(|&v| v as f32).collect::<Vec<_>>())
    } else {
        Data::from_i32(dtype, &values.iter().map(|&v| v as i32).collect::<Vec<_>>())
    };
    let id = n.build().constant("range", Tensor { shape: vec![values.len()], data });
    n.done(id)
}

/// `a - b cos x + c cos 2x` over a period, or symmetric.
fn window(n: &mut Node, [a, b, c]: [f64; 3]) -> Result<bool, Error> {
    let size = n.integers(0, "size")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("size"))?;
    let size = n.size("size", size)?;
    if size > MADE_ELEMENTS {
        return Err(n.unsupported(format!("a window of {size} elements")));
    }
    let dtype = i32::try_from(n.int("output_datatype", 1)).ok().and_then(super::element).and_then(|e| e.dtype());
    let dtype = dtype.ok_or_else(|| n.unsupported("its element type"))?;
    let steps = if n.flag("periodic", true) { size } else { size.saturating_sub(1).max(1) };
    let turn = std::f64::consts::TAU / steps as f64;
    let value = |i: usize| (a - b * (i as f64 * turn).cos() + c * (2.0 * i as f64 * turn).cos()) as f32;
    let data = Data::from_f32(dtype, &(0..size).map(value).collect::<Vec<f32>>());
    n.build().budget.spend(&[size])?;
    let id = n.build().constant("window", Tensor { shape: vec![size], data });
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
