//! Bounds on partial sums from the norms of the operands, computed before multiplying, and the products that are dropped. For NCHWc
//! kernels, whose vectors hold sums of several channels of one output.

use super::columns::{Columns, Operands};
use super::decode::{BumpUlp, Reading, raised};
use super::microkernel::{RUN_LIMIT, START, UNIT, is_fixed, round_sum, start};
use super::{Space, Weights, product_of_rows};
use crate::arena::scratch_slice;
use crate::filter::BLOCK;
use crate::filter::Filter;
use crate::filter::Values;
use crate::num;
use crate::params::{AccumulatorSpec, Ties};
use crate::simd::outline;
use crate::simd::{self, LaneMap, Relation};
use half::f16;
use pulp::Simd;
use std::ops::Range;

/// Taps that share a bound: four blocks of channels.
pub const SEGMENT: usize = 4 * BLOCK;
/// Bound on sums that fp32 holds as multiples of 2^-16, with a margin for the rounding of norms.
pub(super) const WHOLE: f32 = 250.0;
/// Bound on sums of magnitudes below which sums stay within one run, with a margin for the bias.
pub const ONE_RUN: f32 = RUN_LIMIT / 2.0;
/// Products below this round to zero: half a unit of 2^-16, with a margin for the rounding of quotients and for raised coefficients.
const NOTHING: f32 = 0.999 / (1 << 17) as f32;

/// Returns true if the NCHWc kernels implement the accumulator.
pub fn suits(mac: &AccumulatorSpec) -> bool {
    is_fixed(mac) && !mac.flush_subnormals && mac.ties == Ties::Away
}

/// Statistics of a packed source and of one set of coefficients.
#[derive(Default)]
pub struct OperandStats {
    /// Largest norm of an output, by tile and segment; and the smallest nonzero operand as fp32 bits, by tile and tap.
    norms: Vec<f32>,
    least: Vec<u32>,
    /// Upper bound on every operand's magnitude.
    largest: f32,
    /// Largest norm of a channel, by segment; and the smallest operand that no coefficient drops, as fp32 bits, by tap.
    row_norms: Vec<f32>,
    reach: Vec<u32>,
    /// The largest magnitude of a bias.
    bias: f32,
    ends: Vec<u32>,
    mixed: Vec<u32>,
    totals: Vec<f32>,
    columns: Option<Columns>,
    space: Option<Box<Space>>,
    raised: Vec<f32>,
    sums: Vec<f32>,
}

/// Run schedule of a tile: where runs end, and which taps need the test for dropped products.
#[derive(Default)]
pub struct RunSchedule<'a> {
    /// Ends of runs, as tap indices: the sums move to their totals there.
    pub ends: &'a [u32],
    /// Taps under which some products are dropped that would not round to zero.
    pub mixed: &'a [u32],
    /// Scratch memory for the totals of runs.
    pub totals: &'a mut [f32],
}

impl OperandStats {
    /// Resizes the buffers for a number of tiles and taps.
    pub fn begin(&mut self, tiles: usize, taps: usize) {
        self.norms.resize(tiles * taps.div_ceil(SEGMENT), 0.0);
        self.least.resize(tiles * taps, 0);
        self.row_norms.resize(taps.div_ceil(SEGMENT), 0.0);
        self.reach.resize(taps, 0);
        self.mixed.resize(taps + BLOCK, 0);
        self.totals.resize(BLOCK * 2 * BLOCK, 0.0);
        self.largest = 0.0;
    }

    /// Decodes a tile in place, `[tap][output]` with [`BLOCK`] outputs, the first `outputs` of which are used, and records its bounds.
    #[inline(always)]
    pub fn measure_lines<S: Simd>(
        &mut self,
        simd: S,
        mac: &AccumulatorSpec,
        at: usize,
        tile: &mut [f32],
        outputs: usize,
    ) {
        let lines = tile.as_chunks_mut::<BLOCK>().0;
        let (norms, least) = of_tile(&mut self.norms, &mut self.least, at, lines.len());
        for (lines, (least, norm)) in lines.chunks_mut(SEGMENT).zip(least.chunks_mut(SEGMENT).zip(norms)) {
            let mut most = measure(simd, lines, outputs, least, norm);
            // The norm of infinities and NaN is not finite; they are decoded first.
            if most.is_none() {
                Reading::new(mac).row(lines.as_flattened_mut());
                most = measure(simd, lines, outputs, least, norm);
            }
            self.largest = self.largest.max(most.unwrap_or(*norm));
        }
    }

    /// [`OperandStats::measure_lines`] for a tile in NCHWc, `[block][output][tap]` with blocks of 16 taps.
    #[inline(always)]
    pub fn measure_blocks<S: Simd>(
        &mut self,
        simd: S,
        mac: &AccumulatorSpec,
        at: usize,
        tile: &mut [f32],
        outputs: usize,
    ) {
        let taps = tile.len() / outputs.max(1);
        let (norms, least) = of_tile(&mut self.norms, &mut self.least, at, taps);
        let least = least.as_chunks_mut::<BLOCK>().0.chunks_mut(SEGMENT / BLOCK);
        for (part, (least, norm)) in tile.chunks_mut(SEGMENT * outputs).zip(least.zip(norms)) {
            let mut most = measure_part(simd, part.as_chunks().0, outputs, least, norm);
            if most.is_none() {
                Reading::new(mac).row(part);
                most = measure_part(simd, part.as_chunks().0, outputs, least, norm);
            }
            self.largest = self.largest.max(most.unwrap_or(*norm));
        }
    }

    /// Resets the bounds before another set of coefficients.
    pub fn begin_blocks(&mut self) {
        self.row_norms.fill(0.0);
        self.reach.fill(0);
        self.bias = 0.0;
    }

    /// Decodes a block of coefficients, `[tap][channel]` with 16 channels, moves each one fp32 step away from zero, records their bounds, and
    /// turns the biases behind them into initial sums.
    #[inline(always)]
    pub fn bump_ulp<S: Simd>(&mut self, simd: S, mac: &AccumulatorSpec, block: &mut [f32]) {
        let reading = Reading::new(mac);
        let (taps, rest) = block.as_chunks_mut::<BLOCK>().0.split_at_mut(self.reach.len());
        // Products of smaller coefficients round to zero with any operand.
        let nothing = simd.splat_f32s(NOTHING / self.largest.max(f32::MIN_POSITIVE));
        let parts = self.reach.chunks_mut(SEGMENT).zip(&mut self.row_norms);
        for (taps, (reach, norm)) in taps.chunks_mut(SEGMENT).zip(parts) {
            reading.row(taps.as_flattened_mut());
            let mut squares = [0.0f32; BLOCK];
            let squares = S::as_mut_simd_f32s(&mut squares).0;
            let mut of_taps = [BEYOND; SEGMENT];
            for (tap, to) in taps.iter_mut().zip(&mut of_taps) {
                let mut least = simd.splat_f32s(BEYOND);
                for (w, squares) in S::as_mut_simd_f32s(tap).0.iter_mut().zip(&mut *squares) {
                    *squares = simd.mul_add_e_f32s(*w, *w, *squares);
                    least = simd.min_f32s(least, unless_below(simd, nothing, *w));
                    *w = BumpUlp.of(simd, *w);
                }
                *to = simd.reduce_min_f32s(least);
            }
            for least in S::as_mut_simd_f32s(&mut of_taps).0 {
                *least = reading.keep_each(simd, *least);
            }
            for (reach, least) in reach.iter_mut().zip(of_taps) {
                *reach = (*reach).max(least.to_bits());
            }
            let most = squares.iter().fold(simd.splat_f32s(0.0), |most, squares| simd.max_f32s(most, *squares));
            *norm = norm.max(simd.reduce_max_f32s(most).sqrt());
        }
        self.bias = begin(&mut rest.as_flattened_mut()[..BLOCK], self.bias);
    }

    /// Run schedule of a tile; `None` if its sums may leave the range of fp32 runs.
    #[inline(always)]
    pub fn terms<S: Simd>(&mut self, simd: S, tile: usize) -> Option<RunSchedule<'_>> {
        let taps = self.reach.len();
        let (norms, least) = of_tile(&mut self.norms, &mut self.least, tile, taps);
        let (mut reached, mut all) = (self.bias, self.bias);
        self.ends.clear();
        for (i, (a, b)) in self.row_norms.iter().zip(norms).enumerate() {
            let bound = a * *b;
            if reached + bound >= RUN_LIMIT {
                self.ends.push((i * SEGMENT) as u32);
                reached = 0.0;
            }
            (reached, all) = (reached + bound, all + bound);
            if reached >= RUN_LIMIT || all >= WHOLE || all.is_nan() {
                return None;
            }
        }
        self.ends.push(taps as u32);
        let mixed = simd::places(simd, least, Relation::IsBelow, &self.reach, &mut self.mixed);
        Some(RunSchedule { ends: &self.ends, mixed: &self.mixed[..mixed], totals: &mut self.totals })
    }

    /// Sums of some channels without a limit on their range, `[channel][output]`. `place` gives the position of an operand in `from`, which is
    /// decoded already, by tap and output.
    #[inline(never)]
    pub fn sums<S: Simd>(
        &mut self,
        simd: S,
        mac: &AccumulatorSpec,
        (kernel, channels): (&Filter, Range<usize>),
        (from, place): (&[f32], &dyn Fn(usize, usize) -> usize),
        outputs: usize,
    ) -> &[f32] {
        let taps = kernel.packed.taps();
        let (mut halves, mut rounded) = (Vec::with_capacity(channels.len() * taps), Vec::new());
        let mut first = channels.start;
        while first < channels.end {
            let (panel, height) = kernel.packed.panel_of(first);
            let wide = kernel.packed.widen(panel, 0..taps, scratch_slice(&mut self.raised, height * taps));
            rounded.resize(wide.len(), f16::ZERO);
            num::round_row(wide, &mut rounded);
            let end = channels.end.min(panel + height);
            for channel in first..end {
                halves.extend(rounded[channel - panel..].iter().step_by(height));
            }
            first = end;
        }
        let weights = Weights::of(mac, channels.len(), taps, &Values::Halves(halves));
        let columns = self.columns.get_or_insert_with(|| Columns::empty(mac));
        let bias = kernel.biases.as_ref().map_or(&[][..], |biases| &biases[channels.clone()]);
        let out = scratch_slice(&mut self.sums, channels.len() * outputs);
        outline(
            simd,
            #[inline(always)]
            || columns.fill(simd, taps, outputs, true, &Placed { from, place }),
        );
        let space = self.space.get_or_insert_default();
        product_of_rows(simd, &weights, 0, columns, bias, out, space);
        out
    }
}

/// Operands gathered from their positions.
struct Placed<'a> {
    from: &'a [f32],
    place: &'a dyn Fn(usize, usize) -> usize,
}

impl Operands for Placed<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, to: &mut [f32]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = self.from[(self.place)(tap, first + i)];
        }
    }
}

/// Larger than any operand.
const BEYOND: f32 = (1 << 17) as f32;

/// Magnitudes, with those below `least` replaced by [`BEYOND`].
#[inline(always)]
fn unless_below<S: Simd>(simd: S, least: S::f32s, x: S::f32s) -> S::f32s {
    let magnitude = simd::abs(simd, x);
    let below = simd.less_than_f32s(magnitude, least);
    simd.select_f32s(below, simd.splat_f32s(BEYOND), magnitude)
}

/// Maximum by lane; `or` where `a` is NaN.
#[inline(always)]
fn larger<S: Simd>(simd: S, a: S::f32s, or: S::f32s) -> S::f32s {
    simd.select_f32s(simd.greater_than_f32s(a, or), a, or)
}

/// Measures some taps of a tile: the largest norm of an output, and by tap the smallest nonzero magnitude as fp32 bits. Returns the largest
/// magnitude; `None` unless all operands are finite.
#[inline(always)]
fn measure<S: Simd>(simd: S, lines: &[[f32; BLOCK]], outputs: usize, least: &mut [u32], norm: &mut f32) -> Option<f32> {
    let mut wanted = [0.0f32; BLOCK];
    wanted[..outputs].fill(1.0);
    let (wanted, zero) = (S::as_simd_f32s(&wanted).0, simd.splat_f32s(0.0));
    let mut squares = [0.0f32; BLOCK];
    let squares = S::as_mut_simd_f32s(&mut squares).0;
    let mut most = zero;
    for (line, to) in lines.iter().zip(least) {
        let mut least = simd.splat_f32s(BEYOND);
        for ((x, wanted), squares) in S::as_simd_f32s(line).0.iter().zip(wanted).zip(&mut *squares) {
            let x = simd.select_f32s(simd.greater_than_f32s(*wanted, zero), *x, zero);
            *squares = simd.mul_add_e_f32s(x, x, *squares);
            most = simd.max_f32s(most, simd::abs(simd, x));
            least = simd.min_f32s(least, unless_below(simd, simd.splat_f32s(f32::MIN_POSITIVE), x));
        }
        *to = simd.reduce_min_f32s(least).to_bits();
    }
    *norm = norm_of(simd, squares);
    norm.is_finite().then(|| simd.reduce_max_f32s(most))
}

/// Square root of the largest element; NaN if an element is NaN.
#[inline(always)]
fn norm_of<S: Simd>(simd: S, squares: &[S::f32s]) -> f32 {
    let (mut most, mut finite) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    for squares in squares {
        most = larger(simd, *squares, most);
        // Zero for finite squares, NaN otherwise.
        finite = simd.mul_add_e_f32s(*squares, simd.splat_f32s(0.0), finite);
    }
    (simd.reduce_max_f32s(most) + simd.reduce_sum_f32s(finite)).sqrt()
}

/// [`measure`] for NCHWc blocks. The norm is an upper bound, from the largest square of each tap over all outputs.
#[inline(always)]
fn measure_part<S: Simd>(
    simd: S,
    part: &[[f32; BLOCK]],
    outputs: usize,
    least: &mut [[u32; BLOCK]],
    norm: &mut f32,
) -> Option<f32> {
    let (zero, beyond) = (simd.splat_f32s(0.0), simd.splat_f32s(BEYOND));
    let positive = simd.splat_f32s(f32::MIN_POSITIVE);
    let (mut all, mut finite, mut top) = (zero, zero, zero);
    for lane in (0..BLOCK).step_by(S::F32_LANES) {
        let of = |x: &[f32; BLOCK]| S::as_simd_f32s(&x[lane..][..S::F32_LANES]).0[0];
        for (block, least) in part.chunks(outputs).zip(&mut *least) {
            let (mut below, mut most) = (beyond, zero);
            for x in block {
                let x = of(x);
                let square = simd.mul_f32s(x, x);
                finite = simd.mul_add_e_f32s(square, zero, finite);
                most = larger(simd, square, most);
                below = simd.min_f32s(below, unless_below(simd, positive, x));
            }
            S::as_mut_simd_u32s(&mut least[lane..][..S::F32_LANES]).0[0] = simd.transmute_u32s_f32s(below);
            all = simd.add_f32s(all, most);
            top = simd.max_f32s(top, most);
        }
    }
    *norm = (simd.reduce_sum_f32s(all) + simd.reduce_sum_f32s(finite)).sqrt();
    // Exact: squares of fp16 numbers have at most 22 significant bits.
    norm.is_finite().then(|| simd.reduce_max_f32s(top).sqrt())
}

/// Norms and smallest operands of a tile.
#[inline(always)]
fn of_tile<'a>(norms: &'a mut [f32], least: &'a mut [u32], tile: usize, taps: usize) -> (&'a mut [f32], &'a mut [u32]) {
    let segments = taps.div_ceil(SEGMENT);
    (&mut norms[tile * segments..][..segments], &mut least[tile * taps..][..taps])
}

/// Converts biases to initial sums. Returns the larger of `most` and their largest magnitude.
#[inline(always)]
pub(super) fn begin(biases: &mut [f32], mut most: f32) -> f32 {
    for bias in biases {
        most = most.max(bias.abs());
        *bias = START + (start(f64::from(*bias)) as i32) as f32 / UNIT as f32;
    }
    most
}

/// Smallest operand that each coefficient does not drop. Coefficients are finite; zero counts as the smallest one.
#[inline(always)]
pub fn keep_from<S: Simd>(simd: S, mac: &AccumulatorSpec, w: S::f32s) -> S::f32s {
    Reading::new(mac).keep_each(simd, w)
}

/// Sum of the products of a run, from its accumulator.
#[inline(always)]
pub fn of_run<S: Simd>(simd: S, acc: S::f32s) -> S::f32s {
    // Exact: both are multiples of 2^-16, and less than 64 apart.
    simd.sub_f32s(acc, simd.splat_f32s(START))
}

/// Initial value of a run.
#[inline(always)]
pub fn new_run<S: Simd>(simd: S) -> S::f32s {
    simd.splat_f32s(START)
}

/// Rounds sums below 256 in magnitude to fp16, as at the output port, then applies a map.
#[derive(Clone, Copy)]
pub struct Settled<B>(pub B);

impl<S: Simd, B: LaneMap<S>> LaneMap<S> for Settled<B> {
    #[inline(always)]
    fn of(self, simd: S, sum: S::f32s) -> S::f32s {
        self.0.of(simd, round_sum(simd, sum))
    }
}

/// Largest sum over the taps of the magnitudes of a channel's coefficients, `[tap][channel]` with 16 channels.
#[inline(always)]
pub fn magnitude(taps: usize, block: &[f32]) -> f32 {
    let mut sums = [0.0f32; BLOCK];
    for tap in &block.as_chunks::<BLOCK>().0[..taps] {
        for i in 0..BLOCK {
            sums[i] += tap[i].abs();
        }
    }
    sums.iter().fold(0.0, |most, &sum| most.max(sum))
}

/// Prepares depthwise coefficients, `[tap][channel]` with 16 channels: decodes them, moves each one fp32 step away from zero, and converts the
/// biases behind them to initial sums. Returns the set of taps after which a run ends, one bit each, for operands of a magnitude up to
/// `largest`; `None` if sums may leave the range of fp32 runs.
#[inline(always)]
pub fn raise_own(mac: &AccumulatorSpec, taps: usize, block: &mut [f32], largest: f32) -> Option<u32> {
    let (all, rest) = block.as_chunks_mut::<BLOCK>().0.split_at_mut(taps);
    let reading = Reading::new(mac);
    reading.row(all.as_flattened_mut());
    let bias = begin(&mut rest.as_flattened_mut()[..BLOCK], 0.0);
    let mut sums = [bias; BLOCK];
    for tap in all.iter_mut() {
        for i in 0..BLOCK {
            sums[i] += tap[i].abs() * largest;
            tap[i] = raised(tap[i]);
        }
    }
    let most = |all: &[f32; BLOCK]| all.iter().fold(0.0f32, |a, &b| a.max(b.abs()));
    if most(&sums) < RUN_LIMIT {
        return Some(0);
    }
    let (mut ends, mut reached, mut whole) = (0, bias, bias);
    for (i, tap) in all.iter().enumerate() {
        let bound = most(tap) * largest;
        if reached + bound >= RUN_LIMIT && i > 0 {
            (ends, reached) = (ends | 1 << (i - 1), 0.0);
        }
        (reached, whole) = (reached + bound, whole + bound);
        if reached >= RUN_LIMIT || whole >= WHOLE || whole.is_nan() {
            return None;
        }
    }
    Some(ends)
}
