//! Bounds on the sums of a GEMV: statistics of constant coefficients, computed when they are packed, and of the vector.

use super::bounds::{SEGMENT, begin};
use super::decode::{BumpUlp, Reading};
use super::microkernel::{BELOW_CEILING, RUN_LIMIT, end_run, settle_away};
use crate::filter::PackedFilter;
use crate::num::reference::LEAST_EXPONENT;
use crate::params::AccumulatorSpec;
use crate::simd::{self, Relation};
use crate::workers::scratch_slice;
use pulp::Simd;

/// Taps of the shorter runs that take sums which may be too large for runs of [`SEGMENT`] taps.
const SHORT: usize = 8;

/// Statistics of packed coefficients and biases; equal for all models that the kernel computes.
#[derive(Clone, Debug, Default)]
pub struct PanelStats {
    taps: usize,
    /// Largest norm of a channel, by panel and segment; infinite if a coefficient is not finite. `short_norms`: by panel and [`SHORT`] taps.
    norms: Vec<f32>,
    short_norms: Vec<f32>,
    /// Set of the exponents of the nonzero coefficients, bit `e - LEAST_EXPONENT` for exponent `e`; by panel and tap.
    exponents: Vec<u32>,
    /// Initial sums of the channels, padded to whole panels, and by panel the largest magnitude of a bias.
    starts: Vec<f32>,
    biases: Vec<f32>,
}

impl PanelStats {
    /// Measures the panels of a filter, of `height` channels each.
    pub fn of(packed: &PackedFilter, biases: Option<&[f32]>, height: usize) -> PanelStats {
        let mut new = PanelStats { taps: packed.taps(), ..PanelStats::default() };
        new.starts = biases.unwrap_or_default().to_vec();
        new.starts.resize(packed.channels().next_multiple_of(height.max(1)), 0.0);
        new.biases.extend(new.starts.chunks_mut(height.max(1)).map(|starts| begin(starts, 0.0)));
        let (mut wide, mut squares) = (vec![0.0; height * SEGMENT], vec![[0.0f32; 2]; height]);
        for first in (0..packed.channels()).step_by(height.max(1)) {
            let channels = packed.height(first);
            for from in (0..new.taps).step_by(SEGMENT) {
                let some = packed.widen(first, from..new.taps.min(from + SEGMENT), &mut wide);
                squares.fill([0.0; 2]);
                for run in some.chunks(SHORT * channels) {
                    for [_, short] in squares.iter_mut() {
                        *short = 0.0;
                    }
                    for of_tap in run.chunks_exact(channels) {
                        squares.iter_mut().zip(of_tap).for_each(|([_, short], w)| *short += w * w);
                        new.exponents.push(of_tap.iter().fold(0, |set, w| set | exponent_bit(*w)));
                    }
                    new.short_norms.push(largest_norm(squares.iter().map(|[_, short]| *short)));
                    for [all, short] in squares.iter_mut() {
                        *all += *short;
                    }
                }
                new.norms.push(largest_norm(squares.iter().map(|[all, _]| *all)));
            }
        }
        new
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        let rows = size_of_val(&*self.starts) + size_of_val(&*self.biases);
        let norms = size_of_val(&*self.norms) + size_of_val(&*self.short_norms);
        norms + size_of_val(&*self.exponents) + rows
    }

    /// Initial sums of the channels of a panel, `height` of them.
    #[inline]
    pub fn starts(&self, panel: usize, height: usize) -> &[f32] {
        &self.starts[panel * height..][..height]
    }

    /// Norms of a panel, by segment or by [`SHORT`] taps.
    fn norms(&self, panel: usize, of: usize) -> &[f32] {
        let (all, count) = (if of == SHORT { &self.short_norms } else { &self.norms }, self.taps.div_ceil(of));
        &all[panel * count..][..count]
    }
}

/// Norm from the squares of several channels, the largest; infinite if one is not finite.
fn largest_norm(squares: impl Iterator<Item = f32>) -> f32 {
    squares.fold(0.0f32, |most, square| if square.is_finite() { most.max(square) } else { f32::INFINITY }).sqrt()
}

/// Set of the exponent of a number; empty for zero.
fn exponent_bit(w: f32) -> u32 {
    let exponent = (w.to_bits() >> 23 & 0xff) as i32 - 127;
    let bit = (exponent - LEAST_EXPONENT).clamp(0, 31);
    if w == 0.0 { 0 } else { 1 << bit }
}

/// Scratch memory of a vector's statistics.
#[derive(Default)]
pub struct VectorBuffers {
    norms: Vec<f32>,
    drops: Vec<u32>,
    mixed: Vec<u32>,
}

/// The vector of a GEMV, which takes the place of the weights, and its statistics.
pub struct VectorStats<'a> {
    /// Norm by segment.
    norms: &'a [f32],
    /// Set of the exponents of coefficients whose products are dropped although they would not round to zero, by tap.
    drops: &'a [u32],
    mixed: &'a mut [u32],
}

impl VectorStats<'_> {
    /// Decodes `x`, measures it, and moves each element one fp32 step away from zero.
    #[inline(always)]
    pub fn of<'a, S: Simd>(
        simd: S,
        mac: &AccumulatorSpec,
        x: &mut [f32],
        buffers: &'a mut VectorBuffers,
    ) -> VectorStats<'a> {
        let (reading, taps) = (Reading::new(mac), x.len());
        let VectorBuffers { norms, drops, mixed } = buffers;
        let norms = scratch_slice(norms, taps.div_ceil(SEGMENT));
        let (drops, mixed) = (scratch_slice(drops, taps), scratch_slice(mixed, taps + simd::LONGEST));
        reading.row(x);
        for (x, norm) in x.chunks(SEGMENT).zip(&mut *norms) {
            let (vectors, rest) = S::as_simd_f32s(x);
            let mut squares = simd.splat_f32s(0.0);
            for x in vectors {
                squares = simd.mul_add_e_f32s(*x, *x, squares);
            }
            let rest = simd.partial_load_f32s(rest);
            *norm = simd.reduce_sum_f32s(simd.mul_add_e_f32s(rest, rest, squares)).sqrt();
        }
        for (drops, x) in drops.iter_mut().zip(&*x) {
            *drops = reading.dropping(*x);
        }
        simd::prepare(simd, BumpUlp, x);
        VectorStats { norms, drops, mixed }
    }

    /// Number of taps of the runs of a panel, and taps under which some products are dropped, in ascending order; `None` if fp32 runs might
    /// not give the accumulator's sums. `x` is the vector, whose elements were moved.
    #[inline(always)]
    pub fn runs<S: Simd>(&mut self, simd: S, of: &PanelStats, panel: usize, x: &[f32]) -> Option<(usize, &[u32])> {
        let norms = of.norms(panel, SEGMENT).iter().zip(self.norms).map(|(a, b)| a * b);
        let length = if fits(of.biases[panel], norms) { SEGMENT } else { short(of, panel, x)? };
        let exponents = &of.exponents[panel * of.taps..][..of.taps];
        let count = simd::places(simd, exponents, Relation::Meets, self.drops, self.mixed);
        Some((length, &self.mixed[..count]))
    }
}

/// Returns true if runs with these bounds on their sums, and a bias in the first one, give the accumulator's sums.
#[inline(always)]
fn fits(bias: f32, bounds: impl Iterator<Item = f32>) -> bool {
    let (mut reached, mut all, mut most) = (bias, 0.0, 0.0f32);
    for bound in bounds {
        let run = bound + std::mem::take(&mut reached);
        all += run;
        // The comparison keeps a NaN.
        most = if run <= most { most } else { run };
    }
    most < RUN_LIMIT && all < BELOW_CEILING
}

/// [`SHORT`] if runs of so many taps fit. Out of line: few vectors need it.
#[inline(never)]
fn short(of: &PanelStats, panel: usize, x: &[f32]) -> Option<usize> {
    let norm = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>().sqrt();
    let bounds = of.norms(panel, SHORT).iter().zip(x.chunks(SHORT)).map(|(a, x)| a * norm(x));
    fits(of.biases[panel], bounds).then_some(SHORT)
}

/// Adds the sums of a run to sums in units of 2^-16, and begins the next run. The sums are integers, stored as bits, up to the ceiling of the
/// accumulator.
#[inline(always)]
pub fn add_run<S: Simd>(simd: S, run: &mut [f32], sums: &mut [f32]) {
    let units = S::as_mut_simd_u32s(bytemuck::cast_slice_mut(sums)).0;
    end_run(simd, S::as_mut_simd_f32s(run).0, units);
}

/// Rounds sums of [`add_run`] to fp16, as at the output port.
#[inline(always)]
pub fn settle(sums: &mut [f32]) {
    for sum in sums.iter_mut() {
        *sum = settle_away(sum.to_bits() as i32);
    }
}

/// Splits the taps before `end` off an ascending list.
#[inline(always)]
pub fn taps_in<'a>(mixed: &mut &'a [u32], end: usize) -> &'a [u32] {
    let count = mixed.iter().take_while(|tap| (**tap as usize) < end).count();
    let (now, rest) = mixed.split_at(count);
    *mixed = rest;
    now
}
