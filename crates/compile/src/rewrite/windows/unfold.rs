//! Kernels and dilated windows beyond the limits: blocks of taps become channels, and one convolution sums them all.
//!
//! Blocks along rows are slices that cost a copy each. Columns are exchanged with rows first, because no slice of columns
//! can begin at a block.

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::{OpKind, Tensor, ValueId, compress};
use std::sync::Arc;

impl Axis {
    /// Number of blocks of taps along the axis that cover at most `most` elements each, and taps of a block.
    fn blocks(&self, most: usize) -> [usize; 2] {
        let count = self.taps.div_ceil((most - 1) / self.dilation + 1);
        [count, self.taps.div_ceil(count)]
    }

    /// Number of coefficients of the blocks, the zeros between dilated taps included.
    fn coefficients(&self, most: usize) -> usize {
        let [count, taps] = self.blocks(most);
        count * ((taps - 1) * self.dilation + 1)
    }
}

impl Windows<'_, '_> {
    pub(super) fn unfold(&mut self, conv: Conv, x: ValueId) -> ValueId {
        if conv.axes.len() == 1 {
            return self.with_rows(conv, x, Self::unfold);
        }
        let (mut conv, mut x) = (conv, x);
        let [rows, columns] = [0, 1].map(|i| conv.axes[i].reach());
        let stays = columns <= self.limits.columns;
        // Rows that become columns must fit there.
        let most = if stays { self.limits.rows } else { self.limits.columns };
        if rows > most || self.is_apart(&conv, x, most) {
            (conv, x) = self.blocks(conv, x, most);
        }
        if stays {
            return self.emit(&conv, x);
        }
        let turned = self.permuted(x, &[0, 1, 3, 2]);
        let mut exchanged = self.exchanged(&conv);
        let mut x = turned;
        let most = self.limits.rows;
        if exchanged.axes[0].reach() > most || self.is_apart(&exchanged, x, most) {
            (exchanged, x) = self.blocks(exchanged, x, most);
        }
        let made = self.emit(&exchanged, x);
        self.permuted(made, &[0, 1, 3, 2])
    }

    /// Returns true if every tap along rows is better a block of its own: products with the zeros between dilated taps take longer than the
    /// copies of further blocks.
    fn is_apart(&self, conv: &Conv, x: ValueId, most: usize) -> bool {
        let [rows, columns] = [conv.axes[0], conv.axes[1]];
        let [count, taps] = rows.blocks(most);
        let zeros = (rows.coefficients(most) - count * taps) * columns.coefficients(most);
        let products = (zeros * conv.outputs() / conv.groups) as f64;
        let elements = self.builder.shape(x).iter().product::<usize>() as f64;
        products * elements > (rows.taps - count) as f64 * (elements * self.limits.of_copy + self.limits.of_task)
    }

    /// Splits taps along rows into blocks of at most `most` rows; the blocks become channels.
    fn blocks(&mut self, conv: Conv, x: ValueId, most: usize) -> (Conv, ValueId) {
        let axis = conv.axes[0];
        let [count, taps] = if self.is_apart(&conv, x, most) { [axis.taps, 1] } else { axis.blocks(most) };
        self.notes.push(format!("{} taps of dilation {} as {count} blocks of channels", axis.taps, axis.dilation));
        let whole = Axis { taps: taps * count, ..axis };
        let x = self.padded(x, 2, axis.before, whole.padded());
        let span = (axis.out - 1) * axis.stride + (taps - 1) * axis.dilation + 1;
        let shape = self.builder.shape(x);
        let (batch, groups, columns) = (shape[0], conv.groups, shape[3]);
        let per_group = shape[1] / groups;
        // The axis of blocks is between groups and channels.
        let x = self.reshaped(x, vec![batch, groups, per_group, shape[2], columns]);
        let step = taps * axis.dilation;
        let parts: Vec<ValueId> = (0..count).map(|b| self.slice_axis(x, 3, b * step, b * step + span)).collect();
        let joined = vec![batch, groups, count * per_group, span, columns];
        let x = self.builder.op("blocks", OpKind::Concat { axis: 2 }, &parts, joined);
        let x = self.reshaped(x, vec![batch, groups * count * per_group, span, columns]);

        let data = conv.kernel.data.to_f32();
        let [outputs, _, rows, width] = <[usize; 4]>::try_from(conv.kernel.shape.as_slice()).unwrap_or([1; 4]);
        let mut made = Vec::with_capacity(outputs * per_group * taps * count * width);
        for (output, block) in (0..outputs).flat_map(|o| (0..count).map(move |b| (o, b))) {
            for (channel, tap) in (0..per_group).flat_map(|c| (0..taps).map(move |t| (c, t))) {
                let row = block * taps + tap;
                let at = ((output * per_group + channel) * rows + row) * width;
                if row < rows {
                    made.extend_from_slice(&data[at..at + width])
                } else {
                    made.resize(made.len() + width, 0.0)
                }
            }
        }
        let kernel = self.kernel(vec![outputs, per_group * count, taps, width], made, &conv.kernel);
        let rows = Axis { size: span, taps, before: 0, after: 0, ..axis };
        (Conv { kernel, axes: vec![rows, conv.axes[1]], ..conv }, x)
    }

    /// The convolution with rows and columns exchanged.
    fn exchanged(&self, conv: &Conv) -> Conv {
        let [outputs, inputs, rows, columns] = <[usize; 4]>::try_from(conv.kernel.shape.as_slice()).unwrap_or([1; 4]);
        let data = conv.kernel.data.to_f32();
        let made = data
            .chunks_exact(rows * columns)
            .flat_map(|k| (0..columns).flat_map(move |c| (0..rows).map(move |r| k[r * columns + c])))
            .collect();
        let kernel = self.kernel(vec![outputs, inputs, columns, rows], made, &conv.kernel);
        Conv { kernel, axes: vec![conv.axes[1], conv.axes[0]], ..conv.clone() }
    }

    /// A convolution over one axis as a convolution over two, with one row.
    pub(super) fn with_rows(
        &mut self,
        conv: Conv,
        x: ValueId,
        then: impl Fn(&mut Self, Conv, ValueId) -> ValueId,
    ) -> ValueId {
        let shape = self.builder.shape(x);
        let x = self.reshaped(x, vec![shape[0], shape[1], 1, shape[2]]);
        let given = &conv.kernel.shape;
        let flat = vec![given[0], given[1], 1, given[2]];
        let kernel = match compress::is_compressed(&conv.kernel.data) {
            true => self.kernel(flat, conv.kernel.data.to_f32(), &conv.kernel),
            false => Arc::new(Tensor { shape: flat, data: conv.kernel.data.clone() }),
        };
        let (outputs, out) = (conv.outputs(), conv.axes[0].out);
        let conv = Conv { kernel, axes: vec![Axis::unit(1), conv.axes[0]], ..conv };
        let made = then(self, conv, x);
        self.reshaped(made, vec![shape[0], outputs, out])
    }
}
