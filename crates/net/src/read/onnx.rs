//! ONNX models: the graph, its initializers, and the environment of named values. The submodules translate the
//! operators.
//!
//! Element types that tensors do not have are converted as in [`crate::stored`]: `int64` to `i32`, saturating, and
//! `double` to `f32`.

mod across;
mod along;
mod attention;
mod bits;
mod branches;
mod channels;
mod classical;
mod contributed;
pub(crate) mod counts;
mod elementwise;
mod ensembles;
mod experts;
mod follow;
mod fused;
mod heads;
mod index;
mod lengths;
pub(super) mod lent;
mod linear_attention;
mod live;
mod loss;
mod made;
mod masked;
mod masks;
mod moving;
mod node;
mod normalize;
mod numbered;
mod open;
mod outlined;
mod pairs;
pub(super) mod parts;
#[doc(hidden)]
pub mod proto;
mod quantized;
mod recurrent;
mod regions;
mod resize;
mod rois;
pub(super) mod rows;
mod sequence;
mod shape;
mod sparse;
mod spatial;
mod spectrum;
mod subgraph;
mod suppressed;
mod tables;
mod vectors;

use super::{Files, Options, Reading};
use crate::build::Builder;
use crate::build::beyond::Beyond;
use crate::error::Error;
use crate::graph::{Data, MAX_RANK, Tensor, TensorType, ValueId, elements};
use crate::stored::{Element, Form, Stored};
use bytes::Bytes;
use node::Node;
use outlined::Left;
pub use outlined::outline_onnx;
use prost::Message;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Deepest nesting of subgraphs and functions.
const NESTING: usize = 16;

/// Newest opset whose operators are known.
const OPSET: i64 = 28;

/// Reads an ONNX model of opset 7 to 28; `files` resolves external data. Symbolic dimensions take their extents from the
/// options, under the dimension's name or as `input.axis`.
///
/// Errors: operators and types that the graph cannot express ([`Error::Unsupported`]), dimensions without an extent,
/// malformed data, and data outside its file.
pub fn read_onnx(bytes: &[u8], files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    read_shared(&Bytes::copy_from_slice(bytes), files, options)
}

/// As [`read_onnx`], without copies of constants.
pub(super) fn read_shared(bytes: &Bytes, files: &dyn Files, options: &Options) -> Result<Reading, Error> {
    let (build, notes, _) = translate(bytes, files, options, false)?;
    Ok((build.finish(), notes))
}

/// Translates a model's graph; nodes that it cannot express are added to `left` if that is given. A graph with rows at computed places
/// that cannot all be computed is read again without them.
fn translate(
    bytes: &Bytes,
    files: &dyn Files,
    options: &Options,
    left: bool,
) -> Result<(Builder, Vec<String>, Vec<Left>), Error> {
    let lost = OnceCell::new();
    let made = attempt(bytes, files, options, left, Some(&lost));
    let Some(place) = lost.get() else { return made };
    attempt(bytes, files, options, left, None).map_err(|error| match error {
        Error::Unsupported { op, output, reason } if rows::SOURCES.contains(&op.as_str()) => {
            let reason = format!("{reason}; its rows are followed to {place}, which has no rule for them");
            Error::Unsupported { op, output, reason }
        }
        other => other,
    })
}

fn attempt(
    bytes: &Bytes,
    files: &dyn Files,
    options: &Options,
    left: bool,
    lost: Option<&OnceCell<String>>,
) -> Result<(Builder, Vec<String>, Vec<Left>), Error> {
    let syntax = |reason: String| Error::Syntax { place: "ONNX model".to_string(), reason };
    let model = proto::Model::decode(bytes.clone()).map_err(|e| syntax(e.to_string()))?;
    let graph = model.graph.as_ref().ok_or_else(|| syntax("it has no graph".to_string()))?;
    let opset = model.opset_import.iter().find(|o| o.domain.is_empty() || o.domain == "ai.onnx");
    let opset = opset.map_or(1, |o| o.version);
    let mut notes = vec![format!("opset {opset}")];
    if !(7..=OPSET).contains(&opset) {
        notes.push(format!("ONNX opset {opset}: operators are read as those of 7 to {OPSET}"));
    }
    let unused = OnceCell::new();
    let options = &open::with_extents(graph, options)?;
    let mut translator = Translator {
        build: Builder::new(&graph.name),
        files,
        options,
        opset,
        functions: &model.functions,
        values: HashMap::new(),
        sequences: HashMap::new(),
        absent: HashSet::new(),
        external: HashMap::new(),
        wide: HashMap::new(),
        depth: 0,
        notes,
        left: left.then(Vec::new),
        computed: rows::Computed { marks: lost.map(|_| HashMap::new()), ..Default::default() },
        lost: lost.unwrap_or(&unused),
    };
    translator.build.budget.add_file(bytes.len());
    translator.graph(graph)?;
    let Translator { build, notes, left, .. } = translator;
    Ok((build, notes, left.unwrap_or_default()))
}

/// Returns true if the fields of a message are those of an ONNX model rather than a Core ML one.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    let (mut at, mut graph) = (0usize, false);
    let varint = |at: &mut usize| {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *bytes.get(*at)?;
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    while at < bytes.len() {
        let Some(tag) = varint(&mut at) else { return graph };
        let (field, wire) = (tag >> 3, tag & 7);
        if field > 25 {
            return false;
        }
        graph |= field == 7;
        let skip = match wire {
            0 => varint(&mut at).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut at),
            5 => Some(4),
            _ => None,
        };
        match skip.and_then(|n| usize::try_from(n).ok()).and_then(|n| at.checked_add(n)) {
            Some(next) => at = next,
            None => return graph,
        }
    }
    graph
}

/// Builds the net of one model.
pub struct Translator<'a> {
    pub build: Builder,
    files: &'a dyn Files,
    options: &'a Options,
    pub opset: i64,
    functions: &'a [proto::Function],
    /// Values by name; names of outer graphs are visible in inner ones.
    values: HashMap<String, ValueId>,
    /// Elements of sequences by name.
    sequences: HashMap<String, Vec<ValueId>>,
    /// Optional values without element.
    absent: HashSet<String>,
    external: HashMap<String, Bytes>,
    /// Integers of the file that are held in a type of another width: 64-bit and unsigned 32-bit ones as `i32`, and unsigned 4-bit ones as bytes.
    wide: HashMap<ValueId, Element>,
    depth: usize,
    pub notes: Vec<String>,
    /// Nodes that a static graph cannot represent, if they are collected.
    left: Option<Vec<Left>>,
    /// Rows whose number depends on values.
    computed: rows::Computed,
    /// Place of the first reader of a marked value that no rule translates.
    lost: &'a OnceCell<String>,
}

impl Translator<'_> {
    fn graph(&mut self, graph: &proto::Graph) -> Result<(), Error> {
        self.initializers(graph)?;
        for input in &graph.input {
            // A given value replaces the default that an initializer of the same name is.
            if self.bind(input)? || self.values.contains_key(&input.name) {
                continue;
            }
            let ty = self.input_type(input)?;
            let id = self.build.input_or_nothing(&input.name, ty)?;
            let tensor = input.ty.as_ref().and_then(|t| t.tensor.as_ref());
            if let Some(element) = tensor.and_then(|t| element(t.element)) {
                self.note_element(id, element);
            }
            self.values.insert(input.name.clone(), id);
        }
        self.all_bound(graph)?;
        // Intermediate values must not use names that later nodes define.
        graph.node.iter().flat_map(|n| &n.output).for_each(|name| self.build.reserve(name));
        live::once(graph)?;
        let nodes = live::nodes(graph);
        match self.left.take() {
            None => self.nodes(&nodes)?,
            Some(left) => self.left = Some(self.nodes_for_host(&nodes, left)?),
        }
        let open: Vec<&str> = self.left.iter().flatten().flat_map(|n| &n.outputs).map(String::as_str).collect();
        let outputs: Vec<_> = graph.output.iter().filter(|o| !open.contains(&o.name.as_str())).collect();
        for output in outputs {
            let id = self.value(&output.name, "graph outputs")?;
            self.declared(output, id)?;
            parts::packed(&mut self.build, &self.computed, &mut self.notes, id, &output.name)?;
        }
        Ok(())
    }

    /// Refuses an output that is declared as floats and computed as integers, or vice versa.
    fn declared(&self, output: &proto::ValueInfo, id: ValueId) -> Result<(), Error> {
        let tensor = output.ty.as_ref().and_then(|t| t.tensor.as_ref());
        let declared = tensor.and_then(|t| element(t.element)).and_then(|e| e.dtype());
        let found = self.build.dtype(id);
        match declared.filter(|d| d.is_float() != found.is_float()) {
            None => Ok(()),
            Some(declared) => Err(Error::WrongType {
                place: format!("output `{}`", output.name),
                key: "element type".to_string(),
                found: format!("{found}, declared {declared}"),
                expected: "the declared one",
            }),
        }
    }

    fn initializers(&mut self, graph: &proto::Graph) -> Result<(), Error> {
        for initializer in &graph.initializer {
            let (tensor, beyond) = self.tensor(initializer)?;
            let name = self.build.fresh(&initializer.name);
            let id = self.build.value(&name, tensor.ty(), Some(Arc::new(tensor)));
            self.build.note_beyond(id, beyond);
            if let Some(element) = element(initializer.data_type) {
                self.note_element(id, element);
            }
            self.values.insert(initializer.name.clone(), id);
        }
        for message in &graph.sparse_initializer {
            let (name, tensor) = self.sparse(message)?;
            let fresh = self.build.fresh(&name);
            let id = self.build.value(&fresh, tensor.ty(), Some(Arc::new(tensor)));
            self.values.insert(name, id);
        }
        Ok(())
    }

    /// Records the element type of the file if it is an integer type beyond `i32`.
    pub fn note_element(&mut self, id: ValueId, element: Element) {
        if matches!(element, Element::Int(64) | Element::UInt(4 | 32 | 64)) {
            self.wide.insert(id, element);
        }
        if matches!(element, Element::UInt(32 | 64)) && self.build.data(id).is_none() {
            self.build.note_unsigned(id);
        }
    }

    /// The dependence of a value on the number of places where a mask is true.
    fn mark(&self, id: ValueId) -> Option<&rows::Mark> {
        self.computed.marks.as_ref()?.get(&id)
    }

    /// The integer type in the file of a value that is held as `i32`, if it is not int32.
    pub fn wide_element(&self, id: ValueId) -> Option<Element> {
        self.wide.get(&id).copied()
    }

    fn nodes(&mut self, nodes: &[proto::Node]) -> Result<(), Error> {
        masked::joined(nodes).iter().try_for_each(|node| Node::new(self, node)?.translate())
    }

    fn value(&self, name: &str, place: &str) -> Result<ValueId, Error> {
        if self.sequences.contains_key(name) {
            let reason =
                "a sequence of tensors where one tensor is read. Export with one tensor for each element".to_string();
            return Err(Error::Unsupported { op: place.to_string(), output: name.to_string(), reason });
        }
        self.values.get(name).copied().ok_or_else(|| self.build.undefined(place, name))
    }

    fn input_type(&self, input: &proto::ValueInfo) -> Result<TensorType, Error> {
        let place = || format!("input `{}`", input.name);
        let tensor = input.ty.as_ref().and_then(|t| t.tensor.as_ref());
        let tensor = tensor.ok_or_else(|| Error::Unsupported {
            op: "input".to_string(),
            output: input.name.clone(),
            reason: "sequences, maps and optional values are not tensors".to_string(),
        })?;
        let dims = tensor.shape.as_ref().map(|s| s.dim.as_slice()).unwrap_or_default();
        let extent = |(axis, dim): (usize, &proto::Dim)| {
            let at = format!("{}.{axis}", input.name);
            let asked = dim.param.as_ref().and_then(|name| self.options.extents.get(name));
            let asked = asked.or_else(|| self.options.extents.get(&at)).copied();
            let stated = dim.value.and_then(|v| usize::try_from(v).ok());
            asked.or(stated).ok_or_else(|| Error::NoExtent {
                input: input.name.clone(),
                axis,
                name: dim.param.clone().filter(|p| !p.is_empty()).unwrap_or(at),
            })
        };
        let shape = dims.iter().enumerate().map(extent).collect::<Result<Vec<usize>, Error>>()?;
        let dtype = element(tensor.element).and_then(|e| if e.bits() < 8 { None } else { e.dtype() });
        let dtype = dtype.ok_or_else(|| Error::WrongType {
            place: place(),
            key: "element type".to_string(),
            found: element_name(tensor.element),
            expected: "a number or truth value",
        })?;
        Ok(TensorType { dtype, shape })
    }

    /// Data of a tensor message.
    pub fn tensor(&mut self, message: &proto::Tensor) -> Result<(Tensor, Option<Beyond>), Error> {
        let place = || format!("tensor `{}`", message.name);
        let wrong = |found: String, expected| Error::WrongType {
            place: place(),
            key: "element type".to_string(),
            found,
            expected,
        };
        let element = element(message.data_type);
        let element = element.filter(|e| *e != Element::String);
        let element = element.ok_or_else(|| wrong(element_name(message.data_type), "numbers or truth values"))?;
        let shape = message.dims.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<usize>>>();
        let shape = shape.filter(|s| s.len() <= MAX_RANK).ok_or_else(|| Error::Missing {
            place: place(),
            key: "extents that are not negative, at most 8".to_string(),
        })?;
        let count = elements(&shape);
        self.build.budget.spend(&shape)?;
        let plain = |bytes: Bytes| {
            let beyond = Beyond::among(element, &bytes);
            let tensor =
                Stored::tensor(Form::Plain { element, bytes }, shape.clone()).map_err(|e| e.in_op(&place()))?;
            let data = if count <= 1024 { tensor.data.dense().into_owned() } else { tensor.data };
            Ok((Tensor { shape: shape.clone(), data }, beyond))
        };
        if message.data_location == 1 {
            return plain(self.external(message, &place())?);
        }
        if !message.raw_data.is_empty() || count == 0 {
            // Data of another length belong to another type or other extents.
            let needed = count.saturating_mul(element.bits()).div_ceil(8);
            if message.raw_data.len() > needed {
                let found = format!("{} bytes for {count} of {element:?}", message.raw_data.len());
                return Err(wrong(found, "as many bytes as elements"));
            }
            return plain(message.raw_data.clone());
        }
        let clamp = |v: i128| v.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let dtype = element.dtype().ok_or_else(|| wrong("texts".to_string(), "numbers"))?;
        let data = match element {
            Element::Float32 => Data::F32(message.float_data.clone()),
            Element::Float64 => Data::F32(message.double_data.iter().map(|&v| v as f32).collect()),
            Element::Int(64) => Data::I32(message.int64_data.iter().map(|&v| clamp(v.into())).collect()),
            Element::UInt(64 | 32) => Data::I32(message.uint64_data.iter().map(|&v| clamp(v.into())).collect()),
            // fp16 numbers are stored as their bit patterns.
            Element::Float16 | Element::BFloat16 => {
                let bytes: Vec<u8> = message.int32_data.iter().flat_map(|&v| (v as u16).to_le_bytes()).collect();
                return plain(bytes.into());
            }
            Element::Int(..=7) | Element::UInt(..=7) => {
                let bytes: Vec<u8> = message.int32_data.iter().map(|&v| v as u8).collect();
                return plain(bytes.into());
            }
            _ => Data::from_i32(dtype, &message.int32_data),
        };
        if data.len() != count {
            let (found, n) = (data.len() as i64, count as i64);
            return Err(Error::OutOfRange {
                place: place(),
                key: "number of elements".to_string(),
                found,
                least: n,
                most: n,
            });
        }
        let beyond = match element {
            Element::Int(64) => Beyond::of(message.int64_data.iter().map(|&v| v.into())),
            Element::UInt(64 | 32) => Beyond::of(message.uint64_data.iter().map(|&v| v.into())),
            Element::Float64 => Beyond::of_reals(message.double_data.iter().copied()),
            _ => None,
        };
        Ok((Tensor { shape, data }, beyond))
    }

    fn external(&mut self, message: &proto::Tensor, place: &str) -> Result<Bytes, Error> {
        let entry = |key: &str| message.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
        let missing = |key: &str| Error::Missing { place: place.to_string(), key: key.to_string() };
        let path = entry("location").ok_or_else(|| missing("location"))?.to_string();
        let bytes = match self.external.get(&path) {
            Some(bytes) => bytes.clone(),
            None => {
                let read = self.files.read(&path);
                let bytes = read.map_err(|reason| Error::File { path: path.clone(), reason })?;
                self.build.budget.add_file(bytes.len());
                self.external.insert(path.clone(), bytes.clone());
                bytes
            }
        };
        let number = |key: &str, default: u64| match entry(key) {
            None => Ok(default),
            Some(text) => text.parse::<u64>().map_err(|_| missing(key)),
        };
        let offset = number("offset", 0)?;
        let length = number("length", (bytes.len() as u64).saturating_sub(offset))?;
        let part = super::blob::part(&bytes, offset, length, &|| format!("{place} in {path}"), "data")?;
        Ok(bytes.slice_ref(part))
    }
}

/// An element type that no tensor of the graph has, for messages.
fn element_name(number: i32) -> String {
    match number {
        8 => "string".to_string(),
        14 => "complex64".to_string(),
        15 => "complex128".to_string(),
        _ => format!("type {number}"),
    }
}

/// Element type by its number in the format.
pub fn element(number: i32) -> Option<Element> {
    Some(match number {
        1 => Element::Float32,
        2 => Element::UInt(8),
        3 => Element::Int(8),
        4 => Element::UInt(16),
        5 => Element::Int(16),
        6 => Element::Int(32),
        7 => Element::Int(64),
        8 => Element::String,
        9 => Element::Bool,
        10 => Element::Float16,
        11 => Element::Float64,
        12 => Element::UInt(32),
        13 => Element::UInt(64),
        16 => Element::BFloat16,
        21 => Element::UInt(4),
        22 => Element::Int(4),
        _ => return None,
    })
}
