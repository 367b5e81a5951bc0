//! Softmax and layer normalization, built of tables and planar tasks as Apple's compiler builds them.

use super::Lowerer;
use super::reduce::{merge, one_row};
use crate::anec::*;
use crate::error::Result;
use crate::lut::Table;
use anemone_net::{ReduceKind, Unary, ValueId};
use std::f32::consts::LOG2_E;
use std::sync::Arc;

fn table(table: Table) -> Nonlinear {
    Nonlinear::Table(Arc::new(table))
}

/// Differences go to the exponential in base 2.
const BASE2: Affine = Affine { scale: LOG2_E, ..Affine::UNIT };

impl Lowerer<'_> {
    /// Exponentials of differences to the maximum, times the reciprocal of their sum.
    pub(super) fn softmax(&mut self, axis: usize, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        if self.options.modern() && self.softmax_of_channels(axis, &from, &to) {
            return Ok(());
        }
        let mut shape = from.shape();
        shape[axis] = 1;
        let max = self.scratch("max", &shape);
        self.reduce_into(ReduceKind::Max, &[axis], &from, &max)?;
        let difference = self.scratch("difference", &from.shape());
        self.planar_two(PlanarOp::Sub, BASE2, &from, &max, &difference)?;
        let exp = self.scratch("exp", &from.shape());
        let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: table(Table::exp2()) };
        self.elementwise(kind, &difference, &exp)?;
        let inverse = self.scratch("inverse", &shape);
        if axis == shape.len() - 1 {
            self.reduce_columns(PoolOp::Sum, Affine::UNIT, false, true, &[axis], &exp, &inverse)?;
        } else if self.options.modern() {
            self.sum_channels(axis, &exp, &inverse, table(Table::reciprocal()))?;
        } else {
            let sum = self.scratch("sum", &shape);
            self.reduce_into(ReduceKind::Sum, &[axis], &exp, &sum)?;
            self.unary_into(Unary::Inverse { epsilon: 0.0 }, &sum, &inverse)?;
        }
        if self.options.modern() {
            return self.planar_two(PlanarOp::Mul, Affine::UNIT, &inverse, &exp, &to);
        }
        self.planar_two(PlanarOp::Mul, Affine::UNIT, &exp, &inverse, &to)
    }

    /// Sums one leading axis on the neural engine without coefficients, then applies a function.
    fn sum_channels(&mut self, axis: usize, from: &View, to: &View, nonlinear: Nonlinear) -> Result<()> {
        let channels = from.lead[axis];
        for pair in self.plane_blocks(axis, from, to)? {
            let put = |v: View4, c: Axis| View4 { axes: [v.axes[0], c, v.axes[2]], ..v };
            let result = put(pair[1], Axis { extent: 1, stride_bytes: 0 });
            let kind = Kind::SumChannels { nonlinear: nonlinear.clone() };
            self.push(kind, vec![put(pair[0], channels)], vec![[false; 3]], result, false);
        }
        Ok(())
    }

    /// Where nothing but the channels has an extent, the exponential works on a row of them.
    fn softmax_of_channels(&mut self, axis: usize, from: &View, to: &View) -> bool {
        let (Some(x), Some(y)) = (from.nchw(), to.nchw()) else { return false };
        let alone = axis + 3 == from.lead.len() + 1 && x.groups() == 1 && x.height() == 1 && x.width == 1;
        if !alone || x.channels() == 1 {
            return false;
        }
        let (plain, repeated) = ([false; 3], [true, false, false]);
        let scratch = |lowerer: &mut Self, suffix: &str, shape: [usize; 3]| lowerer.scratch(suffix, &shape).nchw();
        let n = x.channels();
        let made = (
            scratch(self, "max", [1, 1, 1]),
            scratch(self, "difference", [1, 1, n]),
            scratch(self, "exp", [n, 1, 1]),
            scratch(self, "inverse", [1, 1, 1]),
        );
        let (Some(max), Some(row), Some(exp), Some(inverse)) = made else { return false };
        self.push(Kind::MaxChannels, vec![x], vec![plain], max, false);
        let difference = Kind::Planar { op: PlanarOp::Sub, affine: BASE2, relu: false };
        self.push(difference, vec![x, max], vec![plain, repeated], row, true);
        let exponential = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: table(Table::exp2()) };
        self.push(exponential, vec![row], vec![plain], exp, true);
        let sum = Kind::SumChannels { nonlinear: table(Table::reciprocal()) };
        self.push(sum, vec![exp], vec![plain], inverse, false);
        let product = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(product, vec![inverse, exp], vec![repeated, plain], y, false);
        true
    }

    /// `(x - mean) / sqrt(variance + epsilon)` over the last axes: the mean, the deviation's reciprocal, and both
    /// applied, a task each.
    pub(super) fn layer_norm(&mut self, axes: &[usize], epsilon: f32, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        let (rank, first) = (from.lead.len(), axes.first().copied().unwrap_or(from.lead.len()));
        // The mean and the reciprocal deviation of each sum stand in two rows.
        let mut shape = from.shape()[..first].to_vec();
        shape.extend([2, 1]);
        let pairs = self.scratch("statistics", &shape);
        let (Some(rows_from), Some(rows_to)) = (merge(&from.lead[first..rank]), merge(&to.lead[first..rank])) else {
            return Err(self.unsupported("normalized axes that lie apart", "copy the operand first"));
        };
        self.limit("normalized height", rows_from.extent, self.chip.hal.max_tensor_height)?;
        let rest = |v: &View| View { lead: v.lead[..first].to_vec(), width: 1, ..v.clone() };
        let one = Axis { extent: 1, stride_bytes: 0 };
        let pair_rows = pairs.lead[first];
        let natural = (from.nchw(), to.nchw());
        let pieces = self.merged_blocks(&[&rest(&from), &rest(&to), &rest(&pairs)])?;
        for part in pieces.into_iter().flat_map(|p| one_row(p, self.max_groups())).collect::<Vec<_>>() {
            let put = |v: View4, rows: Axis, width: usize| View4 { axes: [v.axes[0], v.axes[1], rows], width, ..v };
            let source = put(part[0], rows_from, from.width);
            let result = put(part[1], rows_to, to.width);
            let mean = put(part[2], one, 1);
            let inverse = View4 { offset_bytes: mean.offset_bytes + pair_rows.stride_bytes, ..mean };
            let both = put(part[2], pair_rows, 1);
            let plain = [false; 3];
            let affine = Affine { final_scale: 1.0 / (rows_from.extent * from.width) as f32, ..Affine::UNIT };
            let sum = Kind::Reduce { op: PoolOp::Sum, abs: false, affine, reciprocal: false };
            self.push(sum, vec![source], vec![plain], mean, false);
            let over = [false, rows_from.extent > 1, from.width > 1];
            self.push(Kind::Deviation { epsilon }, vec![mean, source], vec![over, plain], inverse, false);
            let apply = Kind::ChannelAffine { subtract: true };
            match natural {
                // One pair for everything: the tensor's own channels share it.
                (Some(x), Some(y)) if source.groups() == 1 && source.channels() == 1 && x.groups() == 1 => {
                    let shared = [x.channels() > 1, false, false];
                    self.push(apply, vec![x, both], vec![plain, shared], y, false);
                }
                _ => self.push(apply, vec![source, both], vec![plain; 2], result, false),
            }
        }
        Ok(())
    }
}
