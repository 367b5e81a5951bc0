//! Models in every form that users bring: read, evaluated, converted, compressed; faults point into the text.

use crate::ane;
use crate::harness::*;

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
fn text_faults_point_at_their_place() {
    let scratch = Scratch::new();
    let mil = scratch.file(
        "net.mil",
        MIL.replace("relu(x = twice)", "relu(x = )").replace("fp16, [1, 64", "half, [1, 64").as_bytes(),
    );
    let ran = ane!("run", mil).refused(2, "ANE2002", &["line 3", "net.mil:3:", "^^^^", "an element type"]);
    assert!(ran.err.contains("net.mil"), "{ran:?}");
    let odd = scratch.file("odd.mil", MIL.replace("relu", "non_zero").as_bytes());
    ane!("run", odd).refused(1, "ANE1001", &["non_zero", "static"]);
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
