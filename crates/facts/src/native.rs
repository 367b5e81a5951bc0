//! Native layers: the descriptors that a netplist names, with the parameters that their parsers read, and the extent to which
//! this project supports each.
//!
//! Descriptor, constructor, validator and parser have names that follow from the row's stem and tag; operand counts,
//! capability byte and envelope are the validator's row ([`crate::validators`]), limits by family those of
//! [`crate::legal`], operations that become the layer those of [`crate::ops`]. The unit class is the tag's place among
//! [`crate::enums::OP_CLASSES`]. Keys: `docs/evidence.md`, key `native-layers`.

use crate::Basis;
use crate::enums::OP_CLASSES;
use crate::ops::{OPS, OpRow};
pub use crate::own::{OWN_BASE, OWN_CARRIER, OWN_OPERANDS, OWN_PARAMS, OWN_RESULT, OWN_WORDS};
use crate::validators::{VALIDATORS, Validator};

/// Type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamType {
    /// True or false.
    Flag,
    /// An integer within bounds.
    Integer(i64, i64),
    /// A half-precision number, written as the integer of its 16 bits.
    Half,
    /// A number.
    Real,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Names of axes.
    Axes,
    /// Integers within bounds.
    Integers(i64, i64),
    /// One entry per axis: `Coordinate` names the axis; this key holds one of the words, or a size if there are none.
    PerAxis(&'static str, &'static [&'static str]),
}

/// A key of `Params`.
#[derive(Debug)]
pub struct Param {
    /// Key.
    pub name: &'static str,
    /// Type.
    pub ty: ParamType,
    /// Default value; empty if the key is required.
    pub default: &'static str,
}

/// Implementation of a layer in this project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Operations of the graph, as conversion gives them.
    Graph,
    /// Register tasks of the H13 with known words.
    Registers,
    /// A task in this project's own encoding, [`OWN_BASE`], because Apple's is not known.
    Own,
    /// None: only a validator has it, no engine runs it, or no source gives its semantics.
    Nothing,
}

impl Carrier {
    /// Name, one word.
    pub const fn name(self) -> &'static str {
        match self {
            Carrier::Graph => "graph",
            Carrier::Registers => "registers",
            Carrier::Own => "own",
            Carrier::Nothing => "none",
        }
    }
}

/// One native layer.
#[derive(Debug)]
pub struct Native {
    /// Stem in the names of descriptor and validator.
    pub stem: &'static str,
    /// `Type` of its unit.
    pub tag: &'static str,
    /// Implementation.
    pub carrier: Carrier,
    /// Keys of `Params`.
    pub params: &'static [Param],
    /// Basis of keys and types.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
    /// Conventions and oddities.
    pub note: &'static str,
}

impl Native {
    /// The row of its validator; some layers have none.
    pub fn validator(&self) -> Option<&'static Validator> {
        VALIDATORS.iter().find(|v| v.stem == self.stem)
    }

    /// Returns true if it is one of the 45 descriptors.
    pub fn has_descriptor(&self) -> bool {
        self.validator().is_some_and(|v| v.descriptor)
    }

    /// Name of the descriptor's structure.
    pub fn descriptor(&self) -> String {
        format!("ANEC{}LayerDesc", self.stem)
    }

    /// Name of the descriptor's constructor.
    pub fn constructor(&self) -> String {
        format!("_ANEC{}LayerDescInitialize", self.stem)
    }

    /// Name of the parser of its units.
    pub fn parser(&self) -> String {
        format!("ZinParse{}Unit", self.tag)
    }

    /// Its number among the classes of operations.
    pub fn class(&self) -> Option<u32> {
        OP_CLASSES.iter().find(|c| c.name == self.tag).map(|c| c.code)
    }

    /// Name of the list in `Params` whose only entry has the keys; `None` if the keys are directly in `Params`.
    pub fn entry(&self) -> Option<&'static str> {
        IN_ENTRIES.iter().find(|(stem, _)| *stem == self.stem).map(|(_, list)| *list)
    }

    /// Operations of the framework that are lowered to it.
    pub fn operations(&self) -> impl Iterator<Item = &'static OpRow> + use<'_> {
        OPS.iter().filter(|o| o.layers.contains(&self.stem))
    }
}

/// The row of a `Type` tag.
pub fn by_tag(tag: &str) -> Option<&'static Native> {
    NATIVES.iter().find(|n| n.tag == tag)
}

fn plain(word: &str) -> String {
    word.chars().filter(|&c| c != '_').flat_map(char::to_lowercase).collect()
}

/// The row of that stem or tag; case and underscores are ignored.
pub fn by_name(name: &str) -> Option<&'static Native> {
    let name = plain(name);
    NATIVES.iter().find(|n| plain(n.stem) == name || plain(n.tag) == name)
}

/// Layers whose keys are in the entries of a list, with the list's name: `docs/evidence.md`, key `unit-writer`.
const IN_ENTRIES: &[(&str, &str)] = &[("RingBufferWriter", "RingBufferWriterInfo")];

/// A name that sources count among the layers without a `Type` of a unit, a descriptor or a validator.
#[derive(Debug)]
pub struct Elsewhere {
    /// Name in the back end's dialect.
    pub name: &'static str,
    /// Other spelling.
    pub also: &'static str,
    /// Meaning, and the place where this project reads it.
    pub place: &'static str,
    /// Basis.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// Names among the layers that no unit of a netplist has.
pub static ELSEWHERE: &[Elsewhere] = &[
    Elsewhere {
        name: "State",
        also: "LiveState",
        place: "an entry of the network's list `States`, beside `Inputs`, with the keys of an input; the unit RingBufferWriter or TensorToTensorBuffer that has it as operand gives its next value",
        basis: Basis::Decoded,
        source: "unit-writer",
    },
    Elsewhere {
        name: "TensorToTensorBuffer",
        also: "TensorToBuffer",
        place: "a unit without parameters that conversion gives; it is read as its input, from netplists and MIL text; with a state as its second operand it writes the state",
        basis: Basis::Decoded,
        source: "unit-writer",
    },
    Elsewhere {
        name: "TensorBufferToTensor",
        also: "BufferToTensor",
        place: "a unit without parameters that conversion gives; it is read as its input, from netplists and MIL text",
        basis: Basis::Decoded,
        source: "unit-writer",
    },
];

/// The row of a name without a unit; case and underscores are ignored.
pub fn elsewhere(name: &str) -> Option<&'static Elsewhere> {
    let name = plain(name);
    ELSEWHERE.iter().find(|e| plain(e.name) == name || plain(e.also) == name)
}

/// Classes of units without a row: only their number is known.
pub fn classes_without_row() -> impl Iterator<Item = &'static str> {
    OP_CLASSES.iter().map(|c| c.name).filter(|name| by_tag(name).is_none())
}

/// Families by their number in `OwnFamily`.
pub const FAMILIES: [&str; 10] = ["", "older", "A13", "A14", "A15", "A16", "A17", "A18", "small", "reference"];

macro_rules! natives {
    ( $( $stem:ident $tag:literal $carrier:ident $basis:ident $source:literal $note:literal {
        $( $key:literal $ty:expr, $default:literal; )*
    } )* ) => {
        /// All native layers: the 45 with a descriptor, and those that a netplist names without one.
        pub static NATIVES: &[Native] = &[ $( Native {
            stem: stringify!($stem), tag: $tag, carrier: Carrier::$carrier,
            params: &[ $( Param { name: $key, ty: $ty, default: $default } ),* ],
            basis: Basis::$basis, source: $source, note: $note,
        } ),* ];
    };
}

use ParamType::{Axes, Flag, Half, Integer, Integers, PerAxis, Real, Word};

const AXES: [&str; 4] = ["Batch", "Channel", "Height", "Width"];
const EXTENT: ParamType = Integer(1, 1 << 20);
const PAD: ParamType = Integer(0, 1 << 16);
const FACTOR: ParamType = Integer(1, 1 << 12);
const AXIS: ParamType = Word(&AXES);
const ONE_AXIS: ParamType = Word(&["Channel", "Height", "Width"]);
const PADDING: ParamType = Word(&["Background", "Border"]);
const METHOD: ParamType = Word(&["NearestNeighbor", "Linear"]);
const INDEX: ParamType = Integer(0, 1 << 30);

// Stem, tag, carrier, basis and source of the keys, note; keys with type and default.
natives! {
    Conv "Conv" Graph Compiler "hwx" "weights by file and offset" {
        "Type" Word(&["Conv"]), "Conv"; "KernelWidth" EXTENT, "1"; "KernelHeight" EXTENT, "1"; "KernelDepth" EXTENT, "1";
        "KernelType" Word(&["Float16", "Float32", "Int8", "UInt8"]), ""; "KernelIndex" INDEX, "0"; "KernelOffset" INDEX, "0";
        "Step" Integers(1, 32), "[1, 1, 1]"; "KernelDilationX" EXTENT, "1"; "KernelDilationY" EXTENT, "1";
        "PadLeft" PAD, "0"; "PadRight" PAD, "0"; "PadTop" PAD, "0"; "PadBot" PAD, "0"; "Groups" EXTENT, "1";
    }
    Linear "Linear" Graph Inferred "by-analogy" "keys as those of Conv with a kernel of one element" {
        "KernelType" Word(&["Float16", "Float32", "Int8", "UInt8"]), ""; "KernelIndex" INDEX, "0"; "KernelOffset" INDEX, "0";
    }
    MatrixMult "MatrixMultiplication" Registers Measured "native-layers" "channels by columns, rows are a batch; out-C equals the first operand's C, its columns with TransposeLhs" {
        "TransposeLhs" Flag, "false"; "TransposeRhs" Flag, "false";
    }
    Pool "Pooling" Graph Compiler "hwx" "" {
        "Type" Word(&["Max", "Avg"]), ""; "KernelWidth" EXTENT, "1"; "KernelHeight" EXTENT, "1"; "KernelDepth" EXTENT, "1";
        "Step" Integers(1, 32), "[1, 1, 1]"; "PadLeft" PAD, "0"; "PadRight" PAD, "0"; "PadTop" PAD, "0"; "PadBot" PAD, "0";
        "PaddingMode" Word(&["Zero", "Negative"]), "Zero"; "AverageCountExcludePadding" Flag, "false";
    }
    GOC "GOC" Graph Compiler "hwx" "gain and offset, single or one per channel by BiasScaleGroupData" {
        "ScaleScalar" Half, "1.0"; "BiasScalar" Half, "0.0";
    }
    DynamicGOC "DynamicGOC" Registers Measured "native-layers" "operands x, scale, bias; x, bias with BiasOnly" {
        "BiasOnly" Flag, "false"; "Type" Word(&["TERNARY_DYNAMIC_GOC"]), "TERNARY_DYNAMIC_GOC";
    }
    Neuron "Neuron" Graph Compiler "hwx" "each type has its own further keys, all half precision: ReluMin, ReluMax, ReluSlope, ReluOffset, EluAlpha" {
        "Type" Word(&["ReLU", "Sigmoid", "SigmoidHighPrecision", "Tanh", "Sign", "GELU", "Sqrt", "Rsqrt", "Inv", "Exp2", "Log2",
            "Sin", "Cos", "Ceil", "Floor", "RoundNearest", "ELU", "LeakyReLU", "ClampedReLU"]), "";
    }
    ElementWise "ElementWise" Graph Compiler "hwx" "" {
        "Type" Word(&["Add", "Sub", "Mult", "Max", "Min", "Abs", "GreaterThan", "LessThan", "Equal", "NotEqual"]), ""; "Scale" Half, "1.0";
    }
    ScaledElementWise "ScaledElementWise" Graph Compiler "hwx" "the scale multiplies the result" {
        "Type" Word(&["Add", "Sub", "Mult", "Max", "Min"]), ""; "Scale" Half, "1.0";
    }
    Reduction "Reduction" Graph Compiler "hwx" "" { "Type" Word(&["Sum", "Avg", "Max", "Min"]), ""; "Dimension" Axes, ""; }
    Softmax "Softmax" Graph Compiler "hwx" "" { "Dimension" AXIS, ""; }
    Concat "Concat" Graph Compiler "hwx" "" { "Dimension" AXIS, "Channel"; }
    Reshape "Reshape" Graph Compiler "hwx" "" {
        "ReshapedBatch" EXTENT, "1"; "ReshapedChannel" EXTENT, "1"; "ReshapedHeight" EXTENT, "1"; "ReshapedWidth" EXTENT, "1";
    }
    Transpose "Transpose" Graph Compiler "hwx" "TransposeDimensions lists {TransposeDestinationDimension, TransposeSourceDimension}" {}
    InputView "InputView" Graph Compiler "hwx" "no data moves; Apple's gates are InvalidInputView{Dimension,Offset,Size,Step}" {
        "Dimension" AXIS, ""; "Offset" PAD, "0"; "Size" EXTENT, ""; "Step" EXTENT, "1";
    }
    Broadcast "Broadcast" Graph Compiler "hwx" "BroadcastInfo lists {Dimension, Size}" {}
    SDPA "SDPA" Registers Measured "native-layers" "channels are positions, rows are heads, columns are features; the mask is [1, positions of q, 1, positions of k]; SubtractMax must be set for a right softmax" {
        "SubtractMax" Flag, "false";
    }
    Sort "Sort" Own Measured "native-layers" "order of the slice that SortIndices names along VectorDimension; indices are fp16 numbers, exact to 2048" {
        "Direction" Word(&["Ascending", "Descending"]), ""; "SortDimension" AXIS, ""; "VectorDimension" AXIS, "Channel";
        "SortIndices" Integers(0, 1 << 16), "[0]"; "Indices" Flag, "false";
    }
    TopK "TopK" Own Measured "native-layers" "as Sort, the first K; k of 3 and 4 fails code generation" {
        "Type" Word(&["Max", "Min"]), ""; "K" EXTENT, ""; "SortDimension" AXIS, ""; "VectorDimension" AXIS, "Channel";
        "SortIndices" Integers(0, 1 << 16), "[0]"; "Indices" Flag, "false";
    }
    ArgMinMax "ArgMinMax" Own Measured "native-layers" "spatial: one index a channel and window, along its rows; channel: one index a place" {
        "Mode" Word(&["SpatialArgMax", "ChannelArgMax", "SpatialArgMin", "ChannelArgMin"]), "";
        "KernelWidth" EXTENT, ""; "KernelHeight" EXTENT, "";
        "PadLeft" PAD, "0"; "PadRight" PAD, "0"; "PadTop" PAD, "0"; "PadBot" PAD, "0";
    }
    GlobalArgMinMax "GlobalArgMinMax" Own Measured "native-layers" "direct authoring reads a capability byte, conversion a family floor" {
        "Type" Word(&["Max", "Min"]), ""; "Dimension" AXIS, "";
    }
    PixelShuffle "PixelShuffle" Registers Measured "native-layers" "channels outermost: c (FactorY FactorX) + i FactorX + j" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    PixelUnshuffle "PixelUnshuffle" Registers Measured "native-layers" "the inverse of PixelShuffle" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    ChannelToSpace "ChannelToSpace" Registers Measured "native-layers" "blocks outermost: (i FactorX + j) C + c" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    SpaceToChannel "SpaceToChannel" Registers Measured "native-layers" "the inverse of ChannelToSpace" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    SpaceToBatch "SpaceToBatch" Registers Measured "native-layers" "image n, block (i, j) to image (n FactorY + i) FactorX + j" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    BatchToSpace "BatchToSpace" Registers Measured "native-layers" "the inverse of SpaceToBatch" {
        "FactorX" FACTOR, ""; "FactorY" FACTOR, ""; "FactorZ" FACTOR, "1";
    }
    MinMaxNorm "MinMaxNormalization" Registers Measured "native-layers" "(x - min) / (max - min + Epsilon)" {
        "Dimension" ONE_AXIS, ""; "Epsilon" Half, "";
    }
    LRN "LocalResponseNormalization" Registers Measured "native-layers" "Alpha is divided by KernelChannel; only the first KernelChannel channels are normalized" {
        "Type" Word(&["Channel"]), "Channel"; "KernelWidth" Integer(1, 1), "1"; "KernelHeight" Integer(1, 1), "1";
        "KernelChannel" EXTENT, ""; "Alpha" Half, ""; "Beta" Real, ""; "K" Real, "";
    }
    LayerNorm "LayerNormalization" Registers Inferred "by-analogy" "keys by analogy with Softmax and the range normalization" {
        "Dimension" Axes, ""; "Epsilon" Half, ""; "NumGroups" EXTENT, "1";
    }
    InstanceNorm "InstanceNormalization" Registers Inferred "by-analogy" "key by analogy with the range normalization" { "Epsilon" Half, ""; }
    L2Norm "L2Normalization" Registers Inferred "by-analogy" "keys by analogy with Softmax and the range normalization" {
        "Dimension" Axes, ""; "Epsilon" Half, "";
    }
    CrossCorrelation "CrossCorrelation" Own Measured "native-layers" "template not turned; its rows follow each other along the columns of the second operand" {
        "TemplateWidth" EXTENT, ""; "TemplateHeight" EXTENT, "";
        "PadLeft" PAD, "0"; "PadRight" PAD, "0"; "PadTop" PAD, "0"; "PadBot" PAD, "0"; "NumGroups" Integer(1, 1), "1";
    }
    CrossProduct "CrossProduct" Registers Measured "native-layers" "vectors of three channels" {
        "Type" Word(&["CrossProduct"]), "CrossProduct";
    }
    FurthestPointSampling "FurthestPointSampling" Own Measured "native-layers" "the distance is Euclidean whatever the metric says; the first point is chosen first" {
        "CentroidCount" Integer(2, 1024), ""; "DistanceMetric" Word(&["L1", "L2"]), "L2";
    }
    RadiusSearch "RadiusSearch" Own Measured "native-layers" "rows are points, columns centroids; measured output is one byte a flag, here it is fp16" { "Radius" Real, ""; }
    CostVolume "CostVolume" Registers Measured "native-layers" "cost[d, x] = |aux[x] - ref[x + d]|; several channels are summed, which no source says" {
        "DisparityDirection" Integer(0, 0), "0"; "DisparityRange" Integer(0, 1 << 12), "";
        "ScaleFactorX" Real, "1.0"; "ScaleFactorY" Real, "1.0";
    }
    DynamicSlice "DynamicSlice" Own Measured "native-layers" "the start is a constant or comes at run time" {
        "DynamicSliceAxisOrder" Axes, ""; "DynamicSliceInfo" PerAxis("SliceSize", &[]), "";
        "CoordinateInfo" PerAxis("CoordinateMode", &["NonNormalized"]), "[]";
        "CoordinateMode" Word(&["NonNormalized"]), "NonNormalized";
        "PaddingInfo" PerAxis("PaddingMode", &["Background", "Border"]), "[]"; "BackgroundValue" Real, "0.0";
    }
    Tile "Tile" Registers Inferred "by-analogy" "keys by analogy with the reshape" {
        "TileBatch" FACTOR, "1"; "TileChannel" FACTOR, "1"; "TileHeight" FACTOR, "1"; "TileWidth" FACTOR, "1";
    }
    Flatten "Flatten" Registers Measured "native-layers" "all elements along the columns" {
        "FlattenType" Word(&["NCHW", "NHWC"]), "NCHW"; "Mode" Word(&["NCHW", "NHWC"]), "NCHW";
    }
    Unflatten "Unflatten" Registers Decoded "unit-writer" "the validator accepts, every variant fails code generation" {
        "Mode" Word(&["NCHW", "NHWC"]), "NCHW";
        "DestinationChannels" EXTENT, ""; "DestinationHeight" EXTENT, ""; "DestinationWidth" EXTENT, "";
    }
    Dropout "Dropout" Registers Measured "native-layers" "at inference the rate is 0 and nothing happens" {
        "DropoutRate" Real, "0.0"; "Seed" Integer(0, 1 << 31), "0";
    }
    Shape "Shape" Registers Inferred "by-analogy" "a constant: extents are static" {}
    Pad "Padding" Registers Inferred "by-analogy" "keys as those of Conv; the words are the compiler's for modes of padding" {
        "PadLeft" PAD, "0"; "PadRight" PAD, "0"; "PadTop" PAD, "0"; "PadBot" PAD, "0";
        "PaddingMode" Word(&["Background", "Reflective", "Replication"]), "Background"; "PaddingValue" Half, "0.0";
    }
    Gather "Gather" Own Measured "native-layers" "one axis and one index for a whole slice; the texture path" { "GatherNDAxes" Axes, ""; }
    Resize "Resize" Registers Inferred "by-analogy" "texture engine, or the software route by whole factors" {
        "Height" EXTENT, ""; "Width" EXTENT, ""; "SamplingMethod" METHOD, "Linear"; "AlignCorners" Flag, "false";
    }
    ResizeAs "ResizeAs" Registers Inferred "by-analogy" "as Resize" { "SamplingMethod" METHOD, "Linear"; "AlignCorners" Flag, "false"; }
    CropResize "CropResize" Own Inferred "by-analogy" "boxes along the columns: top, left, bottom, right" {
        "CropHeight" EXTENT, ""; "CropWidth" EXTENT, ""; "SamplingMethod" METHOD, "Linear"; "PaddingMode" PADDING, "Background";
        "BackgroundValue" Real, "0.0";
    }
    Resample "Resample" Own Inferred "by-analogy" "the warp states columns, then rows, in elements" {
        "SamplingMethod" METHOD, "Linear"; "PaddingMode" PADDING, "Background"; "BackgroundValue" Real, "0.0";
    }
    AffineTransform "AffineTransform" Own Inferred "by-analogy" "six numbers along the columns of the second operand" {
        "Height" EXTENT, ""; "Width" EXTENT, ""; "SamplingMethod" METHOD, "Linear"; "PaddingMode" PADDING, "Background";
        "BackgroundValue" Real, "0.0";
    }
    RingBufferWriter "RingBufferWriter" Own Decoded "unit-writer" "the first operand is the live state; a netplist has the keys in the entry of the list RingBufferWriterInfo, one axis is carried" {
        "Dimension" ONE_AXIS, ""; "Offset" PAD, "0"; "Circular" Flag, "false";
    }
    RingBufferReader "RingBufferReader" Own Inferred "by-analogy" "no descriptor and no validator of its own" {
        "Dimension" ONE_AXIS, ""; "Offset" PAD, "0"; "Size" EXTENT, ""; "Circular" Flag, "false";
    }
    NMS "NMS" Nothing Inferred "by-analogy" "no engine runs it" {}
    Random "RandomGenerator" Nothing Inferred "by-analogy" "no source gives the generator's sequence" {}
    KernelRasterizer "KernelRasterizer" Nothing Measured "native-layers" "code generation fails on the M5 too" {}
    MatrixDecomposition "MatrixDecomposition" Nothing Measured "native-layers" "it compiles on an M5; no source gives its result" {}
}
