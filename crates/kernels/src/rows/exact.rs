//! Sums and maxima of planes of fp16 numbers in the exact models, with the elements of a plane in the lanes. Sums in fp64 are exact, and so have the same
//! bits in any order.

use super::{Form, RowKernel};
use crate::host::Rows;
use crate::line::Line;
use crate::num::wide::{Exact, Wide};
use crate::reduce::Fold;
use crate::simd;
use crate::tensor::Extents;
use pulp::Simd;

/// Elements whose sum is exact: each is a multiple of 2^-24 and less than 2^16.
const MOST: usize = 1 << 13;
/// Fewest elements of a row for which this pays.
const LEAST_ROW: usize = 96;
/// Partial results of a plane.
const LANES: usize = 32;

/// Partial results of a plane, by element.
struct Lanes {
    sums: [f64; LANES],
    largest: [f32; LANES],
    unordered: [u32; LANES],
}

/// [`super::RowNumber::fold`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "without adapters, which have instances for every instruction set")]
pub fn fold<S: Simd>(
    simd: S,
    lines: &RowKernel<Exact>,
    fold: &Fold,
    (ext, first): (Extents, usize),
    wide: &mut [f32],
    ends: &mut [Exact],
) -> bool {
    let operand = &lines.operands[0];
    let of_elements = lines.form == Form::One && lines.pre.is_none() && !operand.one_column && !operand.relu;
    let stride = operand.source.strides[2];
    let columns = if ext.h == 1 || stride == ext.w { ext.plane() } else { ext.w };
    if !of_elements || !fold.goes_on() || ext.plane() > MOST || columns < LEAST_ROW {
        return false;
    }
    for p in 0..ends.len() {
        let plane = first + p;
        let from = operand.source.from(plane / ext.c, plane % ext.c, 0);
        let start = <Exact as Line>::start();
        let mut lanes = Lanes { sums: [start; LANES], largest: [f32::NEG_INFINITY; LANES], unordered: [0; LANES] };
        for h in 0..ext.plane() / columns {
            let mut row = &from[h * stride..][..columns];
            while !row.is_empty() {
                let count = row.len().min(wide.len());
                let wide = &mut wide[..count];
                simd::widen_rows(simd, &row[..count], wide, Rows::one(count));
                row = &row[count..];
                match fold {
                    Fold::Sum(_) => lanes.add(wide),
                    Fold::Max => lanes.raise(wide),
                }
            }
        }
        let end = match fold {
            Fold::Sum(_) => lanes.sum(),
            Fold::Max => lanes.largest(),
        };
        // The sign of a zero depends on the order, and so does a sum of infinities.
        if end.is_nan() || end == 0.0 && matches!(fold, Fold::Max) {
            return false;
        }
        ends[p] = Exact::wide(end);
    }
    true
}

#[allow(clippy::needless_range_loop, reason = "loops over lanes are vector operations")]
impl Lanes {
    #[inline(always)]
    fn add(&mut self, x: &[f32]) {
        let (whole, rest) = x.as_chunks::<LANES>();
        for i in 0..whole.len() {
            for lane in 0..LANES {
                self.sums[lane] += f64::from(whole[i][lane]);
            }
        }
        for lane in 0..rest.len() {
            self.sums[lane] += f64::from(rest[lane]);
        }
    }

    /// Takes the larger numbers, and marks lanes with NaN.
    #[inline(always)]
    fn raise(&mut self, x: &[f32]) {
        let (whole, rest) = x.as_chunks::<LANES>();
        for i in 0..whole.len() {
            for lane in 0..LANES {
                let x = whole[i][lane];
                self.unordered[lane] |= u32::from(x.is_nan());
                self.largest[lane] = if x > self.largest[lane] { x } else { self.largest[lane] };
            }
        }
        for lane in 0..rest.len() {
            self.unordered[lane] |= u32::from(rest[lane].is_nan());
            self.largest[lane] = if rest[lane] > self.largest[lane] { rest[lane] } else { self.largest[lane] };
        }
    }

    fn sum(&self) -> f64 {
        let mut sum = self.sums[0];
        for lane in 1..LANES {
            sum += self.sums[lane];
        }
        sum
    }

    /// The largest number; NaN beside a NaN.
    fn largest(&self) -> f64 {
        let (mut largest, mut unordered) = (f32::NEG_INFINITY, 0);
        for lane in 0..LANES {
            largest = if self.largest[lane] > largest { self.largest[lane] } else { largest };
            unordered |= self.unordered[lane];
        }
        if unordered == 0 { f64::from(largest) } else { f64::NAN }
    }
}
