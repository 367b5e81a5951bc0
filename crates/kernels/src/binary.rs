//! Binary operations on rows of two tensors, from memory to memory, in registers.

use crate::host::Rows;
use crate::params::BinaryOp;
use crate::simd::{self, LONGEST, StoreFormat};
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
    /// Whether `one` is the second operand, which tells what becomes of two NaNs.
    pub is_second: bool,
    pub rows: Rows,
}

impl BinaryRows<'_> {
    /// Their sums or products, vector by vector; false where they are of another operation, or not converted on the way.
    #[inline(always)]
    pub fn combine<S: Simd>(self, simd: S, op: BinaryOp, to: &mut [f16]) -> bool {
        match op {
            _ if const { !simd::converts::<S>() } => return false,
            BinaryOp::Add => self.each(
                simd,
                to,
                #[inline(always)]
                |a, b| simd.add_f32s(a, b),
            ),
            BinaryOp::Mul => self.each(
                simd,
                to,
                #[inline(always)]
                |a, b| simd.mul_f32s(a, b),
            ),
            _ => return false,
        }
        true
    }

    /// No element is read after its place was written. Each branch keeps its vectors in registers; merging branches would go through the
    /// stack.
    #[inline(always)]
    fn each<S: Simd>(self, simd: S, to: &mut [f16], operation: impl Fn(S::f32s, S::f32s) -> S::f32s) {
        let BinaryRows { one: (one, one_stride), other, is_second, rows: Rows { count, columns, to_stride, .. } } =
            self;
        let by = By { simd, operation, is_second };
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

/// An operation of two operands.
struct By<S, O> {
    simd: S,
    operation: O,
    is_second: bool,
}

impl<S: Simd, O: Fn(S::f32s, S::f32s) -> S::f32s> By<S, O> {
    /// Of a vector's numbers from each.
    #[inline(always)]
    fn vector(&self, x: &[f16], y: &[f16]) -> Option<[f16; LONGEST]> {
        self.of(*x.first_chunk()?, *y.first_chunk()?)
    }

    /// Of half as many.
    #[inline(always)]
    fn half(&self, x: &[f16], y: &[f16]) -> Option<[f16; HALF]> {
        let (x, y) = (x.first_chunk::<HALF>()?, y.first_chunk::<HALF>()?);
        let [made, _]: [[f16; HALF]; 2] = cast(self.of(cast([*x; 2]), cast([*y; 2]))?);
        Some(made)
    }

    #[inline(always)]
    fn of(&self, x: [f16; LONGEST], y: [f16; LONGEST]) -> Option<[f16; LONGEST]> {
        let (x, y) = (simd::widened(self.simd, x)?, simd::widened(self.simd, y)?);
        f16::of(self.simd, (), if self.is_second { (self.operation)(y, x) } else { (self.operation)(x, y) })
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
