//! Sines and cosines of several values, computed at once. Ours.
//!
//! Encodings of positions take sines of many multiples of one value. Each sine takes seven tasks, and all together take as many.

use super::lookups::ordered;
use super::{Builder, Names};
use crate::remarks::Remarks;
use anemone_net::{DType, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// Most elements of one argument; with more, the copy of an argument takes as long as the tasks that it saves.
const MOST_ELEMENTS: usize = 1 << 16;

/// Arguments of equal extents, none of which depends on a result of the group: those of sines alone, of both, and of cosines alone.
#[derive(Default)]
struct Group {
    shape: Vec<usize>,
    arguments: [Vec<ValueId>; 3],
    members: Vec<usize>,
}

/// Replaces sines and cosines of values of equal extents by those of one value, and slices of the results.
pub(super) fn join_waves(net: &mut Net, reasons: &mut Remarks) {
    let groups = groups(net);
    if groups.is_empty() {
        return;
    }
    let first: HashMap<usize, &Group> = groups.iter().map(|group| (group.members[0], group)).collect();
    let joined: Vec<usize> = groups.iter().flat_map(|group| group.members.iter().copied()).collect();
    let ops = std::mem::take(&mut net.ops);
    let mut names = Names::default();
    let mut all = Vec::with_capacity(ops.len());
    for (at, op) in ops.iter().enumerate() {
        if let Some(group) = first.get(&at) {
            reasons.say(|| format!("{}: {} sines and cosines at once", op.name, group.members.len()));
            let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
            builder.waves(group, &ops);
            all.extend(builder.ops);
        } else if !joined.contains(&at) {
            all.push(op.clone());
        }
    }
    net.ops = ordered(all);
}

fn is_wave(op: &Op) -> bool {
    matches!(op.kind, OpKind::Unary(Unary::Sin | Unary::Cos))
}

fn groups(net: &Net) -> Vec<Group> {
    // Number of waves on the longest path to a value: those of one group have as many before them.
    let mut before: HashMap<ValueId, usize> = HashMap::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut open: HashMap<(usize, Vec<usize>), usize> = HashMap::new();
    for (at, op) in net.ops.iter().enumerate() {
        let depth = op.inputs.iter().filter_map(|id| before.get(id)).max().copied().unwrap_or(0);
        let wave = is_wave(op);
        if depth + usize::from(wave) > 0 {
            before.extend(op.outputs.iter().map(|&id| (id, depth + usize::from(wave))));
        }
        let Some(argument) = op.inputs.first().filter(|_| wave).map(|&id| net.value(id)) else { continue };
        if argument.data.is_some() || argument.ty.elements() > MOST_ELEMENTS {
            continue;
        }
        let shape = argument.ty.shape.clone();
        let i = *open.entry((depth, shape.clone())).or_insert_with(|| {
            groups.push(Group { shape, ..Group::default() });
            groups.len() - 1
        });
        groups[i].members.push(at);
    }
    for group in &mut groups {
        let of = |kind: Unary| -> Vec<ValueId> {
            let own = group.members.iter().map(|&at| &net.ops[at]).filter(|op| op.kind == OpKind::Unary(kind));
            own.map(|op| op.inputs[0]).collect()
        };
        let [sines, cosines] = [of(Unary::Sin), of(Unary::Cos)];
        for &id in sines.iter().chain(&cosines) {
            let place = match (sines.contains(&id), cosines.contains(&id)) {
                (true, true) => 1,
                (true, false) => 0,
                _ => 2,
            };
            if !group.arguments[place].contains(&id) {
                group.arguments[place].push(id);
            }
        }
    }
    groups.retain(|group| group.arguments.iter().map(Vec::len).sum::<usize>() > 1);
    groups
}

impl Builder<'_> {
    fn waves(&mut self, group: &Group, ops: &[Op]) {
        let arguments: Vec<ValueId> = group.arguments.iter().flatten().copied().collect();
        let dtype = DType::F16;
        let single = [&[1], &*group.shape].concat();
        let parts: Vec<ValueId> =
            arguments.iter().map(|&id| self.op("argument", OpKind::Reshape, &[id], single.clone())).collect();
        let count = arguments.len();
        let whole = self.op("arguments", OpKind::Concat { axis: 0 }, &parts, [&[count], &*group.shape].concat());
        let [alone, both, _] = group.arguments.each_ref().map(Vec::len);
        for (kind, range) in [(Unary::Sin, 0..alone + both), (Unary::Cos, alone..count)] {
            let members = group.members.iter().map(|&at| &ops[at]).filter(|op| op.kind == OpKind::Unary(kind));
            let members: Vec<&Op> = members.collect();
            if members.is_empty() {
                continue;
            }
            let own = if range.len() == count { whole } else { self.slice_of(whole, 0, &range, dtype) };
            let shape = self.shape(own);
            let made = self.op("waves", OpKind::Unary(kind), &[own], shape);
            for op in members {
                let Some(i) = arguments[range.clone()].iter().position(|&id| id == op.inputs[0]) else { continue };
                let part = if range.len() == 1 { made } else { self.slice_of(made, 0, &(i..i + 1), dtype) };
                self.ops.push(Op {
                    name: op.name.clone(),
                    kind: OpKind::Reshape,
                    inputs: vec![part],
                    outputs: op.outputs.clone(),
                });
            }
        }
    }
}
