//! Names of fields in other projects, by register.
//!
//! `aneRegs.Common.ConvCfg.Kh` is the spelling of a field by Apple's own printer of version 7 (`ZinIrRegBitPrintOutDebug_7u_`); tinygrad's
//! `extra/accel/ane/aneregs` (commit 0459b03) is a recorded output of it, and other projects took their names from there. No row is
//! needed if the last word is also the field's name here.

use anemone_facts::layout::KNOWN;

/// Source of the rows.
pub const SOURCE: &str = "tinygrad extra/accel/ane/aneregs at 0459b03, names of Apple's printer";

/// Register and field in that project's spelling, and the field here.
pub const ROWS: &[(&str, &str)] = &[
    ("KernelDMASrc.CoeffBaseAddr.Addr", "CoeffBase"),
    ("KernelDMASrc.CoeffBfrSize.MemBfrSize", "CoeffSize"),
    ("KernelDMASrc.CoeffDMAConfig.CacheHint", "CoeffCacheHint"),
    ("KernelDMASrc.CoeffDMAConfig.CrH", "CoeffCrH"),
    ("KernelDMASrc.CoeffDMAConfig.En", "CoeffEn"),
    ("KernelDMASrc.CoeffDMAConfig.PrefetchParticipateEn", "CoeffPrefetch"),
    ("Common.DPE.Category", "DpeCategory"),
    ("Common.TaskInfo.NID", "TaskNid"),
    ("Common.TaskInfo.TaskID", "TaskId"),
    ("TileDMASrc.BaseAddr.Addr", "Src1Base"),
    ("TileDMASrc.DMAConfig.CacheHint", "Src1CacheHint"),
    ("TileDMASrc.DMAConfig.CacheHintNoReuse", "Src1CacheHintNoReuse"),
    ("TileDMASrc.DMAConfig.CacheHintReuse", "Src1CacheHintReuse"),
    ("TileDMASrc.DMAConfig.CrH", "Src1CrH"),
    ("TileDMASrc.DMAConfig.En", "Src1En"),
    ("TileDMASrc.DepthStride.Stride", "Src1DepthStride"),
    ("TileDMASrc.Fmt.CmpVec", "Src1CmpVec"),
    ("TileDMASrc.Fmt.FmtMode", "Src1FmtMode"),
    ("TileDMASrc.Fmt.Interleave", "Src1Interleave"),
    ("TileDMASrc.Fmt.MemFmt", "Src1MemFmt"),
    ("TileDMASrc.Fmt.OffsetCh", "Src1OffsetCh"),
    ("TileDMASrc.Fmt.Shift", "Src1Shift"),
    ("TileDMASrc.Fmt.Truncate", "Src1Truncate"),
    ("TileDMASrc.GroupStride.Stride", "Src1GroupStride"),
    ("TileDMASrc.PixelOffset.Offset", "PixelOffset"),
    ("TileDMASrc.PlaneStride.PlaneStride", "Src1PlaneStride"),
    ("TileDMASrc.RowStride.Stride", "Src1RowStride"),
    ("TileDMADst.BaseAddr.Addr", "DstBase"),
    ("TileDMADst.DMAConfig.CacheHint", "DstCacheHint"),
    ("TileDMADst.DMAConfig.CrH", "DstCrH"),
    ("TileDMADst.DMAConfig.En", "DstEn"),
    ("TileDMADst.DepthStride.DepthStride", "DstDepthStride"),
    ("TileDMADst.Fmt.CmpVec", "DstCmpVec"),
    ("TileDMADst.Fmt.FmtMode", "DstFmtMode"),
    ("TileDMADst.Fmt.Interleave", "DstInterleave"),
    ("TileDMADst.Fmt.MemFmt", "DstMemFmt"),
    ("TileDMADst.Fmt.OffsetCh", "DstOffsetCh"),
    ("TileDMADst.Fmt.Shift", "DstShift"),
    ("TileDMADst.Fmt.Truncate", "DstTruncate"),
    ("TileDMADst.GroupStride.GroupStride", "DstGroupStride"),
    ("TileDMADst.PlaneStride.PlaneStride", "DstPlaneStride"),
    ("TileDMADst.RowStride.RowStride", "DstRowStride"),
    ("L2.ResultBase.Addr", "ResL2Base"),
    ("L2.ResultCfg.ResultType", "ResType"),
    ("L2.ResultCfg.L2BfrMode", "ResBfrMode"),
    ("L2.ResultCfg.DMAFmt", "ResDmaFmt"),
    ("L2.ResultCfg.DMAInterleave", "ResDmaInterleave"),
    ("L2.ConvResultChannelStride.Stride", "ResL2ChannelStride"),
    ("L2.ConvResultRowStride.Stride", "ResL2RowStride"),
    ("L2.SourceBase.Addr", "SrcL2Base"),
    ("L2.SourceCfg.SourceType", "SrcType"),
    ("L2.SourceCfg.DMAFmt", "SrcDmaFmt"),
    ("L2.SourceCfg.DMAInterleave", "SrcDmaInterleave"),
    ("L2.SourceChannelStride.Stride", "SrcL2ChannelStride"),
    ("L2.SourceRowStride.Stride", "SrcL2RowStride"),
    ("NE.MACCfg.OpMode", "NeOpMode"),
];

/// The spelling without the prefix of the register and without indices.
fn plain(name: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for letter in name.trim_start_matches("aneRegs.").trim_start_matches("aneTD.").chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if !inside => out.push(letter),
            _ => {}
        }
    }
    out
}

/// The field for another project's name, complete or from its register on: `NE.MACCfg.OpMode`, `MACCfg.OpMode`,
/// `aneTD.Header[6].KPC`. `None` for names without a register.
pub fn field(name: &str) -> Option<&'static str> {
    let name = plain(name);
    let (_, last) = name.rsplit_once('.')?;
    let ends = |row: &str| {
        let (row, name) = (row.to_ascii_lowercase(), name.to_ascii_lowercase());
        row == name || row.ends_with(&format!(".{name}"))
    };
    let row = ROWS.iter().find(|(other, _)| ends(other)).map(|(_, own)| *own);
    let mut own = KNOWN.iter().flat_map(|layout| layout.rows).map(|row| row.field.info().name);
    row.or_else(|| own.find(|own| own.eq_ignore_ascii_case(last)))
}

/// Other projects' spellings of a field.
pub fn of(field: &str) -> impl Iterator<Item = &'static str> {
    ROWS.iter().filter(move |(_, own)| *own == field).map(|(other, _)| *other)
}
