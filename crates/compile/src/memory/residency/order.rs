//! Order in which results are placed in tile memory, and reuse of places.

use super::{Resident, reduces_alike};
use crate::ir::*;
use crate::memory::Allocations;
use crate::options::Conventions;
use crate::tile;
use std::collections::{HashMap, HashSet};

/// Candidates with a place of their own, from the sources of the last layer back to those of the first.
pub(super) fn by_last_reader(graph: &Graph, candidates: &[(usize, Resident)], first: &[usize]) -> Vec<usize> {
    let of: HashMap<usize, usize> = candidates.iter().enumerate().map(|(i, (buffer, _))| (*buffer, first[i])).collect();
    let mut seen = HashSet::new();
    let sources = graph.layers.iter().rev().flat_map(|layer| &layer.sources);
    sources.filter_map(|view| of.get(&(view.buffer.0 as usize)).copied()).filter(|&i| seen.insert(i)).collect()
}

/// Rank of a place as 9.509 assigns them: what is written in parts (`env_chain_ln_matmul_m1_k2048_n2048`) or copied from copy to copy
/// (`env_mm_r2rb_m32_k4096_n4096_tx1_ty1`), then first sources, then places that several results have in turn
/// (`norm_softmax_an1_1x12x64x64`: the copy, then differences and exponentials) or would have if they were laid out alike
/// (`env_chain_softmax_h1_s128`), then second sources (`chain_serial_d256_s64`, `norm_layer_norm_ax3_1x64x8x8`).
pub(super) fn rank(graph: &Graph, candidates: &[(usize, Resident)], first: &[usize], at: usize) -> usize {
    let of = |view: &View4| candidates.iter().position(|(buffer, _)| *buffer == view.buffer.0 as usize);
    let same = |view: &View4| of(view).is_some_and(|i| first[i] == at);
    let result = &candidates[at].1;
    // An operand reduced to as many elements comes first (`norm_softmax_a1_1x1x1x128`: exponentials, then their sums).
    let summed = matches!(graph.layers[result.writer].kind, Kind::SumChannels { .. });
    let operand = |r: &Resident| summed && reduces_alike(graph, result, r);
    if let Some(operand) = candidates.iter().position(|(_, r)| operand(r)) {
        return rank(graph, candidates, first, first[operand]);
    }
    // Numbers that a reduction turns come first (`norm_layer_norm_ax1_1x64x8x8`), except those of a row (`norm_softmax_a3_1x64x1x1`).
    let writer = &graph.layers[result.writer];
    if writer.transpose && !writer.turned[0] && matches!(writer.kind, Kind::Reduce { .. } | Kind::InverseRms { .. }) {
        return 0;
    }
    // Products are no such parts (`chain_attn_s256_dh96`: the scores behind the maxima).
    let begins = matches!(graph.layers[result.writer].kind, Kind::Product { .. } | Kind::Conv { .. });
    if !result.alone && !begins || result.copied && !result.crosses && graph.layers[result.writer].kind.is_copy() {
        return 0;
    }
    let readers = || graph.layers.iter().filter(|l| l.sources.iter().any(same));
    if copied_last(graph, candidates, first, at) {
        return 3;
    }
    // A row that another product reads while it is computed is placed behind the matrix that it is computed from.
    if tile::continues_product(graph, result.writer + 1) {
        return 3;
    }
    if tile::continues_product(graph, result.writer) {
        return 4;
    }
    // Results that replace a convolution's come first, and one beside an operand from memory last (`chain_ffn_d512_s128_biasfull`).
    if matches!(writer.kind, Kind::Conv { .. }) {
        // Not one that a sum reads later (`chain_block_d256_s64_proj1`).
        let summed = readers().any(|l| matches!(l.kind, Kind::Planar { .. }) && !same(&l.result));
        if candidates.iter().enumerate().any(|(i, _)| i != at && first[i] == at) && !summed {
            return 0;
        }
        let streams = |l: &Layer| graph.buffer(l.sources[l.sources.len() - 1].buffer).role != Role::Scratch;
        if readers().all(|l| matches!(l.kind, Kind::Planar { .. }) && streams(l)) {
            return 3;
        }
    }
    // A table of a table of an input comes first (`floor_r_1x64x1x1`).
    let operand = |layer: &Layer| of(&layer.sources[0]).map(|i| &graph.layers[candidates[i].1.writer]);
    if writer.is_table() && operand(writer).is_some_and(|before| before.is_table() && operand(before).is_none()) {
        return 0;
    }
    // Tables of a single element come in the order in which they are written, behind what they are computed from; the first operand of
    // their difference is last (`floor_div_native_1_rr`).
    if single_table(graph, result) {
        let reader = &graph.layers[result.last];
        let first = same(&reader.sources[0]) && reader.sources.get(1).is_some_and(|second| of(second).is_some());
        return if first && !reader.is_neural() { 4 } else { 3 };
    }
    if let Some(rank) = combined_rank(graph, candidates, at) {
        return rank;
    }
    // A table that keeps its place is first; the tables of a result that several tables read are last, and what is computed from one of them
    // before (`floor_div_native_1x64x1x1_rr`: the reciprocal, the quotient, the step, the fraction and the truncation).
    if held(graph, candidates, at) > result.last {
        return 0;
    }
    let shared = |layer: &Layer| {
        let mut reads = graph.layers.iter().filter(|l| l.sources.iter().any(|s| s.buffer == layer.sources[0].buffer));
        layer.is_table() && of(&layer.sources[0]).is_some() && reads.clone().count() > 1 && reads.all(Layer::is_table)
    };
    if shared(writer) {
        return 3;
    }
    if writer.is_table() && operand(writer).is_some_and(shared) {
        return 2;
    }
    // A function of a result, and its operand.
    let function = |layer: &Layer| {
        let applies = matches!(layer.kind, Kind::Neuron { .. }) && !layer.kind.is_copy() && !layer.transpose;
        applies && layer.result.height() > 1 && of(&layer.sources[0]).is_some() && of(&layer.result).is_some()
    };
    let mut functions = graph.layers.iter().filter(|layer| function(layer));
    // A product begins its place; it is no copy that others replace (`env_chain_attention_s128_d128`, `chain_pair_add_ln_d256_s64`).
    // Scores come behind the matrix that they are a product of if that takes more of tile memory for longer (`chain_block_d256_s64_proj1`,
    // `chain_resattn_s64_d256`; not `chain_attn_s64_dh96`).
    let mut in_turn =
        candidates.iter().zip(first).filter(|(_, f)| **f == at).map(|((_, r), _)| &graph.layers[r.writer]);
    let scores = matches!(writer.kind, Kind::Product { .. }) && in_turn.any(|l| matches!(l.kind, Kind::Neuron { .. }));
    if scores && result.alone {
        let matrix = of(&writer.sources[0]).map(|i| first[i]);
        if matrix.is_some_and(|matrix| area(graph, candidates, first, matrix) > area(graph, candidates, first, at)) {
            return 2;
        }
    }
    let turns = !begins && first.iter().filter(|&&f| f == at).count() > 1;
    if turns || functions.any(|layer| same(&layer.sources[0]) || same(&layer.result)) {
        return 2;
    }
    if graph.layers.iter().filter_map(|layer| layer.sources.first()).any(same) { 1 } else { 3 }
}

/// Returns true for a copy that products read and that comes last: one that is also stored for a product of computed matrices
/// (`chain_block_d256_s64_proj1`), or that of the weights of scores that are placed behind a matrix (`chain_stack4_d256_s64_proj1`: the second
/// block's).
fn copied_last(graph: &Graph, candidates: &[(usize, Resident)], first: &[usize], at: usize) -> bool {
    let of =
        |view: &View4| candidates.iter().position(|(buffer, _)| *buffer == view.buffer.0 as usize).map(|i| first[i]);
    let (result, product) = (&candidates[at].1, |l: &Layer| matches!(l.kind, Kind::Product { .. }));
    let writer = &graph.layers[result.writer];
    let mut readers = graph.layers.iter().filter(|l| l.sources.iter().any(|view| of(view) == Some(at)));
    if !writer.kind.is_copy() || !readers.all(product) {
        return false;
    }
    let scores = |place: usize| product(&graph.layers[candidates[place].1.writer]);
    let behind = |place: usize| place != at && scores(place) && rank(graph, candidates, first, place) == 2;
    result.crosses || of(&writer.sources[0]).is_some_and(behind)
}

/// Returns true for a table of a single element.
pub(super) fn single_table(graph: &Graph, result: &Resident) -> bool {
    result.view.count() == 1 && graph.layers[result.writer].is_table()
}

/// Rank of two results of which each is combined with an operand from memory: behind what they are computed from, the first operand of their
/// sum last (`candidate_select_rrb_1x1024x375_bcast_cond`).
fn combined_rank(graph: &Graph, candidates: &[(usize, Resident)], at: usize) -> Option<usize> {
    if second_operand(graph, candidates, at).is_some() {
        return Some(4);
    }
    let second = || (0..candidates.len()).any(|i| second_operand(graph, candidates, i) == Some(at));
    (combined(graph, &candidates[at].1) && second()).then_some(3)
}

/// Returns true for what a planar task has computed from an operand in tile memory and one from memory.
fn combined(graph: &Graph, result: &Resident) -> bool {
    let layer = &graph.layers[result.writer];
    let roles = || layer.sources.iter().map(|view| &graph.buffer(view.buffer).role);
    let operands = roles().any(|role| *role == Role::Scratch) && roles().any(|role| *role == Role::Input);
    matches!(layer.kind, Kind::Planar { .. }) && operands
}

/// The second operand of a planar task whose first one is this candidate, both of them tables of a single element, or combined with operands
/// from memory.
pub(super) fn second_operand(graph: &Graph, candidates: &[(usize, Resident)], at: usize) -> Option<usize> {
    let (buffer, r) = &candidates[at];
    let reader = &graph.layers[r.last];
    let second =
        reader.sources.get(1).filter(|_| reader.sources[0].buffer.0 as usize == *buffer || single_table(graph, r))?;
    let other = candidates.iter().position(|(other, _)| *other == second.buffer.0 as usize && other != buffer)?;
    [single_table, combined].iter().any(|alike| alike(graph, r) && alike(graph, &candidates[other].1)).then_some(other)
}

/// Last task for which the place of a candidate is taken: a table beside an operand from memory keeps it as long as the result is in use
/// (`floor_div_native_1x64x1x1_rr`: the reciprocal at 0, the truncation at 0x180).
pub(super) fn held(graph: &Graph, candidates: &[(usize, Resident)], at: usize) -> usize {
    let (buffer, r) = &candidates[at];
    let reader = &graph.layers[r.last];
    let second = reader.sources.get(1).is_some_and(|view| view.buffer.0 as usize == *buffer);
    let result = candidates.iter().find(|(b, _)| *b == reader.result.buffer.0 as usize).map(|(_, r)| r.last);
    let table = r.read_once && second && beside_memory(graph, reader) && graph.layers[r.writer].is_table();
    result.filter(|_| table).map_or(r.last, |last| last.max(r.last))
}

/// Last task for which the place of a matrix is taken: that of a matrix whose copies a product multiplies, and which a product multiplies
/// again, stays to the end (`chain_block_d256_s64_proj0`, `chain_block_d512_s128_proj0`: attention of a norm's result to itself). So does
/// that of a sum beside folded rows (`chain_stack4_d256_s64_proj1`: one for each block, at 0x100, 0x8100, 0x10100 and 0x18100).
pub(super) fn attended(graph: &Graph, candidates: &[(usize, Resident)], at: usize) -> usize {
    let (buffer, r) = &candidates[at];
    let product = |l: &Layer| matches!(l.kind, Kind::Product { .. });
    let multiplied = |l: &Layer| {
        let buffer = l.result.buffer;
        graph.layers.iter().any(|other| product(other) && other.sources.iter().any(|s| s.buffer == buffer))
    };
    let reads = |l: &&Layer| l.sources.first().is_some_and(|source| source.buffer.0 as usize == *buffer);
    let readers = || graph.layers.iter().filter(reads);
    let copied = readers().filter(|l| !product(l) && multiplied(l)).count() > 1;
    let stays = copied && readers().any(product) || adds_folded_rows(graph, &graph.layers[r.writer]);
    if stays { graph.layers.len() - 1 } else { r.last }
}

/// Bytes of a place times the tasks for which it is taken.
fn area(graph: &Graph, candidates: &[(usize, Resident)], first: &[usize], place: usize) -> u64 {
    let in_turn = || (0..candidates.len()).filter(|&i| first[i] == place);
    let bytes = in_turn().map(|i| candidates[i].1.bytes).max();
    let last = in_turn().map(|i| attended(graph, candidates, i)).max();
    bytes.unwrap_or(0) * (last.unwrap_or(0) + 1).saturating_sub(candidates[place].1.writer) as u64
}

/// Moves first sources that take more of tile memory for longer before a sum that replaces a product (`chain_block_d512_s128_proj0`: the
/// norm's result, then the sum; `chain_stack2_d256_s128_proj1`: the second sum, then the first;
/// `chain_stack4_d256_s64_proj1`: the sums of each block as they are written).
pub(super) fn larger_first(graph: &Graph, candidates: &[(usize, Resident)], first: &[usize], order: &mut [usize]) {
    let of =
        |view: &View4| candidates.iter().position(|(buffer, _)| *buffer == view.buffer.0 as usize).map(|i| first[i]);
    let two = |l: &&Layer| l.sources.len() == 2 && matches!(l.kind, Kind::Planar { op: PlanarOp::Add, .. });
    for sum in graph.layers.iter().filter(two) {
        let place = of(&sum.sources[1]).filter(|place| of(&sum.result) == Some(*place));
        let Some(mut at) = place.and_then(|place| order.iter().position(|i| *i == place)) else { continue };
        let ranked = |i: usize| rank(graph, candidates, first, i);
        let (own, most) = (ranked(order[at]), area(graph, candidates, first, order[at]));
        for i in at + 1..order.len() {
            if ranked(order[i]) == own && area(graph, candidates, first, order[i]) > most {
                order[at..=i].rotate_right(1);
                at += 1;
            }
        }
    }
}

/// By candidate, in the order of their writers: the first candidate whose place it reuses, or itself.
pub(super) fn places(candidates: &[(usize, Resident)], allocations: &Allocations) -> Vec<usize> {
    let of: HashMap<usize, usize> = candidates.iter().enumerate().map(|(i, (buffer, _))| (*buffer, i)).collect();
    let mut first: Vec<usize> = (0..candidates.len()).collect();
    for (i, (buffer, _)) in candidates.iter().enumerate() {
        if let Some(&source) = allocations.takes(*buffer).and_then(|source| of.get(&source)) {
            first[i] = first[source];
        }
    }
    first
}

/// Buffers that can reuse the place of a source, with the buffer of that source: elementwise results with the layout of the source,
/// whose writer is its last reader.
pub(super) fn takes(graph: &Graph, candidates: &[(usize, Resident)], conventions: &Conventions) -> Vec<(usize, usize)> {
    let of: HashMap<usize, usize> = candidates.iter().enumerate().map(|(i, (buffer, _))| (*buffer, i)).collect();
    let taken = |(buffer, result): &(usize, Resident)| {
        let layer = &graph.layers[result.writer];
        let applies = matches!(layer.kind, Kind::ChannelAffine { .. }) && conventions.places_by_use;
        // A number applied to a turned matrix (`chain_pair_mul_mm_d256_s64`).
        let number = matches!(layer.kind, Kind::Pool { window: Window::UNIT, .. }) && conventions.places_by_use;
        let two = matches!(layer.kind, Kind::Planar { .. } | Kind::Neuron { .. });
        let each = (applies || number || two) && !layer.transpose;
        let whole = result.strides(&layer.result).filter(|_| each && layer.interleave == 1 && result.alone);
        let place = whole.filter(|(offset, _)| *offset == 0)?;
        let beside_folded = conventions.places_by_use && adds_folded_rows(graph, layer);
        let source = (0..layer.sources.len()).find_map(|s| {
            let view = &layer.sources[s];
            let plain = layer.broadcast[s] == [false; 3] && !layer.turned[s] && view.buffer.0 as usize != *buffer;
            let &at = of.get(&(view.buffer.0 as usize)).filter(|_| plain)?;
            let before = &candidates[at].1;
            // A norm's last step takes the place of the row that its sums have read (`norm_layer_norm_ax1_1x2048x1x1`).
            // Differences take the place of a product (`chain_attn_s64_dh64`).
            let product = matches!(graph.layers[before.writer].kind, Kind::Product { .. });
            // Weights of an attention take the place of the exponentials of its scores (`chain_block_d256_s64_proj1`).
            let rows = layer.result.channels() > 1 && layer.result.width > 1;
            let scores =
                || matches!(layer.kind, Kind::Planar { .. }) && s == 1 && rows && exponentials(graph, before.writer);
            // Not a table beside an operand from memory (`floor_div_native_1_rr`).
            let table = s == 1 && beside_memory(graph, layer) && graph.layers[before.writer].is_table();
            if table && conventions.places_by_use {
                return None;
            }
            if beside_folded && s == 1 {
                return None;
            }
            let once =
                before.read_once || applies || product || !conventions.places_by_use || scores() || beside_folded;
            // A table of a table has a place of its own (`floor_r_1x64x1x1`), and one of elements that were transposed
            // (`norm_softmax_a3_1x64x1x1`).
            let writer = &graph.layers[before.writer];
            let again = conventions.places_by_use && layer.is_table() && (writer.is_table() || writer.transpose);
            let same = once && !again && before.last == result.writer && before.bytes == result.bytes;
            (same && before.strides(view) == Some(place)).then_some(candidates[at].0)
        });
        Some((*buffer, source?))
    };
    candidates.iter().filter_map(taken).collect()
}

/// Returns true for a sum whose second operand is a product with constants of rows that were folded to a square: its places are rows and
/// columns, so that the sum takes the place of its first operand, also of one that a norm has read (`chain_stack4_d256_s64_proj1`; not
/// `chain_stack2_d256_s128_proj1`).
fn adds_folded_rows(graph: &Graph, layer: &Layer) -> bool {
    let [_, second] = layer.sources.as_slice() else { return false };
    let product = graph.layers.iter().find(|l| l.result.buffer == second.buffer);
    let sum = matches!(layer.kind, Kind::Planar { op: PlanarOp::Add, .. });
    sum && product.is_some_and(|l| matches!(l.kind, Kind::Conv { .. }) && l.transpose && tile::computed(l)[1] > 1)
}

/// Returns true for a task whose first operand has elements of one byte.
pub(super) fn reads_bytes(graph: &Graph, layer: &Layer) -> bool {
    graph.buffer(layer.sources[0].buffer).element_bytes < ELEMENT_BYTES
}

/// Returns true for a planar task of two operands, the first one from memory.
pub(super) fn beside_memory(graph: &Graph, layer: &Layer) -> bool {
    let two = matches!(layer.kind, Kind::Planar { .. }) && layer.sources.len() == 2;
    two && graph.buffer(layer.sources[0].buffer).role != Role::Scratch
}

/// Returns true for a table of the differences of a product of computed matrices.
fn exponentials(graph: &Graph, writer: usize) -> bool {
    let before = |layer: &Layer| graph.layers[..writer].iter().rfind(|l| l.result.buffer == layer.sources[0].buffer);
    let table = &graph.layers[writer];
    let differences = before(table).filter(|l| table.is_table() && matches!(l.kind, Kind::Planar { .. }));
    differences.and_then(before).is_some_and(|scores| matches!(scores.kind, Kind::Product { .. }))
}

/// The layers of a list whose live results exceed its space wherever they lie; the whole list if there are none. Their results are spilled
/// first: the others' may fit elsewhere then (`env_chain_softmax_h8_s256`: the difference, not the operand before it).
pub(super) fn beyond(candidates: &[(usize, Resident)], layers: Vec<usize>, space: impl Fn(usize) -> u64) -> Vec<usize> {
    let live = |layer: usize| {
        let live = candidates.iter().map(|(_, r)| r).filter(|r| r.writer <= layer && layer <= r.last);
        let mut places: Vec<(u64, u64)> = live.map(|r| (r.base_bytes, r.base_bytes + r.bytes)).collect();
        places.sort_unstable();
        let mut reached = 0;
        places.iter().fold(0, |sum, &(start, end)| {
            let from = start.max(reached);
            reached = reached.max(end);
            sum + end.saturating_sub(from)
        })
    };
    let beyond: Vec<usize> = layers.iter().copied().filter(|&layer| live(layer) > space(layer)).collect();
    if beyond.is_empty() { layers } else { beyond }
}

/// Returns true if what a task has read is still in place while the next one computes: the other engine's, or the last one of a group
/// (`env_chain_ln_matmul_m1_k2048_n2048`, `env_mm_r2rb_m32_k4096_n4096_tx1_ty1`).
pub(super) fn still_read(graph: &Graph, groups: &[usize], stays: &HashSet<usize>, task: usize) -> bool {
    let (Some(layer), Some(next)) = (graph.layers.get(task), graph.layers.get(task + 1)) else { return false };
    if groups.get(task) != groups.get(task + 1) {
        // Coefficients that a product wrote are waited for (`chain_block_d256_s64_proj1`).
        let waits = layer.convolves() && layer.interleave > 1;
        return layer.is_neural() && next.is_neural() && !waits;
    }
    // A table of bytes that are kept takes the place of what the planar engine has read before it
    // (`candidate_select_rrb_1x1024x375_bcast_cond`), and one that reads what it has stored in memory starts behind it
    // (`env_chain_softmax_h12_s256`).
    let buffer = layer.result.buffer;
    let stored = next.sources.iter().any(|source| source.buffer == buffer) && !stays.contains(&(buffer.0 as usize));
    !layer.is_neural() && next.is_neural() && !reads_bytes(graph, next) && !stored
}
