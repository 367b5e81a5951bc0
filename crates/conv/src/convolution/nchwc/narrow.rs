//! Depthwise convolution of planes narrower than a vector, in NCHWc16: vectors hold 16 channels, and are full however narrow planes are.

use super::fused::{Ground, ROW_OUTPUTS, Windows, places};
use super::tile::StoreSink;
use super::{Accumulator, Buffers, Panels, panel_elements, store};
use crate::convolution::depthwise;
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::simd;
use anemone_kernels::view::{BLOCK, OutputTile, Part, TensorView, transpose};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};

/// Depthwise convolution: a tile of the result, the work of one thread.
pub struct NarrowKernel<'a, 'b> {
    pub kernel: &'a Filter,
    pub finish: Epilogue<'a>,
    pub window: &'a Window,
    pub from: TensorView<'a>,
    /// Columns of the result.
    pub columns: usize,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl WithSimd for NarrowKernel<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let NarrowKernel { kernel, finish, window, from, columns, share, scratch } = self;
        let (taps, [_, s]) = (window.elements(), window.s);
        let ground = Ground::of(window, [share.first_row, share.rows], columns);
        let part = Part { rows: ground.first..ground.first + ground.inside.len(), columns: 0..window.from[1] };
        let (rows, outputs) = (share.rows, share.rows * columns);
        let mut buffers: Box<Buffers> = scratch.arena.take();
        let Buffers { panels, sums, staged, halves, transposed, .. } = &mut *buffers;
        let staged = scratch_slice(staged, (ground.rows * ground.width + (ROW_OUTPUTS - 1) * s) * BLOCK);
        // The halo is filled once and stays.
        ground.fill_halo(window.from[1], staged);
        let mut weights = Panels { data: scratch_slice(panels, panel_elements(taps)), taps };
        let sums = scratch_slice(sums, if simd::converts::<S>() { 0 } else { outputs * BLOCK });
        let within = part.outputs().max(outputs.next_multiple_of(BLOCK)) * BLOCK;
        let halves = scratch_slice(halves, within);
        for channel in (0..share.channels()).step_by(BLOCK) {
            let first = share.first_channel + channel;
            let count = BLOCK.min(share.channels() - channel);
            Block { from, group: share.group, first, count, part: &part }
                .stage(simd, &ground, transposed, halves, staged);
            weights.fill::<Epilogue>(kernel, first, 1);
            let halves = &mut halves[..outputs.next_multiple_of(BLOCK) * BLOCK];
            let stored = &mut halves[..outputs * BLOCK];
            let to = if simd::converts::<S>() { StoreSink::Halves(stored) } else { StoreSink::Sums(sums) };
            let (weights, width) = (&*weights.data, ground.width);
            let windows = Windows { source: staged, width, rows, columns, weights, finish, ends: 0, to };
            match depthwise::convolves(window) {
                true => windows.sum(simd, [window.k[0], s]),
                false => outline(simd, AnyWindow { of: windows, k: window.k, s: window.s }),
            }
            if !simd::converts::<S>() {
                num::round_row(sums, &mut halves[..outputs * BLOCK]);
            }
            Accumulator::look_up(finish, simd, halves, Rows::one(outputs * BLOCK));
            let rows = Rows { count: rows, columns, from_stride: columns, to_stride: columns };
            store(simd, share, [channel, 0, 0], count, rows, halves, None, transposed);
        }
        scratch.arena.put(buffers);
    }
}

/// Windows of any extents and strides, with coefficients read from memory.
struct AnyWindow<'a> {
    of: Windows<'a, Epilogue<'a>>,
    k: [usize; 2],
    s: [usize; 2],
}

impl WithSimd for AnyWindow<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Not specialized by stage, which few of these windows would repay.
        let stages = self.of.finish.after(simd);
        let AnyWindow { of: Windows { source, width, rows, columns, weights, finish, mut to, .. }, k, s } = self;
        let (source, weights) = (source.as_chunks::<BLOCK>().0, weights.as_chunks::<BLOCK>().0);
        let Some((bias, weights)) = weights.get(..=k[0] * k[1]).and_then(|weights| weights.split_last()) else {
            return;
        };
        for lane in (0..BLOCK).step_by(S::F32_LANES) {
            let of = |row: &[f32; BLOCK]| S::as_simd_f32s(&row[lane..][..S::F32_LANES]).0[0];
            for (row, at) in (0..rows).flat_map(|row| (0..columns).step_by(ROW_OUTPUTS).map(move |at| (row, at))) {
                let mut sums = [simd.splat_f32s(0.0); ROW_OUTPUTS];
                for (kh, weights) in weights.chunks_exact(k[1]).enumerate() {
                    let line = &source[(row * s[0] + kh) * width + at * s[1]..];
                    for (kw, weight) in weights.iter().enumerate() {
                        let (weight, x) = (of(weight), &line[kw..][..(ROW_OUTPUTS - 1) * s[1] + 1]);
                        for n in 0..ROW_OUTPUTS {
                            sums[n] = simd.mul_add_f32s(weight, of(&x[n * s[1]]), sums[n]);
                        }
                    }
                }
                for n in 0..ROW_OUTPUTS {
                    sums[n] = simd.add_f32s(sums[n], of(bias));
                }
                let places = places::<ROW_OUTPUTS>(row * columns * BLOCK, at);
                let some = sums;
                to.reborrow().store(simd, finish, stages, &some, &places[..ROW_OUTPUTS.min(columns - at)], &[lane]);
            }
        }
    }
}

/// Source channels of a block.
struct Block<'a> {
    from: TensorView<'a>,
    group: usize,
    first: usize,
    count: usize,
    part: &'a Part,
}

impl Block<'_> {
    /// Stages the channels as `[row][column][channel]` behind their halo. Channels behind the last one have any finite numbers.
    #[inline(always)]
    fn stage<S: Simd>(
        &self,
        simd: S,
        ground: &Ground,
        gathered: &mut Vec<f16>,
        blocks: &mut [f16],
        staged: &mut [f32],
    ) {
        let &Block { from, group, first, count, part } = self;
        let (outputs, across) = (part.outputs(), part.columns.len());
        let gathered = scratch_slice(gathered, BLOCK * outputs);
        for (c, plane) in gathered.chunks_exact_mut(outputs.max(1)).enumerate() {
            // Channels that do not exist repeat the last one.
            from.gather(group, first + c.min(count - 1), part, plane);
        }
        transpose(
            gathered,
            outputs,
            [outputs, BLOCK],
            #[inline(always)]
            |x| x,
            #[inline(always)]
            |output, first, line, count| blocks[output * BLOCK + first..][..count].copy_from_slice(&line[..count]),
        );
        let row = across * BLOCK;
        let begin = (ground.inside.start * ground.width + ground.lead) * BLOCK;
        let rows = Rows { count: part.rows.len(), columns: row, from_stride: row, to_stride: ground.width * BLOCK };
        if rows.count > 0 {
            simd::widen_rows(simd, blocks, &mut staged[begin..], rows);
        }
    }
}
