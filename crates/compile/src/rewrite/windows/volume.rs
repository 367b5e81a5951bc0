//! Kernels over three axes: the taps along depth become channels, and depth and rows one axis.

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::{OpKind, ValueId};

impl Windows<'_, '_> {
    /// Computes a convolution over depth as one over rows: planes are stacked along the rows, each with its own padding, and
    /// result rows whose window reaches into the next plane are dropped.
    pub(super) fn volume(&mut self, conv: Conv, x: ValueId) -> ValueId {
        let (depth, rows) = (conv.axes[0], conv.axes[1]);
        self.notes.push(format!("{} taps along depth as channels", depth.taps));
        let mut x = self.padded(x, 2, depth.before, depth.padded());
        // Rows of a plane, rounded up so that the next plane begins on a whole step.
        let plane = rows.padded().next_multiple_of(rows.stride);
        x = self.padded(x, 3, rows.before, plane);
        let shape = self.builder.shape(x);
        let (batch, groups, columns) = (shape[0], conv.groups, shape[4]);
        let per_group = shape[1] / groups;
        x = self.reshaped(x, vec![batch, groups, per_group, shape[2], plane, columns]);
        let end = (depth.out - 1) * depth.stride + 1;
        let parts: Vec<ValueId> = (0..depth.taps)
            .map(|tap| {
                let first = tap * depth.dilation;
                self.slice_step(x, 3, first, first + end, depth.stride)
            })
            .collect();
        let inputs = per_group * depth.taps;
        let joined = vec![batch, groups, inputs, depth.out, plane, columns];
        let x = match parts.as_slice() {
            [one] => *one,
            _ => self.builder.op("depths", OpKind::Concat { axis: 2 }, &parts, joined),
        };
        let x = self.reshaped(x, vec![batch, groups * inputs, depth.out * plane, columns]);

        let outputs = conv.outputs();
        let area = conv.taps() / depth.taps;
        let data = conv.kernel.data.to_f32();
        let mut made = Vec::with_capacity(data.len());
        for (output, tap) in (0..outputs).flat_map(|o| (0..depth.taps).map(move |t| (o, t))) {
            for channel in 0..per_group {
                let at = ((output * per_group + channel) * depth.taps + tap) * area;
                made.extend_from_slice(&data[at..at + area]);
            }
        }
        let kernel = self.kernel(vec![outputs, inputs, rows.taps, conv.axes[2].taps], made, &conv.kernel);
        // A missing or additional window at the end is harmless: the last plane's rows need only their own windows.
        let step = plane / rows.stride;
        let tall = Axis { size: depth.out * plane, out: depth.out * step, before: 0, after: 0, ..rows };
        let tall = Axis { after: tall.trailing(), ..tall };
        let flat = Conv { kernel, axes: vec![tall, conv.axes[2]], ..conv };
        let width = flat.axes[1].out;
        let made = self.conv(flat, x);
        let made = self.reshaped(made, vec![batch, outputs, depth.out, step, width]);
        self.slice_axis(made, 3, 0, rows.out)
    }
}
