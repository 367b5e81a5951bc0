//! Lowering of transposed convolutions and resampling.
//!
//! A transposed convolution with stride `s` is `s` plain convolutions per axis, one for each phase of the result, whose
//! rows are interleaved by the destination DMA. Resampling, and padding by elements, are products with a constant matrix
//! along each axis.

use super::Lowerer;
use super::conv::Convolution;
use crate::error::Result;
use crate::ir::*;
use anemone_net::{DType, Data, Op, OpKind, Tensor, TensorType, ValueId};
use half::f16;
use std::sync::Arc;

/// One phase along one axis, as a plain convolution with the taps of the kernel that contribute to it.
struct Phase {
    /// Tap of the transposed kernel for each tap of the plain one; `None` is a zero.
    taps: Vec<Option<usize>>,
    pad: usize,
}

/// Most multiplications with zeros that phases computed together take beyond those of each: less than the tasks they save.
const MOST_ADDED: usize = 1 << 23;

/// Most weights of a resampling along one axis: 256 MiB of them while they are made.
const MOST_WEIGHTS: usize = 1 << 26;

/// Multiplications of one position by all phases of both axes in one window, beyond those of each phase in its own.
fn added_taps(apart: [&[Phase]; 2], joined: &[Vec<Phase>; 2]) -> usize {
    let all =
        |of: [&[Phase]; 2]| of.iter().map(|axis| axis.iter().map(|phase| phase.taps.len()).sum::<usize>()).product();
    let (own, together): (usize, usize) = (all(apart), all([&joined[0], &joined[1]]));
    together.saturating_sub(own)
}

impl Phase {
    /// The phases with zeros around their taps, so that all have the same window.
    fn alike(mut phases: Vec<Phase>) -> Vec<Phase> {
        let pad = phases.iter().map(|phase| phase.pad).max().unwrap_or(0);
        let taps = phases.iter().map(|phase| phase.taps.len() + pad - phase.pad).max().unwrap_or(0);
        for phase in &mut phases {
            phase.taps.splice(0..0, vec![None; pad - phase.pad]);
            phase.taps.resize(taps, None);
            phase.pad = pad;
        }
        phases
    }

    /// Phase `r` of stride `s`: outputs `r, r + s, ...` (`count` of them) of an axis of `size` elements, with the first `cut` elements of the
    /// result cropped, and `k` taps `dilation` apart.
    fn of(r: usize, s: usize, cut: usize, k: usize, dilation: usize, size: usize, count: usize) -> Phase {
        let reach = (k - 1) * dilation + 1;
        let first = (r + cut) % s;
        let shift = (r + cut - first) / s;
        // Taps `first, first + s, ...` of the dilated kernel, in reverse order.
        let mut taps: Vec<Option<usize>> =
            (first..reach).step_by(s).map(|at| at.is_multiple_of(dilation).then_some(at / dilation)).rev().collect();
        if taps.is_empty() {
            taps.push(None);
        }
        let mut pad = taps.len() as isize - 1 - shift as isize;
        // Windows start no later than the first source element, and no window is completely beyond the last one: zeros
        // before the taps move the window back.
        if pad < 0 {
            taps.splice(0..0, vec![None; (-pad) as usize]);
            pad = 0;
        }
        let beyond = (count as isize - pad - size as isize).max(0);
        taps.splice(0..0, vec![None; beyond as usize]);
        Phase { taps, pad: (pad + beyond) as usize }
    }
}

impl Lowerer<'_> {
    pub(super) fn conv_transpose(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Result<()> {
        let Some(tensor) = self.constant(op.inputs[1]).cloned() else {
            return Err(self.unsupported("a kernel computed at run time", "make the kernel a constant"));
        };
        let spatial = tensor.shape.len() - 2;
        if spatial > 2 {
            return Err(self.unsupported("three-dimensional kernels", "split the depth axis into channels"));
        }
        let missing = 2 - spatial;
        let pick = |i: usize, default: usize, from: &dyn Fn(usize) -> usize| {
            if i < missing { default } else { from(i - missing) }
        };
        let kernel = [0, 1].map(|i| pick(i, 1, &|j| tensor.shape[j + 2]));
        let stride = [0, 1].map(|i| pick(i, 1, &|j| strides[j]));
        let cut = [0, 1].map(|i| pick(i, 0, &|j| pads[j].0));
        let dilation = [0, 1].map(|i| pick(i, 1, &|j| dilations[j]));
        self.limit("stride", stride[1], self.field_max(anemone_facts::Field::DstInterleave))?;
        let bias = self.bias_of(op)?;
        let rows = |mut v: View| {
            if missing == 1 {
                v.lead.push(Axis { extent: 1, stride_bytes: 0 });
            }
            v
        };
        let (from, to) = (rows(self.view(op.inputs[0])?), rows(self.result(op.outputs[0])));
        let (shape, out) = (from.shape(), to.shape());
        let [n, c] = [out[0], out[1]];
        let counts = [0, 1].map(|i| out[2 + i].div_ceil(stride[i]));
        // Interleaved rows are complete; if the stride does not divide the width, they are cropped afterwards.
        let wide_shape = [n, c, out[2], counts[1] * stride[1]];
        let wide = if wide_shape[3] == out[3] { to.clone() } else { self.scratch("wide", &wide_shape) };
        let weights = (&tensor).into();
        let along = |axis: usize| -> Vec<Phase> {
            let of =
                |r| Phase::of(r, stride[axis], cut[axis], kernel[axis], dilation[axis], shape[2 + axis], counts[axis]);
            (0..stride[axis]).map(of).collect()
        };
        let whole = out[2].is_multiple_of(stride[0]) && groups == 1 && self.options.conventions().phases_joined;
        let joined = [0, 1].map(|axis| Phase::alike(along(axis)));
        let positions = shape[1] * c * counts[0] * counts[1];
        if whole && stride != [1, 1] && added_taps([&along(0), &along(1)], &joined) * positions <= MOST_ADDED {
            let phases = self.scratch("phases", &[n, stride[0], stride[1], c, counts[0], counts[1]]);
            let of =
                |v: usize, h: usize| phase_conv(&weights, &tensor.shape, kernel, 1, &joined[0][v], &joined[1][h], None);
            let count = stride[0] * stride[1];
            let mut values: Vec<f16> = Vec::new();
            (0..count).for_each(|i| values.extend_from_slice(&of(i / stride[1], i % stride[1]).weights.values));
            let bias = bias.map(|own| own.repeat(count));
            let conv = Convolution { cout: count * c, weights: weights.with(values), bias, ..of(0, 0) };
            let (batch, rows) = (phases.lead[0], phases.lead[1]);
            let channels = Axis { extent: conv.cout, ..phases.lead[3] };
            let lead = vec![batch, channels, phases.lead[4]];
            self.convolve(conv, &from, &View { lead, ..phases.clone() })?;
            for row_phase in 0..stride[0] {
                let mut lead = phases.lead.clone();
                lead.remove(1);
                let offset_bytes = phases.offset_bytes + row_phase as u64 * rows.stride_bytes;
                self.interleave_phases(&View { offset_bytes, lead, ..phases.clone() }, &wide, row_phase, stride[0])?;
            }
            if wide != to {
                self.slice_into(&wide, &[0; 4], &out, &[1; 4], &to)?;
            }
            return Ok(());
        }
        for row_phase in 0..stride[0].min(out[2]) {
            let rows_here = (out[2] - row_phase).div_ceil(stride[0]);
            let vertical = Phase::of(row_phase, stride[0], cut[0], kernel[0], dilation[0], shape[2], rows_here);
            // [batch, phase, channel, row, column]
            let phases = self.scratch("phases", &[n, stride[1], c, rows_here, counts[1]]);
            for column_phase in 0..stride[1] {
                let horizontal =
                    Phase::of(column_phase, stride[1], cut[1], kernel[1], dilation[1], shape[3], counts[1]);
                let conv = phase_conv(&weights, &tensor.shape, kernel, groups, &vertical, &horizontal, bias.clone());
                let mut lead = phases.lead.clone();
                let phase = lead.remove(1);
                let offset_bytes = phases.offset_bytes + column_phase as u64 * phase.stride_bytes;
                self.convolve(conv, &from, &View { offset_bytes, lead, ..phases.clone() })?;
            }
            self.interleave_phases(&phases, &wide, row_phase, stride[0])?;
        }
        if wide != to {
            self.slice_into(&wide, &[0; 4], &out, &[1; 4], &to)?;
        }
        Ok(())
    }

    /// Interleaves the columns of all phases, into every `step`-th row from `first` on.
    fn interleave_phases(&mut self, phases: &View, wide: &View, first: usize, step: usize) -> Result<()> {
        let copy = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
        let set = phases.lead[1].extent;
        for batch in 0..phases.lead[0].extent as u64 {
            let row = wide.lead[2];
            let source = View4 {
                buffer: phases.buffer,
                offset_bytes: phases.offset_bytes + batch * phases.lead[0].stride_bytes,
                axes: [phases.lead[2], phases.lead[1], phases.lead[3]],
                width: phases.width,
            };
            let result = View4 {
                buffer: wide.buffer,
                offset_bytes: wide.offset_bytes + batch * wide.lead[0].stride_bytes + first as u64 * row.stride_bytes,
                axes: [
                    wide.lead[1],
                    Axis { extent: set, stride_bytes: wide.lead[1].stride_bytes },
                    Axis { extent: phases.lead[3].extent, stride_bytes: row.stride_bytes * step as u64 },
                ],
                width: phases.width,
            };
            self.limit("groups", source.groups(), self.field_max(anemone_facts::Field::NumGroups))?;
            self.push(copy.clone(), vec![source], vec![[false; 3]], result, false);
            if let Some(layer) = self.graph.layers.last_mut() {
                layer.interleave = set;
            }
        }
        Ok(())
    }

    /// Resampling and padding by elements: a product with the matrix of weights along each axis whose extent changes. `along` is the
    /// operation on a matrix, along its first axis only.
    pub(super) fn resample(&mut self, x: ValueId, out: ValueId, along: impl Fn(usize) -> OpKind) -> Result<()> {
        let (mut current, to) = (self.view(x)?, self.result(out));
        let target = to.shape();
        let axes: Vec<usize> = (0..target.len()).filter(|&i| target[i] != current.shape()[i]).collect();
        for (i, &axis) in axes.iter().enumerate() {
            let mut shape = current.shape();
            let matrix = self.weights_along(&along(axis), shape[axis], target[axis])?;
            shape[axis] = target[axis];
            let result = if i + 1 == axes.len() { to.clone() } else { self.scratch("resized", &shape) };
            if axis == shape.len() - 1 {
                self.product_views(&current, &result, matrix.into(), None)?;
            } else {
                self.mix_axis(axis, matrix, &current, &result)?;
            }
            current = result;
        }
        if axes.is_empty() {
            return self.copy(&current, &to);
        }
        Ok(())
    }

    /// Weight matrix `[to, from]` of a resampling, evaluated on the identity: row `o` has the weights of the operand's elements
    /// in element `o`.
    fn weights_along(&self, kind: &OpKind, from: usize, to: usize) -> Result<Vec<f32>> {
        let most = from.saturating_mul(from.max(to));
        if most > MOST_WEIGHTS {
            let reason = format!("a matrix of {to} by {from} weights along an axis, at most {MOST_WEIGHTS} are made");
            return Err(self.unsupported(reason, "keep this operation on the host"));
        }
        let mut identity = vec![0.0; from * from];
        identity.iter_mut().step_by(from + 1).for_each(|x| *x = 1.0);
        let identity = Tensor { shape: vec![from, from], data: Data::F32(identity) };
        let declared = TensorType { dtype: DType::F32, shape: vec![to, from] };
        anemone_net::eval::fold(kind, &[&identity], Some(&declared))
            .map(|t| t.data.to_f32())
            .map_err(|e| self.unsupported(e.to_string(), "report this as a defect"))
    }

    /// Replaces every element along a leading axis by a weighted sum of that axis: a 1x1 convolution with the axis as channels.
    pub(super) fn mix_axis(&mut self, axis: usize, matrix: Vec<f32>, from: &View, to: &View) -> Result<()> {
        let (channels, outputs) = (from.lead[axis], to.lead[axis]);
        let kind = matrix_product(matrix);
        for pair in self.plane_blocks(axis, from, to)? {
            let put = |v: View4, c: Axis| View4 { axes: [v.axes[0], c, v.axes[2]], ..v };
            self.push_per_batch(kind.clone(), put(pair[0], channels), put(pair[1], outputs));
        }
        Ok(())
    }
}

/// The plain convolution of one phase. A transposed kernel is `[in][out / groups][kh][kw]`.
fn phase_conv(
    weights: &Weights,
    shape: &[usize],
    kernel: [usize; 2],
    groups: usize,
    vertical: &Phase,
    horizontal: &Phase,
    bias: Option<Vec<f32>>,
) -> Convolution {
    let (cin, per_group_out) = (shape[0], shape[1]);
    let (cout, per_group) = (per_group_out * groups, cin / groups);
    let given: &[f16] = &weights.values;
    let mut plain = Vec::with_capacity(cout * per_group * vertical.taps.len() * horizontal.taps.len());
    for co in 0..cout {
        for ci in 0..per_group {
            let input = co / per_group_out * per_group + ci;
            let base = (input * per_group_out + co % per_group_out) * kernel[0] * kernel[1];
            for &kh in &vertical.taps {
                for &kw in &horizontal.taps {
                    plain.push(match (kh, kw) {
                        (Some(kh), Some(kw)) => given[base + kh * kernel[1] + kw],
                        _ => f16::ZERO,
                    });
                }
            }
        }
    }
    let window = Window {
        kernel: [vertical.taps.len(), horizontal.taps.len()],
        stride: [1, 1],
        pad: [vertical.pad, horizontal.pad],
    };
    Convolution { window, groups, per_group, cout, weights: weights.with(plain), bias }
}

/// A 1x1 convolution with this matrix, whose rows are outputs.
pub(super) fn matrix_product(matrix: Vec<f32>) -> Kind {
    Kind::Conv {
        window: Window::UNIT,
        connect: Connect::Dense,
        weights: Arc::new(matrix.into()),
        bias: None,
        post_scale: 1.0,
        nonlinear: Nonlinear::None,
    }
}
