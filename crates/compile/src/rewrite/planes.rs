//! Products of tokens between planes as 1x1 convolutions of the planes, so that no wide result is transposed. Ours.

use super::{Builder, Names};
use crate::error::Result;
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{DType, Net, Op, OpKind, Tensor, ValueId, compress};
use std::collections::{HashMap, HashSet};

/// Computes linear layers of tokens, and the functions beside them, as 1x1 convolutions of planes if the operand is planes whose pixels became
/// tokens, or if the result becomes planes: `transpose(linear(x))` as `conv(transpose(x))`, and `linear(transpose(p))` as
/// `transpose(conv(p))`. Intermediate values may have no other readers.
pub fn convolve_tokens(net: &mut Net, options: &Options, reasons: &mut Remarks) -> Result<()> {
    if !options.conventions().whole_epilogues {
        return Ok(());
    }
    let found = Found::of(net);
    if found.planes.is_empty() {
        return Ok(());
    }
    let mut names = Names::default();
    // Planes of each value in tokens.
    let mut planes: HashMap<ValueId, ValueId> = found.sources.clone();
    let mut made = Vec::with_capacity(net.ops.len());
    for (at, op) in std::mem::take(&mut net.ops).into_iter().enumerate() {
        let Some(extents) = found.planes.get(&at) else {
            made.extend(Some(op).filter(|_| !found.gone.contains(&at)));
            continue;
        };
        reasons.say(|| format!("{}: tokens are computed as planes", op.name));
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let known = planes.get(&x).copied().filter(|&known| builder.shape(known)[2..] == extents[..]);
        let from = known.unwrap_or_else(|| builder.planes_of(x, *extents));
        let shape = planes_shape(&builder.shape(out), *extents);
        let to = found.results.get(&out).copied();
        let to = to.unwrap_or_else(|| builder.value("planes", DType::F16, shape));
        builder.compute(&op, from, to);
        planes.insert(out, to);
        if found.tokens.contains(&out) {
            builder.tokens_of(to, out);
        }
        made.extend(builder.ops);
    }
    net.ops = made;
    Ok(())
}

/// Rows and columns of planes.
type Plane = [usize; 2];

/// Axes of planes: batch, channels, rows, columns.
const RANK: usize = 4;

/// Shape of planes with the channels of `tokens`.
fn planes_shape(tokens: &[usize], [rows, columns]: Plane) -> Vec<usize> {
    vec![1, tokens[tokens.len() - 1], rows, columns]
}

/// Order of axes of a transpose by which the last axis becomes the second one.
fn channels_first(rank: usize) -> Vec<usize> {
    [0, rank - 1].into_iter().chain(1..rank - 1).collect()
}

/// Order of axes of the transpose back.
fn channels_last(rank: usize) -> Vec<usize> {
    [0].into_iter().chain(2..rank).chain([1]).collect()
}

impl Builder<'_> {
    /// Tokens as planes.
    fn planes_of(&mut self, tokens: ValueId, extents: Plane) -> ValueId {
        let shape = self.shape(tokens);
        let perm = channels_first(shape.len());
        let first = perm.iter().map(|&axis| shape[axis]).collect();
        let turned = self.op("turned", OpKind::Transpose { perm }, &[tokens], first);
        if shape.len() == RANK {
            return turned;
        }
        self.op("planes", OpKind::Reshape, &[turned], planes_shape(&shape, extents))
    }

    /// Planes as the tokens `out`.
    fn tokens_of(&mut self, planes: ValueId, out: ValueId) {
        let mut from = planes;
        let rank = self.shape(out).len();
        if let [_, pixels, channels] = self.shape(out)[..] {
            from = self.op("pixels", OpKind::Reshape, &[planes], vec![1, channels, pixels]);
        }
        self.push(OpKind::Transpose { perm: channels_last(rank) }, &[from], out);
    }

    /// An operation on tokens from planes to planes.
    fn compute(&mut self, op: &Op, from: ValueId, to: ValueId) {
        let weights = op.inputs.get(1).and_then(|&id| self.net.value(id).data.clone());
        let mut inputs = op.inputs.clone();
        inputs[0] = from;
        let Some(weights) = weights else { return self.push(op.kind.clone(), &inputs, to) };
        let shape = [&weights.shape[..], &[1, 1]].concat();
        inputs[1] = self.constant_of("weight", Tensor { shape, data: weights.data.clone() });
        let kind = OpKind::Conv { strides: vec![1; 2], pads: vec![(0, 0); 2], dilations: vec![1; 2], groups: 1 };
        self.push(kind, &inputs, to);
    }
}

/// Operations and values that are computed as planes.
#[derive(Default)]
struct Found {
    /// Extents of the planes, by operation.
    planes: HashMap<usize, Plane>,
    /// Planes that exist, by their tokens.
    sources: HashMap<ValueId, ValueId>,
    /// Planes that tokens become, by tokens.
    results: HashMap<ValueId, ValueId>,
    /// Results that are read as tokens.
    tokens: HashSet<ValueId>,
    /// Operations that make such planes of tokens.
    gone: HashSet<usize>,
}

impl Found {
    fn of(net: &Net) -> Found {
        let mut found = Found::default();
        let linears: Vec<usize> = (0..net.ops.len()).filter(|&at| takes_planes(net, &net.ops[at])).collect();
        if linears.is_empty() {
            return found;
        }
        let places: HashMap<ValueId, usize> =
            net.ops.iter().enumerate().flat_map(|(at, op)| op.outputs.iter().map(move |&id| (id, at))).collect();
        let mut readers: HashMap<ValueId, Vec<usize>> = HashMap::new();
        for (at, op) in net.ops.iter().enumerate() {
            op.inputs.iter().for_each(|&id| readers.entry(id).or_default().push(at));
        }
        // The only reader of a value.
        let reader = |id: ValueId| match readers.get(&id).map(Vec::as_slice) {
            Some(&[at]) if !net.outputs.contains(&id) => Some(at),
            _ => None,
        };
        for &at in linears.iter().rev() {
            let (mut chain, mut out) = (vec![at], net.ops[at].outputs[0]);
            while let Some(next) = reader(out) {
                let mut extents = found.planes.get(&next).copied();
                if let Some((plane, end, gone)) = becomes_planes(net, next, reader) {
                    found.results.insert(out, end);
                    found.gone.extend(gone);
                    extents = Some(plane);
                }
                if let Some(extents) = extents {
                    found.planes.extend(chain.into_iter().map(|at| (at, extents)));
                    break;
                }
                if !matches!(net.ops[next].kind, OpKind::Unary(_)) {
                    break;
                }
                chain.push(next);
                out = net.ops[next].outputs[0];
            }
        }
        for &at in &linears {
            let (mut chain, mut from) = (vec![at], net.ops[at].inputs[0]);
            let wanted = found.planes.get(&at).copied();
            while let Some(&before) = places.get(&from).filter(|_| reader(from).is_some()) {
                let source = planes_before(net, before, &places);
                let extents = source.map(|(plane, _)| plane).or_else(|| found.planes.get(&before).copied());
                if let Some(extents) = extents {
                    if wanted.is_none_or(|wanted| wanted == extents) {
                        found.sources.extend(source.map(|(_, planes)| (from, planes)));
                        found.planes.extend(chain.into_iter().map(|at| (at, extents)));
                    }
                    break;
                }
                if !matches!(net.ops[before].kind, OpKind::Unary(_)) {
                    break;
                }
                chain.push(before);
                from = net.ops[before].inputs[0];
            }
        }
        let as_planes = |id: ValueId, extents: &Plane| {
            found.results.contains_key(&id) || reader(id).is_some_and(|at| found.planes.get(&at) == Some(extents))
        };
        let outs = found.planes.iter().map(|(&at, extents)| (net.ops[at].outputs[0], extents));
        found.tokens = outs.filter(|&(id, extents)| !as_planes(id, extents)).map(|(id, _)| id).collect();
        found
    }
}

/// Returns true for a linear layer of one batch of tokens, with constant weights that are not compressed.
fn takes_planes(net: &Net, op: &Op) -> bool {
    let constant = |id: &ValueId| net.value(*id).data.is_some();
    let shape = |id: ValueId| net.value(id).ty.shape.as_slice();
    let &[x, weight, ..] = op.inputs.as_slice() else { return false };
    op.kind == OpKind::Linear
        && op.inputs[1..].iter().all(constant)
        && shape(weight).len() == 2
        && net.value(weight).data.as_ref().is_some_and(|t| !compress::is_compressed(&t.data))
        && matches!(shape(x), [1, _, _, ..])
        && [x, op.outputs[0]].iter().all(|&id| net.value(id).ty.dtype.is_float())
}

/// Planes that the transpose at `at` makes of tokens, perhaps with the reshape that alone reads it, and both operations.
fn becomes_planes(
    net: &Net,
    at: usize,
    reader: impl Fn(ValueId) -> Option<usize>,
) -> Option<(Plane, ValueId, Vec<usize>)> {
    let op = &net.ops[at];
    let OpKind::Transpose { perm } = &op.kind else { return None };
    if *perm != channels_first(perm.len()) {
        return None;
    }
    let out = op.outputs[0];
    let shape = &net.value(out).ty.shape;
    if let &[1, _, rows, columns] = shape.as_slice() {
        return Some(([rows, columns], out, vec![at]));
    }
    let behind = reader(out)?;
    let end = *net.ops[behind].outputs.first().filter(|_| net.ops[behind].kind == OpKind::Reshape)?;
    Some((plane_of(shape, &net.value(end).ty.shape)?, end, vec![at, behind]))
}

/// Planes whose pixels the operation at `at` makes tokens.
fn planes_before(net: &Net, at: usize, places: &HashMap<ValueId, usize>) -> Option<(Plane, ValueId)> {
    let OpKind::Transpose { perm } = &net.ops[at].kind else { return None };
    if *perm != channels_last(perm.len()) {
        return None;
    }
    let x = net.ops[at].inputs[0];
    let shape = &net.value(x).ty.shape;
    if let &[1, _, rows, columns] = shape.as_slice() {
        return Some(([rows, columns], x));
    }
    let before = &net.ops[*places.get(&x)?];
    let from = *before.inputs.first().filter(|_| before.kind == OpKind::Reshape)?;
    Some((plane_of(shape, &net.value(from).ty.shape)?, from))
}

/// Extents of planes of the same channels and pixels as `flat`, which has one axis of pixels.
fn plane_of(flat: &[usize], planes: &[usize]) -> Option<Plane> {
    match (flat, planes) {
        (&[1, channels, pixels], &[1, count, rows, columns]) if channels == count && rows * columns == pixels => {
            Some([rows, columns])
        }
        _ => None,
    }
}
