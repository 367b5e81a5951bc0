//! Epilogue of the exact models: maps fp16 results of the accumulators, or fp16 operands, to stored fp16 elements.

use crate::cost;
use crate::host::Rows;
use crate::line::STRETCH;
use crate::num;
use crate::num::elementwise;
use crate::params::Curve;
use crate::simd::{self, LONGEST, LaneMap};
use crate::table::Table;
use crate::tensor::Tensor;
use crate::view::{OutputTile, copy_rows, scatter_elements};
use crate::workers::{PER_THREAD, Workers, chunks};
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

/// Map from fp16 to fp16 that follows the rounded sum, or a copied operand, in the exact models. Every form reads NaN as plus infinity.
#[derive(Clone)]
pub enum ExactEpilogue {
    /// Identity.
    Admit,
    /// Negative numbers and minus zero become plus zero.
    Relu,
    /// Clamp between two limits, neither of them with a sign.
    Clamp(f16, f16),
    /// Product with a scale, rounded with ties away from zero, and a clamp.
    Scale(ScaledClamp),
    /// Table by bit pattern.
    Map(Arc<Table>),
}

impl ExactEpilogue {
    /// The cheapest form of a table. `values` has one value for each fp16 bit pattern; `scale` is a factor of the argument that may have
    /// generated them; a `curve` that may have generated them is rounded with ties away from zero.
    pub fn of(values: Vec<f16>, scale: f32, curve: Option<&Curve>) -> ExactEpilogue {
        let at = |x: f16| values[usize::from(x.to_bits())];
        let (low, high) = (at(f16::NEG_INFINITY), at(f16::INFINITY));
        let has_these_values = |form: &ExactEpilogue| {
            let mut found: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
            form.row(pulp::Scalar::new(), &mut found);
            found.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        let is_clamp = scale == 1.0 && low.is_sign_positive() && high.is_sign_positive();
        let is_scale = scale != 1.0 && (f32::MIN_POSITIVE..=LARGEST_SCALE).contains(&scale);
        let form = match () {
            () if is_clamp => Some(ExactEpilogue::Clamp(low, high)),
            () if is_scale => Some(ExactEpilogue::Scale(ScaledClamp { scale, bounds: [low.to_f32(), high.to_f32()] })),
            () => None,
        };
        form.filter(has_these_values).unwrap_or_else(|| ExactEpilogue::Map(Arc::new(Table::away(values, curve))))
    }

    /// Applies the map to every element of a tensor in place; elements are fp16 numbers held in fp32.
    pub fn tensor(&self, workers: &Workers, y: &mut Tensor) {
        let nanos = cost::one_by_one(y.data.len());
        chunks(&mut y.data, PER_THREAD, nanos, |_, row| workers.arch.dispatch(Each { exactly: self, row }));
    }

    /// The map of rounded numbers, which are neither NaN nor minus zero, as a scale and a clamp; `None` for a table.
    #[inline(always)]
    pub fn clamp(&self) -> Option<ScaledClamp> {
        let between = |low, high| Some(ScaledClamp { scale: 1.0, bounds: [low, high] });
        match self {
            ExactEpilogue::Admit => between(f32::NEG_INFINITY, f32::INFINITY),
            ExactEpilogue::Relu => between(0.0, f32::INFINITY),
            ExactEpilogue::Clamp(low, high) => between(low.to_f32(), high.to_f32()),
            ExactEpilogue::Scale(of) => Some(*of),
            ExactEpilogue::Map(_) => None,
        }
    }

    #[inline(always)]
    pub fn row<S: Simd>(&self, simd: S, row: &mut [f16]) {
        match self {
            ExactEpilogue::Admit => row.iter_mut().for_each(|x| *x = elementwise::admit_half(*x)),
            ExactEpilogue::Relu => row.iter_mut().for_each(|x| {
                let admitted = elementwise::admit_half(*x);
                *x = if admitted.to_bits() >> 15 == 1 { f16::ZERO } else { admitted };
            }),
            &ExactEpilogue::Clamp(low, high) => row.iter_mut().for_each(|x| {
                let admitted = elementwise::admit_half(*x).to_bits() as i16;
                *x = f16::from_bits(admitted.max(low.to_bits() as i16).min(high.to_bits() as i16) as u16);
            }),
            ExactEpilogue::Scale(of) => {
                let mut wide = [0.0; STRETCH];
                for row in row.chunks_mut(STRETCH) {
                    let wide = &mut wide[..row.len()];
                    num::widen_row(row, wide);
                    // Adding zero takes the sign of a zero away.
                    for x in wide.iter_mut() {
                        *x = elementwise::canonicalize(*x) + 0.0;
                    }
                    simd::finish_rows(simd, *of, wide, row, Rows::one(row.len()));
                }
            }
            ExactEpilogue::Map(table) => table.row(simd, row),
        }
    }
}

impl ExactEpilogue {
    /// Rounds sums to fp16 and applies the map. Sums are neither NaN nor minus zero. `halves` holds the result.
    #[inline(always)]
    pub fn rounded<'a, S: Simd>(&self, simd: S, sums: &[f32], halves: &'a mut [f16]) -> &'a [f16] {
        let halves = &mut halves[..sums.len()];
        simd::round_rows(simd, sums, halves, Rows::one(sums.len()));
        self.row(simd, halves);
        halves
    }

    /// [`ExactEpilogue::rounded`] stored into a tile, as by [`OutputTile::store`]. `halves` is scratch memory.
    #[inline(always)]
    pub fn store<S: Simd>(
        &self,
        simd: S,
        share: &mut OutputTile,
        place: [usize; 3],
        channels: usize,
        sums: &[f32],
        stride: usize,
        rows: Rows,
        halves: &mut [f16],
    ) {
        match self.clamp() {
            // A row shorter than a vector takes as long to round as a whole one.
            Some(ScaledClamp { scale: 1.0, bounds }) if rows.columns >= LONGEST => share.store(
                place,
                channels,
                sums,
                stride,
                rows,
                #[inline(always)]
                |from, to, rows| simd::convert_rows(simd, Between(bounds), from, to, rows),
            ),
            _ => share.store(
                place,
                channels,
                self.rounded(simd, sums, halves),
                stride,
                rows,
                #[inline(always)]
                |from, to, rows| match (rows.columns, rows.from_stride) {
                    (1, 1) => scatter_elements(&from[..rows.count], rows.to_stride.max(1), to),
                    _ => copy_rows(from, to, rows),
                },
            ),
        }
    }
}

/// Largest scale of a [`ScaledClamp`]: products with sums of the NCHWc kernels, which are below 256, stay finite.
const LARGEST_SCALE: f32 = 128.0;

/// Epilogue without a table: the product with `scale`, rounded to fp16 with ties away from zero, between two limits. Its argument is an fp16
/// number, neither NaN nor minus zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScaledClamp {
    pub scale: f32,
    pub bounds: [f32; 2],
}

impl<S: Simd> LaneMap<S> for ScaledClamp {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let [low, high] = [simd.splat_f32s(self.bounds[0]), simd.splat_f32s(self.bounds[1])];
        let scaled = simd::round_products(simd, simd.mul_f32s(x, simd.splat_f32s(self.scale)));
        // A result that rounds to minus zero keeps its sign unless a limit is zero.
        simd::smaller(simd, simd::larger(simd, scaled, low), high)
    }
}

/// Clamp between two limits, for numbers whose zeros have no sign.
#[derive(Clone, Copy)]
pub struct Between(pub [f32; 2]);

impl<S: Simd> LaneMap<S> for Between {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let [low, high] = [simd.splat_f32s(self.0[0]), simd.splat_f32s(self.0[1])];
        simd.min_f32s(simd.max_f32s(x, low), high)
    }
}

pub(crate) struct Each<'a, 'b> {
    pub(crate) exactly: &'a ExactEpilogue,
    pub(crate) row: &'b mut [f32],
}

impl WithSimd for Each<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut halves = [f16::ZERO; STRETCH];
        for row in self.row.chunks_mut(STRETCH) {
            let halves = &mut halves[..row.len()];
            num::round_row(row, halves);
            self.exactly.row(simd, halves);
            num::widen_row(halves, row);
        }
    }
}
