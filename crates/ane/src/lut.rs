//! Comparison of activation tables and piecewise linear functions with the functions that they approximate.

pub mod plot;

use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_compile::functions::{FUNCTIONS, Function, OTHERS, ReluSum, Scalar};
use anemone_engine::Table;
use anemone_facts::lut::{CUSTOM, KNOTS, Mode, RECORD_BYTES, Symmetry, place};
use half::f16;
use serde_json::{Value, json};

/// An approximated value at an fp16 argument, and the function's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Argument.
    pub x: f64,
    /// Approximation, rounded to fp16.
    pub given: f64,
    /// Value of the function.
    pub exact: f64,
}

impl Point {
    /// Absolute difference.
    pub fn error(&self) -> f64 {
        (self.given - self.exact).abs()
    }

    /// Difference in units of fp16 near the function's value.
    pub fn steps(&self) -> f64 {
        let bits = f16::from_f64(self.exact.abs()).to_bits();
        let step = f16::from_bits(bits + 1).to_f64() - f16::from_bits(bits).to_f64();
        if step.is_finite() && step > 0.0 { self.error() / step } else { f64::INFINITY }
    }
}

/// A function and its approximation at every fp16 argument between two bounds, ascending.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Name of the function.
    pub name: String,
    /// Every point.
    pub points: Vec<Point>,
}

/// Every fp16 number from `low` to `high`, ascending.
pub fn arguments([low, high]: [f64; 2]) -> impl Iterator<Item = f16> {
    let below = (0x8001..=0xfbff).rev();
    let all = below.chain(0..=0x7bff).map(f16::from_bits);
    all.filter(move |x| (low..=high).contains(&x.to_f64()))
}

impl Curve {
    /// Compares at every fp16 argument of the domain.
    pub fn new(name: &str, domain: [f64; 2], given: impl Fn(f16) -> f64, exact: impl Fn(f64) -> f64) -> Curve {
        let point = |x: f16| Point { x: x.to_f64(), given: given(x), exact: exact(x.to_f64()) };
        Curve { name: name.into(), points: arguments(domain).map(point).collect() }
    }

    /// Compares a table with its function.
    pub fn of_table(function: &Function) -> Result<Curve> {
        let table = table(function)?;
        let given = |x: f16| f16::from_f32(table.eval(x.to_f32())).to_f64();
        Ok(Curve::new(function.name, function.domain, given, function.exact))
    }

    /// The point with the largest absolute error.
    pub fn worst(&self) -> Option<&Point> {
        self.points.iter().max_by(|a, b| a.error().total_cmp(&b.error()))
    }

    /// The point with the largest error in units of fp16, at normal numbers.
    pub fn worst_steps(&self) -> Option<&Point> {
        let normal = f16::MIN_POSITIVE.to_f64();
        let counted = self.points.iter().filter(|p| p.exact.abs() >= normal);
        counted.max_by(|a, b| a.steps().total_cmp(&b.steps()))
    }
}

/// The table of a function, as read by the engine.
pub fn table(function: &Function) -> Result<Table> {
    let stream = (function.table)().stream();
    Table::read(&stream).map_err(|fault| Diagnostic::new(Code::Defect, format!("table {}: {fault}", function.name)))
}

/// A table record of 43 halfwords, with names.
#[derive(Clone, Debug)]
pub struct Record {
    halfwords: Vec<u16>,
}

impl Record {
    /// The record of a function.
    pub fn of(function: &Function) -> Record {
        let stream = (function.table)().stream();
        let words = stream[..RECORD_BYTES].chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        Record { halfwords: words.collect() }
    }

    fn number(&self, at: usize) -> f64 {
        f16::from_bits(self.halfwords[at]).to_f64()
    }

    /// Signed power of two that scales the argument.
    pub fn shift(&self) -> i16 {
        self.halfwords[place::SHIFT] as i16
    }

    /// Mode and symmetry.
    pub fn mode(&self) -> (Option<Mode>, Option<Symmetry>) {
        let word = self.halfwords[place::MODE];
        (Mode::from_code(word & 31), Symmetry::from_code(word >> 5))
    }

    /// Position and value of each knot; positions are arguments, or mantissas and fractions in the modes that look those up. Empty
    /// if no argument reaches a knot.
    pub fn knots(&self) -> Vec<(f64, f64)> {
        let Some(mode) = self.mode().0 else { return Vec::new() };
        let from = match mode {
            Mode::FromZero | Mode::Exp2 | Mode::Sqrt | Mode::Rsqrt => 0.0,
            Mode::Centred => -16.0,
            Mode::ToZero => -32.0,
            Mode::Reciprocal | Mode::Log2 => (f64::from(self.shift()) - 1.0).exp2(),
            Mode::Fraction | Mode::Integer | Mode::Square => return Vec::new(),
        };
        if self.shift() >= 64 {
            return Vec::new();
        }
        let step = (-f64::from(self.shift())).exp2();
        (0..KNOTS).map(|i| ((from + i as f64) * step, self.number(place::KNOT + i))).collect()
    }

    /// Argument that indexes the table after range reduction, in words.
    pub fn looks_up(&self) -> &'static str {
        match self.mode().0 {
            Some(Mode::Sqrt | Mode::Rsqrt) => "mantissa in [1/2, 2), exponent even",
            Some(Mode::Reciprocal | Mode::Log2) => "mantissa in [1/2, 1)",
            Some(Mode::Exp2) => "fractional part",
            _ => "argument",
        }
    }

    /// As text: limits, tails, knots.
    pub fn text(&self) -> String {
        let n = |at| self.number(at);
        let (mode, symmetry) = self.mode();
        let word = |value: Option<String>| value.unwrap_or_else(|| "unknown".into());
        let mut text = format!(
            "mode      {}, symmetry {}\nshift     {} (the {} times 2^{0} is the coordinate)\n",
            word(mode.map(|m| format!("{m:?}"))),
            word(symmetry.map(|s| format!("{s:?}"))),
            self.shift(),
            self.looks_up(),
        );
        text += &format!("limits    {} at and below {}, {} at and above {}\n", n(2), n(0), n(3), n(1));
        text += &format!("left      {} * x + {}\n", n(place::LEFT), n(place::LEFT + 1));
        text += &format!("right     {} * x + {}\n", n(place::RIGHT), n(place::RIGHT + 1));
        let knots = self.knots();
        if knots.is_empty() {
            return text + "knots     none is reached: only limits, tails or the mode apply\n";
        }
        text += "knots     place, value, halfword\n";
        for (i, (x, y)) in knots.iter().enumerate() {
            text += &format!("  {i:2}  {x:10}  {y:14.8}  {:#06x}\n", self.halfwords[place::KNOT + i]);
        }
        text
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let (mode, symmetry) = self.mode();
        let number = |at: usize| finite(self.number(at));
        json!({
            "mode": mode.map(|m| format!("{m:?}")),
            "symmetry": symmetry.map(|s| format!("{s:?}")),
            "shift": self.shift(),
            "looks_up": self.looks_up(),
            "x_low": number(place::X_LOW), "x_high": number(place::X_HIGH),
            "y_low": number(place::Y_LOW), "y_high": number(place::Y_HIGH),
            "left": [number(place::LEFT), number(place::LEFT + 1)],
            "right": [number(place::RIGHT), number(place::RIGHT + 1)],
            "knots": self.knots().iter().map(|&(x, y)| json!([finite(x), finite(y)])).collect::<Vec<_>>(),
            "halfwords": self.halfwords,
        })
    }
}

/// A number in JSON; infinities are strings.
pub fn finite(x: f64) -> Value {
    if x.is_finite() { json!(x) } else { json!(x.to_string()) }
}

/// A function with a table, by name.
pub fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|f| f.name == name)
}

/// Any known function by name, with its domain.
pub fn known(name: &str) -> Option<(Scalar, [f64; 2])> {
    let tabled = function(name).map(|f| (f.exact, f.domain));
    tabled.or_else(|| OTHERS.iter().find(|(n, ..)| *n == name).map(|&(_, f, domain)| (f, domain)))
}

/// Piecewise linear interpolation of knots; constant beyond them.
pub fn line(knots: &[(f64, f64)], x: f64) -> f64 {
    let after = knots.partition_point(|k| k.0 <= x);
    match (after.checked_sub(1).map(|at| knots[at]), knots.get(after)) {
        (Some((x0, y0)), Some(&(x1, y1))) => y0 + (y1 - y0) * (x - x0) / (x1 - x0),
        (Some((_, y)), None) | (None, Some(&(_, y))) => y,
        (None, None) => f64::NAN,
    }
}

/// Number of knots whose value the chain reproduces exactly in fp16.
pub fn exact_knots(chain: &ReluSum, knots: &[(f64, f64)]) -> usize {
    knots.iter().filter(|&&(x, y)| chain.value(f16::from_f64(x)) == f16::from_f64(y)).count()
}

/// Refusal to write a user-defined table into a program.
pub fn refused(what: &str) -> Diagnostic {
    Diagnostic::new(Code::UnsupportedOp, format!("{what}: {} ({}, {})", CUSTOM.reason, CUSTOM.opcode, CUSTOM.source))
        .help("--compose composes the function from layers: linear, relu, linear")
}
