//! Recognition of norms that converters spell out as means, differences, squares, a root and a quotient: a norm is three tasks.

use super::number;
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::staging::TURNED_BYTES;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, ValueId};
use std::collections::HashMap;

/// Largest number of columns, and of rows, that one task reduces on every chip that programs are made for.
const MOST_COLUMNS: usize = 16384;
const MOST_ROWS: usize = 16384;

/// Least positive fp16 number.
pub(super) const LEAST_POSITIVE: f32 = 5.960_464_5e-8;

/// The epsilon of a norm rounded to fp16, but never to zero: operands without deviation then give finite results, which are zero after
/// subtraction of the mean.
pub(crate) fn held_epsilon(epsilon: f32) -> f32 {
    if epsilon > 0.0 { epsilon.max(LEAST_POSITIVE) } else { epsilon }
}

/// Returns true if the planar engine supports a norm over these axes: the trailing axes in order, within its extents.
pub(crate) fn fits(shape: &[usize], axes: &[usize]) -> bool {
    let Some(first) = shape.len().checked_sub(axes.len()) else { return false };
    let trailing = axes.iter().enumerate().all(|(i, &axis)| axis == first + i);
    let Some((&columns, rows)) = shape.get(first..).and_then(<[usize]>::split_last) else { return false };
    trailing && columns <= MOST_COLUMNS && rows.iter().product::<usize>() <= MOST_ROWS
}

/// `(x - mean x) / sqrt(mean (x - mean x)^2 + e)` becomes a layer norm of `x`, where the means are over the last axes.
pub fn recognize_norms(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().layer_norm_on_device {
        return Ok(());
    }
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let found: Vec<(usize, Found)> = {
        let search = Search { net, makers: &makers };
        (0..net.ops.len()).filter_map(|at| Some((at, search.norm(&net.ops[at])?))).collect()
    };
    for (at, Found { x, axes, epsilon }) in found {
        let op = &mut net.ops[at];
        reasons.say(|| format!("{}: the last part of a norm over {} axes", op.name, axes.len()));
        (op.kind, op.inputs) = (OpKind::LayerNorm { axes, epsilon }, vec![x]);
    }
    Ok(())
}

struct Found {
    x: ValueId,
    axes: Vec<usize>,
    epsilon: f32,
}

struct Search<'a> {
    net: &'a Net,
    makers: &'a HashMap<ValueId, usize>,
}

impl<'a> Search<'a> {
    fn maker(&self, id: ValueId) -> Option<&'a Op> {
        self.net.ops.get(*self.makers.get(&id)?)
    }

    /// The value of a constant with one element.
    fn number(&self, id: ValueId) -> Option<f32> {
        number(self.net, id)
    }

    /// The norm that an operation completes.
    fn norm(&self, op: &Op) -> Option<Found> {
        let &[a, b] = op.inputs.as_slice() else { return None };
        match op.kind {
            OpKind::Binary(Binary::Div) => {
                let root = self.maker(b)?;
                (root.kind == OpKind::Unary(Unary::Sqrt)).then_some(())?;
                self.of(a, root.inputs[0], 0.0)
            }
            OpKind::Binary(Binary::Mul) => {
                let inverse = |id: ValueId| match self.maker(id) {
                    Some(Op { kind: OpKind::Unary(Unary::Rsqrt { epsilon }), inputs, .. }) => {
                        Some((inputs[0], *epsilon))
                    }
                    _ => None,
                };
                [(a, b), (b, a)].into_iter().find_map(|(centred, other)| {
                    let (variance, epsilon) = inverse(other)?;
                    self.of(centred, variance, epsilon)
                })
            }
            _ => None,
        }
    }

    /// The norm given by a centred operand and its variance.
    fn of(&self, centred: ValueId, variance: ValueId, epsilon: f32) -> Option<Found> {
        let (variance, epsilon) = match self.maker(variance)? {
            Op { kind: OpKind::Binary(Binary::Add), inputs, .. } => {
                let either = [(inputs[0], inputs[1]), (inputs[1], inputs[0])];
                let (variance, added) =
                    either.into_iter().find_map(|(variance, number)| Some((variance, self.number(number)?)))?;
                (variance, epsilon + added)
            }
            _ => (variance, epsilon),
        };
        let (square, axes) = self.mean(variance)?;
        let squared = match self.maker(square)? {
            Op { kind: OpKind::Unary(Unary::Square), inputs, .. } => inputs[0],
            Op { kind: OpKind::Binary(Binary::Mul), inputs, .. } if inputs[0] == inputs[1] => inputs[0],
            Op { kind: OpKind::Binary(Binary::Pow), inputs, .. } if self.number(inputs[1]) == Some(2.0) => inputs[0],
            _ => return None,
        };
        let difference = self.maker(centred).filter(|_| squared == centred)?;
        let (OpKind::Binary(Binary::Sub), &[x, mean]) = (&difference.kind, difference.inputs.as_slice()) else {
            return None;
        };
        let (of, along) = self.mean(mean)?;
        let shape = &self.net.value(x).ty.shape;
        (of == x && along == axes && fits(shape, &axes)).then_some(Found { x, axes, epsilon })
    }

    /// Operand and sorted axes of a value that is a mean with `keep_dims`.
    fn mean(&self, id: ValueId) -> Option<(ValueId, Vec<usize>)> {
        match self.maker(id)? {
            Op { kind: OpKind::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true }, inputs, .. } => {
                let mut axes = axes.clone();
                axes.sort_unstable();
                Some((inputs[0], axes))
            }
            _ => None,
        }
    }
}

/// Most rows whose channels are normed as groups.
const MOST_PIXEL_ROWS: usize = 512;

/// Returns true for a norm over the channels of rows and columns that fit tile memory transposed.
pub(crate) fn of_pixels(shape: &[usize], axis: usize) -> bool {
    let &[1, channels, rows, columns] = shape else { return false };
    let bytes = 2 * (channels * rows * columns) as u64;
    axis == 1 && channels > 1 && rows > 1 && columns > 1 && rows <= MOST_PIXEL_ROWS && bytes <= TURNED_BYTES
}
