//! Constant coefficients of a layer, from the network's constant to the form of their streams.

use anemone_net::compress::Compression;
use anemone_net::{Data, Tensor};
use half::f16;
use half::vec::HalfFloatVecExt;
use std::sync::Arc;

/// Constant coefficients of a convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `[groups][out][in per out][kh][kw]`, as the engines have them in every form.
    pub values: Vec<f16>,
    /// Compression of the constant that they are from.
    pub compression: Compression,
    /// Encoding in the engines' streams.
    pub form: StreamForm,
}

/// Encoding of coefficients in the engines' streams (`docs/evidence.md`, keys `h13-kernel`, `h13-zero-skip` and
/// `book-streams`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StreamForm {
    /// Two bytes each; where a stride leaves places of the kernel empty, only those that are not.
    #[default]
    Fp16,
    /// Indices into a table of `2^bits` values.
    Palette {
        /// Width of an index: 4 or 8.
        bits: u32,
        /// The table; what it has no values for is zero.
        entries: Arc<[f16]>,
    },
    /// Masks, and the values that are not zero.
    ZeroSkipping,
}

impl From<Vec<f32>> for Weights {
    fn from(values: Vec<f32>) -> Weights {
        let values = Vec::from_f32_slice(&values);
        Weights { values, compression: Compression::default(), form: StreamForm::Fp16 }
    }
}

impl From<&Tensor> for Weights {
    fn from(tensor: &Tensor) -> Weights {
        let values = match tensor.data.dense().into_owned() {
            Data::F16(values) => values,
            other => Vec::from_f32_slice(&other.to_f32()),
        };
        Weights { values, compression: Compression::of(&tensor.data), form: StreamForm::Fp16 }
    }
}

impl Weights {
    /// Others made of the same constant.
    pub fn with(&self, values: Vec<f16>) -> Weights {
        Weights { values, compression: self.compression, form: StreamForm::Fp16 }
    }

    /// Each times a factor: still as few values, and the same zeros. `None` where one of them leaves fp16.
    pub fn scaled(&self, factor: f32) -> Option<Weights> {
        let values: Vec<f16> = self.values.iter().map(|w| f16::from_f32(w.to_f32() * factor)).collect();
        let held = values.iter().zip(&self.values).all(|(new, old)| new.is_finite() || !old.is_finite());
        held.then(|| self.with(values))
    }
}
