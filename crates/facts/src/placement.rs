//! Cost model of the framework's segmenter: numbers for each back end.
//!
//! Read from recorded estimates of an M4 and an M6 (`docs/evidence.md`, key `m6-study`): a work quantity over a rate.
//! Rates are those of the default model, or of a leaf of a decision tree where one was seen; the trees themselves are
//! not known, so a leaf seen once stands for its operation. The default model is the larger of arithmetic and memory.

/// Milliseconds to start a segment on the engine.
pub const LAUNCH_MS: f64 = 0.125;
/// Milliseconds for each switch of back end.
pub const SWITCH_MS: f64 = 0.125;
/// Milliseconds for an output of the graph that the engine computes.
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

/// Default rates; the first row with the chip's family applies. Families without records use the M4's.
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

/// Work quantity of a leaf of a decision tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Floating-point operations as the segmenter counts them.
    Flops,
    /// Elements of the data operands.
    Data,
    /// Elements of all operands, parameters included.
    Operands,
}

/// Form of an operation that a leaf applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Every form.
    Any,
    /// Dilation above 1.
    Dilated,
    /// As many groups as channels (depthwise).
    Depthwise,
}

/// A leaf: the rate of one operation on the engine and on the CPU's two paths, in 10^9 a second; 0: the default model.
#[derive(Debug)]
pub struct Leaf {
    /// Operations.
    pub ops: &'static [&'static str],
    /// Form of the operations.
    pub form: Form,
    /// Work quantity.
    pub work: Work,
    /// Least observed work, in 10^6.
    pub from_millions: f64,
    /// Neural engine.
    pub ane: f64,
    /// Vector library on the CPU.
    pub bnns: f64,
    /// Older CPU path.
    pub classic: f64,
}

macro_rules! leaves {
    ( $( [ $( $op:literal ),* ] $form:ident $work:ident $from:literal: $ane:literal $bnns:literal $classic:literal; )* ) => {
        /// Observed leaves; of those of an operation, the last one whose form and least work match applies.
        pub static LEAVES: &[Leaf] = &[ $( Leaf {
            ops: &[ $( $op ),* ], form: Form::$form, work: Work::$work, from_millions: $from,
            ane: $ane, bnns: $bnns, classic: $classic,
        } ),* ];
    };
}

leaves! {
    ["conv"] Any Flops 0.0: 7161.0 388.06 337.38;
    ["conv"] Any Flops 18.0: 16151.7 754.5 656.0;
    ["conv"] Dilated Flops 0.0: 7161.0 388.06 337.38;
    ["conv"] Depthwise Flops 0.0: 471.2 27.085 23.548;
    ["conv_transpose"] Any Flops 0.0: 37832.0 211.66 184.02;
    ["conv_transpose"] Any Flops 134.0: 15205.0 63.14 54.9;
    ["linear"] Any Flops 0.0: 106.92 68.84 59.85;
    ["linear"] Any Flops 8.0: 580.45 22.544 19.6;
    ["linear"] Any Flops 33.0: 10581.0 335.5 291.7;
    ["linear"] Any Flops 67.0: 5290.8 167.76 145.85;
    ["relu"] Any Data 0.0: 25.0 25.0 25.0;
    ["add", "sub", "mul"] Any Operands 0.0: 17.99 10.56 9.18;
    ["concat"] Any Data 0.0: 50.0 5.75 5.0;
    ["transpose"] Any Data 0.0: 17.215 21.865 19.01;
    ["gather"] Any Operands 0.0: 0.0 11.5 10.0;
}

/// Floating-point operations per element of the result, for operations other than a matrix product.
pub static FLOPS: &[(&str, f64)] = &[("gelu", 78.0)];

/// Operations whose constants the default model does not count as memory traffic.
pub static PARAMETERS_FREE: &[&str] = &["batch_norm", "layer_norm"];
