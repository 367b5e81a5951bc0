//! Instructions for vectors that [`Simd`] lacks: fp16 conversion and shuffles by AVX-512, or by AVX2 and F16C.

use super::longest::{self, Longest};
use bytemuck::{Pod, cast};
use half::f16;
use pulp::Simd;
use pulp::x86::V3;
use std::any::Any;
use std::arch::x86_64::{_MM_FROUND_TO_NEAREST_INT, _mm256_cvtph_ps, _mm256_cvtps_ph};

/// The instructions of one instruction set. Which one is a constant after inlining.
#[derive(Clone, Copy)]
pub(crate) enum Extra {
    Avx512(Longest),
    /// Arrays of 16 elements are two vectors.
    Avx2(V3),
}

/// The instructions for vectors of an instruction set; `None` if it has none.
#[inline(always)]
pub(crate) fn of<S: Simd>(simd: S) -> Option<Extra> {
    match longest::of(simd) {
        Some(host) => Some(Extra::Avx512(host)),
        None => (&simd as &dyn Any).downcast_ref().copied().map(Extra::Avx2),
    }
}

impl Extra {
    #[inline(always)]
    pub(crate) fn widen(self, x: [f16; 16]) -> [f32; 16] {
        match self {
            Extra::Avx512(host) => host.widen(x),
            Extra::Avx2(_) => {
                let [low, high]: [[f16; 8]; 2] = cast(x);
                cast([widen(low), widen(high)])
            }
        }
    }

    #[inline(always)]
    pub(crate) fn widen_eight(self, x: [f16; 8]) -> [f32; 8] {
        match self {
            Extra::Avx512(host) => host.widen_eight(x),
            Extra::Avx2(_) => widen(x),
        }
    }

    /// Rounds to nearest, ties to even.
    #[inline(always)]
    pub(crate) fn round(self, x: [f32; 16]) -> [f16; 16] {
        match self {
            Extra::Avx512(host) => host.round(x),
            Extra::Avx2(_) => {
                let [low, high]: [[f32; 8]; 2] = cast(x);
                cast([round(low), round(high)])
            }
        }
    }

    /// Widens the first elements of a row to a vector; `None` if it has fewer.
    #[inline(always)]
    pub(crate) fn widened<V: Pod>(self, row: &[f16]) -> Option<V> {
        Some(match self {
            Extra::Avx512(host) => cast(host.widen(*row.first_chunk()?)),
            Extra::Avx2(_) => cast(widen(*row.first_chunk()?)),
        })
    }

    /// Rounds a vector to the first elements of a row.
    #[inline(always)]
    pub(crate) fn rounded<V: Pod>(self, x: V, to: &mut [f16]) {
        if let (Extra::Avx512(host), Some(to)) = (self, to.first_chunk_mut()) {
            *to = host.round(cast(x));
        } else if let (Extra::Avx2(_), Some(to)) = (self, to.first_chunk_mut()) {
            *to = round(cast(x));
        }
    }

    /// Maximum by lane; `or` if either is NaN or both are zero.
    #[inline(always)]
    pub(crate) fn larger<V: Pod>(self, x: V, or: V) -> V {
        match self {
            Extra::Avx512(host) => cast(host.larger(cast(x), cast(or))),
            Extra::Avx2(host) => cast(host.avx._mm256_max_ps(cast(x), cast(or))),
        }
    }

    /// Minimum by lane; `or` if either is NaN or both are zero.
    #[inline(always)]
    pub(crate) fn smaller<V: Pod>(self, x: V, or: V) -> V {
        match self {
            Extra::Avx512(host) => cast(host.smaller(cast(x), cast(or))),
            Extra::Avx2(host) => cast(host.avx._mm256_min_ps(cast(x), cast(or))),
        }
    }

    /// Deinterleaves two arrays: elements with even and with odd index.
    #[inline(always)]
    pub(crate) fn pairs(self, x: [f32; 16], y: [f32; 16]) -> [[f32; 16]; 2] {
        match self {
            Extra::Avx512(host) => host.pairs(x, y),
            Extra::Avx2(host) => {
                let [[a, b], [c, d]]: [[[f32; 8]; 2]; 2] = [cast(x), cast(y)];
                let ([e, f], [g, h]) = (pairs(host, a, b), pairs(host, c, d));
                [cast([e, g]), cast([f, h])]
            }
        }
    }

    /// Interleaves two vectors.
    #[inline(always)]
    pub(crate) fn interleaved<V: Pod>(self, even: V, odd: V) -> [V; 2] {
        match self {
            Extra::Avx512(host) => {
                let [low, high] = host.interleave(cast(even), cast(odd));
                [cast(low), cast(high)]
            }
            Extra::Avx2(host) => {
                let [low, high] = interleave(host, cast(even), cast(odd));
                [cast(low), cast(high)]
            }
        }
    }
}

#[inline(always)]
fn widen(x: [f16; 8]) -> [f32; 8] {
    // SAFETY: `host::vectors` offers AVX2 only with F16C.
    #[allow(unsafe_code)]
    unsafe {
        cast(_mm256_cvtph_ps(cast(x)))
    }
}

#[inline(always)]
fn round(x: [f32; 8]) -> [f16; 8] {
    // SAFETY: as for `widen`.
    #[allow(unsafe_code)]
    unsafe {
        cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x)))
    }
}

/// Deinterleaves two vectors.
#[inline(always)]
fn pairs(host: V3, x: [f32; 8], y: [f32; 8]) -> [[f32; 8]; 2] {
    /// Order of the 64-bit elements of a shuffle, which works within halves of a vector.
    const ORDER: i32 = 0b11_01_10_00;
    let even = host.avx._mm256_shuffle_ps::<0b10_00_10_00>(cast(x), cast(y));
    let odd = host.avx._mm256_shuffle_ps::<0b11_01_11_01>(cast(x), cast(y));
    [
        cast(host.avx2._mm256_permute4x64_epi64::<ORDER>(cast(even))),
        cast(host.avx2._mm256_permute4x64_epi64::<ORDER>(cast(odd))),
    ]
}

/// Interleaves two vectors.
#[inline(always)]
fn interleave(host: V3, even: [f32; 8], odd: [f32; 8]) -> [[f32; 8]; 2] {
    let low = host.avx._mm256_unpacklo_ps(cast(even), cast(odd));
    let high = host.avx._mm256_unpackhi_ps(cast(even), cast(odd));
    [cast(host.avx._mm256_permute2f128_ps::<0x20>(low, high)), cast(host.avx._mm256_permute2f128_ps::<0x31>(low, high))]
}
