//! Softmax, built of tables and planar tasks as Apple's compiler builds it: exponentials of differences to the
//! maximum, in base 2, times the reciprocal of their sum.

use super::Lowerer;
use crate::anec::*;
use crate::error::Result;
use crate::lut::Table;
use anemone_net::{ReduceKind, Unary, ValueId};
use std::f32::consts::LOG2_E;
use std::sync::Arc;

impl Lowerer<'_> {
    pub(super) fn softmax(&mut self, axis: usize, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        let mut shape = from.shape();
        shape[axis] = 1;
        let max = self.scratch("max", &shape);
        self.reduce_into(ReduceKind::Max, &[axis], &from, &max)?;
        let difference = self.scratch("difference", &from.shape());
        let base2 = Affine { scale: LOG2_E, ..Affine::UNIT };
        self.planar_two(PlanarOp::Sub, base2, &from, &max, &difference)?;
        let exp = self.scratch("exp", &from.shape());
        let nonlinear = Nonlinear::Table(Arc::new(Table::exp2()));
        self.elementwise(Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear }, &difference, &exp)?;
        let inverse = self.scratch("inverse", &shape);
        if axis == shape.len() - 1 {
            self.reduce_columns(PoolOp::Sum, Affine::UNIT, false, true, &[axis], &exp, &inverse)?;
        } else {
            let sum = self.scratch("sum", &shape);
            self.reduce_into(ReduceKind::Sum, &[axis], &exp, &sum)?;
            self.unary_into(Unary::Inverse { epsilon: 0.0 }, &sum, &inverse)?;
        }
        self.planar_two(PlanarOp::Mul, Affine::UNIT, &exp, &inverse, &to)
    }
}
