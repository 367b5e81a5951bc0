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
