//! Axis coalescing for elementwise work: axes that are contiguous in all operands and in the result are merged into long rows.

use crate::tensor::Extents;
use crate::view::Strides;

/// Longest row, in elements. Longer rows are split, so that they stay in cache and can be shared between threads.
const LONGEST_ROW: usize = 1 << 10;
/// Shortest row, in elements, that a longer one may be split into.
const SHORTEST_ROW: usize = 1 << 6;

/// Strides of an operand in elements: groups, channels and rows; columns are 1 apart, or 0 if broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperandAxes {
    pub strides: Strides,
    /// True if one element is broadcast to a row.
    pub one_column: bool,
}

/// Extents and strides of elementwise work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elementwise<const N: usize> {
    pub ext: Extents,
    pub to: Strides,
    pub operands: [OperandAxes; N],
}

/// Most operands of elementwise work.
const MOST: usize = 8;

/// An axis: count, stride in the result, stride in each operand.
type Axis = (usize, usize, [usize; MOST]);

/// Largest divisor of `elements` from `SHORTEST_ROW` to `LONGEST_ROW`, if there is one.
pub fn part_of_row(elements: usize) -> Option<usize> {
    (SHORTEST_ROW..=LONGEST_ROW).rev().find(|part| elements.is_multiple_of(*part))
}

impl<const N: usize> Elementwise<N> {
    /// Returns true if rows are short and the tensor is large enough for coalescing to pay.
    pub fn is_worth_joining(ext: Extents) -> bool {
        ext.w < LONGEST_ROW / 2 && ext.g * ext.c * ext.h * ext.w >= LONGEST_ROW
    }

    /// The same work over as few axes as possible, with rows of a good length. Unchanged if more than three outer axes would remain, or with
    /// more than eight operands.
    pub fn joined(mut self) -> Elementwise<N> {
        if let Some((ext, to)) = join(self.ext, self.to, &mut self.operands) {
            (self.ext, self.to) = (ext, to);
        }
        self
    }
}

/// [`Elementwise::joined`], compiled once for every number of operands.
fn join(ext: Extents, to: Strides, operands: &mut [OperandAxes]) -> Option<(Extents, Strides)> {
    if operands.len() > MOST {
        return None;
    }
    let Extents { g, c, h, w } = ext;
    let mut axes: Vec<Axis> = Vec::with_capacity(4);
    for (i, (count, stride)) in [(g, to[0]), (c, to[1]), (h, to[2]), (w, 1)].into_iter().enumerate() {
        if count != 1 {
            let mut of = [0; MOST];
            for (of, operand) in of.iter_mut().zip(&*operands) {
                *of = operand.strides.get(i).copied().unwrap_or(usize::from(!operand.one_column));
            }
            axes.insert(axes.partition_point(|axis| axis.1 >= stride), (count, stride, of));
        }
    }
    let mut joined: Vec<Axis> = Vec::with_capacity(axes.len());
    for (n, to, of) in axes {
        match joined.last_mut() {
            Some((m, outer, others))
                if *outer == n * to && others.iter().zip(of).all(|(outer, of)| *outer == n * of) =>
            {
                (*m, *outer, *others) = (*m * n, to, of);
            }
            _ => joined.push((n, to, of)),
        }
    }
    let is_row = |&(_, to, of): &Axis| to == 1 && of.iter().all(|&of| of <= 1);
    let (mut w, mut columns) = (1, [1; MOST]);
    if let Some((n, _, of)) = joined.pop_if(|axis| is_row(axis)) {
        (w, columns) = (n, of);
    }
    if w > LONGEST_ROW
        && joined.len() < 3
        && let Some(part) = part_of_row(w)
    {
        let mut of = columns;
        for of in of.iter_mut() {
            *of *= part;
        }
        joined.push((w / part, part, of));
        w = part;
    }
    if joined.len() > 3 {
        return None;
    }
    let (mut extents, mut strides) = ([1; 3], [0; 3]);
    for (operand, one) in operands.iter_mut().zip(columns) {
        *operand = OperandAxes { strides: [0; 3], one_column: one == 0 };
    }
    for (at, (n, to, of)) in (3 - joined.len()..3).zip(joined) {
        (extents[at], strides[at]) = (n, to);
        for (operand, of) in operands.iter_mut().zip(of) {
            operand.strides[at] = of;
        }
    }
    let [g, c, h] = extents;
    Some((Extents { g, c, h, w }, strides))
}
