//! Recognition of a GRU in a loop: coremltools writes PyTorch's as a loop over a list of states, which an iteration reads at the counter and
//! writes behind it. The recurrent layer has one product for the inputs of all steps and one for the state.

use super::{Course, Turn};
use crate::build::Builder;
use crate::build::recurrent::{Cell, Steps, Weights};
use crate::error::Error;
use crate::graph::{Op, ValueId};
use crate::ops::{Binary, OpKind, ScatterMode, Unary};
use std::collections::HashMap;

/// Operations of an iteration by their results.
struct Iteration<'a> {
    build: &'a Builder,
    made: HashMap<ValueId, &'a Op>,
}

/// A GRU found in an iteration.
struct Gru {
    slot: usize,
    /// The tensor that has the inputs of all steps, and the positions that the steps read.
    input: (ValueId, ValueId),
    gate: Unary,
    candidate: Unary,
    /// Weights and biases of the reset gate, the update gate and the candidate: those of the input, then those of the state.
    products: [[Vec<ValueId>; 2]; 3],
}

impl<'a> Iteration<'a> {
    fn op(&self, id: ValueId) -> Option<&'a Op> {
        self.made.get(&id).copied()
    }

    /// The value before conversions between floats and reshapes.
    fn source(&self, mut id: ValueId) -> ValueId {
        while let Some(op) = self.op(id).filter(|op| matches!(op.kind, OpKind::Cast | OpKind::Reshape)) {
            if !self.build.dtype(op.inputs[0]).is_float() {
                break;
            }
            id = op.inputs[0];
        }
        id
    }

    fn unary(&self, id: ValueId) -> Option<(Unary, ValueId)> {
        let op = self.op(self.source(id))?;
        if let OpKind::Unary(unary) = &op.kind { Some((*unary, op.inputs[0])) } else { None }
    }

    /// Operands of the function `f`, in both orders.
    fn binary(&self, f: Binary, id: ValueId) -> Option<[[ValueId; 2]; 2]> {
        let op = self.op(self.source(id)).filter(|op| op.kind == OpKind::Binary(f))?;
        Some([[op.inputs[0], op.inputs[1]], [op.inputs[1], op.inputs[0]]])
    }

    /// Operand of a product with constants, and these.
    fn product(&self, id: ValueId) -> Option<(ValueId, Vec<ValueId>)> {
        let op = self.op(self.source(id)).filter(|op| op.kind == OpKind::Linear)?;
        let weights = op.inputs[1..].to_vec();
        let constant = weights.iter().all(|w| self.build.data(*w).is_some());
        constant.then(|| (self.source(op.inputs[0]), weights))
    }

    /// Products of the input and of the state.
    fn products(&self, [input, state]: [ValueId; 2], hidden: ValueId) -> Option<(ValueId, [Vec<ValueId>; 2])> {
        let ((x, input), (h, state)) = (self.product(input)?, self.product(state)?);
        (h == hidden && x != hidden).then_some((x, [input, state]))
    }

    /// A gate: function, input, weights.
    fn gate(&self, id: ValueId, hidden: ValueId) -> Option<(Unary, ValueId, [Vec<ValueId>; 2])> {
        let (f, sum) = self.unary(id)?;
        let (x, weights) = self.binary(Binary::Add, sum)?.into_iter().find_map(|pair| self.products(pair, hidden))?;
        Some((f, x, weights))
    }

    /// The cell `(1 - z) n + z h` with `n = g(W x + r (R h))`.
    fn cell(&self, next: ValueId, hidden: ValueId) -> Option<(ValueId, Gru)> {
        let sides = self.binary(Binary::Add, next)?;
        let (update, new) = sides.into_iter().find_map(|[fresh, kept]| {
            let update = self.binary(Binary::Mul, kept)?.into_iter().find(|[_, h]| self.source(*h) == hidden)?[0];
            let new = self.binary(Binary::Mul, fresh)?.into_iter().find_map(|[rest, new]| {
                let [[one, z], _] = self.binary(Binary::Sub, rest)?;
                let one = self.build.data(one).is_some_and(|t| t.data.to_f32().iter().all(|&v| v == 1.0));
                (one && self.source(z) == self.source(update)).then_some(new)
            })?;
            Some((update, new))
        })?;
        let (candidate, sum) = self.unary(new)?;
        let (reset, x, last) = self.binary(Binary::Add, sum)?.into_iter().find_map(|[input, seen]| {
            self.binary(Binary::Mul, seen)?.into_iter().find_map(|[reset, state]| {
                let (x, weights) = self.products([input, state], hidden)?;
                Some((reset, x, weights))
            })
        })?;
        let (gate, x_reset, reset) = self.gate(reset, hidden)?;
        let (other, x_update, update) = self.gate(update, hidden)?;
        if x_reset != x || x_update != x || gate != other {
            return None;
        }
        let gru = Gru { slot: 0, input: (x, x), gate, candidate, products: [reset, update, last] };
        Some((x, gru))
    }

    /// The GRU of an iteration that carries counters and one list of states `[steps + 1, N, H]`.
    fn gru(&self, turn: &Turn, next: &[ValueId], course: &Course) -> Option<Gru> {
        let mut lists = (0..next.len()).filter(|&slot| course.last[slot].is_none());
        let (slot, None) = (lists.next()?, lists.next()) else { return None };
        let list = turn.carried[slot];
        let [rows, n, size] = self.build.shape(list)[..] else { return None };
        let write = self.op(self.source(next[slot]))?;
        if !matches!(write.kind, OpKind::ScatterNd { mode: ScatterMode::Add | ScatterMode::Update }) {
            return None;
        }
        let of_list = |op: &&&Op| op.inputs.iter().any(|id| self.source(*id) == list);
        let readers: Vec<&Op> =
            self.made.values().filter(of_list).filter(|op| op.kind != OpKind::Cast).copied().collect();
        let read = readers.iter().find(|op| matches!(op.kind, OpKind::Gather { axis: 0 }))?;
        // The list is read at the counter alone, and written behind it.
        let at = |id: ValueId, from: i32| {
            let places = course.by_turn.get(&id)?;
            let follows = |(i, t): (usize, &crate::graph::Tensor)| t.data.to_i32() == [from + i as i32];
            places.iter().enumerate().all(follows).then_some(())
        };
        at(read.inputs[1], 0)?;
        at(write.inputs[1], 1)?;
        let direct = |id: ValueId| self.build.shape(id) == [rows, n, size] && self.source(id) == list;
        if readers.len() != 2 || rows != course.turns + 1 || !direct(write.inputs[0]) || !direct(read.inputs[0]) {
            return None;
        }
        let (x, mut gru) = self.cell(write.inputs[2], read.outputs[0])?;
        let step = self.op(x).filter(|op| matches!(op.kind, OpKind::Gather { axis: 0 }))?;
        let whole = step.inputs[0];
        let outside = !self.made.contains_key(&whole) && !turn.carried.contains(&whole);
        let features = self.build.shape(whole);
        let [_, batch, features] = features[..] else { return None };
        let of_step = course.by_turn.get(&step.inputs[1]).is_some_and(|all| all.iter().all(|t| t.data.len() == 1));
        let fits = gru.products.iter().all(|[input, state]| {
            let shapes = |all: &[ValueId]| all.iter().map(|&id| self.build.shape(id)).collect::<Vec<_>>();
            let expected = |inner: usize| [vec![size, inner], vec![size]];
            shapes(input) == expected(features) && shapes(state) == expected(size)
        });
        (gru.slot, gru.input) = (slot, (whole, step.inputs[1]));
        (outside && of_step && fits && batch == n).then_some(gru)
    }
}

impl Builder {
    /// True if rows of a list from the second on are zero.
    fn only_first_row(&self, list: ValueId) -> bool {
        let zero = |id: ValueId, skip: usize| {
            self.data(id).is_some_and(|t| t.data.to_f32().iter().skip(skip).all(|&v| v == 0.0))
        };
        let made = self.net.ops.iter().rev().find(|op| op.outputs.contains(&list));
        match made.map(|op| (&op.kind, &op.inputs[..])) {
            None => zero(list, self.shape(list)[1..].iter().product()),
            Some((OpKind::Cast, &[id])) => self.only_first_row(id),
            Some((OpKind::Concat { axis: 0, .. }, [first, rest @ ..])) => {
                self.shape(*first)[0] == 1 && rest.iter().all(|&id| zero(id, 0))
            }
            _ => false,
        }
    }

    /// Final values of the carried values of an iteration that is a GRU; `None`, without a change, if it is none.
    pub fn gated_loop(
        &mut self,
        turn: &Turn,
        starts: &[ValueId],
        next: &[ValueId],
        course: &Course,
    ) -> Result<Option<Vec<ValueId>>, Error> {
        let ops = &self.net.ops[turn.first_op..];
        let made = ops.iter().flat_map(|op| op.outputs.iter().map(move |&id| (id, op))).collect();
        let found = Iteration { build: self, made }.gru(turn, next, course);
        let Some(gru) = found.filter(|gru| course.turns > 0 && self.only_first_row(starts[gru.slot])) else {
            return Ok(None);
        };
        self.abandon(turn);
        let (list, float) = (starts[gru.slot], self.dtype(gru.input.0));
        let [rows, n, size] = self.shape(list)[..] else { return Ok(None) };
        let x = self.places(gru.input.0, 0, &course.by_turn[&gru.input.1])?;
        let mut joined = Vec::with_capacity(4);
        for side in 0..2 {
            for part in 0..2 {
                let parts: Vec<ValueId> = gru.products.iter().map(|p| p[side][part]).collect();
                joined.push(self.concat(&parts, 0)?);
            }
        }
        let weights = Weights {
            input: joined[0],
            input_bias: Some(joined[1]),
            recurrent: joined[2],
            recurrent_bias: Some(joined[3]),
        };
        let first = self.slice(list, 0, 0, 1)?;
        let first = self.cast(first, float)?;
        let start = self.reshape(first, [n, size])?;
        let cell =
            Cell::Gated { gate: gru.gate.into(), candidate: gru.candidate.into(), order: [0, 1, 2], after: true };
        let run = self.recurrent(&cell, x, &weights, (start, None), Steps::default())?;
        let states = self.all_states(&[run])?;
        let states = self.transpose(states, &[1, 2, 0])?;
        let all = self.concat(&[first, states], 0)?;
        debug_assert_eq!(self.shape(all), [rows, n, size]);
        let all = self.cast(all, self.dtype(list))?;
        let known = course.last.iter().map(|last| last.as_ref().map(|t| self.constant("last", t.clone())));
        Ok(Some(known.collect::<Vec<_>>().into_iter().map(|id| id.unwrap_or(all)).collect()))
    }
}
