//! Tables for arbitrary scalar functions: the fit of 33 knots.

use super::{Form, Table};
use anemone_facts::lut::{KNOTS, Mode, Symmetry, place};
use half::f16;

/// Candidate shifts: knots are `2^-shift` apart.
const SHIFTS: std::ops::RangeInclusive<i16> = -2..=5;
/// Arguments at which a function must agree with its linear tail.
const FAR: [f64; 3] = [1024.0, 2048.0, 4096.0];
/// Largest deviation of a tail from the function at [`FAR`], relative to the argument.
const STRAIGHT: f64 = 1e-6;

/// Candidate starts of a constant tail, as multiples of the knots' range.
const REACHES: [f64; 9] = [1.0, 1.0625, 1.125, 1.1875, 1.25, 1.375, 1.5, 1.75, 2.0];

/// Arguments between which a table is compared with its function, as bits of fp16: 2^-8 to 2^11.
const LEAST: u16 = 0x1c00;
const MOST: u16 = 0x6800;
/// Step of the arguments, in units of the last place.
const BETWEEN: usize = 13;

/// Part of the error of a chord by which knots are moved so that the mean error is zero.
const NO_MEAN: f64 = 2.0 / 3.0;
/// The same, or one that halves the largest error.
const PARTS: [f64; 2] = [NO_MEAN, 0.5];

/// Argument and value, and the weight of an error there.
type Point = (f64, f64, f64);
/// Largest absolute error of a finite value at infinity.
const KEPT: f64 = 1.0 / 1024.0;

/// A line: slope and intercept.
type Line = (f64, f64);

impl Table {
    /// The table with knots around zero that is closest to a function, and its error, relative to values above 1. `None`
    /// if the function has no linear tails, or every table's error exceeds `most`.
    pub fn fitted(name: &str, f: &dyn Fn(f64) -> f64, most: f64) -> Option<(Table, f64)> {
        Table::closest(name, f, &|x| 1.0 / f(x).abs().max(1.0), &PARTS, most)
    }

    /// The table without a mean error that is closest by errors with a weight at each argument, and the largest of them.
    pub fn fitted_by(
        name: &str,
        f: &dyn Fn(f64) -> f64,
        weight: &dyn Fn(f64) -> f64,
        most: f64,
    ) -> Option<(Table, f64)> {
        Table::closest(name, f, weight, &[NO_MEAN], most)
    }

    fn closest(
        name: &str,
        f: &dyn Fn(f64) -> f64,
        weight: &dyn Fn(f64) -> f64,
        parts: &[f64],
        most: f64,
    ) -> Option<(Table, f64)> {
        let tails = [tail(f, -1.0)?, tail(f, 1.0)?];
        let points: Vec<Point> = Table::arguments().map(|x| (x, f(x), weight(x))).collect();
        let mut search = Search { name, points: &points, most, best: None, refusing: 0 };
        for shift in SHIFTS {
            search.with_knots(f, tails, shift, parts);
        }
        // A finite value of the function at infinity must be kept.
        let kept = |table: &Table, x: f64| {
            let (wanted, got) = (f(x), table.lookup().value(x));
            wanted.is_nan() || wanted == got || (wanted - got).abs() <= KEPT
        };
        search.best.filter(|(table, _)| [f64::INFINITY, f64::NEG_INFINITY].into_iter().all(|x| kept(table, x)))
    }

    /// Arguments at which tables are compared with functions.
    pub fn arguments() -> impl Iterator<Item = f64> {
        let numbers = (LEAST..=MOST).step_by(BETWEEN).map(|bits| f16::from_bits(bits).to_f64());
        // A jump of the function may be at a single knot.
        let knots = SHIFTS.flat_map(|shift| (1..=KNOTS / 2).map(move |i| i as f64 * (-f64::from(shift)).exp2()));
        numbers.chain(knots).flat_map(|x| [x, -x]).chain([0.0])
    }

    /// The table with its limits at the first arguments of which the values are normal numbers, where it is zero beyond them: smaller numbers have fewer
    /// digits, and those are lost in products.
    pub fn without_subnormals(mut self) -> Table {
        for (sign, x, y) in [(-1.0, place::X_LOW, place::Y_LOW), (1.0, place::X_HIGH, place::Y_HIGH)] {
            let limit = self.half(x) * sign;
            if self.half(y) != 0.0 || limit <= 0.0 || !limit.is_finite() {
                continue;
            }
            let lookup = self.lookup();
            let least = f64::from(f16::MIN_POSITIVE);
            let small = |bits: &u16| lookup.value(f16::from_bits(*bits).to_f64() * sign).abs() < least;
            let beyond = (0..=f16::from_f64(limit).to_bits()).rev().take_while(small).last();
            if let Some(bits) = beyond {
                self.halfwords[x] = f16::from_f64(f16::from_bits(bits).to_f64() * sign).to_bits();
            }
        }
        self
    }

    /// The clip that equals a function at every fp16 number; `None` for any other function.
    pub fn clip_of(f: &dyn Fn(f64) -> f64) -> Option<Table> {
        let [low, high] = [f64::NEG_INFINITY, f64::INFINITY].map(f);
        let table = Table::clip(low as f32, high as f32);
        let lookup = table.lookup();
        let mut arguments = (0..=u16::MAX).map(|bits| f16::from_bits(bits).to_f64()).filter(|x| !x.is_nan());
        (low <= high && arguments.all(|x| lookup.value(x) == f(x))).then_some(table)
    }
}

/// Search for the table that is closest to a function.
struct Search<'a> {
    name: &'a str,
    points: &'a [Point],
    /// Largest error of a table.
    most: f64,
    best: Option<(Table, f64)>,
    /// The point at which the last table was refused, which most others fail too.
    refusing: usize,
}

impl Search<'_> {
    /// Fits tables whose knots are `2^-shift` apart. Where the function is curved, each knot is moved off the function by a part of the
    /// largest error of a chord between two knots.
    fn with_knots(&mut self, f: &dyn Fn(f64) -> f64, tails: [Line; 2], shift: i16, parts: &[f64]) {
        let step = (-f64::from(shift)).exp2();
        let end = 16.0 * step;
        for &part in parts {
            let knots: [f64; KNOTS] = std::array::from_fn(|i| {
                let x = (i as f64 - 16.0) * step;
                let [before, at, after] = [x - step, x, x + step].map(f);
                // A kink shows as curvature that differs between the halves of the step: knots must be on kinks.
                let near = (f(x - step / 4.0) - 2.0 * at + f(x + step / 4.0)) * 16.0;
                let far = before - 2.0 * at + after;
                let smooth = (near - far).abs() <= 0.5 * far.abs();
                if smooth { at - far / 8.0 * part } else { at }
            });
            // A table of subnormal values alone loses digits.
            let is_normal = |y: &f64| y.abs() >= f64::from(f16::MIN_POSITIVE);
            if knots.iter().any(|&y| !f16::from_f64(y).is_finite()) || !knots.iter().any(is_normal) {
                continue;
            }
            // Lines of the function begin at the last knot.
            let constant = tails.iter().any(|(slope, _)| *slope == 0.0);
            for &reach in if constant { &REACHES[..] } else { &REACHES[..1] } {
                let [left, right] = [(-1.0, knots[0]), (1.0, knots[KNOTS - 1])];
                let [left, right] =
                    [(left, tails[0]), (right, tails[1])].map(|((sign, at), tail)| join(sign * end, at, tail, reach));
                let form = Form {
                    mode: Mode::Centred,
                    symmetry: Symmetry::None,
                    shift,
                    limits: [left.limit.0, right.limit.0, left.limit.1, right.limit.1].map(|x| x as f32),
                    tails: [left.line.0, left.line.1, right.line.0, right.line.1].map(|x| x as f32),
                };
                let table = Table::build(self.name, form, |i| knots[i]);
                if let Some(error) = self.distance(&table) {
                    self.best = Some((table, error));
                }
            }
        }
    }

    /// Largest weighted distance from the points; `None` if it is not less than that of the best table.
    fn distance(&mut self, table: &Table) -> Option<f64> {
        let least = self.best.as_ref().map_or(self.most.next_up(), |(_, least)| *least);
        let lookup = table.lookup();
        let error = |&(x, y, weight): &Point| {
            let error = (lookup.value(x) - y).abs() * weight;
            (error < least).then_some(error)
        };
        self.points.get(self.refusing).map_or(Some(0.0), error)?;
        let mut most = 0.0;
        for (at, point) in self.points.iter().enumerate() {
            let Some(error) = error(point) else {
                self.refusing = at;
                return None;
            };
            most = f64::max(most, error);
        }
        Some(most)
    }
}

/// The line that a function approaches far from zero on one side, with coefficients in fp16.
fn tail(f: &dyn Fn(f64) -> f64, sign: f64) -> Option<Line> {
    let [near, mid, far] = FAR.map(|x| (sign * x, f(sign * x)));
    let exact = (mid.1 - near.1) / (mid.0 - near.0);
    // Rounded separately: the intercept must not compensate for the slope's error far away.
    let [slope, intercept] = [exact, mid.1 - exact * mid.0].map(|x| f16::from_f64(x).to_f64());
    let off = |(x, y): (f64, f64)| (slope * x + intercept - y).abs();
    // A rounded slope is off by the rounding error.
    let rounding = if slope == 0.0 { 0.0 } else { 1.0 / 2048.0 };
    let straight = [near, mid, far].into_iter().all(|at| off(at) <= (STRAIGHT + slope.abs() * rounding) * at.0.abs());
    (straight && slope.is_finite() && intercept.is_finite()).then_some((slope, intercept))
}

/// A tail behind the last knot: its line, and the limit with the value there.
struct Tail {
    line: Line,
    limit: Line,
}

/// Tail to a constant: a line from the last knot to the limit; or along a line of the function.
fn join(x: f64, y: f64, (slope, intercept): Line, reach: f64) -> Tail {
    let limit = x * reach;
    if slope != 0.0 {
        let limit = f64::INFINITY.copysign(x);
        return Tail { line: (slope, intercept), limit: (limit, slope * limit) };
    }
    if reach == 1.0 {
        return Tail { line: (0.0, intercept), limit: (x, intercept) };
    }
    let between = (intercept - y) / (limit - x);
    Tail { line: (between, intercept - between * limit), limit: (limit, intercept) }
}
