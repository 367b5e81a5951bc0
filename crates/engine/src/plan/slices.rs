//! Pass `slices`: an elementwise chain whose result is read only in disjoint slices, by elementwise chains alone, is fused into all
//! of these chains: each computes its own slice.

use super::maps::{Map, MapOperand};
use super::moves::readers;
use super::ops::{Kind, Op};
use crate::memory::Home;
use anemone_kernels::tensor::Extents;

/// Pass `slices`. `own` returns true for regions that only the program's tasks access.
pub fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    for i in (0..ops.len()).rev() {
        let Some(fused) = into_readers(ops, i, &own) else { continue };
        for (j, map) in fused {
            ops[j] = map.op(ops[j].tasks.clone());
        }
        ops.remove(i);
    }
}

fn elements(ext: Extents) -> usize {
    ext.g * ext.c * ext.plane()
}

/// Readers of the chain at `i`, each with its slice of the chain fused; `None` unless all readers are chains, and read disjoint slices.
fn into_readers(ops: &[Op], i: usize, own: &impl Fn(Home) -> bool) -> Option<Vec<(usize, Map)>> {
    let Kind::Map(before) = &ops[i].kind else { return None };
    let written = ops[i].writes.first().filter(|_| own(before.to.home))?;
    // A result that overlaps a source elsewhere than in place has no slices that are independent of each other.
    let apart = |(source, in_place): (&MapOperand, bool)| in_place || !source.of(before.ext).overlaps(written);
    if !before.sources.iter().zip(before.in_place()).all(apart) {
        return None;
    }
    let mut left = elements(before.ext);
    let mut fused = Vec::new();
    for j in readers(ops, i) {
        let Kind::Map(reader) = &ops[j].kind else { return None };
        // The sources of the chain must still hold their values.
        if ops[i + 1..j].iter().any(|op| op.may_write_any(&ops[i].reads)) {
            return None;
        }
        let mut map = reader.as_ref().clone();
        for (at, source) in reader.sources.iter().enumerate() {
            let read = source.of(reader.ext);
            // A slice that is read twice is fused once: computed in place, its own source looks like it afterwards.
            if !read.overlaps(written) || reader.sources[..at].contains(source) {
                continue;
            }
            if ops[..j].iter().rposition(|op| op.may_write(&read)) != Some(i) {
                return None;
            }
            left = left.checked_sub(elements(map.ext))?;
            map = map.after(&before.slice(source, map.ext)?)?;
        }
        fused.push((j, map));
    }
    fused.last_mut()?.1.tasks += before.tasks;
    Some(fused)
}

impl Map {
    /// The chain for the part of its result that `source` reads; `None` unless that is a slice along its axes. It replaces no task.
    fn slice(&self, source: &MapOperand, ext: Extents) -> Option<Map> {
        if source.axes.one_column && ext.w > 1 || source.home != self.to.home {
            return None;
        }
        let (counts, wanted) = ([self.ext.g, self.ext.c, self.ext.h], [ext.g, ext.c, ext.h]);
        let strides = self.to.axes.strides;
        let mut order = Vec::with_capacity(3);
        for axis in 0..3 {
            order.insert(order.partition_point(|&outer: &usize| strides[outer] >= strides[axis]), axis);
        }
        let mut offset = source.base.checked_sub(self.to.base)?;
        let mut first = [0; 3];
        for axis in order.into_iter().filter(|&axis| counts[axis] > 1) {
            (first[axis], offset) = (offset / strides[axis].max(1), offset % strides[axis].max(1));
        }
        let inside = |axis: usize| {
            let alike = wanted[axis] == 1 || source.axes.strides[axis] == strides[axis];
            alike && first[axis] + wanted[axis] <= counts[axis]
        };
        if offset + ext.w > self.ext.w || !(0..3).all(inside) {
            return None;
        }
        let part = |of: &MapOperand| {
            let column = if of.axes.one_column { 0 } else { offset };
            let moved: usize = first.iter().zip(of.axes.strides).map(|(at, stride)| at * stride).sum();
            MapOperand { base: of.base + moved + column, ..of.clone() }
        };
        let sources = self.sources.iter().map(part).collect();
        Some(Map { ext, to: source.clone(), sources, stages: self.stages.clone(), tasks: 0, rewired: true })
    }
}
