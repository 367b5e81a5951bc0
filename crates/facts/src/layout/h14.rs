//! H14 (A15, M2): task descriptor version 11, the first with packets. Most blocks are those of version 7 at new places.

use super::shared::*;
use crate::table::Evidence::Bytes;
use crate::table::{at, compose};

compose! {
    /// The M2 task descriptor.
    H14 {
        generation: "h14", td_version: 11, codec: Packets, header_words: 8, align_bytes: 16,
        blocks: [
            0x01900 [70] "kernel-dma",
            0x00000 [19] "common",
            0x01100 [53] "tile-dma-src",
            0x00500 [25] "l2",
            0x00900 [5] "pe",
            0x00d00 [5] "ne",
            0x01500 [10] "tile-dma-dst",
        ],
        parts: &[
            at(0, HEADER_8),
            at(0x0000, COMMON_PACKED),
            at(0x0500, L2_ONE_CONFIG),
            at(0x0900, PE_HALF),
            at(0x0d00, NE_KERNEL).by(Bytes, "later-oracles"),
            at(0x0d04, NE_MAC).by(Bytes, "later-oracles"),
            at(0x1100, TILE_SRC_HEAD).by(Bytes, "later-oracles"),
            at(0x1150, TILE_FORMATS).by(Bytes, "later-oracles"),
            at(0x1168, PIXEL_OFFSETS),
            at(0x1500, TILE_DST_11),
            at(0x1900, KERNEL_11),
        ],
    }
}
