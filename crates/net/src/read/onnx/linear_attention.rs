//! Linear attention: each step decays, updates and reads a state per head; unrolled over the steps.

use super::attention::heads;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, Unary};

/// Largest number of unrolled steps.
const STEPS: usize = 4096;

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if n.op() != "LinearAttention" {
        return Ok(false);
    }
    let (q_heads, kv_heads) =
        (n.size("q_num_heads", n.int("q_num_heads", 0))?, n.size("kv_num_heads", n.int("kv_num_heads", 0))?);
    let rule = n.text("update_rule").filter(|r| !r.is_empty()).unwrap_or_else(|| "gated_delta".into());
    let (gated, corrected) = match rule.as_str() {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        other => return Err(n.unsupported(format!("`update_rule` is `{other}`"))),
    };
    // The standard prescribes single precision.
    let dtype = n.dtype(n.need(0)?);
    let single = |n: &mut Node, id: ValueId| n.build().cast(id, DType::F32);
    let [q, k, v] = [n.need(0)?, n.need(1)?, n.need(2)?];
    let [q, k, v] = [single(n, q)?, single(n, k)?, single(n, v)?];
    let (q, k, v) = (heads(n, q, q_heads)?, heads(n, k, kv_heads)?, heads(n, v, kv_heads)?);
    let (&[batch, _, steps, width], &[.., value_width]) = (n.shape(q).as_slice(), n.shape(v).as_slice()) else {
        return Err(n.unsupported("operands of rank other than 3"));
    };
    if steps == 0 || steps > STEPS || kv_heads == 0 || !q_heads.is_multiple_of(kv_heads) {
        return Err(n.unsupported(format!("{steps} steps, at most {STEPS}, of {q_heads} heads over {kv_heads}")));
    }
    let scale = Some(n.float("scale", 0.0)).filter(|&s| s != 0.0).unwrap_or(1.0 / (width as f32).sqrt());
    let q = n.build().with(Binary::Mul, q, scale)?;
    // Query heads that share a state are the rows of one product.
    let shared = q_heads / kv_heads;
    let mut decay = None;
    if gated {
        let given = n.need(4)?;
        let given = single(n, given)?;
        let last = n.shape(given).last().copied().unwrap_or(0);
        let apart = n.build().reshape(given, [batch, steps, kv_heads, last / kv_heads])?;
        // A factor per row of the state, or one for all rows.
        let columns = n.build().transpose(apart, &[0, 2, 3, 1])?;
        decay = Some(n.build().unary(Unary::Exp, columns)?);
    }
    let mut rate = None;
    if corrected {
        let given = n.need(5)?;
        let given = single(n, given)?;
        let last = n.shape(given).last().copied().unwrap_or(0);
        let apart = n.build().reshape(given, [batch, steps, last, 1])?;
        rate = Some(n.build().transpose(apart, &[0, 2, 1, 3])?);
    }
    let held = n.input(3).map_or(dtype, |past| n.dtype(past));
    let mut state = n.input(3).map(|past| single(n, past)).transpose()?;
    let columns = n.build().transpose(k, &[0, 1, 3, 2])?;
    let mut results = Vec::with_capacity(steps);
    for step in 0..steps {
        let key = n.build().slice(columns, 3, step, step + 1)?;
        let mut value = n.build().slice(v, 2, step, step + 1)?;
        if let (Some(decay), Some(past)) = (decay, state) {
            let factor = n.build().slice(decay, 3, step, step + 1)?;
            state = Some(n.build().binary(Binary::Mul, past, factor)?);
        }
        if let Some(rate) = rate {
            if let Some(past) = state {
                let row = n.build().slice(k, 2, step, step + 1)?;
                let found = n.build().matmul(row, past, false)?;
                value = n.build().binary(Binary::Sub, value, found)?;
            }
            let rate = n.build().slice(rate, 2, step, step + 1)?;
            value = n.build().binary(Binary::Mul, value, rate)?;
        }
        let written = n.build().binary(Binary::Mul, key, value)?;
        let next = match state {
            Some(past) => n.build().binary(Binary::Add, past, written)?,
            None => written,
        };
        state = Some(next);
        let query = n.build().slice(q, 2, step, step + 1)?;
        let query = n.build().reshape(query, [batch, kv_heads, shared, width])?;
        let read = n.build().matmul(query, next, false)?;
        results.push(n.build().reshape(read, [batch, 1, q_heads * value_width])?);
    }
    let id = n.build().concat(&results, 1)?;
    let id = n.build().cast(id, dtype)?;
    n.output(0, id);
    if let Some(state) = state {
        let state = n.build().cast(state, held)?;
        n.output(1, state);
    }
    n.finish(2)
}
