//! Recurrent layers, unrolled step by step.

use super::{Builder, Built};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::{Binary, OpKind, Unary};

/// Most steps that are unrolled.
const STEPS: usize = 2048;

/// Which layer, with its activations in the order that the layer uses them.
pub enum Cell {
    /// `h = f(Wx + Rh + b)`.
    Plain(Unary),
    /// Gates `f`, candidate `g`, output `h`.
    Long {
        gate: Unary,
        candidate: Unary,
        output: Unary,
        /// Rows of the weights: position of the gates input, forget, output and candidate.
        order: [usize; 4],
        /// `[3, H]`-like constants for the gates input, forget and output.
        peephole: Option<[ValueId; 3]>,
        /// The forget gate is one less the input gate.
        coupled: bool,
    },
    /// Gates reset and update (their positions among the rows), then the candidate.
    Gated {
        gate: Unary,
        candidate: Unary,
        order: [usize; 3],
        /// Whether the reset gate acts after the product with the recurrent weights.
        after: bool,
    },
}

/// Weights of one direction, gates along the rows.
pub struct Weights {
    /// `[gates H, I]`.
    pub input: ValueId,
    /// `[gates H, H]`.
    pub recurrent: ValueId,
    /// `[gates H]` for the input's product.
    pub input_bias: Option<ValueId>,
    /// `[gates H]` for the state's product.
    pub recurrent_bias: Option<ValueId>,
}

/// What one direction gives.
pub struct Sequence {
    /// State after each step, `[N, H]`, in the order of the input.
    pub states: Vec<ValueId>,
    /// State after the last step.
    pub last: ValueId,
    /// Cell after the last step, where there is one.
    pub cell: Option<ValueId>,
}

impl Builder {
    /// Runs a layer over `x` of `[steps, N, I]` from a state `[N, H]` and a cell, perhaps backwards.
    pub fn recurrent(
        &mut self,
        kind: &Cell,
        x: ValueId,
        weights: &Weights,
        start: (ValueId, Option<ValueId>),
        backwards: bool,
        clip: Option<f32>,
    ) -> Result<Sequence, Error> {
        let shape = self.shape(x);
        let [steps, n, _] = shape[..] else { return Err(self.unsupported("recurrent", "operand not of rank 3")) };
        if steps > STEPS {
            return Err(self.unsupported("recurrent", format!("{steps} steps, at most {STEPS} are unrolled")));
        }
        // All products with the input at once.
        let mut inputs = vec![x, weights.input];
        inputs.extend(weights.input_bias);
        let all = self.op("inputs", OpKind::Linear, &inputs)?;
        let (mut hidden, mut cell) = start;
        let mut states = vec![hidden; steps];
        for step in 0..steps {
            let step = if backwards { steps - 1 - step } else { step };
            let now = self.slice(all, 0, step, step + 1)?;
            let rows = self.shape(now)[2];
            let now = self.reshape(now, [n, rows])?;
            (hidden, cell) = self.cell(kind, now, weights, (hidden, cell), clip)?;
            states[step] = hidden;
        }
        Ok(Sequence { states, last: hidden, cell })
    }

    fn cell(
        &mut self,
        kind: &Cell,
        now: ValueId,
        weights: &Weights,
        (hidden, cell): (ValueId, Option<ValueId>),
        clip: Option<f32>,
    ) -> Result<(ValueId, Option<ValueId>), Error> {
        let mut inputs = vec![hidden, weights.recurrent];
        inputs.extend(weights.recurrent_bias);
        let past = self.op("past", OpKind::Linear, &inputs)?;
        let size = self.shape(hidden)[1];
        match kind {
            Cell::Plain(f) => {
                let sum = self.binary(Binary::Add, now, past)?;
                let sum = self.clipped(sum, clip)?;
                Ok((self.unary(*f, sum)?, None))
            }
            Cell::Long { gate, candidate, output, order, peephole, coupled } => {
                let cell = cell.ok_or_else(|| self.unsupported("recurrent", "no initial cell"))?;
                let sum = self.binary(Binary::Add, now, past)?;
                let part = |b: &mut Builder, i: usize| b.slice(sum, 1, order[i] * size, (order[i] + 1) * size);
                let peep = |b: &mut Builder, x: ValueId, i: usize, cell: ValueId| match peephole {
                    None => Ok(x),
                    Some(p) => {
                        let seen = b.binary(Binary::Mul, cell, p[i])?;
                        b.binary(Binary::Add, x, seen)
                    }
                };
                let sum_i = part(self, 0)?;
                let i = peep(self, sum_i, 0, cell)?;
                let i = self.clipped(i, clip)?;
                let i = self.unary(*gate, i)?;
                let f = if *coupled {
                    let one = self.scalar(1.0, i);
                    self.binary(Binary::Sub, one, i)?
                } else {
                    let sum_f = part(self, 1)?;
                    let f = peep(self, sum_f, 1, cell)?;
                    let f = self.clipped(f, clip)?;
                    self.unary(*gate, f)?
                };
                let g = part(self, 3)?;
                let g = self.clipped(g, clip)?;
                let g = self.unary(*candidate, g)?;
                let kept = self.binary(Binary::Mul, f, cell)?;
                let new = self.binary(Binary::Mul, i, g)?;
                let cell = self.binary(Binary::Add, kept, new)?;
                let sum_o = part(self, 2)?;
                let o = peep(self, sum_o, 2, cell)?;
                let o = self.clipped(o, clip)?;
                let o = self.unary(*gate, o)?;
                let shown = self.unary(*output, cell)?;
                Ok((self.binary(Binary::Mul, o, shown)?, Some(cell)))
            }
            Cell::Gated { gate, candidate, order, after } => {
                let part =
                    |b: &mut Builder, x: ValueId, i: usize| b.slice(x, 1, order[i] * size, (order[i] + 1) * size);
                let mut gates = Vec::with_capacity(2);
                for i in 0..2 {
                    let (a, b) = (part(self, now, i)?, part(self, past, i)?);
                    let sum = self.binary(Binary::Add, a, b)?;
                    let sum = self.clipped(sum, clip)?;
                    gates.push(self.unary(*gate, sum)?);
                }
                let (reset, update) = (gates[0], gates[1]);
                let fresh = part(self, now, 2)?;
                let seen = if *after {
                    let seen = part(self, past, 2)?;
                    self.binary(Binary::Mul, reset, seen)?
                } else {
                    let kept = self.binary(Binary::Mul, reset, hidden)?;
                    let rows = |b: &mut Builder, w: ValueId| b.slice(w, 0, order[2] * size, (order[2] + 1) * size);
                    let mut inputs = vec![kept, rows(self, weights.recurrent)?];
                    if let Some(bias) = weights.recurrent_bias {
                        inputs.push(rows(self, bias)?);
                    }
                    self.op("seen", OpKind::Linear, &inputs)?
                };
                let sum = self.binary(Binary::Add, fresh, seen)?;
                let sum = self.clipped(sum, clip)?;
                let new = self.unary(*candidate, sum)?;
                // (1 - z) n + z h, as n + z (h - n).
                let change = self.binary(Binary::Sub, hidden, new)?;
                let change = self.binary(Binary::Mul, update, change)?;
                Ok((self.binary(Binary::Add, new, change)?, None))
            }
        }
    }

    fn clipped(&mut self, x: ValueId, clip: Option<f32>) -> Built {
        match clip {
            Some(limit) if limit.is_finite() => self.unary(Unary::Clip { min: -limit, max: limit }, x),
            _ => Ok(x),
        }
    }
}
