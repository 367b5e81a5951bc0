//! Lowering of selections between two operands by a truth value.
//!
//! Apple's recipe is `c x + (1 - c) y`. The device computes zero times infinity as 0, so that the operand that is not selected does no
//! harm there; any other arithmetic makes NaN of it. Here the truth value becomes bounds instead: a minimum with plus infinity
//! leaves an operand unchanged, a minimum with minus infinity replaces it. Without multiplications nothing is rounded.
//!
//! Maximum and minimum return the number if one operand is NaN. The bound that leaves an operand unchanged
//! is therefore NaN in arithmetic that has one (the model `fast`), so that a selected NaN stays. The device
//! reads NaN as plus infinity, which leaves the operand of a minimum unchanged as well.

use super::Lowerer;
use super::layout::COLUMN_ALIGN;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_net::{Binary, Op, OpKind, ValueId};
use half::f16;
use std::sync::Arc;

const INF: f32 = f32::INFINITY;

/// Condition of a selection.
pub(super) enum Condition {
    /// A constant: its extents and elements.
    Known(Vec<usize>, Vec<bool>),
    /// Computed at run time, 0 or 1.
    Live(View),
}

/// Key of a mask: the condition, the bits of its two f32 values for true and for false, and its purpose.
pub(super) type MaskKey = (ValueId, [u32; 2], Purpose);

/// Purpose of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The two values.
    Numbers,
    /// The difference of each value to itself: NaN for infinities, else zero.
    Undefined,
    /// The sum of both.
    Bound,
}

impl Lowerer<'_> {
    pub(super) fn select(&mut self, c: ValueId, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        if self.select_bytes(c, [x, y], out)? {
            return Ok(());
        }
        if let Some(table) = self.threshold(c, [x, y]) {
            let (from, to) = (self.view(x)?, self.result(out));
            return self.table(table, 0.0, 1.0, &from, &to);
        }
        match (self.uniform(x), self.uniform(y)) {
            (Some(x), Some(y)) => {
                let mask = self.mask(c, [x, y])?;
                let to = self.result(out);
                self.expand(&mask, &to)
            }
            (None, Some(y)) => self.replace(c, true, x, y, out),
            (Some(x), None) => self.replace(c, false, y, x, out),
            (None, None) => self.choose(c, x, y, out),
        }
    }

    /// Returns true for a comparison that only a choice needs, which is computed without it ([`Self::threshold`]).
    pub(super) fn is_only_threshold(&self, comparison: &Op) -> bool {
        let &[c] = comparison.outputs.as_slice() else { return false };
        self.uses[c.0 as usize] == 1
            && self.links.readers(c).iter().any(|op| match (&op.kind, op.inputs.as_slice()) {
                (OpKind::Select, &[condition, x, y]) => condition == c && self.threshold(c, [x, y]).is_some(),
                _ => false,
            })
    }

    /// The table of `x` where it is above a number, else zero. NaN stays, as it does in a ReLU.
    fn threshold(&self, c: ValueId, [x, y]: [ValueId; 2]) -> Option<Table> {
        let made = self.links.maker(c)?;
        let (OpKind::Binary(f), &[compared, number]) = (&made.kind, made.inputs.as_slice()) else { return None };
        let zero = self.uniform(y).is_some_and(|y| y.to_bits() == 0);
        let limit = self.uniform(number).filter(|limit| *limit >= 0.0 && limit.is_finite())?;
        let same = self.shape(x) == self.shape(c) && self.net.value(x).ty.dtype.is_float() && self.uniform(x).is_none();
        if !self.options.conventions().whole_epilogues || !zero || compared != x || !same || self.outputs.contains(&c) {
            return None;
        }
        let passes = |value: f16| match f {
            Binary::Greater => Some(value.to_f32() > limit),
            Binary::GreaterEqual => Some(value.to_f32() >= limit),
            _ => None,
        };
        // The bits of numbers that are not negative are in their order.
        let near = f16::from_f32(limit).to_bits();
        let next =
            (near.saturating_sub(1)..=near + 1).map(f16::from_bits).find(|&value| passes(value) == Some(true))?;
        let last = if next.to_bits() == 0 { f16::from_bits(0x8001) } else { f16::from_bits(next.to_bits() - 1) };
        next.is_finite().then(|| Table::above(last))
    }

    /// The value of a constant whose elements are all one number, in fp16; finite numbers beyond its range saturate.
    pub(super) fn uniform(&self, id: ValueId) -> Option<f32> {
        let data = self.constant(id)?.data.to_f32();
        let (&first, rest) = data.split_first()?;
        let limit = f16::MAX.to_f32();
        let number = if first.is_finite() { first.clamp(-limit, limit) } else { first };
        (!first.is_nan() && rest.iter().all(|&x| x == first)).then_some(number)
    }

    /// Broadcasts a view to the extents of another.
    pub(super) fn expand(&mut self, from: &View, to: &View) -> Result<()> {
        if from.shape() == to.shape() {
            return self.copy(from, to);
        }
        self.planar_two(PlanarOp::Max, Affine::UNIT, from, from, to)
    }

    /// `x` where the condition equals `kept`, else a number.
    fn replace(&mut self, c: ValueId, kept: bool, x: ValueId, number: f32, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        if number == -INF || number == INF {
            let bound = self.bound(c, kept, -number, number)?;
            let op = if number < 0.0 { PlanarOp::Min } else { PlanarOp::Max };
            return self.planar_two(op, Affine::UNIT, &from, &bound, &to);
        }
        let low = self.bound(c, kept, -INF, number)?;
        let high = self.bound(c, kept, INF, number)?;
        let raised = self.scratch("raised", &to.shape());
        self.planar_two(PlanarOp::Max, Affine::UNIT, &from, &low, &raised)?;
        self.planar_two(PlanarOp::Min, Affine::UNIT, &raised, &high, &to)
    }

    /// Selects one of two computed operands: each is replaced by minus infinity where the other one is selected, and by NaN in arithmetic
    /// that has one, so that the maximum of both is the selected operand even if that is NaN.
    fn choose(&mut self, c: ValueId, x: ValueId, y: ValueId, out: ValueId) -> Result<()> {
        let (sides, to) = ([self.view(x)?, self.view(y)?], self.result(out));
        let mut chosen = Vec::new();
        for (kept, side) in [true, false].into_iter().zip(&sides) {
            let bound = self.bound(c, kept, INF, -INF)?;
            let absent = self.undefined(c, !kept)?;
            let [bounded, own] = ["bounded", "chosen"].map(|name| self.scratch(name, &to.shape()));
            self.planar_two(PlanarOp::Min, Affine::UNIT, side, &bound, &bounded)?;
            // A difference keeps the sign of a selected minus zero: -0 - 0 is -0, where -0 + 0 is 0.
            self.planar_two(PlanarOp::Sub, Affine::UNIT, &bounded, &absent, &own)?;
            chosen.push(own);
        }
        self.planar_two(PlanarOp::Max, Affine::UNIT, &chosen[0], &chosen[1], &to)
    }

    /// Clamping bound of a selection. Where the condition equals `kept` it leaves the operand unchanged: `neutral`, or NaN in
    /// arithmetic that has one. Elsewhere it is `number`.
    fn bound(&mut self, c: ValueId, kept: bool, neutral: f32, number: f32) -> Result<View> {
        if let Some((whole, [begin, end, stride])) = self.part_of_condition(c) {
            let view = self.bound(whole, kept, neutral, number)?;
            if let Some(part) = self.sliced(&view, &begin, &end, &stride) {
                return Ok(part);
            }
        }
        let pair = if kept { [neutral, number] } else { [number, neutral] };
        let key = (c, pair.map(f32::to_bits), Purpose::Bound);
        if let Some(view) = self.masks.get(&key) {
            return Ok(view.clone());
        }
        let mask = self.mask(c, pair)?;
        let undefined = self.undefined(c, kept)?;
        let bound = self.scratch("bound", &mask.shape());
        self.planar_two(PlanarOp::Add, Affine::UNIT, &mask, &undefined, &bound)?;
        self.masks.insert(key, bound.clone());
        Ok(bound)
    }

    /// NaN where the condition equals `truth`, in arithmetic that has NaN; else zero.
    fn undefined(&mut self, c: ValueId, truth: bool) -> Result<View> {
        if let Some((whole, [begin, end, stride])) = self.part_of_condition(c) {
            let view = self.undefined(whole, truth)?;
            if let Some(part) = self.sliced(&view, &begin, &end, &stride) {
                return Ok(part);
            }
        }
        let pair = if truth { [INF, 0.0] } else { [0.0, INF] };
        let key = (c, pair.map(f32::to_bits), Purpose::Undefined);
        if let Some(view) = self.masks.get(&key) {
            return Ok(view.clone());
        }
        let mask = self.mask(c, pair)?;
        let undefined = self.scratch("undefined", &mask.shape());
        self.planar_two(PlanarOp::Sub, Affine::UNIT, &mask, &mask, &undefined)?;
        self.masks.insert(key, undefined.clone());
        Ok(undefined)
    }

    /// One number where the condition is true, another where it is false.
    fn mask(&mut self, c: ValueId, pair: [f32; 2]) -> Result<View> {
        if let Some((whole, [begin, end, stride])) = self.part_of_condition(c) {
            let view = self.mask(whole, pair)?;
            if let Some(part) = self.sliced(&view, &begin, &end, &stride) {
                return Ok(part);
            }
        }
        let key = (c, pair.map(f32::to_bits), Purpose::Numbers);
        if let Some(view) = self.masks.get(&key) {
            return Ok(view.clone());
        }
        let mask = match self.condition(c)? {
            Condition::Known(shape, truths) => {
                let data: Vec<f32> = truths.iter().map(|&t| pair[usize::from(!t)]).collect();
                let name = format!("{}.mask", self.op);
                self.constant_view(&name, &shape, &data)
            }
            Condition::Live(view) => {
                let mask = self.scratch("mask", &view.shape());
                let nonlinear = Nonlinear::Table(Arc::new(Table::choice(pair[0], pair[1])));
                self.elementwise(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, &view, &mask)?;
                mask
            }
        };
        self.masks.insert(key, mask.clone());
        Ok(mask)
    }

    /// The condition that this one is a slice of, with its begin, end and stride, if others are slices of it too: the masks of the whole are
    /// made once, and their slices are views.
    fn part_of_condition(&self, c: ValueId) -> Option<(ValueId, [Vec<usize>; 3])> {
        let made = self.links.maker(c)?;
        let OpKind::Slice { begin, end, stride } = &made.kind else { return None };
        let whole = *made.inputs.first()?;
        let last = begin.len().checked_sub(1)?;
        let is_view = stride[last] == 1 && begin[last].is_multiple_of(COLUMN_ALIGN);
        let shared = self.constant(whole).is_none() && self.uses[whole.0 as usize] > 1;
        (is_view && shared).then(|| (whole, [begin.clone(), end.clone(), stride.clone()]))
    }

    fn condition(&mut self, c: ValueId) -> Result<Condition> {
        if let Some(tensor) = self.constant(c) {
            let truths = tensor.data.to_f32().iter().map(|&t| t != 0.0).collect();
            return Ok(Condition::Known(self.shape(c), truths));
        }
        Ok(Condition::Live(self.view(c)?))
    }
}
