//! Construction of nets operation by operation: types are inferred, constants folded, names kept unique. Frontends translate to
//! this; the submodules decompose constructs that several formats share into elementary operations.

mod activation;
pub mod attention;
pub mod beyond;
pub mod einsum;
pub mod indexing;
mod nothing;
pub mod recurrent;
pub mod rolled;
pub mod sampling;
pub mod window;

use crate::error::Error;
use crate::eval;
use crate::graph::{Counted, DType, Data, Net, Op, State, Tensor, TensorType, Value, ValueId, elements};
use crate::infer::{infer, sized};
use crate::ops::{Binary, OpKind, ReduceKind, Unary};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Largest result of an operation on constants that becomes a constant itself, in elements.
const FOLD_ELEMENTS: usize = 1 << 20;

/// Most operations of one net; unrolled loops could ask for any number.
const MAX_OPS: usize = 1 << 18;

/// Budget for the total number of constant elements that a model may create.
///
/// A range of a weight file can be referenced any number of times, and decompression multiplies its size; legitimate models create
/// less than 20 elements for each byte of their weights.
#[derive(Debug, Default)]
pub struct Budget {
    made: usize,
    bytes_read: usize,
}

impl Budget {
    const FREE: usize = 1 << 26;
    const PER_BYTE: usize = 64;

    /// Raises the budget by the allowance for a file of this size.
    pub fn add_file(&mut self, bytes: usize) {
        self.bytes_read = self.bytes_read.saturating_add(bytes);
    }

    /// Charges a constant about to be created.
    pub fn spend(&mut self, shape: &[usize]) -> Result<(), Error> {
        self.made = self.made.saturating_add(elements(shape));
        let limit = self.bytes_read.saturating_mul(Self::PER_BYTE).saturating_add(Self::FREE);
        if self.made <= limit {
            return Ok(());
        }
        let (what, shape) = ("the last of all constants".to_string(), shape.to_vec());
        Err(Error::TooLarge { what, shape, elements: self.made, limit })
    }
}

/// A net under construction.
#[derive(Default)]
pub struct Builder {
    pub net: Net,
    pub budget: Budget,
    /// Name stem of new intermediate values: the result of the operation being translated.
    pub stem: String,
    /// Name stem of new operations.
    pub op_stem: String,
    names: HashSet<String>,
    serials: HashMap<String, usize>,
    /// Values before this one must not be renamed by the current operation.
    mark: usize,
    /// Values that the current operation has already named.
    titled: Vec<ValueId>,
    /// Values that the file has as unsigned integers of 32 or 64 bits.
    unsigned: Vec<ValueId>,
    /// Values with integers that differ from those of the file.
    beyond: HashMap<ValueId, beyond::Beyond>,
}

/// Result of building a value.
pub type Built = Result<ValueId, Error>;

impl Builder {
    pub fn new(name: &str) -> Builder {
        Builder { net: Net { name: name.to_string(), ..Net::default() }, ..Builder::default() }
    }

    /// A builder with the values, inputs, outputs and states of a network, and no operations yet.
    pub fn of(net: &Net) -> Builder {
        let names = net.values.iter().map(|value| value.name.clone()).collect();
        Builder { net: Net { ops: Vec::new(), ..net.clone() }, names, ..Builder::default() }
    }

    /// Reserves a name for a later definition.
    pub fn reserve(&mut self, name: &str) {
        self.names.insert(name.to_string());
    }

    /// Error for an operand that is not defined: its name is that of a later value (in a cycle, or out of order), or of none.
    pub fn undefined(&self, place: &str, name: &str) -> Error {
        let (place, name) = (place.to_string(), name.to_string());
        if self.names.contains(&name) {
            return Error::NotDefined { op: place, value: name };
        }
        Error::UnknownName { place, name }
    }

    /// An unused name.
    pub fn fresh(&mut self, stem: &str) -> String {
        if self.names.insert(stem.to_string()) {
            return stem.to_string();
        }
        let serial = self.serials.entry(stem.to_string()).or_default();
        loop {
            *serial += 1;
            let name = format!("{stem}.{serial}");
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }

    /// Starts an operation with the names of its first result and of itself.
    pub fn begin(&mut self, result: &str, op: &str) {
        (self.stem, self.op_stem) = (result.to_string(), op.to_string());
        self.mark = self.net.values.len();
        self.titled.clear();
    }

    /// Gives the value the name that a file uses, which must have been reserved or be unused. A value that another
    /// operation defined keeps its own.
    pub fn entitle(&mut self, id: ValueId, name: &str) {
        if (id.0 as usize) < self.mark || self.titled.contains(&id) {
            return;
        }
        self.titled.push(id);
        let own = std::mem::replace(&mut self.net.values[id.0 as usize].name, name.to_string());
        self.names.remove(&own);
        self.reserve(name);
        let op_stem = self.op_stem.clone();
        if let Some(op) = self.net.ops.iter_mut().rev().find(|op| op.outputs.contains(&id)) {
            op.name = op_stem;
        }
    }

    /// Marks a value as unsigned integers of 32 or 64 bits in the file.
    pub fn note_unsigned(&mut self, id: ValueId) {
        self.unsigned.push(id);
    }

    /// Adds a value; the caller ensures that the name is unused.
    pub fn value(&mut self, name: &str, ty: TensorType, data: Option<Arc<Tensor>>) -> ValueId {
        self.reserve(name);
        self.net.add_value(Value { name: name.to_string(), ty, data, surface: None })
    }

    /// Adds an input of the net.
    pub fn input(&mut self, name: &str, ty: TensorType) -> Built {
        sized(&ty, || format!("input `{name}`"))?;
        let id = self.value(name, ty, None);
        self.net.inputs.push(id);
        Ok(id)
    }

    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.net.value(id).ty
    }

    pub fn dtype(&self, id: ValueId) -> DType {
        self.ty(id).dtype
    }

    pub fn shape(&self, id: ValueId) -> Vec<usize> {
        self.ty(id).shape.clone()
    }

    pub fn rank(&self, id: ValueId) -> usize {
        self.ty(id).shape.len()
    }

    /// Data of a value, if it is constant.
    pub fn data(&self, id: ValueId) -> Option<&Arc<Tensor>> {
        self.net.value(id).data.as_ref()
    }

    /// The operation that computes a value, if one does.
    pub fn maker(&self, id: ValueId) -> Option<&Op> {
        self.net.ops.iter().rev().find(|op| op.outputs.contains(&id))
    }

    /// Elements of a list of integers that are known now; for a concatenation, those of each part.
    pub fn known_elements(&self, id: ValueId) -> Vec<Option<i64>> {
        if let Some(tensor) = self.data(id) {
            return tensor.data.to_i32().into_iter().map(|v| Some(i64::from(v))).collect();
        }
        let unknown = || vec![None; elements(&self.shape(id))];
        let Some(op) = self.maker(id) else { return unknown() };
        match &op.kind {
            OpKind::Concat { axis: 0 } => op.inputs.iter().flat_map(|&part| self.known_elements(part)).collect(),
            OpKind::Reshape | OpKind::Cast | OpKind::Unary(Unary::Identity) => self.known_elements(op.inputs[0]),
            _ => unknown(),
        }
    }

    /// Error for a form of the current operation that the graph cannot express.
    pub fn unsupported(&self, op: &str, reason: impl Into<String>) -> Error {
        Error::Unsupported { op: op.to_string(), output: self.stem.clone(), reason: reason.into() }
    }

    /// Adds a constant that the translation needs.
    pub fn constant(&mut self, suffix: &str, tensor: Tensor) -> ValueId {
        let name = self.fresh(&format!("{}.{suffix}", self.stem));
        let tensor = Arc::new(tensor);
        self.value(&name, tensor.ty(), Some(tensor))
    }

    /// Adds an operation with one result, or a constant if all operands are constants.
    pub fn op(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId]) -> Built {
        self.op_as(suffix, kind, inputs, None)
    }

    /// As [`Builder::op`], with the declared result type.
    pub fn op_as(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Built {
        if inputs.iter().any(|&id| self.ty(id).elements() == 0)
            && let Some(found) = self.without(&kind, inputs, declared.as_ref())
        {
            return found;
        }
        let place = || format!("{} `{}`", kind.name(), self.op_stem);
        let types: Vec<&TensorType> = inputs.iter().map(|&id| self.ty(id)).collect();
        let ty = infer(&kind, &types, declared.as_ref()).map_err(|e| e.in_op(&place()))?.swap_remove(0);
        let constants: Option<Vec<&Tensor>> = inputs.iter().map(|&id| self.net.value(id).data.as_deref()).collect();
        // Products of constants would take time out of proportion to the file, and no shape depends on them.
        let products = matches!(
            kind,
            OpKind::Conv { .. }
                | OpKind::ConvTranspose { .. }
                | OpKind::MatMul { .. }
                | OpKind::Linear
                | OpKind::Combine
        );
        let folded = match constants {
            Some(constants)
                if !products
                    && ty.elements() <= FOLD_ELEMENTS
                    && constants.iter().all(|t| t.data.len() <= FOLD_ELEMENTS) =>
            {
                let folded = eval::fold(&kind, &constants, Some(&ty)).map_err(|e| e.in_op(&place()))?;
                (!overflows(&kind, &constants, &folded)).then(|| Arc::new(folded))
            }
            _ => None,
        };
        let beyond = match self.beyond.is_empty() {
            true => None,
            false => self.beyond_of(&kind, inputs, ty.dtype, folded.is_some())?,
        };
        let name = self.fresh(&format!("{}.{suffix}", self.stem));
        if folded.is_some() {
            self.budget.spend(&ty.shape)?;
            let id = self.value(&name, ty, folded);
            self.note_beyond(id, beyond);
            return Ok(id);
        }
        if self.net.ops.len() >= MAX_OPS {
            let (place, key) = (self.stem.clone(), "number of operations".to_string());
            let most = MAX_OPS as i64;
            return Err(Error::OutOfRange { place, key, found: most + 1, least: 0, most });
        }
        let output = self.value(&name, ty, None);
        let name = format!("{}.{suffix}", self.op_stem);
        self.net.ops.push(Op { name, kind, inputs: inputs.to_vec(), outputs: vec![output] });
        self.note_beyond(output, beyond);
        Ok(output)
    }

    /// A scalar of the element type of `like`.
    pub fn scalar(&mut self, value: f32, like: ValueId) -> ValueId {
        let data = Data::from_f32(self.dtype(like), &[value]);
        self.constant("scalar", Tensor { shape: vec![], data })
    }

    pub fn integers(&mut self, shape: impl Into<Vec<usize>>, values: Vec<i32>) -> ValueId {
        self.constant("integers", Tensor::i32(shape, values))
    }

    /// Floats in the element type of `like`.
    pub fn floats(&mut self, shape: impl Into<Vec<usize>>, values: &[f32], like: ValueId) -> ValueId {
        let data = Data::from_f32(self.dtype(like), values);
        self.constant("floats", Tensor { shape: shape.into(), data })
    }

    /// Truth values.
    pub fn mask(&mut self, shape: impl Into<Vec<usize>>, values: Vec<bool>) -> ValueId {
        self.constant("mask", Tensor { shape: shape.into(), data: Data::Bool(values) })
    }

    /// A copy of a value as an operation, even of a constant.
    pub fn copied(&mut self, x: ValueId) -> Built {
        let (name, ty) = (self.fresh(&format!("{}.copy", self.stem)), self.ty(x).clone());
        let copy = self.value(&name, ty, None);
        self.net.ops.push(Op { name, kind: OpKind::Unary(Unary::Identity), inputs: vec![x], outputs: vec![copy] });
        Ok(copy)
    }

    pub fn unary(&mut self, unary: Unary, x: ValueId) -> Built {
        self.op(unary.name(), OpKind::Unary(unary), &[x])
    }

    pub fn binary(&mut self, binary: Binary, x: ValueId, y: ValueId) -> Built {
        self.op(binary.name(), OpKind::Binary(binary), &[x, y])
    }

    /// A binary function with a constant as right operand.
    pub fn with(&mut self, binary: Binary, x: ValueId, value: f32) -> Built {
        let y = self.scalar(value, x);
        self.binary(binary, x, y)
    }

    pub fn select(&mut self, condition: ValueId, x: ValueId, y: ValueId) -> Built {
        self.op("select", OpKind::Select, &[condition, x, y])
    }

    pub fn cast(&mut self, x: ValueId, dtype: DType) -> Built {
        if self.dtype(x) == dtype {
            return Ok(x);
        }
        let declared = TensorType { dtype, shape: self.shape(x) };
        self.op_as("cast", OpKind::Cast, &[x], Some(declared))
    }

    pub fn reshape(&mut self, x: ValueId, shape: impl Into<Vec<usize>>) -> Built {
        let declared = TensorType { dtype: self.dtype(x), shape: shape.into() };
        if declared.shape == self.ty(x).shape {
            return Ok(x);
        }
        self.op_as("reshape", OpKind::Reshape, &[x], Some(declared))
    }

    pub fn broadcast(&mut self, x: ValueId, shape: impl Into<Vec<usize>>) -> Built {
        let declared = TensorType { dtype: self.dtype(x), shape: shape.into() };
        if declared.shape == self.ty(x).shape {
            return Ok(x);
        }
        self.op_as("broadcast", OpKind::Broadcast, &[x], Some(declared))
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Built {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return Ok(x);
        }
        self.op("transpose", OpKind::Transpose { perm: perm.to_vec() }, &[x])
    }

    /// `begin..end` of one axis.
    pub fn slice(&mut self, x: ValueId, axis: usize, begin: usize, end: usize) -> Built {
        let shape = self.shape(x);
        if begin == 0 && end == shape[axis] {
            return Ok(x);
        }
        let (mut from, mut to) = (vec![0; shape.len()], shape.clone());
        (from[axis], to[axis]) = (begin, end);
        self.op("slice", OpKind::Slice { begin: from, end: to, stride: vec![1; shape.len()] }, &[x])
    }

    pub fn concat(&mut self, parts: &[ValueId], axis: usize) -> Built {
        match parts {
            [one] => Ok(*one),
            _ => self.op("concat", OpKind::Concat { axis }, parts),
        }
    }

    /// Concatenation of the parts along a new axis `axis` of extent one in each.
    pub fn stack(&mut self, parts: &[ValueId], axis: usize) -> Built {
        let mut raised = Vec::with_capacity(parts.len());
        for &part in parts {
            let mut shape = self.shape(part);
            if axis > shape.len() {
                return Err(self.unsupported("stack", "operands of different rank"));
            }
            shape.insert(axis, 1);
            raised.push(self.reshape(part, shape)?);
        }
        self.concat(&raised, axis)
    }

    pub fn gather(&mut self, x: ValueId, indices: ValueId, axis: usize) -> Built {
        self.op("gather", OpKind::Gather { axis }, &[x, indices])
    }

    pub fn matmul(&mut self, x: ValueId, y: ValueId, transpose_y: bool) -> Built {
        self.op("matmul", OpKind::MatMul { transpose_x: false, transpose_y }, &[x, y])
    }

    pub fn reduce(&mut self, kind: ReduceKind, x: ValueId, axes: &[usize], keep_dims: bool) -> Built {
        self.op(kind.name(), OpKind::Reduce { kind, axes: axes.to_vec(), keep_dims }, &[x])
    }

    pub fn softmax(&mut self, x: ValueId, axis: usize) -> Built {
        self.op("softmax", OpKind::Softmax { axis }, &[x])
    }

    /// Gives a value another name, so that its own is free.
    pub fn rename(&mut self, id: ValueId, stem: &str) {
        if !self.net.inputs.contains(&id) && !self.net.outputs.contains(&id) {
            self.net.values[id.0 as usize].name = self.fresh(stem);
        }
    }

    /// Makes the value an output of that name; copies it if it cannot have the name.
    pub fn output(&mut self, id: ValueId, name: &str) -> Built {
        let own = self.net.value(id).name == name;
        let id = if own && !self.net.outputs.contains(&id) {
            id
        } else {
            self.begin(name, name);
            let ty = self.ty(id).clone();
            let taken = self.net.find(name).is_some();
            let name = if taken { self.fresh(name) } else { name.to_string() };
            let copy = self.value(&name, ty, None);
            let kind = OpKind::Unary(Unary::Identity);
            self.net.ops.push(Op { name, kind, inputs: vec![id], outputs: vec![copy] });
            copy
        };
        self.net.outputs.push(id);
        Ok(id)
    }

    /// Declares that the first rows of an output along an axis are real, and that another output has their number.
    pub fn counted_rows(&mut self, rows: ValueId, count: ValueId, axis: usize) {
        self.net.counted.push(Counted { rows, count, axis });
    }

    /// Closes a state: its last value becomes an output, unless it is unchanged.
    pub fn state(&mut self, name: &str, input: ValueId, last: ValueId) -> Result<(), Error> {
        let output = if last == input {
            input
        } else if self.net.outputs.contains(&last) || self.data(last).is_some() || self.net.inputs.contains(&last) {
            let name = self.fresh(&format!("{name}.next"));
            self.output(last, &name)?
        } else {
            self.net.outputs.push(last);
            last
        };
        self.net.states.push(State { name: name.to_string(), input, output });
        Ok(())
    }

    /// Removes constants that no operation reads (attributes, and operands of folded operations) and operations whose results
    /// are not needed.
    pub fn finish(mut self) -> Net {
        let net = &mut self.net;
        let mut needed = vec![false; net.values.len()];
        net.outputs.iter().chain(&net.inputs).for_each(|id| needed[id.0 as usize] = true);
        let mut ops = std::mem::take(&mut net.ops);
        let mut kept: Vec<Op> = Vec::with_capacity(ops.len());
        while let Some(op) = ops.pop() {
            if op.outputs.iter().any(|o| needed[o.0 as usize]) {
                op.inputs.iter().chain(&op.outputs).for_each(|id| needed[id.0 as usize] = true);
                kept.push(op);
            }
        }
        kept.reverse();
        net.ops = kept;
        let mut count = 0;
        let number = |&kept: &bool| {
            count += u32::from(kept);
            count.saturating_sub(1)
        };
        let renumbered: Vec<u32> = needed.iter().map(number).collect();
        let renumber = |id: &mut ValueId| id.0 = renumbered[id.0 as usize];
        net.ops.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs)).for_each(renumber);
        net.inputs.iter_mut().chain(&mut net.outputs).for_each(renumber);
        net.states.iter_mut().flat_map(|s| [&mut s.input, &mut s.output]).for_each(renumber);
        net.counted.iter_mut().flat_map(|c| [&mut c.rows, &mut c.count]).for_each(renumber);
        let unsigned = self.unsigned.iter().filter(|id| needed[id.0 as usize]);
        net.unsigned.extend(unsigned.map(|id| net.values[id.0 as usize].name.clone()));
        let mut flags = needed.into_iter();
        net.values.retain(|_| flags.next().unwrap_or(true));
        self.net
    }
}

/// Returns true if fp16 has no number for an element of a folded constant, and fp32, in which networks are evaluated, has one. A
/// conversion is meant to round.
fn overflows(kind: &OpKind, operands: &[&Tensor], folded: &Tensor) -> bool {
    let infinite = |tensor: &Tensor| tensor.data.as_f16().is_some_and(|data| data.iter().any(|x| x.is_infinite()));
    *kind != OpKind::Cast
        && infinite(folded)
        && !operands.iter().any(|tensor| infinite(tensor))
        && eval::reaches(kind, operands, &folded.ty()).is_some_and(f32::is_finite)
}
