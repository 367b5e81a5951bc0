//! Activation tables: a value for each fp16 bit pattern, looked up or computed in vectors.
//!
//! A look-up is a load from a table of 128 KB for each element. A table that samples a [`Curve`] is computed instead on hosts with vectors
//! of 16 lanes: the segment of an argument is selected from registers, and a fused multiply-add rounds once, as the device does. Equality
//! with the table is checked for all 65,536 arguments when the table is made.

use crate::isa;
use crate::params::Curve;
use crate::simd::{self, Pieces};
use half::f16;
use pulp::{Simd, WithSimd};

/// The value of every fp16 argument.
pub struct Table {
    /// By bit pattern.
    values: Box<[f16]>,
    /// `None` if vectors would give other bits.
    pieces: Option<Box<Pieces>>,
    /// True if a signalling NaN has the value of the corresponding quiet NaN.
    quiets: bool,
}

/// Number of fp16 bit patterns.
const PATTERNS: usize = 1 << 16;

impl Table {
    /// A table of one value for each bit pattern; `curve` is the function that may have generated them.
    pub fn of(values: Vec<f16>, curve: Option<&Curve>) -> Table {
        Table::with(values, curve.map(|curve| Pieces::of(curve, false)))
    }

    /// [`Table::of`] for values that are rounded with ties away from zero; NaN is read as plus infinity, and zero has no sign.
    pub fn away(values: Vec<f16>, curve: Option<&Curve>) -> Table {
        Table::with(values, curve.map(|curve| Pieces::of(curve, true)))
    }

    fn with(values: Vec<f16>, pieces: Option<Pieces>) -> Table {
        let pieces = pieces.filter(|_| values.len() == PATTERNS);
        let agrees = |pieces: &Pieces| isa::arch().dispatch(Agrees { pieces, values: &values });
        let pieces = pieces.and_then(|pieces| {
            let few = pieces.clone().without_tails();
            [few, pieces].into_iter().find(agrees).map(Box::new)
        });
        let is_signalling = |bits: usize| bits & 0x7e00 == 0x7c00 && bits & 0x1ff != 0;
        let mut signalling = (0..values.len()).filter(|&bits| is_signalling(bits));
        let quiets =
            values.len() == PATTERNS && signalling.all(|bits| values[bits].to_bits() == values[bits | 0x200].to_bits());
        Table { values: values.into(), pieces, quiets }
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
        self.pieces.is_some()
    }

    /// Replaces every element of a row by its value, computed or looked up.
    #[inline(always)]
    pub fn row<S: Simd>(&self, simd: S, row: &mut [f16]) {
        if let Some(pieces) = &self.pieces
            && simd::pieces_in_place(simd, pieces, row)
        {
            return;
        }
        row.iter_mut().for_each(|x| *x = self.value(*x));
    }

    /// Values at `(x + bias) * scale`, with the argument rounded to fp16. Returns false, without writing, if bias and scale are not the
    /// identity and the values are not computed in vectors.
    #[inline(always)]
    pub fn copy<S: Simd>(&self, simd: S, from: &[f16], [bias, scale]: [f32; 2], to: &mut [f16]) -> bool {
        if let Some(pieces) = &self.pieces
            && simd::pieces_of(simd, pieces, from, [bias, scale], to)
        {
            return true;
        }
        let as_they_are = self.quiets && bias == 0.0 && scale == 1.0;
        if as_they_are {
            self.look_up(&from[..to.len()], to);
        }
        as_they_are
    }
}

/// Returns true if the segments give the values of a table for every argument.
struct Agrees<'a> {
    pieces: &'a Pieces,
    values: &'a [f16],
}

impl WithSimd for Agrees<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let mut found: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let computed = simd::pieces_in_place(simd, self.pieces, &mut found);
        computed && found.iter().zip(self.values).all(|(a, b)| a.to_bits() == b.to_bits())
    }
}
