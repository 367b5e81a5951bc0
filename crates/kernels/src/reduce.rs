//! Elementwise operations and reductions over any number format, and their epilogue.

use crate::arrays::array_of;
use crate::line::Line;
use crate::num::wide::Wide;
use crate::params::AccumulatorSpec;
use crate::params::BinaryOp;

/// Prologue of source 1: factor, then absolute value.
#[inline(always)]
pub fn prepare<N: Wide>(row: &mut [N], pre: N, abs: bool) {
    if abs {
        for v in row.iter_mut() {
            *v = v.mul(pre).abs();
        }
    } else {
        for v in row.iter_mut() {
            *v = v.mul(pre);
        }
    }
}

/// Elementwise operation on two sources, with their factors.
pub struct Operation<N> {
    pub op: BinaryOp,
    /// Factors of the two sources.
    pub first: N,
    pub sign: N,
}

impl<N: Wide> Operation<N> {
    /// Combines two rows; the result replaces the first.
    #[inline(always)]
    pub fn rows(&self, a: &mut [N], b: &[N]) {
        let &Operation { op, first, sign } = self;
        let pairs = a.iter_mut().zip(b);
        match op {
            BinaryOp::Add => pairs.for_each(|(x, &b)| *x = first.mul(*x).add(sign.mul(b))),
            BinaryOp::Mul => pairs.for_each(|(x, &b)| *x = first.mul(*x).mul(sign.mul(b))),
            BinaryOp::Max => pairs.for_each(|(x, &b)| *x = first.mul(*x).max(sign.mul(b))),
            BinaryOp::Min => pairs.for_each(|(x, &b)| *x = first.mul(*x).min(sign.mul(b))),
            BinaryOp::SquareOfSum => pairs.for_each(|(x, &b)| {
                let sum = first.mul(*x).add(sign.mul(b));
                *x = sum.mul(sum);
            }),
        }
    }

    /// Adds a channel's addend and multiplies by its factor, in place.
    #[inline(always)]
    pub fn affine(&self, row: &mut [N], [addend, factor]: [N; 2]) {
        let addend = self.sign.mul(addend);
        for v in row.iter_mut() {
            *v = v.add(addend).mul(factor);
        }
    }
}

/// Reduction operator.
pub enum Fold {
    /// The sum, by the rules of the adders if the model has any.
    Sum(Option<&'static AccumulatorSpec>),
    Max,
}

impl Fold {
    pub fn of<N: Wide>(&self, elements: impl Iterator<Item = N>) -> N {
        match self {
            Fold::Sum(rules) => N::sum(elements, *rules),
            Fold::Max => elements.fold(N::canonicalize(f32::NEG_INFINITY), N::max),
        }
    }
}

/// Partial results of `P` reductions side by side.
pub enum Folding<N: Line, const P: usize> {
    Sums([N::Sum; P]),
    Largest([N; P]),
}

impl Fold {
    /// Returns true if terms are accumulated one after another, without adder rules.
    pub fn goes_on(&self) -> bool {
        !matches!(self, Fold::Sum(Some(_)))
    }

    /// Partial results before the first element.
    pub fn start<N: Line, const P: usize>(&self) -> Folding<N, P> {
        match self {
            Fold::Sum(_) => Folding::Sums([N::start(); P]),
            Fold::Max => Folding::Largest([N::canonicalize(f32::NEG_INFINITY); P]),
        }
    }
}

impl<N: Line, const P: usize> Folding<N, P> {
    /// Accumulates the next elements of each reduction.
    #[inline(always)]
    pub fn accumulate(&mut self, rows: [&[N]; P]) {
        match self {
            Folding::Sums(sums) => *sums = fold_rows(rows, *sums, N::accumulate),
            Folding::Largest(largest) => *largest = fold_rows(rows, *largest, N::max),
        }
    }

    pub fn end(self) -> [N; P] {
        match self {
            Folding::Sums(sums) => array_of(|p| N::end(sums[p])),
            Folding::Largest(largest) => largest,
        }
    }
}

/// Accumulates `P` rows of one length element by element, side by side: blocks of `P` by `P` elements are transposed, so that each step is
/// a vector operation.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "what calls closures is not always compiled for the caller's vectors")]
fn fold_rows<N: Copy, A: Copy, const P: usize>(rows: [&[N]; P], mut now: [A; P], step: impl Fn(A, N) -> A) -> [A; P] {
    let count = rows[0].len();
    let mut squares = [&[] as &[[N; P]]; P];
    for p in 0..P {
        squares[p] = &rows[p].as_chunks().0[..count / P];
    }
    for k in 0..count / P {
        for j in 0..P {
            for p in 0..P {
                now[p] = step(now[p], squares[p][k][j]);
            }
        }
    }
    for j in count / P * P..count {
        for p in 0..P {
            now[p] = step(now[p], rows[p][j]);
        }
    }
    now
}

/// Epilogue of elementwise operations: two scales, bias, function of the result plus epsilon, ReLU.
pub struct ElementwiseEpilogue<N> {
    /// True if scales and bias are the identity. Never true for exact numbers: their adder makes minus zero plus zero.
    pub plain: bool,
    pub last: N,
    pub scale: N,
    pub bias: N,
    pub epsilon: N,
    pub function: Option<fn(N) -> N>,
    pub relu: bool,
}

impl<N: Wide> ElementwiseEpilogue<N> {
    pub fn is_idle(&self) -> bool {
        self.plain && self.function.is_none() && !self.relu
    }

    /// Applies the epilogue to a row in place.
    #[inline(always)]
    pub fn apply(&self, row: &mut [N]) {
        let &ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu } = self;
        if !plain {
            for v in row.iter_mut() {
                *v = v.mul(last).mul(scale).add(bias);
            }
        }
        if let Some(function) = function {
            for v in row.iter_mut() {
                *v = function(v.add(epsilon));
            }
        }
        if relu {
            for v in row.iter_mut() {
                *v = v.relu();
            }
        }
    }
}
