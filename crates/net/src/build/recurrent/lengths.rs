//! Columns of a recurrent layer with fewer steps than the operand has.

use super::Sequence;
use crate::build::{Builder, Built};
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::Binary;

/// Steps that count.
pub(super) struct Seen {
    /// True at the steps of each column, `[1, 1, steps, N]`.
    pub mask: ValueId,
    /// By step: its value for all columns, if it is known and the same.
    known: Vec<Option<bool>>,
}

impl Seen {
    /// Returns true if no column has this step.
    pub(super) fn is_beyond(&self, step: usize) -> bool {
        self.known[step] == Some(false)
    }
}

/// A state and a cell.
type States = (ValueId, Option<ValueId>);

impl Builder {
    /// Steps that count by the numbers of steps `[N]`; `None` if all do.
    pub(super) fn seen(&mut self, lengths: Option<ValueId>, steps: usize, n: usize) -> Result<Option<Seen>, Error> {
        let Some(lengths) = lengths else { return Ok(None) };
        if self.shape(lengths) != [n] {
            return Err(self.unsupported("recurrent", "lengths of other extents than the batch"));
        }
        if let Some(data) = self.data(lengths) {
            let lengths = data.data.to_i32();
            let counts = |step: usize| lengths.iter().map(move |&l| step < usize::try_from(l).unwrap_or(0));
            if counts(steps - 1).all(|counts| counts) {
                return Ok(None);
            }
            let same = |step: usize| match (counts(step).all(|c| c), counts(step).any(|c| c)) {
                (false, true) => None,
                (all, _) => Some(all),
            };
            let known = (0..steps).map(same).collect();
            let mask = (0..steps).flat_map(counts).collect();
            return Ok(Some(Seen { mask: self.mask([1, 1, steps, n], mask), known }));
        }
        let lengths = self.cast(lengths, DType::I32)?;
        let lengths = self.reshape(lengths, [1, 1, 1, n])?;
        let places = self.integers([1, 1, steps, 1], (0..steps as i32).collect());
        let mask = self.binary(Binary::Less, places, lengths)?;
        Ok(Some(Seen { mask, known: vec![None; steps] }))
    }

    /// States behind a step: those before it in columns that do not have it.
    pub(super) fn stepped(
        &mut self,
        seen: Option<&Seen>,
        step: usize,
        next: States,
        before: States,
    ) -> Result<States, Error> {
        match seen.filter(|seen| seen.known[step].is_none()) {
            None => Ok(next),
            Some(seen) => {
                let counts = self.slice(seen.mask, 2, step, step + 1)?;
                self.kept(counts, next, before)
            }
        }
    }

    /// The next states where the step counts, those before it elsewhere.
    pub(super) fn kept(&mut self, counts: ValueId, next: States, before: States) -> Result<States, Error> {
        let hidden = self.select(counts, next.0, before.0)?;
        let cell = match (next.1, before.1) {
            (Some(new), Some(old)) => Some(self.select(counts, new, old)?),
            (new, _) => new,
        };
        Ok((hidden, cell))
    }

    /// The results with zeros for steps that do not count.
    pub(super) fn ended(&mut self, run: Sequence, seen: Option<&Seen>) -> Result<Sequence, Error> {
        let Some(seen) = seen else { return Ok(run) };
        let all = self.concat(&run.states, 2)?;
        Ok(Sequence { states: vec![self.emptied(all, seen.mask)?], ..run })
    }

    fn emptied(&mut self, all: ValueId, mask: ValueId) -> Built {
        let zero = self.scalar(0.0, all);
        self.select(mask, all, zero)
    }
}
