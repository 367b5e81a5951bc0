//! Fusion of a 1x1 or small-K convolution with the depthwise convolution that is the only reader of its result.

use super::nchwc::{Accumulator, Operand};
use super::{FETCH, Im2col, Kernels, nchwc};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::cost;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, TensorView, TensorViewMut, dense, partition};
use anemone_kernels::workers::Workers;

/// 1x1 or small-K convolution fused with the depthwise convolution that is the only reader of its result.
pub struct FusedDepthwise<'a, A> {
    pub kernels: [&'a Kernels; 2],
    pub finish: [A; 2],
    pub stagings: [&'a Im2col; 2],
}

/// Capacity of the packed source of the first convolution, in elements: taps times outputs.
pub const PACKED_CAPACITY: usize = 1 << 16;

/// Returns true if both windows have kernels, and the channels of both results fill their blocks well enough.
pub fn can_fuse_depthwise([first, second]: [&Im2col; 2], channels: [usize; 2]) -> bool {
    let taps = first.channels * first.window.elements();
    first.may_be_blocks()
        && second.is_depthwise()
        && channels.into_iter().all(nchwc::suits)
        && taps * second.window.from[1] <= PACKED_CAPACITY / second.window.k[0]
}

impl<A: Accumulator> FusedDepthwise<'_, A> {
    /// Executes both convolutions; `ext` are the extents of the second result. `in_blocks` stores it in NCHWc16, contiguously.
    pub fn convolve(&self, workers: &Workers, from: TensorView, to: TensorViewMut, ext: Extents, in_blocks: bool) {
        let (before, window) = (self.stagings[0], &self.stagings[1].window);
        let ([k, s], [height, columns]) = ([window.k[0], window.s[0]], window.from);
        let Some(first) = self.kernels[0].groups.first() else { return };
        let taps = first.packed.taps();
        let shared = workers.shares(cost::products(ext.g * ext.c * height * columns * taps));
        let threads = if shared { rayon::current_num_threads() } else { 1 };
        // Elements of the first result that `rows` rows of the second read.
        let made = |rows: usize| ((rows - 1) * s + k).min(height) * columns;
        let most = (1..=ext.h).take_while(|&rows| made(rows) * taps <= PACKED_CAPACITY).last().unwrap_or(1);
        let bands = ext.h.div_ceil(most);
        let [rows, band] = [bands.next_multiple_of(threads), bands].map_each(|bands| ext.h.div_ceil(bands));
        let channels = ext.c.div_ceil(threads).next_multiple_of(BLOCK);
        let [widening, packing] = A::COSTS;
        let by_rows = (made(rows) + widening) * ext.c * ext.h.div_ceil(rows);
        // A result in blocks is read by rows.
        let handed = if in_blocks { ext.c * ext.plane() * (threads - 1) / threads * FETCH / taps.max(1) } else { 0 };
        let by_channels = made(band) * (channels + packing) * bands * threads + handed;
        let (rows, channels) = if by_rows <= by_channels { (rows, ext.c) } else { (band, channels) };
        let shares = match in_blocks {
            true => {
                let ext = Extents { c: ext.c / BLOCK, w: ext.w * BLOCK, ..ext };
                partition(to.data, ext, dense(ext), rows, channels / BLOCK)
            }
            false => partition(to.data, ext, to.strides, rows, channels),
        };
        workers.each(shares, shared, |share, scratch| {
            let [Some(first), Some(second)] = self.kernels.map_each(|kernels| kernels.of(share)) else { return };
            let (kernels, finish, columns) = ([first, second], self.finish, ext.w);
            let from = Operand { source: from, factors: None, in_blocks: false, staging: before };
            let pair = nchwc::FusedKernel { kernels, finish, window, from, columns, in_blocks, share, scratch };
            workers.arch.dispatch(pair);
        });
    }
}
