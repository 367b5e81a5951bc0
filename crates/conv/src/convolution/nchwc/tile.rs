//! Micro-kernel of NCHWc16: a register tile of outputs by vectors of channels.

use super::{Accumulator, Panels, Tiles};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::epilogue::Staged;
use anemone_kernels::exact::bounds::{self, RunSchedule};
use anemone_kernels::host::fetch;
use anemone_kernels::num;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::simd::{self, Aligned, LaneMap, StoreFormat};
use anemone_kernels::view::BLOCK;
use anemone_kernels::workers::{LINE_BYTES, outline};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Vectors of channels of a register tile.
const VECTORS: usize = 2;
/// Most outputs of a register tile: with 32 registers, with 32 of which the test for dropped products takes some, and with 16.
pub(super) const MOST: usize = 14;
const MOST_EXACT: usize = 12;
const FEW: usize = 6;
/// Register tiles have multiples of this number of outputs: half the code, for one more output in some last tiles.
pub(super) const STEP: usize = 2;
/// Most outputs without vectors: a fallback for hosts without a specialized instruction set.
const SCALAR: usize = 2;
const _: () = assert!(MOST.is_multiple_of(STEP) && MOST_EXACT.is_multiple_of(STEP));
const _: () = assert!(FEW.is_multiple_of(STEP) && SCALAR.is_multiple_of(STEP));
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

    /// Applies the epilogue to sums in memory, `[channel][output]`, and stores each at `place(channel, output)`. Only fixed-point sums have the
    /// fallback that leaves them there.
    #[inline(always)]
    pub(super) fn store_sums<S: Simd, A: Accumulator>(
        self,
        simd: S,
        finish: A,
        sums: &[f32],
        outputs: usize,
        place: &dyn Fn(usize, usize) -> usize,
    ) {
        if const { A::EXACT } {
            finish.with_after(simd, UnboundedSums { sums, outputs, place, to: self });
        }
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
            E::store(simd, stages, sums[t * at.len() + g], &mut to[places[t] as usize + at[g]..]);
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
            let weights = [0, 1].map_each(|v| &panels.data[place((first + v).min(vectors - 1), panels.stride())..]);
            let at = [0, 1].map_each(|v| place((first + v).min(vectors - 1), stride));
            let both = first + 1 < vectors;
            let (to, terms) = (to.reborrow(), RunSchedule { ends, mixed, totals: &mut *totals });
            let prefetch = if first == 0 { prefetch } else { PrefetchCursor::default() };
            let tile = Tile { source, taps, weights, finish, terms, prefetch, places, at, to };
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
                        // `Tiles` makes no others.
                        _ => {}
                    }
                };
                ($count: literal, $vectors: literal, $in_blocks: literal) => {
                    outline(simd, Sized::<A, $count, $vectors, $in_blocks>(tile))
                };
            }
            tiles!(2 4 6 8 10 12 14);
        }
    }
}

/// Register tile: some outputs by some vectors of channels.
struct Tile<'a, A> {
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

/// Register tile of `T` outputs by `G` vectors. It passes the sizes as arguments to inlined functions, where they are constants again. The
/// functions are then one copy of LLVM IR, not one for each size.
struct Sized<'a, A, const T: usize, const G: usize, const IN_BLOCKS: bool>(Tile<'a, A>);

impl<A: Accumulator, const T: usize, const G: usize, const IN_BLOCKS: bool> WithSimd for Sized<'_, A, T, G, IN_BLOCKS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Sized(tile) = self;
        let mut biases = [simd.splat_f32s(0.0); G];
        tile.biases(simd, &mut biases);
        // Finished sums are in memory; only those of the inner loop are in registers.
        let mut sums = Aligned([[simd.splat_f32s(0.0); G]; T]);
        let mut done = Aligned([biases; T]);
        tile.sum(simd, IN_BLOCKS, [T, G], sums.0.as_flattened_mut(), done.0.as_flattened_mut());
    }
}

impl<A: Accumulator> Tile<'_, A> {
    /// Loads the bias of each vector.
    #[inline(always)]
    fn biases<S: Simd>(&self, _: S, to: &mut [S::f32s]) {
        for g in 0..to.len() {
            to[g] = S::as_simd_f32s(&self.weights[g][self.taps * BLOCK..][..S::F32_LANES]).0[0];
        }
    }

    /// Computes and stores a tile of `outputs` by `vectors`. `sums` are zeros, and `done` the biases.
    #[inline(always)]
    fn sum<S: Simd>(
        self,
        simd: S,
        in_blocks: bool,
        [outputs, vectors]: [usize; 2],
        sums: &mut [S::f32s],
        done: &mut [S::f32s],
    ) {
        let Tile { source, taps, weights, finish, terms, prefetch, places, at, to } = self;
        let operands = Operands { source, weights, outputs, vectors, in_blocks };
        if const { A::EXACT } {
            let Some(mac) = finish.mac() else { return };
            // Prefetched at once: the length of runs varies.
            fetch(prefetch.bytes);
            operands.runs::<S, A>(simd, mac, taps, terms, sums, done);
        } else {
            let mut prefetch = prefetch;
            prefetch.fetch();
            // Peeled off: with few taps, a loop around the inner loop costs 2 %.
            operands.add::<S, A>(simd, 0..taps.min(PIECE), sums);
            for from in (PIECE..taps).step_by(PIECE) {
                prefetch.fetch();
                operands.add::<S, A>(simd, from..taps.min(from + PIECE), sums);
            }
            for i in 0..outputs * vectors {
                done[i] = simd.add_f32s(sums[i], done[i]);
            }
        }
        let (places, at) = (&places[..outputs], &at[..vectors]);
        let sums = FinishedSums { sums: done, finish, places, at, to };
        if outputs + STEP >= most::<S, A>() && vectors == VECTORS {
            return finish.with_after(simd, sums);
        }
        // One copy for all smaller tiles, most of whose code would be their unrolled epilogues.
        outline(
            simd,
            #[inline(always)]
            || finish.with_after(simd, sums),
        );
    }
}

/// Packed operands and coefficients of a register tile, and its sizes.
struct Operands<'a> {
    source: &'a [f32],
    weights: [&'a [f32]; VECTORS],
    outputs: usize,
    vectors: usize,
    /// True for a source in NCHWc16.
    in_blocks: bool,
}

impl Operands<'_> {
    /// [`Operands::add_by`], fused or not. Products and sums of a fixed-point accumulator are exact, so that scalar code may use the faster
    /// unfused operations.
    #[inline(always)]
    fn add<S: Simd, A: Accumulator>(&self, simd: S, taps: Range<usize>, sums: &mut [S::f32s]) {
        let fused = const { !(A::EXACT && S::F32_LANES == 1) };
        self.add_by(simd, fused, taps, sums);
    }

    /// Accumulates some taps, whole blocks of them for a source in NCHWc16, with fused multiply-add or with multiply, then add.
    #[inline(always)]
    fn add_by<S: Simd>(&self, simd: S, fused: bool, taps: Range<usize>, sums: &mut [S::f32s]) {
        let &Operands { source, weights: [one, two], outputs, vectors, in_blocks } = self;
        let of = taps.start * BLOCK..taps.end * BLOCK;
        let (one, two) = (one[of.clone()].as_chunks::<BLOCK>().0, two[of.clone()].as_chunks::<BLOCK>().0);
        if in_blocks {
            let blocks = source[taps.start * outputs..taps.end * outputs].as_chunks::<BLOCK>().0;
            for block in 0..taps.len() / BLOCK {
                let x = &blocks[block * outputs..][..outputs];
                let (one, two) = (&one[block * BLOCK..][..BLOCK], &two[block * BLOCK..][..BLOCK]);
                for tap in 0..BLOCK {
                    let mut operands = [0.0; MOST];
                    for t in 0..outputs {
                        operands[t] = x[t][tap];
                    }
                    step(simd, fused, &operands[..outputs], [&one[tap], &two[tap]], vectors, sums);
                }
            }
        } else {
            let x = source[of].as_chunks::<BLOCK>().0;
            let count = x.len().min(one.len()).min(two.len());
            let (x, one, two) = (&x[..count], &one[..count], &two[..count]);
            for tap in 0..count {
                step(simd, fused, &x[tap][..outputs], [&one[tap], &two[tap]], vectors, sums);
            }
        }
    }

    /// Accumulates all taps in runs of a fixed-point accumulator. `sums` hold the initial values of a run on entry, and complete sums on return;
    /// `own` are those of the inner loop.
    #[inline(always)]
    fn runs<S: Simd, A: Accumulator>(
        &self,
        simd: S,
        mac: &AccumulatorSpec,
        taps: usize,
        terms: RunSchedule,
        own: &mut [S::f32s],
        sums: &mut [S::f32s],
    ) {
        let &Operands { outputs, vectors, .. } = self;
        let RunSchedule { ends, mixed, totals } = terms;
        let totals = &mut S::as_mut_simd_f32s(totals).0[..outputs * vectors];
        let mut from = 0;
        for (run, &end) in ends.iter().enumerate() {
            let end = end as usize;
            for i in 0..outputs * vectors {
                own[i] = sums[i];
            }
            self.add::<S, A>(simd, from..end, own);
            for i in 0..outputs * vectors {
                sums[i] = own[i];
            }
            from = end;
            if end == taps {
                break;
            }
            for i in 0..outputs * vectors {
                let more = bounds::of_run(simd, sums[i]);
                totals[i] = if run == 0 { more } else { simd.add_f32s(totals[i], more) };
                sums[i] = bounds::new_run(simd);
            }
        }
        if !mixed.is_empty() {
            for i in 0..outputs * vectors {
                own[i] = sums[i];
            }
            for &tap in mixed {
                self.drop_products(simd, mac, tap as usize, own);
            }
            for i in 0..outputs * vectors {
                sums[i] = own[i];
            }
        }
        for i in 0..outputs * vectors {
            let sum = bounds::of_run(simd, sums[i]);
            sums[i] = if ends.len() > 1 { simd.add_f32s(sum, totals[i]) } else { sum };
        }
    }

    /// Takes the products of a tap back that the accumulator drops.
    #[inline(always)]
    fn drop_products<S: Simd>(&self, simd: S, mac: &AccumulatorSpec, tap: usize, sums: &mut [S::f32s]) {
        let &Operands { outputs, vectors, in_blocks, .. } = self;
        let (mut keep, mut back) = ([simd.splat_f32s(0.0); VECTORS], [simd.splat_f32s(0.0); VECTORS]);
        for g in 0..vectors {
            let w = S::as_simd_f32s(&self.weights[g][tap * BLOCK..][..S::F32_LANES]).0[0];
            // A zero coefficient subtracts nothing.
            (keep[g], back[g]) = (bounds::keep_from(simd, mac, w), simd::neg(simd, w));
        }
        // Operands of consecutive outputs are 1 or `BLOCK` elements apart.
        let (first, step) = match in_blocks {
            true => (tap / BLOCK * outputs * BLOCK + tap % BLOCK, BLOCK),
            false => (tap * BLOCK, 1),
        };
        let x = &self.source[first..][..(outputs - 1) * step + 1];
        for t in 0..outputs {
            let x = simd.splat_f32s(x[t * step]);
            let magnitude = simd::abs(simd, x);
            for g in 0..vectors {
                let without = simd.mul_add_e_f32s(back[g], x, sums[t * vectors + g]);
                let drops = simd.less_than_f32s(magnitude, keep[g]);
                sums[t * vectors + g] = simd.select_f32s(drops, without, sums[t * vectors + g]);
            }
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
fn step<S: Simd>(
    simd: S,
    fused: bool,
    x: &[f32],
    weights: [&[f32; BLOCK]; VECTORS],
    vectors: usize,
    sums: &mut [S::f32s],
) {
    let mut w = [simd.splat_f32s(0.0); VECTORS];
    for g in 0..vectors {
        w[g] = S::as_simd_f32s(&weights[g][..S::F32_LANES]).0[0];
    }
    for t in 0..x.len() {
        let x = simd.splat_f32s(x[t]);
        for g in 0..vectors {
            sums[t * vectors + g] = match fused {
                true => simd.mul_add_f32s(w[g], x, sums[t * vectors + g]),
                false => simd.mul_add_e_f32s(w[g], x, sums[t * vectors + g]),
            };
        }
    }
}
