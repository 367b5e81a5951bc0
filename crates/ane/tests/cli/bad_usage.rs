//! Wrong usage: options, names, data that does not fit the model, places that cannot be written to.

use crate::ane;
use crate::harness::*;

#[test]
fn unknown_options_and_verbs() {
    ane!("run").refused(2, "ANE2004", &["<MODEL>", "Usage: ane run"]);
    ane!("run", "model.hwx", "--bogus").refused(2, "ANE2004", &["--bogus"]);
    ane!("frobnicate").refused(2, "ANE2004", &["frobnicate"]);
    ane!("compile", "model.plist").refused(2, "ANE2001", &["model.plist"]);
    ane!("compile", "model.plist", "-o", "x", "--emit", "exe").refused(2, "ANE2004", &["exe", "hwx, bin, anec"]);
    let bare = ane!();
    assert_eq!(bare.code, Some(2));
    assert!(bare.err.contains("Usage: ane") && bare.out.is_empty(), "{bare:?}");
}

#[test]
fn a_model_without_a_verb() {
    let [package, ..] = digits();
    let short = ane!(package).fine().out;
    assert!(short.starts_with("m1: all ") && short.contains("\nyes (direct): "), "{short}");
    assert_eq!(ane!("check", package).fine().out, short);
    let quiet = ane!("--quiet", package).fine().out;
    assert!(quiet.lines().count() == 1 && short.ends_with(&quiet), "{quiet}");
    ane!("nowhere.mlpackage").refused(2, "ANE2001", &["nowhere.mlpackage"]);
    ane!("chek", package).refused(2, "ANE2004", &["chek", "'check'"]);
}

#[test]
fn unknown_chip() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    ane!("compile", package, "-t", "z80", "-o", scratch.out("x.hwx")).refused(
        2,
        "ANE2004",
        &["z80", "a12 to a20, m1 to m6"],
    );
    ane!("run", package, "-t", "z80", "-o", scratch.out("x.npy")).refused(2, "ANE2004", &["z80"]);
    ane!("targets", "z80").refused(2, "ANE2004", &["z80"]);
    scratch.nothing_written();
}

#[test]
fn unknown_output_name() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let out = format!("nose={}", scratch.out("x.npy"));
    ane!("run", package, "-i", image, "-o", out).refused(2, "ANE2004", &["--output", "nose", "it has: probs"]);
    let expect = format!("nose={image}");
    ane!("run", package, "-i", image, "--expect", expect).refused(2, "ANE2004", &["--expect", "nose"]);
    ane!("run", package, "-i", format!("nose={image}")).refused(2, "ANE2004", &["--input", "nose", "it has: image"]);
    scratch.nothing_written();
}

#[test]
fn a_name_given_twice() {
    let [package, image, _] = digits();
    ane!("run", package, "-i", image, "-i", image).refused(2, "ANE2004", &["--input", "image is given twice"]);
}

#[test]
fn arrays_of_an_archive_must_be_known() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let archive = scratch.file("y.npz", stored_zip("probe.npy", &zeros(&[1, 10])));
    // An expectation that names nothing must not pass for one that is met.
    let ran = ane!("run", package, "-i", image, "--expect", archive);
    ran.refused(2, "ANE2004", &["--expect", "probe", "it has: probs"]);
    // numpy.savez names an array that has no keyword itself.
    for name in ["image.npy", "arr_0.npy"] {
        let archive = scratch.file("x.npz", stored_zip(name, &zeros(&[1, 1, 8, 8])));
        ane!("run", package, "-i", archive).fine();
    }
}

#[test]
fn input_of_another_shape() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let more = scratch.file("more.npy", zeros(&[64, 1, 8, 8]));
    let out = scratch.out("y.npy");
    ane!("run", package, "-i", more, "-o", out).refused(
        2,
        "ANE2003",
        &["image", "shape [1, 1, 8, 8]", "the array [64, 1, 8, 8]"],
    );
    // As many elements, but with the channels last.
    let relu = scratch.relu();
    let exchanged = scratch.file("exchanged.npy", zeros(&[1, 1, 16, 3]));
    ane!("run", relu, "-i", exchanged, "-o", out).refused(2, "ANE2003", &["[1, 3, 1, 16]", "[1, 1, 16, 3]"]);
    let joined = scratch.file("joined.npy", zeros(&[48]));
    let split = scratch.file("split.npy", zeros(&[3, 4, 4]));
    scratch.nothing_written();
    ane!("run", relu, "-i", joined).fine();
    ane!("run", relu, "-i", split).fine();
}

#[test]
fn expectation_of_another_size() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let wanted = scratch.file("wanted.npy", zeros(&[1, 9]));
    ane!("run", package, "-i", image, "--expect", wanted, "-o", scratch.out("y.npy")).refused(
        2,
        "ANE2003",
        &["probs", "10 elements", "9 expected"],
    );
    scratch.nothing_written();
}

#[test]
fn expectation_not_met() {
    let scratch = Scratch::new();
    let [package, image, expected] = digits();
    let wanted = scratch.file("wanted.npy", zeros(&[1, 10]));
    let ran = ane!("run", package, "-i", image, "--expect", wanted, "-o", scratch.out("y.npy"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("10 elements differ, first at [0, 0]"), "{ran:?}");
    assert!(ran.out.contains("largest error 8.027e-1 at [0, 8]"), "{ran:?}");
    scratch.nothing_written();
    let ran = ane!("run", package, "-i", image, "--expect", wanted, "--json");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let output = &ran.json("anemone.run/1")["outputs"][0];
    assert_eq!((&output["within"], &output["bad_elements"]), (&false.into(), &10.into()), "{output}");
    // A tolerance that no difference passes.
    assert_eq!(ane!("run", package, "-i", image, "--expect", expected, "--atol", "0").code, Some(1));
    ane!("run", package, "-i", image, "--expect", expected, "--atol", "nan").refused(2, "ANE2004", &["nan", "--atol"]);
    ane!("run", package, "-i", image, "--expect", expected, "--rtol=-1").refused(2, "ANE2004", &["-1", "--rtol"]);
}

#[test]
fn places_that_cannot_be_written_to() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let file = scratch.file("file", "taken");
    let under_file = format!("{file}/x.hwx");
    ane!("compile", package, "-o", under_file).refused(2, "ANE2005", &["cannot write", &under_file]);
    ane!("compile", package, "-o", file, "--emit", "hwx,bin").refused(2, "ANE2005", &["folder", &file]);
    let nowhere = scratch.out("nowhere/x.hwx");
    let ran = ane!("compile", package, "-o", nowhere).refused(2, "ANE2005", &[&nowhere, "make the folder first"]);
    assert!(!ran.err.contains(".ane-"), "names a temporary file: {ran:?}");
    ane!("run", package, "-i", image, "-o", scratch.out("nowhere/y.npy")).refused(2, "ANE2005", &["cannot write"]);
    ane!("run", package, "-i", image, "-o", scratch.path("out")).refused(2, "ANE2005", &["a folder has this name"]);
    scratch.nothing_written();
    // All forms or none: the second of three has no place.
    std::fs::create_dir(scratch.out("digits.bin")).expect("a folder in the way");
    ane!("compile", package, "-o", scratch.path("out"), "--emit", "hwx,bin,anec").refused(
        2,
        "ANE2005",
        &["digits.bin", "a folder has this name"],
    );
    std::fs::remove_dir(scratch.out("digits.bin")).expect("nothing in it");
    scratch.nothing_written();
    assert_eq!(std::fs::read(&file).expect("it is there"), b"taken");
}

#[test]
fn verbs_and_files_that_do_not_go_together() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    ane!("dump", package).refused(2, "ANE2004", &["not a compiled program", "ane compile"]);
    ane!("dump", package, "--asm").refused(2, "ANE2004", &["not a compiled program"]);
    let program = scratch.path("digits.hwx");
    ane!("compile", package, "-o", program).fine();
    ane!("compile", program, "-o", scratch.out("again.hwx")).refused(2, "ANE2004", &["compiled already", &program]);
    ane!("dump", program, "--part", "tail").refused(2, "ANE2004", &["\"tail\"", "header, segments"]);
    ane!("dump", program, "--td", "99").refused(2, "ANE2004", &["--td 99", "tasks found: 12"]);
    scratch.nothing_written();
}

#[test]
fn labels_must_match_the_classes() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let labels = scratch.file("labels.txt", "a\nb\n");
    ane!("run", package, "-i", image, "--labels", labels).refused(2, "ANE2004", &["2 labels for 10 classes", &labels]);
    ane!("run", package, "-i", image, "--labels", scratch.path("none")).refused(2, "ANE2001", &["cannot read"]);
}

#[test]
fn errors_are_json_when_asked_for() {
    let [package, ..] = digits();
    let cases: [(&[&str], &str); 6] = [
        (&["--json"], "ANE2004"),
        (&["frobnicate", "--json"], "ANE2004"),
        (&["run", "--json", "--bogus"], "ANE2004"),
        (&["run", "nowhere.hwx", "--json"], "ANE2001"),
        (&["targets", "z80", "--json"], "ANE2004"),
        (&["dump", &package, "--json"], "ANE2004"),
    ];
    for (arguments, code) in cases {
        let ran = run(&arguments.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        let document = ran.json("anemone.error/1");
        assert_eq!(document["code"], code, "{arguments:?}: {document}");
        assert!(document["message"].as_str().is_some_and(|m| !m.is_empty()), "{document}");
        assert_eq!(ran.err, "", "{arguments:?}");
    }
}

/// A ZIP archive with one stored file.
pub fn stored_zip(name: &str, data: &[u8]) -> Vec<u8> {
    let mut crc = !0u32;
    for &b in data {
        crc ^= b as u32;
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let le = |values: &[u32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let (version, size) = ([20, 0], data.len() as u32);
    // Flags, method, time, date; checksum and sizes; lengths of the name and of nothing.
    let shared = [vec![0; 8], le(&[!crc, size, size, name.len() as u32])].concat();
    let local = [b"PK\x03\x04", &version[..], &shared, name.as_bytes(), data].concat();
    let entry = [b"PK\x01\x02", &version[..], &version, &shared, &[0; 14], name.as_bytes()].concat();
    let end = [le(&[0x0605_4b50, 0, 0x1_0001, entry.len() as u32, local.len() as u32]), vec![0; 2]].concat();
    [local, entry, end].concat()
}
