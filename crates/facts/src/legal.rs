//! Limits of native layers as rows: the pattern grammar behind the exported validators, with Apple's reject strings.
//!
//! A rule applies to the layers of one validator, or to all, if all of its `when` conditions hold, and is then
//! compared with the layer's quantities: `docs/evidence.md`, key `validators`.

mod words;

use crate::Basis;

macro_rules! quantities {
    ( $( $name:ident $text:literal; )* ) => {
        /// A number of a layer that rules compare.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)] // each is named by its text
        pub enum Quantity { $( $name ),* }

        impl Quantity {
            /// All quantities.
            pub const ALL: &[Quantity] = &[ $( Quantity::$name ),* ];

            /// Name for messages.
            pub const fn name(self) -> &'static str {
                match self { $( Quantity::$name => $text ),* }
            }
        }
    };
}

// Extents are those of a layer's tensors in the order batch, depth, channels, height, width.
quantities! {
    Operands "operands";
    Rank "rank";
    SmallestExtent "smallest extent";
    Batch "batch";
    Depth "depth";
    Channels "channels";
    Height "height";
    Width "width";
    InputBatch "input batch";
    InputDepth "input depth";
    InputChannels "input channels";
    InputHeight "input height";
    InputWidth "input width";
    OutputChannels "output channels";
    SecondDepth "depth of the second operand";
    Contraction "extent that the first operand contracts";
    SecondContraction "extent that the second operand contracts";
    KernelWidth "kernel width";
    KernelHeight "kernel height";
    KernelDepth "kernel depth";
    PaddedHeight "padded input height";
    PaddedWidth "padded input width";
    PadLeft "left padding";
    Groups "groups";
    RuntimeWeight "weights given at run time";
    ContractionBytes "bytes of one output channel of the product";
    WeightBytes "weight bytes";
    RowBytes "bytes of all rows of the first operand";
    Rows "rows of the first operand";
    MaxPool "max pooling";
    Axis "axis";
    AxisExtent "extent of the axis";
    ChannelAxis "along channels";
    Neuron "mode";
    FusedSquare "square fused after it";
    PadChannels "padding of channels or depth";
    Mirror "symmetric or reflect padding";
    DepthBroadcast "broadcast along depth";
    GatherAxes "gather axes";
    IndexChannels "index channels";
    FactorX "factor x";
    FactorY "factor y";
    FactorZ "factor z";
    FactorXY "product of the factors";
    SampledAxes "resampled axes other than height and width";
    FractionalRatio "ratio that is no whole number";
    CoordinateChannels "coordinate channels";
    K "k";
    Circular "circular mode";
    MaskFormat "mask format that is not the operands'";
    KeyValueDiffer "key and value of different extents";
    SubtractMax "maximum subtracted";
    WholeTensor "whole-tensor form";
    Authored "authored directly";
    FromElementWise "made of an elementwise layer";
    Subtraction "subtraction";
    LayoutsDiffer "different layouts";
    E4m3 "E4M3 elements";
    E4m3ZeroPoint "E4M3 with a zero point";
    FollowsReshape "behind a reshape";
    AtLiveState "a live state as first operand";
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A number.
    Number(i64),
    /// A number of the chip's HAL, by name.
    Hal(&'static str),
    /// Another quantity of the layer.
    Of(Quantity),
}

/// Condition under which a rule applies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// The layer has the quantity, and it is not 0.
    Has(Quantity),
    /// The layer does not have the quantity, or it is 0.
    Lacks(Quantity),
    /// The chip is of one of these families.
    Family(&'static [&'static str]),
    /// The chip lacks a capability.
    Without(&'static str),
    /// The quantity is above a number.
    Above(Quantity, i64),
    /// The quantity is at most a number.
    AtMost(Quantity, i64),
    /// The engine's compiler is called directly, not through the framework.
    Direct,
}

/// Requirement of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatchParams {
    /// The quantity is between two bounds, both included.
    Between(Quantity, Bound, Bound),
    /// The first is divisible by the second.
    Divisible(Quantity, Quantity),
    /// The quantity is one of these.
    OneOf(Quantity, &'static [i64]),
    /// The quantity is a product of 2, 3, 4 and 8, or 1.
    StrideFactors(Quantity),
    /// The chip has the capability byte.
    Capability(&'static str),
    /// The chip's legality family is at least this; conversion only.
    Floor(u8),
    /// Rejects every layer that the rule applies to.
    Never(Quantity),
}

/// Stage that rejects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// An exported validator, which is also the legalizer.
    Validator,
    /// The parser of authored layers.
    Parser,
    /// Code generation, after the validator accepted.
    CodeGeneration,
    /// The umbrella over a network.
    Network,
    /// A guard of a rewrite: not reported to the user.
    Fusion,
}

impl Stage {
    /// Phrase for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Validator => "validator",
            Stage::Parser => "parser",
            Stage::CodeGeneration => "code generation",
            Stage::Network => "network",
            Stage::Fusion => "fusion",
        }
    }
}

/// Argument of a placeholder of a reject string.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// The value of the layer.
    Found,
    /// The lower bound.
    Least,
    /// The upper bound.
    Most,
    /// A fixed word.
    Word(&'static str),
    /// Another quantity.
    Of(Quantity),
    /// A number of the HAL.
    Hal(&'static str),
}

/// One limit.
#[derive(Debug)]
pub struct Rule {
    /// Validator by its stem; empty: every layer.
    pub layer: &'static str,
    /// Conditions under which it applies.
    pub when: &'static [When],
    /// Requirement.
    pub matches: MatchParams,
    /// Stage that rejects.
    pub stage: Stage,
    /// Apple's text, with its placeholders; empty where none is known.
    pub apple: &'static str,
    /// Arguments of the placeholders.
    pub fills: &'static [Fill],
    /// Text of the framework's segmenter, where it has its own.
    pub segmenter: &'static str,
    /// Code of the corresponding lint rule.
    pub lint: &'static str,
    /// Basis.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
    /// Remedy.
    pub fix: &'static str,
}

macro_rules! rules {
    ( $( $layer:literal $stage:ident $lint:literal $basis:ident $source:literal [ $( $when:expr ),* ] $matches:expr =>
         $apple:literal [ $( $fill:expr ),* ] $segmenter:literal $fix:literal; )* ) => {
        /// All limits, in the order in which they are applied to a layer.
        pub static RULES: &[Rule] = &[ $( Rule {
            layer: $layer, when: &[ $( $when ),* ], matches: $matches, stage: Stage::$stage, apple: $apple,
            fills: &[ $( $fill ),* ], segmenter: $segmenter, lint: $lint, basis: Basis::$basis, source: $source, fix: $fix,
        } ),* ];
    };
}

use Bound::{Hal, Number, Of};
use MatchParams::{Between, Capability, Divisible, Floor, Never, OneOf, StrideFactors};
use Quantity as Q;
use When::{Above, AtMost, Family, Has, Lacks, Without};

/// Apple's text for extents out of range: the layer's N D C H W, then the range of each.
const RANGE: &str = "Tensor dimensions N%zdD%zdC%zdH%zdW%zd are not within supported range, N[%zd-%zd]D[%zd-%zd]C[%zd-%zd]H[%zd-%zd]W[%zd-%zd].";
const RANGE_FILLS: &[Fill] = &[
    Fill::Of(Q::Batch),
    Fill::Of(Q::Depth),
    Fill::Of(Q::Channels),
    Fill::Of(Q::Height),
    Fill::Of(Q::Width),
    Fill::Word("1"),
    Fill::Hal("max_tensor_batch"),
    Fill::Word("1"),
    Fill::Hal("max_tensor_depth"),
    Fill::Word("1"),
    Fill::Hal("max_tensor_channels"),
    Fill::Word("1"),
    Fill::Hal("max_tensor_height"),
    Fill::Word("1"),
    Fill::Hal("max_tensor_width"),
];

/// Families from the A13 to the A15, whose chips have a register-level study of their own.
const EARLY: &[&str] = &["A13", "A14", "A15"];
const LATE: &[&str] = &["A16", "A17", "A18"];

macro_rules! range_rules {
    ( $( $lint:literal $basis:ident $quantity:ident $most:literal $fix:literal; )* ) => {
        /// Extents of every tensor of every layer, two rules per axis: not zero, not too large.
        pub static RANGES: &[Rule] = &[
            $( Rule {
                layer: "", when: &[], matches: Between(Q::$quantity, Number(1), Of(Q::$quantity)), stage: Stage::Validator,
                apple: RANGE, fills: RANGE_FILLS, segmenter: "", lint: "E05", basis: Basis::Measured, source: "validators",
                fix: "leave the tensor out",
            }, )*
            $( Rule {
                layer: "", when: &[], matches: Between(Q::$quantity, Number(0), Hal($most)), stage: Stage::Validator,
                apple: RANGE, fills: RANGE_FILLS, segmenter: "", lint: $lint, basis: Basis::$basis, source: "validators",
                fix: $fix,
            }, )*
        ];
    };
}

range_rules! {
    "E04" Decoded Batch "max_tensor_batch" "split the batch";
    "E02" Decoded Depth "max_tensor_depth" "split along depth";
    "E03" Measured Channels "max_tensor_channels" "split the channels";
    "E02" Measured Height "max_tensor_height" "tile along height";
    "E02" Measured Width "max_tensor_width" "tile along width";
}

// Layer, stage, lint rule, basis, source, conditions, requirement => Apple's text, segmenter's text, remedy.
rules! {
    "" Validator "E01" Measured "validators" [] Between(Q::Rank, Number(0), Hal("max_rank")) =>
        "" [] "" "merge axes";
    "Reshape" Validator "E01" Decoded "validators" [] Between(Q::Rank, Number(0), Number(5)) =>
        "Cannot reshape a tensor of rank > 5" [] "" "merge axes";

    "Conv" Validator "E10" Decoded "validators" [] Divisible(Q::InputChannels, Q::Groups) =>
        "input/output channels should be divisible by num group" [] "" "pad the channels to a multiple of the groups";
    "Conv" Validator "E10" Decoded "validators" [] Divisible(Q::OutputChannels, Q::Groups) =>
        "input/output channels should be divisible by num group" [] "" "pad the channels to a multiple of the groups";
    "Conv" Validator "E08" Measured "validators" [] Between(Q::KernelWidth, Number(1), Hal("max_kernel_width_fp16")) =>
        "Invalid conv kernel %s = %zd, It should be in [%zd,%zd]" [Fill::Word("width"), Fill::Found, Fill::Least, Fill::Most]
        "Error: conv with large kernel does not meet decomposition preconditions"
        "split the kernel along its width, or exchange width and height";
    "Conv" Validator "E08" Measured "validators" [] Between(Q::KernelHeight, Number(1), Hal("max_kernel_height")) =>
        "Invalid conv kernel %s = %zd, It should be in [%zd,%zd]" [Fill::Word("height"), Fill::Found, Fill::Least, Fill::Most]
        "Error: conv with large kernel does not meet decomposition preconditions"
        "split the kernel along its height";
    "Conv" Validator "E11" Decoded "validators" [] Between(Q::KernelDepth, Number(1), Hal("max_large_conv_kernel_dim_z")) =>
        "Invalid conv kernel %s = %zd, It should be in [%zd,%zd]" [Fill::Word("depth"), Fill::Found, Fill::Least, Fill::Most]
        "" "slices of two-dimensional convolution";
    "Conv" CodeGeneration "E11" Measured "op-matrix" [Family(EARLY)] Between(Q::KernelDepth, Number(1), Number(1)) =>
        "" [] "" "slices of two-dimensional convolution";
    "Conv" Validator "E09" Measured "validators" [] Between(Q::KernelHeight, Number(1), Of(Q::PaddedHeight)) =>
        "" [] "" "pad the input or crop the kernel";
    "Conv" Validator "E09" Decoded "validators" [] Between(Q::KernelWidth, Number(1), Of(Q::PaddedWidth)) =>
        "" [] "" "pad the input or crop the kernel";
    "Conv" CodeGeneration "E26" Measured "op-matrix" [Has(Q::RuntimeWeight)] Between(Q::InputBatch, Number(1), Number(1)) =>
        "" [] "" "batch 1, or gather the windows and multiply";
    "Linear" Validator "E13" Decoded "validators" [] Between(Q::Operands, Number(1), Number(1)) =>
        "Linear layer must have only one single input." [] "" "one operand, with constant weights";
    "Linear" Validator "E13" Decoded "validators" [] Between(Q::Rank, Number(0), Number(4)) =>
        "ANE cannot support Linear with input rank >= 5" [] "" "reshape to rank 4 or below";
    "MatrixMult" Validator "E12" Decoded "validators" [] Between(Q::Operands, Number(2), Number(2)) =>
        "Matrix mult. layer can only have two bottoms" [] "" "two operands";
    "MatrixMult" Validator "E12" Measured "validators" [] Between(Q::InputDepth, Number(1), Number(1)) =>
        "depth > 1 is not supported for MatMult" [] "" "fold depth into the batch, at rank 4 or below";
    "MatrixMult" Validator "E12" Measured "validators" [] Between(Q::SecondDepth, Number(1), Number(1)) =>
        "depth > 1 is not supported for MatMult" [] "" "fold depth into the batch, at rank 4 or below";
    "MatrixMult" Validator "E12" Decoded "validators" [] Between(Q::SecondContraction, Of(Q::Contraction), Of(Q::Contraction)) =>
        "" [] "" "as many channels in the second operand as columns in the first";
    "MatrixMult" Validator "E14" Compiler "validators" [] Between(Q::ContractionBytes, Number(0), Hal("kmem_cap_dense")) =>
        "can not fit the Kmem" [] "" "split the contraction into sums of shorter products";
    "MatrixMult" CodeGeneration "E14" Inferred "h13-oracles" [Family(&["A13"]), Has(Q::WeightBytes), AtMost(Q::Rows, 128)]
        Between(Q::RowBytes, Number(0), Number((2 << 20) - 1)) =>
        "can not fit the Kmem" [] "" "more than 128 rows, or fewer than 2 MB of them";
    "Pool" Validator "E09" Decoded "validators" [] Between(Q::Operands, Number(1), Number(1)) =>
        "Pool layer must have only one single input." [] "" "one operand";
    "Pool" Validator "E09" Decoded "validators" [] Between(Q::KernelHeight, Number(1), Of(Q::PaddedHeight)) =>
        "" [] "" "a window not larger than the padded input";
    "Pool" Validator "E09" Decoded "validators" [] Between(Q::KernelWidth, Number(1), Of(Q::PaddedWidth)) =>
        "" [] "" "a window not larger than the padded input";
    "Pool" Validator "E08" Compiler "m6-study" [Has(Q::MaxPool), Family(LATE)]
        OneOf(Q::KernelWidth, &[1, 2, 3, 4, 5, 6, 7, 8, 32]) =>
        "Invalid Pool kernel width (%zd), must be [1-8] or 32." [Fill::Found]
        "Invalid Pool kernel width (%zd), must be [1-8] or 32."
        "two poolings of smaller width, one after the other";
    "Neuron" Validator "E17" Measured "op-matrix" [Above(Q::Neuron, 31), AtMost(Q::Neuron, 33)] Floor(4) =>
        "This platform doesn't support Neuron %s" [Fill::Of(Q::Neuron)] "" "a polynomial";
    "Neuron" Validator "E17" Decoded "validators" [] Between(Q::Neuron, Number(1), Number(47)) =>
        "This platform doesn't support Neuron %s" [Fill::Of(Q::Neuron)] "" "a mode of the table";
    "Reduction" Validator "E17" Decoded "validators" [] Between(Q::Operands, Number(1), Number(1)) =>
        "Reduction layer can only have one bottom" [] "" "one operand";
    "Reduction" Validator "E17" Decoded "validators" [Has(Q::FusedSquare)] Capability("square_after_reduction") =>
        "square operation after reduction is not supported" [] "" "square in a layer of its own";
    "Softmax" Validator "E17" Decoded "validators" [] Capability("softmax") =>
        "Softmax is not supported by this ANE architecture" [] "" "exp, sum and division";
    "LayerNorm" Validator "E31" Decoded "validators" [] Divisible(Q::InputChannels, Q::Groups) =>
        "" [] "" "groups that divide the channels";
    "LayerNorm" Validator "E31" Decoded "validators" [Above(Q::Groups, 1)] Between(Q::InputDepth, Number(1), Number(1)) =>
        "... does not yet support depth > 1" [] "" "fold depth into another axis";
    "InstanceNorm" Validator "E17" Decoded "validators" [] Capability("instance_norm") =>
        "InstanceNorm layer not supported for this ANE architecture" [] "" "means and variances by reduction";
    "MinMaxNorm" Validator "E21" Measured "validators" [Has(Q::ChannelAxis)] Never(Q::ChannelAxis) =>
        "" [] "" "transpose, then normalize along width or height";
    "LRN" Validator "E17" Decoded "validators" [] Capability("lrn") =>
        "LRN is not supported on this architecture." [] "" "squares, a pooling over channels, a power and a division";
    "LRN" CodeGeneration "E20" Measured "validators" [Has(Q::Authored)] Between(Q::InputChannels, Number(1), Number(15)) =>
        "" [] "" "the operation local_response_norm by conversion";
    "ArgMinMax" Validator "E15" Decoded "validators" [] Between(Q::Operands, Number(1), Number(1)) =>
        "ArgMinMax layer must have one input" [] "" "one operand";
    "ArgMinMax" Validator "E15" Measured "validators" [] Between(Q::AxisExtent, Number(1), Number(2048)) =>
        "" [] "" "two stages, each at most 2048 long";
    "ArgMinMax" Validator "E15" Decoded "validators" [Has(Q::PadLeft)] Between(Q::PadLeft, Number(0), Of(Q::KernelWidth)) =>
        "ArgMinMax left padding value should be smaller than kernel width %d, but %d is given" [Fill::Most, Fill::Found] ""
        "padding below the kernel's width";
    "GlobalArgMinMax" Validator "E17" Decoded "validators" [Has(Q::Authored)] Capability("global_arg_min_max") =>
        "" [] "" "reductions and comparisons";
    "GlobalArgMinMax" Validator "E17" Decoded "op-matrix" [Lacks(Q::Authored)] Floor(4) =>
        "" [] "" "author the layer directly: the capability byte is set from the M1 on";
    "Transpose" Validator "P27" Decoded "validators" [] Between(Q::InputHeight, Number(1), Hal("max_transpose_height")) =>
        "NE Input Transpose is not supported for this arch" [] "" "smaller extents, or another order of axes";
    "Transpose" Validator "P27" Decoded "validators" [] Between(Q::InputWidth, Number(1), Hal("max_transpose_width")) =>
        "NE Input Transpose is not supported for this arch" [] "" "smaller extents, or another order of axes";
    "Concat" Validator "E33" Decoded "validators" [] Between(Q::Operands, Number(2), Number(255)) =>
        "Concat layer must have at least 2 inputs" [] "" "at least two operands";
    "Concat" Validator "E33" Decoded "validators" [Has(Q::Authored)] Between(Q::Axis, Number(0), Number(4)) =>
        "ANE Concat supports only supports const positive axis" [] "" "a constant axis, counted from the front";
    "Concat" Validator "E33" Decoded "validators" [Has(Q::LayoutsDiffer)] Never(Q::LayoutsDiffer) =>
        "both concat inputs must have the same layout" [] "" "one layout for all operands";
    "Pad" Validator "E23" Decoded "validators" [Has(Q::PadChannels)] Never(Q::PadChannels) =>
        "Channel padding is not supported on ANE" [] "" "concatenate zeros";
    "Pad" Validator "E23" Decoded "validators" [Has(Q::Mirror)] Capability("texture_engine") =>
        "Architecture does not support padding mode." [] "" "constant padding, or slices and concat";
    "Broadcast" Validator "E24" Decoded "validators" [Has(Q::DepthBroadcast)] Capability("depth_broadcast") =>
        "Broadcast along depth axis is not supported on this architecture" [] "" "tile on the host";
    "Gather" Validator "E25" Compiler "validators" [Without("texture_engine")] Between(Q::GatherAxes, Number(3), Number(3)) =>
        "Cannot decompose layer on this architecture" [] "" "one-hot indices and matmul, or the host";
    "Gather" Validator "E25" Decoded "validators" [Without("texture_engine")] Between(Q::InputBatch, Number(1), Number(1)) =>
        "Cannot decompose layer on this architecture" [] "" "one-hot indices and matmul, or the host";
    "Gather" Validator "E25" Decoded "validators" [Without("texture_engine")] Between(Q::InputDepth, Number(1), Number(1)) =>
        "Cannot decompose layer on this architecture" [] "" "one-hot indices and matmul, or the host";
    "Gather" Validator "E25" Decoded "validators" [Without("texture_engine")] Between(Q::IndexChannels, Number(3), Number(3)) =>
        "Cannot decompose layer on this architecture" [] "" "one-hot indices and matmul, or the host";
    "SDPA" Validator "E22" Decoded "validators" [] Between(Q::Operands, Number(4), Number(5)) =>
        "4 or 5 bottoms must be present for SDPA" [] "" "query, key, value, scale and at most a mask";
    "SDPA" Parser "E22" Decoded "validators" [Has(Q::Authored)] Between(Q::Operands, Number(4), Number(5)) =>
        "SDPA layer must have only 4 or 5(optional mask) inputs" [] "" "query, key, value, scale and at most a mask";
    "SDPA" Validator "E22" Decoded "validators" [Has(Q::KeyValueDiffer)] Never(Q::KeyValueDiffer) =>
        "" [] "" "key and value of equal extents";
    "SDPA" Validator "E22" Decoded "validators" [Has(Q::MaskFormat)] Never(Q::MaskFormat) =>
        "Mask format must be same as Q, K and V" [] "" "an additive fp16 mask";
    "PixelShuffle" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorX) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "PixelShuffle" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorY) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "PixelShuffle" Validator "E29" Decoded "validators" [] OneOf(Q::FactorZ, &[1]) =>
        "" [] "" "depth factor 1";
    "PixelShuffle" Validator "E29" Decoded "validators" [] Divisible(Q::InputChannels, Q::FactorXY) =>
        "" [] "" "channels divisible by the product of the factors";
    "PixelUnshuffle" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorX) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "PixelUnshuffle" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorY) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "PixelUnshuffle" Validator "E29" Decoded "validators" [] Divisible(Q::InputWidth, Q::FactorX) =>
        "" [] "" "extents divisible by the factors";
    "PixelUnshuffle" Validator "E29" Decoded "validators" [] Divisible(Q::InputHeight, Q::FactorY) =>
        "" [] "" "extents divisible by the factors";
    "SpaceToBatch" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorX) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "SpaceToBatch" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorY) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "BatchToSpace" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorX) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "BatchToSpace" Validator "E29" Decoded "validators" [] StrideFactors(Q::FactorY) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "BatchToSpace" Validator "E29" Decoded "validators" [] Divisible(Q::InputBatch, Q::FactorXY) =>
        "Input batch n = %zd is not divisible by factor x = %d * factor y = %d"
        [Fill::Found, Fill::Of(Q::FactorX), Fill::Of(Q::FactorY)] "" "pad the batch";
    "ChannelToSpace" Validator "E29" Decoded "validators" [] OneOf(Q::FactorZ, &[1]) =>
        "ChannelToSpace in z dimension is not supported, current factor.z = %d." [Fill::Found] "" "depth factor 1";
    "ChannelToSpace" Validator "E29" Measured "validators" [] Between(Q::InputBatch, Number(1), Number(1)) =>
        "" [] "" "batch 1";
    "SpaceToChannel" Validator "E29" Measured "validators" [] Between(Q::InputBatch, Number(1), Number(1)) =>
        "" [] "" "batch 1";
    "Resize" Validator "E17" Decoded "validators" [Has(Q::SampledAxes)] Never(Q::SampledAxes) =>
        "failed to map resize layer on this arch" [] "" "resample height and width only";
    "Resize" Validator "E17" Inferred "validators" [Has(Q::FractionalRatio)] Capability("texture_engine") =>
        "failed to map resize layer on this arch" [] "" "resample by whole factors";
    "CropResize" CodeGeneration "E17" Measured "validators" [] Capability("texture_engine") =>
        "Codegen Error: Invalid Texture CropCfg" [] "" "slices and resize";
    "AffineTransform" Validator "E17" Measured "validators" [] Capability("texture_engine") =>
        "affine transform is not supported on this architecture" [] "" "the host";
    "Resample" Validator "E17" Decoded "validators" [] Between(Q::CoordinateChannels, Number(1), Number(2)) =>
        "Channel size in coordinates should be 1 or 2" [] "" "one or two coordinates";
    "Resample" Validator "E17" Measured "validators" [] Capability("texture_engine") =>
        "" [] "" "the host";
    "TopK" CodeGeneration "E17" Compiler "m6-study" [Lacks(Q::Authored), Family(&["A13", "A14"])] Never(Q::K) =>
        "" [] "" "the host";
    "TopK" CodeGeneration "E19" Measured "op-matrix" [Family(&["A13", "A17"]), Above(Q::K, 2), AtMost(Q::K, 4)] Never(Q::K) =>
        "" [] "" "k = 5, then a slice";
    "TopK" CodeGeneration "E18" Compiler "m6-study" [When::Direct, Family(&["A16"])] Never(Q::K) =>
        "" [] "" "end the model before it, and run it on the CPU on that output";
    "Neuron" CodeGeneration "E18" Compiler "m6-study" [When::Direct, Family(&["A18"]), Above(Q::Neuron, 32), AtMost(Q::Neuron, 33)]
        Never(Q::Neuron) =>
        "" [] "" "sin(x + pi / 2)";
    "TopK" Validator "E19" Decoded "validators" [] Between(Q::K, Number(1), Of(Q::AxisExtent)) =>
        "" [] "" "k within the sorted extent";
    "Sort" CodeGeneration "E17" Measured "op-matrix" [Family(&["A13"])] Never(Q::Operands) =>
        "" [] "" "the host";
    "DynamicSlice" CodeGeneration "E17" Measured "op-matrix" [Family(&["A13"])] Never(Q::Operands) =>
        "" [] "" "a slice at a constant place, or a mask";
    "Unflatten" CodeGeneration "E18" Measured "op-matrix" [] Never(Q::Operands) =>
        "" [] "" "reshape";
    "NMS" CodeGeneration "E18" Decoded "op-matrix" [] Never(Q::Operands) =>
        "" [] "" "the host";
    "Dropout" Validator "E17" Decoded "validators" [] Capability("dropout_random") =>
        "Dropout layer is not supported on this architecture." [] "" "leave it out: it does nothing at inference";
    "Random" Validator "E17" Decoded "validators" [] Capability("dropout_random") =>
        "Random layer is not supported on this architecture." [] "" "noise as an input";
    "RingBufferWriter" Validator "E17" Decoded "validators" [Has(Q::Circular), Family(&["A13", "older"])] Never(Q::Circular) =>
        "Circular buffer is not supported on this architecture" [] "" "a resident buffer shared between calls";
    "RingBufferWriter" CodeGeneration "E18" Measured "op-matrix" [Has(Q::Authored), Family(&["A17"])] Never(Q::Operands) =>
        "" [] "" "a resident buffer shared between calls";
    "RingBufferReader" Validator "E17" Inferred "by-analogy" [Has(Q::Circular), Family(&["A13", "older"])] Never(Q::Circular) =>
        "Circular buffer is not supported on this architecture" [] "" "a resident buffer shared between calls";
    "Tile" Validator "E29" Decoded "op-matrix" [] StrideFactors(Q::FactorXY) =>
        "" [] "" "factors that are products of 2, 3, 4 and 8";
    "DynamicGOC" Validator "E17" Decoded "validators" [] Capability("dynamic_goc") =>
        "" [] "" "mul and add";
    "ScaledElementWise" Validator "W10" Measured "op-matrix" [Has(Q::Subtraction)] Never(Q::Subtraction) =>
        "" [] "" "negate an operand and add";
    "GOC" Fusion "E33" Decoded "validators" [Has(Q::FromElementWise)] Between(Q::Operands, Number(2), Number(2)) =>
        "Must have 2 inputs when convert EW to GOC" [] "" "one live operand and one constant";
    "" Validator "E06" Decoded "validators" [Has(Q::E4m3)] Capability("kernel_e4m3") =>
        "E4M3 is not supported on this architecture" [] "" "int8 or a palette";
    "" Validator "E06" Decoded "validators" [Has(Q::E4m3ZeroPoint)] Never(Q::E4m3ZeroPoint) =>
        "Zero point is not supported for quant with E4M3 output format" [] "" "a symmetric range";
}

/// A gate of the book that this project's own lowering does not need: applied on request only.
const fn strict(layer: &'static str, when: &'static [When], matches: MatchParams, fix: &'static str) -> Rule {
    Rule {
        layer,
        when,
        matches,
        stage: Stage::CodeGeneration,
        apple: "",
        fills: &[],
        segmenter: "",
        lint: "E17",
        basis: Basis::Decoded,
        source: "op-matrix",
        fix,
    }
}

/// Chips up to the M1's generation.
const UP_TO_M1: &[When] = &[Family(&["A13", "older"])];

/// Units of a netplist.
const AUTHORED: &[When] = &[Has(Q::Authored)];
/// Neurons of a netplist in the modes of sine and cosine.
const SINES: &[When] = &[Has(Q::Authored), Above(Q::Neuron, 31), AtMost(Q::Neuron, 33)];

/// Gates of the chapter on hidden layers and of three-dimensional convolution that this compiler's lowering does not need; the
/// last text of each is the chapter's sentence.
pub static STRICT: &[Rule] = &[
    strict("MinMaxNorm", UP_TO_M1, Never(Q::Operands), "range normalization is arch-gated and rejected on the M1"),
    strict("ChannelToSpace", &[], StrideFactors(Q::FactorX), "factors factor into 2, 3, 4 and 8"),
    strict("ChannelToSpace", &[], StrideFactors(Q::FactorY), "factors factor into 2, 3, 4 and 8"),
    strict("SpaceToChannel", &[], StrideFactors(Q::FactorX), "factors factor into 2, 3, 4 and 8"),
    strict("SpaceToChannel", &[], StrideFactors(Q::FactorY), "factors factor into 2, 3, 4 and 8"),
    strict("Resize", &[], Capability("texture_engine"), "the hardware sampler is accepted from the A14"),
    strict("TopK", UP_TO_M1, Never(Q::K), "top-k is code-generated above the M1"),
    strict("RingBufferWriter", UP_TO_M1, Never(Q::Operands), "streaming state is above the M1"),
    strict("RingBufferReader", UP_TO_M1, Never(Q::Operands), "streaming state is above the M1"),
    strict(
        "RingBufferWriter",
        AUTHORED,
        Between(Q::AtLiveState, Number(1), Number(1)),
        "the writer must connect to a live state",
    ),
    strict(
        "InputView",
        AUTHORED,
        Between(Q::FollowsReshape, Number(1), Number(1)),
        "an input view must follow a reshape",
    ),
    strict(
        "Neuron",
        SINES,
        Never(Q::Neuron),
        "sine and cosine have no direct-authoring bridge and stay conversion-only",
    ),
    strict("Conv", &[], Between(Q::KernelDepth, Number(1), Number(1)), "3-D convolution fails on every device mask"),
];

/// A check on a network as a whole, with Apple's text.
#[derive(Debug)]
pub struct NetworkRule {
    /// Subject of the check.
    pub check: NetworkCheck,
    /// Apple's text; empty where none is known.
    pub apple: &'static str,
    /// One sentence.
    pub meaning: &'static str,
}

/// Checks of the umbrella validator beyond single layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is its row in NETWORK_RULES
pub enum NetworkCheck {
    Schema,
    Bonded,
    UnitNames,
    Conversion,
}

/// Newest netplist schema that the compiler accepts.
pub const NETPLIST_SCHEMA: [u32; 3] = [1, 0, 10];

/// Checks of the umbrella validator.
pub static NETWORK_RULES: &[NetworkRule] = &[
    NetworkRule {
        check: NetworkCheck::Schema,
        apple: "",
        meaning: "the module's schema is not newer than the compiler's",
    },
    NetworkRule {
        check: NetworkCheck::Bonded,
        apple: "Bonded networks are not supported on the target",
        meaning: "a network for two bonded engines needs a target that has them",
    },
    NetworkRule {
        check: NetworkCheck::UnitNames,
        apple: "ANE internal error: Unit name \"%s\" collision during MIL to ANEC IR conversion.",
        meaning: "every unit has a name of its own",
    },
    NetworkRule {
        check: NetworkCheck::Conversion,
        apple: "",
        meaning: "every operation of the module has its conversion record",
    },
];
