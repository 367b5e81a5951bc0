//! Loop unrolling: several iterations of counted loops at once, or all of them.

use crate::build::Builder;
use crate::error::Error;
use crate::graph::{Net, Op, TensorType, Value, ValueId};
use crate::ops::{Loop, OpKind, Scan, Unary};
use std::collections::HashMap;

/// Results of some iterations: the carried values after the last, and the slices of each collected tensor in the order of the iterations.
type Turns = (Vec<ValueId>, Vec<Vec<ValueId>>);

impl Loop {
    /// Appends `turns` iterations; `inputs` are those of a loop of as many.
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

    /// Concatenates the slices of a collected tensor.
    fn joined(&self, build: &mut Builder, at: usize, mut parts: Vec<ValueId>) -> Result<ValueId, Error> {
        let Scan { axis, backwards } = self.collected[at];
        if backwards {
            parts.reverse();
        }
        build.concat(&parts, axis)
    }

    /// The same loop with a body of `together` iterations, a divisor of their number.
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
        // A body returns values that it computes: neither inputs nor constants.
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

/// Appends an operation of a body with these operands; returns the results.
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

/// The network with loop bodies unrolled to as many iterations as fit `most` operations. Remaining iterations are
/// peeled off before the loop.
///
/// Errors: as [`unrolled`].
pub fn grouped(net: &Net, most: usize) -> Result<Net, Error> {
    replayed(net, |build, l, op| {
        // A body that has loops itself is not unrolled further.
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

/// Unroll factor of a body: at most `most`, smaller if that divides the number of iterations.
fn turns_together(turns: usize, most: usize) -> usize {
    let most = most.min(turns);
    (most.div_ceil(2)..=most).rev().find(|n| turns.is_multiple_of(*n)).unwrap_or(most)
}

/// Copies a network operation by operation; `loops` appends its loops.
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

/// Replaces the results of a loop by these values.
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
