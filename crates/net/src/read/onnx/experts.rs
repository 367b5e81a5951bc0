//! Mixtures of experts of ONNX Runtime's own domain: every expert computes all rows, weighted by zero where it was not chosen.

use super::elementwise::matmul;
use super::node::Node;
use crate::error::Error;
use crate::graph::{ValueId, elements};
use crate::ops::{Binary, GeluMode, OpKind, ReduceKind, ScatterMode, Unary};

/// `MoE`: for each row, the sum of its best experts' results weighted by the softmax of their scores.
pub fn mixture(n: &mut Node) -> Result<bool, Error> {
    let (x, scores) = (n.need(0)?, n.need(1)?);
    let shape = n.shape(x);
    let &[rows, experts] = n.shape(scores).as_slice() else { return Err(n.unsupported("scores not of rank 2")) };
    let width = shape.last().copied().unwrap_or(0);
    let most = n.size("k", n.int("k", 1))?;
    if width == 0 || elements(&shape) != rows.saturating_mul(width) || !(1..=experts).contains(&most) {
        return Err(n.unsupported(format!("{most} of {experts} experts for {rows} rows of a tensor {shape:?}")));
    }
    let x = n.build().reshape(x, [1, rows, width])?;
    let first = expert(n, x, 2)?;
    let mut inner = match n.text("activation_type").as_deref() {
        None | Some("relu") => n.build().unary(Unary::Relu, first)?,
        Some("gelu") => n.build().unary(Unary::Gelu(GeluMode::Tanh), first)?,
        Some("silu") => n.build().unary(Unary::Silu, first)?,
        Some("identity") => first,
        Some(other) => return Err(n.unsupported(format!("activation `{other}`"))),
    };
    if n.input(6).is_some() {
        let gate = expert(n, x, 6)?;
        inner = n.build().binary(Binary::Mul, inner, gate)?;
    }
    let results = expert(n, inner, 4)?;
    let every = n.build().softmax(scores, 1)?;
    let (best, places) = n.build().top_k(scores, 1, most, false)?;
    let shares = match n.flag("normalize_routing_weights", false) {
        true => n.build().softmax(best, 1)?,
        false => n.build().op("shares", OpKind::GatherAlong { axis: 1 }, &[every, places])?,
    };
    let none = n.build().scalar(0.0, shares);
    let none = n.build().broadcast(none, [rows, experts])?;
    let kind = OpKind::ScatterAlong { axis: 1, mode: ScatterMode::Update };
    let shares = n.build().op("weights", kind, &[none, places, shares])?;
    let shares = n.build().transpose(shares, &[1, 0])?;
    let shares = n.build().reshape(shares, [experts, rows, 1])?;
    let weighted = n.build().binary(Binary::Mul, results, shares)?;
    let sum = n.build().reduce(ReduceKind::Sum, weighted, &[0], false)?;
    let id = n.build().reshape(sum, shape)?;
    n.done(id)
}

/// Products of rows by the matrices of all experts at this position, and the biases behind them. The rows of a matrix are its results; before
/// ONNX Runtime 1.20 they were its operands.
fn expert(n: &mut Node, x: ValueId, at: usize) -> Result<ValueId, Error> {
    let matrices = n.need(at)?;
    let width = n.shape(x).last().copied().unwrap_or(0);
    let &[experts, _, last] = n.shape(matrices).as_slice() else {
        return Err(n.unsupported("matrices of experts not of rank 3"));
    };
    let mut id = if last == width { n.build().matmul(x, matrices, true)? } else { matmul(n, x, matrices)? };
    if let Some(bias) = n.input(at + 1) {
        let columns = n.shape(id).last().copied().unwrap_or(0);
        let bias = n.build().reshape(bias, [experts, 1, columns])?;
        id = n.build().binary(Binary::Add, id, bias)?;
    }
    Ok(id)
}
