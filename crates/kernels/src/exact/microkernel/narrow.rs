//! Micro-kernels for few columns: operands of one tap are shorter than a vector.

use super::*;

/// How many of a panel's last columns are summed one by one. None where a group of vectors reaches past the whole ones: it forms their
/// sums already, and runs add up.
pub(super) fn alone_of<S: Simd>(columns: usize) -> usize {
    let alone = columns_of::<S>(columns);
    let reaches =
        const { S::F32_LANES * VECTORS < WIDTH } && !((columns - alone) / S::F32_LANES).is_multiple_of(VECTORS);
    if reaches { 0 } else { alone }
}

/// One run over `H` rows; `first` is its first tap in the pass.
#[inline(always)]
pub(super) fn narrow<S: Simd, E: Ends, const H: usize>(
    simd: S,
    reading: Reading,
    lists: &mut Lists,
    first: usize,
    w: &[f32],
    x: &[Line],
    columns: usize,
    ends: &mut E,
) {
    let (w, _) = w.as_chunks::<H>();
    // A raised weight has the exponent of the weight. All in one loop, which vectors take in long strides.
    let keep = lists.keep.as_flattened_mut().as_chunks_mut::<H>().0;
    keep.iter_mut().zip(&lists.mixed[..lists.mixes]).for_each(|(keep, &tap)| *keep = w[tap as usize]);
    keep[..lists.mixes].as_flattened_mut().iter_mut().for_each(|keep| *keep = reading.keep_from(*keep));
    let lists = &*lists;
    let (lanes, whole) = (S::F32_LANES, columns - alone_of::<S>(columns));
    // Vectors that hold no column wanted are left out.
    if whole > lanes || const { S::F32_LANES * VECTORS < WIDTH } {
        narrow_vectors::<S, E, H, VECTORS>(simd, lists, w, x, whole, ends);
    } else if whole > 0 && const { S::F32_LANES * VECTORS >= WIDTH } {
        narrow_vectors::<S, E, H, 1>(simd, lists, w, x, lanes, ends);
    }
    for (column, x) in (whole..columns).zip(&lists.alone) {
        narrow_column::<S, E, H>(simd, lists, w, &x[first..][..w.len()], column, ends);
    }
}

#[inline(always)]
pub(super) fn narrow_vectors<S: Simd, E: Ends, const H: usize, const V: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    x: &[Line],
    columns: usize,
    ends: &mut E,
) {
    if const { S::REGISTER_COUNT >= 32 || H <= MOST_ROWS } {
        return narrow_rows::<S, E, H, H, V>(simd, lists, w, 0, x, columns, ends);
    }
    narrow_rows::<S, E, H, MOST_ROWS, V>(simd, lists, w, 0, x, columns, ends);
    match H {
        HEIGHT => narrow_rows::<S, E, H, MOST_ROWS, V>(simd, lists, w, MOST_ROWS, x, columns, ends),
        _ => narrow_rows::<S, E, H, LEAST_HEIGHT, V>(simd, lists, w, MOST_ROWS, x, columns, ends),
    }
}

/// One column alone: rows stand side by side in a vector. Sums of exact terms may be taken in any order.
#[inline(always)]
pub(super) fn narrow_column<S: Simd, E: Ends, const H: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    x: &[f32],
    column: usize,
    ends: &mut E,
) {
    // A vector that reaches past its row holds another tap's elements there, which are ignored.
    let flat = w.as_flattened();
    let keep = lists.keep.as_flattened();
    for first in (0..H).step_by(S::F32_LANES) {
        let vector = |of: &[f32], tap: usize| -> S::f32s {
            let at = tap * H + first;
            match of.get(at..at + S::F32_LANES) {
                Some(numbers) => S::as_simd_f32s(numbers).0[0],
                None => simd.partial_load_f32s(&of[at..]),
            }
        };
        let mut acc = [simd.splat_f32s(START); TURNS];
        // Taps whose vectors do not reach past the last one.
        let within = (flat.len() - first + H).saturating_sub(S::F32_LANES) / H;
        let turns = x.as_chunks::<TURNS>().0.iter().take(within / TURNS);
        let done = turns.len() * TURNS;
        for (i, x) in turns.enumerate() {
            let rows = &flat[i * TURNS * H + first..][..(TURNS - 1) * H + S::F32_LANES];
            for t in 0..TURNS {
                let w = S::as_simd_f32s(&rows[t * H..][..S::F32_LANES]).0[0];
                acc[t] = simd.mul_add_e_f32s(w, simd.splat_f32s(x[t]), acc[t]);
            }
        }
        for (tap, &x) in x.iter().enumerate().skip(done) {
            acc[0] = simd.mul_add_e_f32s(vector(flat, tap), simd.splat_f32s(x), acc[0]);
        }
        for (i, tap) in lists.mixed().enumerate() {
            let (x, acc) = (simd.splat_f32s(x[tap]), &mut acc[0]);
            let drops = simd.less_than_f32s(simd.abs_f32s(x), vector(keep, i));
            let dropped = simd.select_f32s(drops, x, simd.splat_f32s(0.0));
            *acc = simd.mul_add_e_f32s(simd.neg_f32s(vector(flat, tap)), dropped, *acc);
        }
        let mut units = [0u32; LONGEST];
        for acc in acc {
            let mut turn = [0; LONGEST];
            S::as_mut_simd_u32s(&mut turn[..S::F32_LANES]).0[0] = simd.transmute_u32s_f32s(acc);
            for (units, turn) in units.iter_mut().zip(turn) {
                *units = units.wrapping_add(turn.wrapping_sub(START.to_bits()));
            }
        }
        for (row, units) in (first..H).zip(units).take(S::F32_LANES) {
            ends.one(row, column, units);
        }
    }
}

/// `R` of the rows, from one on: as many as the registers hold.
#[inline(always)]
pub(super) fn narrow_rows<S: Simd, E: Ends, const H: usize, const R: usize, const V: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    first: usize,
    x: &[Line],
    columns: usize,
    ends: &mut E,
) {
    for vector in (0..columns.div_ceil(S::F32_LANES)).step_by(V) {
        let mut acc = [[simd.splat_f32s(START); V]; R];
        for r in 0..R {
            acc[r] = [simd.splat_f32s(ends.start(first + r)); V];
        }
        for (w, x) in w.iter().zip(x) {
            let (w, x) = (some::<R>(w, first), &S::as_simd_f32s(&x.0).0[vector..vector + V]);
            // Row by row: the registers hold all sums, and one weight.
            for r in 0..R {
                let weight = simd.splat_f32s(w[r]);
                for v in 0..V {
                    acc[r][v] = simd.mul_add_e_f32s(weight, x[v], acc[r][v]);
                }
            }
        }
        for (tap, keep) in lists.mixed().zip(lists.keep.as_flattened().as_chunks::<H>().0) {
            let (w, keep, x) = (some::<R>(&w[tap], first), some::<R>(keep, first), S::as_simd_f32s(&x[tap].0).0);
            for v in 0..V {
                let (x, magnitude) = (x[vector + v], simd.abs_f32s(x[vector + v]));
                for r in 0..R {
                    let drops = simd.less_than_f32s(magnitude, simd.splat_f32s(keep[r]));
                    // Weights are finite: a zero adds nothing.
                    let dropped = simd.select_f32s(drops, x, simd.splat_f32s(0.0));
                    acc[r][v] = simd.mul_add_e_f32s(simd.splat_f32s(-w[r]), dropped, acc[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..V {
                ends.vector(simd, first + r, vector + v, acc[r][v]);
            }
        }
    }
}

/// `R` elements from `first` on.
#[inline(always)]
pub(super) fn some<const R: usize>(all: &[f32], first: usize) -> [f32; R] {
    let mut some = [0.0; R];
    for r in 0..R {
        some[r] = all[first + r];
    }
    some
}
