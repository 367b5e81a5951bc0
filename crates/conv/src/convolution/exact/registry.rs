//! Kernel registry of convolutions with fixed-point accumulators, one row per kernel; the first row that accepts a convolution is selected.

use super::{Exact, Groups, by_channels, by_tiles, by_vector};
use crate::convolution::nchwc::{ExactAccumulator, Operand};
use crate::convolution::{Kernels, convolve_nchwc};
use anemone_kernels::cost;
use anemone_kernels::registry::{Rejected, when};
use anemone_kernels::tensor::Extents;
use anemone_kernels::view::{TensorView, TensorViewMut};
use anemone_kernels::workers::Workers;

/// A convolution to select a kernel for.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    pub of: &'a Exact<'a>,
    /// True if the result is stored with channels and columns exchanged.
    pub transposed: bool,
    /// Extents of the result before it is transposed.
    pub ext: Extents,
}

/// A convolution to execute; `ext` are the extents of the result before it is transposed.
pub struct Work<'a> {
    pub workers: &'a Workers,
    pub of: &'a Exact<'a>,
    pub from: TensorView<'a>,
    pub to: TensorViewMut<'a>,
    pub ext: Extents,
    /// Predicted single-thread time in nanoseconds, from the kernel's row.
    pub nanos: usize,
}

/// Layout of coefficients for fixed-point accumulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// In blocks of 16 channels, or in panels of 64 for GEMV.
    Blocks,
    /// Sets of the array, split by bit planes where sums need it.
    Sets,
}

impl Packing {
    fn of(groups: &Groups) -> Packing {
        match groups {
            Groups::Blocks(_) => Packing::Blocks,
            Groups::Sets(_) => Packing::Sets,
        }
    }
}

/// Predicted time of the convolution's multiply-accumulates.
fn products(query: &Query) -> usize {
    let (of, ext) = (query.of, query.ext);
    cost::exact_products(ext.g * ext.c * ext.plane() * of.channels * of.window.elements())
}

/// A kernel of the registry.
pub struct Row {
    pub name: &'static str,
    /// Layouts of coefficients that the kernel reads.
    pub packing: &'static [Packing],
    /// Tests whether the kernel accepts a convolution; the error is the reason for the rejection.
    accepts: fn(&Query) -> Result<(), &'static str>,
    /// Predicted single-thread time in nanoseconds, by which the work is split between threads.
    pub cost: fn(&Query) -> usize,
    run: fn(Work),
}

impl Row {
    /// Executes a convolution that the kernel accepts.
    pub(super) fn run(&self, work: Work) {
        (self.run)(work);
    }
}

/// Coefficients in blocks of channels, and the accumulator for an epilogue without a table; the error is the reason for the rejection.
fn in_blocks<'a>(of: &Exact<'a>) -> Result<(&'a Kernels, ExactAccumulator), &'static str> {
    let Groups::Blocks(kernels) = of.groups else { return Err(NOT_BLOCKS) };
    when(!of.unicast, "the convolution is depthwise")?;
    let clamp = of.exactly.clamp().ok_or("its epilogue is a table")?;
    Ok((kernels, ExactAccumulator { mac: of.mac, clamp }))
}

/// Kernels in order of preference.
pub static ROWS: &[Row] = &[
    Row {
        name: "exact gemv",
        packing: &[Packing::Blocks],
        cost: products,
        accepts: |q| {
            when(matches!(q.of.groups, Groups::Blocks(_)), NOT_BLOCKS)?;
            when(!q.of.unicast, "the convolution is depthwise")?;
            when(q.of.staging.is_gemv(), "the convolution is not 1x1 with a single output position")
        },
        run: by_vector,
    },
    Row {
        name: "exact nchwc16",
        packing: &[Packing::Blocks],
        cost: products,
        accepts: |q| in_blocks(q.of).map(|_| ()),
        run: |w| {
            let Ok((kernels, array)) = in_blocks(w.of) else { return };
            let from = Operand { source: w.from, factors: None, in_blocks: false, staging: w.of.staging };
            convolve_nchwc(w.workers, kernels, array, from, None, w.to, w.ext);
        },
    },
    Row {
        name: "exact depthwise",
        packing: &[Packing::Sets, Packing::Blocks],
        cost: products,
        accepts: |q| {
            when(q.of.unicast, "the convolution is not depthwise")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: by_channels,
    },
    Row {
        name: "exact gemm",
        packing: &[Packing::Sets, Packing::Blocks],
        cost: products,
        accepts: |_| Ok(()),
        run: by_tiles,
    },
];

/// Selected kernel, with the name and reason of each kernel rejected before it.
pub fn select(query: &Query) -> (&'static Row, Rejected) {
    let packing = Packing::of(&query.of.groups);
    let (row, rejected) = anemone_kernels::registry::select(
        ROWS,
        |row| row.name,
        |row| when(row.packing.contains(&packing), NOT_BLOCKS).and_then(|()| (row.accepts)(query)),
    );
    (row.map_or(&ROWS[ROWS.len() - 1], |(row, ())| row), rejected)
}

const NOT_BLOCKS: &str = "coefficients are not in blocks of channels";
