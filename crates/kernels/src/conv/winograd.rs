//! Convolutions of 3x3 kernels and stride 1 in the model `fast`, in Winograd's form F(2x2, 3x3): a square of 2x2 outputs takes 16
//! multiplications a channel in place of 36.
//!
//! The 4x4 numbers that a square of outputs reads, and the kernel, are transformed; their products are summed over the channels,
//! in the channels' order; the sums are transformed back (A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks",
//! 2015). All of it is fp32, and the result is rounded once. `docs/numerics.md` tells how its error compares with that of sums over
//! the taps. What is not finite would spread within a square of outputs, so such sources and kernels go the plain way.

use crate::conv::depthwise::Plane;
use crate::epilogue::Epilogue;
use crate::filter::Filter;
use crate::gemm::microkernel::PANEL;
use crate::host::Rows;
use crate::simd;
use crate::tensor::Extents;
use crate::view::{OutputTile, TensorView};
use crate::window::Window;
use crate::workers::{Scratch, outline, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Sides of the output tile and of the input tile, and elements of the latter.
const OUTPUT_TILE: usize = 2;
const INPUT_TILE: usize = 4;
const PLACES: usize = INPUT_TILE * INPUT_TILE;
/// Elements of a kernel.
const KERNEL: usize = 9;
/// Output channels whose sums are formed together: two panels, each in half a line.
const HEIGHT: usize = 2 * PANEL;
const HALF: usize = 8;
const LINE: usize = 2 * HALF;
/// Elements between the lines of input channels: padded by one line to avoid cache-set conflicts.
const STEP: usize = (PLACES + 1) * LINE;
/// Input channels between two visits to the sums.
const CHANNELS: usize = 128;
/// Transformed kernels that are kept for all squares.
const KEPT: usize = 3 << 17;
/// Transformed numbers of the source that stay near a core.
const NEAR: usize = 1 << 18;
/// Numbers that are staged before they are read: what was written a moment ago in other pieces cannot be read at once.
const ELSEWHERE: usize = 1 << 12;
/// Numbers of the longest vectors.
const LONGEST: usize = 16;

/// What work takes, in multiply-additions of the longest vectors: to transform a line of kernels, a vector of squares of a source,
/// and one of a result; and the least that sums of a few squares take, for each transformed number of a channel.
const KERNELS: usize = 60;
const SQUARES: usize = 80;
const RESULTS: usize = 80;
const FEW: usize = 4;

/// Whether the cost model favours Winograd over direct convolution.
pub fn is_profitable(window: &Window, channels: usize, to: Extents) -> bool {
    if window.k != [3; 2] || window.s != [1; 2] || to.array().contains(&0) {
        return false;
    }
    let [down, across] = squares(to.h, to.w);
    if channels * PLACES * stride(1, across) > 2 * NEAR {
        return false;
    }
    let taps = KERNEL * channels * to.c * (to.plane() / LONGEST).max(1);
    // By a tenth at least: both are estimates.
    10 * cost(channels, to.c, down, across) < 9 * taps
}

fn cost(channels: usize, to_channels: usize, down: usize, across: usize) -> usize {
    let (panels, n) = (to_channels.div_ceil(PANEL), down * across);
    let rest = match (n % LONGEST, few(n % LONGEST, LONGEST)) {
        (0, _) => 0,
        (_, Some(few)) => few.max(FEW),
        (_, None) => HEIGHT,
    };
    let columns = HEIGHT * (n / LONGEST) + rest;
    let blocks = down.div_ceil(rows_at_once(channels, down, across));
    let vectors = down * across.div_ceil(LONGEST);
    channels * panels * (PLACES * columns + blocks * KERNELS) / 2
        + vectors * (channels * SQUARES + to_channels * RESULTS)
}

/// How a result is best cut for so many threads: rows and channels of a share.
pub fn cut_of(channels: usize, to: Extents, threads: usize) -> [usize; 2] {
    let [down, across] = squares(to.h, to.w);
    let rows = down.div_ceil(threads);
    let some = to.c.div_ceil(threads).next_multiple_of(HEIGHT);
    if cost(channels, to.c, rows, across) <= cost(channels, some, down, across) {
        [OUTPUT_TILE * rows, to.c]
    } else {
        [OUTPUT_TILE * down, some]
    }
}

fn squares(rows: usize, columns: usize) -> [usize; 2] {
    [rows.div_ceil(OUTPUT_TILE), columns.div_ceil(OUTPUT_TILE)]
}

/// Elements between the channels of a transformed source: the last vector may reach into the next channel's, or beyond. Never a
/// multiple of a large power of two, which caches keep in few places.
fn stride(down: usize, across: usize) -> usize {
    (down * across).next_multiple_of(LONGEST) | LONGEST
}

/// Rows of squares that are worked on together.
fn rows_at_once(channels: usize, down: usize, across: usize) -> usize {
    let elements = |rows: usize| channels * PLACES * (rows * across).next_multiple_of(LONGEST);
    let most = (1..=down).take_while(|&rows| elements(rows) <= NEAR).last().unwrap_or(1);
    down.div_ceil(down.div_ceil(most))
}

/// How many of the squares behind the last whole vector are taken with channels side by side in place of squares.
fn few(squares: usize, lanes: usize) -> Option<usize> {
    [2, 4, 8].into_iter().find(|&few| squares <= few && few <= lanes / 2)
}

/// Whether all elements are finite.
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

/// One share at work. Its first row is even.
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
        let [down, across] = squares(share.rows, columns);
        let at_once = rows_at_once(channels, down, across);
        // Squares are windows of their own.
        let windows = Window { k: [INPUT_TILE; 2], s: [OUTPUT_TILE; 2], ..window.clone() };
        let segment = channels.min(CHANNELS);
        let source = Planes::of(channels, stride(at_once, across));
        // Elements of a line's transformed kernels for a segment; the last places are read as far as a whole step.
        let weights = segment * STEP + PLACES * LINE;
        let sums = Planes::of(HEIGHT, source.stride);
        let result = OUTPUT_TILE * across.next_multiple_of(LONGEST);
        let [lines, segments] = [share.channels().div_ceil(HEIGHT), channels.div_ceil(segment)];
        let kept = down > at_once && lines * segments * weights <= KEPT;
        let Scratch { packed, wide, panel, sums: buffer, staged, .. } = scratch;
        let transformed = scratch_slice(packed, source.elements());
        let kernels = scratch_slice(panel, weights * if kept { lines * segments } else { 1 });
        let buffer = scratch_slice(buffer, sums.elements() + OUTPUT_TILE * at_once * result);
        let (products, results) = buffer.split_at_mut(sums.elements());
        for first in (0..down).step_by(at_once) {
            let count = at_once.min(down - first);
            let first_row = share.first_row / OUTPUT_TILE + first;
            let plane = Plane::of::<OUTPUT_TILE>(&windows, [first_row, count], across, S::F32_LANES);
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
                            squares: count * across,
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

/// Transforms some rows of squares of all channels of a source.
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
    // What surrounds the source stays as it is.
    staged.fill(0.0);
    for first in (0..channels).step_by(at_once) {
        let count = at_once.min(channels - first);
        for (c, staged) in staged.chunks_exact_mut(area).enumerate().take(count) {
            plane.stage::<S, OUTPUT_TILE>(simd, from, group, first + c, staged);
        }
        for c in 0..count {
            let (staged, to) = (&staged[c * area..], &mut to[(first + c) * planes.stride..]);
            outline(simd, Squares { staged, phase, width, down, across, to, plane: planes.plane });
        }
    }
}

/// Transforms the kernels of a line of output channels from one on, for some input channels.
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
    // A line reaches further than a panel.
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

/// Gives taps of fewer channels than a panel are as far apart as others.
#[inline(always)]
fn spread_out(wide: &mut [f32], taps: usize, height: usize) {
    if height < PANEL {
        for tap in (0..taps).rev() {
            wide.copy_within(tap * height..(tap + 1) * height, tap * PANEL);
        }
    }
}

/// How transformed numbers lie: by place in a square, then channel.
struct Planes {
    stride: usize,
    /// Elements between places.
    plane: usize,
}

impl Planes {
    fn of(channels: usize, stride: usize) -> Planes {
        Planes { stride, plane: channels * stride + LONGEST }
    }

    fn elements(&self) -> usize {
        PLACES * self.plane + LONGEST
    }
}

#[inline(always)]
fn load<S: Simd>(from: &[f32], at: usize) -> S::f32s {
    S::as_simd_f32s(&from[at..][..S::F32_LANES]).0[0]
}

#[inline(always)]
fn store<S: Simd>(x: S::f32s, to: &mut [f32], at: usize) {
    S::as_mut_simd_f32s(&mut to[at..][..S::F32_LANES]).0[0] = x;
}

/// Transforms a channel's squares.
struct Squares<'a> {
    /// Columns at even places, and at odd ones a phase further; rows a width apart.
    staged: &'a [f32],
    phase: usize,
    width: usize,
    down: usize,
    across: usize,
    to: &'a mut [f32],
    plane: usize,
}

impl WithSimd for Squares<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Squares { staged, phase, width, down, across, to, plane } = self;
        let mut places = <[&mut [f32]; PLACES]>::default();
        let reached = (down - 1) * across + across.next_multiple_of(S::F32_LANES);
        for (place, to) in places.iter_mut().zip(to.chunks_mut(plane)) {
            *place = &mut to[..reached];
        }
        for row in 0..down {
            let mut columns = [[staged; 2]; INPUT_TILE];
            for (i, columns) in columns.iter_mut().enumerate() {
                let at = (OUTPUT_TILE * row + i) * width;
                *columns = [&staged[at..][..width + LONGEST], &staged[at + phase..][..width + LONGEST]];
            }
            for column in (0..across).step_by(S::F32_LANES) {
                let mut rows = [[simd.splat_f32s(0.0); INPUT_TILE]; INPUT_TILE];
                for (to, [even, odd]) in rows.iter_mut().zip(columns) {
                    // One more than a vector has.
                    let (Some(even), Some(odd)) = (even[column..].first_chunk(), odd[column..].first_chunk()) else {
                        return;
                    };
                    let [even, odd]: [&[f32; LONGEST + 1]; 2] = [even, odd];
                    let (x, y) = (load::<S>(even, 0), load::<S>(odd, 0));
                    let (z, w) = (load::<S>(even, 1), load::<S>(odd, 1));
                    *to = transform(simd, [x, y, z, w]);
                }
                for j in 0..INPUT_TILE {
                    let done = transform(simd, [rows[0][j], rows[1][j], rows[2][j], rows[3][j]]);
                    for i in 0..INPUT_TILE {
                        store::<S>(done[i], places[i * INPUT_TILE + j], row * across + column);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn transform<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; INPUT_TILE]) -> [S::f32s; INPUT_TILE] {
    [simd.sub_f32s(a, c), simd.add_f32s(b, c), simd.sub_f32s(c, b), simd.sub_f32s(b, d)]
}

/// Transforms the kernels of two panels, input channel by input channel, to lines of output channels.
struct Lines<'a> {
    /// Coefficients by panel, tap by tap; those of the second one behind half a line.
    halves: [&'a [f32]; 2],
    to: &'a mut [f32],
}

impl WithSimd for Lines<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Lines { halves: [first, second], to } = self;
        let half = simd.splat_f32s(0.5);
        for (to, at) in to.as_chunks_mut::<STEP>().0.iter_mut().zip((0..).step_by(KERNEL * PANEL)) {
            let (Some(first), Some(second)) = (first[at..].first_chunk(), second[at..].first_chunk()) else { return };
            let halves: [&[f32; KERNEL * PANEL + LINE]; 2] = [first, second];
            for part in (0..LINE).step_by(S::F32_LANES) {
                let mut columns = [[half; INPUT_TILE]; 3];
                for (i, column) in columns.iter_mut().enumerate() {
                    let (x, y) = (both(simd, halves, 3 * i, part), both(simd, halves, 3 * i + 1, part));
                    *column = spread(simd, half, [x, y, both(simd, halves, 3 * i + 2, part)]);
                }
                let [first, second, third] = &columns;
                for (j, ((&x, &y), &z)) in first.iter().zip(second).zip(third).enumerate() {
                    for (i, done) in spread(simd, half, [x, y, z]).into_iter().enumerate() {
                        store::<S>(done, to, (i * INPUT_TILE + j) * LINE + part);
                    }
                }
            }
        }
    }
}

/// A part of a line of coefficients: from the first half up to its middle, from the second one behind it.
#[inline(always)]
fn both<S: Simd>(simd: S, [first, second]: [&[f32; KERNEL * PANEL + LINE]; 2], tap: usize, part: usize) -> S::f32s {
    let at = tap * PANEL + part;
    if part + S::F32_LANES <= HALF {
        load::<S>(first, at)
    } else if part >= HALF {
        load::<S>(second, at)
    } else {
        let mask = simd.mask_between_m32s(0, HALF as u32).mask();
        simd.select_f32s(mask, load::<S>(first, at), load::<S>(second, at))
    }
}

/// The halves are exact.
#[inline(always)]
fn spread<S: Simd>(simd: S, half: S::f32s, [a, b, c]: [S::f32s; 3]) -> [S::f32s; INPUT_TILE] {
    let (outer, inner) = (simd.mul_f32s(simd.add_f32s(a, c), half), simd.mul_f32s(b, half));
    [a, simd.add_f32s(outer, inner), simd.sub_f32s(outer, inner), c]
}

/// Where a line has one of its output channels.
#[inline(always)]
const fn place_of(channel: usize) -> usize {
    channel / PANEL * HALF + channel % PANEL
}

/// Sums over channels, for one place of the squares.
struct PlaceSums<'a> {
    /// A line of output channels for every channel.
    weights: &'a [f32],
    source: &'a [f32],
    /// Elements between channels, in the source and in the sums.
    stride: usize,
    sums: &'a mut [f32],
    squares: usize,
    resume: bool,
}

impl PlaceSums<'_> {
    #[inline(always)]
    fn all<S: Simd, const M: usize>(self, simd: S) {
        let PlaceSums { weights, source, stride, sums, squares, resume } = self;
        let mut at = 0;
        while at < squares {
            let (source, sums, squares) = (&source[at..], &mut sums[at..], squares - at);
            at += match few(squares, S::F32_LANES) {
                None if const { S::REGISTER_COUNT >= 32 } && squares > S::F32_LANES + S::F32_LANES / 2 => {
                    outline(simd, Shape::<M, 2> { weights, source, stride, sums, resume });
                    2 * S::F32_LANES
                }
                None => {
                    outline(simd, Shape::<M, 1> { weights, source, stride, sums, resume });
                    S::F32_LANES
                }
                Some(few) => {
                    match few {
                        2 if const { S::F32_LANES >= 4 } => {
                            outline(simd, TailKernel::<2> { weights, source, stride, sums, squares, resume })
                        }
                        4 if const { S::F32_LANES >= 8 } => {
                            outline(simd, TailKernel::<4> { weights, source, stride, sums, squares, resume })
                        }
                        8 if const { S::F32_LANES >= 16 } => {
                            outline(simd, TailKernel::<8> { weights, source, stride, sums, squares, resume })
                        }
                        // `few` asks for half a vector at most.
                        _ => return,
                    }
                    few
                }
            }
        }
    }
}

/// `M` channels of `N` vectors of squares.
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

/// A few squares, with output channels side by side.
struct TailKernel<'a, const R: usize> {
    weights: &'a [f32],
    source: &'a [f32],
    stride: usize,
    sums: &'a mut [f32],
    /// At most `R`.
    squares: usize,
    resume: bool,
}

impl<const R: usize> WithSimd for TailKernel<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        const MOST: usize = 4;
        let TailKernel { weights, source, stride, sums: to, squares, resume } = self;
        let vectors = const { if LINE / S::F32_LANES < MOST { LINE / S::F32_LANES } else { MOST } };
        let mut sums = [[simd.splat_f32s(0.0); MOST]; R];
        if resume {
            for (r, sums) in sums.iter_mut().enumerate().take(squares) {
                let mut line = [0.0; LINE];
                (0..HEIGHT).for_each(|m| line[place_of(m)] = to[m * stride + r]);
                sums[..vectors].copy_from_slice(&S::as_simd_f32s(&line).0[..vectors]);
            }
        }
        for (c, line) in weights.as_chunks::<STEP>().0.iter().enumerate() {
            let line = S::as_simd_f32s(&line[..LINE]).0;
            let Some(x) = source[c * stride..].first_chunk::<R>() else { return };
            for r in 0..R {
                let x = simd.splat_f32s(x[r]);
                for v in 0..vectors {
                    sums[r][v] = simd.mul_add_f32s(line[v], x, sums[r][v]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate().take(squares) {
            let mut line = [0.0; LINE];
            S::as_mut_simd_f32s(&mut line).0[..vectors].copy_from_slice(&sums[..vectors]);
            (0..HEIGHT).for_each(|m| to[m * stride + r] = line[place_of(m)]);
        }
    }
}

/// Transforms a channel's sums to rows of outputs.
struct Results<'a> {
    from: &'a [f32],
    plane: usize,
    down: usize,
    across: usize,
    to: &'a mut [f32],
    /// Elements between rows of outputs.
    stride: usize,
}

impl WithSimd for Results<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Results { from, plane, down, across, to, stride } = self;
        let mut places = [from; PLACES];
        let reached = (down - 1) * across + across.next_multiple_of(S::F32_LANES);
        for (place, from) in places.iter_mut().zip(from.chunks(plane)) {
            *place = &from[..reached];
        }
        for row in 0..down {
            for column in (0..across).step_by(S::F32_LANES) {
                let at = row * across + column;
                let mut rows = [[simd.splat_f32s(0.0); OUTPUT_TILE]; INPUT_TILE];
                for (to, places) in rows.iter_mut().zip(places.as_chunks::<INPUT_TILE>().0) {
                    let (x, y) = (load::<S>(places[0], at), load::<S>(places[1], at));
                    *to = gather(simd, [x, y, load::<S>(places[2], at), load::<S>(places[3], at)]);
                }
                let even = gather(simd, [rows[0][0], rows[1][0], rows[2][0], rows[3][0]]);
                let odd = gather(simd, [rows[0][1], rows[1][1], rows[2][1], rows[3][1]]);
                for i in 0..OUTPUT_TILE {
                    let at = (OUTPUT_TILE * row + i) * stride + OUTPUT_TILE * column;
                    simd::interleave(simd, even[i], odd[i], &mut to[at..][..OUTPUT_TILE * S::F32_LANES]);
                }
            }
        }
    }
}

#[inline(always)]
fn gather<S: Simd>(simd: S, [a, b, c, d]: [S::f32s; INPUT_TILE]) -> [S::f32s; OUTPUT_TILE] {
    [simd.add_f32s(simd.add_f32s(a, b), c), simd.sub_f32s(simd.sub_f32s(b, c), d)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::Coefficients;
    use crate::conv::{Im2col, Kernels, TensorViewMut, convolve, convolve_direct, convolve_winograd};
    use crate::epilogue::Activation;
    use crate::filter::Values;
    use crate::view::{dense, partition};
    use crate::workers::{Workers, arches};

    /// A convolution of numbers of both signs and many magnitudes.
    struct Case {
        window: Window,
        ext: Extents,
        cin: usize,
        staging: Im2col,
        weights: Vec<f16>,
        x: Vec<f16>,
    }

    impl Case {
        fn of([cin, cout, h, w]: [usize; 4], p: [usize; 2]) -> Case {
            let draw = |i: usize| {
                let mixed = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                f16::from_f32(((mixed % 2001) as f32 / 1000.0 - 1.0) * 2f32.powi((mixed >> 40) as i32 % 6 - 3))
            };
            let ext = Extents { g: 1, c: cout, h: h + 2 * p[0] - 2, w: w + 2 * p[1] - 2 };
            let window = Window { k: [3; 2], s: [1; 2], p, from: [h, w], to: [ext.h, ext.w] };
            let staging =
                Im2col::new(window.clone(), cin, false, ext, rayon::current_num_threads()).expect("it is small");
            let (weights, x) = ((0..cout * cin * KERNEL).map(draw), (0..cin * h * w).map(|i| draw(i + 99991)));
            Case { window, ext, cin, staging, weights: weights.collect(), x: x.collect() }
        }

        fn kernels(&self) -> Kernels {
            let weights = Values::Halves(self.weights.clone());
            let groups = [Coefficients { weights, biases: Some(vec![0.0; self.ext.c]) }];
            Kernels::pack(&self.staging, false, self.ext.c, groups.into())
        }

        fn source(&self) -> TensorView<'_> {
            let [h, w] = self.window.from;
            TensorView { data: &self.x, strides: [0, h * w, w] }
        }

        /// What an output meets: the sum, and the largest that its square could be.
        fn sum(&self, [c, h, w]: [usize; 3]) -> [f64; 2] {
            let Window { p, from, .. } = &self.window;
            let at = |k: usize, h: usize, w: usize| {
                let inside =
                    (h >= p[0] && w >= p[1]).then(|| [h - p[0], w - p[1]]).filter(|&[h, w]| h < from[0] && w < from[1]);
                inside.map_or(0.0, |[h, w]| self.x[(k * from[0] + h) * from[1] + w].to_f64())
            };
            let mut sums = [0.0; 2];
            for k in 0..self.cin {
                let weights = &self.weights[(c * self.cin + k) * KERNEL..][..KERNEL];
                sums[0] += (0..KERNEL).map(|i| weights[i].to_f64() * at(k, h + i / 3, w + i % 3)).sum::<f64>();
                let read = (0..PLACES).map(|i| {
                    at(
                        k,
                        h / OUTPUT_TILE * OUTPUT_TILE + i / INPUT_TILE,
                        w / OUTPUT_TILE * OUTPUT_TILE + i % INPUT_TILE,
                    )
                    .abs()
                });
                sums[1] += read.fold(0.0, f64::max) * weights.iter().map(|w| w.to_f64().abs()).sum::<f64>();
            }
            sums
        }
    }

    fn places(ext: Extents) -> impl Iterator<Item = [usize; 3]> {
        (0..ext.c).flat_map(move |c| (0..ext.h).flat_map(move |h| (0..ext.w).map(move |w| [c, h, w])))
    }

    /// The same bits by every instruction set and however the result is cut, in buffers that held NaN; within what fp32 resolves
    /// of the true sums.
    #[test]
    fn squares_have_the_sums_of_their_taps() {
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        let shapes = [[3, 5, 8, 8], [40, 30, 7, 9], [130, 24, 6, 33], [20, 13, 11, 70], [9, 12, 5, 4], [300, 17, 3, 3]];
        let cases = shapes.into_iter().flat_map(|shape| [[1, 1], [0, 1], [2, 0], [5, 4]].map(|p| Case::of(shape, p)));
        for case in cases {
            let ext = case.ext;
            let kernels = case.kernels();
            let run = |arch, rows, channels| {
                let mut data = vec![f16::NAN; ext.c * ext.plane()];
                Workers::used(arch).each(
                    partition(&mut data, ext, dense(ext), rows, channels),
                    false,
                    |share, scratch| {
                        let kernel = kernels.of(share).expect("there is one");
                        let (window, from) = (&case.window, case.source());
                        let (channels, columns, finish) = (case.cin, ext.w, &finish);
                        arch.dispatch(Job { kernel, finish, window, channels, from, columns, share, scratch });
                    },
                );
                data
            };
            let whole = run(pulp::Arch::new(), ext.h, ext.c);
            for (place, found) in places(ext).zip(&whole) {
                let [sum, most] = case.sum(place);
                let rounding = (sum.abs() / 2048.0).max(2f64.powi(-25));
                let off = (found.to_f64() - sum).abs();
                assert!(off <= rounding + most * 2f64.powi(-22), "{place:?} of {:?}: {found} for {sum}", case.window);
            }
            for arch in arches() {
                for (rows, channels) in [(ext.h, ext.c), (2, HEIGHT), (4, 2 * HEIGHT)] {
                    assert!(run(arch, rows, channels) == whole, "{:?}, {arch:?}, {rows}, {channels}", case.window);
                }
            }
        }
    }

    /// One infinity stays where it belongs, and so does a NaN among the coefficients.
    #[test]
    fn non_finite_falls_back_to_direct() {
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        let mut case = Case::of([64, 64, 14, 14], [1, 1]);
        assert!(is_profitable(&case.window, case.cin, case.ext));
        let run = |case: &Case| {
            let mut data = vec![f16::ZERO; case.ext.c * case.ext.plane()];
            let to = TensorViewMut { data: &mut data, strides: dense(case.ext), transposed: false };
            convolve(&Workers::new(), &case.staging, &case.kernels(), &finish, case.source(), to, case.ext);
            data
        };
        case.x[5 * 14 + 6] = f16::INFINITY;
        for ([_, h, w], found) in places(case.ext).zip(run(&case)) {
            let near = h.abs_diff(5) <= 1 && w.abs_diff(6) <= 1;
            assert_eq!(found.is_finite(), !near, "row {h}, column {w}");
        }
        case.x[5 * 14 + 6] = f16::ONE;
        case.weights[7 * 64 * KERNEL] = f16::NAN;
        for ([c, h, w], found) in places(case.ext).zip(run(&case)) {
            assert_eq!(found.is_nan(), c == 7, "channel {c}, row {h}, column {w}");
        }
    }

    /// Few outputs are rounded to another neighbour than the true sum.
    #[test]
    fn sums_are_as_good_as_those_of_taps() {
        let finish = Epilogue { bias: 0.0, scale: 1.0, activation: &Activation::None };
        for shape in [[64, 48, 14, 14], [256, 48, 14, 14], [16, 48, 28, 28]] {
            let case = Case::of(shape, [1, 1]);
            let (ext, kernels, workers) = (case.ext, case.kernels(), Workers::new());
            let run = |by: fn(&Workers, &Im2col, &Kernels, &Epilogue, TensorView, TensorViewMut, Extents)| {
                let mut data = vec![f16::ZERO; ext.c * ext.plane()];
                let to = TensorViewMut { data: &mut data, strides: dense(ext), transposed: false };
                by(&workers, &case.staging, &kernels, &finish, case.source(), to, ext);
                let wrong = places(ext).zip(&data).filter(|(place, x)| f16::from_f64(case.sum(*place)[0]) != **x);
                wrong.count()
            };
            let squares = run(|w, s, k, f, from, to, ext| convolve_winograd(w, s, k, f, from, to, ext, false));
            let taps = run(|w, s, k, f, from, to, ext| convolve_direct(w, s, k, f, from, to, ext, false, false));
            assert!(squares <= 3 * taps && 100 * squares < ext.c * ext.plane(), "{shape:?}: {squares}, {taps}");
        }
    }
}
