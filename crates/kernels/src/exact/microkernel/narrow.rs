//! Micro-kernels for panels of few columns, where the operands of one tap do not fill the vectors.

use super::*;
use crate::simd::{self, Aligned};

/// Number of tail columns of a panel, which are computed one by one. None if the register tile of the other columns covers them: it would add
/// them a second time.
pub(super) fn tail_columns<S: Simd>(columns: usize) -> usize {
    let alone = columns_of::<S>(columns);
    let reaches =
        const { S::F32_LANES * VECTORS < WIDTH } && !((columns - alone) / S::F32_LANES).is_multiple_of(VECTORS);
    if reaches { 0 } else { alone }
}

/// One run over `H` rows; `first` is its first tap within the pass.
#[inline(always)]
pub(super) fn narrow<S: Simd, const H: usize>(
    simd: S,
    reading: Reading,
    lists: &mut Lists,
    first: usize,
    w: &[f32],
    x: &[Line],
    columns: usize,
    ends: &mut Ends,
) {
    let rows = w.as_chunks::<H>().0;
    let (lanes, whole) = (S::F32_LANES, columns - tail_columns::<S>(columns));
    lists.take_keep(reading, rows);
    let lists = &*lists;
    // Vectors without any column to compute are skipped.
    if whole > lanes || const { S::F32_LANES * VECTORS < WIDTH } {
        narrow_vectors(simd, lists, w, H, x, VECTORS, whole, ends);
    } else if whole > 0 && const { S::F32_LANES * VECTORS >= WIDTH } {
        narrow_vectors(simd, lists, w, H, x, 1, lanes, ends);
    }
    for (column, x) in (whole..columns).zip(&lists.alone) {
        narrow_column(simd, lists, H, w, &x[first..][..rows.len()], column, ends);
    }
}

#[inline(always)]
fn narrow_vectors<S: Simd>(
    simd: S,
    lists: &Lists,
    w: &[f32],
    height: usize,
    x: &[Line],
    vectors: usize,
    columns: usize,
    ends: &mut Ends,
) {
    let most = if const { S::REGISTER_COUNT >= 32 } { HEIGHT } else { MOST_ROWS };
    let (some, rest) = (height.min(most), height.saturating_sub(most));
    narrow_rows(simd, lists, w, height, [0, some], x, vectors, columns, ends);
    if rest > 0 {
        narrow_rows(simd, lists, w, height, [some, rest], x, vectors, columns, ends);
    }
}

/// One tail column, with the rows of a block as vector lanes. Terms are exact, so that the order of additions is free. `height` is a
/// constant after inlining.
#[inline(always)]
pub(super) fn narrow_column<S: Simd>(
    simd: S,
    lists: &Lists,
    height: usize,
    w: &[f32],
    x: &[f32],
    column: usize,
    ends: &mut Ends,
) {
    // A vector that extends past its row contains elements of the next tap, which are ignored.
    let keep = lists.keep.as_flattened();
    for first in (0..height).step_by(S::F32_LANES) {
        let mut acc = [simd.splat_f32s(START); TURNS];
        // Taps whose vectors do not extend past the last one.
        let within = (w.len() - first + height).saturating_sub(S::F32_LANES) / height;
        let turns = (within / TURNS).min(x.len() / TURNS);
        let done = turns * TURNS;
        for turn in 0..turns {
            let rows = &w[turn * TURNS * height + first..][..(TURNS - 1) * height + S::F32_LANES];
            let x = &x[turn * TURNS..][..TURNS];
            for t in 0..TURNS {
                let w = S::as_simd_f32s(&rows[t * height..][..S::F32_LANES]).0[0];
                acc[t] = simd.mul_add_e_f32s(w, simd.splat_f32s(x[t]), acc[t]);
            }
        }
        for tap in done..x.len() {
            acc[0] = simd.mul_add_e_f32s(load_padded(simd, w, tap * height + first), simd.splat_f32s(x[tap]), acc[0]);
        }
        for (i, tap) in lists.mixed().enumerate() {
            let (x, acc) = (simd.splat_f32s(x[tap]), &mut acc[0]);
            let drops = simd.less_than_f32s(simd::abs(simd, x), load_padded(simd, keep, i * height + first));
            let dropped = simd.select_f32s(drops, x, simd.splat_f32s(0.0));
            *acc = simd.mul_add_e_f32s(simd::neg(simd, load_padded(simd, w, tap * height + first)), dropped, *acc);
        }
        let mut units = [0u32; LONGEST];
        for acc in acc {
            let mut turn = [0; LONGEST];
            S::as_mut_simd_u32s(&mut turn[..S::F32_LANES]).0[0] = simd.transmute_u32s_f32s(acc);
            for i in 0..LONGEST {
                units[i] = units[i].wrapping_add(turn[i].wrapping_sub(START.to_bits()));
            }
        }
        for row in first..height.min(first + S::F32_LANES) {
            ends.one(row, column, units[row - first]);
        }
    }
}

/// Loads a vector from a position on, padded with zeros beyond the end.
#[inline(always)]
fn load_padded<S: Simd>(simd: S, of: &[f32], at: usize) -> S::f32s {
    match of.get(at..at + S::F32_LANES) {
        Some(numbers) => S::as_simd_f32s(numbers).0[0],
        None => simd.partial_load_f32s(&of[at..]),
    }
}

/// Register tile of some of `height` rows, from row `first` on, by some vectors; their numbers are constants after inlining.
#[inline(always)]
fn narrow_rows<S: Simd>(
    simd: S,
    lists: &Lists,
    w: &[f32],
    height: usize,
    [first, rows]: [usize; 2],
    x: &[Line],
    vectors: usize,
    columns: usize,
    ends: &mut Ends,
) {
    let zero = simd.splat_f32s(0.0);
    // One length, and thus one check of a tap.
    let taps = (w.len() / height).min(x.len());
    let (w, x) = (&w[..taps * height], &x[..taps]);
    let keep = lists.keep.as_flattened();
    for vector in (0..columns.div_ceil(S::F32_LANES)).step_by(vectors) {
        let mut own = [[zero; VECTORS]; HEIGHT];
        for r in 0..rows {
            own[r] = [simd.splat_f32s(ends.start(first + r)); VECTORS];
        }
        macro_rules! add {
            ($tap: ident in $taps: expr, $of: expr) => {
                for $tap in $taps {
                    let (w, x): (&[f32], &Line) = $of;
                    let (w, x) = (&w[first..][..rows], &S::as_simd_f32s(&x.0).0[vector..][..vectors]);
                    // Row by row: the registers hold all accumulators and one weight.
                    for r in 0..rows {
                        let weight = simd.splat_f32s(w[r]);
                        for v in 0..vectors {
                            own[r][v] = simd.mul_add_e_f32s(weight, x[v], own[r][v]);
                        }
                    }
                }
            };
        }
        match lists.are_few(taps) {
            true => add!(tap in w.chunks_exact(height).zip(x), tap),
            false => add!(tap in lists.whole(), (&w[tap * height..][..height], &x[tap])),
        }
        macro_rules! mix {
            ($compare: ident $(, $minus: tt)?) => {
                for (i, tap) in lists.mixed().enumerate() {
                    let keep = &keep[i * height + first..][..rows];
                    let x = &S::as_simd_f32s(&x[tap].0).0[vector..][..vectors];
                    let w = &w[tap * height + first..][..rows];
                    macro_rules! add_rows {
                        ($rows: expr) => {
                            for r in $rows {
                                let (weight, keep) = (simd.splat_f32s($($minus)? w[r]), simd.splat_f32s(keep[r]));
                                for v in 0..vectors {
                                    let counts = simd.$compare(simd::abs(simd, x[v]), keep);
                                    own[r][v] = if const { S::REGISTER_COUNT >= 32 } {
                                        // The addition under a mask.
                                        simd.select_f32s(counts, simd.mul_add_e_f32s(weight, x[v], own[r][v]), own[r][v])
                                    } else {
                                        simd.mul_add_e_f32s(weight, simd.select_f32s(counts, x[v], zero), own[r][v])
                                    };
                                }
                            }
                        };
                    }
                    // Two loops: the optimizer unrolls long ones too late for the accumulators to be registers, in any loop.
                    add_rows!(0..rows.min(MOST_ROWS));
                    add_rows!(MOST_ROWS..rows);
                }
            };
        }
        match lists.are_few(taps) {
            true => mix!(less_than_f32s, -),
            false => mix!(greater_than_or_equal_f32s),
        }
        // In memory, by rows that vary: those of the loops above stay in registers.
        let mut in_memory = Aligned([[zero; VECTORS]; HEIGHT]);
        let acc = &mut in_memory.0;
        for r in 0..rows {
            for v in 0..vectors {
                acc[r][v] = own[r][v];
            }
        }
        for r in 0..rows {
            for v in 0..vectors {
                ends.vector(simd, first + r, vector + v, acc[r][v]);
            }
        }
    }
}
