//! `MemRef`: the operand of a host operation, a strided box of bytes behind a base register or in tile memory.

use crate::memory::Home;
use std::fmt;
use std::ops::Range;

/// An axis of a box: number of steps, and their stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Axis {
    pub count: u64,
    pub stride_bytes: u64,
}

/// A strided box: rows of equal length at regular distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemRef {
    /// The memory.
    pub home: Home,
    /// Address of the first byte.
    pub base_bytes: u64,
    /// Axes of a count other than 1, largest stride first.
    pub axes: Vec<Axis>,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// True if every byte of the box is accessed; false if the box is an upper bound.
    pub exact: bool,
}

impl MemRef {
    /// A box with `axes` (count, stride in bytes) over rows. Rows without gaps, and axes that continue each other, are merged.
    pub fn new(home: Home, base_bytes: u64, axes: &[(u64, u64)], row_bytes: u64) -> MemRef {
        let mut sorted: Vec<Axis> = Vec::with_capacity(axes.len());
        for &(count, stride_bytes) in axes.iter().filter(|(count, _)| *count != 1) {
            let at = sorted.partition_point(|outer| outer.stride_bytes >= stride_bytes);
            sorted.insert(at, Axis { count, stride_bytes });
        }
        let mut row_bytes = row_bytes;
        while let Some(inner) = sorted.last().filter(|axis| axis.stride_bytes == row_bytes) {
            row_bytes *= inner.count;
            sorted.pop();
        }
        let mut joined: Vec<Axis> = Vec::with_capacity(sorted.len());
        for axis in sorted {
            match joined.last_mut() {
                Some(outer) if outer.stride_bytes == axis.stride_bytes.saturating_mul(axis.count) => {
                    *outer = Axis { count: outer.count * axis.count, stride_bytes: axis.stride_bytes };
                }
                _ => joined.push(axis),
            }
        }
        MemRef { home, base_bytes, axes: joined, row_bytes, exact: true }
    }

    /// An upper bound: an unknown subset of a range.
    pub(crate) fn within(home: Home, range: Range<u64>) -> MemRef {
        let row_bytes = range.end.saturating_sub(range.start);
        MemRef { exact: false, ..MemRef::new(home, range.start, &[], row_bytes) }
    }

    /// Returns true for a box without bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.row_bytes == 0 || self.axes.iter().any(|axis| axis.count == 0)
    }

    /// Address one past the last byte.
    pub fn end(&self) -> u64 {
        let steps = self.axes.iter().map(|axis| axis.count.saturating_sub(1).saturating_mul(axis.stride_bytes));
        steps.fold(self.base_bytes.saturating_add(self.row_bytes), u64::saturating_add)
    }

    /// Number of bytes accessed; a byte in several rows counts several times.
    pub fn bytes(&self) -> u64 {
        self.axes.iter().map(|axis| axis.count).fold(self.row_bytes, u64::saturating_mul)
    }

    /// Byte address of each row, innermost axis fastest.
    pub fn rows(&self) -> impl Iterator<Item = u64> + '_ {
        let count = self.axes.iter().map(|axis| axis.count).fold(1, u64::saturating_mul);
        let (mut next, mut places) = (self.base_bytes, vec![0; self.axes.len()]);
        (0..count).map(move |_| {
            let address = next;
            for (axis, place) in self.axes.iter().zip(&mut places).rev() {
                *place += 1;
                next = next.wrapping_add(axis.stride_bytes);
                if *place < axis.count {
                    break;
                }
                next = next.wrapping_sub(axis.count.wrapping_mul(axis.stride_bytes));
                *place = 0;
            }
            address
        })
    }

    /// Returns false only if the boxes are known to have no byte in common.
    pub fn overlaps(&self, other: &MemRef) -> bool {
        self.home == other.home
            && !self.is_empty()
            && !other.is_empty()
            && self.base_bytes < other.end()
            && other.base_bytes < self.end()
            && !self.lies_beside(other)
    }

    /// Returns true if both repeat with the same stride and occupy disjoint parts of it, as columns of one matrix do.
    fn lies_beside(&self, other: &MemRef) -> bool {
        let common = self.axes.iter().filter(|axis| other.axes.iter().any(|o| o.stride_bytes == axis.stride_bytes));
        common.map(|axis| axis.stride_bytes).any(|period| {
            let part = |of: &MemRef| {
                let inner = of.axes.iter().filter(|axis| axis.stride_bytes < period);
                let reach = inner.fold(of.row_bytes, |sum, axis| sum + (axis.count - 1) * axis.stride_bytes);
                let whole = of.axes.iter().all(|a| a.stride_bytes < period || a.stride_bytes % period == 0);
                let first = of.base_bytes % period;
                (whole && first + reach <= period).then_some(first..first + reach)
            };
            match (part(self), part(other)) {
                (Some(a), Some(b)) => a.end <= b.start || b.end <= a.start,
                _ => false,
            }
        })
    }

    /// Returns true if each stride is at least the reach of the axes inside it, so that no byte is in two rows.
    pub fn is_nested(&self) -> bool {
        let mut reach = self.row_bytes;
        self.axes.iter().rev().all(|axis| {
            let apart = axis.stride_bytes >= reach;
            reach = (axis.count - 1).saturating_mul(axis.stride_bytes).saturating_add(reach);
            apart
        })
    }
}

impl fmt::Display for MemRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.home {
            Home::Bar(bar) => write!(f, "bar{bar}")?,
            Home::Tile => write!(f, "tile")?,
        }
        write!(f, "+{:#x}", self.base_bytes)?;
        if !self.exact {
            return write!(f, "[within {} B]", self.row_bytes);
        }
        write!(f, "[")?;
        for axis in &self.axes {
            write!(f, "{} x {} B, ", axis.count, axis.stride_bytes)?;
        }
        write!(f, "{} B]", self.row_bytes)
    }
}
