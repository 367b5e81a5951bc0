//! H16 (A17 Pro, M4): task descriptor version 17. Known best of the later generations: 108 containers of Apple's.

use super::shared::*;
use crate::table::{at, compose};

compose! {
    /// The M4 task descriptor.
    H16 {
        generation: "h16", td_version: 17, codec: Packets, header_words: 9, align_bytes: 16,
        blocks: [
            0x05500 [72] "kernel-dma",
            0x00000 [23] "common",
            0x04d00 [81] "tile-dma-src",
            0x04100 [41] "l2",
            0x04500 [15] "pe",
            0x04900 [12] "ne",
            0x05100 [21] "tile-dma-dst",
            0x05900 [12] "cache-dma",
        ],
        parts: &[
            at(0, HEADER_9),
            at(0x0000, FORMATS_2),
            at(0x0000, COMMON_WIDE),
            at(0x004c, NID_20),
            at(0x0050, DPE),
            at(0x4100, L2_INDEXED),
            at(0x4500, PE_CONFIG),
            at(0x4504, PE_SINGLE),
            at(0x4900, NE_KERNEL),
            at(0x4904, NE_MAC),
            at(0x4914, NE_EXTRA),
            at(0x4d00, TILE_SRC_HEAD),
            at(0x4d40, TILE_SRC_META),
            at(0x4d68, TILE_FORMATS),
            at(0x4d78, TILE_SRC_CROPS),
            at(0x4db8, TILE_SRC_WRAPS),
            at(0x4df8, EPHEMERAL),
            at(0x5100, TILE_DST),
            at(0x5500, KERNEL_HEAD),
            at(0x5520, KERNEL_COEFF),
            at(0x55e0, KERNEL_EXTRA),
            at(0x5900, CACHE_DMA),
        ],
    }
}
