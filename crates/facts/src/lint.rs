//! Rules for the design of models: what is rejected, silently wrong, slow, or hard on the build service.
//!
//! Sources are chapters of the book (`ch`, `app`), ANEForge (`AF`), the field guide of skyfallsin (`FG`), Orion (`OR`),
//! maderix (`mx`), and fits of this project (`fit`, `inf`): `docs/evidence.md`, key `lint`.

use crate::Basis;

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// `E`: compile or load is rejected.
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
    /// How it is known.
    pub basis: Basis,
    /// When it fires.
    pub condition: &'static str,
    /// Why, or the figure behind it.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
    /// Chips it was seen on.
    pub chips: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// An input that fires it; empty where no text tells it.
    pub example: &'static str,
}

impl Lint {
    /// What the rule is about.
    pub fn severity(&self) -> Severity {
        match self.code.as_bytes()[0] {
            b'E' => Severity::Rejected,
            b'W' => Severity::Wrong,
            b'P' => Severity::Slow,
            _ => Severity::Build,
        }
    }

    /// The code among those of all diagnostics: `ANE11` to `ANE14`, then the rule's number.
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
        /// Every rule.
        pub static LINTS: &[Lint] = &[ $( Lint {
            code: $code, name: $name, basis: Basis::$basis, condition: $condition, why: $why, fix: $fix, chips: $chips,
            source: $source, example: $example,
        } ),* ];
    };
}

// Code, name, basis, condition, why, fix, chips, source, example.
lints! {
    "E01" "rank" Measured "rank > 5" "rank 0..5 in every layer; 6 rejected" "merge axes" "all" "ch4, ch17" "x [1, 2, 3, 4, 5, 6] -> relu";
    "E02" "extent-hw" Measured "W, H or contraction K > 16384 (M1-M3) / 65536 (M4+)" "16384 ok, 16385 rejected" "tile" "all" "ch17, appA" "x [1, 1, 1, 16385] on an M1";
    "E03" "extent-c" Measured "C > 65536" "conv Cin/Cout escape the 16384 cap" "tile" "all" "ch4, ch17" "x [1, 65537, 1, 1]";
    "E04" "batch-cap" Decoded "N > 65536 (4096 pre-A13)" "table limit" "split" "all" "appA" "x [65537, 1, 1, 1]";
    "E05" "zero-dim" Measured "any dim = 0" "on-device type mismatch" "drop tensor" "all" "ch4" "x [1, 0, 8, 8]";
    "E06" "io-dtype" Measured "input not fp16/uint8; int weights; bf16 anywhere; cast to int32 (M1)" "datapath is fp16" "convert on host" "all" "ch4, ch17" "add of two int32 tensors";
    "E07" "u8-math" Measured "uint8 used by add/matmul" "only feeds dequantize" "dequantize first" "all" "ch4" "add of two uint8 tensors";
    "E08" "conv-kw" Measured "kW > 13 (M1 fp16), > 15 (others)" "tiled along kernel width; kH 29/32 ok" "swap axes, or FFT/matmul" "all" "ch17, AF" "conv, kernel 1 x 17";
    "E09" "conv-kh" Measured "kH > padded input H" "\"too large kernel\"" "pad or crop kernel" "all" "ch17" "conv, kernel 9 x 1, input of height 4, no padding";
    "E10" "groups" Measured "Cin % g or Cout % g" "string in opmatrix.json" "pad channels" "all" "ch17" "conv, 8 channels in 3 groups";
    "E11" "conv3d" Measured "depth kernel > 1" "attested by HAL 0x70, never lowers" "slices of 2-D conv" "all" "ch4, ch24" "conv on [N, C, D, H, W], kernel 3 x 3 x 3";
    "E12" "matmul-depth" Measured "D > 1 on matmul; rank-5 batched matmul; transpose+matmul at rank >= 5" "validator / backend" "fold D into batch <= rank 4" "all" "ch4, ch17, AF" "matmul on [1, 1, 4, 8, 8]";
    "E13" "linear-rank" Measured "linear input rank >= 5" "validator" "reshape" "all" "ch17" "linear on [1, 1, 1, 2, 8]";
    "E14" "kmem" Measured "matmul output-channel bytes above 64 KB kernel budget" "\"can not fit the Kmem\"" "split N" "all" "ch17, ch22" "matmul with a contraction over 40000";
    "E15" "arg-axis" Measured "arg-min/max axis > 2048 (bridge: index exact < 2048)" "fp16 index" "two-stage arg" "all" "ch17, AF" "argmax over 4096";
    "E16" "no-path-op" Decoded "op in `none` rows of opmatrix.json (35 ops)" "rejected on every family" "listed decomposition" "all" "appA" "asin";
    "E17" "gated-op" Decoded "op below its MinimumFamily" "sin/cos, random: M3; crop_resize, resample, affine, topk, sort, dynamic slice: M2" "decompose or raise target" "M1, M2" "ch24, ch35" "sin on an M1";
    "E18" "attested" Measured "the table of operations has it as supported, and a compile of it failed (gather, cumsum, cast, arg reductions, slice_update and others)" "two sources differ in what the chip accepts" "compile it alone on the chip before relying on it" "M4, M5" "appA vs AF" "cumsum";
    "E19" "topk-k" Measured "k in {3, 4}" "fixed forbidden band" "take k = 5, slice" "all" "AF, appB" "topk, k = 4";
    "E20" "lrn-c" Measured "LRN C >= 16 by the bridge" "code generation" "`local_response_norm` form" "all" "AF" "LRN layer on 64 channels, authored directly";
    "E21" "minmax-axis" Decoded "minmax_norm over C" "code generation" "transpose" "all" "appB" "MinMaxNorm layer along channels";
    "E22" "sdpa-mask" Measured "mask not [1,1,Sq,Skv]" "per-head mask silently wrong, broadcast underflows" "expand mask, or decompose" "all" "AF" "attention, mask [1, 8, S, S]";
    "E23" "pad-axis" Measured "pad on C or D; symmetric/reflect without texture engine" "validator" "concat zeros" "all / M1" "ch17" "pad of the channel axis";
    "E24" "bcast-depth" Measured "broadcast along D" "0x812 = 0 on M1" "tile on host" "M1" "ch17, appB" "add of [1, 4, 1, 8, 8] and [1, 4, 4, 8, 8]";
    "E25" "gather-m1" Measured "gather with batch > 1, depth > 1, index channel != 3, axes != 3" "aborts the compiler" "one-hot matmul (static), host" "M1" "ch4, ch17" "gather along channels on an M1";
    "E26" "dyn-conv" Measured "runtime conv weight with N >= 2" "compile service crash" "N = 1, or im2col" "M1 (treat as all)" "ch19, AF" "conv with runtime weights, batch 2";
    "E27" "symbolic" Measured "unknown dimension" "not on the direct route" "pad, bucket, per-length compile" "all" "ch19" "input [1, ?, 64]";
    "E28" "4cc" Measured "true four-character-code input" "needs the entitled route; uint8 input saves ~2 ms at 1080p" "uint8 + dequantize" "all" "ch19" "image input, bound as a pixel buffer";
    "E29" "space-batch" Measured "batch not divisible by bh*bw; factors not in {2,3,4,8}; space_to_channel N > 1" "validator" "pad" "all" "appB, AF" "batch_to_space, batch 3, block 2 x 2";
    "E30" "square-tile" Measured "native square + nonlinearity with W % 128 > 64" "code generation" "mul(x, x)" "M5 seen" "AF" "square, then relu, W = 72";
    "E31" "group-norm" Measured "max(C/G, H*W) > 65536" "axis cap after tiling" "tile map" "all" "AF" "group norm with H * W = 80000";
    "E32" "min-width" Measured "runtime input W < 32 (private IOSurface route)" "load/exec error; surfaces >= ~48 KB, all inputs same byte size, alphabetical order" "pad" "M3 Max, M4 Max seen" "FG, OR" "runtime input of width 16";
    "E33" "concat" Measured "some concat forms rejected on the private route" "" "multi-output program" "M4 Max" "OR" "concat on the private route";
    "E34" "quota" Measured "> ~119 compiles per process; > 127 queued; ~128 loaded programs" "process limits" "cache, reuse, restart worker" "M4 Max, M3 Max seen" "OR, FG, mx" "200 compiles in one process";
    "W01" "slice-sat" Measured "slice with last-axis offset != 0 and range may exceed 4094" "x16 fixed-point DMA: 4094 ok, 4100 = inf; wrong elements when such slices are concatenated" "offset on another axis, zero begin, scale down (loss scale)" "M1, M2 (M3 unmeasured: ch35/appA say clean, AF says pre-A16)" "ch12, ch19, AF" "slice_by_index along W from 1, values up to 5000";
    "W02" "mac-ceiling" Measured "matmul/conv output may reach 32768 (32752 passes)" "MAC output port saturates at 2^15, whatever K" "pre-scale by 2^-k" "M2, M5 measured" "ch3, AF" "matmul over 64, both operands up to 100";
    "W03" "cancel" Measured "sums with terms >= 4096 of opposite sign next to unit terms" "radix-4 tiles are fp16: 16 -> 4 survivors" "sort magnitudes, scale, split" "all" "ch20" "reduce_sum of values up to 8192 of both signs";
    "W04" "int-sum" Measured "reduce_sum expected exact above 2048" "fp16 grid" "split, or matmul by ones" "M2, M5" "AF" "reduce_sum of integers up to 4000";
    "W05" "narrow-sum" Measured "signed reduce_sum over > 256 terms" "error ~ sqrt(K)*eps; matmul accumulates wide" "replace by matmul with ones" "all" "AF" "reduce_sum over 512 signed values";
    "W06" "exp-range" Measured "exp(x), x > 11.09" "fp16 overflow" "subtract max" "all" "ch3" "exp of values up to 20";
    "W07" "nan" Measured "NaN expected to propagate" "+inf at the input; sigmoid, tanh, erf give 1.0" "test on host" "all" "ch3, AF" "not_equal(x, x) to find NaN";
    "W08" "sdpa-native" Measured "native SDPA with S > 2048 or min(Sq, Skv) >= 512" "cos 0.67, error ~1.0" "decompose, tile queries to < 512" "all" "AF" "attention over 4096 positions";
    "W09" "int8-act" Measured "int8-weight matmul with activations above 4094" "same x16 encoding" "scale" "M1, M2, M5" "AF" "matmul by int8 weights, activations up to 5000";
    "W10" "scaled-ew" Measured "scaled_elementwise Mult" "ignores scale" "mul by const" "all" "AF" "ScaledElementWise, Type Mult, Scale 0.5";
    "W11" "mask-ignored" Measured "SDPA causal mask on the private MIL route" "mask not applied" "mask in the scores" "M4 Max" "OR, mx" "attention with a causal mask on the private route";
    "W12" "stale-tail" Measured "surface larger than tensor, unwritten tail" "\"tile poison\": NaN/garbage leaks into lanes" "zero the padding" "M3 Max" "FG" "tensor smaller than its surface";
    "W13" "resize-round" Decoded "resize compared across chips" "three lowerings round differently" "tolerance" "M1 vs later" "ch35" "resize, compared between an M1 and an M4";
    "W14" "one-ulp" Measured "reduction extents between 192 and 384 compared across M1/M2 and M3+" "route threshold 0x3f0" "tolerance 1 ULP" "all" "ch12, ch24" "reduce_sum over 256, compared between an M1 and an M4";
    "W16" "dft" Decoded "DFT as matmul with N > 2048" "fp16 rounding of W and x dominates" "split radix, host" "all" "ch16" "matmul by a 4096-point Fourier matrix";
    "W17" "sdpa-max" Decoded "authored SDPA without SubtractMax" "the key defaults to false: exponentials of the scores as they are overflow fp16 above 11" "set SubtractMax to true" "all" "ch26" "SDPA, SubtractMax false";
    "W18" "pow-negative" Inferred "pow(x, y) where x may be negative" "exp2(y * log2(x)), and the logarithm of a negative number is 0: every power is 1" "x * x * x for whole exponents, abs(x) for others" "all" "ch3" "pow of signed values to the 3";
    "W15" "target-typo" Measured "unknown target string in options" "library falls back to host silently" "check against 28 names" "all" "ch34, AF" "target h15x";
    "P01" "floor" Inferred "predicted engine time < t0" "t0 150-230 us M1, 60-110 us M4/M5; flat from 1 to 32 layers" "batch or fuse" "all" "ch9, fit" "";
    "P02" "copies" Inferred "in_bytes/B_in + out_bytes/B_out > half of t" "5-25 GB/s, output slower (M1 4.7 GB/s); 1 MB I/O costs 0.5 ms M1" "keep tensors as constants/state; shared surfaces; fuse neighbours" "all" "fit" "";
    "P03" "l2-2mb" Inferred "one operand >= 2 MB (not the sum)" "DRAM round trips: 12 -> 4.8 TF on M1 at exactly 2 MB; 4.72 MB on M5 for energy" "tile rows so rows*K*2 < 2 MB (K=4096: rows < 256)" "all" "ch21, fit" "";
    "P04" "restream" Inferred "activation >= 2 MB and weight > L2" "weights re-read per ~0.5-0.8 MB row tile: 19 -> 10 -> 5.1 TF at 2k/4k/8k cubes on M5 Pro" "block the GEMM in the graph" "all" "fit" "";
    "P05" "pow2-stream" Inferred "K or N = 4096, 8192 with M small" "1448-1719 us vs 300-740 elsewhere; 4608 ch is 2x faster than 4096" "pad to 4608 / odd multiple of 64, measure" "M4, M4 Max, M5 base" "inf R5" "";
    "P06" "layer-norm" Inferred "layer_norm share > 30 % of planar elements" "1.2-1.3 Gelem/s (73-94 us at 128x768)" "fewer LN, fold affine, channel-first form without transposes" "M4, M5" "fit, AF" "";
    "P07" "granule" Measured "W*2 % 16 != 0, or W = 1" "16-byte DMA granule, rest is padding" "put long axis last" "all" "ch17" "";
    "P08" "interleave" Measured "C not multiple of the interleave factor" "padded lanes" "round channels up" "all" "ch17" "";
    "P09" "group-lanes" Measured "groups not in {1, 2, 4} (M1), not dividing cores; depthwise exempt" "loses one-to-one lane map" "other group count" "all" "ch17" "";
    "P10" "fc-as-conv" Measured "linear on (N, C) with tiny rows" "same MACs as 1x1 conv" "batch rows or use conv layout" "all" "ch17" "";
    "P11" "win-kernel" Inferred "3x3, stride 2 or dilated or grouped where stride 1 would do" "Winograd only for dense 3x3 s1" "s1 conv + pool" "M5 mostly (g 1.65)" "ch20, fit" "";
    "P12" "ocg-step" Measured "1x1 Cout just above a pass limit (192 -> 256: 20 -> 61 us)" "output-channel-group passes" "try Cout <= 192 or split" "M1" "ch20" "";
    "P13" "dense-64k" Decoded "unstreamed weight > 64 KB per layer, or any > 16 MB" "split into sub-layers" "palettize (int4) or split" "M1" "ch24" "";
    "P14" "format" Measured "compressed format that folds: int8/blockwise on M1, blockwise on M2" "no bandwidth gain by table (decoders still gained 1.78x with int8 on M1: measure)" "int4 LUT or sparse on M1; int8 from M2" "M1, M2" "ch7, ch25, AF" "";
    "P15" "format-m5" Measured "int8 weights for GEMV on M5 Pro" "309 vs 309 us; int4 195, sparse 192" "int4 LUT or > 50 % sparse" "M5 Pro" "AF" "";
    "P16" "int8-compute" Measured "int8 weights expected to speed compute" "weight-only flag leaves fp16 MACs" "W8A8 (x1.85 on M4, M5 Max)" "all" "ch20, mx" "";
    "P17" "palette-bits" Decoded "1-, 2-bit palettes; vector size not in {1,2,4,5}; 3-/6-bit before newer TD" "rejected or gated" "4 or 8 bits" "M1" "ch25" "";
    "P18" "barrier" Measured "add of two live conv outputs, concat, SDPA inside a fused run" "no GOC form, separate layers; SDPA cuts the program (~200 us a cut)" "use constants, reorder, decomposed attention (3.7-5.3x)" "all" "ch18, ch22, AF" "";
    "P19" "qtile" Measured "score matrix large: S >= 1024" "tiled [512, S] ~3x faster" "tile queries" "all" "AF" "";
    "P20" "batch-enc" Measured "encoder batch >= 8 at S=128" "4-6x over model; book: <= 23 (encoder), <= 6 (attention) before the GPU wins" "smaller batches" "M5 Pro, M4" "ch13, AF" "";
    "P21" "decode" Measured "per-token GEMV decode" "0.1 TF; many dispatches (216 x 0.75 ms = 6.2 tok/s)" "GPU, or one program per token with state cache" "all" "ch14, FG" "";
    "P22" "kv-input" Inferred "KV cache as graph input" "host copy each token" "state or shared surface" "all" "fit" "";
    "P23" "dyn-weight" Measured "weights passed as inputs" "1650 vs 320 us (2560x2560)" "constants" "M3 Max" "FG" "";
    "P24" "parallel" Measured "several dispatch threads or clients" "one in flight; +180-240 us contention" "queue in one process" "all" "ch32" "";
    "P25" "idle" Measured "calls > 100 ms apart" "+0.5 ms, plateau (ch31); one trace shows 260 ms after 5 s" "keep-alive" "M1" "ch10, ch31" "";
    "P26" "unroll" Decoded "dense factorization n > 32, spectral n > 20 unrolled in one graph" "unrolled chain dominates compile time" "split programs" "all" "ch16" "";
    "P27" "transpose" Decoded "transpose extent above 16384 (M1-M3)" "multi-pass" "avoid" "M1-M3" "appA" "";
    "P28" "stride" Decoded "stride not a product of 2, 3, 4, 8 (two factors)" "decomposed into sub-convs" "stride 2/4/8" "all" "ch35" "";
    "P29" "maxpool-c" Measured "max-pool with very large C" "tiles" "smaller C" "all" "ch17" "";
    "P30" "bank" Decoded "row stride/16 with gcd 64 (stride multiple of 1024 B)" "64 banks: all rows on one" "add 16 B" "all" "ch21" "";
    "P31" "chaining" Decoded "producer with two consumers, or another layer between producer and consumer" "chain broken: DRAM or L2 copy" "keep straight chains" "all" "ch22" "";
    "P32" "small-model" Decoded "conv small enough that CPU wins: 64x256x256 matmul 26 us on CPU vs 164+" "floor" "CPU" "all" "ch11" "";
    "B01" "pacing" Measured "compile within 15 s of a failed compile" "daemon restarts" "wait 15 s" "all" "ch19" "";
    "B02" "train-conv" Measured "conv backward graph, batch > ~16 (threshold ours)" "1.9 / 35 / 79 s at 4 / 64 / 128; never at 1000" "mini-batch" "M1" "ch19" "";
    "B03" "fan-in" Measured ">= 12 branches reconverging into one consumer" "cut search, 9.2 s plateau" "split, tree of adds" "M1" "ch19" "";
    "B04" "recompile" Measured "weights changed by recompiling" "55-150 ms per kernel, 4.2 s per 60 kernels; reload 8 ms each" "weights as state, patch blobs" "M3/M4 Max" "FG, OR" "";
    "E35" "inline-constant" Compiler "an fp16 tensor constant written out in MIL text" "Apple's compiler refuses it for an M1, whatever operation takes it" "put it into a weight file (BLOBFILE)" "M1" "OR" "add of x and tensor<fp16, [1, 64, 1, 1]>([...])";
    "E36" "constant-divisor" Compiler "division by a constant tensor" "code generation fails on the M1; a runtime divisor compiles" "multiply by the reciprocal" "M1" "OR" "real_div of x and a weight file's tensor";
    "E37" "parameter-type" Compiler "a parameter of another type than the operand, where the operation wants the same" "clip with fp32 bounds on an fp16 tensor is refused; epsilon of rsqrt may be fp32" "write the parameter in the operand's type" "M1" "OR" "clip with fp32 bounds";
    "E38" "missing-parameter" Compiler "a parameter left out that the compiler wants written" "log without epsilon is refused" "write the default" "M1" "OR" "log(x = x)";
    "E39" "constant-not-transposed" Compiler "matmul by a constant of a weight file that is not stored transposed" "refused with \"Metadata data type does not match requested type.\" where the weight file's record is not of the plain layout" "store the constant transposed and set transpose_y" "M1" "OR" "matmul(transpose_y = false, y = BLOBFILE)";
    "E40" "weight-form" Measured "int4 weights with a scale for each block; palettes of vectors" "the M6's compiler fails on them, and the whole model goes to the CPU; int8, palettes of 2, 3, 4 and 6 bits and those in 16 groups are fine" "a palette of single values, or int8" "M6" "M6 study" "constexpr_blockwise_shift_scale of int4 data, blocks of 32";
}
