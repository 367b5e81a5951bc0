//! Fusion of a transposing copy into the transpose slot of the layer before it.

use super::{Rules, retain, steps_into_producer};
use crate::ir::*;
use crate::options::Options;
use crate::remarks::Remarks;
use std::collections::{BTreeSet, HashMap};

/// Lets layers of the neural engine exchange channels and columns of their output, if the only reader of the result is a copy that does
/// nothing else (the book, table 22.3: `ZinMirNETransposeFusion`).
///
/// Barriers: other readers, results in parts, interleaved channels, other axes, windows of single channels, sums with
/// computed coefficients.
pub(crate) fn into_producer(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    if options.conventions().inverse_transposes_cancel {
        cancel(graph, options, reasons);
    }
    if options.conventions().tables_turned {
        turn_columns(graph, reasons);
    }
    if !options.conventions().whole_epilogues {
        return;
    }
    let mut reads = vec![0usize; graph.buffers.len()];
    let mut writers: Vec<Vec<usize>> = vec![Vec::new(); graph.buffers.len()];
    for (i, layer) in graph.layers.iter().enumerate() {
        layer.sources.iter().for_each(|s| reads[s.buffer.0 as usize] += 1);
        writers[layer.result.buffer.0 as usize].push(i);
    }
    // Layers that touch a buffer outside of scratch memory.
    let mut touched: HashMap<BufferId, BTreeSet<usize>> = HashMap::new();
    for (at, layer) in graph.layers.iter().enumerate() {
        let views = layer.sources.iter().chain([&layer.result]);
        for view in views.filter(|v| graph.buffer(v.buffer).role != Role::Scratch) {
            touched.entry(view.buffer).or_default().insert(at);
        }
    }
    let mut removed = vec![false; graph.layers.len()];
    for at in 0..graph.layers.len() {
        let copy = &graph.layers[at];
        let [source] = copy.sources.as_slice() else { continue };
        let buffer = source.buffer.0 as usize;
        let &[writer] = writers[buffer].as_slice() else { continue };
        let before = &graph.layers[writer];
        let turns = copy.transpose && Epilogue::step(&copy.kind) == Some(Epilogue::UNIT) && copy.source_interleave == 1;
        let alone = reads[buffer] == 1 && graph.buffers[buffer].role == Role::Scratch;
        let free = stores_in_any_order(before) && !before.transpose && before.interleave == 1 && copy.interleave == 1;
        // The target must not be written before others that write it in between.
        let target = copy.result.buffer;
        let apart = touched.get(&target).is_none_or(|all| all.range(writer + 1..at).next().is_none());
        if !turns || !alone || !free || !apart || removed[writer] {
            continue;
        }
        // A copy may read planes as single rows.
        let mut sources = before.sources.clone();
        if before.result.elements() != source.elements() {
            if has_window(before) {
                continue;
            }
            let rows = before.sources.iter().map(as_one_row).collect::<Option<_>>();
            let same = as_one_row(&before.result).is_some_and(|row| row.elements() == source.elements());
            let Some(rows) = rows.filter(|_| same) else { continue };
            sources = rows;
        }
        let result = copy.result;
        reasons.say(|| format!("{} becomes the transpose of {}", graph.layers[at].name, graph.layers[writer].name));
        let layer = &mut graph.layers[writer];
        (layer.sources, layer.result) = (sources, result);
        layer.transpose = true;
        removed[at] = true;
        if let Some(all) = touched.get_mut(&target) {
            all.insert(writer);
        }
    }
    retain(graph, &removed);
}

/// Cancels two transposing copies: the second becomes a copy of the first one's source, which the layer before it writes directly
/// (the book's sample of three tasks: a mean is the operand of a product without a task in between).
///
/// Barriers: other readers of the intermediate results, other shapes, interleaved channels.
fn cancel(graph: &mut Graph, options: &Options, reasons: &mut Remarks) {
    let mut removed = vec![false; graph.layers.len()];
    let mut touches = Touches::of(graph);
    for at in 0..graph.layers.len() {
        let back = &graph.layers[at];
        let turns = |l: &Layer| {
            let plain = l.interleave == 1 && l.source_interleave == 1;
            l.transpose && plain && l.sources.len() == 1 && Epilogue::step(&l.kind) == Some(Epilogue::UNIT)
        };
        let [between] = back.sources.as_slice() else { continue };
        if !turns(back) {
            continue;
        }
        let buffer = between.buffer;
        let mut writers = touches.writers(buffer).iter().filter(|&&i| !removed[i]);
        let (Some(&first), None) = (writers.next(), writers.next()) else { continue };
        let there = &graph.layers[first];
        let alone = touches.readers(buffer).len() == 1 && graph.buffer(buffer).role == Role::Scratch;
        let same = |a: &View4, b: &View4| extents(a) == extents(b);
        if !turns(there) || !alone || there.result != *between || !same(&there.sources[0], &back.result) {
            continue;
        }
        reasons.say(|| format!("{} undoes {}", back.name, there.name));
        let (source, result) = (there.sources[0], back.result);
        removed[first] = true;
        if readers_move(graph, &touches, at, &source) {
            for reader in touches.move_readers(result.buffer, source.buffer) {
                let all = graph.layers[reader].sources.iter_mut();
                all.filter(|s| s.buffer == result.buffer).for_each(|s| *s = source);
            }
            removed[at] = true;
            continue;
        }
        touches.move_readers(buffer, source.buffer);
        let layer = &mut graph.layers[at];
        layer.sources = vec![source];
        layer.transpose = false;
    }
    if removed.contains(&true) {
        retain(graph, &removed);
        steps_into_producer(graph, Rules::COPIES, options.conventions(), reasons);
    }
}

/// Returns true if all readers of a copy's result may read its source: both are whole scratch buffers without another writer. Products
/// read coefficients as streams, whose rows follow each other.
fn readers_move(graph: &Graph, touches: &Touches, copy: usize, source: &View4) -> bool {
    let result = &graph.layers[copy].result;
    let alone = |view: &View4| {
        view.offset_bytes == 0
            && touches.writers(view.buffer).len() == 1
            && graph.buffer(view.buffer).role == Role::Scratch
    };
    let alike = (source.axes, source.width) == (result.axes, result.width);
    let mut readers = touches.readers(result.buffer).iter().map(|&reader| &graph.layers[reader]);
    let may_move = |reader: &Layer| {
        let streams = matches!(reader.kind, Kind::Product { .. });
        let mut read = reader.sources.iter().enumerate().filter(|(_, s)| s.buffer == result.buffer);
        read.all(|(at, s)| s == result && (alike || !(streams && at == 1)))
    };
    alone(source) && alone(result) && readers.all(may_move)
}

/// Computes tables of single columns of channels as rows, which the planar task that reads them as its second source, or as both, transposes
/// back (`chain_res_gelu_d256`, `floor_r_1x64x1x1`; a reciprocal is lowered in this form, see `lower/elementwise.rs`).
fn turn_columns(graph: &mut Graph, reasons: &mut Remarks) {
    let touches = Touches::of(graph);
    let mut turned = Vec::new();
    for at in 0..graph.layers.len() {
        let layer = &graph.layers[at];
        let &[first, second] = layer.sources.as_slice() else { continue };
        let plain = layer.turned == [false; 2] && layer.broadcast == [[false; 3]; 2] && !layer.second_relu;
        if !matches!(layer.kind, Kind::Planar { .. })
            || !plain
            || !is_column(&first)
            || extents(&first) != extents(&second)
        {
            continue;
        }
        for (source, view) in [(1, second), (0, first)] {
            let writer = writer_before(graph, &touches, at, &view).filter(|&writer| graph.layers[writer].is_table());
            let Some(writer) = writer.filter(|_| touches.readers(view.buffer) == [at]) else { break };
            let Some(row) = as_row(graph, writer, &view) else { break };
            let (made, reader) = (&graph.layers[writer].name, &graph.layers[at].name);
            reasons.say(|| format!("{made} is computed as a row, which {reader} transposes back"));
            graph.layers[at].sources[source] = row;
            graph.layers[at].turned[source] = true;
            turned.push(writer);
        }
    }
    let mut next = 0;
    while let Some(&table) = turned.get(next) {
        turned.extend(turn_operand(graph, &touches, &turned, table, reasons));
        next += 1;
    }
}

/// Transposes the column that a table reads, if only transposed tables read it, at the layer that computes it. Returns that layer if it is a
/// table, whose own operand may follow.
fn turn_operand(
    graph: &mut Graph,
    touches: &Touches,
    turned: &[usize],
    table: usize,
    reasons: &mut Remarks,
) -> Option<usize> {
    let column = *graph.layers[table].sources.first().filter(|view| is_column(view))?;
    let readers = touches.readers(column.buffer);
    let writer = writer_before(graph, touches, table, &column)?;
    let before = &graph.layers[writer];
    let planar = matches!(before.kind, Kind::Planar { .. }) && before.sources.len() == 2;
    let alike = |&reader: &usize| turned.contains(&reader) && graph.layers[reader].sources[0] == column;
    if !readers.iter().all(alike) || !(before.is_table() || planar) {
        return None;
    }
    let row = as_row(graph, writer, &column)?;
    reasons.say(|| format!("{} is computed as a row, for all tables of it are", graph.layers[writer].name));
    for &reader in readers {
        graph.layers[reader].sources[0] = row;
        graph.layers[reader].transpose = false;
    }
    (!planar).then_some(writer)
}

/// Planes as rows of all their elements; `None` if rows do not follow each other.
fn as_one_row(view: &View4) -> Option<View4> {
    let [groups, channels, rows] = view.axes;
    let dense = rows.extent == 1 || rows.stride_bytes == view.width as u64 * ELEMENT_BYTES;
    let axes = [groups, channels, Axis { extent: 1, ..rows }];
    dense.then(|| View4 { axes, width: rows.extent * view.width, ..*view })
}

fn extents(view: &View4) -> ([usize; 3], usize) {
    (view.axes.map(|a| a.extent), view.width)
}

/// Returns true for several channels of one element.
fn is_column(view: &View4) -> bool {
    extents(view) == ([1, view.channels(), 1], 1) && view.channels() > 1
}

/// Layers that write and read each buffer, in order.
struct Touches {
    writers: Vec<Vec<usize>>,
    /// Once for each source.
    readers: Vec<Vec<usize>>,
}

impl Touches {
    fn of(graph: &Graph) -> Touches {
        let none = || vec![Vec::new(); graph.buffers.len()];
        let mut touches = Touches { writers: none(), readers: none() };
        for (at, layer) in graph.layers.iter().enumerate() {
            touches.writers[layer.result.buffer.0 as usize].push(at);
            layer.sources.iter().for_each(|s| touches.readers[s.buffer.0 as usize].push(at));
        }
        touches
    }

    fn writers(&self, buffer: BufferId) -> &[usize] {
        &self.writers[buffer.0 as usize]
    }

    fn readers(&self, buffer: BufferId) -> &[usize] {
        &self.readers[buffer.0 as usize]
    }

    /// Records that all readers of a buffer read another, and returns them.
    fn move_readers(&mut self, from: BufferId, to: BufferId) -> Vec<usize> {
        let moved = std::mem::take(&mut self.readers[from.0 as usize]);
        self.readers[to.0 as usize].extend(&moved);
        moved
    }
}

/// The only layer before `at` that writes a whole scratch buffer, without transposition.
fn writer_before(graph: &Graph, touches: &Touches, at: usize, view: &View4) -> Option<usize> {
    let mut writers = touches.writers(view.buffer).iter().copied().take_while(|&i| i < at);
    let (Some(writer), None) = (writers.next(), writers.next()) else { return None };
    let layer = &graph.layers[writer];
    let whole = !layer.transpose && layer.interleave == 1 && layer.result.elements() == view.elements();
    (whole && graph.buffer(view.buffer).role == Role::Scratch).then_some(writer)
}

/// Lets a layer write its column as a row, which is returned.
fn as_row(graph: &mut Graph, writer: usize, column: &View4) -> Option<View4> {
    let (lead, bytes) = dense_axes(&[1, column.channels()]);
    let row = View { buffer: column.buffer, offset_bytes: 0, lead, width: column.channels() }.nchw()?;
    graph.buffers[column.buffer.0 as usize].bytes = bytes;
    graph.layers[writer].result = row;
    graph.layers[writer].transpose = true;
    Some(row)
}

/// Returns true for a layer whose result the neural engine stores in any order: of a function, or of sums over all channels with constant
/// coefficients.
fn stores_in_any_order(layer: &Layer) -> bool {
    match &layer.kind {
        Kind::Neuron { .. } => true,
        Kind::Conv { connect: Connect::Dense, .. } => layer.result.groups() == 1,
        _ => false,
    }
}

/// Returns true for a layer whose results depend on several places of its source.
fn has_window(layer: &Layer) -> bool {
    matches!(&layer.kind, Kind::Conv { window, .. } if *window != Window::UNIT)
}
