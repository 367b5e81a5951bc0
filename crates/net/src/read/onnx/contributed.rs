//! Quantized operators of ONNX Runtime's own domain `com.microsoft`, as its quantizer writes them: each operand has a scale
//! and a zero point, and the result is requantized.

use super::elementwise::matmul;
use super::node::Node;
use super::quantized::{dequantize, quantize};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, PoolKind, ReduceKind, Unary};

/// Domain of these operators.
pub const DOMAIN: &str = "com.microsoft";

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "QLinearAdd" => binary(n, Binary::Add),
        "QLinearMul" => binary(n, Binary::Mul),
        "QLinearSigmoid" => {
            let x = operand(n, 0)?;
            let id = n.build().unary(Unary::Sigmoid, x)?;
            result(n, id, 3)
        }
        "QLinearLeakyRelu" => {
            let x = operand(n, 0)?;
            let alpha = n.float("alpha", 0.01);
            let id = n.build().unary(Unary::LeakyRelu { alpha }, x)?;
            result(n, id, 3)
        }
        "QLinearSoftmax" => softmax(n),
        "QLinearGlobalAveragePool" => {
            channels_first(n)?;
            let x = operand(n, 0)?;
            let axes: Vec<usize> = (2..n.shape(x).len()).collect();
            let id = n.build().reduce(ReduceKind::Mean, x, &axes, true)?;
            result(n, id, 3)
        }
        "QLinearAveragePool" => {
            channels_first(n)?;
            let x = operand(n, 0)?;
            let exclude_padding = !n.flag("count_include_pad", false);
            let id = super::spatial::pooled(n, PoolKind::Average { exclude_padding }, x)?;
            result(n, id, 3)
        }
        "QLinearReduceMean" => {
            let x = operand(n, 0)?;
            let rank = n.shape(x).len();
            let axes = match n.ints("axes") {
                Some(axes) => n.axes(&axes, rank)?,
                None => (0..rank).collect(),
            };
            let keep_dims = n.flag("keepdims", true);
            let id = n.build().reduce(ReduceKind::Mean, x, &axes, keep_dims)?;
            result(n, id, 3)
        }
        "QLinearConcat" => concat(n),
        "QLinearWhere" => {
            let condition = n.need(0)?;
            let (x, y) = (operand(n, 1)?, operand(n, 4)?);
            let id = n.build().select(condition, x, y)?;
            result(n, id, 7)
        }
        "QGemm" => gemm(n),
        "MatMulIntegerToFloat" => {
            let (a, a_scale, a_zero) = (n.need(0)?, n.need(2)?, n.input(4));
            let (b, b_scale, b_zero) = (n.need(1)?, n.need(3)?, n.input(5));
            let a = dequantize(n, a, a_scale, a_zero)?;
            let b = columns(n, b, b_scale, b_zero)?;
            let product = matmul(n, a, b)?;
            with_bias(n, product, 6)
        }
        "DynamicQuantizeMatMul" => {
            let (a, b, b_scale, b_zero) = (n.need(0)?, n.need(1)?, n.need(2)?, n.input(3));
            let (a, a_scale, a_zero) = super::quantized::range_of(n, a)?;
            let a = dequantize(n, a, a_scale, Some(a_zero))?;
            let b = columns(n, b, b_scale, b_zero)?;
            let product = matmul(n, a, b)?;
            with_bias(n, product, 4)
        }
        super::recurrent::QUANTIZED => super::recurrent::layer(n),
        "QuantizeLinear" | "DequantizeLinear" => super::quantized::translate(n),
        // As the operators of ai.onnx.
        "GridSample" => super::spatial::translate(n),
        "GatherND" => super::index::translate(n),
        "Pad" | "Trilu" => super::shape::translate(n),
        "Range" => super::made::translate(n),
        _ => Ok(of_other_forms(n)? || super::fused::translate(n)?),
    }
}

/// Operators that differ from those of ai.onnx in form alone, and others that ONNX Runtime has for single models.
fn of_other_forms(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "CropAndResize" => super::rois::crop(n),
        "Inverse" => super::regions::inverse(n),
        "MoE" | "QMoE" => super::experts::mixture(n),
        "ExpandDims" => {
            let x = n.need(0)?;
            let mut shape = n.shape(x);
            let axis = n.integers(1, "axis")?.and_then(|v| v.first().copied()).ok_or_else(|| n.missing("axis"))?;
            let axis = n.axis(axis, shape.len() + 1)?;
            shape.insert(axis, 1);
            let id = n.build().reshape(x, shape)?;
            n.done(id)
        }
        "CDist" => {
            let (a, b) = (n.need(0)?, n.need(1)?);
            let (&[rows, width], &[columns, _]) = (n.shape(a).as_slice(), n.shape(b).as_slice()) else {
                return Err(n.unsupported("operands not of rank 2"));
            };
            let (a, b) = (n.build().reshape(a, [rows, 1, width])?, n.build().reshape(b, [1, columns, width])?);
            let apart = n.build().binary(Binary::Sub, a, b)?;
            let kind = match n.text("metric").as_deref() {
                None | Some("sqeuclidean") => ReduceKind::SumSquare,
                Some("euclidean") => ReduceKind::L2,
                Some(other) => return Err(n.unsupported(format!("metric `{other}`"))),
            };
            let id = n.build().reduce(kind, apart, &[2], false)?;
            n.done(id)
        }
        _ => Ok(super::channels::translate(n)? || super::tables::translate(n)?),
    }
}

/// The operand at this position, dequantized by the scale and zero point that follow it.
fn operand(n: &mut Node, at: usize) -> Result<ValueId, Error> {
    let (x, scale, zero) = (n.need(at)?, n.need(at + 1)?, n.input(at + 2));
    dequantize(n, x, scale, zero)
}

/// Quantizes a result by the scale at this position and the zero point behind it, and binds the output to it. Without a zero point it has
/// the type of the first quantized operand.
fn result(n: &mut Node, x: ValueId, at: usize) -> Result<bool, Error> {
    let (scale, zero) = (n.need(at)?, n.input(at + 1));
    let first = n.inputs.iter().flatten().map(|&id| n.dtype(id)).find(|d| matches!(d, DType::U8 | DType::I8));
    let dtype = zero.map(|zero| n.dtype(zero)).or(first).unwrap_or(DType::U8);
    let id = quantize(n, x, scale, zero, dtype)?;
    n.done(id)
}

fn binary(n: &mut Node, f: Binary) -> Result<bool, Error> {
    let (x, y) = (operand(n, 0)?, operand(n, 3)?);
    let id = n.build().binary(f, x, y)?;
    result(n, id, 6)
}

fn channels_first(n: &Node) -> Result<(), Error> {
    match n.flag("channels_last", false) {
        true => Err(n.unsupported("channels as the last axis (`channels_last`)")),
        false => Ok(()),
    }
}

/// Over one axis; before opset 13 over all axes from that one on.
fn softmax(n: &mut Node) -> Result<bool, Error> {
    let x = operand(n, 0)?;
    let shape = n.shape(x);
    let old = n.int("opset", n.opset()) < 13;
    let axis = n.axis(n.int("axis", -1), shape.len())?;
    let id = if old && axis + 1 < shape.len() {
        let flat = [elements(&shape[..axis]), elements(&shape[axis..])];
        let rows = n.build().reshape(x, flat)?;
        let rows = n.build().softmax(rows, 1)?;
        n.build().reshape(rows, shape)?
    } else {
        n.build().softmax(x, axis)?
    };
    result(n, id, 3)
}

/// Concatenation whose first operands are scale and zero point of the result.
fn concat(n: &mut Node) -> Result<bool, Error> {
    let count = n.inputs.len().saturating_sub(2) / 3;
    let parts = (0..count).map(|i| operand(n, 2 + 3 * i)).collect::<Result<Vec<_>, Error>>()?;
    let Some(&first) = parts.first() else { return Err(n.missing("input 2")) };
    let rank = n.shape(first).len();
    let axis = n.axis(n.int("axis", 0), rank)?;
    let id = n.build().concat(&parts, axis)?;
    result(n, id, 0)
}

/// A matrix dequantized by scales and zero points per column.
pub fn columns(n: &mut Node, x: ValueId, scale: ValueId, zero: Option<ValueId>) -> Result<ValueId, Error> {
    let float = n.dtype(scale);
    let mut steps = n.build().cast(x, float)?;
    let wide = |n: &mut Node, v: ValueId| match elements(&n.shape(v)) {
        1 => n.build().reshape(v, []),
        count if n.shape(v).len() == 1 => n.build().reshape(v, [1, count]),
        _ => Ok(v),
    };
    if let Some(zero) = zero {
        let zero = n.build().cast(zero, float)?;
        let zero = wide(n, zero)?;
        steps = n.build().binary(Binary::Sub, steps, zero)?;
    }
    let scale = wide(n, scale)?;
    n.build().binary(Binary::Mul, steps, scale)
}

fn with_bias(n: &mut Node, mut product: ValueId, at: usize) -> Result<bool, Error> {
    if let Some(bias) = n.input(at) {
        product = n.build().binary(Binary::Add, product, bias)?;
    }
    n.done(product)
}

/// `alpha * A * B + C`, where `C` contains integers of scale `alpha * a_scale * b_scale`; the result is a float if it has no scale.
fn gemm(n: &mut Node) -> Result<bool, Error> {
    let a = operand(n, 0)?;
    let (b, a_scale, b_scale, b_zero) = (n.need(3)?, n.need(1)?, n.need(4)?, n.input(5));
    let (transpose_x, transpose_y) = (n.flag("transA", false), n.flag("transB", false));
    // Scales of the product's columns: rows of a transposed operand.
    let b = match transpose_y {
        false => columns(n, b, b_scale, b_zero)?,
        true => {
            let b = n.build().transpose(b, &[1, 0])?;
            columns(n, b, b_scale, b_zero)?
        }
    };
    let mut id = n.build().op("product", OpKind::MatMul { transpose_x, transpose_y: false }, &[a, b])?;
    let alpha = n.float("alpha", 1.0);
    if alpha != 1.0 {
        id = n.build().with(Binary::Mul, id, alpha)?;
    }
    if let Some(c) = n.input(6) {
        let float = n.dtype(a_scale);
        let c = n.build().cast(c, float)?;
        let scale = n.build().binary(Binary::Mul, a_scale, b_scale)?;
        let scale = n.build().with(Binary::Mul, scale, alpha)?;
        let c = n.build().binary(Binary::Mul, c, scale)?;
        id = n.build().binary(Binary::Add, id, c)?;
    }
    if n.input(7).is_some() { result(n, id, 7) } else { n.done(id) }
}
