//! H15 (A16, M3) and M11: task descriptor versions 8 and 10.
//!
//! No stream of theirs was sampled. The header has eight words: the compiler's structure gives it one word less than that of
//! version 17, before the kernel group. Places follow from register counts and addresses of the book (version 10), of public
//! maps (version 8) and of a study that lists which registers one network writes; the three agree.

use super::shared::*;
use crate::table::Evidence::Claimed;
use crate::table::{at, compose};

compose! {
    /// The M3 task descriptor.
    H15 {
        generation: "h15", td_version: 8, codec: Packets, header_words: 8, align_bytes: 16,
        blocks: [
            0x05500 [72] "kernel-dma",
            0x00000 [19] "common",
            0x04d00 [69] "tile-dma-src",
            0x04100 [30] "l2",
            0x04500 [14] "pe",
            0x04900 [11] "ne",
            0x05100 [21] "tile-dma-dst",
            0x05900 [12] "cache-dma",
        ],
        parts: &[
            at(0, HEADER_8).by(Claimed, "by-analogy"),
            at(0x0000, COMMON_IMAGE),
            at(0x4100, L2_TWO_CONFIGS).by(Claimed, "m6-study"),
            at(0x4500, PE_CONFIG).by(Claimed, "by-analogy"),
            at(0x4900, NE_KERNEL).by(Claimed, "by-analogy"),
            at(0x4904, NE_MAC).by(Claimed, "by-analogy"),
            at(0x4d00, TILE_SRC_HEAD).by(Claimed, "td-image"),
            at(0x4d68, TILE_FORMATS).by(Claimed, "m6-study"),
            at(0x5100, TILE_DST).by(Claimed, "td-image"),
            at(0x5500, KERNEL_HEAD).by(Claimed, "by-analogy"),
            at(0x5520, KERNEL_COEFF).by(Claimed, "regmap-later"),
            at(0x55e0, KERNEL_EXTRA).by(Claimed, "by-analogy"),
            at(0x5900, CACHE_DMA).by(Claimed, "by-analogy"),
        ],
    }
}

compose! {
    /// The M11 task descriptor: no cache DMA, and kernel streams at the addresses that the book's relocations name.
    M11 {
        generation: "m11", td_version: 10, codec: Packets, header_words: 8, align_bytes: 16,
        blocks: [
            0x05500 [34] "kernel-dma",
            0x00000 [19] "common",
            0x04d00 [69] "tile-dma-src",
            0x04100 [30] "l2",
            0x04500 [14] "pe",
            0x04900 [11] "ne",
            0x05100 [21] "tile-dma-dst",
        ],
        parts: &[
            at(0, HEADER_8).by(Claimed, "by-analogy"),
            at(0x0000, COMMON_IMAGE),
            at(0x4100, L2_TWO_CONFIGS).by(Claimed, "m6-study"),
            at(0x4500, PE_CONFIG).by(Claimed, "by-analogy"),
            at(0x4900, NE_KERNEL).by(Claimed, "by-analogy"),
            at(0x4904, NE_MAC).by(Claimed, "by-analogy"),
            at(0x4d00, TILE_SRC_HEAD).by(Claimed, "td-image"),
            at(0x4d68, TILE_FORMATS).by(Claimed, "m6-study"),
            at(0x5100, TILE_DST).by(Claimed, "td-image"),
            at(0x5500, KERNEL_HEAD).by(Claimed, "by-analogy"),
            at(0x5548, KERNEL_EXTRA).by(Claimed, "td-image"),
        ],
    }
}
