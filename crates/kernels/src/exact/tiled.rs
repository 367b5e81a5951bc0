//! One row by a panel for any accumulator model: first stage, infinite operands, every ceiling.

use super::WIDTH;
use super::columns::Line;
use super::decode::lower;
use crate::num::reference::round_result;
use crate::params::{AccumulatorSpec, Specials};
use half::f16;

/// Computes one row. `weights` has the raised weight and the smallest operand that is not dropped, by tap.
#[inline(always)]
pub(super) fn general(
    mac: &AccumulatorSpec,
    weights: impl Iterator<Item = (f32, f32)>,
    x: &[Line],
    bias: f64,
    out: &mut [f32],
) {
    // The last bit is worth 2^-fraction_bits for anything below 2^35; fp16 products stay below 2^34.
    let rounds = 1.5 * f64::from(52 - mac.fraction_bits).exp2();
    // Breaks ties; smaller than the last bit of any product that can be close to one.
    let nudge = f64::from(mac.fraction_bits + 24).exp2().recip();
    let unit = f64::from(mac.fraction_bits).exp2();
    let ceiling = mac.ceiling_log2.map(|c| 1u64 << (c + mac.fraction_bits));
    let mut lanes = Lanes::start(bias, unit);
    lanes.watch(ceiling);
    let mut in_tile = 0;
    for ((w, keep), x) in weights.zip(x) {
        let w = f64::from(lower(w));
        let mut terms = [0.0; WIDTH];
        for (term, &x) in terms.iter_mut().zip(&x.0) {
            *term = w * f64::from(if x.abs() < keep { 0.0 } else { x });
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
            None => lanes.carry(&terms, unit),
            Some(tile) => {
                // Exponent of the larger operand, as a power of two; 0 for zeros.
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
            () => round_result(mac, lanes.sum[i]),
        };
        *to = result.to_f32();
    }
}

/// Running sums of a row over a panel.
struct Lanes {
    /// In units of the accumulator.
    sum: [i64; WIDTH],
    tile: [f64; WIDTH],
    /// Sum of the infinite products: NaN once both signs occurred.
    infinite: [f64; WIDTH],
    /// Sign of the first overflow.
    overflow: [i64; WIDTH],
}

impl Lanes {
    fn start(bias: f64, unit: f64) -> Lanes {
        let (start, infinite) = if bias.is_infinite() { (0, bias) } else { ((bias * unit).round() as i64, 0.0) };
        Lanes { sum: [start; WIDTH], tile: [0.0; WIDTH], infinite: [infinite; WIDTH], overflow: [0; WIDTH] }
    }

    #[inline(always)]
    fn carry(&mut self, terms: &[f64; WIDTH], unit: f64) {
        for (sum, term) in self.sum.iter_mut().zip(terms) {
            *sum = sum.saturating_add((term * unit) as i64);
        }
    }

    #[inline(always)]
    fn close_tile(&mut self, unit: f64) {
        let tile = std::mem::replace(&mut self.tile, [0.0; WIDTH]);
        self.carry(&tile, unit);
    }

    #[inline(always)]
    fn watch(&mut self, ceiling: Option<u64>) {
        let Some(ceiling) = ceiling else { return };
        for (overflow, sum) in self.overflow.iter_mut().zip(&self.sum) {
            let over = if sum.unsigned_abs() >= ceiling { sum.signum() } else { 0 };
            *overflow = if *overflow == 0 { over } else { *overflow };
        }
    }
}
