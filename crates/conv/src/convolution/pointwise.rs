//! GEMM with packed operands in fp32, for 1x1 convolutions and for windows over small planes. Both operands are packed so that the inner
//! loop reads consecutive elements, and blocked so that repeated reads hit the cache.
//!
//! Sums are taken in the order of the taps, as in [`crate::convolution`], so that blocking does not change their bits.

use crate::convolution::{BatchMember, Im2col};
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::gemm::microkernel::{COLUMN_SLACK, PANEL, Tail, run_outputs};
use anemone_kernels::gemm::product::{Coefficients, Product, pack, packed_offsets, tap_stride};
use anemone_kernels::gemm::rows::RowMatrix;
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::simd::{self, LONGEST};
use anemone_kernels::view::{OutputTile, Part, TensorView, copy_rows, copy_short};
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// K block: most taps of a pass, for many outputs and for a single run of outputs.
const TAPS: [usize; 2] = [384, 2048];
/// M block: channels whose coefficients are widened together.
const CHANNELS: usize = 16 * PANEL;
/// Taps whose runs are packed one run after another.
const TAPS_BY_RUNS: usize = 16;
/// Rows of fewer columns are rounded for many channels at a time.
const LEAST_ROW: usize = 16;
/// Sums that stay in L1.
const L1_SUMS: usize = 1 << 12;
/// Sums that stay in L2 over the passes of a block, beside the operands of a pass: each block reads the whole packed source.
const BLOCK_SUMS: usize = 1 << 16;
/// Capacity of the packed source, in elements: half of an L2 of 1 MiB, because every panel reads all of it. Bounds the outputs of a part, which must
/// be enough to amortize the widening of coefficients.
const PACKED: usize = 1 << 17;
const OUTPUTS: [usize; 2] = [256, 1024];

/// Tile of a convolution, the work of one thread. In a tile of a transposed result channels and columns are exchanged.
pub struct Job<'a, 'b> {
    /// Members that produce consecutive channels of the result; several only if it is transposed.
    pub members: &'a [BatchMember<'a>],
    /// In place of members: coefficients in memory, with their epilogue.
    pub rows: Option<(RowMatrix<'a>, &'a Epilogue<'a>)>,
    pub from: TensorView<'a>,
    /// Factor of each channel of the source; products are rounded to fp16.
    pub factors: Option<&'a [f16]>,
    /// For windows of several taps: plan of the staged source, and the offset of each tap there. There is a single member
    /// then.
    pub windows: Option<(&'a Im2col, &'a [u32])>,
    /// Columns of the result as stored.
    pub columns: usize,
    pub transposed: bool,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let first = self.members.first().and_then(|member| member.of(self.share));
        if let (Some((staging, offsets)), Some((kernel, finish))) = (self.windows, first) {
            return self.unfolded(simd, kernel, finish, staging, offsets);
        }
        let rows = self.rows.map(|(rows, finish)| (Coefficients::Rows(rows.of_group(self.share.group)), finish));
        let count = if rows.is_some() { 1 } else { self.members.len() };
        let taps = match (rows, first) {
            (Some((rows, _)), _) => rows.taps(),
            (None, Some((kernel, _))) => kernel.packed.taps(),
            (None, None) => return,
        };
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        // Whole runs; `OUTPUTS` are.
        let most = most - most % run_outputs::<S>();
        for part in Part::all(self.share, self.columns, self.transposed, most) {
            let once = taps_at_once::<S>(taps, part.outputs(), rows.is_none()) == taps;
            if once {
                self.pack(simd, taps, &part);
            }
            let mut before = 0;
            for i in 0..count {
                let member = self.members.get(i).and_then(|member| member.of(self.share));
                let member = member.map(|(kernel, finish)| (Coefficients::Packed(kernel), finish));
                let Some((coefficients, finish)) = rows.or(member) else { return };
                let all = before..before + coefficients.channels();
                let channels = if self.transposed {
                    let stored = &self.share.columns;
                    all.start.max(stored.start) - before..all.end.min(stored.end).max(before) - before
                } else {
                    self.share.first_channel..self.share.first_channel + self.share.channels()
                };
                if !channels.is_empty() {
                    self.part(simd, coefficients, finish, before, channels, &part);
                }
                before = all.end;
            }
        }
    }
}

impl Job<'_, '_> {
    #[inline(always)]
    fn pack<S: Simd>(&mut self, simd: S, taps: usize, part: &Part) {
        let stride = part.outputs().next_multiple_of(run_outputs::<S>());
        let Scratch { packed, wide, .. } = &mut *self.scratch;
        let (to, wide) = (scratch_slice(packed, stride * taps), scratch_slice(wide, stride));
        outline(
            simd,
            Stage { from: self.from, factors: self.factors, group: self.share.group, part, taps: 0..taps, to, wide },
        );
    }

    /// Computes some channels of a member, which start at a panel, from the source, packed before or in each of several passes. Members before it
    /// produce `before` channels.
    #[inline(always)]
    fn part<S: Simd>(
        &mut self,
        simd: S,
        coefficients: Coefficients,
        finish: &Epilogue,
        before: usize,
        channels: Range<usize>,
        part: &Part,
    ) {
        let (width, all) = (run_outputs::<S>(), coefficients.taps());
        let outputs = part.outputs();
        let stride = outputs.next_multiple_of(width);
        let Scratch { packed, wide, panel, sums, halves, places, .. } = &mut *self.scratch;
        let is_packed = matches!(coefficients, Coefficients::Packed(_));
        let taps_at_once = taps_at_once::<S>(all, outputs, is_packed);
        let packed = scratch_slice(packed, stride * taps_at_once);
        let wide = scratch_slice(wide, stride);
        let places = packed_offsets::<S>(places, taps_at_once, outputs);
        // A later pass resumes the sums of all channels of a block.
        let at_once = if all <= taps_at_once { CHANNELS } else { CHANNELS * (BLOCK_SUMS / (CHANNELS * stride)).max(1) };
        let sums = scratch_slice(sums, at_once * stride);
        let halves = scratch_slice(halves, if self.transposed || !is_packed { at_once * stride } else { 0 });
        let columns = part.columns.len();
        let rows = Rows { count: part.rows.len(), columns, from_stride: columns, to_stride: columns };
        let (first, channels) = (channels.start, channels.len());
        let (row, column) = (part.rows.start - self.share.first_row, part.columns.start);
        // Rounding short rows one by one does not pay.
        let direct = self.transposed || rows.count == 1 || columns >= LEAST_ROW;
        let tail = if is_packed { Tail::of::<S>(outputs % width) } else { Tail::None };
        let group = if direct { channels_at_once(tail, stride) } else { CHANNELS };
        let panels = group / PANEL * RowMatrix::panel_elements(taps_at_once);
        let panel = scratch_slice(panel, panels + COLUMN_SLACK);
        for channel in (0..channels).step_by(at_once) {
            let block = channel..channels.min(channel + at_once);
            let product = Product { coefficients, first, outputs, stride, taps_at_once, places };
            for tap in (0..all).step_by(taps_at_once) {
                let taps = tap..all.min(tap + taps_at_once);
                if taps_at_once < all {
                    // A source of all passes would leave L2 before its last panel.
                    let (from, factors, group, taps) = (self.from, self.factors, self.share.group, taps.clone());
                    outline(simd, Stage { from, factors, group, part, taps, to: &mut *packed, wide: &mut *wide });
                }
                for channel in block.clone().step_by(group) {
                    let some = channel..block.end.min(channel + group);
                    // The buffer of sums that no later pass resumes is reused.
                    let at = if all <= taps_at_once { 0 } else { (channel - block.start) * stride };
                    let sums = &mut sums[at..];
                    let next = next_call(&block, some.end, taps.clone(), taps_at_once, all);
                    product.add(simd, some.clone(), taps.clone(), next, packed, panel, sums);
                    if taps.end < all {
                        continue;
                    }
                    if !is_packed {
                        let halves = &mut halves[(channel - block.start) * stride..];
                        let share = (!self.transposed).then_some(&mut *self.share);
                        let place = [channel, row, column];
                        round_lines(simd, finish, share, place, some.len(), sums, stride, halves, rows);
                        continue;
                    }
                    let mut tabulated = false;
                    for (c, sums) in some.clone().zip(sums.chunks_exact_mut(stride)) {
                        let bias = product.bias(c);
                        tabulated = finish.tabulate(simd, bias, sums);
                        if self.transposed {
                            let halves = &mut halves[(c - block.start) * stride..];
                            let rows = Rows::one(outputs);
                            outline(simd, Finish { finish, bias, tabulated, sums, to: halves, rows });
                        } else if direct {
                            let store = |sums: &mut [f32], to: &mut [f16], rows| {
                                outline(simd, Finish { finish, bias, tabulated, sums, to, rows });
                            };
                            self.share.store_channel([c, row, column], sums, rows, store);
                        } else if !tabulated {
                            finish.stages(bias, &mut sums[..outputs]);
                        }
                    }
                    if !direct {
                        self.share.store(
                            [channel, row, column],
                            some.len(),
                            sums,
                            stride,
                            rows,
                            #[inline(always)]
                            |from, to, rows| finish.rows(simd, tabulated, from, to, rows),
                        );
                    }
                }
            }
            if self.transposed {
                part.store(halves, stride, self.share, true, before + first + block.start, block.len());
            }
        }
    }

    /// GEMM over explicitly unfolded taps (im2col), a block of taps at a time for all channels: for planes with short rows.
    #[inline(always)]
    fn unfolded<S: Simd>(&mut self, simd: S, kernel: &Filter, finish: &Epilogue, staging: &Im2col, offsets: &[u32]) {
        let width = run_outputs::<S>();
        let (columns, channels) = (self.columns, self.share.channels());
        let outputs = self.share.rows * columns;
        let stride = outputs.next_multiple_of(width);
        let Scratch { staged, packed, wide, panel, sums, places, .. } = &mut *self.scratch;
        let area = staging.staged_elements();
        let staged = scratch_slice(staged, area + staging.staged_slack());
        staging.stage(
            simd,
            self.from,
            [self.share.group, self.share.first_row],
            0,
            Some(0.0),
            &mut staged[..area],
            wide,
        );
        staged[area..].fill(0.0);
        let taps_at_once = pass_taps(offsets.len(), TAPS[0]);
        let packed = scratch_slice(packed, stride * taps_at_once);
        // Padding of the last run.
        packed.fill(0.0);
        let wide = scratch_slice(wide, outputs);
        let panel = scratch_slice(panel, CHANNELS * taps_at_once + COLUMN_SLACK);
        let sums = scratch_slice(sums, channels * stride);
        let places = packed_offsets::<S>(places, taps_at_once, outputs);
        let coefficients = Coefficients::Packed(kernel);
        let first = self.share.first_channel;
        let product = Product { coefficients, first, outputs, stride, taps_at_once, places };
        for (block, offsets) in offsets.chunks(taps_at_once).enumerate() {
            for (tap, &offset) in offsets.iter().enumerate() {
                let rows = staged[offset as usize..].chunks(staging.width);
                // A single run is unfolded directly into the packed buffer.
                let single = stride == width;
                let to = if single {
                    &mut packed[tap * tap_stride::<S>(outputs)..][..outputs]
                } else {
                    &mut wide[..outputs]
                };
                for (to, row) in to.chunks_exact_mut(columns).zip(rows) {
                    copy_short(&row[..columns], to);
                }
                if !single {
                    pack::<S>(&wide[..outputs], offsets.len(), tap, packed);
                }
            }
            let taps = block * taps_at_once..block * taps_at_once + offsets.len();
            for channel in (0..channels).step_by(CHANNELS) {
                let some = channel..channels.min(channel + CHANNELS);
                let (sums, next) = (&mut sums[channel * stride..], (some.end, taps.clone()));
                product.add(simd, some, taps.clone(), next, packed, panel, sums);
            }
        }
        let rows = Rows { count: self.share.rows, columns, from_stride: columns, to_stride: columns };
        for (c, sums) in sums.chunks_exact_mut(stride).enumerate().take(channels) {
            let bias = product.bias(c);
            let tabulated = finish.tabulate(simd, bias, sums);
            let store = |sums: &mut [f32], to: &mut [f16], rows| {
                outline(simd, Finish { finish, bias, tabulated, sums, to, rows });
            };
            self.share.store_channel([c, 0, 0], sums, rows, store);
        }
    }
}

/// Rounds `count` lines of sums, one a channel from `place` on, into the share of the result, or into `halves` if there is none.
#[inline(always)]
fn round_lines<S: Simd>(
    simd: S,
    finish: &Epilogue,
    mut share: Option<&mut OutputTile>,
    place: [usize; 3],
    count: usize,
    sums: &mut [f32],
    stride: usize,
    halves: &mut [f16],
    rows: Rows,
) {
    let outputs = rows.count * rows.columns;
    // Whole vectors: elements past the outputs are rounded too, but not stored.
    let columns = outputs.next_multiple_of(S::F32_LANES);
    let all = Rows { count, columns, from_stride: stride, to_stride: stride };
    let lines = share.as_mut().filter(|_| columns == outputs).and_then(|share| share.lines(place));
    if let Some((to, to_stride)) = lines {
        return outline(
            simd,
            Finish { finish, bias: 0.0, tabulated: false, sums, to, rows: Rows { to_stride, ..all } },
        );
    }
    outline(simd, Finish { finish, bias: 0.0, tabulated: false, sums, to: halves, rows: all });
    if let Some(share) = share {
        share.store(place, count, halves, stride, rows, copy_rows);
    }
}

/// Epilogue of rows of sums. Out of line, so that it is compiled once.
struct Finish<'a, 'b> {
    finish: &'a Epilogue<'a>,
    /// Bias of the channel.
    bias: f32,
    /// True behind [`Epilogue::tabulate`].
    tabulated: bool,
    sums: &'b mut [f32],
    to: &'b mut [f16],
    rows: Rows,
}

impl WithSimd for Finish<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.tabulated {
            true => simd::round_rows(simd, self.sums, self.to, self.rows),
            false => self.finish.all(simd, self.bias, self.sums, self.to, self.rows),
        }
    }
}

/// First channel and taps of the call after that for channels up to `end` of a block and some of `all` taps.
fn next_call(
    block: &Range<usize>,
    end: usize,
    taps: Range<usize>,
    taps_at_once: usize,
    all: usize,
) -> (usize, Range<usize>) {
    match (end < block.end, taps.end < all) {
        (true, _) => (end, taps),
        (_, true) => (block.start, taps.end..all.min(taps.end + taps_at_once)),
        _ => (block.end, 0..all.min(taps_at_once)),
    }
}

/// Channels whose sums are rounded together: as many as stay in L1 with their operands, but enough panels for the kernel of a tail.
fn channels_at_once(tail: Tail, stride: usize) -> usize {
    let near = (L1_SUMS / (PANEL * stride)).max(1).next_multiple_of(tail.panels());
    PANEL * near.min(CHANNELS / PANEL)
}

/// Taps of a pass: at most `most`, with passes of about equal length.
fn pass_taps(taps: usize, most: usize) -> usize {
    taps.div_ceil(taps.div_ceil(most).max(1)).max(1)
}

/// Taps of a pass of a product with `taps` taps.
fn taps_at_once<S: Simd>(taps: usize, outputs: usize, is_packed: bool) -> usize {
    pass_taps(taps, TAPS[usize::from(outputs <= run_outputs::<S>() && is_packed)])
}

/// Packs some taps of a part of the source, `[run][tap][output]`. The last run is padded with zeros. Out of line, so that it is compiled once.
struct Stage<'a> {
    from: TensorView<'a>,
    factors: Option<&'a [f16]>,
    group: usize,
    part: &'a Part,
    taps: Range<usize>,
    to: &'a mut [f32],
    wide: &'a mut [f32],
}

impl WithSimd for Stage<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Stage { from, factors, group, part, taps, to, wide } = self;
        let factors = factors.and_then(|factors| factors.get(taps.clone()));
        let (width, outputs, Range { start, end }) = (run_outputs::<S>(), part.outputs(), taps);
        let taps = end - start;
        // A conversion that needs no call widens each run directly into the packed buffer.
        let one_row = simd::converts::<S>() && (part.rows.len() == 1 || from.strides[2] == part.columns.len());
        let mut tap = 0;
        while tap < taps {
            // Shorter vectors make shorter runs: several of them are cheaper to pack after the whole row is widened.
            let by_runs = one_row && (S::F32_LANES == LONGEST || outputs <= width);
            let count = if by_runs { TAPS_BY_RUNS.min(taps - tap) } else { 1 };
            if part.rows.len() == 1 {
                for tap in tap..tap + count {
                    from.fetch_after(group, start + tap, part.rows.start, part.columns.clone());
                }
            }
            if by_runs {
                let row = &from.from(group, start + tap, part.rows.start)[part.columns.start..];
                for (run, output) in (0..outputs).step_by(width).enumerate() {
                    let (row, n, stride) = (&row[output..], width.min(outputs - output), from.strides[1]);
                    let columns = tap_stride::<S>(n);
                    let to = &mut to[run * taps * width + tap * columns..][..count * columns];
                    // Whole vectors: those of the last taps may end behind the source.
                    let fitting = row.len().checked_sub(columns).map_or(0, |last| last / stride.max(1) + 1).min(count);
                    let rows = Rows { count: fitting, columns, from_stride: stride, to_stride: columns };
                    simd::widen_rows(simd, row, to, rows);
                    for tap in fitting..count {
                        let to = &mut to[tap * columns..][..columns];
                        num::widen_row(&row[tap * stride..][..n], &mut to[..n]);
                        to[n..].fill(0.0);
                    }
                }
            } else {
                from.widen(simd, group, start + tap, part, &mut wide[..outputs]);
                pack::<S>(&wide[..outputs], taps, tap, to);
            }
            tap += count;
        }
        let Some(factors) = factors else { return };
        for (run, first) in (0..outputs).step_by(width).enumerate() {
            let stride = tap_stride::<S>(width.min(outputs - first));
            let run = to[run * taps * width..].chunks_exact_mut(stride);
            for (row, factor) in run.zip(factors) {
                simd::scale_row(simd, num::widen(*factor), row);
            }
        }
    }
}
