//! Every rule on rejected and wrong models fires for one program and is silent for another.

use anemone_check::lint::{self, Assumptions};
use anemone_check::{Route, check};
use anemone_facts::lint::{LINTS, Severity};
use anemone_facts::silicon::by_name;
use anemone_net::outline::{Argument, Named, Origin, Outline, OutlineConstant, OutlineOp, OutlineType};
use std::collections::BTreeSet;

/// A program under construction.
struct Program(Outline);

fn typed(element: &'static str, shape: &[usize]) -> OutlineType {
    OutlineType { element, shape: shape.iter().map(|&d| (d != usize::MAX).then_some(d)).collect(), state: false }
}

/// Argument of an operation.
#[derive(Clone, Copy)]
enum Give<'a> {
    Value(&'a str),
    Numbers(&'static str, &'a [f64]),
    Text(&'a str),
    Weight(&'static str, &'a [usize], Option<&'a str>),
    Inline(&'a [usize]),
}

impl Program {
    fn new(origin: Origin, inputs: &[(&str, &'static str, &[usize])]) -> Program {
        let named = |(name, element, shape): &(&str, &'static str, &[usize])| Named {
            name: name.to_string(),
            ty: typed(element, shape),
        };
        let inputs = inputs.iter().map(named).collect();
        let (name, none) = ("main".into(), vec![]);
        let states = vec![];
        Program(Outline { name, opset: None, origin, inputs, states, ops: vec![], outputs: vec![], conditions: none })
    }

    fn image(shape: &[usize]) -> Program {
        Program::new(Origin::Model, &[("x", "fp16", shape)])
    }

    fn ty(&self, name: &str) -> OutlineType {
        let made = self.0.ops.iter().flat_map(|o| &o.outputs);
        made.chain(&self.0.inputs).find(|n| n.name == name).map(|n| n.ty.clone()).expect("the value is defined")
    }

    fn op(mut self, op: &str, arguments: &[(&str, Give)], output: (&'static str, &[usize])) -> Program {
        let arguments = arguments.iter().map(|(name, give)| {
            let constant = |ty: OutlineType,
                            inline: bool,
                            numbers: Option<Vec<f64>>,
                            text: Option<String>,
                            compressed: Option<&str>| {
                Argument::Constant(OutlineConstant {
                    ty,
                    inline,
                    numbers,
                    text,
                    compressed: compressed.map(String::from),
                })
            };
            let given = match *give {
                Give::Value(value) => Argument::Value(Named { name: value.into(), ty: self.ty(value) }),
                Give::Numbers(element, [one]) => constant(typed(element, &[]), true, Some(vec![*one]), None, None),
                Give::Numbers(element, many) => {
                    constant(typed(element, &[many.len()]), true, Some(many.to_vec()), None, None)
                }
                Give::Text(text) => constant(typed("string", &[]), true, None, Some(text.into()), None),
                Give::Weight(element, shape, by) => constant(typed(element, shape), false, None, None, by),
                Give::Inline(shape) => constant(typed("fp16", shape), true, None, None, None),
            };
            (name.to_string(), given)
        });
        let name = format!("{op}_{}", self.0.ops.len());
        let op = OutlineOp {
            op: op.into(),
            name: name.clone(),
            arguments: arguments.collect(),
            outputs: vec![Named { name: name.clone(), ty: typed(output.0, output.1) }],
            blocks: 0,
            constant: false,
            unread: None,
        };
        self.0.ops.push(op);
        self.0.outputs = vec![name];
        self
    }

    fn unary(self, op: &str, from: &str) -> Program {
        let ty = self.ty(from);
        let shape = ty.extents();
        self.op(op, &[("x", Give::Value(from))], ("fp16", &shape))
    }
}

fn fires(program: Program, on: &str, assumed: &Assumptions) -> BTreeSet<&'static str> {
    let chip = by_name(on).expect("the chip is known");
    let mut codes = BTreeSet::new();
    for route in [Route::Direct, Route::Framework] {
        let placement = check(&program.0, chip, route);
        codes.extend(lint::check(&program.0, &placement, assumed).into_iter().map(|f| f.code));
    }
    codes
}

const X: (&str, Give) = ("x", Give::Value("x"));

fn conv(shape: &[usize], weight: &[usize], groups: f64, out: &[usize]) -> Program {
    let arguments = [X, ("weight", Give::Weight("fp16", weight, None)), ("groups", Give::Numbers("int32", &[groups]))];
    Program::image(shape).op("conv", &arguments, ("fp16", out))
}

fn attention(queries: usize, mask: Option<&[usize]>, format: &'static str) -> Program {
    let head = [1, 4, queries, 32];
    let shape = mask.unwrap_or(&[1, 1, 1, 1]);
    let inputs = [("q", "fp16", &head[..]), ("k", "fp16", &head[..]), ("v", "fp16", &head[..]), ("m", format, shape)];
    let program = Program::new(Origin::Model, &inputs);
    let mut arguments = vec![("query", Give::Value("q")), ("key", Give::Value("k")), ("value", Give::Value("v"))];
    if mask.is_some() {
        arguments.push(("attn_mask", Give::Value("m")));
    }
    program.op("scaled_dot_product_attention", &arguments, ("fp16", &head))
}

fn matmul(x: &[usize], y: &[usize], out: &[usize]) -> Program {
    let program = Program::new(Origin::Model, &[("x", "fp16", x), ("y", "fp16", y)]);
    program.op("matmul", &[X, ("y", Give::Value("y"))], ("fp16", out))
}

fn binary(op: &str, element: &'static str) -> Program {
    let program = Program::new(Origin::Model, &[("x", element, &[1, 8, 8, 8]), ("y", element, &[1, 8, 8, 8])]);
    program.op(op, &[X, ("y", Give::Value("y"))], (element, &[1, 8, 8, 8]))
}

fn authored(layer: &str, shape: &[usize], arguments: &[(&str, Give)]) -> Program {
    let mut all = vec![X];
    all.extend(arguments.iter().map(|(name, give)| (*name, *give)));
    Program::image(shape).op(layer, &all, ("fp16", shape))
}

fn slice(begin: f64, from: &str, program: Program) -> Program {
    let begin = [0.0, 0.0, 0.0, begin];
    let arguments = [
        ("x", Give::Value(from)),
        ("begin", Give::Numbers("int32", &begin)),
        ("end", Give::Numbers("int32", &[1.0, 8.0, 8.0, 8.0])),
    ];
    program.op("slice_by_index", &arguments, ("fp16", &[1, 8, 8, 7]))
}

fn sum(extent: usize, before: &str) -> Program {
    let program = Program::image(&[1, 8, 8, extent]).unary(before, "x");
    let made = format!("{before}_0");
    program.op(
        "reduce_sum",
        &[("x", Give::Value(&made)), ("axes", Give::Numbers("int32", &[3.0]))],
        ("fp16", &[1, 8, 8, 1]),
    )
}

fn text_program(op: &str, arguments: &[(&str, Give)]) -> Program {
    let program = Program::new(Origin::MilText, &[("x", "fp16", &[1, 64, 1, 1])]);
    program.op(op, arguments, ("fp16", &[1, 64, 1, 1]))
}

type Case = (&'static str, &'static str, Box<dyn Fn(bool) -> Program>, Box<dyn Fn(bool) -> Assumptions>);

fn case(code: &'static str, on: &'static str, program: impl Fn(bool) -> Program + 'static) -> Case {
    (code, on, Box::new(program), Box::new(|_| Assumptions::default()))
}

fn assuming(
    code: &'static str,
    on: &'static str,
    program: impl Fn(bool) -> Program + 'static,
    assumed: impl Fn(bool) -> Assumptions + 'static,
) -> Case {
    (code, on, Box::new(program), Box::new(assumed))
}

fn pick(bad: bool, yes: usize, no: usize) -> usize {
    if bad { yes } else { no }
}

/// One case a rule: with `true` it fires, with `false` it does not.
fn cases() -> Vec<Case> {
    let most = |n: f64| move |_: bool| Assumptions { max_abs: Some(n), ..Assumptions::default() };
    vec![
        case("E01", "m1", |bad| {
            Program::image(if bad { &[1, 2, 3, 4, 5, 6] } else { &[2, 3, 4, 5, 6] }).unary("relu", "x")
        }),
        case("E02", "m1", |bad| Program::image(&[1, 1, 1, pick(bad, 16385, 16384)]).unary("relu", "x")),
        case("E03", "m4", |bad| Program::image(&[1, pick(bad, 65537, 65536), 1, 1]).unary("relu", "x")),
        case("E04", "m4", |bad| Program::image(&[pick(bad, 65537, 65536), 1, 1, 1]).unary("relu", "x")),
        case("E05", "m1", |bad| Program::image(&[1, 8, pick(bad, 0, 8), 8]).unary("relu", "x")),
        case("E06", "m4", |bad| binary("add", if bad { "int32" } else { "fp16" })),
        case("E07", "m4", |bad| binary("add", if bad { "uint8" } else { "fp16" })),
        case("E08", "m1", |bad| conv(&[1, 8, 32, 32], &[8, 8, 1, pick(bad, 14, 13)], 1.0, &[1, 8, 32, 19])),
        case("E09", "m1", |bad| conv(&[1, 8, pick(bad, 4, 9), 32], &[8, 8, 9, 1], 1.0, &[1, 8, 1, 32])),
        case("E10", "m1", |bad| conv(&[1, 8, 8, 8], &[8, 8, 1, 1], if bad { 3.0 } else { 2.0 }, &[1, 8, 8, 8])),
        case("E11", "m1", |bad| conv(&[1, 8, 8, 8, 8], &[8, 8, pick(bad, 3, 1), 3, 3], 1.0, &[1, 8, 6, 6, 6])),
        case("E12", "m1", |bad| {
            let deep = pick(bad, 4, 1);
            matmul(&[1, 1, deep, 8, 8], &[1, 1, deep, 8, 8], &[1, 1, deep, 8, 8])
        }),
        case("E13", "m1", |bad| {
            let shape: &[usize] = if bad { &[1, 1, 1, 2, 8] } else { &[1, 1, 2, 8] };
            Program::image(shape).op("linear", &[X, ("weight", Give::Weight("fp16", &[8, 8], None))], ("fp16", shape))
        }),
        case("E14", "m4", |bad| {
            let inner = pick(bad, 40000, 32768);
            matmul(&[1, 16, inner], &[1, inner, 16], &[1, 16, 16])
        }),
        case("E15", "m4", |bad| {
            let shape = [1, pick(bad, 4096, 2048), 4, 4];
            Program::image(&shape).op(
                "reduce_argmax",
                &[X, ("axis", Give::Numbers("int32", &[1.0]))],
                ("uint16", &[1, 1, 4, 4]),
            )
        }),
        case("E16", "m4", |bad| Program::image(&[1, 8, 8, 8]).unary(if bad { "asin" } else { "atan" }, "x")),
        case("E17", "m1", |bad| Program::image(&[1, 8, 8, 8]).unary(if bad { "sin" } else { "exp" }, "x")),
        case("E18", "m4", |bad| Program::image(&[1, 8, 8, 8]).unary(if bad { "argsort" } else { "relu" }, "x")),
        case("E19", "m5", |bad| {
            let k = [if bad { 4.0 } else { 5.0 }];
            let arguments = [X, ("k", Give::Numbers("int32", &k)), ("axis", Give::Numbers("int32", &[3.0]))];
            Program::image(&[1, 8, 8, 32]).op("topk", &arguments, ("fp16", &[1, 8, 8, 5]))
        }),
        case("E20", "m1", |bad| authored("LRN", &[1, pick(bad, 16, 15), 8, 8], &[])),
        case("E21", "m1", |bad| {
            authored("MinMaxNorm", &[1, 8, 8, 8], &[("Dimension", Give::Text(if bad { "Channel" } else { "Width" }))])
        }),
        case("E22", "m1", |bad| attention(64, Some(&[1, 1, 64, 64]), if bad { "fp32" } else { "fp16" })),
        case("E23", "m4", |bad| {
            let pad: &[f64] =
                if bad { &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0] } else { &[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0] };
            let arguments = [X, ("pad", Give::Numbers("int32", pad)), ("mode", Give::Text("constant"))];
            Program::image(&[1, 8, 8, 8]).op("pad", &arguments, ("fp16", &[1, 10, 8, 8]))
        }),
        case("E24", "m1", |bad| {
            let small = [1, 4, 1, 8, 8];
            let large = [1, 4, pick(bad, 4, 1), 8, 8];
            let program = Program::new(Origin::Model, &[("x", "fp16", &small), ("y", "fp16", &large)]);
            program.op("add", &[X, ("y", Give::Value("y"))], ("fp16", &large))
        }),
        case("E25", "m1", |bad| {
            let program = Program::image(&[1, 8, 8, 8]);
            if !bad {
                return program.unary("relu", "x");
            }
            let indices = [0.0, 1.0, 2.0];
            program.op(
                "gather",
                &[X, ("axis", Give::Numbers("int32", &[1.0])), ("indices", Give::Numbers("int32", &indices))],
                ("fp16", &[1, 3, 8, 8]),
            )
        }),
        case("E26", "m1", |bad| {
            let program = Program::new(
                Origin::Model,
                &[("x", "fp16", &[pick(bad, 2, 1), 8, 8, 8]), ("w", "fp16", &[8, 8, 1, 1])],
            );
            program.op("conv", &[X, ("weight", Give::Value("w"))], ("fp16", &[1, 8, 8, 8]))
        }),
        case("E27", "m1", |bad| {
            let shape = [1, pick(bad, usize::MAX, 8), 64];
            Program::image(&shape).op("relu", &[X], ("fp16", &shape))
        }),
        assuming(
            "E28",
            "m1",
            |_| Program::image(&[1, 3, 8, 8]).unary("relu", "x"),
            |bad| Assumptions { pixel_buffers: bad, ..Assumptions::default() },
        ),
        case("E29", "m1", |bad| {
            let arguments = [X, ("block_shape", Give::Numbers("int32", &[2.0, 2.0]))];
            Program::image(&[pick(bad, 3, 4), 8, 8, 8]).op("batch_to_space", &arguments, ("fp16", &[1, 8, 16, 16]))
        }),
        case("E30", "m5", |bad| {
            Program::image(&[1, 8, 8, pick(bad, 72, 64)]).unary("square", "x").unary("relu", "square_0")
        }),
        case("E31", "m4", |bad| Program::image(&[1, 8, pick(bad, 300, 200), 300]).unary("instance_norm", "x")),
        assuming(
            "E32",
            "m1",
            |bad| Program::image(&[1, 8, 8, pick(bad, 16, 32)]).unary("relu", "x"),
            |_| Assumptions { private: true, ..Assumptions::default() },
        ),
        assuming(
            "E33",
            "m4",
            |_| {
                let program =
                    Program::new(Origin::Model, &[("x", "fp16", &[1, 8, 8, 32]), ("y", "fp16", &[1, 8, 8, 32])]);
                let arguments = [
                    ("values", Give::Value("x")),
                    ("values", Give::Value("y")),
                    ("axis", Give::Numbers("int32", &[1.0])),
                ];
                program.op("concat", &arguments, ("fp16", &[1, 16, 8, 32]))
            },
            |bad| Assumptions { private: bad, ..Assumptions::default() },
        ),
        assuming(
            "E34",
            "m4",
            |_| Program::image(&[1, 8, 8, 8]).unary("relu", "x"),
            |bad| Assumptions { compiles: if bad { 200 } else { 100 }, ..Assumptions::default() },
        ),
        case("E35", "m1", |bad| {
            let y = if bad { Give::Inline(&[1, 64, 1, 1]) } else { Give::Weight("fp16", &[1, 64, 1, 1], None) };
            text_program("add", &[X, ("y", y)])
        }),
        case("E36", "m1", |bad| {
            text_program(if bad { "real_div" } else { "mul" }, &[X, ("y", Give::Weight("fp16", &[1, 64, 1, 1], None))])
        }),
        case("E37", "m1", |bad| {
            let of = if bad { "fp32" } else { "fp16" };
            text_program("clip", &[X, ("alpha", Give::Numbers(of, &[-1.0])), ("beta", Give::Numbers(of, &[1.0]))])
        }),
        case("E38", "m1", |bad| {
            let epsilon = ("epsilon", Give::Numbers("fp32", &[1e-5]));
            if bad { text_program("log", &[X]) } else { text_program("log", &[X, epsilon]) }
        }),
        case("E38", "m1", |bad| {
            let none = Give::Numbers("int32", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            let arguments =
                [X, ("pad", none), ("mode", Give::Text("constant")), ("constant_val", Give::Numbers("fp16", &[0.0]))];
            text_program("pad", &arguments[..if bad { 3 } else { 4 }])
        }),
        // An operation on constants.
        case("E38", "m1", |bad| {
            let none = Give::Numbers("int32", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            let arguments = [
                ("x", Give::Weight("fp16", &[1, 64, 1, 1], None)),
                ("pad", none),
                ("mode", Give::Text("constant")),
                ("constant_val", Give::Numbers("fp16", &[0.0])),
            ];
            let mut program = text_program("pad", &arguments[..if bad { 3 } else { 4 }]);
            program.0.ops[0].constant = true;
            program
        }),
        case("E39", "m1", |bad| {
            let program = Program::new(Origin::MilText, &[("x", "fp16", &[1, 256])]);
            let turned = [if bad { 0.0 } else { 1.0 }];
            let arguments =
                [X, ("y", Give::Weight("fp16", &[256, 256], None)), ("transpose_y", Give::Numbers("bool", &turned))];
            program.op("matmul", &arguments, ("fp16", &[1, 256]))
        }),
        case("E40", "m6", |bad| {
            let scale: &[usize] = if bad { &[64, 2] } else { &[64, 1] };
            let arguments =
                [("data", Give::Weight("int4", &[64, 64], None)), ("scale", Give::Weight("fp16", scale, None))];
            Program::image(&[1, 8, 8, 8]).op("constexpr_blockwise_shift_scale", &arguments, ("fp16", &[64, 64]))
        }),
        case("W01", "m1", |bad| slice(if bad { 1.0 } else { 0.0 }, "x", Program::image(&[1, 8, 8, 8]))),
        assuming(
            "W02",
            "m2",
            |_| matmul(&[1, 16, 64], &[1, 64, 16], &[1, 16, 16]),
            |bad| Assumptions { max_abs: Some(if bad { 100.0 } else { 1.0 }), ..Assumptions::default() },
        ),
        assuming(
            "W03",
            "m1",
            |_| sum(64, "identity"),
            |bad| Assumptions { max_abs: Some(if bad { 8192.0 } else { 8.0 }), ..Assumptions::default() },
        ),
        assuming("W04", "m1", |bad| sum(pick(bad, 512, 16), "round"), most(8.0)),
        case("W05", "m1", |bad| sum(512, if bad { "identity" } else { "sigmoid" })),
        assuming(
            "W06",
            "m1",
            |_| Program::image(&[1, 8, 8, 8]).unary("exp", "x"),
            |bad| Assumptions { max_abs: Some(if bad { 20.0 } else { 5.0 }), ..Assumptions::default() },
        ),
        case("W07", "m1", |bad| {
            let program = Program::new(Origin::Model, &[("x", "fp16", &[1, 8, 8, 8]), ("y", "fp16", &[1, 8, 8, 8])]);
            program.op("not_equal", &[X, ("y", Give::Value(if bad { "x" } else { "y" }))], ("bool", &[1, 8, 8, 8]))
        }),
        case("W08", "m1", |bad| attention(pick(bad, 4096, 256), None, "fp16")),
        assuming(
            "W09",
            "m1",
            |bad| {
                let by = if bad { Some("constexpr_affine_dequantize") } else { None };
                Program::image(&[1, 64]).op(
                    "linear",
                    &[X, ("weight", Give::Weight("fp16", &[64, 64], by))],
                    ("fp16", &[1, 64]),
                )
            },
            most(5000.0),
        ),
        case("W17", "m1", |bad| {
            let on = [if bad { 0.0 } else { 1.0 }];
            let heads: &[(&str, &str, &[usize])] =
                &[("q", "fp16", &[1, 8, 4, 16]), ("k", "fp16", &[1, 8, 4, 16]), ("v", "fp16", &[1, 8, 4, 16])];
            let scale = ("bottom", Give::Weight("fp16", &[1, 1, 1, 1], None));
            let [q, k, v] = ["q", "k", "v"].map(|name| ("bottom", Give::Value(name)));
            let arguments = [q, k, v, scale, ("SubtractMax", Give::Numbers("bool", &on))];
            Program::new(Origin::Model, heads).op("SDPA", &arguments, ("fp16", &[1, 8, 4, 16]))
        }),
        case("W18", "m1", |bad| {
            let program = Program::image(&[1, 8, 8, 8]);
            let program = if bad { program } else { program.unary("abs", "x") };
            let base = if bad { "x" } else { "abs_0" };
            let arguments = [("x", Give::Value(base)), ("y", Give::Numbers("fp16", &[3.0]))];
            program.op("pow", &arguments, ("fp16", &[1, 8, 8, 8]))
        }),
        case("W10", "m1", |bad| {
            let scale = [if bad { 0.5 } else { 1.0 }];
            let program = Program::new(Origin::Model, &[("x", "fp16", &[1, 8, 8, 8]), ("y", "fp16", &[1, 8, 8, 8])]);
            let arguments =
                [X, ("y", Give::Value("y")), ("Type", Give::Text("Mult")), ("Scale", Give::Numbers("fp16", &scale))];
            program.op("ScaledElementWise", &arguments, ("fp16", &[1, 8, 8, 8]))
        }),
        assuming(
            "W11",
            "m4",
            |_| attention(64, Some(&[1, 1, 64, 64]), "fp16"),
            |bad| Assumptions { private: bad, ..Assumptions::default() },
        ),
        assuming(
            "W12",
            "m3",
            |bad| Program::image(&[1, 8, 8, pick(bad, 40, 64)]).unary("relu", "x"),
            |_| Assumptions { private: true, ..Assumptions::default() },
        ),
        case("W16", "m1", |bad| {
            let n = pick(bad, 4096, 1024);
            let mut program = Program::image(&[1, n]).op(
                "linear",
                &[X, ("weight", Give::Weight("fp16", &[n, n], None))],
                ("fp16", &[1, n]),
            );
            program.0.ops[0].name = "dft".into();
            program
        }),
    ]
}

#[test]
fn rules_fire_and_are_silent() {
    let mut shown: BTreeSet<&str> = ["W13", "W14", "W15"].into();
    for (code, on, program, assumed) in cases() {
        let bad = fires(program(true), on, &assumed(true));
        assert!(bad.contains(code), "{code} does not fire on {on}: {bad:?}");
        let good = fires(program(false), on, &assumed(false));
        assert!(!good.contains(code), "{code} fires on {on} where it should not: {good:?}");
        shown.insert(code);
    }
    let wanted = LINTS.iter().filter(|l| matches!(l.severity(), Severity::Rejected | Severity::Wrong));
    let missing: Vec<&str> = wanted.map(|l| l.code).filter(|c| !shown.contains(c)).collect();
    assert!(missing.is_empty(), "rules without a case: {missing:?}");
}

#[test]
fn rules_between_chips() {
    let codes = |program: &Program, on: &[&str]| -> Vec<&'static str> {
        let chips: Vec<_> = on.iter().filter_map(|n| by_name(n)).collect();
        lint::across(&program.0, &chips).into_iter().map(|f| f.code).collect()
    };
    let resize = Program::image(&[1, 8, 8, 8]).op("resize_bilinear", &[X], ("fp16", &[1, 8, 16, 16]));
    assert_eq!(codes(&resize, &["m1", "m4"]), ["W13"]);
    assert!(codes(&resize, &["m4", "m5"]).is_empty() && codes(&resize, &["m1"]).is_empty());
    let reduction = |n: usize| sum(n, "relu");
    assert_eq!(codes(&reduction(256), &["m1", "m4"]), ["W14"]);
    assert!(codes(&reduction(256), &["m1", "m2"]).is_empty() && codes(&reduction(128), &["m1", "m4"]).is_empty());
    assert!(lint::target("h15x").is_some_and(|f| f.code == "W15") && lint::target("h15").is_none());
}

#[test]
fn slow_models_are_told() {
    let none = Assumptions::default();
    assert!(
        fires(conv(&[1, 9, 8, 8], &[9, 3, 3, 3], 3.0, &[1, 9, 6, 6]), "m1", &none)
            .is_superset(&["P09", "P11", "P01"].into())
    );
    assert!(fires(matmul(&[1, 1024, 1024], &[1, 1024, 64], &[1, 1024, 64]), "m1", &none).contains("P03"));
    let compressed = |op: &str| {
        let mut program =
            Program::image(&[1, 64]).op(op, &[("data", Give::Weight("int8", &[64, 64], None))], ("fp16", &[64, 64]));
        program.0.ops[0].constant = true;
        program
    };
    assert!(fires(compressed("constexpr_affine_dequantize"), "m1", &none).contains("P14"));
    assert!(!fires(compressed("constexpr_affine_dequantize"), "m2", &none).contains("P14"));
    assert!(fires(compressed("constexpr_blockwise_shift_scale"), "m2", &none).contains("P14"));
}

/// The first refusal of a program on a chip, with its fix.
fn refused(program: &Program, chip: &str) -> Option<(String, String)> {
    let placement = check(&program.0, by_name(chip).expect("a chip"), Route::Direct);
    placement.verdicts.iter().find_map(|v| v.refusal.as_ref().map(|r| (r.message.clone(), r.fix.clone())))
}

fn convolution(program: Program, from: &str, weight: &[usize], strides: &[f64], output: &[usize]) -> Program {
    let given = [
        ("x", Give::Value(from)),
        ("weight", Give::Weight("fp16", weight, None)),
        ("strides", Give::Numbers("int32", strides)),
        ("pad_type", Give::Text("valid")),
    ];
    program.op("conv", &given, ("fp16", output))
}

/// Each fix, applied to the refused program, gives one that the same chip takes.
#[test]
fn fixes_work_when_applied() {
    let fixed = |chip: &str, before: Program, says: &[&str], after: Program| {
        let (message, fix) = refused(&before, chip).expect("it is refused");
        for part in says {
            assert!(fix.contains(part), "{chip}: {message}: {fix}: no `{part}`");
        }
        assert_eq!(refused(&after, chip), None, "{chip}: {message}: {fix}");
    };
    for chip in ["m1", "m4"] {
        // A patch embedding: space-to-depth by the stride, then a 1x1 convolution.
        let before =
            convolution(Program::image(&[1, 3, 224, 224]), "x", &[192, 3, 16, 16], &[16.0, 16.0], &[1, 192, 14, 14]);
        let after = Program::image(&[1, 3, 224, 224])
            .op("reshape", &[("x", Give::Value("x"))], ("fp16", &[3, 14, 16, 14, 16]))
            .op("transpose", &[("x", Give::Value("reshape_0"))], ("fp16", &[3, 16, 16, 14, 14]))
            .op("reshape", &[("x", Give::Value("transpose_1"))], ("fp16", &[1, 768, 14, 14]));
        let after = convolution(after, "reshape_2", &[192, 768, 1, 1], &[1.0, 1.0], &[1, 192, 14, 14]);
        fixed(chip, before, &["patch embedding", "768", "1x1"], after);
        // A spectrum by convolution: windows of 256 every 128 samples become a kernel of 2 over 128 channels.
        let before =
            convolution(Program::image(&[1, 1, 1, 1024]), "x", &[258, 1, 1, 256], &[1.0, 128.0], &[1, 258, 1, 7]);
        let after = Program::image(&[1, 1, 1, 1024])
            .op("reshape", &[("x", Give::Value("x"))], ("fp16", &[1, 8, 1, 128]))
            .op("transpose", &[("x", Give::Value("reshape_0"))], ("fp16", &[1, 128, 1, 8]));
        let after = convolution(after, "transpose_1", &[258, 128, 1, 2], &[1.0, 1.0], &[1, 258, 1, 7]);
        fixed(chip, before, &["128", "1x2"], after);
        // A wide kernel turned.
        let before = convolution(Program::image(&[1, 4, 32, 32]), "x", &[4, 4, 1, 21], &[1.0, 1.0], &[1, 4, 32, 12]);
        let after = convolution(Program::image(&[1, 4, 32, 32]), "x", &[4, 4, 21, 1], &[1.0, 1.0], &[1, 4, 12, 32]);
        fixed(chip, before, &["exchange", "21x1"], after);
        // A kernel that is too wide either way, in parts.
        let before = convolution(Program::image(&[1, 4, 64, 64]), "x", &[4, 4, 21, 21], &[1.0, 1.0], &[1, 4, 44, 44]);
        let after = convolution(Program::image(&[1, 4, 64, 54]), "x", &[4, 4, 21, 11], &[1.0, 1.0], &[1, 4, 44, 44]);
        fixed(chip, before, &["split the kernel into 2", "21x11"], after);
        // One operand of concat: the operand.
        let one = [("values", Give::Value("x")), ("axis", Give::Numbers("int32", &[1.0]))];
        let before = Program::image(&[1, 4, 8, 8]).op("concat", &one, ("fp16", &[1, 4, 8, 8]));
        fixed(chip, before, &["remove it"], Program::image(&[1, 4, 8, 8]).unary("relu", "x"));
        // Running sums.
        let sums = [("x", Give::Value("x")), ("axis", Give::Numbers("int32", &[-1.0]))];
        let before = Program::image(&[1, 1, 8, 96]).op("cumsum", &sums, ("fp16", &[1, 1, 8, 96]));
        let product = [("x", Give::Value("x")), ("y", Give::Weight("fp16", &[96, 96], None))];
        let after = Program::image(&[1, 1, 8, 96]).op("matmul", &product, ("fp16", &[1, 1, 8, 96]));
        fixed(chip, before, &["[96, 96]"], after);
    }
    // Beyond the extent that the M1 takes, in tensors within it.
    let before = Program::image(&[1, 1, 1, 40000]).unary("relu", "x");
    fixed("m1", before, &["3 tensors", "13334"], Program::image(&[1, 1, 1, 13334]).unary("relu", "x"));
    // Mirrored borders without a texture engine: slices and a concat.
    let pad = [
        ("x", Give::Value("x")),
        ("pad", Give::Numbers("int32", &[0.0, 0.0, 1.0, 1.0])),
        ("mode", Give::Text("reflect")),
    ];
    let before = Program::image(&[1, 4, 8, 8]).op("pad", &pad, ("fp16", &[1, 4, 8, 10]));
    let parts = [
        ("values", Give::Value("slice_by_index_0")),
        ("values", Give::Value("x")),
        ("axis", Give::Numbers("int32", &[3.0])),
    ];
    let after = Program::image(&[1, 4, 8, 8])
        .op("slice_by_index", &[("x", Give::Value("x"))], ("fp16", &[1, 4, 8, 1]))
        .op("concat", &parts, ("fp16", &[1, 4, 8, 9]));
    fixed("m1", before, &["1 and 1 along axis 3", "reverse"], after);
}
