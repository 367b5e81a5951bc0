//! Magnitudes of values: a bound that holds for every input, and the usual size of an element, from weights, norms and functions.

use super::{makers, number};
use anemone_facts::numerics::FIXED;
use anemone_net::{Binary, Net, Op, OpKind, PoolKind, ReduceKind, Tensor, Unary, Value, ValueId};
use rayon::prelude::*;
use std::collections::HashSet;
use std::f32::consts::{FRAC_PI_2, LN_2};
use std::ops::ControlFlow;

mod norms;

/// Magnitude of the elements of a value.
#[derive(Clone, Copy, Debug)]
pub struct Magnitude {
    /// Bound of every element.
    pub most: f32,
    /// Bound of the sum of the magnitudes along the last axis.
    pub row: f32,
    /// Bound of the Euclidean norm along the last axis.
    pub length: f32,
    /// Root mean square that elements usually have.
    pub usual: f32,
    /// The same where it is smallest: of the smallest operand of a concatenation, such as a class token beside patches.
    pub least: f32,
    /// True if elements of both signs are equally frequent, as results of products are.
    pub centred: bool,
}

/// Magnitude from which on sums of the array are infinite.
pub(super) fn array_ceiling() -> f32 {
    FIXED.ceiling_log2.map_or(f32::INFINITY, |log2| (log2 as f32).exp2())
}

/// A product in which zero times infinity is zero: no element of a value whose bound is zero differs from zero.
pub(super) fn times(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

impl Magnitude {
    /// A value of which nothing is known; inputs are usually normalized.
    const UNKNOWN: Magnitude = Magnitude {
        most: f32::INFINITY,
        row: f32::INFINITY,
        length: f32::INFINITY,
        usual: 1.0,
        least: 1.0,
        centred: false,
    };

    pub(super) const ZERO: Magnitude =
        Magnitude { most: 0.0, row: 0.0, length: 0.0, usual: 0.0, least: 0.0, centred: false };

    fn new(most: f32, usual: f32) -> Magnitude {
        Magnitude { most, usual: usual.min(most), least: usual.min(most), ..Magnitude::UNKNOWN }
    }

    /// A result whose usual size is a function of this operand's.
    fn sized(self, most: f32, size: impl Fn(f32) -> f32) -> Magnitude {
        Magnitude { least: size(self.least).min(most), ..Magnitude::new(most, size(self.usual)) }
    }

    /// A result whose usual size is a function of two operands'.
    fn sized_with(self, other: Magnitude, most: f32, size: impl Fn(f32, f32) -> f32) -> Magnitude {
        Magnitude {
            least: size(self.least, other.least).min(most),
            ..Magnitude::new(most, size(self.usual, other.usual))
        }
    }

    /// Magnitude of constant elements, in rows of `width`.
    fn of_data(tensor: &Tensor, width: usize) -> Magnitude {
        let mut known = Magnitude::ZERO;
        let mut squares = 0.0;
        let finite = tensor.data.visit_rows(width, &mut |rows| {
            for row in rows.chunks(width.max(1)) {
                let sizes = Sizes::of(row);
                squares += f64::from(sizes.squares);
                known.most = known.most.max(sizes.most);
                known.row = known.row.max(sizes.sum);
                known.length = known.length.max(sizes.squares.sqrt());
                // `max` ignores NaN.
                if !sizes.sum.is_finite() && row.iter().any(|x| !x.is_finite()) {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        });
        if finite.is_break() {
            return Magnitude::UNKNOWN;
        }
        let usual = (squares / tensor.data.len().max(1) as f64).sqrt() as f32;
        Magnitude { row: known.row, length: known.length, ..Magnitude::new(known.most, usual) }
    }

    /// The Euclidean norm along a last axis of this many elements.
    fn length_of(self, count: usize) -> f32 {
        self.length.min(times(self.most, (count as f32).sqrt()))
    }

    /// Any function `f` with `|f(x)| <= |x|` that keeps positive numbers and multiplies others by `rest` in root mean square. The operand
    /// may be positive for the most part, unless a product or a norm computes it.
    fn shrunk(self, rest: f32) -> Magnitude {
        let part = if self.centred { ((1.0 + rest * rest) / 2.0).sqrt() } else { 1.0 };
        // Small numbers of a smooth function are halved.
        Magnitude { usual: self.usual * part, least: self.least * (1.0 + rest) / 2.0, centred: false, ..self }
    }

    /// The value divided by the root of the mean square over axes of its shape, plus `epsilon`.
    fn normalized(self, shape: &[usize], axes: &[usize], epsilon: f32) -> Magnitude {
        let count: usize = axes.iter().filter_map(|&axis| shape.get(axis)).product();
        let usual = |size: f32| if size > 0.0 { size / size.hypot(epsilon.max(0.0).sqrt()) } else { 0.0 };
        let most = (count as f32).sqrt();
        let length = if axes.contains(&shape.len().wrapping_sub(1)) { most } else { f32::INFINITY };
        Magnitude { length, centred: true, ..self.sized(most, usual) }
    }

    fn either(self, other: Magnitude) -> Magnitude {
        self.sized_with(other, self.most.max(other.most), f32::max)
    }
}

/// Largest magnitude of some numbers, the sum of their magnitudes, and that of their squares.
#[derive(Default)]
struct Sizes {
    most: f32,
    sum: f32,
    squares: f32,
}

impl Sizes {
    fn add(&mut self, most: f32, sum: f32, squares: f32) {
        self.most = self.most.max(most);
        self.sum += sum;
        self.squares += squares;
    }

    /// Sums are kept in lanes, so that compilers use vectors.
    fn of(row: &[f32]) -> Sizes {
        const LANES: usize = 16;
        let (whole, rest) = row.as_chunks::<LANES>();
        let [mut most, mut sum, mut squares] = [[0f32; LANES]; 3];
        for part in whole {
            for i in 0..LANES {
                let x = part[i].abs();
                most[i] = if x > most[i] { x } else { most[i] };
                sum[i] += x;
                squares[i] += x * x;
            }
        }
        let mut all = Sizes::default();
        // Rows of fewer elements have no lanes.
        for i in 0..if whole.is_empty() { 0 } else { LANES } {
            all.add(most[i], sum[i], squares[i]);
        }
        for x in rest {
            all.add(x.abs(), x.abs(), x * x);
        }
        all
    }
}

/// Magnitude of every value, by its id.
pub fn magnitudes(net: &Net) -> Vec<Magnitude> {
    let made = makers(net);
    // Sums of a product have the terms of all axes of its weights but the first.
    let weights: HashSet<ValueId> = net.ops.iter().filter_map(weights).collect();
    let width = |id: usize, shape: &[usize]| match (weights.contains(&ValueId(id as u32)), shape) {
        (true, [_, terms @ ..]) => terms.iter().product(),
        _ => shape.last().copied().unwrap_or(1),
    };
    let mut read = vec![false; net.values.len()];
    net.ops.iter().flat_map(|op| &op.inputs).for_each(|id| read[id.0 as usize] = true);
    let of_value = |(id, value): (usize, &Value)| {
        let data = value.data.as_ref().filter(|_| read[id]);
        data.map_or(Magnitude::UNKNOWN, |t| Magnitude::of_data(t, width(id, &t.shape)))
    };
    let mut known: Vec<Magnitude> = net.values.par_iter().enumerate().map(of_value).collect();
    for op in &net.ops {
        let norm = norms::normalized(net, &made, op)
            .map(|norm| norm.of(known[norm.operand.0 as usize], &net.value(norm.operand).ty.shape));
        let result = norm.unwrap_or_else(|| result(net, op, &known));
        for out in &op.outputs {
            known[out.0 as usize] = result;
        }
    }
    known
}

/// The weights of an operation that sums products with the rows of its second operand.
fn weights(op: &Op) -> Option<ValueId> {
    matches!(op.kind, OpKind::Linear | OpKind::Conv { .. } | OpKind::Combine).then(|| op.inputs[1])
}

/// Magnitude of an operation's result.
fn result(net: &Net, op: &Op, known: &[Magnitude]) -> Magnitude {
    let of = |i: usize| op.inputs.get(i).map_or(Magnitude::UNKNOWN, |id| known[id.0 as usize]);
    let shape = |id: ValueId| net.value(id).ty.shape.as_slice();
    let (Some(&first), Some(&out)) = (op.inputs.first(), op.outputs.first()) else { return Magnitude::UNKNOWN };
    let (x, y) = (of(0), of(1));
    let same_rows = shape(first).last() == shape(out).last();
    match &op.kind {
        OpKind::Unary(f) => unary(*f, x),
        OpKind::Binary(f) => binary(net, op, *f, x, y),
        OpKind::Linear | OpKind::Conv { .. } | OpKind::Combine => {
            let Some(weights) = &net.value(op.inputs[1]).data else { return Magnitude::UNKNOWN };
            let terms = weights.data.len() / weights.shape.first().copied().unwrap_or(1).max(1);
            let bias = op.inputs.get(2).map_or(Magnitude::ZERO, |id| known[id.0 as usize]);
            let along = match op.kind {
                OpKind::Conv { .. } => f32::INFINITY,
                _ => times(x.row, y.most).min(times(x.length_of(terms), y.length)),
            };
            let factor = (terms as f32).sqrt() * y.usual;
            let most = times(x.most, y.row).min(along) + bias.most;
            Magnitude { centred: true, ..x.sized_with(bias, most, |x, bias| (x * factor).hypot(bias)) }
        }
        OpKind::ConvTranspose { strides, .. } => {
            let Some(terms) = terms_of(net, op) else { return Magnitude::UNKNOWN };
            let bias = op.inputs.get(2).map_or(Magnitude::ZERO, |id| known[id.0 as usize]);
            // Each result has the terms of one phase.
            let phases: usize = strides.iter().product();
            let factor = (terms as f32 / phases.max(1) as f32).sqrt() * y.usual;
            let most = times(x.most, y.most * terms as f32) + bias.most;
            Magnitude { centred: true, ..x.sized_with(bias, most, |x, bias| (x * factor).hypot(bias)) }
        }
        OpKind::MatMul { transpose_x, transpose_y } => {
            let at = shape(first).len().saturating_sub(if *transpose_x { 2 } else { 1 });
            let count = shape(first).get(at).copied().unwrap_or(1);
            let terms = count as f32;
            let along = match transpose_x {
                true => f32::INFINITY,
                false => times(x.row, y.most).min(times(x.length_of(count), y.most) * terms.sqrt()),
            };
            let most = (terms * times(x.most, y.most)).min(along);
            // Rows along which the product sums mix their parts.
            let least = |x: Magnitude, whole: bool| if whole { x.least } else { x.usual };
            let least = terms.sqrt() * least(x, !transpose_x) * least(y, *transpose_y);
            Magnitude { least: least.min(most), ..Magnitude::new(most, terms.sqrt() * x.usual * y.usual) }
        }
        OpKind::Softmax { axis } => {
            let count = shape(first).get(*axis).copied().unwrap_or(1).max(1);
            let row = if axis + 1 == shape(first).len() { 1.0 } else { f32::INFINITY };
            Magnitude { row, ..Magnitude::new(1.0, 1.0 / count as f32) }
        }
        OpKind::LayerNorm { axes, epsilon } => x.normalized(shape(first), axes, *epsilon),
        OpKind::Reduce { kind, axes, .. } => {
            let count: usize = axes.iter().filter_map(|&axis| shape(first).get(axis)).product();
            let count = count as f32;
            match kind {
                ReduceKind::Max | ReduceKind::Min => Magnitude::new(x.most, x.usual),
                // Elements of both signs cancel.
                ReduceKind::Mean => Magnitude { least: x.least / count.sqrt(), ..Magnitude::new(x.most, x.usual) },
                ReduceKind::Sum => Magnitude::new(times(x.most, count), x.usual * count.sqrt()),
                ReduceKind::L1 => Magnitude::new(times(x.most, count), x.usual * count),
                ReduceKind::L2 => Magnitude::new(times(x.most, count.sqrt()), x.usual * count.sqrt()),
                _ => Magnitude::UNKNOWN,
            }
        }
        // A shorter last axis holds parts of the rows.
        OpKind::Reshape if parts(shape(first), shape(out)) => x,
        OpKind::Broadcast if same_rows => x,
        OpKind::Transpose { perm } if perm.last() == Some(&(perm.len().wrapping_sub(1))) => x,
        OpKind::Slice { .. } => x,
        OpKind::Reshape
        | OpKind::Broadcast
        | OpKind::Transpose { .. }
        | OpKind::Gather { .. }
        | OpKind::GatherAlong { .. }
        | OpKind::GatherNd { .. }
        | OpKind::PadEdge { .. }
        | OpKind::Pool { kind: PoolKind::Max | PoolKind::Average { .. }, .. }
        | OpKind::Resize { .. } => {
            let centred = x.centred && !matches!(op.kind, OpKind::Pool { kind: PoolKind::Max, .. });
            Magnitude { centred, ..x.sized(x.most, |x| x) }
        }
        OpKind::Pad { value, .. } => x.sized(x.most.max(value.abs()), |x| x),
        OpKind::Select => y.either(of(2)),
        OpKind::Concat { axis } => {
            let all = (1..op.inputs.len()).fold(x.sized(x.most, |x| x), |all, i| all.either(of(i)));
            // Later sums mix the parts of rows and of channels.
            let rank = shape(out).len();
            let mixed = axis + 1 == rank || rank > 3 && *axis == 1;
            let parts = (0..op.inputs.len()).map(|i| of(i).least).filter(|&least| least > 0.0);
            if mixed { all } else { Magnitude { least: parts.fold(all.least, f32::min), ..all } }
        }
        _ => Magnitude::UNKNOWN,
    }
}

/// Number of constant weights of each result channel of a product with constant weights.
pub(super) fn terms_of(net: &Net, op: &Op) -> Option<usize> {
    let weights = net.value(*op.inputs.get(1)?).data.as_ref()?;
    let channels = match op.kind {
        OpKind::ConvTranspose { groups, .. } => weights.shape.get(1)? * groups,
        _ => *weights.shape.first()?,
    };
    Some(weights.data.len() / channels.max(1))
}

/// Returns true if the last axis of the second shape divides that of the first.
fn parts(whole: &[usize], part: &[usize]) -> bool {
    matches!((whole.last(), part.last()), (Some(&whole), Some(&part)) if part > 0 && whole % part == 0)
}

fn unary(f: Unary, x: Magnitude) -> Magnitude {
    match f {
        Unary::Identity | Unary::Neg => x,
        Unary::Abs => Magnitude { centred: false, ..x },
        Unary::Relu | Unary::Gelu(_) | Unary::Silu => x.shrunk(0.0),
        Unary::LeakyRelu { alpha } if alpha.abs() <= 1.0 => x.shrunk(alpha.abs()),
        Unary::Elu { alpha } => x.sized(x.most.max(alpha.abs()), |x| x * (1.0 + alpha.abs().min(1.0)) / 2.0),
        Unary::Softplus => x.sized(x.most + LN_2, |x| x / 2.0 + LN_2),
        Unary::Atan => x.sized(x.most.min(FRAC_PI_2), |x| x),
        Unary::Relu6 => Magnitude { length: x.length, ..x.sized(x.most.min(6.0), |x| x / 2.0) },
        Unary::Tanh | Unary::Sin => x.sized(x.most.min(1.0), |x| x),
        Unary::Softsign => x.sized(x.most.min(1.0), |x| x / 2.0),
        Unary::Cos | Unary::Sign => Magnitude::new(1.0, 1.0),
        Unary::Sigmoid | Unary::SigmoidHard { .. } => Magnitude::new(1.0, 0.5),
        Unary::Erf => x.sized(1.0, |x| x),
        Unary::Square => x.sized(times(x.most, x.most), |x| x * x),
        Unary::Sqrt => x.sized(x.most.sqrt(), f32::sqrt),
        Unary::Clip { min, max } => {
            let limit = min.abs().max(max.abs());
            let most = if min <= 0.0 && max >= 0.0 { limit.min(x.most) } else { limit };
            x.sized(most, |x| x)
        }
        Unary::RoundClip { min, max } => x.sized(min.abs().max(max.abs()), |x| x),
        _ => Magnitude::UNKNOWN,
    }
}

fn binary(net: &Net, op: &Op, f: Binary, x: Magnitude, y: Magnitude) -> Magnitude {
    match f {
        Binary::Add | Binary::Sub => {
            let centred = x.centred && y.centred;
            let sum = Magnitude { centred, ..x.sized_with(y, x.most + y.most, f32::hypot) };
            let columns = columns_of(net, op);
            let length = x.length_of(columns) + y.length_of(columns);
            if alike(net, op) { Magnitude { row: x.row + y.row, length, ..sum } } else { sum }
        }
        Binary::Mul => {
            let product = x.sized_with(y, times(x.most, y.most), |x, y| x * y);
            let length = times(x.length, y.most).min(times(y.length, x.most));
            if alike(net, op) { Magnitude { length, ..product } } else { product }
        }
        Binary::Max | Binary::Min => {
            // A limit on zero's other side brings elements nearer to zero.
            let beyond = |at: usize| {
                let limit = op.inputs.get(at).and_then(|&id| net.value(id).data.as_ref());
                let is_beyond = |limit: &f32| if f == Binary::Max { *limit <= 0.0 } else { *limit >= 0.0 };
                limit.is_some_and(|limit| limit.data.to_f32().iter().all(is_beyond))
            };
            let whole = |at: usize| net.value(op.inputs[at]).ty.shape == net.value(op.outputs[0]).ty.shape;
            match (beyond(0), beyond(1)) {
                (_, true) if whole(0) => x,
                (true, _) if whole(1) => y,
                _ => x.either(y),
            }
        }
        Binary::Div => match op.inputs.get(1).and_then(|&id| net.value(id).data.as_ref()) {
            Some(by) => {
                let least = by.data.floats().iter().fold(f32::INFINITY, |least, d| least.min(d.abs()));
                let most = if least > 0.0 { x.most / least } else { f32::INFINITY };
                x.sized(most, |x| if y.usual > 0.0 { x / y.usual } else { 1.0 })
            }
            None => x.sized(f32::INFINITY, |x| if y.usual > 0.0 { x / y.usual } else { 1.0 }),
        },
        Binary::Pow => match op.inputs.get(1).and_then(|&id| number(net, id)) {
            Some(power) if power > 0.0 => x.sized(x.most.powf(power), |x| x.powf(power)),
            _ => Magnitude::UNKNOWN,
        },
        // At most one of several different numbers equals an element.
        Binary::Equal => {
            let columns = columns_of(net, op);
            match one_of_many(net, op) {
                true => Magnitude { row: 1.0, ..Magnitude::new(1.0, 1.0 / (columns as f32).sqrt()) },
                false => Magnitude::new(1.0, 1.0),
            }
        }
        f if f.is_comparison() => Magnitude::new(1.0, 1.0),
        _ => Magnitude::UNKNOWN,
    }
}

/// Extent of the last axis of an operation's result.
fn columns_of(net: &Net, op: &Op) -> usize {
    net.value(op.outputs[0]).ty.shape.last().copied().unwrap_or(1).max(1)
}

/// Returns true if both operands have the result's columns.
fn alike(net: &Net, op: &Op) -> bool {
    let columns = |id: &ValueId| net.value(*id).ty.shape.last().copied();
    op.inputs.iter().all(|id| columns(id) == columns(&op.outputs[0]))
}

/// Returns true if elements are compared with a row of different constants.
fn one_of_many(net: &Net, op: &Op) -> bool {
    let columns = |id: ValueId| net.value(id).ty.shape.last().copied().unwrap_or(1);
    let different = |id: ValueId| {
        net.value(id).data.as_ref().filter(|t| t.data.len() == columns(id)).is_some_and(|t| {
            let mut seen = HashSet::new();
            t.data.to_f32().iter().all(|x| seen.insert(x.to_bits()))
        })
    };
    matches!(*op.inputs.as_slice(), [a, b] if columns(a) == 1 && different(b) || columns(b) == 1 && different(a))
}
