//! Doubts about numbers that a run tells, each by the case that triggers it, and models and inputs whose types, extents and numbers
//! are at their ends.

use crate::ane;
use crate::harness::*;
use std::path::Path;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// A program of MIL text: its inputs by name and type, its operations, and what is given.
struct Case {
    /// Warning that it triggers, or the code of its refusal; empty where the run is right.
    told: &'static str,
    inputs: &'static [(&'static str, &'static str, &'static [f32])],
    body: &'static [&'static str],
    arguments: &'static [&'static str],
    /// Expected elements; empty where they are not compared.
    gives: &'static [f32],
}

/// Type and name of a constant operation's parts are written where they are used.
fn text(case: &Case) -> String {
    let inputs: Vec<String> = case.inputs.iter().map(|(name, ty, _)| format!("tensor<{ty}> {name}")).collect();
    let body: String = case.body.iter().map(|line| format!("    {line};\n")).collect();
    format!("program(1.3)\n{{\n  func main<ios18>({}) {{\n{body}  }} -> (y);\n}}\n", inputs.join(", "))
}

fn arguments(scratch: &Scratch, case: &Case) -> Vec<String> {
    let mut all = vec!["run".to_string(), scratch.file("model.mil", text(case)), "--json".into()];
    for (name, ty, data) in case.inputs {
        let extents = ty.split_once('[').expect("extents").1.trim_end_matches(']');
        let extents: String =
            extents.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| format!("{n},")).collect();
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        let file = scratch.file(&format!("{name}.npy"), npy("<f4", false, &format!("({extents})"), &bytes));
        all.extend(["--input".to_string(), format!("{name}={file}")]);
    }
    all.extend(["-o".to_string(), scratch.path("y.npy")]);
    all.extend(case.arguments.iter().map(|a| a.to_string()));
    all
}

fn output(scratch: &Scratch) -> Vec<f32> {
    let array = anemone::tensor::read_npy(Path::new(&scratch.path("y.npy"))).expect("the output");
    array.data
}

const F: &str = "fp16, [2]";
const I: &str = "int32, [2]";

/// Every warning of a run. The list in `docs/numerics.md`, section warnings, has the same names.
static WARNED: &[Case] = &[
    Case {
        told: "saturated",
        inputs: &[("x", F, &[1.0, 20.0])],
        body: &["tensor<fp16, [2]> y = exp(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "saturated",
        inputs: &[("x", F, &[1.0, 1e5])],
        body: &["tensor<fp16, [2]> y = add(x = x, y = fp16(1.0))[name = string(\"y\")]"],
        arguments: &[],
        gives: &[2.0, INF],
    },
    // The array of the device ends at 32768.
    Case {
        told: "saturated",
        inputs: &[("x", "fp16, [1, 2]", &[200.0, 200.0])],
        body: &[
            "tensor<fp16, [1, 2]> w = const()[name = string(\"w\"), val = tensor<fp16, [1, 2]>([[100.0, 100.0]])]",
            "tensor<fp16, [1, 1]> y = linear(weight = w, x = x)[name = string(\"y\")]",
        ],
        arguments: &["--numerics", "exact"],
        gives: &[INF],
    },
    Case {
        told: "undefined",
        inputs: &[("x", F, &[NAN, 1.0])],
        body: &["tensor<fp16, [2]> y = relu(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    // Zero times the infinite reciprocal is NaN, and the larger of NaN and zero is zero.
    Case {
        told: "undefined",
        inputs: &[("x", F, &[0.0, 1.0]), ("z", F, &[6e-8, 2.0]), ("c", F, &[1.0, 1.0])],
        body: &[
            "tensor<fp16, [2]> q = real_div(x = x, y = z)[name = string(\"q\")]",
            "tensor<fp16, [2]> s = add(x = q, y = c)[name = string(\"s\")]",
            "tensor<fp16, [2]> y = relu(x = s)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[0.0, 1.5],
    },
    Case {
        told: "undefined",
        inputs: &[("x", I, &[5.0, -7.0]), ("z", I, &[0.0, 2.0])],
        body: &["tensor<int32, [2]> y = floor_div(x = x, y = z)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "indistinguishable",
        inputs: &[("x", "fp16, [1, 4]", &[10000.0, 10001.0, 10002.0, 10003.0])],
        body: &["tensor<fp16, [1, 4]> y = softmax(axis = int32(-1), x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "inexact-integer",
        inputs: &[("x", I, &[3001.0, -2049.0])],
        body: &["tensor<int32, [2]> y = abs(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "inexact-integer",
        inputs: &[("x", I, &[33_554_432.0, 1.0])],
        body: &["tensor<int32, [2]> y = abs(x = x)[name = string(\"y\")]"],
        arguments: &["--reference"],
        gives: &[33_554_432.0, 1.0],
    },
    // 70000^2 wraps as int32 does.
    Case {
        told: "inexact-integer",
        inputs: &[("x", I, &[70000.0, 2.0])],
        body: &[
            "tensor<int32, [2]> s = mul(x = x, y = x)[name = string(\"s\")]",
            "tensor<int32, [2]> y = mod(x = s, y = int32(1000))[name = string(\"y\")]",
        ],
        arguments: &["--reference"],
        gives: &[704.0, 4.0],
    },
    Case {
        told: "rounded-twice",
        inputs: &[("x", F, &[1.0, 20.0])],
        body: &[
            "tensor<fp16, [2]> q = real_div(x = x, y = fp16(3.0))[name = string(\"q\")]",
            "tensor<fp16, [2]> r = round(x = q)[name = string(\"r\")]",
            "tensor<int32, [2]> y = cast(dtype = string(\"int32\"), x = r)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[0.0, 7.0],
    },
    Case {
        told: "tie",
        inputs: &[("x", F, &[5.0, 20.0])],
        body: &[
            "tensor<fp16, [2]> q = mul(x = x, y = fp16(0.5))[name = string(\"q\")]",
            "tensor<fp16, [2]> y = round(x = q)[name = string(\"y\")]",
        ],
        arguments: &["--numerics", "exact"],
        gives: &[],
    },
    // A value clipped to narrow integers is rounded in one table.
    Case {
        told: "tie",
        inputs: &[("x", F, &[0.5, 20.0]), ("z", "uint8, [2]", &[0.0, 1.0])],
        body: &[
            "tensor<fp16, [2]> r = round(x = x)[name = string(\"r\")]",
            "tensor<uint8, [2]> c = cast(dtype = string(\"uint8\"), x = r)[name = string(\"c\")]",
            "tensor<uint8, [2]> y = add(x = c, y = z)[name = string(\"y\")]",
        ],
        arguments: &["--numerics", "exact"],
        gives: &[1.0, 21.0],
    },
    // The reciprocal of the divisor is beyond fp16, and the function behind it hides the infinity.
    Case {
        told: "saturated",
        inputs: &[("x", F, &[1e-6, 1.0]), ("z", F, &[1e-5, 2.0])],
        body: &[
            "tensor<fp16, [2]> q = real_div(x = x, y = z)[name = string(\"q\")]",
            "tensor<fp16, [2]> y = tanh(x = q)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
    // 2048.3 - 2048 is 0 in fp16.
    Case {
        told: "inaccurate",
        inputs: &[("x", F, &[2048.3, 2048.0])],
        body: &["tensor<fp16, [2]> y = sub(x = x, y = fp16(2048.0))[name = string(\"y\")]"],
        arguments: &[],
        gives: &[0.0, 0.0],
    },
    Case {
        told: "inaccurate",
        inputs: &[("x", F, &[1000.1, 1000.2])],
        body: &["tensor<bool, [2]> y = greater(x = x, y = fp16(1000.0))[name = string(\"y\")]"],
        arguments: &[],
        gives: &[0.0, 0.0],
    },
    Case {
        told: "nan-as-infinity",
        inputs: &[("x", F, &[NAN, 20.0])],
        body: &["tensor<fp16, [2]> y = add(x = x, y = fp16(1.0))[name = string(\"y\")]"],
        arguments: &["--numerics", "exact"],
        gives: &[INF, 21.0],
    },
    Case {
        told: "nan-weights",
        inputs: &[("x", F, &[1.0, 20.0])],
        body: &[
            "tensor<fp16, [2]> c = const()[name = string(\"c\"), val = tensor<fp16, [2]>([nan, 1.0])]",
            "tensor<fp16, [2]> y = maximum(x = x, y = c)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
];

#[test]
fn every_warning_has_a_case_that_triggers_it() {
    for (name, _) in anemone::warnings::NAMES {
        assert!(WARNED.iter().any(|case| case.told == *name), "nothing triggers {name}");
    }
    let doc = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/numerics.md");
    let doc = std::fs::read_to_string(doc).expect("the chapter");
    let scratch = Scratch::new();
    for case in WARNED {
        assert!(doc.contains(&format!("| `{}` |", case.told)), "{} is not in the list", case.told);
        let all = arguments(&scratch, case);
        let ran = run(&all).fine();
        let names: Vec<String> = ran.json("anemone.run/1")["warnings"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|w| w["name"].as_str().expect("a name").to_string())
            .collect();
        assert!(names.iter().any(|name| name == case.told), "{} is not among {names:?}: {}", case.told, text(case));
        if !case.gives.is_empty() {
            assert_eq!(output(&scratch), case.gives, "{}", text(case));
        }
        // Quiet is not silent: without JSON the exit code alone would tell nothing.
        let mut quiet = [all.clone(), vec!["-q".into()]].concat();
        quiet.retain(|a| a != "--json");
        let quiet = run(&quiet).fine();
        assert!(quiet.err.contains(&format!("warning: {}: ", case.told)), "{quiet:?}");
        if !case.arguments.contains(&"--reference") {
            let strict = run(&[all, vec!["--strict-numerics".into()]].concat());
            assert_eq!(strict.code, Some(1), "{strict:?}");
        }
    }
}

/// The size of a product is estimated by the longer side of its second operand: this one is large for little work.
#[test]
fn a_network_too_large_to_be_compared_says_so() {
    const LARGE: Case = Case {
        told: "",
        inputs: &[("x", "fp16, [1024, 1]", &[]), ("z", "fp16, [1, 4500]", &[])],
        body: &[
            "tensor<fp16, [1024, 4500]> y = matmul(transpose_x = bool(false), transpose_y = bool(false), x = x, y = z)\
             [name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    };
    let scratch = Scratch::new();
    let model = scratch.file("model.mil", text(&LARGE));
    let compared = |more: &[&str]| {
        let told =
            run(&[&["run", &model, "--json"], more].concat().iter().map(|a| a.to_string()).collect::<Vec<_>>()).fine();
        let report = told.json("anemone.run/1");
        assert_eq!(report["warnings"].as_array().map(Vec::len), Some(0), "{report}");
        (report["compared_with_fp32"].as_bool(), told.err.contains("not compared with fp32: about 2e10"))
    };
    assert_eq!(compared(&[]), (Some(false), true));
    assert_eq!(compared(&["-q"]), (Some(false), false));
    assert_eq!(compared(&["--strict-numerics"]), (Some(true), false));
}

/// The host computes quotients of floats that are floored: no program has a port for the other input.
#[test]
fn an_input_that_nothing_reads_is_accepted() {
    const CASE: Case = Case {
        told: "",
        inputs: &[("x", F, &[5.0, NAN]), ("z", F, &[1.0, 2.0])],
        body: &[
            "tensor<fp16, [2]> q = floor_div(x = x, y = fp16(2.0))[name = string(\"q\")]",
            "tensor<fp16, [2]> y = relu(x = q)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    };
    let scratch = Scratch::new();
    let ran = run(&arguments(&scratch, &CASE)).fine();
    let report = ran.json("anemone.run/1");
    assert_eq!(report["host_segments"].as_u64(), Some(1), "{report}");
    assert!(report["warnings"].to_string().contains("undefined"), "{report}");
    assert_eq!(output(&scratch)[0], 2.0);
}

/// Types, extents and numbers at their ends: right, warned or refused.
static ENDS: &[Case] = &[
    // Declared type and data.
    Case {
        told: "ANE2002",
        inputs: &[("x", F, &[1.0, 2.0])],
        body: &[
            "tensor<fp16, [2]> c = const()[name = string(\"c\"), val = tensor<fp16, [2]>([1.0, 2.0, 3.0])]",
            "tensor<fp16, [2]> y = add(x = x, y = c)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2002",
        inputs: &[("x", I, &[1.0, 2.0])],
        body: &[
            "tensor<int32, [2]> c = const()[name = string(\"c\"), val = tensor<int32, [2]>([1.5, 2.0])]",
            "tensor<int32, [2]> y = add(x = x, y = c)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2002",
        inputs: &[("x", F, &[1.0, 2.0])],
        body: &[
            "tensor<int8, [2]> c = const()[name = string(\"c\"), val = tensor<int8, [2]>([300, 2])]",
            "tensor<fp16, [2]> d = cast(dtype = string(\"fp16\"), x = c)[name = string(\"d\")]",
            "tensor<fp16, [2]> y = add(x = x, y = d)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2002",
        inputs: &[("x", F, &[1.0, 2.0])],
        body: &["tensor<int32, [2]> y = relu(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    // Inputs that their type does not have.
    Case {
        told: "ANE2003",
        inputs: &[("x", "int8, [2]", &[300.0, 1.0])],
        body: &["tensor<int8, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", "uint8, [2]", &[-1.0, 1.0])],
        body: &["tensor<uint8, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &["--reference"],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", I, &[1.5, 1.0])],
        body: &["tensor<int32, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", I, &[NAN, 1.0])],
        body: &["tensor<int32, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &["--reference"],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", I, &[1e12, 1.0])],
        body: &["tensor<int32, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", "bool, [2]", &[2.0, 0.0])],
        body: &["tensor<bool, [2]> y = logical_not(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    // Narrow integers wrap.
    Case {
        told: "",
        inputs: &[("x", "int8, [2]", &[100.0, -100.0])],
        body: &["tensor<int8, [2]> y = add(x = x, y = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[-56.0, 56.0],
    },
    Case {
        told: "",
        inputs: &[("x", "uint8, [2]", &[200.0, 3.0])],
        body: &["tensor<uint8, [2]> y = mul(x = x, y = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[64.0, 9.0],
    },
    Case {
        told: "inexact-integer",
        inputs: &[("x", I, &[70000.0, 2.0])],
        body: &["tensor<int32, [2]> y = mul(x = x, y = x)[name = string(\"y\")]"],
        arguments: &["--reference"],
        gives: &[605_032_704.0, 4.0],
    },
    // Division by zero: infinite for floats, a warning for integers.
    Case {
        told: "",
        inputs: &[("x", F, &[5.0, -7.0]), ("z", F, &[0.0, 2.0])],
        body: &["tensor<fp16, [2]> y = real_div(x = x, y = z)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[INF, -3.5],
    },
    Case {
        told: "undefined",
        inputs: &[("x", I, &[5.0, -7.0]), ("z", I, &[0.0, 2.0])],
        body: &["tensor<int32, [2]> y = mod(x = x, y = z)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    // Nothing to compute with.
    Case {
        told: "ANE2002",
        inputs: &[("x", "fp16, [0]", &[])],
        body: &["tensor<fp16, [0]> y = relu(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2002",
        inputs: &[("x", F, &[1.0, 2.0])],
        body: &[
            "tensor<fp16, [0]> y = slice_by_index(begin = tensor<int32, [1]>([1]), end = tensor<int32, [1]>([1]), \
             x = x)[name = string(\"y\")]",
        ],
        arguments: &[],
        gives: &[],
    },
    Case {
        told: "ANE2003",
        inputs: &[("x", F, &[1.0, 2.0, 3.0])],
        body: &["tensor<fp16, [2]> y = relu(x = x)[name = string(\"y\")]"],
        arguments: &[],
        gives: &[],
    },
];

#[test]
fn types_extents_and_numbers_at_their_ends() {
    let scratch = Scratch::new();
    for case in ENDS {
        let mut all = arguments(&scratch, case);
        // An array longer than its input has its own extent.
        let count = case.inputs[0].2.len();
        if case.inputs[0].1 == F && count != 2 {
            let bytes: Vec<u8> = case.inputs[0].2.iter().flat_map(|x| x.to_le_bytes()).collect();
            scratch.file("x.npy", npy("<f4", false, &format!("({count},)"), &bytes));
        }
        if case.told.starts_with("ANE") {
            all.retain(|a| a != "--json");
            run(&all).refused(2, case.told, &[]);
            continue;
        }
        let ran = run(&all).fine();
        let warnings = ran.json("anemone.run/1")["warnings"].to_string();
        match case.told {
            "" => assert_eq!(warnings, "[]", "{}", text(case)),
            name => assert!(warnings.contains(name), "{name} is not in {warnings}: {}", text(case)),
        }
        if !case.gives.is_empty() {
            assert_eq!(output(&scratch), case.gives, "{}", text(case));
        }
    }
}

#[test]
fn scalars_of_every_type_run() {
    for ty in ["fp16", "fp32", "int32", "int16", "uint16", "int8", "uint8", "bool"] {
        let scratch = Scratch::new();
        let (op, given, wanted) = match ty {
            "bool" => ("logical_not(x = x)", 1.0f32, 0.0),
            _ => ("add(x = x, y = x)", 3.0, 6.0),
        };
        let text = format!(
            "program(1.3)\n{{\n  func main<ios18>(tensor<{ty}, []> x) {{\n    tensor<{ty}, []> y = {op}[name = string(\"y\")];\n  \
             }} -> (y);\n}}\n"
        );
        let (model, x) =
            (scratch.file("scalar.mil", text), scratch.file("x.npy", npy("<f4", false, "()", &given.to_le_bytes())));
        for way in [&["--numerics", "fast"][..], &["--numerics", "exact"], &["--reference"]] {
            let mut all: Vec<String> = ["run", &model, "--input", &format!("x={x}"), "-o", &scratch.path("y.npy")]
                .map(str::to_string)
                .to_vec();
            all.extend(way.iter().map(|a| a.to_string()));
            run(&all).fine();
            assert_eq!(output(&scratch), [wanted], "{ty} {way:?}");
        }
    }
}

#[test]
fn integers_are_expected_exactly() {
    let scratch = Scratch::new();
    let text = "program(1.3)\n{\n  func main<ios18>(tensor<int32, [2]> x) {\n    tensor<int32, [2]> y = add(x = x, y = x)[name = \
                string(\"y\")];\n  } -> (y);\n}\n";
    let model = scratch.file("twice.mil", text);
    let array = |name: &str, data: [f32; 2]| {
        scratch.file(name, npy("<f4", false, "(2,)", &data.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()))
    };
    let (x, right, near) = (array("x.npy", [500.0, 3.0]), array("y.npy", [1000.0, 6.0]), array("z.npy", [1000.0, 7.0]));
    for way in [&["--numerics", "fast"][..], &["--reference"]] {
        let with = |expected: &str| {
            let mut all: Vec<String> =
                ["run", &model, "--input", &x, "--expect", expected].map(str::to_string).to_vec();
            all.extend(way.iter().map(|a| a.to_string()));
            run(&all).code
        };
        assert_eq!((with(&right), with(&near)), (Some(0), Some(1)), "{way:?}");
    }
}

#[test]
fn a_random_operation_is_no_constant() {
    let scratch = Scratch::new();
    let text = "program(1.0)\n{\n  func main<ios15>(tensor<fp16, [2, 3]> x) {\n    tensor<fp16, [2, 3]> r = random_uniform(high = \
                fp16(1.0), low = fp16(0.0), seed = int32(1), shape = tensor<int32, [2]>([2, 3]))[name = string(\"r\")];\n    \
                tensor<fp16, [2, 3]> y = add(x = x, y = r)[name = string(\"y\")];\n  } -> (y);\n}\n";
    let model = scratch.file("random.mil", text);
    let ran = ane!("check", model, "-t", "m1");
    assert!(ran.out.contains("random_uniform      1  falls back to CPU"), "{ran:?}");
    ane!("compile", model, "-o", scratch.out("x.hwx")).refused(1, "ANE1001", &["random numbers"]);
    scratch.nothing_written();
}

/// A table of gelu is off by more than rounding, also where a network has one alone: by default its gate is a table.
#[test]
fn a_single_gelu_is_a_gate_and_a_product() {
    let scratch = Scratch::new();
    let text = "program(1.0) { func main<ios15>(tensor<fp16, [1, 4]> x) {
        tensor<fp16, [2, 4]> w = const()[name = string(\"w\"), val = tensor<fp16, [2, 4]>([[1, 0.5, 0.25, 2], [0.5, 1, 2, 0.25]])];
        tensor<fp16, [1, 2]> p = linear(x = x, weight = w)[name = string(\"p\")];
        tensor<fp16, [1, 2]> y = gelu(x = p, mode = string(\"EXACT\"))[name = string(\"y\")]; } -> (y); }";
    let model = scratch.file("gelu.mil", text);
    let tasks = |choice: &str| {
        let told = ane!("compile", model, "--activations", choice, "--json", "-o", scratch.out("gelu.hwx"));
        told.json("anemone.compile/1")["tasks"].as_u64()
    };
    assert_eq!(["fused", "auto", "accurate"].map(tasks), [Some(2), Some(4), Some(5)]);
}

/// The table of hard swish is off by as much as small numbers are large.
#[test]
fn a_missed_expectation_names_the_tables() {
    const CASE: Case = Case {
        told: "",
        inputs: &[("x", "fp16, [1, 4]", &[0.03, -0.02, 0.05, 0.04])],
        body: &[
            "tensor<fp16, [1, 4]> h = sigmoid_hard(x = x, alpha = fp16(0.16666666), beta = fp16(0.5))[name = string(\"h\")]",
            "tensor<fp16, [1, 4]> y = mul(x = x, y = h)[name = string(\"y\")]",
        ],
        arguments: &["--reference"],
        gives: &[],
    };
    let scratch = Scratch::new();
    let mut all = arguments(&scratch, &CASE);
    run(&all).fine();
    let (expected, plain) = (scratch.path("y.npy"), all[1].clone());
    all = vec!["run".into(), plain, "--input".into(), scratch.path("x.npy"), "--expect".into(), expected];
    let missed = run(&all);
    assert_eq!(missed.code, Some(1), "{missed:?}");
    assert!(missed.err.contains("1 function is one table, off by") && missed.err.contains("(y)"), "{missed:?}");
    assert!(missed.err.contains("--activations accurate meets the expectation"), "{missed:?}");
    run(&[all, vec!["--activations".into(), "accurate".into()]].concat()).fine();
}
