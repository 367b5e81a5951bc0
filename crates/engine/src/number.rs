//! The only place that rounds.
//!
//! The functions of this file are the model `fast`: operands are fp16, everything between is fp32, and one rounding to
//! nearest even makes the fp16 result. An argument of an activation table is rounded to fp16 first, because the table is
//! indexed by it. The submodules are the models of the devices; `docs/numerics.md` says what stands behind each.

pub mod mac;
pub mod packed;
pub mod planar;
pub mod wide;

use anemone_program::Element;
use half::f16;

/// fp32 to fp16, nearest even.
pub fn round(x: f32) -> f16 {
    f16::from_f32(x)
}

/// Every fp16 number, by its bits.
pub fn every_f16() -> impl Iterator<Item = f32> {
    (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32())
}

/// The place of an fp16 number among [`every_f16`].
pub fn bits(x: f32) -> usize {
    usize::from(round(x).to_bits())
}

/// Rounds a row of results into memory.
///
/// Written out, as is [`widen_row`], so that it becomes the vector instructions of whatever machine its caller is
/// compiled for.
#[inline(always)]
pub fn round_row(from: &[f32], to: &mut [f16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f16::from_bits(round_bits(from.to_bits()));
    }
}

/// Widens a row of operands.
#[inline(always)]
pub fn widen_row(from: &[f16], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = f32::from_bits(widen_bits(from.to_bits()));
    }
}

/// What a row of fp16 numbers is after fp32 and back: the same, but for NaN, which becomes a quiet one.
#[inline(always)]
pub fn copy_row(from: &[f16], to: &mut [f16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = copied(*from);
    }
}

/// One number of [`copy_row`].
#[inline(always)]
pub fn copied(x: f16) -> f16 {
    let bits = x.to_bits();
    f16::from_bits(bits | if bits & 0x7fff > 0x7c00 { 0x200 } else { 0 })
}

/// Widens a row of bytes.
pub fn widen_bytes(from: &[u8], element: Element, to: &mut [f32]) {
    match element {
        Element::Int8 => to.iter_mut().zip(from).for_each(|(y, &x)| *y = f32::from(x as i8)),
        _ => to.iter_mut().zip(from).for_each(|(y, &x)| *y = f32::from(x)),
    }
}

/// Rounds a row of results to bytes: to nearest even, beyond the range to its ends, NaN to 0.
pub fn round_bytes(from: &[f32], element: Element, to: &mut [u8]) {
    match element {
        Element::Int8 => to.iter_mut().zip(from).for_each(|(y, x)| *y = x.round_ties_even() as i8 as u8),
        _ => to.iter_mut().zip(from).for_each(|(y, x)| *y = x.round_ties_even() as u8),
    }
}

/// Rounds in place: the value that an element of this format would hold.
pub fn through(element: Element, x: f32) -> f32 {
    match element {
        Element::Float16 => through_f16(x),
        Element::Int8 => f32::from(x.round_ties_even() as i8),
        Element::Uint8 => f32::from(x.round_ties_even() as u8),
    }
}

/// Rounds in place: the value an fp16 register would hold.
pub fn through_f16(x: f32) -> f32 {
    round(x).to_f32()
}

/// What the exponents' zeros differ by, in fp32's place.
const REBIAS: u32 = (127 - 15) << 23;
/// fp32 patterns: the smallest normal number of fp16, and infinity.
const LEAST_NORMAL: u32 = REBIAS + (1 << 23);
const INFINITE: u32 = 0xff << 23;

#[inline(always)]
fn round_bits(bits: u32) -> u16 {
    let magnitude = bits & !(1 << 31);
    // Half a digit less one, and one more where the digit is odd: nearest even. A carry moves into the exponent.
    let normal = ((magnitude + 0xfff + (magnitude >> 13 & 1)).wrapping_sub(REBIAS) >> 13).min(0x7c00);
    // The last digit of 0.5 is fp16's smallest number.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let number = if magnitude < LEAST_NORMAL { subnormal } else { normal };
    let magnitude = if magnitude > INFINITE { 0x7e00 | magnitude >> 13 & 0x3ff } else { number };
    (magnitude | bits >> 16 & 0x8000) as u16
}

#[inline(always)]
fn widen_bits(bits: u16) -> u32 {
    let (magnitude, sign) = (u32::from(bits & 0x7fff), u32::from(bits & 0x8000) << 16);
    let normal = (magnitude << 13) + REBIAS;
    let special = (normal + REBIAS) | if magnitude > 0x7c00 { 1 << 22 } else { 0 };
    let subnormal = (magnitude as i32 as f32 / (1 << 24) as f32).to_bits();
    let number = if magnitude < 0x400 { subnormal } else { normal };
    sign | if magnitude >= 0x7c00 { special } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_convert_as_single_numbers_do() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut wide = vec![0.0; all.len()];
        widen_row(&all, &mut wide);
        for (&x, &y) in all.iter().zip(&wide) {
            assert_eq!(x.to_f32().to_bits(), y.to_bits(), "{:#06x}", x.to_bits());
        }
        // Every number, every halfway point, and their neighbours.
        let near = |x: f32| [x, x.next_up(), x.next_down()];
        let mut points: Vec<f32> = wide
            .windows(2)
            .filter(|w| w[0].is_finite())
            .flat_map(|w| {
                near(w[0]).into_iter().chain(near(if w[1].is_finite() { (w[0] + w[1]) / 2.0 } else { 65520.0 }))
            })
            .collect();
        points.extend([f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45, -1e-45, 1e9]);
        let mut rounded = vec![f16::ZERO; points.len()];
        round_row(&points, &mut rounded);
        for (&x, &y) in points.iter().zip(&rounded) {
            assert_eq!(f16::from_f32(x).to_bits(), y.to_bits(), "{x:e}");
        }
    }
}
