//! Checks of a run's inputs: elements within their types, and indices within the axis that a gather reads.

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::tensor::{Elements, View, fits};
use crate::warnings::{cost, tensors};
use anemone_net::{Net, Op, OpKind, Tensor, ValueId, eval};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Largest cost of an evaluation that determines a gather's indices.
const WORTH_EVALUATING: u64 = 1_000_000;

/// Refuses elements that their type does not represent ([`fits`]), of every given input of a network, and indices that a gather
/// would read beyond its operand, if few operations compute them.
///
/// # Errors
///
/// As [`fits`]; [`Code::BadTensor`] with the first such index and the extent of its axis.
pub fn all_fit(net: &Net, inputs: &[(&str, View)]) -> Result<()> {
    for (name, view) in inputs {
        let value = net.inputs.iter().map(|&id| net.value(id)).find(|value| value.name == *name);
        let Some(value) = value.filter(|value| !value.ty.dtype.is_float()) else { continue };
        match view.elements {
            Elements::F32(data) => fits(name, value.ty.dtype, data)?,
            Elements::F16(_) => fits(name, value.ty.dtype, &view.to_array().data)?,
        }
    }
    places_fit(net, inputs)
}

/// Checks indices, since the engine selects elements by comparison and gives minus infinity or zero beyond an axis.
fn places_fit(net: &Net, inputs: &[(&str, View)]) -> Result<()> {
    let gathers: Vec<(&Op, usize)> = net
        .ops
        .iter()
        .filter_map(|op| Some((op, axis(op).filter(|_| net.value(op.inputs[1]).data.is_none())?)))
        .collect();
    if gathers.is_empty() {
        return Ok(());
    }
    let makers = net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
    let cheap = |(op, _): &(&Op, usize)| {
        let costs = before(net, &makers, &[op.inputs[1]]).0.into_iter().map(|at| cost(net, &net.ops[at]));
        costs.fold(0, u64::saturating_add) <= WORTH_EVALUATING
    };
    let known: Vec<(&Op, usize)> = gathers.into_iter().filter(cheap).collect();
    if known.is_empty() {
        return Ok(());
    }
    let part = part(net, &makers, known.iter().map(|(op, _)| op.inputs[1]).collect());
    let Some(given) = tensors(&part, inputs) else { return Ok(()) };
    let mut values: HashMap<String, Tensor> = HashMap::new();
    eval::eval_traced(&part, &given, &mut |name, tensor| drop(values.insert(name.into(), tensor.clone())))
        .map_err(|e| Diagnostic::new(Code::BadTensor, e.to_string()).help(HELP))?;
    known.iter().try_for_each(|(op, axis)| {
        let extent = net.value(op.inputs[0]).ty.shape[*axis] as i32;
        let places = &net.value(op.inputs[1]).name;
        values.get(places).map_or(Ok(()), |tensor| within(op, places, &tensor.data.to_i32(), extent))
    })
}

const HELP: &str = "give positions within the axis; negative ones count from its end";

fn within(op: &Op, name: &str, places: &[i32], extent: i32) -> Result<()> {
    let Some(at) = places.iter().position(|place| !(-extent..extent).contains(place)) else { return Ok(()) };
    let message = format!(
        "{}: position {} of {name}, element {at}, is outside an axis of extent {extent}: allowed are {} to {}",
        op.name,
        places[at],
        -extent,
        extent - 1
    );
    Err(Diagnostic::new(Code::BadTensor, message).help(HELP))
}

/// The axis that the second operand of a gather indexes.
fn axis(op: &Op) -> Option<usize> {
    match op.kind {
        OpKind::Gather { axis } | OpKind::GatherAlong { axis } => Some(axis),
        _ => None,
    }
}

/// Positions of the operations that compute some values, and all intermediate values.
fn before(net: &Net, makers: &HashMap<ValueId, usize>, values: &[ValueId]) -> (BTreeSet<usize>, HashSet<ValueId>) {
    let (mut ops, mut seen, mut left) = (BTreeSet::new(), HashSet::new(), values.to_vec());
    while let Some(id) = left.pop() {
        if seen.insert(id)
            && let Some(&at) = makers.get(&id)
            && ops.insert(at)
        {
            left.extend(&net.ops[at].inputs);
        }
    }
    (ops, seen)
}

/// The network that computes some values; its inputs are those that it reads.
fn part(net: &Net, makers: &HashMap<ValueId, usize>, values: BTreeSet<ValueId>) -> Net {
    let outputs: Vec<ValueId> = values.into_iter().collect();
    let (ops, seen) = before(net, makers, &outputs);
    Net {
        name: net.name.clone(),
        values: net.values.clone(),
        ops: ops.into_iter().map(|at| net.ops[at].clone()).collect(),
        inputs: net.inputs.iter().copied().filter(|id| seen.contains(id)).collect(),
        outputs,
        states: Vec::new(),
        counted: Vec::new(),
        unsigned: Vec::new(),
    }
}
