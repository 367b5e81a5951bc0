//! Activation tables: 33 knots, limits and tails, in eleven modes. Values are computed in fp64; callers
//! round them.

use crate::fault::FaultKind;
use anemone_facts::lut::{KNOTS, Mode, RECORD_BYTES, Symmetry, place};
use anemone_kernels::arrays::{MapEach, array_of};
use anemone_kernels::epilogue::Activation;
use anemone_kernels::num::{round, through_f16};
use anemone_kernels::params::Curve;
use half::f16;

/// One activation table, ready to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    x_low: f64,
    x_high: f64,
    y_low: f64,
    y_high: f64,
    knots: [f64; KNOTS],
    /// Slope, intercept.
    left: (f64, f64),
    right: (f64, f64),
    shift: i32,
    mode: Mode,
    symmetry: Symmetry,
}

/// The smallest fp16 number.
const LEAST: f64 = 1.0 / (1 << 24) as f64;

impl Table {
    /// Reads a record of [`RECORD_BYTES`] bytes.
    pub fn read(record: &[u8]) -> Result<Table, FaultKind> {
        debug_assert!(record.len() >= RECORD_BYTES);
        let half = |i: usize| u16::from_le_bytes([record[2 * i], record[2 * i + 1]]);
        let value = |i: usize| f16::from_bits(half(i)).to_f64();
        let bad = |halfword, reason| FaultKind::Table { halfword, value: half(halfword), reason };
        let mode = half(place::MODE);
        if mode >> 8 != 0 {
            return Err(bad(place::MODE, "has bits above the symmetry"));
        }
        Ok(Table {
            x_low: value(place::X_LOW),
            x_high: value(place::X_HIGH),
            y_low: value(place::Y_LOW),
            y_high: value(place::Y_HIGH),
            knots: array_of(|i| value(place::KNOT + i)),
            left: (value(place::LEFT), value(place::LEFT + 1)),
            right: (value(place::RIGHT), value(place::RIGHT + 1)),
            shift: half(place::SHIFT) as i16 as i32,
            mode: Mode::from_code(mode & 31).ok_or_else(|| bad(place::MODE, "names no mode"))?,
            symmetry: Symmetry::from_code(mode >> 5).ok_or_else(|| bad(place::MODE, "names no symmetry"))?,
        })
    }

    /// The table's value in fp32, not yet rounded to fp16; the argument is an fp16 number.
    pub fn eval(&self, x: f32) -> f32 {
        self.value(through_f16(x)) as f32
    }

    /// The table's value at an fp16 number.
    pub fn value(&self, x: f32) -> f64 {
        let x = f64::from(x);
        match self.symmetry {
            Symmetry::None => self.positive(x),
            Symmetry::Odd if x.is_sign_negative() => -self.positive(-x),
            Symmetry::Odd => self.positive(x),
            Symmetry::NonNegative if x < 0.0 => 0.0,
            Symmetry::NonNegative => self.positive(x),
        }
    }

    /// Returns true if the function of the table's mode is defined at `x`; roots and logarithms are not for negative numbers.
    pub fn is_defined(&self, x: f32) -> bool {
        x >= 0.0 || !matches!(self.mode, Mode::Sqrt | Mode::Rsqrt | Mode::Log2)
    }

    /// Returns true if infinities are intended results of the table: infinite tails or knots, or adjacent limits, which select one of two
    /// results. They do not count as overflow.
    pub(crate) fn states_infinity(&self) -> bool {
        let ends = [self.y_low, self.y_high, self.left.1, self.right.1];
        let chooses = self.x_high - self.x_low <= LEAST;
        chooses && ends.into_iter().any(f64::is_infinite)
            || ends[2..].iter().chain(&self.knots).any(|y| y.is_infinite())
    }

    fn positive(&self, x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        if x <= self.x_low {
            return self.y_low;
        }
        if x >= self.x_high {
            return self.y_high;
        }
        let scale = exp2i(self.shift);
        match self.mode {
            Mode::FromZero => self.linear(x, x * scale),
            Mode::Centred => self.linear(x, x * scale + 16.0),
            Mode::ToZero => self.linear(x, x * scale + 32.0),
            Mode::Fraction => x.fract(),
            Mode::Integer => x.trunc(),
            Mode::Square => x * x,
            Mode::Sqrt | Mode::Rsqrt => {
                // Mantissa in [1/2, 2), even exponent.
                let (m, e) = mantissa(x);
                let (m, e) = if e % 2 == 0 { (m, e) } else { (m * 2.0, e - 1) };
                let half_e = if self.mode == Mode::Sqrt { e / 2 } else { -e / 2 };
                self.knot(m * scale) * exp2i(half_e)
            }
            Mode::Reciprocal => {
                let (m, e) = mantissa(x);
                self.knot((m - 0.5) * scale) * exp2i(-e)
            }
            Mode::Log2 => {
                let (m, e) = mantissa(x);
                self.knot((m - 0.5) * scale) + e as f64
            }
            Mode::Exp2 => {
                let whole = x.floor();
                self.knot((x - whole) * scale) * exp2i(whole as i32)
            }
        }
    }

    /// Linear interpolation at a knot coordinate; tails beyond the knots.
    fn linear(&self, x: f64, t: f64) -> f64 {
        let tail = |(slope, intercept): (f64, f64)| slope * x + intercept;
        if t < 0.0 {
            tail(self.left)
        } else if t > (KNOTS - 1) as f64 {
            tail(self.right)
        } else {
            self.knot(t)
        }
    }

    fn knot(&self, t: f64) -> f64 {
        let t = t.clamp(0.0, (KNOTS - 1) as f64);
        let i = (t as usize).min(KNOTS - 2);
        let (a, b) = (self.knots[i], self.knots[i + 1]);
        a + (b - a) * (t - i as f64)
    }

    /// The table as an activation of the fp32 model.
    pub(crate) fn activation(&self) -> Activation {
        Activation::of(self.expand(), self.curve().as_ref())
    }

    /// The table as a piecewise linear function; `None` for modes whose knots are not equidistant in the argument or its fractional part.
    pub(crate) fn curve(&self) -> Option<Curve> {
        let (origin, is_exponential) = match self.mode {
            Mode::FromZero => (0.0, false),
            Mode::Centred => (16.0, false),
            Mode::ToZero => (32.0, false),
            Mode::Exp2 => (0.0, true),
            _ => return None,
        };
        let tail = |(slope, intercept): (f64, f64)| [slope as f32, intercept as f32];
        Some(Curve {
            knots: array_of(|i| self.knots[i] as f32),
            knots_per_unit: exp2i(self.shift) as f32,
            origin,
            is_exponential,
            tails: [self.left, self.right].map_each(tail),
            limits: [self.x_low, self.x_high].map_each(|x| x as f32),
            constants: [self.y_low, self.y_high].map_each(|y| y as f32),
            is_odd: self.symmetry == Symmetry::Odd,
            is_zero_below_zero: self.symmetry == Symmetry::NonNegative,
        })
    }

    /// The rounded value of every fp16 argument, by bit pattern, which is cheaper than `eval` for large tensors. For the fp32 model: NaN
    /// where the function is not defined.
    fn expand(&self) -> Vec<f16> {
        let value = |x: f32| if self.is_defined(x) { round(self.eval(x)) } else { f16::NAN };
        (0..=u16::MAX).map(|bits| value(f16::from_bits(bits).to_f32())).collect()
    }
}

/// `x = m * 2^e` with `m` in [1/2, 1); 0 for 0.
fn mantissa(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    // fp16 arguments are normal fp64 numbers, so that the exponent field is exact.
    let e = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    (x * exp2i(-e), e)
}

fn exp2i(e: i32) -> f64 {
    f64::from(e).exp2()
}
