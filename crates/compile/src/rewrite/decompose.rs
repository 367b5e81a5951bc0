//! Decomposition of norms into means, differences and products, of gathers into slices, and of functions without tables into others.
//! Ours.

use super::{Builder, norms, rewrite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::Chip;
use anemone_net::{Binary, DType, Net, Op, OpKind, ReduceKind, TensorType, Unary, Value, ValueId};
use std::cell::RefCell;
use std::collections::HashMap;

/// Decomposes norms into means, differences and products, and gathers into slices.
pub fn decompose(net: &mut Net, chip: &Chip, options: &Options, reasons: &mut Remarks) -> Result<()> {
    let sources = RefCell::new(Sources::new());
    rewrite(net, reasons, |builder, op| {
        match &op.kind {
            OpKind::Softmax { .. } | OpKind::Reduce { .. } if builder.of_long_rows(op, chip) => {}
            OpKind::BatchNorm { epsilon } => builder.batch_norm(op, *epsilon)?,
            OpKind::LayerNorm { axes, epsilon }
                if options.conventions().layer_norm_on_device && builder.is_trailing(axes, op.inputs[0]) =>
            {
                builder.affine_after(op, axes, *epsilon);
            }
            OpKind::LayerNorm { axes, epsilon }
                if options.conventions().layer_norm_on_device && builder.is_before_units(axes, op.inputs[0]) =>
            {
                builder.norm_before_units(op, axes, *epsilon);
            }
            OpKind::LayerNorm { axes, epsilon }
                if options.conventions().norms_by_group && builder.is_of_pixels(axes, op.inputs[0]) =>
            {
                builder.norm_before_units(op, axes, *epsilon);
            }
            OpKind::LayerNorm { axes, epsilon } => builder.norm(op, axes, *epsilon, false),
            OpKind::InstanceNorm { epsilon } => {
                let split = builder.in_shorter_rows(op, &sources.borrow());
                let norm = split.as_ref().unwrap_or(op);
                let shape = builder.shape(norm.inputs[0]);
                let axes: Vec<usize> = (2..shape.len()).collect();
                match options.conventions().layer_norm_on_device && norms::fits(&shape, &axes) {
                    true => builder.instance_norm(norm, axes, *epsilon),
                    false => builder.norm(norm, &axes, *epsilon, true),
                }
                if let Some(norm) = &split {
                    builder.push(OpKind::Reshape, &norm.outputs, op.outputs[0]);
                }
            }
            OpKind::Reshape => {
                let source = before_long_rows(&sources.borrow(), op.inputs[0]);
                builder.push(OpKind::Reshape, &[source], op.outputs[0]);
            }
            OpKind::Gather { axis } if builder.net.value(op.inputs[1]).data.is_some() => builder.gather(op, *axis)?,
            OpKind::Gather { axis: 0 } if builder.is_small_table(op) => builder.rows_of_table(op),
            OpKind::MatMul { transpose_x: false, transpose_y: false } if builder.is_many_vectors(op) => {
                builder.vectors(op);
            }
            OpKind::Gather { axis } if builder.shape(op.inputs[1]).is_empty() => builder.gather_one(op, *axis),
            OpKind::ArgReduce { greatest, last, axis, .. } => builder.arg_reduce(op, *greatest, *last, *axis)?,
            OpKind::Reduce { kind: ReduceKind::Prod, axes, .. } => builder.product_along(op, axes)?,
            OpKind::Reduce { kind, axes, .. } if builder.is_blockwise(op, *kind, axes, chip) => {
                builder.blockwise(op, *kind)
            }
            OpKind::Reduce { kind, axes, .. } if options.conventions().whole_epilogues => {
                match builder.stages(op, *kind, axes, chip) {
                    Some(stages) => builder.in_stages(op, *kind, axes, stages),
                    None => builder.ops.push(op.clone()),
                }
            }
            OpKind::PadEdge { pads, mode } => {
                if !builder.pad_edge(op, pads, *mode)? {
                    builder.ops.push(op.clone());
                }
            }
            OpKind::GatherAlong { .. }
            | OpKind::GatherNd { .. }
            | OpKind::ScatterAlong { .. }
            | OpKind::ScatterNd { .. } => {
                if !builder.at_places(op)? {
                    builder.ops.push(op.clone());
                }
            }
            OpKind::Linear if options.conventions().equal_biases_are_numbers && builder.adds_a_number(op) => {
                let mut own = op.clone();
                own.inputs[2] = builder.first_of(op.inputs[2]);
                builder.ops.push(own);
            }
            OpKind::Linear => builder.linear(op, options.most_resident(chip)),
            OpKind::Conv { .. } => builder.conv_bias(op),
            OpKind::Binary(Binary::FloorDiv)
                if options.conventions().floats_divided_down
                    && builder.net.value(op.outputs[0]).ty.dtype.is_float() =>
            {
                let shape = builder.shape(op.outputs[0]);
                let quotient = builder.op("quotient", OpKind::Binary(Binary::Div), &op.inputs, shape);
                builder.push(OpKind::Unary(Unary::Floor), &[quotient], op.outputs[0]);
            }
            OpKind::Unary(f) => {
                if !builder.function(op, *f) {
                    builder.ops.push(op.clone());
                }
            }
            _ => builder.ops.push(op.clone()),
        }
        builder.note_long_rows(&mut sources.borrow_mut());
        Ok(())
    })
}

/// The values that rows longer than those of a task were reshaped from: no layer writes such rows.
type Sources = HashMap<ValueId, ValueId>;

/// The value before a reshape to long rows; other values stay.
fn before_long_rows(sources: &Sources, id: ValueId) -> ValueId {
    sources.get(&id).copied().unwrap_or(id)
}

impl Builder<'_> {
    /// Returns true if the axes are the trailing axes of `x`, in order: the planar engine reduces those in one task.
    fn is_trailing(&self, axes: &[usize], x: ValueId) -> bool {
        let rank = self.shape(x).len();
        axes.iter().enumerate().all(|(i, &axis)| axis + axes.len() == rank + i)
    }

    /// Returns true if all axes of `x` after the given ones, which are in order, have one element, so that they are normalized with them.
    fn is_before_units(&self, axes: &[usize], x: ValueId) -> bool {
        let (shape, first) = (self.shape(x), axes.first().copied().unwrap_or_default());
        let ordered = axes.iter().enumerate().all(|(i, &axis)| axis == first + i);
        let trailing: Vec<usize> = (first..shape.len()).collect();
        ordered && shape.iter().skip(first + axes.len()).all(|&n| n == 1) && norms::fits(&shape, &trailing)
    }

    /// Returns true for a norm over the channels of rows and columns that the compiler computes as one.
    fn is_of_pixels(&self, axes: &[usize], x: ValueId) -> bool {
        matches!(axes, &[axis] if norms::of_pixels(&self.shape(x), axis))
    }

    /// Returns true for a product with a constant matrix whose constant biases, at least two, are equal.
    fn adds_a_number(&self, op: &Op) -> bool {
        let data = |at: usize| op.inputs.get(at).and_then(|&id| self.net.value(id).data.as_ref());
        let (Some(_), Some(bias)) = (data(1), data(2)) else { return false };
        let all = bias.data.to_f32();
        all.len() > 1 && all.iter().all(|b| *b == all[0])
    }

    /// The first element of a constant, as a constant; as a bias, the number that all columns of the product have added.
    fn first_of(&mut self, id: ValueId) -> ValueId {
        let first = self.net.value(id).data.as_ref().and_then(|all| all.data.to_f32().first().copied());
        self.constant("bias", vec![1], first.into_iter().collect())
    }

    /// A norm over axes before those of one element, with factors and addends of its axes.
    fn norm_before_units(&mut self, op: &Op, axes: &[usize], epsilon: f32) {
        let shape = self.shape(op.inputs[0]);
        let wide: Vec<usize> = (0..shape.len()).map(|i| if axes.contains(&i) { shape[i] } else { 1 }).collect();
        let affine = ["gamma", "beta"].into_iter().zip(op.inputs[1..].to_vec());
        let inputs: Vec<ValueId> = affine.map(|(name, id)| self.reshaped(name, id, wide.clone())).collect();
        let own = Op { inputs: [&op.inputs[..1], &inputs].concat(), ..op.clone() };
        self.affine_after(&own, axes, epsilon);
    }

    /// An instance norm: a norm of each channel, with factors and addends per channel.
    fn instance_norm(&mut self, op: &Op, axes: Vec<usize>, epsilon: f32) {
        let shape = self.shape(op.inputs[0]);
        let mut per_channel = vec![1; shape.len()];
        per_channel[1] = shape[1];
        let affine = op.inputs[1..].to_vec();
        let affine = ["gamma", "beta"].into_iter().zip(affine);
        let inputs: Vec<ValueId> = affine.map(|(name, id)| self.reshaped(name, id, per_channel.clone())).collect();
        let own = Op { inputs: [&op.inputs[..1], &inputs].concat(), ..op.clone() };
        self.affine_after(&own, &axes, epsilon);
    }

    /// A norm over rows that are longer than those of a task, over shorter ones: the rows of the tensor that its operand was reshaped from, as
    /// groups of channels are, or the factors of their length that are closest. `None` for all other norms.
    fn in_shorter_rows(&mut self, op: &Op, sources: &Sources) -> Option<Op> {
        let axes = [2, 3];
        let &[batch, groups, length] = self.shape(op.inputs[0]).as_slice() else { return None };
        let split = |columns: usize| {
            let shape = [batch, groups, length / columns, columns];
            (length.is_multiple_of(columns) && norms::fits(&shape, &axes)).then_some(shape)
        };
        if norms::fits(&[batch, groups, length], &[2]) {
            return None;
        }
        let source = before_long_rows(sources, op.inputs[0]);
        let own = self.shape(source).last().copied().filter(|&columns| columns > 0).and_then(split);
        let closest = || (1..=length.isqrt()).rev().find(|n| length.is_multiple_of(*n)).map(|rows| length / rows);
        let shape = own.or_else(|| closest().and_then(split))?.to_vec();
        let rows = self.op("rows", OpKind::Reshape, &[source], shape.clone());
        let ty = TensorType { dtype: DType::F16, shape };
        let name = self.fresh("of_rows");
        let normed = self.net.add_value(Value { name, ty, data: None, surface: None });
        Some(Op { inputs: [&[rows], &op.inputs[1..]].concat(), outputs: vec![normed], ..op.clone() })
    }

    /// Adds the reshapes to long rows among the operations that replace one.
    fn note_long_rows(&self, sources: &mut Sources) {
        let is_long = |id: ValueId| self.shape(id).last().is_some_and(|&columns| !norms::fits(&[columns], &[0]));
        let long = self.ops.iter().filter(|op| op.kind == OpKind::Reshape && is_long(op.outputs[0]));
        sources.extend(long.map(|op| (op.outputs[0], op.inputs[0])));
    }

    /// A normalization that stays one operation, with its factors and addends as operations after it.
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

    /// A gather of one element at a computed position, which becomes a list of one.
    fn gather_one(&mut self, op: &Op, axis: usize) {
        let mut shape = self.shape(op.inputs[0]);
        shape[axis] = 1;
        let place = self.op("place", OpKind::Reshape, &[op.inputs[1]], vec![1]);
        let element = self.op("element", OpKind::Gather { axis }, &[op.inputs[0], place], shape);
        self.push(OpKind::Reshape, &[element], op.outputs[0]);
    }

    /// `x * s + t` with constants per channel; with computed statistics, the formula itself.
    fn batch_norm(&mut self, op: &Op, epsilon: f32) -> Result<()> {
        let constants: Option<Vec<Vec<f32>>> =
            op.inputs[1..].iter().map(|&id| self.net.value(id).data.as_ref().map(|t| t.data.to_f32())).collect();
        let shape = self.shape(op.inputs[0]);
        let mut per_channel = vec![1; shape.len()];
        per_channel[1] = shape[1];
        let Some(params) = constants else {
            self.live_batch_norm(op, epsilon, per_channel);
            return Ok(());
        };
        let channels = params[0].len();
        let one = vec![1.0; channels];
        let zero = vec![0.0; channels];
        let (gamma, beta) = (params.get(2).unwrap_or(&one), params.get(3).unwrap_or(&zero));
        let scale: Vec<f32> = (0..channels).map(|c| gamma[c] / (params[1][c] + epsilon).sqrt()).collect();
        let shift: Vec<f32> = (0..channels).map(|c| beta[c] - params[0][c] * scale[c]).collect();
        let scale = self.constant("scale", per_channel.clone(), scale);
        let shift = self.constant("shift", per_channel, shift);
        let scaled = self.op("scaled", OpKind::Binary(Binary::Mul), &[op.inputs[0], scale], shape);
        self.push(OpKind::Binary(Binary::Add), &[scaled, shift], op.outputs[0]);
        Ok(())
    }

    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta` with statistics computed at run time.
    fn live_batch_norm(&mut self, op: &Op, epsilon: f32, per_channel: Vec<usize>) {
        let epsilon = norms::held_epsilon(epsilon);
        let shape = self.shape(op.inputs[0]);
        let names = ["mean", "variance", "gamma", "beta"];
        let params: Vec<ValueId> = names
            .into_iter()
            .zip(&op.inputs[1..])
            .map(|(name, &id)| self.reshaped(name, id, per_channel.clone()))
            .collect();
        let centred = self.op("centred", OpKind::Binary(Binary::Sub), &[op.inputs[0], params[0]], shape.clone());
        let inverse = self.op("inverse", OpKind::Unary(Unary::Rsqrt { epsilon }), &[params[1]], per_channel);
        let mut steps = vec![(Binary::Mul, inverse)];
        steps.extend([Binary::Mul, Binary::Add].into_iter().zip(params[2..].iter().copied()));
        self.chain(centred, &steps, op.outputs[0]);
    }

    /// An operand with other extents: reshaped at once if constant, else by a reshape.
    pub(super) fn reshaped(&mut self, name: &str, id: ValueId, shape: Vec<usize>) -> ValueId {
        match self.net.value(id).data.clone() {
            Some(tensor) => self.constant(name, shape, tensor.data.to_f32()),
            None if self.shape(id) == shape => id,
            None => self.op(name, OpKind::Reshape, &[id], shape),
        }
    }

    /// Applies operations in sequence to a value; the last one gives the result.
    fn chain(&mut self, mut current: ValueId, steps: &[(Binary, ValueId)], out: ValueId) {
        let shape = self.shape(current);
        for (i, &(f, operand)) in steps.iter().enumerate() {
            if i + 1 == steps.len() {
                self.push(OpKind::Binary(f), &[current, operand], out);
            } else {
                current = self.op("normed", OpKind::Binary(f), &[current, operand], shape.clone());
            }
        }
    }

    /// `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.
    fn norm(&mut self, op: &Op, axes: &[usize], epsilon: f32, per_channel: bool) {
        let epsilon = norms::held_epsilon(epsilon);
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
        // Gamma and beta broadcast to their axes in x.
        let mut wide = vec![1; shape.len()];
        if per_channel {
            wide[1] = shape[1];
        } else {
            axes.iter().for_each(|&a| wide[a] = shape[a]);
        }
        let affine: Vec<ValueId> = ["gamma", "beta"]
            .into_iter()
            .zip(&op.inputs[1..])
            .map(|(name, &id)| self.reshaped(name, id, wide.clone()))
            .collect();
        let mut steps: Vec<(Binary, ValueId)> = vec![(Binary::Mul, inverse)];
        steps.extend([Binary::Mul, Binary::Add].into_iter().zip(affine));
        self.chain(centred, &steps, op.outputs[0]);
    }
}
