//! Rows at the places where a mask is true (`non_zero`), whose number depends on values: the operations on them are translated by the rules
//! that ONNX models have for the operator of the same meaning, so that the formats share them.

use super::call::Call;
use super::{Item, Translator, elementwise};
use crate::error::Error;
use crate::graph::{Tensor, ValueId};
use crate::mil::proto::{Block, Bound};
use crate::read::onnx::lent::Lent;
use crate::read::onnx::proto::{Attribute, Node};
use crate::read::onnx::rows::Mark;
use std::collections::HashMap;

/// Operations on images, of which each row is one.
const OF_IMAGES: &[&str] = &[
    "avg_pool",
    "batch_norm",
    "conv",
    "conv_transpose",
    "depth_to_space",
    "instance_norm",
    "local_response_norm",
    "max_pool",
    "pixel_shuffle",
    "pixel_unshuffle",
    "space_to_depth",
    "upsample_bilinear",
    "upsample_nearest_neighbor",
];

/// Translates a search for places, or an operation with marked operands; returns false for all others.
pub fn translate(call: &mut Call) -> Result<bool, Error> {
    let searches = call.op.ty == "non_zero";
    let given = call.arguments.values().flatten().any(|item| marked(call.t, item));
    if !searches && !given && !call.op.blocks.iter().any(|block| captures(call.t, block)) {
        return Ok(false);
    }
    // Blocks end with a selection between values, which has no mark.
    if searches && call.t.depth > 0 || !call.op.blocks.is_empty() {
        return Err(lost(call));
    }
    if special(call) {
        operators(call)
    } else {
        own(call).and_then(|done| if done { Ok(true) } else { operators(call) })
    }
}

/// The refusal of an operation that has no rule for rows of an unknown number.
fn lost(call: &Call) -> Error {
    call.unsupported("the number of its rows depends on values: the graph is static")
}

fn mark<'a>(t: &'a Translator, id: ValueId) -> Option<&'a Mark> {
    t.computed.marks.as_ref()?.get(&id)
}

fn marked(t: &Translator, item: &Item) -> bool {
    match item {
        Item::Value(id) => mark(t, *id).is_some(),
        Item::List(items) => items.iter().any(|item| marked(t, item)),
        Item::Constant(_) | Item::Text(_) | Item::State(_) | Item::Unwritten => false,
    }
}

fn captures(t: &Translator, block: &Block) -> bool {
    let bound = |name: &String| t.items.get(name).is_some_and(|item| marked(t, item));
    let mut arguments = block.operations.iter().flat_map(|op| op.inputs.values()).flat_map(|list| &list.arguments);
    let reads = arguments.any(|a| matches!(&a.bound, Some(Bound::Name(name)) if bound(name)));
    reads
        || block.outputs.iter().any(bound)
        || block.operations.iter().flat_map(|op| &op.blocks).any(|block| captures(t, block))
}

/// Returns true if an operand is extents read from rows, or has rows along two axes.
fn special(call: &Call) -> bool {
    let of = |item: &Item| matches!(item, Item::Value(id) if matches!(mark(call.t, *id), Some(Mark::Extents(..) | Mark::Pairs(..))));
    call.arguments.values().flatten().any(of)
}

/// Translates an operation that computes its rows one by one as all others are, and marks its result as that of an operator which treats rows
/// alike. Returns false for other operations.
fn own(call: &mut Call) -> Result<bool, Error> {
    let name = call.op.ty.as_str();
    let (operator, operands): (&str, &[&str]) = match name {
        "linear" | "layer_norm" => ("LayerNormalization", &["x"]),
        "select" => ("Where", &["cond", "a", "b"]),
        _ if OF_IMAGES.contains(&name) => ("MaxPool", &["x"]),
        _ if elementwise::of_two(name) => ("Add", &["x", "y"]),
        _ if elementwise::of_one(call)? => ("Relu", &["x"]),
        _ => return Ok(false),
    };
    let mut plan = Plan::new(call);
    let mut inputs = Vec::new();
    for name in operands {
        inputs.push(plan.operand(name)?);
    }
    let axis = if name == "layer_norm" { plan.first_normed()? } else { -1 };
    let others = plan.call.arguments.iter().filter(|(name, _)| !operands.contains(&name.as_str()));
    if others.flat_map(|(_, items)| items).any(|item| marked(plan.call.t, item)) {
        return Err(lost(plan.call));
    }
    plan.then(operator, inputs, vec![integer("axis", axis)]);
    let Plan { mut values, mut nodes, call, .. } = plan;
    call.translate_known()?;
    let Some(node) = nodes.pop() else { return Err(lost(call)) };
    let Some(Item::Value(made)) = call.t.items.get(call.output(0)).cloned() else { return Err(lost(call)) };
    values.insert(node.output[0].clone(), made);
    lend(call, |lent| lent.follow(&node, &mut values))?;
    if let Some(&id) = values.get(&node.output[0]) {
        let output = call.output(0).to_string();
        call.t.items.insert(output, Item::Value(id));
    }
    Ok(true)
}

/// Work on the graph by the operators' rules, with this operation in its errors.
fn lend(call: &mut Call, work: impl FnOnce(&mut Lent) -> Result<(), Error>) -> Result<(), Error> {
    let (op, output) = (call.op.ty.clone(), call.output(0).to_string());
    let Translator { build, computed, notes, .. } = &mut *call.t;
    work(&mut Lent { build, computed, notes }).map_err(|error| match error {
        Error::Unsupported { reason, .. } => Error::Unsupported { op, output, reason },
        other => other,
    })
}

fn integer(name: &str, i: i64) -> Attribute {
    Attribute { name: name.to_string(), i, ..Default::default() }
}

/// Operators that stand for one operation.
struct Plan<'c, 'b, 'a> {
    call: &'c mut Call<'b, 'a>,
    values: HashMap<String, ValueId>,
    nodes: Vec<Node>,
}

impl<'c, 'b, 'a> Plan<'c, 'b, 'a> {
    fn new(call: &'c mut Call<'b, 'a>) -> Self {
        Plan { call, values: HashMap::new(), nodes: Vec::new() }
    }

    /// The name of a value for the operators.
    fn name(&mut self, id: ValueId) -> String {
        let name = format!("%{}", id.0);
        self.values.insert(name.clone(), id);
        name
    }

    fn operand(&mut self, name: &str) -> Result<String, Error> {
        let id = self.call.operand(name)?;
        Ok(self.name(id))
    }

    fn list(&mut self, values: Vec<i32>) -> String {
        let id = self.call.build().integers([values.len()], values);
        self.name(id)
    }

    fn scalar(&mut self, value: i32) -> String {
        let id = self.call.build().integers([], vec![value]);
        self.name(id)
    }

    fn rank(&mut self, name: &str) -> Result<usize, Error> {
        let id = self.call.operand(name)?;
        Ok(self.call.shape(id).len())
    }

    /// The first axis of a layer norm.
    fn first_normed(&mut self) -> Result<i64, Error> {
        let rank = self.rank("x")?;
        let axes = self.call.axes("axes", rank)?.unwrap_or_default();
        Ok(axes.first().map_or(0, |&axis| axis as i64))
    }

    /// Adds an operator; returns the name of its result.
    fn then(&mut self, op: &str, input: Vec<String>, attribute: Vec<Attribute>) -> String {
        let stem = format!("{}.{op}", self.call.first);
        let output = self.call.build().fresh(&stem);
        let op_type = op.to_string();
        self.nodes.push(Node { op_type, input, output: vec![output.clone()], attribute, ..Default::default() });
        output
    }

    fn slices(&mut self) -> Result<(), Error> {
        let rank = self.rank("x")?;
        let mut last = self.operand("x")?;
        let list = |call: &Call, name: &str, default: i64| {
            Ok::<_, Error>(call.integers(name)?.unwrap_or_else(|| vec![default; rank]))
        };
        let (begin, end) = (list(self.call, "begin", 0)?, list(self.call, "end", 0)?);
        let (stride, squeeze) = (list(self.call, "stride", 1)?, list(self.call, "squeeze_mask", 0)?);
        let (from_first, to_last) = (list(self.call, "begin_mask", 0)?, list(self.call, "end_mask", 0)?);
        if [&begin, &end, &stride, &squeeze, &from_first, &to_last].iter().any(|list| list.len() != rank) {
            return Err(self.call.unsupported(&format!("a list of another length than {rank} axes")));
        }
        for axis in (0..rank).rev() {
            let first = if from_first[axis] != 0 { 0 } else { begin[axis] as i32 };
            if squeeze[axis] != 0 {
                let place = self.scalar(first);
                last = self.then("Gather", vec![last, place], vec![integer("axis", axis as i64)]);
                continue;
            }
            if stride[axis] < 1 {
                return Err(lost(self.call));
            }
            let end = if to_last[axis] != 0 { i32::MAX } else { end[axis] as i32 };
            if (first, end, stride[axis]) != (0, i32::MAX, 1) {
                let bounds = [first, end, axis as i32, stride[axis] as i32];
                let mut inputs = vec![last];
                for bound in bounds {
                    inputs.push(self.list(vec![bound]));
                }
                last = self.then("Slice", inputs, Vec::new());
            }
        }
        if self.nodes.is_empty() {
            self.then("Identity", vec![last], Vec::new());
        }
        Ok(())
    }

    /// Copies along the rows of a number that the rows of others have.
    fn tiles(&mut self) -> Result<(), Error> {
        let (x, reps) = (self.call.operand("x")?, self.call.operand("reps")?);
        let shape = self.call.shape(x);
        let copies = self.call.sizes("reps")?.unwrap_or_default();
        let counted = mark(self.call.t, reps).cloned();
        let flagged = |axis: usize| matches!(&counted, Some(Mark::Extents(flags, _)) if flags.get(axis) == Some(&true));
        let fits = |axis: usize| copies[axis] == 1 || shape[axis] == 1;
        if copies.len() != shape.len() {
            return Err(lost(self.call));
        }
        if (0..shape.len()).any(|axis| if flagged(axis) { shape[axis] != 1 } else { !fits(axis) }) {
            return Err(lost(self.call));
        }
        if counted.is_none() && copies.iter().all(|&copies| copies == 1) {
            let x = self.name(x);
            self.then("Identity", vec![x], Vec::new());
            return Ok(());
        }
        let to = shape.iter().zip(&copies).map(|(&extent, &copies)| extent.saturating_mul(copies) as i32).collect();
        let to = self.call.build().integers([shape.len()], to);
        if let Some(mark) = counted {
            self.call.t.computed.marks.get_or_insert_default().insert(to, mark);
        }
        let inputs = vec![self.name(x), self.name(to)];
        self.then("Expand", inputs, Vec::new());
        Ok(())
    }

    fn products(&mut self) -> Result<(), Error> {
        let mut inputs = Vec::new();
        for (name, flag) in [("x", "transpose_x"), ("y", "transpose_y")] {
            let rank = self.rank(name)?;
            let mut operand = self.operand(name)?;
            if self.call.flag(flag, false)? && rank > 1 {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                perm.swap(rank - 2, rank - 1);
                let perm = Attribute { name: "perm".to_string(), ints: perm, ..Default::default() };
                operand = self.then("Transpose", vec![operand], vec![perm]);
            }
            inputs.push(operand);
        }
        self.then("MatMul", inputs, Vec::new());
        Ok(())
    }

    fn joins(&mut self) -> Result<(), Error> {
        let values = self.call.operands("values")?;
        let scalars = values.iter().all(|&id| self.call.shape(id).is_empty());
        let stacks = self.call.op.ty == "stack";
        let axis = self.call.integer("axis", 0)?;
        if self.call.flag("interleave", false)? {
            return Err(lost(self.call));
        }
        let mut inputs = Vec::new();
        for id in values {
            let mut name = self.name(id);
            if scalars || stacks {
                let axes = self.list(vec![axis as i32]);
                name = self.then("Unsqueeze", vec![name, axes], Vec::new());
            }
            inputs.push(name);
        }
        self.then("Concat", inputs, vec![integer("axis", axis)]);
        Ok(())
    }

    fn scatters(&mut self, op: &str) -> Result<(), Error> {
        let (data, mut places) = (self.operand("data")?, self.operand("indices")?);
        let updates = self.operand("updates")?;
        let axis = self.call.integer("axis", 0)?;
        if self.call.op.ty == "scatter" {
            if axis != 0 || self.rank("indices")? != 1 {
                return Err(lost(self.call));
            }
            let last = self.list(vec![1]);
            places = self.then("Unsqueeze", vec![places, last], Vec::new());
        }
        let mode = self.call.text("mode")?.unwrap_or_else(|| "add".to_string());
        let mode = if mode == "update" { "none".to_string() } else { mode };
        let mode = Attribute { name: "reduction".to_string(), s: mode.into_bytes().into(), ..Default::default() };
        self.then(op, vec![data, places, updates], vec![integer("axis", axis), mode]);
        Ok(())
    }

    fn reduces(&mut self, op: &str) -> Result<(), Error> {
        let mut inputs = vec![self.operand("x")?];
        if let Some(axes) = self.call.integers("axes")? {
            inputs.push(self.list(axes.into_iter().map(|axis| axis as i32).collect()));
        }
        let keeps = self.call.flag("keep_dims", false)?;
        self.then(op, inputs, vec![integer("keepdims", keeps.into())]);
        Ok(())
    }

    /// A list of integers as an operand of the operator.
    fn with_list(&mut self, op: &str, name: &str) -> Result<(), Error> {
        let inputs = vec![self.operand("x")?, self.operand(name)?];
        self.then(op, inputs, Vec::new());
        Ok(())
    }
}

/// Translates an operation by operators of the same meaning.
fn operators(call: &mut Call) -> Result<bool, Error> {
    if quotient(call)? {
        return Ok(true);
    }
    let mut plan = Plan::new(call);
    let axis = plan.call.integer("axis", 0);
    match plan.call.op.ty.as_str() {
        "non_zero" => {
            let x = plan.operand("x")?;
            let places = plan.then("NonZero", vec![x], Vec::new());
            plan.then("Transpose", vec![places], Vec::new());
        }
        "slice_by_index" => plan.slices()?,
        "tile" => plan.tiles()?,
        "matmul" => plan.products()?,
        "concat" | "stack" => plan.joins()?,
        "scatter" | "scatter_nd" => plan.scatters("ScatterND")?,
        "scatter_along_axis" => plan.scatters("ScatterElements")?,
        "reshape" => plan.with_list("Reshape", "shape")?,
        "expand_dims" => plan.with_list("Unsqueeze", "axes")?,
        "squeeze" if plan.call.integers("axes")?.is_some() => plan.with_list("Squeeze", "axes")?,
        "transpose" => {
            let perm = plan.call.integers("perm")?.unwrap_or_default();
            let rank = plan.rank("x")? as i64;
            let ints = perm.into_iter().map(|axis| if axis < 0 { axis + rank } else { axis }).collect();
            let x = plan.operand("x")?;
            plan.then("Transpose", vec![x], vec![Attribute { name: "perm".to_string(), ints, ..Default::default() }]);
        }
        name @ ("gather" | "gather_along_axis" | "gather_nd") => {
            let inputs = vec![plan.operand("x")?, plan.operand("indices")?];
            let batch = plan.call.integer("batch_dims", 0)?;
            let op = match name {
                "gather" if batch == 0 => "Gather",
                "gather_along_axis" => "GatherElements",
                "gather_nd" => "GatherND",
                _ => return Err(lost(plan.call)),
            };
            plan.then(op, inputs, vec![integer("axis", axis?), integer("batch_dims", batch)]);
        }
        "cumsum" => {
            let places = plan.scalar(axis? as i32);
            let inputs = vec![plan.operand("x")?, places];
            let flags =
                ["exclusive", "reverse"].map(|name| Ok::<_, Error>(integer(name, plan.call.flag(name, false)?.into())));
            let flags = flags.into_iter().collect::<Result<_, _>>()?;
            plan.then("CumSum", inputs, flags);
        }
        "softmax" => {
            let x = plan.operand("x")?;
            let axis = plan.call.integer("axis", -1)?;
            plan.then("Softmax", vec![x], vec![integer("axis", axis)]);
        }
        "reduce_argmax" | "reduce_argmin" => {
            let op = if plan.call.op.ty == "reduce_argmax" { "ArgMax" } else { "ArgMin" };
            let (x, axis) = (plan.operand("x")?, plan.call.integer("axis", -1)?);
            let keeps = plan.call.flag("keep_dims", false)?;
            plan.then(op, vec![x], vec![integer("axis", axis), integer("keepdims", keeps.into())]);
        }
        "cast" => {
            let x = plan.operand("x")?;
            let to = match plan.call.text("dtype")?.as_deref() {
                Some("fp16") => 10,
                Some("fp32") => 1,
                Some("int32") => 6,
                Some("bool") => 9,
                _ => return Err(lost(plan.call)),
            };
            plan.then("Cast", vec![x], vec![integer("to", to)]);
        }
        "select" => {
            let inputs = vec![plan.operand("cond")?, plan.operand("a")?, plan.operand("b")?];
            plan.then("Where", inputs, Vec::new());
        }
        name => {
            let row = |rows: &[(&str, &'static str)]| rows.iter().find(|row| row.0 == name).map(|row| row.1);
            if let Some(op) = row(REDUCTIONS) {
                plan.reduces(op)?;
            } else if let Some(op) = row(ONE) {
                let x = plan.operand("x")?;
                plan.then(op, vec![x], Vec::new());
            } else if let Some(op) = row(TWO) {
                let inputs = vec![plan.operand("x")?, plan.operand("y")?];
                plan.then(op, inputs, Vec::new());
            } else {
                return Err(lost(plan.call));
            }
        }
    }
    let Plan { mut values, mut nodes, call, .. } = plan;
    let first = call.first.clone();
    if let Some(node) = nodes.last_mut() {
        node.output = vec![first.clone()];
    }
    lend(call, |lent| lent.translate(&nodes, &mut values))?;
    match values.get(&first) {
        Some(&id) => call.done(0, id),
        None => Err(lost(call)),
    }
}

/// Operations on `x` alone, and the operators of the same meaning.
const ONE: &[(&str, &str)] = &[("shape", "Shape"), ("identity", "Identity"), ("logical_not", "Not")];

/// Operations on `x` and `y`, and the operators of the same meaning.
const TWO: &[(&str, &str)] = &[
    ("add", "Add"),
    ("sub", "Sub"),
    ("mul", "Mul"),
    ("real_div", "Div"),
    ("maximum", "Max"),
    ("minimum", "Min"),
    ("equal", "Equal"),
    ("less", "Less"),
    ("less_equal", "LessOrEqual"),
    ("greater", "Greater"),
    ("greater_equal", "GreaterOrEqual"),
];

/// Reductions, and the operators of the same meaning.
const REDUCTIONS: &[(&str, &str)] = &[
    ("reduce_sum", "ReduceSum"),
    ("reduce_mean", "ReduceMean"),
    ("reduce_max", "ReduceMax"),
    ("reduce_min", "ReduceMin"),
    ("reduce_prod", "ReduceProd"),
    ("reduce_l1_norm", "ReduceL1"),
    ("reduce_l2_norm", "ReduceL2"),
    ("reduce_sum_square", "ReduceSumSquare"),
    ("reduce_log_sum", "ReduceLogSum"),
    ("reduce_log_sum_exp", "ReduceLogSumExp"),
];

/// The quotient of extents by the same ones, as a broadcast has it: a constant, whatever the number of rows. Returns false for all others.
fn quotient(call: &mut Call) -> Result<bool, Error> {
    if call.op.ty != "real_div" {
        return Ok(false);
    }
    let (x, y) = (call.operand("x")?, call.operand("y")?);
    let (Some(Mark::Extents(a, rows)), Some(Mark::Extents(b, others))) = (mark(call.t, x), mark(call.t, y)) else {
        return Ok(false);
    };
    let (Some(above), Some(below)) = (call.t.build.data(x), call.t.build.data(y)) else { return Ok(false) };
    let (above, below) = (above.data.to_i32(), below.data.to_i32());
    let equal = |at: usize| !a[at] || above[at] == below[at];
    if a != b || !rows.of_same(others) || above.len() != below.len() || below.contains(&0) || !(0..a.len()).all(equal) {
        return Ok(false);
    }
    let parts: Vec<i32> = above.iter().zip(&below).map(|(a, b)| a / b).collect();
    call.give_constant(Tensor::i32([parts.len()], parts))
}
