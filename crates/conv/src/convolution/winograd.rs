//! 3x3 convolutions of stride 1 in the model `fast`, by Winograd's algorithm F(2x2, 3x3): a tile of 2x2 outputs takes 16 multiplications a
//! channel in place of 36.
//!
//! The 4x4 input tile and the kernel are transformed, their products are summed over the channels in order, and the sums are
//! transformed back (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks",
//! 2015). All of it is fp32, and the result is rounded once. `docs/numerics.md` compares its error with that of direct
//! sums. A number that is not finite would affect a whole output tile, so that such sources and kernels use the direct kernel.

use crate::convolution::depthwise::Plane;
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::gemm::microkernel::PANEL;
use anemone_kernels::host::Rows;
use anemone_kernels::simd;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{OutputTile, TensorView};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

mod transform;

use transform::*;

/// Side of the output tile, side of the input tile, and elements of the latter.
pub const OUTPUT_TILE: usize = 2;
pub const INPUT_TILE: usize = 4;
pub const PLACES: usize = INPUT_TILE * INPUT_TILE;
/// Elements of a kernel.
pub const KERNEL: usize = 9;
/// Output channels that are summed together: two panels, each in half a line.
pub const HEIGHT: usize = 2 * PANEL;
const HALF: usize = 8;
const LINE: usize = 2 * HALF;
/// Elements between the lines of input channels: padded by one line to avoid cache-set conflicts.
const STEP: usize = (PLACES + 1) * LINE;
/// Input channels of a pass over the sums.
const CHANNELS: usize = 128;
/// Largest size, in elements, of transformed kernels that are kept for all tiles.
const KEPT: usize = 3 << 17;
/// Elements of the transformed source that stay in the cache of a core.
const L2_ELEMENTS: usize = 1 << 18;
/// The same beside the transformed kernels of all lines, if these are at most so many elements: both are read again and again. More kernels do not
/// stay in the cache, and are read once for all rows that are processed together.
const BESIDE_KERNELS: usize = L2_ELEMENTS / 4;
const FEW_KERNELS: usize = L2_ELEMENTS / 2;
/// Elements staged before they are read: loads that overlap recent stores of another width stall (store forwarding).
const ELSEWHERE: usize = 1 << 12;
/// Lanes of the longest vectors.
const LONGEST: usize = 16;

/// Cost model, in multiply-adds of the longest vectors: transforming a line of kernels, a vector of input tiles, and a vector of output tiles;
/// and the minimum for the sums of a few tiles, for each transformed element of a channel.
const KERNELS: usize = 60;
const SQUARES: usize = 80;
const RESULTS: usize = 80;
const FEW: usize = 4;

/// Returns true if the cost model favours Winograd over direct convolution.
pub fn is_profitable(window: &Window, channels: usize, to: Extents) -> bool {
    if window.k != [3; 2] || window.s != [1; 2] || to.array().contains(&0) {
        return false;
    }
    let [down, across] = tile_counts(to.h, to.w);
    if channels * PLACES * stride(1, across) > 2 * L2_ELEMENTS {
        return false;
    }
    let taps = KERNEL * channels * to.c * (to.plane() / LONGEST).max(1);
    // At least 10 % faster, because both sides are estimates.
    10 * cost(channels, to.c, down, across) < 9 * taps
}

fn cost(channels: usize, to_channels: usize, down: usize, across: usize) -> usize {
    let (panels, n) = (to_channels.div_ceil(PANEL), down * across);
    let rest = match (n % LONGEST, tail_width(n % LONGEST, LONGEST)) {
        (0, _) => 0,
        (_, Some(tail_width)) => tail_width.max(FEW),
        (_, None) => HEIGHT,
    };
    let columns = HEIGHT * (n / LONGEST) + rest;
    let blocks = down.div_ceil(rows_at_once(L2_ELEMENTS, channels, down, across));
    let vectors = down * across.div_ceil(LONGEST);
    channels * panels * (PLACES * columns + blocks * KERNELS) / 2
        + vectors * (channels * SQUARES + to_channels * RESULTS)
}

/// Rows and channels of the tiles into which a result is best partitioned for a number of threads.
pub fn cut_of(channels: usize, to: Extents, threads: usize) -> [usize; 2] {
    let [down, across] = tile_counts(to.h, to.w);
    let rows = down.div_ceil(threads);
    let some = to.c.div_ceil(threads).next_multiple_of(HEIGHT);
    if cost(channels, to.c, rows, across) <= cost(channels, some, down, across) {
        [OUTPUT_TILE * rows, to.c]
    } else {
        [OUTPUT_TILE * down, some]
    }
}

fn tile_counts(rows: usize, columns: usize) -> [usize; 2] {
    [rows.div_ceil(OUTPUT_TILE), columns.div_ceil(OUTPUT_TILE)]
}

/// Elements between the channels of a transformed source; the last vector may extend into the next channel or past the end. Never a
/// multiple of a large power of two, which would compete for few cache sets.
fn stride(down: usize, across: usize) -> usize {
    (down * across).next_multiple_of(LONGEST) | LONGEST
}

/// Rows of tiles that are processed together, at most `most` elements.
fn rows_at_once(most: usize, channels: usize, down: usize, across: usize) -> usize {
    let elements = |rows: usize| channels * PLACES * (rows * across).next_multiple_of(LONGEST);
    let rows = (1..=down).take_while(|&rows| elements(rows) <= most).last().unwrap_or(1);
    down.div_ceil(down.div_ceil(rows))
}

/// Number of tail tiles that are computed with vectors over output channels instead of tiles; `None` if a vector over tiles is cheaper.
fn tail_width(tiles: usize, lanes: usize) -> Option<usize> {
    [2, 4, 8].into_iter().find(|&tail_width| tiles <= tail_width && tail_width <= lanes / 2)
}

/// Returns true if all elements are finite.
#[inline(always)]
pub fn is_finite(source: TensorView, group: usize, channels: usize, [rows, columns]: [usize; 2]) -> bool {
    let [_, channel, row] = source.strides;
    let gapless = [rows == 1 || row == columns, channels == 1 || channel == rows * columns];
    let [channels, rows, columns] = match gapless {
        [true, true] => [1, 1, channels * rows * columns],
        [true, false] => [channels, 1, rows * columns],
        _ => [channels, rows, columns],
    };
    for c in 0..channels {
        for h in 0..rows {
            if !is_row_finite(source.row(group, c, h, columns)) {
                return false;
            }
        }
    }
    true
}

#[inline(always)]
fn is_row_finite(row: &[f16]) -> bool {
    let magnitude = |x: f16| x.to_bits() as i16 & i16::MAX;
    row.iter().fold(0, |largest, &x| magnitude(x).max(largest)) < magnitude(f16::INFINITY)
}

/// Tile of a result, the work of one thread. Its first row is even.
pub struct Job<'a, 'b> {
    pub kernel: &'a Filter,
    pub finish: &'a Epilogue<'a>,
    pub window: &'a Window,
    pub channels: usize,
    pub from: TensorView<'a>,
    pub columns: usize,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { kernel, finish, window, channels, from, columns, share, scratch } = self;
        let [down, across] = tile_counts(share.rows, columns);
        let lines = share.channels().div_ceil(HEIGHT);
        let most = if lines * channels * STEP <= FEW_KERNELS { BESIDE_KERNELS } else { L2_ELEMENTS };
        let at_once = rows_at_once(most, channels, down, across);
        // Staged like 4x4 windows of stride 2.
        let windows = Window { k: [INPUT_TILE; 2], s: [OUTPUT_TILE; 2], ..window.clone() };
        let segment = channels.min(CHANNELS);
        let source = Planes::of(channels, stride(at_once, across));
        // Elements of a line of transformed kernels; the last positions are read up to a full step.
        let weights = segment * STEP + PLACES * LINE;
        let sums = Planes::of(HEIGHT, source.stride);
        let result = OUTPUT_TILE * across.next_multiple_of(LONGEST);
        let segments = channels.div_ceil(segment);
        let kept = down > at_once && lines * segments * weights <= KEPT;
        let Scratch { packed, wide, panel, sums: buffer, staged, .. } = scratch;
        let transformed = scratch_slice(packed, source.elements());
        let kernels = scratch_slice(panel, weights * if kept { lines * segments } else { 1 });
        let buffer = scratch_slice(buffer, sums.elements() + OUTPUT_TILE * at_once * result);
        let (products, results) = buffer.split_at_mut(sums.elements());
        for first in (0..down).step_by(at_once) {
            let count = at_once.min(down - first);
            let first_row = share.first_row / OUTPUT_TILE + first;
            let plane = Plane::of(OUTPUT_TILE, &windows, [first_row, count], across, S::F32_LANES);
            transform_source(simd, from, share.group, &plane, [count, across], channels, staged, transformed, &source);
            for line in 0..lines {
                let channel = line * HEIGHT;
                let [begin, left] = [share.first_channel + channel, HEIGHT.min(share.channels() - channel)];
                for (s, c) in (0..channels).step_by(segment).enumerate() {
                    let some = c..channels.min(c + segment);
                    let place = if kept { line * segments + s } else { 0 };
                    let kernels = &mut kernels[place * weights..];
                    if !kept || first == 0 {
                        transform_line(simd, kernel, begin, some.clone(), wide, kernels);
                    }
                    for i in 0..PLACES {
                        let of = PlaceSums {
                            weights: &kernels[i * LINE..][..some.len() * STEP],
                            source: &transformed[i * source.plane + c * source.stride..],
                            stride: source.stride,
                            sums: &mut products[i * sums.plane..],
                            tiles: count * across,
                            resume: c > 0,
                        };
                        match left {
                            ..=PANEL => of.all::<S, PANEL>(simd),
                            _ => of.all::<S, HEIGHT>(simd),
                        }
                    }
                }
                let row = OUTPUT_TILE * first;
                let below = (OUTPUT_TILE * count).min(share.rows - row);
                let rows = Rows { count: below, columns, from_stride: result, to_stride: 0 };
                for c in 0..left {
                    let from = &products[c * sums.stride..];
                    let of = Results { from, plane: sums.plane, down: count, across, to: results, stride: result };
                    outline(simd, of);
                    let bias = kernel.bias(begin + c);
                    finish.store_channel(simd, share, [channel + c, row, 0], bias, results, rows);
                }
            }
        }
    }
}

/// Transforms some rows of input tiles, for all channels.
#[inline(always)]
fn transform_source<S: Simd>(
    simd: S,
    from: TensorView,
    group: usize,
    plane: &Plane,
    [down, across]: [usize; 2],
    channels: usize,
    staged: &mut Vec<f32>,
    to: &mut [f32],
    planes: &Planes,
) {
    let (width, phase) = (plane.width, plane.rows * plane.width);
    let area = OUTPUT_TILE * phase;
    let at_once = (ELSEWHERE / area).clamp(1, channels);
    let staged = scratch_slice(staged, at_once * area + 2 * LONGEST);
    // Written once: staging a channel does not touch the halo.
    staged.fill(0.0);
    for first in (0..channels).step_by(at_once) {
        let count = at_once.min(channels - first);
        for (c, staged) in staged.chunks_exact_mut(area).enumerate().take(count) {
            plane.stage(simd, OUTPUT_TILE, from, group, first + c, staged);
        }
        for c in 0..count {
            let (staged, to) = (&staged[c * area..], &mut to[(first + c) * planes.stride..]);
            outline(simd, InputTiles { staged, phase, width, down, across, to, plane: planes.plane });
        }
    }
}

/// Transforms the kernels of a line of output channels, from `first` on, for some input channels.
#[inline(always)]
fn transform_line<S: Simd>(
    simd: S,
    kernel: &Filter,
    first: usize,
    channels: Range<usize>,
    wide: &mut Vec<f32>,
    to: &mut [f32],
) {
    let taps = KERNEL * channels.start..KERNEL * channels.end;
    // A line extends past a panel.
    let half = PANEL * taps.len() + LINE;
    let wide = scratch_slice(wide, 2 * half);
    for (first, wide) in [first, first + PANEL].into_iter().zip(wide.chunks_exact_mut(half)) {
        if first < kernel.packed.channels() {
            kernel.packed.widen(first, taps.clone(), wide);
            spread_out(wide, taps.len(), kernel.packed.height(first));
        }
    }
    let halves = [&wide[..], &wide[half - HALF..]];
    outline(simd, Lines { halves, to: &mut to[..channels.len() * STEP] });
}

/// Spreads the taps of a partial panel to the distance of a full one.
#[inline(always)]
fn spread_out(wide: &mut [f32], taps: usize, height: usize) {
    if height < PANEL {
        for tap in (0..taps).rev() {
            wide.copy_within(tap * height..(tap + 1) * height, tap * PANEL);
        }
    }
}

/// Position of an output channel in a line.
#[inline(always)]
const fn place_of(channel: usize) -> usize {
    channel / PANEL * HALF + channel % PANEL
}

/// Sums over the input channels, for one of the 16 positions of the transformed tiles.
struct PlaceSums<'a> {
    /// One line of output channels for every input channel.
    weights: &'a [f32],
    source: &'a [f32],
    /// Elements between channels, of the source and of the sums.
    stride: usize,
    sums: &'a mut [f32],
    tiles: usize,
    resume: bool,
}

impl PlaceSums<'_> {
    #[inline(always)]
    fn all<S: Simd, const M: usize>(self, simd: S) {
        let PlaceSums { weights, source, stride, sums, tiles, resume } = self;
        let mut at = 0;
        while at < tiles {
            let (source, sums, tiles) = (&source[at..], &mut sums[at..], tiles - at);
            at += match tail_width(tiles, S::F32_LANES) {
                None if const { S::REGISTER_COUNT >= 32 } && tiles > S::F32_LANES + S::F32_LANES / 2 => {
                    outline(simd, Shape::<M, 2> { weights, source, stride, sums, resume });
                    2 * S::F32_LANES
                }
                None => {
                    outline(simd, Shape::<M, 1> { weights, source, stride, sums, resume });
                    S::F32_LANES
                }
                Some(tail_width) => {
                    match tail_width {
                        2 if const { S::F32_LANES >= 4 } => {
                            outline(simd, TailKernel::<2>(PlaceSums { weights, source, stride, sums, tiles, resume }))
                        }
                        4 if const { S::F32_LANES >= 8 } => {
                            outline(simd, TailKernel::<4>(PlaceSums { weights, source, stride, sums, tiles, resume }))
                        }
                        8 if const { S::F32_LANES >= 16 } => {
                            outline(simd, TailKernel::<8>(PlaceSums { weights, source, stride, sums, tiles, resume }))
                        }
                        // `tail_width` returns at most half a vector.
                        _ => return,
                    }
                    tail_width
                }
            }
        }
    }
}

/// Register tile: `M` channels by `N` vectors of tiles.
struct Shape<'a, const M: usize, const N: usize> {
    weights: &'a [f32],
    source: &'a [f32],
    stride: usize,
    sums: &'a mut [f32],
    resume: bool,
}

impl<const M: usize, const N: usize> WithSimd for Shape<'_, M, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Shape { weights, source, stride, sums: to, resume } = self;
        let mut sums = [[simd.splat_f32s(0.0); N]; M];
        if resume {
            for (m, sums) in sums.iter_mut().enumerate() {
                sums.copy_from_slice(S::as_simd_f32s(&to[m * stride..][..N * S::F32_LANES]).0);
            }
        }
        for (c, weights) in weights.as_chunks::<STEP>().0.iter().enumerate() {
            let (vectors, _) = S::as_simd_f32s(&source[c * stride..][..N * S::F32_LANES]);
            let Some(x) = vectors.first_chunk::<N>() else { return };
            for m in 0..M {
                let weight = simd.splat_f32s(weights[place_of(m)]);
                for n in 0..N {
                    sums[m][n] = simd.mul_add_f32s(weight, x[n], sums[m][n]);
                }
            }
        }
        for (m, sums) in sums.iter().enumerate() {
            S::as_mut_simd_f32s(&mut to[m * stride..][..N * S::F32_LANES]).0.copy_from_slice(sums);
        }
    }
}

/// Tail kernel: a few tiles, with vectors over output channels.
struct TailKernel<'a, const R: usize>(PlaceSums<'a>);

/// Most tiles of a [`TailKernel`].
const MOST_TAIL: usize = 8;

impl<const R: usize> WithSimd for TailKernel<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let TailKernel(of) = self;
        of.sum_tail(simd, R);
    }
}

impl PlaceSums<'_> {
    /// [`TailKernel`]; its width is a constant after inlining. The function is one copy of LLVM IR.
    #[inline(always)]
    fn sum_tail<S: Simd>(self, simd: S, width: usize) {
        const MOST: usize = 4;
        let PlaceSums { weights, source, stride, sums: to, tiles, resume } = self;
        let vectors = const { if LINE / S::F32_LANES < MOST { LINE / S::F32_LANES } else { MOST } };
        let mut sums = [[simd.splat_f32s(0.0); MOST]; MOST_TAIL];
        if resume {
            for (r, sums) in sums.iter_mut().enumerate().take(tiles) {
                let mut line = [0.0; LINE];
                for m in 0..HEIGHT {
                    line[place_of(m)] = to[m * stride + r];
                }
                sums[..vectors].copy_from_slice(&S::as_simd_f32s(&line).0[..vectors]);
            }
        }
        for (c, line) in weights.as_chunks::<STEP>().0.iter().enumerate() {
            let line = S::as_simd_f32s(&line[..LINE]).0;
            let x = &source[c * stride..][..width];
            for r in 0..width {
                let x = simd.splat_f32s(x[r]);
                for v in 0..vectors {
                    sums[r][v] = simd.mul_add_f32s(line[v], x, sums[r][v]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate().take(tiles) {
            let mut line = [0.0; LINE];
            S::as_mut_simd_f32s(&mut line).0[..vectors].copy_from_slice(&sums[..vectors]);
            for m in 0..HEIGHT {
                to[m * stride + r] = line[place_of(m)];
            }
        }
    }
}
