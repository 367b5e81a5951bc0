//! Blocked transposition: squares of elements, and channels of a block beside each other.

use super::*;

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
pub(super) const EIGHT: usize = 8;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn transpose_8x8(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
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

pub(super) fn transpose_each(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
    std::array::from_fn(|i| std::array::from_fn(|j| rows[j][i]))
}
