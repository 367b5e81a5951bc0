//! Kernels over three axes in a volume of few planes: all planes of a channel are channels, so that no plane is copied. The kernel
//! has zeros where a result plane does not read an operand plane.

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::{Binary, Op, OpKind, PoolKind, Tensor, ValueId};
use std::sync::Arc;

/// Multiplications that the engine does while it moves one byte of a copy.
const PRODUCTS_PER_BYTE: usize = 32;
/// Bytes that the engine moves in the time that one more task takes.
const TASK_BYTES: usize = 64 << 10;

/// The work of one convolution in two forms.
struct Work {
    /// Products and weights with planes as channels, and with taps along depth as channels.
    products: [usize; 2],
    weights: [usize; 2],
    /// Elements and tasks of the copies that planes as channels save.
    copied: usize,
    tasks: usize,
}

impl Work {
    /// Returns true if planes as channels take less time.
    fn saves(&self) -> bool {
        let [products, weights] = [self.products, self.weights].map(|[dense, flat]| dense.saturating_sub(flat));
        products / PRODUCTS_PER_BYTE + 2 * weights <= 2 * self.copied + self.tasks * TASK_BYTES
    }
}

fn count(all: &[bool]) -> usize {
    all.iter().filter(|&&b| b).count()
}

/// A kernel `[rows, columns, taps, area..]` as one over `[rows * planes, columns * planes, area..]`; `tap` gives the tap between two
/// planes.
fn spread(kernel: &Tensor, planes: [usize; 2], tap: impl Fn(usize, usize) -> Option<usize>) -> (Vec<usize>, Vec<f32>) {
    let [rows, columns, taps] = [kernel.shape[0], kernel.shape[1], kernel.shape[2]];
    let area: usize = kernel.shape[3..].iter().product();
    let data = kernel.data.to_f32();
    let mut made = vec![0.0; rows * planes[0] * columns * planes[1] * area];
    let mut cells = made.chunks_exact_mut(area.max(1));
    for (row, from) in (0..rows).flat_map(|row| (0..planes[0]).map(move |plane| (row, plane))) {
        for (column, to) in (0..columns).flat_map(|column| (0..planes[1]).map(move |plane| (column, plane))) {
            let Some(cell) = cells.next() else { break };
            if let Some(tap) = tap(from, to).filter(|&tap| tap < taps) {
                let at = ((row * columns + column) * taps + tap) * area;
                cell.copy_from_slice(&data[at..at + area]);
            }
        }
    }
    let mut shape = vec![rows * planes[0], columns * planes[1]];
    shape.extend(&kernel.shape[3..]);
    (shape, made)
}

impl Axis {
    /// Tap by which result element `out` reads operand element `at`.
    fn tap(&self, out: usize, at: usize) -> Option<usize> {
        let offset = (at + self.before).checked_sub(out * self.stride)?;
        let tap = offset / self.dilation;
        (offset.is_multiple_of(self.dilation) && tap < self.taps).then_some(tap)
    }
}

impl Windows<'_, '_> {
    /// The volume `[N, C, D, H, W]` with its planes as channels.
    fn as_planes(&mut self, x: ValueId) -> ValueId {
        let shape = self.builder.shape(x);
        self.reshaped(x, vec![shape[0], shape[1] * shape[2], shape[3], shape[4]])
    }

    /// The planes of `channels` channels as a volume.
    fn as_volume(&mut self, x: ValueId, channels: usize) -> ValueId {
        let shape = self.builder.shape(x);
        self.reshaped(x, vec![shape[0], channels, shape[1] / channels, shape[2], shape[3]])
    }

    /// A convolution over three axes with planes as channels, if that takes less time than copies of the planes.
    pub(super) fn planes(&mut self, conv: &Conv, x: ValueId) -> Option<ValueId> {
        let [depth, rows, columns] = [conv.axes[0], conv.axes[1], conv.axes[2]];
        let (outputs, per_group) = (conv.outputs(), conv.kernel.shape[1]);
        let batch = self.builder.shape(x)[0];
        let kernel = outputs * per_group * rows.taps * columns.taps;
        let plane = rows.padded().next_multiple_of(rows.stride);
        let [padded, split, cut] =
            [depth.padded() != depth.size || plane != rows.size, depth.taps > 1, plane > rows.size];
        let operand = batch * per_group * conv.groups * depth.size * rows.size * columns.size;
        let result = batch * outputs * depth.out * rows.out * columns.out;
        let flat = kernel * depth.taps;
        let work = Work {
            products: [kernel * depth.size * batch * rows.out, flat * batch * plane / rows.stride]
                .map(|n| n * depth.out * columns.out),
            weights: [kernel * depth.size * depth.out, flat],
            copied: 2 * (usize::from(padded) * operand + usize::from(cut) * result)
                + usize::from(split) * 2 * operand * depth.taps * depth.out / depth.size,
            tasks: count(&[depth.before > 0, depth.after > 0, padded, rows.before > 0, rows.after > 0, split, cut]),
        };
        if !work.saves() {
            return None;
        }
        self.notes.push(format!("{} planes as channels", depth.size));
        let (shape, made) = spread(&conv.kernel, [depth.out, depth.size], |out, at| depth.tap(out, at));
        let kernel = self.kernel(shape, made, &conv.kernel);
        let bias = conv.bias.map(|id| self.repeated_bias(id, depth.out));
        let x = self.as_planes(x);
        let made = self.conv(Conv { kernel, bias, axes: vec![rows, columns], groups: conv.groups }, x);
        Some(self.as_volume(made, outputs))
    }

    /// The same for a transposed convolution.
    pub(super) fn transposed_planes(&mut self, op: &Op, given: &Tensor) -> Option<ValueId> {
        let OpKind::ConvTranspose { strides, pads, output_pads, dilations, groups } = &op.kind else { return None };
        let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| self.builder.shape(id));
        if strides.len() != 3 {
            return None;
        }
        let kernel: usize = given.shape.iter().product();
        let steps: usize = strides.iter().product();
        let [operand, result] = [&from, &to].map(|shape| shape.iter().product::<usize>());
        let planes = [from[2], to[2]];
        let dense = kernel / given.shape[2] * planes[0] * planes[1];
        let work = Work {
            products: [dense * from[0] * from[3] * from[4], kernel * from[0] * from[2] * from[3] * from[4]],
            weights: [dense, kernel],
            copied: 2 * (operand * (1 + given.shape[2].div_ceil(strides[0])) + result),
            tasks: 4 + 2 * steps,
        };
        if !work.saves() {
            return None;
        }
        self.notes.push(format!("{} planes as channels", from[2]));
        let (shape, made) = spread(given, planes, |at, out| {
            let offset = (out + pads[0].0).checked_sub(at * strides[0])?;
            offset.is_multiple_of(dilations[0]).then_some(offset / dilations[0])
        });
        let kernel = self.kernel(shape, made, given);
        let kernel = self.builder.constant_of("kernel", kernel.as_ref().clone());
        let bias = op.inputs.get(2).map(|&id| self.repeated_bias(id, to[2]));
        let kind = OpKind::ConvTranspose {
            strides: strides[1..].to_vec(),
            pads: pads[1..].to_vec(),
            output_pads: output_pads[1..].to_vec(),
            dilations: dilations[1..].to_vec(),
            groups: *groups,
        };
        let x = self.as_planes(op.inputs[0]);
        let inputs: Vec<ValueId> = [x, kernel].into_iter().chain(bias).collect();
        let made = self.within(kind, &inputs, vec![to[0], to[1] * to[2], to[3], to[4]]);
        Some(self.as_volume(made, to[1]))
    }

    /// A pooling over three axes: of each plane, then over planes; means in one convolution.
    pub(super) fn pooled_planes(&mut self, axes: &[Axis], op: &Op) -> Option<ValueId> {
        let OpKind::Pool { kind, kernel, strides, pads, ceil_mode } = &op.kind else { return None };
        let &[depth, rows, columns] = axes else { return None };
        let [from, to] = [op.inputs[0], op.outputs[0]].map(|id| self.builder.shape(id));
        if let PoolKind::Average { exclude_padding } = *kind {
            let inside = [rows, columns].iter().all(|a| a.before == 0 && a.padded() <= a.size);
            // A window beyond the padding counts fewer elements.
            let whole = axes.iter().zip(pads).all(|(a, &(_, after))| a.padded() <= a.before + a.size + after);
            if !(if exclude_padding { inside } else { whole }) || !self.limits.takes([rows.taps, columns.taps]) {
                return None;
            }
            let counted = |out: usize| (0..depth.size).filter(|&at| depth.tap(out, at).is_some()).count();
            let area = rows.taps * columns.taps;
            let mut shares = Vec::with_capacity(from[1] * depth.out * depth.size * area);
            for out in (0..from[1]).flat_map(|_| 0..depth.out) {
                let taps = if exclude_padding { counted(out) } else { depth.taps };
                for at in 0..depth.size {
                    let share = depth.tap(out, at).map_or(0.0, |_| 1.0 / (taps * area) as f32);
                    shares.extend(std::iter::repeat_n(share, area));
                }
            }
            let shape = vec![from[1] * depth.out, depth.size, rows.taps, columns.taps];
            let data = anemone_net::Data::F32(shares);
            let conv = Conv {
                kernel: Arc::new(Tensor { shape, data }),
                bias: None,
                axes: vec![rows, columns],
                groups: from[1],
            };
            self.notes.push(format!("{} planes as channels", depth.size));
            let x = self.as_planes(op.inputs[0]);
            let made = self.conv(conv, x);
            return Some(self.as_volume(made, to[1]));
        }
        let inside = depth.before == 0 && depth.padded() <= depth.size;
        if *kind != PoolKind::Max || !inside || depth.taps > self.limits.pool[0].min(MOST_MAXIMA) {
            return None;
        }
        self.notes.push(format!("maxima of planes, then of {} planes", depth.taps));
        let flat = OpKind::Pool {
            kind: *kind,
            kernel: kernel[1..].to_vec(),
            strides: strides[1..].to_vec(),
            pads: pads[1..].to_vec(),
            ceil_mode: *ceil_mode,
        };
        let x = self.as_planes(op.inputs[0]);
        let still = [rows, columns].iter().all(|a| a.taps == 1 && a.stride == 1);
        let made = if still { x } else { self.within(flat, &[x], vec![to[0], from[1] * from[2], to[3], to[4]]) };
        let made = self.as_volume(made, to[1]);
        let end = (depth.out - 1) * depth.stride + 1;
        let mut parts = (0..depth.taps)
            .map(|tap| self.slice_step(made, 2, tap, tap + end, depth.stride))
            .collect::<Vec<_>>()
            .into_iter();
        let first = parts.next()?;
        Some(parts.fold(first, |most, part| {
            self.builder.op("maximum", OpKind::Binary(Binary::Max), &[most, part], to.clone())
        }))
    }

    /// An operation over two axes, rewritten in turn where it is beyond the limits.
    fn within(&mut self, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
        let made = self.builder.op("plane", kind, inputs, shape);
        let Some(op) = self.builder.ops.pop() else { return made };
        if !self.op(&op) {
            self.builder.ops.push(op);
        }
        made
    }
}

/// Largest window along depth whose maxima are elementwise.
const MOST_MAXIMA: usize = 3;
