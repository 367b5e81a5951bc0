//! Scalar functions: the function that each activation table approximates, and any other function as layers.
//!
//! The engine has no interface for user-defined tables (`docs/evidence.md`, key `h13-lut`). A piecewise linear function through chosen
//! knots is possible as a linear layer, a ReLU and a linear layer; [`chain`] makes it.

use crate::lut::{Knots, Table};
use anemone_net::{DType, Net, Op, OpKind, Tensor, TensorType, Unary, Value, ValueId};
use half::f16;
use std::sync::Arc;

/// A scalar function.
pub type Scalar = fn(f64) -> f64;

/// A function that has an activation table.
pub struct Function {
    /// Name, as listings have it.
    pub name: &'static str,
    /// Meaning, in one phrase.
    pub meaning: &'static str,
    /// Its table.
    pub table: fn() -> Table,
    /// The function itself.
    pub exact: Scalar,
    /// Interval of arguments over which the table is compared with the function.
    pub domain: [f64; 2],
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn sign(x: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x.signum() }
}

const SQRT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;

macro_rules! functions {
    ( $( $name:literal $meaning:literal [ $low:expr, $high:expr ] $table:expr, $exact:expr; )* ) => {
        /// Every function that has a table.
        pub static FUNCTIONS: &[Function] = &[ $( Function {
            name: $name, meaning: $meaning, table: $table, exact: $exact, domain: [$low, $high],
        } ),* ];
    };
}

functions! {
    "sigmoid-1/2" "sigmoid less one half; a second step adds it" [-12.0, 12.0] || Table::sigmoid_half(Knots::On), |x| sigmoid(x) - 0.5;
    "sigmoid" "sigmoid in one table, as compiler 4.2.1 has it" [-12.0, 12.0] Table::sigmoid_plain, sigmoid;
    "tanh" "hyperbolic tangent" [-6.0, 6.0] || Table::tanh(Knots::On), f64::tanh;
    "erf" "error function" [-5.0, 5.0] || Table::erf(Knots::On), libm::erf;
    "gauss-1/2" "Gaussian distribution function less one half" [-6.0, 6.0] || Table::gauss_half(Knots::On),
        |x| libm::erf(x * SQRT_HALF) / 2.0;
    "gelu" "x times the Gaussian distribution function, in one table" [-6.0, 6.0] Table::gelu,
        |x| x * (1.0 + libm::erf(x * SQRT_HALF)) / 2.0;
    "silu" "x times its sigmoid, in one table" [-12.0, 12.0] Table::silu, |x| x * sigmoid(x);
    "exp2" "power of two" [-14.0, 15.0] Table::exp2, f64::exp2;
    "log2" "base-2 logarithm" [6.2e-5, 65504.0] Table::log2, f64::log2;
    "log(1+x)" "natural logarithm of one and the argument" [0.0, 1.0] Table::log_of_one_and, f64::ln_1p;
    "reciprocal" "1 / x" [6.2e-5, 16000.0] Table::reciprocal, f64::recip;
    "sqrt" "square root" [0.0, 65504.0] Table::sqrt, f64::sqrt;
    "rsqrt" "1 / square root" [6.2e-5, 65504.0] Table::rsqrt, |x| x.sqrt().recip();
    "atan.low" "arc tangent of arguments up to 2" [-4.0, 4.0] || Table::atan(0), |x| x.clamp(-2.0, 2.0).atan();
    "atan.high" "what the arc tangent has beyond 2" [-2000.0, 2000.0] || Table::atan(1),
        |x| x.atan() - x.clamp(-2.0, 2.0).atan();
    "sign" "-1, 0 or 1" [-4.0, 4.0] Table::sign, sign;
    "positive" "1 for positive arguments, else 0" [-4.0, 4.0] Table::positive, |x| if x > 0.0 { 1.0 } else { 0.0 };
    "fraction" "fractional part" [-8.0, 8.0] Table::fraction, f64::fract;
    "truncate" "integer part" [-8.0, 8.0] Table::truncate, f64::trunc;
}

/// Functions without a table, to be approximated by layers: name, function, interval of arguments.
pub static OTHERS: &[(&str, Scalar, [f64; 2])] = &[
    ("gaussian", |x| (-x * x / 2.0).exp(), [-4.0, 4.0]),
    ("softplus", |x| x.exp().ln_1p(), [-8.0, 8.0]),
    ("mish", |x| x * x.exp().ln_1p().tanh(), [-8.0, 8.0]),
    ("sin", f64::sin, [-4.0, 4.0]),
    ("cos", f64::cos, [-4.0, 4.0]),
];

/// Argument beyond which activations are straight lines.
const FAR: f64 = 64.0;

/// The slope of a function that becomes a straight line other than a constant on either side; the larger one of both sides.
pub(crate) fn slope(f: &impl Fn(f64) -> f64) -> Option<f64> {
    let on_side = |x: f64| {
        let (near, far) = (f(x) - f(0.0), f(2.0 * x) - f(0.0));
        (near != 0.0 && (far / near - 2.0).abs() < 0.1).then_some((near / x).abs())
    };
    [FAR, -FAR].into_iter().filter_map(on_side).reduce(f64::max)
}

/// Errors of building a piecewise linear function from knots.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChainError {
    /// Too few or too many knots.
    #[error("{found} knots: the limits are {} and {}", ReluSum::LEAST, ReluSum::MOST)]
    Count {
        /// Number of knots.
        found: usize,
    },
    /// A knot that does not ascend, or whose argument is equal in fp16 to the one before it.
    #[error("knot {at} at {x} is not above the knot before it in fp16")]
    Order {
        /// Its position.
        at: usize,
        /// Its argument.
        x: f64,
    },
    /// A value or a slope beyond fp16.
    #[error("knot {at} is {value}, beyond the range of fp16")]
    Range {
        /// Its position.
        at: usize,
        /// Value or slope.
        value: f64,
    },
}

/// A piecewise linear function as a linear layer, ReLU and a linear layer: `start + sum(slope[i] * relu(way[i] * (x - place[i])))`.
/// Units act on either side of the knot nearest to zero, away from it, so that differences of arguments and places are exact in fp16 and
/// only sums are rounded, if the places are multiples of the distance of fp16 numbers at the largest of them; other differences are
/// rounded, and the function leaves the line between its knots. Beyond its knots the function is constant up to that rounding, which grows with the distance: clip the argument.
#[derive(Clone, Debug, PartialEq)]
pub struct ReluSum {
    /// Value at the knot at which no unit is active.
    pub start: f16,
    /// Argument at which each unit becomes active.
    pub places: Vec<f16>,
    /// 1 for a unit that acts above its place, -1 below.
    pub ways: Vec<f32>,
    /// Change of slope of each unit. A change that one fp16 number cannot represent is the sum of several units at the same place.
    pub slopes: Vec<f16>,
}

impl ReluSum {
    /// Least number of knots.
    pub const LEAST: usize = 2;
    /// Greatest number of knots.
    pub const MOST: usize = 1024;

    /// The value as the engine computes it: units rounded to fp16, products summed in fp32, the sum rounded.
    pub fn value(&self, x: f16) -> f16 {
        f16::from_f32(self.sum(x))
    }

    /// The value before rounding.
    fn sum(&self, x: f16) -> f32 {
        let unit = |place: f16, way: f32| f16::from_f32((way * (x.to_f32() - place.to_f32())).max(0.0)).to_f32();
        let units = self.places.iter().zip(&self.ways).zip(&self.slopes);
        units.map(|((&place, &way), slope)| slope.to_f32() * unit(place, way)).sum::<f32>() + self.start.to_f32()
    }

    fn add(&mut self, at: usize, (place, way): (f16, f32), change: f64, parts: usize) -> Result<(), ChainError> {
        let mut left = change;
        for part in 0..parts {
            let slope = finite(at, left)?;
            if slope.to_f64() == 0.0 && part > 0 {
                break;
            }
            self.places.push(place);
            self.ways.push(way);
            self.slopes.push(slope);
            left -= slope.to_f64();
        }
        Ok(())
    }

    /// Removes the units beyond a number.
    fn truncate(&mut self, units: usize) {
        self.places.truncate(units);
        self.ways.truncate(units);
        self.slopes.truncate(units);
    }

    /// Width of the hidden layer.
    pub fn units(&self) -> usize {
        self.places.len()
    }

    /// The network over a row of `count` numbers.
    pub fn net(&self, name: &str, count: usize) -> Net {
        let units = self.units();
        let bits = |values: &[f16]| values.iter().map(|v| v.to_f32()).collect::<Vec<f32>>();
        let below: Vec<f32> = self.places.iter().zip(&self.ways).map(|(p, way)| -way * p.to_f32()).collect();
        let mut net = Net { name: name.into(), ..Net::default() };
        let value = |net: &mut Net, name: &str, shape: &[usize], data: Option<&[f32]>| -> ValueId {
            let data = data.map(|values| Arc::new(Tensor::f16(shape, values)));
            let ty = TensorType { dtype: DType::F16, shape: shape.to_vec() };
            net.add_value(Value { name: name.into(), ty, data, surface: None })
        };
        let x = value(&mut net, "x", &[1, 1, 1, count], None);
        let spread = value(&mut net, "spread", &[units, 1, 1, 1], Some(&self.ways));
        let places = value(&mut net, "places", &[units], Some(&below));
        let slopes = value(&mut net, "slopes", &[1, units, 1, 1], Some(&bits(&self.slopes)));
        let start = value(&mut net, "start", &[1], Some(&bits(&[self.start])));
        let wide = [1, units, 1, count];
        let (apart, kept) = (value(&mut net, "apart", &wide, None), value(&mut net, "kept", &wide, None));
        let y = value(&mut net, "y", &[1, 1, 1, count], None);
        let linear = || OpKind::Conv { strides: vec![1, 1], pads: vec![(0, 0); 2], dilations: vec![1, 1], groups: 1 };
        let mut op = |name: &str, kind, inputs: &[ValueId], output| {
            net.ops.push(Op { name: name.into(), kind, inputs: inputs.to_vec(), outputs: vec![output] });
        };
        op("apart", linear(), &[x, spread, places], apart);
        op("kept", OpKind::Unary(Unary::Relu), &[apart], kept);
        op("y", linear(), &[kept, slopes, start], y);
        (net.inputs, net.outputs) = (vec![x], vec![y]);
        net
    }
}

/// Largest number of fp16 numbers whose sum is a change of slope. Two hold 22 bits, which suffices unless sums of other units are much
/// larger than the value at a knot.
const PARTS: usize = 4;
/// Iterations that correct a change of slope by the rounding error of the fp32 sum.
const CORRECTIONS: usize = 8;

fn finite(at: usize, value: f64) -> Result<f16, ChainError> {
    let half = f16::from_f64(value);
    if half.is_finite() { Ok(half) } else { Err(ChainError::Range { at, value }) }
}

/// Piecewise linear function through `knots`, pairs of argument and value, both rounded to fp16.
///
/// Each slope is chosen so that the function meets its knot with the earlier slopes as they were rounded and summed.
///
/// Errors: fewer than two knots or more than 1024, arguments that do not ascend in fp16, values or slopes beyond fp16.
pub fn chain(knots: &[(f64, f64)]) -> Result<ReluSum, ChainError> {
    if !(ReluSum::LEAST..=ReluSum::MOST).contains(&knots.len()) {
        return Err(ChainError::Count { found: knots.len() });
    }
    let mut points: Vec<(f16, f16)> = Vec::with_capacity(knots.len());
    for (at, &(x, y)) in knots.iter().enumerate() {
        let (place, value) = (finite(at, x)?, finite(at, y)?);
        if points.last().is_some_and(|last| place <= last.0) {
            return Err(ChainError::Order { at, x });
        }
        points.push((place, value));
    }
    let nearest = |(_, (x, _)): &(usize, &(f16, f16))| x.to_f32().abs().to_bits();
    let pivot = points.iter().enumerate().min_by_key(nearest).map_or(0, |(at, _)| at);
    let mut chain = ReluSum { start: points[pivot].1, places: Vec::new(), ways: Vec::new(), slopes: Vec::new() };
    let numbered = || points.iter().copied().enumerate();
    side(&mut chain, &numbered().take(pivot + 1).rev().collect::<Vec<_>>(), -1.0)?;
    side(&mut chain, &numbered().skip(pivot).collect::<Vec<_>>(), 1.0)?;
    Ok(chain)
}

/// A knot with its position: place and value.
type Knot = (usize, (f16, f16));

/// Adds units for the knots on one side, away from the first one; constant behind the last.
fn side(chain: &mut ReluSum, knots: &[Knot], way: f32) -> Result<(), ChainError> {
    let first = chain.units();
    for pair in knots.windows(2) {
        let &[(_, (before, _)), (at, (place, value))] = pair else { continue };
        let run = f64::from(way * (place.to_f32() - before.to_f32()));
        let (units, mut change) = (chain.units(), 0.0);
        // Fewer parts first: a correction needs more only where sums are coarse.
        'parts: for parts in 2..=PARTS {
            for _ in 0..CORRECTIONS {
                change += f64::from(value.to_f32() - chain.sum(place)) / run;
                chain.truncate(units);
                chain.add(at, (before, way), change, parts)?;
                if chain.value(place) == value {
                    break 'parts;
                }
            }
        }
    }
    if let Some(&(at, (last, _))) = knots.last().filter(|_| knots.len() > 1) {
        let slope: f64 = chain.slopes[first..].iter().map(|s| s.to_f64()).sum();
        chain.add(at, (last, way), -slope, 2)?;
    }
    Ok(())
}

/// Equidistant knots from `low` to `high`, both included.
pub fn knots(f: impl Fn(f64) -> f64, [low, high]: [f64; 2], count: usize) -> Vec<(f64, f64)> {
    let step = (high - low) / (count.max(2) - 1) as f64;
    (0..count).map(|i| low + i as f64 * step).map(|x| (x, f(x))).collect()
}
