//! Accumulators, in fp32 or fixed point, with their epilogues.

use super::tile::StoreSink;
use super::{Operand, ResidualAdd};
use crate::convolution::{self, Kernels};
use anemone_kernels::epilogue::{Activation, Between, Epilogue, ScaledClamp, Staged};
use anemone_kernels::exact::bounds::Settled;
use anemone_kernels::host::Rows;
use anemone_kernels::params::AccumulatorSpec;
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut};
use anemone_kernels::workers::Workers;
use half::f16;
use pulp::Simd;

/// Accumulation in fp32 or fixed point, and the epilogue of the sums.
pub trait Accumulator: Copy + Sync {
    /// True for a fixed-point accumulator.
    const EXACT: bool;
    /// Cost model: preparing a coefficient costs as much as the sums of so many outputs, packing an operand as much as the sums of so many
    /// channels.
    const COSTS: [usize; 2];

    /// The fixed-point accumulator; `None` for fp32.
    fn mac(self) -> Option<&'static AccumulatorSpec>;
    /// Runs `work` with the vector stages of the epilogue.
    fn with_after<S: Simd>(self, simd: S, work: impl Staged<S>);
    /// Lower and upper bound of the results.
    fn bounds(self) -> [f32; 2];
    /// Applies the table of the epilogue, if any, to rounded results.
    fn look_up<S: Simd>(self, simd: S, to: &mut [f16], rows: Rows);
    /// [`Accumulator::look_up`] for results held in fp32.
    fn look_up_wide<S: Simd>(self, simd: S, row: &mut [f32]);
    /// Applies the complete epilogue to a row of sums, which is overwritten.
    fn row<S: Simd>(self, simd: S, sums: &mut [f32], to: &mut [f16]);
    /// [`crate::convolution::convolve_nchwc`] and [`crate::convolution::FusedDepthwise::convolve`], instantiated in this crate.
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
        pair: &convolution::FusedDepthwise<Self>,
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
            convolution::convolve_nchwc(workers, kernels, self, from, residual, to, ext);
        }

        fn convolve_pair(
            pair: &convolution::FusedDepthwise<Self>,
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

/// fp32 accumulation: the model `fast`.
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
    fn look_up_wide<S: Simd>(self, simd: S, row: &mut [f32]) {
        if let Activation::Table(table) = self.activation {
            table.wide(simd, row);
        }
    }

    #[inline(always)]
    fn row<S: Simd>(self, _: S, sums: &mut [f32], to: &mut [f16]) {
        Epilogue::row(&self, 0.0, sums, to);
    }

    entries!();
}

/// Fixed-point accumulator for which [`anemone_kernels::exact::bounds::suits`], with an epilogue without a table.
#[derive(Clone, Copy)]
pub struct ExactAccumulator {
    pub mac: &'static AccumulatorSpec,
    pub clamp: ScaledClamp,
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
        match self.clamp.scale {
            1.0 => work.with(simd, Settled(Between(self.clamp.bounds))),
            _ => work.with(simd, Settled(self.clamp)),
        }
    }

    #[inline(always)]
    fn bounds(self) -> [f32; 2] {
        self.clamp.bounds
    }

    fn look_up<S: Simd>(self, _: S, _: &mut [f16], _: Rows) {}

    fn look_up_wide<S: Simd>(self, _: S, _: &mut [f32]) {}

    #[inline(always)]
    fn row<S: Simd>(self, simd: S, sums: &mut [f32], to: &mut [f16]) {
        StoreSink::Halves(to).store_sums(simd, self, sums, sums.len(), &|_, i| i);
    }

    entries!();
}
