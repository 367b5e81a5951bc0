//! Tensors of fp16 where they lie: rows of contiguous columns at any distance.

use crate::tensor::Extents;
use half::f16;

/// Distances in elements: groups, channels, rows.
pub(crate) type Strides = [usize; 3];

/// A tensor to be read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) data: &'a [f16],
    pub(crate) strides: Strides,
}

impl<'a> Source<'a> {
    /// `columns` elements of a row.
    pub(crate) fn row(&self, g: usize, c: usize, h: usize, columns: usize) -> &'a [f16] {
        &self.data[g * self.strides[0] + c * self.strides[1] + h * self.strides[2]..][..columns]
    }
}

/// Some rows of some channels of a result: what one thread writes.
pub(crate) struct Share<'a> {
    pub(crate) group: usize,
    pub(crate) first_channel: usize,
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
    /// By channel, from its first row on.
    planes: Vec<&'a mut [f16]>,
    row_stride: usize,
}

impl Share<'_> {
    pub(crate) fn channels(&self) -> usize {
        self.planes.len()
    }

    /// A row of the share, both counted from its first.
    pub(crate) fn row(&mut self, channel: usize, row: usize, columns: usize) -> &mut [f16] {
        &mut self.planes[channel][row * self.row_stride..][..columns]
    }
}

/// Side of the squares that are turned at a time.
pub(crate) const SQUARE: usize = 32;

/// Results by channel, then row and column, for a share in which channels and columns are exchanged.
pub(crate) struct Turned<'a> {
    pub(crate) data: &'a [f16],
    /// Elements between channels.
    pub(crate) stride: usize,
    /// Columns of a row.
    pub(crate) columns: usize,
    /// First channel.
    pub(crate) first: usize,
}

impl Turned<'_> {
    /// Stores `channels`, for `rows` from a row on, and for all columns, from a column of the share on.
    #[inline(always)]
    pub(crate) fn store(&self, share: &mut Share, first_row: usize, rows: usize, column: usize, channels: usize) {
        let mut square = [[f16::ZERO; SQUARE]; SQUARE];
        for row in 0..rows {
            for c in (0..channels).step_by(SQUARE) {
                let height = SQUARE.min(channels - c);
                for w in (0..self.columns).step_by(SQUARE) {
                    let width = SQUARE.min(self.columns - w);
                    for (i, line) in square.iter_mut().enumerate().take(height) {
                        let at = (c + i) * self.stride + row * self.columns + w;
                        line[..width].copy_from_slice(&self.data[at..][..width]);
                    }
                    let to = self.first + c..self.first + c + height;
                    for j in 0..width {
                        let to = &mut share.row(column + w + j, first_row + row, to.end)[to.clone()];
                        turn_line(&square, j, to);
                    }
                }
            }
        }
    }
}

/// Column `j` of a square.
#[inline(always)]
fn turn_line(square: &[[f16; SQUARE]; SQUARE], j: usize, to: &mut [f16]) {
    match to.first_chunk_mut::<SQUARE>() {
        Some(to) => *to = std::array::from_fn(|i| square[i][j]),
        None => to.iter_mut().zip(square).for_each(|(to, line)| *to = line[j]),
    }
}

/// Strides of rows, channels and groups that follow each other without gaps.
pub(crate) fn dense(ext: Extents) -> Strides {
    [ext.c * ext.plane(), ext.plane(), ext.w]
}

/// Elements from the first to one past the last.
pub(crate) fn reach(ext: Extents, strides: Strides) -> usize {
    let steps = [ext.g, ext.c, ext.h].map(|n| n.saturating_sub(1));
    steps.iter().zip(strides).map(|(n, stride)| n * stride).sum::<usize>() + ext.w
}

/// Whether rows lie within planes, and planes within groups, so that a result can be cut into shares.
pub(crate) fn nested(ext: Extents, [group, channel, row]: Strides) -> bool {
    let plane = (ext.h.max(1) - 1) * row + ext.w;
    (ext.h <= 1 || row >= ext.w)
        && (ext.c <= 1 || channel >= plane)
        && (ext.g <= 1 || group >= (ext.c.max(1) - 1) * channel + plane)
}

/// Cuts a result into shares of at most so many rows and channels. It must be [`nested`].
pub(crate) fn cut(to: &mut [f16], ext: Extents, strides: Strides, rows: usize, channels: usize) -> Vec<Share<'_>> {
    let mut shares = Vec::new();
    for (group, part) in parts(to, strides[0], ext.g).enumerate() {
        let before = shares.len();
        for first_channel in (0..ext.c).step_by(channels) {
            shares.extend((0..ext.h).step_by(rows).map(|first_row| Share {
                group,
                first_channel,
                first_row,
                rows: rows.min(ext.h - first_row),
                planes: Vec::with_capacity(channels.min(ext.c - first_channel)),
                row_stride: strides[2],
            }));
        }
        let blocks = ext.h.div_ceil(rows);
        for (c, plane) in parts(part, strides[1], ext.c).enumerate() {
            for (block, piece) in parts(plane, rows * strides[2], blocks).enumerate() {
                shares[before + c / channels * blocks + block].planes.push(piece);
            }
        }
    }
    shares
}

/// So many consecutive parts, `stride` apart; the last one takes what is left.
fn parts(mut whole: &mut [f16], stride: usize, count: usize) -> impl Iterator<Item = &mut [f16]> {
    (0..count).map(move |i| {
        let at = if i + 1 == count { whole.len() } else { stride.min(whole.len()) };
        let (part, rest) = std::mem::take(&mut whole).split_at_mut(at);
        whole = rest;
        part
    })
}
