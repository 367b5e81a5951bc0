//! MIL quantization of values computed at run time. Constants keep their stored form.

use super::call::Call;
use super::compressed::along;
use crate::error::Error;
use crate::graph::{DType, Tensor, ValueId};
use crate::ops::{Binary, Unary};
use crate::stored::{Form, Stored};

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "quantize" => quantize(call),
        "dequantize" => dequantize(call),
        _ => Ok(false),
    }
}

/// A scale or zero point, reshaped to broadcast along the operand's axis.
fn factor(call: &mut Call, name: &str, shape: &[usize], dtype: DType) -> Result<Option<ValueId>, Error> {
    let Some(tensor) = call.tensor(name)? else { return Ok(None) };
    let tensor = tensor.cast(dtype);
    if tensor.data.len() == 1 {
        let data = tensor.data;
        return Ok(Some(call.add_constant(name, Tensor { shape: vec![], data })));
    }
    let axis = call.axis("axis", call.integer("axis", i64::MAX)?, shape.len())?;
    let blocks = along(&tensor, shape, axis);
    let blocks = blocks.ok_or_else(|| call.unsupported(&format!("{} entries of `{name}`", tensor.data.len())))?;
    Ok(Some(call.add_constant(name, blocks)))
}

/// `clamp(round(x / scale) + zero point)`.
fn quantize(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("input")?;
    let (shape, float) = (call.shape(x), call.ty(x).dtype);
    let name = call.text("output_dtype")?.ok_or_else(|| call.missing("output_dtype"))?;
    let (dtype, min, max) = match name.as_str() {
        "int8" => (DType::I8, -128.0, 127.0),
        "uint8" => (DType::U8, 0.0, 255.0),
        other => return Err(call.unsupported(&format!("output type `{other}`"))),
    };
    let scale = factor(call, "scale", &shape, float)?.ok_or_else(|| call.missing("scale"))?;
    let zero = factor(call, "zero_point", &shape, float)?;
    let build = call.build();
    let scaled = build.binary(Binary::Div, x, scale)?;
    let mut steps = build.unary(Unary::Round, scaled)?;
    if let Some(zero) = zero {
        steps = build.binary(Binary::Add, steps, zero)?;
    }
    let held = build.unary(Unary::Clip { min, max }, steps)?;
    let done = build.cast(held, dtype)?;
    call.done(0, done)
}

/// `scale * (x - zero point)`.
fn dequantize(call: &mut Call) -> Result<bool, Error> {
    let scale = call.tensor("scale")?.ok_or_else(|| call.missing("scale"))?;
    if let Ok(Some(data)) = call.tensor("input") {
        let axis = match data.shape.len() {
            0 => 0,
            rank => call.axis("axis", call.integer("axis", 0)?, rank)?,
        };
        let misfit = |call: &Call| call.unsupported("scales or zero points that do not fit the axis");
        let offset = match call.tensor("zero_point")? {
            None => None,
            Some(zero) => Some(along(&zero, &data.shape, axis).ok_or_else(|| misfit(call))?),
        };
        let scale = along(&scale, &data.shape, axis).ok_or_else(|| misfit(call))?;
        let (shape, data, place) = (data.shape.clone(), (*data).clone(), call.place());
        let form = Form::Scaled { data, scale, offset, mask: None };
        return call.give_constant(Stored::tensor(form, shape).map_err(|e| e.in_op(&place))?);
    }
    let x = call.operand("input")?;
    let (shape, float) = (call.shape(x), scale.data.dtype());
    let zero = factor(call, "zero_point", &shape, float)?;
    let scale = factor(call, "scale", &shape, float)?.ok_or_else(|| call.missing("scale"))?;
    let build = call.build();
    let mut steps = build.cast(x, float)?;
    if let Some(zero) = zero {
        steps = build.binary(Binary::Sub, steps, zero)?;
    }
    let done = build.binary(Binary::Mul, steps, scale)?;
    call.done(0, done)
}
