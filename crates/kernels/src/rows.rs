//! Row kernels, generic over the number type: elementwise operations on one or two tensors, per-channel scale and shift, and
//! reductions.

use crate::arrays::array_of;
use crate::cost;
use crate::host::Rows;
use crate::line::{BLOCK, Line, STRETCH};
use crate::num;
use crate::num::wide::Exact;
use crate::params::Rounding;
use crate::reduce::ElementwiseEpilogue;
use crate::reduce::{Fold, Operation, prepare};
use crate::tensor::Extents;
use crate::view::{Block, OutputTile, Strides, TensorView, partition};
use crate::workers::{PER_THREAD, Workers, chunks, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};

mod exact;
#[doc(hidden)]
pub mod transposed;

/// Elements that a thread reduces at a time.
const FOLDED_AT_ONCE: usize = 1 << 15;
/// Planes that are reduced side by side, to hide the latency of the additions, which depend on each other within a plane.
const SIDE_BY_SIDE: usize = 8;

/// Form of a row operation.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    One,
    Two,
    Affine,
}

/// A source operand with the layout of its rows.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    pub source: TensorView<'a>,
    /// True if one element is broadcast to a row.
    pub one_column: bool,
    pub relu: bool,
    /// For per-channel pairs: true if the channels are on the column axis. `one_pair`: one pair is broadcast to all channels.
    pub pairs_turned: bool,
    pub one_pair: bool,
}

impl Operand<'_> {
    #[inline(always)]
    pub(crate) fn read<S: Simd, N: Line>(&self, simd: S, block: Block, wide: &mut [f32], to: &mut [N]) {
        let columns = if self.one_column { 1 } else { block.columns };
        let n = block.count * columns;
        let (from, from_stride) = block.of_source(self.source);
        if self.one_column {
            // Single elements are gathered and converted together.
            for first in (0..block.count).step_by(STRETCH) {
                let count = STRETCH.min(block.count - first);
                let mut few = [f16::ZERO; STRETCH];
                for (i, x) in few[..count].iter_mut().enumerate() {
                    *x = from[(first + i) * from_stride];
                }
                N::admit_rows(simd, &few, Rows::one(count), self.relu, wide, &mut to[first..first + count]);
            }
        } else {
            let rows = Rows { count: block.count, columns, from_stride, to_stride: columns };
            N::admit_rows(simd, from, rows, self.relu, wide, &mut to[..n]);
        }
        if self.one_column {
            // From the last row back: the broadcast rows overwrite the gathered elements.
            for row in (0..block.count).rev() {
                let first = to[row];
                fill(first, &mut to[row * block.columns..][..block.columns]);
            }
        }
    }
}

impl Operand<'_> {
    /// Addend and factor of every channel of every group.
    fn pairs<N: Line>(&self, ext: Extents) -> Vec<[N; 2]> {
        let mut pairs = vec![[N::canonicalize(0.0); 2]; ext.g * ext.c];
        let (mut wide, mut row) = (vec![0.0; ext.c], vec![N::canonicalize(0.0); ext.c]);
        for (group, pairs) in pairs.chunks_exact_mut(ext.c.max(1)).enumerate() {
            for which in 0..2 {
                let from = self.source.from(group, 0, which);
                let (count, columns) = match (self.pairs_turned, self.one_pair) {
                    (_, true) => (1, 1),
                    (true, false) => (1, ext.c),
                    (false, false) => (ext.c, 1),
                };
                let rows = Rows { count, columns, from_stride: self.source.strides[1], to_stride: columns };
                let row = &mut row[..count * columns];
                N::admit_rows(pulp::Scalar::new(), from, rows, self.relu, &mut wide, row);
                pairs.iter_mut().zip(row.iter().cycle()).for_each(|(pair, x)| pair[which] = *x);
            }
        }
        pairs
    }
}

/// Fills a short row without a call.
#[inline(always)]
fn fill<N: Copy>(x: N, to: &mut [N]) {
    match to.len() {
        8.. => spread_by::<N, 8>(x, to),
        4.. => spread_by::<N, 4>(x, to),
        _ => to.iter_mut().for_each(|to| *to = x),
    }
}

/// Fills a row in pieces of `COUNT` elements; the last piece overlaps the one before.
#[inline(always)]
fn spread_by<N: Copy, const COUNT: usize>(x: N, to: &mut [N]) {
    for to in to.as_chunks_mut::<COUNT>().0.iter_mut() {
        *to = [x; COUNT];
    }
    if let Some(last) = to.last_chunk_mut::<COUNT>() {
        *last = [x; COUNT];
    }
}

/// Row kernel of a task.
pub struct RowKernel<'a, N> {
    pub form: Form,
    pub operands: [Operand<'a>; 2],
    /// Factor of source 1, and true if its absolute value is taken afterwards; `None` if both are the identity.
    pub pre: Option<(N, bool)>,
    pub operation: Operation<N>,
    pub ending: &'a ElementwiseEpilogue<N>,
    pub rules: Option<&'static Rounding>,
    pub columns: usize,
}

/// Addend and factor by group and channel.
struct Pairs<N> {
    all: Vec<[N; 2]>,
    channels: usize,
}

/// Scratch buffers for the rows of one plane.
#[derive(Default)]
pub struct Buffers<N> {
    wide: Vec<f32>,
    a: Vec<N>,
    b: Vec<N>,
    halves: Vec<f16>,
}

/// Scratch buffers for planes that are reduced side by side.
pub type PlaneBuffers<N> = [Buffers<N>; SIDE_BY_SIDE];

/// [`Buffers`], sliced to the row length.
struct RowBuffers<'a, N> {
    wide: &'a mut [f32],
    a: &'a mut [N],
    b: &'a mut [N],
    halves: &'a mut [f16],
}

impl<N: RowNumber> Buffers<N> {
    fn slices(&mut self, elements: usize) -> RowBuffers<'_, N> {
        let Buffers { wide, a, b, halves } = self;
        let (wide, halves) = (scratch_slice(wide, elements), scratch_slice(halves, elements));
        RowBuffers { wide, a: scratch_slice(a, elements), b: scratch_slice(b, elements), halves }
    }
}

/// Number types with row kernels, instantiated in this crate.
pub trait RowNumber: Line + Default {
    /// Executes an elementwise task.
    fn elements(workers: &Workers, lines: &RowKernel<Self>, to: &mut [f16], ext: Extents, strides: Strides);
    /// Reduces each plane to one number, ordered by group, then channel.
    fn reduce(workers: &Workers, lines: &RowKernel<Self>, fold: &Fold, ext: Extents) -> Vec<f16>;
    /// Rounds elements by the rules of the model; the results are fp16 values held in fp32.
    fn settled(workers: &Workers, rules: &Rounding, from: &[Self]) -> Vec<f32>;
    /// Reduces consecutive planes to `ends`, the first plane with the index `at.1`, in an order of its own; returns false unless that gives the same
    /// bits. `wide` is scratch memory.
    #[doc(hidden)]
    #[inline(always)]
    fn fold<S: Simd>(
        _: S,
        _: &RowKernel<Self>,
        _: &Fold,
        _at: (Extents, usize),
        _wide: &mut [f32],
        _ends: &mut [Self],
    ) -> bool {
        false
    }
}

macro_rules! row_number {
    ($number: ty, $reduce: path, { $($fold: tt)* }) => {
        impl RowNumber for $number {
            fn elements(workers: &Workers, lines: &RowKernel<Self>, to: &mut [f16], ext: Extents, strides: Strides) {
                elements(workers, lines, to, ext, strides);
            }

            fn reduce(workers: &Workers, lines: &RowKernel<Self>, fold: &Fold, ext: Extents) -> Vec<f16> {
                $reduce(workers, lines, fold, ext)
            }

            fn settled(workers: &Workers, rules: &Rounding, from: &[Self]) -> Vec<f32> {
                settled(workers, rules, from)
            }
            $($fold)*
        }
    };
}

row_number!(f32, reduce_in_fp32, {});
row_number!(Exact, reduce, {
    #[inline(always)]
    fn fold<S: Simd>(
        simd: S,
        lines: &RowKernel<Self>,
        fold: &Fold,
        at: (Extents, usize),
        wide: &mut [f32],
        ends: &mut [Self],
    ) -> bool {
        exact::fold(simd, lines, fold, at, wide, ends)
    }
});

/// Reduces with transposed planes, where the operands allow it.
fn reduce_in_fp32(workers: &Workers, lines: &RowKernel<f32>, fold: &Fold, ext: Extents) -> Vec<f16> {
    transposed::reduce(workers, lines, fold, ext).unwrap_or_else(|| reduce(workers, lines, fold, ext))
}

/// [`RowNumber::reduce`], a few planes at a time.
#[doc(hidden)]
pub fn reduce<N: RowNumber>(workers: &Workers, lines: &RowKernel<N>, fold: &Fold, ext: Extents) -> Vec<f16> {
    let elements = ext.g * ext.c * ext.plane();
    let mut results = vec![f16::ZERO; ext.g * ext.c];
    let at_once = SIDE_BY_SIDE * (FOLDED_AT_ONCE / (SIDE_BY_SIDE * ext.plane()).max(1)).max(1);
    let shares = results.chunks_mut(at_once).enumerate().collect();
    let pairs = lines.pairs(ext);
    workers.each(shares, workers.shares(cost::one_by_one(elements)), |(i, results), scratch| {
        let mut planes: Box<PlaneBuffers<N>> = scratch.arena.take();
        workers.arch.dispatch(Reduce {
            lines,
            pairs: &pairs,
            fold,
            ext,
            first: *i * at_once,
            results,
            planes: &mut planes,
        });
        scratch.arena.put(planes);
    });
    results
}

fn elements<N: RowNumber>(workers: &Workers, lines: &RowKernel<N>, to: &mut [f16], ext: Extents, strides: Strides) {
    let pairs = lines.pairs(ext);
    let elements = ext.g * ext.c * ext.plane();
    let parts = 4 * rayon::current_num_threads();
    let channels = ext.c.div_ceil(parts).max(1);
    let rows = if ext.c < parts { ext.h.div_ceil(parts).max(1) } else { ext.h };
    let shared = workers.shares(cost::elementwise(2 * elements));
    let (rows, channels) = if shared { (rows, channels) } else { (ext.h, ext.c) };
    workers.each(partition(to, ext, strides, rows, channels), shared, |share, scratch| {
        let mut planes: Box<PlaneBuffers<N>> = scratch.arena.take();
        let [buffers, ..] = &mut *planes;
        workers.arch.dispatch(Elements { lines, pairs: &pairs, share, buffers });
        scratch.arena.put(planes);
    });
}

impl<N: RowNumber> RowKernel<'_, N> {
    /// Addends and factors of the channels; empty unless the task has them.
    fn pairs(&self, ext: Extents) -> Pairs<N> {
        let all = if self.form == Form::Affine { self.operands[1].pairs(ext) } else { Vec::new() };
        Pairs { all, channels: ext.c }
    }

    /// Computes rows up to the epilogue, into `at.a`.
    #[inline(always)]
    fn rows<S: Simd>(&self, simd: S, block: Block, pairs: &Pairs<N>, at: &mut RowBuffers<N>) {
        let RowBuffers { wide, a, b, .. } = at;
        let [first, second] = &self.operands;
        first.read(simd, block, wide, a);
        let a = &mut a[..block.elements()];
        if let Some((pre, abs)) = self.pre {
            prepare(a, pre, abs);
        }
        match self.form {
            Form::One => {}
            Form::Two => {
                second.read(simd, block, wide, b);
                self.operation.rows(a, b);
            }
            Form::Affine => {
                // The second source has one row of addends and one of factors.
                let at_once = if block.is_of_one_channel() { a.len() } else { block.columns };
                for (i, rows) in a.chunks_exact_mut(at_once).enumerate() {
                    let [g, c, _] = block.row(i);
                    self.operation.affine(rows, pairs.all[g * pairs.channels + c]);
                }
            }
        }
    }
}

struct Elements<'a, 'b, N> {
    lines: &'a RowKernel<'a, N>,
    pairs: &'a Pairs<N>,
    share: &'a mut OutputTile<'b>,
    buffers: &'a mut Buffers<N>,
}

impl<N: RowNumber> WithSimd for Elements<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Elements { lines, pairs, share, buffers } = self;
        let mut at = buffers.slices(lines.columns.max(BLOCK));
        share.blocks(
            lines.columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                lines.rows(simd, block, pairs, &mut at);
                let row = &mut at.a[..block.elements()];
                lines.ending.apply(row);
                if N::settle_rows(simd, row, to, block.stored()) {
                    return;
                }
                let halves = &mut at.halves[..row.len()];
                N::settle_line(lines.rules, row, halves);
                block.store(halves, to);
            },
        );
    }
}

/// Rounds elements by the rules of the model; the results are fp16 values held in fp32.
fn settled<N: Line>(workers: &Workers, rules: &Rounding, from: &[N]) -> Vec<f32> {
    let mut data = vec![0.0; from.len()];
    chunks(&mut data, PER_THREAD, cost::one_by_one(from.len()), |i, to| {
        workers.arch.dispatch(Settle { rules, from: &from[i * PER_THREAD..], to });
    });
    data
}

struct Settle<'a, 'b, N> {
    rules: &'a Rounding,
    from: &'a [N],
    to: &'b mut [f32],
}

impl<N: Line> WithSimd for Settle<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut halves = [f16::ZERO; STRETCH];
        for (to, from) in self.to.chunks_mut(STRETCH).zip(self.from.chunks(STRETCH)) {
            let halves = &mut halves[..to.len()];
            N::settle_line(Some(self.rules), &from[..to.len()], halves);
            num::widen_row(halves, to);
        }
    }
}

struct Reduce<'a, 'b, N> {
    lines: &'a RowKernel<'a, N>,
    pairs: &'a Pairs<N>,
    fold: &'a Fold,
    ext: Extents,
    /// Index of the first plane, over all groups.
    first: usize,
    results: &'b mut [f16],
    planes: &'a mut PlaneBuffers<N>,
}

impl<N: RowNumber> WithSimd for Reduce<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Reduce { lines, pairs, fold, ext, first, results, planes } = self;
        let rows = (BLOCK / ext.w).clamp(1, ext.h);
        let mut at = Vec::with_capacity(SIDE_BY_SIDE);
        for buffers in planes {
            at.push(buffers.slices(rows * ext.w));
        }
        for (i, results) in results.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let first = first + i * SIDE_BY_SIDE;
            let mut ends = [N::default(); SIDE_BY_SIDE];
            if !N::fold(simd, lines, fold, (ext, first), at[0].wide, &mut ends[..results.len()]) {
                let mut sums = fold.start::<N, SIDE_BY_SIDE>();
                for h in (0..ext.h).step_by(rows) {
                    let elements = rows.min(ext.h - h) * ext.w;
                    for (p, at) in at.iter_mut().enumerate().take(results.len()) {
                        let plane = first + p;
                        let block = Block::of([plane / ext.c, plane % ext.c, h], elements / ext.w, ext.w);
                        lines.rows(simd, block, pairs, at);
                    }
                    sums.accumulate(array_of(|p| &at[p].a[..elements]));
                }
                ends = sums.end();
            }
            let ends = &mut ends[..results.len()];
            lines.ending.apply(ends);
            N::settle_line(lines.rules, ends, results);
        }
    }
}
