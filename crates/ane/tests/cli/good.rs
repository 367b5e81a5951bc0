//! Successful commands, as users and scripts rely on them.

use crate::ane;
use crate::common::{entries, golden_dir, models_dir};
use crate::harness::*;
use std::io::Read;
use std::path::Path;

/// Values of the only output.
fn values(ran: &Ran) -> Vec<f64> {
    let document = ran.json("anemone.run/1");
    let values = document["outputs"][0]["values"].as_array().expect("values");
    values.iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[test]
fn digits_are_read() {
    let [package, image, expected] = digits();
    let labels = example("labels.txt");
    let ran = ane!("run", package, "--input", image, "--labels", labels.display()).fine();
    assert!(ran.out.contains("class 8, probability 0.80"), "{ran:?}");
    assert_eq!(ran.err, "", "plain facts are not said unasked, and progress is for terminals");
    let ran = ane!("run", package, "-i", image, "--expect", expected).fine();
    assert!(ran.out.contains(": ok"), "{ran:?}");
    let ran = ane!("run", package, "-i", format!("image={image}"), "--json", "--labels", labels.display()).fine();
    let document = ran.json("anemone.run/1");
    assert_eq!((&document["chip"], &document["outputs"][0]["class"]), (&"h13".into(), &"8".into()), "{document}");
}

#[test]
fn loudness() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let usual = ane!("run", package).fine();
    assert!(usual.err.contains("image: random, seed 0") && !usual.err.contains("opset"), "{usual:?}");
    let verbose = ane!("run", package, "-v").fine();
    assert!(verbose.err.contains("opset ") && verbose.err.contains("tasks executed"), "{verbose:?}");
    // The kernel of every operation.
    assert!(verbose.err.contains("0: task 0, ") && !usual.err.contains("0: task 0, "), "{verbose:?}");
    let quiet = ane!("run", package, "-q").fine();
    assert!(
        quiet.err.is_empty() && usual.out.starts_with(&quiet.out) && quiet.out.len() < usual.out.len(),
        "{quiet:?}"
    );
    let seeded = ane!("run", package, "--seed", "7").fine();
    assert!(seeded.err.contains("seed 7") && seeded.out != usual.out, "{seeded:?}");
    assert_eq!(ane!("compile", package, "-q", "-o", scratch.out("x.hwx")).fine().err, "");
    for ran in [usual, verbose] {
        assert!(!ran.err.contains(['\r', '\x1b']), "colour or progress without a terminal: {ran:?}");
    }
}

#[test]
fn a_trace_tells_what_each_task_did() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let path = scratch.out("trace.json");
    let ran = ane!("run", package, "-i", image, "--trace", path, "--numerics", "exact", "--json").fine();
    let risk = ran.json("anemone.run/1")["risk"].clone();
    assert_eq!((&risk["saturated"], &risk["nan_coerced"]), (&0.into(), &0.into()), "{risk}");
    let text = std::fs::read_to_string(&path).expect("it was written");
    let trace: serde_json::Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((&trace["schema"], &trace["numerics"]), (&"anemone.trace/1".into(), &"fixed".into()));
    assert_eq!(trace["risk"], risk);
    let tasks = trace["tasks"].as_array().expect("tasks");
    assert_eq!(Some(tasks.len() as u64), ran.json("anemone.run/1")["tasks"].as_u64());
    let first = &tasks[0];
    assert_eq!(first["inputs"][0]["bytes"], first["bytes"]["source1"], "{first}");
    assert!(tasks.iter().any(|t| t["macs"].as_u64() > Some(0)), "{text}");
    let plain = ane!("run", package, "-i", image).fine();
    assert!(plain.out.contains("largest value ") && plain.out.contains("saturated 0"), "{plain:?}");
    ane!("run", package, "-i", image, "--trace", path, "-o", path).refused(2, "ANE2004", &["--trace"]);
}

#[test]
fn outputs_are_written() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let out = scratch.out("y.npy");
    let ran = ane!("run", package, "-i", image, "-o", out, "--json").fine();
    let bytes = std::fs::read(&out).expect("it was written");
    let data: Vec<f64> =
        bytes[bytes.len() - 40..].chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f64).collect();
    assert_eq!(data, values(&ran));
    ane!("run", package, "-i", image, "--expect", out, "--atol", "0").fine();
    // Writing again replaces the file.
    ane!("run", package, "-i", image, "-o", format!("probs={out}")).fine();
    assert_eq!(std::fs::read(&out).expect("it was written"), bytes);
    assert_eq!(entries(Path::new(&scratch.path("out"))).len(), 1);
}

#[test]
fn a_compiled_program_names_no_states() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let out = scratch.out("x.hwx");
    ane!("compile", package, "-o", out).fine();
    let ran = ane!("run", out, "-i", image, "--repeat", "2").fine();
    assert!(ran.err.contains("which ports are states"), "{ran:?}");
    let network = ane!("run", package, "-i", image, "--repeat", "2").fine();
    assert!(!network.err.contains("states"), "{network:?}");
}

#[cfg(unix)]
#[test]
fn written_files_are_plain() {
    use std::os::unix::fs::{MetadataExt, symlink};
    if absent_on(&["windows"]) {
        return;
    }
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let (plain, link) = (scratch.out("x.hwx"), scratch.path("link.hwx"));
    ane!("compile", package, "-o", plain).fine();
    let usual = std::fs::metadata(scratch.file("usual", "")).expect("a file").mode();
    assert_eq!(std::fs::metadata(&plain).expect("a file").mode(), usual, "as readable as any new file");
    symlink(&plain, &link).expect("a link");
    ane!("compile", scratch.relu(), "-o", link).fine();
    assert!(std::fs::symlink_metadata(&link).expect("the link").is_symlink(), "the link is followed, not replaced");
    ane!("compile", package, "-o", "/dev/null").fine();
    assert!(!std::fs::metadata("/dev/null").expect("the device").is_file());
}

#[test]
fn compiling_to_files_and_folders() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let bytes = |path: String| std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    ane!("compile", package, "-o", scratch.out("a.hwx")).fine();
    ane!("compile", package, "-o", scratch.out("folder/")).fine();
    let ran = ane!("compile", package, "-o", scratch.out("all"), "--emit", "hwx,bin,anec,hwx", "--json").fine();
    let document = ran.json("anemone.compile/1");
    assert_eq!(document["files"].as_array().map(Vec::len), Some(3), "{document}");
    let hwx = bytes(scratch.out("a.hwx"));
    // Twice, elsewhere, under another name: the same bytes.
    assert_eq!(hwx, bytes(scratch.out("folder/digits.hwx")));
    assert_eq!(hwx, bytes(scratch.out("all/digits.hwx")));
    ane!("compile", scratch.digits(), "-t", "M1", "-o", scratch.out("a.hwx")).fine();
    assert_eq!(hwx, bytes(scratch.out("a.hwx")));
    let arguments = ["compile", ".", "-o", &scratch.out("dot/")].map(String::from);
    finish(command(&arguments).current_dir(&package).spawn().expect("the binary starts"), &arguments).fine();
    assert_eq!(hwx, bytes(scratch.out("dot/digits.hwx")));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).display().to_string();
    assert!(!hwx.windows(folder.len()).any(|w| w == folder.as_bytes()), "the program names a folder of this machine");
    for form in ["bin", "anec"] {
        // The form follows the file's name where none is asked for.
        ane!("compile", package, "-o", scratch.out(&format!("b.{form}"))).fine();
        assert_eq!(bytes(scratch.out(&format!("b.{form}"))), bytes(scratch.out(&format!("all/digits.{form}"))));
    }
    ane!("compile", package, "-o", scratch.out("c.hwx"), "--dump-ir", scratch.out("stages")).fine();
    assert!(entries(Path::new(&scratch.out("stages"))).len() > 3, "a text for every stage");
}

#[test]
fn passes_can_be_stopped_after_and_left_out() {
    let scratch = Scratch::new();
    let [package, image, expected] = digits();
    let passes = ane!("passes").fine().out;
    assert!(passes.contains("absorb-affines") && passes.contains("optional"), "{passes}");
    let document = ane!("passes", "--json").fine().json("anemone.passes/1");
    let names: Vec<&str> =
        document["passes"].as_array().expect("a list").iter().filter_map(|p| p["name"].as_str()).collect();
    let stages = scratch.out("stages");
    ane!("compile", package, "--dump-ir", stages, "--stop-after", "lowered").fine();
    let drawings = entries(Path::new(&stages)).iter().filter(|p| p.extension().is_some_and(|e| e == "dot")).count();
    assert_eq!(drawings, 1 + names.iter().position(|n| *n == "lowered").expect("the pass"));
    assert_eq!(entries(Path::new(&scratch.out(""))).len(), 1, "no program is written");
    ane!("compile", package, "-o", scratch.out("a.hwx"), "--dump-ir", stages, "--stop-after", "x").refused(
        2,
        "ANE2004",
        &["absorb-affines"],
    );
    // Optional passes change how the result is computed, and not the result.
    for limit in [0, 1, 2, 3, names.len()] {
        let program = scratch.out(&format!("{limit}.hwx"));
        ane!("compile", package, "-o", program, "--pass-limit", limit.to_string()).fine();
        ane!("run", program, "-i", image, "--expect", expected, "--atol", "2e-3").fine();
    }
    let read = |name: &str| std::fs::read(scratch.out(name)).expect("a program");
    assert_ne!(read("0.hwx"), read(&format!("{}.hwx", names.len())));
}

#[test]
fn compiled_forms_compute_the_same() {
    let scratch = Scratch::new();
    let [package, image, expected] = digits();
    ane!("compile", package, "-o", scratch.out(""), "--emit", "hwx,bin,anec").fine();
    let wanted = values(&ane!("run", package, "-i", image, "--json").fine());
    for form in ["hwx", "bin", "anec"] {
        let path = scratch.out(&format!("digits.{form}"));
        assert_eq!(values(&ane!("run", path, "-i", image, "--json").fine()), wanted, "{form}");
        ane!("run", path, "-i", image, "--expect", expected, "--atol", "2e-3").fine();
        // The kind is told by the content: the name may say nothing, or the wrong thing.
        for name in ["digits", "digits.dat", "digits.hwx.bin"] {
            let other = scratch.file(name, std::fs::read(&path).expect("a compiled file"));
            assert_eq!(values(&ane!("run", other, "-i", image, "--json").fine()), wanted, "{form} as {name}");
        }
    }
}

#[test]
fn listings_assemble_back() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    ane!("compile", package, "-o", scratch.out(""), "--emit", "hwx,bin,anec").fine();
    for form in ["hwx", "bin"] {
        round_trip(&scratch, Path::new(&scratch.out(&format!("digits.{form}"))));
    }
    // A raw stream's listing may become any form that can hold it; the open driver's form begins with the output.
    let listing = scratch.file("raw.asm", ane!("dump", scratch.out("digits.anec"), "--asm").fine().out);
    ane!("asm", listing, "-o", scratch.out("again.anec")).fine();
    let read = |name| std::fs::read(scratch.out(name)).expect("a compiled file");
    assert_eq!(read("again.anec"), read("digits.anec"));
    let document = ane!("asm", listing, "-o", scratch.out("again.hwx"), "--json").fine().json("anemone.asm/1");
    assert_eq!(document["files"][0]["bytes"], read("again.hwx").len(), "{document}");
}

/// `dump --asm` and back gives the same bytes: by file, and by a pipe.
fn round_trip(scratch: &Scratch, file: &Path) {
    let bytes = std::fs::read(file).expect("a compiled file");
    let extension = file.extension().unwrap_or_default().to_string_lossy();
    let listing = ane!("dump", file.display(), "--asm").fine().out;
    let (path, out) = (scratch.file("listing.asm", &listing), scratch.path(&format!("again.{extension}")));
    ane!("asm", path, "-o", out).fine();
    assert!(std::fs::read(&out).expect("it was written") == bytes, "{}: another file came back", file.display());
    let arguments = ["asm", "-", "-q", "-o", &out].map(String::from);
    let input = std::fs::File::open(&path).expect("the listing");
    finish(command(&arguments).stdin(input).spawn().expect("the binary starts"), &arguments).fine();
    assert!(std::fs::read(&out).expect("it was written") == bytes, "{}: by a pipe", file.display());
}

/// Every value of a network against plain evaluation.
#[test]
fn layers_are_compared() {
    let [package, image, _] = digits();
    let ran = ane!("run", package, "-i", image, "--by-layer").fine();
    assert!(ran.out.lines().filter(|l| l.contains("conv ")).count() >= 4, "{ran:?}");
    assert!(ran.out.ends_with("no value differs by more than fp16 rounding explains\n"), "{ran:?}");
    let document = ane!("run", package, "-i", image, "--by-layer", "--json").fine().json("anemone.layers/1");
    assert!(document["layers"].as_array().is_some_and(|l| l.len() >= 10 && l[0]["cosine"].is_number()), "{document}");
}

/// An expectation and the layers in one call, and bounds on metrics in place of the default.
#[test]
fn expectations_have_metrics() {
    let [package, image, expected] = digits();
    let ran = ane!("run", package, "-i", image, "--expect", expected, "--by-layer").fine();
    assert!(ran.out.contains("no value differs") && ran.out.contains("dB: ok"), "{ran:?}");
    let bounds = "max=0.05,rms=0.05,relative=0.1,cosine=0.99,snr=20,top1";
    let ran = ane!("run", package, "-i", image, "--expect", expected, "--tolerance", bounds).fine();
    assert!(ran.out.contains("top-1 the same: ok"), "{ran:?}");
    for bound in ["snr=500", "cosine=1.5", "max=0", "relative=0"] {
        let ran = ane!("run", package, "-i", image, "--expect", expected, "--tolerance", bound);
        assert_eq!(ran.code, Some(1), "{ran:?}");
    }
    ane!("run", package, "-i", image, "--expect", expected, "--tolerance", "loudness=3").refused(
        2,
        "ANE2004",
        &["cosine="],
    );
}

/// Without a place a program goes beside its model.
#[test]
fn compiled_beside_the_model() {
    let scratch = Scratch::new();
    let model = scratch.relu();
    let ran = ane!("compile", model).fine();
    assert!(ran.err.contains("relu.hwx"), "{ran:?}");
    ane!("run", scratch.path("relu.hwx")).fine();
}

/// One task is told without its zeros and with arrays folded; `-v` tells every field.
#[test]
fn tasks_are_told_in_short() {
    let scratch = Scratch::new();
    let hwx = scratch.out("relu.hwx");
    ane!("compile", scratch.relu(), "-o", hwx).fine();
    let short = ane!("dump", hwx, "--td", "0").fine().out;
    let long = ane!("dump", hwx, "--td", "0", "-v").fine().out;
    assert!(short.contains("[0..15] = ") && short.contains("fields at 0 are omitted"), "{short}");
    assert!(long.contains("CoeffEn[15] = ") && 2 * short.lines().count() < long.lines().count());
    let told = ane!("explain", "aneRegs.NE.MACCfg.OpMode").fine().out;
    assert!(told.starts_with("NeOpMode") && told.contains("tinygrad"), "{told}");
}

#[test]
fn dumps() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let program = scratch.path("digits.hwx");
    ane!("compile", package, "-o", program).fine();
    let short = ane!("dump", program).fine().out;
    assert!(short.lines().filter(|l| l.trim_start().starts_with("td")).count() >= 10 && short.len() < 4000, "{short}");
    assert!(short.contains("NE conv") && short.contains("coefficients") && short.contains("PE "), "{short}");
    let whole = ane!("dump", program, "-v").fine().out;
    assert!(whole.contains("== header\n") && whole.contains("== anomalies: 0\n"), "{whole}");
    let one = ane!("dump", program, "--part", "td", "--td", "0").fine().out;
    assert!(one.contains("== td\n") && !one.contains("== regs") && one.len() < whole.len() / 20, "{one}");
    let registers = ane!("dump", program, "--td", "0").fine().out;
    assert!(registers.starts_with("== td\n") && registers.contains("== regs\n"), "{registers}");
    assert_ne!(ane!("dump", program, "--td", "11").fine().out, registers);
    let document = ane!("dump", program, "--part", "header,ports", "--json").fine().json("anemone.dump/1");
    assert_eq!(document["chapters"].as_array().map(Vec::len), Some(2), "{document}");
    let document = ane!("dump", program, "--asm", "--json").fine().json("anemone.listing/1");
    assert!(document["listing"].as_str().is_some_and(|l| l.starts_with("container ")), "{document}");
}

#[test]
fn targets() {
    let all = ane!("targets").fine().out;
    assert!(all.contains("h13") && all.contains("m1"), "{all}");
    let one = ane!("targets", "m1").fine().out;
    assert!(one.contains("max_tensor_width") && one.contains("16384"), "{one}");
    assert_eq!(ane!("targets", "M1").fine().out, one);
    assert_eq!(ane!("targets", "h13").fine().out, one);
    let document = ane!("targets", "--json").fine().json("anemone.targets/1");
    assert_eq!(document["targets"][0]["target"], "h13", "{document}");
}

#[test]
fn help_has_examples() {
    let help = ane!("--help").fine().out;
    assert!(help.contains("Examples:") && help.contains("Exit codes:"), "{help}");
    assert_eq!(ane!("--version").fine().out, format!("ane {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_goes_away() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let program = scratch.path("digits.hwx");
    ane!("compile", package, "-o", program).fine();
    for more in [Some("-v"), Some("--asm"), Some("--json")] {
        let arguments: Vec<String> = ["dump", &program].into_iter().chain(more).map(String::from).collect();
        assert!(run(&arguments).fine().out.len() > 80_000, "more than a pipe holds");
        let mut child = command(&arguments).spawn().expect("the binary starts");
        let mut first = [0; 16];
        child.stdout.take().expect("a pipe").read_exact(&mut first).expect("some output");
        let ran = finish(child, &arguments).fine();
        assert_eq!(ran.err, "");
    }
    // Nobody listens to notes either.
    let arguments = ["run", &package].map(String::from);
    let mut child = command(&arguments).spawn().expect("the binary starts");
    drop(child.stderr.take());
    finish(child, &arguments).fine();
}

#[test]
fn golden_pairs() {
    let Some(dir) = golden_dir() else { return };
    let scratch = Scratch::new();
    let folders = entries(&dir.join("h13/pairs"));
    for folder in folders.iter().filter(|f| f.join("model.hwx").is_file()) {
        let model = folder.join("model.hwx");
        let explained = ane!("dump", model.display(), "-v").fine().out;
        assert!(explained.contains("== anomalies: 0\n"), "{}: {explained}", model.display());
        round_trip(&scratch, &model);
        let ran = ane!("run", model.display(), "--json").fine();
        let compiled = ane!("run", folder.join("net.plist").display(), "--compat", "zin-4.2.1", "--json").fine();
        let outputs = |ran: &Ran| ran.json("anemone.run/1")["outputs"][0]["values"].clone();
        assert_eq!(outputs(&ran), outputs(&compiled), "{}", folder.display());
    }
}

#[test]
fn golden_programs() {
    let Some(dir) = golden_dir() else { return };
    let scratch = Scratch::new();
    for file in entries(&dir.join("h13/programs")).iter().filter(|f| f.extension().is_some_and(|e| e == "bin")) {
        round_trip(&scratch, file);
        let ran = ane!("run", file.display(), "--json").fine().json("anemone.run/1");
        assert!(ran["tasks"].as_u64().is_some_and(|n| n > 0), "{ran}");
    }
}

#[test]
fn sample_model() {
    let Some(dir) = models_dir() else { return };
    let folder = dir.join("conv_bn_relu_ios15");
    let [model, input, expected] =
        ["model.mlpackage", "input.npy", "expected_pkg_fp32.npy"].map(|f| folder.join(f).display().to_string());
    if !Path::new(&model).exists() {
        return println!("skipped: no {model}");
    }
    let ran = ane!("run", model, "-i", input, "--expect", expected, "--json").fine();
    assert_eq!(ran.json("anemone.run/1")["outputs"][0]["within"], true);
}

#[cfg(unix)]
#[test]
fn the_runtime_runs_in_the_arithmetic_asked_for() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let cache = scratch.out("cache");
    let values = |arguments: &[&str]| {
        let mut all = vec!["run", &package, "-i", &image, "--json"];
        all.extend(arguments);
        let report = run(&all.iter().map(|a| a.to_string()).collect::<Vec<_>>()).fine().json("anemone.run/1");
        report["outputs"][0]["values"].clone()
    };
    let [fast, exact] = ["fast", "exact"].map(|model| {
        let own = values(&["--numerics", model]);
        assert_eq!(own, values(&["--numerics", model, "--via", "inprocess", "--cache", &cache]), "{model}");
        own
    });
    assert_ne!(fast, exact);
    let via = ["--via", "broker", "--numerics", "exact"];
    ane!("run", package, "-i", image, via[0], via[1], via[2], via[3]).refused(2, "ANE2004", &["ane broker --numerics"]);
    let trace = scratch.out("t.json");
    ane!("run", package, "-i", image, "--via", "inprocess", "--trace", trace).fine();
    let lines = std::fs::read_to_string(&trace).expect("a record");
    assert!(lines.lines().count() >= 10, "{lines}");
}

#[test]
fn the_compilers_options_go_through_the_runtime_and_extents_are_refused() {
    let scratch = Scratch::new();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claims/conv_sigmoid.mil");
    let cache = scratch.path("cache");
    let asked = |more: &[&str]| {
        let mut arguments = ["run", &model.display().to_string(), "--json"].map(String::from).to_vec();
        arguments.extend(more.iter().map(|argument| argument.to_string()));
        run(&arguments).fine().json("anemone.run/1")
    };
    let via = ["--via", "inprocess", "--cache", &cache];
    let tasks: Vec<i64> = [["--activations", "fused"], ["--activations", "accurate"], ["--compat", "zin-4.2.1"]]
        .iter()
        .map(|options| {
            let (here, there) = (asked(options), asked(&[&options[..], &via[..]].concat()));
            assert_eq!((&here["outputs"], &here["tasks"]), (&there["outputs"], &there["tasks"]), "{options:?}");
            here["tasks"].as_i64().expect("a number")
        })
        .collect();
    assert!(tasks[0] < tasks[1], "{tasks:?}: each has its own entry of the cache");
    for choice in [["--dim", "x.0=1"], ["--shape", "x=1,4,8,8"], ["--model-root", "."]] {
        let refused = ane!("run", model.display(), choice[0], choice[1], "--via", "inprocess", "--cache", cache);
        refused.refused(2, "ANE2004", &[choice[0], "--via", "ane convert"]);
    }
    ane!("run", model.display(), "--lenient", "--via", "inprocess").refused(2, "ANE2004", &["--lenient", "--via"]);
}
