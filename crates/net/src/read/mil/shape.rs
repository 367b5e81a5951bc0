//! MIL operations that rearrange elements or compute with shapes.

use super::Item;
use super::call::Call;
use crate::build::window::Blocks;
use crate::error::Error;
use crate::graph::{Data, MAX_ELEMENTS, MAX_RANK, Tensor, TensorType, ValueId, elements};
use crate::ops::OpKind;

/// Largest constant that `fill` and `range_1d` may create, in elements.
const FILL_ELEMENTS: usize = 1 << 24;

/// Most operands that one `tile` may concatenate along an axis with an extent above one.
const TILE_COPIES: usize = 4096;

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "concat" => concat(call),
        "stack" => stack(call),
        "split" => split(call),
        "reshape" => reshape(call),
        "flatten2d" => {
            let x = call.operand("x")?;
            let shape = call.shape(x);
            let axis = call.integer("axis", 1)?;
            let axis = if axis == shape.len() as i64 { shape.len() } else { call.axis("axis", axis, shape.len())? };
            to_shape(call, x, vec![elements(&shape[..axis]), elements(&shape[axis..])])
        }
        "squeeze" => squeeze(call),
        "expand_dims" => expand_dims(call),
        "transpose" => {
            let x = call.operand("x")?;
            let rank = call.shape(x).len();
            let perm = call.integers("perm")?.ok_or_else(|| call.missing("perm"))?;
            let perm = perm.into_iter().map(|a| call.axis("perm", a, rank)).collect::<Result<_, _>>()?;
            call.give(OpKind::Transpose { perm }, &[x])
        }
        "slice_by_index" => slice_by_index(call),
        "slice_by_size" => slice_by_size(call),
        "slice_update" => slice_update(call),
        "reshape_like" => reshape_like(call),
        "crop" => crop(call),
        "space_to_batch" | "batch_to_space" => to_batches(call),
        "tile" => tile(call),
        "pixel_shuffle" => blocks(call, "upscale_factor", Blocks::PixelShuffle),
        "pixel_unshuffle" => blocks(call, "downscale_factor", Blocks::PixelUnshuffle),
        "depth_to_space" => blocks(call, "block_size", Blocks::DepthToSpace),
        "space_to_depth" => blocks(call, "block_size", Blocks::SpaceToDepth),
        "shape" => {
            let x = call.operand("x")?;
            let extents: Vec<i32> = call.shape(x).iter().map(|&d| i32::try_from(d).unwrap_or(i32::MAX)).collect();
            call.give_constant(Tensor::i32([extents.len()], extents))
        }
        "fill" => {
            let shape = call.sizes("shape")?.ok_or_else(|| call.missing("shape"))?;
            let value = call.tensor("value")?.map_or(Data::F32(vec![0.0]), |t| t.data.clone());
            fill(call, shape, &value)
        }
        "fill_like" => {
            let like = call.operand("ref_tensor")?;
            let shape = call.shape(like);
            let value = call.tensor("value")?.map_or(Data::F32(vec![0.0]), |t| t.data.clone());
            fill(call, shape, &value)
        }
        "range_1d" => range(call),
        _ => Ok(false),
    }
}

/// A reshape to parts of the shapes of other operands.
fn reshape_like(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let references = call.operands("ref_tensors")?;
    let list = |call: &Call, name: &str| -> Result<Vec<i64>, Error> {
        match call.item(name)? {
            Some(Item::List(items)) => items.iter().map(|item| call.integer_of(item, name)).collect(),
            Some(_) => Ok(call.integers(name)?.unwrap_or_default()),
            None => Err(call.missing(name)),
        }
    };
    let (begins, ends) = (list(call, "begins")?, list(call, "ends")?);
    let masks = list(call, "end_masks")?;
    let mut shape = Vec::new();
    for (i, reference) in references.into_iter().enumerate() {
        let extents = call.shape(reference);
        let rank = extents.len() as i64;
        let at = |list: &[i64]| list.get(i).copied().map(|v| if v < 0 { v + rank } else { v });
        let (Some(begin), Some(end)) = (at(&begins), at(&ends)) else { return Err(call.missing("begins and ends")) };
        let end = if masks.get(i).is_some_and(|&m| m != 0) { rank } else { end };
        let (begin, end) = (call.size("begins", begin)?, call.size("ends", end)?);
        let part = extents.get(begin..end).ok_or_else(|| call.unsupported("a part outside a reference's shape"))?;
        shape.extend_from_slice(part);
    }
    to_shape(call, x, shape)
}

fn crop(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let pair = |call: &Call, name: &str| match call.sizes(name)?.as_deref() {
        Some(&[before, after]) => Ok((before, after)),
        _ => Err(call.missing(name)),
    };
    let crops = [pair(call, "crop_height")?, pair(call, "crop_width")?];
    let rank = shape.len();
    if rank < 2 {
        return Err(call.unsupported("operand of rank less than 2"));
    }
    let (mut begin, mut end) = (vec![0; rank], shape.clone());
    for (i, (before, after)) in crops.into_iter().enumerate() {
        let axis = rank - 2 + i;
        begin[axis] = before;
        end[axis] = shape[axis].saturating_sub(after);
    }
    call.give(OpKind::Slice { begin, end, stride: vec![1; rank] }, &[x])
}

fn to_batches(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let blocks = call.sizes("block_shape")?.ok_or_else(|| call.missing("block_shape"))?;
    let back = call.op.ty == "batch_to_space";
    let name = if back { "crops" } else { "paddings" };
    let pads = call.sizes(name)?.ok_or_else(|| call.missing(name))?;
    let pads: Vec<(usize, usize)> = pads.chunks_exact(2).map(|p| (p[0], p[1])).collect();
    if blocks.len() + 2 > call.shape(x).len() || pads.len() != blocks.len() {
        return Err(call.unsupported(&format!("{} blocks and {} pairs", blocks.len(), pads.len())));
    }
    let done = if back {
        call.build().batch_to_space(x, &blocks, &pads)?
    } else {
        call.build().space_to_batch(x, &blocks, &pads)?
    };
    call.done(0, done)
}

fn to_shape(call: &mut Call, x: ValueId, shape: Vec<usize>) -> Result<bool, Error> {
    let declared = TensorType { dtype: call.ty(x).dtype, shape };
    call.give_as(OpKind::Reshape, &[x], Some(declared))
}

fn concat(call: &mut Call) -> Result<bool, Error> {
    let mut values = call.operands("values")?;
    // A concatenation of scalars is a list.
    if values.iter().all(|&v| call.shape(v).is_empty()) {
        for value in &mut values {
            *value = call.build().reshape(*value, [1])?;
        }
    }
    let rank = values.first().map_or(0, |&v| call.shape(v).len());
    let axis = call.axis("axis", call.integer("axis", 0)?, rank)?;
    if call.flag("interleave", false)? {
        // Interleaved operands: stacked along a new axis after this one, then merged with it.
        let raised = call.build().stack(&values, axis + 1)?;
        let mut shape = call.shape(values[0]);
        shape[axis] = shape[axis].saturating_mul(values.len());
        return to_shape(call, raised, shape);
    }
    call.give(OpKind::Concat { axis }, &values)
}

fn stack(call: &mut Call) -> Result<bool, Error> {
    let values = call.operands("values")?;
    let rank = values.first().map_or(0, |&v| call.shape(v).len());
    let axis = call.axis("axis", call.integer("axis", 0)?, rank + 1)?;
    let stacked = call.build().stack(&values, axis)?;
    call.done(0, stacked)
}

fn split(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let axis = call.axis("axis", call.integer("axis", 0)?, shape.len())?;
    let sizes = match call.sizes("split_sizes")? {
        Some(sizes) => sizes,
        None => {
            let count = call.integer("num_splits", 0)?;
            let count = call.size("num_splits", count)?;
            if count == 0 || !shape[axis].is_multiple_of(count) {
                return Err(call.unsupported(&format!("{} elements in {count} parts", shape[axis])));
            }
            vec![shape[axis] / count; count]
        }
    };
    if sizes.len() != call.op.outputs.len() {
        return Err(call.unsupported(&format!("{} parts for {} outputs", sizes.len(), call.op.outputs.len())));
    }
    let mut at = 0usize;
    for (index, size) in sizes.into_iter().enumerate() {
        let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
        begin[axis] = at;
        at = at.saturating_add(size);
        end[axis] = at;
        let stride = vec![1; shape.len()];
        let part = call.emit(&format!("part{index}"), OpKind::Slice { begin, end, stride }, &[x])?;
        call.done(index, part)?;
    }
    Ok(true)
}

fn reshape(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let from = call.shape(x);
    let wanted = call.integers("shape")?.ok_or_else(|| call.missing("shape"))?;
    if wanted.len() > MAX_RANK {
        return Err(call.unsupported(&format!("result of rank {}", wanted.len())));
    }
    // Zero keeps the operand's extent; -1 stands for the remaining elements.
    let keep = |axis: usize, size: i64| if size == 0 { from.get(axis).map_or(0, |&d| d as i64) } else { size };
    let sizes: Vec<i64> = wanted.iter().enumerate().map(|(i, &s)| keep(i, s)).collect();
    let known = sizes.iter().filter(|&&s| s > 0).fold(1usize, |n, &s| n.saturating_mul(s as usize));
    let total = elements(&from);
    let rest = total.checked_div(known).unwrap_or(0);
    let shape = sizes.iter().map(|&s| if s == -1 { Ok(rest) } else { call.size("shape", s) });
    let shape = shape.collect::<Result<Vec<usize>, Error>>()?;
    to_shape(call, x, shape)
}

fn squeeze(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let axes = call.axes("axes", shape.len())?;
    let gone = |axis: usize| axes.as_ref().map_or(shape[axis] == 1, |axes| axes.contains(&axis));
    let kept = (0..shape.len()).filter(|&axis| !gone(axis)).map(|axis| shape[axis]).collect();
    to_shape(call, x, kept)
}

fn expand_dims(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let mut shape = call.shape(x);
    let count = call.integers("axes")?.ok_or_else(|| call.missing("axes"))?.len();
    let axes = call.axes("axes", shape.len() + count)?.unwrap_or_default();
    for axis in axes {
        // Sorted axes are never beyond the axes inserted before them, unless some are repeated.
        shape.insert(axis.min(shape.len()), 1);
    }
    to_shape(call, x, shape)
}

/// A slice in the terms of `slice_by_index` and `slice_update`, one entry per axis.
pub struct Bounds {
    /// First element; `None` if it is computed at run time.
    begin: Vec<Option<i64>>,
    /// Number of elements.
    count: Vec<usize>,
    stride: Vec<i64>,
    squeezed: Vec<bool>,
}

/// The bounds given by the arguments; `counts` gives the extents of the result if they depend on run-time values.
fn bounds(call: &mut Call, shape: &[usize], counts: Option<Vec<usize>>) -> Result<Bounds, Error> {
    let rank = shape.len();
    let known = |call: &Call, name: &str| match call.item(name)? {
        Some(Item::Value(id)) if call.t.build.data(id).is_none() => Ok(call.t.build.known_elements(id)),
        _ => Ok(match call.integers(name)? {
            Some(list) => list.into_iter().map(Some).collect(),
            None => vec![],
        }),
    };
    let (begin, end) = (known(call, "begin")?, known(call, "end")?);
    let strides = call.integers("stride")?.unwrap_or_else(|| vec![1; rank]);
    let mask = |name: &str| -> Result<Vec<bool>, Error> {
        Ok(call.integers(name)?.map_or_else(|| vec![false; rank], |m| m.into_iter().map(|v| v != 0).collect()))
    };
    let (begin_mask, end_mask, squeezed) = (mask("begin_mask")?, mask("end_mask")?, mask("squeeze_mask")?);
    for length in [begin.len(), end.len(), strides.len(), begin_mask.len(), end_mask.len(), squeezed.len()] {
        if length != rank {
            return Err(call.unsupported(&format!("a list of {length} for {rank} axes")));
        }
    }
    let mut made = Bounds { begin: vec![], count: vec![], stride: strides.clone(), squeezed: squeezed.clone() };
    // Extents of the result belong to the axes that are not squeezed.
    let mut stated = counts.unwrap_or_default().into_iter();
    for axis in 0..rank {
        let (extent, stride) = (shape[axis] as i64, strides[axis]);
        let wrap = |v: i64| if v < 0 { v + extent } else { v };
        let given = if squeezed[axis] { None } else { stated.next() };
        if stride == 0 {
            return Err(call.unsupported(&format!("stride 0 along axis {axis}")));
        }
        let whole_from = if stride > 0 { 0 } else { extent - 1 };
        let first = match (begin_mask[axis], begin[axis]) {
            (true, _) => Some(whole_from),
            (false, Some(v)) if stride > 0 => Some(wrap(v).clamp(0, extent)),
            (false, Some(v)) => Some(wrap(v).clamp(-1, extent - 1)),
            (false, None) => None,
        };
        let last = match (end_mask[axis], end[axis]) {
            (true, _) => Some(if stride > 0 { extent } else { -1 }),
            (false, Some(v)) if stride > 0 => Some(wrap(v).clamp(0, extent)),
            (false, Some(v)) => Some(wrap(v).clamp(-1, extent - 1)),
            (false, None) => None,
        };
        let count = match (first, last) {
            _ if squeezed[axis] => 1,
            (Some(first), Some(last)) => {
                let span = if stride > 0 { last - first } else { first - last };
                usize::try_from(span).unwrap_or(0).div_ceil(stride.unsigned_abs() as usize)
            }
            _ => given.ok_or_else(|| call.unsupported("a length computed at run time: the graph is static"))?,
        };
        made.begin.push(first);
        made.count.push(count);
    }
    Ok(made)
}

fn slice_by_index(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let (shape, counts) = (call.shape(x), call.declared_extents(0));
    let bounds = bounds(call, &shape, counts)?;
    let (mut from, mut to, mut step) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
    let mut value = x;
    for axis in 0..shape.len() {
        let (count, stride) = (bounds.count[axis], bounds.stride[axis]);
        match bounds.begin[axis] {
            Some(first) if stride > 0 || count == 1 => {
                from[axis] = usize::try_from(first).unwrap_or(0);
                to[axis] = from[axis] + count.saturating_sub(1) * stride.unsigned_abs() as usize + count.min(1);
                step[axis] = if count == 1 { 1 } else { stride as usize };
            }
            Some(first) => {
                let indices = (0..count as i64).map(|i| (first + i * stride) as i32).collect();
                let indices = call.build().integers([count], indices);
                value = call.build().gather(value, indices, axis)?;
                to[axis] = count;
            }
            None => {
                let begin = run_time(call, "begin", axis)?;
                let stride = i32::try_from(stride).unwrap_or(i32::MAX);
                value = call.build().slice_at(value, axis, begin, count, stride)?;
                to[axis] = count;
            }
        }
    }
    let whole = call.shape(value);
    if from.iter().any(|&b| b != 0) || to != whole || step.iter().any(|&s| s != 1) || value == x {
        let kind = OpKind::Slice { begin: from, end: to, stride: step };
        value = call.emit("sliced", kind, &[value])?;
    }
    let extents = call.shape(value);
    let kept: Vec<usize> =
        (0..extents.len()).filter(|&axis| !bounds.squeezed[axis]).map(|axis| extents[axis]).collect();
    let value = call.build().reshape(value, kept)?;
    call.done(0, value)
}

/// Entry of a list computed at run time, as a scalar that counts from the start of its axis.
fn run_time(call: &mut Call, name: &str, axis: usize) -> Result<ValueId, Error> {
    let list = call.operand(name)?;
    let extent = call.shape(list).first().copied().unwrap_or(0);
    if axis >= extent {
        return Err(call.unsupported(&format!("a list of {extent} for axis {axis}")));
    }
    call.build().slice(list, 0, axis, axis + 1)
}

fn slice_update(call: &mut Call) -> Result<bool, Error> {
    let (x, mut update) = (call.operand("x")?, call.operand("update")?);
    let (shape, counts) = (call.shape(x), call.shape(update));
    let bounds = bounds(call, &shape, Some(counts))?;
    let expected: Vec<usize> = (0..shape.len()).map(|a| bounds.count[a]).collect();
    if crate::graph::elements(&expected) != crate::graph::elements(&call.shape(update)) {
        return Err(call.unsupported(&format!("an update {:?} for a slice {expected:?}", call.shape(update))));
    }
    update = call.build().reshape(update, expected)?;
    let plain = |axis: usize| bounds.begin[axis].is_some() && (bounds.stride[axis] == 1 || bounds.count[axis] == 1);
    // Axes with known positions are sliced first; the rest of the update then has the extents of that part.
    let begin: Vec<usize> = (0..shape.len())
        .map(|a| if plain(a) { bounds.begin[a].and_then(|v| usize::try_from(v).ok()).unwrap_or(0) } else { 0 })
        .collect();
    let mut target = x;
    for axis in (0..shape.len()).filter(|&a| plain(a)) {
        target = call.build().slice(target, axis, begin[axis], begin[axis] + bounds.count[axis])?;
    }
    // Along several other axes, each part is updated in the part of the axis before.
    let late: Vec<usize> = (0..shape.len()).filter(|&a| !plain(a)).collect();
    let mut parts = Vec::with_capacity(late.len());
    for (i, &axis) in late.iter().enumerate() {
        let stride = usize::try_from(bounds.stride[axis]).map_err(|_| call.unsupported("a negative stride"))?;
        let start = match bounds.begin[axis] {
            Some(first) => call.build().integers([1], vec![first as i32]),
            None => run_time(call, "begin", axis)?,
        };
        parts.push((target, start, stride));
        if i + 1 < late.len() {
            target = call.build().slice_at(target, axis, start, bounds.count[axis], stride as i32)?;
        }
    }
    for (&axis, (target, start, stride)) in late.iter().zip(parts).rev() {
        update = call.build().update_at(target, update, axis, start, stride)?;
    }
    let whole = call.build().update_slice(x, update, &begin)?;
    call.done(0, whole)
}

fn slice_by_size(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let size = call.integers("size")?.ok_or_else(|| call.missing("size"))?;
    let computed = match call.item("begin")? {
        Some(Item::Value(id)) => call.t.build.data(id).is_none(),
        _ => false,
    };
    let begin = if computed { vec![0; shape.len()] } else { call.integers("begin")?.unwrap_or_default() };
    if begin.len() != shape.len() || size.len() != shape.len() {
        return Err(call.unsupported(&format!("lists of {} and {} for {} axes", begin.len(), size.len(), shape.len())));
    }
    if computed {
        let mut value = x;
        for axis in (0..shape.len()).filter(|&a| size[a] != -1 && size[a] != shape[a] as i64) {
            let (begin, count) = (run_time(call, "begin", axis)?, call.size("size", size[axis])?);
            value = call.build().slice_at(value, axis, begin, count, 1)?;
        }
        return call.done(0, value);
    }
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for axis in 0..shape.len() {
        let extent = shape[axis] as i64;
        let first = if begin[axis] < 0 { begin[axis] + extent } else { begin[axis] };
        let last = if size[axis] == -1 { extent } else { first + size[axis] };
        from.push(call.size("begin", first)?);
        to.push(call.size("size", last)?);
    }
    let stride = vec![1; shape.len()];
    call.give(OpKind::Slice { begin: from, end: to, stride }, &[x])
}

fn tile(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let reps = call.sizes("reps")?.ok_or_else(|| call.missing("reps"))?;
    if reps.len() != shape.len() || reps.contains(&0) {
        return Err(call.unsupported(&format!("repetitions {reps:?} for extents {shape:?}")));
    }
    let mut value = x;
    for (axis, &copies) in reps.iter().enumerate().filter(|&(axis, &n)| n > 1 && shape[axis] > 1) {
        if copies > TILE_COPIES {
            return Err(call.unsupported(&format!("{copies} copies; at most {TILE_COPIES} are translated")));
        }
        value = call.emit(&format!("axis{axis}"), OpKind::Concat { axis }, &vec![value; copies])?;
    }
    let total = shape.iter().zip(&reps).map(|(d, n)| d.saturating_mul(*n)).collect::<Vec<_>>();
    let declared = TensorType { dtype: call.ty(x).dtype, shape: total };
    call.give_as(OpKind::Broadcast, &[value], Some(declared))
}

fn blocks(call: &mut Call, name: &str, way: Blocks) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let block = call.size(name, call.integer(name, 1)?)?;
    let moved = call.build().pixel_blocks(x, block, way)?;
    call.done(0, moved)
}

fn fill(call: &mut Call, shape: Vec<usize>, value: &Data) -> Result<bool, Error> {
    let count = elements(&shape);
    if count > FILL_ELEMENTS.min(MAX_ELEMENTS) {
        let what = call.place();
        return Err(Error::TooLarge { what, shape, elements: count, limit: FILL_ELEMENTS });
    }
    let dtype = value.dtype();
    let data = if dtype.is_float() {
        Data::from_f32(dtype, &vec![value.to_f32().first().copied().unwrap_or(0.0); count])
    } else {
        Data::from_i32(dtype, &vec![value.to_i32().first().copied().unwrap_or(0); count])
    };
    call.give_constant(Tensor { shape, data })
}

fn range(call: &mut Call) -> Result<bool, Error> {
    let (start, end, step) = (call.float("start", 0.0)?, call.float("end", 0.0)?, call.float("step", 1.0)?);
    let count = ((end - start) / step).ceil();
    if !(0.0..=FILL_ELEMENTS as f32).contains(&count) {
        return Err(call.unsupported(&format!("range of {count} elements")));
    }
    let dtype = match call.item("start")? {
        Some(Item::Constant(constant)) => constant.tensor.data.dtype(),
        Some(Item::Value(id)) => call.ty(id).dtype,
        _ => return Err(call.missing("start")),
    };
    let values: Vec<f32> = (0..count as usize).map(|i| start + i as f32 * step).collect();
    call.give_constant(Tensor { shape: vec![values.len()], data: Data::from_f32(dtype, &values) })
}
