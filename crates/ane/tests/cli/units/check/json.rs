use anemone::check::json::Baseline;
use serde_json::json;

fn baseline(paths: &[&str]) -> Baseline {
    let models =
        paths.iter().map(|path| json!({ "path": path, "fallbacks": [{ "target": "h13", "op": path, "code": "E01" }] }));
    let document = json!({ "schema": "anemone.checks/1", "models": models.collect::<Vec<_>>() });
    Baseline::read(&document.to_string(), "baseline.json").expect("a report")
}

#[test]
fn a_model_has_the_report_whose_path_is_most_like_its_own() {
    let known = baseline(&["/home/a/x/model.mlpackage", "/home/a/y/model.mlpackage"]);
    let of = |path: &str| known.of(path, false).first().map(|f| f.op.as_str());
    assert_eq!(of("x/model.mlpackage"), Some("/home/a/x/model.mlpackage"));
    assert_eq!(of("/ci/y/model.mlpackage"), Some("/home/a/y/model.mlpackage"));
    assert_eq!(of("model.mlpackage"), None, "two are alike");
    assert_eq!(of("other.onnx"), None);
}

#[test]
fn the_report_of_another_model_is_named() {
    let known = baseline(&["a/x.onnx"]);
    assert_eq!(known.of_another("b/x.onnx"), None);
    assert_eq!(known.of_another("b/y.onnx"), Some("a/x.onnx"));
    assert_eq!(known.of("b/y.onnx", true).len(), 1);
}
