//! Working precision of elementwise arithmetic, between reading operands and rounding the result.
//!
//! Operations are generic over [`Wide`]. In `f32` they compute the model `fast`; in [`Exact`] they follow the device's rules: NaN is read
//! as plus infinity, every step is exact as far as 64 bits allow, an indeterminate form is plus zero, and only [`Wide::round_result`]
//! rounds.

use super::elementwise;
use super::reference::RunningSum;
use crate::cost;
use crate::par::{PER_THREAD, chunks};
use crate::params::{AccumulatorSpec, Rounding};
use half::f16;

/// A number in working precision. Operands and results are `f32`, which represents every fp16 number.
pub trait Wide: Copy + Send + Sync + 'static {
    /// True if the device's rules hold, by which even an identity stage may change a NaN or the sign of a zero.
    const EXACT: bool;

    /// Reads an operand as the unit does.
    fn canonicalize(x: f32) -> Self;
    /// Converts a value that is not an operand, such as one of a table.
    fn wide(x: f64) -> Self;
    /// Rounds to a result, by the rules of the model if it has any.
    fn round_result(self, rules: &Rounding) -> f32;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// The larger one; `other` if `self` is NaN, `self` if both are zeros.
    fn max(self, other: Self) -> Self;
    /// The smaller one, with the same cases as [`Wide::max`].
    fn min(self, other: Self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// Reciprocal.
    fn reciprocal(self) -> Self;
    /// Reciprocal square root.
    fn rsqrt(self) -> Self;
    /// Sum of a reduction, by the rules of its adders if the model has any.
    fn sum(terms: impl Iterator<Item = Self>, rules: Option<&AccumulatorSpec>) -> Self;
    /// [`Wide::canonicalize`] for a row.
    fn admit_all(row: Vec<f32>) -> Vec<Self>;
    /// [`Wide::round_result`] for a row.
    fn settle_all(row: Vec<Self>, rules: &Rounding) -> Vec<f32>;

    /// Plus zero unless the number is greater than it.
    fn relu(self) -> Self;
}

impl Wide for f32 {
    const EXACT: bool = false;

    #[inline(always)]
    fn canonicalize(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn wide(x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn round_result(self, _: &Rounding) -> f32 {
        self
    }

    #[inline(always)]
    fn add(self, other: f32) -> f32 {
        self + other
    }

    #[inline(always)]
    fn mul(self, other: f32) -> f32 {
        self * other
    }

    // Written out, because the sign of zero that the standard library's functions return depends on how they are compiled.
    #[inline(always)]
    fn max(self, other: f32) -> f32 {
        if self.is_nan() || other > self { other } else { self }
    }

    #[inline(always)]
    fn min(self, other: f32) -> f32 {
        if self.is_nan() || other < self { other } else { self }
    }

    #[inline(always)]
    fn relu(self) -> f32 {
        if self > 0.0 { self } else { 0.0 }
    }

    #[inline(always)]
    fn abs(self) -> f32 {
        f32::abs(self)
    }

    #[inline(always)]
    fn reciprocal(self) -> f32 {
        1.0 / self
    }

    #[inline(always)]
    fn rsqrt(self) -> f32 {
        1.0 / self.sqrt()
    }

    fn sum(terms: impl Iterator<Item = f32>, _: Option<&AccumulatorSpec>) -> f32 {
        terms.sum()
    }

    fn admit_all(row: Vec<f32>) -> Vec<f32> {
        row
    }

    fn settle_all(row: Vec<f32>, _: &Rounding) -> Vec<f32> {
        row
    }
}

/// A number by the device's rules, in fp64; never NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Exact(f64);

/// Replaces NaN, an indeterminate form, by plus zero.
#[inline(always)]
fn defined(x: f64) -> Exact {
    Exact(if x.is_nan() { 0.0 } else { x })
}

impl Exact {
    /// The number.
    #[inline(always)]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The number as a divisor: a zero loses its sign.
    #[inline(always)]
    fn divisor(self) -> f64 {
        self.0 + 0.0
    }
}

impl Wide for Exact {
    const EXACT: bool = true;

    #[inline(always)]
    fn canonicalize(x: f32) -> Exact {
        Exact(f64::from(elementwise::canonicalize(x)))
    }

    #[inline(always)]
    fn wide(x: f64) -> Exact {
        defined(x)
    }

    #[inline(always)]
    fn round_result(self, rules: &Rounding) -> f32 {
        elementwise::round_result(rules, self.0).to_f32()
    }

    #[inline(always)]
    fn add(self, other: Exact) -> Exact {
        defined(self.0 + other.0)
    }

    #[inline(always)]
    fn mul(self, other: Exact) -> Exact {
        defined(self.0 * other.0)
    }

    #[inline(always)]
    fn max(self, other: Exact) -> Exact {
        if other.0 > self.0 { other } else { self }
    }

    #[inline(always)]
    fn min(self, other: Exact) -> Exact {
        if other.0 < self.0 { other } else { self }
    }

    #[inline(always)]
    fn relu(self) -> Exact {
        Exact(if self.0 > 0.0 { self.0 } else { 0.0 })
    }

    #[inline(always)]
    fn abs(self) -> Exact {
        Exact(self.0.abs())
    }

    #[inline(always)]
    fn reciprocal(self) -> Exact {
        defined(1.0 / self.divisor())
    }

    #[inline(always)]
    fn rsqrt(self) -> Exact {
        defined(1.0 / self.divisor().sqrt())
    }

    /// Exact without `rules`; otherwise each term is rounded to fp16 before it is added.
    fn sum(terms: impl Iterator<Item = Exact>, rules: Option<&AccumulatorSpec>) -> Exact {
        let Some(rules) = rules else { return defined(terms.map(|t| t.0).sum()) };
        let mut sum = RunningSum::new(rules, 0.0);
        for t in terms {
            sum.add(f16::ONE, elementwise::round_result(&Rounding::AWAY, t.0));
        }
        Exact(sum.result().to_f64())
    }

    fn admit_all(row: Vec<f32>) -> Vec<Exact> {
        if row.len() < PER_THREAD {
            return row.into_iter().map(Exact::canonicalize).collect();
        }
        let mut all = vec![Exact::default(); row.len()];
        chunks(&mut all, PER_THREAD, cost::one_by_one(row.len()), |i, to| {
            for (to, x) in to.iter_mut().zip(&row[i * PER_THREAD..]) {
                *to = Exact::canonicalize(*x);
            }
        });
        all
    }

    fn settle_all(row: Vec<Exact>, rules: &Rounding) -> Vec<f32> {
        if row.len() < PER_THREAD {
            return row.into_iter().map(|x| x.round_result(rules)).collect();
        }
        let mut all = vec![0.0; row.len()];
        chunks(&mut all, PER_THREAD, cost::one_by_one(row.len()), |i, to| {
            for (to, x) in to.iter_mut().zip(&row[i * PER_THREAD..]) {
                *to = x.round_result(rules);
            }
        });
        all
    }
}
