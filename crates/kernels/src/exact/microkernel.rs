//! Micro-kernels of blocks of rows by panels of columns. Everything here is inlined into one function per instruction set.

use super::columns::{Columns, Line};
use super::decode::Reading;
use super::tiled::general;
use super::{HEIGHT, LEAST_HEIGHT, LONGEST, SEGMENT, TASK_BLOCKS, WIDTH, Weights, height};
use crate::arena::scratch_slice;
use crate::gemm::microkernel::columns_of;
use crate::num::reference;
use crate::params::{AccumulatorSpec, Specials, Ties};
use crate::simd::outline;
use pulp::{Simd, WithSimd};
use std::ops::Range;

mod lists;
mod narrow;

pub(super) use lists::Lists;
use narrow::*;

/// Most taps of a pass: the part of a panel and of a macro tile's rows that stays in the cache of a core.
const PASS: usize = 640;
/// Accumulator vectors a row.
pub(super) const VECTORS: usize = 2;
/// Rows whose accumulators fit 16 registers, at two vectors each.
const MOST_ROWS: usize = HEIGHT / 2;
const THREE_QUARTERS: usize = MOST_ROWS + LEAST_HEIGHT;
/// Independent accumulators of a column, to hide the latency of the addition.
const TURNS: usize = 4;
/// Most tail columns of a panel ([`tail_columns`]).
const MOST_TAIL: usize = 4;
/// Initial value of an accumulator: its last bit is worth 2^-16, and so is that of every number less than 64 away.
pub(super) const START: f32 = 192.0;
/// Bound on the sum of the products of one run, with a margin for the rounding of norms.
pub(super) const RUN_LIMIT: f32 = 31.0;
/// Accumulator units in 1.0.
pub(super) const UNIT: f64 = 65536.0;
/// Magnitude, in units, below which a sum cannot have reached the ceiling of 2^15 at any step of a run.
const SAFE: u32 = (32768 - 64) << 16;
/// Bound on sums that stay below the ceiling at every step, with a margin for the rounding of norms.
pub(super) const BELOW_CEILING: f32 = 32700.0;
/// Marker of a sum that reached the ceiling, or that fp32 runs cannot compute. It stays above [`SAFE`] after one more run.
const LOST: u32 = 1 << 31;

/// Sums of a block and a panel in units of 2^-16.
type Tile = [[u32; WIDTH]; HEIGHT];

/// Scratch memory of the products of a thread.
#[derive(Default)]
pub struct Space {
    raised: Vec<f32>,
    lists: Lists,
}

/// Macro tile: the rows and columns of a product that one thread computes.
pub(super) struct MacroTile<'a> {
    pub weights: &'a Weights,
    pub columns: &'a Columns,
    pub bias: &'a [f32],
    /// Index of the first block, and of the first panel.
    pub block: usize,
    pub panel: usize,
    /// Results, by row.
    pub out: Vec<&'a mut [f32]>,
}

impl WithSimd for MacroTile<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.run(simd, &mut Space::default());
    }
}

impl MacroTile<'_> {
    /// Computes the tile.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, simd: S, space: &mut Space) {
        // One copy for all callers: its code is long.
        outline(
            simd,
            #[inline(always)]
            || self.sum(simd, space),
        );
    }

    #[inline(always)]
    fn sum<S: Simd>(mut self, simd: S, space: &mut Space) {
        let Space { raised, lists } = space;
        let width = self.out.first().map_or(0, |row| row.len());
        let taps = self.weights.packed.taps();
        let (panels, blocks) = (width.div_ceil(WIDTH), self.out.len().div_ceil(HEIGHT));
        let rows = |block: usize, all: usize| block * HEIGHT..all.min((block + 1) * HEIGHT);
        let part = |panel: usize| panel * WIDTH..width.min((panel + 1) * WIDTH);
        let mut biases = [Biases::NONE; TASK_BLOCKS];
        for (block, biases) in biases.iter_mut().enumerate().take(blocks) {
            *biases = Biases::of(self.bias.get((self.block + block) * HEIGHT..).unwrap_or_default());
        }
        if !is_fixed(&self.weights.mac) {
            for (block, bias) in biases.iter().enumerate().take(blocks) {
                let raised =
                    self.weights.raised(simd, self.block + block, 0..taps, scratch_slice(raised, HEIGHT * taps));
                for panel in 0..panels {
                    let pair = Pair::new(&self, bias, raised, 0, self.block + block, self.panel + panel);
                    let rows = rows(block, self.out.len());
                    let out = self.out[rows].iter_mut().enumerate();
                    out.for_each(|(row, out)| pair.general(row, &mut out[part(panel)]));
                }
            }
            return;
        }
        let passes = taps.div_ceil(PASS).max(1);
        let raised = scratch_slice(raised, blocks * HEIGHT * taps.min(PASS));
        for pass in 0..passes {
            let some = pass * PASS..taps.min((pass + 1) * PASS);
            let of_block = HEIGHT * some.len();
            for (block, to) in raised.chunks_mut(of_block.max(1)).take(blocks).enumerate() {
                self.weights.raised(simd, self.block + block, some.clone(), to);
            }
            for panel in 0..panels {
                let x = &self.columns.panels[(self.panel + panel) * taps..][some.clone()];
                lists.gather_tail(simd, x, part(panel).len());
                for block in 0..blocks {
                    let raised = &raised[block * of_block..][..of_block];
                    let pair =
                        Pair::new(&self, &biases[block], raised, some.start, self.block + block, self.panel + panel);
                    let rows = rows(block, self.out.len());
                    let out = &mut self.out[rows];
                    pair.pass(simd, pass, pass + 1 == passes, part(panel), out, lists);
                }
            }
        }
    }
}

/// Adds the sums of a run to integers and restarts the accumulators.
#[inline(always)]
pub(super) fn end_run<S: Simd>(simd: S, acc: &mut [S::f32s], units: &mut [S::u32s]) {
    for (units, acc) in units.iter_mut().zip(acc) {
        let of_run = simd.sub_u32s(simd.transmute_u32s_f32s(*acc), simd.splat_u32s(START.to_bits()));
        *units = simd.add_u32s(*units, of_run);
        *acc = simd.splat_f32s(START);
    }
}

/// Returns true for an integer accumulator with the unit and ceiling of these kernels.
pub(super) fn is_fixed(mac: &AccumulatorSpec) -> bool {
    let plain = mac.tile.is_none() && mac.specials == Specials::Numbers;
    // The exponent sets have no bits for sums of 4 and more.
    plain && mac.fraction_bits == 16 && mac.ceiling_log2 == Some(15) && mac.least_exponent_sum <= 4
}

/// A block of rows and a panel of columns.
pub(super) struct Pair<'a> {
    pub(super) weights: &'a Weights,
    pub(super) block: usize,
    pub(super) reading: Reading,
    pub(super) taps: usize,
    pub(super) height: usize,
    /// Raised weights, from tap `first` on.
    raised: &'a [f32],
    first: usize,
    dropping: &'a [u32],
    row_norms: &'a [f32],
    pub(super) x: &'a [Line],
    exponents: &'a [u32],
    column_norms: &'a [f32],
    pub(super) bias: &'a Biases,
}

/// Initial sums of a block.
#[derive(Clone, Copy)]
pub(super) struct Biases {
    pub(super) all: [f64; HEIGHT],
    /// The largest magnitude.
    most: f32,
    /// Initial accumulators of sums that are a single run.
    starts: [f32; HEIGHT],
}

impl Biases {
    const NONE: Biases = Biases { all: [0.0; HEIGHT], most: 0.0, starts: [START; HEIGHT] };

    #[inline(always)]
    fn of(bias: &[f32]) -> Biases {
        let mut new = Biases::NONE;
        for ((all, start), &bias) in new.all.iter_mut().zip(&mut new.starts).zip(bias) {
            *all = f64::from(bias);
            new.most = new.most.max(bias.abs());
            *start = START + (self::start(*all) as i32) as f32 / UNIT as f32;
        }
        new
    }
}

impl<'a> Pair<'a> {
    #[inline(always)]
    fn new(
        task: &MacroTile<'a>,
        bias: &'a Biases,
        raised: &'a [f32],
        first: usize,
        block: usize,
        panel: usize,
    ) -> Pair<'a> {
        let (weights, columns) = (task.weights, task.columns);
        let taps = columns.taps;
        let segments = taps.div_ceil(SEGMENT);
        Pair {
            weights,
            block,
            reading: Reading::new(&weights.mac),
            taps,
            height: height(weights.rows(), block),
            raised,
            first,
            dropping: &weights.dropping[block * taps..][..taps],
            row_norms: &weights.norms[block * segments..][..segments],
            x: &columns.panels[panel * taps..][..taps],
            exponents: &columns.exponents[panel * taps..][..taps],
            column_norms: &columns.norms[panel * segments..][..segments],
            bias,
        }
    }

    /// Adds the taps of one pass. Between passes `out` holds the integer sums as bits.
    #[inline(always)]
    fn pass<S: Simd>(
        &self,
        simd: S,
        pass: usize,
        last: bool,
        part: Range<usize>,
        out: &mut [&mut [f32]],
        lists: &mut Lists,
    ) {
        let first = pass * PASS;
        if pass == 0 && last && self.weights.mac.ties == Ties::Away && self.bound() < RUN_LIMIT {
            let columns = part.len();
            let ends = Ends::Outputs { starts: &self.bias.starts, part, out };
            return outline(simd, OneRun { pair: self, taps: 0..self.taps, columns, ends, lists });
        }
        let mut sums: Tile = [[0; WIDTH]; HEIGHT];
        for ((sums, out), bias) in sums.iter_mut().zip(out.iter()).zip(self.bias.all) {
            if pass == 0 {
                sums.fill(start(bias));
            } else {
                sums.iter_mut().zip(&out[part.clone()]).for_each(|(sum, out)| *sum = out.to_bits());
            }
        }
        // One lost sum sends its whole tile to the fp64 kernel.
        if !sums.as_flattened().contains(&LOST) {
            self.run(simd, first, self.taps.min(first + PASS), part.len(), &mut sums, lists);
        }
        if last && sums[..out.len()].as_flattened().contains(&LOST) {
            match self.bound() < BELOW_CEILING {
                true => self.wide(simd, false, part, out, lists),
                false => self.wide(simd, true, part, out, lists),
            }
            return;
        }
        for (sums, out) in sums.iter().zip(out) {
            let pairs = out[part.clone()].iter_mut().zip(sums);
            match (last, self.weights.mac.ties) {
                (false, _) => pairs.for_each(|(to, &sum)| *to = f32::from_bits(sum)),
                (true, Ties::Away) => pairs.for_each(|(to, &sum)| *to = settle_away(sum as i32)),
                (true, Ties::Even) => pairs.for_each(|(to, &sum)| *to = self.round_result(sum as i32)),
            }
        }
    }

    /// Upper bound on the magnitude of any partial sum.
    #[inline(always)]
    fn bound(&self) -> f32 {
        let mut sum = self.bias.most;
        for bound in self.bounds(0, self.taps) {
            sum += bound;
        }
        sum
    }

    /// Upper bound on the magnitude of any partial sum of each segment from `first` to `end`; `first` starts a segment.
    #[inline(always)]
    fn bounds(&self, first: usize, end: usize) -> impl Iterator<Item = f32> {
        let segments = first / SEGMENT..end.div_ceil(SEGMENT);
        let (rows, columns) = (&self.row_norms[segments.clone()], &self.column_norms[segments]);
        rows.iter().zip(columns).map(|(a, b)| a * b)
    }

    /// Adds the products of taps `first..end`, at most [`PASS`], in runs below [`RUN_LIMIT`].
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, first: usize, end: usize, columns: usize, sums: &mut Tile, lists: &mut Lists) {
        let (sum, largest) = self.bounds(first, end).fold((0.0, 0.0f32), |(a, b), x| (a + x, b.max(x)));
        if sum < RUN_LIMIT {
            return self.one_run(simd, first, end, columns, sums, lists);
        }
        if largest >= RUN_LIMIT {
            *sums = [[LOST; WIDTH]; HEIGHT];
            return;
        }
        let (mut start, mut sum) = (first, 0.0);
        for (i, bound) in self.bounds(first, end).enumerate() {
            if sum + bound >= RUN_LIMIT {
                let to = first + i * SEGMENT;
                self.one_run(simd, start, to, columns, sums, lists);
                (start, sum) = (to, 0.0);
            }
            sum += bound;
        }
        self.one_run(simd, start, end, columns, sums, lists);
    }

    /// Adds the products of taps `first..end`, whose sums stay below [`RUN_LIMIT`].
    #[inline(always)]
    fn one_run<S: Simd>(&self, simd: S, first: usize, end: usize, columns: usize, sums: &mut Tile, lists: &mut Lists) {
        outline(simd, OneRun { pair: self, taps: first..end, columns, ends: Ends::Units(sums), lists });
    }

    #[inline(always)]
    pub(super) fn round_result(&self, sum: i32) -> f32 {
        match self.weights.mac.ties {
            Ties::Away => settle_away(sum),
            Ties::Even => reference::round_result(&self.weights.mac, i64::from(sum)).to_f32(),
        }
    }

    #[inline(always)]
    fn general(&self, row: usize, out: &mut [f32]) {
        let of_row = self.raised.iter().skip(row).step_by(self.height);
        let weights = of_row.map(|&w| (w, self.reading.keep_from(w)));
        general(&self.weights.mac, weights, self.x, self.bias.all[row], out);
    }
}

/// Destination of the sums of a run. Chosen when the run starts, because a branch for each sum costs less than a second copy of the code.
enum Ends<'a, 'b> {
    /// Adds to the integer sums of other runs.
    Units(&'a mut Tile),
    /// Rounds to fp16 results, for sums that are a single run.
    Outputs {
        /// [`START`] plus the bias, by row.
        starts: &'a [f32; HEIGHT],
        part: Range<usize>,
        out: &'a mut [&'b mut [f32]],
    },
}

impl Ends<'_, '_> {
    /// Initial accumulator of a row.
    #[inline(always)]
    fn start(&self, row: usize) -> f32 {
        match self {
            Ends::Units(_) => START,
            Ends::Outputs { starts, .. } => starts[row],
        }
    }

    /// Takes an accumulator vector of a row.
    #[inline(always)]
    fn vector<S: Simd>(&mut self, simd: S, row: usize, vector: usize, mut acc: S::f32s) {
        match self {
            Ends::Units(sums) => {
                let sum = &mut S::as_mut_simd_u32s(&mut sums[row]).0[vector];
                let mut new = *sum;
                end_run(simd, std::slice::from_mut(&mut acc), std::slice::from_mut(&mut new));
                let shifted = simd.add_u32s(new, simd.splat_u32s(SAFE));
                let safe = simd.less_than_u32s(shifted, simd.splat_u32s(2 * SAFE));
                *sum = simd.select_u32s(safe, new, simd.splat_u32s(LOST));
            }
            Ends::Outputs { part, out, .. } => {
                let Some(out) = out.get_mut(row) else { return };
                let settled = settle_run(simd, acc);
                let Some(to) = out[part.clone()].get_mut(vector * S::F32_LANES..) else { return };
                match S::as_mut_simd_f32s(to).0.first_mut() {
                    Some(to) => *to = settled,
                    None => simd.partial_store_f32s(to, settled),
                }
            }
        }
    }

    /// Takes one sum of products in units of 2^-16, without the initial value.
    #[inline(always)]
    fn one(&mut self, row: usize, column: usize, units: u32) {
        match self {
            Ends::Units(sums) => {
                let sum = &mut sums[row][column];
                let new = sum.wrapping_add(units);
                *sum = if new.wrapping_add(SAFE) < 2 * SAFE { new } else { LOST };
            }
            Ends::Outputs { starts, part, out } => {
                let Some(out) = out.get_mut(row) else { return };
                let bias = starts[row].to_bits().wrapping_sub(START.to_bits());
                out[part.start + column] = settle_away(units.wrapping_add(bias) as i32);
            }
        }
    }
}

/// [`Pair::one_run`], out of line.
struct OneRun<'a, 'b, 'c> {
    pair: &'a Pair<'b>,
    taps: Range<usize>,
    /// Columns of the panel to compute.
    columns: usize,
    ends: Ends<'a, 'c>,
    lists: &'a mut Lists,
}

impl WithSimd for OneRun<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OneRun { pair, taps, columns, mut ends, lists } = self;
        lists.fill(simd, pair, taps.start, taps.end);
        let begin = taps.start - pair.first;
        let of_run = begin * pair.height..(taps.end - pair.first) * pair.height;
        let (w, x) = (&pair.raised[of_run], &pair.x[taps]);
        match pair.height {
            LEAST_HEIGHT => narrow::<S, LEAST_HEIGHT>(simd, pair.reading, lists, begin, w, x, columns, &mut ends),
            MOST_ROWS => narrow::<S, MOST_ROWS>(simd, pair.reading, lists, begin, w, x, columns, &mut ends),
            THREE_QUARTERS => narrow::<S, THREE_QUARTERS>(simd, pair.reading, lists, begin, w, x, columns, &mut ends),
            _ => narrow::<S, HEIGHT>(simd, pair.reading, lists, begin, w, x, columns, &mut ends),
        }
    }
}

/// Initial integer sum for a bias, in units of 2^-16.
pub(super) fn start(bias: f64) -> u32 {
    let units = (bias * UNIT).round();
    if units.abs() < f64::from(SAFE) || bias.is_nan() { units as i32 as u32 } else { LOST }
}

/// Half a unit in the last place of fp16 at fp32's position, and the mask of the bits that fp16 keeps.
const HALF: u32 = 1 << 12;
const KEPT: u32 = !(2 * HALF - 1);

/// Rounds the sum of one run to fp16, half away from zero. Sums below 2^-14 are multiples of fp16's smallest number.
#[inline(always)]
pub(super) fn settle_run<S: Simd>(simd: S, acc: S::f32s) -> S::f32s {
    // Exact: both are multiples of 2^-16, and less than 64 apart.
    round_sum(simd, simd.sub_f32s(acc, simd.splat_f32s(START)))
}

/// [`settle_run`] for a sum that does not include [`START`].
#[inline(always)]
pub(super) fn round_sum<S: Simd>(simd: S, sum: S::f32s) -> S::f32s {
    let sum = simd.transmute_u32s_f32s(sum);
    simd.transmute_f32s_u32s(simd.and_u32s(simd.add_u32s(sum, simd.splat_u32s(HALF)), simd.splat_u32s(KEPT)))
}

/// `settle_run` for a sum in units of 2^-16.
#[inline(always)]
pub fn settle_away(sum: i32) -> f32 {
    let magnitude = sum.unsigned_abs();
    // The bits that do not fit into fp32 are far below the rounding position.
    let fits = if magnitude >> 24 == 0 { magnitude } else { magnitude & !0xff };
    let bits = (fits as i32 as f32).to_bits().wrapping_add(HALF) & KEPT;
    f32::from_bits(bits | (sum as u32 & 1 << 31)) / UNIT as f32
}
