//! Piecewise linear functions ([`Curve`]) evaluated in vectors of 16 lanes.

use super::{LONGEST, outline};
use crate::host::longest::{self, CurveVectors, Longest};
use crate::params::Curve;
use half::f16;
use pulp::{Simd, WithSimd};

/// A [`Curve`] prepared for vectors: slope and intercept of each segment.
#[derive(Clone)]
pub struct Pieces {
    slopes: [f32; 32],
    intercepts: [f32; 32],
    curve: Curve,
    /// True if values are rounded once with ties away from zero, and NaN is read as plus infinity.
    away: bool,
    /// True if arguments may lie beyond the knots.
    tails: bool,
}

impl Pieces {
    /// Segments of a curve whose values are rounded to nearest even, or by the rules of an exact model if `away`.
    pub fn of(curve: &Curve, away: bool) -> Pieces {
        let mut pieces = Pieces { slopes: [0.0; 32], intercepts: [0.0; 32], curve: curve.clone(), away, tails: true };
        for i in 0..32 {
            let (low, rise) = (curve.knots[i], curve.knots[i + 1] - curve.knots[i]);
            pieces.slopes[i] = rise * curve.knots_per_unit;
            // Intercept at argument zero, or at fraction zero of an exponential.
            pieces.intercepts[i] = low - rise * (i as f32 - curve.origin);
        }
        pieces
    }

    /// The same segments for arguments between the knots, or whose saturation limits cover the tails.
    pub fn without_tails(self) -> Pieces {
        Pieces { tails: false, ..self }
    }

    #[inline(always)]
    fn in_registers(&self, host: Longest) -> CurveVectors {
        host.curve(&self.curve, &self.slopes, &self.intercepts, self.tails)
    }
}

/// Returns true if the host has the vectors that [`pieces_of`] and [`pieces_in_place`] need.
#[inline(always)]
pub fn has_pieces<S: Simd>(simd: S) -> bool {
    longest::of(simd).is_some()
}

/// Evaluates the function for a row in place, rounded to fp16. Returns false, without writing, on hosts without vectors of 16 lanes.
#[inline(always)]
pub fn pieces_in_place<S: Simd>(simd: S, pieces: &Pieces, row: &mut [f16]) -> bool {
    let able = has_pieces(simd);
    if able {
        outline(simd, InPlace { pieces, row });
    }
    able
}

/// [`pieces_in_place`] at `(x + bias) * scale`, which is rounded to fp16 first.
#[inline(always)]
pub fn pieces_of<S: Simd>(simd: S, pieces: &Pieces, from: &[f16], affine: [f32; 2], to: &mut [f16]) -> bool {
    let able = has_pieces(simd);
    if able {
        outline(simd, Copied { pieces, from: &from[..to.len()], affine, to });
    }
    able
}

struct InPlace<'a> {
    pieces: &'a Pieces,
    row: &'a mut [f16],
}

impl WithSimd for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.pieces.away {
            true => self.each::<S, true>(simd),
            false => self.each::<S, false>(simd),
        }
    }
}

impl InPlace<'_> {
    #[inline(always)]
    fn each<S: Simd, const AWAY: bool>(self, simd: S) {
        let Some(host) = longest::of(simd) else { return };
        let vectors = self.pieces.in_registers(host);
        let (whole, rest) = self.row.as_chunks_mut::<LONGEST>();
        for x in whole {
            *x = value::<AWAY>(host, &vectors, *x);
        }
        if !rest.is_empty() {
            let mut few = [f16::ZERO; LONGEST];
            few[..rest.len()].copy_from_slice(rest);
            rest.copy_from_slice(&value::<AWAY>(host, &vectors, few)[..rest.len()]);
        }
    }
}

#[inline(always)]
fn value<const AWAY: bool>(host: Longest, vectors: &CurveVectors, x: [f16; LONGEST]) -> [f16; LONGEST] {
    let x = host.widen(x);
    if AWAY {
        // Rounding toward zero with a sticky last bit, so that the final rounding is the only one.
        return host.round(host.away_from_ties(vectors.values::<AWAY>(host.canonicalize(x))));
    }
    host.round(vectors.values::<AWAY>(x))
}

struct Copied<'a> {
    pieces: &'a Pieces,
    from: &'a [f16],
    affine: [f32; 2],
    to: &'a mut [f16],
}

impl WithSimd for Copied<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Copied { pieces, from, affine: [bias, scale], to } = self;
        let Some(host) = longest::of(simd) else { return };
        let vectors = pieces.in_registers(host);
        let idle = bias == 0.0 && scale == 1.0;
        let (whole, rest) = to.as_chunks_mut::<LONGEST>();
        let (sources, last) = from.as_chunks::<LONGEST>();
        if idle {
            for (to, x) in whole.iter_mut().zip(sources) {
                *to = host.round(vectors.values::<false>(host.widen(*x)));
            }
        } else {
            for (to, x) in whole.iter_mut().zip(sources) {
                let x = host.widen(host.round(host.affine(host.widen(*x), bias, scale)));
                *to = host.round(vectors.values::<false>(x));
            }
        }
        if !rest.is_empty() {
            let mut few = [f16::ZERO; LONGEST];
            few[..rest.len()].copy_from_slice(&last[..rest.len()]);
            let x = host.widen(few);
            let x = if idle { x } else { host.widen(host.round(host.affine(x, bias, scale))) };
            rest.copy_from_slice(&host.round(vectors.values::<false>(x))[..rest.len()]);
        }
    }
}
