//! Accumulators: how sums are formed, in fp32 or fixed point, with the epilogue behind them.

use super::tile::StoreSink;
use super::{Operand, ResidualAdd};
use crate::conv::{self, Kernels};
use crate::epilogue::{Between, Epilogue, Staged};
use crate::exact::bounds::Settled;
use crate::host::Rows;
use crate::params::AccumulatorSpec;
use crate::tensor::Extents;
use crate::view::{TensorView, TensorViewMut};
use crate::workers::Workers;
use half::f16;
use pulp::Simd;

/// How sums are formed, in fp32 or fixed point, with what follows them.
pub trait Accumulator: Copy + Sync {
    /// True for the accumulator of the exact array.
    const EXACT: bool;
    /// Outputs whose sums take about as long as to prepare a coefficient, and channels whose sums take as long as to pack what they
    /// read.
    const COSTS: [usize; 2];

    /// The exact array, where it is one.
    fn mac(self) -> Option<&'static AccumulatorSpec>;
    /// Does work with what follows sums, for vectors of them.
    fn with_after<S: Simd>(self, simd: S, work: impl Staged<S>);
    /// Lower and upper bound of results.
    fn bounds(self) -> [f32; 2];
    /// Table applied to results.
    fn look_up<S: Simd>(self, simd: S, to: &mut [f16], rows: Rows);
    /// All that follows sums, of a row that is used up.
    fn row<S: Simd>(self, simd: S, sums: &mut [f32], to: &mut [f16]);
    /// [`crate::conv::convolve_nchwc`] and [`crate::conv::FusedDepthwise::convolve`], compiled here.
    fn convolve_nchwc(
        self,
        workers: &Workers,
        kernels: &Kernels,
        from: Operand,
        residual: Option<ResidualAdd>,
        to: TensorViewMut,
        ext: Extents,
    );
    fn convolve_pair(
        pair: &conv::FusedDepthwise<Self>,
        workers: &Workers,
        from: TensorView,
        to: TensorViewMut,
        ext: Extents,
        in_blocks: bool,
    );
}

macro_rules! entries {
    () => {
        fn convolve_nchwc(
            self,
            workers: &Workers,
            kernels: &Kernels,
            from: Operand,
            residual: Option<ResidualAdd>,
            to: TensorViewMut,
            ext: Extents,
        ) {
            conv::convolve_nchwc(workers, kernels, self, from, residual, to, ext);
        }

        fn convolve_pair(
            pair: &conv::FusedDepthwise<Self>,
            workers: &Workers,
            from: TensorView,
            to: TensorViewMut,
            ext: Extents,
            in_blocks: bool,
        ) {
            pair.convolve(workers, from, to, ext, in_blocks);
        }
    };
}

/// The model `fast`.
impl Accumulator for Epilogue<'_> {
    const EXACT: bool = false;
    const COSTS: [usize; 2] = [10, 8];

    #[inline(always)]
    fn mac(self) -> Option<&'static AccumulatorSpec> {
        None
    }

    #[inline(always)]
    fn with_after<S: Simd>(self, simd: S, work: impl Staged<S>) {
        Epilogue::with_after(&self, simd, work);
    }

    fn bounds(self) -> [f32; 2] {
        [f32::NEG_INFINITY, f32::INFINITY]
    }

    #[inline(always)]
    fn look_up<S: Simd>(self, simd: S, to: &mut [f16], rows: Rows) {
        Epilogue::look_up(&self, simd, to, rows);
    }

    #[inline(always)]
    fn row<S: Simd>(self, _: S, sums: &mut [f32], to: &mut [f16]) {
        Epilogue::row(&self, 0.0, sums, to);
    }

    entries!();
}

/// An exact array for which [`crate::exact::bounds::suits`], whose results stay between two bounds.
#[derive(Clone, Copy)]
pub struct ExactAccumulator {
    pub mac: &'static AccumulatorSpec,
    pub bounds: [f32; 2],
}

impl Accumulator for ExactAccumulator {
    const EXACT: bool = true;
    const COSTS: [usize; 2] = [20, 16];

    #[inline(always)]
    fn mac(self) -> Option<&'static AccumulatorSpec> {
        Some(self.mac)
    }

    #[inline(always)]
    fn with_after<S: Simd>(self, simd: S, work: impl Staged<S>) {
        work.with(simd, Settled(Between(self.bounds)));
    }

    #[inline(always)]
    fn bounds(self) -> [f32; 2] {
        self.bounds
    }

    fn look_up<S: Simd>(self, _: S, _: &mut [f16], _: Rows) {}

    #[inline(always)]
    fn row<S: Simd>(self, simd: S, sums: &mut [f32], to: &mut [f16]) {
        StoreSink::Halves(to).settle(simd, self, sums, sums.len(), &|_, i| i);
    }

    entries!();
}
