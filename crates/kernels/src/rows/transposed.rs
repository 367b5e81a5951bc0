//! Reductions of many short planes in fp32, transposed: the lanes of a vector are planes, and each step takes one element of every plane.
//! The elements of a plane are added in their order.

use super::{FOLDED_AT_ONCE, Form, Operand, RowKernel};
use crate::cost;
use crate::host;
use crate::line::Line;
use crate::num;
use crate::params::BinaryOp;
use crate::reduce::{Fold, Operation};
use crate::simd::{self, LONGEST};
use crate::tensor::Extents;
use crate::view::{EIGHT, SQUARE, gather_elements, transpose_8x8, transpose_by_eights};
use crate::workers::Workers;
use half::f16;
use pulp::{Simd, WithSimd};

/// Planes that are reduced together.
const PLANES: usize = SQUARE;
/// Fewest planes for which this pays; fewer are reduced one by one.
const LEAST_PLANES: usize = 8;
/// Elements of a plane that are transposed at a time.
const COLUMNS: usize = 64;
/// Lanes of the shortest vectors that are converted in registers.
const SHORTEST: usize = 4;
/// Most vectors that hold one element of every plane.
const VECTORS: usize = PLANES / SHORTEST;

/// Transposed block of an operand: `[element][plane]`.
type TransposedBlock = [[f16; PLANES]; COLUMNS];

/// Operand of consecutive planes.
#[derive(Clone, Copy)]
enum TransposedOperand<'a> {
    /// Planes, with the strides of planes and of the rows of one.
    Rows(&'a [f16], [usize; 2]),
    /// One element broadcast over each plane.
    One([f16; PLANES]),
}

impl<'a> TransposedOperand<'a> {
    /// The operand from plane `c` of group `g` on; `None` if it goes through a ReLU, or one element is broadcast to each row of a plane.
    fn of(operand: &Operand<'a>, ext: Extents, [g, c]: [usize; 2], planes: usize) -> Option<TransposedOperand<'a>> {
        let Operand { source, one_column, relu, .. } = *operand;
        let (from, [_, channel, row]) = (source.from(g, c, 0), source.strides);
        if relu {
            return None;
        }
        if one_column {
            let mut of_planes = [f16::ZERO; PLANES];
            gather_elements(from, channel, &mut of_planes[..planes]);
            return (ext.h == 1 || row == 0).then_some(TransposedOperand::One(of_planes));
        }
        Some(TransposedOperand::Rows(from, [channel, row]))
    }

    /// Returns true unless there are gaps between the rows of a plane.
    fn is_gapless(&self, ext: Extents) -> bool {
        match self {
            TransposedOperand::Rows(_, [_, row]) => ext.h == 1 || *row == ext.w,
            TransposedOperand::One(_) => true,
        }
    }

    /// Transposes a block of elements of every plane, from a row and a column on. A broadcast operand fills `square` in the first call, and later calls
    /// reuse it.
    #[inline(always)]
    fn turn(&self, [row, first]: [usize; 2], [columns, planes]: [usize; 2], square: &mut TransposedBlock) {
        match self {
            TransposedOperand::One(of_planes) if row + first == 0 => square[..columns].fill(*of_planes),
            TransposedOperand::One(_) => {}
            TransposedOperand::Rows(from, [stride, next]) => {
                let (line, from) = (&from[row * next..], &from[row * next + first..]);
                let mut done = 0;
                for lines in square[..columns].as_chunks_mut().0 {
                    if planes < PLANES || !host::transpose_square(&from[done..], *stride, lines) {
                        break;
                    }
                    done += SQUARE;
                }
                let (rest, end) = (columns - done, first + columns);
                let mut last = [[f16::ZERO; PLANES]; SQUARE];
                // A square that ends with the block, in which only the last lines are new.
                if (1..SQUARE).contains(&rest)
                    && planes == PLANES
                    && end >= SQUARE
                    && host::transpose_square(&line[end - SQUARE..], *stride, &mut last)
                {
                    square[done..columns].copy_from_slice(&last[SQUARE - rest..]);
                    return;
                }
                if planes <= EIGHT && rest >= EIGHT {
                    for first in (done..columns).step_by(EIGHT) {
                        let first = first.min(columns - EIGHT);
                        few_planes(&from[first..], *stride, planes, &mut square[first..]);
                    }
                } else if rest > 0 {
                    // Blocks of eight lines extend over the gaps behind short rows.
                    let beyond = from.len() >= done + (planes - 1) * stride + EIGHT;
                    let rest = if beyond { rest.max(EIGHT) } else { rest };
                    transpose_by_eights(
                        &from[done..],
                        *stride,
                        [rest, planes],
                        #[inline(always)]
                        |x| x,
                        #[inline(always)]
                        |column, _, line, _| square[done + column] = *line,
                    );
                }
            }
        }
    }
}

/// Transposes eight elements of at most eight planes.
#[inline(always)]
fn few_planes(from: &[f16], stride: usize, planes: usize, to: &mut [[f16; PLANES]]) {
    let mut eights = [[f16::ZERO; EIGHT]; EIGHT];
    for (plane, eight) in eights.iter_mut().enumerate().take(planes) {
        eight.copy_from_slice(&from[plane * stride..][..EIGHT]);
    }
    for (to, eight) in to.iter_mut().zip(transpose_8x8(eights)) {
        to[..EIGHT].copy_from_slice(&eight);
    }
}

/// Reduces each plane to one number, ordered by group, then channel. `None` unless the host converts in registers and the operands have
/// a suitable layout.
pub fn reduce(workers: &Workers, lines: &RowKernel<f32>, fold: &Fold, ext: Extents) -> Option<Vec<f16>> {
    let form = match (lines.form, lines.operation.op) {
        (Form::One, _) => ALONE,
        (Form::Two, BinaryOp::Add) => SUM,
        (Form::Two, BinaryOp::Mul) => PRODUCT,
        (Form::Two, BinaryOp::SquareOfSum) => SQUARE_OF_SUM,
        _ => return None,
    };
    let operands = if form == ALONE { &lines.operands[..1] } else { &lines.operands };
    let turns = operands.iter().all(|operand| TransposedOperand::of(operand, ext, [0; 2], 0).is_some());
    let plain = lines.pre.is_none_or(|(_, abs)| !abs) && fold.goes_on();
    // Groups that follow each other as channels do are channels, and so are channels that follow each other as groups do.
    let [groups, channels] = [ext.g, ext.c];
    let joins = operands.iter().all(|Operand { source, .. }| source.strides[0] == channels * source.strides[1]);
    let swaps = !joins && operands.iter().all(|Operand { source, .. }| source.strides[1] == groups * source.strides[0]);
    let ext = if joins || swaps { Extents { g: 1, c: groups * channels, ..ext } } else { ext };
    let gapless = operands.iter().all(|operand| operand.one_column || ext.h == 1 || operand.source.strides[2] == ext.w);
    // Only full squares of short rows make up for gaps between them.
    let gains = if gapless { ext.c >= LEAST_PLANES } else { ext.c >= PLANES && ext.w < LONGEST };
    if !workers.converts() || !turns || !plain || !gains {
        return None;
    }
    let (count, mut operands) = (operands.len(), lines.operands);
    for operand in operands.iter_mut().filter(|_| swaps) {
        operand.source.strides[1] = operand.source.strides[0];
    }
    let Operation { op, first, sign } = lines.operation;
    let lines = &RowKernel { operands, operation: Operation { op, first, sign }, ..*lines };
    let mut results = vec![f16::ZERO; ext.g * ext.c];
    let elements = ext.g * ext.c * ext.plane();
    let nanos = if gapless { cost::elementwise(count * elements) } else { cost::one_by_one(elements) };
    let shared = workers.shares(nanos);
    let each = ext.c.div_ceil(workers.threads_for(nanos)).div_ceil(PLANES);
    let at_once = PLANES * (FOLDED_AT_ONCE / (PLANES * ext.plane()).max(1)).clamp(1, each.max(1));
    let shares = results.chunks_mut(at_once).enumerate().collect();
    workers.each(shares, shared, |(i, results), scratch| {
        let mut squares: Box<TransposedBlocks> = scratch.arena.take();
        let (first, squares_of) = (*i * at_once, &mut squares.0);
        workers.arch.dispatch(Job { lines, fold, form, ext, first, results, squares: squares_of });
        scratch.arena.put(squares);
    });
    if swaps {
        let by_channel = results.clone();
        for (i, result) in results.iter_mut().enumerate() {
            *result = by_channel[i % channels * groups + i / channels];
        }
    }
    Some(results)
}

/// Part of a reduction: consecutive planes.
struct Job<'a, 'b> {
    lines: &'a RowKernel<'a, f32>,
    fold: &'a Fold,
    form: u8,
    ext: Extents,
    /// Index of the first plane, over all groups.
    first: usize,
    results: &'b mut [f16],
    squares: &'a mut [TransposedBlock; 2],
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let results = std::mem::take(&mut self.results);
        let mut done = 0;
        while done < results.len() {
            let plane = self.first + done;
            let (g, c) = (plane / self.ext.c, plane % self.ext.c);
            let count = PLANES.min(self.ext.c - c).min(results.len() - done);
            let mut ends = [0.0; PLANES];
            self.fold(simd, [g, c], count, &mut ends);
            let ends = &mut ends[..count];
            self.lines.ending.apply(ends);
            f32::settle_line(self.lines.rules, ends, &mut results[done..done + count]);
            done += count;
        }
    }
}

impl Job<'_, '_> {
    /// Reduces consecutive planes of one group, from `place` (group, channel) on, to one number each.
    #[inline(always)]
    fn fold<S: Simd>(&mut self, simd: S, place: [usize; 2], planes: usize, to: &mut [f32; PLANES]) {
        let Job { lines, fold, form, ext, ref mut squares, .. } = *self;
        let of = |i: usize| TransposedOperand::of(&lines.operands[i], ext, place, planes);
        let (first, second) = (of(0), if form == ALONE { None } else { of(1) });
        let gapless = first.iter().chain(&second).all(|operand| operand.is_gapless(ext));
        let (rows, total) = if gapless { (1, ext.plane()) } else { (ext.h, ext.w) };
        let largest = matches!(fold, Fold::Max);
        let start = if largest { f32::NEG_INFINITY } else { f32::start() };
        let mut now = [simd.splat_f32s(start); VECTORS];
        let Operation { first: factor, sign, .. } = lines.operation;
        let by = By { simd, pre: lines.pre.map_or(1.0, |(pre, _)| pre), first: factor, sign };
        if let (Some(TransposedOperand::Rows(from, [stride, _])), ALONE, true, 1, LONGEST..) =
            (&first, form, largest, rows, total)
        {
            for (plane, to) in to.iter_mut().enumerate().take(planes) {
                *to = by.largest(&from[plane * stride..][..total]);
            }
            return;
        }
        let blocks = total.div_ceil(COLUMNS);
        for block in 0..rows * blocks {
            let at = [block / blocks, block % blocks * COLUMNS];
            let columns = COLUMNS.min(total - at[1]);
            let [one, other] = &mut **squares;
            if let Some(first) = &first {
                first.turn(at, [columns, planes], one);
            }
            if let Some(second) = &second {
                second.turn(at, [columns, planes], other);
            }
            let (one, other) = (&one[..columns], &other[..columns]);
            match (form, largest) {
                (ALONE, false) => by.accumulate(ALONE, false, planes, one, other, &mut now),
                (ALONE, true) => by.accumulate(ALONE, true, planes, one, other, &mut now),
                (SUM, false) => by.accumulate(SUM, false, planes, one, other, &mut now),
                (SUM, true) => by.accumulate(SUM, true, planes, one, other, &mut now),
                (PRODUCT, false) => by.accumulate(PRODUCT, false, planes, one, other, &mut now),
                (PRODUCT, true) => by.accumulate(PRODUCT, true, planes, one, other, &mut now),
                (_, false) => by.accumulate(SQUARE_OF_SUM, false, planes, one, other, &mut now),
                (_, true) => by.accumulate(SQUARE_OF_SUM, true, planes, one, other, &mut now),
            }
        }
        for (now, to) in now.iter().zip(to.chunks_exact_mut(S::F32_LANES)) {
            simd.partial_store_f32s(to, *now);
        }
    }
}

/// Vectors of a plane whose maxima are taken side by side.
const AT_ONCE: usize = 4;

const ALONE: u8 = 0;
const SUM: u8 = 1;
const PRODUCT: u8 = 2;
const SQUARE_OF_SUM: u8 = 3;

/// Prologue of the operands: factors and signs.
#[derive(Clone, Copy)]
struct By<S> {
    simd: S,
    pre: f32,
    first: f32,
    sign: f32,
}

impl<S: Simd> By<S> {
    /// Largest product of an element of a plane, at least one vector, and the factor; not transposed, because its order has an effect only on
    /// the sign of zero, which is that of the first zero.
    #[inline(always)]
    fn largest(self, plane: &[f16]) -> f32 {
        let By { simd, pre, .. } = self;
        let factor = simd.splat_f32s(pre);
        let mut now = [simd.splat_f32s(f32::NEG_INFINITY); AT_ONCE];
        let lanes = const { S::F32_LANES };
        let several = plane.chunks_exact(AT_ONCE * lanes);
        let (rest, last) = (several.remainder().chunks_exact(lanes), &plane[plane.len() - lanes..]);
        for several in several {
            for i in 0..AT_ONCE {
                let Some(x) = simd::widened(simd, &several[i * lanes..]) else { return f32::NAN };
                now[i] = simd::larger(simd, simd.mul_f32s(x, factor), now[i]);
            }
        }
        for x in rest.chain([last]) {
            let Some(x) = simd::widened(simd, x) else { return f32::NAN };
            now[0] = simd::larger(simd, simd.mul_f32s(x, factor), now[0]);
        }
        let [a, b, c, d] = now;
        let both = simd::larger(simd, simd::larger(simd, a, b), simd::larger(simd, c, d));
        let mut lanes = [f32::NEG_INFINITY; LONGEST];
        simd.partial_store_f32s(&mut lanes, both);
        let mut count = LONGEST;
        while count > 1 {
            count /= 2;
            for i in 0..count {
                lanes[i] = if lanes[count + i] > lanes[i] { lanes[count + i] } else { lanes[i] };
            }
        }
        let found = lanes[0];
        if found != 0.0 {
            return found;
        }
        plane.iter().map(|x| num::widen(*x) * pre).find(|x| *x == 0.0).unwrap_or(found)
    }

    /// Accumulates the next elements of every plane. `form` and `is_largest` are constants after inlining.
    #[inline(always)]
    fn accumulate(
        self,
        form: u8,
        is_largest: bool,
        planes: usize,
        one: &[[f16; PLANES]],
        other: &[[f16; PLANES]],
        now: &mut [S::f32s; VECTORS],
    ) {
        let By { simd, pre, first, sign } = self;
        let [pre, first, sign] = [simd.splat_f32s(pre), simd.splat_f32s(first), simd.splat_f32s(sign)];
        if const { !simd::converts::<S>() } {
            return;
        }
        let mut sums = *now;
        for (one, other) in one.iter().zip(other) {
            for v in 0..const { PLANES / S::F32_LANES } {
                let at = v * S::F32_LANES;
                if v > 0 && planes <= at {
                    break;
                }
                let Some(x) = simd::widened(simd, &one[at..]) else { return };
                let mut x = simd.mul_f32s(x, pre);
                if form != ALONE {
                    let Some(y) = simd::widened(simd, &other[at..]) else { return };
                    let (a, b) = (simd.mul_f32s(first, x), simd.mul_f32s(sign, y));
                    x = if form == PRODUCT { simd.mul_f32s(a, b) } else { simd.add_f32s(a, b) };
                    if form == SQUARE_OF_SUM {
                        x = simd.mul_f32s(x, x);
                    }
                }
                sums[v] = if is_largest {
                    // Keeps the earlier of two zeros, and the number if one is NaN.
                    let larger = simd::larger(simd, x, sums[v]);
                    simd.select_f32s(simd.equal_f32s(sums[v], sums[v]), larger, x)
                } else {
                    simd.add_f32s(sums[v], x)
                };
            }
        }
        *now = sums;
    }
}

/// Transposed blocks of two operands.
struct TransposedBlocks([TransposedBlock; 2]);

impl Default for TransposedBlocks {
    fn default() -> TransposedBlocks {
        TransposedBlocks([[[f16::ZERO; PLANES]; COLUMNS]; 2])
    }
}
