//! Rewrites of convolutions and poolings beyond a chip's window limits into ones within them.
//!
//! Every rewrite keeps the sums whole: the excess of a kernel axis moves into channels, so that one convolution
//! still accumulates all taps and rounds once. Sums of partial convolutions would round in between, and are not used.
//!
//! | file | input | result |
//! |---|---|---|
//! | `phases` | strides beyond the register field | phases of the stride as channels, stride 1 |
//! | `unfold` | kernels and dilated windows beyond the limits | blocks of taps as channels |
//! | `fold` | long kernels over one axis | kernels over two axes |
//! | `planes` | kernels over three axes, few planes | planes as channels |
//! | `volume` | other kernels over three axes | depth taps as channels |
//! | `upsample` | transposed convolutions beyond the limits | phases of the result as output channels |
//! | `pool` | wide poolings | poolings in stages, products with averaging matrices |
//! | `live` | kernels computed at run time | products of two matrices |

mod axis;
mod fold;
mod live;
mod phases;
mod planes;
mod pool;
mod unfold;
mod upsample;
mod volume;

use super::{Builder, rewrite};
use crate::error::Result;
use crate::ir::ELEMENT_BYTES;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_facts::chips::{CHIPS, Chip};
use anemone_facts::cost;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, ValueId, compress};
use axis::Axis;
use std::sync::Arc;

/// Window limits of a chip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest kernel height of a convolution.
    rows: usize,
    /// Largest kernel width of a convolution.
    columns: usize,
    /// Largest stride of a window.
    stride: usize,
    /// Largest height and width of a pooling window.
    pool: [usize; 2],
    /// Largest number of columns of a tensor.
    width: usize,
    /// Largest number of channels that the result's DMA interleaves.
    interleave: usize,
    /// Multiply-accumulates in the time of copying an element, and in that of beginning a task.
    of_copy: f64,
    of_task: f64,
}

/// All index tuples below the extents.
fn counted(extents: &[usize]) -> Vec<Vec<usize>> {
    let first = vec![Vec::new()];
    extents
        .iter()
        .fold(first, |all, &n| all.iter().flat_map(|p| (0..n).map(|i| [p.as_slice(), &[i]].concat())).collect())
}

impl Limits {
    pub(crate) fn of(chip: &Chip) -> Limits {
        let field = |field| chip.layout.and_then(|l| l.row(field)).map_or(1, |row| row.max() as usize);
        let hal = &chip.hal;
        let of = |number: Option<u64>, default: usize| number.map_or(default, |n| n as usize);
        // Chips without measured rates have those of the first one.
        let measured = |chip: &Chip| cost::rates(chip.target).zip(chip.hal.f_max_hz);
        let measured = measured(chip).or_else(|| measured(&CHIPS[0]));
        let macs = |ns: fn(&cost::Rates) -> f64| {
            measured.map_or(f64::INFINITY, |(rates, hz)| ns(rates) * hz as f64 / 1e9 * cost::MACS_PER_CYCLE as f64)
        };
        Limits {
            rows: of(hal.max_kernel_height, 1),
            columns: of(hal.max_kernel_width_fp16, 1),
            stride: field(anemone_facts::Field::Sx),
            pool: [of(hal.max_patch_height, 1), of(hal.max_patch_width, 1)],
            width: of(hal.max_tensor_width, usize::MAX),
            interleave: field(anemone_facts::Field::DstInterleave),
            of_copy: macs(|rates| (2 * ELEMENT_BYTES) as f64 / rates.activation_bytes_per_ns),
            of_task: macs(|rates| rates.task_ns),
        }
    }

    /// Returns true if one pooling task computes the window: at most two axes, kernel and strides within the limits.
    pub(crate) fn pools(&self, kernel: &[usize], strides: &[usize]) -> bool {
        let missing = 2usize.saturating_sub(kernel.len());
        let fits = |(i, &k): (usize, &usize)| k <= self.pool[i + missing];
        kernel.len() <= 2 && kernel.iter().enumerate().all(fits) && strides.iter().all(|&s| s <= self.stride)
    }

    /// Returns true if one convolution task has these windows.
    pub(crate) fn convolves(&self, kernel: &[usize], strides: &[usize]) -> bool {
        let missing = 2usize.saturating_sub(kernel.len());
        let fits = |(i, &k): (usize, &usize)| k <= [self.rows, self.columns][i + missing];
        kernel.len() <= 2 && kernel.iter().enumerate().all(fits) && strides.iter().all(|&s| s <= self.stride)
    }

    /// Returns true if a kernel of these extents, dilation included, is within the limits, directly or with rows and columns exchanged.
    fn takes(&self, [rows, columns]: [usize; 2]) -> bool {
        let fits = |rows, columns| rows <= self.rows && columns <= self.columns;
        fits(rows, columns) || fits(columns, rows)
    }
}

/// Rewrites convolutions and poolings beyond the chip's window limits into ones within them.
pub(crate) fn fit_windows(net: &mut Net, chip: &'static Chip, _: &Options, reasons: &mut Remarks) -> Result<()> {
    let limits = Limits::of(chip);
    let mut notes = Vec::new();
    let said = std::cell::RefCell::new(&mut notes);
    rewrite(net, reasons, |builder, op| {
        let mut windows = Windows { builder, limits, notes: Vec::new() };
        if !windows.op(op) {
            windows.builder.ops.push(op.clone());
        }
        let notes = std::mem::take(&mut windows.notes);
        said.borrow_mut().extend(notes.into_iter().map(|note| format!("{}: {note}", op.name)));
        Ok(())
    })?;
    notes.into_iter().for_each(|note| reasons.say(|| note));
    Ok(())
}

/// An operation being rewritten.
struct Windows<'a, 'b> {
    builder: &'a mut Builder<'b>,
    limits: Limits,
    notes: Vec<String>,
}

/// A convolution with a constant kernel `[outputs, inputs / groups, k...]`.
#[derive(Clone)]
struct Conv {
    kernel: Arc<Tensor>,
    bias: Option<ValueId>,
    axes: Vec<Axis>,
    groups: usize,
}

impl Conv {
    fn outputs(&self) -> usize {
        self.kernel.shape[0]
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.taps).product()
    }
}

impl Windows<'_, '_> {
    /// Rewrites an operation; returns `false` if it stays as it is.
    fn op(&mut self, op: &Op) -> bool {
        let (Some(&x), Some(&out)) = (op.inputs.first(), op.outputs.first()) else { return false };
        let made = match &op.kind {
            OpKind::Conv { strides, pads, dilations, groups } => {
                let axes = self.axes_of(x, op.inputs[1], out, strides, pads, dilations);
                match self.builder.net.value(op.inputs[1]).data.clone() {
                    Some(kernel) => {
                        let conv = Conv { kernel, bias: op.inputs.get(2).copied(), axes, groups: *groups };
                        // The engine refuses a window that lies wholly in the trailing padding.
                        let ends = |a: &Axis| (a.out - 1) * a.stride < a.before + a.size;
                        if conv.axes.len() < 3 && self.is_native(&conv) && conv.axes.iter().all(ends) {
                            return false;
                        }
                        Some(self.conv(conv, x))
                    }
                    None => Some(self.live_conv(op, axes, *groups)),
                }
            }
            OpKind::ConvTranspose { strides, pads, dilations, groups, .. } => {
                self.transposed(op, strides, pads, dilations, *groups)
            }
            OpKind::Pool { kind, kernel, strides, pads, .. } => self.pool(op, *kind, kernel, strides, pads),
            OpKind::Linear => self.live_linear(op),
            _ => None,
        };
        let Some(made) = made else { return false };
        self.finish(made, out);
        true
    }

    /// Makes `made` the operation's result.
    fn finish(&mut self, made: ValueId, out: ValueId) {
        let declared = self.builder.shape(out);
        let last = self.builder.ops.last_mut().filter(|op| op.outputs == [made]);
        match last {
            Some(op) if self.builder.net.value(made).ty.shape == declared => op.outputs = vec![out],
            _ => self.builder.push(OpKind::Reshape, &[made], out),
        }
    }

    /// Returns true if a convolution is one task, directly or with rows and columns exchanged before and after it.
    fn is_native(&self, conv: &Conv) -> bool {
        let missing = 2 - conv.axes.len();
        let axis = |i: usize| (i >= missing).then(|| conv.axes[i - missing]);
        let reach = [0, 1].map(|i| axis(i).map_or(1, |a| a.reach()));
        let strides = conv.axes.iter().all(|a| a.stride <= self.limits.stride);
        let width = conv.axes.last().is_none_or(|a| a.size.max(a.padded()) <= self.limits.width);
        self.limits.takes(reach) && strides && width
    }

    /// A convolution by convolutions that the chip supports.
    fn conv(&mut self, mut conv: Conv, x: ValueId) -> ValueId {
        if conv.axes.len() > 2 {
            return self.planes(&conv, x).unwrap_or_else(|| self.volume(conv, x));
        }
        let mut x = x;
        for axis in 0..conv.axes.len() {
            x = self.trim(&mut conv, axis, x);
        }
        if self.is_native(&conv) {
            return self.emit(&conv, x);
        }
        let wide = |s: &Self, a: &Axis| a.stride > s.limits.stride || a.stride > 1 && a.reach() > s.limits.columns;
        if conv.axes.iter().any(|a| wide(self, a)) {
            return self.phases(conv, x);
        }
        let last = conv.axes.len() - 1;
        let columns = conv.axes[last];
        let single_row = last == 0 || conv.axes[0].taps == 1 && conv.axes[0].size == 1 && conv.axes[0].out == 1;
        if single_row && self.limits.takes([1, columns.reach()]) {
            return self.tiles(conv, x);
        }
        if single_row && conv.groups != conv.outputs() && columns.stride == 1 && columns.dilation == 1 {
            return self.fold(conv, x);
        }
        self.unfold(conv, x)
    }

    /// The convolution as one operation.
    fn emit(&mut self, conv: &Conv, mut x: ValueId) -> ValueId {
        let mut axes = conv.axes.clone();
        for (i, axis) in axes.iter_mut().enumerate() {
            // Elements that no window covers are dropped from the operand, so that every window covers one.
            let front = axis.before.saturating_sub(axis.reach() - 1);
            let last = (axis.out - 1) * axis.stride + front + 1;
            let size = (axis.padded() + front).saturating_sub(axis.before).min(axis.size + front);
            let size = size.max(last.saturating_sub(axis.before)).max(front + 1);
            x = self.padded(x, i + 2, front, size);
            (axis.before, axis.size) = (axis.before - front, size);
            axis.after = axis.trailing();
        }
        let from = self.builder.shape(x);
        let mut shape = vec![from[0], conv.outputs()];
        shape.extend(axes.iter().map(|a| a.out));
        let kernel = self.builder.shared_constant("kernel", conv.kernel.clone());
        let kind = OpKind::Conv {
            strides: axes.iter().map(|a| a.stride).collect(),
            pads: axes.iter().map(|a| (a.before, a.after)).collect(),
            dilations: axes.iter().map(|a| a.dilation).collect(),
            groups: conv.groups,
        };
        let inputs: Vec<ValueId> = [x, kernel].into_iter().chain(conv.bias).collect();
        self.builder.op("conv", kind, &inputs, shape)
    }

    /// Adds a bias per channel, axis 1.
    fn biased(&mut self, made: ValueId, bias: Option<&ValueId>) -> ValueId {
        let Some(&bias) = bias else { return made };
        let shape = self.builder.shape(made);
        let mut own = vec![1; shape.len()];
        own[1] = shape[1];
        let bias = self.reshaped(bias, own);
        self.builder.op("biased", OpKind::Binary(Binary::Add), &[made, bias], shape)
    }

    /// A kernel made from elements of another, stored as compactly.
    fn kernel(&self, shape: Vec<usize>, data: Vec<f32>, of: &Tensor) -> Arc<Tensor> {
        Arc::new(compress::recompressed(Tensor { shape, data: Data::F32(data) }, [of]))
    }
}
