//! MIL functions into graphs: the environment of named values, operands and attributes of one operation, and folding of
//! operations whose operands are all constant. What each operation means is in the submodules.

mod call;
mod compressed;
mod elementwise;
mod shape;
mod spatial;
mod statistics;
mod values;

use super::blob::Blobs;
use super::proto::{self, Block, Bound, Elements, Function, Immediate, Operation, Source, TypeKind};
use crate::error::Error;
use crate::graph::{Net, Tensor, TensorType, Value, ValueId, elements};
use crate::infer::sized;
use call::Call;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use values::{immediate_data, input_type, value_type};

/// What a name stands for.
#[derive(Clone)]
enum Item {
    Value(ValueId),
    Constant(Arc<Constant>),
    Text(String),
    List(Vec<Item>),
}

/// A constant; it becomes a value of the net when an operation takes it as an operand.
struct Constant {
    name: String,
    tensor: Arc<Tensor>,
}

/// Builds the net of one function.
pub struct Builder<'a> {
    pub net: Net,
    pub notes: Vec<String>,
    blobs: Blobs<'a>,
    names: HashSet<String>,
    items: HashMap<String, Item>,
    constants: HashMap<String, ValueId>,
}

impl<'a> Builder<'a> {
    pub fn new(name: &str, blobs: Blobs<'a>) -> Self {
        Builder {
            net: Net { name: name.to_string(), ..Net::default() },
            notes: Vec::new(),
            blobs,
            names: HashSet::new(),
            items: HashMap::new(),
            constants: HashMap::new(),
        }
    }

    /// Translates the function's block; `defaults` gives the default shape of an input whose extents are not fixed.
    pub fn function(
        &mut self,
        function: &Function,
        defaults: &dyn Fn(&str) -> Option<Vec<i64>>,
        notes: &mut Vec<String>,
    ) -> Result<(), Error> {
        for input in &function.inputs {
            let ty = input_type(input, defaults)?;
            sized(&ty, || format!("input `{}`", input.name))?;
            let id = self.value(&input.name, ty, None);
            self.items.insert(input.name.clone(), Item::Value(id));
            self.net.inputs.push(id);
        }
        let blocks = &function.block_specializations;
        let only = blocks.values().next().filter(|_| blocks.len() == 1);
        let place = || format!("function `{}`", self.net.name);
        let block = blocks.get(&function.opset).or(only);
        let block = block.ok_or_else(|| Error::Missing { place: place(), key: function.opset.clone() })?;
        notes.push(format!("opset {}", function.opset));
        self.block(block)
    }

    fn block(&mut self, block: &Block) -> Result<(), Error> {
        // Names that later operations define must not be taken by intermediate values.
        self.names.extend(block.operations.iter().flat_map(|op| &op.outputs).map(|o| o.name.clone()));
        for op in &block.operations {
            self.operation(op)?;
        }
        for name in &block.outputs {
            let item = self.items.get(name).cloned();
            let unknown = || Error::UnknownName { place: "block outputs".to_string(), name: name.clone() };
            let id = match item.ok_or_else(unknown)? {
                Item::Value(id) => id,
                Item::Constant(constant) => self.constant(&constant),
                Item::Text(_) | Item::List(_) => return Err(unknown()),
            };
            self.net.outputs.push(id);
        }
        self.prune();
        Ok(())
    }

    /// Drops constants that no operation takes: attributes, and what folding has replaced.
    fn prune(&mut self) {
        let net = &mut self.net;
        let mut kept: Vec<bool> = net.values.iter().map(|v| v.data.is_none()).collect();
        for id in net.ops.iter().flat_map(|op| &op.inputs).chain(&net.outputs) {
            kept[id.0 as usize] = true;
        }
        let mut count = 0;
        let number = |&kept: &bool| {
            count += u32::from(kept);
            count.saturating_sub(1)
        };
        let renumbered: Vec<u32> = kept.iter().map(number).collect();
        let renumber = |id: &mut ValueId| id.0 = renumbered[id.0 as usize];
        net.ops.iter_mut().flat_map(|op| op.inputs.iter_mut().chain(&mut op.outputs)).for_each(renumber);
        net.inputs.iter_mut().chain(&mut net.outputs).for_each(renumber);
        let mut flags = kept.into_iter();
        net.values.retain(|_| flags.next().unwrap_or(true));
    }

    /// Adds a value; the caller has made sure that the name is free.
    fn value(&mut self, name: &str, ty: TensorType, data: Option<Arc<Tensor>>) -> ValueId {
        self.names.insert(name.to_string());
        self.net.add_value(Value { name: name.to_string(), ty, data, surface: None })
    }

    /// The constant as a value of the net.
    fn constant(&mut self, constant: &Constant) -> ValueId {
        if let Some(&id) = self.constants.get(&constant.name) {
            return id;
        }
        let id = self.value(&constant.name, constant.tensor.ty(), Some(constant.tensor.clone()));
        self.constants.insert(constant.name.clone(), id);
        id
    }

    /// A name that nothing has yet.
    fn fresh(&mut self, stem: &str) -> String {
        let mut name = stem.to_string();
        for i in 1.. {
            if self.names.insert(name.clone()) {
                break;
            }
            name = format!("{stem}.{i}");
        }
        name
    }

    fn operation(&mut self, op: &Operation) -> Result<(), Error> {
        let output = op.outputs.first().map_or("", |o| &o.name);
        let unsupported = |reason: String| Error::Unsupported { op: op.ty.clone(), output: output.to_string(), reason };
        if !op.blocks.is_empty() {
            return Err(unsupported("control flow with nested blocks".to_string()));
        }
        for output in &op.outputs {
            if self.items.contains_key(&output.name) {
                return Err(Error::DefinedTwice { op: op.ty.clone(), value: output.name.clone() });
            }
            if let Some(TypeKind::State(_)) = output.ty.as_ref().and_then(|t| t.kind.as_ref()) {
                return Err(unsupported("states are not part of a graph".to_string()));
            }
        }
        if op.outputs.is_empty() {
            return Err(unsupported("it has no output".to_string()));
        }
        if op.ty == "const" {
            let value = op.attributes.get("val").or_else(|| match &op.inputs.get("val")?.arguments.first()?.bound {
                Some(Bound::Value(value)) => Some(value),
                _ => None,
            });
            let place = || format!("const `{output}`");
            let value = value.ok_or_else(|| Error::Missing { place: place(), key: "val".to_string() })?;
            let item = self.item(value, output)?;
            self.items.insert(output.to_string(), item);
            return Ok(());
        }
        let mut arguments = HashMap::new();
        for (name, argument) in &op.inputs {
            let mut items = Vec::with_capacity(argument.arguments.len());
            for binding in &argument.arguments {
                items.push(match &binding.bound {
                    Some(Bound::Name(bound)) => {
                        let place = || format!("{} `{output}`, operand `{name}`", op.ty);
                        let unknown = || Error::UnknownName { place: place(), name: bound.clone() };
                        self.items.get(bound).cloned().ok_or_else(unknown)?
                    }
                    Some(Bound::Value(value)) => {
                        let name = self.fresh(&format!("{output}.{name}"));
                        self.item(value, &name)?
                    }
                    None => return Err(Error::Missing { place: format!("{} `{output}`", op.ty), key: name.clone() }),
                });
            }
            arguments.insert(name.clone(), items);
        }
        for (name, value) in op.attributes.iter().filter(|(name, _)| !op.inputs.contains_key(*name)) {
            let fresh = self.fresh(&format!("{output}.{name}"));
            // Attributes that cannot be read matter only to an operation that asks for them.
            if let Ok(item) = self.item(value, &fresh) {
                arguments.insert(name.clone(), vec![item]);
            }
        }
        let name = match arguments.get("name").map(Vec::as_slice) {
            Some([Item::Text(name)]) => name.clone(),
            _ => output.to_string(),
        };
        let mut call = Call { builder: self, op, name, arguments };
        call.translate()
    }

    /// A value of the file: a tensor, a text, or a list of them.
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
                self.blobs.budget.spend(&shape)?;
                let path = blob.file_name.strip_prefix("@model_path/").unwrap_or(&blob.file_name);
                self.blobs.elements(path, blob.offset, element, count)?
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
