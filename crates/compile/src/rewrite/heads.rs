//! Alignment of attention heads and of equal parts of columns: zero columns behind each make all of a product start on boundaries of memory
//! rows, so that the split is a view instead of two copies.

use super::{Builder, rewrite};
use crate::error::Result;
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Data, Net, Op, OpKind, Tensor, ValueId, compress};
use std::collections::HashMap;

/// Fewest columns of a head for which padding pays; with fewer the zeros would exceed the heads.
const LEAST_COLUMNS: usize = 8;

/// Most columns of a part with its zeros, as a multiple of its own: wider ones cost more than the copies.
const MOST_PADDED: usize = 2;

/// `reshape(linear(x))` to heads of a size that no view can split becomes a wider product, a reshape and a slice, and equal slices of the
/// columns of a product become slices of a wider one.
pub fn align_heads(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let uses = net.read_counts();
    // Products that a single reshape splits, by their result, with the number of columns of a head.
    let mut heads: HashMap<ValueId, usize> = HashMap::new();
    for op in net.ops.iter().filter(|op| op.kind == OpKind::Reshape) {
        let (from, to) = (op.inputs[0], op.outputs[0]);
        if uses[from.0 as usize] == 1 && !net.outputs.contains(&from) && splits(net, from, to) {
            heads.insert(from, *net.value(to).ty.shape.last().unwrap_or(&1));
        }
    }
    heads.extend(parts(net, &uses));
    let linear = |op: &Op| op.kind == OpKind::Linear && op.inputs[1..].iter().all(|&id| is_plain(net, id));
    let made: Vec<ValueId> = net.ops.iter().filter(|op| linear(op)).map(|op| op.outputs[0]).collect();
    heads.retain(|id, _| made.contains(id));
    let mut wide: HashMap<ValueId, ValueId> = HashMap::new();
    let cell = std::cell::RefCell::new(&mut wide);
    rewrite(net, reasons, |builder, op| {
        if let Some(&columns) = op.outputs.first().and_then(|out| heads.get(out)).filter(|_| op.kind == OpKind::Linear)
        {
            let made = builder.widened(op, columns);
            cell.borrow_mut().insert(op.outputs[0], made);
            return Ok(());
        }
        let made = op.inputs.first().and_then(|x| cell.borrow().get(x).copied());
        match (&op.kind, made) {
            (OpKind::Reshape, Some(made)) => builder.split(op, made),
            (OpKind::Slice { begin, .. }, Some(made)) => builder.columns(op, begin, made),
            _ => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

/// Values that slices divide into equal parts of their columns, which begin within rows of memory, with the number of columns of a part.
fn parts(net: &Net, uses: &[usize]) -> HashMap<ValueId, usize> {
    let mut parts: HashMap<ValueId, (usize, usize)> = HashMap::new();
    for op in &net.ops {
        let (OpKind::Slice { begin, end, stride }, &[from]) = (&op.kind, op.inputs.as_slice()) else { continue };
        let shape = &net.value(from).ty.shape;
        let Some(last) = shape.len().checked_sub(1) else { continue };
        let columns = end[last] - begin[last];
        let whole = (0..last).all(|i| begin[i] == 0 && end[i] == shape[i]) && stride.iter().all(|&step| step == 1);
        let (all, readers) = parts.entry(from).or_insert((columns, 0));
        let small = padded(columns) <= MOST_PADDED * columns;
        let fits = small && begin[last].is_multiple_of(columns) && shape[last].is_multiple_of(columns);
        *readers += usize::from(whole && fits && *all == columns);
    }
    // The columns of a single row are channels that any slice divides.
    let rows = |id: &ValueId| net.value(*id).ty.shape.iter().rev().skip(1).any(|&extent| extent > 1);
    let unaligned = |columns: usize| !(columns as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
    parts.retain(|from, (columns, readers)| {
        rows(from) && unaligned(*columns) && uses[from.0 as usize] == *readers && !net.outputs.contains(from)
    });
    parts.into_iter().map(|(from, (columns, _))| (from, columns)).collect()
}

/// Returns true if a reshape splits the last axis alone, into heads of at least [`LEAST_COLUMNS`] columns that are no multiple of
/// [`ROW_ALIGN`] bytes.
fn splits(net: &Net, from: ValueId, to: ValueId) -> bool {
    let [from, to] = [from, to].map(|id| &net.value(id).ty.shape);
    let (Some(&columns), Some(&all)) = (to.last(), from.last()) else { return false };
    let aligned = (columns as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
    let mut rest = all;
    for &n in to.iter().rev() {
        if rest == 1 || !rest.is_multiple_of(n) {
            break;
        }
        rest /= n;
    }
    let split = rest == 1;
    split && !aligned && columns >= LEAST_COLUMNS && columns < all && all.is_multiple_of(columns)
}

/// Returns true for a constant that is not compressed.
fn is_plain(net: &Net, id: ValueId) -> bool {
    net.value(id).data.as_ref().is_some_and(|t| !compress::is_compressed(&t.data))
}

/// Columns rounded up to the next boundary.
fn padded(columns: usize) -> usize {
    columns.next_multiple_of((ROW_ALIGN / ELEMENT_BYTES) as usize)
}

impl Builder<'_> {
    /// A product with zero columns behind each head.
    fn widened(&mut self, op: &Op, columns: usize) -> ValueId {
        let spread = |data: Vec<f32>, row: usize| -> Vec<f32> {
            let mut made = Vec::new();
            for head in data.chunks_exact(columns * row) {
                made.extend_from_slice(head);
                made.resize(made.len() + (padded(columns) - columns) * row, 0.0);
            }
            made
        };
        let mut inputs = vec![op.inputs[0]];
        for (&id, suffix) in op.inputs[1..].iter().zip(["weight", "bias"]) {
            let Some(tensor) = self.net.value(id).data.clone() else { continue };
            // One number is the bias of all columns (`equal_biases_are_numbers`).
            if tensor.data.len() == 1 {
                inputs.push(id);
                continue;
            }
            let mut shape = tensor.shape.clone();
            let row: usize = shape[1..].iter().product();
            let data = spread(tensor.data.to_f32(), row);
            shape[0] = shape[0] / columns * padded(columns);
            inputs.push(self.constant_of(suffix, Tensor { shape, data: Data::F32(data) }));
        }
        let mut shape = self.shape(op.outputs[0]);
        if let Some(last) = shape.last_mut() {
            *last = *last / columns * padded(columns);
        }
        self.op("aligned", OpKind::Linear, &inputs, shape)
    }

    /// A part of the columns of a widened product.
    fn columns(&mut self, op: &Op, begin: &[usize], made: ValueId) {
        let (mut begin, mut end) = (begin.to_vec(), self.shape(op.outputs[0]));
        let stride = vec![1; end.len()];
        if let (Some(first), Some(columns)) = (begin.last_mut(), end.last_mut()) {
            *first = *first / *columns * padded(*columns);
            *columns += *first;
        }
        self.push(OpKind::Slice { begin, end, stride }, &[made], op.outputs[0]);
    }

    /// The heads of a widened product, without the zero columns.
    fn split(&mut self, op: &Op, made: ValueId) {
        let shape = self.shape(op.outputs[0]);
        let mut wide = shape.clone();
        if let Some(last) = wide.last_mut() {
            *last = padded(*last);
        }
        let heads = self.op("heads", OpKind::Reshape, &[made], wide);
        let slice = OpKind::Slice { begin: vec![0; shape.len()], end: shape.clone(), stride: vec![1; shape.len()] };
        self.push(slice, &[heads], op.outputs[0]);
    }
}
