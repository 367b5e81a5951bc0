//! Operators of ONNX Runtime's own domain whose channels are the last axis: they are computed with the channels first.

use super::fused;
use super::node::Node;
use super::spatial;
use crate::error::Error;
use crate::graph::{ValueId, elements};
use crate::ops::{Binary, PoolKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "NhwcMaxPool" => {
            let x = n.need(0)?;
            let x = first(n, x)?;
            let id = spatial::pooled(n, PoolKind::Max, x)?;
            let id = last(n, id)?;
            n.done(id)
        }
        "NhwcConv" | "NhwcFusedConv" => {
            let (x, weights) = (n.need(0)?, n.need(1)?);
            let mut operands = vec![first(n, x)?, weights];
            operands.extend(n.input(2));
            let sum = spatial::conv(n, &operands)?;
            let mut id = last(n, sum)?;
            if let Some(added) = n.input(3) {
                id = n.build().binary(Binary::Add, id, added)?;
            }
            fused::activated_by_params(n, id)
        }
        "GroupNorm" | "SkipGroupNorm" => group_norm(n),
        _ => Ok(false),
    }
}

/// The operand with its channels, which are the last axis, as the second.
fn first(n: &mut Node, x: ValueId) -> Result<ValueId, Error> {
    let mut order: Vec<usize> = (0..n.shape(x).len().max(2)).collect();
    order[1..].rotate_right(1);
    n.build().transpose(x, &order)
}

/// The operand with its channels, which are the second axis, as the last.
fn last(n: &mut Node, x: ValueId) -> Result<ValueId, Error> {
    let mut order: Vec<usize> = (0..n.shape(x).len().max(2)).collect();
    order[1..].rotate_left(1);
    n.build().transpose(x, &order)
}

/// A norm of groups of channels, of a sum with another operand and a bias if the operator has them; the sum is the second result.
fn group_norm(n: &mut Node) -> Result<bool, Error> {
    let (mut x, behind) = (n.need(0)?, n.flag("channels_last", true));
    let shape = n.shape(x);
    let rank = shape.len();
    let channels_at = if behind { rank.saturating_sub(1) } else { 1 };
    let (groups, channels) = (n.size("groups", n.int("groups", 1))?, shape.get(channels_at).copied().unwrap_or(0));
    if rank < 3 || groups == 0 || !channels.is_multiple_of(groups) {
        return Err(n.unsupported(format!("{groups} groups of {channels} channels of a tensor {shape:?}")));
    }
    let wide = |n: &mut Node, id: ValueId, batch: usize, at: usize| {
        let mut wide = vec![1; rank];
        (wide[0], wide[at]) = (batch, channels);
        n.build().reshape(id, wide)
    };
    if n.op() == "SkipGroupNorm" {
        for at in [3, 4] {
            let Some(mut added) = n.input(at) else { continue };
            let count = elements(&n.shape(added));
            if count == channels || count == shape[0] * channels {
                added = wide(n, added, count / channels, channels_at)?;
            }
            x = n.build().binary(Binary::Add, x, added)?;
        }
        n.output(1, x);
    }
    let planes = if behind { first(n, x)? } else { x };
    let own = n.shape(planes);
    let grouped = n.build().reshape(planes, [own[0], groups, elements(&own[1..]) / groups])?;
    let epsilon = n.float("epsilon", 1e-5);
    let normed = n.build().standardize(grouped, &[2], epsilon)?;
    let mut id = n.build().reshape(normed, own)?;
    for (at, function) in [(1, Binary::Mul), (2, Binary::Add)] {
        let factor = n.need(at)?;
        let factor = wide(n, factor, 1, 1)?;
        id = n.build().binary(function, id, factor)?;
    }
    id = match n.int("activation", 0) {
        0 => id,
        1 => n.build().unary(Unary::Silu, id)?,
        other => return Err(n.unsupported(format!("activation {other}"))),
    };
    id = if behind { last(n, id)? } else { id };
    n.output(0, id);
    n.finish(2)
}
