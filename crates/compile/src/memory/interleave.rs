//! Results in scratch memory whose channels are stored in sets, as zin 9.509 stores them.

use super::Residency;
use crate::ir::*;
use crate::tile::copies;
use anemone_facts::staging::STAGED_INTERLEAVE;
use std::sync::Arc;

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

/// Interleaves by eight the channels of a matrix that only convolutions read, if a copy turns it into scratch memory
/// (`env_mm_r2rb_m512_k2048_n2048_tx0_ty1`, `env_mm_r3rb_m256_k4096_n2048_tx0_ty1_b1`), or if convolutions write it in whole sets
/// (`chain_ffn_d1024_s375_matmul_silu`: 16 tasks write 4096 channels).
pub(super) fn matrices(graph: &mut Graph, residency: &Residency) {
    let users = Users::of(graph);
    for (i, buffer) in graph.buffers.iter_mut().enumerate() {
        let (writers, readers) = (&users.writers[i], &users.readers[i]);
        let layers = &mut graph.layers;
        let Some(&view) = readers.first().and_then(|&reader| layers[reader].sources.first()) else { continue };
        let [groups, channels, rows] = view.axes.map(|axis| axis.extent);
        let turned = |l: &Layer| copies(l) && l.transpose && l.result == view;
        let first = |l: &Layer| (l.result.offset_bytes / view.axes[1].stride_bytes.max(1)) as usize;
        let sets =
            |l: &Layer| [first(l), l.result.channels()].iter().all(|count| count.is_multiple_of(STAGED_INTERLEAVE));
        let convolved = |l: &Layer| l.convolves() && !l.transpose && l.interleave == 1 && sets(l);
        let written = match writers.as_slice() {
            [writer] if turned(&layers[*writer]) => true,
            writers => {
                let all: usize = writers.iter().map(|&writer| layers[writer].result.channels()).sum();
                all == channels && writers.iter().all(|&writer| convolved(&layers[writer]))
            }
        };
        let read = |l: &Layer| l.convolves() && l.source_interleave == 1 && l.sources == [view];
        let whole = (groups, rows, view.offset_bytes) == (1, 1, 0) && channels.is_multiple_of(STAGED_INTERLEAVE);
        let memory = buffer.role == Role::Scratch && residency.resident(&view).is_none();
        if !memory || !whole || !written || !readers.iter().all(|&reader| read(&layers[reader])) {
            continue;
        }
        let set = ((view.width * STAGED_INTERLEAVE) as u64 * ELEMENT_BYTES).next_multiple_of(ROW_ALIGN);
        buffer.bytes = set * (channels / STAGED_INTERLEAVE) as u64;
        for &writer in writers {
            let at = first(&layers[writer]);
            layers[writer].interleave = STAGED_INTERLEAVE;
            layers[writer].result.offset_bytes = set * (at / STAGED_INTERLEAVE) as u64;
            layers[writer].result.axes[1].stride_bytes = set;
        }
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

/// Stores the channels of constants in sets of eight that copies alone read whole, one row of several columns each
/// (`env_bcast_add_1x8x375x128_blob_1x8x1x128`).
pub(super) fn constants(graph: &mut Graph) {
    let users = Users::of(graph);
    for (i, buffer) in graph.buffers.iter_mut().enumerate() {
        let Role::Constant(data) = &buffer.role else { continue };
        let Some(&view) = users.readers[i].first().map(|&reader| &graph.layers[reader].sources[0]) else { continue };
        let [groups, channels, rows] = view.axes.map(|axis| axis.extent);
        let copied = |l: &Layer| copies(l) && !l.transpose && (l.interleave, l.source_interleave) == (1, 1);
        let alone = users.readers[i].iter().all(|&reader| {
            let layer = &graph.layers[reader];
            copied(layer) && layer.broadcast.iter().all(|b| *b == [false; 3]) && layer.sources == [view]
        });
        let whole = (groups, rows, view.offset_bytes) == (1, 1, 0) && channels.is_multiple_of(STAGED_INTERLEAVE);
        if !alone || !whole || view.width < 2 || buffer.element_bytes != ELEMENT_BYTES {
            continue;
        }
        let mut sets = view;
        let bytes = in_sets(&mut sets, STAGED_INTERLEAVE);
        let mut stored = vec![0; bytes as usize];
        for (channel, column) in (0..channels).flat_map(|channel| (0..view.width).map(move |column| (channel, column)))
        {
            let element = ELEMENT_BYTES as usize;
            let from = channel * view.axes[1].stride_bytes as usize + column * element;
            let set = channel / STAGED_INTERLEAVE * sets.axes[1].stride_bytes as usize;
            let to = set + (column * STAGED_INTERLEAVE + channel % STAGED_INTERLEAVE) * element;
            stored[to..to + element].copy_from_slice(&data[from..from + element]);
        }
        (buffer.role, buffer.bytes) = (Role::Constant(Arc::new(stored)), bytes);
        for &reader in &users.readers[i] {
            (graph.layers[reader].source_interleave, graph.layers[reader].sources) = (STAGED_INTERLEAVE, vec![sets]);
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
