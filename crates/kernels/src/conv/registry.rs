//! Kernel registry of convolutions in fp32, one row each: the first row that accepts a convolution is selected, when it is planned or
//! when its coefficients are packed.

use super::nchwc::Operand;
use super::{
    BatchMember, Im2col, Kernels, TensorViewMut, convolve_direct, convolve_gemv, convolve_nchwc, convolve_pointwise,
    convolve_winograd, is_source_finite, winograd,
};
use crate::cost;
use crate::epilogue::Epilogue;
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
}

/// A kernel of the registry.
pub struct Row {
    pub name: &'static str,
    /// Tests whether the kernel accepts a convolution; the error is the reason why not.
    pub accepts: fn(&Query) -> Result<(), &'static str>,
    run: fn(Work),
}

impl Query<'_> {
    /// Returns true if the work is enough to wake other threads.
    fn shared(&self, workers: &Workers) -> bool {
        let taps = self.kernels.groups.first().map_or(0, |first| first.packed.taps());
        workers.shares(cost::products(self.ext.g * self.ext.c * self.ext.plane() * taps))
    }
}

fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

/// Kernels in order of preference.
pub static ROWS: &[Row] = &[
    Row {
        name: "gemv",
        accepts: |q| when(q.staging.is_gemv(), "the result has several places, or taps beside them"),
        run: |w| convolve_gemv(w.workers, w.query.kernels, *w.finish, w.from, w.to, w.query.ext),
    },
    Row {
        name: "nchwc16",
        accepts: |q| {
            when(!q.staging.unicast && q.kernels.are_blocks(), "coefficients are not packed in blocks of 16 channels")
        },
        run: |w| {
            let from = Operand { source: w.from, in_blocks: false, staging: w.query.staging };
            convolve_nchwc(w.workers, w.query.kernels, *w.finish, from, None, w.to, w.query.ext);
        },
    },
    Row {
        name: "packed gemm",
        accepts: |q| when(q.staging.is_pointwise(), "the window has several taps, a stride or padding"),
        run: |w| {
            let members = &[BatchMember { kernels: w.query.kernels, finish: *w.finish }];
            convolve_pointwise(w.workers, members, w.from, w.to, w.query.ext);
        },
    },
    Row {
        name: "winograd",
        accepts: |q| {
            let (window, channels) = (&q.staging.window, q.staging.channels);
            when(!q.transposed, "the result is stored transposed")?;
            when(!q.staging.unicast, "every channel reads channels of its own")?;
            when(q.kernels.kept.is_none(), "positions of the window are left out")?;
            when(winograd::is_profitable(window, channels, q.ext), "the window is not 3x3 at stride 1, or too little")?;
            when(q.kernels.groups.iter().all(|kernel| kernel.finite), "a coefficient is not finite")
        },
        run: |w| {
            let Work { workers, query: Query { staging, kernels, ext, .. }, finish, from, to } = w;
            let shared = w.query.shared(w.workers);
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
        accepts: |q| {
            when(q.staging.is_depthwise(), "channels do not each read one of their own, or the window has no code")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: direct,
    },
    Row {
        name: "unfolded gemm",
        accepts: |q| {
            when(!q.transposed, "the result is stored transposed")?;
            when(q.staging.is_small(q.ext.w), "rows are long enough to slide over")
        },
        run: direct,
    },
    Row { name: "direct", accepts: |_| Ok(()), run: direct },
];

fn direct(work: Work) {
    let Work { workers, query, finish, from, to } = work;
    let Query { staging, kernels, ext, transposed } = query;
    let small = !transposed && staging.is_small(ext.w);
    convolve_direct(workers, staging, kernels, finish, from, to, ext, small, query.shared(workers));
}

/// Selected kernel, and the name and reason of each kernel rejected before it.
pub fn select(query: &Query) -> (&'static Row, Vec<(&'static str, &'static str)>) {
    let mut rejected = Vec::new();
    for row in &ROWS[..ROWS.len() - 1] {
        match (row.accepts)(query) {
            Ok(()) => return (row, rejected),
            Err(why) => rejected.push((row.name, why)),
        }
    }
    (&ROWS[ROWS.len() - 1], rejected)
}

/// Selected kernel, as [`select`] finds it.
pub fn first(query: &Query) -> &'static Row {
    let last = &ROWS[ROWS.len() - 1];
    ROWS.iter().find(|row| (row.accepts)(query).is_ok()).unwrap_or(last)
}

impl Row {
    /// Executes a convolution that the kernel accepts.
    pub(super) fn run(&self, work: Work) {
        (self.run)(work);
    }
}
