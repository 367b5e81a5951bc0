//! Host processor: its instruction sets, and intrinsics that need `unsafe` (fp16 conversion of rows, palette look-up, prefetch). The one file
//! of the workspace that tests `target_arch`; of this crate only it and its modules may contain `unsafe`.

use half::f16;
use pulp::{Arch, Simd, WithSimd};

// Vectors of 16 lanes: AVX-512 on x86-64, an uninhabited type elsewhere.
#[cfg_attr(target_arch = "x86_64", path = "host/longest_x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "host/longest_portable.rs")]
pub(crate) mod longest;

// Instructions for vectors that pulp lacks.
#[cfg_attr(target_arch = "x86_64", path = "host/extra_x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "host/extra_neon.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "host/extra_portable.rs")]
pub(crate) mod extra;

#[cfg(target_arch = "x86_64")]
#[path = "host/square_x86.rs"]
mod square;

#[cfg(target_arch = "x86_64")]
use native::store_some;

/// True on x86-64.
pub const IS_X86: bool = cfg!(target_arch = "x86_64");

/// Fewest lanes of vectors that are converted between fp16 and fp32 in registers: those of AVX2 or NEON.
pub(crate) const LEAST_CONVERTED: usize = if IS_X86 {
    8
} else if cfg!(target_arch = "aarch64") {
    4
} else {
    usize::MAX
};

/// Vector instruction sets of this host, by name.
pub(crate) fn vectors() -> Vec<(&'static str, Arch)> {
    native::vectors()
}

/// Runs work compiled for an instruction set of this host.
#[inline(always)]
pub(crate) fn dispatch<W: WithSimd>(arch: Arch, work: W) -> W::Output {
    native::dispatch(arch, work)
}

/// Runs work compiled for the instruction set of its vectors; unlike pulp's function with F16C too for AVX2.
#[inline(always)]
pub(crate) fn vectorize<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
    native::vectorize(simd, work)
}

/// As [`vectorize`], with vectors of half the lanes if those of `simd` are AVX-512's.
#[inline(always)]
pub(crate) fn vectorize_half<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
    match longest::of(simd) {
        Some(longest) => native::vectorize(longest.half(), work),
        None => native::vectorize(simd, work),
    }
}

/// Transposes an 8x8 block in registers; `None` on hosts without an implementation.
#[inline(always)]
pub(crate) fn transpose_8x8(rows: [[f16; 8]; 8]) -> Option<[[f16; 8]; 8]> {
    native::transpose_8x8(rows)
}

/// Returns true if the host has conversion instructions, and [`transpose_square`].
pub(crate) fn converts() -> bool {
    native::converts()
}

/// Edge length of a square that is transposed at once, in elements.
pub const SQUARE: usize = 32;

/// Transposes a square whose lines are `stride` elements apart in `from`. Returns false, without writing, as [`widen_halves`]. Panics if `from` is
/// too short.
pub fn transpose_square(from: &[f16], stride: usize, to: &mut [[f16; SQUARE]; SQUARE]) -> bool {
    native::convert(from, to, stride, [native::turn, native::turn_long])
}

/// Layout of rows: their number, columns, and strides in the source and in the result, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    /// Number of rows.
    pub count: usize,
    /// Elements of each row.
    pub columns: usize,
    /// Row stride of the source.
    pub from_stride: usize,
    /// Row stride of the result.
    pub to_stride: usize,
}

impl Rows {
    /// One row.
    pub fn one(columns: usize) -> Rows {
        Rows { count: 1, columns, from_stride: 0, to_stride: 0 }
    }
}

/// Converts fp16 to fp32 with the host's conversion instructions; NaN becomes quiet. Returns false, without writing, on hosts that have
/// none. Panics if either side is shorter than `rows`.
#[inline]
pub fn widen_halves(from: &[f16], to: &mut [f32], rows: Rows) -> bool {
    native::widen_rows(from, to, rows)
}

/// Rounds fp32 to fp16, ties to even. Otherwise as [`widen_halves`].
#[inline]
pub fn round_halves(from: &[f32], to: &mut [f16], rows: Rows) -> bool {
    native::round_rows(from, to, rows)
}

/// Looks up four-bit palette indices, the low nibble of each byte first, and widens the values to fp32. Returns false as [`widen_halves`].
/// Panics if `from` has fewer indices than `to` has elements.
pub fn widen_indices(from: &[u8], to: &mut [f32], palette: &[f16; 16]) -> bool {
    native::convert(from, to, *palette, [native::look_up, native::look_up_sixteen])
}

/// Prefetches the cache lines of a slice. No operation on hosts without an implementation.
#[inline(always)]
pub fn fetch<T: bytemuck::Pod>(data: &[T]) {
    native::fetch(bytemuck::cast_slice(data));
}

/// Prefetches the cache line at an offset from the start of a slice. The offset may exceed the slice: a prefetch accesses nothing.
#[inline(always)]
pub fn fetch_line(data: &[u8], at: usize) {
    native::fetch_line(data, at);
}

/// Hosts without conversion instructions that can be detected at run time.
#[cfg(not(target_arch = "x86_64"))]
mod native {
    use crate::host::SQUARE;
    use half::f16;
    use pulp::{Arch, Simd, WithSimd};

    #[inline(always)]
    pub(super) fn dispatch<W: WithSimd>(arch: Arch, work: W) -> W::Output {
        arch.dispatch(work)
    }

    #[inline(always)]
    pub(super) fn vectorize<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
        simd.vectorize(work)
    }

    pub(super) fn vectors() -> Vec<(&'static str, Arch)> {
        #[cfg(target_arch = "aarch64")]
        if let Some(neon) = pulp::aarch64::Neon::try_new() {
            return vec![("neon", Arch::Neon(neon))];
        }
        Vec::new()
    }

    #[inline(always)]
    pub(super) fn transpose_8x8(_: [[f16; 8]; 8]) -> Option<[[f16; 8]; 8]> {
        None
    }

    pub(super) fn fetch(_: &[u8]) {}

    #[inline(always)]
    pub(super) fn fetch_line(_: &[u8], _: usize) {}

    pub(super) fn converts() -> bool {
        false
    }

    pub(super) fn turn(_: &[f16], _: &mut [[f16; SQUARE]], _: usize) {}

    pub(super) fn convert<T, U, X>(_: &[T], _: &mut [U], _: X, _: [fn(&[T], &mut [U], X); 2]) -> bool {
        false
    }

    pub(super) fn look_up(_: &[u8], _: &mut [f32], _: [f16; 16]) {}

    pub(super) use self::{look_up as look_up_sixteen, turn as turn_long};

    #[cfg(target_arch = "aarch64")]
    pub(super) use crate::host::extra::{round_rows, widen_rows};

    #[cfg(not(target_arch = "aarch64"))]
    pub(super) fn widen_rows(_: &[f16], _: &mut [f32], _: crate::host::Rows) -> bool {
        false
    }

    #[cfg(not(target_arch = "aarch64"))]
    pub(super) fn round_rows(_: &[f32], _: &mut [f16], _: crate::host::Rows) -> bool {
        false
    }
}

#[cfg(target_arch = "x86_64")]
mod native {
    use crate::arrays::{MapEach, array_of};
    use crate::host::Rows;
    use bytemuck::cast;
    use half::f16;
    use pulp::core_arch::x86::Sse2;
    use pulp::x86::{V3, V4};
    use pulp::{Arch, Scalar, Simd, WithSimd};
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{
        __m128i, __m256i, _MM_FROUND_TO_NEAREST_INT, _MM_HINT_T0, _mm_and_si128, _mm_prefetch, _mm_set1_epi8,
        _mm_shuffle_epi8, _mm_srli_epi16, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm512_and_si512, _mm512_cvtepu8_epi32, _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_or_si512,
        _mm512_permutexvar_epi16, _mm512_set1_epi32, _mm512_slli_epi32,
    };

    pub(super) fn vectors() -> Vec<(&'static str, Arch)> {
        let mut found = Vec::new();
        if let Some(v3) = V3::try_new().filter(|_| converts()) {
            found.push(("v3", Arch::V3(v3)));
        }
        if let Some(v4) = V4::try_new() {
            found.push(("v4", Arch::V4(v4)));
        }
        found
    }

    #[inline(always)]
    pub(super) fn dispatch<W: WithSimd>(arch: Arch, work: W) -> W::Output {
        match arch {
            Arch::V3(simd) => vectorize(simd, work),
            Arch::V4(simd) => vectorize(simd, work),
            _ => work.with_simd(Scalar),
        }
    }

    #[inline(always)]
    pub(super) fn vectorize<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
        #[target_feature(enable = "avx2,bmi1,bmi2,f16c,fma,fxsr,lzcnt,popcnt")]
        fn avx2<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
            work.with_simd(simd)
        }
        #[target_feature(enable = "avx512bw,avx512cd,avx512dq,avx512f,avx512vl,bmi1,bmi2,fma,fxsr,lzcnt,popcnt")]
        fn avx512<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
            work.with_simd(simd)
        }
        fn other<S: Simd, W: WithSimd>(simd: S, work: W) -> W::Output {
            work.with_simd(simd)
        }
        // A constant in place of branches, whose empty blocks would be lines of LLVM IR for every kernel.
        let entry: unsafe fn(S, W) -> W::Output = const {
            match S::F32_LANES {
                8 => avx2::<S, W>,
                16 => avx512::<S, W>,
                _ => other::<S, W>,
            }
        };
        // SAFETY: 8 lanes are those of `V3`, which `vectors` offers only with F16C, or half of those of `V4`; 16 are those of `V4`. Both exist
        // only where their instructions were detected, and AVX-512 implies F16C.
        #[allow(unsafe_code)]
        unsafe {
            entry(simd, work)
        }
    }

    #[inline(always)]
    pub(super) fn transpose_8x8(rows: [[f16; 8]; 8]) -> Option<[[f16; 8]; 8]> {
        let host = Sse2::try_new()?;
        let [a, b, c, d, e, f, g, h] = cast(rows);
        let pairs = |x, y| [host._mm_unpacklo_epi16(x, y), host._mm_unpackhi_epi16(x, y)];
        let fours = |x, y| [host._mm_unpacklo_epi32(x, y), host._mm_unpackhi_epi32(x, y)];
        let all = |x, y| [host._mm_unpacklo_epi64(x, y), host._mm_unpackhi_epi64(x, y)];
        let [[ab0, ab1], [cd0, cd1], [ef0, ef1], [gh0, gh1]] = [pairs(a, b), pairs(c, d), pairs(e, f), pairs(g, h)];
        let [[left0, left1], [left2, left3]] = [fours(ab0, cd0), fours(ab1, cd1)];
        let [[right0, right1], [right2, right3]] = [fours(ef0, gh0), fours(ef1, gh1)];
        Some(cast([all(left0, right0), all(left1, right1), all(left2, right2), all(left3, right3)]))
    }

    pub(super) use crate::host::square::{turn, turn_long};

    /// Bytes of a cache line.
    const LINE: usize = 64;

    /// Stores the elements of a vector under a bit mask.
    #[inline(always)]
    pub(super) fn store_some(host: V4, mask: u16, x: [f16; 16], to: &mut [f16; 16]) {
        // SAFETY: all elements are in the array.
        #[allow(unsafe_code)]
        unsafe {
            host.avx512bw._mm256_mask_storeu_epi16(to.as_mut_ptr().cast(), mask, cast(x));
        }
    }

    #[inline(always)]
    pub(super) fn fetch(data: &[u8]) {
        for line in data.chunks(LINE) {
            fetch_line(line, 0);
        }
    }

    #[inline(always)]
    pub(super) fn fetch_line(data: &[u8], at: usize) {
        // SAFETY: the instruction accesses no memory, so that every address is allowed, and every x86-64 has it.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(data.as_ptr().wrapping_add(at).cast());
        }
    }

    /// Lanes of a vector, and of half a vector.
    const LANES: usize = 8;
    const HALF: usize = LANES / 2;

    /// Signature of the conversions below.
    type Conversion<T, U, X> = unsafe fn(&[T], &mut [U], X);

    pub(super) fn converts() -> bool {
        is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c")
    }

    /// Calls the second function of `by` on hosts with AVX-512, the first with AVX and F16C; returns false on others.
    pub(super) fn convert<T, U, X>(from: &[T], to: &mut [U], how: X, by: [Conversion<T, U, X>; 2]) -> bool {
        let able = converts();
        let longest = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let by = by[usize::from(longest)];
        if able {
            // SAFETY: the functions need only the instructions that were detected above.
            #[allow(unsafe_code)]
            unsafe {
                by(from, to, how);
            }
        }
        able
    }

    #[target_feature(enable = "avx,f16c")]
    pub(super) fn look_up(from: &[u8], to: &mut [f32], palette: [f16; 16]) {
        let bits: [u16; 16] = array_of(|i| palette[i].to_bits());
        let (low, high): (__m128i, __m128i) =
            (cast(array_of::<u8, 16>(|i| bits[i] as u8)), cast(array_of::<u8, 16>(|i| (bits[i] >> 8) as u8)));
        let nibble = _mm_set1_epi8(15);
        each_chunk(from, to, |bytes: [u8; LANES]| -> [f32; 2 * LANES] {
            let bytes = cast(u128::from(u64::from_le_bytes(bytes)));
            let first = _mm_and_si128(bytes, nibble);
            let indices = _mm_unpacklo_epi8(first, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
            let (low, high) = (_mm_shuffle_epi8(low, indices), _mm_shuffle_epi8(high, indices));
            let halves = [_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high)];
            cast(halves.map_each(|x| _mm256_cvtph_ps(x)))
        });
    }

    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    pub(super) fn look_up_sixteen(from: &[u8], to: &mut [f32], palette: [f16; 16]) {
        let (values, nibbles) =
            (cast([array_of::<u16, 16>(|i| palette[i].to_bits()); 2]), _mm512_set1_epi32(0x000f_000f));
        each_chunk(from, to, |bytes: [u8; 2 * LANES]| -> [f32; 4 * LANES] {
            let bytes = _mm512_cvtepu8_epi32(cast(bytes));
            let indices = _mm512_and_si512(_mm512_or_si512(bytes, _mm512_slli_epi32::<12>(bytes)), nibbles);
            let halves: [__m256i; 2] = cast(_mm512_permutexvar_epi16(indices, values));
            cast(halves.map_each(|x| _mm512_cvtph_ps(x)))
        });
    }

    /// Looks up two indices a byte, `B` bytes at a time.
    #[inline(always)]
    fn each_chunk<const B: usize, const N: usize>(from: &[u8], to: &mut [f32], widened: impl Fn([u8; B]) -> [f32; N]) {
        let (whole, rest) = to.as_chunks_mut::<N>();
        let (bytes, last) = from[..whole.len() * B + rest.len().div_ceil(2)].as_chunks::<B>();
        let mut few = [0; B];
        let pieces = whole.iter_mut().zip(bytes);
        for (to, from) in pieces {
            *to = widened(*from);
        }
        // Tail: at most `B` bytes, the last of which may hold a single index.
        few.iter_mut().zip(bytes[whole.len()..].as_flattened().iter().chain(last)).for_each(|(few, from)| *few = *from);
        for (to, x) in rest.iter_mut().zip(widened(few)) {
            *to = x;
        }
    }

    pub(super) fn widen_rows(from: &[f16], to: &mut [f32], rows: Rows) -> bool {
        convert(from, to, rows, [widen, widen_sixteen])
    }

    pub(super) fn round_rows(from: &[f32], to: &mut [f16], rows: Rows) -> bool {
        convert(from, to, rows, [round, round_sixteen])
    }

    #[target_feature(enable = "avx,f16c")]
    fn widen(from: &[f16], to: &mut [f32], rows: Rows) {
        each(from, to, rows, |from, to| row(from, to, |x| cast(_mm256_cvtph_ps(cast(x)))));
    }

    #[target_feature(enable = "avx512f,f16c")]
    fn widen_sixteen(from: &[f16], to: &mut [f32], rows: Rows) {
        each(from, to, rows, |from, to| {
            if !whole::<_, _, { 2 * LANES }>(from, to, |x| cast(_mm512_cvtph_ps(cast(x)))) {
                row(from, to, |x| cast(_mm256_cvtph_ps(cast(x))));
            }
        });
    }

    #[target_feature(enable = "avx,f16c")]
    fn round(from: &[f32], to: &mut [f16], rows: Rows) {
        each(from, to, rows, |from, to| row(from, to, |x| cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x)))));
    }

    #[target_feature(enable = "avx512f,f16c")]
    fn round_sixteen(from: &[f32], to: &mut [f16], rows: Rows) {
        each(from, to, rows, |from, to| {
            if !whole::<_, _, { 2 * LANES }>(from, to, |x| cast(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x))))
            {
                row(from, to, |x| cast(_mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(cast(x))));
            }
        });
    }

    #[inline(always)]
    fn each<T, U>(from: &[T], to: &mut [U], rows: Rows, convert: impl Fn(&[T], &mut [U])) {
        let Rows { count, columns, from_stride, to_stride } = rows;
        for row in 0..count {
            convert(&from[row * from_stride..][..columns], &mut to[row * to_stride..][..columns]);
        }
    }

    /// Converts a row in vectors of `N`; the last vector may overlap the one before. Returns false if the row is shorter than `N`.
    #[inline(always)]
    fn whole<T: Copy, U: Copy, const N: usize>(from: &[T], to: &mut [U], convert: impl Fn([T; N]) -> [U; N]) -> bool {
        let (Some(last), Some(_)) = (from.last_chunk(), to.last_chunk_mut::<N>()) else { return false };
        for (to, from) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
            *to = convert(*from);
        }
        if let Some(to) = to.last_chunk_mut() {
            *to = convert(*last);
        }
        true
    }

    #[inline(always)]
    fn row<T: Copy + Default, U: Copy>(from: &[T], to: &mut [U], convert: impl Fn([T; LANES]) -> [U; LANES]) {
        if whole::<_, _, LANES>(from, to, &convert) {
            return;
        }
        if let (Some(first), Some(last)) = (from.first_chunk::<HALF>(), from.last_chunk::<HALF>()) {
            let halves: [[U; HALF]; 2] = split(convert(join([*first, *last])));
            let n = to.len();
            to[..HALF].copy_from_slice(&halves[0]);
            to[n - HALF..].copy_from_slice(&halves[1]);
        } else {
            let mut few = [T::default(); LANES];
            for (few, from) in few.iter_mut().zip(from) {
                *few = *from;
            }
            for (to, x) in to.iter_mut().zip(convert(few)) {
                *to = x;
            }
        }
    }

    #[inline(always)]
    fn join<T: Copy>(halves: [[T; HALF]; 2]) -> [T; LANES] {
        array_of(|i| halves[i / HALF][i % HALF])
    }

    #[inline(always)]
    fn split<U: Copy>(eight: [U; LANES]) -> [[U; HALF]; 2] {
        array_of(|half| array_of(|i| eight[half * HALF + i]))
    }
}
