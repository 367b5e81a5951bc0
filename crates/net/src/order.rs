//! Sorted order of positions, by one piece of code: the standard library's sort takes 4 KB of a distributed program for each type of elements and
//! each comparison.

use std::cmp::Ordering;

/// Positions `0..count` in the order that a comparison of two of them gives; equal ones keep their order.
pub(crate) fn positions(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).collect();
    positions.sort_by(|&a, &b| compare(a, b));
    positions
}
