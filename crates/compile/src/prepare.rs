//! Network to network, before anything is a layer: constants are computed, conversions dropped, normalizations put into
//! elementary operations, and per-channel affines into the convolution before them.
//!
//! Each step is a function over the whole network, applied once, in the order of [`crate::passes::ALL`].

use crate::Options;
use crate::error::{Error, Result};
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, ReduceKind, Tensor, TensorType, Unary, Value, ValueId};
use std::collections::HashMap;
use std::sync::Arc;

mod native;

pub(crate) use native::expand_natives;

/// Results larger than this stay operations: folding them would only grow the program.
const FOLD_ELEMENTS: usize = 16 << 20;

/// Most pieces that a gather is joined of: each is a copy.
const MOST_RUNS: usize = 512;

/// An operation whose operands are all constants becomes a constant.
pub(crate) fn fold_constants(net: &mut Net, _: &Options) -> Result<()> {
    let ops = std::mem::take(&mut net.ops);
    for op in ops {
        let constant = !op.inputs.is_empty() && op.inputs.iter().all(|&i| net.value(i).data.is_some());
        let small = op.outputs.iter().all(|&o| net.value(o).ty.elements() <= FOLD_ELEMENTS);
        let is_output = op.outputs.iter().any(|o| net.outputs.contains(o));
        if !constant || !small || is_output {
            net.ops.push(op);
            continue;
        }
        let operands: Vec<Arc<Tensor>> = op.inputs.iter().filter_map(|&i| net.value(i).data.clone()).collect();
        let operands: Vec<&Tensor> = operands.iter().map(|t| t.as_ref()).collect();
        let Some(&output) = op.outputs.first() else { continue };
        let folded = anemone_net::eval::fold(&op.kind, &operands, Some(&net.value(output).ty))
            .map_err(|e| Error::Net(format!("{}: {e}", op.name)))?;
        net.values[output.0 as usize].data = Some(Arc::new(folded));
    }
    Ok(())
}

/// How often each value is read, network outputs included.
fn uses(net: &Net) -> Vec<usize> {
    let mut uses = vec![0; net.values.len()];
    let reads = net.ops.iter().flat_map(|op| &op.inputs).chain(&net.outputs);
    reads.for_each(|id| uses[id.0 as usize] += 1);
    uses
}

/// Conversions between element types, identities and reshapes that change nothing disappear: the engine has fp16 only.
pub(crate) fn drop_conversions(net: &mut Net, _: &Options) -> Result<()> {
    let mut replace: HashMap<ValueId, ValueId> = HashMap::new();
    let uses = uses(net);
    let ops = std::mem::take(&mut net.ops);
    for mut op in ops {
        for input in &mut op.inputs {
            if let Some(&by) = replace.get(input) {
                *input = by;
            }
        }
        let trivial = match op.kind {
            OpKind::Unary(Unary::Identity) => true,
            // To an integer a float is truncated, which is a task; to a truth value it is compared.
            OpKind::Cast => {
                let dtype = |id: Option<&ValueId>| id.map(|&id| net.value(id).ty.dtype);
                let (from, to) = (dtype(op.inputs.first()), dtype(op.outputs.first()));
                to != Some(DType::Bool) && (from.is_some_and(|d| !d.is_float()) || to.is_some_and(|d| d.is_float()))
            }
            OpKind::Reshape => net.value(op.inputs[0]).ty.shape == net.value(op.outputs[0]).ty.shape,
            _ => false,
        };
        let (input, output) = match (op.inputs.first(), op.outputs.first()) {
            (Some(&i), Some(&o)) if trivial => (i, o),
            _ => {
                net.ops.push(op);
                continue;
            }
        };
        if !net.outputs.contains(&output) {
            replace.insert(output, input);
            continue;
        }
        // The producer writes the network's output itself, unless somebody else reads its result too.
        let producer = net.ops.iter_mut().find(|p| p.outputs.contains(&input));
        match producer {
            Some(producer) if uses[input.0 as usize] == 1 && !net.outputs.contains(&input) => {
                for result in &mut producer.outputs {
                    if *result == input {
                        *result = output;
                    }
                }
            }
            _ => net.ops.push(op),
        }
    }
    Ok(())
}

/// Appends operations and constants to a network under construction.
struct Builder<'a> {
    net: &'a mut Net,
    ops: Vec<Op>,
    name: String,
}

impl Builder<'_> {
    fn constant(&mut self, suffix: &str, shape: Vec<usize>, data: Vec<f32>) -> ValueId {
        let name = self.fresh(suffix);
        let ty = TensorType { dtype: DType::F32, shape: shape.clone() };
        let data = Some(Arc::new(Tensor { shape, data: Data::F32(data) }));
        self.net.add_value(Value { name, ty, data, surface: None })
    }

    fn fresh(&self, suffix: &str) -> String {
        let name = format!("{}.{suffix}", self.name);
        if self.net.values.iter().any(|v| v.name == name) { format!("{name}.{}", self.net.values.len()) } else { name }
    }

    fn op(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
        let ty = TensorType { dtype: DType::F16, shape };
        let name = self.fresh(suffix);
        let output = self.net.add_value(Value { name, ty, data: None, surface: None });
        self.push(kind, inputs, output);
        output
    }

    fn push(&mut self, kind: OpKind, inputs: &[ValueId], output: ValueId) {
        self.ops.push(Op { name: self.name.clone(), kind, inputs: inputs.to_vec(), outputs: vec![output] });
    }
}

/// Norms as means, differences and products; choices by a constant as products with zeros and ones.
pub(crate) fn decompose(net: &mut Net, options: &Options) -> Result<()> {
    let ops = std::mem::take(&mut net.ops);
    for op in ops {
        let mut builder = Builder { net, ops: Vec::new(), name: op.name.clone() };
        match &op.kind {
            OpKind::BatchNorm { epsilon } => builder.batch_norm(&op, *epsilon)?,
            OpKind::LayerNorm { axes, epsilon } if options.modern() && builder.is_trailing(axes, op.inputs[0]) => {
                builder.affine_after(&op, axes, *epsilon);
            }
            OpKind::LayerNorm { axes, epsilon } => builder.norm(&op, axes, *epsilon, false),
            OpKind::InstanceNorm { epsilon } => {
                let rank = builder.net.value(op.inputs[0]).ty.shape.len();
                let axes: Vec<usize> = (2..rank).collect();
                builder.norm(&op, &axes, *epsilon, true);
            }
            OpKind::Select if builder.net.value(op.inputs[0]).data.is_some() => builder.select(&op)?,
            OpKind::Select => builder.blend(&op),
            OpKind::Gather { axis } => builder.gather(&op, *axis)?,
            _ => builder.ops.push(op),
        }
        let ops = builder.ops;
        net.ops.extend(ops);
    }
    Ok(())
}

impl Builder<'_> {
    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

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
        if runs.len() > MOST_RUNS {
            return Err(Error::Unsupported {
                op: op.name.clone(),
                kind: "gather".into(),
                reason: format!("{} runs of positions, at most {MOST_RUNS} are joined", runs.len()),
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

/// A product with one constant matrix is a convolution (`ReplaceMatmulWithConv` of the book's table 22.3): it becomes
/// `linear`, and affines after it can be absorbed.
pub(crate) fn replace_matmul(net: &mut Net, _: &Options) -> Result<()> {
    for at in 0..net.ops.len() {
        let OpKind::MatMul { transpose_x: false, transpose_y } = net.ops[at].kind else { continue };
        let y = net.ops[at].inputs[1];
        let value = net.value(y);
        let (Some(tensor), [outer @ .., rows, columns]) = (&value.data, value.ty.shape.as_slice()) else { continue };
        // The product drops no axis of the constant, so its outer axes must not add any.
        let rank = net.value(net.ops[at].inputs[0]).ty.shape.len();
        if outer.iter().any(|&n| n != 1) || rank < 2 || outer.len() + 2 > rank {
            continue;
        }
        let (rows, columns) = (*rows, *columns);
        let weight = if transpose_y {
            Tensor { shape: vec![rows, columns], data: tensor.data.clone() }
        } else {
            let data = tensor.data.to_f32();
            let turned = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).map(|i| data[i]).collect();
            Tensor { shape: vec![columns, rows], data: Data::F32(turned) }
        };
        let name = format!("{}.weight", net.ops[at].name);
        let ty = TensorType { dtype: value.ty.dtype, shape: weight.shape.clone() };
        let id = net.add_value(Value { name, ty, data: Some(Arc::new(weight)), surface: None });
        net.ops[at].kind = OpKind::Linear;
        net.ops[at].inputs[1] = id;
    }
    Ok(())
}

/// Additions and multiplications of constants per channel become part of the convolution before them: the offset and
/// the gain of the gain-offset control (the book, chapter 22).
pub(crate) fn absorb_affines(net: &mut Net, _: &Options) -> Result<()> {
    let uses = uses(net);
    let ops = std::mem::take(&mut net.ops);
    for op in ops {
        if !absorb(net, &op, &uses) {
            net.ops.push(op);
        }
    }
    Ok(())
}

fn absorb(net: &mut Net, op: &Op, uses: &[usize]) -> bool {
    let OpKind::Binary(f @ (Binary::Add | Binary::Sub | Binary::Mul)) = op.kind else { return false };
    let (Some(&a), Some(&b), Some(&out)) = (op.inputs.first(), op.inputs.get(1), op.outputs.first()) else {
        return false;
    };
    let (x, constant) = match (&net.value(a).data, &net.value(b).data) {
        (None, Some(t)) => (a, t.clone()),
        (Some(t), None) if f != Binary::Sub => (b, t.clone()),
        _ => return false,
    };
    let Some(at) = net.ops.iter().position(|p| p.outputs.contains(&x)) else { return false };
    let rank = net.value(x).ty.shape.len();
    let channel_axis = match net.ops[at].kind {
        OpKind::Conv { .. } => 1,
        OpKind::Linear => rank.wrapping_sub(1),
        _ => return false,
    };
    if uses[x.0 as usize] != 1 || net.outputs.contains(&x) || net.value(x).ty.shape != net.value(out).ty.shape {
        return false;
    }
    let channels = net.value(x).ty.shape[channel_axis];
    let Some(values) = per_channel(&constant, rank, channel_axis, channels) else { return false };
    let Some(weights) = net.value(net.ops[at].inputs[1]).data.clone() else { return false };
    let bias = match net.ops[at].inputs.get(2) {
        None => vec![0.0; channels],
        Some(&id) => match &net.value(id).data {
            Some(t) => t.data.to_f32(),
            None => return false,
        },
    };
    if weights.shape[0] != channels || bias.len() != channels {
        return false;
    }
    let name = net.ops[at].name.clone();
    let mut builder = Builder { net, ops: Vec::new(), name };
    let bias = match f {
        Binary::Add => bias.iter().zip(&values).map(|(b, v)| b + v).collect(),
        Binary::Sub => bias.iter().zip(&values).map(|(b, v)| b - v).collect(),
        _ => {
            let data = weights.data.to_f32();
            let per_output = data.len() / channels;
            let scaled = data.iter().enumerate().map(|(i, w)| w * values[i / per_output]).collect();
            let id = builder.constant("weight", weights.shape.clone(), scaled);
            builder.net.ops[at].inputs[1] = id;
            bias.iter().zip(&values).map(|(b, v)| b * v).collect()
        }
    };
    let id = builder.constant("bias", vec![channels], bias);
    let conv = &mut net.ops[at];
    conv.inputs.truncate(2);
    conv.inputs.push(id);
    conv.outputs = vec![out];
    true
}

/// The constant as one number per channel, where it is that (or one number for all).
fn per_channel(constant: &Tensor, rank: usize, axis: usize, channels: usize) -> Option<Vec<f32>> {
    let data = constant.data.to_f32();
    if data.len() == 1 {
        return Some(vec![data[0]; channels]);
    }
    let missing = rank.checked_sub(constant.shape.len())?;
    let right = constant.shape.iter().enumerate().all(|(i, &n)| n == 1 || i + missing == axis);
    (right && data.len() == channels).then_some(data)
}

/// Operations whose results nobody reads disappear.
pub(crate) fn remove_dead(net: &mut Net, _: &Options) -> Result<()> {
    let mut live: Vec<bool> = vec![false; net.values.len()];
    net.outputs.iter().for_each(|o| live[o.0 as usize] = true);
    let mut ops = std::mem::take(&mut net.ops);
    ops.reverse();
    ops.retain(|op| {
        let needed = op.outputs.iter().any(|o| live[o.0 as usize]);
        if needed {
            op.inputs.iter().for_each(|i| live[i.0 as usize] = true);
        }
        needed
    });
    ops.reverse();
    net.ops = ops;
    Ok(())
}
