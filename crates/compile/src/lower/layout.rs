//! Lowering of data movement: copies, transposes, reshapes, slices, concatenations.

use super::Lowerer;
use super::strided::{Strided, merged_axes};
use crate::error::Result;
use crate::ir::*;
use anemone_facts::Field;
use anemone_facts::staging::{BANKS, UNIT_BYTES};
use anemone_net::ValueId;

/// Alignment of rows, in columns.
pub(super) const COLUMN_ALIGN: usize = (ROW_ALIGN / ELEMENT_BYTES) as usize;
/// Limit of scratch memory for one scattered block of a reshape.
const SCATTER_BYTES: u64 = 64 << 20;

/// Most sources that a task stages before its result.
const SOURCES: u64 = 2;

/// Neural-engine copy.
pub(super) fn copy_kind() -> Kind {
    Kind::Neuron { add: 0.0, post_scale: 1.0, nonlinear: Nonlinear::None }
}

impl Lowerer<'_> {
    /// Copies between views of equal extents.
    pub(super) fn copy(&mut self, from: &View, to: &View) -> Result<()> {
        let joined = self.rows_joined(from, to);
        let (from, to) = joined.as_ref().map_or((from, to), |(from, to)| (from, to));
        self.elementwise(copy_kind(), from, to)
    }

    /// Adds a single-source layer, in pieces, over views of equal extents.
    pub(super) fn elementwise(&mut self, kind: Kind, from: &View, to: &View) -> Result<()> {
        for piece in self.strips(&[from, to]) {
            for parts in self.blocks(&[&piece[0], &piece[1]])? {
                self.push(kind.clone(), vec![parts[0]], vec![[false; 3]], parts[1], false);
            }
        }
        Ok(())
    }

    /// Splits views along their columns into strips of at most the chip's width; a single broadcast column stays whole.
    pub(super) fn strips(&self, views: &[&View]) -> Vec<Vec<View>> {
        let width = views.iter().map(|v| v.width).max().unwrap_or(1);
        // Strips start on a row boundary of 64 bytes, so that they are addressed like rows.
        let most = self.chip.hal.max_tensor_width.map_or(width, |w| w as usize / COLUMN_ALIGN * COLUMN_ALIGN);
        (0..width)
            .step_by(most.max(1))
            .map(|start| {
                let strip = |v: &&View| match v.width {
                    1 => (*v).clone(),
                    _ => View {
                        offset_bytes: v.offset_bytes + start as u64 * ELEMENT_BYTES,
                        width: most.min(width - start),
                        ..(*v).clone()
                    },
                };
                views.iter().map(strip).collect()
            })
            .collect()
    }

    /// Views of equal extents in pieces that one task can address: unchanged if they have at most three leading axes within
    /// the chip's extents, otherwise merged and split.
    pub(super) fn blocks(&self, views: &[&View]) -> Result<Vec<Vec<View4>>> {
        let whole: Option<Vec<View4>> = views.iter().map(|v| v.nchw()).collect();
        match whole {
            Some(whole) if whole[0].axes.iter().zip(self.axis_limits()).all(|(a, limit)| a.extent <= limit) => {
                self.limit("width", views[0].width, self.chip.hal.max_tensor_width)?;
                Ok(vec![whole])
            }
            _ => self.merged_blocks(views),
        }
    }

    /// Largest number of groups, channels and rows of a task.
    pub(super) fn axis_limits(&self) -> [usize; 3] {
        let hal = &self.chip.hal;
        // The field's maximum is one less than the tensors' limit. The result follows the sources in tile memory, which have a unit for each
        // channel at least, and up to one in each bank between rows.
        let counted = self.field_max(Field::Cin).unwrap_or(u64::from(u16::MAX));
        let units = hal.l2_bytes.map_or(u64::MAX, |bytes| (bytes / SOURCES / UNIT_BYTES).saturating_sub(BANKS));
        let counted = counted.min(units) as usize;
        [
            self.max_groups(),
            hal.max_tensor_channels.map_or(counted, |most| (most as usize).min(counted)),
            hal.max_tensor_height.unwrap_or(16384) as usize,
        ]
    }

    /// Largest number of groups of a task.
    pub(super) fn max_groups(&self) -> usize {
        self.field_max(Field::NumGroups).unwrap_or(1) as usize
    }

    /// [`Lowerer::blocks`] with as few axes as strides allow: neighbouring axes are merged if they are contiguous in every
    /// view.
    pub(super) fn merged_blocks(&self, views: &[&View]) -> Result<Vec<Vec<View4>>> {
        let mut merged = merged_axes(views);
        let one = || vec![Axis { extent: 1, stride_bytes: 0 }; views.len()];
        while merged.len() < 2 {
            merged.insert(0, one());
        }
        if merged.len() == 2 {
            // Channels and rows; groups only when there is a third axis.
            merged.insert(0, one());
        }
        let outer = merged.len() - 3;
        self.limit("width", views[0].width, self.chip.hal.max_tensor_width)?;
        // Odometer over the outer axes, then over slabs of the three addressed ones.
        let mut starts = vec![vec![0u64; views.len()]];
        for axes in &merged[..outer] {
            starts = starts
                .iter()
                .flat_map(|s| {
                    (0..axes[0].extent)
                        .map(|i| s.iter().zip(axes).map(|(o, a)| o + i as u64 * a.stride_bytes).collect())
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        let mut pieces: Vec<Vec<View4>> = starts
            .into_iter()
            .map(|s| {
                views
                    .iter()
                    .enumerate()
                    .map(|(v, view)| View4 {
                        buffer: view.buffer,
                        offset_bytes: view.offset_bytes + s[v],
                        axes: std::array::from_fn(|i| merged[outer + i][v]),
                        width: view.width,
                    })
                    .collect()
            })
            .collect();
        for (axis, limit) in self.axis_limits().into_iter().enumerate() {
            pieces = pieces.into_iter().flat_map(|p| slabs(p, axis, limit)).collect();
        }
        Ok(pieces)
    }

    /// Copies `from` to `to` with the last axis of `from` exchanged with axis `axis`: the extents of `to` are those of
    /// `from` with the two swapped.
    pub(super) fn copy_transposed(&mut self, from: &View, to: &View, axis: usize) -> Result<()> {
        // Column pieces of either side that one exchange holds, on row boundaries.
        let hal = &self.chip.hal;
        let most = |limit: Option<u64>| {
            limit.map_or(usize::MAX, |n| n as usize / COLUMN_ALIGN * COLUMN_ALIGN).max(COLUMN_ALIGN)
        };
        let [wide, high] = [most(hal.max_transpose_width), most(hal.max_transpose_height)];
        let piece = |v: &View, columns: usize, width: usize, row: usize, extent: usize| {
            let mut v = v.clone();
            v.offset_bytes += columns as u64 * ELEMENT_BYTES + row as u64 * v.lead[axis].stride_bytes;
            v.lead[axis].extent = extent;
            v.width = width;
            v
        };
        if from.width > wide || to.width > high {
            for first in (0..from.width).step_by(wide) {
                for start in (0..to.width).step_by(high) {
                    let (width, height) = (wide.min(from.width - first), high.min(to.width - start));
                    let source = piece(from, first, width, start, height);
                    self.copy_transposed(&source, &piece(to, start, height, first, width), axis)?;
                }
            }
            return Ok(());
        }
        // The exchanged axis is the task's channels. `blocks` must not merge it, so that the other axes are split first and
        // the channels are added afterwards.
        let rest = |v: &View| {
            let mut lead = v.lead.clone();
            lead.remove(axis);
            View { lead, width: 1, ..v.clone() }
        };
        let (channels_from, channels_to) = (from.lead[axis], to.lead[axis]);
        // If the exchanged axis is the tensor's rows, the tensor's channels take the place of the rows.
        let rows_turn = |v: &View| axis + 1 == v.lead.len() && self.graph.buffer(v.buffer).role != Role::Scratch;
        let turn = [rows_turn(from), rows_turn(to)];
        for parts in self.merged_blocks(&[&rest(from), &rest(to)])? {
            // Three axes of the rest, one of which must be free for the channels.
            for pair in split_channels(parts, self.max_groups()) {
                let put = |v: View4, c: Axis, width: usize, turn: bool| {
                    let mut row = v.axes[2];
                    if turn && row.extent == 1 && row.stride_bytes == 0 {
                        row.stride_bytes = c.extent as u64 * c.stride_bytes;
                    }
                    View4 { axes: [v.axes[0], c, row], width, ..v }
                };
                let source = put(pair[0], channels_from, from.width, turn[0]);
                let result = put(pair[1], channels_to, to.width, turn[1]);
                self.push(copy_kind(), vec![source], vec![[false; 3]], result, true);
            }
        }
        Ok(())
    }

    /// Copies a permutation of `from` whose last axis moves.
    pub(super) fn permute_into(&mut self, from: &View, perm: &[usize], to: &View) -> Result<()> {
        let last = perm.len() - 1;
        // Result axis `at` is the source's last axis; the result's last axis is the source's `moved`.
        let moved = perm[last];
        let at = perm.iter().position(|&p| p == last).unwrap_or(last);
        // The result with its axes in the source's order: `moved` and the last axis are exchanged.
        let mut lead = vec![Axis { extent: 0, stride_bytes: 0 }; last];
        for (i, &p) in perm[..last].iter().enumerate() {
            let slot = if i == at { moved } else { p };
            lead[slot] = to.lead[i];
        }
        let target = View { lead, ..to.clone() };
        self.copy_transposed(from, &target, moved)
    }

    /// A copy of `from` in scratch memory with its last axis exchanged with `axis`.
    pub(super) fn exchanged(&mut self, from: &View, axis: usize, suffix: &str) -> Result<View> {
        let mut shape = from.shape();
        let last = shape.len() - 1;
        shape.swap(axis, last);
        let to = self.scratch(suffix, &shape);
        self.copy_transposed(from, &to, axis)?;
        Ok(to)
    }

    /// The same elements in order with other extents, if strides can express it.
    pub(super) fn reshaped(&self, from: &View, shape: &[usize]) -> Result<Option<View>> {
        let mut axes: Vec<(usize, u64)> = from.lead.iter().map(|a| (a.extent, a.stride_bytes)).collect();
        axes.push((from.width, ELEMENT_BYTES));
        let Some(strides) = reshape_strides(&axes, shape) else { return Ok(None) };
        let (last, lead) = match strides.split_last() {
            Some((&last, lead)) => (last, lead),
            None => return Ok(None),
        };
        let width = shape[shape.len() - 1];
        let aligned = lead.iter().zip(shape).all(|(&s, &n)| n == 1 || s.is_multiple_of(ROW_ALIGN));
        if (width > 1 && last != ELEMENT_BYTES) || !aligned {
            return Ok(None);
        }
        let lead =
            lead.iter().zip(shape).map(|(&s, &extent)| Axis { extent, stride_bytes: if extent == 1 { 0 } else { s } });
        Ok(Some(View { lead: lead.collect(), width, ..from.clone() }))
    }

    /// Any reshape.
    pub(super) fn reshape_into(&mut self, from: &View, to: &View) -> Result<()> {
        let made = Strided::from(from).reshaped(&to.shape());
        let scattered = self.tried(|lowerer| lowerer.scatter_reshape(from, to));
        let arranged = made.as_ref().and_then(|made| self.tried(|lowerer| lowerer.rearrange(made, to)));
        match (made, arranged) {
            (Some(made), Some(cost)) if scattered.is_none_or(|other| cost < other) => self.rearrange(&made, to),
            _ => self.scatter_reshape(from, to),
        }
    }

    /// Any reshape: scatter so that every element has a row of its own, then gather into the new columns. Both are
    /// transposing copies with one channel.
    fn scatter_reshape(&mut self, from: &View, to: &View) -> Result<()> {
        let total = from.elements() as u64;
        let bytes = total * ROW_ALIGN;
        if bytes > SCATTER_BYTES * 64 {
            return Err(self.unsupported(
                format!("a reshape of {total} elements that moves the last axis"),
                "keep the last axis, or make it a multiple of 32",
            ));
        }
        let rows = |v: &View| -> Vec<usize> { vec![v.elements() / v.width.max(1), v.width] };
        // One element per row, in order.
        let scattered = self.scratch("scattered", &[total as usize, 1]);
        let spread = |v: &View, shape: &[usize]| View {
            lead: vec![
                Axis { extent: shape[0], stride_bytes: shape[1] as u64 * ROW_ALIGN },
                Axis { extent: shape[1], stride_bytes: ROW_ALIGN },
            ],
            width: 1,
            ..v.clone()
        };
        self.scatter(from, &spread(&scattered, &rows(from)), false)?;
        self.scatter(to, &spread(&scattered, &rows(to)), true)
    }

    /// Copies between rows of columns and one element per row; `gather` is the reverse direction.
    fn scatter(&mut self, packed: &View, spread: &View, gather: bool) -> Result<()> {
        // [rows, 1, width] <-> [rows, width, 1], with the packed view's own leading axes.
        let mut wide = packed.clone();
        wide.lead.push(Axis { extent: 1, stride_bytes: 0 });
        let mut stride_bytes = spread.lead[0].stride_bytes;
        let mut lead: Vec<Axis> = packed
            .lead
            .iter()
            .rev()
            .map(|a| {
                let axis = Axis { extent: a.extent, stride_bytes };
                stride_bytes *= a.extent as u64;
                axis
            })
            .collect();
        lead.reverse();
        lead.push(spread.lead[1]);
        let narrow = View { lead, width: 1, ..spread.clone() };
        let axis = packed.lead.len();
        if gather { self.copy_transposed(&narrow, &wide, axis) } else { self.copy_transposed(&wide, &narrow, axis) }
    }

    /// Slices the leading axes, which changes only strides and offset.
    fn sliced_lead(&self, from: &View, begin: &[usize], end: &[usize], stride: &[usize]) -> View {
        let mut view = from.clone();
        for (i, axis) in view.lead.iter_mut().enumerate() {
            view.offset_bytes += begin[i] as u64 * axis.stride_bytes;
            let extent = (end[i] - begin[i]).div_ceil(stride[i]);
            *axis = Axis { extent, stride_bytes: axis.stride_bytes * stride[i] as u64 };
        }
        view
    }

    /// A slice as a view, if its columns are contiguous and start on a row boundary.
    pub(super) fn sliced(&self, from: &View, begin: &[usize], end: &[usize], stride: &[usize]) -> Option<View> {
        let last = from.lead.len();
        if stride[last] != 1 || !begin[last].is_multiple_of(COLUMN_ALIGN) {
            return None;
        }
        let mut view = self.sliced_lead(from, begin, end, stride);
        view.offset_bytes += begin[last] as u64 * ELEMENT_BYTES;
        view.width = end[last] - begin[last];
        Some(view)
    }

    /// Copies a slice. Columns that no view can select are exchanged with another axis, selected there, and exchanged back.
    pub(super) fn slice_into(
        &mut self,
        from: &View,
        begin: &[usize],
        end: &[usize],
        stride: &[usize],
        to: &View,
    ) -> Result<()> {
        if let Some(view) = self.sliced(from, begin, end, stride) {
            return self.copy(&view, to);
        }
        let last = from.lead.len();
        let one = Axis { extent: 1, stride_bytes: 0 };
        let mut view = self.sliced_lead(from, begin, end, stride);
        view.lead.push(one);
        let mut turned = self.exchanged(&view, last, "turned")?;
        let columns = turned.lead[last].stride_bytes;
        turned.offset_bytes += begin[last] as u64 * columns;
        let extent = (end[last] - begin[last]).div_ceil(stride[last]);
        turned.lead[last] = Axis { extent, stride_bytes: columns * stride[last] as u64 };
        let mut wide = to.clone();
        wide.lead.push(one);
        self.copy_transposed(&turned, &wide, last)
    }

    pub(super) fn concat(&mut self, axis: usize, inputs: &[ValueId], out: ValueId) -> Result<()> {
        if let Some(view) = self.neighbours(axis, inputs, out) {
            return self.alias(out, view);
        }
        let to = self.result(out);
        let last = to.lead.len();
        let sizes: Vec<usize> = inputs.iter().map(|&i| self.shape(i)[axis]).collect();
        let starts: Vec<usize> = sizes.iter().scan(0, |at, n| Some(std::mem::replace(at, *at + n))).collect();
        let aligned = starts.iter().all(|&s| (s as u64 * ELEMENT_BYTES).is_multiple_of(ROW_ALIGN));
        if axis < last || aligned {
            return self.concat_parts(axis, inputs, &sizes, &to);
        }
        // The axis that fills rows best takes the place of the columns.
        let other = (0..last).max_by_key(|&i| to.lead[i].extent).filter(|&i| to.lead[i].extent > 1);
        let own = |lowerer: &mut Self, from: &[Strided]| {
            other.and_then(|other| lowerer.tried(|l| l.concat_exchanged(other, from, &starts, &to)))
        };
        // A part that only moves data is copied once.
        let moved = inputs.iter().map(|&input| self.moved(input)).collect::<Result<Vec<Strided>>>()?;
        let pending = inputs.iter().filter(|id| self.is_pending(**id)).count();
        let apart = own(self, &moved);
        let once = self.tried(|lowerer| lowerer.concat_of_row(other, &moved, &starts, &to));
        if pending > 1 && once.is_some_and(|cost| apart.is_none_or(|least| cost < least)) {
            return self.concat_of_row(other, &moved, &starts, &to);
        }
        if let (true, Some(other), Some(_)) = (pending > 0, other, apart) {
            return self.concat_exchanged(other, &moved, &starts, &to);
        }
        let from = inputs.iter().map(|&input| self.view(input)).collect::<Result<Vec<View>>>()?;
        let strided: Vec<Strided> = from.iter().map(Strided::from).collect();
        let single = self.tried(|lowerer| lowerer.concat_single(&from, &starts, &to));
        match (other, own(self, &strided)) {
            (Some(other), Some(cost)) if single.is_none_or(|least| cost < least) => {
                self.concat_exchanged(other, &strided, &starts, &to)
            }
            _ => self.concat_single(&from, &starts, &to),
        }
    }

    /// Slices columns that do not start on boundaries: makes them an axis of single elements, then exchanges it back.
    fn concat_single(&mut self, inputs: &[View], starts: &[usize], to: &View) -> Result<()> {
        let last = to.lead.len();
        let mut shape = to.shape();
        shape.insert(last, shape[last]);
        shape[last + 1] = 1;
        let turned = self.scratch("turned", &shape);
        for (input, &start) in inputs.iter().zip(starts) {
            let mut from = input.clone();
            from.lead.push(Axis { extent: 1, stride_bytes: 0 });
            let mut part = turned.clone();
            part.offset_bytes += start as u64 * part.lead[last].stride_bytes;
            part.lead[last].extent = input.width;
            self.copy_transposed(&from, &part, last)?;
        }
        let mut wide = to.clone();
        wide.lead.push(Axis { extent: 1, stride_bytes: 0 });
        self.copy_transposed(&turned, &wide, last)
    }

    /// Slices with axis `other` in the columns' place.
    fn concat_exchanged(&mut self, other: usize, inputs: &[Strided], starts: &[usize], to: &View) -> Result<()> {
        let last = to.lead.len();
        let mut perm: Vec<usize> = (0..=last).collect();
        perm.swap(other, last);
        let mut shape = to.shape();
        shape.swap(other, last);
        let turned = self.scratch("turned", &shape);
        for (input, &start) in inputs.iter().zip(starts) {
            let mut part = turned.clone();
            part.offset_bytes += start as u64 * part.lead[other].stride_bytes;
            part.lead[other].extent = input.axes[last].iter().map(|atom| atom.extent).product();
            self.rearrange(&input.permuted(&perm), &part)?;
        }
        self.rearrange(&Strided::from(&turned).permuted(&perm), to)
    }
}

/// Cuts the views along one of their three axes into pieces of at most `limit`.
fn slabs(views: Vec<View4>, axis: usize, limit: usize) -> Vec<Vec<View4>> {
    let extent = views[0].axes[axis].extent;
    (0..extent)
        .step_by(limit)
        .map(|start| {
            let piece = |v: &View4| {
                let mut v = *v;
                v.offset_bytes += start as u64 * v.axes[axis].stride_bytes;
                v.axes[axis].extent = limit.min(extent - start);
                v
            };
            views.iter().map(piece).collect()
        })
        .collect()
}

/// Frees the channel axis of both views: one piece per channel, unless the channels can become groups.
fn split_channels(parts: Vec<View4>, max_groups: usize) -> Vec<Vec<View4>> {
    let [groups, channels] = [parts[0].axes[0].extent, parts[0].axes[1].extent];
    let turn =
        |v: &View4, from: usize| View4 { axes: [v.axes[from], Axis { extent: 1, stride_bytes: 0 }, v.axes[2]], ..*v };
    if channels == 1 {
        return vec![parts];
    }
    if groups == 1 && channels <= max_groups {
        return vec![parts.iter().map(|v| turn(v, 1)).collect()];
    }
    slabs(parts, 1, 1).into_iter().map(|p| p.iter().map(|v| turn(v, 0)).collect()).collect()
}

/// Strides of a view of `axes` (extent, stride) with other extents; `None` if no strides give it.
fn reshape_strides(axes: &[(usize, u64)], shape: &[usize]) -> Option<Vec<u64>> {
    let old: Vec<(usize, u64)> = axes.iter().copied().filter(|a| a.0 != 1).collect();
    let mut strides = vec![0; shape.len()];
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < shape.len() {
        // The shortest runs of old and new axes with the same number of elements.
        let (mut i_end, mut j_end) = (i + 1, j + 1);
        let (mut n_old, mut n_new) = (old[i].0, shape[j]);
        while n_old != n_new {
            if n_old < n_new {
                n_old *= old.get(i_end)?.0;
                i_end += 1;
            } else {
                n_new *= shape.get(j_end)?;
                j_end += 1;
            }
        }
        // The old run must be contiguous within itself.
        for k in i..i_end - 1 {
            if old[k].1 != old[k + 1].1 * old[k + 1].0 as u64 {
                return None;
            }
        }
        let mut stride = old[i_end - 1].1;
        for k in (j..j_end).rev() {
            strides[k] = stride;
            stride *= shape[k] as u64;
        }
        (i, j) = (i_end, j_end);
    }
    Some(strides)
}
