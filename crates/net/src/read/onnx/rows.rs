//! Rows at the places where a mask is true (`NonZero`). Their number depends on values, which a static graph cannot express: a row is
//! computed for every place of the mask, and the scatter that ends the computation leaves out rows whose place is false. Mixtures of
//! experts, each for some of the tokens, have this form.
//!
//! Operators between compute their rows one by one. Values with such rows, and the extents read from them, are marked; an
//! operator without a rule loses the form, and the model is read again without it ([`Translator::lost`]).

use super::made::MADE_ELEMENTS;
use super::masks::source;
use super::node::Node;
use super::{Translator, across, contributed, lengths, masked, numbered, parts, proto, suppressed};
use crate::build::Builder;
use crate::error::Error;
use crate::graph::{DType, ValueId, elements};

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
const OF_IMAGES: &[&str] = &[
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "DepthToSpace", "GlobalAveragePool", "GlobalMaxPool",
    "GroupNormalization", "InstanceNormalization", "LRN", "MaxPool", "SpaceToDepth",
];

/// Translates a search for places, or an operator with marked operands; returns false for all others.
pub fn translate(n: &mut Node) -> Result<bool, Error> {
    if n.t.marks.is_none() {
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
    if lengths::convolved(n)? || across::join(n)? || across::translate(n)? {
        return Ok(true);
    }
    n.translate_known()?;
    if n.inputs.iter().flatten().all(|&id| n.t.mark(id).is_none()) {
        if numbers && n.op() == "ReduceProd" {
            parts::note_none(n);
        }
        return Ok(true);
    }
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
        "Gather", "GatherND", "GatherElements", "Gemm", "Pad", "LayerNormalization", "RMSNormalization", "Expand",
        "ConstantOfShape", "QuantizeLinear", "DequantizeLinear",
    ];
    [ELEMENTWISE, OF_IMAGES, across::NAMES, &others].iter().any(|names| names.contains(&op))
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
        Some(Mark::Extents(..)) => return Err(lost(n)),
    }
    let (mask, each) = source(n, mask);
    let rank = shape.len();
    let all = all_places(&shape);
    let places = (0..rank).flat_map(|axis| all.iter().skip(axis).step_by(rank).copied()).collect();
    let id = n.build().integers([rank, count], places);
    n.t.marks.get_or_insert_default().insert(id, Mark::Rows(Rows { axis: 1, count, mask, each }));
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
    let searched = n.t.marks.iter().flatten().find_map(|(_, mark)| match mark {
        Mark::Rows(rows) if (rows.mask, rows.each) == mask => Some(*rows),
        _ => None,
    });
    let Some(rows) = searched else { return Ok(false) };
    let shape = if n.flag("keepdims", true) { vec![1; rank] } else { Vec::new() };
    let id = n.build().integers(shape, vec![rows.count as i32]);
    n.t.marks.get_or_insert_default().insert(id, Mark::Extents(vec![true], rows));
    n.done(id)
}

/// Truth values of the rows.
pub fn real(build: &mut Builder, rows: Rows) -> Result<ValueId, Error> {
    let real = build.cast(rows.mask, DType::Bool)?;
    let real = build.reshape(real, [rows.count / rows.each, 1])?;
    let real = build.broadcast(real, [rows.count / rows.each, rows.each])?;
    build.reshape(real, [rows.count])
}

/// The rows after a reshape that keeps, joins or divides them.
fn reshaped(own: &[usize], to: &[usize], rows: Rows) -> Option<Rows> {
    let before = elements(&own[..rows.axis]);
    let at = |axis: &usize| elements(&to[..*axis]) == before;
    let keeps = |axis: &usize| at(axis) && to[*axis] == rows.count;
    if let Some(axis) = (0..to.len()).find(keeps) {
        return Some(Rows { axis, ..rows });
    }
    // The number of elements that the following axes begin with.
    let begins = |shape: &[usize], axis: usize, count: usize| {
        (axis + 1..=shape.len()).any(|end| elements(&shape[axis + 1..end]) == count)
    };
    (0..to.len()).filter(at).find_map(|axis| {
        let count = to[axis];
        let (joins, divides) = (count / rows.count, rows.count / count.max(1));
        let each = match () {
            () if count == rows.count * joins && begins(own, rows.axis, joins) => rows.each * joins,
            () if count * divides == rows.count && rows.each.is_multiple_of(divides) && begins(to, axis, divides) => {
                rows.each / divides
            }
            () => return None,
        };
        Some(Rows { axis, count, each, ..rows })
    })
}

/// Returns true for a quantizer with one scale, or one for each place along another axis than that of the rows.
fn scales_rows_alike(n: &Node, rows: usize) -> bool {
    let one = n.input(1).is_some_and(|scale| elements(&n.shape(scale)) == 1);
    let rank = n.input(0).map_or(0, |x| n.shape(x).len());
    one || n.int("block_size", 0) == 0 && n.axis(n.int("axis", 1), rank).is_ok_and(|axis| axis != rows)
}

/// The mark of a result, `Some(None)` for one that no values influence; `None` if the operator mixes rows.
fn mark_of(n: &Node, out: ValueId) -> Result<Option<Option<Mark>>, Error> {
    let marks: Vec<Option<&Mark>> = n.inputs.iter().map(|id| id.and_then(|id| n.t.mark(id))).collect();
    let mut rows =
        marks.iter().flatten().filter_map(|mark| if let Mark::Rows(rows) = mark { Some(*rows) } else { None });
    let Some(first) = rows.next() else { return of_extents(n, &marks, out) };
    let mut all = marks.iter().flatten().map(|mark| match mark {
        Mark::Rows(rows) | Mark::Extents(_, rows) => rows,
    });
    if !all.all(|other| other.of_same(&first)) {
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
            let rank = rank(0) as i64;
            let held = |at: i64| (if at < 0 { at + rank } else { at }).clamp(0, rank) as usize;
            let part = held(n.int("start", 0))..held(n.int("end", rank));
            let flags: Vec<bool> = part.map(|axis| Some(axis) == x).collect();
            return Ok(Some(flags.contains(&true).then_some(Mark::Extents(flags, first))));
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
            let own = n.shape(n.need(0)?);
            return Ok(reshaped(&own, &shape, first).map(|rows| Some(Mark::Rows(rows))));
        }
        "Split" | "Slice" if alone => {
            let steps = if n.op() == "Slice" { n.either("steps", 4)?.unwrap_or_default() } else { Vec::new() };
            (rank(0) == shape.len() && steps.iter().all(|&step| step > 0)).then_some(first.axis)
        }
        "Pad" if alone => x.filter(|&x| parts::unpadded(n, x)),
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
        "GatherElements" => along(1).filter(|&at| x.is_none_or(|x| x == at && axis_of(0).is_ok_and(|axis| axis != x))),
        "MatMul" if x.is_none() => along(1).filter(|&y| y > 0 && y + 1 == rank(1)).map(|_| shape.len() - 1),
        "CumSum" => x.filter(|_| alone),
        "QuantizeLinear" | "DequantizeLinear" if alone => x.filter(|&x| scales_rows_alike(n, x)),
        "RoiAlign" if x.is_none() => along(1).filter(|&at| at == 0 && along(2).is_none_or(|other| other == 0)),
        op if OF_IMAGES.contains(&op) => x.filter(|&x| alone && x == 0),
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
    let same = |m: &&&Mark| matches!(m, Mark::Extents(_, other) if other.of_same(&rows));
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
        "Shape" => return Ok(Some(None)),
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
        "Add" if across::adds_nothing(n) => Some(flags(usize::from(marks[0].is_none()))),
        "Add" => return Ok(across::joined(n).map(|rows| Some(Mark::Extents(vec![true], rows)))),
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
