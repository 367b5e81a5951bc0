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

#[cfg(test)]
mod tests {
    use crate::{Options, compile};
    use anemone_facts::chips::CHIPS;

    /// Tasks of a network whose last operation joins two functions of its input along an axis.
    fn tasks(axis: usize, joined: &str) -> usize {
        let text = format!(
            "net \"n\" {{\n  input %x: f16[1, 4, 4, 8]\n  %a: f16[1, 4, 4, 8] = relu(%x)\n  %b: f16[1, 4, 4, 8] = tanh(%x)\n  \
             %y: f16[{joined}] = concat(%a, %b) axis={axis}\n  output %y\n}}\n"
        );
        let net = anemone_net::text::parse(&text, &[]).expect("the text parses");
        let program = compile(&net, &CHIPS[0], &Options::default(), &mut ()).expect("it compiles");
        program.tasks().map_or(0, |tasks| tasks.len())
    }

    #[test]
    fn parts_are_computed_in_their_places() {
        assert_eq!(tasks(1, "1, 8, 4, 8"), 2);
        assert_eq!(tasks(2, "1, 4, 8, 8"), 2);
        // Columns that start within a row of memory are copied.
        assert!(tasks(3, "1, 4, 4, 16") > 2);
    }
}
