//! Operators of ONNX Runtime's own domain that its optimizer writes for several of the standard: products and convolutions with an
//! activation, activations with a bias, norms of sums, attention over heads, and products with weights of few bits.

use super::attention::{heads, rotated};
use super::elementwise::matmul;
use super::node::Node;
use super::normalize;
use super::spatial;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, GeluMode, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "FusedMatMul" => fused_matmul(n),
        "FusedConv" => fused_conv(n),
        "Gelu" | "BiasGelu" => gelu(n, GeluMode::Exact),
        "FastGelu" => gelu(n, GeluMode::Tanh),
        "QuickGelu" => {
            let (x, alpha) = (n.need(0)?, n.float("alpha", 1.702));
            let scaled = n.build().with(Binary::Mul, x, alpha)?;
            let gate = n.build().unary(Unary::Sigmoid, scaled)?;
            let id = n.build().binary(Binary::Mul, x, gate)?;
            n.done(id)
        }
        "SkipLayerNormalization" => norm_of_sum(n, 4),
        "SkipSimplifiedLayerNormalization" => norm_of_sum(n, 3),
        "MatMulNBits" => matmul_of_bits(n),
        "MultiHeadAttention" => multi_head_attention(n),
        "Attention" => attention(n),
        "RotaryEmbedding" => rotary(n),
        _ => Ok(false),
    }
}

fn fused_matmul(n: &mut Node) -> Result<bool, Error> {
    let (mut x, mut y) = (n.need(0)?, n.need(1)?);
    if n.flag("transBatchA", false) || n.flag("transBatchB", false) {
        return Err(n.unsupported("transposed axes of the batch"));
    }
    for (operand, name) in [(&mut x, "transA"), (&mut y, "transB")] {
        let rank = n.shape(*operand).len();
        if n.flag(name, false) && rank > 1 {
            let mut perm: Vec<usize> = (0..rank).collect();
            perm.swap(rank - 2, rank - 1);
            *operand = n.build().transpose(*operand, &perm)?;
        }
    }
    let alpha = n.float("alpha", 1.0);
    let product = matmul(n, x, y)?;
    let id = if alpha == 1.0 { product } else { n.build().with(Binary::Mul, product, alpha)? };
    n.done(id)
}

fn fused_conv(n: &mut Node) -> Result<bool, Error> {
    let operands: Vec<ValueId> = n.inputs.iter().take(3).copied().flatten().collect();
    n.need(1)?;
    let mut id = spatial::conv(n, &operands)?;
    if let Some(added) = n.input(3) {
        id = n.build().binary(Binary::Add, id, added)?;
    }
    let given = n.attribute("activation_params").map(|a| a.floats.clone()).unwrap_or_default();
    let param = |at: usize, default: f32| given.get(at).copied().unwrap_or(default);
    let activation = match n.text("activation").as_deref() {
        None | Some("") => None,
        Some("Relu") => Some(Unary::Relu),
        Some("Tanh") => Some(Unary::Tanh),
        Some("Sigmoid") => Some(Unary::Sigmoid),
        Some("LeakyRelu") => Some(Unary::LeakyRelu { alpha: param(0, 0.01) }),
        Some("Clip") => Some(Unary::Clip { min: param(0, f32::MIN), max: param(1, f32::MAX) }),
        Some("HardSigmoid") => Some(Unary::SigmoidHard { alpha: param(0, 0.2), beta: param(1, 0.5) }),
        Some(other) => return Err(n.unsupported(format!("activation `{other}`"))),
    };
    if let Some(f) = activation {
        id = n.build().unary(f, id)?;
    }
    n.done(id)
}

/// GELU of the operand and an optional bias.
fn gelu(n: &mut Node, mode: GeluMode) -> Result<bool, Error> {
    let mut x = n.need(0)?;
    if let Some(bias) = n.input(1) {
        x = n.build().binary(Binary::Add, x, bias)?;
    }
    let id = n.build().unary(Unary::Gelu(mode), x)?;
    n.done(id)
}

/// Norm over the last axis of the sum of the first two operands and the bias at this position; the sum is the fourth result.
fn norm_of_sum(n: &mut Node, bias: usize) -> Result<bool, Error> {
    let (x, skip) = (n.need(0)?, n.need(1)?);
    let mut sum = n.build().binary(Binary::Add, x, skip)?;
    if let Some(bias) = n.input(bias) {
        sum = n.build().binary(Binary::Add, sum, bias)?;
    }
    let (last, epsilon) = (n.axis(-1, n.shape(sum).len())?, n.float("epsilon", 1e-12));
    let id = match bias {
        3 => {
            let normed = normalize::by_root_mean_square(n, sum, &[last], epsilon)?;
            let gain = n.need(2)?;
            n.build().binary(Binary::Mul, normed, gain)?
        }
        _ => {
            let normed = n.build().standardize(sum, &[last], epsilon)?;
            normalize::affine(n, normed, 2)?
        }
    };
    n.output(0, id);
    n.output(3, sum);
    match n.node.output.iter().take(3).skip(1).any(|name| !name.is_empty()) {
        true => Err(n.unsupported("mean and deviation as results")),
        false => n.finish(4),
    }
}

/// A product with a transposed matrix of integers of few bits, each block of a row with a scale and a zero point.
fn matmul_of_bits(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (rows, columns) = (n.size("N", n.int("N", 0))?, n.size("K", n.int("K", 0))?);
    let (bits, block) = (n.size("bits", n.int("bits", 4))?, n.size("block_size", n.int("block_size", 0))?);
    let block_bits = block.saturating_mul(bits);
    if !matches!(bits, 2 | 4 | 8) || block == 0 || !block_bits.is_multiple_of(8) {
        return Err(n.unsupported(format!("blocks of {block} integers of {bits} bits")));
    }
    if n.input(4).is_some() {
        return Err(n.unsupported("groups in an order of their own (`g_idx`)"));
    }
    let (Some(packed), Some(scales)) = (n.constant(1, "B")?, n.constant(2, "scales")?) else {
        return Err(n.missing("B and scales"));
    };
    let (packed, scales) = (packed.data.to_i32(), scales.data.to_f32());
    let blocks = columns.div_ceil(block);
    // Before anything of these sizes is allocated.
    let count = rows.saturating_mul(blocks);
    if scales.len() != count || packed.len() != count.saturating_mul(block_bits / 8) {
        return Err(n.unsupported(format!("{} bytes and {} scales of {rows} rows", packed.len(), scales.len())));
    }
    let taken = |bytes: &[i32], at: usize| bytes.get(at * bits / 8).map(|b| b >> (at * bits % 8) & ((1 << bits) - 1));
    let zeros: Vec<f32> = match n.constant(3, "zero_points")? {
        None => vec![(1 << (bits - 1)) as f32; count],
        Some(zeros) if zeros.data.dtype().is_float() => zeros.data.to_f32(),
        Some(zeros) => {
            let bytes = zeros.data.to_i32();
            let row = (blocks * bits).div_ceil(8);
            let of = |i: usize| taken(bytes.get(i / blocks * row..)?, i % blocks);
            (0..count).map(|i| of(i).unwrap_or(0) as f32).collect()
        }
    };
    if zeros.len() != count {
        return Err(n.unsupported(format!("{} zero points of {count} blocks", zeros.len())));
    }
    let weight = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let at = row * blocks + column / block;
        (taken(&packed, row * blocks * block + column).unwrap_or(0) as f32 - zeros[at]) * scales[at]
    };
    let weights: Vec<f32> = (0..rows * columns).map(weight).collect();
    let matrix = n.build().floats([rows, columns], &weights, x);
    let mut id = n.build().matmul(x, matrix, true)?;
    if let Some(bias) = n.input(5) {
        id = n.build().binary(Binary::Add, id, bias)?;
    }
    n.done(id)
}

/// Operands of attention beside queries, keys and values.
struct Scores {
    /// Integers by item and key; keys with zero are hidden.
    mask: Option<ValueId>,
    added: Option<ValueId>,
}

/// Attention of queries, keys and values by head; the heads of the result are together.
fn attended(n: &mut Node, [q, k, v]: [ValueId; 3], scores: Scores) -> Result<ValueId, Error> {
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
    if let Some(added) = scores.added {
        all = n.build().binary(Binary::Add, all, added)?;
    }
    if let Some(mask) = scores.mask {
        let shape = n.shape(mask);
        if shape != [sq[0], keys] {
            return Err(n.unsupported(format!("a mask {shape:?} of {keys} keys")));
        }
        let mask = n.build().cast(mask, DType::Bool)?;
        let mask = n.build().reshape(mask, [sq[0], 1, 1, keys])?;
        let (shown, hidden) = (0.0, n.float("mask_filter_value", -1e4));
        let (shown, hidden) = (n.build().scalar(shown, all), n.build().scalar(hidden, all));
        let added = n.build().select(mask, shown, hidden)?;
        all = n.build().binary(Binary::Add, all, added)?;
    }
    if n.flag("unidirectional", false) {
        let past = keys.saturating_sub(steps);
        let mask = (0..steps * keys).map(|i| i % keys <= i / keys + past).collect();
        let mask = n.build().mask([steps, keys], mask);
        let hidden = n.build().scalar(f32::NEG_INFINITY, all);
        all = n.build().select(mask, all, hidden)?;
    }
    let weights = n.build().softmax(all, 3)?;
    let id = n.build().matmul(weights, v, false)?;
    let shape = n.shape(id);
    let id = n.build().transpose(id, &[0, 2, 1, 3])?;
    n.build().reshape(id, [shape[0], shape[2], shape[1] * shape[3]])
}

/// Refuses inputs from this position on.
fn none_from(n: &Node, first: usize, what: &str) -> Result<(), Error> {
    match (first..n.inputs.len()).any(|at| n.input(at).is_some()) {
        true => Err(n.unsupported(what)),
        false => Ok(()),
    }
}

fn multi_head_attention(n: &mut Node) -> Result<bool, Error> {
    none_from(n, 6, "past keys and values")?;
    let count = n.size("num_heads", n.int("num_heads", 0))?;
    let mut parts = [n.need(0)?, n.need(1)?, n.need(2)?];
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
    let scores = Scores { mask: n.input(4), added: n.input(5) };
    let id = attended(n, parts, scores)?;
    n.done(id)
}

/// Attention whose queries, keys and values are one product.
fn attention(n: &mut Node) -> Result<bool, Error> {
    if n.input(4).is_some() || n.input(6).is_some() || n.flag("do_rotary", false) {
        return Err(n.unsupported("past keys and values, or rotated ones"));
    }
    let (x, weights) = (n.need(0)?, n.need(1)?);
    let mut all = matmul(n, x, weights)?;
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
    let scores = Scores { mask: n.input(3), added: n.input(5) };
    let id = attended(n, parts, scores)?;
    n.done(id)
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
    let id = rotated(n, x, [cos, sin], Some(places), count)?;
    n.done(id)
}
