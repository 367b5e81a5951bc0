//! Fusion of a 1x1 or small-K convolution with the depthwise convolution that reads it: the intermediate result stays in cache.

use super::tile::{MOST, StoreSink};
use super::{Accumulator, Blocks, Buffers, Operand, Panels, TILE_BLOCKS, Tiles, pack, panel_elements, store};
use anemone_kernels::epilogue::Staged;
use anemone_kernels::exact::bounds::{self, OperandStats};
use anemone_kernels::exact::decode;
use anemone_kernels::filter::Filter;
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::simd::{self, LaneMap};
use anemone_kernels::view::{BLOCK, OutputTile, Part, copy_rows};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// 1x1 or small-K convolution fused with a depthwise convolution: a tile of the second result, the work of one
/// thread.
pub struct FusedKernel<'a, 'b, A> {
    pub kernels: [&'a Filter; 2],
    pub finish: [A; 2],
    /// Window of the depthwise convolution.
    pub window: &'a Window,
    pub from: Operand<'a>,
    /// Columns of the result.
    pub columns: usize,
    /// True if the tile is in NCHWc16: blocks in place of channels, 16 elements for each column.
    pub in_blocks: bool,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl<A: Accumulator> WithSimd for FusedKernel<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let FusedKernel { kernels: [first, second], finish: [finish, after], window, from, columns, .. } = self;
        let (share, in_blocks) = (self.share, self.in_blocks);
        let (k, s) = (window.k[0], window.s[0]);
        let ground = Ground::of(window, [share.first_row, share.rows], columns);
        let part = Part { rows: ground.first..ground.first + ground.inside.len(), columns: 0..window.from[1] };
        let taps = first.packed.taps();
        let tiles = Tiles::of(simd, finish, part.outputs(), taps, false);
        let mut buffers: Box<Buffers> = self.scratch.arena.take();
        let Buffers { packed, wide, unfolded, panels, places, sums, staged, halves, transposed, known } = &mut *buffers;
        let packed = pack(simd, finish, tiles, from, share.group, &part, wide, unfolded, packed, known);
        let (rows, outputs) = (share.rows, share.rows * columns);
        // Outputs behind the last column, which are computed and not stored, read behind the last row.
        let area = (ground.rows * ground.width + (ROW_OUTPUTS - 1) * s) * BLOCK;
        let staged = scratch_slice(staged, TILE_BLOCKS * area);
        // The halo is filled once and stays.
        for staged in staged.chunks_exact_mut(area) {
            ground.fill_halo(window.from[1], staged);
        }
        let (panels, weights) =
            scratch_slice(panels, panel_elements(taps) + panel_elements(k * k)).split_at_mut(panel_elements(taps));
        let (mut panels, mut weights) = (Panels { data: panels, taps }, Panels { data: weights, taps: k * k });
        let places = scratch_slice(places, tiles.outputs + MOST);
        ground.places(window.from[1], places);
        let halves = scratch_slice(halves, outputs.next_multiple_of(BLOCK) * BLOCK);
        let sums = scratch_slice(sums, if simd::converts::<S>() { 0 } else { outputs * BLOCK });
        let (first_channel, channels) = match in_blocks {
            true => (share.first_channel * BLOCK, share.channels() * BLOCK),
            false => (share.first_channel, share.channels()),
        };
        // True if intermediate results are rounded when they are stored; fixed-point sums always are.
        let settled = A::EXACT || simd::converts::<S>();
        for channel in (0..channels).step_by(TILE_BLOCKS * BLOCK) {
            let blocks = (channels - channel).div_ceil(BLOCK).min(TILE_BLOCKS);
            let at_first = first_channel + channel;
            panels.widen(simd, finish, first, at_first, blocks, known);
            let to = if A::EXACT || !settled { StoreSink::Sums(staged) } else { StoreSink::Wide(staged) };
            let made = Blocks {
                kernel: first,
                finish,
                tiles,
                packed,
                panels: &panels,
                first: at_first,
                blocks,
                places,
                stride: area,
            };
            let usual = made.sum(simd, known, to);
            weights.fill::<A>(second, at_first, blocks);
            for (block, source) in staged.chunks_exact_mut(area).enumerate().take(blocks) {
                let row = ground.width * BLOCK;
                let inside = &mut source[ground.inside.start * row..ground.inside.end * row];
                if !settled {
                    simd::settle_row(inside);
                }
                ground.look_up(simd, finish, window.from[1], inside);
                if let (Some(mac), false) = (finish.mac(), usual) {
                    decode(mac, inside);
                }
                let at = channel + block * BLOCK;
                let plane = if in_blocks { share.plane(at / BLOCK, columns * BLOCK) } else { None };
                let is_stored = plane.is_some();
                let stored = plane.unwrap_or(&mut halves[..outputs * BLOCK]);
                let stride = weights.stride();
                let weights = &mut weights.data[block * stride..][..stride];
                let mut to = if simd::converts::<S>() { StoreSink::Halves(stored) } else { StoreSink::Sums(sums) };
                let ends = runs(simd, after.mac(), k * k, weights, |sums| largest(finish.bounds(), sums, inside));
                let width = ground.width;
                match ends {
                    Some(ends) => {
                        let to = to.reborrow();
                        let windows = Windows { source, width, rows, columns, weights, finish: after, ends, to };
                        windows.sum(simd, [k, s]);
                    }
                    None => {
                        let own = UnboundedChannels { kernel: second, source, width, k, s, columns, outputs };
                        own.sum(simd, after, at_first + block * BLOCK, known, to.reborrow());
                    }
                }
                if !simd::converts::<S>() {
                    num::round_row(sums, stored);
                }
                after.look_up(simd, stored, Rows::one(outputs * BLOCK));
                if is_stored {
                    continue;
                }
                let rows = |columns| Rows { count: rows, columns, from_stride: columns, to_stride: columns };
                if in_blocks {
                    let rows = rows(columns * BLOCK);
                    share.store([at / BLOCK, 0, 0], 1, halves, outputs * BLOCK, rows, copy_rows);
                } else {
                    let rows = rows(columns);
                    store(simd, share, [at, 0, 0], BLOCK.min(channels - at), rows, halves, None, transposed);
                }
            }
        }
        self.scratch.arena.put(buffers);
    }
}

/// Prepares the coefficients of a depthwise window in place for a fixed-point accumulator. `largest` bounds the magnitude of the operands, from
/// the largest sum of the magnitudes of a channel's coefficients. Returns the ends of runs; `None` if sums may leave their range. Nothing is
/// done for fp32.
#[inline(always)]
fn runs<S: Simd>(
    simd: S,
    mac: Option<&'static AccumulatorSpec>,
    taps: usize,
    weights: &mut [f32],
    largest: impl FnOnce(f32) -> f32,
) -> Option<u32> {
    let Some(mac) = mac else { return Some(0) };
    let (largest, mut ends) = (largest(bounds::magnitude(taps, weights)), None);
    outline(
        simd,
        #[inline(always)]
        || ends = bounds::raise_own(mac, taps, weights, largest),
    );
    ends
}

/// Layout of the staged rows of a depthwise source, with its halo.
pub(super) struct Ground {
    pub(super) rows: usize,
    /// Columns of a staged row; `lead`: those left of the source.
    pub(super) width: usize,
    pub(super) lead: usize,
    /// Staged rows inside the source; `first`: source row of the first of these.
    pub(super) inside: Range<usize>,
    pub(super) first: usize,
}

impl Ground {
    pub(super) fn of(window: &Window, share_rows: [usize; 2], columns: usize) -> Ground {
        let Window { k, s, p, from, .. } = window;
        let (rows, inside, first) = window.input_rows(share_rows);
        let width = (columns.saturating_sub(1) * s[1] + k[1]).max(from[1] + p[1]);
        Ground { rows, width, lead: p[1], inside, first }
    }

    /// Fills the halo with zeros; source rows have `across` columns.
    pub(super) fn fill_halo(&self, across: usize, staged: &mut [f32]) {
        for (row, staged) in staged.chunks_exact_mut(self.width * BLOCK).enumerate() {
            let data = if self.inside.contains(&row) { self.lead..self.lead + across } else { 0..0 };
            staged[..data.start * BLOCK].fill(0.0);
            staged[data.end * BLOCK..].fill(0.0);
        }
    }

    /// Applies the table of an epilogue, if any, to rows inside the source, and not to the halo, which stays zero.
    #[inline(always)]
    fn look_up<S: Simd>(&self, simd: S, finish: impl Accumulator, across: usize, inside: &mut [f32]) {
        for row in inside.chunks_exact_mut(self.width * BLOCK) {
            finish.look_up_wide(simd, &mut row[self.lead * BLOCK..][..across * BLOCK]);
        }
    }

    /// Position of each output of the first convolution in the staged rows, `across` to a row. Padding is stored behind the last row.
    fn places(&self, across: usize, places: &mut [u32]) {
        let (places, padding) = places.split_at_mut(self.inside.len() * across);
        padding.fill((self.rows * self.width * BLOCK) as u32);
        let rows = places.chunks_mut(across).enumerate();
        rows.for_each(|(row, places)| {
            let first = (self.inside.start + row) * self.width + self.lead;
            for (i, place) in places.iter_mut().enumerate() {
                *place = ((first + i) * BLOCK) as u32;
            }
        });
    }
}

/// Depthwise windows over the staged rows of one block, with bias and epilogue; results are `[output][channel]`.
pub(super) struct Windows<'a, A> {
    pub(super) source: &'a [f32],
    /// Columns of a staged row; rows and columns of the outputs.
    pub(super) width: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// `[tap][channel]`, with the biases behind.
    pub(super) weights: &'a [f32],
    pub(super) finish: A,
    /// Taps after which a run of the fixed-point accumulator ends, one bit each.
    pub(super) ends: u32,
    pub(super) to: StoreSink<'a>,
}

impl<'a, A> Windows<'a, A> {
    /// Dispatches to the specialization for the window side and stride.
    #[inline(always)]
    pub(super) fn sum<S: Simd>(self, simd: S, [k, s]: [usize; 2])
    where
        A: Accumulator,
    {
        match [k, s] {
            // Without vectors, kernels of constant size are long and hardly faster.
            _ if const { S::F32_LANES == 1 } => outline(simd, AnySize { of: self, k, s }),
            [3, 1] => outline(simd, self.of::<3, 1>()),
            [3, _] => outline(simd, self.of::<3, 2>()),
            [_, 1] => outline(simd, self.of::<5, 1>()),
            _ => outline(simd, self.of::<5, 2>()),
        }
    }

    fn of<const K: usize, const STRIDE: usize>(self) -> Sized<'a, A, K, STRIDE> {
        Sized(self)
    }
}

/// Specialization for windows of side `K` and a stride.
struct Sized<'a, A, const K: usize, const STRIDE: usize>(Windows<'a, A>);

/// Outputs of a row that are computed together.
pub(super) const ROW_OUTPUTS: usize = 4;

impl<A: Accumulator, const K: usize, const STRIDE: usize> WithSimd for Sized<'_, A, K, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let finish = self.0.finish;
        finish.with_after(simd, self);
    }
}

impl<S: Simd, A: Accumulator, const K: usize, const STRIDE: usize> Staged<S> for Sized<'_, A, K, STRIDE> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl LaneMap<S>) {
        self.0.store(simd, stages, K, STRIDE);
    }
}

/// Windows of any side and stride.
struct AnySize<'a, A> {
    of: Windows<'a, A>,
    k: usize,
    s: usize,
}

impl<A: Accumulator> WithSimd for AnySize<'_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let finish = self.of.finish;
        finish.with_after(simd, self);
    }
}

impl<S: Simd, A: Accumulator> Staged<S> for AnySize<'_, A> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl LaneMap<S>) {
        self.of.store(simd, stages, self.k, self.s);
    }
}

impl<A: Accumulator> Windows<'_, A> {
    /// Computes windows of side `k`. The arguments are constants after inlining.
    #[inline(always)]
    fn store<S: Simd>(self, simd: S, stages: impl LaneMap<S>, k: usize, stride: usize) {
        let Windows { source, width, rows, columns, weights, finish, ends, mut to } = self;
        // Results are fp16 or sums: no code for fp32.
        if let StoreSink::Wide(_) = to {
            return;
        }
        let (source, weights) = (source.as_chunks::<BLOCK>().0, weights.as_chunks::<BLOCK>().0);
        for lane in (0..BLOCK).step_by(S::F32_LANES) {
            let of = |row: &[f32; BLOCK]| S::as_simd_f32s(&row[lane..][..S::F32_LANES]).0[0];
            let zeros = [simd.splat_f32s(0.0); MOST_TAPS];
            let mut lane = Lane::<S> { taps: zeros, keeps: zeros, bias: of(&weights[k * k]), at: lane, ends };
            for i in 0..k * k {
                lane.taps[i] = of(&weights[i]);
                if let Some(mac) = finish.mac() {
                    lane.keeps[i] = bounds::keep_from(simd, mac, lane.taps[i]);
                }
            }
            for row in 0..rows {
                let first = row * columns * BLOCK;
                let from = &source[row * stride * width..];
                for at in (0..columns).step_by(ROW_OUTPUTS) {
                    let sums = lane.outputs::<A>(simd, from, width, at, k, stride);
                    let (to, places) = (to.reborrow(), places::<ROW_OUTPUTS>(first, at));
                    if at + ROW_OUTPUTS <= columns {
                        to.store(simd, finish, stages, &sums, &places, &[lane.at]);
                    } else {
                        // In memory, because their number varies: those of the other branch stay in registers.
                        let some = sums;
                        to.store(simd, finish, stages, &some, &places[..columns - at], &[lane.at]);
                    }
                }
            }
        }
    }
}

/// Positions of consecutive outputs, from output `at` of the row that starts at `first`.
#[inline(always)]
pub(super) fn places<const N: usize>(first: usize, at: usize) -> [u32; N] {
    let mut places = [0; N];
    for i in 0..N {
        places[i] = (first + (at + i) * BLOCK) as u32;
    }
    places
}

/// Most taps of a window.
const MOST_TAPS: usize = 5 * 5;

/// One vector of channels. Taps that do not fit registers are read from memory.
#[repr(C, align(64))]
struct Lane<S: Simd> {
    taps: [S::f32s; MOST_TAPS],
    /// Smallest operand that each tap does not drop, with a fixed-point accumulator.
    keeps: [S::f32s; MOST_TAPS],
    bias: S::f32s,
    at: usize,
    ends: u32,
}

impl<S: Simd> Lane<S> {
    /// Register tile: some outputs of a row, windows of side `k`.
    #[inline(always)]
    fn outputs<A: Accumulator>(
        &self,
        simd: S,
        from: &[[f32; BLOCK]],
        width: usize,
        at: usize,
        k: usize,
        stride: usize,
    ) -> [S::f32s; ROW_OUTPUTS] {
        let mut sums = [if A::EXACT { self.bias } else { simd.splat_f32s(0.0) }; ROW_OUTPUTS];
        let mut totals = [simd.splat_f32s(0.0); ROW_OUTPUTS];
        for kh in 0..k {
            let line = &from[kh * width + at * stride..][..(ROW_OUTPUTS - 1) * stride + k];
            for kw in 0..k {
                let (tap, keep) = (self.taps[kh * k + kw], self.keeps[kh * k + kw]);
                for n in 0..ROW_OUTPUTS {
                    let x = S::as_simd_f32s(&line[n * stride + kw][self.at..][..S::F32_LANES]).0[0];
                    sums[n] = if A::EXACT {
                        let with = simd.mul_add_e_f32s(tap, x, sums[n]);
                        let counts = simd.greater_than_or_equal_f32s(simd::abs(simd, x), keep);
                        simd.select_f32s(counts, with, sums[n])
                    } else {
                        simd.mul_add_f32s(tap, x, sums[n])
                    };
                }
                if A::EXACT && self.ends >> (kh * k + kw) & 1 == 1 {
                    for n in 0..ROW_OUTPUTS {
                        totals[n] = simd.add_f32s(totals[n], bounds::of_run(simd, sums[n]));
                        sums[n] = bounds::new_run(simd);
                    }
                }
            }
        }
        for n in 0..ROW_OUTPUTS {
            sums[n] = match A::EXACT {
                true => simd.add_f32s(totals[n], bounds::of_run(simd, sums[n])),
                false => simd.add_f32s(sums[n], self.bias),
            };
        }
        sums
    }
}

/// Bound on the magnitude of the elements: the bounds of their epilogue if these keep a sum within one run, with coefficients whose magnitudes
/// add up to `sums`; otherwise the largest magnitude that occurs.
#[inline(always)]
fn largest(bounds: [f32; 2], sums: f32, of: &[f32]) -> f32 {
    let most = bounds[0].abs().max(bounds[1].abs());
    if most * sums < bounds::ONE_RUN {
        return most;
    }
    f32::from_bits(of.iter().fold(0, |most, x| most.max(x.to_bits() & !(1 << 31))))
}

/// Depthwise channels of a block whose sums have no limited range.
struct UnboundedChannels<'a> {
    kernel: &'a Filter,
    source: &'a [f32],
    width: usize,
    k: usize,
    s: usize,
    columns: usize,
    outputs: usize,
}

impl UnboundedChannels<'_> {
    #[inline(never)]
    fn sum<S: Simd, A: Accumulator>(
        &self,
        simd: S,
        finish: A,
        first: usize,
        known: &mut OperandStats,
        mut to: StoreSink,
    ) {
        let &UnboundedChannels { kernel, source, width, k, s, columns, outputs } = self;
        let Some(mac) = finish.mac() else { return };
        for channel in first..(first + BLOCK).min(kernel.packed.channels()) {
            let lane = channel - first;
            let place = |tap: usize, output: usize| {
                let (row, column) = (output / columns * s + tap / k, output % columns * s + tap % k);
                (row * width + column) * BLOCK + lane
            };
            let sums = known.sums(simd, mac, (kernel, channel..channel + 1), (source, &place), outputs);
            let (to, put) = (to.reborrow(), |_, output| output * BLOCK + lane);
            // Specialized for the instruction set: this function is not.
            outline(
                simd,
                #[inline(always)]
                || to.store_sums(simd, finish, sums, outputs, &put),
            );
        }
    }
}
