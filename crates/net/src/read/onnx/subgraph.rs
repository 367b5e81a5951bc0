//! Control flow with subgraphs, unrolled if its iterations are known, and functions of the model.

use super::branches::both;
use super::node::Node;
use super::numbered;
use super::rows::Rows;
use super::{NESTING, proto};
use crate::build::rolled::{GoesOn, Turn};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::Binary;
use crate::ops::{OpKind, Scan, UNROLLED_OPS};
use std::collections::HashMap;

/// Most iterations of one loop.
const TURNS: i64 = 4096;

/// Depth to which a condition is searched for constants, in operations.
const LONGEST_CONDITION: usize = 8;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let plain = matches!(n.node.domain.as_str(), "" | "ai.onnx");
    match n.op() {
        "If" if plain => branch(n),
        "Loop" if plain => turns(n),
        "Scan" if plain => scan(n),
        "SequenceMap" if plain => map(n),
        _ => function(n),
    }
}

fn known(n: &Node, id: ValueId) -> Option<i64> {
    n.t.build.data(id).and_then(|t| t.data.to_i32().first().copied()).map(i64::from)
}

/// Binding of a name in a graph.
#[derive(Clone)]
enum Named {
    Tensor(ValueId),
    Sequence(Vec<ValueId>),
}

impl Named {
    /// The operand with that index, which may be a sequence.
    fn operand(n: &Node, index: usize) -> Result<Named, Error> {
        match n.node.input.get(index).and_then(|name| n.t.sequences.get(name)) {
            Some(items) => Ok(Named::Sequence(items.clone())),
            None => n.need(index).map(Named::Tensor),
        }
    }

    /// Binds an output of the node.
    fn bind(self, n: &mut Node, index: usize) {
        match self {
            Named::Tensor(id) => n.output(index, id),
            Named::Sequence(items) => n.output_sequence(index, items),
        }
    }
}

/// Translates an inner graph with these values of its inputs; returns those of its outputs. Its names go out of scope afterwards.
pub(super) fn inner(n: &mut Node, graph: &proto::Graph, inputs: &[ValueId]) -> Result<Vec<ValueId>, Error> {
    let inputs: Vec<Named> = inputs.iter().map(|&id| Named::Tensor(id)).collect();
    let outputs = inner_names(n, graph, &inputs)?;
    let tensor = |(named, output): (Named, &proto::ValueInfo)| match named {
        Named::Tensor(id) => Ok(id),
        Named::Sequence(_) => Err(n.unsupported(format!("`{}` is a sequence where one tensor is read", output.name))),
    };
    outputs.into_iter().zip(&graph.output).map(tensor).collect()
}

/// As [`inner`], of tensors and sequences.
fn inner_names(n: &mut Node, graph: &proto::Graph, inputs: &[Named]) -> Result<Vec<Named>, Error> {
    let outer = (n.t.values.clone(), n.t.sequences.clone());
    deeper(n)?;
    for (input, named) in graph.input.iter().zip(inputs) {
        let name = input.name.clone();
        n.t.values.remove(&name);
        n.t.sequences.remove(&name);
        match named {
            Named::Tensor(id) => drop(n.t.values.insert(name, *id)),
            Named::Sequence(items) => drop(n.t.sequences.insert(name, items.clone())),
        }
    }
    let done = n.t.initializers(graph).and_then(|()| n.t.nodes(&super::live::nodes(graph)));
    n.t.depth -= 1;
    let values = std::mem::replace(&mut n.t.values, outer.0);
    let sequences = std::mem::replace(&mut n.t.sequences, outer.1);
    done?;
    restart(n);
    let named = |output: &proto::ValueInfo| {
        let unknown = || Error::UnknownName { place: "inner graph outputs".to_string(), name: output.name.to_string() };
        let sequence = || sequences.get(&output.name).cloned().map(Named::Sequence);
        values.get(&output.name).map(|&id| Named::Tensor(id)).or_else(sequence).ok_or_else(unknown)
    };
    graph.output.iter().map(named).collect()
}

fn deeper(n: &mut Node) -> Result<(), Error> {
    if n.t.depth >= NESTING {
        return Err(Error::TooDeep { place: n.op().to_string(), found: NESTING + 1, limit: NESTING });
    }
    n.t.depth += 1;
    Ok(())
}

/// Resets the name stem, so that further values and operations are named after this node again.
fn restart(n: &mut Node) {
    let first = n.node.output.first().cloned().unwrap_or_default();
    n.t.build.begin(&first, &first);
}

pub(super) fn graph<'n>(n: &Node<'n, '_>, name: &str) -> Result<&'n proto::Graph, Error> {
    n.attribute(name).and_then(|a| a.g.as_ref()).ok_or_else(|| n.missing(name))
}

fn branch(n: &mut Node) -> Result<bool, Error> {
    let condition = n.need(0)?;
    let Some(taken) = known(n, condition) else { return both(n, condition) };
    let chosen = graph(n, if taken != 0 { "then_branch" } else { "else_branch" })?;
    let outputs = inner_names(n, chosen, &[])?;
    let count = outputs.len();
    outputs.into_iter().enumerate().for_each(|(i, named)| named.bind(n, i));
    n.finish(count)
}

/// `SequenceMap`: the body for each element, with the elements of other sequences at its place, and whole tensors.
fn map(n: &mut Node) -> Result<bool, Error> {
    let body = graph(n, "body")?;
    let operands: Vec<Named> = (0..n.node.input.len()).map(|at| Named::operand(n, at)).collect::<Result<_, _>>()?;
    let Some(Named::Sequence(first)) = operands.first() else { return Err(n.unsupported("a tensor, no sequence")) };
    let count = first.len();
    let mut results = vec![Vec::new(); body.output.len()];
    for at in 0..count {
        let mut inputs = Vec::new();
        for operand in &operands {
            inputs.push(match operand {
                Named::Tensor(id) => *id,
                Named::Sequence(items) if items.len() == count => items[at],
                Named::Sequence(items) => {
                    return Err(n.unsupported(format!("sequences of {count} and {} tensors", items.len())));
                }
            });
        }
        let made = inner(n, body, &inputs)?;
        results.iter_mut().zip(made).for_each(|(all, id)| all.push(id));
    }
    let count = results.len();
    results.into_iter().enumerate().for_each(|(at, items)| n.output_sequence(at, items));
    n.finish(count)
}

fn turns(n: &mut Node) -> Result<bool, Error> {
    let body = graph(n, "body")?;
    let most = match n.input(0) {
        Some(id) => Some(known(n, id).ok_or_else(|| unlimited(n))?),
        None => None,
    };
    let (mut goes_on, mut live) = match n.input(1).map(|id| (id, known(n, id))) {
        None => (true, None),
        Some((_, Some(first))) => (first != 0, None),
        Some((id, None)) => (true, Some(n.build().reshape(id, [])?)),
    };
    let mut carried = (2..n.node.input.len()).map(|i| Named::operand(n, i)).collect::<Result<Vec<_>, Error>>()?;
    let mut results = carried.clone();
    let scans = body.output.len().saturating_sub(1 + carried.len());
    let tensors = carried.iter().filter_map(|c| if let Named::Tensor(id) = c { Some(*id) } else { None });
    let starts: Vec<ValueId> = tensors.collect();
    // The length of a sequence changes, so that a loop with one is unrolled.
    let (first_op, mut rolled) = (n.t.build.net.ops.len(), !goes_on || starts.len() < carried.len());
    let mut collected = vec![Vec::new(); scans];
    // Truth of each iteration, for loops that end by a computed condition.
    let mut happens = Vec::new();
    let mut turn = 0;
    while goes_on && most.is_none_or(|most| turn < most) {
        let long = n.t.build.net.ops.len() > first_op + UNROLLED_OPS;
        if long && live.is_some() {
            return Err(unlimited(n));
        }
        if long && !rolled {
            let ops = n.t.build.net.ops.split_off(first_op);
            if let Some(results) = roll(n, body, &starts, most)? {
                results.into_iter().enumerate().for_each(|(i, id)| n.output(i, id));
                return n.finish(starts.len() + scans);
            }
            n.t.build.net.ops.extend(ops);
            rolled = true;
        }
        if turn >= TURNS {
            return Err(n.unsupported(format!(
                "a loop of more than {TURNS} iterations. Export its body, and loop on the host"
            )));
        }
        let counter = n.build().integers([], vec![turn as i32]);
        let condition = n.build().mask([], vec![true]);
        let first = [counter, condition].map(Named::Tensor);
        let mut outputs = inner_names(n, body, &[first.as_slice(), &carried].concat())?.into_iter();
        let Some(Named::Tensor(next)) = outputs.next() else { return Err(n.missing("a condition")) };
        carried = outputs.by_ref().take(carried.len()).collect();
        match live {
            None => results.clone_from(&carried),
            Some(live) => {
                restart(n);
                for (next, result) in carried.iter_mut().zip(&mut results) {
                    keep(n, live, next, result)?;
                }
            }
        }
        for (list, named) in collected.iter_mut().zip(outputs) {
            let Named::Tensor(id) = named else { return Err(n.unsupported("a loop that collects sequences")) };
            list.push(id);
        }
        happens.push(live);
        goes_on = !never(n, next, LONGEST_CONDITION);
        if goes_on && known(n, next).is_none() {
            let next = n.build().reshape(next, [])?;
            live = Some(live.map_or(Ok(next), |live| n.build().binary(Binary::Min, live, next))?);
        }
        turn += 1;
    }
    let rows = if live.is_some() && scans > 0 { Some(iterations(n, &happens)?) } else { None };
    let kept = results.len();
    results.into_iter().enumerate().for_each(|(i, named)| named.bind(n, i));
    for (i, list) in collected.into_iter().enumerate() {
        if list.is_empty() {
            return Err(n.unsupported("a loop without iterations that collects results"));
        }
        let id = n.build().stack(&list, 0)?;
        if let Some(rows) = rows {
            numbered::mark(n, id, rows);
        }
        n.output(kept + i, id);
    }
    n.finish(kept + scans)
}

/// The rows that a loop with a computed end collects: one for each iteration within its limit.
fn iterations(n: &mut Node, happens: &[Option<ValueId>]) -> Result<Rows, Error> {
    if n.t.computed.marks.is_none() {
        return Err(n.unsupported(
            "a loop that collects slices of a number computed at run time: the graph is static. Export its body, and loop on the host",
        ));
    }
    let mut masks = Vec::new();
    for live in happens {
        masks.push(match live {
            Some(live) => n.build().reshape(*live, [1])?,
            None => n.build().mask([1], vec![true]),
        });
    }
    let mask = n.build().concat(&masks, 0)?;
    Ok(Rows { axis: 0, count: happens.len(), mask, each: 1 })
}

/// Error for a loop that no constant limits to few iterations.
fn unlimited(n: &Node) -> Error {
    n.unsupported(format!(
        "a loop whose number of iterations is computed at run time, without a constant limit within {UNROLLED_OPS} operations: the graph is \
         static. Export it with a constant limit on its iterations, or export its body and loop on the host"
    ))
}

/// Keeps a carried value as it was if the loop has ended before this iteration. The body reads the kept value, so that no number grows behind
/// the end; constants stay constants, because what they are behind the end has no reader.
fn keep(n: &mut Node, live: ValueId, next: &mut Named, result: &mut Named) -> Result<(), Error> {
    let (Named::Tensor(new), Named::Tensor(old)) = (&next, &result) else {
        return Err(n.unsupported("a sequence in a loop whose number of iterations is computed at run time"));
    };
    let (new, old) = (*new, *old);
    if n.t.build.ty(new) != n.t.build.ty(old) {
        let (before, after) = (n.t.build.ty(old).to_string(), n.t.build.ty(new).to_string());
        return Err(n.unsupported(format!(
            "a value that becomes {after} from {before} in a loop whose number of iterations is computed at run time"
        )));
    }
    let kept = n.build().select(live, new, old)?;
    if n.t.build.data(new).is_none() {
        *next = Named::Tensor(kept);
    }
    *result = Named::Tensor(kept);
    Ok(())
}

/// Returns true for a condition that is false: a constant, a conjunction with one, or a choice between false ones.
fn never(n: &Node, id: ValueId, depth: usize) -> bool {
    if let Some(value) = known(n, id) {
        return value == 0;
    }
    let maker = n.t.build.net.ops.iter().rev().find(|op| op.outputs.contains(&id)).filter(|_| depth > 0);
    maker.is_some_and(|op| match op.kind {
        OpKind::Binary(Binary::Min) => op.inputs.iter().any(|&id| never(n, id, depth - 1)),
        OpKind::Select => op.inputs[1..].iter().all(|&id| never(n, id, depth - 1)),
        OpKind::Cast | OpKind::Reshape => never(n, op.inputs[0], depth - 1),
        _ => false,
    })
}

/// A loop that is not unrolled: the final carried values, then the collected tensors. `None` if it has no such form: a body that
/// uses a counter where a constant is required, or that changes extents.
fn roll(
    n: &mut Node,
    body: &proto::Graph,
    carried: &[ValueId],
    most: Option<i64>,
) -> Result<Option<Vec<ValueId>>, Error> {
    let most = most.map(|most| most.max(0) as usize);
    let (counter, condition) = (n.build().integers([], vec![0]), n.build().mask([], vec![true]));
    let starts = [&[counter, condition], carried].concat();
    let types = starts.iter().map(|&id| n.t.build.ty(id).clone()).collect();
    let mut turn = n.build().turn(types);
    let made = one_turn(n, body, &turn);
    restart(n);
    let same = |n: &Node, next: &[ValueId]| next.iter().zip(&starts).all(|(a, b)| n.t.build.ty(*a) == n.t.build.ty(*b));
    let Some((next, parts)) = made.ok().filter(|(next, _)| next.len() == starts.len() && same(n, next)) else {
        n.build().abandon(&turn);
        return Ok(None);
    };
    let course = n.build().course(&turn, &starts, &next, GoesOn::After(next[1], most))?;
    let course = course.filter(|course| course.turns > 0 && !n.build().has_known_places(&mut turn, course));
    let Some(course) = course else {
        n.build().abandon(&turn);
        return Ok(None);
    };
    let collected: Vec<(ValueId, Scan)> =
        parts.into_iter().map(|id| (id, Scan { axis: 0, backwards: false })).collect();
    let results = n.build().rolled(turn, &starts, &next, &collected, &course)?;
    Ok(Some(results[2..].to_vec()))
}

/// Next values of an iteration, counter and condition first, and the collected slices.
fn one_turn(n: &mut Node, body: &proto::Graph, turn: &Turn) -> Result<(Vec<ValueId>, Vec<ValueId>), Error> {
    let mut outputs = inner(n, body, &turn.carried)?;
    if outputs.is_empty() {
        return Err(n.missing("a condition"));
    }
    let condition = outputs.remove(0);
    let condition = n.build().reshape(condition, [])?;
    let one = n.build().integers([], vec![1]);
    let counter = n.build().binary(Binary::Add, turn.carried[0], one)?;
    let parts = outputs.split_off((turn.carried.len() - 2).min(outputs.len()));
    let mut next = vec![counter, condition];
    next.extend(outputs);
    let parts = parts.into_iter().map(|part| raised(n, part, 0)).collect::<Result<Vec<_>, Error>>()?;
    Ok((next, parts))
}

/// A value with a new axis of extent one.
fn raised(n: &mut Node, part: ValueId, axis: usize) -> Result<ValueId, Error> {
    let mut shape = n.shape(part);
    shape.insert(axis.min(shape.len()), 1);
    n.build().reshape(part, shape)
}

fn scan(n: &mut Node) -> Result<bool, Error> {
    if n.opset() < 9 {
        return Err(n.unsupported("the form of opset 8. Convert the model to opset 9 or later"));
    }
    let body = graph(n, "body")?;
    let scanned = n.size("num_scan_inputs", n.int("num_scan_inputs", 0))?;
    let all: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
    let kept = all.len().checked_sub(scanned).ok_or_else(|| n.missing("inputs"))?;
    let (mut state, sources) = (all[..kept].to_vec(), all[kept..].to_vec());
    let list = |n: &Node, name: &str| n.ints(name).unwrap_or_default();
    let (in_axes, out_axes) = (list(n, "scan_input_axes"), list(n, "scan_output_axes"));
    let (in_ways, out_ways) = (list(n, "scan_input_directions"), list(n, "scan_output_directions"));
    let mut axes = Vec::new();
    for (i, &source) in sources.iter().enumerate() {
        axes.push(n.axis(in_axes.get(i).copied().unwrap_or(0), n.shape(source).len())?);
    }
    let steps = sources.first().map_or(0, |&s| n.shape(s)[axes[0]]);
    let outputs = body.output.len().saturating_sub(kept);
    let mut collected = vec![Vec::new(); outputs];
    let first_op = n.t.build.net.ops.len();
    for step in 0..steps {
        if steps > 1 && n.t.build.net.ops.len() > first_op + UNROLLED_OPS {
            n.t.build.net.ops.truncate(first_op);
            return rolled_scan(n, body, &all, (&axes, steps));
        }
        let mut inputs = state.clone();
        for (i, &source) in sources.iter().enumerate() {
            let at = if in_ways.get(i) == Some(&1) { steps - 1 - step } else { step };
            let part = n.build().slice(source, axes[i], at, at + 1)?;
            let mut shape = n.shape(part);
            shape.remove(axes[i]);
            inputs.push(n.build().reshape(part, shape)?);
        }
        let mut results = inner(n, body, &inputs)?.into_iter();
        state = results.by_ref().take(kept).collect();
        collected.iter_mut().zip(results).for_each(|(list, id)| list.push(id));
    }
    state.into_iter().enumerate().for_each(|(i, id)| n.output(i, id));
    for (i, mut list) in collected.into_iter().enumerate() {
        if out_ways.get(i) == Some(&1) {
            list.reverse();
        }
        let rank = list.first().map_or(0, |&id| n.shape(id).len());
        let axis = n.axis(out_axes.get(i).copied().unwrap_or(0), rank + 1)?;
        let id = n.build().stack(&list, axis)?;
        n.output(kept + i, id);
    }
    n.finish(kept + outputs)
}

/// A scan as a loop that is not unrolled; `all` are its operands, the last ones scanned along `axes`.
fn rolled_scan(
    n: &mut Node,
    body: &proto::Graph,
    all: &[ValueId],
    (axes, steps): (&[usize], usize),
) -> Result<bool, Error> {
    let (starts, sources) = all.split_at(all.len() - axes.len());
    let list = |n: &Node, name: &str| n.ints(name).unwrap_or_default();
    let (in_ways, out_ways) = (list(n, "scan_input_directions"), list(n, "scan_output_directions"));
    let out_axes = list(n, "scan_output_axes");
    let types = starts.iter().map(|&id| n.t.build.ty(id).clone()).collect();
    let mut turn = n.build().turn(types);
    let mut inputs = turn.carried.clone();
    for (i, &source) in sources.iter().enumerate() {
        let scan = Scan { axis: axes[i], backwards: in_ways.get(i) == Some(&1) };
        let part = n.build().scan(&mut turn, source, scan, steps);
        let mut shape = n.shape(part);
        shape.remove(axes[i]);
        inputs.push(n.build().reshape(part, shape)?);
    }
    let mut next = inner(n, body, &inputs)?;
    restart(n);
    let parts = next.split_off(starts.len().min(next.len()));
    let mut collected = Vec::new();
    for (i, part) in parts.into_iter().enumerate() {
        let axis = n.axis(out_axes.get(i).copied().unwrap_or(0), n.shape(part).len() + 1)?;
        collected.push((raised(n, part, axis)?, Scan { axis, backwards: out_ways.get(i) == Some(&1) }));
    }
    let results = n.build().close(turn, starts, &next, &collected, steps)?;
    let count = results.len();
    results.into_iter().enumerate().for_each(|(i, id)| n.output(i, id));
    n.finish(count)
}

/// A function that the model itself defines.
fn function(n: &mut Node) -> Result<bool, Error> {
    let functions = n.t.functions;
    let found = functions.iter().find(|f| f.name == n.op() && f.domain == n.node.domain);
    let Some(function) = found else { return Ok(false) };
    let outer = std::mem::take(&mut n.t.values);
    deeper(n)?;
    for (name, id) in function.input.iter().zip(&n.inputs) {
        if let Some(id) = id {
            n.t.values.insert(name.clone(), *id);
        }
    }
    let attributes: HashMap<&str, &proto::Attribute> =
        (function.attribute_proto.iter()).chain(&n.node.attribute).map(|a| (a.name.as_str(), a)).collect();
    // Attributes of the body may refer to those of the call.
    let bodies: Vec<proto::Node> = function.node.iter().map(|node| bound(node, &attributes)).collect();
    let done = n.t.nodes(&bodies);
    n.t.depth -= 1;
    let made = std::mem::replace(&mut n.t.values, outer);
    done?;
    restart(n);
    for (i, name) in function.output.iter().enumerate() {
        if let Some(&id) = made.get(name) {
            n.output(i, id);
        }
    }
    n.finish(function.output.len())
}

fn bound(node: &proto::Node, attributes: &HashMap<&str, &proto::Attribute>) -> proto::Node {
    let mut node = node.clone();
    node.attribute.retain_mut(|a| {
        if a.ref_attr_name.is_empty() {
            return true;
        }
        match attributes.get(a.ref_attr_name.as_str()) {
            Some(given) => {
                let name = std::mem::take(&mut a.name);
                *a = proto::Attribute { name, ..(*given).clone() };
                true
            }
            None => false,
        }
    });
    node
}
