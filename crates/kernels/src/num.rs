//! fp16 and byte formats: widening to fp32, and rounding, which happens nowhere else.
//!
//! The functions of this file round to nearest even. The submodules have fixed-point accumulators, and elementwise rounding by other rules;
//! `docs/numerics.md` lists which unit each of them models.

pub mod elementwise;
pub mod reference;
pub mod wide;

use crate::host::{Rows, round_halves, widen_halves};
use crate::params::ElementType;
use half::f16;

/// Rounds fp32 to fp16, to nearest even.
#[inline]
pub fn round(x: f32) -> f16 {
    f16::from_f32(x)
}

/// Every fp16 number, by its bits.
pub fn every_f16() -> impl Iterator<Item = f32> {
    (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f32())
}

/// The bit pattern of an fp16 number, which is its index in [`every_f16`].
pub fn bits(x: f32) -> usize {
    usize::from(round(x).to_bits())
}

/// Fewest elements for which the call of the host's conversion pays.
pub const LEAST_ROW: usize = 32;
/// Elements that are classified together: all normal, or converted one by one.
const STRETCH: usize = 128;
/// Fewest elements for which the classification pays.
const LEAST_STRETCH: usize = 4;
/// Difference of the exponent biases of fp32 and fp16, as a power of two.
const SCALE: f32 = f32::from_bits((127 + 127 - 15) << 23);

/// Rounds a row of results to fp16: with the host's conversion instructions, if it has any and the row is not short.
#[inline(always)]
pub fn round_row(from: &[f32], to: &mut [f16]) {
    if from.len() < LEAST_ROW || !round_halves(from, to, Rows::one(from.len())) {
        round_in_software(from, to);
    }
}

/// [`round_row`] by integer arithmetic. Out of line, as [`widen_in_software`]: inlined in every kernel, these loops are a sixth of the code of all kernels.
#[inline(never)]
fn round_in_software(from: &[f32], to: &mut [f16]) {
    for (to, from) in to.chunks_mut(STRETCH).zip(from.chunks(STRETCH)) {
        let (most, least) = from.iter().fold((0, u32::MAX), |(most, least), x| {
            let magnitude = x.to_bits() & !(1 << 31);
            (magnitude.max(most), magnitude.wrapping_sub(1).min(least))
        });
        // True if all are zeros or normal fp16 numbers.
        let usual = from.len() >= LEAST_STRETCH && most < FIRST_INFINITE && least >= LEAST_NORMAL - 1;
        let pairs = to.iter_mut().zip(from);
        if usual {
            pairs.for_each(|(to, from)| {
                let bits = (from / SCALE).to_bits();
                // Adds half a unit in the last place minus one, plus the last bit that is kept: nearest even.
                let rounded = (bits + 0xfff + (bits >> 13 & 1)) >> 13 & 0x7fff;
                *to = f16::from_bits((rounded | bits >> 16 & 0x8000) as u16);
            });
        } else {
            for (to, from) in pairs {
                *to = f16::from_bits(round_bits(from.to_bits()));
            }
        }
    }
}

/// [`round_row`] for several rows.
#[inline(always)]
pub fn round_rows(from: &[f32], to: &mut [f16], rows: Rows) {
    if !round_halves(from, to, rows) {
        let of = |row: usize, stride: usize| row * stride..row * stride + rows.columns;
        for row in 0..rows.count {
            round_row(&from[of(row, rows.from_stride)], &mut to[of(row, rows.to_stride)]);
        }
    }
}

/// [`widen_row`] for several rows.
#[inline(always)]
pub fn widen_rows(from: &[f16], to: &mut [f32], rows: Rows) {
    if !widen_halves(from, to, rows) {
        let of = |row: usize, stride: usize| row * stride..row * stride + rows.columns;
        for row in 0..rows.count {
            widen_row(&from[of(row, rows.from_stride)], &mut to[of(row, rows.to_stride)]);
        }
    }
}

/// Widens one operand.
#[inline(always)]
pub fn widen(x: f16) -> f32 {
    f32::from_bits(widen_bits(x.to_bits()))
}

/// Widens a row of operands, as [`round_row`] rounds one.
#[inline(always)]
pub fn widen_row(from: &[f16], to: &mut [f32]) {
    if from.len() < LEAST_ROW || !widen_halves(from, to, Rows::one(from.len())) {
        widen_in_software(from, to);
    }
}

/// [`widen_row`] by integer arithmetic.
#[inline(never)]
fn widen_in_software(from: &[f16], to: &mut [f32]) {
    for (to, from) in to.chunks_mut(STRETCH).zip(from.chunks(STRETCH)) {
        let (most, least) = from.iter().fold((0, u16::MAX), |(most, least), x| {
            let magnitude = x.to_bits() & 0x7fff;
            (magnitude.max(most), magnitude.wrapping_sub(1).min(least))
        });
        // True if all are zeros or normal numbers.
        let usual = from.len() >= LEAST_STRETCH && most < 0x7c00 && least >= 0x3ff;
        let pairs = to.iter_mut().zip(from);
        if usual {
            pairs.for_each(|(to, from)| {
                let bits = (i32::from(from.to_bits() as i16) << 13) as u32 & 0x8fff_e000;
                *to = f32::from_bits(bits) * SCALE;
            });
        } else {
            for (to, from) in pairs {
                *to = widen(*from);
            }
        }
    }
}

/// Copies a row of fp16 numbers with the effect of a conversion to fp32 and back: a NaN becomes quiet.
#[inline(always)]
pub fn copy_row(from: &[f16], to: &mut [f16]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = copied(*from);
    }
}

/// [`copy_row`] for one element.
#[inline(always)]
pub fn copied(x: f16) -> f16 {
    let bits = x.to_bits();
    f16::from_bits(bits | if bits & 0x7fff > 0x7c00 { 0x200 } else { 0 })
}

/// Clamps a row between two numbers, neither of them negative; NaN becomes quiet. Integer arithmetic: fp16 numbers without a sign are
/// ordered as their bit patterns, and all others are below them.
#[inline(always)]
pub fn clamp_row(from: &[f16], low: f16, high: f16, to: &mut [f16]) {
    let (low, high) = (low.to_bits() as i16 & 0x7fff, high.to_bits() as i16 & 0x7fff);
    for (to, from) in to.iter_mut().zip(from) {
        let bits = from.to_bits();
        let clamped = (bits as i16).max(low).min(high) as u16;
        *to = f16::from_bits(if bits & 0x7fff > 0x7c00 { bits | 0x200 } else { clamped });
    }
}

/// Widens a row of bytes.
pub fn widen_bytes(from: &[u8], element: ElementType, to: &mut [f32]) {
    match element {
        ElementType::Int8 => to.iter_mut().zip(from).for_each(|(y, &x)| *y = f32::from(x as i8)),
        _ => to.iter_mut().zip(from).for_each(|(y, &x)| *y = f32::from(x)),
    }
}

/// Rounds a row of results to bytes, to nearest even; values out of range saturate, NaN becomes 0.
pub fn round_bytes(from: &[f32], element: ElementType, to: &mut [u8]) {
    match element {
        ElementType::Int8 => to.iter_mut().zip(from).for_each(|(y, x)| *y = x.round_ties_even() as i8 as u8),
        _ => to.iter_mut().zip(from).for_each(|(y, x)| *y = x.round_ties_even() as u8),
    }
}

/// Rounds a row in place to values that elements of this format represent.
pub fn through_row(element: ElementType, row: &mut [f32]) {
    let mut halves = [f16::ZERO; STRETCH];
    for row in row.chunks_mut(STRETCH) {
        match element {
            ElementType::Float16 => {
                let halves = &mut halves[..row.len()];
                round_row(row, halves);
                widen_row(halves, row);
            }
            ElementType::Int8 => row.iter_mut().for_each(|x| *x = f32::from(x.round_ties_even() as i8)),
            ElementType::Uint8 => row.iter_mut().for_each(|x| *x = f32::from(x.round_ties_even() as u8)),
        }
    }
}

/// Rounds to the nearest fp16 value, held in fp32.
pub fn through_f16(x: f32) -> f32 {
    round(x).to_f32()
}

/// Difference of the exponent biases of fp32 and fp16, shifted to the exponent field of fp32.
const REBIAS: u32 = (127 - 15) << 23;
/// fp32 bit patterns of the smallest normal number of fp16, and of infinity.
const LEAST_NORMAL: u32 = REBIAS + (1 << 23);
const INFINITE: u32 = 0xff << 23;
/// fp32 bit pattern of 65520, the smallest number that rounds to infinity in fp16.
const FIRST_INFINITE: u32 = 0x477f_f000;

#[inline(always)]
fn round_bits(bits: u32) -> u16 {
    let magnitude = bits & !(1 << 31);
    // Adds half a unit in the last place minus one, plus the last bit that is kept: nearest even. A carry moves into the exponent.
    let normal = ((magnitude + 0xfff + (magnitude >> 13 & 1)).wrapping_sub(REBIAS) >> 13).min(0x7c00);
    // A unit in the last place of 0.5 is the smallest fp16 number.
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
