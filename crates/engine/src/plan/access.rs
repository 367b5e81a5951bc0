//! Memory accesses of tasks, computed from register fields.

use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2};
use crate::machine::Machine;
use crate::memory::Home;
use crate::operand::MemRef;
use crate::plan::{Plan, Step, Work};
use anemone_facts::Field::{self, *};
use anemone_facts::code::residency;
use anemone_kernels::arrays::MapEach;
use anemone_kernels::interleave::interleaved;
use anemone_kernels::tensor::Extents;

/// Memory accesses of a task.
pub(crate) struct Accesses {
    pub(crate) reads: Vec<MemRef>,
    /// Exact boxes: every run writes every byte.
    pub(crate) writes: Vec<MemRef>,
}

impl Plan {
    /// First task that reads, or writes, bytes of a range behind a base register; `None` if no known access does.
    pub fn first_access(&self, bar: u8, bytes: std::ops::Range<u64>, write: bool) -> Option<usize> {
        let touches = |of: &MemRef| of.home == Home::Bar(bar) && of.base_bytes < bytes.end && bytes.start < of.end();
        let of = |accesses: &Accesses| if write { accesses.writes.iter() } else { accesses.reads.iter() }.any(touches);
        self.accesses.iter().position(|accesses| accesses.as_ref().is_some_and(of))
    }
}

impl Machine<'_> {
    /// Memory accesses of the current task; `None` if it faults, or has a form that is not analysed.
    pub(super) fn accesses_of(&self, step: &Step) -> Option<Accesses> {
        let (input, second, output) = match &step.work {
            Work::Skipped => return Some(Accesses { reads: Vec::new(), writes: Vec::new() }),
            Work::Own(own) => {
                let (reads, writes) = own.accesses();
                return Some(Accesses { reads, writes });
            }
            Work::Neural(neural) => {
                let turned = self.get(NeTranspose) == 1;
                (neural.input, None, if turned { neural.output.transposed() } else { neural.output })
            }
            Work::Planar(_) => {
                let (first, second) = self.planar_sources();
                (first, second, self.planar_result())
            }
        };
        let mut reads = Vec::new();
        let mut writes = Vec::new();
        let (from, to) = (self.source_depths().end, self.computed_depths().end);
        let bar = |base, enable| self.bar(base, enable).ok().map(Home::Bar);
        let all = |broadcast| if self.get(broadcast) == 1 { 1 } else { from };
        let source = self.get(SrcType);
        if [residency::DMA, residency::DMA_KEEP].contains(&source) {
            let read = self.box_of(&SRC1_DMA, bar(RBase0, Rbe0)?, Some(Src1Interleave), input, all(Src1BroadcastD))?;
            reads.push(read);
        }
        match source {
            residency::DMA | residency::CHAIN => {}
            residency::DMA_KEEP => writes.push(self.box_of(&SRC1_L2, Home::Tile, None, input, all(Src1BroadcastD))?),
            residency::L2 => reads.push(self.box_of(&SRC1_L2, Home::Tile, None, input, all(Src1BroadcastD))?),
            _ => return None,
        }
        if let Some(second) = second {
            reads.push(match self.get(Src2Type) {
                0 => self.box_of(&SRC2_L2, Home::Tile, None, second, all(Src2BroadcastD))?,
                1 => self.box_of(&SRC2_DMA, bar(RBase1, Rbe1)?, Some(Src2Interleave), second, all(Src2BroadcastD))?,
                _ => return None,
            });
        }
        if step.reads_streams() {
            reads.extend(self.streams()?);
        }
        // A window over depth may skip planes.
        if self.depth_window().is_some() {
            for read in reads.iter_mut() {
                read.exact = false;
            }
        }
        let result = self.get(ResType);
        if [residency::L2, residency::DMA_KEEP].contains(&result) {
            writes.push(self.box_of(&RES_L2, Home::Tile, None, output, to)?);
        }
        if [residency::DMA, residency::DMA_KEEP].contains(&result) {
            let home = (self.get(DstEn) == 1).then(|| bar(WBase, Wbe)).flatten()?;
            writes.push(self.box_of(&DST_DMA, home, Some(DstInterleave), output, to)?);
        }
        let known = [residency::DMA, residency::DMA_KEEP, residency::L2, residency::CHAIN].contains(&result);
        known.then_some(Accesses { reads, writes })
    }

    /// Box of an operand with `planes` depth planes; `None` if the interleave does not divide the channels, or the format is unknown.
    fn box_of(
        &self,
        place: &Place,
        home: Home,
        interleave: Option<Field>,
        ext: Extents,
        planes: u64,
    ) -> Option<MemRef> {
        let by = interleave.map_or(1, |field| self.interleave(field));
        if !ext.c.is_multiple_of(by) {
            return None;
        }
        let ext = interleaved(ext, by);
        let element_bytes = self.element(place.format).ok()?.bytes();
        let (base, [group, channel, row]) = self.place(place);
        let [g, c, h, w] = ext.array().map_each(|n| n as u64);
        let axes = [(planes, self.bytes(place.depth)), (g, group), (c, channel), (h, row)];
        Some(MemRef::new(home, base, &axes, w * element_bytes))
    }

    /// Upper bounds of the kernel streams, each within its stated size.
    fn streams(&self) -> Option<Vec<MemRef>> {
        let home = Home::Bar(self.bar(KBase0, Kbe0).ok()?);
        let mut streams = Vec::new();
        for (on, base, size) in [(CoeffEn, CoeffBase, CoeffSize), (ExtraEn, ExtraBase, ExtraSize)] {
            let count = self.layout.row(on).map_or(0, |row| u32::from(row.count));
            for i in (0..count).filter(|&i| self.task.get_at(self.layout, on, i) == Some(1)) {
                let [base, size] = [base, size].map_each(|field| self.task.bytes_at(self.layout, field, i));
                streams.push(MemRef::within(home, base..base.saturating_add(size)));
            }
        }
        Some(streams)
    }
}
