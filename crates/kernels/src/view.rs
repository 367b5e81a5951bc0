//! Strided views of fp16 tensors, their partition into output tiles, and transpositions. Columns are contiguous.

use crate::arrays::MapEach;
use crate::host::{self, Rows, fetch};
use crate::simd;
use crate::tensor::Extents;
use half::f16;
use pulp::Simd;
use std::ops::Range;

mod tile;
mod transpose;

pub use tile::*;
pub use transpose::*;

/// Strides in elements: groups, channels, rows.
pub type Strides = [usize; 3];

/// Prefetch distance in elements. Rows of a matrix may be pages apart, so that the hardware prefetcher does not find the next one.
const PREFETCH_DISTANCE: usize = 1 << 11;

/// Read-only view of a strided tensor.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    pub data: &'a [f16],
    pub strides: Strides,
}

impl<'a> TensorView<'a> {
    /// The first `columns` elements of a row.
    #[inline]
    pub fn row(&self, g: usize, c: usize, h: usize, columns: usize) -> &'a [f16] {
        &self.data[g * self.strides[0] + c * self.strides[1] + h * self.strides[2]..][..columns]
    }

    /// The elements from the start of a row to the end of the data.
    #[inline(always)]
    pub fn from(&self, g: usize, c: usize, h: usize) -> &'a [f16] {
        &self.data[g * self.strides[0] + c * self.strides[1] + h * self.strides[2]..]
    }

    /// Prefetches the same columns of a later channel, for tensors with one row in each channel.
    #[inline(always)]
    pub fn fetch_after(&self, g: usize, c: usize, h: usize, columns: Range<usize>) {
        let c = c + (PREFETCH_DISTANCE / columns.len().max(1)).max(1);
        let row = g * self.strides[0] + c * self.strides[1] + h * self.strides[2];
        fetch(self.data.get(row + columns.start..row + columns.end).unwrap_or(&[]));
    }

    /// Copies a part of a channel to contiguous rows.
    #[inline(always)]
    pub fn gather(&self, g: usize, c: usize, part: &Part, to: &mut [f16]) {
        for (h, to) in part.rows.clone().zip(to.chunks_exact_mut(part.columns.len())) {
            copy_short(&self.row(g, c, h, part.columns.end)[part.columns.clone()], to);
        }
    }

    /// [`TensorView::gather`], widened to fp32.
    #[inline(always)]
    pub fn widen<S: Simd>(&self, simd: S, g: usize, c: usize, part: &Part, to: &mut [f32]) {
        let columns = part.columns.len();
        let rows = Rows { count: part.rows.len(), columns, from_stride: self.strides[2], to_stride: columns };
        simd::widen_rows(simd, &self.from(g, c, part.rows.start)[part.columns.start..], to, rows);
    }

    /// [`TensorView::widen`] from element `first` of the part on, for `to.len()` elements.
    #[inline(always)]
    pub fn widen_from<S: Simd>(&self, simd: S, g: usize, c: usize, part: &Part, first: usize, to: &mut [f32]) {
        let (columns, stride) = (part.columns.len(), self.strides[2]);
        let row = |i: usize| &self.from(g, c, part.rows.start + i / columns)[part.columns.start + i % columns..];
        if stride == columns {
            return simd::widen_rows(simd, row(first), to, Rows::one(to.len()));
        }
        // The rest of the first row, whole rows, and the beginning of the last one.
        let (begun, to) = to.split_at_mut(((columns - first % columns) % columns).min(to.len()));
        let whole = to.len() / columns * columns;
        let (whole, last) = to.split_at_mut(whole);
        let rows = Rows { count: whole.len() / columns, columns, from_stride: stride, to_stride: columns };
        let mut at = first;
        for (rows, to) in [(Rows::one(begun.len()), begun), (rows, whole), (Rows::one(last.len()), last)] {
            if !to.is_empty() {
                simd::widen_rows(simd, row(at), to, rows);
            }
            at += to.len();
        }
    }
}

/// Mutable view of a strided tensor.
pub struct TensorViewMut<'a> {
    pub data: &'a mut [f16],
    pub strides: Strides,
    /// True if the tensor is stored with channels and columns exchanged.
    pub transposed: bool,
}

impl TensorViewMut<'_> {
    /// Converts a transposed result with one column to an untransposed one, whose channels have stride 1.
    pub fn in_columns(mut self, ext: Extents) -> Self {
        if self.transposed && ext.w == 1 {
            (self.transposed, self.strides[1]) = (false, 1);
        }
        self
    }
}

/// Copies a short row without a call.
#[inline(always)]
pub fn copy_short<T: Copy>(from: &[T], to: &mut [T]) {
    match from.len() {
        8.. => copy_by::<T, 8>(from, to),
        4.. => copy_by::<T, 4>(from, to),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// [`copy_short`] for several rows.
#[inline(always)]
pub fn copy_rows(from: &[f16], to: &mut [f16], rows: Rows) {
    let Rows { count, columns, from_stride, to_stride } = rows;
    for row in 0..count {
        let (from, to) = (&from[row * from_stride..][..columns], &mut to[row * to_stride..][..columns]);
        match columns {
            32.. => copy_by::<f16, 32>(from, to),
            _ => copy_short(from, to),
        }
    }
}

/// Gathers elements with a stride, from the first one on. Out of line, so that LLVM does not vectorize it for the caller, which is slower.
#[inline(never)]
pub fn gather_elements(from: &[f16], stride: usize, to: &mut [f16]) {
    let mut at = 0;
    for to in to {
        *to = from[at];
        at += stride;
    }
}

/// Scatters elements with a stride; inverse of [`gather_elements`].
#[inline(never)]
pub fn scatter_elements(from: &[f16], stride: usize, to: &mut [f16]) {
    let mut at = 0;
    for from in from {
        to[at] = *from;
        at += stride;
    }
}

/// Gathers elements with a stride and broadcasts each to a contiguous row. Out of line, as [`gather_elements`].
#[inline(never)]
pub fn repeat_elements(from: &[f16], stride: usize, columns: usize, to: &mut [f16]) {
    match columns {
        65.. => each_repeated(from, stride, columns, to, |x, to| to.fill(x)),
        32.. => each_repeated(from, stride, columns, to, fill_ends::<32>),
        16.. => each_repeated(from, stride, columns, to, fill_ends::<16>),
        8.. => each_repeated(from, stride, columns, to, fill_ends::<8>),
        4.. => each_repeated(from, stride, columns, to, fill_ends::<4>),
        _ => each_repeated(from, stride, columns, to, |x, to| to.iter_mut().for_each(|to| *to = x)),
    }
}

#[inline(always)]
fn each_repeated(from: &[f16], stride: usize, columns: usize, to: &mut [f16], fill: impl Fn(f16, &mut [f16])) {
    for (row, to) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        fill(from[row * stride], to);
    }
}

/// Fills a row of `N` to `2 * N` elements with two overlapping pieces.
#[inline(always)]
fn fill_ends<const N: usize>(x: f16, to: &mut [f16]) {
    if let Some(to) = to.first_chunk_mut() {
        *to = [x; N];
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = [x; N];
    }
}

/// Copies a row in pieces of `N` elements; the last piece overlaps the one before.
#[inline(always)]
fn copy_by<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
    for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *to = *from;
    }
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

pub use crate::filter::BLOCK;

/// Strides of a dense tensor.
pub fn dense(ext: Extents) -> Strides {
    [ext.c * ext.plane(), ext.plane(), ext.w]
}

/// Number of elements from the first one to the end of the last one.
pub fn reach(ext: Extents, strides: Strides) -> usize {
    let steps = [ext.g, ext.c, ext.h].map_each(|n| n.saturating_sub(1));
    steps.iter().zip(strides).map(|(n, stride)| n * stride).sum::<usize>() + ext.w
}

/// Returns true if a result can be partitioned into disjoint tiles: rows lie within planes, or channels within rows, and both within
/// groups.
pub fn nested(ext: Extents, strides: Strides) -> bool {
    rows_outside(ext, strides).is_some()
}

/// Returns true if rows have a larger stride than channels; `None` if they overlap.
fn rows_outside(ext: Extents, [group, channel, row]: Strides) -> Option<bool> {
    let outline = |n: usize, stride: usize, least: usize| n <= 1 || stride >= least;
    let reach = |n: usize, stride: usize| (n.max(1) - 1) * stride;
    let fits = |(n, outer): (usize, usize), (m, inner): (usize, usize)| {
        let line = reach(m, inner) + ext.w;
        outline(m, inner, ext.w) && outline(n, outer, line) && outline(ext.g, group, reach(n, outer) + line)
    };
    let (channels, rows) = ((ext.c, channel), (ext.h, row));
    // Channels of a single row are then processed together.
    let outside = [ext.h == 1, ext.h != 1];
    outside.into_iter().find(|&outside| if outside { fits(rows, channels) } else { fits(channels, rows) })
}

/// Partitions a result into tiles of at most `rows` rows and `channels` channels. It must be [`nested`]; an empty result has no tiles.
pub fn partition(to: &mut [f16], ext: Extents, strides: Strides, rows: usize, channels: usize) -> Vec<OutputTile<'_>> {
    let mut shares = Vec::new();
    if ext.array().contains(&0) {
        return shares;
    }
    let (rows, channels) = (rows.max(1), channels.max(1));
    let rows_outside = rows_outside(ext, strides).unwrap_or(false);
    let down = ext.h.div_ceil(rows);
    // Lines are the axis with the larger stride: count, stride and tile size; `inside` is the same for the other axis.
    let (lines, inside) = ((ext.c, strides[1], channels), (ext.h, strides[2], rows));
    let (lines, inside) = if rows_outside { (inside, lines) } else { (lines, inside) };
    for (group, part) in parts(to, strides[0], ext.g).enumerate() {
        let before = shares.len();
        for first_channel in (0..ext.c).step_by(channels) {
            let channels = channels.min(ext.c - first_channel);
            shares.extend((0..ext.h).step_by(rows).map(|first_row| {
                let rows = rows.min(ext.h - first_row);
                let lines = Vec::with_capacity(if rows_outside { rows } else { channels });
                let (columns, stride) = (0..ext.w, inside.1);
                OutputTile { group, first_channel, first_row, rows, columns, channels, lines, rows_outside, stride }
            }));
        }
        for (i, line) in parts(part, lines.1, lines.0).enumerate() {
            for (j, piece) in parts(line, inside.2 * inside.1, inside.0.div_ceil(inside.2)).enumerate() {
                let (c, r) = if rows_outside { (j, i / lines.2) } else { (i / lines.2, j) };
                shares[before + c * down + r].lines.push(piece);
            }
        }
    }
    shares
}

/// Partitions a result of single rows into tiles of columns, one from each of `starts`, the first of which is 0. It must be [`nested`].
pub fn partition_columns<'a>(
    to: &'a mut [f16],
    ext: Extents,
    strides: Strides,
    starts: &[usize],
) -> Vec<OutputTile<'a>> {
    let mut shares = Vec::new();
    if ext.array().contains(&0) || ext.h != 1 {
        return shares;
    }
    for (group, part) in parts(to, strides[0], ext.g).enumerate() {
        let before = shares.len();
        let ends = starts.iter().skip(1).copied().chain([ext.w]);
        shares.extend(starts.iter().zip(ends).map(|(&start, end)| OutputTile {
            group,
            first_channel: 0,
            first_row: 0,
            rows: 1,
            columns: start..end,
            channels: ext.c,
            lines: Vec::with_capacity(ext.c),
            rows_outside: false,
            stride: ext.w,
        }));
        for mut row in parts(part, strides[1], ext.c) {
            for share in &mut shares[before..] {
                let (piece, rest) = std::mem::take(&mut row).split_at_mut(share.columns.len());
                share.lines.push(piece);
                row = rest;
            }
        }
    }
    shares
}

/// Splits a slice into `count` consecutive parts of `stride` elements; the last one takes the rest.
fn parts(mut whole: &mut [f16], stride: usize, count: usize) -> impl Iterator<Item = &mut [f16]> {
    (0..count).map(move |i| {
        let at = if i + 1 == count { whole.len() } else { stride.min(whole.len()) };
        let (part, rest) = std::mem::take(&mut whole).split_at_mut(at);
        whole = rest;
        part
    })
}
