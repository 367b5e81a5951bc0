//! Binary operations on rows of two tensors, from memory to memory, in registers.

use crate::host::{Rows, Two, combine_halves};
use crate::params::{BinaryOp, Rounding};
use crate::simd::{self, Admit, LONGEST, LaneMap, Settle, StoreFormat};
use bytemuck::cast;
use half::f16;
use pulp::Simd;

/// Half a vector's numbers.
const HALF: usize = LONGEST / 2;

/// Rows of two tensors, and how far apart they are there; `rows` says how many there are, and where what is made of them goes.
pub struct BinaryRows<'a> {
    pub one: (&'a [f16], usize),
    /// `None` is what stands where the result goes.
    pub other: Option<(&'a [f16], usize)>,
    /// True if `one` is the second operand, which decides the result of two NaNs.
    pub is_second: bool,
    pub rows: Rows,
}

impl BinaryRows<'_> {
    /// Their sums or products, through a ReLU where there is one, vector by vector; false where they are of another operation, or the host
    /// does not convert them on the way. `rules` are those of an exact model.
    #[inline(always)]
    pub fn combine<S: Simd>(self, simd: S, op: BinaryOp, relu: bool, rules: Option<&Rounding>, to: &mut [f16]) -> bool {
        if const { !simd::converts::<S>() } {
            return rules.is_none() && self.by_host(op, relu, to);
        }
        match (op, rules) {
            (BinaryOp::Add, None) => self.each(simd, to, Sum, (), Rectify(relu)),
            (BinaryOp::Mul, None) => self.each(simd, to, Product, (), Rectify(relu)),
            (BinaryOp::Add, Some(rules)) => self.each(simd, to, Sum, Admit, Settle::by(rules, relu)),
            (BinaryOp::Mul, Some(rules)) => self.each(simd, to, Product, Admit, Settle::by(rules, relu)),
            _ => return false,
        }
        true
    }

    /// As [`BinaryRows::combine`], by the host's own conversions.
    fn by_host(self, op: BinaryOp, relu: bool, to: &mut [f16]) -> bool {
        let BinaryRows { one: (one, from_stride), other, is_second, rows } = self;
        if !matches!(op, BinaryOp::Add | BinaryOp::Mul) || rows.columns < LONGEST {
            return false;
        }
        let how = Two { other, rows: Rows { from_stride, ..rows }, product: op == BinaryOp::Mul, relu, is_second };
        combine_halves(one, to, how)
    }

    /// No element is read after its place was written. Each branch keeps its vectors in registers; merging branches would go through the
    /// stack.
    #[inline(always)]
    fn each<S: Simd>(
        self,
        simd: S,
        to: &mut [f16],
        operation: impl OfTwo<S>,
        admit: impl LaneMap<S>,
        settle: impl LaneMap<S>,
    ) {
        let BinaryRows { one: (one, one_stride), other, is_second, rows: Rows { count, columns, to_stride, .. } } =
            self;
        let by = By { simd, operation, admit, settle, is_second };
        let last = columns % LONGEST;
        let mut own = [0; LONGEST];
        own[..last].fill(u16::MAX);
        for row in 0..count {
            let (one, to) = (&one[row * one_stride..], &mut to[row * to_stride..]);
            let mut at = 0;
            while at + LONGEST <= columns {
                let y = match other {
                    Some((other, stride)) => &other[row * stride + at..],
                    None => &to[at..],
                };
                let Some(made) = by.vector(&one[at..], y) else { return };
                to[at..][..LONGEST].copy_from_slice(&made);
                at += LONGEST;
            }
            let (x, to) = (&one[at..], &mut to[at..]);
            let y = match other {
                Some((other, stride)) => &other[row * stride + at..],
                None => &*to,
            };
            // What lies behind the row is read with it, and stays.
            let behind = x.len().min(y.len()).min(to.len());
            if last > HALF && behind >= LONGEST {
                let (Some(made), Some(to)) = (by.vector(x, y), to.first_chunk_mut()) else { return };
                *to = blend(made, own, *to);
            } else if (1..=HALF).contains(&last) && behind >= HALF {
                let (Some(made), Some(to)) = (by.half(x, y), to.first_chunk_mut()) else { return };
                let [own, _]: [[u16; HALF]; 2] = cast(own);
                *to = blend(made, own, *to);
            } else if last > 0 {
                let Some(made) = by.vector(&few(&x[..last]), &few(&y[..last])) else { return };
                to[..last].copy_from_slice(&made[..last]);
            }
        }
    }
}

/// An operation on vectors of two operands.
trait OfTwo<S: Simd>: Copy {
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s;
}

#[derive(Clone, Copy)]
struct Sum;

impl<S: Simd> OfTwo<S> for Sum {
    #[inline(always)]
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }
}

#[derive(Clone, Copy)]
struct Product;

impl<S: Simd> OfTwo<S> for Product {
    #[inline(always)]
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_f32s(a, b)
    }
}

/// Plus zero for what is not above it, if set.
#[derive(Clone, Copy)]
struct Rectify(bool);

impl<S: Simd> LaneMap<S> for Rectify {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        if self.0 { simd::larger(simd, x, simd.splat_f32s(0.0)) } else { x }
    }
}

/// Two operands, what is made of each before, and of the result before it is rounded.
struct By<S, O, A, E> {
    simd: S,
    operation: O,
    admit: A,
    settle: E,
    is_second: bool,
}

impl<S: Simd, O: OfTwo<S>, A: LaneMap<S>, E: LaneMap<S>> By<S, O, A, E> {
    /// Result for one vector of each operand.
    #[inline(always)]
    fn vector(&self, x: &[f16], y: &[f16]) -> Option<[f16; LONGEST]> {
        self.of(*x.first_chunk()?, *y.first_chunk()?)
    }

    /// Result for half a vector of each operand.
    #[inline(always)]
    fn half(&self, x: &[f16], y: &[f16]) -> Option<[f16; HALF]> {
        let (x, y) = (x.first_chunk::<HALF>()?, y.first_chunk::<HALF>()?);
        let [made, _]: [[f16; HALF]; 2] = cast(self.of(cast([*x; 2]), cast([*y; 2]))?);
        Some(made)
    }

    #[inline(always)]
    fn of(&self, x: [f16; LONGEST], y: [f16; LONGEST]) -> Option<[f16; LONGEST]> {
        let (x, y) = (simd::widened(self.simd, x)?, simd::widened(self.simd, y)?);
        let (x, y) = (self.admit.of(self.simd, x), self.admit.of(self.simd, y));
        let (x, y) = if self.is_second { (y, x) } else { (x, y) };
        f16::of(self.simd, self.settle, self.operation.of(self.simd, x, y))
    }
}

fn few(numbers: &[f16]) -> [f16; LONGEST] {
    let mut few = [f16::ZERO; LONGEST];
    few[..numbers.len()].copy_from_slice(numbers);
    few
}

/// Numbers where `own` has their bits, others elsewhere.
#[inline(always)]
fn blend<const N: usize>(numbers: [f16; N], own: [u16; N], others: [f16; N]) -> [f16; N] {
    let mut both = others;
    for i in 0..N {
        both[i] = f16::from_bits(numbers[i].to_bits() & own[i] | others[i].to_bits() & !own[i]);
    }
    both
}
