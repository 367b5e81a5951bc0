//! Container formats: magic numbers, command ids, fixed strings, and the words of fixed-shape records, as rows.
//!
//! Reader, writer, assembler and dump of the `program` crate use these rows. Sources:
//! the compiler outputs described in `docs/evidence.md`, key `hwx`.

use crate::table::Evidence;

pub use crate::table::{Code, by_code, by_name};

pub mod dialects;
pub mod e5;
pub mod firmware;
pub mod hwx;

/// A run of 32-bit words with a name inside a record of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Index of the first word.
    pub at: usize,
    /// 1, or 2 for a 64-bit little-endian quantity; more for bytes.
    pub words: usize,
    /// Short name used in listings; no spaces.
    pub name: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// Evidence.
    pub evidence: Evidence,
}

const fn code(code: u32, name: &'static str, evidence: Evidence, meaning: &'static str) -> Code {
    Code { code, name, meaning, evidence }
}

const fn word(at: usize, words: usize, name: &'static str, evidence: Evidence, meaning: &'static str) -> Word {
    Word { at, words, name, meaning, evidence }
}

/// Raw streams and the open driver's model file.
pub mod raw {
    /// Alignment of kernel data, which follows the task stream.
    pub const KERNEL_ALIGN: u64 = 16;
    /// Words of a task descriptor that writes every register: what most compilers emit.
    pub const FULL_TASK_WORDS: u32 = 0x9d;
    /// Words of a planar task from compilers that omit registers without effect.
    pub const SHORT_TASK_WORDS: u32 = 0x7e;

    /// The open driver's model file: a packed little-endian structure, then the stream and kernel data.
    pub mod anec {
        /// Bytes of the structure.
        pub const HEADER_BYTES: usize = 0x6a8;
        /// Offset of stream and kernel data, as loaders have it since 2023.
        pub const DATA: usize = 0x1000;
        /// Offset of stream and kernel data in files for the first loaders.
        pub const DATA_FIRST: usize = 0x800;
        /// u64: bytes of stream and kernel data.
        pub const SIZE: usize = 0x00;
        /// u32: bytes of the first task descriptor.
        pub const TD_SIZE: usize = 0x08;
        /// u32: number of task descriptors.
        pub const TD_COUNT: usize = 0x0c;
        /// u64: bytes of the stream.
        pub const TSK_SIZE: usize = 0x10;
        /// u64: bytes of kernel data.
        pub const KRN_SIZE: usize = 0x18;
        /// u32: number of inputs.
        pub const SRC_COUNT: usize = 0x20;
        /// u32: number of outputs.
        pub const DST_COUNT: usize = 0x24;
        /// u32 per base register: tiles of the buffer bound there.
        pub const TILES: usize = 0x28;
        /// Six u64 per base register: N, C, H, W, plane stride, row stride.
        pub const NCHW: usize = 0xa8;
        /// Entries of the two arrays.
        pub const BARS: usize = 32;
        /// Bytes of a tile.
        pub const TILE: u64 = 0x4000;
    }
}
