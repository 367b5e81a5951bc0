//! Precision diagnostics: compares a sample of fixed-point sums with the same sums in floating point.

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_kernels::filter::Values;
use anemone_kernels::num::reference::dot;
use anemone_kernels::num::round;
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_kernels::window::Window;
use half::f16;

/// Limit of recomputed products for one task.
const MOST_PRODUCTS: usize = 1 << 17;
/// Limit of recomputed sums for one task.
const MOST_SUMS: usize = 256;
/// Relative error beyond which a sum counts as lost: fewer than six correct bits. Rounding to fp16 leaves eleven.
const LOST: f64 = 1.0 / 64.0;

/// Statistics of a sample of a task's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Recomputed sums.
    pub sampled: u64,
    /// Sums among them whose fixed-point error exceeds 1/64 of their magnitude, including those that became zero.
    pub lost: u64,
    /// Largest magnitude of the sampled sums.
    pub largest: f32,
    /// Sum of the squares of the sampled sums.
    pub power: f64,
    /// Sum of the squares of their fixed-point errors.
    pub error: f64,
}

impl Sums {
    /// Merges the statistics of another plane.
    pub(crate) fn join(&mut self, other: &Sums) {
        self.sampled += other.sampled;
        self.lost += other.lost;
        self.largest = self.largest.max(other.largest);
        self.power += other.power;
        self.error += other.error;
    }

    /// Root mean square of the fixed-point errors, relative to that of the sums.
    pub fn noise(&self) -> f64 {
        if self.error > 0.0 { (self.error / self.power).sqrt() } else { 0.0 }
    }
}

/// Source and window of a sampled task.
struct Sampled<'a> {
    x: &'a Tensor,
    window: Window,
    /// Input channels per output channel.
    per_output: usize,
    unicast: bool,
}

impl Sampled<'_> {
    /// Terms of the sum of an output, as pairs of weight and operand.
    fn terms(&self, [g, c, h, w]: [usize; 4], weights: &Values) -> Vec<(f16, f16)> {
        let (ext, window) = (self.x.ext, &self.window);
        let taps = self.per_output * window.elements();
        let first = if self.unicast { c * self.per_output } else { 0 };
        let mut terms = Vec::with_capacity(taps);
        for tap in 0..taps {
            let (channel, rest) = (tap / window.elements(), tap % window.elements());
            let at = [rest / window.k[1], rest % window.k[1]];
            let row = (h * window.s[0] + at[0]).checked_sub(window.p[0]).filter(|&r| r < ext.h);
            let column = (w * window.s[1] + at[1]).checked_sub(window.p[1]).filter(|&r| r < ext.w);
            let (Some(row), Some(column)) = (row, column) else { continue };
            let place = ((g * ext.c + first + channel) * ext.h + row) * ext.w + column;
            let Some(&x) = self.x.data.get(place) else { continue };
            terms.push((weights.get(c * taps + tap), round(x)));
        }
        terms
    }
}

impl Machine<'_> {
    /// Samples the task's sums, spread evenly over its results; empty for a model without a fixed-point accumulator, and for kernels with
    /// depth.
    pub(crate) fn sample_sums(&self, input: Extents, output: Extents) -> Result<Sums, FaultKind> {
        let mut sums = Sums::default();
        let Some(mac) = self.mac.filter(|_| self.depth_window().is_none() && self.kernel_planes() == 1) else {
            return Ok(sums);
        };
        let unicast = self.get(UnicastEn) == 1;
        let per_output = if unicast { self.size(UnicastCin).max(1) } else { input.c };
        let window = self.window(input, output)?;
        let taps = (per_output * window.elements()).max(1);
        let x = self.peek_source1(input)?;
        let sampled = Sampled { x: &x, window, per_output, unicast };
        let (groups, each) = (output.g.max(1), output.c * output.plane());
        let count = (MOST_PRODUCTS / taps).clamp(1, MOST_SUMS).min(groups * each);
        let mut weights: Option<(usize, Values)> = None;
        for i in 0..count {
            // An odd factor spreads the sample over channels, rows and columns.
            let place = i * (groups * each) / count;
            let (g, rest) = (place / each, (place % each).wrapping_mul(0x9e37) % each);
            let of_group = if self.get(GroupKernelReuse) == 1 { 0 } else { g };
            if weights.as_ref().is_none_or(|(of, _)| *of != of_group) {
                weights = Some((of_group, self.coefficients(of_group, output.c, taps)?.weights));
            }
            let Some((_, weights)) = &weights else { continue };
            let at = [g, rest / output.plane(), rest % output.plane() / output.w, rest % output.w];
            let terms = sampled.terms(at, weights);
            let plain: f64 = terms.iter().map(|(w, x)| w.to_f64() * x.to_f64()).sum();
            let found = dot(mac, &terms, 0.0).to_f64();
            sums.sampled += 1;
            sums.lost += u64::from(plain.is_finite() && (found - plain).abs() > plain.abs() * LOST);
            sums.largest = sums.largest.max(plain.abs() as f32);
            if plain.is_finite() && found.is_finite() {
                sums.power += plain * plain;
                sums.error += (found - plain).powi(2);
            }
        }
        Ok(sums)
    }
}
