//! The register image of task descriptor version 10, as the book gives it: one structure with every register, from which
//! the records of the stream are generated.
//!
//! The book calls this version the M1's; the compiler's own table gives version 7 to the M1 and 10 to the M11. It names the
//! groups at 0x4100 and 0x4500 "element-wise and planar" and "L2 and texture"; public maps of the neighbouring versions
//! have these names exchanged, with the same counts. Rows are the book's; see `docs/evidence.md`, key `td-image`.

use crate::{Evidence, Row};

/// One group of registers in the image.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Short name, for listings.
    pub name: &'static str,
    /// Byte offset of its first register in the structure.
    pub struct_base: u32,
    /// Number of registers, 4 bytes each.
    pub registers: u32,
    /// Byte address of its first register; the dimensions have none of their own and start at 0.
    pub aperture: Option<u32>,
    /// Contents.
    pub contents: &'static str,
}

/// The seven groups, ascending.
pub static GROUPS: [Group; 7] = [
    group("kernel", 0x2c, 34, Some(0x5500), "kernel-DMA enable, format, stride, task type, network id"),
    group("dimensions", 0xfc, 19, None, "input and output width, height, depth, channels, groups, transpose"),
    group(
        "tile-dma",
        0x150,
        69,
        Some(0x4d00),
        "the three tile-DMA engines: enable, cache hints, base address, strides",
    ),
    group("planar", 0x26c, 30, Some(0x4100), "element-wise and planar-engine configuration, padding mode"),
    group("l2", 0x2ec, 14, Some(0x4500), "L2 source and result configuration, texture mode"),
    group(
        "op-mode",
        0x32c,
        11,
        Some(0x4900),
        "operation mode, kernel alignment, sparse and palette format, bias enables",
    ),
    group("l2-result", 0x360, 21, Some(0x5100), "L2-result base, strides, wrap, result format"),
];

const fn group(
    name: &'static str,
    struct_base: u32,
    registers: u32,
    aperture: Option<u32>,
    contents: &'static str,
) -> Group {
    Group { name, struct_base, registers, aperture, contents }
}

/// Number of the version.
pub const VERSION: u32 = 10;

/// Bytes of the structure up to the end of its last group.
pub const IMAGE_BYTES: u32 = 0x360 + 4 * 21;

/// A field with an accessor, at the accessor's offset.
#[derive(Clone, Copy, Debug)]
pub struct ImageField {
    /// Name, the vendor's.
    pub name: &'static str,
    /// Byte offset that the accessor uses.
    pub offset: u32,
    /// Bits of the value, from bit 0.
    pub mask: u32,
    /// Bytes that the accessor reads: 2 if two fields share a register.
    pub bytes: u32,
}

/// Offset of the structure that accessors use from the one that groups use: only with these 8 bytes is the first dimension, at
/// 0xf4, the first register of its group, at 0xfc. Later versions have the same 8 bytes.
pub const ACCESSOR_SHIFT: u32 = 8;

/// Dimension fields.
pub static FIELDS: [ImageField; 6] = [
    ImageField { name: "Win", offset: 0x0f4, mask: 0x07fff, bytes: 2 },
    ImageField { name: "Hin", offset: 0x0f6, mask: 0x07fff, bytes: 2 },
    ImageField { name: "Cin", offset: 0x100, mask: 0x1ffff, bytes: 4 },
    ImageField { name: "Cout", offset: 0x104, mask: 0x1ffff, bytes: 4 },
    ImageField { name: "OCGSize", offset: 0x118, mask: 0x07, bytes: 4 },
    ImageField { name: "numGroups", offset: 0x11c, mask: 0x1fff, bytes: 4 },
];

/// A register with a relocation: the loader writes its value.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Word address of the register.
    pub register: u32,
    /// Object at the address.
    pub what: &'static str,
    /// DMA engine, by the vendor's name.
    pub engine: &'static str,
}

/// Address registers that stay symbolic in compiled programs.
pub static RELOCATIONS: [Slot; 7] = [
    Slot { register: 0x1344, what: "input tile read base", engine: "TileDMASrc1" },
    Slot { register: 0x134a, what: "second-operand read base", engine: "TileDMASrc2" },
    Slot { register: 0x1442, what: "output tile write base", engine: "TileDMADst" },
    Slot { register: 0x1554, what: "kernel bias stream", engine: "KernelDMASrc" },
    Slot { register: 0x1558, what: "kernel post-scale stream", engine: "KernelDMASrc" },
    Slot { register: 0x155c, what: "kernel palette-lookup stream", engine: "KernelDMASrc" },
    Slot { register: 0x1560, what: "kernel activation-lookup stream", engine: "KernelDMASrc" },
];

/// Largest stride of a chip's DMA engines, in either direction.
#[derive(Clone, Copy, Debug)]
pub struct StrideBound {
    /// Generation of the chip's register layout; empty: all others.
    pub generation: &'static str,
    /// Bytes.
    pub most: u64,
    /// Evidence.
    pub evidence: Evidence,
}

/// Bounds of DMA strides by generation. The book mentions a table without its numbers: the range of the
/// field, 26 bits with a sign from bit 6 on, applies to every generation.
pub static STRIDE_BOUNDS: [StrideBound; 2] = [
    StrideBound { generation: "h13", most: 1 << (STRIDE_BIT + STRIDE_BITS - 1), evidence: Evidence::Claimed },
    StrideBound { generation: "", most: 1 << (STRIDE_BIT + STRIDE_BITS - 1), evidence: Evidence::Claimed },
];

/// The bound of a generation.
pub fn stride_bound(generation: &str) -> u64 {
    let row = STRIDE_BOUNDS.iter().find(|row| row.generation == generation || row.generation.is_empty());
    row.map_or(u64::MAX, |row| row.most)
}

/// True where a row is a DMA stride, whose field is signed.
pub fn is_stride(row: &Row) -> bool {
    row.lo as u32 == STRIDE_BIT
        && u32::from(row.hi) == STRIDE_BIT + STRIDE_BITS - 1
        && row.field.name().ends_with("Stride")
}

/// Lowest bit of a DMA stride in its register.
pub const STRIDE_BIT: u32 = 6;
/// Bits of a DMA stride, sign included.
pub const STRIDE_BITS: u32 = 26;
/// Bytes of a serialized record.
pub const RECORD_BYTES: usize = 44;
