//! Operands of memory-to-memory tasks, whose kernels read and write bound memory without intermediate tensors. They are resolved when the task
//! is planned; a run checks them against the memory that is bound.

use crate::dma::{DST_DMA, Place, RES_L2, SRC1_DMA, SRC1_L2, SRC2_DMA, SRC2_L2, each_row};
use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{self, Home, Memory, Region};
use anemone_facts::Field::{self, *};
use anemone_facts::code::{format, residency};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::num;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{Strides, TensorView, nested, reach};
use anemone_kernels::workers::BounceBuffers;
use half::f16;
use std::ops::Range;

/// Strided operand in memory. Offsets and strides are in fp16 elements.
#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) home: Home,
    /// From the first element to the end of the last one.
    pub(crate) range: Range<usize>,
    pub(crate) strides: Strides,
}

impl Span {
    /// Strides with one row, or one channel, broadcast to all.
    pub(crate) fn repeated(&self, rows: bool, channels: bool) -> Strides {
        let [group, channel, row] = self.strides;
        [group, if channels { 0 } else { channel }, if rows { 0 } else { row }]
    }

    /// Returns true if both spans have every element at the same place. Strides along axes of one element are ignored.
    pub(crate) fn is_that_of(&self, other: &Span, ext: Extents) -> bool {
        let counts = [ext.g, ext.c, ext.h];
        let mut axes = counts.iter().zip(self.strides.iter().zip(&other.strides));
        self.home == other.home && self.range == other.range && axes.all(|(&n, (one, other))| n <= 1 || one == other)
    }

    /// Returns true if their ranges overlap; the spans may then have elements in common.
    pub(crate) fn overlaps(&self, other: &Span) -> bool {
        self.home == other.home && self.range.start < other.range.end && other.range.start < self.range.end
    }

    fn part(&self) -> (Home, Range<usize>) {
        (self.home, self.range.clone())
    }

    /// The span moved by a number of elements.
    fn further(&self, elements: usize) -> Span {
        Span { range: self.range.start + elements..self.range.end + elements, ..self.clone() }
    }
}

/// Views of spans: `from` to read, and one to write. A source that overlaps the destination is copied to `aside` first.
///
/// # Errors
/// [`FaultKind::Outside`] if a region lacks a span.
pub(crate) fn views<'m, const N: usize>(
    memory: &'m mut Memory,
    tile: &'m mut Region,
    from: [&Span; N],
    to: &Span,
    aside: &'m mut BounceBuffers,
) -> Result<([&'m [f16]; N], &'m mut [f16]), FaultKind> {
    let bytes = |span: &Span| match span.home {
        Home::Bar(bar) => memory.region(bar).map_or(0, Region::len),
        Home::Tile => tile.len(),
    };
    for span in from.iter().chain([&to]) {
        let limit = bytes(span);
        if 2 * span.range.end > limit {
            return Err(outside(span, limit));
        }
    }
    let limit = bytes(to);
    let mut parts = [const { (Home::Tile, 0..0) }; N];
    for (part, span) in parts.iter_mut().zip(from) {
        *part = span.part();
    }
    memory::views(memory, tile, parts, to.part(), aside).ok_or_else(|| outside(to, limit))
}

fn outside(span: &Span, limit: usize) -> FaultKind {
    let operand = format!("{} bytes at {:#x}", 2 * span.range.len(), 2 * span.range.start);
    FaultKind::Outside { operation: "memory-to-memory task", operand, limit: limit as u64 }
}

/// Operands of a memory-to-memory task, at its first depth plane. Each may be in tile memory.
#[derive(Clone)]
pub struct Operands {
    pub(crate) from: Span,
    /// Destination of the copy of the source in tile memory, if the task keeps one there.
    kept: Option<Span>,
    pub(crate) second: Option<Span>,
    pub(crate) to: Span,
    /// Second destination, of tasks that write the result to tile memory and to memory.
    also: Option<Span>,
    stored: Stored,
    /// Elements between depth planes, in the order of the spans.
    planes: [usize; 5],
}

/// Extents of operands as stored.
#[derive(Clone, Copy)]
pub(crate) struct Stored {
    pub(crate) input: Extents,
    /// Extents of source 2; `None` if the task has one source.
    pub(crate) second: Option<Extents>,
    pub(crate) output: Extents,
}

impl Operands {
    /// Returns true if the task keeps its source in tile memory.
    pub(crate) fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Returns true if the result has a single destination.
    pub(crate) fn goes_once(&self) -> bool {
        self.also.is_none()
    }

    /// Sources and then the result, with their extents; `None` if there is another destination, or there are depth planes.
    pub(crate) fn movable(&mut self) -> Option<Vec<(&mut Span, Extents)>> {
        if self.kept.is_some() || self.also.is_some() || self.planes != [0; 5] {
            return None;
        }
        let Stored { input, second, output } = self.stored;
        let second = self.second.as_mut().zip(second);
        Some([(&mut self.from, input)].into_iter().chain(second).chain([(&mut self.to, output)]).collect())
    }

    /// The operands of the task without the copy of its source.
    pub(crate) fn without_kept(&self) -> Operands {
        Operands { kept: None, ..self.clone() }
    }

    /// Extents of source 1 as stored.
    pub(crate) fn input(&self) -> Extents {
        self.stored.input
    }
}

impl Machine<'_> {
    /// Resolves the operands from the task's fields; the error is the reason why the task goes through tensors.
    pub(crate) fn operands(&self, stored: Stored) -> Result<Operands, &'static str> {
        let Stored { input, second, output } = stored;
        let (source, result) = (self.get(SrcType), self.get(ResType));
        let kinds = [residency::DMA, residency::L2, residency::DMA_KEEP];
        if ![source, result].iter().all(|kind| kinds.contains(kind)) {
            return Err("a source or the result is chained");
        }
        if [Some(input), second, Some(output)].iter().flatten().any(|e| e.array().contains(&0)) {
            return Err("an operand has no elements");
        }
        let halves = |field| self.get(field) == format::FP16;
        let (fetched, sent) = (source != residency::L2, result != residency::L2);
        let of_memory = second.is_some() && self.get(Src2Type) == 1;
        let dma = [
            (fetched, Src1MemFmt, Src1Interleave, Rbe0),
            (of_memory, Src2MemFmt, Src2Interleave, Rbe1),
            (sent, DstMemFmt, DstInterleave, Wbe),
        ];
        let dma = || dma.iter().filter(|(moved, ..)| *moved);
        let formats = halves(InFmt) && halves(OutFmt) && (second.is_none() || halves(Src2Fmt));
        if !formats || dma().any(|&(_, format, ..)| !halves(format)) {
            return Err("an operand is not of fp16 elements");
        }
        if dma().any(|&(_, _, interleave, _)| self.interleave(interleave) > 1) {
            return Err("channels of an operand are interleaved");
        }
        let bound = dma().all(|&(.., enable)| self.get(enable) == 1) && (!sent || self.get(DstEn) == 1);
        if !bound || second.is_some() && self.get(Src2Type) > 1 {
            return Err("the base register of an operand is not in use");
        }
        let operands = self.resolved(stored).ok_or("a row starts at an odd byte address")?;
        let rows_apart = nested(output, operands.to.strides);
        if rows_apart { Ok(operands) } else { Err("rows of the result overlap") }
    }

    /// Spans of the operands; `None` if an offset or stride is not a whole number of elements.
    fn resolved(&self, stored: Stored) -> Option<Operands> {
        let Stored { input, second, output } = stored;
        let home = |base| Home::Bar(self.get(base) as u8);
        let (from, kept) = match self.get(SrcType) {
            residency::L2 => ((&SRC1_L2, Home::Tile), None),
            residency::DMA => ((&SRC1_DMA, home(RBase0)), None),
            _ => ((&SRC1_DMA, home(RBase0)), Some((&SRC1_L2, Home::Tile))),
        };
        let (to, also) = match self.get(ResType) {
            residency::L2 => ((&RES_L2, Home::Tile), None),
            residency::DMA => ((&DST_DMA, home(WBase)), None),
            _ => ((&RES_L2, Home::Tile), Some((&DST_DMA, home(WBase)))),
        };
        let read = if self.get(Src2Type) == 1 { (&SRC2_DMA, home(RBase1)) } else { (&SRC2_L2, Home::Tile) };
        let places = [Some((from, input)), kept.map(|at| (at, input)), second.map(|ext| (read, ext))];
        let places = [places[0], places[1], places[2], Some((to, output)), also.map(|at| (at, output))];
        let mut spans: [Option<Span>; 5] = Default::default();
        let mut planes = [0; 5];
        for ((span, plane), place) in spans.iter_mut().zip(&mut planes).zip(places) {
            let Some(((place, home), ext)) = place else { continue };
            *span = Some(self.span(place, home, ext)?);
            *plane = self.plane_stride(place)?;
        }
        let [from, kept, second, to, also] = spans;
        Some(Operands { from: from?, kept, second, to: to?, also, stored, planes })
    }

    /// Elements between depth planes of an operand, 0 if one plane is broadcast; `None` if that is not a whole number.
    fn plane_stride(&self, place: &Place) -> Option<usize> {
        let repeated = match place.format {
            InFmt => self.get(Src1BroadcastD) == 1,
            Src2Fmt => self.get(Src2BroadcastD) == 1,
            _ => false,
        };
        let bytes = if repeated || self.depths() == (0..1) { 0 } else { self.bytes(place.depth) };
        bytes.is_multiple_of(2).then_some((bytes / 2) as usize)
    }

    /// The operands at the current depth plane of the bound memory: sources are checked, and the result is marked as written. Copies a source
    /// that the task keeps in tile memory; [`Machine::done`] copies a result.
    ///
    /// # Errors
    /// The fault of the first operand that is out of bounds, or that has not been written.
    pub(crate) fn bind(&mut self, planned: &Operands) -> Result<Operands, FaultKind> {
        let bound = self.at_plane(planned);
        let Operands { from, kept, second, to, also, stored, .. } = &bound;
        let place = |home, tile, dma| if home == Home::Tile { tile } else { dma };
        self.check_bound(from, RBase0)?;
        self.check_read(place(from.home, &SRC1_L2, &SRC1_DMA), from.home, stored.input)?;
        if let Some(kept) = kept {
            self.check_written(&SRC1_L2, Home::Tile, stored.input)?;
            self.copy_rows(from, kept, stored.input)?;
        }
        if let (Some(second), Some(ext)) = (second, stored.second) {
            self.check_bound(second, RBase1)?;
            self.check_read(place(second.home, &SRC2_L2, &SRC2_DMA), second.home, ext)?;
        }
        for (span, tile) in [(to, &RES_L2)].into_iter().chain(also.as_ref().map(|also| (also, &DST_DMA))) {
            self.check_bound(span, WBase)?;
            self.check_written(place(span.home, tile, &DST_DMA), span.home, stored.output)?;
        }
        Ok(bound)
    }

    fn at_plane(&self, planned: &Operands) -> Operands {
        let Operands { from, kept, second, to, also, stored, planes } = planned;
        let (read, written) = (self.source_depth as usize, self.depth as usize);
        Operands {
            from: from.further(read * planes[0]),
            kept: kept.as_ref().map(|kept| kept.further(read * planes[1])),
            second: second.as_ref().map(|second| second.further(read * planes[2])),
            to: to.further(written * planes[3]),
            also: also.as_ref().map(|also| also.further(written * planes[4])),
            stored: *stored,
            planes: *planes,
        }
    }

    /// Copies the result to the second destination, if there is one; to be called when it is in the first.
    pub(crate) fn done(&mut self, operands: &Operands) -> Result<(), FaultKind> {
        match &operands.also {
            Some(also) => self.copy_rows(&operands.to, also, operands.stored.output),
            None => Ok(()),
        }
    }

    /// Copies element by element, with the effect of a conversion to fp32 and back.
    fn copy_rows(&mut self, from: &Span, to: &Span, ext: Extents) -> Result<(), FaultKind> {
        let mut aside = Default::default();
        let ([data], target) = views(self.memory, self.l2, [from], to, &mut aside)?;
        let source = TensorView { data, strides: from.strides };
        for g in 0..ext.g {
            for c in 0..ext.c {
                for h in 0..ext.h {
                    let at = g * to.strides[0] + c * to.strides[1] + h * to.strides[2];
                    num::copy_row(source.row(g, c, h, ext.w), &mut target[at..][..ext.w]);
                }
            }
        }
        Ok(())
    }

    fn home(&self, home: Home) -> Option<&Region> {
        match home {
            Home::Bar(bar) => self.memory.region(bar),
            Home::Tile => Some(self.l2),
        }
    }

    fn check_bound(&self, span: &Span, field: Field) -> Result<(), FaultKind> {
        match span.home {
            Home::Bar(bar) if self.memory.region(bar).is_none() => Err(FaultKind::Unbound { field, bar }),
            _ => Ok(()),
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

    /// The span of an operand; `None` if an offset or stride is not a whole number of elements.
    pub(crate) fn span(&self, place: &Place, home: Home, ext: Extents) -> Option<Span> {
        let (base, strides) = self.place(place);
        if base % 2 != 0 || strides.iter().any(|s| s % 2 != 0) {
            return None;
        }
        let strides = strides.map_each(|s| s as usize / 2);
        let base = base as usize / 2;
        Some(Span { home, range: base..base + reach(ext, strides), strides })
    }
}
