//! Live bytes: the bytes of a result that no later operation has overwritten.

use crate::memory::Home;
use crate::operand::MemRef;

/// Largest number of rows of a box that is tracked by ranges.
const MOST_ROWS: u64 = 1 << 16;

/// A set of bytes of one region: ascending ranges, each from its first byte to one past its last.
pub struct LiveBytes(Vec<(u64, u64)>);

impl LiveBytes {
    /// All bytes of a box; `None` if it has too many rows, or is an upper bound.
    pub fn of(all: &MemRef) -> Option<LiveBytes> {
        ranges(all).map(LiveBytes)
    }

    /// Returns true if no byte is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns false only if a box of the same region contains none of the bytes.
    pub fn meets(&self, of: &MemRef) -> bool {
        let near = !of.is_empty() && self.meets_range((of.base_bytes, of.end()));
        near && (!has_few_rows(of) || of.rows().any(|row| self.meets_range((row, row + of.row_bytes))))
    }

    fn meets_range(&self, (start, end): (u64, u64)) -> bool {
        let next = self.0.partition_point(|(_, to)| *to <= start);
        self.0.get(next).is_some_and(|(from, _)| *from < end)
    }

    /// Removes the bytes of all boxes in a region.
    pub fn remove_all(&mut self, home: Home, boxes: &[MemRef]) {
        for of in boxes {
            if of.home == home {
                self.remove(of);
            }
        }
    }

    /// Removes the bytes of a box of the same region, unless the box is an upper bound.
    pub fn remove(&mut self, of: &MemRef) {
        if !self.meets_range((of.base_bytes, of.end())) {
            return;
        }
        let Some(gone) = ranges(of) else { return };
        let mut rest = Vec::with_capacity(self.0.len());
        let mut gone = gone.into_iter().peekable();
        for &(mut start, end) in &self.0 {
            while let Some(&(from, to)) = gone.peek() {
                if to <= start {
                    gone.next();
                    continue;
                }
                if from >= end {
                    break;
                }
                if from > start {
                    rest.push((start, from));
                }
                start = to;
                if to >= end {
                    break;
                }
                gone.next();
            }
            if start < end {
                rest.push((start, end));
            }
        }
        self.0 = rest;
    }
}

/// Returns true if the rows of a box are known, and few enough to be tracked.
fn has_few_rows(of: &MemRef) -> bool {
    of.exact && of.axes.iter().map(|axis| axis.count).fold(1, u64::saturating_mul) <= MOST_ROWS
}

/// Rows of a box as ascending ranges; `None` unless [`has_few_rows`].
fn ranges(of: &MemRef) -> Option<Vec<(u64, u64)>> {
    if !has_few_rows(of) {
        return None;
    }
    let mut rows: Vec<u64> = of.rows().collect();
    if !of.is_nested() {
        rows.sort_unstable();
    }
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(rows.len());
    for row in rows {
        let end = row + of.row_bytes;
        match ranges.last_mut() {
            Some((_, last)) if row <= *last => *last = end.max(*last),
            _ => ranges.push((row, end)),
        }
    }
    ranges.retain(|(start, end)| start < end);
    Some(ranges)
}
