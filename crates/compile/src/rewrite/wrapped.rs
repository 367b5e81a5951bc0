//! Elimination of index wrapping in front of a gather that wraps negative indices itself. Ours: coremltools writes a comparison, a sum and
//! a selection in front of every gather at computed positions.

use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// `gather(x, select(i >= 0, i, i + n))` becomes `gather(x, i)`, since negative indices count from the end.
pub(super) fn drop_wrapped_places(net: &mut Net, reasons: &mut Remarks) {
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut found = Vec::new();
    for (at, op) in net.ops.iter().enumerate() {
        let (OpKind::Gather { axis } | OpKind::GatherAlong { axis }) = op.kind else { continue };
        let extent = net.value(op.inputs[0]).ty.shape[axis];
        if let Some(places) = unwrapped(net, &makers, op.inputs[1], extent) {
            found.push((at, places));
        }
    }
    for (at, places) in found {
        reasons.say(|| format!("{}: negative indices count from the end already", net.ops[at].name));
        net.ops[at].inputs[1] = places;
    }
}

/// The indices before a selection that wraps negative ones along an axis of `extent` elements.
fn unwrapped(net: &Net, makers: &HashMap<ValueId, usize>, places: ValueId, extent: usize) -> Option<ValueId> {
    let maker = |id: ValueId| makers.get(&bare(net, makers, id)).map(|&at| &net.ops[at]);
    let chosen = maker(places).filter(|op| op.kind == OpKind::Select)?;
    let &[condition, plain, wrapped] = chosen.inputs.as_slice() else { return None };
    let own = bare(net, makers, plain);
    let is_own = |&id: &ValueId| bare(net, makers, id) == own;
    let is_number = |&id: &ValueId, n: f32| {
        net.value(id).data.as_ref().is_some_and(|t| t.data.to_f32().iter().all(|&x| x == n) && !t.data.is_empty())
    };
    let compared: &Op = maker(condition).filter(|op| op.kind == OpKind::Binary(Binary::GreaterEqual))?;
    let added: &Op = maker(wrapped).filter(|op| op.kind == OpKind::Binary(Binary::Add))?;
    let counts = |a: &ValueId, b: &ValueId| is_own(a) && is_number(b, extent as f32);
    let whole = net.value(own).ty.dtype.is_integer() && net.value(own).ty.shape == net.value(places).ty.shape;
    let holds = is_own(&compared.inputs[0])
        && is_number(&compared.inputs[1], 0.0)
        && (counts(&added.inputs[0], &added.inputs[1]) || counts(&added.inputs[1], &added.inputs[0]));
    (whole && holds).then_some(own)
}

/// A value before the integer conversions applied to it.
fn bare(net: &Net, makers: &HashMap<ValueId, usize>, mut id: ValueId) -> ValueId {
    while let Some(op) = makers.get(&id).map(|&at| &net.ops[at]) {
        let same = matches!(op.kind, OpKind::Cast | OpKind::Unary(Unary::Identity));
        if !same || !net.value(op.inputs[0]).ty.dtype.is_integer() {
            break;
        }
        id = op.inputs[0];
    }
    id
}
