//! Rotations of one value along an axis as slices of it, twice.
//!
//! A rotation is a concatenation of the end of a value and its begin. Each is two copies; columns are exchanged with rows before and after
//! them. All rotations of a value are views of the value beside itself. Ours.

use super::gathers::exchange_of_last_axes;
use super::{Builder, makers, rewrite};
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{Net, Op, OpKind, ValueId};
use std::cell::RefCell;
use std::collections::HashMap;

/// Fewest rotations of one value for which its copies beside itself are fewer.
const FEWEST: usize = 2;

/// Value, axis, and the position of the element that becomes the first.
type Rotation = (ValueId, usize, usize);

/// The rotation that a concatenation is.
fn rotation(net: &Net, makers: &HashMap<ValueId, &Op>, op: &Op) -> Option<(ValueId, Rotation)> {
    let (OpKind::Concat { axis }, &[end, begin], &[out]) = (&op.kind, op.inputs.as_slice(), op.outputs.as_slice())
    else {
        return None;
    };
    let cut = |id: ValueId| match makers.get(&id) {
        Some(Op { kind: OpKind::Slice { begin, end, stride }, inputs, .. }) if stride.iter().all(|&s| s == 1) => {
            let shape = &net.value(inputs[0]).ty.shape;
            let whole = (0..shape.len()).all(|i| i == *axis || (begin[i], end[i]) == (0, shape[i]));
            whole.then_some((inputs[0], begin[*axis], end[*axis], shape[*axis]))
        }
        _ => None,
    };
    let ((x, first, last, extent), (y, zero, middle, _)) = (cut(end)?, cut(begin)?);
    let whole = x == y && zero == 0 && last == extent && middle == first;
    (whole && net.value(x).ty.dtype.is_float()).then_some((out, (x, *axis, first)))
}

/// Makes rotations of one value along one axis slices of the value beside itself.
pub(super) fn share_rotations(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let makers = makers(net);
    let found: HashMap<ValueId, Rotation> = net.ops.iter().filter_map(|op| rotation(net, &makers, op)).collect();
    let mut counts: HashMap<(ValueId, usize), usize> = HashMap::new();
    found.values().for_each(|&(x, axis, _)| *counts.entry((x, axis)).or_default() += 1);
    if counts.values().all(|&count| count < FEWEST) {
        return Ok(());
    }
    let doubled: RefCell<HashMap<(ValueId, usize), ValueId>> = RefCell::default();
    rewrite(net, reasons, |builder, op| {
        let rotation = op.outputs.first().and_then(|out| found.get(out));
        let Some(&(x, axis, first)) = rotation.filter(|&&(x, axis, _)| counts[&(x, axis)] >= FEWEST) else {
            builder.ops.push(op.clone());
            return Ok(());
        };
        let twice = *doubled.borrow_mut().entry((x, axis)).or_insert_with(|| builder.twice(x, axis));
        builder.rotated(twice, axis, first, op.outputs[0]);
        Ok(())
    })
}

impl Builder<'_> {
    /// A value beside itself along an axis; columns as rows.
    fn twice(&mut self, x: ValueId, axis: usize) -> ValueId {
        let columns = axis > 0 && axis + 1 == self.shape(x).len();
        let (rows, axis) = if columns { (self.last_axes_exchanged(x), axis - 1) } else { (x, axis) };
        let mut shape = self.shape(rows);
        shape[axis] *= 2;
        self.op("twice", OpKind::Concat { axis }, &[rows, rows], shape)
    }

    /// The rotation that begins at element `first`, of a value beside itself.
    fn rotated(&mut self, twice: ValueId, axis: usize, first: usize, out: ValueId) {
        let mut shape = self.shape(twice);
        let rank = shape.len();
        let columns = axis + 1 == rank && rank > 1;
        let along = if columns { rank - 2 } else { axis };
        shape[along] /= 2;
        let (mut begin, mut end) = (vec![0; rank], shape.clone());
        (begin[along], end[along]) = (first, first + shape[along]);
        let slice = OpKind::Slice { begin, end, stride: vec![1; rank] };
        if !columns {
            return self.push(slice, &[twice], out);
        }
        let part = self.op("rotated", slice, &[twice], shape);
        self.push(exchange_of_last_axes(rank), &[part], out);
    }
}
