//! MIL elementwise operations, linear algebra and attention.

use super::call::Call;
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, TensorType, ValueId};
use crate::ops::unary::Row;
use crate::ops::{Binary, GeluMode, OpKind, ReduceKind, Unary};

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    if let Some(binary) = binary(&call.op.ty) {
        let (x, y) = (call.operand("x")?, call.operand("y")?);
        return call.give(OpKind::Binary(binary), &[x, y]);
    }
    if let Some(unary) = unary(call)? {
        let x = call.operand("x")?;
        return call.give(OpKind::Unary(unary), &[x]);
    }
    match call.op.ty.as_str() {
        "linear" => {
            let mut inputs = vec![call.operand("x")?, call.operand("weight")?];
            inputs.extend(call.optional("bias")?);
            call.give(OpKind::Linear, &inputs)
        }
        "matmul" => {
            let (x, y) = (call.operand("x")?, call.operand("y")?);
            let transpose_x = call.flag("transpose_x", false)? && call.shape(x).len() > 1;
            let transpose_y = call.flag("transpose_y", false)? && call.shape(y).len() > 1;
            product(call, x, y, OpKind::MatMul { transpose_x, transpose_y })
        }
        "cast" => cast(call),
        "select" => {
            let inputs = [call.operand("cond")?, call.operand("a")?, call.operand("b")?];
            call.give(OpKind::Select, &inputs)
        }
        "logical_not" => {
            let x = call.operand("x")?;
            let no = call.add_constant("false", Tensor { shape: vec![], data: Data::Bool(vec![false]) });
            call.give(OpKind::Binary(Binary::Equal), &[x, no])
        }
        "prelu" => prelu(call),
        "clamped_relu" => {
            let x = call.operand("x")?;
            let (alpha, max) = (call.float("alpha", 0.0)?, call.float("beta", f32::INFINITY)?);
            let leaky = call.emit("leaky", OpKind::Unary(Unary::LeakyRelu { alpha }), &[x])?;
            call.give(OpKind::Unary(Unary::Clip { min: f32::NEG_INFINITY, max }), &[leaky])
        }
        "linear_activation" => {
            let x = call.operand("x")?;
            let (alpha, beta) = (call.float("alpha", 1.0)?, call.float("beta", 0.0)?);
            let alpha = call.scalar("alpha", alpha, x);
            let beta = call.scalar("beta", beta, x);
            let scaled = call.emit("scaled", OpKind::Binary(Binary::Mul), &[x, alpha])?;
            call.give(OpKind::Binary(Binary::Add), &[scaled, beta])
        }
        "softplus_parametric" => {
            let x = call.operand("x")?;
            let (alpha, beta) = (channels(call, "alpha", x)?, channels(call, "beta", x)?);
            let scaled = call.emit("scaled", OpKind::Binary(Binary::Mul), &[x, beta])?;
            let soft = call.emit("softplus", OpKind::Unary(Unary::Softplus), &[scaled])?;
            call.give(OpKind::Binary(Binary::Mul), &[soft, alpha])
        }
        "thresholded_relu" => {
            let x = call.operand("x")?;
            let alpha = call.float("alpha", 1.0)?;
            let (alpha, zero) = (call.scalar("alpha", alpha, x), call.scalar("zero", 0.0, x));
            let passes = call.emit("passes", OpKind::Binary(Binary::GreaterEqual), &[x, alpha])?;
            call.give(OpKind::Select, &[passes, x, zero])
        }
        "l2_norm" => l2_norm(call),
        "scaled_dot_product_attention" => attention(call),
        "einsum" => {
            let values = call.operands("values")?;
            let equation = call.text("equation")?.ok_or_else(|| call.missing("equation"))?;
            let sum = call.build().einsum(&equation, &values)?;
            call.done(0, sum)
        }
        "local_response_norm" => {
            let x = call.operand("x")?;
            let size = call.size("size", call.integer("size", 1)?)?;
            let (alpha, beta, k) = (call.float("alpha", 1e-4)?, call.float("beta", 0.75)?, call.float("k", 1.0)?);
            let normed = call.build().local_response_norm(x, size, alpha, beta, k)?;
            call.done(0, normed)
        }
        // A buffer is a tensor with a declared layout, which does not affect its meaning.
        "tensor_buffer_to_tensor" | "tensor_to_tensor_buffer" => {
            let x = call.operand("input")?;
            call.give(OpKind::Unary(Unary::Identity), &[x])
        }
        _ => Ok(false),
    }
}

/// Returns true for a function of the elements of two operands.
pub fn of_two(name: &str) -> bool {
    binary(name).is_some()
}

/// Returns true for a function of single elements of one operand, whose parameters are constant.
pub fn of_one(call: &Call) -> Result<bool, Error> {
    let composed = ["logical_not", "clamped_relu", "linear_activation", "thresholded_relu"];
    Ok(composed.contains(&call.op.ty.as_str()) || unary(call)?.is_some())
}

fn binary(name: &str) -> Option<Binary> {
    Some(match name {
        "real_div" => Binary::Div,
        "maximum" => Binary::Max,
        "minimum" => Binary::Min,
        // For truth values, minimum is "and", maximum is "or".
        "logical_and" => Binary::Min,
        "logical_or" => Binary::Max,
        "logical_xor" => Binary::NotEqual,
        "add" => Binary::Add,
        "sub" => Binary::Sub,
        "mul" => Binary::Mul,
        "pow" => Binary::Pow,
        "floor_div" => Binary::FloorDiv,
        "mod" => Binary::Mod,
        "equal" => Binary::Equal,
        "not_equal" => Binary::NotEqual,
        "less" => Binary::Less,
        "less_equal" => Binary::LessEqual,
        "greater" => Binary::Greater,
        "greater_equal" => Binary::GreaterEqual,
        _ => return None,
    })
}

fn unary(call: &Call) -> Result<Option<Unary>, Error> {
    let op = call.op.ty.as_str();
    if op == "gelu" {
        return Ok(Some(Unary::Gelu(match call.text("mode")?.as_deref() {
            None | Some("EXACT") => GeluMode::Exact,
            Some("TANH_APPROXIMATION") => GeluMode::Tanh,
            Some("SIGMOID_APPROXIMATION") => GeluMode::Sigmoid,
            Some(mode) => return Err(call.unsupported(&format!("mode `{mode}`"))),
        })));
    }
    Row::of_mil(op).map(|row| row.make(|param| call.float(param.mil, param.mil_default))).transpose()
}

fn cast(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let name = call.text("dtype")?.ok_or_else(|| call.missing("dtype"))?;
    let dtype = dtype(&name).ok_or_else(|| call.unsupported(&format!("element type `{name}`")))?;
    let declared = TensorType { dtype, shape: call.shape(x) };
    call.give_as(OpKind::Cast, &[x], Some(declared))
}

/// Element type by its MIL name.
pub fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "fp16" | "float16" => DType::F16,
        "fp32" | "float32" | "fp64" | "float64" => DType::F32,
        "int8" => DType::I8,
        "uint8" => DType::U8,
        "int16" => DType::I16,
        "uint16" => DType::U16,
        "int32" | "int64" => DType::I32,
        "bool" => DType::Bool,
        _ => return None,
    })
}

/// A constant with one element per channel, reshaped to broadcast along the channels of `x`.
fn channels(call: &mut Call, name: &str, x: ValueId) -> Result<ValueId, Error> {
    let tensor = call.tensor(name)?.ok_or_else(|| call.missing(name))?;
    let rank = call.shape(x).len();
    if rank < 2 {
        return Err(call.unsupported("the operand has no channel axis"));
    }
    let mut shape = vec![1; rank - 1];
    shape[0] = tensor.data.len();
    let data = tensor.cast(call.ty(x).dtype).data;
    Ok(call.add_constant(name, Tensor { shape, data }))
}

/// [`crate::build::Builder::prelu`], or leaky ReLU if all channels share one alpha.
fn prelu(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let alphas = call.tensor("alpha")?.ok_or_else(|| call.missing("alpha"))?.data.to_f32();
    if let Some((&alpha, rest)) = alphas.split_first()
        && rest.iter().all(|&a| a == alpha)
    {
        return call.give(OpKind::Unary(Unary::LeakyRelu { alpha }), &[x]);
    }
    let alpha = channels(call, "alpha", x)?;
    let result = call.build().prelu(x, alpha)?;
    call.done(0, result)
}

/// `x / sqrt(sum(x²) + epsilon)` over the last three axes.
fn l2_norm(call: &mut Call) -> Result<bool, Error> {
    let x = call.operand("x")?;
    let epsilon = call.float("epsilon", 1e-6)?;
    let rank = call.shape(x).len();
    if rank < 3 {
        return Err(call.unsupported("the operand has fewer than three axes"));
    }
    let axes = (rank - 3..rank).collect();
    let sum = OpKind::Reduce { kind: ReduceKind::SumSquare, axes, keep_dims: true };
    let sum = call.emit("sum", sum, &[x])?;
    let scale = call.emit("scale", OpKind::Unary(Unary::Rsqrt { epsilon }), &[sum])?;
    call.give(OpKind::Binary(Binary::Mul), &[x, scale])
}

/// `softmax(q kᵀ / sqrt(E) + mask) v`.
fn attention(call: &mut Call) -> Result<bool, Error> {
    let operands = [call.operand("query")?, call.operand("key")?, call.operand("value")?];
    let mask = call.optional("attn_mask")?;
    let width = call.shape(operands[0]).last().copied().unwrap_or(1);
    let result = call.build().attention(operands, mask, 1.0 / (width as f32).sqrt())?;
    call.done(0, result)
}

/// A product of matrices; a vector is a row before and a column behind.
fn product(call: &mut Call, x: ValueId, y: ValueId, kind: OpKind) -> Result<bool, Error> {
    let (row, column) = (call.shape(x), call.shape(y));
    let x = if let [n] = row[..] { call.build().reshape(x, [1, n])? } else { x };
    let y = if let [n] = column[..] { call.build().reshape(y, [n, 1])? } else { y };
    if row.len() > 1 && column.len() > 1 {
        return call.give(kind, &[x, y]);
    }
    let made = call.emit("product", kind, &[x, y])?;
    let mut shape = call.shape(made);
    if column.len() == 1 {
        shape.pop();
    }
    if row.len() == 1 {
        shape.remove(shape.len() - 1 - usize::from(column.len() > 1));
    }
    let id = call.build().reshape(made, shape)?;
    call.done(0, id)
}
