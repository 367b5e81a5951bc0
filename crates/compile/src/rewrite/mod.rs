//! Rewrites of the network before lowering: constant folding, elimination of conversions, decomposition of normalizations, and
//! absorption of per-channel affines into convolutions.
//!
//! Each rewrite is a function over the whole network, applied once, in the order of [`crate::pipeline::ALL`], in a file of its
//! own; `tests/compile/rewrite` has before-and-after cases.

mod addends;
pub(crate) mod affines;
mod apart;
mod averages;
mod bins;
mod channels;
mod columns;
mod convolved;
pub(crate) mod dead;
pub(crate) mod decompose;
pub(crate) mod drop;
pub(crate) mod fold;
pub(crate) mod forward;
pub(crate) mod functions;
pub(crate) mod gathers;
pub(crate) mod heads;
pub(crate) mod levels;
mod logarithms;
mod long_rows;
pub(crate) mod lookups;
pub(crate) mod magnitudes;
pub(crate) mod matmul;
pub(crate) mod narrow;
pub(crate) mod native;
pub(crate) mod norms;
pub(crate) mod parts;
pub(crate) mod places;
mod planes;
mod portions;
pub(crate) mod quantized;
pub(crate) mod ranges;
pub(crate) mod recognize;
mod rotations;
mod scalars;
pub(crate) mod scatter;
mod scores;
pub(crate) mod slices;
pub(crate) mod small;
mod spelled;
mod stages;
mod summed;
mod waves;
mod weighted;
pub(crate) mod whole;
pub(crate) mod windows;
pub(crate) mod wrapped;

use crate::accuracy::OVERFLOW;
use crate::error::Result;
use crate::remarks::Remarks;
use anemone_net::{DType, Data, Net, Op, OpKind, Tensor, TensorType, Value, ValueId};
use anemone_program::order;
use half::f16;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The operation that computes each value, by result.
pub(crate) fn makers(net: &Net) -> HashMap<ValueId, &Op> {
    net.ops.iter().flat_map(|op| op.outputs.iter().map(move |&id| (id, op))).collect()
}

/// Inserts operations before those at the given positions, in the order of the list where positions are equal.
fn insert_before(net: &mut Net, mut added: Vec<(usize, Op)>) {
    order::by_key(&mut added, |(at, _)| *at);
    let mut added = added.into_iter().peekable();
    for (at, op) in std::mem::take(&mut net.ops).into_iter().enumerate() {
        while let Some((_, new)) = added.next_if(|(before, _)| *before <= at) {
            net.ops.push(new);
        }
        net.ops.push(op);
    }
}

/// The operation that computes a value, before those that pass their first operand on; `None` for inputs and constants.
fn maker_behind<'a>(
    mut id: ValueId,
    makers: &HashMap<ValueId, &'a Op>,
    passes: impl Fn(&OpKind) -> bool,
) -> Option<&'a Op> {
    loop {
        let op = makers.get(&id)?;
        if !passes(&op.kind) {
            return Some(op);
        }
        id = *op.inputs.first()?;
    }
}

/// The value of a constant with one element.
pub(crate) fn number(net: &Net, id: ValueId) -> Option<f32> {
    match net.value(id).data.as_ref()?.data.to_f32().as_slice() {
        &[number] => Some(number),
        _ => None,
    }
}

pub use addends::join_addends;
pub use affines::absorb_affines;
pub use averages::convolve_means;
pub use channels::order_channels;
pub use columns::select_columns;
pub use convolved::convolve_affines;
pub use dead::remove_dead;
pub use decompose::decompose;
pub use drop::drop_conversions;
pub use fold::fold_constants;
pub use forward::forward_affines;
pub use heads::align_heads;
pub(crate) use lookups::join_lookups;
pub use matmul::replace_matmul;
pub use narrow::wrap_narrow;
pub(crate) use native::expand_natives;
pub use norms::recognize_norms;
pub(crate) use norms::{fits, held_epsilon, of_pixels};
pub use parts::join_parts;
pub use planes::convolve_tokens;
pub use portions::scale_portions;
pub use quantized::recognize_quantization;
pub use ranges::bound_values;
pub use recognize::recognize;
pub use scores::transpose_scores;
pub use slices::forward_slices;
pub use small::scale_small_terms;
pub use summed::sum_convolutions;
pub use whole::scale_whole_sums;
pub(crate) use windows::{Limits, fit_windows};

/// Largest number of pieces that an operation is assembled from; each is a copy.
const MOST_PIECES: usize = 512;

/// Value names in use, which are collected when the first name is made.
#[derive(Default)]
struct Names(Option<HashSet<String>>);

impl Names {
    fn all(&mut self, net: &Net) -> &mut HashSet<String> {
        self.0.get_or_insert_with(|| net.values.iter().map(|v| v.name.clone()).collect())
    }
}

/// Appends operations and constants to a network under construction.
struct Builder<'a> {
    net: &'a mut Net,
    names: &'a mut Names,
    ops: Vec<Op>,
    name: String,
}

/// Replaces each operation by what `step` appends, and remarks if that is not a single operation.
fn rewrite(net: &mut Net, reasons: &mut Remarks, step: impl Fn(&mut Builder, &Op) -> Result<()>) -> Result<()> {
    let ops = std::mem::take(&mut net.ops);
    let mut names = Names::default();
    for op in ops {
        let mut builder = Builder { net, names: &mut names, ops: Vec::new(), name: op.name.clone() };
        step(&mut builder, &op)?;
        let ops = builder.ops;
        if ops.len() != 1 {
            reasons.say(|| format!("{}: {} as {} operations", op.name, op.kind.name(), ops.len()));
        }
        net.ops.extend(ops);
    }
    Ok(())
}

/// Removes operations by position.
fn remove(net: &mut Net, gone: &HashSet<usize>) {
    let mut at = 0;
    net.ops.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
}

impl Builder<'_> {
    fn constant(&mut self, suffix: &str, shape: Vec<usize>, data: Vec<f32>) -> ValueId {
        self.constant_of(suffix, Tensor { shape, data: Data::F32(data) })
    }

    fn constant_of(&mut self, suffix: &str, tensor: Tensor) -> ValueId {
        self.shared_constant(suffix, Arc::new(tensor))
    }

    fn shared_constant(&mut self, suffix: &str, tensor: Arc<Tensor>) -> ValueId {
        let (name, ty) = (self.fresh(suffix), tensor.ty());
        self.net.add_value(Value { name, ty, data: Some(tensor), surface: None })
    }

    fn shape(&self, id: ValueId) -> Vec<usize> {
        self.net.value(id).ty.shape.clone()
    }

    fn fresh(&mut self, suffix: &str) -> String {
        let name = format!("{}.{suffix}", self.name);
        let all = self.names.all(self.net);
        let name = if all.contains(&name) { format!("{name}.{}", self.net.values.len()) } else { name };
        all.insert(name.clone());
        name
    }

    fn op(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
        let ty = TensorType { dtype: DType::F16, shape };
        let name = self.fresh(suffix);
        let output = self.net.add_value(Value { name, ty, data: None, surface: None });
        self.push(kind, inputs, output);
        output
    }

    fn push(&mut self, kind: OpKind, inputs: &[ValueId], output: ValueId) {
        self.ops.push(Op { name: self.name.clone(), kind, inputs: inputs.to_vec(), outputs: vec![output] });
    }
}

/// Returns true if a pass may replace constants `of` by `made`: fp16 represents them about as well, and none becomes infinite.
fn stays_finite(made: &[f32], of: &[&[f32]]) -> bool {
    let finite = |all: &[f32]| all.iter().all(|x| x.abs() < OVERFLOW);
    finite(made) || !of.iter().all(|all| finite(all))
}

/// Returns true if weights made by a pass keep their precision in fp16: the largest is zero or a normal number. Single channels may be
/// subnormal, since their results are small beside the others.
fn stays_normal(made: &[f32]) -> bool {
    let most = made.iter().fold(0f32, |most, x| most.max(x.abs()));
    most == 0.0 || most >= LEAST_NORMAL
}

/// Returns true if fp16 represents the weights of each result that a pass made, in rows of `width`, about as well as `given` and the
/// factors of which it made them. What is lost beside a larger addend in `bias` does not count.
fn stays_precise(made: &[f32], width: usize, given: &[f32], factor: impl Fn(usize) -> f32, bias: &[f32]) -> bool {
    let lost = |x: f32| (f16::from_f32(x).to_f32() - x).abs();
    let share = |x: f32| if x == 0.0 { 0.0 } else { lost(x) / x.abs() };
    let width = width.max(1);
    made.chunks(width).enumerate().all(|(row, weights)| {
        let most = weights.iter().fold(0f32, |most, x| most.max(x.abs()));
        if most == 0.0 || most >= LEAST_NORMAL {
            return true;
        }
        let worst = weights.iter().fold(0f32, |most, &x| most.max(lost(x)));
        let addend = bias.get(row).map_or(0.0, |b| b.abs());
        if worst <= PRECISE * most || worst * USUAL <= PRECISE * addend {
            return true;
        }
        let first = row * width;
        let before = (first..first + weights.len()).map(|at| share(given[at]) + share(factor(at)));
        worst <= 2.0 * before.fold(0f32, f32::max) * most
    })
}

/// Largest error of a weight beside the largest one of its row: twice that of rounding it.
const PRECISE: f32 = 1.0 / 1024.0;

/// Magnitude that operands of a layer with an addend usually stay below.
const USUAL: f32 = 1024.0;

/// Smallest positive normal fp16 number.
const LEAST_NORMAL: f32 = 1.0 / 16384.0;
