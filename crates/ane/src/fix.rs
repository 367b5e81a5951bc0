//! Operations that a chip refuses, written in forms that it takes, where the results stay what they were.

mod conv;

use crate::convert::random_inputs;
use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_compile::check::{Placement, Route, Verdict, check};
use anemone_facts::chips::Chip;
use anemone_net::outline::Outline;
use anemone_net::{Binary, Data, EdgeMode, Net, Op, OpKind, Tensor, TensorType, Unary, Value, ValueId, eval};
use std::sync::Arc;

/// A change that was made.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Name of the operation's result.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Form that it was rewritten to.
    pub into: String,
}

/// An operation that stays refused.
#[derive(Clone, Debug)]
pub struct Left {
    /// Name of the operation's result.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Reason of the refusal.
    pub reason: String,
    /// Advice.
    pub fix: String,
}

/// Result of rewriting a network.
#[derive(Debug)]
pub struct Fixed {
    /// The network, changed.
    pub net: Net,
    /// Changes that were made.
    pub applied: Vec<Applied>,
    /// Operations left unchanged.
    pub left: Vec<Left>,
    /// Operations, and those of them on the engine: before and after.
    pub counts: [(usize, usize); 2],
    /// Largest change of an output as a share of the largest output, on random inputs in fp32.
    pub error: f32,
}

/// Largest share of an output that a change may cost: sums in another order.
const SHARE: f32 = 1e-4;

/// Applies what is known for every refused operation.
pub fn fix(net: &Net, chip: &'static Chip, seed: u64) -> Result<Fixed> {
    let placed = |net: &Net| check(&Outline::of(net), chip, Route::Direct);
    let before = placed(net);
    let mut rewriter = Rewriter { net: Net { ops: Vec::new(), ..net.clone() }, chip, name: String::new(), parts: 0 };
    let mut applied = Vec::new();
    for (op, verdict) in net.ops.iter().zip(&before.verdicts) {
        let whole = rewriter.net.ops.len();
        let made = verdict.refusal.as_ref().and_then(|_| rewriter.rewrite(net, op));
        match made {
            Some(into) => applied.push(Applied { name: name(net, op), op: op.kind.name().into(), into }),
            None => {
                rewriter.net.ops.truncate(whole);
                rewriter.net.ops.push(op.clone());
            }
        }
    }
    let fixed = rewriter.net;
    anemone_net::check::check(&fixed).map_err(|faults| {
        let first = faults.first().map_or(String::new(), ToString::to_string);
        Diagnostic::new(Code::Defect, format!("the changed network does not hold together: {first}"))
    })?;
    let error = error(net, &fixed, seed)?;
    if error > SHARE {
        let message = format!("the changes cost {error:.2e} of the largest output, at most {SHARE:.0e} is taken");
        return Err(Diagnostic::new(Code::Defect, message));
    }
    let after = placed(&fixed);
    let left = fixed.ops.iter().zip(&after.verdicts).filter_map(|(op, verdict)| left(&fixed, op, verdict)).collect();
    Ok(Fixed { net: fixed, applied, left, counts: [count(&before), count(&after)], error })
}

fn name(net: &Net, op: &Op) -> String {
    op.outputs.first().map_or_else(|| op.name.clone(), |&id| net.value(id).name.clone())
}

fn left(net: &Net, op: &Op, verdict: &Verdict) -> Option<Left> {
    let refusal = verdict.refusal.as_ref()?;
    let (reason, fix) = (refusal.message.clone(), refusal.fix.clone());
    Some(Left { name: name(net, op), op: op.kind.name().into(), reason, fix })
}

fn count(placement: &Placement) -> (usize, usize) {
    let total = placement.verdicts.len();
    (total, total - placement.fallbacks())
}

/// Largest difference of the outputs as a share of the largest of them.
fn error(net: &Net, fixed: &Net, seed: u64) -> Result<f32> {
    let failed = |e: anemone_net::Error| Diagnostic::new(Code::Malformed, e.to_string());
    let inputs = random_inputs(net, seed);
    let (before, after) = (eval::eval(net, &inputs).map_err(failed)?, eval::eval(fixed, &inputs).map_err(failed)?);
    let (mut worst, mut largest) = (0f32, 0f32);
    for (a, b) in before.iter().zip(&after) {
        for (x, y) in a.data.to_f32().into_iter().zip(b.data.to_f32()) {
            if x != y && !(x.is_nan() && y.is_nan()) {
                worst = worst.max((x - y).abs());
            }
            largest = largest.max(x.abs());
        }
    }
    Ok(if worst == 0.0 { 0.0 } else { worst / largest.max(f32::MIN_POSITIVE) })
}

/// Puts operations at the end of a network under construction.
struct Rewriter {
    net: Net,
    chip: &'static Chip,
    /// Name of the result that is being rewritten.
    name: String,
    parts: usize,
}

impl Rewriter {
    /// Rewrites an operation and describes its new form; `None` where no rewrite of its form is known.
    fn rewrite(&mut self, net: &Net, op: &Op) -> Option<String> {
        self.name = name(net, op);
        self.parts = 0;
        let [result] = op.outputs[..] else { return None };
        match &op.kind {
            OpKind::Conv { .. } => conv::rewrite(self, op, result),
            OpKind::Concat { .. } if op.inputs.len() == 1 => {
                self.finish(OpKind::Unary(Unary::Identity), &[op.inputs[0]], result);
                Some("its operand".into())
            }
            OpKind::PadEdge { pads, mode } => self.edges(op.inputs[0], pads, *mode, result),
            _ => None,
        }
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

    /// An operation with a result of its own.
    fn push(&mut self, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
        self.parts += 1;
        let name = format!("{}.{}", self.name, self.parts);
        let ty = TensorType { dtype: self.net.value(inputs[0]).ty.dtype, shape };
        let result = self.net.add_value(Value { name: name.clone(), ty, data: None, surface: None });
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![result] });
        result
    }

    /// The last operation, whose result is the one that was asked for.
    fn finish(&mut self, kind: OpKind, inputs: &[ValueId], result: ValueId) {
        let name = self.name.clone();
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![result] });
    }

    /// A constant like another, with other elements.
    fn constant(&mut self, like: ValueId, shape: Vec<usize>, values: Vec<f32>) -> ValueId {
        self.parts += 1;
        let name = format!("{}.{}", self.name, self.parts);
        let dtype = self.net.value(like).ty.dtype;
        let data = Data::from_f32(dtype, &values);
        let tensor = Tensor { shape: shape.clone(), data };
        let ty = TensorType { dtype, shape };
        self.net.add_value(Value { name, ty, data: Some(Arc::new(tensor)), surface: None })
    }

    fn slice(&mut self, x: ValueId, axis: usize, range: std::ops::Range<usize>) -> ValueId {
        let mut shape = self.shape(x);
        let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
        (begin[axis], end[axis]) = (range.start, range.end);
        shape[axis] = range.len();
        let stride = vec![1; shape.len()];
        self.push(OpKind::Slice { begin, end, stride }, &[x], shape)
    }

    /// Borders by slices of single elements, axis after axis.
    fn edges(&mut self, x: ValueId, pads: &[(usize, usize)], mode: EdgeMode, result: ValueId) -> Option<String> {
        /// Most slices of one axis.
        const MOST: usize = 64;
        let axes: Vec<usize> = (0..pads.len()).filter(|&axis| pads[axis] != (0, 0)).collect();
        if axes.is_empty() || axes.iter().any(|&axis| pads[axis].0 + pads[axis].1 > MOST) {
            return None;
        }
        let (mut value, last) = (x, *axes.last()?);
        for axis in axes {
            let (before, after) = pads[axis];
            let mut shape = self.shape(value);
            let n = shape[axis];
            let from = |outside: usize, end: bool| match (mode, end) {
                (EdgeMode::Reflect, false) => outside,
                (EdgeMode::Reflect, true) => n - 1 - outside,
                (EdgeMode::Replicate, false) => 0,
                (EdgeMode::Replicate, true) => n - 1,
            };
            let mut all: Vec<ValueId> = Vec::new();
            for outside in (1..=before).rev() {
                let at = from(outside, false);
                all.push(self.slice(value, axis, at..at + 1));
            }
            all.push(value);
            for outside in 1..=after {
                let at = from(outside, true);
                all.push(self.slice(value, axis, at..at + 1));
            }
            shape[axis] += before + after;
            if axis == last {
                self.finish(OpKind::Concat { axis }, &all, result);
            } else {
                value = self.push(OpKind::Concat { axis }, &all, shape);
            }
        }
        Some("slices of its border and a concat".into())
    }

    fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let shape = self.shape(a);
        self.push(OpKind::Binary(Binary::Add), &[a, b], shape)
    }
}
