//! Evaluation of counted loops, one iteration at a time.

use super::{Buffer, Round, View, load, movement, operations};
use crate::error::Error;
use crate::graph::{TensorType, Value, ValueId};
use crate::ops::Loop;
use std::sync::Arc;

/// Results of a loop on these operands, carried values first.
pub fn run(l: &Loop, operands: &[Arc<Buffer>], round: Round) -> Result<Vec<Buffer>, Error> {
    let body = &l.body;
    let ty = |id: ValueId| &body.value(id).ty;
    // Constants are converted once.
    let of_value = |value: &Value| value.data.as_ref().map(|data| Arc::new(Buffer::from(&data.data)));
    let mut start: Vec<Option<Arc<Buffer>>> = body.values.iter().map(of_value).collect();
    let unchanging = l.carried + l.scanned.len();
    for (id, operand) in body.inputs.iter().zip(operands).skip(unchanging) {
        start[id.0 as usize] = Some(operand.clone());
    }
    let mut carried = operands[..l.carried].to_vec();
    let mut collected: Vec<Vec<Arc<Buffer>>> = vec![Vec::with_capacity(l.turns); l.collected.len()];
    for turn in 0..l.turns {
        let mut values = start.clone();
        for (id, value) in body.inputs.iter().zip(carried) {
            values[id.0 as usize] = Some(value);
        }
        for ((scan, &id), whole) in l.scanned.iter().zip(&body.inputs[l.carried..]).zip(&operands[l.carried..]) {
            let part = ty(id);
            let mut all = part.clone();
            all.shape[scan.axis] *= l.turns;
            let mut begin = vec![0; part.shape.len()];
            begin[scan.axis] = scan.part(turn, l.turns) * part.shape[scan.axis];
            let view = View { ty: &all, buffer: whole };
            let own = movement::slice(view, &begin, &vec![1; begin.len()], &part.shape);
            values[id.0 as usize] = Some(Arc::new(own));
        }
        operations(body, &mut values, round, &mut |_, _| {})?;
        let mut made = body.outputs.iter().map(|&id| load(body, &mut values, id));
        carried = made.by_ref().take(l.carried).collect();
        collected.iter_mut().zip(made).for_each(|(list, part)| list.push(part));
    }
    let mut results: Vec<Buffer> = carried.into_iter().map(|value| (*value).clone()).collect();
    for ((scan, mut parts), &id) in l.collected.iter().zip(collected).zip(&body.outputs[l.carried..]) {
        if scan.backwards {
            parts.reverse();
        }
        let part = ty(id);
        let views: Vec<View> = parts.iter().map(|buffer| View { ty: part, buffer }).collect();
        let mut whole: TensorType = part.clone();
        whole.shape[scan.axis] *= l.turns;
        results.push(movement::concat(&views, scan.axis, &whole));
    }
    Ok(results)
}
