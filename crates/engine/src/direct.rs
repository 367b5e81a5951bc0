//! Operands where they lie, for units that go over memory themselves: tasks from memory to memory, without tensors between.

use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2, each_row};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{self, Home, Region};
use anemone_facts::Field::*;
use anemone_facts::code::{format, residency};
use anemone_kernels::num;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView, nested, reach};
use std::ops::Range;

/// Operand in place, for units that go over memory themselves. Offsets and strides are in fp16 elements.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) home: Home,
    /// From the first element to one past the last.
    pub(crate) range: Range<usize>,
    pub(crate) strides: Strides,
}

impl Span {
    /// Strides with one row, or one channel, broadcast to all.
    pub(crate) fn repeated(&self, rows: bool, channels: bool) -> Strides {
        let [group, channel, row] = self.strides;
        [group, if channels { 0 } else { channel }, if rows { 0 } else { row }]
    }

    /// Returns true if both spans place every element of a tensor alike. Strides along axes of one element do not matter.
    pub(crate) fn is_that_of(&self, other: &Span, ext: Extents) -> bool {
        let counts = [ext.g, ext.c, ext.h];
        let mut axes = counts.iter().zip(self.strides.iter().zip(&other.strides));
        self.home == other.home && self.range == other.range && axes.all(|(&n, (one, other))| n <= 1 || one == other)
    }

    /// Returns true if their ranges overlap, so that they may have elements in common.
    pub(crate) fn overlaps(&self, other: &Span) -> bool {
        self.home == other.home && self.range.start < other.range.end && other.range.start < self.range.end
    }

    /// The span as an argument of [`memory::views`].
    pub(crate) fn part(&self) -> (Home, Range<usize>) {
        (self.home, self.range.clone())
    }
}

/// Source 1 and the result of a task that goes from memory to memory; either may be tile memory.
pub(crate) struct Direct {
    pub(crate) from: Span,
    pub(crate) to: Span,
    /// Second destination, for tasks that keep the result in tile memory and send it on.
    also: Option<Span>,
}

/// Operands of a task that goes from memory to memory; `kept` is where its source is in tile memory afterwards.
pub(crate) struct Spans {
    from: Span,
    kept: Option<Span>,
    to: Span,
    also: Option<Span>,
}

impl Direct {
    /// Returns true if the result has one destination.
    pub(crate) fn goes_once(&self) -> bool {
        self.also.is_none()
    }
}

impl Machine<'_> {
    /// Source 1 and the result where they lie row by row, by the task's fields; the error is the reason why they do not. Extents are
    /// those of what is stored.
    pub(crate) fn in_rows(&self, input: Extents, output: Extents) -> Result<Spans, &'static str> {
        let (source, result) = (self.get(SrcType), self.get(ResType));
        let kinds = [residency::DMA, residency::L2, residency::DMA_KEEP];
        if ![source, result].iter().all(|kind| kinds.contains(kind)) {
            return Err("the task before hands its result on, or this one does");
        }
        if [input, output].iter().any(|e| e.array().contains(&0)) {
            return Err("an operand has no elements");
        }
        let halves = |field| self.get(field) == format::FP16;
        let fetched = source == residency::L2 || halves(Src1MemFmt);
        let sent = result == residency::L2 || halves(DstMemFmt);
        if !(halves(InFmt) && halves(OutFmt) && fetched && sent) {
            return Err("an operand is not of fp16 elements");
        }
        let fetched = source == residency::L2 || self.size(Src1Interleave) <= 1;
        let sent = result == residency::L2 || self.size(DstInterleave) <= 1;
        if !(fetched && sent) {
            return Err("channels of an operand are interleaved");
        }
        let Some(spans) = self.spans(input, output) else { return Err("a row begins at an odd byte") };
        if nested(output, spans.to.strides) { Ok(spans) } else { Err("rows of the result overlap") }
    }

    /// Operands of a task whose source and result lie in rows; `None` where a distance is not a whole number of elements.
    fn spans(&self, input: Extents, output: Extents) -> Option<Spans> {
        let (read, write) = (Home::Bar(self.get(RBase0) as u8), Home::Bar(self.get(WBase) as u8));
        let (from, kept) = match self.get(SrcType) {
            residency::L2 => (self.span(&SRC1_L2, Home::Tile, input)?, None),
            residency::DMA => (self.span(&SRC1_DMA, read, input)?, None),
            _ => (self.span(&SRC1_DMA, read, input)?, Some(self.span(&SRC1_L2, Home::Tile, input)?)),
        };
        let (to, also) = match self.get(ResType) {
            residency::L2 => (self.span(&RES_L2, Home::Tile, output)?, None),
            residency::DMA => (self.span(&DST_DMA, write, output)?, None),
            _ => (self.span(&RES_L2, Home::Tile, output)?, Some(self.span(&DST_DMA, write, output)?)),
        };
        Some(Spans { from, kept, to, also })
    }

    /// Source 1 and the result in place, if both lie row by row and neither needs to be rearranged. Their rows are
    /// checked, and the result's count as written. Extents are those of what is stored. A source that the task keeps in
    /// tile memory is there afterwards; [`Machine::done`] does the like for a result.
    pub(crate) fn direct(&mut self, input: Extents, output: Extents) -> Result<Option<Direct>, FaultKind> {
        let (source, result) = (self.get(SrcType), self.get(ResType));
        let bound = |base, enable| self.get(enable) == 1 && self.memory.region(self.get(base) as u8).is_some();
        let fetched = source == residency::L2 || bound(RBase0, Rbe0);
        let sent = result == residency::L2 || bound(WBase, Wbe) && self.get(DstEn) == 1;
        let Ok(Spans { from, kept, to, also }) = self.in_rows(input, output) else { return Ok(None) };
        if !fetched || !sent {
            return Ok(None);
        }
        self.check_read(if source == residency::L2 { &SRC1_L2 } else { &SRC1_DMA }, from.home, input)?;
        if let Some(kept) = kept {
            self.check_written(&SRC1_L2, Home::Tile, input)?;
            if !self.copy_rows(&from, &kept, input) {
                return Ok(None);
            }
        }
        self.check_written(if to.home == Home::Tile { &RES_L2 } else { &DST_DMA }, to.home, output)?;
        if let Some(also) = &also {
            self.check_written(&DST_DMA, also.home, output)?;
        }
        Ok(Some(Direct { from, to, also }))
    }

    /// To be called when the result is where [`Machine::direct`] said; its extents are as they were there.
    pub(crate) fn done(&mut self, direct: &Direct, output: Extents) {
        if let Some(also) = &direct.also {
            self.copy_rows(&direct.to, also, output);
        }
    }

    /// Element by element, as through fp32. False where memory does not have them.
    fn copy_rows(&mut self, from: &Span, to: &Span, ext: Extents) -> bool {
        let mut aside = Default::default();
        let Some(([data], target)) = memory::views(self.memory, self.l2, [from.part()], to.part(), &mut aside) else {
            return false;
        };
        let source = TensorView { data, strides: from.strides };
        for g in 0..ext.g {
            for c in 0..ext.c {
                for h in 0..ext.h {
                    let at = g * to.strides[0] + c * to.strides[1] + h * to.strides[2];
                    num::copy_row(source.row(g, c, h, ext.w), &mut target[at..][..ext.w]);
                }
            }
        }
        true
    }

    fn home(&self, home: Home) -> Option<&Region> {
        match home {
            Home::Bar(bar) => self.memory.region(bar),
            Home::Tile => Some(self.l2),
        }
    }

    fn check_read(&self, place: &Place, home: Home, ext: Extents) -> Result<(), FaultKind> {
        let Some(region) = self.home(home).filter(|r| !r.is_trusted()) else { return Ok(()) };
        let (base, strides) = self.place(place);
        each_row(ext, base, strides, |address| region.read(place.base, address, ext.w).map(|_| ()))
    }

    fn check_written(&mut self, place: &Place, home: Home, ext: Extents) -> Result<(), FaultKind> {
        let (base, strides) = self.place(place);
        let region = match home {
            Home::Bar(bar) => self.memory.region_mut(bar),
            Home::Tile => Some(&mut *self.l2),
        };
        let Some(region) = region.filter(|r| !r.is_trusted()) else { return Ok(()) };
        each_row(ext, base, strides, |address| region.write(place.base, address, ext.w).map(|_| ()))
    }

    /// As [`Machine::direct`] for source 2.
    pub(crate) fn direct_second(&self, stored: Extents) -> Result<Option<Span>, FaultKind> {
        let halves = self.get(Src2Fmt) == format::FP16;
        let (place, home) = match self.get(Src2Type) {
            1 if self.get(Rbe1) == 1 && self.size(Src2Interleave) <= 1 && self.get(Src2MemFmt) == format::FP16 => {
                (&SRC2_DMA, Home::Bar(self.get(RBase1) as u8))
            }
            0 => (&SRC2_L2, Home::Tile),
            _ => return Ok(None),
        };
        if !halves || self.home(home).is_none() || stored.array().contains(&0) {
            return Ok(None);
        }
        let Some(span) = self.span(place, home, stored) else { return Ok(None) };
        self.check_read(place, home, stored)?;
        Ok(Some(span))
    }

    /// `None` where a distance is not a whole number of elements.
    pub(crate) fn span(&self, place: &Place, home: Home, ext: Extents) -> Option<Span> {
        let (base, strides) = self.place(place);
        if base % 2 != 0 || strides.iter().any(|s| s % 2 != 0) {
            return None;
        }
        let strides = strides.map(|s| s as usize / 2);
        let base = base as usize / 2;
        Some(Span { home, range: base..base + reach(ext, strides), strides })
    }
}
