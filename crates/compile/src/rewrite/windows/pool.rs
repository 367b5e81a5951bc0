//! Poolings beyond the window limits: windows of windows where the stride has small factors, other maxima in stages along each axis, means
//! over whole axes as reductions. Other wide means stay: they are lowered to products with an averaging matrix for each axis.

use super::axis::Axis;
use super::{Limits, Windows};
use anemone_net::{Binary, Op, OpKind, PoolKind, ReduceKind, Unary, ValueId};

impl Limits {
    /// Divides a window into windows within the limits, each over the results of the one before. Only the first may overlap.
    fn levels(&self, kind: PoolKind, axis: &Axis, most: usize) -> Option<Vec<Axis>> {
        // A single window has no next one.
        let mut stride = if axis.out == 1 { 1 } else { axis.stride };
        let divided = stride > self.stride;
        let mean = kind != PoolKind::Max;
        let padded = axis.before > 0 || axis.after > 0;
        if divided && (axis.taps < stride || mean && (padded || axis.taps != stride)) {
            return None;
        }
        let (mut levels, mut size, mut taps, mut before) = (Vec::new(), axis.size, axis.taps, axis.before);
        loop {
            let step = if stride <= self.stride { stride } else { self.step_of(stride)? };
            stride /= step;
            let level = Axis {
                size,
                out: axis.out * stride,
                taps: taps - (stride - 1) * step,
                stride: step,
                dilation: 1,
                before,
                after: 0,
            };
            let level = Axis { after: level.trailing(), ..level };
            // No window may cover padding alone.
            if level.taps > most || level.taps <= before || (level.out - 1) * step >= size + before {
                return None;
            }
            levels.push(level);
            if stride == 1 {
                return Some(levels);
            }
            (size, taps, before) = (level.out, stride, 0);
        }
    }

    /// Largest factor of a stride within the limit.
    fn step_of(&self, stride: usize) -> Option<usize> {
        (2..=self.stride).rev().find(|&step| stride.is_multiple_of(step))
    }
}

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
        if let Some(made) = self.pooled_planes(&axes, op) {
            return Some(made);
        }
        match kind {
            PoolKind::Max => self.nested(kind, &axes, op).or_else(|| Some(self.max_pool(&axes, op.inputs[0]))),
            PoolKind::Average { .. } => self.mean_of_all(&axes, op).or_else(|| self.nested(kind, &axes, op)),
            PoolKind::L2 => Some(self.root_of_squares(&axes, op)),
        }
    }

    /// Poolings of poolings over all axes; `None` if an axis cannot be divided, or means would be rounded more than twice.
    fn nested(&mut self, kind: PoolKind, axes: &[Axis], op: &Op) -> Option<ValueId> {
        let missing = 2usize.checked_sub(axes.len())?;
        let limits = self.limits;
        let levels = axes.iter().enumerate().map(|(i, axis)| limits.levels(kind, axis, limits.pool[i + missing]));
        let levels: Vec<Vec<Axis>> = levels.collect::<Option<_>>()?;
        let count = levels.iter().map(Vec::len).max()?;
        if kind != PoolKind::Max && count > 2 {
            return None;
        }
        self.notes.push(format!("the window is {count} windows, one after another"));
        let mut x = op.inputs[0];
        for level in 0..count {
            let mut shape = self.builder.shape(x);
            let axes: Vec<Axis> = levels
                .iter()
                .enumerate()
                .map(|(i, levels)| levels.get(level).copied().unwrap_or_else(|| Axis::unit(shape[i + 2])))
                .collect();
            for (i, axis) in axes.iter().enumerate() {
                // Elements that no window covers are dropped from the operand.
                x = self.slice_axis(x, i + 2, 0, axis.padded().saturating_sub(axis.before).min(axis.size));
                shape[i + 2] = axis.out;
            }
            let kind = OpKind::Pool {
                kind,
                kernel: axes.iter().map(|a| a.taps).collect(),
                strides: axes.iter().map(|a| a.stride).collect(),
                pads: axes.iter().map(|a| (a.before, a.after)).collect(),
                ceil_mode: false,
            };
            x = self.builder.op("level", kind, &[x], shape);
        }
        Some(x)
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
