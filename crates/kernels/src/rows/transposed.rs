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
use crate::view::{SQUARE, gather_elements, transpose_by_eights};
use crate::workers::Workers;
use half::f16;
use pulp::{Simd, WithSimd};

/// Planes that are reduced together.
const PLANES: usize = SQUARE;
/// Fewest planes for which this pays; fewer are reduced one by one.
const LEAST_PLANES: usize = 8;
/// Elements of a plane that are transposed at a time.
const COLUMNS: usize = 64;
/// Vectors that hold one element of every plane.
const VECTORS: usize = PLANES / LONGEST;

/// Transposed block of an operand: `[element][plane]`.
type TransposedBlock = [[f16; PLANES]; COLUMNS];

/// Operand of consecutive planes.
#[derive(Clone, Copy)]
enum TransposedOperand<'a> {
    /// Contiguous elements of each plane, and the plane stride.
    Rows(&'a [f16], usize),
    /// One element broadcast over each plane.
    One([f16; PLANES]),
}

impl<'a> TransposedOperand<'a> {
    /// The operand from plane `c` of group `g` on; `None` if the elements of a plane are not contiguous.
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
        (ext.h == 1 || row == ext.w).then_some(TransposedOperand::Rows(from, channel))
    }

    /// Transposes a block of elements of every plane. A broadcast operand fills `square` in the first call, and later calls reuse it.
    #[inline(always)]
    fn turn(&self, first: usize, [columns, planes]: [usize; 2], square: &mut TransposedBlock) {
        match self {
            TransposedOperand::One(of_planes) if first == 0 => square.fill(*of_planes),
            TransposedOperand::One(_) => {}
            TransposedOperand::Rows(from, stride) => {
                let from = &from[first..];
                let mut done = 0;
                for lines in square[..columns].as_chunks_mut().0 {
                    if planes < PLANES || !host::transpose_square(&from[done..], *stride, lines) {
                        break;
                    }
                    done += SQUARE;
                }
                if done < columns {
                    transpose_by_eights(
                        &from[done..],
                        *stride,
                        [columns - done, planes],
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
    if !workers.converts() || !turns || !plain || ext.c < LEAST_PLANES {
        return None;
    }
    let mut results = vec![f16::ZERO; ext.g * ext.c];
    let at_once = PLANES * (FOLDED_AT_ONCE / (PLANES * ext.plane()).max(1)).max(1);
    let shares = results.chunks_mut(at_once).enumerate().collect();
    let nanos = cost::elementwise(operands.len() * ext.g * ext.c * ext.plane());
    workers.each(shares, workers.shares(nanos), |(i, results), scratch| {
        let mut squares: Box<TransposedBlocks> = scratch.arena.take();
        let (first, squares_of) = (*i * at_once, &mut squares.0);
        workers.arch.dispatch(Job { lines, fold, form, ext, first, results, squares: squares_of });
        scratch.arena.put(squares);
    });
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
        let (total, largest) = (ext.plane(), matches!(fold, Fold::Max));
        let start = if largest { f32::NEG_INFINITY } else { f32::start() };
        let mut now = [simd.splat_f32s(start); VECTORS];
        let Operation { first: factor, sign, .. } = lines.operation;
        let by = By { simd, pre: lines.pre.map_or(1.0, |(pre, _)| pre), first: factor, sign };
        if let (Some(TransposedOperand::Rows(from, stride)), ALONE, true, LONGEST..) = (&first, form, largest, total) {
            for (plane, to) in to.iter_mut().enumerate().take(planes) {
                *to = by.largest(&from[plane * stride..][..total]);
            }
            return;
        }
        for at in (0..total).step_by(COLUMNS) {
            let columns = COLUMNS.min(total - at);
            let [one, other] = &mut **squares;
            if let Some(first) = &first {
                first.turn(at, [columns, planes], one);
            }
            if let Some(second) = &second {
                second.turn(at, [columns, planes], other);
            }
            let (one, other) = (&one[..columns], &other[..columns]);
            match (form, largest) {
                (ALONE, false) => by.accumulate(ALONE, false, one, other, &mut now),
                (ALONE, true) => by.accumulate(ALONE, true, one, other, &mut now),
                (SUM, false) => by.accumulate(SUM, false, one, other, &mut now),
                (SUM, true) => by.accumulate(SUM, true, one, other, &mut now),
                (PRODUCT, false) => by.accumulate(PRODUCT, false, one, other, &mut now),
                (PRODUCT, true) => by.accumulate(PRODUCT, true, one, other, &mut now),
                (_, false) => by.accumulate(SQUARE_OF_SUM, false, one, other, &mut now),
                (_, true) => by.accumulate(SQUARE_OF_SUM, true, one, other, &mut now),
            }
        }
        for (now, to) in now.iter().zip(to.chunks_exact_mut(S::F32_LANES)) {
            simd.partial_store_f32s(to, *now);
        }
    }
}

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
        let mut now = [simd.splat_f32s(f32::NEG_INFINITY); 4];
        let (whole, last) = (plane.as_chunks::<LONGEST>().0, plane.last_chunk());
        for some in whole.chunks(now.len()).chain(last.map(std::slice::from_ref)) {
            for (now, x) in now.iter_mut().zip(some) {
                let Some(x) = simd::widened(simd, *x) else { return f32::NAN };
                *now = simd::larger(simd, simd.mul_f32s(x, factor), *now);
            }
        }
        let [a, b, c, d] = now;
        let both = simd::larger(simd, simd::larger(simd, a, b), simd::larger(simd, c, d));
        let mut lanes = [f32::NEG_INFINITY; LONGEST];
        simd.partial_store_f32s(&mut lanes, both);
        let found = lanes.iter().fold(f32::NEG_INFINITY, |most, x| if *x > most { *x } else { most });
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
            let (one, other) = (one.as_chunks().0, other.as_chunks().0);
            for v in 0..VECTORS {
                let Some(x) = simd::widened(simd, one[v]) else { return };
                let mut x = simd.mul_f32s(x, pre);
                if form != ALONE {
                    let Some(y) = simd::widened(simd, other[v]) else { return };
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
