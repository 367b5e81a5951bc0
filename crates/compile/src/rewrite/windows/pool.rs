//! Poolings beyond the window limits: maxima in stages, means over whole axes as reductions. Other wide means stay: they are
//! lowered to products with an averaging matrix for each axis.

use super::Windows;
use super::axis::Axis;
use anemone_net::{Binary, Op, OpKind, PoolKind, ReduceKind, Unary, ValueId};

impl Windows<'_, '_> {
    pub(super) fn pool(
        &mut self,
        op: &Op,
        kind: PoolKind,
        kernel: &[usize],
        strides: &[usize],
        pads: &[(usize, usize)],
    ) -> Option<ValueId> {
        let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| self.builder.shape(id));
        let axes: Vec<Axis> = (0..kernel.len())
            .map(|i| {
                let axis = Axis {
                    size: from[i + 2],
                    out: to[i + 2],
                    taps: kernel[i],
                    stride: strides[i],
                    dilation: 1,
                    before: pads[i].0,
                    after: 0,
                };
                Axis { after: axis.trailing(), ..axis }
            })
            .collect();
        if self.limits.pools(kernel, strides) {
            return None;
        }
        match kind {
            PoolKind::Max => Some(self.max_pool(&axes, op.inputs[0])),
            PoolKind::Average { .. } => self.mean_of_all(&axes, op),
            PoolKind::L2 => Some(self.root_of_squares(&axes, op)),
        }
    }

    /// A mean over whole axes as a reduction.
    fn mean_of_all(&mut self, axes: &[Axis], op: &Op) -> Option<ValueId> {
        let whole = |a: &Axis| a.out == 1 && a.before == 0 && a.taps == a.size;
        let unit = |a: &Axis| a.taps == 1 && a.stride == 1;
        if !axes.iter().all(|a| whole(a) || unit(a)) {
            return None;
        }
        self.notes.push("the mean of whole axes is a reduction".into());
        let over = (0..axes.len()).filter(|&i| whole(&axes[i])).map(|i| i + 2).collect();
        let kind = OpKind::Reduce { kind: ReduceKind::Mean, axes: over, keep_dims: true };
        let shape = self.builder.shape(op.outputs[0]);
        Some(self.builder.op("mean", kind, &op.inputs, shape))
    }

    fn root_of_squares(&mut self, axes: &[Axis], op: &Op) -> ValueId {
        let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| self.builder.shape(id));
        let squares = self.builder.op("squares", OpKind::Unary(Unary::Square), &op.inputs, from);
        // Padding is counted, so that every mean has the same number of elements.
        let kind = OpKind::Pool {
            kind: PoolKind::Average { exclude_padding: false },
            kernel: axes.iter().map(|a| a.taps).collect(),
            strides: axes.iter().map(|a| a.stride).collect(),
            pads: axes.iter().map(|a| (a.before, a.after)).collect(),
            ceil_mode: false,
        };
        let means = self.builder.op("means", kind, &[squares], to.clone());
        let area: usize = axes.iter().map(|a| a.taps).product();
        let area = self.builder.constant("area", vec![1], vec![area as f32]);
        let sums = self.builder.op("sums", OpKind::Binary(Binary::Mul), &[means, area], to.clone());
        self.builder.op("root", OpKind::Unary(Unary::Sqrt), &[sums], to)
    }

    /// A maximum as maxima of maxima: one axis after another, wide windows in stages. Padding never wins, so all stages may pad.
    fn max_pool(&mut self, axes: &[Axis], mut x: ValueId) -> ValueId {
        self.notes.push(format!("maxima over {} axes in stages", axes.len()));
        for (i, axis) in axes.iter().enumerate() {
            x = self.max_along(axis, i + 2, x);
        }
        x
    }

    fn max_along(&mut self, axis: &Axis, at: usize, x: ValueId) -> ValueId {
        let whole = axis.out == 1 && axis.before == 0 && axis.taps >= axis.size;
        if whole && axis.size > self.limits.pool[1] {
            let kind = OpKind::Reduce { kind: ReduceKind::Max, axes: vec![at], keep_dims: true };
            let mut shape = self.builder.shape(x);
            shape[at] = 1;
            return self.builder.op("maximum", kind, &[x], shape);
        }
        if axis.taps == 1 && axis.stride == 1 {
            return x;
        }
        let shape = self.builder.shape(x);
        // Rank 4 with the axis as rows, or as columns if it is the last one.
        let last = at + 1 == shape.len();
        let outer: usize = shape[1..at].iter().product();
        let inner: usize = shape[at + 1..].iter().product();
        let flat = if last { vec![shape[0], outer, 1, axis.size] } else { vec![shape[0], outer, axis.size, inner] };
        let mut made = self.reshaped(x, flat);
        let side = usize::from(last);
        let most = self.limits.pool[side];
        let step = (1..=self.limits.stride).rev().find(|s| axis.stride.is_multiple_of(*s)).unwrap_or(1);
        let (mut taps, mut before, mut size) = (axis.taps, axis.before, axis.size);
        while taps > most {
            let first = before.min(most - 1);
            // The elements that later windows read, among windows that begin inside the operand.
            let seen = (axis.out - 1) * axis.stride + taps - before;
            let out = (seen + first + 1).saturating_sub(most).min(size + first);
            made = self.max_stage(made, side, most, 1, first, out);
            (taps, before, size) = (taps + 1 - most, before - first, out);
        }
        let dense = (axis.out - 1) * (axis.stride / step) + 1;
        made = self.max_stage(made, side, taps, step, before, dense);
        made = self.slice_step(made, 2 + side, 0, dense, axis.stride / step);
        let mut shape = shape;
        shape[at] = axis.out;
        self.reshaped(made, shape)
    }

    fn max_stage(&mut self, x: ValueId, side: usize, taps: usize, stride: usize, before: usize, out: usize) -> ValueId {
        // Elements that no window covers are dropped from the operand.
        let size = self.builder.shape(x)[2 + side];
        let seen = ((out - 1) * stride + taps).saturating_sub(before).clamp(1, size);
        let x = self.slice_axis(x, 2 + side, 0, seen);
        let mut shape = self.builder.shape(x);
        let axis = Axis { size: shape[2 + side], out, taps, stride, dilation: 1, before, after: 0 };
        let put = |n: usize, other: usize| if side == 0 { vec![n, other] } else { vec![other, n] };
        let pads = [(before, axis.trailing()), (0, 0)];
        let kind = OpKind::Pool {
            kind: PoolKind::Max,
            kernel: put(taps, 1),
            strides: put(stride, 1),
            pads: if side == 0 { pads.to_vec() } else { vec![pads[1], pads[0]] },
            ceil_mode: false,
        };
        shape[2 + side] = out;
        self.builder.op("stage", kind, &[x], shape)
    }
}
