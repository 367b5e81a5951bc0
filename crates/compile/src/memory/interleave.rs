//! Results in scratch memory whose channels are stored in sets, as zin 9.509 stores them.

use super::Residency;
use crate::ir::*;
use crate::tile::copies;
use anemone_facts::staging::STAGED_INTERLEAVE;

/// Layers by the buffers that they use, in order: writers, and layers that only read.
struct Users {
    writers: Vec<Vec<usize>>,
    readers: Vec<Vec<usize>>,
}

impl Users {
    fn of(graph: &Graph) -> Users {
        let [mut writers, mut readers] = [const { Vec::new() }; 2].map(|list| vec![list; graph.buffers.len()]);
        for (index, layer) in graph.layers.iter().enumerate() {
            let result = layer.result.buffer.0 as usize;
            writers[result].push(index);
            for source in layer.sources.iter().map(|view| view.buffer.0 as usize) {
                if source != result && readers[source].last() != Some(&index) {
                    readers[source].push(index);
                }
            }
        }
        Users { writers, readers }
    }
}

/// Interleaves by eight the channels of a matrix that a copy turns into scratch memory, if only convolutions read it
/// (`env_mm_r2rb_m512_k2048_n2048_tx0_ty1`, `env_mm_r3rb_m256_k4096_n2048_tx0_ty1_b1`).
pub(super) fn matrices(graph: &mut Graph, residency: &Residency) {
    let users = Users::of(graph);
    for (i, buffer) in graph.buffers.iter_mut().enumerate() {
        let &[writer] = users.writers[i].as_slice() else { continue };
        let readers = &users.readers[i];
        let layers = &mut graph.layers;
        let view = layers[writer].result;
        let [groups, channels, rows] = view.axes.map(|axis| axis.extent);
        let turned = copies(&layers[writer]) && layers[writer].transpose && view.offset_bytes == 0;
        let convolved = |l: &Layer| l.convolves() && l.source_interleave == 1 && l.sources == [view];
        let read = !readers.is_empty() && readers.iter().all(|&reader| convolved(&layers[reader]));
        let whole = (groups, rows) == (1, 1) && channels.is_multiple_of(STAGED_INTERLEAVE) && read;
        if buffer.role != Role::Scratch || residency.resident(&view).is_some() || !turned || !whole {
            continue;
        }
        let set = ((view.width * STAGED_INTERLEAVE) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        buffer.bytes = set * (channels / STAGED_INTERLEAVE) as u64;
        layers[writer].interleave = STAGED_INTERLEAVE;
        layers[writer].result.axes[1].stride_bytes = set;
        for &reader in readers {
            layers[reader].source_interleave = STAGED_INTERLEAVE;
            layers[reader].sources[0].axes[1].stride_bytes = set;
        }
    }
}

/// Interleaves the channels of what elementwise tasks exchange through scratch memory, by the most of eight, four and two that divides them
/// (`select_rrb_1x8x375x375`; `env_chain_softmax_h12_s256`: four of twelve channels). One task writes such a result, others read all
/// of it. Both sources of a planar task have one interleave, so that a result beside another operand keeps its channels apart.
pub(super) fn exchanged(graph: &mut Graph, residency: &Residency) {
    let users = Users::of(graph);
    let mut sets: Vec<usize> = (0..graph.buffers.len()).map(|i| set_of(graph, residency, &users, i)).collect();
    let at = |view: &View4| view.buffer.0 as usize;
    // A source that loses its sets is compared again with the others of its readers.
    let mut pending: Vec<usize> = (0..graph.layers.len()).rev().collect();
    while let Some(layer) = pending.pop().map(|index| &graph.layers[index]) {
        if layer.sources.iter().any(|s| sets[at(s)] != sets[at(&layer.sources[0])]) {
            for source in layer.sources.iter().map(at) {
                if std::mem::replace(&mut sets[source], 1) > 1 {
                    pending.extend(users.writers[source].iter().chain(&users.readers[source]));
                }
            }
        }
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
fn set_of(graph: &Graph, residency: &Residency, users: &Users, buffer: usize) -> usize {
    let of = |view: &View4| view.buffer.0 as usize == buffer;
    let &[writer] = users.writers[buffer].as_slice() else { return 1 };
    let writer = &graph.layers[writer];
    let view = writer.result;
    let plain = |l: &Layer| {
        l.is_elementwise() && !l.transpose && (l.interleave, l.source_interleave, l.turned) == (1, 1, [false; 2])
    };
    let readers = &users.readers[buffer];
    let alike = |l: &Layer| {
        plain(l) && l.broadcast.iter().all(|b| *b == [false; 3]) && l.sources.iter().all(|s| !of(s) || *s == view)
    };
    // A task that reads what it writes exchanges nothing with others.
    let apart = !writer.sources.iter().any(of);
    let read = apart && !readers.is_empty() && readers.iter().all(|&reader| alike(&graph.layers[reader]));
    let memory = graph.buffers[buffer].role == Role::Scratch && !residency.stays(buffer);
    let whole = view.offset_bytes == 0 && view.groups() == 1 && view.height() > 1;
    let sets = [STAGED_INTERLEAVE, STAGED_INTERLEAVE / 2, STAGED_INTERLEAVE / 4];
    let fits = sets.into_iter().find(|by| view.channels().is_multiple_of(*by));
    fits.filter(|_| memory && whole && read && plain(writer)).unwrap_or(1)
}
