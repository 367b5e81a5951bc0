//! Every table and listing of the chapters by a command: the page `docs/chapters.md`, run.

use crate::ane;
use crate::harness::*;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/chapters.md");

/// A state that grows by one in each run.
const COUNTER: &str = r#"program(1.3)
{
    func main<ios18>(state<tensor<fp16, [1, 4]>> total) {
        tensor<fp16, [1, 4]> old = read_state(input = total)[name = string("old")];
        tensor<fp16, [1, 4]> new = add(x = old, y = fp16(1.0))[name = string("new")];
        write_state(data = new, input = total)[name = string("store")];
        tensor<fp16, [1, 4]> y = identity(x = new)[name = string("y")];
    } -> (y);
}
"#;

/// Words of a command line; quotes hold what has spaces.
fn words(line: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (at, part) in line.split('"').enumerate() {
        match at % 2 {
            0 => all.extend(part.split_whitespace().map(str::to_string)),
            _ => all.push(part.to_string()),
        }
    }
    all
}

/// Runs a line of the page in a folder: standard output and error together.
fn shown(line: &str, folder: &Path) -> (Option<i32>, String) {
    let words = words(line);
    assert_eq!(words.first().map(String::as_str), Some("ane"), "{line}");
    let child = command(&words[1..]).current_dir(folder).spawn().expect("the binary starts");
    let ran = finish(child, &words);
    (ran.code, ran.out + &ran.err)
}

/// Cells in backquotes of a row's column.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_row_of_the_page_shows_what_it_says() {
    let scratch = Scratch::new();
    let folder = std::path::PathBuf::from(scratch.path(""));
    let [package, ..] = digits();
    copy(Path::new(&package), &folder.join("digits.mlpackage"));
    scratch.file("counter.mil", COUNTER);
    let block = PAGE.split("```").nth(1).expect("the files' commands");
    for line in block.lines().filter(|line| line.starts_with("ane ")) {
        let (code, text) = shown(line, &folder);
        assert_eq!(code, Some(0), "{line}: {text}");
    }
    let mut wrong = Vec::new();
    let mut rows = 0;
    for row in PAGE.lines().filter(|line| ["| Table", "| Listing", "| Figure"].iter().any(|w| line.starts_with(w))) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [item, _, command, parts] = cells.as_slice() else { panic!("four cells: {row}") };
        rows += 1;
        let line = quoted(command)[0];
        let (code, text) = shown(line, &folder);
        let missing: Vec<&str> = quoted(parts).into_iter().filter(|part| !text.contains(part)).collect();
        if code != Some(0) || !missing.is_empty() {
            let start: String = text.chars().take(600).collect();
            wrong.push(format!("{item}: {line} ended with {code:?}, without {missing:?}\n{start}"));
        }
    }
    // The chapters number 31 tables, 21 listings and a figure that say something of the machine or of a program.
    assert!(rows >= 57, "{rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn secure_mode_and_the_driver_by_hand() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let cache = scratch.path("cache");
    let plain = ane!("run", package, "-i", image, "--via", "inprocess", "--cache", cache).fine();
    let secure = ane!("run", package, "-i", image, "--via", "inprocess", "--cache", cache, "--secure", "-v").fine();
    assert!(secure.err.contains("1 secure phases"), "{secure:?}");
    assert_eq!(plain.out, secure.out, "the same numbers");
    ane!("run", package, "-i", image, "--via", "broker", "--secure").refused(2, "ANE2004", &["--via inprocess"]);
    // Sizes are exact, selectors are numbered, fields have names, keys are known.
    let short = scratch.file("short", [0u8; 100]);
    let ran = ane!("driver", "call", "control", "2", "--hex", short);
    assert!(ran.code == Some(1) && ran.out.contains("0xe00002c2 BAD_ARGUMENT"), "{ran:?}");
    ane!("driver", "call", "control", "17").refused(2, "ANE2004", &["17 selectors"]);
    ane!("driver", "call", "control", "4", "--set", "TOKE=1").refused(2, "ANE2004", &["no such field", "TOKEN"]);
    let key = "com.apple.ane.iokit-user-acces";
    ane!("driver", "call", "control", "7", "--without", key).refused(2, "ANE2004", &["no entitlement"]);
    let key = "com.apple.ane.iokit-user-access";
    ane!("driver", "call", "control", "7", "--without", key).refused(1, "ANE1004", &["open", "NOT_PRIVILEGED"]);
    let made = ane!("driver", "method", "ANE_SetThrottlingPercentage", "50").fine();
    assert!(made.out.contains("throttling_percent = 50"), "{made:?}");
    ane!("driver", "method", "SetThrottlingPercentage", "100").refused(1, "ANE1004", &["BAD_ARGUMENT"]);
    ane!("driver", "method", "SetThrottlingPercentage").refused(2, "ANE2004", &["takes PERCENT", "0 to 99"]);
    ane!("driver", "method", "PowerOn", "3").refused(2, "ANE2004", &["takes no numbers"]);
    ane!("driver", "method", "SetThrotling", "1").refused(2, "ANE2004", &["SetThrottlingPercentage"]);
    ane!("driver", "method", "WriteANERegister", "1", "2").fine();
    ane!("driver", "method", "WriteANERegister", "1", "2", "--unprivileged").refused(1, "ANE1004", &["NOT_PRIVILEGED"]);
    let key = "com.apple.private.ane.allow-set-client-hints";
    ane!("driver", "method", "setClientHint", "1", "1").fine();
    ane!("driver", "method", "setClientHint", "1", "1", "--without", key).refused(1, "ANE1004", &["NOT_PRIVILEGED"]);
    let document = ane!("driver", "list", "--json").fine().json("anemone.driver/1");
    assert_eq!(document["selectors"].as_array().map(Vec::len), Some(26), "{document}");
}

#[test]
fn names_of_the_chapters_are_explained() {
    for (name, parts) in [
        ("ZinAneTdHw_v10", &["0x02ec v10-l2: 14 registers"][..]),
        ("TileDMADst", &["0x1442", "output tile write base"]),
        ("KernelDMASrc", &["0x1554", "0x1560"]),
        ("v10.ChannelStride", &["26 bits, signed, from bit 6"]),
        ("compute-cache", &["unsupported on this architecture"]),
        ("IOExternalMethodDispatch2022", &["40 bytes", "0x14 checkStructureOutputSize"]),
        ("S3_3_C15_C8_0", &["bit 39", "bit 7"]),
        ("9.511.3", &["AppleH11ANEInterface", "AppleANELoadBalancer"]),
        ("ARCHITECTURE", &["h13g"]),
        ("SerializeOpArgFrame", &["ArgFrame"]),
        ("SerializeOpAttrs<QuantOpT>", &["Quant"]),
        ("doorbell", &["below 32", "control 2, direct 2 and direct 4"]),
        ("anehash", &["SHA-256"]),
        ("beefface", &["hwx-magic"]),
        ("setClientHint", &["HINT [LEVELS]", "allow-set-client-hints"]),
        ("request", &["TOKEN: program or instance", "SURFACES*: surfaces: inputs, then outputs"]),
    ] {
        let told = ane!("explain", name).fine().out;
        assert!(parts.iter().all(|part| told.contains(part)), "{name}: {told}");
    }
}

/// One layer of each kind that the chapters name, attention among them.
const LAYERS: &str = r#"program(1.0)
{
 func main<ios16>(tensor<fp16, [1, 2, 4, 8]> x, tensor<fp16, [1, 2, 4, 8]> z, tensor<fp16, [1, 2, 5, 8]> q) {
  tensor<fp16, [1, 1, 1, 1]> s = const()[name = string("s"), val = tensor<fp16, [1, 1, 1, 1]>([[[[0x1p-2]]]])];
  tensor<fp16, [2, 2, 1, 1]> w = const()[name = string("w"), val = tensor<fp16, [2, 2, 1, 1]>([[[[1.0]], [[0.5]]], [[[0.25]], [[2.0]]]])];
  tensor<int32, [1]> axes = const()[name = string("axes"), val = tensor<int32, [1]>([-1])];
  tensor<fp16, [1, 2, 4, 8]> c = conv(x = x, weight = w)[name = string("c")];
  tensor<fp16, [1, 2, 4, 8]> g = mul(x = z, y = fp16(3.0))[name = string("g")];
  tensor<fp16, [1, 2, 4, 8]> a = add(x = c, y = g)[name = string("a")];
  tensor<fp16, [1, 2, 4, 8]> n = layer_norm(x = a, axes = axes, epsilon = fp16(0x1p-10))[name = string("n")];
  tensor<fp16, [1, 2, 5, 8]> o = anec.sdpa(bottom = (q, q, q, s), subtract_max = bool(true))[name = string("o")];
 } -> (g, n, o);
}
"#;

/// Names of the chapters' tables 22.1, 22.3 (passes and what they make of a pattern).
const IN_PASSES: &[&str] = &[
    "transpose fusion",
    "bias and activation hoisting",
    "elementwise-copy elimination",
    "dimension and rank legalization",
    "kernel-memory split",
    "multi-segment graph cuts",
    "parallel-execution discovery",
    "greedy list scheduler",
    "partition emission",
    "bank-conflict optimization",
    "pad optimization",
    "width-concat",
    "weight packing",
    "ScaledEWOrEWWithConstInToGOC",
    "ZinMirHoistGOCorActivationForConvFusion",
    "FoldScale",
    "FoldWeightsWithScale",
    "MergeFusableActivationPairs",
    "SimpleActivation",
    "CollapseTranspose",
    "ZinMirNETransposeFusion",
    "CollapseQuantDequant",
    "DeduplicateStandaloneDequantGOCsAcrossConcat",
    "ReplaceMatmulWithConv",
    "IsFusableConcat",
    "kernel_scale",
    "kernel_palettized_LUT",
];

/// Layers of the listings 22.1 and 22.2 and of the tables 22.3 and 26.2.
const IN_DUMPS: &[&str] =
    &["anec.matmul", "anec.convolution", "anec.gain_offset_control", "anec.add", "anec.sdpa", "anec.layer_norm"];

#[test]
fn every_name_of_the_tables_stands_in_a_dump_or_a_listing() {
    let scratch = Scratch::new();
    let (model, stages) = (scratch.file("layers.mil", LAYERS), scratch.out("stages"));
    ane!("compile", model, "-o", scratch.out("layers.hwx"), "--dump-ir", &stages).fine();
    let texts = std::fs::read_dir(&stages).expect("stages").filter_map(|file| {
        let path = file.expect("a stage").path();
        path.extension().is_some_and(|e| e == "txt").then(|| std::fs::read_to_string(path).expect("text"))
    });
    let dumps: Vec<String> = texts.collect();
    // A word of a dump, not part of a longer one.
    let dumped = |name: &str| dumps.iter().any(|text| text.split([' ', '\n', '(']).any(|word| word == name));
    let missing: Vec<&&str> = IN_DUMPS.iter().filter(|name| !dumped(name)).collect();
    assert!(missing.is_empty(), "in no dump: {missing:?}");
    let listing = ane!("passes").fine().out;
    let missing: Vec<&&str> = IN_PASSES.iter().filter(|name| !listing.contains(**name)).collect();
    assert!(missing.is_empty(), "not in `ane passes`: {missing:?}");
    // Listing 22.3: every slot, also those that no task of the M1 has.
    let slots = ane!("explain", "epilogue").fine().out;
    for slot in anemone_facts::epilogue::SLOTS {
        assert!(slots.contains(slot.class) && slots.contains(slot.meaning), "{} not in {slots}", slot.name);
    }
    // Table 22.2: every state, and the types of a program's buffers in its dump.
    let states = ane!("explain", "allocation").fine().out;
    for row in &anemone_facts::enums::ALLOCATIONS {
        assert!(states.contains(row.meaning), "{} not in {states}", row.name);
    }
    assert!(dumps.iter().any(|text| text.contains("type 4, rewritten in place in L2")), "no type in a dump");
}
