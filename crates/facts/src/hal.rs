//! The hardware abstraction layer (HAL): numbers and capability bytes of Apple's compiler for each target.
//!
//! A row gives one number for all targets, in runs `value; count` in the order of [`crate::chips::CHIPS`]; `_` is a
//! value that no source gives. Sources: `docs/evidence.md`, keys `hal` and `m6-study` (the last two targets). Where the
//! structure and the compiler's behaviour differ, both are rows: `table_` is the structure's.

use crate::Basis;

/// Number of targets, which is the number of values of a row.
pub const TARGETS: usize = 30;

/// Meaning of one HAL number.
pub struct HalRow {
    /// Field name in [`Hal`].
    pub name: &'static str,
    /// Byte offset in the HAL structure, if known.
    pub offset: Option<u32>,
    /// Unit.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Basis of the values.
    pub basis: Basis,
    /// Reads the value.
    pub get: fn(&Hal) -> Option<u64>,
}

impl HalRow {
    /// Returns true if the number is a capability byte.
    pub fn is_capability(&self) -> bool {
        self.meaning.starts_with("capability: ")
    }
}

/// The row of that name.
pub fn row(name: &str) -> Option<&'static HalRow> {
    HAL_ROWS.iter().find(|r| r.name == name)
}

/// The values of one row for every target. Compilation fails if the runs do not cover all targets.
const fn spread<const RUNS: usize>(runs: [(Option<u64>, usize); RUNS]) -> [Option<u64>; TARGETS] {
    let mut values = [None; TARGETS];
    let (mut run, mut at) = (0, 0);
    while run < RUNS {
        let mut left = runs[run].1;
        while left > 0 {
            values[at] = runs[run].0;
            at += 1;
            left -= 1;
        }
        run += 1;
    }
    assert!(at == TARGETS, "a HAL row does not have one value for each target");
    values
}

macro_rules! cell {
    (_) => {
        None
    };
    ($value:literal) => {
        Some($value)
    };
}

macro_rules! hal_rows {
    ( $( $name:ident $offset:tt, $unit:literal, $meaning:literal, $basis:ident [ $( $value:tt; $count:literal ),* ]; )* ) => {
        /// Numbers of the hardware abstraction layer for one target; a field's offset, unit and meaning are its row in
        /// [`HAL_ROWS`].
        #[derive(Clone, Debug)]
        #[allow(missing_docs)] // each field's meaning and unit is its row, printed by `ane targets`
        pub struct Hal { $( pub $name: Option<u64>, )* }

        impl Hal {
            /// The numbers of the target at that position.
            pub(crate) const fn at(target: usize) -> Hal {
                Hal { $( $name: {
                    const VALUES: [Option<u64>; TARGETS] = spread([ $( (cell!($value), $count) ),* ]);
                    VALUES[target]
                }, )* }
            }
        }

        /// All HAL numbers with their meaning.
        pub static HAL_ROWS: &[HalRow] = &[ $( HalRow {
            name: stringify!($name), offset: cell!($offset), unit: $unit, meaning: $meaning, basis: Basis::$basis,
            get: |h| h.$name,
        } ),* ];
    };
}

hal_rows! {
    acc_budget 0x0c, "work units", "accumulators per core", Decoded [8; 30];
    max_large_conv_kernel_dim_z 0x70, "elements", "largest kernel depth by the table, large mode; no kernel deeper than 1 compiles (rule E11)", Decoded [16; 20, 1; 4, 16; 1, _; 3, 16; 2];
    max_tensor_width 0x138, "elements", "largest tensor width", Measured [16384; 9, 65_536; 11, 16384; 5, 65535; 3, 65_536; 2];
    max_tensor_height _, "elements", "largest tensor height", Measured [16384; 9, 65_536; 11, 16384; 5, _; 3, 65_536; 2];
    max_tensor_depth 0x158, "elements", "largest tensor depth", Decoded [16384; 9, 65_536; 11, 1; 4, 16384; 1, 1; 3, 65_536; 2];
    max_tensor_channels _, "channels", "most channels of a tensor", Measured [65_536; 24, _; 4, 65_536; 2];
    max_tensor_batch _, "", "largest batch", Decoded [65_536; 20, 4096; 4, _; 4, 65_536; 2];
    max_rank _, "axes", "largest tensor rank", Measured [5; 30];
    max_operand_bytes 0x1b8, "bytes", "working-set test on one operand; matmul resident-weight threshold; partition ceiling", Decoded [2_097_152; 22, 1_048_576; 1, 2_097_152; 2, _; 3, 2_097_152; 2];
    l2_bytes _, "bytes", "on-chip tile memory", Decoded [2_097_152; 24, _; 4, 2_097_152; 2];
    dram_alignment 0x1c0, "bytes", "DMA width granule", Decoded [16; 22, 1; 1, 16; 1, 1; 1, _; 3, 16; 2];
    l2_bank_align 0x1c8, "banks", "L2 banks: the modulus of a conflict", Decoded [64; 25, _; 3, 64; 2];
    l2_resident_threshold 0x1f0, "bytes", "bound on the footprint of a convolution kept resident in L2", Decoded [0; 6, 32768; 3, 262_144; 11, _; 8, 262_144; 2];
    max_l2_dst_stride 0x1f8, "bytes", "upper bound of the stride search against bank conflicts", Decoded [2_097_152; 3, _; 27];
    kmem_cap_dense 0x200, "bytes", "kernel memory for weights that are not streamed", Decoded [65_536; 25, _; 3, 65_536; 2];
    kmem_cap_streamed 0x210, "bytes", "kernel memory for streamable weights", Decoded [16_777_216; 20, _; 8, 16_777_216; 2];
    instruction_alignment 0x218, "bytes", "granule of task descriptors in a stream", Compiler [256; 3, 16; 17, 256; 4, _; 4, 16; 2];
    ne_perf_cycle_divisor 0x228, "", "divisor of the compiler's cycle estimate", Decoded [64; 20, 32; 1, 64; 1, 16; 1, _; 1, 16; 1, _; 3, 64; 2];
    acc_split_granule 0x230, "", "granule of accumulator splits", Decoded [64; 28, _; 2];
    num_nes 0x238, "cores", "neural-engine cores as the compiler counts them (programs address 16 streams all the same)", Decoded [4; 1, 8; 1, 16; 1, 4; 1, 8; 1, 32; 1, 4; 1, 8; 1, 32; 1, 4; 1, 8; 1, 16; 1, 32; 1, 4; 2, 8; 1, 16; 1, 32; 1, 64; 1, 4; 2, _; 1, 1; 1, _; 1, 1; 1, 4; 3, 16; 2];
    ext_kmem_mode 0x288, "", "extended dual kernel memory", Decoded [0; 28, _; 2];
    tiny_source_max 0x338, "", "bound of the tiny source mode", Decoded [4; 3, _; 27];
    ocg_byte_cap_a 0x388, "bytes", "output-channel-group cap for each kernel element, first format class", Decoded [32; 25, _; 5];
    ocg_byte_cap_b 0x390, "bytes", "output-channel-group cap for each kernel element, second format class", Decoded [16; 25, _; 5];
    ocg_byte_cap_c 0x398, "bytes", "output-channel-group cap for each kernel element, third format class", Decoded [8; 25, _; 5];
    oc_per_acc_tiny 0x3a8, "channels", "output channels per accumulator, tiny source", Decoded [8; 28, _; 2];
    oc_per_acc_small 0x3b0, "channels", "output channels per accumulator, small source", Decoded [4; 28, _; 2];
    oc_per_acc_fp16 0x3b8, "channels", "output channels per accumulator, fp16", Decoded [2; 28, _; 2];
    oc_per_acc_other 0x3c0, "channels", "output channels per accumulator, otherwise", Decoded [1; 28, _; 2];
    reduction_transpose_extent 0x3f0, "elements", "a reduced axis this long takes the transpose route", Decoded [192; 6, 384; 14, _; 8, 384; 2];
    patch_width_clamp_maxpool 0x3f8, "log2 elements", "patch-width clamp of max pooling", Decoded [_; 30];
    pe_min_patch_width_log2 0x400, "log2 elements", "smallest planar-engine patch width", Decoded [4; 20, _; 10];
    patch_width_cap_log2 0x410, "log2 elements", "largest patch width", Decoded [9; 19, _; 11];
    max_transpose_height 0x468, "elements", "largest native transpose height", Decoded [16384; 9, 65_536; 11, 0; 4, _; 4, 65_536; 2];
    max_transpose_width 0x470, "elements", "largest native transpose width", Decoded [16384; 9, 65_536; 11, 0; 4, _; 4, 65_536; 2];
    cost_policy 0x580, "", "cost-model policy: 1 Simple, 0 None", Decoded [1; 20, 0; 5, _; 5];
    interchange_format_count 0x668, "formats", "image formats accepted", Decoded [3; 3, 13; 3, 16; 3, 14; 11, 0; 4, 16; 1, 0; 3, _; 2];
    perf_mult 0x75c, "", "multiplier of the performance table", Decoded [1; 4, _; 2, 1; 1, _; 1, 2; 1, 1; 1, _; 1, 1; 1, _; 1, 1; 1, _; 2, 1; 3, _; 1, 1; 1, _; 3, 1; 1, _; 5];
    max_kernel_width_fp16 _, "elements", "largest fp16 kernel width that compiles", Measured [13; 3, 15; 17, _; 8, 15; 2];
    max_kernel_height _, "elements", "largest kernel height that compiles", Measured [29; 3, 31; 17, _; 8, 31; 2];
    table_kernel_width_fp16_large 0x38, "elements", "largest fp16 kernel width by the table, large mode", Decoded [13; 3, 16; 17, 13; 4, _; 6];
    table_kernel_width_large _, "elements", "largest kernel width of other formats by the table, large mode", Decoded [29; 3, 32; 17, 29; 4, _; 6];
    table_kernel_width_fp16_small _, "elements", "largest fp16 kernel width by the table, small mode", Decoded [7; 3, 8; 17, 7; 4, _; 6];
    table_kernel_width_small _, "elements", "largest kernel width of other formats by the table, small mode", Decoded [15; 3, 16; 17, 15; 4, _; 6];
    table_min_kernel_width_fp16_large _, "elements", "smallest fp16 kernel width that needs the large mode", Decoded [8; 3, 1; 17, 8; 4, _; 6];
    table_min_kernel_width_large _, "elements", "smallest kernel width of other formats that needs the large mode", Decoded [16; 3, 1; 17, 16; 4, _; 6];
    table_kernel_height_large _, "elements", "largest kernel height by the table, large mode", Decoded [29; 3, 32; 17, 29; 4, _; 6];
    table_kernel_height_small _, "elements", "largest kernel height by the table, small mode", Decoded [15; 3, 16; 17, 15; 4, _; 6];
    table_kernel_depth_small _, "elements", "largest kernel depth by the table, small mode", Decoded [8; 20, 1; 4, _; 6];
    max_patch_width _, "elements", "largest window width", Decoded [28; 3, 31; 17, 15; 4, _; 6];
    max_patch_height _, "elements", "largest window height", Decoded [28; 3, 31; 17, 15; 4, _; 6];
    max_patch_depth _, "elements", "largest window depth", Decoded [15; 20, 0; 4, _; 6];
    group_conv_decompose_limit _, "elements", "input channels times kernel area from which a grouped convolution is split", Decoded [2048; 20, 64; 4, _; 6];
    activation_lut_budget_bytes _, "bytes", "space for activation tables", Decoded [86; 20, 150; 4, _; 6];
    context_switch_live_tensors _, "tensors", "live tensors at a context switch; the largest number means unlimited", Decoded [2; 3, 0xffff_ffff_ffff_ffff; 17, 2; 4, _; 6];
    f_max_hz 0x760, "Hz", "highest engine clock", Decoded [1_428_000_000; 1, 1_464_000_000; 1, 1_428_000_000; 1, 1_938_000_000; 1, _; 2, 2_064_000_000; 1, _; 1, 2_364_000_000; 1, 2_160_000_000; 1, _; 1, 2_364_000_000; 1, _; 1, 2_172_000_000; 1, _; 2, 2_364_000_000; 3, _; 1, 1_260_000_000; 1, _; 3, 500_000_000; 1, _; 3, 2_580_000_000; 1, _; 1];
    bonded_engines _, "engines", "engines that work on one network as a pair", Compiler [0; 28, 2; 1, _; 1];
    collectives 0x48b, "", "capability: collectives across dies", Decoded [0; 28, _; 2];
    kernel_streaming 0x48f, "", "capability: weights stream: 16 MB cap in place of 64 KB", Decoded [1; 20, 0; 4, _; 4, 1; 2];
    default_output_buffer 0x491, "", "capability: default policy of output buffers, read with 0x1f0", Decoded [_; 30];
    square_after_reduction 0x494, "", "capability: square fused after a reduction", Decoded [0; 3, 1; 17, 0; 4, _; 4, 1; 2];
    secondary_0x4a4 0x4a4, "", "capability: secondary capability of the small class", Decoded [0; 20, _; 2, 1; 1, _; 1, 1; 1, _; 5];
    pe_work_unit_shape 0x4a8, "", "capability: work-unit shape of the planar engine", Decoded [_; 30];
    dropout_random 0x4a9, "", "capability: dropout and the random generator", Decoded [0; 6, 1; 14, 0; 4, 1; 1, 0; 3, 1; 2];
    small_source_compression 0x4ac, "", "capability: compression in small source mode", Decoded [_; 30];
    odd_work_unit_width 0x4b0, "", "capability: work-unit widths that are no power of two", Decoded [_; 30];
    preferred_kernel_layout 0x4f0, "", "capability: preferred layout of kernels", Decoded [_; 30];
    global_arg_min_max 0x4f2, "", "capability: whole-tensor arg-min and arg-max", Decoded [1; 20, 0; 4, _; 4, 1; 2];
    stream_gate_0x520 0x520, "", "capability: stream gate of a weight format, on from A15", Decoded [0; 6, 1; 14, _; 10];
    stream_gate_0x523 0x523, "", "capability: stream gate of a weight format, on from A15", Decoded [0; 6, 1; 14, _; 10];
    stream_gate_0x528 0x528, "", "capability: stream gate of a weight format, on from A14", Decoded [0; 3, 1; 17, _; 10];
    palette_kernel_stride 0x529, "", "capability: strides in palettized kernels", Decoded [1; 20, _; 10];
    dma_fp32 0x52c, "", "capability: fp32 in DMA", Decoded [_; 30];
    kernel_e4m3 0x52d, "", "capability: fp8 E4M3 kernels", Decoded [0; 19, 1; 1, 0; 8, _; 2];
    dma_e5m2 0x52e, "", "capability: fp8 E5M2 in DMA", Decoded [_; 30];
    stream_gate_0x532 0x532, "", "capability: stream gate of a weight format, on from A14", Decoded [0; 3, 1; 17, _; 10];
    stream_gate_0x533 0x533, "", "capability: stream gate of a weight format, on from A15", Decoded [0; 6, 1; 14, _; 10];
    stream_gate_0x537 0x537, "", "capability: stream gate of a weight format, on from A14", Decoded [0; 3, 1; 17, _; 10];
    stream_gate_0x539 0x539, "", "capability: stream gate of a weight format, on from A15", Decoded [0; 6, 1; 14, _; 10];
    prefetch_interval 0x54c, "", "capability: interval limit of kernel prefetch tasks", Decoded [_; 30];
    extended_addressing 0x55c, "", "capability: extended addressing across dies", Decoded [0; 3, 1; 17, _; 4, 1; 1, 0; 1, 1; 2, _; 2];
    fifo_dma 0x563, "", "capability: DMA in FIFO mode", Decoded [0; 19, 1; 1, _; 10];
    hazard_tracking 0x564, "", "capability: hazard tracking across dies", Decoded [0; 3, 1; 6, _; 7, 1; 1, _; 2, 0; 1, _; 2, 0; 1, _; 1, 0; 1, _; 5];
    cache_hint_dsid 0x5a8, "", "capability: DSID value of cache hints", Decoded [_; 30];
    winograd 0x680, "", "capability: Winograd convolution (bit 0)", Decoded [1; 3, _; 27];
    two_byte_live_input 0x685, "", "capability: two-byte DMA format of live inputs", Decoded [_; 30];
    remote_dependency 0x687, "", "capability: dependencies across dies", Decoded [0; 6, 1; 3, _; 7, 1; 1, _; 2, 0; 1, _; 2, 0; 1, _; 1, 0; 1, _; 5];
    max_reflect_padding 0x708, "", "capability: largest extent of reflective padding", Decoded [_; 30];
    depth_broadcast 0x812, "", "capability: broadcast along the depth axis; fast upsampling of 1x1 inputs", Decoded [0; 3, _; 27];
    dynamic_goc 0x814, "", "capability: gain and offset from tensors", Decoded [1; 20, _; 8, 1; 2];
    softmax 0x815, "", "capability: softmax", Decoded [1; 20, 0; 4, _; 4, 1; 2];
    instance_norm 0x816, "", "capability: instance norm", Decoded [1; 20, 0; 4, _; 4, 1; 2];
    min_max_norm 0x818, "", "capability: range normalization over channels", Decoded [_; 30];
    lrn 0x81a, "", "capability: local response norm", Decoded [1; 20, _; 8, 1; 2];
    exact_width_slice _, "", "capability: slices with an offset along the width keep values above 4094", Measured [0; 6, _; 3, 1; 11, _; 8, 1; 2];
    texture_engine 0x81d, "", "capability: texture engine: resize, crop-resize, resample, affine, reflect padding", Decoded [0; 3, 1; 17, 0; 4, 1; 1, 0; 3, 1; 2];
    tile_height_erratum 0x8b4, "", "capability: threshold of the tile-height erratum", Decoded [_; 30];
    chaining 0x8bc, "", "capability: chaining of tasks", Decoded [_; 30];
    kernel_caching 0x8e0, "", "capability: caching of kernels", Decoded [_; 30];
}
