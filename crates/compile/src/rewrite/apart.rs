//! Products of a concatenation of slices, such as the exchanged halves of a rotary embedding, part by part.
//!
//! A slice in another place is copied there, and then multiplied. The products of the slices are computed in the place of the
//! concatenation, with the sign of a slice as factor. Ours.

use super::{Builder, makers, rewrite};
use crate::error::Result;
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::{HashMap, HashSet};

/// A product of a concatenation and another operand.
struct Apart {
    axis: usize,
    /// Slices, each with true if its negative is a part.
    parts: Vec<(ValueId, bool)>,
    other: ValueId,
}

/// Replaces products of concatenated slices by concatenated products of the slices, where that is fewer tasks.
pub(super) fn products_of_slices(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let reads = net.read_counts();
    let makers = makers(net);
    let mut unread: HashSet<ValueId> = HashSet::new();
    let mut found: HashMap<ValueId, Apart> = HashMap::new();
    for op in &net.ops {
        let Some((joined, apart)) = apart(net, op, &makers, &reads) else { continue };
        unread.insert(joined);
        found.insert(op.outputs[0], apart);
    }
    if found.is_empty() {
        return Ok(());
    }
    rewrite(net, reasons, |builder, op| {
        let out = op.outputs.first();
        match out.and_then(|out| found.get(out)) {
            Some(apart) => builder.multiplied_apart(apart, op.outputs[0]),
            None if out.is_some_and(|out| unread.contains(out)) => {}
            None => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

/// The concatenation of slices that a product alone reads.
fn apart(net: &Net, op: &Op, makers: &HashMap<ValueId, &Op>, reads: &[usize]) -> Option<(ValueId, Apart)> {
    let (OpKind::Binary(Binary::Mul), &[a, b], &[out]) = (&op.kind, op.inputs.as_slice(), op.outputs.as_slice()) else {
        return None;
    };
    let once = |id: ValueId| reads[id.0 as usize] == 1;
    let shape = |id: ValueId| &net.value(id).ty.shape;
    let is_slice = |id: ValueId| match makers.get(&id) {
        Some(Op { kind: OpKind::Slice { begin, stride, .. }, inputs, .. }) => {
            stride.iter().all(|&s| s == 1).then(|| (inputs[0], begin.clone()))
        }
        _ => None,
    };
    [(a, b), (b, a)].into_iter().find_map(|(joined, other)| {
        let Op { kind: OpKind::Concat { axis }, inputs, .. } = makers.get(&joined)? else { return None };
        let same = shape(joined) == shape(out) && shape(other).len() == shape(out).len();
        let float = net.value(out).ty.dtype.is_float();
        let negated = |id: ValueId| match makers.get(&id) {
            Some(Op { kind: OpKind::Unary(Unary::Neg), inputs, .. }) if once(id) => Some(inputs[0]),
            _ => None,
        };
        let parts: Vec<(ValueId, bool)> =
            inputs.iter().map(|&id| negated(id).map_or((id, false), |of| (of, true))).collect();
        let &[(first, _), (second, _)] = parts.as_slice() else { return None };
        let (Some((x, from)), Some((y, to))) = (is_slice(first), is_slice(second)) else { return None };
        // Slices in order may be a view. Values with a slice each may be computed in their places.
        let plain = parts.iter().any(|(_, negated)| !negated);
        let fewer = plain && x == y && from[*axis] >= to[*axis];
        // Columns begin at rows of memory.
        let columns = axis + 1 == shape(out).len();
        let row = |&id: &ValueId| (shape(id)[*axis] as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
        let aligned = !columns || inputs.iter().all(row);
        let found = same && float && fewer && aligned && once(joined);
        found.then_some((joined, Apart { axis: *axis, parts, other }))
    })
}

impl Builder<'_> {
    fn multiplied_apart(&mut self, apart: &Apart, out: ValueId) {
        let Apart { axis, parts, other } = apart;
        let (mut at, mut products) = (0, Vec::with_capacity(parts.len()));
        for &(part, negated) in parts {
            let shape = self.shape(part);
            let factor = match self.shape(*other)[*axis] {
                1 => *other,
                _ => self.sliced(*other, *axis, at, at + shape[*axis]),
            };
            at += shape[*axis];
            let product = self.op("part", OpKind::Binary(Binary::Mul), &[part, factor], shape.clone());
            products.push(match negated {
                true => self.op("negated", OpKind::Unary(Unary::Neg), &[product], shape),
                false => product,
            });
        }
        self.push(OpKind::Concat { axis: *axis }, &products, out);
    }
}
