//! MIL control flow and states: blocks chosen by constant conditions, loops of known length unrolled, states threaded
//! through as values.

use super::Item;
use super::call::Call;
use crate::error::Error;

/// Most turns of one loop.
const TURNS: usize = 4096;

/// Translates the operation if it is one of these; otherwise false.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    match call.op.ty.as_str() {
        "cond" => cond(call),
        "while_loop" => while_loop(call),
        "read_state" => {
            let index = state(call, "input")?;
            let now = call.t.states[index].now;
            call.matches_declaration(0, &call.shape(now))?;
            call.done_item(0, Item::Value(now));
            Ok(true)
        }
        "coreml_update_state" => update(call, "state", "value"),
        "write_state" => update(call, "input", "data"),
        _ => Ok(false),
    }
}

fn state(call: &Call, name: &str) -> Result<usize, Error> {
    match call.item(name)? {
        Some(Item::State(index)) => Ok(index),
        Some(_) => {
            let (key, found) = (name.to_string(), "no state".to_string());
            Err(Error::WrongType { place: call.place(), key, found, expected: "a state" })
        }
        None => Err(call.missing(name)),
    }
}

/// The state is this value from now on; a result, where there is one, is that value too.
fn update(call: &mut Call, name: &str, value: &str) -> Result<bool, Error> {
    let index = state(call, name)?;
    let value = call.operand(value)?;
    let (found, expected) = (call.ty(value).clone(), call.ty(call.t.states[index].input).clone());
    if found != expected {
        return Err(Error::TypeMismatch {
            op: call.place(),
            value: call.t.states[index].name.clone(),
            found,
            expected,
        });
    }
    call.t.states[index].now = value;
    if !call.op.outputs.is_empty() {
        call.done_item(0, Item::Value(value));
    }
    Ok(true)
}

/// The truth value of an item known while reading.
fn known(call: &Call, item: &Item) -> Option<bool> {
    let tensor = match item {
        Item::Constant(constant) => constant.tensor.clone(),
        Item::Value(id) => call.t.build.data(*id)?.clone(),
        _ => return None,
    };
    tensor.data.to_i32().first().map(|&v| v != 0)
}

fn give(call: &mut Call, items: Vec<Item>) -> Result<bool, Error> {
    if items.len() != call.op.outputs.len() {
        return Err(Error::Results { kind: "block", found: call.op.outputs.len(), expected: items.len() });
    }
    items.into_iter().enumerate().for_each(|(index, item)| call.done_item(index, item));
    Ok(true)
}

fn cond(call: &mut Call) -> Result<bool, Error> {
    let pred = call.item("pred")?.ok_or_else(|| call.missing("pred"))?;
    let taken =
        known(call, &pred).ok_or_else(|| call.unsupported("a condition computed at run time: the graph is static"))?;
    let op = call.op;
    let block = op.blocks.get(usize::from(!taken)).ok_or_else(|| call.missing("two blocks"))?;
    let items = call.t.nested(block, &[], op)?;
    give(call, items)
}

fn while_loop(call: &mut Call) -> Result<bool, Error> {
    let mut items: Vec<Item> = call.arguments.get("loop_vars").cloned().ok_or_else(|| call.missing("loop_vars"))?;
    if let [Item::List(list)] = items.as_slice() {
        items = list.clone();
    }
    let op = call.op;
    let [condition, body] = op.blocks.as_slice() else { return Err(call.missing("two blocks")) };
    for _ in 0..TURNS {
        let verdict = call.t.nested(condition, &items, op)?;
        let goes_on = verdict.first().and_then(|item| known(call, item));
        match goes_on {
            None => return Err(call.unsupported("a loop whose end is computed at run time: the graph is static")),
            Some(false) => return give(call, items),
            Some(true) => items = call.t.nested(body, &items, op)?,
        }
    }
    Err(call.unsupported(&format!("a loop of more than {TURNS} turns")))
}
