//! Staging as zin 9.509 does it, derived from its output for single operations (`docs/evidence.md`, key `h13-oracles`).

use super::{Emitter, in_memory};
use crate::ir::*;
use crate::memory::Place;
use crate::tile::{
    Tile, apart, apart_in_unit, computed, copies, cut_columns, halved_tile, input, kept_bytes, kept_tile, result_tile,
    row_bytes, rows_of_units, rows_of_windows, rows_that_fill, rows_turned, source_tile, spread,
};
use anemone_facts::Field::{self, *};
use anemone_facts::code::format;
use anemone_facts::staging::*;
use anemone_program::FieldError;

/// Strides of one operand in tile memory, in register order.
type Strides = [u64; 4];
const SOURCE: [Field; 4] = [SrcL2ChannelStride, SrcL2RowStride, SrcL2DepthStride, SrcL2GroupStride];
const SECOND: [Field; 4] = [Src2L2ChannelStride, Src2L2RowStride, Src2L2DepthStride, Src2L2GroupStride];
const RESULT: [Field; 4] = [ResL2ChannelStride, ResL2RowStride, ResL2DepthStride, ResL2GroupStride];

impl Emitter<'_> {
    pub(super) fn staging_9509(&mut self, index: usize) -> Result<(), FieldError> {
        let layer = self.layer;
        let [_, hin, win] = input(layer);
        let [_, hout, _] = computed(layer);
        let tile = self.staged_tile(index);
        let patch = self.patch(index, &tile);
        let tile = self.tile_of_patch(index, tile, patch.0);
        let alone = matches!(layer.kind, Kind::Reduce { .. } | Kind::InverseRms { .. });
        let hout = if alone || matches!(layer.kind, Kind::Deviation { .. }) { hin } else { hout };
        // A source in tile memory limits no rows (`binary_pow_1x3x224x224`).
        let whole = tile.rows == hin
            || matches!(layer.kind, Kind::MulChannels { .. })
                && self.source_place(0).is_some()
                && result_tile(layer).rows == hout
            // Nor do two of the planar engine (`chain_resffn_d512_s128`: 128 rows of 512 columns).
            || matches!(layer.kind, Kind::Planar { .. }) && self.source_place(0).is_some() && self.second_place().is_some();
        let height = match &layer.kind {
            _ if whole => hout,
            Kind::Conv { window, .. } if rows_of_units(layer).is_some() => tile.rows / window.stride[0],
            _ => tile.rows.min(hout).max(1),
        };
        // A source that later tasks read too is reduced in pieces.
        let keeps = self.placed.residency.keeps(index);
        let height = if alone && keeps { height.min(PLANAR_ROWS) } else { height };
        // Single columns that are transposed from tile memory are processed unit by unit.
        let turns = layer.kind.is_copy() && layer.transpose && win == 1 && self.source_place(0).is_some();
        let height = if turns { height.min(1 << PATCH_REWRITTEN) } else { height };
        // Planes are staged side by side.
        let planes = self.reduced_planes();
        let height = planes.map_or(height, |(rows, _)| if keeps { rows.min(PLANAR_ROWS) } else { rows });
        let streamed = self.rows_streamed(index, &tile);
        self.set_size(TileHeight, streamed.map_or(height, |(computed, ..)| computed))?;
        if layer.is_neural() {
            self.shapes()?;
        } else {
            self.set_all(&[(PatchWidth, patch.0), (PatchHeight, patch.1)])?;
        }

        // Operands from memory are staged above the resident ones: source, second source, result.
        let mut base = self.placed.residency.top(index);
        // Rows that the next layer reads too have the strides that it expects.
        let through = copies(layer) && !layer.transpose && self.result_place().is_some() && tile.rows > 1;
        let row = match keeps && hin == 1 {
            true => tile.row_bytes,
            false if !self.placed.residency.spreads() => tile.row_bytes,
            // Few rows are left as they fall (`norm_softmax_an1_1x32x4x4`).
            false if through && hin < COPY_ROWS => tile.row_bytes,
            false if through && !keeps => apart_in_unit(layer, tile.row_bytes / UNIT_BYTES, 1) * UNIT_BYTES,
            false => row_bytes(layer, &tile, layer.sources[0].height(), keeps, self.chip),
        };
        let (rows, row) = streamed.map_or((tile.rows, row), |(_, read, row)| (read, row));
        let rows = rows as u64;
        let (staged, rows) = self.staged_strides(&tile, (row, rows), planes, keeps);
        let [_, row, depth, _] = staged;
        let taken = if layer.repeats_rows() { depth } else { row * rows };
        let first = self.source_place(0);
        // The next layer expects a source that stays where it was placed.
        base = if keeps { base } else { self.beside_element(base) };
        let mut staged_second = None;
        if let Some(place) = first {
            self.set_bytes(SrcL2Base, place.base_bytes)?;
            self.set_each(SOURCE, place.strides)?;
        } else {
            self.set_bytes(SrcL2Base, base)?;
            self.set_each(SOURCE, staged)?;
            base += taken;
        }
        if self.second_source().is_some() {
            if let Some(place) = self.second_place() {
                self.set_bytes(Src2L2Base, place.base_bytes)?;
                let [channel, .., group] = place.strides;
                let strides = planes.map_or(place.strides, |_| [channel, row, depth, group]);
                self.set_each(SECOND, strides)?;
            } else {
                // The same tensor again follows directly (`chain_res_relu_d1024`: 0x4020).
                match first {
                    None if layer.sources[0].elements() != layer.sources[1].elements() => {
                        base = apart(base - taken, base);
                    }
                    // Also behind a first source that stays (`chain_ffn_d512_s128_biasfull`: 0x128840 behind 0x128800).
                    Some(place) if self.conventions().places_by_use => base = apart(place.base_bytes, base),
                    _ => {}
                }
                staged_second = Some(base..base + taken);
                self.set_bytes(Src2L2Base, base)?;
                self.set_each(SECOND, staged)?;
                base += taken;
            }
        }
        self.stage_result(base, &tile)?;
        self.aliases(index, staged_second.filter(|_| first.is_some()))?;
        let halves = self.format(&layer.sources[0]) == format::FP16;
        self.set(SrcDmaFmt, u32::from((in_memory(first) || self.second_streamed()) && halves))?;
        self.set_size(SrcDmaInterleave, layer.source_interleave)?;
        self.set(ResDmaFmt, u32::from(self.format(&layer.result) == format::FP16))?;
        self.set_size(ResDmaInterleave, layer.interleave)
    }

    /// Strides of a first source in tile memory, in register order, and its rows there; given the distance and number of rows of its tile.
    fn staged_strides(
        &self,
        tile: &Tile,
        (row, rows): (u64, u64),
        planes: Option<(usize, usize)>,
        keeps: bool,
    ) -> (Strides, u64) {
        if let Some((_, strides)) =
            kept_bytes(self.layer).filter(|_| keeps && self.element_bytes(&self.layer.sources[0]) == 1)
        {
            return ([strides[0], strides[1], strides[2], strides[2]], rows);
        }
        // Rows that are repeated are staged whole (`tile_r_1x8x1x375_reps_113751`).
        if self.layer.repeats_rows() {
            let [channels, _, width] = input(self.layer);
            let whole = Tile::within(u64::MAX, [channels, 1, width], width, 1);
            return ([whole.channel_bytes, whole.channel_bytes, whole.row_bytes, whole.row_bytes], 1);
        }
        let Some((rows, planes)) = planes else {
            return ([tile.channel_bytes, row, tile.row_bytes, tile.row_bytes], rows);
        };
        let row = tile.row_bytes * planes as u64;
        // Rows that are read together start in different banks (`reduce_probe_mean_ax1_2_3_1x128x16x16`: 0x210 for 0x200).
        let row = if keeps { row } else { spread(row / UNIT_BYTES, 1, ROWS_OF_PLANES) * UNIT_BYTES };
        ([tile.channel_bytes, row, tile.row_bytes, row], rows as u64)
    }

    /// Tile of the first source. Bytes that the planar engine reads are staged by 32 columns (`cast_b_to_f16_1x1x375x375`).
    fn staged_tile(&self, index: usize) -> Tile {
        let layer = self.layer;
        let [channels, height, width] = input(layer);
        if self.element_bytes(&layer.sources[0]) == 1 && matches!(layer.kind, Kind::Pool { .. }) {
            return Tile::of(channels, height, width, PLANAR_COLUMNS_OF_TWO, height);
        }
        let tile = if self.placed.residency.keeps(index) { kept_tile(layer) } else { source_tile(layer) };
        // Beside a resident second source, a first one has more rows (`env_bcast_add_1x8x375x128_blob_1x8x1x128`: 750 KiB).
        let beside = matches!(layer.kind, Kind::Planar { .. }) && self.second_place().is_some();
        if beside && self.source_place(0).is_none() && self.conventions().places_by_use {
            let whole = Tile::within(COPY_BYTES, [channels, height, width], tile.columns, height);
            return if whole.rows == height && whole.columns == tile.columns { whole } else { tile };
        }
        self.halved(index).unwrap_or_else(|| self.fitting_turned(index, tile))
    }

    /// A tile that does not fit beside what is in tile memory has half the columns of a copy where the result stays
    /// (`env_chain_softmax_h12_s256`: 64 of 256 columns beside 1.5 MiB).
    pub(super) fn halved(&self, index: usize) -> Option<Tile> {
        let streamed = self.source_place(0).is_none() && self.result_place().is_some();
        let capacity = self.chip.hal.l2_bytes.filter(|_| streamed)?;
        let tile = source_tile(self.layer);
        let free = capacity.saturating_sub(self.placed.residency.top(index));
        halved_tile(self.layer).filter(|_| tile.row_bytes * tile.rows as u64 > free)
    }

    /// Start of a first source: beside an element in tile memory it is in other banks (`floor_div_native_1_rr`: 0x50 for 0x10).
    fn beside_element(&self, base: u64) -> u64 {
        let single = self.source_place(0).is_none() && input(self.layer) == [1; 3];
        self.second_place().filter(|_| single).map_or(base, |element| apart(element.base_bytes, base))
    }

    /// A tile of rows that are turned with as many whole units as fit beside what is in tile memory, with the rows of a result that goes to memory
    /// (`bmm_r3rr_m375_k375_n128_tx1_ty0_b8`: six of eight).
    fn fitting_turned(&self, index: usize, tile: Tile) -> Tile {
        let capacity = self.chip.hal.l2_bytes.filter(|_| self.source_place(0).is_none());
        let (Some(unit), Some(capacity)) = (rows_turned(self.layer), capacity) else { return tile };
        let stored = self.result_place().is_none();
        let row = tile.row_bytes + if stored { result_tile(self.layer).row_bytes } else { 0 };
        let free = capacity.saturating_sub(self.placed.residency.top(index));
        let rows = (free / row) as usize >> unit << unit;
        Tile { rows: tile.rows.min(rows.max(1)), ..tile }
    }

    /// Rows that a task from memory to memory computes and reads at a time, and their distance, where nothing else is in tile memory.
    pub(super) fn rows_streamed(&self, index: usize, tile: &Tile) -> Option<(usize, usize, u64)> {
        let streamed = self.source_place(0).is_none() && self.result_place().is_none();
        let alone = self.placed.residency.top(index) == 0 && !self.placed.residency.keeps(index);
        let capacity = self.chip.hal.l2_bytes.filter(|_| streamed && alone && self.conventions().places_by_use)?;
        if let Some(rows) = rows_that_fill(self.layer, capacity) {
            return Some(rows);
        }
        let row = row_bytes(self.layer, tile, self.layer.sources[0].height(), false, self.chip);
        rows_of_windows(self.layer, row, capacity).map(|(own, read)| (own, read, row))
    }

    /// Patch of the planar engine: columns and rows, as powers of two.
    fn patch(&self, index: usize, tile: &Tile) -> (u32, u32) {
        let layer = self.layer;
        let [_, hin, win] = input(layer);
        let log2 = |n: usize| n.next_power_of_two().ilog2();
        let sources = if matches!(layer.kind, Kind::Deviation { .. }) { 2 } else { layer.sources.len() };
        let columns = log2(win.min(tile.columns)).clamp(4, 9);
        // Several rows of a deviation leave 32 columns (`norm_layer_norm_ax1_2_3_1x8x1x64`).
        let several = matches!(layer.kind, Kind::Deviation { .. }) && hin > 1;
        let columns = if several { columns.min(PATCH_OF_DEVIATION) } else { columns };
        let most = if sources > 1 { PATCH_OF_TWO } else { PATCH_OF_ONE }.saturating_sub(columns);
        match layer.kind {
            // A single element has a square (`floor_div_comp_1_s2`, `floor_div_native_1_rr`).
            Kind::Planar { .. } | Kind::Pool { .. } if input(layer) == [1; 3] => (PATCH_REWRITTEN, PATCH_REWRITTEN),
            // A result that the neural engine rewrites in place has its work units.
            Kind::Planar { .. } if self.rewritten(index) => (PATCH_REWRITTEN, PATCH_REWRITTEN),
            // So has one that a copy turns (`norm_layer_norm_ax1_1x64x8x8`).
            Kind::Planar { .. } if hin > 1 && self.turned_next(index) => (PATCH_REWRITTEN, PATCH_REWRITTEN),
            // Factors that were turned to columns leave the patch as it is (`chain_pair_ln_gelu_d256_s64`: 256 columns), except before a
            // copy that transposes the result of an input (`chain_lnproj_d256_s64`; not of a sum, `chain_block_d256_s64_proj1`).
            Kind::ChannelAffine { .. } if layer.turned[1] && (!self.turned_next(index) || self.follows_sum()) => {
                (columns, log2(tile.rows).min(most))
            }
            // Results that stay on chip for the neural engine have patches closer to squares (`chain_pair_add_ln_d256_s64`: not those
            // that the planar engine reads).
            Kind::Planar { .. } | Kind::ChannelAffine { .. }
                if self.result_place().is_some()
                    && win >= 1 << 4
                    && (self.stays_for_neural(index) || matches!(layer.kind, Kind::ChannelAffine { .. })) =>
            {
                let columns = PATCH_THAT_STAYS.saturating_sub(log2(hin)).clamp(4, columns.max(4));
                (columns, (PATCH_THAT_STAYS - columns).max(log2(hin).min(4)))
            }
            // A maximum of a product's rows has its work unit (`chain_attn_s64_dh64`: two rows of 64).
            Kind::Reduce { .. } if self.reduces_product() => (columns, PATCH_THAT_STAYS.saturating_sub(columns).min(1)),
            _ => (columns, log2(tile.rows).min(most)),
        }
    }

    /// Tile of a planar task of two operands, one from memory, whose result stays: it has the columns of the patch, and no fewer than a
    /// granule of memory (`chain_lnproj_d512_s512`: 128 of 512; `chain_ffn_d512_s128_biasfull`: 32 of 2048, with all rows).
    fn tile_of_patch(&self, index: usize, tile: Tile, columns: u32) -> Tile {
        let two = matches!(self.layer.kind, Kind::Planar { .. } | Kind::ChannelAffine { .. });
        let streamed = self.source_place(0).is_none() || self.second_streamed();
        let cut = two && streamed && self.result_place().is_some() && !self.placed.residency.keeps(index);
        let columns = (1 << columns).max(COPY_COLUMNS_LEAST);
        if !cut || !self.conventions().places_by_use || columns >= tile.columns {
            return tile;
        }
        let [channels, height, width] = input(self.layer);
        Tile::of(channels, height, width, columns, height)
    }

    /// Place of the result: its own where it stays, else `base`.
    fn stage_result(&mut self, base: u64, tile: &Tile) -> Result<(), FieldError> {
        let layer = self.layer;
        let [_, _, win] = input(layer);
        let streamed = self.source_place(0).is_none();
        if let Some(place) = self.result_place() {
            self.set_bytes(ResL2Base, place.base_bytes)?;
            let mut strides = place.strides;
            if layer.result.groups() > 1 && layer.result.height() == 1 {
                // The group stride of single rows is that of all groups.
                strides[1] = layer.result.groups() as u64 * strides[3];
            }
            self.set_each(RESULT, strides)?;
        } else {
            self.set_bytes(ResL2Base, base)?;
            if !layer.is_neural() && layer.transpose {
                let channel = (layer.result.width as u64 * ELEMENT_BYTES).next_multiple_of(UNIT_BYTES);
                let groups = layer.result.groups() as u64;
                let idle = if groups == 1 { channel } else { 0 };
                self.set_each(RESULT, [channel, channel * groups, channel, idle])?;
            } else if self.turns_to_rows() {
                let row = (layer.result.width as u64 * ELEMENT_BYTES).next_multiple_of(UNIT_BYTES);
                self.set_each(RESULT, [row; 4])?;
            } else if self.cuts_columns() {
                // The result's tiles are those of the sources.
                let row = row_bytes(layer, tile, layer.result.height(), false, self.chip);
                self.set_each(RESULT, [tile.channel_bytes, row, tile.row_bytes, tile.row_bytes])?;
            } else if copies(layer) && streamed && !self.copies_whole() {
                // The channels of bytes that are written take half the space (`candidate_transpose_bool_1x375x375_021`: 0x180).
                let mut out = result_tile(layer);
                if self.element_bytes(&layer.result) == 1 {
                    out.channel_bytes = (out.columns as u64).next_multiple_of(UNIT_BYTES);
                    out.row_bytes = out.channel_bytes * layer.result.channels() as u64;
                }
                let height = layer.result.height();
                let row = match height > 1 && self.placed.residency.spreads() {
                    // Four rows of a cut tile are read and written beside each other (`encoder_slice_lastdim`: 0x8a for 0x80).
                    true if tile.columns < win && height >= COPY_ROWS => {
                        let (rows, gap) = FEW_NEURAL_BANKS;
                        spread(out.row_bytes / UNIT_BYTES, 1, (rows, 2 * gap)) * UNIT_BYTES
                    }
                    true => row_bytes(layer, &out, height, false, self.chip),
                    false => out.row_bytes,
                };
                self.set_each(RESULT, [out.channel_bytes, row, out.row_bytes, out.row_bytes])?;
            }
        }
        Ok(())
    }

    /// Returns true for a copy that stores single columns from tile memory as rows of one channel, each of more than a unit
    /// (`reduce_probe_mean_ax2_1x128x16x16`: 128 rows of 16).
    pub(super) fn turns_to_rows(&self) -> bool {
        let [_, height, width] = input(self.layer);
        let rows = self.layer.result.channels() == 1 && height > 1 && width == 1;
        let wide = self.layer.result.width as u64 * ELEMENT_BYTES > UNIT_BYTES;
        let stored = self.source_place(0).is_some() && self.result_place().is_none();
        copies(self.layer) && self.layer.transpose && rows && wide && stored && self.conventions().places_by_use
    }

    /// Returns true for a planar task whose sources, all from memory or all in tile memory, are cut to some of their columns
    /// (`candidate_select_rrb_1x1024x375_bcast_cond`: the sum), and whose result has its channels apart.
    pub(super) fn cuts_columns(&self) -> bool {
        let stay = [self.source_place(0), self.second_place()].map(|place| place.is_some());
        let alike = stay == [false; 2] || self.conventions().places_by_use && stay == [true; 2];
        cut_columns(self.layer).is_some() && alike && self.layer.interleave == 1
    }

    fn set_each(&mut self, fields: [Field; 4], strides: Strides) -> Result<(), FieldError> {
        fields.into_iter().zip(strides).try_for_each(|(field, bytes)| self.set_bytes(field, bytes))
    }

    /// Returns true if the next task rewrites a result in tile memory row by row on the neural engine.
    fn rewritten(&self, index: usize) -> bool {
        let layers = &self.placed.graph.layers;
        let Some(next) = layers.get(index + 1) else { return false };
        let (result, same) = (&self.layer.result, next.sources[0].buffer == self.layer.result.buffer);
        let each = matches!(next.kind, Kind::Neuron { .. }) && !next.transpose && result.height() > 1;
        let stays = |view: &View4| self.placed.residency.resident(view).is_some_and(|place| !place.crosses);
        same && each && stays(result) && stays(&next.result)
    }

    /// Returns true if a copy turns the result next.
    fn turned_next(&self, index: usize) -> bool {
        let next = self.placed.graph.layers.get(index + 1);
        let reads = |next: &&Layer| next.sources[0].buffer == self.layer.result.buffer;
        next.filter(reads).is_some_and(|next| next.kind.is_copy() && next.transpose) && self.result_place().is_some()
    }

    /// Returns true if the neural engine computes next; from other operands only if those are not of this task either
    /// (`candidate_select_rrb_1x1024x375_bcast_cond`: the second table of a condition).
    fn stays_for_neural(&self, index: usize) -> bool {
        let reads = |next: &Layer| next.sources.iter().any(|s| s.buffer == self.layer.result.buffer);
        let apart = |next: &Layer| {
            self.conventions().booleans_are_bytes && self.element_bytes(&next.sources[0]) == 1 && !reads(next)
        };
        self.placed.graph.layers.get(index + 1).is_none_or(|next| next.is_neural() && !apart(next))
    }

    /// Returns true if a task reads memory for a result that stays, and no later task reads the same from tile memory.
    fn loads_resident(&self, index: usize) -> bool {
        let streamed = self.source_place(0).is_none() && !self.placed.residency.keeps(index);
        streamed && self.result_place().is_some()
    }

    /// Returns true if a task brings its source into tile memory by some of the columns at a time.
    pub(super) fn cut_in_columns(&self) -> bool {
        let [_, rows, columns] = input(self.layer);
        self.loads_resident(self.index) && rows > COPY_ROWS && source_tile(self.layer).columns < columns
    }

    /// Returns true if the first source of a task is in tile memory or kept there, and its result only there.
    pub(super) fn resides(&self) -> bool {
        let source = self.source_place(0).map_or_else(|| self.placed.residency.keeps(self.index), |p| !p.crosses);
        source && self.result_place().is_some_and(|p| !p.crosses)
    }

    /// The engine (1 neural, 2 planar) whose result a task consumes element by element while it is written: that of the
    /// previous task.
    pub(super) fn waits_on(&self, index: usize) -> Option<u32> {
        let (layer, before) = (self.layer, &self.placed.graph.layers[index - 1]);
        let place = self.source_place(0).filter(|p| p.written && p.from + 1 == index)?;
        let alike = before.result.elements() == layer.sources[0].elements();
        let (opens, _) = self.placed.residency.opens_and_closes(index);
        // A row that the planar engine turned to or from channels is read whole (`norm_layer_norm_ax1_1x2048x1x1`), but a sum
        // that is a factor of all elements (`norm_softmax_a3_1x8x1x64`).
        let factor = matches!(layer.kind, Kind::Planar { .. }) && layer.broadcast[0] != [false; 3];
        let turns = !layer.is_neural() && !factor && (layer.turned[0] || !before.is_neural() && before.transpose);
        // A norm's mean shares its buffer with the deviation that is computed from it (`norm_layer_norm_ax1_1x2048x1x1`), unless the
        // planar engine has brought the row itself (`env_chain_ln_matmul_m1_k2048_n2048`).
        let mean = self.conventions().norms_by_group
            && matches!(layer.kind, Kind::Deviation { .. })
            && self.second_place().is_some_and(|row| row.written);
        // A product may start before its group does, on the rows of a copy (`chain_ffn_d256_s256`).
        // Rows that the planar engine stages as coefficients are read whole (`chain_block_d512_s128_proj0`).
        let stages =
            self.conventions().places_by_use && !layer.is_neural() && layer.interleave > 1 && layer.sources.len() == 1;
        let opens = opens && !(before.is_neural() && layer.convolves() && self.conventions().places_by_use);
        // The numbers of a norm are read as they are written if its operand is a sum that a later sum reads too
        // (`chain_block_d256_s64_proj1`; not `chain_pair_add_ln_d256_s64`).
        let sum = mean && self.second_place().is_some_and(|row| self.replaces_operand(row.from));
        // Rows of more than a unit are transposed when all are written (`norm_layer_norm_ax1_1x128x16x16`: 16 columns, not 8).
        let [_, rows, columns] = input(layer);
        let wide = rows > 1 && columns as u64 * ELEMENT_BYTES > UNIT_BYTES;
        let late = copies(layer) && layer.transpose && !before.is_neural() && wide;
        // Nor are columns that a patch cuts read in the order in which they are written (`candidate_select_rrb_1x1024x375_bcast_cond`).
        let cut = !layer.is_neural() && !before.is_neural() && cut_columns(layer).is_some();
        // Nor are the sums of weights whose copy stays for its product (`chain_stack2_d256_s128_proj1`: the second block's).
        let late = self.conventions().places_by_use && (late || cut || self.copies_weights(index + 1));
        if opens || !alike || !(place.alone || mean) || turns && !sum || stages || late {
            return None;
        }
        match (before.is_neural(), layer.is_neural()) {
            (false, _) => Some(2),
            // Elements that were turned are not read in the order in which they are written (`norm_softmax_an1_1x256x1x1`).
            (true, false)
                if (layer.broadcast[0] == [false; 3] || self.repeats_element() || self.repeats_loaded_row(index))
                    && !before.transpose =>
            {
                Some(1)
            }
            // Two tasks of the same extents, also over a transpose of a square (`chain_attn_s64_dh64`, `norm_softmax_a1_1x64x8x8`,
            // `chain_pair_mm_mm_d256_s64`, `chain_ffn_d256_s256`), not of others (`chain_attn_s64_dh96`, `chain_ffn_d512_s128`).
            // A product without coefficients does so for a result that stays (`rrmm_r3rr_m64_k64_n64_tx0_ty1_b1`).
            (true, true) if self.conventions().places_by_use => {
                let leaves = matches!(layer.kind, Kind::Product { .. }) && !self.reads_rows();
                (input(before) == input(layer) && !leaves || self.continues_for_sum(index)).then_some(1)
            }
            (true, true) if self.reads_rows() && layer.sources[0].width > 1 => Some(1),
            (true, _) => None,
        }
    }

    /// Returns true for a planar task whose first source is repeated along an axis of one element (`norm_softmax_a1_1x1x1x128`).
    pub(super) fn repeats_element(&self) -> bool {
        let layer = self.layer;
        let [first, ..] = layer.broadcast.as_slice() else { return false };
        !layer.is_neural() && first[0] && layer.sources[0].count() == layer.result.count()
    }

    /// Returns true for a planar task whose first source is one row for all, which the task before has computed from memory
    /// (`candidate_select_rrb_1x1024x375_bcast_cond`: not the second row, which is computed from what is kept).
    fn repeats_loaded_row(&self, index: usize) -> bool {
        let (graph, before) = (&self.placed.graph, index - 1);
        let loaded = self.placed.residency.source(before, 0, &graph.layers[before].sources[0]).is_none();
        loaded && self.layer.broadcast[0] == [false, true, false] && self.conventions().places_by_use
    }

    /// Returns true if a task reduces the rows of the product before it while they are computed.
    fn reduces_product(&self) -> bool {
        let before = self.index.checked_sub(1).map(|i| &self.placed.graph.layers[i].kind);
        let product = matches!(before, Some(Kind::Product { .. })) && self.waits_on(self.index) == Some(1);
        product && !self.follows_constants(self.index - 1)
    }

    /// Returns true for a sum in the place of an operand that a later sum reads.
    fn replaces_operand(&self, index: usize) -> bool {
        let (layer, residency) = (&self.placed.graph.layers[index], &self.placed.residency);
        let Some(result) = residency.resident(&layer.result) else { return false };
        let adds = |l: &Layer| matches!(l.kind, Kind::Planar { .. }) && l.sources[0].buffer == layer.result.buffer;
        let mut operands = (0..layer.sources.len()).filter_map(|s| residency.source(index, s, &layer.sources[s]));
        let replaces = layer.sources.len() == 2 && operands.any(|place| place.base_bytes == result.base_bytes);
        matches!(layer.kind, Kind::Planar { .. }) && replaces && self.placed.graph.layers[self.index..].iter().any(adds)
    }

    /// Returns true for a task whose first source another task has written in tile memory.
    fn follows_sum(&self) -> bool {
        self.conventions().places_by_use && self.source_place(0).is_some_and(|place| place.written)
    }

    /// Returns true for a product of computed matrices, or a part of one, behind a product with constants that has computed an operand: its
    /// units are free (`chain_block_d256_s64_proj1`).
    pub(super) fn follows_constants(&self, index: usize) -> bool {
        let layers = &self.placed.graph.layers;
        let layer = &layers[index];
        let (Kind::Product { .. }, Some(before)) = (&layer.kind, index.checked_sub(1).map(|i| &layers[i])) else {
            return false;
        };
        match before.kind {
            _ if !self.conventions().places_by_use => false,
            Kind::Conv { .. } => layer.sources.iter().any(|source| source.buffer == before.result.buffer),
            Kind::Product { .. } => before.sources[0] == layer.sources[0] && self.follows_constants(index - 1),
            _ => false,
        }
    }

    /// Returns true for a sum, maximum or product without coefficients whose result stays for the next task.
    pub(super) fn reads_rows(&self) -> bool {
        let layer = self.layer;
        let reads = matches!(layer.kind, Kind::SumChannels { .. } | Kind::MaxChannels | Kind::Product { .. });
        reads && self.result_place().is_some_and(|place| !place.crosses)
    }

    /// Returns true if a task has replaced a result of the planar engine in its place.
    pub(super) fn follows_planar(&self, index: usize) -> bool {
        let layer = &self.placed.graph.layers[index];
        let source = self.placed.residency.source(index, 0, &layer.sources[0]);
        let result = self.placed.residency.resident(&layer.result);
        let planar = |place: &Place| place.written && !self.placed.graph.layers[place.from].is_neural();
        source.filter(planar).is_some_and(|s| result.is_some_and(|r| r.base_bytes == s.base_bytes))
    }
}
