//! Division of a network at its native layers into networks that are dispatched one after the other.

use super::natives;
use anemone_net::{Net, Op, OpKind, ValueId};
use std::collections::{HashMap, HashSet};

/// The network's segments in dispatch order: each native layer alone, the operations between them together. A value that one segment
/// computes for another is an output there and an input here, under the same name; each segment compiles to a program of its own.
///
/// Returns one segment for a network without native layers, for one with states, whose memory belongs to one program, and for one
/// that returns an input or a constant, which no segment computes.
pub fn segments(net: &Net) -> Vec<Net> {
    let made: HashSet<ValueId> = net.ops.iter().flat_map(|op| &op.outputs).copied().collect();
    let passes_through = net.outputs.iter().any(|id| !made.contains(id));
    if natives(net).next().is_none() || !net.states.is_empty() || passes_through {
        return vec![net.clone()];
    }
    let native = |op: &Op| matches!(op.kind, OpKind::Native(_));
    let runs: Vec<&[Op]> = net.ops.chunk_by(|a, b| !native(a) && !native(b)).collect();
    (0..runs.len()).map(|at| segment(net, &runs, at)).collect()
}

fn segment(net: &Net, runs: &[&[Op]], at: usize) -> Net {
    let after = runs[at + 1..].iter().flat_map(|run| run.iter()).flat_map(|op| &op.inputs);
    let wanted: HashSet<ValueId> = after.chain(&net.outputs).copied().collect();
    let name = if runs.len() == 1 { net.name.clone() } else { format!("{}_{at}", net.name) };
    extract(net, name, runs[at].iter(), &wanted)
}

/// Operations as a network of their own; those of their results that are wanted become outputs.
pub(crate) fn extract<'a>(
    net: &Net,
    name: String,
    ops: impl Iterator<Item = &'a Op> + Clone,
    wanted: &HashSet<ValueId>,
) -> Net {
    let made: HashSet<ValueId> = ops.clone().flat_map(|op| &op.outputs).copied().collect();
    let mut part = Net { name, ..Net::default() };
    let mut known: HashMap<ValueId, ValueId> = HashMap::new();
    for op in ops {
        let mut taken = |id: ValueId, part: &mut Net| {
            *known.entry(id).or_insert_with(|| {
                let value = net.value(id).clone();
                let outside = value.data.is_none() && !made.contains(&id);
                let new = part.add_value(value);
                if outside {
                    part.inputs.push(new);
                }
                new
            })
        };
        let inputs = op.inputs.iter().map(|&id| taken(id, &mut part)).collect();
        let outputs: Vec<ValueId> = op.outputs.iter().map(|&id| taken(id, &mut part)).collect();
        let results = op.outputs.iter().zip(&outputs).filter(|(id, _)| wanted.contains(id));
        part.outputs.extend(results.map(|(_, &new)| new));
        part.ops.push(Op { name: op.name.clone(), kind: op.kind.clone(), inputs, outputs });
    }
    part
}
