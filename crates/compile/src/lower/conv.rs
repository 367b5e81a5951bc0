//! Lowering of convolutions with constant kernels.

use super::Lowerer;
use super::strided::Strided;
use crate::error::{Error, Result};
use crate::ir::*;
use anemone_check::own;
use anemone_facts::Field;
use anemone_net::{Op, OpKind, ValueId};
use half::f16;
use std::sync::Arc;

/// Most bytes of kernels that are repeated for the images of a batch.
const MOST_REPEATED: u64 = 1 << 20;

impl Lowerer<'_> {
    /// Checks a window against the chip's kernel limits and the register fields.
    pub(super) fn check_kernel(&self, window: &Window) -> Result<()> {
        if let Some(refusal) = own::kernel_refused(window.kernel.map(|k| k as i64), self.chip) {
            return Err(Error::Rule { op: self.op.clone(), refusal: Box::new(refusal) });
        }
        self.check_window(window)
    }

    /// Returns true if [`Self::check_kernel`] accepts a window.
    pub(super) fn accepts(&self, window: &Window) -> bool {
        self.check_kernel(window).is_ok()
    }

    /// Checks a window's extents, strides and padding against the register fields.
    pub(super) fn check_window(&self, window: &Window) -> Result<()> {
        for (axis, (k, s, p)) in
            [(Field::Kh, Field::Sy, Field::Py), (Field::Kw, Field::Sx, Field::Px)].into_iter().enumerate()
        {
            self.limit("window extent", window.kernel[axis], self.field_max(k))?;
            self.limit("stride", window.stride[axis], self.field_max(s))?;
            self.limit("padding", window.pad[axis], self.field_max(p))?;
        }
        Ok(())
    }

    /// Largest value of a register field.
    pub(super) fn field_max(&self, field: Field) -> Option<u64> {
        Some(self.chip.layout?.row(field)?.max() as u64)
    }

    /// Largest stride of one task.
    fn max_stride(&self) -> usize {
        self.field_max(Field::Sx).unwrap_or(1) as usize
    }

    /// One task for all batch elements if the kernel is small, because groups of the neural engine have coefficients of their own; else
    /// one per element.
    pub(super) fn push_per_batch(&mut self, kind: Kind, source: View4, result: View4) {
        if let Some((kind, source, result)) = self.images_together(&kind, source, result) {
            return self.push(kind, vec![source], vec![[false; 3]], result, false);
        }
        for n in 0..source.groups() {
            let at = |v: View4| View4 {
                offset_bytes: v.offset_bytes + n as u64 * v.axes[0].stride_bytes,
                axes: [Axis { extent: 1, stride_bytes: 0 }, v.axes[1], v.axes[2]],
                ..v
            };
            self.push(kind.clone(), vec![at(source)], vec![[false; 3]], at(result), false);
        }
    }

    /// Batch elements of a layer as groups, or as further channels if each output has its own sources. `None` if the repeated kernel would
    /// be large, or no strides express it.
    fn images_together(&self, kind: &Kind, source: View4, result: View4) -> Option<(Kind, View4, View4)> {
        let Kind::Conv { connect, .. } = kind else { return None };
        let repeated = self.repeated(kind, source.groups())?;
        Some(match connect {
            Connect::Dense if source.groups() <= self.max_groups() => (repeated, source, result),
            Connect::Unicast { .. } if source.groups() * source.channels() <= self.axis_limits()[1] => {
                (repeated, source.groups_as_channels()?, result.groups_as_channels()?)
            }
            _ => return None,
        })
    }

    /// A convolution with its kernel and biases repeated for each image. `None` for one image, and if the kernels would be large.
    fn repeated(&self, kind: &Kind, images: usize) -> Option<Kind> {
        let Kind::Conv { window, connect, weights, bias, post_scale, nonlinear } = kind else { return None };
        let bytes = (weights.values.len() * images) as u64 * ELEMENT_BYTES;
        if images == 1 || bytes > MOST_REPEATED || !self.options.conventions().images_grouped {
            return None;
        }
        let all = |own: &Arc<Vec<f32>>| if own.len() == 1 { own.clone() } else { Arc::new(own.repeat(images)) };
        Some(Kind::Conv {
            window: *window,
            connect: *connect,
            weights: Arc::new(weights.with(weights.values.repeat(images))),
            bias: bias.as_ref().map(all),
            post_scale: *post_scale,
            nonlinear: nonlinear.clone(),
        })
    }

    /// A layer without coefficients keeps its groups; one with coefficients is split into one layer per group.
    pub(super) fn push_groups(&mut self, kind: Kind, source: View4, result: View4) {
        if matches!(kind, Kind::Conv { .. }) {
            self.push_per_batch(kind, source, result);
        } else {
            self.push(kind, vec![source], vec![[false; 3]], result, false);
        }
    }

    pub(super) fn conv(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Result<()> {
        let (x, w) = (op.inputs[0], op.inputs[1]);
        let Some(weights) = self.weights(w) else {
            return Err(self.unsupported("a kernel computed at run time", "make the kernel a constant"));
        };
        let shape = self.net.value(w).ty.shape.clone();
        let spatial = shape.len() - 2;
        if spatial > 2 {
            return Err(self.unsupported("three-dimensional kernels", "split the depth axis into channels"));
        }
        let bias = self.bias_of(op)?;
        let (cout, per_group) = (shape[0], shape[1]);
        let missing = 2 - spatial;
        let pick = |i: usize, default: usize, from: &dyn Fn(usize) -> usize| {
            if i < missing { default } else { from(i - missing) }
        };
        let extents = [0, 1].map(|i| pick(i, 1, &|j| shape[j + 2]));
        let dilation = [0, 1].map(|i| pick(i, 1, &|j| dilations[j]));
        let (weights, kernel) = dilate(weights, extents, dilation);
        let mut window = Window {
            kernel,
            stride: [0, 1].map(|i| pick(i, 1, &|j| strides[j])),
            pad: [0, 1].map(|i| pick(i, 0, &|j| pads[j].0)),
        };
        let remaining = self.factor_strides(&mut window);
        let turns = own::needs_exchanged_kernel(window.kernel.map(|k| k as i64), self.chip);
        if turns && remaining == [1, 1] && self.options.conventions().whole_epilogues {
            let conv = Convolution { window, groups, per_group, cout, weights, bias };
            return self.convolve_moved(conv, x, op.outputs[0], missing);
        }
        // One-axis convolutions get a row axis of extent 1.
        let rows = |mut v: View| {
            for _ in 0..missing {
                v.lead.insert(v.lead.len().min(2), Axis { extent: 1, stride_bytes: 0 });
            }
            v
        };
        let (from, to) = (rows(self.view(x)?), rows(self.result(op.outputs[0])));
        let conv = Convolution { window, groups, per_group, cout, weights, bias };
        if remaining == [1, 1] {
            return self.convolve(conv, &from, &to);
        }
        // Strides beyond the field: computes a denser result, then keeps every n-th row and column.
        let mut shape = to.shape();
        let mut stride = vec![1; shape.len()];
        let spatial_from = shape.len() - 2;
        for (axis, &keep) in remaining.iter().enumerate() {
            let at = spatial_from + axis;
            shape[at] = (shape[at] - 1) * keep + 1;
            stride[at] = keep;
        }
        let dense = self.scratch("dense", &shape);
        self.convolve(conv, &from, &dense)?;
        self.slice_into(&dense, &vec![0; shape.len()], &shape, &stride, &to)
    }

    /// A convolution with rows and columns exchanged, whose moves before it are one with the exchange, and those behind it with the one
    /// back. `missing` is the number of axes that the value has less than four.
    fn convolve_moved(&mut self, conv: Convolution, x: ValueId, out: ValueId, missing: usize) -> Result<()> {
        let whole = |mut shape: Vec<usize>| {
            shape.splice(2..2, vec![1; missing]);
            shape.swap(2, 3);
            shape
        };
        let mut from = self.moved(x)?;
        from.axes.splice(2..2, vec![Vec::new(); missing]);
        let turned = match from.view() {
            Some(view) => self.exchanged(&view, 2, "turned")?,
            None => {
                let turned = self.scratch("turned", &whole(self.shape(x)));
                self.rearrange(&from.permuted(&[0, 1, 3, 2]), &turned)?;
                turned
            }
        };
        let result = self.scratch("result", &whole(self.shape(out)));
        self.convolve(conv.exchanged(), &turned, &result)?;
        // A function behind the convolution reads rows, which an exchange of its own stores.
        if !self.links.readers(out).iter().all(|op| matches!(op.kind, OpKind::Transpose { .. } | OpKind::Reshape)) {
            let mut to = self.result(out);
            to.lead.splice(2..2, vec![Axis { extent: 1, stride_bytes: 0 }; missing]);
            return self.copy_transposed(&result, &to, 2);
        }
        let mut made = Strided::from(&result).permuted(&[0, 1, 3, 2]);
        made.axes.drain(2..2 + missing);
        self.record_strided(out, made, None)
    }

    /// A convolution between views of four axes.
    pub(super) fn convolve(&mut self, conv: Convolution, from: &View, to: &View) -> Result<()> {
        if own::needs_exchanged_kernel(conv.window.kernel.map(|k| k as i64), self.chip) {
            let rows = from.lead.len() - 1;
            let turned = self.exchanged(from, rows, "turned")?;
            let mut shape = to.shape();
            shape.swap(rows, rows + 1);
            let result = self.scratch("result", &shape);
            self.convolve(conv.exchanged(), &turned, &result)?;
            return self.copy_transposed(&result, to, rows);
        }
        self.check_kernel(&conv.window)?;
        let (Some(source), Some(result)) = (from.nchw(), to.nchw()) else {
            return Err(self.unsupported("more than four axes", "reshape first"));
        };
        self.connect(conv, source, result);
        Ok(())
    }

    pub(super) fn bias_of(&self, op: &Op) -> Result<Option<Vec<f32>>> {
        match op.inputs.get(2) {
            None => Ok(None),
            Some(&b) => match self.constant(b) {
                Some(t) => Ok(Some(t.data.to_f32())),
                None => Err(self.unsupported("a bias computed at run time", "add it after the convolution")),
            },
        }
    }

    fn connect(&mut self, conv: Convolution, source: View4, result: View4) {
        let Convolution { window, groups, per_group, cout, weights, bias } = conv;
        let conventions = self.options.conventions();
        // 4.2.1 streams biases even if all are zero.
        let bias = bias.filter(|b| conventions.zero_biases_streamed || b.iter().any(|&x| x != 0.0));
        // Equal ones are one number (`encoder_conv_c256_n256_k3x3_s2_g256_bias1_same`).
        let equal = |b: &[f32]| conventions.equal_biases_are_numbers && b.iter().all(|x| *x == b[0]);
        let bias = bias.map(|b| if equal(&b) { vec![b[0]] } else { b }).map(Arc::new);
        let kind = |connect, weights, bias| Kind::Conv {
            window,
            connect,
            weights,
            bias,
            post_scale: 1.0,
            nonlinear: Nonlinear::None,
        };
        if groups == cout && groups > 1 {
            // Depthwise, possibly with several input channels per output channel.
            let connect = Connect::Unicast { per_output: per_group };
            return self.push_per_batch(kind(connect, Arc::new(weights), bias), source, result);
        }
        if groups == 1 {
            return self.push_per_batch(kind(Connect::Dense, Arc::new(weights), bias), source, result);
        }
        // The group axis is that of the convolution's groups, and of batch elements that follow each other; else the batch is unrolled.
        let out_per_group = cout / groups;
        let regroup = |v: View4, channels: usize| View4 {
            axes: [
                Axis { extent: v.axes[1].extent / channels, stride_bytes: v.axes[1].stride_bytes * channels as u64 },
                Axis { extent: channels, ..v.axes[1] },
                v.axes[2],
            ],
            ..v
        };
        let kind = kind(Connect::Dense, Arc::new(weights), bias);
        let images = (source.groups_as_channels(), result.groups_as_channels());
        if let (true, (Some(source), Some(result))) = (source.groups() * groups <= self.max_groups(), images)
            && let Some(kind) = self.repeated(&kind, source.channels() / (per_group * groups))
        {
            let (source, result) = (regroup(source, per_group), regroup(result, out_per_group));
            return self.push(kind, vec![source], vec![[false; 3]], result, false);
        }
        for n in 0..source.groups() {
            let at = |v: View4, channels: usize| {
                let offset_bytes = v.offset_bytes + n as u64 * v.axes[0].stride_bytes;
                regroup(View4 { offset_bytes, ..v }, channels)
            };
            self.push(kind.clone(), vec![at(source, per_group)], vec![[false; 3]], at(result, out_per_group), false);
        }
    }

    /// Divides each stride by its largest factor that fits the field; returns the remaining factors.
    fn factor_strides(&self, window: &mut Window) -> [usize; 2] {
        let most = self.max_stride();
        let mut remaining = [1, 1];
        for (stride, rest) in window.stride.iter_mut().zip(&mut remaining) {
            let factor = (1..=most).rev().find(|f| stride.is_multiple_of(*f)).unwrap_or(1);
            *rest = *stride / factor;
            *stride = factor;
        }
        remaining
    }
}

/// A convolution with constant coefficients `[cout][per_group][kh][kw]`.
pub(super) struct Convolution {
    pub(super) window: Window,
    pub(super) groups: usize,
    pub(super) per_group: usize,
    pub(super) cout: usize,
    pub(super) weights: Weights,
    pub(super) bias: Option<Vec<f32>>,
}

impl Convolution {
    /// The weights with rows and columns exchanged.
    fn exchanged(self) -> Convolution {
        let [kh, kw] = self.window.kernel;
        let turn = |[a, b]: [usize; 2]| [b, a];
        let Window { kernel, stride, pad } = self.window;
        let window = Window { kernel: turn(kernel), stride: turn(stride), pad: turn(pad) };
        let kernels = self.weights.values.chunks_exact((kh * kw).max(1));
        let turned = kernels.flat_map(|k| (0..kw).flat_map(move |c| (0..kh).map(move |r| k[r * kw + c])));
        let weights = self.weights.with(turned.collect::<Vec<f16>>());
        Convolution { window, weights, ..self }
    }
}

/// Dilates kernels by inserting zeros, because the engine has no dilation.
fn dilate(weights: Weights, extents: [usize; 2], dilation: [usize; 2]) -> (Weights, [usize; 2]) {
    if dilation == [1, 1] {
        return (weights, extents);
    }
    let wide = [0, 1].map(|i| (extents[i] - 1) * dilation[i] + 1);
    let (taps, wide_taps) = (extents[0] * extents[1], wide[0] * wide[1]);
    let mut out = vec![f16::ZERO; weights.values.len() / taps * wide_taps];
    for (kernel, wide_kernel) in weights.values.chunks_exact(taps).zip(out.chunks_exact_mut(wide_taps)) {
        for (i, &w) in kernel.iter().enumerate() {
            let (h, c) = (i / extents[1], i % extents[1]);
            wide_kernel[h * dilation[0] * wide[1] + c * dilation[1]] = w;
        }
    }
    (weights.with(out), wide)
}
