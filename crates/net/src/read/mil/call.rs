//! A call of a MIL operation: its operands and attributes by name, and the net under construction.

use super::{
    Constant, Item, Translator, compressed, control, elementwise, indexing, lists, native, quantized, recurrent, rows,
    shape, spatial, statistics,
};
use crate::build::{Budget, Builder};
use crate::error::Error;
use crate::graph::{DType, Data, Tensor, TensorType, ValueId};
use crate::infer::sized;
use crate::mil::proto::{self, Extent, Operation, TypeKind};
use crate::ops::OpKind;
use crate::opset;
use std::collections::HashMap;
use std::sync::Arc;

/// A call under translation: its arguments by name, and the net under construction.
pub struct Call<'b, 'a> {
    pub t: &'b mut Translator<'a>,
    pub op: &'b Operation,
    /// Name of the first result in the net.
    pub first: String,
    pub arguments: HashMap<String, Vec<Item>>,
}

impl Call<'_, '_> {
    pub fn translate(&mut self) -> Result<(), Error> {
        if let Some(row) = opset::row(&self.op.ty) {
            self.holds_to(row)?;
        }
        if rows::translate(self)? {
            return Ok(());
        }
        self.translate_known()
    }

    /// Translates the operation, whatever its operands are.
    pub fn translate_known(&mut self) -> Result<(), Error> {
        let done = elementwise::translate(self)?
            || spatial::translate(self)?
            || shape::translate(self)?
            || statistics::translate(self)?
            || indexing::translate(self)?
            || quantized::translate(self)?
            || compressed::translate(self)?
            || recurrent::translate(self)?
            || control::translate(self)?
            || lists::translate(self)?
            || native::translate(self)?;
        if !done {
            return Err(self.unsupported(&opset::why_not(&self.op.ty)));
        }
        let defined = self.op.outputs.iter().find(|o| !self.t.items.contains_key(&o.name));
        match defined {
            None => Ok(()),
            Some(output) => Err(self.unsupported(&format!("its output `{}` has no translation", output.name))),
        }
    }

    /// Requires the row's number of operands, and every given argument to be in the row. Missing attributes are reported where they
    /// are needed.
    fn holds_to(&self, row: &opset::Row) -> Result<(), Error> {
        let tensor = |items: &[Item]| items.iter().any(|item| matches!(item, Item::Value(_) | Item::State(_)));
        let operand = |(name, items): &(&String, &Vec<Item>)| match row.inputs().any(|a| a.name == **name) {
            true => opset::OPERANDS.contains(&name.as_str()),
            false => tensor(items),
        };
        let found = self.arguments.iter().filter(operand).count();
        if let Some((least, most)) = row.operands()
            && !(least..=most).contains(&found)
        {
            return Err(Error::Arity { kind: row.name.to_string(), found, least, most }.in_op(&self.place()));
        }
        row.lacks(self.op.inputs.keys().map(String::as_str)).map_or(Ok(()), |reason| Err(self.unsupported(&reason)))
    }

    pub fn build(&mut self) -> &mut Builder {
        &mut self.t.build
    }

    pub fn budget(&mut self) -> &mut Budget {
        &mut self.t.build.budget
    }

    pub fn unsupported(&self, reason: &str) -> Error {
        let (op, output) = (self.op.ty.clone(), self.output(0).to_string());
        Error::Unsupported { op, output, reason: reason.to_string() }
    }

    /// Name of an output, which must exist.
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
                Ok(self.t.constant(&constant))
            }
            Item::State(index) => Ok(self.t.states[index].now),
            Item::Unwritten => Err(self.unsupported(&format!("`{name}` has an element that was not written"))),
            Item::Text(_) | Item::List(_) => {
                let found = if matches!(item, Item::Text(_)) { "text" } else { "a list" }.to_string();
                Err(Error::WrongType { place: self.place(), key: name.to_string(), found, expected: "a tensor" })
            }
        }
    }

    /// An optional operand.
    pub fn optional(&mut self, name: &str) -> Result<Option<ValueId>, Error> {
        self.item(name)?.map(|item| self.value_of(item, name)).transpose()
    }

    /// A required operand.
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
        self.t.build.ty(id)
    }

    pub fn shape(&self, id: ValueId) -> Vec<usize> {
        self.ty(id).shape.clone()
    }

    /// Data of a constant argument, if it is given.
    pub fn tensor(&self, name: &str) -> Result<Option<Arc<Tensor>>, Error> {
        match self.item(name)? {
            None => Ok(None),
            Some(Item::Constant(constant)) => Ok(Some(constant.tensor.clone())),
            Some(Item::Value(id)) => match self.t.build.data(id) {
                Some(data) => Ok(Some(data.clone())),
                None => Err(self.unsupported(&format!("`{name}` is not constant"))),
            },
            Some(Item::Text(_) | Item::List(_) | Item::State(_) | Item::Unwritten) => {
                let (key, found) = (name.to_string(), "text, list or state".to_string());
                Err(Error::WrongType { place: self.place(), key, found, expected: "a tensor" })
            }
        }
    }

    pub fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        let Some(tensor) = self.tensor(name)? else { return Ok(None) };
        Ok(Some(tensor.data.to_i32().into_iter().map(i64::from).collect()))
    }

    /// Sizes, which must not be negative.
    pub fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.integers(name)? else { return Ok(None) };
        values.into_iter().map(|v| self.size(name, v)).collect::<Result<Vec<usize>, Error>>().map(Some)
    }

    pub fn size(&self, name: &str, found: i64) -> Result<usize, Error> {
        let (key, most) = (name.to_string(), i64::from(i32::MAX));
        usize::try_from(found).map_err(|_| Error::OutOfRange { place: self.place(), key, found, least: 0, most })
    }

    /// A number from a list.
    pub fn integer_of(&self, item: &Item, name: &str) -> Result<i64, Error> {
        let tensor = match item {
            Item::Constant(constant) => Some(constant.tensor.clone()),
            Item::Value(id) => self.t.build.data(*id).cloned(),
            _ => None,
        };
        let first = tensor.and_then(|t| t.data.to_i32().first().copied()).map(i64::from);
        first.ok_or_else(|| self.unsupported(&format!("`{name}` is not constant")))
    }

    /// Extents that the file declares for an output, if all are known.
    pub fn declared_extents(&self, index: usize) -> Option<Vec<usize>> {
        let ty = self.op.outputs.get(index)?.ty.as_ref()?.kind.as_ref()?;
        let TypeKind::Tensor(tensor) = ty else { return None };
        let extent = |d: &proto::Dimension| match &d.extent {
            Some(Extent::Constant(constant)) => usize::try_from(constant.size).ok(),
            _ => None,
        };
        tensor.dimensions.iter().map(extent).collect()
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
                Err(Error::WrongType { place: self.place(), key, found, expected: "a string" })
            }
        }
    }

    /// An axis of a tensor of this rank; negative ones count from the end.
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

    /// Sorted axes without duplicates; `None` if the argument is absent.
    pub fn axes(&self, name: &str, rank: usize) -> Result<Option<Vec<usize>>, Error> {
        let Some(values) = self.integers(name)? else { return Ok(None) };
        let mut axes = values.into_iter().map(|a| self.axis(name, a, rank)).collect::<Result<Vec<usize>, Error>>()?;
        axes.sort_unstable();
        axes.dedup();
        Ok(Some(axes))
    }

    /// Adds a constant that the translation needs.
    pub fn add_constant(&mut self, suffix: &str, tensor: Tensor) -> ValueId {
        self.t.build.constant(suffix, tensor)
    }

    /// A scalar of the element type of `like`.
    pub fn scalar(&mut self, suffix: &str, value: f32, like: ValueId) -> ValueId {
        let data = Data::from_f32(self.ty(like).dtype, &[value]);
        self.add_constant(suffix, Tensor { shape: vec![], data })
    }

    /// Adds an operation for an intermediate value.
    pub fn emit(&mut self, suffix: &str, kind: OpKind, inputs: &[ValueId]) -> Result<ValueId, Error> {
        self.t.build.op(suffix, kind, inputs)
    }

    /// Adds the operation for the first output.
    pub fn give(&mut self, kind: OpKind, inputs: &[ValueId]) -> Result<bool, Error> {
        self.give_as(kind, inputs, None)
    }

    /// As [`Call::give`], with the declared result type.
    pub fn give_as(&mut self, kind: OpKind, inputs: &[ValueId], declared: Option<TensorType>) -> Result<bool, Error> {
        let id = self.t.build.op_as("result", kind, inputs, declared)?;
        self.done(0, id)
    }

    /// Binds an output to the value; returns true.
    pub fn done(&mut self, index: usize, id: ValueId) -> Result<bool, Error> {
        let output = self.output(index).to_string();
        let name = if index == 0 { self.first.clone() } else { self.t.result_name(&output) };
        self.matches_declaration(index, &self.ty(id).shape)?;
        self.matches_kind(index, self.ty(id).dtype)?;
        self.t.build.entitle(id, &name);
        self.t.items.insert(output, Item::Value(id));
        Ok(true)
    }

    /// As [`Call::done`], converted to the element type that an argument names, if it is given.
    pub fn typed(&mut self, index: usize, id: ValueId, name: &str) -> Result<bool, Error> {
        let id = match self.text(name)? {
            None => id,
            Some(text) => {
                let dtype = elementwise::dtype(&text);
                let dtype = dtype.ok_or_else(|| self.unsupported(&format!("element type `{text}`")))?;
                self.t.build.cast(id, dtype)?
            }
        };
        self.done(index, id)
    }

    /// Binds an output to an item that is not a value.
    pub fn done_item(&mut self, index: usize, item: Item) {
        let output = self.output(index).to_string();
        self.t.items.insert(output, item);
    }

    /// Binds the first output to a constant.
    pub fn give_constant(&mut self, tensor: Tensor) -> Result<bool, Error> {
        self.matches_declaration(0, &tensor.shape)?;
        self.t.build.budget.spend(&tensor.shape)?;
        let constant = Arc::new(Constant { name: self.first.clone(), tensor: Arc::new(tensor) });
        self.done_item(0, Item::Constant(constant));
        Ok(true)
    }

    /// Requires float results for a declaration of floats, and integers for integers: widths may differ, since this graph has fewer types.
    fn matches_kind(&self, index: usize, made: DType) -> Result<(), Error> {
        let ty = self.op.outputs.get(index).and_then(|o| o.ty.as_ref()).and_then(|t| t.kind.as_ref());
        let Some(TypeKind::Tensor(declared)) = ty else { return Ok(()) };
        let dtype = proto::element(declared.data_type).and_then(|element| element.dtype());
        if dtype.is_none_or(|dtype| dtype.is_float() == made.is_float()) {
            return Ok(());
        }
        Err(Error::WrongType {
            place: self.place(),
            key: "declared element type".to_string(),
            found: format!("{}, the operands give {made}", dtype.map_or("?", DType::name)),
            expected: "that of the operation",
        })
    }

    /// Requires the declared extents, as far as they are known, to match those that follow from the operands.
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
}
