//! Lowering of reductions and pooling.
//!
//! The planar engine reduces rows and columns together; the neural engine reduces channels, as a convolution with equal
//! coefficients (sums) or in its maximum mode. Leading axes can be channels or rows, by their strides.

use super::Lowerer;
use super::transposed::folded;
use crate::error::Result;
use crate::ir::*;
use crate::lut::Table;
use crate::rewrite::{Limits, held_epsilon};
use anemone_net::{Op, PoolKind, ReduceKind, Unary, ValueId};
use std::sync::Arc;

impl Lowerer<'_> {
    pub(super) fn reduce(&mut self, kind: ReduceKind, axes: &[usize], x: ValueId, out: ValueId) -> Result<()> {
        let dtype = self.net.value(out).ty.dtype;
        if kind == ReduceKind::Mean && dtype.is_integer() {
            let count: usize = axes.iter().map(|&a| self.shape(x)[a]).product();
            // An eighth of a number below 256 is an fp16 number: nothing is rounded before the fraction is dropped.
            if dtype.narrow_range().is_none_or(|(_, most)| most > 255) || !count.is_power_of_two() || count > 8 {
                return Err(self.unsupported(
                    format!("a mean of {count} integers: fp16 rounds it before its fraction is dropped"),
                    "compute it on the host, or in floats",
                ));
            }
            return self.integer_mean(axes, x, out);
        }
        let to = self.result(out);
        self.reduce_to(kind, axes, x, &to)
    }

    /// A mean of integers drops its fraction, as their division does.
    fn integer_mean(&mut self, axes: &[usize], x: ValueId, out: ValueId) -> Result<()> {
        let to = self.result(out);
        let mean = self.scratch("mean", &to.shape());
        self.reduce_to(ReduceKind::Mean, axes, x, &mean)?;
        self.table(Table::truncate(), 0.0, 1.0, &mean, &to)
    }

    fn reduce_to(&mut self, kind: ReduceKind, axes: &[usize], x: ValueId, to: &View) -> Result<()> {
        let from = self.view(x)?;
        let mut kept = from.shape();
        for &axis in axes {
            kept[axis] = 1;
        }
        // The result with reduced axes kept, which the network's own result may have dropped.
        let direct = self.reshaped(to, &kept)?;
        let target = match &direct {
            Some(view) => view.clone(),
            None => self.scratch("kept", &kept),
        };
        match kind {
            ReduceKind::L2 => {
                let usual = self.magnitudes.get(x.0 as usize).map_or(1.0, |m| m.usual);
                self.euclidean(axes, scale_of_squares(usual), &from, &target)?;
            }
            _ => self.reduce_into(kind, axes, &from, &target)?,
        }
        if direct.is_none() {
            let shape = to.shape();
            match self.reshaped(&target, &shape)? {
                Some(view) => self.copy(&view, to)?,
                None => self.reshape_into(&target, to)?,
            }
        }
        Ok(())
    }

    /// Reduces `axes` of `from`; `to` has extent 1 there.
    pub(super) fn reduce_into(&mut self, kind: ReduceKind, axes: &[usize], from: &View, to: &View) -> Result<()> {
        let count: usize = axes.iter().map(|&a| from.shape()[a]).product();
        // The reduction of one element is the element (`reduce_probe_mean_ax1_1x1x1x512`).
        if count == 1 && matches!(kind, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max | ReduceKind::Min) {
            return self.copy(from, to);
        }
        let negated = Affine { pre_scale: -1.0, scale: -1.0, ..Affine::UNIT };
        let mean = Affine { final_scale: 1.0 / count as f32, ..Affine::UNIT };
        match kind {
            ReduceKind::Sum => self.reduce_axes(PoolOp::Sum, Affine::UNIT, false, axes, from, to),
            ReduceKind::Mean => self.reduce_axes(PoolOp::Sum, mean, false, axes, from, to),
            ReduceKind::L1 => self.reduce_axes(PoolOp::Sum, Affine::UNIT, true, axes, from, to),
            ReduceKind::Max => self.reduce_axes(PoolOp::Max, Affine::UNIT, false, axes, from, to),
            ReduceKind::Min => self.reduce_axes(PoolOp::Max, negated, false, axes, from, to),
            ReduceKind::SumSquare => {
                let square = self.scratch("square", &from.shape());
                self.unary_into(Unary::Square, from, &square)?;
                self.reduce_axes(PoolOp::Sum, Affine::UNIT, false, axes, &square, to)
            }
            ReduceKind::L2 => self.euclidean(axes, 1.0, from, to),
            ReduceKind::LogSum => {
                let sum = self.scratch("sum", &to.shape());
                self.reduce_into(ReduceKind::Sum, axes, from, &sum)?;
                self.unary_into(Unary::Log { epsilon: 0.0 }, &sum, to)
            }
            ReduceKind::LogSumExp => {
                let max = self.scratch("max", &to.shape());
                self.reduce_into(ReduceKind::Max, axes, from, &max)?;
                let difference = self.scratch("difference", &from.shape());
                self.planar_two(PlanarOp::Sub, Affine::UNIT, from, &max, &difference)?;
                let exp = self.scratch("exp", &from.shape());
                self.unary_into(Unary::Exp, &difference, &exp)?;
                let log = self.scratch("log", &to.shape());
                self.reduce_into(ReduceKind::LogSum, axes, &exp, &log)?;
                self.planar_two(PlanarOp::Add, Affine::UNIT, &log, &max, to)
            }
            ReduceKind::Prod => {
                Err(self.unsupported("products along an axis", "use the exponential of a sum of logarithms"))
            }
        }
    }

    /// The addend to the variance of elements, for elements times a scale, which is the second number: the addend of small variances has few
    /// digits in fp16.
    pub(super) fn addend_and_scale(&self, epsilon: f32, x: ValueId) -> [f32; 2] {
        let usual = match self.options.conventions().norms_by_group {
            true => 1.0,
            false => self.magnitudes.get(x.0 as usize).map_or(1.0, |m| m.usual),
        };
        // At most one.
        let most = epsilon.recip().sqrt().log2().floor().exp2();
        let scale = scale_of_squares(usual).min(most).max(1.0);
        [held_epsilon(epsilon * scale * scale), scale]
    }

    /// The Euclidean norm of elements times `scale`, divided by it: squares of small elements have few digits in fp16.
    fn euclidean(&mut self, axes: &[usize], scale: f32, from: &View, to: &View) -> Result<()> {
        let (root, scale) = match Table::sqrt().scaled(scale.recip(), 0.0) {
            Some(root) if scale != 1.0 => (root, scale),
            _ => (Table::sqrt(), 1.0),
        };
        let [square, sum] = [("square", from), ("sum", to)].map(|(name, view)| self.scratch(name, &view.shape()));
        let squared = Affine { final_scale: scale * scale, ..Affine::UNIT };
        self.planar_two(PlanarOp::Mul, squared, from, from, &square)?;
        self.reduce_axes(PoolOp::Sum, Affine::UNIT, false, axes, &square, &sum)?;
        self.table(root, 0.0, 1.0, &sum, to)
    }

    /// Columns (with neighbouring axes) by the planar engine, other axes by the neural engine.
    fn reduce_axes(
        &mut self,
        op: PoolOp,
        affine: Affine,
        abs: bool,
        axes: &[usize],
        from: &View,
        to: &View,
    ) -> Result<()> {
        let last = from.lead.len();
        let (columns, leading): (Vec<usize>, Vec<usize>) = {
            // The last axis and the reduced axes directly before it;
            // axes of one element in between do not separate them.
            let shape = from.shape();
            let mut run = last + 1;
            let conventions = self.options.conventions();
            let neural = op == PoolOp::Max && conventions.maxima_of_channels && !axes.contains(&last);
            while !neural
                && run > 0
                && (axes.contains(&(run - 1)) || shape[run - 1] == 1 && conventions.reductions_join_unit_axes)
            {
                run -= 1;
            }
            while run <= last && !axes.contains(&run) {
                run += 1;
            }
            axes.iter().partition(|&&a| a >= run)
        };
        if leading.is_empty() {
            return self.reduce_columns(op, affine, abs, false, &columns, from, to);
        }
        // Leading axes first, one after another; signs and addends of the result belong to the last step. A mean is one of means,
        // so that no intermediate sum is larger than the terms.
        let mut current = from.clone();
        let steps = leading.len() + usize::from(!columns.is_empty());
        let plain = Affine { final_scale: 1.0, scale: 1.0, bias: 0.0, ..affine };
        for (i, &axis) in leading.iter().enumerate() {
            let (first, is_last) = (i == 0, i + 1 == steps);
            let mut shape = current.shape();
            shape[axis] = 1;
            let result = if is_last { to.clone() } else { self.scratch("partial", &shape) };
            let mut step = if is_last { affine } else { plain };
            if !first {
                step.pre_scale = 1.0;
            }
            if affine.final_scale != 1.0 {
                step.final_scale = 1.0 / current.shape()[axis] as f32;
            }
            self.reduce_leading(op, step, abs && first, axis, &current, &result)?;
            current = result;
        }
        if columns.is_empty() {
            return Ok(());
        }
        let mut affine = Affine { pre_scale: 1.0, ..affine };
        if affine.final_scale != 1.0 {
            let shape = current.shape();
            affine.final_scale = 1.0 / columns.iter().map(|&a| shape[a]).product::<usize>() as f32;
        }
        self.reduce_columns(op, affine, false, false, &columns, &current, to)
    }

    /// Reduces the last axis, and `axes` just before it, on the planar engine.
    pub(super) fn reduce_columns(
        &mut self,
        op: PoolOp,
        affine: Affine,
        abs: bool,
        reciprocal: bool,
        axes: &[usize],
        from: &View,
        to: &View,
    ) -> Result<()> {
        self.reduce_columns_as(Kind::Reduce { op, abs, affine, reciprocal }, axes, from, to)
    }

    /// As [`Lowerer::reduce_columns`], by any layer that reduces.
    pub(super) fn reduce_columns_as(&mut self, kind: Kind, axes: &[usize], from: &View, to: &View) -> Result<()> {
        let last = from.lead.len();
        let first = axes.first().copied().unwrap_or(last);
        // The rows of the task: all reduced axes but the last, which must be contiguous.
        let rows = merge(&from.lead[first..last]);
        let Some(rows) = rows else {
            let packed = self.scratch("packed", &from.shape());
            self.copy(from, &packed)?;
            return self.reduce_columns_as(kind, axes, &packed, to);
        };
        self.limit("reduced height", rows.extent, self.chip.hal.max_tensor_height)?;
        let rest = |v: &View| View { lead: v.lead[..first].to_vec(), width: 1, ..v.clone() };
        let one = Axis { extent: 1, stride_bytes: 0 };
        if let Some([groups, channels]) = self.rows_as_groups(rows, [&from.lead[..first], &to.lead[..first]]) {
            // The stride of the single row is that of the whole tensor.
            let row = |c: Axis| Axis { extent: 1, stride_bytes: c.extent as u64 * c.stride_bytes };
            let put = |v: &View, i: usize, width: usize| View4 {
                buffer: v.buffer,
                offset_bytes: v.offset_bytes,
                axes: [groups[i], channels[i], row(channels[i])],
                width,
            };
            let (source, result) = (put(from, 0, from.width), put(to, 1, 1));
            self.push(kind, vec![source], vec![[false; 3]], result, false);
            return Ok(());
        }
        for parts in self.merged_blocks(&[&rest(from), &rest(to)])? {
            for pair in one_row(parts, self.max_groups()) {
                let mut source = View4 { axes: [pair[0].axes[0], pair[0].axes[1], rows], width: from.width, ..pair[0] };
                if self.options.conventions().maxima_of_channels && !axes.contains(&last) && source.channels() == 1 {
                    // The row of one element beside the channels is their plane.
                    source.axes[1].stride_bytes = rows.stride_bytes;
                }
                let source = if self.options.conventions().columns_folded { folded(source) } else { source };
                let result = View4 { axes: [pair[1].axes[0], pair[1].axes[1], one], width: 1, ..pair[1] };
                self.push(kind.clone(), vec![source], vec![[false; 3]], result, false);
            }
        }
        Ok(())
    }

    /// Views for a reduction of the columns alone of a tensor with channels and rows, as 9.509 reduces it
    /// (`reduce_probe_sum_ax3_1x64x8x8`): rows become groups. Groups and channels of operand and result, if possible.
    fn rows_as_groups(&self, reduced: Axis, leads: [&[Axis]; 2]) -> Option<[[Axis; 2]; 2]> {
        let split = |lead: &[Axis]| match lead {
            [outer @ .., c, h] if outer.iter().all(|a| a.extent == 1) => Some([*h, *c]),
            _ => None,
        };
        let (from, to) = (split(leads[0])?, split(leads[1])?);
        let groups = from[0].extent;
        let fits = self.options.conventions().reductions_by_group
            && reduced.extent == 1
            && (2..=self.max_groups()).contains(&groups);
        (fits && from[1].extent > 1).then(|| [0, 1].map(|i| [from[i], to[i]]))
    }

    /// Reduces one leading axis on the neural engine, as channels.
    fn reduce_leading(
        &mut self,
        op: PoolOp,
        affine: Affine,
        abs: bool,
        axis: usize,
        from: &View,
        to: &View,
    ) -> Result<()> {
        if self.options.conventions().sums_transposed && self.reduce_transposed(op, affine, abs, axis, from, to)? {
            return Ok(());
        }
        let mut from = from.clone();
        if abs || affine.pre_scale != 1.0 {
            let before = self.scratch("before", &from.shape());
            self.planar_one(&from, &before, Affine { pre_scale: affine.pre_scale, ..Affine::UNIT }, abs)?;
            from = before;
        }
        let channels = from.lead[axis];
        // Factor of a mean: the nearest power of two in the coefficients keeps the sum in range, the rest is exact in
        // the planar engine's fp32 scale.
        let power = affine.final_scale.log2().round().exp2();
        let after = Affine { pre_scale: 1.0, final_scale: affine.final_scale / power, ..affine };
        let scaled = op == PoolOp::Sum && affine.final_scale != 1.0;
        let coefficient = if scaled { power } else { 1.0 };
        let after = if op == PoolOp::Sum { after } else { Affine { pre_scale: 1.0, ..affine } };
        let target = if after == Affine::UNIT { to.clone() } else { self.scratch("sum", &to.shape()) };
        let kind = match op {
            PoolOp::Max => Kind::MaxChannels,
            PoolOp::Sum => Kind::Conv {
                window: Window::UNIT,
                connect: Connect::Unicast { per_output: channels.extent },
                weights: Arc::new(vec![coefficient; channels.extent].into()),
                bias: None,
                post_scale: 1.0,
                nonlinear: Nonlinear::None,
            },
        };
        for pair in self.plane_blocks(axis, &from, &target)? {
            let put = |v: View4, c: Axis| View4 { axes: [v.axes[0], c, v.axes[2]], ..v };
            let source = put(pair[0], channels);
            let result = put(pair[1], Axis { extent: 1, stride_bytes: 0 });
            self.push_groups(kind.clone(), source, result);
        }
        if after != Affine::UNIT {
            self.planar_one(&target, to, after, false)?;
        }
        Ok(())
    }

    /// Views without one leading axis, in pieces with a free channel axis for it.
    pub(super) fn plane_blocks(&self, axis: usize, from: &View, to: &View) -> Result<Vec<Vec<View4>>> {
        let rest = |v: &View| {
            let mut lead = v.lead.clone();
            lead.remove(axis);
            View { lead, ..v.clone() }
        };
        let blocks = self.merged_blocks(&[&rest(from), &rest(to)])?;
        Ok(blocks.into_iter().flat_map(|parts| one_plane(parts, self.max_groups())).collect())
    }

    pub(super) fn pool(
        &mut self,
        op: &Op,
        kind: PoolKind,
        kernel: &[usize],
        strides: &[usize],
        pads: &[(usize, usize)],
    ) -> Result<()> {
        if let PoolKind::Average { exclude_padding } = kind
            && !Limits::of(self.chip).pools(kernel, strides)
        {
            return self.mean_windows(op, kernel, strides, pads, exclude_padding);
        }
        let (from, to) = (self.view(op.inputs[0])?, self.result(op.outputs[0]));
        if kernel.len() > 2 {
            return Err(self.unsupported("windows over three axes", "pool twice"));
        }
        let missing = 2 - kernel.len();
        let axis =
            |i: usize, default: usize, of: &dyn Fn(usize) -> usize| if i < missing { default } else { of(i - missing) };
        let window = Window {
            kernel: [0, 1].map(|i| axis(i, 1, &|j| kernel[j])),
            stride: [0, 1].map(|i| axis(i, 1, &|j| strides[j])),
            pad: [0, 1].map(|i| axis(i, 0, &|j| pads[j].0)),
        };
        self.check_window(&window)?;
        let (source, result) = match (spatial(&from, missing), spatial(&to, missing)) {
            (Some(s), Some(r)) => (s, r),
            _ => return Err(self.unsupported("more than four axes", "reshape first")),
        };
        let area = window.kernel[0] * window.kernel[1];
        let mean = Affine { final_scale: 1.0 / area as f32, ..Affine::UNIT };
        let push = |lowerer: &mut Self, op: PoolOp, affine: Affine, source: View4, result: View4| {
            let kind = Kind::Pool { op, window, abs: false, affine, relu: false };
            lowerer.push(kind, vec![source], vec![[false; 3]], result, false);
        };
        match kind {
            PoolKind::Max => push(self, PoolOp::Max, Affine::UNIT, source, result),
            PoolKind::L2 => {
                let square = self.scratch("square", &from.shape());
                self.unary_into(Unary::Square, &from, &square)?;
                let sum = self.scratch("sum", &to.shape());
                let (Some(s), Some(r)) = (spatial(&square, missing), spatial(&sum, missing)) else { return Ok(()) };
                push(self, PoolOp::Sum, Affine::UNIT, s, r);
                self.unary_into(Unary::Sqrt, &sum, &to)?;
            }
            PoolKind::Average { exclude_padding } => {
                let factors = divisor_factors(&window, pads, missing, &source, &result, exclude_padding);
                if factors.iter().all(|&f| f == 1.0) {
                    push(self, PoolOp::Sum, mean, source, result);
                } else {
                    // Windows that extend into padding divide by fewer elements: corrected by a plane of factors.
                    let sums = self.scratch("mean", &to.shape());
                    let Some(s) = spatial(&sums, missing) else { return Ok(()) };
                    push(self, PoolOp::Sum, mean, source, s);
                    let name = format!("{}.factors", op.name);
                    let shape = if missing == 1 { vec![result.width] } else { vec![result.height(), result.width] };
                    let factors = self.constant_view(&name, &shape, &factors);
                    self.planar_two(PlanarOp::Mul, Affine::UNIT, &sums, &factors, &to)?;
                }
            }
        }
        Ok(())
    }
}

/// Usual size of elements below which their squares are scaled, so that they are normal fp16 numbers.
const SMALL: f32 = 1.0 / 64.0;

/// Usual size of scaled elements, as a power of two.
const SCALED_LOG2: f32 = -2.0;

/// Largest scale, as a power of two.
const MOST_SCALE_LOG2: f32 = 14.0;

/// Power of two by which elements of a usual size are multiplied before they are squared: squares overflow where an element is 2^10 times
/// larger than usual.
fn scale_of_squares(usual: f32) -> f32 {
    if usual > 0.0 && usual < SMALL { (SCALED_LOG2 - usual.log2().floor()).min(MOST_SCALE_LOG2).exp2() } else { 1.0 }
}

/// A pooled view as groups, channels, rows and columns; one-axis windows pool columns.
fn spatial(view: &View, missing: usize) -> Option<View4> {
    let mut view = view.clone();
    if missing == 1 {
        view.lead.push(Axis { extent: 1, stride_bytes: 0 });
    }
    view.nchw()
}

/// Window area over the number of elements that a mean divides by, for each output position.
fn divisor_factors(
    window: &Window,
    pads: &[(usize, usize)],
    missing: usize,
    from: &View4,
    to: &View4,
    exclude_padding: bool,
) -> Vec<f32> {
    let count = |axis: usize, o: usize| {
        let size = [from.height(), from.width][axis];
        let (before, after) = if axis < missing { (0, 0) } else { pads[axis - missing] };
        let (low, high) = if exclude_padding { (before, before + size) } else { (0, before + size + after) };
        let start = o * window.stride[axis];
        (start + window.kernel[axis]).min(high).saturating_sub(start.max(low))
    };
    let area = (window.kernel[0] * window.kernel[1]) as f32;
    (0..to.height())
        .flat_map(|h| (0..to.width).map(move |w| (h, w)))
        .map(|(h, w)| area / (count(0, h) * count(1, w)).max(1) as f32)
        .collect()
}

/// Contiguous axes merged into one.
pub(super) fn merge(axes: &[Axis]) -> Option<Axis> {
    let mut axes = axes.iter().rev().filter(|a| a.extent > 1);
    let Some(&last) = axes.next() else { return Some(Axis { extent: 1, stride_bytes: 0 }) };
    axes.try_fold(last, |merged, a| {
        (a.stride_bytes == merged.stride_bytes * merged.extent as u64)
            .then_some(Axis { extent: a.extent * merged.extent, ..merged })
    })
}

/// Pieces with a free row axis: channels take the rows if possible, otherwise one piece per row.
pub(super) fn one_row(parts: Vec<View4>, max_groups: usize) -> Vec<Vec<View4>> {
    shift_axis(parts, 2, 1, 0, max_groups)
}

/// Pieces with a free channel axis.
fn one_plane(parts: Vec<View4>, max_groups: usize) -> Vec<Vec<View4>> {
    shift_axis(parts, 1, 0, 0, max_groups)
}

/// Frees axis `busy` by moving it to `first` or `second`, whichever is unused first, otherwise by one piece per element.
fn shift_axis(parts: Vec<View4>, busy: usize, first: usize, second: usize, max_groups: usize) -> Vec<Vec<View4>> {
    let one = Axis { extent: 1, stride_bytes: 0 };
    let extent = |i: usize| parts[0].axes[i].extent;
    if extent(busy) == 1 {
        return vec![parts];
    }
    for free in [first, second] {
        if extent(free) == 1 && (free != 0 || extent(busy) <= max_groups) {
            let moved = |v: &View4| {
                let mut v = *v;
                v.axes[free] = v.axes[busy];
                v.axes[busy] = one;
                v
            };
            return vec![parts.iter().map(moved).collect()];
        }
    }
    (0..extent(busy))
        .map(|i| {
            parts
                .iter()
                .map(|v| {
                    let mut v = *v;
                    v.offset_bytes += i as u64 * v.axes[busy].stride_bytes;
                    v.axes[busy] = one;
                    v
                })
                .collect()
        })
        .collect()
}
