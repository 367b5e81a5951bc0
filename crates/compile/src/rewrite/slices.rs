//! Forwarding of slices through concatenations, also reshaped without effect, to their parts, and elimination of additions of zeros, so that
//! the lists which a loop writes and reads back disappear.

use super::{Builder, rewrite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, ValueId};
use std::collections::HashMap;

/// Facts about the values visited so far.
#[derive(Default)]
struct Known {
    /// Parts of concatenations: the axis, and each part.
    parts: HashMap<ValueId, (usize, Vec<ValueId>)>,
    /// Slices that reach over several parts of a concatenation.
    spanning: HashMap<ValueId, (usize, Vec<ValueId>)>,
    /// Replaced values, each with its replacement.
    instead: HashMap<ValueId, ValueId>,
}

/// Replaces slices of concatenations by the parts that they read.
pub fn forward_slices(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    if !net.ops.iter().any(|op| matches!(op.kind, OpKind::Concat { .. })) {
        return Ok(());
    }
    let outputs: Vec<ValueId> = net.outputs.iter().chain(net.states.iter().map(|s| &s.output)).copied().collect();
    let known = std::cell::RefCell::new(Known::default());
    rewrite(net, reasons, |builder, op| {
        let mut known = known.borrow_mut();
        let mut op = op.clone();
        for input in &mut op.inputs {
            *input = known.instead.get(input).copied().unwrap_or(*input);
        }
        let Some(&out) = op.outputs.first() else {
            builder.ops.push(op);
            return Ok(());
        };
        let free = !outputs.contains(&out);
        if let OpKind::Concat { axis } = op.kind {
            let spliced = |id: &ValueId| match known.spanning.get(id) {
                Some((own, parts)) if *own == axis => parts.clone(),
                _ => vec![*id],
            };
            op.inputs = op.inputs.iter().flat_map(spliced).collect();
            known.parts.insert(out, (axis, op.inputs.clone()));
        } else if let Some((axis, parts)) = free.then(|| builder.parts_of_slice(&op, &known)).flatten() {
            if let [one] = parts.as_slice() {
                known.instead.insert(out, *one);
                return Ok(());
            }
            known.spanning.insert(out, (axis, parts.clone()));
            builder.push(OpKind::Concat { axis }, &parts, out);
            return Ok(());
        } else if let Some(same) =
            builder.unchanged(&op, &known).or_else(|| builder.without_zeros(&op)).filter(|_| free)
        {
            known.instead.insert(out, same);
            return Ok(());
        }
        builder.ops.push(op);
        Ok(())
    })
}

impl Builder<'_> {
    /// Concatenation axis, and the parts that a slice of a concatenation reads, each sliced where needed. `None` where the slice has
    /// strides or cuts other axes.
    fn parts_of_slice(&mut self, op: &Op, known: &Known) -> Option<(usize, Vec<ValueId>)> {
        let OpKind::Slice { begin, end, stride } = &op.kind else { return None };
        let (axis, parts) = known.parts.get(op.inputs.first()?)?;
        let shape = self.shape(op.inputs[0]);
        let whole = |i: usize| begin[i] == 0 && end[i] == shape[i];
        if stride.iter().any(|&s| s != 1) || (0..shape.len()).any(|i| i != *axis && !whole(i)) {
            return None;
        }
        let (mut start, mut read) = (0, Vec::new());
        for &part in parts {
            let size = self.shape(part)[*axis];
            let (from, to) = (begin[*axis].max(start), end[*axis].min(start + size));
            if from < to {
                read.push((part, from - start, to - start, size));
            }
            start += size;
        }
        let read = read.into_iter().map(|(part, from, to, size)| match to - from == size {
            true => part,
            false => self.sliced(part, *axis, from, to),
        });
        Some((*axis, read.collect()))
    }

    /// Slice of a value along an axis; a slice of a constant is a constant.
    pub(super) fn sliced(&mut self, part: ValueId, axis: usize, from: usize, to: usize) -> ValueId {
        let shape = self.shape(part);
        let mut own = shape.clone();
        own[axis] = to - from;
        if let Some(tensor) = self.net.value(part).data.clone() {
            let (row, data) = (shape[axis + 1..].iter().product::<usize>(), tensor.data.to_f32());
            let block = shape[axis] * row;
            let kept =
                data.chunks(block.max(1)).flat_map(|chunk| chunk[from * row..to * row].iter().copied()).collect();
            return self.constant_of("part", Tensor { shape: own, data: Data::F32(kept) });
        }
        let (mut begin, mut end) = (vec![0; shape.len()], shape);
        (begin[axis], end[axis]) = (from, to);
        let stride = vec![1; end.len()];
        self.op("part", OpKind::Slice { begin, end, stride }, &[part], own)
    }

    /// The concatenation that a reshape gives the extents that it has.
    fn unchanged(&self, op: &Op, known: &Known) -> Option<ValueId> {
        let (OpKind::Reshape, &[from], &[out]) = (&op.kind, op.inputs.as_slice(), op.outputs.as_slice()) else {
            return None;
        };
        (known.parts.contains_key(&from) && self.net.value(from).ty == self.net.value(out).ty).then_some(from)
    }

    /// The operand of an addition of zeros.
    fn without_zeros(&self, op: &Op) -> Option<ValueId> {
        let zeros = |id: ValueId| {
            self.net.value(id).data.as_ref().is_some_and(|tensor| tensor.data.to_f32().iter().all(|&x| x == 0.0))
        };
        let (OpKind::Binary(Binary::Add), &[a, b], &[out]) = (&op.kind, op.inputs.as_slice(), op.outputs.as_slice())
        else {
            return None;
        };
        let other = if zeros(b) { a } else { Some(b).filter(|_| zeros(a))? };
        let computed = self.net.value(other).data.is_none();
        (computed && self.shape(other) == self.shape(out)).then_some(other)
    }
}
