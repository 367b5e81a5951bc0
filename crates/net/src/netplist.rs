//! Writer of a net as a netplist with its weight file. Operations with a unit in the schema become that unit; everything that the
//! schema cannot express is kept in keys of our own beside it (`own`), so that reading gives the same net.

pub(crate) mod own;
mod params;

use crate::error::Error;
use crate::graph::{DType, Data, Net, Op, Tensor, TensorType, Value as NetValue, ValueId, elements};
use crate::ops::{Binary, OpKind};
use crate::stored::{Element, to_bytes};
use half::f16;
use params::{channel_axis, window};
use plist::{Dictionary, Value};

/// Version of the schema, and with it the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.0.9: the network names its inputs and outputs.
    Flat,
    /// 1.0.10: a list of procedures, each of which names its inputs, operations and outputs.
    #[default]
    Procedures,
}

impl Version {
    /// The version as files state it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Flat => "1.0.9",
            Version::Procedures => "1.0.10",
        }
    }
}

/// Name of the only procedure of a network.
const PROCEDURE: &str = "main";

/// Name of the weight file.
pub const WEIGHTS: &str = "net.weights";

/// Keys of a network that are not names of values.
const RESERVED: [&str; 11] = [
    "Inputs",
    "InputList",
    "Outputs",
    "OutputList",
    "Units",
    "OperationList",
    "Constants",
    "States",
    "Weights",
    own::CONSTANTS,
    own::STATES,
];

/// The property list as XML, and the weight file [`WEIGHTS`] beside it, in the newest version of the schema.
///
/// Errors: a port whose name is a key of the schema ([`Error::Unsupported`]).
pub fn write(net: &Net) -> Result<(Vec<u8>, Vec<u8>), Error> {
    write_as(net, Version::default())
}

/// As [`write()`], in a version of the schema.
pub fn write_as(net: &Net, version: Version) -> Result<(Vec<u8>, Vec<u8>), Error> {
    if let Some(op) = net.ops.iter().find(|op| matches!(op.kind, OpKind::Loop(_))) {
        return Err(unsupported("loop", &op.name, "loops are unrolled before they are written"));
    }
    // Outputs keep their names, so the units that compute them get others.
    let titles: Vec<String> = net.outputs.iter().map(|&id| net.value(id).name.clone()).collect();
    let mut named = net.clone();
    let made = |id: &ValueId| net.ops.iter().any(|op| op.outputs.contains(id));
    for &id in net.outputs.iter().filter(|id| made(id)) {
        named.values[id.0 as usize].name = format!("{}@unit", net.value(id).name);
    }
    let reserved = |name: &str| RESERVED.contains(&name);
    let ports = net.inputs.iter().chain(&net.outputs).map(|&id| &net.value(id).name);
    if let Some(name) = ports.clone().find(|name| reserved(name)) {
        return Err(unsupported("netplist", name, "a port of this name: it is a key of every network"));
    }
    for value in named.values.iter_mut().filter(|value| reserved(&value.name)) {
        value.name = format!("{}@value", value.name);
    }
    let net = &named;
    let mut writer = Writer::new(net);
    let mut names = Vec::new();
    for &id in &net.inputs {
        let value = net.value(id);
        let mut entry = writer.tensor(value, "Input");
        if let Some(batch) = entry.remove("InputBatchSize") {
            entry.insert("BatchSize".into(), batch);
        }
        names.push(Value::from(value.name.clone()));
        writer.network.insert(value.name.clone(), entry.into());
    }
    for op in &net.ops {
        writer.op(op);
    }
    let mut outputs = Vec::new();
    for (&id, title) in net.outputs.iter().zip(titles) {
        let value = net.value(id);
        // An input that is an output, or an output that is returned twice, needs a second name.
        let taken = value.name == title || writer.network.contains_key(&title);
        let name = if taken { format!("{title}@output{}", outputs.len()) } else { title };
        let mut entry =
            dictionary([("Bottom", value.name.clone().into()), ("OutputType", type_name(value.ty.dtype).into())]);
        surface(value, "Output", &mut entry);
        writer.network.insert(name.clone(), entry.into());
        outputs.push(Value::from(name));
    }
    let states = net.states.iter().map(|state| {
        let at =
            |ports: &[ValueId], id: ValueId| ports.iter().position(|&port| port == id).map_or(Value::from(-1), number);
        // The output is a port, or the input itself.
        let (input, output) = (at(&net.inputs, state.input), at(&net.outputs, state.output));
        Value::from(dictionary([("Name", state.name.clone().into()), ("Input", input), ("Output", output)]))
    });
    let states: Vec<Value> = states.collect();
    let Writer { mut network, units, constants, own_constants, weights, .. } = writer;
    for (key, list) in [(own::STATES, states), (own::CONSTANTS, own_constants)] {
        if !list.is_empty() {
            network.insert(key.into(), Value::Array(list));
        }
    }
    let name = if net.name.is_empty() { "net" } else { &net.name };
    let mut root = dictionary([("Networks", Value::Array(vec![name.into()])), ("Version", version.name().into())]);
    match version {
        Version::Flat => {
            network.insert("Inputs".into(), Value::Array(names));
            network.insert("Outputs".into(), Value::Array(outputs));
        }
        Version::Procedures => {
            let procedure = dictionary([
                ("Name", PROCEDURE.into()),
                ("Networks", Value::Array(vec![name.into()])),
                ("InputList", Value::Array(names)),
                ("OperationList", Value::Array(units.clone())),
                ("OutputList", Value::Array(outputs)),
            ]);
            root.insert("ProcedureList".into(), Value::Array(vec![procedure.into()]));
        }
    }
    network.insert("Units".into(), Value::Array(units));
    if !constants.is_empty() {
        network.insert("Constants".into(), Value::Array(constants));
    }
    network.insert("Weights".into(), Value::Array(vec![WEIGHTS.into()]));
    root.insert(name.to_string(), network.into());
    let mut xml = Vec::new();
    let written = Value::from(root).to_writer_xml(&mut xml);
    written.map_err(|e| Error::Syntax { place: "netplist".to_string(), reason: e.to_string() })?;
    Ok((xml, weights))
}

struct Writer<'a> {
    net: &'a Net,
    /// True if every value has four axes, so that none needs explicit extents.
    plain: bool,
    weights: Vec<u8>,
    units: Vec<Value>,
    constants: Vec<Value>,
    /// Constants that only units of our own read.
    own_constants: Vec<Value>,
    network: Dictionary,
}

pub(crate) fn dictionary<const N: usize>(entries: [(&str, Value); N]) -> Dictionary {
    entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

pub(crate) fn number(value: usize) -> Value {
    Value::from(value as u64)
}

/// The bit pattern of an fp16 number, which is how the format writes numbers.
fn half(value: f32) -> Value {
    Value::from(u64::from(f16::from_f32(value).to_bits()))
}

fn unsupported(op: &str, output: &str, reason: impl Into<String>) -> Error {
    Error::Unsupported { op: op.to_string(), output: output.to_string(), reason: reason.into() }
}

pub(crate) fn type_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "Float16",
        DType::F32 => "Float32",
        DType::I8 => "Int8",
        DType::U8 => "UInt8",
        DType::I16 => "Int16",
        DType::U16 => "UInt16",
        DType::I32 => "Int32",
        DType::Bool => "Bool",
    }
}

fn surface(value: &NetValue, prefix: &str, entry: &mut Dictionary) {
    if let Some(surface) = &value.surface {
        entry.insert(format!("{prefix}RowStride"), Value::from(surface.row_bytes));
        entry.insert(format!("{prefix}PlaneStride"), Value::from(surface.plane_bytes));
        entry.insert(format!("{prefix}Interleave"), Value::from(u64::from(surface.interleave)));
    }
}

impl<'a> Writer<'a> {
    fn new(net: &'a Net) -> Writer<'a> {
        Writer {
            net,
            plain: net.values.iter().all(|value| value.ty.shape.len() == 4),
            weights: Vec::new(),
            units: Vec::new(),
            constants: Vec::new(),
            own_constants: Vec::new(),
            network: Dictionary::new(),
        }
    }

    fn tensor(&self, value: &NetValue, prefix: &str) -> Dictionary {
        let [n, c, d, h, w] = own::five(&value.ty.shape);
        let mut entry = Dictionary::new();
        for (key, extent) in [("BatchSize", n), ("Channels", c), ("Height", h), ("Width", w)] {
            entry.insert(format!("{prefix}{key}"), number(extent));
        }
        if d > 1 {
            entry.insert(format!("{prefix}Depth"), number(d));
        }
        entry.insert(format!("{prefix}Type"), type_name(value.ty.dtype).into());
        if !self.plain {
            entry.insert(own::SHAPE.into(), own::shape(&value.ty.shape));
        }
        surface(value, prefix, &mut entry);
        entry
    }

    /// Appends bytes to the weight file; returns their offset.
    fn append(&mut self, bytes: Vec<u8>) -> usize {
        self.weights.resize(self.weights.len().next_multiple_of(64), 0);
        let offset = self.weights.len();
        self.weights.extend(bytes);
        offset
    }

    /// Appends elements to the weight file; returns their offset.
    fn weights(&mut self, data: &Data, dtype: DType) -> usize {
        self.append(to_bytes(data, Element::of(dtype)))
    }

    /// Adds a unit; `own` contains keys of our own.
    fn unit(&mut self, kind: &str, bottoms: Vec<Value>, result: &NetValue, params: Dictionary, own: Dictionary) {
        let bottom = match bottoms.as_slice() {
            [one] => one.clone(),
            _ => Value::Array(bottoms),
        };
        let [_, channels, ..] = own::five(&result.ty.shape);
        let mut entry = dictionary([
            ("Name", result.name.clone().into()),
            ("Type", kind.into()),
            ("Bottom", bottom),
            ("OutputChannels", number(channels)),
            ("OutputType", type_name(result.ty.dtype).into()),
            ("Params", params.into()),
        ]);
        entry.extend(own);
        self.units.push(result.name.clone().into());
        self.network.insert(result.name.clone(), entry.into());
    }

    /// A value as an operand; a constant is declared first.
    fn operand(&mut self, id: ValueId) -> Value {
        let value = self.net.value(id);
        if let Some(tensor) = &value.data
            && !self.network.contains_key(&value.name)
        {
            let mut entry = self.tensor(value, "Constant");
            if let Data::Stored(_) = tensor.data {
                let form = self.form(tensor);
                entry.insert(own::FORM.into(), form);
                self.own_constants.push(value.name.clone().into());
            } else {
                let offset = self.weights(&tensor.data, value.ty.dtype);
                entry.insert("ConstantIndex".into(), number(0));
                entry.insert("ConstantByteOffset".into(), number(offset));
                self.constants.push(value.name.clone().into());
            }
            self.network.insert(value.name.clone(), entry.into());
        }
        value.name.clone().into()
    }

    fn op(&mut self, op: &Op) {
        let out = self.net.value(op.outputs[0]);
        let done = match &op.kind {
            OpKind::Conv { .. } => self.conv(op),
            OpKind::Binary(binary) => self.scale_or_bias(op, *binary),
            OpKind::Slice { begin, end, stride } => self.view(op, begin, end, stride),
            _ => false,
        };
        if done {
            return;
        }
        let bottoms = op.inputs.iter().map(|&id| self.operand(id)).collect();
        let mut own = Dictionary::new();
        let unit = params::unit(self.net, op);
        // Reshapes and reductions state the remaining axes, operations of our own all extents.
        if !self.plain || unit.as_ref().is_none_or(|unit| !unit.exact) {
            own.insert(own::SHAPE.into(), own::shape(&out.ty.shape));
        }
        if !unit.as_ref().is_some_and(|unit| unit.exact) {
            own.insert(own::OPERATION.into(), own::operation(&op.kind));
        }
        match unit {
            Some(unit) => self.unit(unit.tag, bottoms, out, unit.params, own),
            None => {
                let tag = format!("{}{}", own::TAG_PREFIX, op.kind.name());
                self.unit(&tag, bottoms, out, Dictionary::new(), own);
            }
        }
    }

    /// A convolution with a constant kernel over columns, or over rows and columns.
    fn conv(&mut self, op: &Op) -> bool {
        let OpKind::Conv { strides, pads, dilations, groups } = &op.kind else { return false };
        let (out, weight) = (self.net.value(op.outputs[0]), self.net.value(op.inputs[1]));
        let params = window(weight.ty.shape.get(2..).unwrap_or_default(), strides, pads);
        let bias = op.inputs.get(2).map(|&bias| self.net.value(bias).data.clone());
        let (Some(tensor), Some(mut params), None | Some(Some(_))) = (weight.data.clone(), params, &bias) else {
            return false;
        };
        let offset = self.weights(&tensor.data, weight.ty.dtype);
        params.insert("Type".into(), "Conv".into());
        params.insert("KernelType".into(), type_name(weight.ty.dtype).into());
        params.insert("KernelIndex".into(), number(0));
        params.insert("KernelOffset".into(), number(offset));
        if *groups > 1 {
            params.insert("NumGroups".into(), number(*groups));
        }
        for (key, &dilation) in ["KernelDilationX", "KernelDilationY"].into_iter().zip(dilations.iter().rev()) {
            if dilation > 1 {
                params.insert(key.into(), number(dilation));
            }
        }
        let mut own = Dictionary::new();
        if let Data::Stored(_) = tensor.data {
            let form = self.form(&tensor);
            own.insert(own::FORM.into(), form);
        }
        let bottoms = vec![self.operand(op.inputs[0])];
        let Some(bias) = bias.flatten() else {
            self.unit("Conv", bottoms, out, params, own);
            return true;
        };
        let product = NetValue { name: format!("{}_product", out.name), surface: None, ..out.clone() };
        self.unit("Conv", bottoms, &product, params, own);
        let params = self.group("Bias", &bias);
        self.unit("GOC", vec![product.name.into()], out, params, Dictionary::new());
        true
    }

    /// Parameters of a unit that adds or multiplies one number per channel.
    fn group(&mut self, prefix: &str, tensor: &Tensor) -> Dictionary {
        let dtype = tensor.data.dtype();
        if let [value] = tensor.data.to_f32()[..]
            && f16::from_f32(value).to_f32() == value
        {
            let key = format!("{prefix}Scalar");
            return dictionary([(key.as_str(), half(value))]);
        }
        let offset = self.weights(&tensor.data, dtype);
        let mut group = Dictionary::new();
        for (key, value) in [
            ("Count", number(tensor.data.len())),
            ("Index", number(0)),
            ("Offset", number(offset)),
            ("Type", type_name(dtype).into()),
        ] {
            group.insert(format!("{prefix}{key}"), value);
        }
        dictionary([("BiasScaleGroupData", group.into())])
    }

    /// An addition or multiplication by a constant with one number, or one per channel.
    fn scale_or_bias(&mut self, op: &Op, binary: Binary) -> bool {
        let prefix = match binary {
            Binary::Add => "Bias",
            Binary::Mul => "Scale",
            _ => return false,
        };
        let out = self.net.value(op.outputs[0]);
        let rank = out.ty.shape.len();
        let mut channels = vec![1; rank];
        if let (Some(to), Some(&from)) = (channels.get_mut(channel_axis(rank)), out.ty.shape.get(channel_axis(rank))) {
            *to = from;
        }
        for (x, y) in [(0, 1), (1, 0)] {
            let factor = self.net.value(op.inputs[y]);
            let Some(tensor) = factor.data.clone() else { continue };
            let mut wide = vec![1; rank.saturating_sub(factor.ty.shape.len())];
            wide.extend(&factor.ty.shape);
            let fits = (elements(&wide) == 1 || wide == channels) && (1..=5).contains(&rank);
            if !fits || self.net.value(op.inputs[x]).ty != out.ty || factor.ty.dtype == DType::Bool {
                continue;
            }
            let params = self.group(prefix, &tensor);
            let bottoms = vec![self.operand(op.inputs[x])];
            self.unit("GOC", bottoms, out, params, Dictionary::new());
            return true;
        }
        false
    }

    /// A slice as views: each unit selects one range of one axis.
    fn view(&mut self, op: &Op, begin: &[usize], end: &[usize], stride: &[usize]) -> bool {
        let (x, out) = (self.net.value(op.inputs[0]), self.net.value(op.outputs[0]));
        let mut shape = x.ty.shape.clone();
        let Some(names) = own::axis_names(shape.len()) else { return false };
        let ranges = begin.iter().zip(end).zip(stride).zip(&shape).enumerate();
        let cut: Vec<_> = ranges
            .filter(|(_, (((begin, end), stride), extent))| (**begin, **end, **stride) != (0, **extent, 1))
            .map(|(axis, (((&begin, &end), &stride), _))| (axis, begin, (end - begin).div_ceil(stride), stride))
            .collect();
        let mut from = self.operand(op.inputs[0]);
        for (i, &(axis, begin, size, stride)) in cut.iter().enumerate() {
            shape[axis] = size;
            let params = dictionary([
                ("Dimension", names[axis].into()),
                ("Offset", number(begin)),
                ("Size", number(size)),
                ("Step", number(stride)),
            ]);
            let last = i + 1 == cut.len();
            let name = if last { out.name.clone() } else { format!("{}_{i}", out.name) };
            let ty = TensorType { dtype: out.ty.dtype, shape: shape.clone() };
            let stage = NetValue { name: name.clone(), ty, data: None, surface: None };
            self.unit("InputView", vec![from], &stage, params, Dictionary::new());
            from = name.into();
        }
        if cut.is_empty() {
            self.unit("GOC", vec![from], out, Dictionary::new(), Dictionary::new());
        }
        true
    }
}
