//! The only place that rounds.
//!
//! The functions of this file are the model `fast`: operands are fp16, everything between is fp32, and one rounding to
//! nearest even makes the fp16 result. An argument of an activation table is rounded to fp16 first, because the table is
//! indexed by it. The submodules are the models of the devices; `docs/numerics.md` says what stands behind each.

pub mod mac;
pub mod packed;
pub mod planar;

use anemone_program::Element;
use half::f16;
use half::slice::HalfFloatSliceExt;

/// fp32 to fp16, nearest even.
pub fn round(x: f32) -> f16 {
    f16::from_f32(x)
}

/// Rounds a row of results into memory.
pub fn round_row(from: &[f32], to: &mut [f16]) {
    to.convert_from_f32_slice(from);
}

/// Widens a row of operands.
pub fn widen_row(from: &[f16], to: &mut [f32]) {
    from.convert_to_f32_slice(to);
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
