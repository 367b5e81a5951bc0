//! Reductions of a leading axis by the planar engine: a copy puts the axis into the columns.

use super::Lowerer;
use crate::error::Result;
use crate::ir::*;
use anemone_facts::staging::TURNED_BYTES;

/// Columns up to which channels that became columns are reduced in one piece: 32 and 64 are one piece
/// (`reduce_probe_sum_ax1_1x32x4x4`, `reduce_sum_axes_1`), 128 are four (`reduce_probe_mean_ax1_1x128x16x16`,
/// `reduce_probe_sum_ax3_1x8x1x128`).
const WHOLE_COLUMNS: usize = 64;
const FOLDED: usize = 4;

impl Lowerer<'_> {
    /// Reduces one leading axis on the planar engine: a copy puts it into the columns, a sum turns back on the way out,
    /// or by a copy of its own as 9.509 does it for rows (`reduce_probe_sum_ax2_1x128x16x16`, `reduce_probe_max_ax2_1x64x8x8`).
    /// `false` where the copy is too large to stay in tile memory, and for a maximum over channels, which the neural engine takes.
    pub(super) fn reduce_transposed(
        &mut self,
        op: PoolOp,
        affine: Affine,
        abs: bool,
        axis: usize,
        from: &View,
        to: &View,
    ) -> Result<bool> {
        let last = from.lead.len();
        let mut outer = from.lead.clone();
        outer.remove(axis);
        let groups: usize = outer.iter().map(|a| a.extent).product();
        let fits = from.elements() as u64 * ELEMENT_BYTES <= TURNED_BYTES && groups <= self.max_groups();
        if !fits {
            return Ok(false);
        }
        let mut shape = from.shape();
        shape.swap(axis, last);
        let (lead, bytes) = dense_axes(&shape);
        let turned =
            View { buffer: BufferId(self.graph.buffers.len() as u32), offset_bytes: 0, lead, width: shape[last] };
        let planes = axis.checked_sub(1).is_some_and(|planes| from.lead[planes].extent > 1);
        if self.options.conventions().sums_of_rows_turned_back && axis + 1 == last && planes && from.width > 1 {
            let turned = View { buffer: self.scratch_of("turned", bytes), ..turned };
            self.copy_transposed(from, &turned, axis)?;
            shape[last] = 1;
            let sum = self.scratch("sum", &shape);
            self.reduce_columns(op, affine, abs, false, &[last], &turned, &sum)?;
            self.copy_transposed(&sum, to, axis)?;
            return Ok(true);
        }
        if op == PoolOp::Max {
            return Ok(false);
        }
        self.turned_reduction(Kind::Reduce { op: PoolOp::Sum, abs, affine, reciprocal: false }, axis, from, to)
    }

    /// A reduction of columns that were a leading axis, whose results are turned back on the way out. `false` where the axes
    /// beside it are not one.
    pub(super) fn turned_reduction(&mut self, kind: Kind, axis: usize, from: &View, to: &View) -> Result<bool> {
        let last = from.lead.len();
        let rest = |v: &View| {
            let mut lead = v.lead.clone();
            lead.remove(axis);
            View { lead, width: 1, ..v.clone() }
        };
        let mut shape = from.shape();
        shape.swap(axis, last);
        let (lead, bytes) = dense_axes(&shape);
        let turned =
            View { buffer: BufferId(self.graph.buffers.len() as u32), offset_bytes: 0, lead, width: shape[last] };
        let parts = self.merged_blocks(&[&rest(&turned), &rest(to)])?;
        let [pair] = parts.as_slice() else { return Ok(false) };
        if pair[0].axes[..2].iter().any(|a| a.extent != 1) {
            return Ok(false);
        }
        let turned = View { buffer: self.scratch_of("turned", bytes), ..turned };
        self.copy_transposed(from, &turned, axis)?;
        let one = Axis { extent: 1, stride_bytes: 0 };
        let put = |v: View4, channels: Axis, width: usize| View4 { axes: [v.axes[2], channels, one], width, ..v };
        let source = put(View4 { buffer: turned.buffer, ..pair[0] }, turned.lead[axis], turned.width);
        let source = if self.options.conventions().columns_folded { folded(source) } else { source };
        // The single channel of the result is its plane.
        let rows = pair[1].axes[2];
        let plane = Axis { extent: 1, stride_bytes: rows.extent as u64 * rows.stride_bytes };
        let mut result = put(pair[1], plane, to.width);
        result.axes[2] = plane;
        self.push(kind, vec![source], vec![[false; 3]], result, true);
        Ok(true)
    }
}

/// Splits columns beyond [`WHOLE_COLUMNS`] of a single row into pieces, one below another, each of which starts on a row of memory.
pub(super) fn folded(source: View4) -> View4 {
    let piece_bytes = source.width as u64 * ELEMENT_BYTES / FOLDED as u64;
    if source.height() > 1
        || source.width <= WHOLE_COLUMNS
        || !source.width.is_multiple_of(FOLDED)
        || !piece_bytes.is_multiple_of(ROW_ALIGN)
    {
        return source;
    }
    let [groups, channels, _] = source.axes;
    let rows = Axis { extent: FOLDED, stride_bytes: piece_bytes };
    View4 { axes: [groups, channels, rows], width: source.width / FOLDED, ..source }
}
