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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::arches;

    fn curve() -> Curve {
        Curve {
            knots: std::array::from_fn(|i| f16::from_f32((i as f32 - 9.0) / 7.0).to_f32()),
            knots_per_unit: 4.0,
            origin: 16.0,
            is_exponential: false,
            tails: [[0.25, -0.5], [1.0, 0.125]],
            limits: [-100.0, f32::INFINITY],
            constants: [-3.0, f32::INFINITY],
            is_odd: false,
            is_zero_below_zero: false,
        }
    }

    /// The curve evaluated in fp64, rounded to fp16.
    fn value(of: &Curve, x: f16) -> f16 {
        let wide = f64::from(x.to_f32());
        let t = wide * f64::from(of.knots_per_unit) + f64::from(of.origin);
        let line = |[slope, intercept]: [f32; 2]| f64::from(slope) * wide + f64::from(intercept);
        let y = match t {
            _ if x.is_nan() => wide,
            _ if wide <= f64::from(of.limits[0]) => f64::from(of.constants[0]),
            _ if wide >= f64::from(of.limits[1]) => f64::from(of.constants[1]),
            t if t < 0.0 => line(of.tails[0]),
            t if t > 32.0 => line(of.tails[1]),
            t => {
                let i = (t as usize).min(31);
                let (a, b) = (f64::from(of.knots[i]), f64::from(of.knots[i + 1]));
                a + (b - a) * (t - i as f64)
            }
        };
        f16::from_f32(y as f32)
    }

    /// Rows of any length, with values that are computed, looked up, or not sampled from the curve.
    #[test]
    fn rows_have_the_values_of_the_table() {
        let curve = curve();
        let exact: Vec<f16> = (0..=u16::MAX).map(|bits| value(&curve, f16::from_bits(bits))).collect();
        let mut other = exact.clone();
        other[0x4321] = f16::ONE;
        for (values, computed) in [(exact, true), (other, false)] {
            let table = Table::of(values.clone(), Some(&curve));
            let longest = isa::name() == "v4";
            assert_eq!(table.is_computed(), computed && longest);
            for (arch, n) in arches().into_iter().flat_map(|arch| (0..70).map(move |n| (arch, n))) {
                arch.dispatch(Rows { table: &table, values: &values, n });
            }
        }
    }

    struct Rows<'a> {
        table: &'a Table,
        values: &'a [f16],
        n: usize,
    }

    impl WithSimd for Rows<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let from: Vec<f16> = (0..self.n).map(|i| f16::from_bits((i * 7919 + 0x4321) as u16)).collect();
            let (mut row, mut to) = (from.clone(), vec![f16::ZERO; self.n]);
            self.table.row(simd, &mut row);
            let wanted = |x: f16| self.values[usize::from(x.to_bits())].to_bits();
            assert!(row.iter().zip(&from).all(|(y, x)| y.to_bits() == wanted(*x)));
            for [bias, scale] in [[0.0, 1.0], [0.5, -2.0]] {
                let before = |x: f16| f16::from_f32((x.to_f32() + bias) * scale);
                let done = self.table.copy(simd, &from, [bias, scale], &mut to);
                assert_eq!(done, self.table.is_computed() && simd::has_pieces(simd) || bias == 0.0);
                assert!(!done || to.iter().zip(&from).all(|(y, x)| y.to_bits() == wanted(before(*x))));
            }
        }
    }
}
