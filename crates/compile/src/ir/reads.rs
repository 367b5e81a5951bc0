//! Verifier of reads: every element that a task reads is one of an input or a constant, or was written by an earlier
//! task. Padding between rows, and bytes behind an operand, are neither.
//!
//! Runs on every program before its words are made. A view that was written as it is read costs one comparison; other
//! views are checked row by row.

use super::*;
use crate::error::{Error, Result};

/// Bytes of a buffer that contain elements, as the starts and ends of runs: ascending, and apart from each other.
#[derive(Clone, Debug, Default)]
struct Elements {
    runs: Vec<(u64, u64)>,
}

impl Elements {
    /// Adds the rows of views.
    fn add(&mut self, views: &[Block]) {
        for view in views {
            view.find_row(&mut |at| {
                self.runs.push((at, at + view.bytes));
                false
            });
        }
        // Rows of a view ascend, which the standard library's stable sort exploits.
        self.runs.sort();
        self.runs.dedup_by(|next, run| {
            let joins = next.0 <= run.1;
            run.1 = if joins { run.1.max(next.1) } else { run.1 };
            joins
        });
    }

    fn hold(&self, start: u64, end: u64) -> bool {
        let after = self.runs.partition_point(|&(from, _)| from <= start);
        after.checked_sub(1).is_some_and(|at| self.runs[at].1 >= end)
    }
}

/// Writes to a buffer: the views written, and the set of their bytes, built on first use.
#[derive(Clone, Debug, Default)]
struct Written {
    views: Vec<Block>,
    counted: usize,
    elements: Elements,
}

/// Layout of a view's elements: leading axes, then contiguous bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    offset_bytes: u64,
    axes: Vec<(usize, u64)>,
    bytes: u64,
}

impl Block {
    fn new(offset_bytes: u64, axes: impl Iterator<Item = Axis>, width: usize) -> Block {
        let mut block = Block { offset_bytes, axes: Vec::new(), bytes: width as u64 * ELEMENT_BYTES };
        block.axes.extend(axes.filter(|a| a.extent != 1).map(|a| (a.extent, a.stride_bytes)));
        // Rows without gaps are merged.
        while let Some(&(extent, stride)) = block.axes.last().filter(|(_, stride)| *stride == block.bytes) {
            block.bytes = extent as u64 * stride;
            block.axes.pop();
        }
        block
    }

    /// Block of a four-axis view whose channels are interleaved in sets of `interleave`.
    fn of(view: &View4, interleave: usize) -> Block {
        let [groups, channels, rows] = view.axes;
        let channels = Axis { extent: channels.extent.div_ceil(interleave.max(1)), ..channels };
        Block::new(view.offset_bytes, [groups, channels, rows].into_iter(), view.width * interleave.max(1))
    }

    /// Calls with the start of every row until one is refused, and returns that one.
    fn find_row(&self, refused: &mut impl FnMut(u64) -> bool) -> Option<u64> {
        fn walk(axes: &[(usize, u64)], at: u64, refused: &mut impl FnMut(u64) -> bool) -> Option<u64> {
            let Some((&(extent, stride), rest)) = axes.split_first() else { return refused(at).then_some(at) };
            // A broadcast row is checked once.
            let extent = if stride == 0 { extent.min(1) } else { extent };
            (0..extent as u64).find_map(|i| walk(rest, at + i * stride, refused))
        }
        walk(&self.axes, self.offset_bytes, refused)
    }
}

impl Written {
    fn holds(&mut self, block: &Block) -> Option<u64> {
        if self.views.contains(block) || block.bytes == 0 {
            return None;
        }
        self.elements.add(&self.views[self.counted..]);
        self.counted = self.views.len();
        block.find_row(&mut |at| !self.elements.hold(at, at + block.bytes))
    }
}

impl Layer {
    /// Returns true for a task that combines operands or applies a function by element, other than a copy.
    pub(crate) fn is_elementwise(&self) -> bool {
        matches!(self.kind, Kind::Planar { .. } | Kind::Neuron { .. }) && !self.kind.is_copy()
    }

    /// Interleave of a source.
    pub(crate) fn interleave_of(&self, source: usize) -> usize {
        let shared = source == 0 || matches!(self.kind, Kind::Planar { .. });
        if shared { self.source_interleave } else { 1 }
    }
}

/// Checks every layer's sources against the contents of their buffers at that point.
pub fn reads(graph: &Graph) -> Result<()> {
    let mut written = vec![Written::default(); graph.buffers.len()];
    for (buffer, written) in graph.buffers.iter().zip(&mut written) {
        let contents = if buffer.role == Role::Input { &buffer.port } else { &buffer.constant };
        written.views.extend(contents.iter().map(|v| Block::new(v.offset_bytes, v.lead.iter().copied(), v.width)));
    }
    for layer in &graph.layers {
        for (i, source) in layer.sources.iter().enumerate() {
            let block = Block::of(source, layer.interleave_of(i));
            if let Some(at) = written[source.buffer.0 as usize].holds(&block) {
                let buffer = graph.buffer(source.buffer);
                return Err(Error::Reads {
                    op: layer.name.clone(),
                    operand: buffer.name.clone(),
                    at_bytes: at,
                    row_bytes: block.bytes,
                    operand_bytes: buffer.bytes,
                });
            }
        }
        let block = Block::of(&layer.result, layer.interleave);
        written[layer.result.buffer.0 as usize].views.push(block);
    }
    Ok(())
}
