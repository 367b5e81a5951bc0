//! Conversion of rows of [`anemone_facts::numerics`] to parameters of the kernels.

use anemone_facts::code::planar;
use anemone_facts::numerics as facts;
use anemone_facts::numerics::Model;
use anemone_kernels::params::{AccumulatorSpec, BinaryOp, ElementType, Rounding, Specials, Ties, Tile};
use anemone_program::Element;

/// Parameters of a multiply-accumulate array.
pub const fn accumulator(row: &facts::Mac) -> AccumulatorSpec {
    let &facts::Mac { fraction_bits, least_exponent_sum, ceiling_log2, flush_subnormals, .. } = row;
    AccumulatorSpec {
        fraction_bits,
        least_exponent_sum,
        ceiling_log2,
        tile: match row.tile {
            Some(facts::Tile { lanes, significand_bits }) => Some(Tile { lanes, significand_bits }),
            None => None,
        },
        ties: ties(row.ties),
        specials: match row.specials {
            facts::Specials::Numbers => Specials::Numbers,
            facts::Specials::Infinities => Specials::Infinities,
        },
        flush_subnormals,
    }
}

/// Rounding of elementwise results.
pub const fn rounding(row: &facts::Planar) -> Rounding {
    Rounding { ties: ties(row.ties) }
}

const fn ties(ties: facts::Ties) -> Ties {
    match ties {
        facts::Ties::Even => Ties::Even,
        facts::Ties::Away => Ties::Away,
    }
}

/// Operation for a code of the field `PeOp`.
pub(crate) fn binary_op(code: u32) -> Option<BinaryOp> {
    match code {
        planar::ADD => Some(BinaryOp::Add),
        planar::MUL => Some(BinaryOp::Mul),
        planar::MAX => Some(BinaryOp::Max),
        planar::MIN => Some(BinaryOp::Min),
        planar::SQUARE_SUM => Some(BinaryOp::SquareOfSum),
        _ => None,
    }
}

/// Element type for an element format.
pub(crate) fn element_type(element: Element) -> ElementType {
    match element {
        Element::Float16 => ElementType::Float16,
        Element::Int8 => ElementType::Int8,
        Element::Uint8 => ElementType::Uint8,
    }
}

pub(crate) static FIXED: AccumulatorSpec = accumulator(&facts::FIXED);
static TILED: AccumulatorSpec = accumulator(&facts::TILED);
static TILED_SUM: AccumulatorSpec = accumulator(&facts::TILED_SUM);
static PLANAR: Rounding = rounding(&facts::PLANAR);
static PLANAR_EVEN: Rounding = rounding(&facts::PLANAR_EVEN);

/// Parameters of a number model.
pub trait Parameters {
    /// Accumulator of products; `None` for fp32 sums.
    fn accumulator(self) -> Option<&'static AccumulatorSpec>;
    /// Rounding of elementwise results, tables and epilogues; `None` for fp32.
    fn rounding(self) -> Option<&'static Rounding>;
    /// Adders of a reduction; `None` for an unrounded sum.
    fn adders(self) -> Option<&'static AccumulatorSpec>;
}

impl Parameters for Model {
    fn accumulator(self) -> Option<&'static AccumulatorSpec> {
        match self {
            Model::Fast => None,
            Model::Fixed => Some(&FIXED),
            Model::Tiled => Some(&TILED),
        }
    }

    fn rounding(self) -> Option<&'static Rounding> {
        match self {
            Model::Fast => None,
            Model::Fixed => Some(&PLANAR),
            Model::Tiled => Some(&PLANAR_EVEN),
        }
    }

    fn adders(self) -> Option<&'static AccumulatorSpec> {
        match self {
            Model::Fast | Model::Fixed => None,
            Model::Tiled => Some(&TILED_SUM),
        }
    }
}
