//! Scaled dot-product attention as matrix products and a softmax.

use super::{Builder, Built};
use crate::graph::{DType, ValueId};
use crate::ops::Binary;

impl Builder {
    /// `softmax(q kᵀ scale + mask) v`; a boolean mask adds the least finite number where it is false.
    pub fn attention(&mut self, [q, k, v]: [ValueId; 3], mask: Option<ValueId>, scale: f32) -> Built {
        let scores = self.matmul(q, k, true)?;
        let mut scores = self.with(Binary::Mul, scores, scale)?;
        if let Some(mask) = mask {
            scores = if self.dtype(mask) == DType::Bool {
                let least = if self.dtype(q) == DType::F16 { -65504.0 } else { f32::MIN };
                let hidden = self.scalar(least, q);
                self.select(mask, scores, hidden)?
            } else {
                self.binary(Binary::Add, scores, mask)?
            };
        }
        let axis = self.rank(scores) - 1;
        let weights = self.softmax(scores, axis)?;
        self.matmul(weights, v, false)
    }
}
