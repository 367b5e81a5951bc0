//! A unit as a network of its own, for authors without a netplist: MIL text (`anec.NAME`) and programs. The unit passes through
//! the reader of netplists, so that meaning and errors are the same by every route.

use super::read_netplist;
use crate::error::Error;
use crate::graph::{DType, Net, Op, Tensor, TensorType, ValueId};
use crate::native::{AXES, Key, KeyType, Named, Raw};
use crate::netplist::{self, WEIGHTS, dictionary, number};
use crate::read::{Bytes, Files, Options};
use crate::stored::{Element, to_bytes};
use half::f16;
use plist::{Dictionary, Value};
use std::sync::Arc;

/// An operand of a unit: its type, and its elements if it is a constant.
pub struct Operand {
    /// Extents `[N, C, H, W]` and element type.
    pub ty: TensorType,
    /// Elements of a constant.
    pub data: Option<Arc<Tensor>>,
}

struct Beside(Vec<u8>);

impl Files for Beside {
    fn read(&self, path: &str) -> Result<Bytes, String> {
        if path == WEIGHTS { Ok(self.0.clone().into()) } else { Err("no such file".to_string()) }
    }
}

struct Writer<'a> {
    name: &'a str,
    network: Dictionary,
    params: Dictionary,
    unit: Dictionary,
    weights: Vec<u8>,
    constants: Vec<Value>,
}

/// The network of one unit that is translated to operations of the graph. Its inputs are the operands that are not constants, in their
/// order; its output is the unit's result. Kernels of convolutions and the scale and bias of a gain and offset control are
/// operands after the first, if they are constants.
///
/// Errors: operands with extents other than `[N, C, H, W]`, and those of [`read_netplist`].
pub fn unit(named: &Named, name: &str, operands: &[Operand], given: &[(String, Raw)]) -> Result<Net, Error> {
    let mut writer = Writer {
        name,
        network: Dictionary::new(),
        params: Dictionary::new(),
        unit: Dictionary::new(),
        weights: Vec::new(),
        constants: Vec::new(),
    };
    for (key, value) in named.implied {
        writer.params.insert((*key).to_string(), (*value).into());
    }
    for (key, raw) in given {
        let twice = writer.params.insert(key.clone(), spelled(named.key(key), raw));
        if twice.is_some() {
            let (unit, key) = (name.to_string(), key.clone());
            return Err(Error::InvalidParam { unit, layer: named.tag, key, reason: "given twice".to_string() });
        }
    }
    let folded = match named.tag {
        "Conv" | "Linear" => writer.kernel(operands)?,
        "GOC" => writer.factors(operands)?,
        _ => false,
    };
    let (mut inputs, mut bottoms) = (Vec::new(), Vec::new());
    for (at, operand) in operands.iter().enumerate() {
        if folded && at > 0 {
            continue;
        }
        let bottom = format!("operand{at}");
        writer.operand(named, &bottom, operand, &mut inputs)?;
        bottoms.push(Value::from(bottom));
    }
    writer.unit.insert("Type".into(), named.tag.into());
    writer.unit.insert("Bottom".into(), Value::Array(bottoms));
    writer.unit.insert("Params".into(), writer.params.into());
    let Writer { mut network, unit, weights, constants, .. } = writer;
    let result = format!("{name}@result");
    network.insert("Inputs".into(), Value::Array(inputs));
    network.insert("Units".into(), Value::Array(vec![name.into()]));
    network.insert("Outputs".into(), Value::Array(vec![result.clone().into()]));
    network.insert("Constants".into(), Value::Array(constants));
    network.insert("Weights".into(), Value::Array(vec![WEIGHTS.into()]));
    network.insert(name.to_string(), unit.into());
    let mut output = Dictionary::new();
    output.insert("Bottom".into(), name.into());
    network.insert(result, output.into());
    let mut root = Dictionary::new();
    root.insert("Version".into(), "1.0.9".into());
    root.insert("Networks".into(), Value::Array(vec!["unit".into()]));
    root.insert("unit".into(), network.into());
    let mut xml = Vec::new();
    let written = Value::from(root).to_writer_xml(&mut xml);
    written.map_err(|e| Error::Syntax { place: format!("unit `{name}`"), reason: e.to_string() })?;
    let (net, _) = read_netplist(&xml, &Beside(weights), &Options::default())?;
    Ok(net)
}

impl Writer<'_> {
    fn unsupported(&self, op: &str, reason: String) -> Error {
        Error::Unsupported { op: op.to_string(), output: self.name.to_string(), reason }
    }

    fn operand(&mut self, named: &Named, name: &str, operand: &Operand, inputs: &mut Vec<Value>) -> Result<(), Error> {
        let &[n, c, h, w] = operand.ty.shape.as_slice() else {
            let reason = format!("operand extents {:?}; expected are [N, C, H, W]", operand.ty.shape);
            return Err(self.unsupported(named.tag, reason));
        };
        let ty = type_name(operand.ty.dtype)
            .ok_or_else(|| self.unsupported(named.tag, format!("operands of type {}", operand.ty.dtype)))?;
        let prefix = if operand.data.is_some() { "Constant" } else { "Input" };
        let mut entry = Dictionary::new();
        let batch = if operand.data.is_some() { "ConstantBatchSize" } else { "BatchSize" };
        entry.insert(batch.into(), number(n));
        for (key, extent) in [("Channels", c), ("Height", h), ("Width", w)] {
            entry.insert(format!("{prefix}{key}"), number(extent));
        }
        entry.insert(format!("{prefix}Type"), ty.into());
        match &operand.data {
            None => inputs.push(name.into()),
            Some(tensor) => {
                entry.insert("ConstantIndex".into(), number(0));
                entry.insert("ConstantByteOffset".into(), number(self.stored(tensor, operand.ty.dtype)?));
                self.constants.push(name.into());
            }
        }
        self.network.insert(name.to_string(), entry.into());
        Ok(())
    }

    /// Appends elements to the weight file, and returns their offset in bytes.
    fn stored(&mut self, tensor: &Tensor, dtype: DType) -> Result<usize, Error> {
        let offset = self.weights.len();
        let data = tensor.clone().cast(dtype).data.dense().into_owned();
        self.weights.extend(to_bytes(&data, Element::of(dtype)));
        Ok(offset)
    }

    /// Makes a constant second operand the kernel. Its extents then need not be stated.
    fn kernel(&mut self, operands: &[Operand]) -> Result<bool, Error> {
        let [_, Operand { ty, data: Some(kernel) }] = operands else { return Ok(false) };
        let mut shape = ty.shape.clone();
        if shape.is_empty() || shape.len() > 4 {
            return Err(self.unsupported("Conv", format!("a kernel of extents {shape:?}; expected are [C, C, H, W]")));
        }
        shape.resize(4, 1);
        let offset = self.stored(kernel, ty.dtype)?;
        self.unit.insert("OutputChannels".into(), number(shape[0]));
        let kind =
            type_name(ty.dtype).ok_or_else(|| self.unsupported("Conv", format!("kernels of type {}", ty.dtype)))?;
        let extents = [("KernelHeight", number(shape[2])), ("KernelWidth", number(shape[3]))];
        let place = [("KernelType", kind.into()), ("KernelIndex", number(0)), ("KernelOffset", number(offset))];
        for (key, value) in extents.into_iter().chain(place) {
            if !self.params.contains_key(key) {
                self.params.insert(key.into(), value);
            }
        }
        Ok(true)
    }

    /// Makes constant second and third operands scale and bias, with one number or one per channel.
    fn factors(&mut self, operands: &[Operand]) -> Result<bool, Error> {
        if operands.len() < 2 || operands.len() > 3 || operands[1..].iter().any(|o| o.data.is_none()) {
            return Ok(false);
        }
        let mut group = Dictionary::new();
        for (prefix, operand) in ["Scale", "Bias"].into_iter().zip(&operands[1..]) {
            let Some(data) = &operand.data else { continue };
            let offset = self.stored(data, DType::F16)?;
            group.insert(format!("{prefix}Count"), number(data.data.len()));
            group.insert(format!("{prefix}Type"), "Float16".into());
            group.insert(format!("{prefix}Index"), number(0));
            group.insert(format!("{prefix}Offset"), number(offset));
        }
        self.params.insert("BiasScaleGroupData".into(), group.into());
        Ok(true)
    }
}

/// Type name of elements that operands of a unit may have.
fn type_name(dtype: DType) -> Option<&'static str> {
    (dtype != DType::Bool).then(|| netplist::type_name(dtype))
}

/// A parameter as a netplist spells it. For `TransposeDimensions`, a list of positions gives the operand's axis for each axis of the
/// result; for `BroadcastInfo`, a list gives the extents of the result.
fn spelled(key: Option<&Key>, raw: &Raw) -> Value {
    let ty = key.map(|k| k.ty);
    let axis = |at: i64| usize::try_from(at).ok().and_then(|at| AXES.get(at)).map_or(Value::from(at), |&a| a.into());
    match raw {
        Raw::Flag(flag) => Value::Boolean(*flag),
        Raw::Half(x) if matches!(ty, Some(KeyType::Half)) => Value::from(u64::from(f16::from_f32(*x).to_bits())),
        Raw::Half(x) => Value::Real(f64::from(*x)),
        Raw::Integer(n) if matches!(ty, Some(KeyType::Word(words)) if words == AXES) => axis(*n),
        Raw::Integer(n) => Value::from(*n),
        Raw::Real(x) => Value::Real(*x),
        Raw::Text(text) => text.as_str().into(),
        Raw::List(list) => Value::Array(list.iter().map(|item| spelled(key, item)).collect()),
        Raw::Positions(list) => {
            let each = |(at, &value): (usize, &i64)| match key.map(|k| k.name) {
                Some("TransposeDimensions") => dictionary([
                    ("TransposeDestinationDimension", axis(at as i64)),
                    ("TransposeSourceDimension", axis(value)),
                ])
                .into(),
                Some("BroadcastInfo") => dictionary([("Dimension", axis(at as i64)), ("Size", value.into())]).into(),
                _ if matches!(ty, Some(KeyType::Axes)) => axis(value),
                _ => Value::from(value),
            };
            Value::Array(list.iter().enumerate().map(each).collect())
        }
        Raw::Table(entries) => {
            let mut table = Dictionary::new();
            for (name, value) in entries {
                table.insert(name.clone(), spelled(None, value));
            }
            table.into()
        }
        Raw::Other(what) => what.as_str().into(),
    }
}

/// Declared result type for an operation of the unit's network, if its kind requires one.
pub fn declared(net: &Net, op: &Op) -> Option<TensorType> {
    let ty = || op.outputs.first().map(|&id: &ValueId| net.value(id).ty.clone());
    match op.kind {
        crate::ops::OpKind::Reshape | crate::ops::OpKind::Broadcast | crate::ops::OpKind::Cast => ty(),
        _ => None,
    }
}
