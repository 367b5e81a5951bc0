//! The reference evaluator, which defines the meaning of a net: direct implementations of its operations.
//!
//! Floats are computed in `f32` whatever their declared type, so that a result differs from exact arithmetic by `f32`
//! rounding only; sums of reductions and normalizations are accumulated in `f64`. Integers and truth values are
//! `i32`: arithmetic on them is exact and wraps, and division by zero gives zero; division and means truncate. Integers of 64 bits
//! are held in 32; [`reaches`] detects results beyond that. Conversions from floats saturate, and so do
//! reductions to 8 and 16 bits. Matrix products and convolutions of integers are computed in `f32` and round to nearest; roots of
//! integers truncate.

mod detection;
mod elementwise;
mod indexing;
pub(crate) mod linear;
mod looped;
mod movement;
mod rounding;
mod statistics;
mod window;

use crate::check::check;
use crate::error::Error;
use crate::graph::{DType, Data, Net, Tensor, TensorType, ValueId};
use crate::infer::infer;
use crate::native;
use crate::ops::OpKind;
use rounding::{Round, whole_numbers};
use std::borrow::Cow;
use std::sync::Arc;

/// Outputs of the net for these inputs, both in the net's order.
///
/// Inputs have the declared shapes; a float input may be `F16` or `F32` independent of its declaration, other types must match.
/// Float outputs are `F32`, others have their declared type. The net is checked first; the first violation is the
/// error. Values are freed after their last use.
pub fn eval(net: &Net, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    eval_traced(net, inputs, &mut |_, _| {})
}

/// As [`eval`], rounding each result to its declared element type, like a processor without wider
/// types.
pub fn eval_typed(net: &Net, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    walk(net, inputs, Round::Declared, &mut |_, _| {})
}

/// As [`eval`], rounding every float input and result to fp16: the loss of half precision if each
/// operation is computed exactly.
pub fn eval_rounded(net: &Net, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    eval_rounded_traced(net, inputs, &mut |_, _| {})
}

/// As [`eval_rounded`], rounding numbers near the middle of two fp16 numbers to either one, by a seed: as other orders of the same arithmetic
/// do. Numbers that fp16 represents stay as they are.
pub fn eval_dithered(net: &Net, inputs: &[Tensor], seed: u32) -> Result<Vec<Tensor>, Error> {
    walk(net, inputs, Round::Dithered(seed), &mut |_, _| {})
}

/// As [`eval_rounded`], with the digits of fp16 and the exponents of `f32`: the loss of precision alone, for networks with numbers that fp16 does
/// not represent, such as a divisor's least value of 1e-12.
pub fn eval_shortened(net: &Net, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    walk(net, inputs, Round::Digits, &mut |_, _| {})
}

/// As [`eval_rounded`], calling `trace` with the name and data of every input and every rounded result, in definition order.
pub fn eval_rounded_traced(
    net: &Net,
    inputs: &[Tensor],
    trace: &mut dyn FnMut(&str, &Tensor),
) -> Result<Vec<Tensor>, Error> {
    walk(net, inputs, Round::Half, trace)
}

/// As [`eval`], calling `trace` with the name and data of every input and every result, in definition order.
pub fn eval_traced(net: &Net, inputs: &[Tensor], trace: &mut dyn FnMut(&str, &Tensor)) -> Result<Vec<Tensor>, Error> {
    walk(net, inputs, Round::Nothing, trace)
}

fn walk(
    net: &Net,
    inputs: &[Tensor],
    round: Round,
    trace: &mut dyn FnMut(&str, &Tensor),
) -> Result<Vec<Tensor>, Error> {
    if let Err(mut errors) = check(net) {
        return Err(errors.swap_remove(0));
    }
    if inputs.len() != net.inputs.len() {
        return Err(Error::InputCount { found: inputs.len(), expected: net.inputs.len() });
    }
    let mut values: Vec<Option<Arc<Buffer>>> = vec![None; net.values.len()];
    for (&id, tensor) in net.inputs.iter().zip(inputs) {
        let value = net.value(id);
        accepts(&value.name, &value.ty, tensor)?;
        let buffer = round.apply(Buffer::from(&tensor.data), &value.ty, id.0);
        match round {
            Round::Nothing => trace(&value.name, tensor),
            _ => trace(&value.name, &buffer.to_tensor(&value.ty)),
        }
        values[id.0 as usize] = Some(Arc::new(buffer));
    }
    operations(net, &mut values, round, trace)?;
    Ok(net.outputs.iter().map(|&id| load(net, &mut values, id).to_tensor(&net.value(id).ty)).collect())
}

/// Computes the operations of a checked net, given its inputs and constants.
fn operations(
    net: &Net,
    values: &mut [Option<Arc<Buffer>>],
    round: Round,
    trace: &mut dyn FnMut(&str, &Tensor),
) -> Result<(), Error> {
    let mut uses = net.read_counts();
    let whole = if round.all() { whole_numbers(net) } else { Vec::new() };
    for op in &net.ops {
        let operands: Vec<Arc<Buffer>> = op.inputs.iter().map(|&id| load(net, values, id)).collect();
        let views: Vec<View> =
            operands.iter().zip(&op.inputs).map(|(buffer, &id)| View { ty: &net.value(id).ty, buffer }).collect();
        let results = match &op.kind {
            OpKind::Loop(l) => looped::run(l, &operands, round),
            kind => apply(kind, &views, &net.value(op.outputs[0]).ty).map(|buffer| vec![buffer]),
        };
        for (&output, buffer) in op.outputs.iter().zip(results.map_err(|e| e.in_op(&op.name))?) {
            let result = &net.value(output).ty;
            let buffer = match whole.get(output.0 as usize) {
                Some(true) => buffer.rounded_whole(),
                _ => round.apply(buffer, result, output.0),
            };
            trace(&net.value(output).name, &buffer.to_tensor(result));
            values[output.0 as usize] = Some(Arc::new(buffer));
        }
        for &id in &op.inputs {
            uses[id.0 as usize] -= 1;
            if uses[id.0 as usize] == 0 {
                values[id.0 as usize] = None;
            }
        }
    }
    Ok(())
}

/// Result of one operation on constants, rounded once to the result's element type. `declared` is as in
/// [`infer`]. Errors: those of inference and evaluation, and a constant whose data does not fill its shape.
pub fn fold(kind: &OpKind, inputs: &[&Tensor], declared: Option<&TensorType>) -> Result<Tensor, Error> {
    let types: Vec<TensorType> = inputs.iter().map(|t| t.ty()).collect();
    for (tensor, ty) in inputs.iter().zip(&types) {
        let (found, expected) = (tensor.data.len(), ty.elements());
        if found != expected {
            return Err(Error::ElementCount { kind: kind.name(), found, expected });
        }
    }
    let result = infer(kind, &types.iter().collect::<Vec<_>>(), declared)?.swap_remove(0);
    let operands: Vec<Buffer> = inputs.iter().map(|t| Buffer::from(&t.data)).collect();
    let views: Vec<View> = operands.iter().zip(&types).map(|(buffer, ty)| View { ty, buffer }).collect();
    let data = match apply(kind, &views, &result)? {
        Buffer::Float(values) => Data::from_f32(result.dtype, &values),
        Buffer::Integer(values) => Data::from_i32(result.dtype, &values),
    };
    Ok(Tensor { shape: result.shape, data })
}

/// Largest magnitude of an operation's results on these operands, computed in `f32` independent of the element types, infinite beyond
/// `f32`: if it exceeds a result's type, its integers have wrapped or saturated. `None` if the operation does not
/// accept floats.
pub fn reaches(kind: &OpKind, inputs: &[&Tensor], result: &TensorType) -> Option<f32> {
    // Positions stay integers, and truth values stay truth values.
    let places = matches!(kind, OpKind::ScatterAlong { .. } | OpKind::ScatterNd { .. }).then_some(1);
    let floats: Vec<Tensor> = inputs
        .iter()
        .enumerate()
        .map(|(at, t)| match t.data.dtype() {
            DType::Bool => (*t).clone(),
            _ if places == Some(at) => (*t).clone(),
            _ => Tensor { shape: t.shape.clone(), data: Data::F32(t.data.to_f32()) },
        })
        .collect();
    let declared = TensorType { dtype: DType::F32, shape: result.shape.clone() };
    let wide = fold(kind, &floats.iter().collect::<Vec<_>>(), Some(&declared)).ok()?;
    Some(wide.data.to_f32().into_iter().filter(|x| !x.is_nan()).fold(0.0, |most, x| most.max(x.abs())))
}

fn accepts(name: &str, ty: &TensorType, tensor: &Tensor) -> Result<(), Error> {
    let found = tensor.ty();
    let same = found.dtype == ty.dtype || (found.dtype.is_float() && ty.dtype.is_float());
    if !same || found.shape != ty.shape || tensor.data.len() != ty.elements() {
        return Err(Error::InputType { input: name.to_string(), found, expected: ty.clone() });
    }
    Ok(())
}

fn load(net: &Net, values: &mut [Option<Arc<Buffer>>], id: ValueId) -> Arc<Buffer> {
    let slot = &mut values[id.0 as usize];
    if slot.is_none() {
        // The net is checked, so a value without buffer at this point is a constant.
        let data = net.value(id).data.as_ref().expect("checked nets define values before use");
        *slot = Some(Arc::new(Buffer::from(&data.data)));
    }
    slot.clone().expect("filled above")
}

/// Elements during evaluation: floats of any type, or integers and truth values.
#[derive(Clone, Debug, PartialEq)]
enum Buffer {
    Float(Vec<f32>),
    Integer(Vec<i32>),
}

impl From<&Data> for Buffer {
    fn from(data: &Data) -> Self {
        if data.dtype().is_float() { Buffer::Float(data.to_f32()) } else { Buffer::Integer(data.to_i32()) }
    }
}

impl Buffer {
    /// Floats as `F32`, others as their type.
    fn to_tensor(&self, ty: &TensorType) -> Tensor {
        let data = match self {
            Buffer::Float(values) => Data::F32(values.clone()),
            Buffer::Integer(values) => Data::from_i32(ty.dtype, values),
        };
        Tensor { shape: ty.shape.clone(), data }
    }

    /// Computed floats converted to that element type: integers round to nearest and saturate.
    fn store(dtype: DType, values: Vec<f32>) -> Buffer {
        if dtype.is_float() {
            return Buffer::Float(values);
        }
        let (least, most) = range(dtype);
        let round = |x: &f32| (x.round_ties_even() as i64).clamp(least, most) as i32;
        Buffer::Integer(values.iter().map(round).collect())
    }
}

/// Least and greatest value of an integer type.
fn range(dtype: DType) -> (i64, i64) {
    let (least, greatest) = match dtype.narrow_range() {
        Some(range) => range,
        None if dtype == DType::Bool => (0, 1),
        None => (i32::MIN, i32::MAX),
    };
    (least.into(), greatest.into())
}

/// An integer wrapped to that type.
fn wrapped(dtype: DType, x: i64) -> i32 {
    match dtype {
        DType::I8 => (x as i8).into(),
        DType::U8 => (x as u8).into(),
        DType::I16 => (x as i16).into(),
        DType::U16 => (x as u16).into(),
        DType::Bool => i32::from(x != 0),
        _ => x as i32,
    }
}

/// One operand.
#[derive(Clone, Copy)]
struct View<'a> {
    ty: &'a TensorType,
    buffer: &'a Buffer,
}

impl<'a> View<'a> {
    fn shape(&self) -> &'a [usize] {
        &self.ty.shape
    }

    fn floats(&self) -> Cow<'a, [f32]> {
        match self.buffer {
            Buffer::Float(values) => Cow::Borrowed(values),
            Buffer::Integer(values) => Cow::Owned(values.iter().map(|&x| x as f32).collect()),
        }
    }

    fn integers(&self) -> Cow<'a, [i32]> {
        match self.buffer {
            Buffer::Float(values) => Cow::Owned(values.iter().map(|&x| x as i32).collect()),
            Buffer::Integer(values) => Cow::Borrowed(values),
        }
    }
}

/// Computes one operation whose operand and result types are those of [`crate::infer`].
fn apply(kind: &OpKind, inputs: &[View], result: &TensorType) -> Result<Buffer, Error> {
    let x = inputs[0];
    let store = |values| Buffer::store(result.dtype, values);
    Ok(match kind {
        OpKind::Conv { strides, pads, dilations, groups } => {
            store(linear::conv(inputs, &result.shape, strides, pads, dilations, *groups))
        }
        OpKind::ConvTranspose { strides, pads, dilations, groups, .. } => {
            store(linear::conv_transpose(inputs, &result.shape, strides, pads, dilations, *groups))
        }
        OpKind::MatMul { transpose_x, transpose_y } => {
            store(linear::matmul(inputs, &result.shape, *transpose_x, *transpose_y))
        }
        OpKind::Linear => store(linear::linear(inputs)),
        OpKind::Combine if result.dtype.is_float() => store(linear::combine(inputs)),
        OpKind::Combine => {
            let sums = linear::combine_whole(inputs);
            Buffer::Integer(sums.into_iter().map(|v| wrapped(result.dtype, v)).collect())
        }
        OpKind::Unary(unary) => elementwise::unary(unary, x),
        OpKind::Binary(binary) => elementwise::binary(*binary, inputs, result),
        OpKind::Select => elementwise::select(inputs, result),
        OpKind::Pool { kind, kernel, strides, pads, .. } => {
            store(window::pool(*kind, x, &result.shape, kernel, strides, pads))
        }
        OpKind::Reduce { kind, axes, .. } if statistics::is_whole(*kind) && !result.dtype.is_float() => {
            let sums = statistics::reduce_whole(*kind, x, axes);
            let (least, most) = range(result.dtype);
            let fitted = |v: i64| match result.dtype {
                DType::I32 => v as i32,
                _ => v.clamp(least, most) as i32,
            };
            Buffer::Integer(sums.into_iter().map(fitted).collect())
        }
        OpKind::Reduce { kind, axes, .. } => {
            let mut values = statistics::reduce(*kind, x, axes);
            if !result.dtype.is_float() {
                values.iter_mut().for_each(|v| *v = v.trunc());
            }
            store(values)
        }
        OpKind::Softmax { axis } => store(statistics::softmax(x, *axis)),
        OpKind::Concat { axis } => movement::concat(inputs, *axis, result),
        OpKind::Reshape => x.buffer.clone(),
        OpKind::Broadcast => movement::broadcast(x, &result.shape),
        OpKind::Transpose { perm } => movement::transpose(x, perm),
        OpKind::Slice { begin, stride, .. } => movement::slice(x, begin, stride, &result.shape),
        OpKind::Gather { axis } => movement::gather(x, inputs[1], *axis)?,
        OpKind::GatherAlong { axis } => indexing::gather(x, &indexing::along(x, inputs[1], *axis)?, 1),
        OpKind::GatherNd { batch_dims } => {
            let (places, block) = indexing::nd(x, inputs[1], *batch_dims)?;
            indexing::gather(x, &places, block)
        }
        OpKind::ScatterAlong { axis, mode } => {
            let places = indexing::along(x, inputs[1], *axis)?;
            indexing::scatter(*mode, x, inputs[2], &places, 1, result.dtype)
        }
        OpKind::ScatterNd { mode } => {
            let (places, block) = indexing::nd(x, inputs[1], 0)?;
            indexing::scatter(*mode, x, inputs[2], &places, block, result.dtype)
        }
        OpKind::ArgReduce { greatest, last, axis, .. } => indexing::arg_reduce(x, *axis, *greatest, *last),
        OpKind::ArgSort { axis, descending } => indexing::arg_sort(x, *axis, *descending),
        OpKind::Suppress { overlap, score_threshold, most, per_class } => {
            let overlap = inputs.get(2).and_then(|given| given.floats().first().copied()).unwrap_or(*overlap);
            let limits = detection::Limits { overlap, score: *score_threshold, most: *most, per_class: *per_class };
            detection::suppress(x, inputs[1], &limits)
        }
        OpKind::Sample { mode, outside } => store(indexing::sample(inputs, *mode, *outside, &result.shape)),
        OpKind::BatchNorm { epsilon } => store(statistics::batch_norm(inputs, *epsilon)),
        OpKind::LayerNorm { axes, epsilon } => store(statistics::layer_norm(inputs, axes, *epsilon)),
        OpKind::InstanceNorm { epsilon } => store(statistics::instance_norm(inputs, *epsilon)),
        OpKind::Pad { pads, value } => movement::pad(x, pads, *value),
        OpKind::PadEdge { pads, mode } => movement::pad_edge(x, pads, *mode),
        OpKind::Resize { mode, coordinates } => store(movement::resize(x, *mode, *coordinates, &result.shape)),
        OpKind::Cast => elementwise::cast(x, result.dtype),
        // A loop has several results; the caller that walks the network evaluates it.
        OpKind::Loop(_) => return Err(Error::NotDeclared { kind: kind.name() }),
        OpKind::Native(native) => {
            let data: Vec<Cow<[f32]>> = inputs.iter().map(View::floats).collect();
            let four = |shape: &[usize]| std::array::from_fn(|i| shape.get(i).copied().unwrap_or(1));
            let operand = |(view, data)| native::Operand { shape: four(View::shape(view)), data };
            let operands: Vec<native::Operand> = inputs.iter().zip(data.iter().map(|d| &**d)).map(operand).collect();
            store(native::eval(native, &operands, four(&result.shape)))
        }
    })
}

/// Row-major strides of a shape, in elements.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// Strides of an operand along the axes of `shape` under numpy's broadcasting: zero along repeated axes.
fn broadcast_strides(operand: &[usize], shape: &[usize]) -> Vec<usize> {
    let missing = shape.len() - operand.len();
    let own = strides(operand);
    (0..shape.len())
        .map(|axis| if axis < missing || operand[axis - missing] == 1 { 0 } else { own[axis - missing] })
        .collect()
}

/// Visits the rows (last axis) of a shape in order with the offset of each row's first element in `N` operands.
fn rows<const N: usize>(shape: &[usize], strides: [&[usize]; N], mut visit: impl FnMut([usize; N])) {
    let outer = shape.len().saturating_sub(1);
    let mut index = vec![0; outer];
    let mut offsets = [0; N];
    loop {
        visit(offsets);
        let mut axis = outer;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset += strides[axis];
            }
            if index[axis] < shape[axis] {
                break;
            }
            for (offset, strides) in offsets.iter_mut().zip(strides) {
                *offset -= strides[axis] * shape[axis];
            }
            index[axis] = 0;
        }
    }
}
