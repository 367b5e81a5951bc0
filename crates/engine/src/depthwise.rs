//! Convolutions in the model `fast` of whose outputs each reads one channel, through windows of the usual sides.
//!
//! Staged rows begin where vectors do, and the columns that a stride of 2 takes apart have planes of their own. Several rows of
//! outputs are summed together: what is loaded of a staged row serves every output that it lies under.
//!
//! A sum takes its taps in their order, as in [`crate::convolution`].

use crate::activation::Finish;
use crate::convolution::Kernel;
use crate::number::vectors::{self, Before};
use crate::rows::{Share, Source};
use crate::window::Window;
use crate::work::{Scratch, apart, room};
use anemone_program::Rows;
use pulp::{Simd, WithSimd};

/// Numbers of staged channels that are worked on together: what was written a moment ago in other pieces cannot be read at once,
/// and they stay in the innermost cache.
const NEAR: usize = 1 << 12;
/// Most channels of those.
const CHANNELS: usize = 48;
/// Rows of outputs that are summed together.
const ROWS: [usize; 3] = [4, 2, 1];

/// Whether this kernel is for such windows.
pub(crate) fn executes(window: &Window) -> bool {
    let [k, s] = [window.k, window.s];
    k[0] == k[1] && s[0] == s[1] && matches!((k[0], s[0]), (3 | 5, 1 | 2))
}

/// One share at work.
pub(crate) struct Job<'a, 'b> {
    pub(crate) window: &'a Window,
    pub(crate) kernel: &'a Kernel,
    pub(crate) finish: &'a Finish<'a>,
    pub(crate) from: Source<'a>,
    pub(crate) columns: usize,
    pub(crate) share: &'a mut Share<'b>,
    pub(crate) scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match (self.window.k[0], self.window.s[0]) {
            (3, 1) => self.channels::<S, 3, 1>(simd),
            (3, _) => self.channels::<S, 3, 2>(simd),
            (_, 1) => self.channels::<S, 5, 1>(simd),
            _ => self.channels::<S, 5, 2>(simd),
        }
    }
}

impl Job<'_, '_> {
    #[inline(always)]
    fn channels<S: Simd, const K: usize, const STRIDE: usize>(self, simd: S) {
        let Job { window, kernel, finish, from, columns, share, scratch } = self;
        let plane = Plane::of::<STRIDE>(window, [share.first_row, share.rows], columns, S::F32_LANES);
        let across = columns.next_multiple_of(S::F32_LANES);
        let [area, outputs] = [STRIDE * plane.rows * plane.width, share.rows * across];
        let channels = share.channels();
        let at_once = (NEAR / area.max(1)).min(CHANNELS).min(channels).max(1);
        let Scratch { staged, sums, .. } = scratch;
        // The last vectors of a row reach into the next one.
        let slack = plane.lead + plane.p + S::F32_LANES;
        let (staged, sums) = (room(staged, at_once * area + slack), room(sums, at_once * outputs));
        // What surrounds the source stays as it is.
        staged.fill(0.0);
        let rows = Rows { count: share.rows, columns, from_stride: across, to_stride: columns };
        for first in (0..channels).step_by(at_once) {
            let count = at_once.min(channels - first);
            let channel = share.first_channel + first;
            for (c, staged) in staged.chunks_exact_mut(area).enumerate().take(count) {
                plane.stage::<S, STRIDE>(simd, from, share.group, channel + c, staged);
            }
            for (c, sums) in sums.chunks_exact_mut(outputs).enumerate().take(count) {
                let staged = &staged[c * area..];
                let mut weights = [[0.0; K]; K];
                kernel.packed.widen(channel + c, 0..K * K, weights.as_flattened_mut());
                let bias = kernel.biases.as_ref().map_or(0.0, |b| b[channel + c]);
                let (width, phase) = (plane.width, plane.rows * plane.width);
                let mut row = 0;
                while row < share.rows {
                    let rows = ROWS.into_iter().find(|&rows| rows <= share.rows - row).unwrap_or(1);
                    let source = &staged[row * STRIDE * width + plane.lead..];
                    let (weights, sums) = (&weights, &mut sums[row * across..]);
                    let band = Band::<K, STRIDE> { rows, source, width, phase, weights, finish, bias, sums, across };
                    apart(simd, band);
                    row += rows;
                }
            }
            share.store(
                [first, 0, 0],
                count,
                sums,
                outputs,
                rows,
                #[inline(always)]
                |from, to, rows| finish.rows(simd, from, to, rows),
            );
        }
    }
}

/// How a channel is staged: planes of the columns that a stride takes apart.
struct Plane {
    /// Rows, all of them read; those inside of the source, and the first of them there.
    rows: usize,
    inside: std::ops::Range<usize>,
    first: usize,
    /// Columns of the source that are read.
    across: usize,
    /// Elements between rows; before the first column that an output reads; leading padding.
    width: usize,
    lead: usize,
    p: usize,
}

impl Plane {
    fn of<const STRIDE: usize>(window: &Window, [first_row, rows]: [usize; 2], columns: usize, lanes: usize) -> Plane {
        let Window { k, p, from, .. } = window;
        let (staged, top) = (rows.saturating_sub(1) * STRIDE + k[0], first_row * STRIDE);
        let begin = p[0].saturating_sub(top).min(staged);
        let end = (from[0] + p[0]).saturating_sub(top).clamp(begin, staged);
        let across = ((columns - 1) * STRIDE + k[1]).saturating_sub(p[1]).min(from[1]);
        // The middle of a window that is padded evenly meets whole vectors.
        let lead = if STRIDE == 1 { (lanes - p[1] % lanes) % lanes } else { 0 };
        let (data, read) = (lead + (p[1] + across).div_ceil(STRIDE), lead + columns + (k[1] - 1) / STRIDE);
        // What lies behind the last column surrounds the source, and so does what lies before the first one of the next row.
        let shared = if STRIDE == 1 { lead + p[1] } else { 0 };
        let width = data.max(read.saturating_sub(shared)).next_multiple_of(lanes);
        Plane {
            rows: staged,
            inside: begin..end,
            first: (top + begin).saturating_sub(p[0]),
            across,
            width,
            lead,
            p: p[1],
        }
    }

    #[inline(always)]
    fn stage<S: Simd, const STRIDE: usize>(&self, simd: S, from: Source, group: usize, channel: usize, to: &mut [f32]) {
        let &Plane { rows, ref inside, first, across, width, lead, p } = self;
        if inside.is_empty() || across == 0 {
            return;
        }
        let place = |x: usize| (x + p) % STRIDE * rows * width + lead + (x + p) / STRIDE;
        let read = Rows { count: inside.len(), columns: across, from_stride: from.strides[2], to_stride: width };
        if STRIDE == 1 {
            let to = &mut to[inside.start * width + place(0)..];
            return vectors::widen_rows(simd, from.from(group, channel, first), to, read);
        }
        let (first_plane, second) = to.split_at_mut(rows * width);
        let (even, odd) = if p.is_multiple_of(2) { (first_plane, second) } else { (second, first_plane) };
        let met = from.from(group, channel, first);
        for i in 0..inside.len() {
            let begin = (inside.start + i) * width + lead;
            let (even, odd) = (&mut even[begin + p / 2..], &mut odd[begin + p.div_ceil(2)..]);
            vectors::widen_pairs(simd, &met[i * from.strides[2]..][..across], even, odd);
        }
    }
}

/// Sums of some rows of outputs, and what comes between them and their rounding.
struct Band<'a, const K: usize, const STRIDE: usize> {
    /// One of [`ROWS`].
    rows: usize,
    /// From the first staged row that is read.
    source: &'a [f32],
    /// Elements between staged rows, and between planes.
    width: usize,
    phase: usize,
    weights: &'a [[f32; K]; K],
    finish: &'a Finish<'a>,
    bias: f32,
    sums: &'a mut [f32],
    /// Elements between rows of sums, whole vectors.
    across: usize,
}

impl<const K: usize, const STRIDE: usize> WithSimd for Band<'_, K, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.rows {
            4 => self.rows::<S, 4>(simd),
            2 => self.rows::<S, 2>(simd),
            _ => self.rows::<S, 1>(simd),
        }
    }
}

impl<const K: usize, const STRIDE: usize> Band<'_, K, STRIDE> {
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(mut self, simd: S) {
        let before = self.finish.before(simd, self.bias);
        let mut at = 0;
        // Rows that are a stride apart share less of what is loaded, which leaves room for more sums.
        while STRIDE > 1 && at + 2 * S::F32_LANES <= self.across {
            self.columns::<S, R, 2>(simd, before, at);
            at += 2 * S::F32_LANES;
        }
        while at < self.across {
            self.columns::<S, R, 1>(simd, before, at);
            at += S::F32_LANES;
        }
    }

    /// `R` rows of `N` vectors.
    #[inline(always)]
    fn columns<S: Simd, const R: usize, const N: usize>(&mut self, simd: S, before: impl Before<S>, at: usize) {
        let Band { source, width, phase, weights, across, .. } = *self;
        let mut sums = [[simd.splat_f32s(0.0); N]; R];
        for i in 0..(R - 1) * STRIDE + K {
            for kw in 0..K {
                let place = kw % STRIDE * phase + i * width + kw / STRIDE + at;
                let (vectors, _) = S::as_simd_f32s(&source[place..][..N * S::F32_LANES]);
                let Some(x) = vectors.first_chunk::<N>() else { return };
                for (row, sums) in sums.iter_mut().enumerate() {
                    let Some(weights) = i.checked_sub(row * STRIDE).and_then(|kh| weights.get(kh)) else { continue };
                    let weight = simd.splat_f32s(weights[kw]);
                    for n in 0..N {
                        sums[n] = simd.mul_add_f32s(weight, x[n], sums[n]);
                    }
                }
            }
        }
        for (row, mut sums) in sums.into_iter().enumerate() {
            for sum in &mut sums {
                *sum = before.of(simd, *sum);
            }
            let to = &mut self.sums[row * across + at..][..N * S::F32_LANES];
            S::as_mut_simd_f32s(to).0.copy_from_slice(&sums);
        }
    }
}
