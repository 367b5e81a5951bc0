//! Answers that a developer acts on: one verdict for every verb, one block a cause, layers that are not compared, tolerances.

use crate::ane;
use crate::harness::*;
use anemone::tensor::Array;
use serde_json::Value;

/// A convolution whose kernel is wider than any chip takes, as MIL text.
fn wide() -> String {
    let weights = (0..2 * 2 * 21).map(|i| format!("0x1.{:x}p-5", i % 16)).collect::<Vec<_>>();
    let rows: Vec<String> = weights.chunks(21).map(|row| format!("[[{}]]", row.join(", "))).collect();
    let kernel = rows.chunks(2).map(|pair| format!("[{}]", pair.join(", "))).collect::<Vec<_>>().join(", ");
    format!(
        "program(1.0) {{ func main<ios16>(tensor<fp16, [1, 2, 8, 40]> x) {{
        tensor<fp16, [2, 2, 1, 21]> w = const()[name = string(\"w\"), val = tensor<fp16, [2, 2, 1, 21]>([{kernel}])];
        tensor<fp16, [1, 2, 8, 20]> c = conv(x = x, weight = w, strides = tensor<int32, [2]>([1, 1]), pad_type = string(\"valid\"),
            pad = tensor<int32, [4]>([0, 0, 0, 0]), dilations = tensor<int32, [2]>([1, 1]), groups = int32(1))[name = string(\"c\")];
        tensor<fp16, [1, 2, 8, 20]> y = relu(x = c)[name = string(\"y\")];
        }} -> (y); }}"
    )
}

/// The same as a package, which no source text gates.
fn wide_package(scratch: &Scratch) -> String {
    let (text, package) = (scratch.file("wide.mil", wide()), scratch.path("wide.mlpackage"));
    ane!("convert", text, "-o", package).fine();
    package
}

#[test]
fn strict_is_one_verdict_in_every_verb_and_for_packages() {
    let scratch = Scratch::new();
    let package = wide_package(&scratch);
    ane!("check", package).fine();
    ane!("compile", package, "-o", scratch.out("a.hwx")).fine();
    let strict = ane!("check", package, "--strict", "-t", "m1,m4");
    assert_eq!(strict.code, Some(1), "{strict:?}");
    let last = strict.out.lines().last().unwrap_or_default();
    assert_eq!(last, "no (Apple's verdict and this compiler's): 1 of 2 operations off the Neural Engine of m1, m4");
    assert!(strict.out.contains("E08 kernel width is 21") && !strict.out.contains("decomposed here"), "{strict:?}");
    let document = ane!("check", package, "--strict", "--json").json("anemone.check/1");
    assert_eq!((document["ok"].as_bool(), document["strict"].as_bool()), (Some(false), Some(true)));
    ane!("compile", package, "--strict", "-o", scratch.out("b.hwx")).refused(1, "ANE1002", &["conv `c`", "E08"]);
    ane!("compile", package, "--strict", "--emit", "e5,hwx", "-o", scratch.out("b")).refused(1, "ANE1002", &["E08"]);
    ane!("run", package, "--strict").refused(1, "ANE1002", &["conv `c`", "E08"]);
    // The table of several models and the exit code follow it too.
    let [digits, ..] = digits();
    let several = ane!("check", package, digits, "--strict");
    assert_eq!(several.code, Some(1), "{several:?}");
    ane!("check", digits, "--strict").fine();
}

#[test]
fn strict_says_no_of_what_apple_takes_and_this_compiler_does_not() {
    let scratch = Scratch::new();
    let shape = "tensor<fp16, [1, 64, 8, 8]>";
    let text = format!(
        "program(1.3)\n{{\n  func main<ios18>({shape} x, {shape} y) {{\n    {shape} q = floor_div(x = x, y = y)[name = string(\"q\")];\n    \
         {shape} z = relu(x = q)[name = string(\"z\")];\n  }} -> (z);\n}}\n"
    );
    let model = scratch.file("floors.mil", text);
    let strict = ane!("check", model, "--strict");
    assert_eq!(strict.code, Some(1), "{strict:?}");
    let last = strict.out.lines().last().unwrap_or_default();
    assert_eq!(last, "no (Apple's verdict and this compiler's): 1 of 2 operations off the Neural Engine of m1");
    for output in ["a.hwx", "a.e5"] {
        ane!("compile", model, "--strict", "-o", scratch.out(output)).refused(1, "ANE1001", &["floor_div of floats"]);
    }
    ane!("run", model, "--strict").refused(1, "ANE1001", &["floor_div of floats"]);
    ane!("compile", model, "-o", scratch.out("b.e5")).fine();
}

#[test]
fn a_cause_has_one_block_with_every_chip() {
    let scratch = Scratch::new();
    let package = wide_package(&scratch);
    let told = ane!("check", package, "-t", "m1,m2,m4").out;
    let lines: Vec<&str> = told.lines().collect();
    let heads: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("  E08 ")).collect();
    let [head] = heads[..] else { panic!("one block is expected: {told}") };
    let block = &lines[head..(head + 9).min(lines.len())];
    let line = |key: &str| block.iter().find_map(|l| l.trim().strip_prefix(key)).unwrap_or_default().trim();
    assert_eq!(line("on:"), "m1 (supported: 1 to 13); m2, m4 (supported: 1 to 15)", "{told}");
    assert!(line("here:").ends_with("exchanged (m1)"), "only the M1 has programs: {told}");
    // The first line does not say again what the second says, and that one names chips.
    assert!(!lines[0].contains("kernel width"), "{told}");
    let first = lines.iter().find(|l| l.starts_with("Fix first: ")).copied().unwrap_or_default();
    assert!(
        first.starts_with("Fix first: conv `c` (m1, m2 and 1 more): kernel width is 21. ")
            || first.contains("(m1, m2, m4)"),
        "{told}"
    );
    // Whole numbers that are compared and those that are added have one cause.
    let text = "program(1.0) { func main<ios16>(tensor<int32, [1, 4, 1, 8]> x) {
        tensor<int32, [1, 4, 1, 8]> s = add(x = x, y = x)[name = string(\"s\")];
        tensor<bool, [1, 4, 1, 8]> y = less(x = s, y = int32(3))[name = string(\"y\")];
        } -> (y); }";
    let told = ane!("check", scratch.file("whole.mil", text), "-t", "m4").out;
    assert_eq!(told.lines().filter(|l| l.starts_with("  E06 ")).count(), 1, "{told}");
}

#[test]
fn chips_of_one_sentence_share_it() {
    let scratch = Scratch::new();
    // A sampler on the M4, three tasks on the M1: other layers, the same answer.
    let text = "program(1.0) { func main<ios16>(tensor<fp16, [1, 2, 8, 8]> x) {
        tensor<fp16, [1, 2, 16, 16]> y = upsample_nearest_neighbor(x = x, scale_factor_height = fp32(2),
            scale_factor_width = fp32(2))[name = string(\"y\")]; } -> (y); }";
    let model = scratch.file("up.mil", text);
    let told = ane!("check", model, "-t", "m1,m4").fine();
    assert!(told.out.starts_with("m1, m4: the only operation can run"), "{told:?}");
    assert_eq!(told.out.matches("direct (can run)").count(), 1, "{told:?}");
    assert!(told.out.contains("decomposed  supported"), "the layers stay apart: {told:?}");
    let several = ane!("check", model, model, "-t", "m1,m4").fine();
    assert_eq!(several.out.matches("1/1 100 %").count(), 2, "one row a model: {several:?}");
}

#[test]
fn counts_have_their_noun() {
    let scratch = Scratch::new();
    let told = ane!("check", scratch.relu(), "-t", "m1").fine().out;
    assert!(told.contains(": 1 operation, ") && !told.contains("1 operations"), "{told}");
}

#[test]
fn sources_that_differ_are_told() {
    let scratch = Scratch::new();
    // Three-dimensional convolution: the validators take it, the book's chapter does not.
    let weights = vec!["0x1p-3"; 4 * 2 * 27].join(", ");
    let mut kernel =
        weights.split(", ").collect::<Vec<_>>().chunks(3).map(|c| format!("[{}]", c.join(", "))).collect::<Vec<_>>();
    for n in [3, 3, 2, 4] {
        kernel = kernel.chunks(n).map(|c| format!("[{}]", c.join(", "))).collect();
    }
    let text = format!(
        "program(1.0) {{ func main<ios16>(tensor<fp16, [1, 2, 4, 8, 8]> x) {{
        tensor<fp16, [4, 2, 3, 3, 3]> w = const()[name = string(\"w\"), val = tensor<fp16, [4, 2, 3, 3, 3]>({})];
        tensor<fp16, [1, 4, 2, 6, 6]> y = conv(x = x, weight = w, strides = tensor<int32, [3]>([1, 1, 1]), pad_type = string(\"valid\"),
            pad = tensor<int32, [6]>([0, 0, 0, 0, 0, 0]), dilations = tensor<int32, [3]>([1, 1, 1]), groups = int32(1))[name = string(\"y\")];
        }} -> (y); }}",
        kernel.join(", ")
    );
    let model = scratch.path("deep.mlpackage");
    ane!("convert", scratch.file("deep.mil", text), "-o", model).fine();
    let told = ane!("check", model, "-t", "m4").out;
    assert!(told.contains("sources differ in what a chip accepts:") || told.contains("sources:  differ:"), "{told}");
    let document = ane!("check", model, "-t", "m4", "--json").json("anemone.check/1");
    let verdicts = document["chips"][0]["direct"]["verdicts"].as_array().cloned().unwrap_or_default();
    let differ = |v: &Value| v["sources_differ"].as_array().is_some_and(|all| !all.is_empty());
    assert!(verdicts.iter().any(differ), "{document}");
    // Nothing is said where the sources agree.
    let [digits, ..] = digits();
    let told = ane!("check", digits, "-t", "m4").fine().out;
    assert!(!told.contains("sources differ"), "{told}");
}

/// Layers behind an operation on the host are compared as well: none is left out.
#[test]
fn layers_behind_the_host_are_compared() {
    let scratch = Scratch::new();
    let rows: Vec<String> = (0..200).map(|i| format!("[0x1.{:x}p-1, 0x1.{:x}p-2]", i % 16, (i + 5) % 16)).collect();
    let text = format!(
        "program(1.0) {{ func main<ios16>(tensor<int32, [3]> ids) {{
        tensor<fp16, [200, 2]> t = const()[name = string(\"t\"), val = tensor<fp16, [200, 2]>([{}])];
        tensor<fp16, [3, 2]> e = gather(x = t, indices = ids, axis = int32(0))[name = string(\"e\")];
        tensor<fp16, [3, 2]> y = mul(x = e, y = e)[name = string(\"y\")];
        }} -> (y); }}",
        rows.join(", ")
    );
    let model = scratch.file("host.mil", text);
    let ran = ane!("run", model, "--by-layer").fine();
    assert!(ran.err.contains("on the host: e (gather)"), "{ran:?}");
    assert_eq!(ran.out.lines().last(), Some("no value differs by more than fp16 rounding explains"));
    let document = ane!("run", model, "--by-layer", "--json").fine().json("anemone.layers/1");
    assert_eq!(document["not_compared"], 0, "{document}");
    let compared = |layer: &Value| layer["refused"].is_null() && layer["cosine"].as_f64() > Some(0.99);
    assert!(document["layers"].as_array().is_some_and(|all| all.len() == 2 && all.iter().all(compared)), "{document}");
    // A value of the file that the network does not have is no silent success.
    let other = scratch.file("other.npz", b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    ane!("run", model, format!("--by-layer={other}")).fine();
}

#[test]
fn quiet_is_quiet() {
    let scratch = Scratch::new();
    let ([package, image, expected], out) = (digits(), scratch.out("y.npy"));
    for arguments in [vec!["-o", &out], vec!["--expect", &expected], vec!["-o", &out, "--expect", &expected]] {
        let arguments = [&["run", "-q", &package, "-i", &image], arguments.as_slice()].concat();
        let ran = run(&arguments.iter().map(ToString::to_string).collect::<Vec<_>>()).fine();
        assert!(ran.out.is_empty() && ran.err.is_empty(), "{arguments:?}: {ran:?}");
    }
    // A missed expectation is no detail.
    let other = scratch.file("other.npy", filled(&[1, 10], 0.5));
    let ran = ane!("run", "-q", package, "-i", image, "--expect", other);
    assert!(ran.code == Some(1) && ran.out.lines().count() == 1, "{ran:?}");
}

#[test]
fn a_program_is_held_to_what_rounding_costs_as_its_model_is() {
    let scratch = Scratch::new();
    // Inputs near 1000 in differences of neighbours: rounding of the inputs alone costs more than a share of the result.
    let text = "program(1.0) { func main<ios16>(tensor<fp16, [1, 1, 1, 64]> x) {
        tensor<fp16, [1, 1, 1, 32]> a = slice_by_index(x = x, begin = tensor<int32, [4]>([0, 0, 0, 0]), end = tensor<int32, [4]>([1, 1, 1, 32]), \
            stride = tensor<int32, [4]>([1, 1, 1, 1]))[name = string(\"a\")];
        tensor<fp16, [1, 1, 1, 32]> b = slice_by_index(x = x, begin = tensor<int32, [4]>([0, 0, 0, 32]), end = tensor<int32, [4]>([1, 1, 1, 64]), \
            stride = tensor<int32, [4]>([1, 1, 1, 1]))[name = string(\"b\")];
        tensor<fp16, [1, 1, 1, 32]> y = sub(x = a, y = b)[name = string(\"y\")];
        } -> (y); }";
    let (model, program) = (scratch.file("differences.mil", text), scratch.out("differences.hwx"));
    ane!("compile", model, "-o", program).fine();
    let data = |f: &dyn Fn(usize) -> f32, n: usize| (0..n).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<u8>>();
    let x = |i: usize| 1000.25 + (i as f32 * 0.37).sin();
    let input = scratch.file("x.npy", npy("<f4", false, "(1, 1, 1, 64)", &data(&x, 64)));
    let expected = scratch.file("y.npy", npy("<f4", false, "(1, 1, 1, 32)", &data(&|i| x(i) - x(i + 32), 32)));
    let of = |file: &str| ane!("run", file, "-i", input, "--expect", expected, "--json");
    let tolerance = |ran: &Ran| ran.json("anemone.run/1")["outputs"][0]["atol"].as_f64().expect("a tolerance");
    let (network, compiled) = (of(&model), of(&program));
    assert_eq!((network.code, compiled.code), (Some(0), Some(0)), "{network:?} {compiled:?}");
    let (a, b) = (tolerance(&network), tolerance(&compiled));
    assert!(b >= 0.5 * a && b <= 4.0 * a, "the model's {a}, the program's {b}");
    let told = ane!("run", program, "-i", input, "--expect", expected).fine().out;
    assert!(told.contains("inputs moved by their last place cost"), "{told}");
}

#[test]
fn rules_in_logs_have_addresses() {
    let scratch = Scratch::new();
    let (package, log) = (wide_package(&scratch), scratch.out("log.sarif"));
    assert_eq!(ane!("check", package, "-t", "m4", "--sarif", log).code, Some(1));
    let log: Value = serde_json::from_slice(&std::fs::read(&log).expect("a log")).expect("JSON");
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().cloned().unwrap_or_default();
    for rule in &rules {
        let id = rule["id"].as_str().unwrap_or_default();
        assert!(rule["fullDescription"]["text"].as_str().is_some_and(|t| !t.is_empty()), "{rule}");
        assert!(
            rule["helpUri"].as_str().is_some_and(|uri| uri.contains('#') && (id == "segmenter" || uri.ends_with(id))),
            "{rule}"
        );
    }
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/machine/lint.md")).expect("the page");
    for rule in rules.iter().filter_map(|rule| rule["id"].as_str()).filter(|id| *id != "segmenter") {
        assert!(page.contains(&format!("<a id=\"{rule}\"></a>")), "{rule} has no place in the page");
    }
}

#[test]
fn fixes_of_a_rule_say_what_they_are_for() {
    let told = ane!("explain", "E18").fine().out;
    let fixes: Vec<&str> = told.lines().filter_map(|l| l.trim().strip_prefix("fix ")).map(str::trim).collect();
    assert!(
        fixes.len() > 3 && fixes[1..].iter().all(|fix| fix.split(' ').next().is_some_and(|w| w.ends_with(':'))),
        "{told}"
    );
    assert!(!told.contains("app A") && !told.contains("compile-probe"), "{told}");
}

/// Elements that overflow in fp16 leave the tolerance of the others as it is.
#[test]
fn an_overflow_in_fp16_does_not_widen_the_tolerance() {
    let result = |data: &[f32]| vec![("y".to_string(), Array { shape: vec![data.len()], data: data.to_vec() })];
    let (rounded, exact) = (result(&[1.0, f32::INFINITY, f32::NAN]), result(&[1.5, 2.0, 3.0]));
    let cost = anemone::execute::cost_between(&rounded, &exact, "y").expect("an output of that name");
    assert_eq!((cost.max, cost.rms), (0.5, 0.5));
}
