//! The only place that rounds.
//!
//! The functions of this file are the model `fast`: operands are fp16, everything between is fp32, and one rounding to
//! nearest even makes the fp16 result. An argument of an activation table is rounded to fp16 first, because the table is
//! indexed by it. The submodules are the models of the devices; `docs/numerics.md` says what stands behind each.

pub mod mac;
pub mod packed;
pub mod planar;
pub mod wide;

use half::f16;
use half::slice::HalfFloatSliceExt;

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
pub fn round_row(from: &[f32], to: &mut [f16]) {
    to.convert_from_f32_slice(from);
}

/// Widens a row of operands.
pub fn widen_row(from: &[f16], to: &mut [f32]) {
    from.convert_to_f32_slice(to);
}

/// Rounds in place: the value an fp16 register would hold.
pub fn through_f16(x: f32) -> f32 {
    round(x).to_f32()
}
