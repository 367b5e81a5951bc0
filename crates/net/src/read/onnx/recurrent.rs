//! Recurrent layers.

use super::node::Node;
use super::quantized::dequantize;
use crate::build::recurrent::{Cell, Function, Sequence, Steps, Weights};
use crate::error::Error;
use crate::graph::{Data, Tensor, ValueId, elements};
use crate::ops::Unary;

/// ONNX Runtime's LSTM with weights of 8 bits and operands quantized by their own range.
pub const QUANTIZED: &str = "DynamicQuantizeLSTM";

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if matches!(n.op(), "RNN" | "GRU" | "LSTM") { layer(n) } else { Ok(false) }
}

/// A layer's weights, or those of 8 bits with a scale and a zero point for each direction or column, which are stored with gates along
/// the columns.
fn weights(n: &mut Node, at: usize, scale: usize) -> Result<ValueId, Error> {
    let w = n.need(at)?;
    if n.op() != QUANTIZED {
        return Ok(w);
    }
    let directions = n.shape(w)[0];
    let wide = |n: &mut Node, id: ValueId| {
        let columns = elements(&n.shape(id)) / directions;
        n.build().reshape(id, [directions, 1, columns])
    };
    let factor = n.need(scale)?;
    let factor = wide(n, factor)?;
    let zero = n.input(scale + 1).map(|zero| wide(n, zero)).transpose()?;
    let w = dequantize(n, w, factor, zero)?;
    n.build().transpose(w, &[0, 2, 1])
}

pub fn layer(n: &mut Node) -> Result<bool, Error> {
    let mut x = n.need(0)?;
    let batch_first = n.flag("layout", false);
    if batch_first {
        x = n.build().transpose(x, &[1, 0, 2])?;
    }
    let &[steps, batch, _] = n.shape(x).as_slice() else { return Err(n.unsupported("operand not of rank 3")) };
    let directions = match n.text("direction").as_deref() {
        None | Some("forward") => vec![false],
        Some("reverse") => vec![true],
        Some("bidirectional") => vec![false, true],
        Some(other) => return Err(n.unsupported(format!("direction `{other}`"))),
    };
    let (clip, lengths) = (n.attribute("clip").map(|a| a.f), n.input(4));
    let functions = functions(n, directions.len())?;
    let (w, r) = (weights(n, 1, 8)?, weights(n, 2, 10)?);
    let hidden = n.shape(r)[2];
    let mut runs = Vec::new();
    for (d, &backwards) in directions.iter().enumerate() {
        let side = |n: &mut Node, x: ValueId| {
            let part = n.build().slice(x, 0, d, d + 1)?;
            let shape = n.shape(part)[1..].to_vec();
            n.build().reshape(part, shape)
        };
        let (input, recurrent) = (side(n, w)?, side(n, r)?);
        let rows = n.shape(input)[0];
        let (mut input_bias, mut recurrent_bias) = (None, None);
        if let Some(bias) = n.input(3) {
            let bias = side(n, bias)?;
            input_bias = Some(n.build().slice(bias, 0, 0, rows)?);
            recurrent_bias = Some(n.build().slice(bias, 0, rows, 2 * rows)?);
        }
        let start = |n: &mut Node, index: usize| match n.input(index) {
            Some(mut all) => {
                if batch_first {
                    all = n.build().transpose(all, &[1, 0, 2])?;
                }
                side(n, all)
            }
            None => {
                let data = Data::from_f32(n.dtype(x), &vec![0.0; batch * hidden]);
                Ok(n.build().constant("zeros", Tensor { shape: vec![batch, hidden], data }))
            }
        };
        let state = start(n, 5)?;
        let cell = if n.op().ends_with("LSTM") { Some(start(n, 6)?) } else { None };
        let kind = kind(n, d, hidden, &functions)?;
        let weights = Weights { input, recurrent, input_bias, recurrent_bias };
        let course = Steps { backwards, clip, lengths, quantized: n.op() == QUANTIZED };
        runs.push(n.build().recurrent(&kind, x, &weights, (state, cell), course)?);
    }
    give(n, &runs, steps, batch_first)
}

/// Activations in the order of the standard, those of the second direction last. Each takes the next number of a list that it has a
/// parameter in.
fn functions(n: &Node, directions: usize) -> Result<Vec<Function>, Error> {
    let defaults = match n.op() {
        "LSTM" | QUANTIZED => ["Sigmoid", "Tanh", "Tanh"].as_slice(),
        "GRU" => &["Sigmoid", "Tanh"],
        _ => &["Tanh"],
    };
    let named = n.attribute("activations").map(|a| a.strings.clone()).unwrap_or_default();
    let list = |name: &str| n.attribute(name).map(|a| a.floats.clone()).unwrap_or_default().into_iter();
    let (mut alphas, mut betas) = (list("activation_alpha"), list("activation_beta"));
    let one = |at: usize| {
        let name = match named.get(at) {
            Some(name) => String::from_utf8_lossy(name).into_owned(),
            None => defaults[at % defaults.len()].to_string(),
        };
        activation(&name, &mut alphas, &mut betas).ok_or_else(|| n.unsupported(format!("activation `{name}`")))
    };
    (0..directions * defaults.len()).map(one).collect()
}

fn kind(n: &mut Node, direction: usize, hidden: usize, functions: &[Function]) -> Result<Cell, Error> {
    let function = |of: usize, i: usize| functions[direction * of + i];
    Ok(match n.op() {
        "RNN" => Cell::Plain(function(1, 0)),
        "GRU" => Cell::Gated {
            gate: function(2, 0),
            candidate: function(2, 1),
            // Rows are update, reset, candidate gates.
            order: [1, 0, 2],
            after: n.flag("linear_before_reset", false),
        },
        _ => {
            let (gate, candidate, output) = (function(3, 0), function(3, 1), function(3, 2));
            let peephole = match n.input(7) {
                None => None,
                Some(all) => {
                    let width = elements(&n.shape(all)) / n.shape(all)[0];
                    let flat = n.build().slice(all, 0, direction, direction + 1)?;
                    let flat = n.build().reshape(flat, [width])?;
                    let part = |n: &mut Node, i: usize| n.build().slice(flat, 0, i * hidden, (i + 1) * hidden);
                    // The order is input, output, forget.
                    Some([part(n, 0)?, part(n, 2)?, part(n, 1)?])
                }
            };
            // Rows are input, output, forget, cell gates.
            let order = [0, 2, 1, 3];
            Cell::Long { gate, candidate, output, order, peephole, coupled: n.flag("input_forget", false) }
        }
    })
}

fn activation(
    name: &str,
    alphas: &mut impl Iterator<Item = f32>,
    betas: &mut impl Iterator<Item = f32>,
) -> Option<Function> {
    let (mut alpha, mut beta) = (|default| alphas.next().or(default), |default| betas.next().or(default));
    Some(Function::Unary(match name.to_ascii_lowercase().as_str() {
        "relu" => Unary::Relu,
        "tanh" => Unary::Tanh,
        "sigmoid" => Unary::Sigmoid,
        "leakyrelu" => Unary::LeakyRelu { alpha: alpha(Some(0.01))? },
        "elu" => Unary::Elu { alpha: alpha(Some(1.0))? },
        "hardsigmoid" => Unary::SigmoidHard { alpha: alpha(Some(0.2))?, beta: beta(Some(0.5))? },
        "scaledtanh" => Unary::ScaledTanh { alpha: alpha(None)?, beta: beta(None)? },
        "softsign" => Unary::Softsign,
        "softplus" => Unary::Softplus,
        "affine" => return Some(Function::Affine(alpha(None)?, beta(None)?)),
        "thresholdedrelu" => return Some(Function::Above(alpha(Some(1.0))?)),
        _ => return None,
    }))
}

/// Binds the outputs `[S, D, N, H]`, `[D, N, H]` and the cell, or the same with the batch first.
fn give(n: &mut Node, runs: &[Sequence], steps: usize, batch_first: bool) -> Result<bool, Error> {
    let wanted = |n: &Node, i: usize| n.node.output.get(i).is_some_and(|o| !o.is_empty());
    if wanted(n, 0) {
        let all = n.build().all_states(runs)?;
        let shape = n.shape(all);
        let sides = n.build().reshape(all, [runs.len(), shape[0] / runs.len(), steps, shape[2]])?;
        let id = n.build().transpose(sides, if batch_first { &[3, 2, 0, 1] } else { &[2, 0, 3, 1] })?;
        n.output(0, id);
    }
    for (index, cell) in [(1, false), (2, true)] {
        if !wanted(n, index) {
            continue;
        }
        let each: Option<Vec<ValueId>> = runs.iter().map(|r| if cell { r.cell } else { Some(r.last) }).collect();
        let each = each.ok_or_else(|| n.unsupported("a third output"))?;
        let rows = each.iter().map(|&state| n.build().as_rows(&[state])).collect::<Result<Vec<ValueId>, Error>>()?;
        let id = n.build().stack(&rows, usize::from(batch_first))?;
        n.output(index, id);
    }
    n.finish(3)
}
