//! Taps of a run whose products the array drops in part.

use super::*;
use crate::simd::{self, Relation};

/// Space for their numbers in a list, and for what vectors write behind them.
const LIST_CAPACITY: usize = PASS + LONGEST;

/// Taps of a run, or of a part of it, by what is added of their products. Taps are counted from the first.
pub(in crate::exact) struct Lists {
    /// Under these, some products are dropped that do not round to zero anyway.
    mixed: [u32; LIST_CAPACITY],
    mixes: usize,
    /// The least operands that count under each of them, by row.
    pub(super) keep: [[f32; HEIGHT]; PASS],
    /// All products of the other taps are added.
    whole: [u32; LIST_CAPACITY],
    wholes: usize,
    /// Columns that are summed one by one, in a pass.
    pub(super) alone: [[f32; PASS]; MOST_TAIL],
}

impl Default for Lists {
    fn default() -> Lists {
        Lists::EMPTY
    }
}

impl Lists {
    const EMPTY: Lists = Lists {
        mixed: [0; LIST_CAPACITY],
        mixes: 0,
        keep: [[0.0; HEIGHT]; PASS],
        whole: [0; LIST_CAPACITY],
        wholes: 0,
        alone: [[0.0; PASS]; MOST_TAIL],
    };

    /// Takes the columns of some taps of a panel that are summed one by one, the last ones of so many.
    #[inline(always)]
    pub(super) fn gather_tail<S: Simd>(&mut self, _: S, x: &[Line], columns: usize) {
        for (column, to) in (columns - tail_columns::<S>(columns)..columns).zip(&mut self.alone) {
            for (to, x) in to.iter_mut().zip(x) {
                *to = x.0[column];
            }
        }
    }

    #[inline(always)]
    pub(in crate::exact) fn fill<S: Simd>(&mut self, simd: S, pair: &Pair, first: usize, end: usize) {
        let (dropping, met) = (&pair.dropping[first..end], &pair.exponents[first..end]);
        self.mixes = simd::places(simd, dropping, Relation::Meets, met, &mut self.mixed);
        self.wholes = simd::places(simd, dropping, Relation::IsApart, met, &mut self.whole);
    }

    /// Finds the least operands that count under the mixed taps.
    #[inline(always)]
    pub(super) fn take_keep<const H: usize>(&mut self, reading: Reading, w: &[[f32; H]]) {
        // A raised weight has the exponent of the weight. One flat loop, so that it vectorizes well.
        let keep = &mut self.keep.as_flattened_mut().as_chunks_mut().0[..self.mixes];
        keep.iter_mut().zip(&self.mixed).for_each(|(keep, &tap)| *keep = w[tap as usize]);
        keep.as_flattened_mut().iter_mut().for_each(|keep| *keep = reading.keep_from(*keep));
    }

    #[inline(always)]
    pub(in crate::exact) fn mixed(&self) -> impl Iterator<Item = usize> {
        self.mixed[..self.mixes].iter().map(|&tap| tap as usize)
    }

    /// Returns true if fewer than an eighth of the taps are mixed. Adding all products and subtracting the dropped ones then takes less time than
    /// the list of whole taps, whose addresses cost instructions (docs/performance.md).
    #[inline(always)]
    pub(super) fn are_few(&self, taps: usize) -> bool {
        8 * self.mixes < taps
    }

    #[inline(always)]
    pub(super) fn whole(&self) -> impl Iterator<Item = usize> {
        self.whole[..self.wholes].iter().map(|&tap| tap as usize)
    }
}
