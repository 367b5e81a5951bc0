//! Extents that are computed at run time, as decoders of speech have them: a row stands for every place up to the greatest length, and those
//! below the length are real. The greatest length follows from the operations that compute it, or is given for the name of the
//! value like the extent of a dimension.

use super::across::filled;
use super::made::{MADE_ELEMENTS, clamp};
use super::moving::{self, Place};
use super::node::Node;
use super::numbered::{mark, rows_of};
use super::rows::{Mark, Rows};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};

/// Most operations that a bound is followed through; the operands of one operation share what is left.
const LONGEST_CHAIN: usize = 256;

/// A computed length, an element of a list of integers, and its rows.
pub struct Length {
    of: (ValueId, usize),
    rows: Rows,
}

/// Makes a computed extent of the node's result that of rows, if the operator has a rule for them.
pub fn settle(n: &mut Node) -> Result<(), Error> {
    let at = match n.op() {
        "Range" => 1,
        "Expand" => 1,
        "Reshape" if rows_of(n, 0).is_some() => 1,
        "ConstantOfShape" => 0,
        _ => return Ok(()),
    };
    let Some(extents) = n.input(at) else { return Ok(()) };
    let own = |at: usize, number: i32| {
        n.input(at).and_then(|id| n.t.build.data(id)).is_some_and(|data| data.data.to_i32() == [number])
    };
    let counts = n.op() != "Range" || own(0, 0) && own(2, 1);
    let integers = !n.dtype(extents).is_float() && n.t.build.data(extents).is_none();
    if !counts || !integers || n.t.mark(extents).is_some() {
        return Ok(());
    }
    let places = places(&n.t.build, extents);
    let mut computed = places.iter().filter_map(|place| place.of.map(|of| (of, place.plus)));
    let Some((of, 0)) = computed.next() else { return Ok(()) };
    if computed.any(|other| other != (of, 0)) {
        return Ok(());
    }
    let rows = rows(n, of)?;
    let count = clamp(rows.count as i64);
    let numbers = places.iter().map(|place| if place.of.is_some() { count } else { clamp(place.plus) }).collect();
    let flags = places.iter().map(|place| place.of.is_some()).collect();
    let shape = n.shape(extents);
    let known = n.build().integers(shape, numbers);
    n.t.computed.marks.get_or_insert_default().insert(known, Mark::Extents(flags, rows));
    n.inputs[at] = Some(known);
    Ok(())
}

/// Elements of a list of extents. One below zero, for which exporters write a selection of the operand's own extent, is none of a computed
/// length.
fn places(build: &Builder, id: ValueId) -> Vec<Place> {
    let all = |id: ValueId| moving::places(build, id);
    let selected = || {
        let op = build.maker(id).filter(|op| op.kind == OpKind::Select)?;
        let &[condition, own, given] = op.inputs.as_slice() else { return None };
        let compared = build.maker(condition).filter(|op| op.kind == OpKind::Binary(Binary::Equal))?;
        let at = compared.inputs.iter().position(|&x| x == given)?;
        let marker = build.data(compared.inputs[1 - at])?.data.to_i32();
        let &first = marker.first().filter(|&first| *first < 0 && marker.iter().all(|v| v == first))?;
        let (own, given) = (all(own), all(given));
        let left = |place: &Place| place.of.is_none() && place.plus == i64::from(first);
        let pick = |(at, place): (usize, Place)| if left(&place) { own.get(at).copied() } else { Some(place) };
        given.into_iter().enumerate().map(pick).collect::<Option<Vec<Place>>>()
    };
    selected().unwrap_or_else(|| all(id))
}

/// The rows of a computed length.
fn rows(n: &mut Node, (value, at): (ValueId, usize)) -> Result<Rows, Error> {
    if let Some(known) = n.t.computed.lengths.iter().find(|length| length.of == (value, at)) {
        return Ok(known.rows);
    }
    let name = n.t.build.net.value(value).name.clone();
    let given = n.t.options.extents.get(&name).copied();
    let [_, greatest] = interval(&n.t.build, value, LONGEST_CHAIN);
    let most = match given {
        Some(most) => (most as f64).max(1.0),
        None if greatest.is_finite() => greatest.max(1.0),
        None => {
            let other = n
                .integer_behind(value)
                .map(|input| format!(", or give `{input}` a value that is known before (`--value {input}=...`)"));
            return Err(n.unsupported(format!(
                "its extent `{name}` is computed at run time, and no operation bounds it. Give the greatest (`--dim {name}=...`){}",
                other.unwrap_or_default()
            )));
        }
    };
    if most > MADE_ELEMENTS as f64 {
        return Err(n.unsupported(format!("its extent `{name}` may be {most}, at most {MADE_ELEMENTS} is supported")));
    }
    let count = most as usize;
    let flat = elements(&n.shape(value));
    let length = n.build().reshape(value, [flat])?;
    let length = n.build().slice(length, 0, at, at + 1)?;
    let length = n.build().reshape(length, [])?;
    let mut length = n.build().cast(length, DType::I32)?;
    if greatest > most {
        // A longer one is an error of the run: this table has no such place.
        let zero = n.build().integers([], vec![0]);
        length = n.build().binary(Binary::Max, length, zero)?;
        let table = n.build().integers([count + 1], (0..=clamp(count as i64)).collect());
        length = n.build().gather(table, length, 0)?;
    }
    let order = n.build().integers([count], (0..clamp(count as i64)).collect());
    let mask = n.build().binary(Binary::Less, order, length)?;
    let rows = Rows { axis: 0, count, mask, each: 1 };
    n.t.computed.lengths.push(Length { of: (value, at), rows });
    Ok(rows)
}

/// Rows of a computed number, of at most `count`.
pub fn made(n: &mut Node, length: ValueId, count: usize) -> Result<Rows, Error> {
    let order = n.build().integers([count], (0..clamp(count as i64)).collect());
    let mask = n.build().binary(Binary::Less, order, length)?;
    let rows = Rows { axis: 0, count, mask, each: 1 };
    n.t.computed.lengths.push(Length { of: (length, 0), rows });
    Ok(rows)
}

/// Returns true for rows of which the real ones are the first.
pub fn first_are_real(lengths: &[Length], rows: Rows) -> bool {
    lengths.iter().any(|length| length.rows.mask == rows.mask)
}

/// `Range` up to a computed length.
pub fn numbers(n: &mut Node, rows: Rows) -> Result<bool, Error> {
    let order = n.build().integers([rows.count], (0..clamp(rows.count as i64)).collect());
    let id = n.build().copied(order)?;
    mark(n, id, Rows { axis: 0, ..rows });
    n.done(id)
}

/// Places behind the length, which tables may not have, become the first for a gather of a table.
pub fn in_table(n: &mut Node) -> Result<(), Error> {
    let Some(rows) = rows_of(n, 1).filter(|&rows| first_are_real(&n.t.computed.lengths, rows)) else { return Ok(()) };
    let alone = n.input(0).is_none_or(|id| n.t.mark(id).is_none());
    if alone && matches!(n.op(), "Gather" | "GatherElements" | "GatherND") {
        let index = n.need(1)?;
        let held = filled(n, index, rows, 0.0)?;
        mark(n, held, rows);
        n.inputs[1] = Some(held);
    }
    Ok(())
}

/// Bounds of the elements of a value, as far as the operations that compute it have some.
fn interval(build: &Builder, id: ValueId, steps: usize) -> [f64; 2] {
    const ANY: [f64; 2] = [f64::NEG_INFINITY, f64::INFINITY];
    if let Some(tensor) = build.data(id) {
        let all = tensor.data.to_f32();
        let least = all.iter().fold(f64::INFINITY, |least, &v| least.min(v.into()));
        return [least, all.iter().fold(f64::NEG_INFINITY, |most, &v| most.max(v.into()))];
    }
    if build.dtype(id) == DType::Bool {
        return [0.0, 1.0];
    }
    let Some(op) = build.maker(id).filter(|_| steps > 0) else { return ANY };
    let of = |at: usize| interval(build, op.inputs[at], (steps - 1) / op.inputs.len());
    let both = |f: &dyn Fn(f64, f64) -> f64| {
        let ([a, b], [c, d]) = (of(0), of(1));
        let all = [f(a, c), f(a, d), f(b, c), f(b, d)];
        match all.iter().any(|v| v.is_nan()) {
            true => ANY,
            false => [
                all.iter().copied().fold(f64::INFINITY, f64::min),
                all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ],
        }
    };
    let union = |ends: &mut dyn Iterator<Item = [f64; 2]>| {
        ends.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], [c, d]| [a.min(c), b.max(d)])
    };
    match &op.kind {
        OpKind::Cast => of(0).map(|v| if build.dtype(id).is_float() { v } else { v.trunc() }),
        OpKind::Unary(f) => match *f {
            Unary::Identity => of(0),
            Unary::Relu => of(0).map(|v| v.max(0.0)),
            Unary::Clip { min, max } => of(0).map(|v| v.max(min.into()).min(max.into())),
            Unary::Floor => of(0).map(f64::floor),
            Unary::Ceil => of(0).map(f64::ceil),
            Unary::Round => of(0).map(f64::round_ties_even),
            Unary::Neg => {
                let [least, most] = of(0);
                [-most, -least]
            }
            Unary::Sigmoid => [0.0, 1.0],
            Unary::Tanh => [-1.0, 1.0],
            _ => ANY,
        },
        OpKind::Binary(Binary::Add) => both(&|a, b| a + b),
        OpKind::Binary(Binary::Sub) => both(&|a, b| a - b),
        OpKind::Binary(Binary::Mul) => both(&|a, b| a * b),
        OpKind::Binary(Binary::Min) => both(&f64::min),
        OpKind::Binary(Binary::Max) => both(&f64::max),
        OpKind::Select => union(&mut [1, 2].into_iter().map(of)),
        OpKind::Concat { .. } => union(&mut (0..op.inputs.len()).map(of)),
        OpKind::Reshape
        | OpKind::Broadcast
        | OpKind::Transpose { .. }
        | OpKind::Slice { .. }
        | OpKind::Gather { .. }
        | OpKind::GatherAlong { .. }
        | OpKind::GatherNd { .. }
        | OpKind::Reduce { kind: ReduceKind::Max | ReduceKind::Min | ReduceKind::Mean, .. } => of(0),
        OpKind::Reduce { kind: ReduceKind::Sum, .. } => {
            let count = elements(&build.shape(op.inputs[0])) / elements(&build.shape(id)).max(1);
            of(0).map(|v| if v == 0.0 { 0.0 } else { v * count as f64 })
        }
        // Sums weighted by the rows of a matrix, as cumulative ones are.
        OpKind::Combine => {
            match build.data(op.inputs[1]).map(|weights| (weights.data.to_f32(), weights.shape.last())) {
                Some((weights, Some(&width))) if width > 0 => {
                    let [least, most] = of(0);
                    let product = |w: f32, bound: f64| if w == 0.0 { 0.0 } else { f64::from(w) * bound };
                    let sum = |row: &[f32]| {
                        row.iter().fold([0.0, 0.0], |[a, b], &w| {
                            let (c, d) = (product(w, least), product(w, most));
                            [a + c.min(d), b + c.max(d)]
                        })
                    };
                    union(&mut weights.chunks(width).map(sum))
                }
                _ => ANY,
            }
        }
        OpKind::ArgReduce { axis, .. } => [0.0, build.shape(op.inputs[0])[*axis] as f64],
        _ => ANY,
    }
}
