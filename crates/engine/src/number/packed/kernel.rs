//! Blocks of rows times panels of columns. Everything here is inlined into one function per instruction set.

use super::super::mac;
use super::careful::careful;
use super::{Columns, HEIGHT, LEAST_HEIGHT, Line, Reading, SEGMENT, WIDTH, Weights, height, lower};
use crate::product::columns_of;
use crate::work::{apart, room};
use anemone_facts::numerics::{Mac, Specials, Ties};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Most taps between two visits to the sums: what of a panel and of the rows of a task stays near a core.
const PASS: usize = 640;
/// Room for their numbers in a list, wherever a tap of [`PASS`] goes: a power of two.
const ROOM: usize = 1024;
/// Vectors of sums that are held in registers for each row of a block.
const VECTORS: usize = 2;
/// Rows whose sums 16 registers hold, two vectors each.
const MOST_ROWS: usize = HEIGHT / 2;
const THREE_QUARTERS: usize = MOST_ROWS + LEAST_HEIGHT;
/// Sums of a column that are formed in turns: none waits for another.
const TURNS: usize = 4;
/// Numbers of the longest vectors.
const LONGEST: usize = 16;
/// Rows of 64-bit sums that are.
const ROWS: usize = LEAST_HEIGHT;
/// Taps converted to 64-bit floats at a time.
const CONVERTED: usize = 32;
/// Taps that are looked at together, as most of them have nothing to drop.
const LISTED: usize = 8;
/// Start of a sum: its last digit is worth 2^-16, and so is that of anything less than 64 away.
pub(super) const START: f32 = 192.0;
/// Products of one run add up to less, with room for the rounding of norms.
pub(super) const RUN_LIMIT: f32 = 31.0;
/// As [`START`], for everything less than 2^35 away: products stay below 2^34.
pub(super) const WIDE_START: f64 = 1.5 * (1u64 << 36) as f64;
/// Units of the accumulator in one.
pub(super) const UNIT: f64 = 65536.0;
/// Sums below this never touched the ceiling of 2^15 on their way to the end of a run.
const SAFE: u32 = (32768 - 64) << 16;
/// Marks a sum that did, or that no run of this kind could form. Adding one run keeps it outside of [`SAFE`].
const LOST: u32 = 1 << 31;

/// Sums of a block and a panel in units of 2^-16.
type Tile = [[u32; WIDTH]; HEIGHT];

/// Some rows and columns of a product.
pub(super) struct Task<'a> {
    pub weights: &'a Weights,
    pub columns: &'a Columns,
    pub bias: &'a [f32],
    /// First block and first panel.
    pub block: usize,
    pub panel: usize,
    /// By row.
    pub out: Vec<&'a mut [f32]>,
}

impl WithSimd for Task<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.run(simd, &mut Vec::new());
    }
}

impl Task<'_> {
    /// `raised` is used up.
    #[inline(always)]
    pub(super) fn run<S: Simd>(mut self, simd: S, raised: &mut Vec<f32>) {
        let width = self.out.first().map_or(0, |row| row.len());
        let taps = self.weights.packed.taps();
        let (panels, blocks) = (width.div_ceil(WIDTH), self.out.len().div_ceil(HEIGHT));
        let rows = |block: usize, all: usize| block * HEIGHT..all.min((block + 1) * HEIGHT);
        let part = |panel: usize| panel * WIDTH..width.min((panel + 1) * WIDTH);
        if !is_fixed(&self.weights.mac) {
            for block in 0..blocks {
                let raised = self.weights.raised(self.block + block, 0..taps, room(raised, HEIGHT * taps));
                for panel in 0..panels {
                    let pair = Pair::new(&self, raised, 0, self.block + block, self.panel + panel);
                    let rows = rows(block, self.out.len());
                    let out = self.out[rows].iter_mut().enumerate();
                    out.for_each(|(row, out)| pair.careful(row, &mut out[part(panel)]));
                }
            }
            return;
        }
        let passes = taps.div_ceil(PASS).max(1);
        let raised = room(raised, blocks * HEIGHT * taps.min(PASS));
        let mut lists = Lists::EMPTY;
        for pass in 0..passes {
            let some = pass * PASS..taps.min((pass + 1) * PASS);
            let of_block = HEIGHT * some.len();
            for (block, to) in raised.chunks_mut(of_block.max(1)).take(blocks).enumerate() {
                self.weights.raised(self.block + block, some.clone(), to);
            }
            for panel in 0..panels {
                for block in 0..blocks {
                    let raised = &raised[block * of_block..][..of_block];
                    let pair = Pair::new(&self, raised, some.start, self.block + block, self.panel + panel);
                    let rows = rows(block, self.out.len());
                    let out = &mut self.out[rows];
                    pair.pass(simd, pass, pass + 1 == passes, part(panel), out, &mut lists);
                }
            }
        }
    }
}

/// Moves the sums of a run to integers.
#[inline(always)]
pub(super) fn end_run<S: Simd>(simd: S, acc: &mut [S::f32s], units: &mut [S::u32s]) {
    for (units, acc) in units.iter_mut().zip(acc) {
        let of_run = simd.sub_u32s(simd.transmute_u32s_f32s(*acc), simd.splat_u32s(START.to_bits()));
        *units = simd.add_u32s(*units, of_run);
        *acc = simd.splat_f32s(START);
    }
}

/// Whether the model is an integer accumulator of the width that the kernels count in.
pub(super) fn is_fixed(mac: &Mac) -> bool {
    let plain = mac.tile.is_none() && mac.specials == Specials::Numbers;
    // Exponent sums of 4 and more have no bit in the sets.
    plain && mac.fraction_bits == 16 && mac.ceiling_log2 == Some(15) && mac.least_exponent_sum <= 4
}

/// A block and a panel.
struct Pair<'a> {
    weights: &'a Weights,
    block: usize,
    reading: Reading,
    taps: usize,
    height: usize,
    /// Of some taps, from `first` on.
    raised: &'a [f32],
    first: usize,
    dropping: &'a [u32],
    row_norms: &'a [f32],
    x: &'a [Line],
    exponents: &'a [u32],
    column_norms: &'a [f32],
    bias: [f64; HEIGHT],
}

impl<'a> Pair<'a> {
    #[inline(always)]
    fn new(task: &Task<'a>, raised: &'a [f32], first: usize, block: usize, panel: usize) -> Pair<'a> {
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
            bias: std::array::from_fn(|row| task.bias.get(block * HEIGHT + row).map_or(0.0, |&b| f64::from(b))),
        }
    }

    /// Adds the taps of one pass. Between passes `out` holds the bits of the sums.
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
        let mut sums: Tile = [[0; WIDTH]; HEIGHT];
        for ((sums, out), bias) in sums.iter_mut().zip(out.iter()).zip(self.bias) {
            if pass == 0 {
                sums.fill(start(bias));
            } else {
                sums.iter_mut().zip(&out[part.clone()]).for_each(|(sum, out)| *sum = out.to_bits());
            }
        }
        let first = pass * PASS;
        // One that is lost goes the other way with its whole tile.
        if !sums.as_flattened().contains(&LOST) {
            self.run(simd, first, self.taps.min(first + PASS), part.len(), &mut sums, lists);
        }
        if last && sums[..out.len()].as_flattened().contains(&LOST) {
            let bound =
                self.bounds(0, self.taps).sum::<f32>() + self.bias.iter().fold(0.0f32, |a, b| a.max(b.abs() as f32));
            match bound < 32700.0 {
                true => self.wide::<S, false>(simd, part, out, lists),
                false => self.wide::<S, true>(simd, part, out, lists),
            }
            return;
        }
        for (sums, out) in sums.iter().zip(out) {
            let pairs = out[part.clone()].iter_mut().zip(sums);
            match (last, self.weights.mac.ties) {
                (false, _) => pairs.for_each(|(to, &sum)| *to = f32::from_bits(sum)),
                (true, Ties::Away) => pairs.for_each(|(to, &sum)| *to = settle_away(sum as i32)),
                (true, Ties::Even) => pairs.for_each(|(to, &sum)| *to = self.settle(sum as i32)),
            }
        }
    }

    /// By segment: no part of its products adds up to more, in magnitude. `first` begins a segment.
    #[inline(always)]
    fn bounds(&self, first: usize, end: usize) -> impl Iterator<Item = f32> {
        let segments = first / SEGMENT..end.div_ceil(SEGMENT);
        let (rows, columns) = (&self.row_norms[segments.clone()], &self.column_norms[segments]);
        rows.iter().zip(columns).map(|(a, b)| a * b)
    }

    /// Adds the products of `first..end`, at most [`PASS`] taps, in runs short enough.
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

    /// Adds the products of `first..end`, which stay below [`RUN_LIMIT`] together.
    #[inline(always)]
    fn one_run<S: Simd>(&self, simd: S, first: usize, end: usize, columns: usize, sums: &mut Tile, lists: &mut Lists) {
        apart(simd, OneRun { pair: self, taps: first..end, columns, sums, lists });
    }

    /// The whole sums in 64-bit floats, in the order of the taps. Unless `WATCH`, none reaches the ceiling.
    #[inline(always)]
    fn wide<S: Simd, const WATCH: bool>(&self, simd: S, part: Range<usize>, out: &mut [&mut [f32]], lists: &mut Lists) {
        let mut sums = [[0.0; WIDTH]; HEIGHT];
        for (sums, bias) in sums.iter_mut().zip(self.bias) {
            sums.fill(start_wide(bias));
        }
        let mut converted = Converted::default();
        for first in (0..self.taps).step_by(CONVERTED) {
            let count = converted.fill(self, first);
            match WATCH {
                true => lists.fill_in_order(count),
                false => lists.fill(self, first, first + count),
            }
            for row in (0..out.len()).step_by(ROWS) {
                for vector in (0..WIDTH / S::F64_LANES).step_by(VECTORS) {
                    wide_run::<S, WATCH>(simd, &converted, lists, row, vector, &mut sums);
                }
            }
        }
        for (sums, out) in sums.iter().zip(out) {
            for (to, &sum) in out[part.clone()].iter_mut().zip(sums) {
                let infinite = if sum > 0.0 { f32::INFINITY } else { f32::NEG_INFINITY };
                let finite = self.settle(((sum - WIDE_START) * UNIT) as i32);
                *to = if sum.is_finite() { finite } else { infinite };
            }
        }
    }

    #[inline(always)]
    fn settle(&self, sum: i32) -> f32 {
        match self.weights.mac.ties {
            Ties::Away => settle_away(sum),
            Ties::Even => mac::settle(&self.weights.mac, i64::from(sum)).to_f32(),
        }
    }

    #[inline(always)]
    fn careful(&self, row: usize, out: &mut [f32]) {
        let of_row = self.raised.iter().skip(row).step_by(self.height);
        let weights = of_row.map(|&w| (w, self.reading.keep_from(w)));
        careful(&self.weights.mac, weights, self.x, self.bias[row], out);
    }
}

/// The work of [`Pair::one_run`].
struct OneRun<'a, 'b> {
    pair: &'a Pair<'b>,
    taps: Range<usize>,
    /// Those of the panel that are wanted.
    columns: usize,
    sums: &'a mut Tile,
    lists: &'a mut Lists,
}

impl WithSimd for OneRun<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let OneRun { pair, taps, columns, sums, lists } = self;
        lists.fill(pair, taps.start, taps.end);
        let of_run = (taps.start - pair.first) * pair.height..(taps.end - pair.first) * pair.height;
        let (w, x) = (&pair.raised[of_run], &pair.x[taps]);
        match pair.height {
            LEAST_HEIGHT => narrow::<S, LEAST_HEIGHT>(simd, pair.reading, lists, w, x, columns, sums),
            MOST_ROWS => narrow::<S, MOST_ROWS>(simd, pair.reading, lists, w, x, columns, sums),
            THREE_QUARTERS => narrow::<S, THREE_QUARTERS>(simd, pair.reading, lists, w, x, columns, sums),
            _ => narrow::<S, HEIGHT>(simd, pair.reading, lists, w, x, columns, sums),
        }
    }
}

/// The sum before the first product.
pub(super) fn start(bias: f64) -> u32 {
    let units = (bias * UNIT).round();
    if units.abs() < f64::from(SAFE) || bias.is_nan() { units as i32 as u32 } else { LOST }
}

pub(super) fn start_wide(bias: f64) -> f64 {
    let units = (bias * UNIT).round();
    match () {
        () if bias.is_nan() => WIDE_START,
        () if units.abs() < 32768.0 * UNIT => WIDE_START + units / UNIT,
        () => f64::INFINITY.copysign(bias),
    }
}

/// Taps of a run, counted from its first.
struct Lists {
    /// None of their products is dropped, or all that are round to zero anyway.
    clean: [u16; ROOM],
    cleans: usize,
    mixed: [u16; ROOM],
    mixes: usize,
    /// The least operands that count under each of `mixed`, by row.
    keep: [[f32; HEIGHT]; PASS],
}

impl Lists {
    const EMPTY: Lists = Lists { clean: [0; ROOM], cleans: 0, mixed: [0; ROOM], mixes: 0, keep: [[0.0; HEIGHT]; PASS] };

    #[inline(always)]
    fn fill(&mut self, pair: &Pair, first: usize, end: usize) {
        (self.cleans, self.mixes) = (0, 0);
        let pairs = pair.dropping[first..end].chunks(LISTED).zip(pair.exponents[first..end].chunks(LISTED));
        for (i, (dropping, met)) in pairs.enumerate() {
            let tap = (i * LISTED) as u16;
            let both = |i: usize| dropping[i] & met[i];
            if dropping.len() == LISTED
                && (0..LISTED).fold(0, |set, i| set | both(i)) == 0
                && let Some(to) = self.clean[self.cleans..].first_chunk_mut::<LISTED>()
            {
                *to = std::array::from_fn(|i| tap + i as u16);
                self.cleans += LISTED;
                continue;
            }
            for i in 0..dropping.len() {
                // Written to both, kept in one: no branch to mispredict.
                self.clean[self.cleans % ROOM] = tap + i as u16;
                self.mixed[self.mixes % ROOM] = tap + i as u16;
                let drops = usize::from(both(i) != 0);
                (self.cleans, self.mixes) = (self.cleans + 1 - drops, self.mixes + drops);
            }
        }
    }

    /// All are compared, one after the other.
    #[inline(always)]
    fn fill_in_order(&mut self, taps: usize) {
        (self.cleans, self.mixes) = (0, taps);
        self.mixed.iter_mut().zip(0..).take(taps).for_each(|(to, tap)| *to = tap);
    }

    #[inline(always)]
    fn clean(&self) -> impl Iterator<Item = usize> {
        self.clean[..self.cleans].iter().map(|&tap| usize::from(tap))
    }

    #[inline(always)]
    fn mixed(&self) -> impl Iterator<Item = usize> {
        self.mixed[..self.mixes].iter().map(|&tap| usize::from(tap))
    }
}

/// One run over `H` rows.
#[inline(always)]
fn narrow<S: Simd, const H: usize>(
    simd: S,
    reading: Reading,
    lists: &mut Lists,
    w: &[f32],
    x: &[Line],
    columns: usize,
    sums: &mut Tile,
) {
    let (w, _) = w.as_chunks::<H>();
    // A raised weight has the exponent of the weight. All in one loop, which vectors take in long strides.
    let keep = lists.keep.as_flattened_mut().as_chunks_mut::<H>().0;
    keep.iter_mut().zip(&lists.mixed[..lists.mixes]).for_each(|(keep, &tap)| *keep = w[usize::from(tap)]);
    keep[..lists.mixes].as_flattened_mut().iter_mut().for_each(|keep| *keep = reading.keep_from(*keep));
    let lists = &*lists;
    let (lanes, whole) = (S::F32_LANES, columns - columns_of::<S>(columns));
    // Vectors that hold no column wanted are left out.
    if whole > lanes || lanes * VECTORS < WIDTH {
        narrow_vectors::<S, H, VECTORS>(simd, lists, w, x, whole, sums);
    } else if whole > 0 {
        narrow_vectors::<S, H, 1>(simd, lists, w, x, lanes, sums);
    }
    for column in whole..columns {
        narrow_column::<S, H>(simd, lists, w, x, column, sums);
    }
}

#[inline(always)]
fn narrow_vectors<S: Simd, const H: usize, const V: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    x: &[Line],
    columns: usize,
    sums: &mut Tile,
) {
    if S::REGISTER_COUNT >= 32 || H <= MOST_ROWS {
        return narrow_rows::<S, H, H, V>(simd, lists, w, 0, x, columns, sums);
    }
    narrow_rows::<S, H, MOST_ROWS, V>(simd, lists, w, 0, x, columns, sums);
    match H {
        HEIGHT => narrow_rows::<S, H, MOST_ROWS, V>(simd, lists, w, MOST_ROWS, x, columns, sums),
        _ => narrow_rows::<S, H, LEAST_HEIGHT, V>(simd, lists, w, MOST_ROWS, x, columns, sums),
    }
}

/// One column alone: rows stand side by side in a vector. Sums of exact terms may be taken in any order.
#[inline(always)]
fn narrow_column<S: Simd, const H: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    x: &[Line],
    column: usize,
    sums: &mut Tile,
) {
    let mut of_run = [0u32; HEIGHT];
    // What a row has of a vector that reaches past it is another tap's, and not looked at.
    let flat = w.as_flattened();
    let keep = lists.keep.as_flattened();
    for first in (0..H).step_by(S::F32_LANES) {
        let vector = |of: &[f32], tap: usize| -> S::f32s {
            let at = tap * H + first;
            match of.get(at..at + S::F32_LANES) {
                Some(numbers) => S::as_simd_f32s(numbers).0[0],
                None => simd.partial_load_f32s(&of[at..]),
            }
        };
        let mut acc = [simd.splat_f32s(START); TURNS];
        let add = |tap: u16, of_tap: &mut S::f32s| {
            let tap = usize::from(tap);
            *of_tap = simd.mul_add_e_f32s(vector(flat, tap), simd.splat_f32s(x[tap].0[column]), *of_tap);
        };
        let (turns, rest) = lists.clean[..lists.cleans].as_chunks::<TURNS>();
        turns.iter().for_each(|taps| taps.iter().zip(&mut acc).for_each(|(&tap, acc)| add(tap, acc)));
        rest.iter().zip(&mut acc).for_each(|(&tap, acc)| add(tap, acc));
        for (i, tap) in lists.mixed().enumerate() {
            let (x, of_tap) = (simd.splat_f32s(x[tap].0[column]), &mut acc[0]);
            let counts = simd.greater_than_or_equal_f32s(simd.abs_f32s(x), vector(keep, i));
            let kept = simd.select_f32s(counts, x, simd.splat_f32s(0.0));
            *of_tap = simd.mul_add_e_f32s(vector(flat, tap), kept, *of_tap);
        }
        for acc in acc {
            let mut turn = [0; LONGEST];
            S::as_mut_simd_u32s(&mut turn[..S::F32_LANES]).0[0] = simd.transmute_u32s_f32s(acc);
            let rows = of_run[first..].iter_mut().zip(turn).take(S::F32_LANES);
            rows.for_each(|(sum, acc)| *sum = sum.wrapping_add(acc.wrapping_sub(START.to_bits())));
        }
    }
    for (sums, of_run) in sums.iter_mut().zip(of_run).take(H) {
        let new = sums[column].wrapping_add(of_run);
        sums[column] = if new.wrapping_add(SAFE) < 2 * SAFE { new } else { LOST };
    }
}

/// `R` of the rows, from one on: as many as the registers hold.
#[inline(always)]
fn narrow_rows<S: Simd, const H: usize, const R: usize, const V: usize>(
    simd: S,
    lists: &Lists,
    w: &[[f32; H]],
    first: usize,
    x: &[Line],
    columns: usize,
    sums: &mut Tile,
) {
    let rows = |all: &[f32]| -> [f32; R] { std::array::from_fn(|r| all[first + r]) };
    for vector in (0..columns.div_ceil(S::F32_LANES)).step_by(V) {
        let mut acc = [[simd.splat_f32s(START); V]; R];
        for tap in lists.clean() {
            let (w, x) = (rows(&w[tap]), &S::as_simd_f32s(&x[tap].0).0[vector..vector + V]);
            // Row by row: the registers hold all sums, and one weight.
            for r in 0..R {
                let weight = simd.splat_f32s(w[r]);
                for v in 0..V {
                    acc[r][v] = simd.mul_add_e_f32s(weight, x[v], acc[r][v]);
                }
            }
        }
        for (tap, keep) in lists.mixed().zip(lists.keep.as_flattened().as_chunks::<H>().0) {
            let (w, keep, x) = (rows(&w[tap]), rows(keep), S::as_simd_f32s(&x[tap].0).0);
            for v in 0..V {
                let (x, magnitude) = (x[vector + v], simd.abs_f32s(x[vector + v]));
                for r in 0..R {
                    let counts = simd.greater_than_or_equal_f32s(magnitude, simd.splat_f32s(keep[r]));
                    // Weights are finite: a zero adds nothing.
                    let kept = simd.select_f32s(counts, x, simd.splat_f32s(0.0));
                    acc[r][v] = simd.mul_add_e_f32s(simd.splat_f32s(w[r]), kept, acc[r][v]);
                }
            }
        }
        for (sums, acc) in sums[first..].iter_mut().zip(acc) {
            let sums = &mut S::as_mut_simd_u32s(sums).0[vector..vector + V];
            for (sum, mut acc) in sums.iter_mut().zip(acc) {
                let mut new = *sum;
                end_run(simd, std::slice::from_mut(&mut acc), std::slice::from_mut(&mut new));
                let shifted = simd.add_u32s(new, simd.splat_u32s(SAFE));
                let safe = simd.less_than_u32s(shifted, simd.splat_u32s(2 * SAFE));
                *sum = simd.select_u32s(safe, new, simd.splat_u32s(LOST));
            }
        }
    }
}

/// Operands of a few taps as 64-bit floats.
#[derive(Default)]
struct Converted {
    w: [[f64; HEIGHT]; CONVERTED],
    keep: [[f64; HEIGHT]; CONVERTED],
    x: [[f64; WIDTH]; CONVERTED],
}

impl Converted {
    /// Returns how many taps there were.
    #[inline(always)]
    fn fill(&mut self, pair: &Pair, first: usize) -> usize {
        let count = CONVERTED.min(pair.taps - first);
        let mut raised = [0.0; HEIGHT * CONVERTED];
        let raised = pair.weights.raised(pair.block, first..first + count, &mut raised);
        for (i, raised) in raised.chunks_exact(pair.height).enumerate() {
            for (to, &from) in self.w[i].iter_mut().zip(raised) {
                // One step of the wider format suffices, and does not move large products.
                let w = f64::from(lower(from));
                let raised = f64::from_bits(w.to_bits() + 1);
                *to = if w == 0.0 { 0.0 } else { raised };
            }
            let keep = raised.iter().map(|&w| f64::from(pair.reading.keep_from(w)));
            self.keep[i].iter_mut().zip(keep).for_each(|(to, keep)| *to = keep);
            self.x[i].iter_mut().zip(&pair.x[first + i].0).for_each(|(to, &from)| *to = f64::from(from));
        }
        count
    }
}

#[inline(always)]
fn wide_run<S: Simd, const WATCH: bool>(
    simd: S,
    from: &Converted,
    lists: &Lists,
    row: usize,
    vector: usize,
    sums: &mut [[f64; WIDTH]; HEIGHT],
) {
    let mut acc: [[S::f64s; VECTORS]; ROWS] =
        std::array::from_fn(|r| std::array::from_fn(|v| S::as_simd_f64s(&sums[row + r]).0[vector + v]));
    let (top, bottom) = (simd.splat_f64s(WIDE_START + 32768.0), simd.splat_f64s(WIDE_START - 32768.0));
    for tap in lists.clean() {
        let (w, x) = (&from.w[tap], S::as_simd_f64s(&from.x[tap]).0);
        for v in 0..VECTORS {
            for r in 0..ROWS {
                acc[r][v] = simd.mul_add_e_f64s(simd.splat_f64s(w[row + r]), x[vector + v], acc[r][v]);
            }
        }
    }
    for tap in lists.mixed() {
        let (w, keep, x) = (&from.w[tap], &from.keep[tap], S::as_simd_f64s(&from.x[tap]).0);
        for v in 0..VECTORS {
            let (x, magnitude) = (x[vector + v], simd.abs_f64s(x[vector + v]));
            for r in 0..ROWS {
                let counts = simd.greater_than_or_equal_f64s(magnitude, simd.splat_f64s(keep[row + r]));
                let new = simd.mul_add_e_f64s(simd.splat_f64s(w[row + r]), x, acc[r][v]);
                let mut sum = simd.select_f64s(counts, new, acc[r][v]);
                if WATCH {
                    let over = simd.greater_than_or_equal_f64s(sum, top);
                    sum = simd.select_f64s(over, simd.splat_f64s(f64::INFINITY), sum);
                    let under = simd.less_than_or_equal_f64s(sum, bottom);
                    sum = simd.select_f64s(under, simd.splat_f64s(f64::NEG_INFINITY), sum);
                }
                acc[r][v] = sum;
            }
        }
    }
    for (r, acc) in acc.into_iter().enumerate() {
        S::as_mut_simd_f64s(&mut sums[row + r]).0[vector..vector + VECTORS].copy_from_slice(&acc);
    }
}

/// A sum in units of 2^-16 to fp16, half away from zero. Sums below 2^-14 are multiples of fp16's smallest number.
#[inline(always)]
pub(super) fn settle_away(sum: i32) -> f32 {
    // Ten of the 52 digits of the fraction stay.
    let bits = (f64::from(sum).to_bits() + (1 << 41)) & !((1 << 42) - 1);
    (f64::from_bits(bits) / UNIT) as f32
}
