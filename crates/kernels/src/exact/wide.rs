//! Sums in fp64, for products that are too large for fp32 runs, and for sums near the ceiling.

use super::decode::lower;
use super::microkernel::{Lists, Pair, UNIT, VECTORS};
use super::{HEIGHT, LEAST_HEIGHT, WIDTH};
use crate::simd;
use pulp::Simd;
use std::ops::Range;

/// Initial value of an fp64 accumulator, as [`super::microkernel::START`], for everything less than 2^35 away; products stay below 2^34.
pub(super) const WIDE_START: f64 = 1.5 * (1u64 << 36) as f64;
/// Rows of the fp64 register tile.
const ROWS: usize = LEAST_HEIGHT;
/// Taps converted to fp64 at a time.
const CONVERTED: usize = 32;

impl Pair<'_> {
    /// Computes the complete sums of a panel in fp64, in the order of the taps. Unless `watches`, none may reach the ceiling;
    /// a constant after inlining.
    #[inline(always)]
    pub(super) fn wide<S: Simd>(
        &self,
        simd: S,
        watches: bool,
        part: Range<usize>,
        out: &mut [&mut [f32]],
        lists: &mut Lists,
    ) {
        let mut sums = [[0.0; WIDTH]; HEIGHT];
        for (sums, bias) in sums.iter_mut().zip(self.bias.all) {
            sums.fill(start_wide(bias));
        }
        let mut converted =
            Converted { w: [[0.0; HEIGHT]; CONVERTED], keep: [[0.0; HEIGHT]; CONVERTED], x: [[0.0; WIDTH]; CONVERTED] };
        for first in (0..self.taps).step_by(CONVERTED) {
            let count = converted.fill(simd, self, first);
            if !watches {
                lists.fill(simd, self, first, first + count);
            }
            for row in (0..out.len()).step_by(ROWS) {
                for vector in (0..WIDTH / S::F64_LANES).step_by(VECTORS) {
                    wide_run(simd, watches, &converted, count, lists, row, vector, &mut sums);
                }
            }
        }
        for (sums, out) in sums.iter().zip(out) {
            for (to, &sum) in out[part.clone()].iter_mut().zip(sums) {
                let infinite = if sum > 0.0 { f32::INFINITY } else { f32::NEG_INFINITY };
                let finite = self.round_result(((sum - WIDE_START) * UNIT) as i32);
                *to = if sum.is_finite() { finite } else { infinite };
            }
        }
    }
}

/// Initial fp64 accumulator for a bias; infinite if the bias reaches the ceiling.
pub(super) fn start_wide(bias: f64) -> f64 {
    let units = (bias * UNIT).round();
    match () {
        () if bias.is_nan() => WIDE_START,
        () if units.abs() < 32768.0 * UNIT => WIDE_START + units / UNIT,
        () => f64::INFINITY.copysign(bias),
    }
}

/// Operands of a few taps, converted to fp64.
struct Converted {
    w: [[f64; HEIGHT]; CONVERTED],
    keep: [[f64; HEIGHT]; CONVERTED],
    x: [[f64; WIDTH]; CONVERTED],
}

impl Converted {
    /// Converts taps from `first` on. Returns their number.
    #[inline(always)]
    fn fill<S: Simd>(&mut self, simd: S, pair: &Pair, first: usize) -> usize {
        let count = CONVERTED.min(pair.taps - first);
        let mut raised = [0.0; HEIGHT * CONVERTED];
        let raised = pair.weights.raised(simd, pair.block, first..first + count, &mut raised);
        for (i, raised) in raised.chunks_exact(pair.height).enumerate() {
            for (to, &from) in self.w[i].iter_mut().zip(raised) {
                // A step of fp64 suffices, and does not change large products.
                let w = f64::from(lower(from));
                let raised = f64::from_bits(w.to_bits() + 1);
                *to = if w == 0.0 { 0.0 } else { raised };
            }
            let keep = raised.iter().map(|&w| f64::from(pair.reading.keep_from(w)));
            for (to, keep) in self.keep[i].iter_mut().zip(keep) {
                *to = keep;
            }
            for (to, &from) in self.x[i].iter_mut().zip(&pair.x[first + i].0) {
                *to = f64::from(from);
            }
        }
        count
    }
}

#[inline(always)]
fn wide_run<S: Simd>(
    simd: S,
    watches: bool,
    from: &Converted,
    taps: usize,
    lists: &Lists,
    row: usize,
    vector: usize,
    sums: &mut [[f64; WIDTH]; HEIGHT],
) {
    let mut acc = [[simd.splat_f64s(0.0); VECTORS]; ROWS];
    for r in 0..ROWS {
        acc[r].copy_from_slice(&S::as_simd_f64s(&sums[row + r]).0[vector..vector + VECTORS]);
    }
    let (top, bottom) = (simd.splat_f64s(WIDE_START + 32768.0), simd.splat_f64s(WIDE_START - 32768.0));
    let kept = |tap: usize, r: usize, x: S::f64s| {
        let counts = simd.greater_than_or_equal_f64s(simd::abs_f64(simd, x), simd.splat_f64s(from.keep[tap][row + r]));
        simd.select_f64s(counts, x, simd.splat_f64s(0.0))
    };
    for (tap, (w, x)) in from.w.iter().zip(&from.x).enumerate().take(taps) {
        let x = S::as_simd_f64s(x).0;
        for v in 0..VECTORS {
            for r in 0..ROWS {
                let x = if watches { kept(tap, r, x[vector + v]) } else { x[vector + v] };
                let mut sum = simd.mul_add_e_f64s(simd.splat_f64s(w[row + r]), x, acc[r][v]);
                if watches {
                    let over = simd.greater_than_or_equal_f64s(sum, top);
                    sum = simd.select_f64s(over, simd.splat_f64s(f64::INFINITY), sum);
                    let under = simd.less_than_or_equal_f64s(sum, bottom);
                    sum = simd.select_f64s(under, simd.splat_f64s(f64::NEG_INFINITY), sum);
                }
                acc[r][v] = sum;
            }
        }
    }
    for tap in lists.mixed().filter(|_| !watches) {
        let (w, x) = (&from.w[tap], S::as_simd_f64s(&from.x[tap]).0);
        for v in 0..VECTORS {
            for r in 0..ROWS {
                let dropped = simd.sub_f64s(x[vector + v], kept(tap, r, x[vector + v]));
                acc[r][v] = simd.mul_add_e_f64s(simd.splat_f64s(-w[row + r]), dropped, acc[r][v]);
            }
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        S::as_mut_simd_f64s(&mut sums[row + r]).0[vector..vector + VECTORS].copy_from_slice(&acc);
    }
}
