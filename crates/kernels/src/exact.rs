//! GEMM with fixed-point accumulators: weights times columns of operands, bit-equal to [`crate::num::reference::dot`].
//!
//! A fused multiply-add in fp32 does the accumulator's rounding. Operands are fp16 numbers held in fp32, and a running sum starts
//! at 192:
//!
//! - The last bit of an fp32 number from 128 to 256 is worth 2^-16. While the products of a run of taps sum to less than
//!   32, `sum + w * x` is `sum` plus the product rounded to a multiple of 2^-16, as the accumulator adds it.
//! - `w * x` has 22 significant bits. The weight is moved one fp32 step away from zero, which moves the product away from
//!   zero by less than its last bit: every other product keeps its nearest neighbour, and a tie becomes a number beyond
//!   the tie. Rounding to nearest, ties to even, then rounds ties away from zero. For products below 32 this holds without
//!   a fused instruction as well.
//! - Run lengths are bounded before multiplying: `|sum of w * x| <= |w| * |x|` for any subset of the taps (Cauchy-Schwarz).
//! - At the end of a run the sum moves to an integer. A sum that has come within 64 of the ceiling is computed again with
//!   the ceiling tested at every step; no other can have reached it. Those sums, and runs that cannot be made short
//!   enough, are computed in fp64: the same with 1.5 * 2^36 in place of 192.
//! - The accumulator drops a product whose exponents sum to too little, that is, where `x` is below a power of two that
//!   depends on `w` alone. Most of these round to zero anyway. The others need certain pairs of exponents: sets of the
//!   exponents that occur select the taps that need the comparison. Register tiles add these under a mask. Columns that are
//!   summed one by one, and sums in fp64, add all products first, and subtract dropped ones afterwards: rounding is
//!   symmetric about zero, so that nothing of them remains.
//!
//! Models with a first stage are computed in fp64 and integers (`tiled`).
//!
//! Inputs and results are fp32 that hold fp16 numbers. A signalling NaN has become a quiet one by then, which an accumulator with
//! [`crate::params::Specials::Numbers`] reads as another number.

pub mod bounds;
mod columns;
pub(crate) mod decode;
pub(crate) mod microkernel;
mod row;
mod tiled;
pub mod vector;
mod wide;

use crate::arena::scratch_slice;
use crate::filter::{CoefficientRow, PackedFilter, Values, spread};
use crate::isa;
use crate::num;
use crate::par::share;
use crate::params::AccumulatorSpec;
use crate::simd;
use crate::simd::outline;
pub use columns::Columns;
pub use columns::Operands;
use decode::{BumpUlp, Reading, raised};
pub use decode::{decode, least};
use half::f16;
use microkernel::MacroTile;
pub use microkernel::Space;
use pulp::{Simd, WithSimd};
pub use row::SingleRow;
use std::ops::Range;

/// Columns of a panel of operands.
pub const WIDTH: usize = 32;
/// Rows of a block: at two vectors a row, as many as 32 registers hold. The rows of a block share the lists of their taps. The last block may
/// have fewer, a multiple of the least height.
pub const HEIGHT: usize = 12;
pub const LEAST_HEIGHT: usize = 3;
/// Lanes of the longest vectors.
const LONGEST: usize = 16;
/// Taps that share a norm bound.
const SEGMENT: usize = 8;
/// Blocks of a macro tile: weights that fit the cache of a core.
const TASK_BLOCKS: usize = 8;
/// Panels of a macro tile.
const TASK_PANELS: usize = 16;
/// Multiply-accumulates from which other threads are woken.
const PARALLEL_THRESHOLD: usize = 1 << 18;

/// Packed weights, with the statistics that bound their sums.
#[derive(Clone, Debug)]
pub struct Weights {
    mac: AccumulatorSpec,
    packed: PackedFilter,
    /// True if the model reads every weight unchanged.
    plain: bool,
    /// Set of operand exponents for which a product may be dropped, one bit each. By block, then tap.
    dropping: Vec<u32>,
    /// Largest norm of a row. By block, then segment.
    norms: Vec<f32>,
}

impl Weights {
    /// Packs `rows * taps` fp16 numbers, row by row. Missing ones count as zero.
    pub fn pack(mac: &AccumulatorSpec, rows: usize, taps: usize, values: &[f32]) -> Weights {
        let mut halves = vec![f16::ZERO; rows * taps];
        halves.iter_mut().zip(values).for_each(|(half, value)| *half = f16::from_f32(*value));
        Weights::of(mac, rows, taps, &Values::Halves(halves))
    }

    pub fn of(mac: &AccumulatorSpec, rows: usize, taps: usize, values: &Values) -> Weights {
        let reading = Reading::new(mac);
        let plain = reading.keeps_finite() && values.is_finite()
            || values.each_value().all(|x| reading.decode(num::widen(x)) == num::widen(x));
        Weights::bounded(mac, PackedFilter::of(values, rows, taps, HEIGHT), plain)
    }

    /// [`Weights::of`] from one strided row a channel.
    pub fn of_rows(mac: &AccumulatorSpec, rows: &[CoefficientRow], taps: usize) -> Weights {
        let packed = PackedFilter::of_rows(rows, taps, HEIGHT);
        let plain = Reading::new(mac).keeps_finite() && packed.is_finite();
        Weights::bounded(mac, packed, plain)
    }

    fn bounded(mac: &AccumulatorSpec, packed: PackedFilter, plain: bool) -> Weights {
        let (rows, taps) = (packed.channels(), packed.taps());
        let (blocks, segments) = (rows.div_ceil(HEIGHT), taps.div_ceil(SEGMENT));
        let (dropping, norms) = (vec![0; blocks * taps], vec![0.0; blocks * segments]);
        let mut new = Weights { mac: *mac, packed, plain, dropping, norms };
        if rows * taps == 0 {
            return new;
        }
        let (packed, reading) = (&new.packed, Reading::new(mac));
        let parts = new.dropping.chunks_mut(taps).zip(new.norms.chunks_mut(segments)).collect();
        share(parts, rows * taps >= PARALLEL_THRESHOLD / 8, false, &|block, (dropping, norms)| {
            isa::arch().dispatch(Bounding { reading, packed, block, dropping, norms });
        });
        new
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.packed.channels()
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.packed.bytes() + size_of_val(&*self.dropping) + size_of_val(&*self.norms)
    }

    /// Widens some taps of a block, `[tap][row]`, and moves each weight one fp32 step away from zero.
    #[inline(always)]
    fn raised<'a, S: Simd>(&self, simd: S, block: usize, taps: Range<usize>, to: &'a mut [f32]) -> &'a mut [f32] {
        if !self.plain {
            let to = read_rows(&self.packed, Reading::new(&self.mac), block, taps, to);
            simd::prepare(simd, BumpUlp, to);
            return to;
        }
        let (rows, of_block) = (self.packed.height(block * HEIGHT), height(self.rows(), block));
        let to = &mut to[..taps.len() * of_block];
        self.packed.widen_and(simd, block * HEIGHT, taps, to, BumpUlp);
        spread(to, rows, of_block);
        to
    }

    /// Raised weight and smallest operand that is not dropped, for every tap of a single row.
    #[inline(always)]
    pub fn row<'a, S: Simd>(&self, simd: S, wide: &mut Vec<f32>, to: &'a mut Vec<(f32, f32)>) -> &'a [(f32, f32)] {
        let reading = Reading::new(&self.mac);
        let height = height(self.rows(), 0);
        let all = self.raised(simd, 0, 0..self.packed.taps(), scratch_slice(wide, height * self.packed.taps()));
        to.clear();
        to.extend(all.iter().step_by(height).map(|&w| (w, reading.keep_from(w))));
        to
    }
}

/// Joins sets of weights with equal numbers of taps to one filter of all their rows.
pub fn all_rows(sets: Vec<Weights>) -> PackedFilter {
    let (channels, taps) = (sets.len(), sets.first().map_or(0, |set| set.packed.taps()));
    let mut wide = vec![0.0; taps];
    let mut rows = Vec::with_capacity(channels * taps);
    for set in sets {
        if channels == 1 {
            return set.packed;
        }
        rows.extend(set.packed.widen(0, 0..taps, &mut wide).iter().map(|&w| num::round(w)));
    }
    PackedFilter::of(&Values::Halves(rows), channels, taps, 1)
}

/// [`Weights::row`] for unpacked coefficients, which are overwritten.
#[inline(always)]
pub fn row_of<'a>(mac: &AccumulatorSpec, taps: &mut [f32], to: &'a mut Vec<(f32, f32)>) -> &'a [(f32, f32)] {
    let reading = Reading::new(mac);
    reading.row(taps);
    to.clear();
    to.extend(taps.iter().map(|&w| (raised(w), reading.keep_from(w))));
    to
}

/// Widens some taps of a block, `[tap][row]`, decoded as the model reads them.
#[inline(always)]
fn read_rows<'a>(
    packed: &PackedFilter,
    reading: Reading,
    block: usize,
    taps: Range<usize>,
    to: &'a mut [f32],
) -> &'a mut [f32] {
    let (rows, of_block) = (packed.height(block * HEIGHT), height(packed.channels(), block));
    let to = &mut to[..taps.len() * of_block];
    packed.widen(block * HEIGHT, taps, to);
    spread(to, rows, of_block);
    to.iter_mut().for_each(|w| *w = reading.decode(*w));
    to
}

/// Bounds of a block of weights; a type of its own, because a closure would not be compiled for the instruction set.
struct Bounding<'a> {
    reading: Reading,
    packed: &'a PackedFilter,
    block: usize,
    dropping: &'a mut [u32],
    norms: &'a mut [f32],
}

impl WithSimd for Bounding<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Bounding { reading, packed, block, dropping, norms } = self;
        let height = height(packed.channels(), block);
        let taps = packed.taps();
        let mut wide = [0.0f32; HEIGHT * SEGMENT];
        let mut sets = [0; HEIGHT * SEGMENT];
        for (i, (dropping, norm)) in dropping.chunks_mut(SEGMENT).zip(norms).enumerate() {
            let some = i * SEGMENT..taps.min((i + 1) * SEGMENT);
            let lines = read_rows(packed, reading, block, some, &mut wide);
            for (set, &w) in sets.iter_mut().zip(&*lines) {
                *set = reading.dropping(w);
            }
            let mut squares = [0.0f32; HEIGHT];
            for ((to, line), sets) in dropping.iter_mut().zip(lines.chunks_exact(height)).zip(sets.chunks_exact(height))
            {
                *to = sets.iter().fold(0, |all, set| all | set);
                squares.iter_mut().zip(line).for_each(|(square, w)| *square += w * w);
            }
            *norm = squares.iter().fold(0.0f32, |a, &b| a.max(b)).sqrt();
        }
    }
}

/// [`product`] for rows from `first` on, which starts a block, on this thread.
#[inline(always)]
pub fn product_of_rows<S: Simd>(
    simd: S,
    weights: &Weights,
    first: usize,
    columns: &Columns,
    bias: &[f32],
    out: &mut [f32],
    space: &mut Space,
) {
    debug_assert!(weights.packed.taps() == columns.taps && first.is_multiple_of(HEIGHT));
    outline(simd, SomeRows { weights, first, columns, bias, out, space });
}

struct SomeRows<'a> {
    weights: &'a Weights,
    first: usize,
    columns: &'a Columns,
    bias: &'a [f32],
    out: &'a mut [f32],
    space: &'a mut Space,
}

impl WithSimd for SomeRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let SomeRows { weights, first, columns, bias, out, space } = self;
        let width = columns.columns.max(1);
        for (i, rows) in out.chunks_mut(TASK_BLOCKS * HEIGHT * width).enumerate() {
            let block = first / HEIGHT + i * TASK_BLOCKS;
            for panel in (0..width.div_ceil(WIDTH)).step_by(TASK_PANELS) {
                let part = panel * WIDTH..width.min((panel + TASK_PANELS) * WIDTH);
                let out = rows.chunks_exact_mut(width).map(|row| &mut row[part.clone()]).collect();
                MacroTile { weights, columns, bias, block, panel, out }.run(simd, space);
            }
        }
    }
}

/// Computes `out[row][column] = bias[row] + sum over taps`, rounded to fp16 as at the output port. Rows without a bias start at zero. Weights
/// and columns are packed for the same model and number of taps; `out` has one element for each sum.
pub fn product(weights: &Weights, columns: &Columns, bias: &[f32], out: &mut [f32]) {
    product_with(isa::arch(), weights, columns, bias, out);
}

/// [`product`] by an instruction set.
pub fn product_with(arch: isa::Isa, weights: &Weights, columns: &Columns, bias: &[f32], out: &mut [f32]) {
    debug_assert!(weights.mac == columns.mac && weights.packed.taps() == columns.taps);
    debug_assert_eq!(out.len(), weights.rows() * columns.columns);
    if out.is_empty() {
        return;
    }
    let across = columns.columns.div_ceil(TASK_PANELS * WIDTH);
    let mut tasks: Vec<MacroTile> = Vec::new();
    for (row, line) in out.chunks_mut(columns.columns).enumerate() {
        if row % (TASK_BLOCKS * HEIGHT) == 0 {
            let block = row / HEIGHT;
            tasks.extend((0..across).map(|i| MacroTile {
                weights,
                columns,
                bias,
                block,
                panel: i * TASK_PANELS,
                out: vec![],
            }));
        }
        let last = tasks.len() - across;
        for (task, part) in tasks[last..].iter_mut().zip(line.chunks_mut(TASK_PANELS * WIDTH)) {
            task.out.push(part);
        }
    }
    let work = weights.rows() * columns.taps.max(1) * columns.columns;
    share(tasks, work >= PARALLEL_THRESHOLD, false, &|_, task| arch.dispatch(task));
}

/// Rows of a block.
fn height(rows: usize, block: usize) -> usize {
    (rows - block * HEIGHT).min(HEIGHT).next_multiple_of(LEAST_HEIGHT)
}
