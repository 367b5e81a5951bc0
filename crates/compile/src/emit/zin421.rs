//! Staging: tile shapes, patch shapes, addresses in tile memory and cache hints, none of which changes results.
//!
//! Shared by both conventions, and as 4.2.1 does it; [`super::zin9509`] has the variant of 9.509.

use super::Emitter;
use crate::ir::*;
use crate::memory::Placed;
use crate::options::Conventions;
use crate::stream::pack::Packing;
use crate::tile::Tile;
use anemone_facts::Field::*;
use anemone_facts::Layout;
use anemone_facts::code::hint;
use anemone_facts::staging::zin_421::{CONV_SPREAD, SPREAD, STRIP_COLUMNS};
use anemone_facts::staging::{PLANAR_COLUMNS, PLANAR_ROWS, SECOND_BYTES, TILE_BYTES};
use anemone_program::FieldError;

impl Emitter<'_> {
    /// Tile and patch shapes, L2 geometry and dependency bits.
    pub(super) fn staging(&mut self, index: usize) -> Result<(), FieldError> {
        if self.conventions().bank_aware_tiles {
            return self.staging_9509(index);
        }
        let (cin, hin, win) = self.input();
        let (cout, hout, wout) = self.computed();
        let conv = self.convolves();
        let neural = self.is_neural();
        let tile = if neural {
            let whole = conv || win.next_multiple_of(8) * hin * cin * 2 <= TILE_BYTES as usize;
            Tile::of(cin, hin, win, if whole { win } else { STRIP_COLUMNS }, hin)
        } else {
            let rows = if win >= PLANAR_COLUMNS { PLANAR_ROWS } else { hin };
            Tile::of(cin, hin, win, PLANAR_COLUMNS, rows)
        };
        let tile_height = if tile.rows == hin { hout } else { tile.rows.min(hout).max(1) };
        self.set_size(TileHeight, tile_height)?;
        if !neural {
            let log2 = |n: usize| n.next_power_of_two().ilog2();
            let rows = log2(tile.rows).min(5);
            self.set_all(&[(PatchWidth, log2(win).clamp(4, 9)), (PatchHeight, rows)])?;
        } else {
            self.patches(conv, &tile)?;
        }

        // Operand tiles in tile memory: source, second source, result.
        let spread = if conv {
            CONV_SPREAD
        } else if neural {
            0
        } else {
            SPREAD
        };
        let row = if spread == 0 || !self.placed.residency.spreads() { tile.row_bytes } else { tile.spread(spread) };
        let fields = [SrcL2ChannelStride, SrcL2RowStride, SrcL2DepthStride, SrcL2GroupStride];
        for (field, bytes) in fields.into_iter().zip([tile.channel_bytes, row, tile.row_bytes, tile.row_bytes]) {
            self.set_bytes(field, bytes)?;
        }
        let used = row * tile.rows as u64;
        let mut result_base = used;
        if self.second_source().is_some() {
            let base = row * (tile.rows as u64 - 1) + tile.row_bytes + SECOND_BYTES;
            self.set_bytes(Src2L2Base, base)?;
            let fields = [Src2L2ChannelStride, Src2L2RowStride, Src2L2DepthStride, Src2L2GroupStride];
            for (field, bytes) in fields.into_iter().zip([tile.channel_bytes, row, tile.row_bytes, tile.row_bytes]) {
                self.set_bytes(field, bytes)?;
            }
            result_base = base + used;
        }
        self.set_bytes(ResL2Base, result_base)?;
        if conv {
            let out = Tile::of(cout, hout, wout, wout, tile_height);
            let fields = [ResL2ChannelStride, ResL2RowStride, ResL2DepthStride, ResL2GroupStride];
            let strides = [out.channel_bytes, out.spread(SPREAD), out.row_bytes, out.row_bytes];
            for (field, bytes) in fields.into_iter().zip(strides) {
                self.set_bytes(field, bytes)?;
            }
        }
        // Buffers depend on all earlier tasks in the first task, and on those of the neural engine in the first task of a group.
        let (conv_bits, planar_bits) = match index {
            0 => (1, 1),
            i if i % 2 == 1 => (1, 0),
            _ => (0, 0),
        };
        for field in [SrcAliasConvSrc, SrcAliasConvRslt, ResAliasConvSrc, ResAliasConvRslt] {
            self.set(field, conv_bits)?;
        }
        for field in [SrcAliasPlanarSrc, SrcAliasPlanarRslt, ResAliasPlanarSrc, ResAliasPlanarRslt] {
            self.set(field, planar_bits)?;
        }
        self.set_all(&[(SrcDmaFmt, 1), (SrcDmaInterleave, 1), (ResDmaFmt, 1), (ResDmaInterleave, 1)])
    }

    /// Patch shape and accumulator buffering of a neural task.
    fn patches(&mut self, conv: bool, tile: &Tile) -> Result<(), FieldError> {
        let lanes = Packing::of(self.layer).lanes as u64;
        if conv {
            let (_, hin, win) = self.input();
            let small = hin.max(win) <= 8;
            let shape = if small { 4 } else { 3 };
            // Each accumulator holds more channels of a small source; double buffering needs twice the lanes.
            let hal = &self.chip.hal;
            let each = if small { hal.oc_per_acc_small } else { hal.oc_per_acc_fp16 };
            let capacity = hal.acc_budget.unwrap_or(0) * each.unwrap_or(0);
            return self.set_all(&[
                (SmallSourceMode, u32::from(small)),
                (ShPref, shape),
                (ShMin, shape),
                (ShMax, shape),
                (AccDoubleBufEn, u32::from(2 * lanes <= capacity)),
            ]);
        }
        let smallest = u32::from(tile.columns <= STRIP_COLUMNS);
        self.set_all(&[(ShPref, 1), (ShMin, smallest), (ShMax, 1), (AccDoubleBufEn, 1)])
    }
}

/// Rows per depth of the tensor that one of several matrices with rows as channels belongs to: its planes
/// (`bmm_r3rr_m375_k128_n375_tx0_ty0_b8`, `chain_attn_s128_dh64_h4`), else one.
pub(super) fn whole_rows(placed: &Placed, view: &View4) -> usize {
    let buffer = placed.graph.buffer(view.buffer);
    // All of a constant are matrices (`bmm_r3rb_m375_k128_n749_tx0_ty0_b2`).
    if matches!(buffer.role, Role::Constant(_)) {
        let matrix = (view.channels() as u64 * view.axes[1].stride_bytes).max(1);
        return (buffer.bytes / matrix).max(1) as usize;
    }
    match buffer.port.as_ref().and_then(|port| port.lead.last_chunk()) {
        Some([planes, rows])
            if planes.stride_bytes == view.axes[2].stride_bytes && rows.stride_bytes == view.axes[1].stride_bytes =>
        {
            planes.extent
        }
        _ => 1,
    }
}

/// Planes per depth of the tensor that a view belongs to: a part of a concatenation counts the whole.
pub(super) fn whole_planes(placed: &Placed, view: &View4) -> usize {
    let buffer = placed.graph.buffer(view.buffer);
    let plane = view.axes[1].stride_bytes;
    match &buffer.port {
        Some(port) if port.lead.len() >= 2 && plane > 0 => {
            let channels = port.lead[port.lead.len() - 2];
            if channels.stride_bytes == plane { channels.extent } else { 0 }
        }
        _ => 0,
    }
}

/// Readers and writers of every buffer, for cache hints and hazards.
pub(super) struct Hints {
    /// For each task and source: the three cache hints.
    sources: Vec<Vec<[u32; 3]>>,
    /// True if source 1 was written by an earlier task and has not been read since.
    depends: Vec<bool>,
    /// Distance to the latest earlier task that reads what this one overwrites, minus one, and true if it reads it as coefficients.
    hazards: Vec<Option<(u32, bool)>>,
}

impl Hints {
    pub(super) fn of(placed: &Placed, layout: &Layout, conventions: &Conventions) -> Hints {
        let layers = &placed.graph.layers;
        let count = placed.graph.buffers.len();
        let mut reads: Vec<Vec<usize>> = vec![vec![]; count];
        let mut views: Vec<Vec<(usize, View4)>> = vec![vec![]; count];
        let mut writes: Vec<Vec<usize>> = vec![vec![]; count];
        for (i, layer) in layers.iter().enumerate() {
            let streamed = |(s, view): &(usize, &View4)| placed.residency.source(i, *s, view).is_none_or(|p| p.crosses);
            let sources = layer.sources.iter().enumerate().filter(streamed);
            sources.for_each(|(_, view)| {
                reads[view.buffer.0 as usize].push(i);
                views[view.buffer.0 as usize].push((i, *view));
            });
            writes[layer.result.buffer.0 as usize].push(i);
        }
        let scratch = |b: BufferId| placed.graph.buffer(b).role == Role::Scratch;
        // Other matrices of a tensor do not count (`chain_attn_s128_dh64_h4`).
        let apart = conventions.matrices_apart;
        let hint = |i: usize, view: &View4| {
            let own = |other: &View4| !apart || meet(view, other);
            let others = || views[view.buffer.0 as usize].iter().filter(|(_, other)| own(other)).map(|(x, _)| *x);
            let (earlier, later) = (others().any(|x| x < i), others().any(|x| x > i));
            let beside = apart && views[view.buffer.0 as usize].iter().any(|(_, other)| between(view, other));
            match (scratch(view.buffer) && !beside, earlier || beside, later) {
                (_, _, true) => [hint::ALLOC; 3],
                (true, _, false) => [hint::DROP, hint::ALLOC, hint::DROP],
                (false, true, false) => [hint::LOW_PRIORITY, hint::ALLOC, hint::LOW_PRIORITY],
                (false, false, false) => [hint::NO_ALLOC, hint::ALLOC, hint::LOW_PRIORITY],
            }
        };
        let sources = layers.iter().enumerate().map(|(i, l)| l.sources.iter().map(|s| hint(i, s)).collect()).collect();
        let depends = layers
            .iter()
            .enumerate()
            .map(|(i, l)| {
                let b = l.sources[0].buffer.0 as usize;
                let last_write = writes[b].iter().rfind(|&&w| w < i);
                last_write.is_some_and(|&w| !reads[b].iter().any(|&r| r > w && r < i))
            })
            .collect();
        Hints { sources, depends, hazards: hazards(placed, layout) }
    }

    pub(super) fn source(&self, task: usize, source: usize) -> [u32; 3] {
        self.sources[task][source]
    }

    pub(super) fn depends(&self, task: usize) -> bool {
        self.depends[task]
    }

    /// Write-after-read hazard of a task: its distance minus one, and true if it is on coefficients.
    pub(super) fn hazard(&self, task: usize) -> Option<(u32, bool)> {
        self.hazards[task]
    }
}

/// Returns true for matrices of one buffer whose channels lie between each other's.
fn between(a: &View4, b: &View4) -> bool {
    let channel = a.axes[1].stride_bytes;
    a.axes == b.axes && channel > 0 && !a.offset_bytes.abs_diff(b.offset_bytes).is_multiple_of(channel)
}

/// Returns true if the bytes from the first to the last of two views of a buffer overlap.
fn meet(a: &View4, b: &View4) -> bool {
    let end = |v: &View4| {
        let reach = v.axes.iter().map(|axis| (axis.extent as u64 - 1) * axis.stride_bytes).sum::<u64>();
        v.offset_bytes + reach + v.width as u64 * ELEMENT_BYTES
    };
    !between(a, b) && a.offset_bytes < end(b) && b.offset_bytes < end(a)
}

/// Write-after-read hazards through shared scratch memory, within the distance that the field can hold.
fn hazards(placed: &Placed, layout: &Layout) -> Vec<Option<(u32, bool)>> {
    let most = layout.row(HazardDistance).map_or(0, |row| row.max() as usize);
    let layers = &placed.graph.layers;
    let range = |b: BufferId| {
        let address = placed.addresses[b.0 as usize]?;
        Some((address.bar, address.offset_bytes, address.offset_bytes + placed.graph.buffer(b).bytes))
    };
    layers
        .iter()
        .enumerate()
        .map(|(i, layer)| {
            let (bar, start, end) = range(layer.result.buffer)?;
            (1..=i.min(most + 1)).find_map(|distance| {
                let before = &layers[i - distance];
                let hit = before
                    .sources
                    .iter()
                    .position(|s| range(s.buffer).is_some_and(|(b, s, e)| b == bar && s < end && start < e))?;
                Some((distance as u32 - 1, hit == 1 && matches!(before.kind, Kind::Product { .. })))
            })
        })
        .collect()
}
