//! Concatenations in place: the layer that computes a part writes it at its position in the result, so that nothing is copied.

use super::Lowerer;
use super::strided::{Atom, Strided};
use crate::error::Result;
use crate::ir::*;
use crate::rewrite::makers;
use anemone_net::{Op, OpKind, ValueId};
use std::collections::HashMap;

impl Lowerer<'_> {
    /// Reserves the positions of all parts of concatenations before lowering. The last concatenation comes first, so that a nested one
    /// has its position before its own parts get theirs. A part that is computed as a view of another value does not use its
    /// position, and is copied.
    pub(super) fn reserve_parts(&mut self) {
        let net = self.net;
        let makers = makers(net);
        self.reserve_around(&makers);
        for op in net.ops.iter().rev() {
            let (OpKind::Concat { axis }, Some(&out)) = (&op.kind, op.outputs.first()) else { continue };
            let free = |id: &ValueId| self.is_free(*id, &makers);
            let apart = self.options.conventions().neighbours_are_views && !self.begins_rows(op, *axis);
            if op.inputs.len() < 2 || net.value(out).data.is_some() || !op.inputs.iter().any(free) || apart {
                continue;
            }
            self.op = op.name.clone();
            let to = self.place(out);
            self.reserve_parts_of(&op.inputs, *axis, &to, None, &makers);
        }
    }

    /// Returns true if every part of a concatenation begins at a row of memory; all parts of others are copied.
    fn begins_rows(&self, op: &Op, axis: usize) -> bool {
        let last = axis + 1 == self.shape(op.inputs[0]).len();
        let (_, before) = op.inputs.split_last().unwrap_or((&op.inputs[0], &[]));
        !last || before.iter().all(|&id| (self.shape(id)[axis] as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN))
    }

    /// Reserves the positions of the parts of one concatenation, except for a part that lies there already.
    pub(super) fn reserve_parts_of(
        &mut self,
        inputs: &[ValueId],
        axis: usize,
        to: &View,
        there: Option<ValueId>,
        makers: &HashMap<ValueId, &Op>,
    ) {
        let mut start = 0;
        for (at, &input) in inputs.iter().enumerate() {
            let size = self.shape(input)[axis];
            let part = part_of(to, axis, start, size);
            if let Some((whole, size)) = self.sliced_here(&inputs[at..], axis, makers)
                && let Some(place) = part_of(to, axis, start, size)
            {
                self.reserve(whole, place, makers);
            }
            start += size;
            let Some(part) = part else { break };
            if there != Some(input) {
                self.reserve(input, part, makers);
            }
        }
    }

    /// A value of which the first parts are slices along the axis, in order, from its begin to its end; and its size.
    fn sliced_here(&self, parts: &[ValueId], axis: usize, makers: &HashMap<ValueId, &Op>) -> Option<(ValueId, usize)> {
        let mut end = 0;
        let mut of = None;
        for id in parts {
            let Op { kind: OpKind::Slice { begin, stride, .. }, inputs, .. } = makers.get(id)? else { return None };
            let (whole, own) = (inputs[0], self.shape(*id));
            let shape = self.shape(whole);
            let along = |i: usize| i == axis || own[i] == shape[i];
            let next = begin[axis] == end && stride.iter().all(|&s| s == 1) && (0..shape.len()).all(along);
            if !next || of.is_some_and(|of| of != whole) {
                return None;
            }
            (of, end) = (Some(whole), end + own[axis]);
            if end == shape[axis] {
                let neighbours = self.options.conventions().neighbours_are_views && parts[0] != whole;
                return of.filter(|_| neighbours && own[axis] < end).map(|whole| (whole, end));
            }
        }
        None
    }

    /// Reserves a view for a value, and for the operand that it is a reshape of.
    fn reserve(&mut self, id: ValueId, place: View, makers: &HashMap<ValueId, &Op>) {
        if !self.is_free(id, makers) {
            return;
        }
        let Some(maker) = makers.get(&id) else { return };
        if maker.kind == OpKind::Reshape {
            let from = maker.inputs[0];
            if let Ok(Some(place)) = self.reshaped(&place, &self.shape(from)) {
                self.reserve(from, place, makers);
            }
        }
        // Moves before a reshape are copied with it.
        self.reserved.insert(id, place);
    }

    /// Returns true for a non-constant result of an operation without a view, reserved or not.
    pub(super) fn is_free(&self, id: ValueId, makers: &HashMap<ValueId, &Op>) -> bool {
        let taken = self.views.contains_key(&id) || self.reserved.contains_key(&id);
        makers.contains_key(&id) && self.net.value(id).data.is_none() && !taken
    }

    /// The view of values that lie one behind another along an axis, such as parts of a longer concatenation; `None` for others, and
    /// for a result with a place of its own.
    pub(super) fn neighbours(&self, axis: usize, inputs: &[ValueId], out: ValueId) -> Option<View> {
        let placed = self.reserved.contains_key(&out) || self.outputs.contains(&out) || self.views.contains_key(&out);
        if placed || !self.options.conventions().neighbours_are_views {
            return None;
        }
        let views: Vec<&View> = inputs.iter().map(|id| self.views.get(id)).collect::<Option<_>>()?;
        let &[first, second, ..] = views.as_slice() else { return None };
        let mut whole = first.clone();
        let total = inputs.iter().map(|&id| self.shape(id)[axis]).sum();
        match whole.lead.get_mut(axis) {
            // The distance says where the next part lies, also where the first has one element.
            Some(lead) => {
                let distance = second.offset_bytes.checked_sub(first.offset_bytes)?;
                let stride_bytes = Some(distance / lead.extent as u64).filter(|&bytes| bytes > 0)?;
                *lead = Axis { extent: total, stride_bytes };
            }
            None => whole.width = total,
        }
        let mut start = 0;
        let there = inputs.iter().zip(&views).all(|(&id, view)| {
            let size = self.shape(id)[axis];
            let part = part_of(&whole, axis, start, size);
            start += size;
            part.is_some_and(|part| alike(&part, view))
        });
        there.then_some(whole)
    }

    /// Slices of the same rows, whose columns are exchanged once for all parts.
    pub(super) fn concat_of_row(
        &mut self,
        other: Option<usize>,
        inputs: &[Strided],
        starts: &[usize],
        to: &View,
    ) -> Result<()> {
        let row = same_row(inputs).filter(|_| self.options.conventions().whole_epilogues);
        let Some((mut row, places)) = row else {
            return Err(self.unsupported("parts of several rows", "report this as a defect"));
        };
        let mut wide = to.clone();
        let axis = other.unwrap_or(wide.lead.len());
        if other.is_none() {
            for view in [&mut row, &mut wide] {
                view.lead.push(Axis { extent: 1, stride_bytes: 0 });
            }
        }
        let turned = self.exchanged(&row, axis, "turned")?;
        let mut shape = wide.shape();
        let end = shape.len() - 1;
        shape.swap(axis, end);
        let joined = self.scratch("joined", &shape);
        for (&[first, extent, step], &start) in places.iter().zip(starts) {
            let (mut from, mut part) = (turned.clone(), joined.clone());
            let column = from.lead[axis].stride_bytes;
            from.offset_bytes += first as u64 * column;
            from.lead[axis] = Axis { extent, stride_bytes: step as u64 * column };
            part.offset_bytes += start as u64 * part.lead[axis].stride_bytes;
            part.lead[axis].extent = extent;
            self.copy(&from, &part)?;
        }
        self.copy_transposed(&joined, &wide, axis)
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

/// The columns that hold all of these slices of the same rows, and first column, number of columns and step of each; `None` for slices of
/// different rows.
fn same_row(inputs: &[Strided]) -> Option<(View, Vec<[usize; 3]>)> {
    let first = inputs.first()?;
    let outer = |input: &Strided| input.axes[..input.axes.len() - 1].to_vec();
    let axis = |atoms: &Vec<Atom>| match atoms.as_slice() {
        [] => Some(Axis { extent: 1, stride_bytes: 0 }),
        &[Atom { extent, stride_bytes }] => Some(Axis { extent, stride_bytes }),
        _ => None,
    };
    let lead: Vec<Axis> = outer(first).iter().map(axis).collect::<Option<_>>()?;
    let begin = inputs.iter().map(|input| input.offset_bytes).min()? / ROW_ALIGN * ROW_ALIGN;
    let place = |input: &Strided| {
        let columns = axis(input.axes.last()?)?;
        let step = if columns.extent > 1 { columns.stride_bytes / ELEMENT_BYTES } else { 1 };
        let same = input.buffer == first.buffer && outer(input) == outer(first);
        same.then_some([((input.offset_bytes - begin) / ELEMENT_BYTES) as usize, columns.extent, step as usize])
    };
    let places: Vec<[usize; 3]> = inputs.iter().map(place).collect::<Option<_>>()?;
    let width = places.iter().map(|[at, extent, step]| at + (extent - 1) * step + 1).max()?;
    let row_bytes = width as u64 * ELEMENT_BYTES;
    let apart = |a: &Axis| a.extent == 1 || a.stride_bytes >= row_bytes && a.stride_bytes.is_multiple_of(ROW_ALIGN);
    let view = View { buffer: first.buffer, offset_bytes: begin, lead, width };
    view.lead.iter().all(apart).then_some((view, places))
}

/// Returns true if two views select the same elements in the same order; leading axes of one element are ignored.
pub(super) fn alike(a: &View, b: &View) -> bool {
    let axes = |v: &View| v.lead.iter().filter(|axis| axis.extent > 1).copied().collect::<Vec<Axis>>();
    a.buffer == b.buffer && a.offset_bytes == b.offset_bytes && a.width == b.width && axes(a) == axes(b)
}
