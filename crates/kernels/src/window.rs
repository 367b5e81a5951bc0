//! Geometry of convolution and pooling windows.

use crate::num;
use crate::view::{Part, TensorView, copy_short};
use half::f16;
use std::ops::Range;

/// Elements that are gathered before a conversion.
const GATHERED: usize = 256;

/// Geometry of a window: kernel size, stride, leading padding, source size and result size; each as rows, columns.
#[derive(Clone, Debug)]
pub struct Window {
    pub k: [usize; 2],
    pub s: [usize; 2],
    pub p: [usize; 2],
    pub from: [usize; 2],
    pub to: [usize; 2],
}

impl Window {
    /// Elements of the kernel of one channel.
    pub fn elements(&self) -> usize {
        self.k[0] * self.k[1]
    }

    /// Returns true for a 1x1 window without stride and padding.
    pub fn is_pointwise(&self) -> bool {
        self.k == [1, 1] && self.s == [1, 1] && self.p == [0, 0] && self.from == self.to
    }

    /// Input rows, padding included, that the windows of a range of output rows cover: their number, which of them are inside the source, and
    /// the source row of the first of those.
    pub fn input_rows(&self, [first_row, rows]: [usize; 2]) -> (usize, Range<usize>, usize) {
        let (covered, top) = (rows.saturating_sub(1) * self.s[0] + self.k[0], first_row * self.s[0]);
        let begin = self.p[0].saturating_sub(top).min(covered);
        let end = (self.from[0] + self.p[0]).saturating_sub(top).clamp(begin, covered);
        (covered, begin..end, (top + begin).saturating_sub(self.p[0]))
    }

    /// Gathers one row of the im2col matrix, widened: the operands of a part's outputs, from output `first` on, for one tap of the channels
    /// from `first_channel` on. Padding is zero.
    #[inline(always)]
    pub fn gather_tap(
        &self,
        source: TensorView,
        group: usize,
        first_channel: usize,
        part: &Part,
        tap: usize,
        first: usize,
        to: &mut [f32],
    ) {
        let [n, width] = [self.from[1], part.columns.len()];
        let (c, kh, kw) = (tap / self.elements(), tap % self.elements() / self.k[1], tap % self.k[1]);
        let mut gathered = [f16::ZERO; GATHERED];
        let mut output = first;
        for to in to.chunks_mut(GATHERED) {
            let mut rest = &mut gathered[..to.len()];
            while !rest.is_empty() && width > 0 {
                let (row, column) = (part.rows.start + output / width, part.columns.start + output % width);
                let (piece, left) = rest.split_at_mut((width - output % width).min(rest.len()));
                output += piece.len();
                rest = left;
                let inside = (row * self.s[0] + kh).checked_sub(self.p[0]).filter(|&h| h < self.from[0]);
                let Some(h) = inside else {
                    piece.fill(f16::ZERO);
                    continue;
                };
                let source = source.row(group, first_channel + c, h, n);
                // Input column of output column `o` is `o * s + kw - p`.
                let (s, p) = (self.s[1], self.p[1]);
                let begin = p.saturating_sub(kw).div_ceil(s).saturating_sub(column).min(piece.len());
                let end = (n + p).saturating_sub(kw).div_ceil(s).saturating_sub(column).clamp(begin, piece.len());
                piece[..begin].fill(f16::ZERO);
                piece[end..].fill(f16::ZERO);
                if begin == end {
                    continue;
                }
                let at = (column + begin) * s + kw - p;
                let piece = &mut piece[begin..end];
                if s == 1 {
                    copy_short(&source[at..at + piece.len()], piece);
                } else {
                    piece.iter_mut().zip(source[at..].iter().step_by(s)).for_each(|(to, x)| *to = *x);
                }
            }
            num::widen_row(&gathered[..to.len()], to);
        }
    }
}
