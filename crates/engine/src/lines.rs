//! Planar tasks row by row where their operands lie, in the numbers of the model: elementwise operations of one or two
//! sources, addends and factors of channels, reductions. `pe.rs` has every form, and says what is wrong with a task.

use crate::direct::{Direct, Span};
use crate::fault::FaultKind;
use crate::fold::{Fold, Operation, prepare};
use crate::machine::Machine;
use crate::memory;
use crate::number;
use crate::number::settle::{Line, STRETCH};
use crate::number::wide::Exact;
use crate::pe::{Ending, FIRST, SECOND};
use crate::planar::BLOCK;
use crate::rows::{Block, Share, Source, cut};
use crate::tensor::Extents;
use crate::work::{PER_THREAD, Scratch, Workers, chunks, room};
use anemone_facts::Field::*;
use anemone_facts::code::{class, condition, planar, residency, second};
use anemone_facts::numerics::Planar;
use anemone_program::Rows;
use half::f16;
use pulp::{Simd, WithSimd};

/// Elements that are not worth waking other threads.
const WORTH_SHARING: usize = 1 << 15;
/// Planes that are reduced side by side: an addition waits for the one before it in the same plane.
const SIDE_BY_SIDE: usize = 8;

/// What is made of the rows.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    One,
    Two,
    Affine,
}

/// A source, and how its rows are read.
#[derive(Clone, Copy)]
struct Operand<'a> {
    source: Source<'a>,
    /// Whether one element stands for a row.
    one_column: bool,
    relu: bool,
    /// Of pairs of a channel: whether channels are its columns, and whether one pair stands for all of them.
    pairs_turned: bool,
    one_pair: bool,
}

impl Operand<'_> {
    #[inline(always)]
    fn read<S: Simd, N: Line>(&self, simd: S, block: Block, wide: &mut [f32], to: &mut [N]) {
        let columns = if self.one_column { 1 } else { block.columns };
        let n = block.count * columns;
        let (from, from_stride) = block.of_source(self.source);
        let rows = Rows { count: block.count, columns, from_stride, to_stride: columns };
        N::admit_rows(simd, from, rows, self.relu, wide, &mut to[..n]);
        if self.one_column {
            // From the last on: what is spread lies where others stood.
            for row in (0..block.count).rev() {
                let first = to[row];
                to[row * block.columns..][..block.columns].fill(first);
            }
        }
    }
}

impl Operand<'_> {
    /// A channel's addend and factor.
    #[inline(always)]
    fn pair<S: Simd, N: Line>(&self, simd: S, [group, channel]: [usize; 2], wide: &mut [f32]) -> [N; 2] {
        let mut pair = [N::admit(0.0); 2];
        for (row, number) in pair.iter_mut().enumerate() {
            let from = match (self.pairs_turned, self.one_pair) {
                (false, _) => self.source.from(group, channel, row),
                (true, true) => self.source.from(group, 0, row),
                (true, false) => &self.source.from(group, 0, row)[channel..],
            };
            N::admit_rows(simd, from, Rows::one(1), self.relu, wide, std::slice::from_mut(number));
        }
        pair
    }
}

/// A task's rows.
struct Lines<'a, N> {
    form: Form,
    operands: [Operand<'a>; 2],
    /// What source 1 is multiplied by, where that or its sign changes anything.
    pre: Option<(N, bool)>,
    operation: Operation<N>,
    ending: &'a Ending<N>,
    rules: Option<&'static Planar>,
    columns: usize,
}

/// Rows of a plane at work.
#[derive(Default)]
pub(crate) struct Buffers<N> {
    wide: Vec<f32>,
    a: Vec<N>,
    b: Vec<N>,
    halves: Vec<f16>,
}

/// Those of planes that are worked on together.
pub(crate) type PlaneBuffers<N> = [Buffers<N>; SIDE_BY_SIDE];

/// As much of them as rows need.
struct Rooms<'a, N> {
    wide: &'a mut [f32],
    a: &'a mut [N],
    b: &'a mut [N],
    halves: &'a mut [f16],
}

impl<N: Kept> Buffers<N> {
    fn rooms(&mut self, elements: usize) -> Rooms<'_, N> {
        let Buffers { wide, a, b, halves } = self;
        let (wide, halves) = (room(wide, elements), room(halves, elements));
        Rooms { wide, a: room(a, elements), b: room(b, elements), halves }
    }
}

/// Numbers whose rows a thread keeps between tasks.
pub(crate) trait Kept: Line + Default {
    fn planes(scratch: &mut Scratch) -> &mut PlaneBuffers<Self>;
}

impl Kept for f32 {
    fn planes(scratch: &mut Scratch) -> &mut PlaneBuffers<f32> {
        &mut scratch.planes
    }
}

impl Kept for Exact {
    fn planes(scratch: &mut Scratch) -> &mut PlaneBuffers<Exact> {
        &mut scratch.exact_planes
    }
}

impl<N: Kept> Lines<'_, N> {
    /// Rows before the task's end, in `at.a`.
    #[inline(always)]
    fn rows<S: Simd>(&self, simd: S, block: Block, at: &mut Rooms<N>) {
        let Rooms { wide, a, b, .. } = at;
        let [first, second] = &self.operands;
        first.read(simd, block, wide, a);
        let a = &mut a[..block.elements()];
        if let Some((pre, abs)) = self.pre {
            prepare(a, pre, abs);
        }
        match self.form {
            Form::One => {}
            Form::Two => {
                second.read(simd, block, wide, b);
                self.operation.rows(a, b);
            }
            Form::Affine => {
                // The second source's rows are the addends of channels, and their factors.
                let at_once = if block.is_of_one_channel() { a.len() } else { block.columns };
                for (i, rows) in a.chunks_exact_mut(at_once).enumerate() {
                    let [g, c, _] = block.row(i);
                    self.operation.affine(rows, second.pair(simd, [g, c], wide));
                }
            }
        }
    }
}

impl Machine<'_> {
    /// False where the task is of another form.
    pub(crate) fn lines_in_place<N: Kept>(&mut self) -> Result<bool, FaultKind> {
        let class = self.get(TaskClass);
        let ext = self.input_extents();
        let form = match (class, self.get(PeSecond)) {
            (class::PLANAR_ONE | class::PLANAR_REDUCE, second::NONE) => Form::One,
            (class::PLANAR_TWO | class::PLANAR_REDUCE_TWO, second::SOURCE | second::NEGATED) => Form::Two,
            (class::PLANAR_AFFINE, second::SOURCE | second::NEGATED) if self.get(PeOp) == planar::ADD => Form::Affine,
            _ => return Ok(false),
        };
        let reduces = [class::PLANAR_REDUCE, class::PLANAR_REDUCE_TWO].contains(&class);
        let alike = [(Cout, Cin), (Wout, Win), (Hout, Hin)].iter().all(|&(out, of)| self.get(out) == self.get(of));
        // A source that is kept may be where the second one is read.
        let pairs_turned = form == Form::Affine && self.get(Src2Transpose) == 1;
        let in_order = [Src1Transpose, ResultTranspose].iter().all(|&f| self.get(f) == 0)
            && (self.get(Src2Transpose) == 0 || pairs_turned)
            && (form == Form::One || self.get(SrcType) != residency::DMA_KEEP);
        let windowed = class == class::PLANAR_ONE && !self.pooling_window().is_trivial();
        if !alike || !in_order || windowed || ext.array().contains(&0) {
            return Ok(false);
        }
        let abs = match self.get(PeCond) {
            condition::NONE => false,
            condition::ABS => true,
            _ => return Ok(false),
        };
        let Ok(operation) = self.operation(form == Form::One) else { return Ok(false) };
        let fold = match reduces.then(|| self.fold()) {
            Some(Ok(fold)) if fold.goes_on() => Some(fold),
            Some(_) => return Ok(false),
            None => None,
        };
        let ending = self.ending::<N>()?;
        let (stored, second) = self.planar_sources();
        let b = match second {
            Some(stored) => match self.direct_second(stored)? {
                Some(span) => Some(span),
                None => return Ok(false),
            },
            None => None,
        };
        let result = if reduces { Extents { h: 1, w: 1, ..ext } } else { ext };
        let Some(direct) = self.direct(stored, result)? else { return Ok(false) };
        let flags = [FIRST, SECOND].map(|of| [of[0], of[1], of[2]].map(|f| self.get(f) == 1));
        let relus = [InputRelu, Src2InputRelu].map(|f| self.get(f) == 1);
        let pre = self.half(PePreScale);
        let pre = (pre != 1.0 || abs).then(|| (N::admit(pre), abs));
        let (rules, workers) = (self.model.planar(), self.workers);
        let Direct { from, to, .. } = &direct;
        let parts = [from.part(), b.as_ref().unwrap_or(from).part()];
        let mut aside = self.workers.aside();
        let Some(([x, y], target)) = memory::views(self.memory, self.l2, parts, to.part(), &mut aside) else {
            return Ok(false);
        };
        let operand = |data, span: &Span, [w, h, c]: [bool; 3], relu, pairs_turned: bool| {
            // Of turned pairs the channels are columns.
            let source = Source { data, strides: span.repeated(h, c && !pairs_turned) };
            Operand { source, one_column: w, relu, pairs_turned, one_pair: c }
        };
        let second = b.as_ref().unwrap_or(from);
        let operands =
            [operand(x, from, flags[0], relus[0], false), operand(y, second, flags[1], relus[1], pairs_turned)];
        let lines = Lines { form, operands, pre, operation, ending: &ending, rules, columns: ext.w };
        let cost = ext.g * ext.c * ext.plane();
        if let Some(fold) = &fold {
            let mut results = vec![f16::ZERO; ext.g * ext.c];
            let at_once = SIDE_BY_SIDE * (WORTH_SHARING / (SIDE_BY_SIDE * ext.plane()).max(1)).max(1);
            let shares = results.chunks_mut(at_once).enumerate().collect();
            workers.each(shares, cost >= PER_THREAD, |(i, results), scratch| {
                let planes = N::planes(scratch);
                workers.arch.dispatch(Reduce { lines: &lines, fold, ext, first: *i * at_once, results, planes });
            });
            for (i, result) in results.into_iter().enumerate() {
                target[i / ext.c * to.strides[0] + i % ext.c * to.strides[1]] = result;
            }
        } else {
            let parts = 4 * rayon::current_num_threads();
            let channels = ext.c.div_ceil(parts).max(1);
            let rows = if ext.c < parts { ext.h.div_ceil(parts).max(1) } else { ext.h };
            workers.each(cut(target, ext, to.strides, rows, channels), cost >= WORTH_SHARING, |share, scratch| {
                let [buffers, ..] = N::planes(scratch);
                workers.arch.dispatch(Elements { lines: &lines, share, buffers });
            });
        }
        self.done(&direct, result);
        Ok(true)
    }
}

struct Elements<'a, 'b, N> {
    lines: &'a Lines<'a, N>,
    share: &'a mut Share<'b>,
    buffers: &'a mut Buffers<N>,
}

impl<N: Kept> WithSimd for Elements<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Elements { lines, share, buffers } = self;
        let mut at = buffers.rooms(lines.columns.max(BLOCK));
        share.blocks(
            lines.columns,
            BLOCK,
            #[inline(always)]
            |block, to| {
                lines.rows(simd, block, &mut at);
                let row = &mut at.a[..block.elements()];
                lines.ending.apply(row);
                if N::settle_rows(simd, row, to, block.stored()) {
                    return;
                }
                let halves = &mut at.halves[..row.len()];
                N::settle_line(lines.rules, row, halves);
                block.store(halves, to);
            },
        );
    }
}

/// What a tensor's elements are once they are rounded by the model's rules, in fp32.
pub(crate) fn settled<N: Line>(workers: &Workers, rules: &Planar, from: &[N]) -> Vec<f32> {
    let mut data = vec![0.0; from.len()];
    chunks(&mut data, PER_THREAD, from.len(), |i, to| {
        workers.arch.dispatch(Settle { rules, from: &from[i * PER_THREAD..], to });
    });
    data
}

struct Settle<'a, 'b, N> {
    rules: &'a Planar,
    from: &'a [N],
    to: &'b mut [f32],
}

impl<N: Line> WithSimd for Settle<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let mut halves = [f16::ZERO; STRETCH];
        for (to, from) in self.to.chunks_mut(STRETCH).zip(self.from.chunks(STRETCH)) {
            let halves = &mut halves[..to.len()];
            N::settle_line(Some(self.rules), &from[..to.len()], halves);
            number::widen_row(halves, to);
        }
    }
}

struct Reduce<'a, 'b, N> {
    lines: &'a Lines<'a, N>,
    fold: &'a Fold,
    ext: Extents,
    /// Planes, counted over all groups.
    first: usize,
    results: &'b mut [f16],
    planes: &'a mut PlaneBuffers<N>,
}

impl<N: Kept> WithSimd for Reduce<'_, '_, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Reduce { lines, fold, ext, first, results, planes } = self;
        let rows = (BLOCK / ext.w).clamp(1, ext.h);
        let mut at = planes.each_mut().map(|buffers| buffers.rooms(rows * ext.w));
        for (i, results) in results.chunks_mut(SIDE_BY_SIDE).enumerate() {
            let first = first + i * SIDE_BY_SIDE;
            let mut sums = fold.start::<N, SIDE_BY_SIDE>();
            for h in (0..ext.h).step_by(rows) {
                let elements = rows.min(ext.h - h) * ext.w;
                for (p, at) in at.iter_mut().enumerate().take(results.len()) {
                    let plane = first + p;
                    lines.rows(simd, Block::of([plane / ext.c, plane % ext.c, h], elements / ext.w, ext.w), at);
                }
                sums.go_on(at.each_ref().map(|at| &at.a[..elements]));
            }
            let mut ends = sums.end();
            let ends = &mut ends[..results.len()];
            lines.ending.apply(ends);
            N::settle_line(lines.rules, ends, results);
        }
    }
}
