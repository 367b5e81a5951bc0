//! Elementwise functions.

use super::{Buffer, View, broadcast_strides, range, rows, wrapped};
use crate::graph::{DType, TensorType};
use crate::ops::{Binary, Unary};

pub(super) fn unary(unary: &Unary, x: View) -> Buffer {
    match x.buffer {
        Buffer::Float(data) => {
            let f = unary.function();
            Buffer::Float(data.iter().map(|&x| f(x)).collect())
        }
        Buffer::Integer(data) => {
            let (dtype, f) = (x.ty.dtype, unary.integer_function());
            Buffer::Integer(data.iter().map(|&x| wrapped(dtype, f(x.into()))).collect())
        }
    }
}

pub(super) fn binary(binary: Binary, inputs: &[View], result: &TensorType) -> Buffer {
    let shapes = [inputs[0].shape(), inputs[1].shape()];
    match (inputs[0].buffer, inputs[1].buffer) {
        (Buffer::Float(x), Buffer::Float(y)) if binary.is_comparison() => {
            Buffer::Integer(zip(x, y, shapes, &result.shape, |a, b| compare(binary, a, b).into()))
        }
        (Buffer::Float(x), Buffer::Float(y)) => {
            Buffer::Float(zip(x, y, shapes, &result.shape, |a, b| float_binary(binary, a, b)))
        }
        _ => {
            let (x, y) = (inputs[0].integers(), inputs[1].integers());
            Buffer::Integer(zip(&x, &y, shapes, &result.shape, |a, b| {
                let (a, b) = (i64::from(a), i64::from(b));
                if matches!(binary, Binary::ShiftLeft | Binary::ShiftRight) {
                    return shifted(binary, result.dtype, a, b);
                }
                match u32::try_from(b) {
                    // Wrapping keeps the low bits of a power of any size.
                    Ok(b) if binary == Binary::Pow => wrapped(result.dtype, a.wrapping_pow(b)),
                    _ => wrapped(result.dtype, integer_binary(binary, a, b)),
                }
            }))
        }
    }
}

/// Applies `f` to pairs of elements with broadcasting.
fn zip<T: Copy, R>(x: &[T], y: &[T], shapes: [&[usize]; 2], to: &[usize], f: impl Fn(T, T) -> R) -> Vec<R> {
    let mut out = Vec::with_capacity(crate::graph::elements(to));
    if shapes[0] == shapes[1] {
        out.extend(x.iter().zip(y).map(|(&a, &b)| f(a, b)));
        return out;
    }
    let (sx, sy) = (broadcast_strides(shapes[0], to), broadcast_strides(shapes[1], to));
    let count = to.last().copied().unwrap_or(1);
    let (dx, dy) = (sx.last().copied().unwrap_or(0), sy.last().copied().unwrap_or(0));
    rows(to, [&sx, &sy], |[a, b]| out.extend((0..count).map(|i| f(x[a + i * dx], y[b + i * dy]))));
    out
}

pub(super) fn float_binary(binary: Binary, a: f32, b: f32) -> f32 {
    match binary {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        // NaN in either operand is the result.
        Binary::Max => {
            if a > b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Binary::Min => {
            if a < b || a.is_nan() {
                a
            } else {
                b
            }
        }
        Binary::Pow => a.powf(b),
        // A quotient just below a whole number rounds to it in fp32.
        Binary::FloorDiv => (f64::from(a) / f64::from(b)).floor() as f32,
        Binary::Mod => {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        }
        _ => compare(binary, a, b).into(),
    }
}

/// Shift by `b` bits up or down within an element type.
fn shifted(binary: Binary, dtype: DType, a: i64, b: i64) -> i32 {
    let inside = (0..8 * dtype.bytes() as i64).contains(&b);
    match binary {
        Binary::ShiftLeft if inside && dtype == DType::I32 => (a << b) as i32,
        Binary::ShiftLeft if inside => wrapped(dtype, a << b),
        Binary::ShiftLeft => 0,
        _ if inside => (a >> b) as i32,
        _ => -i32::from(a < 0),
    }
}

pub(super) fn integer_binary(binary: Binary, a: i64, b: i64) -> i64 {
    match binary {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::Pow => (a as f64).powf(b as f64) as i64,
        Binary::Div | Binary::FloorDiv | Binary::Mod if b == 0 => 0,
        Binary::Div => a / b,
        Binary::FloorDiv => a / b - i64::from(a % b != 0 && (a < 0) != (b < 0)),
        Binary::Mod => {
            let r = a % b;
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
        Binary::BitAnd => a & b,
        Binary::BitOr => a | b,
        Binary::BitXor => a ^ b,
        _ => compare(binary, a, b).into(),
    }
}

fn compare<T: PartialOrd>(binary: Binary, a: T, b: T) -> bool {
    match binary {
        Binary::NotEqual => a != b,
        Binary::Less => a < b,
        Binary::LessEqual => a <= b,
        Binary::Greater => a > b,
        Binary::GreaterEqual => a >= b,
        _ => a == b,
    }
}

pub(super) fn select(inputs: &[View], result: &TensorType) -> Buffer {
    let condition = inputs[0].integers();
    let shapes = [inputs[0].shape(), inputs[1].shape(), inputs[2].shape()];
    match (inputs[1].buffer, inputs[2].buffer) {
        (Buffer::Float(x), Buffer::Float(y)) => Buffer::Float(choose(&condition, x, y, shapes, &result.shape)),
        _ => Buffer::Integer(choose(&condition, &inputs[1].integers(), &inputs[2].integers(), shapes, &result.shape)),
    }
}

fn choose<T: Copy>(condition: &[i32], x: &[T], y: &[T], shapes: [&[usize]; 3], to: &[usize]) -> Vec<T> {
    let [sc, sx, sy] = shapes.map(|shape| broadcast_strides(shape, to));
    let [dc, dx, dy] = [&sc, &sx, &sy].map(|s| s.last().copied().unwrap_or(0));
    let count = to.last().copied().unwrap_or(1);
    let mut out = Vec::with_capacity(crate::graph::elements(to));
    rows(to, [&sc, &sx, &sy], |[c, a, b]| {
        out.extend((0..count).map(|i| if condition[c + i * dc] != 0 { x[a + i * dx] } else { y[b + i * dy] }));
    });
    out
}

pub(super) fn cast(x: View, dtype: DType) -> Buffer {
    if dtype == DType::Bool {
        return Buffer::Integer(match x.buffer {
            Buffer::Float(data) => data.iter().map(|&x| (x != 0.0).into()).collect(),
            Buffer::Integer(data) => data.iter().map(|&x| (x != 0).into()).collect(),
        });
    }
    if dtype.is_float() {
        return Buffer::Float(x.floats().into_owned());
    }
    if let Buffer::Integer(data) = x.buffer {
        return Buffer::Integer(data.iter().map(|&x| wrapped(dtype, x.into())).collect());
    }
    let (least, most) = range(dtype);
    Buffer::Integer(x.integers().iter().map(|&x| i64::from(x).clamp(least, most) as i32).collect())
}
