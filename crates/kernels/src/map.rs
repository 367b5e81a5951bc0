//! Fused chains of elementwise stages, executed block by block in cache. The result of each stage is rounded to fp16 by the rules of its
//! number model, as if it had been stored to memory.

use crate::cost;
use crate::epilogue::{Activation, Epilogue, ExactEpilogue};
use crate::host::Rows;
use crate::line::{BLOCK, Line, relu_row};
use crate::num::elementwise::admit_row;
use crate::num::wide::{Exact, Wide};
use crate::params::Rounding;
use crate::reduce::{ElementwiseEpilogue, Operation, prepare};
use crate::rows::Operand;
use crate::simd::{self, LONGEST};
use crate::table::Table;
use crate::tensor::Extents;
use crate::view::{
    Block, OutputTile, Strides, TensorView, copy_rows, gather_elements, partition, repeat_elements, scatter_elements,
};
use crate::workers::{LINE_BYTES, Workers, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use std::sync::Arc;

mod composed;
mod registers;
mod unary;

pub use unary::{key, table_of, with_tables};

/// Largest number of operands of a chain in memory.
pub const MOST_OPERANDS: usize = 8;
/// Largest number of stages of a chain.
pub const MOST_STAGES: usize = 16;

/// Elements of a block, which has a fixed cost of about 200 ns. Stages of exact models, with wider buffers, take [`BLOCK`].
const LONG_BLOCK: usize = 1 << 12;
/// fp16 elements of a cache line.
const LINE: usize = LINE_BYTES / 2;
/// Rows of fewer columns are gathered before they are widened.
const SHORT: usize = 8;

/// Input of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapInput {
    /// Operand in memory, by index.
    Operand(usize),
    /// Result of an earlier stage, by index.
    Value(usize),
}

/// One stage: its inputs, a ReLU flag for the first and one for the others, and its function.
#[derive(Clone)]
pub struct MapStage {
    pub inputs: Vec<MapInput>,
    pub relus: [bool; 2],
    pub kind: MapKind,
}

/// Function of a stage.
#[derive(Clone)]
pub enum MapKind {
    /// Bias, scale and activation of one input.
    Activate { bias: f32, scale: f32, activation: Activation },
    /// One input alone, two combined, or one with an addend (second input) and a factor (third).
    Combine(Box<Combination<f32>>),
    /// Epilogue of an exact model applied to one input.
    Convert(ExactEpilogue),
    /// Table over the fp16 bit patterns of one input, in place of several stages that depend on that input alone.
    LookUp(Arc<Table>),
    /// [`MapKind::Combine`] in an exact model.
    CombineExactly(Box<ExactCombination>),
}

/// An elementwise operation with its prologue and epilogue.
pub struct Combination<N> {
    /// Factor of the first input, and true if its absolute value is taken afterwards.
    pub pre: Option<(N, bool)>,
    pub operation: Operation<N>,
    pub ending: ElementwiseEpilogue<N>,
}

/// An elementwise operation of an exact model.
#[derive(Clone)]
pub struct ExactCombination {
    pub rules: &'static Rounding,
    pub of: Combination<Exact>,
    /// The operation in fp32, if that gives the same bits: a sum, product, maximum or minimum without factors and bias.
    pub narrow: Option<Combination<f32>>,
}

impl Combination<f32> {
    /// Returns true for the bare operation, with or without a ReLU behind it.
    pub fn is_plain(&self) -> bool {
        let Operation { first, sign, .. } = self.operation;
        self.pre.is_none() && [first, sign] == [1.0; 2] && self.ending.plain && self.ending.function.is_none()
    }
}

impl<N: Wide> Clone for Combination<N> {
    fn clone(&self) -> Combination<N> {
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
    /// View, and true if one element is broadcast to a row; `None` for an operand that is in the result buffer.
    pub operands: &'a [Option<(TensorView<'a>, bool)>],
}

/// Scratch buffers of a thread.
#[derive(Default)]
pub struct Buffers {
    wide: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    exact: [Vec<Exact>; 2],
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
        let is_exact = |of: &MapStage| matches!(of.kind, MapKind::Convert(_) | MapKind::CombineExactly(_));
        let most_at_once = if of.stages.iter().any(is_exact) { BLOCK } else { LONG_BLOCK };
        // Rows of a block may be followed by gaps of their own length. The padding keeps buffers from starting a power of two apart, where they
        // would compete for the same cache sets.
        let most = (2 * most_at_once).max(columns).next_multiple_of(LINE) + LINE;
        let Buffers { wide, a, b, exact: [exact_a, exact_b], gathered, values } = buffers;
        let in_exact = of.stages.iter().any(MapStage::is_in_exact);
        let exact_elements = if in_exact { most } else { 0 };
        let mut at = At {
            exact: [scratch_slice(exact_a, exact_elements), scratch_slice(exact_b, exact_elements)],
            wide: scratch_slice(wide, most),
            a: scratch_slice(a, most),
            b: scratch_slice(b, most),
            gathered: scratch_slice(gathered, most),
        };
        let values = scratch_slice(values, most * of.stages.len());
        // No operand is in the result buffer.
        let straight = of.operands.iter().all(Option::is_some);
        let is_result = |input: &MapInput| matches!(*input, MapInput::Operand(at) if of.operands[at].is_none());
        let in_place = match of.stages {
            [MapStage { kind: MapKind::LookUp(table), inputs, .. }] if inputs.iter().all(is_result) => Some(table),
            _ => None,
        };
        share.blocks(
            columns,
            most_at_once,
            #[inline(always)]
            |block, to| {
                let stored = block.stored();
                if let Some(table) = in_place.filter(|_| columns >= LONGEST || stored.to_stride <= 2 * columns)
                    && table.rows(simd, None, Rows { from_stride: stored.to_stride, ..stored }, to)
                {
                    return;
                }
                let block = with_gaps(&of, block, to);
                let n = block.elements();
                let is_whole = block.columns == columns && (block.count == 1 || stored.to_stride == columns);
                let last = of.stages.len() - 1;
                // The last stage writes to its place where nothing is read there. One call for all stages: its code is long.
                let at_place = straight && is_whole;
                let alike = block.columns == stored.to_stride;
                let mut direct = straight && !is_whole && columns > 1 && (columns >= LONGEST || alike);
                let mut i = 0;
                while let Some(stage) = of.stages.get(i) {
                    let (before, rest) = values.split_at_mut(i * most);
                    let target = (direct && i == last).then_some(stored);
                    let (to, left): (&[f16], _) = match target {
                        Some(_) => (&[], &mut *to),
                        None if at_place && i == last => (&[], &mut to[..n]),
                        None => (&*to, &mut rest[..n]),
                    };
                    let sources = Sources { of: &of, to, block, values: before, most };
                    // A stage that cannot write rows to their places is executed again, for a row without gaps.
                    match (at.stage(simd, stage, &sources, left, target), target) {
                        (false, Some(_)) => direct = false,
                        _ => i += 1,
                    }
                }
                if at_place || direct {
                    return;
                }
                let left = &values[last * most..][..n];
                if columns == 1 {
                    // Rows of one element, at any stride.
                    scatter_elements(left, stored.to_stride, to);
                } else {
                    copy_rows(left, to, Rows { from_stride: block.columns, ..stored });
                }
            },
        );
    }
}

/// Extends rows over the gaps behind them, if all operands have the same row stride: one long row is cheaper, and the elements in the gaps
/// are not stored.
#[inline(always)]
fn with_gaps(of: &Map, block: Block, to: &[f16]) -> Block {
    let mut columns = None;
    for operand in of.operands {
        let (from, stride) = match *operand {
            Some((_, true)) => continue,
            Some((source, false)) => block.of_source(source),
            None => (to, block.stored().to_stride),
        };
        let alike = columns.is_none_or(|columns| columns == stride);
        let near = (block.columns..=2 * block.columns).contains(&stride);
        if !alike || !near || block.columns == 1 || block.count == 1 || from.len() < block.count * stride {
            return block;
        }
        columns = Some(stride);
    }
    let mut wider = block;
    wider.columns = columns.unwrap_or(block.columns);
    wider
}

/// Inputs that a stage may read.
struct Sources<'a> {
    of: &'a Map<'a>,
    to: &'a [f16],
    block: Block,
    values: &'a [f16],
    most: usize,
}

/// Scratch buffers, sliced to the block size of a job.
struct At<'a> {
    wide: &'a mut [f32],
    a: &'a mut [f32],
    b: &'a mut [f32],
    /// Empty unless a stage computes in [`Exact`] numbers.
    exact: [&'a mut [Exact]; 2],
    gathered: &'a mut [f16],
}

impl MapStage {
    /// Returns true if the stage computes in [`Exact`] numbers.
    fn is_in_exact(&self) -> bool {
        matches!(&self.kind, MapKind::CombineExactly(of) if of.narrow.is_none())
    }
}

impl Sources<'_> {
    /// Reads the block of an input, widened, into `to`.
    #[inline(always)]
    fn read<S: Simd, N: Line>(
        &self,
        simd: S,
        input: MapInput,
        relu: bool,
        wide: &mut [f32],
        to: &mut [N],
        gathered: &mut [f16],
    ) {
        let n = self.block.elements();
        if self.block.columns < SHORT {
            let from = self.gather(input, gathered);
            return N::admit_rows(simd, from, Rows::one(n), relu, wide, &mut to[..n]);
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
        N::admit_rows(simd, from, rows, relu, wide, &mut to[..n]);
    }

    /// The block of an input in fp16, contiguous; gathered into `to` if its rows have gaps.
    #[inline(always)]
    fn gather<'a>(&'a self, input: MapInput, to: &'a mut [f16]) -> &'a [f16] {
        let (n, Block { count, columns, .. }) = (self.block.elements(), self.block);
        let (from, stride) = match input {
            MapInput::Value(at) => return &self.values[at * self.most..][..n],
            MapInput::Operand(at) => match self.of.operands[at] {
                Some((source, true)) if columns > 1 => {
                    let (from, stride) = self.block.of_source(source);
                    repeat_elements(from, stride, columns, &mut to[..n]);
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
            gather_elements(from, stride, &mut to[..n]);
        } else {
            copy_rows(from, to, Rows { count, columns, from_stride: stride, to_stride: columns });
        }
        &to[..n]
    }
}

impl At<'_> {
    /// Executes a stage. Its results are a row without gaps, or rows at their places if there is a `target`. Returns false, without
    /// writing, if the stage cannot write such rows.
    #[inline(always)]
    fn stage<S: Simd>(
        &mut self,
        simd: S,
        stage: &MapStage,
        sources: &Sources,
        left: &mut [f16],
        target: Option<Rows>,
    ) -> bool {
        let writes_rows = match &stage.kind {
            MapKind::Combine(_) | MapKind::CombineExactly(_) => target.is_none_or(|to| to.columns >= LONGEST),
            MapKind::LookUp(table) => table.is_computed(),
            MapKind::Activate { .. } | MapKind::Convert(_) => false,
        };
        if target.is_some() && !writes_rows {
            return false;
        }
        let rows = Rows::one(left.len());
        let At { wide, a, b, exact: [exact_a, exact_b], gathered } = self;
        match &stage.kind {
            MapKind::Activate { bias, scale, activation } => {
                let from = sources.gather(stage.inputs[0], gathered);
                let finish = Epilogue { bias: *bias, scale: *scale, activation };
                finish.copy(simd, from, &mut wide[..left.len()], left);
            }
            MapKind::LookUp(table) => {
                let from = sources.gather(stage.inputs[0], gathered);
                let to_rows = target.map(|to| Rows { from_stride: sources.block.columns, ..to });
                if table.rows(simd, Some(from), to_rows.unwrap_or(rows), left) {
                    return true;
                }
                if target.is_some() {
                    return false;
                }
                table.look_up(from, left);
            }
            MapKind::Combine(of) => {
                if sources.combine(simd, stage, of, None, gathered, left, target) {
                    return true;
                }
                if target.is_some() {
                    return false;
                }
                let space = Space { wide, gathered };
                let row = combined(simd, Admitted, (stage, of), sources, [a, b], space);
                simd::round_rows(simd, row, left, rows);
            }
            MapKind::Convert(exactly) => {
                left.copy_from_slice(sources.gather(stage.inputs[0], gathered));
                exactly.row(simd, left);
            }
            MapKind::CombineExactly(of) => {
                if let Some(narrow) = &of.narrow
                    && sources.combine(simd, stage, narrow, Some(of.rules), gathered, left, target)
                {
                    return true;
                }
                if target.is_some() {
                    return false;
                }
                let space = Space { wide, gathered };
                if let Some(narrow) = &of.narrow {
                    let row = combined(simd, ExactInFp32, (stage, narrow), sources, [a, b], space);
                    simd::settle_rows(simd, of.rules, row, left, rows);
                } else {
                    let row = combined(simd, Admitted, (stage, &of.of), sources, [exact_a, exact_b], space);
                    Exact::settle_line(Some(of.rules), row, left);
                }
            }
        }
        true
    }
}

/// Conversion of the operands of a stage.
trait Reader<N> {
    /// Reads the block of an input, through a ReLU if one is set.
    fn read<S: Simd>(simd: S, sources: &Sources, input: MapInput, relu: bool, to: &mut [N], space: &mut Space);
}

/// Operands by the rules of the number type.
struct Admitted;

impl<N: Line> Reader<N> for Admitted {
    #[inline(always)]
    fn read<S: Simd>(simd: S, sources: &Sources, input: MapInput, relu: bool, to: &mut [N], space: &mut Space) {
        sources.read(simd, input, relu, space.wide, to, space.gathered);
    }
}

/// Operands by the rules of the exact models, held in fp32.
struct ExactInFp32;

impl Reader<f32> for ExactInFp32 {
    #[inline(always)]
    fn read<S: Simd>(simd: S, sources: &Sources, input: MapInput, relu: bool, to: &mut [f32], space: &mut Space) {
        sources.read(simd, input, false, space.wide, to, space.gathered);
        let row = &mut to[..sources.block.elements()];
        admit_row(row);
        if relu {
            relu_row(row);
        }
    }
}

/// Scratch memory for the conversion of operands.
struct Space<'a> {
    wide: &'a mut [f32],
    gathered: &'a mut [f16],
}

/// Result of a stage before rounding, in the first of two buffers.
#[inline(always)]
fn combined<'a, S: Simd, N: Line, R: Reader<N>>(
    simd: S,
    _: R,
    (stage, of): (&MapStage, &Combination<N>),
    sources: &Sources,
    [a, b]: [&'a mut [N]; 2],
    mut space: Space,
) -> &'a mut [N] {
    let n = sources.block.elements();
    let [relu, relus] = stage.relus;
    // One call that reads, whichever source: its code is long.
    for (i, &input) in stage.inputs.iter().enumerate() {
        let (relu, source) = if i == 0 { (relu, &mut *a) } else { (relus, &mut *b) };
        R::read(simd, sources, input, relu, source, &mut space);
        let a = &mut a[..n];
        match (i, stage.inputs.len()) {
            (0, _) => {
                if let Some((pre, abs)) = of.pre {
                    prepare(a, pre, abs);
                }
            }
            (1, 2) => of.operation.rows(a, &b[..n]),
            (1, _) => {
                let sign = of.operation.sign;
                for (x, addend) in a.iter_mut().zip(&*b) {
                    *x = x.add(sign.mul(*addend));
                }
            }
            _ => {
                for (x, factor) in a.iter_mut().zip(&*b) {
                    *x = x.mul(*factor);
                }
            }
        }
    }
    let a = &mut a[..n];
    of.ending.apply(a);
    a
}
