//! Strides beyond the register field: with every phase of the stride as channels, the stride is 1 (space to depth).
//!
//! Non-overlapping patches become a product over the elements of each patch. The sums stay whole.

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::ValueId;

/// Phase decomposition of one axis (space to depth).
struct Split {
    /// Phases; 1 leaves the axis as it is.
    phases: usize,
    /// Zeros in front of the first tap, so that windows start on multiples of the stride.
    shift: usize,
    /// Taps of each phase.
    taps: usize,
    axis: Axis,
}

impl Split {
    fn of(axis: Axis, split: bool) -> Split {
        if !split {
            return Split { phases: 1, shift: 0, taps: axis.taps, axis };
        }
        let step = axis.stride;
        let shift = axis.before.next_multiple_of(step) - axis.before;
        let taps = (shift + axis.reach()).div_ceil(step);
        let before = (axis.before + shift) / step;
        let mut made = Axis { size: 0, out: axis.out, taps, stride: 1, dilation: 1, before, after: 0 };
        // No more than the windows cover: elements behind the last one are cut off, elements missing from a phase are zeros.
        made.size = axis.size.div_ceil(step).min(made.padded().saturating_sub(before).max(1));
        made.after = made.trailing();
        Split { phases: step, shift, taps, axis: made }
    }

    /// Tap of the original kernel at tap `tap` of a phase.
    fn tap(&self, phase: usize, tap: usize, of: &Axis) -> Option<usize> {
        if self.phases == 1 {
            return Some(tap);
        }
        let at = (tap * self.phases + phase).checked_sub(self.shift)?;
        (at.is_multiple_of(of.dilation) && at / of.dilation < of.taps).then_some(at / of.dilation)
    }
}

impl Windows<'_, '_> {
    pub(super) fn phases(&mut self, conv: Conv, x: ValueId) -> ValueId {
        let beyond = |s: &Self, a: &Axis| a.stride > s.limits.stride || a.stride > 1 && a.reach() > s.limits.columns;
        let splits: Vec<Split> = conv.axes.iter().map(|a| Split::of(*a, beyond(self, a))).collect();
        let steps: Vec<usize> = splits.iter().map(|s| s.phases).collect();
        let patches = splits.iter().all(|s| s.taps == 1);
        let what = if patches {
            "non-overlapping patches are channels of a 1x1 convolution"
        } else {
            "phases are channels, the stride is 1"
        };
        self.notes.push(format!("stride {steps:?}: {what}"));

        let mut x = x;
        for (i, split) in splits.iter().enumerate().filter(|(_, s)| s.phases > 1) {
            x = self.padded(x, i + 2, 0, split.axis.size * split.phases);
        }
        let shape = self.builder.shape(x);
        let (batch, channels) = (shape[0], shape[1]);
        // [N, C, H, W] as [N, C, rows, row phase, columns, column phase], the phases next to the channels.
        let mut apart = vec![batch, channels];
        splits.iter().for_each(|s| apart.extend([s.axis.size, s.phases]));
        let spatial = splits.len();
        let mut perm = vec![0, 1];
        perm.extend((0..spatial).map(|i| 3 + 2 * i));
        perm.extend((0..spatial).map(|i| 2 + 2 * i));
        let phases: usize = steps.iter().product();
        let mut joined = vec![batch, channels * phases];
        joined.extend(splits.iter().map(|s| s.axis.size));
        let x = self.reshaped(x, apart);
        let x = self.permuted(x, &perm);
        let x = self.reshaped(x, joined);

        let kernel = phase_kernel(&conv, &splits);
        let axes: Vec<Axis> = splits.iter().map(|s| s.axis).collect();
        let mut shape = vec![conv.outputs(), conv.kernel.shape[1] * phases];
        shape.extend(axes.iter().map(|a| a.taps));
        let kernel = self.kernel(shape, kernel, &conv.kernel);
        self.conv(Conv { kernel, axes, ..conv }, x)
    }
}

/// The kernel with the phases as input channels, in the order of the operand.
fn phase_kernel(conv: &Conv, splits: &[Split]) -> Vec<f32> {
    let data = conv.kernel.data.to_f32();
    let pick = |i: usize| splits.get(i);
    let phases = [0, 1].map(|i| pick(i).map_or(1, |s| s.phases));
    let taps = [0, 1].map(|i| pick(i).map_or(1, |s| s.taps));
    let given = [0, 1].map(|i| conv.axes.get(i).map_or(1, |a| a.taps));
    let tap = |i: usize, phase, tap| pick(i).map_or(Some(0), |s| s.tap(phase, tap, &conv.axes[i]));
    let pairs = conv.kernel.shape[0] * conv.kernel.shape[1];
    let mut made = Vec::with_capacity(pairs * phases[0] * phases[1] * taps[0] * taps[1]);
    for pair in 0..pairs {
        for (p, q) in (0..phases[0]).flat_map(|p| (0..phases[1]).map(move |q| (p, q))) {
            for (r, c) in (0..taps[0]).flat_map(|r| (0..taps[1]).map(move |c| (r, c))) {
                let at = tap(0, p, r).zip(tap(1, q, c));
                made.push(at.map_or(0.0, |(r, c)| data[(pair * given[0] + r) * given[1] + c]));
            }
        }
    }
    made
}
