//! Both directions of a layer side by side. The backward one runs over the reversed input, so that both have their steps in one order: the
//! directions are the batch of all values of a step but the operands of products, in which they are groups of channels. A step of both
//! takes as many tasks as a step of one.

use super::{Cell, Direction, STEPS, Sequence, Steps, Weights};
use crate::build::{Builder, Built};
use crate::error::Error;
use crate::graph::{ValueId, elements};

/// Most weights of both directions, 1 MiB: more do not stay in a cache between steps, where those of one direction may.
const MOST_WEIGHTS: usize = 1 << 19;

impl Builder {
    /// Runs both directions of a layer over `x` of `[steps, N, I]`: side by side if they are alike and their steps are unrolled.
    pub fn bidirectional(&mut self, x: ValueId, both: [&Direction; 2], course: Steps) -> Result<Vec<Sequence>, Error> {
        // The range of a quantized operand is that of one direction.
        let fits = self.shape(x).first().is_some_and(|&steps| steps <= STEPS) && self.are_small(both);
        if fits && course.lengths.is_none() && !course.quantized && self.are_alike(both) {
            return self.side_by_side(x, both, course);
        }
        let mut runs = Vec::with_capacity(2);
        for (Direction { kind, weights, start }, backwards) in both.into_iter().zip([false, true]) {
            runs.push(self.recurrent(kind, x, weights, *start, Steps { backwards, ..course })?);
        }
        Ok(runs)
    }

    /// Returns true if fewer tasks save time: the weights are few, and a step has more than a product, as that of a plain layer, because
    /// inputs and states are reversed by copies.
    fn are_small(&self, both: [&Direction; 2]) -> bool {
        let of = |d: &Direction| [d.weights.input, d.weights.recurrent].map(|id| elements(&self.shape(id)));
        let all: usize = both.into_iter().flat_map(of).sum();
        all <= MOST_WEIGHTS && !matches!(both[0].kind, Cell::Plain(_))
    }

    /// Returns true for directions with the same functions and extents.
    fn are_alike(&self, [forward, backward]: [&Direction; 2]) -> bool {
        let shapes = |d: &Direction| {
            let Weights { input, recurrent, input_bias, recurrent_bias } = d.weights;
            [Some(input), Some(recurrent), input_bias, recurrent_bias, Some(d.start.0), d.start.1]
                .map(|id| id.map(|id| self.shape(id)))
        };
        forward.kind == backward.kind && shapes(forward) == shapes(backward)
    }

    fn side_by_side(&mut self, x: ValueId, both: [&Direction; 2], course: Steps) -> Result<Vec<Sequence>, Error> {
        let x = self.as_features(x)?;
        let weights = [self.kernels(&both[0].weights)?, self.kernels(&both[1].weights)?];
        let mut beside = |states: [ValueId; 2]| {
            let states = [self.as_channels(states[0])?, self.as_channels(states[1])?];
            self.concat(&states, 0)
        };
        let hidden = beside(both.map(|d| d.start.0))?;
        let cell = both[0].start.1.zip(both[1].start.1).map(|(a, b)| beside([a, b])).transpose()?;
        let run = self.unrolled(&both[0].kind, x, &weights, (hidden, cell), course, None)?;
        let all = self.concat(&run.states, 2)?;
        let mut runs = Vec::with_capacity(2);
        for i in 0..2 {
            let mut own = |all: ValueId| self.slice(all, 0, i, i + 1);
            let (states, last) = (own(all)?, own(run.last)?);
            let cell = run.cell.map(own).transpose()?;
            let states = if i == 0 { states } else { self.reverse(states, &[2])? };
            runs.push(Sequence { states: vec![states], last, cell });
        }
        Ok(runs)
    }

    /// Values of all steps: those of the forward direction, then those of the backward one in its order.
    pub(super) fn both_ways(&mut self, forward: ValueId, backward: ValueId) -> Built {
        let reversed = self.reverse(backward, &[2])?;
        self.concat(&[forward, reversed], 0)
    }

    /// The input's part of the sums of all steps, and the weights of all directions.
    pub(super) fn inputs(&mut self, x: ValueId, each: &[Weights]) -> Result<(ValueId, Weights), Error> {
        let weights = self.beside(each)?;
        let (kernel, bias) = (weights.input, weights.input_bias);
        let [directions, gates] = [each.len(), self.shape(kernel)[0] / each.len()];
        let [_, features, steps, n] = self.shape(x)[..] else {
            return Err(self.unsupported("recurrent", "operand not of rank 4"));
        };
        let sums = match directions {
            1 => self.product("inputs", x, kernel, bias)?,
            // The smaller side is reversed.
            _ if features < gates => {
                let x = self.both_ways(x, x)?;
                self.product("inputs", x, kernel, bias)?
            }
            _ => {
                let sums = self.product("inputs", x, kernel, bias)?;
                let sums = self.reshape(sums, [directions, gates, steps, n])?;
                let [forward, backward] = [self.slice(sums, 0, 0, 1)?, self.slice(sums, 0, 1, 2)?];
                self.both_ways(forward, backward)?
            }
        };
        Ok((sums, weights))
    }

    /// Weights of directions one after the other: those of groups.
    fn beside(&mut self, all: &[Weights]) -> Result<Weights, Error> {
        let mut beside = |part: fn(&Weights) -> Option<ValueId>| {
            let parts: Vec<ValueId> = all.iter().filter_map(part).collect();
            if parts.is_empty() { Ok(None) } else { self.concat(&parts, 0).map(Some) }
        };
        let input = beside(|w| Some(w.input))?;
        let recurrent = beside(|w| Some(w.recurrent))?;
        let [input_bias, recurrent_bias] = [beside(|w| w.input_bias)?, beside(|w| w.recurrent_bias)?];
        let (Some(input), Some(recurrent)) = (input, recurrent) else {
            return Err(self.unsupported("recurrent", "no weights"));
        };
        Ok(Weights { input, recurrent, input_bias, recurrent_bias })
    }
}
