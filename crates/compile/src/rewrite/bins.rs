//! Adaptive means as Core ML's converter writes them, a concatenation of means of slices: pooling, where the windows are equally far apart. Ours.

use super::{makers, rewrite};
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{Net, Op, OpKind, PoolKind, ReduceKind, ValueId};
use std::collections::HashMap;

/// Fewest windows that are pooled.
const FEWEST: usize = 3;

/// Windows of one value along its last two axes.
struct Bins {
    x: ValueId,
    /// First element, extent, step and number along each axis.
    axes: [[usize; 4]; 2],
}

/// First element, step and number of equally distant positions.
fn evenly(places: &[usize]) -> Option<[usize; 3]> {
    let step = places.get(1).map_or(Some(1), |second| second.checked_sub(places[0])).filter(|&step| step > 0)?;
    let even = places.iter().enumerate().all(|(i, &at)| at == places[0] + i * step);
    even.then_some([places[0], step, places.len()])
}

/// The windows whose means a concatenation holds, row by row.
fn bins(net: &Net, makers: &HashMap<ValueId, &Op>, op: &Op) -> Option<Bins> {
    let OpKind::Concat { axis: 3 } = op.kind else { return None };
    let window = |id: &ValueId| {
        let mean = makers.get(id)?;
        let OpKind::Reduce { kind: ReduceKind::Mean, axes, keep_dims: true } = &mean.kind else { return None };
        let slice = makers.get(&mean.inputs[0]).filter(|_| *axes == [2, 3])?;
        let OpKind::Slice { begin, end, stride } = &slice.kind else { return None };
        let shape = &net.value(slice.inputs[0]).ty.shape;
        let whole = shape.len() == 4 && stride.iter().all(|&s| s == 1) && (0..2).all(|i| end[i] - begin[i] == shape[i]);
        whole.then(|| (slice.inputs[0], [begin[2], begin[3]], [end[2] - begin[2], end[3] - begin[3]]))
    };
    let all: Vec<_> = op.inputs.iter().map(window).collect::<Option<_>>()?;
    let &(x, [first, _], size) = all.first()?;
    let columns: Vec<usize> =
        all.iter().take_while(|(_, begin, _)| begin[0] == first).map(|(_, at, _)| at[1]).collect();
    let rows: Vec<usize> = all.iter().step_by(columns.len().max(1)).map(|(_, begin, _)| begin[0]).collect();
    let place = |i: usize| [rows[i / columns.len()], columns[i % columns.len()]];
    let alike = all.iter().enumerate().all(|(i, &(of, begin, own))| of == x && own == size && begin == place(i));
    let float = net.value(x).ty.dtype.is_float();
    if !float || !alike || all.len() < FEWEST || rows.len() * columns.len() != all.len() {
        return None;
    }
    let axis = |places: &[usize], extent| evenly(places).map(|[first, step, count]| [first, extent, step, count]);
    Some(Bins { x, axes: [axis(&rows, size[0])?, axis(&columns, size[1])?] })
}

/// Replaces concatenations of means of equally distant windows by pooling.
pub(super) fn pool_bins(net: &mut Net, reasons: &mut Remarks) -> Result<()> {
    let makers = makers(net);
    let found: HashMap<ValueId, Bins> =
        net.ops.iter().filter_map(|op| Some((*op.outputs.first()?, bins(net, &makers, op)?))).collect();
    if found.is_empty() {
        return Ok(());
    }
    rewrite(net, reasons, |builder, op| {
        let Some(Bins { x, axes }) = op.outputs.first().and_then(|out| found.get(out)) else {
            builder.ops.push(op.clone());
            return Ok(());
        };
        let mut shape = builder.shape(*x);
        let (mut begin, mut end) = (vec![0; 4], shape.clone());
        for (i, [first, extent, step, count]) in axes.iter().enumerate() {
            (begin[2 + i], end[2 + i]) = (*first, first + (count - 1) * step + extent);
            shape[2 + i] = end[2 + i] - begin[2 + i];
        }
        let slice = OpKind::Slice { begin, end, stride: vec![1; 4] };
        let part = if shape == builder.shape(*x) { *x } else { builder.op("part", slice, &[*x], shape.clone()) };
        let kind = PoolKind::Average { exclude_padding: true };
        let (kernel, strides) = (axes.iter().map(|a| a[1]).collect(), axes.iter().map(|a| a[2]).collect());
        let pool = OpKind::Pool { kind, kernel, strides, pads: vec![(0, 0); 2], ceil_mode: false };
        (shape[2], shape[3]) = (axes[0][3], axes[1][3]);
        let pooled = builder.op("pooled", pool, &[part], shape);
        builder.push(OpKind::Reshape, &[pooled], op.outputs[0]);
        Ok(())
    })
}
