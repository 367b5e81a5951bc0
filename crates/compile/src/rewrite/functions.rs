//! Decomposition of functions without a table into functions with one.

use super::Builder;
use anemone_net::{Binary, Op, OpKind, Unary, ValueId};
use std::f32::consts::{FRAC_PI_2, LOG2_E};

impl Builder<'_> {
    /// Decomposes a function into others; returns `false` if it has a table or a lowering of its own.
    pub(super) fn function(&mut self, op: &Op, f: Unary) -> bool {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let shape = self.shape(out);
        match f {
            Unary::Tan => {
                let [sine, cosine] = [Unary::Sin, Unary::Cos].map(|f| self.apply(f.name(), f, x, &shape));
                self.push(OpKind::Binary(Binary::Div), &[sine, cosine], out);
            }
            Unary::Sinh | Unary::Cosh => {
                // The exponentials are halved, so that they overflow no sooner than the result.
                let power = self.with("power", Binary::Mul, x, LOG2_E, &shape);
                let minus = self.apply("minus", Unary::Neg, power, &shape);
                let [up, down] = [power, minus].map(|power| {
                    let halved = self.with("halved", Binary::Add, power, -1.0, &shape);
                    self.apply("half", Unary::Exp2, halved, &shape)
                });
                let how = if f == Unary::Sinh { Binary::Sub } else { Binary::Add };
                self.push(OpKind::Binary(how), &[up, down], out);
            }
            Unary::Asin => {
                let angle = self.arc_sine(x, &shape);
                self.push(OpKind::Unary(Unary::Identity), &[angle], out);
            }
            Unary::Acos => {
                let angle = self.arc_sine(x, &shape);
                let minus = self.apply("minus", Unary::Neg, angle, &shape);
                self.last(Binary::Add, minus, FRAC_PI_2, out);
            }
            Unary::Atanh => {
                // ln((1 + x) / (1 - x)) / 2, undefined where 1 - x^2 has no root.
                let x = self.clipped(x, &shape);
                let (more, minus) =
                    (self.with("more", Binary::Add, x, 1.0, &shape), self.apply("minus", Unary::Neg, x, &shape));
                let less = self.with("less", Binary::Add, minus, 1.0, &shape);
                let [up, down] = [more, less].map(|v| self.apply("log", Unary::Log { epsilon: 0.0 }, v, &shape));
                let difference = self.op("difference", OpKind::Binary(Binary::Sub), &[up, down], shape.clone());
                let half = self.with("half", Binary::Mul, difference, 0.5, &shape);
                let product = self.op("product", OpKind::Binary(Binary::Mul), &[more, less], shape.clone());
                let root = self.with("root", Binary::Pow, product, 0.5, &shape);
                let defined = self.with("defined", Binary::Mul, root, 0.0, &shape);
                self.push(OpKind::Binary(Binary::Add), &[half, defined], out);
            }
            _ => return false,
        }
        true
    }

    fn apply(&mut self, suffix: &str, f: Unary, x: ValueId, shape: &[usize]) -> ValueId {
        self.op(suffix, OpKind::Unary(f), &[x], shape.to_vec())
    }

    fn with(&mut self, suffix: &str, f: Binary, x: ValueId, number: f32, shape: &[usize]) -> ValueId {
        let number = self.constant("number", vec![1], vec![number]);
        self.op(suffix, OpKind::Binary(f), &[x, number], shape.to_vec())
    }

    fn last(&mut self, f: Binary, x: ValueId, number: f32, out: ValueId) {
        let number = self.constant("number", vec![1], vec![number]);
        self.push(OpKind::Binary(f), &[x, number], out);
    }

    /// Clamps to -2..2: numbers beyond 1 stay beyond 1, and their squares are finite.
    fn clipped(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        self.apply("clipped", Unary::Clip { min: -2.0, max: 2.0 }, x, shape)
    }

    /// `atan(x / sqrt(1 - x^2))`; the power is undefined where the root is.
    fn arc_sine(&mut self, x: ValueId, shape: &[usize]) -> ValueId {
        let x = self.clipped(x, shape);
        let square = self.apply("square", Unary::Square, x, shape);
        let minus = self.apply("minus", Unary::Neg, square, shape);
        let rest = self.with("rest", Binary::Add, minus, 1.0, shape);
        let inverse = self.with("inverse", Binary::Pow, rest, -0.5, shape);
        let ratio = self.op("ratio", OpKind::Binary(Binary::Mul), &[x, inverse], shape.to_vec());
        self.apply("angle", Unary::Atan, ratio, shape)
    }
}
