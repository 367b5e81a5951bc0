//! H17 (A18, M5): task descriptor version 19. As version 17, with the network id a bit higher and spare registers.

use super::shared::*;
use crate::table::Evidence::Claimed;
use crate::table::{at, compose};

compose! {
    /// The M5 task descriptor.
    H17 {
        generation: "h17", td_version: 19, codec: Packets, header_words: 9, align_bytes: 16,
        blocks: [
            0x05500 [74] "kernel-dma",
            0x00000 [23] "common",
            0x04d00 [83] "tile-dma-src",
            0x04100 [42] "l2",
            0x04500 [16] "pe",
            0x04900 [13] "ne",
            0x05100 [23] "tile-dma-dst",
            0x05900 [14] "cache-dma",
        ],
        parts: &[
            at(0, HEADER_9).by(Claimed, "by-analogy"),
            at(0x0000, FORMATS_2).by(Claimed, "by-analogy"),
            at(0x0000, COMMON_WIDE).by(Claimed, "by-analogy"),
            at(0x004c, NID_21),
            at(0x0050, DPE).by(Claimed, "by-analogy"),
            at(0x4100, L2_INDEXED).by(Claimed, "by-analogy"),
            at(0x4500, PE_CONFIG).by(Claimed, "by-analogy"),
            at(0x4504, PE_SINGLE).by(Claimed, "by-analogy"),
            at(0x4900, NE_KERNEL).by(Claimed, "by-analogy"),
            at(0x4904, NE_MAC).by(Claimed, "by-analogy"),
            at(0x4914, NE_EXTRA).by(Claimed, "by-analogy"),
            at(0x4d00, TILE_SRC_HEAD).by(Claimed, "by-analogy"),
            at(0x4d40, TILE_SRC_META).by(Claimed, "by-analogy"),
            at(0x4d68, TILE_FORMATS).by(Claimed, "by-analogy"),
            at(0x4d78, TILE_SRC_CROPS).by(Claimed, "by-analogy"),
            at(0x4db8, TILE_SRC_WRAPS).by(Claimed, "by-analogy"),
            at(0x4df8, EPHEMERAL).by(Claimed, "by-analogy"),
            at(0x5100, TILE_DST).by(Claimed, "by-analogy"),
            at(0x5500, KERNEL_HEAD).by(Claimed, "by-analogy"),
            at(0x5520, KERNEL_COEFF).by(Claimed, "by-analogy"),
            at(0x55e0, KERNEL_EXTRA).by(Claimed, "by-analogy"),
            at(0x5900, CACHE_DMA).by(Claimed, "by-analogy"),
        ],
    }
}
