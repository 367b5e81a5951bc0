//! Vectors of 16 lanes by AVX-512.

use crate::params::{Curve, Reach};
use bytemuck::cast;
use half::f16;
use pulp::Simd;
use pulp::x86::{V3, V4};
use std::any::Any;
use std::arch::x86_64::{
    __m512, _CMP_GE_OQ, _CMP_GT_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _CMP_UNORD_Q, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT,
    _MM_FROUND_TO_NEG_INF, _MM_FROUND_TO_ZERO,
};

#[derive(Clone, Copy)]
pub(crate) struct Longest(V4);

#[inline(always)]
pub(crate) fn of<S: Simd>(simd: S) -> Option<Longest> {
    (&simd as &dyn Any).downcast_ref().copied().map(Longest)
}

impl Longest {
    /// Vectors of half the lanes.
    #[inline(always)]
    pub(crate) fn half(self) -> V3 {
        *self.0
    }

    #[inline(always)]
    pub(crate) fn widen(self, x: [f16; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_cvtph_ps(cast(x)))
    }

    #[inline(always)]
    pub(crate) fn larger(self, x: [f32; 16], or: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_max_ps(cast(x), cast(or)))
    }

    #[inline(always)]
    pub(crate) fn smaller(self, x: [f32; 16], or: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_min_ps(cast(x), cast(or)))
    }

    /// Bit mask of the lanes in which `a & b` is not zero.
    #[inline(always)]
    pub(crate) fn in_common(self, a: [u32; 16], b: [u32; 16]) -> u16 {
        self.0.avx512f._mm512_test_epi32_mask(cast(a), cast(b))
    }

    /// Bit mask of the lanes in which `a` is less than `b`.
    #[inline(always)]
    pub(crate) fn below(self, a: [u32; 16], b: [u32; 16]) -> u16 {
        self.0.avx512f._mm512_cmplt_epu32_mask(cast(a), cast(b))
    }

    /// Positions of the set bits of a mask, plus `first`, packed to the front; zeros behind them.
    #[inline(always)]
    pub(crate) fn places(self, first: u32, bits: u16) -> [u32; 16] {
        let all: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let all = self.0.avx512f._mm512_add_epi32(cast(all), cast([first; 16]));
        cast(self.0.avx512f._mm512_maskz_compress_epi32(bits, all))
    }

    /// Deinterleaves two vectors: elements with even and with odd index.
    #[inline(always)]
    pub(crate) fn pairs(self, x: [f32; 16], y: [f32; 16]) -> [[f32; 16]; 2] {
        const EVEN: [i32; 16] = [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
        const ODD: [i32; 16] = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31];
        let even = self.0.avx512f._mm512_permutex2var_ps(cast(x), cast(EVEN), cast(y));
        let odd = self.0.avx512f._mm512_permutex2var_ps(cast(x), cast(ODD), cast(y));
        [cast(even), cast(odd)]
    }

    #[inline(always)]
    pub(crate) fn interleave(self, even: [f32; 16], odd: [f32; 16]) -> [[f32; 16]; 2] {
        const LOW: [i32; 16] = [0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23];
        const HIGH: [i32; 16] = [8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31];
        let low = self.0.avx512f._mm512_permutex2var_ps(cast(even), cast(LOW), cast(odd));
        let high = self.0.avx512f._mm512_permutex2var_ps(cast(even), cast(HIGH), cast(odd));
        [cast(low), cast(high)]
    }

    #[inline(always)]
    pub(crate) fn widen_eight(self, x: [f16; 8]) -> [f32; 8] {
        cast(self.0.avx512f._mm256_maskz_cvtph_ps(0xff, cast(x)))
    }

    #[inline(always)]
    pub(crate) fn round(self, x: [f32; 16]) -> [f16; 16] {
        cast(self.0.avx512f._mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x)))
    }

    /// Operand of the exact models: NaN becomes plus infinity, and zero loses its sign.
    #[inline(always)]
    pub(crate) fn canonicalize(self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.0.avx512f;
        let nan = avx._mm512_cmp_ps_mask::<_CMP_UNORD_Q>(cast(x), cast(x));
        cast(avx._mm512_mask_mov_ps(avx._mm512_add_ps(cast(x), splat(0.0)), nan, splat(f32::INFINITY)))
    }

    /// As [`crate::num::elementwise::away_from_ties`].
    #[inline(always)]
    pub(crate) fn away_from_ties(self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.0.avx512f;
        let x = avx._mm512_max_ps(avx._mm512_min_ps(cast(x), splat(f32::MAX)), splat(f32::MIN));
        cast(avx._mm512_or_si512(cast(x), cast([1u32; 16])))
    }

    /// Loads a curve, with the slopes and intercepts of its pieces, into registers.
    #[inline(always)]
    pub(crate) fn curve(self, curve: &Curve, slopes: &[f32; 32], intercepts: &[f32; 32], reach: Reach) -> CurveVectors {
        let (slopes, _) = slopes.as_chunks::<16>();
        let (intercepts, _) = intercepts.as_chunks::<16>();
        let [[below_slope, below], [above_slope, above]] = curve.tails;
        CurveVectors {
            host: self.0,
            slopes: [cast(slopes[0]), cast(slopes[1])],
            intercepts: [cast(intercepts[0]), cast(intercepts[1])],
            knots_per_unit: splat(curve.knots_per_unit),
            edges: [splat(-curve.origin), splat(32.0 - curve.origin)],
            last: splat(31.0 - curve.origin),
            tail_slopes: [splat(below_slope), splat(above_slope)],
            tail_intercepts: [splat(below), splat(above)],
            limits: [splat(curve.limits[0]), splat(curve.limits[1])],
            constants: [splat(curve.constants[0]), splat(curve.constants[1])],
            is_zero_below_zero: curve.is_zero_below_zero,
            is_odd: curve.is_odd,
            magnitude: cast([!(u32::from(curve.is_odd) << 31); 16]),
            is_exponential: curve.is_exponential,
            has_tails: reach == Reach::All,
        }
    }

    /// Rounds to the 11 significant bits of a normal fp16 number.
    #[inline(always)]
    pub(crate) fn shorten(self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.0.avx512f;
        let large = avx._mm512_mul_ps(cast(x), splat(8193.0));
        cast(avx._mm512_sub_ps(large, avx._mm512_sub_ps(large, cast(x))))
    }

    /// Stores the elements under a bit mask. The others are not even read: their cache line may be that of another thread.
    #[inline(always)]
    pub(crate) fn store(self, mask: u16, x: [f16; 16], to: &mut [f16; 16]) {
        super::store_some(self.0, mask, x, to);
    }

    /// `x * y`.
    #[inline(always)]
    pub(crate) fn times(self, x: [f32; 16], y: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_mul_ps(cast(x), cast(y)))
    }

    /// `x * y + z`, rounded once.
    #[inline(always)]
    pub(crate) fn fused(self, x: [f32; 16], y: [f32; 16], z: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_fmadd_ps(cast(x), cast(y), cast(z)))
    }

    /// `x + y`.
    #[inline(always)]
    pub(crate) fn plus(self, x: [f32; 16], y: [f32; 16]) -> [f32; 16] {
        cast(self.0.avx512f._mm512_add_ps(cast(x), cast(y)))
    }
}

#[inline(always)]
fn splat(x: f32) -> __m512 {
    cast([x; 16])
}

/// A curve held in vector registers.
#[derive(Clone, Copy)]
pub(crate) struct CurveVectors {
    host: V4,
    slopes: [__m512; 2],
    intercepts: [__m512; 2],
    knots_per_unit: __m512,
    /// First and last knot, relative to the origin.
    edges: [__m512; 2],
    /// Start of the last piece, relative to the origin.
    last: __m512,
    tail_slopes: [__m512; 2],
    tail_intercepts: [__m512; 2],
    limits: [__m512; 2],
    constants: [__m512; 2],
    /// True if the value of a negative argument is zero.
    is_zero_below_zero: bool,
    /// True for an odd function: computed on magnitudes, with the sign restored afterwards.
    is_odd: bool,
    /// All bits but the signs of an odd function.
    magnitude: __m512,
    is_exponential: bool,
    /// True if arguments may lie beyond the knots.
    has_tails: bool,
}

// Functions, not closures: intrinsics are inlined only into functions with the same target features.
impl CurveVectors {
    /// Values in fp32, rounded toward zero if `AWAY`. NaN propagates.
    #[inline(always)]
    pub(crate) fn values<const AWAY: bool>(&self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.host.avx512f;
        let sign = avx._mm512_and_si512(cast(x), cast([1u32 << 31; 16]));
        let x: __m512 = if self.is_odd { cast(avx._mm512_xor_si512(cast(x), sign)) } else { cast(x) };
        let y = if self.is_exponential { self.exponential::<AWAY>(x) } else { self.linear::<AWAY>(x) };
        let low = avx._mm512_cmp_ps_mask::<_CMP_LE_OQ>(x, self.limits[0]);
        let high = avx._mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, self.limits[1]);
        let y = avx._mm512_mask_mov_ps(y, high, self.constants[1]);
        let mut y = avx._mm512_mask_mov_ps(y, low, self.constants[0]);
        if self.is_zero_below_zero {
            y = avx._mm512_mask_mov_ps(y, avx._mm512_cmp_ps_mask::<_CMP_LT_OQ>(x, splat(0.0)), splat(0.0));
        }
        if self.is_odd {
            y = cast(avx._mm512_xor_si512(cast(y), sign));
        }
        cast(y)
    }

    /// [`CurveVectors::values`] for [`Reach::Above`].
    #[inline(always)]
    pub(crate) fn values_above<const AWAY: bool>(&self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.host.avx512f;
        let signed: __m512 = cast(x);
        let x: __m512 = cast(avx._mm512_and_si512(cast(x), cast(self.magnitude)));
        let t = avx._mm512_mul_ps(x, self.knots_per_unit);
        let at = avx._mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(t);
        let slope = avx._mm512_permutex2var_ps(self.slopes[0], at, self.slopes[1]);
        let intercept = avx._mm512_permutex2var_ps(self.intercepts[0], at, self.intercepts[1]);
        let above = avx._mm512_cmp_ps_mask::<_CMP_GE_OQ>(t, self.edges[1]);
        let slope = avx._mm512_mask_mov_ps(slope, above, self.tail_slopes[1]);
        let intercept = avx._mm512_mask_mov_ps(intercept, above, self.tail_intercepts[1]);
        let high = avx._mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, self.limits[1]);
        let y = avx._mm512_mask_mov_ps(self.line::<AWAY>(slope, x, intercept), high, self.constants[1]);
        let sign = avx._mm512_andnot_si512(cast(self.magnitude), cast(signed));
        cast(avx._mm512_xor_si512(cast(y), sign))
    }

    /// [`CurveVectors::values`] for [`Reach::Limits`].
    #[inline(always)]
    pub(crate) fn values_within(&self, x: [f32; 16]) -> [f32; 16] {
        let avx = self.host.avx512f;
        cast(avx._mm512_min_ps(avx._mm512_max_ps(cast(x), self.limits[0]), self.limits[1]))
    }

    /// Value of an exponential curve: the piece at the fraction of the argument, scaled by two to the power of its integer part.
    #[inline(always)]
    fn exponential<const AWAY: bool>(&self, x: __m512) -> __m512 {
        let avx = self.host.avx512f;
        let whole = avx._mm512_roundscale_ps::<{ _MM_FROUND_TO_NEG_INF }>(x);
        let fraction = avx._mm512_sub_ps(x, whole);
        let at = avx._mm512_cvttps_epi32(avx._mm512_mul_ps(fraction, self.knots_per_unit));
        let slope = avx._mm512_permutex2var_ps(self.slopes[0], at, self.slopes[1]);
        let intercept = avx._mm512_permutex2var_ps(self.intercepts[0], at, self.intercepts[1]);
        avx._mm512_scalef_ps(self.line::<AWAY>(slope, fraction, intercept), whole)
    }

    /// Value of the linear piece, or tail, that contains the argument.
    #[inline(always)]
    fn linear<const AWAY: bool>(&self, x: __m512) -> __m512 {
        let avx = self.host.avx512f;
        // Positions relative to the origin; adding the origin would round small arguments. The pieces are rotated by it.
        let t = avx._mm512_mul_ps(x, self.knots_per_unit);
        let at = avx._mm512_min_ps(self.last, avx._mm512_max_ps(self.edges[0], t));
        // A permutation reads the last five bits of an index.
        let at = avx._mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(at);
        let mut slope = avx._mm512_permutex2var_ps(self.slopes[0], at, self.slopes[1]);
        let mut intercept = avx._mm512_permutex2var_ps(self.intercepts[0], at, self.intercepts[1]);
        if self.has_tails {
            let below = avx._mm512_cmp_ps_mask::<_CMP_LT_OQ>(t, self.edges[0]);
            let above = avx._mm512_cmp_ps_mask::<_CMP_GT_OQ>(t, self.edges[1]);
            slope = avx._mm512_mask_mov_ps(slope, below, self.tail_slopes[0]);
            slope = avx._mm512_mask_mov_ps(slope, above, self.tail_slopes[1]);
            intercept = avx._mm512_mask_mov_ps(intercept, below, self.tail_intercepts[0]);
            intercept = avx._mm512_mask_mov_ps(intercept, above, self.tail_intercepts[1]);
        }
        self.line::<AWAY>(slope, x, intercept)
    }

    #[inline(always)]
    fn line<const AWAY: bool>(&self, slope: __m512, x: __m512, intercept: __m512) -> __m512 {
        let avx = self.host.avx512f;
        if AWAY {
            avx._mm512_fmadd_round_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(slope, x, intercept)
        } else {
            avx._mm512_fmadd_ps(slope, x, intercept)
        }
    }
}
