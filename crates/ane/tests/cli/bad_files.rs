//! Files that are cut short, of a wrong kind, incomplete, or hold what is not read.

use crate::ane;
use crate::harness::*;

/// Cuts of a file: none of it, little, and up to its last byte.
fn cuts(length: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..8).map(|i| length * i / 8).chain([1, 2, 7, length - 1]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[test]
fn package_with_a_model_cut_short() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    let model = std::fs::read(example("digits.mlpackage").join(Package::MODEL)).expect("the model");
    for cut in cuts(model.len()) {
        package.change(Package::MODEL, |bytes| *bytes = model[..cut].to_vec());
        ane!("compile", package, "-o", scratch.out("x.hwx")).refused(2, "ANE2002", &["model", "digits.mlpackage"]);
    }
    scratch.nothing_written();
}

#[test]
fn package_with_a_manifest_cut_short_or_missing() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    package.change(Package::MANIFEST, |bytes| bytes.truncate(100));
    let ran = ane!("run", package, "-o", scratch.out("y.npy"));
    ran.refused(2, "ANE2002", &["Manifest.json", "line"]);
    std::fs::remove_file(package.path.join(Package::MANIFEST)).expect("it was there");
    ane!("run", package, "-o", scratch.out("y.npy")).refused(2, "ANE2002", &["Manifest.json", "known: "]);
    scratch.nothing_written();
}

#[test]
fn package_without_its_model_file() {
    let package = Scratch::new();
    let digits = package.digits();
    std::fs::remove_file(digits.path.join(Package::MODEL)).expect("it was there");
    ane!("run", digits).refused(2, "ANE2002", &[Package::MODEL]).says_absent();
}

#[test]
fn package_without_weights() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    std::fs::remove_file(package.path.join(Package::WEIGHTS)).expect("it was there");
    let ran = ane!("compile", package, "-o", scratch.out("x.hwx"));
    ran.refused(2, "ANE2002", &["weights/weight.bin"]).says_absent();
    scratch.nothing_written();
}

#[test]
fn package_with_weights_cut_short() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    let weights = std::fs::read(example("digits.mlpackage").join(Package::WEIGHTS)).expect("the weights");
    for cut in cuts(weights.len() - 64) {
        package.change(Package::WEIGHTS, |bytes| *bytes = weights[..cut].to_vec());
        let available = format!("{cut} are there");
        let ran = ane!("compile", package, "-o", scratch.out("x.hwx"));
        ran.refused(2, "ANE2002", &["weight", "needs bytes", &available]);
    }
    scratch.nothing_written();
}

#[test]
fn package_with_wrong_magic() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    package.change(Package::MODEL, |bytes| bytes[..4].fill(0xff));
    ane!("compile", package, "-o", scratch.out("x.hwx")).refused(2, "ANE2002", &["model: not understood"]);
    let package = scratch.digits();
    // The sentinel of the first record of weights.
    package.change(Package::WEIGHTS, |bytes| bytes[64..68].fill(0));
    let ran = ane!("compile", package, "-o", scratch.out("x.hwx"));
    ran.refused(2, "ANE2002", &["weight.bin", "is 0x0, expected 0xdeadbeef"]);
    scratch.nothing_written();
}

#[test]
fn package_with_an_unknown_operation() {
    let scratch = Scratch::new();
    let package = scratch.digits();
    package.change(Package::MODEL, |bytes| replace(bytes, b"\x0a\x04relu", b"\x0a\x04reLU"));
    let ran = ane!("compile", package, "-o", scratch.out("x.hwx"));
    ran.refused(1, "ANE1001", &["reLU", "is not supported", "digits.mlpackage"]);
    ane!("run", package, "-o", scratch.out("y.npy")).refused(1, "ANE1001", &["reLU"]);
    scratch.nothing_written();
}

#[test]
fn model_of_another_kind() {
    let scratch = Scratch::new();
    // Specification version 1, an empty neural network (field 500).
    let model = scratch.file("old.mlmodel", [0x08, 1, 0xa2, 0x1f, 0]);
    ane!("run", model).refused(2, "ANE2002", &["neural network, not an ML Program", "old.mlmodel"]);
}

#[test]
fn netplist_cut_short() {
    let scratch = Scratch::new();
    let relu = scratch.relu();
    let text = std::fs::read(&relu).expect("a netplist");
    for cut in cuts(text.len() - 2) {
        let path = scratch.file("cut.plist", &text[..cut]);
        ane!("compile", path, "-o", scratch.out("x.hwx")).refused(2, "ANE2002", &[&path]);
    }
    scratch.nothing_written();
}

#[test]
fn netplist_with_an_unknown_unit() {
    let scratch = Scratch::new();
    let path = scratch.file("odd.plist", netplist("Neutron", "", 3, 16));
    let ran = ane!("compile", path, "-o", scratch.out("x.hwx"));
    ran.refused(1, "ANE1001", &["Neutron", "layer", "is not supported", &path]);
    scratch.nothing_written();
}

#[test]
fn netplist_with_an_unknown_element_type() {
    let scratch = Scratch::new();
    let mut text = netplist("Neuron", "<key>Type</key><string>ReLU</string>", 3, 16).into_bytes();
    replace(&mut text, b"Float16", b"Float17");
    let path = scratch.file("odd.plist", text);
    ane!("run", path).refused(2, "ANE2002", &["`InputType`", "`Float17`", "input `x`", &path]);
}

#[test]
fn netplist_with_missing_keys_and_names() {
    let scratch = Scratch::new();
    for (from, to, parts) in [
        ("<key>Units</key>", "<key>Unites</key>", ["`Units` is missing", "network `small`"]),
        ("<key>InputWidth</key>", "<key>InputWitdh</key>", ["layer", "x"]),
        ("<key>Bottom</key><string>x<", "<key>Bottom</key><string>z<", ["no value is named `z`", "layer"]),
    ] {
        let mut text = netplist("Neuron", "<key>Type</key><string>ReLU</string>", 3, 16).into_bytes();
        replace(&mut text, from.as_bytes(), to.as_bytes());
        let path = scratch.file("odd.plist", text);
        let ran = ane!("compile", path, "-o", scratch.out("x.hwx"));
        if from.contains("InputWidth") {
            // A width that is not stated is 1; the misspelt key does not pass unseen.
            ran.fine();
            std::fs::remove_file(scratch.out("x.hwx")).expect("it was written");
            continue;
        }
        ran.refused(2, "ANE2002", &parts);
    }
    scratch.nothing_written();
}

#[test]
fn netplist_weights_missing_and_short() {
    let scratch = Scratch::new();
    let (netplist, weights) = scratch.conv();
    ane!("run", netplist).fine();
    std::fs::write(&weights, [0; 35]).expect("a shorter file");
    let ran = ane!("compile", netplist, "-o", scratch.out("x.hwx"));
    ran.refused(2, "ANE2002", &["unit `layer`", "conv.weights", "needs bytes 0..36, 35 are there"]);
    std::fs::remove_file(&weights).expect("it was there");
    let ran = ane!("compile", netplist, "-o", scratch.out("x.hwx"));
    ran.refused(2, "ANE2002", &["conv.weights"]).says_absent();
    scratch.nothing_written();
}

#[test]
fn weights_outside_the_models_folder() {
    let scratch = Scratch::new();
    scratch.file("secret", [0; 36]);
    let mut text = netplist("Neuron", "<key>Type</key><string>ReLU</string>", 3, 16).into_bytes();
    replace(&mut text, b"<string>Neuron</string>", b"<string>Conv</string>");
    replace(&mut text, b"<key>Type</key><string>ReLU</string>", CONV_FROM_ELSEWHERE.as_bytes());
    replace(&mut text, b"<string>conv.weights</string>", b"<string>../secret</string>");
    let path = scratch.file("inner/odd.plist", text);
    ane!("run", path).refused(2, "ANE2002", &["../secret"]);
}

const CONV_FROM_ELSEWHERE: &str = "\
<key>KernelWidth</key><integer>1</integer><key>KernelHeight</key><integer>1</integer><key>KernelIndex</key>
<integer>0</integer><key>KernelType</key><string>Float32</string><key>Type</key><string>Conv</string>";

#[test]
fn dimensions_past_the_chips_limits() {
    let scratch = Scratch::new();
    scratch.file("conv.weights", [0; 4 * 40]);
    let wide_kernel = CONV_FROM_ELSEWHERE.replacen("<integer>1</integer>", "<integer>40</integer>", 1);
    let mut refusals = 0;
    for (text, found, limit) in [
        (netplist("Softmax", "<key>Dimension</key><string>Width</string>", 1, 20000), "width is 20000", "0 to 16384"),
        (netplist("Softmax", "<key>Dimension</key><string>Channel</string>", 70000, 1), "is 70000", "0 to 65536"),
        (netplist("Conv", &wide_kernel, 1, 64), "kernel width is 40", "1 to 13"),
    ] {
        let path = scratch.file("large.plist", text);
        let ran = ane!("compile", path, "-t", "m1", "-o", scratch.out("x.hwx"));
        // The compiler may learn to split any of these; what it does not split it refuses with the numbers.
        if ran.code == Some(0) {
            std::fs::remove_file(scratch.out("x.hwx")).expect("it was written");
            continue;
        }
        ran.refused(1, "ANE1002", &[found, "supported: ", limit, "layer", &path]);
        refusals += 1;
    }
    assert!(refusals > 0, "no limit is left to be refused");
    scratch.nothing_written();
}

/// The three compiled forms of the digits package.
fn compiled(scratch: &Scratch) -> Vec<(String, Vec<u8>)> {
    let [package, ..] = digits();
    ane!("compile", package, "-o", scratch.path("forms/"), "--emit", "hwx,bin,anec").fine();
    ["hwx", "bin", "anec"]
        .map(|form| {
            let path = scratch.path(&format!("forms/digits.{form}"));
            let bytes = std::fs::read(&path).expect("a compiled file");
            (path, bytes)
        })
        .to_vec()
}

#[test]
fn compiled_files_cut_short() {
    let scratch = Scratch::new();
    for (path, bytes) in compiled(&scratch) {
        // The last bytes of a file may be padding, those of a raw stream are coefficients: a program that lacks some
        // is known by a task that reads past them.
        let end = bytes.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
        for cut in cuts(end) {
            std::fs::write(&path, &bytes[..cut]).expect("a shorter file");
            let ran = ane!("run", path, "-q", "-o", scratch.out("y.npy"));
            let code = if ran.code == Some(1) { ("ANE1004", 1) } else { ("ANE2002", 2) };
            let place: &[&str] = if ran.code == Some(1) { &["task"] } else { &["digits."] };
            ran.refused(code.1, code.0, place);
        }
    }
    scratch.nothing_written();
}

#[test]
fn compiled_file_with_wrong_magic() {
    let scratch = Scratch::new();
    let (path, mut bytes) = compiled(&scratch).swap_remove(0);
    bytes[..4].copy_from_slice(b"\xcf\xfa\xed\xfe");
    std::fs::write(&path, bytes).expect("a changed file");
    ane!("run", path, "-o", scratch.out("y.npy")).refused(2, "ANE2002", &["0xfeedfacf", "0xbeefface", &path]);
    ane!("dump", path).refused(2, "ANE2002", &["0xfeedfacf", "0xbeefface"]);
    scratch.nothing_written();
}

#[test]
fn files_of_no_known_kind() {
    let scratch = Scratch::new();
    let text = scratch.file("notes.txt", "some notes\n");
    ane!("dump", text).refused(2, "ANE2002", &["73 6f 6d 65", "known: ", ".mlpackage", ".hwx", &text]);
    let empty = scratch.file("empty.hwx", "");
    ane!("run", empty).refused(2, "ANE2002", &["is empty", &empty]);
    ane!("run", scratch.path("out")).refused(2, "ANE2002", &["a folder without Manifest.json", "known: "]);
    ane!("run", scratch.path("none.hwx")).refused(2, "ANE2001", &["none.hwx"]).says_absent();
    let noise = scratch.file("noise.bin", [0xff; 4096]);
    ane!("run", noise).refused(2, "ANE2002", &["no descriptor chain", &noise]);
    let noise = scratch.file("noise.anec", [0xff; 4096]);
    ane!("run", noise).refused(2, "ANE2002", &["needs", "0x1000", &noise]);
}

#[test]
fn compiled_for_a_generation_that_is_not_known() {
    let scratch = Scratch::new();
    let (path, mut bytes) = compiled(&scratch).swap_remove(0);
    bytes[8] = 77;
    std::fs::write(&path, bytes).expect("a changed file");
    ane!("run", path).refused(2, "ANE2002", &["subtype 77", "an unknown generation", "h13, M1, A14"]);
    ane!("dump", path, "--part", "header").fine();
}

#[test]
fn arrays_of_wrong_types_and_orders() {
    let scratch = Scratch::new();
    let relu = scratch.relu();
    let shape = "(1, 3, 1, 16)";
    let cases = [
        ("string", npy("<U4", false, shape, &[0; 48 * 16]), "element type <U4"),
        ("complex", npy("<c8", false, shape, &[0; 48 * 8]), "element type <c8"),
        ("pickled", npy("|O", false, shape, &[0; 48]), "element type |O"),
        ("huge", npy("<f4", false, "(9223372036854775807, 4)", &[]), "more elements than any file has"),
        ("magic", b"\x93NUMPX\x01\x00\x00\x00".to_vec(), "58], expected [93, 4e, 55, 4d, 50, 59]"),
        ("empty", Vec::new(), "begins with []"),
        ("picture", b"\x89PNG\r\n\x1a\n".to_vec(), "an image, not an array"),
        ("sound", b"RIFF\x24\0\0\0WAVE".to_vec(), "a sound, not an array"),
        ("nested", npy("(".repeat(60_000).as_str(), false, shape, &[]), "element type (((("),
    ];
    for (name, bytes, part) in cases {
        let path = scratch.file(&format!("{name}.npy"), bytes);
        let ran = ane!("run", relu, "-i", path, "-o", scratch.out("y.npy"));
        ran.refused(2, "ANE2003", &[part, &path]);
    }
    let archive = scratch.file("x.npz", "PK but no archive");
    ane!("run", relu, "-i", archive).refused(2, "ANE2003", &["not a .npz file", &archive]);
    scratch.nothing_written();
    // Any real type, either byte order.
    for (descr, size) in [("<f2", 2), (">f4", 4), ("<f8", 8), ("|u1", 1), ("<u2", 2), ("<i8", 8), ("|b1", 1)] {
        let path = scratch.file("x.npy", npy(descr, false, shape, &vec![0; 48 * size]));
        ane!("run", relu, "-i", path).fine();
    }
}

#[test]
fn array_cut_short() {
    let scratch = Scratch::new();
    let relu = scratch.relu();
    let whole = zeros(&[1, 3, 1, 16]);
    for cut in cuts(whole.len()) {
        let path = scratch.file("x.npy", &whole[..cut]);
        ane!("run", relu, "-i", path, "-o", scratch.out("y.npy")).refused(2, "ANE2003", &["x.npy"]);
    }
    let path = scratch.file("x.npy", &whole[..whole.len() - 1]);
    ane!("run", relu, "-i", path).refused(2, "ANE2003", &["truncated", "48 elements"]);
    scratch.nothing_written();
}

#[test]
fn listing_that_does_not_assemble() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    let program = scratch.path("digits.hwx");
    ane!("compile", package, "-o", program).fine();
    let listing = ane!("dump", program, "--asm").fine().out;
    let out = scratch.out("x.hwx");
    let cut = scratch.file("cut.asm", &listing[..listing.len() / 2]);
    ane!("asm", cut, "-o", out).refused(2, "ANE2002", &["line", &cut]);
    let typo = scratch.file("typo.asm", listing.replacen("segment", "segmant", 1));
    ane!("asm", typo, "-o", out).refused(2, "ANE2002", &["line", "segmant"]);
    let huge = scratch.file("huge.asm", listing.replacen("bytes=0x", "bytes=0xfffffffffff", 1));
    ane!("asm", huge, "-o", out).refused(2, "ANE2002", &["line 1"]);
    let binary = scratch.file("binary.asm", [0xff, 0xfe]);
    ane!("asm", binary, "-o", out).refused(2, "ANE2002", &["byte 0 is not UTF-8"]);
    let empty = scratch.file("empty.asm", "");
    ane!("asm", empty, "-o", out).refused(2, "ANE2002", &[]);
    ane!("asm", scratch.path("none.asm"), "-o", out).refused(2, "ANE2001", &["none.asm"]);
    scratch.nothing_written();
}

/// Inputs by which a gather would read beyond its operand: refused with the place and the extent, compiled and evaluated.
#[test]
fn places_beyond_an_axis() {
    let scratch = Scratch::new();
    let operation =
        "gather(axis = int32(0), indices = q, x = x, validate_indices = bool(false), batch_dims = int32(0))";
    let text = format!(
        "program(1.3)\n{{\n  func main<ios18>(tensor<fp16, [4]> x, tensor<int32, [2]> p) {{\n    \
         tensor<int32, [2]> q = add(x = p, y = int32(1))[name = string(\"q\")];\n    \
         tensor<fp16, [2]> y = {operation}[name = string(\"y\")];\n  }} -> (y);\n}}\n"
    );
    let model = scratch.file("gather.mil", text);
    let array = |name: &str, data: &[f32]| {
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        scratch.file(name, npy("<f4", false, &format!("({},)", data.len()), &bytes))
    };
    let x = format!("x={}", array("x.npy", &[1.0, 2.0, 3.0, 4.0]));
    for (place, fits) in [(2.0, true), (-5.0, true), (3.0, false), (-6.0, false)] {
        let p = format!("p={}", array("p.npy", &[0.0, place]));
        for (way, code) in [(&["--numerics", "fast"][..], "ANE2003"), (&["--reference"], "ANE2002")] {
            let all = [&["run", &model, "--input", &x, "--input", &p], way].concat();
            let ran = run(&all.into_iter().map(str::to_string).collect::<Vec<_>>());
            match fits {
                true => drop(ran.fine()),
                false => drop(ran.refused(2, code, &[&format!("{}", place + 1.0), "axis of extent 4"])),
            }
        }
    }
}

#[test]
fn an_operand_that_nothing_defines_is_refused_by_check_as_by_compile() {
    let scratch = Scratch::new();
    let text = "program(1.0)\n{\n func main<ios16>(tensor<fp16, [1, 4]> x) {\n  tensor<fp16, [1, 4]> a = add(x = x, y = y)[name = string(\"a\")];\n  \
                tensor<fp16, [1, 4]> y = relu(x = a)[name = string(\"y\")];\n } -> (y);\n}\n";
    let model = scratch.file("cycle.mil", text);
    for verb in ["check", "compile", "run"] {
        let output = if verb == "compile" { vec!["-o".to_string(), scratch.out("x.hwx")] } else { Vec::new() };
        let arguments = [vec![verb.to_string(), model.clone()], output].concat();
        run(&arguments).refused(2, "ANE2002", &["add `a`", "operand `y` is used before it is defined"]);
    }
    scratch.nothing_written();
}

#[test]
fn an_argument_that_an_operation_does_not_have_is_refused_by_check_validate_and_compile() {
    let scratch = Scratch::new();
    let text = "program(1.3)\n{\n  func main<ios18>(tensor<fp16, [1, 8, 4, 4]> x) {\n    \
                int32 a = const()[name = string(\"a\"), val = int32(1)];\n    \
                tensor<fp16, [1, 8, 4, 4]> z = relu(x = x, axis = a)[name = string(\"z\")];\n  } -> (z);\n}\n";
    let model = scratch.file("two.mil", text);
    let reason = "`z`: relu is not supported: it has no argument `axis`";
    ane!("compile", model, "-o", scratch.out("x.hwx")).refused(1, "ANE1001", &[reason]);
    for command in ["check", "validate"] {
        let ran = ane!(command, model);
        assert!(ran.out.contains(reason), "{command}: {}", ran.out);
    }
    scratch.nothing_written();
}
