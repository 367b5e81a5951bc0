//! Integer products whose sums are scaled to floats directly: the conversion in between is dropped, since the sums are integers, and a
//! power of two keeps them within fp16.

use super::{Builder, Names, levels};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, Tensor, ValueId};
use std::collections::HashMap;

/// Largest `n` such that fp16 represents all integers from 0 to `n` exactly.
pub(crate) const LARGEST_WHOLE: f32 = 2048.0;
/// Largest finite fp16 number.
const LARGEST: f32 = 65504.0;
/// Recursion depth limit of the bound on an operand's magnitude, in operations.
const LONGEST_PROOF: usize = 8;

/// `mul(cast(product(x, w)), s)` of integers becomes `mul(product(x, w / 2^k), s * 2^k)`; dynamic quantization has this form.
pub fn scale_whole_sums(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    levels::add_behind_scales(net, reasons);
    let makers: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let uses = net.read_counts();
    let found: Vec<Found> = (0..net.ops.len()).filter_map(|at| find(net, &makers, &uses, at)).collect();
    let mut names = Names::default();
    // New operations, each with the position that it is inserted before.
    let mut added: Vec<(usize, Op)> = Vec::new();
    for Found { product, cast, readers, power } in found {
        let (sums, whole) = (net.ops[product].outputs[0], net.ops[cast].outputs[0]);
        reasons.say(|| format!("{}: sums of integers stay floats, divided by 2^{power}", net.ops[product].name));
        let name = net.ops[product].name.clone();
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        builder.scale_weights(product, (-(power as f32)).exp2());
        for reader in readers {
            let op = builder.net.ops[reader].clone();
            let factor = if op.inputs[0] == whole { op.inputs[1] } else { op.inputs[0] };
            let scaled = builder.scaled(factor, (power as f32).exp2());
            added.extend(builder.ops.drain(..).map(|op| (reader, op)));
            builder.net.ops[reader].inputs = vec![sums, scaled];
        }
    }
    super::insert_before(net, added);
    Ok(())
}

/// A product, the conversion of its sums, their multiplications, and the power of two that the sums are divided by.
struct Found {
    product: usize,
    cast: usize,
    readers: Vec<usize>,
    power: u32,
}

fn find(net: &Net, makers: &HashMap<ValueId, usize>, uses: &[usize], cast: usize) -> Option<Found> {
    let op = &net.ops[cast];
    let (&from, &to) = (op.inputs.first()?, op.outputs.first()?);
    let dtype = net.value(to).ty.dtype;
    if op.kind != OpKind::Cast || dtype.is_float() || dtype == DType::Bool || net.outputs.contains(&to) {
        return None;
    }
    let product = *makers.get(&from)?;
    let made = &net.ops[product];
    let per_output = match made.kind {
        OpKind::Conv { .. } | OpKind::Linear => true,
        OpKind::MatMul { transpose_x: false, transpose_y: false } => false,
        _ => return None,
    };
    if uses[from.0 as usize] != 1 || made.inputs.len() != 2 {
        return None;
    }
    let weights = net.value(made.inputs[1]).data.as_ref()?;
    let bound = bound(net, makers, made.inputs[0], LONGEST_PROOF)? * largest_sum(weights, per_output)?;
    if bound <= LARGEST_WHOLE {
        return None;
    }
    let readers: Vec<usize> = (0..net.ops.len()).filter(|&at| net.ops[at].inputs.contains(&to)).collect();
    let scales = |&at: &usize| {
        let op = &net.ops[at];
        op.kind == OpKind::Binary(Binary::Mul)
            && op.inputs[0] != op.inputs[1]
            && op.outputs.iter().all(|&id| net.value(id).ty.dtype.is_float())
    };
    let power = (bound / LARGEST).log2().ceil().max(0.0) as u32;
    readers.iter().all(scales).then_some(Found { product, cast, readers, power })
}

/// Largest sum of weight magnitudes over the outputs; `None` if the weights are not integers.
fn largest_sum(weights: &Tensor, per_output: bool) -> Option<f32> {
    let (data, shape) = (weights.data.to_f32(), &weights.shape);
    if data.iter().any(|x| x.fract() != 0.0) {
        return None;
    }
    if per_output {
        let own = data.len() / shape.first()?.max(&1);
        return data.chunks(own.max(1)).map(|chunk| magnitudes(chunk.iter())).reduce(f32::max);
    }
    let columns = *shape.last()?;
    (0..columns).map(|c| magnitudes(data.iter().skip(c).step_by(columns))).reduce(f32::max)
}

fn magnitudes<'a>(numbers: impl Iterator<Item = &'a f32>) -> f32 {
    numbers.map(|x| x.abs()).sum()
}

/// Largest magnitude of a value whose elements are provably integers; `None` if there is no proof.
fn bound(net: &Net, makers: &HashMap<ValueId, usize>, id: ValueId, depth: usize) -> Option<f32> {
    let value = net.value(id);
    if let Some(tensor) = &value.data {
        let data = tensor.data.to_f32();
        return data.iter().all(|x| x.fract() == 0.0).then(|| data.iter().fold(0.0, |most: f32, x| most.max(x.abs())));
    }
    match value.ty.dtype {
        DType::U8 => return Some(255.0),
        DType::I8 => return Some(128.0),
        _ => {}
    }
    let op = net.ops.get(*makers.get(&id)?).filter(|_| depth > 0)?;
    let of = |at: usize| bound(net, makers, *op.inputs.get(at)?, depth - 1);
    let natural = |at: usize| net.value(op.inputs[at]).ty.dtype == DType::U8;
    match op.kind {
        // A difference of two non-negative numbers is no larger in magnitude than either.
        OpKind::Binary(Binary::Sub) if natural(0) && natural(1) => Some(of(0)?.max(of(1)?)),
        OpKind::Binary(Binary::Sub | Binary::Add) => Some(of(0)? + of(1)?),
        OpKind::Cast if !net.value(op.inputs[0]).ty.dtype.is_float() => of(0),
        OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Broadcast => of(0),
        _ => None,
    }
}

impl Builder<'_> {
    fn scale_weights(&mut self, product: usize, factor: f32) {
        let Some(weights) = self.net.value(self.net.ops[product].inputs[1]).data.clone() else { return };
        let data = Data::F32(weights.data.to_f32().iter().map(|w| w * factor).collect());
        let id = self.constant_of("weight", Tensor { shape: weights.shape.clone(), data });
        self.net.ops[product].inputs[1] = id;
    }

    /// A factor multiplied by a number.
    fn scaled(&mut self, factor: ValueId, number: f32) -> ValueId {
        if let Some(tensor) = self.net.value(factor).data.clone() {
            return self.constant(
                "factor",
                tensor.shape.clone(),
                tensor.data.to_f32().iter().map(|x| x * number).collect(),
            );
        }
        let shape = self.shape(factor);
        let number = self.constant("power", vec![1], vec![number]);
        self.op("factor", OpKind::Binary(Binary::Mul), &[factor, number], shape)
    }
}
