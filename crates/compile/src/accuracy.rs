//! Error bounds of compiled operations against plain arithmetic on the same fp16 operands, and the results that they give
//! where plain arithmetic is undefined.
//!
//! A bound is relative to the expected value plus an absolute part, and contains every error of the lowering: one rounding of the
//! result is half a unit in the last place, 2^-11 of the value; a table of 33 knots has its distance from the function.

/// Least magnitude that rounds to infinity in fp16.
pub const OVERFLOW: f32 = 65520.0;

/// One rounding to fp16, relative to the value.
pub const ROUNDING: f32 = 1.0 / 2048.0;

/// Half of the smallest distance of two fp16 numbers.
pub const LEAST: f32 = 1.0 / 33_554_432.0;

/// Exception to an error bound over an interval of arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// This number, such as the value beyond a table's end.
    Number(f32),
    /// The bound does not hold here, for the reason the row gives.
    Anything,
}

/// The stated error of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// The operation, as the text form of the graph spells it.
    pub operation: &'static str,
    /// Part relative to the expected value.
    pub relative: f32,
    /// Absolute part.
    pub absolute: f32,
    /// Intervals of arguments with an exception.
    pub outside: &'static [(f32, f32, Outside)],
    /// Source of the error, in words: roundings or table knots.
    pub reason: &'static str,
    /// Largest error found over every fp16 argument, in units in the last place of the expected value (of the least normal number for
    /// smaller ones), and the argument.
    pub worst: (f32, f32),
}

impl Bound {
    const fn worst(self, units: f32, argument: f32) -> Bound {
        Bound { worst: (units, argument), ..self }
    }

    /// Exception to the bound at an argument; `None` where the bound holds.
    pub fn outside_at(&self, x: f32) -> Option<Outside> {
        let within = |row: &&(f32, f32, Outside)| row.0 <= x && x <= row.1;
        self.outside.iter().find(within).map(|row| row.2)
    }

    /// Returns true if `found` is within the bound of `wanted`, the exact function of `x`. With `exact`, any result is
    /// admitted if `wanted` or `x` is NaN, because the exact models read NaN as plus infinity.
    pub fn admits(&self, x: f32, wanted: f32, found: f32, exact: bool) -> bool {
        if exact && (wanted.is_nan() || x.is_nan()) {
            return true;
        }
        // ReLU in `fast` makes zero of NaN.
        if x.is_nan() && self.operation == "relu" {
            return found == 0.0;
        }
        match self.outside_at(x) {
            Some(Outside::Anything) => return true,
            Some(Outside::Number(n)) if found == n => return true,
            _ => {}
        }
        if wanted.is_nan() {
            return found.is_nan();
        }
        if wanted.is_infinite() {
            return found == wanted;
        }
        let error = self.relative * wanted.abs() + self.absolute;
        if found.is_infinite() {
            return wanted.signum() == found.signum() && wanted.abs() + error >= OVERFLOW;
        }
        (found - wanted).abs() <= error
            || (wanted.abs() > 65504.0 && (found - 65504f32.copysign(wanted)).abs() <= error)
    }
}

const fn row(operation: &'static str, relative: f32, absolute: f32, reason: &'static str) -> Bound {
    Bound { operation, relative, absolute, outside: &[], reason, worst: (0.0, 0.0) }
}

/// Operations that move or choose elements, and functions that are exact on fp16.
const EXACT: Bound = row("", 0.0, 0.0, "exact");
/// Operations with one rounding.
const ROUNDED: Bound = row("", ROUNDING, LEAST, "one rounding");
/// Default bound of operations without a row: functions computed by tables.
const TABLED: Bound = row("", 1.2e-2, 1.2e-2, "33 knots and straight lines between them");

/// Exact functions: their results are operands or small integers.
const EXACT_FUNCTIONS: &[&str] =
    &["identity", "relu6", "abs", "neg", "sign", "ceil", "floor", "round", "clip", "threshold"];

/// The row of a function of one number.
pub fn bound(operation: &str) -> &'static Bound {
    static EXACT_ROW: Bound = EXACT;
    static ROUNDED_ROW: Bound = ROUNDED;
    static TABLED_ROW: Bound = TABLED;
    if let Some(row) = BOUNDS.iter().find(|row| row.operation == operation) {
        return row;
    }
    match operation {
        _ if EXACT_FUNCTIONS.contains(&operation) => &EXACT_ROW,
        "square" => &ROUNDED_ROW,
        _ => &TABLED_ROW,
    }
}

/// Angles beyond which fp16 numbers are two or more apart, so that subtracting whole turns is no longer exact.
const ANGLES: &[(f32, f32, Outside)] =
    &[(f32::NEG_INFINITY, -2048.0, Outside::Anything), (2048.0, f32::INFINITY, Outside::Anything)];
/// Poles of the tangent near a quarter turn, where an error of the angle is amplified without bound.
const STEEP: &[(f32, f32, Outside)] =
    &[(f32::NEG_INFINITY, -1.4, Outside::Anything), (1.4, f32::INFINITY, Outside::Anything)];

/// Functions with rows of their own. Every bound covers all fp16 arguments, with a small margin.
pub static BOUNDS: &[Bound] = &[
    row("relu", 0.0, 0.0, "exact; `fast` makes zero of NaN"),
    row("leaky_relu", 9.5e-4, LEAST, "a table of straight lines: slope and result are rounded")
        .worst(0.9, -0.011909485),
    row("elu", ROUNDING, 6.3e-4, "a table of 2^x, then a sum").worst(2047.9, -0.00012207031),
    row("sigmoid", 0.0, 3.5e-3, "33 knots, then a sum with one half").worst(2042.3, -8.3203125),
    row("sigmoid_hard", 0.0, 4.5e-4, "33 knots, of which some lie beside its corners").worst(0.8, -2.4238281),
    row("tanh", 1.1e-2, LEAST, "33 knots").worst(11.0, 0.00011694431),
    row("scaled_tanh", 1.1e-2, 4.0 * LEAST, "a factor, 33 knots, another factor, each rounded")
        .worst(11.0, 0.00016117096),
    row("erf", 1.2e-2, LEAST, "33 knots").worst(11.9, 0.000108122826),
    row("gelu", ROUNDING, 3.3e-3, "a table, in the operand's own or with a product after it").worst(2046.7, -5.9335938),
    row("silu", ROUNDING, 3.3e-3, "33 knots").worst(2046.6, -10.6875),
    row("softplus", ROUNDING, 7.0e-4, "tables of 2^x and of ln(1 + x), then a sum").worst(32.2, -9.015625),
    row("softsign", 2.2e-3, LEAST, "a table of reciprocals and a product").worst(4.0, 47200.0),
    row("exp", 1.0e-2, LEAST, "the argument times log2(e) is rounded before the table of 2^x").worst(10.0, 10.375),
    row("exp2", 1.0e-3, LEAST, "a table of 2^x with a split exponent").worst(1.0, 0.33203125),
    row("log", 1.2e-3, 1.3e-4, "a table of the logarithm to base 2, then a factor").worst(28.0, 1.0009766),
    row("log2", 2.0 * ROUNDING, 1.8e-4, "33 knots: an eighth of the square of 1/32, times the curvature")
        .worst(22.2, 1.0048828),
    row("sqrt", 1.1e-3, LEAST, "33 knots with a split exponent").worst(1.2, 0.000008046627),
    row("rsqrt", 1.9e-3, LEAST, "33 knots with a split exponent").worst(2.1, 0.000002026558),
    Bound {
        outside: &[(-0.0, 0.0, Outside::Number(f32::INFINITY))],
        ..row("inverse", 1.1e-3, LEAST, "33 knots with a split exponent; minus zero is plus zero in the exact models")
            .worst(1.2, 0.00006407499)
    },
    row("atan", 0.0, 3.2e-3, "two tables that meet at 4").worst(3.1, 305.25),
    Bound {
        outside: ANGLES,
        ..row("sin", 0.0, 2.2e-3, "whole turns taken off, then 33 knots to half a turn").worst(2472.0, 1420.0)
    },
    Bound {
        outside: ANGLES,
        ..row("cos", 0.0, 1.6e-3, "as the sine of a quarter turn less the size of the rest").worst(1483.6, 26.703125)
    },
    Bound { outside: STEEP, ..row("tan", 3.0e-3, 1.2e-3, "a quotient of two sines").worst(5.0, 0.007774353) },
    row("asin", 0.0, 1.8e-3, "an arc tangent of x over a root").worst(3.2, 0.027053833),
    row("acos", 0.0, 3.2e-3, "a quarter turn less the arc sine").worst(14848.0, 1.0),
    row("sinh", 1.0e-2, 1.0e-3, "two tables of 2^x").worst(2047.0, 0.00012201071),
    row("cosh", 1.0e-2, 1.0e-3, "two tables of 2^x").worst(9.8, 11.734375),
    row("atanh", 1.2e-3, 1.0e-3, "two tables of the logarithm").worst(2047.0, 0.00012201071),
    row("div", 3.0e-3, LEAST, "a table of reciprocals and a product"),
    row("softmax", 1.2e-2, 1.2e-2, "a table of 2^x, a sum, a table of reciprocals and a product"),
];

/// A class of operations whose results have one stated error.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Name, for reports.
    pub name: &'static str,
    /// The operations, as the text form of the graph spells them.
    pub operations: &'static [&'static str],
    /// Bound of an element's error, in `fast`; `u` is [`ROUNDING`], `h` is [`LEAST`].
    pub fast: &'static str,
    /// Additional error in the exact models; `q` is 2^-16.
    pub exact: &'static str,
    /// Derivation: table, recipe or rounding.
    pub from: &'static str,
}

/// Every class: an operation that is not listed is a function of one number with a row of [`BOUNDS`].
pub static CLASSES: &[Class] = &[
    Class {
        name: "moves and choices",
        operations: &[
            "reshape",
            "transpose",
            "broadcast",
            "slice",
            "concat",
            "gather",
            "gather_along",
            "pad",
            "pad_edge",
            "select",
            "max",
            "min",
            "max_pool",
            "reduce_max",
            "reduce_min",
            "identity",
            "relu",
            "relu6",
            "abs",
            "neg",
            "clip",
            "threshold",
            "resize nearest",
        ],
        fast: "0",
        exact: "q / 2 where the array copies; infinite from 32768 on there, and from 4096 on through the crop",
        from: "elements are copied; a copy by the array is a product with one",
    },
    Class {
        name: "steps",
        operations: &["sign", "ceil", "floor", "round"],
        fast: "0",
        exact: "0",
        from: "a table of steps that is exact on fp16",
    },
    Class {
        name: "one rounding",
        operations: &["add", "sub", "mul", "square", "cast"],
        fast: "u |y| + h",
        exact: "the same",
        from: "computed exactly, rounded once",
    },
    Class {
        name: "comparisons and truth values",
        operations: &["equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "arg_max", "arg_min"],
        fast: "0",
        exact: "0",
        from: "signs of differences, which fp16 has exactly",
    },
    Class {
        name: "sums",
        operations: &[
            "reduce_sum",
            "reduce_mean",
            "reduce_l1",
            "reduce_sum_square",
            "avg_pool",
            "conv",
            "conv_transpose",
            "linear",
            "matmul",
            "resize linear",
            "scatter_along",
        ],
        fast: "3 u S + h, S the sum of the terms' magnitudes; h for each term of a reduction, for each rounding of a scatter",
        exact: "2 q for each term, of a pooled mean for each place of its window; not stated where S reaches 32000",
        from: "fp32 or wider sums of rounded parts, rounded; constant addends and factors are folded into weights where fp16 has them",
    },
    Class {
        name: "quotients",
        operations: &["div"],
        fast: "3e-3 |y| + h; not stated where the divisor is below 1/65504",
        exact: "the same",
        from: "a table of reciprocals (1.1e-3), a product, two roundings",
    },
    Class {
        name: "powers",
        operations: &["pow"],
        fast: "(2^(|e| (1.8e-4 + 3 u |log2 x| + 4 u)) - 1 + 1e-3) |y| + 2 h",
        exact: "the same",
        from: "2^(e log2 x): the tables of log2 and exp2, the product's rounding times the exponent; whole exponents are products",
    },
    Class {
        name: "softmax",
        operations: &["softmax"],
        fast: "1.2e-2 y + 1.2e-2",
        exact: "the same",
        from: "a table of 2^x, a sum, a table of reciprocals, a product",
    },
    Class {
        name: "in steps",
        operations: &[
            "layer_norm",
            "instance_norm",
            "batch_norm",
            "reduce_l2",
            "reduce_log_sum",
            "reduce_log_sum_exp",
            "reduce_prod",
        ],
        fast: "the bounds of the steps, each carried through those after it",
        exact: "the same",
        from: "means, differences, squares, roots and products, one after the other",
    },
    Class {
        name: "whole quotients",
        operations: &["floor_div", "mod"],
        fast: "0 for whole numbers to 2048; of floats the bound of div, and a whole step where it jumps",
        exact: "the same",
        from: "the quotient is estimated from below twice, and corrected by what is left",
    },
];

/// The class of an operation; functions with a row of [`BOUNDS`] are none of these.
pub fn class(operation: &str) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.operations.contains(&operation))
}
