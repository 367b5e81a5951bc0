//! Rewrites of operations that a chip refuses into forms that it supports, with unchanged results.
//!
//! Only the check of Apple's compiler decides, so that models can be fixed for every chip of the table, including chips without a
//! compiler here. A rewrite is applied only if the check accepts every operation that it consists of.

mod conv;
mod pool;
mod resize;
mod shape;
mod transposed;

use crate::convert::random_inputs;
use crate::diagnostic::{Code, Diagnostic, Result};
use anemone_check::{Placement, Route, Verdict, check};
use anemone_facts::chips::Chip;
use anemone_net::outline::Outline;
use anemone_net::{Binary, Data, Net, Op, OpKind, Tensor, TensorType, Value, ValueId, eval};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An applied rewrite.
#[derive(Clone, Debug)]
pub struct Applied {
    /// Name of the operation's result.
    pub name: String,
    /// The operation.
    pub op: String,
    /// Form that it was rewritten to.
    pub into: String,
}

/// A refused operation that is left unchanged.
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
    /// The rewritten network.
    pub net: Net,
    /// Applied rewrites.
    pub applied: Vec<Applied>,
    /// Operations left unchanged.
    pub left: Vec<Left>,
    /// Numbers of operations, and of those that Apple's compiler accepts: before and after.
    pub counts: [(usize, usize); 2],
    /// Largest change of an output relative to the largest output, on random inputs in fp32.
    pub error: f32,
}

/// Largest relative change of an output that a rewrite may cause, by another order of sums.
const SHARE: f32 = 1e-4;

/// Applies the known rewrites to every refused operation. `source` has the operations of the file, if the reader decomposed
/// some: an operation that the reader decomposes into supported parts is fixed by that.
///
/// Errors: a network that cannot be evaluated; a defect if the rewritten network is invalid.
pub fn fix(net: &Net, source: Option<&Outline>, chip: &'static Chip, seed: u64) -> Result<Fixed> {
    let own = Outline::of(net);
    let before = check(&own, chip, Route::Direct);
    let mut banned: HashSet<String> = HashSet::new();
    let (rewriter, mut applied, after) = accepted(net, &before, chip, &mut banned);
    let mut error = difference(net, &rewriter.net, seed)?;
    let (mut fixed, mut after) = (rewriter.net, after);
    // Rewrites that change results are undone, the last first, until the results are kept.
    while error > SHARE
        && let Some(last) = applied.last()
    {
        banned.insert(last.name.clone());
        let again = accepted(net, &before, chip, &mut banned);
        (fixed, applied, after) = (again.0.net, again.1, again.2);
        error = difference(net, &fixed, seed)?;
    }
    let mut left: Vec<Left> =
        fixed.ops.iter().zip(&after.verdicts).filter_map(|(op, v)| unfixed(&fixed, op, v)).collect();
    let first = match source {
        None => count(&before),
        Some(source) => {
            let placed = check(source, chip, Route::Direct);
            by_source(source, &placed, &fixed, &mut applied, &mut left);
            count(&placed)
        }
    };
    Ok(Fixed { net: fixed, applied, left, counts: [first, count(&after)], error })
}

/// The rewrites whose operations the check all accepts.
fn accepted<'a>(
    net: &'a Net,
    before: &Placement,
    chip: &'static Chip,
    banned: &mut HashSet<String>,
) -> (Rewriter<'a>, Vec<Applied>, Placement) {
    loop {
        let (rewriter, applied) = rewritten(net, before, chip, banned);
        let after = check(&Outline::of(&rewriter.net), chip, Route::Direct);
        let refused = refused(&rewriter.net, &after);
        let failed = applied.iter().filter(|a| refused.iter().any(|name| part_of(name, &a.name)));
        let mut failed: Vec<String> = failed.map(|a| a.name.clone()).collect();
        if failed.is_empty() {
            return (rewriter, applied, after);
        }
        let together = rewriter.groups.iter().filter(|group| failed.iter().any(|name| group.contains(name)));
        let others: Vec<String> = together.flatten().cloned().collect();
        failed.extend(others);
        banned.extend(failed);
    }
}

/// Difference of the outputs, for valid networks.
fn difference(net: &Net, fixed: &Net, seed: u64) -> Result<f32> {
    anemone_net::check::check(fixed).map_err(|faults| {
        let first = faults.first().map_or(String::new(), ToString::to_string);
        Diagnostic::new(Code::Defect, format!("the rewritten network is invalid: {first}"))
    })?;
    error(net, fixed, seed)
}

/// Refused operations of a model that is not a static graph and cannot be rewritten.
pub fn listed(source: &Outline, chip: &'static Chip) -> (Vec<Left>, (usize, usize)) {
    let placed = check(source, chip, Route::Direct);
    let left = source.ops.iter().zip(&placed.verdicts).filter_map(|(op, verdict)| {
        let refusal = verdict.refusal.as_ref()?;
        let (reason, fix) = (refusal.message.clone(), refusal.fix.clone());
        Some(Left { name: op.name.clone(), op: op.op.clone(), reason, fix })
    });
    (left.collect(), count(&placed))
}

/// One pass over the operations; those with banned names stay unchanged.
fn rewritten<'a>(
    net: &'a Net,
    before: &Placement,
    chip: &'static Chip,
    banned: &HashSet<String>,
) -> (Rewriter<'a>, Vec<Applied>) {
    let mut rewriter = Rewriter {
        net: Net { ops: Vec::new(), ..net.clone() },
        before: net,
        chip,
        name: String::new(),
        parts: 0,
        aliases: HashMap::new(),
        groups: Vec::new(),
    };
    let mut applied = Vec::new();
    for (op, verdict) in net.ops.iter().zip(&before.verdicts) {
        let whole = rewriter.net.ops.len();
        let name = name(net, op);
        let wanted = (verdict.refusal.is_some() && !banned.contains(&name)) || rewriter.follows(op);
        let made = wanted.then(|| rewriter.rewrite(op)).flatten();
        match made {
            Some(into) => applied.push(Applied { name, op: op.kind.name().into(), into }),
            None => {
                rewriter.net.ops.truncate(whole);
                rewriter.net.ops.push(op.clone());
            }
        }
    }
    (rewriter, applied)
}

/// Returns true for the name of a result, and for those of its parts.
fn part_of(name: &str, of: &str) -> bool {
    name.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Names of the results that are refused.
fn refused(net: &Net, placement: &Placement) -> Vec<String> {
    let bad = net.ops.iter().zip(&placement.verdicts).filter(|(_, verdict)| verdict.refusal.is_some());
    bad.map(|(op, _)| name(net, op)).collect()
}

/// Reports the file's operations instead of the reader's: those that their decomposition fixes, and those that are left, by the file's names.
fn by_source(source: &Outline, placed: &Placement, fixed: &Net, applied: &mut Vec<Applied>, left: &mut Vec<Left>) {
    for (op, verdict) in source.ops.iter().zip(&placed.verdicts) {
        let Some(refusal) = &verdict.refusal else { continue };
        let own = |name: &str| op.outputs.iter().any(|output| part_of(name, &output.name));
        if left.iter().any(|l| own(&l.name)) {
            let (reason, fix) = (refusal.message.clone(), refusal.fix.clone());
            let first = left.iter().position(|l| own(&l.name)).unwrap_or(0);
            left.retain(|l| !own(&l.name));
            left.insert(first.min(left.len()), Left { name: op.name.clone(), op: op.op.clone(), reason, fix });
        } else if !applied.iter().any(|a| own(&a.name)) {
            let mut kinds: Vec<&str> = Vec::new();
            for part in fixed.ops.iter().filter(|part| own(&name(fixed, part))) {
                let kind = part.kind.name();
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
            let into = if kinds.is_empty() { "nothing: its result is not needed".into() } else { kinds.join(", ") };
            applied.push(Applied { name: op.name.clone(), op: op.op.clone(), into });
        }
    }
}

fn name(net: &Net, op: &Op) -> String {
    op.outputs.first().map_or_else(|| op.name.clone(), |&id| net.value(id).name.clone())
}

fn unfixed(net: &Net, op: &Op, verdict: &Verdict) -> Option<Left> {
    let refusal = verdict.refusal.as_ref()?;
    let (reason, fix) = (refusal.message.clone(), refusal.fix.clone());
    Some(Left { name: name(net, op), op: op.kind.name().into(), reason, fix })
}

fn count(placement: &Placement) -> (usize, usize) {
    let total = placement.verdicts.len();
    (total, total - placement.fallbacks())
}

/// Largest difference of the outputs relative to the largest output.
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

/// Appends operations to a network under construction.
struct Rewriter<'a> {
    net: Net,
    /// The original network.
    before: &'a Net,
    chip: &'static Chip,
    /// Name of the result being rewritten.
    name: String,
    parts: usize,
    /// Values with too many axes that are not computed, each with a value that has the same elements in order.
    aliases: HashMap<ValueId, ValueId>,
    /// Names of operations that must be rewritten together.
    groups: Vec<HashSet<String>>,
}

impl Rewriter<'_> {
    /// Returns true if an operand is not computed, so that the operation must be rewritten.
    fn follows(&self, op: &Op) -> bool {
        op.inputs.iter().any(|id| self.aliases.contains_key(id))
    }

    /// Rewrites an operation and describes its new form; `None` if no rewrite is known.
    fn rewrite(&mut self, op: &Op) -> Option<String> {
        self.name = name(self.before, op);
        self.parts = 0;
        let [result] = op.outputs[..] else { return None };
        match &op.kind {
            OpKind::Conv { .. } => conv::rewrite(self, op, result),
            OpKind::ConvTranspose { .. } => transposed::rewrite(self, op, result),
            OpKind::Pool { .. } => pool::rewrite(self, op, result),
            OpKind::Concat { axis } => shape::concat(self, *axis, &op.inputs, result),
            OpKind::PadEdge { pads, mode } => shape::edges(self, op.inputs[0], pads, *mode, result),
            OpKind::Pad { pads, value } => shape::pad(self, op.inputs[0], pads, *value, result),
            OpKind::Gather { axis } => shape::gather(self, op, *axis, result),
            OpKind::Reshape => shape::reshape(self, op, result),
            OpKind::Transpose { perm } => shape::transpose(self, op, perm, result),
            OpKind::Resize { .. } => resize::rewrite(self, op, result),
            _ => None,
        }
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

    /// An unused name for a part of the result.
    fn part(&mut self) -> String {
        self.parts += 1;
        format!("{}.{}", self.name, self.parts)
    }

    /// A value with the element type of another, for a later operation.
    fn value(&mut self, like: ValueId, shape: Vec<usize>) -> ValueId {
        let name = self.part();
        let ty = TensorType { dtype: self.net.value(like).ty.dtype, shape };
        self.net.add_value(Value { name, ty, data: None, surface: None })
    }

    /// Appends an operation with a new result.
    fn push(&mut self, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
        let result = self.value(inputs[0], shape);
        self.finish(kind, inputs, result);
        result
    }

    /// Appends an operation with the given result, or a new one.
    fn into(&mut self, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>, result: Option<ValueId>) -> ValueId {
        match result {
            None => self.push(kind, inputs, shape),
            Some(result) => {
                self.finish(kind, inputs, result);
                result
            }
        }
    }

    /// Appends an operation with an existing result.
    fn finish(&mut self, kind: OpKind, inputs: &[ValueId], result: ValueId) {
        let name = self.net.value(result).name.clone();
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![result] });
    }

    /// A constant with the element type of another value.
    fn constant(&mut self, like: ValueId, shape: Vec<usize>, values: Vec<f32>) -> ValueId {
        let name = self.part();
        let dtype = self.net.value(like).ty.dtype;
        let data = Data::from_f32(dtype, &values);
        let tensor = Tensor { shape: shape.clone(), data };
        let ty = TensorType { dtype, shape };
        self.net.add_value(Value { name, ty, data: Some(Arc::new(tensor)), surface: None })
    }

    /// Constants whose sum is closer to the values than a single constant of the element type; the second only if it is not zero.
    fn precise(&mut self, like: ValueId, shape: &[usize], values: Vec<f32>) -> [Option<ValueId>; 2] {
        let dtype = self.net.value(like).ty.dtype;
        let near = Data::from_f32(dtype, &values).to_f32();
        let rest: Vec<f32> = values.iter().zip(&near).map(|(value, near)| value - near).collect();
        let first = self.constant(like, shape.to_vec(), near);
        let second = rest.iter().any(|&x| x != 0.0).then(|| self.constant(like, shape.to_vec(), rest));
        [Some(first), second]
    }

    fn reshape(&mut self, x: ValueId, shape: Vec<usize>) -> ValueId {
        if self.shape(x) == shape { x } else { self.push(OpKind::Reshape, &[x], shape) }
    }

    fn transpose(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        let before = self.shape(x);
        let shape = perm.iter().map(|&axis| before[axis]).collect();
        self.push(OpKind::Transpose { perm: perm.to_vec() }, &[x], shape)
    }

    fn slice(&mut self, x: ValueId, axis: usize, range: std::ops::Range<usize>) -> ValueId {
        let mut shape = self.shape(x);
        if range == (0..shape[axis]) {
            return x;
        }
        let (mut begin, mut end) = (vec![0; shape.len()], shape.clone());
        (begin[axis], end[axis]) = (range.start, range.end);
        shape[axis] = range.len();
        let stride = vec![1; shape.len()];
        self.push(OpKind::Slice { begin, end, stride }, &[x], shape)
    }

    fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let shape = self.shape(a);
        self.push(OpKind::Binary(Binary::Add), &[a, b], shape)
    }
}
