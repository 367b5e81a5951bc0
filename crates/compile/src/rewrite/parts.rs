//! Operations alike on slices of one value, computed at once. Ours.
//!
//! A loop over steps that a model spells out multiplies every step of its input by the same weights, and applies the same function to
//! several gates of one sum. One product of all steps, and one function of all gates, take one task instead of many; their parts are views.

use super::{Builder, Names};
use crate::error::Result;
use crate::ir::{ELEMENT_BYTES, ROW_ALIGN};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, Net, Op, OpKind, Unary, Value, ValueId};
use anemone_program::order;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Most rounds: a function of parts of sums is found once the sums are one.
const ROUNDS: usize = 4;

/// A value that is a slice of another along one axis, perhaps reshaped before its last axis.
#[derive(Clone, Debug)]
struct Part {
    whole: ValueId,
    axis: usize,
    range: Range<usize>,
    reshaped: bool,
}

/// Operations alike, by their positions, each with the range of the slices that it reads.
struct Group {
    first: usize,
    wholes: Vec<ValueId>,
    axis: usize,
    members: Vec<(usize, Range<usize>)>,
}

/// Operations to compute at once.
struct Joined {
    wholes: Vec<ValueId>,
    axis: usize,
    hull: Range<usize>,
    members: Vec<(usize, Range<usize>)>,
}

/// Replaces operations alike on slices of one value by one operation on all of the slices, and slices of its result.
pub fn join_parts(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    super::waves::join_waves(net, reasons);
    super::rotations::share_rotations(net, reasons)?;
    for _ in 0..ROUNDS {
        let joined: Vec<Joined> = groups(net).into_iter().flat_map(|group| runs(net, group)).collect();
        if joined.is_empty() {
            break;
        }
        apply(net, &joined, reasons);
    }
    super::apart::products_of_slices(net, reasons)
}

/// Slices along one axis, by their results.
fn parts(net: &Net) -> HashMap<ValueId, Part> {
    let mut known: HashMap<ValueId, Part> = HashMap::new();
    for op in &net.ops {
        let (Some(&from), Some(&out)) = (op.inputs.first(), op.outputs.first()) else { continue };
        let shape = &net.value(from).ty.shape;
        match &op.kind {
            OpKind::Slice { begin, end, stride } if stride.iter().all(|&s| s == 1) => {
                let mut cut = (0..shape.len()).filter(|&i| begin[i] > 0 || end[i] < shape[i]);
                if let (Some(axis), None) = (cut.next(), cut.next()) {
                    let range = begin[axis]..end[axis];
                    known.insert(out, Part { whole: from, axis, range, reshaped: false });
                }
            }
            OpKind::Reshape if net.value(out).ty.shape.last() == shape.last() => {
                if let Some(part) = known.get(&from).cloned() {
                    known.insert(out, Part { reshaped: true, ..part });
                }
            }
            _ => {}
        }
    }
    known
}

/// Returns true for functions whose results are bounded and finite: elements that nobody reads do not matter.
fn is_bounded(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Unary(Unary::Sigmoid | Unary::Tanh | Unary::Erf))
}

/// The slices of values that an operation reads, if it is one of a kind that is computed at once.
fn operands(net: &Net, op: &Op, known: &HashMap<ValueId, Part>) -> Option<(Vec<ValueId>, usize, Range<usize>)> {
    let part = |i: usize| known.get(op.inputs.get(i)?);
    let first = part(0)?;
    let rank = net.value(first.whole).ty.shape.len();
    let fits = match &op.kind {
        OpKind::Linear => first.axis + 1 < rank && op.inputs[1..].iter().all(|&id| net.value(id).data.is_some()),
        OpKind::Unary(Unary::Gelu(_) | Unary::Silu | Unary::Softplus | Unary::Exp) => !first.reshaped,
        kind if is_bounded(kind) => !first.reshaped,
        OpKind::Binary(Binary::Add | Binary::Sub | Binary::Mul) => {
            let second = part(1)?;
            let shape = |part: &Part| &net.value(part.whole).ty.shape;
            !first.reshaped
                && !second.reshaped
                && (second.axis, &second.range) == (first.axis, &first.range)
                && shape(first) == shape(second)
        }
        _ => false,
    };
    let float = op.inputs.iter().chain(&op.outputs).all(|&id| net.value(id).ty.dtype.is_float());
    let wholes = match op.kind {
        OpKind::Binary(_) => vec![first.whole, part(1)?.whole],
        _ => vec![first.whole],
    };
    (fits && float).then(|| (wholes, first.axis, first.range.clone()))
}

/// Groups of operations alike.
fn groups(net: &Net) -> Vec<Group> {
    let known = parts(net);
    let mut groups: Vec<Group> = Vec::new();
    let mut by_whole: HashMap<(ValueId, usize), Vec<usize>> = HashMap::new();
    // Parts of a concatenation are computed in their places.
    let concats = net.ops.iter().filter(|op| matches!(op.kind, OpKind::Concat { .. }));
    let placed: HashSet<ValueId> = concats.flat_map(|op| &op.inputs).chain(&net.outputs).copied().collect();
    for (at, op) in net.ops.iter().enumerate() {
        let Some((wholes, axis, range)) = operands(net, op, &known) else { continue };
        if op.kind != OpKind::Linear && op.outputs.iter().any(|out| placed.contains(out)) {
            continue;
        }
        let of_whole = by_whole.entry((wholes[0], axis)).or_default();
        let like = |group: &Group| group.wholes == wholes && alike(net, &net.ops[group.first], op);
        match of_whole.iter().find(|&&i| like(&groups[i])) {
            Some(&i) => groups[i].members.push((at, range)),
            None => {
                of_whole.push(groups.len());
                groups.push(Group { first: at, wholes, axis, members: vec![(at, range)] });
            }
        }
    }
    groups.retain(|group| group.members.len() > 1);
    groups
}

/// Returns true for operations of one kind, with equal constants and results of one type.
fn alike(net: &Net, a: &Op, b: &Op) -> bool {
    let dtype = |op: &Op| net.value(op.outputs[0]).ty.dtype;
    let constants = |op: &Op| if op.kind == OpKind::Linear { op.inputs[1..].to_vec() } else { Vec::new() };
    let (of_a, of_b) = (constants(a), constants(b));
    let equal = |(a, b): (&ValueId, &ValueId)| match (&net.value(*a).data, &net.value(*b).data) {
        (Some(x), Some(y)) => a == b || x.shape == y.shape && x.data == y.data,
        _ => false,
    };
    a.kind == b.kind && dtype(a) == dtype(b) && of_a.len() == of_b.len() && of_a.iter().zip(&of_b).all(equal)
}

/// The slices of a group that are computed at once: neighbours, and for bounded functions slices with few elements between them.
fn runs(net: &Net, mut group: Group) -> Vec<Joined> {
    order::by_key(&mut group.members, |(_, range)| range.start);
    let bounded = is_bounded(&net.ops[group.first].kind);
    let shape = &net.value(group.wholes[0]).ty.shape;
    let columns = group.axis + 1 == shape.len();
    let aligned = |at: usize| !columns || (at as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
    let mut all: Vec<Joined> = Vec::new();
    let mut total = 0;
    for (at, range) in group.members {
        let size = range.len();
        let last = all.last_mut().filter(|run| {
            let gap = range.start.checked_sub(run.hull.end);
            gap.is_some_and(|gap| gap == 0 || bounded && 2 * (range.end - run.hull.start) <= 3 * (total + size))
        });
        match last {
            Some(run) if aligned(range.start) && aligned(run.hull.start) => {
                run.hull.end = range.end;
                run.members.push((at, range));
                total += size;
            }
            _ => {
                let (wholes, hull) = (group.wholes.clone(), range.clone());
                all.push(Joined { wholes, axis: group.axis, hull, members: vec![(at, range)] });
                total = size;
            }
        }
    }
    all.retain(|run| run.members.len() > 1);
    all
}

/// Computes each run where its first operation is, and makes all of its operations slices of the result.
fn apply(net: &mut Net, joined: &[Joined], reasons: &mut Remarks) {
    let mut first: HashMap<usize, usize> = HashMap::new();
    let mut members: HashMap<usize, (usize, Range<usize>)> = HashMap::new();
    for (i, run) in joined.iter().enumerate() {
        if let Some(at) = run.members.iter().map(|(at, _)| *at).min() {
            first.insert(at, i);
        }
        members.extend(run.members.iter().map(|(at, range)| (*at, (i, range.clone()))));
    }
    let ops = std::mem::take(&mut net.ops);
    let mut names = Names::default();
    let mut made: HashMap<usize, ValueId> = HashMap::new();
    let mut all = Vec::with_capacity(ops.len());
    for (at, op) in ops.into_iter().enumerate() {
        let Some((i, range)) = members.get(&at) else {
            all.push(op);
            continue;
        };
        let run = &joined[*i];
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
        if first.get(&at) == Some(i) {
            reasons.say(|| format!("{}: {} of {} slices at once", op.name, op.kind.name(), run.members.len()));
            made.insert(*i, builder.at_once(&op, run));
        }
        if let Some(&whole) = made.get(i) {
            builder.result_of_part(&op, whole, run, range);
        }
        all.extend(builder.ops);
    }
    net.ops = all;
}

impl Builder<'_> {
    /// An operation on the hull of a run's slices.
    fn at_once(&mut self, op: &Op, run: &Joined) -> ValueId {
        let mut inputs = op.inputs.clone();
        for (input, &whole) in inputs.iter_mut().zip(&run.wholes) {
            let shape = self.shape(whole);
            *input = whole;
            if run.hull.len() < shape[run.axis] {
                let dtype = self.net.value(whole).ty.dtype;
                *input = self.slice_of(whole, run.axis, &run.hull, dtype);
            }
        }
        let mut shape = self.shape(inputs[0]);
        if let (OpKind::Linear, Some(last)) = (&op.kind, shape.last_mut()) {
            *last = self.shape(op.inputs[1])[0];
        }
        let dtype = self.net.value(op.outputs[0]).ty.dtype;
        let made = self.value("joined", dtype, shape);
        self.push(op.kind.clone(), &inputs, made);
        made
    }

    /// The result of one operation of a run, as part of the result of all.
    fn result_of_part(&mut self, op: &Op, whole: ValueId, run: &Joined, range: &Range<usize>) {
        let own = range.start - run.hull.start..range.end - run.hull.start;
        let out = op.outputs[0];
        let mut shape = self.shape(whole);
        shape[run.axis] = own.len();
        if shape == self.shape(out) {
            let kind = slice(&self.shape(whole), run.axis, &own);
            return self.push(kind, &[whole], out);
        }
        let dtype = self.net.value(out).ty.dtype;
        let part = self.slice_of(whole, run.axis, &own, dtype);
        self.push(OpKind::Reshape, &[part], out);
    }

    pub(super) fn slice_of(
        &mut self,
        whole: ValueId,
        axis: usize,
        range: &Range<usize>,
        dtype: anemone_net::DType,
    ) -> ValueId {
        let mut shape = self.shape(whole);
        let kind = slice(&shape, axis, range);
        shape[axis] = range.len();
        let part = self.value("part", dtype, shape);
        self.push(kind, &[whole], part);
        part
    }

    pub(super) fn value(&mut self, suffix: &str, dtype: anemone_net::DType, shape: Vec<usize>) -> ValueId {
        let name = self.fresh(suffix);
        let ty = anemone_net::TensorType { dtype, shape };
        self.net.add_value(Value { name, ty, data: None, surface: None })
    }
}

fn slice(shape: &[usize], axis: usize, range: &Range<usize>) -> OpKind {
    let (mut begin, mut end) = (vec![0; shape.len()], shape.to_vec());
    (begin[axis], end[axis]) = (range.start, range.end);
    OpKind::Slice { begin, end, stride: vec![1; shape.len()] }
}
