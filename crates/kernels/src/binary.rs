//! Binary operations on rows of two fp16 tensors, computed in vector registers from memory to memory.

use crate::host::Rows;
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
    /// Returns true for sums and products, on instruction sets that convert fp16 in registers.
    #[inline(always)]
    pub fn takes<S: Simd>(op: BinaryOp) -> bool {
        simd::converts::<S>() && matches!(op, BinaryOp::Add | BinaryOp::Mul)
    }

    /// Adds or multiplies the rows, with an optional ReLU, and rounds to fp16. Returns false, without writing, unless it
    /// [takes](BinaryRows::takes) the operation. `rules` is the rounding of an exact model.
    #[inline(always)]
    pub fn combine<S: Simd>(self, simd: S, op: BinaryOp, relu: bool, rules: Option<&Rounding>, to: &mut [f16]) -> bool {
        if const { !simd::converts::<S>() } {
            return false;
        }
        let is_second = self.is_second;
        let by = |is_product, rules: Option<&Rounding>| By {
            simd,
            is_product,
            relu,
            settle: rules.map(|rules| Settle::by(rules, relu)),
            is_second,
        };
        match (op, rules) {
            (BinaryOp::Add, None) => self.each(by(false, None), to),
            (BinaryOp::Mul, None) => self.each(by(true, None), to),
            (BinaryOp::Add, Some(rules)) => self.each(by(false, Some(rules)), to),
            (BinaryOp::Mul, Some(rules)) => self.each(by(true, Some(rules)), to),
            _ => return false,
        }
        true
    }

    /// Each element is read before its location is written, so that the result may alias an operand. The branches are kept separate because
    /// merging them would spill the vectors to the stack.
    #[inline(always)]
    fn each<S: Simd>(self, by: By<S>, to: &mut [f16]) {
        let BinaryRows { one: (one, one_stride), other, rows: Rows { count, columns, to_stride, .. }, .. } = self;
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

/// ReLU: plus zero for everything that is not greater than it, NaN included. Identity if not set.
#[derive(Clone, Copy)]
struct Rectify(bool);

impl<S: Simd> LaneMap<S> for Rectify {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        if self.0 { simd::larger(simd, x, simd.splat_f32s(0.0)) } else { x }
    }
}

/// Binary operation on vectors: a sum or a product. The operation and the model are constants after inlining.
struct By<S> {
    simd: S,
    is_product: bool,
    relu: bool,
    /// Rounding of the result in an exact model, whose operands are admitted.
    settle: Option<Settle>,
    is_second: bool,
}

impl<S: Simd> By<S> {
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
        let mut made = [f16::ZERO; LONGEST];
        let simd = self.simd;
        for at in (0..LONGEST).step_by(S::F32_LANES) {
            let (mut x, mut y) = (simd::widened(simd, &x[at..])?, simd::widened(simd, &y[at..])?);
            if self.settle.is_some() {
                (x, y) = (Admit.of(simd, x), Admit.of(simd, y));
            }
            if self.is_second {
                (x, y) = (y, x);
            }
            let result = if self.is_product { simd.mul_f32s(x, y) } else { simd.add_f32s(x, y) };
            match self.settle {
                Some(settle) => f16::store(simd, settle, result, &mut made[at..]),
                None => f16::store(simd, Rectify(self.relu), result, &mut made[at..]),
            }
        }
        Some(made)
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
