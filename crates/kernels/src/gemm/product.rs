//! Products of some channels by packed outputs: which register tile computes which part.

use super::microkernel::{Ahead, COLUMN_PANELS, MicroKernel, PANEL, PairKernel, Panels, Tail, TailKernel, run_outputs};
use super::rows::{RowKernel, RowMatrix};
use crate::filter::Filter;
use crate::host::fetch;
use crate::simd::outline_half;
use crate::workers::{outline, scratch_slice};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Coefficients of a product.
#[derive(Clone, Copy)]
pub enum Coefficients<'a> {
    /// Packed in panels.
    Packed(&'a Filter),
    /// The rows of one group in memory.
    Rows(RowMatrix<'a>),
}

impl Coefficients<'_> {
    pub fn taps(&self) -> usize {
        match self {
            Coefficients::Packed(kernel) => kernel.packed.taps(),
            Coefficients::Rows(rows) => rows.taps,
        }
    }

    pub fn channels(&self) -> usize {
        match self {
            Coefficients::Packed(kernel) => kernel.packed.channels(),
            Coefficients::Rows(rows) => rows.channels,
        }
    }
}

/// Product of some channels by the outputs of a part.
pub struct Product<'a> {
    pub coefficients: Coefficients<'a>,
    /// Channel of the filter at which channel ranges start counting.
    pub first: usize,
    pub outputs: usize,
    /// Elements between the sums of channels.
    pub stride: usize,
    /// Most taps of a pass.
    pub taps_at_once: usize,
    /// Offsets of the taps of a pass, as [`packed_offsets`].
    pub places: [&'a [u32]; 2],
}

/// Elements between the taps of a packed run: its outputs in whole vectors. A short run with the taps of a long one would fill few sets of L1.
#[inline(always)]
pub fn tap_stride<S: Simd>(outputs: usize) -> usize {
    run_outputs::<S>().min(outputs.next_multiple_of(S::F32_LANES))
}

/// Offsets of the taps within a whole run and within the last one.
pub fn packed_offsets<S: Simd>(places: &mut Vec<u32>, taps: usize, outputs: usize) -> [&[u32]; 2] {
    let width = run_outputs::<S>();
    let (whole, last) = scratch_slice(places, 2 * taps).split_at_mut(taps);
    for (places, stride) in [(&mut *whole, width), (&mut *last, tap_stride::<S>(outputs % width))] {
        for (tap, place) in places.iter_mut().enumerate() {
            *place = (tap * stride) as u32;
        }
    }
    [whole, last]
}

impl Product<'_> {
    /// Accumulates some taps for some channels, which start at a panel. `packed` has these taps, run by run. `next` are the channel and taps of
    /// the next call, whose coefficients are prefetched. Panels without a nonzero coefficient, as those that fill heads of an attention up to whole rows, are
    /// skipped.
    #[inline(always)]
    pub fn add<S: Simd>(
        &self,
        simd: S,
        channels: Range<usize>,
        taps: Range<usize>,
        next: (usize, Range<usize>),
        packed: &[f32],
        panel: &mut [f32],
        sums: &mut [f32],
    ) {
        let &Product { first, outputs, stride, taps_at_once, .. } = self;
        let (count, resume) = (channels.len(), taps.start > 0);
        let kernel = match &self.coefficients {
            Coefficients::Packed(kernel) => *kernel,
            Coefficients::Rows(rows) => {
                return self.add_rows(simd, rows, channels, taps, packed, panel, sums);
            }
        };
        let mut zeros = 0_u32;
        for (i, c) in (0..count).step_by(PANEL).enumerate() {
            let panel = kernel.packed.widen(first + channels.start + c, taps.clone(), &mut panel[c * taps_at_once..]);
            zeros |= u32::from(count >= LEAST_TESTED && panel.iter().all(|x| *x == 0.0)) << i;
        }
        // Zero times infinity is NaN.
        if zeros != 0 && !is_finite(simd, &packed[..packed_elements::<S>(outputs, taps.len())]) {
            zeros = 0;
        }
        let mut start = 0;
        while start < count {
            let left = zeros >> (start / PANEL);
            let is_zero = left & 1 == 1;
            let end = count.min(start + PANEL * if is_zero { 1 } else { left.trailing_zeros() as usize });
            let sums = &mut sums[start * stride..];
            if !is_zero {
                let next = (next.0 + start, next.1.clone());
                self.add_panels(
                    simd,
                    kernel,
                    end - start,
                    taps.clone(),
                    next,
                    packed,
                    &panel[start * taps_at_once..],
                    sums,
                );
            } else if !resume {
                for sums in sums.chunks_mut(stride).take(end - start) {
                    sums[..outputs].fill(0.0);
                }
            }
            start = end;
        }
    }

    /// [`Product::add`] for the first `count` channels of widened panels.
    #[inline(always)]
    fn add_panels<S: Simd>(
        &self,
        simd: S,
        kernel: &Filter,
        count: usize,
        taps: Range<usize>,
        next: (usize, Range<usize>),
        packed: &[f32],
        panel: &[f32],
        sums: &mut [f32],
    ) {
        let &Product { first, outputs, stride, taps_at_once, places, .. } = self;
        let (width, resume) = (run_outputs::<S>(), taps.start > 0);
        // The prefetch is spread over the runs with full or partly filled vectors.
        let runs = (outputs - Tail::of::<S>(outputs).outputs()).div_ceil(width).max(1);
        let (next, soon) = next;
        let part = soon.len().div_ceil(runs);
        for (run, output) in (0..outputs).step_by(width).enumerate() {
            let soon = (soon.start + run * part).min(soon.end)..(soon.start + (run + 1) * part).min(soon.end);
            let outputs = width.min(outputs - output);
            let tap_stride = tap_stride::<S>(outputs);
            let source = &packed[run * taps.len() * width..][..taps.len() * tap_stride];
            let places = places[usize::from(outputs < width)];
            let tail = Tail::of::<S>(outputs);
            let (columns, alone) = (tail.outputs(), tail.channels(count));
            let mut c = 0;
            while c < alone {
                let half = matches!(tail, Tail::Half(_));
                let at_once = if half { 2 } else { panels_at_once((alone - c) / PANEL) };
                for column in (outputs - columns..outputs).take(if half { 1 } else { columns }) {
                    let (panels, sums) = (&panel[c * taps_at_once..], &mut sums[c * stride + output + column..]);
                    let (distance, taps, source) = (PANEL * taps_at_once, taps.len(), &source[column..]);
                    let tail = Panels { panels, distance, taps, source, tap_stride, sums, stride, resume };
                    match at_once {
                        _ if half => outline_half(simd, PairKernel(tail)),
                        1 => outline(simd, TailKernel::<1>(tail)),
                        2 => outline(simd, TailKernel::<2>(tail)),
                        4 => outline(simd, TailKernel::<4>(tail)),
                        _ => outline(simd, TailKernel::<COLUMN_PANELS>(tail)),
                    }
                }
                c += at_once * PANEL;
            }
            let mut c = 0;
            while c < count {
                let height = PANEL.min(count - c);
                let outputs = if c < alone { outputs - columns } else { outputs };
                let (panels, sums) = (&panel[c * taps_at_once..], &mut sums[c * stride + output..]);
                if (1..=S::F32_LANES).contains(&outputs) && c + 2 * PANEL <= count {
                    fetch(kernel.packed.bytes_of_taps(first + next + c, soon.clone()));
                    fetch(kernel.packed.bytes_of_taps(first + next + c + PANEL, soon.clone()));
                    let (distance, taps) = (PANEL * taps_at_once, taps.len());
                    let pair = Panels { panels, distance, taps, source, tap_stride, sums, stride, resume };
                    outline(simd, PairKernel(pair));
                    c += 2 * PANEL;
                    continue;
                }
                let panel = &panels[..height * taps.len()];
                let ahead = kernel.packed.bytes_of_taps(first + next + c, soon.clone());
                let ahead = Ahead::of(ahead, taps.len());
                MicroKernel { panel, height, source, places, sums, stride, outputs, ahead, resume }.with_simd(simd);
                c += PANEL;
            }
        }
    }

    /// [`Product::add`] for rows of coefficients.
    #[inline(always)]
    fn add_rows<S: Simd>(
        &self,
        simd: S,
        rows: &RowMatrix,
        channels: Range<usize>,
        taps: Range<usize>,
        packed: &[f32],
        panel: &mut [f32],
        sums: &mut [f32],
    ) {
        let &Product { first, outputs, stride, .. } = self;
        let (width, count, resume) = (run_outputs::<S>(), channels.len(), taps.start > 0);
        let size = RowMatrix::panel_elements(taps.len());
        for (c, panel) in (0..count).step_by(PANEL).zip(panel.chunks_exact_mut(size)) {
            rows.widen(simd, first + channels.start + c, taps.clone(), panel);
        }
        for (run, output) in (0..outputs).step_by(width).enumerate() {
            let outputs = width.min(outputs - output);
            let source = &packed[run * taps.len() * width..][..taps.len() * tap_stride::<S>(outputs)];
            for (c, panel) in (0..count).step_by(PANEL).zip(panel.chunks_exact(size)) {
                let (height, sums) = (PANEL.min(count - c), &mut sums[c * stride + output..]);
                RowKernel { panel, height, source, sums, stride, outputs, resume }.with_simd(simd);
            }
        }
    }

    /// Bias of a channel.
    pub fn bias(&self, channel: usize) -> f32 {
        match &self.coefficients {
            Coefficients::Packed(kernel) => kernel.bias(self.first + channel),
            Coefficients::Rows(_) => 0.0,
        }
    }
}

/// Fewest channels whose panels are tested for zeros: products of fewer, as of groups of channels, take too little time.
const LEAST_TESTED: usize = 4 * PANEL;

/// Elements of some packed taps.
#[inline(always)]
fn packed_elements<S: Simd>(outputs: usize, taps: usize) -> usize {
    let rest = outputs % run_outputs::<S>();
    taps * (outputs - rest + if rest == 0 { 0 } else { tap_stride::<S>(rest) })
}

/// Returns true if all numbers, in whole vectors, are finite.
#[inline(always)]
fn is_finite<S: Simd>(simd: S, numbers: &[f32]) -> bool {
    let (nothing, mut sum) = (simd.splat_f32s(0.0), simd.splat_f32s(0.0));
    for x in S::as_simd_f32s(numbers).0 {
        sum = simd.mul_add_f32s(*x, nothing, sum);
    }
    simd.reduce_sum_f32s(sum) == 0.0
}

/// Panels of the next [`TailKernel`], with `panels` panels left.
fn panels_at_once(panels: usize) -> usize {
    if panels >= COLUMN_PANELS { COLUMN_PANELS } else { 1 << panels.ilog2() }
}

/// Packs one of `taps` taps, run by run; the last run is padded with zeros.
#[inline(always)]
pub fn pack<S: Simd>(outputs: &[f32], taps: usize, tap: usize, to: &mut [f32]) {
    let width = run_outputs::<S>();
    for (run, row) in outputs.chunks(width).enumerate() {
        let stride = tap_stride::<S>(row.len());
        let (to, rest) = to[run * taps * width + tap * stride..][..stride].split_at_mut(row.len());
        to.copy_from_slice(row);
        rest.fill(0.0);
    }
}
