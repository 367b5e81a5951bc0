//! Elementwise arithmetic as the planar engine does it: one exact operation, one rounding.
//!
//! Sums and products of two fp16 numbers are exact in 64-bit floats; fp32 would round a sum a first time.

use anemone_facts::numerics::{Planar, Ties};
use half::f16;

/// An operand as the unit sees it: NaN is plus infinity.
pub fn admit(x: f16) -> f64 {
    if x.is_nan() { f64::INFINITY } else { x.to_f64() }
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
    let digit = f64::from(exponent - 10).exp2();
    let (whole, rest) = ((magnitude / digit).trunc(), (magnitude / digit).fract());
    let up = match planar.ties {
        Ties::Away => rest >= 0.5,
        Ties::Even => rest > 0.5 || (rest == 0.5 && whole % 2.0 == 1.0),
    };
    f16::from_f64(((whole + f64::from(u8::from(up))) * digit).copysign(x))
}

/// Sum.
pub fn add(planar: &Planar, a: f16, b: f16) -> f16 {
    settle(planar, admit(a) + admit(b))
}

/// Difference.
pub fn subtract(planar: &Planar, a: f16, b: f16) -> f16 {
    settle(planar, admit(a) - admit(b))
}

/// Product.
pub fn multiply(planar: &Planar, a: f16, b: f16) -> f16 {
    settle(planar, admit(a) * admit(b))
}

/// The larger one.
pub fn maximum(planar: &Planar, a: f16, b: f16) -> f16 {
    settle(planar, admit(a).max(admit(b)))
}

/// The smaller one.
pub fn minimum(planar: &Planar, a: f16, b: f16) -> f16 {
    settle(planar, admit(a).min(admit(b)))
}

/// Reciprocal. A zero has no sign here.
pub fn reciprocal(planar: &Planar, x: f16) -> f16 {
    settle(planar, 1.0 / unsigned_zero(admit(x)))
}

/// Square root; of a negative number, plus zero.
pub fn square_root(planar: &Planar, x: f16) -> f16 {
    settle(planar, unsigned_zero(admit(x)).sqrt())
}

/// Reciprocal square root; of a negative number, plus zero. A zero has no sign here.
pub fn reciprocal_square_root(planar: &Planar, x: f16) -> f16 {
    settle(planar, 1.0 / unsigned_zero(admit(x)).sqrt())
}

/// A copy through a gain of `2^gain_log2`: the value itself, or infinity where the gain overflows fp16.
pub fn crop(gain_log2: u32, x: f16) -> f16 {
    let x = f16::from_f64(admit(x));
    let raised = f16::from_f64(x.to_f64() * f64::from(gain_log2).exp2());
    if raised.is_infinite() { raised } else { x }
}

fn unsigned_zero(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x }
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
