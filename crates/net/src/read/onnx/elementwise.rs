//! Elementwise operators, casts, matrix products.

use super::element;
use super::node::Node;
use crate::error::Error;
use crate::graph::{DType, ValueId};
use crate::ops::unary::Row;
use crate::ops::{Binary, GeluMode, OpKind, Unary};

/// Translates the operator if it belongs to this group; returns false otherwise.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if let Some(unary) = unary(n) {
        let x = n.need(0)?;
        let id = n.build().unary(unary, x)?;
        return n.done(id);
    }
    if let Some(binary) = binary(n.op()) {
        return fold(n, binary);
    }
    match n.op() {
        "Identity" => {
            let x = n.need(0)?;
            let id = n.build().unary(Unary::Identity, x)?;
            n.done(id)
        }
        "Dropout" => dropout(n),
        "Not" => {
            let x = n.need(0)?;
            let no = n.build().mask([], vec![false]);
            let id = n.build().binary(Binary::Equal, x, no)?;
            n.done(id)
        }
        "Mean" => {
            let count = n.inputs.len() as f32;
            let sum = folded(n, Binary::Add)?;
            let id = n.build().with(Binary::Div, sum, count)?;
            n.done(id)
        }
        "Mod" => modulo(n),
        "Where" => {
            let (c, x, y) = (n.need(0)?, n.need(1)?, n.need(2)?);
            let id = n.build().select(c, x, y)?;
            n.done(id)
        }
        "Clip" => clip(n),
        "PRelu" => {
            let (x, slope) = (n.need(0)?, n.need(1)?);
            if let Some(alpha) = n.t.build.data(slope).and_then(|data| one_value(&data.data.to_f32())) {
                let id = n.build().unary(Unary::LeakyRelu { alpha }, x)?;
                return n.done(id);
            }
            let id = n.build().prelu(x, slope)?;
            n.done(id)
        }
        "Cast" | "CastLike" => cast(n),
        "IsNaN" => {
            let x = n.need(0)?;
            let id = n.build().binary(Binary::NotEqual, x, x)?;
            n.done(id)
        }
        "IsInf" => is_infinite(n),
        "Selu" | "Celu" | "ThresholdedRelu" | "HardSwish" | "Mish" | "Swish" | "Shrink" | "Asinh" | "Acosh" => {
            composed(n)
        }
        "SwiGLU" => {
            let (x, y) = (n.need(0)?, n.need(1)?);
            let alpha = n.float("alpha", 1.0);
            let scaled = n.build().with(Binary::Mul, x, alpha)?;
            let gate = n.build().unary(Unary::Sigmoid, scaled)?;
            let bent = n.build().binary(Binary::Mul, x, gate)?;
            let id = n.build().binary(Binary::Mul, bent, y)?;
            n.done(id)
        }
        "MatMul" => {
            let (x, y) = (n.need(0)?, n.need(1)?);
            let id = matmul(n, x, y)?;
            n.done(id)
        }
        "Gemm" => {
            let id = gemm(n)?;
            n.done(id)
        }
        "Einsum" => {
            let equation = n.text("equation").ok_or_else(|| n.missing("equation"))?;
            let operands: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
            let id = n.build().einsum(&equation, &operands)?;
            n.done(id)
        }
        _ => Ok(false),
    }
}

fn dropout(n: &mut Node) -> Result<bool, Error> {
    // A dropout ratio of zero drops nothing.
    let training = n.integers(2, "training_mode")?.is_some_and(|v| v.first() == Some(&1));
    let dropped = n.constant(1, "ratio")?.and_then(|t| t.data.to_f32().first().copied()).unwrap_or(0.5);
    if training && dropped != 0.0 {
        return Err(n.unsupported("training drops elements at random: export the model for inference"));
    }
    let x = n.need(0)?;
    let id = n.build().unary(Unary::Identity, x)?;
    n.output(0, id);
    if n.node.output.get(1).is_some_and(|o| !o.is_empty()) {
        let shape = n.shape(x);
        let ones = vec![true; crate::graph::elements(&shape)];
        let mask = n.build().mask(shape, ones);
        n.output(1, mask);
    }
    n.finish(2)
}

fn is_infinite(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let (positive, negative) = (n.flag("detect_positive", true), n.flag("detect_negative", true));
    let looked = match (positive, negative) {
        (true, true) => n.build().unary(Unary::Abs, x)?,
        (false, true) => n.build().unary(Unary::Neg, x)?,
        _ => x,
    };
    let limit = if positive || negative { f32::INFINITY } else { f32::NAN };
    let limit = n.build().scalar(limit, x);
    let id = n.build().binary(Binary::Equal, looked, limit)?;
    n.done(id)
}

fn unary(n: &Node) -> Option<Unary> {
    if n.op() == "Gelu" {
        let tanh = n.text("approximate").as_deref() == Some("tanh");
        return Some(Unary::Gelu(if tanh { GeluMode::Tanh } else { GeluMode::Exact }));
    }
    let row = Row::of_onnx(n.op())?;
    row.make(|param| Some(n.float(param.name, param.onnx_default)).ok_or(())).ok()
}

fn binary(op: &str) -> Option<Binary> {
    Some(match op {
        "Add" | "Sum" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "Pow" => Binary::Pow,
        "Max" | "Or" => Binary::Max,
        "Min" | "And" => Binary::Min,
        "Xor" => Binary::NotEqual,
        "Equal" => Binary::Equal,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessEqual,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterEqual,
        _ => return None,
    })
}

fn folded(n: &mut Node, binary: Binary) -> Result<ValueId, Error> {
    let mut operands: Vec<ValueId> = n.inputs.iter().copied().flatten().collect();
    if operands.is_empty() {
        return Err(n.missing("an operand"));
    }
    let first = operands.remove(0);
    operands.into_iter().try_fold(first, |sum, mut y| {
        // The exponent may have its own type; integer types may also differ because they were converted to one here.
        if n.dtype(y) != n.dtype(sum) {
            let dtype = n.dtype(sum);
            if binary != Binary::Pow && n.dtype(y).is_float() != dtype.is_float() {
                let found = n.dtype(y);
                return Err(n.unsupported(format!(
                    "operands of {dtype} and {found}, which have one type in the standard. Convert one of them with Cast"
                )));
            }
            y = n.build().cast(y, dtype)?;
        }
        n.build().binary(binary, sum, y)
    })
}

fn fold(n: &mut Node, binary: Binary) -> Result<bool, Error> {
    let (x, exponent) = (n.need(0)?, n.input(1));
    // An integer to a fractional power is computed in floats.
    if binary == Binary::Pow && n.dtype(x).is_integer() && exponent.is_some_and(|e| n.dtype(e).is_float()) {
        let (dtype, exponent) = (n.dtype(x), n.need(1)?);
        let x = n.build().cast(x, DType::F32)?;
        let power = n.build().binary(Binary::Pow, x, exponent)?;
        let id = n.build().cast(power, dtype)?;
        return n.done(id);
    }
    let id = if n.inputs.len() == 1 { n.build().unary(Unary::Identity, x)? } else { folded(n, binary)? };
    n.done(id)
}

/// Remainder with the sign of the divisor, or (`fmod`) of the dividend.
fn modulo(n: &mut Node) -> Result<bool, Error> {
    let (x, y) = (n.need(0)?, n.need(1)?);
    if !n.flag("fmod", false) {
        let id = n.build().binary(Binary::Mod, x, y)?;
        return n.done(id);
    }
    let (a, b) = (n.build().unary(Unary::Abs, x)?, n.build().unary(Unary::Abs, y)?);
    let rest = n.build().binary(Binary::Mod, a, b)?;
    let sign = n.build().unary(Unary::Sign, x)?;
    let id = n.build().binary(Binary::Mul, rest, sign)?;
    n.done(id)
}

/// The finite number that all elements are; `None` if they differ.
fn one_value(all: &[f32]) -> Option<f32> {
    let (&first, rest) = all.split_first()?;
    (first.is_finite() && rest.iter().all(|&a| a == first)).then_some(first)
}

fn clip(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let bound = |n: &Node, name: &str, index: usize, none: f32| -> Option<f32> {
        match (n.attribute(name), n.input(index)) {
            (Some(a), _) => Some(a.f),
            (None, None) => Some(none),
            (None, Some(id)) => n.t.build.data(id).and_then(|t| t.data.to_f32().first().copied()),
        }
    };
    let least = bound(n, "min", 1, f32::NEG_INFINITY);
    let most = bound(n, "max", 2, f32::INFINITY);
    let id = match (least, most) {
        // Floats do not represent every integer beyond 2^24.
        (Some(min), Some(max)) if n.dtype(x).is_float() => n.build().unary(Unary::Clip { min, max }, x)?,
        _ => {
            let mut id = x;
            if let Some(least) = n.input(1) {
                id = n.build().binary(Binary::Max, id, least)?;
            }
            if let Some(most) = n.input(2) {
                id = n.build().binary(Binary::Min, id, most)?;
            }
            if id == x { n.build().unary(Unary::Identity, x)? } else { id }
        }
    };
    n.done(id)
}

fn cast(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let mut found = None;
    let dtype = if n.op() == "CastLike" {
        n.dtype(n.need(1)?)
    } else {
        let number = n.int("to", 0);
        found = i32::try_from(number).ok().and_then(element).filter(|e| e.bits() >= 8);
        if found == Some(crate::stored::Element::BFloat16) {
            return Err(n.unsupported("bfloat16 is held as float32, which would not round"));
        }
        let dtype = found.and_then(|e| e.dtype());
        dtype.ok_or_else(|| n.unsupported(format!("element type {number}")))?
    };
    let id = if dtype == n.dtype(x) { n.build().unary(Unary::Identity, x)? } else { n.build().cast(x, dtype)? };
    if n.op() == "Cast"
        && let Some(element) = found
    {
        n.t.note_element(id, element);
        if matches!(element, crate::stored::Element::Float32 | crate::stored::Element::Float16) {
            n.build().narrowed(id);
        }
    }
    n.done(id)
}

fn composed(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let op = n.op();
    let (alpha, gamma) = (n.float("alpha", 1.0), n.float("gamma", 1.050_700_9));
    let (bias, lambda) = (n.float("bias", 0.0), n.float("lambd", 0.5));
    let selu = n.float("alpha", 1.673_263_2);
    let b = n.build();
    let id = match op {
        "Selu" => {
            let elu = b.unary(Unary::Elu { alpha: selu }, x)?;
            b.with(Binary::Mul, elu, gamma)?
        }
        "Celu" => {
            // alpha (exp(x / alpha) - 1) below zero: ELU of x / alpha, times alpha.
            let scaled = b.with(Binary::Div, x, alpha)?;
            let elu = b.unary(Unary::Elu { alpha: 1.0 }, scaled)?;
            b.with(Binary::Mul, elu, alpha)?
        }
        "ThresholdedRelu" => {
            let (limit, zero) = (b.scalar(alpha, x), b.scalar(0.0, x));
            let passes = b.binary(Binary::Greater, x, limit)?;
            b.select(passes, x, zero)?
        }
        "HardSwish" => {
            let gate = b.unary(Unary::SigmoidHard { alpha: 1.0 / 6.0, beta: 0.5 }, x)?;
            b.binary(Binary::Mul, x, gate)?
        }
        "Mish" => {
            let soft = b.unary(Unary::Softplus, x)?;
            let gate = b.unary(Unary::Tanh, soft)?;
            b.binary(Binary::Mul, x, gate)?
        }
        "Swish" => {
            let scaled = b.with(Binary::Mul, x, alpha)?;
            let gate = b.unary(Unary::Sigmoid, scaled)?;
            b.binary(Binary::Mul, x, gate)?
        }
        "Shrink" => {
            let (low, high, zero) = (b.scalar(-lambda, x), b.scalar(lambda, x), b.scalar(0.0, x));
            let (raised, lowered) = (b.with(Binary::Add, x, bias)?, b.with(Binary::Sub, x, bias)?);
            let (below, above) = (b.binary(Binary::Less, x, low)?, b.binary(Binary::Greater, x, high)?);
            let rest = b.select(above, lowered, zero)?;
            b.select(below, raised, rest)?
        }
        // sign(x) ln(|x| + sqrt(x² + 1)) and ln(x + sqrt(x² - 1)).
        "Asinh" => {
            let size = b.unary(Unary::Abs, x)?;
            let square = b.unary(Unary::Square, x)?;
            let more = b.with(Binary::Add, square, 1.0)?;
            let root = b.unary(Unary::Sqrt, more)?;
            let sum = b.binary(Binary::Add, size, root)?;
            let ln = b.unary(Unary::Log { epsilon: 0.0 }, sum)?;
            let sign = b.unary(Unary::Sign, x)?;
            b.binary(Binary::Mul, sign, ln)?
        }
        _ => {
            let square = b.unary(Unary::Square, x)?;
            let less = b.with(Binary::Sub, square, 1.0)?;
            let root = b.unary(Unary::Sqrt, less)?;
            let sum = b.binary(Binary::Add, x, root)?;
            b.unary(Unary::Log { epsilon: 0.0 }, sum)?
        }
    };
    n.done(id)
}

/// Matrix product with numpy's rules: vectors are rows on the left and columns on the right.
pub fn matmul(n: &mut Node, x: ValueId, y: ValueId) -> Result<ValueId, Error> {
    let (sx, sy) = (n.shape(x), n.shape(y));
    let (left, right) = (sx.len() == 1, sy.len() == 1);
    let x = if left { n.build().reshape(x, [1, sx[0]])? } else { x };
    let y = if right { n.build().reshape(y, [sy[0], 1])? } else { y };
    let product = n.build().matmul(x, y, false)?;
    let mut shape = n.shape(product);
    if right {
        shape.pop();
    }
    if left {
        shape.remove(shape.len() - 1 - usize::from(!right));
    }
    n.build().reshape(product, shape)
}

/// `alpha x y + beta c`.
pub(super) fn gemm(n: &mut Node) -> Result<ValueId, Error> {
    let (x, y) = (n.need(0)?, n.need(1)?);
    let kind = OpKind::MatMul { transpose_x: n.flag("transA", false), transpose_y: n.flag("transB", false) };
    let (alpha, beta) = (n.float("alpha", 1.0), n.float("beta", 1.0));
    let mut id = n.build().op("product", kind, &[x, y])?;
    if alpha != 1.0 {
        id = n.build().with(Binary::Mul, id, alpha)?;
    }
    if let Some(mut c) = n.input(2) {
        if beta != 1.0 {
            c = n.build().with(Binary::Mul, c, beta)?;
        }
        id = n.build().binary(Binary::Add, id, c)?;
    }
    Ok(id)
}
