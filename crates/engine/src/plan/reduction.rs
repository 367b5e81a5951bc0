//! Reductions over the columns of long results, from memory to memory; operands are resolved at planning.

use super::maps::MapOperand;
use super::ops::{Kind, Op};
use super::{Step, Work};
use crate::lines::FIRST;
use crate::machine::Machine;
use crate::numerics::Parameters;
use anemone_facts::Field::*;
use anemone_facts::code::{class, second};
use anemone_kernels::map::Combination;
use anemone_kernels::num::wide::Exact;
use anemone_kernels::params::Rounding;
use anemone_kernels::reduce::Fold;
use anemone_kernels::tensor::Extents;
use std::ops::Range;

/// Reductions of fewer elements are left to the kernels of their tasks.
const LEAST_ELEMENTS: usize = 1 << 20;

/// Sum or maximum of each channel's elements.
#[derive(Clone)]
pub struct Reduction {
    pub(crate) ext: Extents,
    pub(crate) source: MapOperand,
    pub(crate) to: MapOperand,
    /// True for the maximum.
    pub(super) largest: bool,
    /// True if the source goes through a ReLU.
    pub(crate) relu: bool,
    pub(crate) of: Rule,
    /// Number of replaced tasks.
    pub(crate) tasks: usize,
}

/// Prologue and epilogue, in the numbers of the model.
#[derive(Clone)]
pub enum Rule {
    Fast(Combination<f32>),
    Exact(&'static Rounding, Combination<Exact>),
}

impl Reduction {
    /// The reduction as an operation.
    pub(super) fn op(self, tasks: Range<usize>) -> Op {
        let (reads, writes) = (vec![self.source.of(self.ext)], vec![self.to.of(self.result())]);
        Op { tasks, reads, writes, kind: Kind::Reduction(Box::new(self)), known: true }
    }

    /// Extents of the result.
    pub(crate) fn result(&self) -> Extents {
        Extents { h: 1, w: 1, ..self.ext }
    }

    pub(crate) fn fold(&self) -> Fold {
        if self.largest { Fold::Max } else { Fold::Sum(None) }
    }
}

impl Machine<'_> {
    /// The current task as such a reduction; `None` for other tasks, adder rules, transposed or broadcast operands, and few elements.
    pub(super) fn as_reduction(&self, step: &Step) -> Option<Reduction> {
        if !matches!(step.work, Work::Planar(_)) || self.get(TaskClass) != class::PLANAR_REDUCE {
            return None;
        }
        let clear = FIRST.iter().chain(&[ResultTranspose]).all(|&field| self.get(field) == 0);
        let alike = [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| self.get(out) == self.get(of));
        let one = self.get(PeSecond) == second::NONE && (self.depths(), self.source_depths()) == (0..1, 0..1);
        let ext = self.input_extents();
        let elements = ext.g * ext.c * ext.plane();
        if !clear || !alike || !one || elements < LEAST_ELEMENTS {
            return None;
        }
        let fold = self.fold().ok().filter(Fold::goes_on)?;
        let abs = self.takes_magnitude().ok()?;
        let of = match self.model.rounding() {
            None => Rule::Fast(self.combination(1, abs)?),
            Some(rules) => Rule::Exact(rules, self.combination(1, abs)?),
        };
        let (source, to) = (self.first_source([false; 3])?, self.map_result(Extents { h: 1, w: 1, ..ext })?);
        let (largest, relu) = (matches!(fold, Fold::Max), self.get(InputRelu) == 1);
        Some(Reduction { ext, source, to, largest, relu, of, tasks: 1 })
    }
}
