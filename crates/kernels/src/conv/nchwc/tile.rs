//! Micro-kernel of NCHWc16: a register tile of outputs by vectors of channels.

use super::{Accumulator, Panels, Tiles};
use crate::epilogue::Staged;
use crate::exact::bounds::{self, RunSchedule};
use crate::host::fetch;
use crate::num;
use crate::params::AccumulatorSpec;
use crate::simd::{self, LaneMap, StoreFormat};
use crate::view::BLOCK;
use crate::workers::{LINE_BYTES, outline};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Vectors of channels of a register tile.
const VECTORS: usize = 2;
/// Most outputs of a register tile: with 32 registers, with 32 of which the test for dropped products takes some, and with 16.
pub(super) const MOST: usize = 14;
const MOST_EXACT: usize = 12;
const FEW: usize = 6;
/// Most outputs without vectors: a fallback for hosts without a specialized instruction set.
const SCALAR: usize = 2;
/// Taps between prefetches, a multiple of the block size.
const PIECE: usize = 64;

/// Most outputs of a register tile.
pub(super) const fn most<S: Simd, A: Accumulator>() -> usize {
    match S::REGISTER_COUNT {
        _ if S::F32_LANES == 1 => SCALAR,
        0..32 => FEW,
        _ if A::EXACT => MOST_EXACT,
        _ => MOST,
    }
}

/// Returns true if a block of channels is an even number of vectors.
const fn are_pairs<S: Simd>() -> bool {
    (BLOCK / S::F32_LANES).is_multiple_of(VECTORS)
}

/// Prefetches the next coefficients a few cache lines at a time, because few cache misses can be outstanding.
#[derive(Clone, Copy, Default)]
pub(super) struct PrefetchCursor<'a> {
    bytes: &'a [u8],
    /// Bytes to prefetch for each tile, and for every [`PIECE`] taps.
    of_tile: usize,
    at_once: usize,
}

impl<'a> PrefetchCursor<'a> {
    pub(super) fn of(bytes: &'a [u8], tiles: Tiles) -> PrefetchCursor<'a> {
        let pieces = tiles.taps.div_ceil(PIECE).max(1);
        // Whole cache lines.
        let at_once = bytes.len().div_ceil(pieces * tiles.count().max(1)).next_multiple_of(LINE_BYTES);
        PrefetchCursor { bytes, of_tile: pieces * at_once, at_once }
    }

    /// The part that is prefetched while a tile is computed.
    pub(super) fn with_tile(self, tile: usize) -> PrefetchCursor<'a> {
        let first = (tile * self.of_tile).min(self.bytes.len());
        PrefetchCursor { bytes: &self.bytes[first..][..self.of_tile.min(self.bytes.len() - first)], ..self }
    }

    #[inline(always)]
    fn fetch(&mut self) {
        let (now, rest) = self.bytes.split_at(self.at_once.min(self.bytes.len()));
        fetch(now);
        self.bytes = rest;
    }
}

/// Computation of one tile: its outputs by some blocks of channels, with bias and epilogue.
pub(super) struct TileSums<'a, A> {
    pub(super) source: &'a [f32],
    pub(super) tiles: Tiles,
    pub(super) outputs: usize,
    pub(super) blocks: usize,
    pub(super) panels: &'a Panels<'a>,
    pub(super) finish: A,
    pub(super) terms: RunSchedule<'a>,
    pub(super) prefetch: PrefetchCursor<'a>,
    /// Position of each output in the result of a block; `stride`: distance between blocks.
    pub(super) places: &'a [u32],
    pub(super) stride: usize,
    pub(super) to: StoreSink<'a>,
}

/// Destination of a tile and its element format. Instruction sets that cannot round in registers store fp32 sums, which are rounded later.
pub(super) enum StoreSink<'a> {
    Halves(&'a mut [f16]),
    Wide(&'a mut [f32]),
    Sums(&'a mut [f32]),
}

impl StoreSink<'_> {
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> StoreSink<'_> {
        match self {
            StoreSink::Halves(to) => StoreSink::Halves(to),
            StoreSink::Wide(to) => StoreSink::Wide(to),
            StoreSink::Sums(to) => StoreSink::Sums(to),
        }
    }

    /// Applies the stages to accumulators, `[output][vector]`, and stores them. `places` has the position of each output, `at` the offset of
    /// each vector from there. The lengths are constants after inlining.
    #[inline(always)]
    pub(super) fn store<S: Simd, A: Accumulator>(
        self,
        simd: S,
        _: A,
        stages: impl LaneMap<S>,
        sums: &[S::f32s],
        places: &[u32],
        at: &[usize],
    ) {
        match self {
            StoreSink::Halves(to) if const { simd::converts::<S>() } => {
                store_vectors(simd, stages, sums, places, at, to)
            }
            StoreSink::Wide(to) if const { simd::converts::<S>() && !A::EXACT } => {
                store_vectors(simd, stages, sums, places, at, to);
            }
            StoreSink::Sums(to) if const { A::EXACT || !simd::converts::<S>() } => {
                for t in 0..places.len() {
                    for g in 0..at.len() {
                        let to = &mut to[places[t] as usize + at[g]..][..S::F32_LANES];
                        S::as_mut_simd_f32s(to).0[0] = stages.of(simd, sums[t * at.len() + g]);
                    }
                }
            }
            // Unreachable: converted formats need an instruction set that converts, on which the model `fast` stores no sums.
            _ => {}
        }
    }

    /// Applies the epilogue to sums in memory, `[channel][output]`, and stores each at `place(channel, output)`.
    #[inline(always)]
    pub(super) fn store_sums<S: Simd, A: Accumulator>(
        self,
        simd: S,
        finish: A,
        sums: &[f32],
        outputs: usize,
        place: &dyn Fn(usize, usize) -> usize,
    ) {
        finish.with_after(simd, UnboundedSums { sums, outputs, place, to: self });
    }
}

/// Sums in memory, computed by a fallback outside of the register tiles.
struct UnboundedSums<'a> {
    sums: &'a [f32],
    outputs: usize,
    place: &'a dyn Fn(usize, usize) -> usize,
    to: StoreSink<'a>,
}

impl<S: Simd> Staged<S> for UnboundedSums<'_> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl LaneMap<S>) {
        let UnboundedSums { sums, outputs, place, mut to } = self;
        for (channel, sums) in sums.chunks_exact(outputs).enumerate() {
            for (i, some) in sums.chunks(S::F32_LANES).enumerate() {
                let settled = stages.of(simd, simd.partial_load_f32s(some));
                let mut row = [0.0; BLOCK];
                simd.partial_store_f32s(&mut row[..some.len()], settled);
                for (j, &x) in row[..some.len()].iter().enumerate() {
                    let at = place(channel, i * S::F32_LANES + j);
                    match to.reborrow() {
                        StoreSink::Halves(to) => to[at] = num::round(x),
                        StoreSink::Wide(to) | StoreSink::Sums(to) => to[at] = x,
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn store_vectors<S: Simd, E: StoreFormat>(
    simd: S,
    stages: impl LaneMap<S>,
    sums: &[S::f32s],
    places: &[u32],
    at: &[usize],
    to: &mut [E],
) {
    for t in 0..places.len() {
        for g in 0..at.len() {
            let left = E::of(simd, stages, sums[t * at.len() + g]);
            if let (Some(left), Some(to)) = (left, to[places[t] as usize + at[g]..].first_chunk_mut()) {
                *to = left;
            }
        }
    }
}

impl<A: Accumulator> TileSums<'_, A> {
    #[inline(always)]
    pub(super) fn add<S: Simd>(self, simd: S) {
        let TileSums { source, tiles: Tiles { taps, in_blocks, .. }, outputs, blocks, panels, .. } = self;
        let TileSums { finish, terms: RunSchedule { ends, mixed, totals }, prefetch, places, stride, mut to, .. } =
            self;
        let place = |vector: usize, stride: usize| {
            let channel = vector * S::F32_LANES;
            channel / BLOCK * stride + channel % BLOCK
        };
        let vectors = blocks * BLOCK / S::F32_LANES;
        for first in (0..vectors).step_by(VECTORS) {
            let weights = [0, 1].map(|v| &panels.data[place((first + v).min(vectors - 1), panels.stride())..]);
            let at = [0, 1].map(|v| place((first + v).min(vectors - 1), stride));
            let both = first + 1 < vectors;
            let (to, terms) = (to.reborrow(), RunSchedule { ends, mixed, totals: &mut *totals });
            let prefetch = if first == 0 { prefetch } else { PrefetchCursor::default() };
            macro_rules! tiles {
                ($($count: literal)*) => {
                    match outputs {
                        $($count if const { $count <= most::<S, A>() } => match in_blocks {
                            false if both || const { are_pairs::<S>() } => tiles!($count, 2, false),
                            true if both || const { are_pairs::<S>() } => tiles!($count, 2, true),
                            false if const { !are_pairs::<S>() } => tiles!($count, 1, false),
                            true if const { !are_pairs::<S>() } => tiles!($count, 1, true),
                            _ => {}
                        },)*
                        // `Tiles` makes no larger tiles.
                        _ => {}
                    }
                };
                ($count: literal, $vectors: literal, $in_blocks: literal) => {
                    outline(
                        simd,
                        Tile::<A, $count, $vectors, $in_blocks> { source, taps, weights, finish, terms, prefetch, places, at, to },
                    )
                };
            }
            tiles!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }
    }
}

/// Register tile: `T` outputs by `G` vectors of channels.
struct Tile<'a, A, const T: usize, const G: usize, const IN_BLOCKS: bool> {
    source: &'a [f32],
    taps: usize,
    /// Coefficients and bias from the first channel of each vector on.
    weights: [&'a [f32]; VECTORS],
    finish: A,
    terms: RunSchedule<'a>,
    prefetch: PrefetchCursor<'a>,
    places: &'a [u32],
    at: [usize; VECTORS],
    to: StoreSink<'a>,
}

impl<A: Accumulator, const T: usize, const G: usize, const IN_BLOCKS: bool> WithSimd for Tile<'_, A, T, G, IN_BLOCKS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tile { source, taps, weights, finish, terms, prefetch, places, at, to } = self;
        let (Some(places), Some(at)) = (places.first_chunk::<T>(), at.first_chunk::<G>()) else { return };
        let mut biases = [simd.splat_f32s(0.0); G];
        for g in 0..G {
            biases[g] = S::as_simd_f32s(&weights[g][taps * BLOCK..][..S::F32_LANES]).0[0];
        }
        let operands = Operands::<T, IN_BLOCKS> { source, weights };
        // Finished sums are in memory; only those of the inner loop are in registers.
        let mut done;
        if const { A::EXACT } {
            let Some(mac) = finish.mac() else { return };
            done = [biases; T];
            // Prefetched at once: the length of runs varies.
            fetch(prefetch.bytes);
            operands.runs::<S, A, G>(simd, mac, taps, terms, &mut done);
        } else {
            let mut prefetch = prefetch;
            let mut sums = [[simd.splat_f32s(0.0); G]; T];
            prefetch.fetch();
            // Peeled off: with few taps, a loop around the inner loop costs 2 %.
            operands.add::<S, A, G>(simd, 0..taps.min(PIECE), &mut sums);
            for from in (PIECE..taps).step_by(PIECE) {
                prefetch.fetch();
                operands.add::<S, A, G>(simd, from..taps.min(from + PIECE), &mut sums);
            }
            done = [biases; T];
            for t in 0..T {
                for g in 0..G {
                    done[t][g] = simd.add_f32s(sums[t][g], biases[g]);
                }
            }
        }
        finish.with_after(simd, FinishedSums { sums: done.as_flattened(), finish, places, at, to });
    }
}

/// Packed operands and coefficients of a register tile.
struct Operands<'a, const T: usize, const IN_BLOCKS: bool> {
    source: &'a [f32],
    weights: [&'a [f32]; VECTORS],
}

impl<const T: usize, const IN_BLOCKS: bool> Operands<'_, T, IN_BLOCKS> {
    /// [`Operands::add_by`], fused or not. Products and sums of a fixed-point accumulator are exact, so that scalar code may use the faster
    /// unfused operations.
    #[inline(always)]
    fn add<S: Simd, A: Accumulator, const G: usize>(&self, simd: S, taps: Range<usize>, sums: &mut [[S::f32s; G]; T]) {
        if const { A::EXACT && S::F32_LANES == 1 } {
            self.add_by::<S, false, G>(simd, taps, sums);
        } else {
            self.add_by::<S, true, G>(simd, taps, sums);
        }
    }

    /// Accumulates some taps, whole blocks of them for a source in NCHWc16. `FUSED` selects fused multiply-add or multiply, then add.
    #[inline(always)]
    fn add_by<S: Simd, const FUSED: bool, const G: usize>(
        &self,
        simd: S,
        taps: Range<usize>,
        sums: &mut [[S::f32s; G]; T],
    ) {
        let of = taps.start * BLOCK..taps.end * BLOCK;
        let [one, two] = self.weights;
        let (one, two) = (one[of.clone()].as_chunks::<BLOCK>().0, two[of.clone()].as_chunks::<BLOCK>().0);
        if IN_BLOCKS {
            let blocks = self.source[taps.start * T..taps.end * T].as_chunks::<BLOCK>().0;
            for block in 0..taps.len() / BLOCK {
                let Some(x) = blocks[block * T..].first_chunk::<T>() else { return };
                let (one, two) = (&one[block * BLOCK..][..BLOCK], &two[block * BLOCK..][..BLOCK]);
                for tap in 0..BLOCK {
                    let mut operands = [0.0; T];
                    for t in 0..T {
                        operands[t] = x[t][tap];
                    }
                    step::<S, FUSED, T, G>(simd, &operands, [&one[tap], &two[tap]], sums);
                }
            }
        } else {
            let x = self.source[of].as_chunks::<BLOCK>().0;
            let count = x.len().min(one.len()).min(two.len());
            let (x, one, two) = (&x[..count], &one[..count], &two[..count]);
            for tap in 0..count {
                let Some(x) = x[tap].first_chunk() else { return };
                step::<S, FUSED, T, G>(simd, x, [&one[tap], &two[tap]], sums);
            }
        }
    }

    /// Accumulates all taps in runs of a fixed-point accumulator. `sums` hold the initial values of a run on entry, and complete sums on return.
    #[inline(always)]
    fn runs<S: Simd, A: Accumulator, const G: usize>(
        &self,
        simd: S,
        mac: &AccumulatorSpec,
        taps: usize,
        terms: RunSchedule,
        sums: &mut [[S::f32s; G]; T],
    ) {
        let RunSchedule { ends, mixed, totals } = terms;
        let totals = S::as_mut_simd_f32s(totals).0;
        let mut from = 0;
        for (run, &end) in ends.iter().enumerate() {
            let end = end as usize;
            let mut own = [[simd.splat_f32s(0.0); G]; T];
            for t in 0..T {
                for g in 0..G {
                    own[t][g] = sums[t][g];
                }
            }
            self.add::<S, A, G>(simd, from..end, &mut own);
            for t in 0..T {
                for g in 0..G {
                    sums[t][g] = own[t][g];
                }
            }
            from = end;
            if end == taps {
                break;
            }
            for (sum, total) in sums.as_flattened_mut().iter_mut().zip(&mut *totals) {
                let more = bounds::of_run(simd, *sum);
                *total = if run == 0 { more } else { simd.add_f32s(*total, more) };
                *sum = bounds::new_run(simd);
            }
        }
        for &tap in mixed {
            let tap = tap as usize;
            let (mut keep, mut back) = ([simd.splat_f32s(0.0); G], [simd.splat_f32s(0.0); G]);
            for g in 0..G {
                let w = S::as_simd_f32s(&self.weights[g][tap * BLOCK..][..S::F32_LANES]).0[0];
                // A zero coefficient subtracts nothing.
                (keep[g], back[g]) = (bounds::keep_from(simd, mac, w), simd.neg_f32s(w));
            }
            let Some(x) = self.tap_operands(tap) else { return };
            for t in 0..T {
                let x = simd.splat_f32s(x[if IN_BLOCKS { t * BLOCK } else { t }]);
                let magnitude = simd.abs_f32s(x);
                for g in 0..G {
                    let without = simd.mul_add_e_f32s(back[g], x, sums[t][g]);
                    let drops = simd.less_than_f32s(magnitude, keep[g]);
                    sums[t][g] = simd.select_f32s(drops, without, sums[t][g]);
                }
            }
        }
        for (sum, total) in sums.as_flattened_mut().iter_mut().zip(totals) {
            *sum = bounds::of_run(simd, *sum);
            if ends.len() > 1 {
                *sum = simd.add_f32s(*sum, *total);
            }
        }
    }

    /// Operands of a tap, from that of the first output to that of the last one; consecutive outputs are 1 or [`BLOCK`] elements apart.
    #[inline(always)]
    fn tap_operands(&self, tap: usize) -> Option<&[f32]> {
        match IN_BLOCKS {
            true => self.source[tap / BLOCK * T * BLOCK + tap % BLOCK..].get(..(T - 1) * BLOCK + 1),
            false => self.source[tap * BLOCK..].get(..T),
        }
    }
}

/// Accumulators of a register tile, with biases, before the epilogue.
struct FinishedSums<'a, S: Simd, A> {
    sums: &'a [S::f32s],
    finish: A,
    places: &'a [u32],
    at: &'a [usize],
    to: StoreSink<'a>,
}

impl<S: Simd, A: Accumulator> Staged<S> for FinishedSums<'_, S, A> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl LaneMap<S>) {
        let FinishedSums { sums, finish, places, at, to } = self;
        to.store(simd, finish, stages, sums, places, at);
    }
}

/// Accumulates one tap.
#[inline(always)]
fn step<S: Simd, const FUSED: bool, const T: usize, const G: usize>(
    simd: S,
    x: &[f32; T],
    weights: [&[f32; BLOCK]; VECTORS],
    sums: &mut [[S::f32s; G]; T],
) {
    let mut vectors = [simd.splat_f32s(0.0); G];
    for g in 0..G {
        vectors[g] = S::as_simd_f32s(&weights[g][..S::F32_LANES]).0[0];
    }
    for t in 0..T {
        let x = simd.splat_f32s(x[t]);
        for g in 0..G {
            sums[t][g] = match FUSED {
                true => simd.mul_add_f32s(vectors[g], x, sums[t][g]),
                false => simd.mul_add_e_f32s(vectors[g], x, sums[t][g]),
            };
        }
    }
}
