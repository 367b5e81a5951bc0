//! A convolution's geometry.

use crate::number::packed::{Columns, Weights, product};
use anemone_facts::numerics::Mac;
use rayon::prelude::*;

/// fp32 elements of unfolded input that one block of a convolution may take (4 MiB: stays in a core's cache share).
const BLOCK_ELEMENTS: usize = 1 << 20;

/// Kernel, stride, leading padding, source and result; rows first.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) k: [usize; 2],
    pub(crate) s: [usize; 2],
    pub(crate) p: [usize; 2],
    pub(crate) from: [usize; 2],
    pub(crate) to: [usize; 2],
}

impl Window {
    /// Output columns whose input column for kernel column `kw` lies inside the source.
    fn columns(&self, kw: usize) -> std::ops::Range<usize> {
        let (s, p, n) = (self.s[1], self.p[1], self.from[1]);
        let first = p.saturating_sub(kw).div_ceil(s);
        let last = (n + p).saturating_sub(kw).div_ceil(s).min(self.to[1]);
        first.min(last)..last
    }

    /// Input row of kernel row `kh` for output row `oh`.
    fn row(&self, oh: usize, kh: usize) -> Option<usize> {
        (oh * self.s[0] + kh).checked_sub(self.p[0]).filter(|&h| h < self.from[0])
    }

    /// As the device's array sums, bias included: `cout` outputs at a time from the `cin` channels that they read.
    pub(crate) fn exact(
        &self,
        mac: &Mac,
        from: &[f32],
        to: &mut [f32],
        weights: &[Weights],
        biases: Option<&[f32]>,
        cin: usize,
        cout: usize,
    ) {
        let taps = cin * self.k[0] * self.k[1];
        let (in_set, columns) = (cin * self.from[0] * self.from[1], self.to[0] * self.to[1]);
        if taps == 0 || columns == 0 {
            return;
        }
        let rows = (BLOCK_ELEMENTS / (taps * self.to[1])).clamp(1, self.to[0]);
        let mut unfolded = vec![0.0; taps * rows * self.to[1]];
        let mut block = vec![0.0; cout * rows * self.to[1]];
        for (set, (to, weights)) in to.chunks_exact_mut((cout * columns).max(1)).zip(weights).enumerate() {
            let bias = biases.map_or(&[][..], |b| &b[set * cout..][..cout]);
            // Dense outputs all read the whole group; a unicast output reads channels of its own.
            let from = &from[(set * in_set).min(from.len() - in_set)..][..in_set];
            for first in (0..self.to[0]).step_by(rows) {
                let n = rows.min(self.to[0] - first) * self.to[1];
                self.unfold(from, &mut unfolded[..taps * n], first, n);
                let block = &mut block[..cout * n];
                product(weights, &Columns::pack(mac, taps, n, &unfolded[..taps * n]), bias, block);
                for (to, row) in to.chunks_exact_mut(columns).zip(block.chunks_exact(n)) {
                    to[first * self.to[1]..][..n].copy_from_slice(row);
                }
            }
        }
    }

    /// im2col: row `(c, kh, kw)` holds the input element under that coefficient for `n` outputs from row `first` on.
    fn unfold(&self, from: &[f32], to: &mut [f32], first: usize, n: usize) {
        let plane = self.from[0] * self.from[1];
        let window = self.k[0] * self.k[1];
        to.par_chunks_mut(n).enumerate().for_each(|(tap, to)| {
            let (c, kh, kw) = (tap / window, tap % window / self.k[1], tap % self.k[1]);
            let plane = &from[c * plane..][..plane];
            let columns = self.columns(kw);
            for (i, row) in to.chunks_exact_mut(self.to[1]).enumerate() {
                let source = self.row(first + i, kh).filter(|_| !columns.is_empty());
                let Some(h) = source else {
                    row.fill(0.0);
                    continue;
                };
                row[..columns.start].fill(0.0);
                row[columns.end..].fill(0.0);
                let at = columns.start * self.s[1] + kw - self.p[1];
                let source = &plane[h * self.from[1] + at..(h + 1) * self.from[1]];
                let row = &mut row[columns.clone()];
                if self.s[1] == 1 {
                    row.copy_from_slice(&source[..row.len()]);
                } else {
                    row.iter_mut().zip(source.iter().step_by(self.s[1])).for_each(|(y, &x)| *y = x);
                }
            }
        });
    }
}
