//! Integers that leave their element type in intermediate results: results wrap, and 64-bit integers are held in 32.

use super::{LARGEST_WHOLE, Warning, warning};
use anemone_net::{Binary, DType, Data, Net, Op, OpKind, ReduceKind, ScatterMode, Tensor, Unary, ValueId, eval};
use std::collections::{HashMap, HashSet};

/// Limit of the detection.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Limit {
    /// 16-bit and 32-bit integers beyond the integers that fp16 represents: results that wrap in the model are infinite or rounded in fp16.
    Half,
    /// Integers beyond int32.
    Word,
}

/// Smallest magnitude beyond int32.
const WORD: f32 = 2_147_483_648.0;

/// Detects arithmetic on integers in an evaluation whose results would be beyond a limit if they did not wrap.
pub(super) struct Overflow<'a> {
    net: &'a Net,
    limit: Limit,
    /// Inspected operations, by the name of their result.
    watched: HashMap<&'a str, &'a Op>,
    /// Remaining reads of each value that they need, by name.
    reads: HashMap<&'a str, usize>,
    values: HashMap<&'a str, Tensor>,
    found: Option<(&'a str, f32)>,
}

impl<'a> Overflow<'a> {
    /// Watches a network but for the results in `exact`, which keep every whole number.
    pub(super) fn new(net: &'a Net, limit: Limit, exact: &HashSet<String>) -> Self {
        let name = |id: ValueId| net.value(id).name.as_str();
        let mut reads: HashMap<&str, usize> = HashMap::new();
        let mut watched = HashMap::new();
        let grow = |op: &&Op| grows(net, op, limit) && !exact.contains(name(op.outputs[0]));
        for op in net.ops.iter().filter(grow) {
            watched.insert(name(op.outputs[0]), op);
            let live = op.inputs.iter().filter(|&&id| net.value(id).data.is_none());
            live.for_each(|&id| *reads.entry(name(id)).or_default() += 1);
        }
        Overflow { net, limit, watched, reads, values: HashMap::new(), found: None }
    }

    /// Returns true if there is nothing to detect.
    pub(super) fn is_idle(&self) -> bool {
        self.watched.is_empty()
    }

    /// Records an input or a result, in the order of the evaluation.
    pub(super) fn see(&mut self, name: &str, tensor: &Tensor) {
        if self.found.is_some() {
            return;
        }
        if let Some((&own, &op)) = self.watched.get_key_value(name) {
            self.visit(own, op);
        }
        if let Some((&own, _)) = self.reads.get_key_value(name) {
            self.values.insert(own, tensor.clone());
        }
    }

    fn visit(&mut self, own: &'a str, op: &'a Op) {
        let value = |id: &ValueId| self.net.value(*id);
        let operands = op.inputs.iter().map(|id| match &value(id).data {
            Some(constant) => Some(constant.as_ref()),
            None => self.values.get(value(id).name.as_str()),
        });
        let Some(mut operands) = operands.collect::<Option<Vec<&Tensor>>>() else { return };
        // An infinite intermediate result multiplied by zero is undefined in fp16; a wrapped integer gives zero.
        let without_zeros = match op.kind {
            OpKind::Reduce { kind: ReduceKind::Prod, .. } if self.limit == Limit::Half => {
                operands.first().map(|x| ones_for_zeros(x))
            }
            _ => None,
        };
        if let Some(x) = &without_zeros {
            operands[0] = x;
        }
        let ty = &self.net.value(op.outputs[0]).ty;
        let reached = |operands: &[&Tensor]| eval::reaches(&op.kind, operands, ty).unwrap_or(0.0);
        let on_the_way = one_sided(&op.kind, &operands).filter(|_| self.limit == Limit::Half);
        let sides = on_the_way.iter().flatten().map(|side| reached(&side.iter().collect::<Vec<_>>()));
        let most = sides.fold(reached(&operands), f32::max);
        let beyond = match self.limit {
            Limit::Half => most > LARGEST_WHOLE,
            Limit::Word => most >= WORD,
        };
        if beyond {
            self.found = Some((own, most));
        }
        for id in &op.inputs {
            let name = self.net.value(*id).name.as_str();
            if let Some(left) = self.reads.get_mut(name) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.values.remove(name);
                }
            }
        }
    }

    /// The warning, after the evaluation.
    pub(super) fn found(&self) -> Option<Warning> {
        let (at, most) = self.found?;
        let message = match self.limit {
            Limit::Half => format!("reaches {most:e} before it wraps, beyond the whole numbers of fp16 (2048)"),
            Limit::Word => format!(
                "reaches {most:e}, beyond int32: the result wraps, as int32 does; a model's int64 is held in 32 bits and would not"
            ),
        };
        Some(warning("inexact-integer", at, message))
    }
}

/// Operands of scattered sums, and of sums over several axes, which are computed axis by axis: with only their positive terms, and
/// with only their negative ones. No intermediate sum is beyond both results.
fn one_sided(kind: &OpKind, operands: &[&Tensor]) -> Option<[Vec<Tensor>; 2]> {
    let part = |t: &Tensor, side: f32| {
        let data = t.data.to_f32().into_iter().map(|x| if x * side > 0.0 { x } else { 0.0 }).collect();
        Tensor { shape: t.shape.clone(), data: Data::F32(data) }
    };
    let sides = [1.0, -1.0];
    let (mode, [x, places, updates]) = match (kind, operands) {
        (OpKind::Reduce { kind: ReduceKind::Sum, axes, .. }, [x]) if axes.len() > 1 => {
            return Some(sides.map(|side| vec![part(x, side)]));
        }
        (OpKind::ScatterAlong { mode, .. } | OpKind::ScatterNd { mode }, &[x, places, updates]) => {
            (mode, [x, places, updates])
        }
        _ => return None,
    };
    let sign = match mode {
        ScatterMode::Add => 1.0,
        ScatterMode::Sub => -1.0,
        _ => return None,
    };
    Some(sides.map(|side| vec![part(x, side), places.clone(), part(updates, side * sign)]))
}

fn ones_for_zeros(x: &Tensor) -> Tensor {
    let data = x.data.to_f32().into_iter().map(|x| if x == 0.0 { 1.0 } else { x }).collect();
    Tensor { shape: x.shape.clone(), data: Data::F32(data) }
}

/// Returns true for arithmetic on integers that can exceed the limit, with an operand computed at run time.
fn grows(net: &Net, op: &Op, limit: Limit) -> bool {
    let grows = match op.kind {
        OpKind::Binary(f) => matches!(f, Binary::Add | Binary::Sub | Binary::Mul | Binary::Pow),
        OpKind::Unary(f) => f == Unary::Square,
        OpKind::Reduce { kind, .. } => {
            matches!(kind, ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::L1 | ReduceKind::Prod)
        }
        OpKind::Combine | OpKind::Linear | OpKind::MatMul { .. } => true,
        OpKind::ScatterAlong { mode, .. } | OpKind::ScatterNd { mode } => {
            matches!(mode, ScatterMode::Add | ScatterMode::Sub | ScatterMode::Mul)
        }
        _ => false,
    };
    let live = op.inputs.iter().any(|&id| net.value(id).data.is_none());
    let dtype = net.value(op.outputs[0]).ty.dtype;
    let watched = dtype == DType::I32 || limit == Limit::Half && matches!(dtype, DType::I16 | DType::U16);
    grows && live && watched
}
