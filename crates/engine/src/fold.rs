//! What the planar engine makes of elements: of one before an operation, of two by it, of many in a reduction.

use crate::number::settle::Line;
use crate::number::wide::Wide;
use anemone_facts::code::planar;
use anemone_facts::numerics::Mac;

/// Source 1 before an operation.
#[inline(always)]
pub(crate) fn prepare<N: Wide>(row: &mut [N], pre: N, abs: bool) {
    if abs {
        row.iter_mut().for_each(|v| *v = v.mul(pre).abs());
    } else {
        row.iter_mut().for_each(|v| *v = v.mul(pre));
    }
}

/// What is made of the elements of two sources.
pub(crate) struct Operation<N> {
    /// As `PeOp` has it.
    pub(crate) op: u32,
    /// What each source is multiplied by.
    pub(crate) first: N,
    pub(crate) sign: N,
}

impl<N: Wide> Operation<N> {
    /// In place of the first.
    #[inline(always)]
    pub(crate) fn rows(&self, a: &mut [N], b: &[N]) {
        let &Operation { op, first, sign } = self;
        let pairs = a.iter_mut().zip(b);
        match op {
            planar::ADD => pairs.for_each(|(x, &b)| *x = first.mul(*x).add(sign.mul(b))),
            planar::MUL => pairs.for_each(|(x, &b)| *x = first.mul(*x).mul(sign.mul(b))),
            planar::MAX => pairs.for_each(|(x, &b)| *x = first.mul(*x).max(sign.mul(b))),
            planar::MIN => pairs.for_each(|(x, &b)| *x = first.mul(*x).min(sign.mul(b))),
            _ => pairs.for_each(|(x, &b)| {
                let sum = first.mul(*x).add(sign.mul(b));
                *x = sum.mul(sum);
            }),
        }
    }

    /// A channel's addend and factor, in place.
    #[inline(always)]
    pub(crate) fn affine(&self, row: &mut [N], [addend, factor]: [N; 2]) {
        let addend = self.sign.mul(addend);
        row.iter_mut().for_each(|v| *v = v.add(addend).mul(factor));
    }
}

/// What makes one number of many.
pub(crate) enum Fold {
    /// The sum, by the rules of the adders where there are any.
    Sum(Option<&'static Mac>),
    Max,
}

impl Fold {
    pub(crate) fn of<N: Wide>(&self, elements: impl Iterator<Item = N>) -> N {
        match self {
            Fold::Sum(rules) => N::sum(elements, *rules),
            Fold::Max => elements.fold(N::admit(f32::NEG_INFINITY), N::max),
        }
    }
}

/// What several folds have so far.
pub(crate) enum Folding<N: Line, const P: usize> {
    Sums([N::Sum; P]),
    Largest([N; P]),
}

impl Fold {
    /// Whether terms can be added in turn, without rules of adders.
    pub(crate) fn goes_on(&self) -> bool {
        !matches!(self, Fold::Sum(Some(_)))
    }

    /// As [`Fold::of`], of nothing yet.
    pub(crate) fn start<N: Line, const P: usize>(&self) -> Folding<N, P> {
        match self {
            Fold::Sum(_) => Folding::Sums([N::start(); P]),
            Fold::Max => Folding::Largest([N::admit(f32::NEG_INFINITY); P]),
        }
    }
}

impl<N: Line, const P: usize> Folding<N, P> {
    /// The next elements of each.
    #[inline(always)]
    pub(crate) fn go_on(&mut self, rows: [&[N]; P]) {
        match self {
            Folding::Sums(sums) => *sums = abreast(rows, *sums, N::go_on),
            Folding::Largest(largest) => *largest = abreast(rows, *largest, N::max),
        }
    }

    pub(crate) fn end(self) -> [N; P] {
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
