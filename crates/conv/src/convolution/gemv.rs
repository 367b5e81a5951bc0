//! GEMV: 1x1 convolutions with a single output position, as in the final layers of a network. The matrix is read once, in the order in
//! which it is packed: `[tap][channel]` within each panel.
//!
//! Sums are taken in the order of the taps, as in [`crate::convolution`]. For fixed-point accumulators the vector is raised by one step in place
//! of the matrix, because it has fewer elements, and the bounds of the matrix are computed when it is packed.

use crate::convolution::nchwc::{Accumulator, Buffers};
use anemone_kernels::exact::bounds::{self, SEGMENT};
use anemone_kernels::exact::decode;
use anemone_kernels::exact::vector::{PanelStats, VectorBuffers, VectorStats, add_run, settle, taps_in};
use anemone_kernels::filter::Filter;
use anemone_kernels::filter::spread;
use anemone_kernels::host::{Rows, fetch};
use anemone_kernels::num;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::simd::{self, Aligned, LONGEST};
use anemone_kernels::view::{OutputTile, TensorView, gather_elements, scatter_elements};
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Channels of a panel: enough accumulators to hide the latency of the addition.
pub const PANEL: usize = 64;
/// Taps that are widened together and fit L1.
const TAPS: usize = SEGMENT;
/// Prefetch distance in taps.
const PREFETCH_DISTANCE: usize = 64;
/// Accumulator vectors that are summed together, on hosts without the longest vectors.
const VECTORS: usize = 8;

/// Work of one thread.
pub struct Job<'a, 'b, A> {
    pub kernel: &'a Filter,
    /// Statistics of the coefficients, for a fixed-point accumulator.
    pub stats: Option<&'a PanelStats>,
    pub finish: A,
    pub from: TensorView<'a>,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl<A: Accumulator> WithSimd for Job<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, stats, finish, from, share, scratch } = self;
        let Scratch { wide, panel, sums, halves, arena, .. } = scratch;
        let (taps, channels) = (kernel.packed.taps(), share.channels());
        let (halves, source) = (scratch_slice(halves, taps.max(channels)), scratch_slice(wide, taps));
        gather_elements(from.from(share.group, 0, 0), from.strides[1], &mut halves[..taps]);
        num::widen_row(&halves[..taps], source);
        let mut measured: Option<Box<VectorBuffers>> = A::EXACT.then(|| arena.take());
        let mut exactly = match (finish.mac(), stats, &mut measured) {
            (Some(mac), Some(stats), Some(to)) => Some((mac, stats, VectorStats::of(simd, mac, source, to))),
            _ => None,
        };
        let sums = scratch_slice(sums, channels.next_multiple_of(PANEL));
        let widened = scratch_slice(panel, PANEL * TAPS);
        sums.fill(0.0);
        for (c, sums) in (0..channels).step_by(PANEL).zip(sums.as_chunks_mut::<PANEL>().0) {
            let (first, height) = (share.first_channel + c, PANEL.min(channels - c));
            let mut panel = Panel { kernel, first, height, source, widened: &mut *widened, sums };
            let Some((mac, stats, vector)) = &mut exactly else {
                panel.sum_fast(simd);
                continue;
            };
            if panel.sum_exact(simd, mac, stats, vector) {
                continue;
            }
            // The original coefficients again.
            let mut buffers: Box<Buffers> = arena.take();
            let Buffers { unfolded, known, .. } = &mut *buffers;
            let source = scratch_slice(&mut unfolded[0], taps);
            num::widen_row(&halves[..taps], source);
            decode(mac, source);
            let all = known.sums(simd, mac, (kernel, first..first + height), (source, &|tap, _| tap), 1);
            panel.sums[..height].copy_from_slice(all);
            arena.put(buffers);
        }
        if let Some(measured) = measured {
            arena.put(measured);
        }
        let sums = &mut sums[..channels];
        if let (Some(biases), false) = (&kernel.biases, A::EXACT) {
            for (bias, sum) in biases[share.first_channel..].iter().zip(&mut *sums) {
                // Minus zero stays.
                if *bias != 0.0 {
                    *sum += bias;
                }
            }
        }
        finish.row(simd, sums, &mut halves[..channels]);
        let halves = &halves[..channels];
        let rows = Rows { count: 1, columns: 1, from_stride: 1, to_stride: 1 };
        share.store([0; 3], channels, halves, 1, rows, |from, to, rows| {
            scatter_elements(&from[..rows.count], rows.to_stride.max(1), to);
        });
    }
}

/// A panel of channels and the vector.
struct Panel<'a> {
    kernel: &'a Filter,
    /// First channel and number of channels.
    first: usize,
    height: usize,
    source: &'a [f32],
    /// Space for the coefficients of [`TAPS`] taps.
    widened: &'a mut [f32],
    sums: &'a mut [f32; PANEL],
}

/// Coefficients of a panel from some tap on, `[tap][channel]`.
#[derive(Clone, Copy)]
enum Coefficients<'a> {
    /// Widened in registers, on instruction sets that do so.
    Halves(&'a [[f16; PANEL]]),
    Wide(&'a [[f32; PANEL]]),
}

impl<'a> Panel<'a> {
    /// Full panels of fp16 coefficients, on instruction sets that widen them in registers.
    #[inline(always)]
    fn halves<S: Simd>(&self) -> Option<&'a [[f16; PANEL]]> {
        if const { !simd::converts::<S>() } {
            return None;
        }
        Some(self.kernel.packed.halves_of(self.first)?.as_chunks().0)
    }

    /// Sums of all taps in fp32.
    #[inline(always)]
    fn sum_fast<S: Simd>(&mut self, simd: S) {
        if let Some(halves) = self.halves::<S>() {
            outline(simd, Products::fast(Coefficients::Halves(halves), self.source, self.sums));
        } else {
            let Panel { kernel, first, height, ref mut widened, .. } = *self;
            for (i, source) in self.source.chunks(TAPS).enumerate() {
                let wide = widen(kernel, first..first + height, i * TAPS..i * TAPS + source.len(), widened);
                outline(simd, Products::fast(Coefficients::Wide(wide), source, self.sums));
            }
        }
    }

    /// Sums of all taps with a fixed-point accumulator, in runs of at most [`TAPS`]. Returns false, without sums, if they may leave the range of
    /// fp32 runs.
    #[inline(always)]
    fn sum_exact<S: Simd>(
        &mut self,
        simd: S,
        mac: &AccumulatorSpec,
        stats: &PanelStats,
        vector: &mut VectorStats,
    ) -> bool {
        let panel = self.first / PANEL;
        let mut own = Aligned([0.0; PANEL]);
        own.0.copy_from_slice(stats.starts(panel, PANEL));
        let Some((length, mut mixed)) = vector.runs(simd, stats, panel, self.source) else { return false };
        let channels = self.first..self.first + self.height;
        for (i, x) in self.source.chunks(length).enumerate() {
            let taps = i * length..i * length + x.len();
            let dropping = taps_in(&mut mixed, taps.end);
            let coefficients = match self.halves::<S>() {
                Some(halves) => Coefficients::Halves(&halves[taps.start..]),
                None => Coefficients::Wide(widen(self.kernel, channels.clone(), taps.clone(), self.widened)),
            };
            let sums = &mut own.0;
            outline(
                simd,
                Products { panel: coefficients, source: x, mac: Some(mac), dropping, first: taps.start, sums },
            );
            add_run(simd, &mut own.0, self.sums);
        }
        settle(self.sums);
        true
    }
}

/// Widens some taps of a panel, padded to its full height.
#[inline(always)]
fn widen<'a>(kernel: &Filter, channels: Range<usize>, taps: Range<usize>, to: &'a mut [f32]) -> &'a [[f32; PANEL]] {
    let to = &mut to[..PANEL * taps.len()];
    kernel.packed.widen(channels.start, taps, to);
    spread(to, channels.len(), PANEL);
    to.as_chunks().0
}

/// Products of the first taps of a panel, added to its sums.
struct Products<'a> {
    panel: Coefficients<'a>,
    /// Element of the vector for each tap.
    source: &'a [f32],
    /// Fixed-point accumulator, and the taps of which it drops some products, counted from tap `first`.
    mac: Option<&'a AccumulatorSpec>,
    dropping: &'a [u32],
    first: usize,
    sums: &'a mut [f32; PANEL],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if const { S::F32_LANES == LONGEST } {
            self.add::<S, { PANEL / LONGEST }>(simd);
        } else {
            self.add::<S, VECTORS>(simd);
        }
    }
}

impl Products<'_> {
    /// In fp32.
    fn fast<'a>(panel: Coefficients<'a>, source: &'a [f32], sums: &'a mut [f32; PANEL]) -> Products<'a> {
        Products { panel, source, mac: None, dropping: &[], first: 0, sums }
    }

    /// Adds the products, `N` accumulator vectors at a time.
    #[inline(always)]
    fn add<S: Simd, const N: usize>(self, simd: S) {
        let Products { panel, source, mac, dropping, first, sums } = self;
        // Products and sums of a fixed-point accumulator are exact, so that scalar code may use the faster unfused operations.
        let fused = mac.is_none() || const { S::F32_LANES > 1 };
        for at in (0..PANEL).step_by(N * S::F32_LANES) {
            let part = at..at + N * S::F32_LANES;
            let sums = S::as_mut_simd_f32s(&mut sums[part.clone()]).0;
            let mut own = [simd.splat_f32s(0.0); N];
            for v in 0..N {
                own[v] = sums[v];
            }
            match panel {
                Coefficients::Halves(panel) => {
                    for (tap, (x, weights)) in source.iter().zip(panel).enumerate() {
                        fetch(panel.get(tap + PREFETCH_DISTANCE).map_or(&[], |soon| soon));
                        let (x, weights) = (simd.splat_f32s(*x), &weights[part.clone()]);
                        for v in 0..N {
                            let Some(weights) = simd::widened(simd, &weights[v * S::F32_LANES..]) else { return };
                            own[v] = simd.mul_add_f32s(weights, x, own[v]);
                        }
                    }
                }
                Coefficients::Wide(panel) => {
                    for (x, weights) in source.iter().zip(panel) {
                        let (x, weights) = (simd.splat_f32s(*x), S::as_simd_f32s(&weights[part.clone()]).0);
                        for v in 0..N {
                            own[v] = match fused {
                                true => simd.mul_add_f32s(weights[v], x, own[v]),
                                false => simd.mul_add_e_f32s(weights[v], x, own[v]),
                            };
                        }
                    }
                }
            }
            for &tap in dropping {
                let (tap, Some(mac)) = (tap as usize - first, mac) else { break };
                let x = simd.splat_f32s(source[tap]);
                let (keep, back) = (bounds::keep_from(simd, mac, x), simd::neg(simd, x));
                for v in 0..N {
                    let wide = match panel {
                        Coefficients::Halves(panel) => simd::widened(simd, &panel[tap][at + v * S::F32_LANES..]),
                        Coefficients::Wide(panel) => Some(S::as_simd_f32s(&panel[tap][part.clone()]).0[v]),
                    };
                    let Some(w) = wide else { return };
                    let without = simd.mul_add_e_f32s(w, back, own[v]);
                    let drops = simd.less_than_f32s(simd::abs(simd, w), keep);
                    own[v] = simd.select_f32s(drops, without, own[v]);
                }
            }
            for v in 0..N {
                sums[v] = own[v];
            }
        }
    }
}
