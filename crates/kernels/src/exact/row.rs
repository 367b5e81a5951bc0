//! Single-row product (GEMV) over operands that need no packing.

use super::LONGEST;
use super::decode::lower;
use super::microkernel::{BELOW_CEILING, RUN_LIMIT, START, UNIT, end_run, is_fixed, settle_away, settle_run, start};
use super::wide::{WIDE_START, start_wide};
use crate::params::{AccumulatorSpec, Ties};
use crate::simd::{self, outline};
use pulp::{Simd, WithSimd};

/// Accumulator vectors of the fp32 kernel, and outputs of the fp64 kernel, that are computed together.
const ALONE_VECTORS: usize = 4;
const ALONE: usize = 16;

/// [`super::product`] of one row with unpacked columns: the operand of tap `t` and output `o` is `source[offsets[t] + o]`, decoded by
/// [`super::decode`], zero or with a magnitude from `least` to `largest`.
pub struct SingleRow<'a> {
    pub mac: &'a AccumulatorSpec,
    /// Weights from [`super::Weights::row`], for the same model.
    pub row: &'a [(f32, f32)],
    pub bias: f32,
    pub source: &'a [f32],
    pub offsets: &'a [u32],
    pub least: f32,
    pub largest: f32,
    pub out: &'a mut [f32],
}

impl WithSimd for SingleRow<'_> {
    /// False, without any result, if a sum may reach the ceiling or the model is not the integer accumulator of these kernels.
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let (mac, largest) = (self.mac, f64::from(self.largest));
        let magnitudes = self.taps().map(|(w, _, _)| f64::from(w.abs()));
        let (all, steepest) = magnitudes.fold((0.0, 0.0f64), |(all, most), w| (all + w, most.max(w)));
        let bound = all * largest + f64::from(self.bias.abs());
        if bound >= f64::from(BELOW_CEILING)
            || bound.is_nan()
            || !is_fixed(mac)
            || mac.flush_subnormals
            || mac.ties != Ties::Away
        {
            return false;
        }
        let reach = self.out.len().next_multiple_of(ALONE_VECTORS * S::F32_LANES);
        let inside = self.offsets.iter().all(|&offset| offset as usize + reach <= self.source.len());
        let all = self.row.iter().all(|(_, keep)| *keep <= self.least);
        if inside && bound < f64::from(RUN_LIMIT) {
            match all {
                true => outline(simd, InRuns::<true, true>(self)),
                false => outline(simd, InRuns::<true, false>(self)),
            }
        } else if inside && steepest * largest < f64::from(RUN_LIMIT) {
            match all {
                true => outline(simd, InRuns::<false, true>(self)),
                false => outline(simd, InRuns::<false, false>(self)),
            }
        } else {
            self.in_64_bits();
        }
        true
    }
}

impl SingleRow<'_> {
    /// Raised weight, smallest operand that is not dropped, and source offset of every tap.
    #[inline(always)]
    fn taps(&self) -> impl Iterator<Item = (f32, f32, usize)> {
        self.row.iter().zip(self.offsets).map(|(&(raised, keep), &offset)| (raised, keep, offset as usize))
    }

    #[inline(always)]
    fn in_64_bits(self) {
        for at in (0..self.out.len()).step_by(ALONE) {
            let mut sums = [start_wide(f64::from(self.bias)); ALONE];
            for (raised, keep, offset) in self.taps() {
                // As `Converted` does for blocks of rows.
                let w = f64::from(lower(raised));
                let w = if w == 0.0 { 0.0 } else { f64::from_bits(w.to_bits() + 1) };
                let source = &self.source[offset + at..];
                let mut add = |x: &[f32]| {
                    for (sum, &x) in sums.iter_mut().zip(x) {
                        *sum = w.mul_add(f64::from(if x.abs() >= keep { x } else { 0.0 }), *sum);
                    }
                };
                match source.first_chunk::<ALONE>() {
                    Some(x) => add(x),
                    None => add(source),
                }
            }
            for (to, sum) in self.out[at..].iter_mut().zip(sums) {
                *to = settle_away(((sum - WIDE_START) * UNIT) as i32);
            }
        }
    }
}

/// fp32 runs for products below [`RUN_LIMIT`], as a function of its own (compare `OneRun`). All sums are below the limit if there is `ONE`
/// run. The source is readable in whole vectors. No product is dropped if `ALL` count.
struct InRuns<'a, const ONE: bool, const ALL: bool>(SingleRow<'a>);

impl<const ONE: bool, const ALL: bool> WithSimd for InRuns<'_, ONE, ALL> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.in_runs(simd, ONE, ALL);
    }
}

impl SingleRow<'_> {
    /// [`InRuns`]; `one` and `all` are constants after inlining.
    #[inline(always)]
    fn in_runs<S: Simd>(self, simd: S, one: bool, all: bool) {
        let row = self;
        let block = ALONE_VECTORS * S::F32_LANES;
        let bias = start(f64::from(row.bias));
        let begin = simd.splat_f32s(if one { START + bias as i32 as f32 / UNIT as f32 } else { START });
        for (at, out) in row.out.chunks_mut(block).enumerate() {
            let at = at * block;
            let mut units = [simd.splat_u32s(bias); ALONE_VECTORS];
            let mut acc = [begin; ALONE_VECTORS];
            let mut reached = 0.0;
            for (&(w, keep), &offset) in row.row.iter().zip(row.offsets) {
                if !one {
                    let reach = w.abs() * row.largest;
                    if reached + reach >= RUN_LIMIT {
                        end_run(simd, &mut acc, &mut units);
                        reached = 0.0;
                    }
                    reached += reach;
                }
                let x = S::as_simd_f32s(&row.source[offset as usize + at..][..block]).0;
                let Some(x) = x.first_chunk::<ALONE_VECTORS>() else { return };
                let (w, keep) = (simd.splat_f32s(w), simd.splat_f32s(keep));
                for v in 0..ALONE_VECTORS {
                    let sum = simd.mul_add_e_f32s(w, x[v], acc[v]);
                    acc[v] = match all {
                        true => sum,
                        false => {
                            let counts = simd.greater_than_or_equal_f32s(simd::abs(simd, x[v]), keep);
                            simd.select_f32s(counts, sum, acc[v])
                        }
                    };
                }
            }
            let mut settled = [0.0; ALONE_VECTORS * LONGEST];
            let settled = &mut settled[..block];
            if one {
                for (to, acc) in S::as_mut_simd_f32s(settled).0.iter_mut().zip(acc) {
                    *to = settle_run(simd, acc);
                }
            } else {
                end_run(simd, &mut acc, &mut units);
                let mut sums = [0; ALONE_VECTORS * LONGEST];
                S::as_mut_simd_u32s(&mut sums[..block]).0.copy_from_slice(&units);
                settled.iter_mut().zip(sums).for_each(|(to, sum)| *to = settle_away(sum as i32));
            }
            out.copy_from_slice(&settled[..out.len()]);
        }
    }
}
