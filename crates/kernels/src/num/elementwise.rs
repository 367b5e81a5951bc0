//! Conversions at the edges of elementwise arithmetic: reading an operand and rounding a result. The arithmetic itself is in
//! [`super::wide`].
//!
//! Sums and products of two fp16 numbers are exact in fp64; fp32 would round a sum once more.

use crate::params::{Rounding, Ties};
use half::f16;

/// Reads an operand as the planar unit does: NaN becomes plus infinity.
#[inline(always)]
pub fn canonicalize(x: f32) -> f32 {
    if x.is_nan() { f32::INFINITY } else { x }
}

/// [`canonicalize`] for an fp16 operand.
#[inline(always)]
pub fn admit_half(x: f16) -> f16 {
    if x.to_bits() & 0x7fff > 0x7c00 { f16::INFINITY } else { x }
}

/// Rounds a result once, as the planar unit stores it; an indeterminate form becomes plus zero.
pub fn round_result(planar: &Rounding, x: f64) -> f16 {
    if x.is_nan() {
        return f16::ZERO;
    }
    // Exact at every step: scaling by a power of two makes the last place of the result worth 1. Conversion by way of fp32 would
    // round twice.
    let magnitude = x.abs();
    if magnitude >= 65536.0 {
        return f16::INFINITY.copysign(f16::from_f64(x));
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
    // At least 2^-24, so a normal fp64 number.
    let digit = f64::from_bits(((exponent - 10 + 1023) as u64) << 52);
    let (whole, rest) = ((magnitude / digit).trunc(), (magnitude / digit).fract());
    let up = match planar.ties {
        Ties::Away => rest >= 0.5,
        Ties::Even => rest > 0.5 || (rest == 0.5 && whole % 2.0 == 1.0),
    };
    f16::from_f64(((whole + f64::from(u8::from(up))) * digit).copysign(x))
}

/// [`canonicalize`] for a row of operands of a sum, product, maximum or minimum, in place.
#[inline(always)]
pub fn admit_row(row: &mut [f32]) {
    for x in row.iter_mut() {
        *x = if x.is_nan() { f32::INFINITY } else { *x };
    }
}

/// [`round_result`] for sums and products of two fp16 numbers computed in fp32. The 24 significant bits of fp32 are two more than twice those of
/// fp16, so that the double rounding is innocuous. A zero has no sign.
#[inline(always)]
pub fn settle_row(planar: &Rounding, row: &mut [f32], to: &mut [f16]) {
    match planar.ties {
        Ties::Even => row.iter_mut().for_each(
            #[inline(always)]
            |x| *x = defined(*x),
        ),
        Ties::Away => row.iter_mut().for_each(
            #[inline(always)]
            |x| *x = away_from_ties(defined(*x)),
        ),
    }
    super::round_row(row, to);
}

/// Replaces NaN by plus zero, and minus zero too.
#[inline(always)]
fn defined(x: f32) -> f32 {
    if x.is_nan() { 0.0 } else { x + 0.0 }
}

/// Sets the last bit (a sticky bit), so that rounding to nearest gives the fp16 number that rounding with ties away from zero gives: no
/// number is halfway any more, and the fp16 neighbours stay the same. Not for NaN.
#[inline(always)]
pub fn away_from_ties(x: f32) -> f32 {
    let x = if x > f32::MAX { f32::MAX } else { x };
    let x = if x < f32::MIN { f32::MIN } else { x };
    f32::from_bits(x.to_bits() | 1)
}

/// Applies a gain of `2^gain_log2` and undoes it: the value itself, or infinity if the gain overflows fp16.
pub fn crop(gain_log2: u32, x: f32) -> f32 {
    let x = canonicalize(x);
    let raised = super::round(x * f64::from(gain_log2).exp2() as f32);
    if raised.is_infinite() { raised.to_f32() } else { x }
}
