//! Values of the fields whose coding is a list of names, as constants, and the constants that Apple's compiler writes.
//!
//! A test compares each value with its name in the vocabulary.

/// `InFmt`, `Src1MemFmt`, `KernelFmt`, ...: element formats.
pub mod format {
    /// Unsigned bytes.
    pub const UINT8: u32 = 0;
    /// Signed bytes.
    pub const INT8: u32 = 1;
    /// Half precision.
    pub const FP16: u32 = 2;
}

/// `TaskClass`: the unit that computes and its number of sources.
pub mod class {
    /// Neural engine.
    pub const NEURAL: u32 = 0;
    /// Planar engine, one source: scales and pooling windows.
    pub const PLANAR_ONE: u32 = 2;
    /// Planar engine, two sources.
    pub const PLANAR_TWO: u32 = 3;
    /// Planar engine, one source; source 2 has two rows, an addend and a factor.
    pub const PLANAR_AFFINE: u32 = 4;
    /// Planar engine, reduction over rows and columns.
    pub const PLANAR_REDUCE: u32 = 5;
    /// Planar engine, reduction of both sources combined.
    pub const PLANAR_REDUCE_TWO: u32 = 6;
}

/// `SrcType`, `ResType`: location of an operand.
pub mod residency {
    /// Tile memory.
    pub const L2: u32 = 0;
    /// Memory, by DMA, and kept in tile memory for later tasks.
    pub const DMA_KEEP: u32 = 1;
    /// Memory, by DMA.
    pub const DMA: u32 = 2;
    /// Handed from task to task.
    pub const CHAIN: u32 = 3;
}

/// `NeOpMode`.
pub mod neural {
    /// Multiply and accumulate.
    pub const MAC: u32 = 0;
    /// Product of the channels that one output reads.
    pub const MULTIPLY: u32 = 2;
    /// Maximum over the channels that one output reads.
    pub const MAX: u32 = 3;
    /// The source as it is.
    pub const BYPASS: u32 = 4;
}

/// `KernelMode`.
pub mod kernel {
    /// Real coefficients.
    pub const REAL: u32 = 0;
    /// No coefficients.
    pub const UNITY: u32 = 1;
}

/// `NonlinearMode`.
pub mod nonlinear {
    /// None.
    pub const NONE: u32 = 0;
    /// `max(x, 0)`.
    pub const RELU: u32 = 1;
    /// Activation table.
    pub const LUT: u32 = 2;
}

/// `PePool`.
pub mod pool {
    /// Sum.
    pub const SUM: u32 = 0;
    /// Maximum.
    pub const MAX: u32 = 2;
}

/// `PeOp`.
pub mod planar {
    /// Sum of both sources.
    pub const ADD: u32 = 0;
    /// Product.
    pub const MUL: u32 = 1;
    /// Larger.
    pub const MAX: u32 = 2;
    /// Smaller.
    pub const MIN: u32 = 3;
    /// Square of the sum.
    pub const SQUARE_SUM: u32 = 4;
}

/// `PeFirst`.
pub mod first {
    /// Source 1.
    pub const SOURCE: u32 = 0;
    /// Source 1 negated.
    pub const NEGATED: u32 = 1;
}

/// `PeSecond`.
pub mod second {
    /// No second operand.
    pub const NONE: u32 = 0;
    /// Source 2.
    pub const SOURCE: u32 = 2;
    /// Source 2 negated.
    pub const NEGATED: u32 = 3;
}

/// `PeCond`.
pub mod condition {
    /// Source 1 as it is.
    pub const NONE: u32 = 0;
    /// Its absolute value.
    pub const ABS: u32 = 1;
}

/// `PeNonlinear`.
pub mod planar_nonlinear {
    /// None.
    pub const NONE: u32 = 0;
    /// Reciprocal.
    pub const RECIPROCAL: u32 = 1;
    /// Reciprocal square root of the result plus `PeEpsilon`.
    pub const RSQRT: u32 = 2;
}

/// `PaddingMode`.
pub mod padding {
    /// Below every number.
    pub const NEGATIVE: u32 = 1;
}

/// `SourceMask` of a planar task with two sources.
pub mod source_mask {
    /// Both are streamed by DMA.
    pub const BOTH: u32 = 3;
    /// The second alone is.
    pub const SECOND: u32 = 2;
    /// Every other task.
    pub const USUAL: u32 = 1;
}

/// Constants that Apple's compiler writes into every task of a kind (`docs/evidence.md`, key `h13-samples`).
pub mod constant {
    /// Bytes of a page of the task chain, which no task crosses (`docs/evidence.md`, key `h13-staging`).
    pub const TASK_PAGE_BYTES: u32 = 0x4000;
    /// `*Truncate` of an operand that DMA moves.
    pub const TRUNCATE: u32 = 3;
    /// `ResBfrMode` of simple memory-to-memory tasks.
    pub const SIMPLE_BUFFER: u32 = 2;
    /// `BinaryPoint` with fp16 coefficients.
    pub const BINARY_POINT_FP16: u32 = 0x1c;
    /// `PalettizedBits` without a palette.
    pub const NO_PALETTE_BITS: u32 = 8;
    /// `LogEvents` of every task.
    pub const LOG_ALWAYS: u32 = 0x400;
    /// `LogEvents` that the last task adds to [`LOG_ALWAYS`].
    pub const LOG_LAST: u32 = 0x22;
    /// `LogEvents` that zin 9.509 adds in the first task (`docs/evidence.md`, key `h13-oracles`).
    pub const LOG_FIRST: u32 = 0x8;
    /// `DebugLogEvents` that the first task adds.
    pub const DEBUG_FIRST: u32 = 0x68;
    /// The same in the book's decoded identity layer.
    pub const DEBUG_FIRST_BOOK: u32 = 0x28;
    /// `DebugLogEvents` that the last task adds.
    pub const DEBUG_LAST: u32 = 0x6a;
    /// `DebugLogEvents` that a computing task adds.
    pub const DEBUG_COMPUTE: u32 = 0xfff800;
    /// The same for tables with a mode that works on the argument's mantissa.
    pub const DEBUG_COMPUTE_MANTISSA: u32 = 0xffd800;
    /// `CoeffSize` of a stream that is off, in bytes.
    pub const IDLE_STREAM_BYTES: u64 = 0x40;
    /// Kernel section of a program without kernel data, in bytes.
    pub const EMPTY_KERNEL_BYTES: usize = 0x4000;
}

/// Cache hints (`*CacheHint*`), as the compiler's own debug output names them.
pub mod hint {
    /// Do not allocate.
    pub const NO_ALLOC: u32 = 2;
    /// Destination that leaves the program: do not allocate.
    pub const DST_EXTERNAL: u32 = 3;
    /// Drop after use.
    pub const DROP: u32 = 4;
    /// De-prioritise.
    pub const LOW_PRIORITY: u32 = 0xc;
    /// Allocate.
    pub const ALLOC: u32 = 0xe;
    /// Destination that a later task reads: allocate.
    pub const DST_INTERMEDIATE: u32 = 0xf;
}

/// The cost estimate in `ExeCycles`: bytes that DMA moves in half a microsecond, rounded down: 4266 MT/s of 16 bytes. Records are
/// consistent with 34,125.7 to 34,130.2 (`docs/evidence.md`, key `h13-cycles`).
pub const ESTIMATE_BYTES: u64 = 34_128;

/// Planes of sources that a task takes in the same half microsecond: the estimate is no less than planes over this. Samples
/// are consistent with 224.5 to 225.9 (`docs/evidence.md`, key `h13-cycles`).
pub const ESTIMATE_PLANES: u64 = 225;

/// Planar engine in the same time: elements, rows of a plane that it reduces in parallel, and the columns of a patch of one row, which
/// it reduces as fast. The elements are an eighth of [`ESTIMATE_MACS`]; samples of reductions are consistent with 43,691 to 47,662
/// (`docs/evidence.md`, key `h13-cycles`).
pub const ESTIMATE_PLANAR: (u64, u64, u64) = (45_714, 4, 512);
/// Least columns that the estimate counts for a reduction of a row on the planar engine: samples are consistent with 24 to 48.
pub const ESTIMATE_COLUMNS_LEAST: u64 = 32;
/// Multiply-accumulates of one engine in the same half microsecond, as a fraction: 365,714. Samples are consistent with 364,974 to 365,985
/// (`docs/evidence.md`, key `h13-cycles`).
pub const ESTIMATE_MACS: (u64, u64) = (2_560_000, 7);
/// Elements that the neural engine processes in the same time without coefficients.
pub const ESTIMATE_NEURAL: u64 = 32_768;
/// Times that a table of a single channel, which one engine computes, takes of the planar engine's (`chain_ffn_d512_s128_biasfull`).
pub const ESTIMATE_SINGLE: u64 = 5;
/// The same for a table of bytes: 375 rows of 375 have 12, 749 have 24 (`logical_not_1x1x375x375`, `logical_not_1x1x749x375`).
pub const ESTIMATE_SINGLE_BYTES: u64 = 4;
