//! Writer of a net as a MIL program with its weight file, and as a model package.

mod ops;

use super::proto::*;
use crate::error::Error;
use crate::graph::{DType, Data, Net, Tensor, TensorType as NetType, ValueId};
use crate::ops::OpKind;
use crate::stored::{Element, Form, Stored, to_bytes};
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Path by which a program refers to its weight file.
const WEIGHT_PATH: &str = "@model_path/weights/weight.bin";

/// Opset of written programs: it has states and every form of compressed weights.
const OPSET: &str = "CoreML8";

/// Version of the model format that belongs to the opset.
const SPECIFICATION: i32 = 9;

/// Largest number of elements of a constant that is stored in the program itself.
const INLINE_ELEMENTS: usize = 16;

/// A program and its weights.
pub struct Written {
    /// The program, one function `main`.
    pub program: Program,
    /// The weight file `weights/weight.bin` beside it.
    pub weights: Vec<u8>,
}

/// Writes a checked net. Names consist of letters, digits and `_`; other characters are replaced, and operations keep their original name
/// as an attribute.
///
/// Errors: an operation without a form in the format ([`Error::Unsupported`]).
pub fn write(net: &Net) -> Result<Written, Error> {
    let mut writer = Writer {
        net,
        operations: Vec::new(),
        weights: Weights::default(),
        names: HashMap::new(),
        taken: HashSet::new(),
        defined: HashSet::new(),
    };
    let mut inputs = Vec::new();
    for &id in net.inputs.iter().chain(net.ops.iter().flat_map(|op| &op.outputs)) {
        writer.name(id);
    }
    for &id in &net.inputs {
        let tensor = value_type(&net.value(id).ty);
        let state = net.states.iter().any(|s| s.input == id);
        let ty = if state {
            ValueType { kind: Some(TypeKind::State(Box::new(StateType { wrapped: Some(Box::new(tensor)) }))) }
        } else {
            tensor
        };
        inputs.push(NamedValueType { name: writer.name(id), ty: Some(ty) });
    }
    for state in &net.states {
        // The operations read the state's current value.
        let (name, ty) = (writer.name(state.input), value_type(&net.value(state.input).ty));
        let read = writer.fresh(&format!("{name}_read"));
        writer.push("read_state", vec![("input", Arg::Name(name))], vec![(read.clone(), ty)], None);
        writer.names.insert(state.input, read);
    }
    for op in &net.ops {
        writer.op(op)?;
    }
    let mut outputs = Vec::new();
    for (position, &id) in net.outputs.iter().enumerate() {
        if let Some(state) = net.states.iter().find(|s| s.output == id) {
            let first = net.outputs.iter().position(|o| *o == id) == Some(position);
            if first {
                let target = inputs[net.inputs.iter().position(|i| *i == state.input).unwrap_or(0)].name.clone();
                let (value, ty) = (writer.use_of(id), value_type(&net.value(id).ty));
                let done = writer.fresh(&format!("{target}_update"));
                let arguments = vec![("state", Arg::Name(target)), ("value", value)];
                writer.push("coreml_update_state", arguments, vec![(done, ty)], None);
                continue;
            }
        }
        outputs.push(writer.output(id));
    }
    let block = Block { inputs: vec![], outputs, operations: writer.operations };
    let function = Function {
        inputs,
        opset: OPSET.to_string(),
        block_specializations: BTreeMap::from([(OPSET.to_string(), block)]),
        attributes: BTreeMap::new(),
    };
    let functions = BTreeMap::from([("main".to_string(), function)]);
    let program = Program { version: 1, functions, attributes: super::build_info() };
    Ok(Written { program, weights: writer.weights.finish() })
}

/// The model file of a program, with descriptions of inputs, outputs and states from the net.
pub fn model(net: &Net, written: &Written) -> Vec<u8> {
    let function = written.program.functions.get("main").cloned().unwrap_or_default();
    let block = function.block_specializations.values().next().cloned().unwrap_or_default();
    let array = |ty: &NetType| ArrayFeatureType {
        shape: ty.shape.iter().map(|&d| d as i64).collect(),
        data_type: match ty.dtype {
            DType::F16 => 65552,
            DType::F32 => 65568,
            DType::I8 => 131_080,
            _ => 131_104,
        },
        ..ArrayFeatureType::default()
    };
    let feature = |name: &str, ty: FeatureType| FeatureDescription { name: name.to_string(), ty: Some(ty) };
    let is_state = |id: &ValueId| net.states.iter().any(|s| s.input == *id);
    let named = || function.inputs.iter().map(|i| i.name.as_str()).zip(&net.inputs);
    let tensor = |ty| FeatureType { multi_array: Some(array(ty)), ..FeatureType::default() };
    let state = |ty| {
        let array = Some(array(ty));
        FeatureType { state: Some(StateFeatureType { array }), ..FeatureType::default() }
    };
    let plain_outputs = net.outputs.iter().filter(|o| net.states.iter().all(|s| s.output != **o));
    let description = ModelDescription {
        input: named().filter(|(_, id)| !is_state(id)).map(|(n, id)| feature(n, tensor(&net.value(*id).ty))).collect(),
        state: named().filter(|(_, id)| is_state(id)).map(|(n, id)| feature(n, state(&net.value(*id).ty))).collect(),
        output: block.outputs.iter().zip(plain_outputs).map(|(n, id)| feature(n, tensor(&net.value(*id).ty))).collect(),
        ..ModelDescription::default()
    };
    let mut program = written.program.clone();
    program.attributes.remove(super::OPSET_TAG);
    let model = Model {
        specification_version: SPECIFICATION,
        description: Some(description),
        kind: Some(Kind::MlProgram(program)),
    };
    model.encode_to_vec()
}

/// The manifest of a package that holds one model and its weights.
pub fn manifest() -> String {
    // Identifiers only tie the entries together; fixed ones keep equal models equal.
    let entry = |name: &str, description: &str| {
        serde_json::json!({ "author": "com.apple.CoreML", "description": description, "name": name,
            "path": format!("com.apple.CoreML/{name}") })
    };
    let (model, weights) = ("A0000000-0000-4000-8000-000000000001", "A0000000-0000-4000-8000-000000000002");
    let manifest = serde_json::json!({
        "fileFormatVersion": "1.0.0",
        "itemInfoEntries": {
            model: entry("model.mlmodel", "CoreML Model Specification"),
            weights: entry("weights", "CoreML Model Weights"),
        },
        "rootModelIdentifier": model,
    });
    format!("{manifest:#}\n")
}

/// A weight file under construction.
#[derive(Default)]
struct Weights {
    bytes: Vec<u8>,
    count: u32,
    /// Offsets of records by the hash of their data.
    records: HashMap<u64, Vec<u64>>,
}

impl Weights {
    /// Adds a record, or finds the one with the same content; returns its offset.
    fn add(&mut self, element: Element, bits: u64, data: &[u8]) -> u64 {
        let number = blob_number(element).unwrap_or(0);
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        let alike = self.records.entry(hasher.finish()).or_default();
        let same = |&&at: &&u64| {
            let record = &self.bytes[at as usize..];
            let size = u64::from_le_bytes(record[8..16].try_into().unwrap_or_default());
            record[4..8] == number.to_le_bytes() && size == data.len() as u64 && record[64..].starts_with(data)
        };
        if let Some(&offset) = alike.iter().find(same) {
            return offset;
        }
        self.bytes.resize(self.bytes.len().max(64).next_multiple_of(64), 0);
        let offset = self.bytes.len() as u64;
        alike.push(offset);
        let size = data.len() as u64;
        self.bytes.extend(0xdead_beef_u32.to_le_bytes());
        self.bytes.extend(number.to_le_bytes());
        for word in [size, offset + 64, size * 8 - bits, 0, 0, 0, 0] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.truncate(offset as usize + 64);
        self.bytes.extend(data);
        self.count += 1;
        offset
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().max(64), 0);
        self.bytes[..4].copy_from_slice(&self.count.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&2u32.to_le_bytes());
        self.bytes
    }
}

/// An argument of an operation being written.
enum Arg {
    Name(String),
    Names(Vec<String>),
    Value(Value),
}

struct Writer<'a> {
    net: &'a Net,
    operations: Vec<Operation>,
    weights: Weights,
    names: HashMap<ValueId, String>,
    taken: HashSet<String>,
    /// Constants that have been written.
    defined: HashSet<ValueId>,
}

impl Writer<'_> {
    fn fresh(&mut self, stem: &str) -> String {
        let mut plain: String =
            stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
        if plain.is_empty() || plain.starts_with(|c: char| c.is_ascii_digit()) {
            plain.insert(0, '_');
        }
        // The name of a type would be parsed as a type.
        let reserved = ELEMENTS.iter().any(|row| row.2 == plain)
            || ["tensor", "list", "tuple", "dict", "state", "func", "nan", "inf", "infinity"].contains(&plain.as_str());
        let mut name = if reserved { format!("{plain}_") } else { plain.clone() };
        for i in 1.. {
            if self.taken.insert(name.clone()) {
                break;
            }
            name = format!("{plain}_{i}");
        }
        name
    }

    /// The name of a value in the program.
    fn name(&mut self, id: ValueId) -> String {
        if let Some(name) = self.names.get(&id) {
            return name.clone();
        }
        let stem = self.net.value(id).name.clone();
        let name = self.fresh(&stem);
        self.names.insert(id, name.clone());
        name
    }

    /// A value as an argument; constants are written at their first use.
    fn use_of(&mut self, id: ValueId) -> Arg {
        let Some(tensor) = self.net.value(id).data.clone() else { return Arg::Name(self.name(id)) };
        if tensor.data.len() == 1 && tensor.shape.is_empty() && !matches!(tensor.data, Data::Stored(_)) {
            return Arg::Value(self.value(&tensor));
        }
        let name = self.name(id);
        if self.defined.insert(id) {
            self.constant(&name, &tensor);
        }
        Arg::Name(name)
    }

    /// Name of an output of the block; a constant output needs an operation.
    fn output(&mut self, id: ValueId) -> String {
        match self.use_of(id) {
            Arg::Name(name) => name,
            Arg::Names(_) => String::new(),
            Arg::Value(value) => {
                let name = self.name(id);
                self.push_constant(&name, value);
                name
            }
        }
    }

    fn push(&mut self, ty: &str, arguments: Vec<(&str, Arg)>, outputs: Vec<(String, ValueType)>, name: Option<&str>) {
        let bind = |bound| Binding { bound: Some(bound) };
        let inputs = arguments.into_iter().map(|(name, arg)| {
            let arguments = match arg {
                Arg::Name(name) => vec![bind(Bound::Name(name))],
                Arg::Names(names) => names.into_iter().map(|n| bind(Bound::Name(n))).collect(),
                Arg::Value(value) => vec![bind(Bound::Value(value))],
            };
            (name.to_string(), Argument { arguments })
        });
        let named = |(name, ty)| NamedValueType { name, ty: Some(ty) };
        let mut operation = Operation {
            ty: ty.to_string(),
            inputs: inputs.collect(),
            outputs: outputs.into_iter().map(named).collect(),
            ..Operation::default()
        };
        if let Some(name) = name {
            operation.attributes.insert("name".to_string(), super::parse::text_value(name));
        }
        self.operations.push(operation);
    }

    fn push_constant(&mut self, name: &str, value: Value) {
        let mut operation = Operation { ty: "const".to_string(), ..Operation::default() };
        operation.outputs.push(NamedValueType { name: name.to_string(), ty: value.ty.clone() });
        operation.attributes.insert("val".to_string(), value);
        operation.attributes.insert("name".to_string(), super::parse::text_value(name));
        self.operations.push(operation);
    }

    /// Writes a constant under this name, in its compressed form.
    fn constant(&mut self, name: &str, tensor: &Tensor) {
        let compressed = match &tensor.data {
            Data::Stored(stored) if !matches!(stored.form(), Form::Plain { .. }) => Some(stored.clone()),
            _ => None,
        };
        let Some(stored) = compressed else {
            let value = self.value(tensor);
            return self.push_constant(name, value);
        };
        let ty = value_type(&tensor.ty());
        let (operation, arguments) = match stored.form() {
            Form::Plain { .. } => return,
            Form::Sparse { mask, values } => {
                let (mask_arg, values_arg) = self.sparse_parts(name, mask, values);
                ("constexpr_sparse_to_dense", vec![("nonzero_data", values_arg), ("mask", mask_arg)])
            }
            Form::Scaled { data, scale, offset, mask: None } => {
                let mut list =
                    vec![("data", self.part(name, "data", data)), ("scale", self.part(name, "scale", scale))];
                list.extend(offset.as_ref().map(|o| ("offset", self.part(name, "offset", &like_data(o, data)))));
                ("constexpr_blockwise_shift_scale", list)
            }
            Form::Palette { indices, table, axis, mask: None } => {
                let mut list =
                    vec![("indices", self.part(name, "indices", indices)), ("lut", self.part(name, "lut", table))];
                if table.shape.last() != Some(&1) {
                    list.push(("vector_axis", Arg::Value(integers(&[*axis as i32], true))));
                }
                ("constexpr_lut_to_dense", list)
            }
            // Elements under a mask exist only within a sparse form.
            Form::Scaled { mask: Some(_), .. } | Form::Palette { mask: Some(_), .. } => {
                let dense = Tensor { shape: tensor.shape.clone(), data: stored.dense() };
                let value = self.value(&dense);
                return self.push_constant(name, value);
            }
        };
        self.push(operation, arguments, vec![(name.to_string(), ty)], Some(name));
    }

    /// Mask and values of a sparse constant; the values may be compressed too.
    fn sparse_parts(&mut self, name: &str, mask: &Tensor, values: &Tensor) -> (Arg, Arg) {
        let bits = bit_mask(mask);
        let joint = match &values.data {
            Data::Stored(stored) => Some(stored.clone()),
            _ => None,
        };
        let (operation, arguments) = match joint.as_ref().map(|s| s.form()) {
            Some(Form::Palette { indices, table, mask: Some(_), .. }) => (
                "constexpr_lut_to_sparse",
                vec![
                    ("indices_mask", self.part(name, "mask", &bits)),
                    ("indices_nonzero_data", self.part(name, "indices", indices)),
                    ("lut", self.part(name, "lut", table)),
                ],
            ),
            Some(Form::Scaled { data, scale, offset, mask: Some(_) }) => {
                let mut list = vec![
                    ("data_mask", self.part(name, "mask", &bits)),
                    ("nonzero_data", self.part(name, "data", data)),
                    ("scale", self.part(name, "scale", scale)),
                ];
                list.extend(offset.as_ref().map(|o| ("offset", self.part(name, "offset", &like_data(o, data)))));
                ("constexpr_sparse_blockwise_shift_scale", list)
            }
            _ => return (self.part(name, "mask", &bits), self.part(name, "values", values)),
        };
        let (mask_name, values_name) = (self.fresh(&format!("{name}_mask_on")), self.fresh(&format!("{name}_values")));
        let types = (stored_type(&bits), value_type(&values.ty()));
        let outputs = vec![(mask_name.clone(), types.0), (values_name.clone(), types.1)];
        self.push(operation, arguments, outputs, Some(&mask_name));
        (Arg::Name(mask_name), Arg::Name(values_name))
    }

    /// A part of a compressed constant.
    fn part(&mut self, name: &str, suffix: &str, tensor: &Tensor) -> Arg {
        let part = self.fresh(&format!("{name}_{suffix}"));
        self.constant(&part, tensor);
        Arg::Name(part)
    }

    /// A constant as a value: in the program if it is small, else in the weight file.
    fn value(&mut self, tensor: &Tensor) -> Value {
        let element = match &tensor.data {
            Data::Stored(stored) => match stored.form() {
                Form::Plain { element: element @ (Element::UInt(..=8) | Element::Int(..=8)), .. } => *element,
                _ => Element::of(stored.dtype()),
            },
            data => Element::of(data.dtype()),
        };
        let ty = element_type(element, &tensor.shape);
        // Weight files have no element type for truth values.
        if tensor.data.len() <= INLINE_ELEMENTS || element == Element::Bool {
            let elements = match element {
                Element::Float32 => Elements::Floats(Floats { values: tensor.data.to_f32() }),
                Element::Int(32) => Elements::Ints(Ints { values: tensor.data.to_i32() }),
                Element::Bool => {
                    Elements::Bools(Bools { values: tensor.data.to_i32().iter().map(|&v| v != 0).collect() })
                }
                _ => Elements::Bytes(Bytes { values: to_bytes(&tensor.data, element).into() }),
            };
            let value = Immediate::Tensor(TensorValue { elements: Some(elements) });
            return Value { ty: Some(ty), source: Some(Source::Immediate(ImmediateValue { value: Some(value) })) };
        }
        let bits = tensor.data.len() as u64 * element.bits() as u64;
        let offset = self.weights.add(element, bits, &to_bytes(&tensor.data, element));
        let file_name = WEIGHT_PATH.to_string();
        Value { ty: Some(ty), source: Some(Source::BlobFile(BlobFileValue { file_name, offset })) }
    }

    fn unsupported(&self, kind: &OpKind, id: ValueId, reason: &str) -> Error {
        let (op, output) = (kind.name().to_string(), self.net.value(id).name.clone());
        Error::Unsupported { op, output, reason: reason.to_string() }
    }
}

/// Offsets converted to the element type of the data that they shift.
fn like_data(offset: &Tensor, data: &Tensor) -> Tensor {
    let Data::Stored(stored) = &data.data else { return offset.cast(data.data.dtype()) };
    let Form::Plain { element, .. } = stored.form() else { return offset.clone() };
    let bytes = to_bytes(&offset.data, *element).into();
    Stored::tensor(Form::Plain { element: *element, bytes }, offset.shape.clone()).unwrap_or_else(|_| offset.clone())
}

/// A mask packed to single bits.
fn bit_mask(mask: &Tensor) -> Tensor {
    let bytes = to_bytes(&Data::U8(mask.data.to_i32().iter().map(|&v| u8::from(v != 0)).collect()), Element::UInt(1));
    let form = Form::Plain { element: Element::UInt(1), bytes: bytes.into() };
    Stored::tensor(form, mask.shape.clone()).unwrap_or_else(|_| mask.clone())
}

fn stored_type(tensor: &Tensor) -> ValueType {
    match &tensor.data {
        Data::Stored(stored) => match stored.form() {
            Form::Plain { element, .. } => element_type(*element, &tensor.shape),
            _ => value_type(&tensor.ty()),
        },
        _ => value_type(&tensor.ty()),
    }
}

fn element_type(element: Element, shape: &[usize]) -> ValueType {
    let number = ELEMENTS.iter().find(|row| row.1 == element).map_or(0, |row| row.0);
    let extent = |&size: &usize| Dimension { extent: Some(Extent::Constant(ConstantDimension { size: size as u64 })) };
    let dimensions: Vec<Dimension> = shape.iter().map(extent).collect();
    let rank = dimensions.len() as i64;
    let tensor = TensorType { data_type: number, rank, dimensions, attributes: BTreeMap::new() };
    ValueType { kind: Some(TypeKind::Tensor(tensor)) }
}

fn value_type(ty: &NetType) -> ValueType {
    element_type(Element::of(ty.dtype), &ty.shape)
}

/// Integers as a value: a scalar or a list.
fn integers(values: &[i32], scalar: bool) -> Value {
    let list = [values.len()];
    let ty = element_type(Element::Int(32), if scalar { &[] } else { &list });
    literal(ty, Elements::Ints(Ints { values: values.to_vec() }))
}

fn sizes(values: &[usize]) -> Value {
    integers(&values.iter().map(|&v| v as i32).collect::<Vec<_>>(), false)
}

fn flag(value: bool) -> Value {
    literal(element_type(Element::Bool, &[]), Elements::Bools(Bools { values: vec![value] }))
}

/// A number of this float type.
fn float(value: f32, dtype: DType) -> Value {
    let element = if dtype == DType::F16 { Element::Float16 } else { Element::Float32 };
    let elements = match element {
        Element::Float16 => Elements::Bytes(Bytes { values: half::f16::from_f32(value).to_le_bytes().to_vec().into() }),
        _ => Elements::Floats(Floats { values: vec![value] }),
    };
    literal(element_type(element, &[]), elements)
}

fn text(value: &str) -> Value {
    super::parse::text_value(value)
}

fn literal(ty: ValueType, elements: Elements) -> Value {
    let value = Immediate::Tensor(TensorValue { elements: Some(elements) });
    Value { ty: Some(ty), source: Some(Source::Immediate(ImmediateValue { value: Some(value) })) }
}
