//! 1x1 and small-K convolutions in NCHWc16: vectors hold the sums of 16 channels of one output, and are full however narrow planes are. Input
//! is NCHW, unfolded for windows of several taps, or NCHWc16 left by a depthwise convolution; [`FusedKernel`] computes both at once.
//!
//! Sums stay in registers until they are rounded, on instruction sets that convert vectors in registers: storing a tile and loading it again
//! costs as much as a dozen taps.
//!
//! In fp32, sums are taken in the order of the taps, so that tiling does not change their bits. Fixed-point sums have the same bits in
//! any order ([`anemone_kernels::exact::bounds`]).

mod accumulator;
mod fused;
mod narrow;
mod tile;

use crate::convolution::Im2col;
pub use accumulator::{Accumulator, ExactAccumulator};
use anemone_kernels::binary::BinaryRows;
use anemone_kernels::epilogue::without_effect;
use anemone_kernels::exact::bounds::{OperandStats, RunSchedule};
use anemone_kernels::filter::Filter;
use anemone_kernels::filter::spread;
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::params::BinaryOp;
use anemone_kernels::simd;
use anemone_kernels::view::{BLOCK, OutputTile, Part, TensorView, copy_rows, copy_short, transpose_blocks};
use anemone_kernels::workers::{LINE_BYTES, Scratch, outline, scratch_slice};
pub use fused::FusedKernel;
use half::f16;
pub use narrow::NarrowKernel;
use pulp::{Simd, WithSimd};
use tile::{MOST, PrefetchCursor, StoreSink, TileSums};

/// Channel blocks of a register tile.
const TILE_BLOCKS: usize = 2;
/// Capacity of the packed source, in elements; bounds the outputs of a part, which must be enough to amortize the widening of coefficients.
const PACKED: usize = 1 << 20;
const OUTPUTS: [usize; 2] = [256, 1024];

/// Returns true if this number of channels fills its blocks well enough.
pub fn suits(channels: usize) -> bool {
    3 * channels.next_multiple_of(BLOCK) <= 4 * channels
}

/// Input of a convolution and its staging. Either NCHW, or NCHWc16 (`in_blocks`) with 16 channels in place of each column, contiguous rows,
/// and a 1x1 window.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    pub source: TensorView<'a>,
    /// Factor of each channel of a source in NCHW, for a 1x1 window; products are rounded to fp16.
    pub factors: Option<&'a [f16]>,
    pub in_blocks: bool,
    pub staging: &'a Im2col,
}

/// Buffers of one thread.
#[derive(Default)]
pub struct Buffers {
    packed: Vec<f32>,
    wide: Vec<f32>,
    /// Unfolded source (im2col), and the staging buffer for it.
    pub unfolded: [Vec<f32>; 2],
    panels: Vec<f32>,
    places: Vec<u32>,
    sums: Vec<f32>,
    staged: Vec<f32>,
    halves: Vec<f16>,
    transposed: Vec<f16>,
    pub known: OperandStats,
}

/// Layout of a packed source: `[tile][tap][output]` with padded tiles, or `[tile][block][output][channel]` if it is in NCHWc16. A tile has as
/// many outputs as a register tile, a multiple of [`tile::STEP`]: the last one may have padding, whose results are not used.
#[derive(Clone, Copy)]
struct Tiles {
    taps: usize,
    outputs: usize,
    /// Outputs of a tile; the last one may have fewer.
    each: usize,
    in_blocks: bool,
}

impl Tiles {
    fn of<S: Simd, A: Accumulator>(_: S, _: A, outputs: usize, taps: usize, in_blocks: bool) -> Tiles {
        let count = outputs.div_ceil(tile::most::<S, A>()).max(1);
        Tiles { taps, outputs, each: outputs.div_ceil(count).max(1).next_multiple_of(tile::STEP), in_blocks }
    }

    fn count(&self) -> usize {
        self.outputs.div_ceil(self.each)
    }

    /// First output of a tile, and number of its outputs.
    fn outputs(&self, tile: usize) -> [usize; 2] {
        let first = tile * self.each;
        [first, self.each.min(self.outputs - first)]
    }

    /// Outputs of a tile with its padding.
    fn padded(&self, tile: usize) -> usize {
        self.outputs(tile)[1].next_multiple_of(tile::STEP)
    }

    /// Writes the operands of one tap, `wide[output]`, into all tiles.
    #[inline(always)]
    fn put(&self, tap: usize, wide: &[f32], to: &mut [f32]) {
        for (tile, to) in to.chunks_exact_mut(self.stride()).enumerate() {
            let from = wide[self.outputs(tile)[0]..].first_chunk::<BLOCK>();
            if let (Some(from), Some(to)) = (from, to.as_chunks_mut().0.get_mut(tap)) {
                *to = *from;
            }
        }
    }

    /// Position of the operand of a tap and an output.
    fn place(&self, tap: usize, output: usize) -> usize {
        let (tile, output) = (output / self.each, output % self.each);
        let within = match self.in_blocks {
            true => (tap / BLOCK * self.padded(tile) + output) * BLOCK + tap % BLOCK,
            false => tap * BLOCK + output,
        };
        tile * self.stride() + within
    }

    /// Elements of a tile.
    fn stride(&self) -> usize {
        self.taps * if self.in_blocks { self.each } else { BLOCK }
    }
}

/// Packing of the operands of a part's outputs.
struct Packing<'a> {
    tiles: Tiles,
    from: Operand<'a>,
    group: usize,
    part: &'a Part,
    wide: &'a mut [f32],
    unfolded: &'a mut [Vec<f32>; 2],
    to: &'a mut [f32],
}

impl WithSimd for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Packing { tiles, from: Operand { source: from, factors, staging, .. }, group, part, wide, unfolded, to } =
            self;
        if tiles.in_blocks {
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, count] = tiles.outputs(tile);
                let padded = tiles.padded(tile) * BLOCK;
                for (block, to) in to.chunks_exact_mut(padded).enumerate().take(tiles.taps / BLOCK) {
                    let from = &from.from(group, block, part.rows.start)[(part.columns.start + first) * BLOCK..];
                    let (to, padding) = to.split_at_mut(count * BLOCK);
                    simd::widen_rows(simd, from, to, Rows::one(to.len()));
                    // Zeros change no bound on the operands.
                    padding.fill(0.0);
                }
            }
            return;
        }
        // Rows without gaps are packed as one row.
        if staging.is_pointwise() && (part.rows.len() == 1 || from.strides[2] == part.columns.len()) {
            let from_stride = from.strides[1];
            let from = &from.from(group, 0, part.rows.start)[part.columns.start..];
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, columns] = tiles.outputs(tile);
                let rows = Rows { count: tiles.taps, columns, from_stride, to_stride: BLOCK };
                simd::widen_short_rows(simd, &from[first..], to, rows);
                for (tap, factor) in factors.unwrap_or(&[]).iter().enumerate().take(tiles.taps) {
                    simd::scale_row(simd, num::widen(*factor), &mut to[tap * BLOCK..][..BLOCK]);
                }
            }
            return;
        }
        if staging.is_pointwise() {
            for tap in 0..tiles.taps {
                from.widen(simd, group, tap, part, &mut wide[..tiles.outputs]);
                if let Some(factor) = factors.and_then(|factors| factors.get(tap)) {
                    simd::scale_row(simd, num::widen(*factor), wide);
                }
                tiles.put(tap, wide, to);
            }
            return;
        }
        let staging = staging.of_rows(part.rows.len());
        let [staged, buffer] = unfolded;
        let area = staging.staged_elements();
        let staged = scratch_slice(staged, area + staging.staged_slack());
        staging.stage(simd, from, [group, part.rows.start], 0, Some(0.0), &mut staged[..area], buffer);
        for (tap, place) in staging.places().enumerate() {
            let rows = staged[place + part.columns.start..].chunks(staging.width);
            for (to, row) in wide[..tiles.outputs].chunks_exact_mut(part.columns.len()).zip(rows) {
                copy_short(&row[..part.columns.len()], to);
            }
            tiles.put(tap, wide, to);
        }
    }
}

/// Packs a part into buffers that grow as needed.
#[inline(always)]
fn pack<'b, S: Simd, A: Accumulator>(
    simd: S,
    of: A,
    tiles: Tiles,
    from: Operand,
    group: usize,
    part: &Part,
    wide: &mut Vec<f32>,
    unfolded: &mut [Vec<f32>; 2],
    packed: &'b mut Vec<f32>,
    known: &mut OperandStats,
) -> &'b [f32] {
    let to = scratch_slice(packed, tiles.count() * tiles.stride());
    let wide = scratch_slice(wide, tiles.outputs + BLOCK);
    outline(simd, Packing { tiles, from, group, part, wide, unfolded, to: &mut *to });
    if let Some(mac) = of.mac() {
        known.begin(tiles.count(), tiles.taps);
        let to = &mut *to;
        outline(
            simd,
            #[inline(always)]
            || {
                for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                    let (outputs, padded) = (tiles.outputs(tile)[1], tiles.padded(tile));
                    match tiles.in_blocks {
                        true => known.measure_blocks(simd, mac, tile, &mut to[..tiles.taps * padded], padded),
                        false => known.measure_lines(simd, mac, tile, to, outputs),
                    }
                }
            },
        );
    }
    to
}

/// Widened coefficients of some blocks, `[block][tap][channel]`, with the biases behind each block.
struct Panels<'a> {
    data: &'a mut [f32],
    taps: usize,
}

/// Elements of [`Panels`].
fn panel_elements(taps: usize) -> usize {
    TILE_BLOCKS * (taps + 1) * BLOCK + BLOCK
}

impl Panels<'_> {
    /// Elements between blocks.
    fn stride(&self) -> usize {
        (self.taps + 1) * BLOCK
    }

    /// Widens blocks from channel `first` on, which starts a block, and prepares them for a fixed-point accumulator.
    #[inline(always)]
    fn widen<S: Simd, A: Accumulator>(
        &mut self,
        simd: S,
        of: A,
        kernel: &Filter,
        first: usize,
        blocks: usize,
        known: &mut OperandStats,
    ) {
        self.fill::<A>(kernel, first, blocks);
        if let Some(mac) = of.mac() {
            known.begin_blocks();
            let panels = self.data.chunks_exact_mut((self.taps + 1) * BLOCK).take(blocks);
            outline(
                simd,
                #[inline(always)]
                || {
                    for panel in panels {
                        known.bump_ulp(simd, mac, panel);
                    }
                },
            );
        }
    }

    /// Widens blocks without the preparation for a fixed-point accumulator.
    fn fill<A: Accumulator>(&mut self, kernel: &Filter, first: usize, blocks: usize) {
        let taps = self.taps;
        for (block, panel) in self.data.chunks_exact_mut((taps + 1) * BLOCK).enumerate().take(blocks) {
            let first = first + block * BLOCK;
            let height = kernel.packed.height(first);
            kernel.packed.widen(first, 0..taps, panel);
            spread(&mut panel[..taps * BLOCK], height, BLOCK);
            let biases = &mut panel[taps * BLOCK..];
            biases.fill(0.0);
            for (i, to) in biases.iter_mut().enumerate().take(height) {
                let bias = kernel.bias(first + i);
                *to = if A::EXACT { bias } else { without_effect(bias) };
            }
        }
    }
}

/// fp16 elements of a cache line.
const LINE: usize = LINE_BYTES / size_of::<f16>();

/// Computation of some blocks of channels for all outputs of a part, tile by tile.
struct Blocks<'a, A> {
    kernel: &'a Filter,
    finish: A,
    tiles: Tiles,
    packed: &'a [f32],
    panels: &'a Panels<'a>,
    /// First channel, and number of blocks.
    first: usize,
    blocks: usize,
    /// Position of each output in the result of a block, and of padding behind them; `stride`: distance between blocks.
    places: &'a [u32],
    stride: usize,
}

impl<A: Accumulator> Blocks<'_, A> {
    /// Returns true if all sums were computed in register tiles; false if fixed-point sums might have left their range.
    #[inline(always)]
    fn sum<S: Simd>(&self, simd: S, known: &mut OperandStats, mut to: StoreSink) -> bool {
        let &Blocks { kernel, finish, tiles, packed, panels, first, blocks, places, stride } = self;
        let next = first + TILE_BLOCKS * BLOCK;
        let prefetch = PrefetchCursor::of(kernel.packed.bytes_of(next..next + TILE_BLOCKS * BLOCK), tiles);
        for (tile, source) in packed.chunks_exact(tiles.stride()).enumerate() {
            let (outputs, places, to) = (tiles.padded(tile), &places[tiles.outputs(tile)[0]..], to.reborrow());
            let terms = match A::EXACT {
                true => known.terms(simd, tile),
                false => Some(RunSchedule::default()),
            };
            let Some(terms) = terms else {
                self.sum_unbounded(simd, known, to);
                return false;
            };
            let prefetch = prefetch.with_tile(tile);
            TileSums { source, tiles, outputs, blocks, panels, finish, terms, prefetch, places, stride, to }.add(simd);
        }
        true
    }

    /// Computes sums of unlimited range, by the GEMM with fixed-point accumulators.
    #[inline(never)]
    fn sum_unbounded<S: Simd>(&self, simd: S, known: &mut OperandStats, to: StoreSink) {
        let Some(mac) = self.finish.mac() else { return };
        let (first, outputs) = (self.first, self.tiles.outputs);
        let channels = first..(first + self.blocks * BLOCK).min(self.kernel.packed.channels());
        let place = |tap, output| self.tiles.place(tap, output);
        let sums = known.sums(simd, mac, (self.kernel, channels), (self.packed, &place), outputs);
        let put = |channel: usize, output: usize| {
            channel / BLOCK * self.stride + self.places[output] as usize + channel % BLOCK
        };
        // Specialized for the instruction set: this function is not.
        outline(
            simd,
            #[inline(always)]
            || to.store_sums(simd, self.finish, sums, outputs, &put),
        );
    }
}

/// Tile of a convolution, the work of one thread.
pub struct Job<'a, 'b, A> {
    pub kernel: &'a Filter,
    pub finish: A,
    pub from: Operand<'a>,
    pub columns: usize,
    /// Residual operand added to the results, on instruction sets that round vectors in registers.
    pub residual: Option<ResidualAdd<'a>>,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

/// Residual addition: another tensor with the extents of the result.
#[derive(Clone, Copy)]
pub struct ResidualAdd<'a> {
    /// `None` if the operand is in the result buffer.
    pub source: Option<TensorView<'a>>,
    /// True if it is the first operand of the sum: which NaN propagates depends on the order.
    pub is_first: bool,
}

impl<A: Accumulator> WithSimd for Job<'_, '_, A> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, finish, from, columns, residual, share, scratch } = self;
        let (taps, channels) = (kernel.packed.taps(), share.channels());
        let mut buffers: Box<Buffers> = scratch.arena.take();
        let Buffers { packed, wide, unfolded, panels, places, sums, halves, transposed, known, .. } = &mut *buffers;
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        let mut panels = Panels { data: scratch_slice(panels, panel_elements(taps)), taps };
        for part in Part::all(share, columns, false, most) {
            let tiles = Tiles::of(simd, finish, part.outputs(), taps, from.in_blocks);
            let packed = pack(simd, finish, tiles, from, share.group, &part, wide, unfolded, packed, known);
            let plane = (tiles.outputs * BLOCK).next_multiple_of(BLOCK * BLOCK);
            let halves = scratch_slice(halves, TILE_BLOCKS * plane);
            let sums = scratch_slice(sums, if simd::converts::<S>() { 0 } else { TILE_BLOCKS * plane });
            let places = scratch_slice(places, tiles.outputs + MOST);
            for (i, place) in places.iter_mut().enumerate() {
                *place = (i * BLOCK) as u32;
            }
            for channel in (0..channels).step_by(TILE_BLOCKS * BLOCK) {
                let blocks = (channels - channel).div_ceil(BLOCK).min(TILE_BLOCKS);
                let first = share.first_channel + channel;
                panels.widen(simd, finish, kernel, first, blocks, known);
                let to = if simd::converts::<S>() { StoreSink::Halves(halves) } else { StoreSink::Sums(sums) };
                let panels = &panels;
                Blocks { kernel, finish, tiles, packed, panels, first, blocks, places, stride: plane }
                    .sum(simd, known, to);
                if !simd::converts::<S>() {
                    num::round_row(&sums[..blocks * plane], &mut halves[..blocks * plane]);
                }
                for (block, halves) in halves.chunks_exact_mut(plane).enumerate().take(blocks) {
                    finish.look_up(simd, halves, Rows::one(tiles.outputs * BLOCK));
                    let first = channel + block * BLOCK;
                    let count = BLOCK.min(channels - first);
                    store(simd, share, part.place(share, first), count, part.gapless(), halves, residual, transposed);
                }
            }
        }
        scratch.arena.put(buffers);
    }
}

/// Stores a block, `[output][channel]`, into an NCHW tile at a channel, row and column, with the residual addition if there is one.
#[inline(always)]
fn store<S: Simd>(
    simd: S,
    share: &mut OutputTile,
    place: [usize; 3],
    channels: usize,
    rows: Rows,
    block: &[f16],
    residual: Option<ResidualAdd>,
    transposed: &mut Vec<f16>,
) {
    let outputs = rows.count * rows.columns;
    // An odd number of cache lines: channels a power of two apart would compete for the same cache sets.
    let stride = outputs.next_multiple_of(LINE) | LINE;
    let transposed = scratch_slice(transposed, BLOCK * stride);
    outline(
        simd,
        #[inline(always)]
        || transpose_blocks(&block[..outputs.next_multiple_of(BLOCK) * BLOCK], stride, transposed),
    );
    let Some(ResidualAdd { source, is_first }) = residual else {
        return share.store(place, channels, transposed, stride, rows, copy_rows);
    };
    let beside = source.map(|source| share.beside(place, source));
    share.store_lines(
        place,
        channels,
        transposed,
        stride,
        rows,
        #[inline(always)]
        |line, made, to, rows| {
            let other = beside.map(
                #[inline(always)]
                |(other, stride, next)| (&other[line * next..], stride),
            );
            let both = BinaryRows { one: (made, rows.from_stride), other, is_second: is_first, rows };
            both.combine(simd, BinaryOp::Add, false, None, to);
        },
    );
}
