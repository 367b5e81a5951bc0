//! Taps of a run whose products the array drops in part.

use super::*;
use crate::host::longest;
use crate::simd::{self, Relation};

/// One row of so many has products that may be dropped where all rows are looked at.
const DENSE: usize = 3;
/// Space for their numbers in a list, and for what vectors write behind them.
const LIST_CAPACITY: usize = PASS + LONGEST;

/// Products that a run, or some of its taps, takes back: products are added as they come, and those that are dropped subtracted. Taps
/// are counted from the first.
pub(in crate::exact) struct Lists {
    /// Under these, some products are dropped that do not round to zero anyway.
    pub(super) mixed: [u32; LIST_CAPACITY],
    pub(super) mixes: usize,
    /// The least operands that count under each of them, by row.
    pub(super) keep: [[f32; HEIGHT]; PASS],
    /// Each of these taps with each row of which some products may be dropped: 16 times the tap, and the row.
    pairs: [u32; PASS * HEIGHT + LONGEST],
    /// The negated coefficient of each pair, and the least operand that counts.
    back: [f32; PASS * HEIGHT + LONGEST],
    counts_from: [f32; PASS * HEIGHT + LONGEST],
    pub(super) pair_count: usize,
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
        pairs: [0; PASS * HEIGHT + LONGEST],
        back: [0.0; PASS * HEIGHT + LONGEST],
        counts_from: [0.0; PASS * HEIGHT + LONGEST],
        pair_count: 0,
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
    }

    /// Finds the rows of these taps of which some products may be dropped: the exponents met under a tap say of which weights.
    #[inline(always)]
    pub(super) fn take_pairs<S: Simd>(&mut self, simd: S, reading: Reading, height: usize, w: &[f32], met: &[u32]) {
        let mut found = 0;
        for i in 0..self.mixes {
            let tap = self.mixed[i] as usize;
            let (first, [from, limit]) = ((tap * LONGEST) as u32, reading.may_drop(met[tap]));
            let key = |w: f32| w.abs().to_bits().wrapping_sub(from);
            let w = &w[tap * height..];
            if let (Some(host), Some(w)) = (longest::of(simd), w.first_chunk::<LONGEST>()) {
                let (mut keys, mut back) = ([0; LONGEST], [0.0; LONGEST]);
                for row in 0..LONGEST {
                    (keys[row], back[row]) = (key(w[row]), -w[row]);
                }
                let below = host.below(keys, [limit; LONGEST]) & ((1u32 << height) - 1) as u16;
                self.pairs[found..][..LONGEST].copy_from_slice(&host.places(first, below));
                self.back[found..][..LONGEST].copy_from_slice(&host.packed(back, below));
                found += below.count_ones() as usize;
            } else if w[..height].iter().fold(false, |some, &w| some | (key(w) < limit)) {
                for (row, &w) in w[..height].iter().enumerate() {
                    // Written, and kept or not: no branch to mispredict.
                    (self.pairs[found], self.back[found]) = (first + row as u32, -w);
                    found += usize::from(key(w) < limit);
                }
            }
        }
        self.pair_count = found;
        // Vectors over pairs: a row at a time would leave most lanes empty.
        let of_pairs = self.counts_from.iter_mut().zip(&self.back).take(found);
        of_pairs.for_each(|(from, back)| *from = reading.keep_from(*back));
    }

    /// Returns true if all rows of these taps take less time than their pairs one by one.
    #[inline(always)]
    pub(super) fn is_dense(&self, height: usize) -> bool {
        self.pair_count * DENSE > self.mixes * height
    }

    /// Tap and row of each pair, its negated coefficient, and the least operand that counts.
    #[inline(always)]
    pub(super) fn pairs(&self) -> impl Iterator<Item = ([usize; 2], [f32; 2])> {
        let numbers = self.back.iter().zip(&self.counts_from);
        let pairs = self.pairs[..self.pair_count].iter().map(|&pair| pair as usize);
        pairs.zip(numbers).map(|(pair, (&back, &from))| ([pair / LONGEST, pair % LONGEST], [back, from]))
    }

    #[inline(always)]
    pub(in crate::exact) fn mixed(&self) -> impl Iterator<Item = usize> {
        self.mixed[..self.mixes].iter().map(|&tap| tap as usize)
    }
}
