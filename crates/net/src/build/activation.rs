//! Activations with operands besides `x`.

use super::{Builder, Built};
use crate::graph::ValueId;
use crate::ops::Binary;

impl Builder {
    /// Leaky ReLU with a tensor of slopes, which broadcasts to `x`. Integers are selected; numbers take `max(x, slope x)` if no constant
    /// slope is above 1, else `max(x, 0) + slope min(x, 0)`.
    pub fn prelu(&mut self, x: ValueId, slope: ValueId) -> Built {
        if !self.dtype(x).is_float() {
            let zero = self.scalar(0.0, x);
            let scaled = self.binary(Binary::Mul, x, slope)?;
            let below = self.binary(Binary::Less, x, zero)?;
            return self.select(below, scaled, x);
        }
        // A slope of zero would make infinity NaN.
        let is_maximum = |slope: &f32| *slope <= 1.0 && *slope != 0.0;
        if self.data(slope).is_some_and(|slopes| slopes.data.to_f32().iter().all(is_maximum)) {
            let scaled = self.binary(Binary::Mul, x, slope)?;
            return self.binary(Binary::Max, x, scaled);
        }
        let zero = self.scalar(0.0, x);
        let above = self.binary(Binary::Max, x, zero)?;
        let below = self.binary(Binary::Min, x, zero)?;
        let scaled = self.binary(Binary::Mul, below, slope)?;
        self.binary(Binary::Add, above, scaled)
    }
}
