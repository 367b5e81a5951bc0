//! Gathers of rows at computed positions from several tables, done at once. Ours.
//!
//! Recommenders and models of categorical columns read one row of a table for each column. Each gather compares positions in tasks of its
//! own; tables of equal extents behind each other, and tables with the same positions side by side, take the tasks of one gather.

use super::{Builder, Names};
use crate::error::Result;
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Data, Net, Op, OpKind, Tensor, ValueId};
use anemone_program::order;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Largest number of positions along an axis that a gather compares.
pub(crate) const MOST_POSITIONS: usize = 128;
/// Most elements of all positions together; beyond, each position takes four tasks of its own.
pub(crate) const MOST_TOGETHER: usize = 1 << 20;

/// Gathers from tables of equal extents at positions of one type, none of which depends on the result of another.
type Group = Vec<usize>;

/// Replaces gathers along the first axis of constant tables by one gather from all of these tables, and slices of its result.
pub(crate) fn join_lookups(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    side_by_side(net, reasons);
    let groups = groups(net);
    if !groups.is_empty() {
        apply(net, &groups, reasons);
    }
    Ok(())
}

/// Positions that are a value, or one element along an axis of a value; equal positions have equal keys.
fn positions(net: &Net, makers: &HashMap<ValueId, usize>, id: ValueId) -> (ValueId, Vec<usize>, Vec<usize>) {
    let shape = net.value(id).ty.shape.clone();
    let maker = |id: ValueId| makers.get(&id).map(|&at| &net.ops[at]);
    let sliced = maker(id).filter(|op| op.kind == OpKind::Reshape).and_then(|op| maker(op.inputs[0])).or(maker(id));
    match sliced.map(|op| (&op.kind, op.inputs.as_slice())) {
        Some((OpKind::Slice { begin, end, stride }, &[from])) if stride.iter().all(|&s| s == 1) => {
            (from, [begin.as_slice(), end].concat(), shape)
        }
        _ => (id, Vec::new(), shape),
    }
}

/// Replaces gathers at the same positions from tables of equal numbers of rows by one from a table with all of their columns, each
/// table's from a boundary of memory rows on.
fn side_by_side(net: &mut Net, reasons: &mut Remarks) {
    const ALIGN: usize = (ROW_ALIGN / ELEMENT_BYTES) as usize;
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate().filter(|(_, op)| compared(net, op).is_some()) {
        let [table, places] = [op.inputs[0], op.inputs[1]];
        let (rows, dtype) = (net.value(table).ty.shape[0], net.value(op.outputs[0]).ty.dtype);
        alike.entry((positions(net, &makers, places), rows, dtype)).or_default().push(at);
    }
    let few = |group: &Vec<usize>| {
        let [table, places] = [0, 1].map(|i| &net.value(net.ops[group[0]].inputs[i]).ty);
        let widths = group.iter().map(|&at| net.value(net.ops[at].inputs[0]).ty.shape[1].next_multiple_of(ALIGN));
        let together = table.shape[0].saturating_mul(places.elements()).saturating_mul(widths.sum());
        group.len() > 1 && together <= MOST_TOGETHER
    };
    let mut groups: Vec<Vec<usize>> = alike.into_values().filter(few).collect();
    order::by(&mut groups, Ord::cmp);
    let mut names = Names::default();
    let mut made: HashMap<usize, Vec<Op>> = HashMap::new();
    for group in groups {
        let ops: Vec<Op> = group.iter().map(|&at| net.ops[at].clone()).collect();
        let widths = ops.iter().map(|op| net.value(op.inputs[0]).ty.shape[1]);
        let starts: Vec<usize> =
            widths.scan(0, |end, width| Some(std::mem::replace(end, (*end + width).next_multiple_of(ALIGN)))).collect();
        let first = &ops[0];
        reasons.say(|| format!("{}: columns of {} tables at once", first.name, ops.len()));
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: first.name.clone() };
        let whole = builder.beside(&ops, &starts);
        let shape = builder.shape(whole);
        let axis = shape.len() - 1;
        made.insert(group[0], std::mem::take(&mut builder.ops));
        for ((op, &at), start) in ops.iter().zip(&group).zip(starts) {
            let width = builder.shape(op.inputs[0])[1];
            let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
            (begin[axis], end[axis]) = (start, start + width);
            let kind = OpKind::Slice { begin, end, stride: vec![1; shape.len()] };
            let part = Op { name: op.name.clone(), kind, inputs: vec![whole], outputs: op.outputs.clone() };
            made.entry(at).or_default().push(part);
        }
    }
    let ops = std::mem::take(&mut net.ops);
    net.ops = ops.into_iter().enumerate().flat_map(|(at, op)| made.remove(&at).unwrap_or_else(|| vec![op])).collect();
}

/// Elements that a gather compares, if it is one of the rows of a constant matrix at computed positions.
fn compared(net: &Net, op: &Op) -> Option<usize> {
    let (OpKind::Gather { axis: 0 }, &[table, places]) = (&op.kind, op.inputs.as_slice()) else { return None };
    let (table, places) = (net.value(table), net.value(places));
    let fits = table.data.is_some()
        && places.data.is_none()
        && table.ty.dtype.is_float()
        && !places.ty.shape.is_empty()
        && table.ty.shape.len() == 2
        && (2..=MOST_POSITIONS).contains(&table.ty.shape[0]);
    fits.then(|| table.ty.elements().saturating_mul(places.ty.elements()))
}

fn groups(net: &Net) -> Vec<Group> {
    // Number of gathers on the longest path to a value: those of one group have as many before them, so that none depends on another.
    let mut before: HashMap<ValueId, usize> = HashMap::new();
    let mut groups: Vec<(usize, Group)> = Vec::new();
    let mut open: HashMap<_, usize> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate() {
        let depth = op.inputs.iter().filter_map(|id| before.get(id)).max().copied().unwrap_or(0);
        let size = compared(net, op);
        let depth_behind = depth + usize::from(size.is_some());
        if depth_behind > 0 {
            before.extend(op.outputs.iter().map(|&id| (id, depth_behind)));
        }
        let Some(size) = size else { continue };
        let key = (
            depth,
            op.inputs.iter().map(|&id| (net.value(id).ty.dtype, net.value(id).ty.shape.clone())).collect::<Vec<_>>(),
        );
        match open.get(&key).map(|&i| &mut groups[i]) {
            Some((total, members)) if *total + size <= MOST_TOGETHER => {
                *total += size;
                members.push(at);
            }
            _ => {
                open.insert(key, groups.len());
                groups.push((size, vec![at]));
            }
        }
    }
    groups.into_iter().map(|(_, members)| members).filter(|members| members.len() > 1).collect()
}

fn apply(net: &mut Net, groups: &[Group], reasons: &mut Remarks) {
    let first: HashMap<usize, &Group> = groups.iter().map(|group| (group[0], group)).collect();
    let joined: HashSet<usize> = groups.iter().flatten().copied().collect();
    let ops = std::mem::take(&mut net.ops);
    let makers: HashMap<ValueId, usize> =
        ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut names = Names::default();
    let mut all = Vec::with_capacity(ops.len());
    for (at, op) in ops.iter().enumerate() {
        if let Some(group) = first.get(&at) {
            let members: Vec<&Op> = group.iter().map(|&i| &ops[i]).collect();
            reasons.say(|| format!("{}: rows of {} tables at once", op.name, members.len()));
            let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
            builder.look_up(&members, |id| makers.get(&id).map(|&at| &ops[at]));
            all.extend(builder.ops);
        } else if !joined.contains(&at) {
            all.push(op.clone());
        }
    }
    net.ops = ordered(all);
}

/// Operations behind the operations that make their operands, otherwise in the order given.
pub(super) fn ordered(ops: Vec<Op>) -> Vec<Op> {
    let makers: HashMap<ValueId, usize> =
        ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut readers = vec![Vec::new(); ops.len()];
    let mut missing = vec![0usize; ops.len()];
    for (at, op) in ops.iter().enumerate() {
        for maker in op.inputs.iter().filter_map(|id| makers.get(id)) {
            readers[*maker].push(at);
            missing[at] += 1;
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..ops.len()).filter(|&at| missing[at] == 0).map(Reverse).collect();
    let mut ops: Vec<Option<Op>> = ops.into_iter().map(Some).collect();
    let mut all = Vec::with_capacity(ops.len());
    while let Some(Reverse(at)) = ready.pop() {
        all.extend(ops[at].take());
        for &reader in &readers[at] {
            missing[reader] -= 1;
            if missing[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    all
}

impl Builder<'_> {
    /// One gather from the tables of all operations, each from its column on.
    fn beside(&mut self, ops: &[Op], starts: &[usize]) -> ValueId {
        let tables: Vec<_> = ops.iter().filter_map(|op| self.net.value(op.inputs[0]).data.clone()).collect();
        let rows = tables[0].shape[0];
        let width = tables.iter().zip(starts).map(|(table, start)| start + table.shape[1]).max().unwrap_or(0);
        let mut data = vec![0.0; rows * width];
        for (table, &start) in tables.iter().zip(starts) {
            for (row, from) in table.data.to_f32().chunks(table.shape[1].max(1)).enumerate() {
                data[row * width + start..][..from.len()].copy_from_slice(from);
            }
        }
        let table = self.constant("table", vec![rows, width], data);
        let places = ops[0].inputs[1];
        let shape = [self.shape(places), vec![width]].concat();
        let dtype = self.net.value(ops[0].outputs[0]).ty.dtype;
        let whole = self.value("columns", dtype, shape);
        self.push(OpKind::Gather { axis: 0 }, &[table, places], whole);
        whole
    }

    /// One gather for all members, and its slices as their results.
    fn look_up<'a>(&mut self, members: &[&Op], maker: impl Fn(ValueId) -> Option<&'a Op>) {
        let (count, [table, own]) = (members.len(), [0, 1].map(|i| self.shape(members[0].inputs[i])));
        let data = |op: &&Op| self.net.value(op.inputs[0]).data.as_ref().map(|tensor| tensor.data.to_f32());
        let rows = members.iter().filter_map(data).flatten().collect();
        let tables = self.constant_of("tables", Tensor { shape: [&[count], &*table].concat(), data: Data::F32(rows) });
        let places: Vec<ValueId> = members.iter().map(|op| op.inputs[1]).collect();
        let places = self.stacked(&places, &own, maker);
        let dtype = self.net.value(members[0].outputs[0]).ty.dtype;
        let found = self.value("rows", dtype, [&[count], &*own, &table[1..]].concat());
        self.push(OpKind::GatherNd { batch_dims: 1 }, &[tables, places], found);
        for (i, op) in members.iter().enumerate() {
            self.name.clone_from(&op.name);
            let part = self.slice_of(found, 0, &(i..i + 1), dtype);
            self.push(OpKind::Reshape, &[part], op.outputs[0]);
        }
    }

    /// Positions of all tables behind each other, `[tables, .., 1]`. Elements in sequence of one axis of a tensor are a transpose of it.
    fn stacked<'a>(&mut self, places: &[ValueId], own: &[usize], maker: impl Fn(ValueId) -> Option<&'a Op>) -> ValueId {
        let dtype = self.net.value(places[0]).ty.dtype;
        let single = [&[1], own, &[1]].concat();
        let whole = [&[places.len()], own, &[1]].concat();
        let element = |id: &ValueId| {
            let slice = maker(*id).filter(|op| op.kind == OpKind::Reshape).and_then(|op| maker(op.inputs[0]))?;
            let OpKind::Slice { begin, end, stride } = &slice.kind else { return None };
            let shape = &self.net.value(slice.inputs[0]).ty.shape;
            let mut cut = (0..shape.len()).filter(|&i| begin[i] > 0 || end[i] < shape[i]);
            let (axis, None) = (cut.next()?, cut.next()) else { return None };
            let mut rest = shape.clone();
            rest.remove(axis);
            (stride.iter().all(|&s| s == 1) && end[axis] == begin[axis] + 1 && rest == own)
                .then(|| (slice.inputs[0], axis, begin[axis]))
        };
        let elements: Option<Vec<_>> = places.iter().map(element).collect();
        let follows = |all: &Vec<(ValueId, usize, usize)>| {
            all.iter().enumerate().all(|(i, e)| *e == (all[0].0, all[0].1, all[0].2 + i))
        };
        if let Some(&(from, axis, start)) = elements.filter(follows).as_ref().map(|all| &all[0]) {
            let range = start..start + places.len();
            let part =
                if range.len() == self.shape(from)[axis] { from } else { self.slice_of(from, axis, &range, dtype) };
            let mut perm: Vec<usize> = (0..=own.len()).collect();
            perm.remove(axis);
            perm.insert(0, axis);
            let columns = self.value("columns", dtype, whole[..whole.len() - 1].to_vec());
            self.push(OpKind::Transpose { perm }, &[part], columns);
            let all = self.value("places", dtype, whole);
            self.push(OpKind::Reshape, &[columns], all);
            return all;
        }
        let parts: Vec<ValueId> = places
            .iter()
            .map(|&id| {
                let part = self.value("place", dtype, single.clone());
                self.push(OpKind::Reshape, &[id], part);
                part
            })
            .collect();
        let all = self.value("places", dtype, whole);
        self.push(OpKind::Concat { axis: 0 }, &parts, all);
        all
    }
}
