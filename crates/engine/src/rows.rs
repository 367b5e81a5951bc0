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
