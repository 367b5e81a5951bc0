//! Reductions, softmax, norms, attention.

use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if let Some(kind) = reduction(n.op()) {
        return reduce(n, kind);
    }
    match n.op() {
        "Softmax" | "LogSoftmax" | "Hardmax" => softmax(n),
        "BatchNormalization" => {
            let epsilon = n.float("epsilon", 1e-5);
            let (x, scale, bias, mean, variance) = (n.need(0)?, n.need(1)?, n.need(2)?, n.need(3)?, n.need(4)?);
            if n.flag("training_mode", false) {
                return batch_statistics(n, x, [scale, bias], [mean, variance], epsilon);
            }
            let id = n.build().op("normed", OpKind::BatchNorm { epsilon }, &[x, mean, variance, scale, bias])?;
            n.done(id)
        }
        "InstanceNormalization" => {
            let inputs = [n.need(0)?, n.need(1)?, n.need(2)?];
            let epsilon = n.float("epsilon", 1e-5);
            let id = n.build().op("normed", OpKind::InstanceNorm { epsilon }, &inputs)?;
            n.done(id)
        }
        "LayerNormalization" => layer_norm(n),
        // ONNX Runtime writes the second name into the standard's domain.
        "RMSNormalization" | "SimplifiedLayerNormalization" => rms_norm(n),
        "GroupNormalization" => group_norm(n),
        "MeanVarianceNormalization" => {
            let x = n.need(0)?;
            let rank = n.shape(x).len();
            let axes = n.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
            let axes = n.axes(&axes, rank)?;
            let id = n.build().standardize(x, &axes, 1e-9)?;
            n.done(id)
        }
        "LpNormalization" => {
            let x = n.need(0)?;
            let axis = n.axis(n.int("axis", -1), n.shape(x).len())?;
            let kind = match n.int("p", 2) {
                1 => ReduceKind::L1,
                2 => ReduceKind::L2,
                p => return Err(n.unsupported(format!("the norm of {p}"))),
            };
            let norm = n.build().reduce(kind, x, &[axis], true)?;
            // A vector of zeros stays zero.
            let zero = n.build().scalar(0.0, norm);
            let one = n.build().scalar(1.0, norm);
            let empty = n.build().binary(Binary::Equal, norm, zero)?;
            let norm = n.build().select(empty, one, norm)?;
            let id = n.build().binary(Binary::Div, x, norm)?;
            n.done(id)
        }
        "LRN" => {
            let x = n.need(0)?;
            let size = n.size("size", n.int("size", 1))?;
            let (alpha, beta, bias) = (n.float("alpha", 1e-4), n.float("beta", 0.75), n.float("bias", 1.0));
            let id = n.build().local_response_norm(x, size, alpha, beta, bias)?;
            n.done(id)
        }
        _ => Ok(false),
    }
}

/// Batch normalization with the batch's own mean and variance, and the update of the running ones.
fn batch_statistics(
    n: &mut Node,
    x: ValueId,
    [scale, bias]: [ValueId; 2],
    running: [ValueId; 2],
    epsilon: f32,
) -> Result<bool, Error> {
    let rank = n.shape(x).len();
    let axes: Vec<usize> = (0..rank).filter(|&a| a != 1).collect();
    let mean = n.build().reduce(ReduceKind::Mean, x, &axes, true)?;
    let centred = n.build().binary(Binary::Sub, x, mean)?;
    let square = n.build().unary(Unary::Square, centred)?;
    let variance = n.build().reduce(ReduceKind::Mean, square, &axes, false)?;
    let channels = n.shape(variance);
    let mean = n.build().reshape(mean, channels)?;
    let id = n.build().op("normed", OpKind::BatchNorm { epsilon }, &[x, mean, variance, scale, bias])?;
    n.output(0, id);
    let kept = n.float("momentum", 0.9);
    for (at, (old, new)) in running.into_iter().zip([mean, variance]).enumerate() {
        let old = n.build().with(Binary::Mul, old, kept)?;
        let new = n.build().with(Binary::Mul, new, 1.0 - kept)?;
        let moved = n.build().binary(Binary::Add, old, new)?;
        n.output(1 + at, moved);
    }
    n.finish(3)
}

fn reduction(op: &str) -> Option<ReduceKind> {
    Some(match op {
        "ReduceSum" => ReduceKind::Sum,
        "ReduceMean" => ReduceKind::Mean,
        "ReduceMax" => ReduceKind::Max,
        "ReduceMin" => ReduceKind::Min,
        "ReduceProd" => ReduceKind::Prod,
        "ReduceSumSquare" => ReduceKind::SumSquare,
        "ReduceL1" => ReduceKind::L1,
        "ReduceL2" => ReduceKind::L2,
        "ReduceLogSum" => ReduceKind::LogSum,
        "ReduceLogSumExp" => ReduceKind::LogSumExp,
        _ => return None,
    })
}

fn reduce(n: &mut Node, kind: ReduceKind) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let axes = match n.either("axes", 1)?.filter(|a| !a.is_empty()) {
        Some(axes) => n.axes(&axes, rank)?,
        None if n.flag("noop_with_empty_axes", false) => {
            let id = match kind {
                ReduceKind::SumSquare => n.build().unary(Unary::Square, x)?,
                ReduceKind::L1 | ReduceKind::L2 => n.build().unary(Unary::Abs, x)?,
                ReduceKind::LogSum => n.build().unary(Unary::Log { epsilon: 0.0 }, x)?,
                _ => n.build().unary(Unary::Identity, x)?,
            };
            return n.done(id);
        }
        None => (0..rank).collect(),
    };
    let dtype = n.dtype(x);
    // Truth values are compared as integers.
    let x = if dtype == DType::Bool { n.build().cast(x, DType::I32)? } else { x };
    let keep_dims = n.flag("keepdims", true);
    let id = n.build().reduce(kind, x, &axes, keep_dims)?;
    let id = n.build().cast(id, dtype)?;
    n.done(id)
}

/// Over one axis; before opset 13 over all axes from that one on.
fn softmax(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let old = n.opset() < 13;
    let axis = n.axis(n.int("axis", if old { 1 } else { -1 }), shape.len())?;
    let (value, at) = if old && axis + 1 < shape.len() {
        let flat = [elements(&shape[..axis]), elements(&shape[axis..])];
        (n.build().reshape(x, flat)?, 1)
    } else {
        (x, axis)
    };
    let id = match n.op() {
        "Softmax" => n.build().softmax(value, at)?,
        "LogSoftmax" => n.build().log_softmax(value, at)?,
        _ => {
            let kind = OpKind::ArgReduce { greatest: true, last: false, axis: at, keep_dims: false };
            let best = n.build().op("best", kind, &[value])?;
            let depth = n.shape(value)[at];
            let (on, off) = (n.build().scalar(1.0, value), n.build().scalar(0.0, value));
            n.build().one_hot(best, depth, at, on, off)?
        }
    };
    let id = n.build().reshape(id, shape)?;
    n.done(id)
}

fn layer_norm(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = n.axis(n.int("axis", -1), shape.len())?;
    let axes: Vec<usize> = (axis..shape.len()).collect();
    let epsilon = n.float("epsilon", 1e-5);
    let normed = n.build().standardize(x, &axes, epsilon)?;
    let id = affine(n, normed, 1)?;
    n.output(0, id);
    if n.node.output.len() > 1 {
        let mean = n.build().reduce(ReduceKind::Mean, x, &axes, true)?;
        n.output(1, mean);
        let centred = n.build().binary(Binary::Sub, x, mean)?;
        let square = n.build().unary(Unary::Square, centred)?;
        let variance = n.build().reduce(ReduceKind::Mean, square, &axes, true)?;
        let inverse = n.build().unary(Unary::Rsqrt { epsilon }, variance)?;
        n.output(2, inverse);
    }
    n.finish(3)
}

/// Optional multiplication by a scale and addition of a bias.
pub fn affine(n: &mut Node, x: ValueId, first: usize) -> Result<ValueId, Error> {
    let mut id = x;
    if let Some(scale) = n.input(first) {
        id = n.build().binary(Binary::Mul, id, scale)?;
    }
    if let Some(bias) = n.input(first + 1) {
        id = n.build().binary(Binary::Add, id, bias)?;
    }
    Ok(id)
}

fn rms_norm(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let rank = n.shape(x).len();
    let axes: Vec<usize> = (n.axis(n.int("axis", -1), rank)?..rank).collect();
    let epsilon = n.float("epsilon", 1e-5);
    let normed = by_root_mean_square(n, x, &axes, epsilon)?;
    let id = affine(n, normed, 1)?;
    n.done(id)
}

/// A tensor divided by the root of its mean square.
pub fn by_root_mean_square(n: &mut Node, x: ValueId, axes: &[usize], epsilon: f32) -> Result<ValueId, Error> {
    let square = n.build().unary(Unary::Square, x)?;
    let mean = n.build().reduce(ReduceKind::Mean, square, axes, true)?;
    let inverse = n.build().unary(Unary::Rsqrt { epsilon }, mean)?;
    n.build().binary(Binary::Mul, x, inverse)
}

/// Group norm, with scale and bias per group before opset 21 and per channel since.
fn group_norm(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let groups = n.size("num_groups", n.int("num_groups", 1))?;
    let channels = shape.get(1).copied().unwrap_or(0);
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(n.unsupported(format!("{groups} groups of {channels} channels")));
    }
    let epsilon = n.float("epsilon", 1e-5);
    let flat = n.build().reshape(x, [shape[0], groups, elements(&shape[1..]) / groups])?;
    let normed = n.build().standardize(flat, &[2], epsilon)?;
    let mut value = if n.opset() < 21 { normed } else { n.build().reshape(normed, shape.clone())? };
    let rank = n.shape(value).len();
    for (index, binary) in [(1, Binary::Mul), (2, Binary::Add)] {
        let factor = n.need(index)?;
        let count = elements(&n.shape(factor));
        let mut wide = vec![1; rank - 1];
        wide[0] = count;
        let factor = n.build().reshape(factor, wide)?;
        value = n.build().binary(binary, value, factor)?;
    }
    let id = n.build().reshape(value, shape)?;
    n.done(id)
}
