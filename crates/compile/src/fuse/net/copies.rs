//! Elimination of operations that return an operand: times one, plus zero, a concatenation of one, a slice of everything.

use super::number;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, ValueId};
use std::collections::HashMap;

/// Removes operations that return an operand (the book, table 22.1: elementwise-copy elimination).
///
/// Barriers: a result with other extents or another element type; a network output made by such an operation becomes a copy.
pub(crate) fn eliminate_copies(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let mut instead: HashMap<ValueId, ValueId> = HashMap::new();
    for mut op in std::mem::take(&mut net.ops) {
        op.inputs.iter_mut().for_each(|id| *id = instead.get(id).copied().unwrap_or(*id));
        match (given_back(net, &op), op.outputs.first()) {
            (Some(x), Some(&out)) if !net.outputs.contains(&out) => {
                reasons.say(|| format!("{}: {} gives back its operand", op.name, op.kind.name()));
                instead.insert(out, x);
            }
            (Some(x), Some(_)) => {
                (op.kind, op.inputs) = (OpKind::Unary(Unary::Identity), vec![x]);
                net.ops.push(op);
            }
            _ => net.ops.push(op),
        }
    }
    Ok(())
}

/// The operand that an operation returns unchanged.
fn given_back(net: &Net, op: &Op) -> Option<ValueId> {
    let (&x, &out) = (op.inputs.first()?, op.outputs.first()?);
    let same = |id: ValueId| net.value(id).ty == net.value(out).ty && net.value(id).data.is_none();
    let is = |id: Option<&ValueId>, n: f32| id.is_some_and(|&id| number(net, id) == Some(n));
    let found = match &op.kind {
        OpKind::Binary(f) => {
            let (left, right) = (op.inputs.first(), op.inputs.get(1));
            let neutral = match f {
                Binary::Add | Binary::Sub => 0.0,
                Binary::Mul | Binary::Div | Binary::Pow => 1.0,
                Binary::Max => f32::NEG_INFINITY,
                Binary::Min => f32::INFINITY,
                _ => return None,
            };
            let either = matches!(f, Binary::Add | Binary::Mul | Binary::Max | Binary::Min);
            match (is(right, neutral), either && is(left, neutral)) {
                (true, _) => x,
                (_, true) => *right?,
                _ => return None,
            }
        }
        OpKind::Concat { .. } if op.inputs.len() == 1 => x,
        OpKind::Broadcast | OpKind::Resize { .. } | OpKind::Pad { .. } | OpKind::PadEdge { .. } => match &op.kind {
            OpKind::Pad { pads, .. } | OpKind::PadEdge { pads, .. } if pads.iter().any(|&p| p != (0, 0)) => {
                return None;
            }
            _ => x,
        },
        OpKind::Slice { stride, .. } if stride.iter().all(|&s| s == 1) => x,
        OpKind::Transpose { perm } if perm.iter().enumerate().all(|(i, &p)| i == p) => x,
        _ => return None,
    };
    same(found).then_some(found)
}
