//! Fusion of operations before lowering: identities, cancelling transposes, padding of windows.

mod copies;
mod dequant;
mod layouts;
mod padding;
mod transposes;

use anemone_net::{Net, OpKind, Unary, ValueId};

pub(crate) use copies::eliminate_copies;
pub(crate) use dequant::deduplicate_dequantizations;
pub(crate) use padding::fold_padding;
pub use transposes::collapse_transposes;

/// Index of the operation that defines each value, by value id.
fn makers(net: &Net) -> Vec<Option<usize>> {
    let mut makers = vec![None; net.values.len()];
    for (at, op) in net.ops.iter().enumerate() {
        op.outputs.iter().for_each(|id| makers[id.0 as usize] = Some(at));
    }
    makers
}

/// The value of a scalar constant.
fn number(net: &Net, id: ValueId) -> Option<f32> {
    let tensor = net.value(id).data.as_ref()?;
    let data = tensor.data.to_f32();
    let (&first, rest) = data.split_first()?;
    rest.iter().all(|&x| x == first).then_some(first)
}

/// Removes identities that do not define a network output.
fn eliminate_identities(net: &mut Net) {
    let mut instead: std::collections::HashMap<ValueId, ValueId> = std::collections::HashMap::new();
    for mut op in std::mem::take(&mut net.ops) {
        op.inputs.iter_mut().for_each(|id| *id = instead.get(id).copied().unwrap_or(*id));
        match (&op.kind, op.inputs.first(), op.outputs.first()) {
            (OpKind::Unary(Unary::Identity), Some(&x), Some(&out)) if !net.outputs.contains(&out) => {
                instead.insert(out, x);
            }
            _ => net.ops.push(op),
        }
    }
    remove_unread(net);
}

/// Removes operations whose results are not read.
fn remove_unread(net: &mut Net) {
    let mut uses = net.read_counts();
    let mut ops = std::mem::take(&mut net.ops);
    ops.reverse();
    ops.retain(|op| {
        let read = op.outputs.iter().any(|id| uses[id.0 as usize] > 0);
        if !read {
            op.inputs.iter().for_each(|id| uses[id.0 as usize] -= 1);
        }
        read
    });
    ops.reverse();
    net.ops = ops;
}
