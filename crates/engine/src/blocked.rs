//! Convolutions of one tap a channel, or of few taps, in the model `fast`, with channels side by side: vectors hold one output's sums
//! of several channels, and have no empty places however narrow planes are. Operands come as they lie, what windows of few taps
//! meet unfolded; or in blocks of 16 channels (the layout that others call NCHW16c), as a convolution left them in which every
//! channel reads itself. It takes what it reads, done with the task before it, in blocks as well ([`Pair`]).
//!
//! Sums stay in registers until they are rounded, where the host converts vectors by itself: a tile of them that is stored and
//! read again takes as long as a dozen taps.
//!
//! A sum takes its taps in their order, as in [`crate::convolution`], so its bits do not depend on how the work is cut.

use crate::activation::{Finish, Staged, without_effect};
use crate::convolution::{Kernel, Staging};
use crate::number;
use crate::number::vectors::{self, Before, Left};
use crate::rows::{BLOCK, Part, Share, Source, copy_rows, copy_short, turn_blocks};
use crate::window::Window;
use crate::work::{Scratch, apart, room, written_out};
use anemone_program::Rows;
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

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

/// What is read: tensors as they lie, or a block where they have a channel, 16 numbers where they have a column, in rows without
/// gaps; and how windows meet it, which have one tap in blocks.
#[derive(Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) in_blocks: bool,
    pub(crate) staging: &'a Staging,
}

/// Buffers of one thread.
#[derive(Default)]
pub(crate) struct Buffers {
    packed: Vec<f32>,
    wide: Vec<f32>,
    /// A source that windows meet, and what is needed to stage it.
    unfolded: [Vec<f32>; 2],
    panels: Vec<f32>,
    places: Vec<u32>,
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

    /// Puts what all outputs meet under a tap into its places.
    #[inline(always)]
    fn put(&self, tap: usize, wide: &[f32], to: &mut [f32]) {
        for (tile, to) in to.chunks_exact_mut(self.stride()).enumerate() {
            let from = wide[self.outputs(tile)[0]..].first_chunk::<BLOCK>();
            if let (Some(from), Some(to)) = (from, to.as_chunks_mut().0.get_mut(tap)) {
                *to = *from;
            }
        }
    }

    /// Numbers of a tile.
    fn stride(&self) -> usize {
        self.taps * if self.in_blocks { self.each } else { BLOCK }
    }
}

/// Packs the outputs' operands of a part.
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
        let Packing { tiles, from: Operand { source: from, staging, .. }, group, part, wide, unfolded, to } = self;
        if tiles.in_blocks {
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, count] = tiles.outputs(tile);
                for (block, to) in to.chunks_exact_mut(count * BLOCK).enumerate().take(tiles.taps / BLOCK) {
                    let from = &from.from(group, block, part.rows.start)[(part.columns.start + first) * BLOCK..];
                    vectors::widen_rows(simd, from, to, Rows::one(count * BLOCK));
                }
            }
            return;
        }
        // Rows without gaps are one row.
        if staging.is_pointwise() && (part.rows.len() == 1 || from.strides[2] == part.columns.len()) {
            let from_stride = from.strides[1];
            let from = &from.from(group, 0, part.rows.start)[part.columns.start..];
            for (tile, to) in to.chunks_exact_mut(tiles.stride()).enumerate() {
                let [first, columns] = tiles.outputs(tile);
                let rows = Rows { count: tiles.taps, columns, from_stride, to_stride: BLOCK };
                vectors::widen_short_rows(simd, &from[first..], to, rows);
            }
            return;
        }
        if staging.is_pointwise() {
            for tap in 0..tiles.taps {
                from.widen(simd, group, tap, part, &mut wide[..tiles.outputs]);
                tiles.put(tap, wide, to);
            }
            return;
        }
        let staging = staging.of_rows(part.rows.len());
        let [staged, buffer] = unfolded;
        let area = staging.staged_elements();
        let staged = room(staged, area + staging.staged_slack());
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
fn pack<'b, S: Simd>(
    simd: S,
    tiles: Tiles,
    from: Operand,
    group: usize,
    part: &Part,
    wide: &mut Vec<f32>,
    unfolded: &mut [Vec<f32>; 2],
    packed: &'b mut Vec<f32>,
) -> &'b [f32] {
    let to = room(packed, tiles.count() * tiles.stride());
    let wide = room(wide, tiles.outputs + BLOCK);
    apart(simd, Packing { tiles, from, group, part, wide, unfolded, to: &mut *to });
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
            biases.fill(0.0);
            for (i, to) in biases.iter_mut().enumerate().take(height) {
                *to = without_effect(kernel.bias(first + i));
            }
        }
    }
}

/// Numbers of a line of cache.
const LINE: usize = 32;
/// Most outputs of a tile.
const MOST: usize = 14;

/// Sums of a tile's outputs for some blocks of channels, with biases and what follows them.
struct Sums<'a> {
    source: &'a [f32],
    tiles: Tiles,
    outputs: usize,
    blocks: usize,
    panels: &'a Panels<'a>,
    finish: &'a Finish<'a>,
    /// Where each output of a block goes; and how far apart blocks go.
    places: &'a [u32],
    stride: usize,
    to: To<'a>,
}

/// Where results go, and what they are left as. Hosts that cannot round them here leave sums, and round those of many together.
enum To<'a> {
    Halves(&'a mut [f16]),
    Wide(&'a mut [f32]),
    Sums(&'a mut [f32]),
}

impl To<'_> {
    #[inline(always)]
    fn again(&mut self) -> To<'_> {
        match self {
            To::Halves(to) => To::Halves(to),
            To::Wide(to) => To::Wide(to),
            To::Sums(to) => To::Sums(to),
        }
    }

    /// Puts vectors of sums where they belong: from places on, and from others on. Each has code of its own: what it is left as
    /// would not stay in registers otherwise.
    #[inline(always)]
    fn put<S: Simd, const T: usize, const G: usize>(
        self,
        simd: S,
        stages: impl Before<S>,
        sums: [[S::f32s; G]; T],
        places: [usize; T],
        at: [usize; G],
    ) {
        match self {
            To::Halves(to) => written_out!(for I in 0..T => { leave(simd, stages, sums[I], places[I], at, to); }),
            To::Wide(to) => written_out!(for I in 0..T => { leave(simd, stages, sums[I], places[I], at, to); }),
            To::Sums(to) if !vectors::converts(simd) => written_out!(for I in 0..T => {
                for g in 0..G {
                    let to = &mut to[places[I] + at[g]..][..S::F32_LANES];
                    S::as_mut_simd_f32s(to).0[0] = stages.of(simd, sums[I][g]);
                }
            }),
            To::Sums(_) => {}
        }
    }
}

#[inline(always)]
fn leave<S: Simd, E: Left, const G: usize>(
    simd: S,
    stages: impl Before<S>,
    sums: [S::f32s; G],
    place: usize,
    at: [usize; G],
    to: &mut [E],
) {
    for g in 0..G {
        if let Some(left) = E::of(simd, stages, sums[g]) {
            to[place + at[g]..][..left.len()].copy_from_slice(&left);
        }
    }
}

impl Sums<'_> {
    #[inline(always)]
    fn add<S: Simd>(self, simd: S) {
        let Sums { source, tiles: Tiles { taps, in_blocks, .. }, outputs, blocks, panels, .. } = self;
        let Sums { finish, places, stride, mut to, .. } = self;
        let place = |vector: usize, stride: usize| {
            let channel = vector * S::F32_LANES;
            channel / BLOCK * stride + channel % BLOCK
        };
        let vectors = blocks * BLOCK / S::F32_LANES;
        for first in (0..vectors).step_by(VECTORS) {
            let weights = [0, 1].map(|v| &panels.data[place((first + v).min(vectors - 1), panels.stride())..]);
            let at = [0, 1].map(|v| place((first + v).min(vectors - 1), stride));
            let both = first + 1 < vectors;
            let to = to.again();
            macro_rules! tiles {
                ($($count: literal)*) => {
                    match (outputs, both, in_blocks) {
                        $(
                            ($count, true, false) => tiles!($count, 2, false),
                            ($count, true, true) => tiles!($count, 2, true),
                            ($count, false, false) => tiles!($count, 1, false),
                            ($count, false, true) => tiles!($count, 1, true),
                        )*
                        // Tiles have no more.
                        _ => {}
                    }
                };
                ($count: literal, $vectors: literal, $in_blocks: literal) => {
                    apart(simd, Tile::<$count, $vectors, $in_blocks> { source, taps, weights, finish, places, at, to })
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
    finish: &'a Finish<'a>,
    places: &'a [u32],
    at: [usize; VECTORS],
    to: To<'a>,
}

impl<const T: usize, const G: usize, const IN_BLOCKS: bool> WithSimd for Tile<'_, T, G, IN_BLOCKS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tile { source, taps, weights, finish, places, at, to } = self;
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
            for (x, (one, two)) in source.as_chunks::<BLOCK>().0.iter().zip(one.iter().zip(two)) {
                let Some(x) = x.first_chunk() else { return };
                step(simd, x, [one, two], &mut sums);
            }
        }
        let Some(places) = places.first_chunk() else { return };
        for g in 0..G {
            let bias = S::as_simd_f32s(&weights[g][taps * BLOCK..][..S::F32_LANES]).0[0];
            for sums in &mut sums {
                sums[g] = simd.add_f32s(sums[g], bias);
            }
        }
        finish.with_after(simd, Ended::<S, T, G> { sums, places, at, to });
    }
}

/// Sums of a tile, with biases.
struct Ended<'a, S: Simd, const T: usize, const G: usize> {
    sums: [[S::f32s; G]; T],
    places: &'a [u32; T],
    at: [usize; VECTORS],
    to: To<'a>,
}

impl<S: Simd, const T: usize, const G: usize> Staged<S> for Ended<'_, S, T, G> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl Before<S>) {
        let Ended { sums, places, at, to } = self;
        let Some(at) = at.first_chunk() else { return };
        to.put(simd, stages, sums, places.map(|place| place as usize), *at);
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
        let Buffers { packed, wide, unfolded, panels, places, sums, halves, turned, .. } = &mut scratch.blocked;
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        let mut panels = Panels { data: room(panels, room_of(taps)), taps };
        for part in Part::all(share, columns, false, most) {
            let tiles = Tiles::of(simd, part.outputs(), taps, from.in_blocks);
            let packed = pack(simd, tiles, from, share.group, &part, wide, unfolded, packed);
            let plane = (tiles.outputs * BLOCK).next_multiple_of(BLOCK * BLOCK);
            let halves = room(halves, TOGETHER * plane);
            let sums = room(sums, if vectors::converts(simd) { 0 } else { TOGETHER * plane });
            let places = room(places, tiles.outputs + MOST);
            places.iter_mut().enumerate().for_each(|(i, place)| *place = (i * BLOCK) as u32);
            for channel in (0..channels).step_by(TOGETHER * BLOCK) {
                let blocks = (channels - channel).div_ceil(BLOCK).min(TOGETHER);
                panels.widen(kernel, share.first_channel + channel, blocks);
                for (tile, source) in packed.chunks_exact(tiles.stride()).enumerate() {
                    let [first, outputs] = tiles.outputs(tile);
                    let (panels, places) = (&panels, &places[first..]);
                    let to = if vectors::converts(simd) { To::Halves(halves) } else { To::Sums(sums) };
                    Sums { source, tiles, outputs, blocks, panels, finish, places, stride: plane, to }.add(simd);
                    let next = share.first_channel + channel + TOGETHER * BLOCK;
                    kernel.packed.fetch(next..next + TOGETHER * BLOCK, tile, tiles.count());
                }
                if !vectors::converts(simd) {
                    number::round_row(&sums[..blocks * plane], &mut halves[..blocks * plane]);
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

/// A convolution of one tap a channel, or of few taps, at work together with one in which every channel reads itself: a share of the
/// latter's result.
pub(crate) struct Pair<'a, 'b> {
    pub(crate) kernels: [&'a Kernel; 2],
    pub(crate) finish: [&'a Finish<'a>; 2],
    /// Of the second one.
    pub(crate) window: &'a Window,
    pub(crate) from: Operand<'a>,
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
        let Buffers { packed, wide, unfolded, panels, places, sums, staged, halves, turned } =
            &mut self.scratch.blocked;
        let packed = pack(simd, tiles, from, share.group, &part, wide, unfolded, packed);
        let (rows, outputs) = (share.rows, share.rows * columns);
        let area = ground.rows * ground.width * BLOCK;
        let staged = room(staged, TOGETHER * area);
        // It stays as it is.
        staged.chunks_exact_mut(area).for_each(|staged| ground.surround(window.from[1], staged));
        let (panels, weights) = room(panels, room_of(taps) + room_of(k * k)).split_at_mut(room_of(taps));
        let (mut panels, mut weights) = (Panels { data: panels, taps }, Panels { data: weights, taps: k * k });
        let places = room(places, tiles.outputs + MOST);
        ground.places(window.from[1], places);
        let halves = room(halves, outputs.next_multiple_of(BLOCK) * BLOCK);
        let sums = room(sums, if vectors::converts(simd) { 0 } else { outputs * BLOCK });
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
                let (panels, places) = (&panels, &places[at..]);
                let to = if vectors::converts(simd) { To::Wide(staged) } else { To::Sums(staged) };
                Sums { source, tiles, outputs: count, blocks, panels, finish, places, stride: area, to }.add(simd);
                first.packed.fetch(next..next + TOGETHER * BLOCK, tile, tiles.count());
            }
            for (block, source) in staged.chunks_exact_mut(area).enumerate().take(blocks) {
                if !vectors::converts(simd) {
                    let row = ground.width * BLOCK;
                    vectors::settle_row(&mut source[ground.inside.start * row..ground.inside.end * row]);
                }
                let at = channel + block * BLOCK;
                let plane = if in_blocks { share.plane(at / BLOCK, columns * BLOCK) } else { None };
                let is_stored = plane.is_some();
                let stored = plane.unwrap_or(&mut halves[..outputs * BLOCK]);
                let weights = &weights.data[block * weights.stride()..];
                let to = if vectors::converts(simd) { To::Halves(stored) } else { To::Sums(sums) };
                let windows = Windows { source, width: ground.width, rows, columns, weights, finish: after, to };
                match [k, s] {
                    [3, 1] => apart(simd, windows.of::<3, 1>()),
                    [3, _] => apart(simd, windows.of::<3, 2>()),
                    [_, 1] => apart(simd, windows.of::<5, 1>()),
                    _ => apart(simd, windows.of::<5, 2>()),
                }
                if !vectors::converts(simd) {
                    number::round_row(sums, stored);
                }
                if is_stored {
                    continue;
                }
                let rows = |columns| Rows { count: rows, columns, from_stride: columns, to_stride: columns };
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
    fn of(window: &Window, share_rows: [usize; 2], columns: usize) -> Ground {
        let Window { k, s, p, from, .. } = window;
        let (rows, inside, first) = window.met_rows(share_rows);
        let width = (columns.saturating_sub(1) * s[1] + k[1]).max(from[1] + p[1]);
        Ground { rows, width, lead: p[1], inside, first }
    }

    /// Zeros around the source, whose rows have so many columns.
    fn surround(&self, across: usize, staged: &mut [f32]) {
        for (row, staged) in staged.chunks_exact_mut(self.width * BLOCK).enumerate() {
            let data = if self.inside.contains(&row) { self.lead..self.lead + across } else { 0..0 };
            staged[..data.start * BLOCK].fill(0.0);
            staged[data.end * BLOCK..].fill(0.0);
        }
    }

    /// Where each output of what is staged goes, so many to a row.
    fn places(&self, across: usize, places: &mut [u32]) {
        let rows = places.chunks_mut(across).enumerate();
        rows.for_each(|(row, places)| {
            let first = (self.inside.start + row) * self.width + self.lead;
            places.iter_mut().enumerate().for_each(|(i, place)| *place = ((first + i) * BLOCK) as u32);
        });
    }
}

/// Windows over staged rows of a block, with biases and what follows them: by output and channel.
struct Windows<'a> {
    source: &'a [f32],
    /// Columns of a staged row; rows and columns of outputs.
    width: usize,
    rows: usize,
    columns: usize,
    /// Tap by tap, and biases behind.
    weights: &'a [f32],
    finish: &'a Finish<'a>,
    to: To<'a>,
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
        let finish = self.0.finish;
        finish.with_after(simd, self);
    }
}

impl<S: Simd, const K: usize, const STRIDE: usize> Staged<S> for Sized<'_, K, STRIDE> {
    #[inline(always)]
    fn with(self, simd: S, stages: impl Before<S>) {
        let Windows { source, width, rows, columns, weights, mut to, .. } = self.0;
        let (source, weights) = (source.as_chunks::<BLOCK>().0, weights.as_chunks::<BLOCK>().0);
        for lane in (0..BLOCK).step_by(S::F32_LANES) {
            let mut taps = [[simd.splat_f32s(0.0); K]; K];
            for (i, tap) in taps.as_flattened_mut().iter_mut().enumerate() {
                *tap = S::as_simd_f32s(&weights[i][lane..][..S::F32_LANES]).0[0];
            }
            let bias = S::as_simd_f32s(&weights[K * K][lane..][..S::F32_LANES]).0[0];
            for row in 0..rows {
                let first = row * columns * BLOCK;
                let from = &source[row * STRIDE * width..];
                let mut at = 0;
                while at + ABREAST <= columns {
                    let sums = outputs::<S, K, STRIDE, ABREAST>(simd, from, width, [at, lane], &taps, bias);
                    to.again().put(simd, stages, sums, std::array::from_fn(|i| first + (at + i) * BLOCK), [lane]);
                    at += ABREAST;
                }
                while at < columns {
                    let sums = outputs::<S, K, STRIDE, 1>(simd, from, width, [at, lane], &taps, bias);
                    to.again().put(simd, stages, sums, std::array::from_fn(|i| first + (at + i) * BLOCK), [lane]);
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
) -> [[S::f32s; 1]; N] {
    let mut sums = [[simd.splat_f32s(0.0)]; N];
    for (kh, taps) in taps.iter().enumerate() {
        let line = &from[kh * width + at * STRIDE..][..(N - 1) * STRIDE + K];
        for (kw, tap) in taps.iter().enumerate() {
            for n in 0..N {
                let x = S::as_simd_f32s(&line[n * STRIDE + kw][lane..][..S::F32_LANES]).0[0];
                sums[n][0] = simd.mul_add_f32s(*tap, x, sums[n][0]);
            }
        }
    }
    for [sum] in &mut sums {
        *sum = simd.add_f32s(*sum, bias);
    }
    sums
}
