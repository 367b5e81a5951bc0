//! The only place that rounds.
//!
//! The functions of this file are the model `fast`: operands are fp16, everything between is fp32, and one rounding to
//! nearest even makes the fp16 result. An argument of an activation table is rounded to fp16 first, because the table is
//! indexed by it. The submodules are the models of the devices; `docs/numerics.md` says what stands behind each.

pub mod mac;
pub mod packed;
pub mod planar;

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

/// Rounds in place: the value an fp16 register would hold.
pub fn through_f16(x: f32) -> f32 {
    round(x).to_f32()
}
