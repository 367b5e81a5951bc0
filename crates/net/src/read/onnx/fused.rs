//! Operators of ONNX Runtime's own domain that its optimizer writes for several of the standard: products and convolutions with an
//! activation, activations with a bias, norms of sums, and products with weights of few bits.

use super::elementwise::{gemm, matmul};
use super::node::Node;
use super::normalize;
use super::spatial;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, GeluMode, ReduceKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "FusedMatMul" | "TransposeMatMul" => fused_matmul(n),
        "FusedConv" => fused_conv(n),
        "FusedGemm" => {
            let id = gemm(n)?;
            let given: Vec<f32> = ["activation_alpha", "activation_beta"]
                .iter()
                .map_while(|name| n.attribute(name).map(|a| a.f))
                .collect();
            activated(n, id, &given)
        }
        "Gelu" | "BiasGelu" => gelu(n, GeluMode::Exact),
        "FastGelu" => gelu(n, GeluMode::Tanh),
        "QuickGelu" => {
            let (x, alpha) = (n.need(0)?, n.float("alpha", 1.702));
            let scaled = n.build().with(Binary::Mul, x, alpha)?;
            let gate = n.build().unary(Unary::Sigmoid, scaled)?;
            let id = n.build().binary(Binary::Mul, x, gate)?;
            n.done(id)
        }
        "EmbedLayerNormalization" => embedded(n),
        "SkipLayerNormalization" => norm_of_sum(n, 4),
        "SkipSimplifiedLayerNormalization" => norm_of_sum(n, 3),
        "MatMulNBits" => matmul_of_bits(n),
        _ => super::heads::translate(n),
    }
}

fn fused_matmul(n: &mut Node) -> Result<bool, Error> {
    let (mut x, mut y) = (n.need(0)?, n.need(1)?);
    for (operand, name, batch) in [(&mut x, "transA", "transBatchA"), (&mut y, "transB", "transBatchB")] {
        let rank = n.shape(*operand).len();
        let mut perm: Vec<usize> = (0..rank).collect();
        // The first axis is then one of the matrix, and the axes of the batch are behind it.
        if n.flag(batch, false) && rank > 2 {
            perm[..rank - 1].rotate_left(1);
        }
        if n.flag(name, false) && rank > 1 {
            perm.swap(rank - 2, rank - 1);
        }
        if !perm.is_sorted() {
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
    activated_by_params(n, id)
}

/// The operand after the activation that the node names, with the numbers of its attribute.
pub fn activated_by_params(n: &mut Node, id: ValueId) -> Result<bool, Error> {
    let given = n.attribute("activation_params").map(|a| a.floats.clone()).unwrap_or_default();
    activated(n, id, &given)
}

/// The operand after the activation that the node names, with these numbers.
fn activated(n: &mut Node, mut id: ValueId, given: &[f32]) -> Result<bool, Error> {
    let param = |at: usize, default: f32| given.get(at).copied().unwrap_or(default);
    let activation = match n.text("activation").as_deref() {
        None | Some("") => None,
        Some("Relu") => Some(Unary::Relu),
        Some("Tanh") => Some(Unary::Tanh),
        Some("Sigmoid") => Some(Unary::Sigmoid),
        Some("Softplus") => Some(Unary::Softplus),
        Some("Softsign") => Some(Unary::Softsign),
        Some("Elu") => Some(Unary::Elu { alpha: param(0, 1.0) }),
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

/// The norm of rows of tables: of words, positions and, if given, segments. The second result counts the words that a mask shows.
fn embedded(n: &mut Node) -> Result<bool, Error> {
    let (words, table, places) = (n.need(0)?, n.need(2)?, n.need(3)?);
    let &[batch, steps] = n.shape(words).as_slice() else { return Err(n.unsupported("words not of rank 2")) };
    if n.int("mask_index_type", 1) > 1 {
        return Err(n.unsupported("a mask of two numbers an item"));
    }
    let mut sum = n.build().gather(table, words, 0)?;
    let places = match n.input(8) {
        Some(given) => n.build().gather(places, given, 0)?,
        None => n.build().slice(places, 0, 0, steps)?,
    };
    sum = n.build().binary(Binary::Add, sum, places)?;
    if let (Some(segments), Some(table)) = (n.input(1), n.input(4)) {
        let own = n.build().gather(table, segments, 0)?;
        sum = n.build().binary(Binary::Add, sum, own)?;
    }
    let epsilon = n.float("epsilon", 1e-12);
    let normed = n.build().standardize(sum, &[2], epsilon)?;
    let id = normalize::affine(n, normed, 5)?;
    n.output(0, id);
    let shown = match n.input(7) {
        Some(mask) => {
            let mask = n.build().cast(mask, DType::I32)?;
            n.build().reduce(ReduceKind::Sum, mask, &[1], false)?
        }
        None => n.build().integers([batch], vec![0; batch]),
    };
    n.output(1, shown);
    n.output(2, sum);
    n.finish(3)
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
