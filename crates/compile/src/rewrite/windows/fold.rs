//! Folding of long kernels over one axis into kernels over two, and of rows longer than a tensor's columns into several rows.

use super::axis::Axis;
use super::{Conv, Windows};
use anemone_net::{Data, OpKind, ValueId};
use rayon::prelude::*;

impl Windows<'_, '_> {
    /// Puts column `c * R + r` in row `r`, column `c`, so that a long row of taps becomes `R` rows: tap `q * R + m`
    /// of output `c * R + r` reads row `r + m`, column `c + q`. Rows from `R` on repeat the first ones, one column later.
    pub(super) fn fold(&mut self, conv: Conv, x: ValueId) -> ValueId {
        if conv.axes.len() == 1 {
            return self.with_rows(conv, x, Self::fold);
        }
        let axis = conv.axes[1];
        let rows = axis.taps.div_ceil(self.limits.columns).max(2);
        let quotient = axis.taps.div_ceil(rows);
        if rows > self.limits.rows {
            return self.unfold(conv, x);
        }
        self.notes.push(format!("{} taps in a row as {rows} rows of {quotient}", axis.taps));
        let out = axis.out.div_ceil(rows);
        let columns = out + quotient - 1;
        let shape = self.builder.shape(x);
        let (batch, channels) = (shape[0], shape[1]);
        // Channels innermost, so that shifts along the folded axis are slices of rows.
        let x = self.reshaped(x, vec![batch, channels, shape[3]]);
        let x = self.permuted(x, &[0, 2, 1]);
        let x = self.padded(x, 1, axis.before, (columns + 1) * rows);
        let mut parts = Vec::new();
        for (first, count) in [(0, rows), (rows, rows - 1)] {
            let part = self.slice_axis(x, 1, first, first + columns * rows);
            let part = self.reshaped(part, vec![batch, columns, rows, channels]);
            let part = self.slice_axis(part, 2, 0, count);
            parts.push(self.permuted(part, &[0, 3, 2, 1]));
        }
        let tall = 2 * rows - 1;
        let x = self.builder.op("folded", OpKind::Concat { axis: 2 }, &parts, vec![batch, channels, tall, columns]);

        let [outputs, inputs] = [conv.kernel.shape[0], conv.kernel.shape[1]];
        let made = folded(&conv.kernel.data, outputs * inputs, [axis.taps, rows, quotient]);
        let kernel = self.kernel(vec![outputs, inputs, rows, quotient], made, &conv.kernel);
        let whole = |size: usize, taps: usize| Axis { size, out: size + 1 - taps, taps, ..Axis::unit(size) };
        let folded = Conv { kernel, axes: vec![whole(tall, rows), whole(columns, quotient)], ..conv };
        let made = self.emit(&folded, x);
        let made = self.permuted(made, &[0, 1, 3, 2]);
        let made = self.reshaped(made, vec![batch, outputs, 1, out * rows]);
        self.slice_axis(made, 3, 0, axis.out)
    }

    /// Splits rows longer than the chip's columns into tiles with halos, stacked as rows.
    pub(super) fn tiles(&mut self, conv: Conv, x: ValueId) -> ValueId {
        if conv.axes.len() == 1 {
            return self.with_rows(conv, x, Self::tiles);
        }
        let axis = conv.axes[1];
        let most = self.limits.width.saturating_sub(axis.reach()) / axis.stride;
        let count = axis.out.div_ceil(most.max(1));
        // Tiles begin on multiples of 32 elements, where views can begin.
        let tile = axis.out.div_ceil(count).next_multiple_of(32);
        let count = axis.out.div_ceil(tile);
        self.notes.push(format!("{} columns as {count} rows of {tile}", axis.out));
        let span = (tile - 1) * axis.stride + axis.reach();
        let x = self.padded(x, 3, axis.before, (count - 1) * tile * axis.stride + span);
        let step = tile * axis.stride;
        let parts: Vec<ValueId> = (0..count).map(|i| self.slice_axis(x, 3, i * step, i * step + span)).collect();
        let shape = self.builder.shape(parts[0]);
        let x = self.builder.op("tiles", OpKind::Concat { axis: 2 }, &parts, vec![shape[0], shape[1], count, span]);
        let columns = Axis { size: span, out: tile, before: 0, after: 0, ..axis };
        let outputs = conv.outputs();
        let tiled = Conv { axes: vec![Axis::unit(count), columns], ..conv };
        let made = self.emit(&tiled, x);
        let made = self.reshaped(made, vec![shape[0], outputs, 1, count * tile]);
        self.slice_axis(made, 3, 0, axis.out)
    }
}

/// Rows of taps that a thread folds at once take about so many elements.
const PART: usize = 1 << 16;

/// Each of `count` rows of taps as `rows` rows: tap `q * rows + m` in row `m`, column `q`, and zeros behind. Threads fold parts.
fn folded(data: &Data, count: usize, [taps, rows, quotient]: [usize; 3]) -> Vec<f32> {
    let each = (PART / taps.max(1)).max(1);
    // Elements of a compressed form are expanded together.
    let whole = if data.read_f32(0, &mut []) { None } else { Some(data.as_f32()) };
    let mut made = vec![0.0; count * rows * quotient];
    made.par_chunks_mut(each * rows * quotient).enumerate().for_each(|(part, all)| {
        let (at, len) = (part * each * taps, all.len() / (rows * quotient) * taps);
        let mut read = Vec::new();
        let given = match &whole {
            Some(whole) => &whole[at..at + len],
            None => {
                read.resize(len, 0.0);
                data.read_f32(at, &mut read);
                read.as_slice()
            }
        };
        for (taps, to) in given.chunks_exact(taps).zip(all.chunks_exact_mut(rows * quotient)) {
            for (row, to) in to.chunks_exact_mut(quotient).enumerate() {
                let taps = taps[row.min(taps.len())..].iter().step_by(rows);
                to.iter_mut().zip(taps).for_each(|(to, &tap)| *to = tap);
            }
        }
    });
    made
}
