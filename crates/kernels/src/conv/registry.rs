//! Kernel registry of convolutions in fp32, one row each: the first row that accepts a convolution is selected, when it is planned or
//! when its coefficients are packed.

use super::nchwc::Operand;
use super::{
    BatchMember, Im2col, Kernels, Packing, TensorViewMut, convolve_direct, convolve_gemv, convolve_nchwc,
    convolve_pointwise, convolve_winograd, is_source_finite, winograd,
};
use crate::cost;
use crate::epilogue::Epilogue;
use crate::registry::{Rejected, when};
use crate::tensor::Extents;
use crate::view::TensorView;
use crate::workers::Workers;

/// A convolution to select a kernel for; `ext` is the result's extents before it is transposed.
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
    pub to: TensorViewMut<'a>,
    /// Predicted nanoseconds on one thread, as the kernel's row has them.
    pub nanos: usize,
}

/// A kernel of the registry.
pub struct Row {
    pub name: &'static str,
    /// Forms of packed coefficients that the kernel reads.
    pub packing: &'static [Packing],
    /// Tests whether the kernel accepts a convolution; the error is the reason why not.
    accepts: fn(&Query) -> Result<(), &'static str>,
    /// Predicted nanoseconds on one thread: they decide whether threads share the work.
    pub cost: fn(&Query) -> usize,
    run: fn(Work),
}

/// Every multiply-accumulate of the convolution.
fn products(query: &Query) -> usize {
    let taps = query.kernels.groups.first().map_or(0, |first| first.packed.taps());
    cost::products(query.ext.g * query.ext.c * query.ext.plane() * taps)
}

/// Kernels in order of preference.
pub static ROWS: &[Row] = &[
    Row {
        name: "gemv",
        packing: &[Packing::Panels64],
        cost: products,
        accepts: |q| when(q.staging.is_gemv(), "the result has several places, or taps beside them"),
        run: |w| convolve_gemv(w.workers, w.query.kernels, *w.finish, w.from, w.to, w.query.ext),
    },
    Row {
        name: "nchwc16",
        packing: &[Packing::Blocks16],
        cost: products,
        accepts: |q| when(!q.staging.unicast, "every channel reads channels of its own"),
        run: |w| {
            let from = Operand { source: w.from, in_blocks: false, staging: w.query.staging };
            convolve_nchwc(w.workers, w.query.kernels, *w.finish, from, None, w.to, w.query.ext);
        },
    },
    Row {
        name: "packed gemm",
        packing: &[Packing::Panels6, Packing::Rows],
        cost: products,
        accepts: |q| when(q.staging.is_pointwise(), "the window has several taps, a stride or padding"),
        run: |w| {
            let members = &[BatchMember { kernels: w.query.kernels, finish: *w.finish }];
            convolve_pointwise(w.workers, members, w.from, w.to, w.query.ext);
        },
    },
    Row {
        name: "winograd",
        packing: &[Packing::Panels6],
        cost: products,
        accepts: |q| {
            let (window, channels) = (&q.staging.window, q.staging.channels);
            when(!q.transposed, "the result is stored transposed")?;
            when(!q.staging.unicast, "every channel reads channels of its own")?;
            when(q.kernels.kept.is_none(), "positions of the window are left out")?;
            when(winograd::is_profitable(window, channels, q.ext), "the window is not 3x3 at stride 1, or too little")?;
            when(q.kernels.groups.iter().all(|kernel| kernel.finite), "a coefficient is not finite")
        },
        run: |w| {
            let Work { workers, query: Query { staging, kernels, ext, .. }, finish, from, to, nanos } = w;
            let shared = workers.shares(nanos);
            // Winograd's sums differ if a number of the source is not finite.
            if is_source_finite(workers, staging, from, ext) {
                convolve_winograd(workers, staging, kernels, finish, from, to, ext, shared);
            } else {
                let small = staging.is_small(ext.w);
                convolve_direct(workers, staging, kernels, finish, from, to, ext, small, shared);
            }
        },
    },
    Row {
        name: "depthwise",
        packing: &[Packing::Rows, Packing::Blocks16],
        cost: products,
        accepts: |q| {
            when(q.staging.is_depthwise(), "channels do not each read one of their own, or the window has no code")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: direct,
    },
    Row {
        name: "unfolded gemm",
        packing: ANY,
        cost: products,
        accepts: |q| {
            when(!q.transposed, "the result is stored transposed")?;
            when(q.staging.is_small(q.ext.w), "rows are long enough to slide over")
        },
        run: direct,
    },
    Row { name: "direct", packing: ANY, cost: products, accepts: |_| Ok(()), run: direct },
];

const ANY: &[Packing] = &[Packing::Rows, Packing::Panels6, Packing::Blocks16, Packing::Panels64];

fn direct(work: Work) {
    let Work { workers, query, finish, from, to, nanos } = work;
    let Query { staging, kernels, ext, transposed } = query;
    let small = !transposed && staging.is_small(ext.w);
    convolve_direct(workers, staging, kernels, finish, from, to, ext, small, workers.shares(nanos));
}

/// Selected kernel, and the name and reason of each kernel rejected before it.
pub fn select(query: &Query) -> (&'static Row, Rejected) {
    let packing = query.kernels.packing();
    let (row, rejected) = crate::registry::select(
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
