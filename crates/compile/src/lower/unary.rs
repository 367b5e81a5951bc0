//! Lowering of unary functions: each is a table, a planar task, or a few of both.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::{Knots, Table};
use anemone_net::{GELU_SLOPE, GeluMode, Unary, ValueId};
use half::f16;
use std::f32::consts::{FRAC_1_PI, LN_2, LOG2_E, TAU};

/// Distance of the fp16 numbers from 1 to 2, 2^-10.
const LAST_PLACE_OF_ONE: f32 = 1.0 / 1024.0;

/// Usual argument up to which a knot on the tangent at zero is more precise for the hyperbolic tangent, whose knots are `h = 1/8` apart:
/// of a normal distribution of deviation `u` it is where `15 u^6`, the mean square error beside the tangent, is below that of the chord,
/// `h^4 u^2 - 6 h^2 u^4 + 15 u^6`.
const SMALL_ANGLE: f32 = 0.05;

/// Angle of 32 turns, up to which the rest is less than 1/16 beyond a half turn, where the table of sines ends: turns are rounded to 1/128,
/// and their factor to fp16.
const EXACT_TURNS: f32 = 201.0;

fn scaled(scale: f32) -> Affine {
    Affine { scale, ..Affine::UNIT }
}

fn biased(bias: f32) -> Affine {
    Affine { bias, ..Affine::UNIT }
}

impl Lowerer<'_> {
    pub(super) fn unary(&mut self, f: Unary, x: ValueId, out: ValueId) -> Result<()> {
        let f = if self.net.value(out).ty.dtype.is_integer() { of_integers(f) } else { f };
        let table = self.one_table(f);
        self.most = self.magnitudes.get(x.0 as usize).map_or(f32::INFINITY, |m| m.most);
        let steps = self.options.conventions().tables_of_two_steps;
        let small = f == Unary::Tanh && self.magnitudes.get(x.0 as usize).is_some_and(|m| m.usual <= SMALL_ANGLE);
        self.knots = match steps && !self.net.inputs.contains(&x) {
            _ if small => Knots::Tangent,
            true => Knots::Between,
            false => Knots::On,
        };
        // A program's own input uses Apple's words, whose table has zero for the logarithm of infinity.
        let input = self.net.inputs.contains(&x) && !self.options.conventions().functions_fitted;
        let own = |lowerer: &mut Self, from: &View, to: &View| match table {
            Some(table) => lowerer.table(table(), 0.0, 1.0, from, to),
            None if input && matches!(f, Unary::Log { .. }) => {
                let Unary::Log { epsilon } = f else { return Ok(()) };
                lowerer.natural_logarithm(Table::log2(), epsilon, from, to)
            }
            None => lowerer.unary_into(f, from, to),
        };
        if let Some((from, to)) = self.turned_pair(x, out) {
            return own(self, &from, &to);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        own(self, &from, &to)
    }

    /// The single table that Apple's compilers have for a function. Our own conventions lower to steps, to which tables are fitted
    /// afterwards (`fuse/functions.rs`).
    fn one_table(&self, f: Unary) -> Option<fn() -> Table> {
        let conventions = self.options.conventions();
        match f {
            _ if conventions.functions_fitted => None,
            Unary::Sigmoid => Some(Table::sigmoid_plain),
            Unary::Tanh if conventions.tables_of_two_steps => Some(Table::tanh_to_four),
            Unary::Silu if conventions.tables_of_two_steps => Some(Table::silu),
            Unary::Gelu(GeluMode::Exact | GeluMode::Tanh) if conventions.tables_of_two_steps => Some(Table::gelu),
            Unary::Gelu(GeluMode::Sigmoid) if conventions.tables_of_two_steps => Some(Table::gelu_by_sigmoid),
            _ => None,
        }
    }

    /// Applies a function to a view, into a view of the same extents.
    pub(super) fn unary_into(&mut self, f: Unary, from: &View, to: &View) -> Result<()> {
        match f {
            Unary::Identity => self.copy(from, to),
            Unary::Relu => {
                let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::Relu };
                self.elementwise(kind, from, to)
            }
            Unary::Relu6 => self.table(Table::relu6(), 0.0, 1.0, from, to),
            Unary::Clip { min, max } if min == 0.0 && max == f32::INFINITY => self.unary_into(Unary::Relu, from, to),
            // The upper bound wins over a lower bound above it.
            Unary::Clip { min, max } => self.table(Table::clip(min.min(max), max), 0.0, 1.0, from, to),
            Unary::RoundClip { min, max } => self.table(Table::rounded(min, max), 0.0, 1.0, from, to),
            Unary::Threshold { alpha } => self.table(Table::clip(alpha, f32::INFINITY), 0.0, 1.0, from, to),
            Unary::LeakyRelu { alpha } => self.table(Table::leaky_relu(alpha), 0.0, 1.0, from, to),
            Unary::Sign => self.table(Table::sign(), 0.0, 1.0, from, to),
            Unary::Tanh => self.table(Table::tanh(self.knots), 0.0, 1.0, from, to),
            Unary::Erf => self.table(Table::erf(self.knots), 0.0, 1.0, from, to),
            Unary::Exp2 => self.table(Table::exp2(), 0.0, 1.0, from, to),
            Unary::Exp => self.table(Table::exp2(), 0.0, LOG2_E, from, to),
            Unary::Log2 => self.table(self.logarithm(), 0.0, 1.0, from, to),
            Unary::Sqrt => self.table(Table::sqrt(), 0.0, 1.0, from, to),
            Unary::Rsqrt { epsilon } => self.table(Table::rsqrt(), epsilon, 1.0, from, to),
            Unary::Inverse { epsilon } => self.table(Table::reciprocal(), epsilon, 1.0, from, to),
            Unary::Abs => self.planar_one(from, to, Affine::UNIT, true),
            Unary::Neg => self.planar_one(from, to, Affine { pre_scale: -1.0, ..Affine::UNIT }, false),
            Unary::Square => self.planar_two(PlanarOp::Mul, Affine::UNIT, from, from, to),
            Unary::Sigmoid => {
                let half = self.tabled("half", Table::sigmoid_half(self.knots), 0.0, 1.0, from)?;
                self.planar_one(&half, to, biased(0.5), false)
            }
            Unary::SigmoidHard { alpha, beta } => {
                let line = self.affined("line", Affine { scale: alpha, bias: beta, ..Affine::UNIT }, false, from)?;
                self.table(Table::clip(0.0, 1.0), 0.0, 1.0, &line, to)
            }
            Unary::ScaledTanh { alpha, beta } => {
                let tanh = self.tabled("tanh", Table::tanh(self.knots), 0.0, beta, from)?;
                self.planar_one(&tanh, to, scaled(alpha), false)
            }
            Unary::Silu => self.gated(Table::sigmoid_half(self.knots), 1.0, from, to),
            Unary::Gelu(GeluMode::Sigmoid) => self.gated(Table::sigmoid_half(self.knots), GELU_SLOPE as f32, from, to),
            // The tanh form differs from the exact one by less than the table does.
            Unary::Gelu(GeluMode::Exact | GeluMode::Tanh) => self.gated(Table::gauss_half(self.knots), 1.0, from, to),
            Unary::Log { epsilon } => self.natural_logarithm(self.logarithm(), epsilon, from, to),
            Unary::Elu { alpha } => self.elu(alpha, from, to),
            Unary::Softplus => self.softplus(from, to),
            Unary::Softsign => {
                let denominator = self.affined("denominator", biased(1.0), true, from)?;
                let inverse = self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, &denominator)?;
                self.planar_two(PlanarOp::Mul, Affine::UNIT, from, &inverse, to)
            }
            Unary::Atan => self.arc_tangent(from, to),
            Unary::Ceil => self.whole(PlanarOp::Add, Table::positive(), from, to),
            Unary::Floor => self.whole(PlanarOp::Sub, Table::negative(), from, to),
            Unary::Round => self.round(from, to),
            Unary::Sin => self.sine(from, to),
            Unary::Cos => self.cosine(from, to),
            Unary::Tan | Unary::Asin | Unary::Acos | Unary::Sinh | Unary::Cosh | Unary::Atanh => {
                Err(self.unsupported(format!("{} has no table", f.name()), "compute it on the host"))
            }
        }
    }

    fn elu(&mut self, alpha: f32, from: &View, to: &View) -> Result<()> {
        if self.options.conventions().functions_fitted && f16::from_f32(alpha).to_f32() == alpha {
            // `alpha e^min(x, 0) + max(x, 0) - alpha`: a factor of the first operand, a ReLU of the second, an addend.
            let exp = self.tabled("exp", Table::exp2_to_one(), 0.0, LOG2_E, from)?;
            let right = self.scratch("right", &from.shape());
            self.unary_into(Unary::Relu, from, &right)?;
            let line = Affine { pre_scale: alpha, bias: -alpha, ..Affine::UNIT };
            return self.planar_two(PlanarOp::Add, line, &exp, &right, to);
        }
        let line = Affine { scale: alpha, bias: -alpha, ..Affine::UNIT };
        let low = self.tabled("low", Table::clip(f32::NEG_INFINITY, 0.0), 0.0, 1.0, from)?;
        let exp = self.tabled("exp", Table::exp2(), 0.0, LOG2_E, &low)?;
        let left = self.affined("left", line, false, &exp)?;
        let right = self.scratch("right", &from.shape());
        self.unary_into(Unary::Relu, from, &right)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, &left, &right, to)
    }

    /// `relu(x) + ln(1 + e^-|x|)`: no overflow.
    fn softplus(&mut self, from: &View, to: &View) -> Result<()> {
        let negative = self.affined("negative", Affine { scale: -1.0, ..Affine::UNIT }, true, from)?;
        let exp = self.tabled("exp", Table::exp2(), 0.0, LOG2_E, &negative)?;
        let log = if self.options.conventions().functions_fitted {
            self.tabled("log", Table::log_of_one_and(), 0.0, 1.0, &exp)?
        } else {
            let log2 = self.tabled("log2", self.logarithm(), 1.0, 1.0, &exp)?;
            self.affined("log", scaled(LN_2), false, &log2)?
        };
        let right = self.scratch("right", &from.shape());
        self.unary_into(Unary::Relu, from, &right)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, &log, &right, to)
    }

    /// Sum of tables, each for one interval of the argument.
    fn arc_tangent(&mut self, from: &View, to: &View) -> Result<()> {
        if !self.options.conventions().tables_of_two_steps {
            let low = self.tabled("low", Table::atan(0), 0.0, 1.0, from)?;
            let high = self.tabled("high", Table::atan(1), 0.0, 1.0, from)?;
            return self.planar_two(PlanarOp::Add, Affine::UNIT, &low, &high, to);
        }
        let mut sum = self.tabled("part", Table::atan_part(0), 0.0, 1.0, from)?;
        for part in 1..Table::ATAN_PARTS {
            let next = self.tabled("part", Table::atan_part(part), 0.0, 1.0, from)?;
            let last = part + 1 == Table::ATAN_PARTS;
            let target = if last { to.clone() } else { self.scratch("sum", &from.shape()) };
            self.planar_two(PlanarOp::Add, Affine::UNIT, &sum, &next, &target)?;
            sum = target;
        }
        Ok(())
    }

    /// Rounds to nearest even, independent of the planar engine's own rounding: above one half rounds up, and one half rounds up if the integer
    /// part is odd, for which a unit in the last place is added to the fraction.
    fn round(&mut self, from: &View, to: &View) -> Result<()> {
        let size = self.affined("size", Affine::UNIT, true, from)?;
        let whole = self.tabled("whole", Table::truncate(), 0.0, 1.0, &size)?;
        let half = self.affined("half", scaled(0.5), false, &whole)?;
        let even = self.tabled("even", Table::truncate(), 0.0, 1.0, &half)?;
        let [fraction, odd, raised, sum] =
            ["fraction", "odd", "raised", "sum"].map(|name| self.scratch(name, &from.shape()));
        self.planar_two(PlanarOp::Sub, Affine::UNIT, &size, &whole, &fraction)?;
        self.planar_two(PlanarOp::Sub, Affine::UNIT, &half, &even, &odd)?;
        let last_place = Affine { pre_scale: LAST_PLACE_OF_ONE, ..Affine::UNIT };
        // Infinities have no fraction: the ReLU makes zero of NaN.
        self.rectified(PlanarOp::Add, last_place, &odd, &fraction, &raised)?;
        let up = self.tabled("up", Table::positive(), -0.5, 1.0, &raised)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, &whole, &up, &sum)?;
        let sign = self.tabled("sign", Table::sign(), 0.0, 1.0, from)?;
        self.planar_two(PlanarOp::Mul, Affine::UNIT, &sum, &sign, to)
    }

    /// Argument in half turns without its whole turns. A turn is the sum of two fp16 numbers, of which the first times a small number of
    /// turns is exact.
    fn half_turns(&mut self, from: &View) -> Result<View> {
        const TURN: f32 = 6.281_25;
        if let Some((_, rest)) = self.half_turns.iter().find(|(of, _)| of == from) {
            return Ok(rest.clone());
        }
        let parts = self.affined("parts", scaled(FRAC_1_PI / 2.0), false, from)?;
        let [least, greatest] = Table::ROUNDED_RANGE;
        let turns = self.tabled("turns", Table::rounded(least, greatest), 0.0, 1.0, &parts)?;
        let [near, rest] = ["near", "rest"].map(|name| self.scratch(name, &from.shape()));
        self.planar_two(PlanarOp::Add, Affine { pre_scale: -TURN, ..Affine::UNIT }, &turns, from, &near)?;
        let last = Affine { pre_scale: TURN - TAU, final_scale: FRAC_1_PI, ..Affine::UNIT };
        self.planar_two(PlanarOp::Add, last, &turns, &near, &rest)?;
        self.half_turns.push((from.clone(), rest.clone()));
        Ok(rest)
    }

    fn sine(&mut self, from: &View, to: &View) -> Result<()> {
        let rest = self.half_turns(from)?;
        if self.most <= EXACT_TURNS {
            return self.table(Table::sine_of_half_turns(), 0.0, 1.0, &rest, to);
        }
        // Hundreds of turns are counted to a half: the rest can exceed a half turn.
        let beyond = self.tabled("beyond", Table::truncate(), 0.0, 1.0, &rest)?;
        let within = self.scratch("within", &from.shape());
        self.planar_two(PlanarOp::Add, Affine { pre_scale: -2.0, ..Affine::UNIT }, &beyond, &rest, &within)?;
        self.table(Table::sine_of_half_turns(), 0.0, 1.0, &within, to)
    }

    /// The sine of a quarter turn less the size of the argument, which is within half a turn.
    fn cosine(&mut self, from: &View, to: &View) -> Result<()> {
        let rest = self.half_turns(from)?;
        let quarter = self.affined("quarter", Affine { scale: -1.0, bias: 0.5, ..Affine::UNIT }, true, &rest)?;
        self.table(Table::sine_of_half_turns(), 0.0, 1.0, &quarter, to)
    }

    /// Table of the base-2 logarithm: that of Apple's 4.2.1, or one with a value at infinity.
    fn logarithm(&self) -> Table {
        if self.options.conventions().tables_of_two_steps { Table::log2_of_all() } else { Table::log2() }
    }

    fn natural_logarithm(&mut self, log2: Table, epsilon: f32, from: &View, to: &View) -> Result<()> {
        let log2 = self.tabled("log2", log2, epsilon, 1.0, from)?;
        self.planar_one(&log2, to, Affine { scale: LN_2, ..Affine::UNIT }, false)
    }

    /// `x * (table(x * post_scale) + 1/2)`.
    fn gated(&mut self, table: Table, post_scale: f32, from: &View, to: &View) -> Result<()> {
        let half = self.tabled("half", table, 0.0, post_scale, from)?;
        let gate = self.affined("gate", Affine { bias: 0.5, ..Affine::UNIT }, false, &half)?;
        self.planar_two(PlanarOp::Mul, Affine::UNIT, from, &gate, to)
    }

    /// Ceiling: truncation plus one if there is a positive fraction. Floor: truncation less one if there is a negative fraction.
    fn whole(&mut self, op: PlanarOp, step: Table, from: &View, to: &View) -> Result<()> {
        let fraction = self.tabled("fraction", Table::fraction(), 0.0, 1.0, from)?;
        let beyond = self.tabled("beyond", step, 0.0, 1.0, &fraction)?;
        let whole = self.tabled("whole", Table::truncate(), 0.0, 1.0, from)?;
        self.planar_two(op, Affine::UNIT, &whole, &beyond, to)
    }
}

/// A function with its bounds rounded to integers, for integer operands.
fn of_integers(f: Unary) -> Unary {
    match f {
        Unary::Clip { min, max } => Unary::Clip { min: min.ceil(), max: max.floor() },
        Unary::Threshold { alpha } => Unary::Threshold { alpha: alpha.ceil() },
        _ => f,
    }
}
