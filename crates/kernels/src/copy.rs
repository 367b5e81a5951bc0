//! Copies: strided boxes of elements, and rows converted between the element format in memory and fp32.

pub(crate) mod strided;

pub use strided::{CopyAxis, normalized, select, strided};

use crate::isa::Isa;
use crate::num;
use crate::params::ElementType;
use crate::tensor::Tensor;
use crate::view::TensorView;
use half::f16;
use pulp::{Simd, WithSimd};

/// Treatment of NaN in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanRule {
    /// NaN becomes quiet, as a conversion to fp32 and back makes it.
    Quiet,
    /// NaN becomes plus infinity.
    Infinity,
}

impl NanRule {
    #[inline(always)]
    pub fn quiet(x: f16) -> f16 {
        num::copied(x)
    }

    #[inline(always)]
    fn infinity(x: f16) -> f16 {
        num::elementwise::admit_half(x)
    }
}

/// Rounds a row in place to values that an element format represents.
pub fn through_row(arch: Isa, element: ElementType, row: &mut [f32]) {
    arch.dispatch(Through { element, row });
}

struct Through<'a> {
    element: ElementType,
    row: &'a mut [f32],
}

impl WithSimd for Through<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        num::through_row(self.element, self.row);
    }
}

/// Widens a view of fp16 elements to a dense fp32 tensor.
pub fn widen(arch: Isa, from: TensorView, to: &mut Tensor) {
    arch.dispatch(Widen { from, to });
}

struct Widen<'a> {
    from: TensorView<'a>,
    to: &'a mut Tensor,
}

impl WithSimd for Widen<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Tensor { ext, data } = self.to;
        let mut rows = data.chunks_exact_mut(ext.w.max(1));
        for g in 0..ext.g {
            for c in 0..ext.c {
                for (h, row) in rows.by_ref().take(ext.h).enumerate() {
                    num::widen_row(self.from.row(g, c, h, ext.w), row);
                }
            }
        }
    }
}
