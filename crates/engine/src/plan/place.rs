//! Sources and results of tasks as operands of host operations.

use super::maps::MapOperand;
use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2};
use crate::machine::Machine;
use crate::memory::Home;
use anemone_facts::Field::*;
use anemone_facts::code::{format, residency};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, nested};

impl Machine<'_> {
    /// Destination operand of a result with these extents; `None` unless it is fp16, without interleave, and its rows are [`nested`].
    pub(super) fn map_result(&self, ext: Extents) -> Option<MapOperand> {
        self.result_operand(ext).filter(|to| nested(ext, to.axes.strides))
    }

    /// Destination operand of a result with these extents; `None` unless it is fp16, without interleave or overlap.
    pub(super) fn result_operand(&self, ext: Extents) -> Option<MapOperand> {
        let halves = |field| self.get(field) == format::FP16;
        let (home, place) = match self.get(ResType) {
            residency::L2 => (Home::Tile, &RES_L2),
            residency::DMA if halves(DstMemFmt) && self.size(DstInterleave) <= 1 && self.get(DstEn) == 1 => {
                (Home::Bar(self.bar(WBase, Wbe).ok()?), &DST_DMA)
            }
            _ => return None,
        };
        let to = self.map_operand(home, place, [false; 3])?;
        let fits = halves(OutFmt) && !ext.array().contains(&0) && to.of(ext).is_nested();
        fits.then_some(to)
    }

    pub(super) fn first_source(&self, flags: [bool; 3]) -> Option<MapOperand> {
        let halves = self.get(InFmt) == format::FP16;
        match self.get(SrcType) {
            residency::L2 if halves => self.map_operand(Home::Tile, &SRC1_L2, flags),
            residency::DMA if halves && self.get(Src1MemFmt) == format::FP16 && self.size(Src1Interleave) <= 1 => {
                self.map_operand(Home::Bar(self.bar(RBase0, Rbe0).ok()?), &SRC1_DMA, flags)
            }
            _ => None,
        }
    }

    pub(super) fn second_source(&self, flags: [bool; 3]) -> Option<MapOperand> {
        let halves = self.get(Src2Fmt) == format::FP16;
        match self.get(Src2Type) {
            0 if halves => self.map_operand(Home::Tile, &SRC2_L2, flags),
            1 if halves && self.get(Src2MemFmt) == format::FP16 && self.interleave(Src2Interleave) == 1 => {
                self.map_operand(Home::Bar(self.bar(RBase1, Rbe1).ok()?), &SRC2_DMA, flags)
            }
            _ => None,
        }
    }

    /// Operand at a place, with its single column, row or channel broadcast by the flags.
    pub(super) fn map_operand(
        &self,
        home: Home,
        place: &Place,
        [columns, rows, channels]: [bool; 3],
    ) -> Option<MapOperand> {
        let (base, strides) = self.place(place);
        if base % 2 != 0 || strides.iter().any(|s| s % 2 != 0) {
            return None;
        }
        let [group, channel, row]: Strides = strides.map_each(|s| (s / 2) as usize);
        let strides = [group, if channels { 0 } else { channel }, if rows { 0 } else { row }];
        Some(MapOperand { home, base: (base / 2) as usize, axes: OperandAxes { strides, one_column: columns } })
    }
}
