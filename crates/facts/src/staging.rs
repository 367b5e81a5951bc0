//! How Apple's compilers lay operands out in tile memory and cut work to fit it: what their programs show
//! (`docs/evidence.md`, key `h13-staging`), with the sizes that the book gives.
//!
//! Only words follow from these numbers, not results: a program with others computes the same.

/// Banks of tile memory (the book, chapter 22).
pub const BANKS: u64 = 64;
/// Bytes of a unit: what one bank holds of an address range, and what L2 addresses count.
pub const UNIT_BYTES: u64 = 16;

/// Rows that are read together, and the units that each needs free: in the neural engine.
pub const NEURAL_BANKS: (u64, u64) = (8, 3);
/// The same where a result has three or four rows; two rows need nothing.
pub const FEW_NEURAL_BANKS: (u64, u64) = (4, 5);
/// The same in the planar engine.
pub const PLANAR_BANKS: (u64, u64) = (16, 2);

/// Bytes that one operand's tile takes at most, so that source, second source and result fit together.
pub const TILE_BYTES: u64 = 512 << 10;
/// Bytes that source or result of a copy takes at most.
pub const COPY_BYTES: u64 = 1 << 20;
/// Columns of a copy's tile; of a tile with several rows, divided by them.
pub const COPY_COLUMNS: usize = 128;
/// Fewest columns of a copy's tile: a granule of memory.
pub const COPY_COLUMNS_LEAST: usize = 32;
/// Rows up to which a copy's tile has several.
pub const COPY_ROWS: usize = 8;
/// Columns of a planar tile.
pub const PLANAR_COLUMNS: usize = 512;
/// Rows of a planar tile that is as wide as one may be.
pub const PLANAR_ROWS: usize = 32;
/// A second source begins on a multiple of this, and as far on where that is the first one's bank.
pub const SECOND_BYTES: u64 = 0x40;

/// Elements of a channel in a work unit of the neural engine, as a power of two.
pub const NEURAL_UNIT: u32 = 7;

/// Multiply-accumulates for each byte moved, times the rows of a work unit, from which on a convolution computes longer than it moves:
/// its work units then have one shape, else the engine chooses. Records leave 270 to 341 (`docs/evidence.md`, key `h13-staging`).
pub const UNIT_MACS: u64 = 320;

/// Elements of a patch of the planar engine, as a power of two, with one source.
pub const PATCH_OF_ONE: u32 = 9;
/// The same with two sources, which share it.
pub const PATCH_OF_TWO: u32 = 8;

/// The same with two sources where the result stays in tile memory.
pub const PATCH_THAT_STAYS: u32 = 7;

/// Rows of a patch, as a power of two, where the neural engine goes on in tile memory: its work unit.
pub const PATCH_REWRITTEN: u32 = 4;

/// Most output channels of one engine at a time: the HAL's eight accumulators with two channels each.
pub const LANES: usize = 16;
/// The same with a small source: four channels each.
pub const LANES_SMALL: usize = 32;
/// A source or result with sides up to this is small.
pub const SMALL_SIDE: usize = 8;

/// Channels that stand side by side in a right-hand matrix staged in memory.
pub const STAGED_INTERLEAVE: usize = 8;
/// Rows of a left-hand matrix that stand side by side in a stream from memory: the most that fill sixteen engines (`h13-oracles`).
pub const PRODUCT_LANES: [usize; 3] = [8, 4, 2];
/// Rows of a matrix that stand side by side where its rows are folded into a square.
pub const FOLD: usize = 8;
/// Output channels above which rows that fill a square are folded: two passes hold them otherwise.
pub const FOLDED_OUTPUTS: usize = 512;
/// Columns up to which coefficients of a matrix are streamed past the data: with more, they stay in kernel memory.
pub const STREAMED_COLUMNS: usize = 128;
/// Largest operand that is turned in tile memory before its channels are summed.
pub const TURNED_BYTES: u64 = 512 << 10;

/// Most channels whose reduced columns stand turned, a number of each channel side by side.
pub const TURNED_CHANNELS: usize = 192;
/// Pieces, below each other, of columns that are reduced beside rows.
pub const FOLDED_COLUMNS: usize = 4;

/// Share of tile memory, as a fraction, up to which the results that live at once stay in one partition. Above one, because
/// those count as well that go to memory in the end.
pub const PARTITION_MARGIN: (u64, u64) = (3, 2);

/// What `zin_ane_compiler` 4.2.1 does in its own way.
pub mod zin_421 {
    /// Distance that spreads rows of a convolution's source over banks where they would all start in one.
    pub const CONV_SPREAD: u64 = 0x30;
    /// The same for results and planar operands.
    pub const SPREAD: u64 = 0x20;
    /// Columns of a strip in which wide tensors are copied.
    pub const STRIP_COLUMNS: usize = 64;
}
