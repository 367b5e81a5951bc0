//! H13 (A13, M1): task descriptor version 7.
//!
//! Source keys are explained in `docs/evidence.md`. Every H13 program known, compilers 4.2.1 to 9.509, uses this map.

use crate::table::layout;

layout! {
    /// The M1 task descriptor.
    H13 {
        generation: "h13", td_version: 7, header_words: 10, align_bytes: 0x100,
        blocks: [
            0x1f800 [62] "kernel-dma",
            0x00000 [16] "common",
            0x13800 [28] "tile-dma-src",
            0x04800 [18] "l2",
            0x08800 [4] "pe",
            0x0c800 [5] "ne",
            0x17800 [7] "tile-dma-dst",
        ],
        Header {
            0x00 [1] { 0..=15 Tid Bytes "h13-samples", 16..=23 Nid Bytes "h13-samples", 24..=24 Lnid Bytes "h13-samples", 25..=25 Eon Bytes "h13-samples" }
            0x04 [1] { 0..=15 ExeCycles Bytes "h13-cycles", 16..=24 NextSize Executed "h13-samples" }
            0x08 [1] { 0..=23 LogEvents Bytes "h13-samples" }
            0x0c [1] { 0..=23 Exceptions Bytes "h13-samples" }
            0x10 [1] { 0..=23 DebugLogEvents Bytes "h13-samples" }
            0x14 [1] { 0..=23 DebugExceptions Bytes "h13-samples" }
            0x18 [1] {
                8..=8 DisallowAbort Claimed "regmap", 9..=9 TdSkip Claimed "regmap", 10..=10 Kpc Claimed "regmap",
                11..=11 Spl Bytes "h13-samples", 12..=12 Tsr Bytes "h13-samples", 13..=13 Spc Bytes "h13-samples",
                14..=14 Dpc Bytes "h13-samples", 15..=15 Tse Bytes "h13-samples", 16..=21 NextPriority Claimed "regmap",
                24..=24 Tde Claimed "regmap", 28..=28 SrcLoc Bytes "h13-samples", 29..=29 DstLoc Bytes "h13-samples",
                31..=31 TqDis Claimed "regmap",
            }
            0x1c [1] { 0..=31 NextPointer Executed "h13-samples" }
            0x20 [1] {
                0..=4 RBase0 Executed "h13-samples", 5..=5 Rbe0 Executed "h13-samples",
                6..=10 RBase1 Executed "h13-samples", 11..=11 Rbe1 Executed "h13-samples",
                12..=16 WBase Executed "h13-samples", 17..=17 Wbe Executed "h13-samples",
                18..=22 TBase Bytes "h13-samples", 23..=23 Tbe Bytes "h13-samples", 24..=27 Ene Bytes "h13-samples",
            }
            0x24 [1] {
                0..=4 KBase0 Executed "h13-samples", 5..=5 Kbe0 Executed "h13-samples",
                6..=10 KBase1 Claimed "regmap", 11..=11 Kbe1 Claimed "regmap",
                12..=16 KBase2 Claimed "regmap", 17..=17 Kbe2 Claimed "regmap",
                18..=22 KBase3 Claimed "regmap", 23..=23 Kbe3 Claimed "regmap",
            }
            0x28 [1] { 0..=15 Dtid Claimed "regmap" }
        }
        Register {
            0x00000 [1] { 0..=14 Win Executed "h13-samples", 16..=30 Hin Executed "h13-samples" }
            0x00004 [1] { 0..=14 Din Bytes "h13-samples" }
            0x00008 [1] { 0..=1 InFmt Executed "h13-samples", 2..=3 Src2Fmt Executed "h13-samples", 4..=5 OutFmt Executed "h13-samples" }
            0x0000c [1] { 0..=16 Cin Executed "h13-samples" }
            0x00010 [1] { 0..=16 Cout Executed "h13-samples" }
            0x00014 [1] { 0..=14 Wout Executed "h13-samples", 16..=30 Hout Executed "h13-samples" }
            0x00018 [1] { 0..=14 Dout Bytes "h13-samples" }
            0x0001c [1] {
                0..=4 Kw Executed "h13-oracles", 5..=9 Kh Executed "h13-oracles", 10..=12 OcgSize Executed "h13-oracles",
                13..=14 Sx Bytes "h13-oracles", 15..=16 Sy Bytes "h13-oracles",
                17..=21 Px Executed "h13-oracles", 22..=26 Py Executed "h13-oracles",
                28..=29 Ox Claimed "regmap", 30..=31 Oy Claimed "regmap",
            }
            0x00020 [1] { 0..=4 Kd Claimed "by-analogy", 6..=7 Sz Claimed "by-analogy", 8..=11 Pz Claimed "by-analogy", 13..=14 Oz Claimed "by-analogy" }
            0x00024 [1] { 0..=12 NumGroups Executed "h13-samples", 14..=14 UnicastEn Executed "h13-oracles", 15..=15 ElemMultMode Bytes "h13-oracles", 16..=31 UnicastCin Executed "h13-oracles" }
            0x00028 [1] { 0..=14 TileHeight Bytes "h13-samples" }
            0x0002c [1] { 0..=3 PatchWidth Bytes "h13-samples", 4..=7 PatchHeight Bytes "h13-samples" }
            0x00030 [1] {
                0..=0 Src1BroadcastW Executed "h13-samples", 1..=1 Src1BroadcastH Executed "h13-oracles",
                2..=2 Src1BroadcastD Claimed "by-analogy", 3..=3 Src1BroadcastC Executed "h13-oracles",
                4..=4 Src2BroadcastW Executed "h13-samples", 5..=5 Src2BroadcastH Executed "h13-oracles",
                6..=6 Src2BroadcastD Claimed "by-analogy", 7..=7 Src2BroadcastC Executed "h13-oracles",
                8..=8 Src1Transpose Executed "h13-fusion", 9..=9 Src2Transpose Executed "h13-oracles", 10..=10 ResultTranspose Executed "h13-oracles",
            }
            0x00034 [1] {
                0..=1 SourceMask Executed "h13-samples", 2..=2 SmallSourceMode Bytes "h13-samples", 4..=7 TaskClass Executed "h13-samples",
                8..=10 ShPref Bytes "h13-samples", 12..=14 ShMin Bytes "h13-samples", 16..=18 ShMax Bytes "h13-samples",
                19..=21 ActiveNe Executed "h13-samples", 22..=22 ContextSwitchIn Claimed "regmap",
                23..=23 Unk34Bit23 Bytes "h13-staging", 24..=24 ContextSwitchOut Claimed "regmap",
                26..=26 AccDoubleBufEn Bytes "h13-samples", 28..=28 NeTranspose Executed "h13-oracles",
            }
            0x00038 [1] { 0..=15 TaskId Claimed "regmap", 16..=19 TaskQ Claimed "regmap", 20..=27 TaskNid Bytes "h13-samples" }
            0x0003c [1] { 0..=3 DpeCategory Bytes "h13-samples" }

            0x04800 [1] { 0..=0 InputRelu Claimed "regmap", 2..=3 PaddingMode Bytes "h13-samples", 4..=4 Src2InputRelu Executed "h13-oracles" }
            0x04804 [1] {
                0..=1 SrcType Executed "h13-samples", 2..=3 Dependent Bytes "h13-samples",
                4..=4 SrcAliasConvSrc Bytes "h13-samples", 5..=5 SrcAliasConvRslt Bytes "h13-samples",
                6..=7 SrcDmaFmt Bytes "h13-samples", 8..=11 SrcDmaInterleave Bytes "h13-samples",
                12..=15 SrcDmaCmpVec Claimed "regmap", 16..=18 SrcDmaOffsetCh Claimed "regmap",
                20..=20 SrcAliasPlanarSrc Bytes "h13-samples", 22..=22 SrcAliasPlanarRslt Bytes "h13-samples",
                24..=24 Src2Type Executed "h13-samples", 25..=26 Src2Dependent Bytes "h13-staging",
            }
            0x04808 [1] { 4..=20 SrcL2Base Executed "h13-samples" }
            0x0480c [1] { 4..=20 SrcL2ChannelStride Executed "h13-samples" }
            0x04810 [1] { 4..=20 SrcL2RowStride Executed "h13-samples" }
            0x04814 [1] { 4..=20 SrcL2DepthStride Executed "h13-samples" }
            0x04818 [1] { 4..=20 SrcL2GroupStride Executed "h13-samples" }
            0x0481c [1] { 4..=20 Src2L2Base Executed "h13-samples" }
            0x04820 [1] { 4..=20 Src2L2ChannelStride Executed "h13-samples" }
            0x04824 [1] { 4..=20 Src2L2RowStride Executed "h13-samples" }
            0x04828 [1] { 4..=20 Src2L2DepthStride Executed "h13-samples" }
            0x0482c [1] { 4..=20 Src2L2GroupStride Executed "h13-samples" }
            0x04830 [1] {
                0..=1 ResType Executed "h13-samples", 2..=3 ResBfrMode Bytes "h13-samples",
                4..=4 ResAliasConvSrc Bytes "h13-samples", 5..=5 ResAliasConvRslt Bytes "h13-samples",
                6..=7 ResDmaFmt Bytes "h13-samples", 8..=11 ResDmaInterleave Bytes "h13-samples",
                12..=15 ResDmaCmpVec Claimed "regmap", 16..=18 ResDmaOffsetCh Claimed "regmap",
                20..=20 ResAliasPlanarSrc Bytes "h13-samples", 22..=22 ResAliasPlanarRslt Bytes "h13-samples",
            }
            0x04834 [1] { 4..=20 ResL2Base Executed "h13-samples" }
            0x04838 [1] { 4..=20 ResL2ChannelStride Executed "h13-samples" }
            0x0483c [1] { 4..=20 ResL2RowStride Executed "h13-samples" }
            0x04840 [1] { 4..=20 ResL2DepthStride Executed "h13-samples" }
            0x04844 [1] { 4..=20 ResL2GroupStride Executed "h13-samples" }

            0x08800 [1] {
                0..=1 PePool Executed "h13-samples", 2..=4 PeOp Executed "h13-samples", 5..=5 PeReluEn Executed "h13-oracles",
                6..=7 PeCond Executed "h13-samples", 12..=13 PeNonlinear Executed "h13-samples",
                16..=17 PeFirst Executed "h13-oracles", 18..=19 PeSecond Executed "h13-samples",
            }
            0x08804 [1] { 0..=15 PeBias Executed "h13-samples", 16..=31 PeScale Executed "h13-samples" }
            0x08808 [1] { 0..=15 PeEpsilon Executed "h13-oracles", 16..=31 PePreScale Executed "h13-samples" }
            0x0880c [1] { 0..=31 PeFinalScale Executed "h13-oracles" }

            0x0c800 [1] {
                0..=1 KernelFmt Bytes "h13-bytes", 2..=2 PalettizedEn Claimed "book-streams", 4..=7 PalettizedBits Bytes "h13-samples",
                8..=8 SparseFmt Executed "h13-zero-skip", 10..=10 GroupKernelReuse Claimed "regmap",
                12..=12 OverlapFirst Bytes "h13-samples", 14..=14 OverlapSecond Bytes "h13-samples", 16..=16 RuntimeWeights Bytes "h13-oracles",
            }
            0x0c804 [1] {
                0..=2 NeOpMode Executed "h13-samples", 3..=3 KernelMode Executed "h13-samples", 4..=4 BiasMode Executed "h13-samples",
                6..=6 MatrixBiasEn Claimed "regmap", 8..=12 BinaryPoint Bytes "h13-samples", 14..=14 PostScaleMode Claimed "regmap",
                16..=17 NonlinearMode Executed "h13-samples", 20..=20 Unkc804Bit20 Bytes "h13-samples",
            }
            0x0c808 [1] { 0..=15 MatrixVectorBias Claimed "regmap" }
            0x0c80c [1] { 0..=15 AccBias Executed "h13-samples", 16..=20 AccBiasShift Claimed "regmap" }
            0x0c810 [1] { 0..=15 PostScale Executed "h13-samples", 16..=20 PostRightShift Claimed "regmap" }

            0x13800 [1] {
                0..=0 Src1En Executed "h13-samples", 4..=5 Src1CrH Bytes "h13-samples", 6..=9 Src1CacheHint Bytes "h13-samples",
                10..=13 Src1CacheHintReuse Bytes "h13-samples", 14..=17 Src1CacheHintNoReuse Bytes "h13-samples", 18..=19 DependencyMode Bytes "h13-samples",
            }
            0x13804 [1] {
                0..=0 Src2En Bytes "h13-samples", 4..=5 Src2CrH Bytes "h13-samples", 6..=9 Src2CacheHint Bytes "h13-samples",
                10..=13 Src2CacheHintReuse Bytes "h13-samples", 14..=17 Src2CacheHintNoReuse Bytes "h13-samples", 18..=19 Src2DependencyMode Claimed "by-analogy",
            }
            0x13808 [1] { 6..=31 Src1Base Executed "h13-samples" }
            0x1380c [1] { 6..=31 Src1RowStride Executed "h13-samples" }
            0x13810 [1] { 6..=31 Src1PlaneStride Executed "h13-samples" }
            0x13814 [1] { 6..=31 Src1DepthStride Executed "h13-samples" }
            0x13818 [1] { 6..=31 Src1GroupStride Executed "h13-samples" }
            0x1381c [1] { 6..=31 Src2Base Executed "h13-samples" }
            0x13820 [1] { 6..=31 Src2RowStride Executed "h13-samples" }
            0x13824 [1] { 6..=31 Src2PlaneStride Executed "h13-samples" }
            0x13828 [1] { 6..=31 Src2DepthStride Executed "h13-samples" }
            0x1382c [1] { 6..=31 Src2GroupStride Executed "h13-samples" }
            0x13838 [1] {
                0..=1 Src1FmtMode Bytes "h13-samples", 4..=5 Src1Truncate Bytes "h13-samples", 8..=8 Src1Shift Claimed "regmap",
                12..=13 Src1MemFmt Executed "h13-samples", 16..=18 Src1OffsetCh Claimed "regmap",
                24..=27 Src1Interleave Executed "h13-oracles", 28..=31 Src1CmpVec Claimed "regmap",
            }
            0x1383c [1] {
                0..=1 Src2FmtMode Bytes "h13-samples", 4..=5 Src2Truncate Bytes "h13-samples", 8..=8 Src2Shift Claimed "by-analogy",
                12..=13 Src2MemFmt Executed "h13-samples", 16..=18 Src2OffsetCh Claimed "by-analogy",
                24..=27 Src2Interleave Claimed "by-analogy", 28..=31 Src2CmpVec Claimed "by-analogy",
            }
            0x13840 [1] { 8..=8 Unk13840Bit8 Bytes "h13-samples" }
            0x13850 [4] { 0..=15 PixelOffset Claimed "regmap" }

            0x17800 [1] {
                0..=0 DstEn Executed "h13-samples", 4..=5 DstCrH Bytes "h13-samples", 6..=9 DstCacheHint Bytes "h13-samples",
                18..=18 HazardEn Bytes "h13-samples", 19..=19 HazardKernel Bytes "h13-fusion", 22..=24 HazardDistance Bytes "h13-samples",
                26..=26 L2BfrMode Bytes "h13-samples", 27..=27 BypassEow Claimed "regmap",
            }
            0x17804 [1] { 6..=31 DstBase Executed "h13-samples" }
            0x17808 [1] { 6..=31 DstRowStride Executed "h13-samples" }
            0x1780c [1] { 6..=31 DstPlaneStride Executed "h13-samples" }
            0x17810 [1] { 6..=31 DstDepthStride Executed "h13-samples" }
            0x17814 [1] { 6..=31 DstGroupStride Executed "h13-samples" }
            0x17818 [1] {
                0..=1 DstFmtMode Bytes "h13-samples", 4..=5 DstTruncate Bytes "h13-samples", 8..=8 DstShift Claimed "regmap",
                12..=13 DstMemFmt Executed "h13-samples", 16..=18 DstOffsetCh Claimed "regmap",
                20..=20 ZeroPadLast Bytes "h13-samples", 21..=21 ZeroPadFirst Bytes "h13-samples", 22..=22 CmpVecFill Claimed "regmap",
                24..=27 DstInterleave Executed "h13-oracles", 28..=31 DstCmpVec Claimed "regmap",
            }

            0x1f800 [1] { 5..=5 KernelDmaSparse Executed "h13-zero-skip", 6..=6 KernelDmaMaster Bytes "h13-samples" }
            0x1f808 [16] { 0..=0 CoeffEn Executed "h13-samples", 4..=5 CoeffCrH Bytes "h13-samples", 6..=9 CoeffCacheHint Bytes "h13-samples", 27..=28 CoeffPrefetch Claimed "regmap" }
            0x1f848 [16] { 6..=31 CoeffBase Executed "h13-samples" }
            0x1f888 [16] { 6..=31 CoeffSize Executed "h13-samples" }
            0x1f8c8 [4] { 0..=0 ExtraEn Claimed "book-streams", 4..=5 ExtraCrH Claimed "by-analogy", 6..=9 ExtraCacheHint Bytes "h13-samples", 27..=28 ExtraPrefetch Claimed "by-analogy" }
            0x1f8d8 [4] { 6..=31 ExtraBase Claimed "book-streams" }
            0x1f8e8 [4] { 6..=31 ExtraSize Claimed "book-streams" }

            0x3f00000 [1] { 0..=7 OwnKind Own "own-tasks", 8..=11 OwnSources Own "own-tasks", 16..=23 OwnFamily Own "own-tasks" }
            0x3f00004 [6] { 0..=4 OwnBar Own "own-tasks" }
            0x3f0001c [6] { 0..=31 OwnBase Own "own-tasks" }
            0x3f00034 [6] { 0..=31 OwnGroups Own "own-tasks" }
            0x3f0004c [6] { 0..=31 OwnChannels Own "own-tasks" }
            0x3f00064 [6] { 0..=31 OwnRows Own "own-tasks" }
            0x3f0007c [6] { 0..=31 OwnColumns Own "own-tasks" }
            0x3f00094 [6] { 0..=31 OwnGroupStride Own "own-tasks" }
            0x3f000ac [6] { 0..=31 OwnChannelStride Own "own-tasks" }
            0x3f000c4 [6] { 0..=31 OwnRowStride Own "own-tasks" }
            0x3f00100 [48] { 0..=31 OwnParam Own "own-tasks" }
        }
    }
}
