//! Models in every form that users bring: read, evaluated, converted, compressed; faults point into the text.

use crate::ane;
use crate::harness::*;
use std::path::Path;

const MIL: &str = r#"program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 64, 4, 4]> x) {
        tensor<fp16, [1, 64, 4, 4]> twice = add(x = x, y = x)[name = string("twice")];
        tensor<fp16, [1, 64, 4, 4]> y = relu(x = twice)[name = string("y")];
    } -> (y);
}
"#;

#[test]
fn text_runs_on_the_engine_and_by_reference() {
    let scratch = Scratch::new();
    let mil = scratch.file("net.mil", MIL.as_bytes());
    let expected = scratch.out("y.npy");
    ane!("run", mil, "--reference", "-o", expected).fine();
    let ran = ane!("run", mil, "--expect", expected).fine();
    assert!(ran.out.contains(": ok"), "{ran:?}");
    let ran = ane!("run", mil, "--reference", "--expect", expected, "--json").fine();
    assert_eq!(ran.json("anemone.run/1")["outputs"][0]["max_abs_error"], 0.0);
    ane!("compile", mil, "-o", scratch.out("net.hwx")).fine();
}

#[test]
fn shapes_have_commas_or_crosses() {
    let scratch = Scratch::new();
    let mil = scratch.file("net.mil", MIL.as_bytes());
    for shape in ["x=1,64, 4,4", "x=1x64x4x4"] {
        ane!("run", mil, "--reference", "--shape", shape).fine();
    }
    for (shape, reason) in [
        ("x=1x63x4x4", "`x.1` that is given: the model gives `x` the shape [1, 64, 4, 4]"),
        ("x=1x64x4x4x1", "`x.4` that is given: the model gives"),
        ("z=1x64x4x4", "`z.0` that is given: the inputs are `x`"),
    ] {
        ane!("run", mil, "--reference", "--shape", shape).refused(2, "ANE2004", &[reason]);
    }
    ane!("run", mil, "--shape", "x=1x0").refused(2, "ANE2004", &["INPUT=1x3x224x224"]);
}

/// A product of a sum whose rows are channels of no task: the sum's operand is a slice of an input.
const SLICED: &str = r#"program(1.0)
{
 func main<ios16>(tensor<fp16, [1, 64, 6, 4]> p, tensor<fp16, [1, 64, 4]> q, tensor<fp16, [1, 6, 4]> c) {
  bool no = const()[name = string("no"), val = bool(false)];
  tensor<int32, [4]> b = const()[name = string("b"), val = tensor<int32, [4]>([0, 0, 5, 0])];
  tensor<int32, [4]> e = const()[name = string("e"), val = tensor<int32, [4]>([1, 64, 6, 4])];
  tensor<bool, [4]> m = const()[name = string("m"), val = tensor<bool, [4]>([false, false, true, false])];
  tensor<fp16, [1, 64, 4]> a = slice_by_index(begin = b, end = e, squeeze_mask = m, x = p)[name = string("a")];
  tensor<fp16, [1, 64, 4]> s = add(x = q, y = a)[name = string("s")];
  tensor<int32, [3]> cb = const()[name = string("cb"), val = tensor<int32, [3]>([0, 5, 0])];
  tensor<int32, [3]> ce = const()[name = string("ce"), val = tensor<int32, [3]>([1, 6, 4])];
  tensor<bool, [3]> cm = const()[name = string("cm"), val = tensor<bool, [3]>([false, true, false])];
  tensor<fp16, [1, 4]> c1 = slice_by_index(begin = cb, end = ce, squeeze_mask = cm, x = c)[name = string("c1")];
  tensor<int32, [1]> ax = const()[name = string("ax"), val = tensor<int32, [1]>([2])];
  tensor<fp16, [1, 4, 1]> c2 = expand_dims(axes = ax, x = c1)[name = string("c2")];
  tensor<fp16, [1, 64, 1]> y = matmul(transpose_x = no, transpose_y = no, x = s, y = c2)[name = string("y")];
 } -> (y);
}
"#;

#[test]
fn a_product_reads_the_sum_of_a_slice() {
    let scratch = Scratch::new();
    let mil = scratch.file("net.mil", SLICED.as_bytes());
    let expected = scratch.out("y.npy");
    ane!("run", mil, "--reference", "-o", expected).fine();
    let ran = ane!("run", mil, "--expect", expected).fine();
    assert!(ran.out.contains(": ok"), "{ran:?}");
}

/// Boxes that stay are chosen on the host, between products of the engine and what reads the choice.
#[test]
fn suppression_of_boxes_runs_on_the_host() {
    let scratch = Scratch::new();
    let suppress = |version: &str, boxes: &str, scores: &str, limit: &str, outputs: [&str; 4]| {
        let [kept, best, counted, last] = outputs;
        let text = format!(
            r#"program(1.0)
{{
 func main<{version}>(tensor<fp16, {boxes}> b, tensor<fp16, {scores}> s) {{
  tensor<fp16, {scores}> p = sigmoid(x = s)[name = string("p")];
  tensor<fp16, {kept}> boxes, tensor<fp16, {best}> scores, tensor<int32, [1, 5]> places{counted} = non_maximum_suppression(boxes = b, scores = p, iou_threshold = fp16(0x1.4p-2), {limit}max_boxes = int32(5), per_class_suppression = bool(false))[name = string("kept")];
  tensor<fp16, {kept}> twice = add(x = boxes, y = boxes)[name = string("twice")];
 }} -> (twice, scores, places{last});
}}
"#
        );
        let mil = scratch.file(&format!("{version}.mil"), text.as_bytes());
        let ran = ane!("run", mil, "-v").fine();
        assert!(ran.err.contains("on the host") || ran.out.contains("on the host"), "{ran:?}");
        for output in ["twice", "scores", "places"] {
            let wanted = format!("{output}={}", scratch.out(&format!("{output}.npy")));
            ane!("run", mil, "--reference", "-o", wanted).fine();
            assert!(ane!("run", mil, "--expect", wanted).fine().out.contains(": ok"));
        }
        ane!("compile", mil, "-o", scratch.out("net.hwx")).refused(1, "ANE1001", &["suppress", "--emit hwx,e5"]);
    };
    let limit = "score_threshold = fp16(0x1p-1), ";
    let fourth = ["[1, 5, 4]", "[1, 5, 2]", ", tensor<int32, [1]> count", ", count"];
    suppress("ios15", "[1, 6, 4]", "[1, 6, 2]", limit, fourth);
    suppress("ios17", "[1, 4, 6]", "[1, 2, 6]", "", ["[1, 4, 5]", "[1, 2, 5]", "", ""]);
}

/// A model that the reader refuses is refused by check, too.
#[test]
fn what_cannot_be_read_is_rejected() {
    let scratch = Scratch::new();
    let net = MIL.replace(
        "y = relu(x = twice)",
        "y = slice_update(x = twice, update = x, begin = tensor<int32, [4]>([0, 0, 0, 0]), end = tensor<int32, [4]>([0, 0, 0, 0]))",
    );
    let mil = scratch.file("net.mil", net.as_bytes());
    ane!("compile", mil).refused(1, "ANE1001", &["slice_update"]);
    let report = ane!("check", mil, "-t", "m1", "--json").json("anemone.check/1");
    let counts = &report["chips"][0]["direct"]["counts"];
    assert_eq!(counts["rejected"], 1, "{report}");
}

/// Small numbers are lost in the array's fixed point: the run says how many, where first, and what scale keeps them.
#[test]
fn sums_below_the_resolution_are_counted() {
    let scratch = Scratch::new();
    let weights = vec!["1"; 16].join(", ");
    let net = format!(
        "program(1.0)\n{{\n func main<ios16>(tensor<fp16, [1, 4, 8, 8]> x) {{\n  fp16 s = const()[name = string(\"s\"), val = fp16(0.0001)];\n  \
         tensor<fp16, [4, 4, 1, 1]> w = const()[name = string(\"w\"), val = tensor<fp16, [4, 4, 1, 1]>([{weights}])];\n  \
         tensor<fp16, [1, 4, 8, 8]> t = mul(x = x, y = s)[name = string(\"t\")];\n  \
         tensor<fp16, [1, 4, 8, 8]> y = conv(x = t, weight = w)[name = string(\"y\")];\n }} -> (y, t);\n}}\n"
    );
    let mil = scratch.file("net.mil", net.as_bytes());
    let ran = ane!("run", mil, "--numerics", "exact").fine();
    assert!(ran.out.contains("below the array's resolution") && ran.out.contains(", `y` ("), "{ran:?}");
    let risk = &ane!("run", mil, "--numerics", "exact", "--json").fine().json("anemone.run/1")["risk"];
    assert!(risk["sums"]["lost"].as_u64() > Some(100) && risk["sums"]["growth_log2"].as_u64() > Some(10), "{risk}");
    let ran = ane!("run", mil).fine();
    assert!(!ran.out.contains("resolution"), "{ran:?}");
}

#[test]
fn text_faults_point_at_their_place() {
    let scratch = Scratch::new();
    let mil = scratch.file(
        "net.mil",
        MIL.replace("relu(x = twice)", "relu(x = )").replace("fp16, [1, 64", "half, [1, 64").as_bytes(),
    );
    let ran = ane!("run", mil).refused(2, "ANE2002", &["line 3", "net.mil:3:", "^^^^", "an element type"]);
    assert!(ran.err.contains("net.mil"), "{ran:?}");
    // Each fault has its own mark.
    assert!(ran.err.matches("expected").count() >= 2 && ran.err.contains("2 more"), "{ran:?}");
    let odd = scratch.file("odd.mil", MIL.replace("relu", "random_categorical").as_bytes());
    ane!("run", odd).refused(1, "ANE1001", &["random_categorical", "would not repeat"]);
    let near = scratch.file("near.mil", MIL.replace("relu", "reluu").as_bytes());
    ane!("run", near).refused(1, "ANE1001", &["did you mean `relu`"]);
}

#[test]
fn models_convert_and_still_compute() {
    let scratch = Scratch::new();
    let [package, image, expected] = digits();
    for form in ["mil", "mlpackage"] {
        let out = scratch.out(&format!("digits.{form}"));
        ane!("convert", package, "-o", out, "--palettize", "8").fine();
        let ran = ane!("run", out, "--reference", "-i", image, "--expect", expected, "--atol", "0.05").fine();
        assert!(ran.out.contains(": ok"), "{ran:?}");
    }
    assert!(ane!("convert", package, "--to", "mil").fine().out.starts_with("program("));
    assert!(ane!("convert", package, "--to", "dot").fine().out.starts_with("digraph"));
    let json = ane!("convert", package, "--to", "json").fine().json("anemone.net/1");
    assert!(json["ops"].as_array().is_some_and(|ops| !ops.is_empty()));
    ane!("convert", package, "--to", "zip").refused(2, "ANE2004", &["mil", "mlpackage"]);
    ane!("convert", package).refused(2, "ANE2004", &["--to mil"]);
}

/// Text of a package has its constants in a file beside it; without that file it says what is missing.
#[test]
fn text_comes_with_its_constants() {
    let scratch = Scratch::new();
    let [package, image, expected] = digits();
    let out = scratch.out("plain/digits.mil");
    ane!("convert", package, "-o", out).fine();
    let ran = ane!("run", out, "-i", image, "--expect", expected).fine();
    assert!(ran.out.contains(": ok"), "{ran:?}");
    let weights = Path::new(&out).with_file_name("weights").join("weight.bin");
    let again = scratch.out("again/digits.mil");
    ane!("convert", out, "-o", again).fine();
    let copy = Path::new(&again).with_file_name("weights").join("weight.bin");
    assert_eq!(std::fs::read(&weights).expect("weights"), std::fs::read(copy).expect("a copy"));
    std::fs::remove_file(weights).expect("there");
    ane!("run", out).refused(2, "ANE2002", &["weights/weight.bin", "expected beside the model"]);
    let said = ane!("convert", out, "-o", scratch.out("none.mil")).fine().err;
    assert!(said.contains("is missing"), "{said}");
}

/// A network of two products with 64 x 64 weights in its text, as a package.
fn products(scratch: &Scratch) -> String {
    let weights = |seed: usize| -> String {
        let one = |i: usize| format!("{}", ((i * 37 + seed) % 101) as f32 / 64.0 - 0.75);
        (0..64 * 64).map(one).collect::<Vec<_>>().join(", ")
    };
    let constant = |name: &str, seed: usize| {
        format!("tensor<fp16, [64, 64]> {name} = const()[val = tensor<fp16, [64, 64]>([{}])];", weights(seed))
    };
    let text = format!(
        "program(1.3) {{ func main<ios18>(tensor<fp16, [1, 64]> x) {{ {} {}
        tensor<fp16, [1, 64]> h = linear(x = x, weight = a); tensor<fp16, [1, 64]> r = relu(x = h);
        tensor<fp16, [1, 64]> y = linear(x = r, weight = b); }} -> (y); }}",
        constant("a", 1),
        constant("b", 50)
    );
    let mil = scratch.file("products.mil", text.as_bytes());
    let package = scratch.out("products.mlpackage");
    ane!("convert", mil, "-o", package).fine();
    package
}

#[test]
fn compression_reports_what_it_costs() {
    let scratch = Scratch::new();
    let [digits, ..] = digits();
    for (package, tensors) in [(digits, 1), (products(&scratch), 2)] {
        let cost = |flags: &[&str], least: f64, most: f64| {
            let out = scratch.out("small.mlpackage");
            let fixed = ["convert", &package, "-o", &out, "--json"];
            let ran = run(&fixed.iter().chain(flags).map(ToString::to_string).collect::<Vec<_>>()).fine();
            let cost = &ran.json("anemone.convert/1")["compression"];
            let number = |key: &str| cost[key].as_f64().unwrap_or_else(|| panic!("{key}: {cost}"));
            assert!(number("tensors") >= f64::from(tensors), "{flags:?}: {cost}");
            assert!(number("bytes_after") < 0.9 * number("bytes_before"), "{flags:?}: {cost}");
            let error = number("relative_error");
            assert!(error > least && error < most && number("largest_error") >= 0.0, "{flags:?}: {cost}");
            error
        };
        // Fewer bits cost more, and more zeros cost more.
        let coarse = cost(&["--palettize", "2"], 1e-3, 2.0);
        let fine = cost(&["--palettize", "6"], 1e-5, 0.2);
        assert!(fine < coarse, "{fine} {coarse}");
        cost(&["--int8"], 1e-5, 0.1);
        let few = cost(&["--prune", "0.3"], 1e-4, 1.0);
        let many = cost(&["--prune", "0.7"], 1e-3, 2.0);
        assert!(few < many, "{few} {many}");
        let said = ane!("convert", package, "-o", scratch.out("said.mlpackage"), "--int8").fine();
        assert!(said.err.contains("outputs change by") && said.err.contains("weights compressed"), "{said:?}");
    }
}

#[test]
fn a_form_that_apple_refuses_compiles_with_a_warning() {
    let scratch = Scratch::new();
    let text = "program(1.0)\n{\n func main<ios16>(tensor<fp16, [1, 2, 4, 8]> x) {\n  \
                tensor<fp16, [1, 2, 1, 1]> b = const()[name = string(\"b\"), val = tensor<fp16, [1, 2, 1, 1]>([[[[0x1p-1]], [[0x1p+1]]]])];\n  \
                tensor<fp16, [1, 2, 4, 8]> y = add(x = x, y = b)[name = string(\"y\")];\n } -> (y);\n}\n";
    let model = scratch.file("edge.mil", text);
    let out = scratch.out("edge.hwx");
    let said = ane!("compile", model, "-o", out).fine().err;
    assert!(said.contains("warning: Apple's compiler refuses add `y`") && said.contains("E35"), "{said}");
    ane!("run", model).fine();
    // One meaning for every verb: Apple's verdict.
    ane!("compile", model, "-o", out, "--strict").refused(1, "ANE1002", &["E35", "written out"]);
    ane!("run", model, "--strict").refused(1, "ANE1002", &["E35", "written out"]);
    let checked = ane!("check", model, "--strict");
    assert!(
        checked.code == Some(1) && checked.out.contains("E35") && checked.out.contains("written out"),
        "{checked:?}"
    );
    let said = ane!("compile", model, "-o", out, "--force").fine().err;
    assert!(!said.contains("E35"), "{said}");
}
