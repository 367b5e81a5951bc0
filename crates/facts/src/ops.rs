//! Operations of the Core ML opsets: support by family of chips, cost, and native layers.
//!
//! Reach by family is appendix A of the book (columns h13, h14 and h17s measured, h15 and h16 predicted), the sweep is
//! ANEForge's single-operation run on an M5: `docs/evidence.md`, key `op-matrix`. The segmenter's answers are from a
//! study of the M4 and M6, key `m6-study`.

use crate::Basis;
use crate::chips::Chip;

/// Support of an operation on a family of chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Compiles and runs on the engine.
    Native,
    /// Only through a decomposition, a software fallback or a wrapper.
    Bridge,
    /// Not supported on this family, native on a later one.
    Gated,
    /// Rejected on every family.
    None,
}

/// Cost of a supported operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Own layers.
    Layer,
    /// A reshape: no layer if the neighbouring operations allow it.
    Free,
    /// Folded at compile time, into a constant or an offset of a descriptor.
    Folded,
    /// Own layers in a segment of their own.
    Cut,
    /// Computed on the host.
    Host,
}

/// Result of a single-operation run on an M5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Ran with correct numbers.
    Correct,
    /// Ran; numbers not compared.
    Runs,
    /// Rejected by the compiler.
    Walled,
    /// No engine implementation was offered.
    Missing,
    /// Not part of the run.
    Untried,
}

/// One operation.
#[derive(Debug)]
pub struct OpRow {
    /// Name in the intermediate language.
    pub name: &'static str,
    /// Chapter of appendix A.
    pub group: &'static str,
    /// Cost where it is supported.
    pub shape: Shape,
    /// Support on the A13, A14, A15 and later families.
    pub reach: [Reach; 4],
    /// Lowest legality family of the conversion route.
    pub floor: Option<u8>,
    /// Result of the run on an M5.
    pub sweep: Sweep,
    /// Native layers that it is lowered to, by the name of their validator.
    pub layers: &'static [&'static str],
    /// Alternative; empty where none is known.
    pub instead: &'static str,
    /// Limits and oddities.
    pub note: &'static str,
}

impl OpRow {
    /// Support on that chip and its basis; `None` before the A13, which appendix A does not cover.
    pub fn reach_on(&self, chip: &Chip) -> Option<(Reach, Basis)> {
        let (column, basis) = match chip.family {
            "A13" => (0, Basis::Measured),
            "A14" => (1, Basis::Measured),
            "A15" => (2, Basis::Inferred),
            "A16" => (3, Basis::Inferred),
            "A17" => (3, Basis::Measured),
            "A18" => (3, Basis::Inferred),
            _ => return None,
        };
        Some((self.reach[column], basis))
    }

    /// The first chip with a native path, by its best known name.
    pub fn first_native(&self) -> Option<&'static str> {
        let column = self.reach.iter().position(|&r| r == Reach::Native)?;
        ["m1", "m2", "m3", "m4"].get(column).copied()
    }
}

/// The operation of that name.
pub fn by_name(name: &str) -> Option<&'static OpRow> {
    OPS.iter().find(|o| o.name == name)
}

/// A layer that its validator accepts and code generation rejects, or that no exported validator covers.
#[derive(Debug)]
pub struct Attested {
    /// Native layer.
    pub layer: &'static str,
    /// Operations that are lowered to it.
    pub ops: &'static [&'static str],
    /// Families where code generation fails; empty: all.
    pub families: &'static [&'static str],
    /// Symptom and cause.
    pub reason: &'static str,
    /// Basis.
    pub basis: Basis,
    /// Key into `docs/evidence.md`.
    pub source: &'static str,
}

/// Layers that are attested and unreachable.
pub static ATTESTED: &[Attested] = &[
    Attested {
        layer: "TopK",
        ops: &["topk"],
        families: &["A13"],
        reason: "the validator accepts it, code generation refuses it on the M1; named as a unit of a netplist it runs there, except for k of 3 and 4",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "Sort",
        ops: &["argsort"],
        families: &["A13"],
        reason: "the validator accepts it, code generation refuses it on the M1",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "DynamicSlice",
        ops: &["slice_update"],
        families: &["A13"],
        reason: "the validator accepts it, code generation refuses it on the M1",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "Unflatten",
        ops: &[],
        families: &[],
        reason: "the validator accepts it, every form fails in code generation",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "CropResize",
        ops: &["crop_resize"],
        families: &["A13"],
        reason: "the validator accepts it, code generation has no texture engine to use",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "RingBufferWriter",
        ops: &["tensor_to_circular_buffer"],
        families: &[],
        reason: "named as a unit of a netplist it fails in code generation, on the M5 too",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "KernelRasterizer",
        ops: &[],
        families: &[],
        reason: "named as a unit of a netplist it fails in code generation, on the M5 too; it has no exported validator",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "NMS",
        ops: &["non_maximum_suppression"],
        families: &[],
        reason: "the validator accepts, only CPU and GPU back ends run it",
        basis: Basis::Decoded,
        source: "op-matrix",
    },
    Attested {
        layer: "Range",
        ops: &["range_1d"],
        families: &["A13"],
        reason: "code generation rejects it on the M1: compute the constant beforehand",
        basis: Basis::Measured,
        source: "op-matrix",
    },
    Attested {
        layer: "RCAS",
        ops: &[],
        families: &[],
        reason: "an internal check but no exported validator: direct authoring cannot reach it",
        basis: Basis::Decoded,
        source: "op-matrix",
    },
    Attested {
        layer: "Reverse",
        ops: &[],
        families: &[],
        reason: "an internal check but no exported validator: direct authoring cannot reach it; conversion can",
        basis: Basis::Decoded,
        source: "op-matrix",
    },
];

/// Answer of the framework's segmenter to an operation, for any operands.
#[derive(Debug)]
pub struct Segmenter {
    /// Operation.
    pub op: &'static str,
    /// Text of the rejection; empty: accepted.
    pub text: &'static str,
    /// Basis.
    pub basis: Basis,
}

macro_rules! segmenter {
    ( $( $basis:ident $text:literal: $( $op:ident )*; )* ) => {
        /// Operations that the framework's segmenter rejects by name, and those that it accepts contrary to appendix A.
        pub static SEGMENTER: &[Segmenter] = &[ $( $( Segmenter {
            op: stringify!($op), text: $text, basis: Basis::$basis,
        } ),* ),* ];
    };
}

segmenter! {
    Compiler "Unsupported MIL operation \"%s\".": lstm asin mod reduce_prod cumsum band_part one_hot random_normal
        scatter_along_axis;
    Inferred "Unsupported MIL operation \"%s\".": gru rnn acos atanh sinh cosh tan asinh acosh non_zero range_1d
        reverse_sequence scatter_nd random_uniform random_bernoulli random_categorical non_maximum_suppression list_gather
        list_length list_read list_scatter list_write make_list cond while_loop call;
    Compiler "MIL converter not implemented.": sliding_windows;
    Compiler "scatter MIL op is currently only supported on uANE targets (u1-u4)": scatter;
    Compiler "": logical_and cast gather;
    Inferred "": logical_or logical_xor constexpr_cast;
}

macro_rules! reach {
    (N) => {
        Reach::Native
    };
    (B) => {
        Reach::Bridge
    };
    (G) => {
        Reach::Gated
    };
    (X) => {
        Reach::None
    };
}

macro_rules! floor {
    (_) => {
        None
    };
    ($floor:literal) => {
        Some($floor)
    };
}

macro_rules! ops {
    ( $( $name:ident $group:literal $shape:ident [ $a:ident $b:ident $c:ident $d:ident ] $floor:tt $sweep:ident
         [ $( $layer:literal ),* ] $instead:literal $note:literal; )* ) => {
        /// All operations of appendix A.
        pub static OPS: &[OpRow] = &[ $( OpRow {
            name: stringify!($name), group: $group, shape: Shape::$shape,
            reach: [reach!($a), reach!($b), reach!($c), reach!($d)], floor: floor!($floor), sweep: Sweep::$sweep,
            layers: &[ $( $layer ),* ], instead: $instead, note: $note,
        } ),* ];
    };
}

// Name, group, shape, reach on A13 A14 A15 and later (Native, Bridge, Gated, X none), floor, sweep, layers, instead, note.
ops! {
    conv "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Conv"] "" "kernels of at most 29 x 29 (M1) or 32 x 32 (M5) by the table of the chip; fp16 kernels compile up to a width of 13 or 15; Winograd for 3 x 3 with stride 1";
    conv_transpose "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Conv"] "" "strided axes have the limits of small kernels";
    linear "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Linear"] "" "a convolution where the weights take at most 2 MiB";
    linear_activation "Convolution, matrix multiply, and pooling" Layer [N N N N] _ Correct ["Linear", "Neuron"] "" "an activation fused into a linear layer";
    matmul "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["MatrixMult"] "" "on the neural engine, or as a convolution with the limits of one";
    ne_matmul "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Untried ["MatrixMult"] "" "matmul on the neural engine";
    einsum "Convolution, matrix multiply, and pooling" Layer [N N N N] _ Correct ["Transpose", "MatrixMult"] "transposes and matmul" "";
    ne_conv "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Untried ["Conv"] "" "conv on the neural engine";
    avg_pool "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Pool"] "" "windows of at most 29 (M1) or 31 (from the M2 on)";
    max_pool "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Pool"] "" "";
    l2_pool "Convolution, matrix multiply, and pooling" Layer [N N N N] 0 Correct ["Pool"] "" "an activation table";
    ne_pool "Convolution, matrix multiply, and pooling" Layer [N N N N] _ Untried ["Pool"] "" "pooling on the neural engine";
    pe_pool "Convolution, matrix multiply, and pooling" Layer [N N N N] _ Untried ["Pool"] "" "pooling on the planar engine";
    pe_elementwise "Convolution, matrix multiply, and pooling" Layer [N N N N] _ Untried ["ElementWise"] "" "elementwise operations on the planar engine";
    pe_goc "Convolution, matrix multiply, and pooling" Layer [B B B B] _ Untried ["GOC"] "" "gain and offset on the planar engine; internal";
    ne_bypass "Convolution, matrix multiply, and pooling" Layer [B B B B] _ Untried [] "" "copy through the neural engine; internal";
    scaled_dot_product_attention "Convolution, matrix multiply, and pooling" Cut [N N N N] 2 Correct ["SDPA"] "matmul, softmax, matmul" "needs no texture engine";
    batch_norm "Normalization" Layer [N N N N] 2 Correct ["GOC"] "gain and offset" "a gain and an offset at inference; with computed statistics from the M1 on";
    layer_norm "Normalization" Layer [N N N N] 2 Correct ["LayerNorm"] "" "";
    instance_norm "Normalization" Layer [N N N N] 2 Correct ["InstanceNorm"] "" "";
    l2_norm "Normalization" Layer [N N N N] 2 Runs ["L2Norm"] "reduce_l2_norm, then real_div" "";
    local_response_norm "Normalization" Layer [N N N N] _ Correct ["LRN"] "" "measured on an M1; as a decomposition at most 15 channels";
    abs "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "";
    add "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "second operand a constant or a tensor";
    sub "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "adds a negated constant";
    mul "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "second operand a constant or a tensor";
    real_div "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "";
    floor_div "Elementwise arithmetic" Layer [N N N N] _ Correct ["ElementWise"] "" "with an activation table";
    pow "Elementwise arithmetic" Layer [N N N N] _ Correct ["ElementWise"] "" "";
    square "Elementwise arithmetic" Layer [N N N N] _ Correct ["ElementWise"] "" "";
    sqrt "Elementwise arithmetic" Layer [N N N N] 2 Correct ["Neuron"] "" "an activation table";
    rsqrt "Elementwise arithmetic" Layer [N N N N] 2 Correct ["Neuron"] "" "an activation table";
    inverse "Elementwise arithmetic" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table of the reciprocal";
    maximum "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "";
    minimum "Elementwise arithmetic" Layer [N N N N] 0 Correct ["ElementWise"] "" "";
    mod "Elementwise arithmetic" Layer [X X X X] _ Missing [] "x - floor(x / y) * y" "computed on the host";
    cumsum "Elementwise arithmetic" Layer [N N N N] _ Missing [] "matmul by an upper triangle of ones" "the book: native on a special runtime path of the M1 only; a sweep on an M5: not implemented";
    equal "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    not_equal "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    greater "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    greater_equal "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    less "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    less_equal "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    logical_not "Comparison and logical" Layer [N N N N] 0 Runs ["ElementWise"] "" "";
    select "Comparison and logical" Layer [N N N N] 0 Correct ["ElementWise"] "" "called where in other frameworks";
    logical_and "Comparison and logical" Layer [X X X X] _ Missing ["ElementWise"] "minimum, or mul" "";
    logical_or "Comparison and logical" Layer [X X X X] _ Missing ["ElementWise"] "maximum" "";
    logical_xor "Comparison and logical" Layer [X X X X] _ Missing ["ElementWise"] "not_equal" "";
    relu "Activations" Layer [N N N N] 0 Correct ["Neuron"] "" "";
    relu6 "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    leaky_relu "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    prelu "Activations" Layer [N N N N] _ Runs ["Neuron"] "" "a slope for each channel; rank 3 and more";
    clamped_relu "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    thresholded_relu "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    threshold "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    clip "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "clamps";
    elu "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    sigmoid "Activations" Layer [N N N N] 0 Correct ["Neuron"] "" "also the hard form";
    sigmoid_hard "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    tanh "Activations" Layer [N N N N] 0 Correct ["Neuron"] "" "an activation table";
    scaled_tanh "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    gelu "Activations" Layer [N N N N] 0 Untried ["Neuron"] "" "an activation table";
    silu "Activations" Layer [N N N N] 0 Correct ["Neuron"] "" "swish; an activation table";
    softmax "Activations" Layer [N N N N] 2 Untried ["Softmax"] "" "an activation table";
    softplus "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    softplus_parametric "Activations" Layer [N N N N] _ Runs ["Neuron"] "" "an activation table";
    softsign "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    erf "Activations" Layer [N N N N] 2 Correct ["Neuron"] "" "an activation table";
    exp "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    exp2 "Activations" Layer [N N N N] 2 Correct ["Neuron"] "" "an activation table";
    log "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    sign "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    ceil "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    floor "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "an activation table";
    round "Activations" Layer [N N N N] _ Correct ["Neuron"] "" "to nearest; an activation table";
    reduce_sum "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "with a transpose from an extent of 192 (M1, M2) or 384 (from the M3 on)";
    reduce_mean "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "";
    reduce_max "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "";
    reduce_min "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "";
    reduce_sum_square "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "the square is fused from the M2 on; the M1 rounds once more";
    reduce_l1_norm "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "";
    reduce_l2_norm "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "";
    reduce_log_sum "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "with an activation table";
    reduce_log_sum_exp "Reduction" Layer [N N N N] 2 Correct ["Reduction"] "" "with an activation table";
    reduce_argmax "Reduction" Layer [N N N N] 2 Missing ["ArgMinMax", "GlobalArgMinMax"] "topk with k = 1, or the host" "one axis; all families";
    reduce_argmin "Reduction" Layer [B B N N] 4 Missing ["ArgMinMax", "GlobalArgMinMax"] "topk of the negated values, or the host" "one axis; native from the M3 on, decomposed on the M1 and M2";
    reduce_prod "Reduction" Layer [X X X X] _ Missing [] "exp of the sum of log x (x > 0)" "";
    reshape "Data movement and structural" Free [N N N N] 0 Correct ["Reshape"] "" "no data moves";
    reshape_like "Data movement and structural" Free [N N N N] _ Walled ["Reshape"] "" "";
    expand_dims "Data movement and structural" Free [N N N N] _ Correct ["Reshape"] "" "";
    squeeze "Data movement and structural" Free [N N N N] _ Correct ["Reshape"] "" "";
    flatten2d "Data movement and structural" Free [N N N N] _ Correct ["Flatten"] "" "";
    transpose "Data movement and structural" Layer [N N N N] 0 Correct ["Transpose"] "" "extents of at most 16384 (to the M3) or 65536";
    concat "Data movement and structural" Layer [N N N N] 0 Correct ["Concat"] "" "copied by DMA";
    split "Data movement and structural" Folded [N N N N] _ Correct ["InputView"] "" "";
    stack "Data movement and structural" Layer [N N N N] _ Correct ["Concat"] "" "";
    pad "Data movement and structural" Layer [N N N N] _ Correct ["Pad"] "" "constant padding on every chip; symmetric and reflect padding need the texture engine (from the M2 on)";
    slice_by_size "Data movement and structural" Folded [N N N N] _ Correct ["InputView"] "" "on the M1 and M2 an offset along the width reads fixed-point numbers: values above 4094 become infinite";
    slice_by_index "Data movement and structural" Folded [B B B B] _ Correct ["InputView"] "" "constant offsets are part of the descriptors";
    slice_update "Data movement and structural" Layer [N N N N] _ Missing ["DynamicSlice"] "slices and concat" "";
    reverse "Data movement and structural" Layer [N N N N] _ Correct [] "" "measured on an M1";
    reverse_sequence "Data movement and structural" Layer [X X X X] _ Missing [] "host reordering" "computed on the host";
    tile "Data movement and structural" Layer [N N N N] 2 Correct ["Tile"] "" "factors 2, 3, 4 and 8";
    gather "Data movement and structural" Layer [N N N N] _ Missing ["Gather"] "one-hot indices and matmul, where the indices are constant" "on the M1 only batch 1 and depth 1; a unit of its own from the M2 on";
    gather_along_axis "Data movement and structural" Layer [N N N N] _ Missing ["Gather"] "one-hot indices and matmul, where the indices are constant" "as `gather`";
    gather_nd "Data movement and structural" Layer [B N N N] _ Missing ["Gather"] "one-hot indices and matmul, where the indices are constant" "on the M1 batch 1, depth 1 and three index channels; texture engine from the M2 on";
    scatter "Data movement and structural" Layer [X X X X] _ Missing [] "mask and select, or the host" "computed on the host";
    scatter_along_axis "Data movement and structural" Layer [X X X X] _ Missing [] "mask and select, or the host" "computed on the host";
    scatter_nd "Data movement and structural" Layer [X X X X] _ Missing [] "mask and select, or the host" "computed on the host";
    depth_to_space "Data movement and structural" Layer [N N N N] _ Correct ["PixelShuffle"] "" "";
    space_to_depth "Data movement and structural" Layer [N N N N] 2 Correct ["PixelUnshuffle"] "" "";
    pixel_shuffle "Data movement and structural" Layer [N N N N] _ Correct ["PixelShuffle"] "" "factors 2, 3, 4 and 8; depth factor 1";
    pixel_unshuffle "Data movement and structural" Layer [N N N N] _ Correct ["PixelUnshuffle"] "" "extents divisible by the factor";
    space_to_batch "Data movement and structural" Layer [N N N N] _ Correct ["SpaceToBatch"] "" "factors 2, 3, 4 and 8; batches of at most 4096 (before the H13) or 65536";
    batch_to_space "Data movement and structural" Layer [N N N N] _ Correct ["BatchToSpace"] "" "inverse of space_to_batch";
    identity "Data movement and structural" Free [N N N N] _ Walled [] "" "a cast, or nothing";
    fill "Data movement and structural" Folded [N N N N] _ Correct [] "" "a constant";
    fill_like "Data movement and structural" Folded [N N N N] _ Correct [] "" "a constant";
    range_1d "Data movement and structural" Folded [B B B B] _ Correct [] "a constant computed beforehand" "refused in code generation on the M1";
    crop "Data movement and structural" Folded [N N N N] _ Correct ["InputView"] "" "a slice";
    band_part "Data movement and structural" Layer [X X X X] _ Missing [] "mul by a constant mask" "a mask computed on the host";
    non_zero "Data movement and structural" Layer [X X X X] _ Missing [] "a fixed-size mask" "the shape depends on values";
    one_hot "Data movement and structural" Layer [X X X X] _ Missing [] "gather from an identity table on the host" "";
    shape "Data movement and structural" Folded [X X X X] _ Missing [] "" "a constant: extents are static";
    sliding_windows "Data movement and structural" Layer [X X X X] _ Missing [] "slices and concat" "computed on the host";
    resize "Image, resize, and texture" Layer [B N N N] 2 Runs ["Resize"] "transposed convolution, or repeats along each axis" "texture engine; the software route of the M1 rounds differently";
    resize_bilinear "Image, resize, and texture" Layer [B N N N] 2 Runs ["Resize"] "transposed convolution" "texture engine; software on the M1";
    resize_nearest_neighbor "Image, resize, and texture" Layer [B N N N] 2 Correct ["Resize"] "repeats along each axis" "texture engine; software on the M1";
    upsample_bilinear "Image, resize, and texture" Layer [B N N N] 2 Runs ["Resize"] "transposed convolution" "texture engine; software on the M1";
    upsample_nearest_neighbor "Image, resize, and texture" Layer [B N N N] 2 Correct ["Resize"] "repeats along each axis" "texture engine; software on the M1";
    crop_resize "Image, resize, and texture" Layer [G N N N] 3 Missing ["CropResize"] "crop with constant boxes, then resize" "texture engine, from the M2 on";
    resample "Image, resize, and texture" Layer [G N N N] 3 Untried ["Resample"] "gather on the host" "texture engine, from the M2 on";
    affine "Image, resize, and texture" Layer [G N N N] _ Runs ["AffineTransform"] "the host" "texture engine, from the M2 on";
    pixel_buffer_to_tensor "Image, resize, and texture" Host [B B B B] _ Untried [] "" "pixel buffers with a four-character code; needs an entitlement, on every chip";
    tensor_to_pixel_buffer "Image, resize, and texture" Host [B B B B] _ Untried [] "" "internal";
    gamma "Image, resize, and texture" Host [B B B B] _ Untried [] "" "for the image signal processor; internal";
    degamma "Image, resize, and texture" Host [B B B B] _ Untried [] "" "for the image signal processor; internal";
    cast "Quantization and dtype" Layer [N N N N] _ Missing [] "fp16 throughout; casts on the host" "between fp16 and fp32 or bool on the M1; int32 is refused";
    quantize "Quantization and dtype" Layer [N N N N] 0 Correct [] "" "needs no texture engine";
    dequantize "Quantization and dtype" Layer [N N N N] 0 Correct [] "" "";
    const "Quantization and dtype" Folded [B B B B] _ Untried [] "" "part of the operation that reads it";
    constexpr_affine_dequantize "Quantization and dtype" Folded [B B B B] _ Correct [] "" "int8 weights stream from family A14 on and are expanded before";
    constexpr_lut_to_dense "Quantization and dtype" Folded [N N N N] _ Correct [] "" "4-bit palettes stream from the M1 on";
    constexpr_lut_to_sparse "Quantization and dtype" Folded [B B B B] _ Runs [] "" "streams from the M3 on, expanded before";
    constexpr_blockwise_shift_scale "Quantization and dtype" Folded [B B N N] _ Correct [] "" "streams from the M3 on, expanded on the M1 and M2";
    constexpr_sparse_blockwise_shift_scale "Quantization and dtype" Folded [B B N N] _ Runs [] "" "streams from the M3 on";
    constexpr_sparse_to_dense "Quantization and dtype" Folded [N N N N] _ Correct [] "" "streams from the M1 on";
    constexpr_cast "Quantization and dtype" Folded [X X X X] _ Correct [] "" "the book: refused on every chip; a sweep on an M5: correct";
    read_state "Attention, control flow, and state" Free [N N N N] _ Walled [] "" "needs a descriptor that is input and output, such as a key-value cache";
    write_state "Attention, control flow, and state" Free [N N N N] _ Untried [] "" "writes a state";
    tensor_buffer_to_tensor "Attention, control flow, and state" Layer [B B B B] _ Untried [] "" "inside graphs with states";
    tensor_to_tensor_buffer "Attention, control flow, and state" Layer [B B B B] _ Untried [] "" "internal";
    circular_buffer_to_tensor "Attention, control flow, and state" Layer [B B B B] _ Untried [] "" "reads a ring buffer";
    tensor_to_circular_buffer "Attention, control flow, and state" Layer [B B B B] _ Untried ["RingBufferWriter"] "" "writes a ring buffer";
    cond "Attention, control flow, and state" Host [B B B B] _ Walled [] "both branches and select" "flattened on the host";
    while_loop "Attention, control flow, and state" Host [B B B B] _ Walled [] "unrolled steps" "unrolled on the host";
    call "Attention, control flow, and state" Host [B B B B] _ Untried [] "" "inlined";
    gru "Recurrent cells" Layer [X X X X] _ Missing [] "unrolled steps of linear and elementwise layers" "unrolled on the host";
    lstm "Recurrent cells" Layer [X X X X] _ Missing [] "unrolled steps of linear and elementwise layers" "unrolled on the host";
    rnn "Recurrent cells" Layer [X X X X] _ Missing [] "unrolled steps of linear and elementwise layers" "unrolled on the host";
    sin "Trigonometric, special, and math" Layer [G G N N] 4 Correct ["Neuron"] "a polynomial" "from the M3 on";
    cos "Trigonometric, special, and math" Layer [G G N N] 4 Correct ["Neuron"] "a polynomial" "from the M3 on";
    atan "Trigonometric, special, and math" Layer [N N N N] _ Correct ["Neuron"] "" "the only native trigonometric function of the M1";
    tan "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "sin over cos" "";
    asin "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "a polynomial" "computed on the host";
    acos "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "a polynomial" "computed on the host";
    atanh "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "half the log of (1 + x) / (1 - x)" "computed on the host";
    asinh "Trigonometric, special, and math" Layer [X X X X] _ Untried [] "log of x + sqrt(x * x + 1)" "computed on the host";
    acosh "Trigonometric, special, and math" Layer [X X X X] _ Untried [] "log of x + sqrt(x * x - 1)" "computed on the host";
    sinh "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "(exp x - exp -x) / 2" "computed on the host";
    cosh "Trigonometric, special, and math" Layer [X X X X] _ Missing [] "(exp x + exp -x) / 2" "computed on the host";
    cross_product "Trigonometric, special, and math" Layer [B B B B] _ Untried ["CrossProduct"] "" "decomposed; measured on an M1";
    cost_volume "Trigonometric, special, and math" Layer [B B B B] _ Untried [] "" "decomposed; measured on an M1";
    matrix_decomposition "Trigonometric, special, and math" Host [B B B B] _ Untried [] "" "is never lowered";
    non_maximum_suppression "Detection and sampling" Host [B B B B] _ Runs ["NMS"] "the host" "only CPU and GPU run it";
    topk "Detection and sampling" Layer [G N N N] _ Correct ["TopK"] "the host" "from the M2 on; on the M1 the validator accepts it and code generation refuses it; k of 3 and 4 is refused";
    argsort "Detection and sampling" Layer [G N N N] _ Walled ["Sort"] "topk on the host" "from the M2 on; refused in code generation on the M1";
    random_uniform "Detection and sampling" Host [B B N N] _ Missing ["Random"] "noise as an input" "native from the M3 on";
    random_bernoulli "Detection and sampling" Layer [X X X X] _ Missing ["Random"] "noise as an input" "computed on the host";
    random_categorical "Detection and sampling" Layer [X X X X] _ Missing ["Random"] "noise as an input" "computed on the host";
    random_normal "Detection and sampling" Layer [X X X X] _ Missing ["Random"] "noise as an input" "computed on the host";
    list_gather "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
    list_length "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
    list_read "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
    list_scatter "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
    list_write "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
    make_list "Detection and sampling" Layer [X X X X] _ Walled [] "" "an operation on lists";
}
