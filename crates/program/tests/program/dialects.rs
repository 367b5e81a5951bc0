//! The two containers of compiler 9.509 that the book decodes (chapter 23), made by our writer and compared table by table.
//!
//! What the book does not say of them (options, paths, what holds the first two pages) is chosen here.

use anemone_facts::formats::dialects::{DIALECTS, ZIN_9509};
use anemone_facts::formats::hwx as rows;
use anemone_facts::{Field, layout};
use anemone_program::hwx::{Container, Options, from_program, name16_text};
use anemone_program::patch::{Part, apply, kernels};
use anemone_program::task::encode_stream;
use anemone_program::{Direction, Element, Nchw, Port, Program, Run, Strides, Task};

/// The descriptor of a planar task as this compiler writes it: registers of idle kernel streams are left out.
fn short() -> Task {
    let layout = &layout::H13;
    let mut task = Task::full(layout);
    let [kernel, ..] = task.runs.as_slice() else { panic!("the layout has blocks") };
    let at = |addr: u32, words: usize| Run::consecutive(addr, vec![0; words]);
    let split = [at(kernel.addr, 18), at(kernel.addr + 0xc8, 12)];
    task.runs.splice(..1, split);
    assert_eq!(task.word_count(), 0x7e);
    task
}

fn write(task: &mut Task, addr: u32, value: u32) {
    let run = task.runs.iter_mut().find(|r| addr >= r.addr && addr < r.addr + 4 * r.words.len() as u32);
    let run = run.expect("the descriptor has the register");
    let at = (addr - run.addr) as usize / 4;
    run.words[at] = value;
}

fn set(task: &mut Task, field: Field, value: u32) {
    task.set(&layout::H13, field, value).expect("it fits");
}

/// A kernel of so many streams, one after another from `base`, `stride` bytes apart.
fn streams(task: &mut Task, count: u32, base: u64, stride: u64) {
    let layout = &layout::H13;
    for i in 0..16 {
        write(task, 0x1f808 + 4 * i, if i < count { 0x81 } else { 0x80 });
        if i < count {
            task.set_bytes_at(layout, Field::CoeffBase, i, base + stride * i as u64).expect("it fits");
            task.set_bytes_at(layout, Field::CoeffSize, i, stride).expect("it fits");
        }
    }
    for (field, value) in [
        (Field::KernelDmaMaster, 1),
        (Field::KernelFmt, 2),
        (Field::Kbe0, 1),
        (Field::KBase0, Program::KERNEL_BAR as u32),
        (Field::ActiveNe, count.trailing_zeros()),
    ] {
        set(task, field, value);
    }
}

fn port(name: &str, direction: Direction, bar: u8, shape: [u32; 4], strides: [u64; 3], bytes: u64) -> Port {
    let [n, c, h, w] = shape;
    let [batch_bytes, plane_bytes, row_bytes] = strides;
    let strides = Strides { batch_bytes, plane_bytes, row_bytes };
    Port { name: name.into(), direction, bar, shape: Nchw { n, c, h, w }, strides, element: Element::Float16, bytes }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

/// Section, address, bytes and protection of every section, in the order of the file.
fn map(c: &Container) -> Vec<(String, u64, u64, u32)> {
    let all = c.segments().flat_map(|s| s.sections.iter().map(move |x| (s, x)));
    all.map(|(s, x)| (format!("{},{}", name16_text(&s.name), name16_text(&x.name)), x.address, x.bytes, s.protection))
        .collect()
}

/// Command ids and how many of each there are, in order.
fn census(c: &Container) -> Vec<(u32, usize)> {
    let mut out: Vec<(u32, usize)> = Vec::new();
    for command in &c.commands {
        match out.last_mut() {
            Some((id, n)) if *id == command.id() => *n += 1,
            _ => out.push((command.id(), 1)),
        }
    }
    out
}

fn identity() -> Program {
    let layout = &layout::H13;
    let (mut convert, mut product) = (short(), Task::full(layout));
    for i in 0..16 {
        write(&mut convert, 0x1f808 + 4 * i, 0x80);
    }
    // The registers that the book's record table shows.
    for task in [&mut convert, &mut product] {
        task.header[2] = 0x0408;
        task.header[4] = 0x28;
        write(task, 0x1c, 0x5000_a021);
        write(task, 0x20, 0x2041);
        write(task, 0x13838, 0x0100_2031);
        write(task, 0x17818, 0x0130_2031);
    }
    streams(&mut product, 16, 0, 512);
    for (field, value) in [(Field::Cin, 64), (Field::Cout, 64), (Field::NumGroups, 1), (Field::OcgSize, 2)] {
        set(&mut product, field, value);
    }
    let mut tasks = [convert, product];
    let stream = encode_stream(layout, &mut tasks).expect("two tasks");
    let mut program = Program {
        name: "main_ane".into(),
        layout,
        stream,
        first_task_words: 0x7e,
        kernel: vec![0; 0x2000].into(),
        scratch_bytes: 2 * rows::PAGE,
        ports: vec![
            port("t0", Direction::Input, 4, [1, 1, 1, 64], [128; 3], 0x80),
            port("t2", Direction::Output, 5, [1, 1, 1, 64], [128; 3], 0x80),
        ],
    };
    let diagonal: Vec<u16> = (0..64 * 64).map(|i| if i % 65 == 0 { 0x3c00 } else { 0 }).collect();
    let found = kernels(&program).expect("a chain");
    let kernel = found[0].as_ref().expect("plain fp16");
    assert_eq!((kernel.weights, kernel.stride()), (Some([64, 64, 1, 1]), Some(512)));
    let edits = kernel.edits(&program, Part::Weights, &diagonal).expect("64 by 64");
    program.edit_kernel(|kernel| apply(kernel, 0, &edits));
    program
}

#[test]
fn kernel_data_is_split_at_the_ceiling() {
    let program = identity();
    let mut longer = program.clone();
    longer.edit_kernel(|kernel| kernel.resize(rows::PAGE as usize * 2 + 100, 7));
    let options = Options { dialect: &ZIN_9509, kernel_section_bytes: rows::PAGE, ..Options::default() };
    let container = from_program(&longer, &options).expect("it fits");
    let read = Container::read(&container.write()).expect("it reads");
    let parts = read.kernel_sections();
    let names: Vec<String> = parts.iter().map(|s| name16_text(&s.segment)).collect();
    assert_eq!(names, ["__KERN_0", "__KERN_1", "__KERN_2"]);
    assert_eq!(parts.iter().map(|s| s.bytes).collect::<Vec<_>>(), [rows::PAGE, rows::PAGE, 100]);
    assert_eq!(read.program().expect("it lifts").kernel, longer.kernel);
    // Below the ceiling of the banner there is one section.
    let whole = from_program(&longer, &Options { dialect: &ZIN_9509, ..Options::default() }).expect("it fits");
    assert_eq!(whole.kernel_sections().len(), 1);
}

#[test]
fn the_identity_layer() {
    let program = identity();
    let mut options = Options {
        dialect: &ZIN_9509,
        netplist_path: "/model.mil".into(),
        output_path: "/model.hwx.tmp".into(),
        // Bytes show 23 element types, the book counts 24; the text of the last is not known.
        more_types: vec!["?:t24=".into()],
        first_tensor_number: Some(44),
        scratch_segments: 2,
        ..Options::default()
    };
    // The length of the paths decides the size of the commands.
    let short = from_program(&program, &options).expect("it fits").commands.iter().map(|c| c.bytes()).sum::<u64>();
    options.netplist_path.insert_str(0, &"p".repeat((0x32d8 - short) as usize));
    let container = from_program(&program, &options).expect("it fits");
    let bytes = container.write();

    // Table 23.9: header.
    let header: Vec<u32> = (0..7).map(|i| u32_at(&bytes, 4 * i)).collect();
    assert_eq!(header, [0xbeef_face, 0x80, 4, 2, 15, 0x32d8, 0x20_0000]);
    // The census: seven segments, two ports, three records, banner, note, symbols.
    let expected = [(0x19, 7), (0x40, 2), (4, 3), (8, 1), (0x31, 1), (2, 1)];
    assert_eq!(census(&container), expected);

    // Table 23.6: segment map.
    let first = container.segments().next().expect("the guard");
    assert_eq!((first.address, first.bytes, first.protection), (0, 0x4000, 0));
    let map = map(&container);
    for (name, address, bytes, protection) in [
        ("__FVMLIB,__const", 0x3000_8000, 0x80, 1),
        ("__FVMLIB,__data", 0x3000_c000, 0x80, 2),
        ("__TEXT,__text", 0x3001_0000, 0x474, 5),
        ("__KERN_0,__kern_0", 0x3001_8000, 0x2000, 1),
    ] {
        assert!(map.contains(&(name.to_string(), address, bytes, protection)), "{name}: {map:x?}");
    }
    // The ports: bodies of 24 bytes that bind t0 and t2.
    let windows: Vec<(String, u64)> = container.windows().map(|(_, w)| (w.name(), w.address)).collect();
    assert_eq!(windows, [("t0".into(), 0x3000_8000), ("t2".into(), 0x3000_c000)]);
    assert!(container.windows().all(|(_, w)| w.wide && w.fixed_bytes() + w.tail.len() == 32));

    // Table 23.7: records of the program.
    let text = &container.section("__TEXT", "__text").expect("the stream").data;
    assert_eq!(text[..10], [0, 0, 0, 0, 0, 0, 0x9c, 0, 0x08, 0x04]);
    assert_eq!(u32_at(text, 0x10), 0x28);
    for i in 0..16 {
        assert_eq!((u32_at(text, 0x34 + 4 * i), u32_at(text, 0x234 + 4 * i)), (0x80, 0x81), "partition {i}");
        assert_eq!(u32_at(text, 0x274 + 4 * i), 0x200 * i as u32, "offset {i}");
    }
    assert_eq!(text[0xc8..0xd0], [0x21, 0xa0, 0x00, 0x50, 0x41, 0x20, 0x00, 0x00]);
    assert_eq!(text[0x128..0x12c], [0x31, 0x20, 0x00, 0x01]);
    assert_eq!(text[0x470..0x474], [0x31, 0x20, 0x30, 0x01]);
    assert_eq!(program.tasks().expect("a chain").len(), 2);

    // The weight bank: 64 of the halfwords are 1.0, four in each of sixteen sub-kernels.
    let bank = &container.section("__KERN_0", "__kern_0").expect("the kernels").data;
    for sub in bank.chunks(512) {
        let ones = sub.chunks(2).filter(|h| **h == [0x00, 0x3c]).count();
        let others = sub.chunks(2).filter(|h| **h != [0x00, 0x3c] && **h != [0, 0]).count();
        assert_eq!((ones, others), (4, 0));
    }

    // Listing 23.5: element types and stride frames.
    let table = container.symtab().expect("symbols");
    let named =
        |kind: u8| -> Vec<String> { table.symbols.iter().filter(|s| s.kind == kind).map(|s| table.name(s)).collect() };
    let types = named(rows::SYMBOL_TYPE);
    assert_eq!(types.len(), 24);
    for text in ["int8:t2=r2;0;127", "float16:t5=r1;2;0", "float:t6=r1;4;0", "e4m3:t16=r1;1;0", "int4:t23=r1;-8;7"] {
        assert!(types.iter().any(|t| t == text), "{text}");
    }
    for start in ["void:t1", "uint8:t3", "int16:t4"] {
        assert!(types.iter().any(|t| t.starts_with(start)), "{start}");
    }
    let frame = &named(rows::SYMBOL_TENSOR)[0];
    assert_eq!(frame, "t0:t44=ar1;0;1;45=s128n:ar1;0;1;46=s128c:ar1;0;1;47=s128h:ar1;0;64;48=s2w:5");

    // Listing 23.4: the banner.
    let banner = container.banner().expect("a banner");
    for text in
        ["zin_ane_compiler v9.509.0", "-t h13", "--e4m3-overflow-setting=Saturate", "--split-kernel-section=true"]
    {
        assert!(banner.contains(text), "{text}");
    }

    // It reads, and lifts to the program it was made of.
    let read = Container::read(&bytes).expect("a container");
    assert!(read == container);
    let lifted = read.program().expect("a program");
    assert_eq!((&lifted.stream, &lifted.kernel, &lifted.ports), (&program.stream, &program.kernel, &program.ports));
    assert_eq!(lifted.scratch_bytes, program.scratch_bytes);
    assert_eq!(read.dialect().map(|d| d.name), Some("zin-9.509"));
}

#[test]
fn the_three_chained_tasks() {
    let layout = &layout::H13;
    let mut tasks = [Task::full(layout), short(), Task::full(layout)];
    // Table 23.8: what the book calls opcodes is the register of the convolution's window.
    for (task, word) in tasks.iter_mut().zip([0x5042_a063, 0x5000_a021, 0x5000_b021]) {
        write(task, 0x1c, word);
    }
    streams(&mut tasks[0], 8, 0, 0xc0);
    streams(&mut tasks[2], 4, 8 * 0xc0, 0x40);
    let stream = encode_stream(layout, &mut tasks).expect("three tasks");
    let program = Program {
        name: "main_ane".into(),
        layout,
        stream,
        first_task_words: tasks[0].word_count(),
        kernel: (0..8 * 0xc0 + 4 * 0x40).map(|i| i as u8).collect(),
        scratch_bytes: 0,
        ports: vec![
            port("t0_ane", Direction::Input, 4, [1, 8, 16, 16], [8192, 1024, 64], 8192),
            port("t5_ane", Direction::Output, 5, [1, 1, 1, 16], [64; 3], 64),
        ],
    };
    let options = Options { dialect: &ZIN_9509, ..Options::default() };
    let container = from_program(&program, &options).expect("it fits");
    let bytes = container.write();
    assert_eq!(bytes.len(), 0x1_0000);
    assert_eq!(bytes[..4], [0xce, 0xfa, 0xef, 0xbe]);

    // The chain at +0x1c: 0x000 to 0x300 to 0x500 to the end.
    let text = container.section("__TEXT", "__text").expect("the stream");
    let next: Vec<u32> = [0x01c, 0x31c, 0x51c].map(|at| u32_at(&text.data, at)).to_vec();
    assert_eq!(next, [0x300, 0x500, 0]);
    // Twelve relocations against the kernel section: eight of the first task, none of the second, four of the third.
    let of = |from: i32, to: i32| text.relocations.iter().filter(|r| (from..to).contains(&r.offset)).count();
    assert_eq!([of(0, 0x300), of(0x300, 0x500), of(0x500, 0x800)], [8, 0, 4]);
    let kernel_section = container.sections().position(|s| name16_text(&s.name) == "__kern_0").expect("kernels") + 1;
    assert!(text.relocations.iter().all(|r| r.target() as usize == kernel_section));

    // Windows have no bytes in the file; their sections stand on pages, those of stream data on 64 bytes.
    for s in container.segments().filter(|s| name16_text(&s.name) == "__FVMLIB") {
        assert_eq!((s.file_offset, s.file_bytes, s.sections[0].align_log2), (0, 0, 14));
    }
    let kernels = container.section("__KERN_0", "__kern_0").expect("kernels");
    assert_eq!(kernels.align_log2, 6);
    // The binding commands: size, pad, 64-bit address, eight bytes of name.
    let bound: Vec<Vec<u8>> = container
        .commands_at()
        .filter(|(_, c)| c.id() == rows::PORT64)
        .map(|(at, c)| bytes[at as usize + 8..at as usize + c.bytes() as usize].to_vec())
        .collect();
    let record =
        |address: u64, name: &[u8; 8]| [&[0x18, 0, 0, 0, 0, 0, 0, 0], &address.to_le_bytes()[..], name].concat();
    assert_eq!(bound, [record(0x3000_0000, b"t0_ane\0\0"), record(0x3000_4000, b"t5_ane\0\0")]);
    // Names of the records: procedure, input, output.
    let names: Vec<[String; 2]> = container.tensor_records().map(|(_, r)| r.names()).collect();
    assert_eq!(names, [["t0_ane", "t0_ane"], ["t5_ane@output", "t5_ane"]].map(|n| n.map(String::from)));

    // Tiles `_ne_0` to `_ne_15`: live ones at their streams, idle ones at the section's end.
    let table = container.symtab().expect("symbols");
    let tiles: Vec<_> = table.symbols.iter().filter(|s| table.name(s).contains("_ne_")).collect();
    let live: Vec<u64> = tiles.iter().filter(|s| s.desc == 2).map(|s| s.value - kernels.address).collect();
    let expected: Vec<u64> = (0..8).map(|i| 0xc0 * i).chain((0..4).map(|i| 8 * 0xc0 + 0x40 * i)).collect();
    assert_eq!(live, expected);
    let idle: Vec<_> = tiles.iter().filter(|s| s.desc == 0).collect();
    assert!(idle.iter().all(|s| s.value == kernels.address + kernels.bytes));
    assert_eq!((tiles.len(), idle.len()), (32, 8 + 12));
    assert!(tiles.iter().all(|s| s.section as usize == kernel_section));

    // Listing 23.6: stride frames.
    let frames: Vec<String> =
        table.symbols.iter().filter(|s| s.kind == rows::SYMBOL_TENSOR).map(|s| table.name(s)).collect();
    for (frame, strides) in frames.iter().zip([["s8192n", "s1024c", "s64h", "s2w"], ["s64n", "s64c", "s64h", "s2w"]]) {
        assert!(strides.iter().all(|s| frame.contains(s)), "{frame}");
    }
}

#[test]
fn every_dialect_holds_a_program() {
    let program = identity();
    for dialect in DIALECTS {
        let options = Options { dialect, ..Options::default() };
        let container = match from_program(&program, &options) {
            Ok(container) if dialect.written => container,
            Err(e) if !dialect.written => {
                assert!(e.to_string().contains(dialect.name), "{e}");
                continue;
            }
            other => panic!("{}: {other:?}", dialect.name),
        };
        let read = Container::read(&container.write()).expect("what is written can be read");
        assert!(read == container, "{}", dialect.name);
        assert_eq!(read.dialect().map(|d| d.name), Some(dialect.name));
        let lifted = read.program().unwrap_or_else(|e| panic!("{}: {e}", dialect.name));
        assert_eq!((&lifted.stream, &lifted.kernel, &lifted.ports), (&program.stream, &program.kernel, &program.ports));
        // Its own options give it back.
        let options = Options { scratch_segments: 1, ..Options::of(&read) };
        assert!(from_program(&lifted, &options).expect("it fits") == read, "{}", dialect.name);
    }
}
