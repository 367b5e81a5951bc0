//! Products of a weight matrix and a matrix of columns, many sums at once, bit-equal to [`super::mac::dot`].
//!
//! The accumulator's rounding comes for free with the fused multiply-add. Operands are fp16 numbers held in fp32, and
//! a sum of fp32 starts at 192:
//!
//! - The last digit of anything from 128 to 256 is worth 2^-16. While the products of a run of taps add up to less than
//!   32, `sum + w * x` is `sum` and the product rounded to a multiple of 2^-16: one instruction does what the array does.
//! - `w * x` has 22 significant bits. With the weight taken one fp32 step away from zero, the product moves away from
//!   zero by less than its last digit: every other number keeps its nearest neighbour, and a tie becomes a number beyond
//!   the tie. Rounding to nearest, ties to even, then rounds ties away from zero. For products below 32 this holds as
//!   well where multiplication and addition round one after the other.
//! - How far a run can go is known beforehand: `|sum of w * x| <= |w| * |x|` for any part of it (Cauchy and Schwarz).
//! - After a run the sum moves to an integer. One that has come within 64 of the ceiling is formed again with the ceiling
//!   watched, as no other can have touched it. That, and runs that cannot be made short enough, is the business of
//!   64-bit floats: the same with 1.5 * 2^36 in place of 192.
//! - A product is dropped where the exponents add up to too little, that is where `x` is below a power of two that
//!   depends on `w` alone. Most of these round to zero anyway. The others need certain pairs of exponents: the sets of
//!   exponents met say which taps need the comparison. All products are added first, and what is dropped is subtracted
//!   again: rounding is the same on both sides of zero, so nothing is left of it.
//!
//! Models with a first stage go the careful way, in 64-bit floats and integers.
//!
//! Values come and go as fp32 that hold fp16 numbers. A signalling NaN has become a quiet one by then, which the array
//! of [`Specials::Numbers`] reads as another number.

mod alone;
mod careful;
mod kernel;
#[cfg(test)]
mod tests;

use super::mac::LEAST_EXPONENT;
use super::vectors::{self, Before};
use crate::panels::{Packed, Values};
use crate::work::room;
pub(crate) use alone::LoneRow;
use anemone_facts::numerics::{Mac, Specials};
use bytemuck::{Pod, Zeroable};
use half::f16;
use kernel::Task;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;
use std::ops::Range;

/// Columns of a panel.
const WIDTH: usize = 32;
/// Rows of a block: with two vectors each, what 32 registers hold; they share the lists of their taps. The last one has fewer, in
/// steps of the least, where these are enough.
pub(crate) const HEIGHT: usize = 12;
pub(crate) const LEAST_HEIGHT: usize = 3;
/// Numbers of the longest vectors.
const LONGEST: usize = 16;
/// Taps that share a bound.
const SEGMENT: usize = 8;
/// Panels packed together: their columns lie side by side in the source.
const PANELS_AT_ONCE: usize = 8;
/// Blocks of a task: what a core keeps of the weights.
const TASK_BLOCKS: usize = 8;
/// Panels of a task.
const TASK_PANELS: usize = 16;
/// Products of fewer multiply-additions are not worth waking the other cores.
const WORTH_SHARING: usize = 1 << 18;

/// The columns of a panel under one tap. Aligned to the longest vectors.
#[derive(Clone, Copy, Debug, Zeroable, Pod)]
#[repr(C, align(64))]
struct Line([f32; WIDTH]);

/// Weights, and what bounds their sums.
#[derive(Clone, Debug)]
pub struct Weights {
    mac: Mac,
    packed: Packed,
    /// Whether the model reads all of them as they are.
    plain: bool,
    /// Exponents of operands whose products must be looked at, one bit each. By block, then tap.
    dropping: Vec<u32>,
    /// Largest norm of a row. By block, then segment.
    norms: Vec<f32>,
}

/// Columns, decoded.
#[derive(Clone, Debug)]
pub struct Columns {
    mac: Mac,
    taps: usize,
    columns: usize,
    /// By panel, then tap. Zeros after the last column.
    panels: Vec<Line>,
    /// Exponents met, one bit each; zeros have none. By panel, then tap.
    exponents: Vec<u32>,
    /// Largest norm of a column. By panel, then segment.
    norms: Vec<f32>,
}

impl Weights {
    /// Packs `rows * taps` fp16 numbers, row by row. Missing ones count as zero.
    pub fn pack(mac: &Mac, rows: usize, taps: usize, values: &[f32]) -> Weights {
        let mut halves = vec![f16::ZERO; rows * taps];
        halves.iter_mut().zip(values).for_each(|(half, value)| *half = f16::from_f32(*value));
        Weights::of(mac, rows, taps, &Values::Halves(halves))
    }

    pub(crate) fn of(mac: &Mac, rows: usize, taps: usize, values: &Values) -> Weights {
        let (blocks, segments) = (rows.div_ceil(HEIGHT), taps.div_ceil(SEGMENT));
        let reading = Reading::new(mac);
        let mut new = Weights {
            mac: *mac,
            plain: values.each_value().all(|x| reading.decode(x.to_f32()) == x.to_f32()),
            packed: Packed::of(values, rows, taps, HEIGHT),
            dropping: vec![0; blocks * taps],
            norms: vec![0.0; blocks * segments],
        };
        if rows * taps == 0 {
            return new;
        }
        let packed = &new.packed;
        let share = if rows * taps < WORTH_SHARING / 8 { blocks } else { 1 };
        let parts = new.dropping.par_chunks_mut(taps).zip(new.norms.par_chunks_mut(segments));
        parts.enumerate().with_min_len(share).for_each(|(block, (dropping, norms))| {
            Arch::new().dispatch(
                #[inline(always)]
                || bound_block(reading, packed, block, dropping, norms),
            );
        });
        new
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.packed.channels()
    }

    /// What they take.
    pub(crate) fn bytes(&self) -> usize {
        self.packed.bytes() + size_of_val(&*self.dropping) + size_of_val(&*self.norms)
    }

    /// Some taps of a block, each one step away from zero: tap by tap as many rows as the block has room for.
    #[inline(always)]
    fn raised<'a, S: Simd>(&self, simd: S, block: usize, taps: Range<usize>, to: &'a mut [f32]) -> &'a mut [f32] {
        if !self.plain {
            let to = read_rows(&self.packed, Reading::new(&self.mac), block, taps, to);
            vectors::prepare(simd, Raising, to);
            return to;
        }
        let (rows, room) = (self.packed.height(block * HEIGHT), height(self.rows(), block));
        let to = &mut to[..taps.len() * room];
        self.packed.widen_and(simd, block * HEIGHT, taps, to, Raising);
        spread(to, rows, room);
        to
    }

    /// The raised weight, and the least operand that counts, of every tap of the only row.
    #[inline(always)]
    pub(crate) fn row<'a, S: Simd>(
        &self,
        simd: S,
        wide: &mut Vec<f32>,
        to: &'a mut Vec<(f32, f32)>,
    ) -> &'a [(f32, f32)] {
        let reading = Reading::new(&self.mac);
        let height = height(self.rows(), 0);
        let all = self.raised(simd, 0, 0..self.packed.taps(), room(wide, height * self.packed.taps()));
        to.clear();
        to.extend(all.iter().step_by(height).map(|&w| (w, reading.keep_from(w))));
        to
    }
}

/// Some taps of a block as the model reads them: tap by tap as many rows as the block has room for.
#[inline(always)]
fn read_rows<'a>(
    packed: &Packed,
    reading: Reading,
    block: usize,
    taps: Range<usize>,
    to: &'a mut [f32],
) -> &'a mut [f32] {
    let (rows, room) = (packed.height(block * HEIGHT), height(packed.channels(), block));
    let to = &mut to[..taps.len() * room];
    packed.widen(block * HEIGHT, taps, to);
    spread(to, rows, room);
    to.iter_mut().for_each(|w| *w = reading.decode(*w));
    to
}

/// Makes `room` rows a tap of fewer; those that are missing are zero.
#[inline(always)]
fn spread(to: &mut [f32], rows: usize, room: usize) {
    if rows < room {
        for tap in (0..to.len() / room).rev() {
            for row in (0..room).rev() {
                to[tap * room + row] = if row < rows { to[tap * rows + row] } else { 0.0 };
            }
        }
    }
}

#[inline(always)]
fn bound_block(reading: Reading, packed: &Packed, block: usize, dropping: &mut [u32], norms: &mut [f32]) {
    let height = height(packed.channels(), block);
    let taps = packed.taps();
    let mut wide = [0.0f32; HEIGHT * SEGMENT];
    for (i, (dropping, norm)) in dropping.chunks_mut(SEGMENT).zip(norms).enumerate() {
        let some = i * SEGMENT..taps.min((i + 1) * SEGMENT);
        let lines = read_rows(packed, reading, block, some, &mut wide);
        let mut squares = [0.0f32; HEIGHT];
        for (to, line) in dropping.iter_mut().zip(lines.chunks_exact(height)) {
            *to = line.iter().fold(0, |set, &w| set | reading.dropping(w));
            squares.iter_mut().zip(line).for_each(|(square, w)| *square += w * w);
        }
        *norm = squares.iter().fold(0.0f32, |a, &b| a.max(b)).sqrt();
    }
}

impl Columns {
    /// Packs `taps * columns` fp16 numbers, tap by tap. Missing ones count as zero.
    pub fn pack(mac: &Mac, taps: usize, columns: usize, values: &[f32]) -> Columns {
        let mut new = Columns::empty(mac);
        new.resize(taps, columns);
        if new.panels.is_empty() {
            return new;
        }
        let segments = taps.div_ceil(SEGMENT);
        let share = if columns * taps < WORTH_SHARING / 8 { usize::MAX } else { 1 };
        let parts = new.panels.par_chunks_mut(PANELS_AT_ONCE * taps);
        let parts = parts.zip(new.exponents.par_chunks_mut(PANELS_AT_ONCE * taps));
        let parts = parts.zip(new.norms.par_chunks_mut(PANELS_AT_ONCE * segments));
        parts.enumerate().with_min_len(share).for_each(|(group, ((panels, exponents), norms))| {
            let first = group * PANELS_AT_ONCE * WIDTH;
            let (reading, source) = (Some(Reading::new(mac)), &Rows { values, columns });
            Arch::new().dispatch(Packing { reading, columns, first, taps, source, panels, exponents, norms });
        });
        new
    }

    /// No columns yet.
    pub fn empty(mac: &Mac) -> Columns {
        Columns { mac: *mac, taps: 0, columns: 0, panels: vec![], exponents: vec![], norms: vec![] }
    }

    /// As [`Columns::pack`], on this thread and into the room at hand. The source may have decoded its numbers.
    #[inline(always)]
    pub(crate) fn fill<S: Simd>(
        &mut self,
        simd: S,
        taps: usize,
        columns: usize,
        decoded: bool,
        source: &impl Operands,
    ) {
        self.resize(taps, columns);
        let (segments, reading) = (taps.div_ceil(SEGMENT), (!decoded).then(|| Reading::new(&self.mac)));
        if self.panels.is_empty() {
            return;
        }
        let parts = self.panels.chunks_mut(PANELS_AT_ONCE * taps);
        let parts = parts.zip(self.exponents.chunks_mut(PANELS_AT_ONCE * taps));
        let parts = parts.zip(self.norms.chunks_mut(PANELS_AT_ONCE * segments));
        for (group, ((panels, exponents), norms)) in parts.enumerate() {
            let first = group * PANELS_AT_ONCE * WIDTH;
            Packing { reading, columns, first, taps, source, panels, exponents, norms }.with_simd(simd);
        }
    }

    fn resize(&mut self, taps: usize, columns: usize) {
        let (panels, segments) = (columns.div_ceil(WIDTH), taps.div_ceil(SEGMENT));
        (self.taps, self.columns) = (taps, columns);
        self.panels.resize(panels * taps, Line([0.0; WIDTH]));
        self.exponents.resize(panels * taps, 0);
        self.norms.resize(panels * segments, 0.0);
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Where columns come from.
pub(crate) trait Operands {
    /// A tap's numbers from a column on.
    fn row<S: Simd>(&self, simd: S, tap: usize, first: usize, to: &mut [f32]);
}

/// Tap by tap. Missing ones count as zero.
struct Rows<'a> {
    values: &'a [f32],
    columns: usize,
}

impl Operands for Rows<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, to: &mut [f32]) {
        let from = &self.values[(tap * self.columns + first).min(self.values.len())..];
        let (whole, missing) = to.split_at_mut(from.len().min(to.len()));
        whole.copy_from_slice(&from[..whole.len()]);
        missing.fill(0.0);
    }
}

/// Packs neighbouring panels, whose first column is `first`. Without a `reading` the numbers are decoded.
struct Packing<'a, O> {
    reading: Option<Reading>,
    columns: usize,
    first: usize,
    taps: usize,
    source: &'a O,
    panels: &'a mut [Line],
    exponents: &'a mut [u32],
    norms: &'a mut [f32],
}

impl<O: Operands> WithSimd for Packing<'_, O> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Packing { reading, columns, first, taps, source, panels, exponents, norms } = self;
        let segments = taps.div_ceil(SEGMENT);
        let outputs = columns.min(first + PANELS_AT_ONCE * WIDTH) - first;
        let mut rows = [Line([0.0; WIDTH]); PANELS_AT_ONCE * SEGMENT];
        for segment in 0..segments {
            let start = segment * SEGMENT;
            let count = SEGMENT.min(taps - start);
            for (t, row) in rows.chunks_exact_mut(PANELS_AT_ONCE).enumerate() {
                let row = &mut lines(row)[..outputs];
                if t >= count {
                    row.fill(0.0);
                    continue;
                }
                source.row(simd, start + t, first, row);
                if let Some(reading) = reading {
                    reading.row(row);
                }
            }
            for panel in 0..outputs.div_ceil(WIDTH) {
                let at = panel * taps + start;
                let (lines, met) = (&mut panels[at..at + count], &mut exponents[at..at + count]);
                norms[panel * segments + segment] = pack_segment(simd, &rows[panel..], lines, met);
            }
        }
    }
}

/// The numbers of lines.
#[inline(always)]
fn lines(lines: &mut [Line]) -> &mut [f32] {
    bytemuck::cast_slice_mut(lines)
}

/// Packs some taps of a panel, which lie [`PANELS_AT_ONCE`] lines apart. Returns the largest norm of a column.
#[inline(always)]
fn pack_segment<S: Simd>(simd: S, rows: &[Line], panel: &mut [Line], exponents: &mut [u32]) -> f32 {
    // Exponents as fp32 has them, in their place; the least one and all below it count as the same.
    const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
    let (zero, one, digits) = (simd.splat_f32s(0.0), simd.splat_u32s(1), simd.splat_u32s(DIGITS));
    let least = simd.splat_f32s(exp2i(LEAST_EXPONENT));
    let mut met = [simd.splat_u32s(0); SEGMENT];
    let mut largest = zero;
    for v in 0..WIDTH / S::F32_LANES {
        let mut squares = zero;
        for (t, met) in met.iter_mut().enumerate() {
            let Some(row) = rows.get(t * PANELS_AT_ONCE) else { return 0.0 };
            let x = S::as_simd_f32s(&row.0).0[v];
            squares = simd.mul_add_e_f32s(x, x, squares);
            let magnitude = simd.abs_f32s(x);
            let clamped = simd.transmute_u32s_f32s(simd.max_f32s(magnitude, least));
            let above = simd.sub_u32s(clamped, simd.transmute_u32s_f32s(least));
            let bit = simd.wrapping_dyn_shl_u32s(one, simd.wrapping_dyn_shr_u32s(above, digits));
            let some = simd.greater_than_f32s(magnitude, zero);
            *met = simd.or_u32s(*met, simd.select_u32s(some, bit, simd.splat_u32s(0)));
            if let Some(to) = panel.get_mut(t) {
                S::as_mut_simd_f32s(&mut to.0).0[v] = x;
            }
        }
        largest = simd.max_f32s(largest, squares);
    }
    for (to, met) in exponents.iter_mut().zip(met) {
        let mut lanes = [0u32; LONGEST];
        S::as_mut_simd_u32s(&mut lanes[..S::F32_LANES]).0[0] = met;
        *to = lanes.iter().fold(0, |set, lane| set | lane);
    }
    simd.reduce_max_f32s(largest).sqrt()
}

/// Operands as the model reads them, in place. Returns the largest magnitude.
#[inline(always)]
pub(crate) fn decode(mac: &Mac, row: &mut [f32]) -> f32 {
    let reading = Reading::new(mac);
    let largest = largest_bits(row);
    if largest < SPECIAL && reading.flush == 0.0 {
        return f32::from_bits(largest);
    }
    row.iter_mut().for_each(|x| *x = reading.decode(*x));
    f32::from_bits(largest_bits(row))
}

/// Of the largest magnitude; they are ordered as numbers are.
#[inline(always)]
fn largest_bits(row: &[f32]) -> u32 {
    row.iter().fold(0, |largest: u32, x| largest.max(x.to_bits() & !(1 << 31)))
}

/// Rows of [`product`] from a row on, which begins a block; on this thread. `raised` is used up.
#[inline(always)]
pub(crate) fn product_of_rows<S: Simd>(
    simd: S,
    weights: &Weights,
    first: usize,
    columns: &Columns,
    bias: &[f32],
    out: &mut [f32],
    raised: &mut Vec<f32>,
) {
    debug_assert!(weights.packed.taps() == columns.taps && first.is_multiple_of(HEIGHT));
    let width = columns.columns.max(1);
    for (i, rows) in out.chunks_mut(TASK_BLOCKS * HEIGHT * width).enumerate() {
        let block = first / HEIGHT + i * TASK_BLOCKS;
        for panel in (0..width.div_ceil(WIDTH)).step_by(TASK_PANELS) {
            let part = panel * WIDTH..width.min((panel + TASK_PANELS) * WIDTH);
            let out = rows.chunks_exact_mut(width).map(|row| &mut row[part.clone()]).collect();
            Task { weights, columns, bias, block, panel, out }.run(simd, raised);
        }
    }
}

/// `out[row][column] = bias[row] + sum over taps`, each an fp16 number as the output port holds it. Rows without a bias
/// start at zero. Both sides are packed for the same model and the same taps; `out` has room for every sum.
pub fn product(weights: &Weights, columns: &Columns, bias: &[f32], out: &mut [f32]) {
    product_with(Arch::new(), weights, columns, bias, out);
}

fn product_with(arch: Arch, weights: &Weights, columns: &Columns, bias: &[f32], out: &mut [f32]) {
    debug_assert!(weights.mac == columns.mac && weights.packed.taps() == columns.taps);
    debug_assert_eq!(out.len(), weights.rows() * columns.columns);
    if out.is_empty() {
        return;
    }
    let across = columns.columns.div_ceil(TASK_PANELS * WIDTH);
    let mut tasks: Vec<Task> = Vec::new();
    for (row, line) in out.chunks_mut(columns.columns).enumerate() {
        if row % (TASK_BLOCKS * HEIGHT) == 0 {
            let block = row / HEIGHT;
            tasks.extend((0..across).map(|i| Task {
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
    let share = if work < WORTH_SHARING { tasks.len() } else { 1 };
    tasks.into_par_iter().with_min_len(share).for_each(|task| arch.dispatch(task));
}

/// Rows that a block has room for.
fn height(rows: usize, block: usize) -> usize {
    (rows - block * HEIGHT).min(HEIGHT).next_multiple_of(LEAST_HEIGHT)
}

/// Exponents of fp32, in their place, that infinities and NaN have.
const SPECIAL: u32 = 0xff << 23;

/// What a model makes of operands.
#[derive(Clone, Copy)]
struct Reading {
    /// Exponent 31 makes a number.
    numbers: bool,
    /// Smaller magnitudes count as zero.
    flush: f32,
    least_exponent_sum: i32,
    /// Sums of exponents whose products are dropped and would not round to zero, bit `sum - 2 * LEAST_EXPONENT` each.
    dropped: u32,
}

// No branches below: these become vector instructions.
impl Reading {
    fn new(mac: &Mac) -> Reading {
        const ROUND_TO_ZERO_BELOW: i32 = -18;
        let below = |sum: i32| (1u64 << (sum - 2 * LEAST_EXPONENT).clamp(0, 32)) - 1;
        Reading {
            numbers: mac.specials == Specials::Numbers,
            flush: if mac.flush_subnormals { exp2i(LEAST_EXPONENT) } else { 0.0 },
            least_exponent_sum: mac.least_exponent_sum,
            dropped: (below(mac.least_exponent_sum) & !below(ROUND_TO_ZERO_BELOW)) as u32,
        }
    }

    /// A row, in place.
    #[inline(always)]
    fn row(self, row: &mut [f32]) {
        if largest_bits(row) >= SPECIAL || self.flush > 0.0 {
            row.iter_mut().for_each(|x| *x = self.decode(*x));
        }
    }

    #[inline(always)]
    fn decode(self, x: f32) -> f32 {
        let bits = x.to_bits();
        // The same fraction under exponent 16.
        let number = f32::from_bits(bits & !SPECIAL | (127 + 16) << 23);
        let infinite = if x.is_nan() { f32::INFINITY } else { x };
        let read = if self.numbers { number } else { infinite };
        let x = if bits & SPECIAL == SPECIAL { read } else { x };
        if x.abs() < self.flush { 0.0 } else { x }
    }

    /// The smallest magnitude whose product with `w` counts; 0 where all do.
    #[inline(always)]
    fn keep_from(self, w: f32) -> f32 {
        // Exponents as fp32 has them, in their place.
        const DIGITS: u32 = f32::MANTISSA_DIGITS - 1;
        const LEAST: i32 = (127 + LEAST_EXPONENT) << DIGITS;
        const SPECIAL: i32 = 0xff << DIGITS;
        let of_w = w.to_bits() as i32 & SPECIAL;
        let least = ((self.least_exponent_sum + 2 * 127) << DIGITS) - of_w.max(LEAST);
        // Zero, and infinities, have no least operand either.
        let some = (least > LEAST) & (of_w != 0) & (of_w != SPECIAL);
        f32::from_bits(if some { least as u32 } else { 0 })
    }

    /// Exponents of all operands whose product with `w` is one of the dropped: bit `e - LEAST_EXPONENT` for exponent `e`.
    #[inline(always)]
    fn dropping(self, w: f32) -> u32 {
        let all = self.dropped >> (exponent(w) - LEAST_EXPONENT).min(31);
        if w == 0.0 { 0 } else { all }
    }
}

/// One step away from zero; zero and infinities stay.
#[derive(Clone, Copy)]
struct Raising;

impl<S: Simd> Before<S> for Raising {
    #[inline(always)]
    fn of(self, simd: S, w: S::f32s) -> S::f32s {
        let magnitude = simd.abs_f32s(w);
        let some = simd.greater_than_f32s(magnitude, simd.splat_f32s(0.0));
        let finite = simd.less_than_f32s(magnitude, simd.splat_f32s(f32::INFINITY));
        let raised = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(w), simd.splat_u32s(1)));
        simd.select_f32s(simd.and_m32s(some, finite), raised, w)
    }
}

/// Undoes [`Raising`].
#[inline(always)]
fn lower(w: f32) -> f32 {
    let lowered = f32::from_bits(w.to_bits().wrapping_sub(1));
    if (w == 0.0) | w.is_infinite() { w } else { lowered }
}

/// Exponent, as the arrays count it.
#[inline(always)]
fn exponent(x: f32) -> i32 {
    ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(LEAST_EXPONENT)
}

#[inline(always)]
fn exp2i(e: i32) -> f32 {
    f32::from_bits(((e + 127) as u32) << 23)
}
