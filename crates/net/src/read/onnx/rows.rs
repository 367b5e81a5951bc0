//! Rows at the places where a mask is true (`NonZero`). Their number depends on values, which a static graph cannot express: a row is
//! computed for every place of the mask, and the scatter that ends the computation leaves out rows whose place is false. Mixtures of
//! experts, each for some of the tokens, have this form.
//!
//! Every operator between must compute its rows one by one. Values with such rows, and the extents read from them, are marked; an
//! operator without a rule here loses the form, and the model is read again without it ([`Translator::lost`]).

use super::made::MADE_ELEMENTS;
use super::node::Node;
use super::{Translator, proto};
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};
use crate::ops::{Binary, OpKind, ReduceKind, ScatterMode};

/// A value that depends on the number of places.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Rows along an axis.
    Rows(Rows),
    /// Extents, by element: true for the number of rows.
    Extents(Vec<bool>, Rows),
}

/// An axis with a row for each place of a mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    axis: usize,
    count: usize,
    /// Truth values by place.
    real: ValueId,
}

/// Functions of elements, with broadcasting.
const ELEMENTWISE: &[&str] = &[
    "Abs",
    "Add",
    "And",
    "Cast",
    "Ceil",
    "Clip",
    "Cos",
    "Div",
    "Elu",
    "Equal",
    "Erf",
    "Exp",
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

/// Translates a search for places, or an operator with marked operands; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    let Some(marks) = &n.t.marks else { return Ok(false) };
    let plain = matches!(n.node.domain.as_str(), "" | "ai.onnx");
    if plain && n.op() == "NonZero" && n.input(0).is_some_and(|x| n.t.build.data(x).is_none()) {
        return search(n);
    }
    let marked = n.inputs.iter().flatten().any(|id| marks.contains_key(id));
    if plain && n.op() == "Expand" && !marked {
        return repeated(n);
    }
    if !marked && !n.node.attribute.iter().filter_map(|a| a.g.as_ref()).any(|graph| captures(n.t, graph)) {
        return Ok(false);
    }
    // Operators of functions of the model have rules of their own.
    if n.t.functions.iter().any(|f| f.name == n.op() && f.domain == n.node.domain) {
        return Ok(false);
    }
    if plain && matches!(n.op(), "ScatterND" | "ScatterElements") {
        return scatter(n);
    }
    if !plain || !rule_exists(n.op()) {
        return Err(lost(n));
    }
    n.translate_known()?;
    for (i, name) in n.node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        let Some(&id) = n.t.values.get(name) else { return Err(lost(n)) };
        let Some(mark) = (match i {
            0 => mark_of(n, id)?,
            _ if n.op() == "Split" => mark_of(n, id)?,
            _ => None,
        }) else {
            return Err(lost(n));
        };
        let Some(mark) = mark else { continue };
        // A value that is the operand itself has its own mark.
        let own = if n.inputs.contains(&Some(id)) && n.t.mark(id).is_none() {
            let copy = n.build().copied(id)?;
            n.output(i, copy);
            copy
        } else {
            id
        };
        n.t.marks.get_or_insert_default().insert(own, mark);
    }
    Ok(true)
}

fn lost(n: &mut Node) -> Error {
    n.t.lost.set(true);
    n.unsupported("the number of its rows depends on values: the graph is static")
}

fn captures(t: &Translator, graph: &proto::Graph) -> bool {
    let names = graph.node.iter().flat_map(|node| &node.input).chain(graph.output.iter().map(|o| &o.name));
    let inner = graph.node.iter().flat_map(|node| &node.attribute).filter_map(|a| a.g.as_ref());
    names.filter_map(|name| t.values.get(name)).any(|&id| t.mark(id).is_some())
        || inner.into_iter().any(|graph| captures(t, graph))
}

fn rule_exists(op: &str) -> bool {
    let others = [
        "Shape",
        "Transpose",
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Split",
        "Slice",
        "Concat",
        "Gather",
        "GatherND",
        "GatherElements",
        "MatMul",
        "Gemm",
        "Softmax",
        "LogSoftmax",
        "LayerNormalization",
        "RMSNormalization",
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceL2",
        "Expand",
        "ConstantOfShape",
    ];
    ELEMENTWISE.contains(&op) || others.contains(&op)
}

/// Every place of a mask, by axis, as a constant.
fn search(n: &mut Node) -> Result<bool, Error> {
    let mask = n.need(0)?;
    let shape = n.shape(mask);
    let count = elements(&shape);
    if shape.is_empty() || count == 0 || count.saturating_mul(shape.len()) > MADE_ELEMENTS || n.t.mark(mask).is_some() {
        return Err(lost(n));
    }
    let real = n.build().cast(mask, DType::Bool)?;
    let real = n.build().reshape(real, [count])?;
    let place = |axis: usize| {
        let (inner, extent) = (elements(&shape[axis + 1..]), shape[axis]);
        (0..count).map(move |at| (at / inner % extent) as i32)
    };
    let places = (0..shape.len()).flat_map(place).collect();
    let id = n.build().integers([shape.len(), count], places);
    n.t.marks.get_or_insert_default().insert(id, Mark::Rows(Rows { axis: 1, count, real }));
    n.done(id)
}

/// One element repeated for every true place of a mask, which the model counts by itself.
fn repeated(n: &mut Node) -> Result<bool, Error> {
    let (x, shape) = (n.need(0)?, n.need(1)?);
    if n.t.build.data(shape).is_some() || n.shape(shape) != [1] || elements(&n.shape(x)) != 1 {
        return Ok(false);
    }
    let sum = n.t.build.maker(shape).filter(|op| matches!(op.kind, OpKind::Reduce { kind: ReduceKind::Sum, .. }));
    let Some(mask) = sum.map(|op| source(n, op.inputs[0])) else { return Ok(false) };
    let searched = n.t.marks.iter().flatten().find_map(|(_, mark)| match mark {
        Mark::Rows(rows) if source(n, rows.real) == mask => Some(*rows),
        _ => None,
    });
    let Some(rows) = searched else { return Ok(false) };
    let x = n.build().reshape(x, [1])?;
    let id = n.build().broadcast(x, [rows.count])?;
    let id = if id == x { n.build().copied(id)? } else { id };
    n.t.marks.get_or_insert_default().insert(id, Mark::Rows(Rows { axis: 0, ..rows }));
    n.done(id)
}

/// A mask before reshapes and conversions.
fn source(n: &Node, mut id: ValueId) -> ValueId {
    while let Some(op) = n.t.build.maker(id).filter(|op| matches!(op.kind, OpKind::Reshape | OpKind::Cast)) {
        id = op.inputs[0];
    }
    id
}

/// The mark of a result, `Some(None)` for one that no values influence; `None` if the operator mixes rows.
fn mark_of(n: &Node, out: ValueId) -> Result<Option<Option<Mark>>, Error> {
    let marks: Vec<Option<&Mark>> = n.inputs.iter().map(|id| id.and_then(|id| n.t.mark(id))).collect();
    let mut rows =
        marks.iter().flatten().filter_map(|mark| if let Mark::Rows(rows) = mark { Some(*rows) } else { None });
    let Some(first) = rows.next() else { return of_extents(n, &marks, out) };
    if rows.any(|other| other.real != first.real) {
        return Ok(None);
    }
    let shape = n.shape(out);
    let along = |at: usize| match marks.get(at) {
        Some(Some(Mark::Rows(rows))) => Some(rows.axis),
        _ => None,
    };
    let rank = |at: usize| n.input(at).map_or(0, |id| n.shape(id).len());
    let x = along(0);
    // Only extents may be marked beside the first operand.
    let alone = x.is_some() && (1..marks.len()).all(|at| along(at).is_none());
    let axis_of = |default: i64| n.axis(n.int("axis", default), rank(0));
    let axis = match n.op() {
        "Shape" => {
            let whole = n.attribute("start").is_none() && n.attribute("end").is_none();
            let flags = (0..rank(0)).map(|axis| Some(axis) == x).collect();
            return Ok(whole.then_some(Some(Mark::Extents(flags, first))));
        }
        op if ELEMENTWISE.contains(&op) => {
            let from_end = |at: usize| along(at).map(|axis| rank(at) - axis);
            let end = (0..marks.len()).find_map(from_end).unwrap_or(0);
            let fits = |at: usize| match (from_end(at), marks[at], n.input(at)) {
                (Some(own), ..) => own == end,
                (None, Some(_), _) => false,
                (None, None, Some(id)) => rank(at) < end || n.shape(id)[rank(at) - end] == 1,
                (None, None, None) => true,
            };
            ((0..marks.len()).all(fits) && shape.len() >= end).then(|| shape.len() - end)
        }
        "Expand" => {
            let end = x.map_or(0, |x| rank(0) - x);
            let flags =
                marks.get(1).and_then(|mark| if let Some(Mark::Extents(flags, _)) = mark { Some(flags) } else { None });
            let fits = match (flags, n.integers(1, "shape")?) {
                (Some(flags), _) => (0..flags.len()).all(|at| flags[at] == (at + end == flags.len())),
                (None, Some(to)) => to.len() < end || to[to.len() - end] == 1,
                (None, None) => false,
            };
            (x.is_some() && fits && shape.len() >= end).then(|| shape.len() - end)
        }
        "Transpose" => {
            let perm = n.ints("perm").map(|perm| n.sizes("perm", &perm)).transpose()?;
            x.map(|x| perm.map_or(rank(0) - 1 - x, |perm| perm.iter().position(|&from| from == x).unwrap_or(x)))
        }
        "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" if alone => {
            let before = |shape: &[usize], axis: usize| elements(&shape[..axis]);
            let own = n.shape(n.need(0)?);
            let same = |&axis: &usize| shape[axis] == first.count && before(&shape, axis) == before(&own, first.axis);
            (0..shape.len()).find(same)
        }
        "Split" | "Slice" if alone => {
            let steps = if n.op() == "Slice" { n.either("steps", 4)?.unwrap_or_default() } else { Vec::new() };
            (rank(0) == shape.len() && steps.iter().all(|&step| step > 0)).then_some(first.axis)
        }
        "Concat" => {
            let axis = n.axis(n.int("axis", 0), shape.len())?;
            (0..marks.len()).all(|at| along(at) == x && x.is_some_and(|x| x != axis)).then_some(first.axis)
        }
        "Gather" => match (x, along(1)) {
            (None, Some(places)) => Some(axis_of(0)? + places),
            (Some(x), None) if marks.get(1) == Some(&None) => {
                let axis = axis_of(0)?;
                (axis != x).then(|| if axis < x { x + rank(1) - 1 } else { x })
            }
            _ => None,
        },
        "GatherND" => along(1).filter(|&at| x.is_none() && at + 1 < rank(1) && n.int("batch_dims", 0) == 0),
        "GatherElements" => x.filter(|&x| along(1) == Some(x) && axis_of(0).is_ok_and(|axis| axis != x)),
        "MatMul" => x.filter(|&x| alone && x + 1 < rank(0) && rank(1) <= rank(0) && rank(0) == shape.len()),
        "Gemm" => x.filter(|&x| alone && x == 0 && !n.flag("transA", false)),
        "Softmax" | "LogSoftmax" => x.filter(|&x| axis_of(if n.opset() < 13 { 1 } else { -1 }).is_ok_and(|a| a > x)),
        "LayerNormalization" | "RMSNormalization" => x.filter(|&x| alone && axis_of(-1).is_ok_and(|a| a > x)),
        op if op.starts_with("Reduce") && alone => {
            let axes = n.either("axes", 1)?.unwrap_or_default();
            let axes = n.axes(&axes, rank(0))?;
            let kept = n.flag("keepdims", true);
            let before = axes.iter().filter(|&&axis| axis < first.axis).count();
            let whole = axes.is_empty() || axes.contains(&first.axis);
            (!whole).then(|| if kept { first.axis } else { first.axis - before })
        }
        _ => None,
    };
    let found = axis.filter(|&axis| shape.get(axis) == Some(&first.count));
    Ok(found.map(|axis| Some(Mark::Rows(Rows { axis, ..first }))))
}

/// As [`mark_of`], for an operator of which only extents are marked.
fn of_extents(n: &Node, marks: &[Option<&Mark>], out: ValueId) -> Result<Option<Option<Mark>>, Error> {
    let flags = |at: usize| match (marks.get(at), n.input(at)) {
        (Some(Some(Mark::Extents(flags, _))), _) => flags.clone(),
        (_, Some(id)) => vec![false; elements(&n.shape(id))],
        _ => Vec::new(),
    };
    let Some(rows) =
        marks.iter().flatten().find_map(|m| if let Mark::Extents(_, rows) = m { Some(*rows) } else { None })
    else {
        return Ok(None);
    };
    let same = |m: &&&Mark| matches!(m, Mark::Extents(_, other) if other.real == rows.real);
    if !marks.iter().flatten().all(|m| same(&m)) {
        return Ok(None);
    }
    let own = flags(0);
    let picked = match n.op() {
        "Cast" | "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Flatten"
            if marks.get(1).is_none_or(Option::is_none) =>
        {
            Some(own)
        }
        "Concat" => Some((0..marks.len()).flat_map(flags).collect()),
        "Gather" => {
            let places = n.integers(1, "indices")?.unwrap_or_default();
            let count = own.len() as i64;
            places.iter().map(|&at| own.get(usize::try_from(at.rem_euclid(count.max(1))).ok()?).copied()).collect()
        }
        "Slice" => {
            let (start, end) = (n.either("starts", 1)?.unwrap_or_default(), n.either("ends", 2)?.unwrap_or_default());
            let step = n.either("steps", 4)?.unwrap_or_else(|| vec![1]);
            let count = own.len() as i64;
            let held = |at: i64| (if at < 0 { at + count } else { at }).clamp(0, count) as usize;
            match (start.as_slice(), end.as_slice(), step.as_slice()) {
                (&[start], &[end], &[1]) => own.get(held(start)..held(end)).map(<[bool]>::to_vec),
                _ => None,
            }
        }
        // A number of rows is not negative.
        "Equal" => {
            let constant = n.integers(usize::from(marks[0].is_some()), "a number")?.unwrap_or_default();
            return Ok(constant.iter().all(|&v| v < 0).then_some(None));
        }
        "Where" if marks[0].is_none() => {
            let (a, b) = (flags(1), flags(2));
            let count = elements(&n.shape(out));
            let flag =
                |list: &[bool], at: usize| list.get(if list.len() == 1 { 0 } else { at }).copied().unwrap_or(false);
            Some((0..count).map(|at| flag(&a, at) || flag(&b, at)).collect())
        }
        // Values of these extents have rows along that axis.
        "Expand" | "ConstantOfShape" => {
            let extents = flags(usize::from(n.op() == "Expand"));
            let mut along = (0..extents.len()).filter(|&axis| extents[axis]);
            let axis = along.next().filter(|_| along.next().is_none() && marks[0].is_none() == (n.op() == "Expand"));
            let axis = axis.filter(|&axis| n.shape(out).get(axis) == Some(&rows.count));
            return Ok(axis.map(|axis| Some(Mark::Rows(Rows { axis, ..rows }))));
        }
        _ => None,
    };
    let picked = picked.filter(|flags| flags.len() == elements(&n.shape(out)));
    Ok(picked.map(|flags| flags.contains(&true).then_some(Mark::Extents(flags, rows))))
}

/// A scatter of rows: those of places that the mask leaves out change nothing.
fn scatter(n: &mut Node) -> Result<bool, Error> {
    let (x, places, updates) = (n.need(0)?, n.need(1)?, n.need(2)?);
    let along = |n: &Node, id: ValueId| match n.t.mark(id) {
        Some(Mark::Rows(rows)) => Some(*rows),
        _ => None,
    };
    let (Some(rows), None) = (along(n, places), n.t.mark(x)) else { return Err(lost(n)) };
    let by_axis = n.op() == "ScatterElements";
    let whole = along(n, updates).is_some_and(|own| own == rows) && (by_axis || rows.axis + 1 < n.shape(places).len());
    if !whole {
        return Err(lost(n));
    }
    let mode = super::index::reduction(n)?;
    let axis = n.axis(n.int("axis", 0), n.shape(x).len())?;
    let kind = |mode: ScatterMode| match by_axis {
        true => OpKind::ScatterAlong { axis, mode },
        false => OpKind::ScatterNd { mode },
    };
    let shape = n.shape(updates);
    let mut wide = vec![1; shape.len()];
    wide[rows.axis] = rows.count;
    let real = n.build().reshape(rows.real, wide)?;
    if mode == ScatterMode::Add {
        let zero = n.build().scalar(0.0, updates);
        let updates = n.build().select(real, updates, zero)?;
        let id = n.build().op("scattered", kind(mode), &[x, places, updates])?;
        return n.done(id);
    }
    if mode != ScatterMode::Update {
        return Err(lost(n));
    }
    // Elements at real places are written once: their sum is the element.
    let to = n.shape(x);
    let zero = n.build().scalar(0.0, x);
    let empty = n.build().broadcast(zero, to.clone())?;
    let kept = n.build().select(real, updates, zero)?;
    let sum = n.build().op("written", kind(ScatterMode::Add), &[empty, places, kept])?;
    if n.t.build.data(x).is_some_and(|tensor| tensor.data.to_f32().iter().all(|&v| v == 0.0)) {
        return n.done(sum);
    }
    let (one, none) = (n.build().floats(Vec::new(), &[1.0], x), zero);
    let ones = n.build().select(real, one, none)?;
    let ones = n.build().broadcast(ones, shape)?;
    let times = n.build().op("times", kind(ScatterMode::Add), &[empty, places, ones])?;
    let written = n.build().binary(Binary::Greater, times, zero)?;
    let id = n.build().select(written, sum, x)?;
    n.done(id)
}
