//! Moving operands in and results out: memory through base registers, tile memory, chained results.

use crate::fault::FaultKind;
use crate::machine::Machine;
use crate::number;
use crate::tensor::{Extents, Tensor};
use anemone_facts::Field::{self, *};
use anemone_facts::code::residency;

/// The fields that place one operand: in memory, or in tile memory.
pub(crate) struct Place {
    pub(crate) base: Field,
    row: Field,
    channel: Field,
    group: Field,
}

pub(crate) const SRC1_DMA: Place =
    Place { base: Src1Base, row: Src1RowStride, channel: Src1PlaneStride, group: Src1GroupStride };
pub(crate) const SRC2_DMA: Place =
    Place { base: Src2Base, row: Src2RowStride, channel: Src2PlaneStride, group: Src2GroupStride };
pub(crate) const DST_DMA: Place =
    Place { base: DstBase, row: DstRowStride, channel: DstPlaneStride, group: DstGroupStride };
pub(crate) const SRC1_L2: Place =
    Place { base: SrcL2Base, row: SrcL2RowStride, channel: SrcL2ChannelStride, group: SrcL2GroupStride };
pub(crate) const SRC2_L2: Place =
    Place { base: Src2L2Base, row: Src2L2RowStride, channel: Src2L2ChannelStride, group: Src2L2GroupStride };
pub(crate) const RES_L2: Place =
    Place { base: ResL2Base, row: ResL2RowStride, channel: ResL2ChannelStride, group: ResL2GroupStride };

impl Machine<'_> {
    /// Source 1 with the extents that the task declares for it.
    pub(crate) fn source1(&mut self, ext: Extents) -> Result<Tensor, FaultKind> {
        match self.get(SrcType) {
            residency::DMA => self.load_source1(ext),
            residency::DMA_KEEP => {
                let tensor = self.load_source1(ext)?;
                let (base, strides) = self.place(&SRC1_L2);
                let l2 = &mut self.l2;
                store_rows(&tensor, base, strides, |address, row| {
                    number::round_row(row, l2.write(SrcL2Base, address, row.len())?);
                    Ok(())
                })?;
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
        match self.get(Src2Type) {
            1 => self.load_dma(&SRC2_DMA, RBase1, Rbe1, ext),
            0 => self.load_l2(&SRC2_L2, ext),
            value => {
                Err(FaultKind::NotHonoured { field: Src2Type, value, reason: "no sample reads a source this way" })
            }
        }
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
                result.data.iter_mut().for_each(|x| *x = number::through_f16(*x));
                *self.chain = Some(result);
                Ok(())
            }
            value => Err(FaultKind::NotHonoured { field: ResType, value, reason: "no sample sends a result this way" }),
        }
    }

    fn store_dma(&mut self, mut result: Tensor) -> Result<(), FaultKind> {
        self.require(DstEn, 1, "a result that leaves by DMA needs the destination enabled")?;
        let bar = self.bar(WBase, Wbe)?;
        let (base, strides) = self.place(&DST_DMA);
        let by = self.interleave(DstInterleave, result.ext.c)?;
        if by > 1 {
            result = interlace(&result, by);
        }
        let region = self.memory.region_mut(bar).ok_or(FaultKind::Unbound { field: WBase, bar })?;
        store_rows(&result, base, strides, |address, row| {
            number::round_row(row, region.write(DstBase, address, row.len())?);
            Ok(())
        })
    }

    fn store_l2(&mut self, result: &Tensor) -> Result<(), FaultKind> {
        let (base, strides) = self.place(&RES_L2);
        let l2 = &mut self.l2;
        store_rows(result, base, strides, |address, row| {
            number::round_row(row, l2.write(ResL2Base, address, row.len())?);
            Ok(())
        })
    }

    /// Byte address, and strides of groups, channels and rows.
    pub(crate) fn place(&self, place: &Place) -> (u64, [u64; 3]) {
        (self.bytes(place.base), [self.bytes(place.group), self.bytes(place.channel), self.bytes(place.row)])
    }

    fn load_dma(&self, place: &Place, base_field: Field, enable: Field, ext: Extents) -> Result<Tensor, FaultKind> {
        let bar = self.bar(base_field, enable)?;
        let region = self.memory.region(bar).ok_or(FaultKind::Unbound { field: base_field, bar })?;
        let (base, strides) = self.place(place);
        load_rows(ext, base, strides, |address, row| {
            number::widen_row(region.read(place.base, address, row.len())?, row);
            Ok(())
        })
    }

    fn load_l2(&self, place: &Place, ext: Extents) -> Result<Tensor, FaultKind> {
        let (base, strides) = self.place(place);
        load_rows(ext, base, strides, |address, row| {
            number::widen_row(self.l2.read(place.base, address, row.len())?, row);
            Ok(())
        })
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
