//! Rows of elements in the working precision of a number model: converted from fp16 operands, computed, and rounded to fp16 results.

use crate::host::Rows;
use crate::num;
use crate::num::elementwise::admit_row;
use crate::num::wide::{Exact, Wide};
use crate::params::{Rounding, Ties};
use crate::simd;
use half::f16;
use pulp::Simd;

/// Elements of a block of elementwise work: few enough for the L1 cache, enough to amortize the call.
pub const BLOCK: usize = 1 << 10;

/// Number type in which elementwise operations and reductions compute whole rows.
pub trait Line: Wide {
    /// Running sum of a reduction.
    type Sum: Copy;

    /// Converts rows of operands to contiguous rows, through a ReLU if `relu`. `wide` is scratch memory and is overwritten.
    fn admit_rows<S: Simd>(simd: S, from: &[f16], rows: Rows, relu: bool, wide: &mut [f32], to: &mut [Self]);
    /// Rounds a row of results to fp16, by the rounding rules of the number model if it has any.
    fn settle_line(rules: Option<&Rounding>, row: &[Self], to: &mut [f16]);
    /// Stores contiguous rows, if a conversion of the format is all they need; returns false otherwise.
    fn settle_rows<S: Simd>(_: S, _: &[Self], _: &mut [f16], _: Rows) -> bool {
        false
    }
    /// The empty sum.
    fn start() -> Self::Sum;
    /// Adds a term.
    fn accumulate(sum: Self::Sum, term: Self) -> Self::Sum;
    /// Rounds the running sum to an element.
    fn end(sum: Self::Sum) -> Self;
}

/// ReLU of operands that are not NaN, in place.
#[inline(always)]
pub fn relu_row(row: &mut [f32]) {
    row.iter_mut().for_each(
        #[inline(always)]
        |x| *x = x.max(0.0),
    );
}

impl Line for f32 {
    type Sum = f32;

    #[inline(always)]
    fn admit_rows<S: Simd>(simd: S, from: &[f16], rows: Rows, relu: bool, _: &mut [f32], to: &mut [f32]) {
        simd::widen_rows(simd, from, to, rows);
        if relu {
            relu_row(to);
        }
    }

    #[inline(always)]
    fn settle_line(_: Option<&Rounding>, row: &[f32], to: &mut [f16]) {
        num::round_row(row, to);
    }

    #[inline(always)]
    fn settle_rows<S: Simd>(simd: S, from: &[f32], to: &mut [f16], rows: Rows) -> bool {
        simd::round_rows(simd, from, to, rows);
        true
    }

    #[inline(always)]
    fn start() -> f32 {
        std::iter::empty::<f32>().sum()
    }

    #[inline(always)]
    fn accumulate(sum: f32, term: f32) -> f32 {
        sum + term
    }

    #[inline(always)]
    fn end(sum: f32) -> f32 {
        sum
    }
}

impl Line for Exact {
    /// NaN once infinities of both signs were added.
    type Sum = f64;

    #[inline(always)]
    fn admit_rows<S: Simd>(simd: S, from: &[f16], rows: Rows, relu: bool, wide: &mut [f32], to: &mut [Exact]) {
        let wide = &mut wide[..to.len()];
        simd::widen_rows(simd, from, wide, rows);
        if relu {
            admit_row(wide);
            relu_row(wide);
        }
        for (to, x) in to.iter_mut().zip(wide) {
            *to = Exact::canonicalize(*x);
        }
    }

    #[inline(always)]
    fn settle_line(rules: Option<&Rounding>, row: &[Exact], to: &mut [f16]) {
        settle_wide(rules.unwrap_or(&Rounding::AWAY), row, to);
    }

    #[inline(always)]
    fn start() -> f64 {
        std::iter::empty::<f64>().sum()
    }

    #[inline(always)]
    fn accumulate(sum: f64, term: Exact) -> f64 {
        sum + term.get()
    }

    #[inline(always)]
    fn end(sum: f64) -> Exact {
        Exact::wide(sum)
    }
}

/// Elements of a row that are converted together.
pub const STRETCH: usize = 128;
/// Mask of the fp64 significand bits below the last bit of fp32.
const BELOW_FP32: u64 = (1 << 29) - 1;
/// Magnitude to which numbers are clamped before conversion to fp32: infinite in fp16, finite in fp32.
const BEYOND: f64 = 1e30;

/// [`round_result`](num::elementwise::round_result) for a row. Numbers are converted by way of fp32, whose last bit is a sticky bit for the bits that
/// are cut off, so that they are rounded only once.
#[inline(always)]
fn settle_wide(planar: &Rounding, row: &[Exact], to: &mut [f16]) {
    match planar.ties {
        // The sticky bit is always set, so that no number is halfway between two fp16 numbers.
        Ties::Away => settle_with(
            row,
            to,
            #[inline(always)]
            |_| BELOW_FP32 + 1,
        ),
        Ties::Even => settle_with(
            row,
            to,
            #[inline(always)]
            |bits| ((bits & BELOW_FP32) + BELOW_FP32) & (BELOW_FP32 + 1),
        ),
    }
}

/// `sticky` gives the last bit of the fp32 significand, at its fp64 position, for the bits of a number.
#[inline(always)]
fn settle_with(row: &[Exact], to: &mut [f16], sticky: impl Fn(u64) -> u64) {
    let mut narrow = [0.0f32; STRETCH];
    for (to, row) in to.chunks_mut(STRETCH).zip(row.chunks(STRETCH)) {
        let narrow = &mut narrow[..row.len()];
        for (narrow, x) in narrow.iter_mut().zip(row) {
            let x = x.get();
            let x = if x > BEYOND { BEYOND } else { x };
            let x = if x < -BEYOND { -BEYOND } else { x };
            let bits = x.to_bits();
            *narrow = f64::from_bits(bits & !BELOW_FP32 | sticky(bits)) as f32;
        }
        num::round_row(narrow, to);
    }
}
