//! Lowering of layer normalization to tables and planar tasks, as in Apple's compiler.

use super::Lowerer;
use super::reduce::{merge, one_row};
use crate::error::Result;
use crate::ir::*;
use crate::rewrite::of_pixels;
use anemone_facts::staging::{FOLD, TURNED_CHANNELS};
use anemone_net::ValueId;
use anemone_program::order;

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
pub(super) fn columns_alone(view: View4, pieces: usize) -> View4 {
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
