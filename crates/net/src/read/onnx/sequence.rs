//! Sequences of tensors, which are wiring: every element is a value of the graph, and positions must be known while reading.

use super::node::Node;
use crate::error::Error;
use crate::graph::ValueId;

/// Operators that read or make sequences and nothing else.
const OPERATORS: &[&str] = &[
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
    "ConcatFromSequence",
];

/// Returns true for operators with operands that may be sequences.
pub fn reads(op: &str) -> bool {
    OPERATORS.contains(&op)
        || matches!(op, "Identity" | "Loop" | "SequenceMap" | "Optional" | "OptionalGetElement" | "OptionalHasElement")
}

pub fn translate(n: &mut Node) -> Result<bool, Error> {
    match n.op() {
        "Identity" if n.inputs.first() == Some(&None) => {
            let items = sequence(n)?;
            give(n, items)
        }
        "SequenceConstruct" => {
            let items = (0..n.node.input.len()).map(|i| n.need(i)).collect::<Result<Vec<_>, Error>>()?;
            give(n, items)
        }
        "SequenceEmpty" => give(n, Vec::new()),
        "SequenceInsert" => {
            let (mut items, new) = (sequence(n)?, n.need(1)?);
            let at = position(n, 2, items.len(), 1)?.unwrap_or(items.len());
            items.insert(at, new);
            give(n, items)
        }
        "SequenceErase" => {
            let mut items = sequence(n)?;
            let last = items.len().checked_sub(1).ok_or_else(|| n.unsupported("an empty sequence"))?;
            items.remove(position(n, 1, items.len(), 0)?.unwrap_or(last));
            give(n, items)
        }
        "SequenceAt" => {
            let items = sequence(n)?;
            let at = position(n, 1, items.len(), 0)?.ok_or_else(|| n.missing("input 1"))?;
            n.done(items[at])
        }
        "SequenceLength" => {
            let count = sequence(n)?.len() as i32;
            let id = n.build().integers([], vec![count]);
            n.done(id)
        }
        "SplitToSequence" => split(n),
        "ConcatFromSequence" => concat(n),
        _ => Ok(false),
    }
}

/// The sequence that the first operand names.
fn sequence(n: &Node) -> Result<Vec<ValueId>, Error> {
    let name = n.node.input.first().ok_or_else(|| n.missing("input 0"))?;
    n.t.sequences.get(name).cloned().ok_or_else(|| n.unsupported(format!("`{name}` is a tensor, no sequence")))
}

/// Binds the first output to a sequence; returns true.
fn give(n: &mut Node, items: Vec<ValueId>) -> Result<bool, Error> {
    n.output_sequence(0, items);
    n.finish(1)
}

/// A constant position among `count` elements and `more` places behind them; negative ones count from the end of the elements.
fn position(n: &Node, input: usize, count: usize, more: usize) -> Result<Option<usize>, Error> {
    let Some(values) = n.integers(input, "position")? else { return Ok(None) };
    let at = values.first().copied().ok_or_else(|| n.missing("position"))?;
    let from_start = if at < 0 { at + count as i64 } else { at };
    let inside = usize::try_from(from_start).ok().filter(|&i| i < count + more);
    inside.map(Some).ok_or_else(|| n.unsupported(format!("position {at} in a sequence of {count} tensors")))
}

fn split(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let shape = n.shape(x);
    let axis = n.axis(n.int("axis", 0), shape.len())?;
    let extent = shape[axis];
    let stated = n.constant(1, "split")?;
    let sizes = match &stated {
        None => vec![1; extent],
        Some(tensor) => {
            let sizes: Vec<i64> = tensor.data.to_i32().into_iter().map(i64::from).collect();
            match (tensor.shape.as_slice(), sizes.as_slice()) {
                ([], &[size]) => {
                    let size = n.size("split", size)?;
                    let count = extent.checked_div(size).ok_or_else(|| n.unsupported("`split` is 0"))?;
                    let rest = extent - count * size;
                    [vec![size; count], if rest > 0 { vec![rest] } else { Vec::new() }].concat()
                }
                _ => n.sizes("split", &sizes)?,
            }
        }
    };
    if sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n)) != Some(extent) || sizes.contains(&0) {
        return Err(n.unsupported(format!("parts {sizes:?} of an axis of {extent}")));
    }
    // ONNX has `keepdims` without sizes alone, PyTorch writes it beside the single size 1, and ONNX Runtime obeys it there too.
    let single = stated.is_none_or(|sizes| sizes.shape.is_empty()) && sizes.iter().all(|&size| size == 1);
    let drops = single && !n.flag("keepdims", true);
    let (mut items, mut at) = (Vec::with_capacity(sizes.len()), 0);
    for size in sizes {
        let mut part = n.build().slice(x, axis, at, at + size)?;
        at += size;
        if drops {
            let mut shape = shape.clone();
            shape.remove(axis);
            part = n.build().reshape(part, shape)?;
        }
        items.push(part);
    }
    give(n, items)
}

fn concat(n: &mut Node) -> Result<bool, Error> {
    let items = sequence(n)?;
    let &first = items.first().ok_or_else(|| n.unsupported("an empty sequence has no extents"))?;
    let stacks = n.flag("new_axis", false);
    let axis = n.attribute("axis").map(|a| a.i).ok_or_else(|| n.missing("axis"))?;
    let axis = n.axis(axis, n.shape(first).len() + usize::from(stacks))?;
    let id = match (stacks, items.as_slice()) {
        (true, items) => n.build().stack(items, axis)?,
        (false, &[one]) => n.build().unary(crate::ops::Unary::Identity, one)?,
        (false, items) => n.build().concat(items, axis)?,
    };
    n.done(id)
}
