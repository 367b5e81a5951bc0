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
use std::collections::{HashMap, HashSet};

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

/// A value beside a part of itself, and the ranges of its axes that are rotations of a value along some axes.
struct Beside {
    whole: ValueId,
    begin: Vec<usize>,
    end: Vec<usize>,
}

/// Makes rotations of one value along one axis slices of the value beside itself, and a single one a slice of the value beside its begin or
/// its end.
pub(super) fn share_rotations(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let makers = makers(net);
    let found: HashMap<ValueId, Rotation> = net.ops.iter().filter_map(|op| rotation(net, &makers, op)).collect();
    let mut counts: HashMap<(ValueId, usize), usize> = HashMap::new();
    found.values().for_each(|&(x, axis, _)| *counts.entry((x, axis)).or_default() += 1);
    if counts.is_empty() {
        return Ok(());
    }
    let viewed = viewed(net, &found);
    let uses = net.read_counts();
    let doubled: RefCell<HashMap<(ValueId, usize), ValueId>> = RefCell::default();
    let beside: RefCell<HashMap<ValueId, Beside>> = RefCell::default();
    rewrite(net, reasons, |builder, op| {
        let rotation = op.outputs.first().and_then(|out| Some((*out, *found.get(out)?)));
        let Some((out, (x, axis, first))) = rotation else {
            builder.ops.push(op.clone());
            return Ok(());
        };
        if counts[&(x, axis)] < FEWEST {
            if !viewed.contains(&out) {
                builder.ops.push(op.clone());
                return Ok(());
            }
            // The slices of the rotation alone read the value.
            let known = if uses[x.0 as usize] == 2 { beside.borrow_mut().remove(&x) } else { None };
            let made = builder.beside_part(known, x, axis, first, out);
            beside.borrow_mut().insert(out, made);
            return Ok(());
        }
        let twice = *doubled.borrow_mut().entry((x, axis)).or_insert_with(|| builder.twice(x, axis));
        builder.rotated(twice, axis, first, op.outputs[0]);
        Ok(())
    })
}

/// Rotations by less than half of an axis that are views where their readers read them: along no columns, by elementwise operations, by further
/// rotations, and by reshapes that divide axes alone.
fn viewed(net: &Net, found: &HashMap<ValueId, Rotation>) -> HashSet<ValueId> {
    let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
    for op in &net.ops {
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(op));
    }
    let rotated: HashSet<ValueId> = found.values().map(|&(from, ..)| from).collect();
    let mut viewed = HashSet::new();
    for op in net.ops.iter().rev() {
        let Some((out, &(_, axis, first))) = op.outputs.first().and_then(|out| Some((*out, found.get(out)?))) else {
            continue;
        };
        let shape = &net.value(out).ty.shape;
        let reads = |op: &&Op| match &op.kind {
            OpKind::Slice { .. } => {
                let next = readers.get(&op.outputs[0]).into_iter().flatten().all(|op| viewed.contains(&op.outputs[0]));
                next && rotated.contains(&out)
            }
            OpKind::Reshape => {
                let inner = |shape: &[usize], axis: usize| shape[axis..].iter().product::<usize>();
                let to = &net.value(op.outputs[0]).ty.shape;
                [axis, axis + 1].iter().all(|&i| (0..to.len()).any(|j| inner(to, j) == inner(shape, i)))
            }
            OpKind::Unary(_) | OpKind::Binary(_) => true,
            _ => false,
        };
        let all = readers.get(&out).is_some_and(|all| all.iter().all(reads));
        if all && axis + 1 < shape.len() && 2 * first != shape[axis] && !net.outputs.contains(&out) {
            viewed.insert(out);
        }
    }
    viewed
}

impl Builder<'_> {
    /// A rotation as a slice of a value beside its begin, or its end beside it, whichever is smaller.
    fn beside_part(&mut self, known: Option<Beside>, x: ValueId, axis: usize, first: usize, out: ValueId) -> Beside {
        let extent = self.shape(x)[axis];
        let whole = |b: &Self| Beside { whole: x, begin: vec![0; b.shape(x).len()], end: b.shape(x) };
        let known = known.filter(|known| self.shape(known.whole)[axis] == extent);
        let Beside { whole, mut begin, mut end } = known.unwrap_or_else(|| whole(self));
        let mut shape = self.shape(whole);
        let begins = first <= extent - first;
        let part = if begins { 0..first } else { first..extent };
        let (mut low, mut high) = (vec![0; shape.len()], shape.clone());
        (low[axis], high[axis]) = (part.start, part.end);
        let stride = vec![1; shape.len()];
        let mut own = shape.clone();
        own[axis] = part.len();
        let part =
            self.op("part", OpKind::Slice { begin: low, end: high, stride: stride.clone() }, &[whole], own.clone());
        let operands = if begins { [whole, part] } else { [part, whole] };
        shape[axis] += own[axis];
        let made = self.op("beside", OpKind::Concat { axis }, &operands, shape);
        begin[axis] = if begins { first } else { 0 };
        end[axis] = begin[axis] + extent;
        self.push(OpKind::Slice { begin: begin.clone(), end: end.clone(), stride }, &[made], out);
        Beside { whole: made, begin, end }
    }

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
