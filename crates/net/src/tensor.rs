//! Tensors: dense elements in memory, or elements in the form of their file.

pub mod stored;

use crate::types::{DType, TensorType};
use half::f16;
use half::slice::HalfFloatSliceExt;
use half::vec::HalfFloatVecExt;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;
use stored::{Element, Form, Stored};

/// Elements that [`Data::visit_rows`] converts at once: few enough for a core's own cache.
const VISITED: usize = 1 << 14;

/// Elements of a tensor, row-major (last axis fastest). Equality compares elements, independent of their stored form.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Data {
    F16(Vec<f16>),
    F32(Vec<f32>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
    I32(Vec<i32>),
    Bool(Vec<bool>),
    /// Stored in the form of the file, perhaps compressed; [`Data::dense`] expands them.
    Stored(Arc<Stored>),
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        match (self, other) {
            (Data::F16(a), Data::F16(b)) => a == b,
            (Data::F32(a), Data::F32(b)) => a == b,
            (Data::I8(a), Data::I8(b)) => a == b,
            (Data::U8(a), Data::U8(b)) => a == b,
            (Data::I16(a), Data::I16(b)) => a == b,
            (Data::U16(a), Data::U16(b)) => a == b,
            (Data::I32(a), Data::I32(b)) => a == b,
            (Data::Bool(a), Data::Bool(b)) => a == b,
            (Data::Stored(a), Data::Stored(b)) if a == b => true,
            (Data::Stored(_), _) | (_, Data::Stored(_)) => *self.dense() == *other.dense(),
            _ => false,
        }
    }
}

impl Data {
    /// Dense elements, expanded if they are stored in another form.
    pub fn dense(&self) -> Cow<'_, Data> {
        match self {
            Data::Stored(stored) => Cow::Owned(stored.dense()),
            made => Cow::Borrowed(made),
        }
    }

    /// A slice of the elements, if they are fp16 and contiguous: dense, or in a file with this host's byte order.
    pub fn as_f16(&self) -> Option<&[f16]> {
        match self {
            Data::F16(v) => Some(v),
            Data::Stored(stored) => stored.as_f16(),
            _ => None,
        }
    }

    /// Size of the stored form in bytes.
    pub fn stored_bytes(&self) -> usize {
        match self {
            Data::Stored(stored) => stored.stored_bytes(),
            made => made.len() * made.dtype().bytes(),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Data::F16(v) => v.len(),
            Data::F32(v) => v.len(),
            Data::I8(v) => v.len(),
            Data::U8(v) => v.len(),
            Data::I16(v) => v.len(),
            Data::U16(v) => v.len(),
            Data::I32(v) => v.len(),
            Data::Bool(v) => v.len(),
            Data::Stored(stored) => stored.count(),
        }
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Data::F16(_) => DType::F16,
            Data::F32(_) => DType::F32,
            Data::I8(_) => DType::I8,
            Data::U8(_) => DType::U8,
            Data::I16(_) => DType::I16,
            Data::U16(_) => DType::U16,
            Data::I32(_) => DType::I32,
            Data::Bool(_) => DType::Bool,
            Data::Stored(stored) => stored.dtype(),
        }
    }

    /// As [`Data::to_f32`], without a copy of dense `f32` elements.
    pub fn floats(&self) -> Cow<'_, [f32]> {
        match self {
            Data::F32(v) => Cow::Borrowed(v),
            other => Cow::Owned(other.to_f32()),
        }
    }

    /// Elements as `f32`; `I32` beyond 2^24 rounds, truth values become 0 and 1.
    pub fn to_f32(&self) -> Vec<f32> {
        match self {
            Data::F16(v) => v.to_f32_vec(),
            Data::F32(v) => v.clone(),
            Data::I8(v) => v.iter().map(|&x| x as f32).collect(),
            Data::U8(v) => v.iter().map(|&x| x as f32).collect(),
            Data::I16(v) => v.iter().map(|&x| x as f32).collect(),
            Data::U16(v) => v.iter().map(|&x| x as f32).collect(),
            Data::I32(v) => v.iter().map(|&x| x as f32).collect(),
            Data::Bool(v) => v.iter().map(|&x| x as u8 as f32).collect(),
            Data::Stored(stored) => stored.to_f32(),
        }
    }

    /// [`Data::to_f32`] without a copy of elements that are `f32`.
    pub fn as_f32(&self) -> Cow<'_, [f32]> {
        match self {
            Data::F32(v) => Cow::Borrowed(v),
            _ => Cow::Owned(self.to_f32()),
        }
    }

    /// Copies elements from a position on, for threads that each read a part. Returns false for types and forms of which no part is read alone.
    pub fn read_f32(&self, at: usize, to: &mut [f32]) -> bool {
        let end = at + to.len();
        match self {
            Data::F32(v) => to.copy_from_slice(&v[at..end]),
            Data::F16(v) => v[at..end].convert_to_f32_slice(to),
            Data::Stored(stored) => match stored.form() {
                Form::Plain { element: Element::Float32, bytes } => {
                    let words = &bytes.as_chunks().0[at..end];
                    to.iter_mut().zip(words).for_each(|(to, &word)| *to = f32::from_le_bytes(word));
                }
                Form::Plain { element: Element::Float16, bytes } => {
                    let words = &bytes.as_chunks().0[at..end];
                    to.iter_mut().zip(words).for_each(|(to, &word)| *to = f16::from_le_bytes(word).to_f32());
                }
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    /// Passes the elements as `f32` to `visit`, in order and in runs of whole rows of `width` elements, until it breaks. Floats of a file are
    /// converted a run at a time.
    pub fn visit_rows(&self, width: usize, visit: &mut dyn FnMut(&[f32]) -> ControlFlow<()>) -> ControlFlow<()> {
        let width = width.max(1);
        let run = width * (VISITED / width).max(1);
        let mut buffer = vec![0.0; run.min(self.len())];
        match self {
            Data::F32(v) => v.chunks(run).try_for_each(visit),
            Data::F16(v) => v.chunks(run).try_for_each(|halves| {
                let part = &mut buffer[..halves.len()];
                halves.convert_to_f32_slice(part);
                visit(part)
            }),
            Data::Stored(stored) => match stored.form() {
                Form::Plain { element: Element::Float32, bytes } => {
                    bytes.as_chunks().0[..self.len()].chunks(run).try_for_each(|words| {
                        let part = &mut buffer[..words.len()];
                        part.iter_mut().zip(words).for_each(|(to, &word)| *to = f32::from_le_bytes(word));
                        visit(part)
                    })
                }
                Form::Plain { element: Element::Float16, bytes } => {
                    let mut halves = vec![f16::ZERO; buffer.len()];
                    bytes.as_chunks().0[..self.len()].chunks(run).try_for_each(|words| {
                        let (part, halves) = (&mut buffer[..words.len()], &mut halves[..words.len()]);
                        halves.iter_mut().zip(words).for_each(|(to, &word)| *to = f16::from_le_bytes(word));
                        halves.convert_to_f32_slice(part);
                        visit(part)
                    })
                }
                _ => stored.to_f32().chunks(run).try_for_each(visit),
            },
            _ => self.to_f32().chunks(run).try_for_each(visit),
        }
    }

    /// Passes the bytes that determine these elements to `sink`, in their stored form, without expanding them.
    pub fn stored(&self, sink: &mut dyn FnMut(&[u8])) {
        match self {
            Data::Stored(stored) => stored.feed(sink),
            Data::I32(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::F32(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::F16(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::I16(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::U16(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::I8(v) => v.iter().for_each(|x| sink(&x.to_le_bytes())),
            Data::U8(v) => sink(v),
            Data::Bool(v) => v.iter().for_each(|&x| sink(&[u8::from(x)])),
        }
    }

    /// Elements as `i32`; floats truncate and saturate, truth values become 0 and 1.
    pub fn to_i32(&self) -> Vec<i32> {
        match self {
            Data::F16(v) => v.iter().map(|x| x.to_f32() as i32).collect(),
            Data::F32(v) => v.iter().map(|&x| x as i32).collect(),
            Data::I8(v) => v.iter().map(|&x| x.into()).collect(),
            Data::U8(v) => v.iter().map(|&x| x.into()).collect(),
            Data::I16(v) => v.iter().map(|&x| x.into()).collect(),
            Data::U16(v) => v.iter().map(|&x| x.into()).collect(),
            Data::I32(v) => v.clone(),
            Data::Bool(v) => v.iter().map(|&x| x.into()).collect(),
            Data::Stored(stored) => stored.dense().to_i32(),
        }
    }

    /// Elements of that type from `f32`: floats round to nearest, integers truncate and saturate, non-zero numbers are
    /// true.
    pub fn from_f32(dtype: DType, values: &[f32]) -> Data {
        match dtype {
            DType::F16 => Data::F16(Vec::from_f32_slice(values)),
            DType::F32 => Data::F32(values.to_vec()),
            DType::I8 => Data::I8(values.iter().map(|&x| x as i8).collect()),
            DType::U8 => Data::U8(values.iter().map(|&x| x as u8).collect()),
            DType::I16 => Data::I16(values.iter().map(|&x| x as i16).collect()),
            DType::U16 => Data::U16(values.iter().map(|&x| x as u16).collect()),
            DType::I32 => Data::I32(values.iter().map(|&x| x as i32).collect()),
            DType::Bool => Data::Bool(values.iter().map(|&x| x != 0.0).collect()),
        }
    }

    /// The elements after a function, each rounded once to the element type.
    pub fn mapped(&self, f: impl Fn(f32) -> f32) -> Data {
        let mut made = Vec::with_capacity(self.len());
        let _ = self.visit_rows(1, &mut |part| {
            made.extend(part.iter().map(|&x| f(x)));
            ControlFlow::Continue(())
        });
        match self.dtype() {
            DType::F32 => Data::F32(made),
            other => Data::from_f32(other, &made),
        }
    }

    /// The elements after a function, in fp16, converted in a buffer: pages of zeros would be written twice.
    pub fn mapped_to_f16(&self, f: impl Fn(f32) -> f32) -> Vec<f16> {
        const RUN: usize = 2048;
        let (mut made, mut numbers, mut halves) = (Vec::with_capacity(self.len()), [0f32; RUN], [f16::ZERO; RUN]);
        let _ = self.visit_rows(1, &mut |part| {
            for part in part.chunks(RUN) {
                let (numbers, halves) = (&mut numbers[..part.len()], &mut halves[..part.len()]);
                numbers.iter_mut().zip(part).for_each(|(to, &x)| *to = f(x));
                halves.convert_from_f32_slice(numbers);
                made.extend_from_slice(halves);
            }
            ControlFlow::Continue(())
        });
        made
    }

    /// Elements of that type from `i32`: floats round to nearest, narrower integers saturate, non-zero numbers are true.
    pub fn from_i32(dtype: DType, values: &[i32]) -> Data {
        match dtype {
            DType::F16 => Data::F16(values.iter().map(|&x| f16::from_f32(x as f32)).collect()),
            DType::F32 => Data::F32(values.iter().map(|&x| x as f32).collect()),
            DType::I8 => Data::I8(values.iter().map(|&x| x.clamp(-128, 127) as i8).collect()),
            DType::U8 => Data::U8(values.iter().map(|&x| x.clamp(0, 255) as u8).collect()),
            DType::I16 => Data::I16(values.iter().map(|&x| x.clamp(-32768, 32767) as i16).collect()),
            DType::U16 => Data::U16(values.iter().map(|&x| x.clamp(0, 65535) as u16).collect()),
            DType::I32 => Data::I32(values.to_vec()),
            DType::Bool => Data::Bool(values.iter().map(|&x| x != 0).collect()),
        }
    }

    /// Elements of that type from little-endian bytes; a partial last element is dropped.
    pub fn from_le_bytes(dtype: DType, bytes: &[u8]) -> Data {
        match dtype {
            DType::F16 => Data::F16(bytes.as_chunks().0.iter().map(|&b| f16::from_le_bytes(b)).collect()),
            DType::F32 => Data::F32(bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
            DType::I8 => Data::I8(bytes.iter().map(|&b| b as i8).collect()),
            DType::U8 => Data::U8(bytes.to_vec()),
            DType::I16 => Data::I16(bytes.as_chunks().0.iter().map(|&b| i16::from_le_bytes(b)).collect()),
            DType::U16 => Data::U16(bytes.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect()),
            DType::I32 => Data::I32(bytes.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect()),
            DType::Bool => Data::Bool(bytes.iter().map(|&b| b != 0).collect()),
        }
    }
}

/// A tensor with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents in elements; their product is the number of elements in `data`.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Data,
}

impl Tensor {
    /// A tensor of `f32`.
    pub fn f32(shape: impl Into<Vec<usize>>, values: Vec<f32>) -> Self {
        Tensor { shape: shape.into(), data: Data::F32(values) }
    }

    /// A tensor of `f16`, each element rounded to nearest.
    pub fn f16(shape: impl Into<Vec<usize>>, values: &[f32]) -> Self {
        Tensor { shape: shape.into(), data: Data::from_f32(DType::F16, values) }
    }

    /// A tensor of `i32`.
    pub fn i32(shape: impl Into<Vec<usize>>, values: Vec<i32>) -> Self {
        Tensor { shape: shape.into(), data: Data::I32(values) }
    }

    /// Type of the tensor.
    pub fn ty(&self) -> TensorType {
        TensorType { dtype: self.data.dtype(), shape: self.shape.clone() }
    }

    /// The same values in another element type; conversions as [`Data::from_f32`] and [`Data::from_i32`].
    pub fn cast(&self, dtype: DType) -> Tensor {
        let data = if self.data.dtype() == dtype {
            self.data.dense().into_owned()
        } else if self.data.dtype().is_float() {
            Data::from_f32(dtype, &self.data.to_f32())
        } else {
            Data::from_i32(dtype, &self.data.to_i32())
        };
        Tensor { shape: self.shape.clone(), data }
    }
}
