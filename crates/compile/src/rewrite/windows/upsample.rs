//! Transposed convolutions beyond the limits: each phase of the result is a set of output channels of one convolution, and the
//! phases are interleaved afterwards (depth to space).

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::{Op, OpKind, ValueId};

/// Largest number of phases that are computed by a convolution each; more become channels of one convolution.
const MOST_PHASES: usize = 9;

/// One axis: output `q * stride + r`, with `r` below the stride, reads the operand from element `q + first` on.
struct Phases {
    stride: usize,
    /// Elements of the result along the axis.
    out: usize,
    /// Padding in front: window `q` begins at element `q - before` of the operand.
    before: usize,
    /// Taps of the plain convolution.
    taps: usize,
    /// Elements cropped in front of the result.
    cut: usize,
    kernel: usize,
    dilation: usize,
}

impl Phases {
    fn of(stride: usize, out: usize, cut: usize, kernel: usize, dilation: usize) -> Phases {
        let reach = (kernel - 1) * dilation + 1;
        let most = cut.div_ceil(stride);
        let taps_back = reach.div_ceil(stride) - 1;
        let first = cut as isize / stride as isize - taps_back as isize;
        let before = (-first).max(0) as usize;
        Phases { stride, out, before, taps: before + most + 1, cut, kernel, dilation }
    }

    /// Tap of the transposed kernel for output phase `r` at tap `tap` of the plain convolution.
    fn tap(&self, r: usize, tap: usize) -> Option<usize> {
        let back = ((r + self.cut) / self.stride + self.before).checked_sub(tap)?;
        let at = (r + self.cut) % self.stride + back * self.stride;
        (at.is_multiple_of(self.dilation) && at / self.dilation < self.kernel).then_some(at / self.dilation)
    }

    fn axis(&self, size: usize) -> Axis {
        let out = self.out.div_ceil(self.stride);
        let axis = Axis { size, out, taps: self.taps, before: self.before, ..Axis::unit(size) };
        Axis { after: axis.trailing(), ..axis }
    }
}

impl Windows<'_, '_> {
    pub(super) fn transposed(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Option<ValueId> {
        let Some(given) = self.builder.net.value(op.inputs[1]).data.clone() else {
            return Some(self.live_transposed(op, strides, pads, dilations, groups));
        };
        if let Some(made) = self.transposed_planes(op, &given) {
            return Some(made);
        }
        let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| self.builder.shape(id));
        let phases: Vec<Phases> = (0..strides.len())
            .map(|i| Phases::of(strides[i], to[i + 2], pads[i].0, given.shape[i + 2], dilations[i]))
            .collect();
        let taps = |i: usize| i.checked_sub(1).map_or(1, |_| phases[phases.len() - i].taps);
        let side = if strides.len() > 1 { taps(2) } else { 1 };
        let interleaved = self.limits.interleave;
        let steps: usize = strides.iter().product();
        let native = strides.len() < 3
            && self.limits.takes([side, taps(1)])
            && strides.iter().all(|&s| s <= interleaved)
            && steps <= MOST_PHASES;
        if native {
            return None;
        }
        self.notes.push(format!("phases of stride {strides:?} as {steps} sets of output channels"));
        let (inputs, per_output) = (given.shape[0], given.shape[1]);
        let per_input = inputs / groups;
        let area: usize = given.shape[2..].iter().product();
        let data = given.data.to_f32();
        let outputs = per_output * groups;
        let windows: Vec<usize> = phases.iter().map(|p| p.taps).collect();
        let mut made = Vec::new();
        for output in 0..outputs {
            for r in super::counted(strides) {
                for input in 0..per_input {
                    let source = output / per_output * per_input + input;
                    let base = (source * per_output + output % per_output) * area;
                    for t in super::counted(&windows) {
                        let at = (0..phases.len())
                            .try_fold(0, |at, i| Some(at * phases[i].kernel + phases[i].tap(r[i], t[i])?));
                        made.push(at.map_or(0.0, |at| data[base + at]));
                    }
                }
            }
        }
        let mut shape = vec![outputs * steps, per_input];
        shape.extend(&windows);
        let kernel = self.kernel(shape, made, &given);
        let bias = op.inputs.get(2).map(|&id| self.repeated_bias(id, steps));
        let axes: Vec<Axis> = phases.iter().zip(&from[2..]).map(|(p, &n)| p.axis(n)).collect();
        let counts: Vec<usize> = axes.iter().map(|a| a.out).collect();
        let conv = Conv { kernel, bias, axes, groups };
        let y = self.conv(conv, op.inputs[0]);
        // [N, C, phases.., counts..] as [N, C, count, phase, ..].
        let mut apart = vec![from[0], outputs];
        apart.extend(strides.iter().chain(&counts));
        let spatial = strides.len();
        let mut perm = vec![0, 1];
        (0..spatial).for_each(|i| perm.extend([2 + spatial + i, 2 + i]));
        let mut joined = vec![from[0], outputs];
        joined.extend(counts.iter().zip(strides).map(|(n, s)| n * s));
        let y = self.reshaped(y, apart);
        let y = self.permuted(y, &perm);
        let mut y = self.reshaped(y, joined);
        for (i, p) in phases.iter().enumerate() {
            y = self.slice_axis(y, i + 2, 0, p.out);
        }
        Some(y)
    }

    /// A bias with each number repeated `times` times.
    pub(super) fn repeated_bias(&mut self, id: ValueId, times: usize) -> ValueId {
        match self.builder.net.value(id).data.clone() {
            Some(bias) => {
                let data: Vec<f32> = bias.data.to_f32().into_iter().flat_map(|b| vec![b; times]).collect();
                self.builder.constant("bias", vec![data.len()], data)
            }
            None => {
                let count = self.builder.shape(id)[0];
                let column = self.reshaped(id, vec![count, 1]);
                let wide = self.builder.op("repeated", OpKind::Broadcast, &[column], vec![count, times]);
                self.reshaped(wide, vec![count * times])
            }
        }
    }
}
