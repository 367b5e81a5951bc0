//! Concatenations in place: the layer that computes a part writes it at its position in the result, so that nothing is copied.

use super::Lowerer;
use crate::ir::*;
use anemone_net::{Op, OpKind, ValueId};
use std::collections::HashMap;

impl Lowerer<'_> {
    /// Reserves the positions of all parts of concatenations before lowering. The last concatenation comes first, so that a nested one
    /// has its position before its own parts get theirs. A part that is computed as a view of another value does not use its
    /// position, and is copied.
    pub(super) fn reserve_parts(&mut self) {
        let net = self.net;
        let makers: HashMap<ValueId, &Op> =
            net.ops.iter().flat_map(|op| op.outputs.iter().map(move |&id| (id, op))).collect();
        self.reserve_around(&makers);
        for op in net.ops.iter().rev() {
            let (OpKind::Concat { axis }, Some(&out)) = (&op.kind, op.outputs.first()) else { continue };
            let free = |id: &ValueId| self.is_free(*id, &makers);
            if op.inputs.len() < 2 || net.value(out).data.is_some() || !op.inputs.iter().any(free) {
                continue;
            }
            self.op = op.name.clone();
            let to = self.place(out);
            self.reserve_parts_of(op, *axis, &to, None, &makers);
        }
    }

    /// Reserves the positions of the parts of one concatenation, except for a part that lies there already.
    pub(super) fn reserve_parts_of(
        &mut self,
        op: &Op,
        axis: usize,
        to: &View,
        there: Option<ValueId>,
        makers: &HashMap<ValueId, &Op>,
    ) {
        let mut start = 0;
        for &input in &op.inputs {
            let size = self.shape(input)[axis];
            let part = part_of(to, axis, start, size);
            start += size;
            let Some(part) = part else { break };
            if there != Some(input) {
                self.reserve(input, part, makers);
            }
        }
    }

    /// Reserves a view for a value, or for the operand that it is a reshape of.
    fn reserve(&mut self, id: ValueId, place: View, makers: &HashMap<ValueId, &Op>) {
        if !self.is_free(id, makers) {
            return;
        }
        let Some(maker) = makers.get(&id) else { return };
        if maker.kind != OpKind::Reshape {
            self.reserved.insert(id, place);
            return;
        }
        let from = maker.inputs[0];
        if let Ok(Some(place)) = self.reshaped(&place, &self.shape(from)) {
            self.reserve(from, place, makers);
        }
    }

    /// Returns true for a non-constant result of an operation without a view, reserved or not.
    pub(super) fn is_free(&self, id: ValueId, makers: &HashMap<ValueId, &Op>) -> bool {
        let taken = self.views.contains_key(&id) || self.reserved.contains_key(&id);
        makers.contains_key(&id) && self.net.value(id).data.is_none() && !taken
    }

    /// Destination view of a concatenation's result, allocated and reserved on first use.
    fn place(&mut self, out: ValueId) -> View {
        if let Some(view) = self.views.get(&out).or_else(|| self.reserved.get(&out)) {
            return view.clone();
        }
        let shape = self.shape(out);
        let view = self.scratch("", &shape);
        self.reserved.insert(out, view.clone());
        view
    }
}

/// Slice of a view along an axis, `size` elements from `start`; `None` if columns do not start on a row boundary.
pub(super) fn part_of(to: &View, axis: usize, start: usize, size: usize) -> Option<View> {
    let mut part = to.clone();
    match part.lead.get_mut(axis) {
        Some(lead) => {
            part.offset_bytes += start as u64 * lead.stride_bytes;
            lead.extent = size;
        }
        None => {
            let offset_bytes = start as u64 * ELEMENT_BYTES;
            if !offset_bytes.is_multiple_of(ROW_ALIGN) {
                return None;
            }
            part.offset_bytes += offset_bytes;
            part.width = size;
        }
    }
    Some(part)
}

/// Returns true if two views select the same elements in the same order; leading axes of one element are ignored.
pub(super) fn alike(a: &View, b: &View) -> bool {
    let axes = |v: &View| v.lead.iter().filter(|axis| axis.extent > 1).copied().collect::<Vec<Axis>>();
    a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.width == b.width && axes(a) == axes(b)
}
