//! Activation tables: the functions that have one, and the 43 halfwords of each.
//!
//! Knots are the correctly rounded fp16 values of the function, limits and tails those of Apple's tables
//! (`docs/evidence.md`, key `h13-lut`).

mod compose;
mod fit;
mod lookup;

pub use lookup::Lookup;

use anemone_facts::lut::{self, KNOTS, Mode, RECORD_BYTES, STREAM_BYTES, Symmetry, place};
use half::f16;

/// A named table record.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Function name, for listings.
    pub name: String,
    halfwords: [u16; RECORD_BYTES / 2],
    /// Mode, which determines the debug events of the task.
    pub mode: Mode,
}

/// All parameters of a table besides its knots.
struct Form {
    mode: Mode,
    symmetry: Symmetry,
    shift: i16,
    /// Argument limits and the results beyond them: x low, x high, y low, y high.
    limits: [f32; 4],
    /// Slope and intercept left and right of the knots.
    tails: [f32; 4],
}

/// Placement of a table's knots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knots {
    /// On the function, as Apple's tables have them.
    On,
    /// Off the function by half of the error of the chords beside a knot, so that the error is the same at knots and between
    /// them, and half of that with knots on the function.
    Between,
    /// On the function but for the first behind zero, which lies on the tangent at zero: results of small arguments, such as those of a
    /// soft cap `c tanh(x / c)`, are as precise as fp16, and those beside that knot are off by no more than others.
    Tangent,
}

impl Knots {
    /// Value of a knot as a function of its argument; knots are `2^-shift` apart.
    fn of(self, shift: i16, f: impl Fn(f64) -> f64) -> impl Fn(f64) -> f64 {
        let step = (-f64::from(shift)).exp2();
        move |x| match self {
            Knots::On => f(x),
            Knots::Tangent if x == step => f(TANGENT) / TANGENT * step,
            Knots::Tangent => f(x),
            Knots::Between => {
                let chord = |low: f64| (f(low) + f(low + step)) / 2.0 - f(low + step / 2.0);
                f(x) - (chord(x - step) + chord(x)) / 4.0
            }
        }
    }
}

/// Shift at which every nonzero argument is beyond the knots, so that only limits and tails apply.
const TAILS_ONLY: i16 = 64;
const INF: f32 = f32::INFINITY;
/// Argument of which the value gives a slope at zero.
const TANGENT: f64 = 1.0 / 1024.0;

impl Table {
    fn build(name: &str, form: Form, knot: impl Fn(usize) -> f64) -> Table {
        let bits = |x: f64| f16::from_f64(x).to_bits();
        let mut halfwords = [0u16; RECORD_BYTES / 2];
        for (at, x) in [place::X_LOW, place::X_HIGH, place::Y_LOW, place::Y_HIGH].into_iter().zip(form.limits) {
            halfwords[at] = bits(x as f64);
        }
        for i in 0..KNOTS {
            halfwords[place::KNOT + i] = bits(knot(i));
        }
        for (i, x) in form.tails.into_iter().enumerate() {
            halfwords[place::LEFT + i] = bits(x as f64);
        }
        halfwords[place::SHIFT] = form.shift as u16;
        halfwords[place::MODE] = form.mode as u16 | (form.symmetry as u16) << 5;
        Table { name: name.into(), halfwords, mode: form.mode }
    }

    /// The record padded to its size in a coefficient stream.
    pub fn stream(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.halfwords.iter().flat_map(|h| h.to_le_bytes()).collect();
        bytes.resize(STREAM_BYTES, 0);
        bytes
    }

    /// `x < 0 ? left * x : right * x`, clamped: ReLU6, hard tanh, leaky ReLU, clip.
    pub fn clamp(name: &str, limits: [f32; 4], left_slope: f32) -> Table {
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits,
            tails: [left_slope, 0.0, 1.0, 0.0],
        };
        // Every knot is the value at zero (`binary_maximum_c512_constant_scalar`, `binary_minimum_c64_constant_scalar`).
        let at_zero = f64::from(0f32.max(limits[2]).min(limits[3]));
        Table::build(name, form, |_| at_zero)
    }

    /// The magnitude of the argument: the slopes are exact.
    pub fn magnitude() -> Table {
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-INF, INF, INF, INF],
            tails: [-1.0, 0.0, 1.0, 0.0],
        };
        Table::build("abs", form, |_| 0.0)
    }

    /// `min(max(x, low), high)`.
    pub fn clip(low: f32, high: f32) -> Table {
        Table::clamp("clip", [low, high, low, high], 1.0)
    }

    /// Addend of the argument of [`Table::rounded`]: between 1024 and 2048 fp16 numbers are the integers, so that the conversion to fp16
    /// behind this addition rounds.
    pub const ROUNDING_ADDEND: f32 = 1536.0;
    /// Smallest and largest integer to which [`Table::rounded`] clamps its results.
    pub const ROUNDED_RANGE: [f32; 2] = [-512.0, 511.0];
    /// Knots 64 apart.
    const ROUNDED_SHIFT: i16 = -6;

    /// The nearest integer, clamped between two of them, of an argument to which [`Table::ROUNDING_ADDEND`] was added.
    pub fn rounded(min: f32, max: f32) -> Table {
        let addend = Self::ROUNDING_ADDEND;
        let [least, greatest] = Self::ROUNDED_RANGE;
        let (min, max) = (min.clamp(least, greatest), max.clamp(least, greatest));
        let form = Form {
            mode: Mode::FromZero,
            symmetry: Symmetry::None,
            shift: Self::ROUNDED_SHIFT,
            limits: [addend + min, addend + max, min, max],
            tails: [0.0; 4],
        };
        let range = [f64::from(least), f64::from(greatest) + 1.0];
        let knot = |i: usize| (i as f64 * 64.0 - f64::from(addend)).clamp(range[0], range[1]);
        Table::build("round", form, knot)
    }

    /// Addend of the argument that a table requires of its task: zero except for [`Table::rounded`].
    pub fn addend(&self) -> f32 {
        let rounds = self.mode == Mode::FromZero
            && self.halfwords[place::MODE] >> 5 == Symmetry::None as u16
            && self.halfwords[place::SHIFT] == Self::ROUNDED_SHIFT as u16;
        if rounds { Self::ROUNDING_ADDEND } else { 0.0 }
    }

    /// `x < 0 ? alpha * x : x`.
    pub fn leaky_relu(alpha: f32) -> Table {
        Table::clamp("leaky_relu", [-INF, INF, -INF, INF], alpha)
    }

    /// -1, 0 or 1.
    pub fn sign() -> Table {
        let form = Form {
            mode: Mode::FromZero,
            symmetry: Symmetry::Odd,
            shift: TAILS_ONLY,
            limits: [0.0, 1.0, 0.0, 1.0],
            tails: [0.0, 0.0, 0.0, 1.0],
        };
        Table::build("sign", form, |_| 0.0)
    }

    /// 1 for positive arguments, else 0.
    pub fn positive() -> Table {
        let tiny = f16::from_bits(1).to_f32();
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-tiny, tiny, 0.0, 1.0],
            tails: [0.0, 0.0, 0.0, 1.0],
        };
        Table::build("positive", form, |_| 0.0)
    }

    /// 1 for negative arguments, else 0.
    pub fn negative() -> Table {
        let tiny = f16::from_bits(1).to_f32();
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-tiny, tiny, 1.0, 0.0],
            tails: [0.0, 1.0, 0.0, 0.0],
        };
        Table::build("negative", form, |_| 0.0)
    }

    /// One number for positive arguments, another for all others.
    pub fn choice(positive: f32, other: f32) -> Table {
        let tiny = f16::from_bits(1).to_f32();
        Table::steps("choice", [0.0, tiny, other, positive])
    }

    /// One number for negative arguments, another for all others.
    pub fn choice_below_zero(negative: f32, other: f32) -> Table {
        let tiny = f16::from_bits(1).to_f32();
        Table::steps("choice.negative", [-tiny, 0.0, negative, other])
    }

    /// The argument where it is greater than an fp16 number, else zero.
    pub fn above(last: f16) -> Table {
        Table::clamp("above", [last.to_f32(), INF, 0.0, INF], 1.0)
    }

    /// One number for finite negative arguments, another for all others.
    pub fn choice_finite_below_zero(negative: f32, other: f32) -> Table {
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-INF, 0.0, other, other],
            tails: [0.0, negative, 0.0, other],
        };
        Table::build("choice.finite", form, |_| 0.0)
    }

    /// 1 at zero, 0 elsewhere.
    pub fn at_zero() -> Table {
        Table::at_zero_or(1.0, 0.0)
    }

    /// A finite number at zero, another number elsewhere.
    pub fn at_zero_or(zero: f32, other: f32) -> Table {
        let tiny = f16::from_bits(1).to_f32();
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: TAILS_ONLY,
            limits: [-tiny, tiny, other, other],
            tails: [0.0; 4],
        };
        Table::build("at_zero", form, |_| f64::from(zero))
    }

    /// 1 at zero, 0 elsewhere, with the knots of `logical_not_1x1x375x375`: the last one is 0.
    pub fn opposite() -> Table {
        let mut table = Table::at_zero();
        table.halfwords[place::KNOT + KNOTS - 1] = 0;
        table
    }

    /// 0 at zero, 1 elsewhere, with the intercepts of `select_rrb_1x8x375x375`.
    pub fn truth() -> Table {
        let mut table = Table::at_zero_or(0.0, 1.0);
        [place::LEFT, place::RIGHT].iter().for_each(|at| table.halfwords[at + 1] = table.halfwords[place::Y_HIGH]);
        table
    }

    /// Adjacent limits: each argument has one of the two results.
    fn steps(name: &str, limits: [f32; 4]) -> Table {
        let form = Form { mode: Mode::Centred, symmetry: Symmetry::None, shift: TAILS_ONLY, limits, tails: [0.0; 4] };
        Table::build(name, form, |_| 0.0)
    }

    /// Fractional part with the argument's sign.
    pub fn fraction() -> Table {
        let form = Form {
            mode: Mode::Fraction,
            symmetry: Symmetry::Odd,
            shift: 0,
            limits: [-INF, INF, 0.0, 0.0],
            tails: [0.0; 4],
        };
        Table::build("fraction", form, |_| 0.0)
    }

    /// Integer part, toward zero.
    pub fn truncate() -> Table {
        let form = Form {
            mode: Mode::Integer,
            symmetry: Symmetry::Odd,
            shift: 5,
            limits: [-INF, INF, -INF, INF],
            tails: [0.0; 4],
        };
        Table::build("truncate", form, |_| 0.0)
    }

    /// An odd function with knots `2^-shift` apart from 0 on, saturating at `high` to `limit`.
    fn odd(name: &str, shift: i16, high: f32, limit: f32, f: impl Fn(f64) -> f64) -> Table {
        let step = (-f64::from(shift)).exp2();
        let last_x = 32.0 * step;
        let last_y = f16::from_f64(f(last_x)).to_f64();
        // The tail joins the last knot to the limit; without space for a tail the function jumps to the limit.
        let span = high as f64 - last_x;
        let slope = if span > 0.0 { (limit as f64 - last_y) / span } else { 0.0 };
        let intercept = if span > 0.0 { limit as f64 - slope * high as f64 } else { limit as f64 };
        let form = Form {
            mode: Mode::FromZero,
            symmetry: Symmetry::Odd,
            shift,
            limits: [-1.0, high, 0.0, limit],
            tails: [0.0, 0.0, slope as f32, intercept as f32],
        };
        Table::build(name, form, |i| f(i as f64 * step))
    }

    /// `sigmoid(x) - 1/2`, with knots as asked for.
    pub fn sigmoid_half(knots: Knots) -> Table {
        Table::odd("sigmoid-1/2", 2, 10.0, 0.5, knots.of(2, |x| 1.0 / (1.0 + (-x).exp()) - 0.5))
    }

    /// Hyperbolic tangent, with knots as asked for.
    pub fn tanh(knots: Knots) -> Table {
        Table::odd("tanh", 3, 5.0, 1.0, knots.of(3, f64::tanh))
    }

    /// Hyperbolic tangent as Apple's compiler of 2026 has it (`docs/evidence.md`, key `h13-oracles`): 1 from the last knot on, and
    /// no limit below zero.
    pub fn tanh_to_four() -> Table {
        let mut table = Table::odd("tanh", 3, 4.0, 1.0, f64::tanh);
        table.halfwords[place::X_LOW] = 0;
        table
    }

    /// `erf(x)`, with knots as asked for.
    pub fn erf(knots: Knots) -> Table {
        Table::odd("erf", 3, 4.0, 1.0, knots.of(3, libm::erf))
    }

    /// `erf(x / sqrt 2) / 2`: one half of the Gaussian distribution function, with knots as asked for.
    pub fn gauss_half(knots: Knots) -> Table {
        let gauss = |x: f64| libm::erf(x * std::f64::consts::FRAC_1_SQRT_2) / 2.0;
        Table::odd("gauss-1/2", 3, 4.5, 0.5, knots.of(3, gauss))
    }

    /// Sigmoid in one table, as compiler 4.2.1 has it for netplists. Its lower limit is a constant of the sample.
    pub fn sigmoid_plain() -> Table {
        const X_LOW: f32 = -9.9375;
        const X_HIGH: f32 = 8.3203125;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let knot = |i: usize| sigmoid((i as f64 - 16.0) / 2.0);
        let rounded = |i: usize| f16::from_f64(knot(i)).to_f64();
        let left = rounded(0) / (-8.0 - X_LOW as f64);
        let right = (1.0 - rounded(KNOTS - 1)) / (X_HIGH as f64 - 8.0);
        let form = Form {
            mode: Mode::Centred,
            symmetry: Symmetry::None,
            shift: 1,
            limits: [X_LOW, X_HIGH, 0.0, 1.0],
            tails: [left as f32, (-left * X_LOW as f64) as f32, right as f32, (1.0 - right * X_HIGH as f64) as f32],
        };
        Table::build("sigmoid", form, knot)
    }

    /// `x` times the Gaussian distribution function, in one table as Apple's compilers have it.
    pub fn gelu() -> Table {
        Table::recorded(&lut::GELU)
    }

    /// `x` times its sigmoid, in one table as Apple's compiler of 2026 has it.
    pub fn silu() -> Table {
        Table::recorded(&lut::SILU)
    }

    /// `x` times the sigmoid of `1.702 x`, in one table as Apple's compiler of 2026 has it.
    pub fn gelu_by_sigmoid() -> Table {
        Table::recorded(&lut::GELU_BY_SIGMOID)
    }

    fn recorded(table: &lut::Recorded) -> Table {
        let mode = if table.halfwords[place::MODE] == Mode::Centred as u16 { Mode::Centred } else { Mode::FromZero };
        Table { name: table.name.into(), halfwords: table.halfwords, mode }
    }

    /// `2^x`.
    pub fn exp2() -> Table {
        let form = Form {
            mode: Mode::Exp2,
            symmetry: Symmetry::None,
            shift: 5,
            limits: [-25.0, 16.0, 0.0, INF],
            tails: [0.0; 4],
        };
        Table::build("exp2", form, |i| (i as f64 / 32.0).exp2())
    }

    /// `2^x`, and 1 for positive arguments.
    pub fn exp2_to_one() -> Table {
        let mut table = Table::exp2();
        table.name = "exp2<1".into();
        table.halfwords[place::X_HIGH] = 0;
        table.halfwords[place::Y_HIGH] = f16::ONE.to_bits();
        table
    }

    /// Base-2 logarithm.
    pub fn log2() -> Table {
        let form = Form {
            mode: Mode::Log2,
            symmetry: Symmetry::NonNegative,
            shift: 6,
            limits: [0.0, INF, -INF, 0.0],
            tails: [0.0; 4],
        };
        Table::build("log2", form, |i| (0.5 + i as f64 / 64.0).log2())
    }

    /// As [`Table::log2`], with a value at infinity.
    pub fn log2_of_all() -> Table {
        let form = Form {
            mode: Mode::Log2,
            symmetry: Symmetry::NonNegative,
            shift: 6,
            limits: [0.0, INF, -INF, INF],
            tails: [0.0; 4],
        };
        Table::build("log2", form, |i| (0.5 + i as f64 / 64.0).log2())
    }

    /// `1 / x`.
    pub fn reciprocal() -> Table {
        let form = Form {
            mode: Mode::Reciprocal,
            symmetry: Symmetry::Odd,
            shift: 6,
            limits: [0.0, INF, INF, 0.0],
            tails: [0.0; 4],
        };
        Table::build("reciprocal", form, |i| 1.0 / (0.5 + i as f64 / 64.0))
    }

    /// Square root.
    pub fn sqrt() -> Table {
        Table::root("sqrt", Mode::Sqrt, [0.0, INF, 0.0, INF], f64::sqrt)
    }

    /// `1 / sqrt x`.
    pub fn rsqrt() -> Table {
        Table::root("rsqrt", Mode::Rsqrt, [0.0, INF, INF, 0.0], |x| 1.0 / x.sqrt())
    }

    /// Mantissas start at 1/2, so that the first eight knots are never read and are zero.
    fn root(name: &str, mode: Mode, limits: [f32; 4], f: impl Fn(f64) -> f64) -> Table {
        let form = Form { mode, symmetry: Symmetry::NonNegative, shift: 4, limits, tails: [0.0; 4] };
        Table::build(name, form, |i| if i < 8 { 0.0 } else { f(i as f64 / 16.0) })
    }

    /// Arc tangent of arguments up to 2 (part one) and the rest minus `atan 2` (part two); their sum is `atan x`.
    pub fn atan(part: usize) -> Table {
        let atan2 = f16::from_f64(2f64.atan()).to_f32();
        let form = |shift, limits, tails| Form { mode: Mode::FromZero, symmetry: Symmetry::Odd, shift, limits, tails };
        if part == 0 {
            let form = form(4, [0.0, 2.0, 0.0, atan2], [1.0, 0.0, 0.0, atan2]);
            return Table::build("atan.low", form, |i| (i as f64 / 16.0).atan());
        }
        let knot = |i: usize| (2.0 * i as f64).atan() - 2f64.atan();
        let (last, end) =
            (f16::from_f64(knot(KNOTS - 1)).to_f64(), f16::from_f64(2000f64.atan() - 2f64.atan()).to_f64());
        let slope = (end - last) / (2000.0 - 64.0);
        let form = form(-1, [2.0, 2000.0, 0.0, end as f32], [0.0, 0.0, slope as f32, (last - slope * 64.0) as f32]);
        Table::build("atan.high", form, knot)
    }

    /// Sine of arguments in half turns, between -1 and 1 and a little beyond.
    pub fn sine_of_half_turns() -> Table {
        const HIGH: f32 = 1.0625;
        let sine = |x: f64| (x * std::f64::consts::PI).sin();
        Table::odd("sin", 5, HIGH, sine(f64::from(HIGH)) as f32, Knots::Between.of(5, sine))
    }

    /// Tables whose sum is the arc tangent.
    pub const ATAN_PARTS: usize = 4;

    /// One part of the arc tangent: its increase from the start of an interval to the argument, clamped to the interval. Intervals start
    /// at 0, 2, 4 and 16; knots are two to eight times as far apart as those of the part before, and the last part ends in a line to the
    /// limit.
    pub fn atan_part(part: usize) -> Table {
        // Where parts begin, and the shift of their knots: 1/16, 1/8, 1/2 and 4 apart.
        const BEGIN: [f64; Table::ATAN_PARTS + 1] = [0.0, 2.0, 4.0, 16.0, 1000.0];
        const SHIFT: [i16; Table::ATAN_PARTS] = [4, 3, 1, -2];
        let (low, high, shift) = (BEGIN[part], BEGIN[part + 1], SHIFT[part]);
        let step = (-f64::from(shift)).exp2();
        let own = |x: f64| x.clamp(low, high).atan() - low.atan();
        let last = part + 1 == Table::ATAN_PARTS;
        let end = f16::from_f64(if last { std::f64::consts::FRAC_PI_2 - low.atan() } else { own(high) }).to_f64();
        let (from, at) = ((KNOTS - 1) as f64 * step, f16::from_f64(own((KNOTS - 1) as f64 * step)).to_f64());
        let slope = if last { (end - at) / (high - from) } else { 0.0 };
        let form = Form {
            mode: Mode::FromZero,
            symmetry: Symmetry::Odd,
            shift,
            limits: [low as f32, high as f32, 0.0, end as f32],
            tails: [0.0, 0.0, slope as f32, (at - slope * from) as f32],
        };
        Table::build("atan.part", form, |i| own(i as f64 * step))
    }
}
