//! Native layers named in MIL: `anec.sdpa(bottom = (q, k, v, scale), SubtractMax = true)`. The operand list is `bottom`,
//! the other arguments are the layer's parameters. Names are read whatever their case and underscores, so `subtract_max`
//! will do. The operands pass as they are, axes being those of the layer, see [`crate::native::Kind`], with one exception:
//! attention in MIL is `[batch, heads, positions, features]` as everywhere in the framework, so the bridge exchanges heads and
//! positions around the layer.

use super::Item;
use super::call::Call;
use crate::error::Error;
use crate::graph::Data;
use crate::native::{KeyType, Kind, MIL_PREFIX, Native, Raw, Schema};
use crate::ops::OpKind;

pub fn translate(call: &mut Call) -> Result<bool, Error> {
    let Some(word) = call.op.ty.strip_prefix(MIL_PREFIX) else { return Ok(false) };
    let Some(schema) = Schema::of_word(word) else { return Ok(false) };
    let mut given = Vec::new();
    let arguments: Vec<&String> = call.op.inputs.keys().filter(|n| !["bottom", "name"].contains(&n.as_str())).collect();
    for name in arguments {
        let key = schema.key_of_word(name).unwrap_or(name);
        let item = call.item(name)?.ok_or_else(|| call.missing(name))?;
        given.push((key.to_string(), raw(call, schema, key, item)));
    }
    let unit = call.output(0).to_string();
    let native = Native::read(schema, &unit, &given)?;
    let mut operands = call.operands("bottom")?;
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

/// Axes 1 and 2: heads and positions.
fn exchange() -> OpKind {
    OpKind::Transpose { perm: vec![0, 2, 1, 3] }
}

/// A constant as the layer's parser sees it.
fn raw(call: &Call, schema: &Schema, key: &str, item: Item) -> Raw {
    let tensor = match item {
        Item::Text(text) => return Raw::Text(text),
        Item::List(items) => return Raw::List(items.into_iter().map(|i| raw(call, schema, key, i)).collect()),
        Item::State(_) => return Raw::Other("a state".into()),
        Item::Constant(constant) => Some(constant.tensor.clone()),
        Item::Value(id) => call.t.build.data(id).cloned(),
    };
    let Some(tensor) = tensor else { return Raw::Other("a value that is not constant".into()) };
    let by_position = schema
        .keys
        .iter()
        .any(|k| k.name == key && matches!(k.ty, KeyType::Axes | KeyType::PerAxis(..) | KeyType::Integers(..)));
    let data = tensor.data.dense();
    let one = |data: &Data| match data {
        Data::Bool(v) => v.first().map(|&b| Raw::Flag(b)),
        // The text has the number itself where a netplist has the bits of a half.
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
