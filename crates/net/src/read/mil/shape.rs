//! MIL operations that rearrange elements or compute with shapes.

use super::Item;
use super::call::Call;
use crate::error::Error;
use crate::graph::{Data, MAX_ELEMENTS, MAX_RANK, Tensor, TensorType, ValueId, elements};
use crate::ops::OpKind;

/// Largest constant that `fill` and `range_1d` may make, in elements.
const FILL_ELEMENTS: usize = 1 << 24;

/// Most operands that one `tile` may concatenate along an axis that is not of extent one.
const TILE_COPIES: usize = 4096;

/// Translates the operation if it is one of these; otherwise false.
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
        "gather" => gather(call),
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
        "range_1d" => range(call),
        _ => Ok(false),
    }
}

fn to_shape(call: &mut Call, x: ValueId, shape: Vec<usize>) -> Result<bool, Error> {
    let declared = TensorType { dtype: call.ty(x).dtype, shape };
    call.give_as(OpKind::Reshape, &[x], Some(declared))
}

fn reshape_to(call: &mut Call, suffix: &str, x: ValueId, shape: Vec<usize>) -> Result<ValueId, Error> {
    let declared = TensorType { dtype: call.ty(x).dtype, shape };
    call.emit_as(suffix, OpKind::Reshape, &[x], Some(declared))
}

fn concat(call: &mut Call) -> Result<bool, Error> {
    if call.flag("interleave", false)? {
        return Err(call.unsupported("interleaved concatenation"));
    }
    let values = call.operands("values")?;
    let rank = values.first().map_or(0, |&v| call.shape(v).len());
    let axis = call.axis("axis", call.integer("axis", 0)?, rank)?;
    call.give(OpKind::Concat { axis }, &values)
}

fn stack(call: &mut Call) -> Result<bool, Error> {
    let values = call.operands("values")?;
    let rank = values.first().map_or(0, |&v| call.shape(v).len());
    let axis = call.axis("axis", call.integer("axis", 0)?, rank + 1)?;
    let mut parts = Vec::with_capacity(values.len());
    for (i, value) in values.into_iter().enumerate() {
        let mut shape = call.shape(value);
        if axis > shape.len() {
            return Err(call.unsupported("operands of different rank"));
        }
        shape.insert(axis, 1);
        parts.push(reshape_to(call, &format!("part{i}"), value, shape)?);
    }
    call.give(OpKind::Concat { axis }, &parts)
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
        call.give_output(index, OpKind::Slice { begin, end, stride }, &[x], None)?;
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
    // Zero keeps the operand's extent; -1 takes what is left.
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
        // Sorted axes never lie beyond what has been inserted before them, unless some were repeated.
        shape.insert(axis.min(shape.len()), 1);
    }
    to_shape(call, x, shape)
}

fn slice_by_index(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let rank = shape.len();
    let list = |name: &str| call.integers(name);
    let begin = list("begin")?.ok_or_else(|| call.missing("begin"))?;
    let end = list("end")?.ok_or_else(|| call.missing("end"))?;
    let strides = list("stride")?.unwrap_or_else(|| vec![1; rank]);
    let [begin_mask, end_mask, squeeze_mask] =
        ["begin_mask", "end_mask", "squeeze_mask"].map(|name| list(name).map(|m| m.unwrap_or_else(|| vec![0; rank])));
    let (begin_mask, end_mask, squeeze_mask) = (begin_mask?, end_mask?, squeeze_mask?);
    for list in [&begin, &end, &strides, &begin_mask, &end_mask, &squeeze_mask] {
        if list.len() != rank {
            return Err(call.unsupported(&format!("a list of {} for {rank} axes", list.len())));
        }
    }
    let (mut from, mut to, mut step) = (Vec::new(), Vec::new(), Vec::new());
    let mut push = |first: i64, last: i64, stride: i64| {
        from.push(first as usize);
        to.push(last as usize);
        step.push(stride as usize);
    };
    for axis in 0..rank {
        let extent = shape[axis] as i64;
        let wrap = |v: i64| if v < 0 { v + extent } else { v };
        let first = if begin_mask[axis] != 0 { 0 } else { wrap(begin[axis]).clamp(0, extent) };
        if squeeze_mask[axis] != 0 {
            push(first, first + 1, 1);
            continue;
        }
        if strides[axis] <= 0 {
            return Err(call.unsupported(&format!("stride {} along axis {axis}", strides[axis])));
        }
        let last = if end_mask[axis] != 0 { extent } else { wrap(end[axis]).clamp(0, extent) };
        push(first, last, strides[axis]);
    }
    let kind = OpKind::Slice { begin: from, end: to, stride: step };
    if squeeze_mask.iter().all(|&m| m == 0) {
        return call.give(kind, &[x]);
    }
    let sliced = call.emit("sliced", kind, &[x])?;
    let extents = call.shape(sliced);
    let kept = (0..rank).filter(|&axis| squeeze_mask[axis] == 0).map(|axis| extents[axis]).collect();
    to_shape(call, sliced, kept)
}

fn slice_by_size(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let begin = call.integers("begin")?.ok_or_else(|| call.missing("begin"))?;
    let size = call.integers("size")?.ok_or_else(|| call.missing("size"))?;
    if begin.len() != shape.len() || size.len() != shape.len() {
        return Err(call.unsupported(&format!("lists of {} and {} for {} axes", begin.len(), size.len(), shape.len())));
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

fn gather(call: &mut Call) -> Result<bool, Error> {
    if call.integer("batch_dims", 0)? != 0 {
        return Err(call.unsupported("batch_dims other than 0"));
    }
    let (x, indices) = (call.operand("x")?, call.operand("indices")?);
    let axis = call.axis("axis", call.integer("axis", 0)?, call.shape(x).len())?;
    call.give(OpKind::Gather { axis }, &[x, indices])
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
            return Err(call.unsupported(&format!("{copies} copies, at most {TILE_COPIES} are translated")));
        }
        value = call.emit(&format!("axis{axis}"), OpKind::Concat { axis }, &vec![value; copies])?;
    }
    let total = shape.iter().zip(&reps).map(|(d, n)| d.saturating_mul(*n)).collect::<Vec<_>>();
    let declared = TensorType { dtype: call.ty(x).dtype, shape: total };
    call.give_as(OpKind::Broadcast, &[value], Some(declared))
}

/// Ways to move blocks of pixels into channels and back.
#[derive(Clone, Copy)]
enum Blocks {
    PixelShuffle,
    PixelUnshuffle,
    DepthToSpace,
    SpaceToDepth,
}

fn blocks(call: &mut Call, name: &str, way: Blocks) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let shape = call.shape(x);
    let [n, c, h, w] = shape[..] else { return Err(call.unsupported("operand not of rank 4")) };
    let b = call.size(name, call.integer(name, 1)?)?;
    let to_space = matches!(way, Blocks::PixelShuffle | Blocks::DepthToSpace);
    let area = b.saturating_mul(b).max(1);
    let divides = if to_space { c % area == 0 } else { b != 0 && h % b == 0 && w % b == 0 };
    if b == 0 || !divides {
        return Err(call.unsupported(&format!("blocks of {b} in extents {shape:?}")));
    }
    let (apart, perm, to) = match way {
        Blocks::PixelShuffle => (vec![n, c / area, b, b, h, w], [0, 1, 4, 2, 5, 3], vec![n, c / area, h * b, w * b]),
        Blocks::DepthToSpace => (vec![n, b, b, c / area, h, w], [0, 3, 4, 1, 5, 2], vec![n, c / area, h * b, w * b]),
        Blocks::PixelUnshuffle => (vec![n, c, h / b, b, w / b, b], [0, 1, 3, 5, 2, 4], vec![n, c * area, h / b, w / b]),
        Blocks::SpaceToDepth => (vec![n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4], vec![n, c * area, h / b, w / b]),
    };
    let apart = reshape_to(call, "apart", x, apart)?;
    let moved = call.emit("moved", OpKind::Transpose { perm: perm.to_vec() }, &[apart])?;
    to_shape(call, moved, to)
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
