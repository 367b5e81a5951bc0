//! Recurrent layers with one product a step: state and input of a step are one operand, so that the sums of all gates need no addition.
//! The gates' sigmoids are hyperbolic tangents, `1/2 + tanh(x/2)/2`, so that one function behind the product serves all rows.

use super::lengths::Seen;
use super::{Cell, Function, Sequence, Weights};
use crate::build::{Builder, Built};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::{Binary, Unary};

impl Cell {
    /// Returns true for a layer whose step is one product and a few functions: a plain layer, an LSTM with the usual functions, and a GRU
    /// whose reset gate acts after the product.
    pub(super) fn is_joined(&self) -> bool {
        match self {
            Cell::Plain(_) | Cell::Gated { after: true, .. } => true,
            Cell::Long {
                gate: Function::Unary(Unary::Sigmoid),
                candidate: Function::Unary(Unary::Tanh),
                peephole: None,
                coupled: false,
                ..
            } => true,
            Cell::Long { .. } | Cell::Gated { .. } => false,
        }
    }
}

impl Builder {
    /// Runs a layer over `x` of `[1, I, steps, N]` from a state `[1, H, 1, N]` and a cell `[N, H]`.
    pub(super) fn joined(
        &mut self,
        kind: &Cell,
        x: ValueId,
        weights: &Weights,
        (mut hidden, cell): (ValueId, Option<ValueId>),
        backwards: bool,
        seen: Option<&Seen>,
    ) -> Result<Sequence, Error> {
        let steps = self.shape(x)[2];
        let size = self.shape(hidden)[1];
        let mut cell = cell.map(|cell| self.as_channels(cell)).transpose()?;
        let (kernel, bias) = self.joined_weights(kind, weights, size)?;
        let mut states = vec![hidden; steps];
        for step in 0..steps {
            let step = if backwards { steps - 1 - step } else { step };
            if seen.is_some_and(|seen| seen.is_beyond(step)) {
                continue;
            }
            let before = (hidden, cell);
            let now = self.slice(x, 2, step, step + 1)?;
            let operand = self.concat(&[hidden, now], 1)?;
            let sum = self.pointwise("gates", operand, kernel, bias)?;
            (hidden, cell) = match (kind, cell) {
                (Cell::Plain(f), _) => (self.activated(*f, sum)?, None),
                (Cell::Gated { gate, candidate, .. }, _) => {
                    (self.gated_of_sums(*gate, *candidate, sum, size, hidden)?, None)
                }
                (Cell::Long { output, .. }, Some(cell)) => {
                    let (hidden, cell) = self.long_of_tanh(*output, sum, size, cell)?;
                    (hidden, Some(cell))
                }
                _ => return Err(self.unsupported("recurrent", "no initial cell")),
            };
            (hidden, cell) = self.stepped(seen, step, (hidden, cell), before)?;
            states[step] = hidden;
        }
        Ok(Sequence { states, last: hidden, cell })
    }

    /// Weights and biases for state and input as one operand.
    fn joined_weights(
        &mut self,
        kind: &Cell,
        weights: &Weights,
        size: usize,
    ) -> Result<(ValueId, Option<ValueId>), Error> {
        if let Cell::Gated { order, .. } = kind {
            // The state's part of the candidate is a row block of its own: the reset gate acts on it alone.
            let part =
                |b: &mut Builder, rows: ValueId, i: usize| b.slice(rows, 0, order[i] * size, (order[i] + 1) * size);
            let mut sides = Vec::with_capacity(4);
            for (rows, own) in [
                (Some(weights.recurrent), 2),
                (Some(weights.input), 3),
                (weights.recurrent_bias, 2),
                (weights.input_bias, 3),
            ] {
                let Some(rows) = rows else {
                    sides.push(None);
                    continue;
                };
                let mut shape = self.shape(rows);
                shape[0] = size;
                let zeros = vec![0.0; shape.iter().product()];
                let zeros = self.floats(shape, &zeros, rows);
                let mut blocks = [part(self, rows, 0)?, part(self, rows, 1)?, zeros, zeros];
                blocks[own] = part(self, rows, 2)?;
                sides.push(Some(self.concat(&blocks, 0)?));
            }
            let [Some(state), Some(input), a, b] = sides[..] else {
                return Err(self.unsupported("recurrent", "no weights"));
            };
            let bias = self.sum_of(a, b)?;
            return Ok((self.concat(&[state, input], 1)?, bias));
        }
        let kernel = self.concat(&[weights.recurrent, weights.input], 1)?;
        let bias = self.sum_of(weights.recurrent_bias, weights.input_bias)?;
        let Cell::Long { order, .. } = kind else { return Ok((kernel, bias)) };
        let bias = bias.map(|bias| self.gates_of_tanh(bias, order, size)).transpose()?;
        Ok((self.gates_of_tanh(kernel, order, size)?, bias))
    }

    fn sum_of(&mut self, a: Option<ValueId>, b: Option<ValueId>) -> Result<Option<ValueId>, Error> {
        match (a, b) {
            (Some(a), Some(b)) => self.binary(Binary::Add, a, b).map(Some),
            (a, b) => Ok(a.or(b)),
        }
    }

    /// State of a GRU step from its sums: reset gate, update gate, the candidate's part of the state, that of the input.
    fn gated_of_sums(
        &mut self,
        gate: Function,
        candidate: Function,
        sum: ValueId,
        size: usize,
        hidden: ValueId,
    ) -> Built {
        let gates = self.slice(sum, 1, 0, 2 * size)?;
        let gates = self.activated(gate, gates)?;
        let (reset, update) = (self.gate(gates, 0, size)?, self.gate(gates, 1, size)?);
        let (seen, fresh) = (self.gate(sum, 2, size)?, self.gate(sum, 3, size)?);
        let seen = self.binary(Binary::Mul, reset, seen)?;
        let sum = self.binary(Binary::Add, fresh, seen)?;
        let new = self.activated(candidate, sum)?;
        // (1 - z) n + z h, as n + z (h - n).
        let change = self.binary(Binary::Sub, hidden, new)?;
        let change = self.binary(Binary::Mul, update, change)?;
        self.binary(Binary::Add, new, change)
    }

    /// Rows of an LSTM's weights in the order candidate, forget, input, output; those of the gates are halved.
    fn gates_of_tanh(&mut self, rows: ValueId, order: &[usize; 4], size: usize) -> Built {
        let part = |b: &mut Builder, at: usize| b.slice(rows, 0, at * size, (at + 1) * size);
        let candidate = part(self, order[3])?;
        let gates = [part(self, order[1])?, part(self, order[0])?, part(self, order[2])?];
        let gates = self.concat(&gates, 0)?;
        let half = self.scalar(0.5, gates);
        let gates = self.binary(Binary::Mul, gates, half)?;
        self.concat(&[candidate, gates], 0)
    }

    /// State and cell of an LSTM step from its sums. The cell lies before the candidate, so that both products of the cell are one.
    fn long_of_tanh(
        &mut self,
        output: Function,
        sum: ValueId,
        size: usize,
        cell: ValueId,
    ) -> Result<(ValueId, ValueId), Error> {
        let all = self.unary(Unary::Tanh, sum)?;
        let gates = self.slice(all, 1, size, 4 * size)?;
        let half = self.scalar(0.5, gates);
        let gates = self.binary(Binary::Mul, gates, half)?;
        let gates = self.binary(Binary::Add, gates, half)?;
        let candidate = self.gate(all, 0, size)?;
        let both = self.concat(&[cell, candidate], 1)?;
        let gating = self.slice(gates, 1, 0, 2 * size)?;
        let products = self.binary(Binary::Mul, both, gating)?;
        let (kept, new) = (self.gate(products, 0, size)?, self.gate(products, 1, size)?);
        let cell = self.binary(Binary::Add, kept, new)?;
        let opened = self.gate(gates, 2, size)?;
        let shown = self.activated(output, cell)?;
        Ok((self.binary(Binary::Mul, opened, shown)?, cell))
    }
}
