//! Convolution in fp32: the im2col plan ([`Im2col`]), kernel selection, and the direct kernel.
//!
//! Im2col is implicit: the unfolded matrix is not written. The source is staged in fp32 with its padding, split by stride phases, so
//! that the outputs of a tap read consecutive elements, at an offset given for each tap. Output rows are as long as staged rows; columns
//! beyond the end of an output row are computed but not stored. Other kernels: 1x1 (`pointwise`, [`nchwc`], `gemv`),
//! [`depthwise`], 3x3 ([`winograd`]), and fixed-point accumulators ([`exact`]).

use crate::convolution::nchwc::{Accumulator, Operand, ResidualAdd};
use crate::convolution::registry::{Query, Row};
use anemone_kernels::cost;
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::filter::Filter;
use anemone_kernels::gemm::microkernel::{self, PANEL};
use anemone_kernels::gemm::rows::RowMatrix;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{BLOCK, OutputTile, Strides, TensorView, TensorViewMut, partition, partition_columns};
use anemone_kernels::workers::Workers;
use half::f16;

pub mod depthwise;
mod direct;
pub mod exact;
mod gemv;
mod im2col;
mod kernels;
pub mod nchwc;
pub(crate) mod pair;
mod pointwise;
pub mod registry;
pub mod winograd;

use direct::Job;
pub use im2col::Im2col;
pub use kernels::{Coefficients, Kernels, Packing, RepackCache};
pub use pair::{FusedDepthwise, can_fuse_depthwise};

/// L2 budget of a staged source, in elements; every output channel reads it again.
const STAGED_ELEMENTS: usize = 3 << 16;
/// Outputs of a panel per tile: their sums stay in L1 until they are rounded and stored.
const OUTPUTS: usize = 1 << 10;
/// K block: weights of a panel and their operands stay in L1.
const TAPS: usize = 288;
/// M block: channels whose sums are kept between K blocks.
const CHANNELS: usize = 8 * PANEL;
/// Elements of depthwise input staged per batch: small enough for L1, large enough to avoid store-forwarding stalls.
pub const L1_BATCH: usize = 1 << 12;
/// Most channels of such a batch.
pub const MOST_AT_ONCE: usize = CHANNELS;
/// f32 lanes of the longest vectors.
const VECTOR: usize = 16;
/// Output channels from which unfolding (im2col) pays.
const UNFOLDING: usize = 24;
/// Longest reduction for which operands are unfolded (im2col) for NCHWc16.
const UNFOLDED: usize = 64;
/// Cost model: widening a weight costs as much as 10 outputs, packing an input as much as 8 channels.
const WIDENING: usize = 10;
const PACKING: usize = 8;
/// Cost model: reading an element from another core's cache, in multiply-adds.
const FETCH: usize = 16;

/// [`convolve_by`] with the first kernel of the registry that accepts the convolution, for coefficients that are packed at every run.
pub fn convolve(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
) {
    let to = to.in_columns(ext);
    let (row, _) = registry::select(&Query { staging, kernels, transposed: to.transposed, ext });
    convolve_by(row, workers, staging, kernels, finish, from, None, to, ext);
}

/// Executes a convolution and its epilogue by a kernel that accepts it; `ext` are the extents of the result before it is transposed. `factors`, one for
/// each channel of the source, are for kernels with [`Row::scales`]: the products are rounded to fp16.
pub fn convolve_by(
    row: &Row,
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    factors: Option<&[f16]>,
    to: TensorViewMut,
    ext: Extents,
) {
    if kernels.groups.is_empty() {
        return;
    }
    let to = to.in_columns(ext);
    let whole = match kernels.kept {
        Some(_) if !is_source_finite(workers, staging, from, ext) => kernels.with_all_positions(staging),
        _ => None,
    };
    let kernels = whole.as_ref().unwrap_or(kernels);
    let query = Query { staging, kernels, transposed: to.transposed, ext };
    row.run(registry::Work { workers, query, finish, from, factors, to, nanos: (row.cost)(&query) });
}

/// Convolution with a single output position: a matrix-vector product (GEMV). Coefficients are packed in panels of 64 channels.
pub fn convolve_gemv<A: Accumulator>(
    workers: &Workers,
    kernels: &Kernels,
    finish: A,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
) {
    let Some(first) = kernels.groups.first() else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * first.packed.taps()));
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let channels = ext.c.div_ceil(threads).next_multiple_of(gemv::PANEL);
    workers.each(partition(to.data, ext, to.strides, 1, channels), shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(gemv::Job { kernel, stats: kernels.stats_of(share), finish, from, share, scratch });
    });
}

/// Member of a batch: coefficients and epilogue of a range of channels of the result.
#[derive(Clone, Copy)]
pub struct BatchMember<'a> {
    pub kernels: &'a Kernels,
    pub finish: Epilogue<'a>,
}

impl<'a> BatchMember<'a> {
    /// Filter and epilogue of a tile.
    pub fn of(&self, share: &OutputTile) -> Option<(&'a Filter, &Epilogue<'a>)> {
        Some((self.kernels.of(share)?, &self.finish))
    }
}

/// Pointwise convolution. Several members produce consecutive channels of one result, which is then transposed.
pub fn convolve_pointwise(
    workers: &Workers,
    members: &[BatchMember],
    mut from: TensorView,
    factors: Option<&[f16]>,
    to: TensorViewMut,
    mut ext: Extents,
) {
    let Some(first) = members.first().and_then(|member| member.kernels.groups.first()) else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * ext.plane() * first.packed.taps()));
    let TensorViewMut { data, mut strides, transposed } = to;
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    if transposed {
        join_rows(&mut ext, from.strides, strides);
    }
    let shares = if transposed && ext.h > 1 {
        partition(data, ext.transposed(), strides, ext.h.div_ceil(threads), ext.w)
    } else if transposed {
        let columns = ext.w.div_ceil(threads).next_multiple_of(16);
        // Every tile widens all coefficients, or packs the complete source.
        let cost = |outputs: usize, channels: usize| {
            (microkernel::computed(outputs) + WIDENING) * channels + PACKING * outputs
        };
        let (by_outputs, by_channels) = (cost(columns.min(ext.w), ext.c), cost(ext.w, ext.c.div_ceil(threads)));
        if threads == 1 || by_outputs <= by_channels {
            partition(data, ext.transposed(), strides, 1, columns)
        } else {
            partition_columns(data, ext.transposed(), strides, &panel_starts(members, ext.c, threads))
        }
    } else {
        split_rows(&mut ext, &mut [(&mut from.strides, 1), (&mut strides, 1)], threads);
        let rows = ext.h.div_ceil(threads);
        let channels = ext.c.div_ceil(threads).next_multiple_of(PANEL);
        // Work of the largest tile, plus the operands that every tile prepares for itself.
        let computed = |outputs: usize, channels: usize| microkernel::computed(outputs) * channels;
        let by_rows = computed(rows * ext.w, ext.c) + WIDENING * ext.c;
        let by_channels = computed(ext.plane(), channels) + PACKING * ext.plane();
        if by_rows <= by_channels {
            partition(data, ext, strides, rows, ext.c)
        } else {
            partition(data, ext, strides, ext.h, channels)
        }
    };
    let columns = if transposed { ext.c } else { ext.w };
    multiply_tiles(workers, shares, shared, (members, None), from, factors, columns, transposed);
}

/// Computes the tiles of a pointwise convolution, whose coefficients are packed, or rows in memory.
fn multiply_tiles<'a>(
    workers: &Workers,
    shares: Vec<OutputTile>,
    shared: bool,
    (members, rows): (&[BatchMember], Option<(RowMatrix<'a>, &Epilogue<'a>)>),
    from: TensorView,
    factors: Option<&[f16]>,
    columns: usize,
    transposed: bool,
) {
    workers.each(shares, shared, |share, scratch| {
        let windows = None;
        multiply_tile(
            workers,
            pointwise::Job { members, rows, from, factors, windows, columns, transposed, share, scratch },
        );
    });
}

/// Out of line, so that its scalar code is compiled once.
#[inline(never)]
fn multiply_tile(workers: &Workers, job: pointwise::Job) {
    workers.arch.dispatch(job);
}

/// Returns true if [`convolve_rows`] computes a pointwise convolution whose coefficients are results; `ext` are the extents of the result before
/// it is transposed.
pub fn takes_rows(staging: &Im2col, transposed: bool, ext: Extents) -> bool {
    staging.is_pointwise() && ext.h == 1 && Packing::for_staging(staging, transposed, ext.c) == Packing::Panels6
}

/// Pointwise convolution with rows of coefficients in memory, for planes of one row. Threads take groups, or channels of a group: the next operation
/// takes rows of the result in the same order.
pub fn convolve_rows(
    workers: &Workers,
    rows: RowMatrix,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
) {
    let TensorViewMut { data, strides, transposed } = to.in_columns(ext);
    let shared = workers.shares(cost::products(ext.g * ext.c * ext.w * rows.taps));
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let parts = if ext.g < 2 * threads { threads } else { 1 };
    let channels = ext.c.div_ceil(parts).next_multiple_of(PANEL);
    let (shares, columns) = if transposed {
        let starts: Vec<usize> = (0..ext.c).step_by(channels).collect();
        (partition_columns(data, ext.transposed(), strides, &starts), ext.c)
    } else {
        (partition(data, ext, strides, 1, channels), ext.w)
    };
    multiply_tiles(workers, shares, shared, (&[], Some((rows, finish))), from, None, columns, transposed);
}

/// Splits the channels of all members into `threads` equal ranges, each of which starts at a panel of its member. Returns first channels.
fn panel_starts(members: &[BatchMember], channels: usize, threads: usize) -> Vec<usize> {
    let mut starts = vec![0];
    for share in 1..threads {
        let wanted = channels * share / threads;
        let mut before = 0;
        for member in members {
            let end = before + member.kernels.channels();
            if (before..end).contains(&wanted) {
                let start = (before + (wanted - before).next_multiple_of(PANEL)).min(end);
                if starts.last().is_none_or(|last| *last < start) && start < channels {
                    starts.push(start);
                }
            }
            before = end;
        }
    }
    starts
}

/// Convolution by the NCHWc16 kernel. The source may be in NCHWc16 itself, with contiguous rows.
pub fn convolve_nchwc<A: Accumulator>(
    workers: &Workers,
    kernels: &Kernels,
    finish: A,
    mut from: Operand,
    mut residual: Option<ResidualAdd>,
    to: TensorViewMut,
    mut ext: Extents,
) {
    let Some(first) = kernels.groups.first() else { return };
    let shared = workers.shares(cost::products(ext.g * ext.c * ext.plane() * first.packed.taps()));
    let TensorViewMut { data, mut strides, .. } = to;
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    if from.staging.is_pointwise() {
        let numbers = if from.in_blocks { BLOCK } else { 1 };
        let (from, to) = ((&mut from.source.strides, numbers), (&mut strides, 1));
        match residual.as_mut().and_then(|residual| residual.source.as_mut()) {
            Some(other) => split_rows(&mut ext, &mut [from, to, (&mut other.strides, 1)], threads),
            None => split_rows(&mut ext, &mut [from, to], threads),
        }
    }
    let rows = ext.h.div_ceil(threads);
    let channels = ext.c.div_ceil(threads).next_multiple_of(BLOCK);
    // Work of the largest tile, plus the operands that every tile prepares for itself.
    let [widening, packing] = A::COSTS;
    let by_rows = (rows * ext.w + widening) * ext.c;
    let by_channels = ext.plane() * (channels + packing);
    let shares = if by_rows <= by_channels {
        partition(data, ext, strides, rows, ext.c)
    } else {
        partition(data, ext, strides, ext.h, channels)
    };
    workers.each(shares, shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(nchwc::Job { kernel, finish, from, columns: ext.w, residual, share, scratch });
    });
}

/// Depthwise convolution in NCHWc16, for planes narrower than a vector.
pub fn convolve_narrow(work: registry::Work) {
    let registry::Work { workers, query: Query { staging, kernels, ext, .. }, finish, from, to, nanos, .. } = work;
    let shared = workers.shares(nanos);
    let threads = if shared { rayon::current_num_threads() } else { 1 };
    let channels = ext.c.div_ceil(threads).next_multiple_of(BLOCK);
    let (window, finish, columns) = (&staging.window, *finish, ext.w);
    workers.each(partition(to.data, ext, to.strides, ext.h, channels), shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(nchwc::NarrowKernel { kernel, finish, window, from, columns, share, scratch });
    });
}

pub fn convolve_direct(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
    small: bool,
    shared: bool,
) {
    let TensorViewMut { data, strides, transposed } = to;
    let depthwise = staging.is_depthwise() && !transposed;
    let shares = match transposed {
        true => partition(data, ext.transposed(), strides, staging.share_rows, ext.w),
        false => partition(data, ext, strides, staging.share_rows, staging.share_channels),
    };
    workers.each(shares, shared, |share, scratch| {
        let (Some(kernel), offsets) = (kernels.of(share), &kernels.offsets[..]) else { return };
        let (of, window, columns) = (depthwise::WindowOp::Kernel(kernel, finish), &staging.window, ext.w);
        if depthwise {
            return workers.arch.dispatch(depthwise::Job { of, window, from, columns, share, scratch });
        }
        if small {
            let (windows, columns) = (Some((staging, offsets)), ext.w);
            let members = &[BatchMember { kernels, finish: *finish }];
            let rows = None;
            let factors = None;
            let job = pointwise::Job { members, rows, from, factors, windows, columns, transposed, share, scratch };
            return multiply_tile(workers, job);
        }
        workers.arch.dispatch(Job { staging, kernel, finish, offsets, from, ext, transposed, share, scratch });
    });
}

/// Returns true if all elements of a source are finite: a precondition of kernels that skip products or reassociate sums.
fn is_source_finite(workers: &Workers, staging: &Im2col, from: TensorView, ext: Extents) -> bool {
    let channels = staging.channels * if staging.unicast { ext.c } else { 1 };
    workers.arch.dispatch(
        #[inline(always)]
        || (0..ext.g).all(|group| winograd::is_finite(from, group, channels, staging.window.from)),
    )
}

/// Convolution by Winograd's algorithm, see [`crate::convolution::winograd`].
pub fn convolve_winograd(
    workers: &Workers,
    staging: &Im2col,
    kernels: &Kernels,
    finish: &Epilogue,
    from: TensorView,
    to: TensorViewMut,
    ext: Extents,
    shared: bool,
) {
    let (window, channels, columns) = (&staging.window, staging.channels, ext.w);
    let [rows, share_channels] = winograd::cut_of(channels, ext, if shared { rayon::current_num_threads() } else { 1 });
    workers.each(partition(to.data, ext, to.strides, rows, share_channels), shared, |share, scratch| {
        let Some(kernel) = kernels.of(share) else { return };
        workers.arch.dispatch(winograd::Job { kernel, finish, window, channels, from, columns, share, scratch });
    });
}

/// Reshapes the planes of a 1x1 convolution to one row each, if there are no gaps between rows, neither in the source nor in the result, which is
/// stored transposed.
fn join_rows(ext: &mut Extents, from: Strides, to: Strides) {
    if from[2] == ext.w && to[2] == ext.w * to[1] {
        (ext.h, ext.w) = (1, ext.plane());
    }
}

/// Reshapes a single contiguous plane to one row for each thread, if it divides evenly. Every tensor comes with its number of elements
/// per column.
fn split_rows(ext: &mut Extents, tensors: &mut [(&mut Strides, usize)], threads: usize) {
    let whole = |(strides, numbers): &(&mut Strides, usize)| ext.h == 1 || strides[2] == ext.w * numbers;
    let n = ext.plane();
    if tensors.iter().all(whole) && n.is_multiple_of(threads) {
        (ext.h, ext.w) = (threads, n / threads);
        for (strides, numbers) in tensors.iter_mut() {
            strides[2] = ext.w * *numbers;
        }
    }
}
