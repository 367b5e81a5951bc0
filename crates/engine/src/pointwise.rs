//! Convolutions in the model `fast` that are computed as products of matrices, those of one tap a channel and those of small
//! planes: both sides packed so that the innermost loop reads consecutive numbers, and cut so that what it reads again is near
//! a core.
//!
//! A sum takes its taps in their order, as in [`crate::convolution`], so its bits do not depend on how the work is cut.

use crate::activation::Finish;
use crate::convolution::{Kernel, Staging};
use crate::product::{COLUMN_PANELS, COLUMN_SLACK, Column, PANEL, SideBySide, Sums, columns_of, run_outputs};
use crate::rows::{Part, Share, Source, copy_short};
use crate::work::{Scratch, apart, room};
use anemone_program::Rows;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Taps between two visits to the sums: a run's operands stay in the innermost cache.
const TAPS: usize = 256;
/// Channels whose coefficients are widened together.
const CHANNELS: usize = 16 * PANEL;
/// Numbers of a packed source, and bounds of its outputs: enough to make up for widening coefficients again.
const PACKED: usize = 1 << 20;
const OUTPUTS: [usize; 2] = [256, 1024];

/// One share at work. In a share of a turned result channels and columns are exchanged.
pub(crate) struct Job<'a, 'b> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) finish: &'a Finish<'a>,
    pub(crate) from: Source<'a>,
    /// Where windows have more than one tap a channel: how the source is staged, and where each tap's numbers begin there.
    pub(crate) windows: Option<(&'a Staging, &'a [u32])>,
    /// Columns of the result as stored.
    pub(crate) columns: usize,
    pub(crate) turned: bool,
    pub(crate) share: &'a mut Share<'b>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if let Some((staging, offsets)) = self.windows {
            return self.unfolded(simd, staging, offsets);
        }
        let taps = self.kernel.packed.taps();
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        for part in Part::all(self.share, self.columns, self.turned, most) {
            self.part(simd, taps, &part);
        }
    }
}

impl Job<'_, '_> {
    #[inline(always)]
    fn part<S: Simd>(&mut self, simd: S, taps: usize, part: &Part) {
        let width = run_outputs::<S>();
        let outputs = part.outputs();
        let stride = outputs.next_multiple_of(width);
        let Scratch { packed, wide, panel, sums, halves, .. } = &mut *self.scratch;
        let packed = room(packed, stride * taps);
        stage(self.from, self.share.group, part, taps, width, packed, room(wide, stride));
        let panel = room(panel, CHANNELS * TAPS + COLUMN_SLACK);
        let sums = room(sums, CHANNELS * stride);
        let halves = room(halves, if self.turned { CHANNELS * stride } else { 0 });
        let columns = part.columns.len();
        let rows = Rows { count: part.rows.len(), columns, from_stride: columns, to_stride: columns };
        let (first, channels) = match self.turned {
            true => (0, self.columns),
            false => (self.share.first_channel, self.share.channels()),
        };
        let (finish, all) = (self.finish, taps);
        for channel in (0..channels).step_by(CHANNELS) {
            let some = channel..channels.min(channel + CHANNELS);
            let product = Product { kernel: self.kernel, first, outputs, stride };
            for tap in (0..taps).step_by(TAPS) {
                let taps = tap..taps.min(tap + TAPS);
                product.add(simd, some.clone(), taps, &packed[tap * width..], all, panel, sums);
            }
            product.finish(finish, some.clone(), sums);
            if !self.turned {
                let at = [channel, part.rows.start - self.share.first_row, part.columns.start];
                self.share.store(at, some.len(), sums, stride, rows, |from, to, rows| finish.rows(from, to, rows));
                continue;
            }
            let each = Rows { count: some.len(), columns: outputs, from_stride: stride, to_stride: stride };
            finish.rows(sums, halves, each);
            part.store(halves, stride, self.share, true, channel, some.len());
        }
    }

    /// Taps side by side, some at a time, for all channels: planes that are too small to slide over.
    #[inline(always)]
    fn unfolded<S: Simd>(&mut self, simd: S, staging: &Staging, offsets: &[u32]) {
        let width = run_outputs::<S>();
        let (columns, channels) = (self.columns, self.share.channels());
        let outputs = self.share.rows * columns;
        let stride = outputs.next_multiple_of(width);
        let Scratch { staged, packed, wide, panel, sums, .. } = &mut *self.scratch;
        let area = staging.staged_elements();
        let staged = room(staged, area + staging.staged_slack());
        staging.stage(self.from, [self.share.group, self.share.first_row], 0, Some(0.0), &mut staged[..area], wide);
        staged[area..].fill(0.0);
        let packed = room(packed, stride * TAPS.min(offsets.len()));
        let wide = room(wide, stride);
        wide[outputs..].fill(0.0);
        let panel = room(panel, CHANNELS * TAPS + COLUMN_SLACK);
        let sums = room(sums, channels * stride);
        let product = Product { kernel: self.kernel, first: self.share.first_channel, outputs, stride };
        for (block, offsets) in offsets.chunks(TAPS).enumerate() {
            for (tap, &offset) in offsets.iter().enumerate() {
                let rows = staged[offset as usize..].chunks(staging.width);
                for (to, row) in wide.chunks_exact_mut(columns).zip(rows).take(self.share.rows) {
                    copy_short(&row[..columns], to);
                }
                pack(wide, width, offsets.len(), tap, packed);
            }
            let taps = block * TAPS..block * TAPS + offsets.len();
            for channel in (0..channels).step_by(CHANNELS) {
                let some = channel..channels.min(channel + CHANNELS);
                let sums = &mut sums[channel * stride..];
                product.add(simd, some, taps.clone(), packed, offsets.len(), panel, sums);
            }
        }
        product.finish(self.finish, 0..channels, sums);
        let rows = Rows { count: self.share.rows, columns, from_stride: columns, to_stride: columns };
        let finish = self.finish;
        self.share.store([0; 3], channels, sums, stride, rows, |from, to, rows| finish.rows(from, to, rows));
    }
}

/// Sums of some channels for the outputs of a part.
struct Product<'a> {
    kernel: &'a Kernel,
    /// The channel that those of a range are counted from.
    first: usize,
    outputs: usize,
    /// Elements between the sums of channels.
    stride: usize,
}

impl Product<'_> {
    /// Adds some taps, for [`CHANNELS`] channels at most. `packed` has the first tap of the first run in front, and so many taps
    /// of each run.
    #[inline(always)]
    fn add<S: Simd>(
        &self,
        simd: S,
        channels: Range<usize>,
        taps: Range<usize>,
        packed: &[f32],
        taps_of_run: usize,
        panel: &mut [f32],
        sums: &mut [f32],
    ) {
        let &Product { kernel, first, outputs, stride } = self;
        let (width, count, resume) = (run_outputs::<S>(), channels.len(), taps.start > 0);
        for c in (0..count).step_by(PANEL) {
            kernel.packed.widen(first + channels.start + c, taps.clone(), &mut panel[c * TAPS..]);
        }
        for (run, output) in (0..outputs).step_by(width).enumerate() {
            let source = &packed[run * taps_of_run * width..][..taps.len() * width];
            let outputs = width.min(outputs - output);
            let columns = columns_of::<S>(outputs);
            // Channels whose last outputs go one by one.
            let alone = if columns > 0 { count - count % PANEL } else { 0 };
            let mut c = 0;
            while c < alone {
                let at_once = panels_at_once((alone - c) / PANEL);
                for column in outputs - columns..outputs {
                    let (panels, sums) = (&panel[c * TAPS..], &mut sums[c * stride + output + column..]);
                    let (distance, taps, source) = (PANEL * TAPS, taps.len(), &source[column..]);
                    match at_once {
                        1 => apart(simd, Column::<1> { panels, distance, taps, source, sums, stride, resume }),
                        2 => apart(simd, Column::<2> { panels, distance, taps, source, sums, stride, resume }),
                        4 => apart(simd, Column::<4> { panels, distance, taps, source, sums, stride, resume }),
                        _ => apart(
                            simd,
                            Column::<COLUMN_PANELS> { panels, distance, taps, source, sums, stride, resume },
                        ),
                    }
                }
                c += at_once * PANEL;
            }
            for c in (0..count).step_by(PANEL) {
                let height = PANEL.min(count - c);
                let outputs = if c < alone { outputs - columns } else { outputs };
                let (panel, places) = (&panel[c * TAPS..][..height * taps.len()], SideBySide);
                let sums = &mut sums[c * stride + output..];
                Sums { panel, height, source, places, sums, stride, outputs, resume }.with_simd(simd);
            }
        }
    }

    /// What follows the sums, but for rounding.
    #[inline(always)]
    fn finish(&self, finish: &Finish, channels: Range<usize>, sums: &mut [f32]) {
        let first = self.first + channels.start;
        for (c, sums) in sums.chunks_exact_mut(self.stride).enumerate().take(channels.len()) {
            let bias = self.kernel.biases.as_ref().map_or(0.0, |b| b[first + c]);
            finish.stages(bias, &mut sums[..self.outputs]);
        }
    }
}

/// Panels of a [`Column`], of so many.
fn panels_at_once(panels: usize) -> usize {
    if panels >= COLUMN_PANELS { COLUMN_PANELS } else { 1 << panels.ilog2() }
}

/// Packs a part of the source: by run, then tap, then output. Runs are filled up with zeros.
#[inline(always)]
fn stage(from: Source, group: usize, part: &Part, taps: usize, width: usize, to: &mut [f32], wide: &mut [f32]) {
    wide[part.outputs()..].fill(0.0);
    for tap in 0..taps {
        from.widen(group, tap, part, &mut wide[..part.outputs()]);
        pack(wide, width, taps, tap, to);
    }
}

/// Packs a tap of so many, run by run.
#[inline(always)]
fn pack(outputs: &[f32], width: usize, taps: usize, tap: usize, to: &mut [f32]) {
    for (run, row) in outputs.chunks_exact(width).enumerate() {
        to[(run * taps + tap) * width..][..width].copy_from_slice(row);
    }
}
