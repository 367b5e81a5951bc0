//! Support table: for each field, whether the engine obeys it, ignores it because results do not depend on it, or accepts certain values
//! only.
//!
//! A field that is set beyond this table is a fault, so that no program is executed on a partly understood word.

use anemone_facts::{Codec, Field, Layout};

/// Treatment of a field by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The engine obeys it.
    Obeyed,
    /// It controls scheduling, caching, power or staging; results do not depend on it.
    NoEffect,
    /// Only these raw values are executed; anything else is refused with the reason.
    Only(&'static [u32], &'static str),
}

/// Fields of generations that the engine does not execute.
pub const OTHER_GENERATIONS: Treatment = Treatment::Only(&[0], "no generation with this field is executed");

/// Shifts in a five-bit field that read the same as signed and as unsigned numbers.
pub(crate) const POSITIVE_SHIFTS: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns true if programs with this descriptor layout are executed.
pub fn executes(layout: &Layout) -> bool {
    layout.codec == Codec::Runs
}

/// Treatment of `field`.
pub fn treatment(field: Field) -> Treatment {
    use Field::*;
    use Treatment::*;
    match field {
        // Chain.
        NextSize | NextPointer | TdSkip => Obeyed,
        // Task management, events, priorities, estimates.
        Tid | Nid | Lnid | Eon | ExeCycles | LogEvents | Exceptions | DebugLogEvents | DebugExceptions
        | DisallowAbort | Kpc | Spl | Tsr | Spc | Dpc | Tse | NextPriority | Tde | SrcLoc | DstLoc | TqDis | TBase
        | Tbe | Ene | Dtid | TaskId | TaskQ | TaskNid | DpeCategory | ContextSwitchIn | ContextSwitchOut
        | Unk34Bit23 => NoEffect,
        // Base registers.
        RBase0 | Rbe0 | RBase1 | Rbe1 | WBase | Wbe | KBase0 | Kbe0 => Obeyed,
        KBase1 | Kbe1 | KBase2 | Kbe2 | KBase3 | Kbe3 => {
            Only(&[0], "register maps name four kernel bases; no source states which streams use bases 1 to 3")
        }

        Win | Hin | Cin | Cout | Wout | Hout | NumGroups | UnicastEn | UnicastCin | TaskClass | ActiveNe | OcgSize
        | Kw | Kh | Sx | Sy | Px | Py | NeTranspose | ResultTranspose | Src1BroadcastW | Src1BroadcastH
        | Src1BroadcastC | Src2BroadcastW | Src2BroadcastH | Src2BroadcastC => Obeyed,
        Din | Dout | Src1BroadcastD | Src2BroadcastD => Obeyed,
        Kd | Sz | Pz => Obeyed,
        Ox | Oy | Oz => {
            Only(&[0, 1], "register maps name an output step; no source states its effect on outputs and coefficients")
        }
        InFmt | Src2Fmt | OutFmt | Src1MemFmt | Src2MemFmt | DstMemFmt => {
            Only(&[0, 1, 2], "elements are uint8, int8 or fp16")
        }
        // The neural engine has it where it multiplies channels, and other units refuse it.
        ElemMultMode => Obeyed,
        Src1Transpose | Src2Transpose => Obeyed,
        // Tiling affects only the order of work.
        TileHeight | PatchWidth | PatchHeight | SmallSourceMode | ShPref | ShMin | ShMax | AccDoubleBufEn => NoEffect,
        // Determined by the residency fields, which are obeyed.
        SourceMask => NoEffect,

        Src1En | Src1Base | Src1RowStride | Src1PlaneStride | Src1GroupStride | Src2Base | Src2RowStride
        | Src2PlaneStride | Src2GroupStride => Obeyed,
        Src1DepthStride | Src2DepthStride | DstDepthStride | SrcL2DepthStride | Src2L2DepthStride
        | ResL2DepthStride => Obeyed,
        Src2En | Src1CrH | Src1CacheHint | Src1CacheHintReuse | Src1CacheHintNoReuse | DependencyMode | Src2CrH
        | Src2CacheHint | Src2CacheHintReuse | Src2CacheHintNoReuse | Src2DependencyMode | Unk13840Bit8 => NoEffect,
        Src1Interleave | Src2Interleave | DstInterleave => Obeyed,
        Src1FmtMode | Src2FmtMode | DstFmtMode => Only(&[0, 1], "only format mode 1 is executed"),
        Src1Truncate | Src2Truncate | DstTruncate => Only(&[0, 3], "only truncation 3 is executed"),
        Src1Shift | Src2Shift | DstShift | Src1OffsetCh | Src2OffsetCh | DstOffsetCh | Src1CmpVec | Src2CmpVec
        | DstCmpVec | CmpVecFill | PixelOffset => Only(&[0], "pixel formats are not executed"),

        InputRelu | Src2InputRelu | PaddingMode => Obeyed,
        SrcType | Src2Type | ResType | SrcL2Base | SrcL2ChannelStride | SrcL2RowStride | SrcL2GroupStride
        | Src2L2Base | Src2L2ChannelStride | Src2L2RowStride | Src2L2GroupStride | ResL2Base | ResL2ChannelStride
        | ResL2RowStride | ResL2GroupStride => Obeyed,
        // Buffer dependencies and staging: tasks execute in program order.
        Dependent | Src2Dependent | SrcAliasConvSrc | SrcAliasConvRslt | SrcAliasPlanarSrc | SrcAliasPlanarRslt
        | SrcDmaFmt | SrcDmaInterleave | ResBfrMode | ResAliasConvSrc | ResAliasConvRslt | ResAliasPlanarSrc
        | ResAliasPlanarRslt | ResDmaFmt | ResDmaInterleave => NoEffect,
        SrcDmaCmpVec | SrcDmaOffsetCh | ResDmaCmpVec | ResDmaOffsetCh => Only(&[0], "pixel formats are not executed"),

        PePool | PeOp | PeReluEn | PeCond | PeNonlinear | PeSecond | PeBias | PeScale | PePreScale | PeFinalScale => {
            Obeyed
        }
        PeFirst | PeEpsilon => Obeyed,

        KernelFmt | NeOpMode | KernelMode | BiasMode | NonlinearMode | AccBias | PostScale | PostScaleMode => Obeyed,
        // 28 with fp16 coefficients, 0 with bytes: determined by the format in every sample.
        BinaryPoint | Unkc804Bit20 | OverlapFirst | OverlapSecond => NoEffect,
        PalettizedEn | PalettizedBits | SparseFmt => Obeyed,
        GroupKernelReuse => Obeyed,
        // The kernel base already addresses the runtime tensor.
        RuntimeWeights => NoEffect,
        MatrixBiasEn | MatrixVectorBias => {
            Only(&[0], "a register map places the bias of a product here; no source states what it is added to")
        }
        AccBiasShift | PostRightShift => Only(&POSITIVE_SHIFTS, "no source states whether the highest bit is a sign"),

        DstEn | DstBase | DstRowStride | DstPlaneStride | DstGroupStride => Obeyed,
        DstCrH | DstCacheHint | HazardEn | HazardKernel | HazardDistance | L2BfrMode | BypassEow | ZeroPadLast
        | ZeroPadFirst => NoEffect,

        KernelDmaMaster | KernelDmaSparse | CoeffEn | CoeffBase | CoeffSize | ExtraEn | ExtraBase | ExtraSize => Obeyed,
        CoeffCrH | CoeffCacheHint | CoeffPrefetch | ExtraCrH | ExtraCacheHint | ExtraPrefetch => NoEffect,
        // Tasks in this project's own encoding.
        OwnKind | OwnSources | OwnBar | OwnBase | OwnGroups | OwnChannels | OwnRows | OwnColumns | OwnGroupStride
        | OwnChannelStride | OwnRowStride | OwnParam => Obeyed,
        OwnFamily => NoEffect,
        // Fields of generations that are listed but not executed. A test ensures that the executed generation's fields are among
        // the lines above.
        _ => OTHER_GENERATIONS,
    }
}
