//! Translation of MIL functions to graphs: the environment of named values, blocks, and the arguments of an operation. The
//! submodules translate the operations.

mod call;
mod compressed;
mod control;
mod elementwise;
mod indexing;
mod lists;
mod native;
mod quantized;
mod recurrent;
mod rows;
mod shape;
mod spatial;
mod statistics;
mod values;

use super::blob::Blobs;
use super::onnx::parts;
use super::onnx::rows::Computed;
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{Tensor, ValueId, elements};
use crate::mil::proto::{self, Argument, Block, Bound, Elements, Function, Immediate, Operation, Source};
use crate::opset;
use call::Call;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use values::{immediate_data, input_type, value_type};

/// The object that a name is bound to.
#[derive(Clone)]
pub enum Item {
    Value(ValueId),
    Constant(Arc<Constant>),
    Text(String),
    List(Vec<Item>),
    /// A state, by its position among the states.
    State(usize),
    /// An element of a list whose extents have names, before it is written.
    Unwritten,
}

/// A constant; it becomes a value of the net when an operation uses it as an operand.
pub struct Constant {
    name: String,
    tensor: Arc<Tensor>,
}

/// A state during the translation of its function.
struct Slot {
    name: String,
    input: ValueId,
    now: ValueId,
}

/// Builds the net of one function.
pub struct Translator<'a> {
    pub build: Builder,
    pub notes: Vec<String>,
    blobs: Blobs<'a>,
    items: HashMap<String, Item>,
    constants: HashMap<String, ValueId>,
    states: Vec<Slot>,
    /// Rows whose number depends on values.
    computed: Computed,
    /// Nesting depth of blocks; names in nested blocks may be repeated.
    depth: usize,
}

impl<'a> Translator<'a> {
    pub fn new(name: &str, blobs: Blobs<'a>) -> Self {
        Translator {
            build: Builder::new(name),
            notes: Vec::new(),
            blobs,
            items: HashMap::new(),
            constants: HashMap::new(),
            states: Vec::new(),
            computed: Computed { marks: Some(HashMap::new()), ..Default::default() },
            depth: 0,
        }
    }

    /// Translates the function's block; `extents` returns the extents of an input that are not fixed.
    pub fn function(
        &mut self,
        function: &Function,
        extents: &dyn Fn(&str) -> Option<Vec<i64>>,
        notes: &mut Vec<String>,
    ) -> Result<(), Error> {
        for input in &function.inputs {
            let (ty, state) = input_type(input, extents)?;
            if state {
                continue;
            }
            let id = self.build.input(&input.name, ty)?;
            self.items.insert(input.name.clone(), Item::Value(id));
        }
        for input in &function.inputs {
            let (ty, state) = input_type(input, extents)?;
            if !state {
                continue;
            }
            let id = self.build.input(&input.name, ty)?;
            self.items.insert(input.name.clone(), Item::State(self.states.len()));
            self.states.push(Slot { name: input.name.clone(), input: id, now: id });
        }
        let blocks = &function.block_specializations;
        let only = blocks.values().next().filter(|_| blocks.len() == 1);
        let place = || format!("function `{}`", self.build.net.name);
        let block = blocks.get(&function.opset).or(only);
        let block = block.ok_or_else(|| Error::Missing { place: place(), key: function.opset.clone() })?;
        notes.push(format!("opset {}", function.opset));
        // Intermediate values must not use names that later operations define.
        block.operations.iter().flat_map(|op| &op.outputs).for_each(|o| self.build.reserve(&o.name));
        self.operations(block)?;
        for name in &block.outputs {
            let unknown = || Error::UnknownName { place: "block outputs".to_string(), name: name.clone() };
            let id = match self.items.get(name).cloned().ok_or_else(unknown)? {
                Item::Value(id) => id,
                Item::Constant(constant) => self.constant(&constant),
                Item::State(index) => self.states[index].now,
                Item::Text(_) | Item::List(_) | Item::Unwritten => return Err(unknown()),
            };
            parts::packed(&mut self.build, &self.computed, &mut self.notes, id, name)?;
        }
        for slot in std::mem::take(&mut self.states) {
            self.build.state(&slot.name, slot.input, slot.now)?;
        }
        Ok(())
    }

    fn operations(&mut self, block: &Block) -> Result<(), Error> {
        block.operations.iter().try_for_each(|op| self.operation(op))
    }

    /// Translates a nested block with these values of its inputs; returns those of its outputs. Names that it defines go out of
    /// scope afterwards.
    fn nested(&mut self, block: &Block, inputs: &[Item], op: &Operation) -> Result<Vec<Item>, Error> {
        if self.depth == opset::MAX_NESTING {
            let (place, limit) = (op.ty.clone(), opset::MAX_NESTING);
            return Err(Error::TooDeep { place, found: limit + 1, limit });
        }
        if block.inputs.len() != inputs.len() {
            return Err(Error::InputCount { found: inputs.len(), expected: block.inputs.len() });
        }
        let outer = self.items.clone();
        for (input, item) in block.inputs.iter().zip(inputs) {
            self.items.insert(input.name.clone(), item.clone());
        }
        // A name from an earlier iteration now denotes another value.
        block.operations.iter().flat_map(|op| &op.outputs).for_each(|o| drop(self.items.remove(&o.name)));
        self.depth += 1;
        let done = self.operations(block);
        self.depth -= 1;
        let inner = std::mem::replace(&mut self.items, outer);
        done?;
        let output = |name: &String| {
            let unknown = || Error::UnknownName { place: format!("{}: block outputs", op.ty), name: name.clone() };
            inner.get(name).cloned().ok_or_else(unknown)
        };
        block.outputs.iter().map(output).collect()
    }

    /// The constant as a value of the net.
    fn constant(&mut self, constant: &Constant) -> ValueId {
        if let Some(&id) = self.constants.get(&constant.name) {
            return id;
        }
        let id = self.build.value(&constant.name, constant.tensor.ty(), Some(constant.tensor.clone()));
        self.constants.insert(constant.name.clone(), id);
        id
    }

    /// The name of a result in the net.
    fn result_name(&mut self, name: &str) -> String {
        if self.depth == 0 { name.to_string() } else { self.build.fresh(name) }
    }

    fn operation(&mut self, op: &Operation) -> Result<(), Error> {
        let output = op.outputs.first().map_or("", |o| &o.name);
        for output in &op.outputs {
            if self.items.contains_key(&output.name) {
                return Err(Error::DefinedTwice { op: op.ty.clone(), value: output.name.clone() });
            }
        }
        if op.ty == "const" {
            let value = op.attributes.get("val").or_else(|| match &op.inputs.get("val")?.arguments.first()?.bound {
                Some(Bound::Value(value)) => Some(value),
                _ => None,
            });
            let place = || format!("const `{output}`");
            let value = value.ok_or_else(|| Error::Missing { place: place(), key: "val".to_string() })?;
            let name = self.result_name(output);
            let item = self.item(value, &name)?;
            self.items.insert(output.to_string(), item);
            return Ok(());
        }
        let (first, mut arguments) = (self.result_name(output), HashMap::new());
        self.arguments(op, &op.inputs, &first, &mut arguments)?;
        for (name, value) in op.attributes.iter().filter(|(name, _)| !op.inputs.contains_key(*name)) {
            let fresh = self.build.fresh(&format!("{first}.{name}"));
            // Attributes that cannot be read are an error only for an operation that needs them.
            if let Ok(item) = self.item(value, &fresh) {
                arguments.insert(name.clone(), vec![item]);
            }
        }
        let name = match arguments.get("name").map(Vec::as_slice) {
            Some([Item::Text(name)]) => name.clone(),
            _ => first.clone(),
        };
        self.build.begin(&first, &name);
        Call { t: self, op, first, arguments }.translate()
    }

    fn arguments(
        &mut self,
        op: &Operation,
        inputs: &BTreeMap<String, Argument>,
        first: &str,
        arguments: &mut HashMap<String, Vec<Item>>,
    ) -> Result<(), Error> {
        for (name, argument) in inputs {
            let mut items = Vec::with_capacity(argument.arguments.len());
            for binding in &argument.arguments {
                items.push(match &binding.bound {
                    Some(Bound::Name(bound)) => {
                        let place = || format!("{} `{first}`, operand `{name}`", op.ty);
                        let unknown = || self.build.undefined(&place(), bound);
                        self.items.get(bound).cloned().ok_or_else(unknown)?
                    }
                    Some(Bound::Value(value)) => {
                        let name = self.build.fresh(&format!("{first}.{name}"));
                        self.item(value, &name)?
                    }
                    None => return Err(Error::Missing { place: format!("{} `{first}`", op.ty), key: name.clone() }),
                });
            }
            arguments.insert(name.clone(), items);
        }
        Ok(())
    }

    /// A value of the file: a tensor, a string, or a list of them.
    fn item(&mut self, value: &proto::Value, name: &str) -> Result<Item, Error> {
        let place = || format!("value `{name}`");
        let missing = |key: &str| Error::Missing { place: place(), key: key.to_string() };
        let list = match &value.source {
            None => return Err(missing("value")),
            Some(Source::Immediate(immediate)) => match &immediate.value {
                Some(Immediate::List(list) | Immediate::Tuple(list)) => Some(list),
                Some(Immediate::Tensor(_)) => None,
                Some(Immediate::Dictionary(_)) | None => return Err(missing("tensor or list")),
            },
            Some(Source::BlobFile(_)) => None,
        };
        if let Some(list) = list {
            let items = list.values.iter().enumerate();
            let items = items.map(|(i, value)| self.item(value, &format!("{name}.{i}")));
            return Ok(Item::List(items.collect::<Result<_, _>>()?));
        }
        let (element, shape) = value_type(value, &place)?;
        if let Some(Source::Immediate(immediate)) = &value.source
            && let Some(Immediate::Tensor(tensor)) = &immediate.value
            && let Some(Elements::Strings(strings)) = &tensor.elements
        {
            let texts: Vec<Item> = strings.values.iter().cloned().map(Item::Text).collect();
            return Ok(match (texts.len(), shape.len()) {
                (1, 0) => texts.into_iter().next().unwrap_or(Item::Text(String::new())),
                _ => Item::List(texts),
            });
        }
        let count = elements(&shape);
        let data = match &value.source {
            Some(Source::BlobFile(blob)) => {
                self.build.budget.spend(&shape)?;
                let path = blob.path();
                let data = self.blobs.elements(path, blob.offset, element, count, &mut self.build.budget)?;
                self.notes.append(&mut self.blobs.notes);
                data
            }
            Some(Source::Immediate(immediate)) => immediate_data(immediate, element, count, &place)?,
            None => return Err(missing("value")),
        };
        if data.len() != count {
            return Err(Error::OutOfRange {
                place: place(),
                key: "number of elements".to_string(),
                found: data.len() as i64,
                least: count as i64,
                most: count as i64,
            });
        }
        let tensor = Arc::new(Tensor { shape, data });
        Ok(Item::Constant(Arc::new(Constant { name: name.to_string(), tensor })))
    }
}
