//! Dequantizations whose results are concatenated.

use super::{makers, number};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, TensorType, Value, ValueId};

/// Moves equal scales of all parts of a concatenation behind it (the book, table 22.3:
/// `DeduplicateStandaloneDequantGOCsAcrossConcat`), where later operations absorb the scale; the parts are then written in place.
///
/// Barriers: scales that differ or are not scalar; a scaled value with other readers; a part whose scale is free, because the layer
/// before it has no other reader than its dequantization.
pub(crate) fn deduplicate_dequantizations(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let (uses, makers) = (net.read_counts(), makers(net));
    let mut at = 0;
    while at < net.ops.len() {
        if let Some((parts, factor)) = standalone(net, at, &uses, &makers) {
            let (out, name) = (net.ops[at].outputs[0], net.ops[at].name.clone());
            reasons.say(|| format!("{name}: {} equal scales are one behind it", parts.len()));
            let ty = net.value(out).ty.clone();
            let joined = net.add_value(Value {
                name: format!("{}.quantized", net.value(out).name),
                ty: TensorType { dtype: net.value(parts[0]).ty.dtype, shape: ty.shape },
                data: None,
                surface: None,
            });
            (net.ops[at].inputs, net.ops[at].outputs) = (parts, vec![joined]);
            let (kind, inputs) = (OpKind::Binary(Binary::Mul), vec![joined, factor]);
            net.ops.insert(at + 1, Op { name, kind, inputs, outputs: vec![out] });
            at += 1;
        }
        at += 1;
    }
    super::remove_unread(net);
    Ok(())
}

/// Unscaled operands of the parts of a concatenation, and the constant that scales them all.
fn standalone(net: &Net, at: usize, uses: &[usize], makers: &[Option<usize>]) -> Option<(Vec<ValueId>, ValueId)> {
    let op = &net.ops[at];
    if !matches!(op.kind, OpKind::Concat { .. }) || op.inputs.len() < 2 {
        return None;
    }
    let made = |id: ValueId| makers.get(id.0 as usize).copied().flatten();
    let part = |&id: &ValueId| {
        // Operations that this pass adds are behind `at`: positions before it are those of `makers`.
        let maker = net.ops.iter().take(at).find(|op| op.outputs.contains(&id))?;
        let (&[x, y], OpKind::Binary(Binary::Mul)) = (maker.inputs.as_slice(), &maker.kind) else { return None };
        let (live, factor) = if net.value(y).data.is_some() { (x, y) } else { (y, x) };
        number(net, factor)?;
        let same = net.value(live).ty == net.value(id).ty && net.value(live).data.is_none();
        let once = uses.get(id.0 as usize) == Some(&1) && !net.outputs.contains(&id);
        // Only a result with other readers has a dequantization of its own.
        let standing = made(live).is_some() && uses.get(live.0 as usize).is_some_and(|&n| n > 1);
        (same && once && standing && !net.outputs.contains(&live)).then_some((live, factor))
    };
    let parts = op.inputs.iter().map(part).collect::<Option<Vec<_>>>()?;
    let factor = parts[0].1;
    let equal = parts.iter().all(|(_, other)| number(net, *other) == number(net, factor));
    let distinct = parts.iter().enumerate().all(|(i, (live, _))| parts[..i].iter().all(|(other, _)| other != live));
    (equal && distinct).then(|| (parts.into_iter().map(|(live, _)| live).collect(), factor))
}
