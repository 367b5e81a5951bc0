//! Gathers and scatters at constant positions as copies of runs of elements that are contiguous in the operand or in the
//! updates.

use super::{Builder, MOST_PIECES};
use crate::error::{Error, Result};
use anemone_net::{Binary, Op, OpKind, ScatterMode, ValueId};

/// Largest number of runs of rows that copies add; a product with a matrix of ones is fewer tasks than more of them.
const FEW_RUNS: usize = 8;
/// Most elements of such a matrix.
const MOST_ONES: usize = 1 << 20;

/// Source of a result's element: the operand, and the flat index in it.
type Origin = (usize, usize);

impl Builder<'_> {
    /// A gather or scatter at constant positions as copies; returns `false` if positions are computed.
    pub(super) fn at_places(&mut self, op: &Op) -> Result<bool> {
        let Some(indices) = op.inputs.get(1).and_then(|&id| self.net.value(id).data.clone()) else { return Ok(false) };
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let (shape, places) = (self.shape(x), self.shape(op.inputs[1]));
        let indices = indices.data.to_i32();
        if self.picked_axis_by_axis(op, &indices)? {
            return Ok(true);
        }
        let total: usize = shape.iter().product();
        let wrong = |i: i32| Error::Net(format!("{}: position {i} is outside {shape:?}", op.name));
        let targets = match op.kind {
            OpKind::GatherAlong { axis } | OpKind::ScatterAlong { axis, .. } => along(&shape, &places, axis, &indices),
            OpKind::GatherNd { batch_dims } => blocks(&shape, &places, batch_dims, &indices),
            _ => blocks(&shape, &places, 0, &indices),
        };
        let targets = targets.map_err(wrong)?;
        match op.kind {
            OpKind::GatherAlong { .. } | OpKind::GatherNd { .. } => {
                let flat = self.flat(x, total);
                let origins: Vec<Origin> = targets.into_iter().map(|t| (0, t)).collect();
                let count = stretches(&origins).count();
                if self.picked_by_rows(op, &indices, count)? {
                    return Ok(true);
                }
                if count > MOST_PIECES && matches!(op.kind, OpKind::GatherAlong { .. }) {
                    return Ok(false);
                }
                let all = self.assembled(op, &[flat], &origins)?;
                self.push(OpKind::Reshape, &[all], out);
            }
            OpKind::ScatterAlong { mode, .. } | OpKind::ScatterNd { mode } => {
                if self.region_written(op, mode.binary(), neutral(mode), &targets) {
                    return Ok(true);
                }
                if self.rows_added(op, mode, &targets) {
                    return Ok(true);
                }
                let count = targets.len();
                let (flat, updates) = (self.flat(x, total), self.flat(op.inputs[2], count));
                let all = match mode.binary() {
                    None => {
                        let mut origins: Vec<Origin> = (0..total).map(|at| (0, at)).collect();
                        targets.iter().enumerate().for_each(|(i, &t)| origins[t] = (1, i));
                        self.assembled(op, &[flat, updates], &origins)?
                    }
                    Some(f) => self.combined(op, f, neutral(mode), flat, updates, &targets, total)?,
                };
                if all == x {
                    self.push(OpKind::Unary(anemone_net::Unary::Identity), &[all], out);
                } else {
                    self.push(OpKind::Reshape, &[all], out);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A scatter whose positions are those of a slice, in order: a concatenation, axis by axis, of the operand around the region with the
    /// updates in it. Returns `false` for other positions.
    fn region_written(&mut self, op: &Op, f: Option<Binary>, neutral: f32, targets: &[usize]) -> bool {
        let Some(Region { shape, begin, end }) = Region::of(&self.shape(op.inputs[0]), targets) else { return false };
        let x = self.reshaped("divided", op.inputs[0], shape.clone());
        let own: Vec<usize> = begin.iter().zip(&end).map(|(from, to)| to - from).collect();
        let mut written = self.reshaped("updates", op.inputs[2], own.clone());
        if let Some(f) = f {
            let before = self.part_of(x, begin.clone(), end.clone());
            let data = self.net.value(before).data.as_ref().map(|tensor| tensor.data.to_f32());
            if !data.is_some_and(|data| data.iter().all(|&x| x == neutral)) {
                written = self.op("combined", OpKind::Binary(f), &[before, written], own);
            }
        }
        for axis in (0..shape.len()).rev() {
            let mut parts = Vec::new();
            for (from, to) in [(0, begin[axis]), (begin[axis], end[axis]), (end[axis], shape[axis])] {
                if from == begin[axis] && to == end[axis] {
                    parts.push(written);
                } else if from < to {
                    let (mut first, mut last) = (begin.clone(), end.clone());
                    (first[axis], last[axis]) = (from, to);
                    // Later axes are complete already.
                    first[axis + 1..].fill(0);
                    last[axis + 1..].copy_from_slice(&shape[axis + 1..]);
                    parts.push(self.part_of(x, first, last));
                }
            }
            if parts.len() > 1 {
                let mut own: Vec<usize> = begin.iter().zip(&end).map(|(from, to)| to - from).collect();
                own[axis..].copy_from_slice(&shape[axis..]);
                written = self.op("around", OpKind::Concat { axis }, &parts, own);
            }
        }
        self.push(OpKind::Reshape, &[written], op.outputs[0]);
        true
    }

    /// Sums of whole rows at many positions, such as the messages of a graph's edges: a product with the matrix of ones that adds each row to
    /// its target. Returns `false` for other scatters, and for those of few runs, which are copies.
    fn rows_added(&mut self, op: &Op, mode: ScatterMode, targets: &[usize]) -> bool {
        let (x, updates) = (op.inputs[0], op.inputs[2]);
        let shape = self.shape(x);
        let size: usize = shape.iter().skip(1).product();
        let sign = match mode {
            ScatterMode::Add => 1.0,
            ScatterMode::Sub => -1.0,
            _ => return false,
        };
        let whole = |row: &[usize]| row[0].is_multiple_of(size) && row.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if size == 0 || !self.net.value(x).ty.dtype.is_float() || !targets.chunks(size).all(whole) {
            return false;
        }
        let rows: Vec<usize> = targets.chunks(size).map(|row| row[0] / size).collect();
        let runs = rows.chunk_by(|a, b| a + 1 == *b).count();
        let (count, sums) = (rows.len(), shape[0]);
        if runs <= FEW_RUNS || count * sums > MOST_ONES {
            return false;
        }
        let mut ones = vec![0.0; sums * count];
        rows.iter().enumerate().for_each(|(i, row)| ones[row * count + i] = sign);
        let matrix = self.constant("ones", vec![sums, count], ones);
        let flat = self.reshaped("rows", updates, vec![count, size]);
        let perm = || OpKind::Transpose { perm: vec![1, 0] };
        let columns = self.op("columns", perm(), &[flat], vec![size, count]);
        let added = self.op("added", OpKind::Linear, &[columns, matrix], vec![size, sums]);
        let added = self.op("turned", perm(), &[added], vec![sums, size]);
        let zero = self.net.value(x).data.as_ref().is_some_and(|t| t.data.to_f32().iter().all(|&x| x == 0.0));
        if zero {
            self.push(OpKind::Reshape, &[added], op.outputs[0]);
        } else {
            let added = self.reshaped("sums", added, shape);
            self.push(OpKind::Binary(Binary::Add), &[x, added], op.outputs[0]);
        }
        true
    }

    /// A slice; a slice of a constant is a constant.
    fn part_of(&mut self, x: ValueId, begin: Vec<usize>, end: Vec<usize>) -> ValueId {
        let own: Vec<usize> = begin.iter().zip(&end).map(|(from, to)| to - from).collect();
        if let Some(tensor) = self.net.value(x).data.clone() {
            let (strides, counts) = (strides(&self.shape(x)), strides(&own));
            let first: usize = begin.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
            let place = |i: usize| -> usize {
                let of = |a: usize| i / counts[a] % own[a] * strides[a];
                first + (0..own.len()).map(of).sum::<usize>()
            };
            let data = tensor.data.to_f32();
            let picked = (0..own.iter().product()).map(|i| data[place(i)]).collect();
            return self.constant("kept", own, picked);
        }
        let stride = vec![1; end.len()];
        self.op("kept", OpKind::Slice { begin, end, stride }, &[x], own)
    }

    /// Combines updates with the elements that they update, in rounds without two updates of the same element.
    #[allow(clippy::too_many_arguments, reason = "the operands of a scatter")]
    fn combined(
        &mut self,
        op: &Op,
        f: Binary,
        neutral: f32,
        flat: ValueId,
        updates: ValueId,
        targets: &[usize],
        total: usize,
    ) -> Result<ValueId> {
        let mut rounds: Vec<Vec<Option<usize>>> = Vec::new();
        for (i, &target) in targets.iter().enumerate() {
            let free = rounds.iter().position(|round| round[target].is_none()).unwrap_or(rounds.len());
            if free == rounds.len() {
                rounds.push(vec![None; total]);
            }
            rounds[free][target] = Some(i);
        }
        let mut current = flat;
        for round in rounds {
            let rest = self.constant("neutral", vec![total], vec![neutral; total]);
            let origins: Vec<Origin> =
                round.iter().enumerate().map(|(at, update)| update.map_or((0, at), |i| (1, i))).collect();
            let operand = self.assembled(op, &[rest, updates], &origins)?;
            current = self.op("combined", OpKind::Binary(f), &[current, operand], vec![total]);
        }
        Ok(current)
    }

    /// A value as a one-dimensional list.
    fn flat(&mut self, x: ValueId, count: usize) -> ValueId {
        self.reshaped("flat", x, vec![count])
    }

    /// Concatenates runs of the lists' elements.
    fn assembled(&mut self, op: &Op, lists: &[ValueId], origins: &[Origin]) -> Result<ValueId> {
        let stretches: Vec<(usize, usize, usize)> = stretches(origins).collect();
        if stretches.len() > MOST_PIECES {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                reason: format!("{} runs of elements; at most {MOST_PIECES} are joined", stretches.len()),
                suggestion: "gather or scatter whole rows, or do it on the host",
            });
        }
        let mut parts = Vec::new();
        for (list, from, count) in stretches {
            let whole = self.shape(lists[list]);
            if let Some(tensor) = self.net.value(lists[list]).data.clone() {
                let data = tensor.data.to_f32()[from..from + count].to_vec();
                parts.push(self.constant("part", vec![count], data));
            } else if whole == [count] {
                parts.push(lists[list]);
            } else {
                let slice = OpKind::Slice { begin: vec![from], end: vec![from + count], stride: vec![1] };
                parts.push(self.op("part", slice, &[lists[list]], vec![count]));
            }
        }
        Ok(match parts.as_slice() {
            [one] => *one,
            _ => self.op("joined", OpKind::Concat { axis: 0 }, &parts, vec![origins.len()]),
        })
    }
}

/// Positions that a slice selects. An axis with a step is two axes: the steps, and the positions of one step.
#[derive(Debug, PartialEq)]
pub struct Region {
    /// Extents, with stepped axes divided.
    pub shape: Vec<usize>,
    /// First position along each axis.
    pub begin: Vec<usize>,
    /// End of the positions along each axis, exclusive.
    pub end: Vec<usize>,
}

impl Region {
    /// The region of flat positions in `shape`, if they are those of a slice in order.
    pub fn of(shape: &[usize], targets: &[usize]) -> Option<Region> {
        let strides = strides(shape);
        let mut region = Region { shape: Vec::new(), begin: Vec::new(), end: Vec::new() };
        let mut taken: Vec<Vec<usize>> = Vec::new();
        for (&extent, &stride) in shape.iter().zip(&strides) {
            let mut marks = vec![false; extent];
            targets.iter().for_each(|target| marks[target / stride % extent] = true);
            let own: Vec<usize> = (0..extent).filter(|&at| marks[at]).collect();
            let (&first, &last) = (own.first()?, own.last()?);
            let step = own.get(1).map_or(1, |next| next - first);
            if own.windows(2).any(|pair| pair[1] - pair[0] != step) || !extent.is_multiple_of(step) {
                return None;
            }
            region.shape.push(extent / step);
            region.begin.push(first / step);
            region.end.push(last / step + 1);
            if step > 1 {
                region.shape.push(step);
                region.begin.push(first % step);
                region.end.push(first % step + 1);
            }
            taken.push(own);
        }
        let counts = self::strides(&taken.iter().map(Vec::len).collect::<Vec<_>>());
        let place = |i: usize| -> usize {
            let of = |a: usize| taken[a][i / counts[a] % taken[a].len()] * strides[a];
            (0..taken.len()).map(of).sum()
        };
        let all: usize = taken.iter().map(Vec::len).product();
        (all == targets.len() && targets.iter().enumerate().all(|(i, &target)| place(i) == target)).then_some(region)
    }
}

/// Maximal runs of elements that are contiguous in one list: the list, the first position and the length.
fn stretches(origins: &[Origin]) -> impl Iterator<Item = (usize, usize, usize)> {
    let follows = |a: &Origin, b: &Origin| a.0 == b.0 && a.1 + 1 == b.1;
    origins.chunk_by(follows).map(|run| (run[0].0, run[0].1, run.len()))
}

/// Neutral element of a scatter mode.
fn neutral(mode: ScatterMode) -> f32 {
    match mode {
        ScatterMode::Mul | ScatterMode::Div => 1.0,
        ScatterMode::Max => f32::NEG_INFINITY,
        ScatterMode::Min => f32::INFINITY,
        _ => 0.0,
    }
}

/// Normalizes an index along an axis: negative ones count from the end. Errors: the index, if it is out of range.
pub(super) fn wrapped(index: i32, extent: usize) -> std::result::Result<usize, i32> {
    let at = if index < 0 { i64::from(index) + extent as i64 } else { i64::from(index) };
    usize::try_from(at).ok().filter(|&at| at < extent).ok_or(index)
}

/// Flat positions of elements whose index along one axis is given.
fn along(shape: &[usize], places: &[usize], axis: usize, indices: &[i32]) -> std::result::Result<Vec<usize>, i32> {
    let strides = strides(shape);
    let own = self::strides(places);
    let place = |(i, &index): (usize, &i32)| {
        let at = wrapped(index, shape[axis])?;
        let of = |a: usize| if a == axis { at } else { i / own[a] % places[a] };
        Ok((0..shape.len()).map(|a| of(a) * strides[a]).sum())
    };
    indices.iter().enumerate().map(place).collect()
}

/// Flat positions of blocks whose first indices are the last axis of the positions, after shared batch axes.
fn blocks(shape: &[usize], places: &[usize], batch: usize, indices: &[i32]) -> std::result::Result<Vec<usize>, i32> {
    let strides = strides(shape);
    let depth = places.last().copied().unwrap_or(1);
    let size: usize = shape[batch + depth..].iter().product();
    let batches: usize = places[..batch].iter().product();
    let (each, rows) = (indices.len() / batches.max(1), indices.chunks_exact(depth.max(1)));
    let apart: usize = shape[batch..].iter().product();
    let mut all = Vec::new();
    for (row, index) in rows.enumerate() {
        let mut at = row * depth / each.max(1) * apart;
        for (i, &index) in index.iter().enumerate() {
            at += wrapped(index, shape[batch + i])? * strides[batch + i];
        }
        all.extend(at..at + size);
    }
    Ok(all)
}

fn strides(shape: &[usize]) -> Vec<usize> {
    (0..shape.len()).map(|a| shape[a + 1..].iter().product()).collect()
}
