//! Lowering of padding with a constant.
//!
//! Zeros on the last two axes are a depthwise convolution whose window extends beyond the operand and has a single 1.
//! Everything else is a copy: the operand to its position in the result, constants around it, so that values of any size stay
//! unchanged.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use anemone_net::ValueId;
use half::f16;
use std::sync::Arc;

impl Lowerer<'_> {
    pub(super) fn pad(&mut self, pads: &[(usize, usize)], value: f32, x: ValueId, out: ValueId) -> Result<()> {
        let (from, to) = (self.view(x)?, self.result(out));
        if value == 0.0 && self.pad_by_window(pads, &from, &to) {
            return Ok(());
        }
        self.copy_with_border(pads, value, &from, &to)
    }

    /// Zero padding of the last two axes as one layer; `false` if a window cannot express it.
    fn pad_by_window(&mut self, pads: &[(usize, usize)], from: &View, to: &View) -> bool {
        let spatial = pads.len().min(2);
        let (leading, pads) = pads.split_at(pads.len() - spatial);
        let (Some(source), Some(result)) = (from.nchw(), to.nchw()) else { return false };
        let mut window = Window::UNIT;
        let mut tap = [0; 2];
        for (axis, &(before, after)) in pads.iter().enumerate() {
            let axis = axis + 2 - spatial;
            window.kernel[axis] = before + after + 1;
            window.pad[axis] = before + after;
            tap[axis] = after;
        }
        if leading.iter().any(|&p| p != (0, 0)) || !self.accepts(&window) {
            return false;
        }
        let taps = window.kernel[0] * window.kernel[1];
        let mut weights = vec![0.0; taps * source.channels()];
        for kernel in weights.chunks_exact_mut(taps) {
            kernel[tap[0] * window.kernel[1] + tap[1]] = 1.0;
        }
        let kind = Kind::Conv {
            window,
            connect: Connect::Unicast { per_output: 1 },
            weights: Arc::new(weights.into()),
            bias: None,
            post_scale: 1.0,
            nonlinear: Nonlinear::None,
        };
        self.push_per_batch(kind, source, result);
        true
    }

    /// Copies an operand to its position and constants around it.
    fn copy_with_border(&mut self, pads: &[(usize, usize)], value: f32, from: &View, to: &View) -> Result<()> {
        let Some((&columns, leading)) = pads.split_last() else { return self.copy(from, to) };
        let mut inner = to.clone();
        for (axis, &(before, after)) in leading.iter().enumerate() {
            let size = from.lead[axis].extent;
            self.fill_along(&inner, axis, [(0, before), (before + size, after)], value)?;
            inner = along(&inner, axis, before, size);
        }
        self.surround_columns(columns, value, from, &inner)
    }

    fn surround_columns(&mut self, pads: (usize, usize), value: f32, from: &View, to: &View) -> Result<()> {
        let (before, after) = pads;
        let last = from.lead.len();
        let starts = [(before, from.width), (0, before), (before + from.width, after)];
        let aligned = |start: usize| (start as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN);
        if starts.iter().all(|&(start, extent)| extent == 0 || aligned(start)) {
            let part = |&(start, width): &(usize, usize)| View {
                offset_bytes: to.offset_bytes + start as u64 * ELEMENT_BYTES,
                width,
                ..to.clone()
            };
            self.copy(from, &part(&starts[0]))?;
            for region in starts[1..].iter().filter(|(_, extent)| *extent > 0) {
                self.fill(value, &part(region))?;
            }
            return Ok(());
        }
        // Columns that do not start on row boundaries become rows, and are exchanged afterwards.
        let (mut narrow, mut wide) = (from.clone(), to.clone());
        let rows = last.checked_sub(1).filter(|&axis| from.lead[axis].extent <= self.axis_limits()[2]);
        let axis = rows.unwrap_or_else(|| {
            for view in [&mut narrow, &mut wide] {
                view.lead.push(Axis { extent: 1, stride_bytes: 0 });
            }
            last
        });
        let mut shape = wide.shape();
        let end = shape.len() - 1;
        shape.swap(axis, end);
        let turned = self.scratch("turned", &shape);
        self.copy_transposed(&narrow, &along(&turned, axis, before, from.width), axis)?;
        self.fill_along(&turned, axis, [(0, before), (before + from.width, after)], value)?;
        self.copy_transposed(&turned, &wide, axis)
    }

    /// Fills ranges of a leading axis.
    fn fill_along(&mut self, to: &View, axis: usize, parts: [(usize, usize); 2], value: f32) -> Result<()> {
        for (start, extent) in parts.into_iter().filter(|(_, extent)| *extent > 0) {
            self.fill(value, &along(to, axis, start, extent))?;
        }
        Ok(())
    }

    /// Fills a view with one number; a finite one beyond fp16 saturates.
    pub(super) fn fill(&mut self, value: f32, to: &View) -> Result<()> {
        let limit = f16::MAX.to_f32();
        let value = if value.is_finite() { value.clamp(-limit, limit) } else { value };
        let name = format!("{}.value", self.op);
        let constant = self.constant_view(&name, &[1], &[value]);
        self.planar_two(PlanarOp::Max, Affine::UNIT, &constant, &constant, to)
    }
}

/// Range of a leading axis.
fn along(view: &View, axis: usize, start: usize, extent: usize) -> View {
    let mut part = view.clone();
    part.offset_bytes += start as u64 * part.lead[axis].stride_bytes;
    part.lead[axis].extent = extent;
    part
}
