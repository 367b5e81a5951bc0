//! Lowering of integer quotients and remainders, exact up to 2048, up to which fp16 represents every integer.
//!
//! A reciprocal from a table has a relative error below a hundredth, so quotients are estimated from below: the rest of the
//! dividend is a non-negative integer and is divided again. After the second estimate the rest contains the divisor at most once.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, DType, Unary, ValueId};

/// Scale that keeps an estimate below the quotient.
const BELOW: Affine = Affine { final_scale: 0.9921875, ..Affine::UNIT };

impl Lowerer<'_> {
    /// A quotient, truncated or floored, or a remainder with the divisor's sign.
    pub(super) fn integer_division(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let (to, dividend, divisor) = (self.result(out), self.view(x)?, self.view(y)?);
        let plain = Affine::UNIT;
        if let Some(divisor) = self.uniform(y).filter(|d| is_short(*d) && dividend.shape() == to.shape()) {
            return self.division_by_number(f, &dividend, divisor, &to);
        }
        let signed = !matches!(self.net.value(out).ty.dtype, DType::U8 | DType::U16);
        if !signed {
            let [quotient, remainder] = self.magnitudes(&dividend, &divisor, &to)?;
            return self.copy(if f == Binary::Mod { &remainder } else { &quotient }, &to);
        }
        let a = self.affined("dividend", plain, true, &dividend)?;
        let b = self.affined("divisor", plain, true, &divisor)?;
        let [quotient, remainder] = self.magnitudes(&a, &b, &to)?;
        let signs = [&dividend, &divisor].map(|v| self.tabled("sign", Table::sign(), 0.0, 1.0, v));
        let [sign_a, sign_b] = signs;
        let (sign_a, sign_b) = (sign_a?, sign_b?);
        let [sign, cut] = ["signs", "cut"].map(|name| self.scratch(name, &to.shape()));
        self.planar_two(PlanarOp::Mul, plain, &sign_a, &sign_b, &sign)?;
        let target = if f == Binary::Div { &to } else { &cut };
        self.planar_two(PlanarOp::Mul, plain, &quotient, &sign, target)?;
        if f == Binary::Div {
            return Ok(());
        }
        // Different signs and something left: one less.
        let less = self.tabled("less", Table::choice_below_zero(1.0, 0.0), 0.0, 1.0, &sign)?;
        let some = self.tabled("some", Table::choice(1.0, 0.0), 0.0, 1.0, &remainder)?;
        let [both, own] = ["both", "own"].map(|name| self.scratch(name, &to.shape()));
        self.planar_two(PlanarOp::Mul, plain, &less, &some, &both)?;
        if f == Binary::FloorDiv {
            return self.planar_two(PlanarOp::Sub, plain, &cut, &both, &to);
        }
        let [more, rest] = ["more", "rest"].map(|name| self.scratch(name, &to.shape()));
        self.planar_two(PlanarOp::Mul, plain, &remainder, &sign_a, &own)?;
        self.planar_two(PlanarOp::Mul, plain, &both, &divisor, &more)?;
        self.planar_two(PlanarOp::Add, plain, &own, &more, &rest)?;
        self.copy(&rest, &to)
    }

    /// As [`Lowerer::integer_division`] by a positive number. The quotient with its fraction lies nearer to itself than to the next
    /// whole number when fp16 rounds it: with `x` up to 2048, a fraction of `1 / d` exceeds half of the distance of fp16 numbers at
    /// `x / d`, which is at most `x / d / 2048`.
    ///
    /// The factor belongs to a maximum of `x` and itself, into which fusion takes nothing that computes `x`: in `x / d + a / d` for
    /// `(x + a) / d`, the rounding of `a / d` would be large beside a quotient near zero.
    fn division_by_number(&mut self, f: Binary, dividend: &View, divisor: f32, to: &View) -> Result<()> {
        let scaled = |factor: f32| Affine { final_scale: factor, ..Affine::UNIT };
        let fraction = self.scratch("fraction", &to.shape());
        match divisor.log2().fract() == 0.0 {
            true => self.planar_one(dividend, &fraction, scaled(1.0 / divisor), false)?,
            false => self.planar_two(PlanarOp::Max, scaled(1.0 / divisor), dividend, dividend, &fraction)?,
        }
        match f {
            Binary::Div => return self.table(Table::truncate(), 0.0, 1.0, &fraction, to),
            Binary::FloorDiv => return self.unary_into(Unary::Floor, &fraction, to),
            _ => {}
        }
        let whole = self.scratch("whole", &to.shape());
        let floors = divisor.log2().fract() == 0.0;
        match floors {
            true => self.unary_into(Unary::Floor, &fraction, &whole)?,
            false => self.table(Table::truncate(), 0.0, 1.0, &fraction, &whole)?,
        }
        let multiple = self.affined("multiple", scaled(divisor), false, &whole)?;
        if floors {
            return self.planar_two(PlanarOp::Sub, Affine::UNIT, dividend, &multiple, to);
        }
        // A floor's multiple below -2048 may be odd: what is left of the truncated quotient gets the divisor instead.
        let left = self.scratch("left", &to.shape());
        self.planar_two(PlanarOp::Sub, Affine::UNIT, dividend, &multiple, &left)?;
        let more = self.tabled("more", Table::choice_below_zero(divisor, 0.0), 0.0, 1.0, &left)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, &left, &more, to)
    }

    /// Quotient and remainder of non-negative numbers.
    fn magnitudes(&mut self, dividend: &View, divisor: &View, to: &View) -> Result<[View; 2]> {
        let plain = Affine::UNIT;
        let inverse = self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, divisor)?;
        let mut rest = dividend.clone();
        let mut quotients = Vec::new();
        for _ in 0..2 {
            let [estimate, product, left] = ["estimate", "product", "left"].map(|name| self.scratch(name, &to.shape()));
            self.planar_two(PlanarOp::Mul, BELOW, &rest, &inverse, &estimate)?;
            let whole = self.tabled("whole", Table::truncate(), 0.0, 1.0, &estimate)?;
            self.planar_two(PlanarOp::Mul, plain, &whole, divisor, &product)?;
            self.planar_two(PlanarOp::Sub, plain, &rest, &product, &left)?;
            quotients.push(whole);
            rest = left;
        }
        let [beyond, once, left, sum, quotient] =
            ["beyond", "once", "left", "sum", "quotient"].map(|name| self.scratch(name, &to.shape()));
        self.planar_two(PlanarOp::Sub, plain, &rest, divisor, &beyond)?;
        let more = self.tabled("more", Table::choice_below_zero(0.0, 1.0), 0.0, 1.0, &beyond)?;
        self.planar_two(PlanarOp::Mul, plain, &more, divisor, &once)?;
        self.planar_two(PlanarOp::Sub, plain, &rest, &once, &left)?;
        self.planar_two(PlanarOp::Add, plain, &quotients[0], &quotients[1], &sum)?;
        self.planar_two(PlanarOp::Add, plain, &sum, &more, &quotient)?;
        Ok([quotient, left])
    }
}

/// Returns true for a whole number from 1 to 2048.
fn is_short(divisor: f32) -> bool {
    (1.0..=2048.0).contains(&divisor) && divisor.fract() == 0.0
}
