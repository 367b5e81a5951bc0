//! Native layers on the command line: schema and template, a netplist that compiles, refusals with their key and their gate.

use crate::ane;
use crate::harness::{Scratch, netplist, npy};

#[test]
fn the_books_convention_refuses_what_the_book_refuses() {
    let scratch = Scratch::new();
    let net = scratch.path("norm.plist");
    ane!("new", "--native", "MinMaxNormalization", "-o", net).fine();
    ane!("compile", net, "-o", scratch.out("a.hwx")).fine();
    for verb in ["check", "compile", "run"] {
        ane!(verb, net, "--convention", "book", "-t", "m1").refused(1, "ANE1002", &["the book", "range normalization"]);
        // Apple's verdict is another.
        ane!(verb, net, "--strict", "-t", "m1");
    }
    ane!("check", net, "--convention", "book", "-t", "m2").fine();
    let shuffle = |x: u32| {
        let text = ["FactorX", "FactorY"].map(|key| format!("<key>{key}</key><integer>{x}</integer>")).concat();
        let [from, to] = [50, 2].map(|n| format!("<key>OutputChannels</key><integer>{n}</integer>"));
        scratch.file("shuffle.plist", netplist("ChannelToSpace", &text, 50, 1).replace(&from, &to))
    };
    ane!("compile", shuffle(5), "-o", scratch.out("b.hwx")).fine();
    ane!("compile", shuffle(5), "-o", scratch.out("b.hwx"), "--convention", "book").refused(
        1,
        "ANE1002",
        &["2, 3, 4 and 8"],
    );
    let cross = scratch.path("cross.plist");
    ane!("new", "--native", "CrossProduct", "-o", cross).fine();
    let text = std::fs::read_to_string(&cross).expect("XML");
    let interleaved =
        text.replace("<key>InputWidth</key>", "<key>InputInterleave</key><integer>3</integer><key>InputWidth</key>");
    let cross = scratch.file("cross.plist", interleaved);
    ane!("compile", cross, "-o", scratch.out("c.hwx")).refused(1, "ANE1001", &["interleave"]);
    let eight = scratch.file("e4m3.plist", text.replace("<string>Float16</string>", "<string>E4M3</string>"));
    ane!("compile", eight, "-o", scratch.out("d.hwx")).refused(
        1,
        "ANE1001",
        &["E4M3 is not supported on this architecture"],
    );
}

#[test]
fn the_books_convention_holds_units_to_the_chapter() {
    let scratch = Scratch::new();
    for (layer, change, chip, told) in [
        ("InputView", ("", ""), "m1", "must follow a reshape"),
        ("Neuron", (">ReLU<", ">Sin<"), "m1", "no direct-authoring bridge"),
        ("RingBufferWriter", ("", ""), "m2", "connect to a live state"),
    ] {
        let path = scratch.path("unit.plist");
        let _ = std::fs::remove_file(&path);
        ane!("new", "--native", layer, "-o", path).fine();
        let text = std::fs::read_to_string(&path).expect("XML").replace(change.0, change.1);
        let path = scratch.file("unit.plist", text);
        ane!("check", path, "-t", chip, "--convention", "book").refused(1, "ANE1002", &[told]);
        ane!("compile", path, "-t", chip, "-o", scratch.out("a.hwx"), "--convention", "book").refused(
            1,
            "ANE1002",
            &[told],
        );
        ane!("compile", path, "-t", chip, "-o", scratch.out("a.hwx")).fine();
    }
}

#[test]
fn kinds_and_entries_of_graph_units_are_refused_in_the_parsers_words() {
    let scratch = Scratch::new();
    for (layer, from, to, told) in [
        (
            "Conv",
            "<key>Type</key>\n\t\t\t\t<string>Conv</string>",
            "<key>Type</key><string>Con</string>",
            "`Con` where Conv is",
        ),
        ("Broadcast", "<key>Size</key>", "<key>Sise</key>", "an entry without `Size`, which is integer from 1"),
        ("Broadcast", "<key>Size</key>", "<key>Sise</key>", "`Sise` is none of its keys"),
        (
            "Transpose",
            "TransposeSourceDimension",
            "TransposeSource",
            "without `TransposeSourceDimension`, which is Batch or",
        ),
    ] {
        let file = scratch.out("net.plist");
        ane!("new", "--native", layer, "-o", file).fine();
        let text = std::fs::read_to_string(&file).expect("a template");
        assert!(text.contains(from), "{layer}: {text}");
        let file = scratch.file("changed.plist", text.replacen(from, to, 1));
        ane!("compile", file, "-o", scratch.out("n.hwx")).refused(2, "ANE2002", &["InvalidParamSyntax", layer, told]);
    }
}

#[test]
fn layers_that_no_program_has_are_refused_with_their_reason_by_every_route() {
    let scratch = Scratch::new();
    let template = scratch.out("net.plist");
    ane!("new", "--native", "Neuron", "-o", template).fine();
    let text = std::fs::read_to_string(&template).expect("a template");
    for (layer, other, told) in [
        (
            "Random",
            "RandomGenerator",
            "no source gives the generator's sequence; its validator reads the capability `dropout_random` (offset 0x4a9",
        ),
        ("NMS", "NMS", "no engine runs it"),
        ("KernelRasterizer", "KernelRasterizer", "code generation fails on the M5 too"),
        ("MatrixDecomposition", "MatrixDecomposition", "no source gives its result"),
    ] {
        ane!("new", "--native", layer).refused(1, "ANE1001", &[layer, told]);
        for name in [layer, other] {
            let unit = text.replace(
                "<key>Type</key>\n\t\t\t<string>Neuron</string>",
                &format!("<key>Type</key><string>{name}</string>"),
            );
            assert_ne!(unit, text);
            let mil = format!(
                "program(1.3)\n{{\n  func main<ios16>(tensor<fp16, [1, 8]> x) {{\n    \
                 tensor<fp16, [1, 8]> y = anec.{name}(bottom = (x))[name = string(\"y\")];\n  }} -> (y);\n}}\n"
            );
            for file in [scratch.file("unit.plist", unit), scratch.file("unit.mil", mil)] {
                ane!("compile", file, "-o", scratch.out("n.hwx")).refused(1, "ANE1001", &[layer, told]);
            }
        }
    }
    let ty = "tensor<fp16, [1, 2, 8, 16]>";
    let three = format!(
        "program(1.3)\n{{\n  func main<ios16>({ty} q, {ty} k, {ty} v) {{\n    \
         {ty} y = anec.sdpa(bottom = (q, k, v), subtract_max = bool(true))[name = string(\"y\")];\n  }} -> (y);\n}}\n"
    );
    let refused = ane!("compile", scratch.file("three.mil", three), "-o", scratch.out("n.hwx"));
    refused.refused(2, "ANE2002", &["takes 4 to 5", "4 or 5 bottoms must be present for SDPA"]);
}

/// A netplist with a state that grows by its input in each run: a mover writes it.
const STATES: &str = r#"<?xml version="1.0"?><plist version="1.0"><dict>
<key>Version</key><string>1.0.10</string><key>Networks</key><array><string>net</string></array>
<key>net</key><dict>
<key>Inputs</key><array><string>x</string></array><key>States</key><array><string>s</string></array>
<key>Units</key><array><string>sum</string><string>move</string></array><key>Outputs</key><array><string>y</string></array>
<key>x</key>ENTRY<key>s</key>ENTRY
<key>sum</key><dict><key>Name</key><string>sum</string><key>Type</key><string>ElementWise</string>
<key>Bottom</key><array><string>x</string><string>s</string></array><key>OutputType</key><string>Float16</string>
<key>Params</key><dict><key>Type</key><string>Add</string></dict></dict>
<key>move</key><dict><key>Name</key><string>move</string><key>Type</key><string>TensorToTensorBuffer</string>
<key>Bottom</key><array><string>sum</string><string>s</string></array><key>OutputType</key><string>Float16</string></dict>
<key>y</key><dict><key>Bottom</key><string>sum</string><key>OutputType</key><string>Float16</string></dict>
</dict></dict></plist>"#;

#[test]
fn states_of_a_netplist_are_held() {
    let scratch = Scratch::new();
    let entry = "<dict><key>InputType</key><string>Float16</string><key>InputChannels</key><integer>1</integer>\
        <key>InputHeight</key><integer>1</integer><key>InputWidth</key><integer>4</integer></dict>";
    let model = scratch.file("net.plist", STATES.replace("ENTRY", entry));
    let ones: Vec<u8> = (0..4).flat_map(|_| 1f32.to_le_bytes()).collect();
    let x = scratch.file("x.npy", npy("<f4", false, "(1, 1, 1, 4)", &ones));
    ane!("compile", model, "-o", scratch.out("net/"), "--emit", "hwx,e5").fine();
    for (file, via) in [(&model, false), (&model, true), (&scratch.out("net/net.e5"), false)] {
        let mut arguments =
            vec!["run".to_string(), file.to_string(), "-i".into(), format!("x={x}"), "--repeat".into(), "3".into()];
        if via {
            arguments.extend(["--via".into(), "inprocess".into(), "--cache".into(), scratch.path("cache")]);
        }
        let ran = crate::harness::run(&arguments).fine();
        assert!((ran.out + &ran.err).contains("[3.0, 3.0, 3.0, 3.0]"), "{arguments:?}");
    }
    ane!("explain", "LiveState").fine();
    let twice = STATES
        .replace("ENTRY", entry)
        .replace("<string>sum</string><string>s</string></array>", "<string>s</string><string>s</string></array>");
    let other = twice.replace(
        "<key>InputWidth</key><integer>4</integer></dict>\n<key>sum</key>",
        "<key>InputWidth</key><integer>5</integer></dict>\n<key>sum</key>",
    );
    ane!("compile", scratch.file("other.plist", other), "-o", scratch.out("b.hwx")).refused(2, "ANE2002", &["s"]);
}

#[test]
fn every_template_of_a_new_netplist_compiles() {
    let scratch = Scratch::new();
    for layer in ["SDPA", "TopK", "pixel_shuffle", "affine_transform", "RingBufferWriter", "DynamicSlice"] {
        let file = scratch.out("net.plist");
        ane!("new", "--native", layer, "-o", file).fine();
        ane!("compile", file, "-t", "first", "-o", scratch.out("net.hwx")).fine();
        let _ = std::fs::remove_file(scratch.out("net.weights"));
    }
    let dump = ane!("dump", scratch.out("net.hwx"), "-v").fine().out;
    assert!(dump.contains("own-native, not Apple's"), "{dump}");
    ane!("new", "--native", "SDPAA").refused(2, "ANE2004", &["did you mean `SDPA`"]);
    ane!("new", "--native", "NMS").refused(1, "ANE1001", &["no engine runs it"]);
}

#[test]
fn schema_and_template_are_printed() {
    let text = ane!("ops", "SDPA").fine().out;
    for part in
        ["ANECSDPALayerDesc", "ZinParseSDPAUnit", "SubtractMax", "default false", "<key>Type</key>", "h13 (M1, A14)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(ane!("ops", "FurthestPointSampling").fine().out.contains("CentroidCount"));
    assert!(ane!("ops", "--layers").fine().out.contains("LocalResponseNormalization"));
    let document = ane!("ops", "TopK", "--json").fine().json("anemone.ops/1");
    let rows = document["ops"].as_array().expect("a list");
    assert!(rows.iter().any(|row| row["kind"] == "native" && row["params"].as_array().is_some_and(|p| p.len() == 6)));
}

#[test]
fn hazards_of_layers_are_told_in_compile_and_run() {
    let scratch = Scratch::new();
    let template = ane!("new", "--native", "TopK").fine().out;
    for (width, refused) in [("40", false), ("2049", false), ("16384", true)] {
        let wide = template.replace("<integer>40</integer>", &format!("<integer>{width}</integer>"));
        let file = scratch.file("net.plist", wide);
        let out = scratch.out("net.hwx");
        let all = [ane!("run", file), ane!("compile", file, "-o", out), ane!("run", file, "--via", "inprocess")];
        for ran in all {
            let said = ["inexact-index", "16384 positions", "2048"].iter().all(|part| ran.err.contains(part));
            assert_eq!((ran.code, said), (Some(i32::from(refused)), refused), "{width}: {}", ran.err);
        }
        assert_eq!(ane!("check", file, "-t", "m1").code, Some(i32::from(refused)), "{width}");
    }
    let plain = ane!("new", "--native", "MatrixMult").fine().out;
    assert_eq!(ane!("new", "--native", "anec.matmul").fine().out, plain);
    let file = scratch.out("attention.plist");
    ane!("new", "--native", "SDPA", "-o", file).fine();
    let set = std::fs::read_to_string(&file).expect("the template");
    for (text, told) in [(set.clone(), false), (set.replace("<true/>", "<false/>"), true)] {
        std::fs::write(&file, text).expect("written");
        for said in [ane!("run", file).fine().err, ane!("compile", file, "-o", scratch.out("a.hwx")).fine().err] {
            assert_eq!(said.contains("W17"), told, "{said}");
        }
    }
}

#[test]
fn names_that_no_unit_has_are_told() {
    for (name, part) in [("LiveState", "`States`"), ("tensor_to_buffer", "as its input"), ("State", "`States`")] {
        assert!(ane!("ops", name).fine().out.contains(part), "{name}");
        ane!("new", "--native", name).refused(1, "ANE1001", &["not a unit of a netplist", part]);
    }
    let scratch = Scratch::new();
    let plist = netplist("Neuron", "<key>Type</key><string>ReLU</string>", 3, 16);
    let states =
        plist.replace("<key>Units</key>", "<key>States</key><array><string>s</string></array><key>Units</key>");
    ane!("compile", scratch.file("net.plist", states), "-o", scratch.out("x.hwx")).refused(
        2,
        "ANE2002",
        &["`s` is missing"],
    );
    // The layers that each operation becomes.
    let list = ane!("ops").fine().out;
    let line = |name: &str| list.lines().find(|l| l.trim_start().starts_with(name)).expect(name).to_string();
    assert!(line("scaled_dot_product_attention").contains("SDPA"), "{list}");
    assert!(line("pixel_shuffle").contains("PixelShuffle"), "{list}");
}

#[test]
fn refusals_name_key_and_gate() {
    let scratch = Scratch::new();
    let layer = |kind: &str, params: &str| scratch.file("net.plist", netplist(kind, params, 4, 16));
    let typo = layer("TopK", "<key>Type</key><string>Max</string><key>KK</key><integer>2</integer>");
    ane!("compile", typo, "-o", scratch.out("x.hwx")).refused(
        2,
        "ANE2002",
        &["InvalidParamSyntax", "`KK`", "nearest is `K`"],
    );
    let sort = "<key>Direction</key><string>Ascending</string><key>SortDimension</key><string>Width</string>";
    let sort = layer("Sort", sort);
    ane!("compile", sort, "-t", "m1", "-o", scratch.out("x.hwx")).refused(1, "ANE1002", &["code generation"]);
    assert!(!std::path::Path::new(&scratch.out("x.hwx")).exists());
    ane!("compile", sort, "-t", "first", "-o", scratch.out("x.hwx")).fine();
}

/// Attention between two activations; the first one's result is given out too.
const ATTENTION: &str = "\
program(1.0)
{
 func main<ios16>(tensor<fp16, [1, 2, 5, 8]> q, tensor<fp16, [1, 2, 5, 8]> k, tensor<fp16, [1, 2, 5, 8]> v) {
  tensor<fp16, [1, 1, 1, 1]> s = const()[name = string(\"s\"), val = tensor<fp16, [1, 1, 1, 1]>([[[[0x1p-2]]]])];
  tensor<fp16, [1, 2, 5, 8]> r = relu(x = q)[name = string(\"r\")];
  tensor<fp16, [1, 2, 5, 8]> a = anec.sdpa(bottom = (r, k, v, s), subtract_max = bool(true))[name = string(\"a\")];
  tensor<fp16, [1, 2, 5, 8]> y = abs(x = a)[name = string(\"y\")];
 } -> (r, y);
}
";

/// A `.npy` of numbers between -2 and 2.
fn numbers(seed: usize) -> Vec<u8> {
    let number = |i: usize| ((i * 37 + seed * 11) % 33) as f32 / 8.0 - 2.0;
    npy("<f4", false, "(1, 2, 5, 8)", &(0..80).flat_map(|i| number(i).to_le_bytes()).collect::<Vec<u8>>())
}

#[test]
fn a_descriptor_calls_a_program_a_segment_and_runs_like_the_whole() {
    let scratch = Scratch::new();
    let model = scratch.file("attention.mil", ATTENTION);
    let [q, k, v] = [0, 1, 2].map(|i| scratch.file(&format!("{i}.npy"), numbers(i)));
    let given = [format!("q={q}"), format!("k={k}"), format!("v={v}")];
    let run = |program: &str, more: &[String]| {
        let inputs = given.iter().flat_map(|g| ["--input".to_string(), g.clone()]);
        let all = ["run".to_string(), program.to_string()].into_iter().chain(inputs).chain(more.iter().cloned());
        crate::harness::run(&all.collect::<Vec<_>>())
    };

    let out = scratch.out("");
    let written =
        ane!("compile", model, "-o", out, "--emit", "e5,hwx", "--force", "--json").fine().json("anemone.compile/1");
    assert_eq!(written["segments"], 3, "{written}");
    let names = ["attention.e5", "attention_0.hwx", "attention_1.hwx", "attention_2.hwx"];
    assert!(names.iter().all(|name| std::path::Path::new(&scratch.out(name)).exists()), "{written}");
    assert_eq!(written["files"].as_array().map(Vec::len), Some(names.len()));

    let [alone, stages] = ["alone.e5", "stages"].map(|name| scratch.out(name));
    let noted = ane!("compile", model, "-o", alone, "--force", "--dump-ir", stages).fine().err;
    assert!(noted.contains("in 3 segments") && noted.contains("--emit hwx,e5"), "{noted}");
    let at = |segment: usize| std::path::Path::new(&stages).join(format!("segment-{segment}"));
    assert!(at(0).is_dir() && at(2).is_dir() && !at(3).exists());

    let descriptor = scratch.out("attention.e5");
    let dump = ane!("dump", descriptor).fine().out;
    // Three tensors come in; attention has the second call of the engine to itself; two go out.
    for part in ["Op2_Cast", "Op3_AneInference", "Op4_AneInference", "Op5_AneInference", "Op7_Cast"] {
        assert!(dump.contains(part), "{part}: {dump}");
    }
    assert!(!dump.contains("Op8_"), "{dump}");

    let whole = scratch.out("whole.hwx");
    ane!("compile", model, "-o", whole, "--force").fine();
    let results = [format!("r={}", scratch.out("r.npy")), format!("y={}", scratch.out("y.npy"))];
    run(&whole, &results.clone().map(|r| ["--output".to_string(), r]).concat()).fine();
    let mut expected = results.map(|r| ["--expect".to_string(), r]).concat();
    expected.extend(["--atol", "0"].map(String::from));
    run(&descriptor, &expected).fine();
    // Whatever the containers are called, and whatever else lies there.
    std::fs::rename(scratch.out("attention_1.hwx"), scratch.out("other.hwx")).expect("a renamed file");
    scratch.file("out/attention_9.hwx", b"no container");
    run(&descriptor, &expected).fine();

    let trace = ["--trace".to_string(), scratch.out("trace.json")];
    run(&descriptor, &trace).refused(2, "ANE2004", &["--trace", "3 programs"]);
    std::fs::remove_file(scratch.out("other.hwx")).expect("a removed file");
    run(&descriptor, &[]).refused(2, "ANE2001", &["Op4_AneInference", "--emit hwx,e5"]);
}

#[test]
fn a_damaged_descriptor_is_refused_when_run() {
    let scratch = Scratch::new();
    let model = scratch.file("attention.mil", ATTENTION);
    ane!("compile", model, "-o", scratch.out(""), "--emit", "e5,hwx", "--force").fine();
    let bytes = std::fs::read(scratch.out("attention.e5")).expect("the descriptor");
    let damaged = |from: &[u8], to: &[u8]| {
        let mut bytes = bytes.clone();
        while let Some(at) = bytes.windows(from.len()).position(|w| w == from) {
            bytes[at..at + from.len()].copy_from_slice(to);
        }
        scratch.file("out/damaged.e5", bytes)
    };
    // A tensor that no port has, and a cast to something else.
    ane!("run", damaged(b"k_ane\0", b"z_ane\0")).refused(2, "ANE2002", &["z_ane"]);
    ane!("run", damaged(b"r_ane\0", b"r_anf\0")).refused(2, "ANE2002", &["r_anf"]);
    for cut in (0..bytes.len()).step_by(97) {
        let run = ane!("run", scratch.file("out/damaged.e5", &bytes[..cut]));
        assert!(matches!(run.code, Some(1 | 2)), "{cut}: {run:?}");
    }
}
