//! Stages of a chain that depend on a single operand, replaced by one table over all fp16 bit patterns.

use super::composed::formula_of;
use super::{Combination, Map, MapInput, MapKind, MapStage, map};
use crate::arrays::MapEach;
use crate::epilogue::{Activation, ExactEpilogue};
use crate::line::Line;
use crate::reduce::{ElementwiseEpilogue, Operation};
use crate::table::Table;
use crate::tensor::Extents;
use crate::view::TensorView;
use crate::workers::Workers;
use half::f16;
use std::sync::Arc;

/// Predicted time of one look-up, in hundredths of a nanosecond.
const LOOK_UP: usize = 45;

impl MapStage {
    /// Predicted time of one element, in hundredths of a nanosecond; `converts` as [`Workers::converts`].
    fn cost(&self, converts: bool) -> usize {
        let simple = if converts { 7 } else { 30 };
        let table = |table: &Table| if converts && table.is_computed() { 20 } else { LOOK_UP };
        match &self.kind {
            MapKind::Activate { activation: Activation::Table(of), .. } | MapKind::Convert(ExactEpilogue::Map(of)) => {
                table(of)
            }
            MapKind::LookUp(of) => table(of),
            MapKind::Combine(of) if of.ending.function.is_some() => 200,
            MapKind::CombineExactly(of) if of.narrow.is_none() => 150,
            MapKind::Activate { .. } | MapKind::Convert(_) | MapKind::Combine(_) | MapKind::CombineExactly(_) => simple,
        }
    }

    /// Appends words that are equal for stages of equal function, as long as both stages are alive (tables are compared by address).
    fn key(&self, to: &mut Vec<u64>) {
        to.push(self.inputs.len() as u64);
        to.extend(self.inputs.iter().map(|input| match *input {
            MapInput::Operand(at) => 2 * at as u64,
            MapInput::Value(at) => 2 * at as u64 + 1,
        }));
        to.extend(self.relus.iter().map(|&relu| u64::from(relu)));
        let address = |table: &Arc<Table>| Arc::as_ptr(table) as u64;
        let bits = |x: f32| u64::from(x.to_bits());
        match &self.kind {
            MapKind::Activate { bias, scale, activation } => {
                let [kind, one, other] = match activation {
                    Activation::None => [0; 3],
                    Activation::Relu => [1, 0, 0],
                    Activation::Clamp(low, high) => [2, bits(*low), bits(*high)],
                    Activation::Table(of) => [3, address(of), 0],
                    Activation::Unread => [4, 0, 0],
                };
                to.extend([0, bits(*bias), bits(*scale), kind, one, other]);
            }
            MapKind::Combine(of) => {
                to.push(1);
                of.key(to, bits);
            }
            MapKind::Convert(of) => to.extend(match of {
                ExactEpilogue::Admit => [2, 0, 0, 0],
                ExactEpilogue::Relu => [2, 1, 0, 0],
                ExactEpilogue::Clamp(low, high) => [2, 2, u64::from(low.to_bits()), u64::from(high.to_bits())],
                ExactEpilogue::Map(of) => [2, 3, address(of), 0],
                ExactEpilogue::Scale(of) => {
                    let [low, high] = of.bounds.map_each(bits);
                    [2, 4, bits(of.scale), low << 32 | high]
                }
            }),
            MapKind::CombineExactly(of) => {
                to.extend([3, std::ptr::from_ref(of.rules) as u64, u64::from(of.narrow.is_some())]);
                of.of.key(to, |x| x.get().to_bits());
            }
            MapKind::LookUp(of) => to.extend([4, address(of)]),
        }
    }
}

impl<N: Line> Combination<N> {
    fn key(&self, to: &mut Vec<u64>, bits: impl Fn(N) -> u64) {
        let Operation { op, first, sign } = self.operation;
        let ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu } = self.ending;
        let pre = self.pre.map_or([0; 2], |(factor, abs)| [1 + u64::from(abs), bits(factor)]);
        to.extend(pre);
        to.extend([op as u64, u64::from(plain), u64::from(relu), function.map_or(0, |of| of as usize as u64)]);
        to.extend([first, sign, last, scale, bias, epsilon].into_iter().map(bits));
    }
}

/// Cache key of a chain: equal for chains of equal function, as long as the stages of both are alive.
pub fn key(stages: &[MapStage]) -> Vec<u64> {
    let mut words = Vec::new();
    for stage in stages {
        stage.key(&mut words);
    }
    words
}

/// Evaluates a chain of one operand for every fp16 bit pattern.
pub fn table_of(workers: &Workers, stages: &[MapStage]) -> Table {
    let ext = Extents { g: 1, c: 1, h: 1 << 6, w: 1 << 10 };
    let (patterns, strides): (Vec<f16>, _) = ((0..=u16::MAX).map(f16::from_bits).collect(), [0, 0, ext.w]);
    let mut values = vec![f16::ZERO; patterns.len()];
    let operands = [Some((TensorView { data: &patterns, strides }, false))];
    map(workers, Map { stages, operands: &operands }, &mut values, ext, strides);
    Table::with(values, formula_of(stages))
}

/// Replaces every part of a chain that depends on a single operand, and is slower than a look-up or several steps of one formula, by a table. `make`
/// makes the table of such a part, which it gets as a chain of operand 0. `None` if there is no such part.
pub fn with_tables(
    stages: &[MapStage],
    converts: bool,
    mut make: impl FnMut(Vec<MapStage>) -> Arc<Table>,
) -> Option<Vec<MapStage>> {
    let operands = operands_of(stages);
    let mut kept: Vec<Option<MapStage>> = vec![None; stages.len()];
    let mut waiting = vec![stages.len().checked_sub(1)?];
    let mut found = false;
    while let Some(at) = waiting.pop() {
        let Some(stage) = stages.get(at).filter(|_| kept[at].is_none()) else { continue };
        let part = operands[at].map(|operand| (operand, part_of(stages, at)));
        let worth = |part: &[MapStage]| part.iter().map(|stage| stage.cost(converts)).sum::<usize>() > LOOK_UP;
        let made = part.and_then(|(operand, part)| {
            let (slow, one_formula) = (worth(&part), converts && part.len() > 1 && formula_of(&part).is_some());
            let table = (slow || one_formula).then(|| make(part)).filter(|table| slow || table.is_computed())?;
            Some((operand, table))
        });
        kept[at] = match made {
            Some((operand, table)) => {
                found = true;
                let inputs = vec![MapInput::Operand(operand)];
                Some(MapStage { inputs, relus: [false; 2], kind: MapKind::LookUp(table) })
            }
            None => {
                waiting.extend(stage.inputs.iter().filter_map(value));
                Some(stage.clone())
            }
        };
    }
    found.then(|| renumbered(kept))
}

fn value(input: &MapInput) -> Option<usize> {
    match *input {
        MapInput::Value(at) => Some(at),
        MapInput::Operand(_) => None,
    }
}

/// For each stage the single operand it depends on; `None` if it depends on several.
fn operands_of(stages: &[MapStage]) -> Vec<Option<usize>> {
    let mut found: Vec<Option<usize>> = Vec::with_capacity(stages.len());
    for stage in stages {
        let mut of = stage.inputs.iter().map(|input| match *input {
            MapInput::Operand(at) => Some(at),
            MapInput::Value(at) => found.get(at).copied().flatten(),
        });
        let first = of.next().flatten();
        let all = of.all(|other| other == first);
        found.push(first.filter(|_| all));
    }
    found
}

/// A stage of one operand with all stages it depends on, as a chain of operand 0.
fn part_of(stages: &[MapStage], last: usize) -> Vec<MapStage> {
    let mut kept: Vec<Option<MapStage>> = vec![None; last + 1];
    let mut waiting = vec![last];
    while let Some(at) = waiting.pop() {
        if kept[at].is_none() {
            waiting.extend(stages[at].inputs.iter().filter_map(value));
            let inputs = stages[at].inputs.iter().map(|input| match *input {
                MapInput::Operand(_) => MapInput::Operand(0),
                value => value,
            });
            kept[at] = Some(MapStage { inputs: inputs.collect(), ..stages[at].clone() });
        }
    }
    renumbered(kept)
}

/// The kept stages in order, with their indices renumbered.
fn renumbered(kept: Vec<Option<MapStage>>) -> Vec<MapStage> {
    let mut places = Vec::with_capacity(kept.len());
    let mut stages: Vec<MapStage> = Vec::with_capacity(kept.len());
    for stage in kept {
        places.push(stages.len());
        let Some(mut stage) = stage else { continue };
        for input in &mut stage.inputs {
            // A stage reads earlier ones.
            if let MapInput::Value(at) = input {
                *at = places[*at];
            }
        }
        stages.push(stage);
    }
    stages
}
