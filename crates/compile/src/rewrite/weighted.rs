//! Sums of constants with computed factors as products with a constant matrix. Ours.
//!
//! A convolution with a mixture of kernels multiplies each kernel by its factor and adds them, element by element; as a product with all
//! kernels as the columns of a matrix it is one task, whose sums are rounded once.

use super::{Builder, Names};
use crate::remarks::Remarks;
use anemone_net::{Binary, Data, Net, Op, OpKind, ReduceKind, Tensor, ValueId, compress};
use std::collections::HashMap;

/// A sum over `axes` of a constant times factors that vary along these axes alone.
struct Weighted {
    at: usize,
    factors: ValueId,
    constants: ValueId,
    axes: Vec<usize>,
}

/// `reduce_sum(mul(factors, constants))` becomes a product of the factors and a matrix.
pub(super) fn sums(net: &mut Net, reasons: &mut Remarks) {
    let uses = net.read_counts();
    let makers: HashMap<ValueId, &Op> = super::makers(net);
    let found: Vec<Weighted> =
        net.ops.iter().enumerate().filter_map(|(at, op)| found(net, &makers, &uses, at, op)).collect();
    let mut names = Names::default();
    for Weighted { at, factors, constants, axes } in found.into_iter().rev() {
        let name = net.ops[at].name.clone();
        reasons.say(|| format!("{name}: a sum of constants with factors is a product"));
        let Some(tensor) = net.value(constants).data.clone() else { continue };
        let dtype = net.value(net.ops[at].outputs[0]).ty.dtype;
        let mut builder = Builder { net: &mut *net, names: &mut names, ops: Vec::new(), name };
        let count: usize = axes.iter().map(|&axis| tensor.shape[axis]).product();
        let matrix = by_factor(&tensor, &axes);
        let rows = matrix.len() / count.max(1);
        let matrix = builder.constant_of("constants", Tensor { shape: vec![rows, count], data: Data::F32(matrix) });
        let row = builder.value("factors", dtype, vec![1, count]);
        builder.push(OpKind::Reshape, &[factors], row);
        let sum = builder.value("sum", dtype, vec![1, rows]);
        builder.push(OpKind::Linear, &[row, matrix], sum);
        let ops = builder.ops;
        (net.ops[at].kind, net.ops[at].inputs) = (OpKind::Reshape, vec![sum]);
        net.ops.splice(at..at, ops);
    }
}

fn found(net: &Net, makers: &HashMap<ValueId, &Op>, uses: &[usize], at: usize, op: &Op) -> Option<Weighted> {
    let (OpKind::Reduce { kind: ReduceKind::Sum, axes, .. }, &[product]) = (&op.kind, op.inputs.as_slice()) else {
        return None;
    };
    let ty = &net.value(product).ty;
    let made = makers.get(&product).filter(|made| made.kind == OpKind::Binary(Binary::Mul))?;
    let alone = uses[product.0 as usize] == 1 && !net.outputs.contains(&product) && ty.dtype.is_float();
    let constants = *made.inputs.iter().find(|id| net.value(**id).data.is_some())?;
    let factors = *made.inputs.iter().find(|id| net.value(**id).data.is_none())?;
    let tensor = net.value(constants).data.as_ref()?;
    let own = &net.value(factors).ty.shape;
    let missing = ty.shape.len().checked_sub(own.len())?;
    let extent = |axis: usize| axis.checked_sub(missing).map_or(1, |at| own[at]);
    let along = (0..ty.shape.len()).all(|axis| extent(axis) == if axes.contains(&axis) { ty.shape[axis] } else { 1 });
    let plain = !compress::is_compressed(&tensor.data) && tensor.shape == ty.shape;
    let mut axes = axes.clone();
    axes.sort_unstable();
    (alone && along && plain && !axes.is_empty()).then_some(Weighted { at, factors, constants, axes })
}

/// Constants as a matrix with a row for each sum, and a column for each factor.
fn by_factor(tensor: &Tensor, axes: &[usize]) -> Vec<f32> {
    let rest = (0..tensor.shape.len()).filter(|axis| !axes.contains(axis));
    let order: Vec<usize> = rest.chain(axes.iter().copied()).collect();
    let stride = |axis: usize| tensor.shape[axis + 1..].iter().product::<usize>();
    let places = order.iter().fold(vec![0], |all: Vec<usize>, &axis| {
        all.iter().flat_map(|&at| (0..tensor.shape[axis]).map(move |i| at + i * stride(axis))).collect()
    });
    let given = tensor.data.to_f32();
    places.into_iter().map(|at| given[at]).collect()
}
