//! Lowering of comparisons to truth values 0 and 1. No decoded program of Apple's compares; the arithmetic is exact in every model.
//!
//! The smallest difference of two fp16 numbers is 2^-24, so that a difference times 2^24, clamped to 0..=1, says whether one number is
//! greater. The difference of equal infinities is NaN, or zero on the device; a ReLU makes the correct zero of both.
//! Comparisons with NaN are false, except `not_equal`, which is true.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, ValueId};

/// Distance of the two nearest fp16 numbers, 2^-24.
const SMALLEST_DIFFERENCE: f32 = 1.0 / 16_777_216.0;

/// Scales a difference to an integer.
const WHOLE: Affine = Affine { final_scale: 1.0 / SMALLEST_DIFFERENCE, ..Affine::UNIT };

impl Lowerer<'_> {
    /// 1 if the comparison holds, else 0.
    pub(super) fn comparison(&mut self, f: Binary, operands: [ValueId; 2], to: &View) -> Result<()> {
        let [x, y] = operands;
        let nan = [x, y].map(|id| self.may_be_nan(id));
        let (a, b) = (self.view(x)?, self.view(y)?);
        let undefined =
            if x == y { self.undefined_operand(&a, nan[0])? } else { self.undefined_of(&[&a, &b], nan, to)? };
        match f {
            Binary::Greater => self.greater(&a, &b, to),
            Binary::Less => self.greater(&b, &a, to),
            Binary::GreaterEqual | Binary::LessEqual => {
                let (a, b) = if f == Binary::GreaterEqual { (&a, &b) } else { (&b, &a) };
                if self.options.conventions().whole_epilogues {
                    let excess = self.excess(b, a, to)?;
                    return self.truth(Table::choice(0.0, 1.0), &excess, undefined.as_ref(), to);
                }
                let less = self.scratch("less", &to.shape());
                self.greater(b, a, &less)?;
                self.opposite(&less, undefined.as_ref(), to)
            }
            Binary::Equal if self.is_zero_only_if_equal([x, y]) => {
                let difference = self.whole_difference(&a, &b, to)?;
                self.truth(Table::at_zero(), &difference, undefined.as_ref(), to)
            }
            _ => {
                let apart = self.not_equal(&a, &b, [x, y], to)?;
                match (f, undefined) {
                    (Binary::Equal, undefined) => self.opposite(&apart, undefined.as_ref(), to),
                    (_, Some(undefined)) => self.or_not_a_number(&apart, &undefined, to),
                    (_, None) => self.copy(&apart, to),
                }
            }
        }
    }

    /// 1 if a value is not zero, else 0.
    pub(super) fn differs_from_zero(&mut self, x: ValueId, to: &View) -> Result<()> {
        let from = self.view(x)?;
        let size = self.affined("size", Affine::UNIT, true, &from)?;
        let choice = Table::choice(1.0, 0.0);
        match self.undefined_operand(&from, self.may_be_nan(x))? {
            None => self.table(choice, 0.0, 1.0, &size, to),
            Some(undefined) => {
                let apart = self.tabled("apart", choice, 0.0, 1.0, &size)?;
                self.or_not_a_number(&apart, &undefined, to)
            }
        }
    }

    /// 1 if `a` is greater than `b`, else 0; 0 if either is NaN.
    fn greater(&mut self, a: &View, b: &View, to: &View) -> Result<()> {
        let excess = self.excess(a, b, to)?;
        self.table(Table::clip(0.0, 1.0), 0.0, 1.0, &excess, to)
    }

    /// `max((a - b) 2^24, 0)`; 0 if that is undefined.
    fn excess(&mut self, a: &View, b: &View, to: &View) -> Result<View> {
        let excess = self.scratch("excess", &to.shape());
        self.rectified(PlanarOp::Sub, WHOLE, a, b, &excess)?;
        Ok(excess)
    }

    /// A planar task with two sources and a ReLU.
    pub(super) fn rectified(&mut self, op: PlanarOp, affine: Affine, a: &View, b: &View, to: &View) -> Result<()> {
        let first = self.graph.layers.len();
        self.planar_two(op, affine, a, b, to)?;
        for layer in &mut self.graph.layers[first..] {
            if let Kind::Planar { relu, .. } = &mut layer.kind {
                *relu = true;
            }
        }
        Ok(())
    }

    /// 1 if two operands differ, else 0; unspecified if one is NaN.
    fn not_equal(&mut self, a: &View, b: &View, ids: [ValueId; 2], to: &View) -> Result<View> {
        if self.is_zero_only_if_equal(ids) {
            let difference = self.whole_difference(a, b, to)?;
            return self.tabled("apart", Table::at_zero_or(0.0, 1.0), 0.0, 1.0, &difference);
        }
        let apart = self.scratch("apart", &to.shape());
        if ids.iter().any(|&id| self.never_infinite(id)) {
            let difference = self.whole_difference(a, b, to)?;
            let size = self.affined("size", Affine::UNIT, true, &difference)?;
            self.table(Table::clip(0.0, 1.0), 0.0, 1.0, &size, &apart)?;
            return Ok(apart);
        }
        let (more, less) = (self.excess(a, b, to)?, self.excess(b, a, to)?);
        let either = self.scratch("either", &to.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, &more, &less, &either)?;
        self.table(Table::clip(0.0, 1.0), 0.0, 1.0, &either, &apart)?;
        Ok(apart)
    }

    /// Returns true if the difference of two operands is zero only where they are equal: one of them is finite.
    fn is_zero_only_if_equal(&self, ids: [ValueId; 2]) -> bool {
        self.options.conventions().whole_epilogues && ids.iter().any(|&id| self.never_infinite(id))
    }

    fn whole_difference(&mut self, a: &View, b: &View, to: &View) -> Result<View> {
        let difference = self.scratch("difference", &to.shape());
        self.planar_two(PlanarOp::Sub, WHOLE, a, b, &difference)?;
        Ok(difference)
    }

    /// A table of truth values; 0 where an operand is NaN, which the last ReLU makes zero.
    fn truth(&mut self, table: Table, x: &View, undefined: Option<&View>, to: &View) -> Result<()> {
        let Some(undefined) = undefined else { return self.table(table, 0.0, 1.0, x, to) };
        let truth = self.tabled("truth", table, 0.0, 1.0, x)?;
        self.rectified(PlanarOp::Add, Affine::UNIT, &truth, undefined, to)
    }

    /// Negation of a truth value; 0 for NaN, which the last ReLU makes zero.
    fn opposite(&mut self, truth: &View, undefined: Option<&View>, to: &View) -> Result<()> {
        let not = Kind::Neuron { add: -1.0, post_scale: -1.0, nonlinear: Nonlinear::Relu };
        let Some(undefined) = undefined else { return self.elementwise(not, truth, to) };
        let opposite = self.scratch("opposite", &truth.shape());
        self.elementwise(not, truth, &opposite)?;
        self.rectified(PlanarOp::Add, Affine::UNIT, &opposite, undefined, to)
    }

    /// A truth value, or 1 for a NaN operand: a minimum with 1 returns the operand that is a number.
    fn or_not_a_number(&mut self, truth: &View, undefined: &View, to: &View) -> Result<()> {
        let either = self.scratch("either", &to.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, truth, undefined, &either)?;
        let name = format!("{}.one", self.op);
        let one = self.constant_view(&name, &[1], &[1.0]);
        self.planar_two(PlanarOp::Min, Affine::UNIT, &either, &one, to)
    }

    /// NaN if an operand is, else zero; `None` if neither can be.
    fn undefined_operand(&mut self, x: &View, may: bool) -> Result<Option<View>> {
        may.then(|| self.tabled("undefined", Table::choice(0.0, 0.0), 0.0, 1.0, x)).transpose()
    }

    fn undefined_of(&mut self, views: &[&View; 2], may: [bool; 2], to: &View) -> Result<Option<View>> {
        let (a, b) = (self.undefined_operand(views[0], may[0])?, self.undefined_operand(views[1], may[1])?);
        let (Some(a), Some(b)) = (&a, &b) else { return Ok(a.or(b)) };
        let both = self.scratch("undefined", &to.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, a, b, &both)?;
        Ok(Some(both))
    }

    /// Returns true if an operand may contain NaN: a float that is not constant, or a constant with a NaN.
    fn may_be_nan(&self, id: ValueId) -> bool {
        let float = self.net.value(id).ty.dtype.is_float();
        float && self.constant(id).is_none_or(|t| t.data.to_f32().iter().any(|x| x.is_nan()))
    }

    /// Returns true if an operand is known to be finite: a constant whose elements are finite in fp16, or an integer.
    fn never_infinite(&self, id: ValueId) -> bool {
        match self.constant(id) {
            Some(t) => t.data.to_f32().iter().all(|&x| half::f16::from_f32(x).is_finite()),
            None => !self.net.value(id).ty.dtype.is_float(),
        }
    }
}
