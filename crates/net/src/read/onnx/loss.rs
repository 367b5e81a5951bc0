//! Loss functions that are arithmetic on inputs.

use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let cross = match n.op() {
        "SoftmaxCrossEntropyLoss" => true,
        "NegativeLogLikelihoodLoss" => false,
        _ => return Ok(false),
    };
    let scores = n.need(0)?;
    if n.shape(scores).len() < 2 {
        return Err(n.unsupported("scores without an axis of classes"));
    }
    let logs = if cross { n.build().log_softmax(scores, 1)? } else { scores };
    let id = loss(n, logs)?;
    n.output(0, id);
    if cross {
        n.output(1, logs);
    }
    n.finish(2)
}

/// Negative log-likelihood `[N, C, d...]` at the targets `[N, d...]`, weighted by class and reduced as the node requests.
fn loss(n: &mut Node, logs: ValueId) -> Result<ValueId, Error> {
    let target = n.need(1)?;
    let places = n.shape(target);
    let target = n.build().cast(target, DType::I32)?;
    // Ignored targets may name no class: they read the first with weight zero.
    let (target, ignored) = match n.attribute("ignore_index") {
        None => (target, None),
        Some(a) => {
            let index = a.i.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            let index = n.build().integers([], vec![index]);
            let ignored = n.build().binary(Binary::Equal, target, index)?;
            let zero = n.build().integers([], vec![0]);
            (n.build().select(ignored, zero, target)?, Some(ignored))
        }
    };
    let mut wide = places.clone();
    wide.insert(1.min(wide.len()), 1);
    let along = n.build().reshape(target, wide)?;
    let picked = n.build().op("picked", OpKind::GatherAlong { axis: 1 }, &[logs, along])?;
    let picked = n.build().reshape(picked, places.clone())?;
    let mut loss = n.build().unary(Unary::Neg, picked)?;
    let mut weights = match n.input(2) {
        Some(weights) => Some(n.build().gather(weights, target, 0)?),
        None => None,
    };
    if let Some(ignored) = ignored {
        let (zero, one) = (n.build().scalar(0.0, loss), n.build().scalar(1.0, loss));
        let kept = weights.unwrap_or(one);
        weights = Some(n.build().select(ignored, zero, kept)?);
        loss = n.build().select(ignored, zero, loss)?;
    }
    if let Some(weights) = weights {
        loss = n.build().binary(Binary::Mul, loss, weights)?;
    }
    let axes: Vec<usize> = (0..places.len()).collect();
    let total = |n: &mut Node, x: ValueId| n.build().reduce(ReduceKind::Sum, x, &axes, false);
    match (n.text("reduction").as_deref().unwrap_or("mean"), weights) {
        ("none", _) => Ok(loss),
        ("sum", _) => total(n, loss),
        ("mean", None) => n.build().reduce(ReduceKind::Mean, loss, &axes, false),
        ("mean", Some(weights)) => {
            let (sum, count) = (total(n, loss)?, total(n, weights)?);
            n.build().binary(Binary::Div, sum, count)
        }
        (other, _) => Err(n.unsupported(format!("reduction `{other}`"))),
    }
}
