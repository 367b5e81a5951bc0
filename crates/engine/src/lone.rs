//! Convolutions in the model `fast` of one tap a channel to a single output, as at a network's end: a vector by a matrix that is
//! read once, in the order in which it lies: a tap of all channels of a panel, then the next tap.
//!
//! A sum takes its taps in their order, as in [`crate::convolution`].

use crate::activation::Finish;
use crate::convolution::Kernel;
use crate::number;
use crate::rows::{Share, Source};
use crate::work::{Scratch, room};
use anemone_program::Rows;
use pulp::{Simd, WithSimd};

/// Channels of a panel: as many vectors of sums as hide how long an addition takes.
pub(crate) const PANEL: usize = 64;
/// Taps that are widened together: they stay in the innermost cache.
const TAPS: usize = 64;

/// One share at work.
pub(crate) struct Job<'a, 'b> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) finish: &'a Finish<'a>,
    pub(crate) from: Source<'a>,
    pub(crate) share: &'a mut Share<'b>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, finish, from, share, scratch } = self;
        let Scratch { wide, panel, sums, halves, .. } = scratch;
        let (taps, channels) = (kernel.packed.taps(), share.channels());
        let (halves, source) = (room(halves, taps.max(channels)), room(wide, taps));
        halves.iter_mut().enumerate().take(taps).for_each(|(c, x)| *x = from.from(share.group, c, 0)[0]);
        number::widen_row(&halves[..taps], source);
        let sums = room(sums, channels.next_multiple_of(PANEL));
        let panel = room(panel, PANEL * TAPS);
        sums.fill(0.0);
        for (c, sums) in (0..channels).step_by(PANEL).zip(sums.chunks_exact_mut(PANEL)) {
            for (tap, source) in (0..taps).step_by(TAPS).zip(source.chunks(TAPS)) {
                let panel = &mut panel[..PANEL * source.len()];
                kernel.packed.widen(share.first_channel + c, tap..tap + source.len(), panel);
                spread(panel, PANEL.min(channels - c));
                add(simd, panel, source, sums);
            }
        }
        let sums = &mut sums[..channels];
        if let Some(biases) = &kernel.biases {
            let biases = biases[share.first_channel..].iter().zip(&mut *sums).filter(|(bias, _)| **bias != 0.0);
            biases.for_each(|(bias, sum)| *sum += bias);
        }
        let halves = &mut halves[..channels];
        finish.row(0.0, sums, halves);
        let rows = Rows { count: 1, columns: 1, from_stride: 1, to_stride: 1 };
        share.store([0; 3], channels, halves, 1, rows, |from, to, rows| {
            let to = to.iter_mut().step_by(rows.to_stride.max(1));
            to.zip(from.iter().step_by(rows.from_stride.max(1))).take(rows.count).for_each(|(to, from)| *to = *from);
        });
    }
}

/// Makes room for channels that the last panel does not have.
fn spread(panel: &mut [f32], height: usize) {
    for tap in (0..panel.len() / PANEL).rev().filter(|_| height < PANEL) {
        panel.copy_within(tap * height..(tap + 1) * height, tap * PANEL);
        panel[tap * PANEL + height..(tap + 1) * PANEL].fill(0.0);
    }
}

/// Adds some taps of a panel.
#[inline(always)]
fn add<S: Simd>(simd: S, panel: &[f32], source: &[f32], sums: &mut [f32]) {
    const VECTORS: usize = 4;
    // Longer vectors leave one round of this loop.
    for at in (0..PANEL).step_by(VECTORS * S::F32_LANES) {
        let sums = S::as_mut_simd_f32s(&mut sums[at..][..VECTORS * S::F32_LANES]).0;
        let mut own = [simd.splat_f32s(0.0); VECTORS];
        own.copy_from_slice(sums);
        for (x, weights) in source.iter().zip(panel.as_chunks::<PANEL>().0) {
            let x = simd.splat_f32s(*x);
            let weights = S::as_simd_f32s(&weights[at..][..VECTORS * S::F32_LANES]).0;
            for v in 0..VECTORS {
                own[v] = simd.mul_add_f32s(weights[v], x, own[v]);
            }
        }
        sums.copy_from_slice(&own);
    }
}
