//! Lowering of softmax to tables and planar tasks, as in Apple's compiler.

use super::Lowerer;
use super::norm::{columns_alone, planes};
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use anemone_facts::staging::{FOLDED_COLUMNS, TURNED_CHANNELS};
use anemone_net::{ReduceKind, Unary, ValueId};
use std::f32::consts::LOG2_E;
use std::sync::Arc;

fn table(table: Table) -> Nonlinear {
    Nonlinear::Table(Arc::new(table))
}

/// Scales differences for the exponential to base 2.
const BASE2: Affine = Affine { scale: LOG2_E, ..Affine::UNIT };

impl Lowerer<'_> {
    /// Exponentials of the differences to the maximum, times the reciprocal of their sum.
    pub(super) fn softmax(&mut self, axis: usize, x: ValueId, out: ValueId) -> Result<()> {
        let (mut from, mut to, mut axis) = (self.view(x)?, self.result(out), axis);
        // Rows are the channels of a softmax over rows, and channels its rows (`norm_softmax_a2_1x64x8x8`).
        let channels = from.lead.len().checked_sub(2).map_or(1, |at| from.lead[at].extent);
        let swapped = self.options.conventions().maxima_of_channels && axis + 1 == from.lead.len() && channels > 1;
        if swapped {
            from.lead.swap(axis - 1, axis);
            to.lead.swap(axis - 1, axis);
            axis -= 1;
        }
        if self.options.conventions().softmax_fused
            && (self.softmax_of_channels(axis, &from, &to)
                || self.softmax_of_elements(axis, &from, &to)
                || axis == from.lead.len() && self.softmax_of_columns(x, &from, &to)?)
        {
            return Ok(());
        }
        let mut shape = from.shape();
        shape[axis] = 1;
        // One element is the largest of its axis (`norm_softmax_a1_1x1x1x128`: four tasks).
        let max = if from.shape() == shape { from.clone() } else { self.scratch("max", &shape) };
        if max.buffer != from.buffer {
            self.reduce_into(ReduceKind::Max, &[axis], &from, &max)?;
        }
        let difference = self.scratch("difference", &from.shape());
        let first = self.graph.layers.len();
        self.planar_two(PlanarOp::Sub, BASE2, &from, &max, &difference)?;
        self.repeat_element(first, 1, &from, axis);
        let exp = self.scratch("exp", &from.shape());
        let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: table(Table::exp2()) };
        self.elementwise(kind, &difference, &exp)?;
        let inverse = self.scratch("inverse", &shape);
        if axis == shape.len() - 1 {
            self.reduce_columns(PoolOp::Sum, Affine::UNIT, false, true, &[axis], &exp, &inverse)?;
        } else if self.options.conventions().softmax_sums_on_neural {
            self.sum_channels(axis, &exp, &inverse, table(Table::reciprocal()))?;
        } else {
            let sum = self.scratch("sum", &shape);
            self.reduce_into(ReduceKind::Sum, &[axis], &exp, &sum)?;
            self.unary_into(Unary::Inverse { epsilon: 0.0 }, &sum, &inverse)?;
        }
        let (mut inverse, mut exp) = (inverse, exp);
        if swapped {
            // The product has rows and channels as they are.
            [&mut inverse, &mut exp, &mut to].into_iter().for_each(|view| view.lead.swap(axis, axis + 1));
        }
        if self.options.conventions().softmax_inverse_first {
            let first = self.graph.layers.len();
            self.planar_two(PlanarOp::Mul, Affine::UNIT, &inverse, &exp, &to)?;
            self.repeat_element(first, 0, &from, axis);
            return Ok(());
        }
        self.planar_two(PlanarOp::Mul, Affine::UNIT, &exp, &inverse, &to)
    }

    /// Marks an operand of the layers from `first` on as repeated along the channels of one element over which a softmax is taken
    /// (`norm_softmax_a1_1x1x1x128`).
    fn repeat_element(&mut self, first: usize, operand: usize, from: &View, axis: usize) {
        let one = axis + 2 == from.lead.len() && from.lead[axis].extent == 1;
        if one && self.options.conventions().norms_by_group {
            for layer in &mut self.graph.layers[first..] {
                layer.broadcast[operand][0] = true;
            }
        }
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

    /// Softmax over channels of a tensor whose other axes have extent 1: the exponential is computed for a row of them. Returns
    /// false for other tensors.
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

    /// Softmax over the single column of channels as 9.509 computes it (`norm_softmax_an1_1x256x1x1`): as any other softmax, with the
    /// exponential of a row, as over channels. Returns false for other tensors.
    fn softmax_of_elements(&mut self, axis: usize, from: &View, to: &View) -> bool {
        let (Some(x), Some(y)) = (from.nchw(), to.nchw()) else { return false };
        let n = x.channels();
        let alone = axis == from.lead.len() && x.groups() == 1 && x.height() == 1 && x.width == 1 && n > 1;
        let wide = self.chip.hal.max_tensor_width.is_some_and(|most| n as u64 > most);
        if !alone || wide || !self.options.conventions().norms_by_group {
            return false;
        }
        // Few numbers stay in rows (`norm_softmax_a3_1x64x1x1`).
        let rows = n <= TURNED_CHANNELS;
        let number = if rows { [1, 1, n] } else { [n, 1, 1] };
        let scratch = |lowerer: &mut Self, suffix: &str, shape: [usize; 3]| lowerer.scratch(suffix, &shape).nchw();
        let made = (
            scratch(self, "max", number),
            scratch(self, "difference", [1, 1, n]),
            scratch(self, "exp", number),
            scratch(self, "inverse", number),
        );
        let (Some(max), Some(row), Some(exp), Some(inverse)) = made else { return false };
        let (plain, each) = ([false; 3], [false, false, true]);
        let reduce = |op, reciprocal| Kind::Reduce { op, abs: false, affine: Affine::UNIT, reciprocal };
        let turn = |lowerer: &mut Self, sources: &[usize]| {
            sources.iter().filter(|_| rows).for_each(|&source| lowerer.source_turned(source));
        };
        self.push(reduce(PoolOp::Max, false), vec![x], vec![plain], max, rows);
        let difference = Kind::Planar { op: PlanarOp::Sub, affine: BASE2, relu: false };
        self.push(difference, vec![x, max], vec![plain, each], row, true);
        turn(self, &[1]);
        let exponential = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: table(Table::exp2()) };
        self.push(exponential, vec![row], vec![plain], exp, !rows);
        self.push(reduce(PoolOp::Sum, true), vec![exp], vec![plain], inverse, rows);
        turn(self, &[0]);
        let product = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(product, vec![inverse, exp], vec![each, plain], y, false);
        turn(self, &[0, 1]);
        true
    }

    /// Softmax over columns: rows become channels, or groups beside channels. Returns false if the tensor exceeds one
    /// task.
    fn softmax_of_columns(&mut self, x: ValueId, from: &View, to: &View) -> Result<bool> {
        let by_rows = self.by_rows.contains(&x);
        let (Some(mut source), Some(result)) = (planes(from, by_rows), planes(to, by_rows)) else { return Ok(false) };
        let (channels, height, width) = (source.channels(), source.height(), source.width);
        let limits = self.axis_limits();
        let fits = channels.max(height) <= limits[1]
            && height <= limits[2]
            && (channels == 1 || height <= limits[0])
            && self.chip.hal.max_tensor_width.is_none_or(|most| width as u64 <= most);
        // A single row is not reduced in pieces (`norm_softmax_an1_1x1x1x512`).
        let single = channels * height == 1;
        if !fits || width == 1 || single && !self.options.conventions().columns_folded {
            return Ok(false);
        }
        if height > 1 && self.graph.buffer(from.buffer).role != Role::Scratch {
            // Two tasks that read it with different views read it from tile memory.
            let operand = self.scratch("operand", &from.shape());
            self.copy(from, &operand)?;
            source = planes(&operand, by_rows).unwrap_or(source);
        }
        let plain = [false; 3];
        // One number per row: transposed if the rows are channels alone and few.
        let turned = height == 1 && channels <= TURNED_CHANNELS && !single;
        let mut numbers = from.shape();
        numbers[from.lead.len()] = 1;
        let number = |lowerer: &mut Self, suffix: &str| match turned {
            true => lowerer.scratch(suffix, &[1, channels]).nchw(),
            false => planes(&lowerer.scratch(suffix, &numbers), by_rows),
        };
        let (max, inverse) = (number(self, "max"), number(self, "inverse"));
        let mut own = |suffix: &str| planes(&self.scratch(suffix, &from.shape()), by_rows);
        let (difference, exp) = (own("difference"), own("exp"));
        let (Some(max), Some(inverse), Some(difference), Some(exp)) = (max, inverse, difference, exp) else {
            return Ok(false);
        };
        let folds = height > 1 && width.is_multiple_of(FOLDED_COLUMNS * (ROW_ALIGN / ELEMENT_BYTES) as usize);
        let pieces = if folds { FOLDED_COLUMNS } else { 1 };
        let reduce = |lowerer: &mut Self, op: PoolOp, reciprocal: bool, pieces: usize, from: View4, to: View4| {
            let kind = Kind::Reduce { op, abs: false, affine: Affine::UNIT, reciprocal };
            let to = if turned { to } else { columns_alone(to, 1) };
            lowerer.push(kind, vec![columns_alone(from, pieces)], vec![plain], to, turned);
        };
        let each = [false, false, true];
        reduce(self, PoolOp::Max, false, if self.products.contains(&x) { 1 } else { pieces }, source, max);
        let subtract = Kind::Planar { op: PlanarOp::Sub, affine: BASE2, relu: false };
        self.push(subtract, vec![source, max], vec![plain, each], difference, false);
        if turned {
            self.source_turned(1);
        }
        let exponential = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: table(Table::exp2()) };
        self.push(exponential, vec![difference], vec![plain], exp, false);
        reduce(self, PoolOp::Sum, true, pieces, exp, inverse);
        let multiply = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(multiply, vec![inverse, exp], vec![each, plain], result, false);
        if turned {
            self.source_turned(0);
        }
        Ok(true)
    }
}
