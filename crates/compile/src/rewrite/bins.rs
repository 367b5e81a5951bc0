//! Adaptive means as Core ML's converter writes them, a concatenation of means of slices: pooling, where the windows are equally far apart,
//! otherwise a product with a constant matrix. Ours.

use super::{Builder, maker_behind, makers, rewrite};
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{Net, Op, OpKind, PoolKind, ReduceKind, Unary, ValueId};
use half::f16;
use std::collections::HashMap;

/// Fewest windows that are pooled.
const FEWEST: usize = 3;

/// Most elements of a plane that a product reads for each of its means.
const MOST_ELEMENTS: usize = 1024;

/// Windows of one value along its last two axes: first element and extent of each row and column of windows.
struct Bins {
    x: ValueId,
    axes: [Vec<[usize; 2]>; 2],
}

/// First element, extent, step and number of equally distant windows.
fn evenly(windows: &[[usize; 2]]) -> Option<[usize; 4]> {
    let [first, extent] = *windows.first()?;
    let step = windows.get(1).map_or(Some(1), |second| second[0].checked_sub(first)).filter(|&step| step > 0)?;
    let even = windows.iter().enumerate().all(|(i, &window)| window == [first + i * step, extent]);
    even.then_some([first, extent, step, windows.len()])
}

/// Numbers in fp16 that are about equal, and whose sum is nearer to one than that of equal ones.
fn shares(count: usize) -> Vec<f32> {
    let mut rest = 1.0;
    let share = |i: usize| {
        let own = f16::from_f32(rest / (count - i) as f32).to_f32();
        rest -= own;
        own
    };
    (0..count).map(share).collect()
}

/// Returns true for results of convolutions, perhaps pooled and clipped: a product multiplies zeros by every element of a plane, and an input
/// may hold infinities.
fn is_computed(id: ValueId, makers: &HashMap<ValueId, &Op>) -> bool {
    let passes = |kind: &OpKind| matches!(kind, OpKind::Pool { .. } | OpKind::Unary(Unary::Relu | Unary::Relu6));
    maker_behind(id, makers, passes).is_some_and(|op| matches!(op.kind, OpKind::Conv { .. }))
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
    let &(x, [first, _], _) = all.first()?;
    let columns: Vec<[usize; 2]> =
        all.iter().take_while(|(_, begin, _)| begin[0] == first).map(|(_, at, size)| [at[1], size[1]]).collect();
    let rows: Vec<[usize; 2]> =
        all.iter().step_by(columns.len().max(1)).map(|(_, at, size)| [at[0], size[0]]).collect();
    let place = |i: usize| [rows[i / columns.len()], columns[i % columns.len()]];
    let alike = |(i, &(of, at, size)): (usize, &(ValueId, [usize; 2], [usize; 2]))| {
        of == x && [[at[0], size[0]], [at[1], size[1]]] == place(i)
    };
    let float = net.value(x).ty.dtype.is_float();
    let whole = rows.len() * columns.len() == all.len() && all.iter().enumerate().all(alike);
    let finite = is_computed(x, makers);
    let plane: usize = net.value(x).ty.shape[2..].iter().product();
    let computed = evenly(&rows).is_some() && evenly(&columns).is_some() || finite && plane <= MOST_ELEMENTS;
    (float && whole && all.len() >= FEWEST && computed).then_some(Bins { x, axes: [rows, columns] })
}

/// Replaces concatenations of means of windows by pooling if the windows are equally distant, otherwise by a product.
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
        match [evenly(&axes[0]), evenly(&axes[1])] {
            [Some(rows), Some(columns)] => builder.pooled(*x, [rows, columns], op.outputs[0]),
            _ => builder.multiplied(*x, axes, op.outputs[0]),
        }
        Ok(())
    })
}

impl Builder<'_> {
    /// Means of equally distant windows: first element, extent, step and number along each axis.
    fn pooled(&mut self, x: ValueId, axes: [[usize; 4]; 2], out: ValueId) {
        let mut shape = self.shape(x);
        let (mut begin, mut end) = (vec![0; 4], shape.clone());
        for (i, [first, extent, step, count]) in axes.iter().enumerate() {
            (begin[2 + i], end[2 + i]) = (*first, first + (count - 1) * step + extent);
            shape[2 + i] = end[2 + i] - begin[2 + i];
        }
        let slice = OpKind::Slice { begin, end, stride: vec![1; 4] };
        let part = if shape == self.shape(x) { x } else { self.op("part", slice, &[x], shape.clone()) };
        let kind = PoolKind::Average { exclude_padding: true };
        let (kernel, strides) = (axes.iter().map(|a| a[1]).collect(), axes.iter().map(|a| a[2]).collect());
        let pool = OpKind::Pool { kind, kernel, strides, pads: vec![(0, 0); 2], ceil_mode: false };
        (shape[2], shape[3]) = (axes[0][3], axes[1][3]);
        let pooled = self.op("pooled", pool, &[part], shape);
        self.push(OpKind::Reshape, &[pooled], out);
    }

    /// Means of windows as a product of each plane and the shares of its elements.
    fn multiplied(&mut self, x: ValueId, axes: &[Vec<[usize; 2]>; 2], out: ValueId) {
        let shape = self.shape(x);
        let plane = shape[2] * shape[3];
        let mut weights = Vec::with_capacity(axes[0].len() * axes[1].len() * plane);
        for (rows, columns) in axes[0].iter().flat_map(|rows| axes[1].iter().map(move |columns| (rows, columns))) {
            let mut own = vec![0.0; plane];
            let within = (0..rows[1]).flat_map(|row| (0..columns[1]).map(move |column| (row, column)));
            for ((row, column), share) in within.zip(shares(rows[1] * columns[1])) {
                own[(rows[0] + row) * shape[3] + columns[0] + column] = share;
            }
            weights.extend(own);
        }
        let count = weights.len() / plane.max(1);
        let weights = self.constant("shares", vec![count, plane], weights);
        let flat = self.op("planes", OpKind::Reshape, &[x], vec![shape[0], shape[1], plane]);
        let means = self.op("means", OpKind::Linear, &[flat, weights], vec![shape[0], shape[1], count]);
        self.push(OpKind::Reshape, &[means], out);
    }
}
