//! Header of a task descriptor: order, base registers, operand flags, log events and estimated time.

use super::{Emitter, Set, in_memory};
use crate::ir::*;
use crate::lut::Table;
use crate::options::Convention;
use crate::stream::pack::engines_for;
use crate::tile::{computed, copies, fitting_rows, shared_rows, source_tile};
use anemone_facts::Field::*;
use anemone_facts::code::*;
use anemone_facts::{lut, staging};
use anemone_program::Program;

impl Emitter<'_> {
    pub(super) fn header(&mut self, index: usize, count: usize, kernel_bytes: u64) -> Set {
        let (first, last) = (index == 0, index + 1 == count);
        self.set_all(&[(Tid, index as u32), (Lnid, u32::from(!first)), (Eon, u32::from(last))])?;
        let moving = (self.moved() + self.moved_again() + kernel_bytes) / ESTIMATE_BYTES;
        // Larger planes are counted by their bytes: 16 columns are (`reduce_probe_sum_ax3_1x128x16x16`), 8 are not.
        let of_unit = |v: &View4| (v.height() * v.width) as u64 * ELEMENT_BYTES <= staging::UNIT_BYTES;
        let planes: u64 =
            self.streamed_sources().filter(|v| of_unit(v)).map(|v| (v.groups() * v.channels()) as u64).sum();
        let estimate = if self.conventions().estimates_count_planes {
            moving.max(planes / ESTIMATE_PLANES).max(self.computing())
        } else {
            moving
        };
        self.set(ExeCycles, estimate.min(0xffff) as u32)?;
        let log_first = if first && self.conventions().first_task_logged { constant::LOG_FIRST } else { 0 };
        self.set(LogEvents, constant::LOG_ALWAYS | log_first | if last { constant::LOG_LAST } else { 0 })?;
        let begins = match self.options.convention {
            Convention::Samples => constant::DEBUG_FIRST,
            Convention::Book => constant::DEBUG_FIRST_BOOK,
        };
        let mut debug = if first { begins } else { 0 } | if last { constant::DEBUG_LAST } else { 0 };
        debug |= match &self.layer.kind {
            Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None } => 0,
            Kind::Neuron { nonlinear: Nonlinear::Table(t), .. }
            | Kind::SumChannels { nonlinear: Nonlinear::Table(t) }
                if uses_mantissa(t) && !self.fills_several_units() =>
            {
                constant::DEBUG_COMPUTE_MANTISSA
            }
            _ => constant::DEBUG_COMPUTE,
        };
        self.set(DebugLogEvents, debug)?;
        let (opens, closes) = self.placed.residency.opens_and_closes(index);
        let saves = match self.conventions().places_by_use {
            true => self.placed.residency.saves_last(&self.placed.graph, index),
            false => closes,
        };
        self.set_all(&[(Spl, u32::from(opens)), (Tsr, u32::from(closes)), (Tse, u32::from(saves))])?;
        let (source, result) = (self.layer.sources[0], self.layer.result);
        let places = [self.source_place(0), self.second_place(), self.result_place()];
        let crosses = places.map(|p| p.is_some_and(|p| p.crosses));
        self.set_all(&[
            (
                SrcLoc,
                u32::from(places[0].is_none() || self.conventions().planar_sources_flagged && self.second_streamed()),
            ),
            (DstLoc, u32::from(places[2].is_none())),
            (Spc, u32::from(crosses[0] || crosses[1])),
            (Dpc, u32::from(crosses[2])),
        ])?;
        self.overlap()?;
        if in_memory(places[0]) {
            self.set_all(&[(RBase0, self.address(&source).bar as u32), (Rbe0, 1)])?;
        }
        if let Some(second) = self.second_source().filter(|_| places[1].is_none()) {
            let bar = self.address(&second).bar;
            self.set_all(&[(RBase1, bar as u32), (Rbe1, 1)])?;
        }
        if in_memory(places[2]) {
            self.set_all(&[(WBase, self.address(&result).bar as u32), (Wbe, 1)])?;
        }
        self.set_all(&[(TBase, Program::STREAM_BAR as u32), (Tbe, u32::from(!last))])?;
        if let Kind::Product { .. } = self.layer.kind {
            let bar = self.address(&self.layer.sources[1]).bar;
            let staged = self.conventions().products_wait_for_staging && bar == Program::SCRATCH_BAR;
            self.set_all(&[(KBase0, bar as u32), (Kbe0, 1), (Tde, u32::from(staged))])?;
            let planes = self.layer.sources[1].buffer;
            let writer = self.placed.graph.layers[..index].iter().rposition(|l| l.result.buffer == planes);
            if let Some(writer) = writer.filter(|_| staged) {
                // The word after the fixed ones.
                self.task.header.push(0);
                self.set(Dtid, writer as u32)?;
            }
        } else if kernel_bytes > 0 {
            self.set_all(&[(KBase0, Program::KERNEL_BAR as u32), (Kbe0, 1)])?;
        }
        Ok(())
    }

    /// Returns true where channels become more columns than a work unit has: 256 do (`binary_real_div_1x256x1x1`), 64 do not; or where a
    /// single channel is summed whose row has more (`norm_softmax_a1_1x1x1x512`; 128 columns have not).
    fn fills_several_units(&self) -> bool {
        let single = matches!(self.layer.kind, Kind::SumChannels { .. }) && self.layer.sources[0].channels() == 1;
        (self.layer.transpose || single) && self.layer.result.width > 1 << staging::NEURAL_UNIT
    }

    /// Tasks of a chain overlap.
    fn overlap(&mut self) -> Set {
        let allocations = self.placed.residency.allocations();
        let follows = self.index > 0 && !self.layer.is_neural() && allocations.chains(self.index - 1);
        let (first, second) = (allocations.chains(self.index), follows);
        let bits = [(OverlapFirst, first), (OverlapSecond, second), (DisallowAbort, first)];
        bits.into_iter().try_for_each(|(field, on)| self.set(field, u32::from(on)))
    }

    /// Cost of a task's computation, in units of [`ExeCycles`].
    fn computing(&self) -> u64 {
        let elements = |least: u64, most: u64| {
            let count =
                |v: &View4| (v.groups() * v.channels() * v.height()) as u64 * (v.width as u64).clamp(least, most);
            self.layer.sources.iter().map(count).max().unwrap_or(0)
        };
        let (planar, rows, columns) = ESTIMATE_PLANAR;
        let place = self.source_place(0).filter(|place| place.written);
        let planar_result = place.is_some_and(|place| !self.placed.graph.layers[place.from].is_neural());
        let units = self.input().1 > 1 && fitting_rows(self.layer) > 0 && self.conventions().places_by_use;
        let meanwhile = planar_result && !(units && self.waits_on(self.index).is_none());
        match self.layer.kind {
            Kind::Reduce { .. } | Kind::Deviation { .. } | Kind::InverseRms { .. } => {
                let side = self.input().1 as u64;
                // Rows of one plane are counted by their columns (`norm_layer_norm_ax1_2_3_1x4096x1x1`: 4096 of one have 0).
                let least = if side == 1 { ESTIMATE_COLUMNS_LEAST } else { 1 };
                let side = side.clamp(1, rows);
                // Patches that a row fills are as fast as rows in parallel (`chain_lnproj_d512_s128`: 128 rows of 512 columns have 1;
                // `chain_lnproj_d768_s64`: 64 rows of 768 have 2).
                let row = |width: u64| {
                    let full = width / columns * columns;
                    full * side + (width - full).max(if full > 0 { 0 } else { least }) * rows
                };
                let cost = |v: &View4| (v.groups() * v.channels() * v.height()) as u64 * row(v.width as u64);
                self.layer.sources.iter().map(cost).max().unwrap_or(0) / side / planar
            }
            // Single columns take the time of 32 (`norm_softmax_an1_1x4096x1x1`: 4096 have 2).
            Kind::Planar { .. } if self.layer.transpose && self.input() == (self.input().0, 1, 1) => {
                elements(ESTIMATE_COLUMNS_LEAST, u64::MAX) / planar
            }
            Kind::Planar { .. } | Kind::ChannelAffine { .. } => elements(1, u64::MAX) / planar,
            // A transposed copy is faster (`env_mm_r2rb_m32_k4096_n4096_tx1_ty1`: 131072 elements have 1), but not of what the planar engine
            // computes meanwhile, or whose rows fill units (`chain_lnproj_d512_s128`: 65536 have 2; `chain_block_d512_s64_proj1`: 32768
            // have 1; not `norm_layer_norm_ax1_1x128x16x16`: 32768 have 0). A single channel, which one engine computes, is slower
            // (`env_chain_softmax_h1_s128`: 16384 have 1; `chain_ffn_d512_s128_biasfull`: 262144 have 28).
            Kind::Neuron { .. } if copies(self.layer) && self.layer.transpose && !meanwhile => {
                elements(1, u64::MAX) / (4 * ESTIMATE_NEURAL)
            }
            Kind::Neuron { .. }
                if !copies(self.layer) && self.layer.result.channels() == 1 && self.layer.result.height() > 1 =>
            {
                let times = match self.element_bytes(&self.layer.sources[0]) {
                    1 => ESTIMATE_SINGLE_BYTES,
                    _ => ESTIMATE_SINGLE,
                };
                times * elements(1, u64::MAX) / planar
            }
            // Pairs of channels are multiplied (`binary_pow_1x3x224x224`: 301056 elements have 8).
            Kind::MulChannels { .. } => elements(1, u64::MAX) / 2 / ESTIMATE_NEURAL,
            Kind::Neuron { .. } => elements(1, u64::MAX) / ESTIMATE_NEURAL,
            Kind::Conv { .. } => {
                let r = &self.layer.result;
                let outputs = if self.layer.transpose { r.width } else { r.channels() };
                self.macs() / engines_for(outputs) as u64 * ESTIMATE_MACS.1 / ESTIMATE_MACS.0
            }
            // 128 rows of 512 columns that 128 coefficients each multiply have 1 (`chain_block_d512_s128_proj0`).
            // An engine takes as long for fewer lanes as for four (`bmm_r3rb_m375_k128_n749_tx0_ty0_b2`: 749 columns of one lane have
            // 1 for 128 coefficients; `bmm_r3rr_m375_k375_n128_tx0_ty0_b8`: 128 have 0 for 375).
            Kind::Product { lanes, .. } if self.conventions().places_by_use => {
                let r = &self.layer.result;
                let outputs = (r.groups() * r.channels() * r.height() * r.width) as u64;
                let idle = (staging::PRODUCT_LANES[1] / lanes.max(1)).max(1) as u64;
                let macs = outputs * self.layer.sources[0].channels() as u64 * idle;
                macs / engines_for(r.channels()) as u64 * ESTIMATE_MACS.1 / ESTIMATE_MACS.0
            }
            // One engine adds channels in units of 16 by 16 positions (`norm_softmax_a1_1x2048x1x1`: 2048 have 1).
            Kind::SumChannels { .. } => {
                let source = &self.layer.sources[0];
                let positions = (source.height() * source.width).next_multiple_of(1 << (2 * staging::PATCH_REWRITTEN));
                (source.channels() * positions) as u64 * ESTIMATE_MACS.1 / ESTIMATE_MACS.0
            }
            _ => 0,
        }
    }

    /// Multiply-accumulates of a convolution over all groups; zero for other tasks.
    pub(super) fn macs(&self) -> u64 {
        let Kind::Conv { weights, .. } = &self.layer.kind else { return 0 };
        let r = &self.layer.result;
        let outputs = if self.layer.transpose { r.width } else { r.channels() };
        (weights.values.len() * (r.channels() * r.height() * r.width / outputs.max(1))) as u64
    }

    /// Bytes of the rows that two neighbouring tiles of a convolution both read
    /// (`encoder_conv_idx_c256_n256_k3x3_s2_g256_bias1_same_dw1`: 62 of 32 KiB).
    fn moved_again(&self) -> u64 {
        let Some((own, ..)) = self.rows_streamed(self.index, &source_tile(self.layer)) else { return 0 };
        let source = &self.layer.sources[0];
        let [groups, channels, _] = source.axes;
        let row = View4 { axes: [groups, channels, Axis { extent: 1, stride_bytes: 0 }], ..*source };
        let tiles = computed(self.layer)[1].div_ceil(own) as u64;
        (tiles - 1) * shared_rows(self.layer) as u64 * dma_bytes(&row, self.element_bytes(source), 1)
    }

    /// Bytes of sources and result that the DMA moves.
    pub(super) fn moved(&self) -> u64 {
        let in_sets = self.layer.is_elementwise() || matches!(self.layer.kind, Kind::Conv { .. });
        let sets = |by: usize| if in_sets { by } else { 1 };
        let streams = |i: &usize| self.source_place(*i).is_none();
        let sources = (0..self.layer.sources.len()).filter(streams);
        let sources = sources.map(|i| (&self.layer.sources[i], sets(self.layer.interleave_of(i))));
        let result = Some((&self.layer.result, sets(self.layer.interleave))).filter(|_| self.result_place().is_none());
        sources.chain(result).map(|(view, by)| dma_bytes(view, self.element_bytes(view), by)).sum()
    }
}

/// Bytes that the DMA moves for a view with channels in sets of `by`: whole 64-byte granules per row.
fn dma_bytes(view: &View4, element_bytes: u64, by: usize) -> u64 {
    let rows: u64 = view.axes.iter().map(|a| a.extent as u64).product();
    rows / by as u64 * ((view.width * by) as u64 * element_bytes).next_multiple_of(ROW_ALIGN)
}

/// Returns true for tables that are indexed by an argument's mantissa, which log fewer events.
fn uses_mantissa(table: &Table) -> bool {
    use lut::Mode::*;
    matches!(table.mode, Sqrt | Rsqrt | Reciprocal | Log2)
}
