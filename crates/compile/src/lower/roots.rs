//! Reciprocal roots of means of squares, which converters spell out as five operations around a norm: one task of the planar engine.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::rewrite::{fits, held_epsilon, makers, number};
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, ValueId};
use anemone_program::order;
use std::collections::{HashMap, HashSet};

/// `1 / sqrt(mean(x^2) + epsilon)`, with means over the last axes.
#[derive(Clone)]
struct InverseRoot {
    x: ValueId,
    axes: Vec<usize>,
    epsilon: f32,
}

/// The reciprocal roots of a network by their results, and the values that nothing else reads.
#[derive(Default)]
pub(super) struct InverseRoots {
    found: HashMap<ValueId, InverseRoot>,
    unread: HashSet<ValueId>,
}

impl InverseRoots {
    pub(super) fn of(net: &Net) -> InverseRoots {
        let makers = makers(net);
        let mut roots = InverseRoots::default();
        let mut between: HashSet<ValueId> = HashSet::new();
        for op in &net.ops {
            let Some((root, values)) = inverse_root(net, op, &makers) else { continue };
            roots.found.insert(op.outputs[0], root);
            between.extend(values);
        }
        if between.is_empty() {
            return roots;
        }
        let mut read: HashSet<ValueId> =
            net.outputs.iter().chain(net.states.iter().map(|s| &s.output)).copied().collect();
        for op in net.ops.iter().rev() {
            let out = op.outputs.first();
            let skipped = out.is_some_and(|out| between.contains(out) && !read.contains(out));
            match out.and_then(|out| roots.found.get(out)) {
                Some(root) => _ = read.insert(root.x),
                None if skipped => roots.unread.extend(out),
                None => read.extend(&op.inputs),
            }
        }
        roots
    }
}

/// The root that an operation completes, and the values between its operand and its result.
fn inverse_root(net: &Net, op: &Op, makers: &HashMap<ValueId, &Op>) -> Option<(InverseRoot, Vec<ValueId>)> {
    let number = |id: ValueId| number(net, id);
    let maker = |id: ValueId| makers.get(&id).copied();
    let root = |id: ValueId| maker(id).filter(|op| op.kind == OpKind::Unary(Unary::Sqrt)).map(|op| op.inputs[0]);
    let mut between = Vec::with_capacity(4);
    let (mut variance, mut epsilon) = match (&op.kind, op.inputs.as_slice()) {
        (OpKind::Unary(Unary::Rsqrt { epsilon }), &[variance]) => (variance, *epsilon),
        (OpKind::Unary(Unary::Inverse { epsilon: 0.0 }), &[of]) => {
            between.push(of);
            (root(of)?, 0.0)
        }
        (OpKind::Binary(Binary::Div), &[one, of]) if number(one) == Some(1.0) => {
            between.push(of);
            (root(of)?, 0.0)
        }
        (OpKind::Binary(Binary::Pow), &[variance, power]) if number(power) == Some(-0.5) => (variance, 0.0),
        _ => return None,
    };
    between.push(variance);
    if let Op { kind: OpKind::Binary(Binary::Add), inputs, .. } = maker(variance)? {
        let either = [(inputs[0], inputs[1]), (inputs[1], inputs[0])];
        let (mean, added) = either.into_iter().find_map(|(mean, added)| Some((mean, number(added)?)))?;
        (variance, epsilon) = (mean, epsilon + added);
        between.push(variance);
    }
    let mean = maker(variance)?;
    let OpKind::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true } = &mean.kind else { return None };
    let square = mean.inputs[0];
    between.push(square);
    let x = match maker(square)? {
        Op { kind: OpKind::Unary(Unary::Square), inputs, .. } => inputs[0],
        Op { kind: OpKind::Binary(Binary::Mul), inputs, .. } if inputs[0] == inputs[1] => inputs[0],
        Op { kind: OpKind::Binary(Binary::Pow), inputs, .. } if number(inputs[1]) == Some(2.0) => inputs[0],
        _ => return None,
    };
    let mut axes = axes.clone();
    order::by(&mut axes, Ord::cmp);
    let held = epsilon > 0.0 && fits(&net.value(x).ty.shape, &axes);
    let same = net.value(op.outputs[0]).ty.shape == net.value(variance).ty.shape;
    (held && same).then_some((InverseRoot { x, axes, epsilon: held_epsilon(epsilon) }, between))
}

impl Lowerer<'_> {
    /// Lowers the operation that completes a reciprocal root, and those before it that nothing else reads. Returns false for others.
    pub(super) fn inverse_root(&mut self, out: ValueId) -> Result<bool> {
        if self.roots.unread.contains(&out) {
            return Ok(true);
        }
        let Some(InverseRoot { x, axes, epsilon }) = self.roots.found.get(&out).cloned() else { return Ok(false) };
        let (from, to) = (self.view(x)?, self.result(out));
        self.reduce_columns_as(Kind::InverseRms { epsilon }, &axes, &from, &to)?;
        Ok(true)
    }
}
