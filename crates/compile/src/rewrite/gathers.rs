//! Gathers at constant positions as strided slices, repetitions and concatenations; means and maxima of blocks as pooling.
//! Ours: exporters write interpolation, adaptive pooling and repetition as gathers.

use super::scatter::wrapped;
use super::{Builder, Limits, MOST_PIECES};
use crate::error::{Error, Result};
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use anemone_facts::chips::Chip;
use anemone_net::{EdgeMode, Op, OpKind, PoolKind, ReduceKind, ValueId};

/// Positions along an axis that form one slice, each repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first position.
    pub first: usize,
    /// Distance between positions.
    pub step: usize,
    /// Number of different positions.
    pub count: usize,
    /// Repetitions of each position.
    pub repeat: usize,
    /// True if the slice is read from its end to its beginning.
    pub backwards: bool,
}

/// Fewest positions for which a slice has a stride above one; two are as well two slices.
const STRIDED_PLACES: usize = 3;
/// Fewest positions in descending order that are a reversed slice; fewer are slices of one element.
const REVERSED_PLACES: usize = 5;

/// Largest prime extent that is reversed by a copy of each element; one element is split off of others.
const LARGEST_FACTOR: usize = 7;
/// Fewest runs of elements for which a product with a selection matrix of zeros and ones takes fewer tasks than copies.
const WORTH_STRETCHES: usize = 48;
/// Most coefficients of a selection matrix, which has one per element of a row and position.
const MOST_COEFFICIENTS: usize = 1 << 22;

/// Partitions a list of positions into few pieces, in order.
pub fn pieces(places: &[usize]) -> Vec<Piece> {
    let runs: Vec<(usize, usize)> = places.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    let mut all = Vec::new();
    let mut rest = runs.as_slice();
    while let [(first, repeat), ..] = *rest {
        let falls = |(i, run): &(usize, &(usize, usize))| first.checked_sub(*i).is_some_and(|at| **run == (at, repeat));
        let count = rest.iter().enumerate().take_while(falls).count();
        if count >= REVERSED_PLACES {
            all.push(Piece { first: first + 1 - count, step: 1, count, repeat, backwards: true });
            rest = &rest[count..];
            continue;
        }
        let step = rest.get(1).filter(|next| next.1 == repeat).and_then(|next| next.0.checked_sub(first));
        let follows = |(i, run): &(usize, &(usize, usize))| step.is_some_and(|s| **run == (first + i * s, repeat));
        let count = rest.iter().enumerate().take_while(follows).count().max(1);
        let (step, count) = match step {
            Some(step) if step == 1 || count >= STRIDED_PLACES => (step, count),
            _ => (1, 1),
        };
        all.push(Piece { first, step, count, repeat, backwards: false });
        rest = &rest[count..];
    }
    all
}

/// Step of positions that are all of an axis, those at each distance from the steps behind each other; `None` for others.
fn exchange(places: &[usize], extent: usize) -> Option<usize> {
    let step = *places.get(1).filter(|step| (2..extent).contains(*step) && extent.is_multiple_of(**step))?;
    let count = extent / step;
    let own = |(i, &at): (usize, &usize)| at == i % count * step + i / count;
    (places.len() == extent && places.iter().enumerate().all(own)).then_some(step)
}

/// The transposition that exchanges the last two axes of so many.
pub(super) fn exchange_of_last_axes(rank: usize) -> OpKind {
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    OpKind::Transpose { perm }
}

impl Builder<'_> {
    /// A gather along one axis at constant positions.
    pub(super) fn gather(&mut self, op: &Op, axis: usize) -> Result<()> {
        let x = op.inputs[0];
        let extent = self.shape(x)[axis];
        let Some(indices) = self.net.value(op.inputs[1]).data.clone() else { return Ok(()) };
        let places = self.places(op, &indices.data.to_i32(), extent)?;
        let all = self.picked(op, x, axis, &places)?;
        self.push(OpKind::Reshape, &[all], op.outputs[0]);
        Ok(())
    }

    /// Padding by elements of the operand along long axes, as slices of it joined; shorter axes are padded by a product. Returns `false` for
    /// those alone.
    pub(super) fn pad_edge(&mut self, op: &Op, pads: &[(usize, usize)], mode: EdgeMode) -> Result<bool> {
        let long = |(at, &(before, after)): (usize, &(usize, usize))| {
            let extent = self.shape(op.inputs[0])[at];
            before + after > 0 && extent.saturating_mul(before + extent + after) > MOST_COEFFICIENTS
        };
        let axes: Vec<usize> = pads.iter().enumerate().filter(|pad| long(*pad)).map(|(at, _)| at).collect();
        let mut x = op.inputs[0];
        for &axis in &axes {
            let (extent, (before, after)) = (self.shape(x)[axis] as isize, pads[axis]);
            let place = |at: isize| match mode {
                EdgeMode::Replicate => at.clamp(0, extent - 1),
                EdgeMode::Reflect => extent - 1 - (extent - 1 - at.abs()).abs(),
            };
            let from = -(before as isize);
            let places: Vec<usize> = (from..extent + after as isize).map(|at| place(at) as usize).collect();
            x = self.picked(op, x, axis, &places)?;
        }
        if axes.is_empty() {
            return Ok(false);
        }
        let rest: Vec<_> =
            pads.iter().enumerate().map(|(at, &pad)| if axes.contains(&at) { (0, 0) } else { pad }).collect();
        let last =
            if rest.iter().any(|&pad| pad != (0, 0)) { OpKind::PadEdge { pads: rest, mode } } else { OpKind::Reshape };
        self.push(last, &[x], op.outputs[0]);
        Ok(true)
    }

    fn places(&self, op: &Op, indices: &[i32], extent: usize) -> Result<Vec<usize>> {
        let wrong = |i: i32| Error::Net(format!("{}: position {i} of {extent}", op.name));
        indices.iter().map(|&i| wrapped(i, extent).map_err(wrong)).collect()
    }

    /// The elements of `x` at positions along an axis.
    fn picked(&mut self, op: &Op, x: ValueId, axis: usize, places: &[usize]) -> Result<ValueId> {
        let pieces = pieces(places);
        if pieces.len() > MOST_PIECES {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                reason: format!("{} runs of positions; at most {MOST_PIECES} are joined", pieces.len()),
                suggestion: "multiply with a matrix of zeros and ones",
            });
        }
        let shape = self.shape(x);
        if let Some(step) = exchange(places, shape[axis]) {
            return Ok(self.phases(x, axis, step));
        }
        // Columns that do not start on a boundary of memory are copied as rows, the whole row once.
        let apart = |piece: &Piece| piece.step > 1 || !(piece.first as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
        if axis + 1 == shape.len() && pieces.len() > 2 && pieces.iter().filter(|piece| apart(piece)).count() > 1 {
            let rows = self.columns_as_rows(x);
            let picked = self.picked(op, rows, self.shape(rows).len() - 2, places)?;
            return Ok(self.rows_as_columns(picked, shape.len()));
        }
        let parts: Vec<ValueId> = pieces.into_iter().map(|piece| self.piece(x, axis, piece)).collect();
        let mut joined = shape;
        joined[axis] = places.len();
        Ok(match parts.as_slice() {
            [one] => *one,
            _ => self.op("joined", OpKind::Concat { axis }, &parts, joined),
        })
    }

    /// The elements `0, step, 2 step, ..` along an axis, then those from 1 on, and so on: an exchange of two axes.
    fn phases(&mut self, x: ValueId, axis: usize, step: usize) -> ValueId {
        let shape = self.shape(x);
        let mut split = shape.clone();
        split.splice(axis..=axis, [shape[axis] / step, step]);
        let apart = self.reshaped("apart", x, split.clone());
        let mut perm: Vec<usize> = (0..split.len()).collect();
        perm.swap(axis, axis + 1);
        split.swap(axis, axis + 1);
        let turned = self.op("turned", OpKind::Transpose { perm }, &[apart], split);
        self.reshaped("joined", turned, shape)
    }

    fn piece(&mut self, x: ValueId, axis: usize, piece: Piece) -> ValueId {
        let mut shape = self.shape(x);
        let mut part = x;
        if piece.count != shape[axis] {
            let (mut begin, mut end, mut stride) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
            (begin[axis], stride[axis]) = (piece.first, piece.step);
            end[axis] = piece.first + (piece.count - 1) * piece.step + 1;
            shape[axis] = piece.count;
            part = self.op("part", OpKind::Slice { begin, end, stride }, &[x], shape.clone());
        }
        if piece.backwards {
            part = self.reversed(part, axis);
        }
        if piece.repeat > 1 {
            let (mut apart, mut whole) = (shape.clone(), shape.clone());
            apart.insert(axis + 1, 1);
            let mut wide = apart.clone();
            wide[axis + 1] = piece.repeat;
            whole[axis] *= piece.repeat;
            let apart = self.reshaped("apart", part, apart);
            let wide = self.op("repeated", OpKind::Broadcast, &[apart], wide);
            part = self.reshaped("side_by_side", wide, whole);
        }
        part
    }

    /// Columns as rows: the value with its last two axes exchanged; a vector as a column.
    fn columns_as_rows(&mut self, x: ValueId) -> ValueId {
        let shape = self.shape(x);
        if shape.len() == 1 { self.reshaped("tall", x, vec![shape[0], 1]) } else { self.last_axes_exchanged(x) }
    }

    /// Rows as columns again, in a value of so many axes.
    fn rows_as_columns(&mut self, x: ValueId, rank: usize) -> ValueId {
        let shape = self.shape(x);
        if rank == 1 { self.reshaped("wide", x, vec![shape[0]]) } else { self.last_axes_exchanged(x) }
    }

    /// The value with its last two axes exchanged.
    pub(super) fn last_axes_exchanged(&mut self, x: ValueId) -> ValueId {
        let mut shape = self.shape(x);
        let rank = shape.len();
        shape.swap(rank - 2, rank - 1);
        self.op("turned", exchange_of_last_axes(rank), &[x], shape)
    }

    /// The elements in reverse order along an axis: by factors of its extent, each of which is reversed by copies of slices. The columns of
    /// a row are reversed as rows.
    fn reversed(&mut self, x: ValueId, axis: usize) -> ValueId {
        self.reversed_by(x, axis, 1)
    }

    /// As [`Self::reversed`], by `preferred` first if it is above 1 and divides the extent.
    fn reversed_by(&mut self, x: ValueId, axis: usize, preferred: usize) -> ValueId {
        let shape = self.shape(x);
        let (rank, extent) = (shape.len(), shape[axis]);
        if axis + 1 == rank && extent > 1 {
            let rows = self.columns_as_rows(x);
            let reversed = self.reversed_by(rows, self.shape(rows).len() - 2, preferred);
            return self.rows_as_columns(reversed, rank);
        }
        let divides = |factor: &usize| *factor > 1 && extent.is_multiple_of(*factor);
        let factor = Some(preferred).filter(divides).or_else(|| (2..extent).find(divides)).unwrap_or(extent);
        if factor == extent && extent > LARGEST_FACTOR {
            let part = |first, count| Piece { first, step: 1, count, repeat: 1, backwards: count > 1 };
            let parts = [part(1, extent - 1), part(0, 1)].map(|piece| self.piece(x, axis, piece));
            return self.op("reversed", OpKind::Concat { axis }, &parts, shape);
        }
        let mut split = shape.clone();
        split[axis] = factor;
        split.insert(axis + 1, extent / factor);
        let apart = self.reshaped("apart", x, split.clone());
        let part = |first| Piece { first, step: 1, count: 1, repeat: 1, backwards: false };
        let parts: Vec<ValueId> = (0..factor).rev().map(|at| self.piece(apart, axis, part(at))).collect();
        let outer = self.op("reversed", OpKind::Concat { axis }, &parts, split);
        // Four slices at once take as many copies as two by two, of half as many elements. Halves may be computed in their places.
        let inner = if factor == extent { outer } else { self.reversed_by(outer, axis + 1, 4) };
        self.reshaped("whole", inner, shape)
    }

    /// A gather along the last axis at constant positions that differ by row: each row times a selection matrix of zeros and ones,
    /// all rows as the groups of one convolution. Returns `false` if another lowering is better (few runs of elements) or if positions
    /// depend on more axes.
    pub(super) fn picked_by_rows(&mut self, op: &Op, indices: &[i32], stretches: usize) -> Result<bool> {
        let (x, own) = (op.inputs[0], self.shape(op.inputs[1]));
        let shape = self.shape(x);
        let rank = shape.len();
        let float = self.net.value(x).ty.dtype.is_float();
        if rank < 2
            || op.kind != (OpKind::GatherAlong { axis: rank - 1 })
            || own[..rank - 1] != shape[..rank - 1]
            || !float
        {
            return Ok(false);
        }
        let (outer, [rows, extent]) = (&shape[..rank - 2], [shape[rank - 2], shape[rank - 1]]);
        let (batch, count): (usize, usize) = (outer.iter().product(), own[rank - 1]);
        let depends = depends(&own, indices, 1, 0);
        if stretches < WORTH_STRETCHES
            || depends[..rank - 2].iter().any(|&depends| depends)
            || rows * count * extent > MOST_COEFFICIENTS
        {
            return Ok(false);
        }
        let places = self.places(op, &indices[..rows * count], extent)?;
        let mut ones = vec![0.0; rows * count * extent];
        places.iter().enumerate().for_each(|(i, place)| ones[i * extent + place] = 1.0);
        let kernel = self.constant("places", vec![rows * count, extent, 1, 1], ones);
        let turn = |builder: &mut Self, x: ValueId, from: [usize; 2]| {
            let [a, b] = from;
            let flat = builder.reshaped("flat", x, from.to_vec());
            if a == 1 || b == 1 {
                flat
            } else {
                builder.op("turned", OpKind::Transpose { perm: vec![1, 0] }, &[flat], vec![b, a])
            }
        };
        let channels = turn(self, x, [batch, rows * extent]);
        let channels = self.reshaped("channels", channels, vec![1, rows * extent, 1, batch]);
        let product = OpKind::Conv { strides: vec![1; 2], pads: vec![(0, 0); 2], dilations: vec![1; 2], groups: rows };
        let chosen = self.op("chosen", product, &[channels, kernel], vec![1, rows * count, 1, batch]);
        let back = turn(self, chosen, [rows * count, batch]);
        self.push(OpKind::Reshape, &[back], op.outputs[0]);
        Ok(true)
    }

    /// A gather whose positions along each axis depend on axes of their own, computed one axis at a time. Returns `false` for others.
    pub(super) fn picked_axis_by_axis(&mut self, op: &Op, indices: &[i32]) -> Result<bool> {
        let (x, own) = (op.inputs[0], self.shape(op.inputs[1]));
        let lists: Vec<(usize, Vec<i32>)> = match op.kind {
            OpKind::GatherNd { batch_dims: 0 } => match separate(&own, indices) {
                Some(lists) => lists.into_iter().enumerate().collect(),
                None => return Ok(false),
            },
            OpKind::GatherAlong { axis } => {
                let (shape, depends) = (self.shape(x), depends(&own, indices, 1, 0));
                let whole = own.iter().zip(&shape).enumerate().all(|(a, (own, all))| a == axis || own == all);
                if !whole || depends.iter().enumerate().any(|(a, &depends)| depends && a != axis) {
                    return Ok(false);
                }
                let step: usize = own[axis + 1..].iter().product();
                vec![(axis, (0..own[axis]).map(|i| indices[i * step]).collect())]
            }
            _ => return Ok(false),
        };
        let mut current = x;
        for (axis, list) in lists {
            let places = self.places(op, &list, self.shape(x)[axis])?;
            current = self.picked(op, current, axis, &places)?;
        }
        self.push(OpKind::Reshape, &[current], op.outputs[0]);
        Ok(true)
    }

    /// Returns true for a mean or maximum over blocks of the two last axes, both split: `[.., H, n, W, m]` over `n` and `m`, with planes
    /// within the chip's limits.
    pub(super) fn is_blockwise(&self, op: &Op, kind: ReduceKind, axes: &[usize], chip: &Chip) -> bool {
        let fits = |extent: usize, most: Option<u64>| most.is_none_or(|most| extent as u64 <= most);
        let shape = self.shape(op.inputs[0]);
        let rank = shape.len();
        // A mean of integers truncates its fraction; pooling does not.
        let float = self.net.value(op.outputs[0]).ty.dtype.is_float();
        (kind == ReduceKind::Max || kind == ReduceKind::Mean && float)
            && rank > 4
            && *axes == [rank - 3, rank - 1]
            && shape[rank - 4] > 1
            && shape[rank - 2] > 1
            && fits(shape[rank - 4] * shape[rank - 3], chip.hal.max_tensor_height)
            && fits(shape[rank - 2] * shape[rank - 1], chip.hal.max_tensor_width)
            // Other means of windows are products with a matrix of shares, where zero times infinity is NaN.
            && (kind == ReduceKind::Max || Limits::of(chip).pools(&[shape[rank - 3], shape[rank - 1]], &[shape[rank - 3], shape[rank - 1]]))
    }

    /// Reduction of blocks as pooling with adjacent windows.
    pub(super) fn blockwise(&mut self, op: &Op, kind: ReduceKind) {
        let shape = self.shape(op.inputs[0]);
        let (outer, blocks) = shape.split_at(shape.len() - 4);
        let &[h, n, w, m] = blocks else { return };
        let channels = outer.last().copied().unwrap_or(1);
        let batch = outer.iter().product::<usize>() / channels.max(1);
        let x = self.reshaped("blocks", op.inputs[0], vec![batch, channels, h * n, w * m]);
        let kind = match kind {
            ReduceKind::Max => PoolKind::Max,
            _ => PoolKind::Average { exclude_padding: true },
        };
        let pool =
            OpKind::Pool { kind, kernel: vec![n, m], strides: vec![n, m], pads: vec![(0, 0); 2], ceil_mode: false };
        let pooled = self.op("pooled", pool, &[x], vec![batch, channels, h, w]);
        self.push(OpKind::Reshape, &[pooled], op.outputs[0]);
    }
}

/// Axes that coordinate `at` of the positions depends on; each index has `depth` coordinates.
fn depends(shape: &[usize], indices: &[i32], depth: usize, at: usize) -> Vec<bool> {
    let stride = |axis: usize| shape[axis + 1..].iter().product::<usize>();
    let varies = |axis: usize| {
        let (extent, step) = (shape[axis], stride(axis));
        (0..indices.len() / depth.max(1)).any(|i| {
            i / step % extent > 0 && {
                let first = i - i / step % extent * step;
                indices[i * depth + at] != indices[first * depth + at]
            }
        })
    };
    (0..shape.len()).map(varies).collect()
}

/// The lists whose outer product the indices `[.., depth]` are, coordinates in the order of the axes; `None` if they are not an outer product.
pub fn separate(shape: &[usize], indices: &[i32]) -> Option<Vec<Vec<i32>>> {
    let (&depth, outer) = shape.split_last()?;
    let depends: Vec<Vec<bool>> = (0..depth).map(|at| depends(outer, indices, depth, at)).collect();
    let mut start = 0;
    let mut lists = Vec::with_capacity(depth);
    for at in 0..depth {
        // Axes up to the first that a later coordinate depends on.
        let later = depends[at + 1..].iter().filter_map(|d| d.iter().position(|&x| x)).min();
        let end = if at + 1 == depth { outer.len() } else { later.unwrap_or(outer.len()) };
        let own = depends[at].iter().enumerate().filter(|(_, x)| **x).all(|(a, _)| (start..end).contains(&a));
        if !own || end < start {
            return None;
        }
        let (count, step): (usize, usize) = (outer[start..end].iter().product(), outer[end..].iter().product());
        lists.push((0..count).map(|i| indices[i * step * depth + at]).collect());
        start = end;
    }
    Some(lists)
}
