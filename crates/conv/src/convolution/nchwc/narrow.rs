//! Depthwise convolution of planes narrower than a vector, in NCHWc16: vectors hold 16 channels, and are full however narrow planes are.

use super::fused::{Ground, ROW_OUTPUTS, Windows};
use super::tile::StoreSink;
use super::{Accumulator, Buffers, Panels, panel_elements, store};
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::simd;
use anemone_kernels::view::{BLOCK, OutputTile, Part, TensorView, transpose};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, scratch_slice};
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
        let (k, s) = (window.k[0], window.s[0]);
        let ground = Ground::of(window, [share.first_row, share.rows], columns);
        let part = Part { rows: ground.first..ground.first + ground.inside.len(), columns: 0..window.from[1] };
        let (rows, outputs) = (share.rows, share.rows * columns);
        let mut buffers: Box<Buffers> = scratch.arena.take();
        let Buffers { panels, sums, staged, halves, transposed, .. } = &mut *buffers;
        let staged = scratch_slice(staged, (ground.rows * ground.width + (ROW_OUTPUTS - 1) * s) * BLOCK);
        // The halo is filled once and stays.
        ground.fill_halo(window.from[1], staged);
        let mut weights = Panels { data: scratch_slice(panels, panel_elements(k * k)), taps: k * k };
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
            Windows { source: staged, width, rows, columns, weights, finish, ends: 0, to }.sum(simd, [k, s]);
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
