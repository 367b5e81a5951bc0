//! Loops that stay loops: one iteration is built like any other operations, then moved into the body.

mod gated;

use super::{Builder, Built};
use crate::error::Error;
use crate::eval;
use crate::graph::{Data, Net, Op, Tensor, TensorType, ValueId};
use crate::ops::OpKind;
use crate::ops::{Loop, MOST_TURNS, Scan};
use std::collections::{BTreeSet, HashMap, HashSet};

/// One iteration under construction: the operations since its start.
pub struct Turn {
    first_op: usize,
    /// Loop-carried values at the start of the iteration.
    pub carried: Vec<ValueId>,
    /// Scanned tensors, each with the slice of this iteration.
    scanned: Vec<(ValueId, Scan, ValueId)>,
}

/// Condition under which a loop continues.
#[derive(Clone, Copy)]
pub enum GoesOn {
    /// A value computed by the next iteration, tested before it runs.
    Before(ValueId),
    /// A value of the iteration, tested after it, and the largest number of iterations.
    After(ValueId, Option<usize>),
}

/// A loop whose iterations are known at compile time.
pub struct Course {
    /// Number of iterations.
    pub turns: usize,
    /// Final values of those carried values that are known.
    pub last: Vec<Option<Tensor>>,
    /// Values of each iteration that run-time operations read.
    by_turn: HashMap<ValueId, Vec<Tensor>>,
}

impl Builder {
    /// Begins an iteration with carried values of these types.
    pub fn turn(&mut self, types: Vec<TensorType>) -> Turn {
        let first_op = self.net.ops.len();
        let carried = types.into_iter().map(|ty| self.placeholder("now", ty)).collect();
        Turn { first_op, carried, scanned: Vec::new() }
    }

    fn placeholder(&mut self, suffix: &str, ty: TensorType) -> ValueId {
        let name = self.fresh(&format!("{}.{suffix}", self.stem));
        self.value(&name, ty, None)
    }

    /// This iteration's slice of a tensor that has one for each of `turns`.
    pub fn scan(&mut self, turn: &mut Turn, whole: ValueId, scan: Scan, turns: usize) -> ValueId {
        let mut ty = self.ty(whole).clone();
        ty.shape[scan.axis] /= turns;
        let part = self.placeholder("part", ty);
        turn.scanned.push((whole, scan, part));
        part
    }

    /// Discards the operations of an iteration.
    pub fn abandon(&mut self, turn: &Turn) {
        self.net.ops.truncate(turn.first_op);
    }

    /// Closes an iteration: appends a loop of `turns` iterations from the values `starts`, and stacks the collected slices. Returns the final
    /// carried values, then the collected tensors. Loop-invariant operations are hoisted out of the loop.
    pub fn close(
        &mut self,
        turn: Turn,
        starts: &[ValueId],
        next: &[ValueId],
        collected: &[(ValueId, Scan)],
        turns: usize,
    ) -> Result<Vec<ValueId>, Error> {
        let parts = turn.scanned.iter().map(|(_, _, part)| *part);
        let mut inside: HashSet<ValueId> = turn.carried.iter().copied().chain(parts.clone()).collect();
        // A carried value that no iteration changes is read directly.
        let same: Vec<bool> = turn.carried.iter().zip(next).map(|(now, next)| now == next).collect();
        let unchanged: HashMap<ValueId, ValueId> = (turn.carried.iter().zip(starts).zip(&same))
            .filter(|(_, same)| **same)
            .map(|((now, start), _)| (*now, *start))
            .collect();
        inside.retain(|id| !unchanged.contains_key(id));
        let mut ops = Vec::new();
        for mut op in self.net.ops.split_off(turn.first_op) {
            op.inputs.iter_mut().for_each(|id| *id = *unchanged.get(id).unwrap_or(id));
            if op.inputs.iter().any(|id| inside.contains(id)) {
                inside.extend(op.outputs.iter().copied());
                ops.push(op);
            } else {
                self.net.ops.push(op);
            }
        }
        let made: HashSet<ValueId> = ops.iter().flat_map(|op| &op.outputs).copied().collect();
        let given = |id: ValueId| *unchanged.get(&id).unwrap_or(&id);
        let changing = next.iter().zip(&same).filter(|(_, same)| !**same).map(|(id, _)| *id);
        let mut outputs: Vec<ValueId> = changing.chain(collected.iter().map(|(id, _)| *id)).map(given).collect();
        for id in &mut outputs {
            if !made.contains(id) {
                *id = self.copied(*id)?;
                ops.extend(self.net.ops.pop());
            }
        }
        let carried: Vec<ValueId> =
            turn.carried.iter().zip(&same).filter(|(_, same)| !**same).map(|(id, _)| *id).collect();
        let mut operands: Vec<ValueId> =
            starts.iter().zip(&same).filter(|(_, same)| !**same).map(|(id, _)| *id).collect();
        operands.extend(turn.scanned.iter().map(|(whole, _, _)| *whole));
        let own: Vec<ValueId> = carried.iter().copied().chain(parts).collect();
        let body = self.body(ops, &own, &outputs, &mut operands);
        let scanned = turn.scanned.iter().map(|(_, scan, _)| *scan).collect();
        let collected = collected.iter().map(|(_, scan)| *scan).collect();
        let l = Loop { body, turns, carried: carried.len(), scanned, collected };
        let mut results = self.looped(l, operands)?.into_iter();
        let mut all: Vec<ValueId> = Vec::new();
        for (start, same) in starts.iter().zip(&same) {
            all.extend(if *same { Some(*start) } else { results.next() });
        }
        all.extend(results);
        Ok(all)
    }

    /// Operations as a body with the inputs `own`; other values that they read become inputs too, and are added to `operands`.
    fn body(&self, ops: Vec<Op>, own: &[ValueId], outputs: &[ValueId], operands: &mut Vec<ValueId>) -> Net {
        let mut body = Net { name: self.op_stem.clone(), ..Net::default() };
        let mut known: HashMap<ValueId, ValueId> = HashMap::new();
        let mut add = |body: &mut Net, id: ValueId| {
            let mut value = self.net.value(id).clone();
            value.data = None;
            *known.entry(id).or_insert_with(|| body.add_value(value))
        };
        for &id in own {
            let id = add(&mut body, id);
            body.inputs.push(id);
        }
        let made: HashSet<ValueId> = ops.iter().flat_map(|op| &op.outputs).copied().collect();
        for op in ops {
            for id in op.inputs.iter().filter(|id| !made.contains(id) && !own.contains(id)) {
                let new = add(&mut body, *id);
                if !body.inputs.contains(&new) {
                    body.inputs.push(new);
                    operands.push(*id);
                }
            }
            let inputs = op.inputs.iter().map(|&id| add(&mut body, id)).collect();
            let results = op.outputs.iter().map(|&id| add(&mut body, id)).collect();
            body.ops.push(Op { inputs, outputs: results, ..op });
        }
        body.outputs = outputs.iter().map(|&id| add(&mut body, id)).collect();
        without_dead(body)
    }

    fn looped(&mut self, l: Loop, inputs: Vec<ValueId>) -> Result<Vec<ValueId>, Error> {
        let types: Vec<&TensorType> = inputs.iter().map(|&id| self.ty(id)).collect();
        let types = l.types(&types).map_err(|e| e.in_op(&self.op_stem))?;
        let mut outputs = Vec::new();
        for ty in types {
            let name = self.fresh(&format!("{}.loop", self.stem));
            outputs.push(self.value(&name, ty, None));
        }
        let name = format!("{}.loop", self.op_stem);
        self.net.ops.push(Op { name, kind: OpKind::Loop(Box::new(l)), inputs, outputs: outputs.clone() });
        Ok(outputs)
    }

    /// Evaluates a loop as far as its carried values are known: counters and values computed from them. `None` if its number of iterations
    /// is computed at run time.
    pub fn course(
        &self,
        turn: &Turn,
        starts: &[ValueId],
        next: &[ValueId],
        goes_on: GoesOn,
    ) -> Result<Option<Course>, Error> {
        let ops = &self.net.ops[turn.first_op..];
        let (counted, reach) = (self.counted(turn, starts, next), self.reaches(turn, ops));
        let pure = |id: &ValueId| reach.get(id).is_some_and(|slots| slots.iter().all(|s| counted.contains(s)));
        let (GoesOn::Before(condition) | GoesOn::After(condition, _)) = goes_on;
        if self.data(condition).is_none() && !pure(&condition) {
            return Ok(None);
        }
        // Operations on counters only, and those of their results that other operations read.
        let (counting, others): (Vec<&Op>, Vec<&Op>) = ops.iter().partition(|op| op.outputs.iter().all(pure));
        let read: BTreeSet<ValueId> = others.iter().flat_map(|op| &op.inputs).filter(|id| pure(id)).copied().collect();
        let mut part = Net { name: self.op_stem.clone(), values: self.net.values.clone(), ..Net::default() };
        part.ops = counting.into_iter().cloned().collect();
        part.inputs = counted.iter().map(|&slot| turn.carried[slot]).collect();
        part.outputs = counted.iter().map(|&slot| next[slot]).chain([condition]).chain(read.iter().copied()).collect();
        let part = compact(part);
        let mut now: Vec<Tensor> = Vec::new();
        for &slot in &counted {
            let Some(data) = self.data(starts[slot]) else { return Ok(None) };
            now.push((**data).clone());
        }
        let mut by_turn: Vec<Vec<Tensor>> = vec![Vec::new(); read.len()];
        let most = if let GoesOn::After(_, most) = goes_on { most } else { None };
        let mut turns = 0;
        while most.is_none_or(|most| turns < most) {
            if turns == MOST_TURNS {
                return Ok(None);
            }
            let mut made = eval::eval_typed(&part, &now)?;
            let values = made.split_off(counted.len() + 1);
            let holds = made.pop().is_some_and(|t| t.data.to_i32().first().is_some_and(|&v| v != 0));
            if matches!(goes_on, GoesOn::Before(_)) && !holds {
                break;
            }
            for (slot, tensor) in made.into_iter().enumerate() {
                now[slot] = tensor.cast(now[slot].data.dtype());
            }
            by_turn.iter_mut().zip(values).for_each(|(list, value)| list.push(value));
            turns += 1;
            if !holds {
                break;
            }
        }
        let mut last = vec![None; starts.len()];
        counted.iter().zip(now).for_each(|(&slot, tensor)| last[slot] = Some(tensor));
        Ok(Some(Course { turns, last, by_turn: read.into_iter().zip(by_turn).collect() }))
    }

    /// Slots of carried values that are known in every iteration: they start as constants and depend on known values only.
    fn counted(&self, turn: &Turn, starts: &[ValueId], next: &[ValueId]) -> BTreeSet<usize> {
        let reach = self.reaches(turn, &self.net.ops[turn.first_op..]);
        let mut counted: BTreeSet<usize> =
            (0..starts.len()).filter(|&slot| self.data(starts[slot]).is_some()).collect();
        loop {
            let follows = |slot: &usize| match (self.data(next[*slot]), reach.get(&next[*slot])) {
                (Some(_), _) => true,
                (None, slots) => slots.is_some_and(|slots| slots.iter().all(|s| counted.contains(s))),
            };
            let kept: BTreeSet<usize> = counted.iter().filter(|slot| follows(slot)).copied().collect();
            if kept.len() == counted.len() {
                return kept;
            }
            counted = kept;
        }
    }

    /// Carried values that each value of an iteration depends on; none for values that depend on run-time values from outside.
    fn reaches(&self, turn: &Turn, ops: &[Op]) -> HashMap<ValueId, BTreeSet<usize>> {
        let mut reach: HashMap<ValueId, BTreeSet<usize>> = HashMap::new();
        for (slot, &id) in turn.carried.iter().enumerate() {
            reach.insert(id, BTreeSet::from([slot]));
        }
        for op in ops {
            let mut slots = Some(BTreeSet::new());
            for &id in op.inputs.iter().filter(|&&id| self.data(id).is_none()) {
                slots = slots.zip(reach.get(&id)).map(|(mut all, own)| {
                    all.extend(own);
                    all
                });
            }
            if let Some(slots) = slots {
                reach.extend(op.outputs.iter().map(|&id| (id, slots.clone())));
            }
        }
        reach
    }

    /// Hoists loop-invariant operations.
    fn hoist(&mut self, turn: &mut Turn) {
        let ops = self.net.ops.split_off(turn.first_op);
        let parts = turn.scanned.iter().map(|(_, _, part)| *part);
        let mut inside: HashSet<ValueId> = turn.carried.iter().copied().chain(parts).collect();
        let (varying, same): (Vec<Op>, Vec<Op>) = ops.into_iter().partition(|op| {
            let varies = op.inputs.iter().any(|id| inside.contains(id));
            if varies {
                inside.extend(op.outputs.iter().copied());
            }
            varies
        });
        self.net.ops.extend(same);
        turn.first_op = self.net.ops.len();
        self.net.ops.extend(varying);
    }

    /// Returns true if an iteration reads or writes its carried values at positions that are constants in the unrolled loop: the engine
    /// supports those, and computed positions not.
    pub fn has_known_places(&mut self, turn: &mut Turn, course: &Course) -> bool {
        self.hoist(turn);
        let ops = &self.net.ops[turn.first_op..];
        let made: HashSet<ValueId> =
            ops.iter().flat_map(|op| &op.outputs).copied().chain(turn.carried.iter().copied()).collect();
        ops.iter().any(|op| {
            let known = |slot: usize| op.inputs.get(slot).is_some_and(|id| course.by_turn.contains_key(id));
            match op.kind {
                OpKind::Gather { .. } => known(1) && made.contains(&op.inputs[0]),
                OpKind::GatherAlong { .. }
                | OpKind::GatherNd { .. }
                | OpKind::ScatterAlong { .. }
                | OpKind::ScatterNd { .. } => known(1),
                _ => false,
            }
        })
    }

    /// Passes known values to an iteration as scanned constants, and gathers at known positions as scanned tensors. Counters
    /// are no longer carried.
    fn follow(&mut self, turn: &mut Turn, course: &Course) -> Result<(), Error> {
        let mut ops = self.net.ops.split_off(turn.first_op);
        let made: HashSet<ValueId> = ops.iter().flat_map(|op| &op.outputs).copied().collect();
        let live = |id: ValueId| made.contains(&id) || turn.carried.contains(&id);
        let mut renamed: HashMap<ValueId, ValueId> = HashMap::new();
        let mut parts: Vec<(usize, ValueId, ValueId, usize)> = Vec::new();
        for (at, op) in ops.iter().enumerate() {
            let OpKind::Gather { axis } = op.kind else { continue };
            let (Some(places), false) = (course.by_turn.get(&op.inputs[1]), live(op.inputs[0])) else { continue };
            let whole = self.places(op.inputs[0], axis, places)?;
            parts.push((at, op.outputs[0], whole, axis));
        }
        let scanned: Vec<ValueId> = {
            let gathered: HashSet<usize> = parts.iter().map(|(at, ..)| *at).collect();
            let others = ops.iter().enumerate().filter(|(at, _)| !gathered.contains(at)).flat_map(|(_, op)| &op.inputs);
            let read: BTreeSet<ValueId> = others.filter(|id| course.by_turn.contains_key(id)).copied().collect();
            read.into_iter().collect()
        };
        let mut first = Vec::new();
        for id in scanned {
            let (whole, scan) = (self.stacked(&course.by_turn[&id])?, Scan { axis: 0, backwards: false });
            let part = self.scan(turn, whole, scan, course.turns);
            let shape = self.shape(id);
            let before = self.net.ops.len();
            renamed.insert(id, self.reshape(part, shape)?);
            first.extend(self.net.ops.split_off(before));
        }
        for &(at, result, whole, axis) in parts.iter().rev() {
            let part = self.scan(turn, whole, Scan { axis, backwards: false }, course.turns);
            let (ty, name) = (self.ty(result).clone(), ops[at].name.clone());
            ops[at] = match *self.ty(part) == ty {
                true => Op {
                    name,
                    kind: OpKind::Unary(crate::ops::Unary::Identity),
                    inputs: vec![part],
                    outputs: vec![result],
                },
                false => Op { name, kind: OpKind::Reshape, inputs: vec![part], outputs: vec![result] },
            };
        }
        ops.iter_mut().flat_map(|op| &mut op.inputs).for_each(|id| *id = *renamed.get(id).unwrap_or(id));
        turn.first_op = self.net.ops.len();
        self.net.ops.extend(first.into_iter().chain(ops));
        Ok(())
    }

    /// Closes an iteration of a loop whose iterations are known: its counters are constants.
    pub fn rolled(
        &mut self,
        mut turn: Turn,
        starts: &[ValueId],
        next: &[ValueId],
        collected: &[(ValueId, Scan)],
        course: &Course,
    ) -> Result<Vec<ValueId>, Error> {
        self.follow(&mut turn, course)?;
        let live: Vec<usize> = (0..starts.len()).filter(|&slot| course.last[slot].is_none()).collect();
        let of = |all: &[ValueId]| -> Vec<ValueId> { live.iter().map(|&slot| all[slot]).collect() };
        let (starts_live, next_live) = (of(starts), of(next));
        turn.carried = of(&turn.carried);
        let mut results = self.close(turn, &starts_live, &next_live, collected, course.turns)?.into_iter();
        let mut all = Vec::new();
        for last in &course.last {
            match last {
                Some(tensor) => all.push(self.constant("last", tensor.clone())),
                None => all.extend(results.next()),
            }
        }
        all.extend(results);
        Ok(all)
    }

    /// Elements at the positions of all iterations along an axis, in order.
    fn places(&mut self, x: ValueId, axis: usize, by_turn: &[Tensor]) -> Built {
        let places: Vec<i32> = by_turn.iter().flat_map(|t| t.data.to_i32()).collect();
        let extent = self.shape(x)[axis] as i32;
        let from = places.first().map_or(0, |&p| if p < 0 { p + extent } else { p });
        let (count, in_order) = (places.len(), places.iter().enumerate().all(|(i, &p)| p == from + i as i32));
        if in_order && from >= 0 && from as usize + count <= extent as usize {
            return self.slice(x, axis, from as usize, from as usize + count);
        }
        let places = self.integers([count], places);
        self.gather(x, places, axis)
    }

    /// Values of all iterations as one constant, with the iterations along a new first axis.
    fn stacked(&mut self, by_turn: &[Tensor]) -> Built {
        let Some(one) = by_turn.first() else { return Err(self.unsupported("loop", "no turns")) };
        let shape: Vec<usize> = [&[by_turn.len()], &one.shape[..]].concat();
        let data = match one.data.dtype().is_float() {
            true => Data::from_f32(one.data.dtype(), &by_turn.iter().flat_map(|t| t.data.to_f32()).collect::<Vec<_>>()),
            false => {
                Data::from_i32(one.data.dtype(), &by_turn.iter().flat_map(|t| t.data.to_i32()).collect::<Vec<_>>())
            }
        };
        self.budget.spend(&shape)?;
        Ok(self.constant("turns", Tensor { shape, data }))
    }
}

/// Removes operations whose results are not needed, and unused inputs, from a network.
fn without_dead(mut net: Net) -> Net {
    let mut needed: HashSet<ValueId> = net.outputs.iter().copied().collect();
    let mut ops = std::mem::take(&mut net.ops);
    ops.reverse();
    ops.retain(|op| {
        let kept = op.outputs.iter().any(|id| needed.contains(id));
        if kept {
            needed.extend(&op.inputs);
        }
        kept
    });
    ops.reverse();
    net.ops = ops;
    net
}

/// Removes unused values from a network.
fn compact(net: Net) -> Net {
    Builder { net, ..Builder::default() }.finish()
}
