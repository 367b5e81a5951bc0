//! Operations as the steps that their bounds are made of.

use anemone_net::*;

/// A network that computes an operation step by step, on operands of these extents; `None` where it is one step.
pub fn parts(kind: &OpKind, operands: &[Vec<usize>]) -> Option<Net> {
    let mut parts = Parts { net: Net { name: "parts".into(), ..Net::default() } };
    let ids: Vec<ValueId> = operands.iter().map(|shape| parts.input(shape)).collect();
    let (x, rank) = (ids[0], operands[0].len());
    let out = match kind {
        OpKind::LayerNorm { axes, epsilon } => parts.norm(&ids, axes, *epsilon, axes),
        OpKind::InstanceNorm { epsilon } => parts.norm(&ids, &(2..rank).collect::<Vec<_>>(), *epsilon, &[1]),
        OpKind::BatchNorm { epsilon } => {
            let [mean, variance] = [1, 2].map(|i| parts.wide(ids[i], &operands[0], &[1]));
            let centred = parts.op(OpKind::Binary(Binary::Sub), &[x, mean]);
            let inverse = parts.op(OpKind::Unary(Unary::Rsqrt { epsilon: *epsilon }), &[variance]);
            parts.affine(centred, inverse, &ids[3..], &operands[0], &[1])
        }
        OpKind::Reduce { kind: ReduceKind::L2, axes, keep_dims } => {
            let sum = parts.reduce(ReduceKind::SumSquare, x, axes, *keep_dims);
            parts.op(OpKind::Unary(Unary::Sqrt), &[sum])
        }
        OpKind::Reduce { kind: ReduceKind::LogSum, axes, keep_dims } => {
            let sum = parts.reduce(ReduceKind::Sum, x, axes, *keep_dims);
            parts.op(OpKind::Unary(Unary::Log { epsilon: 0.0 }), &[sum])
        }
        OpKind::Reduce { kind: ReduceKind::LogSumExp, axes, keep_dims } => {
            let most = parts.reduce(ReduceKind::Max, x, axes, true);
            let below = parts.op(OpKind::Binary(Binary::Sub), &[x, most]);
            let powers = parts.op(OpKind::Unary(Unary::Exp), &[below]);
            let sum = parts.reduce(ReduceKind::Sum, powers, axes, true);
            let logarithm = parts.op(OpKind::Unary(Unary::Log { epsilon: 0.0 }), &[sum]);
            let both = parts.op(OpKind::Binary(Binary::Add), &[logarithm, most]);
            if *keep_dims { both } else { parts.reduce(ReduceKind::Max, both, axes, false) }
        }
        _ => return None,
    };
    parts.net.outputs.push(out);
    Some(parts.net)
}

struct Parts {
    net: Net,
}

impl Parts {
    fn input(&mut self, shape: &[usize]) -> ValueId {
        let name = format!("x{}", self.net.inputs.len());
        let ty = TensorType { dtype: DType::F32, shape: shape.to_vec() };
        let id = self.net.add_value(Value { name, ty, data: None, surface: None });
        self.net.inputs.push(id);
        id
    }

    fn declared(&mut self, kind: OpKind, operands: &[ValueId], shape: Option<Vec<usize>>) -> ValueId {
        let types: Vec<&TensorType> = operands.iter().map(|&id| &self.net.value(id).ty).collect();
        let declared = shape.map(|shape| TensorType { dtype: DType::F32, shape });
        let ty = infer::infer(&kind, &types, declared.as_ref()).expect("parts fit").remove(0);
        let name = format!("y{}", self.net.ops.len());
        let out = self.net.add_value(Value { name: name.clone(), ty, data: None, surface: None });
        self.net.ops.push(Op { name, kind, inputs: operands.to_vec(), outputs: vec![out] });
        out
    }

    fn op(&mut self, kind: OpKind, operands: &[ValueId]) -> ValueId {
        self.declared(kind, operands, None)
    }

    fn reduce(&mut self, kind: ReduceKind, x: ValueId, axes: &[usize], keep_dims: bool) -> ValueId {
        self.op(OpKind::Reduce { kind, axes: axes.to_vec(), keep_dims }, &[x])
    }

    /// A parameter with the axes that it has in `x`.
    fn wide(&mut self, parameter: ValueId, x: &[usize], axes: &[usize]) -> ValueId {
        let shape = (0..x.len()).map(|axis| if axes.contains(&axis) { x[axis] } else { 1 }).collect();
        self.declared(OpKind::Reshape, &[parameter], Some(shape))
    }

    fn norm(&mut self, ids: &[ValueId], axes: &[usize], epsilon: f32, own: &[usize]) -> ValueId {
        let shape = self.net.value(ids[0]).ty.shape.clone();
        let mean = self.reduce(ReduceKind::Mean, ids[0], axes, true);
        let centred = self.op(OpKind::Binary(Binary::Sub), &[ids[0], mean]);
        let square = self.op(OpKind::Unary(Unary::Square), &[centred]);
        let variance = self.reduce(ReduceKind::Mean, square, axes, true);
        let inverse = self.op(OpKind::Unary(Unary::Rsqrt { epsilon }), &[variance]);
        self.affine(centred, inverse, &ids[1..], &shape, own)
    }

    fn affine(
        &mut self,
        centred: ValueId,
        inverse: ValueId,
        affine: &[ValueId],
        x: &[usize],
        own: &[usize],
    ) -> ValueId {
        let mut out = self.op(OpKind::Binary(Binary::Mul), &[centred, inverse]);
        for (f, &parameter) in [Binary::Mul, Binary::Add].into_iter().zip(affine) {
            let parameter = self.wide(parameter, x, own);
            out = self.op(OpKind::Binary(f), &[out, parameter]);
        }
        out
    }
}
