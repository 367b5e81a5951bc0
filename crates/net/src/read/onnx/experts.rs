//! Mixtures of experts of ONNX Runtime's own domain: every expert computes all rows, weighted by zero where it was not chosen.

use super::elementwise::matmul;
use super::made::MADE_ELEMENTS;
use super::node::Node;
use super::tables::{Blocks, unpacked};
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, ValueId, elements};
use crate::ops::{Binary, GeluMode, ReduceKind, Unary};
use std::sync::Arc;

/// Positions of the operands of an expert's layer. Weights with scales are integers.
struct Layer {
    weights: usize,
    scales: Option<usize>,
    bias: usize,
    zeros: usize,
}

impl Layer {
    const fn of(quantized: bool, number: usize) -> Layer {
        match quantized {
            true => {
                let weights = 2 + 3 * number;
                Layer { weights, scales: Some(weights + 1), bias: weights + 2, zeros: 11 + number }
            }
            false => Layer { weights: 2 + 2 * number, scales: None, bias: 3 + 2 * number, zeros: usize::MAX },
        }
    }
}

/// `MoE` and `QMoE`: for each row, the sum of its best experts' results weighted by the softmax of their scores.
pub fn mixture(n: &mut Node) -> Result<bool, Error> {
    let quantized = n.op() == "QMoE";
    let (x, scores) = (n.need(0)?, n.need(1)?);
    let shape = n.shape(x);
    let &[rows, experts] = n.shape(scores).as_slice() else { return Err(n.unsupported("scores not of rank 2")) };
    let width = shape.last().copied().unwrap_or(0);
    let most = n.size("k", n.int("k", 1))?;
    if width == 0
        || elements(&shape) != rows.saturating_mul(width)
        || !(1..=experts).contains(&most)
        || experts.saturating_mul(experts) > MADE_ELEMENTS
    {
        return Err(n.unsupported(format!("{most} of {experts} experts for {rows} rows of a tensor {shape:?}")));
    }
    let x = n.build().reshape(x, [1, rows, width])?;
    let first = expert(n, x, Layer::of(quantized, 0))?;
    let mut inner = match n.text("activation_type").as_deref() {
        None | Some("relu") => n.build().unary(Unary::Relu, first)?,
        Some("gelu") => n.build().unary(Unary::Gelu(GeluMode::Tanh), first)?,
        Some("silu") => n.build().unary(Unary::Silu, first)?,
        Some("swiglu") => gated(n, first)?,
        Some("identity") => first,
        Some(other) => return Err(n.unsupported(format!("activation `{other}`"))),
    };
    let third = Layer::of(quantized, 2);
    if n.input(third.weights).is_some() {
        let gate = expert(n, x, third)?;
        inner = n.build().binary(Binary::Mul, inner, gate)?;
    }
    let results = expert(n, inner, Layer::of(quantized, 1))?;
    let normalized = n.flag("normalize_routing_weights", false);
    let (weights, normalized) = match n.input(14).filter(|_| quantized) {
        Some(weights) => (weights, normalized),
        None => (n.build().softmax(scores, 1)?, normalized || quantized),
    };
    if n.shape(weights) != [rows, experts] {
        return Err(n.unsupported(format!("weights {:?} of {experts} experts for {rows} rows", n.shape(weights))));
    }
    let best = best(n, scores, most)?;
    let mut shares = n.build().binary(Binary::Mul, weights, best)?;
    if normalized {
        let sum = n.build().reduce(ReduceKind::Sum, shares, &[1], true)?;
        shares = n.build().binary(Binary::Div, shares, sum)?;
    }
    let shares = n.build().transpose(shares, &[1, 0])?;
    let shares = n.build().reshape(shares, [experts, rows, 1])?;
    let weighted = n.build().binary(Binary::Mul, results, shares)?;
    let sum = n.build().reduce(ReduceKind::Sum, weighted, &[0], false)?;
    let id = n.build().reshape(sum, shape)?;
    n.done(id)
}

/// Ones for the greatest scores of each row, of equal ones the first, and zeros for the others: a score is among them if fewer others are
/// before it.
fn best(n: &mut Node, scores: ValueId, most: usize) -> Result<ValueId, Error> {
    let (shape, dtype) = (n.shape(scores), n.dtype(scores));
    let (rows, experts) = (shape[0], shape[1]);
    let own = n.build().reshape(scores, [rows, experts, 1])?;
    let others = n.build().reshape(scores, [rows, 1, experts])?;
    let mut before = Vec::new();
    let earlier = |at: usize| at % experts < at / experts;
    for (function, of_earlier) in [(Binary::GreaterEqual, true), (Binary::Greater, false)] {
        let found = n.build().binary(function, others, own)?;
        let found = n.build().cast(found, dtype)?;
        let counts: Vec<f32> = (0..experts * experts).map(|at| f32::from(earlier(at) == of_earlier)).collect();
        let counts = n.build().floats([1, experts, experts], &counts, scores);
        before.push(n.build().binary(Binary::Mul, found, counts)?);
    }
    let before = n.build().binary(Binary::Add, before[0], before[1])?;
    // A score that equals itself is not before itself.
    let before = n.build().reduce(ReduceKind::Sum, before, &[2], false)?;
    let limit = n.build().scalar(most as f32 - 0.5, scores);
    let best = n.build().binary(Binary::Less, before, limit)?;
    n.build().cast(best, dtype)
}

/// The activation of one half of the elements times the other half, of which every second element is the first or the second one, or which lie
/// one behind the other.
fn gated(n: &mut Node, x: ValueId) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let width = shape[2] / 2;
    let (fusion, axis) = (n.int("swiglu_fusion", 0), if n.int("swiglu_fusion", 0) == 2 { 2 } else { 3 });
    if !matches!(fusion, 1 | 2) || !shape[2].is_multiple_of(2) {
        return Err(n.unsupported(format!("swiglu_fusion {fusion} of {} elements", shape[2])));
    }
    let inner = if axis == 3 { [width, 2] } else { [2, width] };
    let pairs = n.build().reshape(x, [shape[0], shape[1], inner[0], inner[1]])?;
    let mut halves = Vec::new();
    for at in 0..2 {
        let half = n.build().slice(pairs, axis, at, at + 1)?;
        halves.push(n.build().reshape(half, [shape[0], shape[1], width])?);
    }
    let limit = n.float("swiglu_limit", f32::INFINITY);
    let gate = n.build().unary(Unary::Clip { min: f32::NEG_INFINITY, max: limit }, halves[0])?;
    let linear = n.build().unary(Unary::Clip { min: -limit, max: limit }, halves[1])?;
    let slope = n.float("activation_alpha", 1.0);
    let steep = n.build().with(Binary::Mul, gate, slope)?;
    let share = n.build().unary(Unary::Sigmoid, steep)?;
    let gate = n.build().binary(Binary::Mul, gate, share)?;
    let added = n.float("activation_beta", 0.0);
    let linear = n.build().with(Binary::Add, linear, added)?;
    n.build().binary(Binary::Mul, gate, linear)
}

/// Matrices of integers with a scale for each row, or each block of a row, as numbers.
fn dense(n: &mut Node, layer: &Layer, scales: usize) -> Result<ValueId, Error> {
    let (Some(stored), Some(scales)) = (n.constant(layer.weights, "weights")?, n.constant(scales, "scales")?) else {
        return Err(n.missing("weights and scales"));
    };
    let zeros = n.constant(layer.zeros, "zero points")?;
    let bits = n.size("expert_weight_bits", n.int("expert_weight_bits", 4))?;
    let &[experts, rows, bytes] = stored.shape.as_slice() else {
        return Err(n.unsupported("matrices of experts not of rank 3"));
    };
    if stored.data.dtype() != DType::U8 || !matches!(bits, 2 | 4 | 8) {
        return Err(n.unsupported(format!("matrices of {} that hold integers of {bits} bits", stored.data.dtype())));
    }
    let columns = bytes.saturating_mul(8 / bits);
    // One scale for each row is one for a block of all of it; zero points of rows are packed by rows.
    let of_rows = |tensor: Arc<Tensor>, bits: usize| match tensor.shape.len() {
        2 => {
            let packed = bits < 8 && tensor.shape == [experts, (rows * bits).div_ceil(8)];
            let data = if packed { rows_of(&tensor, rows, bits) } else { tensor.data.clone() };
            Tensor { shape: vec![experts, rows, 1], data }
        }
        _ => Tensor::clone(&tensor),
    };
    let scales = of_rows(scales, 8);
    let zeros = zeros.map(|zeros| of_rows(zeros, bits));
    let given = n.size("block_size", n.int("block_size", 0))?;
    let block = if given == 0 || scales.shape.last() == Some(&1) { columns } else { given };
    let table = Blocks { bits, bytes: true, along: 2, block }.dense(n, &stored, &scales, zeros.as_ref())?;
    Ok(n.build().constant("matrices", table))
}

/// Integers that bytes hold, as many for each expert as its matrix has rows.
fn rows_of(tensor: &Tensor, rows: usize, bits: usize) -> Data {
    let all = unpacked(tensor, 8 / bits, bits);
    let each = all.shape.last().copied().unwrap_or(1).max(1);
    Data::I32(all.data.to_i32().chunks(each).flat_map(|own| own.iter().copied().take(rows)).collect())
}

/// Products of rows by the matrices of all experts, and the biases behind them. The rows of a matrix are its results; before
/// ONNX Runtime 1.20 they were its operands.
fn expert(n: &mut Node, x: ValueId, layer: Layer) -> Result<ValueId, Error> {
    let matrices = match layer.scales {
        Some(scales) => dense(n, &layer, scales)?,
        None => n.need(layer.weights)?,
    };
    let width = n.shape(x).last().copied().unwrap_or(0);
    let &[experts, _, last] = n.shape(matrices).as_slice() else {
        return Err(n.unsupported("matrices of experts not of rank 3"));
    };
    let mut id = if last == width { n.build().matmul(x, matrices, true)? } else { matmul(n, x, matrices)? };
    if let Some(bias) = n.input(layer.bias) {
        let columns = n.shape(id).last().copied().unwrap_or(0);
        let bias = n.build().reshape(bias, [experts, 1, columns])?;
        id = n.build().binary(Binary::Add, id, bias)?;
    }
    Ok(id)
}
