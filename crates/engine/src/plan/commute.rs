//! Pass `commute`: a single-source elementwise chain between two copies is executed from the source of the first copy to the destination of
//! the second, and both copies are dropped, because elementwise operations commute with permutations.

use super::maps::{Map, MapOperand};
use super::moves::{self, readers, through};
use super::ops::{Kind, Move, Op};
use crate::memory::Home;
use anemone_kernels::axes::OperandAxes;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::nested;

/// Shortest row for which a relocated chain pays, if the chain had longer rows before.
const LEAST_ROW: usize = 16;

/// Pass `commute`. `own` returns true for regions that only the program's tasks access.
pub fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    let mut j = 0;
    while j < ops.len() {
        match between_copies(ops, j, &own) {
            Some((k, map)) => {
                ops[k] = map.op(ops[k].tasks.clone());
                ops.remove(j);
            }
            None => j += 1,
        }
    }
    moves::drop_unread(ops, &own);
}

/// The chain at `j` relocated to the source of the copy before it and the destination of the copy after it, with the index of the latter;
/// `None` if there are no such copies, or their axes do not suit a chain.
fn between_copies(ops: &[Op], j: usize, own: &impl Fn(Home) -> bool) -> Option<(usize, Map)> {
    let Kind::Map(map) = &ops[j].kind else { return None };
    let [source] = map.sources.as_slice() else { return None };
    // Copies of the exact models change NaN.
    if map.is_exact() || !own(map.to.home) {
        return None;
    }
    let i = ops[..j].iter().rposition(|op| op.may_write(&ops[j].reads[0]))?;
    let before = ops[i].as_move()?;
    let mut all = readers(ops, j);
    let (k, None) = (all.next()?, all.next()) else { return None };
    let behind = ops[k].as_move()?;
    if [before, behind].iter().any(|of| of.rule != NanRule::Quiet || of.written().overlaps(&of.read())) {
        return None;
    }
    let composed = through(&through(before, &as_copy(map, source)?)?, behind)?;
    // The write to the chain's former result disappears.
    let kept = (i + 1..k).filter(|at| *at != j).all(|at| !ops[at].may_write(&composed.read()));
    let moved = map.relocated(&composed).filter(|_| kept && !composed.written().overlaps(&composed.read()))?;
    Some((k, moved))
}

/// A chain's access pattern as a copy from its source to its result.
fn as_copy(map: &Map, source: &MapOperand) -> Option<Move> {
    let Extents { g, c, h, w } = map.ext;
    if source.axes.one_column && w > 1 {
        return None;
    }
    let (to, from) = (map.to.axes.strides, source.axes.strides);
    let axis = |count: usize, at: usize| CopyAxis { count, to: to[at], from: from[at] };
    let axes = [axis(g, 0), axis(c, 1), axis(h, 2), CopyAxis { count: w, to: 1, from: 1 }];
    Move::new(NanRule::Quiet, (map.to.home, map.to.base), (source.home, source.base), &axes)
}

impl Map {
    /// The same stages over the elements of a copy; `None` unless the copy has contiguous rows and at most three other axes.
    fn relocated(&self, of: &Move) -> Option<Map> {
        let (inner, outer) = of.axes.split_last()?;
        if (inner.to, inner.from) != (1, 1) || inner.count < LEAST_ROW || outer.len() > 3 {
            return None;
        }
        let mut axes = [CopyAxis { count: 1, to: 0, from: 0 }; 3];
        axes[3 - outer.len()..].copy_from_slice(outer);
        let ext = Extents { g: axes[0].count, c: axes[1].count, h: axes[2].count, w: inner.count };
        let operand = |(home, base): (Home, usize), strides: [usize; 3]| MapOperand {
            home,
            base,
            axes: OperandAxes { strides, one_column: false },
        };
        let (to, source) = (operand(of.to, axes.map(|axis| axis.to)), operand(of.from, axes.map(|axis| axis.from)));
        let moved = Map { ext, to, sources: vec![source], rewired: true, tasks: self.tasks + 1, ..self.clone() };
        nested(ext, moved.to.axes.strides).then_some(moved)
    }
}
