//! Programs with one operation, from the definitions of recorded cases and in a neutral form.

use anemone_net::outline::{Argument, Named, Origin, Outline, OutlineConstant, OutlineOp, OutlineType};
use serde_json::Value;

fn ty(element: &'static str, shape: &[usize]) -> OutlineType {
    OutlineType { element, shape: shape.iter().map(|&d| Some(d)).collect(), state: false }
}

fn live(name: &str, ty: OutlineType) -> Argument {
    Argument::Value(Named { name: name.to_string(), ty })
}

fn weight(shape: &[usize]) -> Argument {
    let ty = ty("fp16", shape);
    Argument::Constant(OutlineConstant { ty, inline: false, numbers: None, text: None, compressed: None })
}

fn numbers(values: &[f64], element: &'static str) -> Argument {
    let shape = if values.len() == 1 { vec![] } else { vec![values.len()] };
    let ty = ty(element, &shape);
    let numbers = Some(values.to_vec());
    Argument::Constant(OutlineConstant { ty, inline: true, numbers, text: None, compressed: None })
}

fn word(text: &str) -> Argument {
    let ty = ty("string", &[]);
    Argument::Constant(OutlineConstant {
        ty,
        inline: true,
        numbers: None,
        text: Some(text.to_string()),
        compressed: None,
    })
}

fn program(op: &str, mut arguments: Vec<(&str, Argument)>, output: OutlineType) -> Outline {
    arguments.sort_by(|a, b| a.0.cmp(b.0));
    let mut inputs: Vec<Named> = Vec::new();
    for (_, argument) in &arguments {
        if let Argument::Value(value) = argument
            && !inputs.contains(value)
        {
            inputs.push(value.clone());
        }
    }
    let name = format!("{op}_0");
    let op = OutlineOp {
        op: op.to_string(),
        name: name.clone(),
        arguments: arguments.into_iter().map(|(n, a)| (n.to_string(), a)).collect(),
        outputs: vec![Named { name: name.clone(), ty: output }],
        blocks: 0,
        constant: false,
        unread: None,
    };
    let (origin, outputs) = (Origin::Model, vec![name]);
    Outline {
        name: "main".into(),
        opset: None,
        origin,
        inputs,
        states: vec![],
        ops: vec![op],
        outputs,
        conditions: vec![],
    }
}

/// An operation on a plain image, with default parameters.
pub fn neutral(op: &str) -> Option<Outline> {
    let image = || ty("fp16", &[1, 16, 32, 32]);
    let op = match op {
        "min" => "minimum",
        "max" => "maximum",
        op => op,
    };
    let x = || ("x", live("x", image()));
    let indices = |shape: &[usize]| ("indices", numbers(&vec![0.0; shape.iter().product()], "int32"));
    let mut arguments = vec![x()];
    let mut output = image();
    match op {
        "conv" | "ne_conv" | "conv_transpose" => arguments.push(("weight", weight(&[16, 16, 3, 3]))),
        "linear" | "linear_activation" => {
            arguments = vec![("x", live("x", ty("fp16", &[32, 64]))), ("weight", weight(&[64, 64]))];
            output = ty("fp16", &[32, 64]);
        }
        "matmul" | "ne_matmul" | "einsum" => {
            arguments = vec![("x", live("x", ty("fp16", &[64, 64]))), ("y", live("y", ty("fp16", &[64, 64])))];
            output = ty("fp16", &[64, 64]);
        }
        "avg_pool" | "max_pool" | "l2_pool" | "ne_pool" | "pe_pool" => {
            arguments.push(("kernel_sizes", numbers(&[2.0, 2.0], "int32")));
        }
        "add" | "sub" | "mul" | "real_div" | "floor_div" | "pow" | "maximum" | "minimum" | "mod" | "equal"
        | "not_equal" | "greater" | "greater_equal" | "less" | "less_equal" | "logical_and" | "logical_or"
        | "logical_xor" => {
            arguments.push(("y", live("y", image())));
        }
        "select" => {
            arguments = vec![
                ("cond", live("c", ty("bool", &[1, 16, 32, 32]))),
                ("a", live("a", image())),
                ("b", live("b", image())),
            ]
        }
        "concat" | "stack" => {
            arguments = vec![
                ("values", live("a", image())),
                ("values", live("b", image())),
                ("axis", numbers(&[1.0], "int32")),
            ];
            output = ty("fp16", &[1, 32, 32, 32]);
        }
        "scaled_dot_product_attention" => {
            let head = || ty("fp16", &[1, 4, 64, 32]);
            arguments = vec![("query", live("q", head())), ("key", live("k", head())), ("value", live("v", head()))];
            output = head();
        }
        "gather" | "gather_along_axis" => arguments.push(indices(&[4])),
        "gather_nd" => arguments.push(indices(&[2])),
        "topk" => {
            arguments.extend([("k", numbers(&[5.0], "int32")), ("axis", numbers(&[3.0], "int32"))]);
            output = ty("fp16", &[1, 16, 32, 5]);
        }
        "softmax" => arguments.push(("axis", numbers(&[1.0], "int32"))),
        "reduce_argmax" | "reduce_argmin" => {
            arguments.push(("axis", numbers(&[1.0], "int32")));
            output = ty("uint16", &[1, 1, 32, 32]);
        }
        "argsort" => output = ty("uint16", &[1, 16, 32, 32]),
        op if op.starts_with("reduce_") => {
            arguments.push(("axes", numbers(&[1.0], "int32")));
            output = ty("fp16", &[1, 1, 32, 32]);
        }
        "pad" => {
            arguments.extend([
                ("pad", numbers(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0], "int32")),
                ("mode", word("constant")),
            ]);
            output = ty("fp16", &[1, 16, 34, 34]);
        }
        "resample" => arguments.push(("coordinates", live("c", ty("fp16", &[1, 32, 32, 2])))),
        "crop_resize" => arguments.push(("box_indices", numbers(&[0.0, 0.0], "uint16"))),
        "batch_to_space" => {
            arguments =
                vec![("x", live("x", ty("fp16", &[4, 16, 32, 32]))), ("block_shape", numbers(&[2.0, 2.0], "int32"))];
        }
        "const" => return None,
        _ => {}
    }
    Some(program(op, arguments, output))
}

/// The element type of that name.
fn element(name: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "fp16", "fp32", "fp64", "bf16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool",
        "string",
    ];
    KNOWN.iter().find(|k| **k == name).copied().unwrap_or("unknown")
}

fn list(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

fn shape(value: &Value) -> Option<Vec<usize>> {
    value.as_array()?.iter().map(|d| d.as_u64().map(|d| d as usize)).collect()
}

/// The program of a recorded case's definition; none if the definition is incomplete.
pub fn of_definition(definition: &Value) -> Option<Outline> {
    let op = definition["op"].as_str()?;
    let parameters = &definition["params"];
    let inputs = inputs(definition, op)?;
    let first = inputs.first()?.1.clone();
    let extents = first.extents();
    let operands = operand_names(op).iter().zip(&inputs);
    let mut arguments: Vec<(&str, Argument)> =
        operands.map(|(name, (input, t))| (*name, live(input, t.clone()))).collect();
    let mut output = first.clone();
    for (key, value) in parameters.as_object().into_iter().flatten() {
        match (key.as_str(), value) {
            ("weight", value) if value.is_array() => {
                let shape = shape(value)?;
                let strides = list(&parameters["strides"]);
                output = convolved(op, &extents, &shape, parameters["pad_type"].as_str(), strides.as_deref());
            }
            ("axis", _) if op.starts_with("reduce_arg") || op == "argsort" => output.element = "int32",
            ("to", Value::String(text)) => output.element = element(text),
            _ => {}
        }
        if states_no_argument(key, value) {
            continue;
        }
        arguments.push(argument(key, value, first.element)?);
    }
    output.shape = resulting(op, &extents, parameters).unwrap_or(output.extents()).into_iter().map(Some).collect();
    if op == "crop_resize" && !arguments.iter().any(|(n, _)| *n == "box_indices") {
        return None;
    }
    if op == "matmul" {
        let second = inputs.get(1).map(|(_, t)| t.extents());
        if let (Some(second), Some(rows)) = (second, extents.len().checked_sub(2)) {
            let mut shape = extents.clone();
            shape[rows + 1] = second.last().copied()?;
            output = ty(output.element, &shape);
        }
    }
    Some(program(op, arguments, output))
}

/// Inputs of a case by name. The converter puts casts around fp32 inputs.
fn inputs(definition: &Value, op: &str) -> Option<Vec<(String, OutlineType)>> {
    let inputs = definition["inputs"].as_array()?.iter().enumerate().map(|(i, input)| {
        let t = ty(element(input["dtype"].as_str()?), &shape(&input["shape"])?);
        let t = if t.element == "fp32" && op != "cast" { OutlineType { element: "fp16", ..t } } else { t };
        Some((format!("x{i}"), t))
    });
    inputs.collect()
}

fn operand_names(op: &str) -> &'static [&'static str] {
    match op {
        "scaled_dot_product_attention" => &["query", "key", "value", "attn_mask"],
        "concat" | "stack" => &["values", "values"],
        "select" => &["cond", "a", "b"],
        "resample" => &["x", "coordinates"],
        "gather" | "gather_along_axis" | "gather_nd" => &["x", "indices"],
        "conv" => &["x", "weight"],
        "scatter" | "scatter_along_axis" => &["data", "indices", "updates"],
        "slice_by_size" => &["x", "begin"],
        _ => &["x", "y"],
    }
}

/// Returns true for a key that describes the case, its result, or an operand listed among the inputs.
fn states_no_argument(key: &str, value: &Value) -> bool {
    let integers = ["kernel", "strides", "dilations", "axes", "block_shape", "groups", "k", "axis"];
    let factors = ["block_size", "upscale_factor", "downscale_factor"];
    let named = matches!(key, "pad_type" | "mode" | "indices" | "box_indices")
        || integers.contains(&key)
        || factors.contains(&key);
    match value {
        Value::String(text) => key == "to" || key == "note" || !named && text.starts_with("input "),
        _ => key == "note",
    }
}

/// Argument for a parameter of a case; `element` is the type of the first operand.
fn argument<'k>(key: &'k str, value: &Value, element: &'static str) -> Option<(&'k str, Argument)> {
    let integer = |value: &Value| Some(numbers(&[value.as_f64()?], "int32"));
    let integers = |value: &Value| Some(numbers(&list(value)?, "int32"));
    Some(match (key, value) {
        ("weight", value) if value.is_array() => ("weight", weight(&shape(value)?)),
        ("kernel", value) => ("kernel_sizes", integers(value)?),
        ("strides" | "dilations" | "axes" | "block_shape", value) => (key, integers(value)?),
        ("groups" | "k" | "axis", value) => (key, integer(value)?),
        ("block_size" | "upscale_factor" | "downscale_factor", value) => ("block_size", integer(value)?),
        ("pad_type" | "mode", Value::String(text)) => (key, word(text)),
        ("indices", Value::String(_)) => ("indices", numbers(&[0.0; 4], "int32")),
        ("box_indices", Value::String(text)) => ("box_indices", numbers(&[0.0, 0.0], self::element(text))),
        ("boxes", _) => ("boxes", weight(&[4, 4])),
        ("weight_ih" | "weight_hh" | "bias", value) => (key, weight(&shape(value)?)),
        (_, Value::String(text)) => match text.strip_prefix("const ").map(str::parse) {
            Some(number) => (key, numbers(&[number.ok()?], element)),
            None => (key, word(text)),
        },
        (_, Value::Bool(flag)) => (key, numbers(&[f64::from(u8::from(*flag))], "bool")),
        (_, value) if value.is_number() => {
            let element = if value.is_f64() { element } else { "int32" };
            (key, numbers(&[value.as_f64()?], element))
        }
        (_, value) => {
            let values = list(value)?;
            let element = if values.iter().any(|v| v.fract() != 0.0) { "fp32" } else { "int32" };
            (key, numbers(&values, element))
        }
    })
}

/// The program of a case between layers that the engine certainly supports, as in the records of whole networks: two layers with ReLU
/// before each fp16 operand and two behind the result, with the position of the case's operation.
pub fn in_context(definition: &Value) -> Option<(Outline, usize)> {
    let mut single = of_definition(definition)?;
    let half = definition["inputs"].as_array()?.iter().all(|input| input["dtype"] == "fp16");
    if !half {
        // Only fp16 operands have layers before them.
        return Some((single, 0));
    }
    let mut own = single.ops.pop().filter(|_| single.ops.is_empty())?;
    let mut ops = Vec::new();
    for (_, argument) in &mut own.arguments {
        if let Argument::Value(value) = argument
            && value.ty.element == "fp16"
        {
            *value = layers(value, &mut ops)?;
        }
    }
    let at = ops.len();
    let result = own.outputs.first()?.clone();
    ops.push(own);
    let last = if result.ty.element == "fp16" { layers(&result, &mut ops)? } else { result };
    Some((Outline { ops, outputs: vec![last.name], ..single }, at))
}

/// Two 3x3 convolutions, or two linear layers if there is no image, each with a ReLU.
fn layers(from: &Named, ops: &mut Vec<OutlineOp>) -> Option<Named> {
    let extents = from.ty.extents();
    let (op, shape) = match extents[..] {
        [_, channels, _, _] => ("conv", vec![channels, channels, 3, 3]),
        [.., columns] => ("linear", vec![columns, columns]),
        [] => return None,
    };
    let mut last = from.clone();
    for layer in 0..2 {
        let mut arguments = vec![("x", Argument::Value(last.clone())), ("weight", weight(&shape))];
        if op == "conv" {
            arguments.push(("pad_type", word("same")));
        }
        for (name, arguments) in [(op, arguments), ("relu", Vec::new())] {
            let arguments = if name == "relu" { vec![("x", Argument::Value(last.clone()))] } else { arguments };
            let mut step = program(name, arguments, from.ty.clone()).ops.remove(0);
            step.name = format!("{}_{name}_{layer}", from.name);
            last = Named { name: step.name.clone(), ty: from.ty.clone() };
            step.outputs = vec![last.clone()];
            ops.push(step);
        }
    }
    Some(last)
}

/// Extents of a result that its parameters determine; none if they do not.
fn resulting(op: &str, x: &[usize], parameters: &Value) -> Option<Vec<usize>> {
    let given = |key: &str| shape(&parameters[key]);
    let mut out = x.to_vec();
    let last = out.len().checked_sub(2);
    match op {
        "reshape" => return given("shape"),
        "transpose" => return given("perm")?.into_iter().map(|axis| x.get(axis).copied()).collect(),
        "pad" => {
            let pads = given("pad")?;
            let first = out.len().checked_sub(pads.len() / 2)?;
            out[first..].iter_mut().zip(pads.chunks(2)).for_each(|(n, pad)| *n += pad.iter().sum::<usize>());
        }
        "slice_by_size" => return given("size"),
        "resize_bilinear" | "affine" | "crop_resize" => out.splice(last?.., given("size")?).for_each(drop),
        "upsample_nearest_neighbor" | "upsample_bilinear" => {
            let scale = list(&parameters["scale"])?;
            out[last?..].iter_mut().zip(scale).for_each(|(n, by)| *n = (*n as f64 * by) as usize);
        }
        "max_pool" | "avg_pool" | "l2_pool" => {
            let (kernel, strides) = (given("kernel")?, given("strides").unwrap_or_default());
            let same = parameters["pad_type"] == "same";
            for (i, n) in out.iter_mut().skip(2).enumerate() {
                let (kernel, stride) = (*kernel.get(i)?, strides.get(i).copied().unwrap_or(1).max(1));
                *n = if same { n.div_ceil(stride) } else { n.saturating_sub(kernel) / stride + 1 };
            }
        }
        _ if op.starts_with("reduce_") => {
            let axes = list(&parameters["axes"]).or_else(|| Some(vec![parameters["axis"].as_f64()?]))?;
            let mut axes: Vec<i64> =
                axes.iter().map(|&a| if a < 0.0 { a as i64 + x.len() as i64 } else { a as i64 }).collect();
            axes.sort_unstable();
            let keeps = parameters["keep_dims"] == true;
            for &axis in axes.iter().rev() {
                let axis = usize::try_from(axis).ok().filter(|&a| a < out.len())?;
                if keeps {
                    out[axis] = 1;
                } else {
                    out.remove(axis);
                }
            }
        }
        _ => return None,
    }
    Some(out)
}

/// Result of a convolution.
fn convolved(op: &str, input: &[usize], weight: &[usize], pad: Option<&str>, strides: Option<&[f64]>) -> OutlineType {
    let mut out = input.to_vec();
    if op == "linear" || op == "linear_activation" {
        if let (Some(last), Some(&rows)) = (out.last_mut(), weight.first()) {
            *last = rows;
        }
        return ty("fp16", &out);
    }
    if out.len() < 3 || weight.len() < 3 {
        return ty("fp16", &out);
    }
    out[1] = if op == "conv_transpose" { weight[1] } else { weight[0] };
    for (axis, extent) in out.iter_mut().enumerate().skip(2) {
        let stride = strides.and_then(|s| s.get(axis - 2)).map_or(1, |&s| s as usize).max(1);
        let kernel = weight.get(axis).copied().unwrap_or(1);
        *extent = match (op, pad) {
            ("conv_transpose", _) => *extent * stride,
            (_, Some("same")) => extent.div_ceil(stride),
            _ => extent.saturating_sub(kernel) / stride + 1,
        };
    }
    ty("fp16", &out)
}
