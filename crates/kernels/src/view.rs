//! Strided views of fp16 tensors, their partition into output tiles, and transposes. Columns are contiguous.

use crate::host::{Rows, fetch};
use crate::simd;
use crate::tensor::Extents;
use half::f16;
use pulp::Simd;
use std::ops::Range;

/// Distances in elements: groups, channels, rows.
pub type Strides = [usize; 3];

/// Numbers between those that are read of a matrix and those that are asked for meanwhile: its rows may be pages apart, and
/// nothing else fetches the next one.
const PREFETCH_DISTANCE: usize = 1 << 11;

/// A strided tensor to read.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    pub data: &'a [f16],
    pub strides: Strides,
}

impl<'a> TensorView<'a> {
    /// `columns` elements of a row.
    pub fn row(&self, g: usize, c: usize, h: usize, columns: usize) -> &'a [f16] {
        &self.data[g * self.strides[0] + c * self.strides[1] + h * self.strides[2]..][..columns]
    }

    /// All from a row on.
    #[inline(always)]
    pub fn from(&self, g: usize, c: usize, h: usize) -> &'a [f16] {
        &self.data[g * self.strides[0] + c * self.strides[1] + h * self.strides[2]..]
    }

    /// Asks for the same columns of a later channel, which will be read soon where each channel has one row.
    #[inline(always)]
    pub fn fetch_after(&self, g: usize, c: usize, h: usize, columns: Range<usize>) {
        let c = c + (PREFETCH_DISTANCE / columns.len().max(1)).max(1);
        let row = g * self.strides[0] + c * self.strides[1] + h * self.strides[2];
        fetch(self.data.get(row + columns.start..row + columns.end).unwrap_or(&[]));
    }

    /// A part of a channel, row by row without gaps.
    #[inline(always)]
    pub fn gather(&self, g: usize, c: usize, part: &Part, to: &mut [f16]) {
        for (h, to) in part.rows.clone().zip(to.chunks_exact_mut(part.columns.len())) {
            copy_short(&self.row(g, c, h, part.columns.end)[part.columns.clone()], to);
        }
    }

    /// As [`TensorView::gather`], widened.
    #[inline(always)]
    pub fn widen<S: Simd>(&self, simd: S, g: usize, c: usize, part: &Part, to: &mut [f32]) {
        let columns = part.columns.len();
        let rows = Rows { count: part.rows.len(), columns, from_stride: self.strides[2], to_stride: columns };
        simd::widen_rows(simd, &self.from(g, c, part.rows.start)[part.columns.start..], to, rows);
    }

    /// Elements of a part from one on, row by row without gaps, widened.
    #[inline(always)]
    pub fn widen_from<S: Simd>(&self, simd: S, g: usize, c: usize, part: &Part, first: usize, to: &mut [f32]) {
        let (columns, stride) = (part.columns.len(), self.strides[2]);
        let row = |i: usize| &self.from(g, c, part.rows.start + i / columns)[part.columns.start + i % columns..];
        if stride == columns {
            return simd::widen_rows(simd, row(first), to, Rows::one(to.len()));
        }
        // What is left of a row, whole rows, and what of another is asked for.
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

/// Copies a row that may be a few elements long, without a call.
#[inline(always)]
pub fn copy_short<T: Copy>(from: &[T], to: &mut [T]) {
    match from.len() {
        8.. => copy_by::<T, 8>(from, to),
        4.. => copy_by::<T, 4>(from, to),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// Copies rows that may be a few elements long.
#[inline(always)]
pub fn copy_rows(from: &[f16], to: &mut [f16], rows: Rows) {
    let Rows { count, columns, from_stride, to_stride } = rows;
    for row in 0..count {
        copy_short(&from[row * from_stride..][..columns], &mut to[row * to_stride..][..columns]);
    }
}

/// The last piece overlaps the one before.
#[inline(always)]
fn copy_by<T: Copy, const N: usize>(from: &[T], to: &mut [T]) {
    to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0).for_each(|(to, from)| *to = *from);
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
}

/// An output tile: some rows of some channels of a result, written by one thread.
pub struct OutputTile<'a> {
    pub group: usize,
    pub first_channel: usize,
    pub first_row: usize,
    pub rows: usize,
    channels: usize,
    /// By channel, from its first row on; or by row, from its first channel on.
    lines: Vec<&'a mut [f16]>,
    rows_outside: bool,
    /// Between rows of a channel, or between channels of a row.
    stride: usize,
}

impl OutputTile<'_> {
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// A row of the share, both counted from its first.
    pub fn row(&mut self, channel: usize, row: usize, columns: usize) -> &mut [f16] {
        let (line, at) = if self.rows_outside { (row, channel) } else { (channel, row) };
        &mut self.lines[line][at * self.stride..][..columns]
    }

    /// All rows of a channel of the share, where one begins where another ends.
    pub fn plane(&mut self, channel: usize, columns: usize) -> Option<&mut [f16]> {
        let whole = !self.rows_outside && (self.rows == 1 || self.stride == columns);
        whole.then(|| &mut self.lines[channel][..self.rows * columns])
    }

    /// Visits the tile in blocks of at most `most` elements, or one row of `columns`.
    #[inline(always)]
    pub fn blocks(&mut self, columns: usize, most: usize, mut work: impl FnMut(Block, &mut [f16])) {
        let (lines, beside) = if self.rows_outside { (self.rows, self.channels) } else { (self.channels, self.rows) };
        let at_once = (most / columns.max(1)).clamp(1, beside.max(1));
        for line in 0..lines {
            for first in (0..beside).step_by(at_once) {
                let [c, h] = if self.rows_outside { [first, line] } else { [line, first] };
                let first_row = [self.group, self.first_channel + c, self.first_row + h];
                let count = at_once.min(beside - first);
                let block = Block { first_row, count, columns, channels: self.rows_outside, to_stride: self.stride };
                work(block, &mut self.lines[line][first * self.stride..]);
            }
        }
    }

    /// Stores a channel's rows by `by`, from a channel, row and column of the tile on; `rows` is their layout in `from`, which may be
    /// overwritten.
    #[inline(always)]
    pub fn store_channel(
        &mut self,
        [channel, row, column]: [usize; 3],
        from: &mut [f32],
        rows: Rows,
        by: impl Fn(&mut [f32], &mut [f16], Rows),
    ) {
        let to_stride = self.stride;
        if !self.rows_outside {
            let to = &mut self.lines[channel][row * to_stride + column..];
            return by(from, to, Rows { to_stride, ..rows });
        }
        for (line, from) in self.lines[row..].iter_mut().zip(from.chunks_mut(rows.from_stride)).take(rows.count) {
            by(from, &mut line[channel * to_stride + column..], Rows { count: 1, ..rows });
        }
    }

    /// Stores some channels' rows by `by`, from a channel, row and column of the share on; channels are `stride` apart in
    /// `from`, and `rows` says how rows lie there.
    #[inline(always)]
    pub fn store<T>(
        &mut self,
        place: [usize; 3],
        channels: usize,
        from: &[T],
        stride: usize,
        rows: Rows,
        by: impl Fn(&[T], &mut [f16], Rows),
    ) {
        self.store_lines(
            place,
            channels,
            from,
            stride,
            rows,
            #[inline(always)]
            |_, from, to, rows| by(from, to, rows),
        );
    }

    /// `other` at this position, with its inner and outer stride.
    #[inline(always)]
    pub fn beside<'a>(&self, [channel, row, column]: [usize; 3], other: TensorView<'a>) -> (&'a [f16], usize, usize) {
        let from = &other.from(self.group, self.first_channel + channel, self.first_row + row)[column..];
        let [_, channel, row] = other.strides;
        if self.rows_outside { (from, channel, row) } else { (from, row, channel) }
    }

    /// As [`OutputTile::store`]; `by` gets the number of each line as well, counted from the first that is stored to.
    #[inline(always)]
    pub fn store_lines<T>(
        &mut self,
        [first_channel, first_row, first_column]: [usize; 3],
        channels: usize,
        from: &[T],
        stride: usize,
        rows: Rows,
        by: impl Fn(usize, &[T], &mut [f16], Rows),
    ) {
        // What lies side by side in a line.
        let (lines, first_line, next, first, beside, from_stride) = match self.rows_outside {
            true => (rows.count, first_row, rows.from_stride, first_channel, channels, stride),
            false => (channels, first_channel, stride, first_row, rows.count, rows.from_stride),
        };
        let to_stride = self.stride;
        for (i, line) in self.lines[first_line..][..lines].iter_mut().enumerate() {
            let to = &mut line[first * to_stride + first_column..];
            by(i, &from[i * next..], to, Rows { count: beside, columns: rows.columns, from_stride, to_stride });
        }
    }
}

/// Rows that are worked on together: of one channel, or the same row of several channels.
#[derive(Clone, Copy)]
pub struct Block {
    /// Group, channel and row.
    pub first_row: [usize; 3],
    pub count: usize,
    pub columns: usize,
    /// Whether they are rows of several channels.
    channels: bool,
    /// Between them in the result.
    to_stride: usize,
}

impl Block {
    /// Rows of one channel that are not stored.
    pub fn of(first_row: [usize; 3], count: usize, columns: usize) -> Block {
        Block { first_row, count, columns, channels: false, to_stride: 0 }
    }

    pub fn elements(&self) -> usize {
        self.count * self.columns
    }

    pub fn is_of_one_channel(&self) -> bool {
        !self.channels || self.count == 1
    }

    /// Group, channel and row of one of its rows.
    pub fn row(&self, i: usize) -> [usize; 3] {
        let [g, c, h] = self.first_row;
        if self.channels { [g, c + i, h] } else { [g, c, h + i] }
    }

    /// A source from its first row on, and how far apart its rows are there.
    #[inline(always)]
    pub fn of_source<'a>(&self, source: TensorView<'a>) -> (&'a [f16], usize) {
        let [g, c, h] = self.first_row;
        (source.from(g, c, h), source.strides[if self.channels { 1 } else { 2 }])
    }

    /// Where its elements, without gaps, go.
    pub fn stored(&self) -> Rows {
        let &Block { count, columns, to_stride, .. } = self;
        Rows { count, columns, from_stride: columns, to_stride }
    }

    /// Stores its elements, without gaps.
    #[inline(always)]
    pub fn store(&self, from: &[f16], to: &mut [f16]) {
        copy_rows(from, to, self.stored());
    }
}

/// Rows and columns of outputs of one group, before a result is turned.
pub struct Part {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Part {
    /// A share in parts of about so many outputs. `columns` are those stored; in a share of a turned result its channels
    /// are the outputs' columns.
    pub fn all(
        share: &OutputTile,
        columns: usize,
        transposed: bool,
        most: usize,
    ) -> impl Iterator<Item = Part> + use<> {
        let (first, across) = if transposed { (share.first_channel, share.channels) } else { (0, columns) };
        let (first_row, rows) = (share.first_row, share.rows);
        let at_once = (most / across.max(1)).clamp(1, rows.max(1));
        (0..rows).step_by(at_once).flat_map(move |row| {
            (0..across).step_by(most).map(move |column| Part {
                rows: first_row + row..first_row + rows.min(row + at_once),
                columns: first + column..first + across.min(column + most),
            })
        })
    }

    pub fn outputs(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Stores `count` channels of this part's results: by channel, `stride` apart, then by output. `first` counts in the
    /// share, or in the whole result where it is turned.
    #[inline(always)]
    pub fn store(
        &self,
        data: &[f16],
        stride: usize,
        share: &mut OutputTile,
        transposed: Option<&mut Squares>,
        first: usize,
        count: usize,
    ) {
        if let Some(squares) = transposed {
            let from = Transposed { data, stride, columns: self.columns.len(), first };
            let (row, column) = (self.rows.start - share.first_row, self.columns.start - share.first_channel);
            return from.store(squares, share, row, self.rows.len(), column, count);
        }
        share.store(self.place(share, first), count, data, stride, self.gapless(), copy_rows);
    }

    /// Where a channel's first result goes in a share, counted from the share's first channel, row and column.
    pub fn place(&self, share: &OutputTile, channel: usize) -> [usize; 3] {
        [channel, self.rows.start - share.first_row, self.columns.start]
    }

    /// Its rows, one behind the other.
    pub fn gapless(&self) -> Rows {
        let columns = self.columns.len();
        Rows { count: self.rows.len(), columns, from_stride: columns, to_stride: columns }
    }
}

/// Side of the blocks that are transposed at a time.
pub const SQUARE: usize = 32;

/// Two squares of scratch memory for transposing blocks. They are kept: to clear them would take longer than a short row.
#[derive(Default)]
pub struct Squares(Option<Box<[Square; 2]>>);

pub type Square = [[f16; SQUARE]; SQUARE];

impl Squares {
    /// Both, with whatever they held before.
    pub fn both(&mut self) -> &mut [Square; 2] {
        self.0.get_or_insert_with(|| Box::new([[[f16::ZERO; SQUARE]; SQUARE]; 2]))
    }
}

/// Results by channel, then row and column, for a share in which channels and columns are exchanged.
pub struct Transposed<'a> {
    pub data: &'a [f16],
    /// Elements between channels.
    pub stride: usize,
    /// Columns of a row.
    pub columns: usize,
    /// First channel.
    pub first: usize,
}

impl Transposed<'_> {
    /// Stores `channels`, for `rows` from a row on, and for all columns, from a column of the share on.
    #[inline(always)]
    pub fn store(
        &self,
        squares: &mut Squares,
        share: &mut OutputTile,
        first_row: usize,
        rows: usize,
        column: usize,
        channels: usize,
    ) {
        let [square, transposed] = squares.both();
        for row in 0..rows {
            for c in (0..channels).step_by(SQUARE) {
                let height = SQUARE.min(channels - c);
                for w in (0..self.columns).step_by(SQUARE) {
                    let width = SQUARE.min(self.columns - w);
                    let (at, to) = (c * self.stride + row * self.columns + w, self.first + c..self.first + c + height);
                    if height.min(width) == 1 {
                        // Nothing to turn.
                        for j in 0..width {
                            let line = &mut share.row(column + w + j, first_row + row, to.end)[to.clone()];
                            line.iter_mut().enumerate().for_each(|(i, to)| *to = self.data[at + i * self.stride + j]);
                        }
                        continue;
                    }
                    let mut from = self.data[at..].as_chunks().0;
                    if [self.stride, width] != [SQUARE; 2] {
                        // Each line of cache is looked at once: a usual distance leaves few places for all of them.
                        let lines = square.iter_mut().zip(self.data[at..].chunks(self.stride)).take(height);
                        if width == SQUARE {
                            lines.for_each(|(line, from)| line.copy_from_slice(&from[..SQUARE]));
                        } else {
                            lines.for_each(|(line, from)| line[..width].copy_from_slice(&from[..width]));
                        }
                        from = &square[..];
                    }
                    transpose_square(from, height, width, transposed);
                    // Two loops, and whole lines as arrays: else each line would be copied by a call.
                    let lines = transposed.iter().enumerate().take(width);
                    if height == SQUARE {
                        for (j, line) in lines {
                            let to = &mut share.row(column + w + j, first_row + row, to.end)[to.start..];
                            if let Some(to) = to.first_chunk_mut() {
                                *to = *line;
                            }
                        }
                    } else {
                        for (j, line) in lines {
                            let to = &mut share.row(column + w + j, first_row + row, to.end)[to.start..];
                            to.copy_from_slice(&line[..height]);
                        }
                    }
                }
            }
        }
    }
}

pub use crate::filter::BLOCK;

/// Exchanges channels and outputs of a block, for a multiple of 8 outputs; `stride` is how far apart channels go.
#[inline(always)]
pub fn transpose_blocks(block: &[f16], stride: usize, to: &mut [f16]) {
    for (i, outputs) in block.as_chunks::<{ EIGHT * BLOCK }>().0.iter().enumerate() {
        for half in 0..BLOCK / EIGHT {
            let mut eights = [[f16::ZERO; EIGHT]; EIGHT];
            for (eight, output) in eights.iter_mut().zip(outputs.as_chunks::<BLOCK>().0) {
                eight.copy_from_slice(&output[half * EIGHT..][..EIGHT]);
            }
            let lines = to[half * EIGHT * stride + i * EIGHT..].chunks_mut(stride);
            for (eight, line) in transpose_8x8(eights).iter().zip(lines) {
                line[..EIGHT].copy_from_slice(eight);
            }
        }
    }
}

/// Exchanges rows and columns of a square, as many as asked for and some more.
#[inline(always)]
pub fn transpose_square(square: &[[f16; SQUARE]], rows: usize, columns: usize, to: &mut Square) {
    for row in (0..rows).step_by(EIGHT) {
        for column in (0..columns).step_by(EIGHT) {
            let mut eights = [[f16::ZERO; EIGHT]; EIGHT];
            for (eight, line) in eights.iter_mut().zip(&square[row..]) {
                eight.copy_from_slice(&line[column..][..EIGHT]);
            }
            let eights = transpose_8x8(eights);
            for (eight, line) in eights.iter().zip(&mut to[column..]) {
                line[row..][..EIGHT].copy_from_slice(eight);
            }
        }
    }
}

/// Numbers of 16 bits in the vectors that every x86-64 has.
const EIGHT: usize = 8;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn transpose_8x8(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
    let Some(host) = pulp::core_arch::x86::Sse2::try_new() else { return transpose_each(rows) };
    let [a, b, c, d, e, f, g, h] = bytemuck::cast(rows);
    let pairs = |x, y| [host._mm_unpacklo_epi16(x, y), host._mm_unpackhi_epi16(x, y)];
    let fours = |x, y| [host._mm_unpacklo_epi32(x, y), host._mm_unpackhi_epi32(x, y)];
    let all = |x, y| [host._mm_unpacklo_epi64(x, y), host._mm_unpackhi_epi64(x, y)];
    let [[ab0, ab1], [cd0, cd1], [ef0, ef1], [gh0, gh1]] = [pairs(a, b), pairs(c, d), pairs(e, f), pairs(g, h)];
    let [[left0, left1], [left2, left3]] = [fours(ab0, cd0), fours(ab1, cd1)];
    let [[right0, right1], [right2, right3]] = [fours(ef0, gh0), fours(ef1, gh1)];
    bytemuck::cast([all(left0, right0), all(left1, right1), all(left2, right2), all(left3, right3)])
}

#[cfg(not(target_arch = "x86_64"))]
use transpose_each as transpose_8x8;

fn transpose_each(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
    std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
}

/// Strides of rows, channels and groups that follow each other without gaps.
pub fn dense(ext: Extents) -> Strides {
    [ext.c * ext.plane(), ext.plane(), ext.w]
}

/// Elements from the first to one past the last.
pub fn reach(ext: Extents, strides: Strides) -> usize {
    let steps = [ext.g, ext.c, ext.h].map(|n| n.saturating_sub(1));
    steps.iter().zip(strides).map(|(n, stride)| n * stride).sum::<usize>() + ext.w
}

/// Whether a result can be cut into shares: rows lie within planes, or channels within rows, and both within groups.
pub fn nested(ext: Extents, strides: Strides) -> bool {
    rows_outside(ext, strides).is_some()
}

/// Whether rows are further apart than channels.
fn rows_outside(ext: Extents, [group, channel, row]: Strides) -> Option<bool> {
    let outline = |n: usize, stride: usize, least: usize| n <= 1 || stride >= least;
    let reach = |n: usize, stride: usize| (n.max(1) - 1) * stride;
    let fits = |(n, outer): (usize, usize), (m, inner): (usize, usize)| {
        let line = reach(m, inner) + ext.w;
        outline(m, inner, ext.w) && outline(n, outer, line) && outline(ext.g, group, reach(n, outer) + line)
    };
    let (channels, rows) = ((ext.c, channel), (ext.h, row));
    // Channels of a single row are then worked on together.
    let outside = [ext.h == 1, ext.h != 1];
    outside.into_iter().find(|&outside| if outside { fits(rows, channels) } else { fits(channels, rows) })
}

/// Cuts a result into shares of at most so many rows and channels. It must be [`nested`]; an empty one has no shares.
pub fn partition(to: &mut [f16], ext: Extents, strides: Strides, rows: usize, channels: usize) -> Vec<OutputTile<'_>> {
    let mut shares = Vec::new();
    if ext.array().contains(&0) {
        return shares;
    }
    let (rows, channels) = (rows.max(1), channels.max(1));
    let rows_outside = rows_outside(ext, strides).unwrap_or(false);
    let down = ext.h.div_ceil(rows);
    // Lines are what is cut last: its number, distance and share; then the same of what lies in a line.
    let (lines, inside) = ((ext.c, strides[1], channels), (ext.h, strides[2], rows));
    let (lines, inside) = if rows_outside { (inside, lines) } else { (lines, inside) };
    for (group, part) in parts(to, strides[0], ext.g).enumerate() {
        let before = shares.len();
        for first_channel in (0..ext.c).step_by(channels) {
            let channels = channels.min(ext.c - first_channel);
            shares.extend((0..ext.h).step_by(rows).map(|first_row| {
                let rows = rows.min(ext.h - first_row);
                let lines = Vec::with_capacity(if rows_outside { rows } else { channels });
                OutputTile { group, first_channel, first_row, rows, channels, lines, rows_outside, stride: inside.1 }
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

/// So many consecutive parts, `stride` apart; the last one takes what is left.
fn parts(mut whole: &mut [f16], stride: usize, count: usize) -> impl Iterator<Item = &mut [f16]> {
    (0..count).map(move |i| {
        let at = if i + 1 == count { whole.len() } else { stride.min(whole.len()) };
        let (part, rest) = std::mem::take(&mut whole).split_at_mut(at);
        whole = rest;
        part
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of every row is reached once, by the share whose it is, whichever of rows and channels lies outside.
    #[test]
    fn parts_widen_alike_wherever_their_rows_lie() {
        let draw = |i: usize| f16::from_f32(((i * 7919 + 13) % 1009) as f32 / 504.5 - 1.0);
        for columns in 1..40 {
            for stride in [columns, columns + 2, 2 * columns + 70] {
                let data: Vec<f16> = (0..2 * 6 * stride).map(draw).collect();
                let source =
                    TensorView { data: &data[..data.len() - (stride - columns)], strides: [0, 6 * stride, stride] };
                for part in
                    [Part { rows: 1..6, columns: 0..columns }, Part { rows: 2..3, columns: columns / 2..columns }]
                {
                    let mut found = vec![f32::NAN; part.outputs()];
                    source.widen(pulp::Scalar::new(), 0, 1, &part, &mut found);
                    // The same from any element on.
                    for first in 0..found.len().min(90) {
                        let mut some = vec![f32::NAN; (found.len() - first).min(3 * columns)];
                        source.widen_from(pulp::Scalar::new(), 0, 1, &part, first, &mut some);
                        assert_eq!(some, found[first..][..some.len()], "{columns} {stride} {first}");
                    }
                    let rows = part.rows.clone().flat_map(|h| part.columns.clone().map(move |w| (6 + h) * stride + w));
                    assert_eq!(found, rows.map(|i| draw(i).to_f32()).collect::<Vec<_>>(), "{columns} {stride}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_turned_to_channels() {
        let block: Vec<f16> = (0..24 * 16).map(|i| f16::from_f32(i as f32)).collect();
        let mut transposed = vec![f16::NAN; 16 * 40];
        transpose_blocks(&block, 40, &mut transposed);
        for (i, x) in transposed.iter().enumerate() {
            let (channel, output) = (i / 40, i % 40);
            assert!(if output < 24 { *x == block[output * 16 + channel] } else { x.is_nan() });
        }
    }

    #[test]
    fn shares_cover_a_result_in_either_order() {
        let ext = Extents { g: 2, c: 5, h: 4, w: 3 };
        for strides in [[100, 16, 4], [100, 4, 24]] {
            assert!(nested(ext, strides));
            let mut data = vec![f16::ZERO; reach(ext, strides)];
            for mut share in partition(&mut data, ext, strides, 3, 2) {
                for c in 0..share.channels() {
                    for r in 0..share.rows {
                        let (g, channel, row) = (share.group, share.first_channel + c, share.first_row + r);
                        for (w, to) in share.row(c, r, ext.w).iter_mut().enumerate() {
                            let number = 1 + w + 3 * (row + 4 * (channel + 5 * g));
                            assert_eq!(*to, f16::ZERO);
                            *to = f16::from_f32(number as f32);
                        }
                    }
                }
            }
            let source = TensorView { data: &data, strides };
            let all = (0..2).flat_map(|g| (0..5).flat_map(move |c| (0..4).map(move |h| (g, c, h))));
            let found: Vec<f32> = all.flat_map(|(g, c, h)| source.row(g, c, h, ext.w)).map(|x| x.to_f32()).collect();
            assert_eq!(found, (1..=120).map(|n| n as f32).collect::<Vec<_>>());
        }
        assert!(!nested(ext, [100, 4, 4]));
        for empty in
            [Extents { c: 0, ..ext }, Extents { h: 0, ..ext }, Extents { w: 0, ..ext }, Extents { g: 0, ..ext }]
        {
            assert!(partition(&mut [], empty, dense(empty), 0, 0).is_empty());
        }
    }
}
