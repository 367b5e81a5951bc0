//! Activation tables: a value for each fp16 bit pattern, looked up or computed in vectors.
//!
//! A look-up is a load from a table of 128 KB for each element. A table that samples a [`Curve`], or a [`Formula`] of one,
//! is computed instead on hosts with vectors of 16 lanes: the segment of an argument is selected from registers, and a fused multiply-add rounds
//! once, as the device does. Equality with the table is checked for all 65,536 arguments when the table is made.

use crate::host::Rows;
use crate::num;
use crate::params::Curve;
use crate::simd::{self, Affine, Formula, Pieces};
use half::f16;
use pulp::Simd;

/// The value of every fp16 argument.
pub struct Table {
    /// By bit pattern.
    values: Box<[f16]>,
    /// `None` if vectors would give other bits.
    formula: Option<Box<Formula>>,
    /// True if a signalling NaN has the value of the corresponding quiet NaN.
    quiets: bool,
}

/// Number of fp16 bit patterns.
const PATTERNS: usize = 1 << 16;

impl Table {
    /// A table of one value for each bit pattern; `curve` is the function that may have generated them.
    pub fn of(values: Vec<f16>, curve: Option<&Curve>) -> Table {
        Table::with(values, curve.map(|curve| Formula::of(curve, false)))
    }

    /// [`Table::of`] for values that are rounded with ties away from zero; NaN is read as plus infinity, and zero has no sign.
    pub fn away(values: Vec<f16>, curve: Option<&Curve>) -> Table {
        Table::with(values, curve.map(|curve| Formula::of(curve, true)))
    }

    /// A table of one value for each bit pattern; `formula` may have generated them.
    pub fn with(values: Vec<f16>, formula: Option<Formula>) -> Table {
        let formula = formula.and_then(|formula| formula.for_values(&values)).map(Box::new);
        let is_signalling = |bits: usize| bits & 0x7e00 == 0x7c00 && bits & 0x1ff != 0;
        let mut signalling = (0..values.len()).filter(|&bits| is_signalling(bits));
        let quiets =
            values.len() == PATTERNS && signalling.all(|bits| values[bits].to_bits() == values[bits | 0x200].to_bits());
        Table { values: values.into(), formula, quiets }
    }

    /// The curve that is the whole function; `None` unless it is computed in vectors.
    pub fn curve(&self) -> Option<&Pieces> {
        self.formula.as_ref()?.alone()
    }

    /// Value of an argument.
    #[inline(always)]
    pub fn value(&self, x: f16) -> f16 {
        self.values[usize::from(x.to_bits())]
    }

    /// Looks up every element of a row.
    #[inline(always)]
    pub fn look_up(&self, from: &[f16], to: &mut [f16]) {
        let Some(values) = self.values.first_chunk::<PATTERNS>() else { return };
        for (to, x) in to.iter_mut().zip(from) {
            *to = values[usize::from(x.to_bits())];
        }
    }

    /// Returns true if values are computed in vectors on this host.
    pub fn is_computed(&self) -> bool {
        self.formula.is_some()
    }

    /// Replaces every element of a row by its value, computed or looked up.
    #[inline(always)]
    pub fn row<S: Simd>(&self, simd: S, row: &mut [f16]) {
        if let Some(formula) = &self.formula
            && simd::compute(simd, formula, None, None, Rows::one(row.len()), row)
        {
            return;
        }
        for x in row.iter_mut() {
            *x = self.value(*x);
        }
    }

    /// Values at `(x + bias) * scale`, with the argument rounded to fp16. Returns false, without writing, if bias and scale are not the
    /// identity and the values are not computed in vectors.
    #[inline(always)]
    pub fn copy<S: Simd>(&self, simd: S, from: &[f16], [bias, scale]: [f32; 2], to: &mut [f16]) -> bool {
        let as_they_are = bias == 0.0 && scale == 1.0;
        let before = (!as_they_are).then_some(Affine { first: bias, factor: scale, last: -0.0 });
        if let Some(formula) = &self.formula
            && simd::compute(simd, formula, before, Some(from), Rows::one(to.len()), to)
        {
            return true;
        }
        let as_they_are = self.quiets && as_they_are;
        if as_they_are {
            self.look_up(&from[..to.len()], to);
        }
        as_they_are
    }

    /// Values of rows, those of `to` if there is no source. Returns false, without writing, unless they are computed in vectors.
    #[inline(always)]
    pub fn rows<S: Simd>(&self, simd: S, from: Option<&[f16]>, rows: Rows, to: &mut [f16]) -> bool {
        let formula = self.formula.as_ref();
        formula.is_some_and(|formula| simd::compute(simd, formula, None, from, rows, to))
    }

    /// Replaces sums by numbers that round to the values at `(x + bias + all) * scale`, with the argument rounded to fp16. Returns false, without
    /// writing, unless they are computed in vectors.
    #[inline(always)]
    pub fn sums<S: Simd>(&self, simd: S, before: [f32; 3], sums: &mut [f32]) -> bool {
        let formula = self.formula.as_ref();
        formula.is_some_and(|formula| simd::compute_sums(simd, formula, before, false, sums))
    }

    /// Replaces fp16 numbers held in fp32 by their values.
    #[inline(always)]
    pub fn wide<S: Simd>(&self, simd: S, row: &mut [f32]) {
        let formula = self.formula.as_ref();
        if formula.is_some_and(|formula| simd::compute_sums(simd, formula, [-0.0, -0.0, 1.0], true, row)) {
            return;
        }
        for x in row {
            *x = num::widen(self.value(num::round(*x)));
        }
    }
}
