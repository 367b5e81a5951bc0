//! Counted loops: a body that runs a known number of turns, and the ways to take several turns at once or all of them.

use crate::build::Builder;
use crate::check::check;
use crate::error::Error;
use crate::graph::{Net, Op, TensorType, Value, ValueId};
use crate::ops::{OpKind, Unary};
use std::collections::HashMap;

/// Most operations of an unrolled loop: a longer one stays a loop ([`OpKind::Loop`]).
pub const UNROLLED_OPS: usize = 1024;

/// Most turns of a loop that stays one.
pub const MOST_TURNS: usize = 1 << 16;

/// A tensor that consists of one part for each turn, side by side along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Axis of the parts.
    pub axis: usize,
    /// True if the first turn has the last part.
    pub backwards: bool,
}

impl Scan {
    /// Position of a turn's part among `turns`.
    pub fn part(&self, turn: usize, turns: usize) -> usize {
        if self.backwards { turns - 1 - turn } else { turn }
    }
}

/// A loop of a known number of turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// One turn. Its inputs are the carried values, one part of each scanned tensor, and what every turn reads; its outputs the next
    /// carried values, then one part of each collected tensor.
    pub body: Net,
    /// Number of turns, at least one.
    pub turns: usize,
    /// Number of values that a turn hands to the next.
    pub carried: usize,
    /// Tensors of which each turn reads its part.
    pub scanned: Vec<Scan>,
    /// Tensors of which each turn makes a part.
    pub collected: Vec<Scan>,
}

/// Results of some turns: the carried values after the last, and the parts of each collected tensor in the order of the turns.
type Turns = (Vec<ValueId>, Vec<Vec<ValueId>>);

impl Loop {
    /// Result types on operands of these types.
    ///
    /// Errors: a body that is not sound, or that does not fit operands, turns and carried values.
    pub fn types(&self, inputs: &[&TensorType]) -> Result<Vec<TensorType>, Error> {
        let (body, kind) = (&self.body, "loop");
        if self.turns == 0 || self.turns > MOST_TURNS {
            let (found, most) = (self.turns as u64, MOST_TURNS as u64);
            return Err(Error::Attribute { kind, what: "turns", found, least: 1, most });
        }
        check(body).map_err(|mut errors| errors.swap_remove(0))?;
        let least = self.carried + self.scanned.len();
        if inputs.len() != body.inputs.len() || inputs.len() < least {
            return Err(Error::Arity {
                kind,
                found: inputs.len(),
                least: body.inputs.len().max(least),
                most: body.inputs.len(),
            });
        }
        let expected = self.carried + self.collected.len();
        if body.outputs.len() != expected || !body.states.is_empty() {
            return Err(Error::Results { kind, found: body.outputs.len(), expected });
        }
        for (slot, (&found, &id)) in inputs.iter().zip(&body.inputs).enumerate() {
            let scan = slot.checked_sub(self.carried).and_then(|at| self.scanned.get(at));
            self.agrees(id, self.whole(id, scan)?, found)?;
        }
        for (&next, &now) in body.outputs.iter().zip(&body.inputs).take(self.carried) {
            self.agrees(next, body.value(next).ty.clone(), &body.value(now).ty)?;
        }
        let scans = self.collected.iter().map(Some);
        let scans = std::iter::repeat_n(None, self.carried).chain(scans);
        body.outputs.iter().zip(scans).map(|(&id, scan)| self.whole(id, scan)).collect()
    }

    fn agrees(&self, id: ValueId, expected: TensorType, found: &TensorType) -> Result<(), Error> {
        if *found == expected {
            return Ok(());
        }
        let (op, value) = ("loop".to_string(), self.body.value(id).name.clone());
        Err(Error::TypeMismatch { op, value, found: found.clone(), expected })
    }

    /// Type of a value of the body, or of the tensor that its parts make.
    fn whole(&self, id: ValueId, scan: Option<&Scan>) -> Result<TensorType, Error> {
        let mut ty = self.body.value(id).ty.clone();
        if let Some(scan) = scan {
            let rank = ty.shape.len() as u64;
            let extent = ty.shape.get_mut(scan.axis).ok_or(Error::Attribute {
                kind: "loop",
                what: "axis",
                found: scan.axis as u64,
                least: 0,
                most: rank.saturating_sub(1),
            })?;
            *extent = extent.saturating_mul(self.turns);
        }
        Ok(ty)
    }

    /// The body with the constants that the loop `op` of `net` gives it, and the inputs that every turn reads under the names that they
    /// have in `net`.
    pub fn bound(&self, net: &Net, op: &Op) -> Net {
        let mut body = self.body.clone();
        let unchanging = self.carried + self.scanned.len();
        let pairs: Vec<(ValueId, ValueId)> =
            body.inputs.iter().copied().zip(op.inputs.iter().copied()).skip(unchanging).collect();
        for (inside, outside) in pairs {
            let value = net.value(outside);
            let slot = &mut body.values[inside.0 as usize];
            (slot.name, slot.data) = (value.name.clone(), value.data.clone());
        }
        let values = &body.values;
        body.inputs.retain(|id| values[id.0 as usize].data.is_none());
        body
    }

    /// Appends `turns` turns; `inputs` are those of a loop of so many.
    fn inline(&self, build: &mut Builder, inputs: &[ValueId], turns: usize, deep: bool) -> Result<Turns, Error> {
        let body = &self.body;
        let mut carried = inputs[..self.carried].to_vec();
        let mut parts = vec![Vec::with_capacity(turns); self.collected.len()];
        let mut constants: HashMap<ValueId, ValueId> = HashMap::new();
        for (at, value) in body.values.iter().enumerate().filter(|(_, v)| v.data.is_some()) {
            let name = build.fresh(&value.name);
            constants.insert(ValueId(at as u32), build.value(&name, value.ty.clone(), value.data.clone()));
        }
        for turn in 0..turns {
            let mut known = constants.clone();
            for (slot, (&id, &outside)) in body.inputs.iter().zip(inputs).enumerate() {
                let scan = slot.checked_sub(self.carried).and_then(|at| self.scanned.get(at));
                let value = match scan {
                    _ if slot < self.carried => carried[slot],
                    None => outside,
                    Some(scan) => {
                        let own = body.value(id);
                        build.begin(&own.name, &own.name);
                        let (extent, at) = (own.ty.shape[scan.axis], scan.part(turn, turns));
                        build.slice(outside, scan.axis, at * extent, (at + 1) * extent)?
                    }
                };
                known.insert(id, value);
            }
            for op in &body.ops {
                let operands: Vec<ValueId> = op.inputs.iter().map(|id| known[id]).collect();
                let results = copy(build, body, op, &operands, deep)?;
                known.extend(op.outputs.iter().copied().zip(results));
            }
            let made = |id: &ValueId| known[id];
            carried = body.outputs[..self.carried].iter().map(made).collect();
            body.outputs[self.carried..].iter().zip(&mut parts).for_each(|(id, list)| list.push(made(id)));
        }
        Ok((carried, parts))
    }

    /// Parts of a collected tensor as one.
    fn joined(&self, build: &mut Builder, at: usize, mut parts: Vec<ValueId>) -> Result<ValueId, Error> {
        let Scan { axis, backwards } = self.collected[at];
        if backwards {
            parts.reverse();
        }
        build.concat(&parts, axis)
    }

    /// The same loop with a body of `together` turns, which divide the turns.
    fn taking(&self, together: usize) -> Result<Loop, Error> {
        let mut build = Builder::new(&self.body.name);
        let mut inputs = Vec::new();
        for (slot, &id) in self.body.inputs.iter().enumerate() {
            let Value { name, ty, .. } = self.body.value(id);
            let mut ty = ty.clone();
            if let Some(scan) = slot.checked_sub(self.carried).and_then(|at| self.scanned.get(at)) {
                ty.shape[scan.axis] *= together;
            }
            inputs.push(build.input(name, ty)?);
        }
        let (carried, parts) = self.inline(&mut build, &inputs, together, false)?;
        let mut outputs = carried;
        for (at, parts) in parts.into_iter().enumerate() {
            outputs.push(self.joined(&mut build, at, parts)?);
        }
        // A body gives out what it makes: neither inputs nor constants.
        for id in &mut outputs {
            if build.net.inputs.contains(id) || build.data(*id).is_some() {
                let name = build.net.value(*id).name.clone();
                build.begin(&name, &name);
                *id = build.copied(*id)?;
            }
        }
        build.net.outputs = outputs;
        Ok(Loop { body: build.finish(), turns: self.turns / together, ..self.clone() })
    }
}

/// Appends an operation of a body on these operands; the results.
fn copy(build: &mut Builder, body: &Net, op: &Op, operands: &[ValueId], deep: bool) -> Result<Vec<ValueId>, Error> {
    let first = body.value(op.outputs[0]);
    build.begin(&first.name, &op.name);
    match &op.kind {
        OpKind::Loop(inner) if deep => {
            let (mut results, parts) = inner.inline(build, operands, inner.turns, deep)?;
            for (at, parts) in parts.into_iter().enumerate() {
                results.push(inner.joined(build, at, parts)?);
            }
            Ok(results)
        }
        OpKind::Loop(_) => {
            let mut outputs = Vec::new();
            for &id in &op.outputs {
                let value = body.value(id);
                let name = build.fresh(&value.name);
                outputs.push(build.value(&name, value.ty.clone(), None));
            }
            let (name, kind) = (op.name.clone(), op.kind.clone());
            build.net.ops.push(Op { name, kind, inputs: operands.to_vec(), outputs: outputs.clone() });
            Ok(outputs)
        }
        kind => Ok(vec![build.op_as(kind.name(), kind.clone(), operands, Some(first.ty.clone()))?]),
    }
}

/// Returns true if a network has a loop.
pub fn any(net: &Net) -> bool {
    net.ops.iter().any(|op| matches!(op.kind, OpKind::Loop(_)))
}

/// The network with every loop unrolled.
///
/// Errors: more operations than a network may have.
pub fn unrolled(net: &Net) -> Result<Net, Error> {
    replayed(net, |build, l, op| {
        let (carried, parts) = l.inline(build, &op.inputs, l.turns, true)?;
        give(build, l, op, carried, parts)
    })
}

/// The network with loops whose bodies take as many turns at once as fit `most` operations. Turns that are left over are
/// unrolled before the loop.
///
/// Errors: as [`unrolled`].
pub fn grouped(net: &Net, most: usize) -> Result<Net, Error> {
    replayed(net, |build, l, op| {
        // A body that has loops itself is long enough.
        let most = if any(&l.body) { 1 } else { most / l.body.ops.len().max(1) };
        let together = turns_together(l.turns, most.max(1));
        let (left, inner) = (l.turns % together, l.turns / together);
        let rest = Loop { turns: together * inner, ..l.clone() }.taking(together)?;
        if left == 0 {
            build.net.ops.push(Op { kind: OpKind::Loop(Box::new(rest)), ..op.clone() });
            return Ok(());
        }
        let (mut first, mut then) = (op.inputs.clone(), op.inputs.clone());
        for (at, scan) in l.scanned.iter().enumerate() {
            let whole = op.inputs[l.carried + at];
            let extent = build.shape(whole)[scan.axis];
            let own = extent / l.turns * left;
            let name = build.net.value(whole).name.clone();
            build.begin(&name, &name);
            let (a, b) = if scan.backwards { (extent - own, extent) } else { (0, own) };
            first[l.carried + at] = build.slice(whole, scan.axis, a, b)?;
            let (a, b) = if scan.backwards { (0, extent - own) } else { (own, extent) };
            then[l.carried + at] = build.slice(whole, scan.axis, a, b)?;
        }
        let (carried, mut parts) = l.inline(build, &first, left, false)?;
        then[..l.carried].copy_from_slice(&carried);
        let types: Vec<TensorType> = then.iter().map(|&id| build.ty(id).clone()).collect();
        let types = rest.types(&types.iter().collect::<Vec<_>>())?;
        let mut outputs = Vec::new();
        for ty in types {
            let name = build.fresh(&format!("{}.turns", op.name));
            outputs.push(build.value(&name, ty, None));
        }
        let kind = OpKind::Loop(Box::new(rest));
        build.net.ops.push(Op { name: op.name.clone(), kind, inputs: then, outputs: outputs.clone() });
        let collected = outputs.split_off(l.carried);
        for ((at, list), id) in parts.iter_mut().enumerate().zip(collected) {
            let first = l.joined(build, at, std::mem::take(list))?;
            list.extend([first, id]);
        }
        give(build, l, op, outputs, parts)
    })
}

/// Turns that a body takes at once: as many as `most`, fewer where those divide all turns.
fn turns_together(turns: usize, most: usize) -> usize {
    let most = most.min(turns);
    (most.div_ceil(2)..=most).rev().find(|n| turns.is_multiple_of(*n)).unwrap_or(most)
}

/// A network operation by operation, loops as `loops` appends them.
fn replayed(net: &Net, mut loops: impl FnMut(&mut Builder, &Loop, &Op) -> Result<(), Error>) -> Result<Net, Error> {
    let mut build = Builder::of(net);
    for op in &net.ops {
        match &op.kind {
            OpKind::Loop(l) => loops(&mut build, l, op)?,
            _ => build.net.ops.push(op.clone()),
        }
    }
    Ok(build.finish())
}

/// Gives the results of a loop these values.
fn give(build: &mut Builder, l: &Loop, op: &Op, carried: Vec<ValueId>, parts: Vec<Vec<ValueId>>) -> Result<(), Error> {
    for (&output, from) in op.outputs.iter().zip(&carried) {
        let (name, kind) = (build.net.value(output).name.clone(), OpKind::Unary(Unary::Identity));
        build.net.ops.push(Op { name, kind, inputs: vec![*from], outputs: vec![output] });
    }
    for ((at, mut parts), &output) in parts.into_iter().enumerate().zip(&op.outputs[l.carried..]) {
        let Scan { axis, backwards } = l.collected[at];
        if backwards {
            parts.reverse();
        }
        let name = build.net.value(output).name.clone();
        build.net.ops.push(Op { name, kind: OpKind::Concat { axis }, inputs: parts, outputs: vec![output] });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
