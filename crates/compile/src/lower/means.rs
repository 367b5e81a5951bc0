//! Lowering of means over windows that the planar engine does not support: a product along each axis with a constant matrix that has the
//! window weights in its rows. Each axis is summed completely and rounded once.

use super::Lowerer;
use crate::error::Result;
use anemone_net::Op;

impl Lowerer<'_> {
    pub(super) fn mean_windows(
        &mut self,
        op: &Op,
        kernel: &[usize],
        strides: &[usize],
        pads: &[(usize, usize)],
        exclude_padding: bool,
    ) -> Result<()> {
        let (mut current, to) = (self.view(op.inputs[0])?, self.result(op.outputs[0]));
        let target = to.shape();
        let axes: Vec<usize> = (0..kernel.len()).filter(|&i| kernel[i] > 1 || strides[i] > 1).collect();
        for (step, &i) in axes.iter().enumerate() {
            let (axis, mut shape) = (i + 2, current.shape());
            let shares = shares(shape[axis], target[axis], kernel[i], strides[i], pads[i], exclude_padding);
            shape[axis] = target[axis];
            let result = if step + 1 == axes.len() { to.clone() } else { self.scratch("means", &shape) };
            if axis + 1 == shape.len() {
                self.product_views(&current, &result, shares.into(), None)?;
            } else {
                self.mix_axis(axis, shares, &current, &result)?;
            }
            current = result;
        }
        if axes.is_empty() { self.copy(&current, &to) } else { Ok(()) }
    }
}

/// Matrix whose row `o` has the weight of each element in mean `o`.
fn shares(
    size: usize,
    out: usize,
    taps: usize,
    stride: usize,
    (before, after): (usize, usize),
    exclude_padding: bool,
) -> Vec<f32> {
    let mut shares = vec![0.0; out * size];
    for o in 0..out {
        // Positions of the padded axis.
        let (first, end) = (o * stride, o * stride + taps);
        let inside = first.max(before)..end.min(before + size);
        let counted = if exclude_padding { inside.len() } else { end.min(before + size + after).saturating_sub(first) };
        let share = 1.0 / counted.max(1) as f32;
        inside.for_each(|at| shares[o * size + at - before] = share);
    }
    shares
}
