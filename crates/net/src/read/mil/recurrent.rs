//! MIL recurrent layers.

use super::call::Call;
use crate::build::recurrent::{Cell, Function, Sequence, Steps, Weights};
use crate::error::Error;
use crate::graph::ValueId;
use crate::ops::Unary;

/// Translates the operation if it belongs to this group; returns false otherwise.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    let kind = match call.op.ty.as_str() {
        "rnn" => Cell::Plain(activation(call, "activation", "tanh")?),
        "gru" => Cell::Gated {
            gate: activation(call, "recurrent_activation", "sigmoid")?,
            candidate: activation(call, "activation", "tanh")?,
            // Rows are reset, candidate, update.
            order: [0, 2, 1],
            after: true,
        },
        "lstm" => long(call, "peephole")?,
        _ => return Ok(false),
    };
    let x = call.operand("x")?;
    let direction = call.text("direction")?.unwrap_or_else(|| "forward".to_string());
    let clip = call.tensor("clip")?.and_then(|t| t.data.to_f32().first().copied());
    let (hidden, cell) = (call.operand("initial_h")?, call.optional("initial_c")?);
    let forward = weights(call, "")?;
    match direction.as_str() {
        "forward" | "reverse" => {
            let course = Steps { backwards: direction == "reverse", clip, ..Steps::default() };
            let run = call.build().recurrent(&kind, x, &forward, (hidden, cell), course)?;
            give(call, &[run])
        }
        "bidirectional" if call.op.ty == "lstm" => {
            let back = weights(call, "_back")?;
            let back_kind = long(call, "peephole_back")?;
            let size = call.shape(hidden)[1] / 2;
            let half = |call: &mut Call, x: ValueId, i: usize| call.build().slice(x, 1, i * size, (i + 1) * size);
            let mut runs = Vec::with_capacity(2);
            for (i, (kind, weights)) in [(&kind, &forward), (&back_kind, &back)].into_iter().enumerate() {
                let hidden = half(call, hidden, i)?;
                let cell = cell.map(|cell| half(call, cell, i)).transpose()?;
                let course = Steps { backwards: i == 1, clip, ..Steps::default() };
                runs.push(call.build().recurrent(kind, x, weights, (hidden, cell), course)?);
            }
            give(call, &runs)
        }
        other => Err(call.unsupported(&format!("direction `{other}`"))),
    }
}

fn long(call: &mut Call, peephole: &str) -> Result<Cell, Error> {
    let peephole = match call.optional(peephole)? {
        None => None,
        Some(all) => {
            let size = call.shape(all)[0] / 3;
            let part = |call: &mut Call, i: usize| call.build().slice(all, 0, i * size, (i + 1) * size);
            Some([part(call, 0)?, part(call, 1)?, part(call, 2)?])
        }
    };
    Ok(Cell::Long {
        gate: activation(call, "recurrent_activation", "sigmoid")?,
        candidate: activation(call, "cell_activation", "tanh")?,
        output: activation(call, "activation", "tanh")?,
        order: [0, 1, 2, 3],
        peephole,
        coupled: false,
    })
}

fn weights(call: &mut Call, suffix: &str) -> Result<Weights, Error> {
    Ok(Weights {
        input: call.operand(&format!("weight_ih{suffix}"))?,
        recurrent: call.operand(&format!("weight_hh{suffix}"))?,
        input_bias: call.optional(&format!("bias{suffix}"))?,
        recurrent_bias: None,
    })
}

fn activation(call: &Call, name: &str, default: &str) -> Result<Function, Error> {
    let found = call.text(name)?.unwrap_or_else(|| default.to_string());
    Ok(Function::Unary(match found.as_str() {
        "sigmoid" => Unary::Sigmoid,
        "tanh" => Unary::Tanh,
        "relu" => Unary::Relu,
        "linear" => Unary::Identity,
        "hard_sigmoid" => Unary::SigmoidHard { alpha: 0.2, beta: 0.5 },
        "scaled_tanh" => Unary::ScaledTanh { alpha: 1.7159, beta: 2.0 / 3.0 },
        other => return Err(call.unsupported(&format!("{name} `{other}`"))),
    }))
}

/// States of all steps or the last, then the last state and cell; two directions are concatenated.
fn give(call: &mut Call, runs: &[Sequence]) -> Result<bool, Error> {
    let lasts: Vec<ValueId> = runs.iter().map(|r| r.last).collect();
    let sequence = if call.flag("output_sequence", false)? {
        let all = call.build().all_states(runs)?;
        call.build().transpose(all, &[1, 2, 0])?
    } else {
        let last = call.build().as_rows(&lasts)?;
        call.build().stack(&[last], 0)?
    };
    call.done(0, sequence)?;
    if call.op.outputs.len() > 1 {
        let last = call.build().as_rows(&lasts)?;
        call.done(1, last)?;
    }
    if call.op.outputs.len() > 2 {
        let cells: Option<Vec<ValueId>> = runs.iter().map(|r| r.cell).collect();
        let cells = cells.ok_or_else(|| call.missing("initial_c"))?;
        let cell = call.build().as_rows(&cells)?;
        call.done(2, cell)?;
    }
    Ok(true)
}
