//! Lowering of softmax and layer normalization to tables and planar tasks, as in Apple's compiler.

use super::Lowerer;
use super::reduce::{merge, one_row};
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use crate::rewrite::of_pixels;
use anemone_facts::staging::{FOLD, FOLDED_COLUMNS, TURNED_CHANNELS};
use anemone_net::{ReduceKind, Unary, ValueId};
use anemone_program::order;
use std::f32::consts::LOG2_E;
use std::sync::Arc;

fn table(table: Table) -> Nonlinear {
    Nonlinear::Table(Arc::new(table))
}

/// Scales differences for the exponential to base 2.
const BASE2: Affine = Affine { scale: LOG2_E, ..Affine::UNIT };

/// Largest number of tasks of a transposed statistic: Apple's compiler uses four for 512 rows of a matrix, and no more.
const MOST_TURNED: usize = 4;

/// View of one batch element, with rows as channels if requested.
pub(super) fn planes(view: &View, by_rows: bool) -> Option<View4> {
    let view = view.nchw().filter(|v| v.groups() == 1)?;
    let [batch, channels, rows] = view.axes;
    Some(if by_rows { View4 { axes: [batch, rows, channels], ..view } } else { view })
}

/// A view for a reduction of its columns alone: rows as channels, or as groups beside channels, and the columns split
/// into pieces, one below another.
fn columns_alone(view: View4, pieces: usize) -> View4 {
    let [one, channels, rows] = view.axes;
    let width = view.width / pieces;
    let (groups, channels) = match (channels.extent, rows.extent) {
        (_, 1) => (one, channels),
        (1, _) => (one, rows),
        _ => (rows, channels),
    };
    // A single row has its own stride (`norm_softmax_an1_1x64x1x64`), rows that become channels that of the whole tensor.
    let stride_bytes = match pieces {
        1 if rows.extent == 1 && rows.stride_bytes > 0 => rows.stride_bytes,
        1 => channels.extent as u64 * channels.stride_bytes,
        _ => width as u64 * ELEMENT_BYTES,
    };
    View4 { axes: [groups, channels, Axis { extent: pieces, stride_bytes }], width, ..view }
}

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

    /// [`Lowerer::layer_norm`] over the axes from `first` on, with those before as channels: over columns, or rows and columns. The statistics
    /// are transposed, the means in one row and the reciprocal deviations in the next. Returns `false` unless the channels are a
    /// single axis, and the rows too.
    fn norm_of_rows(&mut self, first: usize, [epsilon, scale]: [f32; 2], from: &View, to: &View) -> bool {
        let one = |view: &View| View4 {
            buffer: view.buffer,
            offset_bytes: view.offset_bytes,
            axes: [Axis { extent: 1, stride_bytes: 0 }; 3],
            width: view.width,
        };
        let rows = |view: &View| {
            let (channels, normed) = view.lead.split_at(first);
            let mut whole = one(view);
            whole.axes[1] = merge(channels)?;
            whole.axes[2] = match normed {
                [] => Axis { extent: 1, stride_bytes: whole.axes[1].extent as u64 * whole.axes[1].stride_bytes },
                normed => merge(normed)?,
            };
            Some(whole)
        };
        let (Some(source), Some(result)) = (rows(from), rows(to)) else { return false };
        let (channels, height, width) = (source.channels(), source.height(), source.width);
        let limits = self.axis_limits();
        let wide = |n: usize| self.chip.hal.max_tensor_width.is_some_and(|most| n as u64 > most);
        // Two tasks per 192 rows; for more rows, three tasks with statistics that are not transposed are fewer.
        let stepwise = self.options.conventions().norms_by_group;
        let most = if self.options.conventions().whole_epilogues { 1 } else { MOST_TURNED };
        let many = channels.div_ceil(TURNED_CHANNELS) > most;
        let fits = channels <= limits[1] && height <= limits[2] && !wide(width.max(channels));
        if channels == 1 || width == 1 || !fits || many {
            return false;
        }
        // Parts of rows that are turned end at a multiple of eight (`layer_norm_1x375x1024`: not turned).
        let turned = channels <= TURNED_CHANNELS || channels.is_multiple_of(FOLD);
        let numbers = match turned {
            true => self.scratch("statistics", &[2, channels]),
            false => self.scratch("statistics", &[2, channels, 1]),
        };
        let (plain, each) = ([false; 3], [false, height > 1, true]);
        let chunk = |v: &View4, start: usize| {
            let mut v = *v;
            v.offset_bytes += start as u64 * v.axes[1].stride_bytes;
            v.axes[1].extent = TURNED_CHANNELS.min(channels - start);
            v
        };
        let number = |row: usize, start: usize| {
            let (whole, count) = (one(&numbers), TURNED_CHANNELS.min(channels - start));
            let offset_bytes = row as u64 * numbers.lead[0].stride_bytes;
            match numbers.lead.get(1) {
                None => View4 { offset_bytes: offset_bytes + start as u64 * ELEMENT_BYTES, width: count, ..whole },
                Some(&each) => View4 {
                    offset_bytes: offset_bytes + start as u64 * each.stride_bytes,
                    axes: [whole.axes[0], Axis { extent: count, ..each }, whole.axes[2]],
                    ..whole
                },
            }
        };
        let affine = Affine { final_scale: 1.0 / (height * width) as f32, ..Affine::UNIT };
        let starts: Vec<usize> = (0..channels).step_by(TURNED_CHANNELS).collect();
        for &start in starts.iter().rev() {
            let mean = Kind::Reduce { op: PoolOp::Sum, abs: false, affine, reciprocal: false };
            self.push(mean, vec![chunk(&source, start)], vec![plain], number(0, start), turned);
        }
        // Larger parts come first, in the order of their means (`layer_norm_1x375x1024`, `chain_lnproj_d512_s512`).
        let mut parts: Vec<usize> = starts.into_iter().rev().collect();
        if stepwise {
            order::by_key(&mut parts, |&start| std::cmp::Reverse(TURNED_CHANNELS.min(channels - start)));
        } else {
            parts.reverse();
        }
        for start in parts {
            let sources = vec![number(0, start), chunk(&source, start)];
            self.push(Kind::Deviation { epsilon, scale }, sources, vec![each, plain], number(1, start), turned);
            if turned {
                self.source_turned(0);
            }
        }
        let mut both = one(&numbers);
        both.axes[2] = numbers.lead[0];
        both.axes[1] = numbers.lead.get(1).copied().unwrap_or(both.axes[1]);
        self.push(Kind::ChannelAffine { subtract: true, scale }, vec![source, both], vec![plain; 2], result, false);
        if turned {
            self.source_turned(1);
        }
        true
    }

    /// [`Lowerer::layer_norm`] over the columns of channels and rows as 9.509 computes it (`norm_layer_norm_ax3_1x64x8x8`): means,
    /// differences, reciprocal deviations and the product of both, with the rows as groups of the reductions. Returns `false` unless
    /// there are several channels and rows.
    fn norm_of_columns(&mut self, epsilon: f32, from: &View, to: &View) -> Result<bool> {
        let (Some(source), Some(result)) = (planes(from, false), planes(to, false)) else { return Ok(false) };
        let (channels, height, width) = (source.channels(), source.height(), source.width);
        let limits = self.axis_limits();
        if channels == 1 || height == 1 || width == 1 || height > limits[0] || channels > limits[1] {
            return Ok(false);
        }
        let mut source = source;
        if self.graph.buffer(from.buffer).role != Role::Scratch {
            let operand = self.scratch("operand", &from.shape());
            self.copy(from, &operand)?;
            source = planes(&operand, false).unwrap_or(source);
        }
        let mut numbers = from.shape();
        numbers[from.lead.len()] = 1;
        let of_rows = |lowerer: &mut Self, suffix: &str| planes(&lowerer.scratch(suffix, &numbers), false);
        let (mean, inverse) = (of_rows(self, "mean"), of_rows(self, "deviation"));
        let centred = planes(&self.scratch("centred", &from.shape()), false);
        let (Some(mean), Some(inverse), Some(centred)) = (mean, inverse, centred) else { return Ok(false) };
        let (plain, each) = ([false; 3], [false, false, true]);
        let affine = Affine { final_scale: 1.0 / width as f32, ..Affine::UNIT };
        let sum = Kind::Reduce { op: PoolOp::Sum, abs: false, affine, reciprocal: false };
        self.push(sum, vec![columns_alone(source, 1)], vec![plain], columns_alone(mean, 1), false);
        let subtract = Kind::Planar { op: PlanarOp::Sub, affine: Affine::UNIT, relu: false };
        self.push(subtract, vec![source, mean], vec![plain, each], centred, false);
        let deviation = Kind::InverseRms { epsilon };
        self.push(deviation, vec![columns_alone(centred, 1)], vec![plain], columns_alone(inverse, 1), false);
        let multiply = Kind::Planar { op: PlanarOp::Mul, affine: Affine::UNIT, relu: false };
        self.push(multiply, vec![centred, inverse], vec![plain, each], result, false);
        Ok(true)
    }

    /// [`Lowerer::layer_norm`] over the channels alone of a tensor with one row and column, as 9.509 computes it
    /// (`norm_layer_norm_ax1_1x2048x1x1`): the planar engine transposes them to a row and back. Returns `false` for other tensors.
    fn norm_of_channels(&mut self, axes: &[usize], epsilon: f32, from: &View, to: &View) -> Result<bool> {
        let (Some(x), Some(y), &[axis]) = (from.nchw(), to.nchw(), axes) else { return Ok(false) };
        let (channels, all) = (x.channels(), from.elements());
        let wide = self.chip.hal.max_tensor_width.is_some_and(|most| channels as u64 > most);
        if axis == from.lead.len() || channels == 1 || all != channels || from.shape()[axis] != channels || wide {
            return Ok(false);
        }
        let [row, normed] = ["row", "normed"].map(|suffix| self.scratch(suffix, &[1, channels]));
        let (Some(turned), Some(back)) = (row.nchw(), normed.nchw()) else { return Ok(false) };
        let copy =
            || Kind::Pool { op: PoolOp::Sum, window: Window::UNIT, abs: false, affine: Affine::UNIT, relu: false };
        self.push(copy(), vec![x], vec![[false; 3]], turned, true);
        self.norm_of_planes(1, [epsilon, 1.0], &row, &normed)?;
        // The two numbers are read turned, as those of several rows are.
        self.source_turned(1);
        self.push(copy(), vec![back], vec![[false; 3]], y, false);
        self.source_turned(0);
        Ok(true)
    }

    /// [`Lowerer::layer_norm`] over the channels of rows and columns as 9.509 computes it (`norm_layer_norm_ax1_1x64x8x8`): means and reciprocal
    /// deviations are sums of channels that were transposed to columns. Returns `false` for other tensors.
    fn norm_of_pixels(&mut self, axis: usize, epsilon: f32, from: &View, to: &View) -> Result<bool> {
        let mut shape = from.shape();
        let channels = std::mem::replace(&mut shape[axis], 1);
        let affine = Affine { final_scale: 1.0 / channels as f32, ..Affine::UNIT };
        let mean = self.scratch("mean", &shape);
        let sum = Kind::Reduce { op: PoolOp::Sum, abs: false, affine, reciprocal: false };
        if !self.turned_reduction(sum, axis, from, &mean)? {
            return Ok(false);
        }
        let centred = self.scratch("centred", &from.shape());
        self.planar_two(PlanarOp::Sub, Affine::UNIT, from, &mean, &centred)?;
        let inverse = self.scratch("deviation", &shape);
        if !self.turned_reduction(Kind::InverseRms { epsilon }, axis, &centred, &inverse)? {
            return Ok(false);
        }
        self.planar_two(PlanarOp::Mul, Affine::UNIT, &centred, &inverse, to)?;
        Ok(true)
    }

    /// `(x - mean) / sqrt(variance + epsilon)` over the last axes, as three tasks: the mean, the reciprocal deviation, and the application
    /// of both.
    pub(super) fn layer_norm(&mut self, axes: &[usize], epsilon: f32, x: ValueId, out: ValueId) -> Result<()> {
        let (mut from, to) = (self.view(x)?, self.result(out));
        let numbers @ [epsilon, _] = self.addend_and_scale(epsilon, x);
        let (rank, first) = (from.lead.len(), axes.first().copied().unwrap_or(from.lead.len()));
        let stepwise = self.options.conventions().norms_by_group;
        if stepwise && self.norm_of_channels(axes, epsilon, &from, &to)? {
            return Ok(());
        }
        if let &[axis] = axes
            && stepwise
            && of_pixels(&from.shape(), axis)
            && self.norm_of_pixels(axis, epsilon, &from, &to)?
        {
            return Ok(());
        }
        if first == rank && stepwise && self.norm_of_columns(epsilon, &from, &to)? {
            return Ok(());
        }
        // Rows are normed with their columns if channels are left (`norm_layer_norm_ax2_3_1x32x4x4`).
        let of_rows = first == rank || stepwise && first + 1 == rank;
        if of_rows && self.norm_of_rows(first, numbers, &from, &to) {
            return Ok(());
        }
        // Normalized axes are the rows of a task: if they are not contiguous, the tensor is copied first or last.
        if merge(&from.lead[first..rank]).is_none() {
            let operand = self.scratch("operand", &from.shape());
            self.copy(&from, &operand)?;
            from = operand;
        }
        if merge(&to.lead[first..rank]).is_none() {
            let normed = self.scratch("normed", &to.shape());
            self.norm_of_planes(first, numbers, &from, &normed)?;
            return self.copy(&normed, &to);
        }
        self.norm_of_planes(first, numbers, &from, &to)
    }

    /// A normalization over the axes from `first` on.
    fn norm_of_planes(&mut self, first: usize, [epsilon, scale]: [f32; 2], from: &View, to: &View) -> Result<()> {
        let rank = from.lead.len();
        // Mean and reciprocal deviation of each sum are in two rows.
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
        let pieces = self.merged_blocks(&[&rest(from), &rest(to), &rest(&pairs)])?;
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
            self.push(Kind::Deviation { epsilon, scale }, vec![mean, source], vec![over, plain], inverse, false);
            let apply = Kind::ChannelAffine { subtract: true, scale };
            match natural {
                // A single pair for everything is shared by the tensor's own channels.
                (Some(x), Some(y)) if source.groups() == 1 && source.channels() == 1 && x.groups() == 1 => {
                    // A single channel that is normed too shares it (`norm_layer_norm_ax1_2_3_1x1x1x512`).
                    let normed = self.options.conventions().norms_by_group && first + 2 <= rank;
                    let shared = [x.channels() > 1 || normed, false, false];
                    self.push(apply, vec![x, both], vec![plain, shared], y, false);
                }
                _ => self.push(apply, vec![source, both], vec![plain; 2], result, false),
            }
        }
        Ok(())
    }
}
