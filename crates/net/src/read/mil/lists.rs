//! MIL lists, whose lengths are known while reading and whose elements are values of the net.

use super::Item;
use super::call::Call;
use crate::error::Error;
use crate::graph::{Data, Tensor, elements};
use std::sync::Arc;

/// Most elements of a list.
const LENGTH: usize = 4096;

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "make_list" => make(call),
        "list_length" => {
            let length = list(call)?.len();
            call.give_constant(Tensor::i32([], vec![length as i32]))
        }
        "list_read" => {
            let (items, index) = (list(call)?, call.integer("index", 0)?);
            let item = usize::try_from(index).ok().and_then(|i| items.get(i)).cloned();
            let extent = items.len();
            let item = item.ok_or_else(|| Error::Index { op: call.place(), found: index, extent })?;
            call.done_item(0, item);
            Ok(true)
        }
        "list_write" => {
            let (items, index) = (list(call)?, call.integer("index", 0)?);
            let value = call.item("value")?.ok_or_else(|| call.missing("value"))?;
            put(call, items, &[(index, value)])
        }
        "list_scatter" => {
            let items = list(call)?;
            let indices = call.integers("indices")?.ok_or_else(|| call.missing("indices"))?;
            let value = call.operand("value")?;
            let mut pairs = Vec::new();
            for (i, index) in indices.into_iter().enumerate() {
                let part = call.build().slice(value, 0, i, i + 1)?;
                let shape = call.shape(part)[1..].to_vec();
                pairs.push((index, Item::Value(call.build().reshape(part, shape)?)));
            }
            put(call, items, &pairs)
        }
        "list_gather" => {
            let items = list(call)?;
            let indices = call.integers("indices")?.ok_or_else(|| call.missing("indices"))?;
            let extent = items.len();
            let mut parts = Vec::new();
            for found in indices {
                let item = usize::try_from(found).ok().and_then(|i| items.get(i)).cloned();
                let item = item.ok_or_else(|| Error::Index { op: call.place(), found, extent })?;
                parts.push(call.value_of(item, "ls")?);
            }
            if parts.is_empty() {
                return Err(call.unsupported("no elements are gathered"));
            }
            let stacked = call.build().stack(&parts, 0)?;
            call.done(0, stacked)
        }
        _ => Ok(false),
    }
}

fn list(call: &Call) -> Result<Vec<Item>, Error> {
    match call.item("ls")? {
        Some(Item::List(items)) => Ok(items),
        _ => Err(call.missing("ls")),
    }
}

/// A list of zeros. Where the extents have names, no element has a value before it is written.
fn make(call: &mut Call) -> Result<bool, Error> {
    let length = call.size("init_length", call.integer("init_length", 1)?)?;
    if length > LENGTH {
        return Err(call.unsupported(&format!("a list of {length} elements; the limit is {LENGTH}")));
    }
    let shape = match call.arguments.get("elem_shape").cloned() {
        Some(items) => {
            let flat: Vec<Item> = items
                .into_iter()
                .flat_map(|item| match item {
                    Item::List(list) => list,
                    one => vec![one],
                })
                .collect();
            match flat.as_slice() {
                // One tensor of extents, or a tuple of scalars.
                [Item::Constant(c)] if c.tensor.data.len() != 1 || !c.tensor.shape.is_empty() => {
                    c.tensor.data.to_i32().iter().map(|&v| i64::from(v)).collect()
                }
                many if many.iter().any(|item| matches!(item, Item::Text(_))) => {
                    call.done_item(0, Item::List(vec![Item::Unwritten; length]));
                    return Ok(true);
                }
                many => many.iter().map(|item| call.integer_of(item, "elem_shape")).collect::<Result<Vec<i64>, _>>()?,
            }
        }
        None => vec![],
    };
    let shape = shape.into_iter().map(|v| call.size("elem_shape", v)).collect::<Result<Vec<usize>, _>>()?;
    let name = call.text("dtype")?.unwrap_or_else(|| "fp32".to_string());
    let dtype = super::elementwise::dtype(&name).ok_or_else(|| call.unsupported(&format!("element type `{name}`")))?;
    call.budget().spend(&shape)?;
    let zeros = Tensor { data: Data::from_f32(dtype, &vec![0.0; elements(&shape)]), shape };
    let (name, tensor) = (format!("{}.zeros", call.first), Arc::new(zeros));
    let zeros = Item::Constant(Arc::new(super::Constant { name, tensor }));
    call.done_item(0, Item::List(vec![zeros; length]));
    Ok(true)
}

/// The list with these elements replaced; a position one past its end appends.
fn put(call: &mut Call, mut items: Vec<Item>, pairs: &[(i64, Item)]) -> Result<bool, Error> {
    for (found, item) in pairs {
        let extent = items.len();
        match usize::try_from(*found).ok().filter(|&i| i <= extent && i < LENGTH) {
            Some(at) if at == extent => items.push(item.clone()),
            Some(at) => items[at] = item.clone(),
            None => return Err(Error::Index { op: call.place(), found: *found, extent }),
        }
    }
    call.done_item(0, Item::List(items));
    Ok(true)
}
