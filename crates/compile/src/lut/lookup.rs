//! Evaluation of a table's record.

use super::Table;
use anemone_facts::lut::{KNOTS, Mode, Symmetry, place};

/// The function of a table's record, with the record's numbers converted once.
pub struct Lookup {
    mode: Mode,
    symmetry: Option<Symmetry>,
    /// Knots per unit of the argument, or of its fraction or mantissa.
    scale: f64,
    knots: [f64; KNOTS],
    /// First and last argument, and the values at and beyond them.
    low: (f64, f64),
    high: (f64, f64),
    /// Slopes and intercepts outside the knots.
    left: (f64, f64),
    right: (f64, f64),
}

impl Table {
    /// The function of the record, not rounded.
    pub fn lookup(&self) -> Lookup {
        let pair = |x: usize, y: usize| (self.half(x), self.half(y));
        Lookup {
            mode: self.mode,
            symmetry: self.symmetry(),
            scale: f64::from(self.halfwords[place::SHIFT] as i16).exp2(),
            knots: std::array::from_fn(|i| self.half(place::KNOT + i)),
            low: pair(place::X_LOW, place::Y_LOW),
            high: pair(place::X_HIGH, place::Y_HIGH),
            left: pair(place::LEFT, place::LEFT + 1),
            right: pair(place::RIGHT, place::RIGHT + 1),
        }
    }
}

impl Lookup {
    /// The value at `x`.
    pub fn value(&self, x: f64) -> f64 {
        match self.symmetry {
            Some(Symmetry::Odd) => self.of_positive(x.abs()).copysign(x),
            Some(Symmetry::NonNegative) if x < 0.0 => 0.0,
            _ => self.of_positive(x),
        }
    }

    fn of_positive(&self, x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        if x <= self.low.0 {
            return self.low.1;
        }
        if x >= self.high.0 {
            return self.high.1;
        }
        let scale = self.scale;
        // Mantissa in [1/2, 1), or in [1/2, 2) with an even exponent.
        let exponent = || x.abs().log2().floor() + 1.0;
        let even = || (exponent() / 2.0).floor() * 2.0;
        let mantissa = |exponent: f64| x / exponent.exp2();
        match self.mode {
            Mode::FromZero => self.between(x, x * scale),
            Mode::Centred => self.between(x, x * scale + 16.0),
            Mode::ToZero => self.between(x, x * scale + 32.0),
            Mode::Fraction => x.fract(),
            Mode::Integer => x.trunc(),
            Mode::Square => x * x,
            Mode::Sqrt => self.knot(mantissa(even()) * scale) * (even() / 2.0).exp2(),
            Mode::Rsqrt => self.knot(mantissa(even()) * scale) * (-even() / 2.0).exp2(),
            Mode::Reciprocal => self.knot((mantissa(exponent()) - 0.5) * scale) * (-exponent()).exp2(),
            Mode::Log2 => self.knot((mantissa(exponent()) - 0.5) * scale) + exponent(),
            Mode::Exp2 => self.knot((x - x.floor()) * scale) * x.floor().exp2(),
        }
    }

    fn between(&self, x: f64, coordinate: f64) -> f64 {
        if coordinate < 0.0 {
            self.left.0 * x + self.left.1
        } else if coordinate > (KNOTS - 1) as f64 {
            self.right.0 * x + self.right.1
        } else {
            self.knot(coordinate)
        }
    }

    fn knot(&self, coordinate: f64) -> f64 {
        let coordinate = coordinate.clamp(0.0, (KNOTS - 1) as f64);
        let at = (coordinate as usize).min(KNOTS - 2);
        let (low, high) = (self.knots[at], self.knots[at + 1]);
        low + (high - low) * (coordinate - at as f64)
    }
}
