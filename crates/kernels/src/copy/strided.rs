//! Strided copies of fp16 elements: transpositions, slices, broadcasts and scatters, blocked for the cache and split between threads.

use super::NanRule;
use crate::cost;
use crate::view::{self, SQUARE, put_line};
use crate::workers::Workers;
use half::f16;
use pulp::{Simd, WithSimd};

/// An axis of a copy: its extent, and its strides in the source and in the result, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAxis {
    pub count: usize,
    pub to: usize,
    pub from: usize,
}

/// Rows of fewer elements are copied element by element.
const SHORT: usize = 8;

/// Row stride of the result, in elements, from which rows are on different pages: short rows are then written in the order of the result,
/// whatever the access pattern of the source.
const FAR: usize = 1 << 10;

/// Sorts axes by their stride in the result, outermost first, and merges neighbours that are contiguous on both sides.
pub fn normalized(axes: &[CopyAxis]) -> Vec<CopyAxis> {
    let mut sorted: Vec<CopyAxis> = Vec::with_capacity(axes.len());
    for axis in axes.iter().filter(|axis| axis.count != 1) {
        sorted.insert(sorted.partition_point(|outer| outer.to >= axis.to), *axis);
    }
    let mut joined: Vec<CopyAxis> = Vec::with_capacity(sorted.len());
    for axis in sorted {
        match joined.last_mut() {
            Some(outer) if outer.to == axis.to * axis.count && outer.from == axis.from * axis.count => {
                *outer = CopyAxis { count: outer.count * axis.count, ..axis };
            }
            _ => joined.push(axis),
        }
    }
    joined
}

/// Copy strategy for a box.
struct Form {
    name: &'static str,
    /// Tests the innermost axis and the outer ones; the error is the reason for the rejection.
    accepts: fn(&CopyAxis, &[CopyAxis]) -> Result<(), &'static str>,
}

/// Strategies in order of preference.
static FORMS: [Form; 5] = [
    Form {
        name: "rows",
        accepts: |inner, _| when((inner.to, inner.from) == (1, 1), "no axis is contiguous on both sides"),
    },
    Form {
        name: "broadcast rows",
        accepts: |inner, _| when((inner.to, inner.from) == (1, 0), "every element is read once"),
    },
    Form {
        name: "blocked transposition",
        accepts: |inner, outer| {
            let lines = contiguous_source(outer).filter(|&at| transposes(inner, &outer[at]));
            when(lines.is_some(), "no axis of the source is contiguous, or its lines are short")
        },
    },
    Form {
        name: "source rows",
        accepts: |inner, outer| {
            let apart = inner.to > 1 && inner.from > 1 && contiguous_source(outer).is_some();
            when(apart, "no axis of the source is contiguous")
        },
    },
    Form { name: "strided elements", accepts: |_, _| Ok(()) },
];

fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

/// Index of the outer axis that is contiguous in the source.
fn contiguous_source(outer: &[CopyAxis]) -> Option<usize> {
    outer.iter().position(|axis| axis.from == 1)
}

/// Returns true if a blocked transposition of the innermost axis and the source's contiguous axis pays.
fn transposes(inner: &CopyAxis, lines: &CopyAxis) -> bool {
    inner.to == 1 && inner.from > 1 && (inner.count >= SHORT || lines.to < FAR)
}

/// Name of the strategy for a box, and the rejected ones before it with their reasons. `axes` are [`normalized`].
pub fn select(axes: &[CopyAxis]) -> (&'static str, Vec<(&'static str, &'static str)>) {
    let Some((inner, outer)) = axes.split_last() else { return ("one element", Vec::new()) };
    let mut rejected = Vec::new();
    for form in &FORMS {
        match (form.accepts)(inner, outer) {
            Ok(()) => return (form.name, rejected),
            Err(why) => rejected.push((form.name, why)),
        }
    }
    ("strided elements", rejected)
}

/// Copies a box of elements. `axes` are [`normalized`]; each stride in the result is at least the reach of the axes inside it.
pub fn strided(workers: &Workers, rule: NanRule, from: &[f16], to: &mut [f16], axes: &[CopyAxis]) {
    let elements: usize = axes.iter().map(|axis| axis.count).product();
    if elements == 0 {
        return;
    }
    let rows = axes.last().is_some_and(|axis| axis.to == 1 && axis.from == 1 && axis.count >= 16);
    let shared = workers.shares(if rows { cost::elementwise(elements) } else { cost::one_by_one(elements) });
    let parts = if shared { 2 * rayon::current_num_threads() } else { 1 };
    let mut pieces = Vec::new();
    cut(Piece { from, to, axes: axes.to_vec() }, 0, parts, &mut pieces);
    workers.each(pieces, shared, |piece, _| workers.arch.dispatch(Job { rule, piece }));
}

/// Part of a copy that one thread executes.
pub struct Piece<'a> {
    pub from: &'a [f16],
    pub to: &'a mut [f16],
    pub axes: Vec<CopyAxis>,
}

/// Splits a copy into about `parts` parts, along the axes from `at` on.
pub fn cut<'a>(piece: Piece<'a>, at: usize, parts: usize, pieces: &mut Vec<Piece<'a>>) {
    let Some(&axis) = piece.axes.get(at).filter(|_| parts > 1 && at + 1 < piece.axes.len()) else {
        return pieces.push(piece);
    };
    let each = axis.count.div_ceil(parts.min(axis.count));
    // Parts are whole cache lines of the source where this axis is contiguous there.
    let each = if axis.from == 1 && axis.count > 2 * SQUARE { each.next_multiple_of(SQUARE) } else { each };
    let count = axis.count.div_ceil(each);
    let (from, axes) = (piece.from, piece.axes);
    let mut rest = piece.to;
    for i in 0..count {
        let own = each.min(axis.count - i * each);
        let end = if i + 1 == count { rest.len() } else { (own * axis.to).min(rest.len()) };
        let (to, after) = rest.split_at_mut(end);
        rest = after;
        let mut axes = axes.clone();
        axes[at].count = own;
        let from = from.get(i * each * axis.from..).unwrap_or(&[]);
        cut(Piece { from, to, axes }, at + 1, parts / count, pieces);
    }
}

struct Job<'a, 'b> {
    rule: NanRule,
    piece: &'a mut Piece<'b>,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Job { rule, piece: Piece { from, to, axes } } = self;
        match rule {
            NanRule::Quiet => copy(from, to, axes, NanRule::quiet),
            NanRule::Infinity => copy(from, to, axes, NanRule::infinity),
        }
    }
}

#[inline(always)]
pub fn copy(from: &[f16], to: &mut [f16], axes: &[CopyAxis], fix: impl Fn(f16) -> f16 + Copy) {
    let Some(Order { outer, inner, lines }) = ordered(axes) else {
        return to[0] = fix(from[0]);
    };
    match lines {
        Some(lines) => each(
            &outer,
            #[inline(always)]
            |t, f| transpose(&from[f..], &mut to[t..], lines, inner, fix),
        ),
        None => each(
            &outer,
            #[inline(always)]
            |t, f| row(&from[f..], &mut to[t..], inner, fix),
        ),
    }
}

/// Order in which a box is visited.
struct Order {
    outer: Vec<CopyAxis>,
    inner: CopyAxis,
    /// Axis that is transposed with the inner one, block by block; it is contiguous in the source.
    lines: Option<CopyAxis>,
}

/// The order for these axes; `None` for one element.
fn ordered(axes: &[CopyAxis]) -> Option<Order> {
    let (&inner, outer) = axes.split_last()?;
    let mut outer = outer.to_vec();
    Some(match contiguous_source(&outer) {
        Some(at) if transposes(&inner, &outer[at]) => {
            let lines = outer.remove(at);
            if lines.count < SHORT && lines.count < inner.count {
                outer.push(lines);
                Order { outer, inner, lines: None }
            } else if inner.count < SHORT {
                outer.push(inner);
                Order { outer, inner: lines, lines: None }
            } else {
                Order { outer, inner, lines: Some(lines) }
            }
        }
        Some(at) if inner.to > 1 && inner.from > 1 => {
            // Rows of one element: the axis that is contiguous in the source becomes the inner loop.
            let lines = std::mem::replace(&mut outer[at], inner);
            Order { outer, inner: lines, lines: None }
        }
        _ => Order { outer, inner, lines: None },
    })
}

/// Calls `visit` for every index tuple of the axes, with the offsets in the result and in the source.
#[inline(always)]
pub fn each(axes: &[CopyAxis], mut visit: impl FnMut(usize, usize)) {
    let one = CopyAxis { count: 1, to: 0, from: 0 };
    // Written out, with a single call of `visit`: the closure of `for_each` would not be compiled for the caller's instruction set.
    let (outer, a, b) = match *axes {
        [] => (&[][..], one, one),
        [b] => (&[][..], one, b),
        [ref outer @ .., a, b] => (outer, a, b),
    };
    let mut at = vec![0; outer.len()];
    loop {
        let (t, f) = at.iter().zip(outer).fold((0, 0), |(t, f), (i, axis)| (t + i * axis.to, f + i * axis.from));
        for i in 0..a.count {
            for j in 0..b.count {
                visit(t + i * a.to + j * b.to, f + i * a.from + j * b.from);
            }
        }
        let Some(next) = (0..outer.len()).rev().find(|&k| at[k] + 1 < outer[k].count) else { return };
        at[next] += 1;
        at[next + 1..].fill(0);
    }
}

/// Copies the elements of one axis.
#[inline(always)]
fn row(from: &[f16], to: &mut [f16], axis: CopyAxis, fix: impl Fn(f16) -> f16) {
    let CopyAxis { count, to: to_stride, from: from_stride } = axis;
    match (to_stride, from_stride) {
        (1, 1) if count >= SHORT => {
            let (from, to) = (&from[..count], &mut to[..count]);
            for (to, from) in to.iter_mut().zip(from) {
                *to = fix(*from);
            }
        }
        (1, 0) => to[..count].fill(fix(from[0])),
        (1, _) => {
            let mut read = 0;
            for to in &mut to[..count] {
                *to = fix(from[read]);
                read += from_stride;
            }
        }
        // Bounds checks on every element keep LLVM from vectorizing this loop, which would be slower.
        _ => {
            let (mut written, mut read) = (0, 0);
            for _ in 0..count {
                to[written] = fix(from[read]);
                (written, read) = (written + to_stride, read + from_stride);
            }
        }
    }
}

/// Transposes two axes: `lines` is contiguous in the source, `columns` in the result.
#[inline(always)]
fn transpose(from: &[f16], to: &mut [f16], lines: CopyAxis, columns: CopyAxis, fix: impl Fn(f16) -> f16 + Copy) {
    view::transpose(
        from,
        columns.from,
        [lines.count, columns.count],
        fix,
        #[inline(always)]
        |i, first, line, count| put_line(line, count, &mut to[i * lines.to + first..]),
    );
}
