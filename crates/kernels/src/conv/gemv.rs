//! GEMV: 1x1 convolutions with a single output position, as in the final layers of a network. The matrix is read once, in the order in
//! which it is packed: `[tap][channel]` within each panel.
//!
//! Sums are taken in the order of the taps, as in [`crate::conv`]. For fixed-point accumulators the vector is raised by one step in place
//! of the matrix, because it has fewer elements.

use crate::conv::nchwc::{Accumulator, Buffers};
use crate::exact::bounds::{self, RangeBound, SEGMENT};
use crate::exact::decode;
use crate::filter::Filter;
use crate::filter::spread;
use crate::host::{Rows, fetch};
use crate::num;
use crate::simd::{self, LONGEST};
use crate::view::{OutputTile, TensorView, gather_elements, scatter_elements};
use crate::workers::{Scratch, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};

/// Channels of a panel: enough accumulators to hide the latency of the addition.
pub const PANEL: usize = 64;
/// Taps that are widened together and fit L1.
const TAPS: usize = SEGMENT;
/// Prefetch distance in taps.
const PREFETCH_DISTANCE: usize = 64;

/// Work of one thread.
pub struct Job<'a, 'b, A> {
    pub kernel: &'a Filter,
    pub finish: A,
    pub from: TensorView<'a>,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl<A: Accumulator> WithSimd for Job<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, finish, from, share, scratch } = self;
        let Scratch { wide, packed, panel, sums, halves, arena, .. } = scratch;
        let (taps, channels) = (kernel.packed.taps(), share.channels());
        let segments = taps.div_ceil(TAPS);
        let (halves, source) = (scratch_slice(halves, taps.max(channels)), scratch_slice(wide, taps));
        gather_elements(from.from(share.group, 0, 0), from.strides[1], &mut halves[..taps]);
        num::widen_row(&halves[..taps], source);
        let (keep, norms) = scratch_slice(packed, taps + segments).split_at_mut(taps);
        if let Some(mac) = finish.mac() {
            bounds::raise_operands(mac, source, keep, norms);
        }
        let sums = scratch_slice(sums, channels.next_multiple_of(PANEL));
        let panel = scratch_slice(panel, PANEL * TAPS);
        sums.fill(0.0);
        for (c, sums) in (0..channels).step_by(PANEL).zip(sums.chunks_exact_mut(PANEL)) {
            let (first, height) = (share.first_channel + c, PANEL.min(channels - c));
            let (mut begin, mut own) = ([0.0; PANEL], PanelAccumulators { sums, squares: [0.0; PANEL] });
            if const { !A::EXACT && simd::converts::<S>() }
                && let Some(panel) = kernel.packed.halves_of(first)
            {
                own.add_halves(simd, panel.as_chunks().0, source);
                continue;
            }
            for (to, i) in begin.iter_mut().zip(0..height) {
                *to = kernel.bias(first + i);
            }
            let mut reach = if A::EXACT { RangeBound::of(&mut begin) } else { RangeBound::default() };
            for (i, (source, keep)) in source.chunks(TAPS).zip(keep.chunks(TAPS)).enumerate() {
                let panel = &mut panel[..PANEL * source.len()];
                kernel.packed.widen(first, i * TAPS..i * TAPS + source.len(), panel);
                spread(panel, height, PANEL);
                own.add::<S, A>(simd, panel, source, keep, if i == 0 { Some(&begin) } else { None });
                if A::EXACT {
                    reach.more(simd, &own.squares, norms[i]);
                }
            }
            if let Some(mac) = finish.mac().filter(|_| !reach.is_short()) {
                // The original coefficients again.
                let mut buffers: Box<Buffers> = arena.take();
                let Buffers { unfolded, known, .. } = &mut *buffers;
                let source = scratch_slice(&mut unfolded[0], taps);
                num::widen_row(&halves[..taps], source);
                decode(mac, source);
                let sums = known.sums(simd, mac, (kernel, first..first + height), (source, &|tap, _| tap), 1);
                own.sums[..height].copy_from_slice(sums);
                arena.put(buffers);
            }
        }
        let sums = &mut sums[..channels];
        if let (Some(biases), false) = (&kernel.biases, A::EXACT) {
            let biases = biases[share.first_channel..].iter().zip(&mut *sums).filter(|(bias, _)| **bias != 0.0);
            biases.for_each(|(bias, sum)| *sum += bias);
        }
        finish.row(simd, sums, &mut halves[..channels]);
        let halves = &halves[..channels];
        let rows = Rows { count: 1, columns: 1, from_stride: 1, to_stride: 1 };
        share.store([0; 3], channels, halves, 1, rows, |from, to, rows| {
            scatter_elements(&from[..rows.count], rows.to_stride.max(1), to);
        });
    }
}

/// Accumulators of a panel, and the sums of squares of its coefficients.
struct PanelAccumulators<'a> {
    sums: &'a mut [f32],
    squares: [f32; PANEL],
}

impl PanelAccumulators<'_> {
    /// Sums all taps of a panel, widening coefficients in registers, on instruction sets that do so.
    #[inline(always)]
    fn add_halves<S: Simd>(&mut self, simd: S, panel: &[[f16; PANEL]], source: &[f32]) {
        const VECTORS: usize = PANEL / LONGEST;
        let mut own = [simd.splat_f32s(0.0); VECTORS];
        for (tap, (x, weights)) in source.iter().zip(panel).enumerate() {
            fetch(panel.get(tap + PREFETCH_DISTANCE).map_or(&[], |soon| soon));
            let (x, weights) = (simd.splat_f32s(*x), weights.as_chunks().0);
            for v in 0..VECTORS {
                let Some(weights) = simd::widened(simd, weights[v]) else { return };
                own[v] = simd.mul_add_f32s(weights, x, own[v]);
            }
        }
        S::as_mut_simd_f32s(self.sums).0.copy_from_slice(&own);
    }

    /// Adds some taps of a panel. With a fixed-point accumulator they are a run, the first of which starts from the bias.
    #[inline(always)]
    fn add<S: Simd, A: Accumulator>(
        &mut self,
        simd: S,
        panel: &[f32],
        source: &[f32],
        keep: &[f32],
        begin: Option<&[f32; PANEL]>,
    ) {
        const VECTORS: usize = 4;
        // A single iteration with the longest vectors.
        for at in (0..PANEL).step_by(VECTORS * S::F32_LANES) {
            let part = at..at + VECTORS * S::F32_LANES;
            let sums = S::as_mut_simd_f32s(&mut self.sums[part.clone()]).0;
            let (mut own, mut squares) = ([simd.splat_f32s(0.0); VECTORS], [simd.splat_f32s(0.0); VECTORS]);
            match begin {
                Some(begin) if A::EXACT => own.copy_from_slice(S::as_simd_f32s(&begin[part.clone()]).0),
                None if A::EXACT => own = [bounds::new_run(simd); VECTORS],
                _ => own.copy_from_slice(sums),
            }
            for ((x, keep), weights) in source.iter().zip(keep).zip(panel.as_chunks::<PANEL>().0) {
                let (x, keep) = (simd.splat_f32s(*x), simd.splat_f32s(*keep));
                let weights = S::as_simd_f32s(&weights[part.clone()]).0;
                for v in 0..VECTORS {
                    if A::EXACT {
                        let with = simd.mul_add_e_f32s(weights[v], x, own[v]);
                        let counts = simd.greater_than_or_equal_f32s(simd.abs_f32s(weights[v]), keep);
                        own[v] = simd.select_f32s(counts, with, own[v]);
                        squares[v] = simd.mul_add_e_f32s(weights[v], weights[v], squares[v]);
                    } else {
                        own[v] = simd.mul_add_f32s(weights[v], x, own[v]);
                    }
                }
            }
            if A::EXACT {
                for v in 0..VECTORS {
                    own[v] = simd.add_f32s(sums[v], bounds::of_run(simd, own[v]));
                }
                S::as_mut_simd_f32s(&mut self.squares[part]).0.copy_from_slice(&squares);
            }
            sums.copy_from_slice(&own);
        }
    }
}
