//! Products of two matrices that are both computed: the rows of one become output channels whose coefficients lie in
//! memory.

use super::Lowerer;
use super::product::{channels_first, indices, matrix, rows_first};
use crate::anec::*;
use crate::error::Result;
use anemone_facts::kernel::ENGINES;
use anemone_facts::staging::STAGED_INTERLEAVE;
use anemone_net::Op;

impl Lowerer<'_> {
    /// The rows of `x` become output channels whose coefficients lie in memory; the rows of `y` are the channels of the
    /// source. One matrix of the batch at a time.
    pub(super) fn runtime_matmul(&mut self, op: &Op, transpose_x: bool, transpose_y: bool) -> Result<()> {
        let (mut x, mut y) = (self.view(op.inputs[0])?, self.view(op.inputs[1])?);
        let to = self.result(op.outputs[0]);
        if transpose_x {
            x = self.exchanged(&x, x.lead.len() - 1, "left")?;
        }
        let depth = y.width;
        if transpose_y && self.options.modern() && depth.is_multiple_of(STAGED_INTERLEAVE) {
            return self.runtime_matmul_staged(&x, &y, &to);
        }
        if transpose_y {
            y = self.exchanged(&y, y.lead.len() - 1, "right")?;
        }
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        for index in indices(&batch) {
            let (x, y, to) = (matrix(&x, &index), matrix(&y, &index), matrix(&to, &index));
            let Some(source) = rows_first(&y) else {
                return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
            };
            self.product_of_matrices(&x, source, &to)?;
        }
        Ok(())
    }

    /// As [`Lowerer::runtime_matmul`] for `y[N, K]`: its columns become channels side by side in sets.
    fn runtime_matmul_staged(&mut self, x: &View, y: &View, to: &View) -> Result<()> {
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        for index in indices(&batch) {
            let (x, y, to) = (matrix(x, &index), matrix(y, &index), matrix(to, &index));
            let (columns, depth) = (y.lead[0].extent, y.width);
            let staged = self.scratch("right", &[depth / STAGED_INTERLEAVE, columns * STAGED_INTERLEAVE]);
            let (Some(from), Some(planes)) = (rows_first(&y), channels_first(&staged)) else {
                return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
            };
            let source = View4 {
                axes: [planes.axes[0], Axis { extent: depth, ..planes.axes[1] }, planes.axes[2]],
                width: columns,
                ..planes
            };
            let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
            self.push(kind, vec![from], vec![[false; 3]], source, true);
            if let Some(layer) = self.graph.layers.last_mut() {
                layer.interleave = STAGED_INTERLEAVE;
            }
            let first = self.graph.layers.len();
            self.product_of_matrices(&x, source, &to)?;
            for layer in &mut self.graph.layers[first..] {
                if matches!(layer.kind, Kind::Product { .. }) {
                    layer.source_interleave = STAGED_INTERLEAVE;
                }
            }
        }
        Ok(())
    }

    /// `to[M, N] = x[M, K] · y[K, N]`, in pieces of rows that fill whole engines.
    fn product_of_matrices(&mut self, x: &View, source: View4, to: &View) -> Result<()> {
        let Some(result) = rows_first(to) else {
            return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
        };
        let rows = to.lead[0].extent;
        let mut start = 0;
        while start < rows {
            let (count, lanes) = rows_at_once(rows - start);
            let part = |v: &View| View {
                offset_bytes: v.offset_bytes + start as u64 * v.lead[0].stride_bytes,
                lead: vec![Axis { extent: count, ..v.lead[0] }],
                ..v.clone()
            };
            let coefficients = self.coefficient_planes(&part(x), lanes)?;
            let mut result = result;
            result.offset_bytes += start as u64 * result.axes[1].stride_bytes;
            result.axes[1].extent = count;
            let kind = Kind::Product { lanes, post_scale: 1.0 };
            self.push(kind, vec![source, coefficients], vec![[false; 3]; 2], result, false);
            start += count;
        }
        Ok(())
    }

    /// Rows of a matrix as coefficient streams. A row on its own is one already; several lanes are interleaved first.
    fn coefficient_planes(&mut self, rows: &View, lanes: usize) -> Result<View4> {
        let Some(source) = rows_first(rows) else {
            return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
        };
        if lanes == 1 {
            return Ok(source);
        }
        let count = rows.lead[0].extent;
        let staged = self.scratch("coefficients", &[count / lanes, rows.width * lanes]);
        let Some(planes) = channels_first(&staged) else { return Ok(source) };
        let result = View4 {
            axes: [planes.axes[0], Axis { extent: count, ..planes.axes[1] }, planes.axes[2]],
            width: rows.width,
            ..planes
        };
        // The planar engine copies.
        let (op, window, affine) = (PoolOp::Sum, Window::UNIT, Affine::UNIT);
        let kind = Kind::Pool { op, window, abs: false, affine, relu: false };
        self.push(kind, vec![source], vec![[false; 3]], result, false);
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.interleave = lanes;
        }
        Ok(planes)
    }
}

/// Output rows of one product with run-time coefficients, and lanes per engine: as many as fill sixteen engines evenly.
fn rows_at_once(rows: usize) -> (usize, usize) {
    // Interleaves of 2, 4 and 8 are what Apple's programs use.
    let lanes = [8, 4, 2].into_iter().find(|lanes| rows >= ENGINES * lanes).unwrap_or(1);
    (rows.min(ENGINES * lanes), lanes)
}
