//! Loads of operands and stores of results: memory behind base registers, tile memory, and chained results.

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::memory::{Home, Region};
use crate::numerics::{Parameters, element_type};
use anemone_facts::Field::{self, *};
use anemone_facts::code::{format, residency};
use anemone_kernels::copy;
use anemone_kernels::cost;
use anemone_kernels::interleave::{interlace, interleaved, separate};
use anemone_kernels::num::elementwise::admit_row;
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_kernels::view::TensorView;
use anemone_kernels::workers::chunks;
use anemone_program::Element;

/// Elements of a chained result that are rounded at a time.
const THROUGH: usize = 1 << 12;

/// Fields that locate one operand in memory or in tile memory.
pub(crate) struct Place {
    pub(crate) base: Field,
    row: Field,
    channel: Field,
    pub(crate) depth: Field,
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

impl Machine<'_> {
    /// Loads source 1 with the extents that the task declares.
    pub(crate) fn source1(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut tensor = self.fetch_source1(ext)?;
        self.on_reading(InputRelu, &mut tensor.data);
        Ok(tensor)
    }

    /// Loads source 1 without the effects of the load: a chained result is not taken.
    pub(crate) fn peek_source1(&self, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut tensor = match self.get(SrcType) {
            residency::L2 => self.load_l2(&SRC1_L2, ext)?,
            residency::CHAIN => self.chain.peek(self.source_depth).cloned().ok_or(FaultKind::NothingChained)?,
            _ => self.load_source1(ext)?,
        };
        self.on_reading(InputRelu, &mut tensor.data);
        Ok(tensor)
    }

    /// Applies a source's ReLU, if the flag is set, to the operands as the model reads them.
    fn on_reading(&self, flag: Field, row: &mut [f32]) {
        if self.get(flag) == 1 {
            if self.model.rounding().is_some() {
                admit_row(row);
            }
            for x in row.iter_mut() {
                *x = x.max(0.0);
            }
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
                // A window over depth reads a plane several times.
                let once = self.depth_window().is_none();
                let chained = self.chain.plane(self.source_depth, once).ok_or(FaultKind::NothingChained)?;
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
        self.load_interleaved(&SRC1_DMA, [RBase0, Rbe0], Src1Interleave, ext)
    }

    fn load_interleaved(&self, place: &Place, bar: [Field; 2], by: Field, ext: Extents) -> Result<Tensor, FaultKind> {
        let by = self.dividing(by, ext.c)?;
        let tensor = self.load_dma(place, bar[0], bar[1], interleaved(ext, by))?;
        Ok(if by == 1 { tensor } else { separate(&tensor, ext, by) })
    }

    /// Channels interleaved in each element; the number of channels is a multiple of it.
    fn dividing(&self, field: Field, channels: usize) -> Result<usize, FaultKind> {
        let by = self.interleave(field);
        if !channels.is_multiple_of(by) {
            return Err(self.inconsistent(field, "the channels are not a multiple of the interleave"));
        }
        Ok(by)
    }

    /// Loads source 2 with the extents that the task declares.
    pub(crate) fn source2(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        let mut tensor = match self.get(Src2Type) {
            1 => {
                self.in_memory(Src2MemFmt, Src2Fmt)?;
                self.load_interleaved(&SRC2_DMA, [RBase1, Rbe1], Src2Interleave, ext)?
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

    /// Rounds the result and stores it to the task's destination.
    pub(crate) fn store(&mut self, mut result: Tensor) -> Result<(), FaultKind> {
        match self.get(ResType) {
            residency::DMA => self.store_dma(result),
            residency::L2 => self.store_l2(&result),
            residency::DMA_KEEP => {
                self.store_l2(&result)?;
                self.store_dma(result)
            }
            residency::CHAIN => {
                let element = element_type(self.element(OutFmt)?);
                let nanos = cost::one_by_one(result.data.len());
                let arch = self.workers.arch;
                chunks(&mut result.data, THROUGH, nanos, |_, row| copy::through_row(arch, element, row));
                self.chain.keep(result);
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
        let by = self.dividing(DstInterleave, result.ext.c)?;
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

    /// Element format from a field.
    pub(crate) fn element(&self, field: Field) -> Result<Element, FaultKind> {
        match self.get(field) {
            format::UINT8 => Ok(Element::Uint8),
            format::INT8 => Ok(Element::Int8),
            format::FP16 => Ok(Element::Float16),
            value => Err(FaultKind::NotHonoured { field, value, reason: "elements are uint8, int8 or fp16" }),
        }
    }

    /// Checks that memory and operand have the same format: DMA does not convert elements.
    fn in_memory(&self, memory: Field, operand: Field) -> Result<(), FaultKind> {
        self.require(memory, self.get(operand), "no sample converts elements on the way from or to memory")
    }

    /// Byte address of the current depth plane, and strides of groups, channels and rows.
    pub(crate) fn place(&self, place: &Place) -> (u64, [u64; 3]) {
        let one_plane = |repeated| if self.get(repeated) == 1 { 0 } else { self.source_depth };
        let depth = match place.format {
            InFmt => one_plane(Src1BroadcastD),
            Src2Fmt => one_plane(Src2BroadcastD),
            _ => self.depth,
        };
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
        // Rows of trusted memory need no check one by one and are widened at once.
        if region.is_trusted()
            && element == Element::Float16
            && let Some(span) = self.span(place, home, ext)
            && let Some(data) = region.halfwords().get(span.range)
        {
            let (from, mut tensor) = (TensorView { data, strides: span.strides }, Tensor::zeros(ext)?);
            copy::widen(self.workers.arch, from, &mut tensor);
            return Ok(tensor);
        }
        let (base, strides) = self.place(place);
        load_rows(ext, base, strides, |address, row| region.read_row(place.base, address, element, row))
    }
}

/// Byte address of row `h` of channel `c` of group `g`; strides are group, channel, row.
pub(crate) fn address(base: u64, strides: [u64; 3], g: usize, c: usize, h: usize) -> u64 {
    base + g as u64 * strides[0] + c as u64 * strides[1] + h as u64 * strides[2]
}

pub(crate) fn each_row(
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
