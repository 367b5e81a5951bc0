//! Convolutions with kernels or matrices computed at run time: the windows of the operand become the columns of a matrix (im2col), and a
//! product of two computed matrices follows.

use super::axis::Axis;
use super::{Windows, counted};
use anemone_net::{Binary, Op, OpKind, ValueId};

impl Windows<'_, '_> {
    /// A grouped convolution as the product `[1, G, O / G, C / G * taps] x [N, G, C / G * taps, positions]`.
    pub(super) fn live_conv(&mut self, op: &Op, axes: Vec<Axis>, groups: usize) -> ValueId {
        let made = self.live_product(op.inputs[0], op.inputs[1], axes, groups);
        self.biased(made, op.inputs.get(2))
    }

    fn live_product(&mut self, x: ValueId, kernel: ValueId, axes: Vec<Axis>, groups: usize) -> ValueId {
        self.notes.push("the kernel is computed at run time: windows as columns of a matrix".into());
        let mut x = x;
        for (i, axis) in axes.iter().enumerate() {
            x = self.padded(x, i + 2, axis.before, axis.padded());
        }
        let shape = self.builder.shape(x);
        let outputs = self.builder.shape(kernel)[0];
        let (batch, per_group) = (shape[0], shape[1] / groups);
        let taps: Vec<usize> = axes.iter().map(|a| a.taps).collect();
        let mut parts = Vec::new();
        for tap in counted(&taps) {
            let mut part = x;
            for (i, axis) in axes.iter().enumerate() {
                let first = tap[i] * axis.dilation;
                part = self.slice_step(part, i + 2, first, first + (axis.out - 1) * axis.stride + 1, axis.stride);
            }
            let mut apart = vec![batch, shape[1], 1];
            apart.extend(axes.iter().map(|a| a.out));
            parts.push(self.reshaped(part, apart));
        }
        let count = parts.len();
        let positions: usize = axes.iter().map(|a| a.out).product();
        let mut joined = vec![batch, shape[1], count];
        joined.extend(axes.iter().map(|a| a.out));
        let columns = match parts.as_slice() {
            [one] => *one,
            _ => self.builder.op("windows", OpKind::Concat { axis: 2 }, &parts, joined),
        };
        let columns = self.reshaped(columns, vec![batch, groups, per_group * count, positions]);
        let matrix = self.reshaped(kernel, vec![1, groups, outputs / groups, per_group * count]);
        let kind = OpKind::MatMul { transpose_x: false, transpose_y: false };
        let made =
            self.builder.op("product", kind, &[matrix, columns], vec![batch, groups, outputs / groups, positions]);
        let mut result = vec![batch, outputs];
        result.extend(axes.iter().map(|a| a.out));
        self.reshaped(made, result)
    }

    /// A transposed convolution with a computed kernel as a plain convolution with reversed taps, after zeros are inserted between the
    /// operand's elements.
    pub(super) fn live_transposed(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> ValueId {
        let out = self.builder.shape(op.outputs[0]);
        let (mut x, mut kernel) = (op.inputs[0], op.inputs[1]);
        let mut axes = Vec::new();
        for (i, &stride) in strides.iter().enumerate() {
            let taps = self.builder.shape(kernel)[i + 2];
            let size = self.builder.shape(x)[i + 2];
            x = self.insert_zeros(x, i + 2, stride);
            kernel = self.reversed(kernel, i + 2);
            let reach = (taps - 1) * dilations[i] + 1;
            let cut = pads[i].0.saturating_sub(reach - 1);
            let size = (size - 1) * stride + 1 - cut;
            x = self.slice_axis(x, i + 2, cut, cut + size);
            let before = (reach - 1).saturating_sub(pads[i].0);
            axes.push(Axis { out: out[i + 2], taps, dilation: dilations[i], before, ..Axis::unit(size) });
        }
        // [in, out / groups, k...] as [out, in / groups, k...].
        let shape = self.builder.shape(kernel);
        let (inputs, per_output) = (shape[0], shape[1]);
        let mut apart = vec![groups, inputs / groups, per_output];
        apart.extend(&shape[2..]);
        let mut perm: Vec<usize> = (0..apart.len()).collect();
        perm.swap(1, 2);
        let mut joined = vec![per_output * groups, inputs / groups];
        joined.extend(&shape[2..]);
        let kernel = self.reshaped(kernel, apart);
        let kernel = self.permuted(kernel, &perm);
        let kernel = self.reshaped(kernel, joined);
        let made = self.live_product(x, kernel, axes, groups);
        self.biased(made, op.inputs.get(2))
    }

    /// Inserts `step - 1` zeros between the elements of an axis.
    fn insert_zeros(&mut self, x: ValueId, axis: usize, step: usize) -> ValueId {
        if step == 1 {
            return x;
        }
        let shape = self.builder.shape(x);
        let mut apart = shape.clone();
        apart.insert(axis + 1, 1);
        let x = self.reshaped(x, apart);
        let x = self.padded(x, axis + 1, 0, step);
        let mut joined = shape.clone();
        joined[axis] *= step;
        let x = self.reshaped(x, joined);
        self.slice_axis(x, axis, 0, (shape[axis] - 1) * step + 1)
    }

    /// Reverses an axis.
    fn reversed(&mut self, x: ValueId, axis: usize) -> ValueId {
        let shape = self.builder.shape(x);
        let parts: Vec<ValueId> = (0..shape[axis]).rev().map(|i| self.slice_axis(x, axis, i, i + 1)).collect();
        match parts.as_slice() {
            [one] => *one,
            _ => self.builder.op("reversed", OpKind::Concat { axis }, &parts, shape),
        }
    }

    /// `x · wᵀ + b` with a matrix or a bias computed at run time.
    pub(super) fn live_linear(&mut self, op: &Op) -> Option<ValueId> {
        let live = |id: &ValueId| self.builder.net.value(*id).data.is_none();
        if !op.inputs[1..].iter().any(live) {
            return None;
        }
        let shape = self.builder.shape(op.outputs[0]);
        let matrix_is_live = live(&op.inputs[1]);
        let kind = OpKind::MatMul { transpose_x: false, transpose_y: true };
        let kind = if matrix_is_live { kind } else { OpKind::Linear };
        self.notes.push("a matrix or bias computed at run time: a product and a sum".into());
        let made = self.builder.op("product", kind, &op.inputs[..2], shape.clone());
        let Some(&bias) = op.inputs.get(2) else { return Some(made) };
        Some(self.builder.op("biased", OpKind::Binary(Binary::Add), &[made, bias], shape))
    }
}
