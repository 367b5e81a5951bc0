//! Attention and its components: heads, rotary embeddings, masks.

use super::node::Node;
use super::subgraph;
use crate::error::Error;
use crate::graph::{DType, Tensor, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Attention" => attention(n),
        "RotaryEmbedding" => rotary(n),
        _ => Ok(false),
    }
}

/// Domain of the format's experimental operators.
pub const PREVIEW: &str = "ai.onnx.preview";

/// As [`translate`], for operators of [`PREVIEW`].
pub fn translate_preview(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "FlexAttention" => flexible(n),
        _ => Ok(false),
    }
}

/// Attention whose scores and weights are modified by graphs of the node.
fn flexible(n: &mut Node) -> Result<bool, Error> {
    let (q, mut k, mut v) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let (sq, sk) = (n.shape(q), n.shape(k));
    if [&sq, &sk, &n.shape(v)].iter().any(|s| s.len() != 4) {
        return Err(n.unsupported("operands of rank other than 4"));
    }
    (k, v) = shared(n, k, v, sq[1])?;
    let dtype = n.dtype(q);
    let precision = match n.int("softmax_precision", 0) {
        0 if dtype == DType::F16 => DType::F32,
        0 => dtype,
        1 | 11 => DType::F32,
        10 => DType::F16,
        other => return Err(n.unsupported(format!("`softmax_precision` is {other}"))),
    };
    // Both factors are scaled, so that products stay within fp16.
    let root = n.float("scale", 1.0 / (sq[3] as f32).sqrt()).sqrt();
    let (q, k) = (n.build().with(Binary::Mul, q, root)?, n.build().with(Binary::Mul, k, root)?);
    let scores = n.build().matmul(q, k, true)?;
    let mut scores = n.build().cast(scores, precision)?;
    scores = modified(n, "score_mod", scores)?;
    let weights = n.build().softmax(scores, 3)?;
    let weights = modified(n, "prob_mod", weights)?;
    let v = n.build().cast(v, precision)?;
    let id = n.build().matmul(weights, v, false)?;
    let id = n.build().cast(id, dtype)?;
    n.done(id)
}

/// Applies the graph in an attribute to a tensor, if there is one.
fn modified(n: &mut Node, name: &str, x: ValueId) -> Result<ValueId, Error> {
    if n.attribute(name).is_none() {
        return Ok(x);
    }
    let graph = subgraph::graph(n, name)?;
    match subgraph::inner(n, graph, &[x])?.as_slice() {
        &[id] => Ok(id),
        other => Err(n.unsupported(format!("`{name}` has {} results", other.len()))),
    }
}

/// Keys and values repeated for each of `heads` query heads (grouped-query attention).
pub fn shared(n: &mut Node, k: ValueId, v: ValueId, heads: usize) -> Result<(ValueId, ValueId), Error> {
    let own = n.shape(k)[1];
    if own == heads {
        return Ok((k, v));
    }
    if own == 0 || !heads.is_multiple_of(own) {
        return Err(n.unsupported(format!("{heads} query heads for {own} of keys")));
    }
    let indices: Vec<i32> = (0..heads).map(|h| (h / (heads / own)) as i32).collect();
    let indices = n.build().integers([heads], indices);
    Ok((n.build().gather(k, indices, 1)?, n.build().gather(v, indices, 1)?))
}

/// Splits `[N, S, heads width]` into heads `[N, heads, S, width]`.
pub fn heads(n: &mut Node, x: ValueId, count: usize) -> Result<ValueId, Error> {
    let shape = n.shape(x);
    let &[batch, steps, width] = shape.as_slice() else { return Ok(x) };
    if count == 0 || !width.is_multiple_of(count) {
        return Err(n.unsupported(format!("{count} heads of {width} elements")));
    }
    let apart = n.build().reshape(x, [batch, steps, count, width / count])?;
    n.build().transpose(apart, &[0, 2, 1, 3])
}

fn attention(n: &mut Node) -> Result<bool, Error> {
    let (q, k, v) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let flat = n.shape(q).len() == 3;
    let (q_heads, kv_heads) =
        (n.size("q_num_heads", n.int("q_num_heads", 0))?, n.size("kv_num_heads", n.int("kv_num_heads", 0))?);
    let q = heads(n, q, q_heads)?;
    let (mut k, mut v) = (heads(n, k, kv_heads)?, heads(n, v, kv_heads)?);
    if [q, k, v].iter().any(|&x| n.shape(x).len() != 4) {
        return Err(n.unsupported("operands of rank other than 3 or 4"));
    }
    let mut past = 0;
    if let (Some(pk), Some(pv)) = (n.input(4), n.input(5)) {
        past = n.shape(pk).get(2).copied().ok_or_else(|| n.unsupported("past keys not of rank 4"))?;
        k = n.build().concat(&[pk, k], 2)?;
        v = n.build().concat(&[pv, v], 2)?;
    }
    let (present_k, present_v) = (k, v);
    let (sq, sk) = (n.shape(q), n.shape(k));
    (k, v) = shared(n, k, v, sq[1])?;
    let scale = n.float("scale", 1.0 / (sq[3] as f32).sqrt());
    let (steps, keys) = (sq[2], sk[2]);
    let raw = n.build().matmul(q, k, true)?;
    let raw = n.build().with(Binary::Mul, raw, scale)?;
    let mut capped = raw;
    let cap = n.float("softcap", 0.0);
    if cap > 0.0 {
        let small = n.build().with(Binary::Div, capped, cap)?;
        let bent = n.build().unary(Unary::Tanh, small)?;
        capped = n.build().with(Binary::Mul, bent, cap)?;
    }
    let (masked, may_be_empty) = masked(n, capped, steps, keys, past)?;
    let mut weights = n.build().softmax(masked, 3)?;
    if may_be_empty {
        // A query without any visible key gives zeros.
        let best = n.build().reduce(ReduceKind::Max, masked, &[3], true)?;
        let (hidden, zero) = (n.build().scalar(f32::NEG_INFINITY, best), n.build().scalar(0.0, weights));
        let looks = n.build().binary(Binary::Greater, best, hidden)?;
        weights = n.build().select(looks, weights, zero)?;
    }
    let mut id = n.build().matmul(weights, v, false)?;
    if flat {
        let shape = n.shape(id);
        id = n.build().transpose(id, &[0, 2, 1, 3])?;
        id = n.build().reshape(id, [shape[0], shape[2], shape[1] * shape[3]])?;
    }
    n.output(0, id);
    n.output(1, present_k);
    n.output(2, present_v);
    let scores = match n.int("qk_matmul_output_mode", 0) {
        0 => raw,
        1 => capped,
        2 => masked,
        3 => weights,
        other => return Err(n.unsupported(format!("`qk_matmul_output_mode` is {other}"))),
    };
    n.output(3, scores);
    n.finish(4)
}

/// Scores with masked keys at minus infinity, and true if a query may be left without any key.
fn masked(n: &mut Node, mut scores: ValueId, steps: usize, keys: usize, past: usize) -> Result<(ValueId, bool), Error> {
    let causal = n.flag("is_causal", false);
    let (left, right) = (n.int("left_window_size", -1), n.int("right_window_size", -1));
    let sees = |ahead: i64| {
        (!causal || ahead <= 0) && (left < 0 || ahead >= left.saturating_neg()) && (right < 0 || ahead <= right)
    };
    let (mut empty, mut order) = (false, None);
    let hidden = n.build().scalar(f32::NEG_INFINITY, scores);
    if let Some(lengths) = n.input(6) {
        // Each item of the batch has its own number of keys, with the queries at the end.
        let batch = n.shape(lengths).iter().product();
        let lengths = n.build().cast(lengths, DType::I32)?;
        let lengths = n.build().reshape(lengths, [batch, 1, 1, 1])?;
        let places = n.build().integers([1, 1, 1, keys], (0..keys as i32).collect());
        let filled = n.build().binary(Binary::Less, places, lengths)?;
        scores = n.build().select(filled, scores, hidden)?;
        let ahead = (0..steps * keys).map(|i| (i % keys) as i32 - (i / keys) as i32 + steps as i32).collect();
        let ahead = n.build().integers([1, 1, steps, keys], ahead);
        let ahead = n.build().binary(Binary::Sub, ahead, lengths)?;
        let clamp = |v: i64| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let mut bounds = vec![];
        bounds.extend(causal.then_some((Binary::LessEqual, 0)));
        bounds.extend((right >= 0).then_some((Binary::LessEqual, clamp(right))));
        bounds.extend((left >= 0).then_some((Binary::GreaterEqual, clamp(left.saturating_neg()))));
        for (compare, bound) in bounds {
            let bound = n.build().integers([], vec![bound]);
            let sees = n.build().binary(compare, ahead, bound)?;
            scores = n.build().select(sees, scores, hidden)?;
        }
        empty = true;
    } else if causal || left >= 0 || right >= 0 {
        let mask: Vec<bool> = (0..steps * keys).map(|i| sees((i % keys) as i64 - (i / keys + past) as i64)).collect();
        empty = mask.chunks_exact(keys.max(1)).any(|row| !row.contains(&true));
        order = Some(mask.clone());
        let mask = n.build().mask([steps, keys], mask);
        scores = n.build().select(mask, scores, hidden)?;
    }
    let Some(mut mask) = n.input(3) else { return Ok((scores, empty)) };
    let shape = n.shape(mask);
    let last = shape.last().copied().unwrap_or(0);
    if last < keys && !shape.is_empty() {
        let mut pads = vec![(0, 0); shape.len()];
        pads[shape.len() - 1].1 = keys - last;
        let value = if n.dtype(mask) == DType::Bool { 0.0 } else { f32::NEG_INFINITY };
        mask = n.build().op("mask", OpKind::Pad { pads, value }, &[mask])?;
    }
    scores = if n.dtype(mask) == DType::Bool {
        n.build().select(mask, scores, hidden)?
    } else {
        n.build().binary(Binary::Add, scores, mask)?
    };
    let hides = n.t.build.data(mask).is_none_or(|t| hides_all(t, steps, keys, order.as_deref()));
    Ok((scores, empty || hides))
}

/// Returns true if a constant mask, with that of the order `[steps, keys]`, leaves a query without any key.
fn hides_all(mask: &Tensor, steps: usize, keys: usize, order: Option<&[bool]>) -> bool {
    let hidden = if mask.data.dtype() == DType::Bool { 0.0 } else { f32::NEG_INFINITY };
    let data = mask.data.to_f32();
    let width = mask.shape.last().copied().unwrap_or(1).max(1);
    let rows = mask.shape.iter().rev().nth(1).copied().unwrap_or(1);
    let sees = |query: usize, key: usize| order.is_none_or(|order| order[query * keys + key]);
    let blind =
        |row: usize, query: usize| (0..keys).all(|key| data[row * width + key % width] == hidden || !sees(query, key));
    (0..data.len() / width).any(|row| match rows == steps {
        true => blind(row, row % rows),
        false => (0..steps).any(|query| blind(row, query)),
    })
}

fn rotary(n: &mut Node) -> Result<bool, Error> {
    let (x, tables) = (n.need(0)?, [n.need(1)?, n.need(2)?]);
    let (places, count) = (n.input(3), n.size("num_heads", n.int("num_heads", 0))?);
    let part = n.size("rotary_embedding_dim", n.int("rotary_embedding_dim", 0))?;
    let way = Rotation { part, interleaved: n.flag("interleaved", false) };
    let id = rotated(n, x, tables, places, count, way)?;
    n.done(id)
}

/// Elements that a rotary embedding turns.
#[derive(Clone, Copy)]
pub struct Rotation {
    /// Number of the first elements of a head that are turned; zero for all.
    pub part: usize,
    /// True if a pair is two neighbours, false if it is one element of each half.
    pub interleaved: bool,
}

/// Turns pairs of the elements of each head by the angles whose cosines and sines these tables have at the positions.
pub fn rotated(
    n: &mut Node,
    x: ValueId,
    [mut cos, mut sin]: [ValueId; 2],
    places: Option<ValueId>,
    count: usize,
    Rotation { part, interleaved }: Rotation,
) -> Result<ValueId, Error> {
    let given = n.shape(x);
    let x = heads(n, x, count)?;
    let &[_, _, steps, width] = n.shape(x).as_slice() else {
        return Err(n.unsupported("operand of rank other than 3 or 4"));
    };
    if let Some(places) = places {
        cos = n.build().gather(cos, places, 0)?;
        sin = n.build().gather(sin, places, 0)?;
    }
    let rotated = if part == 0 { width } else { part };
    let half = rotated / 2;
    let table = |n: &mut Node, t: ValueId| {
        let rows = elements(&n.shape(t)) / (steps * half).max(1);
        n.build().reshape(t, [rows, 1, steps, half])
    };
    let (cos, sin) = (table(n, cos)?, table(n, sin)?);
    let part = n.build().slice(x, 3, 0, rotated)?;
    let (mut a, mut b);
    if interleaved {
        let take = |n: &mut Node, odd: i32| {
            let indices = (0..half as i32).map(|i| 2 * i + odd).collect();
            let indices = n.build().integers([half], indices);
            n.build().gather(part, indices, 3)
        };
        (a, b) = (take(n, 0)?, take(n, 1)?);
    } else {
        (a, b) = (n.build().slice(part, 3, 0, half)?, n.build().slice(part, 3, half, rotated)?);
    }
    let (ac, bs) = (n.build().binary(Binary::Mul, a, cos)?, n.build().binary(Binary::Mul, b, sin)?);
    let (asn, bc) = (n.build().binary(Binary::Mul, a, sin)?, n.build().binary(Binary::Mul, b, cos)?);
    (a, b) = (n.build().binary(Binary::Sub, ac, bs)?, n.build().binary(Binary::Add, asn, bc)?);
    let mut id = if interleaved {
        let both = n.build().stack(&[a, b], 4)?;
        let shape = n.shape(part);
        n.build().reshape(both, shape)?
    } else {
        n.build().concat(&[a, b], 3)?
    };
    if rotated < width {
        let rest = n.build().slice(x, 3, rotated, width)?;
        id = n.build().concat(&[id, rest], 3)?;
    }
    if given.len() == 3 {
        id = n.build().transpose(id, &[0, 2, 1, 3])?;
        id = n.build().reshape(id, given)?;
    }
    Ok(id)
}
