//! Products of a weight matrix and a matrix of columns, many sums at once, bit-equal to [`super::mac::dot`].
//!
//! The quick path does without integers until the last addition. Both operands are fp16 numbers held in fp32, so:
//!
//! - `w * x` has 22 significant bits and is exact. With the weight taken one fp32 step away from zero, the product moves
//!   away from zero by less than its last digit: every other number keeps its nearest neighbour, and a tie becomes a
//!   number beyond the tie. Rounding to nearest, ties to even, then rounds ties away from zero.
//! - Adding 192 leaves a number whose last digit is worth 2^-16: that rounds. The low bits of its pattern are the
//!   product in units of 2^-16, and adding patterns as integers adds products.
//! - Exponents add up to less than the limit exactly where `x` is below a power of two that depends on `w` alone.
//!
//! Values come and go as fp32 that hold fp16 numbers. A signalling NaN has become a quiet one by then, which the array
//! of [`Specials::Numbers`] reads as another number.
//!
//! The quick path holds for products below 32. A row whose sum could reach the ceiling, or whose products are larger, goes the
//! careful way: the same steps in 64-bit floats and integers, with the ceiling watched after every term.

use super::mac::{LEAST_EXPONENT, settle};
use anemone_facts::numerics::{Mac, Specials, Ties};
use half::f16;
use rayon::prelude::*;

/// Most columns of a panel.
const WIDEST: usize = 256;
/// Elements of a panel that stay near a core while all rows pass over them.
const PANEL_ELEMENTS: usize = 1 << 17;
/// Taps added in one pass over the sums.
const STEP: usize = 8;
/// Its last digit is worth 2^-16, and so is that of its sum with anything below 64.
const ROUNDS: f32 = 192.0;
/// Above this, a weight one step off could move a product that is not a tie.
const LARGEST_PRODUCT: f32 = 32.0;
/// Products of fewer multiply-additions are not worth waking the other cores.
const WORTH_SHARING: usize = 1 << 18;

/// Weights, decoded. All lists by row, then tap.
#[derive(Clone, Debug)]
pub struct Weights {
    mac: Mac,
    rows: usize,
    taps: usize,
    /// One step away from zero.
    raised: Vec<f32>,
    /// Operands below this are dropped.
    keep: Vec<f32>,
    /// Largest magnitude, by row.
    largest: Vec<f32>,
    /// Sum of magnitudes, by row.
    sum: Vec<f32>,
}

/// Columns, decoded.
#[derive(Clone, Debug)]
pub struct Columns {
    mac: Mac,
    taps: usize,
    columns: usize,
    /// Columns of every panel but the last.
    width: usize,
    /// Panels, then taps, then the columns of a panel.
    panels: Vec<f32>,
    /// Smallest magnitude but zero, by panel, then tap.
    least: Vec<f32>,
    /// Largest magnitude, by panel.
    largest: Vec<f32>,
}

impl Weights {
    /// Packs `rows * taps` fp16 numbers, row by row. Missing ones count as zero.
    pub fn pack(mac: &Mac, rows: usize, taps: usize, values: &[f32]) -> Weights {
        let mut raised = vec![0.0; rows * taps];
        let mut keep = vec![0.0; rows * taps];
        let (mut largest, mut sum) = (vec![0.0f32; rows], vec![0.0f32; rows]);
        for (i, &value) in values.iter().take(rows * taps).enumerate() {
            let value = decode(mac, value);
            raised[i] = raise(value);
            keep[i] = keep_from(mac, value);
            largest[i / taps] = largest[i / taps].max(value.abs());
            sum[i / taps] += value.abs();
        }
        Weights { mac: *mac, rows, taps, raised, keep, largest, sum }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

impl Columns {
    /// Packs `taps * columns` fp16 numbers, tap by tap. Missing ones count as zero.
    pub fn pack(mac: &Mac, taps: usize, columns: usize, values: &[f32]) -> Columns {
        let width = (PANEL_ELEMENTS / taps.max(1) / 64 * 64).clamp(64, WIDEST);
        let count = columns.div_ceil(width);
        let mut new = Columns {
            mac: *mac,
            taps,
            columns,
            width,
            panels: vec![0.0; columns * taps],
            least: vec![f32::INFINITY; count * taps],
            largest: vec![0.0; count],
        };
        for (tap, values) in values.chunks(columns.max(1)).take(taps).enumerate() {
            for (panel, values) in values.chunks(width).enumerate() {
                let width = new.width_of(panel);
                let to = &mut new.panels[panel * new.width * taps + tap * width..][..width];
                let (mut least, mut largest) = (f32::INFINITY, 0.0f32);
                for (to, &from) in to.iter_mut().zip(values) {
                    *to = decode(mac, from);
                    let magnitude = to.abs();
                    largest = largest.max(magnitude);
                    least = if magnitude > 0.0 { least.min(magnitude) } else { least };
                }
                new.least[panel * taps + tap] = least;
                new.largest[panel] = new.largest[panel].max(largest);
            }
        }
        new
    }

    /// Columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    fn width_of(&self, panel: usize) -> usize {
        self.width.min(self.columns - panel * self.width)
    }
}

/// `out[row][column] = bias[row] + sum over taps`, each an fp16 number as the output port holds it. Rows without a bias
/// start at zero. Both sides are packed for the same model and the same taps; `out` has room for every sum.
pub fn product(weights: &Weights, columns: &Columns, bias: &[f32], out: &mut [f32]) {
    debug_assert!(weights.mac == columns.mac && weights.taps == columns.taps);
    debug_assert_eq!(out.len(), weights.rows * columns.columns);
    let row_elements = columns.columns.max(1);
    let share = if weights.rows * weights.taps * row_elements < WORTH_SHARING {
        weights.rows.max(1)
    } else {
        weights.rows.div_ceil(2 * rayon::current_num_threads()).max(1)
    };
    out.par_chunks_mut(share * row_elements).enumerate().for_each(|(i, out)| {
        let mut scratch = Scratch::new(weights.taps);
        for panel in 0..columns.largest.len() {
            for (r, out) in out.chunks_mut(row_elements).enumerate() {
                let row = i * share + r;
                let out = &mut out[panel * columns.width..][..columns.width_of(panel)];
                row_times_panel(weights, columns, bias.get(row).copied().unwrap_or(0.0), row, panel, &mut scratch, out);
            }
        }
    });
}

fn row_times_panel(
    weights: &Weights,
    columns: &Columns,
    bias: f32,
    row: usize,
    panel: usize,
    scratch: &mut Scratch,
    out: &mut [f32],
) {
    let (mac, taps) = (&weights.mac, weights.taps);
    let (raised, keep) = (&weights.raised[row * taps..][..taps], &weights.keep[row * taps..][..taps]);
    let x = &columns.panels[panel * columns.width * taps..][..out.len() * taps];
    let largest = columns.largest[panel];
    let reach = 1.001 * weights.sum[row] * largest + bias.abs() + taps as f32 / 65536.0;
    let quick = mac.fraction_bits == 16
        && mac.tile.is_none()
        && mac.ties == Ties::Away
        && reach < 32767.0
        && weights.largest[row] * largest < LARGEST_PRODUCT;
    if !quick {
        return careful(mac, raised, keep, x, bias, scratch, out);
    }
    let Scratch { clean, mixed, sums, .. } = scratch;
    clean.clear();
    mixed.clear();
    for (tap, (&keep, &least)) in keep.iter().zip(&columns.least[panel * taps..][..taps]).enumerate() {
        if keep > least { mixed.push(tap as u32) } else { clean.push(tap as u32) }
    }
    // Every term brings the pattern of 192 with it.
    let surplus = (taps as u32).wrapping_mul(ROUNDS.to_bits()) as i32;
    let sums = &mut sums[..out.len()];
    sums.fill(((f64::from(bias) * 65536.0).round() as i32).wrapping_sub(surplus));
    add::<false>(sums, clean, raised, keep, x);
    add::<true>(sums, mixed, raised, keep, x);
    for (to, &sum) in out.iter_mut().zip(sums.iter()) {
        *to = settle_away(sum);
    }
}

/// Adds the products of the listed taps. Unless `DROPS`, none of them is dropped.
// Plain indices over slices of one visible length: the form that becomes vector instructions.
#[allow(clippy::needless_range_loop)]
fn add<const DROPS: bool>(sums: &mut [i32], taps: &[u32], w: &[f32], keep: &[f32], x: &[f32]) {
    let width = sums.len();
    let term = |x: f32, w: f32, keep: f32| -> i32 {
        let x = if DROPS && x.abs() < keep { 0.0 } else { x };
        (w * x + ROUNDS).to_bits() as i32
    };
    let mut steps = taps.chunks_exact(STEP);
    for step in &mut steps {
        let tap: [usize; STEP] = std::array::from_fn(|t| step[t] as usize);
        let x: [&[f32]; STEP] = tap.map(|t| &x[t * width..][..width]);
        let (w, keep) = (tap.map(|t| w[t]), tap.map(|t| keep[t]));
        for i in 0..width {
            let mut sum = sums[i];
            for t in 0..STEP {
                sum = sum.wrapping_add(term(x[t][i], w[t], keep[t]));
            }
            sums[i] = sum;
        }
    }
    for &tap in steps.remainder() {
        let (x, w, keep) = (&x[tap as usize * width..][..width], w[tap as usize], keep[tap as usize]);
        for i in 0..width {
            sums[i] = sums[i].wrapping_add(term(x[i], w, keep));
        }
    }
}

/// One row over a panel, with the ceiling watched and the first stage of the model.
fn careful(mac: &Mac, raised: &[f32], keep: &[f32], x: &[f32], bias: f32, scratch: &mut Scratch, out: &mut [f32]) {
    // Last digit worth 2^-fraction_bits, for anything below 2^35: fp16 products stay below 2^34.
    let rounds = 1.5 * f64::from(52 - mac.fraction_bits).exp2();
    // Breaks ties; below the last digit of any product that can be near one.
    let nudge = f64::from(mac.fraction_bits + 24).exp2().recip();
    let unit = f64::from(mac.fraction_bits).exp2();
    let ceiling = mac.ceiling_log2.map(|c| 1u64 << (c + mac.fraction_bits));
    let width = out.len();
    let mut lanes = scratch.lanes.start(width, bias, unit);
    lanes.watch(ceiling);
    let mut in_tile = 0;
    for (tap, (&w, &keep)) in raised.iter().zip(keep).enumerate() {
        let w = f64::from(lower(w));
        let terms = &mut scratch.terms[..width];
        for (term, &x) in terms.iter_mut().zip(&x[tap * width..][..width]) {
            let x = if x.abs() < keep { 0.0 } else { x };
            *term = w * f64::from(x);
        }
        if mac.specials == Specials::Infinities && terms.iter().any(|t| !t.is_finite()) {
            for (term, infinite) in terms.iter_mut().zip(lanes.infinite.iter_mut()) {
                if term.is_infinite() {
                    *infinite += *term;
                }
                *term = if term.is_finite() { *term } else { 0.0 };
            }
        }
        for term in terms.iter_mut() {
            *term = (*term + nudge.copysign(*term) + rounds) - rounds;
        }
        match mac.tile {
            None => lanes.carry(terms, unit),
            Some(tile) => {
                // The exponent of the larger operand, as a power of two; 0 leaves zeros alone.
                let exponent = |x: f64| f64::from_bits(x.to_bits() & 0x7ff << 52);
                let keeps = 1.5 * f64::from(53 - tile.significand_bits).exp2();
                for (sum, term) in lanes.tile.iter_mut().zip(terms.iter()) {
                    let rounds = exponent(sum.abs().max(term.abs())) * keeps;
                    *sum = ((*sum + rounds) - rounds) + ((*term + rounds) - rounds);
                }
                in_tile += 1;
                if in_tile < tile.lanes {
                    continue;
                }
                in_tile = 0;
                lanes.close_tile(unit);
            }
        }
        lanes.watch(ceiling);
    }
    lanes.close_tile(unit);
    lanes.watch(ceiling);
    for (i, to) in out.iter_mut().enumerate() {
        let (infinite, overflow) = (lanes.infinite[i], lanes.overflow[i]);
        let result = match () {
            () if infinite.is_nan() => f16::ZERO,
            () if infinite != 0.0 => f16::from_f64(infinite),
            () if overflow > 0 => f16::INFINITY,
            () if overflow < 0 => f16::NEG_INFINITY,
            () => settle(mac, lanes.sum[i]),
        };
        *to = result.to_f32();
    }
}

/// What a thread needs besides its rows of the result.
struct Scratch {
    clean: Vec<u32>,
    mixed: Vec<u32>,
    sums: [i32; WIDEST],
    terms: [f64; WIDEST],
    lanes: Room,
}

impl Scratch {
    fn new(taps: usize) -> Scratch {
        Scratch {
            clean: Vec::with_capacity(taps),
            mixed: Vec::with_capacity(taps),
            sums: [0; WIDEST],
            terms: [0.0; WIDEST],
            lanes: Room { sum: [0; WIDEST], tile: [0.0; WIDEST], infinite: [0.0; WIDEST], overflow: [0; WIDEST] },
        }
    }
}

/// Room for the sums of a panel.
struct Room {
    sum: [i64; WIDEST],
    tile: [f64; WIDEST],
    infinite: [f64; WIDEST],
    overflow: [i32; WIDEST],
}

impl Room {
    fn start(&mut self, width: usize, bias: f32, unit: f64) -> Lanes<'_> {
        let (start, infinite) = match bias.is_infinite() {
            true => (0, f64::from(bias)),
            false => ((f64::from(bias) * unit).round() as i64, 0.0),
        };
        let lanes = Lanes {
            sum: &mut self.sum[..width],
            tile: &mut self.tile[..width],
            infinite: &mut self.infinite[..width],
            overflow: &mut self.overflow[..width],
        };
        lanes.sum.fill(start);
        lanes.tile.fill(0.0);
        lanes.infinite.fill(infinite);
        lanes.overflow.fill(0);
        lanes
    }
}

/// The sums of a row over a panel.
struct Lanes<'a> {
    /// In units of the accumulator.
    sum: &'a mut [i64],
    tile: &'a mut [f64],
    /// Sum of the infinite products: NaN once both signs were seen.
    infinite: &'a mut [f64],
    /// Sign of the first overflow.
    overflow: &'a mut [i32],
}

impl Lanes<'_> {
    fn carry(&mut self, terms: &[f64], unit: f64) {
        for (sum, term) in self.sum.iter_mut().zip(terms) {
            *sum = sum.saturating_add((term * unit) as i64);
        }
    }

    fn close_tile(&mut self, unit: f64) {
        for (sum, tile) in self.sum.iter_mut().zip(self.tile.iter_mut()) {
            *sum = sum.saturating_add((*tile * unit) as i64);
            *tile = 0.0;
        }
    }

    fn watch(&mut self, ceiling: Option<u64>) {
        let Some(ceiling) = ceiling else { return };
        for (overflow, sum) in self.overflow.iter_mut().zip(self.sum.iter()) {
            let over = if sum.unsigned_abs() >= ceiling { sum.signum() as i32 } else { 0 };
            *overflow = if *overflow == 0 { over } else { *overflow };
        }
    }
}

/// An operand as the model reads it.
fn decode(mac: &Mac, x: f32) -> f32 {
    const SPECIAL: u32 = 0xff << 23;
    let bits = x.to_bits();
    if bits & SPECIAL == SPECIAL {
        return match mac.specials {
            // The same fraction under exponent 16.
            Specials::Numbers => f32::from_bits(bits & !SPECIAL | (127 + 16) << 23),
            Specials::Infinities if x.is_nan() => f32::INFINITY,
            Specials::Infinities => x,
        };
    }
    if mac.flush_subnormals && x.abs() < exp2i(LEAST_EXPONENT) { 0.0 } else { x }
}

/// One step away from zero; zero and infinities stay.
fn raise(w: f32) -> f32 {
    if w == 0.0 || w.is_infinite() { w } else { f32::from_bits(w.to_bits() + 1) }
}

/// Undoes [`raise`].
fn lower(w: f32) -> f32 {
    if w == 0.0 || w.is_infinite() { w } else { f32::from_bits(w.to_bits() - 1) }
}

/// The smallest magnitude whose product with `w` counts; 0 where all do.
fn keep_from(mac: &Mac, w: f32) -> f32 {
    if w == 0.0 || w.is_infinite() {
        return 0.0;
    }
    let exponent = ((w.to_bits() >> 23 & 0xff) as i32 - 127).max(LEAST_EXPONENT);
    let least = mac.least_exponent_sum - exponent;
    if least > LEAST_EXPONENT { exp2i(least) } else { 0.0 }
}

fn exp2i(e: i32) -> f32 {
    (e as f32).exp2()
}

/// A sum in units of 2^-16 to fp16, half away from zero. Sums below 2^-14 are multiples of fp16's smallest number.
fn settle_away(sum: i32) -> f32 {
    // Ten of the 52 digits of the fraction stay.
    let bits = (f64::from(sum).to_bits() + (1 << 41)) & !((1 << 42) - 1);
    (f64::from_bits(bits) / 65536.0) as f32
}

#[cfg(test)]
mod tests {
    use super::super::mac;
    use super::*;
    use anemone_facts::numerics::{FIXED, TILED, TILED_SUM};

    /// Draws with every exponent equally often, so that ties, drops and overflows are common.
    struct Draw(u64);

    impl Draw {
        fn bits(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
        }

        /// Exponent fields below `fields`; short fractions half of the time.
        fn number(&mut self, fields: u64) -> f16 {
            let bits = self.bits();
            let fraction = bits >> 20 & if bits & 1 == 0 { 0x3ff } else { 0x380 };
            let field = (bits >> 40) % fields;
            // Widening to fp32 makes every NaN quiet.
            let fraction = if field == 31 && fraction != 0 { fraction | 0x200 } else { fraction };
            f16::from_bits((bits >> 3 & 0x8000 | field << 10 | fraction) as u16)
        }
    }

    fn widen(x: &[f16]) -> Vec<f32> {
        x.iter().map(|x| x.to_f32()).collect()
    }

    /// Compares all sums with the reference; how many were infinite.
    fn compare(mac: &Mac, seed: u64, rows: usize, taps: usize, columns: usize, fields: u64) -> usize {
        let mut draw = Draw(seed);
        let w: Vec<f16> = (0..rows * taps).map(|_| draw.number(fields)).collect();
        let x: Vec<f16> = (0..taps * columns).map(|_| draw.number(fields)).collect();
        let bias: Vec<f32> = (0..rows).map(|_| draw.number(20).to_f32()).collect();
        let mut out = vec![f32::NAN; rows * columns];
        let packed = (Weights::pack(mac, rows, taps, &widen(&w)), Columns::pack(mac, taps, columns, &widen(&x)));
        product(&packed.0, &packed.1, &bias, &mut out);
        for (i, &out) in out.iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let terms: Vec<(f16, f16)> = (0..taps).map(|k| (w[row * taps + k], x[k * columns + column])).collect();
            let expected = mac::dot(mac, &terms, f64::from(bias[row]));
            let same = expected.to_f32() == out;
            assert!(same, "{} seed {seed} row {row} column {column}: {expected} expected, {out} found", mac.name);
        }
        out.iter().filter(|x| x.is_infinite()).count()
    }

    #[test]
    fn packed_sums_equal_the_reference() {
        for mac in [&FIXED, &TILED, &TILED_SUM] {
            let mut infinite = 0;
            for (i, &(rows, taps, columns)) in
                [(1, 1, 1), (4, 9, 64), (5, 27, 65), (3, 64, 7), (9, 33, 130), (2, 0, 3), (8, 5, 200)]
                    .iter()
                    .enumerate()
            {
                // Small numbers take the quick path, all numbers overflow, exponent 31 is special.
                for fields in [12, 15, 17, 19, 24, 31, 32] {
                    for seed in 1..6 {
                        infinite += compare(mac, seed * 1000 + i as u64, rows, taps, columns, fields);
                    }
                }
            }
            assert!(infinite > 100, "{}: {infinite} sums overflowed", mac.name);
        }
    }

    #[test]
    fn every_product_of_small_numbers_rounds_as_the_reference() {
        // All significands at the exponents where ties, drops and the last digit meet.
        let fractions: Vec<u16> = (0..0x400).step_by(3).chain([0x200, 0x300, 0x3ff]).collect();
        let x: Vec<f16> = fractions.iter().map(|f| f16::from_bits(f | 5 << 10)).collect();
        for field in 0..13u16 {
            let w: Vec<f16> = fractions.iter().map(|f| f16::from_bits(f | field << 10 | 0x8000)).collect();
            let (weights, columns) =
                (Weights::pack(&FIXED, w.len(), 1, &widen(&w)), Columns::pack(&FIXED, 1, x.len(), &widen(&x)));
            let mut out = vec![0.0; w.len() * x.len()];
            product(&weights, &columns, &[], &mut out);
            for (i, &out) in out.iter().enumerate() {
                let (w, x) = (w[i / x.len()], x[i % x.len()]);
                assert_eq!(mac::dot(&FIXED, &[(w, x)], 0.0).to_f32(), out, "{w} * {x}");
            }
        }
    }

    #[test]
    fn sums_settle_as_the_reference() {
        for shift in 0..31 {
            for near in -3..=3 {
                for base in [1i64 << shift, 3 << shift, 2049 << shift >> 1, 4099 << shift >> 1] {
                    let Ok(sum) = i32::try_from(base + near) else { continue };
                    assert_eq!(settle_away(sum), settle(&FIXED, i64::from(sum)).to_f32(), "{sum}");
                    assert_eq!(settle_away(-sum), settle(&FIXED, -i64::from(sum)).to_f32(), "-{sum}");
                }
            }
        }
    }
}
