//! Elimination of type conversions, identities, and reshapes and broadcasts without effect, since the engine has fp16 only and
//! repeats operands itself.
//! Ours; symmetric pairs of the book's `CollapseTranspose` are left to views, which cost nothing.

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::infer::infer;
use anemone_net::{DType, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// Removes type conversions, identities, and reshapes and broadcasts without effect.
pub fn drop_conversions(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let mut replace: HashMap<ValueId, ValueId> = HashMap::new();
    let readers = if options.conventions().whole_epilogues { readers(net) } else { HashMap::new() };
    let mut uses = net.read_counts();
    let ops = std::mem::take(&mut net.ops);
    for mut op in ops {
        for input in &mut op.inputs {
            if let Some(&by) = replace.get(input) {
                *input = by;
            }
        }
        let trivial = match op.kind {
            OpKind::Unary(Unary::Identity) => true,
            // Conversion of a float to an integer truncates, which takes a task; to a truth value it compares.
            OpKind::Cast => {
                let dtype = |id: Option<&ValueId>| id.map(|&id| net.value(id).ty.dtype);
                let (from, to) = (dtype(op.inputs.first()), dtype(op.outputs.first()));
                to != Some(DType::Bool) && (from.is_some_and(|d| !d.is_float()) || to.is_some_and(|d| d.is_float()))
            }
            OpKind::Reshape => net.value(op.inputs[0]).ty.shape == net.value(op.outputs[0]).ty.shape,
            OpKind::Broadcast => {
                let readers = readers.get(&op.outputs[0]).filter(|readers| !readers.is_empty());
                readers.is_some_and(|all| all.iter().all(|reader| spreads(net, &op, reader, &replace)))
            }
            _ => false,
        };
        let (input, output) = match (op.inputs.first(), op.outputs.first()) {
            (Some(&i), Some(&o)) if trivial => (i, o),
            _ => {
                net.ops.push(op);
                continue;
            }
        };
        reasons.say(|| format!("{}: {} has no effect here", op.name, op.kind.name()));
        if !net.outputs.contains(&output) {
            replace.insert(output, input);
            // Its readers now read the operand.
            uses[input.0 as usize] = uses[input.0 as usize] + uses[output.0 as usize] - 1;
            continue;
        }
        // The producer writes the network's output itself, unless its result has another reader or another type: for an integer
        // output the producer may truncate. A conversion gives the numbers of its result's type.
        let dtype = |id: ValueId| net.value(id).ty.dtype;
        let (kind, alike) = (|id: ValueId| dtype(id).is_float(), dtype(input) == dtype(output));
        let same = kind(input) == kind(output);
        let producer =
            net.ops.iter_mut().find(|p| same && p.outputs.contains(&input) && (alike || p.kind != OpKind::Cast));
        match producer {
            Some(producer) if uses[input.0 as usize] == 1 && !net.outputs.contains(&input) => {
                for result in &mut producer.outputs {
                    if *result == input {
                        *result = output;
                    }
                }
            }
            _ => net.ops.push(op),
        }
    }
    Ok(())
}

/// Operations that read each value, without the results of the network, which have a reader outside.
fn readers(net: &Net) -> HashMap<ValueId, Vec<Op>> {
    let mut readers: HashMap<ValueId, Vec<Op>> = HashMap::new();
    let spread = net.ops.iter().filter(|op| op.kind == OpKind::Broadcast).map(|op| op.outputs[0]);
    let kept = |id: &ValueId| net.outputs.contains(id) || net.states.iter().any(|state| state.output == *id);
    readers.extend(spread.filter(|id| !kept(id)).map(|id| (id, Vec::new())));
    for op in &net.ops {
        for id in &op.inputs {
            if let Some(readers) = readers.get_mut(id) {
                readers.push(op.clone());
            }
        }
    }
    readers
}

/// Returns true if a function of two operands repeats the elements of the broadcast's operand itself: its result keeps its extents.
fn spreads(net: &Net, op: &Op, reader: &Op, replace: &HashMap<ValueId, ValueId>) -> bool {
    let (from, to) = (op.inputs[0], op.outputs[0]);
    let now = |id: &ValueId| if *id == to { from } else { replace.get(id).copied().unwrap_or(*id) };
    let types: Vec<_> = reader.inputs.iter().map(|id| &net.value(now(id)).ty).collect();
    let found = infer(&reader.kind, &types, None);
    matches!(reader.kind, OpKind::Binary(_))
        && found.is_ok_and(|found| found[0].shape == net.value(reader.outputs[0]).ty.shape)
}
