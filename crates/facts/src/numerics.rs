//! Arithmetic of the engines: rules with their ground, and the parameters of the models derived from them.
//!
//! A source key is a section of `docs/numerics.md`. The letters of [`crate::Evidence`] speak of program bytes; results
//! of a device need words of their own, hence [`Ground`].

/// Ground of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ground {
    /// The rule reproduces published device results, bit for bit or to the last digits of a published norm, and its
    /// alternatives do not.
    Recomputed,
    /// Written by someone who measured; the raw results are not published, or do not separate the rule from others.
    Reported,
    /// No source: chosen to complete a model.
    Chosen,
}

impl Ground {
    /// One word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Ground::Recomputed => "recomputed",
            Ground::Reported => "reported",
            Ground::Chosen => "chosen",
        }
    }
}

/// Unit of the machine that a rule describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// The multiply-accumulate arrays: convolution, linear layers, products of matrices.
    Mac,
    /// Sums whose path through the machine is not known.
    Sum,
    /// The planar engine: elementwise operations.
    Planar,
    /// Activation tables, and the stages after a sum.
    Table,
    /// The copy of a slice of a row that does not start at the first column.
    Crop,
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Part of the machine.
    pub unit: Unit,
    /// Subject.
    pub subject: &'static str,
    /// The rule.
    pub statement: &'static str,
    /// Chips with results behind the rule.
    pub chips: &'static str,
    /// Ground.
    pub ground: Ground,
    /// Section of `docs/numerics.md`.
    pub source: &'static str,
}

/// Rounding of a value halfway between two representable ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ties {
    /// To the one with an even last digit.
    Even,
    /// To the one of larger magnitude.
    Away,
}

/// Interpretation of patterns with exponent 31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Specials {
    /// As numbers with that exponent: 65536 to 131008.
    Numbers,
    /// NaN as positive infinity; infinities of both signs in one sum, and infinity times zero, give positive zero.
    Infinities,
}

/// First stage of a sum: consecutive terms are added in sequence in a short float; later stages receive the result only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Terms of a tile.
    pub lanes: u32,
    /// Significant bits of each operand that an addition keeps, counted from the leading bit of the larger one; ties
    /// to even.
    pub significand_bits: u32,
}

/// Parameters of a multiply-accumulate array. Operands are fp16, products are rounded half away from zero to
/// `2^-fraction_bits`, sums are exact integers of that unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac {
    /// Name in reports.
    pub name: &'static str,
    /// Binary digits after the point of the accumulator.
    pub fraction_bits: u32,
    /// Products whose exponents add up to less are dropped before rounding. Zero and subnormal numbers have exponent -14.
    pub least_exponent_sum: i32,
    /// Sums saturate to infinity at `2^ceiling_log2` in magnitude. `None`: only the result's format limits.
    pub ceiling_log2: Option<u32>,
    /// First stage, if the array has one.
    pub tile: Option<Tile>,
    /// Rounding of the result.
    pub ties: Ties,
    /// Operands with exponent 31.
    pub specials: Specials,
    /// Subnormal operands count as zero.
    pub flush_subnormals: bool,
}

/// The array as its published results show it, M1 to M6: a Q15.16 integer accumulator. Section `mac`.
pub static FIXED: Mac = Mac {
    name: "fixed",
    fraction_bits: 16,
    least_exponent_sum: -16,
    ceiling_log2: Some(15),
    tile: None,
    ties: Ties::Away,
    specials: Specials::Numbers,
    flush_subnormals: false,
};

/// The M1's array as the book's probes describe it: tiles of four. Section `tiles`.
pub static TILED: Mac = Mac {
    name: "tiled",
    tile: Some(Tile { lanes: 4, significand_bits: 12 }),
    ties: Ties::Even,
    specials: Specials::Infinities,
    flush_subnormals: true,
    ..FIXED
};

/// [`TILED`] on a path that holds the whole fp16 range: the book's dedicated reduction. Section `tiles`.
pub static TILED_SUM: Mac = Mac { name: "tiled-sum", ceiling_log2: None, ..TILED };

/// Parameters of elementwise arithmetic: exact, then one rounding to fp16, subnormal numbers kept. NaN is read as positive
/// infinity, indeterminate forms give positive zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Planar {
    /// Rounding of the result.
    pub ties: Ties,
}

/// The planar engine. Section `planar`.
pub static PLANAR: Planar = Planar { ties: Ties::Away };

/// The planar engine with the ties that the book reports of the M1's results. Section `planar`.
pub static PLANAR_EVEN: Planar = Planar { ties: Ties::Even };

/// A model of the arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Model {
    /// fp16 operands, fp32 sums, one rounding to nearest even: that of no device, and the fastest.
    #[default]
    Fast,
    /// [`FIXED`].
    Fixed,
    /// [`TILED`].
    Tiled,
}

impl Model {
    /// All models.
    pub const ALL: [Model; 3] = [Model::Fast, Model::Fixed, Model::Tiled];

    /// The array's parameters; `None` where sums are fp32.
    pub const fn mac(self) -> Option<&'static Mac> {
        match self {
            Model::Fast => None,
            Model::Fixed => Some(&FIXED),
            Model::Tiled => Some(&TILED),
        }
    }

    /// Parameters of elementwise arithmetic, tables and stages after a sum; `None` where they are fp32.
    pub const fn planar(self) -> Option<&'static Planar> {
        match self {
            Model::Fast => None,
            Model::Fixed => Some(&PLANAR),
            Model::Tiled => Some(&PLANAR_EVEN),
        }
    }

    /// Parameters of the sum of a reduction task; `None` is one sum without rounding.
    pub const fn reduction(self) -> Option<&'static Mac> {
        match self {
            Model::Fast | Model::Fixed => None,
            Model::Tiled => Some(&TILED_SUM),
        }
    }

    /// Name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Fast => "fast",
            Model::Fixed => FIXED.name,
            Model::Tiled => TILED.name,
        }
    }

    /// The model of that name.
    pub fn by_name(name: &str) -> Option<Model> {
        Model::ALL.into_iter().find(|m| m.name() == name)
    }
}

/// Arithmetic of a generation.
#[derive(Clone, Copy, Debug)]
pub struct Generation {
    /// Compiler target without its size suffix.
    pub generation: &'static str,
    /// Model of products.
    pub mac: Model,
    /// Ground for `mac`.
    pub mac_ground: Ground,
    /// Base-2 logarithm of the gain of a crop: values that overflow fp16 with it become infinite.
    pub crop_gain_log2: Option<u32>,
    /// Ground for `crop_gain_log2`.
    pub crop_ground: Ground,
    /// Devices with results.
    pub devices: &'static str,
}

/// All generations, in order. Section `mac` for products, `crop` for crops.
pub static GENERATIONS: &[Generation] = &[
    Generation {
        generation: "h13",
        mac: Model::Fixed,
        mac_ground: Ground::Recomputed,
        crop_gain_log2: Some(4),
        crop_ground: Ground::Recomputed,
        devices: "M1, M1 Max",
    },
    Generation {
        generation: "h14",
        mac: Model::Fixed,
        mac_ground: Ground::Recomputed,
        crop_gain_log2: Some(4),
        crop_ground: Ground::Recomputed,
        devices: "M2 Pro, M2 Max",
    },
    Generation {
        generation: "h15",
        mac: Model::Fixed,
        mac_ground: Ground::Chosen,
        crop_gain_log2: None,
        crop_ground: Ground::Reported,
        devices: "",
    },
    Generation {
        generation: "h16",
        mac: Model::Fixed,
        mac_ground: Ground::Recomputed,
        crop_gain_log2: None,
        crop_ground: Ground::Recomputed,
        devices: "M4",
    },
    Generation {
        generation: "h17",
        mac: Model::Fixed,
        mac_ground: Ground::Recomputed,
        crop_gain_log2: None,
        crop_ground: Ground::Recomputed,
        devices: "M5",
    },
    Generation {
        generation: "h18",
        mac: Model::Fixed,
        mac_ground: Ground::Recomputed,
        crop_gain_log2: None,
        crop_ground: Ground::Recomputed,
        devices: "M6",
    },
];

/// The generation of that name, with or without a size suffix (`h16g`).
pub fn generation(name: &str) -> Option<&'static Generation> {
    GENERATIONS.iter().find(|g| name.get(..3) == Some(g.generation))
}

const fn rule(
    unit: Unit,
    subject: &'static str,
    statement: &'static str,
    chips: &'static str,
    ground: Ground,
    source: &'static str,
) -> Rule {
    Rule { unit, subject, statement, chips, ground, source }
}

/// All rules. Where two rules for one subject disagree, both are rows, and `docs/numerics.md` states the choice.
pub static RULES: &[Rule] = {
    use Ground::*;
    use Unit::*;
    &[
        rule(
            Mac,
            "operands",
            "fp16; exponent 31 is an ordinary exponent: 0x7c00 is 65536, 0x7e00 is 98304",
            "M4 M6",
            Reported,
            "mac",
        ),
        rule(Mac, "subnormal operands", "kept, with exponent -14", "M1 M2 M4 M6", Recomputed, "mac"),
        rule(
            Mac,
            "dropped products",
            "a product counts only if its exponents add up to -16 at least",
            "M1 M2 M4 M5 M6",
            Recomputed,
            "mac",
        ),
        rule(
            Mac,
            "rounding of products",
            "half away from zero to a multiple of 2^-16",
            "M1 M2 M4 M5 M6",
            Recomputed,
            "mac",
        ),
        rule(
            Mac,
            "accumulator",
            "an integer of unit 2^-16; the order of terms shows only in overflow",
            "M1 M2 M4 M5 M6",
            Recomputed,
            "mac",
        ),
        rule(
            Mac,
            "overflow",
            "a sum of 2^15 or more in magnitude is infinite and stays so",
            "M4 M6",
            Recomputed,
            "mac",
        ),
        rule(Mac, "largest result", "32752 passes, 32768 is infinite", "M1 M2 M4 M5 M6", Recomputed, "mac"),
        rule(Mac, "rounding of results", "half away from zero to fp16", "M1 M2 M4 M5 M6", Recomputed, "mac"),
        rule(Mac, "bias", "initial value of the accumulator, rounded as products are", "M4 M6", Reported, "mac"),
        rule(Mac, "8-bit operands", "32-bit integer sums, scaled afterwards", "M6", Reported, "open"),
        rule(
            Mac,
            "single-channel 1x1 convolution",
            "a fill of 60000 passes: this path has no ceiling at 2^15",
            "M1",
            Reported,
            "open",
        ),
        rule(Mac, "single product", "40000 * 1 is infinite", "M4 M6", Recomputed, "mac"),
        rule(Sum, "first stage", "tiles of four lanes, rounded, then a wide sum", "M1", Reported, "tiles"),
        rule(Sum, "rounding of results", "half to even", "M1", Reported, "tiles"),
        rule(
            Sum,
            "rounding of results",
            "eight integers that add up to 2049 give 2050",
            "M1 M2 M4 M5 M6",
            Recomputed,
            "tiles",
        ),
        rule(Sum, "range", "a reduction holds the fp16 range: it overflows beyond 65504", "M1", Reported, "tiles"),
        rule(Mac, "subnormal operands", "two of them in a product of matrices give plus zero", "M1", Reported, "tiles"),
        rule(Planar, "rounding", "exact, then half away from zero to fp16", "M6", Recomputed, "planar"),
        rule(
            Planar,
            "subnormal numbers",
            "kept in operands and results; the book says so of the M1 too",
            "M6",
            Recomputed,
            "planar",
        ),
        rule(
            Planar,
            "range",
            "results overflow beyond 65504 only; the book says so of the M1 too",
            "M6",
            Recomputed,
            "planar",
        ),
        rule(Planar, "NaN", "reads as plus infinity; the book says so of the M1 too", "M6", Recomputed, "planar"),
        rule(
            Planar,
            "indeterminate forms",
            "inf - inf, 0 * inf, sqrt(-1), rsqrt(-1), log(-1) give plus zero",
            "M1",
            Reported,
            "planar",
        ),
        rule(
            Planar,
            "signed zero",
            "the reciprocal and the reciprocal square root of -0 are plus infinity",
            "M1",
            Reported,
            "planar",
        ),
        rule(
            Crop,
            "gain",
            "values pass through a gain of 16: 4094 is finite, 4096 is infinite",
            "M1 M2",
            Recomputed,
            "crop",
        ),
        rule(Planar, "several stages", "one rounding, at the end of the task", "", Chosen, "planar"),
        rule(Planar, "minus zero", "becomes plus zero in the adder of the bias", "M1", Reported, "planar"),
        rule(
            Sum,
            "sum of a reduction task",
            "without rounding until the result",
            "M1 M2 M4 M5 M6",
            Recomputed,
            "planar",
        ),
        rule(
            Table,
            "stages behind a sum",
            "the sum is rounded to fp16, then scale and bias once more",
            "M1",
            Reported,
            "tables",
        ),
        rule(Table, "interpolation", "wide, then one rounding", "M1", Reported, "tables"),
        rule(Table, "roots and logarithms of negative numbers", "plus zero", "M1", Reported, "tables"),
        rule(
            Crop,
            "which copies",
            "plain ones whose source begins inside the rows of an input port; no known word says it",
            "",
            Chosen,
            "crop",
        ),
        rule(Crop, "gain", "none", "M4 M5 M6", Recomputed, "crop"),
    ]
};
