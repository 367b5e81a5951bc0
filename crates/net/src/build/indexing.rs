//! Selection, sorting and scattering of elements.

use super::{Builder, Built};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, ScatterMode, Unary};

/// Largest extent of a cumulative sum that becomes one product with a square matrix of that size.
const CUMULATIVE_EXTENT: usize = 4096;

/// Elements of a block of a longer cumulative sum.
const CUMULATIVE_BLOCK: usize = 256;

/// Most elements of a constant that a decomposition makes.
const TABLE_ELEMENTS: usize = 1 << 24;

impl Builder {
    /// Least or greatest `k` elements along an axis in order, and their positions.
    pub fn top_k(&mut self, x: ValueId, axis: usize, k: usize, ascending: bool) -> Result<(ValueId, ValueId), Error> {
        let order = self.op("order", OpKind::ArgSort { axis, descending: !ascending }, &[x])?;
        let order = self.slice(order, axis, 0, k)?;
        Ok((self.op("top", OpKind::GatherAlong { axis }, &[x, order])?, order))
    }

    /// Boxes `[N, B, 4]` and scores `[N, B, K]` at the positions that [`OpKind::Suppress`] keeps, padded with zeros; then the positions,
    /// and their number in each image.
    pub fn suppressed(&mut self, boxes: ValueId, scores: ValueId, kind: OpKind) -> Result<[ValueId; 4], Error> {
        let places = self.op("kept", kind, &[boxes, scores])?;
        let zero = self.integers([], vec![0]);
        let stays = self.binary(Binary::GreaterEqual, places, zero)?;
        let first = self.binary(Binary::Max, places, zero)?;
        let rows = self.shape(places);
        let rows_one = [rows[0], rows[1], 1];
        let mut taken = Vec::new();
        for x in [boxes, scores] {
            let own = [rows[0], rows[1], self.shape(x)[2]];
            let [at, here] = [first, stays].map(|value| self.reshape(value, rows_one));
            let (at, here) = (self.broadcast(at?, own)?, self.broadcast(here?, own)?);
            let rows = self.op("rows", OpKind::GatherAlong { axis: 1 }, &[x, at])?;
            let nothing = self.scalar(0.0, x);
            taken.push(self.select(here, rows, nothing)?);
        }
        let counted = self.cast(stays, DType::I32)?;
        let count = self.reduce(ReduceKind::Sum, counted, &[1], false)?;
        Ok([taken[0], taken[1], places, count])
    }

    /// Cumulative sums of long rows: within blocks, and of the sums of the blocks before.
    fn sums_of_blocks(&mut self, rows: ValueId, exclusive: bool, reverse: bool) -> Built {
        let shape = self.shape(rows);
        let (count, n) = (shape[0], shape[1]);
        let blocks = n.div_ceil(CUMULATIVE_BLOCK);
        let zero = self.scalar(0.0, rows);
        let rest = blocks * CUMULATIVE_BLOCK - n;
        let whole = if rest == 0 {
            rows
        } else {
            let rest = self.broadcast(zero, [count, rest])?;
            self.concat(&[rows, rest], 1)?
        };
        let whole = self.reshape(whole, [count, blocks, CUMULATIVE_BLOCK])?;
        let within = self.cumulative_sum(whole, 2, exclusive, reverse)?;
        let sums = self.reduce(ReduceKind::Sum, whole, &[2], true)?;
        let before = self.cumulative_sum(sums, 1, true, reverse)?;
        let all = self.binary(Binary::Add, within, before)?;
        let all = self.reshape(all, [count, blocks * CUMULATIVE_BLOCK])?;
        self.slice(all, 1, 0, n)
    }

    /// Cumulative sums along an axis, as products with a triangular matrix of ones.
    pub fn cumulative_sum(&mut self, x: ValueId, axis: usize, exclusive: bool, reverse: bool) -> Built {
        let (shape, dtype) = (self.shape(x), self.dtype(x));
        let n = shape[axis];
        let adds = |from: usize, to: usize| {
            let (early, late) = if reverse { (to, from) } else { (from, to) };
            early < late || early == late && !exclusive
        };
        // The axis moves last, all others become rows.
        let mut perm: Vec<usize> = (0..shape.len()).filter(|&a| a != axis).collect();
        perm.push(axis);
        let moved = self.transpose(x, &perm)?;
        let moved_shape = self.shape(moved);
        let rows = self.reshape(moved, [elements(&shape) / n, n])?;
        let sums = if n > CUMULATIVE_EXTENT {
            self.sums_of_blocks(rows, exclusive, reverse)?
        } else {
            let triangle: Vec<f32> = (0..n * n).map(|i| f32::from(u8::from(adds(i % n, i / n)))).collect();
            let triangle = self.floats([n, n], &triangle, rows);
            self.op("combine", OpKind::Combine, &[rows, triangle])?
        };
        let sums = self.reshape(sums, moved_shape)?;
        let mut back = vec![0; perm.len()];
        perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
        let sums = self.transpose(sums, &back)?;
        self.cast(sums, dtype)
    }

    /// Keeps `lower` diagonals below and `upper` above the main one; negative keeps all.
    pub fn band(&mut self, x: ValueId, lower: i64, upper: i64) -> Built {
        let shape = self.shape(x);
        let [.., m, n] = shape[..] else { return Err(self.unsupported("band_part", "an operand of rank less than 2")) };
        let mask = (0..m * n).map(|i| {
            let (row, column) = ((i / n) as i64, (i % n) as i64);
            (lower < 0 || row - column <= lower) && (upper < 0 || column - row <= upper)
        });
        let mask: Vec<bool> = mask.collect();
        let mask = self.mask([m, n], mask);
        let zero = self.scalar(0.0, x);
        self.select(mask, x, zero)
    }

    /// `on` where an index (from the end if negative) equals the position along a new axis, else `off`.
    pub fn one_hot(&mut self, indices: ValueId, depth: usize, axis: usize, on: ValueId, off: ValueId) -> Built {
        let (mut shape, integers) = (self.shape(indices), self.dtype(indices).is_integer());
        shape.insert(axis, 1);
        let indices = if integers { indices } else { self.cast(indices, DType::I32)? };
        let zero = self.scalar(0.0, indices);
        let wrapped = self.with(Binary::Add, indices, depth as f32)?;
        let negative = self.binary(Binary::Less, indices, zero)?;
        let indices = self.select(negative, wrapped, indices)?;
        let indices = self.reshape(indices, shape.clone())?;
        let indices = self.cast(indices, DType::I32)?;
        let mut along = vec![1; shape.len()];
        along[axis] = depth;
        let positions = self.integers(along, (0..depth as i32).collect());
        let hit = self.binary(Binary::Equal, indices, positions)?;
        self.select(hit, on, off)
    }

    /// Reverses these axes.
    pub fn reverse(&mut self, x: ValueId, axes: &[usize]) -> Built {
        axes.iter().try_fold(x, |x, &axis| {
            let n = self.shape(x)[axis] as i32;
            let indices = self.integers([n as usize], (0..n).rev().collect());
            self.gather(x, indices, axis)
        })
    }

    /// Reverses the leading elements along `axis`; `lengths` gives their number for each position along `batch`.
    pub fn reverse_sequence(&mut self, x: ValueId, lengths: &[usize], axis: usize, batch: usize) -> Built {
        let shape = self.shape(x);
        let count = elements(&shape);
        if lengths.len() != shape[batch] || count > TABLE_ELEMENTS {
            let reason = format!("{} lengths for extents {shape:?}", lengths.len());
            return Err(self.unsupported("reverse_sequence", reason));
        }
        let at = |i: usize, a: usize| i / elements(&shape[a + 1..]) % shape[a];
        let indices = (0..count).map(|i| {
            let (place, length) = (at(i, axis), lengths[at(i, batch)]);
            (if place < length { length - 1 - place } else { place }) as i32
        });
        let indices: Vec<i32> = indices.collect();
        let indices = self.integers(shape, indices);
        self.op("reversed", OpKind::GatherAlong { axis }, &[x, indices])
    }

    /// As [`Builder::reverse_sequence`], with lengths computed at run time.
    pub fn reverse_sequence_at(&mut self, x: ValueId, lengths: ValueId, axis: usize, batch: usize) -> Built {
        let shape = self.shape(x);
        if self.shape(lengths) != [shape[batch]] || elements(&shape) > TABLE_ELEMENTS {
            return Err(self.unsupported("reverse_sequence", format!("lengths for extents {shape:?}")));
        }
        let wide = |at: usize| {
            let mut wide = vec![1; shape.len()];
            wide[at] = shape[at];
            wide
        };
        let lengths = self.cast(lengths, DType::I32)?;
        let lengths = self.reshape(lengths, wide(batch))?;
        let places = self.integers(wide(axis), (0..shape[axis] as i32).collect());
        let turned = self.integers(wide(axis), (1..=shape[axis] as i32).map(|i| -i).collect());
        let turned = self.binary(Binary::Add, turned, lengths)?;
        let inside = self.binary(Binary::Less, places, lengths)?;
        let indices = self.select(inside, turned, places)?;
        let indices = self.broadcast(indices, shape)?;
        self.op("reversed", OpKind::GatherAlong { axis }, &[x, indices])
    }

    /// Cumulative products along an axis: each step multiplies by the element twice as far away as in the step before.
    pub fn cumulative_product(&mut self, x: ValueId, axis: usize, exclusive: bool, reverse: bool) -> Built {
        let n = self.shape(x)[axis];
        let mut products = if exclusive { self.pushed(x, axis, 1, reverse)? } else { x };
        let mut distance = 1;
        while distance < n {
            let earlier = self.pushed(products, axis, distance, reverse)?;
            products = self.binary(Binary::Mul, products, earlier)?;
            distance *= 2;
        }
        if products == x { self.unary(Unary::Identity, x) } else { Ok(products) }
    }

    /// Elements shifted along an axis to later positions (earlier if `back`), filled with ones.
    fn pushed(&mut self, x: ValueId, axis: usize, by: usize, back: bool) -> Built {
        let mut shape = self.shape(x);
        let n = shape[axis];
        shape[axis] = by.min(n);
        let one = self.scalar(1.0, x);
        let ones = self.broadcast(one, shape)?;
        if by >= n {
            return Ok(ones);
        }
        if back {
            let kept = self.slice(x, axis, by, n)?;
            self.concat(&[kept, ones], axis)
        } else {
            let kept = self.slice(x, axis, 0, n - by)?;
            self.concat(&[ones, kept], axis)
        }
    }

    /// Windows of `size` elements, `stride` apart, along an axis; a new axis of that extent follows it.
    pub fn sliding_windows(&mut self, x: ValueId, axis: usize, size: usize, stride: usize) -> Built {
        let extent = self.shape(x)[axis];
        let count = extent.checked_sub(size).filter(|_| size > 0 && stride > 0).map(|span| span / stride + 1);
        let count =
            count.ok_or_else(|| self.unsupported("sliding_windows", format!("windows of {size} in {extent}")))?;
        let indices = (0..count * size).map(|i| (i / size * stride + i % size) as i32).collect();
        let indices = self.integers([count, size], indices);
        self.gather(x, indices, axis)
    }

    /// `count` elements of an axis from a position computed at run time, a scalar.
    pub fn slice_at(&mut self, x: ValueId, axis: usize, begin: ValueId, count: usize, stride: i32) -> Built {
        let begin = self.cast(begin, DType::I32)?;
        let steps = self.integers([count], (0..count as i32).map(|i| i * stride).collect());
        let begin = self.reshape(begin, [1])?;
        let indices = self.binary(Binary::Add, steps, begin)?;
        self.gather(x, indices, axis)
    }

    /// `x` with `update` in place of the elements from `begin` on (one position per axis).
    pub fn update_slice(&mut self, x: ValueId, update: ValueId, begin: &[usize]) -> Built {
        let (shape, part) = (self.shape(x), self.shape(update));
        // Outer axes first: along an axis, the elements around the update stay whole.
        let Some(axis) = (0..shape.len()).find(|&a| part[a] != shape[a]) else { return Ok(update) };
        let (from, to) = (begin[axis], begin[axis] + part[axis]);
        let middle = self.slice(x, axis, from, to)?;
        let mut parts = Vec::new();
        if from > 0 {
            parts.push(self.slice(x, axis, 0, from)?);
        }
        parts.push(self.update_slice(middle, update, begin)?);
        if to < shape[axis] {
            parts.push(self.slice(x, axis, to, shape[axis])?);
        }
        self.concat(&parts, axis)
    }

    /// As [`Builder::update_slice`] along one axis, with a start computed at run time, a scalar, and a stride: `update` has
    /// the extents of `x` along all other axes.
    pub fn update_at(&mut self, x: ValueId, update: ValueId, axis: usize, begin: ValueId, stride: usize) -> Built {
        let (shape, part) = (self.shape(x), self.shape(update));
        let (extent, count) = (shape[axis], part[axis]);
        let begin = self.cast(begin, DType::I32)?;
        let begin = self.reshape(begin, [1])?;
        let positions = self.integers([extent], (0..extent as i32).collect());
        let (inside, spread) = if count == 1 {
            // One element: it goes where the position equals the start.
            (self.binary(Binary::Equal, positions, begin)?, update)
        } else {
            let mut index = self.binary(Binary::Sub, positions, begin)?;
            let zero = self.scalar(0.0, index);
            let mut on_step = None;
            if stride > 1 {
                let step = self.scalar(stride as f32, index);
                let rest = self.binary(Binary::Mod, index, step)?;
                on_step = Some(self.binary(Binary::Equal, rest, zero)?);
                index = self.binary(Binary::FloorDiv, index, step)?;
            }
            let least = self.binary(Binary::GreaterEqual, index, zero)?;
            let most = self.with(Binary::Less, index, count as f32)?;
            let mut inside = self.binary(Binary::Min, least, most)?;
            if let Some(on_step) = on_step {
                inside = self.binary(Binary::Min, inside, on_step)?;
            }
            let index = self.unary(Unary::Clip { min: 0.0, max: count as f32 - 1.0 }, index)?;
            (inside, self.gather(update, index, axis)?)
        };
        let mut along = vec![1; shape.len()];
        along[axis] = extent;
        let inside = self.reshape(inside, along)?;
        self.select(inside, spread, x)
    }

    /// `x` with updates combined into it at positions along an axis: `updates` has the extents of `indices` in place of
    /// that axis.
    pub fn scatter(&mut self, x: ValueId, indices: ValueId, updates: ValueId, axis: usize, mode: ScatterMode) -> Built {
        let (rank, k) = (self.rank(x), self.rank(indices));
        // The axis leads, so that an index names a whole block.
        let mut front: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
        front.insert(0, axis);
        let moved = self.transpose(x, &front)?;
        let mut update_front: Vec<usize> = (axis..axis + k).collect();
        update_front.extend((0..self.rank(updates)).filter(|a| !(axis..axis + k).contains(a)));
        let updates = self.transpose(updates, &update_front)?;
        let mut shape = self.shape(indices);
        shape.push(1);
        let indices = self.reshape(indices, shape)?;
        let done = self.op("scattered", OpKind::ScatterNd { mode }, &[moved, indices, updates])?;
        let mut back = vec![0; rank];
        front.iter().enumerate().for_each(|(i, &p)| back[p] = i);
        self.transpose(done, &back)
    }
}
