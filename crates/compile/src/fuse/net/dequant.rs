//! Dequantizations whose results are concatenated.

use super::number;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, TensorType, Value, ValueId};
use std::collections::HashMap;

/// Moves equal scales of all parts of a concatenation behind it (the book, table 22.3:
/// `DeduplicateStandaloneDequantGOCsAcrossConcat`), where later operations absorb the scale; the parts are then written in place.
///
/// Barriers: scales that differ or are not scalar; a scaled value with other readers; a part whose scale is free, because the layer
/// before it has no other reader than its dequantization.
pub(crate) fn deduplicate_dequantizations(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let uses = net.read_counts();
    let mut made = HashMap::new();
    for mut op in std::mem::take(&mut net.ops) {
        let mut scale = None;
        if let Some((parts, factor)) = standalone(net, &op, &uses, &made) {
            let (out, name) = (op.outputs[0], op.name.clone());
            reasons.say(|| format!("{name}: {} equal scales are one behind it", parts.len()));
            let ty = net.value(out).ty.clone();
            let joined = net.add_value(Value {
                name: format!("{}.quantized", net.value(out).name),
                ty: TensorType { dtype: net.value(parts[0]).ty.dtype, shape: ty.shape },
                data: None,
                surface: None,
            });
            (op.inputs, op.outputs) = (parts, vec![joined]);
            let (kind, inputs) = (OpKind::Binary(Binary::Mul), vec![joined, factor]);
            scale = Some(Op { name, kind, inputs, outputs: vec![out] });
        }
        for op in [Some(op), scale].into_iter().flatten() {
            made.extend(op.outputs.iter().map(|&id| (id, net.ops.len())));
            net.ops.push(op);
        }
    }
    super::remove_unread(net);
    Ok(())
}

/// Unscaled operands of the parts of a concatenation, and the constant that scales them all. `made` has the positions of the operations before it.
fn standalone(net: &Net, op: &Op, uses: &[usize], made: &HashMap<ValueId, usize>) -> Option<(Vec<ValueId>, ValueId)> {
    if !matches!(op.kind, OpKind::Concat { .. }) || op.inputs.len() < 2 {
        return None;
    }
    let part = |&id: &ValueId| {
        let maker = &net.ops[*made.get(&id)?];
        let (&[x, y], OpKind::Binary(Binary::Mul)) = (maker.inputs.as_slice(), &maker.kind) else { return None };
        let (live, factor) = if net.value(y).data.is_some() { (x, y) } else { (y, x) };
        number(net, factor)?;
        let same = net.value(live).ty == net.value(id).ty && net.value(live).data.is_none();
        let once = uses.get(id.0 as usize) == Some(&1) && !net.outputs.contains(&id);
        // Only a result with other readers has a dequantization of its own.
        let standing = made.contains_key(&live) && uses.get(live.0 as usize).is_some_and(|&n| n > 1);
        (same && once && standing && !net.outputs.contains(&live)).then_some((live, factor))
    };
    let parts = op.inputs.iter().map(part).collect::<Option<Vec<_>>>()?;
    let factor = parts[0].1;
    let equal = parts.iter().all(|(_, other)| number(net, *other) == number(net, factor));
    let distinct = parts.iter().enumerate().all(|(i, (live, _))| parts[..i].iter().all(|(other, _)| other != live));
    (equal && distinct).then(|| (parts.into_iter().map(|(live, _)| live).collect(), factor))
}
