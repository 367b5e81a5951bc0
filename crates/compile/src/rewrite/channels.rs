//! Order of the channels that a product computes, as the reshapes and transposes behind it need them. Ours.
//!
//! Transposes of more than four axes, as of patches within patches, take a task for every position along the axes that a task has not.
//! Channels of constant coefficients can be computed in any order, so that the order behind all transposes costs nothing.

use super::{Builder, rewrite};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Data, Net, Op, OpKind, Tensor, ValueId, compress};
use anemone_program::order::by_key;
use std::collections::{HashMap, HashSet};

/// Axes of the views that a task reads and writes; what moves along as many takes few tasks in any order.
const VIEW_AXES: usize = 4;

/// Part of an axis of a product: its extent, and the distance of neighbours in elements of the product.
type Atom = (usize, usize);

/// Axes of a value as parts of the axes of a product, outermost first.
#[derive(Clone)]
pub(super) struct Moved(pub(super) Vec<Vec<Atom>>);

impl Moved {
    pub(super) fn whole(shape: &[usize]) -> Moved {
        let mut stride = 1;
        let mut axes: Vec<Vec<Atom>> = Vec::with_capacity(shape.len());
        for &extent in shape.iter().rev() {
            axes.push(vec![(extent, stride)]);
            stride *= extent;
        }
        axes.reverse();
        Moved(axes)
    }

    pub(super) fn transposed(&self, perm: &[usize]) -> Moved {
        Moved(perm.iter().map(|&axis| self.0[axis].clone()).collect())
    }

    /// The same elements with other extents; `None` if an axis would divide a part unevenly.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<Moved> {
        let mut left: Vec<Atom> = self.0.iter().flatten().copied().filter(|&(extent, _)| extent > 1).rev().collect();
        let mut axes = Vec::with_capacity(shape.len());
        for &extent in shape {
            let (mut open, mut own) = (extent, Vec::new());
            while open > 1 {
                let (extent, stride) = left.pop()?;
                if open.is_multiple_of(extent) {
                    own.push((extent, stride));
                    open /= extent;
                } else if extent.is_multiple_of(open) {
                    own.push((open, stride * (extent / open)));
                    left.push((extent / open, stride));
                    open = 1;
                } else {
                    return None;
                }
            }
            axes.push(own);
        }
        Some(Moved(axes))
    }
}

/// A product whose channels change places, by what reads them.
struct Product {
    /// Result of the last move behind it.
    end: ValueId,
    /// All moves between both.
    moves: Vec<ValueId>,
    /// Channel of the product as it is given, for each of its channels.
    order: Vec<usize>,
    /// Extents of the product's parts, and the transpose to those of the last result.
    parts: Vec<usize>,
    perm: Vec<usize>,
}

/// Computes channels in the order that they have behind reshapes and transposes of a product with constants.
pub fn order_channels(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let found = found(net);
    if found.is_empty() {
        return Ok(());
    }
    let between: HashSet<ValueId> = found.values().flat_map(|product| &product.moves).copied().collect();
    rewrite(net, reasons, |builder, op| {
        let out = op.outputs.first();
        match out.and_then(|out| found.get(out)) {
            Some(product) => builder.in_order(op, product),
            None if out.is_some_and(|out| between.contains(out)) => {}
            None => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

fn found(net: &Net) -> HashMap<ValueId, Product> {
    let uses = net.read_counts();
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    let readers: HashMap<ValueId, &Op> =
        net.ops.iter().flat_map(|op| op.inputs.iter().map(move |&id| (id, op))).collect();
    let plain = |id: &ValueId| net.value(*id).data.as_ref().is_some_and(|data| !compress::is_compressed(&data.data));
    let mut found = HashMap::new();
    for op in &net.ops {
        let Some(axis) = channels_of(net, op).filter(|_| op.inputs[1..].iter().all(plain)) else { continue };
        let out = op.outputs[0];
        let mut moved = Moved::whole(&net.value(out).ty.shape);
        let (mut end, mut moves) = (out, Vec::new());
        while let Some(reader) = Some(end).filter(|&id| alone(id)).and_then(|id| readers.get(&id)) {
            let next = match &reader.kind {
                OpKind::Reshape => moved.reshaped(&net.value(reader.outputs[0]).ty.shape),
                OpKind::Transpose { perm } => Some(moved.transposed(perm)),
                _ => None,
            };
            let Some(next) = next else { break };
            (moved, end) = (next, reader.outputs[0]);
            moves.push(end);
        }
        if let Some(product) = reordered(&net.value(out).ty.shape, axis, &moved, end, moves) {
            found.insert(out, product);
        }
    }
    found
}

/// Axis of the channels of a product with constants, which are the first axis of its coefficients.
pub(super) fn channels_of(net: &Net, op: &Op) -> Option<usize> {
    let last = net.value(*op.outputs.first()?).ty.shape.len().checked_sub(1)?;
    match op.kind {
        OpKind::Conv { groups: 1, .. } if op.inputs.len() > 1 => Some(1),
        OpKind::Linear if op.inputs.len() > 1 => Some(last),
        _ => None,
    }
}

/// The product of `shape` with its channels in the order of the last result; `None` if they have it.
fn reordered(shape: &[usize], axis: usize, moved: &Moved, end: ValueId, moves: Vec<ValueId>) -> Option<Product> {
    let inner: usize = shape[axis + 1..].iter().product();
    let of_channels = |&(_, stride): &Atom| (inner..inner * shape[axis]).contains(&stride);
    let parts: Vec<Atom> = moved.0.iter().flatten().copied().filter(|&(extent, _)| extent > 1).collect();
    let own: Vec<Atom> = parts.iter().copied().filter(of_channels).collect();
    if own.is_sorted_by(|a, b| a.1 > b.1) || joined(&parts).len() <= VIEW_AXES {
        return None;
    }
    let order = own.iter().fold(vec![0], |all: Vec<usize>, &(extent, stride)| {
        all.iter().flat_map(|&at| (0..extent).map(move |i| at + i * stride / inner)).collect()
    });
    // Distances of the parts in the product with its channels in the new order.
    let mut distance = inner;
    let mut placed: Vec<Atom> = Vec::with_capacity(parts.len());
    for &part in parts.iter().rev() {
        match of_channels(&part) {
            true => {
                placed.push((part.0, distance));
                distance *= part.0;
            }
            false => placed.push(part),
        }
    }
    placed.reverse();
    let joined = joined(&placed);
    let mut outermost: Vec<usize> = (0..joined.len()).collect();
    by_key(&mut outermost, |&i| std::cmp::Reverse(joined[i].1));
    let perm = (0..joined.len()).filter_map(|i| outermost.iter().position(|&from| from == i)).collect();
    Some(Product { end, moves, order, parts: outermost.iter().map(|&i| joined[i].0).collect(), perm })
}

/// Neighbours that are one part of the product.
fn joined(parts: &[Atom]) -> Vec<Atom> {
    let mut joined: Vec<Atom> = Vec::with_capacity(parts.len());
    for &(extent, stride) in parts {
        match joined.last_mut() {
            Some(before) if before.1 == stride * extent => *before = (before.0 * extent, stride),
            _ => joined.push((extent, stride)),
        }
    }
    joined
}

impl Builder<'_> {
    /// The product with its channels in order, and the result of the moves behind it.
    fn in_order(&mut self, op: &Op, product: &Product) {
        let mut inputs = vec![op.inputs[0]];
        for (&id, suffix) in op.inputs[1..].iter().zip(["kernel", "bias"]) {
            let Some(tensor) = self.net.value(id).data.clone() else { continue };
            // One number is the bias of all channels.
            if tensor.shape.first() != Some(&product.order.len()) {
                inputs.push(id);
                continue;
            }
            let row: usize = tensor.shape[1..].iter().product();
            let given = tensor.data.to_f32();
            let data = product.order.iter().flat_map(|&at| given[at * row..(at + 1) * row].iter().copied()).collect();
            inputs.push(self.constant_of(suffix, Tensor { shape: tensor.shape.clone(), data: Data::F32(data) }));
        }
        let dtype = self.net.value(product.end).ty.dtype;
        let made = self.value("ordered", dtype, self.shape(op.outputs[0]));
        self.push(op.kind.clone(), &inputs, made);
        let parts = self.value("parts", dtype, product.parts.clone());
        self.push(OpKind::Reshape, &[made], parts);
        let shape = product.perm.iter().map(|&i| product.parts[i]).collect();
        let moved = self.value("moved", dtype, shape);
        self.push(OpKind::Transpose { perm: product.perm.clone() }, &[parts], moved);
        self.push(OpKind::Reshape, &[moved], product.end);
    }
}
