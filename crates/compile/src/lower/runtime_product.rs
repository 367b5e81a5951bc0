//! Lowering of products of two computed matrices: the rows of one become output channels whose coefficients are in
//! memory.

use super::Lowerer;
use super::layout::copy_kind;
use super::norm::planes;
use super::product::{channels_first, indices, matrix, rows_first};
use super::reduce::merge;
use crate::error::Result;
use crate::ir::*;
use crate::staged_rows::{MOST_LANES, MOST_PASSES, Staged, Staging, in_few_tasks, mixed, rows_at_once};
use anemone_facts::kernel::ENGINES;
use anemone_facts::staging::{PRODUCT_LANES, STAGED_INTERLEAVE, TURNED_MATRIX_BYTES};
use anemone_net::Op;
use half::f16;

impl Lowerer<'_> {
    /// The rows of `x` become output channels with coefficients in memory; the rows of `y` are the channels of the
    /// source. One matrix of the batch at a time.
    pub(super) fn runtime_matmul(&mut self, op: &Op, transpose_x: bool, transpose_y: bool) -> Result<()> {
        let mut x = self.view(op.inputs[0])?;
        let (mut y, transpose_y) = self.right_operand(op.inputs[1], transpose_y)?;
        let to = self.result(op.outputs[0]);
        let interleaved = self.options.conventions().products_interleaved;
        let turned = if transpose_x && interleaved { self.turned_coefficients(&x) } else { None };
        if transpose_x && turned.is_none() {
            x = self.exchanged_matrices(&x, "left")?;
        }
        if interleaved {
            return self.interleaved_product(&x, &y, &to, transpose_y, turned);
        }
        if transpose_y {
            y = self.exchanged_matrices(&y, "right")?;
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

    /// Stages the columns of one matrix `x[K, M]` as coefficients of `M` output channels, transposed and interleaved by the same task
    /// (`env_mm_r2rr_m128_k2048_n2048_tx1_ty1`). Returns `None` for several matrices, and if one product does not take all columns.
    fn turned_coefficients(&mut self, x: &View) -> Option<View4> {
        let (rows, batch) = x.lead.split_last()?;
        let (count, lanes) = rows_at_once(x.width);
        let all = count == x.width
            && self.pieces(count, false) == [Staged::once(0, count, lanes)]
            && count.is_multiple_of(lanes);
        if lanes == 1 || !all || batch.iter().any(|a| a.extent > 1) {
            return None;
        }
        let source = rows_first(&matrix(x, &vec![0; batch.len()]))?;
        let staged = self.scratch("coefficients", &[count / lanes, rows.extent * lanes]);
        let planes = channels_first(&staged)?;
        let result = View4 {
            axes: [planes.axes[0], Axis { extent: count, ..planes.axes[1] }, planes.axes[2]],
            width: rows.extent,
            ..planes
        };
        self.push(copy_kind(), vec![source], vec![[false; 3]], result, true);
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.interleave = lanes;
        }
        Some(planes)
    }

    /// As 9.509 does it: the coefficients of each matrix in one task, `y[N, K]` transposed once for all, the last matrix first. `turned`
    /// has the coefficients of a transposed `x`.
    pub(super) fn interleaved_product(
        &mut self,
        x: &View,
        y: &View,
        to: &View,
        transpose_y: bool,
        turned: Option<View4>,
    ) -> Result<()> {
        if self.options.conventions().matrices_by_group && self.matmul_by_groups(x, y, to, transpose_y)? {
            return Ok(());
        }
        let large = y.elements() as u64 * ELEMENT_BYTES > TURNED_MATRIX_BYTES;
        let staged = transpose_y && large && y.width.is_multiple_of(STAGED_INTERLEAVE);
        let beside = if staged { self.staged_right(y)? } else { None };
        let rank = to.lead.len();
        let batch: Vec<usize> = to.lead[..rank - 1].iter().map(|a| a.extent).collect();
        let all = match turned {
            Some(planes) => Some((planes, 0)),
            None => self.coefficients_of_all(x, &batch)?,
        };
        let mut right = (!transpose_y).then(|| y.clone());
        for index in indices(&batch).into_iter().rev() {
            let (x, to) = (matrix(x, &index), matrix(to, &index));
            for staged in self.pieces(to.lead[0].extent, false) {
                let coefficients = match &all {
                    Some((planes, row)) => {
                        let at = index.iter().zip(&batch).fold(0, |at, (i, n)| at * n + i) as u64;
                        View4 { offset_bytes: planes.offset_bytes + at * row, ..*planes }
                    }
                    None => self.coefficient_planes(&x, &staged)?,
                };
                let source = match (&beside, &mut right) {
                    (Some((planes, row)), _) => {
                        let offset_bytes = planes.offset_bytes + ordinal(y, &index) as u64 * row;
                        Some(View4 { offset_bytes, ..*planes })
                    }
                    (None, Some(right)) => rows_first(&matrix(right, &index)),
                    (None, right) => rows_first(&matrix(right.insert(self.exchanged_matrices(y, "right")?), &index)),
                };
                let (Some(source), Some(result)) = (source, rows_first(&to)) else {
                    return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
                };
                let first = self.graph.layers.len();
                self.products_of(&staged, source, coefficients, result);
                let interleave = if beside.is_some() { STAGED_INTERLEAVE } else { 1 };
                self.graph.layers[first..].iter_mut().for_each(|product| product.source_interleave = interleave);
            }
        }
        Ok(())
    }

    /// Columns of matrices exchanged with their rows. As 9.509 does it, equal rows of all matrices lie side by side
    /// (`bmm_r3rr_m375_k375_n128_tx1_ty0_b8`).
    fn exchanged_matrices(&mut self, from: &View, suffix: &str) -> Result<View> {
        let shape = from.shape();
        let apart = self.options.conventions().matrices_apart;
        let (true, [batch @ .., rows, columns]) = (apart, shape.as_slice()) else {
            return self.exchanged(from, from.lead.len() - 1, suffix);
        };
        let to = self.scratch(suffix, &[&[*columns], batch, &[*rows]].concat());
        let mut lead = to.lead.clone();
        lead.rotate_left(1);
        let to = View { lead, ..to };
        self.copy_transposed(from, &to, batch.len())?;
        Ok(to)
    }

    /// Many matrices at once: each is a group, and the streams contain the coefficients group by group. Returns `false` for
    /// few matrices, or if one is multiplied several times.
    fn matmul_by_groups(&mut self, x: &View, y: &View, to: &View, transpose_y: bool) -> Result<bool> {
        let count = |v: &View| v.lead[..v.lead.len() - 1].iter().map(|a| a.extent).product::<usize>();
        let matrices = count(to);
        let [most, _, rows_most] = self.axis_limits();
        let holds = (LEAST_GROUPS..=most.min(rows_most)).contains(&matrices);
        if !holds || count(x) != matrices || count(y) != matrices || to.width > self.widest() {
            return Ok(false);
        }
        let (Some(results), true) = (by_matrix(to), x.lead.len() > 1) else { return Ok(false) };
        // Coefficients: at most two axes of matrices, which the staging copy separates.
        let x = match staged_axes(x) {
            Some(axes) => (x.clone(), axes),
            None => {
                let dense = self.scratch("left", &x.shape());
                self.copy(x, &dense)?;
                let Some(axes) = staged_axes(&dense) else { return Ok(false) };
                (dense, axes)
            }
        };
        let y = if transpose_y { self.exchanged(y, y.lead.len() - 1, "right")? } else { y.clone() };
        let y = match by_matrix(&y) {
            Some(source) => source,
            None => {
                let dense = self.scratch("right", &y.shape());
                self.copy(&y, &dense)?;
                let Some(source) = by_matrix(&dense) else { return Ok(false) };
                source
            }
        };
        let (left, [outer, inner]) = x;
        let rows = left.lead[left.lead.len() - 1];
        // A planar task stores all rows staged, if they are staged once.
        let writer = self.graph.layers.iter().rev().find(|layer| layer.result.buffer == left.buffer);
        let planar = writer.is_some_and(|layer| matches!(layer.kind, Kind::Planar { .. }) && !layer.transpose);
        let pieces = match self.pieces(rows.extent, true) {
            pieces if !planar || !self.options.conventions().rows_in_few_tasks => pieces,
            _ => in_few_tasks(rows.extent, Staging::Computed),
        };
        // Rows that overlap are an axis of the staging copy, which matrices of two axes leave no place for.
        let pieces = if outer.extent > 1 { pieces.iter().flat_map(Staged::apart).collect() } else { pieces };
        for piece in pieces {
            let (sets, lanes) = (piece.count / piece.lanes, piece.lanes);
            let staged = self.scratch("coefficients", &[piece.times, sets, matrices, left.width * lanes]);
            let &[again, set, matrix] = staged.lead.as_slice() else { return Ok(false) };
            let step = Axis { extent: piece.times, stride_bytes: piece.step as u64 * rows.stride_bytes };
            let source = View4 {
                buffer: left.buffer,
                offset_bytes: left.offset_bytes + piece.start as u64 * rows.stride_bytes,
                axes: [if piece.times > 1 { step } else { outer }, Axis { extent: piece.count, ..rows }, inner],
                width: left.width,
            };
            let apart = Axis { extent: outer.extent, stride_bytes: matrix.stride_bytes * inner.extent as u64 };
            let result = View4 {
                buffer: staged.buffer,
                offset_bytes: staged.offset_bytes,
                axes: [
                    if piece.times > 1 { again } else { apart },
                    Axis { extent: piece.count, ..set },
                    Axis { extent: inner.extent, ..matrix },
                ],
                width: left.width,
            };
            self.push(copy_kind(), vec![source], vec![[false; 3]], result, false);
            if let Some(layer) = self.graph.layers.last_mut() {
                layer.interleave = lanes;
            }
            let planes = View4 { axes: [again, set, matrix], width: staged.width, ..result };
            self.products_of(&piece, y, planes, results);
        }
        Ok(true)
    }

    /// Products of the rows that are staged together; the first axis of their coefficients has the overlapping runs.
    fn products_of(&mut self, staged: &Staged, source: View4, coefficients: View4, to: View4) {
        let [again, set, matrix] = coefficients.axes;
        for i in 0..staged.times {
            let (one, row) = (Axis { extent: 1, stride_bytes: 0 }, to.axes[1]);
            let offset_bytes = coefficients.offset_bytes + i as u64 * again.stride_bytes;
            let planes = View4 { offset_bytes, axes: [one, set, matrix], ..coefficients };
            let offset_bytes = to.offset_bytes + (staged.start + i * staged.step) as u64 * row.stride_bytes;
            let axes = [to.axes[0], Axis { extent: staged.count, ..row }, to.axes[2]];
            let result = View4 { offset_bytes, axes, ..to };
            let kind = Kind::Product { lanes: staged.lanes, post_scale: 1.0 };
            self.push(kind, vec![source, planes], vec![[false; 3]; 2], result, false);
        }
    }

    /// Rows that are staged together: all rows with as many lanes where these fill engines
    /// (`rrmm_r2rr_m192_k64_n64_tx0_ty1`: four lanes), or half of them in the last task (`rrmm_r2rr_m48_k64_n64_tx0_ty1`); other rows one
    /// by one (`bmm_r3rr_m375_k128_n375_tx0_ty0_b8`). Of matrices as groups, single rows are staged too.
    fn pieces(&self, rows: usize, groups: bool) -> Vec<Staged> {
        if self.options.conventions().rows_in_few_tasks {
            return in_few_tasks(rows, if groups { Staging::All } else { Staging::Interleaved });
        }
        let even = |lanes: &usize| rows.is_multiple_of(ENGINES * lanes);
        let half = || (rows > ENGINES && rows.is_multiple_of(ENGINES)).then_some(PRODUCT_LANES[2]);
        let lanes = PRODUCT_LANES.into_iter().find(even).or_else(half).unwrap_or(1);
        if !self.options.conventions().products_of_equal_rows {
            return mixed(rows);
        }
        let most = MOST_PASSES * ENGINES * lanes;
        (0..rows).step_by(most).map(|start| Staged::once(start, most.min(rows - start), lanes)).collect()
    }

    /// Largest number of columns of a tensor.
    fn widest(&self) -> usize {
        self.chip.hal.max_tensor_width.map_or(usize::MAX, |n| n as usize)
    }

    /// Stages the coefficients of all matrices by one task, if their producer can store them that way. Returns the streams of the first
    /// matrix, and the distance to those of the next one.
    fn coefficients_of_all(&mut self, x: &View, batch: &[usize]) -> Result<Option<(View4, u64)>> {
        let computed = self.graph.buffer(x.buffer).role == Role::Scratch;
        let count: usize = batch.iter().product();
        let own: usize = x.lead[..x.lead.len() - 1].iter().map(|a| a.extent).product();
        let (Some(source), Some(&rows)) = (planes(x, true), x.lead.last()) else { return Ok(None) };
        let &[Staged { lanes, times: 1, .. }] = self.pieces(rows.extent, false).as_slice() else { return Ok(None) };
        let fits = count <= self.axis_limits()[2] && rows.extent <= self.axis_limits()[1];
        if !computed || !fits || own != count || lanes == 1 || !rows.extent.is_multiple_of(lanes) {
            return Ok(None);
        }
        let staged = self.scratch("coefficients", &[rows.extent / lanes, count, x.width * lanes]);
        let &[set, matrix] = staged.lead.as_slice() else { return Ok(None) };
        let one = Axis { extent: 1, stride_bytes: 0 };
        let planes = View4 {
            buffer: staged.buffer,
            offset_bytes: staged.offset_bytes,
            axes: [one, set, one],
            width: staged.width,
        };
        let result = View4 { axes: [one, Axis { extent: rows.extent, ..set }, matrix], width: x.width, ..planes };
        self.interleaved(source, result, lanes);
        Ok(Some((planes, matrix.stride_bytes)))
    }

    /// Interleaves rows in sets. Rows beyond what the planar engine stages for one product are copied by the neural engine.
    fn interleaved(&mut self, source: View4, result: View4, lanes: usize) {
        let (op, window, affine) = (PoolOp::Sum, Window::UNIT, Affine::UNIT);
        let conventions = self.options.conventions();
        let staged = ENGINES * if conventions.products_of_equal_rows { lanes } else { MOST_LANES };
        let neural = conventions.wide_rows_copied_neural && source.channels() > staged;
        let kind = if neural { copy_kind() } else { Kind::Pool { op, window, abs: false, affine, relu: false } };
        self.push(kind, vec![source], vec![[false; 3]], result, false);
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.interleave = lanes;
        }
    }

    /// Stages matrices `y[N, K]`, whose columns become interleaved channels, by one copy that reads the matrices as rows
    /// (`encoder_bmm_m375_k1024_n128_ty1_b8`). Returns the first matrix, and the distance to the next one; `None` where they are no single axis.
    fn staged_right(&mut self, y: &View) -> Result<Option<(View4, u64)>> {
        let (columns, depth) = (y.lead[y.lead.len() - 1].extent, y.width);
        let from = if y.lead.len() > 1 { planes(y, true) } else { rows_first(y) };
        let Some(from) = from else { return Ok(None) };
        let staged = self.scratch("right", &[depth / STAGED_INTERLEAVE, from.height(), columns * STAGED_INTERLEAVE]);
        let &[sets, matrices] = staged.lead.as_slice() else { return Ok(None) };
        let (one, channels) = (Axis { extent: 1, stride_bytes: 0 }, Axis { extent: depth, ..sets });
        let first = View4 {
            buffer: staged.buffer,
            offset_bytes: staged.offset_bytes,
            axes: [one, channels, one],
            width: columns,
        };
        let all = if from.height() > 1 { matrices } else { one };
        let kind = Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None };
        self.push(kind, vec![from], vec![[false; 3]], View4 { axes: [one, channels, all], ..first }, true);
        if let Some(layer) = self.graph.layers.last_mut() {
            layer.interleave = STAGED_INTERLEAVE;
        }
        Ok(Some((first, matrices.stride_bytes)))
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
            let staged = Staged::once(start, count, lanes);
            let coefficients = self.coefficient_planes(x, &staged)?;
            self.products_of(&staged, source, coefficients, result);
            start += count;
        }
        Ok(())
    }

    /// Rows of a matrix as coefficient streams: a single row is one already; several lanes are interleaved first.
    fn coefficient_planes(&mut self, matrix: &View, staged: &Staged) -> Result<View4> {
        let &Staged { start, count, lanes, times, step } = staged;
        let rows = &part(matrix, start, count);
        let Some(mut source) = rows_first(rows) else {
            return Err(self.unsupported("more than two axes in one matrix", "report this as a defect"));
        };
        source.axes[0] = Axis { extent: times, stride_bytes: step as u64 * rows.lead[0].stride_bytes };
        if lanes == 1 {
            return Ok(source);
        }
        if let Some(planes) = self.constant_planes(matrix, staged) {
            return Ok(planes);
        }
        let planes = streams(&self.scratch("coefficients", &[times, count / lanes, rows.width * lanes]));
        let result = View4 {
            axes: [planes.axes[0], Axis { extent: count, ..planes.axes[1] }, planes.axes[2]],
            width: rows.width,
            ..planes
        };
        self.interleaved(source, result, lanes);
        Ok(planes)
    }

    /// Rows of a constant matrix, interleaved here (`env_mm_r2br_m32_k2048_n2048_tx0_ty1`: two tasks). `None` for rows that are computed.
    fn constant_planes(&mut self, rows: &View, staged: &Staged) -> Option<View4> {
        let &Staged { start, count, lanes, times, step } = staged;
        let Buffer { name, role: Role::Constant(data), .. } = self.graph.buffer(rows.buffer) else { return None };
        let (name, data, row) = (format!("{name}.coefficients"), data.clone(), rows.lead[0]);
        let element = |at: usize, column: usize| {
            let start = rows.offset_bytes as usize + at * row.stride_bytes as usize + column * ELEMENT_BYTES as usize;
            let bytes = data.get(start..start + ELEMENT_BYTES as usize)?;
            Some(f16::from_le_bytes([bytes[0], bytes[1]]).to_f32())
        };
        let (sets, width) = (count / lanes, rows.width);
        let places = (0..times * sets).flat_map(|set| {
            let first = start + set / sets * step + set % sets * lanes;
            (0..width).flat_map(move |column| (0..lanes).map(move |lane| (first + lane, column)))
        });
        let elements: Vec<f32> = places.map(|(at, column)| element(at, column)).collect::<Option<_>>()?;
        Some(streams(&self.constant_view(&name, &[times, sets, width * lanes], &elements)))
    }
}

/// Number of the matrix of a tensor that an index of a batch selects.
fn ordinal(view: &View, index: &[usize]) -> usize {
    let (_, batch) = view.lead.split_last().unwrap_or((&view.lead[0], &[]));
    let own = &index[index.len().saturating_sub(batch.len())..];
    let batch = &batch[batch.len() - own.len()..];
    batch.iter().zip(own).fold(0, |at, (axis, &i)| at * axis.extent + if axis.extent == 1 { 0 } else { i })
}

/// Fewest matrices that are multiplied as groups; two are as fast one by one, as in 9.509.
const LEAST_GROUPS: usize = 3;

/// Matrices as groups and their rows as channels, if the matrices are contiguous.
fn by_matrix(view: &View) -> Option<View4> {
    let (&rows, batch) = view.lead.split_last()?;
    let groups = merge(batch)?;
    let one = Axis { extent: 1, stride_bytes: rows.extent as u64 * rows.stride_bytes };
    Some(View4 { buffer: view.buffer, offset_bytes: view.offset_bytes, axes: [groups, rows, one], width: view.width })
}

/// Splits the axes of matrices into at most two: those before some axis, and the rest.
fn staged_axes(view: &View) -> Option<[Axis; 2]> {
    let (_, batch) = view.lead.split_last()?;
    (0..batch.len()).find_map(|at| Some([merge(&batch[..at])?, merge(&batch[at..])?]))
}

/// Coefficient streams `[times, sets, columns]`: sets of rows as channels.
fn streams(view: &View) -> View4 {
    let one = Axis { extent: 1, stride_bytes: 0 };
    let axes = [0, 1].map(|i| view.lead.get(i).copied().filter(|axis| i > 0 || axis.extent > 1).unwrap_or(one));
    View4 { buffer: view.buffer, offset_bytes: view.offset_bytes, axes: [axes[0], axes[1], one], width: view.width }
}

/// A range of rows of a matrix.
fn part(matrix: &View, start: usize, count: usize) -> View {
    View {
        offset_bytes: matrix.offset_bytes + start as u64 * matrix.lead[0].stride_bytes,
        lead: vec![Axis { extent: count, ..matrix.lead[0] }],
        ..matrix.clone()
    }
}
