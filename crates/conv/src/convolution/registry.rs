//! Kernel registry of fp32 convolutions, one row per kernel. The first row that accepts a convolution is selected when the convolution is
//! planned, or when its coefficients are packed.

use super::nchwc::Operand;
use super::{
    BatchMember, Im2col, Kernels, Packing, TensorViewMut, convolve_direct, convolve_gemv, convolve_narrow,
    convolve_nchwc, convolve_pointwise, convolve_winograd, is_source_finite, winograd,
};
use anemone_kernels::cost;
use anemone_kernels::epilogue::Epilogue;
use anemone_kernels::registry::{Rejected, when};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::TensorView;
use anemone_kernels::workers::Workers;
use half::f16;

/// A convolution to select a kernel for; `ext` are the extents of the result before it is transposed.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    pub staging: &'a Im2col,
    pub kernels: &'a Kernels,
    pub transposed: bool,
    pub ext: Extents,
}

/// A convolution to execute.
pub struct Work<'a> {
    pub workers: &'a Workers,
    pub query: Query<'a>,
    pub finish: &'a Epilogue<'a>,
    pub from: TensorView<'a>,
    /// Factor of each channel of the source; `None` unless the row [scales](Row::scales).
    pub factors: Option<&'a [f16]>,
    pub to: TensorViewMut<'a>,
    /// Predicted single-thread time in nanoseconds, from the kernel's row.
    pub nanos: usize,
}

/// A kernel of the registry.
pub struct Row {
    pub name: &'static str,
    /// Layouts of packed coefficients that the kernel reads.
    pub packing: &'static [Packing],
    /// Tests whether the kernel accepts a convolution; the error is the reason for the rejection.
    accepts: fn(&Query) -> Result<(), &'static str>,
    /// Predicted single-thread time in nanoseconds, by which the work is split between threads.
    pub cost: fn(&Query) -> usize,
    /// True if the kernel multiplies the channels of its source by factors, for 1x1 windows.
    pub scales: bool,
    run: fn(Work),
}

/// Predicted time of the convolution's multiply-accumulates.
fn products(query: &Query) -> usize {
    let taps = query.kernels.groups.first().map_or(0, |first| first.packed.taps());
    cost::products(query.ext.g * query.ext.c * query.ext.plane() * taps)
}

/// Predicted time of a convolution with few terms in each sum: at least that of reading and writing its elements.
fn by_element(query: &Query) -> usize {
    products(query).max(cost::elementwise(query.ext.g * query.ext.c * query.ext.plane()))
}

/// Kernels in order of preference.
pub static ROWS: &[Row] = &[
    Row {
        name: "gemv",
        packing: &[Packing::Panels64],
        cost: products,
        scales: false,
        accepts: |q| when(q.staging.is_gemv(), "the convolution is not 1x1 with a single output position"),
        run: |w| convolve_gemv(w.workers, w.query.kernels, *w.finish, w.from, w.to, w.query.ext),
    },
    Row {
        name: "nchwc16",
        packing: &[Packing::Blocks16],
        cost: products,
        scales: true,
        accepts: |q| when(!q.staging.unicast, "the convolution is depthwise"),
        run: |w| {
            let from = Operand { source: w.from, factors: w.factors, in_blocks: false, staging: w.query.staging };
            convolve_nchwc(w.workers, w.query.kernels, *w.finish, from, None, w.to, w.query.ext);
        },
    },
    Row {
        name: "packed gemm",
        packing: &[Packing::Panels6, Packing::Rows],
        cost: products,
        scales: true,
        accepts: |q| when(q.staging.is_pointwise(), "the window is not 1x1, or has a stride or padding"),
        run: |w| {
            let members = &[BatchMember { kernels: w.query.kernels, finish: *w.finish }];
            convolve_pointwise(w.workers, members, w.from, w.factors, w.to, w.query.ext);
        },
    },
    Row {
        name: "winograd",
        packing: &[Packing::Panels6],
        cost: products,
        scales: false,
        accepts: |q| {
            let (window, channels) = (&q.staging.window, q.staging.channels);
            when(!q.transposed, "the result is stored transposed")?;
            when(!q.staging.unicast, "the convolution is depthwise")?;
            when(q.kernels.kept.is_none(), "window positions with zero coefficients are skipped")?;
            when(
                winograd::is_profitable(window, channels, q.ext),
                "the window is not 3x3 with stride 1, or the cost model favours direct sums",
            )?;
            when(q.kernels.groups.iter().all(|kernel| kernel.finite), "a coefficient is not finite")
        },
        run: |w| {
            let Work { workers, query: Query { staging, kernels, ext, .. }, finish, from, to, nanos, .. } = w;
            let shared = workers.shares(nanos);
            // Winograd's sums are wrong for a source that is not finite.
            if is_source_finite(workers, staging, from, ext) {
                convolve_winograd(workers, staging, kernels, finish, from, to, ext, shared);
            } else {
                let small = staging.is_small(ext.w);
                convolve_direct(workers, staging, kernels, finish, from, to, ext, small, shared);
            }
        },
    },
    Row {
        name: "depthwise nchwc16",
        packing: &[Packing::Blocks16],
        cost: by_element,
        scales: false,
        accepts: |q| {
            when(q.staging.is_by_channel(), "the convolution is not depthwise, or the window is 1x1")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: convolve_narrow,
    },
    Row {
        name: "depthwise",
        packing: &[Packing::Rows, Packing::Blocks16],
        cost: by_element,
        scales: false,
        accepts: |q| {
            when(q.staging.is_depthwise(), "the convolution is not depthwise, or the window is not specialized")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: direct,
    },
    Row {
        name: "unfolded gemm",
        packing: ANY,
        cost: products,
        scales: false,
        accepts: |q| {
            when(!q.transposed, "the result is stored transposed")?;
            when(q.staging.is_small(q.ext.w), "rows are long enough for the direct kernel")
        },
        run: direct,
    },
    Row { name: "direct", packing: ANY, cost: products, scales: false, accepts: |_| Ok(()), run: direct },
];

const ANY: &[Packing] = &[Packing::Rows, Packing::Panels6, Packing::Blocks16, Packing::Panels64];

fn direct(work: Work) {
    let Work { workers, query, finish, from, to, nanos, .. } = work;
    let Query { staging, kernels, ext, transposed } = query;
    let small = !transposed && staging.is_small(ext.w);
    convolve_direct(workers, staging, kernels, finish, from, to, ext, small, workers.shares(nanos));
}

/// Selected kernel, with the name and reason of each kernel rejected before it.
pub fn select(query: &Query) -> (&'static Row, Rejected) {
    let packing = query.kernels.packing();
    let (row, rejected) = anemone_kernels::registry::select(
        ROWS,
        |row| row.name,
        |row| when(row.packing.contains(&packing), packing.reason()).and_then(|()| (row.accepts)(query)),
    );
    (row.map_or(&ROWS[ROWS.len() - 1], |(row, ())| row), rejected)
}

impl Row {
    /// Executes a convolution that the kernel accepts.
    pub(super) fn run(&self, work: Work) {
        (self.run)(work);
    }
}
