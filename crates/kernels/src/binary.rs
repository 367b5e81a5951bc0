//! Binary operations on rows of two fp16 tensors, computed in vector registers from memory to memory.

use crate::host::{Rows, Two, combine_halves};
use crate::params::{BinaryOp, Rounding};
use crate::simd::{self, Admit, LONGEST, LaneMap, Settle, StoreFormat};
use bytemuck::cast;
use half::f16;
use pulp::Simd;

/// Elements of half a vector.
const HALF: usize = LONGEST / 2;

/// Rows of two operands, each with the stride between its rows in elements. `rows` holds the number of rows, their columns, and the row
/// stride of the result.
pub struct BinaryRows<'a> {
    pub one: (&'a [f16], usize),
    /// The other operand and its row stride; `None` if it is in the result buffer (in-place operation).
    pub other: Option<(&'a [f16], usize)>,
    /// True if `one` is the second operand: which NaN propagates depends on the order.
    pub is_second: bool,
    pub rows: Rows,
}

impl BinaryRows<'_> {
    /// Adds or multiplies the rows, with an optional ReLU, and rounds to fp16. Returns false, without writing, for other operations and
    /// on instruction sets without fp16 conversion. `rules` is the rounding of an exact model.
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

    /// [`BinaryRows::combine`] with the host's conversion instructions, called out of line.
    fn by_host(self, op: BinaryOp, relu: bool, to: &mut [f16]) -> bool {
        let BinaryRows { one: (one, from_stride), other, is_second, rows } = self;
        if !matches!(op, BinaryOp::Add | BinaryOp::Mul) || rows.columns < LONGEST {
            return false;
        }
        let how = Two { other, rows: Rows { from_stride, ..rows }, product: op == BinaryOp::Mul, relu, is_second };
        combine_halves(one, to, how)
    }

    /// Each element is read before its location is written, so that the result may alias an operand. The branches are kept separate because
    /// merging them would spill the vectors to the stack.
    #[inline(always)]
    fn each<S: Simd>(
        self,
        simd: S,
        to: &mut [f16],
        operation: impl VectorOp<S>,
        canonicalize: impl LaneMap<S>,
        round_result: impl LaneMap<S>,
    ) {
        let BinaryRows { one: (one, one_stride), other, is_second, rows: Rows { count, columns, to_stride, .. } } =
            self;
        let by = By { simd, operation, canonicalize, round_result, is_second };
        let last = columns % LONGEST;
        let mut own = [0; LONGEST];
        own[..last].fill(u16::MAX);
        for row in 0..count {
            let at = columns - last;
            let (one, x) = one[row * one_stride..].split_at(at);
            let (whole, to) = to[row * to_stride..].split_at_mut(at);
            let (one, whole) = (one.as_chunks::<LONGEST>().0, whole.as_chunks_mut::<LONGEST>().0);
            // Chunks of equal number, so that the loops have no test but their ends.
            let y = match other {
                Some((other, stride)) => {
                    let (other, y) = other[row * stride..].split_at(at);
                    for ((to, x), y) in whole.iter_mut().zip(one).zip(other.as_chunks().0) {
                        let Some(made) = by.of(*x, *y) else { return };
                        *to = made;
                    }
                    y
                }
                None => {
                    for (to, x) in whole.iter_mut().zip(one) {
                        let Some(made) = by.of(*x, *to) else { return };
                        *to = made;
                    }
                    &*to
                }
            };
            // The tail is processed as a full vector where both operands and the result extend past the row; lanes past its end are not changed.
            let behind = x.len().min(y.len()).min(to.len());
            if last > HALF && behind >= LONGEST {
                let (Some(made), Some(to)) = (by.vector(x, y), to.first_chunk_mut()) else { return };
                *to = blend(made, own, *to);
            } else if (1..=HALF).contains(&last) && behind >= HALF {
                let (Some(made), Some(to)) = (by.half(x, y), to.first_chunk_mut()) else { return };
                let [own, _]: [[u16; HALF]; 2] = cast(own);
                *to = blend(made, own, *to);
            } else if last > 0 {
                let Some(made) = by.vector(&padded(&x[..last]), &padded(&y[..last])) else { return };
                to[..last].copy_from_slice(&made[..last]);
            }
        }
    }
}

/// Binary operation on vectors.
trait VectorOp<S: Simd>: Copy {
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s;
}

#[derive(Clone, Copy)]
struct Sum;

impl<S: Simd> VectorOp<S> for Sum {
    #[inline(always)]
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }
}

#[derive(Clone, Copy)]
struct Product;

impl<S: Simd> VectorOp<S> for Product {
    #[inline(always)]
    fn of(self, simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.mul_f32s(a, b)
    }
}

/// ReLU: plus zero for everything that is not greater than it, NaN included. Identity if not set.
#[derive(Clone, Copy)]
struct Rectify(bool);

impl<S: Simd> LaneMap<S> for Rectify {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        if self.0 { simd::larger(simd, x, simd.splat_f32s(0.0)) } else { x }
    }
}

/// Vector pipeline of a binary operation: prologue of each operand, operation, epilogue of the result before rounding.
struct By<S, O, A, E> {
    simd: S,
    operation: O,
    canonicalize: A,
    round_result: E,
    is_second: bool,
}

impl<S: Simd, O: VectorOp<S>, A: LaneMap<S>, E: LaneMap<S>> By<S, O, A, E> {
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
        let (x, y) = (self.canonicalize.of(self.simd, x), self.canonicalize.of(self.simd, y));
        let (x, y) = if self.is_second { (y, x) } else { (x, y) };
        f16::of(self.simd, self.round_result, self.operation.of(self.simd, x, y))
    }
}

fn padded(numbers: &[f16]) -> [f16; LONGEST] {
    let mut padded = [f16::ZERO; LONGEST];
    padded[..numbers.len()].copy_from_slice(numbers);
    padded
}

/// Selects `numbers` in the lanes whose bits are set in `own`, and `others` in the rest.
#[inline(always)]
fn blend<const N: usize>(numbers: [f16; N], own: [u16; N], others: [f16; N]) -> [f16; N] {
    let mut both = others;
    for i in 0..N {
        both[i] = f16::from_bits(numbers[i].to_bits() & own[i] | others[i].to_bits() & !own[i]);
    }
    both
}
