//! Lowering of integer quotients and remainders, exact up to 2048, up to which fp16 represents every integer.
//!
//! A reciprocal from a table has a relative error below a hundredth, so quotients are estimated from below: the rest of the
//! dividend is a non-negative integer and is divided again. After the second estimate the rest contains the divisor at most once.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, DType, ValueId};

/// Scale that keeps an estimate below the quotient.
const BELOW: Affine = Affine { final_scale: 0.9921875, ..Affine::UNIT };

impl Lowerer<'_> {
    /// A quotient, truncated or floored, or a remainder with the divisor's sign.
    pub(super) fn integer_division(&mut self, f: Binary, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let (to, dividend, divisor) = (self.result(out), self.view(x)?, self.view(y)?);
        let plain = Affine::UNIT;
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
