//! Recurrent layers: short ones unrolled step by step, longer ones as a loop.
//!
//! All intermediate values have features as channels, steps as rows and the batch as columns, so that a step, a gate and the states of
//! all steps are slices and concatenations of leading axes, and products are 1x1 convolutions.

mod joined;
mod lengths;

use super::{Builder, Built};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::{Binary, OpKind, ReduceKind, Unary};
use crate::ops::{Scan, UNROLLED_OPS};

/// Largest number of unrolled steps: a step has about sixteen operations.
const STEPS: usize = UNROLLED_OPS / 16;

/// Most weights of a long input that each step multiplies, in place of one product for all steps and an addition in each.
const SMALL_PRODUCT: usize = 1 << 15;

/// Activation of a recurrent layer.
#[derive(Clone, Copy)]
pub enum Function {
    /// A function of the graph.
    Unary(Unary),
    /// `alpha x + beta`.
    Affine(f32, f32),
    /// `x` above the threshold, zero elsewhere.
    Above(f32),
}

impl From<Unary> for Function {
    fn from(f: Unary) -> Function {
        Function::Unary(f)
    }
}

/// Order and number of the steps, and the bound on the operands of activations.
#[derive(Clone, Copy, Default)]
pub struct Steps {
    /// True from the last step to the first.
    pub backwards: bool,
    /// Largest magnitude of the operands of activations.
    pub clip: Option<f32>,
    /// Steps of each column, `[N]` integers; states behind them are zero, and the last state is that of the last step.
    pub lengths: Option<ValueId>,
    /// True if the input of all steps, and the state before each, are quantized to 8 bits by their own range before their products.
    pub quantized: bool,
}

/// Kind of recurrent layer (RNN, LSTM or GRU), with its activations in the order that the layer uses them.
pub enum Cell {
    /// `h = f(Wx + Rh + b)`.
    Plain(Function),
    /// LSTM, with activations of the gates `f`, the candidate `g` and the output `h`.
    Long {
        gate: Function,
        candidate: Function,
        output: Function,
        /// Positions of the input, forget, output and candidate gates among the rows of the weights.
        order: [usize; 4],
        /// Constants like `[3, H]` for the input, forget and output gates.
        peephole: Option<[ValueId; 3]>,
        /// True if the forget gate is one minus the input gate.
        coupled: bool,
    },
    /// GRU: reset and update gates (their positions among the rows), then the candidate.
    Gated {
        gate: Function,
        candidate: Function,
        order: [usize; 3],
        /// True if the reset gate acts after the product with the recurrent weights.
        after: bool,
    },
}

/// Weights of one direction, with gates along the rows.
pub struct Weights {
    /// `[gates H, I]`.
    pub input: ValueId,
    /// `[gates H, H]`.
    pub recurrent: ValueId,
    /// `[gates H]`, added to the product with the input.
    pub input_bias: Option<ValueId>,
    /// `[gates H]`, added to the product with the state.
    pub recurrent_bias: Option<ValueId>,
}

/// Results of one direction.
pub struct Sequence {
    /// States after the steps in the order of the input, each `[1, H, steps, N]` for one or several steps.
    pub states: Vec<ValueId>,
    /// State after the last step, `[1, H, 1, N]`.
    pub last: ValueId,
    /// Cell after the last step, if the layer has one.
    pub cell: Option<ValueId>,
}

impl Builder {
    /// Runs a layer over `x` of `[steps, N, I]` from a state `[N, H]` and a cell.
    pub fn recurrent(
        &mut self,
        kind: &Cell,
        x: ValueId,
        weights: &Weights,
        start: (ValueId, Option<ValueId>),
        course: Steps,
    ) -> Result<Sequence, Error> {
        let shape = self.shape(x);
        let [steps, n, features] = shape[..] else {
            return Err(self.unsupported("recurrent", "operand not of rank 3"));
        };
        let weights = &self.kernels(weights)?;
        let x = self.transpose(x, &[2, 0, 1])?;
        let x = self.reshape(x, [1, features, steps, n])?;
        let mut hidden = self.as_channels(start.0)?;
        let size = self.shape(hidden)[1];
        let Steps { backwards, clip, lengths, quantized } = course;
        let seen = self.seen(lengths, steps, n)?;
        let again = features * self.shape(weights.input)[0];
        let small = features <= 2 * size || again <= SMALL_PRODUCT;
        if steps <= STEPS && small && !quantized && clip.is_none_or(f32::is_infinite) && kind.is_joined() {
            let run = self.joined(kind, x, weights, (hidden, start.1), backwards, seen.as_ref())?;
            return self.ended(run, seen.as_ref());
        }
        // One product computes the input's part of all steps.
        let x = self.operand(x, quantized)?;
        let all = self.pointwise("inputs", x, weights.input, weights.input_bias)?;
        let mut cell = start.1.map(|cell| self.as_channels(cell)).transpose()?;
        if steps > STEPS {
            let scan = Scan { axis: 2, backwards };
            let types = [Some(hidden), cell].into_iter().flatten().map(|id| self.ty(id).clone()).collect();
            let mut turn = self.turn(types);
            let now = self.scan(&mut turn, all, scan, steps);
            let before = (turn.carried[0], turn.carried.get(1).copied());
            let (mut h, mut c) = self.cell(kind, now, weights, before, course)?;
            if let Some(seen) = &seen {
                let counts = self.scan(&mut turn, seen.mask, scan, steps);
                (h, c) = self.kept(counts, (h, c), before)?;
            }
            let starts: Vec<ValueId> = [Some(hidden), cell].into_iter().flatten().collect();
            let next: Vec<ValueId> = [Some(h), c].into_iter().flatten().collect();
            let results = self.close(turn, &starts, &next, &[(h, scan)], steps)?;
            let cell = cell.map(|_| results[1]);
            let run = Sequence { states: results[results.len() - 1..].to_vec(), last: results[0], cell };
            return self.ended(run, seen.as_ref());
        }
        let mut states = vec![hidden; steps];
        for step in 0..steps {
            let step = if backwards { steps - 1 - step } else { step };
            if seen.as_ref().is_some_and(|seen| seen.is_beyond(step)) {
                continue;
            }
            let now = self.slice(all, 2, step, step + 1)?;
            let next = self.cell(kind, now, weights, (hidden, cell), course)?;
            (hidden, cell) = self.stepped(seen.as_ref(), step, next, (hidden, cell))?;
            states[step] = hidden;
        }
        self.ended(Sequence { states, last: hidden, cell }, seen.as_ref())
    }

    /// A state `[N, H]` as `[1, H, 1, N]`.
    fn as_channels(&mut self, state: ValueId) -> Built {
        let &[n, size] = self.shape(state).as_slice() else {
            return Err(self.unsupported("recurrent", "state not of rank 2"));
        };
        let turned = self.transpose(state, &[1, 0])?;
        self.reshape(turned, [1, size, 1, n])
    }

    /// States `[1, H, 1, N]` of several directions, concatenated to `[N, D H]`.
    pub fn as_rows(&mut self, states: &[ValueId]) -> Built {
        let beside = self.concat(states, 1)?;
        let &[_, size, _, n] = self.shape(beside).as_slice() else {
            return Err(self.unsupported("recurrent", "state not of rank 4"));
        };
        let flat = self.reshape(beside, [size, n])?;
        self.transpose(flat, &[1, 0])
    }

    /// The states of all steps of each direction, `[D H, steps, N]`.
    pub fn all_states(&mut self, runs: &[Sequence]) -> Built {
        let mut sides = Vec::with_capacity(runs.len());
        for run in runs {
            sides.push(self.concat(&run.states, 2)?);
        }
        let all = self.concat(&sides, 1)?;
        let shape = self.shape(all)[1..].to_vec();
        self.reshape(all, shape)
    }

    /// The matrices as kernels of 1x1 convolutions, which all steps share.
    fn kernels(&mut self, weights: &Weights) -> Result<Weights, Error> {
        let mut kernel = |matrix: ValueId| {
            let shape = [self.shape(matrix).as_slice(), &[1, 1]].concat();
            self.reshape(matrix, shape)
        };
        Ok(Weights { input: kernel(weights.input)?, recurrent: kernel(weights.recurrent)?, ..*weights })
    }

    /// A product over channels: a 1x1 convolution.
    fn pointwise(&mut self, suffix: &str, x: ValueId, kernel: ValueId, bias: Option<ValueId>) -> Built {
        let kind = OpKind::Conv { strides: vec![1; 2], pads: vec![(0, 0); 2], dilations: vec![1; 2], groups: 1 };
        let mut inputs = vec![x, kernel];
        inputs.extend(bias);
        self.op(suffix, kind, &inputs)
    }

    /// The operand of a product: itself, or the floats that stand for its quantization to 8 bits by its range, extended to zero.
    fn operand(&mut self, x: ValueId, quantized: bool) -> Built {
        if !quantized {
            return Ok(x);
        }
        let axes: Vec<usize> = (0..self.shape(x).len()).collect();
        let low = self.reduce(ReduceKind::Min, x, &axes, true)?;
        let low = self.with(Binary::Min, low, 0.0)?;
        let high = self.reduce(ReduceKind::Max, x, &axes, true)?;
        let high = self.with(Binary::Max, high, 0.0)?;
        let span = self.binary(Binary::Sub, high, low)?;
        // A state of zeros has no range.
        let any = self.with(Binary::Greater, span, 0.0)?;
        let scale = self.with(Binary::Div, span, 255.0)?;
        let one = self.scalar(1.0, scale);
        let scale = self.select(any, scale, one)?;
        let zero = self.binary(Binary::Div, low, scale)?;
        let zero = self.unary(Unary::Round, zero)?;
        let steps = self.binary(Binary::Div, x, scale)?;
        let steps = self.unary(Unary::Round, steps)?;
        // Relative to the zero point, 8 bits hold the numbers from that of the lowest element on.
        let steps = self.binary(Binary::Max, steps, zero)?;
        let last = self.with(Binary::Add, zero, 255.0)?;
        let steps = self.binary(Binary::Min, steps, last)?;
        self.binary(Binary::Mul, steps, scale)
    }

    fn cell(
        &mut self,
        kind: &Cell,
        now: ValueId,
        weights: &Weights,
        (hidden, cell): (ValueId, Option<ValueId>),
        Steps { clip, quantized, .. }: Steps,
    ) -> Result<(ValueId, Option<ValueId>), Error> {
        let operand = self.operand(hidden, quantized)?;
        let past = self.pointwise("past", operand, weights.recurrent, weights.recurrent_bias)?;
        let size = self.shape(hidden)[1];
        match kind {
            Cell::Plain(f) => {
                let sum = self.binary(Binary::Add, now, past)?;
                let sum = self.clipped(sum, clip)?;
                Ok((self.activated(*f, sum)?, None))
            }
            Cell::Long { .. } => {
                let cell = cell.ok_or_else(|| self.unsupported("recurrent", "no initial cell"))?;
                let sum = self.binary(Binary::Add, now, past)?;
                self.long(kind, sum, size, cell, clip)
            }
            Cell::Gated { gate, candidate, order, after } => {
                let part = |b: &mut Builder, x: ValueId, i: usize| b.gate(x, order[i], size);
                // The two gates as one slice; rows between them are ignored.
                let (first, last) = (order[0].min(order[1]), order[0].max(order[1]) + 1);
                let mut pair = [now, past];
                for x in &mut pair {
                    *x = self.slice(*x, 1, first * size, last * size)?;
                }
                let sum = self.binary(Binary::Add, pair[0], pair[1])?;
                let sum = self.clipped(sum, clip)?;
                let gates = self.activated(*gate, sum)?;
                let reset = self.gate(gates, order[0] - first, size)?;
                let update = self.gate(gates, order[1] - first, size)?;
                let fresh = part(self, now, 2)?;
                let seen = if *after {
                    let seen = part(self, past, 2)?;
                    self.binary(Binary::Mul, reset, seen)?
                } else {
                    let kept = self.binary(Binary::Mul, reset, hidden)?;
                    let rows = |b: &mut Builder, w: ValueId| b.slice(w, 0, order[2] * size, (order[2] + 1) * size);
                    let matrix = rows(self, weights.recurrent)?;
                    let bias = weights.recurrent_bias.map(|bias| rows(self, bias)).transpose()?;
                    self.pointwise("seen", kept, matrix, bias)?
                };
                let sum = self.binary(Binary::Add, fresh, seen)?;
                let sum = self.clipped(sum, clip)?;
                let new = self.activated(*candidate, sum)?;
                // (1 - z) n + z h, as n + z (h - n).
                let change = self.binary(Binary::Sub, hidden, new)?;
                let change = self.binary(Binary::Mul, update, change)?;
                Ok((self.binary(Binary::Add, new, change)?, None))
            }
        }
    }

    /// State and cell of an LSTM step, from the sums of its gates.
    fn long(
        &mut self,
        kind: &Cell,
        sum: ValueId,
        size: usize,
        cell: ValueId,
        clip: Option<f32>,
    ) -> Result<(ValueId, Option<ValueId>), Error> {
        let Cell::Long { gate, candidate, output, order, peephole, coupled } = kind else {
            return Err(self.unsupported("recurrent", "no layer with a cell"));
        };
        // Gates with sigmoid activations and no peepholes are one slice; rows between them are ignored.
        let (first, last) = order[..3].iter().fold((3, 0), |(a, b), &at| (a.min(at), b.max(at + 1)));
        let together = match peephole {
            Some(_) => None,
            None => {
                let sum = self.slice(sum, 1, first * size, last * size)?;
                let sum = self.clipped(sum, clip)?;
                Some(self.activated(*gate, sum)?)
            }
        };
        let opened = |b: &mut Builder, i: usize, cell: ValueId| match (together, peephole) {
            (Some(gates), _) => b.gate(gates, order[i] - first, size),
            (None, peephole) => {
                let mut x = b.gate(sum, order[i], size)?;
                if let Some(p) = peephole {
                    let factor = b.reshape(p[i], [1, size, 1, 1])?;
                    let seen = b.binary(Binary::Mul, cell, factor)?;
                    x = b.binary(Binary::Add, x, seen)?;
                }
                let x = b.clipped(x, clip)?;
                b.activated(*gate, x)
            }
        };
        let i = opened(self, 0, cell)?;
        let f = if *coupled {
            let one = self.scalar(1.0, i);
            self.binary(Binary::Sub, one, i)?
        } else {
            opened(self, 1, cell)?
        };
        let g = self.gate(sum, order[3], size)?;
        let g = self.clipped(g, clip)?;
        let g = self.activated(*candidate, g)?;
        let kept = self.binary(Binary::Mul, f, cell)?;
        let new = self.binary(Binary::Mul, i, g)?;
        let cell = self.binary(Binary::Add, kept, new)?;
        let o = opened(self, 2, cell)?;
        let shown = self.activated(*output, cell)?;
        Ok((self.binary(Binary::Mul, o, shown)?, Some(cell)))
    }

    fn activated(&mut self, f: Function, x: ValueId) -> Built {
        match f {
            Function::Unary(f) => self.unary(f, x),
            Function::Affine(alpha, beta) => {
                let scaled = self.with(Binary::Mul, x, alpha)?;
                self.with(Binary::Add, scaled, beta)
            }
            Function::Above(alpha) => {
                let above = self.with(Binary::Greater, x, alpha)?;
                let zero = self.scalar(0.0, x);
                self.select(above, x, zero)
            }
        }
    }

    /// One gate of a slice of several.
    fn gate(&mut self, x: ValueId, at: usize, size: usize) -> Built {
        self.slice(x, 1, at * size, (at + 1) * size)
    }

    fn clipped(&mut self, x: ValueId, clip: Option<f32>) -> Built {
        match clip {
            Some(limit) if limit.is_finite() => self.unary(Unary::Clip { min: -limit, max: limit }, x),
            _ => Ok(x),
        }
    }
}
