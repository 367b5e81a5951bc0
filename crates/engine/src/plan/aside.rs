//! Products whose results overwrite the source of the copy that made their coefficients: the results are computed where the copy wrote, and
//! copied to their place behind the products, so that the products read the source itself. Results are much smaller than such coefficients.

use super::live::LiveBytes;
use super::moves::readers;
use super::ops::{Kind, Move, Op};
use super::product::{Product, through_copy};
use crate::memory::Home;
use crate::operand::MemRef;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::tensor::Extents;
use std::ops::Range;

/// Part of pass `products`, for each run of consecutive products. `own` returns true for regions that only the program's tasks access.
pub(super) fn run(ops: &mut Vec<Op>, own: &impl Fn(Home) -> bool) {
    let mut start = 0;
    while start < ops.len() {
        let end = start + ops[start..].iter().take_while(|op| matches!(op.kind, Kind::Product(_))).count();
        let moved = if start < end { aside(ops, start..end, own) } else { None };
        start = match moved {
            Some(moved) => {
                let next = start + moved.len();
                ops.splice(start..end, moved);
                next
            }
            None => end.max(start + 1),
        };
    }
}

/// The products of a run with their results aside, and the copies of these; `None` if nothing is overwritten, or a condition does not hold.
fn aside(ops: &[Op], run: Range<usize>, own: &impl Fn(Home) -> bool) -> Option<Vec<Op>> {
    let products = &ops[run.clone()];
    let copies = copies_before(ops, &run);
    let moves = || copies.iter().filter_map(|&at| ops[at].as_move());
    let overwritten = moves().any(|of| products.iter().any(|op| op.may_write(&of.read())));
    let chained =
        products.iter().enumerate().any(|(k, op)| products[..k].iter().any(|before| before.may_write_any(&op.reads)));
    if !overwritten || chained {
        return None;
    }
    let results = products.iter().map(Op::as_product).collect::<Option<Vec<&Product>>>()?;
    let home = results.first()?.to.home;
    let first = results.iter().map(|of| of.to.base).min()?;
    let end = results.iter().map(|of| of.to.end(of.stored())).max()?;
    if results.iter().any(|of| of.to.home != home) {
        return None;
    }
    let (at, place) = copies.iter().find_map(|&at| {
        let of = ops[at].as_move().filter(|of| own(of.to.0))?;
        let [_, written] = of.ranges();
        let dense = written.len() == of.elements() && end - first <= written.len();
        let alone = readers(ops, at).all(|reader| run.contains(&reader));
        // The end, because what the copy overwrote is often read before it, from its start on.
        (dense && alone).then(|| (at, (of.to.0, written.end - (end - first))))
    })?;
    let taken = dense_box(place, end - first);
    if ops[at + 1..run.end].iter().any(|op| op.may_write(&taken)) {
        return None;
    }
    let mut all = ops[..run.end].to_vec();
    for (op, of) in all[run.clone()].iter_mut().zip(&results) {
        let mut moved = (*of).clone();
        (moved.to.home, moved.to.base) = (place.0, place.1 + of.to.base - first);
        *op = moved.op(op.tasks.clone());
    }
    for j in run.clone() {
        while let Some(product) = through_copy(&all, j) {
            all[j] = product.op(all[j].tasks.clone());
        }
    }
    let copied: Vec<MemRef> = moves().map(Move::written).collect();
    let made = &all[run.clone()];
    if made.iter().flat_map(|op| &op.reads).any(|read| copied.iter().any(|of| of.overlaps(read))) {
        return None;
    }
    let whole = LiveBytes::of(&dense_box((home, first), end - first)).is_some_and(|mut left| {
        products.iter().for_each(|op| left.remove_all(home, &op.writes));
        left.is_empty()
    });
    let mut made = made.to_vec();
    let tasks = products.last()?.tasks.clone();
    if whole {
        let axes = [CopyAxis { count: end - first, to: 1, from: 1 }];
        made.push(Op::moves(tasks, Move::new(NanRule::Quiet, (home, first), place, &axes)?));
        return Some(made);
    }
    for of in results {
        let Extents { g, c, h, w } = of.stored();
        let axis = |count: usize, stride: usize| CopyAxis { count, to: stride, from: stride };
        let [group, channel, row] = of.to.axes.strides;
        let axes = [axis(g, group), axis(c, channel), axis(h, row), axis(w, 1)];
        let from = (place.0, place.1 + of.to.base - first);
        made.push(Op::moves(tasks.clone(), Move::new(NanRule::Quiet, (home, of.to.base), from, &axes)?));
    }
    Some(made)
}

/// Copies before a run of products that made coefficients of these.
fn copies_before(ops: &[Op], run: &Range<usize>) -> Vec<usize> {
    let mut copies: Vec<usize> = Vec::new();
    let parts = ops[run.clone()].iter().filter_map(Op::as_product).flat_map(|of| &of.parts);
    for read in parts.map(Move::read) {
        let writer = ops[..run.start].iter().rposition(|op| op.may_write(&read));
        copies.extend(writer.filter(|at| ops[*at].as_move().is_some() && !copies.contains(at)));
    }
    copies
}

/// Consecutive elements from a place on.
fn dense_box((home, base): (Home, usize), count: usize) -> MemRef {
    MemRef::new(home, 2 * base as u64, &[], 2 * count as u64)
}
