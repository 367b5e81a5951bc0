//! Element types and shapes, and the largest size of a tensor.

use std::fmt;

/// Most elements of a tensor: a bound on the memory that a declared shape can make a reader or the evaluator allocate.
pub const MAX_ELEMENTS: usize = 1 << 30;

/// Highest rank of a tensor.
pub const MAX_RANK: usize = 8;

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum DType {
    F16,
    F32,
    I8,
    U8,
    I16,
    U16,
    I32,
    Bool,
}

impl DType {
    /// Every element type.
    pub const ALL: [DType; 8] =
        [DType::F16, DType::F32, DType::I8, DType::U8, DType::I16, DType::U16, DType::I32, DType::Bool];

    /// Name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::F32 => "f32",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I32 => "i32",
            DType::Bool => "bool",
        }
    }

    /// Size of one element in bytes.
    pub fn bytes(self) -> usize {
        match self {
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Least and greatest value of 8-bit and 16-bit integers; `None` for other types.
    pub fn narrow_range(self) -> Option<(i32, i32)> {
        match self {
            DType::I8 => Some((-128, 127)),
            DType::U8 => Some((0, 255)),
            DType::I16 => Some((-32768, 32767)),
            DType::U16 => Some((0, 65535)),
            DType::F16 | DType::F32 | DType::I32 | DType::Bool => None,
        }
    }

    /// Returns true for floating-point elements.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32)
    }

    /// Returns true for integer elements; truth values are not integers.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != DType::Bool
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Element type and extents, outermost axis first. Rank 0 is a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents in elements.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// A type from its parts.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        TensorType { dtype, shape: shape.into() }
    }

    /// Number of elements, saturating.
    pub fn elements(&self) -> usize {
        elements(&self.shape)
    }
}

/// As the text form: `f16[1, 3, 224, 224]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// Product of extents, saturating; 1 for rank 0.
pub fn elements(shape: &[usize]) -> usize {
    // A zero extent makes the product zero, even if others overflow.
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |n, &d| n.saturating_mul(d)) }
}
