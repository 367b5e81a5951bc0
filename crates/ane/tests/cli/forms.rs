//! Verbs on compiled forms: convert, diff, patch, explain, and dump's views.

use crate::ane;
use crate::harness::*;

/// The digits example compiled, as a container.
fn compiled(scratch: &Scratch) -> String {
    let [package, ..] = digits();
    let path = scratch.out("digits.hwx");
    ane!("compile", package, "-o", path).fine();
    path
}

#[test]
fn forms_are_converted_and_assembled() {
    let scratch = Scratch::new();
    let hwx = compiled(&scratch);
    for (form, word) in [("anefw", "firmware container"), ("anec", "stream"), ("bin", "stream"), ("e5", "dispatch")] {
        let (made, again) = (scratch.out(&format!("a.{form}")), scratch.out(&format!("b.{form}")));
        ane!("convert", hwx, "-o", made).fine();
        assert!(ane!("dump", made, "--summary").fine().out.contains(word), "{form}");
        let listing = scratch.file("listing", ane!("dump", made, "--asm").fine().out);
        ane!("asm", listing, "-o", again).fine();
        if form != "anec" {
            assert_eq!(std::fs::read(&made).expect("a file"), std::fs::read(&again).expect("a file"), "{form}");
        }
        if form != "e5" {
            let back = scratch.out("back.hwx");
            ane!("convert", made, "-o", back, "--compat", "zin-9.509").fine();
            ane!("dump", back, "--json").fine().json("anemone.dump/1");
        }
    }
    // It names the container of this folder by its hash.
    ane!("run", scratch.out("a.e5")).fine();
    ane!("convert", scratch.out("a.e5"), "-o", scratch.out("c.anec")).fine();
    ane!("run", scratch.out("c.anec")).fine();
    ane!("convert", hwx, "-o", scratch.out("x.exe")).refused(2, "ANE2004", &["exe", "--to", "anefw"]);
    ane!("convert", hwx, "-o", scratch.out("x.e5"), "--state", "a=b").refused(2, "ANE2004", &["no input is called a"]);
    ane!("convert", hwx, "-o", scratch.out("x.anec"), "--anec-data", "0x900").refused(2, "ANE2004", &["0x800"]);
    let [package, ..] = digits();
    ane!("compile", package, "-o", scratch.out("all/"), "--emit", "hwx,e5,anec,firmware").fine();
}

/// A convolution of one input, with weights from the places of their elements.
fn convolution(input: &str, weights: [usize; 4], output: &str, stride: usize) -> String {
    let count: usize = weights.iter().product();
    let mut at = 0;
    let mut part = |depth: usize| list(&weights[depth..], &mut at, count);
    let values = part(0);
    let weights = weights.map(|n| n.to_string()).join(", ");
    format!(
        "program(1.0)\n{{\n  func main<ios16>(tensor<fp16, [{input}]> x) {{
    tensor<fp16, [{weights}]> w = const()[name = string(\"w\"), val = tensor<fp16, [{weights}]>({values})];
    tensor<int32, [2]> st = const()[name = string(\"st\"), val = tensor<int32, [2]>([{}, {stride}])];
    string pad = const()[name = string(\"pad\"), val = string(\"valid\")];
    tensor<fp16, [{output}]> y = conv(x = x, weight = w, strides = st, pad_type = pad)[name = string(\"y\")];
  }} -> (y);\n}}\n",
        if input.starts_with("1, 1, 1,") { 1 } else { stride }
    )
}

/// Values of extents as MIL text has them: sixteenths by place.
fn list(extents: &[usize], at: &mut usize, count: usize) -> String {
    let Some((&extent, rest)) = extents.split_first() else {
        *at += 1;
        return format!("{:?}", (*at * 7 % count) as f32 / 16.0 % 1.0 - 0.5);
    };
    format!("[{}]", (0..extent).map(|_| list(rest, at, count)).collect::<Vec<_>>().join(", "))
}

#[test]
fn raw_streams_run_as_the_container_or_are_refused() {
    let scratch = Scratch::new();
    // Five columns at a time are channels side by side.
    let model = scratch.file("rows.mil", convolution("1, 1, 1, 400", [8, 1, 1, 10], "1, 8, 1, 79", 5));
    let (hwx, bin, wanted) = (scratch.out("rows.hwx"), scratch.out("rows.bin"), scratch.out("rows.npy"));
    ane!("compile", model, "-o", hwx).fine();
    assert!(ane!("dump", hwx, "--part", "regs").fine().out.contains("Src1Interleave = 5"));
    ane!("run", hwx, "-o", wanted).fine();
    ane!("convert", hwx, "-o", bin).fine();
    ane!("run", bin, "--expect", wanted, "--tolerance", "max=0").fine();
    // A raw stream's descriptor has its container beside it.
    ane!("convert", bin, "-o", scratch.out("again.e5")).fine();
    ane!("run", scratch.out("again.e5"), "--expect", wanted, "--tolerance", "max=0").fine();
    // Patches of four rows are read as another tensor.
    let model = scratch.file("patches.mil", convolution("1, 3, 64, 64", [8, 3, 4, 4], "1, 8, 16, 16", 4));
    let hwx = scratch.out("patches.hwx");
    ane!("compile", model, "-o", hwx).fine();
    let refused = ane!("convert", hwx, "-o", scratch.out("patches.bin"));
    refused.refused(1, "ANE1001", &["does not state its ports", "[1, 3, 64, 64]", "anec"]);
}

#[test]
fn a_function_that_is_not_there_is_named_with_those_that_are() {
    let scratch = Scratch::new();
    let [package, ..] = digits();
    ane!("run", package, "--function", "foo").refused(2, "ANE2002", &["no function is called `foo`", "main"]);
    let hwx = compiled(&scratch);
    ane!("run", hwx, "--function", "foo").refused(2, "ANE2002", &["foo", "main"]);
    for form in ["bin", "anec", "anefw", "e5"] {
        let made = scratch.out(&format!("f.{form}"));
        ane!("convert", hwx, "-o", made).fine();
        ane!("run", made, "--function", "foo").refused(2, "ANE2004", &["no function is called `foo`"]);
    }
}

#[test]
fn outputs_of_integers_are_integers_in_files() {
    let scratch = Scratch::new();
    let text = "program(1.0)\n{\n  func main<ios16>(tensor<fp16, [1, 3000]> x) {
    int32 axis = const()[name = string(\"axis\"), val = int32(1)];
    bool keep = const()[name = string(\"keep\"), val = bool(true)];
    tensor<int32, [1, 1]> y = reduce_argmax(x = x, axis = axis, keep_dims = keep)[name = string(\"y\")];
  } -> (y);\n}\n";
    let (model, out) = (scratch.file("largest.mil", text), scratch.out("y.npy"));
    let values: Vec<u8> = (0..3000).flat_map(|i| (if i == 2777 { 9f32 } else { 0.5 }).to_le_bytes()).collect();
    let input = scratch.file("x.npy", npy("<f4", false, "(1, 3000)", &values));
    // The host has every whole number: no warning is given.
    let told = ane!("run", model, "-i", input, "-o", out, "--strict-numerics").fine();
    assert!(!told.err.contains("inexact-integer"), "{told:?}");
    let bytes = std::fs::read(&out).expect("the output");
    assert!(String::from_utf8_lossy(&bytes).contains("'descr': '<i4'"), "{bytes:?}");
    assert_eq!(bytes[bytes.len() - 4..], 2777i32.to_le_bytes());
    let archive = scratch.out("y.npz");
    ane!("run", model, "-i", input, "-o", archive).refused(2, "ANE2004", &["y.npz", ".npy"]);
}

#[test]
fn loaded_images_are_written_verified_read_listed_and_compared() {
    let scratch = Scratch::new();
    let [package, image, _] = digits();
    let hwx = compiled(&scratch);
    let (one, two) = (scratch.out("one.loaded"), scratch.out("two.loaded"));
    ane!("compile", package, "-o", one).fine();
    ane!("convert", hwx, "-o", two, "--base", "0x50000000").fine();
    let wanted = ane!("run", hwx, "-i", image).fine().out;
    for (file, base) in [(&one, "0x30000000"), (&two, "0x50000000")] {
        assert_eq!(ane!("run", file, "-i", image).fine().out, wanted, "{base}");
        let listed = ane!("dump", file, "--part", "segments").fine();
        assert!(listed.out.contains(base), "{listed:?}");
    }
    let listed = ane!("dump", two, "--part", "relocs").fine();
    assert!(listed.out.contains("0x500"), "{listed:?}");
    ane!("diff", one, two).fine();
    ane!("convert", two, "-o", scratch.out("back.hwx")).fine();
    assert_eq!(ane!("run", scratch.out("back.hwx"), "-i", image).fine().out, wanted);
    ane!("convert", hwx, "-o", scratch.out("odd.loaded"), "--base", "0x50000001").refused(
        1,
        "ANE1005",
        &["multiple of 0x4000"],
    );
    // One byte of it changed, and it is not what was signed.
    let mut bytes = std::fs::read(&two).expect("a file");
    bytes[0x4000] ^= 1;
    std::fs::write(&two, bytes).expect("written");
    for verb in ["run", "dump"] {
        ane!(verb, two).refused(2, "ANE2002", &["signature"]);
    }
}

#[test]
fn programs_become_register_images_and_records() {
    let scratch = Scratch::new();
    let relu = scratch.relu();
    let (image, records) = (scratch.out("a.image"), scratch.out("a.records"));
    ane!("compile", relu, "-o", image).fine();
    ane!("compile", relu, "-o", records).fine();
    let listed = ane!("dump", image, "--image").fine().out;
    for part in ["Win =", "Cin =", "bar register=0x1344", "bar register=0x1442"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let listing = scratch.file("listing", &listed);
    ane!("asm", listing, "-o", scratch.out("b.image")).fine();
    let bytes = |name: &str| std::fs::read(scratch.out(name)).expect("a file");
    assert_eq!(bytes("a.image"), bytes("b.image"));
    // Forty-four bytes each, and few of them.
    assert!(bytes("a.records").len().is_multiple_of(44) && (3..=8).contains(&(bytes("a.records").len() / 44)));
    ane!("dump", records, "--image").fine();
    // Address slots of one load: the device addresses of its ports.
    let (container, loaded) = (scratch.out("a.hwx"), scratch.out("loaded.records"));
    ane!("compile", relu, "-o", container).fine();
    ane!("convert", container, "-o", loaded, "--base", "0x50000000").fine();
    assert_eq!(bytes("loaded.records").len(), bytes("a.records").len() + 2 * 44);
    let ports = ane!("dump", container, "--loaded", "0x50000000", "--part", "segments").fine().out;
    let slots = ane!("dump", loaded, "--image").fine().out;
    for slot in ["Src1AddrLo = ", "DstAddrLo = "] {
        let (_, rest) = slots.split_once(slot).expect("a slot");
        let address = rest.split_whitespace().next().expect("its address");
        assert!(ports.contains(&format!("address = {address} ;")), "{slot}{address}: {ports}");
    }
    for image in [&image, &records] {
        ane!("dump", image).refused(1, "ANE1001", &["version 10"]);
    }
    ane!("run", image).refused(1, "ANE1001", &["image"]);
    ane!("compile", relu, "-o", scratch.out("c.hwx"), "--sidecar").fine();
    let sidecar = std::fs::read_to_string(scratch.out("c.layout.json")).expect("beside it");
    assert!(sidecar.contains("anemone.layout/1") && sidecar.contains("\"strides\""), "{sidecar}");
    // Several tasks are several files.
    let [package, ..] = digits();
    ane!("compile", package, "-o", scratch.out("all/"), "--emit", "image,records").fine();
    assert!(std::path::Path::new(&scratch.out("all/digits_1.image")).exists());
    ane!("convert", compiled(&scratch), "-o", scratch.out("x.image")).refused(
        1,
        "ANE1005",
        &["has one task", "--emit image"],
    );
}

/// Two states, of which each run adds its input to one and that one to the other.
const STATEFUL: &str = r#"program(1.3)
{
    func main<ios18>(tensor<fp16, [1, 8]> x, state<tensor<fp16, [1, 8]>> sum, state<tensor<fp16, [1, 8]>> total) {
        tensor<fp16, [1, 8]> a = read_state(input = sum)[name = string("a")];
        tensor<fp16, [1, 8]> b = read_state(input = total)[name = string("b")];
        tensor<fp16, [1, 8]> c = add(x = a, y = x)[name = string("c")];
        tensor<fp16, [1, 8]> d = add(x = b, y = c)[name = string("d")];
        write_state(data = c, input = sum)[name = string("keep_c")];
        write_state(data = d, input = total)[name = string("keep_d")];
        tensor<fp16, [1, 8]> y = relu(x = d)[name = string("y")];
    } -> (y);
}
"#;

#[test]
fn dispatch_descriptors_keep_states() {
    let scratch = Scratch::new();
    let mil = scratch.file("s.mil", STATEFUL);
    let x = scratch.file("x.npy", npy("<f4", false, "(1, 8)", &1f32.to_le_bytes().repeat(8)));
    ane!("compile", mil, "--emit", "e5,hwx", "-o", scratch.out("forms/")).fine();
    let e5 = scratch.out("forms/s.e5");
    let input = format!("x={x}");
    for file in [&mil, &e5] {
        let values = |repeat: &str| {
            let report = ane!("run", file, "-i", input, "--repeat", repeat, "--json").fine().json("anemone.run/1");
            let outputs = report["outputs"].as_array().expect("outputs").clone();
            outputs.iter().find(|o| o["name"] == "y").expect("y")["values"][0].as_f64().expect("a number")
        };
        assert_eq!(["1", "2", "3", "4"].map(values), [1.0, 3.0, 6.0, 10.0], "{file}");
    }
    let hwx = scratch.out("forms/s.hwx");
    let out = scratch.out("t.e5");
    for (pair, word) in [("sum=total", "no output is called total"), ("sum=x", "no output is called x")] {
        ane!("convert", hwx, "-o", out, "--state", pair).refused(2, "ANE2004", &[word, "outputs"]);
    }
    let twice = ["sum=c", "sum=d"];
    ane!("convert", hwx, "-o", out, "--state", twice[0], "--state", twice[1]).refused(2, "ANE2004", &["share a port"]);
}

#[test]
fn descriptors_at_odds_with_their_container_are_refused() {
    let scratch = Scratch::new();
    ane!("convert", compiled(&scratch), "-o", scratch.out("a.e5")).fine();
    let listing = ane!("dump", scratch.out("a.e5"), "--asm").fine().out;
    let (before, after) = listing.split_once("aperture_va = ").expect("an aperture");
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    let moved = format!("{before}aperture_va = 4096{rest}");
    let listing = scratch.file("listing", moved);
    ane!("asm", listing, "-o", scratch.out("b.e5")).fine();
    ane!("run", scratch.out("b.e5")).refused(2, "ANE2002", &["its container has the window at"]);
}

#[test]
fn files_are_compared_by_field() {
    let scratch = Scratch::new();
    let hwx = compiled(&scratch);
    assert_eq!(ane!("diff", hwx, hwx).fine().out, "");
    let later = scratch.out("later.hwx");
    ane!("convert", hwx, "-o", later, "--compat", "zin-9.509").fine();
    let ran = ane!("diff", hwx, later);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.out.contains("segments: ") && ran.out.contains(" -> "), "{ran:?}");
    let ran = ane!("diff", hwx, later, "--part", "regs");
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "registers are the same: {ran:?}");
    let ran = ane!("diff", hwx, later, "--json");
    assert!(ran.json("anemone.diff/1")["changes"].as_array().is_some_and(|c| !c.is_empty()));
}

#[test]
fn weights_are_replaced() {
    let scratch = Scratch::new();
    let hwx = compiled(&scratch);
    let listed = ane!("patch", hwx, "--json").fine().json("anemone.patch/1");
    let kernel = listed["kernels"].as_array().and_then(|k| k.iter().find(|k| k["weights"].is_array()));
    let kernel = kernel.unwrap_or_else(|| panic!("no weights in {listed}"));
    let name = kernel["name"].as_str().expect("a name");
    let extents: Vec<usize> =
        kernel["weights"].as_array().expect("extents").iter().map(|n| n.as_u64().expect("a number") as usize).collect();
    let zero = scratch.file("zero.npy", zeros(&extents));
    let patched = scratch.out("patched.hwx");
    let ran = ane!("patch", hwx, "--weights", format!("{name}={zero}"), "-o", patched).fine();
    assert!(ran.err.contains("values changed"), "{ran:?}");
    let ran = ane!("diff", hwx, patched, "--part", "td,regs,segments,ports,symbols,relocs");
    assert_eq!(ran.code, Some(0), "only kernel data differs: {ran:?}");
    assert_eq!(ane!("diff", hwx, patched).code, Some(1));
    let ran = ane!("patch", patched, "--weights", format!("{name}={zero}"), "-o", scratch.out("p2.hwx")).fine();
    assert!(ran.err.contains(" 0 values changed"), "{ran:?}");
    let wrong = scratch.file("wrong.npy", zeros(&[3, 1]));
    let out = scratch.out("no.hwx");
    ane!("patch", hwx, "--weights", format!("{name}={wrong}"), "-o", out).refused(2, "ANE2003", &["takes", "[3, 1]"]);
    ane!("patch", hwx, "--weights", format!("td99={zero}"), "-o", out).refused(2, "ANE2004", &["td99", "kernels: "]);
    ane!("patch", hwx, "--weights", format!("{name}={zero}")).refused(2, "ANE2004", &["-o"]);
    assert!(!std::path::Path::new(&out).exists());
}

/// Containers of listed generations take values in the order of storage; nothing else changes.
#[test]
fn stored_weights_of_listed_generations_are_replaced() {
    let Some(golden) = std::env::var_os("ANE_GOLDEN_DIR") else { return };
    let hwx = std::path::Path::new(&golden).join("h16/conv64p_reference.hwx");
    let hwx = hwx.display();
    let scratch = Scratch::new();
    let told = ane!("patch", hwx).fine().out;
    assert!(told.contains("listed, not executed") && told.contains("td0 4096 values of fp16, 16 streams"), "{told}");
    let ones = scratch.file("ones.npy", filled(&[16, 256], 1.0));
    let patched = scratch.out("patched.hwx");
    let ran = ane!("patch", hwx, "--weights", format!("td0={ones}"), "-o", patched).fine();
    assert!(ran.err.contains("4096 values changed"), "{ran:?}");
    let ran = ane!("diff", hwx, patched, "--part", "header,segments,symbols,relocs,ident,ports,td,regs,lut");
    assert_eq!(ran.code, Some(0), "only kernel data differs: {ran:?}");
    let (before, after) = (std::fs::read(hwx.to_string()), std::fs::read(&patched));
    let (before, after) = (before.expect("a file"), after.expect("a file"));
    let changed: Vec<&[u8]> =
        before.chunks(2).zip(after.chunks(2)).filter(|(a, b)| a != b).map(|(_, value)| value).collect();
    assert_eq!(changed, [&[0x00, 0x3c][..]; 4096], "each is 1.0 now");
    let few = scratch.file("few.npy", zeros(&[16, 255]));
    ane!("patch", hwx, "--weights", format!("td0={few}"), "-o", scratch.out("no.hwx")).refused(
        2,
        "ANE2003",
        &["takes 4096"],
    );
}

#[test]
fn fields_are_explained() {
    let ran = ane!("explain", "cout").fine();
    assert!(ran.out.contains("h13: register") && ran.out.contains("evidence: "), "{ran:?}");
    assert!(ane!("explain", "0x13808").fine().out.contains("Src1Base"));
    let ran = ane!("explain", "win").fine();
    assert!(ran.out.contains("h13: register 0x00000") && ran.out.contains("h16: register 0x00004"), "{ran:?}");
    assert_eq!(ran.out.matches("input width").count(), 1, "the meaning stands once: {ran:?}");
    assert!(ane!("explain", "+0x1c").fine().out.contains("NextPointer"));
    let document = ane!("explain", "op-class", "--json").fine().json("anemone.explain/1");
    assert_eq!(document["codes"].as_array().map(Vec::len), Some(79), "{document}");
    let document = ane!("explain", "micro-op", "--json").fine().json("anemone.explain/1");
    assert_eq!(
        (document["codes"].as_array().map(Vec::len), &document["codes"][0x3f]["name"]),
        (Some(126), &"AFFINE_TRANFORM".into())
    );
    ane!("explain", "nonsense").refused(2, "ANE2004", &["nonsense"]);
    let scratch = Scratch::new();
    let hwx = compiled(&scratch);
    assert!(ane!("explain", "Cout", "--seen", hwx).fine().out.contains("seen: 0x"));
}

#[test]
fn containers_are_shown_loaded_and_counted() {
    let scratch = Scratch::new();
    let hwx = compiled(&scratch);
    let ran = ane!("dump", hwx, "--loaded", "0x48000000", "--part", "segments").fine();
    assert!(ran.out.contains("aperture __TEXT,__text") && ran.out.contains("0x48000000"), "{ran:?}");
    assert!(ran.out.contains("== anomalies: 0"), "{ran:?}");
    for other in ["--asm", "--summary", "--coverage"] {
        ane!("dump", hwx, "--loaded", "0x48000000", other).refused(2, "ANE2004", &["--loaded", other]);
    }
    ane!("dump", hwx, "--loaded", "0x48000001").refused(1, "ANE1005", &["0x48000001", "0x4000"]);
    let ran = ane!("dump", hwx, "--coverage").fine();
    assert!(ran.out.contains("unexplained 0 (0.00 %)"), "{ran:?}");
    let document = ane!("dump", hwx, "--coverage", "--json").fine().json("anemone.coverage/1");
    assert_eq!(document["programs"][0]["unexplained_bits"], 0);
    ane!("dump", hwx, "--summary", "--json").fine().json("anemone.summary/1");
}

#[test]
fn a_register_image_is_listed_and_comes_back() {
    let scratch = Scratch::new();
    let mut image = anemone_program::task::image::Image::default();
    image.set("Win", 64).expect("it fits");
    image.set_register(0x1344, 0x4000).expect("a register");
    let file = scratch.file("td.image", image.bytes());
    let listing = ane!("dump", file, "--image").fine().out;
    assert!(listing.starts_with("image version=") && listing.contains("Win = 64"), "{listing}");
    let text = scratch.file("td.ane-asm", &listing);
    let (same, records) = (scratch.out("same.image"), scratch.out("same.records"));
    ane!("asm", text, "-o", same).fine();
    assert_eq!(std::fs::read(&same).expect("an image"), image.bytes());
    ane!("asm", text, "-o", records).fine();
    assert_eq!(ane!("dump", records, "--image", "0x0").fine().out, listing);
    ane!("dump", records, "--image", "0x10000").refused(2, "ANE2002", &["register address"]);
    let cut = scratch.file("cut.image", &image.bytes()[..99]);
    ane!("dump", cut, "--image").refused(2, "ANE2002", &["an image of 0x63 bytes"]);
    let bars =
        scratch.file("bars.ane-asm", listing.replace("end\n", "bar register=0 bit=0 width=1 kind=offset\nend\n"));
    let patched = scratch.out("bars.image");
    ane!("asm", bars, "-o", patched).fine();
    assert!(ane!("dump", patched, "--image").fine().out.contains("bar register=0x0 bit=0 width=1 kind=offset"));
    ane!("asm", bars, "-o", scratch.out("no.records")).refused(1, "ANE1001", &["bars and live-ins"]);
    let live = "live-in \"W\" start=1 stop=99 step=2 register=0 bit=0 width=15 kind=offset\nend\n";
    let lives = scratch.file("live.ane-asm", listing.replace("end\n", live));
    ane!("asm", lives, "-o", patched).fine();
    assert!(ane!("dump", patched, "--image", "--live-in", "W=77").fine().out.contains("Win = 77"));
    ane!("dump", patched, "--image", "--live-in", "W=78").refused(2, "ANE2004", &["W=78", "steps of 2"]);
    ane!("dump", patched, "--image", "--live-in", "V=1").refused(2, "ANE2004", &["no live-in of this name"]);
    // By its content it is no task stream.
    ane!("run", patched).refused(1, "ANE1001", &["register image", "not executed"]);
}

/// The register image of version 10 has no magic number, only its size.
#[test]
fn a_network_of_the_size_of_an_image_is_a_network() {
    let scratch = Scratch::new();
    let text = "program(1.0) { func main<ios15>(tensor<fp16, [1, 4]> x) {
        tensor<fp16, [1, 4]> y = relu(x = x)[name = string(\"y\")]; } -> (y); }";
    let model = scratch.file("net.mil", format!("{text:948}"));
    assert_eq!(std::fs::metadata(&model).expect("a file").len(), 948);
    ane!("compile", model, "-o", scratch.out("net.hwx")).fine();
}
