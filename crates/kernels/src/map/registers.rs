//! Stages computed in vector registers, from fp16 to fp16, without an fp32 buffer in between.

use super::{Combination, MapInput, MapStage, SHORT, Sources};
use crate::binary::BinaryRows;
use crate::host::{Rows, affine_halves};
use crate::params::Rounding;
use crate::reduce::ElementwiseEpilogue;
use crate::simd::{self, LaneMap};
use crate::view::Block;
use half::f16;
use pulp::Simd;

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
        BinaryRows { one, other: Some(other), is_second, rows }.combine(
            simd,
            of.operation.op,
            of.ending.relu,
            rules,
            to,
        )
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
        if const { !simd::converts::<S>() } {
            return affine_halves(from, to, [pre, last, scale], bias, relu);
        }
        let factors = [simd.splat_f32s(pre), simd.splat_f32s(last), simd.splat_f32s(scale)];
        simd::map_halves(simd, Affine { factors, bias: simd.splat_f32s(bias), relu }, from, to)
    }
}
