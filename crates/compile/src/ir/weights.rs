//! Constant coefficients of a layer, from the network's constant to their stream format.

use anemone_net::compress::Compression;
use anemone_net::{DType, Data, Tensor};
use half::f16;
use half::vec::HalfFloatVecExt;
use std::fmt::{Debug, Formatter};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Constant coefficients of a convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `[groups][out][in per out][kh][kw]`, the order of the engines' streams in every format.
    pub values: Halves,
    /// Compression of the constant that they were made of.
    pub compression: Compression,
    /// Encoding in the engines' streams.
    pub form: StreamForm,
}

/// Encoding of coefficients in the engines' streams (`docs/evidence.md`, keys `h13-kernel`, `h13-zero-skip` and
/// `book-streams`).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StreamForm {
    /// Two bytes each; if a stride leaves positions of the kernel unused, only the others.
    #[default]
    Fp16,
    /// Indices into a table of `2^bits` values.
    Palette {
        /// Width of an index: 4 or 8.
        bits: u32,
        /// The palette, padded with zeros.
        entries: Arc<[f16]>,
    },
    /// Masks, and the values that are not zero.
    ZeroSkipping,
    /// One byte each, signed (`docs/evidence.md`, key `h13-bytes`).
    Int8,
}

impl From<Vec<f32>> for Weights {
    fn from(values: Vec<f32>) -> Weights {
        let values = Vec::from_f32_slice(&values).into();
        Weights { values, compression: Compression::default(), form: StreamForm::Fp16 }
    }
}

impl From<&Arc<Tensor>> for Weights {
    fn from(tensor: &Arc<Tensor>) -> Weights {
        Weights { values: Halves::of(tensor), compression: Compression::of(&tensor.data), form: StreamForm::Fp16 }
    }
}

/// Coefficients in fp16, owned or a range of a constant. A model file is memory-mapped, so that weights of a range are resident only
/// while they are read.
#[derive(Clone)]
pub enum Halves {
    /// Computed by a rewrite.
    Own(Vec<f16>),
    /// Elements of a constant, converted by [`Data::as_f16`] on access.
    Shared(Arc<Tensor>, Range<usize>),
}

impl Halves {
    fn of(tensor: &Arc<Tensor>) -> Halves {
        if let Some(values) = tensor.data.as_f16() {
            return Halves::Shared(tensor.clone(), 0..values.len());
        }
        if tensor.data.dtype() == DType::F16 {
            return match tensor.data.dense().into_owned() {
                Data::F16(values) => Halves::Own(values),
                other => Halves::Own(Vec::from_f32_slice(&other.to_f32())),
            };
        }
        Halves::Own(tensor.data.mapped_to_f16(|x| x))
    }

    /// The same as a constant of fp16, which copies share.
    fn shared(self) -> Halves {
        let Halves::Own(values) = self else { return self };
        let count = values.len();
        Halves::Shared(Arc::new(Tensor { shape: vec![count], data: Data::F16(values) }), 0..count)
    }

    /// The constant that they are elements of, and which.
    pub fn shared_range(&self) -> Option<(&Arc<Tensor>, &Range<usize>)> {
        if let Halves::Shared(tensor, range) = self { Some((tensor, range)) } else { None }
    }

    /// The coefficients of a range, without a copy for those of a constant.
    pub fn part(&self, range: Range<usize>) -> Halves {
        match self {
            Halves::Own(values) => Halves::Own(values[range].to_vec()),
            Halves::Shared(tensor, whole) => {
                Halves::Shared(tensor.clone(), whole.start + range.start..whole.start + range.end)
            }
        }
    }
}

impl From<Vec<f16>> for Halves {
    fn from(values: Vec<f16>) -> Halves {
        Halves::Own(values)
    }
}

impl Deref for Halves {
    type Target = [f16];

    fn deref(&self) -> &[f16] {
        match self {
            Halves::Own(values) => values,
            Halves::Shared(tensor, range) => &tensor.data.as_f16().unwrap_or(&[])[range.clone()],
        }
    }
}

impl PartialEq for Halves {
    fn eq(&self, other: &Halves) -> bool {
        **self == **other
    }
}

impl Debug for Halves {
    fn fmt(&self, f: &mut Formatter) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl Weights {
    /// Those of a constant that several layers read: converted once.
    pub fn shared(tensor: &Arc<Tensor>) -> Weights {
        let own = Weights::from(tensor);
        Weights { values: own.values.shared(), ..own }
    }

    /// Others made of the same constant.
    pub fn with(&self, values: impl Into<Halves>) -> Weights {
        Weights { values: values.into(), compression: self.compression, form: StreamForm::Fp16 }
    }

    /// Multiplies each coefficient by a factor, which preserves zeros and the number of distinct values. `None` if one exceeds fp16.
    pub fn scaled(&self, factor: f32) -> Option<Weights> {
        let given: &[f16] = &self.values;
        let values: Vec<f16> = given.iter().map(|w| f16::from_f32(w.to_f32() * factor)).collect();
        let held = values.iter().zip(given).all(|(new, old)| new.is_finite() || !old.is_finite());
        held.then(|| self.with(values))
    }
}
