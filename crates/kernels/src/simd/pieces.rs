//! Pieces of a [`Curve`], prepared for vectors of 16 lanes.

use crate::host::longest::{CurveVectors, Longest};
use crate::params::{Curve, Reach};

/// A [`Curve`] prepared for vectors: slope and intercept of each segment.
#[derive(Clone)]
pub struct Pieces {
    /// Segment `i` starts at the knot whose distance to the origin is `i`, modulo 32.
    slopes: [f32; 32],
    intercepts: [f32; 32],
    curve: Curve,
    reach: Reach,
}

impl Pieces {
    /// Segments of a curve for all arguments.
    pub fn of(curve: &Curve) -> Pieces {
        let mut pieces = Pieces { slopes: [0.0; 32], intercepts: [0.0; 32], curve: curve.clone(), reach: Reach::All };
        for i in 0..32 {
            let (low, rise) = (curve.knots[i], curve.knots[i + 1] - curve.knots[i]);
            let from_origin = i as f32 - curve.origin;
            let at = from_origin.rem_euclid(32.0) as usize;
            pieces.slopes[at] = rise * curve.knots_per_unit;
            // Intercept at argument zero, or at fraction zero of an exponential.
            pieces.intercepts[at] = low - rise * from_origin;
        }
        pieces
    }

    /// The same segments for some arguments.
    pub(super) fn for_reach(&self, reach: Reach) -> Pieces {
        Pieces { reach, ..self.clone() }
    }

    /// The forms that may be cheaper than [`Reach::All`], the cheapest first.
    pub(super) fn reaches(&self) -> &'static [Reach] {
        match self.curve.is_clamp() {
            true => &[Reach::Limits, Reach::All],
            false => &[Reach::Above, Reach::Knots, Reach::All],
        }
    }

    pub(super) fn reach(&self) -> Reach {
        self.reach
    }

    #[inline(always)]
    pub(super) fn in_registers(&self, host: Longest) -> CurveVectors {
        host.curve(&self.curve, &self.slopes, &self.intercepts, self.reach)
    }
}
