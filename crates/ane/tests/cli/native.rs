//! Native layers on the command line: schema and template, a netplist that compiles, refusals with their key and their gate.

use crate::ane;
use crate::harness::{Scratch, netplist};

#[test]
fn every_template_of_a_new_netplist_compiles() {
    let scratch = Scratch::new();
    for layer in ["SDPA", "TopK", "pixel_shuffle", "affine_transform", "RingBufferWriter", "DynamicSlice"] {
        let file = scratch.out("net.plist");
        ane!("new", "--native", layer, "-o", file).fine();
        ane!("compile", file, "-t", "first", "-o", scratch.out("net.hwx")).fine();
        let _ = std::fs::remove_file(scratch.out("net.weights"));
    }
    let dump = ane!("dump", scratch.out("net.hwx")).fine().out;
    assert!(dump.contains("own-native, not Apple's"), "{dump}");
    ane!("new", "--native", "SDPAA").refused(2, "ANE2004", &["did you mean `SDPA`"]);
    ane!("new", "--native", "NMS").refused(1, "ANE1001", &["no engine runs it"]);
}

#[test]
fn schema_and_template_are_printed() {
    let text = ane!("ops", "SDPA").fine().out;
    for part in
        ["ANECSDPALayerDesc", "ZinParseSDPAUnit", "SubtractMax", "default false", "<key>Type</key>", "h13 (A13)"]
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
