//! Alias bits of a task as zin 9.509 sets them: the earlier operands whose place in tile memory it may reuse (`docs/evidence.md`, key
//! `h13-staging`).

use super::Emitter;
use crate::ir::*;
use crate::memory::Place;
use crate::tile::{copies, result_tile, row_bytes, source_tile};
use anemone_facts::Field::*;
use anemone_program::FieldError;
use std::ops::Range;

impl Emitter<'_> {
    /// Alias bits: the earlier operands whose place a buffer may reuse. The first task may reuse all; a task that opens a
    /// group may reuse those of its own engine and of the engine before it.
    pub(super) fn aliases(&mut self, index: usize, behind: Option<Range<u64>>) -> Result<(), FieldError> {
        if index == 0 {
            return self.set_all(&[
                (SrcAliasConvSrc, 1),
                (SrcAliasConvRslt, 1),
                (SrcAliasPlanarSrc, 1),
                (SrcAliasPlanarRslt, 1),
                (ResAliasConvSrc, 1),
                (ResAliasConvRslt, 1),
                (ResAliasPlanarSrc, 1),
                (ResAliasPlanarRslt, 1),
            ]);
        }
        let (layer, layers) = (self.layer, &self.placed.graph.layers);
        let (opens, _) = self.placed.residency.opens_and_closes(index);
        let before_neural = layers[index - 1].is_neural();
        let places = [self.source_place(0), self.second_place()];
        // Engine of the writer of each resident source, and of the task that loaded the kept one.
        let neural_of = |p: &Place| layers[p.from].is_neural();
        let waits_on = self.waits_on(index);
        if let Some(engine) = waits_on {
            self.set(Dependent, engine)?;
        }
        if let Some(place) = self.consumed_element(index) {
            return self.set(Src2Dependent, if neural_of(&place) { 1 } else { 2 });
        }
        let [first, second] = std::array::from_fn(|i| {
            let place = places[i].filter(|p| p.written && (i > 0 || waits_on.is_none() || self.repeats_element()))?;
            // The engine whose rows the task consumes has computed its earlier elements (`floor_r_1`).
            let engine = waits_on.map(|engine| engine == 1) == Some(neural_of(&place));
            let behind = i > 0 && engine && place.alone && layer.sources[i].count() == 1;
            let waited = behind
                || self.read_since(index, layer.sources[i].buffer)
                || self.waited_later(index, &layer.sources[i]);
            (!waited).then(|| neural_of(&place))
        });
        // A planar task, or one of the own engine, has waited for the one that brought a source, if it has read its result
        // (`norm_layer_norm_ax1_1x64x8x8`, `floor_r_1x64x1x1`).
        let waited = |place: &&Place| {
            let result = layers[place.from].result.buffer;
            let waits = |l: &Layer| !l.is_neural() || layer.is_neural();
            let reads = |l: &Layer| waits(l) && l.sources.iter().any(|s| s.buffer == result);
            layers[place.from + 1..index].iter().any(reads)
        };
        let brought = places.iter().flatten().find(|p| !p.written).filter(|p| !waited(p)).map(neural_of);
        let depends = self.task.get(self.layout, DependencyMode) == Some(1);
        // A task that waits for the other engine's result in memory has no alias, except an elementwise one (`select_rrb_1x8x375x375`).
        let free = !depends || before_neural && layer.is_neural() || layer.is_elementwise();
        let alone = opens && places[0].is_none() && free;
        let neural = [first, second].contains(&Some(true)) || alone;
        let planar = [first, second].contains(&Some(false))
            || waits_on == Some(1) && !self.layer.is_neural() && self.follows_planar(index - 1);
        // A staged source may reuse the place of the other engine's.
        let other = places[0].is_none() && before_neural != self.layer.is_neural();
        let [source, mut result] = match alone && other && !before_neural {
            true => self.reuses_planar(),
            false => [[false; 2]; 2],
        };
        let over_kept = other && before_neural && self.replaces_result(index);
        let mut brought_planar = false;
        if self.conventions().operands_kept && self.layer.is_neural() && !alone {
            let kept = places[0].filter(|place| !place.written);
            let same = |l: &Layer| l.sources[0].buffer == layer.sources[0].buffer;
            // The first of the tasks that read what a planar task has brought (`chain_resattn_s64_d256`).
            brought_planar = kept.is_some_and(|p| !neural_of(&p) && !layers[p.from + 1..index].iter().any(same));
            // A later one takes the place of what the planar task before it has read.
            result[0] |= kept.is_some() && !before_neural && !brought_planar;
            result[1] |= self.takes_planar_result() || self.takes_staged();
        }
        self.set_all(&[
            (SrcAliasConvRslt, u32::from(neural || over_kept)),
            (
                SrcAliasPlanarRslt,
                u32::from(planar || source[1] || self.staged_beside().is_some_and(|r| self.stages_over(&r))),
            ),
            (
                SrcAliasConvSrc,
                u32::from(
                    alone
                        || other
                            && before_neural
                            && !over_kept
                            && !self.staged_beside().is_some_and(|range| self.misses_source(&range))
                        || brought == Some(true) && !self.layer.convolves()
                        || behind.as_ref().is_some_and(|range| before_neural && self.takes_source(range)),
                ),
            ),
            (SrcAliasPlanarSrc, u32::from(source[0] || brought_planar)),
            (ResAliasConvSrc, u32::from(alone)),
            (ResAliasConvRslt, u32::from(alone)),
            (ResAliasPlanarSrc, u32::from(result[0])),
            (ResAliasPlanarRslt, u32::from(result[1])),
        ])
    }

    /// Returns true for the copy of weights that the planar engine has just computed, which stays for its products
    /// (`chain_stack2_d512_s64_proj1`: the second block's).
    pub(super) fn copies_weights(&self, index: usize) -> bool {
        let layers = &self.placed.graph.layers;
        let (Some(before), Some(layer)) = (index.checked_sub(1).map(|i| &layers[i]), layers.get(index)) else {
            return false;
        };
        if !copies(layer) || !layer.transpose {
            return false;
        }
        let weights = matches!(before.kind, Kind::Planar { .. }) && before.result.buffer == layer.sources[0].buffer;
        let stays = self.placed.residency.resident(&layer.result).is_some_and(|place| !place.crosses);
        let mut readers = layers.iter().filter(|l| l.sources.iter().any(|s| s.buffer == layer.result.buffer));
        weights && stays && readers.all(|l| matches!(l.kind, Kind::Product { .. }))
    }

    /// Returns true for a product with constants behind another one, of which a sum that stays takes the place
    /// (`chain_stack2_d256_s128_proj1`).
    pub(super) fn continues_for_sum(&self, index: usize) -> bool {
        let (layers, residency) = (&self.placed.graph.layers, &self.placed.residency);
        let constants = layers[index - 1..=index].iter().all(|l| matches!(l.kind, Kind::Conv { .. }));
        let Some(place) = residency.resident(&self.layer.result).filter(|_| constants) else { return false };
        let takes = |l: &Layer| {
            let adds = matches!(l.kind, Kind::Planar { op: PlanarOp::Add, .. });
            let second = l.sources.get(1).is_some_and(|s| s.buffer == self.layer.result.buffer);
            let sum = residency.resident(&l.result).filter(|_| adds && second);
            sum.is_some_and(|sum| sum.base_bytes == place.base_bytes && !sum.crosses)
        };
        layers[index + 1..].iter().any(takes)
    }

    /// Returns true if an earlier task has read the result in a buffer and so waited for it; this one need not.
    fn read_since(&self, index: usize, buffer: BufferId) -> bool {
        let since = self.placed.graph.layers[..index].iter().rev().take_while(|l| l.result.buffer != buffer);
        // The neural engine waits itself for what rows were staged from (`chain_block_d512_s128_proj0`).
        let stages = |l: &&Layer| {
            let rows = !l.is_neural() && l.interleave > 1 && l.sources.len() == 1;
            self.conventions().places_by_use && self.layer.is_neural() && rows
        };
        since.filter(|l| !stages(l)).flat_map(|l| &l.sources).any(|s| s.buffer == buffer)
    }

    /// Returns true if what the task before has read stays and its result has left its place (`select_rrb_1x8x375x375`: the first product).
    fn replaces_result(&self, index: usize) -> bool {
        let keeps = self.placed.residency.keeps(index - 1) && self.conventions().places_by_use;
        keeps && self.second_streamed()
    }

    /// A second element that is consumed as it is written beside a first one from memory: the result stays (`floor_div_native_1_rr`).
    fn consumed_element(&self, index: usize) -> Option<Place> {
        let layer = self.layer;
        let plain = layer.broadcast.get(1) == Some(&[false; 3]) && layer.turned == [false; 2];
        let single = plain && layer.result.count() == 1 && self.conventions().places_by_use;
        let streams = single && self.source_place(0).is_none() && self.result_place().is_some();
        let place = self.second_place().filter(|_| streams)?;
        (place.written && place.alone && place.from + 1 == index).then_some(place)
    }

    /// Places in tile memory, in bytes, of a task's staged source and of its result.
    fn extent(&self, index: usize) -> [Range<u64>; 2] {
        let layer = &self.placed.graph.layers[index];
        let tile = source_tile(layer);
        let row = row_bytes(layer, &tile, layer.sources[0].height(), false, self.chip);
        let residency = &self.placed.residency;
        // Operands in tile memory have their places (`env_chain_attention_s64_d64`, `chain_attn_s64_dh96`).
        let places = layer.sources.iter().enumerate().filter(|(s, _)| *s == 0 || !layer.is_neural());
        let places: Vec<_> = places.filter_map(|(s, v)| Some((residency.source(index, s, v)?, v))).collect();
        let from = |(place, _): &(Place, &View4)| place.base_bytes;
        let (start, end) = match places.iter().map(from).min() {
            Some(start) => (start, residency.top(index)),
            None => (residency.top(index), residency.top(index) + row * tile.rows as u64),
        };
        let result = match self.placed.residency.resident(&layer.result) {
            Some(place) => place.base_bytes..place.base_bytes + place.strides[0] * layer.result.channels() as u64,
            // Interleaved channels leave tile memory by two sets (`env_mm_r3rr_m128_k64_n128_tx0_ty1_b1`: 0x800 at 0x4000).
            None if !layer.is_neural() && layer.interleave > 1 => {
                end..end + 2 * (layer.interleave * layer.result.width) as u64 * ELEMENT_BYTES
            }
            // The planar engine's result has the tile of its source.
            None if !layer.is_neural() => end..end + (end - start),
            None => {
                let tile = result_tile(layer);
                end..end + tile.row_bytes * tile.rows as u64
            }
        };
        [start..end, result]
    }

    /// By source and result of this task, two flags: true if it reuses the place of the source of the planar task before it, and true if of
    /// its result. The source, which is read first, declares the later of what it overlaps, and the result what is left, also what begins
    /// where it ends (`env_mm_r2rr_m128_k2048_n2048_tx0_ty0`, `env_mm_r3rr_m128_k64_n128_tx0_ty1_b1`, `env_mm_r3rr_m128_k128_n64_tx0_ty0_b1`).
    fn reuses_planar(&self) -> [[bool; 2]; 2] {
        let (own, before) = (self.extent(self.index), self.extent(self.index - 1));
        let meets = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let source = [0, 1].map(|i| meets(&own[0], &before[i]));
        let first = &self.placed.graph.layers[self.index - 1].sources[0];
        if !source[1] && self.placed.residency.source(self.index - 1, 0, first).is_some() {
            // A task behind one on resident operands takes the source (`env_chain_attention_s64_d64`), unless its source alone meets the
            // result (`chain_attn_s64_dh96`), and the result where two tiles of its own reach it (`chain_attn_s128_dh64_noscale`: 0x8100
            // behind 0x4000; not `chain_attn_s512_dh64`: 0x82000 behind 0x10000).
            let reaches = 2 * own[1].end > before[1].start + own[1].start;
            return [[true, false], [false, reaches]];
        }
        let reach = own[1].start..own[1].end + 1;
        let result = [0, 1].map(|i| meets(&reach, &before[i]) && !source[1] && !(i == 0 && source[0]));
        [[source[0] && !source[1], source[1]], [result[0] && !result[1], result[1]]]
    }

    /// Returns true if the result of the second task of a group takes the place of the result of the planar task before the group, which
    /// the first task has left (`env_chain_attention_s128_d64`).
    fn takes_planar_result(&self) -> bool {
        let (residency, layers) = (&self.placed.residency, &self.placed.graph.layers);
        let Some(planar) = self.index.checked_sub(2) else { return false };
        let resident = residency.source(planar, 0, &layers[planar].sources[0]).is_some();
        let opens = residency.opens_and_closes(planar + 1).0 && layers[planar + 1].is_neural();
        if resident || !opens || layers[planar].is_neural() || self.result_place().is_none() {
            return false;
        }
        let [left, first, own] = [planar, planar + 1, self.index].map(|index| self.extent(index));
        let meets = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let free = first.iter().all(|a| left.iter().all(|b| !meets(a, b)));
        free && meets(&own[1], &left[1])
    }

    /// Tile memory in which a planar task stages its first source beside a second one that a task has written there.
    fn staged_beside(&self) -> Option<Range<u64>> {
        let second = self.second_place().is_some_and(|place| place.written);
        if !self.conventions().places_by_use || self.layer.is_neural() || self.source_place(0).is_some() || !second {
            return None;
        }
        let (start, tile) = (self.placed.residency.top(self.index), source_tile(self.layer));
        let row = row_bytes(self.layer, &tile, self.layer.sources[0].height(), false, self.chip);
        Some(start..start + row * tile.rows as u64)
    }

    /// Returns true if a range is in the place of what the last planar task has left (`chain_block_d512_s128_proj0`: rows of an input behind
    /// a product).
    fn stages_over(&self, range: &Range<u64>) -> bool {
        let layers = &self.placed.graph.layers[..self.index];
        let Some(planar) = layers.iter().rposition(|l| !l.is_neural()) else { return false };
        let left = self.extent(planar)[1].clone();
        self.placed.residency.resident(&layers[planar].result).is_none()
            && left.start < range.end
            && range.start < left.end
    }

    /// Returns true if the result takes the place of rows that the planar task before it has staged (`chain_block_d512_s128_proj0`).
    fn takes_staged(&self) -> bool {
        let before = self.index - 1;
        let layer = &self.placed.graph.layers[before];
        if layer.is_neural() || layer.interleave == 1 || layer.sources.len() > 1 || self.result_place().is_none() {
            return false;
        }
        let [own, staged] = [self.index, before].map(|index| self.extent(index));
        own[1].start < staged[1].end && staged[1].start < own[1].end
    }

    /// Returns true if a range is apart from what the task before has read in tile memory (`chain_block_d512_s128_proj0`).
    fn misses_source(&self, range: &Range<u64>) -> bool {
        let source = &self.placed.graph.layers[self.index - 1].sources[0];
        self.placed.residency.source(self.index - 1, 0, source).is_some() && !self.takes_source(range)
    }

    /// Returns true if a range of tile memory is in the place of what the task before has read (`chain_ffn_d512_s128_biasfull`: the first
    /// of two sums).
    fn takes_source(&self, range: &Range<u64>) -> bool {
        let before = self.index - 1;
        let source = &self.placed.graph.layers[before].sources[0];
        let Some(place) = self.placed.residency.source(before, 0, source) else { return false };
        let [channel, row, ..] = place.strides;
        let end = place.base_bytes + (channel * source.channels() as u64).max(row * source.height() as u64);
        place.base_bytes < range.end && range.start < end
    }

    /// Returns true if a task before `index` has waited for a result that the same engine has computed after that view, which is thus
    /// complete (`layer_norm_1x375x1024`: the mean of the last rows).
    fn waited_later(&self, index: usize, view: &View4) -> bool {
        let layers = &self.placed.graph.layers;
        let range = |view: &View4| {
            let reach = view.axes.iter().map(|a| (a.extent as u64 - 1) * a.stride_bytes).sum::<u64>();
            view.offset_bytes..view.offset_bytes + reach + view.width as u64 * ELEMENT_BYTES
        };
        let writer = |before: usize, view: &View4| {
            let read = range(view);
            let wrote = |l: &Layer| {
                let range = range(&l.result);
                l.result.buffer == view.buffer && range.start < read.end && read.start < range.end
            };
            layers[..before].iter().rposition(wrote)
        };
        let Some(own) = writer(index, view) else { return false };
        let later = |j: usize| {
            let made = layers[j].sources.iter().filter(|s| s.buffer == view.buffer).filter_map(|s| writer(j, s));
            made.into_iter().any(|w| w > own && layers[w].is_neural() == layers[own].is_neural())
        };
        (own + 1..index).any(later)
    }
}
