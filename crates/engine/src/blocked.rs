//! Convolutions of one tap a channel in the model `fast`, with channels side by side: vectors hold one output's sums of several
//! channels, and have no empty places however narrow planes are. Operands come as they lie, or in blocks of 16 channels (the layout
//! that others call NCHW16c), as a convolution left them in which every channel reads itself. It takes what it reads, done with
//! the task before it, in blocks as well ([`Pair`]).
//!
//! A sum takes its taps in their order, as in [`crate::convolution`], so its bits do not depend on how the work is cut.

use crate::activation::{Finish, Staged};
use crate::convolution::Kernel;
use crate::number::vectors::{self, Before};
use crate::rows::{Part, Share, Source, copy_rows, turn_blocks};
use crate::window::Window;
use crate::work::{Scratch, apart, room};
use anemone_program::Rows;
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Channels of a block.
pub(crate) const BLOCK: usize = 16;
/// Blocks that are computed together.
const TOGETHER: usize = 2;
/// Vectors of channels whose sums are held in registers together.
const VECTORS: usize = 2;
/// Numbers of a packed source, and bounds of its outputs: enough to make up for widening coefficients again.
const PACKED: usize = 1 << 20;
const OUTPUTS: [usize; 2] = [256, 1024];

/// Whether blocks of so many channels are full enough.
pub(crate) fn suits(channels: usize) -> bool {
    3 * channels.next_multiple_of(BLOCK) <= 4 * channels
}

/// What is read: tensors as they lie, or a block where they have a channel, 16 numbers where they have a column.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) in_blocks: bool,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct Buffers {
    packed: Vec<f32>,
    wide: Vec<f32>,
    panels: Vec<f32>,
    sums: Vec<f32>,
    staged: Vec<f32>,
    halves: Vec<f16>,
    turned: Vec<f16>,
}

/// A source that is packed by tiles of outputs, then taps: as many outputs as registers hold the sums of. In blocks by tiles,
/// blocks and outputs.
#[derive(Clone, Copy)]
struct Tiles {
    taps: usize,
    outputs: usize,
    /// Outputs of a tile; the last one may have fewer.
    each: usize,
    in_blocks: bool,
}

impl Tiles {
    fn of<S: Simd>(_: S, outputs: usize, taps: usize, in_blocks: bool) -> Tiles {
        let most = if S::REGISTER_COUNT >= 32 { MOST } else { 6 };
        let count = outputs.div_ceil(most).max(1);
        Tiles { taps, outputs, each: outputs.div_ceil(count).max(1), in_blocks }
    }

    fn count(&self) -> usize {
        self.outputs.div_ceil(self.each)
    }

    /// Where a tile begins, and how many outputs it has.
    fn outputs(&self, tile: usize) -> [usize; 2] {
        let first = tile * self.each;
        [first, self.each.min(self.outputs - first)]
    }

    /// Numbers of a tile, with what is written beyond the last tap.
    fn stride(&self) -> usize {
        (self.taps * self.each + BLOCK).next_multiple_of(BLOCK)
    }
}

/// Packs the outputs' operands of a part.
struct Packing<'a> {
    tiles: Tiles,
    from: Source<'a>,
    group: usize,
    part: &'a Part,
    wide: &'a mut [f32],
    to: &'a mut [f32],
}

impl WithSimd for Packing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Packing { tiles, from, group, part, wide, to } = self;
        if tiles.in_blocks {
            let across = part.columns.len() * BLOCK;
            let columns = part.columns.start * BLOCK..part.columns.end * BLOCK;
            let part = Part { rows: part.rows.clone(), columns };
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, count] = tiles.outputs(tile);
                for (block, to) in to.chunks_exact_mut(count * BLOCK).enumerate().take(tiles.taps / BLOCK) {
                    if from.strides[2] == across {
                        let from = &from.from(group, block, part.rows.start)[part.columns.start + first * BLOCK..];
                        vectors::widen_rows(simd, from, to, Rows::one(count * BLOCK));
                    } else {
                        from.widen_from(simd, group, block, &part, first * BLOCK, to);
                    }
                }
            }
            return;
        }
        // Rows without gaps are one row.
        if part.rows.len() == 1 || from.strides[2] == part.columns.len() {
            let from_stride = from.strides[1];
            let from = &from.from(group, 0, part.rows.start)[part.columns.start..];
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, columns] = tiles.outputs(tile);
                let rows = Rows { count: tiles.taps, columns, from_stride, to_stride: columns };
                vectors::widen_short_rows(simd, &from[first..], to, rows);
            }
            return;
        }
        for tap in 0..tiles.taps {
            from.widen(simd, group, tap, part, &mut wide[..tiles.outputs]);
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, count] = tiles.outputs(tile);
                // What is too much is written over by the next tap.
                if let (Some(from), Some(to)) =
                    (wide[first..].first_chunk(), to[tap * count..].first_chunk_mut::<BLOCK>())
                {
                    *to = *from;
                }
            }
        }
    }
}

/// Packs a part into buffers that grow as needed.
#[inline(always)]
fn pack<'b, S: Simd>(
    simd: S,
    tiles: Tiles,
    from: Source,
    group: usize,
    part: &Part,
    wide: &mut Vec<f32>,
    packed: &'b mut Vec<f32>,
) -> &'b [f32] {
    let to = room(packed, tiles.count() * tiles.stride());
    let wide = room(wide, tiles.outputs + BLOCK);
    apart(simd, Packing { tiles, from, group, part, wide, to: &mut *to });
    to
}

/// Coefficients of some blocks, tap by tap, and biases behind those of each.
struct Panels<'a> {
    data: &'a mut [f32],
    taps: usize,
}

/// Numbers of [`Panels`].
fn room_of(taps: usize) -> usize {
    TOGETHER * (taps + 1) * BLOCK + BLOCK
}

impl Panels<'_> {
    /// Elements between blocks.
    fn stride(&self) -> usize {
        (self.taps + 1) * BLOCK
    }

    /// From channels on that begin a block.
    fn widen(&mut self, kernel: &Kernel, first: usize, blocks: usize) {
        let taps = self.taps;
        for (block, panel) in self.data.chunks_exact_mut((taps + 1) * BLOCK).enumerate().take(blocks) {
            let first = first + block * BLOCK;
            let height = kernel.packed.height(first);
            kernel.packed.widen(first, 0..taps, panel);
            if height < BLOCK {
                for tap in (0..taps).rev() {
                    panel.copy_within(tap * height..(tap + 1) * height, tap * BLOCK);
                    panel[tap * BLOCK + height..(tap + 1) * BLOCK].fill(0.0);
                }
            }
            let biases = &mut panel[taps * BLOCK..];
            // Minus zero where there is none: it changes no number.
            biases.fill(-0.0);
            for (i, to) in biases.iter_mut().enumerate().take(height) {
                let bias = kernel.bias(first + i);
                if bias != 0.0 {
                    *to = bias;
                }
            }
        }
    }
}

/// Numbers of a line of cache.
const LINE: usize = 32;
/// Most outputs of a tile.
const MOST: usize = 14;

/// Sums of a tile's outputs for some blocks of channels, with biases: by block, output and channel.
struct Sums<'a> {
    source: &'a [f32],
    tiles: Tiles,
    outputs: usize,
    blocks: usize,
    panels: &'a Panels<'a>,
    to: &'a mut [f32],
}

impl Sums<'_> {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S) {
        let Sums { source, tiles: Tiles { taps, in_blocks, .. }, outputs, blocks, panels, to } = self;
        let place = |vector: usize, stride: usize| {
            let channel = vector * S::F32_LANES;
            channel / BLOCK * stride + channel % BLOCK
        };
        let vectors = blocks * BLOCK / S::F32_LANES;
        for first in (0..vectors).step_by(VECTORS) {
            let weights = [0, 1].map(|v| &panels.data[place((first + v).min(vectors - 1), panels.stride())..]);
            let at = [0, 1].map(|v| place((first + v).min(vectors - 1), outputs * BLOCK));
            let source = &source[..taps * outputs];
            let both = first + 1 < vectors;
            macro_rules! tiles {
                ($($count: literal)*) => {
                    match (outputs, both, in_blocks) {
                        $(
                            ($count, true, false) => apart(simd, Tile::<$count, 2, false> { source, taps, weights, to, at }),
                            ($count, true, true) => apart(simd, Tile::<$count, 2, true> { source, taps, weights, to, at }),
                            ($count, false, false) => apart(simd, Tile::<$count, 1, false> { source, taps, weights, to, at }),
                            ($count, false, true) => apart(simd, Tile::<$count, 1, true> { source, taps, weights, to, at }),
                        )*
                        _ => {}
                    }
                };
            }
            tiles!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }
    }
}

/// Sums of `T` outputs in `G` vectors of channels.
struct Tile<'a, const T: usize, const G: usize, const IN_BLOCKS: bool> {
    source: &'a [f32],
    taps: usize,
    /// From each vector's first channel on.
    weights: [&'a [f32]; VECTORS],
    to: &'a mut [f32],
    at: [usize; VECTORS],
}

impl<const T: usize, const G: usize, const IN_BLOCKS: bool> WithSimd for Tile<'_, T, G, IN_BLOCKS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tile { source, taps, weights, to, at } = self;
        let mut sums = [[simd.splat_f32s(0.0); G]; T];
        let one = weights[0][..taps * BLOCK].as_chunks::<BLOCK>().0;
        let two = weights[1][..taps * BLOCK].as_chunks::<BLOCK>().0;
        if IN_BLOCKS {
            let blocks = source.chunks_exact(T * BLOCK);
            for (x, (one, two)) in blocks.zip(one.as_chunks::<BLOCK>().0.iter().zip(two.as_chunks::<BLOCK>().0)) {
                let Some(x) = x.as_chunks::<BLOCK>().0.first_chunk::<T>() else { return };
                for tap in 0..BLOCK {
                    let mut operands = [0.0; T];
                    for t in 0..T {
                        operands[t] = x[t][tap];
                    }
                    step(simd, &operands, [&one[tap], &two[tap]], &mut sums);
                }
            }
        } else {
            for (x, (one, two)) in source.as_chunks::<T>().0.iter().zip(one.iter().zip(two)) {
                step(simd, x, [one, two], &mut sums);
            }
        }
        for g in 0..G {
            let bias = S::as_simd_f32s(&weights[g][taps * BLOCK..][..S::F32_LANES]).0[0];
            for (t, to) in to[at[g]..].chunks_mut(BLOCK).enumerate().take(T) {
                S::as_mut_simd_f32s(&mut to[..S::F32_LANES]).0[0] = simd.add_f32s(sums[t][g], bias);
            }
        }
    }
}

/// One tap more.
#[inline(always)]
fn step<S: Simd, const T: usize, const G: usize>(
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
            sums[t][g] = simd.mul_add_f32s(vectors[g], x, sums[t][g]);
        }
    }
}

/// One share of a convolution at work.
pub(crate) struct Job<'a, 'b> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) finish: &'a Finish<'a>,
    pub(crate) from: Operand<'a>,
    pub(crate) columns: usize,
    pub(crate) share: &'a mut Share<'b>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, finish, from, columns, share, scratch } = self;
        let (taps, channels) = (kernel.packed.taps(), share.channels());
        let Buffers { packed, wide, panels, sums, halves, turned, .. } = &mut scratch.blocked;
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        let mut panels = Panels { data: room(panels, room_of(taps)), taps };
        let sums = room(sums, TOGETHER * MOST * BLOCK);
        for part in Part::all(share, columns, false, most) {
            let tiles = Tiles::of(simd, part.outputs(), taps, from.in_blocks);
            let packed = pack(simd, tiles, from.source, share.group, &part, wide, packed);
            let plane = (tiles.outputs * BLOCK).next_multiple_of(BLOCK * BLOCK);
            let halves = room(halves, TOGETHER * plane);
            for channel in (0..channels).step_by(TOGETHER * BLOCK) {
                let blocks = (channels - channel).div_ceil(BLOCK).min(TOGETHER);
                panels.widen(kernel, share.first_channel + channel, blocks);
                for (tile, source) in packed.chunks_exact(tiles.stride()).enumerate() {
                    let [first, outputs] = tiles.outputs(tile);
                    Sums { source, tiles, outputs, blocks, panels: &panels, to: &mut *sums }.add(simd);
                    let next = share.first_channel + channel + TOGETHER * BLOCK;
                    kernel.packed.fetch(next..next + TOGETHER * BLOCK, tile, tiles.count());
                    for (sums, halves) in
                        sums.chunks_exact_mut(outputs * BLOCK).zip(halves.chunks_exact_mut(plane)).take(blocks)
                    {
                        let to = &mut halves[first * BLOCK..][..outputs * BLOCK];
                        finish.with_after(simd, Rounded { from: sums, to });
                    }
                }
                for (block, halves) in halves.chunks_exact_mut(plane).enumerate().take(blocks) {
                    finish.look_up(halves, Rows::one(tiles.outputs * BLOCK));
                    let first = channel + block * BLOCK;
                    let count = BLOCK.min(channels - first);
                    store(simd, share, part.place(share, first), count, part.gapless(), halves, turned);
                }
            }
        }
    }
}

/// Rounds.
struct Rounded<'a> {
    from: &'a mut [f32],
    to: &'a mut [f16],
}

impl<S: Simd> Staged<S> for Rounded<'_> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl Before<S>) {
        let Rounded { from, to } = self;
        apart(
            simd,
            #[inline(always)]
            || vectors::finish_rows(simd, stages, from, to, Rows::one(to.len())),
        );
    }
}

/// Stores a block, by output and channel, from a channel, row and column of a share on, whose channels lie apart.
#[inline(always)]
fn store<S: Simd>(
    simd: S,
    share: &mut Share,
    place: [usize; 3],
    channels: usize,
    rows: Rows,
    block: &[f16],
    turned: &mut Vec<f16>,
) {
    let outputs = rows.count * rows.columns;
    // An odd number of lines of cache: channels a power of two apart would have few places there.
    let stride = outputs.next_multiple_of(LINE) | LINE;
    let turned = room(turned, BLOCK * stride);
    apart(
        simd,
        #[inline(always)]
        || turn_blocks(&block[..outputs.next_multiple_of(BLOCK) * BLOCK], stride, turned),
    );
    share.store(place, channels, turned, stride, rows, copy_rows);
}

/// A convolution of one tap a channel at work together with one in which every channel reads itself: a share of the latter's
/// result.
pub(crate) struct Pair<'a, 'b> {
    pub(crate) kernels: [&'a Kernel; 2],
    pub(crate) finish: [&'a Finish<'a>; 2],
    /// Of the second one.
    pub(crate) window: &'a Window,
    pub(crate) from: Source<'a>,
    /// Of the result.
    pub(crate) columns: usize,
    /// Whether the share has blocks for channels, and 16 numbers for each column.
    pub(crate) in_blocks: bool,
    pub(crate) share: &'a mut Share<'b>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for Pair<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pair { kernels: [first, second], finish: [finish, after], window, from, columns, .. } = self;
        let (share, in_blocks) = (self.share, self.in_blocks);
        let (k, s) = (window.k[0], window.s[0]);
        let ground = Ground::of(window, [share.first_row, share.rows], columns);
        let part = Part { rows: ground.first..ground.first + ground.inside.len(), columns: 0..window.from[1] };
        let taps = first.packed.taps();
        let tiles = Tiles::of(simd, part.outputs(), taps, false);
        let Buffers { packed, wide, panels, sums, staged, halves, turned } = &mut self.scratch.blocked;
        let packed = pack(simd, tiles, from, share.group, &part, wide, packed);
        let outputs = share.rows * columns;
        let area = ground.rows * ground.width * BLOCK;
        let staged = room(staged, TOGETHER * area);
        // What surrounds the source stays as it is.
        staged.fill(0.0);
        let (panels, weights) = room(panels, room_of(taps) + room_of(k * k)).split_at_mut(room_of(taps));
        let (mut panels, mut weights) = (Panels { data: panels, taps }, Panels { data: weights, taps: k * k });
        let sums = room(sums, (TOGETHER * MOST).max(outputs) * BLOCK);
        let halves = room(halves, outputs.next_multiple_of(BLOCK) * BLOCK);
        let (first_channel, channels) = match in_blocks {
            true => (share.first_channel * BLOCK, share.channels() * BLOCK),
            false => (share.first_channel, share.channels()),
        };
        for channel in (0..channels).step_by(TOGETHER * BLOCK) {
            let blocks = (channels - channel).div_ceil(BLOCK).min(TOGETHER);
            panels.widen(first, first_channel + channel, blocks);
            weights.widen(second, first_channel + channel, blocks);
            let next = first_channel + channel + TOGETHER * BLOCK;
            for (tile, source) in packed.chunks_exact(tiles.stride()).enumerate() {
                let [at, count] = tiles.outputs(tile);
                Sums { source, tiles, outputs: count, blocks, panels: &panels, to: &mut *sums }.add(simd);
                first.packed.fetch(next..next + TOGETHER * BLOCK, tile, tiles.count());
                for (sums, to) in sums.chunks_exact_mut(count * BLOCK).zip(staged.chunks_exact_mut(area)).take(blocks) {
                    finish.with_after(simd, Settled { sums, to, at, across: window.from[1], ground: &ground });
                }
            }
            for (block, source) in staged.chunks_exact(area).enumerate().take(blocks) {
                let at = channel + block * BLOCK;
                let to = &mut sums[..outputs * BLOCK];
                let weights = &weights.data[block * weights.stride()..];
                let windows = Windows { source, width: ground.width, columns, weights, to };
                match [k, s] {
                    [3, 1] => apart(simd, windows.of::<3, 1>()),
                    [3, _] => apart(simd, windows.of::<3, 2>()),
                    [_, 1] => apart(simd, windows.of::<5, 1>()),
                    _ => apart(simd, windows.of::<5, 2>()),
                }
                after.with_after(
                    simd,
                    Rounded { from: &mut sums[..outputs * BLOCK], to: &mut halves[..outputs * BLOCK] },
                );
                let rows = |columns| Rows { count: share.rows, columns, from_stride: columns, to_stride: columns };
                if in_blocks {
                    let rows = rows(columns * BLOCK);
                    share.store([at / BLOCK, 0, 0], 1, halves, outputs * BLOCK, rows, copy_rows);
                } else {
                    let rows = rows(columns);
                    store(simd, share, [at, 0, 0], BLOCK.min(channels - at), rows, halves, turned);
                }
            }
        }
    }
}

/// What some rows of windows read: staged rows, with what surrounds the source.
struct Ground {
    rows: usize,
    /// Columns of a staged row, and those before the source's.
    width: usize,
    lead: usize,
    /// Staged rows that lie inside of the source, and the first of them there.
    inside: Range<usize>,
    first: usize,
}

impl Ground {
    fn of(window: &Window, [first_row, rows]: [usize; 2], columns: usize) -> Ground {
        let Window { k, s, p, from, .. } = window;
        let (staged, top) = (rows.saturating_sub(1) * s[0] + k[0], first_row * s[0]);
        let begin = p[0].saturating_sub(top).min(staged);
        let end = (from[0] + p[0]).saturating_sub(top).clamp(begin, staged);
        let width = (columns.saturating_sub(1) * s[1] + k[1]).max(from[1] + p[1]);
        let first = (top + begin).saturating_sub(p[0]);
        Ground { rows: staged, width, lead: p[1], inside: begin..end, first }
    }
}

/// Outputs from one on, rounded and put where windows find them.
struct Settled<'a> {
    sums: &'a mut [f32],
    to: &'a mut [f32],
    at: usize,
    /// Columns of a row, as computed.
    across: usize,
    ground: &'a Ground,
}

impl<S: Simd> Staged<S> for Settled<'_> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl Before<S>) {
        let Settled { mut sums, to, at, across, ground } = self;
        apart(
            simd,
            #[inline(always)]
            || {
                let (mut row, mut column) = (ground.inside.start + at / across, at % across);
                while !sums.is_empty() {
                    let columns = ((across - column) * BLOCK).min(sums.len());
                    let (some, rest) = std::mem::take(&mut sums).split_at_mut(columns);
                    let to = &mut to[(row * ground.width + ground.lead + column) * BLOCK..];
                    vectors::settle_row(simd, stages, some, &mut to[..columns]);
                    (sums, row, column) = (rest, row + 1, 0);
                }
            },
        );
    }
}

/// Windows over staged rows of a block, with biases: by output and channel.
struct Windows<'a> {
    source: &'a [f32],
    /// Columns of a staged row, and of a row of outputs.
    width: usize,
    columns: usize,
    /// Tap by tap, and biases behind.
    weights: &'a [f32],
    to: &'a mut [f32],
}

impl<'a> Windows<'a> {
    fn of<const K: usize, const STRIDE: usize>(self) -> Sized<'a, K, STRIDE> {
        Sized(self)
    }
}

/// Those of sides `K`, so far apart.
struct Sized<'a, const K: usize, const STRIDE: usize>(Windows<'a>);

/// Outputs of a row that are computed together.
const ABREAST: usize = 4;

impl<const K: usize, const STRIDE: usize> WithSimd for Sized<'_, K, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Windows { source, width, columns, weights, to } = self.0;
        let (source, weights) = (source.as_chunks::<BLOCK>().0, weights.as_chunks::<BLOCK>().0);
        for lane in (0..BLOCK).step_by(S::F32_LANES) {
            let mut taps = [[simd.splat_f32s(0.0); K]; K];
            for (i, tap) in taps.as_flattened_mut().iter_mut().enumerate() {
                *tap = S::as_simd_f32s(&weights[i][lane..][..S::F32_LANES]).0[0];
            }
            let bias = S::as_simd_f32s(&weights[K * K][lane..][..S::F32_LANES]).0[0];
            for (row, to) in to.as_chunks_mut::<BLOCK>().0.chunks_exact_mut(columns).enumerate() {
                let from = &source[row * STRIDE * width..];
                let mut at = 0;
                while at + ABREAST <= columns {
                    outputs::<S, K, STRIDE, ABREAST>(simd, from, width, [at, lane], &taps, bias, to);
                    at += ABREAST;
                }
                while at < columns {
                    outputs::<S, K, STRIDE, 1>(simd, from, width, [at, lane], &taps, bias, to);
                    at += 1;
                }
            }
        }
    }
}

/// `N` outputs of a row.
#[inline(always)]
fn outputs<S: Simd, const K: usize, const STRIDE: usize, const N: usize>(
    simd: S,
    from: &[[f32; BLOCK]],
    width: usize,
    [at, lane]: [usize; 2],
    taps: &[[S::f32s; K]; K],
    bias: S::f32s,
    to: &mut [[f32; BLOCK]],
) {
    let mut sums = [simd.splat_f32s(0.0); N];
    for (kh, taps) in taps.iter().enumerate() {
        let line = &from[kh * width + at * STRIDE..][..(N - 1) * STRIDE + K];
        for (kw, tap) in taps.iter().enumerate() {
            for n in 0..N {
                let x = S::as_simd_f32s(&line[n * STRIDE + kw][lane..][..S::F32_LANES]).0[0];
                sums[n] = simd.mul_add_f32s(*tap, x, sums[n]);
            }
        }
    }
    for (to, sum) in to[at..].iter_mut().zip(sums) {
        S::as_mut_simd_f32s(&mut to[lane..][..S::F32_LANES]).0[0] = simd.add_f32s(sum, bias);
    }
}
