//! Divisions of operands by their own norms, whose quotients have known sizes.

use super::super::number;
use super::Magnitude;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, ValueId};
use std::collections::HashMap;

/// A division of an operand by its norm.
pub(super) struct Norm<'a> {
    pub(super) operand: ValueId,
    axes: &'a [usize],
    /// Added to the mean or the sum of the squares.
    epsilon: f32,
    /// By the Euclidean norm instead of the root of the mean square.
    euclidean: bool,
}

impl Norm<'_> {
    /// Magnitude of the quotient.
    pub(super) fn of(&self, operand: Magnitude, shape: &[usize]) -> Magnitude {
        let count: usize = self.axes.iter().filter_map(|&axis| shape.get(axis)).product();
        let (share, epsilon) = match self.euclidean {
            true => ((count.max(1) as f32).sqrt().recip(), self.epsilon / count.max(1) as f32),
            false => (1.0, self.epsilon),
        };
        let whole = operand.normalized(shape, self.axes, epsilon);
        let [most, length] = [whole.most, whole.length].map(|bound| bound * share);
        Magnitude { most, length, usual: whole.usual * share, least: whole.least * share, ..whole }
    }
}

/// The division of an operand by its own norm; `None` for other operations.
pub(super) fn normalized<'a>(net: &Net, made: &HashMap<ValueId, &'a Op>, op: &Op) -> Option<Norm<'a>> {
    let &[a, b] = op.inputs.as_slice() else { return None };
    let squares = |x: ValueId, variance: ValueId, epsilon| squares_of(net, made, x, variance, epsilon);
    let root = |x: ValueId, id: ValueId| root_of(net, made, x, id);
    match op.kind {
        OpKind::Binary(Binary::Div) => root(a, b),
        OpKind::Binary(Binary::Mul) => [(a, b), (b, a)].into_iter().find_map(|(x, inverse)| {
            let op = made.get(&inverse)?;
            match op.kind {
                OpKind::Unary(Unary::Rsqrt { epsilon }) => squares(x, op.inputs[0], epsilon),
                OpKind::Unary(Unary::Inverse { epsilon: 0.0 }) => root(x, op.inputs[0]),
                OpKind::Binary(Binary::Pow) if number(net, op.inputs[1]) == Some(-0.5) => squares(x, op.inputs[0], 0.0),
                OpKind::Binary(Binary::Div) if number(net, op.inputs[0]) == Some(1.0) => root(x, op.inputs[1]),
                _ => None,
            }
        }),
        _ => None,
    }
}

/// The norm that `id` is of `x`: it may be at least a positive number, or have one added.
fn root_of<'a>(net: &Net, made: &HashMap<ValueId, &'a Op>, x: ValueId, id: ValueId) -> Option<Norm<'a>> {
    let op: &'a Op = made.get(&id)?;
    match &op.kind {
        OpKind::Unary(Unary::Sqrt) => squares_of(net, made, x, op.inputs[0], 0.0),
        OpKind::Reduce { kind: ReduceKind::L2, axes, .. } if op.inputs[0] == x => {
            Some(Norm { operand: x, axes, epsilon: 0.0, euclidean: true })
        }
        OpKind::Binary(Binary::Add | Binary::Max) => {
            let (norm, added) = with_number(net, op)?;
            let norm = root_of(net, made, x, norm).filter(|_| added >= 0.0)?;
            Some(Norm { epsilon: norm.epsilon + added * added, ..norm })
        }
        _ => None,
    }
}

/// The operand of a binary operation beside a constant number, and the number.
fn with_number(net: &Net, op: &Op) -> Option<(ValueId, f32)> {
    let (a, b) = (op.inputs[0], op.inputs[1]);
    [(a, b), (b, a)].into_iter().find_map(|(x, n)| Some((x, number(net, n)?)))
}

/// The norm of `x` whose square `variance` is, but for an addend.
fn squares_of<'a>(
    net: &Net,
    made: &HashMap<ValueId, &'a Op>,
    x: ValueId,
    variance: ValueId,
    mut epsilon: f32,
) -> Option<Norm<'a>> {
    let mut op: &'a Op = made.get(&variance)?;
    if op.kind == OpKind::Binary(Binary::Add) {
        let (mean, added) = with_number(net, op)?;
        (op, epsilon) = (made.get(&mean)?, epsilon + added);
    }
    let OpKind::Reduce { kind, axes, .. } = &op.kind else { return None };
    let squared = || {
        let square = made.get(&op.inputs[0])?;
        match square.kind {
            OpKind::Unary(Unary::Square) => Some(square.inputs[0]),
            OpKind::Binary(Binary::Mul) if square.inputs[0] == square.inputs[1] => Some(square.inputs[0]),
            OpKind::Binary(Binary::Pow) if number(net, square.inputs[1]) == Some(2.0) => Some(square.inputs[0]),
            _ => None,
        }
    };
    let (of, euclidean) = match kind {
        ReduceKind::Mean => (squared()?, false),
        ReduceKind::Sum => (squared()?, true),
        ReduceKind::SumSquare => (op.inputs[0], true),
        _ => return None,
    };
    (of == x && epsilon >= 0.0).then_some(Norm { operand: x, axes, epsilon, euclidean })
}
