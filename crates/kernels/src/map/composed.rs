//! Stages that depend on a single operand, as one [`Formula`].

use super::{Combination, MapInput, MapKind, MapStage};
use crate::epilogue::{Activation, ExactEpilogue};
use crate::line::Line;
use crate::params::{BinaryOp, Curve};
use crate::simd::{Affine, Formula, Pieces};

/// Stages of operand 0, each of which reads the result of the one before, as a formula; `None` for others. Its values are not always those of the
/// stages: they are compared when a table is made.
pub(super) fn formula_of(stages: &[MapStage]) -> Option<Formula> {
    let away = |stage: &MapStage| matches!(stage.kind, MapKind::Convert(_) | MapKind::CombineExactly(_));
    // The addition of minus zero is the identity.
    let (mut before, mut curve, mut after, mut gates) = (None, None, None, false);
    for (i, stage) in stages.iter().enumerate() {
        let last = i.checked_sub(1).map_or(MapInput::Operand(0), MapInput::Value);
        let product = stage.inputs.len() == 2 && i > 0;
        let follows = match *stage.inputs.as_slice() {
            [one] => one == last,
            [one, two] => [[one, two], [two, one]].contains(&[last, MapInput::Operand(0)]),
            _ => false,
        };
        if gates || !follows || stage.relus != [false; 2] {
            return None;
        }
        match &stage.kind {
            _ if product => {
                curve.as_ref()?;
                gates = stage.is_product();
                gates.then_some(())?;
            }
            MapKind::Combine(of) => put(of.affine(|x| x)?, curve.is_none(), &mut before, &mut after)?,
            MapKind::CombineExactly(of) => {
                put(of.of.affine(|x| x.get() as f32)?, curve.is_none(), &mut before, &mut after)?
            }
            MapKind::Activate { bias, scale, activation } => {
                if *bias != 0.0 || *scale != 1.0 {
                    let affine = Affine { first: *bias, factor: *scale, last: -0.0 };
                    put(affine, curve.is_none(), &mut before, &mut after)?;
                }
                curve.is_none().then_some(())?;
                curve = Some(match activation {
                    Activation::Table(table) => Box::new(table.curve()?.clone()),
                    Activation::Clamp(low, high) => Box::new(Pieces::of(&Curve::clamp([*low, *high]))),
                    Activation::None | Activation::Relu | Activation::Unread => return None,
                });
            }
            MapKind::Convert(ExactEpilogue::Map(table)) => {
                curve.is_none().then_some(())?;
                curve = Some(Box::new(table.curve()?.clone()));
            }
            MapKind::Convert(ExactEpilogue::Clamp(low, high)) => {
                curve.is_none().then_some(())?;
                curve = Some(Box::new(Pieces::of(&Curve::clamp([low.to_f32(), high.to_f32()]))));
            }
            MapKind::Convert(_) | MapKind::LookUp(_) => return None,
        }
    }
    let alike = stages.iter().all(|stage| away(stage) == away(&stages[0]));
    let formula = Formula { before, curve: curve?, after, fuses: false, gates, away: away(stages.first()?) };
    alike.then_some(formula)
}

/// Sets the affine step before the curve, or the one behind it; `None` if there is one already.
fn put(affine: Affine, first: bool, before: &mut Option<Affine>, after: &mut Option<Affine>) -> Option<()> {
    let to = if first { before } else { after };
    to.is_none().then(|| *to = Some(affine))
}

impl MapStage {
    /// Returns true for the product of two inputs without factors, bias and function.
    fn is_product(&self) -> bool {
        let of = match &self.kind {
            MapKind::Combine(of) => Some(&**of),
            MapKind::CombineExactly(of) => of.narrow.as_ref(),
            _ => None,
        };
        of.is_some_and(|of| of.is_plain() && of.operation.op == BinaryOp::Mul && !of.ending.relu)
    }
}

impl<N: Line> Combination<N> {
    /// Factors and bias of one input; `None` if the stage has more.
    fn affine(&self, number: impl Fn(N) -> f32) -> Option<Affine> {
        let of = &self.ending;
        let pre = match self.pre {
            Some((_, true)) => return None,
            Some((pre, false)) => number(pre),
            None => 1.0,
        };
        let (factor, addend) = match of.plain {
            true => (pre, -0.0),
            false => (pre * number(of.last) * number(of.scale), number(of.bias)),
        };
        (of.function.is_none() && !of.relu).then_some(Affine { first: -0.0, factor, last: addend })
    }
}
