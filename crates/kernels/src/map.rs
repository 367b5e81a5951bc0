//! Chains of elementwise stages in fp32, executed block by block: the result of a stage is rounded to fp16, as it would be in memory,
//! and read by later stages from cache.

use crate::cost;
use crate::elementwise::BLOCK;
use crate::epilogue::{Activation, Epilogue};
use crate::host::Rows;
use crate::line::Line;
use crate::reduce::{ElementwiseEpilogue, Operation, prepare};
use crate::rows::Operand;
use crate::simd;
use crate::tensor::Extents;
use crate::view::{Block, OutputTile, Strides, TensorView, partition};
use crate::workers::{Workers, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};

/// Operands of a chain in memory, at most.
pub const MOST_OPERANDS: usize = 6;
/// Stages of a chain, at most.
pub const MOST_STAGES: usize = 16;

/// Rows of fewer columns are gathered before they are widened.
const SHORT: usize = 8;

/// Source of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapInput {
    /// Operand in memory, by index.
    Operand(usize),
    /// Result of an earlier stage, by index.
    Value(usize),
}

/// One stage: its sources, a ReLU flag for the first and one for the others, and its function.
#[derive(Clone)]
pub struct MapStage {
    pub inputs: Vec<MapInput>,
    pub relus: [bool; 2],
    pub kind: MapKind,
}

/// Function of a stage.
#[derive(Clone)]
pub enum MapKind {
    /// Bias, scale and activation of one source.
    Activate { bias: f32, scale: f32, activation: Activation },
    /// One source alone, two combined, or one with an addend (second source) and a factor (third).
    Combine(Box<Combination>),
}

/// An elementwise operation with its prologue and epilogue.
pub struct Combination {
    /// Factor of the first source, and true if its absolute value is taken then.
    pub pre: Option<(f32, bool)>,
    pub operation: Operation<f32>,
    pub ending: ElementwiseEpilogue<f32>,
}

impl Clone for Combination {
    fn clone(&self) -> Combination {
        let Operation { op, first, sign } = self.operation;
        let ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu } = self.ending;
        Combination {
            pre: self.pre,
            operation: Operation { op, first, sign },
            ending: ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu },
        }
    }
}

/// A chain and its operands.
#[derive(Clone, Copy)]
pub struct Map<'a> {
    pub stages: &'a [MapStage],
    /// View, and true if one element is broadcast to a row; `None` for an operand in place of the result.
    pub operands: &'a [Option<(TensorView<'a>, bool)>],
}

/// Scratch buffers of a thread.
#[derive(Default)]
pub struct Buffers {
    wide: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    gathered: Vec<f16>,
    values: Vec<f16>,
}

/// Executes all stages for every element of the result.
pub fn map(workers: &Workers, of: Map, to: &mut [f16], ext: Extents, strides: Strides) {
    let elements = ext.g * ext.c * ext.plane();
    if elements == 0 || of.stages.is_empty() {
        return;
    }
    let parts = 2 * rayon::current_num_threads();
    let channels = ext.c.div_ceil(parts).max(1);
    let rows = if ext.c < parts { ext.h.div_ceil(parts).max(1) } else { ext.h };
    let shared = workers.shares(cost::elementwise(elements * of.stages.len()));
    let (rows, channels) = if shared { (rows, channels) } else { (ext.h, ext.c) };
    workers.each(partition(to, ext, strides, rows, channels), shared, |share, scratch| {
        let mut buffers: Box<Buffers> = scratch.arena.take();
        workers.arch.dispatch(Job { of, columns: ext.w, share, buffers: &mut buffers });
        scratch.arena.put(buffers);
    });
}

struct Job<'a, 'b> {
    of: Map<'a>,
    columns: usize,
    share: &'a mut OutputTile<'b>,
    buffers: &'a mut Buffers,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { of, columns, share, buffers } = self;
        let most = BLOCK.max(columns);
        let Buffers { wide, a, b, gathered, values } = buffers;
        let mut at = At {
            wide: scratch_slice(wide, most),
            a: scratch_slice(a, most),
            b: scratch_slice(b, most),
            gathered: scratch_slice(gathered, most),
        };
        let values = scratch_slice(values, most * of.stages.len());
        share.blocks(
            columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                for (i, stage) in of.stages.iter().enumerate() {
                    let (before, rest) = values.split_at_mut(i * most);
                    let left = &mut rest[..block.elements()];
                    let sources = Sources { of: &of, to: &*to, block, values: before, most };
                    at.stage(simd, stage, &sources, left);
                }
                let last = &values[(of.stages.len() - 1) * most..][..block.elements()];
                if columns == 1 {
                    // Rows of one element, whatever their distance.
                    let stride = block.stored().to_stride;
                    last.iter().enumerate().for_each(|(i, x)| to[i * stride] = *x);
                } else {
                    block.store(last, to);
                }
            },
        );
    }
}

/// Sources that a stage may read.
struct Sources<'a> {
    of: &'a Map<'a>,
    to: &'a [f16],
    block: Block,
    values: &'a [f16],
    most: usize,
}

/// Scratch buffers, sliced for a job.
struct At<'a> {
    wide: &'a mut [f32],
    a: &'a mut [f32],
    b: &'a mut [f32],
    gathered: &'a mut [f16],
}

impl Sources<'_> {
    /// Reads the block of a source, widened to fp32, into `to`.
    #[inline(always)]
    fn read<S: Simd>(&self, simd: S, input: MapInput, relu: bool, [wide, to]: [&mut [f32]; 2], gathered: &mut [f16]) {
        let n = self.block.elements();
        if self.block.columns < SHORT {
            let from = self.gather(input, gathered);
            return f32::admit_rows(simd, from, Rows::one(n), relu, wide, &mut to[..n]);
        }
        let (from, from_stride) = match input {
            MapInput::Value(at) => (&self.values[at * self.most..], self.block.columns),
            MapInput::Operand(at) => match self.of.operands[at] {
                Some((source, one_column)) => {
                    let operand = Operand { source, one_column, relu, pairs_turned: false, one_pair: false };
                    return operand.read(simd, self.block, wide, to);
                }
                None => (self.to, self.block.stored().to_stride),
            },
        };
        let columns = self.block.columns;
        let rows = match input {
            MapInput::Value(_) => Rows::one(n),
            MapInput::Operand(_) => Rows { count: self.block.count, columns, from_stride, to_stride: columns },
        };
        f32::admit_rows(simd, from, rows, relu, wide, &mut to[..n]);
    }

    /// The block of a source in fp16, without gaps; gathered into `to` if it has any.
    #[inline(always)]
    fn gather<'a>(&'a self, input: MapInput, to: &'a mut [f16]) -> &'a [f16] {
        let (n, Block { count, columns, .. }) = (self.block.elements(), self.block);
        let (from, stride) = match input {
            MapInput::Value(at) => return &self.values[at * self.most..][..n],
            MapInput::Operand(at) => match self.of.operands[at] {
                Some((source, true)) if columns > 1 => {
                    let (from, stride) = self.block.of_source(source);
                    for row in 0..count {
                        to[row * columns..][..columns].fill(from[row * stride]);
                    }
                    return &to[..n];
                }
                Some((source, _)) => self.block.of_source(source),
                None => (self.to, self.block.stored().to_stride),
            },
        };
        if count == 1 || stride == columns {
            return &from[..n];
        }
        if columns == 1 {
            to[..n].iter_mut().enumerate().for_each(|(i, to)| *to = from[i * stride]);
        } else {
            crate::view::copy_rows(from, to, Rows { count, columns, from_stride: stride, to_stride: columns });
        }
        &to[..n]
    }
}

impl At<'_> {
    #[inline(always)]
    fn stage<S: Simd>(&mut self, simd: S, stage: &MapStage, sources: &Sources, left: &mut [f16]) {
        let [relu, relus] = stage.relus;
        let n = left.len();
        match &stage.kind {
            MapKind::Activate { bias, scale, activation } => {
                let from = sources.gather(stage.inputs[0], self.gathered);
                let finish = Epilogue { bias: *bias, scale: *scale, activation };
                finish.copy(simd, from, &mut self.wide[..n], left);
            }
            MapKind::Combine(of) => {
                sources.read(simd, stage.inputs[0], relu, [&mut *self.wide, &mut *self.a], self.gathered);
                let a = &mut self.a[..n];
                if let Some((pre, abs)) = of.pre {
                    prepare(a, pre, abs);
                }
                match *stage.inputs {
                    [_, second] => {
                        sources.read(simd, second, relus, [&mut *self.wide, &mut *self.b], self.gathered);
                        of.operation.rows(a, &self.b[..n]);
                    }
                    [_, addend, factor] => {
                        sources.read(simd, addend, relus, [&mut *self.wide, &mut *self.b], self.gathered);
                        let sign = of.operation.sign;
                        a.iter_mut().zip(&*self.b).for_each(|(x, addend)| *x += sign * addend);
                        sources.read(simd, factor, relus, [&mut *self.wide, &mut *self.b], self.gathered);
                        a.iter_mut().zip(&*self.b).for_each(|(x, factor)| *x *= factor);
                    }
                    _ => {}
                }
                of.ending.apply(a);
                simd::round_rows(simd, a, left, Rows::one(n));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num;
    use crate::params::BinaryOp;
    use crate::workers::arches;

    fn combine(op: BinaryOp, inputs: &[MapInput], relu: bool) -> MapStage {
        let operation = Operation { op, first: 1.0, sign: 1.0 };
        let ending = ElementwiseEpilogue { relu, ..ElementwiseEpilogue::nothing() };
        let kind = MapKind::Combine(Box::new(Combination { pre: None, operation, ending }));
        MapStage { inputs: inputs.to_vec(), relus: [false; 2], kind }
    }

    /// `relu((x + s) * f) * x + y`, each step rounded, from rows with gaps, repeated ones, and in place.
    #[test]
    fn stages_round_what_they_leave() {
        // Long rows, short ones, and rows of one element.
        for (h, w) in [(5, 37), (37, 5), (185, 1)] {
            stages_at(Extents { g: 1, c: 3, h, w });
        }
    }

    fn stages_at(ext: Extents) {
        use MapInput::{Operand, Value};
        let (rows, gap) = (ext.w, ext.w + 13);
        let (strides, gaps) = ([0, 185, rows], [0, ext.h * gap, gap]);
        let numbers = |n: usize, by: usize| (0..n).map(|i| f16::from_f32((i * by % 211) as f32 / 31.0 - 3.0)).collect();
        let [x, y, pairs]: [Vec<f16>; 3] = [numbers(3 * ext.h * gap, 7), numbers(3 * 185, 11), numbers(6, 5)];
        let table: Vec<f16> = (0..=u16::MAX).map(|i| f16::from_bits(i ^ 1)).collect();
        let table = Activation::Table(std::sync::Arc::new(crate::table::Table::of(table, None)));
        let stages = [
            combine(BinaryOp::Add, &[Operand(0), Operand(1), Operand(2)], true),
            combine(BinaryOp::Mul, &[Value(0), Operand(0)], false),
            MapStage {
                inputs: vec![Value(1)],
                relus: [false; 2],
                kind: MapKind::Activate { bias: 0.5, scale: 2.0, activation: table },
            },
            combine(BinaryOp::Add, &[Value(2), Operand(3)], false),
        ];
        let mut wanted = y.clone();
        for (i, to) in wanted.iter_mut().enumerate() {
            let (c, h, w) = (i / 185, i / rows % ext.h, i % rows);
            let (x, s, f) = (x[c * ext.h * gap + h * gap + w].to_f32(), pairs[c].to_f32(), pairs[3 + c].to_f32());
            let a = num::round(((x + s) * f).max(0.0)).to_f32();
            let b = num::round(a * x).to_f32();
            let c = f16::from_bits(num::round((b + 0.5) * 2.0).to_bits() ^ 1).to_f32();
            *to = num::round(c + to.to_f32());
        }
        for arch in arches() {
            let mut found = y.clone();
            let pair = |row: usize| TensorView { data: &pairs[3 * row..], strides: [0, 1, 0] };
            let from = TensorView { data: &x, strides: gaps };
            let operands = [Some((from, false)), Some((pair(0), true)), Some((pair(1), true)), None];
            map(&Workers::used(arch), Map { stages: &stages, operands: &operands }, &mut found, ext, strides);
            let bits = |of: &[f16]| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&wanted));
        }
    }
}
