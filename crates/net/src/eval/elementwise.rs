//! Elementwise functions.

use super::{Buffer, View, broadcast_strides, range, rows};
use crate::graph::{DType, TensorType};
use crate::ops::{Binary, GeluMode, Unary};

pub(super) fn unary(unary: &Unary, x: View) -> Buffer {
    match x.buffer {
        Buffer::Float(data) => Buffer::Float(data.iter().map(|&x| float_unary(unary, x)).collect()),
        Buffer::Integer(data) => {
            let (least, most) = range(x.ty.dtype);
            Buffer::Integer(data.iter().map(|&x| integer_unary(unary, x.into()).clamp(least, most) as i32).collect())
        }
    }
}

fn float_unary(unary: &Unary, x: f32) -> f32 {
    match *unary {
        Unary::Identity => x,
        // `max` would turn NaN into zero.
        Unary::Relu => {
            if x < 0.0 {
                0.0
            } else {
                x
            }
        }
        Unary::Relu6 => x.clamp(0.0, 6.0),
        Unary::LeakyRelu { alpha } => {
            if x < 0.0 {
                alpha * x
            } else {
                x
            }
        }
        Unary::Elu { alpha } => {
            if x < 0.0 {
                alpha * x.exp_m1()
            } else {
                x
            }
        }
        Unary::Sigmoid => sigmoid(x),
        Unary::SigmoidHard { alpha, beta } => (alpha * x + beta).clamp(0.0, 1.0),
        Unary::Tanh => x.tanh(),
        Unary::ScaledTanh { alpha, beta } => alpha * (beta * x).tanh(),
        Unary::Gelu(GeluMode::Exact) => 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2)),
        Unary::Gelu(GeluMode::Tanh) => {
            let root = (2.0 / std::f32::consts::PI).sqrt();
            0.5 * x * (1.0 + (root * (x + 0.044715 * x * x * x)).tanh())
        }
        Unary::Gelu(GeluMode::Sigmoid) => x * sigmoid(1.702 * x),
        Unary::Silu => x * sigmoid(x),
        // ln(1 + e^x) without overflow of e^x.
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::Softsign => x / (1.0 + x.abs()),
        Unary::Erf => libm::erff(x),
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Log { epsilon } => (x + epsilon).ln(),
        Unary::Log2 => x.log2(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt { epsilon } => 1.0 / (x + epsilon).sqrt(),
        Unary::Inverse { epsilon } => 1.0 / (x + epsilon),
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Square => x * x,
        Unary::Sign => {
            if x == 0.0 {
                0.0
            } else {
                x.signum()
            }
        }
        Unary::Ceil => x.ceil(),
        Unary::Floor => x.floor(),
        Unary::Round => x.round_ties_even(),
        Unary::Clip { min, max } => clip(x, min, max),
        Unary::Threshold { alpha } => {
            if x < alpha {
                alpha
            } else {
                x
            }
        }
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Atanh => x.atanh(),
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// As `f32::clamp`, which panics where `min` is greater than `max`; the upper limit wins then.
fn clip(x: f32, min: f32, max: f32) -> f32 {
    let x = if x < min { min } else { x };
    if x > max { max } else { x }
}

fn integer_unary(unary: &Unary, x: i64) -> i64 {
    match *unary {
        Unary::Relu => x.max(0),
        Unary::Relu6 => x.clamp(0, 6),
        Unary::Abs => x.abs(),
        Unary::Neg => -x,
        Unary::Square => x * x,
        Unary::Sign => x.signum(),
        Unary::Clip { min, max } => x.max(min.ceil() as i64).min(max.floor() as i64),
        Unary::Threshold { alpha } => x.max(alpha.ceil() as i64),
        // Rounding does nothing; the type rules admit no other function.
        _ => x,
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
            let (least, most) = range(result.dtype);
            Buffer::Integer(zip(&x, &y, shapes, &result.shape, |a, b| {
                integer_binary(binary, a.into(), b.into()).clamp(least, most) as i32
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
        Binary::Max => {
            if a < b {
                b
            } else {
                a
            }
        }
        Binary::Min => {
            if a > b {
                b
            } else {
                a
            }
        }
        Binary::Pow => a.powf(b),
        Binary::FloorDiv => (a / b).floor(),
        Binary::Mod => {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
        }
        _ => compare(binary, a, b).into(),
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
    let (least, most) = range(dtype);
    Buffer::Integer(x.integers().iter().map(|&x| i64::from(x).clamp(least, most) as i32).collect())
}
