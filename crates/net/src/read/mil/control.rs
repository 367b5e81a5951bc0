//! MIL control flow and states: blocks selected by constant conditions, both blocks and a selection for others, loops of known
//! length unrolled, states passed along as values.

use super::Item;
use super::call::Call;
use crate::build::rolled::{Course, GoesOn, Turn};
use crate::error::Error;
use crate::graph::ValueId;
use crate::mil::proto::Block;
use crate::ops::UNROLLED_OPS;

/// Most iterations of one loop.
const TURNS: usize = 4096;

/// Translates the operation if it belongs to this group; returns false otherwise.
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

/// Sets the current value of a state, and binds the result, if there is one, to it.
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

/// The value of a condition that is known while reading.
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
    let op = call.op;
    let [yes, no] = op.blocks.as_slice() else { return Err(call.missing("two blocks")) };
    let Some(taken) = known(call, &pred) else { return both(call, &pred, yes, no) };
    let items = call.t.nested(if taken { yes } else { no }, &[], op)?;
    give(call, items)
}

/// Both blocks, and a selection between their results and between the states they leave, for a condition computed at run time.
fn both(call: &mut Call, pred: &Item, yes: &Block, no: &Block) -> Result<bool, Error> {
    let pred = call.value_of(pred.clone(), "pred")?;
    let pred = call.build().reshape(pred, [])?;
    let before: Vec<ValueId> = call.t.states.iter().map(|s| s.now).collect();
    let (yes, after_yes) = branch(call, yes)?;
    call.t.states.iter_mut().zip(before).for_each(|(s, now)| s.now = now);
    let (no, after_no) = branch(call, no)?;
    if yes.len() != no.len() {
        return Err(Error::Results { kind: "block", found: no.len(), expected: yes.len() });
    }
    let mut chosen = Vec::with_capacity(yes.len());
    for (x, y) in yes.into_iter().chain(after_yes).zip(no.into_iter().chain(after_no)) {
        if call.ty(x) != call.ty(y) {
            return Err(call.unsupported(&format!(
                "a condition computed at run time between {} and {}: the graph is static. Give both blocks results of one type",
                call.ty(x),
                call.ty(y)
            )));
        }
        chosen.push(if x == y { x } else { call.build().select(pred, x, y)? });
    }
    let states = chosen.split_off(chosen.len() - call.t.states.len());
    call.t.states.iter_mut().zip(states).for_each(|(s, now)| s.now = now);
    give(call, chosen.into_iter().map(Item::Value).collect())
}

/// Results of a block, and the values of all states after it.
fn branch(call: &mut Call, block: &Block) -> Result<(Vec<ValueId>, Vec<ValueId>), Error> {
    let op = call.op;
    let items = call.t.nested(block, &[], op)?;
    let first = op.outputs.first().map_or("", |o| &o.name);
    call.build().begin(first, first);
    let results = items.into_iter().map(|item| call.value_of(item, "block outputs")).collect::<Result<_, _>>()?;
    Ok((results, call.t.states.iter().map(|s| s.now).collect()))
}

fn while_loop(call: &mut Call) -> Result<bool, Error> {
    let mut items: Vec<Item> = call.arguments.get("loop_vars").cloned().ok_or_else(|| call.missing("loop_vars"))?;
    if let [Item::List(list)] = items.as_slice() {
        items = list.clone();
    }
    let op = call.op;
    let [condition, body] = op.blocks.as_slice() else { return Err(call.missing("two blocks")) };
    if let Some(done) = recurrent(call, &items, condition, body)? {
        return give(call, done);
    }
    let (first, first_op) = (items.clone(), call.t.build.net.ops.len());
    let states: Vec<ValueId> = call.t.states.iter().map(|s| s.now).collect();
    let mut rolled = false;
    for _ in 0..TURNS {
        if !rolled && call.t.build.net.ops.len() > first_op + UNROLLED_OPS {
            let unrolled: Vec<ValueId> = call.t.states.iter().map(|s| s.now).collect();
            let ops = call.t.build.net.ops.split_off(first_op);
            call.t.states.iter_mut().zip(&states).for_each(|(s, &now)| s.now = now);
            if let Some(done) = roll(call, &first, condition, body)? {
                return give(call, done);
            }
            call.t.build.net.ops.extend(ops);
            call.t.states.iter_mut().zip(unrolled).for_each(|(s, now)| s.now = now);
            rolled = true;
        }
        let verdict = call.t.nested(condition, &items, op)?;
        let goes_on = verdict.first().and_then(|item| known(call, item));
        match goes_on {
            None => {
                return Err(
                    call.unsupported("a loop whose number of iterations is computed at run time: the graph is static")
                );
            }
            Some(false) => return give(call, items),
            Some(true) => items = call.t.nested(body, &items, op)?,
        }
    }
    Err(call.unsupported(&format!("a loop of more than {TURNS} iterations")))
}

/// An iteration of a loop of tensors whose iterations are known: it is built, and closed or abandoned by the caller.
struct Counted {
    turn: Turn,
    starts: Vec<ValueId>,
    next: Vec<ValueId>,
    course: Course,
}

/// Builds an iteration; `None` if the body changes states or lists, or uses a counter where a constant is required.
fn counted(call: &mut Call, items: &[Item], condition: &Block, body: &Block) -> Result<Option<Counted>, Error> {
    let mut starts = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Item::Value(_) | Item::Constant(_) => starts.push(call.value_of(item.clone(), "loop_vars")?),
            Item::Text(_) | Item::List(_) | Item::State(_) | Item::Unwritten => return Ok(None),
        }
    }
    let states: Vec<ValueId> = call.t.states.iter().map(|s| s.now).collect();
    let types = starts.iter().map(|&id| call.ty(id).clone()).collect();
    let turn = call.build().turn(types);
    let made = one_turn(call, &turn, condition, body);
    let changed = call.t.states.iter().zip(&states).any(|(s, now)| s.now != *now);
    call.t.states.iter_mut().zip(states).for_each(|(s, now)| s.now = now);
    let op = call.op;
    let first = op.outputs.first().map_or("", |o| &o.name);
    call.build().begin(first, first);
    let same = |call: &Call, next: &[ValueId]| next.iter().zip(&starts).all(|(n, s)| call.ty(*n) == call.ty(*s));
    let Some((goes_on, next)) = made.ok().filter(|(_, next)| !changed && same(call, next)) else {
        call.build().abandon(&turn);
        return Ok(None);
    };
    let Some(course) = call.build().course(&turn, &starts, &next, GoesOn::Before(goes_on))? else {
        call.build().abandon(&turn);
        return Ok(None);
    };
    Ok(Some(Counted { turn, starts, next, course }))
}

/// A loop that is not unrolled; `None` if it has no such form.
fn roll(call: &mut Call, items: &[Item], condition: &Block, body: &Block) -> Result<Option<Vec<Item>>, Error> {
    let Some(Counted { mut turn, starts, next, course }) = counted(call, items, condition, body)? else {
        return Ok(None);
    };
    if course.turns == 0 || call.build().has_known_places(&mut turn, &course) {
        call.build().abandon(&turn);
        return Ok(None);
    }
    let results = call.build().rolled(turn, &starts, &next, &[], &course)?;
    Ok(Some(results.into_iter().map(Item::Value).collect()))
}

/// A loop that is a recurrent layer; `None` if it is none.
fn recurrent(call: &mut Call, items: &[Item], condition: &Block, body: &Block) -> Result<Option<Vec<Item>>, Error> {
    let count = |kind: &str| body.operations.iter().filter(|op| op.ty == kind).count();
    if count("linear") != 6 || count("scatter") + count("scatter_nd") != 1 {
        return Ok(None);
    }
    let Some(Counted { turn, starts, next, course }) = counted(call, items, condition, body)? else {
        return Ok(None);
    };
    let results = call.build().gated_loop(&turn, &starts, &next, &course)?;
    if results.is_none() {
        call.build().abandon(&turn);
    }
    Ok(results.map(|results| results.into_iter().map(Item::Value).collect()))
}

/// Condition and next values of an iteration.
fn one_turn(call: &mut Call, turn: &Turn, condition: &Block, body: &Block) -> Result<(ValueId, Vec<ValueId>), Error> {
    let now: Vec<Item> = turn.carried.iter().map(|&id| Item::Value(id)).collect();
    let op = call.op;
    let verdict = call.t.nested(condition, &now, op)?;
    let goes_on = verdict.into_iter().next().ok_or_else(|| call.missing("a condition"))?;
    let goes_on = call.value_of(goes_on, "condition")?;
    let items = call.t.nested(body, &now, op)?;
    let next = items.into_iter().map(|item| call.value_of(item, "body")).collect::<Result<Vec<_>, Error>>()?;
    Ok((goes_on, next))
}
