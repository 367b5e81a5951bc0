//! Convolutions and matrix products.

use super::{View, broadcast_strides, rows};
use crate::graph::elements;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis, ShapeBuilder};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Most elements of the unfolded input (im2col) held at once.
const UNFOLDED_ELEMENTS: usize = 1 << 22;

const FITS: &str = "the matrix lies inside the slice it is cut from";

/// Row-major `rows` by `columns`, rows `stride` apart.
pub fn matrix(data: &[f32], rows: usize, columns: usize, stride: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns).strides((stride, 1)), data).expect(FITS)
}

/// As [`matrix`], to write to.
pub fn matrix_mut(data: &mut [f32], rows: usize, columns: usize, stride: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns).strides((stride, 1)), data).expect(FITS)
}

/// Multiplications that are worth a thread.
const SHARE: usize = 1 << 24;
/// Rows or columns of a share are a multiple of this: edges of the product's register tiles, which round differently, stay where they are.
const TILES: usize = 64;

/// `c = a * b + beta * c`, on several threads if it is large. The bits do not depend on their number.
fn product(a: ArrayView2<f32>, b: ArrayView2<f32>, beta: f32, c: ArrayViewMut2<f32>) {
    let work = a.nrows().saturating_mul(a.ncols()).saturating_mul(b.ncols());
    let most = work / SHARE;
    let threads = if most < 2 { 1 } else { thread::available_parallelism().map_or(1, |n| n.get().min(most)) };
    product_on(threads, a, b, beta, c);
}

/// `c = a * b + beta * c` on so many threads.
pub fn product_on(threads: usize, a: ArrayView2<f32>, b: ArrayView2<f32>, beta: f32, mut c: ArrayViewMut2<f32>) {
    let (rows, columns) = c.dim();
    let axis = Axis(usize::from(rows < columns));
    let at = (c.len_of(axis) * (threads / 2) / threads.max(1)).next_multiple_of(TILES);
    if threads < 2 || at >= c.len_of(axis) {
        return general_mat_mul(1.0, &a, &b, beta, &mut c);
    }
    let (one, other) = c.split_at(axis, at);
    let ([a, a_other], [b, b_other]) = match axis {
        Axis(0) => (<[_; 2]>::from(a.split_at(axis, at)), [b; 2]),
        _ => ([a; 2], <[_; 2]>::from(b.split_at(axis, at))),
    };
    let other = Mutex::new(Some(other));
    // Computed by this thread if the other one has not taken it: the system may refuse to start a thread.
    let rest = || {
        let other = other.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(other) = other {
            product_on(threads - threads / 2, a_other, b_other, beta, other);
        }
    };
    thread::scope(|scope| {
        let _ = thread::Builder::new().spawn_scoped(scope, rest);
        product_on(threads / 2, a, b, beta, one);
        rest();
    });
}

pub(super) fn matmul(inputs: &[View], to: &[usize], transpose_x: bool, transpose_y: bool) -> Vec<f32> {
    let (x, y) = (inputs[0].floats(), inputs[1].floats());
    let (sx, sy) = (inputs[0].shape(), inputs[1].shape());
    let [rx, ry] = [sx.len(), sy.len()];
    let (m, n) = (to[to.len() - 2], to[to.len() - 1]);
    let (size_x, size_y) = (sx[rx - 2] * sx[rx - 1], sy[ry - 2] * sy[ry - 1]);
    // Batch axes as a shape with a trailing axis of one, so that every row is one product.
    let batch = [&to[..to.len() - 2], &[1]].concat();
    let walk = |shape: &[usize], rank: usize| broadcast_strides(&[&shape[..rank - 2], &[1]].concat(), &batch);
    let mut out = vec![0.0; elements(to)];
    let mut blocks = out.chunks_exact_mut(m * n);
    rows(&batch, [&walk(sx, rx), &walk(sy, ry)], |[bx, by]| {
        let Some(block) = blocks.next() else { return };
        let a = matrix(&x[bx * size_x..(bx + 1) * size_x], sx[rx - 2], sx[rx - 1], sx[rx - 1]);
        let b = matrix(&y[by * size_y..(by + 1) * size_y], sy[ry - 2], sy[ry - 1], sy[ry - 1]);
        let a = if transpose_x { a.reversed_axes() } else { a };
        let b = if transpose_y { b.reversed_axes() } else { b };
        product(a, b, 0.0, matrix_mut(block, m, n, n));
    });
    out
}

pub(super) fn linear(inputs: &[View]) -> Vec<f32> {
    let (x, w) = (inputs[0].floats(), inputs[1].floats());
    let (n, k) = (inputs[1].shape()[0], inputs[1].shape()[1]);
    let m = x.len() / k;
    let mut out = match inputs.get(2) {
        Some(bias) => bias.floats().repeat(m),
        None => vec![0.0; m * n],
    };
    let weights = matrix(&w, n, k, k).reversed_axes();
    product(matrix(&x, m, k, k), weights, 1.0, matrix_mut(&mut out, m, n, n));
    out
}

/// Sums of the last axis, weighted by the non-zero weights.
pub(super) fn combine(inputs: &[View]) -> Vec<f32> {
    let x = inputs[0].floats();
    if x.iter().all(|v| v.is_finite()) {
        return linear(inputs);
    }
    let w = inputs[1].floats();
    let k = inputs[1].shape()[1];
    let taps: Vec<Vec<(usize, f32)>> =
        w.chunks_exact(k).map(|row| row.iter().copied().enumerate().filter(|(_, w)| *w != 0.0).collect()).collect();
    let sum = |row: &[f32], taps: &[(usize, f32)]| taps.iter().map(|&(i, w)| w * row[i]).sum::<f32>();
    x.chunks_exact(k).flat_map(|row| taps.iter().map(move |taps| sum(row, taps))).collect()
}

/// Weighted sums of integers along the last axis, modulo 2^64.
pub(super) fn combine_whole(inputs: &[View]) -> Vec<i64> {
    let (x, w) = (inputs[0].integers(), inputs[1].integers());
    let k = inputs[1].shape()[1];
    let sum = |row: &[i32], weights: &[i32]| {
        row.iter().zip(weights).fold(0i64, |sum, (&x, &w)| sum.wrapping_add(i64::from(x) * i64::from(w)))
    };
    x.chunks_exact(k).flat_map(|row| w.chunks_exact(k).map(move |weights| sum(row, weights))).collect()
}

/// A convolution with three spatial axes; missing ones become leading axes of extent one.
struct Geometry {
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    strides: [usize; 3],
    before: [usize; 3],
    dilations: [usize; 3],
}

impl Geometry {
    fn new(
        (input, output, kernel): (&[usize], &[usize], &[usize]),
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
    ) -> Self {
        let before: Vec<usize> = pads.iter().map(|p| p.0).collect();
        let full = |list: &[usize], neutral: usize| {
            let mut out = [neutral; 3];
            out[3 - list.len()..].copy_from_slice(list);
            out
        };
        Geometry {
            input: full(input, 1),
            output: full(output, 1),
            kernel: full(kernel, 1),
            strides: full(strides, 1),
            before: full(&before, 0),
            dilations: full(dilations, 1),
        }
    }

    /// Kernel taps in order, as offsets per axis before the padding is subtracted.
    fn taps(&self) -> impl Iterator<Item = [usize; 3]> + '_ {
        let [d, h, w] = self.kernel;
        (0..d * h * w).map(move |i| {
            let tap = [i / (h * w), i / w % h, i % w];
            std::array::from_fn(|axis| tap[axis] * self.dilations[axis])
        })
    }

    /// Input position that output position `o` reads through a tap, if it is inside.
    fn source(&self, axis: usize, o: usize, tap: usize) -> Option<usize> {
        (o * self.strides[axis] + tap).checked_sub(self.before[axis]).filter(|&i| i < self.input[axis])
    }

    /// Output positions `begin..end` along the last axis whose source is inside, and the source of the first.
    fn inside(&self, tap: usize) -> (usize, usize, usize) {
        let (stride, before) = (self.strides[2], self.before[2]);
        let begin = before.saturating_sub(tap).div_ceil(stride);
        let end = (self.input[2] + before).saturating_sub(tap).div_ceil(stride).min(self.output[2]);
        let begin = begin.min(end);
        (begin, end, (begin * stride + tap).saturating_sub(before))
    }

    /// Returns true if the unfolded input is the input itself: kernel and strides of 1, no padding.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.strides == [1; 3] && self.before == [0; 3] && self.input == self.output
    }
}

pub(super) fn conv(
    inputs: &[View],
    to: &[usize],
    strides: &[usize],
    pads: &[(usize, usize)],
    dilations: &[usize],
    groups: usize,
) -> Vec<f32> {
    let (x, w) = (inputs[0].floats(), inputs[1].floats());
    let (sx, sw) = (inputs[0].shape(), inputs[1].shape());
    let geometry = Geometry::new((&sx[2..], &to[2..], &sw[2..]), strides, pads, dilations);
    let (cin, cout) = (sx[1], to[1]);
    let (gin, gout) = (cin / groups, cout / groups);
    let (planes_in, planes_out) = (elements(&sx[2..]), elements(&to[2..]));
    let depth = gin * elements(&sw[2..]);
    let mut out = filled(inputs.get(2), to[0], cout, planes_out);
    for (i, out) in out.chunks_exact_mut(gout * planes_out).enumerate() {
        let (n, g) = (i / groups, i % groups);
        let x = &x[(n * cin + g * gin) * planes_in..][..gin * planes_in];
        let w = &w[g * gout * depth..][..gout * depth];
        if gin == 1 {
            conv_one_channel(&geometry, x, w, out);
        } else if geometry.is_pointwise() {
            let input = matrix(x, depth, planes_in, planes_in);
            let out = matrix_mut(out, gout, planes_out, planes_out);
            product(matrix(w, gout, depth, depth), input, 1.0, out);
        } else {
            conv_unfolded(&geometry, x, w, out, gin);
        }
    }
    out
}

/// Every channel's bias repeated over its plane, `batch` times; zeros without a bias.
fn filled(bias: Option<&View>, batch: usize, channels: usize, plane: usize) -> Vec<f32> {
    let Some(bias) = bias else { return vec![0.0; batch * channels * plane] };
    let bias = bias.floats();
    let mut out = Vec::with_capacity(batch * channels * plane);
    for _ in 0..batch {
        for &b in bias.iter() {
            out.resize(out.len() + plane, b);
        }
    }
    out
}

/// Adds the convolution of one channel with several kernels, tap by tap.
fn conv_one_channel(geometry: &Geometry, x: &[f32], w: &[f32], out: &mut [f32]) {
    let [_, ih, iw] = geometry.input;
    let [od, oh, ow] = geometry.output;
    let taps = w.len() / (out.len() / (od * oh * ow));
    for (w, out) in w.chunks_exact(taps).zip(out.chunks_exact_mut(od * oh * ow)) {
        for (row, out) in out.chunks_exact_mut(ow).enumerate() {
            for (tap, &weight) in geometry.taps().zip(w) {
                let (Some(z), Some(y)) = (geometry.source(0, row / oh, tap[0]), geometry.source(1, row % oh, tap[1]))
                else {
                    continue;
                };
                let (begin, end, from) = geometry.inside(tap[2]);
                if begin == end {
                    continue;
                }
                let line = &x[(z * ih + y) * iw..][from..iw];
                let out = &mut out[begin..end];
                match geometry.strides[2] {
                    1 => out.iter_mut().zip(line).for_each(|(o, x)| *o += weight * x),
                    s => out.iter_mut().zip(line.iter().step_by(s)).for_each(|(o, x)| *o += weight * x),
                }
            }
        }
    }
}

/// Adds the convolution of one group as a product with the unfolded input (im2col), some output rows at a time.
fn conv_unfolded(geometry: &Geometry, x: &[f32], w: &[f32], out: &mut [f32], channels: usize) {
    let [id, ih, iw] = geometry.input;
    let [od, oh, ow] = geometry.output;
    let plane = id * ih * iw;
    let depth = channels * geometry.kernel.iter().product::<usize>();
    let (total_rows, total) = (od * oh, od * oh * ow);
    let gout = out.len() / total;
    let step = (UNFOLDED_ELEMENTS / (depth * ow)).clamp(1, total_rows);
    let mut unfolded = vec![0.0; depth * step * ow];
    for first in (0..total_rows).step_by(step) {
        let count = step.min(total_rows - first) * ow;
        unfolded.fill(0.0);
        let mut lines = unfolded.chunks_exact_mut(step * ow);
        for x in x.chunks_exact(plane) {
            for tap in geometry.taps() {
                let Some(line) = lines.next() else { return };
                let (begin, end, from) = geometry.inside(tap[2]);
                for (i, line) in line[..count].chunks_exact_mut(ow).enumerate() {
                    let row = first + i;
                    let source = geometry.source(0, row / oh, tap[0]).zip(geometry.source(1, row % oh, tap[1]));
                    if let Some((z, y)) = source
                        && begin < end
                    {
                        let x = &x[(z * ih + y) * iw..][from..iw];
                        line[begin..end]
                            .iter_mut()
                            .zip(x.iter().step_by(geometry.strides[2]))
                            .for_each(|(o, x)| *o = *x);
                    }
                }
            }
        }
        let weights = matrix(w, gout, depth, depth);
        let input = matrix(&unfolded, depth, count, step * ow);
        product(weights, input, 1.0, matrix_mut(&mut out[first * ow..], gout, count, total));
    }
}

pub(super) fn conv_transpose(
    inputs: &[View],
    to: &[usize],
    strides: &[usize],
    pads: &[(usize, usize)],
    dilations: &[usize],
    groups: usize,
) -> Vec<f32> {
    let (x, w) = (inputs[0].floats(), inputs[1].floats());
    let (sx, sw) = (inputs[0].shape(), inputs[1].shape());
    // In reverse: the result is the input of a convolution whose output is `x`.
    let geometry = Geometry::new((&to[2..], &sx[2..], &sw[2..]), strides, pads, dilations);
    let (cin, cout) = (sx[1], to[1]);
    let (gin, gout) = (cin / groups, cout / groups);
    let (planes_in, planes_out) = (elements(&sx[2..]), elements(&to[2..]));
    let taps = elements(&sw[2..]);
    let mut out = filled(inputs.get(2), to[0], cout, planes_out);
    let mut spread = vec![0.0; gout * taps * planes_in];
    for (i, out) in out.chunks_exact_mut(gout * planes_out).enumerate() {
        let (n, g) = (i / groups, i % groups);
        let x = &x[(n * cin + g * gin) * planes_in..][..gin * planes_in];
        let w = &w[g * gin * gout * taps..][..gin * gout * taps];
        let weights = matrix(w, gin, gout * taps, gout * taps).reversed_axes();
        let input = matrix(x, gin, planes_in, planes_in);
        product(weights, input, 0.0, matrix_mut(&mut spread, gout * taps, planes_in, planes_in));
        fold_back(&geometry, &spread, out, gout);
    }
    out
}

/// Adds every product to the output position that its tap reaches (col2im).
fn fold_back(geometry: &Geometry, spread: &[f32], out: &mut [f32], channels: usize) {
    let [_, oh, ow] = geometry.input;
    let [d, h, w] = geometry.output;
    let plane = out.len() / channels;
    let mut lines = spread.chunks_exact(d * h * w);
    for out in out.chunks_exact_mut(plane) {
        for tap in geometry.taps() {
            let Some(line) = lines.next() else { return };
            let (begin, end, from) = geometry.inside(tap[2]);
            if begin == end {
                continue;
            }
            for (row, line) in line.chunks_exact(w).enumerate() {
                let target = geometry.source(0, row / h, tap[0]).zip(geometry.source(1, row % h, tap[1]));
                if let Some((z, y)) = target {
                    let out = &mut out[(z * oh + y) * ow..][from..ow];
                    out.iter_mut().step_by(geometry.strides[2]).zip(&line[begin..end]).for_each(|(o, v)| *o += v);
                }
            }
        }
    }
}
