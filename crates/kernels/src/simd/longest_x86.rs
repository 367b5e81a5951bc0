use bytemuck::cast;
use half::f16;
use pulp::Simd;
use pulp::x86::V4;
use std::any::Any;
use std::arch::x86_64::_MM_FROUND_TO_NEAREST_INT;

#[derive(Clone, Copy)]
pub(super) struct Longest(V4);

#[inline(always)]
pub(super) fn of<S: Simd>(simd: S) -> Option<Longest> {
    (&simd as &dyn Any).downcast_ref().copied().map(Longest)
}

impl Longest {
    #[inline(always)]
    pub(super) fn widen(self, x: [f16; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_cvtph_ps(cast(x)))
    }

    #[inline(always)]
    pub(super) fn larger(self, x: [f32; 16], or: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_max_ps(cast(x), cast(or)))
    }

    #[inline(always)]
    pub(super) fn smaller(self, x: [f32; 16], or: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_min_ps(cast(x), cast(or)))
    }

    /// One bit for each place with bits in common.
    #[inline(always)]
    pub(super) fn in_common(self, a: [u32; 16], b: [u32; 16]) -> u16 {
        self.0.avx512f._mm512_test_epi32_mask(cast(a), cast(b))
    }

    /// One bit for each place whose number is below the other one.
    #[inline(always)]
    pub(super) fn below(self, a: [u32; 16], b: [u32; 16]) -> u16 {
        self.0.avx512f._mm512_cmplt_epu32_mask(cast(a), cast(b))
    }

    /// Places of bits, from a number on, side by side; zeros behind.
    #[inline(always)]
    pub(super) fn places(self, first: u32, bits: u16) -> [u32; 16] {
        let all: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let all = self.0.avx512f._mm512_add_epi32(cast(all), cast([first; 16]));
        cast(self.0.avx512f._mm512_maskz_compress_epi32(bits, all))
    }

    /// Numbers at even and at odd places.
    #[inline(always)]
    pub(super) fn pairs(self, x: [f32; 16], y: [f32; 16]) -> [[f32; 16]; 2] {
        const EVEN: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
        const ODD: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
        let even = self.0.avx512f._mm512_permutex2var_ps(cast(x), cast(EVEN), cast(y));
        let odd = self.0.avx512f._mm512_permutex2var_ps(cast(x), cast(ODD), cast(y));
        [cast(even), cast(odd)]
    }

    #[inline(always)]
    pub(super) fn interleave(self, even: [f32; 16], odd: [f32; 16]) -> [[f32; 16]; 2] {
        const LOW: [i32; 16] = [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23];
        const HIGH: [i32; 16] = [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31];
        let low = self.0.avx512f._mm512_permutex2var_ps(cast(even), cast(LOW), cast(odd));
        let high = self.0.avx512f._mm512_permutex2var_ps(cast(even), cast(HIGH), cast(odd));
        [cast(low), cast(high)]
    }

    #[inline(always)]
    pub(super) fn widen_eight(self, x: [f16; 8]) -> [f32; 8] {
        cast(self.0.avx512f._mm256_maskz_cvtph_ps(0xff, cast(x)))
    }

    #[inline(always)]
    pub(super) fn round(self, x: [f32; 16]) -> [f16; 16] {
        cast(self.0.avx512f._mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x)))
    }

    #[inline(always)]
    pub(super) fn round_eight(self, x: [f32; 8]) -> [f16; 8] {
        cast(self.0.avx512f._mm256_maskz_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(0xff, cast(x)))
    }
}
