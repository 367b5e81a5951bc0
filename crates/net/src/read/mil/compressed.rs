//! MIL operations for compressed weights, which are kept in their stored form; see [`crate::stored`].

use super::super::values_of;
use super::call::Call;
use super::{Constant, Item};
use crate::error::Error;
use crate::graph::{Data, Tensor, elements};
use crate::stored::{Element, Form, Stored};
use std::sync::Arc;

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "constexpr_affine_dequantize" => affine(call),
        "constexpr_blockwise_shift_scale" => {
            let form = blocks(call, "data", None)?;
            let shape = needed(call, "data")?.shape.clone();
            keep(call, form, shape)
        }
        "constexpr_sparse_blockwise_shift_scale" => sparse_blocks(call),
        // The form with a `shape` has indices packed in bytes, the later one has typed indices.
        "constexpr_lut_to_dense" if call.arguments.contains_key("shape") => packed_table(call),
        "constexpr_lut_to_dense" => table(call),
        "constexpr_lut_to_sparse" => sparse_table(call),
        "constexpr_sparse_to_dense" => sparse(call),
        "constexpr_cast" => {
            let source = needed(call, "source_val")?;
            let name = call.text("output_dtype")?.ok_or_else(|| call.missing("output_dtype"))?;
            let dtype = super::elementwise::dtype(&name);
            let dtype = dtype.ok_or_else(|| call.unsupported(&format!("element type `{name}`")))?;
            call.give_constant(source.cast(dtype))
        }
        _ => Ok(false),
    }
}

fn needed(call: &Call, name: &str) -> Result<Arc<Tensor>, Error> {
    call.tensor(name)?.ok_or_else(|| call.missing(name))
}

fn wrong_count(call: &Call, key: &str, found: usize, expected: usize) -> Error {
    let (key, found, n) = (format!("elements of {key}"), found as i64, expected as i64);
    Error::OutOfRange { place: call.place(), key, found, least: n, most: n }
}

fn keep(call: &mut Call, form: Form, shape: Vec<usize>) -> Result<bool, Error> {
    let place = call.place();
    let tensor = Stored::tensor(form, shape).map_err(|e| e.in_op(&place))?;
    call.give_constant(tensor)
}

/// `scale * (data - zero_point)`, with one scale and zero point for all elements or one per position of `axis`.
fn affine(call: &mut Call) -> Result<bool, Error> {
    let (data, scale) = (needed(call, "quantized_data")?, needed(call, "scale")?);
    let zero = needed(call, "zero_point")?;
    let axis = call.axis("axis", call.integer("axis", 0)?, data.shape.len())?;
    let blocks = |name: &str, tensor: &Tensor| {
        along(tensor, &data.shape, axis).ok_or_else(|| wrong_count(call, name, tensor.data.len(), data.shape[axis]))
    };
    let (scale, mut zero) = (blocks("scale", &scale)?, blocks("zero_point", &zero)?);
    let (wide, one) = (scale.shape.clone(), zero.data.len() == 1);
    if one && wide != zero.shape {
        let values = vec![zero.data.to_f32()[0]; elements(&wide)];
        zero = Tensor { shape: wide, data: Data::from_f32(zero.data.dtype(), &values) };
    }
    let scale = if zero.shape == scale.shape {
        scale
    } else {
        let values = vec![scale.data.to_f32()[0]; zero.data.len()];
        Tensor { shape: zero.shape.clone(), data: Data::from_f32(scale.data.dtype(), &values) }
    };
    let zero = Some(zero).filter(|z| z.data.to_f32().iter().any(|&v| v != 0.0));
    let (shape, data) = (data.shape.clone(), (*data).clone());
    keep(call, Form::Scaled { data, scale, offset: zero, mask: None }, shape)
}

/// One element, or one per position of an axis, as blocks of a tensor of this shape.
pub fn along(tensor: &Tensor, shape: &[usize], axis: usize) -> Option<Tensor> {
    let mut blocks = vec![1; shape.len()];
    match tensor.data.len() {
        1 => {}
        n if shape.get(axis) == Some(&n) => blocks[axis] = n,
        _ => return None,
    }
    Some(Tensor { shape: blocks, data: tensor.data.clone() })
}

/// `scale * (data - offset)` with one scale and offset per block.
fn blocks(call: &Call, data: &str, mask: Option<Tensor>) -> Result<Form, Error> {
    let (data, scale) = (needed(call, data)?, needed(call, "scale")?);
    let offset = call.tensor("offset")?.map(|o| (*o).clone());
    Ok(Form::Scaled { data: (*data).clone(), scale: (*scale).clone(), offset, mask })
}

/// As the blockwise form, with data only at positions set in a mask. Outputs are the mask and the scaled elements.
fn sparse_blocks(call: &mut Call) -> Result<bool, Error> {
    let mask = needed(call, "data_mask")?;
    let form = blocks(call, "nonzero_data", Some((*mask).clone()))?;
    both(call, &mask, form)
}

/// A mask and the elements at its set positions as the two outputs.
fn both(call: &mut Call, mask: &Arc<Tensor>, form: Form) -> Result<bool, Error> {
    let place = call.place();
    let count = values_of(mask).filter(|&v| v != 0).count();
    let tensor = Arc::new(Stored::tensor(form, vec![count]).map_err(|e| e.in_op(&place))?);
    for (index, tensor) in [mask.clone(), tensor].into_iter().enumerate() {
        let name = if index == 0 { call.first.clone() } else { call.output(1).to_string() };
        call.done_item(index, Item::Constant(Arc::new(Constant { name, tensor })));
    }
    Ok(true)
}

/// Indices of as many bits as the palette needs, packed in bytes from the lowest bit.
fn packed_table(call: &mut Call) -> Result<bool, Error> {
    let (indices, table) = (needed(call, "indices")?, needed(call, "lut")?);
    let shape = call.sizes("shape")?.ok_or_else(|| call.missing("shape"))?;
    let (entries, count) = (table.data.len(), elements(&shape));
    if !(2..=256).contains(&entries) || !entries.is_power_of_two() {
        return Err(call.unsupported(&format!("table of {entries} entries")));
    }
    let bits = entries.ilog2() as usize;
    let indices = packed(call, "indices", &indices, bits, &shape)?;
    call.budget().spend(&shape)?;
    debug_assert_eq!(indices.data.len(), count);
    let mut blocks = vec![1; shape.len()];
    blocks.extend([entries, 1]);
    let table = Tensor { shape: blocks, data: table.data.clone() };
    let axis = shape.len().saturating_sub(1);
    keep(call, Form::Palette { indices, table, axis, mask: None }, shape)
}

/// A list of bytes as packed bit fields of a tensor of this shape.
fn packed(call: &Call, name: &str, bytes: &Tensor, bits: usize, shape: &[usize]) -> Result<Tensor, Error> {
    if bytes.data.dtype() != crate::graph::DType::U8 {
        return Err(call.unsupported(&format!("`{name}` that are not bytes")));
    }
    let expected = elements(shape).saturating_mul(bits).div_ceil(8);
    if bytes.data.len() != expected {
        return Err(wrong_count(call, name, bytes.data.len(), expected));
    }
    let bytes = crate::stored::to_bytes(&bytes.data, Element::UInt(8)).into();
    Stored::tensor(Form::Plain { element: Element::UInt(bits as u32), bytes }, shape.to_vec())
}

/// Indices with their own type into one palette per block; entries may be vectors along one axis.
fn table(call: &mut Call) -> Result<bool, Error> {
    let (indices, table) = (needed(call, "indices")?, needed(call, "lut")?);
    let rank = indices.shape.len();
    if table.shape.len() != rank + 2 || rank == 0 {
        return Err(call.unsupported(&format!("table of rank {} for indices of rank {rank}", table.shape.len())));
    }
    let width = table.shape[rank + 1];
    let axis = match width {
        1 => rank - 1,
        _ => call.axis("vector_axis", call.integer("vector_axis", i64::MAX)?, rank)?,
    };
    let mut shape = indices.shape.clone();
    shape[axis] = shape[axis].saturating_mul(width);
    let (indices, table) = ((*indices).clone(), (*table).clone());
    keep(call, Form::Palette { indices, table, axis, mask: None }, shape)
}

/// As the dense form, with indices only at positions set in a mask. Outputs are the mask and the elements.
fn sparse_table(call: &mut Call) -> Result<bool, Error> {
    let (mask, indices) = (needed(call, "indices_mask")?, needed(call, "indices_nonzero_data")?);
    let (table, rank) = (needed(call, "lut")?, mask.shape.len());
    if table.shape.last() != Some(&1) {
        return Err(call.unsupported("table entries that are vectors, in a sparse tensor"));
    }
    let axis = rank.saturating_sub(1);
    let (indices, table) = ((*indices).clone(), (*table).clone());
    let form = Form::Palette { indices, table, axis, mask: Some((*mask).clone()) };
    both(call, &mask, form)
}

/// Elements at positions set in a mask, zeros elsewhere. The mask is packed in bytes if a `shape` is given, else it has one
/// element per element of the result.
fn sparse(call: &mut Call) -> Result<bool, Error> {
    let (values, mask) = (needed(call, "nonzero_data")?, needed(call, "mask")?);
    let mask = match call.sizes("shape")? {
        Some(shape) => packed(call, "mask", &mask, 1, &shape)?,
        None => (*mask).clone(),
    };
    let set = values_of(&mask).filter(|&v| v != 0).count();
    if set != values.data.len() {
        return Err(wrong_count(call, "nonzero_data", values.data.len(), set));
    }
    let shape = mask.shape.clone();
    keep(call, Form::Sparse { mask, values: (*values).clone() }, shape)
}
