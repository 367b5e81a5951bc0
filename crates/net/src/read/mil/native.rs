//! Native layers named in MIL: `anec.sdpa(bottom = (q, k, v, scale), SubtractMax = true)`. The operand list is `bottom`,
//! the other arguments are the layer's parameters. Names are read independent of case and underscores, so `subtract_max`
//! is accepted. Operands are passed unchanged, with the axes of the layer (see [`crate::native::Kind`]), with one exception:
//! attention in MIL is `[batch, heads, positions, features]`, as everywhere in the framework, so the reader exchanges heads and
//! positions around the layer.

use super::Item;
use super::call::Call;
use crate::error::Error;
use crate::graph::{Data, ValueId};
use crate::native::{KeyType, Kind, MIL_PREFIX, Named, Native, Raw, named};
use crate::ops::OpKind;
use crate::read::netplist::inline;
use std::collections::HashMap;

pub fn translate(call: &mut Call) -> Result<bool, Error> {
    let Some(word) = call.op.ty.strip_prefix(MIL_PREFIX) else { return Ok(false) };
    let Some(named) = named(word) else { return Ok(false) };
    let mut operands = call.operands("bottom")?;
    let constants: Vec<bool> = operands.iter().map(|&id| call.t.build.data(id).is_some()).collect();
    let named = named.with(&constants);
    let mut given = Vec::new();
    let arguments: Vec<&String> = call.op.inputs.keys().filter(|n| !["bottom", "name"].contains(&n.as_str())).collect();
    for name in arguments {
        let key = named.key_of_word(name).unwrap_or(name);
        let item = call.item(name)?.ok_or_else(|| call.missing(name))?;
        given.push((key.to_string(), raw(call, &named, key, item)));
    }
    let unit = call.output(0).to_string();
    let Some(schema) = named.schema else { return graph_unit(call, &named, &unit, &operands, &given) };
    let native = Native::read(schema, &unit, &given)?;
    if native.kind != Kind::Sdpa {
        return call.give(OpKind::Native(Box::new(native)), &operands);
    }
    // Query, key, value and mask; the scale has no axes to exchange.
    for at in [0, 1, 2, 4] {
        if let Some(operand) = operands.get_mut(at) {
            *operand = call.emit("exchanged", exchange(), &[*operand])?;
        }
    }
    let attention = call.emit("attention", OpKind::Native(Box::new(native)), &operands)?;
    call.give(exchange(), &[attention])
}

/// A unit that is translated to operations of the graph by the reader of netplists.
fn graph_unit(
    call: &mut Call,
    named: &Named,
    unit: &str,
    operands: &[ValueId],
    given: &[(String, Raw)],
) -> Result<bool, Error> {
    let of = |&id: &ValueId| inline::Operand { ty: call.ty(id).clone(), data: call.t.build.data(id).cloned() };
    let stated: Vec<inline::Operand> = operands.iter().map(of).collect();
    let net = inline::unit(named, unit, &stated, given)?;
    let inputs = operands.iter().zip(&stated).filter(|(_, o)| o.data.is_none()).map(|(&id, _)| id);
    let mut made: HashMap<ValueId, ValueId> = net.inputs.iter().copied().zip(inputs).collect();
    for op in &net.ops {
        let mut inputs = Vec::new();
        for &id in &op.inputs {
            let known = made.get(&id).copied();
            inputs.push(match (known, &net.value(id).data) {
                (None, Some(data)) => call.add_constant("constant", data.as_ref().clone()),
                (known, _) => known.ok_or_else(|| call.unsupported("an operand that is not defined"))?,
            });
        }
        let declared = inline::declared(&net, op);
        let result = call.build().op_as("part", op.kind.clone(), &inputs, declared)?;
        made.extend(op.outputs.iter().map(|&id| (id, result)));
    }
    let result = net.outputs.first().and_then(|id| made.get(id)).copied();
    let result = result.ok_or_else(|| call.unsupported("a unit without a result"))?;
    call.done(0, result)
}

/// Axes 1 and 2: heads and positions.
fn exchange() -> OpKind {
    OpKind::Transpose { perm: vec![0, 2, 1, 3] }
}

/// A constant in the form that the layer's parser expects.
fn raw(call: &Call, named: &Named, key: &str, item: Item) -> Raw {
    let tensor = match item {
        Item::Text(text) => return Raw::Text(text),
        Item::List(items) => return Raw::List(items.into_iter().map(|i| raw(call, named, key, i)).collect()),
        Item::State(_) => return Raw::Other("a state".into()),
        Item::Unwritten => return Raw::Other("no element".into()),
        Item::Constant(constant) => Some(constant.tensor.clone()),
        Item::Value(id) => call.t.build.data(id).cloned(),
    };
    let Some(tensor) = tensor else { return Raw::Other("a value that is not constant".into()) };
    let lists = |ty| matches!(ty, KeyType::Axes | KeyType::PerAxis(..) | KeyType::Integers(..) | KeyType::Entries(_));
    let by_position = named.key(key).is_some_and(|k| lists(k.ty));
    let data = tensor.data.dense();
    let one = |data: &Data| match data {
        Data::Bool(v) => v.first().map(|&b| Raw::Flag(b)),
        // The text has the number itself; a netplist has the bits of an fp16 number.
        Data::F16(v) => v.first().map(|x| Raw::Half(x.to_f32())),
        Data::F32(v) => v.first().map(|&x| Raw::Half(x)),
        other => other.to_i32().first().map(|&x| Raw::Integer(x.into())),
    };
    match (by_position, data.len()) {
        (true, n) if n <= 64 && data.dtype().is_integer() => {
            Raw::Positions(data.to_i32().into_iter().map(i64::from).collect())
        }
        (false, 1) => one(&data).unwrap_or(Raw::Other("nothing".into())),
        (_, n) => Raw::Other(format!("{n} elements of {}", data.dtype())),
    }
}
