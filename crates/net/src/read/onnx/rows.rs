//! Rows at the places where a mask is true (`NonZero`). Their number depends on values, which a static graph cannot express: a row is
//! computed for every place of the mask, and the scatter that ends the computation leaves out rows whose place is false. Mixtures of
//! experts, each for some of the tokens, have this form.
//!
//! Operators between compute their rows one by one. Values with such rows, and the extents read from them, are marked; an
//! operator without a rule loses the form, and the model is read again without it ([`Translator::lost`]).

use super::made::MADE_ELEMENTS;
use super::masks::source;
use super::node::Node;
use super::{
    Translator, across, along, contributed, follow, lengths, masked, numbered, pairs, parts, proto, suppressed,
};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use std::collections::{HashMap, HashSet};

/// A value that depends on the number of places.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Rows along an axis.
    Rows(Rows),
    /// Extents, by element: true for the number of rows.
    Extents(Vec<bool>, Rows),
    /// Rows along their own axis and along a second one.
    Pairs(Rows, usize),
}

/// An axis with a row for each place of a mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    pub axis: usize,
    pub count: usize,
    /// The mask, before conversions and repetition; its number of elements times `each` is the count.
    pub mask: ValueId,
    /// Rows in succession for each element of the mask.
    pub each: usize,
}

impl Rows {
    /// Returns true for rows of the same places.
    pub fn of_same(&self, other: &Rows) -> bool {
        (self.mask, self.each) == (other.mask, other.each)
    }
}

/// Rows whose number depends on values, as far as a graph was read.
#[derive(Default)]
pub struct Computed {
    /// Values that depend on such a number, if rows are followed.
    pub marks: Option<HashMap<ValueId, Mark>>,
    /// Masks of rows that are joined, by their parts.
    pub joined: Vec<(Vec<across::Part>, ValueId)>,
    /// Masks of marked rows, and the same without the places that the model has no rows for.
    pub within: Vec<(ValueId, ValueId)>,
    /// Parts of the rows of masks.
    pub cut: Vec<parts::Cut>,
    /// Computed extents.
    pub lengths: Vec<lengths::Length>,
    /// Rows of windows along others.
    pub windows: Vec<along::Windows>,
    /// Numbers that are zero if a mask of rows has no true place, and conditions that are true then alone.
    pub none: HashSet<ValueId>,
}

/// Operators whose results may have computed rows.
pub const SOURCES: &[&str] =
    &["NonZero", "NonMaxSuppression", "Compress", "Unique", "Range", "Expand", "ConstantOfShape"];

/// Functions of elements, with broadcasting.
pub const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "BiasGelu",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
    "FastGelu",
    "Floor",
    "Gelu",
    "Greater",
    "GreaterOrEqual",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Less",
    "LessOrEqual",
    "Log",
    "Max",
    "Min",
    "Mish",
    "Mod",
    "Mul",
    "Neg",
    "Not",
    "Or",
    "PRelu",
    "Pow",
    "QLinearAdd",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearWhere",
    "QuickGelu",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Sigmoid",
    "Sign",
    "Sin",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Sub",
    "Swish",
    "Tanh",
    "Where",
    "Xor",
];

/// Functions of each image of a batch.
#[rustfmt::skip]
pub const OF_IMAGES: &[&str] = &[
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalMaxPool",
    "GroupNormalization", "InstanceNormalization", "LRN", "MaxPool", "SpaceToDepth",
];

/// Translates a search for places, or an operator with marked operands; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if n.t.computed.marks.is_none() {
        return Ok(false);
    }
    let plain = matches!(n.node.domain.as_str(), "" | "ai.onnx");
    if plain && n.op() == "NonZero" && n.input(0).is_some_and(|x| n.t.build.data(x).is_none()) {
        return search(n);
    }
    if plain && suppressed::NAMES.contains(&n.op()) {
        return suppressed::translate(n);
    }
    if plain && parts::emptiness(n)? {
        return Ok(true);
    }
    if plain {
        lengths::settle(n)?;
    }
    let marked = n.inputs.iter().flatten().any(|&id| n.t.mark(id).is_some());
    if plain && n.op() == "ReduceSum" && !marked {
        return counted(n);
    }
    if plain && !marked && (parts::bounded(n)? || parts::asked(n)?) {
        return Ok(true);
    }
    if !marked && !n.node.attribute.iter().filter_map(|a| a.g.as_ref()).any(|graph| captures(n.t, graph)) {
        return Ok(false);
    }
    // A branch that is known takes the place of the operator.
    if plain && n.op() == "If" && n.input(0).is_some_and(|id| n.t.build.data(id).is_some()) {
        n.translate_known()?;
        return Ok(true);
    }
    // Operators of functions of the model have rules of their own.
    if n.t.functions.iter().any(|f| f.name == n.op() && f.domain == n.node.domain) {
        return Ok(false);
    }
    if plain && matches!(n.op(), "ScatterND" | "ScatterElements") {
        return across::scatter(n);
    }
    if n.node.domain == masked::DOMAIN {
        return across::masked_scatter(n);
    }
    if plain && numbered::translate(n)? {
        return Ok(true);
    }
    let known = match n.node.domain == contributed::DOMAIN {
        true => ELEMENTWISE.contains(&n.op()),
        false => plain && rule_exists(n.op()),
    };
    if !known {
        return Err(lost(n));
    }
    lengths::in_table(n)?;
    let numbers = across::count(n)?;
    if pairs::translate(n)? || along::translate(n)? || across::join(n)? || across::translate(n)? {
        return Ok(true);
    }
    n.translate_known()?;
    if n.inputs.iter().flatten().all(|&id| n.t.mark(id).is_none()) {
        if numbers && n.op() == "ReduceProd" {
            parts::note_none(n);
        }
        return Ok(true);
    }
    follow::follow(n)
}

pub fn lost(n: &mut Node) -> Error {
    let place = n.place();
    n.t.lost.get_or_init(|| place);
    n.unsupported("the number of its rows depends on values: the graph is static")
}

fn captures(t: &Translator, graph: &proto::Graph) -> bool {
    let names = graph.node.iter().flat_map(|node| &node.input).chain(graph.output.iter().map(|o| &o.name));
    let inner = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|a| a.g.as_ref());
    names.filter_map(|name| t.values.get(name)).any(|&id| t.mark(id).is_some())
        || inner.into_iter().any(|graph| captures(t, graph))
}

fn rule_exists(op: &str) -> bool {
    #[rustfmt::skip]
    let others = [
        "Shape", "RoiAlign", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Split", "Slice", "Concat",
        "Gather", "GatherND", "GatherElements", "Gemm", "Tile", "Pad", "LayerNormalization", "RMSNormalization", "Expand",
        "ConstantOfShape", "QuantizeLinear", "DequantizeLinear", "QLinearMatMul",
    ];
    [ELEMENTWISE, OF_IMAGES, across::NAMES, along::NAMES, &others].iter().any(|names| names.contains(&op))
}

/// Every place of a mask, by axis, as a constant.
fn search(n: &mut Node) -> Result<bool, Error> {
    let mask = n.need(0)?;
    let shape = n.shape(mask);
    let count = elements(&shape);
    if shape.is_empty() || count == 0 || count.saturating_mul(shape.len()) > MADE_ELEMENTS {
        return Err(lost(n));
    }
    match n.t.mark(mask).cloned() {
        None => {}
        Some(Mark::Rows(rows)) => return numbered::search(n, mask, rows),
        Some(Mark::Extents(..) | Mark::Pairs(..)) => return Err(lost(n)),
    }
    let (mask, each) = source(n, mask);
    let rank = shape.len();
    let all = all_places(&shape);
    let places = (0..rank).flat_map(|axis| all.iter().skip(axis).step_by(rank).copied()).collect();
    let id = n.build().integers([rank, count], places);
    n.t.computed.marks.get_or_insert_default().insert(id, Mark::Rows(Rows { axis: 1, count, mask, each }));
    n.done(id)
}

/// The positions of all elements of a tensor, in order.
pub fn all_places(shape: &[usize]) -> Vec<i32> {
    let place = |at: usize| {
        let inner = move |axis: usize| elements(&shape[axis + 1..]);
        (0..shape.len()).map(move |axis| (at / inner(axis) % shape[axis]) as i32)
    };
    (0..elements(shape)).flat_map(place).collect()
}

/// The number of true places of a mask that was searched, which the model counts by itself.
fn counted(n: &mut Node) -> Result<bool, Error> {
    let x = n.need(0)?;
    let axes = n.either("axes", 1)?.unwrap_or_default();
    let rank = n.shape(x).len();
    let all = if axes.is_empty() { !n.flag("noop_with_empty_axes", false) } else { n.axes(&axes, rank)?.len() == rank };
    if !all || n.dtype(x) != DType::I32 {
        return Ok(false);
    }
    let mask = source(n, x);
    let searched = n.t.computed.marks.iter().flatten().find_map(|(_, mark)| match mark {
        Mark::Rows(rows) if (rows.mask, rows.each) == mask => Some(*rows),
        _ => None,
    });
    let Some(rows) = searched else { return Ok(false) };
    let shape = if n.flag("keepdims", true) { vec![1; rank] } else { Vec::new() };
    let id = n.build().integers(shape, vec![rows.count as i32]);
    n.t.computed.marks.get_or_insert_default().insert(id, Mark::Extents(vec![true], rows));
    n.done(id)
}

/// Truth values of the rows.
pub fn real(build: &mut Builder, rows: Rows) -> Result<ValueId, Error> {
    let real = build.cast(rows.mask, DType::Bool)?;
    let real = build.reshape(real, [rows.count / rows.each, 1])?;
    let real = build.broadcast(real, [rows.count / rows.each, rows.each])?;
    build.reshape(real, [rows.count])
}
