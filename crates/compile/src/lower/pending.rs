//! Deferred data movement: the result of an operation that only moves data is a view, or is copied once on first use, with all moves
//! before it composed.

use super::Lowerer;
use super::joined::{alike, part_of};
use super::product::TransposedMatrix;
use super::rearrange::{Loop, Move};
use super::strided::Strided;
use crate::error::Result;
use crate::ir::*;
use anemone_net::{OpKind, ValueId};

/// A value that cannot be expressed as a view.
pub(super) struct Pending {
    made: Strided,
    /// Name of the operation that requests the copy.
    op: String,
    /// The operation and its operand, unless other moves came before.
    single: Option<(OpKind, ValueId)>,
}

impl Lowerer<'_> {
    /// Strided layout of a value's elements, without copying a pending move.
    fn strided(&mut self, id: ValueId) -> Result<Strided> {
        match self.pending.get(&id) {
            Some(pending) => Ok(pending.made.clone()),
            None => Ok(Strided::from(&self.view(id)?)),
        }
    }

    /// Returns true if a value is a move that nothing has executed.
    pub(super) fn is_pending(&self, id: ValueId) -> bool {
        self.pending.contains_key(&id)
    }

    /// Strided layout of a value's elements; a pending move with other readers is executed.
    pub(super) fn moved(&mut self, id: ValueId) -> Result<Strided> {
        if self.uses[id.0 as usize] > 1 {
            self.view(id)?;
        }
        self.strided(id)
    }

    /// Records a tensor with any strides as the result of an operation.
    pub(super) fn record_strided(
        &mut self,
        out: ValueId,
        made: Strided,
        single: Option<(OpKind, ValueId)>,
    ) -> Result<()> {
        if let Some(view) = made.view() {
            return self.alias(out, view);
        }
        let pending = Pending { made, op: self.op.clone(), single };
        if self.outputs.contains(&out) || self.placed_around.contains(&out) {
            let to = self.result(out);
            return self.materialize(&pending, &to);
        }
        self.pending.insert(out, pending);
        Ok(())
    }

    /// Executes a pending move. A single operation uses its own lowering, which is as good in most cases.
    pub(super) fn materialize(&mut self, pending: &Pending, to: &View) -> Result<()> {
        let op = std::mem::replace(&mut self.op, pending.op.clone());
        let made = self.materialized(pending, to);
        self.op = op;
        made
    }

    fn materialized(&mut self, pending: &Pending, to: &View) -> Result<()> {
        let Some((kind, x)) = &pending.single else { return self.rearrange(&pending.made, to) };
        let from = self.view(*x)?;
        let own = |lowerer: &mut Self| match kind {
            OpKind::Transpose { perm } => lowerer.permute_into(&from, perm, to),
            OpKind::Slice { begin, end, stride } => lowerer.slice_into(&from, begin, end, stride, to),
            _ => lowerer.reshape_into(&from, to),
        };
        let single = self.tried(own);
        let any = self.tried(|lowerer| lowerer.rearrange(&pending.made, to));
        match (single, any) {
            (Some(own_cost), Some(cost)) if cost < own_cost => self.rearrange(&pending.made, to),
            (None, Some(_)) => self.rearrange(&pending.made, to),
            _ => own(self),
        }
    }

    /// Lowers the operation alone, if its operand is not pending.
    fn unless_pending(&self, kind: OpKind, x: ValueId) -> Option<(OpKind, ValueId)> {
        (!self.pending.contains_key(&x)).then_some((kind, x))
    }

    pub(super) fn transpose(&mut self, perm: &[usize], x: ValueId, out: ValueId) -> Result<()> {
        if perm.is_empty() {
            let from = self.view(x)?;
            return self.alias(out, from);
        }
        if self.transpose_bytes(perm, x, out)? {
            return Ok(());
        }
        let single = self.unless_pending(OpKind::Transpose { perm: perm.to_vec() }, x);
        let made = self.strided(x)?.permuted(perm);
        self.record_strided(out, made, single)
    }

    pub(super) fn reshape(&mut self, x: ValueId, out: ValueId) -> Result<()> {
        let shape = self.shape(out);
        let single = self.unless_pending(OpKind::Reshape, x);
        if single.is_some() {
            let from = self.view(x)?;
            // A port is read in the order of its rows and channels.
            let made_here = self.graph.buffer(from.buffer).role == Role::Scratch;
            let kept =
                TransposedMatrix::already(&from, &shape).filter(|_| made_here && self.operands_alone.contains(&out));
            if let Some(turned) = kept {
                self.turned.insert(out, turned);
                return Ok(());
            }
        }
        if let Some(made) = self.strided(x)?.reshaped(&shape) {
            return self.record_strided(out, made, single);
        }
        let (from, to) = (self.view(x)?, self.result(out));
        self.reshape_into(&from, &to)
    }

    pub(super) fn slice(
        &mut self,
        begin: &[usize],
        end: &[usize],
        stride: &[usize],
        x: ValueId,
        out: ValueId,
    ) -> Result<()> {
        // A scalar has no axis to slice.
        if begin.is_empty() {
            let from = self.view(x)?;
            return self.alias(out, from);
        }
        let kind = OpKind::Slice { begin: begin.to_vec(), end: end.to_vec(), stride: stride.to_vec() };
        let single = self.unless_pending(kind, x);
        if let Some(made) = self.strided(x)?.sliced(begin, end, stride) {
            return self.record_strided(out, made, single);
        }
        let from = self.view(x)?;
        let made = Strided::from(&from).sliced(begin, end, stride);
        let made = made.ok_or_else(|| self.unsupported("a slice of no view", "report this as a defect"))?;
        self.record_strided(out, made, None)
    }

    /// Concatenates parts along an axis if each starts on a boundary. Parts with the same distances in one buffer as in the result
    /// are one copy.
    pub(super) fn concat_parts(&mut self, axis: usize, inputs: &[ValueId], sizes: &[usize], to: &View) -> Result<()> {
        let mut parts: Vec<(Strided, View)> = Vec::new();
        let mut start = 0;
        for (&input, &size) in inputs.iter().zip(sizes) {
            // A value with several readers is copied for all of them.
            let once = self.uses[input.0 as usize] == 1;
            let from = if once { self.strided(input)? } else { Strided::from(&self.view(input)?) };
            let part = part_of(to, axis, start, size);
            let part = part.ok_or_else(|| self.unsupported("columns off a boundary", "report this as a defect"))?;
            start += size;
            // A part may have been computed in place, or copied there for a concatenation that shares the place.
            let there = from.view().is_some_and(|view| alike(&view, &part));
            if !there && self.placed.insert((input, part.buffer, part.offset_bytes)) {
                parts.push((from, part));
            }
        }
        let mut at = 0;
        while at < parts.len() {
            let (count, step) = run(&parts[at..]);
            let (from, part) = &parts[at];
            match (count, from.view()) {
                (1, Some(view)) => self.copy(&view, part)?,
                (1, None) => self.rearrange(from, part)?,
                _ => {
                    let mut whole = Move::of(from, part);
                    whole.loops.push(Loop { extent: count, from: step[0], to: step[1] });
                    self.move_elements(&whole.joined())?;
                }
            }
            at += count;
        }
        Ok(())
    }
}

/// Length of the leading run of parts with equal extents and constant steps, and the steps in bytes in source and result.
fn run(parts: &[(Strided, View)]) -> (usize, [u64; 2]) {
    let steps = |pair: &[(Strided, View)]| {
        let [(a, to_a), (b, to_b)] = pair else { return None };
        let alike = a.buffer == b.buffer && a.axes == b.axes;
        let from = b.offset_bytes.checked_sub(a.offset_bytes).filter(|_| alike)?;
        Some([from, to_b.offset_bytes - to_a.offset_bytes])
    };
    let Some(step) = parts.get(..2).and_then(steps).filter(|s| s[0] > 0) else { return (1, [0, 0]) };
    let more = parts.windows(2).take_while(|pair| steps(pair) == Some(step)).count();
    (more + 1, step)
}
