//! Attention of ONNX Runtime's own domain: heads with biases, masks of several forms and caches of past keys and values.

use super::attention::{Rotation, heads, rotated, shared};
use super::contributed::columns;
use super::elementwise::matmul;
use super::node::Node;
use super::quantized::dequantize;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, OpKind, ScatterMode, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "MultiHeadAttention" => multi_head_attention(n),
        "Attention" => attention(n),
        "QAttention" => quantized_attention(n),
        "GroupQueryAttention" => grouped(n),
        "RotaryEmbedding" => rotary(n),
        _ => Ok(false),
    }
}

/// Position of the first query among the keys.
#[derive(Clone, Copy)]
enum Start {
    Known(usize),
    /// One for each item of the batch, `[N]`.
    Computed(ValueId),
}

/// Terms added to the scores of attention, and keys hidden from its queries.
struct Scores {
    mask: Option<ValueId>,
    added: Option<ValueId>,
    /// True if keys behind a query are hidden from it.
    causal: bool,
    start: Start,
    /// Number of keys up to the query's own that are not hidden, if that is limited.
    window: Option<usize>,
    /// Score of a key without a value, by head.
    sink: Option<ValueId>,
}

impl Scores {
    fn new(n: &Node, mask: Option<ValueId>, added: Option<ValueId>, past: usize) -> Scores {
        let causal = n.flag("unidirectional", false);
        Scores { mask, added, causal, start: Start::Known(past), window: None, sink: None }
    }
}

/// Attention of queries, keys and values by head; the heads of the result are together.
fn attended(n: &mut Node, [q, k, v]: [ValueId; 3], scores: &Scores) -> Result<ValueId, Error> {
    let (sq, sk) = (n.shape(q), n.shape(k));
    if [&sq, &sk, &n.shape(v)].iter().any(|s| s.len() != 4) {
        return Err(n.unsupported("operands of rank other than 3 or 4"));
    }
    let (steps, keys) = (sq[2], sk[2]);
    let scale = match n.float("scale", 0.0) {
        0.0 => 1.0 / (sq[3] as f32).sqrt(),
        given => given,
    };
    let all = n.build().matmul(q, k, true)?;
    let mut all = n.build().with(Binary::Mul, all, scale)?;
    let cap = n.float("softcap", 0.0);
    if cap > 0.0 {
        let small = n.build().with(Binary::Div, all, cap)?;
        let bent = n.build().unary(Unary::Tanh, small)?;
        all = n.build().with(Binary::Mul, bent, cap)?;
    }
    if let Some(added) = scores.added {
        all = n.build().binary(Binary::Add, all, added)?;
    }
    if let Some(mask) = scores.mask {
        let mask = shown(n, mask, sq[0], steps, keys)?;
        let (shown, hidden) = (0.0, n.float("mask_filter_value", -1e4));
        let (shown, hidden) = (n.build().scalar(shown, all), n.build().scalar(hidden, all));
        let added = n.build().select(mask, shown, hidden)?;
        all = n.build().binary(Binary::Add, all, added)?;
    }
    if scores.causal {
        let hidden = n.build().scalar(f32::NEG_INFINITY, all);
        for mask in causal(n, scores, steps, keys)? {
            all = n.build().select(mask, all, hidden)?;
        }
    }
    let weights = match scores.sink {
        None => n.build().softmax(all, 3)?,
        Some(sink) => {
            let shape = n.shape(all);
            let sink = n.build().reshape(sink, [1, shape[1], 1, 1])?;
            let sink = n.build().broadcast(sink, [shape[0], shape[1], steps, 1])?;
            let both = n.build().concat(&[all, sink], 3)?;
            let weights = n.build().softmax(both, 3)?;
            n.build().slice(weights, 3, 0, keys)?
        }
    };
    let id = n.build().matmul(weights, v, false)?;
    let shape = n.shape(id);
    let id = n.build().transpose(id, &[0, 2, 1, 3])?;
    n.build().reshape(id, [shape[0], shape[2], shape[1] * shape[3]])
}

/// True at the keys that a mask shows: numbers of keys by item, or integers by item and key, or by item, query and key.
fn shown(n: &mut Node, mask: ValueId, batch: usize, steps: usize, keys: usize) -> Result<ValueId, Error> {
    let shape = n.shape(mask);
    if shape == [batch] {
        let lengths = n.build().reshape(mask, [batch, 1, 1, 1])?;
        let lengths = n.build().cast(lengths, DType::I32)?;
        let places = n.build().integers([1, 1, 1, keys], (0..keys as i32).collect());
        return n.build().binary(Binary::Less, places, lengths);
    }
    let wide = match shape[..] {
        [items, across] if (items, across) == (batch, keys) => [batch, 1, 1, keys],
        [items, down, across] if (items, down, across) == (batch, steps, keys) => [batch, 1, steps, keys],
        _ => return Err(n.unsupported(format!("a mask {shape:?} of {keys} keys"))),
    };
    let mask = n.build().cast(mask, DType::Bool)?;
    n.build().reshape(mask, wide)
}

/// Masks that are true at the keys up to each query, and within its window.
fn causal(n: &mut Node, scores: &Scores, steps: usize, keys: usize) -> Result<Vec<ValueId>, Error> {
    match scores.start {
        Start::Known(start) => {
            let sees = |i: usize| {
                let (query, key) = (i / keys + start, i % keys);
                // ONNX Runtime hides no key from the last query, even if there are more keys than it has before it.
                (key <= query || i / keys + 1 == steps)
                    && scores.window.is_none_or(|window| query.saturating_sub(key) < window)
            };
            let mask = (0..steps * keys).map(sees).collect();
            Ok(vec![n.build().mask([steps, keys], mask)])
        }
        Start::Computed(start) => {
            let batch = n.shape(start)[0];
            let start = n.build().reshape(start, [batch, 1, 1, 1])?;
            let ahead = (0..steps * keys).map(|i| (i % keys) as i32 - (i / keys) as i32).collect();
            let ahead = n.build().integers([1, 1, steps, keys], ahead);
            let mut masks = vec![n.build().binary(Binary::LessEqual, ahead, start)?];
            if let Some(window) = scores.window {
                let last = n.build().integers([], vec![i32::try_from(window).unwrap_or(i32::MAX)]);
                let last = n.build().binary(Binary::Sub, start, last)?;
                masks.push(n.build().binary(Binary::Greater, ahead, last)?);
            }
            Ok(masks)
        }
    }
}

/// Refuses inputs from this position on.
fn none_from(n: &Node, first: usize, what: &str) -> Result<(), Error> {
    match (first..n.inputs.len()).any(|at| n.input(at).is_some()) {
        true => Err(n.unsupported(what)),
        false => Ok(()),
    }
}

fn multi_head_attention(n: &mut Node) -> Result<bool, Error> {
    none_from(n, 8, "a cache that is written in place, or beams")?;
    let count = n.size("num_heads", n.int("num_heads", 0))?;
    let first = n.need(0)?;
    let mut parts = match (n.input(1), n.input(2)) {
        (None, _) => packed(n, first, 3)?,
        (Some(both), None) => [&[first], packed(n, both, 2)?.as_slice()].concat(),
        (Some(k), Some(v)) => vec![first, k, v],
    };
    let mut start = 0;
    for part in &mut parts {
        let shape = n.shape(*part);
        if let (Some(bias), &[_, _, width]) = (n.input(3), shape.as_slice()) {
            let own = n.build().slice(bias, 0, start, start + width)?;
            *part = n.build().binary(Binary::Add, *part, own)?;
            start += width;
        }
        *part = heads(n, *part, count)?;
    }
    let &[q, mut k, mut v] = parts.as_slice() else { return Err(n.missing("key")) };
    let mut past = 0;
    if let (Some(keys), Some(values)) = (n.input(6), n.input(7)) {
        past = n.shape(keys).get(2).copied().unwrap_or(0);
        k = n.build().concat(&[keys, k], 2)?;
        v = n.build().concat(&[values, v], 2)?;
    }
    let scores = Scores::new(n, n.input(4), n.input(5), past);
    let id = attended(n, [q, k, v], &scores)?;
    n.output(0, id);
    n.output(1, k);
    n.output(2, v);
    n.finish(3)
}

/// Operands `[N, S, heads, parts, width]` by part, as `[N, heads, S, width]`.
fn packed(n: &mut Node, x: ValueId, parts: usize) -> Result<Vec<ValueId>, Error> {
    let &[batch, steps, count, found, width] = n.shape(x).as_slice() else {
        return Err(n.unsupported("packed operands not of rank 5"));
    };
    if found != parts || n.input(3).is_some() {
        return Err(n.unsupported(format!("{found} packed operands, {parts} expected, or a bias of packed ones")));
    }
    let one = |at: usize| {
        let part = n.build().slice(x, 3, at, at + 1)?;
        let part = n.build().reshape(part, [batch, steps, count, width])?;
        n.build().transpose(part, &[0, 2, 1, 3])
    };
    (0..parts).map(one).collect()
}

/// Attention whose queries, keys and values are one product.
fn attention(n: &mut Node) -> Result<bool, Error> {
    if n.input(6).is_some() || n.flag("do_rotary", false) || n.flag("past_present_share_buffer", false) {
        return Err(n.unsupported("a cache that is written in place, or rotated operands"));
    }
    let (x, weights) = (n.need(0)?, n.need(1)?);
    let product = matmul(n, x, weights)?;
    packed_attention(n, product, [n.input(3), n.input(5), n.input(4)])
}

/// Attention of an operand and of weights in 8 bits.
fn quantized_attention(n: &mut Node) -> Result<bool, Error> {
    if n.flag("do_rotary", false) || n.flag("past_present_share_buffer", false) {
        return Err(n.unsupported("a cache that is written in place, or rotated operands"));
    }
    let (x, x_scale, x_zero) = (n.need(0)?, n.need(3)?, n.input(6));
    let (weights, scale, zero) = (n.need(1)?, n.need(4)?, n.input(7));
    let x = dequantize(n, x, x_scale, x_zero)?;
    let weights = columns(n, weights, scale, zero)?;
    let product = matmul(n, x, weights)?;
    packed_attention(n, product, [n.input(5), None, n.input(8)])
}

/// Attention of queries, keys and values side by side, before their bias, which is input 2.
fn packed_attention(
    n: &mut Node,
    mut all: ValueId,
    [mask, bias, past_state]: [Option<ValueId>; 3],
) -> Result<bool, Error> {
    if let Some(bias) = n.input(2) {
        all = n.build().binary(Binary::Add, all, bias)?;
    }
    let shape = n.shape(all);
    let last = n.axis(-1, shape.len())?;
    let widths = match n.ints("qkv_hidden_sizes").filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => n.sizes("qkv_hidden_sizes", &sizes)?,
        None => vec![shape[last] / 3; 3],
    };
    if widths.len() != 3 || widths.iter().sum::<usize>() != shape[last] {
        return Err(n.unsupported(format!("{widths:?} of {} columns", shape[last])));
    }
    let count = n.size("num_heads", n.int("num_heads", 0))?;
    let (mut parts, mut start) = ([all; 3], 0);
    for (part, width) in parts.iter_mut().zip(widths) {
        let own = n.build().slice(all, last, start, start + width)?;
        *part = heads(n, own, count)?;
        start += width;
    }
    let mut past = 0;
    if let Some(cache) = past_state {
        let shape = n.shape(cache);
        if shape.len() != 5 || shape[0] != 2 {
            return Err(n.unsupported(format!("past keys and values of extents {shape:?}")));
        }
        past = shape[3];
        for (at, part) in parts[1..].iter_mut().enumerate() {
            let before = n.build().slice(cache, 0, at, at + 1)?;
            let before = n.build().reshape(before, shape[1..].to_vec())?;
            *part = n.build().concat(&[before, *part], 2)?;
        }
    }
    if n.node.output.get(1).is_some_and(|name| !name.is_empty()) {
        let present = n.build().stack(&parts[1..], 0)?;
        n.output(1, present);
    }
    let scores = Scores::new(n, mask, bias, past);
    let id = attended(n, parts, &scores)?;
    n.output(0, id);
    n.finish(2)
}

/// Attention of several query heads to each head of keys, which are rotated and written into a cache.
fn grouped(n: &mut Node) -> Result<bool, Error> {
    none_from(n, 12, "a quantized cache")?;
    let quantized = ["k_quant_type", "v_quant_type"].iter().any(|key| n.text(key).is_some_and(|kind| kind != "NONE"));
    if quantized || n.int("qk_output", 0) != 0 || n.flag("smooth_softmax", false) {
        return Err(n.unsupported("a quantized cache, scores as a result, or a smooth softmax"));
    }
    let (count, own) = (n.size("num_heads", n.int("num_heads", 0))?, n.size("kv_num_heads", n.int("kv_num_heads", 0))?);
    let first = n.need(0)?;
    let &[batch, steps, columns] = n.shape(first).as_slice() else {
        return Err(n.unsupported("queries not of rank 3"));
    };
    let parts = match (n.input(1), n.input(2)) {
        (Some(k), Some(v)) => [first, k, v],
        _ => {
            let width = columns / (count + 2 * own).max(1);
            let (a, b) = (count * width, (count + own) * width);
            let part = |n: &mut Node, from: usize, to: usize| n.build().slice(first, 2, from, to);
            [part(n, 0, a)?, part(n, a, b)?, part(n, b, columns)?]
        }
    };
    let start = first_query(n, batch, steps)?;
    let [mut q, mut k, v] = [heads(n, parts[0], count)?, heads(n, parts[1], own)?, heads(n, parts[2], own)?];
    if n.flag("do_rotary", false) {
        let tables = [n.need(7)?, n.need(8)?];
        let part = 2 * n.shape(tables[0]).last().copied().unwrap_or(0);
        let way = Rotation { part, interleaved: n.flag("rotary_interleaved", false) };
        let places = match n.input(9) {
            Some(places) => places,
            None => counted(n, start, batch, steps)?,
        };
        q = rotated(n, q, tables, Some(places), count, way)?;
        k = rotated(n, k, tables, Some(places), own, way)?;
    }
    let total = total_keys(n);
    let (k, v) = (written(n, k, 3, start, total)?, written(n, v, 4, start, total)?);
    n.output(1, k);
    n.output(2, v);
    let [mut k, mut v] = [k, v];
    if let Start::Known(start) = start {
        // Keys behind the last query are hidden from all.
        k = n.build().slice(k, 2, 0, start + steps)?;
        v = n.build().slice(v, 2, 0, start + steps)?;
    }
    (k, v) = shared(n, k, v, count)?;
    let window = usize::try_from(n.int("local_window_size", -1)).ok();
    let scores =
        Scores { added: n.input(10), causal: true, start, window, sink: n.input(11), ..Scores::new(n, None, None, 0) };
    let id = attended(n, [q, k, v], &scores)?;
    n.output(0, id);
    n.finish(3)
}

/// The greatest number of keys of an item, if it is known.
fn total_keys(n: &Node) -> Option<usize> {
    let data = n.t.build.data(n.input(6)?)?;
    usize::try_from(*data.data.to_i32().first()?).ok()
}

/// Position of the first query: the number of keys of an item less one is operand 5, the greatest number of keys operand 6.
fn first_query(n: &mut Node, batch: usize, steps: usize) -> Result<Start, Error> {
    let total = total_keys(n);
    if n.input(3).is_none() || total == Some(steps) {
        return Ok(Start::Known(0));
    }
    let lengths = n.need(5)?;
    let known = n.t.build.data(lengths).map(|t| t.data.to_i32());
    let known = known.filter(|all| all.iter().all(|&length| length == all[0]));
    let known = known.and_then(|all| usize::try_from(all.first()? + 1).ok());
    // The greatest number of keys is that of the only item.
    let known = known.or(total.filter(|_| batch == 1));
    if let Some(keys) = known {
        let start = keys.checked_sub(steps);
        return start.map(Start::Known).ok_or_else(|| n.unsupported(format!("{keys} keys of {steps} queries")));
    }
    let lengths = n.build().cast(lengths, DType::I32)?;
    let lengths = n.build().reshape(lengths, [batch])?;
    let before = n.build().integers([], vec![steps as i32 - 1]);
    Ok(Start::Computed(n.build().binary(Binary::Sub, lengths, before)?))
}

/// Positions of the queries, `[N, S]`.
fn counted(n: &mut Node, start: Start, batch: usize, steps: usize) -> Result<ValueId, Error> {
    match start {
        Start::Known(start) => {
            let places = (0..batch * steps).map(|i| (start + i % steps) as i32).collect();
            Ok(n.build().integers([batch, steps], places))
        }
        Start::Computed(start) => {
            let start = n.build().reshape(start, [batch, 1])?;
            let places = n.build().integers([1, steps], (0..steps as i32).collect());
            n.build().binary(Binary::Add, start, places)
        }
    }
}

/// The cache in this operand with keys or values `[N, heads, S, width]` at the queries' positions. A cache that has no place behind its
/// elements grows.
fn written(n: &mut Node, x: ValueId, cache: usize, start: Start, total: Option<usize>) -> Result<ValueId, Error> {
    let Some(mut cache) = n.input(cache) else { return Ok(x) };
    let (shape, part) = (n.shape(cache), n.shape(x));
    if shape.len() != 4 {
        return Err(n.unsupported("past keys or values not of rank 4"));
    }
    let steps = part[2];
    match start {
        Start::Known(start) if start <= shape[2] => {
            let mut parts = vec![x];
            if start > 0 {
                parts.insert(0, n.build().slice(cache, 2, 0, start)?);
            }
            if start + steps < shape[2] {
                parts.push(n.build().slice(cache, 2, start + steps, shape[2])?);
            }
            n.build().concat(&parts, 2)
        }
        Start::Known(start) => Err(n.unsupported(format!("a query at {start} behind {} past keys", shape[2]))),
        Start::Computed(start) => {
            if let Some(more) = total.and_then(|total| total.checked_sub(shape[2])).filter(|&more| more > 0) {
                let pads = vec![(0, 0), (0, 0), (0, more), (0, 0)];
                cache = n.build().op("grown", OpKind::Pad { pads, value: 0.0 }, &[cache])?;
            }
            let places = counted(n, Start::Computed(start), shape[0], steps)?;
            let places = n.build().reshape(places, [shape[0], 1, steps, 1])?;
            let places = n.build().broadcast(places, part)?;
            let kind = OpKind::ScatterAlong { axis: 2, mode: ScatterMode::Update };
            n.build().op("written", kind, &[cache, places, x])
        }
    }
}

/// Rotary embedding with positions before the tables; a single position is that of the first step.
fn rotary(n: &mut Node) -> Result<bool, Error> {
    if n.flag("is_packed_batching", false) {
        return Err(n.unsupported("packed sequences"));
    }
    let (x, mut places, cos, sin) = (n.need(0)?, n.need(1)?, n.need(2)?, n.need(3)?);
    let shape = n.shape(x);
    let half = n.shape(cos).last().copied().unwrap_or(0);
    let mut count = n.size("num_heads", n.int("num_heads", 0))?;
    if let (0, &[_, _, width]) = (count, shape.as_slice()) {
        count = width / (2 * half).max(1);
    }
    let steps = shape.get(shape.len().wrapping_sub(2)).copied().unwrap_or(0);
    if n.shape(places) == [1] && steps > 1 {
        let dtype = n.dtype(places);
        let counted = n.build().integers([steps], (0..steps as i32).collect());
        let counted = n.build().cast(counted, dtype)?;
        places = n.build().binary(Binary::Add, places, counted)?;
    }
    let part = n.size("rotary_embedding_dim", n.int("rotary_embedding_dim", 0))?;
    let way = Rotation { part, interleaved: n.flag("interleaved", false) };
    let id = rotated(n, x, [cos, sin], Some(places), count, way)?;
    n.done(id)
}
