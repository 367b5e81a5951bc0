//! The network graph: values, operations in definition order, inputs and outputs.

use crate::ops::OpKind;
use crate::stored::Stored;
use half::f16;
use half::slice::HalfFloatSliceExt;
use half::vec::HalfFloatVecExt;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Most elements a tensor may have; a bound on what one declared shape can make a reader or the evaluator allocate.
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

    /// Name as the text form spells it.
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

    /// Returns true for floating-point elements.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32)
    }

    /// Returns true for integer elements; truth values are none.
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

/// As the text form spells it: `f16[1, 3, 224, 224]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// Product of extents, saturating; 1 for rank 0.
pub fn elements(shape: &[usize]) -> usize {
    // A zero extent makes the product zero whatever the others overflow to.
    if shape.contains(&0) { 0 } else { shape.iter().fold(1, |n, &d| n.saturating_mul(d)) }
}

/// Elements of a tensor, row-major (last axis fastest). Two are equal where their elements are, however stored.
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
    /// As the file has them, perhaps compressed; [`Data::dense`] makes the elements.
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
    /// The elements themselves, made where they are stored otherwise.
    pub fn dense(&self) -> Cow<'_, Data> {
        match self {
            Data::Stored(stored) => Cow::Owned(stored.dense()),
            made => Cow::Borrowed(made),
        }
    }

    /// Bytes that the elements take as they are stored.
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

    /// Hands over all that tells these elements from others as they are stored, without expanding them.
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

    /// Elements of that type from `f32`: floats round to nearest, integers truncate and saturate, anything but zero is
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

    /// Elements of that type from `i32`: floats round to nearest, narrower integers saturate, anything but zero is true.
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

    /// Its type.
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

/// Position of a value in [`Net::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Memory layout of an input or output, where the model states one (netplists do).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surface {
    /// Distance between rows in bytes.
    pub row_bytes: u64,
    /// Distance between channels in bytes.
    pub plane_bytes: u64,
    /// Channels interleaved per element.
    pub interleave: u32,
}

/// One tensor of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Name, unique in the net.
    pub name: String,
    /// Element type and extents.
    pub ty: TensorType,
    /// Data of a constant; `None` for inputs and results.
    pub data: Option<Arc<Tensor>>,
    /// Memory layout asked for; inputs and outputs only.
    pub surface: Option<Surface>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Name as the model gives it, else that of its first output.
    pub name: String,
    /// Kind of operation, with its attributes.
    pub kind: OpKind,
    /// Operands in the order that [`OpKind`] documents.
    pub inputs: Vec<ValueId>,
    /// Results in the order that [`OpKind`] documents.
    pub outputs: Vec<ValueId>,
}

/// A network: operations stand in an order in which every operand is defined before it is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Net {
    /// Name of the function or network.
    pub name: String,
    /// All values.
    pub values: Vec<Value>,
    /// All operations.
    pub ops: Vec<Op>,
    /// Inputs in the model's order, then those of states.
    pub inputs: Vec<ValueId>,
    /// Outputs in the model's order, then what states become.
    pub outputs: Vec<ValueId>,
    /// Memory that the model keeps between runs.
    pub states: Vec<State>,
}

/// Memory kept from run to run: an input that holds what the run before left, and the value that this run leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Name as the model gives it, that of its input.
    pub name: String,
    /// One of the net's inputs; before the first run it is zeros.
    pub input: ValueId,
    /// One of the net's outputs, or the input itself where nothing is written.
    pub output: ValueId,
}

impl Net {
    /// Read count of each value, by value id; a network output counts as one read.
    pub fn read_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.values.len()];
        for id in self.ops.iter().flat_map(|op| &op.inputs).chain(&self.outputs) {
            counts[id.0 as usize] += 1;
        }
        counts
    }

    /// The value with that id. Panics if the id is not of this net; [`Net::get`] does not.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The value with that id, if the net has it.
    pub fn get(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.0 as usize)
    }

    /// The value with that name.
    pub fn find(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.name == name).map(|i| ValueId(i as u32))
    }

    /// Adds a value and returns its id.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }
}
