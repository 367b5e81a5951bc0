//! The network graph: values, operations in definition order, inputs and outputs.

use crate::ops::OpKind;
use half::f16;
use std::sync::Arc;

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

/// Element type and extents, outermost axis first. Rank 0 is a scalar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// Extents in elements.
    pub shape: Vec<usize>,
}

impl TensorType {
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Elements of a tensor, row-major (last axis fastest).
#[derive(Clone, Debug, PartialEq)]
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
}

/// A tensor with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Extents in elements; their product is the number of elements in `data`.
    pub shape: Vec<usize>,
    /// Elements.
    pub data: Data,
}

/// Position of a value in [`Net::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// How the caller lays an input or output out in memory, where the model says so (netplists do).
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
#[derive(Clone, Debug)]
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
#[derive(Clone, Debug)]
pub struct Op {
    /// Name as the model gives it, else that of its first output.
    pub name: String,
    /// What it computes, with its attributes.
    pub kind: OpKind,
    /// Operands in the order that [`OpKind`] documents.
    pub inputs: Vec<ValueId>,
    /// Results in the order that [`OpKind`] documents.
    pub outputs: Vec<ValueId>,
}

/// A network: operations stand in an order in which every operand is defined before it is used.
#[derive(Clone, Debug, Default)]
pub struct Net {
    /// Name of the function or network.
    pub name: String,
    /// All values.
    pub values: Vec<Value>,
    /// All operations.
    pub ops: Vec<Op>,
    /// Inputs in the model's order.
    pub inputs: Vec<ValueId>,
    /// Outputs in the model's order.
    pub outputs: Vec<ValueId>,
}

impl Net {
    /// The value with that id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// Adds a value and returns its id.
    pub fn add_value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }
}
