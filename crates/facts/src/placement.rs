//! Numbers of the framework's segmenter: what it takes a back end to cost.
//!
//! Read from recorded estimates of an M4 and an M6 (`docs/evidence.md`, key `m6-study`): a work quantity over a rate.
//! Rates are those of the default model, or of a leaf of a decision tree where one was seen; the trees themselves are
//! not known, so a leaf seen once stands for its operation.

/// Milliseconds to start a segment on the engine.
pub const LAUNCH_MS: f64 = 0.125;
/// Milliseconds for each change of back end.
pub const SWITCH_MS: f64 = 0.125;
/// Milliseconds for an output of the graph that the engine gives.
pub const OUTPUT_MS: f64 = 0.125;

/// Rates of one back end on one family: operations in units of 10^9 a second, bytes in units of 2^30 a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Arithmetic.
    pub gflops: f64,
    /// Memory.
    pub gibps: f64,
}

/// Default rates of the three back ends that compete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Families or targets; empty: the others.
    pub of: &'static [&'static str],
    /// Neural engine.
    pub ane: Rate,
    /// Vector library on the CPU.
    pub bnns: Rate,
    /// Older CPU path.
    pub classic: Rate,
}

const fn rate(gflops: f64, gibps: f64) -> Rate {
    Rate { gflops, gibps }
}

/// Default rates, the first that names the chip's family. Families that were not recorded use the M4's.
pub static RATES: &[Rates] = &[
    Rates {
        of: &["A13"],
        ane: rate(12000.0, 68.0),
        bnns: rate(729.238525, 56.666664),
        classic: rate(634.0, 56.666664),
    },
    Rates { of: &["h19"], ane: rate(16900.0, 58.0), bnns: rate(968.5, 51.0), classic: rate(842.0, 42.5) },
    Rates { of: &[], ane: rate(19400.0, 68.0), bnns: rate(754.5, 56.666664), classic: rate(656.0, 56.666664) },
];

/// What a leaf of a decision tree divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Floating-point operations.
    Flops,
    /// Bytes of the operands.
    InputBytes,
}

/// A leaf: the rate of one operation on the engine and on the CPU's two paths, in 10^9 a second; 0: the default model.
#[derive(Debug)]
pub struct Leaf {
    /// Operations.
    pub ops: &'static [&'static str],
    /// What is divided.
    pub work: Work,
    /// Least work for which the leaf was seen, in 10^6.
    pub from_millions: f64,
    /// Neural engine.
    pub ane: f64,
    /// Vector library on the CPU.
    pub bnns: f64,
    /// Older CPU path.
    pub classic: f64,
}

macro_rules! leaves {
    ( $( [ $( $op:literal ),* ] $work:ident $from:literal: $ane:literal $bnns:literal $classic:literal; )* ) => {
        /// Leaves that were seen; the last one of an operation whose least work is reached counts.
        pub static LEAVES: &[Leaf] = &[ $( Leaf {
            ops: &[ $( $op ),* ], work: Work::$work, from_millions: $from, ane: $ane, bnns: $bnns, classic: $classic,
        } ),* ];
    };
}

leaves! {
    ["conv"] Flops 0.0: 7160.0 388.0 337.4;
    ["conv"] Flops 20.0: 16151.7 754.5 656.0;
    ["conv_transpose"] Flops 0.0: 15205.0 63.1 54.9;
    ["linear"] Flops 0.0: 10581.0 335.5 291.7;
    ["relu"] InputBytes 0.0: 50.0 50.0 50.0;
    ["add", "sub", "mul"] InputBytes 0.0: 35.98 21.12 18.36;
    ["concat"] InputBytes 0.0: 100.0 11.5 10.0;
    ["transpose"] InputBytes 0.0: 34.43 43.73 38.02;
    ["gather"] InputBytes 0.0: 0.0 23.0 20.0;
    ["max_pool", "avg_pool"] InputBytes 0.0: 0.0 18.63 16.2;
    ["gelu"] InputBytes 0.0: 0.0 19.35 16.82;
}
