//! Refusals of the converter before any layer exists: names, element types and forms of parameters.

use super::legal::{Refusal, Route};
use anemone_facts::Basis;
use anemone_facts::chips::Chip;
use anemone_facts::ops::{self, Reach, SEGMENTER};
use anemone_facts::weights::{FAILING, FailingForm};
use anemone_net::outline::{Argument, Origin, Outline, OutlineOp};

/// A refusal of the converter.
fn refusal(code: &'static str, basis: Basis, source: &'static str, found: &str, limit: &str, fix: &str) -> Refusal {
    Refusal {
        code,
        message: format!("{found}, supported: {limit}"),
        cause: found.to_string(),
        quantity: "element type",
        found: found.to_string(),
        limit: limit.to_string(),
        apple: None,
        stage: "conversion",
        basis,
        source,
        fix: fix.to_string(),
    }
}

impl Refusal {
    fn apple(mut self, text: impl Into<String>) -> Refusal {
        self.apple = Some(text.into());
        self
    }

    fn saying(mut self, message: impl Into<String>) -> Refusal {
        self.message = message.into();
        self.cause = self.message.clone();
        self
    }
}

/// First refusal of an operation as written in the program, independent of its layers.
pub fn check(op: &OutlineOp, outline: &Outline, chip: &Chip, route: Route) -> Option<Refusal> {
    let named = || by_name(op).filter(|_| route == Route::Framework || !native_layer(op, chip));
    unread(op)
        .or_else(named)
        .or_else(|| indices(op, outline))
        .or_else(|| elements(op, route))
        .or_else(|| open_extents(op))
        .or_else(|| form(op, outline, chip, route))
}

/// Refusal of an operation for its form in MIL text that Apple's compiler is handed itself.
pub(super) fn form(op: &OutlineOp, outline: &Outline, chip: &Chip, route: Route) -> Option<Refusal> {
    text(op, outline, chip).filter(|_| outline.origin == Origin::MilText && route == Route::Direct)
}

/// Operations that the model's reader does not translate, for its reason.
fn unread(op: &OutlineOp) -> Option<Refusal> {
    let reason = op.unread.as_ref()?;
    let fix = "keep this operation on the host, or rewrite it with supported operations";
    Some(refusal("E16", Basis::Inferred, "op-matrix", &op.op, "operations of a static graph", fix).saying(reason))
}

/// Operations that the converter refuses by name.
fn by_name(op: &OutlineOp) -> Option<Refusal> {
    let row = SEGMENTER.iter().find(|s| s.op == op.op && !s.text.is_empty())?;
    let fix = anemone_facts::ops::by_name(&op.op).map_or("", |row| row.instead);
    let fix = if fix.is_empty() { "keep it on the host".to_string() } else { format!("write it as {fix}") };
    let refused = refusal("E16", row.basis, "m6-study", &op.op, "no such operation", &fix);
    Some(
        refused
            .saying(format!("{} is not supported by the Neural Engine", op.op))
            .apple(row.text.replace("%s", &op.op)),
    )
}

/// Returns true if the engine has a layer for the operation, which an author can name directly where the converter has no path.
fn native_layer(op: &OutlineOp, chip: &Chip) -> bool {
    ops::by_name(&op.op).is_some_and(|row| {
        !row.layers.is_empty() && row.reach_on(chip).is_some_and(|(reach, _)| reach == Reach::Native)
    })
}

fn is_input(outline: &Outline, name: &str) -> bool {
    outline.inputs.iter().any(|i| i.name == name)
}

/// Refuses indices and positions that are computed at run time.
fn indices(op: &OutlineOp, outline: &Outline) -> Option<Refusal> {
    let compiler = |found: &str, limit: &str, fix: &str| {
        let mut refused = refusal("E06", Basis::Compiler, "m6-study", found, limit, fix);
        refused.quantity = "indices";
        refused
    };
    match op.op.as_str() {
        "crop_resize" => {
            let given = op.argument("box_indices").or_else(|| op.argument("boxes"))?.ty().element;
            (op.argument("box_indices").is_some() && given != "uint16").then(|| {
                compiler(&format!("box indices of type {given}"), "uint16", "give box indices of type uint16")
                    .apple(format!("type {given} for \"box_indices\" is not supported. only support UInt16."))
            })
        }
        // Along an axis and by tuples, positions may be computed: recorded for an M4 and an M6, with 16-bit indices.
        "gather" => match op.argument("indices")? {
            Argument::Value(_) => Some(
                compiler("indices computed at run time", "constant indices", "constant indices, or gather on the host")
                    .apple("Unsupported gather index type"),
            ),
            Argument::Constant(_) => None,
        },
        "slice_by_size" | "slice_by_index" | "slice_update" => {
            let live = ["begin", "end", "size"].iter().find_map(|name| match op.argument(name)? {
                Argument::Value(value) => Some(value),
                Argument::Constant(_) => None,
            })?;
            let element = live.ty.element;
            let text = if is_input(outline, &live.name) {
                let (name, input) = (&op.name, &live.name);
                format!(
                    "Op \"{name}__@cast_scale\" is connected to an invalid live-in \"{input}\": Unsupported tensor data type: {element}"
                )
            } else {
                format!("Unsupported tensor data type: {element}")
            };
            Some(
                compiler("a slice at a place computed at run time", "a constant place", "a constant place, or a mask")
                    .apple(text),
            )
        }
        _ => None,
    }
}

const COMPARISONS: &[&str] = &["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"];
const ARITHMETIC: &[&str] = &["add", "sub", "mul", "real_div", "maximum", "minimum", "pow", "matmul", "linear", "conv"];

/// Refuses element types that the datapath does not support.
fn elements(op: &OutlineOp, route: Route) -> Option<Refusal> {
    let wide = |element: &str| matches!(element, "int32" | "uint32" | "int64" | "uint64" | "fp64" | "bf16");
    let fix = "fp16 throughout; indices and counts on the host";
    let output = op.outputs.iter().map(|o| o.ty.element).find(|e| wide(e));
    let search = matches!(op.op.as_str(), "reduce_argmax" | "reduce_argmin" | "argsort");
    if let (true, Some(element)) = (search, output) {
        let refused = refusal(
            "E06",
            Basis::Compiler,
            "m6-study",
            &format!("{element} positions"),
            "fp16 or uint16",
            "ask for uint16 positions, or author the layer directly: positions come as fp16",
        );
        return Some(refused.apple(format!("Output type {element} is not supported.")));
    }
    let operand = op.live().map(|v| v.ty.element).find(|e| wide(e));
    if COMPARISONS.contains(&op.op.as_str())
        && let Some(element) = operand
        && let Some(Argument::Constant(y)) = op.argument("y")
        && y.ty.shape.is_empty()
    {
        // Other operations refuse such elements for the same cause; only Apple's text differs.
        let refused = refusal("E06", Basis::Compiler, "m6-study", &format!("{element} elements"), "fp16", fix);
        return Some(refused.apple("Unable to resolve operation input \"y\"."));
    }
    if let Some(element) = operand.or(output) {
        let refused = refusal("E06", Basis::Compiler, "m6-study", &format!("{element} elements"), "fp16", fix);
        // A constant tensor is refused before its type is checked.
        let constant = matches!(op.argument("y"), Some(Argument::Constant(y)) if !y.ty.shape.is_empty());
        return Some(match constant && matches!(op.op.as_str(), "add" | "sub" | "mul") {
            true => refused.apple(format!("Failed to extract constant value \"{}\"", op.op)),
            false => refused.apple(format!("Unsupported tensor data type: {element}")),
        });
    }
    let narrow = op.live().find(|v| matches!(v.ty.element, "uint8" | "int8"));
    if let Some(value) = narrow.filter(|_| ARITHMETIC.contains(&op.op.as_str())) {
        let element = value.ty.element;
        let refused = refusal(
            "E07",
            Basis::Measured,
            "validators",
            &format!("{element} in {}", op.op),
            "fp16",
            "dequantize first",
        );
        let name = op.arguments.iter().find(|(_, a)| a.ty().element == element).map_or("x", |(n, _)| n.as_str());
        return Some(refused.apple(format!("Param '{name}' ... got tensor<{element},...>")));
    }
    // Only a cast converts fp32 for the engine. Everything else is computed in fp16, which the framework does not choose.
    let single = op.op != "cast" && op.live().any(|v| v.ty.element == "fp32");
    (single && route == Route::Framework).then(|| {
        let fix = "convert with fp16 precision";
        refusal("E06", Basis::Inferred, "validators", "fp32 arithmetic", "fp16", fix)
            .saying("fp32 arithmetic: the engine computes in fp16, so the framework keeps it on CPU or GPU")
    })
}

/// Refuses weight formats on which the chip's compiler fails, so that the whole model leaves the engine.
pub fn weights(op: &OutlineOp, chip: &Chip) -> Option<Refusal> {
    let ty = |name: &str| op.argument(name).map(Argument::ty);
    let (form, found) = match op.op.as_str() {
        "constexpr_blockwise_shift_scale" => {
            let (data, scale) = (ty("data")?, ty("scale")?);
            // More than one scale per output channel: the scales are those of blocks.
            let blocks = scale.elements() > data.extents().first().copied().unwrap_or(1);
            let narrow = matches!(data.element, "int4" | "uint4");
            (narrow && blocks)
                .then(|| (FailingForm::Int4Blocks, format!("{} weights with a scale for each block", data.element)))?
        }
        "constexpr_lut_to_dense" => {
            let extents = ty("lut")?.extents();
            let vector = extents.last().copied().filter(|&n| n > 1 && extents.len() > 1)?;
            (FailingForm::VectorPalette, format!("a palette of vectors of {vector}"))
        }
        _ => return None,
    };
    let row = FAILING.iter().find(|row| row.form == form && row.families.contains(&chip.family))?;
    let mut refused = refusal("E40", Basis::Measured, row.source, &found, "a palette of single values, int8", row.fix);
    refused.quantity = "weights";
    refused.stage = "code generation";
    Some(refused.saying(format!("{found}: the compiler fails on them, and the whole model goes to the CPU")))
}

fn open_extents(op: &OutlineOp) -> Option<Refusal> {
    let open = op.outputs.iter().find(|o| o.ty.shape.iter().any(Option::is_none))?;
    let mut refused = refusal(
        "E27",
        Basis::Measured,
        "validators",
        &format!("{}", open.ty),
        "fixed extents",
        "pad, or one fixed shape for each length",
    );
    refused.quantity = "extents";
    Some(refused)
}

/// Forms of MIL text that Apple's compiler refuses when it is handed the text itself.
fn text(op: &OutlineOp, outline: &Outline, chip: &Chip) -> Option<Refusal> {
    let form = |code: &'static str, basis: Basis, found: &str, limit: &str, fix: &str| {
        let mut refused = refusal(code, basis, "h13-oracles", found, limit, fix);
        refused.quantity = "form";
        refused.saying(format!("{found}: refused in text form; write {limit}"))
    };
    let inline = op.arguments.iter().find(|(_, argument)| match argument {
        Argument::Constant(c) => c.inline && c.ty.is_float() && !c.ty.shape.is_empty(),
        Argument::Value(_) => false,
    });
    if let Some((name, _)) = inline {
        let found = format!("`{name}` is a tensor constant written out");
        return Some(form(
            "E35",
            Basis::Compiler,
            &found,
            "a weight file (BLOBFILE)",
            "put the constant into a weight file",
        ));
    }
    let constant_tensor = |name: &str| match op.argument(name) {
        Some(Argument::Constant(c)) => !c.inline && c.ty.elements() > 1 && c.compressed.is_none(),
        _ => false,
    };
    match op.op.as_str() {
        "real_div" if constant_tensor("y") && chip.hal.texture_engine == Some(0) => {
            let fix = "multiply by the reciprocal";
            Some(form("E36", Basis::Compiler, "division by a constant tensor", "a product with the reciprocal", fix))
        }
        "clip" => {
            let x = op.argument("x")?.ty().element;
            let other = ["alpha", "beta"].iter().find(|name| op.argument(name).is_some_and(|a| a.ty().element != x))?;
            let found = format!("`{other}` is not of the operand's type");
            Some(form("E37", Basis::Compiler, &found, &format!("{x} bounds"), "write the bounds in the operand's type"))
        }
        "log" if op.argument("epsilon").is_none() => {
            Some(form("E38", Basis::Compiler, "log without `epsilon`", "`epsilon`", "write the default, 1e-45"))
        }
        // `pad_r_1x8x375x749_to_1x8x375x750_a00000010`.
        "pad" if op.argument("constant_val").is_none() && op.text("mode").is_none_or(|mode| mode == "constant") => {
            let found = "a constant pad without `constant_val`";
            Some(form("E38", Basis::Inferred, found, "`constant_val`", "write the default, 0"))
        }
        "matmul" if constant_tensor("y") && op.number("transpose_y").unwrap_or(0.0) == 0.0 => {
            let alone = op.live().all(|v| is_input(outline, &v.name));
            let fix = "store the constant transposed and set transpose_y";
            alone.then(|| {
                form("E39", Basis::Inferred, "a constant that is not stored transposed", "transpose_y = true", fix)
                    .apple("ANE internal validation error: Metadata data type does not match requested type.")
            })
        }
        _ => None,
    }
}
