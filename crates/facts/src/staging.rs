//! Layout of operands in tile memory, and partitioning of work to fit it, as programs of Apple's compilers show
//! (`docs/evidence.md`, key `h13-staging`), with the sizes that the book gives.
//!
//! The numbers change words of a program, not its results.

/// Banks of tile memory (the book, chapter 22).
pub const BANKS: u64 = 64;
/// Bytes of a unit: one bank's share of an address range, and the granularity of L2 addresses.
pub const UNIT_BYTES: u64 = 16;

/// Rows that are read together, and free units that each needs, in the neural engine.
pub const NEURAL_BANKS: (u64, u64) = (8, 3);
/// The same for a result with three or four rows; two rows need none.
pub const FEW_NEURAL_BANKS: (u64, u64) = (4, 5);
/// The same in the planar engine.
pub const PLANAR_BANKS: (u64, u64) = (16, 2);

/// Most bytes of one operand's tile: source, second source and result fit together.
pub const TILE_BYTES: u64 = 512 << 10;
/// Most bytes of source or result of a copy.
pub const COPY_BYTES: u64 = 1 << 20;
/// Columns of a copy's tile; in a tile with several rows, divided by their number.
pub const COPY_COLUMNS: usize = 128;
/// Columns of a single row from which few channels are turned in whole units (`reduce_probe_sum_ax1_1x8x1x64`).
pub const TURNED_COLUMNS: usize = 64;
/// Fewest columns of a copy's tile: a granule of memory.
pub const COPY_COLUMNS_LEAST: usize = 32;
/// Most rows of a source whose copies have tiles of several rows.
pub const COPY_ROWS: usize = 8;
/// Columns of a planar tile.
pub const PLANAR_COLUMNS: usize = 512;
/// Columns of the tiles of two sources that a planar task reads together, where one does not fit a tile.
pub const PLANAR_COLUMNS_OF_TWO: usize = 32;
/// Rows of a piece in which the planar engine reduces a source that later tasks also read.
pub const PLANAR_ROWS: usize = 32;
/// Alignment of a second source, and its offset where it would start in the first one's bank.
pub const SECOND_BYTES: u64 = 0x40;

/// Elements of a channel in a work unit of the neural engine, as a power of two.
pub const NEURAL_UNIT: u32 = 7;

/// Rows of the largest work unit of the neural engine.
pub const LARGEST_UNIT: usize = 16;

/// Multiply-accumulates per byte moved, times the rows of a work unit, above which a convolution is limited by arithmetic:
/// its work units then have one shape, otherwise the engine chooses. Records are consistent with 329
/// (`conv_probe_k3_c256_n256_s32_st2_g1_bias0_same`) to 341 (`docs/evidence.md`, key `h13-staging`).
pub const UNIT_MACS: u64 = 335;

/// Elements of a patch of the planar engine, as a power of two, with one source.
pub const PATCH_OF_ONE: u32 = 9;
/// The same with two sources, which share the patch.
pub const PATCH_OF_TWO: u32 = 8;

/// The same with two sources and a result in tile memory.
pub const PATCH_THAT_STAYS: u32 = 7;

/// Columns of a patch of a reduction at most, as a power of two (`reduce_probe_sum_ax3_1x1x1x512`).
pub const PATCH_OF_REDUCED: u32 = 6;

/// Columns of a patch of a deviation of several rows at most, as a power of two (`norm_layer_norm_ax1_2_3_1x8x1x64`).
pub const PATCH_OF_DEVIATION: u32 = 5;

/// Rows of a patch, as a power of two, where the neural engine continues in tile memory: its work unit.
pub const PATCH_REWRITTEN: u32 = 4;

/// Rows of planes that are read together, and the units by which their banks differ (`reduce_probe_mean_ax1_2_3_1x128x16x16`: 0x21 for
/// 0x20 units; `reduce_probe_mean_ax1_2_3_1x64x8x8`: eight of 8 units are left as they are).
pub const ROWS_OF_PLANES: (u64, u64) = (8, 1);

/// Most output channels of one engine per pass: the HAL's eight accumulators with two channels each.
pub const LANES: usize = 16;
/// The same with a small source: four channels each.
pub const LANES_SMALL: usize = 32;
/// A source or result with sides up to this is small.
pub const SMALL_SIDE: usize = 8;

/// Interleave of channels in a right-hand matrix staged in memory.
pub const STAGED_INTERLEAVE: usize = 8;
/// Interleave of rows of a left-hand matrix in a stream from memory: the largest that fills sixteen engines (`h13-oracles`).
pub const PRODUCT_LANES: [usize; 3] = [8, 4, 2];
/// Interleave of rows of a matrix whose rows are folded into a square.
pub const FOLD: usize = 8;
/// Output channels above which rows that fill a square are folded: otherwise two passes hold them.
pub const FOLDED_OUTPUTS: usize = 512;
/// Most columns for which coefficients of a matrix are streamed past the data: with more, they stay in kernel memory.
pub const STREAMED_COLUMNS: usize = 128;
/// Largest operand that is transposed in tile memory before the sum over its channels.
pub const TURNED_BYTES: u64 = 512 << 10;
/// Largest right matrices of a product that are transposed in tile memory (`bmm_r3rr_m375_k128_n749_tx0_ty1_b8`: 1498 KiB; 2 MiB are not,
/// `encoder_bmm_m375_k1024_n128_ty1_b8`).
pub const TURNED_MATRIX_BYTES: u64 = 1536 << 10;

/// Most channels whose reduced columns are stored transposed, a number of each channel side by side.
pub const TURNED_CHANNELS: usize = 192;
/// Parts, one below the other, of columns that are reduced together with rows.
pub const FOLDED_COLUMNS: usize = 4;

/// Fraction of tile memory up to which results with overlapping live ranges stay in one partition. Above one, because
/// results that end in memory are counted too.
pub const PARTITION_MARGIN: (u64, u64) = (3, 2);

/// Staging of `zin_ane_compiler` 4.2.1 that differs.
pub mod zin_421 {
    /// Extra stride that spreads rows of a convolution's source over banks where all would start in one.
    pub const CONV_SPREAD: u64 = 0x30;
    /// The same for results and planar operands.
    pub const SPREAD: u64 = 0x20;
    /// Columns of a strip in which wide tensors are copied.
    pub const STRIP_COLUMNS: usize = 64;
}
