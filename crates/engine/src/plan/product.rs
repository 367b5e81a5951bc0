//! Products of two operands in memory (GEMM), and pass `products`: coefficients are read from the source of the copy that wrote them, and
//! products of consecutive rows by one matrix become one product, which packs that matrix once.

use super::aside;
use super::maps::MapOperand;
use super::moves::{self, readers, through};
use super::ops::{Kind, Move, Op};
use super::{Step, Work};
use crate::machine::Machine;
use crate::memory::Home;
use crate::ne::Operation;
use crate::numerics::Parameters;
use crate::unpack::StreamPart;
use anemone_conv::Im2col;
use anemone_facts::Field::*;
use anemone_kernels::arrays::MapEach;
use anemone_kernels::copy::{CopyAxis, NanRule};
use anemone_kernels::epilogue::{Activation, ExactEpilogue};
use anemone_kernels::filter::CoefficientRow;
use anemone_kernels::gemm::rows::RowMatrix;
use anemone_kernels::tensor::Extents;
use anemone_kernels::window::Window;
use half::f16;
use std::ops::Range;

/// Limit of the rows of a product, over all groups, since a program may state any number.
const MOST_ROWS: usize = 1 << 20;

/// A pointwise convolution whose coefficients are fp16 elements in memory: the matrix of coefficients, one row per output channel, times
/// the matrix of the source, one row per input channel.
#[derive(Clone)]
pub struct Product {
    pub(crate) input: Extents,
    /// Extents of the result before it is transposed.
    pub(crate) output: Extents,
    pub(crate) coefficients: CoefficientBox,
    /// Coefficients as copies to a dense matrix, ordered by group, row and tap; each copy covers some rows.
    pub(super) parts: Vec<Move>,
    pub(crate) source: MapOperand,
    pub(crate) to: MapOperand,
    pub(crate) transposed: bool,
    pub(crate) window: Window,
    pub(crate) staging: Im2col,
    pub(crate) bias: f32,
    pub(crate) scale: f32,
    pub(crate) activation: Activation,
    /// Epilogue of the exact models.
    pub(crate) exactly: Option<ExactEpilogue>,
    /// True if coefficients pass the NaN rule of a dropped copy: NaN becomes plus infinity.
    pub(crate) admits: bool,
    /// Number of tasks that it replaces.
    pub(crate) tasks: usize,
}

/// Coefficients in memory, by group, row and tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoefficientBox {
    pub home: Home,
    /// Offset of the first coefficient of each row, in elements of the region; for each group, or one group for all.
    pub rows: Vec<usize>,
    /// Elements between the taps of a row.
    pub stride: usize,
    pub taps: usize,
}

impl CoefficientBox {
    /// Range of elements from the first one read to the end of the last.
    pub fn range(&self) -> Range<usize> {
        let first = self.rows.iter().copied().min().unwrap_or(0);
        let last = self.rows.iter().copied().max().unwrap_or(0);
        first..last + self.taps.saturating_sub(1) * self.stride + 1
    }

    /// The matrix in `data`, the elements of [`CoefficientBox::range`], with `channels` rows per group.
    pub(crate) fn matrix<'a>(&'a self, data: &'a [f16], channels: usize) -> RowMatrix<'a> {
        let (starts, first) = (&self.rows[..], self.range().start);
        RowMatrix { data, starts, first, stride: self.stride, taps: self.taps, channels }
    }

    /// The rows of each group, `rows` per group, in `data`, the elements of [`CoefficientBox::range`].
    pub(crate) fn of<'a>(&self, data: &'a [f16], rows: usize) -> Vec<Vec<CoefficientRow<'a>>> {
        let first = self.range().start;
        let row = |&at: &usize| CoefficientRow { data: &data[at - first..], stride: self.stride };
        self.rows.chunks(rows.max(1)).map(|group| group.iter().map(row).collect()).collect()
    }
}

impl Product {
    /// The product as an operation.
    pub(super) fn op(self, tasks: Range<usize>) -> Op {
        let writes = vec![self.to.of(self.stored())];
        let coefficients = self.parts.iter().map(Move::read);
        let reads = coefficients.chain([self.source.of(self.input)]).collect();
        Op { tasks, reads, writes, kind: Kind::Product(Box::new(self)), known: true }
    }

    /// Extents of the result as stored.
    pub(super) fn stored(&self) -> Extents {
        if self.transposed { self.output.transposed() } else { self.output }
    }

    /// The product with other parts; `None` if the tap stride is not constant, or a row is missing.
    pub(super) fn of_parts(&self, parts: Vec<Move>) -> Option<Product> {
        let CoefficientBox { rows, taps, .. } = &self.coefficients;
        let coefficients = resolved(&parts, rows.len(), *taps)?;
        Some(Product { coefficients, parts, ..self.clone() })
    }

    /// Number of multiply-accumulates.
    pub(crate) fn macs(&self) -> u64 {
        (self.output.g * self.output.c * self.output.plane() * self.coefficients.taps) as u64
    }

    /// Joins this product and `next`, whose rows follow, perhaps with some of the last rows again; `None` if they differ in anything but rows.
    fn joined(&self, next: &Product) -> Option<Product> {
        let (one, other) = (&self.coefficients, &next.coefficients);
        let epilogue = |of: &Product| {
            let plain =
                matches!(of.activation, Activation::None) && matches!(of.exactly, None | Some(ExactEpilogue::Admit));
            plain.then_some((of.bias.to_bits(), of.scale.to_bits(), of.exactly.is_some()))
        };
        let step = if self.transposed { 1 } else { self.to.axes.strides[1] };
        let behind = next.to.base.checked_sub(self.to.base).filter(|_| step > 0)?;
        let before = behind / step;
        // Rows that both compute.
        let again = self.output.c.checked_sub(before).filter(|again| *again <= next.output.c)?;
        let follows = next.to == MapOperand { base: self.to.base + before * step, ..self.to.clone() };
        let alike = (self.input, &self.source, self.transposed, self.admits)
            == (next.input, &next.source, next.transposed, next.admits)
            && Extents { c: 0, ..self.output } == Extents { c: 0, ..next.output }
            && (one.home, one.stride, one.taps) == (other.home, other.stride, other.taps)
            && epilogue(self).is_some_and(|of| epilogue(next) == Some(of));
        if !alike || !follows {
            return None;
        }
        let groups = one.rows.chunks(self.output.c).zip(other.rows.chunks(next.output.c));
        let counts = [one, other].map_each(|of| of.rows.len());
        if counts[0] * next.output.c != counts[1] * self.output.c {
            return None;
        }
        let mut rows = Vec::with_capacity(counts[0] + counts[1]);
        for (one, other) in groups {
            if one.get(before..)? != other.get(..again)? {
                return None;
            }
            rows.extend([&one[..before], other].concat());
        }
        let output = Extents { c: before + next.output.c, ..self.output };
        let coefficients = CoefficientBox { rows, ..one.clone() };
        let parts = [self.parts.as_slice(), &next.parts].concat();
        let joined = Product { output, coefficients, parts, tasks: self.tasks + next.tasks, ..self.clone() };
        joined.to.of(joined.stored()).is_nested().then_some(joined)
    }
}

/// Resolves a matrix of `rows` rows from copies of its parts; `None` if the tap stride is not constant, or a row is missing.
pub fn resolved(parts: &[Move], rows: usize, taps: usize) -> Option<CoefficientBox> {
    let home = parts.first()?.from.0;
    let mut starts = vec![None; rows];
    let mut stride = None;
    for part in parts {
        let step = match part.axes.last() {
            Some(inner) if inner.to == 1 && inner.count.is_multiple_of(taps) => inner.from,
            _ if taps == 1 => 1,
            _ => return None,
        };
        if part.from.0 != home || *stride.get_or_insert(step) != step {
            return None;
        }
        for (row, start) in starts.iter_mut().enumerate() {
            *start = start.or_else(|| part.source_of(row * taps));
        }
    }
    let rows = starts.into_iter().collect::<Option<Vec<usize>>>()?;
    Some(CoefficientBox { home, rows, stride: stride?, taps })
}

/// Pass `products`. `own` returns true for regions that only the program's tasks access.
pub(super) fn run(ops: &mut Vec<Op>, own: impl Fn(Home) -> bool) {
    aside::run(ops, &own);
    for j in 0..ops.len() {
        let before = ops[j].clone();
        while let Some(product) = through_copy(ops, j) {
            ops[j] = product.op(ops[j].tasks.clone());
        }
        if let (Kind::Product(from), Kind::Product(of)) = (&before.kind, &ops[j].kind)
            && of.admits
            && from.parts.iter().zip(&of.parts).any(|(from, of)| from == of)
        {
            // Without a copy a NaN stays, which a fixed-point accumulator may read as another number.
            ops[j] = before;
        }
    }
    moves::drop_unread(ops, &own);
    let mut j = 1;
    while j < ops.len() {
        match joined(&ops[j - 1], &ops[j]) {
            Some(op) => {
                ops[j - 1] = op;
                ops.remove(j);
            }
            None => j += 1,
        }
    }
    for j in 0..ops.len() {
        if let Some((m, copy, product)) = around_copy(ops, j, &own) {
            ops[m] = Op::moves(ops[m].tasks.clone(), copy);
            ops[j] = product.op(ops[j].tasks.clone());
        }
    }
    moves::drop_unread(ops, &own);
}

/// The product at `j` with part of its coefficients read from the source of the copy that wrote it; `None` if there is no such part.
pub(super) fn through_copy(ops: &[Op], j: usize) -> Option<Product> {
    let Kind::Product(of) = &ops[j].kind else { return None };
    let exact = of.exactly.is_some();
    let rule = if exact { NanRule::Infinity } else { NanRule::Quiet };
    (0..of.parts.len()).find_map(|k| {
        let part = &of.parts[k];
        let read = part.read();
        let i = ops[..j].iter().rposition(|op| op.may_write(&read))?;
        let writer = ops[i].as_move().filter(|writer| writer.rule == rule)?;
        let found = through(writer, part)?;
        let source = found.read();
        let kept = ops[i + 1..j].iter().all(|op| !op.may_write(&source)) && !writer.written().overlaps(&writer.read());
        let mut product = of.as_ref().clone();
        product.parts[k] = found;
        product.admits = exact;
        let (rows, taps) = (of.coefficients.rows.len(), of.coefficients.taps);
        product.coefficients = resolved(&product.parts, rows, taps)?;
        kept.then_some(product)
    })
}

/// The product at `j` with its coefficients read from the source of the copy that wrote them, although the copy of its other operand, at the
/// returned index, overwrites that source: this copy writes where the first one did. `None` unless only the product reads both copies.
fn around_copy(ops: &[Op], j: usize, own: &impl Fn(Home) -> bool) -> Option<(usize, Move, Product)> {
    let Kind::Product(of) = &ops[j].kind else { return None };
    let read = of.parts.first()?.read();
    let i = ops[..j].iter().rposition(|op| op.may_write(&read))?;
    let source = of.source.of(of.input);
    let m = (i + 1..j).rev().find(|&m| ops[m].may_write(&source))?;
    let (first, other) = (ops[i].as_move()?, ops[m].as_move()?);
    let exact = of.exactly.is_some();
    let rule = if exact { NanRule::Infinity } else { NanRule::Quiet };
    let parts = of.parts.iter().map(|part| through(first, part)).collect::<Option<Vec<Move>>>()?;
    let ([_, left], [_, needed]) = (first.ranges(), other.ranges());
    let alone = [i, m].iter().all(|&at| own(ops[at].writes[0].home) && readers(ops, at).eq([j]));
    let free = Op::moves(0..0, Move { axes: dense_axes(&left), ..first.clone() });
    let apart = |op: &Op| op.known && !free.may_write_any(&op.reads) && !free.may_write_any(&op.writes);
    let between = (i + 1..j).filter(|&at| at != m).all(|at| apart(&ops[at]));
    let kept = parts.iter().all(|part| (i + 1..j).all(|at| at == m || !ops[at].may_write(&part.read())));
    let inside = of.source.home == other.to.0
        && of.source.base >= needed.start
        && of.source.end(of.input) <= needed.end
        && needed.len() <= left.len();
    let unmoved = first.rule == rule
        && !first.written().overlaps(&first.read())
        && !free.may_write(&other.read())
        && !free.may_write_any(&ops[j].writes);
    if !(alone && between && kept && inside && unmoved) {
        return None;
    }
    let mut product = of.of_parts(parts)?;
    product.admits = exact;
    (product.source.home, product.source.base) = (first.to.0, left.start + of.source.base - needed.start);
    Some((m, Move { to: first.to, ..other.clone() }, product))
}

/// Axes of a dense range of elements.
fn dense_axes(range: &Range<usize>) -> Vec<CopyAxis> {
    vec![CopyAxis { count: range.len(), to: 1, from: 1 }]
}

/// Joins two consecutive products to one operation; `None` if one depends on the other, or they do not join.
fn joined(one: &Op, next: &Op) -> Option<Op> {
    let (Kind::Product(first), Kind::Product(second)) = (&one.kind, &next.kind) else { return None };
    let both = first.joined(second).or_else(|| second.joined(first))?;
    let apart = !one.may_write_any(&next.reads) && !next.may_write_any(&one.reads);
    apart.then(|| both.op(next.tasks.clone()))
}

impl Machine<'_> {
    /// The current task as a product; `None` unless it is a pointwise convolution of a single depth plane, its operands are fp16 without
    /// interleave, and its coefficients are uncompressed fp16 elements in memory, results of other tasks or inputs.
    pub(super) fn as_product(&self, step: &Step) -> Option<Product> {
        let Work::Neural(neural) = &step.work else { return None };
        let Operation::Convolution(convolution) = &neural.operation else { return None };
        let plain = [InputRelu, PostScaleMode, BiasMode].iter().all(|&field| self.get(field) == 0)
            && self.depth_window().is_none()
            && self.kernel_planes() == 1
            && (self.depths(), self.source_depths()) == (0..1, 0..1);
        let pointwise = convolution.staging.is_pointwise() && !convolution.unicast && !convolution.sequence;
        let exact = self.model.rounding().is_some();
        let known = if exact { neural.exactly.is_some() } else { !matches!(neural.activation, Activation::Unread) };
        let one_model = exact == self.mac.is_some();
        if !plain
            || !pointwise
            || !known
            || !one_model
            || convolution.coefficients.is_some()
            || !convolution.from_memory
        {
            return None;
        }
        let transposed = self.get(NeTranspose) == 1;
        let (input, output) = (neural.input, neural.output);
        let stored = if transposed { output.transposed() } else { output };
        let (source, to) = (self.first_source([false; 3])?, self.result_operand(stored)?);
        let groups = if convolution.reuse { 1 } else { output.g };
        let taps = convolution.taps();
        if groups * output.c > MOST_ROWS {
            return None;
        }
        let (home, parts) = self.coefficient_parts(output.c, taps, groups)?;
        let copy = |part: StreamPart| Move::new(NanRule::Quiet, (home, part.to), (home, part.from), &part.axes);
        let parts = parts.into_iter().map(copy).collect::<Option<Vec<Move>>>()?;
        let coefficients = resolved(&parts, groups * output.c, taps)?;
        Some(Product {
            input,
            output,
            coefficients,
            parts,
            source,
            to,
            transposed,
            window: convolution.window.clone(),
            staging: convolution.staging.clone(),
            bias: self.added(),
            scale: self.factor(),
            activation: neural.activation.clone(),
            exactly: neural.exactly.clone(),
            admits: false,
            tasks: 1,
        })
    }
}
