//! Elementwise operations and reductions over any number format, and their epilogue.

use crate::line::Line;
use crate::num::wide::Wide;
use crate::params::AccumulatorSpec;
use crate::params::BinaryOp;

/// Source 1 before an operation.
#[inline(always)]
pub fn prepare<N: Wide>(row: &mut [N], pre: N, abs: bool) {
    if abs {
        row.iter_mut().for_each(|v| *v = v.mul(pre).abs());
    } else {
        row.iter_mut().for_each(|v| *v = v.mul(pre));
    }
}

/// Elementwise operation on two sources.
pub struct Operation<N> {
    pub op: BinaryOp,
    /// Factors of the two sources.
    pub first: N,
    pub sign: N,
}

impl<N: Wide> Operation<N> {
    /// In place of the first.
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

    /// A channel's addend and factor, in place.
    #[inline(always)]
    pub fn affine(&self, row: &mut [N], [addend, factor]: [N; 2]) {
        let addend = self.sign.mul(addend);
        row.iter_mut().for_each(|v| *v = v.add(addend).mul(factor));
    }
}

/// Reduction of many numbers to one.
pub enum Fold {
    /// The sum, by the rules of the adders where there are any.
    Sum(Option<&'static AccumulatorSpec>),
    Max,
}

impl Fold {
    pub fn of<N: Wide>(&self, elements: impl Iterator<Item = N>) -> N {
        match self {
            Fold::Sum(rules) => N::sum(elements, *rules),
            Fold::Max => elements.fold(N::admit(f32::NEG_INFINITY), N::max),
        }
    }
}

/// Partial results of several reductions.
pub enum Folding<N: Line, const P: usize> {
    Sums([N::Sum; P]),
    Largest([N; P]),
}

impl Fold {
    /// Returns true if terms can be added in turn, without rules of adders.
    pub fn goes_on(&self) -> bool {
        !matches!(self, Fold::Sum(Some(_)))
    }

    /// As [`Fold::of`], of nothing yet.
    pub fn start<N: Line, const P: usize>(&self) -> Folding<N, P> {
        match self {
            Fold::Sum(_) => Folding::Sums([N::start(); P]),
            Fold::Max => Folding::Largest([N::admit(f32::NEG_INFINITY); P]),
        }
    }
}

impl<N: Line, const P: usize> Folding<N, P> {
    /// The next elements of each.
    #[inline(always)]
    pub fn go_on(&mut self, rows: [&[N]; P]) {
        match self {
            Folding::Sums(sums) => *sums = abreast(rows, *sums, N::go_on),
            Folding::Largest(largest) => *largest = abreast(rows, *largest, N::max),
        }
    }

    pub fn end(self) -> [N; P] {
        match self {
            Folding::Sums(sums) => sums.map(N::end),
            Folding::Largest(largest) => largest,
        }
    }
}

/// Takes rows of one length element by element, all at once: squares of them are turned, so that a step is one of vectors.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "what calls closures is not always compiled for the caller's vectors")]
fn abreast<N: Copy, A: Copy, const P: usize>(rows: [&[N]; P], mut now: [A; P], step: impl Fn(A, N) -> A) -> [A; P] {
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

/// Final scale, scale, bias, function of the sum with an epsilon, ReLU.
pub struct ElementwiseEpilogue<N> {
    /// Scales and bias change nothing. The exact adder of the bias always does: minus zero becomes plus zero.
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

    /// No stage at all.
    #[cfg(test)]
    pub fn nothing() -> ElementwiseEpilogue<N> {
        let [zero, one] = [0.0, 1.0].map(N::admit);
        ElementwiseEpilogue {
            plain: true,
            last: one,
            scale: one,
            bias: zero,
            epsilon: zero,
            function: None,
            relu: false,
        }
    }

    /// In place.
    #[inline(always)]
    pub fn apply(&self, row: &mut [N]) {
        let &ElementwiseEpilogue { plain, last, scale, bias, epsilon, function, relu } = self;
        if !plain {
            row.iter_mut().for_each(|v| *v = v.mul(last).mul(scale).add(bias));
        }
        if let Some(function) = function {
            row.iter_mut().for_each(|v| *v = function(v.add(epsilon)));
        }
        if relu {
            row.iter_mut().for_each(|v| *v = v.relu());
        }
    }
}
