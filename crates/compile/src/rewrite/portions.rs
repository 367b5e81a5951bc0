//! Factors of some channels of a product with constant weights, such as the queries among queries, keys and values, become factors of the
//! weights of these channels. Ours.

use super::affines::affine;
use super::channels::{Moved, channels_of};
use super::scalars::factors;
use super::{Builder, Names, makers, remove, stays_finite, stays_normal, stays_precise};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, ValueId, compress};
use half::f16;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Channels of a product, and the multiplication whose factor they take.
struct Portion {
    /// Positions of the product, of the multiplication, and of what computes its operand.
    product: usize,
    multiplication: usize,
    last: usize,
    channels: Vec<usize>,
    factor: f32,
    /// True if the product of two computed matrices reads the result itself.
    direct: bool,
}

/// Multiplies the weights of a product's channels by the number that multiplies these channels alone, if a product of two computed matrices
/// reads them and no gain of its tasks represents the number. Weights of fp16 take a power of two only, which does not round them again: the
/// number keeps the rest, between one and two.
///
/// Barriers: other readers of these channels, outputs of the network, compressed weights.
pub fn scale_portions(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let (found, uses) = (found(net), net.read_counts());
    let mut names = Names::default();
    let mut gone = HashSet::new();
    for Portion { product, multiplication, last, channels, factor, direct } in found {
        let name = net.ops[product].name.clone();
        let matrix = net.ops[product].inputs[1];
        let Some(weights) = net.value(matrix).data.clone() else { continue };
        let row = weights.data.len() / weights.shape[0].max(1);
        let all = weights.data.floats();
        let rows = channels.iter().flat_map(|&channel| &all[channel * row..(channel + 1) * row]);
        let given: Vec<f32> = rows.copied().collect();
        let rounded = given.iter().any(|&x| f16::from_f32(x).to_f32() != x);
        let share = if rounded { factor } else { factor.abs().log2().floor().exp2() };
        let made: Vec<f32> = given.iter().map(|x| x * share).collect();
        let precise = stays_normal(&made) && stays_precise(&made, row, &given, |_| share, &[]);
        let pays = share != 1.0 && (direct || share == factor);
        if !pays || !precise || !stays_finite(&made, &[&given]) {
            continue;
        }
        drop(all);
        // Weights that nothing else reads are changed in place.
        if uses.get(matrix.0 as usize) == Some(&1) {
            net.values[matrix.0 as usize].data = None;
        }
        let shape = weights.shape.clone();
        let mut data = match Arc::try_unwrap(weights).map(|own| own.data) {
            Ok(Data::F32(data)) => data,
            Ok(other) => other.to_f32(),
            Err(shared) => shared.data.to_f32(),
        };
        for (&channel, made) in channels.iter().zip(made.chunks(row.max(1))) {
            data[channel * row..(channel + 1) * row].copy_from_slice(made);
        }
        let bias = net.ops[product].inputs.get(2).and_then(|&id| net.value(id).data.clone());
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        let count = shape[0];
        let mut inputs = vec![builder.constant_of("weight", Tensor { shape, data: Data::F32(data) })];
        if let Some(bias) = bias {
            let mut data = bias.data.to_f32();
            // One number is the bias of all channels.
            if data.len() == 1 {
                data = vec![data[0]; count];
            }
            channels.iter().for_each(|&channel| data[channel] *= share);
            inputs.push(builder.constant("bias", vec![data.len()], data));
        }
        let rest = factor / share;
        let kept = (rest != 1.0).then(|| builder.constant("rest", vec![], vec![rest]));
        net.ops[product].inputs.splice(1.., inputs);
        reasons.say(|| {
            let (part, op) = (channels.len(), &net.ops[product].name);
            format!("{}: {part} channels of {op} take the factor {share}", net.ops[multiplication].name)
        });
        let constant = |id: &ValueId| net.value(*id).data.is_some();
        match kept {
            None => {
                net.ops[last].outputs = net.ops[multiplication].outputs.clone();
                gone.insert(multiplication);
            }
            Some(rest) => {
                let at = net.ops[multiplication].inputs.iter().position(constant).unwrap_or(1);
                net.ops[multiplication].inputs[at] = rest;
            }
        }
    }
    remove(net, &gone);
    Ok(())
}

fn found(net: &Net) -> Vec<Portion> {
    let (makers, reads) = (makers(net), net.read_counts());
    let places: HashMap<ValueId, usize> =
        net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let mut readers: HashMap<ValueId, Vec<&Op>> = HashMap::new();
    for op in &net.ops {
        op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(op));
    }
    let only = |id: ValueId| match readers.get(&id).map(Vec::as_slice) {
        Some(&[reader]) if !net.outputs.contains(&id) => Some(reader),
        _ => None,
    };
    let mut found = Vec::new();
    for (at, op) in net.ops.iter().enumerate() {
        let Some((Binary::Mul, x, number)) = affine(net, op) else { continue };
        let out = op.outputs[0];
        let whole = number.data.len() == 1 && net.value(x).ty == net.value(out).ty;
        let mut read = Some(out).filter(|_| whole && only(x).is_some());
        let product = loop {
            let Some((id, reader)) = read.and_then(|id| Some((id, only(id)?))) else { break None };
            match reader.kind {
                OpKind::MatMul { .. } => break Some((id, reader)),
                OpKind::Reshape | OpKind::Transpose { .. } => read = reader.outputs.first().copied(),
                _ => break None,
            }
        };
        let Some((id, reader)) = product else { continue };
        let (factor, direct) = (number.data.to_f32()[0], id == out);
        // The tasks of a product apply an exact factor of its operands themselves.
        let gain = factors(net, reader, &makers, &reads).filter(|_| direct).and_then(|all| all.gain());
        if gain.is_some() || !factor.is_normal() {
            continue;
        }
        if let Some((product, channels)) = portion(net, x, &makers, &readers) {
            let product = places[&product.outputs[0]];
            found.push(Portion { product, multiplication: at, last: places[&x], channels, factor, direct });
        }
    }
    found
}

/// The product that computes a value as some of its channels, which nothing else reads, and their numbers.
fn portion<'a>(
    net: &Net,
    x: ValueId,
    makers: &HashMap<ValueId, &'a Op>,
    readers: &HashMap<ValueId, Vec<&Op>>,
) -> Option<(&'a Op, Vec<usize>)> {
    let mut moves = Vec::new();
    let mut id = x;
    let product = loop {
        let op = *makers.get(&id)?;
        match op.kind {
            OpKind::Reshape | OpKind::Transpose { .. } | OpKind::Slice { .. } => moves.push(op),
            _ => break op,
        }
        id = op.inputs[0];
    };
    let axis = channels_of(net, product)?;
    let plain = |id: &ValueId| net.value(*id).data.as_ref().is_some_and(|data| !compress::is_compressed(&data.data));
    let shape = &net.value(id).ty.shape;
    if !product.inputs[1..].iter().all(plain) || net.value(product.inputs[1]).ty.shape[0] != shape[axis] {
        return None;
    }
    let inner: usize = shape[axis + 1..].iter().product();
    let of_channels = |stride: usize| (inner..inner * shape[axis]).contains(&stride);
    let (mut moved, mut first) = (Moved::whole(shape), 0);
    for op in moves.iter().rev() {
        let from = op.inputs[0];
        let others = readers[&from].iter().filter(|other| other.outputs != op.outputs);
        let mut apart = !net.outputs.contains(&from);
        match &op.kind {
            OpKind::Slice { begin, end, stride } => {
                let given = &net.value(from).ty.shape;
                let mut cut = Vec::new();
                for a in (0..given.len()).filter(|&a| end[a] - begin[a] < given[a]) {
                    moved.0[a].retain(|&(extent, _)| extent > 1);
                    let &[(_, distance)] = moved.0[a].as_slice() else { return None };
                    if stride[a] != 1 || !of_channels(distance) {
                        return None;
                    }
                    first += begin[a] * distance;
                    moved.0[a] = vec![(end[a] - begin[a], distance)];
                    cut.push(a);
                }
                // Slices apart from each other along an axis of channels have no channel in common.
                for other in others {
                    let OpKind::Slice { begin: low, end: high, .. } = &other.kind else { return None };
                    apart &= cut.iter().any(|&a| high[a] <= begin[a] || end[a] <= low[a]);
                }
            }
            OpKind::Transpose { perm } => {
                apart &= others.count() == 0;
                moved = moved.transposed(perm);
            }
            _ => {
                apart &= others.count() == 0;
                moved = moved.reshaped(&net.value(op.outputs[0]).ty.shape)?;
            }
        }
        if !apart {
            return None;
        }
    }
    let parts = moved.0.iter().flatten().filter(|&&(extent, distance)| extent > 1 && of_channels(distance));
    let channels = parts.fold(vec![first / inner], |all: Vec<usize>, &(extent, distance)| {
        all.iter().flat_map(|&at| (0..extent).map(move |i| at + i * distance / inner)).collect()
    });
    Some((product, channels))
}
