//! Depthwise convolution and pooling in fp32, for 1x1, 3x3 and 5x5 windows and the like.
//!
//! Staged rows are aligned to vectors, and with stride 2 the even and odd columns have planes of their own. Several output rows are
//! computed together, so that an element of a staged row is loaded once for all outputs that read it.
//!
//! Sums are taken in the order of the taps, as in [`crate::convolve_direct`].

use crate::convolution::im2col::stage_pairs;
use crate::convolution::{L1_BATCH, MOST_AT_ONCE};
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::host::Rows;
use anemone_kernels::line::BLOCK;
use anemone_kernels::reduce::ElementwiseEpilogue;
use anemone_kernels::simd::{self, LaneMap};
use anemone_kernels::view::{OutputTile, TensorView};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, outline, scratch_slice};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Elements of the largest specialized window.
const ELEMENTS: usize = 5 * 5;

/// Reduction of a channel's windows.
#[derive(Clone, Copy)]
pub enum WindowOp<'a> {
    /// Weighted sums (convolution), with their epilogue.
    Kernel(&'a Filter, &'a Epilogue<'a>),
    /// Maxima if true, otherwise sums (pooling), with their epilogue.
    Pool(bool, &'a ElementwiseEpilogue<f32>),
}

impl WindowOp<'_> {
    /// Returns true if the window is specialized.
    pub fn executes(self, window: &Window) -> bool {
        match self {
            WindowOp::Kernel(..) => convolves(window),
            WindowOp::Pool(..) => is_square(window, [2, 3]),
        }
    }
}

/// Returns true if convolutions with this window are specialized.
pub fn convolves(window: &Window) -> bool {
    is_square(window, [3, 5]) || (window.k, window.s) == ([1; 2], [1; 2])
}

fn is_square(window: &Window, sides: [usize; 2]) -> bool {
    let ([k, other], [s, other_s]) = (window.k, window.s);
    sides.contains(&k) && k == other && matches!(s, 1 | 2) && s == other_s
}

/// Work of one thread: a depthwise window over a tile of the output.
pub struct Job<'a, 'b> {
    pub of: WindowOp<'a>,
    pub window: &'a Window,
    pub from: TensorView<'a>,
    pub columns: usize,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { of, window, from, columns, share, scratch } = self;
        if let WindowOp::Kernel(kernel, finish) = of
            && const { simd::converts::<S>() }
            && window.is_pointwise()
            && columns >= simd::LONGEST
        {
            return scale(simd, kernel, finish, from, columns, share);
        }
        let [side, stride] = [window.k[0], window.s[0]];
        let plane = Plane::of(stride, window, [share.first_row, share.rows], columns, S::F32_LANES);
        let across = columns.next_multiple_of(S::F32_LANES);
        // A single row is computed with another one behind it, which is not stored.
        let computed = if const { S::F32_LANES > 1 } { share.rows.max(LEAST_ROWS) } else { share.rows };
        let [area, outputs] = [stride * plane.rows * plane.width, computed * across];
        let channels = share.channels();
        let at_once = (L1_BATCH / area.max(1)).min(MOST_AT_ONCE).min(channels).max(1);
        let Scratch { staged, sums, .. } = scratch;
        // The last vectors of a row extend into the next one, and the row behind a single one is staged by nobody.
        let slack = plane.lead + plane.p + S::F32_LANES + (computed - share.rows) * stride * plane.width;
        let (staged, sums) = (scratch_slice(staged, at_once * area + slack), scratch_slice(sums, at_once * outputs));
        // Written once: staging a channel does not touch the halo.
        staged.fill(of.outside());
        let rows = Rows { count: share.rows, columns, from_stride: across, to_stride: columns };
        for first in (0..channels).step_by(at_once) {
            let count = at_once.min(channels - first);
            let channel = share.first_channel + first;
            for (c, staged) in staged.chunks_exact_mut(area).take(count).enumerate() {
                plane.stage(simd, stride, from, share.group, channel + c, staged);
            }
            for (c, sums) in sums.chunks_exact_mut(outputs).enumerate().take(count) {
                let (width, phase) = (plane.width, plane.rows * plane.width);
                let (source, weights) = (&staged[c * area + plane.lead..], &of.weights(channel + c, side));
                let bands = Bands { rows: computed, source, width, phase, weights, sums, across };
                of.sum(simd, channel + c, [side, stride], bands);
            }
            let sums = &mut sums[..count * outputs];
            if let WindowOp::Pool(_, ending) = of {
                ending.apply(sums);
            }
            let tabulated = matches!(of, WindowOp::Kernel(_, finish) if finish.tabulate_staged(simd, sums));
            share.store(
                [first, 0, 0],
                count,
                sums,
                outputs,
                rows,
                #[inline(always)]
                |from, to, rows| match of {
                    WindowOp::Kernel(_, finish) => finish.rows(simd, tabulated, from, to, rows),
                    WindowOp::Pool(..) => simd::round_rows(simd, from, to, rows),
                },
            );
        }
    }
}

/// Convolution with a 1x1 window and no padding, a factor for each channel, from fp16 to fp16 in registers.
#[inline(always)]
fn scale<S: Simd>(
    simd: S,
    kernel: &Filter,
    finish: &Epilogue,
    from: TensorView,
    columns: usize,
    share: &mut OutputTile,
) {
    share.blocks(
        columns,
        BLOCK,
        #[inline(always)]
        |block, to| {
            let (source, stride) = block.of_source(from);
            let rows = block.stored();
            // Rows of one channel without gaps are one row.
            let whole = block.is_of_one_channel() && [stride, rows.to_stride] == [columns; 2];
            let (count, columns) = if whole { (1, rows.count * columns) } else { (rows.count, columns) };
            for i in 0..count {
                let [_, channel, _] = block.row(i);
                let mut weight = [0.0];
                kernel.packed.widen_channel(channel, &mut weight);
                let of = Weighted { bias: kernel.bias(channel), finish };
                let stages = Product { weight: simd.splat_f32s(weight[0]), before: of.before(simd) };
                simd::map_halves(
                    simd,
                    stages,
                    &source[i * stride..][..columns],
                    &mut to[i * rows.to_stride..][..columns],
                );
            }
            finish.look_up(simd, to, rows);
        },
    );
}

/// Sum of one term, and the stages behind it.
#[derive(Clone, Copy)]
struct Product<V, B> {
    weight: V,
    before: B,
}

impl<S: Simd, B: LaneMap<S>> LaneMap<S> for Product<S::f32s, B> {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let none = simd.splat_f32s(Weighted::BEGIN);
        self.before.of(simd, Weighted::add(simd, self.weight, x, none))
    }
}

impl WindowOp<'_> {
    /// Padding value: the neutral element of the reduction.
    fn outside(self) -> f32 {
        match self {
            WindowOp::Pool(true, _) => Largest::BEGIN,
            WindowOp::Pool(false, _) | WindowOp::Kernel(..) => Sum::BEGIN,
        }
    }

    /// Coefficients of a channel's window, in row-major order.
    fn weights(self, channel: usize, side: usize) -> [f32; ELEMENTS] {
        let mut weights = [1.0; ELEMENTS];
        if let WindowOp::Kernel(kernel, _) = self {
            kernel.packed.widen_channel(channel, &mut weights[..side * side]);
        }
        weights
    }

    /// Reduces the windows of a channel, specialized by reduction, window side and stride.
    #[inline(always)]
    fn sum<S: Simd>(self, simd: S, channel: usize, side: [usize; 2], bands: Bands) {
        match (self, side) {
            (WindowOp::Kernel(kernel, finish), side) => {
                let of = Weighted { bias: kernel.bias(channel), finish };
                match side {
                    [1, _] => outline(simd, Windows::<_, 1, 1> { of, bands }),
                    [3, 1] => outline(simd, Windows::<_, 3, 1> { of, bands }),
                    [3, _] => outline(simd, Windows::<_, 3, 2> { of, bands }),
                    [_, 1] => outline(simd, Windows::<_, 5, 1> { of, bands }),
                    _ => outline(simd, Windows::<_, 5, 2> { of, bands }),
                }
            }
            (WindowOp::Pool(true, _), side) => pooled(simd, side, Largest, bands),
            (WindowOp::Pool(false, _), side) => pooled(simd, side, Sum, bands),
        }
    }
}

#[inline(always)]
fn pooled<S: Simd>(simd: S, side: [usize; 2], of: impl Reduction, bands: Bands) {
    match side {
        [2, 1] => outline(simd, Windows::<_, 2, 1> { of, bands }),
        [2, _] => outline(simd, Windows::<_, 2, 2> { of, bands }),
        [_, 1] => outline(simd, Windows::<_, 3, 1> { of, bands }),
        _ => outline(simd, Windows::<_, 3, 2> { of, bands }),
    }
}

/// Reduction of the elements of a window to one number.
trait Reduction: Copy {
    /// Initial value of a result.
    const BEGIN: f32;

    /// Accumulates one element.
    fn add<S: Simd>(simd: S, weight: S::f32s, x: S::f32s, sum: S::f32s) -> S::f32s;

    /// Vector stages between the sum and its rounding.
    fn before<S: Simd>(self, simd: S) -> impl LaneMap<S>;
}

/// Weighted sum with the epilogue of a convolution.
#[derive(Clone, Copy)]
struct Weighted<'a> {
    bias: f32,
    finish: &'a Epilogue<'a>,
}

impl Reduction for Weighted<'_> {
    const BEGIN: f32 = 0.0;

    #[inline(always)]
    fn add<S: Simd>(simd: S, weight: S::f32s, x: S::f32s, sum: S::f32s) -> S::f32s {
        simd.mul_add_f32s(weight, x, sum)
    }

    #[inline(always)]
    fn before<S: Simd>(self, simd: S) -> impl LaneMap<S> {
        self.finish.before(simd, self.bias)
    }
}

/// Maximum; NaN is skipped.
#[derive(Clone, Copy)]
struct Largest;

impl Reduction for Largest {
    const BEGIN: f32 = f32::NEG_INFINITY;

    #[inline(always)]
    fn add<S: Simd>(simd: S, _: S::f32s, x: S::f32s, most: S::f32s) -> S::f32s {
        simd.select_f32s(simd.greater_than_f32s(x, most), x, most)
    }

    #[inline(always)]
    fn before<S: Simd>(self, _: S) -> impl LaneMap<S> {}
}

/// Unweighted sum.
#[derive(Clone, Copy)]
struct Sum;

impl Reduction for Sum {
    const BEGIN: f32 = 0.0;

    #[inline(always)]
    fn add<S: Simd>(simd: S, _: S::f32s, x: S::f32s, sum: S::f32s) -> S::f32s {
        simd.add_f32s(sum, x)
    }

    #[inline(always)]
    fn before<S: Simd>(self, _: S) -> impl LaneMap<S> {}
}

/// Layout of a staged channel: one plane for each stride phase of the columns.
pub struct Plane {
    /// Staged rows; `inside`: those inside the source; `first`: the source row of the first of these.
    pub rows: usize,
    inside: Range<usize>,
    first: usize,
    /// Columns of the source that are staged.
    across: usize,
    /// Row stride; `lead`: elements before the first column that an output reads; `p`: leading padding.
    pub width: usize,
    lead: usize,
    p: usize,
}

impl Plane {
    #[inline(always)]
    pub fn of(stride: usize, window: &Window, share_rows: [usize; 2], columns: usize, lanes: usize) -> Plane {
        let Window { k, p, from, .. } = window;
        let (rows, inside, first) = window.input_rows(share_rows);
        let across = ((columns - 1) * stride + k[1]).saturating_sub(p[1]).min(from[1]);
        // Aligns the first source column to vectors, which the middle tap of an evenly padded window reads.
        let lead = if stride == 1 { (lanes - p[1] % lanes) % lanes } else { 0 };
        let (data, read) = (lead + (p[1] + across).div_ceil(stride), lead + columns + (k[1] - 1) / stride);
        // The elements behind the last column of a row double as the left halo of the next row.
        let shared = if stride == 1 { lead + p[1] } else { 0 };
        let width = data.max(read.saturating_sub(shared)).next_multiple_of(lanes);
        Plane { rows, inside, first, across, width, lead, p: p[1] }
    }

    #[inline(always)]
    pub fn stage<S: Simd>(
        &self,
        simd: S,
        stride: usize,
        from: TensorView,
        group: usize,
        channel: usize,
        to: &mut [f32],
    ) {
        let &Plane { rows, ref inside, first, across, width, lead, p } = self;
        if inside.is_empty() || across == 0 {
            return;
        }
        let source = from.from(group, channel, first);
        let read = Rows { count: inside.len(), columns: across, from_stride: from.strides[2], to_stride: width };
        let begin = inside.start * width + lead;
        if stride == 1 {
            return simd::widen_rows(simd, source, &mut to[begin + p..], read);
        }
        let (first, second) = to.split_at_mut(rows * width);
        stage_pairs(simd, source, p, [&mut first[begin..], &mut second[begin..]], read);
    }
}

/// Output rows of a channel, with the staged rows and coefficients they are computed from.
struct Bands<'a> {
    rows: usize,
    /// Starts at the first staged row to read.
    source: &'a [f32],
    /// Row stride of the source; `phase`: stride of its planes.
    width: usize,
    phase: usize,
    /// Coefficients of the window, in row-major order.
    weights: &'a [f32; ELEMENTS],
    sums: &'a mut [f32],
    /// Row stride of the sums, a multiple of the vector length.
    across: usize,
}

/// Specialization for square windows of side `K` and a stride.
struct Windows<'a, W, const K: usize, const STRIDE: usize> {
    of: W,
    bands: Bands<'a>,
}

impl<W: Reduction, const K: usize, const STRIDE: usize> WithSimd for Windows<'_, W, K, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        self.bands.reduce::<S, W>(simd, self.of.before(simd), [K, STRIDE]);
    }
}

/// Vectors and rows of the largest register tile.
const MOST_VECTORS: usize = 2;
const MOST_ROWS: usize = 4;
/// Fewest output rows of a register tile of vectors.
const LEAST_ROWS: usize = 2;

// Sizes are arguments of functions that are inlined, where they are constants again, so that the functions are one copy of LLVM IR.
impl Bands<'_> {
    /// Reduces all windows of a side and stride.
    #[inline(always)]
    fn reduce<S: Simd, W: Reduction>(&mut self, simd: S, before: impl LaneMap<S>, window: [usize; 2]) {
        let mut row = 0;
        while row < self.rows {
            // The last rows overlap those before them, which are computed twice with the same bits.
            row = match self.rows - row {
                // Row by row without vectors: a fallback whose speed does not matter.
                _ if const { S::F32_LANES == 1 } => self.next::<S, W>(simd, before, window, row, 1),
                3.. if self.rows >= MOST_ROWS => {
                    self.next::<S, W>(simd, before, window, row.min(self.rows - MOST_ROWS), MOST_ROWS)
                }
                _ => self.next::<S, W>(simd, before, window, row.min(self.rows - LEAST_ROWS), LEAST_ROWS),
            };
        }
    }

    /// Computes `rows` output rows from `first` on, all columns. Returns the row behind them.
    #[inline(always)]
    fn next<S: Simd, W: Reduction>(
        &mut self,
        simd: S,
        before: impl LaneMap<S>,
        window: [usize; 2],
        first: usize,
        rows: usize,
    ) -> usize {
        let mut at = 0;
        // With a stride, output rows share fewer loads, which leaves registers for more accumulators.
        if window[1] > 1 && const { S::F32_LANES > 1 } {
            while at + MOST_VECTORS * S::F32_LANES <= self.across {
                self.columns::<S, W>(simd, before, window, [first, at], [rows, MOST_VECTORS]);
                at += MOST_VECTORS * S::F32_LANES;
            }
        }
        while at < self.across {
            self.columns::<S, W>(simd, before, window, [first, at], [rows, 1]);
            at += S::F32_LANES;
        }
        first + rows
    }

    /// Register tile of some rows by some vectors, from a row and column on.
    #[inline(always)]
    fn columns<S: Simd, W: Reduction>(
        &mut self,
        simd: S,
        before: impl LaneMap<S>,
        [k, stride]: [usize; 2],
        [first, at]: [usize; 2],
        [rows, vectors]: [usize; 2],
    ) {
        let Bands { width, phase, weights, across, .. } = *self;
        let source = &self.source[first * stride * width + at..];
        let mut sums = [[simd.splat_f32s(W::BEGIN); MOST_VECTORS]; MOST_ROWS];
        for i in 0..(rows - 1) * stride + k {
            // The part of a staged row that is read, from every plane.
            let count = vectors * S::F32_LANES + (k - 1) / stride;
            let mut lines: [&[f32]; 2] = [&[]; 2];
            for plane in 0..stride {
                lines[plane] = &source[plane * phase + i * width..][..count];
            }
            for kw in 0..k {
                let line = &lines[kw % stride][kw / stride..];
                let mut x = [simd.splat_f32s(0.0); MOST_VECTORS];
                for n in 0..vectors {
                    x[n] = S::as_simd_f32s(&line[n * S::F32_LANES..][..S::F32_LANES]).0[0];
                }
                for row in 0..rows {
                    // The subtraction wraps around for output rows whose windows do not include this staged row.
                    let kh = i.wrapping_sub(row * stride);
                    if kh >= k {
                        continue;
                    }
                    let weight = simd.splat_f32s(weights[kh * k + kw]);
                    for n in 0..vectors {
                        sums[row][n] = W::add(simd, weight, x[n], sums[row][n]);
                    }
                }
            }
        }
        for row in 0..rows {
            for n in 0..vectors {
                let to = &mut self.sums[(first + row) * across + at + n * S::F32_LANES..][..S::F32_LANES];
                S::as_mut_simd_f32s(to).0[0] = before.of(simd, sums[row][n]);
            }
        }
    }
}
