//! Kernel registry of convolutions of the exact array, one row each: the first row that accepts a convolution is selected.

use super::{Exact, Groups, by_channels, by_tiles};
use crate::conv::nchwc::{ExactAccumulator, Operand};
use crate::conv::{Kernels, convolve_gemv, convolve_nchwc};
use crate::tensor::Extents;
use crate::view::{TensorView, TensorViewMut};
use crate::workers::Workers;

/// A convolution to select a kernel for.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    pub of: &'a Exact<'a>,
    /// True if the result is stored with channels and columns exchanged.
    pub transposed: bool,
}

/// A convolution to execute; `ext` is the result's extents before it is transposed.
pub struct Work<'a> {
    pub workers: &'a Workers,
    pub of: &'a Exact<'a>,
    pub from: TensorView<'a>,
    pub to: TensorViewMut<'a>,
    pub ext: Extents,
}

/// A kernel of the registry.
pub struct Row {
    pub name: &'static str,
    /// Tests whether the kernel accepts a convolution; the error is the reason why not.
    pub accepts: fn(&Query) -> Result<(), &'static str>,
    run: fn(Work),
}

impl Row {
    /// Executes a convolution that the kernel accepts.
    pub(super) fn run(&self, work: Work) {
        (self.run)(work);
    }
}

fn when(holds: bool, else_because: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(else_because) }
}

/// Coefficients in blocks of channels and the accumulator of sums between two bounds; the error is the reason why there are none.
fn in_blocks<'a>(of: &Exact<'a>) -> Result<(&'a Kernels, ExactAccumulator), &'static str> {
    let Groups::Blocks(kernels) = of.groups else { return Err("coefficients are not in blocks of channels") };
    when(!of.unicast, "every channel reads channels of its own")?;
    let bounds = of.exactly.bounds().ok_or("its epilogue is more than two bounds")?;
    Ok((kernels, ExactAccumulator { mac: of.mac, bounds }))
}

/// Kernels in order of preference.
pub static ROWS: &[Row] = &[
    Row {
        name: "exact gemv",
        accepts: |q| {
            in_blocks(q.of)?;
            when(q.of.staging.is_gemv(), "the result has several places, or taps beside them")
        },
        run: |w| {
            let Ok((kernels, array)) = in_blocks(w.of) else { return };
            convolve_gemv(w.workers, kernels, array, w.from, w.to, w.ext);
        },
    },
    Row {
        name: "exact nchwc16",
        accepts: |q| in_blocks(q.of).map(|_| ()),
        run: |w| {
            let Ok((kernels, array)) = in_blocks(w.of) else { return };
            let from = Operand { source: w.from, in_blocks: false, staging: w.of.staging };
            convolve_nchwc(w.workers, kernels, array, from, None, w.to, w.ext);
        },
    },
    Row {
        name: "exact channels one by one",
        accepts: |q| {
            when(q.of.unicast, "an output reads all channels")?;
            when(!q.transposed, "the result is stored transposed")
        },
        run: by_channels,
    },
    Row { name: "exact tiles", accepts: |_| Ok(()), run: by_tiles },
];

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
