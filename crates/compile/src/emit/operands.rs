//! Operands: DMA channels of sources and result, and their addresses in tile memory.

use super::{Emitter, Set, in_memory, zin421};
use crate::ir::*;
use crate::tile::copies;
use anemone_facts::Field::{self, *};
use anemone_facts::code::*;
use anemone_program::Program;

impl Emitter<'_> {
    pub(super) fn sources(&mut self, hints: &zin421::Hints, index: usize) -> Set {
        let first = self.layer.sources[0];
        let place = self.source_place(0);
        let streamed = place.is_none();
        let [hint, reuse, no_reuse] = if streamed { hints.source(index, 0) } else { [hint::NO_ALLOC; 3] };
        // The DMA of the first source is on where that of the second is (`chain_ffn_d512_s128_biasfull`, `chain_lnproj_d512_s512`).
        let beside = !streamed && self.conventions().planar_sources_flagged && self.second_streamed();
        if beside {
            self.set(Src1FmtMode, 1)?;
        }
        self.set_all(&[
            (Src1En, u32::from(streamed || beside)),
            (Src1CacheHint, hint),
            (Src1CacheHintReuse, reuse),
            (Src1CacheHintNoReuse, no_reuse),
        ])?;
        self.set_size(Src1Interleave, self.layer.source_interleave)?;
        if in_memory(place) {
            let fields = [Src1Base, Src1RowStride, Src1PlaneStride, Src1DepthStride, Src1GroupStride];
            self.set(DependencyMode, u32::from(hints.depends(index)))?;
            self.strides(&first, self.layer.source_interleave, fields)?;
            self.memory_format(&first, [Src1FmtMode, Src1Truncate, Src1MemFmt])?;
        }
        let second = self.second_source();
        let [hint, reuse, no_reuse] = match second {
            Some(_) if self.second_place().is_none() => hints.source(index, 1),
            _ => [hint::NO_ALLOC; 3],
        };
        self.set_all(&[(Src2CacheHint, hint), (Src2CacheHintReuse, reuse), (Src2CacheHintNoReuse, no_reuse)])?;
        if let Some(second) = second.filter(|_| self.second_place().is_none()) {
            let fields = [Src2Base, Src2RowStride, Src2PlaneStride, Src2DepthStride, Src2GroupStride];
            self.strides(&second, self.layer.interleave_of(1), fields)?;
            let halves = self.format(&second) == format::FP16;
            let truncate = if halves { constant::TRUNCATE } else { 0 };
            self.set_all(&[(Src2Truncate, truncate), (Src2MemFmt, self.format(&second)), (Src2Type, 1)])?;
        }
        let bit8 = self.is_neural() || self.conventions().planar_sources_flagged;
        let from = match streamed {
            // A row that is repeated stays for all tiles (`tile_r_1x1x375_reps_13751`).
            true if self.placed.residency.keeps(index) || self.layer.repeats_rows() => residency::DMA_KEEP,
            true => residency::DMA,
            false => residency::L2,
        };
        self.set_all(&[(SrcType, from), (Unk13840Bit8, u32::from(bit8))])
    }

    /// Mode, truncation and format of elements in memory; bytes have neither mode nor truncation.
    fn memory_format(&mut self, view: &View4, [mode, truncate, format]: [Field; 3]) -> Set {
        let halves = self.format(view) == format::FP16;
        let truncation = if halves { constant::TRUNCATE } else { 0 };
        self.set_all(&[(mode, u32::from(halves)), (truncate, truncation), (format, self.format(view))])
    }

    /// Returns true if a task reads its second source from memory.
    pub(super) fn second_streamed(&self) -> bool {
        self.second_source().is_some() && self.second_place().is_none()
    }

    pub(super) fn destination(&mut self, hints: &zin421::Hints, index: usize) -> Set {
        let result = self.layer.result;
        self.set_size(DstInterleave, self.layer.interleave)?;
        if in_memory(self.result_place()) {
            let fields = [DstBase, DstRowStride, DstPlaneStride, DstDepthStride, DstGroupStride];
            self.strides(&result, self.layer.interleave, fields)?;
            self.memory_format(&result, [DstFmtMode, DstTruncate, DstMemFmt])?;
            // 4.2.1 does not write the padding of planar results.
            let zero_pad = u32::from(self.is_neural() || self.conventions().planar_results_padded);
            self.set_all(&[(ZeroPadFirst, zero_pad), (ZeroPadLast, zero_pad)])?;
        }
        if self.result_place().is_some() {
            return self.set_all(&[(DstCacheHint, hint::DST_EXTERNAL), (ResType, residency::L2)]);
        }
        let external = self.address(&result).bar != Program::SCRATCH_BAR;
        let hint = if external { hint::DST_EXTERNAL } else { hint::DST_INTERMEDIATE };
        if !self.is_neural() && self.layer.transpose {
            return self.set_all(&[(DstEn, 1), (DstCacheHint, hint), (ResType, residency::DMA_KEEP)]);
        }
        // Results pass through one simple buffer: in 4.2.1 those that do not come from coefficients, in 9.509 all but
        // plain copies from memory and single columns that become rows.
        let copied = copies(self.layer) && self.source_place(0).is_none() && !self.copies_whole();
        let copied = copied || self.turns_to_rows();
        let bypasses = copied || self.conventions().bank_aware_tiles && self.cuts_columns();
        let simple = if self.conventions().copies_bypass_buffer { !bypasses } else { !self.convolves() };
        self.set_all(&[(DstEn, 1), (DstCacheHint, hint), (L2BfrMode, u32::from(simple))])?;
        if let Some((distance, kernel)) = hints.hazard(index) {
            let by = if kernel { HazardKernel } else { HazardEn };
            self.set_all(&[(by, 1), (HazardDistance, distance)])?;
        }
        self.set_all(&[(ResType, residency::DMA), (ResBfrMode, if simple { constant::SIMPLE_BUFFER } else { 0 })])
    }

    /// Returns true for a copy of a whole input to a whole output (`reduce_probe_mean_ax1_1x1x1x512`).
    pub(super) fn copies_whole(&self) -> bool {
        let whole = |v: &View4| {
            let port = self.placed.graph.buffer(v.buffer).port.as_ref();
            port.is_some_and(|port| port.elements() == v.count())
        };
        copies(self.layer) && !self.layer.transpose && whole(&self.layer.sources[0]) && whole(&self.layer.result)
    }

    /// Base and strides of one DMA engine; axes of a single element get the stride that a dense tensor would have.
    fn strides(&mut self, view: &View4, interleave: usize, [base, row, plane, depth, group]: [Field; 5]) -> Set {
        let address = self.address(view);
        let [g, c, h] = view.axes;
        let or =
            |axis: Axis, dense: u64| if axis.extent == 1 && axis.stride_bytes == 0 { dense } else { axis.stride_bytes };
        let row_bytes =
            or(h, ((view.width * interleave) as u64 * self.element_bytes(view)).next_multiple_of(ROW_ALIGN));
        let plane_bytes = or(c, row_bytes * h.extent as u64);
        let sets = if self.conventions().depths_by_set { c.extent.div_ceil(interleave) } else { c.extent };
        // A part of a matrix in sets counts those of the whole (`chain_ffn_d1024_s375_matmul_silu`).
        let part = base == DstBase && interleave > 1 && self.layer.convolves() && h.extent == 1;
        let buffer_bytes = if part { self.placed.graph.buffer(view.buffer).bytes } else { 0 };
        let parts = (buffer_bytes / plane_bytes.max(1)) as usize;
        let whole = zin421::whole_planes(self.placed, view).max(sets).max(parts) as u64;
        // Folded rows are further apart than planes: a depth contains all of them.
        let rows = if self.conventions().depths_by_set { row_bytes.saturating_mul(h.extent as u64) } else { 0 };
        let product = self.conventions().matrices_apart && matches!(self.layer.kind, Kind::Product { .. });
        let matrices = if product { zin421::whole_rows(self.placed, view) } else { 1 };
        let rows = rows.saturating_mul(matrices as u64);
        let whole_bytes = plane_bytes.saturating_mul(whole).max(rows).min(u32::MAX as u64 & !63);
        let merged = self.merged_rows(view).filter(|_| self.conventions().depths_by_set);
        let turned = self.layer.transpose && base == DstBase;
        let (plane_bytes, depth_bytes) = match merged {
            // A result that is transposed back consists of planes of one row (`reduce_probe_sum_ax2_1x32x4x4`).
            Some(merged) if turned => (merged, whole_bytes),
            merged => (plane_bytes, merged.unwrap_or(whole_bytes)),
        };
        // Rows that are planes of their channels.
        let reduced = if matches!(self.layer.kind, Kind::Deviation { .. }) { Src2Base } else { Src1Base };
        let row_bytes = match self.reduced_planes().filter(|_| base == reduced) {
            Some((_, planes)) => row_bytes * planes as u64,
            None => row_bytes,
        };
        self.set_bytes(base, address.offset_bytes)?;
        self.set_bytes(row, row_bytes)?;
        self.set_bytes(plane, plane_bytes)?;
        self.set_bytes(depth, depth_bytes)?;
        // A single group needs no stride: 4.2.1 writes none, 9.509 that of a whole depth.
        let idle = if self.conventions().single_groups_have_stride { whole_bytes } else { 0 };
        self.set_bytes(group, if g.extent > 1 { g.stride_bytes } else { idle })
    }

    /// Channels and rows of a port that a task reduces to one number, or from which a norm computes its deviation: its rows are planes
    /// then (`reduce_probe_mean_ax1_2_3_1x64x8x8`, `norm_layer_norm_ax1_2_3_1x64x8x8`). `None` for other tasks.
    pub(super) fn reduced_planes(&self) -> Option<(usize, usize)> {
        let (view, reads) = match self.layer.kind {
            Kind::Reduce { .. } => (&self.layer.sources[0], self.source_place(0).is_none()),
            Kind::Deviation { .. } => (&self.layer.sources[1], self.second_place().is_none_or(|place| !place.written)),
            _ => return None,
        };
        let streamed = reads && self.layer.source_interleave == 1;
        self.merged_rows(view).filter(|_| streamed && self.conventions().rows_reduced_as_planes)?;
        let port = self.placed.graph.buffer(view.buffer).port.as_ref()?.nchw()?;
        (port.height() > 1).then_some((port.channels(), port.height()))
    }

    /// Row stride, as depth, of a port of which a view merges channels and rows to its rows; `None` for other views.
    fn merged_rows(&self, view: &View4) -> Option<u64> {
        let port = self.placed.graph.buffer(view.buffer).port.as_ref()?.nchw()?;
        // Channels alone, beside a row of one element, are merged with nothing (`reduce_probe_mean_ax1_1x64x1x1`).
        let [_, plane, row] = view.axes;
        let beside = plane.stride_bytes > 0 && plane.stride_bytes == row.stride_bytes;
        let whole = port.channels() > 1 && view.height() == port.channels() * port.height() && !beside;
        let alone = view.channels() == 1 && view.groups() == 1 && port.groups() == 1;
        let row_bytes = (port.width as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        (whole && alone).then_some(row_bytes)
    }
}
