//! Norms as means, differences and products; choices by a constant as products with zeros and ones; gathers as slices.
//! Ours: what layers are made of.

use super::{Builder, MOST_PIECES, rewrite};
use crate::Options;
use crate::error::{Error, Result};
use crate::passes::Reasons;
use anemone_net::{Binary, Net, Op, OpKind, ReduceKind, Unary, ValueId};

/// Norms as means, differences and products; choices by a constant as products with zeros and ones.
pub(crate) fn decompose(net: &mut Net, options: &Options, reasons: &mut Reasons) -> Result<()> {
    rewrite(net, reasons, |builder, op| {
        match &op.kind {
            OpKind::BatchNorm { epsilon } => builder.batch_norm(op, *epsilon)?,
            OpKind::LayerNorm { axes, epsilon } if options.modern() && builder.is_trailing(axes, op.inputs[0]) => {
                builder.affine_after(op, axes, *epsilon);
            }
            OpKind::LayerNorm { axes, epsilon } => builder.norm(op, axes, *epsilon, false),
            OpKind::InstanceNorm { epsilon } => {
                let rank = builder.net.value(op.inputs[0]).ty.shape.len();
                let axes: Vec<usize> = (2..rank).collect();
                builder.norm(op, &axes, *epsilon, true);
            }
            OpKind::Select if builder.net.value(op.inputs[0]).data.is_some() => builder.select(op)?,
            OpKind::Select => builder.blend(op),
            OpKind::Gather { axis } => builder.gather(op, *axis)?,
            _ => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

impl Builder<'_> {
    /// Whether the axes are the last ones, none left out: the planar engine sums those in one task.
    fn is_trailing(&self, axes: &[usize], x: ValueId) -> bool {
        let rank = self.shape(x).len();
        axes.iter().enumerate().all(|(i, &axis)| axis + axes.len() == rank + i)
    }

    /// A normalization that stays one operation, its factors and addends as operations after it.
    fn affine_after(&mut self, op: &Op, axes: &[usize], epsilon: f32) {
        let (x, shape) = (op.inputs[0], self.shape(op.inputs[0]));
        let kind = || OpKind::LayerNorm { axes: axes.to_vec(), epsilon };
        let steps = [Binary::Mul, Binary::Add].into_iter().zip(op.inputs[1..].to_vec()).collect::<Vec<_>>();
        let Some(last) = steps.len().checked_sub(1) else {
            return self.push(kind(), &[x], op.outputs[0]);
        };
        let mut current = self.op("normed", kind(), &[x], shape.clone());
        for (i, (f, operand)) in steps.into_iter().enumerate() {
            if i == last {
                self.push(OpKind::Binary(f), &[current, operand], op.outputs[0]);
            } else {
                current = self.op("scaled", OpKind::Binary(f), &[current, operand], shape.clone());
            }
        }
    }

    /// `x * c + y * (1 - c)` with a constant `c` of zeros and ones. A constant operand is chosen from here and now, so
    /// that an infinity where it is not chosen does no harm.
    fn select(&mut self, op: &Op) -> Result<()> {
        let (shape, out) = (self.shape(op.outputs[0]), op.outputs[0]);
        let Some(condition) = self.net.value(op.inputs[0]).data.clone() else { return Ok(()) };
        let condition = condition.data.to_f32();
        let condition_shape = self.shape(op.inputs[0]);
        let mut sides = Vec::new();
        for (side, &id) in [(1.0f32, &op.inputs[1]), (0.0, &op.inputs[2])] {
            let chosen: Vec<f32> =
                condition.iter().map(|&c| if (c != 0.0) == (side != 0.0) { 1.0 } else { 0.0 }).collect();
            let suffix = if side == 1.0 { "then" } else { "else" };
            if let Some(tensor) = self.net.value(id).data.clone() {
                let data = tensor.data.to_f32();
                let Some(&value) = data.first().filter(|v| data.iter().all(|x| x == *v)) else {
                    return Err(Error::Unsupported {
                        op: op.name.clone(),
                        kind: "select".into(),
                        reason: "a constant side with several values".into(),
                        suggestion: "multiply and add constants instead",
                    });
                };
                let value = value.clamp(f32::from(half::f16::MIN), f32::from(half::f16::MAX));
                let data = chosen.iter().map(|&c| if c != 0.0 { value } else { 0.0 }).collect();
                sides.push(self.constant(suffix, condition_shape.clone(), data));
            } else {
                let mask = self.constant(&format!("{suffix}.mask"), condition_shape.clone(), chosen);
                sides.push(self.op(suffix, OpKind::Binary(Binary::Mul), &[id, mask], shape.clone()));
            }
        }
        self.push(OpKind::Binary(Binary::Add), &[sides[0], sides[1]], out);
        Ok(())
    }

    /// `x * c + y * (1 - c)` with a truth value `c` of run time. The device makes 0 of 0 times infinity, so what is not
    /// chosen does no harm there.
    fn blend(&mut self, op: &Op) {
        let (c, x, y, shape) = (op.inputs[0], op.inputs[1], op.inputs[2], self.shape(op.outputs[0]));
        let one = self.constant("one", vec![1], vec![1.0]);
        let chosen = self.op("then", OpKind::Binary(Binary::Mul), &[c, x], shape.clone());
        let own = self.shape(c);
        let other = self.op("not", OpKind::Binary(Binary::Sub), &[one, c], own);
        let rest = self.op("else", OpKind::Binary(Binary::Mul), &[other, y], shape);
        self.push(OpKind::Binary(Binary::Add), &[chosen, rest], op.outputs[0]);
    }

    /// Elements at constant positions: slices of consecutive ones, side by side.
    fn gather(&mut self, op: &Op, axis: usize) -> Result<()> {
        let x = op.inputs[0];
        let shape = self.shape(x);
        let Some(indices) = self.net.value(op.inputs[1]).data.clone() else {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: "gather".into(),
                reason: "positions computed at run time".into(),
                suggestion: "compare with all positions and multiply, or gather on the host",
            });
        };
        let extent = shape[axis] as i64;
        let wrapped = |i: i32| if i < 0 { i64::from(i) + extent } else { i64::from(i) };
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for i in indices.data.to_i32().into_iter().map(wrapped) {
            let at = usize::try_from(i).ok().filter(|&at| at < shape[axis]);
            let at = at.ok_or_else(|| Error::Net(format!("{}: position {i} of {extent}", op.name)))?;
            match runs.last_mut() {
                Some((_, end)) if *end == at => *end += 1,
                _ => runs.push((at, at + 1)),
            }
        }
        if runs.len() > MOST_PIECES {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: "gather".into(),
                reason: format!("{} runs of positions, at most {MOST_PIECES} are joined", runs.len()),
                suggestion: "multiply with a matrix of zeros and ones",
            });
        }
        let parts: Vec<ValueId> = runs
            .into_iter()
            .map(|(first, last)| {
                let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
                (begin[axis], end[axis]) = (first, last);
                let mut own = shape.clone();
                own[axis] = last - first;
                self.op("part", OpKind::Slice { begin, end, stride: vec![1; shape.len()] }, &[x], own)
            })
            .collect();
        let mut joined = shape;
        joined[axis] = indices.data.len();
        let all = match parts.as_slice() {
            [one] => *one,
            _ => self.op("joined", OpKind::Concat { axis }, &parts, joined),
        };
        self.push(OpKind::Reshape, &[all], op.outputs[0]);
        Ok(())
    }

    /// `x * s + t` with constants per channel.
    fn batch_norm(&mut self, op: &Op, epsilon: f32) -> Result<()> {
        let mut params = Vec::new();
        for &id in &op.inputs[1..] {
            match &self.net.value(id).data {
                Some(t) => params.push(t.data.to_f32()),
                None => {
                    return Err(Error::Unsupported {
                        op: op.name.clone(),
                        kind: "BatchNorm".into(),
                        reason: "statistics computed at run time".into(),
                        suggestion: "make them constants",
                    });
                }
            }
        }
        let channels = params[0].len();
        let one = vec![1.0; channels];
        let zero = vec![0.0; channels];
        let (gamma, beta) = (params.get(2).unwrap_or(&one), params.get(3).unwrap_or(&zero));
        let scale: Vec<f32> = (0..channels).map(|c| gamma[c] / (params[1][c] + epsilon).sqrt()).collect();
        let shift: Vec<f32> = (0..channels).map(|c| beta[c] - params[0][c] * scale[c]).collect();
        let shape = self.shape(op.inputs[0]);
        let mut per_channel = vec![1; shape.len()];
        per_channel[1] = channels;
        let scale = self.constant("scale", per_channel.clone(), scale);
        let shift = self.constant("shift", per_channel, shift);
        let scaled = self.op("scaled", OpKind::Binary(Binary::Mul), &[op.inputs[0], scale], shape);
        self.push(OpKind::Binary(Binary::Add), &[scaled, shift], op.outputs[0]);
        Ok(())
    }

    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.
    fn norm(&mut self, op: &Op, axes: &[usize], epsilon: f32, per_channel: bool) {
        let x = op.inputs[0];
        let shape = self.shape(x);
        let mut kept = shape.clone();
        axes.iter().for_each(|&a| kept[a] = 1);
        let mean_of = || OpKind::Reduce { kind: ReduceKind::Mean, axes: axes.to_vec(), keep_dims: true };
        let mean = self.op("mean", mean_of(), &[x], kept.clone());
        let centred = self.op("centred", OpKind::Binary(Binary::Sub), &[x, mean], shape.clone());
        let square = self.op("square", OpKind::Unary(Unary::Square), &[centred], shape.clone());
        let variance = self.op("variance", mean_of(), &[square], kept.clone());
        let inverse = self.op("inverse", OpKind::Unary(Unary::Rsqrt { epsilon }), &[variance], kept);
        // Gamma and beta as constants that broadcast against x.
        let affine: Vec<ValueId> = op.inputs[1..]
            .iter()
            .enumerate()
            .map(|(i, &id)| {
                let Some(tensor) = self.net.value(id).data.clone() else { return id };
                let mut wide = vec![1; shape.len()];
                if per_channel {
                    wide[1] = shape[1];
                } else {
                    axes.iter().for_each(|&a| wide[a] = shape[a]);
                }
                self.constant(if i == 0 { "gamma" } else { "beta" }, wide, tensor.data.to_f32())
            })
            .collect();
        let mut steps: Vec<(Binary, ValueId)> = vec![(Binary::Mul, inverse)];
        steps.extend([Binary::Mul, Binary::Add].into_iter().zip(affine));
        let mut current = centred;
        for (i, (f, operand)) in steps.iter().enumerate() {
            if i + 1 == steps.len() {
                self.push(OpKind::Binary(*f), &[current, *operand], op.outputs[0]);
            } else {
                current = self.op("normed", OpKind::Binary(*f), &[current, *operand], shape.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::*;
    use super::*;

    #[test]
    fn a_batch_norm_is_an_affine() {
        becomes(
            decompose,
            r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %m: f16[2] = [1.0, 0.0]
  const %v: f16[2] = [1.0, 4.0]
  %y: f16[1, 2, 1, 1] = batch_norm(%x, %m, %v) epsilon=0.0
  output %y
}
"#,
            r#"net "n" {
  input %x: f16[1, 2, 1, 1]
  const %y.scale: f32[1, 2, 1, 1] = [1.0, 0.5]
  %y.scaled: f16[1, 2, 1, 1] = mul(%x, %y.scale) name="y"
  const %y.shift: f32[1, 2, 1, 1] = [-1.0, 0.0]
  %y: f16[1, 2, 1, 1] = add(%y.scaled, %y.shift)
  output %y
}
"#,
        );
    }

    #[test]
    fn a_gather_is_slices_side_by_side() {
        becomes(
            decompose,
            r#"net "n" {
  input %x: f16[4, 2]
  const %i: i32[3] = [3, 0, 1]
  %y: f16[3, 2] = gather(%x, %i) axis=0
  output %y
}
"#,
            r#"net "n" {
  input %x: f16[4, 2]
  %y.part: f16[1, 2] = slice(%x) begin=[3, 0] end=[4, 2] stride=[1, 1] name="y"
  %y.part.4: f16[2, 2] = slice(%x) begin=[0, 0] end=[2, 2] stride=[1, 1] name="y"
  %y.joined: f16[3, 2] = concat(%y.part, %y.part.4) axis=0 name="y"
  %y: f16[3, 2] = reshape(%y.joined)
  output %y
}
"#,
        );
    }
}
