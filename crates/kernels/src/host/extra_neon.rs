//! Instructions for vectors that [`Simd`] lacks: fp16 conversion and shuffles by NEON, which every 64-bit Arm processor has.

use crate::host::Rows;
use bytemuck::{Pod, cast};
use half::f16;
use pulp::Simd;
use pulp::aarch64::Neon;
use std::any::Any;
use std::arch::aarch64::{
    float16x4_t, float32x4_t, vbslq_f32, vcgtq_f32, vcltq_f32, vcvt_f16_f32, vcvt_f32_f16, vuzp1q_f32, vuzp2q_f32,
    vzip1q_f32, vzip2q_f32,
};
use std::mem::transmute;

/// Lanes of a vector.
const LANES: usize = 4;

/// The instructions; arrays of 16 elements are four vectors.
#[derive(Clone, Copy)]
pub(crate) struct Extra(Neon);

/// The instructions for vectors of an instruction set; `None` if it has none.
#[inline(always)]
pub(crate) fn of<S: Simd>(simd: S) -> Option<Extra> {
    (&simd as &dyn Any).downcast_ref().copied().map(Extra)
}

impl Extra {
    #[inline(always)]
    pub(crate) fn widen(self, x: [f16; 16]) -> [f32; 16] {
        let [a, b, c, d]: [[f16; 4]; 4] = cast(x);
        cast([widen(a), widen(b), widen(c), widen(d)])
    }

    #[inline(always)]
    pub(crate) fn widen_eight(self, x: [f16; 8]) -> [f32; 8] {
        let [a, b]: [[f16; 4]; 2] = cast(x);
        cast([widen(a), widen(b)])
    }

    /// Rounds to nearest, ties to even.
    #[inline(always)]
    pub(crate) fn round(self, x: [f32; 16]) -> [f16; 16] {
        let [a, b, c, d]: [[f32; 4]; 4] = cast(x);
        cast([round(a), round(b), round(c), round(d)])
    }

    /// Widens the first elements of a row to a vector; `None` if it has fewer.
    #[inline(always)]
    pub(crate) fn widened<V: Pod>(self, row: &[f16]) -> Option<V> {
        Some(cast(widen(*row.first_chunk()?)))
    }

    /// Rounds a vector to the first elements of a row.
    #[inline(always)]
    pub(crate) fn rounded<V: Pod>(self, x: V, to: &mut [f16]) {
        if let Some(to) = to.first_chunk_mut() {
            *to = round(cast(x));
        }
    }

    /// Maximum by lane; `or` if either is NaN or both are zero.
    #[inline(always)]
    pub(crate) fn larger<V: Pod>(self, x: V, or: V) -> V {
        cast(select_larger(cast(x), cast(or)))
    }

    /// Minimum by lane; `or` if either is NaN or both are zero.
    #[inline(always)]
    pub(crate) fn smaller<V: Pod>(self, x: V, or: V) -> V {
        cast(select_smaller(cast(x), cast(or)))
    }

    /// Deinterleaves two arrays: elements with even and with odd index.
    #[inline(always)]
    pub(crate) fn pairs(self, x: [f32; 16], y: [f32; 16]) -> [[f32; 16]; 2] {
        let quarters: [[f32; 4]; 8] = cast([x, y]);
        let mut both = [[[0.0; 4]; 4]; 2];
        for i in 0..4 {
            [both[0][i], both[1][i]] = pairs(quarters[2 * i], quarters[2 * i + 1]);
        }
        cast(both)
    }

    /// Interleaves two vectors.
    #[inline(always)]
    pub(crate) fn interleaved<V: Pod>(self, even: V, odd: V) -> [V; 2] {
        let [low, high] = interleave(cast(even), cast(odd));
        [cast(low), cast(high)]
    }
}

/// As [`super::widen_halves`].
pub(super) fn widen_rows(from: &[f16], to: &mut [f32], rows: Rows) -> bool {
    each(from, to, rows, widen)
}

/// As [`super::round_halves`].
pub(super) fn round_rows(from: &[f32], to: &mut [f16], rows: Rows) -> bool {
    each(from, to, rows, round)
}

fn each<T: Copy + Default, U: Copy>(
    from: &[T],
    to: &mut [U],
    rows: Rows,
    convert: impl Fn([T; LANES]) -> [U; LANES],
) -> bool {
    let Rows { count, columns, from_stride, to_stride } = rows;
    for row in 0..count {
        let (whole, last) = from[row * from_stride..][..columns].as_chunks();
        let (to, rest) = to[row * to_stride..][..columns].as_chunks_mut();
        for (to, from) in to.iter_mut().zip(whole) {
            *to = convert(*from);
        }
        let mut few = [T::default(); LANES];
        few[..last.len()].copy_from_slice(last);
        rest.copy_from_slice(&convert(few)[..rest.len()]);
    }
    true
}

// SAFETY of all functions below: the processor has the instructions; vectors and arrays have the same size, and every bit pattern is a
// value of either.

#[allow(unsafe_code)]
#[inline(always)]
fn widen(x: [f16; 4]) -> [f32; 4] {
    unsafe { transmute::<float32x4_t, _>(vcvt_f32_f16(transmute::<[f16; 4], float16x4_t>(x))) }
}

#[allow(unsafe_code)]
#[inline(always)]
fn round(x: [f32; 4]) -> [f16; 4] {
    unsafe { transmute::<float16x4_t, _>(vcvt_f16_f32(transmute::<[f32; 4], float32x4_t>(x))) }
}

#[allow(unsafe_code)]
#[inline(always)]
fn select_larger(x: [f32; 4], or: [f32; 4]) -> [f32; 4] {
    unsafe {
        let [x, or] = transmute::<[[f32; 4]; 2], [float32x4_t; 2]>([x, or]);
        transmute(vbslq_f32(vcgtq_f32(x, or), x, or))
    }
}

#[allow(unsafe_code)]
#[inline(always)]
fn select_smaller(x: [f32; 4], or: [f32; 4]) -> [f32; 4] {
    unsafe {
        let [x, or] = transmute::<[[f32; 4]; 2], [float32x4_t; 2]>([x, or]);
        transmute(vbslq_f32(vcltq_f32(x, or), x, or))
    }
}

#[allow(unsafe_code)]
#[inline(always)]
fn pairs(x: [f32; 4], y: [f32; 4]) -> [[f32; 4]; 2] {
    unsafe {
        let [x, y] = transmute::<[[f32; 4]; 2], [float32x4_t; 2]>([x, y]);
        transmute([vuzp1q_f32(x, y), vuzp2q_f32(x, y)])
    }
}

#[allow(unsafe_code)]
#[inline(always)]
fn interleave(even: [f32; 4], odd: [f32; 4]) -> [[f32; 4]; 2] {
    unsafe {
        let [even, odd] = transmute::<[[f32; 4]; 2], [float32x4_t; 2]>([even, odd]);
        transmute([vzip1q_f32(even, odd), vzip2q_f32(even, odd)])
    }
}
