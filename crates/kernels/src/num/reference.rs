//! Reference dot product: adds the terms one by one as the multiply-accumulate array does; [`crate::exact`] is compared with it.
//!
//! All arithmetic is in integers. A product of two fp16 significands has 22 bits; in units of `2^-fraction_bits` it stays below
//! 2^51, so that 64 bits hold every partial sum of any task.

use crate::params::{AccumulatorSpec, Specials, Ties};
use half::f16;

/// Significant bits of fp16.
const SIGNIFICANT: u32 = 11;
/// Exponent of subnormal operands.
pub const LEAST_EXPONENT: i32 = -14;

/// `bias + sum of w * x`, added in the order given. Terms are pairs of weight and operand; the rules are symmetric in them.
pub fn dot(mac: &AccumulatorSpec, terms: &[(f16, f16)], bias: f64) -> f16 {
    let mut sum = RunningSum::new(mac, bias);
    for &(w, x) in terms {
        sum.add(w, x);
    }
    sum.result()
}

/// A running sum in units of the accumulator.
#[derive(Clone, Debug)]
pub struct RunningSum {
    mac: AccumulatorSpec,
    sum: i64,
    tile: i64,
    in_tile: u32,
    /// Sign of the first overflow.
    overflow: Option<bool>,
    /// True if an infinite product occurred: positive, negative.
    infinite: [bool; 2],
}

impl RunningSum {
    /// A sum that starts with `bias`, which is rounded as products are.
    pub fn new(mac: &AccumulatorSpec, bias: f64) -> RunningSum {
        let mut new = RunningSum { mac: *mac, sum: 0, tile: 0, in_tile: 0, overflow: None, infinite: [false; 2] };
        if bias.is_infinite() {
            new.infinite[usize::from(bias < 0.0)] = true;
        } else {
            // NaN becomes 0; a bias that does not fit into 64 bits saturates and counts as an overflow.
            new.carry((bias * f64::from(1u32 << mac.fraction_bits)).round() as i64);
        }
        new
    }

    /// Adds one product.
    pub fn add(&mut self, w: f16, x: f16) {
        let (a, b) = (Operand::read(&self.mac, w), Operand::read(&self.mac, x));
        let term = if a.infinite || b.infinite {
            let sign = (a.significand < 0) != (b.significand < 0);
            if a.significand != 0 && b.significand != 0 {
                self.infinite[usize::from(sign)] = true;
            }
            0
        } else {
            product(&self.mac, a, b)
        };
        let Some(tile) = self.mac.tile else { return self.carry(term) };
        let quantum = quantum_log2(self.tile.unsigned_abs().max(term.unsigned_abs()), tile.significand_bits);
        self.tile = round(self.tile, quantum, Ties::Even) + round(term, quantum, Ties::Even);
        self.in_tile += 1;
        if self.in_tile == tile.lanes {
            self.close_tile();
        }
    }

    /// The sum rounded at the output port.
    pub fn result(mut self) -> f16 {
        self.close_tile();
        match (self.infinite, self.overflow) {
            ([true, true], _) => f16::ZERO,
            ([true, false], _) => f16::INFINITY,
            ([false, true], _) => f16::NEG_INFINITY,
            (_, Some(false)) => f16::INFINITY,
            (_, Some(true)) => f16::NEG_INFINITY,
            (_, None) => round_result(&self.mac, self.sum),
        }
    }

    fn close_tile(&mut self) {
        self.in_tile = 0;
        let tile = std::mem::take(&mut self.tile);
        self.carry(tile);
    }

    fn carry(&mut self, term: i64) {
        self.sum = self.sum.saturating_add(term);
        if let Some(ceiling) = self.mac.ceiling_log2
            && self.overflow.is_none()
            && self.sum.unsigned_abs() >> (ceiling + self.mac.fraction_bits) != 0
        {
            self.overflow = Some(self.sum < 0);
        }
    }
}

/// `significand * 2^(exponent - 10)`.
#[derive(Clone, Copy)]
struct Operand {
    significand: i64,
    exponent: i32,
    infinite: bool,
}

impl Operand {
    fn read(mac: &AccumulatorSpec, x: f16) -> Operand {
        let bits = x.to_bits();
        let (field, fraction) = (i32::from(bits >> 10 & 0x1f), i64::from(bits & 0x3ff));
        let subnormal = field == 0;
        let special = field == 31 && mac.specials == Specials::Infinities;
        let magnitude = match () {
            () if subnormal && mac.flush_subnormals => 0,
            () if subnormal => fraction,
            () if special => 0x400,
            () => fraction | 0x400,
        };
        // A NaN that is read as plus infinity loses its sign.
        let negative = x.is_sign_negative() && !(special && fraction != 0);
        Operand {
            significand: if negative { -magnitude } else { magnitude },
            exponent: if subnormal { LEAST_EXPONENT } else { field - 15 },
            infinite: special,
        }
    }
}

fn product(mac: &AccumulatorSpec, a: Operand, b: Operand) -> i64 {
    let exponent = a.exponent + b.exponent;
    if exponent < mac.least_exponent_sum {
        return 0;
    }
    let product = a.significand * b.significand;
    let shift = mac.fraction_bits as i32 + exponent - 2 * (SIGNIFICANT as i32 - 1);
    if shift >= 0 { product << shift } else { round(product, (-shift) as u32, Ties::Away) >> -shift }
}

/// Base-2 logarithm of the unit in which `magnitude` has `bits` significant bits; 0 where it has fewer.
fn quantum_log2(magnitude: u64, bits: u32) -> u32 {
    (u64::BITS - magnitude.leading_zeros()).saturating_sub(bits)
}

/// Rounds to a multiple of `2^quantum_log2`.
fn round(x: i64, quantum_log2: u32, ties: Ties) -> i64 {
    if quantum_log2 == 0 {
        return x;
    }
    let (magnitude, half) = (x.unsigned_abs(), 1u64 << (quantum_log2 - 1));
    let odd = magnitude >> quantum_log2 & 1;
    let up = match ties {
        Ties::Away => half,
        Ties::Even => half - 1 + odd,
    };
    let rounded = ((magnitude + up) >> quantum_log2 << quantum_log2) as i64;
    if x < 0 { -rounded } else { rounded }
}

/// Rounds a sum in units of `2^-fraction_bits` to fp16. Sums are multiples of fp16's smallest number, so that only their leading bits
/// have to be rounded.
pub fn round_result(mac: &AccumulatorSpec, sum: i64) -> f16 {
    debug_assert!(mac.fraction_bits <= 24);
    let rounded = round(sum, quantum_log2(sum.unsigned_abs(), SIGNIFICANT), mac.ties);
    // Exact; or at least 2^16, which is infinite.
    f16::from_f64(rounded as f64 / f64::from(1u32 << mac.fraction_bits))
}
