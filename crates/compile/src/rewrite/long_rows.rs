//! Functions of rows that are longer than those of a task, as a head over the words of a language has them: reductions take such rows in pieces,
//! and functions of elements take any number of elements.

use super::magnitudes::array_ceiling;
use super::{Builder, norms};
use anemone_facts::chips::Chip;
use anemone_net::{Binary, DType, Op, OpKind, ReduceKind, TensorType, Unary, Value, ValueId};
use std::f32::consts::LN_2;

impl Builder<'_> {
    /// Decomposes a softmax, or the logarithm of a sum of exponentials, of a long row whose length has factors. Returns false for
    /// all others.
    pub(super) fn of_long_rows(&mut self, op: &Op, chip: &Chip) -> bool {
        let (x, out) = (op.inputs[0], op.outputs[0]);
        let shape = self.shape(x);
        let Some((&columns, rows)) = shape.split_last() else { return false };
        let axis = shape.len() - 1;
        let along = match &op.kind {
            OpKind::Softmax { axis: along } => *along == axis,
            OpKind::Reduce { kind: ReduceKind::LogSumExp, axes, .. } => *axes == [axis],
            _ => false,
        };
        let float = self.net.value(x).ty.dtype.is_float();
        if !along || !float || norms::fits(&[columns], &[0]) {
            return false;
        }
        let ones = [rows, &[1]].concat();
        let Some(stages) = self.stages(op, ReduceKind::Max, &[axis], chip) else { return false };
        let reduce = |builder: &mut Self, name: &str, kind: ReduceKind, x: ValueId| {
            let (name, ty) = (builder.fresh(name), TensorType { dtype: DType::F16, shape: ones.clone() });
            let out = builder.net.add_value(Value { name, ty, data: None, surface: None });
            let own = Op { inputs: vec![x], outputs: vec![out], ..op.clone() };
            builder.in_stages(&own, kind, &[axis], stages);
            out
        };
        let most = reduce(self, "max", ReduceKind::Max, x);
        let below = self.op("difference", OpKind::Binary(Binary::Sub), &[x, most], shape.clone());
        let powers = self.op("exp", OpKind::Unary(Unary::Exp), &[below], shape.clone());
        // The sum of as many ones as there are columns is at most half of that at which the arrays overflow.
        let halvings = (2.0 * columns as f32 / array_ceiling()).log2().ceil().max(0.0);
        let share = self.constant("share", Vec::new(), vec![(-halvings).exp2()]);
        let powers = self.op("scaled", OpKind::Binary(Binary::Mul), &[powers, share], shape.clone());
        let sum = reduce(self, "sum", ReduceKind::Sum, powers);
        if matches!(op.kind, OpKind::Softmax { .. }) {
            self.push(OpKind::Binary(Binary::Div), &[powers, sum], out);
            return true;
        }
        let scale = self.constant("scale", Vec::new(), vec![halvings * LN_2]);
        let log = self.op("log", OpKind::Unary(Unary::Log { epsilon: 0.0 }), &[sum], ones.clone());
        let log = self.op("unscaled", OpKind::Binary(Binary::Add), &[log, scale], ones.clone());
        let added = self.op("added", OpKind::Binary(Binary::Add), &[log, most], ones.clone());
        self.push(OpKind::Reshape, &[added], out);
        true
    }
}
