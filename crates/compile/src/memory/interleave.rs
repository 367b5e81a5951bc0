//! Results in scratch memory whose channels are stored in sets, as zin 9.509 stores them.

use super::Residency;
use crate::ir::*;
use crate::tile::copies;
use anemone_facts::staging::STAGED_INTERLEAVE;

/// Interleaves by eight the channels of a matrix that a copy turns into scratch memory, if only convolutions read it
/// (`env_mm_r2rb_m512_k2048_n2048_tx0_ty1`, `env_mm_r3rb_m256_k4096_n2048_tx0_ty1_b1`).
pub(super) fn matrices(graph: &mut Graph, residency: &Residency) {
    for (i, buffer) in graph.buffers.iter_mut().enumerate() {
        let of = |view: &View4| view.buffer.0 as usize == i;
        let (writers, rest): (Vec<&Layer>, Vec<&Layer>) = graph.layers.iter().partition(|l| of(&l.result));
        let readers: Vec<&Layer> = rest.into_iter().filter(|l| l.sources.iter().any(of)).collect();
        let &[writer] = writers.as_slice() else { continue };
        let view = writer.result;
        let [groups, channels, rows] = view.axes.map(|axis| axis.extent);
        let turned = copies(writer) && writer.transpose && view.offset_bytes == 0 && (groups, rows) == (1, 1);
        let convolved = |l: &&Layer| l.convolves() && l.source_interleave == 1 && l.sources == [view];
        let whole = channels.is_multiple_of(STAGED_INTERLEAVE) && !readers.is_empty() && readers.iter().all(convolved);
        if buffer.role != Role::Scratch || residency.resident(&view).is_some() || !turned || !whole {
            continue;
        }
        let set = ((view.width * STAGED_INTERLEAVE) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        buffer.bytes = set * (channels / STAGED_INTERLEAVE) as u64;
        for layer in &mut graph.layers {
            if of(&layer.result) {
                layer.interleave = STAGED_INTERLEAVE;
                layer.result.axes[1].stride_bytes = set;
            } else if layer.sources.first().is_some_and(of) {
                layer.source_interleave = STAGED_INTERLEAVE;
                layer.sources[0].axes[1].stride_bytes = set;
            }
        }
    }
}

/// Interleaves the channels of what elementwise tasks exchange through scratch memory, by the most of eight, four and two that divides them
/// (`select_rrb_1x8x375x375`; `env_chain_softmax_h12_s256`: four of twelve channels). One task writes such a result, others read all
/// of it. Both sources of a planar task have one interleave, so that a result beside another operand keeps its channels apart.
pub(super) fn exchanged(graph: &mut Graph, residency: &Residency) {
    let mut sets: Vec<usize> = (0..graph.buffers.len()).map(|i| set_of(graph, residency, i)).collect();
    let at = |view: &View4| view.buffer.0 as usize;
    let differ =
        |layer: &&Layer, sets: &[usize]| layer.sources.iter().any(|s| sets[at(s)] != sets[at(&layer.sources[0])]);
    while let Some(layer) = graph.layers.iter().find(|layer| differ(layer, &sets)) {
        layer.sources.iter().for_each(|source| sets[at(source)] = 1);
    }
    for layer in &mut graph.layers {
        let (from, to) = (sets[at(&layer.sources[0])], sets[at(&layer.result)]);
        if from > 1 {
            layer.source_interleave = from;
            for source in &mut layer.sources {
                in_sets(source, from);
            }
        }
        if to > 1 {
            layer.interleave = to;
            graph.buffers[at(&layer.result)].bytes = in_sets(&mut layer.result, to);
        }
    }
}

/// Gives a view the strides of channels in sets, and returns the bytes of the whole.
fn in_sets(view: &mut View4, by: usize) -> u64 {
    let row = ((view.width * by) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
    let set = row * view.height() as u64;
    view.axes[2].stride_bytes = row;
    view.axes[1].stride_bytes = set;
    set * (view.channels() / by) as u64
}

/// Number of channels in a set of a result that elementwise tasks alone write and read through scratch memory; one of others.
fn set_of(graph: &Graph, residency: &Residency, buffer: usize) -> usize {
    let of = |view: &View4| view.buffer.0 as usize == buffer;
    let mut writers = graph.layers.iter().filter(|l| of(&l.result));
    let (Some(writer), None) = (writers.next(), writers.next()) else { return 1 };
    let view = writer.result;
    let plain = |l: &Layer| {
        l.is_elementwise() && !l.transpose && (l.interleave, l.source_interleave, l.turned) == (1, 1, [false; 2])
    };
    let mut readers = graph.layers.iter().filter(|l| l.sources.iter().any(of)).peekable();
    let read = readers.peek().is_some()
        && readers.all(|l| {
            plain(l) && l.broadcast.iter().all(|b| *b == [false; 3]) && l.sources.iter().all(|s| !of(s) || *s == view)
        });
    let memory = graph.buffers[buffer].role == Role::Scratch && !residency.stays(buffer);
    let whole = view.offset_bytes == 0 && view.groups() == 1 && view.height() > 1;
    let sets = [STAGED_INTERLEAVE, STAGED_INTERLEAVE / 2, STAGED_INTERLEAVE / 4];
    let fits = sets.into_iter().find(|by| view.channels().is_multiple_of(*by));
    fits.filter(|_| memory && whole && read && plain(writer)).unwrap_or(1)
}
