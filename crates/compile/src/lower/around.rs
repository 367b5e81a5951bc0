//! Concatenations around slices: where several concatenations each take a slice of one value, such as the steps of a recurrent layer, the
//! value is computed in memory with space beside every slice, so that each concatenation is a view and nothing is copied.

use super::Lowerer;
use crate::ir::*;
use anemone_net::{Op, OpKind, ValueId};
use anemone_program::order;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Most bytes of such memory, relative to those of the value and the concatenations.
const MOST_RATIO: u64 = 2;

/// Extents along each axis: start and end.
type Region = Vec<(usize, usize)>;

/// Memory around a value.
struct Around {
    view: View,
    /// Position of the value.
    at: Vec<usize>,
    /// Regions of the concatenations.
    used: Vec<Region>,
}

/// A concatenation with a slice of a value: the value, the start of the slice in it, and the start in the result.
struct Taken {
    whole: ValueId,
    part: ValueId,
    begin: Vec<usize>,
    start: Vec<usize>,
}

/// Returns true for an operation that moves elements.
fn moves(op: &Op) -> bool {
    use OpKind::{Broadcast, Cast, Concat, Pad, Reshape, Slice, Transpose};
    matches!(op.kind, Broadcast | Cast | Concat { .. } | Pad { .. } | Reshape | Slice { .. } | Transpose { .. })
}

fn overlap(a: &Region, b: &Region) -> Region {
    a.iter().zip(b).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1))).collect()
}

fn is_empty(region: &Region) -> bool {
    region.iter().any(|(from, to)| from >= to)
}

fn region(at: &[usize], shape: &[usize]) -> Region {
    at.iter().zip(shape).map(|(&at, &n)| (at, at + n)).collect()
}

/// The part of a view that a region selects; its columns are whole.
fn selected(view: &View, region: &Region) -> View {
    let mut part = view.clone();
    for (axis, (from, to)) in part.lead.iter_mut().zip(region) {
        part.offset_bytes += *from as u64 * axis.stride_bytes;
        axis.extent = to - from;
    }
    part
}

impl Lowerer<'_> {
    /// Reserves memory around values of which concatenations take slices, and the positions of the other parts.
    pub(super) fn reserve_around(&mut self, makers: &HashMap<ValueId, &Op>) {
        let net = self.net;
        let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
        for op in &net.ops {
            op.inputs.iter().for_each(|id| readers.entry(*id).or_default().push(op));
        }
        let mut takers: Vec<(&Op, usize, Taken)> = Vec::new();
        let (mut bytes, mut gains): (HashMap<ValueId, u64>, HashMap<ValueId, usize>) = Default::default();
        for op in &net.ops {
            let (OpKind::Concat { axis }, Some(&out)) = (&op.kind, op.outputs.first()) else { continue };
            let free = self.is_free(out, makers) && *axis + 1 < self.shape(out).len();
            if let Some(taken) = free.then(|| self.taken(op, *axis, makers, &readers)).flatten() {
                *bytes.entry(taken.whole).or_default() += dense_axes(&self.shape(out)).1;
                let others = op.inputs.iter().filter(|id| **id != taken.part);
                let computed = others.filter_map(|id| makers.get(id)).any(|op| !moves(op));
                *gains.entry(taken.whole).or_default() += usize::from(computed);
                takers.push((op, *axis, taken));
            }
        }
        // A value that would be a view of another one costs a copy.
        takers.retain(|(_, _, taken)| {
            gains[&taken.whole] > usize::from(makers.get(&taken.whole).is_none_or(|op| moves(op)))
        });
        let mut known: HashMap<ValueId, Around> = HashMap::new();
        for (op, axis, taken) in takers {
            let most = MOST_RATIO * (bytes[&taken.whole] + dense_axes(&self.shape(taken.whole)).1);
            self.op = op.name.clone();
            if let Some(place) = self.place_around(op.outputs[0], &taken, &mut known, most) {
                self.reserved.insert(op.outputs[0], place.clone());
                self.reserve_parts_of(op, axis, &place, Some(taken.part), makers);
            }
        }
    }

    /// The slice among the parts of a concatenation that is read once, of a value that is read by slices only and not yet placed.
    fn taken(
        &self,
        op: &Op,
        axis: usize,
        makers: &HashMap<ValueId, &Op>,
        readers: &HashMap<ValueId, Vec<&Op>>,
    ) -> Option<Taken> {
        let mut at = 0;
        for &part in &op.inputs {
            let mut start = vec![0; self.shape(part).len()];
            start[axis] = at;
            at += self.shape(part)[axis];
            let Some(Op { kind: OpKind::Slice { begin, stride, .. }, inputs, .. }) = makers.get(&part) else {
                continue;
            };
            let whole = inputs[0];
            let slices = |op: &&Op| matches!(&op.kind, OpKind::Slice { stride, .. } if stride.iter().all(|&s| s == 1));
            let columns = self.shape(part).last() == self.shape(whole).last();
            let alone = readers.get(&whole).is_some_and(|all| all.iter().all(slices));
            let once = self.uses[part.0 as usize] == 1 && stride.iter().all(|&s| s == 1);
            let others = || op.inputs.iter().filter(|id| **id != part).filter_map(|id| makers.get(id));
            let apart = others().all(|op| op.inputs.first() != Some(&whole));
            if op.inputs.len() > 1 && once && columns && alone && apart && self.is_free(whole, makers) {
                return Some(Taken { whole, part, begin: begin.clone(), start });
            }
        }
        None
    }

    /// Memory for a value and for concatenations like the first; `None` if it exceeds `most` bytes.
    fn memory_around(&mut self, taken: &Taken, shape: &[usize], most: u64) -> Option<Around> {
        let (whole, slice) = (self.shape(taken.whole), self.shape(taken.part));
        // Where a slice starts later in the concatenation than in the value, the value starts later in the memory.
        let at: Vec<usize> = taken.start.iter().zip(&taken.begin).map(|(s, b)| s.saturating_sub(*b)).collect();
        let extent = |i: usize| {
            let first = at[i] + taken.begin[i] - taken.start[i];
            (at[i] + whole[i]).max(first + shape[i])
        };
        let extents: Vec<usize> = (0..whole.len()).map(extent).collect();
        // Axes that the slices divide are outermost.
        let last = extents.len().checked_sub(1)?;
        let mut order: Vec<usize> = (0..last).collect();
        order::by_key(&mut order, |&i| whole[i] == slice[i]);
        let permuted: Vec<usize> = order.iter().map(|&i| extents[i]).chain([extents[last]]).collect();
        if dense_axes(&permuted).1 > most {
            return None;
        }
        let dense = self.scratch("around", &permuted);
        let mut view = dense.clone();
        order.iter().zip(&dense.lead).for_each(|(&i, axis)| view.lead[i] = *axis);
        self.reserved.insert(taken.whole, selected(&view, &region(&at, &whole)));
        self.placed_around.insert(taken.whole);
        Some(Around { view, at, used: Vec::new() })
    }

    /// View of a concatenation in the memory around the value that it takes a slice of; `None` if others need that memory.
    fn place_around(
        &mut self,
        out: ValueId,
        taken: &Taken,
        known: &mut HashMap<ValueId, Around>,
        most: u64,
    ) -> Option<View> {
        let (whole, shape, slice) = (self.shape(taken.whole), self.shape(out), self.shape(taken.part));
        let around = match known.entry(taken.whole) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.memory_around(taken, &shape, most)?),
        };
        let first: Option<Vec<usize>> =
            (0..whole.len()).map(|i| (around.at[i] + taken.begin[i]).checked_sub(taken.start[i])).collect();
        let own = region(&first?, &shape);
        let inside = own.iter().zip(around.view.shape()).all(|((_, to), n)| *to <= n);
        let begin: Vec<usize> = around.at.iter().zip(&taken.begin).map(|(a, b)| a + b).collect();
        // The value lies in the result with this slice alone.
        let alone = overlap(&region(&around.at, &whole), &own) == region(&begin, &slice);
        if !inside || !alone || around.used.iter().any(|used| !is_empty(&overlap(used, &own))) {
            return None;
        }
        let place = selected(&around.view, &own);
        around.used.push(own);
        Some(place)
    }
}
