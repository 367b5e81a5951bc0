//! Emulation of 8-bit integer arithmetic in fp16, which does not wrap: sums and products wrap, conversions from floats and reductions
//! saturate, as in the evaluator. Ours; the engine computes in fp16 only.

use super::{Builder, rewrite, wrapped};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::remarks::Remarks;
use anemone_net::{Binary, DType, Net, Op, OpKind, ReduceKind, ScatterMode, Tensor, TensorType, Unary, Value, ValueId};
use std::sync::Arc;

/// Number of values of an 8-bit type.
const RANGE: f32 = 256.0;
/// Base of the digits that a byte is split into; products of digits are exact.
const HALF: f32 = 16.0;
/// Largest constant exponent: each step takes another product.
const MOST_EXPONENT: f32 = 8.0;

/// Makes operations on 8-bit integers wrap and saturate.
pub fn wrap_narrow(net: &mut Net, _: &Options, reasons: &mut Remarks) -> Result<()> {
    wrapped::drop_wrapped_places(net, reasons);
    rewrite(net, reasons, |builder, op| {
        let ty = &builder.net.value(op.outputs[0]).ty;
        let from = builder.net.value(op.inputs[0]).ty.dtype;
        if op.kind == OpKind::Cast && matches!((from, ty.dtype), (DType::U16, DType::I16) | (DType::I16, DType::U16)) {
            return Err(beyond(op, "a reinterpretation of the sign of 16-bit integers"));
        }
        match range(ty.dtype) {
            Some(range) if builder.narrow(op, range)? => {}
            _ => builder.ops.push(op.clone()),
        }
        Ok(())
    })
}

/// Least and greatest value of an 8-bit type.
fn range(dtype: DType) -> Option<[f32; 2]> {
    match dtype {
        DType::I8 => Some([-128.0, 127.0]),
        DType::U8 => Some([0.0, 255.0]),
        _ => None,
    }
}

impl Builder<'_> {
    /// Rewrites an operation whose result has an 8-bit type; returns `false` if it cannot leave the type's range.
    fn narrow(&mut self, op: &Op, range: [f32; 2]) -> Result<bool> {
        let out = op.outputs[0];
        let from = self.net.value(op.inputs[0]).ty.dtype;
        let signed = range[0] < 0.0;
        match op.kind {
            OpKind::Binary(f @ (Binary::Add | Binary::Sub)) => {
                let [x, y] = [0, 1].map(|i| self.as_float(op.inputs[i]));
                let sum = self.result_of(out, OpKind::Binary(f), &[x, y]);
                self.wrapped(sum, range, out);
            }
            // Only the least number divided by -1 leaves the range.
            OpKind::Binary(Binary::Div | Binary::FloorDiv) if signed => {
                let quotient = self.typed("quotient", op.kind.clone(), &op.inputs, DType::I8, out);
                let quotient = self.as_float(quotient);
                self.wrapped(quotient, range, out);
            }
            OpKind::Binary(Binary::Mul) => {
                let product = self.product_of_bytes(op.inputs[0], op.inputs[1], out);
                self.wrapped(product, range, out);
            }
            OpKind::Unary(Unary::Square) => {
                let product = self.product_of_bytes(op.inputs[0], op.inputs[0], out);
                self.wrapped(product, range, out);
            }
            OpKind::Binary(Binary::Pow) => self.power_of_bytes(op, range)?,
            OpKind::Unary(f @ (Unary::Neg | Unary::Abs)) if signed || f == Unary::Neg => {
                let x = self.as_float(op.inputs[0]);
                let value = self.result_of(out, OpKind::Unary(f), &[x]);
                self.wrapped(value, range, out);
            }
            OpKind::Cast if from.is_float() => {
                let clipped = self.typed("clip", clip(range), &op.inputs, from, out);
                self.push(OpKind::Cast, &[clipped], out);
            }
            // Narrower types, and the same one, fit.
            OpKind::Cast if !matches!(from, DType::Bool) && from != self.net.value(out).ty.dtype => {
                let x = self.as_float(op.inputs[0]);
                self.wrapped(x, range, out);
            }
            OpKind::Reduce { kind: ReduceKind::Sum | ReduceKind::SumSquare | ReduceKind::L1, .. } => {
                let x = self.as_float(op.inputs[0]);
                let sum = self.result_of(out, op.kind.clone(), &[x]);
                let clipped = self.result_of(out, clip(range), &[sum]);
                self.push(OpKind::Cast, &[clipped], out);
            }
            OpKind::Reduce { kind: ReduceKind::Prod, .. } => {
                return Err(beyond(op, "a product of 8-bit integers along axes"));
            }
            OpKind::ScatterAlong { mode, .. } | OpKind::ScatterNd { mode } => match mode {
                ScatterMode::Update | ScatterMode::Max | ScatterMode::Min => return Ok(false),
                ScatterMode::Add | ScatterMode::Sub => {
                    let [x, updates] = [0, 2].map(|i| self.as_float(op.inputs[i]));
                    let sums = self.result_of(out, op.kind.clone(), &[x, op.inputs[1], updates]);
                    self.wrapped(sums, range, out);
                }
                ScatterMode::Mul | ScatterMode::Div => {
                    return Err(beyond(op, "products of 8-bit integers at positions"));
                }
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The numbers of an operand as floats; the conversion costs nothing.
    fn as_float(&mut self, x: ValueId) -> ValueId {
        let shape = self.net.value(x).ty.shape.clone();
        self.op("wide", OpKind::Cast, &[x], shape)
    }

    /// Appends a float operation with the extents of `like`.
    fn result_of(&mut self, like: ValueId, kind: OpKind, inputs: &[ValueId]) -> ValueId {
        let shape = self.net.value(like).ty.shape.clone();
        self.op(kind.name(), kind, inputs, shape)
    }

    /// As [`Builder::result_of`], with another element type.
    fn typed(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId], dtype: DType, like: ValueId) -> ValueId {
        let ty = TensorType { dtype, shape: self.net.value(like).ty.shape.clone() };
        let name = self.fresh(suffix);
        let output = self.net.add_value(Value { name, ty, data: None, surface: None });
        self.push(kind, inputs, output);
        output
    }

    fn times_number(&mut self, x: ValueId, factor: f32) -> ValueId {
        let number = self.number(factor);
        self.result_of(x, OpKind::Binary(Binary::Mul), &[x, number])
    }

    fn number(&mut self, number: f32) -> ValueId {
        let data = anemone_net::Data::from_f32(DType::F16, &[number]);
        self.constant_of("number", Tensor { shape: vec![1], data })
    }

    /// Quotient and remainder of an integer by `step`: `floor((x - first) / step)`, and a remainder in `first .. first +
    /// step`.
    fn divided(&mut self, x: ValueId, step: f32, first: f32) -> (ValueId, ValueId) {
        let from = match first == 0.0 {
            true => x,
            false => {
                let first = self.number(-first);
                self.result_of(x, OpKind::Binary(Binary::Add), &[x, first])
            }
        };
        let share = self.times_number(from, 1.0 / step);
        let count = self.result_of(x, OpKind::Unary(Unary::Floor), &[share]);
        let multiple = self.times_number(count, step);
        (count, self.result_of(x, OpKind::Binary(Binary::Sub), &[x, multiple]))
    }

    /// Makes the number within the range that is congruent modulo 256 the result.
    fn wrapped(&mut self, x: ValueId, [least, _]: [f32; 2], out: ValueId) {
        let (_, rest) = self.divided(x, RANGE, least);
        self.push(OpKind::Cast, &[rest], out);
    }

    /// A number below 2048 congruent modulo 256 to the product of two bytes, computed from their digits, whose products are
    /// exact: `16 a + b` times `16 c + d` is congruent to `16 (a d + b c) + b d`.
    fn product_of_bytes(&mut self, x: ValueId, y: ValueId, like: ValueId) -> ValueId {
        let [(a, b), (c, d)] = [x, y].map(|operand| {
            let operand = self.as_float(operand);
            let (_, byte) = self.divided(operand, RANGE, 0.0);
            self.divided(byte, HALF, 0.0)
        });
        let [ad, bc, bd] = [(a, d), (b, c), (b, d)].map(|(p, q)| {
            // Either factor may have fewer elements, by broadcasting.
            self.result_of(like, OpKind::Binary(Binary::Mul), &[p, q])
        });
        let cross = self.result_of(like, OpKind::Binary(Binary::Add), &[ad, bc]);
        let (_, cross) = self.divided(cross, HALF, 0.0);
        let high = self.times_number(cross, HALF);
        self.result_of(like, OpKind::Binary(Binary::Add), &[high, bd])
    }

    fn power_of_bytes(&mut self, op: &Op, range: [f32; 2]) -> Result<()> {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let exponents: Option<Arc<Tensor>> = self.net.value(op.inputs[1]).data.clone();
        let exponents = exponents.map(|t| t.data.to_f32()).unwrap_or_default();
        let exponent = exponents.first().copied().unwrap_or(f32::NAN);
        let same =
            self.net.value(x).ty.shape == self.net.value(out).ty.shape && exponents.iter().all(|&e| e == exponent);
        if !(same && (1.0..=MOST_EXPONENT).contains(&exponent)) {
            let what =
                format!("a power of 8-bit integers with an exponent that is no constant from 1 to {MOST_EXPONENT}");
            return Err(beyond(op, &what));
        }
        let mut power = self.as_float(x);
        for _ in 1..exponent as usize {
            let product = self.product_of_bytes(power, x, out);
            power = self.divided(product, RANGE, 0.0).1;
        }
        self.wrapped(power, range, out);
        Ok(())
    }
}

/// Error for an operation whose results cannot be wrapped to the integer range.
fn beyond(op: &Op, what: &str) -> Error {
    Error::Unsupported {
        op: op.name.clone(),
        kind: op.kind.name().into(),
        reason: format!("{what}: fp16 does not keep the digits that determine the wrapped value"),
        suggestion: "convert to 32-bit integers, or to fp16, before it",
    }
}

fn clip([min, max]: [f32; 2]) -> OpKind {
    OpKind::Unary(Unary::Clip { min, max })
}
