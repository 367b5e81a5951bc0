//! Products whose coefficients are rows of fp16 elements in memory, as in attention. A row is widened where it is used and stays a row: the other
//! operand is seldom long enough to pay for packing panels, `[tap][channel]`, in every run.

use super::microkernel::{PANEL, run_vectors};
use crate::host::Rows;
use crate::simd::{self, outline};
use crate::view::gather_elements;
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Taps of a block. Blocks of a panel are `[channel][tap]`.
const DEPTH: usize = 16;

/// Matrix of coefficients in memory, one row a channel.
#[derive(Clone, Copy)]
pub struct RowMatrix<'a> {
    pub data: &'a [f16],
    /// Offset of the first coefficient of each row, by group, or for all groups; offset `first` is the start of `data`.
    pub starts: &'a [usize],
    pub first: usize,
    /// Elements between the taps of a row.
    pub stride: usize,
    pub taps: usize,
    /// Rows of a group.
    pub channels: usize,
}

impl RowMatrix<'_> {
    /// The rows of one group.
    pub fn of_group(self, group: usize) -> Self {
        let starts = self.starts.chunks(self.channels.max(1));
        RowMatrix { starts: starts.clone().nth(group).or(starts.clone().next()).unwrap_or(&[]), ..self }
    }

    /// Elements of a widened panel with `taps` taps.
    pub fn panel_elements(taps: usize) -> usize {
        taps.next_multiple_of(DEPTH) * PANEL
    }

    /// Widens some taps of the panel with first channel `first`. Rows beyond the last channel stay as they are.
    #[inline(always)]
    pub fn widen<S: Simd>(&self, simd: S, first: usize, taps: Range<usize>, to: &mut [f32]) {
        let all = taps.len().div_ceil(DEPTH);
        for (m, start) in self.starts[first..].iter().enumerate().take(PANEL) {
            let from = &self.data[start - self.first + taps.start * self.stride..];
            let to = &mut to[m * DEPTH..];
            // Taps past the last one are widened, and multiplied by nothing.
            let whole = if self.stride == 1 { all.min(from.len() / DEPTH) } else { 0 };
            if whole > 0 {
                let blocks = Rows { count: whole, columns: DEPTH, from_stride: DEPTH, to_stride: PANEL * DEPTH };
                simd::widen_rows(simd, from, to, blocks);
            }
            for block in whole..all {
                let mut some = [f16::ZERO; DEPTH];
                let count = DEPTH.min(taps.len() - block * DEPTH);
                gather_elements(&from[block * DEPTH * self.stride..], self.stride, &mut some[..count]);
                simd::widen_rows(simd, &some, &mut to[block * PANEL * DEPTH..], Rows::one(DEPTH));
            }
        }
    }
}

/// Register tile of a panel of rows by one packed run of outputs.
pub struct RowKernel<'a> {
    /// Blocks of coefficients, `[channel][tap]`.
    pub panel: &'a [f32],
    /// Rows whose sums are stored.
    pub height: usize,
    /// Operands, `[tap][output]`, each of whole vectors.
    pub source: &'a [f32],
    pub sums: &'a mut [f32],
    pub stride: usize,
    pub outputs: usize,
    /// As in [`super::microkernel::MicroKernel`].
    pub resume: bool,
}

impl WithSimd for RowKernel<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        macro_rules! tiles {
            ($($count: literal)*) => {
                match self.outputs.div_ceil(S::F32_LANES) {
                    $($count if const { $count <= run_vectors::<S>() } => outline(simd, Tile::<$count>(self)),)*
                    _ => {}
                }
            };
        }
        tiles!(1 2 3 4);
    }
}

/// Register tile of `N` vectors of outputs.
struct Tile<'a, const N: usize>(RowKernel<'a>);

impl<const N: usize> WithSimd for Tile<'_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RowKernel { panel, height, source, sums: to, stride, resume, .. } = self.0;
        let run = N * S::F32_LANES;
        let mut sums = [[simd.splat_f32s(0.0); N]; PANEL];
        if resume {
            for (m, sums) in sums.iter_mut().enumerate().take(height) {
                *sums = simd::load::<S, N>(&to[m * stride..][..run]);
            }
        }
        let (blocks, _) = panel.as_chunks::<DEPTH>();
        for (block, source) in blocks.as_chunks::<PANEL>().0.iter().zip(source.chunks(DEPTH * run)) {
            for (tap, x) in source.chunks_exact(run).enumerate() {
                let x = simd::load::<S, N>(x);
                for m in 0..PANEL {
                    let weight = simd.splat_f32s(block[m][tap % DEPTH]);
                    for n in 0..N {
                        sums[m][n] = simd.mul_add_f32s(weight, x[n], sums[m][n]);
                    }
                }
            }
        }
        for (m, sums) in sums.iter().enumerate().take(height) {
            S::as_mut_simd_f32s(&mut to[m * stride..][..run]).0.copy_from_slice(sums);
        }
    }
}
