//! Concatenations around slices: where several concatenations each take a slice of one value, such as the steps of a recurrent layer, the
//! value is computed in memory with space beside every slice, so that each concatenation is a view and nothing is copied. Concatenations
//! that share parts lie there as one.

use super::Lowerer;
use super::joined::part_of;
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

/// Concatenations along one axis that share parts, each a stretch of `parts`. They lie in memory as one.
struct Chain {
    name: String,
    axis: usize,
    parts: Vec<ValueId>,
    /// Result, first part and number of parts of each.
    members: Vec<(ValueId, usize, usize)>,
}

impl Chain {
    /// Adds a concatenation of `inputs` if some of them are parts of the chain, and its neighbours here and there agree.
    fn join(&mut self, inputs: &[ValueId], out: ValueId) -> bool {
        let [own, others] = [self.parts.len(), inputs.len()];
        // The first part of `inputs` lies `shift` places behind that of the chain, counted from `others` before it.
        let fits = |shift: &usize| {
            let pairs =
                (0..others).filter_map(|i| Some((inputs[i], self.parts.get((shift + i).checked_sub(others)?)?)));
            let mut pairs = pairs.peekable();
            pairs.peek().is_some() && pairs.all(|(a, b)| a == *b)
        };
        let Some(shift) = (1..own + others).find(fits) else { return false };
        let before = others.saturating_sub(shift);
        let first = shift.saturating_sub(others);
        let after = (first + others).saturating_sub(own + before).min(others);
        let joined: Vec<ValueId> =
            inputs[..before].iter().chain(&self.parts).chain(&inputs[others - after..]).copied().collect();
        if joined.iter().enumerate().any(|(i, id)| joined[..i].contains(id)) {
            return false;
        }
        self.parts = joined;
        self.members.iter_mut().for_each(|(_, first, _)| *first += before);
        self.members.push((out, first, others));
        true
    }
}

/// The operation that computes a value, behind reshapes.
fn computed<'a>(mut id: ValueId, makers: &HashMap<ValueId, &'a Op>) -> Option<&'a Op> {
    loop {
        let op = makers.get(&id)?;
        if op.kind != OpKind::Reshape {
            return Some(op);
        }
        id = op.inputs[0];
    }
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
    /// Concatenations whose results have no place yet, in chains of shared parts.
    fn chains(&self, makers: &HashMap<ValueId, &Op>) -> Vec<Chain> {
        let mut chains: Vec<Chain> = Vec::new();
        let mut known: HashMap<ValueId, usize> = HashMap::new();
        for op in &self.net.ops {
            let (&OpKind::Concat { axis }, Some(&out)) = (&op.kind, op.outputs.first()) else { continue };
            if !self.is_free(out, makers) || axis + 1 >= self.shape(out).len() {
                continue;
            }
            let before = op.inputs.iter().find_map(|id| known.get(id)).copied();
            let joins = before.filter(|_| self.options.conventions().neighbours_are_views);
            let at = match joins.filter(|&at| chains[at].axis == axis && chains[at].join(&op.inputs, out)) {
                Some(at) => at,
                None => {
                    let (name, parts) = (op.name.clone(), op.inputs.clone());
                    chains.push(Chain { name, axis, parts, members: vec![(out, 0, op.inputs.len())] });
                    chains.len() - 1
                }
            };
            op.inputs.iter().for_each(|&id| _ = known.insert(id, at));
        }
        chains
    }

    /// Extents of a chain as one concatenation.
    fn shape_of_chain(&self, chain: &Chain) -> Vec<usize> {
        let mut shape = self.shape(chain.parts[0]);
        shape[chain.axis] = chain.parts.iter().map(|&id| self.shape(id)[chain.axis]).sum();
        shape
    }

    /// Reserves memory around values of which concatenations take slices, and the positions of the other parts.
    pub(super) fn reserve_around(&mut self, makers: &HashMap<ValueId, &Op>) {
        let net = self.net;
        let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
        for op in &net.ops {
            op.inputs.iter().for_each(|id| readers.entry(*id).or_default().push(op));
        }
        let mut takers: Vec<(Chain, Taken)> = Vec::new();
        let (mut bytes, mut gains): (HashMap<ValueId, u64>, HashMap<ValueId, usize>) = Default::default();
        for chain in self.chains(makers) {
            if let Some(taken) = self.taken(&chain, makers, &readers) {
                *bytes.entry(taken.whole).or_default() += dense_axes(&self.shape_of_chain(&chain)).1;
                let others = chain.parts.iter().filter(|id| **id != taken.part);
                let computed = others.filter_map(|&id| computed(id, makers)).any(|op| !moves(op));
                *gains.entry(taken.whole).or_default() += usize::from(computed);
                takers.push((chain, taken));
            }
        }
        // A value that would be a view of another one costs a copy.
        takers.retain(|(_, taken)| {
            gains[&taken.whole] > usize::from(makers.get(&taken.whole).is_none_or(|op| moves(op)))
        });
        let mut known: HashMap<ValueId, Around> = HashMap::new();
        for (chain, taken) in takers {
            let most = MOST_RATIO * (bytes[&taken.whole] + dense_axes(&self.shape(taken.whole)).1);
            self.op = chain.name.clone();
            let shape = self.shape_of_chain(&chain);
            let Some(place) = self.place_around(&shape, &taken, &mut known, most) else { continue };
            for &(out, first, count) in &chain.members {
                let extent = |parts: &[ValueId]| parts.iter().map(|&id| self.shape(id)[chain.axis]).sum();
                let (start, size) = (extent(&chain.parts[..first]), extent(&chain.parts[first..first + count]));
                if let Some(part) = part_of(&place, chain.axis, start, size) {
                    self.reserved.insert(out, part);
                }
            }
            self.reserve_parts_of(&chain.parts, chain.axis, &place, Some(taken.part), makers);
        }
    }

    /// The slice among the parts of a chain that nothing else reads, of a value that is read by slices only and not yet placed.
    fn taken(
        &self,
        chain: &Chain,
        makers: &HashMap<ValueId, &Op>,
        readers: &HashMap<ValueId, Vec<&Op>>,
    ) -> Option<Taken> {
        let mut at = 0;
        for (i, &part) in chain.parts.iter().enumerate() {
            let mut start = vec![0; self.shape(part).len()];
            start[chain.axis] = at;
            at += self.shape(part)[chain.axis];
            let Some(Op { kind: OpKind::Slice { begin, stride, .. }, inputs, .. }) = makers.get(&part) else {
                continue;
            };
            let whole = inputs[0];
            let slices = |op: &&Op| matches!(&op.kind, OpKind::Slice { stride, .. } if stride.iter().all(|&s| s == 1));
            let columns = self.shape(part).last() == self.shape(whole).last();
            let alone = readers.get(&whole).is_some_and(|all| all.iter().all(slices));
            let holds = |&&(_, first, count): &&(ValueId, usize, usize)| (first..first + count).contains(&i);
            let uses = chain.members.iter().filter(holds).count();
            let here = self.uses[part.0 as usize] == uses && stride.iter().all(|&s| s == 1);
            let others = || chain.parts.iter().filter(|id| **id != part).filter_map(|id| makers.get(id));
            let apart = others().all(|op| op.inputs.first() != Some(&whole));
            if chain.parts.len() > 1 && here && columns && alone && apart && self.is_free(whole, makers) {
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

    /// View of a chain in the memory around the value that it takes a slice of; `None` if others need that memory.
    fn place_around(
        &mut self,
        shape: &[usize],
        taken: &Taken,
        known: &mut HashMap<ValueId, Around>,
        most: u64,
    ) -> Option<View> {
        let (whole, slice) = (self.shape(taken.whole), self.shape(taken.part));
        let around = match known.entry(taken.whole) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.memory_around(taken, shape, most)?),
        };
        let first: Option<Vec<usize>> =
            (0..whole.len()).map(|i| (around.at[i] + taken.begin[i]).checked_sub(taken.start[i])).collect();
        let own = region(&first?, shape);
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
