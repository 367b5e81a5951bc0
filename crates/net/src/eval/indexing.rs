//! Operations with computed positions: gather, scatter, sorting, sampling.

use super::{Buffer, View, elementwise, strides, wrapped};
use crate::error::Error;
use crate::graph::{DType, elements};
use crate::ops::{Outside, ResizeMode, ScatterMode};
use crate::order::positions;

fn position(index: i32, extent: usize, op: &str) -> Result<usize, Error> {
    let found = i64::from(index);
    let at = if found < 0 { found + extent as i64 } else { found };
    let inside = usize::try_from(at).ok().filter(|&at| at < extent);
    inside.ok_or_else(|| Error::Index { op: op.to_string(), found, extent })
}

/// Positions in `x` of the elements that indices along one axis select.
pub(super) fn along(x: View, indices: View, axis: usize) -> Result<Vec<usize>, Error> {
    let own = strides(x.shape());
    let (shape, values) = (indices.shape(), indices.integers());
    let mut index = vec![0; shape.len()];
    let mut places = Vec::with_capacity(values.len());
    for &value in values.iter() {
        let outer: usize = (0..shape.len()).filter(|&a| a != axis).map(|a| index[a] * own[a]).sum();
        places.push(outer + position(value, x.shape()[axis], "gather_along")? * own[axis]);
        for a in (0..shape.len()).rev() {
            index[a] += 1;
            if index[a] < shape[a] {
                break;
            }
            index[a] = 0;
        }
    }
    Ok(places)
}

/// Positions in `x` of the blocks that index lists select, and the number of elements of a block.
pub(super) fn nd(x: View, indices: View, batch_dims: usize) -> Result<(Vec<usize>, usize), Error> {
    let (own, shape) = (strides(x.shape()), indices.shape());
    let depth = shape.last().copied().unwrap_or(1);
    let block = elements(&x.shape()[batch_dims + depth..]);
    let per_batch = elements(&shape[batch_dims..]) / depth;
    let batch_elements = elements(&x.shape()[batch_dims..]);
    let values = indices.integers();
    let places = values.chunks_exact(depth).enumerate().map(|(i, list)| {
        let start = i / per_batch * batch_elements;
        list.iter().enumerate().try_fold(start, |at, (k, &index)| {
            let axis = batch_dims + k;
            Ok(at + position(index, x.shape()[axis], "gather_nd")? * own[axis])
        })
    });
    Ok((places.collect::<Result<_, Error>>()?, block))
}

pub(super) fn gather(x: View, places: &[usize], block: usize) -> Buffer {
    fn pick<T: Copy>(data: &[T], places: &[usize], block: usize) -> Vec<T> {
        places.iter().flat_map(|&at| &data[at..at + block]).copied().collect()
    }
    match x.buffer {
        Buffer::Float(data) => Buffer::Float(pick(data, places, block)),
        Buffer::Integer(data) => Buffer::Integer(pick(data, places, block)),
    }
}

pub(super) fn scatter(
    mode: ScatterMode,
    x: View,
    updates: View,
    places: &[usize],
    block: usize,
    dtype: DType,
) -> Buffer {
    fn put<T: Copy>(data: &[T], updates: &[T], places: &[usize], block: usize, f: impl Fn(T, T) -> T) -> Vec<T> {
        let mut out = data.to_vec();
        for (&at, updates) in places.iter().zip(updates.chunks_exact(block)) {
            out[at..at + block].iter_mut().zip(updates).for_each(|(o, &u)| *o = f(*o, u));
        }
        out
    }
    match x.buffer {
        Buffer::Float(data) => {
            let combine = |a, b| mode.binary().map_or(b, |f| elementwise::float_binary(f, a, b));
            Buffer::Float(put(data, &updates.floats(), places, block, combine))
        }
        Buffer::Integer(data) => {
            let combine = |a: i32, b: i32| match mode.binary() {
                None => b,
                Some(f) => wrapped(dtype, elementwise::integer_binary(f, a.into(), b.into())),
            };
            Buffer::Integer(put(data, &updates.integers(), places, block, combine))
        }
    }
}

/// Visits every line along an axis with the elements in order.
fn lines(x: View, axis: usize, mut visit: impl FnMut(&dyn Fn(usize) -> f64, usize, usize)) {
    let extent = x.shape()[axis];
    let inner: usize = x.shape()[axis + 1..].iter().product();
    for first in (0..elements(x.shape()) / extent).map(|i| i / inner * extent * inner + i % inner) {
        let at = |i: usize| match x.buffer {
            Buffer::Float(data) => data[first + i * inner].into(),
            Buffer::Integer(data) => data[first + i * inner].into(),
        };
        visit(&at, first, inner);
    }
}

pub(super) fn arg_reduce(x: View, axis: usize, greatest: bool, last: bool) -> Buffer {
    let mut out = Vec::with_capacity(elements(x.shape()) / x.shape()[axis]);
    lines(x, axis, |at, _, _| {
        let mut best = 0;
        for i in 1..x.shape()[axis] {
            let (new, old) = (at(i), at(best));
            let beats = if greatest { new > old } else { new < old };
            if beats || new == old && last {
                best = i;
            }
        }
        out.push(best as i32);
    });
    Buffer::Integer(out)
}

pub(super) fn arg_sort(x: View, axis: usize, descending: bool) -> Buffer {
    let mut out = vec![0; elements(x.shape())];
    lines(x, axis, |at, first, step| {
        let order = positions(x.shape()[axis], &|a, b| {
            // NaN is greater than all numbers, as in PyTorch and NumPy.
            let (a, b) = (at(a), at(b));
            let ordering = a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            if descending { ordering.reverse() } else { ordering }
        });
        order.iter().enumerate().for_each(|(i, &from)| out[first + i * step] = from as i32);
    });
    Buffer::Integer(out)
}

/// Position reflected into `low..=high`.
fn mirror(at: f64, low: f64, high: f64) -> f64 {
    let span = high - low;
    if span <= 0.0 {
        return low;
    }
    let folded = (at - low).rem_euclid(2.0 * span);
    low + if folded > span { 2.0 * span - folded } else { folded }
}

pub(super) fn sample(inputs: &[View], mode: ResizeMode, outside: Outside, to: &[usize]) -> Vec<f32> {
    let (data, places) = (inputs[0].floats(), inputs[1].floats());
    let &[n, c, h, w] = inputs[0].shape() else { return vec![] };
    let per_image = to[2] * to[3];
    let place = |at: f32, extent: usize| {
        let (at, last) = (f64::from(at), extent as f64 - 1.0);
        match outside {
            Outside::Value(_) => at,
            Outside::Border => at.clamp(0.0, last),
            Outside::Reflect => mirror(at, 0.0, last).clamp(0.0, last),
            Outside::Symmetric => mirror(at, -0.5, last + 0.5).clamp(0.0, last),
        }
    };
    let fetch = |plane: &[f32], row: f64, column: f64| {
        let inside = row >= 0.0 && column >= 0.0 && row < h as f64 && column < w as f64;
        match outside {
            _ if inside => f64::from(plane[row as usize * w + column as usize]),
            Outside::Value(value) => value.into(),
            // A neighbour just past the edge has no weight.
            _ => 0.0,
        }
    };
    let mut out = Vec::with_capacity(elements(to));
    for image in 0..n {
        for channel in 0..c {
            let plane = &data[(image * c + channel) * h * w..][..h * w];
            for point in places[image * per_image * 2..][..per_image * 2].chunks_exact(2) {
                let (column, row) = (place(point[0], w), place(point[1], h));
                let value = match mode {
                    ResizeMode::Nearest => fetch(plane, row.round_ties_even(), column.round_ties_even()),
                    ResizeMode::Linear => {
                        let (top, left) = (row.floor(), column.floor());
                        let (down, right) = (row - top, column - left);
                        let corner = |dy: f64, dx: f64, weight: f64| match weight {
                            0.0 => 0.0,
                            weight => weight * fetch(plane, top + dy, left + dx),
                        };
                        corner(0.0, 0.0, (1.0 - down) * (1.0 - right))
                            + corner(0.0, 1.0, (1.0 - down) * right)
                            + corner(1.0, 0.0, down * (1.0 - right))
                            + corner(1.0, 1.0, down * right)
                    }
                };
                out.push(value as f32);
            }
        }
    }
    out
}
