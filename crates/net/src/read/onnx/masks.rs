//! Masks that are the same, though the model computes them twice or in other extents.

use super::node::Node;
use super::rows::Mark;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{OpKind, Unary};
use std::collections::BTreeSet;

/// A mask before reshapes, conversions and the repetition of its elements, and the number of these. It is one whose places were searched, if that
/// one has the same elements.
pub fn source(n: &Node, mut id: ValueId) -> (ValueId, usize) {
    let mut each = 1;
    while let Some(op) = n.t.build.maker(id) {
        let x = op.inputs[0];
        let (from, to) = (n.shape(x), n.shape(id));
        let repeats = match op.kind {
            OpKind::Reshape | OpKind::Unary(Unary::Identity) => 1,
            OpKind::Cast if [x, id].into_iter().any(|id| n.dtype(id) == DType::Bool) => 1,
            OpKind::Broadcast if from.len() == to.len() => {
                let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if elements(&from[same..]) != 1 {
                    break;
                }
                elements(&to[same..])
            }
            _ => break,
        };
        (id, each) = (x, each * repeats);
    }
    let masks: BTreeSet<ValueId> = (n.t.computed.marks.iter().flatten())
        .filter_map(|(_, mark)| if let Mark::Rows(rows) = mark { Some(rows.mask) } else { None })
        .collect();
    let known = masks.into_iter().find(|&mask| alike(n, mask, id, MOST_ALIKE));
    (known.unwrap_or(id), each)
}

/// Most operations that two masks are compared through.
const MOST_ALIKE: usize = 8;

/// Returns true for values that the same functions compute of the same elements, whatever axes these have.
fn alike(n: &Node, a: ValueId, b: ValueId, steps: usize) -> bool {
    let plain = |mut id: ValueId| {
        while let Some(op) = n.t.build.maker(id).filter(|op| op.kind == OpKind::Reshape) {
            id = op.inputs[0];
        }
        id
    };
    let (a, b) = (plain(a), plain(b));
    if a == b {
        return true;
    }
    if let (Some(x), Some(y)) = (n.t.build.data(a), n.t.build.data(b)) {
        return elements(&x.shape) == 1 && elements(&y.shape) == 1 && x.data == y.data;
    }
    let (Some(x), Some(y)) = (n.t.build.maker(a), n.t.build.maker(b)) else { return false };
    let count = elements(&n.shape(a));
    let whole = |&id: &ValueId| elements(&n.shape(id)) == count || elements(&n.shape(id)) == 1;
    steps > 0
        && count == elements(&n.shape(b))
        && x.kind == y.kind
        && matches!(x.kind, OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Cast)
        && n.dtype(a) == n.dtype(b)
        && x.inputs.iter().chain(&y.inputs).all(whole)
        && x.inputs.iter().zip(&y.inputs).all(|(&a, &b)| alike(n, a, b, steps - 1))
}
