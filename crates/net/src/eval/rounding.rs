//! Rounding of values during evaluation: to fp16 or its digits, for all values or those of that type.

use super::Buffer;
use crate::graph::{DType, Net, TensorType, ValueId};
use crate::ops::OpKind;
use half::f16;

/// Values that are rounded to fp16: none, all, or those declared fp16.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Round {
    Nothing,
    Half,
    /// All, in a direction that a seed chooses near the middle of two fp16 numbers.
    Dithered(u32),
    /// All, to the digits of fp16 with the exponents of `f32`.
    Digits,
    Declared,
}

impl Round {
    /// Returns true if all floats are rounded.
    pub(super) fn all(self) -> bool {
        matches!(self, Round::Half | Round::Dithered(_) | Round::Digits)
    }

    /// The data of a value, rounded as its type demands. `at`: position of the value in the net.
    pub(super) fn apply(self, buffer: Buffer, ty: &TensorType, at: u32) -> Buffer {
        match self {
            Round::Digits => buffer.shortened(),
            Round::Dithered(seed) => buffer.dithered(seed ^ at.wrapping_mul(STEP)).rounded(true),
            _ => buffer.rounded(self == Round::Half || self == Round::Declared && ty.dtype == DType::F16),
        }
    }
}

/// Odd factor by which consecutive numbers are spread over all of 32 bits.
const STEP: u32 = 0x9e37_79b9;

/// Half of the least distance of fp16 numbers, relative to them.
const HALF_STEP: f32 = 1.0 / 4096.0;

/// Last place of fp16 in the bits of an `f32`: the places below it are lost.
const LOST: u32 = 1 << 13;

impl Buffer {
    /// Floats rounded to fp16 if `half`.
    fn rounded(mut self, half: bool) -> Buffer {
        if let (Buffer::Float(data), true) = (&mut self, half) {
            data.iter_mut().for_each(|x| *x = f16::from_f32(*x).to_f32());
        }
        self
    }

    /// Floats changed by less than half of the distance of fp16 numbers, by a seed.
    fn dithered(mut self, seed: u32) -> Buffer {
        if let Buffer::Float(data) = &mut self {
            let mut state = seed;
            for x in data {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let draw = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
                *x += *x * draw * HALF_STEP;
            }
        }
        self
    }

    /// Floats with the digits of fp16 and a wider range: sums of integers exceed fp16 until their scale, and compiled programs move the
    /// scale before the sum.
    pub(super) fn rounded_whole(mut self) -> Buffer {
        if let Buffer::Float(data) = &mut self {
            for x in data {
                let unit = if x.abs() < f16::MAX.to_f32() { 1.0 } else { 65536.0 };
                *x = f16::from_f32(*x / unit).to_f32() * unit;
            }
        }
        self
    }

    /// Floats rounded to the eleven digits of fp16, with the exponents of `f32`.
    fn shortened(mut self) -> Buffer {
        if let Buffer::Float(data) = &mut self {
            for x in data.iter_mut().filter(|x| x.is_finite()) {
                let bits = x.to_bits();
                let nearest = bits + (LOST / 2 - 1) + bits / LOST % 2;
                *x = f32::from_bits(nearest / LOST * LOST);
            }
        }
        self
    }
}

/// Floats that stand for integers, by value: conversions of integers, and results that only conversions to integers read.
pub(super) fn whole_numbers(net: &Net) -> Vec<bool> {
    let (mut made, mut read) = (vec![false; net.values.len()], vec![false; net.values.len()]);
    let mut others = net.read_counts();
    let is_float = |id: ValueId| net.value(id).ty.dtype.is_float();
    let is_whole = |id: ValueId| !is_float(id) && net.value(id).ty.dtype != DType::Bool;
    for op in net.ops.iter().filter(|op| op.kind == OpKind::Cast) {
        let (from, to) = (op.inputs[0], op.outputs[0]);
        made[to.0 as usize] = is_whole(from) && is_float(to);
        if is_float(from) && is_whole(to) {
            read[from.0 as usize] = true;
            others[from.0 as usize] -= 1;
        }
    }
    (0..made.len()).map(|at| made[at] || read[at] && others[at] == 0).collect()
}
