//! Moving operands in and results out: memory through base registers, tile memory, chained results.

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{self, Home, Region};
use crate::number;
use crate::number::planar::admit_row;
use crate::rows::{Source, Strides, nested, reach};
use crate::tensor::{Extents, Tensor};
use anemone_facts::Field::{self, *};
use anemone_facts::code::{format, residency};
use anemone_program::Element;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// The fields that place one operand: in memory, or in tile memory.
pub(crate) struct Place {
    pub(crate) base: Field,
    row: Field,
    channel: Field,
    depth: Field,
    group: Field,
    /// Element format of the operand.
    pub(crate) format: Field,
}

pub(crate) const SRC1_DMA: Place = Place {
    base: Src1Base,
    row: Src1RowStride,
    channel: Src1PlaneStride,
    depth: Src1DepthStride,
    group: Src1GroupStride,
    format: InFmt,
};
pub(crate) const SRC2_DMA: Place = Place {
    base: Src2Base,
    row: Src2RowStride,
    channel: Src2PlaneStride,
    depth: Src2DepthStride,
    group: Src2GroupStride,
    format: Src2Fmt,
};
pub(crate) const DST_DMA: Place = Place {
    base: DstBase,
    row: DstRowStride,
    channel: DstPlaneStride,
    depth: DstDepthStride,
    group: DstGroupStride,
    format: OutFmt,
};
pub(crate) const SRC1_L2: Place = Place {
    base: SrcL2Base,
    row: SrcL2RowStride,
    channel: SrcL2ChannelStride,
    depth: SrcL2DepthStride,
    group: SrcL2GroupStride,
    format: InFmt,
};
pub(crate) const SRC2_L2: Place = Place {
    base: Src2L2Base,
    row: Src2L2RowStride,
    channel: Src2L2ChannelStride,
    depth: Src2L2DepthStride,
    group: Src2L2GroupStride,
    format: Src2Fmt,
};
pub(crate) const RES_L2: Place = Place {
    base: ResL2Base,
    row: ResL2RowStride,
    channel: ResL2ChannelStride,
    depth: ResL2DepthStride,
    group: ResL2GroupStride,
    format: OutFmt,
};

/// Where an operand lies, for units that go over memory themselves.
pub(crate) struct Span {
    pub(crate) home: Home,
    /// From the first element to one past the last.
    pub(crate) range: Range<usize>,
    pub(crate) strides: Strides,
}

impl Span {
    /// As [`memory::views`] takes it.
    pub(crate) fn part(&self) -> (Home, Range<usize>) {
        (self.home, self.range.clone())
    }
}

/// Source 1 and the result of a task that goes from memory to memory; either may be tile memory.
pub(crate) struct Direct {
    pub(crate) from: Span,
    pub(crate) to: Span,
    /// Where the result is copied to, for tasks that keep it in tile memory and send it on.
    also: Option<Span>,
}

impl Machine<'_> {
    /// Where source 1 and the result lie, if both lie row by row and neither needs to be rearranged. Their rows are
    /// checked, and the result's count as written. Extents are those of what is stored. A source that the task keeps in
    /// tile memory is there afterwards; [`Machine::done`] does the like for a result.
    pub(crate) fn direct(&mut self, input: Extents, output: Extents) -> Result<Option<Direct>, FaultKind> {
        let (source, result) = (self.get(SrcType), self.get(ResType));
        let kinds = [residency::DMA, residency::L2, residency::DMA_KEEP];
        let plain = kinds.contains(&source)
            && kinds.contains(&result)
            && [InFmt, OutFmt].iter().all(|&f| self.get(f) == format::FP16)
            && [input, output].iter().all(|e| !e.array().contains(&0));
        let bound = |base, enable| self.get(enable) == 1 && self.memory.region(self.get(base) as u8).is_some();
        let fetched = source == residency::L2
            || bound(RBase0, Rbe0) && self.size(Src1Interleave) <= 1 && self.get(Src1MemFmt) == format::FP16;
        let sent = result == residency::L2
            || bound(WBase, Wbe)
                && self.size(DstInterleave) <= 1
                && self.get(DstEn) == 1
                && self.get(DstMemFmt) == format::FP16;
        if !plain || !fetched || !sent {
            return Ok(None);
        }
        let (read, write) = (Home::Bar(self.get(RBase0) as u8), Home::Bar(self.get(WBase) as u8));
        let (from, kept) = match source {
            residency::L2 => (self.span(&SRC1_L2, Home::Tile, input), None),
            residency::DMA => (self.span(&SRC1_DMA, read, input), None),
            _ => (self.span(&SRC1_DMA, read, input), Some(self.span(&SRC1_L2, Home::Tile, input))),
        };
        let (to, also) = match result {
            residency::L2 => (self.span(&RES_L2, Home::Tile, output), None),
            residency::DMA => (self.span(&DST_DMA, write, output), None),
            _ => (self.span(&RES_L2, Home::Tile, output), Some(self.span(&DST_DMA, write, output))),
        };
        let (Some(from), Some(to)) = (from, to) else { return Ok(None) };
        if matches!(kept, Some(None)) || matches!(also, Some(None)) || !nested(output, to.strides) {
            return Ok(None);
        }
        let (kept, also) = (kept.flatten(), also.flatten());
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

    /// Element by element, as through fp32. False where the spans overlap.
    fn copy_rows(&mut self, from: &Span, to: &Span, ext: Extents) -> bool {
        let Some(([data], target)) = memory::views(self.memory, self.l2, [from.part()], to.part()) else {
            return false;
        };
        let source = Source { data, strides: from.strides };
        for g in 0..ext.g {
            for c in 0..ext.c {
                for h in 0..ext.h {
                    let at = g * to.strides[0] + c * to.strides[1] + h * to.strides[2];
                    number::copy_row(source.row(g, c, h, ext.w), &mut target[at..][..ext.w]);
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

    /// As [`Machine::direct`] for source 2, which has one element along the axes that it repeats: rows, channels.
    pub(crate) fn direct_second(&self, ext: Extents, repeats: [bool; 2]) -> Result<Option<Span>, FaultKind> {
        let halves = self.get(Src2Fmt) == format::FP16;
        let (place, home) = match self.get(Src2Type) {
            1 if self.get(Rbe1) == 1 && self.get(Src2MemFmt) == format::FP16 => {
                (&SRC2_DMA, Home::Bar(self.get(RBase1) as u8))
            }
            0 => (&SRC2_L2, Home::Tile),
            _ => return Ok(None),
        };
        if !halves || self.home(home).is_none() || ext.array().contains(&0) {
            return Ok(None);
        }
        let one = |flag: bool, n: usize| if flag { 1 } else { n };
        let stored = Extents { h: one(repeats[0], ext.h), c: one(repeats[1], ext.c), ..ext };
        let Some(mut span) = self.span(place, home, stored) else { return Ok(None) };
        self.check_read(place, home, stored)?;
        let [_, channel, row] = &mut span.strides;
        (*row, *channel) = (*row * usize::from(!repeats[0]), *channel * usize::from(!repeats[1]));
        Ok(Some(span))
    }

    /// `None` where a distance is not a whole number of elements.
    fn span(&self, place: &Place, home: Home, ext: Extents) -> Option<Span> {
        let (base, strides) = self.place(place);
        if base % 2 != 0 || strides.iter().any(|s| s % 2 != 0) {
            return None;
        }
        let strides = strides.map(|s| s as usize / 2);
        let base = base as usize / 2;
        Some(Span { home, range: base..base + reach(ext, strides), strides })
    }

    /// Source 1 with the extents that the task declares for it.
    pub(crate) fn source1(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut tensor = self.fetch_source1(ext)?;
        self.on_reading(InputRelu, &mut tensor.data);
        Ok(tensor)
    }

    /// What becomes of a source as it is read: a ReLU where the flag is set, of what the model sees in it.
    fn on_reading(&self, flag: Field, row: &mut [f32]) {
        if self.get(flag) == 1 {
            if self.model.planar().is_some() {
                admit_row(row);
            }
            row.iter_mut().for_each(|x| *x = x.max(0.0));
        }
    }

    fn fetch_source1(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        match self.get(SrcType) {
            residency::DMA => self.load_source1(ext),
            residency::DMA_KEEP => {
                let tensor = self.load_source1(ext)?;
                let (base, strides) = self.place(&SRC1_L2);
                let element = self.element(InFmt)?;
                let l2 = &mut self.l2;
                store_rows(&tensor, base, strides, |address, row| l2.write_row(SrcL2Base, address, element, row))?;
                Ok(tensor)
            }
            residency::L2 => self.load_l2(&SRC1_L2, ext),
            residency::CHAIN => {
                let chained = self.chain.take().ok_or(FaultKind::NothingChained)?;
                if chained.ext != ext {
                    return Err(FaultKind::ChainShape { found: chained.ext.array(), declared: ext.array() });
                }
                Ok(chained)
            }
            value => Err(FaultKind::NotHonoured { field: SrcType, value, reason: "no sample reads a source this way" }),
        }
    }

    fn load_source1(&self, ext: Extents) -> Result<Tensor, FaultKind> {
        self.in_memory(Src1MemFmt, InFmt)?;
        let by = self.interleave(Src1Interleave, ext.c)?;
        let tensor = self.load_dma(&SRC1_DMA, RBase0, Rbe0, interleaved(ext, by))?;
        Ok(if by == 1 { tensor } else { separate(&tensor, ext, by) })
    }

    /// Channels that stand side by side for each element; the tensor has whole sets of them.
    fn interleave(&self, field: Field, channels: usize) -> Result<usize, FaultKind> {
        let by = self.size(field).max(1);
        if !channels.is_multiple_of(by) {
            return Err(self.inconsistent(field, "the channels are not a multiple of the interleave"));
        }
        Ok(by)
    }

    /// Source 2 with the extents that the task declares for it.
    pub(crate) fn source2(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut tensor = match self.get(Src2Type) {
            1 => {
                self.in_memory(Src2MemFmt, Src2Fmt)?;
                self.load_dma(&SRC2_DMA, RBase1, Rbe1, ext)?
            }
            0 => self.load_l2(&SRC2_L2, ext)?,
            value => {
                let reason = "no sample reads a source this way";
                return Err(FaultKind::NotHonoured { field: Src2Type, value, reason });
            }
        };
        self.on_reading(Src2InputRelu, &mut tensor.data);
        Ok(tensor)
    }

    /// Rounds the result and sends it where the task says.
    pub(crate) fn store(&mut self, mut result: Tensor) -> Result<(), FaultKind> {
        match self.get(ResType) {
            residency::DMA => self.store_dma(result),
            residency::L2 => self.store_l2(&result),
            residency::DMA_KEEP => {
                self.store_l2(&result)?;
                self.store_dma(result)
            }
            residency::CHAIN => {
                let element = self.element(OutFmt)?;
                result.data.iter_mut().for_each(|x| *x = number::through(element, *x));
                *self.chain = Some(result);
                Ok(())
            }
            value => Err(FaultKind::NotHonoured { field: ResType, value, reason: "no sample sends a result this way" }),
        }
    }

    fn store_dma(&mut self, mut result: Tensor) -> Result<(), FaultKind> {
        self.require(DstEn, 1, "a result that leaves by DMA needs the destination enabled")?;
        self.in_memory(DstMemFmt, OutFmt)?;
        let bar = self.bar(WBase, Wbe)?;
        let (base, strides) = self.place(&DST_DMA);
        let by = self.interleave(DstInterleave, result.ext.c)?;
        if by > 1 {
            result = interlace(&result, by);
        }
        let element = self.element(OutFmt)?;
        let region = self.memory.region_mut(bar).ok_or(FaultKind::Unbound { field: WBase, bar })?;
        store_rows(&result, base, strides, |address, row| region.write_row(DstBase, address, element, row))
    }

    fn store_l2(&mut self, result: &Tensor) -> Result<(), FaultKind> {
        let (base, strides) = self.place(&RES_L2);
        let element = self.element(OutFmt)?;
        let l2 = &mut self.l2;
        store_rows(result, base, strides, |address, row| l2.write_row(ResL2Base, address, element, row))
    }

    /// The element format that a field names.
    pub(crate) fn element(&self, field: Field) -> Result<Element, FaultKind> {
        match self.get(field) {
            format::UINT8 => Ok(Element::Uint8),
            format::INT8 => Ok(Element::Int8),
            format::FP16 => Ok(Element::Float16),
            value => Err(FaultKind::NotHonoured { field, value, reason: "elements are uint8, int8 or fp16" }),
        }
    }

    /// DMA moves elements as they are.
    fn in_memory(&self, memory: Field, operand: Field) -> Result<(), FaultKind> {
        self.require(memory, self.get(operand), "no sample converts elements on the way from or to memory")
    }

    /// Byte address at the depth at hand, and strides of groups, channels and rows.
    pub(crate) fn place(&self, place: &Place) -> (u64, [u64; 3]) {
        let repeated = match place.format {
            InFmt => self.get(Src1BroadcastD) == 1,
            Src2Fmt => self.get(Src2BroadcastD) == 1,
            _ => false,
        };
        let depth = if repeated { 0 } else { self.depth };
        let base = self.bytes(place.base) + depth * self.bytes(place.depth);
        (base, [self.bytes(place.group), self.bytes(place.channel), self.bytes(place.row)])
    }

    fn load_dma(&self, place: &Place, base_field: Field, enable: Field, ext: Extents) -> Result<Tensor, FaultKind> {
        let bar = self.bar(base_field, enable)?;
        let region = self.memory.region(bar).ok_or(FaultKind::Unbound { field: base_field, bar })?;
        self.load(place, Home::Bar(bar), region, ext)
    }

    fn load_l2(&self, place: &Place, ext: Extents) -> Result<Tensor, FaultKind> {
        self.load(place, Home::Tile, self.l2, ext)
    }

    fn load(&self, place: &Place, home: Home, region: &Region, ext: Extents) -> Result<Tensor, FaultKind> {
        let element = self.element(place.format)?;
        // Rows of memory that is not looked at one by one are widened at once.
        if region.is_trusted()
            && element == Element::Float16
            && let Some(span) = self.span(place, home, ext)
            && let Some(data) = region.halfwords().get(span.range)
        {
            let (from, mut tensor) = (Source { data, strides: span.strides }, Tensor::zeros(ext)?);
            self.workers.arch.dispatch(Widen { from, to: &mut tensor });
            return Ok(tensor);
        }
        let (base, strides) = self.place(place);
        load_rows(ext, base, strides, |address, row| region.read_row(place.base, address, element, row))
    }
}

/// Rows of fp16 into a tensor.
struct Widen<'a> {
    from: Source<'a>,
    to: &'a mut Tensor,
}

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Tensor { ext, data } = self.to;
        let mut rows = data.chunks_exact_mut(ext.w.max(1));
        for g in 0..ext.g {
            for c in 0..ext.c {
                for (h, row) in rows.by_ref().take(ext.h).enumerate() {
                    number::widen_row(self.from.row(g, c, h, ext.w), row);
                }
            }
        }
    }
}

/// Extents of a tensor with `by` channels side by side.
pub(crate) fn interleaved(ext: Extents, by: usize) -> Extents {
    Extents { c: ext.c / by, w: ext.w * by, ..ext }
}

/// Each row of `by` interleaved channels becomes `by` rows.
fn separate(from: &Tensor, ext: Extents, by: usize) -> Tensor {
    let mut data = vec![0.0; from.data.len()];
    exchange(ext, by, |packed, plain| data[plain] = from.data[packed]);
    Tensor { ext, data }
}

/// The reverse of [`separate`].
fn interlace(from: &Tensor, by: usize) -> Tensor {
    let mut data = vec![0.0; from.data.len()];
    exchange(from.ext, by, |packed, plain| data[packed] = from.data[plain]);
    Tensor { ext: interleaved(from.ext, by), data }
}

/// Pairs of positions: in the interleaved and in the plain order.
fn exchange(ext: Extents, by: usize, mut pair: impl FnMut(usize, usize)) {
    let mut plain = 0;
    for g in 0..ext.g {
        for c in 0..ext.c {
            for h in 0..ext.h {
                let row = ((g * (ext.c / by) + c / by) * ext.h + h) * ext.w * by;
                for w in 0..ext.w {
                    pair(row + w * by + c % by, plain);
                    plain += 1;
                }
            }
        }
    }
}

/// Byte address of row `h` of channel `c` of group `g`; strides are group, channel, row.
pub(crate) fn address(base: u64, strides: [u64; 3], g: usize, c: usize, h: usize) -> u64 {
    base + g as u64 * strides[0] + c as u64 * strides[1] + h as u64 * strides[2]
}

fn each_row(
    ext: Extents,
    base: u64,
    strides: [u64; 3],
    mut row: impl FnMut(u64) -> Result<(), FaultKind>,
) -> Result<(), FaultKind> {
    for g in 0..ext.g {
        for c in 0..ext.c {
            for h in 0..ext.h {
                row(address(base, strides, g, c, h))?;
            }
        }
    }
    Ok(())
}

fn load_rows(
    ext: Extents,
    base: u64,
    strides: [u64; 3],
    mut read: impl FnMut(u64, &mut [f32]) -> Result<(), FaultKind>,
) -> Result<Tensor, FaultKind> {
    let mut tensor = Tensor::zeros(ext)?;
    let mut rows = tensor.data.chunks_exact_mut(ext.w.max(1));
    for g in 0..ext.g {
        for c in 0..ext.c {
            for h in 0..ext.h {
                let Some(row) = rows.next() else { return Ok(tensor) };
                read(address(base, strides, g, c, h), row)?;
            }
        }
    }
    Ok(tensor)
}

fn store_rows(
    tensor: &Tensor,
    base: u64,
    strides: [u64; 3],
    mut write: impl FnMut(u64, &[f32]) -> Result<(), FaultKind>,
) -> Result<(), FaultKind> {
    let ext = tensor.ext;
    let mut rows = tensor.data.chunks_exact(ext.w.max(1));
    for g in 0..ext.g {
        for c in 0..ext.c {
            for h in 0..ext.h {
                let Some(row) = rows.next() else { return Ok(()) };
                write(address(base, strides, g, c, h), row)?;
            }
        }
    }
    Ok(())
}
