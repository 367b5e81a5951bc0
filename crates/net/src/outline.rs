//! Outline of a model, operation by operation, before translation: names, types and small parameters.
//!
//! Every program that parses has an outline, including programs with operations that the graph cannot represent. Weights are not
//! loaded.

use crate::graph::{Net, TensorType, ValueId};
use crate::mil::proto::name_of;
use crate::native::{Native, Param};
use crate::ops::{Coordinates, EdgeMode, GeluMode, OpKind, PoolKind, ResizeMode, Unary};
use std::collections::{HashMap, HashSet};

/// Most elements of a constant that an outline keeps.
pub const KEPT_ELEMENTS: usize = 4096;

/// Source of an outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A Core ML model file.
    Model,
    /// MIL text.
    MilText,
    /// A graph from another reader.
    Net,
    /// Units of a netplist, which names layers directly.
    Netplist,
}

/// Type of a value as the program declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutlineType {
    /// Element type as MIL spells it, such as `fp16`.
    pub element: &'static str,
    /// Extents; `None` for those that the program leaves open.
    pub shape: Vec<Option<usize>>,
    /// True for a state.
    pub state: bool,
}

impl OutlineType {
    /// The extents, open ones as 1.
    pub fn extents(&self) -> Vec<usize> {
        self.shape.iter().map(|d| d.unwrap_or(1)).collect()
    }

    /// Number of elements, saturating; open extents count as 1.
    pub fn elements(&self) -> usize {
        crate::graph::elements(&self.extents())
    }

    /// Size of one element in bytes, rounded up.
    pub fn element_bytes(&self) -> usize {
        match self.element {
            "fp64" | "int64" | "uint64" => 8,
            "fp32" | "int32" | "uint32" => 4,
            "fp16" | "bf16" | "int16" | "uint16" => 2,
            _ => 1,
        }
    }

    /// Size of all elements in bytes, saturating.
    pub fn bytes(&self) -> usize {
        self.elements().saturating_mul(self.element_bytes())
    }

    /// Returns true for floating-point elements.
    pub fn is_float(&self) -> bool {
        matches!(self.element, "fp16" | "fp32" | "fp64" | "bf16")
    }
}

/// As MIL text: `fp16[1, 64, ?]`.
impl std::fmt::Display for OutlineType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let extents: Vec<String> = self.shape.iter().map(|d| d.map_or("?".into(), |d| d.to_string())).collect();
        write!(f, "{}[{}]", self.element, extents.join(", "))
    }
}

/// A value by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name in the program.
    pub name: String,
    /// Type.
    pub ty: OutlineType,
}

/// A constant, reduced to the parts that an outline keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlineConstant {
    /// Type.
    pub ty: OutlineType,
    /// True if the elements are in the program itself, not in a weight file.
    pub inline: bool,
    /// Elements, if they are few numbers or truth values in the program itself.
    pub numbers: Option<Vec<f64>>,
    /// The string, if the constant is one.
    pub text: Option<String>,
    /// Operation that decompresses it, if there is one.
    pub compressed: Option<String>,
}

/// Argument of an operation under one name.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A result of another operation, or an input.
    Value(Named),
    /// A constant.
    Constant(OutlineConstant),
}

impl Argument {
    /// Type of the argument.
    pub fn ty(&self) -> &OutlineType {
        match self {
            Argument::Value(value) => &value.ty,
            Argument::Constant(constant) => &constant.ty,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OutlineOp {
    /// Kind of operation, by its MIL name.
    pub op: String,
    /// Name of the operation, that of its first output.
    pub name: String,
    /// Operands and parameters by name, sorted; a name may have several.
    pub arguments: Vec<(String, Argument)>,
    /// Results.
    pub outputs: Vec<Named>,
    /// Number of nested blocks.
    pub blocks: usize,
    /// True if all operands are constant, so that the result is computed before the model runs.
    pub constant: bool,
    /// Operation that the reader does not translate, with its reason, if this operation is it or needs its results.
    pub unread: Option<String>,
}

impl OutlineOp {
    /// The first argument of that name.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|(n, _)| n == name).map(|(_, a)| a)
    }

    /// The numbers of a constant parameter.
    pub fn numbers(&self, name: &str) -> Option<&[f64]> {
        match self.argument(name)? {
            Argument::Constant(constant) => constant.numbers.as_deref(),
            Argument::Value(_) => None,
        }
    }

    /// A parameter with one number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.numbers(name)?.first().copied()
    }

    /// A parameter with a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.argument(name)? {
            Argument::Constant(constant) => constant.text.as_deref(),
            Argument::Value(_) => None,
        }
    }

    /// Operands that are not constant, in the order of their names.
    pub fn live(&self) -> impl Iterator<Item = &Named> {
        self.arguments.iter().filter_map(|(_, a)| match a {
            Argument::Value(value) => Some(value),
            Argument::Constant(_) => None,
        })
    }
}

/// A program: its operations in order, without plain constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Outline {
    /// Name of the function.
    pub name: String,
    /// Opset of the function, if the program states it.
    pub opset: Option<String>,
    /// Source that it was read from.
    pub origin: Origin,
    /// Inputs.
    pub inputs: Vec<Named>,
    /// Names of the inputs that are states, if the reader knows them.
    pub states: Vec<String>,
    /// Operations.
    pub ops: Vec<OutlineOp>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Conditions that a verdict depends on, a sentence each, such as the shape that was selected if the model has several.
    pub conditions: Vec<String>,
}

impl Outline {
    /// The outline of a graph.
    pub fn of(net: &Net) -> Outline {
        let named = |id: &ValueId| Named { name: net.value(*id).name.clone(), ty: typed(&net.value(*id).ty) };
        let ops = net.ops.iter().map(|op| {
            let (name, parameters) = spelled(&op.kind);
            let mut arguments: Vec<(String, Argument)> = parameters;
            for (slot, id) in op.inputs.iter().enumerate() {
                let value = net.value(*id);
                let argument = match &value.data {
                    None => Argument::Value(named(id)),
                    Some(_) => Argument::Constant(OutlineConstant {
                        ty: typed(&value.ty),
                        inline: false,
                        numbers: None,
                        text: None,
                        compressed: None,
                    }),
                };
                arguments.push((operand(&op.kind, slot).to_string(), argument));
            }
            OutlineOp {
                op: name.to_string(),
                name: op.outputs.first().map_or(op.name.clone(), |id| net.value(*id).name.clone()),
                arguments,
                outputs: op.outputs.iter().map(named).collect(),
                blocks: 0,
                constant: !op.inputs.is_empty() && op.inputs.iter().all(|id| net.value(*id).data.is_some()),
                unread: None,
            }
        });
        Outline {
            name: net.name.clone(),
            opset: None,
            origin: Origin::Net,
            inputs: net.inputs.iter().map(named).collect(),
            states: net.states.iter().map(|state| net.value(state.input).name.clone()).collect(),
            ops: ops.collect(),
            outputs: net.outputs.iter().map(|id| net.value(*id).name.clone()).collect(),
            conditions: Vec::new(),
        }
    }

    /// For each operation, the positions of the readers of its results.
    pub fn consumers(&self) -> Vec<Vec<usize>> {
        let mut producer: HashMap<&str, usize> = HashMap::new();
        for (at, op) in self.ops.iter().enumerate() {
            producer.extend(op.outputs.iter().map(|o| (o.name.as_str(), at)));
        }
        let mut consumers = vec![Vec::new(); self.ops.len()];
        for (at, op) in self.ops.iter().enumerate() {
            let from: HashSet<usize> = op.live().filter_map(|v| producer.get(v.name.as_str()).copied()).collect();
            let mut from: Vec<usize> = from.into_iter().filter(|&f| f < at).collect();
            from.sort_unstable();
            from.into_iter().for_each(|f| consumers[f].push(at));
        }
        consumers
    }
}

pub(crate) fn typed(ty: &TensorType) -> OutlineType {
    let element = name_of(ty.dtype);
    OutlineType { element, shape: ty.shape.iter().map(|&d| Some(d)).collect(), state: false }
}

/// Name of an operand in MIL.
fn operand(kind: &OpKind, slot: usize) -> &'static str {
    let names: &[&str] = match kind {
        OpKind::Conv { .. } | OpKind::ConvTranspose { .. } | OpKind::Linear => &["x", "weight", "bias"],
        OpKind::MatMul { .. } | OpKind::Combine | OpKind::Binary(_) => &["x", "y"],
        OpKind::Select => &["cond", "a", "b"],
        OpKind::Gather { .. } | OpKind::GatherAlong { .. } | OpKind::GatherNd { .. } => &["x", "indices"],
        OpKind::ScatterAlong { .. } | OpKind::ScatterNd { .. } => &["data", "indices", "updates"],
        OpKind::Suppress { .. } => &["boxes", "scores", "overlap"],
        OpKind::Sample { .. } => &["x", "coordinates"],
        OpKind::BatchNorm { .. } => &["x", "mean", "variance", "gamma", "beta"],
        OpKind::LayerNorm { .. } | OpKind::InstanceNorm { .. } => &["x", "gamma", "beta"],
        OpKind::Concat { .. } => return "values",
        OpKind::Native(_) => return "bottom",
        _ => &["x", "y", "z"],
    };
    names.get(slot).copied().unwrap_or("x")
}

fn numbers(values: impl IntoIterator<Item = f64>, element: &'static str) -> Argument {
    let numbers: Vec<f64> = values.into_iter().collect();
    let ty = OutlineType { element, shape: vec![Some(numbers.len())], state: false };
    Argument::Constant(OutlineConstant { ty, inline: true, numbers: Some(numbers), text: None, compressed: None })
}

fn text(value: &str) -> Argument {
    let ty = OutlineType { element: "string", shape: vec![], state: false };
    let text = Some(value.to_string());
    Argument::Constant(OutlineConstant { ty, inline: true, numbers: None, text, compressed: None })
}

/// Constant parameters of an operation by name, in order.
type Parameters = Vec<(String, Argument)>;

fn integers(name: &str, values: &[usize]) -> (String, Argument) {
    (name.to_string(), numbers(values.iter().map(|&v| v as f64), "int32"))
}

fn flat(pads: &[(usize, usize)]) -> Vec<usize> {
    pads.iter().flat_map(|&(a, b)| [a, b]).collect()
}

/// MIL name of a graph operation, and its parameters.
fn spelled(kind: &OpKind) -> (&'static str, Parameters) {
    let axis = |axis: usize| vec![integers("axis", &[axis])];
    let switches =
        |x: bool, y: bool| vec![integers("transpose_x", &[usize::from(x)]), integers("transpose_y", &[usize::from(y)])];
    let convolved = |strides: &[usize], pads: &[(usize, usize)], dilations: &[usize], groups: usize| {
        let [strides, pads] = [integers("strides", strides), integers("pad", &flat(pads))];
        vec![strides, pads, integers("dilations", dilations), integers("groups", &[groups])]
    };
    match kind {
        OpKind::Conv { strides, pads, dilations, groups } => ("conv", convolved(strides, pads, dilations, *groups)),
        OpKind::ConvTranspose { strides, pads, dilations, groups, .. } => {
            ("conv_transpose", convolved(strides, pads, dilations, *groups))
        }
        OpKind::MatMul { transpose_x, transpose_y } => ("matmul", switches(*transpose_x, *transpose_y)),
        OpKind::Combine => ("matmul", switches(false, true)),
        OpKind::Unary(unary) => spelled_unary(unary),
        OpKind::Binary(binary) => (spelled_binary(binary.name()), Vec::new()),
        OpKind::Pool { kind: pool, kernel, strides, pads, .. } => {
            let name = match pool {
                PoolKind::Max => "max_pool",
                PoolKind::Average { .. } => "avg_pool",
                PoolKind::L2 => "l2_pool",
            };
            let [kernel, strides] = [integers("kernel_sizes", kernel), integers("strides", strides)];
            (name, vec![kernel, strides, integers("pad", &flat(pads))])
        }
        OpKind::Reduce { kind: reduce, axes, .. } => {
            let name = match reduce.name() {
                "reduce_l1" => "reduce_l1_norm",
                "reduce_l2" => "reduce_l2_norm",
                name => name,
            };
            (name, vec![integers("axes", axes)])
        }
        OpKind::Softmax { axis: of } => ("softmax", axis(*of)),
        OpKind::Concat { axis: of } => ("concat", axis(*of)),
        OpKind::Broadcast => ("tile", Vec::new()),
        OpKind::Transpose { perm } => ("transpose", vec![integers("perm", perm)]),
        OpKind::Slice { begin, end, stride } => {
            let [begin, end] = [integers("begin", begin), integers("end", end)];
            ("slice_by_index", vec![begin, end, integers("stride", stride)])
        }
        OpKind::Gather { axis: of } => ("gather", axis(*of)),
        OpKind::GatherAlong { axis: of } => ("gather_along_axis", axis(*of)),
        OpKind::GatherNd { .. } => ("gather_nd", Vec::new()),
        OpKind::ScatterAlong { axis: of, .. } => ("scatter_along_axis", axis(*of)),
        OpKind::ScatterNd { .. } => ("scatter_nd", Vec::new()),
        OpKind::ArgReduce { greatest, axis: of, .. } => {
            (if *greatest { "reduce_argmax" } else { "reduce_argmin" }, axis(*of))
        }
        OpKind::ArgSort { axis: of, .. } => ("argsort", axis(*of)),
        OpKind::Suppress { .. } => ("non_maximum_suppression", Vec::new()),
        OpKind::Sample { .. } => ("resample", Vec::new()),
        OpKind::LayerNorm { axes, .. } => ("layer_norm", vec![integers("axes", axes)]),
        OpKind::Pad { pads, .. } => ("pad", padded(pads, "constant")),
        OpKind::PadEdge { pads, mode: EdgeMode::Reflect } => ("pad", padded(pads, "reflect")),
        OpKind::PadEdge { pads, .. } => ("pad", padded(pads, "replicate")),
        OpKind::Resize { mode: ResizeMode::Nearest, .. } => ("resize_nearest_neighbor", Vec::new()),
        OpKind::Resize { mode: ResizeMode::Linear, coordinates } => {
            let aligned = usize::from(*coordinates == Coordinates::AlignCorners);
            ("resize_bilinear", vec![integers("align_corners", &[aligned])])
        }
        OpKind::Native(native) => (native.schema().tag, native_parameters(native)),
        OpKind::Loop(_) => ("while_loop", Vec::new()),
        kind => (kind.name(), Vec::new()),
    }
}

fn spelled_unary(unary: &Unary) -> (&'static str, Parameters) {
    match unary {
        Unary::Neg => ("mul", Vec::new()),
        Unary::Log2 => ("log", Vec::new()),
        Unary::Gelu(mode) => {
            let mode = match mode {
                GeluMode::Exact => "EXACT",
                GeluMode::Tanh => "TANH_APPROXIMATION",
                GeluMode::Sigmoid => "SIGMOID_APPROXIMATION",
            };
            ("gelu", vec![("mode".into(), text(mode))])
        }
        Unary::Clip { min, max } => {
            let bound = |name: &str, bound: f32| (name.to_string(), numbers([f64::from(bound)], "fp16"));
            ("clip", vec![bound("alpha", *min), bound("beta", *max)])
        }
        unary => (unary.name(), Vec::new()),
    }
}

fn spelled_binary(name: &'static str) -> &'static str {
    match name {
        "div" => "real_div",
        "max" => "maximum",
        "min" => "minimum",
        name => name,
    }
}

fn padded(pads: &[(usize, usize)], mode: &str) -> Parameters {
    vec![integers("pad", &flat(pads)), ("mode".into(), text(mode))]
}

fn native_parameters(native: &Native) -> Parameters {
    let parameters = native.params().map(|(key, value)| {
        let argument = match value {
            Param::Flag(flag) => numbers([f64::from(u8::from(*flag))], "bool"),
            Param::Integer(value) => numbers([*value as f64], "int32"),
            Param::Real(value) => numbers([f64::from(*value)], "fp16"),
            Param::Word(word) => text(word),
            Param::List(list) => numbers(list.iter().map(|&v| v as f64), "int32"),
        };
        (key.name.to_string(), argument)
    });
    parameters.collect()
}
