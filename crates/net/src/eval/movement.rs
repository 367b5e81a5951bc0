//! Operations that move elements without arithmetic, and resampling.

use super::{Buffer, View, broadcast_strides, rows, strides};
use crate::error::Error;
use crate::graph::{TensorType, elements};
use crate::ops::{Coordinates, EdgeMode, ResizeMode};

/// Elements of `data` along the axes of `shape`, `strides` apart, the first at `base`.
fn walk<T: Copy>(data: &[T], shape: &[usize], strides: &[usize], base: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(elements(shape));
    let (count, step) = (shape.last().copied().unwrap_or(1), strides.last().copied().unwrap_or(0));
    rows(shape, [strides], |[at]| match step {
        1 => out.extend_from_slice(&data[base + at..base + at + count]),
        _ => out.extend((0..count).map(|i| data[base + at + i * step])),
    });
    out
}

fn walk_buffer(x: View, shape: &[usize], strides: &[usize], base: usize) -> Buffer {
    match x.buffer {
        Buffer::Float(data) => Buffer::Float(walk(data, shape, strides, base)),
        Buffer::Integer(data) => Buffer::Integer(walk(data, shape, strides, base)),
    }
}

pub(super) fn broadcast(x: View, shape: &[usize]) -> Buffer {
    walk_buffer(x, shape, &broadcast_strides(x.shape(), shape), 0)
}

pub(super) fn transpose(x: View, perm: &[usize]) -> Buffer {
    let own = strides(x.shape());
    let shape: Vec<usize> = perm.iter().map(|&axis| x.shape()[axis]).collect();
    let permuted: Vec<usize> = perm.iter().map(|&axis| own[axis]).collect();
    walk_buffer(x, &shape, &permuted, 0)
}

pub(super) fn slice(x: View, begin: &[usize], step: &[usize], shape: &[usize]) -> Buffer {
    let own = strides(x.shape());
    let base = begin.iter().zip(&own).map(|(b, s)| b * s).sum();
    // A stride beyond the axis is only ever multiplied by zero, so it may saturate.
    let steps: Vec<usize> = own.iter().zip(step).map(|(o, s)| o.saturating_mul(*s)).collect();
    walk_buffer(x, shape, &steps, base)
}

pub(super) fn concat(inputs: &[View], axis: usize, result: &TensorType) -> Buffer {
    let outer: usize = inputs[0].shape()[..axis].iter().product();
    let lengths: Vec<usize> = inputs.iter().map(|v| v.shape()[axis..].iter().product()).collect();
    if result.dtype.is_float() {
        let data: Vec<_> = inputs.iter().map(|v| v.floats()).collect();
        Buffer::Float(join(&data, &lengths, outer))
    } else {
        let data: Vec<_> = inputs.iter().map(|v| v.integers()).collect();
        Buffer::Integer(join(&data, &lengths, outer))
    }
}

/// Concatenation: `outer` times the next `lengths[i]` elements of each operand.
fn join<T: Copy, S: std::ops::Deref<Target = [T]>>(data: &[S], lengths: &[usize], outer: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(outer * lengths.iter().sum::<usize>());
    for block in 0..outer {
        for (data, &length) in data.iter().zip(lengths) {
            out.extend_from_slice(&data[block * length..(block + 1) * length]);
        }
    }
    out
}

pub(super) fn gather(x: View, indices: View, axis: usize) -> Result<Buffer, Error> {
    let extent = x.shape()[axis];
    let positions = indices
        .integers()
        .iter()
        .map(|&index| {
            let found = i64::from(index);
            let at = if found < 0 { found + extent as i64 } else { found };
            usize::try_from(at).ok().filter(|&at| at < extent).ok_or(Error::Index {
                op: "gather".to_string(),
                found,
                extent,
            })
        })
        .collect::<Result<Vec<usize>, Error>>()?;
    let inner: usize = x.shape()[axis + 1..].iter().product();
    Ok(match x.buffer {
        Buffer::Float(data) => Buffer::Float(pick(data, &positions, extent, inner)),
        Buffer::Integer(data) => Buffer::Integer(pick(data, &positions, extent, inner)),
    })
}

/// Blocks of `inner` elements at these positions of an axis, for every outer position.
fn pick<T: Copy>(data: &[T], positions: &[usize], extent: usize, inner: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(data.len() / extent * positions.len());
    for block in data.chunks_exact(extent * inner) {
        for &at in positions {
            out.extend_from_slice(&block[at * inner..(at + 1) * inner]);
        }
    }
    out
}

pub(super) fn pad(x: View, pads: &[(usize, usize)], value: f32) -> Buffer {
    match x.buffer {
        Buffer::Float(data) => Buffer::Float(padded_data(data, x.shape(), pads, value)),
        Buffer::Integer(data) => Buffer::Integer(padded_data(data, x.shape(), pads, value as i32)),
    }
}

fn padded_data<T: Copy>(data: &[T], shape: &[usize], pads: &[(usize, usize)], value: T) -> Vec<T> {
    let padded: Vec<usize> = shape.iter().zip(pads).map(|(d, p)| d + p.0 + p.1).collect();
    let (from, to) = (strides(shape), strides(&padded));
    let base: usize = pads.iter().zip(&to).map(|(p, s)| p.0 * s).sum();
    let count = shape.last().copied().unwrap_or(1);
    let mut out = vec![value; elements(&padded)];
    rows(shape, [&from, &to], |[a, b]| out[base + b..base + b + count].copy_from_slice(&data[a..a + count]));
    out
}

pub(super) fn pad_edge(x: View, pads: &[(usize, usize)], mode: EdgeMode) -> Buffer {
    let mut shape = x.shape().to_vec();
    let mut buffer = x.buffer.clone();
    for (axis, &(before, after)) in pads.iter().enumerate().filter(|(_, p)| **p != (0, 0)) {
        let extent = shape[axis];
        let positions: Vec<usize> = (0..before + extent + after)
            .map(|o| {
                let at = o as isize - before as isize;
                let last = extent as isize - 1;
                let at = match mode {
                    EdgeMode::Replicate => at.clamp(0, last),
                    EdgeMode::Reflect if at < 0 => -at,
                    EdgeMode::Reflect if at > last => 2 * last - at,
                    EdgeMode::Reflect => at,
                };
                at as usize
            })
            .collect();
        let inner: usize = shape[axis + 1..].iter().product();
        buffer = match &buffer {
            Buffer::Float(data) => Buffer::Float(pick(data, &positions, extent, inner)),
            Buffer::Integer(data) => Buffer::Integer(pick(data, &positions, extent, inner)),
        };
        shape[axis] = positions.len();
    }
    buffer
}

pub(super) fn resize(x: View, mode: ResizeMode, coordinates: Coordinates, to: &[usize]) -> Vec<f32> {
    let mut data = x.floats().into_owned();
    for (axis, (&from, &to_extent)) in x.shape().iter().zip(to).enumerate().filter(|(_, (a, b))| a != b) {
        // Axes before this one already have their new extents, which only the number of blocks depends on.
        let inner: usize = x.shape()[axis + 1..].iter().product();
        data = match mode {
            ResizeMode::Nearest => {
                let positions: Vec<usize> = (0..to_extent).map(|o| nearest(o, from, to_extent, coordinates)).collect();
                pick(&data, &positions, from, inner)
            }
            ResizeMode::Linear => interpolate(&data, from, to_extent, inner, coordinates),
        };
    }
    data
}

fn nearest(o: usize, from: usize, to: usize, coordinates: Coordinates) -> usize {
    let at = match coordinates {
        Coordinates::Asymmetric => o * from / to,
        Coordinates::HalfPixel => (2 * o + 1) * from / (2 * to),
        Coordinates::AlignCorners => o * (from - 1) / (to - 1).max(1),
    };
    at.min(from - 1)
}

fn interpolate(data: &[f32], from: usize, to: usize, inner: usize, coordinates: Coordinates) -> Vec<f32> {
    let mut out = Vec::with_capacity(data.len() / from * to);
    for block in data.chunks_exact(from * inner) {
        for o in 0..to {
            let (o, n, m) = (o as f64, from as f64, to as f64);
            let at = match coordinates {
                Coordinates::Asymmetric => o * n / m,
                Coordinates::HalfPixel => (o + 0.5) * n / m - 0.5,
                Coordinates::AlignCorners => o * (n - 1.0) / (m - 1.0).max(1.0),
            };
            let at = at.clamp(0.0, n - 1.0);
            let low = at as usize;
            let high = (low + 1).min(from - 1);
            let t = (at - low as f64) as f32;
            let (a, b) = (&block[low * inner..(low + 1) * inner], &block[high * inner..(high + 1) * inner]);
            // A neighbour of weight zero is not read, since it may be NaN or infinite.
            out.extend(a.iter().zip(b).map(|(a, b)| if t == 0.0 { *a } else { a * (1.0 - t) + b * t }));
        }
    }
    out
}
