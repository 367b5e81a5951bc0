//! Writing a net as a netplist with its weight file. Its values have the extents `[N, C, H, W]`, so nets of other ranks
//! are refused; so are operations that no known kind of unit computes.

use crate::error::Error;
use crate::graph::{DType, Data, Net, Op, Tensor, TensorType, Value as NetValue, ValueId, elements};
use crate::native::{KeyType, Native, Param};
use crate::ops::{Binary, GeluMode, OpKind, PoolKind, ReduceKind, Unary};
use crate::stored::{Element, to_bytes};
use half::f16;
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
    /// As the file states it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Flat => "1.0.9",
            Version::Procedures => "1.0.10",
        }
    }
}

/// Name of the one procedure of a network.
const PROCEDURE: &str = "main";

/// Name of the weight file.
pub const WEIGHTS: &str = "net.weights";

/// Names of the axes.
const AXES: [&str; 4] = ["Batch", "Channel", "Height", "Width"];

/// The property list as XML, and the weight file [`WEIGHTS`] that lies beside it, in the newest version of the schema.
///
/// Errors: an operation or type without a unit ([`Error::Unsupported`]).
pub fn write(net: &Net) -> Result<(Vec<u8>, Vec<u8>), Error> {
    write_as(net, Version::default())
}

/// As [`write`], in a version of the schema.
pub fn write_as(net: &Net, version: Version) -> Result<(Vec<u8>, Vec<u8>), Error> {
    // Outputs keep their names, so the units that make them have others.
    let titles: Vec<String> = net.outputs.iter().map(|&id| net.value(id).name.clone()).collect();
    let mut named = net.clone();
    let made = |id: &ValueId| net.ops.iter().any(|op| op.outputs.contains(id));
    for &id in net.outputs.iter().filter(|id| made(id)) {
        named.values[id.0 as usize].name = format!("{}@unit", net.value(id).name);
    }
    let net = &named;
    let mut writer =
        Writer { net, weights: Vec::new(), units: Vec::new(), constants: Vec::new(), network: Dictionary::new() };
    let mut names = Vec::new();
    for &id in &net.inputs {
        let value = net.value(id);
        let mut entry = writer.tensor(value, "Input")?;
        if let Some(batch) = entry.remove("InputBatchSize") {
            entry.insert("BatchSize".into(), batch);
        }
        names.push(Value::from(value.name.clone()));
        writer.network.insert(value.name.clone(), entry.into());
    }
    for op in &net.ops {
        writer.op(op)?;
    }
    let mut outputs = Vec::new();
    for (&id, title) in net.outputs.iter().zip(titles) {
        let value = net.value(id);
        // What comes in and goes out unchanged needs a second name, and so does what goes out twice.
        let taken = value.name == title || writer.network.contains_key(&title);
        let name = if taken { format!("{title}@output{}", outputs.len()) } else { title };
        let mut entry = dictionary([("Bottom", value.name.clone().into()), ("OutputType", type_name(value)?.into())]);
        surface(value, "Output", &mut entry);
        writer.network.insert(name.clone(), entry.into());
        outputs.push(Value::from(name));
    }
    let Writer { mut network, units, constants, weights, .. } = writer;
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
    weights: Vec<u8>,
    units: Vec<Value>,
    constants: Vec<Value>,
    network: Dictionary,
}

fn dictionary<const N: usize>(entries: [(&str, Value); N]) -> Dictionary {
    entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

fn number(value: usize) -> Value {
    Value::from(value as u64)
}

/// The parameters of a native layer, defaults too.
fn parameters(native: &Native) -> Dictionary {
    let axis = |at: i64| Value::from(AXES[usize::try_from(at).unwrap_or(0).min(3)]);
    let entry =
        |key: &'static str, value: Value, at: i64| Value::from(dictionary([("Coordinate", axis(at)), (key, value)]));
    let value = |ty: &KeyType, param: &Param| match (param, ty) {
        (Param::Flag(flag), _) => Value::from(*flag),
        (Param::Integer(value), _) => Value::from(*value),
        (Param::Real(value), KeyType::Half) => half(*value),
        (Param::Real(value), _) => Value::from(f64::from(*value)),
        (Param::Word(word), _) => Value::from(*word),
        (Param::List(list), KeyType::Axes) => Value::Array(list.iter().map(|&a| axis(a)).collect()),
        (Param::List(list), KeyType::PerAxis(key, words)) => {
            let word = |i: i64| usize::try_from(i).ok().and_then(|i| words.get(i)).map_or(i.into(), |&w| w.into());
            Value::Array(list.chunks(2).map(|p| entry(key, word(p[1]), p[0])).collect())
        }
        (Param::List(list), _) => Value::Array(list.iter().map(|&v| Value::from(v)).collect()),
    };
    // A list without entries says nothing.
    let stated = native.params().filter(|(_, param)| **param != Param::List(Vec::new()));
    let keys: Dictionary = stated.map(|(key, param)| (key.name.to_string(), value(&key.ty, param))).collect();
    match native.schema().entry() {
        Some(list) => dictionary([(list, Value::Array(vec![keys.into()]))]),
        None => keys,
    }
}

/// The bit pattern of a half, as the format states numbers.
fn half(value: f32) -> Value {
    Value::from(u64::from(f16::from_f32(value).to_bits()))
}

fn unsupported(op: &str, output: &str, reason: impl Into<String>) -> Error {
    Error::Unsupported { op: op.to_string(), output: output.to_string(), reason: reason.into() }
}

fn type_name(value: &NetValue) -> Result<&'static str, Error> {
    Ok(match value.ty.dtype {
        DType::F16 => "Float16",
        DType::F32 => "Float32",
        DType::I8 => "Int8",
        DType::U8 => "UInt8",
        DType::I16 => "Int16",
        DType::U16 => "UInt16",
        DType::I32 => "Int32",
        DType::Bool => return Err(unsupported("netplist", &value.name, "truth values have no element type")),
    })
}

/// Extents as `[N, C, H, W]`.
fn extents(value: &NetValue) -> Result<[usize; 4], Error> {
    value
        .ty
        .shape
        .as_slice()
        .try_into()
        .map_err(|_| unsupported("netplist", &value.name, format!("extents {:?}, four are needed", value.ty.shape)))
}

fn surface(value: &NetValue, prefix: &str, entry: &mut Dictionary) {
    if let Some(surface) = &value.surface {
        entry.insert(format!("{prefix}RowStride"), Value::from(surface.row_bytes));
        entry.insert(format!("{prefix}PlaneStride"), Value::from(surface.plane_bytes));
        entry.insert(format!("{prefix}Interleave"), Value::from(u64::from(surface.interleave)));
    }
}

impl Writer<'_> {
    fn tensor(&self, value: &NetValue, prefix: &str) -> Result<Dictionary, Error> {
        let [n, c, h, w] = extents(value)?;
        let mut entry = Dictionary::new();
        for (key, extent) in [("BatchSize", n), ("Channels", c), ("Height", h), ("Width", w)] {
            entry.insert(format!("{prefix}{key}"), number(extent));
        }
        entry.insert(format!("{prefix}Type"), type_name(value)?.into());
        surface(value, prefix, &mut entry);
        Ok(entry)
    }

    /// Adds bytes to the weight file; gives their offset.
    fn weights(&mut self, data: &Data, dtype: DType) -> usize {
        self.weights.resize(self.weights.len().next_multiple_of(64), 0);
        let offset = self.weights.len();
        self.weights.extend(to_bytes(data, Element::of(dtype)));
        offset
    }

    /// Adds a unit.
    fn unit(
        &mut self,
        name: &str,
        kind: &str,
        bottoms: Vec<Value>,
        ty: &NetValue,
        params: Dictionary,
    ) -> Result<(), Error> {
        let bottom = match bottoms.as_slice() {
            [one] => one.clone(),
            _ => Value::Array(bottoms),
        };
        let [_, channels, ..] = extents(ty)?;
        let entry = dictionary([
            ("Name", name.into()),
            ("Type", kind.into()),
            ("Bottom", bottom),
            ("OutputChannels", number(channels)),
            ("OutputType", type_name(ty)?.into()),
            ("Params", params.into()),
        ]);
        self.units.push(name.into());
        self.network.insert(name.to_string(), entry.into());
        Ok(())
    }

    /// A value as an operand; a constant is declared.
    fn operand(&mut self, id: ValueId) -> Result<Value, Error> {
        let value = self.net.value(id);
        if let Some(tensor) = &value.data
            && !self.network.contains_key(&value.name)
        {
            let mut entry = self.tensor(value, "Constant")?;
            let offset = self.weights(&tensor.data, value.ty.dtype);
            entry.insert("ConstantIndex".into(), number(0));
            entry.insert("ConstantByteOffset".into(), number(offset));
            self.constants.push(value.name.clone().into());
            self.network.insert(value.name.clone(), entry.into());
        }
        Ok(value.name.clone().into())
    }

    fn op(&mut self, op: &Op) -> Result<(), Error> {
        let out = self.net.value(op.outputs[0]);
        let refuse = |reason: String| unsupported(op.kind.name(), &out.name, reason);
        let (kind, params): (&str, Dictionary) = match &op.kind {
            OpKind::Conv { strides, pads, dilations, groups } => {
                return self.conv(op, strides, pads, dilations, *groups);
            }
            OpKind::Unary(unary) => return self.unary(op, unary),
            OpKind::Binary(binary) => {
                if let Some(done) = self.scale_or_bias(op, *binary)? {
                    return Ok(done);
                }
                let name = match binary {
                    Binary::Add => "Add",
                    Binary::Sub => "Sub",
                    Binary::Mul => "Mult",
                    Binary::Max => "Max",
                    Binary::Min => "Min",
                    other => return Err(refuse(format!("no unit computes {}", other.name()))),
                };
                ("ScaledElementWise", dictionary([("Type", name.into())]))
            }
            OpKind::Concat { axis } => ("Concat", dictionary([("Dimension", AXES[(*axis).min(3)].into())])),
            OpKind::Softmax { axis } => ("Softmax", dictionary([("Dimension", AXES[(*axis).min(3)].into())])),
            OpKind::Broadcast => {
                let from = self.net.value(op.inputs[0]).ty.shape.clone();
                let to = extents(out)?;
                let grown = (0..4).filter(|&a| from.get(a) != Some(&to[a]));
                let info = grown.map(|a| dictionary([("Dimension", AXES[a].into()), ("Size", number(to[a]))]).into());
                ("Broadcast", dictionary([("BroadcastInfo", Value::Array(info.collect()))]))
            }
            OpKind::Reshape => {
                let [n, c, h, w] = extents(out)?.map(number);
                let keys = ["ReshapedBatch", "ReshapedChannel", "ReshapedHeight", "ReshapedWidth"];
                ("Reshape", keys.into_iter().zip([n, c, h, w]).map(|(k, v)| (k.to_string(), v)).collect())
            }
            OpKind::Transpose { perm } => {
                let moved = perm.iter().enumerate().filter(|(to, from)| to != *from).map(|(to, &from)| {
                    dictionary([
                        ("TransposeDestinationDimension", AXES[to.min(3)].into()),
                        ("TransposeSourceDimension", AXES[from.min(3)].into()),
                    ])
                    .into()
                });
                ("Transpose", dictionary([("TransposeDimensions", Value::Array(moved.collect()))]))
            }
            OpKind::Slice { begin, end, stride } => return self.view(op, begin, end, stride),
            OpKind::Reduce { kind, axes, keep_dims: true } => {
                let name = match kind {
                    ReduceKind::Sum => "Sum",
                    ReduceKind::Mean => "Avg",
                    ReduceKind::Max => "Max",
                    ReduceKind::Min => "Min",
                    other => return Err(refuse(format!("no unit computes {}", other.name()))),
                };
                let axes = axes.iter().map(|&a| AXES[a.min(3)].into()).collect();
                ("Reduction", dictionary([("Type", name.into()), ("Dimension", Value::Array(axes))]))
            }
            OpKind::Pool { kind, kernel, strides, pads, ceil_mode: false } => {
                let mut params = window(kernel, strides, pads).ok_or_else(|| refuse("not two spatial axes".into()))?;
                let padded = pads.iter().any(|&p| p != (0, 0));
                match kind {
                    PoolKind::Max => {
                        params.insert("Type".into(), "Max".into());
                        if padded {
                            params.insert("PaddingMode".into(), "Negative".into());
                        }
                    }
                    PoolKind::Average { exclude_padding } => {
                        params.insert("Type".into(), "Avg".into());
                        params.insert("AverageCountExcludePadding".into(), (*exclude_padding).into());
                    }
                    PoolKind::L2 => return Err(refuse("no unit computes it".into())),
                }
                ("Pooling", params)
            }
            OpKind::Native(native) => (native.schema().tag, parameters(native)),
            // The result's type says all.
            OpKind::Cast => ("GOC", Dictionary::new()),
            other => return Err(refuse(format!("no unit computes {}", other.name()))),
        };
        let bottoms = op.inputs.iter().map(|&id| self.operand(id)).collect::<Result<Vec<_>, _>>()?;
        self.unit(&out.name.clone(), kind, bottoms, out, params)
    }

    fn conv(
        &mut self,
        op: &Op,
        strides: &[usize],
        pads: &[(usize, usize)],
        dilations: &[usize],
        groups: usize,
    ) -> Result<(), Error> {
        let (out, weight) = (self.net.value(op.outputs[0]), self.net.value(op.inputs[1]));
        let refuse = |reason: &str| unsupported("conv", &out.name, reason);
        let tensor = weight.data.clone().ok_or_else(|| refuse("weights computed at run time"))?;
        let mut params = window(&weight.ty.shape[2..], strides, pads).ok_or_else(|| refuse("not two spatial axes"))?;
        let offset = self.weights(&tensor.data, weight.ty.dtype);
        params.insert("Type".into(), "Conv".into());
        params.insert("KernelType".into(), type_name(weight)?.into());
        params.insert("KernelIndex".into(), number(0));
        params.insert("KernelOffset".into(), number(offset));
        if groups > 1 {
            params.insert("NumGroups".into(), number(groups));
        }
        for (key, &dilation) in ["KernelDilationY", "KernelDilationX"].into_iter().zip(dilations) {
            if dilation > 1 {
                params.insert(key.into(), number(dilation));
            }
        }
        let bottoms = vec![self.operand(op.inputs[0])?];
        let Some(&bias) = op.inputs.get(2) else { return self.unit(&out.name.clone(), "Conv", bottoms, out, params) };
        let product = format!("{}_product", out.name);
        self.unit(&product, "Conv", bottoms, out, params)?;
        let bias = self.net.value(bias).data.clone().ok_or_else(|| refuse("a bias computed at run time"))?;
        let params = self.group("Bias", &bias);
        self.unit(&out.name.clone(), "GOC", vec![product.into()], out, params)
    }

    /// Parameters of a unit that adds or multiplies one element a channel.
    fn group(&mut self, prefix: &str, tensor: &Tensor) -> Dictionary {
        if tensor.data.len() == 1 {
            let key = format!("{prefix}Scalar");
            return dictionary([(key.as_str(), half(tensor.data.to_f32()[0]))]);
        }
        let offset = self.weights(&tensor.data, DType::F16);
        let mut group = Dictionary::new();
        for (key, value) in [
            ("Count", number(tensor.data.len())),
            ("Index", number(0)),
            ("Offset", number(offset)),
            ("Type", "Float16".into()),
        ] {
            group.insert(format!("{prefix}{key}"), value);
        }
        dictionary([("BiasScaleGroupData", group.into())])
    }

    /// An addition or product with a constant that is one number or one a channel.
    fn scale_or_bias(&mut self, op: &Op, binary: Binary) -> Result<Option<()>, Error> {
        let prefix = match binary {
            Binary::Add => "Bias",
            Binary::Mul => "Scale",
            _ => return Ok(None),
        };
        let out = self.net.value(op.outputs[0]);
        let [_, channels, ..] = extents(out)?;
        for (x, y) in [(0, 1), (1, 0)] {
            let factor = self.net.value(op.inputs[y]);
            let Some(tensor) = factor.data.clone() else { continue };
            let mut wide = vec![1; 4usize.saturating_sub(factor.ty.shape.len())];
            wide.extend(&factor.ty.shape);
            let fits = elements(&wide) == 1 || wide == [1, channels, 1, 1];
            if !fits || self.net.value(op.inputs[x]).ty != out.ty {
                continue;
            }
            let params = self.group(prefix, &tensor);
            let bottoms = vec![self.operand(op.inputs[x])?];
            return self.unit(&out.name.clone(), "GOC", bottoms, out, params).map(Some);
        }
        Ok(None)
    }

    fn unary(&mut self, op: &Op, unary: &Unary) -> Result<(), Error> {
        let out = self.net.value(op.outputs[0]);
        let mut params = Dictionary::new();
        let name = match *unary {
            Unary::Identity => return self.plain(op, "GOC", params),
            Unary::Abs => return self.plain(op, "ScaledElementWise", dictionary([("Type", "Abs".into())])),
            Unary::Relu => "ReLU",
            Unary::Sigmoid => "Sigmoid",
            Unary::Tanh => "Tanh",
            Unary::Sign => "Sign",
            Unary::Gelu(GeluMode::Exact) => "GELU",
            Unary::Sqrt => "Sqrt",
            Unary::Rsqrt { epsilon: 0.0 } => "Rsqrt",
            Unary::Inverse { epsilon: 0.0 } => "Inv",
            Unary::Exp2 => "Exp2",
            Unary::Log2 => "Log2",
            Unary::Sin => "Sin",
            Unary::Cos => "Cos",
            Unary::Ceil => "Ceil",
            Unary::Floor => "Floor",
            Unary::Round => "RoundNearest",
            Unary::Elu { alpha } => {
                params.insert("EluAlpha".into(), half(alpha));
                "ELU"
            }
            Unary::LeakyRelu { alpha } => {
                params.insert("ReluSlope".into(), half(alpha));
                "LeakyReLU"
            }
            Unary::Clip { min, max } => {
                params.insert("ReluMin".into(), half(min));
                params.insert("ReluMax".into(), half(max));
                "ClampedReLU"
            }
            Unary::Relu6 => {
                params.insert("ReluMin".into(), half(0.0));
                params.insert("ReluMax".into(), half(6.0));
                "ClampedReLU"
            }
            other => {
                let reason = format!("no unit computes {}", other.name());
                return Err(unsupported(other.name(), &out.name, reason));
            }
        };
        params.insert("Type".into(), name.into());
        self.plain(op, "Neuron", params)
    }

    /// A unit of one operand.
    fn plain(&mut self, op: &Op, kind: &str, params: Dictionary) -> Result<(), Error> {
        let out = self.net.value(op.outputs[0]);
        let bottoms = vec![self.operand(op.inputs[0])?];
        self.unit(&out.name.clone(), kind, bottoms, out, params)
    }

    /// One range of one axis a unit.
    fn view(&mut self, op: &Op, begin: &[usize], end: &[usize], stride: &[usize]) -> Result<(), Error> {
        let (x, out) = (self.net.value(op.inputs[0]), self.net.value(op.outputs[0]));
        let mut shape = extents(x)?;
        let cut: Vec<usize> = (0..4).filter(|&a| (begin[a], end[a], stride[a]) != (0, shape[a], 1)).collect();
        let mut from = self.operand(op.inputs[0])?;
        for (i, &axis) in cut.iter().enumerate() {
            let size = (end[axis] - begin[axis]).div_ceil(stride[axis]);
            shape[axis] = size;
            let params = dictionary([
                ("Dimension", AXES[axis].into()),
                ("Offset", number(begin[axis])),
                ("Size", number(size)),
                ("Step", number(stride[axis])),
            ]);
            let last = i + 1 == cut.len();
            let name = if last { out.name.clone() } else { format!("{}_{i}", out.name) };
            let ty = TensorType { dtype: out.ty.dtype, shape: shape.to_vec() };
            let stage = NetValue { name: name.clone(), ty, data: None, surface: None };
            self.unit(&name, "InputView", vec![from], &stage, params)?;
            from = name.into();
        }
        if cut.is_empty() { self.plain(op, "GOC", Dictionary::new()) } else { Ok(()) }
    }
}

/// Size, steps and padding of a window over two axes; steps are listed width first.
fn window(kernel: &[usize], strides: &[usize], pads: &[(usize, usize)]) -> Option<Dictionary> {
    let (&[kh, kw], &[sh, sw], &[(top, bottom), (left, right)]) = (kernel, strides, pads) else { return None };
    let mut params = dictionary([
        ("KernelHeight", number(kh)),
        ("KernelWidth", number(kw)),
        ("Step", Value::Array(vec![number(sw), number(sh)])),
    ]);
    for (key, pad) in [("PadTop", top), ("PadBot", bottom), ("PadLeft", left), ("PadRight", right)] {
        if pad > 0 {
            params.insert(key.into(), number(pad));
        }
    }
    Some(params)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::eval::eval;
    use crate::read::tests::{Disk, netplists};
    use crate::read::{MemoryFiles, Options, read_netplist};

    /// Netplists written anew compute the same.
    #[test]
    fn netplists_come_back() {
        let mut written = 0;
        for path in netplists() {
            let files = Disk(path.parent().unwrap().to_path_buf());
            let Ok((net, _)) = read_netplist(&std::fs::read(&path).unwrap(), &files, &Options::default()) else {
                continue;
            };
            let version = if written % 2 == 0 { Version::Procedures } else { Version::Flat };
            let (xml, weights) = match write_as(&net, version) {
                Ok(written) => written,
                Err(error) => {
                    println!("{}: {error}", path.display());
                    assert!(matches!(error, Error::Unsupported { .. }));
                    continue;
                }
            };
            let files = MemoryFiles([(WEIGHTS.to_string(), weights.into())].into());
            let (again, _) = read_netplist(&xml, &files, &Options::default())
                .unwrap_or_else(|e| panic!("{}: {e}\n{}", path.display(), String::from_utf8_lossy(&xml)));
            check(&again).unwrap();
            let inputs: Vec<Tensor> = (net.inputs.iter())
                .map(|&i| {
                    let ty = &net.value(i).ty;
                    let values: Vec<f32> = (0..ty.elements()).map(|k| (k % 7) as f32 - 3.0).collect();
                    Tensor { shape: ty.shape.clone(), data: Data::from_f32(ty.dtype, &values) }
                })
                .collect();
            let (a, b) = (eval(&net, &inputs).unwrap(), eval(&again, &inputs).unwrap());
            for (x, y) in a.iter().zip(&b) {
                let near = |(p, q): (&f32, &f32)| p == q || (p - q).abs() <= 1e-3 * p.abs().max(1e-3) || p.is_nan();
                assert!(x.data.to_f32().iter().zip(&y.data.to_f32()).all(near), "{}", path.display());
            }
            written += 1;
        }
        println!("{written} netplists written");
    }
}
