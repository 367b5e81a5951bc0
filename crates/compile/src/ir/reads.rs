//! Verifier of reads: every element that a task reads is one of an input or a constant, or was written by an earlier
//! task. Padding between rows, and bytes behind an operand, are neither.
//!
//! Runs on every program before its words are made. A view that is part of one that was written, or of bytes without gaps, costs one
//! comparison; other views are checked row by row.

use super::*;
use crate::error::{Error, Result};
use anemone_program::order;

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

    /// Returns true if one run has all bytes of a range; `near` is the run of the range before, and becomes that of this one.
    fn hold(&self, start: u64, end: u64, near: &mut usize) -> bool {
        let has = |at: usize| self.runs.get(at).is_some_and(|run| run.0 <= start && end <= run.1);
        let at = [*near, *near + 1].into_iter().find(|&at| has(at));
        let found = || self.runs.partition_point(|&(from, _)| from <= start).checked_sub(1);
        at.or_else(found).is_some_and(|at| {
            *near = at;
            has(at)
        })
    }
}

/// Writes to a buffer: the views written, and the set of their bytes, built on first use.
#[derive(Clone, Debug, Default)]
struct Written {
    views: Vec<Block>,
    counted: usize,
    elements: Elements,
    /// Blocks that were read and found written.
    checked: Vec<Block>,
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
        // A transposed view has the same rows.
        if !block.axes.is_sorted_by(|a, b| a.1 >= b.1) {
            order::by(&mut block.axes, |a, b| b.1.cmp(&a.1));
        }
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

    /// Returns true if every element of another block is certainly one of this block.
    fn encloses(&self, other: &Block) -> bool {
        let Some(mut ahead) = other.offset_bytes.checked_sub(self.offset_bytes) else { return false };
        let (mut bytes, mut axes) = (other.bytes, other.axes.iter().peekable());
        for &(extent, stride) in self.axes.iter().filter(|(_, stride)| *stride > 0) {
            // Steps along this axis to the start of the other block, and those that its axes add.
            let mut steps = ahead / stride;
            ahead %= stride;
            while let Some(&(count, step)) = axes.next_if(|(_, step)| step.is_multiple_of(stride)) {
                steps += (count as u64).saturating_sub(1) * (step / stride);
            }
            if steps >= extent as u64 {
                return false;
            }
        }
        // Its remaining axes lie within rows of this block.
        for &(count, step) in axes {
            bytes += (count as u64).saturating_sub(1) * step;
        }
        ahead + bytes <= self.bytes
    }

    /// Byte behind the last element.
    fn end(&self) -> u64 {
        let reach = |&(extent, stride): &(usize, u64)| (extent as u64).saturating_sub(1) * stride;
        self.offset_bytes + self.axes.iter().map(reach).sum::<u64>() + self.bytes
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
        let encloses = |known: &Block| known.encloses(block);
        if block.bytes == 0 || self.views.iter().rev().any(encloses) || self.checked.iter().rev().any(encloses) {
            return None;
        }
        self.elements.add(&self.views[self.counted..]);
        self.counted = self.views.len();
        let mut near = 0;
        let missing = match self.elements.hold(block.offset_bytes, block.end(), &mut near) {
            true => None,
            false => block.find_row(&mut |at| !self.elements.hold(at, at + block.bytes, &mut near)),
        };
        self.checked.extend(missing.is_none().then(|| block.clone()));
        missing
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
