//! `ane check` and the verbs around it.

use crate::ane;
use crate::harness::*;
use serde_json::Value;
use std::path::Path;

/// Chips of the acceptance list.
const CHIPS: &str = "m1,m2,m3,m4,m5,a14,a15,a16,a17-pro,a18";

#[test]
fn forms_of_the_report() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let [sarif, junit, html] = ["r.sarif", "r.xml", "r.html"].map(|n| scratch.out(n));
    let ran = ane!("check", package, "-t", CHIPS, "--sarif", sarif, "--junit", junit, "--html", html).fine();
    for chip in CHIPS.split(',') {
        assert!(ran.out.contains(chip), "{chip}: {}", ran.out);
    }
    let log = |path| -> Value { serde_json::from_slice(&std::fs::read(path).expect("a log")).expect("JSON") };
    well_formed_sarif(&log(&sarif));
    // The oldest parts refuse an operation: this log has results.
    let refused = scratch.out("old.sarif");
    assert_eq!(ane!("check", package, "-t", "a12", "--sarif", refused).code, Some(1));
    well_formed_sarif(&log(&refused));
    assert_ne!(log(&refused)["runs"][0]["results"].as_array().map(Vec::len), Some(0));
    let xml = std::fs::read_to_string(&junit).expect("a document");
    assert_eq!(xml.matches("<testsuite ").count(), xml.matches("</testsuite>").count());
    assert!(xml.starts_with("<?xml") && xml.contains("failures=\"0\""), "{xml}");
    let page = std::fs::read_to_string(&html).expect("a page");
    // The name of SVG's namespace is an address that nobody visits.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("__DATA__") && !page.contains("http://") && !page.contains("https://"), "no network");
    let document = ane!("check", package, "-t", CHIPS, "--json").fine().json("anemone.check/1");
    let named: Vec<&str> =
        document["chips"].as_array().expect("chips").iter().filter_map(|c| c["chip"].as_str()).collect();
    assert_eq!(named.join(","), CHIPS, "each as it was named");
    assert_eq!(document["ok"], true, "{document}");
    for verdict in document["chips"][0]["direct"]["verdicts"].as_array().expect("verdicts") {
        assert!(verdict["evidence"].is_string() && verdict["place"].is_string(), "{verdict}");
    }
}

/// The log conforms to the schema: `tests/data/ORIGIN.md`.
fn conforms(log: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sarif-schema-2.1.0.json");
    let text = std::fs::read_to_string(path).expect("the schema");
    // The published pattern of languages has a bracket too many, which is no pattern.
    let (published, meant) = ("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}?$");
    assert!(text.contains(published), "then the replacement is no longer needed");
    let schema: Value = serde_json::from_str(&text.replace(published, meant)).expect("JSON");
    let faults = |log| anemone_schema::faults(&schema, log).expect("a schema");
    assert_eq!(faults(log), [""; 0]);
    // The validator does look: a key that the schema does not have is found.
    let mut wrong = log.clone();
    wrong["runs"][0]["tool"]["driver"]["nmae"] = "ane".into();
    assert!(!faults(&wrong).is_empty());
}

/// Checks a log against the SARIF 2.1.0 schema and against the further requirements of code scanning.
fn well_formed_sarif(log: &Value) {
    conforms(log);
    assert_eq!(log["version"], "2.1.0");
    assert!(log["$schema"].as_str().is_some_and(|s| s.contains("sarif")));
    let run = &log["runs"][0];
    let driver = &run["tool"]["driver"];
    assert_eq!(driver["name"], "ane");
    let rules = driver["rules"].as_array().expect("rules");
    let ids: Vec<&str> = rules.iter().filter_map(|r| r["id"].as_str()).collect();
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), rules.len(), "every rule has an id of its own");
    assert!(rules.iter().all(|r| r["shortDescription"]["text"].as_str().is_some_and(|t| !t.is_empty())));
    for result in run["results"].as_array().expect("results") {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(result["ruleId"], ids[index], "{result}");
        assert!(["none", "note", "warning", "error"].contains(&result["level"].as_str().expect("a level")));
        assert!(result["message"]["text"].as_str().is_some_and(|t| !t.is_empty()));
        let location = &result["locations"][0];
        let uri = location["physicalLocation"]["artifactLocation"]["uri"].as_str().expect("a URI");
        assert!(!uri.contains([' ', '\\']), "{uri}");
        assert!(location["logicalLocations"][0]["fullyQualifiedName"].is_string());
        assert!(result["partialFingerprints"].as_object().is_some_and(|f| f.values().all(Value::is_string)));
    }
}

#[test]
fn what_is_off_the_engine_fails() {
    let scratch = Scratch::new();
    // The oldest parts have no softmax: their capability byte is 0.
    let [package, ..] = digits();
    let refused = ane!("check", package, "-t", "a12");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let last = refused.out.lines().last().expect("a last line");
    assert!(last.starts_with("no (direct): ") && last.contains("off the Neural Engine of a12"), "{last}");
    let first = refused.out.lines().next().expect("a first line");
    assert!(
        first.starts_with("a12: ") && first.contains("; Core ML would use the CPU for all"),
        "both routes: {first}"
    );
    let second = refused.out.lines().nth(1).expect("a second line");
    assert!(second.starts_with("Fix first: reduce_mean `") && second.contains("(a12)"), "{second}");
    assert!(refused.out.contains("fix:") && refused.out.contains("evidence:"), "{}", refused.out);
    assert_eq!(ane!("check", package, "-t", "a12", "--max-fallback", "99").code, Some(0));

    let before = ane!("check", package, "-t", "a12", "--json");
    assert_eq!(before.code, Some(1));
    let baseline = scratch.file("before.json", &before.out);
    let known = ane!("check", package, "-t", "a12", "--baseline", baseline).fine();
    let last = known.out.lines().last().expect("a last line");
    assert_eq!(last, "yes (direct): nothing new is off the Neural Engine, by the baseline", "as the exit code: {last}");
    let empty = scratch.file("empty.json", r#"{"schema":"anemone.check/1","fallbacks":[]}"#);
    assert_eq!(ane!("check", package, "-t", "a12", "--baseline", empty).code, Some(1));
    let wrong = scratch.file("wrong.json", "{}");
    ane!("check", package, "--baseline", wrong).refused(2, "ANE2002", &["anemone.check/1"]);

    let annotated = ane!("check", package, "-t", "a12", "--github");
    assert_eq!(annotated.code, Some(1));
    assert!(
        annotated.out.lines().all(|l| l.starts_with("::error ") || l.starts_with("::warning ")),
        "{}",
        annotated.out
    );
}

#[test]
fn both_routes_are_told() {
    let [package, ..] = digits();
    let out = ane!("check", package).fine().out;
    assert!(out.contains("direct") && out.contains("framework"), "{out}");
    // A model this small is cheaper on the CPU: the first line says so beside the operations that can run.
    let first = out.lines().next().expect("a first line");
    let operations =
        first.contains("can run on the Neural Engine") && first.contains("Core ML would use the CPU for all");
    assert!(operations && first.contains("too little work"), "{first}");
    let framework = ane!("check", package, "--route", "framework");
    assert_eq!(framework.code, Some(1), "{framework:?}");
    assert!(framework.out.contains("segmenter"), "{}", framework.out);
    ane!("check", package, "--route", "scenic").refused(2, "ANE2004", &["scenic", "direct, framework"]);
    ane!("check", package, "--assume", "max-abs=minus").refused(2, "ANE2004", &["max-abs=minus"]);
    ane!("check", package, "--assume", "max-abs=100,private").fine();
}

#[test]
fn a_container_is_checked_as_a_load_would() {
    let scratch = Scratch::new();
    let program = scratch.out("x.hwx");
    ane!("compile", scratch.relu(), "-o", program).fine();
    let fine = ane!("check", program).fine().out;
    assert!(fine.starts_with("yes: "), "{fine}");
    assert_eq!(ane!("check", program, "--json").fine().json("anemone.load/1")["ok"], true);
    let mut bytes = std::fs::read(&program).expect("a container");
    // The first tensor record's row stride: a row of 16 columns needs 32 bytes.
    let name = bytes.windows(4).position(|w| w == [3, 0, 0, 0]).expect("a record");
    assert!(name > 0);
    replace(&mut bytes, b"x\0", b"\0\0");
    let damaged = scratch.file("damaged.hwx", &bytes);
    let ran = ane!("check", damaged);
    assert!(matches!(ran.code, Some(0..=2)), "{ran:?}");
    ane!("check", program, "--html", scratch.out("x.html")).refused(2, "ANE2004", &["no operations"]);
}

#[test]
fn reference_verbs() {
    assert!(ane!("explain", "E08").fine().out.contains("kernel"));
    assert_eq!(ane!("explain", "ANE1108").fine().out, ane!("explain", "E08").fine().out);
    assert!(ane!("explain", "ANE2001").fine().out.contains("cannot be read"));
    assert!(ane!("explain", "texture_engine").fine().out.contains("0x81d"));
    ane!("explain", "sofmax").refused(2, "ANE2004", &["did you mean `softmax`"]);
    assert!(ane!("explain").fine().out.lines().count() > 80);
    assert!(ane!("ops", "SDPA").fine().out.contains("4 or 5 bottoms must be present for SDPA"));
    assert!(ane!("ops", "_ANECValidateNetworkCreate").fine().out.contains("dry run"));
    ane!("ops", "convv").refused(2, "ANE2004", &["did you mean `conv`"]);
    let document = ane!("ops", "--json").fine().json("anemone.ops/1");
    assert_eq!(document["exports"].as_array().map(Vec::len), Some(55));
    assert!(ane!("targets", "m1", "m4").fine().out.contains("texture_engine"));
    assert!(ane!("targets", "--field", "0x81d").fine().out.contains("texture"));
    ane!("targets", "m11x").refused(2, "ANE2004", &["did you mean `m11`"]);
    assert!(ane!("doctor").fine().out.contains("software engine"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(ane!("completions", shell).fine().out.contains("ane"), "{shell}");
    }
    assert!(ane!("man").fine().out.contains(".TH"));
    assert!(ane!("man", "check").fine().out.contains("max\\-fallback"));
    ane!("man", "chek").refused(2, "ANE2004", &["did you mean `check`"]);
}

#[test]
fn every_verb_has_examples() {
    let help = ane!("--help").fine().out;
    let verbs: Vec<&str> = help
        .lines()
        .take_while(|l| !l.starts_with("Options:"))
        .filter_map(|l| l.strip_prefix("  ").filter(|l| !l.starts_with(' ')).and_then(|l| l.split(' ').next()))
        .filter(|verb| *verb != "help")
        .collect();
    assert!(verbs.len() >= 20 && verbs.contains(&"check"), "{verbs:?}");
    // Every verb that the program has stands in a group.
    let completions = ane!("completions", "bash").fine().out;
    let known = completions.lines().find_map(|l| l.trim().strip_prefix("opts=\"")).unwrap_or_default();
    for verb in known.trim_end_matches('"').split(' ').filter(|w| !w.starts_with('-') && !w.is_empty()) {
        assert!(
            verbs.contains(&verb) || verb == "help" || verb.contains("service"),
            "{verb} is in no group: {verbs:?}"
        );
    }
    for verb in verbs {
        let told = ane!(verb, "--help").fine().out;
        assert!(told.contains("Examples:") && told.contains(&format!("ane {verb}")), "{verb}: {told}");
        unbroken(&told);
        // The options of every verb stand behind its own: --json, --quiet, --verbose and help.
        let group = told.split("\nOptions:\n").nth(1).unwrap_or_default();
        let group = group.lines().take_while(|line| line.is_empty() || line.starts_with(' '));
        let options: Vec<&str> = group.map(str::trim_start).filter(|line| line.starts_with('-')).collect();
        let common = options.iter().position(|line| line.contains("--json"));
        assert!(common.is_none_or(|at| at + 4 >= options.len()), "{verb}: {options:?}");
    }
    ane!("chekc", "x").refused(2, "ANE2004", &["similar subcommand", "'check'"]);
    let [package, ..] = digits();
    ane!("check", package, "-t", "m1x").refused(2, "ANE2004", &["did you mean `m1`"]);
}

/// Prose is wrapped once: no line ends where the next word would have fitted.
fn unbroken(help: &str) {
    let lines: Vec<&str> = help.lines().collect();
    for pair in lines.windows(2) {
        let prose = pair.iter().all(|l| !l.is_empty() && !l.starts_with(' '));
        let word = pair[1].split(' ').next().unwrap_or_default();
        let continues = word.starts_with(|c: char| c.is_lowercase());
        assert!(!(prose && continues && pair[0].len() + 1 + word.len() < 100), "{pair:?}");
    }
}

/// Two chips of one generation get one answer; products and groups name chips; identifiers keep their comma.
#[test]
fn names_of_chips() {
    let [package, ..] = digits();
    let answer = |name: &str| {
        let mut document = ane!("check", package, "-t", name, "--json").json("anemone.check/1");
        let chip = document["chips"][0]["chip"].take();
        document["fallbacks"].take();
        (chip.as_str().unwrap_or_default().to_string(), document)
    };
    for (one, other) in [("a14", "m1"), ("a15", "m2"), ("a16", "m3"), ("a17-pro", "m4"), ("a18", "m5")] {
        assert_eq!(answer(one).1, answer(other).1, "{one} and {other}");
    }
    assert_eq!(answer("iPhone13,2").0, "iphone-12 (a14)");
    assert_eq!(answer("A17 Pro").0, "a17-pro");
    assert_eq!(answer("ipad-pro-m4").1, answer("m4").1);
    let named = |list: &str| -> Vec<String> {
        let document = ane!("check", package, "-t", list, "--json").json("anemone.check/1");
        let chips = document["chips"].as_array().cloned().unwrap_or_default();
        chips.iter().filter_map(|c| c["chip"].as_str().map(str::to_string)).collect()
    };
    assert_eq!(named("iphone"), ["a12", "a13", "a14", "a15", "a16", "a17-pro", "a18", "a19"]);
    assert_eq!(named("m1,iPhone13,2,m1"), ["m1", "iphone-12 (a14)"]);
    ane!("check", package, "-t", "a11").refused(2, "ANE2004", &["A11", "A12"]);
    ane!("compile", package, "-t", "iphone", "-o", "/dev/null").refused(2, "ANE2004", &["several chips", "a14"]);
    ane!("check", package, "-t", "iphone12,6x").refused(2, "ANE2004", &["no chip is known as 6x"]);
}

/// The M1's larger siblings compile, run and say what they are for.
#[test]
fn larger_siblings_of_the_m1_compile_and_run() {
    let scratch = Scratch::new();
    let [package, image, ..] = digits();
    for (name, target) in [("m1-max", "h13g"), ("m1-ultra", "h13g"), ("h13g", "h13g"), ("t1", "t1"), ("a14", "h13")] {
        let out = scratch.out(&format!("{name}.hwx"));
        ane!("compile", package, "-t", name, "-o", out).fine();
        let banner = ane!("dump", out, "--part", "ident").fine().out;
        assert!(banner.contains(&format!("-t {target}")), "{name}: {}", banner);
        // The time is the chip's own; the numbers are not.
        let numbers =
            |ran: Ran| ran.fine().out.lines().filter(|l| !l.starts_with("modelled")).collect::<Vec<_>>().join("\n");
        let whole = numbers(ane!("run", package, "-t", name, "--input", image));
        assert_eq!(whole, numbers(ane!("run", package, "--input", image)), "{name}");
        let listed = scratch.out(&format!("{name}.asm"));
        std::fs::write(&listed, ane!("dump", out, "--asm").fine().out).expect("a listing");
        let again = scratch.out(&format!("{name}-again.hwx"));
        ane!("asm", listed, "-o", again).fine();
        assert_eq!(std::fs::read(&out).ok(), std::fs::read(&again).ok(), "{name}: the listing assembles back");
    }
}

/// Several models and folders: a row each, and one exit code.
#[test]
fn several_models() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let folder = Path::new(&package).parent().expect("a folder").display().to_string();
    let ran = ane!("check", package, scratch.relu(), "-t", "m1,a14");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let rows: Vec<&str> = ran.out.lines().collect();
    assert!(
        rows[0].starts_with("model") && rows[1].contains("digits.mlpackage") && rows[1].contains("m1, a14"),
        "{ran:?}"
    );
    assert!(ran.out.ends_with("yes (direct): 2 models\n"), "{ran:?}");
    assert!(ane!("check", folder).fine().out.contains("digits.mlpackage"));
    let missing = ane!("check", package, "no-such.onnx");
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.out.contains("no-such.onnx") && missing.out.contains("cannot be read"), "{missing:?}");
    let document = ane!("check", package, scratch.relu(), "--json").fine().json("anemone.checks/1");
    assert_eq!(document["models"].as_array().map(Vec::len), Some(2));
    ane!("check", package, scratch.relu(), "--html", scratch.out("x.html")).fine();
}

/// Words of the report are explained.
#[test]
fn words_are_explained() {
    for word in
        ["supported", "fused", "folded", "decomposed", "graph break", "transfers", "segments", "hand-over", "framework"]
    {
        let told = ane!("explain", word).fine().out;
        assert!(told.contains(": ") && told.len() > 60, "{word}: {told}");
    }
    let told = ane!("explain", "iPhone13,2").fine().out;
    assert!(told.starts_with("iphone-12: A14") && told.contains("h13"), "{told}");
    assert!(ane!("explain", "A17").fine().out.contains("A17 Pro"));
    let conv = ane!("explain", "conv").fine().out;
    assert!(!conv.contains("Between(") && !conv.contains("Number("), "{conv}");
}

/// Models that fail, fixed, checked again, compiled and run: the numbers stay.
#[test]
fn fixes_are_applied() {
    let scratch = Scratch::new();
    let weights =
        |n: usize| (0..n).map(|i| format!("{}", ((i * 37 % 29) as f32 - 14.0) / 64.0)).collect::<Vec<_>>().join(", ");
    let model = |name: &str, x: &str, w: &str, n: usize, attributes: &str, y: &str| {
        let text = format!(
            "program(1.3) {{ func main<ios18>(tensor<fp16, {x}> x) {{
             tensor<fp16, {w}> w = const()[val = tensor<fp16, {w}>([{}])];
             tensor<fp16, {y}> y = conv(x = x, weight = w, {attributes}, groups = int32(1))[name = string(\"y\")]; }} -> (y); }}",
            weights(n)
        );
        scratch.file(name, text.as_bytes())
    };
    let plain =
        "pad_type = string(\"valid\"), pad = tensor<int32, [4]>([0, 0, 0, 0]), dilations = tensor<int32, [2]>([1, 1])";
    let patch = model(
        "patch.mil",
        "[1, 3, 64, 64]",
        "[4, 3, 16, 16]",
        4 * 3 * 256,
        &format!("strides = tensor<int32, [2]>([16, 16]), {plain}"),
        "[1, 4, 4, 4]",
    );
    let spectrum = model(
        "spectrum.mil",
        "[1, 1, 1, 700]",
        "[6, 1, 1, 64]",
        6 * 64,
        &format!("strides = tensor<int32, [2]>([1, 24]), {plain}"),
        "[1, 6, 1, 27]",
    );
    let wide = model(
        "wide.mil",
        "[1, 2, 8, 40]",
        "[3, 2, 1, 21]",
        3 * 2 * 21,
        &format!("strides = tensor<int32, [2]>([1, 1]), {plain}"),
        "[1, 3, 8, 20]",
    );
    let same = "pad_type = string(\"custom\"), pad = tensor<int32, [4]>([10, 10, 3, 17]), dilations = tensor<int32, [2]>([1, 1])";
    let large = model(
        "large.mil",
        "[1, 2, 24, 24]",
        "[3, 2, 21, 21]",
        3 * 2 * 441,
        &format!("strides = tensor<int32, [2]>([1, 1]), {same}"),
        "[1, 3, 24, 24]",
    );
    for (file, says) in [
        (patch, "space-to-depth by 16x16"),
        (spectrum, "space-to-depth by 1x24"),
        (wide, "exchanged"),
        (large, "sum of"),
    ] {
        let told = ane!("check", file, "-t", "m1").fine();
        assert!(told.out.contains("decomposed here, refused by Apple's compiler"), "{told:?}");
        let fixed = scratch.out("fixed.mlpackage");
        let ran = ane!("fix", file, "-o", fixed).fine();
        assert!(ran.out.contains(says), "{ran:?}");
        ane!("check", fixed, "-t", "m1").fine();
        ane!("compile", fixed, "-o", scratch.out("fixed.hwx")).fine();
        let (a, b) = (scratch.out("a.npy"), scratch.out("b.npy"));
        ane!("run", file, "--reference", "-o", a).fine();
        ane!("run", fixed, "--reference", "-o", b, "--expect", a).fine();
        ane!("run", fixed, "--expect", a).fine();
        let _ = std::fs::remove_dir_all(&fixed);
    }
}

/// A model that is no static graph is listed, and the form of the reader counts as a fix.
#[test]
fn fixes_follow_the_file() {
    let scratch = Scratch::new();
    let text = "program(1.0) { func main<ios16>(tensor<fp16, [1, 4, 1, 8]> x) {
        tensor<fp16, [1, 4, 1, 8]> y = cumsum(axis = int32(3), exclusive = bool(false), reverse = bool(false), x = x)[name = string(\"y\")];
        } -> (y); }";
    let model = scratch.file("sum.mil", text.as_bytes());
    for chip in ["m1", "h16", "a18"] {
        let fixed = scratch.out("sum.mlpackage");
        let ran = ane!("fix", model, "-t", chip, "-o", fixed).fine();
        assert!(ran.out.contains("fixed: cumsum `y` is now"), "{ran:?}");
        ane!("check", fixed, "-t", chip).fine();
        let _ = std::fs::remove_dir_all(&fixed);
    }
}

/// Files and a baseline of several models in one call.
#[test]
fn several_models_in_one_call() {
    let scratch = Scratch::new();
    let ([package, ..], relu) = (digits(), scratch.relu());
    let [sarif, junit] = ["all.sarif", "all.xml"].map(|name| scratch.out(name));
    let ran = ane!("check", package, relu, "-t", "a12", "--sarif", sarif, "--junit", junit);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(ran.out.lines().last(), Some("no (direct): 1 of 2 models fall back to the CPU"), "{ran:?}");
    let log: Value = serde_json::from_slice(&std::fs::read(&sarif).expect("a log")).expect("JSON");
    well_formed_sarif(&log);
    let xml = std::fs::read_to_string(&junit).expect("a document");
    assert_eq!(xml.matches("<testsuite ").count(), 2, "{xml}");
    let before = scratch.file("before.json", ane!("check", package, relu, "-t", "a12", "--json").out);
    let known = ane!("check", package, relu, "-t", "a12", "--baseline", before).fine();
    assert!(known.out.trim_end().ends_with("nothing new off the engine by the baseline"), "{known:?}");
    ane!("check", package, "-t", "a12", "--baseline", before).fine();
    // The report of one model does not excuse another: it is named.
    let other = scratch.file("other.json", ane!("check", relu, "-t", "a12", "--json").out);
    let warned = ane!("check", package, "-t", "a12", "--baseline", other);
    assert!(warned.code == Some(1) && warned.err.contains("the baseline is a report on"), "{warned:?}");
    // One that cannot be read is an error of its suite, and what the book refuses is refused.
    let absent = scratch.path("none.onnx");
    assert_eq!(ane!("check", package, absent, "--junit", junit).code, Some(2));
    assert!(std::fs::read_to_string(&junit).expect("a document").contains("<error type=\"ANE2001\""));
}

/// The text report's `-v` and the JSON state one time: the engine's part is the sum over operations and the rest.
#[test]
fn time_by_operation() {
    let [package, ..] = digits();
    let document = ane!("check", package, "-t", "m1,m2", "--json").fine().json("anemone.check/1");
    let here = &document["chips"][0]["here"];
    let by_op: Vec<u64> =
        here["engine"]["operations_ns"].as_array().expect("times").iter().filter_map(Value::as_u64).collect();
    assert_eq!(by_op.len(), document["operations"].as_array().map_or(0, Vec::len));
    let engine = by_op.iter().sum::<u64>() + here["engine"]["other_ns"].as_u64().unwrap_or(0);
    let whole = here["modelled"]["total_ns"].as_u64().expect("a time");
    assert!(engine > 0 && engine < whole, "{here}");
    let convolutions = document["operations"].as_array().into_iter().flatten().zip(&by_op);
    assert!(convolutions.filter(|(op, _)| op["op"] == "conv").all(|(_, ns)| *ns > 0), "each has a task: {here}");
    assert_eq!(document["chips"][1]["here"], Value::Null, "no program for an M2, so no time");
    let told = ane!("check", package, "-v").fine().out;
    assert!(told.lines().any(|line| line.contains(" us ") && line.contains(" %  conv `")), "{told}");
}

/// A path that does not exist: what, where, and a name that does.
#[test]
fn a_missing_file_is_named_with_what_is_there() {
    let scratch = Scratch::new();
    scratch.file("network.onnx", b"x");
    let close = scratch.path("netwrk.onnx");
    for verb in ["check", "run", "compile", "dump", "fix"] {
        ane!(verb, close).refused(2, "ANE2001", &["cannot read", "netwrk.onnx", "did you mean `network.onnx`"]);
    }
    let far = scratch.path("zzz.mil");
    ane!("check", far).refused(2, "ANE2001", &["has no `zzz.mil`", "models there: network.onnx"]);
    let deep = scratch.path("absent/x.mil");
    ane!("check", deep).refused(2, "ANE2001", &["has no `absent`"]);
}

/// A name without an ending gets that of the form.
#[test]
fn outputs_without_an_ending_get_one() {
    let scratch = Scratch::new();
    let (model, bare) = (scratch.relu(), scratch.out("name"));
    ane!("compile", model, "-o", bare).fine();
    ane!("compile", model, "-o", bare, "--emit", "anec").fine();
    assert!(Path::new(&format!("{bare}.hwx")).is_file() && Path::new(&format!("{bare}.anec")).is_file());
    assert!(!Path::new(&bare).exists());
}
