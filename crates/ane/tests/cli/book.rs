//! The programs that the chapter on the container decodes, as the compiler makes them: the identity layer and three chained tasks.

use crate::ane;
use crate::harness::*;
use anemone_facts::formats::hwx as rows;
use anemone_program::hwx::{Container, name16_text};

/// A row-major matrix as MIL text writes it.
fn matrix(shape: &[usize], value: &mut dyn FnMut(&[usize]) -> f32) -> String {
    fn part(left: &[usize], at: &mut Vec<usize>, value: &mut dyn FnMut(&[usize]) -> f32) -> String {
        let Some((&extent, rest)) = left.split_first() else { return format!("{:?}", value(at)) };
        let each = (0..extent).map(|i| {
            at.push(i);
            let text = part(rest, at, value);
            at.pop();
            text
        });
        format!("[{}]", each.collect::<Vec<_>>().join(", "))
    }
    part(shape, &mut Vec::new(), value)
}

const HEAD: &str = "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3520.4.1\"}})]\n{\n";

/// A linear layer of that many numbers whose matrix is the identity.
pub(crate) fn identity(n: usize) -> String {
    let rows = matrix(&[n, n], &mut |at| if at[0] == at[1] { 1.0 } else { 0.0 });
    format!(
        "{HEAD}  func main<ios16>(tensor<fp16, [1, {n}]> t0) {{
    tensor<fp16, [{n}, {n}]> w = const()[name = string(\"w\"), val = tensor<fp16, [{n}, {n}]>({rows})];
    tensor<fp16, [1, {n}]> t2 = linear(x = t0, weight = w)[name = string(\"t2\")];
  }} -> (t2);\n}}\n"
    )
}

/// A convolution, a mean over the image, a product.
pub(crate) fn three() -> String {
    let weights = matrix(&[8, 8, 3, 3], &mut |at| (at.iter().sum::<usize>() % 7) as f32 * 0.25 - 0.75);
    let second = matrix(&[8, 4], &mut |at| (at[0] * 3 + at[1]) as f32 * 0.125 - 1.0);
    format!(
        "{HEAD}  func main<ios16>(tensor<fp16, [1, 8, 16, 16]> t0) {{
    tensor<fp16, [8, 8, 3, 3]> w = const()[name = string(\"w\"), val = tensor<fp16, [8, 8, 3, 3]>({weights})];
    tensor<int32, [4]> pad = const()[name = string(\"pad\"), val = tensor<int32, [4]>([1, 1, 1, 1])];
    string kind = const()[name = string(\"kind\"), val = string(\"custom\")];
    tensor<fp16, [1, 8, 16, 16]> t1 = conv(x = t0, weight = w, pad_type = kind, pad = pad)[name = string(\"t1\")];
    tensor<int32, [2]> axes = const()[name = string(\"axes\"), val = tensor<int32, [2]>([2, 3])];
    bool no = const()[name = string(\"no\"), val = bool(false)];
    tensor<fp16, [1, 8]> t2 = reduce_mean(x = t1, axes = axes, keep_dims = no)[name = string(\"t2\")];
    tensor<fp16, [8, 4]> m = const()[name = string(\"m\"), val = tensor<fp16, [8, 4]>({second})];
    tensor<fp16, [1, 4]> t5 = matmul(x = t2, y = m, transpose_x = no, transpose_y = no)[name = string(\"t5\")];
  }} -> (t5);\n}}\n"
    )
}

const BOOK: &[&str] = &["-t", "h13g", "--compat", "zin-9.509", "--convention", "book"];

/// Compiles a text with further arguments; the folder has `net.hwx` and what else was asked for.
fn compiled(scratch: &Scratch, text: &str, more: &[&str]) -> (Vec<u8>, Container) {
    let (model, out) = (scratch.path("net.mil"), scratch.path("out"));
    std::fs::write(&model, text).expect("written");
    let mut arguments: Vec<String> = ["compile", &model, "-o", &out].map(String::from).to_vec();
    arguments.extend(more.iter().map(|a| a.to_string()));
    run(&arguments).fine();
    let bytes = std::fs::read(scratch.path("out/net.hwx")).expect("the container");
    let container = Container::read(&bytes).expect("a container");
    (bytes, container)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Names of the symbols of a kind.
fn symbols(container: &Container, kind: u8) -> Vec<String> {
    let table = container.symtab().expect("symbols");
    table.symbols.iter().filter(|s| s.kind == kind).map(|s| table.name(s)).collect()
}

/// Section, address, bytes and protection of every section.
fn map(container: &Container) -> Vec<(String, u64, u64, u32)> {
    let all = container.segments().flat_map(|s| s.sections.iter().map(move |x| (s.protection, x)));
    all.map(|(protection, x)| (name16_text(&x.name), x.address, x.bytes, protection)).collect()
}

#[test]
fn the_identity_layer_is_the_one_of_the_chapter() {
    let scratch = Scratch::new();
    let mut arguments = BOOK.to_vec();
    arguments.extend(["--emit", "hwx"]);
    let (bytes, container) = compiled(&scratch, &identity(64), &arguments);
    // Table 23.9, and the census: seven segments, two ports, three records, banner, note, symbols.
    let commands: u64 = container.commands.iter().map(|c| c.bytes()).sum();
    let header: Vec<u32> = (0..7).map(|i| word(&bytes, 4 * i)).collect();
    assert_eq!(header, [0xbeef_face, 0x80, 4, 2, 15, commands as u32, 0x20_0000]);
    let count = |id: u32| container.commands.iter().filter(|c| c.id() == id).count();
    assert_eq!([0x19, 0x40, 4, 8, 0x31, 2].map(count), [7, 2, 3, 1, 1, 1]);
    // Table 23.6: the segment map.
    let guard = container.segments().next().expect("the guard");
    assert_eq!((guard.address, guard.bytes, guard.protection), (0, 0x4000, 0));
    let map = map(&container);
    for row in [
        ("__const", 0x3000_8000, 0x80, 1),
        ("__data", 0x3000_c000, 0x80, 2),
        ("__text", 0x3001_0000, 0x474, 5),
        ("__kern_0", 0x3001_8000, 0x2000, 1),
    ] {
        assert!(map.iter().any(|(name, at, size, p)| (name.as_str(), *at, *size, *p) == row), "{row:x?}: {map:x?}");
    }
    let windows: Vec<(String, u64)> = container.windows().map(|(_, w)| (w.name(), w.address)).collect();
    assert_eq!(windows, [("t0".into(), 0x3000_8000), ("t2".into(), 0x3000_c000)]);
    // Table 23.7: the records.
    let text = &container.section("__TEXT", "__text").expect("the stream").data;
    assert_eq!(text[..10], [0, 0, 0, 0, 0, 0, 0x9c, 0, 0x08, 0x04]);
    assert_eq!(word(text, 0x10), 0x28);
    for i in 0..16 {
        assert_eq!((word(text, 0x34 + 4 * i), word(text, 0x234 + 4 * i)), (0x80, 0x81), "partition {i}");
        assert_eq!(word(text, 0x274 + 4 * i), 0x200 * i as u32, "offset {i}");
    }
    assert_eq!(text[0xc8..0xd0], [0x21, 0xa0, 0x00, 0x50, 0x41, 0x20, 0x00, 0x00]);
    assert_eq!(text[0x128..0x12c], [0x31, 0x20, 0x00, 0x01]);
    assert_eq!(text[0x470..0x474], [0x31, 0x20, 0x30, 0x01]);
    // The bank: 64 of 8,192 bytes' halfwords are 1, four in each of sixteen sub-kernels.
    let bank = &container.section("__KERN_0", "__kern_0").expect("the kernels").data;
    for part in bank.chunks(512) {
        assert_eq!(part.chunks(2).filter(|h| **h == [0x00, 0x3c]).count(), 4);
        assert!(part.chunks(2).all(|h| *h == [0x00, 0x3c] || *h == [0, 0]));
    }
    // Listings 23.4 and 23.5; the number of a tensor's first type follows the 23 that are listed.
    let banner = container.banner().expect("a banner");
    for line in ["zin_ane_compiler v9.509.0", "3520.4.1", "-t h13g", "--e4m3-overflow-setting=Saturate"] {
        assert!(banner.contains(line), "{line}");
    }
    let types = symbols(&container, rows::SYMBOL_TYPE);
    for text in ["float16:t5=r1;2;0", "e4m3:t16=r1;1;0", "int4:t23=r1;-8;7"] {
        assert!(types.iter().any(|t| t == text), "{text}");
    }
    let frame = &symbols(&container, rows::SYMBOL_TENSOR)[0];
    assert_eq!(frame, "t0:t24=ar1;0;1;25=s128n:ar1;0;1;26=s128c:ar1;0;1;27=s128h:ar1;0;64;28=s2w:5");
}

#[test]
fn samples_have_one_page_and_another_marker() {
    let scratch = Scratch::new();
    let arguments = ["-t", "h13g", "--compat", "zin-9.509", "--emit", "hwx"];
    let (_, container) = compiled(&scratch, &identity(64), &arguments);
    let windows: Vec<u64> = container.windows().map(|(_, w)| w.address).collect();
    assert_eq!(windows, [0x3000_4000, 0x3000_8000]);
    assert_eq!(word(&container.section("__TEXT", "__text").expect("the stream").data, 0x10), 0x68);
}

#[test]
fn three_tasks_have_the_chapter_s_names_windows_and_strides() {
    let scratch = Scratch::new();
    let mut arguments = BOOK.to_vec();
    arguments.extend(["--emit", "hwx,e5"]);
    let (bytes, container) = compiled(&scratch, &three(), &arguments);
    assert_eq!(bytes.len(), 0x1_0000);
    let program = container.program().expect("a program");
    assert_eq!(program.tasks().expect("a chain").len(), 3);
    // The chain at +0x1c ends with 0; twelve streams of coefficients, eight and four, none in between.
    let text = container.section("__TEXT", "__text").expect("the stream");
    let (first, second) = (word(&text.data, 0x1c), word(&text.data, word(&text.data, 0x1c) as usize + 0x1c));
    assert_eq!((first, word(&text.data, second as usize + 0x1c)), (0x300, 0));
    let of =
        |from: u32, to: u32| text.relocations.iter().filter(|r| (from as i32..to as i32).contains(&r.offset)).count();
    assert_eq!([of(0, first), of(first, second), of(second, 0x1000)], [8, 0, 4]);
    // Names of procedure and tensors, windows, Listing 23.6.
    let procedures: Vec<String> = container.tensor_records().map(|(_, r)| r.procedure()).collect();
    assert_eq!(procedures, ["main_ane", "main_ane"]);
    let names: Vec<[String; 2]> = container.tensor_records().map(|(_, r)| r.names()).collect();
    assert_eq!(names, [["t0_ane", "t0_ane"], ["t5_ane@output", "t5_ane"]].map(|n| n.map(String::from)));
    let windows: Vec<(String, u64)> = container.windows().map(|(_, w)| (w.name(), w.address)).collect();
    assert_eq!(windows, [("t0_ane".into(), 0x3000_0000), ("t5_ane".into(), 0x3000_4000)]);
    let frames = symbols(&container, rows::SYMBOL_TENSOR);
    for (frame, strides) in frames.iter().zip([["s8192n", "s1024c", "s64h", "s2w"], ["s64n", "s64c", "s64h", "s2w"]]) {
        assert!(strides.iter().all(|s| frame.contains(s)), "{frame}");
    }
    // The descriptor finds the container under these names, and both give what the model gives.
    let (input, wanted) = (scratch.path("x.npy"), scratch.path("y.npy"));
    let image: Vec<f32> = (0..8 * 16 * 16).map(|i| (i % 23) as f32 * 0.0625 - 0.6875).collect();
    let data: Vec<u8> = image.iter().flat_map(|x| x.to_le_bytes()).collect();
    std::fs::write(&input, npy("<f4", false, "(1, 8, 16, 16)", &data)).expect("written");
    ane!("run", scratch.path("net.mil"), "-i", input, "-o", wanted).fine();
    ane!("run", scratch.path("out/net.e5"), "-i", input, "--expect", wanted, "--tolerance", "max=0.01").fine();
}
