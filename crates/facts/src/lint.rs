//! Rules for the design of models: rejected, silently wrong, slow, or a hazard to the build service.
//!
//! Sources are chapters of the book (`ch`, `app`), ANEForge (`AF`), the field guide of skyfallsin (`FG`), Orion (`OR`),
//! maderix (`mx`), and fits of this project (`fit`): `docs/evidence.md`, key `lint`.

use crate::Basis;

/// Severity of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `E`: rejected when compiling or loading.
    Rejected,
    /// `W`: wrong values without an error.
    Wrong,
    /// `P`: slow.
    Slow,
    /// `B`: a hazard to the build service.
    Build,
}

/// One rule.
#[derive(Debug)]
pub struct Lint {
    /// Stable code: a letter for the severity, and a number.
    pub code: &'static str,
    /// Short name.
    pub name: &'static str,
    /// Basis.
    pub basis: Basis,
    /// Condition under which it is reported.
    pub condition: &'static str,
    /// Reason, with its figures.
    pub why: &'static str,
    /// Remedy.
    pub fix: &'static str,
    /// Chips on which it was observed.
    pub chips: &'static str,
    /// Sources.
    pub source: &'static str,
    /// An input for which it is reported; empty where no text can show it.
    pub example: &'static str,
}

impl Lint {
    /// Severity of the rule, from its code.
    pub fn severity(&self) -> Severity {
        match self.code.as_bytes()[0] {
            b'E' => Severity::Rejected,
            b'W' => Severity::Wrong,
            b'P' => Severity::Slow,
            _ => Severity::Build,
        }
    }

    /// The rule's code among those of all diagnostics: `ANE11` to `ANE14`, then the rule's number.
    pub fn diagnostic(&self) -> String {
        format!("ANE1{}{}", self.severity() as u8 + 1, &self.code[1..])
    }
}

/// The rule of that code, in either form.
pub fn by_code(code: &str) -> Option<&'static Lint> {
    LINTS.iter().find(|l| l.code.eq_ignore_ascii_case(code) || l.diagnostic().eq_ignore_ascii_case(code))
}

macro_rules! lints {
    ( $( $code:literal $name:literal $basis:ident $condition:literal $why:literal $fix:literal $chips:literal
         $source:literal $example:literal; )* ) => {
        /// All rules.
        pub static LINTS: &[Lint] = &[ $( Lint {
            code: $code, name: $name, basis: Basis::$basis, condition: $condition, why: $why, fix: $fix, chips: $chips,
            source: $source, example: $example,
        } ),* ];
    };
}

// Code, name, basis, condition, why, fix, chips, source, example.
lints! {
    "E01" "rank" Measured "rank > 5" "a layer has at most five axes" "merge axes" "all" "ch4, ch17" "x [1, 2, 3, 4, 5, 6] -> relu";
    "E02" "extent-hw" Measured "a spatial extent or the contraction K above 16384 (M1 to M3) or 65536 (M4 and later)" "16384 compiles, 16385 is rejected" "split the operation into tiles" "all" "ch17, appA" "x [1, 1, 1, 16385] on an M1";
    "E03" "extent-c" Measured "more than 65536 channels" "channels have this limit in place of the 16384 of E02" "split the operation into tiles" "all" "ch4, ch17" "x [1, 65537, 1, 1]";
    "E04" "batch-cap" Decoded "a batch above 65536 (4096 before family A13)" "limit in the table of the chip" "split the batch" "all" "appA" "x [65537, 1, 1, 1]";
    "E05" "zero-dim" Measured "an extent of 0" "type mismatch on the device" "remove the empty tensor" "all" "ch4" "x [1, 0, 8, 8]";
    "E06" "io-dtype" Measured "an input that is neither fp16 nor uint8; integer weights; any bf16; on the M1 a cast to int32" "the data path is fp16" "convert on the host" "all" "ch4, ch17" "add of two int32 tensors";
    "E07" "u8-math" Measured "a uint8 operand of an addition or a matmul" "only dequantize accepts uint8" "dequantize first" "all" "ch4" "add of two uint8 tensors";
    "E08" "conv-kw" Measured "a kernel wider than 13 (fp16 on the M1) or 15 (others)" "the engine tiles along the width of a kernel; heights of 29 and 32 compile" "exchange the spatial axes, or use a Fourier transform or a matmul" "all" "ch17, AF" "conv, kernel 1 x 17";
    "E09" "conv-kh" Measured "a kernel higher than the padded input" "Apple's text: \"too large kernel\"" "pad the input or crop the kernel" "all" "ch17" "conv, kernel 9 x 1, input of height 4, no padding";
    "E10" "groups" Measured "input or output channels that are no multiple of the groups" "Apple's text: \"input/output channels should be divisible by num group\"" "pad the channels" "all" "ch17" "conv, 8 channels in 3 groups";
    "E11" "conv3d" Measured "a kernel with a depth above 1" "the table of the chip has a limit for it (HAL number 0x70), and no such layer compiles" "2-D convolutions of slices" "all" "ch4, ch24" "conv on [N, C, D, H, W], kernel 3 x 3 x 3";
    "E12" "matmul-depth" Measured "matmul with a depth axis above 1; batched matmul of rank 5; transpose and matmul of rank 5 or more" "the validator or the back end rejects it" "merge depth into the batch, rank 4 at most" "all" "ch4, ch17, AF" "matmul on [1, 1, 4, 8, 8]";
    "E13" "linear-rank" Measured "linear with an input of rank 5 or more" "the validator rejects it" "reshape to a lower rank" "all" "ch17" "linear on [1, 1, 1, 2, 8]";
    "E14" "kmem" Measured "matmul whose coefficients of an output channel exceed the 64 KB of kernel memory" "Apple's text: \"can not fit the Kmem\"" "split N" "all" "ch17, ch22" "matmul with a contraction over 40000";
    "E15" "arg-axis" Measured "argmin or argmax over more than 2048 elements (decomposed: indices below 2048)" "an index is an fp16 number" "two stages" "all" "ch17, AF" "argmax over 4096";
    "E16" "no-path-op" Decoded "an operation that no chip has (35 rows `none` in the table of operations)" "every chip family rejects it" "the decomposition that the table names" "all" "appA" "asin";
    "E17" "gated-op" Decoded "an operation of a later chip" "sin, cos and random numbers begin with the M3; crop_resize, resample, affine, topk, sort and dynamic slices with the M2" "decompose it, or target a later chip" "M1, M2" "ch24, ch35" "sin on an M1";
    "E18" "attested" Measured "the table of operations has it as supported, and a compile of it failed (gather, cumsum, cast, arg reductions, slice_update and others)" "two sources differ in what the chip accepts" "compile it alone on the chip before relying on it" "M4, M5" "appA vs AF" "cumsum";
    "E19" "topk-k" Measured "topk with k = 3 or 4" "the compiler rejects these two values" "take k = 5 and slice" "all" "AF, appB" "topk, k = 4";
    "E20" "lrn-c" Measured "LRN over 16 or more channels, decomposed" "code generation fails" "use `local_response_norm`" "all" "AF" "LRN layer on 64 channels, authored directly";
    "E21" "minmax-axis" Decoded "minmax_norm over channels" "code generation fails" "transpose first" "all" "appB" "MinMaxNorm layer along channels";
    "E22" "sdpa-mask" Measured "an attention mask of another shape than [1, 1, Sq, Skv]" "a mask for each head gives wrong results without an error; a broadcast mask underflows" "expand the mask, or decompose the attention" "all" "AF" "attention, mask [1, 8, S, S]";
    "E23" "pad-axis" Measured "padding of channels or depth; symmetric or reflected padding without a texture engine" "the validator rejects it" "concatenate zeros" "all / M1" "ch17" "pad of the channel axis";
    "E24" "bcast-depth" Measured "a broadcast along depth" "capability byte 0x812 is 0 on the M1" "repeat the operand on the host" "M1" "ch17, appB" "add of [1, 4, 1, 8, 8] and [1, 4, 4, 8, 8]";
    "E25" "gather-m1" Measured "gather with a batch or depth above 1, or with other than three index channels or three axes" "the compiler aborts" "a product with a one-hot matrix if indices are constant, else the host" "M1" "ch4, ch17" "gather along channels on an M1";
    "E26" "dyn-conv" Measured "a convolution with computed weights and a batch of 2 or more" "the compile service crashes" "batch 1, or im2col" "M1 (assumed for all)" "ch19, AF" "conv with runtime weights, batch 2";
    "E27" "symbolic" Measured "an unknown extent" "the direct route needs static shapes" "pad, or compile one program for each length" "all" "ch19" "input [1, ?, 64]";
    "E28" "4cc" Measured "a pixel buffer with a four-character code as input" "it needs an entitlement; a uint8 input saves about 2 ms at 1080p" "uint8 and dequantize" "all" "ch19" "image input, bound as a pixel buffer";
    "E29" "space-batch" Measured "batch_to_space with a batch that is no multiple of the block; factors other than 2, 3, 4 and 8; space_to_channel with a batch above 1" "the validator rejects it" "pad" "all" "appB, AF" "batch_to_space, batch 3, block 2 x 2";
    "E30" "square-tile" Measured "a native square with an activation, W % 128 > 64" "code generation fails" "mul(x, x)" "M5" "AF" "square, then relu, W = 72";
    "E31" "group-norm" Measured "group norm with max(C / G, H * W) above 65536" "limit of an axis after tiling" "compute it in tiles" "all" "AF" "group norm with H * W = 80000";
    "E32" "min-width" Measured "an input narrower than 32 (private IOSurface route)" "loading or executing fails; surfaces have at least about 48 KB, all inputs have the same bytes and are bound in alphabetical order" "pad" "M3 Max, M4 Max" "FG, OR" "runtime input of width 16";
    "E33" "concat" Measured "some forms of concat on the private route" "they are rejected" "a program with several outputs" "M4 Max" "OR" "concat on the private route";
    "E34" "quota" Measured "about 119 compiles in a process; 127 queued requests; 128 loaded programs" "limits of a process" "cache programs, reuse them, restart the worker process" "M4 Max, M3 Max" "OR, FG, mx" "200 compiles in one process";
    "W01" "slice-sat" Measured "slice with an offset on the last axis, of values that may exceed 4094" "such slices are read as fixed-point numbers scaled by 16: 4094 passes, 4100 becomes infinite; concatenated slices get wrong elements" "slice along another axis, begin at 0, or scale the values down" "M1, M2 (M3: ch35 and appA say no, AF yes; not measured)" "ch12, ch19, AF" "slice_by_index along W from 1, values up to 5000";
    "W02" "mac-ceiling" Measured "matmul or convolution whose result may reach 32768" "the accumulator's output saturates at 2^15 for any K; 32752 passes" "multiply by 2^-k before" "M2, M5" "ch3, AF" "matmul over 64, both operands up to 100";
    "W03" "cancel" Measured "a sum of terms from 4096 on of both signs beside terms near 1" "partial sums of four terms are fp16: of 16 small terms 4 survive" "sort by magnitude, scale, or split" "all" "ch20" "reduce_sum of values up to 8192 of both signs";
    "W04" "int-sum" Measured "reduce_sum that must be exact above 2048" "fp16 lacks the odd numbers above 2048" "split the sum, or multiply by ones" "M2, M5" "AF" "reduce_sum of integers up to 4000";
    "W05" "narrow-sum" Measured "reduce_sum of more than 256 terms of both signs" "the error grows with the square root of K; a matmul accumulates with more digits" "a matmul by ones" "all" "AF" "reduce_sum over 512 signed values";
    "W06" "exp-range" Measured "exp(x) with x > 11.09" "the result exceeds fp16" "subtract the maximum first" "all" "ch3" "exp of values up to 20";
    "W07" "nan" Measured "NaN expected to propagate" "NaN becomes plus infinity at the input; sigmoid, tanh and erf of NaN are 1.0" "test for NaN on the host" "all" "ch3, AF" "not_equal(x, x) to find NaN";
    "W08" "sdpa-native" Measured "native attention with S > 2048 or min(Sq, Skv) >= 512" "results are wrong: cosine similarity 0.67, errors near 1" "decompose it, or tile queries to fewer than 512" "all" "AF" "attention over 4096 positions";
    "W09" "int8-act" Measured "matmul by int8 weights with activations above 4094" "the fixed-point encoding of W01" "scale the activations down" "M1, M2, M5" "AF" "matmul by int8 weights, activations up to 5000";
    "W10" "scaled-ew" Measured "scaled_elementwise with Mult" "the scale is ignored" "multiply by a constant" "all" "AF" "ScaledElementWise, Type Mult, Scale 0.5";
    "W11" "mask-ignored" Measured "a causal mask of attention on the private MIL route" "the mask is not applied" "add the mask to the scores" "M4 Max" "OR, mx" "attention with a causal mask on the private route";
    "W12" "stale-tail" Measured "a surface larger than its tensor, with an unwritten tail" "NaN and old values of the tail reach the results" "write zeros to the padding" "M3 Max" "FG" "tensor smaller than its surface";
    "W13" "resize-round" Decoded "resize compared between chips" "three lowerings round differently" "compare with a tolerance" "M1 vs later" "ch35" "resize, compared between an M1 and an M4";
    "W14" "one-ulp" Measured "a reduction over 192 to 384 elements compared between M1 or M2 and later chips" "chips choose different routes at the threshold 0x3f0" "a tolerance of 1 ULP" "all" "ch12, ch24" "reduce_sum over 256, compared between an M1 and an M4";
    "W16" "dft" Decoded "a Fourier transform as a matmul over more than 2048 points" "fp16 rounding of matrix and input dominates" "split the radix, or use the host" "all" "ch16" "matmul by a 4096-point Fourier matrix";
    "W17" "sdpa-max" Decoded "an SDPA layer without SubtractMax" "the key defaults to false: exponentials of scores above 11 overflow fp16" "set SubtractMax to true" "all" "ch26" "SDPA, SubtractMax false";
    "W18" "pow-negative" Inferred "pow(x, y) where x may be negative" "computed as exp2(y * log2(x)); the logarithm of a negative number is 0, so every power is 1" "x * x * x for whole exponents, abs(x) for others" "all" "ch3" "pow of signed values to the 3";
    "W15" "target-typo" Measured "an unknown name of a target in the options" "the library falls back to the host without a message" "use one of the 28 names" "all" "ch34, AF" "target h15x";
    "P01" "floor" Inferred "a predicted engine time below that of a dispatch" "a dispatch takes 150 to 230 us on an M1, 60 to 110 us on an M4 or M5; 1 to 32 layers take the same time" "larger batches, or more operations in a program" "all" "ch9, fit" "";
    "P02" "copies" Inferred "copies of inputs and outputs that take more than half of the time" "copies run at 5 to 25 GB/s, outputs slower (M1: 4.7 GB/s); 1 MB costs 0.5 ms on an M1" "keep tensors as constants or states, share surfaces, fuse neighbours" "all" "fit" "";
    "P03" "l2-2mb" Inferred "one operand of 2 MB or more" "it is read from DRAM again: 12 falls to 4.8 TFLOPS on an M1 at exactly 2 MB; on an M5 energy rises at 4.72 MB" "tile rows so that rows * K * 2 bytes stay below 2 MB (K = 4096: fewer than 256 rows)" "all" "ch21, fit" "";
    "P04" "restream" Inferred "an activation of 2 MB or more with weights beyond L2" "weights are read again for each row tile of 0.5 to 0.8 MB: 19, 10 and 5.1 TFLOPS for cubes of 2048, 4096 and 8192 on an M5 Pro" "block the product in the graph" "all" "fit" "";
    "P05" "pow2-stream" Inferred "K or N of 4096 or 8192 with a small M" "1448 to 1719 us, other sizes 300 to 740 us; 4608 channels take half the time of 4096" "pad to 4608 or an odd multiple of 64, and measure" "M4, M4 Max, M5 base" "fit" "";
    "P06" "layer-norm" Inferred "layer norms over more than 30 % of the planar elements" "1.2 to 1.3 elements/ns (73 to 94 us for 128 x 768)" "fewer norms, folded affine factors, channels first without transposes" "M4, M5" "fit, AF" "";
    "P07" "granule" Measured "rows that are no multiple of 16 bytes, or W = 1" "DMA moves 16 bytes at a time; the rest is padding" "put the longest axis last" "all" "ch17" "";
    "P08" "interleave" Measured "channels that are no multiple of the interleave factor" "missing channels are computed as padding" "round the channels up" "all" "ch17" "";
    "P09" "group-lanes" Measured "groups other than 1, 2 and 4 on an M1, or that do not divide the cores; depthwise excepted" "groups do not map one-to-one to lanes" "another number of groups" "all" "ch17" "";
    "P10" "fc-as-conv" Measured "linear on (N, C) with few rows" "the same multiply-accumulates as a 1x1 convolution" "more rows at once, or the layout of a convolution" "all" "ch17" "";
    "P11" "win-kernel" Inferred "a 3x3 convolution with stride 2, dilation or groups where stride 1 would do" "only dense 3x3 convolutions of stride 1 use Winograd's algorithm" "a convolution of stride 1 and a pooling" "mostly M5 (1.65 times)" "ch20, fit" "";
    "P12" "ocg-step" Measured "a 1x1 convolution with output channels just above the limit of a pass" "output channels are computed in passes: from 192 to 256 the time rises from 20 to 61 us" "at most 192 output channels, or a split" "M1" "ch20" "";
    "P13" "dense-64k" Decoded "weights above 64 KB in a layer that are not streamed, or any above 16 MB" "the compiler splits the layer" "4-bit palettes, or a split" "M1" "ch24" "";
    "P14" "format" Measured "compressed weights that the chip expands: int8 and blocks on the M1, blocks on the M2" "no gain in bandwidth by the table of the chip; decoders with int8 still ran 1.78 times as fast on an M1: measure" "4-bit palettes or sparse weights on the M1, int8 from the M2 on" "M1, M2" "ch7, ch25, AF" "";
    "P15" "format-m5" Measured "int8 weights of a matrix-vector product on an M5 Pro" "309 us, as in fp16; 4-bit palettes take 195 us, sparse weights 192 us" "4-bit palettes, or more than 50 % zeros" "M5 Pro" "AF" "";
    "P16" "int8-compute" Measured "int8 weights expected to speed up arithmetic" "with int8 weights alone the multiplication is fp16" "int8 weights and activations (1.85 times as fast on an M4 and an M5 Max)" "all" "ch20, mx" "";
    "P17" "palette-bits" Decoded "palettes of 1 or 2 bits; of vectors other than 1, 2, 4 and 5; of 3 or 6 bits before the later descriptors" "rejected, or not on this chip" "4 or 8 bits" "M1" "ch25" "";
    "P18" "barrier" Measured "an addition of two computed convolutions, a concat or an attention within a fused chain" "each is a layer of its own; an attention cuts the program (about 200 us a cut)" "constants, another order, decomposed attention (3.7 to 5.3 times as fast)" "all" "ch18, ch22, AF" "";
    "P19" "qtile" Measured "attention over 1024 positions or more" "score matrices tiled as [512, S] take about a third of the time" "tile the queries" "all" "AF" "";
    "P20" "batch-enc" Measured "an encoder with a batch of 8 or more at 128 positions" "4 to 6 times the modelled time; by the book the GPU wins above a batch of 23 (encoder) and 6 (attention)" "smaller batches" "M5 Pro, M4" "ch13, AF" "";
    "P21" "decode" Measured "decoding token by token" "matrix-vector products reach 0.1 TFLOPS; 216 dispatches of 0.75 ms give 6.2 tokens/s" "the GPU, or one program for each token with the cache as a state" "all" "ch14, FG" "";
    "P22" "kv-input" Inferred "a key-value cache as an input" "the host copies it for each token" "a state, or a shared surface" "all" "fit" "";
    "P23" "dyn-weight" Measured "weights passed as inputs" "1650 us in place of 320 us (2560 x 2560)" "constants" "M3 Max" "FG" "";
    "P24" "parallel" Measured "dispatches from several threads or clients" "one runs at a time; contention adds 180 to 240 us" "one queue in one process" "all" "ch32" "";
    "P25" "idle" Measured "more than 100 ms between calls" "0.5 ms more for each call (ch31); one trace shows 260 ms after a pause of 5 s" "calls at regular times keep the engine on" "M1" "ch10, ch31" "";
    "P26" "unroll" Decoded "a dense factorization of n > 32, or a spectral method of n > 20, unrolled in one graph" "the unrolled chain dominates the compile time" "several programs" "all" "ch16" "";
    "P27" "transpose" Decoded "transpose of an extent above 16384 (M1 to M3)" "it takes several passes" "avoid it" "M1-M3" "appA" "";
    "P28" "stride" Decoded "a stride that is no product of at most two of 2, 3, 4 and 8" "decomposed into partial convolutions" "a stride of 2, 4 or 8" "all" "ch35" "";
    "P29" "maxpool-c" Measured "max pooling over very many channels" "computed in tiles" "fewer channels" "all" "ch17" "";
    "P30" "bank" Decoded "a row stride that is a multiple of 1024 bytes" "there are 64 banks of 16 bytes, and all rows begin in one" "16 bytes more for each row" "all" "ch21" "";
    "P31" "chaining" Decoded "a producer with two readers, or another layer between producer and reader" "the chain is broken: the result goes through DRAM or L2" "one reader, directly behind its producer" "all" "ch22" "";
    "P32" "small-model" Decoded "an operation so small that the CPU is faster" "a matmul of 64 x 256 x 256 takes 26 us on the CPU, a dispatch 164 us and more" "the CPU" "all" "ch11" "";
    "B01" "pacing" Measured "a compile within 15 s of a failed one" "the daemon restarts" "wait 15 s" "all" "ch19" "";
    "B02" "train-conv" Measured "the backward graph of a convolution with a batch above about 16 (threshold of this project)" "compiling takes 1.9, 35 and 79 s for batches of 4, 64 and 128, and does not end for 1000" "mini-batches" "M1" "ch19" "";
    "B03" "fan-in" Measured "12 or more branches that meet in one reader" "the search for cuts takes up to 9.2 s" "split it, or use a tree of additions" "M1" "ch19" "";
    "B04" "recompile" Measured "weights changed by compiling again" "55 to 150 ms for a kernel, 4.2 s for 60; loading takes 8 ms each" "weights as states, or patched files" "M3/M4 Max" "FG, OR" "";
    "E35" "inline-constant" Compiler "an fp16 tensor constant written out in MIL text" "Apple's compiler refuses it for an M1 with any operation" "put it into a weight file (BLOBFILE)" "M1" "OR" "add of x and tensor<fp16, [1, 64, 1, 1]>([...])";
    "E36" "constant-divisor" Compiler "division by a constant tensor" "code generation fails on the M1; a computed divisor compiles" "multiply by the reciprocal" "M1" "OR" "real_div of x and a weight file's tensor";
    "E37" "parameter-type" Compiler "a parameter of another type than the operand, if the operation needs the same" "clip with fp32 bounds on an fp16 tensor is refused; epsilon of rsqrt may be fp32" "write the parameter in the type of the operand" "M1" "OR" "clip with fp32 bounds";
    "E38" "missing-parameter" Compiler "an omitted parameter that the compiler requires" "log without epsilon is refused, and pads by a constant without constant_val" "write the default" "M1" "OR" "log(x = x)";
    "E39" "constant-not-transposed" Compiler "matmul by a constant of a weight file that is not stored transposed" "refused with \"Metadata data type does not match requested type.\" if the record of the weight file is not of the plain layout" "store the constant transposed and set transpose_y" "M1" "OR" "matmul(transpose_y = false, y = BLOBFILE)";
    "E40" "weight-form" Measured "int4 weights with a scale for each block; palettes of vectors" "the M6's compiler fails on them, and the whole model runs on the CPU; int8 and palettes of 2, 3, 4 and 6 bits, also in 16 groups, compile" "a palette of single values, or int8" "M6" "M6 study" "constexpr_blockwise_shift_scale of int4 data, blocks of 32";
}
