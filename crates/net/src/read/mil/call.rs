//! One MIL operation: its operands and attributes by name, and the net that its meaning goes to.

use super::super::proto::{self, Extent, Operation, TypeKind};
use super::{Builder, Constant, Item, compressed, elementwise, shape, spatial, statistics};
use crate::error::Error;
use crate::eval;
use crate::graph::{Data, Op, Tensor, TensorType, ValueId};
use crate::infer::{infer, sized};
use crate::ops::OpKind;
use std::collections::HashMap;
use std::sync::Arc;

/// Largest result of an operation on constants that becomes a constant itself, in elements.
const FOLD_ELEMENTS: usize = 1 << 20;

/// One operation being translated: its arguments by name, and the net that its meaning goes to.
pub struct Call<'b, 'a> {
    pub builder: &'b mut Builder<'a>,
    pub op: &'b Operation,
    /// Name of the operation in the net.
    pub name: String,
    pub arguments: HashMap<String, Vec<Item>>,
}

impl Call<'_, '_> {
    pub fn translate(&mut self) -> Result<(), Error> {
        let done = elementwise::translate(self)?
            || spatial::translate(self)?
            || shape::translate(self)?
            || statistics::translate(self)?
            || compressed::translate(self)?;
        if !done {
            return Err(self.unsupported("no translation for this operation"));
        }
        let defined = self.op.outputs.iter().find(|o| !self.builder.items.contains_key(&o.name));
        match defined {
            None => Ok(()),
            Some(output) => Err(self.unsupported(&format!("its output `{}` has no translation", output.name))),
        }
    }

    pub fn unsupported(&self, reason: &str) -> Error {
        let (op, output) = (self.op.ty.clone(), self.output(0).to_string());
        Error::Unsupported { op, output, reason: reason.to_string() }
    }

    /// Name of an output; the caller knows that it exists.
    pub fn output(&self, index: usize) -> &str {
        self.op.outputs.get(index).map_or("", |o| &o.name)
    }

    pub fn place(&self) -> String {
        format!("{} `{}`", self.op.ty, self.output(0))
    }

    pub fn item(&self, name: &str) -> Result<Option<Item>, Error> {
        match self.arguments.get(name).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([one]) => Ok(Some(one.clone())),
            Some(many) => {
                let (key, found) = (name.to_string(), format!("{} bindings", many.len()));
                Err(Error::WrongType { place: self.place(), key, found, expected: "one" })
            }
        }
    }

    pub fn missing(&self, name: &str) -> Error {
        Error::Missing { place: self.place(), key: name.to_string() }
    }

    pub fn value_of(&mut self, item: Item, name: &str) -> Result<ValueId, Error> {
        match item {
            Item::Value(id) => Ok(id),
            Item::Constant(constant) => {
                sized(&constant.tensor.ty(), || format!("`{}`", constant.name))?;
                Ok(self.builder.constant(&constant))
            }
            Item::Text(_) | Item::List(_) => {
                let (key, found) = (name.to_string(), "text or list".to_string());
                Err(Error::WrongType { place: self.place(), key, found, expected: "a tensor" })
            }
        }
    }

    /// An operand that may be absent.
    pub fn optional(&mut self, name: &str) -> Result<Option<ValueId>, Error> {
        self.item(name)?.map(|item| self.value_of(item, name)).transpose()
    }

    /// An operand that must be there.
    pub fn operand(&mut self, name: &str) -> Result<ValueId, Error> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    /// A list of operands.
    pub fn operands(&mut self, name: &str) -> Result<Vec<ValueId>, Error> {
        let items = self.arguments.get(name).cloned().ok_or_else(|| self.missing(name))?;
        let flat = items.into_iter().flat_map(|item| match item {
            Item::List(items) => items,
            other => vec![other],
        });
        flat.collect::<Vec<_>>().into_iter().map(|item| self.value_of(item, name)).collect()
    }

    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.builder.net.value(id).ty
    }

    pub fn shape(&self, id: ValueId) -> Vec<usize> {
        self.ty(id).shape.clone()
    }

    /// Data of an argument that must be constant, if it is there.
    pub fn tensor(&self, name: &str) -> Result<Option<Arc<Tensor>>, Error> {
        match self.item(name)? {
            None => Ok(None),
            Some(Item::Constant(constant)) => Ok(Some(constant.tensor.clone())),
            Some(Item::Value(id)) => match &self.builder.net.value(id).data {
                Some(data) => Ok(Some(data.clone())),
                None => Err(self.unsupported(&format!("`{name}` is not constant"))),
            },
            Some(Item::Text(_) | Item::List(_)) => {
                let (key, found) = (name.to_string(), "text or list".to_string());
                Err(Error::WrongType { place: self.place(), key, found, expected: "a tensor" })
            }
        }
    }

    pub fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        let Some(tensor) = self.tensor(name)? else { return Ok(None) };
        Ok(Some(tensor.data.to_i32().into_iter().map(i64::from).collect()))
    }

    /// Sizes, none of them negative.
    pub fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.integers(name)? else { return Ok(None) };
        values.into_iter().map(|v| self.size(name, v)).collect::<Result<Vec<usize>, Error>>().map(Some)
    }

    pub fn size(&self, name: &str, found: i64) -> Result<usize, Error> {
        let (key, most) = (name.to_string(), i64::from(i32::MAX));
        usize::try_from(found).map_err(|_| Error::OutOfRange { place: self.place(), key, found, least: 0, most })
    }

    pub fn integer(&self, name: &str, default: i64) -> Result<i64, Error> {
        Ok(self.integers(name)?.and_then(|v| v.first().copied()).unwrap_or(default))
    }

    pub fn float(&self, name: &str, default: f32) -> Result<f32, Error> {
        Ok(self.tensor(name)?.and_then(|t| t.data.to_f32().first().copied()).unwrap_or(default))
    }

    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.integers(name)?.and_then(|v| v.first().copied()).map_or(default, |v| v != 0))
    }

    pub fn text(&self, name: &str) -> Result<Option<String>, Error> {
        match self.item(name)? {
            None => Ok(None),
            Some(Item::Text(text)) => Ok(Some(text)),
            Some(_) => {
                let (key, found) = (name.to_string(), "a tensor or list".to_string());
                Err(Error::WrongType { place: self.place(), key, found, expected: "a text" })
            }
        }
    }

    /// An axis of a tensor of this rank, counted from the end where negative.
    pub fn axis(&self, name: &str, axis: i64, rank: usize) -> Result<usize, Error> {
        let signed = rank as i64;
        let at = if axis < 0 { axis + signed } else { axis };
        let in_range = usize::try_from(at).ok().filter(|&a| a < rank);
        in_range.ok_or_else(|| Error::OutOfRange {
            place: self.place(),
            key: name.to_string(),
            found: axis,
            least: -signed,
            most: signed - 1,
        })
    }

    /// Sorted axes without repetition; `None` where the argument is absent.
    pub fn axes(&self, name: &str, rank: usize) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.integers(name)? else { return Ok(None) };
        let mut axes = values.into_iter().map(|a| self.axis(name, a, rank)).collect::<Result<Vec<usize>, Error>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(Some(axes))
    }

    /// Adds a constant that the translation needs.
    pub fn add_constant(&mut self, suffix: &str, tensor: Tensor) -> ValueId {
        let name = self.builder.fresh(&format!("{}.{suffix}", self.output(0)));
        let tensor = Arc::new(tensor);
        self.builder.value(&name, tensor.ty(), Some(tensor))
    }

    /// A scalar of the element type of `like`.
    pub fn scalar(&mut self, suffix: &str, value: f32, like: ValueId) -> ValueId {
        let data = Data::from_f32(self.ty(like).dtype, &[value]);
        self.add_constant(suffix, Tensor { shape: vec![], data })
    }

    /// Adds an operation that gives an intermediate value.
    pub fn emit(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId]) -> Result<ValueId, Error> {
        self.emit_as(suffix, kind, inputs, None)
    }

    /// As [`Call::emit`], with the declared result type.
    pub fn emit_as(
        &mut self,
        suffix: &str,
        kind: OpKind,
        inputs: &[ValueId],
        declared: Option<TensorType>,
    ) -> Result<ValueId, Error> {
        let value = self.builder.fresh(&format!("{}.{suffix}", self.output(0)));
        let op = format!("{}.{suffix}", self.name);
        self.add(value, op, kind, inputs, declared)
    }

    /// Adds the operation that gives the first output.
    pub fn give(&mut self, kind: OpKind, inputs: &[ValueId]) -> Result<bool, Error> {
        self.give_as(kind, inputs, None)
    }

    /// As [`Call::give`], with the declared result type.
    pub fn give_as(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Result<bool, Error> {
        self.give_output(0, kind, inputs, declared)
    }

    pub fn give_output(
        &mut self,
        index: usize,
        kind: OpKind,
        inputs: &[ValueId],
        declared: Option<TensorType>,
    ) -> Result<bool, Error> {
        let output = self.output(index).to_string();
        let id = self.add(output.clone(), self.name.clone(), kind, inputs, declared)?;
        self.matches_declaration(index, &self.ty(id).shape)?;
        self.builder.items.insert(output, Item::Value(id));
        Ok(true)
    }

    /// Gives the first output as a constant.
    pub fn give_constant(&mut self, tensor: Tensor) -> Result<bool, Error> {
        let name = self.output(0).to_string();
        self.matches_declaration(0, &tensor.shape)?;
        self.builder.blobs.budget.spend(&tensor.shape)?;
        let constant = Arc::new(Constant { name: name.clone(), tensor: Arc::new(tensor) });
        self.builder.items.insert(name, Item::Constant(constant));
        Ok(true)
    }

    /// Holds the extents that follow from the operands to those that the file declares, as far as it does.
    pub fn matches_declaration(&self, index: usize, shape: &[usize]) -> Result<(), Error> {
        let ty = self.op.outputs.get(index).and_then(|o| o.ty.as_ref()).and_then(|t| t.kind.as_ref());
        let Some(TypeKind::Tensor(declared)) = ty else { return Ok(()) };
        let fits = |(dimension, &extent): (&proto::Dimension, &usize)| match &dimension.extent {
            Some(Extent::Constant(constant)) => constant.size == extent as u64,
            _ => true,
        };
        if declared.dimensions.len() == shape.len() && declared.dimensions.iter().zip(shape).all(fits) {
            return Ok(());
        }
        let size = |d: &proto::Dimension| match &d.extent {
            Some(Extent::Constant(constant)) => constant.size.to_string(),
            _ => "?".to_string(),
        };
        let stated: Vec<String> = declared.dimensions.iter().map(size).collect();
        Err(Error::WrongType {
            place: self.place(),
            key: "declared extents".to_string(),
            found: format!("[{}], the operands give {shape:?}", stated.join(", ")),
            expected: "those of the operation",
        })
    }

    pub fn add(
        &mut self,
        value: String,
        op: String,
        kind: OpKind,
        inputs: &[ValueId],
        declared: Option<TensorType>,
    ) -> Result<ValueId, Error> {
        let place = self.place();
        let types: Vec<&TensorType> = inputs.iter().map(|&id| self.ty(id)).collect();
        let ty = infer(&kind, &types, declared.as_ref()).map_err(|e| e.in_op(&place))?.swap_remove(0);
        let net = &self.builder.net;
        let constants: Option<Vec<&Tensor>> = inputs.iter().map(|&id| net.value(id).data.as_deref()).collect();
        // Products of constants would cost time out of proportion to the file, and no shape is computed with them.
        let cheap = !matches!(
            kind,
            OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::MatMul { .. } | OpKind::Linear
        );
        if let Some(constants) = constants
            && cheap
            && ty.elements() <= FOLD_ELEMENTS
            && constants.iter().all(|t| t.data.len() <= FOLD_ELEMENTS)
        {
            let tensor = eval::fold(&kind, &constants, Some(&ty)).map_err(|e| e.in_op(&place))?;
            self.builder.blobs.budget.spend(&ty.shape)?;
            return Ok(self.builder.value(&value, ty, Some(Arc::new(tensor))));
        }
        let output = self.builder.value(&value, ty, None);
        let op = Op { name: op, kind, inputs: inputs.to_vec(), outputs: vec![output] };
        self.builder.net.ops.push(op);
        Ok(output)
    }
}
