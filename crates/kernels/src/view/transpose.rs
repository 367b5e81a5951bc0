//! Blocked transposition of matrices, and of channels and outputs within a block.

use super::*;
use crate::arrays::array_of;

/// Edge length of a transposed block, in elements.
pub const SQUARE: usize = host::SQUARE;

/// Transposes a matrix that is read as `across` lines, `stride` apart, of `contiguous` elements each. `put` receives the lines of the
/// result in pieces: line index, index of the piece's first element, the piece, and its length, at most [`SQUARE`]. Elements may be passed
/// more than once. `fix` is applied to every element.
///
/// Squares of 32 by 32 are transposed in registers; of smaller matrices blocks of 8 by 8, four at a time, so that whole cache lines are written.
#[inline(always)]
pub fn transpose(
    from: &[f16],
    stride: usize,
    [contiguous, across]: [usize; 2],
    fix: impl Fn(f16) -> f16 + Copy,
    mut put: impl FnMut(usize, usize, &[f16; SQUARE], usize),
) {
    if contiguous.min(across) < SQUARE || !host::converts() {
        return transpose_by_eights(from, stride, [contiguous, across], fix, put);
    }
    let mut lines = [[f16::ZERO; SQUARE]; SQUARE];
    for first in (0..across).step_by(SQUARE) {
        // The last squares overlap those before.
        let first = first.min(across - SQUARE);
        for i in (0..contiguous).step_by(SQUARE) {
            let i = i.min(contiguous - SQUARE);
            host::transpose_square(&from[first * stride + i..], stride, &mut lines);
            for (k, line) in lines.iter().enumerate().take(contiguous) {
                let mut line = *line;
                for l in 0..SQUARE {
                    line[l] = fix(line[l]);
                }
                put(i + k, first, &line, SQUARE);
            }
        }
    }
}

/// [`transpose`] for matrices smaller than a square.
#[inline(always)]
pub(crate) fn transpose_by_eights(
    from: &[f16],
    stride: usize,
    [contiguous, across]: [usize; 2],
    fix: impl Fn(f16) -> f16 + Copy,
    mut put: impl FnMut(usize, usize, &[f16; SQUARE], usize),
) {
    for first in (0..across).step_by(SQUARE) {
        let (count, from) = (SQUARE.min(across - first), &from[first * stride..]);
        if contiguous < EIGHT {
            for i in 0..contiguous {
                let mut line = [f16::ZERO; SQUARE];
                for k in 0..count {
                    line[k] = fix(from[k * stride + i]);
                }
                put(i, first, &line, count);
            }
            continue;
        }
        for i in (0..contiguous).step_by(EIGHT) {
            // The last block overlaps the one before.
            let i = i.min(contiguous - EIGHT);
            let lines = eight_lines(&from[i..], stride, count, fix);
            for k in 0..EIGHT {
                put(i + k, first, &lines[k], count);
            }
        }
    }
}

/// Eight lines of the result, from eight consecutive elements of each of `count` source lines.
#[inline(always)]
fn eight_lines(from: &[f16], stride: usize, count: usize, fix: impl Fn(f16) -> f16) -> [[f16; SQUARE]; EIGHT] {
    let mut lines = [[f16::ZERO; SQUARE]; EIGHT];
    for first in (0..count).step_by(EIGHT) {
        let first = first.min(count.saturating_sub(EIGHT));
        let mut eights = [[f16::ZERO; EIGHT]; EIGHT];
        for k in 0..EIGHT.min(count) {
            if let Some(eight) = from[(first + k) * stride..].first_chunk::<EIGHT>() {
                eights[k] = *eight;
            }
        }
        for k in 0..EIGHT {
            for l in 0..EIGHT {
                eights[k][l] = fix(eights[k][l]);
            }
        }
        let eights = transpose_8x8(eights);
        for k in 0..EIGHT {
            lines[k][first..][..EIGHT].copy_from_slice(&eights[k]);
        }
    }
    lines
}

/// Writes the first `count` elements of a piece.
#[inline(always)]
pub fn put_line(line: &[f16; SQUARE], count: usize, to: &mut [f16]) {
    match to.first_chunk_mut::<SQUARE>().filter(|_| count == SQUARE) {
        Some(to) => *to = *line,
        None => copy_short(&line[..count], &mut to[..count]),
    }
}

/// Results by channel, then row and column, to be stored into a tile with channels and columns exchanged.
pub struct Transposed<'a> {
    pub data: &'a [f16],
    /// Elements between channels of `data`.
    pub stride: usize,
    /// Columns of a row.
    pub columns: usize,
    /// First channel.
    pub first: usize,
}

impl Transposed<'_> {
    /// Stores `channels` channels of `rows` rows from `first_row` on, all columns, from `column` of the tile on. Out of line, because it does not
    /// depend on the caller's instruction set.
    #[inline(never)]
    pub fn store(&self, share: &mut OutputTile, first_row: usize, rows: usize, column: usize, channels: usize) {
        for row in 0..rows {
            transpose(
                &self.data[row * self.columns..],
                self.stride,
                [self.columns, channels],
                #[inline(always)]
                |x| x,
                #[inline(always)]
                |w, first, line, count| {
                    let first = self.first + first;
                    put_line(line, count, &mut share.row(column + w, first_row + row, first + count)[first..]);
                },
            );
        }
    }
}

/// Transposes a block from `[output][channel]` to `[channel][output]`, for a multiple of 8 outputs; `stride` is the distance of channels in `to`.
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

/// 16-bit lanes of the vectors that every x86-64 has.
pub(crate) const EIGHT: usize = 8;

#[inline(always)]
pub(crate) fn transpose_8x8(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
    host::transpose_8x8(rows).unwrap_or_else(|| transpose_each(rows))
}

fn transpose_each(rows: [[f16; EIGHT]; EIGHT]) -> [[f16; EIGHT]; EIGHT] {
    array_of(|i| array_of(|j| rows[j][i]))
}
