//! Convolutions with fixed-point accumulators and their epilogues.

pub mod registry;

use crate::convolution::nchwc::ExactAccumulator;
use crate::convolution::{Im2col, Kernels, MOST_AT_ONCE, convolve_gemv, join_rows};
use anemone_kernels::epilogue::{ExactEpilogue, ScaledClamp};
use anemone_kernels::exact::{Columns, HEIGHT, LEAST_HEIGHT, Operands, SingleRow, Space, Weights};
use anemone_kernels::exact::{decode, least, product_of_rows, row_of};
use anemone_kernels::filter::{PackedFilter, Values};
use anemone_kernels::host::Rows;
use anemone_kernels::num;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{OutputTile, Part, TensorView, TensorViewMut, copy_short, partition, partition_columns};
use anemone_kernels::view::{gather_elements, scatter_elements};
use anemone_kernels::window::Window;
use anemone_kernels::workers::{Scratch, Workers, scratch_slice};
use half::f16;
use pulp::{Simd, WithSimd};
use registry::{Query, Row, Work};

/// Weights of one group, one set for the outputs that read the same inputs; and biases.
pub type Sets = (Vec<Weights>, Option<Vec<f32>>);

/// Channels that are computed together: a multiple of the block height of [`Weights`].
const CHANNELS: usize = 8 * HEIGHT;
/// Outputs of a panel; tiles are whole panels.
const WIDTH: usize = 32;
const VECTOR: usize = 16;
/// Capacity of the packed columns, in elements; bounds the outputs of a part.
const PACKED: usize = 1 << 19;
const OUTPUTS: [usize; 2] = [256, 1024];
/// Channels whose sums take as long as to pack what they read, and outputs whose sums take as long as to raise a coefficient.
const PACKING: usize = 24;
const RAISING: usize = 12;

/// Coefficients by group; a single group is shared by all.
#[derive(Clone, Copy)]
pub enum Groups<'a> {
    Sets(&'a [Sets]),
    /// In blocks of channels, for outputs that read all channels or one of their own.
    Blocks(&'a Kernels),
}

/// Coefficients of a depthwise channel.
#[derive(Clone, Copy)]
enum OwnRow<'a> {
    Set(&'a Weights),
    Panels(&'a PackedFilter),
}

impl<'a> Groups<'a> {
    fn sets(self, group: usize) -> Option<&'a Sets> {
        match self {
            Groups::Sets(groups) => groups.get(group).or(groups.first()),
            Groups::Blocks(_) => None,
        }
    }
}

/// Convolution with a fixed-point accumulator.
pub struct Exact<'a> {
    pub mac: &'static AccumulatorSpec,
    pub window: &'a Window,
    /// Input channels that one output reads.
    pub channels: usize,
    /// True for depthwise: every output channel reads input channels of its own.
    pub unicast: bool,
    /// Staging of the source for depthwise channels.
    pub staging: &'a Im2col,
    pub groups: Groups<'a>,
    pub exactly: &'a ExactEpilogue,
}

/// [`convolve_by`] with the first kernel of the registry that accepts the convolution.
pub fn convolve(workers: &Workers, of: &Exact, from: TensorView, to: TensorViewMut, ext: Extents) {
    let to = to.in_columns(ext);
    let (row, _) = registry::select(&Query { of, transposed: to.transposed, ext });
    convolve_by(row, workers, of, from, to, ext);
}

/// Executes a convolution by a kernel that accepts it; `ext` are the extents of the result before it is transposed.
pub fn convolve_by(row: &Row, workers: &Workers, of: &Exact, from: TensorView, to: TensorViewMut, ext: Extents) {
    let query = Query { of, transposed: to.transposed, ext };
    row.run(Work { workers, of, from, to: to.in_columns(ext), ext, nanos: (row.cost)(&query) });
}

/// Depthwise convolution, a few channels at a time.
fn by_channels(work: Work) {
    let Work { workers, of, from, to: TensorViewMut { data, strides, .. }, ext, nanos } = work;
    let taps = of.channels * of.window.elements();
    if taps == 0 {
        return;
    }
    let shared = workers.threads_for(nanos) > 1;
    let (offsets, columns) = (of.staging.offsets(), ext.w);
    let shares = partition(data, ext, strides, of.staging.share_rows, of.staging.share_channels);
    workers.each(shares, shared, |share, scratch| {
        workers.arch.dispatch(Alone { of, offsets: &offsets, from, columns, share, scratch });
    });
}

/// GEMV. A table is applied to the stored result, because the kernel's epilogue has none.
fn by_vector(work: Work) {
    let Work { workers, of, from, to, ext, .. } = work;
    let Groups::Blocks(kernels) = of.groups else { return };
    let TensorViewMut { data, strides, transposed } = to;
    let admit = ScaledClamp { scale: 1.0, bounds: [f32::NEG_INFINITY, f32::INFINITY] };
    let clamp = of.exactly.clamp().unwrap_or(admit);
    let target = TensorViewMut { data: &mut *data, strides, transposed };
    convolve_gemv(workers, kernels, ExactAccumulator { mac: of.mac, clamp }, from, target, ext);
    if of.exactly.clamp().is_none() {
        let mut row = vec![f16::ZERO; ext.c];
        for of_group in (0..ext.g).map(|g| g * strides[0]) {
            gather_elements(&data[of_group..], strides[1], &mut row);
            workers.arch.dispatch(Mapped { exactly: of.exactly, row: &mut row });
            scatter_elements(&row, strides[1], &mut data[of_group..]);
        }
    }
}

/// Applies a map to a row of rounded sums.
struct Mapped<'a> {
    exactly: &'a ExactEpilogue,
    row: &'a mut [f16],
}

impl WithSimd for Mapped<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.exactly.row(simd, self.row);
    }
}

/// GEMM over tiles of channels by outputs.
fn by_tiles(work: Work) {
    let Work { workers, of, from, to: TensorViewMut { data, strides, transposed }, mut ext, nanos } = work;
    let taps = of.channels * of.window.elements();
    if taps == 0 {
        return;
    }
    if transposed && of.window.is_pointwise() {
        join_rows(&mut ext, from.strides, strides);
    }
    let threads = workers.threads_for(nanos);
    let shared = threads > 1;
    // With enough groups for all threads, groups are not split: every part would pack one of the operands again.
    let threads = if ext.g >= 2 * threads { 1 } else { threads };
    // Cost of the largest tile: sums, packing of operands, raising of weights.
    let cost = |outputs: usize, channels: usize| outputs * (channels + PACKING) + channels * RAISING;
    let (rows, channels) = {
        let (rows, channels) = (ext.h.div_ceil(threads), ext.c.div_ceil(threads).next_multiple_of(LEAST_HEIGHT));
        match cost(rows * ext.w, ext.c) <= cost(ext.plane(), channels) {
            true => (rows, ext.c),
            false => (ext.h, channels.next_multiple_of(HEIGHT)),
        }
    };
    let shares = match transposed {
        true if ext.h > 1 => partition(data, ext.transposed(), strides, ext.h.div_ceil(threads), ext.w),
        true => {
            let columns = ext.w.div_ceil(threads).next_multiple_of(WIDTH);
            let channels = ext.c.div_ceil(threads).next_multiple_of(HEIGHT);
            let by_channels = cost(ext.w.next_multiple_of(VECTOR), channels);
            if of.unicast || threads == 1 || cost(columns.min(ext.w), ext.c) <= by_channels {
                partition(data, ext.transposed(), strides, 1, columns)
            } else {
                let starts: Vec<usize> = (0..ext.c).step_by(channels).collect();
                partition_columns(data, ext.transposed(), strides, &starts)
            }
        }
        false => partition(data, ext, strides, rows, channels),
    };
    let columns = if transposed { ext.c } else { ext.w };
    workers.each(shares, shared, |share, scratch| {
        workers.arch.dispatch(Job { of, from, columns, transposed, share, scratch });
    });
}

/// Tile of a depthwise convolution.
struct Alone<'a, 'b> {
    of: &'a Exact<'a>,
    offsets: &'a [u32],
    from: TensorView<'a>,
    columns: usize,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Alone<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Alone { of, offsets, from, columns, share, scratch } = self;
        let staging = of.staging;
        let Scratch { staged, wide, sums, halves, panel, row, arena, .. } = scratch;
        let area = staging.staged_elements();
        let at_once = staging.at_once(share.channels());
        let staged = scratch_slice(staged, at_once * area + staging.staged_slack());
        staged[at_once * area..].fill(0.0);
        let outputs = share.rows * staging.width;
        let sums = scratch_slice(sums, at_once * outputs);
        let halves = scratch_slice(halves, at_once * outputs);
        let mut columns_kept: Box<Option<Columns>> = arena.take();
        let packed = columns_kept.get_or_insert_with(|| Columns::empty(of.mac));
        let rows = Rows { count: share.rows, columns, from_stride: staging.width, to_stride: columns };
        for c in (0..share.channels()).step_by(at_once) {
            let (first, count) = (share.first_channel + c, at_once.min(share.channels() - c));
            let mut reach = [[0.0; 2]; MOST_AT_ONCE];
            for (m, (staged, reach)) in staged.chunks_exact_mut(area).zip(&mut reach).enumerate().take(count) {
                // Padding is zero in every model. It is filled with the first channels and stays.
                let (around, place) = ((c == 0).then_some(0.0), [share.group, share.first_row]);
                staging.stage(simd, from, place, (first + m) * of.channels, around, staged, wide);
                let largest = decode(of.mac, staged);
                *reach = [least(staged), largest];
            }
            for (m, out) in sums.chunks_exact_mut(outputs).enumerate().take(count) {
                let (channel, source, [least, largest]) = (first + m, &staged[m * area..], reach[m]);
                let (coefficients, biases) = match of.groups {
                    Groups::Sets(_) => {
                        let Some((sets, biases)) = of.groups.sets(share.group) else { return };
                        let Some(set) = sets.get(channel) else { return };
                        (OwnRow::Set(set), biases)
                    }
                    Groups::Blocks(kernels) => {
                        let Some(kernel) = kernels.of(share) else { return };
                        (OwnRow::Panels(&kernel.packed), &kernel.biases)
                    }
                };
                let bias = biases.as_ref().and_then(|b| b.get(channel)).map_or(&[][..], std::slice::from_ref);
                let row = match coefficients {
                    OwnRow::Set(set) => set.row(simd, panel, row),
                    OwnRow::Panels(panels) => {
                        let taps = scratch_slice(panel, offsets.len());
                        panels.widen_channel(channel, taps);
                        row_of(of.mac, taps, row)
                    }
                };
                let start = bias.first().copied().unwrap_or(0.0);
                let (mac, bias_of) = (of.mac, start);
                let row = SingleRow { mac, row, bias: bias_of, source, offsets, least, largest, out: &mut *out };
                if row.with_simd(simd) {
                    continue;
                }
                packed.fill(simd, offsets.len(), outputs, true, &Sliding { source, offsets });
                let own;
                let set = match coefficients {
                    OwnRow::Set(set) => set,
                    OwnRow::Panels(panels) => {
                        let taps = scratch_slice(panel, offsets.len());
                        panels.widen_channel(channel, taps);
                        let values = taps.iter().map(|&w| num::round(w)).collect();
                        own = Weights::of(of.mac, 1, offsets.len(), &Values::Halves(values));
                        &own
                    }
                };
                let mut space: Box<Space> = arena.take();
                product_of_rows(simd, set, 0, packed, bias, out, &mut space);
                arena.put(space);
            }
            let sums = &sums[..count * outputs];
            of.exactly.store(simd, share, [c, 0, 0], count, sums, outputs, rows, halves);
        }
        arena.put(columns_kept);
    }
}

struct Job<'a, 'b> {
    of: &'a Exact<'a>,
    from: TensorView<'a>,
    /// Columns of the result as stored.
    columns: usize,
    transposed: bool,
    share: &'a mut OutputTile<'b>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Job<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Job { of, from, columns, transposed, share, scratch } = self;
        let Some((sets, biases)) = of.groups.sets(share.group) else { return };
        let taps = of.channels * of.window.elements();
        let mut columns_kept: Box<Option<Columns>> = scratch.arena.take();
        let packed = columns_kept.get_or_insert_with(|| Columns::empty(of.mac));
        let mut space: Box<Space> = scratch.arena.take();
        let (first, channels) = match transposed {
            true => (share.columns.start, share.columns.len()),
            false => (share.first_channel, share.channels()),
        };
        let at_once = if of.unicast { 1 } else { CHANNELS };
        let slides = !transposed && !of.unicast && of.window.elements() > 1;
        let most = (PACKED / taps.max(1)).clamp(OUTPUTS[0], OUTPUTS[1]);
        let group = share.group;
        for part in Part::all(share, columns, transposed, most) {
            let outputs = part.outputs();
            let sums = scratch_slice(&mut scratch.sums, at_once * outputs);
            let halves = scratch_slice(&mut scratch.halves, at_once * outputs);
            for c in (0..channels).step_by(at_once) {
                let (channel, count) = (first + c, at_once.min(channels - c));
                if c == 0 && slides && part.columns.len() == columns {
                    // Taps read the same elements repeatedly, so that they are decoded once, when they are staged.
                    let staging = of.staging.of_rows(part.rows.len());
                    let staged = scratch_slice(&mut scratch.staged, staging.staged_elements() + staging.staged_slack());
                    let (planes, beyond) = staged.split_at_mut(staging.staged_elements());
                    staging.stage(simd, from, [group, part.rows.start], 0, Some(0.0), planes, &mut scratch.wide);
                    beyond.fill(0.0);
                    decode(of.mac, planes);
                    let staged = Staged { staged, offsets: &staging.offsets(), width: staging.width, columns };
                    packed.fill(simd, taps, outputs, true, &staged);
                } else if c == 0 || of.unicast {
                    let read = if of.unicast { channel * of.channels } else { 0 };
                    let place = [group, read];
                    packed.fill(
                        simd,
                        taps,
                        outputs,
                        false,
                        &UnstagedOperands { window: of.window, from, place, part: &part },
                    );
                }
                let (set, row) = if of.unicast { (channel, 0) } else { (0, channel) };
                let Some(weights) = sets.get(set) else { return };
                let sums = &mut sums[..count * outputs];
                let bias = biases.as_ref().map_or(&[][..], |b| &b[channel - row..]);
                product_of_rows(simd, weights, row, packed, bias, sums, &mut space);
                if transposed {
                    let halves = of.exactly.rounded(simd, sums, halves);
                    part.store(halves, outputs, share, true, first + c, count);
                } else {
                    let (place, rows) = (part.place(share, c), part.gapless());
                    of.exactly.store(simd, share, place, count, sums, outputs, rows, halves);
                }
            }
        }
        scratch.arena.put(columns_kept);
        scratch.arena.put(space);
    }
}

/// Operands read from an unstaged source.
struct UnstagedOperands<'a> {
    window: &'a Window,
    from: TensorView<'a>,
    /// Group and first channel.
    place: [usize; 2],
    part: &'a Part,
}

impl Operands for UnstagedOperands<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, simd: S, tap: usize, first: usize, to: &mut [f32]) {
        let &UnstagedOperands { window, from, place: [group, channel], part } = self;
        if window.is_pointwise() && part.rows.len() == 1 {
            let column = part.columns.start + first;
            from.fetch_after(group, channel + tap, part.rows.start, column..column + to.len());
        }
        match window.is_pointwise() {
            true => from.widen_from(simd, group, channel + tap, part, first, to),
            false => window.gather_tap(from, group, channel, part, tap, first, to),
        }
    }
}

/// Operands read from staged rows, consecutive from an offset given for each tap.
struct Sliding<'a> {
    source: &'a [f32],
    offsets: &'a [u32],
}

impl Operands for Sliding<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, to: &mut [f32]) {
        to.copy_from_slice(&self.source[self.offsets[tap] as usize + first..][..to.len()]);
    }
}

/// Operands read from staged rows without the padding between output rows.
struct Staged<'a> {
    staged: &'a [f32],
    offsets: &'a [u32],
    width: usize,
    columns: usize,
}

impl Operands for Staged<'_> {
    #[inline(always)]
    fn row<S: Simd>(&self, _: S, tap: usize, first: usize, mut to: &mut [f32]) {
        let mut column = first % self.columns;
        let rows = self.staged[self.offsets[tap] as usize..].chunks(self.width);
        for row in rows.skip(first / self.columns) {
            let (piece, rest) = to.split_at_mut((self.columns - column).min(to.len()));
            copy_short(&row[column..][..piece.len()], piece);
            (to, column) = (rest, 0);
            if to.is_empty() {
                return;
            }
        }
    }
}
