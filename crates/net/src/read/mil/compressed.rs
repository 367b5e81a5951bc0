//! MIL operations that stand for compressed weights: decompressed to constants, rounded once to the stated type.

use super::super::blob::unpack;
use super::call::Call;
use crate::error::Error;
use crate::graph::{DType, Data, MAX_ELEMENTS, Tensor, elements};
use std::sync::Arc;

/// Translates the operation if it is one of these; otherwise false.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "constexpr_affine_dequantize" => affine(call),
        "constexpr_blockwise_shift_scale" => blockwise(call),
        // The form with a `shape` keeps its indices packed in bytes, the later one has typed indices.
        "constexpr_lut_to_dense" if call.arguments.contains_key("shape") => packed_table(call),
        "constexpr_lut_to_dense" => table(call),
        "constexpr_sparse_to_dense" => sparse(call),
        "constexpr_cast" => {
            let source = needed(call, "source_val")?;
            let name = call.text("output_dtype")?.ok_or_else(|| call.missing("output_dtype"))?;
            let dtype = super::elementwise::dtype(&name);
            let dtype = dtype.ok_or_else(|| call.unsupported(&format!("element type `{name}`")))?;
            call.give_constant(source.cast(dtype))
        }
        "dequantize" => dequantize(call),
        _ => Ok(false),
    }
}

fn needed(call: &Call, name: &str) -> Result<Arc<Tensor>, Error> {
    call.tensor(name)?.ok_or_else(|| call.missing(name))
}

/// Extents of a decompressed tensor, small enough to allocate.
fn dense_shape(call: &Call) -> Result<Vec<usize>, Error> {
    let shape = call.sizes("shape")?.ok_or_else(|| call.missing("shape"))?;
    bounded(call, &shape)?;
    Ok(shape)
}

fn bounded(call: &Call, shape: &[usize]) -> Result<(), Error> {
    let found = elements(shape);
    if found > MAX_ELEMENTS {
        return Err(Error::TooLarge {
            what: call.place(),
            shape: shape.to_vec(),
            elements: found,
            limit: MAX_ELEMENTS,
        });
    }
    Ok(())
}

fn wrong_count(call: &Call, key: &str, found: usize, expected: usize) -> Error {
    let (key, found, n) = (format!("elements of {key}"), found as i64, expected as i64);
    Error::OutOfRange { place: call.place(), key, found, least: n, most: n }
}

/// `scale * (data - zero_point)`, one scale and zero point for all or one per position of `axis`.
fn affine(call: &mut Call) -> Result<bool, Error> {
    let (data, scale) = (needed(call, "quantized_data")?, needed(call, "scale")?);
    let zero = needed(call, "zero_point")?;
    let axis = call.axis("axis", call.integer("axis", 0)?, data.shape.len())?;
    scale_along(call, &data, &scale, Some(&zero), axis)
}

/// As `constexpr_affine_dequantize`, with the zero point optional and the data possibly not constant.
fn dequantize(call: &mut Call) -> Result<bool, Error> {
    let (data, scale) = (needed(call, "input")?, needed(call, "scale")?);
    let zero = call.tensor("zero_point")?;
    let axis = match data.shape.len() {
        0 => 0,
        rank => call.axis("axis", call.integer("axis", 0)?, rank)?,
    };
    scale_along(call, &data, &scale, zero.as_deref(), axis)
}

fn scale_along(
    call: &mut Call,
    data: &Tensor,
    scale: &Tensor,
    zero: Option<&Tensor>,
    axis: usize,
) -> Result<bool, Error> {
    let extent = data.shape.get(axis).copied().unwrap_or(1);
    for (name, tensor) in [("scale", Some(scale)), ("zero_point", zero)] {
        if let Some(count) = tensor.map(|t| t.data.len()).filter(|&n| n != 1 && n != extent) {
            return Err(wrong_count(call, name, count, extent));
        }
    }
    let inner = data.shape.get(axis + 1..).map_or(1, elements);
    let (scales, zeros) = (scale.data.to_f32(), zero.map_or_else(|| vec![0.0], |z| z.data.to_f32()));
    let at = |list: &[f32], i: usize| if list.len() == 1 { list[0] } else { list[i / inner % extent] };
    let dense: Vec<f32> =
        data.data.to_f32().iter().enumerate().map(|(i, v)| at(&scales, i) * (v - at(&zeros, i))).collect();
    let shape = data.shape.clone();
    call.give_constant(Tensor { shape, data: Data::from_f32(scale.data.dtype(), &dense) })
}

/// Position in a tensor of blocks of the block that holds an element, both row-major and of the same rank.
fn block_of(mut index: usize, shape: &[usize], blocks: &[usize]) -> usize {
    let (mut at, mut step) = (0, 1);
    for (&extent, &count) in shape.iter().zip(blocks).rev() {
        at += index % extent / (extent / count) * step;
        index /= extent;
        step *= count;
    }
    at
}

/// Requires the number of blocks along every axis to divide the extent.
fn blocks_fit(call: &Call, shape: &[usize], blocks: &[usize]) -> Result<(), Error> {
    let divides = |(&extent, &count): (&usize, &usize)| count != 0 && extent % count == 0;
    if shape.len() == blocks.len() && shape.iter().zip(blocks).all(divides) {
        return Ok(());
    }
    Err(call.unsupported(&format!("blocks {blocks:?} of extents {shape:?}")))
}

/// `scale * (data - offset)` with one scale and offset per block.
fn blockwise(call: &mut Call) -> Result<bool, Error> {
    let (data, scale) = (needed(call, "data")?, needed(call, "scale")?);
    let offset = call.tensor("offset")?;
    blocks_fit(call, &data.shape, &scale.shape)?;
    if let Some(offset) = offset.as_ref().filter(|o| o.shape != scale.shape) {
        return Err(wrong_count(call, "offset", offset.data.len(), scale.data.len()));
    }
    let (scales, offsets) = (scale.data.to_f32(), offset.map(|o| o.data.to_f32()));
    let dense: Vec<f32> = (data.data.to_f32().iter().enumerate())
        .map(|(i, v)| {
            let block = block_of(i, &data.shape, &scale.shape);
            scales[block] * (v - offsets.as_ref().map_or(0.0, |o| o[block]))
        })
        .collect();
    let shape = data.shape.clone();
    call.give_constant(Tensor { shape, data: Data::from_f32(scale.data.dtype(), &dense) })
}

/// Elements of `data` at these positions.
fn pick(data: &Data, positions: impl Iterator<Item = usize>) -> Data {
    fn at<T: Copy>(data: &[T], positions: impl Iterator<Item = usize>) -> Vec<T> {
        positions.map(|i| data[i]).collect()
    }
    match data {
        Data::F16(v) => Data::F16(at(v, positions)),
        Data::F32(v) => Data::F32(at(v, positions)),
        Data::I8(v) => Data::I8(at(v, positions)),
        Data::U8(v) => Data::U8(at(v, positions)),
        Data::I16(v) => Data::I16(at(v, positions)),
        Data::U16(v) => Data::U16(at(v, positions)),
        Data::I32(v) => Data::I32(at(v, positions)),
        Data::Bool(v) => Data::Bool(at(v, positions)),
    }
}

/// Indices of as many bits as the table needs, packed in bytes from the lowest bit.
fn packed_table(call: &mut Call) -> Result<bool, Error> {
    let (indices, table) = (needed(call, "indices")?, needed(call, "lut")?);
    let shape = dense_shape(call)?;
    let (entries, count) = (table.data.len(), elements(&shape));
    if !(2..=256).contains(&entries) || !entries.is_power_of_two() {
        return Err(call.unsupported(&format!("table of {entries} entries")));
    }
    let bits = entries.ilog2() as usize;
    let Data::U8(bytes) = &indices.data else { return Err(call.unsupported("indices that are not bytes")) };
    let needed_bytes = (count * bits).div_ceil(8);
    if bytes.len() != needed_bytes {
        return Err(wrong_count(call, "indices", bytes.len(), needed_bytes));
    }
    // Every field has as many bits as the table's length needs, so no index lies outside it.
    let positions = unpack(bytes, bits, count);
    let data = pick(&table.data, positions.into_iter().map(usize::from));
    call.give_constant(Tensor { shape, data })
}

/// Indices with their own type into one table per block; entries may be vectors along one axis.
fn table(call: &mut Call) -> Result<bool, Error> {
    let (indices, table) = (needed(call, "indices")?, needed(call, "lut")?);
    let rank = indices.shape.len();
    if table.shape.len() != rank + 2 {
        return Err(call.unsupported(&format!("table of rank {} for indices of rank {rank}", table.shape.len())));
    }
    let (blocks, entries, width) = (&table.shape[..rank], table.shape[rank], table.shape[rank + 1]);
    blocks_fit(call, &indices.shape, blocks)?;
    let axis = match (width, rank) {
        (0, _) | (_, 0) => return Err(call.unsupported(&format!("vectors of {width} for rank {rank}"))),
        (1, _) => rank - 1,
        _ => call.axis("vector_axis", call.integer("vector_axis", i64::MAX)?, rank)?,
    };
    let values = indices.data.to_i32();
    if let Some(&found) = values.iter().find(|&&v| v < 0 || v as usize >= entries) {
        return Err(Error::Index { op: call.place(), found: found.into(), extent: entries });
    }
    let mut shape = indices.shape.clone();
    shape[axis] = shape[axis].saturating_mul(width);
    bounded(call, &shape)?;
    call.builder.blobs.budget.spend(&shape)?;
    let inner = elements(&indices.shape[axis + 1..]);
    let positions = (0..elements(&shape)).map(|i| {
        // Vectors replace their index along the axis: position there is index times width plus component.
        let (outer, along, rest) = (i / (inner * shape[axis]), i / inner % shape[axis], i % inner);
        let index = (outer * indices.shape[axis] + along / width) * inner + rest;
        let block = block_of(index, &indices.shape, blocks);
        (block * entries + values[index] as usize) * width + along % width
    });
    let data = pick(&table.data, positions);
    call.give_constant(Tensor { shape, data })
}

/// Elements where the mask is set, zeros elsewhere. The mask is packed in bytes where a `shape` is given, else it has one
/// element per element of the result.
fn sparse(call: &mut Call) -> Result<bool, Error> {
    let (values, mask) = (needed(call, "nonzero_data")?, needed(call, "mask")?);
    let (shape, mask) = if call.arguments.contains_key("shape") {
        let shape = dense_shape(call)?;
        let Data::U8(bytes) = &mask.data else { return Err(call.unsupported("a mask that is not bytes")) };
        let expected = elements(&shape).div_ceil(8);
        if bytes.len() != expected {
            return Err(wrong_count(call, "mask", bytes.len(), expected));
        }
        (shape.clone(), unpack(bytes, 1, elements(&shape)))
    } else {
        (mask.shape.clone(), mask.data.to_i32().into_iter().map(|v| (v != 0).into()).collect())
    };
    let set = mask.iter().filter(|&&bit| bit != 0).count();
    if set != values.data.len() {
        return Err(wrong_count(call, "nonzero_data", values.data.len(), set));
    }
    let mut next = values.data.to_f32().into_iter();
    let dense: Vec<f32> = mask.iter().map(|&bit| if bit == 0 { 0.0 } else { next.next().unwrap_or(0.0) }).collect();
    let dtype: DType = values.data.dtype();
    call.give_constant(Tensor { shape, data: Data::from_f32(dtype, &dense) })
}
