//! Convolutions of one tap a channel in the model `fast`, which are products of matrices: both sides packed so that the
//! innermost loop reads consecutive numbers, and cut so that what it reads again is near a core.
//!
//! A sum takes its taps in their order, as in [`crate::convolution`], so its bits do not depend on how the work is cut.

use crate::activation::Finish;
use crate::convolution::Kernel;
use crate::product::{COLUMN_PANELS, COLUMN_SLACK, Column, PANEL, SideBySide, Sums, run_outputs};
use crate::rows::{Part, SHORT, Share, Source};
use crate::work::{Scratch, apart, room};
use half::f16;
use pulp::{Simd, WithSimd};

/// Taps between two visits to the sums: a run's operands stay in the innermost cache.
const TAPS: usize = 256;
/// Channels whose coefficients are widened together.
const CHANNELS: usize = 16 * PANEL;
/// Numbers of a packed source, and bounds of its outputs: enough to make up for widening coefficients again.
const PACKED: usize = 1 << 19;
const OUTPUTS: [usize; 2] = [256, 1024];

/// One share at work. In a share of a turned result channels and columns are exchanged.
pub(crate) struct Job<'a, 'b> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) finish: &'a Finish<'a>,
    pub(crate) from: Source<'a>,
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
        let Scratch { staged, wide, panel, sums, halves, gather, .. } = &mut *self.scratch;
        let packed = room(staged, stride * taps);
        stage(self.from, self.share.group, part, taps, width, packed, room(wide, stride), &mut gather.halves);
        let panel = room(panel, CHANNELS * TAPS + COLUMN_SLACK);
        let sums = room(sums, CHANNELS * stride);
        let halves = room(halves, CHANNELS * stride);
        let (first, channels) = match self.turned {
            true => (0, self.columns),
            false => (self.share.first_channel, self.share.channels()),
        };
        for channel in (0..channels).step_by(CHANNELS) {
            let count = CHANNELS.min(channels - channel);
            for tap in (0..taps).step_by(TAPS) {
                let some = tap..taps.min(tap + TAPS);
                for c in (0..count).step_by(PANEL) {
                    self.kernel.packed.widen(first + channel + c, some.clone(), &mut panel[c * TAPS..]);
                }
                for (run, source) in packed.chunks_exact(width * taps).enumerate() {
                    let source = &source[tap * width..some.end * width];
                    let resume = tap > 0;
                    let columns = if outputs == 1 { count - count % (COLUMN_PANELS * PANEL) } else { 0 };
                    for c in (0..columns).step_by(COLUMN_PANELS * PANEL) {
                        let (panels, sums) = (&panel[c * TAPS..], &mut sums[c * stride..]);
                        let (distance, taps) = (PANEL * TAPS, some.len());
                        apart(simd, Column { panels, distance, taps, source, sums, stride, resume });
                    }
                    for c in (columns..count).step_by(PANEL) {
                        let height = PANEL.min(count - c);
                        Sums {
                            panel: &panel[c * TAPS..][..height * some.len()],
                            height,
                            source,
                            places: SideBySide,
                            sums: &mut sums[c * stride + run * width..],
                            stride,
                            outputs: width.min(outputs - run * width),
                            resume,
                        }
                        .with_simd(simd);
                    }
                }
            }
            let in_place = !self.turned && part.columns.len() >= SHORT;
            for c in 0..count {
                let bias = self.kernel.biases.as_ref().map_or(0.0, |b| b[first + channel + c]);
                let row = &mut sums[c * stride..][..outputs];
                if in_place {
                    for (h, row) in part.rows.clone().zip(row.chunks_exact_mut(part.columns.len())) {
                        let to = self.share.row(channel + c, h - self.share.first_row, part.columns.end);
                        self.finish.row(bias, row, &mut to[part.columns.clone()]);
                    }
                } else {
                    self.finish.row(bias, row, &mut halves[c * stride..][..outputs]);
                }
            }
            if !in_place {
                part.store(halves, stride, self.share, self.turned, channel, count);
            }
        }
    }
}

/// Packs a part of the source: by run, then tap, then output. Runs are filled up with zeros.
#[inline(always)]
fn stage(
    from: Source,
    group: usize,
    part: &Part,
    taps: usize,
    width: usize,
    to: &mut [f32],
    wide: &mut [f32],
    gathered: &mut Vec<f16>,
) {
    wide[part.outputs()..].fill(0.0);
    for tap in 0..taps {
        from.widen(group, tap, part, gathered, &mut wide[..part.outputs()]);
        for (run, row) in wide.chunks_exact(width).enumerate() {
            to[(run * taps + tap) * width..][..width].copy_from_slice(row);
        }
    }
}
