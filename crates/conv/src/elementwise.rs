//! Elementwise binary operations and pooling on fp16 tensors, from memory to memory.

use crate::convolution::{Im2col, depthwise};
use anemone_kernels::arrays::MapEach;
use anemone_kernels::binary::BinaryRows;
use anemone_kernels::cost;
use anemone_kernels::host::Rows;
use anemone_kernels::line::BLOCK;
use anemone_kernels::num::elementwise::{admit_row, settle_row};
use anemone_kernels::params::{BinaryOp, Rounding};
use anemone_kernels::reduce::ElementwiseEpilogue;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{OutputTile, Strides, TensorView, partition};
use anemone_kernels::workers::{Scratch, Workers, scratch_slice};
use anemone_kernels::{num, simd};
use half::f16;
use pulp::{Simd, WithSimd};

/// Elements from which another share pays.
const PER_SHARE: usize = 1 << 15;

/// A binary operation on two tensors, with its epilogue.
#[derive(Clone, Copy)]
pub struct Binary<'a> {
    pub op: BinaryOp,
    pub ending: &'a ElementwiseEpilogue<f32>,
    pub rules: Option<&'static Rounding>,
    pub one: TensorView<'a>,
    /// `None` if the second operand is in the result buffer (in-place operation).
    pub other: Option<TensorView<'a>>,
    /// True if `one` is the second operand.
    pub is_second: bool,
    /// ReLU flag of each operand.
    pub relus: [bool; 2],
}

/// Executes a binary operation on two tensors.
pub fn combine(workers: &Workers, of: Binary, to: &mut [f16], ext: Extents, strides: Strides) {
    // Large results are cut into several shares a thread, because threads may differ in speed.
    let threads = rayon::current_num_threads();
    let elements = ext.g * ext.c * ext.plane();
    let parts = (elements / PER_SHARE).clamp(threads, 4 * threads);
    let [rows, channels] = [ext.h, ext.c].map_each(|n| n.div_ceil(parts).max(1));
    // The same partition as the convolutions', so that a thread reads from its own cache what it wrote there.
    let by_rows = ext.c < parts || strides[2] >= strides[1] && rows * ext.c <= ext.h * channels;
    let (rows, channels) = if by_rows { (rows, ext.c) } else { (ext.h, channels) };
    let shared = workers.shares(cost::elementwise(elements));
    let (rows, channels) = if shared { (rows, channels) } else { (ext.h, ext.c) };
    workers.each(partition(to, ext, strides, rows, channels), shared, |share, scratch| {
        workers.arch.dispatch(Combine { of, columns: ext.w, share, scratch });
    });
}

/// Work of one thread: a binary operation over a tile of the output.
pub struct Combine<'a, 'b> {
    pub of: Binary<'a>,
    pub columns: usize,
    pub share: &'a mut OutputTile<'b>,
    pub scratch: &'a mut Scratch,
}

impl WithSimd for Combine<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { of, columns, share, scratch } = self;
        let Binary { op, ending, rules, one, other, is_second, relus } = of;
        let [a, b] =
            [&mut scratch.wide, &mut scratch.sums].map_each(|buffer| scratch_slice(buffer, BLOCK.max(columns)));
        // With `plain`, scales and bias change no result of the exact models either.
        let alone = ending.plain && ending.function.is_none() && relus == [false; 2];
        share.blocks(
            columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                let rows = block.stored();
                let one = block.of_source(one);
                let other = other.map(
                    #[inline(always)]
                    |other| block.of_source(other),
                );
                if alone && (BinaryRows { one, other, is_second, rows }).combine(simd, op, ending.relu, rules, to) {
                    return;
                }
                let [a, b] = [&mut *a, &mut *b].map_each(|buffer| &mut buffer[..block.elements()]);
                let other = other.unwrap_or((to, rows.to_stride));
                let sources = if is_second { [other, one] } else { [one, other] };
                for ((row, (from, from_stride)), relu) in [&mut *a, &mut *b].into_iter().zip(sources).zip(relus) {
                    simd::widen_rows(simd, from, row, Rows { from_stride, to_stride: columns, ..rows });
                    if rules.is_some() {
                        admit_row(row);
                    }
                    if relu {
                        for x in row.iter_mut() {
                            *x = x.max(0.0);
                        }
                    }
                }
                let pairs = a.iter_mut().zip(b.iter());
                match op {
                    BinaryOp::Add => pairs.for_each(|(x, &b)| *x += b),
                    BinaryOp::Mul => pairs.for_each(|(x, &b)| *x *= b),
                    BinaryOp::Max => pairs.for_each(|(x, &b)| *x = x.max(b)),
                    _ => pairs.for_each(|(x, &b)| *x = x.min(b)),
                }
                ending.apply(a);
                match rules {
                    None => simd::round_rows(simd, a, to, block.stored()),
                    Some(rules) => simd::settle_rows(simd, rules, a, to, block.stored()),
                }
            },
        );
    }
}

/// Applies the epilogue and rounds to fp16. `row` is overwritten.
#[inline(always)]
fn finish(ending: &ElementwiseEpilogue<f32>, rules: Option<&Rounding>, row: &mut [f32], to: &mut [f16]) {
    ending.apply(row);
    match rules {
        Some(rules) => settle_row(rules, row, to),
        None => num::round_row(row, to),
    }
}

/// Max or sum pooling over the windows of one tensor, with its epilogue.
pub fn pool(
    workers: &Workers,
    staging: &Im2col,
    max: bool,
    ending: &ElementwiseEpilogue<f32>,
    rules: Option<&'static Rounding>,
    source: TensorView,
    to: &mut [f16],
    ext: Extents,
    strides: Strides,
) {
    let (offsets, columns) = (staging.offsets(), ext.w);
    let shared = workers.shares(cost::elementwise(ext.g * ext.c * ext.plane() * offsets.len()));
    let shares = partition(to, ext, strides, staging.share_rows, staging.share_channels);
    workers.each(shares, shared, |share, scratch| {
        let (of, window, offsets) = (depthwise::WindowOp::Pool(max, ending), &staging.window, &offsets[..]);
        if rules.is_none() && of.executes(window) {
            return workers.arch.dispatch(depthwise::Job { of, window, from: source, columns, share, scratch });
        }
        workers.arch.dispatch(Pool { max, staging, offsets, ending, rules, source, columns, share, scratch });
    });
}

struct Pool<'a, 'b> {
    max: bool,
    staging: &'a Im2col,
    offsets: &'a [u32],
    ending: &'a ElementwiseEpilogue<f32>,
    rules: Option<&'static Rounding>,
    source: TensorView<'a>,
    columns: usize,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Pool<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pool { max, staging, offsets, ending, rules, source, columns, share, scratch } = self;
        let area = staging.staged_elements();
        let staged = scratch_slice(&mut scratch.staged, area + staging.staged_slack());
        let width = staging.width;
        // Rows with the padding between them are one long row.
        let at_once = (BLOCK / width.max(1)).clamp(1, share.rows.max(1));
        let sums = scratch_slice(&mut scratch.sums, (at_once - 1) * width + columns);
        let outside = if max { f32::NEG_INFINITY } else { 0.0 };
        staged[area..].fill(outside);
        for c in 0..share.channels() {
            let around = (c == 0).then_some(outside);
            staging.stage(
                simd,
                source,
                [share.group, share.first_row],
                share.first_channel + c,
                around,
                &mut staged[..area],
                &mut scratch.wide,
            );
            if rules.is_some() {
                admit_row(staged);
            }
            for first in (0..share.rows).step_by(at_once) {
                let rows = at_once.min(share.rows - first);
                let sums = &mut sums[..(rows - 1) * width + columns];
                sums.fill(outside);
                for &offset in offsets {
                    let taps = &staged[offset as usize + first * width..][..sums.len()];
                    let pairs = sums.iter_mut().zip(taps);
                    if max {
                        for (y, &x) in pairs {
                            *y = y.max(x);
                        }
                    } else {
                        for (y, &x) in pairs {
                            *y += x;
                        }
                    }
                }
                for h in 0..rows {
                    finish(ending, rules, &mut sums[h * width..][..columns], share.row(c, first + h, columns));
                }
            }
        }
    }
}
