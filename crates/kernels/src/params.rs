//! Parameters of arithmetic, as plain data.

use crate::arrays::array_of;

/// Rounding of a value halfway between two representable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ties {
    /// To the neighbour with an even last bit.
    Even,
    /// To the neighbour of larger magnitude.
    Away,
}

/// Interpretation of fp16 patterns with exponent 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// As finite numbers with that exponent: 65536 to 131008.
    Numbers,
    /// As infinities, with NaN read as plus infinity; infinities of both signs in one sum, and infinity times zero, give plus zero.
    Infinities,
}

/// First stage of a sum: consecutive terms are added one by one in a short float, and their sum goes to the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Terms of a tile.
    pub lanes: u32,
    /// Significant bits that an addition keeps of each operand, counted from the leading bit of the larger one; ties to even.
    pub significand_bits: u32,
}

/// A fixed-point multiply-accumulate unit. Operands are fp16, products are rounded half away from zero to `2^-fraction_bits`, sums
/// are exact integers of that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccumulatorSpec {
    /// Fraction bits of the accumulator.
    pub fraction_bits: u32,
    /// A product whose exponents sum to less is dropped before rounding. Zero and subnormal numbers have exponent -14.
    pub least_exponent_sum: i32,
    /// A sum whose magnitude reaches `2^ceiling_log2` is infinite from then on. `None`: limited by the format of the result alone.
    pub ceiling_log2: Option<u32>,
    /// First stage, if there is one.
    pub tile: Option<Tile>,
    /// Rounding of the result.
    pub ties: Ties,
    /// Interpretation of operands with exponent 31.
    pub specials: Specials,
    /// True if subnormal operands are flushed to zero.
    pub flush_subnormals: bool,
}

/// Piecewise linear function: 32 segments between 33 knots, and a linear tail on each side.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Values at the knots.
    pub knots: [f32; 33],
    /// Knots per unit of the argument; a power of two.
    pub knots_per_unit: f32,
    /// Index of the knot at argument zero.
    pub origin: f32,
    /// True for an exponential: the knots span the fractional part of the argument, and the result is scaled by `2^n` for its integer part `n`.
    pub is_exponential: bool,
    /// Slope and intercept of the tails, below the first knot and above the last one.
    pub tails: [[f32; 2]; 2],
    /// Saturation limits: the function is constant for arguments at most the first, and at least the second.
    pub limits: [f32; 2],
    /// Values of the function beyond the saturation limits.
    pub constants: [f32; 2],
    /// True for an odd function, evaluated on magnitudes.
    pub is_odd: bool,
    /// True if the value at every negative argument is zero.
    pub is_zero_below_zero: bool,
}

impl Curve {
    /// The argument itself between two limits.
    pub fn clamp(limits: [f32; 2]) -> Curve {
        let line = [1.0, 0.0];
        Curve {
            knots: array_of(|i| i as f32),
            knots_per_unit: 1.0,
            origin: 0.0,
            is_exponential: false,
            tails: [line; 2],
            limits,
            constants: limits,
            is_odd: false,
            is_zero_below_zero: false,
        }
    }

    /// Returns true for [`Curve::clamp`].
    pub fn is_clamp(&self) -> bool {
        *self == Curve::clamp(self.limits)
    }
}

/// Arguments of a [`Curve`] whose values need steps of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any argument.
    All,
    /// None: the value is the argument between the saturation limits, which are values of themselves.
    Limits,
    /// None beyond the knots but for those at the saturation limits.
    Knots,
    /// None below the first knot. Those from the last knot on have the value of the tail. The curve is not exponential.
    Above,
}

/// Rounding of a wide result to fp16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rounding {
    /// Rounding of values halfway between two fp16 numbers.
    pub ties: Ties,
}

impl Rounding {
    /// Half to even.
    pub const EVEN: Rounding = Rounding { ties: Ties::Even };
    /// Half away from zero.
    pub const AWAY: Rounding = Rounding { ties: Ties::Away };
}

/// Element formats in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE half precision.
    Float16,
    /// Signed bytes.
    Int8,
    /// Unsigned bytes.
    Uint8,
}

/// Operations on two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// The larger one.
    Max,
    /// The smaller one.
    Min,
    /// The square of the sum.
    SquareOfSum,
}
