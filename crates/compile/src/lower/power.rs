//! Lowering of powers. A constant integer exponent is a chain of multiplications, correct for every base; integers to other exponents
//! are products selected by the binary digits of the exponent; every other power is `exp2(y log2 |x|)` with a sign derived from base and
//! exponent.
//!
//! Apple's recipe, which the dialects of its compilers use here too, is `exp2(y log2 x)` alone. The device's logarithm of a negative number
//! is zero, so every power of a negative base is 1 there (docs/numerics.md, section tables). An undefined power is NaN here; where the
//! arithmetic has no NaN, it is plus infinity, which is how the device reads NaN.

use super::Lowerer;
use super::elementwise::aligned;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::proof;
use anemone_net::{DType, OpKind, Tensor, Unary, ValueId};
use std::sync::Arc;

/// Largest integer exponent computed by multiplication: each squaring doubles the relative error.
const MOST_PRODUCTS: f32 = 64.0;
/// Binary digits of an integer exponent: 2^16 is beyond fp16.
const INTEGER_DIGITS: usize = 5;
const INF: f32 = f32::INFINITY;
/// Largest finite fp16 number.
const LARGEST: f32 = 65504.0;

impl Lowerer<'_> {
    pub(super) fn power(&mut self, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        // Operands may come from floats with integer values, such as positions, whose conversion was dropped.
        let integers = !self.net.value(out).ty.dtype.is_float();
        if let Some(exponent) = self.uniform(y).filter(|&e| !integers || e >= 0.0) {
            return self.power_constant(x, exponent, out);
        }
        let exponents = self.constant(y).map(|t| t.data.to_f32());
        if let Some(exponents) = exponents.as_ref().filter(|all| all.iter().all(|&e| is_small_digits(e))) {
            return self.power_digits_known(x, y, exponents, out);
        }
        if integers {
            return self.power_integers(x, y, out);
        }
        if exponents.is_none() {
            self.refuse_truncated(out)?;
        }
        let minus_zero = |t: &Tensor| t.data.to_f32().iter().any(|x| x.to_bits() == (-0.0f32).to_bits());
        if self.constant(x).is_some_and(|t| minus_zero(t)) {
            return Err(self.unsupported(
                "a computed power of a constant minus zero, whose sign the tables lose",
                "use zero as the base",
            ));
        }
        match self.uniform(x).filter(|&base| base > 0.0 && base.is_finite()) {
            Some(base) => self.power_of_constant(base, y, out),
            None => self.power_general(x, y, out),
        }
    }

    /// Refuses a computed power that is converted to an integer: tables give 8.99 for 9, which truncates to 8. The error names the
    /// power, so that it runs where its conversion does.
    fn refuse_truncated(&self, power: ValueId) -> Result<()> {
        let truncates = |op: &&anemone_net::Op| {
            op.kind == OpKind::Cast
                && !self.net.value(op.outputs[0]).ty.dtype.is_float()
                && self.net.value(op.outputs[0]).ty.dtype != anemone_net::DType::Bool
        };
        match self.links.readers(power).iter().any(truncates) {
            true => Err(self.unsupported(
                "a power with a computed exponent, truncated to an integer: tables are not exact",
                "give base and exponent an integer type, or make the exponent a constant",
            )),
            false => Ok(()),
        }
    }

    /// A power with one exponent for all elements.
    fn power_constant(&mut self, x: ValueId, exponent: f32, out: ValueId) -> Result<()> {
        let to = self.result(out);
        if exponent == 0.0 {
            return self.fill(1.0, &to);
        }
        let from = aligned(&self.view(x)?, to.lead.len());
        let same = from.shape() == to.shape();
        let target = if same { to.clone() } else { self.scratch("power", &from.shape()) };
        match exponent {
            -1.0 => self.unary_into(Unary::Inverse { epsilon: 0.0 }, &from, &target)?,
            1.0 => self.copy(&from, &target)?,
            _ if exponent.fract() == 0.0 && exponent.abs() <= MOST_PRODUCTS => {
                let base =
                    if exponent < 0.0 { self.tabled("inverse", Table::reciprocal(), 0.0, 1.0, &from)? } else { from };
                self.products(exponent.abs() as u32, &base, &target)?;
            }
            _ if exponent.fract() == 0.0 || !exponent.is_finite() => {
                return Err(self.unsupported(
                    format!("the integer exponent {exponent} exceeds {MOST_PRODUCTS} in magnitude, the most that multiplications compute"),
                    "divide the exponent and take the power of a power",
                ));
            }
            _ => self.power_broken(x, exponent, &from, &target)?,
        }
        if same { Ok(()) } else { self.expand(&target, &to) }
    }

    /// `from` to the power of `n`, at least 1, by repeated squaring.
    fn products(&mut self, n: u32, from: &View, to: &View) -> Result<()> {
        if n == 1 {
            return self.copy(from, to);
        }
        let mut current = from.clone();
        for digit in (0..n.ilog2()).rev() {
            let (odd, last) = (n >> digit & 1 == 1, digit == 0);
            let square = if last && !odd { to.clone() } else { self.scratch("square", &from.shape()) };
            self.planar_two(PlanarOp::Mul, Affine::UNIT, &current, &current, &square)?;
            current = square;
            if odd {
                let product = if last { to.clone() } else { self.scratch("product", &from.shape()) };
                self.planar_two(PlanarOp::Mul, Affine::UNIT, &current, from, &product)?;
                current = product;
            }
        }
        Ok(())
    }

    /// A power with a non-integer exponent, which is undefined for negative bases.
    fn power_broken(&mut self, x: ValueId, exponent: f32, from: &View, to: &View) -> Result<()> {
        let sure = proof::never_negative(self.net, x, &|id| self.links.maker(id));
        let shape = from.shape();
        let power = if sure { to.clone() } else { self.scratch("power", &shape) };
        let base = from;
        let magnitude = if sure { from.clone() } else { self.affined("magnitude", Affine::UNIT, true, from)? };
        let from = &magnitude;
        if exponent.abs() == 0.5 {
            let root = if exponent > 0.0 { Unary::Sqrt } else { Unary::Rsqrt { epsilon: 0.0 } };
            self.unary_into(root, from, &power)?;
        } else {
            let log = self.tabled("log2", Table::log2_of_all(), 0.0, 1.0, from)?;
            let scale = Affine { final_scale: exponent, ..Affine::UNIT };
            let product = self.affined("product", scale, false, &log)?;
            self.table(Table::exp2(), 0.0, 1.0, &product, &power)?;
        }
        if sure {
            return Ok(());
        }
        let negative = self.tabled("negative", Table::choice_finite_below_zero(INF, 0.0), 0.0, 1.0, base)?;
        self.without_value(&power, &negative, to)
    }

    /// Returns `from`, except where `absent` is infinite and not zero: there NaN, or plus infinity if the arithmetic has no NaN.
    fn without_value(&mut self, from: &View, absent: &View, to: &View) -> Result<()> {
        let undefined = self.scratch("undefined", &absent.shape());
        self.planar_two(PlanarOp::Sub, Affine::UNIT, absent, absent, &undefined)?;
        let infinite = self.scratch("infinite", &to.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, from, absent, &infinite)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, &infinite, &undefined, to)
    }

    /// Returns `from`, except where `absent` is infinite and not zero: there NaN, if the arithmetic has one. A maximum or minimum with NaN
    /// returns its other operand, NaN included.
    fn or_undefined(&mut self, from: &View, absent: &View) -> Result<View> {
        let [undefined, either] = ["undefined", "either"].map(|name| self.scratch(name, &absent.shape()));
        self.planar_two(PlanarOp::Sub, Affine::UNIT, absent, absent, &undefined)?;
        self.planar_two(PlanarOp::Add, Affine::UNIT, from, &undefined, &either)?;
        Ok(either)
    }

    /// A positive constant base to computed exponents.
    fn power_of_constant(&mut self, base: f32, y: ValueId, out: ValueId) -> Result<()> {
        let to = self.result(out);
        if base == 1.0 {
            return self.fill(1.0, &to);
        }
        let from = aligned(&self.view(y)?, to.lead.len());
        let scale = Affine { final_scale: base.log2(), ..Affine::UNIT };
        let product = self.affined("product", scale, false, &from)?;
        if from.shape() == to.shape() {
            return self.table(Table::exp2(), 0.0, 1.0, &product, &to);
        }
        let power = self.tabled("power", Table::exp2(), 0.0, 1.0, &product)?;
        self.expand(&power, &to)
    }

    /// A power with constant integer exponents per element: the product of those `x^(2^i)` whose binary digit `i` is set in the exponent.
    fn power_digits_known(&mut self, x: ValueId, y: ValueId, exponents: &[f32], out: ValueId) -> Result<()> {
        let (to, shape) = (self.result(out), self.shape(y));
        let most = exponents.iter().fold(0.0f32, |most, &e| most.max(e)) as u32;
        let factors = (0..most.checked_ilog2().map_or(0, |digits| digits as usize + 1)).map(|digit| {
            let has = |e: &f32| *e as u32 >> digit & 1 == 1;
            let pick = |[yes, no]: [f32; 2]| exponents.iter().map(|e| if has(e) { yes } else { no }).collect();
            [[-INF, 1.0], [INF, 1.0], [INF, 0.0]].map(pick)
        });
        let mut bounds = Vec::new();
        for constants in factors.collect::<Vec<[Vec<f32>; 3]>>() {
            let name = format!("{}.digit", self.op);
            let [low, high, has] = constants.map(|data| self.constant_view(&name, &shape, &data));
            bounds.push([self.or_undefined(&low, &has)?, self.or_undefined(&high, &has)?]);
        }
        let base = self.view(x)?;
        self.product_of_chosen(&base, &bounds, &to)
    }

    /// Integers to exponents that are computed, large or negative. Beyond 15 only the parity of the exponent matters: every base but -1, 0
    /// and 1 has overflowed fp16 by then. With a negative exponent these three are the only bases left, too.
    fn power_integers(&mut self, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let (to, mut base, mut exponent) = (self.result(out), self.view(x)?, self.view(y)?);
        let plain = Affine::UNIT;
        if !matches!(self.net.value(y).ty.dtype, DType::U8 | DType::Bool) {
            let size = self.affined("size", plain, true, &base)?;
            // 1 - |x| is negative for all but -1, 0 and 1.
            let less = self.affined("less", Affine { scale: -1.0, bias: 1.0, ..plain }, false, &size)?;
            let unit = self.tabled("unit", Table::choice_below_zero(0.0, INF), 0.0, 1.0, &less)?;
            let natural = self.tabled("natural", Table::choice_below_zero(0.0, INF), 0.0, 1.0, &exponent)?;
            // Bounds that either leave a base unchanged or replace it.
            let [high, low, capped, kept] =
                ["high", "low", "capped", "kept"].map(|name| self.scratch(name, &to.shape()));
            self.planar_two(PlanarOp::Max, plain, &unit, &natural, &high)?;
            self.planar_one(&high, &low, Affine { scale: -1.0, ..plain }, false)?;
            self.planar_two(PlanarOp::Min, plain, &base, &high, &capped)?;
            self.planar_two(PlanarOp::Max, plain, &capped, &low, &kept)?;
            base = kept;
            exponent = self.affined("exponent", plain, true, &exponent)?;
        }
        // Exponents of 16 and more become 16 or 17.
        let shape = exponent.shape();
        let parity = self.odd(&exponent)?;
        let limit = self.affined("limit", Affine { bias: 16.0, ..plain }, false, &parity)?;
        let mut rest = self.scratch("rest", &shape);
        self.planar_two(PlanarOp::Min, plain, &exponent, &limit, &rest)?;
        let mut bounds = Vec::new();
        for _ in 0..INTEGER_DIGITS {
            let half = self.tabled("half", Table::truncate(), 0.0, 0.5, &rest)?;
            // 2 half - rest: the digit, negated.
            let digit = self.scratch("digit", &shape);
            self.planar_two(PlanarOp::Sub, Affine { pre_scale: 2.0, ..plain }, &half, &rest, &digit)?;
            bounds.push([
                self.tabled("low", Table::choice_below_zero(-INF, 1.0), 0.0, 1.0, &digit)?,
                self.tabled("high", Table::choice_below_zero(INF, 1.0), 0.0, 1.0, &digit)?,
            ]);
            rest = half;
        }
        self.product_of_chosen(&base, &bounds, &to)
    }

    /// 1 for odd integers, 0 for even ones.
    fn odd(&mut self, y: &View) -> Result<View> {
        let half = self.tabled("halves", Table::fraction(), 0.0, 0.5, y)?;
        self.affined("odd", Affine { scale: 2.0, ..Affine::UNIT }, true, &half)
    }

    /// The product of all `x^(2^i)`, each clamped to the `i`-th bounds, which leave it unchanged or make it 1.
    fn product_of_chosen(&mut self, x: &View, bounds: &[[View; 2]], to: &View) -> Result<()> {
        let (mut square, mut product) = (x.clone(), None);
        for (i, [low, high]) in bounds.iter().enumerate() {
            if i > 0 {
                let next = self.scratch("square", &square.shape());
                self.planar_two(PlanarOp::Mul, Affine::UNIT, &square, &square, &next)?;
                square = next;
            }
            let last = i + 1 == bounds.len();
            let [raised, factor] = ["raised", "factor"].map(|name| self.scratch(name, &to.shape()));
            self.planar_two(PlanarOp::Max, Affine::UNIT, &square, low, &raised)?;
            let target = if last && product.is_none() { to } else { &factor };
            self.planar_two(PlanarOp::Min, Affine::UNIT, &raised, high, target)?;
            product = match product {
                None => Some(factor),
                Some(before) => {
                    let result = if last { to.clone() } else { self.scratch("product", &to.shape()) };
                    self.planar_two(PlanarOp::Mul, Affine::UNIT, &before, &factor, &result)?;
                    Some(result)
                }
            };
        }
        if bounds.is_empty() { self.fill(1.0, to) } else { Ok(()) }
    }

    /// `exp2(y log2 |x|)` with the sign of the power: minus for a negative base with an odd exponent, undefined with a non-integer one.
    /// Under Apple's conventions, `exp2(y log2 x)` alone.
    fn power_general(&mut self, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let (to, base, mut exponent) = (self.result(out), self.view(x)?, self.view(y)?);
        let plain = Affine::UNIT;
        if !self.options.conventions().functions_fitted {
            // Apple's recipe, with the values that its tables give for negative bases.
            if self.options.conventions().powers_by_channel && self.power_of_channels(&base, &exponent, &to) {
                return Ok(());
            }
            let log = self.tabled("log2", Table::log2(), 0.0, 1.0, &base)?;
            let product = self.scratch("product", &to.shape());
            self.planar_two(PlanarOp::Mul, plain, &log, &exponent, &product)?;
            return self.table(Table::exp2(), 0.0, 1.0, &product, &to);
        }
        let finite = self.constant(y).is_some_and(|t| t.data.to_f32().iter().all(|e| e.is_finite()));
        if !finite {
            // Clamped, since an infinite exponent of the base 1 or -1 would be zero times infinity; all other bases leave fp16 anyway.
            exponent = self.tabled("bounded", Table::clip(-LARGEST, LARGEST), 0.0, 1.0, &exponent)?;
        }
        let magnitude = self.affined("magnitude", plain, true, &base)?;
        let log = self.tabled("log2", Table::log2_of_all(), 0.0, 1.0, &magnitude)?;
        let [product, defined] = ["product", "defined"].map(|name| self.scratch(name, &to.shape()));
        self.planar_two(PlanarOp::Mul, plain, &log, &exponent, &product)?;
        // An exponent of zero gives 1 for every base, infinity and zero included, and the base 1 gives 1 for NaN too: zero is a
        // lower bound there.
        let mut size = self.affined("size", plain, true, &exponent)?;
        if !finite {
            let from_one = self.affined("from_one", Affine { bias: -1.0, ..plain }, false, &base)?;
            let distance = self.affined("distance", plain, true, &from_one)?;
            let either = self.scratch("either", &to.shape());
            self.planar_two(PlanarOp::Min, plain, &size, &distance, &either)?;
            size = either;
        }
        let least = self.tabled("least", Table::choice(-INF, 0.0), 0.0, 1.0, &size)?;
        let other = self.tabled("other", Table::choice(INF, 0.0), 0.0, 1.0, &size)?;
        let least = self.or_undefined(&least, &other)?;
        self.planar_two(PlanarOp::Max, plain, &product, &least, &defined)?;
        if proof::never_negative(self.net, x, &|id| self.links.maker(id)) {
            return self.table(Table::exp2(), 0.0, 1.0, &defined, &to);
        }
        let power = self.tabled("power", Table::exp2(), 0.0, 1.0, &defined)?;
        // 2 for a non-integer exponent; an odd one is an integer.
        let fraction = self.tabled("fraction", Table::fraction(), 0.0, 1.0, &exponent)?;
        let remains = self.affined("remains", plain, true, &fraction)?;
        // A NaN exponent propagates through the product, unless the base is 1.
        let broken = match finite {
            true => self.tabled("broken", Table::choice(2.0, 0.0), 0.0, 1.0, &remains)?,
            false => self.indicator(Table::choice(2.0, 0.0), &remains)?,
        };
        let parity = self.odd(&exponent)?;
        let [difference, odd] = ["difference", "odd"].map(|name| self.scratch(name, &exponent.shape()));
        self.planar_two(PlanarOp::Sub, plain, &parity, &broken, &difference)?;
        self.unary_into(Unary::Relu, &difference, &odd)?;
        // Tables read minus zero as zero; its reciprocal is infinite.
        let signed_base = match proof::never_negative(self.net, y, &|id| self.links.maker(id)) {
            true => base.clone(),
            false => {
                let reciprocal = self.tabled("reciprocal", Table::reciprocal(), 0.0, 1.0, &base)?;
                let sum = self.scratch("signed_base", &base.shape());
                self.planar_two(PlanarOp::Add, plain, &base, &reciprocal, &sum)?;
                sum
            }
        };
        let negative = self.indicator(Table::choice_below_zero(1.0, 0.0), &signed_base)?;
        let [sign, signed, both] = ["sign", "signed", "both"].map(|name| self.scratch(name, &to.shape()));
        let minus = Affine { scale: -2.0, bias: 1.0, ..plain };
        self.planar_two(PlanarOp::Mul, minus, &negative, &odd, &sign)?;
        self.planar_two(PlanarOp::Mul, plain, &power, &sign, &signed)?;
        let negative = self.indicator(Table::choice_finite_below_zero(1.0, 0.0), &base)?;
        self.planar_two(PlanarOp::Mul, plain, &negative, &broken, &both)?;
        let absent = self.tabled("absent", Table::choice(INF, 0.0), 0.0, 1.0, &both)?;
        self.without_value(&signed, &absent, &to)
    }

    /// `exp2(y log2 x)` as 9.509 computes it (`binary_pow_1x64x8x8`): exponent and logarithm are the even and the odd channels of one
    /// operand, of which the neural engine multiplies pairs. Returns false for other extents than those of the result.
    fn power_of_channels(&mut self, base: &View, exponent: &View, to: &View) -> bool {
        let (Some(x), Some(y), Some(result)) = (base.nchw(), exponent.nchw(), to.nchw()) else { return false };
        let extents = |v: &View4| (v.axes.map(|a| a.extent), v.width);
        if result.groups() != 1 || extents(&x) != extents(&result) || extents(&y) != extents(&result) {
            return false;
        }
        let pairs = self.scratch("pairs", &[result.channels(), 2, result.height(), result.width]);
        let [channels, pair, rows] = pairs.lead.as_slice() else { return false };
        let one = Axis { extent: 1, stride_bytes: 0 };
        let half = |offset_bytes| View4 {
            buffer: pairs.buffer,
            offset_bytes,
            axes: [one, *channels, *rows],
            width: result.width,
        };
        let [even, odd] = [half(0), half(pair.stride_bytes)];
        let all = Axis { extent: 2 * channels.extent, stride_bytes: pair.stride_bytes };
        let source = View4 { axes: [one, all, *rows], ..even };
        let table = |table| Nonlinear::Table(Arc::new(table));
        let neuron = |nonlinear| Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear };
        self.push(neuron(Nonlinear::None), vec![y], vec![[false; 3]], even, false);
        self.push(neuron(table(Table::log2())), vec![x], vec![[false; 3]], odd, false);
        let power = Kind::MulChannels { nonlinear: table(Table::exp2()) };
        self.push(power, vec![source], vec![[false; 3]], result, false);
        true
    }

    /// Result of a table that has no negative values; zero for NaN.
    fn indicator(&mut self, table: Table, from: &View) -> Result<View> {
        let found = self.tabled("found", table, 0.0, 1.0, from)?;
        let indicator = self.scratch("indicator", &from.shape());
        self.unary_into(Unary::Relu, &found, &indicator)?;
        Ok(indicator)
    }
}

/// Returns true for an integer exponent that multiplications compute.
fn is_small_digits(exponent: f32) -> bool {
    exponent.fract() == 0.0 && (0.0..=MOST_PRODUCTS).contains(&exponent)
}
