//! Operations that move elements: padding, gathers at constant positions, concatenation, transposes of many axes.

use super::{Rewriter, name};
use anemone_net::{EdgeMode, Op, OpKind, Unary, ValueId};

/// Largest number of slices of a rewrite along one axis.
const MOST_SLICES: usize = 64;

/// Largest number of operands of one concatenation.
const MOST_OPERANDS: usize = 255;

/// Largest number of axes of a value.
const MOST_AXES: usize = 5;

/// A concatenation: a single operand is returned itself; many are concatenated in groups.
pub fn concat(r: &mut Rewriter, axis: usize, operands: &[ValueId], result: ValueId) -> Option<String> {
    if let [only] = operands {
        r.finish(OpKind::Unary(Unary::Identity), &[*only], result);
        return Some("its operand".into());
    }
    if operands.len() <= MOST_OPERANDS {
        return None;
    }
    let groups = operands.chunks(MOST_OPERANDS).map(|group| joined(r, axis, group)).collect::<Vec<_>>();
    r.finish(OpKind::Concat { axis }, &groups, result);
    Some(format!("a concat of {} groups", groups.len()))
}

fn joined(r: &mut Rewriter, axis: usize, operands: &[ValueId]) -> ValueId {
    if let [only] = operands {
        return *only;
    }
    let mut shape = r.shape(operands[0]);
    shape[axis] = operands.iter().map(|&id| r.shape(id)[axis]).sum();
    r.push(OpKind::Concat { axis }, operands, shape)
}

/// Edge padding by slices of single elements, one axis after another.
pub fn edges(r: &mut Rewriter, x: ValueId, pads: &[(usize, usize)], mode: EdgeMode, result: ValueId) -> Option<String> {
    let axes: Vec<usize> = (0..pads.len()).filter(|&axis| pads[axis] != (0, 0)).collect();
    if axes.is_empty() || axes.iter().any(|&axis| pads[axis].0 + pads[axis].1 > MOST_SLICES) {
        return None;
    }
    let (mut value, last) = (x, *axes.last()?);
    for axis in axes {
        let (before, after) = pads[axis];
        let n = r.shape(value)[axis];
        let from = |outside: usize, end: bool| match (mode, end) {
            (EdgeMode::Reflect, false) => outside,
            (EdgeMode::Reflect, true) => n - 1 - outside,
            (EdgeMode::Replicate, false) => 0,
            (EdgeMode::Replicate, true) => n - 1,
        };
        let mut all: Vec<ValueId> = Vec::new();
        for outside in (1..=before).rev() {
            let at = from(outside, false);
            all.push(r.slice(value, axis, at..at + 1));
        }
        all.push(value);
        for outside in 1..=after {
            let at = from(outside, true);
            all.push(r.slice(value, axis, at..at + 1));
        }
        value = ended(r, axis, &all, (axis == last).then_some(result));
    }
    Some("slices of its border and a concat".into())
}

/// Appends a concatenation, which writes the result if it is the last.
fn ended(r: &mut Rewriter, axis: usize, operands: &[ValueId], result: Option<ValueId>) -> ValueId {
    match result {
        None => joined(r, axis, operands),
        Some(result) => {
            r.finish(OpKind::Concat { axis }, operands, result);
            result
        }
    }
}

/// Constant padding by concatenation with constants, one axis after another.
pub fn pad(r: &mut Rewriter, x: ValueId, pads: &[(usize, usize)], fill: f32, result: ValueId) -> Option<String> {
    let axes: Vec<usize> = (0..pads.len()).filter(|&axis| pads[axis] != (0, 0)).collect();
    let (mut value, last) = (x, *axes.last()?);
    for axis in axes {
        let (before, after) = pads[axis];
        let mut all = Vec::new();
        for (at, count) in [before, after].into_iter().enumerate() {
            if at == 1 {
                all.push(value);
            }
            if count > 0 {
                let mut shape = r.shape(value);
                shape[axis] = count;
                let values = vec![fill; shape.iter().product()];
                all.push(r.constant(x, shape, values));
            }
        }
        value = ended(r, axis, &all, (axis == last).then_some(result));
    }
    Some("a concat with constants".into())
}

/// A gather at constant positions as slices of consecutive positions and a concatenation.
pub fn gather(r: &mut Rewriter, op: &Op, axis: usize, result: ValueId) -> Option<String> {
    let (&x, &indices) = (op.inputs.first()?, op.inputs.get(1)?);
    let extent = r.shape(x)[axis];
    let places = r.net.value(indices).data.as_ref()?.data.to_f32();
    let places: Vec<usize> =
        places.iter().map(|&p| if p < 0.0 { (p + extent as f32) as usize } else { p as usize }).collect();
    if places.iter().any(|&p| p >= extent) {
        return None;
    }
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for place in places {
        match runs.last_mut() {
            Some(run) if run.end == place => run.end += 1,
            _ => runs.push(place..place + 1),
        }
    }
    if runs.is_empty() || runs.len() > MOST_SLICES {
        return None;
    }
    let count = runs.len();
    let slices: Vec<ValueId> = runs.into_iter().map(|run| r.slice(x, axis, run)).collect();
    let value = joined(r, axis, &slices);
    // The axes of the indices replace the axis; if there is one, this keeps the shape.
    r.finish(OpKind::Reshape, &[value], result);
    Some(if count == 1 { "a slice".into() } else { format!("{count} slices and a concat") })
}

/// A reshape to or from a value of more axes than the chip supports: only transposes of that value are computed.
pub fn reshape(r: &mut Rewriter, op: &Op, result: ValueId) -> Option<String> {
    let x = *op.inputs.first()?;
    if let Some(&held) = r.aliases.get(&x) {
        r.finish(OpKind::Reshape, &[held], result);
        return Some("a reshape of what the transposes give".into());
    }
    if r.shape(result).len() <= MOST_AXES {
        return None;
    }
    let group = read_by_transposes(r, result)?;
    let own = std::mem::take(&mut r.name);
    r.groups.push(group.into_iter().chain([own]).collect());
    r.aliases.insert(result, x);
    Some("part of the transposes that read it".into())
}

/// Names of the transposes and reshapes that read a value of many axes, if it has no other readers.
fn read_by_transposes(r: &Rewriter, value: ValueId) -> Option<Vec<String>> {
    let readers = |id: ValueId| r.before.ops.iter().filter(move |op| op.inputs.contains(&id));
    let mut names = Vec::new();
    if r.before.outputs.contains(&value) {
        return None;
    }
    for op in readers(value) {
        names.push(name(r.before, op));
        let [result] = op.outputs[..] else { return None };
        match op.kind {
            OpKind::Transpose { .. } if !r.before.outputs.contains(&result) => {
                names.extend(read_by_transposes(r, result)?);
            }
            OpKind::Reshape if r.shape(result).len() <= MOST_AXES => {}
            _ => return None,
        }
    }
    Some(names)
}

/// A transpose of more axes than the chip supports as a sequence of exchanges of two neighbouring blocks of axes.
pub fn transpose(r: &mut Rewriter, op: &Op, perm: &[usize], result: ValueId) -> Option<String> {
    let x = *op.inputs.first()?;
    let held = *r.aliases.get(&x)?;
    let extents = r.shape(x);
    let mut order: Vec<usize> = (0..perm.len()).collect();
    let (mut value, mut exchanges) = (held, 0);
    let mut at = 0;
    while at < perm.len() {
        let from = order.iter().position(|&axis| axis == perm[at])?;
        let block =
            (0..perm.len() - from).take_while(|&i| at + i < perm.len() && order[from + i] == perm[at + i]).count();
        if from > at {
            let size = |axes: &[usize]| axes.iter().map(|&axis| extents[axis]).product::<usize>();
            let blocks = [
                size(&order[..at]),
                size(&order[at..from]),
                size(&order[from..from + block]),
                size(&order[from + block..]),
            ];
            if blocks[1] > 1 && blocks[2] > 1 {
                value = r.reshape(value, blocks.to_vec());
                value = r.transpose(value, &[0, 2, 1, 3]);
                exchanges += 1;
            }
            order[at..from + block].rotate_right(block);
        }
        at += block;
    }
    r.aliases.insert(result, value);
    Some(match exchanges {
        1 => "one exchange of two blocks of axes".into(),
        n => format!("{n} exchanges of two blocks of axes"),
    })
}
