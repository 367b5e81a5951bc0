//! One spatial axis of a window, and the rewrites along it: padding, slices, removal of taps that cover only padding.

use super::{Conv, Windows};
use anemone_net::{OpKind, ValueId};

/// A window along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// Number of elements of the operand.
    pub size: usize,
    /// Number of elements of the result.
    pub out: usize,
    pub taps: usize,
    pub stride: usize,
    pub dilation: usize,
    pub before: usize,
    pub after: usize,
}

impl Axis {
    /// Number of elements from the first tap to the last.
    pub fn reach(&self) -> usize {
        (self.taps - 1) * self.dilation + 1
    }

    /// Number of elements that all windows together cover.
    pub fn padded(&self) -> usize {
        (self.out - 1) * self.stride + self.reach()
    }

    /// Padding behind the operand that windows cover; zero if the operand ends behind the last window.
    pub fn trailing(&self) -> usize {
        self.padded().saturating_sub(self.before + self.size)
    }

    /// The axis of a window over one element.
    pub fn unit(size: usize) -> Axis {
        Axis { size, out: size, taps: 1, stride: 1, dilation: 1, before: 0, after: 0 }
    }
}

impl Windows<'_, '_> {
    /// The spatial axes of an operation with a kernel `[.., .., k...]`.
    pub(super) fn axes_of(
        &self,
        x: ValueId,
        kernel: ValueId,
        out: ValueId,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
    ) -> Vec<Axis> {
        let [x, kernel, out] = [x, kernel, out].map(|id| self.builder.shape(id));
        (0..strides.len())
            .map(|i| {
                let axis = Axis {
                    size: x[i + 2],
                    out: out[i + 2],
                    taps: kernel[i + 2],
                    stride: strides[i],
                    dilation: dilations[i],
                    before: pads[i].0,
                    after: 0,
                };
                Axis { after: axis.trailing(), ..axis }
            })
            .collect()
    }

    /// Removes leading and trailing taps along an axis that cover only padding in every window.
    pub(super) fn trim(&mut self, conv: &mut Conv, at: usize, x: ValueId) -> ValueId {
        let axis = conv.axes[at];
        let sees = |tap: usize| {
            (0..axis.out)
                .any(|o| (axis.before..axis.before + axis.size).contains(&(o * axis.stride + tap * axis.dilation)))
        };
        let Some(first) = (0..axis.taps).find(|&tap| sees(tap)) else { return x };
        let last = (first..axis.taps).rev().find(|&tap| sees(tap)).unwrap_or(first);
        if (first, last + 1) == (0, axis.taps) {
            return x;
        }
        self.notes.push(format!("{} of {} taps cover only padding", axis.taps - (last + 1 - first), axis.taps));
        conv.kernel = self.taps_of(conv, at, last + 1 - first, |tap| Some(tap + first));
        let skipped = first * axis.dilation;
        let cut = skipped.saturating_sub(axis.before);
        let mut short =
            Axis { taps: last + 1 - first, before: axis.before.saturating_sub(skipped), size: axis.size - cut, ..axis };
        short.after = short.trailing();
        conv.axes[at] = short;
        self.slice_axis(x, at + 2, cut, axis.size)
    }

    /// Rearranges the kernel's taps along one axis: `from` gives the tap for each new one, `None` is a zero.
    pub(super) fn taps_of(
        &self,
        conv: &Conv,
        at: usize,
        taps: usize,
        from: impl Fn(usize) -> Option<usize>,
    ) -> std::sync::Arc<anemone_net::Tensor> {
        let mut shape = conv.kernel.shape.clone();
        let old = std::mem::replace(&mut shape[at + 2], taps);
        let inner: usize = shape[at + 3..].iter().product();
        let outer: usize = shape[..at + 2].iter().product();
        let data = conv.kernel.data.to_f32();
        let mut made = vec![0.0; outer * taps * inner];
        for o in 0..outer {
            for tap in 0..taps {
                let Some(source) = from(tap).filter(|&t| t < old) else { continue };
                let (to, from) = ((o * taps + tap) * inner, (o * old + source) * inner);
                made[to..to + inner].copy_from_slice(&data[from..from + inner]);
            }
        }
        self.kernel(shape, made, &conv.kernel)
    }

    /// Elements `begin..end` along an axis.
    pub(super) fn slice_axis(&mut self, x: ValueId, axis: usize, begin: usize, end: usize) -> ValueId {
        self.slice_step(x, axis, begin, end, 1)
    }

    /// Every `step`-th element of `begin..end` along an axis.
    pub(super) fn slice_step(&mut self, x: ValueId, axis: usize, begin: usize, end: usize, step: usize) -> ValueId {
        let shape = self.builder.shape(x);
        if (begin, end, step) == (0, shape[axis], 1) {
            return x;
        }
        let (mut first, mut last, mut stride) = (vec![0; shape.len()], shape.clone(), vec![1; shape.len()]);
        (first[axis], last[axis], stride[axis]) = (begin, end, step);
        let mut shape = shape;
        shape[axis] = (end - begin).div_ceil(step);
        self.builder.op("part", OpKind::Slice { begin: first, end: last, stride }, &[x], shape)
    }

    /// Pads an axis with zeros before and after; elements beyond `size` are cut off.
    pub(super) fn padded(&mut self, x: ValueId, axis: usize, before: usize, size: usize) -> ValueId {
        let mut shape = self.builder.shape(x);
        let own = shape[axis].min(size - before);
        let x = self.slice_axis(x, axis, 0, own);
        let after = size - before - own;
        let mut parts = Vec::new();
        for (side, zeros) in [before, after].into_iter().enumerate() {
            if side == 1 {
                parts.push(x);
            }
            if zeros > 0 {
                shape[axis] = zeros;
                let count = shape.iter().product();
                parts.push(self.builder.constant("zeros", shape.clone(), vec![0.0; count]));
            }
        }
        if parts.len() == 1 {
            return x;
        }
        shape[axis] = size;
        self.builder.op("padded", OpKind::Concat { axis }, &parts, shape)
    }

    /// A reshape.
    pub(super) fn reshaped(&mut self, x: ValueId, shape: Vec<usize>) -> ValueId {
        if self.builder.shape(x) == shape {
            return x;
        }
        self.builder.op("reshaped", OpKind::Reshape, &[x], shape)
    }

    /// A transpose.
    pub(super) fn permuted(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return x;
        }
        let shape = self.builder.shape(x);
        let to = perm.iter().map(|&p| shape[p]).collect();
        self.builder.op("turned", OpKind::Transpose { perm: perm.to_vec() }, &[x], to)
    }
}
