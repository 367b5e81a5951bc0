//! Functions of one operand from fp16 to fp16, computed in vectors of 16 lanes without memory between their steps.

use super::pieces::Pieces;
use super::{LONGEST, outline};
use crate::host::Rows;
use crate::host::longest::{self, CurveVectors, Longest};
use crate::params::{Curve, Reach};
use half::f16;
use pulp::{Simd, WithSimd};

/// Up to four steps: an affine map, a piecewise linear function, another affine map, and a product with the operand. The results of the first and the last one are
/// rounded to fp16, those of the others to the significant bits of a normal number.
#[derive(Clone)]
pub struct Formula {
    pub before: Option<Affine>,
    pub curve: Box<Pieces>,
    pub after: Option<Affine>,
    /// True if `after` is a fused multiply-add of the factor and the last addend.
    pub fuses: bool,
    /// True if the operand is a factor of the result.
    pub gates: bool,
    /// True if values are rounded with ties away from zero, and NaN is read as plus infinity.
    pub away: bool,
}

/// `(x + first) * factor + last`, all in fp32.
#[derive(Clone, Copy)]
pub struct Affine {
    pub first: f32,
    pub factor: f32,
    pub last: f32,
}

impl Formula {
    /// A curve alone, `away` as in [`Formula`].
    pub fn of(curve: &Curve, away: bool) -> Formula {
        Formula { before: None, curve: Box::new(Pieces::of(curve)), after: None, fuses: false, gates: false, away }
    }

    /// The curve, if it is the only step.
    pub fn alone(&self) -> Option<&Pieces> {
        (self.before.is_none() && self.after.is_none() && !self.gates).then_some(&self.curve)
    }

    /// The cheapest form that gives a value for each fp16 bit pattern; `None` if the formula does not, or on hosts without vectors of 16 lanes.
    pub fn for_values(self, values: &[f16]) -> Option<Formula> {
        for &reach in self.curve.reaches() {
            for fuses in [true, false] {
                let curve = Box::new(self.curve.for_reach(reach));
                let formula = Formula { curve, fuses, ..self.clone() };
                if (self.after.is_some() || !fuses) && formula.gives(values) {
                    return Some(formula);
                }
            }
        }
        None
    }

    fn gives(&self, values: &[f16]) -> bool {
        let from: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut found = vec![f16::ZERO; from.len()];
        let computes = crate::isa::arch().dispatch(Whole { formula: self, from: &from, to: &mut found });
        computes && found.len() == values.len() && found.iter().zip(values).all(|(a, b)| a.to_bits() == b.to_bits())
    }
}

struct Whole<'a> {
    formula: &'a Formula,
    from: &'a [f16],
    to: &'a mut [f16],
}

impl WithSimd for Whole<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        compute(simd, self.formula, None, Some(self.from), Rows::one(self.to.len()), self.to)
    }
}

/// Returns true if the host has the vectors that [`compute`] needs.
#[inline(always)]
pub fn has_formulas<S: Simd>(simd: S) -> bool {
    longest::of(simd).is_some()
}

/// Computes rows, of `to` itself if there is no source. `before` is the first step of a formula that has none. Returns false, without writing, on
/// hosts without vectors of 16 lanes, and if there are two first steps.
#[inline(always)]
pub fn compute<S: Simd>(
    simd: S,
    formula: &Formula,
    before: Option<Affine>,
    from: Option<&[f16]>,
    rows: Rows,
    to: &mut [f16],
) -> bool {
    let able = has_formulas(simd) && (before.is_none() || formula.before.is_none());
    if able {
        outline(simd, Job { formula, before: before.or(formula.before), from, rows, to });
    }
    able
}

/// Replaces sums by values that round to those of the formula at `(x + bias + all) * scale`, rounded to fp16. Returns false, without writing, as
/// [`compute`], and for a formula that rounds ties away from zero. With `settle` the results are rounded.
#[inline(always)]
pub fn compute_sums<S: Simd>(simd: S, formula: &Formula, before: [f32; 3], settle: bool, sums: &mut [f32]) -> bool {
    let able = has_formulas(simd) && !formula.away;
    if able {
        outline(simd, OfSums { formula, before, settle, sums });
    }
    able
}

struct OfSums<'a> {
    formula: &'a Formula,
    /// Two addends and a factor.
    before: [f32; 3],
    settle: bool,
    sums: &'a mut [f32],
}

impl WithSimd for OfSums<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Some(host) = longest::of(simd) else { return };
        let pieces = &self.formula.curve;
        let curve = pieces.in_registers(host);
        match pieces.reach() {
            Reach::Above => self.each(host, curve, Reach::Above),
            Reach::Limits => self.each(host, curve, Reach::Limits),
            Reach::Knots | Reach::All => self.each(host, curve, Reach::All),
        }
    }
}

impl OfSums<'_> {
    /// `reach` is a constant after inlining. The function is one copy of LLVM IR.
    #[inline(always)]
    fn each(self, host: Longest, curve: CurveVectors, reach: Reach) {
        let OfSums { formula: &Formula { before, after, fuses, gates, .. }, before: [bias, all, scale], settle, sums } =
            self;
        let vectors = Vectors { host, curve, before, after, fuses, gates, away: false, reach };
        let of = |x: [f32; LONGEST]| {
            let x = host.times(host.plus(host.plus(x, [bias; LONGEST]), [all; LONGEST]), [scale; LONGEST]);
            host.widen(host.round(x))
        };
        let (whole, rest) = sums.as_chunks_mut::<LONGEST>();
        for i in (0..whole.len()).step_by(2) {
            let j = (i + 1).min(whole.len() - 1);
            let mut made = vectors.values([of(whole[i]), of(whole[j])]);
            if settle {
                made = [host.widen(host.round(made[0])), host.widen(host.round(made[1]))];
            }
            [whole[i], whole[j]] = made;
        }
        if !rest.is_empty() {
            let mut few = [0.0; LONGEST];
            few[..rest.len()].copy_from_slice(rest);
            let [mut made, _] = vectors.values([of(few); 2]);
            if settle {
                made = host.widen(host.round(made));
            }
            rest.copy_from_slice(&made[..rest.len()]);
        }
    }
}

struct Job<'a> {
    formula: &'a Formula,
    before: Option<Affine>,
    from: Option<&'a [f16]>,
    rows: Rows,
    to: &'a mut [f16],
}

impl WithSimd for Job<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Some(host) = longest::of(simd) else { return };
        let (pieces, away) = (&self.formula.curve, self.formula.away);
        let curve = pieces.in_registers(host);
        match (away, pieces.reach()) {
            (true, Reach::Above) => self.each(host, curve, true, Reach::Above),
            (false, Reach::Above) => self.each(host, curve, false, Reach::Above),
            (true, Reach::Limits) => self.each(host, curve, true, Reach::Limits),
            (false, Reach::Limits) => self.each(host, curve, false, Reach::Limits),
            (true, Reach::Knots | Reach::All) => self.each(host, curve, true, Reach::All),
            (false, Reach::Knots | Reach::All) => self.each(host, curve, false, Reach::All),
        }
    }
}

impl Job<'_> {
    /// `away` and `reach` are constants after inlining. The function is one copy of LLVM IR.
    #[inline(always)]
    fn each(self, host: Longest, curve: CurveVectors, away: bool, reach: Reach) {
        let Job { formula: &Formula { after, fuses, gates, .. }, before, from, rows, to } = self;
        let vectors = Vectors { host, curve, before, after, fuses, gates, away, reach };
        let columns = rows.columns;
        if let Some(gaps) = rows.gaps() {
            return vectors.between_gaps(from, gaps, rows, to);
        }
        for row in 0..rows.count {
            let from = from.map(|from| &from[row * rows.from_stride..][..columns]);
            let to = &mut to[row * rows.to_stride..][..columns];
            // Read before a vector that overlaps it is written.
            let mut last = [f16::ZERO; LONGEST];
            let rest = columns % LONGEST;
            if rest != 0 {
                let row = from.unwrap_or(to);
                match row.last_chunk() {
                    Some(whole) => last = *whole,
                    None => last[..rest].copy_from_slice(row),
                }
            }
            vectors.whole(from, to);
            if rest != 0 {
                let [made, _] = vectors.of_halves([last; 2]);
                match to.last_chunk_mut() {
                    Some(whole) => *whole = made,
                    None => to.copy_from_slice(&made[..rest]),
                }
            }
        }
    }
}

/// Period of rows, columns before the gap, and position of the next vector in the period.
struct Gaps {
    stride: usize,
    columns: usize,
    offset: usize,
}

impl Gaps {
    /// Bit mask of the elements of the next vector that are in no gap.
    #[inline(always)]
    fn between(&mut self) -> u16 {
        let below = |i: usize| (1u32 << i.min(LONGEST)) - 1;
        let mut mask = below(self.columns.saturating_sub(self.offset));
        let mut next = self.stride - self.offset;
        while next < LONGEST {
            mask |= below(next + self.columns) & !below(next);
            next += self.stride;
        }
        // `next` is the first row that starts at the end of the vector or behind it.
        self.offset = if next == LONGEST { 0 } else { LONGEST + self.stride - next };
        mask as u16
    }
}

impl Rows {
    /// Gaps that are alike in source and result, of rows so short that a vector for each of them would cost more.
    #[inline(always)]
    fn gaps(self) -> Option<Gaps> {
        let Rows { count, columns, from_stride, to_stride } = self;
        let short = columns < 4 * LONGEST && !columns.is_multiple_of(LONGEST) && to_stride <= 2 * columns;
        (short && count > 1 && from_stride == to_stride).then_some(Gaps { stride: to_stride, columns, offset: 0 })
    }
}

/// A formula held in registers.
struct Vectors {
    host: Longest,
    curve: CurveVectors,
    before: Option<Affine>,
    after: Option<Affine>,
    fuses: bool,
    gates: bool,
    /// As [`Formula::away`].
    away: bool,
    /// [`Reach::All`] for [`Reach::Knots`] too: the curve knows.
    reach: Reach,
}

impl Vectors {
    /// Computes the whole vectors of a row, two at a time to overlap their latencies.
    #[inline(always)]
    fn whole(&self, from: Option<&[f16]>, to: &mut [f16]) {
        let (to, _) = to.as_chunks_mut::<LONGEST>();
        let from = from.map(|from| &from.as_chunks::<LONGEST>().0[..to.len()]);
        for i in (0..to.len()).step_by(2) {
            let j = (i + 1).min(to.len() - 1);
            let halves = match from {
                Some(from) => [from[i], from[j]],
                None => [to[i], to[j]],
            };
            [to[i], to[j]] = self.of_halves(halves);
        }
    }

    /// Computes rows with the same gaps in source and result as one row, and leaves the gaps as they are.
    #[inline(always)]
    fn between_gaps(&self, from: Option<&[f16]>, mut gaps: Gaps, rows: Rows, to: &mut [f16]) {
        let n = (rows.count - 1) * rows.to_stride + rows.columns;
        let (from, to) = (from.map(|from| &from[..n]), &mut to[..n]);
        for at in (0..n).step_by(2 * LONGEST) {
            let mut halves = [[f16::ZERO; LONGEST]; 2];
            for i in 0..2 {
                let from = from.unwrap_or(to).get(at + i * LONGEST..).unwrap_or(&[]);
                match from.first_chunk() {
                    Some(whole) => halves[i] = *whole,
                    None => halves[i][..from.len()].copy_from_slice(from),
                }
            }
            let made = self.of_halves(halves);
            for i in 0..2 {
                let at = at + i * LONGEST;
                let Some(to) = to.get_mut(at..) else { return };
                let mask = gaps.between();
                match to.first_chunk_mut() {
                    Some(whole) => self.host.store(mask, made[i], whole),
                    None => {
                        let mut few = [f16::ZERO; LONGEST];
                        few[..to.len()].copy_from_slice(to);
                        self.host.store(mask, made[i], &mut few);
                        to.copy_from_slice(&few[..to.len()]);
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn of_halves(&self, halves: [[f16; LONGEST]; 2]) -> [[f16; LONGEST]; 2] {
        let (mut operands, mut to) = ([[0.0; LONGEST]; 2], halves);
        for n in 0..2 {
            operands[n] = self.host.widen(halves[n]);
            if self.away {
                operands[n] = self.host.canonicalize(operands[n]);
            }
        }
        let made = self.values(operands);
        for n in 0..2 {
            to[n] = self.rounded(made[n]);
        }
        to
    }

    /// Results before they are rounded.
    #[inline(always)]
    fn values(&self, operands: [[f32; LONGEST]; 2]) -> [[f32; LONGEST]; 2] {
        let host = self.host;
        let mut x = operands;
        if let Some(before) = self.before {
            for n in 0..2 {
                // Rounded for any argument: `compute` gets this step from callers too.
                x[n] = host.widen(self.rounded(self.affine(before, x[n])));
            }
        }
        for n in 0..2 {
            x[n] = match (self.reach, self.away) {
                (Reach::Limits, _) => self.curve.values_within(x[n]),
                (Reach::Above, true) => self.curve.values_above::<true>(x[n]),
                (Reach::Above, false) => self.curve.values_above::<false>(x[n]),
                (Reach::Knots | Reach::All, true) => self.curve.values::<true>(x[n]),
                (Reach::Knots | Reach::All, false) => self.curve.values::<false>(x[n]),
            };
        }
        if let Some(after) = self.after {
            for n in 0..2 {
                let settled = self.settled(x[n]);
                x[n] = match self.fuses {
                    true => host.fused(settled, [after.factor; LONGEST], [after.last; LONGEST]),
                    false => self.affine(after, settled),
                };
            }
        }
        if self.gates {
            for n in 0..2 {
                x[n] = host.times(operands[n], self.settled(x[n]));
            }
        }
        x
    }

    #[inline(always)]
    fn rounded(&self, x: [f32; LONGEST]) -> [f16; LONGEST] {
        self.host.round(if self.away { self.host.away_from_ties(x) } else { x })
    }

    /// The result of a step, rounded to the significant bits of a normal number.
    #[inline(always)]
    fn settled(&self, x: [f32; LONGEST]) -> [f32; LONGEST] {
        self.host.shorten(if self.away { self.host.away_from_ties(x) } else { x })
    }

    #[inline(always)]
    fn affine(&self, of: Affine, x: [f32; LONGEST]) -> [f32; LONGEST] {
        let (host, Affine { first, factor, last }) = (self.host, of);
        host.plus(host.times(host.plus(x, [first; LONGEST]), [factor; LONGEST]), [last; LONGEST])
    }
}
