//! The activation table record: 43 halfwords at the head of an engine's stream.
//!
//! Source: every table in the M1 sample programs; see `docs/evidence.md`, key `h13-lut`. On the M4 the same
//! record has a stream of its own; see `docs/evidence.md`, key `h16-containers`.

/// Bytes of a record; the stream is padded to [`STREAM_BYTES`].
pub const RECORD_BYTES: usize = 86;
/// Bytes a table occupies in a stream.
pub const STREAM_BYTES: usize = 128;
/// Knots of the piecewise linear part.
pub const KNOTS: usize = 33;
/// Halfword positions.
pub mod place {
    /// Lower bound of the table's domain.
    pub const X_LOW: usize = 0;
    /// Upper bound of the table's domain.
    pub const X_HIGH: usize = 1;
    /// Result at and below `X_LOW`.
    pub const Y_LOW: usize = 2;
    /// Result at and above `X_HIGH`.
    pub const Y_HIGH: usize = 3;
    /// First knot.
    pub const KNOT: usize = 4;
    /// Slope below the domain, then intercept.
    pub const LEFT: usize = 37;
    /// Slope above the domain, then intercept.
    pub const RIGHT: usize = 39;
    /// Signed power of two that scales the argument.
    pub const SHIFT: usize = 41;
    /// Mode in bits 4:0, symmetry in bits 7:5.
    pub const MODE: usize = 42;
}

/// Map from an argument to a table coordinate, and from the interpolated value to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// Knot 0 at x = 0.
    FromZero = 0,
    /// Knot 16 at x = 0.
    Centred = 1,
    /// Knot 32 at x = 0.
    ToZero = 2,
    /// Fractional part of the argument.
    Fraction = 3,
    /// Integer part, toward zero.
    Integer = 4,
    /// Square root: mantissa in [1/2, 2) with even exponent.
    Sqrt = 5,
    /// Reciprocal square root: mantissa as for [`Mode::Sqrt`].
    Rsqrt = 6,
    /// Reciprocal: mantissa in [1/2, 1).
    Reciprocal = 7,
    /// Square, presumably: position in the vendor's list only.
    Square = 8,
    /// Base-2 logarithm: mantissa in [1/2, 1).
    Log2 = 9,
    /// Power of two: fractional part by the table, integer part to the exponent.
    Exp2 = 10,
}

impl Mode {
    /// The mode of that code.
    pub fn from_code(code: u16) -> Option<Mode> {
        use Mode::*;
        [FromZero, Centred, ToZero, Fraction, Integer, Sqrt, Rsqrt, Reciprocal, Square, Log2, Exp2]
            .into_iter()
            .find(|m| *m as u16 == code)
    }
}

/// Symmetry of the function for negative arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Symmetry {
    /// No symmetry.
    None = 0,
    /// f(-x) = -f(x): evaluates |x| and restores the sign.
    Odd = 3,
    /// Negative arguments give +0 (square root, logarithm).
    NonNegative = 6,
}

impl Symmetry {
    /// The symmetry of that code.
    pub fn from_code(code: u16) -> Option<Symmetry> {
        [Symmetry::None, Symmetry::Odd, Symmetry::NonNegative].into_iter().find(|s| *s as u16 == code)
    }
}

/// Custom tables in the compiler, and the reason why they are unreachable.
#[derive(Debug)]
pub struct Custom {
    /// The compiler's operation.
    pub opcode: &'static str,
    /// Reason why no netplist reaches it.
    pub reason: &'static str,
    /// Basis.
    pub basis: crate::Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// Custom tables in netplists.
pub const CUSTOM: Custom = Custom {
    opcode: "kZinIrNonLinearCustomLUT",
    reason: "the parser of units wants the keys for saturation and those of a version both, and then refuses both together, so \
             no table of one's own compiles",
    basis: crate::Basis::Decoded,
    source: "validators",
};

/// A recorded table: the fit that gave its numbers is not known.
#[derive(Debug)]
pub struct Recorded {
    /// The function.
    pub name: &'static str,
    /// All halfwords of the record.
    pub halfwords: [u16; RECORD_BYTES / 2],
    /// Basis.
    pub basis: crate::Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// The Gaussian error linear unit: the same in a raw stream of 4.2.1, which is executed, and by its digest in the records of 9.509.
pub const GELU: Recorded = Recorded {
    name: "gelu",
    halfwords: [
        0xc466, 0x7c00, 0x0000, 0x7c00, 0x0000, 0x8e8a, 0x9230, 0x9757, 0x9bf0, 0xa011, 0xa3bf, 0xa6ec, 0xa9bf, 0xac75,
        0xae67, 0xb03d, 0xb11e, 0xb184, 0xb104, 0xaecf, 0x922d, 0x3098, 0x357e, 0x389f, 0x3ab8, 0x3c78, 0x3d9a, 0x3eb9,
        0x3fd2, 0x4072, 0x40f8, 0x417c, 0x41fe, 0x427f, 0x4300, 0x4380, 0x4400, 0x0000, 0x0000, 0x3c00, 0x0000, 0x0002,
        0x0001,
    ],
    basis: crate::Basis::Compiler,
    source: "h13-lut",
};

/// An argument times its sigmoid, by its digest in the records of 9.509.
pub const SILU: Recorded = Recorded {
    name: "silu",
    halfwords: [
        0xc91a, 0x7c00, 0x0000, 0x7c00, 0x98cd, 0x9c5e, 0x9e65, 0xa0ef, 0xa37b, 0xa5a9, 0xa83b, 0xaa45, 0xac8e, 0xae85,
        0xb088, 0xb210, 0xb3a9, 0xb470, 0xb460, 0xb284, 0x96fb, 0x34be, 0x39d0, 0x3ce4, 0x3f0b, 0x409f, 0x41b7, 0x42cc,
        0x43dc, 0x4473, 0x44f8, 0x457a, 0x45fc, 0x467e, 0x46fe, 0x477f, 0x47ff, 0x945d, 0xa191, 0x3c00, 0x9c00, 0x0001,
        0x0001,
    ],
    basis: crate::Basis::Compiler,
    source: "h13-lut",
};

/// An argument times the sigmoid of 1.702 times it, by its digest in the records of 9.509.
pub const GELU_BY_SIGMOID: Recorded = Recorded {
    name: "gelu",
    halfwords: [
        0xc500, 0x7c00, 0x0000, 0x7c00, 0x9c5b, 0x9e7b, 0xa095, 0xa281, 0xa495, 0xa66b, 0xa872, 0xaa16, 0xac18, 0xad67,
        0xaeed, 0xb044, 0xb0f7, 0xb14e, 0xb0dd, 0xaebb, 0x9296, 0x30a2, 0x3592, 0x38ad, 0x3ac2, 0x3c77, 0x3d91, 0x3eaa,
        0x3fbe, 0x4068, 0x40ee, 0x4173, 0x41f7, 0x427a, 0x42fb, 0x437d, 0x43fe, 0x9c5b, 0xa572, 0x3c00, 0x9c00, 0x0002,
        0x0001,
    ],
    basis: crate::Basis::Compiler,
    source: "h13-lut",
};
