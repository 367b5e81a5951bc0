//! Known differences between compiled networks and the evaluator that come from the engine's units, as conditions on operands:
//! a result that is right without the elements concerned counts as known, provided that a run warns of it. A row that nothing
//! needs any more fails the test.

use anemone_net::*;

/// Condition under which an element is affected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// An operand is infinite, NaN, or not certain to be neither.
    NotFinite,
    /// An operand is NaN.
    Nan,
    /// The second operand's reciprocal is beyond fp16.
    SmallDivisor,
    /// An exact model copies columns from the 32nd on, and an element is beyond the crop's limit.
    Cropped,
    /// An exact model, whose array's sums end at its ceiling.
    Ceiling,
    /// An exact model, and an operand lies exactly between two whole numbers.
    Tie,
    /// An exact model; the first operand is minus zero, and the second is negative or not certain to be positive.
    MinusZero,
    /// In every model, the first operand is zero, and an operation on the way to it changes the sign of zeros.
    SignOfZero,
}

impl When {
    /// Returns true for a condition of the exact models.
    pub fn is_exact(self) -> bool {
        matches!(self, When::Cropped | When::Ceiling | When::Tie | When::MinusZero)
    }

    /// Returns true for a condition that random networks seldom meet: `found.rs` has a case of each.
    pub fn is_seldom(self) -> bool {
        self.is_exact() || self == When::SignOfZero
    }
}

/// Something that is known to differ.
pub struct Known {
    pub operations: &'static [&'static str],
    /// True if it concerns floats alone, false if integers too.
    pub floats: bool,
    pub when: When,
    pub reason: &'static str,
}

pub static KNOWN: &[Known] = &[
    Known {
        operations: &["max", "min", "relu", "relu6", "max_pool", "reduce_max", "reduce_min", "threshold", "clip"],
        floats: true,
        when: When::Nan,
        reason: "the engine's greater and smaller of NaN and a number is the number",
    },
    Known {
        operations: &["gather", "gather_along", "scatter_along"],
        floats: true,
        when: When::Nan,
        reason: "elements are chosen by maxima and minima, which drop NaN",
    },
    Known {
        operations: &["pad", "pad_edge", "resize", "conv", "conv_transpose", "gather_along"],
        floats: false,
        when: When::NotFinite,
        reason: "zeros stand for taps that a window does not have, and zero times infinity is NaN",
    },
    Known {
        operations: &["slice", "gather", "gather_along", "resize", "pad_edge", "scatter_along"],
        floats: true,
        when: When::Cropped,
        reason: "part of a row goes through the crop of the M1, whose gain makes numbers from 4096 on infinite",
    },
    Known {
        operations: &["div"],
        floats: true,
        when: When::SmallDivisor,
        reason: "a quotient is a product with the reciprocal, which overflows",
    },
    Known {
        operations: &["add", "sub", "mul", "div"],
        floats: true,
        when: When::Ceiling,
        reason: "a constant behind a product becomes part of its sum, which is infinite from 32768 on",
    },
    Known {
        operations: &["round"],
        floats: true,
        when: When::Tie,
        reason: "a rounding to a range is a table that rounds away from zero",
    },
    Known {
        operations: &["pow"],
        floats: true,
        when: When::MinusZero,
        reason: "the reciprocal of minus zero is plus infinity on the device",
    },
    Known {
        operations: &["pow"],
        floats: true,
        when: When::SignOfZero,
        reason: "a sum of products, and a table, has a zero of its own sign where its operand is zero",
    },
];

/// Returns true for an operation that may give a zero of the other sign: it is a product with a matrix, or tables.
pub fn loses_sign_of_zero(kind: &OpKind) -> bool {
    use Unary::{Ceil, Floor, Round, Sign};
    let moves = matches!(kind, OpKind::Gather { .. } | OpKind::GatherAlong { .. } | OpKind::ScatterAlong { .. });
    let pads = matches!(kind, OpKind::Pad { .. } | OpKind::PadEdge { .. } | OpKind::Resize { .. });
    moves || pads || matches!(kind, OpKind::Unary(Ceil | Floor | Round | Sign))
}

/// Magnitude at which the exact array's sums become infinite, with a margin for inexact operands.
pub const CEILING: f32 = 32_000.0;

/// Largest number that the crop leaves finite.
const CROP_LIMIT: f32 = 4094.0;

/// Divisors below this have a reciprocal beyond fp16.
const SMALL: f32 = 1.0 / 65504.0;

impl Known {
    pub fn is_about(&self, kind: &OpKind, operand: DType) -> bool {
        // A choice by a truth value is one of its sides' type: the caller gives that.
        self.operations.contains(&kind.name()) && (operand.is_float() || !self.floats)
    }

    /// Returns true if an element is affected, from its operands and their bounds.
    pub fn affects(&self, operands: &[(f32, f32)], signs_lost: bool) -> bool {
        match self.when {
            When::NotFinite => operands.iter().any(|(x, bound)| !x.is_finite() || bound.is_infinite()),
            When::Nan => operands.iter().any(|(x, _)| x.is_nan()),
            When::Cropped => operands.iter().any(|(x, bound)| x.abs() + bound > CROP_LIMIT),
            When::Ceiling => [|x: f32, y: f32| x + y, |x, y| x * y, |x, y| x / y].iter().any(|f| {
                let sizes = operands.iter().map(|(x, bound)| x.abs() + bound);
                sizes.reduce(f).is_some_and(|size| size >= CEILING)
            }),
            When::Tie => operands.iter().any(|(x, _)| x.abs().fract() == 0.5),
            When::SignOfZero if !signs_lost => false,
            When::MinusZero | When::SignOfZero => match operands {
                [(x, _), (y, bound), ..] => {
                    *x == 0.0 && (x.is_sign_negative() || self.when == When::SignOfZero) && y - bound < 0.0
                }
                _ => false,
            },
            When::SmallDivisor => operands.get(1).is_some_and(|(y, bound)| y.abs() - bound <= SMALL),
        }
    }
}
