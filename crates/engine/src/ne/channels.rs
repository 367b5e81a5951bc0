//! Maximum, sum and product over channels, in fp32.

use crate::fault::FaultKind;
use crate::machine::Machine;
use anemone_facts::Field::*;
use anemone_kernels::cost;
use anemone_kernels::tensor::{Extents, Tensor};
use anemone_kernels::workers::chunks;

/// Output channel `c` is the maximum of the `per` input channels from `c * per` on.
pub(super) fn max_over_channels(x: &Tensor, output: Extents, per: usize) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let n = x.ext.plane().max(1);
    chunks(&mut y.data, n, cost::one_by_one(x.data.len()), |i, y| {
        let x = &x.data[i * n * per..][..n * per];
        y.copy_from_slice(&x[..n]);
        for plane in x.chunks_exact(n).skip(1) {
            for (y, &x) in y.iter_mut().zip(plane) {
                *y = y.max(x);
            }
        }
    });
    Ok(y)
}

/// Output channel `c` is the product of the input channels `2c` and `2c + 1`: of two fp16 numbers, it is exact in fp32.
pub(super) fn product_of_channels(x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let n = x.ext.plane().max(1);
    chunks(&mut y.data, n, cost::one_by_one(x.data.len()), |i, y| {
        let (a, b) = x.data[2 * i * n..][..2 * n].split_at(n);
        for (y, (a, b)) in y.iter_mut().zip(a.iter().zip(b)) {
            *y = a * b;
        }
    });
    Ok(y)
}

/// Output channel `c` is the sum of the input channels of its group.
pub(super) fn sum_of_channels(x: &Tensor, output: Extents) -> Result<Tensor, FaultKind> {
    let mut y = Tensor::zeros(output)?;
    let (n, c) = (x.ext.plane().max(1), x.ext.c);
    chunks(&mut y.data, n, cost::one_by_one(x.data.len()), |i, y| {
        let x = x.data[i * n * c..].chunks_exact(n).take(c);
        x.for_each(|plane| y.iter_mut().zip(plane).for_each(|(y, &x)| *y += x));
    });
    Ok(y)
}

impl Machine<'_> {
    /// Refuses a window, which needs a kernel.
    pub(super) fn no_window(&self) -> Result<(), FaultKind> {
        for field in [Kw, Kh, Sx, Sy] {
            self.require(field, 1, "no window without a kernel")?;
        }
        for field in [Px, Py] {
            self.require(field, 0, "no padding without a kernel")?;
        }
        Ok(())
    }
}
