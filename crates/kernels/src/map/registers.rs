//! Stages in registers: from fp16 to fp16, without numbers in memory between.

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
    /// A stage in registers: a sum or product of two sources without factors, bias and function, or factors and a bias of one source. False,
    /// and nothing is done, for anything else.
    #[inline(always)]
    pub(super) fn combine<S: Simd>(
        &self,
        simd: S,
        stage: &MapStage,
        of: &Combination<f32>,
        rules: Option<&Rounding>,
        gathered: &mut [f16],
        to: &mut [f16],
    ) -> bool {
        if stage.relus != [false; 2] {
            return false;
        }
        let (one, other) = match *stage.inputs.as_slice() {
            [one] if rules.is_none() => return of.in_registers(simd, self.gather(one, gathered), to),
            [one, other] => (one, other),
            _ => return false,
        };
        let Block { count, columns, .. } = self.block;
        if !of.is_plain() {
            return false;
        }
        // The row that is broadcast is the second one, if any.
        let (one, other, is_second) = match self.rows(one) {
            Some(_) => (one, other, false),
            None => (other, one, true),
        };
        let Some(one) = self.rows(one) else { return false };
        let other = match self.rows(other) {
            Some(rows) => rows,
            None => (self.gather(other, gathered), columns),
        };
        // Rows without gaps are one.
        let whole = [one.1, other.1] == [columns; 2];
        if !whole && columns < SHORT {
            return false;
        }
        let (count, columns) = if whole { (1, count * columns) } else { (count, columns) };
        let rows = Rows { count, columns, from_stride: 0, to_stride: columns };
        BinaryRows { one, other: Some(other), is_second, rows }.combine(
            simd,
            of.operation.op,
            of.ending.relu,
            rules,
            to,
        )
    }

    /// Rows of a source in fp16 and their distance; `None` if one element is broadcast to a row.
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

/// Factors and a bias in the order of a stage.
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
    /// Factors and bias of one source, vector by vector. False, and nothing is done, if there is more.
    #[inline(always)]
    fn in_registers<S: Simd>(&self, simd: S, from: &[f16], to: &mut [f16]) -> bool {
        let ElementwiseEpilogue { plain, last, scale, bias, function: None, relu, .. } = self.ending else {
            return false;
        };
        let Some((pre, false)) = self.pre.or(Some((1.0, false))) else { return false };
        // Without effect on any number: a factor of one, and minus zero as an addend.
        let [last, scale, bias] = if plain { [1.0, 1.0, -0.0] } else { [last, scale, bias] };
        if const { !simd::converts::<S>() } {
            return affine_halves(from, to, [pre, last, scale], bias, relu);
        }
        let factors = [simd.splat_f32s(pre), simd.splat_f32s(last), simd.splat_f32s(scale)];
        simd::map_halves(simd, Affine { factors, bias: simd.splat_f32s(bias), relu }, from, to)
    }
}
