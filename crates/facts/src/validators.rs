//! The compiler's exported validators: 50 for layers and 5 others. Names are the export table's; operand counts and
//! envelopes are appendix B and chapters 17 and 22 of the book: `docs/evidence.md`, key `validators`.

/// One exported validator of a layer.
#[derive(Debug)]
pub struct Validator {
    /// The name between `_ANECValidate` and `Layer`.
    pub stem: &'static str,
    /// Fewest operands.
    pub least: u8,
    /// Most operands.
    pub most: u8,
    /// True if the layer has a descriptor: five computed or umbrella operations have none.
    pub descriptor: bool,
    /// Capability byte of the HAL that the validator reads.
    pub capability: Option<&'static str>,
    /// Checks.
    pub envelope: &'static str,
}

impl Validator {
    /// Number of operands that it accepts, in words.
    pub fn operands(&self) -> String {
        match (self.least, self.most) {
            (1, 1) => "1 operand".into(),
            (least, most) if least == most => format!("{most} operands"),
            (least, most) => format!("{least} to {most} operands"),
        }
    }

    /// Name in the export table.
    pub fn export(&self) -> String {
        format!("_ANECValidate{}Layer", self.stem)
    }
}

/// An exported validator that does not belong to one layer.
#[derive(Debug)]
pub struct Export {
    /// Name in the export table.
    pub export: &'static str,
    /// Function.
    pub role: &'static str,
}

/// The five exports that do not belong to one layer.
pub static OTHERS: &[Export] = &[
    Export {
        export: "_ANECValidateNetworkCreate",
        role: "dry run of network creation: every layer by its own validator, then the network's own checks",
    },
    Export { export: "_ANECValidate", role: "one operation or descriptor" },
    Export { export: "_ANECValidateMPSModule", role: "a module of the intermediate language before conversion" },
    Export { export: "_ANECValidateMPSModuleCreate", role: "as _ANECValidateMPSModule, for a module to be created" },
    Export {
        export: "_ANECValidateMutableProcedureInfo",
        role: "the descriptor of a procedure whose weights are to be exchanged",
    },
];

/// The validator of that stem or full export name.
pub fn by_name(name: &str) -> Option<&'static Validator> {
    let stem = name.strip_prefix("_ANECValidate").and_then(|n| n.strip_suffix("Layer")).unwrap_or(name);
    VALIDATORS.iter().find(|v| v.stem == stem)
}

macro_rules! capability {
    (_) => {
        None
    };
    ($name:literal) => {
        Some($name)
    };
}

macro_rules! validators {
    ( $( $stem:ident $least:literal ..= $most:literal $descriptor:literal $capability:tt $envelope:literal; )* ) => {
        /// The 50 validators of layers, by name.
        pub static VALIDATORS: &[Validator] = &[ $( Validator {
            stem: stringify!($stem), least: $least, most: $most, descriptor: $descriptor,
            capability: capability!($capability), envelope: $envelope,
        } ),* ];
    };
}

// Stem, operands, true for a descriptor, capability byte, envelope. Weights and tables are parameters, not operands.
validators! {
    AffineTransform 2..=2 true "texture_engine" "fp16 matrix of 6 elements; texture engine";
    ArgMinMax 1..=1 false _ "reduced extent at most 2048; padding below the kernel, equal left and right, none front and back; stride 1, 2 or 4";
    BatchToSpace 1..=1 true _ "factors are products of 2, 3, 4 and 8; batch divisible by their product";
    Broadcast 1..=1 false _ "only from extent 1; the depth axis needs its capability";
    ChannelToSpace 1..=1 true _ "depth factor 1; batch 1; channels divisible by the product of the factors";
    Concat 2..=255 true _ "constant axis, not negative; equal extents on the other axes; one layout";
    Conv 1..=2 true _ "kernel within the chip's bounds; channels divisible by groups; padded input not smaller than the kernel";
    CropResize 2..=2 true _ "indices uint16 or fp16; one coordinate mode, method and padding for all axes; texture engine in code generation";
    CrossCorrelation 2..=2 true _ "template of depth 1, one channel, not larger than the map";
    CrossProduct 2..=2 false _ "three channels, depth, height and width 1, interleave 1, fp16";
    Dropout 1..=1 true "dropout_random" "rate from 0 up to, not including, 1";
    DynamicGOC 2..=3 true "dynamic_goc" "gain and offset per channel, height 1";
    DynamicSlice 1..=2 true _ "start within the axis; passes here and fails code generation on the M1";
    ElementWise 1..=3 false _ "equal extents, or 1 along a broadcast axis";
    Flatten 1..=1 true _ "order NCHW or NHWC";
    GOC 1..=1 true _ "gain and offset per channel or single; height 1";
    Gather 2..=2 true _ "one index tensor; without a texture engine only batch 1, depth 1, three index channels and axes";
    GlobalArgMinMax 1..=1 false "global_arg_min_max" "mode minimum or maximum; one of the five axes";
    InputView 1..=1 true _ "offset, size and step within the axis; follows a reshape";
    InstanceNorm 1..=1 true "instance_norm" "spatial axes only";
    L2Norm 1..=1 true _ "axes not empty";
    LRN 1..=1 true "lrn" "channel window not longer than the channels; 16 channels and more fail code generation on the M1";
    LayerNorm 1..=1 true _ "channels divisible by groups; grouped form of depth 1; float output";
    Linear 1..=1 true _ "rank below 5";
    MatrixMult 2..=2 true _ "depth 1 on both operands; inner extents agree; one output channel's bytes fit kernel memory";
    MinMaxNorm 1..=1 true _ "along width or height; along channels only with its capability";
    NMS 2..=8 true _ "boxes of 4 channels; never native";
    Neuron 1..=1 true _ "mode 1 to 46, in the chip's list";
    Pad 1..=1 true _ "height and width only; symmetric and reflect need the texture engine";
    PixelShuffle 1..=1 true _ "factors 1, 2, 3, 4 or 8, depth factor 1; channels divisible by their product";
    PixelUnshuffle 1..=1 true _ "factors 1, 2, 3, 4 or 8, depth factor 1; extents divisible by them";
    Pool 1..=1 true _ "window not larger than the padded input; padding below the kernel; the mode in the chip's list";
    Random 0..=0 true "dropout_random" "low below high; output int8, uint8 or fp16";
    Reduction 1..=1 true _ "reduced extents become 1, the others stay; a fused square needs its capability";
    Resample 2..=2 true _ "coordinates of depth 1 and 1 or 2 channels; texture engine";
    Reshape 1..=1 true _ "equal element counts; rank at most 5";
    Resize 1..=1 true _ "extents or ratio, not both; height and width only; texture engine, or the software route";
    ResizeAs 2..=2 true _ "as Resize, with the extents of the second operand";
    RingBufferWriter 2..=2 true _ "writes to a live state; circular mode is gated";
    SDPA 4..=5 true _ "query, key, value, scale and an optional mask; key and value of equal extents; mask of the operands' format";
    ScaledElementWise 2..=2 true _ "as ElementWise; subtraction is rejected";
    Shape 1..=1 true _ "static extents";
    Softmax 1..=1 true "softmax" "axes not empty; float output";
    Sort 1..=1 true _ "direction given; output fp16 or uint16; passes here and fails code generation on the M1";
    SpaceToBatch 1..=1 true _ "factors are products of 2, 3, 4 and 8; extents divisible by them";
    SpaceToChannel 1..=1 true _ "depth factor 1; batch 1; extents divisible by the factors";
    Tile 1..=1 true _ "factors are products of 2, 3, 4 and 8";
    TopK 1..=1 true _ "k within the sorted extent; 3 and 4 fail code generation";
    Transpose 1..=1 true _ "every axis once; only the last four; extents within the chip's bound";
    Unflatten 1..=1 true _ "element counts agree; passes here and fails code generation everywhere";
}

/// A form of the check that the kernel driver repeats on the tensors of a program at load.
#[derive(Debug)]
pub struct LoadForm {
    /// Function of the driver; the names of the single-plane forms follow the pattern of the two attested ones.
    pub function: &'static str,
    /// True for tensors with several planes.
    pub planes: bool,
    /// True for tiled and compressed tensors.
    pub compressed: bool,
    /// Basis of the name.
    pub basis: crate::Basis,
}

/// The check of a thread record, for tensors of every form.
pub const LOAD_THREAD: &str = "ZinComputeProgramValidateLCThread";

/// Text for a tensor record that is too short: one of the strings in Apple's compiler, as public lists of strings by version have
/// them; that [`LOAD_THREAD`] prints it is inferred from the text.
pub const RECORD_TOO_SHORT: &str = "Error: thread argument buffer overrun.";
/// Text for a record that is neither input nor output; same basis as [`RECORD_TOO_SHORT`].
pub const UNKNOWN_DIRECTION: &str = "Error: thread argument is not supported.";

/// Forms of the check at load.
pub static LOAD_FORMS: &[LoadForm] = &[
    LoadForm {
        function: "ZinComputeProgramValidateNamesFromSinglePlaneLinear",
        planes: false,
        compressed: false,
        basis: crate::Basis::Inferred,
    },
    LoadForm {
        function: "ZinComputeProgramValidateNamesFromMultiPlaneLinear",
        planes: true,
        compressed: false,
        basis: crate::Basis::Decoded,
    },
    LoadForm {
        function: "ZinComputeProgramValidateNamesFromSinglePlaneTiledCompressed",
        planes: false,
        compressed: true,
        basis: crate::Basis::Inferred,
    },
    LoadForm {
        function: "ZinComputeProgramValidateNamesFromMultiPlaneTiledCompressed",
        planes: true,
        compressed: true,
        basis: crate::Basis::Decoded,
    },
];
