//! Enumerations of the vendor's compiler: codes and names, in the vendor's spelling.
//!
//! Sources: the book's chapter 23 and its appendix C; see `docs/evidence.md`, key `enums`. Execution does not depend on these
//! rows: a register field with such a code has names of its own, from observed values (`fields.rs`).

use crate::table::Code;
use crate::table::Evidence::{self, Claimed};

/// A set of codes with names.
#[derive(Debug)]
pub struct Enumeration {
    /// Short name; no spaces.
    pub name: &'static str,
    /// The vendor's name.
    pub vendor: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Evidence of codes and names.
    pub evidence: Evidence,
    /// Codes, ascending.
    pub rows: &'static [Code],
}

/// Key of the source in `docs/evidence.md`.
pub const SOURCE: &str = "enums";

/// Names with consecutive codes.
const fn count<const N: usize>(first: u32, names: [&'static str; N]) -> [Code; N] {
    let mut rows = [Code { code: 0, name: "", meaning: "", evidence: Claimed }; N];
    let mut i = 0;
    while i < N {
        rows[i] = Code { code: first + i as u32, name: names[i], meaning: "", evidence: Claimed };
        i += 1;
    }
    rows
}

/// Names with their codes.
const fn pairs<const N: usize>(names: [(u32, &'static str); N]) -> [Code; N] {
    let mut rows = [Code { code: 0, name: "", meaning: "", evidence: Claimed }; N];
    let mut i = 0;
    while i < N {
        rows[i] = Code { code: names[i].0, name: names[i].1, meaning: "", evidence: Claimed };
        i += 1;
    }
    rows
}

const fn of(name: &'static str, vendor: &'static str, meaning: &'static str, rows: &'static [Code]) -> Enumeration {
    Enumeration { name, vendor, meaning, evidence: Claimed, rows }
}

/// Element types as the dispatch descriptor stores them.
pub static ELEMENT_ROWS: [Code; 11] =
    count(0, ["int4", "uint8", "int8", "float16", "float32", "int16", "uint16", "int32", "uint32", "int64", "uint64"]);
/// [`ELEMENT_ROWS`], for rows of other tables.
pub const ELEMENTS: &[Code] = &ELEMENT_ROWS;
/// Classes of operations: the unit that a layer is assigned to.
pub static OP_CLASSES: [Code; 79] = count(
    1,
    [
        "Conv",
        "Pooling",
        "Concat",
        "ElementWise",
        "ScaledElementWise",
        "Neuron",
        "NeuronCustom",
        "GOC",
        "DynamicGOC",
        "ConstMatrixMatrixMult",
        "Flatten",
        "Unflatten",
        "CrossCorrelation",
        "KernelRasterizer",
        "ArgMinMax",
        "GlobalArgMinMax",
        "InputView",
        "MatrixMultiplication",
        "Broadcast",
        "Reduction",
        "Transpose",
        "Reshape",
        "Shape",
        "Softmax",
        "InstanceNormalization",
        "L2Normalization",
        "MinMaxNormalization",
        "LayerNormalization",
        "LocalResponseNormalization",
        "CostVolume",
        "PixelShuffle",
        "PixelUnshuffle",
        "FurthestPointSampling",
        "SpaceToBatch",
        "BatchToSpace",
        "SpaceToChannel",
        "ChannelToSpace",
        "RadiusSearch",
        "Gather",
        "AffineTransform",
        "Resize",
        "ResizeAs",
        "Resample",
        "Padding",
        "Tile",
        "CropResize",
        "DynamicSlice",
        "PlaneReader",
        "PlaneWriter",
        "Sort",
        "TopK",
        "NMS",
        "MatrixDecomposition",
        "Dropout",
        "RandomGenerator",
        "Alias",
        "CrossProduct",
        "Quant",
        "DeQuant",
        "Linear",
        "RingBufferWriter",
        "RingBufferReader",
        "BatchNorm",
        "Phi",
        "Condition",
        "WaitForEvent",
        "SignalEvent",
        "NEConv",
        "NEMatMul",
        "NEPool",
        "NEBypass",
        "PEPool",
        "PEElementWise",
        "PEGOC",
        "AllSlice",
        "AllGather",
        "SDPA",
        "AllReduce",
        "FunctionCall",
    ],
);
/// Kinds of back-end operations. `AFFINE_TRANFORM` is spelled so by the vendor.
pub static MICRO_OPS: [Code; 126] = count(
    0,
    [
        "CONV",
        "POOL",
        "SCALE_BIAS",
        "TERNARY_DYNAMIC_GOC",
        "ACTIVATION",
        "EW",
        "SCALED_EW",
        "CONCAT",
        "SPLIT",
        "COPY",
        "FLATTEN",
        "UNFLATTEN",
        "CROSS_CORRELATION",
        "CROSS_PRODUCT",
        "KERNEL_RASTERIZER",
        "ARG_MIN_MAX",
        "GLOBAL_ARG_MIN_MAX",
        "MATRIX_MULT",
        "BROADCAST",
        "FLATTEN_COMPOSITE",
        "UNFLATTEN_COMPOSITE",
        "FPS_WITH_RADIUS_COMPOSITE",
        "PIXEL_SHUFFLE_COMPOSITE",
        "PIXEL_UNSHUFFLE_COMPOSITE",
        "CONV_COMPOSITE",
        "MATDECOMP_MATMULT_COMPOSITE",
        "CHANNEL_TO_SPACE_LARGE_FACTOR_COMPOSITE",
        "LIVE_IN",
        "LIVEIN_PARAM",
        "CONST_IN",
        "LIVE_STATE",
        "LIVE_OUT",
        "REDUCTION",
        "ALIAS",
        "REINTERPRET_INNERMOST_DIMENSION",
        "REINTERPRET_CAST",
        "RESHAPE",
        "VIEW",
        "TRANSPOSE",
        "SPACE_TO_BATCH",
        "BATCH_TO_SPACE",
        "SPACE_TO_CHANNEL",
        "CHANNEL_TO_SPACE",
        "SOFTMAX",
        "INSTANCE_NORM",
        "L2_NORM",
        "MINMAX_NORM",
        "LAYER_NORM",
        "LRN",
        "COST_VOLUME",
        "PIXEL_SHUFFLE",
        "PIXEL_UNSHUFFLE",
        "MATRIX_DECOMPOSITION",
        "FPS",
        "RS",
        "RESAMPLE",
        "GATHER",
        "TILE",
        "SLICE",
        "PAD",
        "RESIZE",
        "RESIZEAS",
        "CROP_RESIZE",
        "AFFINE_TRANFORM",
        "PLANE_READER",
        "PLANE_WRITER",
        "SORT",
        "TOP_K",
        "RCAS",
        "INDEX",
        "NMS",
        "DROPOUT",
        "TYPE_CAST",
        "STOCHASTIC_ROUND",
        "RANDOM_GENERATOR",
        "LINEAR",
        "RINGBUFFER_WRITER",
        "RINGBUFFER_READER",
        "CONDITION",
        "PHI",
        "BASICBLOCK_IN",
        "BASICBLOCK_OUT",
        "BATCHNORM",
        "WAIT_FOR_EVENT",
        "SIGNAL_EVENT",
        "ALL_SLICE",
        "ALL_GATHER",
        "SCALED_DOT_PRODUCT_ATTENTION",
        "ALL_REDUCE",
        "PEFUSED_ELEMENTWISE",
        "PEFUSED_SECUREFLUSH",
        "PEFUSED_POOL",
        "PEFUSED_GOC",
        "NEFUSED_CONV",
        "NEFUSED_KERNEL_RASTERIZER",
        "NEFUSED_CROSS_CORRELATION",
        "NEFUSED_MATMUL",
        "NEFUSED_POOL",
        "NEFUSED_EW",
        "NEFUSED_DUAL_SOURCE_EW",
        "NEFUSED_BYPASS",
        "NEFUSED_RCAS",
        "TRANSPOSE_ENGINE_OP",
        "TE_RESAMPLE",
        "TE_AFFINE_TRANSFORM",
        "TE_PAD",
        "TE_CROP_RESIZE",
        "TE_SLICE",
        "TE_GATHER",
        "TE_RESIZE",
        "TM_WAIT_FOR_EVENT",
        "TM_SIGNAL_EVENT",
        "TM_BRANCH",
        "TM_FETCH",
        "TM_STORE",
        "TM_OPERATE",
        "TM_USER_SLOT_LOAD",
        "DMA_CONVERT",
        "QUANT",
        "DEQUANT",
        "SNE_COND",
        "SNE_GOC",
        "CCDMA_CONST",
        "CCDMA_MEMORY",
        "SPILL_FILL_DUMMY",
        "INVALID",
    ],
);
/// Activations of the front end.
pub static ACTIVATIONS: [Code; 30] = pairs([
    (1, "relu"),
    (2, "leaky_relu"),
    (3, "clamped_relu"),
    (4, "relu_n"),
    (5, "sigmoid"),
    (6, "sigmoid_high_precision"),
    (7, "tanh"),
    (9, "silu"),
    (10, "swish_hard"),
    (11, "sqr"),
    (12, "sqrt"),
    (13, "rsqrt"),
    (14, "inv"),
    (15, "log2"),
    (16, "exp2"),
    (17, "exp"),
    (18, "elu"),
    (19, "sign"),
    (20, "sin"),
    (21, "cos"),
    (22, "sigmoid_hard"),
    (23, "gelu"),
    (25, "degamma"),
    (26, "trunc"),
    (27, "round_nearest"),
    (28, "floor"),
    (29, "ceil"),
    (31, "erf"),
    (32, "threshold_relu"),
    (33, "gamma"),
]);
/// Activations of the back end.
pub static NON_LINEAR_MODES: [Code; 48] = count(
    0,
    [
        "none",
        "relu",
        "sigmoid",
        "sigmoid_high_precision",
        "relu_sigmoid",
        "sigmoid_hard",
        "tanh",
        "clamped_relu",
        "prelu",
        "relun",
        "swish",
        "swish_hard",
        "dirac",
        "int",
        "frac",
        "sqrt",
        "rsqrt",
        "clamped_relu_rsqrt",
        "inv",
        "sqr",
        "log2",
        "exp2",
        "exp",
        "elu",
        "sign",
        "equal_zero",
        "not_equal_zero",
        "less_than_zero",
        "less_than_equal_zero",
        "greater_than_equal_zero",
        "greater_than_zero",
        "custom_lut",
        "sin",
        "cos",
        "gelu",
        "gelu_sigmoid_approximation",
        "degamma",
        "round_nearest",
        "trunc",
        "floor",
        "ceil",
        "atan",
        "atan_part1",
        "atan_part2",
        "erf",
        "thresholded_relu",
        "gamma",
        "abs",
    ],
);
/// Padding styles.
pub static PADDING_STYLES: [Code; 5] =
    count(0, ["EXPLICIT", "TF_VALID", "TF_SAME", "EXPLICIT_OFFSET", "ONNX_SAME_LOWER"]);
/// Rounding of a coordinate.
pub static NEAREST_ROUNDINGS: [Code; 6] =
    count(0, ["round_prefer_ceil", "round_prefer_floor", "ceil", "floor", "round_to_even", "round_to_odd"]);
/// Reductions of the front end.
pub static REDUCE_OPS: [Code; 6] = count(0, ["min", "max", "sum", "prod", "argMin", "argMax"]);
/// Order of axes.
pub static DATA_LAYOUTS: [Code; 11] =
    count(0, ["NCHW", "NHWC", "OIHW", "HWIO", "CHW", "HWC", "HW", "NCDHW", "NDHWC", "OIDHW", "DHWIO"]);
/// Combination of a scattered value with the previous one.
pub static SCATTER_MODES: [Code; 7] = count(0, ["add", "subtract", "multiply", "divide", "min", "max", "set"]);
/// Meaning of the indices of maxima.
pub static POOL_INDICES: [Code; 8] = count(
    0,
    [
        "GlobalFlatten1D",
        "GlobalFlatten2D",
        "GlobalFlatten3D",
        "GlobalFlatten4D",
        "LocalFlatten1D",
        "LocalFlatten2D",
        "LocalFlatten3D",
        "LocalFlatten4D",
    ],
);
/// Activation of a recurrent gate.
pub static GATE_ACTIVATIONS: [Code; 6] = count(0, ["none", "relu", "tanh", "sigmoid", "hard_sigmoid", "scaled_tanh"]);
/// Values that a stencil reads outside its source.
pub static STENCIL_PADDINGS: [Code; 7] =
    count(0, ["constant", "mirror", "mirrorWithEdge", "clampToEdge", "zero", "periodic", "antiPeriodic"]);
/// Formats of image buffers.
pub static PIXEL_FORMATS: [Code; 10] = count(
    0,
    [
        "R8Unorm",
        "RG8Unorm",
        "RGBA8Unorm",
        "BGRA8Unorm",
        "R16Float",
        "RG16Float",
        "RGBA16Float",
        "R32Float",
        "RG32Float",
        "RGBA32Float",
    ],
);
/// Rounding of arithmetic.
pub static ROUNDING_MODES: [Code; 5] =
    count(0, ["to_nearest_even", "downward", "upward", "toward_zero", "to_nearest_away"]);
/// Reductions across engines.
pub static COLLECTIVE_REDUCTIONS: [Code; 5] = count(1, ["sum", "max", "min", "prod", "mean"]);
/// Functions of a pooling window.
pub static POOLING_TYPES: [Code; 14] = count(
    1,
    [
        "Avg",
        "Max",
        "ChannelMax",
        "Min",
        "ChannelMin",
        "L1",
        "L2",
        "SpatialAndChannelAvg",
        "SpatialAndChannelMax",
        "SpatialAndChannelMin",
        "SpatialArgMax",
        "ChannelArgMax",
        "SpatialArgMin",
        "ChannelArgMin",
    ],
);
/// Functions of a reduction.
pub static REDUCTION_TYPES: [Code; 11] = count(
    0,
    ["Sum", "Min", "Max", "Avg", "SatSum", "SatSub", "ArgMin", "ArgMax", "BitwiseAnd", "BitwiseOr", "BitwiseXor"],
);
/// Functions of an elementwise operation.
pub static ELEMENTWISE_TYPES: [Code; 21] = count(
    1,
    [
        "Add",
        "Mult",
        "Square",
        "Sub",
        "Power",
        "Div",
        "Max",
        "Min",
        "Abs",
        "EqualZero",
        "NotEqualZero",
        "LessThanZero",
        "LessThanEqualZero",
        "GreaterThanEqualZero",
        "GreaterThanZero",
        "Equal",
        "NotEqual",
        "LessThan",
        "LessThanEqual",
        "GreaterThanEqual",
        "GreaterThan",
    ],
);
/// Functions of a scaled elementwise operation.
pub static SCALED_ELEMENTWISE_TYPES: [Code; 5] = count(1, ["Add", "Mult", "SumSquare", "Max", "Min"]);
/// Values read outside the source.
pub static PADDING_MODES: [Code; 7] = pairs([
    (1, "Zero"),
    (2, "Negative"),
    (3, "Replication"),
    (5, "Symmetric"),
    (6, "Reflective"),
    (7, "Background"),
    (8, "DontCare"),
]);
/// Interpolation of a resampler.
pub static SAMPLING_METHODS: [Code; 2] = count(0, ["Linear", "NearestNeighbor"]);
/// Sampling grid of a resampler.
pub static SAMPLING_GRIDS: [Code; 7] = count(
    0,
    [
        "AlignedCorners",
        "UnalignedCorners",
        "OffsetCorners",
        "Default",
        "OffsetDefault",
        "OffsetDefaultWithNominalScale",
        "StrictAlignedCorners",
    ],
);
/// Normalization of coordinates.
pub static COORDINATE_MODES: [Code; 3] = count(0, ["NonNormalized", "NormalizedSymmetric", "NormalizedReflect"]);
/// Results of an index search.
pub static ARG_MODES: [Code; 4] = count(1, ["SpatialArgMin", "ChannelArgMin", "SpatialArgMax", "ChannelArgMax"]);
/// Order of a sort.
pub static SORT_DIRECTIONS: [Code; 3] = count(0, ["Invalid", "Ascending", "Descending"]);
/// End of the sorted order that is kept.
pub static TOP_K_TYPES: [Code; 3] = count(0, ["Invalid", "Min", "Max"]);
/// Order in which axes are flattened.
pub static FLATTEN_TYPES: [Code; 2] = count(1, ["NCHW", "NHWC"]);
/// Number of an axis.
pub static DIMENSIONS: [Code; 5] = count(0, ["N", "D", "C", "H", "W"]);

/// Location that the allocator gives a tensor: the book's table 22.2.
pub static ALLOCATIONS: [Code; 9] = {
    const MEANINGS: [(&str, &str); 9] = [
        ("resident", "resident on chip"),
        ("streamed", "streamed from memory"),
        ("chained", "chained in L2 into the next operation"),
        ("dependent", "depends on a producer in L2"),
        ("in-place", "rewritten in place in L2"),
        ("in-place-dependent", "rewritten in place in L2, depends on a producer there"),
        ("ring", "resident ring buffer"),
        ("ring-dependent", "resident ring buffer that depends on a producer in L2"),
        ("in-place-memory", "rewritten in place in memory"),
    ];
    let mut rows = count(0, [""; 9]);
    let mut i = 0;
    while i < rows.len() {
        (rows[i].name, rows[i].meaning) = MEANINGS[i];
        i += 1;
    }
    rows
};

/// All enumerations.
pub static ENUMERATIONS: &[Enumeration] = &[
    of("element", "ANECIRDataType", "element types as the dispatch descriptor stores them", &ELEMENT_ROWS),
    of("op-class", "ZinUnitType", "classes of operations: the unit that a layer goes to", &OP_CLASSES),
    of("micro-op", "ZinIrOpLayerOpCodeType", "kinds of back-end operations", &MICRO_OPS),
    of("allocation", "", "kinds of memory that the allocator assigns to a tensor", &ALLOCATIONS),
    of("activation", "NeuronTypeFromString", "activations by the front end", &ACTIVATIONS),
    of("non-linear-mode", "NonLinearModeToString", "activations by the back end", &NON_LINEAR_MODES),
    of("padding-style", "padding_style", "ways to state padding", &PADDING_STYLES),
    of("nearest-rounding", "nearest_rounding_mode", "rounding of coordinates", &NEAREST_ROUNDINGS),
    of("reduce-op", "reduce_op", "functions of reductions in the front end", &REDUCE_OPS),
    of("data-layout", "data_layout", "order of axes", &DATA_LAYOUTS),
    of("scatter-mode", "scatter mode", "ways to combine a scattered value with the present one", &SCATTER_MODES),
    of("pool-indices", "pool indices_mode", "origin and shape of the indices of maxima", &POOL_INDICES),
    of("gate-activation", "RNN gate activation", "activation of a recurrent gate", &GATE_ACTIVATIONS),
    of("stencil-padding", "stencil padding_mode", "values that a stencil reads beyond the border", &STENCIL_PADDINGS),
    of("pixel-format", "pixel_format", "formats of image buffers", &PIXEL_FORMATS),
    of("rounding-mode", "arith::RoundingMode", "rounding of arithmetic", &ROUNDING_MODES),
    of(
        "collective-reduction",
        "collective reduction",
        "functions of reductions across engines",
        &COLLECTIVE_REDUCTIONS,
    ),
    of("pooling-type", "ZinIrPoolingType", "functions of pooling windows", &POOLING_TYPES),
    of("reduction-type", "ZinIrReductionType", "functions of reductions in the back end", &REDUCTION_TYPES),
    of("elementwise-type", "ZinIrEWType", "functions of elementwise operations", &ELEMENTWISE_TYPES),
    of(
        "scaled-elementwise-type",
        "ZinIrScaledEWType",
        "functions of scaled elementwise operations",
        &SCALED_ELEMENTWISE_TYPES,
    ),
    of("padding-mode", "ZinIrPaddingMode", "values that an operation reads beyond the border", &PADDING_MODES),
    of("sampling-method", "ZinIrSamplingMethod", "interpolation of resampling", &SAMPLING_METHODS),
    of("sampling-grid", "ZinIrSamplingGridMode", "sampling positions of resampling", &SAMPLING_GRIDS),
    of("coordinate-mode", "ZinIrCoordinateMode", "units of coordinates", &COORDINATE_MODES),
    of("arg-mode", "ZinArgMode", "extremes that an index search finds", &ARG_MODES),
    of("sort-direction", "ZinIrSortDirection", "order of a sort", &SORT_DIRECTIONS),
    of("top-k-type", "ZinIrTopKType", "end of the order that top-k keeps", &TOP_K_TYPES),
    of("flatten-type", "ZinIrFlattenType", "order in which axes are joined", &FLATTEN_TYPES),
    of("dimension", "ZinIrDimension", "number of an axis", &DIMENSIONS),
];
