//! Tasks of one operation with an epilogue, a prologue or a change of layout: the table of docs/data/epilogues.tsv, which the page on the compiler prints.
//!
//! Every network is compiled, executed and compared with the evaluator. `ANE_BLESS=1` writes the table; a greater number of tasks
//! than it has fails.

use super::few_tasks::filled;
use anemone::Array;
use anemone::execute::execute;
use anemone_compile::{Options, compile};
use anemone_facts::chips;
use anemone_net::{Tensor, check, eval, text};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Largest error, relative to the largest value or one: that of two tables.
const TOLERANCE: f32 = 4e-3;

/// Name, source, text from `{x}` to `{s}`, and its form over a padded source, if it has one. Results are of the type of [`RESULT`].
struct Unit {
    name: &'static str,
    source: &'static str,
    text: &'static str,
    /// Extents of the source without padding, and the operation over it with one zero around.
    padded: Option<(&'static str, &'static str)>,
}

const RESULT: &str = "f16[1, 32, 8, 32]";

const UNITS: [Unit; 11] = [
    Unit {
        name: "convolution",
        source: "f16[1, 32, 8, 32]",
        text: "const %w: f16[32, 32, 3, 3] = [W9216]\n  {s} = conv({x}, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=1",
        padded: Some(("f16[1, 32, 8, 32]", "f16[1, 32, 10, 34]")),
    },
    Unit {
        name: "depthwise",
        source: "f16[1, 32, 8, 32]",
        text: "const %w: f16[32, 1, 3, 3] = [W288]\n  {s} = conv({x}, %w) strides=[1, 1] pads=[[1, 1], [1, 1]] dilations=[1, 1] groups=32",
        padded: Some(("f16[1, 32, 8, 32]", "f16[1, 32, 10, 34]")),
    },
    Unit {
        name: "transposed",
        source: "f16[1, 32, 4, 16]",
        text: "const %w: f16[32, 32, 2, 2] = [W4096]\n  {s} = conv_transpose({x}, %w) strides=[2, 2] pads=[[0, 0], [0, 0]] output_pads=[0, 0] dilations=[1, 1] groups=1",
        padded: None,
    },
    Unit {
        name: "product",
        source: "f16[1, 32, 8, 32]",
        text: "const %w: f16[32, 32] = [W1024]\n  {s} = linear({x}, %w)",
        padded: None,
    },
    Unit {
        name: "product of two",
        source: "f16[1, 32, 8, 32]",
        text: "{s} = matmul({x}, %r) transpose_x=false transpose_y=false",
        padded: None,
    },
    Unit {
        name: "maximum",
        source: "f16[1, 32, 16, 64]",
        text: "{s} = max_pool({x}) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] ceil_mode=false",
        padded: Some(("f16[1, 32, 14, 62]", "f16[1, 32, 16, 64]")),
    },
    Unit {
        name: "mean",
        source: "f16[1, 32, 16, 64]",
        text: "{s} = avg_pool({x}) kernel=[2, 2] strides=[2, 2] pads=[[0, 0], [0, 0]] exclude_padding=false ceil_mode=false",
        padded: Some(("f16[1, 32, 14, 62]", "f16[1, 32, 16, 64]")),
    },
    Unit { name: "sum of two", source: "f16[1, 32, 8, 32]", text: "{s} = add({x}, %z)", padded: None },
    Unit { name: "product by elements", source: "f16[1, 32, 8, 32]", text: "{s} = mul({x}, %z)", padded: None },
    Unit {
        name: "mean of an axis",
        source: "f16[32, 16, 8, 32]",
        text: "%q: f16[32, 1, 8, 32] = reduce_mean({x}) axes=[1] keep_dims=true\n  {s} = reshape(%q)",
        padded: None,
    },
    Unit {
        name: "sum of an axis",
        source: "f16[1, 32, 8, 8, 32]",
        text: "{s} = reduce_sum({x}) axes=[3] keep_dims=false",
        padded: None,
    },
];

/// Change of a network.
#[derive(Clone, Copy)]
enum Change {
    /// Operations from `%s` to `%y` of a type. True if arguments must be positive.
    Behind(&'static str, &'static str, bool),
    /// An elementwise operation from `%x0` to `%x`.
    Before(&'static str),
    /// One zero around planes.
    Padded,
    /// Transposes around an elementwise use: the source transposed, the result transposed back.
    Around,
    /// A table of another input, joined with the result along an axis.
    Joined(usize),
}
use Change::{Around, Before, Behind, Joined, Padded};

const fn same(text: &'static str) -> Change {
    Behind(RESULT, text, false)
}

const fn positive(text: &'static str) -> Change {
    Behind(RESULT, text, true)
}

const CHANGES: &[(&str, Change)] = &[
    ("nothing", same("{y} = identity(%s)")),
    ("a factor", same("const %c: f16[1] = [0.5]\n  {y} = mul(%s, %c)")),
    ("an addend", same("const %c: f16[1] = [0.5]\n  {y} = add(%s, %c)")),
    (
        "a factor and an addend",
        same("const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %t: {t} = mul(%s, %c)\n  {y} = add(%t, %d)"),
    ),
    ("a factor of each channel", same("const %c: f16[32, 1, 1] = [V32]\n  {y} = mul(%s, %c)")),
    ("an addend of each channel", same("const %c: f16[32, 1, 1] = [V32]\n  {y} = add(%s, %c)")),
    (
        "a factor and an addend of each channel",
        same(
            "const %c: f16[32, 1, 1] = [V32]\n  const %d: f16[32, 1, 1] = [V32]\n  %t: {t} = mul(%s, %c)\n  {y} = add(%t, %d)",
        ),
    ),
    (
        "a factor and an addend of each column",
        same("const %c: f16[32] = [V32]\n  const %d: f16[32] = [V32]\n  %t: {t} = mul(%s, %c)\n  {y} = add(%t, %d)"),
    ),
    ("relu", same("{y} = relu(%s)")),
    ("relu6", same("{y} = relu6(%s)")),
    ("leaky_relu", same("{y} = leaky_relu(%s) alpha=0.125")),
    ("prelu", same("const %c: f16[32, 1, 1] = [V32]\n  %t: {t} = mul(%s, %c)\n  {y} = max(%s, %t)")),
    ("clip", same("{y} = clip(%s) min=-1.0 max=2.0")),
    ("threshold", same("{y} = threshold(%s) alpha=0.5")),
    (
        "thresholded_relu",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.0]\n  %g: bool[1, 32, 8, 32] = greater(%s, %c)\n  {y} = select(%g, %s, %d)",
        ),
    ),
    ("sigmoid", same("{y} = sigmoid(%s)")),
    ("sigmoid_hard", same("{y} = sigmoid_hard(%s) alpha=0.125 beta=0.5")),
    ("tanh", same("{y} = tanh(%s)")),
    ("scaled_tanh", same("{y} = scaled_tanh(%s) alpha=2.0 beta=0.5")),
    ("softsign", same("{y} = softsign(%s)")),
    ("silu", same("{y} = silu(%s)")),
    ("hard swish", same("%t: {t} = sigmoid_hard(%s) alpha=0.16666667 beta=0.5\n  {y} = mul(%s, %t)")),
    ("gelu", same("{y} = gelu(%s) mode=exact")),
    ("elu", same("{y} = elu(%s) alpha=1.0")),
    ("softplus", same("{y} = softplus(%s)")),
    ("mish", same("%t: {t} = softplus(%s)\n  %u: {t} = tanh(%t)\n  {y} = mul(%s, %u)")),
    ("erf", same("{y} = erf(%s)")),
    ("exp", same("{y} = exp(%s)")),
    ("exp2", same("{y} = exp2(%s)")),
    ("log", positive("{y} = log(%s) epsilon=0.5")),
    ("sqrt", positive("{y} = sqrt(%s)")),
    ("rsqrt", positive("{y} = rsqrt(%s) epsilon=0.5")),
    ("inverse", positive("{y} = inverse(%s) epsilon=0.5")),
    ("abs", same("{y} = abs(%s)")),
    ("neg", same("{y} = neg(%s)")),
    ("square", same("{y} = square(%s)")),
    ("sign", same("{y} = sign(%s)")),
    ("round", same("{y} = round(%s)")),
    ("ceil", same("{y} = ceil(%s)")),
    ("floor", same("{y} = floor(%s)")),
    ("sin", same("{y} = sin(%s)")),
    ("cos", same("{y} = cos(%s)")),
    ("atan", same("{y} = atan(%s)")),
    (
        "a factor, an addend, relu",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = relu(%u)",
        ),
    ),
    (
        "a factor, an addend, relu6",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = relu6(%u)",
        ),
    ),
    (
        "a factor, an addend, tanh",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = tanh(%u)",
        ),
    ),
    (
        "a factor, an addend, sigmoid",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = sigmoid(%u)",
        ),
    ),
    (
        "factors and addends of channels, relu",
        same(
            "const %c: f16[32, 1, 1] = [V32]\n  const %d: f16[32, 1, 1] = [V32]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = relu(%u)",
        ),
    ),
    (
        "factors and addends of channels, tanh",
        same(
            "const %c: f16[32, 1, 1] = [V32]\n  const %d: f16[32, 1, 1] = [V32]\n  %t: {t} = mul(%s, %c)\n  %u: {t} = add(%t, %d)\n  {y} = tanh(%u)",
        ),
    ),
    (
        "relu, a factor and an addend",
        same(
            "const %c: f16[1] = [0.5]\n  const %d: f16[1] = [0.75]\n  %u: {t} = relu(%s)\n  %t: {t} = mul(%u, %c)\n  {y} = add(%t, %d)",
        ),
    ),
    ("tanh, relu", same("%t: {t} = tanh(%s)\n  {y} = relu(%t)")),
    ("relu before it", Before("relu")),
    ("tanh before it", Before("tanh")),
    ("a factor before it", Before("scale")),
    ("zeros around its source", Padded),
    ("a transpose of channels and columns", Behind(RESULT, "{y} = transpose(%s) perm=[0, 3, 2, 1]", false)),
    ("a transpose of channels and rows", Behind("f16[1, 8, 32, 32]", "{y} = transpose(%s) perm=[0, 2, 1, 3]", false)),
    ("a transpose of rows and columns", Behind("f16[1, 32, 32, 8]", "{y} = transpose(%s) perm=[0, 1, 3, 2]", false)),
    ("channels last", Behind("f16[1, 8, 32, 32]", "{y} = transpose(%s) perm=[0, 2, 3, 1]", false)),
    (
        "tanh between inverse transposes",
        same(
            "%t: f16[1, 8, 32, 32] = transpose(%s) perm=[0, 2, 3, 1]\n  %u: f16[1, 8, 32, 32] = tanh(%t)\n  {y} = transpose(%u) perm=[0, 3, 1, 2]",
        ),
    ),
    ("inverse transposes around it", Around),
    ("joined along channels", Joined(1)),
    ("joined along rows", Joined(2)),
    ("joined along columns", Joined(3)),
    (
        "quantized",
        Behind(
            "u8[1, 32, 8, 32]",
            "const %c: f16[1] = [0.25]\n  const %d: f16[1] = [128.0]\n  %t: {t} = div(%s, %c)\n  %u: {t} = round(%t)\n  %v: {t} = add(%u, %d)\n  %w8: {t} = clip(%v) min=0.0 max=255.0\n  {y} = cast(%w8)",
            false,
        ),
    ),
    (
        "quantized and dequantized",
        same(
            "const %c: f16[1] = [0.25]\n  const %d: f16[1] = [128.0]\n  %t: {t} = div(%s, %c)\n  %u: {t} = round(%t)\n  %v: {t} = add(%u, %d)\n  %w8: {t} = clip(%v) min=0.0 max=255.0\n  %q8: u8[1, 32, 8, 32] = cast(%w8)\n  %h: {t} = cast(%q8)\n  %e: {t} = sub(%h, %d)\n  {y} = mul(%e, %c)",
        ),
    ),
    ("dequantized before it", Before("dequantize")),
];

/// Extents of a type.
fn extents(ty: &str) -> Vec<usize> {
    let list = ty.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']')).expect("a type");
    list.split(", ").map(|n| n.parse().expect("a number")).collect()
}

/// The network of a unit with a change; `None` where they do not go together.
fn network(unit: &Unit, change: Change) -> Option<String> {
    let (mut source, mut before) = (unit.source.to_string(), String::new());
    let (mut ty, mut behind, mut positive) = (RESULT.to_string(), String::from("{y} = identity(%s)"), false);
    let mut text = unit.text.to_string();
    match change {
        Behind(to, ops, needs) => (ty, behind, positive) = (to.into(), ops.into(), needs),
        Before("scale") => {
            before = format!("const %f: f16[1] = [0.5]\n  %x: {source} = mul(%x0, %f)\n  ");
        }
        Before("dequantize") => {
            before = format!(
                "const %f: f16[1] = [0.25]\n  const %o: f16[1] = [8.0]\n  %h: {source} = cast(%x0)\n  %e: {source} = sub(%h, %o)\n  %x: {source} = mul(%e, %f)\n  "
            );
            source = source.replace("f16", "u8");
        }
        Before(f) => before = format!("%x: {source} = {f}(%x0)\n  "),
        Padded => {
            let (plain, wide) = unit.padded?;
            before = format!("%x: {wide} = pad(%x0) pads=[[0, 0], [0, 0], [1, 1], [1, 1]] value=0.0\n  ");
            text = text.replace("pads=[[1, 1], [1, 1]]", "pads=[[0, 0], [0, 0]]");
            source = plain.to_string();
        }
        Around => {
            let all = extents(&source);
            let &[n, c, h, w] = all.as_slice() else { return None };
            before = format!("%x: {source} = transpose(%x0) perm=[0, 3, 1, 2]\n  ");
            source = format!("f16[{n}, {h}, {w}, {c}]");
            (ty, behind) = ("f16[1, 8, 32, 32]".into(), "{y} = transpose(%s) perm=[0, 2, 3, 1]".into());
        }
        Joined(axis) => {
            let mut all = extents(RESULT);
            all[axis] *= 2;
            ty = format!("f16{all:?}");
            behind = format!("%g: {RESULT} = tanh(%k)\n  {{y}} = concat(%s, %g) axis={axis}");
        }
    }
    let x = if before.is_empty() { "%x0" } else { "%x" };
    let text = text.replace("{x}", x).replace("{s}", &format!("%s: {RESULT}"));
    let text = if positive { text.replace("[W", "[V") } else { text };
    let behind = behind.replace("{y}", &format!("%y: {ty}")).replace("{t}", RESULT);
    let mut inputs = format!("  input %x0: {source}\n");
    for (name, ty) in [("%z", RESULT), ("%r", "f16[1, 32, 32, 32]"), ("%k", RESULT)] {
        if text.contains(name) || behind.contains(name) {
            let _ = writeln!(inputs, "  input {name}: {ty}");
        }
    }
    let body = sparse(&filled(&format!("  {before}{text}\n  {behind}\n").replace("[W", "[S")));
    Some(format!("net \"n\" {{\n{inputs}{body}  output %y\n}}\n"))
}

/// Fills `[SN]` with few numbers of both signs that are not zero, and `[VN]` with positive ones.
fn sparse(text: &str) -> String {
    let mut text = text.to_string();
    for (mark, one) in [("[S", sparse_number as fn(usize) -> f32), ("[V", positive_number)] {
        while let Some(at) = text.find(mark) {
            let end = at + text[at..].find(']').expect("an end");
            let count: usize = text[at + 2..end].parse().expect("a number");
            let numbers: Vec<String> = (0..count).map(|i| format!("{:?}", one(i))).collect();
            text.replace_range(at + 1..end, &numbers.join(", "));
        }
    }
    text
}

fn sparse_number(i: usize) -> f32 {
    [1.0, -0.5, 0.5, 0.0][(i * 11 % 61).min(3)]
}

fn positive_number(i: usize) -> f32 {
    [0.5, 0.25, 0.125, 0.75][i * 7 % 11 % 4]
}

/// Tasks of a network and its error.
fn measured(source: &str, positive: bool) -> Result<(usize, f32), String> {
    let net = text::parse(source, &[]).map_err(|e| format!("{e}"))?;
    check::check(&net).map_err(|e| format!("{e:?}"))?;
    let tensors: Vec<Tensor> = net
        .inputs
        .iter()
        .enumerate()
        .map(|(i, &id)| {
            let ty = &net.value(id).ty;
            let value = |at: usize| {
                let n = ((at * 37 + i * 11) % 31) as f32;
                match i {
                    _ if !ty.dtype.is_float() => n,
                    0 => (if positive { n } else { n - 15.0 }) / 16.0,
                    // Few digits, so that sums of products have all of theirs in fp16.
                    _ => ((at * 7 % 11 % 3) as f32 - if positive { 0.0 } else { 1.0 }) / 2.0,
                }
            };
            let data = (0..ty.elements()).map(value).collect();
            Tensor::f32(ty.shape.clone(), data).cast(ty.dtype)
        })
        .collect();
    let expected = eval::eval(&net, &tensors).map_err(|e| format!("{e:?}"))?[0].data.to_f32();
    let program = compile(&net, &chips::CHIPS[0], &Options::default(), &mut ()).map_err(|e| e.to_string())?;
    let arrays: Vec<(String, Array)> = net
        .inputs
        .iter()
        .zip(&tensors)
        .map(|(&id, t)| (net.value(id).name.clone(), Array { shape: t.shape.clone(), data: t.data.to_f32() }))
        .collect();
    let run = execute(&program, &arrays, Default::default()).map_err(|e| format!("{e:?}"))?;
    let largest = expected.iter().fold(1f32, |most, x| most.max(x.abs()));
    let apart = |a: f32, b: f32| if (a - b).is_nan() { f32::INFINITY } else { (a - b).abs() };
    let errors = expected.iter().zip(&run.outputs[0].1.data).map(|(&a, &b)| apart(a, b));
    let error = errors.fold(0.0, f32::max);
    Ok((program.tasks().map_err(|e| format!("{e:?}"))?.len(), error / largest))
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/data/epilogues.tsv")
}

#[test]
fn tasks_of_operations_with_epilogues_are_those_of_the_table() {
    let mut table = String::from(
        "# tasks of one operation and what is around it, default mode; crates/ane/tests/nets/epilogues.rs\n",
    );
    let mut faults = Vec::new();
    let head: Vec<&str> = UNITS.iter().map(|unit| unit.name).collect();
    let _ = writeln!(table, "around the operation\t{}", head.join("\t"));
    for &(name, change) in CHANGES {
        let mut row = vec![name.to_string()];
        for unit in &UNITS {
            let positive = matches!(change, Behind(_, _, true));
            let Some(source) = network(unit, change) else {
                row.push("-".into());
                continue;
            };
            match measured(&source, positive) {
                // The table of the part beside it is a task of its own.
                Ok((tasks, error)) => {
                    row.push((tasks - usize::from(matches!(change, Joined(_)))).to_string());
                    if error > TOLERANCE {
                        faults.push(format!("{}, {name}: error {error:.1e}", unit.name));
                    }
                }
                Err(e) => {
                    row.push("?".into());
                    faults.push(format!(
                        "{}, {name}: {e}\n{}",
                        unit.name,
                        source.lines().filter(|l| l.len() < 300).collect::<Vec<_>>().join("\n")
                    ));
                }
            }
        }
        let _ = writeln!(table, "{}", row.join("\t"));
    }
    if std::env::var_os("ANE_BLESS").is_some() {
        std::fs::write(file(), &table).expect("the table");
    }
    assert!(faults.is_empty(), "{table}\n{}", faults.join("\n"));
    let known = std::fs::read_to_string(file()).expect("the table");
    assert_eq!(known, table);
}
