//! Composition of tables with a factor and an addend, or a ReLU, before or after them.

use super::{Form, INF, TAILS_ONLY, Table};
use anemone_facts::lut::{KNOTS, Mode, Symmetry, place};
use half::f16;

impl Table {
    pub(super) fn half(&self, at: usize) -> f64 {
        f16::from_bits(self.halfwords[at]).to_f64()
    }

    pub(super) fn symmetry(&self) -> Option<Symmetry> {
        Symmetry::from_code(self.halfwords[place::MODE] >> 5)
    }

    /// Returns true for a table that classifies its argument: constant tails alone (signs, selections), the
    /// fraction or integer mode, or one that rounds.
    pub fn chooses(&self) -> bool {
        matches!(self.mode, Mode::Fraction | Mode::Integer)
            || self.addend() != 0.0
            || self.halfwords[place::SHIFT] == TAILS_ONLY as u16
                && self.half(place::LEFT) == 0.0
                && self.half(place::RIGHT) == 0.0
    }

    /// Returns true for a table of [`Table::clip`].
    pub fn is_clip(&self) -> bool {
        let [low, high] = [place::Y_LOW, place::Y_HIGH].map(|at| self.half(at) as f32);
        *self == Table::clip(low, high)
    }

    /// Table of ReLU6.
    pub fn relu6() -> Table {
        Table::clamp("relu6", [0.0, 6.0, 0.0, 6.0], 1.0)
    }

    /// Returns true for a table that only limits its argument.
    pub fn limits(&self) -> bool {
        self.is_clip() || *self == Table::relu6()
    }

    /// Returns true for modes indexed by the argument itself, whose knots are values of the function.
    fn is_direct(&self) -> bool {
        matches!(self.mode, Mode::FromZero | Mode::Centred | Mode::ToZero)
    }

    /// `gain * f(x) + offset` for this table's `f`. `None` if its form or fp16 cannot express it: modes that split
    /// the exponent off support no offset, nor does an odd function, and a table of subnormal values alone loses digits.
    pub fn scaled(&self, gain: f32, offset: f32) -> Option<Table> {
        let symmetry = self.symmetry()?;
        let form = match self.mode {
            Mode::FromZero | Mode::Centred | Mode::ToZero => offset == 0.0 || symmetry == Symmetry::None,
            Mode::Exp2 | Mode::Sqrt | Mode::Rsqrt | Mode::Reciprocal => offset == 0.0,
            Mode::Fraction | Mode::Integer | Mode::Square | Mode::Log2 => false,
        };
        if !form || gain == 0.0 || !gain.is_finite() || !offset.is_finite() {
            return None;
        }
        let mut table = self.clone();
        let mut put = |at: usize, value: f64| {
            table.halfwords[at] = f16::from_f64(value).to_bits();
            f16::from_f64(value).is_finite() || !self.half(at).is_finite()
        };
        let (gain, offset) = (f64::from(gain), f64::from(offset));
        let ends = [place::Y_LOW, place::Y_HIGH, place::LEFT + 1, place::RIGHT + 1];
        let values = ends.into_iter().chain(place::KNOT..place::KNOT + KNOTS);
        // All values are stored, also after one that does not fit.
        let (mut held, mut largest) = (true, 0f64);
        for at in values {
            let value = self.half(at) * gain + offset;
            held &= put(at, value);
            largest = if value.is_finite() { largest.max(value.abs()) } else { largest };
        }
        held &= largest >= f64::from(f16::MIN_POSITIVE);
        let held = [place::LEFT, place::RIGHT].into_iter().fold(held, |held, at| put(at, self.half(at) * gain) && held);
        table.name = format!("{}*{gain}{offset:+}", self.name);
        held.then_some(table)
    }

    /// `f(max(x, 0))` for this table's `f`. `None` for roots and logarithms, which are undefined below zero in `fast`.
    pub fn after_relu(&self) -> Option<Table> {
        if matches!(self.mode, Mode::Sqrt | Mode::Rsqrt | Mode::Log2) {
            return None;
        }
        let symmetry = self.symmetry().filter(|_| self.addend() == 0.0)?;
        let low = self.half(place::X_LOW);
        // The first limit, at zero, gives negative arguments the value at zero already.
        if symmetry == Symmetry::None && low >= 0.0 {
            return Some(self.clone());
        }
        let at_zero = match (self.mode, symmetry) {
            (Mode::Centred, Symmetry::None) => place::KNOT + KNOTS / 2,
            (Mode::FromZero, Symmetry::Odd | Symmetry::None) => place::KNOT,
            _ => return None,
        };
        if low >= 0.0 {
            return None;
        }
        let mut table = self.clone();
        table.halfwords[place::X_LOW] = 0;
        table.halfwords[place::Y_LOW] = self.halfwords[at_zero];
        table.halfwords[place::MODE] = self.mode as u16;
        table.name = format!("relu>{}", self.name);
        Some(table)
    }

    /// `max(f(x), 0)` for this table's `f`, in simple cases: values that are never negative, or those of an increasing odd
    /// function.
    pub fn before_relu(&self) -> Option<Table> {
        let positive = |at: usize| self.half(at) >= 0.0;
        let mut knots = place::KNOT..place::KNOT + KNOTS;
        match self.symmetry()? {
            Symmetry::None if self.is_direct() => {
                let tails = [place::LEFT, place::LEFT + 1, place::RIGHT, place::RIGHT + 1];
                let level = tails.iter().all(|&at| self.half(at) == 0.0);
                let ends = positive(place::Y_LOW) && positive(place::Y_HIGH) && knots.all(positive);
                (ends && level).then(|| self.clone())
            }
            Symmetry::Odd if self.mode == Mode::FromZero => knots.all(positive).then(|| self.after_relu())?,
            _ => None,
        }
    }

    /// `ln(1 + x)` of arguments from 0 to 1, such as powers of numbers below zero.
    pub fn log_of_one_and() -> Table {
        let last = std::f32::consts::LN_2;
        let form = Form {
            mode: Mode::FromZero,
            symmetry: Symmetry::None,
            shift: 5,
            limits: [0.0, 1.0, 0.0, last],
            tails: [0.0, 0.0, 0.0, last],
        };
        Table::build("log(1+x)", form, |i| (i as f64 / 32.0).ln_1p())
    }

    /// `offset` up to zero, then `gain * x + offset`: a ReLU followed by scale and shift.
    pub fn ramp_from(gain: f32, offset: f32) -> Option<Table> {
        let exact = |x: f32| f16::from_f32(x).to_f32() == x && x.is_finite();
        if !exact(gain) || !exact(offset) || gain == 0.0 {
            return None;
        }
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-INF, INF, offset, INF.copysign(gain)],
            tails: [0.0, offset, gain, offset],
        };
        Some(Table::build("ramp", form, |_| f64::from(offset)))
    }
}
