//! MIL reductions and normalizations.

use super::call::Call;
use crate::error::Error;
use crate::graph::{Data, Tensor, ValueId, elements};
use crate::ops::{OpKind, ReduceKind};

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    if let Some(kind) = ReduceKind::ALL.into_iter().find(|k| mil_name(*k) == call.op.ty) {
        let x = call.operand("x")?;
        let rank = call.shape(x).len();
        let axes = call.axes("axes", rank)?.unwrap_or_else(|| (0..rank).collect());
        let keep_dims = call.flag("keep_dims", false)?;
        return call.give(OpKind::Reduce { kind, axes, keep_dims }, &[x]);
    }
    match call.op.ty.as_str() {
        "reduce_argmax" | "reduce_argmin" => {
            let x = call.operand("x")?;
            let axis = call.axis("axis", call.integer("axis", -1)?, call.shape(x).len())?;
            let keep_dims = call.flag("keep_dims", false)?;
            let greatest = call.op.ty == "reduce_argmax";
            let found = call.emit("found", OpKind::ArgReduce { greatest, last: false, axis, keep_dims }, &[x])?;
            call.typed(0, found, "output_dtype")
        }
        "softmax" => {
            let x = call.operand("x")?;
            let axis = call.axis("axis", call.integer("axis", -1)?, call.shape(x).len())?;
            call.give(OpKind::Softmax { axis }, &[x])
        }
        "batch_norm" => {
            let mut inputs = vec![call.operand("x")?, call.operand("mean")?, call.operand("variance")?];
            let shape = call.shape(inputs[1]);
            inputs.extend(scale_and_shift(call, &shape)?);
            let epsilon = call.float("epsilon", 1e-5)?;
            call.give(OpKind::BatchNorm { epsilon }, &inputs)
        }
        "instance_norm" => {
            let x = call.operand("x")?;
            let shape = call.shape(x).get(1..2).unwrap_or_default().to_vec();
            let mut inputs = vec![x];
            inputs.extend(scale_and_shift(call, &shape)?);
            let epsilon = call.float("epsilon", 1e-5)?;
            call.give(OpKind::InstanceNorm { epsilon }, &inputs)
        }
        "layer_norm" => {
            let x = call.operand("x")?;
            let shape = call.shape(x);
            let axes = call.axes("axes", shape.len())?.unwrap_or_else(|| (0..shape.len()).collect());
            let own: Vec<usize> = axes.iter().map(|&a| shape[a]).collect();
            let mut inputs = vec![x];
            inputs.extend(scale_and_shift(call, &own)?);
            let epsilon = call.float("epsilon", 1e-5)?;
            call.give(OpKind::LayerNorm { axes, epsilon }, &inputs)
        }
        _ => Ok(false),
    }
}

fn mil_name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::L1 => "reduce_l1_norm",
        ReduceKind::L2 => "reduce_l2_norm",
        other => other.name(),
    }
}

/// The operands gamma and beta if present; ones replace a missing gamma before a beta.
fn scale_and_shift(call: &mut Call, shape: &[usize]) -> Result<Vec<ValueId>, Error> {
    let (gamma, beta) = (call.optional("gamma")?, call.optional("beta")?);
    Ok(match (gamma, beta) {
        (None, None) => vec![],
        (Some(gamma), None) => vec![gamma],
        (Some(gamma), Some(beta)) => vec![gamma, beta],
        (None, Some(beta)) => {
            let dtype = call.ty(beta).dtype;
            let ones = Tensor { shape: shape.to_vec(), data: Data::from_f32(dtype, &vec![1.0; elements(shape)]) };
            vec![call.add_constant("gamma", ones), beta]
        }
    })
}
