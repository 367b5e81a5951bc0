//! The edges of elementwise arithmetic: how an operand is read and a result rounded. Between them stands [`super::wide`].
//!
//! Sums and products of two fp16 numbers are exact in 64-bit floats; fp32 would round a sum a first time.

use anemone_facts::numerics::{Planar, Ties};
use half::f16;

/// An operand as the unit sees it: NaN is plus infinity.
pub fn admit(x: f32) -> f32 {
    if x.is_nan() { f32::INFINITY } else { x }
}

/// As [`admit`], of an operand where it lies.
pub fn admit_half(x: f16) -> f16 {
    if x.to_bits() & 0x7fff > 0x7c00 { f16::INFINITY } else { x }
}

/// A result as the unit stores it: rounded once; an indeterminate form is plus zero.
pub fn settle(planar: &Planar, x: f64) -> f16 {
    if x.is_nan() {
        return f16::ZERO;
    }
    // Exact at every step: a power of two scales the last digit of the result to 1. Conversion by way of fp32 would round
    // twice.
    let magnitude = x.abs();
    if magnitude >= 65536.0 {
        return f16::INFINITY.copysign(f16::from_f64(x));
    }
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(-14);
    // 2^-24 at least, so a normal 64-bit number.
    let digit = f64::from_bits(((exponent - 10 + 1023) as u64) << 52);
    let (whole, rest) = ((magnitude / digit).trunc(), (magnitude / digit).fract());
    let up = match planar.ties {
        Ties::Away => rest >= 0.5,
        Ties::Even => rest > 0.5 || (rest == 0.5 && whole % 2.0 == 1.0),
    };
    f16::from_f64(((whole + f64::from(u8::from(up))) * digit).copysign(x))
}

/// A copy through a gain of `2^gain_log2`: the value itself, or infinity where the gain overflows fp16.
pub fn crop(gain_log2: u32, x: f32) -> f32 {
    let x = admit(x);
    let raised = super::round(x * f64::from(gain_log2).exp2() as f32);
    if raised.is_infinite() { raised.to_f32() } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anemone_facts::numerics::PLANAR;

    #[test]
    fn every_number_and_every_halfway_point_settles() {
        let even = Planar { ties: Ties::Even };
        for bits in 0..0x7c00u16 {
            let (a, b) = (f16::from_bits(bits), f16::from_bits(bits + 1));
            let above = if b.is_infinite() { 65536.0 } else { b.to_f64() };
            let half = (a.to_f64() + above) / 2.0;
            assert_eq!(settle(&PLANAR, a.to_f64()), a);
            assert_eq!(settle(&PLANAR, half), b, "{half}");
            assert_eq!(settle(&PLANAR, -half), -b, "{half}");
            assert_eq!(settle(&PLANAR, half.next_down()), a, "{half}");
            assert_eq!(settle(&PLANAR, half.next_up()), b, "{half}");
            assert_eq!(settle(&even, half), if bits % 2 == 0 { a } else { b });
        }
    }
}
