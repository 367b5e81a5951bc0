//! Norms over windows, and moves of pixel blocks between axes.

use super::{Builder, Built};
use crate::graph::ValueId;
use crate::ops::{Binary, OpKind, PoolKind, ReduceKind, Unary};

/// Directions of a move between pixel blocks and channels.
#[derive(Clone, Copy)]
pub enum Blocks {
    PixelShuffle,
    PixelUnshuffle,
    DepthToSpace,
    SpaceToDepth,
}

impl Builder {
    /// Local response norm: `x / (k + alpha / size * sum of squares over size channels) ^ beta`.
    pub fn local_response_norm(&mut self, x: ValueId, size: usize, alpha: f32, beta: f32, k: f32) -> Built {
        let shape = self.shape(x);
        let [n, c, ..] = shape[..] else { return Err(self.unsupported("local_response_norm", "no channel axis")) };
        let pixels: usize = shape[2..].iter().product();
        let square = self.unary(Unary::Square, x)?;
        let planes = self.reshape(square, [n, 1, c, pixels])?;
        let kind = PoolKind::Average { exclude_padding: false };
        let pads = vec![((size.max(1) - 1) / 2, size.max(1) / 2), (0, 0)];
        let pool = OpKind::Pool { kind, kernel: vec![size, 1], strides: vec![1, 1], pads, ceil_mode: false };
        let mean = self.op("mean", pool, &[planes])?;
        let mean = self.reshape(mean, shape)?;
        let scaled = self.with(Binary::Mul, mean, alpha)?;
        let base = self.with(Binary::Add, scaled, k)?;
        let power = self.with(Binary::Pow, base, -beta)?;
        self.binary(Binary::Mul, x, power)
    }

    /// `(x - mean) / sqrt(variance + epsilon)` over these axes, without gain and offset.
    pub fn standardize(&mut self, x: ValueId, axes: &[usize], epsilon: f32) -> Built {
        self.op("normed", OpKind::LayerNorm { axes: axes.to_vec(), epsilon }, &[x])
    }

    /// Logarithm of the softmax over an axis.
    pub fn log_softmax(&mut self, x: ValueId, axis: usize) -> Built {
        let sum = self.reduce(ReduceKind::LogSumExp, x, &[axis], true)?;
        self.binary(Binary::Sub, x, sum)
    }

    /// Blocks of `b` by `b` pixels of a `[N, C, H, W]`.
    pub fn pixel_blocks(&mut self, x: ValueId, b: usize, way: Blocks) -> Built {
        let shape = self.shape(x);
        let [n, c, h, w] = shape[..] else { return Err(self.unsupported("blocks", "operand not of rank 4")) };
        let to_space = matches!(way, Blocks::PixelShuffle | Blocks::DepthToSpace);
        let area = b.saturating_mul(b).max(1);
        let divides = if to_space { c % area == 0 } else { b != 0 && h % b == 0 && w % b == 0 };
        if b == 0 || !divides {
            return Err(self.unsupported("blocks", format!("blocks of {b} in extents {shape:?}")));
        }
        let few = c / area;
        let (apart, perm, to) = match way {
            Blocks::PixelShuffle => (vec![n, few, b, b, h, w], [0, 1, 4, 2, 5, 3], [n, few, h * b, w * b]),
            Blocks::DepthToSpace => (vec![n, b, b, few, h, w], [0, 3, 4, 1, 5, 2], [n, few, h * b, w * b]),
            Blocks::PixelUnshuffle => (vec![n, c, h / b, b, w / b, b], [0, 1, 3, 5, 2, 4], [n, c * area, h / b, w / b]),
            Blocks::SpaceToDepth => (vec![n, c, h / b, b, w / b, b], [0, 3, 5, 1, 2, 4], [n, c * area, h / b, w / b]),
        };
        let apart = self.reshape(x, apart)?;
        let moved = self.transpose(apart, &perm)?;
        self.reshape(moved, to)
    }

    /// Turns blocks of a padded `[N, C, spatial...]` into images of their own, block positions outermost.
    pub fn space_to_batch(&mut self, x: ValueId, blocks: &[usize], pads: &[(usize, usize)]) -> Built {
        let rank = self.rank(x);
        let mut all = vec![(0, 0); rank - pads.len()];
        all.extend(pads);
        let padded = self.op("padded", OpKind::Pad { pads: all, value: 0.0 }, &[x])?;
        let shape = self.shape(padded);
        let k = blocks.len();
        if (0..k).any(|i| blocks[i] == 0 || !shape[i + 2].is_multiple_of(blocks[i])) {
            return Err(self.unsupported("space_to_batch", format!("blocks {blocks:?} in extents {shape:?}")));
        }
        let mut apart = shape[..2].to_vec();
        (0..k).for_each(|i| apart.extend([shape[i + 2] / blocks[i], blocks[i]]));
        let mut perm: Vec<usize> = (0..k).map(|i| 3 + 2 * i).collect();
        perm.extend([0, 1]);
        perm.extend((0..k).map(|i| 2 + 2 * i));
        let apart = self.reshape(padded, apart)?;
        let moved = self.transpose(apart, &perm)?;
        let mut to = vec![shape[0] * blocks.iter().product::<usize>(), shape[1]];
        to.extend((0..k).map(|i| shape[i + 2] / blocks[i]));
        self.reshape(moved, to)
    }

    /// Inverse of [`Builder::space_to_batch`], with elements cropped at the ends.
    pub fn batch_to_space(&mut self, x: ValueId, blocks: &[usize], crops: &[(usize, usize)]) -> Built {
        let (shape, k) = (self.shape(x), blocks.len());
        let area: usize = blocks.iter().product();
        if area == 0 || shape[0] % area != 0 {
            return Err(self.unsupported("batch_to_space", format!("blocks {blocks:?} in extents {shape:?}")));
        }
        let mut apart = blocks.to_vec();
        apart.push(shape[0] / area);
        apart.extend(&shape[1..]);
        let mut perm = vec![k, k + 1];
        (0..k).for_each(|i| perm.extend([k + 2 + i, i]));
        let apart = self.reshape(x, apart)?;
        let moved = self.transpose(apart, &perm)?;
        let mut to = vec![shape[0] / area, shape[1]];
        to.extend((0..k).map(|i| shape[i + 2] * blocks[i]));
        let mut whole = self.reshape(moved, to.clone())?;
        for (i, &(before, after)) in crops.iter().enumerate() {
            let end = to[i + 2].checked_sub(after).filter(|&end| end > before);
            let end = end.ok_or_else(|| self.unsupported("batch_to_space", format!("crops {crops:?} of {to:?}")))?;
            whole = self.slice(whole, i + 2, before, end)?;
        }
        Ok(whole)
    }
}
