//! Elements at constant places: gathers and scatters are what is copied from where, in stretches that lie side by side in the
//! operand or in the updates.

use super::{Builder, MOST_PIECES};
use crate::error::{Error, Result};
use anemone_net::{Binary, Op, OpKind, ScatterMode, ValueId};

/// Origin of a result's element: which operand, and the index in it, flattened.
type Origin = (usize, usize);

impl Builder<'_> {
    /// A gather or scatter at constant places as copies; `false` where places are computed.
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
                if self.rows_written(op, mode.binary(), neutral(mode), &targets) {
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

    /// A scatter into whole rows that follow each other: what lies before them, the rows, what lies behind them. `false` where it is no
    /// such.
    fn rows_written(&mut self, op: &Op, f: Option<Binary>, neutral: f32, targets: &[usize]) -> bool {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let shape = self.shape(x);
        let Some((&rows, rest)) = shape.split_first() else { return false };
        let row: usize = rest.iter().product();
        let Some(&first) = targets.first().filter(|_| row > 0) else { return false };
        let follow = targets.iter().enumerate().all(|(i, &target)| target == first + i);
        if !follow || !first.is_multiple_of(row) || !targets.len().is_multiple_of(row) || rows * row == targets.len() {
            return false;
        }
        let (begin, end) = (first / row, (first + targets.len()) / row);
        let mut own = shape.clone();
        own[0] = end - begin;
        let mut written = self.reshaped("rows", op.inputs[2], own.clone());
        if let Some(f) = f {
            let before = self.rows_of(x, begin, end);
            let data = self.net.value(before).data.as_ref().map(|tensor| tensor.data.to_f32());
            if !data.is_some_and(|data| data.iter().all(|&x| x == neutral)) {
                written = self.op("combined", OpKind::Binary(f), &[before, written], own);
            }
        }
        let mut parts = Vec::new();
        for (from, to) in [(0, begin), (begin, end), (end, rows)] {
            if from == begin && to == end {
                parts.push(written);
            } else if from < to {
                parts.push(self.rows_of(x, from, to));
            }
        }
        self.push(OpKind::Concat { axis: 0 }, &parts, out);
        true
    }

    fn rows_of(&mut self, x: ValueId, from: usize, to: usize) -> ValueId {
        let shape = self.shape(x);
        let mut own = shape.clone();
        own[0] = to - from;
        if let Some(tensor) = self.net.value(x).data.clone() {
            let row: usize = shape[1..].iter().product();
            return self.constant("kept", own, tensor.data.to_f32()[from * row..to * row].to_vec());
        }
        let (mut begin, mut end) = (vec![0; shape.len()], shape);
        (begin[0], end[0]) = (from, to);
        let stride = vec![1; end.len()];
        self.op("kept", OpKind::Slice { begin, end, stride }, &[x], own)
    }

    /// Updates combined with what they meet, in rounds in which no two meet the same element.
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

    /// A value as a list.
    fn flat(&mut self, x: ValueId, count: usize) -> ValueId {
        self.reshaped("flat", x, vec![count])
    }

    /// Stretches of lists side by side.
    fn assembled(&mut self, op: &Op, lists: &[ValueId], origins: &[Origin]) -> Result<ValueId> {
        let stretches: Vec<(usize, usize, usize)> = stretches(origins).collect();
        if stretches.len() > MOST_PIECES {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: op.kind.name().into(),
                reason: format!("{} stretches of elements, at most {MOST_PIECES} are joined", stretches.len()),
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

/// Runs of elements that lie side by side in one list: the list, the first place and the number.
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

/// A position along an axis, from its end where it is negative.
pub(super) fn wrapped(index: i32, extent: usize) -> std::result::Result<usize, i32> {
    let at = if index < 0 { i64::from(index) + extent as i64 } else { i64::from(index) };
    usize::try_from(at).ok().filter(|&at| at < extent).ok_or(index)
}

/// Flat places of elements whose position along one axis is given.
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

/// Flat places of blocks whose first positions are the last axis of the places, after shared batch axes.
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
