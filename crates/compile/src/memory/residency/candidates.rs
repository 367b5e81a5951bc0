//! Candidates for tile memory: results that could stay there, with their sizes and strides.

use super::parts::joined;
use super::{LONGEST_LIFE, Resident, Ways};
use crate::ir::*;
use crate::tile::{
    copies, cut_columns, fitting_rows, rows_turned, small_source, source_tile, spread, spread_all, turns_matrices,
    unit_banks,
};
use anemone_facts::staging::{
    COPY_ROWS, FEW_NEURAL_BANKS, NEURAL_BANKS, PATCH_OF_TWO, PLANAR_BANKS, PLANAR_COLUMNS_OF_TWO, UNIT_BYTES,
};
use anemone_program::order;

/// Buffers that could stay, in the order of their writers, without addresses.
pub(super) fn candidates(graph: &Graph, groups: &[usize], ways: &Ways) -> Vec<(usize, Resident)> {
    #[derive(Default)]
    struct Uses {
        writers: Vec<usize>,
        readers: Vec<(usize, usize)>,
    }
    let mut uses: Vec<Uses> = Vec::new();
    uses.resize_with(graph.buffers.len(), Uses::default);
    for (i, layer) in graph.layers.iter().enumerate() {
        uses[layer.result.buffer.0 as usize].writers.push(i);
        for (s, source) in layer.sources.iter().enumerate() {
            uses[source.buffer.0 as usize].readers.push((i, s));
        }
    }
    let mut found: Vec<(usize, Resident)> = uses
        .iter()
        .enumerate()
        .filter_map(|(buffer, uses)| {
            let (&writer, &(last, _)) = (uses.writers.first()?, uses.readers.last()?);
            let scratch = graph.buffers[buffer].role == Role::Scratch;
            // All products of a batch read its matrices (`bmm_r3rr_m375_k375_n128_tx0_ty1_b8`: 208).
            let long = !ways.conventions.matrices_apart && last > writer + LONGEST_LIFE;
            if !scratch || last <= writer || long {
                return None;
            }
            let resident = resident(graph, groups, ways, last, &uses.writers, &uses.readers)?;
            let written = uses.writers.iter().all(|&i| {
                let layer = &graph.layers[i];
                accesses_tile_memory(layer) && layer.interleave == 1 && resident.strides(&layer.result).is_some()
            });
            if !written {
                return None;
            }
            let reads = uses.readers.iter().all(|&(i, s)| {
                let layer = &graph.layers[i];
                let tensor = s == 0 || !layer.is_neural();
                tensor
                    && accesses_tile_memory(layer)
                    && layer.source_interleave == 1
                    && resident.strides(&layer.sources[s]).is_some()
            });
            reads.then_some((buffer, resident))
        })
        .collect();
    order::by_key(&mut found, |(_, r)| r.writer);
    if ways.conventions.places_by_use {
        inherit(graph, &mut found);
    }
    found
}

/// Gives results that can be computed in the place of a convolution's transposed result its layout: its rows are channels
/// (`chain_ffn_d512_s128_biasfull`: the sum, then its table).
fn inherit(graph: &Graph, found: &mut [(usize, Resident)]) {
    let mut turned: Vec<usize> = Vec::new();
    for i in 0..found.len() {
        let (buffer, own) = &found[i];
        let layer = &graph.layers[own.writer];
        if own.alone && layer.transpose && layer.convolves() && own.view.height() == 1 && own.view.channels() > 1 {
            turned.push(*buffer);
        }
        let product = |of: usize| {
            let rows = found.iter().find(|(b, r)| *b == of && r.alone).map(|(_, r)| (r.writer, r.view));
            rows.is_some_and(|(writer, view)| {
                matches!(graph.layers[writer].kind, Kind::Product { .. }) && view.height() == 1 && view.channels() > 1
            })
        };
        let each = matches!(layer.kind, Kind::Planar { .. } | Kind::Neuron { .. }) && !layer.transpose && own.alone;
        // The second source beside a first one that the caller gives (`chain_block_d256_s64_proj1`), or beside a sum that stays
        // (`chain_stack2_d256_s128_proj1`).
        let given = layer.sources.len() == 2
            && layer.result.height() > 1
            && graph.buffer(layer.sources[0].buffer).role == Role::Input;
        let second = |s: &View4| turned.contains(&(s.buffer.0 as usize)) && layer.sources[0].buffer != s.buffer;
        let kept = layer.sources.len() == 2
            && found.iter().any(|(b, r)| *b == layer.sources[0].buffer.0 as usize && !r.read_once);
        let at = usize::from(given || kept && second(&layer.sources[1]));
        let source = &layer.sources[at];
        let of = source.buffer.0 as usize;
        let alike = source.axes == layer.result.axes && source.width == layer.result.width;
        let plain = layer.interleave == 1 && layer.broadcast[at] == [false; 3] && !layer.turned[at];
        let Some(from) = found.iter().find(|(b, r)| *b == of && r.read_once).map(|(_, r)| r) else { continue };
        // Beside such a source, rows of a product of computed matrices are replaced too (`chain_block_d512_s128_proj0`).
        let replaced = turned.contains(&of) || given && product(of);
        if !(each && alike && plain && replaced && layer.result.offset_bytes == source.offset_bytes) {
            continue;
        }
        let view = View4 { buffer: layer.result.buffer, ..from.view };
        let new = Resident { view, strides: from.strides, bytes: from.bytes, ..own.clone() };
        let views = graph.layers.iter().flat_map(|l| l.sources.iter().chain([&l.result]));
        if views.filter(|v| v.buffer == view.buffer).all(|v| new.strides(v).is_some()) {
            turned.push(*buffer);
            found[i].1 = new;
        }
    }
}

/// Returns false for own tasks, which access memory alone.
fn accesses_tile_memory(layer: &Layer) -> bool {
    !matches!(layer.kind, Kind::Own(_))
}

/// Returns true if a view has another channel stride than the whole, or pieces of columns as rows: rows are then contiguous.
fn seen_otherwise(view: &View4, whole: &View4) -> bool {
    let channels = view.channels() > 1 && view.axes[1].stride_bytes != whole.axes[1].stride_bytes;
    // Rows may be channels and channels rows (`norm_softmax_a2_1x64x8x8`).
    let swapped = view.axes[1] == whole.axes[2] && view.height() == whole.channels();
    channels && !swapped || in_pieces(view, whole)
}

/// Returns true if a view has pieces of the whole's columns as rows.
fn in_pieces(view: &View4, whole: &View4) -> bool {
    view.width != whole.width && view.height() > 1
}

fn resident(
    graph: &Graph,
    groups: &[usize],
    &Ways { conventions, chip, spreads }: &Ways,
    last: usize,
    writers: &[usize],
    readers: &[(usize, usize)],
) -> Option<Resident> {
    let &writer = writers.first()?;
    let mut view = graph.layers[writer].result;
    if writers.len() > 1 {
        let width = readers.iter().map(|&(i, s)| graph.layers[i].sources[s].width).max()?;
        view = joined(writers.iter().map(|&i| graph.layers[i].result).collect(), width)?;
        // The view of a reader whose rows these are.
        let whole = readers.iter().map(|&(i, s)| graph.layers[i].sources[s]).find(|v| {
            let rows = v.height() > 1 && writers.len().is_multiple_of(v.height());
            rows && v.width == view.width && v.groups() == 1 && v.count() == view.count()
        });
        view = whole.filter(|v| v.offset_bytes == view.offset_bytes).unwrap_or(view);
    }
    // A matrix with folded rows is read in memory order.
    let copied = readers.iter().all(|&(i, _)| graph.layers[i].kind.is_copy());
    let reader = &graph.layers[readers.first()?.0].sources[readers.first()?.1];
    let fills =
        reader.offset_bytes == view.offset_bytes && reader.width == view.width && reader.count() == view.count();
    if copied && fills && view.height() > 1 && reader.height() == 1 {
        view = *reader;
    }
    // Rows that one access folds and another has one below another are channels (`chain_resffn_d512_s64`).
    let accesses = || {
        writers
            .iter()
            .map(|&i| &graph.layers[i].result)
            .chain(readers.iter().map(|&(i, s)| &graph.layers[i].sources[s]))
    };
    let folds = |v: &View4| {
        let [_, channels, rows] = v.axes;
        channels.extent > 1 && rows.extent > 1 && rows.stride_bytes == channels.extent as u64 * channels.stride_bytes
    };
    let below = |v: &View4| v.channels() == 1 && v.height() > 1;
    let whole = accesses()
        .all(|v| v.count() == view.count() && v.width == view.width && v.groups() == 1 && (folds(v) || below(v)));
    let unfolded = conventions.places_by_use && whole && accesses().any(folds);
    if let Some(rows) = accesses().find(|v| below(v)).filter(|_| unfolded) {
        let [one, channels, rows] = rows.axes;
        view.axes = [one, rows, Axis { extent: 1, ..channels }];
    }
    let convolved = readers.iter().any(|&(i, _)| graph.layers[i].convolves());
    let neural = readers.iter().any(|&(i, _)| graph.layers[i].is_neural());
    let small = readers.iter().any(|&(i, _)| small_source(&graph.layers[i], chip));
    let mut channel = (view.width as u64 * ELEMENT_BYTES).div_ceil(UNIT_BYTES);
    // A result that a convolution stores for another one is contiguous (`chain_pair_mm_mm_d256_s64`).
    let stored = conventions.places_by_use && graph.layers[writer].convolves() && !graph.layers[writer].transpose;
    // Numbers that become columns are written by eight channels (`reduce_probe_sum_ax1_1x64x1x64`: 0x9 for 0x8).
    let written = &graph.layers[writer];
    let reduced =
        readers.iter().any(|&(i, _)| !matches!(graph.layers[i].kind, Kind::Pool { .. } | Kind::Planar { .. }));
    let turned = conventions.places_by_use && copies(written) && written.transpose && !neural && reduced;
    // A result of the planar engine is contiguous (`chain_pair_mul_mm_d256_s64`).
    let planar = conventions.places_by_use && !written.is_neural();
    let beside = (convolved && !stored && !planar || turned) && writers.len() == 1;
    if spreads && !unfolded && beside && view.height() == 1 && view.channels() > 1 {
        // An odd distance starts neighbouring channels in banks of their own.
        channel |= 1;
    }
    let as_rows = |&(i, s): &(usize, usize)| {
        let (layer, source) = (&graph.layers[i], &graph.layers[i].sources[s]);
        // An operand behind one from memory is laid out as that (`chain_resattn_s64_d256`), not one before
        // (`chain_ffn_d512_s128_biasfull`).
        let computed = graph.buffer(layer.sources[0].buffer).role == Role::Scratch;
        // Nor is one that is replaced in its place.
        let computed = computed && graph.buffer(layer.result.buffer).role != Role::Scratch;
        let rows = source.channels() == 1 && source.height() > 1 && source.axes[2] == view.axes[1];
        !layer.is_neural() && computed && rows
    };
    // Numbers that are repeated along rows lie side by side (`env_chain_softmax_h1_s128`).
    if spreads
        && !unfolded
        && conventions.places_by_use
        && view.height() == 1
        && view.width > 1
        && readers.iter().any(as_rows)
    {
        // Channels that the planar engine reads as rows start in banks of their own (`chain_serial_d256_s64`: 0x21 for 0x20;
        // `chain_resffn_d512_s128`: 0x41 for 0x40).
        channel |= 1;
    }
    let mut row = channel * view.channels() as u64;
    let dense = readers.iter().any(|&(i, s)| seen_otherwise(&graph.layers[i].sources[s], &view));
    let folded = readers.iter().any(|&(i, s)| in_pieces(&graph.layers[i].sources[s], &view));
    if !spreads {
        // Contiguous rows.
    } else if conventions.places_by_use && copies(written) && !neural && view.height() > 1 && !folded {
        // Only the copy itself has contiguous rows within a unit; rows wider than a unit are apart as their reader has them
        // (`binary_mul_c512_constant_blob`: two rows of 64 units, 0x42 for 0x40), as eight are (`rrmm_bcast_mul_1x256x8x8_blob_1x256x1x1`:
        // 0x21 for 0x20).
        let wide = (PLANAR_BANKS.0.min(view.height().max(COPY_ROWS) as u64), PLANAR_BANKS.1);
        row = match unit_banks(written) {
            (..=1, _) => spread(row, 1, wide),
            // Rows of whole channels are also read by eight (`norm_softmax_an1_1x12x64x64`: 0x61 for 0x60).
            // A row takes no more units than it has (`norm_softmax_an1_1x32x4x4`: 0x21 for 0x20).
            (rows, units) if !written.transpose => {
                let eight = (NEURAL_BANKS.0.min(view.height() as u64), PLANAR_BANKS.1);
                spread_all(row, &[(rows, units.min(channel)), eight])
            }
            unit => spread(row, 1, unit),
        };
    } else if view.height() > 1 && !dense {
        let rows = |(most, gap): (u64, u64)| (most.min(view.height() as u64), gap);
        // Rows of a unit of the neural engine are one more than their own units apart (`norm_softmax_a3_1x128x16x16`: 0x103 for 0x100);
        // those of a single channel follow each other (`norm_softmax_a3_1x1x64x64`: 0x8).
        let unit = match conventions.places_by_use {
            // Eight of more rows (`norm_softmax_a2_1x64x8x8`: 64 rows of eight columns, not spread).
            true => rows((1 << fitting_rows(written).min(3), channel + u64::from(view.channels() > 1))),
            false => (1, 0),
        };
        let function = matches!(written.kind, Kind::Neuron { .. }) && !written.kind.is_copy() && !written.transpose;
        // Fewer rows than the neural engine reads together keep the same distance; two need none.
        row = match rows(NEURAL_BANKS) {
            // A patch of two operands has as many rows as its columns leave (`norm_softmax_a3_1x1x64x64`: four of 64 columns, 0x8).
            _ if !neural && function => {
                let patch = (1 << PATCH_OF_TWO) / view.width.next_power_of_two() as u64;
                spread_all(row, &[rows((PLANAR_BANKS.0.min(patch.max(1)), PLANAR_BANKS.1)), unit])
            }
            // An operand that is cut to columns lies in patches too (`candidate_select_rrb_1x1024x375_bcast_cond`: eight rows of 47 units,
            // not spread).
            _ if !neural && conventions.places_by_use && cut_columns(written).is_some() => {
                let patch = (1u64 << PATCH_OF_TWO) / PLANAR_COLUMNS_OF_TWO as u64;
                spread(row, 1, rows((patch, PLANAR_BANKS.1)))
            }
            // The planar engine reads sixteen rows together, and so does the neural one without sliding windows.
            _ if !neural => spread(row, 1, rows(PLANAR_BANKS)),
            (..=2, _) => row,
            // Eight rows of the planar engine's distance (`env_chain_softmax_h1_s128`: 0x11 for 0x10).
            _ if !convolved => spread_all(row, &[rows((NEURAL_BANKS.0, PLANAR_BANKS.1)), unit]),
            // Few rows of a small source are apart as eight are (`env_chain_mlp_m32_k2048_h4096`: 0x803 for 0x800).
            (3..=4, gap) if conventions.places_by_use && small => spread(row, 1, (view.height() as u64, gap)),
            // Turned matrices whose tiles have some of the rows are left as they fall (`bmm_r3rr_m375_k128_n749_tx0_ty1_b8`).
            _ if rows_turned(written).is_some() && source_tile(written).rows < written.result.height() => row,
            // Channels of odd units lie in all banks without a gap (`bmm_r3rb_m375_k128_n375_tx0_ty1_b8_idx`: 0x1780).
            _ if conventions.places_by_use && turns_matrices(written) && channel % 2 == 1 => row,
            (3..=4, _) => spread(row, 1, FEW_NEURAL_BANKS),
            all => spread(row, 1, all),
        };
    }
    let group = row * view.height() as u64;
    // Groups of one row take the space of separate rows.
    let taken = if view.groups() > 1 && view.height() == 1 && !conventions.places_by_use {
        spread(group, 1, (PLANAR_BANKS.0.min(view.groups() as u64), PLANAR_BANKS.1))
    } else {
        group
    };
    Some(Resident {
        base_bytes: 0,
        bytes: taken * view.groups() as u64 * UNIT_BYTES,
        crosses: readers.iter().map(|&(i, _)| i).chain(writers.iter().copied()).any(|i| groups[i] != groups[writer]),
        entries: {
            let reads = readers.iter().map(|&(i, _)| i).filter(|&i| groups[i] != groups[writer]);
            let mut entries: Vec<usize> = reads.collect();
            entries.dedup_by_key(|i| groups[*i]);
            entries
        },
        pieces: folded && conventions.places_by_use,
        copied,
        alone: writers.len() == 1,
        read_once: readers.len() == 1,
        writer,
        last,
        view,
        strides: [group, channel, row].map(|units| units * UNIT_BYTES),
    })
}
