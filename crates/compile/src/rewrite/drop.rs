//! Elimination of type conversions, identities and reshapes without effect, since the engine has fp16 only.
//! Ours; symmetric pairs of the book's `CollapseTranspose` are left to views, which cost nothing.

use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{DType, Net, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// Removes type conversions, identities and reshapes without effect, since the engine has fp16 only.
pub fn drop_conversions(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let mut replace: HashMap<ValueId, ValueId> = HashMap::new();
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
