//! Two constant addends of one value become one. Ours.
//!
//! Attention adds a table of relative positions and a mask to its scores. Their sum is read once, and the scores are written once.

use super::affines::affine;
use super::{Builder, Names, remove, stays_finite};
use crate::error::{Error, Result};
use crate::ir::ELEMENT_BYTES;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Data, Net, OpKind, Tensor, TensorType, ValueId, eval};
use std::collections::{HashMap, HashSet};

/// Most bytes of a sum of two constants that is larger than both.
const MOST_BYTES: u64 = 1 << 20;

/// Adds the sum of two constants where both are added to a value, perhaps with axes of extent 1 inserted or removed between.
///
/// Barriers: other readers of the first sum, outputs of the network, numbers, which the epilogue of a task adds, and a sum of constants of
/// more than 1 MiB that is larger than both.
pub fn join_addends(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let uses = net.read_counts();
    let mut places: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut names = Names::default();
    let mut gone = HashSet::new();
    for at in 0..net.ops.len() {
        let out = net.ops[at].outputs.first().copied();
        let Some(((second, from, b), out)) = affine(net, &net.ops[at]).zip(out) else { continue };
        let Some(first) = maker_of_sum(net, from, &places, &uses) else { continue };
        let Some((kind, x, a)) = affine(net, &net.ops[first]) else { continue };
        let (inner, outer) = (net.value(net.ops[first].outputs[0]).ty.clone(), &net.value(out).ty);
        let whole = net.value(x).ty == inner && net.value(from).ty == *outer && outer.dtype.is_float();
        let numbers = a.data.len() == 1 || b.data.len() == 1;
        let Some(shape) = in_axes_of(&b.shape, &outer.shape, &inner.shape) else { continue };
        if kind == Binary::Mul || second == Binary::Mul || numbers || !whole {
            continue;
        }
        let [a, b] = [(a.shape.clone(), a), (shape, b)]
            .map(|(shape, given)| Tensor { shape, data: Data::F32(given.data.to_f32()) });
        let shape: Vec<usize> =
            (0..inner.shape.len()).map(|i| extent(&a, i, &inner).max(extent(&b, i, &inner))).collect();
        let elements: usize = shape.iter().product();
        let larger = elements > a.data.len().max(b.data.len());
        if larger && elements as u64 * ELEMENT_BYTES > MOST_BYTES {
            continue;
        }
        let add = OpKind::Binary(if kind == second { Binary::Add } else { Binary::Sub });
        let ty = TensorType { dtype: DType::F32, shape };
        let name = net.ops[first].name.clone();
        let sum = eval::fold(&add, &[&a, &b], Some(&ty)).map_err(|e| Error::Net(format!("{name}: {e}")))?;
        if !stays_finite(&sum.data.to_f32(), &[&a.data.to_f32(), &b.data.to_f32()]) {
            continue;
        }
        reasons.say(|| format!("{}: its constant is part of that of {name}", net.ops[at].name));
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        let sum = builder.constant_of("addend", sum);
        net.ops[first].inputs = vec![x, sum];
        net.ops[first].kind = OpKind::Binary(kind);
        let last = places[&from];
        net.ops[last].outputs = vec![out];
        places.insert(out, last);
        gone.insert(at);
    }
    remove(net, &gone);
    Ok(())
}

/// Position of the operation that computes a value, before reshapes that keep its axes; `None` if anything else reads it on the way.
fn maker_of_sum(net: &Net, mut id: ValueId, places: &HashMap<ValueId, usize>, uses: &[usize]) -> Option<usize> {
    loop {
        let place = *places.get(&id).filter(|_| uses[id.0 as usize] == 1 && !net.outputs.contains(&id))?;
        let op = &net.ops[place];
        let shape = |id: ValueId| net.value(id).ty.shape.as_slice();
        match op.kind {
            OpKind::Reshape if in_axes_of(&[], shape(id), shape(op.inputs[0])).is_some() => id = op.inputs[0],
            _ => return Some(place),
        }
    }
}

/// Extents of a constant beside a value of shape `from`, beside the same value of shape `to`; `None` if more than axes of extent 1 differ.
fn in_axes_of(constant: &[usize], from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let missing = from.len().checked_sub(constant.len())?;
    let axes = |shape: &[usize]| -> Vec<usize> { (0..shape.len()).filter(|&i| shape[i] > 1).collect() };
    let (own, other) = (axes(from), axes(to));
    if own.len() != other.len() || own.iter().zip(&other).any(|(&i, &j)| from[i] != to[j]) {
        return None;
    }
    let mut shape = vec![1; to.len()];
    for (i, j) in own.into_iter().zip(other) {
        shape[j] = i.checked_sub(missing).map_or(1, |i| constant[i]);
    }
    Some(shape)
}

/// Extent of a constant along an axis of the value that it is added to.
fn extent(constant: &Tensor, axis: usize, whole: &TensorType) -> usize {
    let missing = whole.shape.len() - constant.shape.len();
    axis.checked_sub(missing).map_or(1, |i| constant.shape[i])
}
