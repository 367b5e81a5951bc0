//! Treatment of each field by the engine: obeyed, without effect on results, or accepted with certain values only.
//!
//! A field that is set outside this table is a fault, so a program is never executed on a half-understood word.

use anemone_facts::{Codec, Field, Layout};

/// How the engine treats a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// The engine obeys it.
    Obeyed,
    /// It steers scheduling, caching, power or staging; results do not depend on it.
    NoEffect,
    /// Only these raw values are executed; anything else is refused with the reason.
    Only(&'static [u32], &'static str),
}

/// Fields of generations that the engine does not execute.
const OTHER_GENERATIONS: Treatment = Treatment::Only(&[0], "no generation with this field is executed");

/// Shifts in a field of five bits that are the same with and without a sign.
pub(crate) const POSITIVE_SHIFTS: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Returns true if programs with this form of descriptors are executed.
pub fn executes(layout: &Layout) -> bool {
    layout.codec == Codec::Runs
}

/// How the engine treats `field`.
pub fn treatment(field: Field) -> Treatment {
    use Field::*;
    use Treatment::*;
    match field {
        // Chain.
        NextSize | NextPointer | TdSkip => Obeyed,
        // Task management, events, priorities, estimates.
        Tid | Nid | Lnid | Eon | ExeCycles | LogEvents | Exceptions | DebugLogEvents | DebugExceptions
        | DisallowAbort | Kpc | Spl | Tsr | Spc | Dpc | Tse | NextPriority | Tde | SrcLoc | DstLoc | TqDis | TBase
        | Tbe | Ene | Dtid | TaskId | TaskQ | TaskNid | DpeCategory | ContextSwitchIn | ContextSwitchOut => NoEffect,
        // Base registers.
        RBase0 | Rbe0 | RBase1 | Rbe1 | WBase | Wbe | KBase0 | Kbe0 => Obeyed,
        KBase1 | Kbe1 | KBase2 | Kbe2 | KBase3 | Kbe3 => {
            Only(&[0], "the maps name four kernel bases; none says which streams are read behind the others")
        }

        Win | Hin | Cin | Cout | Wout | Hout | NumGroups | UnicastEn | UnicastCin | TaskClass | ActiveNe | OcgSize
        | Kw | Kh | Sx | Sy | Px | Py | NeTranspose | ResultTranspose | Src1BroadcastW | Src1BroadcastH
        | Src1BroadcastC | Src2BroadcastW | Src2BroadcastH | Src2BroadcastC => Obeyed,
        Din | Dout | Src1BroadcastD | Src2BroadcastD => Obeyed,
        Kd | Sz | Pz => Obeyed,
        Ox | Oy | Oz => {
            Only(&[0, 1], "the maps name an output step; none says what it does to outputs and coefficients")
        }
        InFmt | Src2Fmt | OutFmt | Src1MemFmt | Src2MemFmt | DstMemFmt => {
            Only(&[0, 1, 2], "elements are uint8, int8 or fp16")
        }
        ElemMultMode => {
            Only(&[0], "the maps have its name alone; no sample, and no chapter of the book, says what is multiplied")
        }
        Src1Transpose | Src2Transpose => Obeyed,
        // Tiling: only the order of work depends on it.
        TileHeight | PatchWidth | PatchHeight | SmallSourceMode | ShPref | ShMin | ShMax | AccDoubleBufEn => NoEffect,
        // Follows from the residency fields, which are obeyed.
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
        // Buffer dependencies and staging: tasks execute in order.
        Dependent | SrcAliasConvSrc | SrcAliasConvRslt | SrcAliasPlanarSrc | SrcAliasPlanarRslt | SrcDmaFmt
        | SrcDmaInterleave | ResBfrMode | ResAliasConvSrc | ResAliasConvRslt | ResAliasPlanarSrc
        | ResAliasPlanarRslt | ResDmaFmt | ResDmaInterleave => NoEffect,
        SrcDmaCmpVec | SrcDmaOffsetCh | ResDmaCmpVec | ResDmaOffsetCh => Only(&[0], "pixel formats are not executed"),

        PePool | PeOp | PeReluEn | PeCond | PeNonlinear | PeSecond | PeBias | PeScale | PePreScale | PeFinalScale => {
            Obeyed
        }
        PeFirst | PeEpsilon => Obeyed,

        KernelFmt | NeOpMode | KernelMode | BiasMode | NonlinearMode | AccBias | PostScale | PostScaleMode => Obeyed,
        // 28 with fp16 coefficients, 0 with bytes: follows from the format in every sample.
        BinaryPoint | Unkc804Bit20 | OverlapFirst | OverlapSecond => NoEffect,
        PalettizedEn | PalettizedBits | SparseFmt => Obeyed,
        GroupKernelReuse => Obeyed,
        // The kernel base already leads to the runtime tensor.
        RuntimeWeights => NoEffect,
        MatrixBiasEn | MatrixVectorBias => {
            Only(&[0], "a map says that a product's own bias goes here, none what it is added to")
        }
        AccBiasShift | PostRightShift => Only(&POSITIVE_SHIFTS, "no source says whether the highest bit is a sign"),

        DstEn | DstBase | DstRowStride | DstPlaneStride | DstGroupStride => Obeyed,
        DstCrH | DstCacheHint | HazardEn | HazardKernel | HazardDistance | L2BfrMode | BypassEow | ZeroPadLast
        | ZeroPadFirst => NoEffect,

        KernelDmaMaster | KernelDmaSparse | CoeffEn | CoeffBase | CoeffSize | ExtraEn | ExtraBase | ExtraSize => Obeyed,
        CoeffCrH | CoeffCacheHint | CoeffPrefetch | ExtraCrH | ExtraCacheHint | ExtraPrefetch => NoEffect,
        // This project's own tasks.
        OwnKind | OwnSources | OwnBar | OwnBase | OwnGroups | OwnChannels | OwnRows | OwnColumns | OwnGroupStride
        | OwnChannelStride | OwnRowStride | OwnParam => Obeyed,
        OwnFamily => NoEffect,
        // Fields that only generations have which are listed and not executed. A test holds the executed one to the
        // lines above.
        _ => OTHER_GENERATIONS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anemone_facts::chips::CHIPS;

    #[test]
    fn every_field_of_an_executed_generation_is_treated() {
        let executed = CHIPS.iter().filter_map(|c| c.layout).filter(|l| executes(l));
        for row in executed.flat_map(|l| l.rows) {
            assert_ne!(treatment(row.field), OTHER_GENERATIONS, "{:?} needs a line of its own", row.field);
        }
    }
}
