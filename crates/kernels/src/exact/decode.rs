//! Decoding of operands by an accumulator model, and the products that it drops.

use crate::num::reference::LEAST_EXPONENT;
use crate::params::{AccumulatorSpec, Specials};
use crate::simd::{self, LaneMap};
use pulp::Simd;

/// Exponent sum below which every product rounds to zero.
const ROUND_TO_ZERO_BELOW: i32 = -18;
/// Exponent field of infinities and NaN in fp32.
const SPECIAL: u32 = 0xff << 23;

/// Decoding of operands in a model.
#[derive(Clone, Copy)]
pub struct Reading {
    /// True if exponent 31 encodes finite numbers.
    numbers: bool,
    /// Smaller magnitudes are flushed to zero.
    flush: f32,
    least_exponent_sum: i32,
    /// Set of exponent sums whose products are dropped although they would not round to zero: bit `sum - 2 * LEAST_EXPONENT` each.
    dropped: u32,
}

// No branches below, so that LLVM vectorizes these functions.
impl Reading {
    #[inline(always)]
    pub fn new(mac: &AccumulatorSpec) -> Reading {
        let below = |sum: i32| (1u64 << (sum - 2 * LEAST_EXPONENT).clamp(0, 32)) - 1;
        Reading {
            numbers: mac.specials == Specials::Numbers,
            flush: if mac.flush_subnormals { exp2i(LEAST_EXPONENT) } else { 0.0 },
            least_exponent_sum: mac.least_exponent_sum,
            dropped: (below(mac.least_exponent_sum) & !below(ROUND_TO_ZERO_BELOW)) as u32,
        }
    }

    /// Returns true if every finite number is read unchanged.
    pub(super) fn keeps_finite(self) -> bool {
        self.flush == 0.0
    }

    /// Decodes a row in place. Returns the largest magnitude.
    #[inline(always)]
    pub(super) fn row(self, row: &mut [f32]) -> f32 {
        let mut largest = largest_bits(row);
        if largest >= SPECIAL || self.flush > 0.0 {
            row.iter_mut().for_each(|x| *x = self.decode(*x));
            largest = largest_bits(row);
        }
        f32::from_bits(largest)
    }

    #[inline(always)]
    pub fn decode(self, x: f32) -> f32 {
        let bits = x.to_bits();
        // The same fraction with exponent 16.
        let number = f32::from_bits(bits & !SPECIAL | (127 + 16) << 23);
        let infinite = if x.is_nan() { f32::INFINITY } else { x };
        let read = if self.numbers { number } else { infinite };
        let x = if bits & SPECIAL == SPECIAL { read } else { x };
        if x.abs() < self.flush { 0.0 } else { x }
    }

    /// Smallest operand magnitude whose product with `w` is not dropped; 0 if none is.
    #[inline(always)]
    pub fn keep_from(self, w: f32) -> f32 {
        // Exponents in the position of fp32.
        const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
        const LEAST: i32 = (127 + LEAST_EXPONENT) << DIGITS;
        const SPECIAL: i32 = 0xff << DIGITS;
        let of_w = w.to_bits() as i32 & SPECIAL;
        let least = ((self.least_exponent_sum + 2 * 127) << DIGITS) - of_w.max(LEAST);
        // Zero and infinities drop nothing.
        let some = (least > LEAST) & (of_w != 0) & (of_w != SPECIAL);
        f32::from_bits(least as u32 & u32::from(some).wrapping_neg())
    }

    /// [`Reading::keep_from`] for a vector of finite numbers; zero counts as the smallest one.
    #[inline(always)]
    pub fn keep_each<S: Simd>(self, simd: S, w: S::f32s) -> S::f32s {
        const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
        const LEAST: u32 = ((127 + LEAST_EXPONENT) as u32) << DIGITS;
        let splat = |x: u32| simd.splat_u32s(x);
        let of_w = simd.and_u32s(simd.transmute_u32s_f32s(w), splat(SPECIAL));
        let of_w = simd.select_u32s(simd.greater_than_u32s(of_w, splat(LEAST)), of_w, splat(LEAST));
        let least = simd.sub_u32s(splat(((self.least_exponent_sum + 2 * 127) as u32) << DIGITS), of_w);
        let some = simd.greater_than_u32s(least, splat(LEAST));
        simd.transmute_f32s_u32s(simd.select_u32s(some, least, splat(0)))
    }

    /// Set of operand exponents whose product with `w` is dropped: bit `e - LEAST_EXPONENT` for exponent `e`.
    #[inline(always)]
    pub(super) fn dropping(self, w: f32) -> u32 {
        let all = self.dropped >> (exponent(w) - LEAST_EXPONENT).min(31);
        if w == 0.0 { 0 } else { all }
    }
}

/// Moves a number one fp32 step away from zero; zero and infinities stay.
#[derive(Clone, Copy)]
pub(super) struct BumpUlp;

impl<S: Simd> LaneMap<S> for BumpUlp {
    #[inline(always)]
    fn of(self, simd: S, w: S::f32s) -> S::f32s {
        let magnitude = simd::abs(simd, w);
        let some = simd.greater_than_f32s(magnitude, simd.splat_f32s(0.0));
        let finite = simd.less_than_f32s(magnitude, simd.splat_f32s(f32::INFINITY));
        let raised = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(w), simd.splat_u32s(1)));
        simd.select_f32s(simd.and_m32s(some, finite), raised, w)
    }
}

/// `BumpUlp` for a finite number.
#[inline(always)]
pub fn raised(w: f32) -> f32 {
    if w == 0.0 { w } else { f32::from_bits(w.to_bits() + 1) }
}

/// Inverse of [`BumpUlp`].
#[inline(always)]
pub(super) fn lower(w: f32) -> f32 {
    let lowered = f32::from_bits(w.to_bits().wrapping_sub(1));
    if (w == 0.0) | w.is_infinite() { w } else { lowered }
}

/// Exponent as the accumulator counts it: that of subnormal numbers is `LEAST_EXPONENT`.
#[inline(always)]
fn exponent(x: f32) -> i32 {
    ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(LEAST_EXPONENT)
}

#[inline(always)]
pub(super) fn exp2i(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}

/// Decodes operands in place. Returns the largest magnitude.
#[inline(always)]
pub fn decode(mac: &AccumulatorSpec, row: &mut [f32]) -> f32 {
    Reading::new(mac).row(row)
}

/// Smallest nonzero magnitude of a row; infinity if all numbers are zero.
#[inline(always)]
pub fn least(row: &[f32]) -> f32 {
    // Zero wraps to the largest key.
    let key = row.iter().fold(u32::MAX, |least: u32, x| least.min((x.to_bits() & !(1 << 31)).wrapping_sub(1)));
    f32::from_bits(key.min(SPECIAL - 1) + 1)
}

/// Largest magnitude as bits, whose order is that of the numbers.
#[inline(always)]
fn largest_bits(row: &[f32]) -> u32 {
    row.iter().fold(0, |largest: u32, x| largest.max(x.to_bits() & !(1 << 31)))
}
