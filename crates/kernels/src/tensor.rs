//! Dense tensors: groups by channels by rows by columns, with contiguous columns.

use std::fmt;

/// Largest number of elements of an operand: 1 GiB of fp32, a full 16384 x 16384 plane.
pub const LIMIT: u64 = 1 << 28;

/// Failure to create a tensor beyond [`LIMIT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeError {
    /// Requested number of elements.
    pub elements: u64,
    /// Largest number of elements.
    pub limit: u64,
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "a tensor of {} elements exceeds the limit of {}", self.elements, self.limit)
    }
}

impl std::error::Error for SizeError {}

/// Extents of an operand or result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Groups.
    pub g: usize,
    /// Channels per group.
    pub c: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
}

impl Extents {
    pub fn array(self) -> [usize; 4] {
        [self.g, self.c, self.h, self.w]
    }

    pub fn plane(self) -> usize {
        self.h * self.w
    }

    /// Number of elements; an error beyond [`LIMIT`].
    pub fn elements(self) -> Result<usize, SizeError> {
        let n = self.array().iter().try_fold(1u64, |a, &b| a.checked_mul(b as u64)).unwrap_or(u64::MAX);
        if n > LIMIT {
            return Err(SizeError { elements: n, limit: LIMIT });
        }
        Ok(n as usize)
    }

    /// Extents with channels and columns exchanged.
    pub fn transposed(self) -> Extents {
        Extents { c: self.w, w: self.c, ..self }
    }
}

/// Extents and elements, stored densely in the order group, channel, row, column.
#[derive(Clone, Debug)]
pub struct Tensor<T = f32> {
    pub ext: Extents,
    pub data: Vec<T>,
}

impl Tensor {
    pub fn zeros(ext: Extents) -> Result<Tensor, SizeError> {
        Ok(Tensor { ext, data: vec![0.0; ext.elements()?] })
    }

    /// Copy with channels and columns exchanged.
    pub fn transposed(&self) -> Tensor {
        let (e, t) = (self.ext, self.ext.transposed());
        let mut data = vec![0.0; self.data.len()];
        for g in 0..e.g {
            for c in 0..e.c {
                for h in 0..e.h {
                    let row = &self.data[((g * e.c + c) * e.h + h) * e.w..][..e.w];
                    for (w, &x) in row.iter().enumerate() {
                        data[((g * t.c + w) * t.h + h) * t.w + c] = x;
                    }
                }
            }
        }
        Tensor { ext: t, data }
    }
}
