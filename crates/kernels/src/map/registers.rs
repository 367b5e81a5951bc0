//! Stages computed in vector registers, from fp16 to fp16, without an fp32 buffer in between.

use super::{Combination, MapInput, MapStage, SHORT, Sources};
use crate::binary::BinaryRows;
use crate::host::Rows;
use crate::num;
use crate::params::{BinaryOp, Rounding};
use crate::reduce::{ElementwiseEpilogue, Operation};
use crate::simd::{self, LONGEST, LaneMap, outline};
use crate::view::Block;
use half::f16;
use pulp::{Simd, WithSimd};

/// Columns of a row from which a plain operation with a broadcast element is cheaper row by row.
const LONG: usize = 1 << 9;

impl Sources<'_> {
    /// Executes a stage in registers: a sum or product of two inputs without factors, bias and function, or factors and a bias of one input.
    /// Results are a row without gaps, or for two inputs the rows of `target`. Returns false, without writing, for any other stage.
    #[inline(always)]
    pub(super) fn combine<S: Simd>(
        &self,
        simd: S,
        stage: &MapStage,
        of: &Combination<f32>,
        rules: Option<&Rounding>,
        gathered: &mut [f16],
        to: &mut [f16],
        target: Option<Rows>,
    ) -> bool {
        if stage.relus != [false; 2] {
            return false;
        }
        if rules.is_none()
            && const { simd::converts::<S>() }
            && let Some(shift) = self.shift(of, &stage.inputs, to, target)
        {
            outline(simd, shift);
            return true;
        }
        let (one, other) = match *stage.inputs.as_slice() {
            [one] if rules.is_none() && target.is_none() => {
                return of.in_registers(simd, self.gather(one, gathered), to);
            }
            [one, other] => (one, other),
            _ => return false,
        };
        let Block { count, columns, .. } = self.block;
        if !of.is_plain() {
            return false;
        }
        // A broadcast row is made the second operand.
        let (one, other, is_second) = match self.rows(one) {
            Some(_) => (one, other, false),
            None => (other, one, true),
        };
        let Some(one) = self.rows(one) else { return false };
        let other = match self.rows(other) {
            Some(rows) => rows,
            None => (self.gather(other, gathered), columns),
        };
        // Rows without gaps are processed as one row.
        let whole = [one.1, other.1] == [columns; 2];
        let rows = match target {
            Some(rows) => rows,
            None if whole => Rows::one(count * columns),
            None if columns < SHORT => return false,
            None => Rows { count, columns, from_stride: 0, to_stride: columns },
        };
        let op = of.operation.op;
        if !BinaryRows::takes::<S>(op) {
            return false;
        }
        let of_rows = BinaryRows { one, other: Some(other), is_second, rows };
        outline(simd, Combine { of_rows, op, relu: of.ending.relu, rules, to });
        true
    }

    /// A stage on rows and on elements that are broadcast to a row each: a sum, a product, or an addend and a factor. `None` for other stages, and for
    /// rows that are cheaper as one long row. Out of line, which keeps the code of the other stages as it is.
    #[inline(never)]
    fn shift<'b>(
        &'b self,
        of: &Combination<f32>,
        inputs: &[MapInput],
        to: &'b mut [f16],
        target: Option<Rows>,
    ) -> Option<ShiftRows<'b>> {
        let Operation { op, first, sign } = of.operation;
        let ElementwiseEpilogue { plain, last, scale, bias, function: None, relu, .. } = of.ending else { return None };
        let least = if of.is_plain() && inputs.len() == 2 { LONG } else { LONGEST };
        if of.pre.is_some() || self.block.columns < least {
            return None;
        }
        let (one, times, addend, factor) = match *inputs {
            [one, addend, factor] => (one, 1.0, Some((addend, sign)), Some((factor, 1.0))),
            [one, other] => {
                let is_first = self.broadcast(one).is_some();
                let (one, times, single) =
                    if is_first { (other, sign, (one, first)) } else { (one, first, (other, sign)) };
                match op {
                    BinaryOp::Add => (one, times, Some(single), None),
                    BinaryOp::Mul => (one, times, None, Some(single)),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let single = |of: Option<(MapInput, f32)>, idle: &'static [f16]| match of {
            Some((input, by)) => self.broadcast(input).map(|(from, stride)| (from, stride, by)),
            None => Some((idle, 0, 1.0)),
        };
        let (one, stride) = self.rows(one)?;
        let Block { count, columns, .. } = self.block;
        let rows = Rows { count, columns, from_stride: stride, to_stride: columns };
        Some(ShiftRows {
            one,
            rows: target.map_or(rows, |to| Rows { from_stride: stride, ..to }),
            times,
            addend: single(addend, &[f16::NEG_ZERO])?,
            factor: single(factor, &[f16::ONE])?,
            ends: if plain { [1.0, 1.0, -0.0] } else { [last, scale, bias] },
            relu,
            to,
        })
    }

    /// Elements of an input that are broadcast to rows, and their stride; `None` for other inputs.
    fn broadcast(&self, input: MapInput) -> Option<(&[f16], usize)> {
        let MapInput::Operand(at) = input else { return None };
        let (source, _) = self.of.operands[at].filter(|(_, one_column)| *one_column)?;
        Some(self.block.of_source(source))
    }

    /// Rows of an input in fp16 and their stride; `None` if one element is broadcast to a row.
    #[inline(always)]
    fn rows(&self, input: MapInput) -> Option<(&[f16], usize)> {
        match input {
            MapInput::Value(at) => Some((&self.values[at * self.most..], self.block.columns)),
            MapInput::Operand(at) => match self.of.operands[at] {
                Some((_, true)) => None,
                Some((source, false)) => Some(self.block.of_source(source)),
                None => Some((self.to, self.block.stored().to_stride)),
            },
        }
    }
}

/// A sum or product of rows. Out of line: inlined, its preparations for every form of rows slow down the other stages.
struct Combine<'a> {
    of_rows: BinaryRows<'a>,
    op: BinaryOp,
    relu: bool,
    rules: Option<&'a Rounding>,
    to: &'a mut [f16],
}

impl WithSimd for Combine<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Combine { of_rows, op, relu, rules, to } = self;
        of_rows.combine(simd, op, relu, rules, to);
    }
}

/// Rows times a factor, with an addend and another factor for each row, and two factors and a bias behind them.
struct ShiftRows<'a> {
    one: &'a [f16],
    rows: Rows,
    times: f32,
    /// Elements of rows, their stride, and a factor of them.
    addend: (&'a [f16], usize, f32),
    factor: (&'a [f16], usize, f32),
    ends: [f32; 3],
    relu: bool,
    to: &'a mut [f16],
}

impl WithSimd for ShiftRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let ShiftRows { one, rows, times, addend, factor, ends: [last, scale, bias], relu, to } = self;
        let Rows { count, columns, from_stride, to_stride } = rows;
        let splat = |x: f32| simd.splat_f32s(x);
        let after = Affine { factors: [splat(1.0), splat(last), splat(scale)], bias: splat(bias), relu };
        for row in 0..count {
            let of = |(from, stride, by): (&[f16], usize, f32)| simd.splat_f32s(by * num::widen(from[row * stride]));
            let shift = Shift { times: splat(times), addend: of(addend), factor: of(factor), after };
            let to = &mut to[row * to_stride..][..columns];
            simd::map_halves(simd, shift, &one[row * from_stride..][..columns], to);
        }
    }
}

/// A factor, an addend and another factor, and what follows.
#[derive(Clone, Copy)]
struct Shift<V> {
    times: V,
    addend: V,
    factor: V,
    after: Affine<V>,
}

impl<S: Simd> LaneMap<S> for Shift<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let Shift { times, addend, factor, after } = self;
        after.of(simd, simd.mul_f32s(simd.add_f32s(simd.mul_f32s(x, times), addend), factor))
    }
}

/// Factors and bias, applied in the order of a stage: multiply, multiply, add.
#[derive(Clone, Copy)]
struct Affine<V> {
    factors: [V; 3],
    bias: V,
    relu: bool,
}

impl<S: Simd> LaneMap<S> for Affine<S::f32s> {
    #[inline(always)]
    fn of(self, simd: S, x: S::f32s) -> S::f32s {
        let Affine { factors: [pre, last, scale], bias, relu } = self;
        let x = simd.mul_f32s(simd.mul_f32s(simd.mul_f32s(x, pre), last), scale);
        let x = simd.add_f32s(x, bias);
        if relu { simd::larger(simd, x, simd.splat_f32s(0.0)) } else { x }
    }
}

impl Combination<f32> {
    /// Applies factors and bias of one input in registers. Returns false, without writing, if the stage has more.
    #[inline(always)]
    fn in_registers<S: Simd>(&self, simd: S, from: &[f16], to: &mut [f16]) -> bool {
        let ElementwiseEpilogue { plain, last, scale, bias, function: None, relu, .. } = self.ending else {
            return false;
        };
        let Some((pre, false)) = self.pre.or(Some((1.0, false))) else { return false };
        // Identities: a factor of one, and minus zero as addend.
        let [last, scale, bias] = if plain { [1.0, 1.0, -0.0] } else { [last, scale, bias] };
        let factors = [simd.splat_f32s(pre), simd.splat_f32s(last), simd.splat_f32s(scale)];
        simd::map_halves(simd, Affine { factors, bias: simd.splat_f32s(bias), relu }, from, to)
    }
}
