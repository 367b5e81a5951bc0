//! Addends that quantizers write in levels: `s * (sums + floor(b / s))`, as ONNX Runtime's did for dynamic quantization. The levels exceed the integers
//! that fp16 represents, and `b` itself does not.

use super::{Builder, Names, insert_before, remove};
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Tensor, Unary, ValueId};
use std::collections::{HashMap, HashSet};

/// `mul(add(sums, cast(floor(div(b, s)))), s)` becomes `add(mul(sums, s), b)`, which differs by less than `s`, one level of the sums.
pub(super) fn add_behind_scales(net: &mut Net, reasons: &mut Remarks) {
    let makers = makers(net);
    let uses = net.read_counts();
    let found: Vec<Found> = (0..net.ops.len()).filter_map(|at| find(net, &makers, &uses, at)).collect();
    let mut names = Names::default();
    let mut added: Vec<(usize, Op)> = Vec::new();
    let mut gone = HashSet::new();
    for Found { scaled, sum, sums, scale, addend, .. } in found {
        reasons.say(|| format!("{}: its addend in levels is added behind the scale", net.ops[sum].name));
        let (name, output) = (net.ops[scaled].name.clone(), net.ops[scaled].outputs[0]);
        let ty = net.value(output).ty.clone();
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name };
        let product = builder.op("scaled", OpKind::Binary(Binary::Mul), &[sums, scale], ty.shape.clone());
        let addend = builder.constant_of("addend", addend);
        added.extend(builder.ops.drain(..).map(|op| (scaled, op)));
        net.values[product.0 as usize].ty = ty;
        let op = &mut net.ops[scaled];
        (op.kind, op.inputs) = (OpKind::Binary(Binary::Add), vec![product, addend]);
        gone.insert(sum);
    }
    // Positions of the additions are those before any operation is inserted.
    added.iter_mut().for_each(|(at, _)| *at -= gone.iter().filter(|sum| **sum < *at).count());
    remove(net, &gone);
    insert_before(net, added);
}

/// A sum of integers and an addend in levels that only a multiplication by the level reads.
struct Found {
    /// Position of the multiplication.
    scaled: usize,
    /// Position of the addition.
    sum: usize,
    sums: ValueId,
    scale: ValueId,
    /// The addend, in the shape in which it is added.
    addend: Tensor,
    /// Positions of the operations that make levels of it.
    levels: Vec<usize>,
}

/// Positions of the operations on integers that [`add_behind_scales`] replaces.
pub(crate) fn replaced(net: &Net) -> HashSet<usize> {
    let makers = makers(net);
    let uses = net.read_counts();
    let found = (0..net.ops.len()).filter_map(|at| find(net, &makers, &uses, at));
    found.flat_map(|found| found.levels.into_iter().chain([found.sum])).collect()
}

fn makers(net: &Net) -> HashMap<ValueId, usize> {
    net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect()
}

fn find(net: &Net, makers: &HashMap<ValueId, usize>, uses: &[usize], scaled: usize) -> Option<Found> {
    let maker = |id: ValueId| makers.get(&id).map(|&at| &net.ops[at]);
    let op = &net.ops[scaled];
    if op.kind != OpKind::Binary(Binary::Mul) || !net.value(op.outputs[0]).ty.dtype.is_float() {
        return None;
    }
    let either = |ids: &[ValueId]| [(ids[0], ids[1]), (ids[1], ids[0])];
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !net.outputs.contains(&id);
    either(&op.inputs).into_iter().find_map(|(float, scale)| {
        let cast = maker(float).filter(|op| op.kind == OpKind::Cast && alone(float));
        let whole = cast.map_or(float, |op| op.inputs[0]);
        let sum = *makers.get(&whole)?;
        let integers = !net.value(whole).ty.dtype.is_float();
        if net.ops[sum].kind != OpKind::Binary(Binary::Add) || !integers || !alone(whole) {
            return None;
        }
        either(&net.ops[sum].inputs).into_iter().find_map(|(sums, levels)| {
            let (mut at, mut passed) = (levels, Vec::new());
            let div = loop {
                let op = maker(at)?;
                match op.kind {
                    OpKind::Cast | OpKind::Reshape | OpKind::Unary(Unary::Floor | Unary::Round) => {
                        passed.push(*makers.get(&at)?);
                        at = op.inputs[0];
                    }
                    OpKind::Binary(Binary::Div) => break op,
                    _ => return None,
                }
            };
            let addend = net.value(div.inputs[0]).data.as_ref()?;
            let one = net.value(div.inputs[1]).ty.shape.iter().product::<usize>() == 1;
            let shape = net.value(levels).ty.shape.clone();
            let as_many = shape.iter().product::<usize>() == addend.data.len();
            let level = one && as_many && alike(net, makers, div.inputs[1], scale);
            let addend = level.then(|| Tensor { shape, data: addend.data.dense().into_owned() })?;
            Some(Found { scaled, sum, sums, scale, addend, levels: passed })
        })
    })
}

/// Returns true for one value, or two results of equal operations on the same operands: quantizers compute a scale again for each use.
fn alike(net: &Net, makers: &HashMap<ValueId, usize>, a: ValueId, b: ValueId) -> bool {
    let made = |id: ValueId| makers.get(&id).map(|&at| (&net.ops[at].kind, &net.ops[at].inputs));
    a == b || made(a).is_some() && made(a) == made(b)
}
