//! Quantization and integer products, computed in floats, which represent integers exactly up to 2^24.

use super::elementwise::matmul;
use super::node::Node;
use super::spatial::conv;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, ReduceKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "QuantizeLinear" => {
            let (x, scale, zero) = (n.need(0)?, n.need(1)?, n.input(2));
            let named = n.attribute("output_dtype").map(|a| a.i).filter(|&v| v != 0);
            let dtype = match (zero, named) {
                (Some(zero), _) => Some(n.dtype(zero)),
                (None, None) => Some(DType::U8),
                (None, Some(v)) => {
                    i32::try_from(v).ok().and_then(super::element).filter(|e| e.bits() >= 8).and_then(|e| e.dtype())
                }
            };
            let dtype = dtype.ok_or_else(|| n.unsupported("its output type"))?;
            let id = quantize(n, x, scale, zero, dtype)?;
            n.done(id)
        }
        "DequantizeLinear" => {
            let (x, scale, zero) = (n.need(0)?, n.need(1)?, n.input(2));
            let id = dequantize(n, x, scale, zero)?;
            n.done(id)
        }
        "DynamicQuantizeLinear" => dynamic(n),
        "MatMulInteger" => {
            let (a, b) = (centred(n, 0, 2, 0)?, centred(n, 1, 3, 1)?);
            let product = matmul(n, a, b)?;
            let id = n.build().cast(product, DType::I32)?;
            n.done(id)
        }
        "ConvInteger" => {
            let (x, w) = (centred(n, 0, 2, 0)?, centred(n, 1, 3, 0)?);
            let sum = conv(n, &[x, w])?;
            let id = n.build().cast(sum, DType::I32)?;
            n.done(id)
        }
        "QLinearMatMul" => {
            let (a, a_scale, a_zero) = (n.need(0)?, n.need(1)?, n.input(2));
            let (b, b_scale, b_zero) = (n.need(3)?, n.need(4)?, n.input(5));
            let (a, b) = (dequantize(n, a, a_scale, a_zero)?, dequantize(n, b, b_scale, b_zero)?);
            let product = matmul(n, a, b)?;
            let (scale, zero) = (n.need(6)?, n.need(7)?);
            let dtype = n.dtype(zero);
            let id = quantize(n, product, scale, Some(zero), dtype)?;
            n.done(id)
        }
        "QLinearConv" => {
            let (x, x_scale, x_zero) = (n.need(0)?, n.need(1)?, n.input(2));
            let (w, w_scale, w_zero) = (n.need(3)?, n.need(4)?, n.input(5));
            let x = dequantize(n, x, x_scale, x_zero)?;
            let wide = |n: &mut Node, v: ValueId| {
                let count = elements(&n.shape(v));
                let rank = n.shape(w).len();
                let mut shape = vec![1; rank];
                shape[0] = count;
                n.build().reshape(v, shape)
            };
            let w_scale = wide(n, w_scale)?;
            let w_zero = w_zero.map(|z| wide(n, z)).transpose()?;
            let w = dequantize(n, w, w_scale, w_zero)?;
            let mut sum = conv(n, &[x, w])?;
            if let Some(bias) = n.input(8) {
                let rank = n.shape(sum).len();
                let mut shape = vec![1; rank - 1];
                shape[0] = elements(&n.shape(bias));
                let bias = n.build().cast(bias, DType::F32)?;
                let bias = n.build().reshape(bias, shape.clone())?;
                let per_channel = elements(&n.shape(w_scale));
                let w_scale = n.build().reshape(w_scale, [vec![per_channel], vec![1; rank - 2]].concat())?;
                let scale = n.build().binary(Binary::Mul, w_scale, x_scale)?;
                let bias = n.build().binary(Binary::Mul, bias, scale)?;
                sum = n.build().binary(Binary::Add, sum, bias)?;
            }
            let (scale, zero) = (n.need(6)?, n.need(7)?);
            let dtype = n.dtype(zero);
            let id = quantize(n, sum, scale, Some(zero), dtype)?;
            n.done(id)
        }
        _ => Ok(false),
    }
}

/// A scale or zero point, reshaped to broadcast along the axis or repeated by blocks of it.
fn broadcast_factor(n: &mut Node, factor: ValueId, x: ValueId) -> Result<ValueId, Error> {
    let (own, shape) = (n.shape(factor), n.shape(x));
    let block = n.size("block_size", n.int("block_size", 0))?;
    if elements(&own) == 1 {
        return n.build().reshape(factor, []);
    }
    if own.len() == shape.len() {
        if block == 0 {
            return Ok(factor);
        }
        let axis = n.axis(n.int("axis", 1), shape.len())?;
        let indices: Vec<i32> = (0..shape[axis]).map(|i| (i / block) as i32).collect();
        let indices = n.build().integers([indices.len()], indices);
        return n.build().gather(factor, indices, axis);
    }
    let axis = n.axis(n.int("axis", 1), shape.len())?;
    let mut wide = vec![1; shape.len()];
    wide[axis] = elements(&own);
    n.build().reshape(factor, wide)
}

/// `clip(round(x / scale) + zero)`, of an 8-bit or 16-bit integer type.
pub fn quantize(
    n: &mut Node,
    x: ValueId,
    scale: ValueId,
    zero: Option<ValueId>,
    dtype: DType,
) -> Result<ValueId, Error> {
    let (min, max) = dtype.narrow_range().ok_or_else(|| n.unsupported(format!("output type {dtype}")))?;
    let (min, max) = (min as f32, max as f32);
    let x = n.build().cast(x, DType::F32)?;
    let scale = n.build().cast(scale, DType::F32)?;
    let scale = broadcast_factor(n, scale, x)?;
    let scaled = n.build().binary(Binary::Div, x, scale)?;
    let mut steps = n.build().unary(Unary::Round, scaled)?;
    if let Some(zero) = zero {
        let zero = n.build().cast(zero, DType::F32)?;
        let zero = broadcast_factor(n, zero, x)?;
        steps = n.build().binary(Binary::Add, steps, zero)?;
    }
    let held = n.build().unary(Unary::Clip { min, max }, steps)?;
    n.build().cast(held, dtype)
}

/// `(x - zero) * scale`.
pub fn dequantize(n: &mut Node, x: ValueId, scale: ValueId, zero: Option<ValueId>) -> Result<ValueId, Error> {
    let float = n.dtype(scale);
    let mut steps = n.build().cast(x, float)?;
    if let Some(zero) = zero {
        let zero = n.build().cast(zero, float)?;
        let zero = broadcast_factor(n, zero, x)?;
        steps = n.build().binary(Binary::Sub, steps, zero)?;
    }
    let scale = broadcast_factor(n, scale, x)?;
    n.build().binary(Binary::Mul, steps, scale)
}

/// An operand as a float with its zero point subtracted; a list of zero points is per row, or per column.
fn centred(n: &mut Node, index: usize, zero: usize, columns: usize) -> Result<ValueId, Error> {
    let x = n.need(index)?;
    let x = n.build().cast(x, DType::F32)?;
    let Some(zero) = n.input(zero) else { return Ok(x) };
    let mut zero = n.build().cast(zero, DType::F32)?;
    let (count, rank) = (elements(&n.shape(zero)), n.shape(x).len());
    if count > 1 && n.shape(zero).len() == 1 {
        let shape = if n.op() == "ConvInteger" {
            [vec![count], vec![1; rank - 1]].concat()
        } else if columns == 0 {
            vec![count, 1]
        } else {
            vec![1, count]
        };
        zero = n.build().reshape(zero, shape)?;
    } else if count == 1 {
        zero = n.build().reshape(zero, [])?;
    }
    n.build().binary(Binary::Sub, x, zero)
}

fn dynamic(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (id, scale, zero) = range_of(n, x)?;
    n.output(0, id);
    n.output(1, scale);
    n.output(2, zero);
    n.finish(3)
}

/// A value quantized to 8 bits, with scale and zero point from its own range extended to zero.
pub fn range_of(n: &mut Node, x: ValueId) -> Result<(ValueId, ValueId, ValueId), Error> {
    let axes: Vec<usize> = (0..n.shape(x).len()).collect();
    let (low, high) =
        (n.build().reduce(ReduceKind::Min, x, &axes, false)?, n.build().reduce(ReduceKind::Max, x, &axes, false)?);
    let low = n.build().with(Binary::Min, low, 0.0)?;
    let high = n.build().with(Binary::Max, high, 0.0)?;
    let span = n.build().binary(Binary::Sub, high, low)?;
    let scale = n.build().with(Binary::Div, span, 255.0)?;
    let steps = n.build().binary(Binary::Div, low, scale)?;
    let steps = n.build().unary(Unary::Neg, steps)?;
    let steps = n.build().unary(Unary::Clip { min: 0.0, max: 255.0 }, steps)?;
    let zero = n.build().unary(Unary::Round, steps)?;
    let zero = n.build().cast(zero, DType::U8)?;
    let id = quantize(n, x, scale, Some(zero), DType::U8)?;
    Ok((id, scale, zero))
}
