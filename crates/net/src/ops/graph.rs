//! The network graph: values, operations in definition order, inputs and outputs.

use crate::ops::OpKind;
use std::sync::Arc;

pub use crate::tensor::{Data, Tensor};
pub use crate::types::{DType, MAX_ELEMENTS, MAX_RANK, TensorType, elements};

/// Position of a value in [`Net::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

/// Memory layout of an input or output, if the model states one (netplists do).
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
    /// Requested memory layout; inputs and outputs only.
    pub surface: Option<Surface>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Name in the model, else that of its first output.
    pub name: String,
    /// Kind of operation, with its attributes.
    pub kind: OpKind,
    /// Operands in the order documented by [`OpKind`].
    pub inputs: Vec<ValueId>,
    /// Results in the order documented by [`OpKind`].
    pub outputs: Vec<ValueId>,
}

/// A network: operations are in an order in which every operand is defined before it is used.
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
    /// Outputs in the model's order, then the new values of states.
    pub outputs: Vec<ValueId>,
    /// Memory that the model keeps between runs.
    pub states: Vec<State>,
    /// Outputs of which another output has the number of real rows.
    pub counted: Vec<Counted>,
    /// Names of values that the file has as unsigned integers of 32 or 64 bits: they are held as int32, and none is negative.
    pub unsigned: Vec<String>,
}

/// Memory kept from run to run: an input with the value of the previous run, and the value after this run.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Name in the model, that of its input.
    pub name: String,
    /// One of the net's inputs; before the first run it is zeros.
    pub input: ValueId,
    /// One of the net's outputs, or the input itself if the state is never written.
    pub output: ValueId,
}

/// An output with as many rows as there can be, and the output with the number of real ones, which come first; the others are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The output with rows.
    pub rows: ValueId,
    /// The output with their number.
    pub count: ValueId,
    /// Axis of the rows.
    pub axis: usize,
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
