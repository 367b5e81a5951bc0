//! Blocks that several generations share. Addresses are relative to the block's base, in bytes.
//!
//! Source keys are explained in `docs/evidence.md`. A generation without samples of its own uses the rows with its
//! own evidence.

use crate::table::{Row, rows};

/// Header word with the size of a task, the only one by which a packet stream is split into tasks.
pub const TASK_SIZE: &[Row] = rows! {
    Header {
        0x00000 [1] { 0..=15 Tid Claimed "by-analogy", 16..=26 TaskSize Claimed "by-analogy" }
    }
};

/// Header of eight words, version 11.
pub const HEADER_8: &[Row] = rows! {
    Header {
        0x00000 [1] { 0..=15 Tid Bytes "h16-containers", 16..=26 TaskSize Bytes "h16-containers" }
        0x00004 [1] { 0..=16 ExeMicros Claimed "m6-study" }
        0x00008 [1] { 0..=23 LogEvents Bytes "h16-containers" }
        0x0000c [1] { 0..=23 Exceptions Claimed "regmap-later" }
        0x00010 [1] { 0..=23 DebugLogEvents Bytes "h16-containers" }
        0x00014 [1] { 0..=23 DebugExceptions Claimed "regmap-later" }
        0x00018 [1] { 0..=31 DramEvents Claimed "m6-study" }
        0x0001c [1] {
            0..=0 TaskSync Bytes "h16-containers", 1..=1 DependencyIdEn Bytes "h16-containers",
            3..=3 Eon Bytes "h16-containers", 4..=4 PerfTrace Claimed "m6-study", 5..=5 Xtde Claimed "m6-study",
            6..=6 PublishBit Claimed "m6-study", 16..=18 Ene Bytes "h16-containers",
        }
        0x00020 [1] { 0..=15 Dtid Claimed "regmap-later" }
    }
};

/// Header of nine words, versions 17 and later.
pub const HEADER_9: &[Row] = rows! {
    Header {
        0x00000 [1] { 0..=15 Tid Bytes "h16-containers", 16..=26 TaskSize Bytes "h16-containers" }
        0x00004 [1] { 0..=16 ExeMicros Claimed "m6-study" }
        0x00008 [1] { 0..=23 LogEvents Bytes "h16-containers", 26..=26 UnkHeader08Bit26 Bytes "h16-containers" }
        0x0000c [1] { 0..=23 Exceptions Claimed "regmap-later" }
        0x00010 [1] { 0..=23 DebugLogEvents Bytes "h16-containers" }
        0x00014 [1] { 0..=23 DebugExceptions Claimed "regmap-later" }
        0x00018 [1] { 0..=23 LiveOuts Claimed "regmap-later" }
        0x0001c [1] { 0..=31 DramEvents Claimed "m6-study" }
        0x00020 [1] {
            0..=0 TaskSync Bytes "h16-containers", 1..=1 DependencyIdEn Bytes "h16-containers",
            3..=3 Eon Bytes "h16-containers", 4..=4 PerfTrace Claimed "m6-study", 5..=5 Xtde Claimed "m6-study",
            6..=6 PublishBit Claimed "m6-study", 16..=18 Ene Bytes "h16-containers",
        }
        0x00024 [1] { 0..=15 Dtid Claimed "regmap-later" }
    }
};

/// Element formats, two bits each.
pub const FORMATS_2: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=1 InFmt Claimed "regmap-later", 2..=3 Src2Fmt Claimed "regmap-later",
            4..=5 OutFmt Claimed "regmap-later",
        }
    }
};

/// Element formats, three bits each.
pub const FORMATS_3: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=2 InFmt Claimed "regmap-later", 3..=5 Src2Fmt Claimed "regmap-later",
            6..=8 OutFmt Claimed "regmap-later",
        }
    }
};

/// Shapes and task class of version 11: width and height share a word.
pub const COMMON_PACKED: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=14 Win Bytes "later-oracles", 16..=30 Hin Bytes "later-oracles" }
        0x00004 [1] { 0..=14 Din Bytes "later-oracles" }
        0x00008 [1] {
            0..=1 InFmt Claimed "regmap-later", 2..=3 Src2Fmt Claimed "regmap-later",
            4..=5 OutFmt Claimed "regmap-later",
        }
        0x0000c [1] { 0..=16 Cin Bytes "later-oracles" }
        0x00010 [1] { 0..=16 Cout Bytes "later-oracles" }
        0x00014 [1] { 0..=14 Wout Bytes "later-oracles", 16..=30 Hout Bytes "later-oracles" }
        0x00018 [1] { 0..=14 Dout Bytes "later-oracles" }
        0x0001c [1] { 0..=2 OcgSize Bytes "later-oracles" }
        0x00020 [1] {
            0..=5 Kw Bytes "later-oracles", 6..=11 Kh Bytes "later-oracles", 13..=14 Sx Bytes "later-oracles",
            15..=16 Sy Bytes "later-oracles", 17..=21 Px Bytes "later-oracles", 22..=26 Py Bytes "later-oracles",
            28..=29 Ox Bytes "later-oracles", 30..=31 Oy Bytes "later-oracles",
        }
        0x00024 [1] {
            0..=4 Kd Claimed "regmap-later", 6..=7 Sz Claimed "regmap-later", 8..=11 Pz Claimed "regmap-later",
            13..=14 Oz Claimed "regmap-later",
        }
        0x00028 [1] {
            0..=12 NumGroups Bytes "later-oracles", 14..=14 UnicastEn Bytes "later-oracles",
            15..=15 ElemMultMode Claimed "regmap-later", 16..=31 UnicastCin Bytes "later-oracles",
        }
        0x0002c [1] { 0..=14 TileHeight Bytes "later-oracles" }
        0x00030 [1] { 0..=3 PatchWidth Bytes "later-oracles", 4..=7 PatchHeight Bytes "later-oracles" }
        0x00034 [1] {
            0..=0 Src1BroadcastW Bytes "later-oracles", 1..=1 Src1BroadcastH Bytes "later-oracles",
            2..=2 Src1BroadcastD Bytes "later-oracles", 3..=3 Src1BroadcastC Bytes "later-oracles",
            4..=4 Src2BroadcastW Bytes "later-oracles", 5..=5 Src2BroadcastH Bytes "later-oracles",
            6..=6 Src2BroadcastD Bytes "later-oracles", 7..=7 Src2BroadcastC Bytes "later-oracles",
            8..=8 Src1Transpose Bytes "later-oracles", 9..=9 Src2Transpose Bytes "later-oracles",
            10..=10 ResultTranspose Bytes "later-oracles",
        }
        0x00038 [1] {
            0..=1 SourceMask Bytes "later-oracles", 2..=2 SmallSourceMode Bytes "later-oracles",
            4..=7 TaskClass Bytes "later-oracles", 8..=10 ShPref Bytes "later-oracles",
            12..=14 ShMin Bytes "later-oracles", 16..=18 ShMax Bytes "later-oracles",
            19..=21 ActiveNe Bytes "later-oracles", 22..=22 TraceEn Claimed "regmap-later",
            26..=26 AccDoubleBufEn Claimed "by-analogy", 28..=28 NeTranspose Bytes "later-oracles",
            29..=29 FillLowerNe Claimed "regmap-later",
        }
        0x0003c [1] {
            0..=15 TaskId Claimed "by-analogy", 16..=19 TaskQ Claimed "by-analogy",
            20..=27 TaskNid Bytes "later-oracles",
        }
        0x00040 [1] { 0..=3 DpeCategory Bytes "later-oracles" }
    }
};

/// Dimensions as the book's register image has them; the rest of their block is not known.
pub const COMMON_IMAGE: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=14 Win Claimed "td-image", 16..=30 Hin Claimed "td-image" }
        0x0000c [1] { 0..=16 Cin Claimed "td-image" }
        0x00010 [1] { 0..=16 Cout Claimed "td-image" }
        0x00024 [1] { 0..=2 OcgSize Claimed "td-image" }
        0x00028 [1] { 0..=12 NumGroups Claimed "td-image" }
    }
};

/// Shapes and task class, one extent a word; after the formats.
pub const COMMON_WIDE: &[Row] = rows! {
    Register {
        0x00004 [1] { 0..=16 Win Bytes "h16-containers" }
        0x00008 [1] { 0..=16 Hin Bytes "h16-containers" }
        0x0000c [1] { 0..=16 Cin Bytes "h16-containers" }
        0x00010 [1] { 0..=16 Din Claimed "regmap-later" }
        0x00014 [1] { 0..=16 Wout Bytes "h16-containers" }
        0x00018 [1] { 0..=16 Hout Bytes "h16-containers" }
        0x0001c [1] { 0..=16 Cout Bytes "h16-containers" }
        0x00020 [1] { 0..=16 Dout Claimed "regmap-later" }
        0x00024 [1] { 0..=16 NumGroups Bytes "h16-containers" }
        0x00028 [1] {
            0..=5 Kw Bytes "m6-study", 6..=11 Kh Bytes "m6-study", 13..=14 Sx Bytes "m6-study",
            15..=16 Sy Bytes "m6-study", 17..=21 Px Bytes "m6-study", 22..=26 Py Bytes "m6-study",
            28..=29 Ox Bytes "m6-study", 30..=31 Oy Bytes "m6-study",
        }
        0x0002c [1] {
            0..=4 Kd Claimed "m6-study", 6..=7 Sz Claimed "m6-study", 8..=11 Pz Claimed "m6-study",
            13..=14 Oz Claimed "m6-study",
        }
        0x00030 [1] { 14..=14 UnicastEn Bytes "h16-containers", 16..=31 UnicastCin Bytes "h16-containers" }
        0x00034 [1] { 0..=16 TileHeight Bytes "h16-containers" }
        0x00038 [1] {
            16..=20 TileOverlap Claimed "regmap-later", 21..=25 TilePadTop Claimed "regmap-later",
            26..=30 TilePadBottom Claimed "regmap-later", 31..=31 TileReflect Claimed "regmap-later",
        }
        0x0003c [1] {
            2..=3 SmallSrcMode Bytes "h16-containers", 4..=7 TaskClass Bytes "h16-containers",
            8..=10 ShPref Bytes "h16-containers", 12..=14 ShMin Bytes "h16-containers",
            16..=18 ShMax Bytes "h16-containers", 19..=21 ActiveNe Bytes "h16-containers",
            22..=22 TraceEn Claimed "regmap-later", 23..=23 L2Barrier Claimed "regmap-later",
            24..=26 ReluType Claimed "regmap-later", 27..=27 Winograd1d Claimed "regmap-later",
            28..=28 NeTranspose Bytes "h16-containers", 29..=29 FillLowerNe Claimed "regmap-later",
            30..=30 ForwardBarrier Claimed "m6-study",
        }
        0x00040 [1] {
            0..=2 OcgSize Bytes "h16-containers", 3..=3 FatTileEn Claimed "regmap-later",
            4..=5 WuStackLog2 Claimed "regmap-later", 6..=7 HalfWorkUnit Claimed "regmap-later",
        }
        0x00044 [1] { 0..=3 PatchWidth Bytes "h16-containers", 4..=8 PatchHeight Bytes "h16-containers" }
        0x00048 [1] {
            0..=0 Src1BroadcastW Bytes "h16-containers", 1..=1 Src1BroadcastH Bytes "h16-containers",
            2..=2 Src1BroadcastD Bytes "h16-containers", 3..=3 Src1BroadcastC Bytes "h16-containers",
            4..=4 Src2BroadcastW Bytes "h16-containers", 5..=5 Src2BroadcastH Bytes "h16-containers",
            6..=6 Src2BroadcastD Bytes "h16-containers", 7..=7 Src2BroadcastC Bytes "h16-containers",
            8..=8 Src1Transpose Bytes "h16-containers", 9..=9 Src2Transpose Bytes "h16-containers",
            10..=10 ResultTranspose Bytes "h16-containers", 14..=14 IndexTranspose Claimed "regmap-later",
            15..=15 IndexBroadcast Claimed "regmap-later", 16..=18 PePrimarySource Claimed "regmap-later",
            19..=21 PeActiveNe Claimed "regmap-later",
        }
    }
};

/// Network id from bit 20.
pub const NID_20: &[Row] = rows! {
    Register {
        0x00000 [1] { 20..=27 TaskNid Bytes "h16-containers" }
    }
};

/// Network id from bit 21.
pub const NID_21: &[Row] = rows! {
    Register {
        0x00000 [1] { 21..=28 TaskNid Bytes "later-oracles" }
    }
};

/// Power estimator.
pub const DPE: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=3 DpeCategory Bytes "h16-containers" }
    }
};

/// L2 with one word for both sources, as in version 7.
pub const L2_ONE_CONFIG: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=0 InputRelu Claimed "by-analogy", 2..=3 PaddingMode Bytes "later-oracles" }
        0x00004 [1] {
            0..=1 SrcType Bytes "later-oracles", 2..=3 Dependent Bytes "later-oracles",
            4..=4 SrcAliasConvSrc Bytes "later-oracles", 5..=5 SrcAliasConvRslt Bytes "later-oracles",
            6..=7 SrcDmaFmt Bytes "later-oracles", 8..=11 SrcDmaInterleave Bytes "later-oracles",
            20..=20 SrcAliasPlanarSrc Bytes "later-oracles", 22..=22 SrcAliasPlanarRslt Bytes "later-oracles",
            24..=25 Src2Type Bytes "later-oracles",
        }
        0x00008 [1] { 4..=20 SrcL2Base Bytes "later-oracles" }
        0x0000c [1] { 4..=20 SrcL2ChannelStride Bytes "later-oracles" }
        0x00010 [1] { 4..=20 SrcL2RowStride Bytes "later-oracles" }
        0x00014 [1] { 4..=20 SrcL2DepthStride Bytes "later-oracles" }
        0x00018 [1] { 4..=20 SrcL2GroupStride Bytes "later-oracles" }
        0x0001c [1] { 4..=20 Src2L2Base Bytes "later-oracles" }
        0x00020 [1] { 4..=20 Src2L2ChannelStride Bytes "later-oracles" }
        0x00024 [1] { 4..=20 Src2L2RowStride Bytes "later-oracles" }
        0x00028 [1] { 4..=20 Src2L2DepthStride Bytes "later-oracles" }
        0x0002c [1] { 4..=20 Src2L2GroupStride Bytes "later-oracles" }
        0x00030 [1] {
            0..=1 ResType Bytes "later-oracles", 2..=3 ResBfrMode Bytes "later-oracles",
            4..=4 ResAliasConvSrc Bytes "later-oracles", 5..=5 ResAliasConvRslt Bytes "later-oracles",
            6..=7 ResDmaFmt Bytes "later-oracles", 8..=11 ResDmaInterleave Bytes "later-oracles",
            20..=20 ResAliasPlanarSrc Bytes "later-oracles", 22..=22 ResAliasPlanarRslt Bytes "later-oracles",
        }
        0x00034 [1] { 4..=20 ResL2Base Bytes "later-oracles" }
        0x00038 [1] { 4..=20 ResL2ChannelStride Bytes "later-oracles" }
        0x0003c [1] { 4..=20 ResL2RowStride Bytes "later-oracles" }
        0x00040 [1] { 4..=20 ResL2DepthStride Bytes "later-oracles" }
        0x00044 [1] { 4..=20 ResL2GroupStride Bytes "later-oracles" }
    }
};

/// L2 with a word for each source and no index tensor.
pub const L2_TWO_CONFIGS: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 InputRelu Claimed "regmap-later", 2..=3 PaddingMode Bytes "h16-containers",
            4..=4 Src2InputRelu Claimed "regmap-later", 16..=16 L2Sync Claimed "regmap-later",
        }
        0x00004 [1] {
            0..=1 SrcType Bytes "h16-containers", 2..=3 Dependent Bytes "h16-containers",
            4..=4 SrcAliasConvSrc Bytes "h16-containers", 5..=5 SrcAliasConvRslt Bytes "h16-containers",
            6..=7 SrcDmaFmt Bytes "h16-containers", 8..=11 SrcDmaInterleave Bytes "h16-containers",
            20..=20 SrcAliasPlanarSrc Bytes "h16-containers", 22..=22 SrcAliasPlanarRslt Bytes "h16-containers",
            25..=26 SrcCompression Claimed "regmap-later", 31..=31 SrcL2DoubleRate Claimed "m6-study",
        }
        0x00008 [1] {
            0..=1 Src2L2Type Bytes "h16-containers", 2..=3 Src2Dependent Bytes "h16-containers",
            4..=4 Src2AliasConvSrc Bytes "h16-containers", 5..=5 Src2AliasConvRslt Bytes "h16-containers",
            6..=7 Src2DmaFmt Bytes "h16-containers", 8..=11 Src2DmaInterleave Bytes "h16-containers",
            20..=20 Src2AliasPlanarSrc Bytes "h16-containers", 22..=22 Src2AliasPlanarRslt Bytes "h16-containers",
            25..=26 Src2Compression Claimed "regmap-later", 31..=31 Src2L2DoubleRate Claimed "m6-study",
        }
        0x0000c [1] { 4..=20 SrcL2Base Bytes "h16-containers" }
        0x00010 [1] { 4..=20 SrcL2ChannelStride Bytes "h16-containers" }
        0x00014 [1] { 4..=20 SrcL2RowStride Bytes "h16-containers" }
        0x00018 [1] { 4..=20 SrcL2DepthStride Bytes "h16-containers" }
        0x0001c [1] { 4..=20 SrcL2GroupStride Bytes "h16-containers" }
        0x00020 [1] { 4..=20 Src2L2Base Bytes "h16-containers" }
        0x00024 [1] { 4..=20 Src2L2ChannelStride Bytes "h16-containers" }
        0x00028 [1] { 4..=20 Src2L2RowStride Bytes "h16-containers" }
        0x0002c [1] { 4..=20 Src2L2DepthStride Bytes "h16-containers" }
        0x00030 [1] { 4..=20 Src2L2GroupStride Bytes "h16-containers" }
        0x00034 [1] {
            0..=1 ResType Bytes "h16-containers", 2..=3 ResBfrMode Bytes "h16-containers",
            4..=4 ResAliasConvSrc Bytes "h16-containers", 5..=5 ResAliasConvRslt Bytes "h16-containers",
            6..=7 ResDmaFmt Bytes "h16-containers", 8..=11 ResDmaInterleave Bytes "h16-containers",
            20..=20 ResAliasPlanarSrc Bytes "h16-containers", 22..=22 ResAliasPlanarRslt Bytes "h16-containers",
            25..=26 ResCompression Claimed "regmap-later",
        }
        0x00038 [1] { 4..=20 ResL2Base Bytes "h16-containers" }
        0x0003c [1] { 4..=20 ResL2ChannelStride Bytes "h16-containers" }
        0x00040 [1] { 4..=20 ResL2RowStride Bytes "h16-containers" }
        0x00044 [1] { 4..=20 ResL2DepthStride Bytes "h16-containers" }
        0x00048 [1] { 4..=20 ResL2GroupStride Bytes "h16-containers" }
    }
};

/// L2 with a word for each source and for an index tensor.
pub const L2_INDEXED: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 InputRelu Claimed "regmap-later", 2..=3 PaddingMode Bytes "h16-containers",
            4..=4 Src2InputRelu Claimed "regmap-later", 16..=16 L2Sync Claimed "regmap-later",
        }
        0x00004 [1] {
            0..=1 SrcType Bytes "h16-containers", 2..=3 Dependent Bytes "h16-containers",
            4..=4 SrcAliasConvSrc Bytes "h16-containers", 5..=5 SrcAliasConvRslt Bytes "h16-containers",
            6..=7 SrcDmaFmt Bytes "h16-containers", 8..=11 SrcDmaInterleave Bytes "h16-containers",
            20..=20 SrcAliasPlanarSrc Bytes "h16-containers", 22..=22 SrcAliasPlanarRslt Bytes "h16-containers",
            25..=26 SrcCompression Claimed "regmap-later", 31..=31 SrcL2DoubleRate Claimed "m6-study",
        }
        0x00008 [1] {
            0..=1 Src2L2Type Bytes "h16-containers", 2..=3 Src2Dependent Bytes "h16-containers",
            4..=4 Src2AliasConvSrc Bytes "h16-containers", 5..=5 Src2AliasConvRslt Bytes "h16-containers",
            6..=7 Src2DmaFmt Bytes "h16-containers", 8..=11 Src2DmaInterleave Bytes "h16-containers",
            20..=20 Src2AliasPlanarSrc Bytes "h16-containers", 22..=22 Src2AliasPlanarRslt Bytes "h16-containers",
            25..=26 Src2Compression Claimed "regmap-later", 31..=31 Src2L2DoubleRate Claimed "m6-study",
        }
        0x0000c [1] {
            0..=1 IdxL2Type Claimed "regmap-later", 2..=3 IdxDependent Claimed "regmap-later",
            4..=4 IdxAliasConvSrc Claimed "regmap-later", 5..=5 IdxAliasConvRslt Claimed "regmap-later",
            6..=7 IdxDmaFmt Claimed "regmap-later", 20..=20 IdxAliasPlanarSrc Claimed "regmap-later",
            22..=22 IdxAliasPlanarRslt Claimed "regmap-later",
        }
        0x00010 [1] { 4..=20 SrcL2Base Bytes "h16-containers" }
        0x00014 [1] { 4..=20 SrcL2ChannelStride Bytes "h16-containers" }
        0x00018 [1] { 4..=20 SrcL2RowStride Bytes "h16-containers" }
        0x0001c [1] { 4..=20 SrcL2DepthStride Bytes "h16-containers" }
        0x00020 [1] { 4..=20 SrcL2GroupStride Bytes "h16-containers" }
        0x00024 [1] { 4..=20 Src2L2Base Bytes "h16-containers" }
        0x00028 [1] { 4..=20 Src2L2ChannelStride Bytes "h16-containers" }
        0x0002c [1] { 4..=20 Src2L2RowStride Bytes "h16-containers" }
        0x00030 [1] { 4..=20 Src2L2DepthStride Bytes "h16-containers" }
        0x00034 [1] { 4..=20 Src2L2GroupStride Bytes "h16-containers" }
        0x00038 [1] { 4..=20 IdxL2Base Claimed "regmap-later" }
        0x0003c [1] { 4..=20 IdxL2ChannelStride Claimed "regmap-later" }
        0x00040 [1] { 4..=20 IdxL2DepthStride Claimed "regmap-later" }
        0x00044 [1] { 4..=20 IdxL2GroupStride Claimed "regmap-later" }
        0x00048 [1] {
            0..=1 ResType Bytes "h16-containers", 2..=3 ResBfrMode Bytes "h16-containers",
            4..=4 ResAliasConvSrc Bytes "h16-containers", 5..=5 ResAliasConvRslt Bytes "h16-containers",
            6..=7 ResDmaFmt Bytes "h16-containers", 8..=11 ResDmaInterleave Bytes "h16-containers",
            20..=20 ResAliasPlanarSrc Bytes "h16-containers", 22..=22 ResAliasPlanarRslt Bytes "h16-containers",
            25..=26 ResCompression Claimed "regmap-later",
        }
        0x0004c [1] { 4..=20 ResL2Base Bytes "h16-containers" }
        0x00050 [1] { 4..=20 ResL2ChannelStride Bytes "h16-containers" }
        0x00054 [1] { 4..=20 ResL2RowStride Bytes "h16-containers" }
        0x00058 [1] { 4..=20 ResL2DepthStride Bytes "h16-containers" }
        0x0005c [1] { 4..=20 ResL2GroupStride Bytes "h16-containers" }
        0x00074 [1] { 0..=15 ResWrapIndex Claimed "regmap-later", 16..=31 ResWrapStart Claimed "regmap-later" }
        0x0008c [1] {
            0..=15 PeMaxIndex Claimed "regmap-later", 16..=18 PeIndexMode Claimed "regmap-later",
            24..=25 PeIndexBroadcast Claimed "regmap-later", 26..=26 PeIndexTranspose Claimed "regmap-later",
        }
        0x00090 [1] { 0..=11 Src1WrapAddr Claimed "regmap-later" }
        0x00094 [1] { 0..=11 Src2WrapAddr Claimed "regmap-later" }
        0x0009c [1] { 0..=11 ResWrapAddr Claimed "regmap-later", 16..=26 ResWrapAddrOffset Claimed "regmap-later" }
        0x000a0 [1] {
            0..=5 Src1OffsetX Claimed "regmap-later", 8..=12 Src1OffsetY Claimed "regmap-later",
            16..=21 Src2OffsetX Claimed "regmap-later", 24..=28 Src2OffsetY Claimed "regmap-later",
        }
    }
};

/// Planar engine with half precision registers, as in version 7.
pub const PE_HALF: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=1 PePool Bytes "later-oracles", 2..=4 PeOp Bytes "later-oracles",
            5..=5 PeReluEn Bytes "later-oracles", 6..=7 PeCond Bytes "later-oracles",
            12..=13 PeNonlinear Bytes "later-oracles", 16..=17 PeFirst Bytes "later-oracles",
            18..=19 PeSecond Bytes "later-oracles",
        }
        0x00004 [1] { 0..=15 PeBias Bytes "later-oracles", 16..=31 PeScale Bytes "later-oracles" }
        0x00008 [1] { 0..=15 PeEpsilon Bytes "later-oracles", 16..=31 PePreScale Bytes "later-oracles" }
        0x0000c [1] { 0..=31 PeFinalScale Bytes "later-oracles" }
        0x00010 [1] {
            0..=7 PeSrc1ZeroPoint Claimed "regmap-later", 8..=15 PeSrc2ZeroPoint Claimed "regmap-later",
            16..=23 PeOutZeroPoint Claimed "regmap-later",
        }
    }
};

/// Planar engine: functions.
pub const PE_CONFIG: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=1 PePool Bytes "h16-containers", 2..=4 PeOp Bytes "h16-containers",
            5..=5 PeReluEn Claimed "by-analogy", 6..=8 PeCompare Bytes "h16-containers",
            12..=13 PeNonlinear Bytes "h16-containers", 16..=17 PeFirst Bytes "h16-containers",
            18..=19 PeSecond Bytes "h16-containers",
        }
    }
};

/// Planar engine: constants in single precision.
pub const PE_SINGLE: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=31 PeBiasF32 Claimed "regmap-later" }
        0x00004 [1] { 0..=31 PeScaleF32 Bytes "h16-containers" }
        0x00008 [1] { 0..=31 PeEpsilonF32 Bytes "h16-containers" }
        0x0000c [1] { 0..=31 PePreScaleF32 Bytes "h16-containers" }
        0x00010 [1] { 0..=31 PeFinalScale Bytes "h16-containers" }
        0x00014 [8] { 0..=31 PeLut Claimed "regmap-later" }
        0x00034 [1] {
            0..=7 PeSrc1ZeroPoint Claimed "regmap-later", 8..=15 PeSrc2ZeroPoint Claimed "regmap-later",
            16..=23 PeOutZeroPoint Claimed "regmap-later",
        }
    }
};

/// Neural engine: format of coefficients.
pub const NE_KERNEL: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=1 KernelFormat Bytes "h16-containers", 2..=2 PalettizedEn Claimed "regmap-later",
            4..=7 PalettizedBits Bytes "h16-containers", 8..=8 SparseFmt Claimed "regmap-later",
            10..=10 GroupKernelReuse Claimed "regmap-later", 15..=15 SparseBinary Claimed "regmap-later",
            16..=16 KernelAlign Bytes "h16-containers", 21..=23 SparseBlockSize Claimed "regmap-later",
            24..=24 AsymQuantEn Claimed "regmap-later", 28..=28 DetectZeros Claimed "m6-study",
        }
    }
};

/// Neural engine: functions of the array.
pub const NE_MAC: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=2 NeOpMode Bytes "h16-containers", 3..=3 KernelMode Bytes "h16-containers",
            4..=4 BiasMode Claimed "regmap-later", 5..=5 PassthroughEn Claimed "regmap-later",
            6..=6 MatrixBiasEn Claimed "regmap-later", 8..=13 BinaryPoint Bytes "h16-containers",
            14..=14 PostScaleMode Claimed "regmap-later", 16..=17 NonlinearMode Bytes "h16-containers",
            19..=19 MaxPoolEn Claimed "regmap-later", 20..=23 ArgOutputSelect Claimed "regmap-later",
            26..=26 DoubleInt8En Claimed "regmap-later", 27..=28 NeSmallSrcMode Claimed "regmap-later",
        }
        0x00004 [1] { 0..=15 MatrixVectorBias Claimed "regmap-later" }
        0x00008 [1] { 0..=15 AccBias Claimed "regmap-later", 16..=20 AccBiasShift Claimed "regmap-later" }
        0x0000c [1] { 0..=15 PostScale Bytes "h16-containers", 16..=20 PostRightShift Claimed "regmap-later" }
    }
};

/// Neural engine: compare-and-select, rounding.
pub const NE_EXTRA: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=7 RcasKeyMask Claimed "regmap-later", 8..=10 RcasCmpBit Claimed "regmap-later",
            12..=13 RcasAxis Claimed "regmap-later", 16..=19 RcasSenseBit Claimed "regmap-later",
            20..=20 RcasMode Claimed "regmap-later",
        }
        0x00004 [1] { 0..=1 RoundMode Claimed "regmap-later", 4..=8 RoundIntegerBits Claimed "regmap-later" }
        0x00008 [4] { 0..=31 RoundSeed Claimed "regmap-later" }
        0x00018 [1] { 0..=7 NeZeroPoint Claimed "regmap-later" }
    }
};

/// Tile DMA, sources: pixel offsets.
pub const PIXEL_OFFSETS: &[Row] = rows! {
    Register {
        0x00000 [4] { 0..=15 PixelOffset Claimed "regmap-later" }
    }
};

/// Tile DMA, sources: control, addresses, strides.
pub const TILE_SRC_HEAD: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 Src1En Bytes "h16-containers", 4..=7 Src1CacheHint Bytes "h16-containers",
            8..=15 Src1DataSetId Claimed "regmap-later", 16..=23 Src1UserTag Bytes "h16-containers",
            24..=27 Src1DepInterval Claimed "regmap-later", 28..=29 Src1DepMode Claimed "regmap-later",
            31..=31 Src1DoubleRate Claimed "m6-study",
        }
        0x00004 [1] {
            0..=0 Src2En Bytes "h16-containers", 4..=7 Src2CacheHint Bytes "h16-containers",
            8..=15 Src2DataSetId Claimed "regmap-later", 16..=23 Src2UserTag Bytes "h16-containers",
            24..=27 Src2DepInterval Claimed "regmap-later", 28..=29 Src2DepMode Claimed "regmap-later",
            31..=31 Src2DoubleRate Claimed "m6-study",
        }
        0x00008 [1] {
            0..=3 Src1CacheHintReuse Bytes "h16-containers", 4..=7 Src1CacheHintNoReuse Bytes "h16-containers",
            8..=10 Src1Wrap Claimed "regmap-later", 16..=31 Src1WrapStatic Claimed "regmap-later",
        }
        0x0000c [1] {
            0..=3 Src2CacheHintReuse Bytes "h16-containers", 4..=7 Src2CacheHintNoReuse Bytes "h16-containers",
            8..=10 Src2Wrap Claimed "regmap-later", 16..=31 Src2WrapStatic Claimed "regmap-later",
        }
        0x00010 [1] { 0..=31 Src1AddrLo Bytes "h16-containers" }
        0x00014 [1] { 0..=31 Src1AddrHi Bytes "h16-containers" }
        0x00018 [1] { 6..=31 Src1RowStride Bytes "h16-containers" }
        0x0001c [1] { 6..=31 Src1PlaneStride Bytes "h16-containers" }
        0x00020 [1] { 6..=31 Src1DepthStride Bytes "h16-containers" }
        0x00024 [1] { 6..=31 Src1GroupStride Bytes "h16-containers" }
        0x00028 [1] { 0..=31 Src2AddrLo Bytes "h16-containers" }
        0x0002c [1] { 0..=31 Src2AddrHi Bytes "h16-containers" }
        0x00030 [1] { 6..=31 Src2RowStride Bytes "h16-containers" }
        0x00034 [1] { 6..=31 Src2PlaneStride Bytes "h16-containers" }
        0x00038 [1] { 6..=31 Src2DepthStride Bytes "h16-containers" }
        0x0003c [1] { 6..=31 Src2GroupStride Bytes "h16-containers" }
    }
};

/// Tile DMA, sources: compression metadata.
pub const TILE_SRC_META: &[Row] = rows! {
    Register {
        0x00000 [2] { 0..=31 Src1MetaAddr Claimed "regmap-later" }
        0x00008 [2] { 0..=31 Src2MetaAddr Claimed "regmap-later" }
        0x00018 [1] { 7..=31 Src1MetaSize Claimed "regmap-later" }
        0x00024 [1] { 7..=31 Src2MetaSize Claimed "regmap-later" }
    }
};

/// Tile DMA, sources: formats.
pub const TILE_FORMATS: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=1 Src1FmtMode Bytes "h16-containers", 4..=6 Src1Truncate Bytes "h16-containers",
            8..=8 Src1Shift Claimed "regmap-later", 12..=13 Src1MemFmt Bytes "h16-containers",
            16..=18 Src1OffsetCh Claimed "regmap-later", 24..=27 Src1Interleave Bytes "h16-containers",
            28..=31 Src1CmpVec Claimed "regmap-later",
        }
        0x00004 [1] {
            0..=1 Src2FmtMode Bytes "h16-containers", 4..=6 Src2Truncate Bytes "h16-containers",
            8..=8 Src2Shift Claimed "regmap-later", 12..=13 Src2MemFmt Bytes "h16-containers",
            16..=18 Src2OffsetCh Claimed "regmap-later", 24..=27 Src2Interleave Bytes "h16-containers",
            28..=31 Src2CmpVec Claimed "regmap-later",
        }
    }
};

/// Tile DMA, sources: compression and crops.
pub const TILE_SRC_CROPS: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 Src1Compressed Claimed "regmap-later", 2..=2 Src1Macroblock Claimed "regmap-later",
            4..=9 Src1Packing Claimed "regmap-later", 13..=13 Src1Lossy Claimed "regmap-later",
            24..=31 Src1MetaUserTag Claimed "regmap-later",
        }
        0x00004 [2] { 0..=31 Src1CompressedSize Claimed "regmap-later" }
        0x0000c [1] { 0..=15 Src1CropY Claimed "regmap-later", 16..=31 Src1CropX Claimed "regmap-later" }
        0x00010 [1] {
            0..=0 Src2Compressed Claimed "regmap-later", 2..=2 Src2Macroblock Claimed "regmap-later",
            4..=9 Src2Packing Claimed "regmap-later", 13..=13 Src2Lossy Claimed "regmap-later",
            24..=31 Src2MetaUserTag Claimed "regmap-later",
        }
        0x00014 [2] { 0..=31 Src2CompressedSize Claimed "regmap-later" }
        0x0001c [1] { 0..=15 Src2CropY Claimed "regmap-later", 16..=31 Src2CropX Claimed "regmap-later" }
    }
};

/// Tile DMA, sources: circular buffers and texture unit.
pub const TILE_SRC_WRAPS: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=11 Src1WrapBlocks Claimed "regmap-later", 12..=31 Src1WrapLength Claimed "regmap-later" }
        0x00004 [1] { 0..=11 Src2WrapBlocks Claimed "regmap-later", 12..=31 Src2WrapLength Claimed "regmap-later" }
        0x00008 [1] { 0..=31 Src1DepOffset Claimed "regmap-later" }
        0x0000c [1] { 0..=31 Src2DepOffset Claimed "regmap-later" }
        0x00010 [1] { 0..=2 TextureMode Claimed "regmap-later" }
        0x00014 [1] {
            0..=2 TextureIndexW Claimed "m6-study", 3..=5 TextureIndexH Claimed "m6-study",
            6..=8 TextureIndexC Claimed "m6-study", 9..=11 TextureIndexD Claimed "m6-study",
            12..=14 TextureIndexG Claimed "m6-study",
        }
        0x0001c [1] { 0..=15 TextureBackground Claimed "regmap-later" }
        0x00020 [3] { 0..=15 TextureMaxLow Claimed "regmap-later", 16..=31 TextureMaxHigh Claimed "regmap-later" }
    }
};

/// Tile DMA, sources: release of cache lines after reading.
pub const EPHEMERAL: &[Row] = rows! {
    Register {
        0x00000 [1] { 0..=0 Src1Ephemeral Claimed "regmap-later" }
    }
};

/// Tile DMA, sources, with registers for data set ids.
pub const TILE_SRC_DSID: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 Src1En Bytes "later-oracles", 4..=7 Src1CacheHint Bytes "later-oracles",
            8..=15 Src1DataSetId Claimed "regmap-later", 16..=23 Src1UserTag Bytes "later-oracles",
            24..=27 Src1DepInterval Claimed "regmap-later", 28..=29 Src1DepMode Claimed "regmap-later",
            31..=31 Src1DoubleRate Claimed "m6-study",
        }
        0x00004 [1] {
            0..=0 Src2En Bytes "later-oracles", 4..=7 Src2CacheHint Bytes "later-oracles",
            8..=15 Src2DataSetId Claimed "regmap-later", 16..=23 Src2UserTag Bytes "later-oracles",
            24..=27 Src2DepInterval Claimed "regmap-later", 28..=29 Src2DepMode Claimed "regmap-later",
            31..=31 Src2DoubleRate Claimed "m6-study",
        }
        0x00008 [1] {
            0..=3 Src1CacheHintReuse Bytes "later-oracles", 4..=7 Src1CacheHintNoReuse Bytes "later-oracles",
            8..=10 Src1Wrap Claimed "regmap-later", 16..=31 Src1WrapStatic Claimed "regmap-later",
        }
        0x0000c [1] {
            0..=3 Src2CacheHintReuse Bytes "later-oracles", 4..=7 Src2CacheHintNoReuse Bytes "later-oracles",
            8..=10 Src2Wrap Claimed "regmap-later", 16..=31 Src2WrapStatic Claimed "regmap-later",
        }
        0x00010 [1] { 0..=31 Src1Dsid Bytes "later-oracles" }
        0x00014 [1] { 0..=31 Src2Dsid Bytes "later-oracles" }
        0x00018 [1] { 0..=31 Src1AddrLo Bytes "later-oracles" }
        0x0001c [1] { 0..=31 Src1AddrHi Bytes "later-oracles" }
        0x00020 [1] { 6..=31 Src1RowStride Bytes "later-oracles" }
        0x00024 [1] { 6..=31 Src1PlaneStride Bytes "later-oracles" }
        0x00028 [1] { 6..=31 Src1DepthStride Bytes "later-oracles" }
        0x0002c [1] { 6..=31 Src1GroupStride Bytes "later-oracles" }
        0x00030 [1] { 0..=31 Src2AddrLo Bytes "later-oracles" }
        0x00034 [1] { 0..=31 Src2AddrHi Bytes "later-oracles" }
        0x00038 [1] { 6..=31 Src2RowStride Bytes "later-oracles" }
        0x0003c [1] { 6..=31 Src2PlaneStride Bytes "later-oracles" }
        0x00040 [1] { 6..=31 Src2DepthStride Bytes "later-oracles" }
        0x00044 [1] { 6..=31 Src2GroupStride Bytes "later-oracles" }
        0x00070 [1] {
            0..=1 Src1FmtMode Bytes "later-oracles", 4..=7 Src1Interleave Bytes "later-oracles",
            8..=10 Src1MemFmt Claimed "later-oracles", 12..=14 Src1Truncate Claimed "later-oracles",
        }
        0x00074 [1] {
            0..=1 Src2FmtMode Bytes "later-oracles", 4..=7 Src2Interleave Bytes "later-oracles",
            8..=10 Src2MemFmt Claimed "later-oracles", 12..=14 Src2Truncate Claimed "later-oracles",
        }
    }
};

/// Tile DMA, destination, version 11.
pub const TILE_DST_11: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 DstEn Bytes "later-oracles", 4..=7 DstCacheHint Bytes "later-oracles",
            8..=15 DstDataSetId Claimed "regmap-later", 16..=23 DstUserTag Bytes "later-oracles",
            24..=24 L2BfrMode Bytes "later-oracles",
        }
        0x00008 [1] { 0..=31 DstAddrLo Bytes "later-oracles" }
        0x0000c [1] { 0..=31 DstAddrHi Bytes "later-oracles" }
        0x00010 [1] { 6..=31 DstRowStride Bytes "later-oracles" }
        0x00014 [1] { 6..=31 DstPlaneStride Bytes "later-oracles" }
        0x00018 [1] { 6..=31 DstDepthStride Bytes "later-oracles" }
        0x0001c [1] { 6..=31 DstGroupStride Bytes "later-oracles" }
        0x00020 [1] {
            0..=1 DstFmtMode Bytes "later-oracles", 4..=6 DstTruncate Bytes "later-oracles",
            8..=8 DstShift Claimed "regmap-later", 12..=13 DstMemFmt Bytes "later-oracles",
            16..=18 DstOffsetCh Claimed "regmap-later", 20..=20 ZeroPadLast Bytes "later-oracles",
            21..=21 ZeroPadFirst Bytes "later-oracles", 22..=22 CmpVecFill Claimed "by-analogy",
            24..=27 DstInterleave Bytes "later-oracles", 28..=31 DstCmpVec Claimed "regmap-later",
        }
        0x00024 [1] { 0..=15 Unk01524 Bytes "later-oracles" }
    }
};

/// Tile DMA, destination.
pub const TILE_DST: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 DstEn Bytes "h16-containers", 4..=7 DstCacheHint Bytes "h16-containers",
            8..=15 DstDataSetId Claimed "regmap-later", 16..=23 DstUserTag Bytes "h16-containers",
            24..=24 L2BfrMode Bytes "h16-containers",
        }
        0x00008 [1] { 0..=31 DstAddrLo Bytes "h16-containers" }
        0x0000c [1] { 0..=31 DstAddrHi Bytes "h16-containers" }
        0x00010 [1] { 6..=31 DstRowStride Bytes "h16-containers" }
        0x00014 [1] { 6..=31 DstPlaneStride Bytes "h16-containers" }
        0x00018 [1] { 6..=31 DstDepthStride Bytes "h16-containers" }
        0x0001c [1] { 6..=31 DstGroupStride Bytes "h16-containers" }
        0x00028 [2] { 0..=31 DstMetaAddr Claimed "regmap-later" }
        0x00030 [1] { 7..=31 DstMetaSize Claimed "regmap-later" }
        0x00038 [1] {
            0..=1 DstFmtMode Bytes "h16-containers", 4..=6 DstTruncate Bytes "h16-containers",
            8..=8 DstShift Claimed "regmap-later", 12..=13 DstMemFmt Bytes "h16-containers",
            16..=18 DstOffsetCh Claimed "regmap-later", 20..=20 ZeroPadLast Bytes "h16-containers",
            21..=21 ZeroPadFirst Bytes "h16-containers", 22..=22 CmpVecFill Claimed "by-analogy",
            24..=27 DstInterleave Bytes "h16-containers", 28..=31 DstCmpVec Claimed "regmap-later",
        }
        0x00040 [1] {
            0..=0 DstCompressed Claimed "regmap-later", 2..=2 DstMacroblock Claimed "regmap-later",
            4..=9 DstPacking Claimed "regmap-later", 13..=13 DstLossy Claimed "regmap-later",
        }
        0x00048 [2] { 0..=31 DstCompressedSize Claimed "regmap-later" }
        0x00050 [1] { 0..=15 DstCropY Claimed "regmap-later", 16..=31 DstCropX Claimed "regmap-later" }
    }
};

/// Tile DMA, destination, with a register for the data set id.
pub const TILE_DST_DSID: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 DstEn Bytes "later-oracles", 4..=7 DstCacheHint Bytes "later-oracles",
            8..=15 DstDataSetId Claimed "regmap-later", 16..=23 DstUserTag Bytes "later-oracles",
            24..=24 L2BfrMode Bytes "later-oracles",
        }
        0x00008 [1] { 0..=31 DstDsid Bytes "later-oracles" }
        0x00010 [1] { 0..=31 DstAddrLo Bytes "later-oracles" }
        0x00014 [1] { 0..=31 DstAddrHi Bytes "later-oracles" }
        0x00018 [1] { 6..=31 DstRowStride Bytes "later-oracles" }
        0x0001c [1] { 6..=31 DstPlaneStride Bytes "later-oracles" }
        0x00020 [1] { 6..=31 DstDepthStride Bytes "later-oracles" }
        0x00024 [1] { 6..=31 DstGroupStride Bytes "later-oracles" }
        0x00040 [1] {
            0..=1 DstFmtMode Bytes "later-oracles", 4..=7 DstInterleave Bytes "later-oracles",
            8..=10 DstMemFmt Claimed "later-oracles", 12..=14 DstTruncate Claimed "later-oracles",
            28..=31 UnkDstFmtBit28 Bytes "later-oracles",
        }
    }
};

/// Kernel DMA, version 11.
pub const KERNEL_11: &[Row] = rows! {
    Register {
        0x00000 [1] {
            4..=4 KernelDmaReuse Claimed "regmap-later", 5..=5 KernelDmaSparse Claimed "regmap-later",
            6..=6 KernelDmaMaster Bytes "later-oracles", 7..=7 KernelDmaLast Bytes "later-oracles",
            9..=9 UnkKernelDmaBit9 Bytes "later-oracles", 16..=23 KernelDmaUserTag Bytes "later-oracles",
        }
        0x00008 [1] { 0..=31 KernelAddrLo Bytes "later-oracles" }
        0x0000c [1] { 0..=31 KernelAddrHi Bytes "later-oracles" }
        0x00018 [16] {
            0..=0 CoeffEn Bytes "later-oracles", 4..=7 CoeffCacheHint Bytes "later-oracles",
            8..=15 CoeffDataSetId Claimed "regmap-later", 16..=23 CoeffUserTag Bytes "later-oracles",
        }
        0x00058 [16] { 6..=31 CoeffBase Bytes "later-oracles" }
        0x00098 [16] { 6..=31 CoeffSize Bytes "later-oracles" }
        0x000d8 [4] {
            0..=0 ExtraEn Bytes "later-oracles", 4..=7 ExtraCacheHint Bytes "later-oracles",
            16..=23 ExtraUserTag Bytes "later-oracles",
        }
        0x000e8 [4] { 6..=31 ExtraBase Claimed "by-analogy" }
        0x00100 [1] { 0..=31 LutAddrLo Bytes "later-oracles" }
        0x00104 [1] { 0..=31 LutAddrHi Bytes "later-oracles" }
        0x00108 [4] { 6..=31 ExtraSize Bytes "later-oracles" }
    }
};

/// Kernel DMA: control, address, strides.
pub const KERNEL_HEAD: &[Row] = rows! {
    Register {
        0x00000 [1] {
            4..=4 KernelDmaReuse Claimed "regmap-later", 5..=5 KernelDmaSparse Claimed "regmap-later",
            6..=6 KernelDmaMaster Bytes "h16-containers", 7..=7 KernelDmaLast Bytes "h16-containers",
            9..=9 UnkKernelDmaBit9 Bytes "h16-containers", 16..=23 KernelDmaUserTag Bytes "h16-containers",
        }
        0x00004 [1] { 0..=27 AlignedCoeffBytes Claimed "regmap-later" }
        0x00008 [1] {
            0..=0 PrefetchEarlyEnd Claimed "regmap-later", 1..=1 PrefetchStopOnError Claimed "regmap-later",
            16..=31 PrefetchRate Claimed "regmap-later",
        }
        0x00010 [1] { 0..=31 KernelAddrLo Bytes "h16-containers" }
        0x00014 [1] { 0..=31 KernelAddrHi Bytes "h16-containers" }
        0x00018 [1] { 6..=31 KernelGroupStride Bytes "h16-containers" }
        0x0001c [1] { 6..=31 KernelOcgStride Bytes "h16-containers" }
    }
};

/// Kernel DMA: the sixteen coefficient streams.
pub const KERNEL_COEFF: &[Row] = rows! {
    Register {
        0x00000 [16] {
            0..=0 CoeffEn Bytes "h16-containers", 4..=7 CoeffCacheHint Bytes "h16-containers",
            8..=15 CoeffDataSetId Claimed "regmap-later", 16..=23 CoeffUserTag Bytes "h16-containers",
        }
        0x00040 [16] { 6..=31 CoeffBase Bytes "h16-containers" }
        0x00080 [16] { 6..=31 CoeffSize Bytes "h16-containers" }
    }
};

/// Kernel DMA: bias, post-scale, palette and activation table.
pub const KERNEL_EXTRA: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 BiasStreamEn Claimed "td-image", 4..=7 BiasStreamHint Claimed "td-image",
            8..=15 BiasStreamDataSetId Claimed "regmap-later", 16..=23 BiasStreamUserTag Claimed "td-image",
        }
        0x00004 [1] { 6..=31 BiasStreamSize Claimed "td-image" }
        0x00008 [1] { 0..=31 BiasAddrLo Claimed "td-image" }
        0x0000c [1] { 0..=31 BiasAddrHi Claimed "td-image" }
        0x00010 [1] {
            0..=0 ScaleStreamEn Claimed "td-image", 4..=7 ScaleStreamHint Claimed "td-image",
            8..=15 ScaleStreamDataSetId Claimed "regmap-later", 16..=23 ScaleStreamUserTag Claimed "td-image",
        }
        0x00014 [1] { 6..=31 ScaleStreamSize Claimed "td-image" }
        0x00018 [1] { 0..=31 ScaleAddrLo Claimed "td-image" }
        0x0001c [1] { 0..=31 ScaleAddrHi Claimed "td-image" }
        0x00020 [1] {
            0..=0 PaletteStreamEn Claimed "td-image", 4..=7 PaletteStreamHint Claimed "td-image",
            8..=15 PaletteStreamDataSetId Claimed "regmap-later", 16..=23 PaletteStreamUserTag Claimed "td-image",
        }
        0x00024 [1] { 6..=31 PaletteStreamSize Claimed "td-image" }
        0x00028 [1] { 0..=31 PaletteAddrLo Claimed "td-image" }
        0x0002c [1] { 0..=31 PaletteAddrHi Claimed "td-image" }
        0x00030 [1] {
            0..=0 LutStreamEn Bytes "h16-containers", 4..=7 LutStreamHint Bytes "h16-containers",
            8..=15 LutStreamDataSetId Claimed "regmap-later", 16..=23 LutStreamUserTag Bytes "h16-containers",
        }
        0x00034 [1] { 6..=31 LutStreamSize Bytes "h16-containers" }
        0x00038 [1] { 0..=31 LutAddrLo Bytes "h16-containers" }
        0x0003c [1] { 0..=31 LutAddrHi Bytes "h16-containers" }
    }
};

/// Cache DMA.
pub const CACHE_DMA: &[Row] = rows! {
    Register {
        0x00000 [1] {
            0..=0 CacheFlush Claimed "regmap-later", 1..=1 CacheEn Claimed "regmap-later",
            2..=3 CacheTaskSync Claimed "regmap-later", 4..=8 CacheEarlyTerm Claimed "regmap-later",
            9..=9 CacheFootprintEn Claimed "regmap-later", 16..=31 CacheFootprintLimit Claimed "regmap-later",
        }
        0x00004 [1] {
            0..=9 CacheBandwidth Claimed "regmap-later", 16..=19 CacheSieve2 Claimed "regmap-later",
            20..=23 CacheAgeOut Claimed "regmap-later",
        }
        0x00008 [1] { 0..=13 CacheSieve1 Claimed "regmap-later", 16..=23 CacheUserTag Bytes "h16-containers" }
        0x00018 [1] { 7..=29 CacheDsidSize Claimed "regmap-later" }
        0x0001c [1] { 17..=27 CacheFootprintArg Claimed "regmap-later" }
        0x00020 [1] { 0..=15 CacheEarlyArg1 Claimed "regmap-later", 16..=31 CacheEarlyArg2 Claimed "regmap-later" }
        0x00024 [1] { 0..=15 CacheFlushArg Claimed "regmap-later" }
        0x00028 [1] { 0..=7 CacheEarlyArg3 Claimed "regmap-later", 16..=23 CacheEarlyArg4 Claimed "regmap-later" }
        0x0002c [1] {
            0..=0 CacheBackoffEn Claimed "regmap-later", 4..=7 CacheBackoffDelay Claimed "regmap-later",
            8..=15 CacheBackoffMin Claimed "regmap-later", 16..=23 CacheBackoffMax Claimed "regmap-later",
            24..=31 CacheBackoffScale Claimed "regmap-later",
        }
    }
};
